"""A question, read once: its operators such as `tag:x`, which are filters, and the words and phrases that remain."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, TypeVar

from pipelines.errors import FilterError
from pipelines.filters import NO_FILTERS, Filters, fold, parse_filters
from pipelines.language import Language, content_words, language_of
from pipelines.notes.chunk import CJK
from pipelines.notes.lexical import (
    STOPWORDS,
    TOKEN,
    LexicalQuery,
    Term,
    folded,
    index_tokens,
    plain_letters,
    telling_words,
    without_diacritics,
)

if TYPE_CHECKING:
    from pipelines.cache.vectors import Vector

MOST_TERMS = 64
"""Number of words, and of phrases, of a question that count."""

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
_OR = "OR"
_VALUES_OR = re.compile(rf"\s{_OR}\s")
# `-x`, `-rf`, `-2` and `-100` are more often options and numbers than unwanted words; `-1970` is a year.
_WORD_OR_PHRASE = re.compile(
    rf'(?P<minus>(?<!\S)-(?=["{CJK}]|[^\W\d_]\w\w|\d{{4}}))?(?:"(?P<phrase>[^"]*)"|(?P<word>[^\s"]+))'
)
# Typographic quotes, which phones and text processors write, and the one that operators have.
_CURLY_QUOTES = str.maketrans("\u201c\u201d\u201e", '"""')
_IS_CJK = re.compile(rf"[{CJK}]")
_SCRIPT_RUN = re.compile(rf"(?P<cjk>[{CJK}]+)|[^{CJK}]+")
_LONGEST_WITH_SIGNS = 10
_CJK_A_WORD = 2
_SHORTEST_PART = 2
_Item = TypeVar("_Item")


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
class Signs:
    """What a question's quotes and minus signs require: phrases that a note must have, words that it must not have.

    Each of the `required` is a phrase, or phrases joined by `OR`, of which a note must have one. `asks` is false if
    the question only says what is unwanted.
    """

    required: tuple[tuple[str, ...], ...]
    unwanted_phrases: tuple[str, ...]
    unwanted_words: tuple[str, ...]
    asks: bool

    def __bool__(self) -> bool:
        """Say whether there are any."""
        return bool(self.required or self.unwanted_phrases or self.unwanted_words)


