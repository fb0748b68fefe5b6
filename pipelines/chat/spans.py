"""Cut an answer into sentences as it comes, and find what each quotes and cites; pure.

A sentence is given on when the next one begins, so that a citation after its full stop belongs to it. No sentence
ends inside a quotation, which may go over lines but not over an empty one; a block quote is one sentence.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from pipelines.search.quotes import Reason, check_quote

SpanReason = Reason | Literal["other_source"]
Support = Literal["quoted", "cited", "unverified", "own"]

_LONGEST = 2_000
"""Characters after which a sentence is given on whatever it is in the middle of."""
_END = re.compile(
    r"""[.!?…。！？]["'”’»“)\]*_]*(?:[ \t]*\[\d[\d,; ]*\][*_.]*)*(?=[ \t]+[^\s\[])|[。！？](?=[^\s\[])"""
)
_LINE_END = re.compile(r"\n[ \t]*(?=\S)|\n(?:[ \t]*\n)+[ \t]*(?=\S)")
_EMPTY_LINE = re.compile(r"\n[ \t]*\n")
# An abbreviation or the number of a list item ends no sentence.
_NO_END = re.compile(r"(?:^|[\s(])(?:\d{1,3}|(?:[A-Za-z]\.)*[A-Za-z]|etc|cf|vs|Dr|Mr|Mrs|Ms|No|St|bzw|ca)\.$")
_CITED = r"\[\d{1,4}(?:\s*[,;]\s*\d{1,4})*\]"
_CITATIONS = re.compile(rf"{_CITED}(?:[ \t]*{_CITED})*")
_CODE = re.compile(r"`[^`\n]*`")
# Each mark with those that may close it; a straight single quote between letters is an apostrophe.
_QUOTED = re.compile(
    r'"(?P<straight>[^"]+)"'
    r"|“(?P<curly>[^“”]+)”|„(?P<german>[^„“”]+)[“”]|«(?P<french>[^«»]+)»|»(?P<turned>[^«»]+)«"
    r"|‹(?P<small>[^‹›]+)›|「(?P<corner>[^「」]+)」|『(?P<white>[^『』]+)』"
    r"|‘(?P<single>[^‘]+?)’(?!\w)"
    r"|(?<![\w'’])'(?P<plain>(?:[^'\n]|(?<=\w)'(?=\w))+)'(?!\w)"
)
_OPENS = re.compile(r'["“„«»‹「『]')
_BLOCK_QUOTE = re.compile(r"[ \t]{0,3}>[ \t>]*")
_FENCE = re.compile(r"[ \t]*(?:```|~~~)")


class Named(NamedTuple):
    """Words of a source that the model's provider named for a sentence."""

    n: int
    quote: str


@dataclass(frozen=True, slots=True)
class AnswerSentence:
    """A part of an answer, with the white space after it. Of code nothing is a quotation."""

    text: str
    named: tuple[Named, ...] = ()
    is_code: bool = False


@dataclass(slots=True)
class Sentences:
    """Takes an answer's text piece by piece, and gives its sentences."""

    _text: str = ""
    _named: list[Named] = field(default_factory=list)
    _in_code: bool = False
    _rejected: int = 0
    """Up to here no sentence ends, however the text goes on."""

    def add(self, text: str) -> Iterator[AnswerSentence]:
        """Add text; yield the sentences that are complete."""
        self._text += text
        while (end := self._end()) is not None:
            yield self._cut(end)

    def cite(self, n: int, quote: str) -> None:
        """Say that the sentence so far rests on words of a source: it gets the source's number."""
        if not any(one.n == n for one in self._named):
            kept = self._text.rstrip()
            self._text = f"{kept} [{n}]{self._text[len(kept) :]}"
        self._named.append(Named(n, quote))

    def rest(self) -> Iterator[AnswerSentence]:
        """Yield what is left at the end of the answer."""
        if self._text:
            yield self._cut(len(self._text))

    def _cut(self, end: int) -> AnswerSentence:
        text, self._text = self._text[:end], self._text[end:]
        is_fence = bool(_FENCE.match(text))
        found = AnswerSentence(text, tuple(self._named), is_code=self._in_code or is_fence)
        self._named, self._rejected = [], 0
        self._in_code ^= is_fence
        return found

    def _end(self) -> int | None:
        """Return where the first sentence ends; None: it may go on."""
        text = self._text
        if self._in_code or _FENCE.match(text):
            line = text.find("\n")
            return line + 1 or None
        if _BLOCK_QUOTE.match(text):
            for line_end in _LINE_END.finditer(text):
                if text[line_end.end()] != ">" or _EMPTY_LINE.search(line_end[0]):
                    return line_end.end()
        else:
            for end in sorted(end for end in self._ends() if end > self._rejected):
                if not _is_open(text[:end]) or _EMPTY_LINE.search(text[max(0, end - 3) : end]):
                    return end
                self._rejected = end
        return _LONGEST if len(text) > _LONGEST else None

    def _ends(self) -> Iterator[int]:
        for match in _END.finditer(self._text):
            # What comes before the mark says whether it ends anything.
            if not _NO_END.search(self._text[: match.start() + 1]):
                yield (
                    match.end()
                    + len(self._text[match.end() :])
                    - len(self._text[match.end() :].lstrip(" \t"))
                )
        for match in _LINE_END.finditer(self._text):
            yield match.end()


