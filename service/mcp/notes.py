"""The tools that read a note, browse the vault, and say how far the index is."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version

from pipelines.errors import FilterError, NotFoundError
from pipelines.filters import fold
from pipelines.notes.frontmatter import split_lines
from pipelines.vault.files import is_note
from service.mcp.library import Library, Turn
from service.mcp.naming import Meant, meant_by
from service.mcp.schemas import (
    Browse,
    Browsed,
    Group,
    Heading,
    Listed,
    NoteRead,
    NoteState,
    PartState,
    Place,
    Read,
    Status,
    VaultState,
    place,
)
from service.schemas.search import MOST_SIMILAR, Lines
from service.usecases.browsing import Contents, in_folder, links_to, recently_changed, with_tag
from service.usecases.naming import is_within, known_path, no_such_note
from service.usecases.notes import NoteText, Section, read_note
from workers.attention import chosen

_MOST_HEADINGS = 50
_MOST_PARTS = 200
_SHOWN_HEADINGS = 10


def read(library: Library, asked: Read) -> NoteRead:
    """Return the text of a note, a section or lines. Raises CursorError, NotFoundError."""
    turn = library.turn("read", asked)
    note, written, first, last = _found(library, asked)
    wanted = "".join(written[first - 1 : last])
    text = _cut(wanted[turn.offset :], asked.max_characters)
    end = turn.offset + len(text)
    at = _lines_of(wanted, turn.offset, end, first)
    freshness, warnings = library.freshness()
    more = end < len(wanted)
    parts = [one for one in note.parts if one.lines.first <= at[1] and one.lines.last >= at[0]]
    return NoteRead(
        freshness=freshness,
        truncated=more,
        cursor=turn.next(end, freshness.generation) if more else None,
        warnings=[*warnings, *turn.warnings(freshness.generation)],
        note=Place.model_validate(place(note.path, note.title, note.domain, at)),
        text=text,
        tags=list(note.tags),
        modified=note.modified,
        dates=note.dates,
        stale=note.stale,
        last_line=len(written),
        headings=[_heading(one) for one in note.sections if one.headings][:_MOST_HEADINGS],
        parts=parts[:_MOST_PARTS],
    )


def whole_text(library: Library, name: str) -> str:
    """Return all of what a name means: a note, a section of it or lines. Raises NotFoundError."""
    _, written, first, last = _found(library, Read(note=name))
    return "".join(written[first - 1 : last])


def _found(library: Library, asked: Read) -> tuple[NoteText, list[str], int, int]:
    """Return a note, its lines, and the first and last of those that were asked for. Raises NotFoundError."""
    meant = meant_by(library, asked.note)
    note = read_note(library.view, meant.path)
    written = split_lines(note.text)
    first, last = _wanted_lines(note, written, meant, asked)
    chosen(library.view.resources, [note.path], "read")
    return note, written, first, last


def _heading(section: Section) -> Heading:
    return Heading(section=" > ".join(section.headings), lines=Lines(first=section.first, last=section.last))


def _wanted_lines(note: NoteText, written: list[str], meant: Meant, asked: Read) -> tuple[int, int]:
    """Return the first and last line that were asked for, within the note. Raises NotFoundError."""
    first, last = meant.lines or (1, len(written))
    section = asked.section or meant.section
    if section and section.startswith("^"):
        first = last = _block(note, written, section)
    elif section:
        first, last = section_lines(note, section)
    first, last = max(first, asked.first_line or 1), min(last, asked.last_line or last, len(written))
    if written and first > last:
        raise NotFoundError(
            f"{note.path} has {len(written)} lines, and none of those asked for; check the numbers"
        )
    return first, last


def section_lines(note: NoteText, section: str) -> tuple[int, int]:
    """Return the first and last line under a heading, or of a place in a document; `A#B` is B below A.

    Raises NotFoundError.
    """
    wanted = [fold(part.strip()) for part in section.replace(" > ", "#").split("#") if part.strip()]
    found: list[Section] = []
    for one in note.sections:
        if _is_below(one, wanted):
            found.append(one)
        elif found:
            break
    if found:
        return found[0].first, found[-1].last
    for part in note.parts:
        if fold(part.place) == fold(section.strip()):
            return part.lines.first, part.lines.last
    there = [" > ".join(one.headings) for one in note.sections if one.headings] or [
        one.place for one in note.parts
    ]
    known = ", ".join(there[:_SHOWN_HEADINGS])
    raise NotFoundError(f"{note.path} has no section {section}; its sections are: {known or 'none'}")


def _is_below(section: Section, wanted: list[str]) -> bool:
    headings = iter(map(fold, section.headings))
    return bool(wanted) and all(any(name == heading for heading in headings) for name in wanted)


def _block(note: NoteText, written: list[str], name: str) -> int:
    """Return the line that a block's name marks, as Obsidian writes it. Raises NotFoundError."""
    for number, line in enumerate(written, start=1):
        if line.rstrip().endswith((f" {name}", f"\t{name}")) or line.strip() == name:
            return number
    raise NotFoundError(f"{note.path} has no block {name}")


