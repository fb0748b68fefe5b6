"""The commands about notes: list them, what happened to one, ignore one, and how far the index is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import click

from service.cli.console import err, out, print_json
from service.cli.naming import about_note, ambiguous, in_vault, paths_called, state_of
from service.cli.options import (
    Client,
    Pairs,
    client_of,
    filter_options,
    json_option,
    located,
    need_service,
    options_given,
    question_of,
    service_of,
    state_option,
    vault_of,
    vault_option,
    view_of,
)
from service.cli.render import section_of, where_of
from service.usecases.text import counted, second, what_happened

if TYPE_CHECKING:
    from service.schemas.notes import ListAnswer
    from service.usecases.browsing import Order

app = click.Group()
_ORDERS = ("path", "date")
_NAMED = 5
_MOST_NAMES = 200
"""The most notes with a name among which filters choose."""


@app.command("list")
@click.argument("query", required=False, metavar="[NAME]", help="The beginning of a title, alias or path.")
@click.option("--like", metavar="NOTE", help="Instead the notes most similar to this one, by path or title.")
@filter_options
@click.option("--sort", "order", type=click.Choice(_ORDERS), help="By path (default), or the newest first.")
@click.option(
    "-k",
    "--limit",
    "k",
    type=click.IntRange(1, 200),
    help="How many notes; default: 20 by name, 10 similar ones, or all.",
)
@vault_option
@state_option
@json_option
def list_notes(
    query: str | None,
    like: str | None,
    filters: Pairs,
    order: Order | None,
    k: int | None,
    vault: Path | None,
    state: Path | None,
    *,
    as_json: bool,
) -> None:
    """List notes: all, those with a name, or those like another.

    A name may be misspelled; the best match comes first.
    """
    given = options_given(vault, state)
    if like is not None and query is not None:
        raise click.UsageError("give either a name or --like")
    if order and (query is not None or like is not None):
        raise click.UsageError("--sort is for all notes: by name or with --like, the nearest comes first")
    if like is not None:
        _list_similar(given, like, filters, k=k or 10, as_json=as_json)
    elif query is not None:
        _list_named(given, question_of([query]), filters, k=k or 20, as_json=as_json)
    else:
        _list_all(given, filters, order or "path", k, as_json=as_json)


def _passing(given: dict[str, Any], filters: Pairs, order: Order = "path") -> ListAnswer:
    """Return the notes that pass filters."""
    from pipelines.search.scopes import filters_of  # noqa: PLC0415 - help has to be instant
    from service.usecases.browsing import list_notes as find  # noqa: PLC0415 - likewise

    view = view_of(given)
    return find(view, filters_of(view.resources.root, filters), order)


def _list_all(given: dict[str, Any], filters: Pairs, order: Order, k: int | None, *, as_json: bool) -> None:
    answer = _passing(given, filters, order)
    shown = answer.notes[:k]
    if as_json:
        print_json(answer.model_copy(update={"notes": shown}).model_dump(mode="json"))
        return
    for note in shown:
        facts = ", ".join(filter(None, (note.kind, counted(note.chunks, "passage"))))
        out.say(f"{note.date}  {note.path}  ({facts})")
        for warning in note.warnings:
            out.say(f"            warning: {warning}", "yellow")
    reason = f": {answer.reason}" if answer.reason else ""
    out.say(counted(answer.count, "note") + reason + _besides(answer.configuration), "dim")


def _besides(configuration: Sequence[str]) -> str:
    """Say which files of the index are not listed because they configure a domain."""
    if not configuration:
        return ""
    files = counted(len(configuration), "vocabulary is", "vocabularies are")
    more = ", …" if len(configuration) > _NAMED else ""
    return f"; {files} indexed, too: {', '.join(configuration[:_NAMED])}{more}"


def _list_named(given: dict[str, Any], name: str, filters: Pairs, *, k: int, as_json: bool) -> None:
    answer = client_of(given).call("GET", "/titles", q=name, limit=_MOST_NAMES if filters else k)
    if filters:
        passing = {note.path for note in _passing(given, filters).notes}
        answer["results"] = [hit for hit in answer["results"] if hit["path"] in passing][:k]
        answer["count"] = len(answer["results"])
    if as_json:
        print_json(answer)
        return
    for hit in answer["results"]:
        shown = f"  also {hit['name']}" if hit["matched"] == "alias" else ""
        out.say(f"{hit['path']}  {hit['title']}{shown}")
    if not answer["results"]:
        out.print("No note has a similar name.", style="dim")


def _list_similar(given: dict[str, Any], path: str, filters: Pairs, *, k: int, as_json: bool) -> None:
    client = client_of(given)

    def ask(found: str) -> Any:
        return client.call("GET", f"/similar/{quote(found)}", filters, k=k)

    answer = about_note(client, path, ask)
    if as_json:
        print_json(answer)
        return
    for hit in answer["results"]:
        section = section_of(hit)
        out.say(
            f"{hit['cosine']:.3f} {hit.get('band') or '':<10}  {where_of(hit)}  {hit['title']}"
            + (f" › {section}" if section else "")
        )
    if answer["reason"]:
        out.print(f"No answer: {answer['reason']}.", style="dim")
    elif not answer["results"]:
        which = "note that passes the filters" if filters else "other note"
        out.print(f"No {which} can be compared with it.", style="dim")


# The command that shows what happened to a note.


_HEADINGS = ("when", "what", "passages", "embedded", "ms", "model", "pipeline", "error")
_NUMBERS = ("passages", "embedded", "ms")


@app.command("log")
@click.argument("path", metavar="NOTE", help="A note's path in the vault, or its title.")
@click.option("--limit", type=click.IntRange(1, 1_000), default=50, help="How many entries, newest first.")
@vault_option
@state_option
@json_option
def show_log(path: str, limit: int, vault: Path | None, state: Path | None, *, as_json: bool) -> None:
    """Show what happened to a note: indexed, renamed, removed, parked."""
    client = client_of(options_given(vault, state))

    def ask(found: str) -> Any:
        return client.call("GET", f"/log/{quote(found)}", limit=limit)

    answer = about_note(client, path, ask)
    if as_json:
        print_json(answer)
        return
    if not answer["entries"]:
        out.say("nothing happened to it since the log begins", "dim")
        return
    for line in _table([_HEADINGS, *map(_cells, answer["entries"])]):
        out.say(line)
    if any(entry["vectors_pending"] for entry in answer["entries"]):
        out.say("+ more of its texts are embedded later", "dim")


def _cells(entry: dict[str, Any]) -> tuple[str, ...]:
    passages = "" if entry["passages"] is None else f"{entry['passages']:,}"
    # A service that was started before an upgrade gives no reasons.
    what = what_happened(entry["action"], entry["renamed_to"], entry["renamed_from"], entry.get("reason"))
    embedded = f"{entry['texts_embedded']:,}" + ("+" if entry["vectors_pending"] else "")
    return (
        *(second(entry["at"]), what, passages, embedded, f"{entry['ms']:,.0f}"),
        *(entry["model"], entry["pipeline"], entry["error"] or ""),
    )


def _table(rows: list[tuple[str, ...]]) -> list[str]:
    """Return rows as lines with aligned columns: a line is not wrapped, so that programs can search it."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    aligned = [str.rjust if name in _NUMBERS else str.ljust for name in _HEADINGS]
    return [
        "  ".join(
            align(cell, width) for align, cell, width in zip(aligned, row, widths, strict=True)
        ).rstrip()
        for row in rows
    ]