def _is_open(text: str) -> bool:
    """Say whether a quotation has begun and not ended."""
    return bool(_OPENS.search(_QUOTED.sub("", _CODE.sub("", text))))


class Span(NamedTuple):
    """A quotation in a sentence; `start` and `end` are None for words that only the provider names."""

    start: int | None
    end: int | None
    quote: str
    n: int | None
    reason: SpanReason

    @property
    def is_verified(self) -> bool:
        """Whether the source contains it, word for word."""
        return self.reason == "match"


@dataclass(frozen=True, slots=True)
class Judged:
    """What supports a sentence: its quotations, and the numbers of the sources that it cites."""

    support: Support
    spans: tuple[Span, ...]
    cited: tuple[int, ...]


Verify = Callable[[str, Sequence[int]], dict[int, Reason]]
"""Say for each of some sources whether it contains a quotation."""


def judge(sentence: AnswerSentence, sources: Mapping[int, str], verify: Verify) -> Judged:
    """Check each quotation of a sentence with the source that it names, or with all where it names none.

    `sources` are the passages by their numbers. A quotation that only another source than the named one contains is
    not verified.
    """
    marks = [] if sentence.is_code else list(_CITATIONS.finditer(sentence.text))
    numbers = [[int(n) for n in re.findall(r"\d+", mark[0])] for mark in marks]
    spans = []
    for start, end, quote in () if sentence.is_code else _quotations(sentence.text):
        # The citations after a quotation are its own, else those before it.
        after = [group for mark, group in zip(marks, numbers, strict=True) if mark.start() >= end]
        before = [group for mark, group in zip(marks, numbers, strict=True) if mark.end() <= start]
        named = (after[:1] or before[-1:] or [[]])[0]
        spans.append(_checked(start, end, quote, named, sources, verify))
    named_by = (_checked(None, None, one.quote, [one.n], sources, verify) for one in sentence.named)
    # A provider also names lines such as a heading, which are too short to say anything: they are citations alone.
    spans += [one for one in named_by if one.reason != "too_short"]
    cited = tuple(dict.fromkeys(n for group in numbers for n in group))
    return Judged(_support(spans, cited, sources), tuple(spans), cited)


def _quotations(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield where each quotation begins and ends, and its words."""
    code = [match.span() for match in _CODE.finditer(text)]
    if block := _BLOCK_QUOTE.match(text):
        yield from _block_quote(text, block.end())
        return
    at = 0
    while match := _QUOTED.search(text, at):
        at = match.end()
        if not any(start <= match.start() < end for start, end in code):
            kind = match.lastgroup or ""
            yield match.start(kind), match.end(kind), match[kind]
    left = _OPENS.search(text, at)
    if left and text[left.end() :].strip() and not any(start <= left.start() < end for start, end in code):
        yield left.end(), len(text.rstrip()), text[left.end() :].strip()


def _block_quote(text: str, start: int) -> Iterator[tuple[int, int, str]]:
    """Yield the words of a block quote, without its own quotation marks and what cites its source."""
    end = len(text.rstrip())
    if tail := re.search(r"(?:\s*[-–—(]*\s*\[\d[\d,; ]*\][.)]*)+$", text[start:end]):
        end = start + tail.start()
    words = re.sub(r"\n[ \t]*>[ \t>]*", "\n", text[start:end])
    if words.strip():
        yield start, end, words.strip().strip('"“”„«»*_ ')


def _checked(
    start: int | None,
    end: int | None,
    quote: str,
    named: Sequence[int],
    sources: Mapping[int, str],
    verify: Verify,
) -> Span:
    """Check one quotation; the passages tell at once where it may stand, and only their notes are read."""
    known = [n for n in named if n in sources]
    here = [n for n, text in sources.items() if check_quote(quote, [text]).reason == "match"]
    found = verify(quote, known or ([] if named else here or list(sources)))
    if n := next((n for n, reason in found.items() if reason == "match"), None):
        return Span(start, end, quote, n, "match")
    elsewhere = named and any(n not in known for n in here)
    reason: SpanReason = "other_source" if elsewhere else next(iter(found.values()), "not_found")
    return Span(start, end, quote, next(iter(named), None), reason)


def _support(spans: Sequence[Span], cited: Sequence[int], sources: Collection[int]) -> Support:
    if not all(one.is_verified for one in spans) or not all(n in sources for n in cited):
        return "unverified"
    if spans:
        return "quoted"
    return "cited" if cited else "own"