@dataclass(frozen=True)
class Question:
    """A question as it was typed: the `text` to search for, the operators beside it, and the filters.

    `filters` are those that were given with it, narrowed by its operators. `rerank`: whether second models rank its
    notes again; None: those that take no longer than a question may. `vectors` has that of what is `asked` by
    model; the use case fills it, with None for a model that is not loaded. All else is read from the text when it is
    first needed.
    """

    typed: str
    text: str
    operators: tuple[Operator, ...] = ()
    filters: Filters = NO_FILTERS
    rerank: bool | None = None
    vectors: dict[str, Vector | None] = field(default_factory=dict, init=False, repr=False, compare=False)

    def within(self, given: Filters) -> Question:
        """Return the question with filters that were given with it, narrowed by its operators."""
        return replace(self, filters=replace(given, scopes=(*given.scopes, *self.filters.scopes)))

    def with_text(self, text: str | None) -> str | None:
        """Return what was typed with another text in place of its own, before the operators; None for no text."""
        joints = ((" OR " if one.alternative else " ") + one.written for one in self.operators)
        return None if text is None else text + "".join(joints)

    def without(self, operator: Operator) -> str:
        """Return what was typed without one of its operators."""
        return _cut(self.typed, [operator.span])

    @property
    def is_list(self) -> bool:
        """Say whether there are only filters, and perhaps words that are left out."""
        return self.filters != NO_FILTERS and not self.signs.asks

    @cached_property
    def _words(self) -> _QuestionWords:
        return _read_words(self.text)

    @cached_property
    def asked(self) -> str:
        """Return what is asked for: the text without its unwanted parts."""
        if not self._words.unwanted:
            return self.text
        return " ".join(f'"{text}"' if is_phrase else text for text, is_phrase in self._words.asked)

    @cached_property
    def signs(self) -> Signs:
        """Return what the quotes and minus signs require of a note.

        A question of more than ten other words has no signs: it is probably a pasted sentence that contains quotes.
        """
        words = self._words
        # A phrase or a word is not a required phrase: the words are only the question's.
        chains = _joined(words.asked, lambda part: part == (_OR, False)) if words.has_signs else []
        required = [
            _telling(text for text, _ in chain) for chain in chains if all(phrase for _, phrase in chain)
        ]
        return Signs(
            tuple(dict.fromkeys(filter(None, required)))[:MOST_TERMS],
            _telling(text for text, is_phrase in words.unwanted if is_phrase),
            _telling(text for text, is_phrase in words.unwanted if not is_phrase),
            any(_telling(text for text, _ in words.asked)),
        )

    @cached_property
    def wanted(self) -> LexicalQuery | None:
        """Return what to search for by words; None if there is nothing to search for.

        One matching word is enough, `"a phrase"` stays together, and words marked as unwanted with `-` are left out.
        """
        words, parts = _terms(self._words.asked)
        if not words and not parts:
            return None
        # A compound is searched for twice, whole and in parts, so each of these counts half as much as a word.
        return LexicalQuery(Counter(map(folded, [*words, *words, *parts] if parts else words)))

    def wanted_with(self, names: Iterable[str], weight: float) -> LexicalQuery:
        """Return what to search for by words, and beside it these names, each as a phrase of less weight."""
        _, parts = _terms(self._words.asked)
        unit = 2 if parts else 1  # what a word weighs
        phrases = [folded(tokens[:MOST_TERMS]) for name in names if (tokens := index_tokens(name))]
        return LexicalQuery(
            dict.fromkeys(phrases, weight * unit) | dict(self.wanted.weights if self.wanted else {})
        )

    @cached_property
    def language(self) -> Language | None:
        """Return the language, None if unclear."""
        return language_of(self.asked)

    @cached_property
    def content(self) -> dict[str, float]:
        """Return those of the wanted words, with their weights, that carry meaning in the question's language."""
        weights = self.wanted.weights if self.wanted else {}
        return {term: weights[term] for term in content_words(weights, self.language)}

    @cached_property
    def whole_phrases(self) -> tuple[str, ...]:
        """Return what is asked for as FTS5 phrases: all of it, or each quoted phrase if there is nothing else.

        A phrase of fewer than two index words is left out, and without quotes one of fewer than two words that carry
        meaning: `sort by` says no more than `sort`.
        """
        asked = [part for part in self._words.asked if part != (_OR, False)]
        texts = [text for text, _ in asked]
        phrases = map(index_tokens, texts if all(is_phrase for _, is_phrase in asked) else [" ".join(texts)])
        found = tuple(folded(tokens[:MOST_TERMS]) for tokens in phrases if len(tokens) > 1)[:MOST_TERMS]
        if self.signs.required:
            return found
        return tuple(one for one in found if len(content_words(one.split(), self.language)) > 1)

    @cached_property
    def marked(self) -> tuple[str, ...]:
        """Return the terms to mark in an excerpt: the words in lower case, identifiers also in parts."""
        asked = self._words.asked
        words = dict.fromkeys(word.lower() for text, _ in asked for word in _marked(plain_letters(text)))
        return tuple([word for word in words if word not in STOPWORDS] or words)[:MOST_TERMS]

    @cached_property
    def telling(self) -> frozenset[str]:
        """Return the words that are no stop words, as `telling_words` does those of a name."""
        return frozenset(telling_words(self.text))


def read_question(typed: str, given: Filters = NO_FILTERS, *, rerank: bool | None = None) -> Question:
    """Read what a person typed, and the filters and `rerank` that were given with it.

    What is no operator stays in the text, so that nothing is an error. The filters of one name combine as they do
    beside a question; all others must hold. `OR` between two operators asks for either; it binds more tightly than
    the space. Beside a word, which cannot be a filter, it and the operators that it joins are words.
    """
    chains = [chain for chain in _joined(_parts(typed), _is_or) if all(part.operator for part in chain)]
    groups = [_operators(typed, chain) for chain in chains]
    if not groups:
        return Question(typed, typed, filters=given, rerank=rerank)
    text = _cut(typed, [(chain[0].start, chain[-1].end) for chain in chains])
    text = "" if text == _OR else text  # `tag:a OR`, before the next operator is typed
    operators = tuple(one for group in groups for one in group)
    return Question(typed, text, operators, Filters(scopes=_scopes_of(groups)), rerank).within(given)


@dataclass(frozen=True, slots=True)
class _QuestionPart:
    """A word, a phrase or an operator of a question, and where it is."""

    text: str
    start: int
    end: int
    operator: tuple[str, tuple[str, ...], bool] | None


def _parts(typed: str) -> list[_QuestionPart]:
    parts, left = [], _MOST
    for match in _PART.finditer(typed.translate(_CURLY_QUOTES)):
        operator = _read(match)
        if operator and (left := left - len(operator[1])) < 0:
            operator = None
        parts.append(_QuestionPart(match[0], match.start(), match.end(), operator))
    return parts


def _is_or(part: _QuestionPart) -> bool:
    return part.text == _OR


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


def _operators(typed: str, chain: Sequence[_QuestionPart]) -> list[Operator]:
    """Return the operators of a chain, each cut together with an `OR` beside it."""
    spans = [(part.start, part.end) for part in chain]
    if len(chain) > 1:
        spans = [(chain[0].start, chain[1].start), *((one.end, two.end) for one, two in pairwise(chain))]
    return [
        Operator(*part.operator, part is not chain[0], typed[part.start : part.end], span)
        for part, span in zip(chain, spans, strict=True)
        if part.operator
    ]