# The command that keeps a file or folder out of the index.


@app.command()
@click.argument("path", help="A file or folder of the vault, or a note by its title, alias or id.")
@click.option("--undo", is_flag=True, help="Remove the line again.")
@vault_option
@state_option
def ignore(path: str, vault: Path | None, state: Path | None, *, undo: bool) -> None:
    """Keep a file or folder out of the index; the file itself stays.

    A line in .everindexignore does it.
    """
    from pipelines.vault import files as notes  # noqa: PLC0415 - likewise
    from pipelines.vault import ignore as ignore_file  # noqa: PLC0415 - help has to be instant
    from workers.vault_paths import locate_vault, not_there  # noqa: PLC0415 - likewise

    given = located(options_given(vault, state))
    place = locate_vault(vault_of(given), given.get("state"), create=False)
    if notes.find(place.root, place.identity) is None:
        raise not_there(place.root)
    key = notes.note_key(in_vault(place.root, path))
    is_line = undo and key.startswith("/")  # no path in the vault, but as lines are written
    raw = key if is_line else notes.path_on_disk(place.root, key)
    if is_line:
        key = key.strip("/")
    elif notes.look(place.root, raw) is None and not notes.is_folder(place.root, raw):
        client = client_of(given)
        same, _ = paths_called(client, key)
        if len(same) > 1:
            raise ambiguous(key, same, state_of(client, key))
        key = same[0] if same else key
        raw = notes.path_on_disk(place.root, key)
    later = "" if service_of(given) else "; Everindex is not running, and does so when it is started"
    if undo:
        line = ignore_file.stop_ignoring(place.root, raw, place.displaced)
        known = state_of(client_of(given), key)
        so = (
            f"it is still ignored: {known['reason']}"
            if known["state"] == "ignored"
            else f"{'what it ignored' if known['state'] == 'unknown' else 'it'} is indexed again"
        )
        out.say(f"{notes.note_key(line)} was removed from {ignore_file.IGNORE_FILE}; {so}{later}")
    else:
        line = notes.note_key(ignore_file.ignore(place.root, raw, place.displaced))
        out.say(f"{key} is ignored: {line} was added to {ignore_file.IGNORE_FILE}; --undo removes it{later}")


