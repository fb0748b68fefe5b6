"""The `everindex` command. Heavy imports are inside the commands, so that help is instant."""

from __future__ import annotations

import gc
import io
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import click

from pipelines.errors import ConfigurationError, EverindexError, FilterError
from pipelines.vault.atomic import keep_private
from service.cli import (
    agents,
    chat,
    context,
    links,
    maintenance,
    notes,
    quality,
    run,
    search,
    setup,
    systemd,
    tags,
)
from service.cli.console import complain, err, out, print_json
from service.cli.naming import about_note, node_at
from service.cli.options import (
    Commands,
    client_of,
    did_you_mean,
    json_option,
    need_service,
    options_given,
    state_option,
    vault_option,
)
from service.usecases.text import counted

_PARTS = (
    *(run, setup, systemd, notes, search, chat, context),
    *(links, agents, tags, quality, maintenance),
)
# As the help shows them: what most users need first, and with `--all` the others by what they are for.
_SECTIONS = {
    "Commands": ("up", "search", "open", "status", "why", "tags", "links", "mcp", "doctor", "backup"),
    "Find and read": ("ask", "chat", "list", "show", "log", "deep", "graph", "context"),
    "Set up": ("init", "demo", "ignore", "config", "token", "service", "completion"),
    "Keep the index": ("index", "verify", "reembed", "models", "restore", "migrate"),
    "Check the answers": ("eval", "evidence", "attention"),
    "Run the processes one by one": ("watch", "work", "serve"),
}
_SEARCH = "; notes are found by: everindex search QUESTION"
_REBUILD = "; new indexes are built beside the current ones by: everindex index --rebuild"
_ELSEWHERE = {
    **dict.fromkeys(("find", "query"), _SEARCH),
    **dict.fromkeys(("start", "run"), "; indexing, watching and serving starts with: everindex up VAULT"),
    "delete": "; notes are files: remove the file, or hide it by: everindex ignore PATH",
    "rename": "; tags are renamed by: everindex tags rename OLD NEW",
    **dict.fromkeys(("reindex", "rebuild", "reset"), _REBUILD),
    "validate": "; the index is compared with the notes by: everindex verify",
    "embed": "; files are indexed by: everindex index FILE, a whole vault by: everindex index VAULT",
}
# Imports create many objects and no garbage: a collection every 700 objects is a tenth of each start.
_OBJECTS_BETWEEN_LOOKS = 50_000
_QUESTIONS = ("search", "deep")
_INTERRUPTED = 130
"""The exit code that a shell reports for Ctrl-C."""

# The commands under their former names: they do what they did, and say what the new form is.


_PLACE = ("vault", "state")
_ASKED = (*_PLACE, "as_json")
_FILTERS = ("only", "domain", "since", "kind", "tag", "scope")


