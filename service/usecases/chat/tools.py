"""The tools of a conversation's model, over the vault as its asker sees it, within the conversation's scope."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

from anyio import to_thread
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pipelines.chat.calculator import calculate
from pipelines.chat.models import CitablePassage, ToolCall, ToolResult, ToolSpec
from pipelines.errors import EverindexError, NotFoundError
from pipelines.filters import NO_FILTERS, Filters, fold, parse_filters
from pipelines.model import now_iso
from pipelines.notes.frontmatter import split_lines
from pipelines.question import Question
from pipelines.vault.files import note_key
from service.schemas.chat import ChatSource, Pin
from service.schemas.context import ContextAnswer
from service.schemas.search import LONGEST_QUERY, Lines, TitleHit
from service.usecases.browsing import list_notes
from service.usecases.context import Contexts
from service.usecases.links import Traversal
from service.usecases.naming import no_such_note, note_named
from service.usecases.notes import read_note
from service.usecases.search import View
from service.usecases.titles import TitleSearch

SAVED_IN = "Chats"
"""The folder of the vault into which conversations are saved as notes."""
ORIGIN = ("origin", "chat")
"""The property that marks such a note: it is no source of a conversation unless its scope names it."""
_BUDGET = 3_000  # tokens of the passages that a search gives
_MOST_READ = 8_000  # characters
_MOST_LISTED = 50
_MOST_SIMILAR = 10
_MOST_ANALYSED = 24_000
_FARTHEST = 3

Name = Annotated[str, Field(min_length=1, max_length=1_000, description="the note's path, or its title")]


class _Arguments(BaseModel):
    model_config = ConfigDict(extra="forbid")


class _Search(_Arguments):
    query: Annotated[
        str, Field(min_length=1, max_length=LONGEST_QUERY, description="what to look for, in words")
    ]
    folder: str | None = Field(None, description="only notes in this folder")
    tag: str | None = Field(None, description="only notes with this tag")
    since: str | None = Field(None, description="only notes from this day on: YYYY-MM-DD")
    until: str | None = Field(None, description="only notes up to this day: YYYY-MM-DD")


class _Read(_Arguments):
    note: Name
    first_line: int = Field(1, ge=1)
    last_line: int | None = Field(None, ge=1)


class _Traverse(_Arguments):
    note: Name
    question: str | None = Field(None, max_length=LONGEST_QUERY, description="keep what is about this")
    depth: int = Field(2, ge=1, le=_FARTHEST)


class _Similar(_Arguments):
    note: Name


class _List(_Arguments):
    folder: str | None = None
    tag: str | None = None


class _Analyze(_Arguments):
    note: Name


class _Compare(_Arguments):
    first: Name
    second: Name
    question: Annotated[str, Field(min_length=1, max_length=LONGEST_QUERY, description="what to compare")]


class _Calculate(_Arguments):
    expression: Annotated[str, Field(description="numbers, + - * / // % ** and parentheses")]


class _Nothing(_Arguments):
    pass


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """What a tool gave: a text for the model, new sources, and a few words for the reader."""

    said: str
    text: str = ""
    sources: tuple[ChatSource, ...] = ()


Ask = Callable[[str, Sequence[CitablePassage]], Awaitable[str]]
"""Ask the model itself, without tools, about passages."""

_ANALYSE = """\
Describe this note for somebody who has not read it, in this order: its topics, the entities it names, the facts it \
states, and a summary of three sentences. Use only what it says."""


@dataclass(slots=True)
class Toolbox:
    """The tools for one question, made for it alone.

    `first` is the number of the next source. `seen` collects the paths of all notes of which the model learned.
    """

    view: View
    scope: Sequence[Pin]
    first: int
    ask: Ask
    sources: dict[int, ChatSource] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)
    filters: Filters = field(init=False)

    def __post_init__(self) -> None:
        """Read the scope. Raises FilterError."""
        self.filters = filters_of(self.scope)

    def specs(self) -> list[ToolSpec]:
        """Return the tools as they are described to the model."""
        return [ToolSpec(name, teaches, _schema(takes)) for name, (teaches, takes, _) in _TOOLS.items()]

    async def call(self, call: ToolCall) -> tuple[ToolResult, ToolAnswer]:
        """Answer a call; what the model can correct is a result that it reads, marked as failed."""
        try:
            _, takes, run = _TOOLS[call.name]
            found = await run(self, takes.model_validate_json(call.arguments))
        except KeyError:
            found = ToolAnswer(f"there is no tool {call.name[:50]}; the tools are {', '.join(_TOOLS)}")
        except ValidationError as error:
            found = ToolAnswer(_faults(error))
        except (EverindexError, OSError) as error:
            found = ToolAnswer(str(error))
        else:
            passages = tuple(map(passage_of, found.sources))
            return ToolResult(call.id, found.text or found.said, passages), found
        return ToolResult(call.id, found.said, failed=True), found

    def search(
        self, question: str, filters: Filters = NO_FILTERS
    ) -> tuple[ContextAnswer, tuple[ChatSource, ...]]:
        """Search within the scope; return the answer, and its passages as sources. Raises FilterError."""
        within = replace(filters, scopes=(*filters.scopes, self.filters))
        answer = Contexts(self.view, self.view.audience).ask(
            Question(question, question, filters=within), budget=_BUDGET, compress="none"
        )
        sources = [
            self.source(
                one.path, one.title, one.text, one.locator, section=one.section, place=one.place, why=one.why
            )
            for one in answer.passages
        ]
        return answer, tuple(sources)

    def add_file(self, name: str, text: str) -> ChatSource:
        """Return a text that was added to the question as a source."""
        return self.source(None, name, text, None, why="added to the question")

    def source(
        self,
        path: str | None,
        title: str,
        text: str,
        lines: Lines | None,
        *,
        section: str = "",
        place: str | None = None,
        why: str,
    ) -> ChatSource:
        """Return a new source with its number; a passage that the model has is the source that it was."""
        for known in self.sources.values():
            if (known.path, known.lines, known.text) == (path, lines, text):
                return known
        n = self.first + len(self.sources)
        source = ChatSource(
            n=n, path=path, title=title, section=section, lines=lines, place=place, text=text, why=why
        )
        self.sources[n] = source
        if path is not None:
            self.seen.add(path)
        return source

    def named(self, name: str) -> str:
        """Return the path of a note in the scope. Raises NotFoundError."""
        path = note_named(self.view, self._titles, name.strip("[] "))
        if not self._within([path]):
            raise no_such_note(name)  # like one that there is not: the scope is the user's, not the model's
        return path

    def _titles(self, name: str, most: int) -> list[TitleHit]:
        found = TitleSearch(self.view).titles(name, most).results
        within = self._within([hit.path for hit in found])
        self.seen |= within
        return [hit for hit in found if hit.path in within]

    def _within(self, paths: Sequence[str]) -> set[str]:
        """Return those of the notes that are in the scope."""
        only = Filters(scopes=(self.filters,), paths=tuple(paths))
        return {note.path for note in list_notes(self.view, only, "path").notes} if paths else set()

    def text_of(self, name: str, most: int, first: int = 1, last: int | None = None) -> ChatSource:
        """Return lines of a note as a source, up to a number of characters. Raises NotFoundError."""
        note = read_note(self.view, self.named(name))
        lines = split_lines(note.text)
        if first > max(1, len(lines)):
            raise NotFoundError(f"{note.path} has {len(lines)} lines; ask for some of them")
        taken, size = [], 0
        for line in lines[first - 1 : last]:
            size += len(line)
            if size > most:
                break
            taken.append(line)
        taken = taken or [line[:most] for line in lines[first - 1 : first]]
        at = Lines(first=first, last=max(first, first + len(taken) - 1))
        return self.source(note.path, note.title, "".join(taken), at, why="read")


def filters_of(scope: Sequence[Pin]) -> Filters:
    """Return what passes a scope: the notes of any of its pins, or all notes but saved conversations.

    Raises FilterError.
    """
    pins = tuple(
        Filters(paths=(note_key(pin.value),))
        if pin.kind == "note"
        else parse_filters([(pin.kind, pin.value)])
        for pin in scope
    )
    home = fold(SAVED_IN)
    if any(fold(pin.value).partition("/")[0] == home for pin in scope if pin.kind != "tag"):
        return Filters(either=pins)
    return Filters(either=pins, without=(Filters(properties=(ORIGIN,)),))


def _given(asked: _Arguments, *but: str) -> Filters:
    """Return the filters among a tool's arguments; models give empty ones. Raises FilterError."""
    return parse_filters([(name, value) for name, value in asked.model_dump(exclude={*but}).items() if value])


