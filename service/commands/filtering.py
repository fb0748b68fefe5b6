"""The filters as options, for every command that takes them."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import click

from service.commands.terminal import domain_option

Pairs = list[tuple[str, str]]


def filter_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options that choose notes; it is called with them as `filters`, pairs of name and value."""

    @click.option(
        "--tag", multiple=True, metavar="TAG", help="Only notes with this tag, or one nested in it."
    )
    @click.option("--kind", multiple=True, metavar="KIND", help="Only notes of this kind.")
    @click.option("--since", metavar="YYYY-MM-DD", help="Only notes of that day or later.")
    @domain_option
    @click.option(
        "--scope", multiple=True, metavar="NAME", help="Only notes in this scope of `_scopes.yaml`."
    )
    @click.option(
        "--filter",
        "-f",
        "only",
        multiple=True,
        metavar="NAME=VALUE",
        help="Only notes that pass another filter: folder=y, format=pdf, until=2026-01-31, has=task ...",
    )
    @wraps(command)
    def with_filters(
        only: tuple[str, ...],
        domain: str | None,
        since: str | None,
        kind: tuple[str, ...],
        tag: tuple[str, ...],
        scope: tuple[str, ...],
        **others: Any,
    ) -> None:
        pairs = _read(only)
        pairs += [("tag", one) for one in tag] + [("kind", one) for one in kind]
        pairs += [("scope", one) for one in scope]
        pairs += [
            (name, value) for name, value in (("since", since), ("domain", domain)) if value is not None
        ]
        command(filters=pairs, **others)

    return with_filters


def _read(only: tuple[str, ...]) -> Pairs:
    pairs = [one.partition("=") for one in only]
    for name, equals, _ in pairs:
        if not equals:
            raise click.BadParameter(f"{name!r} is not a filter; write NAME=VALUE, as in tag=recipes")
    return [(name, value) for name, _, value in pairs]
