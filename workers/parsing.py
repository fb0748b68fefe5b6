"""A note that has been parsed for long is among the problems until that ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pipelines.store.problems import Problems

PARSING = "parsing"
"""The kind of these problems."""

REPORTED_SECONDS = 30.0
"""A note that is parsed for so long is reported."""


@contextmanager
def reports_of_parsing(problems: Problems) -> Iterator[Callable[[str, float], None]]:
    """Give what is told a note's path and for how many seconds it has been parsed; reports end with the context."""
    reported: set[str] = set()

    def said(path: str, seconds: float) -> None:
        if seconds >= REPORTED_SECONDS and path not in reported:
            reported.add(path)
            problems.report(
                PARSING,
                path,
                f"{path!r} has taken more than {REPORTED_SECONDS:.0f} s to parse: it is found when that is done, and"
                " other notes do not wait for it; thousands of brackets take longest, so look whether it is a note",
            )

    try:
        yield said
    finally:
        for path in reported:
            problems.clear(PARSING, path)


def forget_reports(problems: Problems) -> None:
    """Take back what a worker reported that died before it could."""
    for problem in problems.reported():
        if problem.kind == PARSING:
            problems.clear(PARSING, problem.subject)
