"""Commands that walk along links: a note's surroundings, and deep retrieval."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import click

from service.commands.console import out, print_json
from service.commands.filtering import Pairs, filter_options
from service.commands.naming import about_note
from service.commands.terminal import (
    json_option,
    options_given,
    question_of,
    questions_of,
    service_of,
    state_option,
    vault_option,
)

if TYPE_CHECKING:
    from service.usecases.schemas.traversal import Mode

app = click.Group()
every_option = click.option(
    "--all", "every", is_flag=True, help="Also show notes that are not near enough or were left out, and why."
)


@app.command()
@click.argument("path", metavar="NOTE", help="A note's path in the vault, or its title.")
@click.option("--depth", type=click.IntRange(1, 4), default=2, help="Maximum number of links to follow.")
@click.option(
    "--query", help="Keep notes that resemble this question; default: notes that resemble the note."
)
@filter_options
@every_option
@vault_option
@state_option
@json_option
def traverse(
    path: str,
    depth: int,
    query: str | None,
    filters: Pairs,
    vault: Path | None,
    state: Path | None,
    *,
    every: bool,
    as_json: bool,
) -> None:
    """Walk from a note along links, and keep the notes that resemble a question or the note."""
    from service.commands.render_walks import print_walk  # noqa: PLC0415

    given = options_given(vault, state)
    service = service_of(given)

    def walk(found: str) -> Any:
        if service:
            return service.call("GET", f"/traverse/{quote(found)}", filters, depth=depth, q=query or None)
        from pipelines.search.scopes import filters_of  # noqa: PLC0415 - likewise
        from service.usecases.traversal import Traversal  # noqa: PLC0415 - takes longer to load than the service to answer

        questions = questions_of(given)
        parsed = filters_of(questions.resources.root, filters)
        return Traversal(questions).traverse(found, depth, query, parsed).model_dump(mode="json")

    answer = about_note(given, path, walk)
    if as_json:
        print_json(answer)
    else:
        print_walk(out, answer, start="the walk starts here", every=every)


@app.command()
@click.argument(
    "words",
    nargs=-1,
    required=True,
    metavar="QUESTION|RX-ID...",
    help="A question, or the id of an evidence record.",
)
@click.option(
    "--mode",
    type=click.Choice(["fast", "deep", "compare"]),
    default="deep",
    help="`compare` shows fast and deep side by side.",
)
@filter_options
@every_option
@vault_option
@state_option
@json_option
def deep(
    words: tuple[str, ...],
    mode: Mode,
    filters: Pairs,
    vault: Path | None,
    state: Path | None,
    *,
    every: bool,
    as_json: bool,
) -> None:
    """Search, walk on from the best notes along links, and show the notes that were kept, nearest first."""
    from service.commands.render_walks import print_deep  # noqa: PLC0415

    question, given = question_of(words), options_given(vault, state)
    service = service_of(given)
    if service:
        answer = service.call("GET", "/deep", filters, q=question, mode=mode)
    else:
        from pipelines.search.scopes import filters_of  # noqa: PLC0415 - as above
        from service.usecases.traversal import Traversal  # noqa: PLC0415 - as above

        questions = questions_of(given)
        parsed = filters_of(questions.resources.root, filters)
        answer = Traversal(questions).deep(question, mode, parsed).model_dump(mode="json")
    if as_json:
        print_json(answer)
    else:
        print_deep(out, answer, every=every)
