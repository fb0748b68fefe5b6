"""The command that prints a block of passages for a language model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import click

from service.cli.console import err, out, print_json
from service.cli.naming import about_note
from service.cli.options import (
    Pairs,
    client_of,
    filter_options,
    json_option,
    options_given,
    question_of,
    state_option,
    vault_option,
)

if TYPE_CHECKING:
    from pipelines.context.block import Order
    from pipelines.context.compress import CompressionMode

app = click.Group()


@app.command()
@click.argument(
    "query", nargs=-1, required=True, metavar="QUESTION|NOTE", help="A question, or with --recipe a note."
)
@click.option(
    "--budget",
    type=click.IntRange(200, 200_000),
    help="The most tokens that the block may have; default: 8000, or the recipe's.",
)
@click.option(
    "--compress",
    type=click.Choice(["none", "light", "strong"]),
    help="Compress passages that do not fit; default: none, or the recipe's.",
)
@click.option(
    "--order",
    type=click.Choice(["relevance", "density"]),
    help="What comes first: the most relevant passages (default), or the densest of the answers.",
)
@click.option(
    "--recipe", metavar="NAME", help="Fill a recipe of `_contexts.yaml` with a note: name that note."
)
@filter_options
@vault_option
@state_option
@json_option
def context(
    query: tuple[str, ...],
    budget: int | None,
    compress: CompressionMode | None,
    order: Order | None,
    recipe: str | None,
    filters: Pairs,
    vault: Path | None,
    state: Path | None,
    *,
    as_json: bool,
) -> None:
    """Print passages that answer a question, for a language model.

    They are one block, within a budget of tokens.
    """
    given, question = options_given(vault, state), question_of(query)
    wanted: dict[str, Any] = {
        name: value for name, value in (("budget", budget), ("compress", compress)) if value is not None
    }
    if recipe and filters:
        raise click.UsageError("a recipe has filters of its own; write them in `_contexts.yaml`")
    if recipe and order:
        raise click.UsageError("a recipe is packed in the order of relevance; leave `--order` out")
    if order:
        wanted["order"] = order
    client = client_of(given)

    def by_recipe(note: str) -> dict[str, Any]:
        block: dict[str, Any] = client.call(
            "GET", f"/context/{quote(recipe or '', safe='')}", about=note, **wanted
        )
        return block

    if recipe:
        answer = about_note(client, question, by_recipe)
    else:
        answer = client.call("GET", "/context", filters, q=question, **wanted)
    if as_json:
        print_json(answer)
        return
    out.say(answer["block"] or "No passage was found.")
    for warning in answer["warnings"]:
        err.say(f"warning: {warning}")