def _scopes_of(groups: Sequence[Sequence[Operator]]) -> tuple[Filters, ...]:
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
    return (*map(parse_filters, together.values()), *scopes)


def _cut(typed: str, spans: Sequence[tuple[int, int]]) -> str:
    """Return a text without some of its parts."""
    starts, ends = [0, *(end for _, end in spans)], [*(start for start, _ in spans), len(typed)]
    kept = (typed[start:end].strip() for start, end in zip(starts, ends, strict=True))
    return " ".join(filter(None, kept))


@dataclass(frozen=True, slots=True)
class _QuestionWords:
    """A text in parts (text, is a phrase): those asked for, and the unwanted ones."""

    asked: list[tuple[str, bool]]
    unwanted: list[tuple[str, bool]]
    has_signs: bool


def _read_words(text: str) -> _QuestionWords:
    found = list(_WORD_OR_PHRASE.finditer(_composed(text).translate(_CURLY_QUOTES)))
    parts = [
        (part["phrase"] if part["word"] is None else part["word"], part["word"] is None) for part in found
    ]
    minus = [bool(part["minus"]) for part in found]
    plain = [
        text for (text, is_phrase), left_out in zip(parts, minus, strict=True) if not (is_phrase or left_out)
    ]
    has_signs = sum(map(_count_words, plain)) <= _LONGEST_WITH_SIGNS
    return _QuestionWords(
        [part for part, left_out in zip(parts, minus, strict=True) if not (left_out and has_signs)],
        [part for part, left_out in zip(parts, minus, strict=True) if left_out and has_signs],
        has_signs,
    )


def _composed(text: str) -> str:
    """Compose accented letters into one character, and drop accents that cannot be composed."""
    return text if text.isascii() else without_diacritics(text, "NFC")


def _count_words(text: str) -> int:
    """Count a text's words; two characters of CJK count as one."""
    found = TOKEN.findall(text)
    return sum(-(-len(word) // _CJK_A_WORD) if _IS_CJK.match(word) else 1 for word in found)


def _joined(parts: Iterable[_Item], is_or: Callable[[_Item], bool]) -> list[list[_Item]]:
    """Return the parts of a question that `OR` joins, and each other part alone; an `OR` at the end is left out."""
    chains: list[list[_Item]] = []
    joins = False
    for part in parts:
        if joins:
            chains[-1].append(part)
            joins = False
        elif chains and is_or(part):
            joins = True
        else:
            chains.append([part])
    return chains


def _telling(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the texts that contain a word or symbol, once each, and at most as many as count."""
    return tuple(dict.fromkeys(text for text in texts if index_tokens(text)))[:MOST_TERMS]


def _terms(asked: Iterable[tuple[str, bool]]) -> tuple[list[Term], list[Term]]:
    """Return the words and phrases to search for, and separately the compounds with their parts.

    A repeated word counts again. At most 64 of each, each cut to 64 tokens, which still finds a phrase by its
    beginning. Stop words are left out unless there is nothing else.
    """
    words: list[Term] = []
    parts: list[Term] = []
    for text, is_phrase in asked:
        if is_phrase:
            words.append(index_tokens(text))
        else:
            _add_terms(text, words, parts)
    telling = [[t[:MOST_TERMS] for t in terms if t and not _is_stopword(t)] for terms in (words, parts)]
    if not any(telling):
        telling[0] = [word[:MOST_TERMS] for word in words if word]
    return telling[0][:MOST_TERMS], telling[1][:MOST_TERMS]


def _add_terms(word: str, words: list[Term], parts: list[Term]) -> None:
    """Add what to search for: a compound whole and in parts; for CJK, which has no spaces, each character pair."""
    word = plain_letters(word)
    for run in _SCRIPT_RUN.finditer(word):
        tokens = index_tokens(run[0])
        own = [(token,) for token in tokens if _is_part(token, word)] if len(tokens) > 1 else []
        if run["cjk"]:
            words += _pairs(tokens)
        elif own:
            parts += [tokens, *own]
        else:
            words.append(tokens)


def _is_part(token: str, word: str) -> bool:
    """Say whether a token is worth searching for on its own: not a single letter, and not a symbol's encoding."""
    return len(token) >= _SHORTEST_PART and token in word


def _pairs(characters: Term) -> Iterator[Term]:
    return pairwise(characters) if len(characters) > 1 else iter([characters])


def _is_stopword(term: Term) -> bool:
    return len(term) == 1 and term[0].lower() in STOPWORDS


def _marked(text: str) -> Iterator[str]:
    for run in _SCRIPT_RUN.finditer(text):
        if run["cjk"]:
            yield from map("".join, _pairs(tuple(run[0])))
            continue
        for word in run[0].split():
            found = list(TOKEN.finditer(word))
            if found:
                yield word[found[0].start() : found[-1].end()]
                yield from (token for token in index_tokens(word) if _is_part(token, word))
