"""The `everindex` command. Heavy imports are inside the commands, so that help is instant."""

from __future__ import annotations

import gc
import io
import os
import sys
import traceback
from typing import NoReturn

import click

from pipelines.errors import ConfigurationError, EverindexError, FilterError
from pipelines.vault.atomic import keep_private
from service.cli import (
    agents,
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
from service.cli.console import complain, err
from service.cli.options import Commands

_PARTS = (run, setup, systemd, notes, search, context, links, agents, tags, quality, maintenance)
# As the help shows them: by who uses them, in the order in which a user meets them.
_SECTIONS = {
    "Your notes": (
        *("init", "up", "demo", "open", "search", "list", "show", "titles", "similar"),
        *("status", "why", "log"),
        *("ignore", "links", "backlinks", "orphans", "communities", "graph", "traverse", "deep"),
        *("context", "mcp"),
    ),
    "Tags, evidence and quality": (
        *("promote", "tags", "verify-quotes", "rx", "eval", "attention"),
        *("retry", "confirm-deletions", "reload"),
    ),
    "Running Everindex": (
        *(
            "doctor",
            "service",
            "index",
            "reembed",
            "models",
            "verify",
            "backup",
            "restore",
            "config",
            "completion",
        ),
        *("watch", "work", "serve"),
    ),
}
_HIDE = "Notes are files: remove the file, or hide it by: everindex ignore PATH"
_REBUILD = "New indexes are built beside the current ones by: everindex index --rebuild"
_ELSEWHERE = {
    "delete": _HIDE,
    **dict.fromkeys(("reindex", "rebuild", "reset"), _REBUILD),
    "validate": "The index is compared with the notes by: everindex verify",
    "embed": "Files are indexed by: everindex index FILE, a whole vault by: everindex index VAULT",
}
# Imports create many objects and no garbage: a collection every 700 objects is a tenth of each start.
_OBJECTS_BETWEEN_LOOKS = 50_000
_QUESTIONS = ("search", "deep")
_INTERRUPTED = 130
"""The exit code that a shell reports for Ctrl-C."""

app = Commands(
    help="Save a note, and find it a second later: by meaning and by exact word.",
    commands={name: command for part in _PARTS for name, command in part.app.commands.items()},
    context_settings={"show_default": True, "help_option_names": ["-h", "--help"]},
)
app.sections, app.elsewhere = _SECTIONS, _ELSEWHERE
app = click.version_option(package_name="everindex", message="everindex %(version)s")(app)


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
    error.show(text)
    err.print(text.getvalue(), end="", soft_wrap=True)
    if not isinstance(error, click.NoSuchOption) or error.ctx is None:
        return
    command = error.ctx.command
    if isinstance(command, click.Group):
        known = {name for one in command.commands.values() for option in one.params for name in option.opts}
        if error.option_name in known:
            err.say(f"Options follow the command: {error.ctx.command_path} COMMAND {error.option_name}")
    # A lone letter excludes nothing: it was meant as an option.
    elif command.name in _QUESTIONS and error.option_name not in sys.argv:
        err.say(
            f"To exclude notes with a word, write -- before the question: everindex {command.name} -- soil -clay"
        )
