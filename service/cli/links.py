"""The commands about links: broken links, backlinks, notes without links, communities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote

import click

from service.cli.console import out, print_json
from service.cli.naming import about_note, node_at
from service.cli.options import (
    PATH,
    Pairs,
    client_of,
    domain_option,
    filter_options,
    json_option,
    need_service,
    options_given,
    question_of,
    resources_of,
    show_page,
    state_option,
    vault_option,
)
from service.usecases.text import counted, of_types

app = click.Group()

type_option = click.option(
    "--type",
    "types",
    multiple=True,
    metavar="TYPE",
    help="Only links of this type, the key of the property or field that they are in.",
)


@app.command()
@click.argument(
    "path", metavar="[NOTE]", required=False, help="Only the links from and to this note, by path or title."
)
@domain_option
@click.option("--limit", type=click.IntRange(1, 10_000), default=500, help="Maximum number of links.")
@vault_option
@state_option
@click.option("--broken", is_flag=True, help="Only links whose target does not exist.")
@click.option("--ambiguous", is_flag=True, help="Only links that match several files.")
@type_option
@json_option
def links(
    path: str | None,
    domain: str | None,
    limit: int,
    types: tuple[str, ...],
    vault: Path | None,
    state: Path | None,
    *,
    broken: bool,
    ambiguous: bool,
    as_json: bool,
) -> None:
    """List links and their targets, of all notes or from and to one."""
    from service.cli.render import print_links  # noqa: PLC0415

    if path is not None:
        if broken or ambiguous or domain:
            raise click.UsageError("the links of a note are all listed; leave out the other options")
        client = client_of(options_given(vault, state))
        node = about_note(client, path, lambda name: node_at(client, name))
        shown = {name: of_types(node[name], types) for name in ("outlinks", "unresolved", "backlinks")}
        if as_json:
            print_json({"path": node["path"], **shown})
        else:
            _print_links_of(node["path"], **shown)
        return
    chosen = "broken" if broken else "ambiguous" if ambiguous else "any"
    client = client_of(options_given(vault, state))
    answer = client.call("GET", "/links", state=chosen, domain=domain, limit=limit, type=types)
    if as_json:
        print_json(answer)
    else:
        print_links(out, answer, limit)


def _print_links_of(
    path: str,
    outlinks: Sequence[Mapping[str, Any]],
    unresolved: Sequence[Mapping[str, Any]],
    backlinks: Sequence[Mapping[str, Any]],
) -> None:
    """Print where a note links to, in the order of its text, and which notes link to it."""
    ends = [(link["line"], link["path"], _relation(link)) for link in outlinks]
    ends += [(link["line"], link["target"], f"{_relation(link)}  (no file matches)") for link in unresolved]
    for line, target, more in sorted(ends):
        out.say(f"{path}:{line} → {target}{more}")
    for link in backlinks:
        out.say(f"{link['path']}:{link['line']} → {path}{_relation(link)}")
    linked, linking = ({link["path"] for link in several} for several in (outlinks, backlinks))
    missing = f" and to {len(unresolved)} missing" if unresolved else ""
    said = f"links to {counted(len(linked), 'file')}{missing}"
    out.print(f"{said}; {counted(len(linking), 'note links', 'notes link')} here", style="dim")


def _relation(link: Mapping[str, Any]) -> str:
    """Return a link's type as people read it, if it has one; a service from before an upgrade names none."""
    found = link.get("relation") or link.get("type")
    return f"  {found}" if found else ""


@app.command()
@click.argument("path", metavar="NOTE", help="A note's path in the vault, or its title.")
@vault_option
@state_option
@json_option
def backlinks(path: str, vault: Path | None, state: Path | None, *, as_json: bool) -> None:
    """List the notes that link to a note."""
    client = client_of(options_given(vault, state))
    answer = about_note(client, path, lambda found: node_at(client, found)["backlinks"])
    if as_json:
        print_json(answer)
        return
    for other in answer:
        shown = f"  {other['text']}" if other["text"] else ""
        out.say(f"{other['path']}:{other['line']}  {other['kind']}{_relation(other)}{shown}")
    notes = len({other["path"] for other in answer})
    out.print(f"{counted(notes, 'note links', 'notes link')} here", style="dim")


