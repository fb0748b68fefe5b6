"""Write docs/commands.md from the command line.

`python -m tests.commands_page` renews it: each command with its usage and options, in the order of `everindex --help --all`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import click

from service.cli.main import _SECTIONS, app
from tests.structure import ROOT

PAGE = ROOT / "docs" / "commands.md"
INTRO = """# Commands

What `everindex COMMAND --help` says, on one page. A command uses the vault that contains the current folder, else the
only running one; `--vault VAULT` after the command selects another. NOTE is a path or a title; a note that is not
indexed is known only by its path or file name.

<!-- Made by `python -m tests.commands_page`; do not edit below this line. -->
"""
EVERYWHERE = {"vault", "state", "help"}
"""Options that almost every command has, which the introduction or `--help` explains."""


def described(text: str | None) -> str:
    """Return the paragraphs of a help text, each on one line."""
    return "\n\n".join(" ".join(part.split()) for part in (text or "").replace("\b", "").split("\n\n"))


def cell(text: str) -> str:
    """Return a text in which nothing but code is taken for Markdown or HTML."""
    parts = " ".join(text.split()).split("`")
    parts[::2] = [re.sub(r"([|*_])", r"\\\1", part).replace("<", "&lt;") for part in parts[::2]]
    return "`".join(parts)


def command_lines(name: str, command: click.Command) -> Iterator[str]:
    """Yield the section of a command, and those of its parts if it is a group."""
    # A command keeps the help option of its first context, so this one is made as the command line makes its own.
    context = click.Context(
        command, info_name=name, show_default=True, parent=click.Context(app, **app.context_settings)
    )
    yield f"### `everindex {name}`\n\n{described(command.help)}\n"
    if isinstance(command, click.Group):
        for part, inner in command.commands.items():
            if not inner.hidden:
                yield from command_lines(f"{name} {part}", inner)
        return
    usage = " ".join(piece for piece in command.collect_usage_pieces(context) if piece != "[OPTIONS]")
    if usage:
        yield f"\n```console\n$ everindex {name} {usage}\n```\n"
    options = [param for param in command.params if isinstance(param, click.Option) and not param.hidden]
    records = [param.get_help_record(context) for param in options if param.name not in EVERYWHERE]
    rows = [f"- `{record[0]}`: {cell(record[1])}\n" for record in records if record]
    if rows:
        yield "\n" + "".join(rows)


def render() -> str:
    """Return the page."""
    parts = [INTRO]
    for title, names in _SECTIONS.items():
        parts.append(f"\n## {title}\n")
        for name in names:
            parts.extend(
                f"\n{line}" if line.startswith("#") else line
                for line in command_lines(name, app.commands[name])
            )
    return "".join(parts)


def main() -> None:
    """Renew the page."""
    PAGE.write_text(render(), encoding="utf-8")


if __name__ == "__main__":
    main()
