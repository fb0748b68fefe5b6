"""The commands that find notes by name, and similar notes."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

import click

from service.commands.console import out, print_json
from service.commands.filtering import Pairs, filter_options
from service.commands.naming import about_note
from service.commands.render import section_of, where_of
from service.commands.terminal import (
    json_option,
    options_given,
    question_of,
    questions_of,
    service_of,
    state_option,
    vault_option,
)

app = click.Group()


@app.command()
@click.argument("query", help="The beginning of a title, alias or path; it may be misspelled.")
@click.option("--limit", type=click.IntRange(1, 200), default=20, help="How many notes.")
@vault_option
@state_option
@json_option
def titles(query: str, limit: int, vault: Path | None, state: Path | None, *, as_json: bool) -> None:
    """Find notes by their names."""
    query, given = question_of([query]), options_given(vault, state)
    service = service_of(given)
    if service:
        answer = service.call("GET", "/titles", q=query, limit=limit)
    else:
        from service.usecases.titles import TitleSearch  # noqa: PLC0415 - help has to be instant

        answer = TitleSearch(questions_of(given)).titles(query, limit).model_dump(mode="json")
    if as_json:
        print_json(answer)
        return
    for hit in answer["results"]:
        shown = f"  also {hit['name']}" if hit["matched"] == "alias" else ""
        out.say(f"{hit['path']}  {hit['title']}{shown}")
    if not answer["results"]:
        out.print("No note has a similar name.", style="dim")


@app.command()
@click.argument("path", metavar="NOTE", help="A note's path in the vault, or its title.")
@click.option("-k", type=click.IntRange(1, 100), default=10, help="How many notes.")
@filter_options
@vault_option
@state_option
@json_option
def similar(
    path: str, k: int, filters: Pairs, vault: Path | None, state: Path | None, *, as_json: bool
) -> None:
    """List the notes most similar to a note."""
    given = options_given(vault, state)
    answer = about_note(given, path, lambda found: _similar(given, found, k, filters))
    if as_json:
        print_json(answer)
        return
    for hit in answer["results"]:
        section = section_of(hit)
        out.say(
            f"{hit['cosine']:.3f}  {where_of(hit)}  {hit['title']}" + (f" › {section}" if section else "")
        )
    if answer["reason"]:
        out.print(f"No answer: {answer['reason']}.", style="dim")
    elif not answer["results"]:
        which = "note that passes the filters" if filters else "other note"
        out.print(f"No {which} can be compared with it.", style="dim")


def _similar(given: dict[str, Any], path: str, k: int, filters: Pairs) -> Any:
    service = service_of(given)
    if service:
        return service.call("GET", f"/similar/{quote(path)}", filters, k=k)

    from pipelines.search.scopes import filters_of  # noqa: PLC0415 - likewise
    from service.usecases.titles import TitleSearch  # noqa: PLC0415 - likewise

    questions = questions_of(given)
    parsed = filters_of(questions.resources.root, filters)
    return TitleSearch(questions).similar(path, k, parsed).model_dump(mode="json")
