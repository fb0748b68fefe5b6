"""Read what a person typed: operators such as `tag:x`, which are filters, and the question that remains."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from pipelines.errors import FilterError
from pipelines.filters import Filters, fold, parse_filters
from pipelines.notes.lexical import CURLY_QUOTES, OR, joined

_FILTERS = {
    **{name: name for name in ("tag", "path", "folder", "file", "title", "kind", "has")},
    "after": "since",
    "before": "until",
}
_DAYS = ("since", "until")
_MOST = 50  # as many filters as a request may have
# An operator is a word of its own: `"a phrase"` may contain anything, and `http://x` and `tag://x` are addresses.
_PART = re.compile(
    r"(?:(?<!\S)(?P<minus>-)?(?:"
    rf'(?P<name>{"|".join(_FILTERS)}):(?!//)(?P<value>"[^"]*"|[^\s"]+)'
    r'|\#(?P<tag>[^\s"]+)'
    r'|\[(?P<property>"[^"]+"|[^":\[\]]+):(?P<wanted>\ *"[^"]*"\ *|[^"\[\]]+)\]'
    r')(?!\S))|"[^"]*"?|[^\s"]+',
    re.IGNORECASE,
)
_VALUES_OR = re.compile(rf"\s{OR}\s")


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator in a question: `filter` is its name among the filters, and any of its `values` will do.

    `negated`: it leaves out the notes that pass. `alternative`: `OR` joins it to the operator before it. `written` is
    its text, and `span` what has to be cut from the question to remove it.
    """

    filter: str
    values: tuple[str, ...]
    negated: bool
    alternative: bool
    written: str
    span: tuple[int, int]

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """Return the operator as `parse_filters` reads it."""
        return [(f"-{self.filter}" if self.negated else self.filter, value) for value in self.values]


@dataclass(frozen=True, slots=True)
class Question:
    """A question as it was typed: the `text` to search for, the operators in it, and the filters that these are."""

    typed: str
    text: str
    operators: tuple[Operator, ...]
    filters: Filters

    def within(self, filters: Filters) -> Filters:
        """Return filters that were given beside the question, narrowed by those in it."""
        return replace(filters, scopes=(*filters.scopes, *self.filters.scopes))

    def with_text(self, text: str | None) -> str | None:
        """Return what was typed with another text in place of its own, before the operators; None for no text."""
        joints = ((" OR " if one.alternative else " ") + one.written for one in self.operators)
        return None if text is None else text + "".join(joints)

    def without(self, operator: Operator) -> str:
        """Return what was typed without one of its operators."""
        return _cut(self.typed, [operator.span])


def read_question(typed: str) -> Question:
    """Read the operators in what a person typed. What is none stays in the text, so that nothing is an error.

    The filters of one name combine as they do beside a question; all others must hold. `OR` between two operators
    asks for either; it binds more tightly than the space. Beside a word, which cannot be a filter, it and the
    operators that it joins are words.
    """
    chains = [chain for chain in joined(_parts(typed), _is_or) if all(part.operator for part in chain)]
    groups = [_operators(typed, chain) for chain in chains]
    if not groups:
        return Question(typed, typed, (), Filters())
    text = _cut(typed, [(chain[0].start, chain[-1].end) for chain in chains])
    text = "" if text == OR else text  # `tag:a OR`, before the next operator is typed
    return Question(typed, text, tuple(one for group in groups for one in group), _filters_of(groups))


@dataclass(frozen=True, slots=True)
class _Part:
    """A word, a phrase or an operator of a question, and where it is."""

    text: str
    start: int
    end: int
    operator: tuple[str, tuple[str, ...], bool] | None


def _parts(typed: str) -> list[_Part]:
    parts, left = [], _MOST
    for match in _PART.finditer(typed.translate(CURLY_QUOTES)):
        operator = _read(match)
        if operator and (left := left - len(operator[1])) < 0:
            operator = None
        parts.append(_Part(match[0], match.start(), match.end(), operator))
    return parts


def _is_or(part: _Part) -> bool:
    return part.text == OR


def _read(match: re.Match[str]) -> tuple[str, tuple[str, ...], bool] | None:
    """Return an operator's filter, its values and whether it is negated, if it is one that can be used."""
    name = (match["name"] or "").lower()
    if name in _FILTERS:  # without case, a pattern takes a dotless i for an i
        name, values = _FILTERS[name], [match["value"].strip('"')]
    elif match["tag"]:
        name, values = "tag", [match["tag"]]
    elif match["property"] and any(map(str.isalpha, match["property"])):  # not in `[12:30]`
        name, wanted = "property." + fold(match["property"].strip('" ')), match["wanted"].strip()
        values = [wanted.strip('"')] if wanted.startswith('"') else _VALUES_OR.split(wanted)
    else:
        return None
    try:
        match[0].encode()  # bytes of a command line that are no text cannot be bound to SQL
        parse_filters([(name, value) for value in values])
    except (FilterError, UnicodeEncodeError):
        return None
    return name, tuple(values), bool(match["minus"])


def _operators(typed: str, chain: Sequence[_Part]) -> list[Operator]:
    """Return the operators of a chain, each cut together with an `OR` beside it."""
    spans = [(part.start, part.end) for part in chain]
    if len(chain) > 1:
        spans = [(chain[0].start, chain[1].start), *((one.end, two.end) for one, two in pairwise(chain))]
    return [
        Operator(*part.operator, part is not chain[0], typed[part.start : part.end], span)
        for part, span in zip(chain, spans, strict=True)
        if part.operator
    ]


def _filters_of(groups: Sequence[Sequence[Operator]]) -> Filters:
    """Return the conditions of all groups, each in a scope of its own; of a group, one operator is enough."""
    together: dict[object, list[tuple[str, str]]] = {}
    scopes = []
    for group in groups:
        first = group[0]
        if len(group) > 1:
            scopes.append(Filters(either=tuple(parse_filters(one.pairs) for one in group)))
        else:
            # Several days are no contradiction here: all of them must hold.
            key = first if first.filter in _DAYS else (first.filter, first.negated)
            together.setdefault(key, []).extend(first.pairs)
    return Filters(scopes=(*map(parse_filters, together.values()), *scopes))


def _cut(typed: str, spans: Sequence[tuple[int, int]]) -> str:
    """Return a text without some of its parts."""
    starts, ends = [0, *(end for _, end in spans)], [*(start for start, _ in spans), len(typed)]
    kept = (typed[start:end].strip() for start, end in zip(starts, ends, strict=True))
    return " ".join(filter(None, kept))
