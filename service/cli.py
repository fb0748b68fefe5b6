"""The `everindex` command. Heavy imports wait inside the commands, so that help is there at once."""

from __future__ import annotations

import gc
import sys
from typing import NoReturn

import click

from pipelines.errors import ConfigurationError, EverindexError, FilterError
from service.commands import ask, deep, evaluate, evidence, install, links, names, services, tags, upkeep
from service.commands.terminal import Commands, err

# In the order that help shows.
_PARTS = (services, install, ask, names, links, deep, tags, evidence, evaluate, upkeep)
# Imports make many objects and no garbage: looking for it at every 700 of them is a tenth of each start.
_OBJECTS_BETWEEN_LOOKS = 50_000
_INTERRUPTED = 130
"""What a shell makes of Ctrl-C."""

app = Commands(
    help="Save a note, and find it a second later: by meaning and by exact word.",
    commands=[command for part in _PARTS for command in part.app.commands.values()],
    context_settings={"show_default": True},
)


def main() -> NoReturn:
    """Run the command line: exit code 0 ok, 1 failed, 2 usage."""
    gc.set_threshold(_OBJECTS_BETWEEN_LOOKS)
    try:
        # Not click's own way out: it answers Ctrl-C with a word, and with 1.
        code = app(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except click.Abort:
        sys.exit(_INTERRUPTED)
    except (ConfigurationError, FilterError) as error:
        _complain(error)
        sys.exit(2)
    except EverindexError as error:
        _complain(error)
        sys.exit(1)
    sys.exit(code)


def _complain(error: Exception) -> None:
    err.print("[red]error:[/] ", end="")
    err.print(str(error), markup=False, soft_wrap=True)


if __name__ == "__main__":
    main()
