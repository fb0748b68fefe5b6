"""Report a note among the problems while its parsing takes long."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pipelines.state.health import Problems

PARSING = "parsing"
"""The kind of these problems."""

REPORTED_SECONDS = 30.0
"""After how many seconds of parsing a note is reported."""


@contextmanager
def reports_of_parsing(problems: Problems) -> Iterator[Callable[[str, float], None]]:
    """Yield a function that takes a note's path and its seconds of parsing so far; reports end with the context."""
    reported: set[str] = set()

    def said(path: str, seconds: float) -> None:
        if seconds >= REPORTED_SECONDS and path not in reported:
            reported.add(path)
            problems.report(
                PARSING,
                path,
                f"{path!r} has taken more than {REPORTED_SECONDS:.0f} s to parse: it is found when that is done, and"
                " other notes do not wait for it; thousands of brackets take longest, so check whether it is a note",
            )

    try:
        yield said
    finally:
        for path in reported:
            problems.clear(PARSING, path)


def forget_reports(problems: Problems) -> None:
    """Clear the reports of a worker that died before it could do so."""
    for problem in problems.reported():
        if problem.kind == PARSING:
            problems.clear(PARSING, problem.subject)
