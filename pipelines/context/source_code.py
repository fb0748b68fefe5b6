"""Shorten source code by the source document's rules: summarise imports and the like, leave out what says least.

Of a fence without a language, nothing is summarised, and what holds a number, a link or a quotation stays.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from pipelines.context.units import Unit

_TARGET, _MOST_PRUNED = 0.4, 0.7
_PRESERVED = re.compile(
    r"\s*(?:(?:async\s+)?(?:def|function|fn|func)\b|class\b|struct\b|interface\b|return\b|raise\b|throw\b|yield\b"
    r"|assert\b|if\b|elif\b|else\b|for\b|while\b|try\b|except\b|catch\b|finally\b|with\b|match\b|switch\b|case\b)"
    r"|.*#\s*(?:TODO|FIXME|HACK|NOTE|XXX)\b|.*(?:\"\"\"|''')"
)
_SUMMARISED = {
    "import": (re.compile(r"\s*(?:import|from|use|using|require|#include)\b\s*[<\"']?([\w.:/]+)"), 3),
    "assignment": (re.compile(r"\s*(?:self|this)\.(\w+)\s*=[^=]"), 2),
    "log statement": (re.compile(r"\s*(?:(?:log|logger|logging|console)\.\w+|print\w*)\s*(\()"), 1),
}
"""Kinds of lines, with how many in a row stay as they are."""

_NAMES = 6
_WORD = re.compile(r"[^\W\d]\w+")


def shorten_code(units: Sequence[Unit], text: str, terms: Collection[str], *, prune: bool) -> list[Unit]:
    """Mark the lines of fences that are summarised or, with `prune`, left out because they say least."""
    found: list[Unit] = []
    for (kind, _), run in groupby(units, key=lambda one: (one.kind, one.block)):
        lines = list(run)
        if kind == "code":
            lines = list(_summarise(lines, text))
        if kind in ("code", "plain") and prune:
            lines = _pruned(lines, text, terms)
        found += lines
    return found


def _class(line: str) -> str:
    return next((name for name, (shape, _) in _SUMMARISED.items() if shape.match(line)), "")


def _summarise(lines: Sequence[Unit], text: str) -> Iterator[Unit]:
    """Replace each run of imports, assignments of attributes, or log statements by a line that counts them."""
    for name, run in groupby(lines, key=lambda one: _class(text[one.start : one.end])):
        same = list(run)
        if not name or len(same) <= _SUMMARISED[name][1]:
            yield from same
            continue
        note = f"# [{len(same)} {name}s{_names(name, same, text)}]"
        yield from (replace(one, gone=name, note=note) for one in same)


def _names(name: str, lines: Sequence[Unit], text: str) -> str:
    if name == "log statement":
        return ""
    matches = (_SUMMARISED[name][0].match(text[one.start : one.end]) for one in lines)
    names = list(dict.fromkeys(match[1] for match in matches if match))
    return ": " + ", ".join(names[:_NAMES]) + (", …" if len(names) > _NAMES else "")


def _pruned(lines: Sequence[Unit], text: str, terms: Collection[str]) -> list[Unit]:
    """Leave out the lines with the smallest sum of inverse document frequencies, each line being a document."""
    words = [set(_WORD.findall(text[one.start : one.end].casefold())) for one in lines]
    having = Counter(word for own in words for word in own)
    worth = [sum(math.log((len(lines) + 1) / (having[word] + 1)) + 1 for word in own) for own in words]
    loose = [
        number
        for number, one in enumerate(lines)
        if not (
            one.gone or one.fixed or _PRESERVED.match(text[one.start : one.end]) or words[number] & set(terms)
        )
    ]
    kept = sum(one.end - one.start for one in lines if not one.gone)
    target = _TARGET * sum(one.end - one.start for one in lines)
    gone: set[int] = set()
    for number in sorted(loose, key=lambda n: worth[n])[: int(_MOST_PRUNED * len(loose))]:
        if kept <= target:
            break
        kept -= lines[number].end - lines[number].start
        gone.add(number)
    return [replace(one, gone=one.kind) if number in gone else one for number, one in enumerate(lines)]
