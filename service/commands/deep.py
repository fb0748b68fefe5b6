"""Commands that walk along links: a note's surroundings, and deep retrieval."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated
from urllib.parse import quote

import typer

from service.commands.terminal import (
    JsonOption,
    StateOption,
    VaultOption,
    options_given,
    out,
    print_json,
    questions_of,
    service_of,
)

app = typer.Typer()


class Mode(StrEnum):
    """How much a question may cost."""

    fast = "fast"
    deep = "deep"
    compare = "compare"


@app.command()
def traverse(
    path: Annotated[str, typer.Argument(help="A note, relative to the vault.")],
    depth: Annotated[int, typer.Option(min=1, max=4, help="How many links away at most.")] = 2,
    query: Annotated[
        str | None, typer.Option(help="Keep what resembles this; none: what resembles the note.")
    ] = None,
    vault: VaultOption = None,
    state: StateOption = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Walk from a note along links, and keep what resembles a question, or the note."""
    from service.render_walks import print_walk  # noqa: PLC0415
    from service.traversal import Traversal  # noqa: PLC0415

    given = options_given(vault, state)
    service = service_of(given)
    if service:
        named = {"q": query} if query else {}
        answer = service.call("GET", f"/traverse/{quote(path)}", depth=depth, **named)
    else:
        answer = Traversal(questions_of(given)).traverse(path, depth, query).model_dump(mode="json")
    if as_json:
        print_json(answer)
    else:
        print_walk(out, answer)


@app.command()
def deep(
    words: Annotated[
        list[str], typer.Argument(metavar="QUESTION|RX-ID", help="A question, or a record's id.")
    ],
    mode: Annotated[Mode, typer.Option(help="`compare` shows fast and deep side by side.")] = Mode.deep,
    domain: Annotated[str | None, typer.Option(help="Ask this domain alone.")] = None,
    vault: VaultOption = None,
    state: StateOption = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Search, walk on from the best notes, and show everything kept or dropped with its reason."""
    from service.render_walks import print_deep  # noqa: PLC0415
    from service.traversal import Traversal  # noqa: PLC0415

    question, given = " ".join(words), options_given(vault, state)
    service = service_of(given)
    if service:
        named = {"domain": domain} if domain else {}
        answer = service.call("GET", "/deep", q=question, mode=mode.value, **named)
    else:
        answer = Traversal(questions_of(given)).deep(question, mode.value, domain).model_dump(mode="json")
    if as_json:
        print_json(answer)
    else:
        print_deep(out, answer)
