"""Commands that find notes by name, and notes like a note."""

from __future__ import annotations

from typing import Annotated, Any
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


@app.command()
def titles(
    query: Annotated[str, typer.Argument(help="How a title, an alias or a path begins, or nearly so.")],
    limit: Annotated[int, typer.Option(min=1, max=200, help="How many notes.")] = 20,
    vault: VaultOption = None,
    state: StateOption = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Find notes by their names."""
    given = options_given(vault, state)
    service = service_of(given)
    if service:
        answer = service.call("GET", "/titles", q=query, limit=limit)
    else:
        from service.names import Names  # noqa: PLC0415 - help has to be instant

        answer = Names(questions_of(given)).titles(query, limit).model_dump(mode="json")
    if as_json:
        print_json(answer)
        return
    for hit in answer["results"]:
        shown = f"  also {hit['name']}" if hit["matched"] == "alias" else ""
        out.print(f"{hit['path']}  {hit['title']}{shown}", markup=False, soft_wrap=True)
    if not answer["results"]:
        out.print("No note has a name like that.", style="dim")


@app.command()
def similar(
    path: Annotated[str, typer.Argument(help="A note's path in the vault.")],
    k: Annotated[int, typer.Option("-k", min=1, max=100, help="How many notes.")] = 10,
    vault: VaultOption = None,
    state: StateOption = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """List the notes that are about the same things as a note."""
    answer = _similar(options_given(vault, state), path, k)
    if as_json:
        print_json(answer)
        return
    for hit in answer["results"]:
        section = f" › {hit['section']}" if hit["section"] not in ("", hit["title"]) else ""
        where = f"{hit['path']}:{hit['lines'][0]}"
        out.print(f"{hit['cosine']:.3f}  {where}  {hit['title']}{section}", markup=False, soft_wrap=True)
    if answer["reason"]:
        out.print(f"No answer: {answer['reason']}.", style="dim")


def _similar(given: dict[str, Any], path: str, k: int) -> Any:
    service = service_of(given)
    if service:
        return service.call("GET", f"/similar/{quote(path)}", k=k)

    from fastapi import HTTPException  # noqa: PLC0415 - help has to be instant

    from pipelines.errors import ServiceError  # noqa: PLC0415
    from service.names import Names  # noqa: PLC0415

    try:
        return Names(questions_of(given)).similar(path, k).model_dump(mode="json")
    except HTTPException as error:
        known: Any = error.detail  # what `why` says
        reason = f" ({known['reason']})" if known["reason"] else ""
        raise ServiceError(f"{path} cannot be compared, it is {known['state']}{reason}") from error