@app.command()
@domain_option
@vault_option
@state_option
@json_option
def orphans(domain: str | None, vault: Path | None, state: Path | None, *, as_json: bool) -> None:
    """List the notes that link to nothing and that nothing links to."""
    answer = client_of(options_given(vault, state)).call("GET", "/orphans", domain=domain)
    if as_json:
        print_json(answer)
        return
    for path in answer["paths"]:
        out.say(path)
    out.print(f"{counted(len(answer['paths']), 'note')} without links", style="dim")


@app.command()
@domain_option
@vault_option
@state_option
@json_option
def communities(domain: str | None, vault: Path | None, state: Path | None, *, as_json: bool) -> None:
    """List the groups of notes that link to each other most."""
    from service.cli.render import print_communities  # noqa: PLC0415

    answer = client_of(options_given(vault, state)).call("GET", "/communities", domain=domain)
    if as_json:
        print_json(answer)
    else:
        print_communities(out, answer)


@app.command()
@vault_option
@state_option
@click.option("--open", "open_it", is_flag=True, help="Open it in the browser, signed in.")
@click.option(
    "--export",
    type=PATH,
    metavar="FILE",
    help="Write the graph to a new file: .graphml, .gexf (Gephi) or .json (node-link).",
)
@click.option("--domain", help="Export only this domain.")
def graph(
    vault: Path | None, state: Path | None, export: Path | None, domain: str | None, *, open_it: bool
) -> None:
    """Print a link to the vault's map that works once within a minute, or open or export the map."""
    from service.cli.options import link  # noqa: PLC0415

    if export is not None:
        if open_it:
            raise click.UsageError("give either --export, which writes a file, or --open, which shows a page")
        _export(options_given(vault, state), export, domain)
        return
    service = need_service(options_given(vault, state))
    if domain is not None:
        service.call("GET", "/graph", domain=domain, limit=1)  # says which domains there are
        raise click.UsageError("--domain works only with --export; the map shows all domains")
    if open_it:
        show_page(service, "/graph")
    else:
        out.say(link(service, "/graph"))


def _export(given: dict[str, Any], file: Path, domain: str | None) -> None:
    """Write the notes and links of all domains, or of one, to a new file."""
    forms: dict[str, Literal["graphml", "gexf", "json"]] = {
        ".graphml": "graphml",
        ".gexf": "gexf",
        ".json": "json",
    }
    form = forms.get(file.suffix.lower())
    if form is None:
        raise click.BadParameter(
            f"{file.name} has to end in .graphml, .gexf or .json, which selects the format",
            param_hint="--export",
        )
    from service.usecases.links import export_graph  # noqa: PLC0415 - help has to be instant

    notes, links = export_graph(resources_of(given), file, form, domain)
    out.say(f"{counted(notes, 'note')} and {counted(links, 'link')} written to {file}")


# Commands that walk along links: a note's surroundings, and deep retrieval.


if TYPE_CHECKING:
    from service.schemas.links import Mode

every_option = click.option(
    "--all", "every", is_flag=True, help="Also show notes that are not near enough or were left out, and why."
)


@app.command()
@click.argument("path", metavar="NOTE", help="A note's path in the vault, or its title.")
@click.option("--depth", type=click.IntRange(1, 4), default=2, help="Maximum number of links to follow.")
@click.option(
    "--query", help="Keep notes that resemble this question; default: notes that resemble the note."
)
@type_option
@filter_options
@every_option
@vault_option
@state_option
@json_option
def traverse(
    path: str,
    depth: int,
    query: str | None,
    types: tuple[str, ...],
    filters: Pairs,
    vault: Path | None,
    state: Path | None,
    *,
    every: bool,
    as_json: bool,
) -> None:
    """Walk from a note along links, and keep the notes that resemble a question or the note.

    With --type and without --query, every note that is reached is kept.
    """
    from service.cli.render import print_walk  # noqa: PLC0415

    client = client_of(options_given(vault, state))

    def walk(found: str) -> Any:
        return client.call(
            "GET", f"/traverse/{quote(found)}", filters, depth=depth, q=query or None, type=types
        )

    answer = about_note(client, path, walk)
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
    from service.cli.render import print_deep  # noqa: PLC0415

    question, client = question_of(words), client_of(options_given(vault, state))
    answer = client.call("GET", "/deep", filters, q=question, mode=mode)
    if as_json:
        print_json(answer)
    else:
        print_deep(out, answer, every=every)
