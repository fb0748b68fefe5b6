"""The command that shows what Everindex does, on a vault that is not the user's."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import click

from pipelines.errors import ConfigurationError
from service.commands.console import out
from service.commands.services import up
from service.commands.terminal import port_option, settings_of

app = click.Group()
_PACKAGED = Path(__file__).parents[1] / "example_vault"
_CHECKOUT = Path(__file__).parents[2] / "examples" / "vault"


@app.command()
@port_option
@click.pass_context
def demo(context: click.Context, port: int | None) -> None:
    """Serve an example vault from a temporary folder, until Ctrl-C; then it is removed."""
    from workers.vault_paths import find_vault  # noqa: PLC0415 - help has to be instant

    wanted = _free_port(port)
    with tempfile.TemporaryDirectory(prefix="everindex-demo-") as folder:
        root = Path(folder).resolve() / "vault"
        copy_example(root)
        state = find_vault(root, None, create=True).state
        out.say(f"An example vault is in {root}; change its notes as you like. It is removed at the end.")
        try:
            context.invoke(up, folder=root, vault=None, port=wanted, state=state)
        finally:
            shutil.rmtree(state, ignore_errors=True)


def copy_example(root: Path) -> None:
    """Copy the example vault, without the id of the original. Raises OSError."""
    original = _PACKAGED if _PACKAGED.is_dir() else _CHECKOUT
    shutil.copytree(original, root, ignore=shutil.ignore_patterns(".everindex"))


def _free_port(wanted: int | None) -> int:
    """Return the port given, or else the one of the settings if it is free, or else 0, which is any.

    Raises ConfigurationError if the port given is in use.
    """
    from service.runtime.sockets import bind  # noqa: PLC0415 - help has to be instant

    if wanted is not None:
        bind(wanted).close()
        return wanted
    port = settings_of({}).port
    try:
        bind(port).close()
    except ConfigurationError:
        return 0
    return port