def passage_of(source: ChatSource) -> CitablePassage:
    """Return a source as the model gets it."""
    where = source.path or source.title
    if source.lines:
        where += f":{source.lines.first}-{source.lines.last}"
    return CitablePassage(source.n, where, source.title, source.text)


def _listed(lines: Sequence[str], what: str) -> ToolAnswer:
    said = f"{len(lines)} {what}{'' if len(lines) == 1 else 's'}"
    return ToolAnswer(said, "\n".join(lines) or "none")


def _schema(takes: type[BaseModel]) -> dict[str, Any]:
    """Return the JSON schema of a tool's arguments, without titles and defaults: servers differ in what they take."""
    schema = takes.model_json_schema()
    properties = {}
    for name, one in schema.get("properties", {}).items():
        plain = {key: value for key, value in one.items() if key not in ("title", "default")}
        if "anyOf" in plain:
            plain |= plain.pop("anyOf")[0]
        properties[name] = plain
    return {
        "type": "object",
        "properties": properties,
        "required": schema.get("required", []),
        "additionalProperties": False,
    }


def _faults(error: ValidationError) -> str:
    """Say which arguments are wrong and how, without their values."""
    found = error.errors(include_url=False, include_context=False, include_input=False)
    return "; ".join(f"{'.'.join(map(str, one['loc'])) or 'arguments'}: {one['msg']}" for one in found[:5])


