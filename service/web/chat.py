"""The page of conversations: every one is readable without a script; to ask takes the script."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from fastapi import FastAPI
from fastapi.responses import HTMLResponse
from jinja2 import Environment
from markupsafe import Markup, escape

from service.http.auth import SCRIPTED_POLICY
from service.schemas.chat import (
    LARGEST_PICTURE,
    LONGEST_FILE,
    MOST_FILES,
    ChatId,
    ChatTurn,
    CheckedSpan,
    TextLine,
)
from service.schemas.search import LONGEST_QUERY
from service.usecases.chat import Chats

# An answer as HTML. While it comes, static/chat.js makes the same of it, line by line.


MARKS = {
    "verified": "in your notes, word for word",
    "unverified": "not in these sources, word for word",
    "other_source": "in another source than the one named",
    "too_short": "too short to be checked",
    "no_source": "names a source that there is not",
    "own": "the model's own words",
}
"""What each mark in an answer says."""
_MARK = Markup('<span class="mark {look}" role="img" aria-label="{says}" title="{says}"></span>')
_OWN_LOOK = ("verified", "own")
_TOKEN = re.compile(r"\*\*(?P<bold>.+?)\*\*|`(?P<code>[^`]+)`|\[(?P<cited>\d+(?:, ?\d+)*)\]")
_BEGINS = re.compile(r"\s*(?:(?P<bullet>[-*•])|(?P<number>\d{1,9})[.)]|(?P<heading>#{1,6}))(?:\s+|$)")
_FENCE = "```"


def mark_of(kind: str) -> Markup:
    """Return a mark of `MARKS` as HTML."""
    return _MARK.format(look=kind if kind in _OWN_LOOK else "unverified", says=MARKS[kind])


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


class _Answer:
    """An answer that becomes blocks, from one line of it to the next."""

    def __init__(self, turn: ChatTurn) -> None:
        self._turn = turn.number
        self._titles = {one.n: one.title for one in turn.sources}
        self._blocks: list[_Block] = []
        self._is_open = self._is_code = False

    def html(self, lines: Sequence[TextLine]) -> Markup:
        """Return these lines as HTML."""
        for line in lines:
            if line.support == "judgement":
                self._blocks.append(_Block("p", "remark", [[escape(line.text.strip())]]))
                self._is_open = False
            else:
                self._write(line)
        return Markup().join(block.html() for block in self._blocks)

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
        if part.strip().startswith(_FENCE):
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
        item.append(Markup('<span class="{}">{}</span>').format(line.support, Markup().join([*inner, *marks])))
        item.append(escape(part[len(part.rstrip()) :]))

    def _begin(self, part: str) -> int:
        """Begin a block for a line of the text; return how many of its characters only say what block it is."""
        self._is_open = True
        found = None if self._is_code else _BEGINS.match(part)
        if found is None or found["heading"]:
            self._blocks.append(
                _Block("pre") if self._is_code else _Block("p", "heading" if found else "")
            )
            return found.end() if found else 0
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
                yield from (self._cite(int(n)) for n in found["cited"].split(","))
            at = found.end()
        yield from self._quoted(text[at:], start + at, line)

    def _cite(self, n: int) -> Markup:
        if n not in self._titles:
            return Markup("[{}]").format(n)
        link = Markup('<a class="cite" href="#s{}-{}" title="{}">[{}]</a>')
        return link.format(self._turn, n, self._titles[n], n)

    def _quoted(self, text: str, start: int, line: TextLine) -> Iterator[Markup]:
        """Yield a text in which quotes are marked; the mark follows where a quote ends."""
        at, end = start, start + len(text)
        for quote in line.quotes:
            first, last = max(quote.start, at), min(quote.end, end)
            if first >= last:
                continue
            yield escape(text[at - start : first - start])
            look = "verified" if quote.verified else "unverified"
            yield Markup('<q class="{}">{}</q>').format(look, text[first - start : last - start])
            if last == quote.end:
                yield mark_of(_kind(quote))
            at = last
        yield escape(text[at - start :])

    def _marks(self, line: TextLine) -> Iterator[Markup]:
        """Yield what follows a sentence: sources that its text does not name, and what it is if no quote says it."""
        named = {int(n) for found in _TOKEN.finditer(line.text) for n in (found["cited"] or "").split(",") if n}
        sources = [*line.cited, *(quote.n for quote in line.quotes if quote.n is not None)]
        yield from (self._cite(n) for n in dict.fromkeys(sources) if n not in named)
        if line.support == "own":
            yield mark_of("own")
        elif line.support == "unverified" and all(quote.verified for quote in line.quotes):
            yield mark_of("no_source")


def _kind(quote: CheckedSpan) -> str:
    return "verified" if quote.verified else quote.reason if quote.reason in MARKS else "unverified"


# The page.


_POLICY = {"Content-Security-Policy": SCRIPTED_POLICY}
_LIMITS = {
    "files": MOST_FILES,
    "characters": LONGEST_FILE,
    "picture": LARGEST_PICTURE,
    "question": LONGEST_QUERY,
}


def add_chat_page(app: FastAPI, templates: Environment, chats: Chats) -> None:
    """Add the route."""
    templates.globals["mark_of"] = mark_of
    templates.globals["marks"] = MARKS

    @app.get("/chat", response_class=HTMLResponse, include_in_schema=False)
    def chat_page(chat: ChatId | None = None) -> HTMLResponse:
        """Show the conversations, and one of them or the start of another. Raises ChatNotFoundError."""
        shown = chats.show(chat) if chat else None
        turns = [(turn, _Answer(turn).html(turn.text), _cited(turn)) for turn in shown.turns] if shown else []
        text = templates.get_template("chat.html").render(
            chat=shown,
            turns=turns,
            chats=chats.list().chats,
            is_on=chats.is_on,
            model=chats.model_name,
            limits=_LIMITS,
        )
        return HTMLResponse(text, headers=_POLICY)


def _cited(turn: ChatTurn) -> set[int]:
    """Return the sources that an answer names or quotes."""
    return {n for line in turn.text for n in (*line.cited, *(quote.n for quote in line.quotes)) if n is not None}
