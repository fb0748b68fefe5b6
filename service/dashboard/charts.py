"""Small charts as plain numbers that a template draws, without a library or script."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 600, 120


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar, in the units of the picture, with `failed` stacked on its lower part; and its text."""

    x: float
    width: float
    top: float
    height: float
    failed_top: float
    failed_height: float
    title: str


@dataclass(frozen=True, slots=True)
class Dot:
    """A point of a line, which of the values it is, and what it says."""

    index: int
    x: float
    y: float
    title: str


@dataclass(frozen=True, slots=True)
class Chart:
    """A picture of WIDTH x HEIGHT: bars, lines (each one stroke without a gap), the value of its upper edge."""

    bars: tuple[Bar, ...]
    lines: tuple[tuple[Dot, ...], ...]
    top: float
    empty: bool


def ceiling(largest: float) -> float:
    """Return the round number (1, 2 or 5 by a power of ten) that is not below a value."""
    if largest < sys.float_info.min:  # below it, powers of ten round to nothing
        return 1.0
    power = 10.0 ** math.floor(math.log10(largest))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= largest * (1 - 1e-9))


def bar_chart(values: Sequence[tuple[int, int]], titles: Sequence[str]) -> Chart:
    """Return bars of (good, failed), oldest first."""
    top = ceiling(max((good + failed for good, failed in values), default=0))
    step = WIDTH / max(1, len(values))
    bars = []
    for at, ((good, failed), title) in enumerate(zip(values, titles, strict=True)):
        low, high = HEIGHT * good / top, HEIGHT * failed / top
        bars.append(
            Bar(
                x=round(at * step + step * 0.12, 2),
                width=round(step * 0.76, 2),
                top=round(HEIGHT - low, 2),
                height=round(low, 2),
                failed_top=round(HEIGHT - low - high, 2),
                failed_height=round(high, 2),
                title=title,
            )
        )
    return Chart(tuple(bars), (), top, not any(good + failed for good, failed in values))


def line_chart(values: Sequence[float | None], titles: Sequence[str]) -> Chart:
    """Return a line, oldest first, that is broken where there is no value."""
    top = ceiling(max((value for value in values if value is not None), default=0))
    step = WIDTH / max(1, len(values))
    lines: list[list[Dot]] = [[]]
    for at, (value, title) in enumerate(zip(values, titles, strict=True)):
        if value is None:
            lines.append([])
        else:
            x, y = round((at + 0.5) * step, 2), round(HEIGHT * (1 - value / top), 2)
            lines[-1].append(Dot(at, x, y, title))
    drawn = tuple(tuple(line) for line in lines if line)
    return Chart((), drawn, top, not drawn)
