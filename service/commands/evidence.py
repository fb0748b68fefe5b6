"""The commands of evidence: check quotes against the notes that they cite, and manage evidence records."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from service.commands.console import out, print_json
from service.commands.render import where_of
from service.commands.terminal import (
    Commands,
    json_option,
    options_given,
    questions_of,
    state_option,
    vault_option,
)

if TYPE_CHECKING:
    from service.usecases.evidence import Records
    from service.usecases.schemas.evidence import Cited

app = click.Group()
record_argument = click.argument("record", metavar="ID", help="The id of a record, as `rx list` shows it.")


def _records(given: dict[str, Any]) -> Records:
    """Open the records of the vault that the options name, or of the only running one."""
    from service.usecases.evidence import Records  # noqa: PLC0415 - help has to be instant

    return Records(questions_of(given))


@app.command("verify-quotes")
@click.argument("file", metavar="FILE|-", help="A JSON array, or JSON lines.")
@vault_option
@state_option
@json_option
def verify_quotes(file: str, vault: Path | None, state: Path | None, *, as_json: bool) -> None:
    """Compare quotes with the notes that they cite; exit code 1 unless every quote is there, word for word."""
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


def _read_quotes(file: str) -> list[Cited]:
    from pydantic import ValidationError  # noqa: PLC0415

    from service.usecases.schemas.evidence import Cited  # noqa: PLC0415

    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise click.BadParameter(f"{file} cannot be read ({error}); name a file of JSON, or -") from error
    found = []
    for number, value in enumerate(_values(file, text), start=1):
        try:
            found.append(Cited.model_validate(value))
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(map(str, first["loc"]))
            raise click.BadParameter(
                f'{file}, quote {number}: {where}: {first["msg"]}; a quote is {{"path": …, "quote": …}}'
            ) from error
    return found


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


rx = Commands("rx", help="Evidence records: the passages that answered a question.")
app.add_command(rx)


@rx.command("new")
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


@rx.command("list")
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


@rx.command("show")
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


@rx.command("delete")
@record_argument
@vault_option
@state_option
def delete(record: str, vault: Path | None, state: Path | None) -> None:
    """Delete a record and the texts that it stores."""
    answer = _records(options_given(vault, state)).delete(record)
    out.print(f"{answer.deleted} is deleted")


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
