"""docs/commands.md agrees with the command line."""

from __future__ import annotations

import click
import pytest

from service.cli.main import app
from tests.commands_page import EVERYWHERE, PAGE, cell, described, render


def commands(group, prefix=""):
    """Yield each command by its name, the parts of groups included."""
    for name, command in group.commands.items():
        if isinstance(command, click.Group) and not command.hidden:
            yield from commands(command, f"{prefix}{name} ")
        elif not command.hidden:
            yield f"{prefix}{name}", command


COMMANDS = dict(commands(app))


def test_the_page_is_that_of_the_code():
    assert PAGE.read_text(encoding="utf-8") == render(), "renew it: python -m tests.commands_page"


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_is_there_with_its_options(name):
    found = render().partition(f"### `everindex {name}`\n")[2].partition("\n#")[0]
    options = [p for p in COMMANDS[name].params if isinstance(p, click.Option) and not p.hidden]
    names = {max(option.opts, key=len) for option in options if option.name not in EVERYWHERE}
    assert {name for name in names if f"{name} " not in found and f"{name}`" not in found} == set()
    assert described(COMMANDS[name].help) in found


def test_a_cell_shows_every_sign_as_it_is():
    assert cell("a_b <c>\n *d* | e, `_f.yaml`") == "a\\_b &lt;c> \\*d\\* \\| e, `_f.yaml`"
