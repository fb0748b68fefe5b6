"""The commands about links: of a note, broken ones, notes without any, the map, and walks along links."""

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
@click.option(
    "--orphans", is_flag=True, help="Instead the notes that link to nothing and that nothing links to."
)
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
    orphans: bool,
    as_json: bool,
) -> None:
    """List links and backlinks of a note, or the links of all notes."""
    from service.cli.render import print_links  # noqa: PLC0415

    if path is not None and (broken or ambiguous or orphans or domain):
        raise click.UsageError("the links of a note are all listed; leave out the other options")
    if orphans and (broken or ambiguous or types):
        raise click.UsageError("--orphans lists notes; leave out the options about links")
    client = client_of(options_given(vault, state))
    if orphans:
        _print_orphans(client.call("GET", "/orphans", domain=domain), as_json=as_json)
        return
    if path is not None:
        node = about_note(client, path, lambda name: node_at(client, name))
        shown = {name: of_types(node[name], types) for name in ("outlinks", "unresolved", "backlinks")}
        if as_json:
            print_json({"path": node["path"], **shown})
        else:
            _print_links_of(node["path"], **shown)
        return
    chosen = "broken" if broken else "ambiguous" if ambiguous else "any"
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
    ends = [(link["line"], link["path"], relation(link)) for link in outlinks]
    ends += [(link["line"], link["target"], f"{relation(link)}  (no file matches)") for link in unresolved]
    for line, target, more in sorted(ends):
        out.say(f"{path}:{line} → {target}{more}")
    for link in backlinks:
        out.say(f"{link['path']}:{link['line']} → {path}{relation(link)}")
    linked, linking = ({link["path"] for link in several} for several in (outlinks, backlinks))
    missing = f" and to {len(unresolved)} missing" if unresolved else ""
    said = f"links to {counted(len(linked), 'file')}{missing}"
    out.print(f"{said}; {counted(len(linking), 'note links', 'notes link')} here", style="dim")


def relation(link: Mapping[str, Any]) -> str:
    """Return a link's type as people read it, if it has one; a service from before an upgrade names none."""
    found = link.get("relation") or link.get("type")
    return f"  {found}" if found else ""


def _print_orphans(answer: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(answer)
        return
    for path in answer["paths"]:
        out.say(path)
    out.print(f"{counted(len(answer['paths']), 'note')} without links", style="dim")


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
@click.option("--communities", is_flag=True, help="List the groups of notes that link to each other most.")
@click.option("--domain", help="Export or list only this domain.")
@click.option("--json", "as_json", is_flag=True, help="Print the communities as JSON.")
def graph(
    vault: Path | None,
    state: Path | None,
    export: Path | None,
    domain: str | None,
    *,
    open_it: bool,
    communities: bool,
    as_json: bool,
) -> None:
    """Link to, open or export the vault's map, or list its communities.

    The link that is printed works once within a minute.
    """
    from service.cli.options import link  # noqa: PLC0415

    if communities or as_json:
        if not communities or export is not None or open_it:
            raise click.UsageError("--communities is a list of its own, which --json prints as JSON")
        _list_communities(options_given(vault, state), domain, as_json=as_json)
        return
    if export is not None:
        if open_it:
            raise click.UsageError("give either --export, which writes a file, or --open, which shows a page")
        _export(options_given(vault, state), export, domain)
        return
    service = need_service(options_given(vault, state))
    if domain is not None:
        service.call("GET", "/graph", domain=domain, limit=1)  # says which domains there are
        raise click.UsageError(
            "--domain works only with --export and --communities; the map shows all domains"
        )
    if open_it:
        show_page(service, "/graph")
    else:
        out.say(link(service, "/graph"))


def _list_communities(given: dict[str, Any], domain: str | None, *, as_json: bool) -> None:
    from service.cli.render import print_communities  # noqa: PLC0415

    answer = client_of(given).call("GET", "/communities", domain=domain)
    if as_json:
        print_json(answer)
    else:
        print_communities(out, answer)


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


# The command that walks along links: from the best notes for a question, or from a note.


if TYPE_CHECKING:
    from service.schemas.links import Mode


@app.command()
@click.argument(
    "query",
    nargs=-1,
    metavar="QUESTION|RX-ID...",
    help="A question, or the id of an evidence record; with --from, what the notes should resemble.",
)
@click.option(
    "--from",
    "start",
    metavar="NOTE",
    help="Walk from this note, by path or title, instead of searching first.",
)
@click.option("--depth", type=click.IntRange(1, 4), help="Maximum number of links from NOTE; default: 2.")
@type_option
@click.option(
    "--mode",
    type=click.Choice(["fast", "deep", "compare"]),
    help="How far to walk after a search; `compare` shows fast and deep (default) side by side.",
)
@filter_options
@click.option(
    "--all", "every", is_flag=True, help="Also show notes that are not near enough or were left out, and why."
)
@vault_option
@state_option
@json_option
def deep(
    query: tuple[str, ...],
    start: str | None,
    depth: int | None,
    types: tuple[str, ...],
    mode: Mode | None,
    filters: Pairs,
    vault: Path | None,
    state: Path | None,
    *,
    every: bool,
    as_json: bool,
) -> None:
    """Search, and follow links from the best notes, or from one note.

    The notes that resemble the question, or without one the note, are kept, nearest first. With --type and without a
    question, every note that is reached is kept.
    """
    from service.cli.render import print_deep, print_walk  # noqa: PLC0415

    if start is None and (depth or types):
        raise click.UsageError("--depth and --type are for a walk from a note; name it with --from")
    if start is not None and mode:
        raise click.UsageError("--mode is for a walk after a search; leave out --from")
    if start is None and not query:
        raise click.UsageError("Missing argument 'QUESTION...'; or name a note with --from")
    client = client_of(options_given(vault, state))

    def walk(found: str) -> Any:
        asked = " ".join(query) or None
        return client.call("GET", f"/traverse/{quote(found)}", filters, depth=depth or 2, q=asked, type=types)

    if start is None:
        answer = client.call("GET", "/deep", filters, q=question_of(query), mode=mode or "deep")
    else:
        answer = about_note(client, start, walk)
    if as_json:
        print_json(answer)
    elif start is None:
        print_deep(out, answer, every=every)
    else:
        print_walk(out, answer, start="the walk starts here", every=every)