def _cut(text: str, most: int) -> str:
    """Return the beginning of a text, up to the end of a line where one is near."""
    if len(text) <= most:
        return text
    end = text.rfind("\n", most // 2, most) + 1
    return text[: end or most]


def _lines_of(text: str, start: int, end: int, first: int) -> tuple[int, int]:
    """Return the first and last line of a part of a text whose first line has the number `first`."""
    before = len(split_lines(text[:start]))
    within = len(split_lines(text[start:end]))
    begins = first + before - (start > 0 and not text[:start].endswith(("\n", "\r")))
    return begins, max(begins, begins + within - 1)


# The tools that list: folders, tags, recent changes, similar notes, backlinks; and the state of the index.


_Entries = list[Group | Listed]


def browse(library: Library, asked: Browse) -> Browsed:
    """List a part of the vault. Raises CursorError, FilterError, NotFoundError."""
    turn = library.turn("browse", asked)
    if asked.type and asked.by != "backlinks":
        raise FilterError("only backlinks have a `type`; leave it out, or browse by backlinks")
    found = _LISTS[asked.by](library, asked, turn)
    freshness, warnings = library.freshness()
    shown, cursor = turn.cut(found, asked.limit, freshness.generation)
    return Browsed(
        freshness=freshness,
        truncated=cursor is not None,
        cursor=cursor,
        warnings=[*warnings, *turn.warnings(freshness.generation)],
        groups=[one for one in shown if isinstance(one, Group)],
        notes=[one for one in shown if isinstance(one, Listed)],
        count=len(found),
    )


def _entries(contents: Contents) -> _Entries:
    groups = [Group(name=name, notes=count) for name, count in contents.groups]
    return [
        *groups,
        *(
            Listed.model_validate({**place(note.path, note.title, note.domain), "date": note.date})
            for note in contents.notes
        ),
    ]


def _folder(library: Library, asked: Browse, _: Turn) -> _Entries:
    return _entries(in_folder(library.view, asked.of, library.filters(asked)))


def _tag(library: Library, asked: Browse, _: Turn) -> _Entries:
    return _entries(with_tag(library.view, asked.of, library.filters(asked)))


def _recent(library: Library, asked: Browse, turn: Turn) -> _Entries:
    if asked.of is not None:
        raise FilterError("a list of recent changes is of the whole vault; leave out `of`")
    most = turn.offset + asked.limit + 1
    found = recently_changed(library.view, most, library.filters(asked))
    return [
        Listed.model_validate({**place(note.path, note.title, note.domain), "date": note.at})
        for note in found
    ]


def _similar(library: Library, asked: Browse, _: Turn) -> _Entries:
    note, filters = _note(library, asked), library.filters(asked)
    found = library.names.similar(note, MOST_SIMILAR, filters)
    if found.reason:
        raise FilterError(found.reason)
    return [
        Listed.model_validate({**place(one.path, one.title, one.domain, one.lines), "similarity": one.cosine})
        for one in found.results
    ]


def _backlinks(library: Library, asked: Browse, _: Turn) -> _Entries:
    note, filters = _note(library, asked), library.filters(asked)
    return [
        Listed.model_validate(
            {
                **place(one.path, one.title, one.domain, (one.line, one.line)),
                "link": one.text,
                "type": one.type,
            }
        )
        for one in links_to(library.view, note, filters, asked.type)
    ]


def _note(library: Library, asked: Browse) -> str:
    if asked.of is None:
        raise FilterError(f"browsing by {asked.by} needs a note; name it in `of`")
    return meant_by(library, asked.of).path


_LISTS: dict[str, Callable[[Library, Browse, Turn], _Entries]] = {
    "folder": _folder,
    "tag": _tag,
    "recent": _recent,
    "similar": _similar,
    "backlinks": _backlinks,
}


def status(library: Library, asked: Status) -> VaultState:
    """Say how far the index is, and whether a note is in it."""
    freshness, warnings = library.freshness()
    resources = library.view.resources
    health = library.view.health(resources.queue())
    return VaultState(
        freshness=freshness,
        warnings=warnings,
        ok=not health.problems,
        version=version("everindex"),
        parts=[PartState(domain=slug, notes=len(paths)) for slug, paths in library.by_domain().items()],
        note=_note_state(library, asked.note) if asked.note else None,
    )


def _note_state(library: Library, name: str) -> NoteState:
    if not is_within(name):
        raise no_such_note(name)
    # Of a folder or another kind of file it says no more than of what there is not.
    asked = name if is_note(name) else known_path(library.view, name) or f"{name}.md"
    known = library.view.why(asked)
    return NoteState(
        path=known["path"],
        state=known["state"],
        reason=known.get("reason"),
        indexed_at=known.get("indexed_at"),
        dates=dates["said"] if (dates := known.get("dates")) else None,
    )
