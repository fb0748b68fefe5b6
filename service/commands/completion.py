"""The command that prints what makes a shell complete `everindex`."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from service.commands.console import out

app = click.Group()


@app.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script that completes commands and options in a shell."""
    made_by = get_completion_class(shell)
    if made_by is None:
        raise click.BadParameter(f"{shell} cannot be completed")
    out.say(made_by(context.find_root().command, {}, "everindex", "_EVERINDEX_COMPLETE").source())
