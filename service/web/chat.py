"""The page of conversations: every one is readable without a script; to ask takes the script."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from fastapi import FastAPI
from fastapi.responses import HTMLResponse, PlainTextResponse
from jinja2 import Environment
from markupsafe import Markup, escape
from starlette.responses import StreamingResponse

from service.http.auth import SCRIPTED_POLICY
from service.http.routes_chat import AnswerLines
from service.schemas.chat import (
    LARGEST_PICTURE,
    LONGEST_FILES,
    MOST_FILES,
    ChatId,
    ChatLine,
    ChatRequest,
    ChatTurn,
    CheckedSpan,
    MetadataLine,
    TextLine,
)
from service.schemas.search import LONGEST_QUERY
from service.usecases.chat.answer import Answering
from service.usecases.chat.conversations import Conversations, answer_as_markdown

# An answer as HTML: as a whole, or from line to line while it comes.


MARKS = {
    "verified": "in the source, word for word",
    "unverified": "not in the sources",
    "other_source": "in another source than the one named",
    "too_short": "too short to be checked",
    "no_source": "names a source that there is not",
    "own": "the model's own words",
}
"""What each mark in an answer says."""
_MARK = Markup('<span class="mark {look}" role="img" aria-label="{says}" title="{says}"></span>')
_OWN_LOOK = ("verified", "own")
_TOKEN = re.compile(r"\*\*(?P<bold>.+?)\*\*|`(?P<code>[^`]+)`|\[(?P<cited>\d{1,4}(?:\s*[,;]\s*\d{1,4})*)\]")
_BEGINS = re.compile(
    r"\s*(?:(?P<bullet>[-*•])(?=\s|$)|(?P<number>\d{1,9})[.)](?=\s|$)|(?P<heading>#{1,6})(?=\s|$)|(?P<quote>>[\s>]*))\s*"
)
_FENCE = re.compile(r"\s*(?:```|~~~)")
_NUMBER = re.compile(r"\d+")
_QUOTE_MARKS = "\"'“”„«»‹›「」『』‘’"


def render_answer(lines: Iterable[TextLine], titles: Mapping[int, str]) -> Markup:
    """Return an answer as HTML, in which nothing of it is active. `titles` are those of the sources it may cite."""
    drawing = AnswerDrawing(titles)
    for line in lines:
        drawing.add(line)
    return drawing.html()


def mark_of(kind: str, quote: str = "") -> Markup:
    """Return a mark of `MARKS` as HTML; it says the quote, too, where the answer does not."""
    says = f"{MARKS[kind]}: “{quote}”" if quote else MARKS[kind]
    return _MARK.format(look=kind if kind in _OWN_LOOK else "unverified", says=says)


@dataclass(slots=True)
class _Block:
    """A paragraph, a heading, a remark, code, or a list: an element's name and class, and what is in it."""

    name: str
    look: str = ""
    items: list[list[Markup]] = field(default_factory=lambda: [[]])
    numbers: list[str] = field(default_factory=list)

    def html(self) -> Markup:
        """Return the block as HTML."""
        inner = [Markup().join(item) for item in self.items]
        look = Markup(' class="{}"').format(self.look) if self.look else Markup()
        if self.name in ("ul", "ol"):
            values = [Markup(' value="{}"').format(one) if one else "" for one in self.numbers]
            inner = [Markup("<li{}>{}</li>").format(*one) for one in zip(values, inner, strict=True)]
        return Markup("<{}{}>{}</{}>").format(self.name, look, Markup().join(inner), self.name)


