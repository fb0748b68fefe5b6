"""The `everindex` command. Heavy imports wait inside the commands, so that help is there at once."""

from __future__ import annotations

import sys
from typing import NoReturn

import typer

from pipelines.errors import ConfigurationError, EverindexError, FilterError
from service.commands import ask, deep, evaluate, evidence, install, links, names, services, tags, upkeep
from service.commands.terminal import err

app = typer.Typer(
    help="Save a note, and find it a second later: by meaning and by exact word.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
# In the order that help shows.
for commands in (services, install, ask, names, links, deep, tags, evidence, evaluate, upkeep):
    app.add_typer(commands.app)


def main() -> NoReturn:
    """Run the command line: exit code 0 ok, 1 failed, 2 usage."""
    try:
        app()
    except (ConfigurationError, FilterError) as error:
        _complain(error)
        sys.exit(2)
    except EverindexError as error:
        _complain(error)
        sys.exit(1)
    sys.exit(0)


def _complain(error: Exception) -> None:
    err.print("[red]error:[/] ", end="")
    err.print(str(error), markup=False, soft_wrap=True)


if __name__ == "__main__":
    main()
