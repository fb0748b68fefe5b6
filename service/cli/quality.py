"""The commands that check answers: evidence records and quotes, judged questions, and which notes were chosen."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from service.cli.console import err, out, print_json
from service.cli.naming import in_vault
from service.cli.options import (
    Commands,
    client_of,
    json_option,
    options_given,
    resources_of,
    state_option,
    vault_option,
    view_of,
)
from service.cli.render import where_of
from service.usecases.text import counted

if TYPE_CHECKING:
    from pydantic import ValidationError

    from service.schemas.evidence import Cited
    from service.usecases.evidence import Records

app = click.Group()
record_argument = click.argument(
    "record", metavar="ID", help="The id of a record, as `evidence list` shows it."
)


def _records(given: dict[str, Any]) -> Records:
    """Open the records of the vault that the options name, or of the only running one."""
    from service.usecases.evidence import Records  # noqa: PLC0415 - help has to be instant

    return Records(view_of(given))


def _read_quotes(file: str) -> list[Cited]:
    from pydantic import ValidationError  # noqa: PLC0415

    from service.schemas.evidence import Cited  # noqa: PLC0415

    found = []
    for number, value in enumerate(_values(file, _read_file(file)), start=1):
        try:
            found.append(Cited.model_validate(value))
        except ValidationError as error:
            raise click.BadParameter(
                f'{file}, quote {number}: {_first_fault(error)}; a quote is {{"path": …, "quote": …}}'
            ) from error
    return found


def _read_file(file: str) -> str:
    try:
        return sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise click.BadParameter(f"{file} cannot be read ({error}); name a file of JSON, or -") from error


def _first_fault(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"


def _values(file: str, text: str) -> list[Any]:
    """Return the quotes of a JSON array, of the body of `POST /verify`, or of JSON lines."""
    try:
        whole = json.loads(text)
    except ValueError:
        try:
            return [json.loads(line) for line in text.splitlines() if line.strip()]
        except ValueError as error:
            raise click.BadParameter(
                f"{file} is neither JSON nor JSON lines ({error}); correct it"
            ) from error
    if isinstance(whole, dict) and isinstance(whole.get("quotes"), list):
        return list(whole["quotes"])
    return whole if isinstance(whole, list) else [whole]


evidence = Commands("evidence", help="Keep the passages that answered a question, and verify quotes.")
app.add_command(evidence)


@evidence.command("new")
@click.argument("question")
@click.option("-k", type=click.IntRange(1, 50), default=10, help="How many notes.")
@vault_option
@state_option
@json_option
def new(question: str, k: int, vault: Path | None, state: Path | None, *, as_json: bool) -> None:
    """Search, and store the results as a record."""
    answer = _records(options_given(vault, state)).ask(question, k).model_dump(mode="json")
    if as_json:
        print_json(answer)
    else:
        _print_record(answer)


@evidence.command("list")
@click.option("--limit", type=click.IntRange(1, 1_000), default=100, help="Maximum number of records.")
@vault_option
@state_option
@json_option
def list_records(limit: int, vault: Path | None, state: Path | None, *, as_json: bool) -> None:
    """List the newest records."""
    answer = _records(options_given(vault, state)).newest(limit).model_dump(mode="json")
    if as_json:
        print_json(answer)
        return
    for one in answer["records"]:
        counts = f"notes: {one['hits']}, citations: {one['citations']}"
        out.say(f"{one['id']}  {one['asked_at']}  {one['question']}  ({counts})")
    out.print(f"{answer['count']} {'record' if answer['count'] == 1 else 'records'}", style="dim")


@evidence.command("show")
@record_argument
@vault_option
@state_option
@json_option
def show(record: str, vault: Path | None, state: Path | None, *, as_json: bool) -> None:
    """Show a record with verified citations, and whether its notes have changed since."""
    answer = _records(options_given(vault, state)).show(record).model_dump(mode="json")
    if as_json:
        print_json(answer)
    else:
        _print_record(answer)


@evidence.command("write")
@record_argument
@click.argument("file", metavar="FILE|-", help='JSON: {"citations": [{"path": …, "quote": …}], "notes": …}.')
@vault_option
@state_option
@json_option
def write(record: str, file: str, vault: Path | None, state: Path | None, *, as_json: bool) -> None:
    """Write a curated result into a record, in place of an earlier one, and verify its quotes."""
    from pydantic import ValidationError  # noqa: PLC0415

    from service.schemas.evidence import WriteBack  # noqa: PLC0415

    records = _records(options_given(vault, state))
    try:
        result = WriteBack.model_validate({"id": record, **_values(file, _read_file(file))[0]})
    except (IndexError, TypeError, ValidationError) as error:
        fault = _first_fault(error) if isinstance(error, ValidationError) else "not an object"
        raise click.BadParameter(
            f"{file}: {fault}; `everindex evidence write -h` shows what a result is"
        ) from error
    if result.id != record:
        raise click.BadParameter(f"{file} is the result of the record {result.id}, not of {record}")
    answer = records.write_back(result).model_dump(mode="json")
    if as_json:
        print_json(answer)
    else:
        _print_record(answer)


@evidence.command("delete")
@record_argument
@vault_option
@state_option
def delete_record(record: str, vault: Path | None, state: Path | None) -> None:
    """Delete a record and the texts that it stores."""
    answer = _records(options_given(vault, state)).delete(record)
    out.print(f"{answer.deleted} is deleted")


@evidence.command("verify")
@click.argument("file", metavar="FILE|-", help="A JSON array, or JSON lines.")
@vault_option
@state_option
@json_option
def verify_quotes(file: str, vault: Path | None, state: Path | None, *, as_json: bool) -> None:
    """Compare quotes with the notes that they cite.

    Exit code 1 unless every quote is there, word for word.
    """
    answer = _records(options_given(vault, state)).verify(_read_quotes(file)).model_dump(mode="json")
    if as_json:
        print_json(answer)
    else:
        for one in answer["quotes"]:
            out.say(
                f"{one['citation_reason']:<14}{one['path']}  {one['quote'] or ''}",
            )
        out.print(answer["citations_status"], style="dim")
    if answer["citations_status"] in ("has_mismatch", "unverifiable"):
        sys.exit(1)


def _print_record(answer: dict[str, Any]) -> None:
    def line(text: str) -> None:
        out.say(text)

    match = f"  (match: {answer['match']})" if answer["match"] else ""
    line(f"{answer['id']}  {answer['question']}{match}")
    for hit in answer["evidence"]:
        line(f"  {where_of(hit)}{_since(hit)}")
    for cited in answer["citations"]:
        line(f"  {cited['citation_reason']:<14}{cited['path']}{_since(cited)}  {cited['quote'] or ''}")
    if answer["notes"]:
        line(answer["notes"])
    out.print(answer["citations_status"], style="dim")


def _since(source: dict[str, Any]) -> str:
    if source["source_gone"]:
        return "  (gone since)"
    return "  (changed since)" if source["source_changed"] else ""


# `everindex eval`: how good the answers to the user's own questions are, and what each layer adds.


if TYPE_CHECKING:
    from rich.table import Table

    from service.usecases.explain import AskAnew, Judged
    from service.usecases.search import View
    from workers.resources import Resources


_MOST_NAMED = 5
_EXPAND = "chat.expand=true"


@app.command("eval")
@vault_option
@state_option
@click.option(
    "--without",
    metavar="LAYER[,LAYER]",
    help="Measure what each of these layers adds, as in decay,graph (a wrong name lists all layers).",
)
@click.option(
    "--compare",
    "settings",
    multiple=True,
    metavar="SETTING=VALUE",
    help="Measure what a setting of _domains.yaml would add, as in lexical.weight=0.5 (may be repeated)."
    " embedding=FOLDER, or a model's name, indexes the vault with that model first; chat.expand=true has the model of"
    " conversations add to questions of one or two words.",
)
@json_option
def evaluate(
    vault: Path | None, state: Path | None, without: str | None, settings: tuple[str, ...], *, as_json: bool
) -> None:
    """Measure the answers to the judged questions in _queries.yaml.

    Without options: the measures after each step of an answer, and the questions that lost most.
    """
    from pipelines.domains import with_setting  # noqa: PLC0415
    from pipelines.search.evaluate import read_judged  # noqa: PLC0415
    from service.usecases.explain import compare, measure_steps, not_indexed  # noqa: PLC0415

    given, layers = options_given(vault, state), _layers(without)
    view = view_of(given)
    judged: Judged = {query: (query, of) for query, of in read_judged(view.resources.root).items()}
    missing = not_indexed(view, judged)
    named = {one: [part.strip() for part in one.split("=", 1)] for one in settings}
    models = {one: parts[1] for one, parts in named.items() if parts[0] == "embedding" and parts[1:] > [""]}
    plain = [one for one in settings if one not in models and one != _EXPAND]
    for one in plain:
        with_setting(view.resources.registry(), one)  # a wrong one is refused before an index is made
    with ExitStack() as kept:
        others = {one: (asks, judged) for one, asks in _indexed(models, view.resources, kept).items()}
        if _EXPAND in settings:
            others[_EXPAND] = (lambda: view_of(given), _expanded(view, judged))
        with err.status(f"Asking {counted(len(judged), 'question')} ..."):
            if layers or settings:
                answer = asdict(compare(lambda: view_of(given), judged, layers, plain, others))
            else:
                answer = asdict(measure_steps(view, judged))
    if as_json:
        print_json(answer | {"not_indexed": missing})
        return
    if layers or settings:
        _print_changes(answer)
    else:
        _print_steps(answer)
    _print_missing(missing)


def _indexed(models: Mapping[str, str], resources: Resources, kept: ExitStack) -> dict[str, AskAnew]:
    """Index the vault with each model, by its setting; return what asks these indexes, which `kept` removes."""
    from service.cli.progress import IndexProgress  # noqa: PLC0415
    from service.usecases.explain import indexed_with  # noqa: PLC0415

    others = {}
    for setting, model in models.items():

        def tell(seconds: float | None, model: str = model) -> None:
            minutes = "" if seconds is None else f", about {max(1, round(seconds / 60))} min"
            err.say(f"indexing the vault with {model}{minutes}")

        with IndexProgress(err) as bar:
            others[setting] = kept.enter_context(indexed_with(resources, model, tell, bar.show))
    return others


def _expanded(view: View, judged: Judged) -> Judged:
    """Return the questions as `chat.expand` has them searched. Raises ChatOffError, ChatModelError."""
    from service.usecases.chat.conversations import Conversations  # noqa: PLC0415

    async def ask() -> Judged:
        chats = Conversations(view)
        try:
            return {name: (await chats.expanded(typed), grades) for name, (typed, grades) in judged.items()}
        finally:
            await chats.close()

    return asyncio.run(ask())


def _layers(given: str | None) -> list[str]:
    """Return the named layers. Raises BadParameter for an unknown one."""
    if given is None:
        return []
    from pipelines.search.rank import SIGNALS  # noqa: PLC0415

    names = [name.strip() for name in given.split(",")]
    for name in names:
        if name not in SIGNALS:
            raise click.BadParameter(f"{name!r} is not a layer; the layers are {', '.join(SIGNALS)}")
    return list(dict.fromkeys(names))


def _print_steps(answer: dict[str, Any]) -> None:
    from pipelines.search.ablation import RETRIEVERS  # noqa: PLC0415

    table = _table("step", _asked(answer))
    last = list(answer["means"])[-1]
    for name, means in answer["means"].items():
        step = f"{name} alone" if name in RETRIEVERS else "both, fused" if name == "fused" else f"then {name}"
        table.add_row(step, *map(_number, means.values()), style="bold" if name == last else None)
    out.print(table)
    out.print("The last step is the answer of a search.")
    if answer["losses"]:
        out.print("\nThe questions that lost most from one step to the next (nDCG@10):")
    for loss in answer["losses"]:
        out.say(f"  {-loss['lost']:+.3f}  {loss['before']} → {loss['after']}  {loss['query']}")


def _print_changes(answer: dict[str, Any]) -> None:
    table = _table("answers", f"{_asked(answer)} in {counted(answer['runs'], 'cold run')}")
    table.add_row("as they are", *map(_number, answer["as_it_is"].values()), style="bold")
    for change in answer["changes"]:
        name = f"without {change['name']}" if change["kind"] == "without" else change["name"]
        table.add_row(name, *map(_number, change["means"].values()))
    out.print(table)
    for change in answer["changes"]:
        out.print(f"{change['name']}: {_verdict(change['verdict'], change['kind'])}")


def _verdict(verdict: dict[str, Any] | None, kind: str) -> str:
    if verdict is None:
        return "the runs differ, so no verdict"
    adds = "adds" if kind == "without" else "would add"
    return (
        f"{verdict['word']}. It {adds} {verdict['gain']:+.3f} to nDCG@10 (95 % interval {verdict['low']:+.3f} to"
        f" {verdict['high']:+.3f}, p = {verdict['p']:.3f}; {verdict['differing']} of"
        f" {counted(verdict['questions'], 'question differs', 'questions differ')})"
    )


def _table(first: str, title: str) -> Table:
    from rich.table import Table  # noqa: PLC0415

    table = Table(first, title=title)
    for measure in ("nDCG@10", "recall@10", "recall@60", "MRR"):
        table.add_column(measure, justify="right")
    return table


def _asked(answer: dict[str, Any]) -> str:
    return f"{counted(answer['questions'], 'question')}, asked of all domains"


def _number(value: float) -> str:
    return f"{value:.3f}"


def _print_missing(missing: list[str]) -> None:
    if missing:
        named = ", ".join(missing[:_MOST_NAMED]) + (" ..." if len(missing) > _MOST_NAMED else "")
        out.say(
            f"\n{counted(len(missing), 'note')} of _queries.yaml not indexed: {named}"
            " (`everindex why NOTE` says why)",
            "yellow",
        )


# The commands of attention: list the notes that were chosen, and delete what was recorded.


@app.group(cls=Commands, invoke_without_command=True)
@vault_option
@state_option
@json_option
@click.pass_context
def attention(context: click.Context, vault: Path | None, state: Path | None, *, as_json: bool) -> None:
    """List which notes you and your agents chose, if it is recorded."""
    if context.invoked_subcommand is None:
        context.invoke(list_attended, vault=vault, state=state, as_json=as_json)
    elif vault or state or as_json:
        raise click.UsageError(f"options follow the command: attention {context.invoked_subcommand} ...")


@attention.command("list")
@vault_option
@state_option
@json_option
def list_attended(vault: Path | None, state: Path | None, *, as_json: bool) -> None:
    """List the notes that were chosen, those with the most attention first."""
    from dataclasses import asdict  # noqa: PLC0415 - help has to be instant
    from datetime import UTC, datetime  # noqa: PLC0415 - likewise

    from service.usecases.operations import attended_notes  # noqa: PLC0415 - likewise

    given = options_given(vault, state)
    notes = attended_notes(resources_of(given), datetime.now(UTC))
    # A service that was started before an upgrade does not say.
    recording = client_of(given).call("GET", "/health").get("attention", False)
    if as_json:
        print_json({"recording": recording, "notes": [asdict(note) for note in notes]})
        return
    for note in notes:
        times = ", ".join(f"{how} {count}" for how, count in note.times.items())
        out.say(f"{note.attention:6.2f}  {note.path}  ({times}; last {note.last})")
    state_of = "on" if recording else "off: the setting `attention` turns it on"
    out.say(f"{counted(len(notes), 'note')}; recording is {state_of}", "dim")


@attention.command("delete")
@click.argument("path", metavar="[NOTE]", required=False, help="A note's path in the vault.")
@click.option("--all", "every", is_flag=True, help="Delete what was recorded of all notes.")
@vault_option
@state_option
def delete_attention(path: str | None, vault: Path | None, state: Path | None, *, every: bool) -> None:
    """Delete what was recorded of a note, or of all notes."""
    if (path is None) != every:
        raise click.UsageError("name a note, or give --all for all notes")
    from service.usecases.operations import forget  # noqa: PLC0415 - help has to be instant

    resources = resources_of(options_given(vault, state))
    deleted = forget(resources, in_vault(resources.root, path) if path else None)
    out.say(f"deleted {counted(deleted, 'choice')}")