# The command that shows how far the index is.


_PATIENCE_SECONDS = 2.0
"""How long `--wait` waits without a word: a save takes no longer."""


@app.command()
@vault_option
@state_option
@json_option
@click.option("--wait", is_flag=True, help="Return when everything is indexed.")
def status(vault: Path | None, state: Path | None, *, as_json: bool, wait: bool) -> None:
    """Show the state of the vault's index."""
    from service.cli.render import print_status  # noqa: PLC0415

    given = options_given(vault, state)
    facts = _when_complete(given) if wait else {}
    client = client_of(given)
    facts = (facts or client.call("GET", "/health")) | {"running": client.behind is None}
    if as_json:
        print_json(facts | {"parked_notes": _parked(client)})
    else:
        print_status(out, facts, _parked(client), client.behind)


def _when_complete(given: dict[str, Any]) -> dict[str, Any]:
    """Return the state once everything is indexed; print meanwhile what may prevent it, such as a paused domain."""
    import re  # noqa: PLC0415 - help has to be instant
    import time  # noqa: PLC0415 - likewise

    from service.runtime.client import is_complete  # noqa: PLC0415 - likewise

    began, told, compared = time.monotonic(), set[str](), False
    while True:
        service = need_service(given)  # without it, nothing is ever indexed
        facts: dict[str, Any] = service.call("GET", "/health")
        if is_complete(facts):
            if compared:
                return facts
            service.call("POST", "/reload")  # a save of this moment may not have been noticed yet
            compared = True
            continue
        for problem in facts["problems"] if time.monotonic() - began > _PATIENCE_SECONDS else ():
            kind = re.sub(r"\d+", "", problem)  # its ages and counts change
            if kind not in told:
                err.say(problem)
            told.add(kind)
        time.sleep(0.2)


def _parked(client: Client) -> list[dict[str, str]]:
    """Return the parked notes."""
    notes = client.call("GET", "/ops/parked.json")["notes"]
    return [{name: note[name] for name in ("path", "domain", "kind", "reason")} for note in notes]
