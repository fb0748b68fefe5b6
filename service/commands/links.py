"""Commands that ask about links: what is broken, who links here, what stands alone, who stands together."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

import click

from service.commands.terminal import (
    domain_option,
    json_option,
    need_service,
    options_given,
    out,
    print_json,
    questions_of,
    service_of,
    state_option,
    vault_option,
)

app = click.Group()


def _ask(given: dict[str, Any], question: str, **parameters: Any) -> Any:
    """Ask the running service, or the caches where none runs; the answer is the route's."""
    from service.graph import Graph  # noqa: PLC0415 - help has to be instant

    service = service_of(given)
    if service:
        return service.call("GET", f"/{question}", **parameters)
    graph = Graph(questions_of(given))
    return getattr(graph, question)(**parameters).model_dump(mode="json")


@app.command()
@domain_option
@click.option("--limit", type=click.IntRange(1, 10_000), default=500, help="How many at most.")
@vault_option
@state_option
@click.option("--broken", is_flag=True, help="Only links that mean no file.")
@click.option("--ambiguous", is_flag=True, help="Only names that several files have.")
@json_option
def links(
    domain: str | None,
    limit: int,
    vault: Path | None,
    state: Path | None,
    *,
    broken: bool,
    ambiguous: bool,
    as_json: bool,
) -> None:
    """List links, and what each means."""
    from service.render import print_links  # noqa: PLC0415

    wanted = "broken" if broken else "ambiguous" if ambiguous else "any"
    answer = _ask(options_given(vault, state), "links", state=wanted, domain=domain, limit=limit)
    if as_json:
        print_json(answer)
    else:
        print_links(out, answer)


@app.command()
@click.argument("path")
@vault_option
@state_option
@json_option
def backlinks(path: str, vault: Path | None, state: Path | None, *, as_json: bool) -> None:
    """List the notes that link to a note."""
    given = options_given(vault, state)
    service = service_of(given)
    answer = (
        service.call("GET", f"/node/{quote(path)}")["backlinks"]
        if service
        else questions_of(given).node(path).backlinks
    )
    if as_json:
        print_json(answer)
        return
    for other in answer:
        shown = f"  {other['text']}" if other["text"] else ""
        out.print(f"{other['path']}:{other['line']}  {other['kind']}{shown}", markup=False, soft_wrap=True)
    out.print(f"{len(answer)} {'note links' if len(answer) == 1 else 'notes link'} here", style="dim")


@app.command()
@domain_option
@vault_option
@state_option
@json_option
def orphans(domain: str | None, vault: Path | None, state: Path | None, *, as_json: bool) -> None:
    """List the notes that link to nothing and that nothing links to."""
    answer = _ask(options_given(vault, state), "orphans", domain=domain)
    if as_json:
        print_json(answer)
        return
    for path in answer["paths"]:
        out.print(path, markup=False, soft_wrap=True)


@app.command()
@domain_option
@vault_option
@state_option
@json_option
def communities(domain: str | None, vault: Path | None, state: Path | None, *, as_json: bool) -> None:
    """List the groups of notes that link to each other most."""
    from service.render import print_communities  # noqa: PLC0415

    answer = _ask(options_given(vault, state), "communities", domain=domain)
    if as_json:
        print_json(answer)
    else:
        print_communities(out, answer)


@app.command()
@vault_option
@state_option
@click.option("--open", "open_it", is_flag=True, help="Open it in the browser, signed in.")
def graph(vault: Path | None, state: Path | None, *, open_it: bool) -> None:
    """Print the address of the vault's map, or open it."""
    service = need_service(options_given(vault, state))
    code = service.call("POST", "/session")["code"]
    address = f"{service.address}/open/{code}?to=/graph"
    out.print(address, soft_wrap=True)
    if open_it:
        click.launch(address)
