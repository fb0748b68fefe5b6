"""The commands under their former names: they do what they did, and say what the new form is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from service.cli.console import err, out, print_json
from service.cli.links import deep, graph, links, relation
from service.cli.maintenance import index
from service.cli.naming import about_note, node_at
from service.cli.notes import list_notes
from service.cli.options import (
    client_of,
    json_option,
    need_service,
    options_given,
    state_option,
    vault_option,
)
from service.cli.quality import evidence
from service.cli.run import serve
from service.cli.search import show
from service.cli.systemd import service
from service.cli.tags import tags
from service.usecases.text import counted

_PLACE = ("vault", "state")
_ASKED = (*_PLACE, "as_json")
_FILTERS = ("only", "domain", "since", "kind", "tag", "scope")


def former_names() -> dict[str, click.Command]:
    """Return the commands under their former names, none of which a help lists."""
    named = (
        _was("node", "show NOTE", show),
        _was("titles", "list NAME", list_notes, (*_ASKED, "query", "k")),
        _was(
            "similar",
            "list --like NOTE",
            list_notes,
            (*_ASKED, *_FILTERS, "k"),
            [click.Argument(["like"], metavar="NOTE")],
        ),
        _was("backlinks", "links NOTE", _backlinks),
        _was("orphans", "links --orphans", links, (*_ASKED, "domain"), orphans=True),
        _was("communities", "graph --communities", graph, (*_ASKED, "domain"), communities=True),
        _was(
            "traverse",
            "deep --from NOTE",
            deep,
            (*_ASKED, *_FILTERS, "depth", "types", "every"),
            [click.Argument(["start"], metavar="NOTE"), click.Option(["--query", "query"], multiple=True)],
        ),
        _was("promote", "tags apply", tags.commands["apply"]),
        _was("verify-quotes", "evidence verify FILE", evidence.commands["verify"]),
        _was("retry", "index --retry", index, (*_PLACE, "paths"), retry=True),
        _was("confirm-deletions", "index --confirm-deletions", index, _PLACE, confirmed=True),
        _was("reload", "index", _reload),
    )
    service.add_command(
        _was("serve", "serve --host HOST", serve, (*_PLACE, "port", "host", "names"), of="service ")
    )
    rx = {
        name: _was(name, f"evidence {name}", one, of="rx ")
        for name, one in evidence.commands.items()
        if name != "verify"
    }
    return {str(one.name): one for one in named} | {"rx": click.Group("rx", rx, hidden=True)}


def _was(
    name: str,
    now: str,
    command: click.Command,
    keeps: Sequence[str] = (),
    more: Sequence[click.Parameter] = (),
    *,
    of: str = "",
    **fixed: Any,
) -> click.Command:
    """Return a command under its former name, with some of its parameters (default: all), and with others."""

    @click.pass_context
    def run(context: click.Context, /, **given: Any) -> Any:
        err.say(
            f"`everindex {of}{name}` is now `everindex {now}`; the old name works in this version only.",
            "yellow",
        )
        return context.invoke(command, **given, **fixed)

    params = [*more, *(one for one in command.params if not keeps or one.name in keeps)]
    return click.Command(name, callback=run, params=params, help=f"Now `everindex {now}`.", hidden=True)


@click.command()
@click.argument("path", metavar="NOTE")
@vault_option
@state_option
@json_option
def _backlinks(path: str, vault: Path | None, state: Path | None, *, as_json: bool) -> None:
    client = client_of(options_given(vault, state))
    answer = about_note(client, path, lambda found: node_at(client, found)["backlinks"])
    if as_json:
        print_json(answer)
        return
    for other in answer:
        shown = f"  {other['text']}" if other["text"] else ""
        out.say(f"{other['path']}:{other['line']}  {other['kind']}{relation(other)}{shown}")
    notes = len({other["path"] for other in answer})
    out.print(f"{counted(notes, 'note links', 'notes link')} here", style="dim")


@click.command()
@vault_option
@state_option
@json_option
def _reload(vault: Path | None, state: Path | None, *, as_json: bool) -> None:
    answer = need_service(options_given(vault, state)).call("POST", "/reload")
    if as_json:
        print_json(answer)
        return
    for slug, found in answer["found"].items():
        out.say(f"{slug}: " + ", ".join(f"{count} {what}" for what, count in found.items()))