def _former_names() -> dict[str, click.Command]:
    """Return the commands under their former names, none of which a help lists."""
    named = (
        _was("node", "show NOTE", search.show),
        _was("titles", "list NAME", notes.list_notes, (*_ASKED, "query", "k")),
        _was(
            "similar",
            "list --like NOTE",
            notes.list_notes,
            (*_ASKED, *_FILTERS, "k"),
            [click.Argument(["like"], metavar="NOTE")],
        ),
        _was("backlinks", "links NOTE", _backlinks),
        _was("orphans", "links --orphans", links.links, (*_ASKED, "domain"), orphans=True),
        _was("communities", "graph --communities", links.graph, (*_ASKED, "domain"), communities=True),
        _was(
            "traverse",
            "deep --from NOTE",
            links.deep,
            (*_ASKED, *_FILTERS, "depth", "types", "every"),
            [click.Argument(["start"], metavar="NOTE"), click.Option(["--query", "query"], multiple=True)],
        ),
        _was("promote", "tags apply", tags.tags.commands["apply"]),
        _was("verify-quotes", "evidence verify FILE", quality.evidence.commands["verify"]),
        _was("retry", "index --retry", maintenance.index, (*_PLACE, "paths"), retry=True),
        _was("confirm-deletions", "index --confirm-deletions", maintenance.index, _PLACE, confirmed=True),
        _was("reload", "index", _reload),
    )
    systemd.service.add_command(
        _was("serve", "serve --host HOST", run.serve, (*_PLACE, "port", "host", "names"), of="service ")
    )
    rx = {
        name: _was(name, f"evidence {name}", one, of="rx ")
        for name, one in quality.evidence.commands.items()
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
    def warn(context: click.Context, /, **given: Any) -> Any:
        err.say(
            f"`everindex {of}{name}` is now `everindex {now}`; the old name works in this version only.",
            "yellow",
        )
        return context.invoke(command, **given, **fixed)

    params = [*more, *(one for one in command.params if not keeps or one.name in keeps)]
    return click.Command(name, callback=warn, params=params, help=f"Now `everindex {now}`.", hidden=True)


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
        out.say(f"{other['path']}:{other['line']}  {other['kind']}{links.relation(other)}{shown}")
    linking = len({other["path"] for other in answer})
    out.print(f"{counted(linking, 'note links', 'notes link')} here", style="dim")


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


# The command line.


_ALL_HELP = "Show all commands, in groups."


def _show_all(context: click.Context, _: click.Parameter, wanted: bool) -> None:  # noqa: FBT001 - click passes it
    """Print the help and exit: `--all` alone asks for it, too."""
    if wanted and not context.resilient_parsing:
        out.say(context.get_help())
        context.exit()


app = Commands(
    help="Save a note, and find it a second later: by meaning and by exact word.",
    commands={name: command for part in _PARTS for name, command in part.app.commands.items()}
    | _former_names(),
    context_settings={"show_default": True, "help_option_names": ["-h", "--help"]},
)
app.sections, app.elsewhere = _SECTIONS, _ELSEWHERE
app = click.version_option(package_name="everindex", message="everindex %(version)s")(app)
app = click.option(
    "--all", is_flag=True, expose_value=False, is_eager=True, callback=_show_all, help=_ALL_HELP
)(app)


def main() -> NoReturn:
    """Run the command line: exit code 0 ok, 1 failed, 2 usage."""
    gc.set_threshold(_OBJECTS_BETWEEN_LOOKS)
    keep_private()
    try:
        # Not click's own exit: on Ctrl-C it prints a word and exits with 1.
        code = app(standalone_mode=False)
    except click.ClickException as error:
        _show(error)
        sys.exit(error.exit_code)
    except click.Abort:
        sys.exit(_INTERRUPTED)
    except (ConfigurationError, FilterError) as error:
        complain(str(error))
        sys.exit(2)
    except EverindexError as error:
        complain(str(error))
        sys.exit(1)
    except BrokenPipeError:
        os.dup2(
            os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno()
        )  # the interpreter flushes it when it exits
        sys.exit(1)
    except OSError as error:
        complain(f"{error.filename or 'the system'}: {error.strerror or error}")
        sys.exit(1)
    except Exception:  # noqa: BLE001 - a fault of ours: a report of it needs all of this, made safe to show
        err.print(traceback.format_exc(), end="", soft_wrap=True)
        sys.exit(1)
    finally:
        gc.freeze()  # else the interpreter searches everything for garbage on its way out: .2 s where torch is loaded
    sys.exit(code)


def _show(error: click.ClickException) -> None:
    """Print a usage error of click, safe for a terminal."""
    text = io.StringIO()
    if not isinstance(error, click.NoSuchOption) or error.ctx is None:
        error.show(text)
        err.print(text.getvalue(), end="", soft_wrap=True)
        return
    command, name = error.ctx.command, error.option_name
    options = [
        one for one in command.get_params(error.ctx) if isinstance(one, click.Option) and not one.hidden
    ]
    # click suggests what is far, too.
    near = did_you_mean(name, [each for one in options for each in (*one.opts, *one.secondary_opts)])
    click.UsageError(f"There is no option '{name}'{near}", error.ctx).show(text)
    err.print(text.getvalue(), end="", soft_wrap=True)
    if isinstance(command, click.Group):
        known = {name for one in command.commands.values() for option in one.params for name in option.opts}
        if name in known:
            err.say(f"Options follow the command: {error.ctx.command_path} COMMAND {name}")
    # A lone letter excludes nothing: it was meant as an option.
    elif command.name in _QUESTIONS and name not in sys.argv:
        err.say(
            f"To exclude notes with a word, write -- before the question: everindex {command.name} -- soil -clay"
        )