class AnswerDrawing:
    """An answer that becomes blocks of HTML, from one line of it to the next. `titles`: as for `render_answer`."""

    def __init__(self, titles: Mapping[int, str]) -> None:
        self._titles = titles
        self._blocks: list[_Block] = []
        self._is_open = self._is_code = False

    def add(self, line: TextLine) -> int:
        """Add a line, and return from which block on the answer looks other than before."""
        stay = max(0, len(self._blocks) - 1)
        if line.support == "judgement":
            self._blocks.append(_Block("p", "remark", [[escape(line.text.strip())]]))
            self._is_open = False
        else:
            self._write(line)
        return stay

    def html(self, begin: int = 0) -> Markup:
        """Return the HTML of the blocks from one on."""
        return Markup().join(block.html() for block in self._blocks[begin:])

    def _write(self, line: TextLine) -> None:
        parts = line.text.split("\n")
        last = max((at for at, part in enumerate(parts) if part.strip()), default=0)
        start = 0
        for at, part in enumerate(parts):
            if at and not self._is_code:
                self._is_open = False
            elif at and self._is_open:
                self._blocks[-1].items[-1].append(Markup("\n"))
            self._part(line, part, start, ends=at == last)
            start += len(part) + 1

    def _part(self, line: TextLine, part: str, start: int, *, ends: bool) -> None:
        """Write what one line of the text says. `start`: where it begins in the text."""
        if _FENCE.match(part):
            self._is_code, self._is_open = not self._is_code, False
            return
        if not part.strip():
            if self._is_open:
                self._blocks[-1].items[-1].append(escape(part))
            return
        skipped = 0 if self._is_open else self._begin(part)
        said = part.rstrip()[skipped:]
        start += skipped
        inner = self._quoted(said, start, line) if self._is_code else self._inline(said, start, line)
        marks = self._marks(line) if ends and not self._is_code else []
        item = self._blocks[-1].items[-1]
        item.append(
            Markup('<span class="{}">{}</span>').format(line.support, Markup().join([*inner, *marks]))
        )
        item.append(escape(part[len(part.rstrip()) :]))

    def _begin(self, part: str) -> int:
        """Begin a block for a line of the text; return how many of its characters only say what block it is."""
        self._is_open = True
        found = None if self._is_code else _BEGINS.match(part)
        if found is None:
            self._blocks.append(_Block("pre" if self._is_code else "p"))
            return 0
        if found["heading"] or found["quote"]:
            self._blocks.append(_Block("p", "heading") if found["heading"] else _Block("blockquote"))
            return found.end()
        name = "ul" if found["bullet"] else "ol"
        if self._blocks and self._blocks[-1].name == name:
            self._blocks[-1].items.append([])
        else:
            self._blocks.append(_Block(name))
        self._blocks[-1].numbers.append(found["number"] or "")
        return found.end()

    def _inline(self, text: str, start: int, line: TextLine) -> Iterator[Markup]:
        at = 0
        for found in _TOKEN.finditer(text):
            yield from self._quoted(text[at : found.start()], start + at, line)
            if found["bold"]:
                inner = self._inline(found["bold"], start + found.start("bold"), line)
                yield Markup("<strong>{}</strong>").format(Markup().join(inner))
            elif found["code"]:
                inner = self._quoted(found["code"], start + found.start("code"), line)
                yield Markup("<code>{}</code>").format(Markup().join(inner))
            else:
                yield from (self._cite(int(n)) for n in _NUMBER.findall(found["cited"]))
            at = found.end()
        yield from self._quoted(text[at:], start + at, line)

    def _cite(self, n: int) -> Markup:
        if n not in self._titles:
            return Markup("[{}]").format(n)
        return Markup('<a class="cite" href="#s{}" title="{}">[{}]</a>').format(n, self._titles[n], n)

    def _quoted(self, text: str, start: int, line: TextLine) -> Iterator[Markup]:
        """Yield a text in which quotes are marked; the mark follows where a quote ends."""
        at = 0
        for quote, first, last in _quotes(line):
            begin, end = max(first - start, at), min(last - start, len(text))
            if begin >= end:
                continue
            yield escape(text[at:begin])
            look = "verified" if quote.verified else "unverified"
            yield Markup('<q class="{}">{}</q>').format(look, text[begin:end])
            if end == last - start:
                yield mark_of(_kind(quote))
            at = end
        yield escape(text[at:])

    def _marks(self, line: TextLine) -> Iterator[Markup]:
        """Yield what follows a sentence: sources that its text does not name, and what supports it unsaid."""
        named = {
            int(n) for found in _TOKEN.finditer(line.text) for n in _NUMBER.findall(found["cited"] or "")
        }
        sources = dict.fromkeys(quote.n for quote in line.quotes if quote.n is not None)
        yield from (self._cite(n) for n in sources if n not in named)
        yield from (mark_of(_kind(one), one.quote) for one in line.quotes if one.start is None)
        if line.support == "own":
            yield mark_of("own")
        elif line.support == "unverified" and all(quote.verified for quote in line.quotes):
            yield mark_of("no_source")