# The tools.


async def _search(box: Toolbox, asked: _Search) -> ToolAnswer:
    filters = _given(asked, "query")
    answer, sources = await to_thread.run_sync(box.search, asked.query, filters)
    said = f"{len(sources)} passages" if sources else "nothing"
    text = (
        "" if answer.match in ("strong", "weak") else "No note is a clear answer; these are only the nearest."
    )
    return ToolAnswer(f"found {said}", text or f"found {said}", sources)


async def _read(box: Toolbox, asked: _Read) -> ToolAnswer:
    source = await to_thread.run_sync(box.text_of, asked.note, _MOST_READ, asked.first_line, asked.last_line)
    assert source.lines  # noqa: S101 - a note's
    said = f"read {source.path}, lines {source.lines.first} to {source.lines.last}"
    return ToolAnswer(said, sources=(source,))


async def _traverse(box: Toolbox, asked: _Traverse) -> ToolAnswer:
    def walk() -> list[str]:
        question = Question(
            asked.question or "", asked.question or "", filters=Filters(scopes=(box.filters,))
        )
        found = Traversal(box.view).traverse(box.named(asked.note), asked.depth, question)
        box.seen.update(one.path for one in found.nodes)
        return [f"{one.path} ({one.title})" for one in found.nodes[:_MOST_LISTED]]

    return _listed(await to_thread.run_sync(walk), "linked note")


async def _similar(box: Toolbox, asked: _Similar) -> ToolAnswer:
    def nearest() -> list[str]:
        within = Filters(scopes=(box.filters,))
        found = TitleSearch(box.view).similar(box.named(asked.note), _MOST_SIMILAR, within)
        box.seen.update(one.path for one in found.results)
        return [f"{one.path} ({one.title})" for one in found.results]

    return _listed(await to_thread.run_sync(nearest), "similar note")


async def _list(box: Toolbox, asked: _List) -> ToolAnswer:
    def notes() -> list[str]:
        filters = _given(asked)
        within = replace(filters, scopes=(*filters.scopes, box.filters))
        found = list_notes(box.view, within, "date", checked=False).notes
        box.seen.update(one.path for one in found[:_MOST_LISTED])
        more = [f"and {len(found) - _MOST_LISTED} more"] if len(found) > _MOST_LISTED else []
        return [*(f"{one.date} {one.path} ({one.title})" for one in found[:_MOST_LISTED]), *more]

    return _listed(await to_thread.run_sync(notes), "note")


async def _analyze(box: Toolbox, asked: _Analyze) -> ToolAnswer:
    source = await to_thread.run_sync(box.text_of, asked.note, _MOST_ANALYSED)
    text = await box.ask(_ANALYSE, [passage_of(source)])
    return ToolAnswer(f"analysed {source.path}", text, (source,))


async def _compare(box: Toolbox, asked: _Compare) -> ToolAnswer:
    each = _MOST_ANALYSED // 2
    first = await to_thread.run_sync(box.text_of, asked.first, each)
    second = await to_thread.run_sync(box.text_of, asked.second, each)
    wanted = f"Compare these two notes, and use only what they say: {asked.question}"
    text = await box.ask(wanted, [passage_of(first), passage_of(second)])
    return ToolAnswer(f"compared {first.path} with {second.path}", text, (first, second))


async def _calculate(_: Toolbox, asked: _Calculate) -> ToolAnswer:
    value = calculate(asked.expression)
    return ToolAnswer(f"{asked.expression} = {value}")


async def _now(_: Toolbox, _nothing: _Nothing) -> ToolAnswer:
    return ToolAnswer(f"{now_iso('seconds')} (UTC)")


_Run = Callable[[Toolbox, Any], Awaitable[ToolAnswer]]
_TOOLS: dict[str, tuple[str, type[_Arguments], _Run]] = {
    "search": ("Find passages of the notes, by meaning and by word.", _Search, _search),
    "read": ("Read a note, or some lines of it.", _Read, _read),
    "traverse": ("Walk along the links from a note.", _Traverse, _traverse),
    "similar": ("List the notes nearest to a note in meaning.", _Similar, _similar),
    "list_documents": ("List notes, the newest first.", _List, _list),
    "analyze_document": ("Topics, entities, facts and a summary of a note.", _Analyze, _analyze),
    "compare_documents": ("Compare two notes.", _Compare, _compare),
    "calculator": ("Calculate an expression exactly.", _Calculate, _calculate),
    "current_time": ("The current date and time.", _Nothing, _now),
}
