"""The commands that ask the service. Those that only read also work without one, from the caches."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from pipelines.errors import NO_NOTE, NotFoundError
from service.cli.console import out, print_json
from service.cli.naming import about_note, ambiguous, in_vault, node_at, paths_called, state_of, suggestion
from service.cli.options import (
    Client,
    Pairs,
    client_of,
    filter_options,
    json_option,
    need_service,
    open_hit,
    options_given,
    question_of,
    state_option,
    vault_option,
)
from service.runtime.refusals import standing_of

app = click.Group()


class _Nth(click.IntRange):
    """The number of a hit: a question after `--open` is taken for one."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            said = f"{value!r} is not the number of a hit (1 to {self.max}); write --open after the question"
            self.fail(said, param, ctx)


@app.command()
@click.argument("query", nargs=-1, help="A question, or exact words. Without one: search as you type.")
@click.option("-k", type=click.IntRange(1, 200), default=10, help="How many notes.")
@filter_options
@vault_option
@state_option
@click.option("--explain", is_flag=True, help="Show how each layer ranked each note.")
@click.option(
    "--rerank/--no-rerank", default=None, help="Whether second models of the domains rank the notes again."
)
@click.option("--all", "every", is_flag=True, help="Also show copies, and notes that are not answers.")
@click.option(
    "--open",
    "opened",
    type=_Nth(1, 200),
    is_flag=False,
    flag_value=1,
    metavar="[N]",
    help="Open the first hit, or the Nth, in Obsidian, in $EDITOR, or in the system's program.",
)
@json_option
def search(
    query: tuple[str, ...],
    k: int,
    filters: Pairs,
    vault: Path | None,
    state: Path | None,
    *,
    explain: bool,
    rerank: bool | None,
    every: bool,
    opened: int | None,
    as_json: bool,
) -> None:
    """Find notes, by meaning and by exact word."""
    from service.cli.render import line_of, print_search, shown_hits  # noqa: PLC0415

    given = options_given(vault, state)
    if not query:
        _search_live(given, filters, k=k, every=every, prints=explain or as_json or opened is not None)
        return
    question = question_of(query)
    client = client_of(given)
    answer = client.call(
        "GET", "/search", filters, q=question, k=k, explain=explain, fold=not every, rerank=rerank
    )
    if as_json:
        print_json(answer)
    else:
        print_search(out, answer, every=every)
        if answer["index"]["failed"] and not answer["results"]:
            sys.exit(1)
    if opened is not None:
        hits = shown_hits(answer, every=every)
        if opened > len(hits):
            raise NotFoundError(f"there is no hit {opened} to open")
        open_hit(given, client.root, hits[opened - 1]["path"], line_of(hits[opened - 1]))


def _search_live(given: dict[str, Any], filters: Pairs, *, k: int, every: bool, prints: bool) -> None:
    """Search as the user types, and open the chosen note.

    Raises UsageError without a terminal that can show it or if the user asked for what only a printed answer has,
    NotRunningError.
    """
    from service.cli.live import can_be_shown, choose_note  # noqa: PLC0415 - most searches have words

    able = not out.is_dumb_terminal and can_be_shown(sys.stdout.encoding)
    if prints or not (sys.stdin.isatty() and sys.stdout.isatty() and able):
        raise click.UsageError(
            "Missing argument 'QUERY...': give words; `everindex list` takes filters alone."
            " On a terminal that shows Unicode, `everindex search` alone searches as you type"
        )
    from pipelines.search.scopes import filters_of  # noqa: PLC0415

    service = need_service(given)
    filters_of(service.root, filters)
    chosen = choose_note(
        lambda question: service.call("GET", "/search", filters, q=question, k=k, fold=not every), every=every
    )
    if chosen:
        out.say(f"{chosen[0]}:{chosen[1]}", "cyan")
        open_hit(given, service.root, *chosen)


@app.command()
@click.argument("path", metavar="NOTE", help="A note's path in the vault, or its title.")
@vault_option
@state_option
@json_option
def show(path: str, vault: Path | None, state: Path | None, *, as_json: bool) -> None:
    """Show what the index stores about a note: facts, links, passages."""
    from service.cli.render import print_node  # noqa: PLC0415

    client = client_of(options_given(vault, state))
    answer = about_note(client, path, lambda found: node_at(client, found))
    if as_json:
        print_json(answer)
    else:
        print_node(out, answer)


@app.command()
@click.argument("path", metavar="NOTE", help="A note's path in the vault, or its title.")
@vault_option
@state_option
@json_option
def why(path: str, vault: Path | None, state: Path | None, *, as_json: bool) -> None:
    """Say whether a note is indexed, and why or why not.

    It may be indexed, pending, parked, ignored or unknown.
    """
    client = client_of(options_given(vault, state))
    answer, meant = _standing(client, in_vault(client.root, path))
    if as_json:
        print_json(answer)
    else:
        _print_standing(answer, meant)


def _standing(client: Client, path: str) -> tuple[dict[str, Any], str]:
    """Return the state of a note by its path or name, and suggestions. Raises NoteNotFoundError for several notes."""
    answer = state_of(client, path)
    if answer["state"] not in NO_NOTE:
        return answer, ""
    from service.usecases.naming import is_of_file, is_path, may_be_a_title  # noqa: PLC0415 - most paths are right

    if not may_be_a_title(path, answer):
        return answer, ""
    same, alike = paths_called(client, path)
    if len(same) == 1 and same[0] != path:
        return state_of(client, same[0]), ""
    if answer["state"] == "unknown":
        if len(same) > 1:
            raise ambiguous(path, same, answer)
        answer = state_of(client, path)  # a note that has just been ignored may have left the index since
        return answer, "" if is_of_file(path, answer) else suggestion(path, same or alike)
    # A file or a folder has this very name, so that names like it are not meant.
    return answer, suggestion(path, same) if answer["state"] == "ignored" and not is_path(path) else ""


def _print_standing(answer: dict[str, Any], meant: str) -> None:
    """Print the state of a path, its note's dates, and what keeps the note from answers."""
    out.say(standing_of(answer) + meant)
    if dates := answer.get("dates"):
        out.say(f"  {dates['said']}")
    for warning in answer.get("warnings", ()):
        out.say(f"  warning: {warning}", "yellow")
    if hidden := answer.get("hidden_from_agents"):
        out.say(f"  agents do not see it: {hidden}")