def _quotes(line: TextLine) -> Iterator[tuple[CheckedSpan, int, int]]:
    """Yield the quotes that a text has, each with where it begins and ends, quotation marks included."""
    for quote in line.quotes:
        if quote.start is not None and quote.end is not None:
            before, after = line.text[: quote.start][-1:], line.text[quote.end :][:1]
            first = quote.start - bool(before and before in _QUOTE_MARKS)
            yield quote, first, quote.end + bool(after and after in _QUOTE_MARKS)


def _kind(quote: CheckedSpan) -> str:
    return "verified" if quote.verified else quote.reason if quote.reason in MARKS else "unverified"


class _Live:
    """An answer that comes: the page shows each line in the elements in which it shows an answer that is kept."""

    def __init__(self, answering: Answering, templates: Environment) -> None:
        self._source = templates.get_template("chat-source.html").module
        self._titles = {one.n: one.title for turn in answering.past for one in turn.sources}
        self._drawing = AnswerDrawing(self._titles)

    def line(self, line: ChatLine) -> str:
        """Return a line as JSON, with the HTML of its sources, or of the answer from the block `keep` on."""
        shown: dict[str, Any] = line.model_dump(mode="json", exclude={"sources", "quotes"})
        if isinstance(line, MetadataLine):
            self._titles |= {one.n: one.title for one in line.sources}
            shown["html"] = "".join(self._source.source(one) for one in line.sources)  # type: ignore[attr-defined]
        elif isinstance(line, TextLine):
            shown["keep"] = self._drawing.add(line)
            shown["html"] = self._drawing.html(shown["keep"])
        return json.dumps(shown)


# The page.


_POLICY = {"Content-Security-Policy": SCRIPTED_POLICY}
_LIMITS = {
    "files": MOST_FILES,
    "characters": LONGEST_FILES,
    "picture": LARGEST_PICTURE,
    "question": LONGEST_QUERY,
}


def add_chat_page(app: FastAPI, templates: Environment, chats: Conversations) -> None:
    """Add the page, and what it asks for."""
    templates.globals["mark_of"] = mark_of
    templates.globals["marks"] = MARKS

    @app.post("/parts/chat", include_in_schema=False)
    def ask(asked: ChatRequest) -> StreamingResponse:
        """Answer a question as `/chat` does, with what the page shows of it."""
        answering = chats.begin(asked)
        return AnswerLines(answering, _Live(answering, templates).line)

    @app.get("/parts/chat/{chat}/{number}", response_class=PlainTextResponse, include_in_schema=False)
    def copied(chat: ChatId, number: int) -> str:
        """Return an answer as Markdown. Raises ChatNotFoundError."""
        shown = chats.show(chat)
        return "".join(answer_as_markdown(shown, turn) for turn in shown.turns if turn.number == number)

    @app.get("/chat", response_class=HTMLResponse, include_in_schema=False)
    def chat_page(chat: ChatId | None = None) -> HTMLResponse:
        """Show the conversations, and one of them or the start of another. Raises ChatNotFoundError."""
        shown = chats.show(chat) if chat else None
        text = templates.get_template("chat.html").render(
            chat=shown,
            turns=list(_drawn(shown.turns)) if shown else [],
            chats=chats.newest().chats,
            is_on=chats.is_on,
            model=chats.model_name,
            limits=_LIMITS,
        )
        return HTMLResponse(text, headers=_POLICY)


def _drawn(turns: Iterable[ChatTurn]) -> Iterator[tuple[ChatTurn, Markup, set[int]]]:
    """Yield each turn with its answer as HTML, and the sources that the answer names or quotes."""
    titles: dict[int, str] = {}
    for turn in turns:
        titles |= {one.n: one.title for one in turn.sources}
        cited = {
            n
            for line in turn.text
            for n in (*line.cited, *(quote.n for quote in line.quotes))
            if n is not None
        }
        yield turn, render_answer(turn.text, titles), cited
