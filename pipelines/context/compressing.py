"""Compress Markdown: leave out what says least for a question, and mark every gap.

What is kept is kept word for word. Headings, tasks, quotes, links, and sentences with numbers stay. Long lists and
tables are summarised with their counts, source code by the source document's rules, and of other sentences those
farthest from the question go first.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Literal

from pipelines.context.source_code import is_definition, shorten_code
from pipelines.context.units import Unit, units_of

Mode = Literal["none", "light", "strong"]
_TARGET: dict[Mode, float] = {"light": 0.7, "strong": 0.4}
"""The share of a text's characters towards which sentences are left out; 0.4 is the source document's."""

_MOST_PRUNED = 0.7  # of the sentences that may be left out
_ROWS: dict[Mode, int] = {"light": 7, "strong": 4}  # with the two of a table's head
_ITEMS: dict[Mode, int] = {"light": 6, "strong": 3}
GAP = "[…]"


@dataclass(frozen=True, slots=True)
class Aim:
    """What a text is compressed for: the mode, the words of the question, and lines that are boilerplate.

    `near`: how near ranges of the text are to the question, (start, end, cosine). `share`: the share of the text that
    would suffice; the mode says how much is left out at most. `is_source`: the text is source code, not Markdown.
    """

    mode: Mode
    terms: Collection[str] = ()
    near: Sequence[tuple[int, int, float]] = ()
    repeated: Collection[str] = ()
    share: float = 0.0
    is_source: bool = False


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a compressed text: a range of the original, or a mark in place of what was left out."""

    start: int
    end: int
    mark: str = ""


def compress(text: str, aim: Aim) -> tuple[str, list[Part]]:
    """Return a text compressed, and its parts; the text itself if nothing can be left out."""
    if aim.mode == "none":
        return text, [Part(0, len(text))]
    units = units_of(text, is_source=aim.is_source)
    units = [replace(one, gone="line") if _is_boilerplate(one, text, aim) else one for one in units]
    units = list(_shorten_runs(units, text, aim))
    units = shorten_code(units, text, aim.terms, prune=aim.mode == "strong")
    units = _prune(units, text, aim)
    parts = list(_parts(units))
    return _written(text, parts), parts


def best_part(
    text: str, aim: Aim, sizes: Callable[[Sequence[str]], Sequence[int]], room: int
) -> tuple[int, int] | None:
    """Return the range of the lines and sentences around the one nearest to the question that fit into `room`.

    Of source code it begins with a definition, if all lines from there to the nearest one fit. None if not even the
    nearest one fits.
    """
    units = units_of(text, is_source=aim.is_source)
    if not units:
        return None
    counts = sizes([text[one.start : one.end] for one in units])
    near = [_nearness(one, text, aim) for one in units]
    first = last = max(range(len(units)), key=lambda n: near[n])
    if counts[first] > room:
        return None
    begins = [n for n, one in enumerate(units) if aim.is_source and is_definition(text[one.start : one.end])]
    before = [n for n in (begins or range(len(units))) if n <= first]
    if begins and before and sum(counts[before[-1] : last + 1]) <= room:
        first = before.pop()
    while True:
        used = sum(counts[first : last + 1])
        previous = max((n for n in before if n < first), default=None)
        fits_before = previous is not None and used + sum(counts[previous:first]) <= room
        fits_after = last + 1 < len(units) and used + counts[last + 1] <= room
        if fits_after and (begins or not fits_before or near[last + 1] >= near[first - 1]):
            last += 1
        elif fits_before and previous is not None:
            first = previous
        else:
            return units[first].start, units[last].end


def _is_boilerplate(unit: Unit, text: str, aim: Aim) -> bool:
    return (
        not (unit.fixed or unit.telling)
        and unit.kind in ("sentence", "item")
        and text[unit.start : unit.end].strip() in aim.repeated
    )


def _shorten_runs(units: Sequence[Unit], text: str, aim: Aim) -> Iterator[Unit]:
    """Summarise long lists and tables: the first entries stay, and those that share a word with the question.

    Entries with numbers or links stay, too, where they are few: in a list in which most have some, that says nothing.
    """
    for (kind, _), run in groupby(units, key=lambda one: (one.kind, one.block)):
        first = {"row": _ROWS, "item": _ITEMS}.get(kind, {}).get(aim.mode)
        entries = list(run)
        few = sum(one.telling for one in entries) <= len(entries) / 2
        for number, one in enumerate(entries):
            stays = one.fixed or (one.telling and few)
            is_due = first is not None and number >= first and not (stays or _asks_for(one, text, aim))
            yield replace(one, gone=kind) if is_due and not one.gone else one


def _asks_for(unit: Unit, text: str, aim: Aim) -> bool:
    words = text[unit.start : unit.end].casefold()
    return any(term in words for term in aim.terms)


def _prune(units: Sequence[Unit], text: str, aim: Aim) -> list[Unit]:
    """Leave out sentences, the farthest from the question first, until the text is as short as it should be."""
    target = max(_TARGET[aim.mode], aim.share) * len(text)
    kept = sum(one.end - one.start for one in units if not one.gone)
    loose = [n for n, one in enumerate(units) if one.kind == "sentence" and not (one.fixed or one.gone)]
    pruned: set[int] = set()
    for number in sorted(loose, key=lambda n: _nearness(units[n], text, aim))[
        : int(_MOST_PRUNED * len(loose))
    ]:
        if kept <= target:
            break
        kept -= units[number].end - units[number].start
        pruned.add(number)
    return [replace(one, gone="sentence") if n in pruned else one for n, one in enumerate(units)]


def _nearness(unit: Unit, text: str, aim: Aim) -> float:
    """Return the best cosine of the ranges in a sentence; where there are none, its share of the question's words."""
    cosines = [cosine for start, end, cosine in aim.near if start < unit.end and unit.start < end]
    if cosines:
        return max(cosines)
    words = text[unit.start : unit.end].casefold()
    return sum(term in words for term in aim.terms) / max(1, len(aim.terms)) - 1


def _parts(units: Sequence[Unit]) -> Iterator[Part]:
    """Yield what is kept, neighbours as one range, and one mark for each run of units that are gone."""
    for (gone, _), several in groupby(units, key=lambda one: (one.gone, one.note)):
        run = list(several)
        mark = "" if not gone else run[0].note or _mark(gone, len(run))
        yield Part(run[0].start, run[-1].end, mark)


def _mark(gone: str, count: int) -> str:
    names = {
        "row": ("row", "rows"),
        "item": ("item", "items"),
        "code": ("line of code", "lines of code"),
        "plain": ("line", "lines"),
    }
    return f"[… {count} {names[gone][count > 1]}]" if gone in names else GAP


def _written(text: str, parts: Sequence[Part]) -> str:
    """Join the parts; a mark is on the line of what it replaces if that line goes on, else on its own."""
    written: list[str] = []
    end = 0
    for part in parts:
        between = text[end : part.start] if written else ""
        breaks = "\n\n" if between.count("\n") > 1 else "\n" if "\n" in between else " "
        written.append((breaks if written else "") + (part.mark or text[part.start : part.end]))
        end = part.end
    return "".join(written)
