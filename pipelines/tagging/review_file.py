"""The operator's queue as a note: what a page shows and how it is written. Pure; `review_reading` reads it back.

Every line that Everindex wrote can be told apart from a person's. An item ends with `<!-- e:ID SEAL -->`; the
comments `<!-- n:NOTE SEAL... -->` and `<!-- page:ID SEAL... -->` carry the seals of the lines around them: hashes
that no change of case or spacing alters. A line that a person edited no longer matches its seal, and counts as
theirs.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from urllib.parse import quote

from pipelines.notes.frontmatter import LINE_END, is_tag, read_frontmatter

MOST_LINES = 5
MOST_CHARACTERS = 400
LONGEST_TITLE = 120

TITLE = "# Tags to review"
INTRO = (
    "Put an `x` into a box to accept a tag, a `-` to reject it. A box that stays empty waits.",
    "Deleting a line rejects its tag, too, as long as more than half of the tags are left.",
    "To give a note another tag, write it below the note on a line of its own, such as `- [x] soil`.",
)
NOTHING = "There is nothing to review."
ALL = "all of the above"
NOT_UNDERSTOOD = "Not understood, left as it was written:"
ELSEWHERE = "## Left over"
NOTHING_WAITS = "Nothing else waits."
MORE_WAIT = "more wait until these are decided."
FIXED = (TITLE, *INTRO, NOTHING, NOT_UNDERSTOOD, ELSEWHERE, NOTHING_WAITS, MORE_WAIT)

# An editor may have turned the hyphens of a comment into dashes.
MARKER = re.compile(
    r"(?<!\\)<!\s*[-\u2010-\u2015]{1,3}\s*(?P<kind>e|n|page|end)\s*:\s*(?P<id>\w(?:[\w-]{0,62}\w)?)(?P<rest>(?:\s+[0-9a-f]{8})*)"
    r"\s*[-\u2010-\u2015]{1,3}\s*>",
    re.IGNORECASE,
)
# Characters that begin something in Markdown or Obsidian anywhere, and those that do so only when repeated
# (`%%`, `==`, `{{`, `::`) or before a word. A backslash makes each of them plain, and is not shown.
_LIVE = re.compile(
    r"[\[\]`\\$^*~|@]|<(?=[\\!/?a-zA-Z])|(?<=<)!|(?<![^\W_])#|&(?=#?\w{1,40};)"
    r"|(?<![^\W_])_|_(?![^\W_])|(?<=%)%|(?<==)=|(?<=\{)\{|(?<=:)[:/]|(?<=www)\.",
    re.IGNORECASE,
)
_FIRST = re.compile(r"(?P<before>\d{0,9})(?P<sign>(?<!\d)[-+>=#]|(?<=\d)[.)])")
_ESCAPED = re.compile(r"\\([!-/:-@\[-`{-~])")
_NO_WIKILINK = re.compile(r"[\[\]#^|\\`<>%$*~=&{}\x00-\x1f\x7f]|^\s|\s$|\s{2}|[^\S ]")
_LONGEST_WIKILINK = 1_000


@dataclass(frozen=True, slots=True)
class QueuedTag:
    """A tag that waits for the operator; `confidence` is from 0 to 1.

    `is_new`: it is not in the taxonomy. The operator typed it, and accepting it adds it to the taxonomy.
    """

    id: int
    tag: str
    group: str
    confidence: float
    proposer: str
    is_new: bool = False


@dataclass(frozen=True, slots=True)
class QueuedNote:
    """A note with its waiting tags; `opening` is the beginning of its text."""

    path: str
    title: str
    opening: str
    tags: tuple[QueuedTag, ...]


@dataclass(frozen=True, slots=True)
class KeptText:
    """Text that a person wrote and that is not a decision, verbatim, with lines joined by line feeds.

    `path` is the note that it was written under, None for no note, and `""` for frontmatter, which stays at the top.
    """

    path: str | None
    text: str


def render(
    notes: Sequence[QueuedNote],
    waiting: int,
    page: str,
    *,
    kept: Sequence[KeptText] = (),
    message: str | None = None,
) -> str:
    """Write a page: instructions, the notes in their order, kept text, and how many more tags wait.

    `page` is the page's name, of letters and digits. A tag that a kept line refers to (by its id) is not written a
    second time, because that line represents it.
    """
    page = re.sub(r"\W", "", page)
    said = {match["id"].lower() for one in kept for match in MARKER.finditer(one.text)}
    under: dict[str | None, list[str]] = {}
    for one in kept:
        under.setdefault(one.path, []).append(one.text)
    said_so = [f"> **{neutral(message)}**"] if message else []
    foot = f"{waiting} {MORE_WAIT}" if waiting > 0 else NOTHING_WAITS if notes else NOTHING
    blocks = under.pop("", [])
    blocks += [f"<!-- page:{page}{_seals([*FIXED, *said_so, foot])} -->", TITLE, *said_so]
    blocks += ["\n".join(INTRO)] if notes else []
    for note in notes:
        blocks += _note(note, said)
        blocks += _marked(under.pop(note.path, []))
    left = [text for texts in under.values() for text in texts]
    blocks += [ELSEWHERE, *_marked(left)] if left else []
    return "\n\n".join([*blocks, f"{foot}\n<!-- end:{page} -->\n"])


def _note(note: QueuedNote, said: set[str]) -> Iterator[str]:
    opening = quoted(note.opening)
    marker = f"<!-- n:{note_key(note.path)}{_seals([heading(note), *opening])} -->"
    yield f"{heading(note)}\n{marker}"
    if opening:
        yield "\n".join(opening)
    open_tags = [tag for tag in note.tags if str(tag.id) not in said]
    lines = [item(tag) for tag in open_tags if not tag.is_new]
    if len(lines) > 1 and all_key(note.path) not in said:
        lines.append(f"- [ ] {ALL} <!-- e:{all_key(note.path)} -->")
    lines += [item(tag) for tag in open_tags if tag.is_new]
    if lines:
        yield "\n".join(lines)


def _marked(texts: list[str]) -> list[str]:
    return [NOT_UNDERSTOOD, *texts] if texts else []


def _seals(lines: Iterable[str]) -> str:
    return "".join(f" {seal(line)}" for line in lines)


def heading(note: QueuedNote) -> str:
    """Write a note's heading: a wikilink with its full path, or a Markdown link if name or title prevent one."""
    stem = PurePosixPath(note.path).stem
    title = neutral(_visible(note.title)[:LONGEST_TITLE]) or neutral(stem) or "?"
    # Obsidian shows a wikilink's alias verbatim: a backslash would be visible, too.
    odd = "\\" in title or _NO_WIKILINK.search(note.path)
    if odd or len(note.path) + len(title) > _LONGEST_WIKILINK:
        return f"## [{title}]({quote(note.path, errors='replace')})"
    return f"## [[{note.path}|{title}]]"


def item(tag: QueuedTag) -> str:
    """Write a tag's line."""
    return f"- [ ] {label(tag)} <!-- e:{tag.id} {seal(label(tag))} -->"


def label(tag: QueuedTag) -> str:
    """Write a tag's line between box and comment: the tag first, formatted as code so that it is not a tag here."""
    if tag.is_new:
        return f"{tag_name(tag)} · not in the vocabulary yet: accepting it adds it"
    parts = (tag_name(tag), neutral(tag.group), f"{tag.confidence:.0%}", neutral(tag.proposer))
    return " · ".join(part for part in parts if part)


def tag_name(tag: QueuedTag) -> str:
    """Write a tag as it appears at the beginning of its line."""
    return f"`{tag.tag}`" if is_tag(tag.tag) else neutral(tag.tag)


def quoted(opening: str) -> list[str]:
    """Quote the first lines of a text, at most MOST_LINES and MOST_CHARACTERS, with all markup made inactive.

    The limit applies to what is shown: backslashes do not count.
    """
    lines: list[str] = []
    left = MOST_CHARACTERS
    # Escaping at most doubles a character, so no more input than this is needed.
    for line in LINE_END.split(opening[: 10 * MOST_CHARACTERS]):
        text = _visible(line)
        if text and left > 0 and len(lines) < MOST_LINES:
            lines.append(f"> {neutral(text[:left])}" + ("…" if len(text) > left else ""))
            left -= len(text)
    return lines


def neutral(text: str) -> str:
    """Return a text on one line in which Markdown, HTML and Obsidian find no link, tag, comment or box.

    Every character is shown as it is; a backslash precedes those that would be markup.
    """
    shown = _LIVE.sub(r"\\\g<0>", _visible(text))
    first = _FIRST.match(shown)
    return f"{first['before']}\\{first['sign']}{shown[first.end() :]}" if first else shown


def plain(text: str) -> str:
    """Return how a Markdown reader displays a neutral text."""
    return _ESCAPED.sub(r"\1", text)


def _visible(text: str) -> str:
    """Return a text on one line, without invisible or misleading characters."""
    return " ".join("".join(map(_seen, text)).split())


def _seen(character: str) -> str:
    if character.isascii() and character.isprintable():
        return character
    category = unicodedata.category(character)
    if category in {"Cc", "Zl", "Zp", "Zs"}:
        return " "
    if category == "Cs":
        return "\ufffd"
    # Joiners are part of emoji and words; other format characters, such as direction marks, only mislead.
    return "" if category == "Cf" and character not in "\u200c\u200d" else character


def folded(text: str) -> str:
    """Return a text without differences of case and Unicode form."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).upper().casefold())


def seal(line: str) -> str:
    """Return the hash of a line, which its case and spacing do not alter."""
    text = "".join(folded(line).split())
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:8]


def note_key(path: str) -> str:
    """Return the id of a note in comments."""
    return hashlib.sha256(path.encode("utf-8", "replace")).hexdigest()[:8]


def all_key(path: str) -> str:
    """Return the id of a note's box for all of its tags."""
    return f"all-{note_key(path)}"


# Read the lines of an edited review queue: what each says about an item, and which a person wrote. Pure.
#
# A line's meaning comes from its comment, wherever the line is, or else from the tag that it names under its note.


_ACCEPT = frozenset("x\u0445\u00d7\u2713\u2714")  # also the Cyrillic letter that looks like an x
_REJECT = frozenset("-\u2010\u2011\u2012\u2013\u2014\u2212")
_LINE = re.compile(
    r"\s*(?P<bullet>[-*+\u2022]|[0-9]{1,9}[.)])?\s*(?:\\?\[(?P<mark>[^\[\]\\]{0,4})\\?\])?(?P<text>.*)",
    re.DOTALL,
)
_HEADING = re.compile(r"\s*#{1,6}\s")
_EMPTY = re.compile(r"\s*(?:[-*+]|[0-9]{1,9}[.)])\s*(?:\[\s*\]\s*)?")
_ALL = "all-"


@dataclass(frozen=True, slots=True)
class Said:
    """What a line says about an item or a note's box for all: `x`, `-`, or nothing; `rest` is what a person added."""

    number: int
    mark: str
    line: str
    path: str | None
    by_hand: bool = False
    rest: str = ""


class LineReader:
    """Reads line by line: `said` by item, `typed` and `additions` as (note, tag), `kept` (note, text) by line number.

    `_path` is the note above the current line; `_sure`: nothing speaks against it.
    """

    def __init__(
        self, known: Sequence[QueuedNote], find: Callable[[str], str | None], lines: Sequence[str]
    ) -> None:
        self._find = find
        self.notes = {note.path: note for note in known}
        self.tags = {str(tag.id): (tag, note.path) for note in known for tag in note.tags}
        self.said: dict[str, list[Said]] = defaultdict(list)
        self.typed: list[tuple[str, str]] = []
        self.additions: list[tuple[str, str]] = []
        self.kept: dict[int, tuple[str | None, str]] = {}
        self._mentioned: set[str] = set()  # ids in kept lines
        self._named: set[tuple[str | None, str]] = set()  # the same for tags: (note, tag)
        self.pages: list[tuple[str, str]] = []
        self._path: str | None = None
        self._sure = False
        self._by_key = {note_key(note.path): note.path for note in known}
        self._headings = {seal(heading(note)): note.path for note in known}
        self._fixed = {seal(line) for line in FIXED}
        self._ours = self._fixed | set(self._headings)
        self._ours.update(seal(line) for note in known for line in quoted(note.opening))
        for line in lines:
            for match in MARKER.finditer(line):
                if match["kind"].lower() != "e":
                    self._ours.update(match["rest"].lower().split())

    def read(self, number: int, line: str) -> None:
        """Read one line that is not blank."""
        for match in MARKER.finditer(line):
            self._enter(match)
        # A comment that names a page or a note is Everindex's wherever it is; kept text must not name another.
        line = MARKER.sub(lambda match: match[0] if match["kind"].lower() == "e" else "", line)
        items = list(MARKER.finditer(line))
        if len(items) > 1:
            self._keep(number, self._path, line)
        elif items:
            self._item(number, line, items[0])
        elif seal(line) in self._ours or seal(line.strip().lstrip("0123456789")) in self._fixed:
            if _HEADING.match(line):
                self._path = self._headings.get(seal(line))
                self._sure = self._path is not None
        elif line.strip() and not _EMPTY.fullmatch(line):
            self._unmarked(number, line)

    def read_cut(self, number: int, line: str, page: str) -> None:
        """Read the last line of a truncated file: part of a line of Everindex, or words that may be incomplete."""
        half = "".join(folded(line).split())
        ours = ["".join(folded(whole).split()) for whole in (*page.split("\n"), *FIXED)]
        if MARKER.search(line):
            self.read(number, line)
        elif half.startswith(("<!--page:", "<!--n:")):
            pass
        elif half and not any(whole.startswith((half, half.lstrip("0123456789"))) for whole in ours):
            self._keep(number, None, line)

    def _enter(self, match: re.Match[str]) -> None:
        kind, name = match["kind"].lower(), match["id"].lower()
        if kind != "e":
            self._path = self._by_key.get(name) if kind == "n" else None
            self._sure = self._path is not None
        if kind in {"page", "end"}:
            self.pages.append((kind, name))

    def _item(self, number: int, line: str, match: re.Match[str]) -> None:
        """Read a line with the comment of one item."""
        key = _key(match)
        parts = _parts((line[: match.start()] + line[match.end() :]).lstrip("> \t"))
        mark, text = _mark(parts["mark"]), parts["text"].strip()
        path, rest = self._path, None
        if key in self.tags:
            tag, path = self.tags[key]
            # An earlier version may have worded it differently; its own seal shows that it is unedited.
            ours = seal(text) in match["rest"].lower().split()
            rest = "" if ours else _rest(text, label(tag), tag_name(tag))
        elif key.removeprefix(_ALL) in self._by_key:
            path = self._by_key[key.removeprefix(_ALL)]
            rest = _rest(text, ALL, ALL)
        elif parts["mark"] is not None and (
            (key.isdecimal() and seal(text) in match["rest"].lower().split())
            or (key.startswith(_ALL) and not mark and seal(text) == seal(ALL))
        ):
            rest = ""  # an unedited item of another page
        if path != self._path:
            self._path, self._sure = None, False  # moved here; the next lines may be either note's
        if mark is None or rest is None:
            self._keep(number, path, line)
        else:
            self.said[key].append(Said(number, mark, line, path, rest=rest))

    def _unmarked(self, number: int, line: str) -> None:
        """Read a line without a comment that is not one of Everindex's."""
        parts = _parts(line)
        mark, text = _mark(parts["mark"]), parts["text"].strip()
        if _HEADING.match(line):
            self._sure = False
        note = self.notes[self._path] if self._sure and self._path is not None else None
        if note is None or mark is None or line.lstrip().startswith(">"):
            self._keep(number, self._path, line)
        elif seal(text) == seal(ALL):
            if parts["mark"] is not None:
                self.said[all_key(note.path)].append(Said(number, mark, line, note.path, by_hand=True))
        elif not self._tags(number, line, note, parts):
            self._keep(number, note.path, line)

    def _tags(self, number: int, line: str, note: QueuedNote, parts: re.Match[str]) -> bool:
        """Read the tags typed under a note; for anything else do nothing and return False."""
        mark, text = _mark(parts["mark"]) or "", parts["text"].strip()
        words = text.replace(",", " ").split()
        names = words if words and all(word.startswith("#") for word in words) else [text]
        marked = parts["mark"] is not None
        by_hand = marked or parts["bullet"] is not None or text.startswith("#")
        if not by_hand and number - 1 in self.kept:
            return False  # the last word of a person's sentence
        found: list[tuple[str, str | None, QueuedTag | None]] = []
        for written in names:
            name = _bare(written)
            tag = self._find(name)
            item = _item_named(note, written, tag or name)
            if item is None and (mark == "-" or (tag is None and not (by_hand and is_tag(name)))):
                return False
            found.append((name, tag, item))
        for name, tag, item in found:
            if item is not None:
                whole = seal(text) == seal(label(item))
                said = Said(number, mark if marked or whole else "x", line, note.path, by_hand=True)
                self.said[str(item.id)].append(said)
            elif tag is not None:
                self.typed.append((note.path, tag))
            else:
                self.additions.append((note.path, name))
        return True

    def _keep(self, number: int, path: str | None, line: str) -> None:
        self.kept[number] = (path, line)
        self._mentioned.update(_key(match) for match in MARKER.finditer(line))
        parts = _parts(line)
        if parts["mark"] is not None and (words := parts["text"].split(maxsplit=1)):
            self._named.add((path, folded(_bare(words[0]))))

    def mentions(self, key: str) -> bool:
        """Say whether a kept line names a shown item, so that the item is undecided, but not deleted."""
        tag, path = self.tags[key]
        name = folded(_bare(tag_name(tag)))
        return key in self._mentioned or not self._named.isdisjoint({(path, name), (None, name)})

    def agree(self, said: Sequence[Said]) -> str | None:
        """Return the mark that all lines about one item agree on; if they disagree, keep the lines, return None."""
        own = {one.mark for one in said if not one.by_hand}
        typed = {one.mark or ("x" if own else "") for one in said if one.by_hand}
        marks = (own | typed) - {""}
        if len(own) > 1 or len(typed) > 1 or len(marks) > 1:
            for one in said:
                self._keep(one.number, one.path, one.line)
            return None
        self.kept |= {one.number: (one.path, one.rest) for one in said if one.rest}
        return marks.pop() if marks else ""


def _parts(line: str) -> re.Match[str]:
    match = _LINE.fullmatch(line)
    assert match is not None  # noqa: S101  (every part may be empty)
    return match


def _mark(written: str | None) -> str | None:
    """Return the content of a box as `x`, `-` or nothing; None for anything else."""
    mark = (written or "").strip().casefold()
    if mark in _ACCEPT:
        return "x"
    return "-" if mark in _REJECT else (None if mark else "")


def _key(match: re.Match[str]) -> str:
    key = match["id"].lower()
    return str(int(key)) if key.isascii() and key.isdecimal() else key


def _bare(word: str) -> str:
    return word.replace("`", "").replace("\\", "").strip(" \t,;:.\u00b7").removeprefix("#")


def _item_named(note: QueuedNote, written: str, name: str) -> QueuedTag | None:
    """Return the item that a line without a comment means, if only one of the note's items fits."""
    whole = [tag for tag in note.tags if seal(label(tag)) == seal(written)]
    found = whole or [tag for tag in note.tags if folded(_bare(tag_name(tag))) == folded(name)]
    return found[0] if len(found) == 1 else None


def _rest(text: str, whole: str, name: str) -> str | None:
    """Return what a person added to one of Everindex's lines; None if it does not begin with its item."""
    if not text or seal(text) == seal(whole):
        return ""
    if text.startswith(whole):
        return text[len(whole) :].strip()
    first, *rest = text.split(maxsplit=1)
    if folded(_bare(first)) != folded(_bare(name)):
        return None
    return "".join(rest).removeprefix(whole[len(name) :].strip()).strip()


# Read the operator's queue back: the decisions, and what else a person wrote. Pure; never raises.
#
# `review_lines` says what each line means. An ambiguous line decides nothing. A line that is neither Everindex's
# nor a decision is kept.


@dataclass(frozen=True, slots=True)
class Reading:
    """The contents of a page. `typed` and `additions` are (path, tag): in the vocabulary, and not (yet) in it.

    `elsewhere` are marked items that this page did not show, such as those of an older page: whether each is
    accepted. `damaged` says why no deletion was counted; marked items count nevertheless.
    """

    accepted: frozenset[int] = frozenset()
    rejected: frozenset[int] = frozenset()
    typed: tuple[tuple[str, str], ...] = ()
    additions: tuple[tuple[str, str], ...] = ()
    kept: tuple[KeptText, ...] = ()
    elsewhere: Mapping[int, bool] = field(default_factory=dict)
    damaged: str | None = None


def read(text: str, known: Sequence[QueuedNote], page: str, find: Callable[[str], str | None]) -> Reading:
    """Return the operator's decisions in a page's text.

    `known` is what the page showed, `page` its name; `find` returns the vocabulary's tag for a typed one, or None.
    Bytes that are not UTF-8 stay unchanged if they are decoded and encoded with `surrogateescape`.
    """
    front = read_frontmatter(text).end
    if MARKER.search(text, 0, front):
        front = 0  # not frontmatter: one rule at the top and another further down
    lines = LINE_END.split(text[front:].removeprefix("\ufeff"))
    reader = LineReader(known, find, lines)
    if not any(match["kind"].lower() == "end" for match in MARKER.finditer(text)):
        reader.read_cut(len(lines) - 1, lines.pop(), render(known, 0, page))
    for number, line in enumerate(lines):
        if line.strip():
            reader.read(number, line)
    top = LINE_END.sub("\n", text[:front]).strip("\ufeff\n")
    reading = _decisions(reader, re.sub(r"\W", "", page).lower())
    return replace(reading, kept=((KeptText("", top),) if top else ()) + _blocks(reader.kept, lines))


def _decisions(reader: LineReader, page: str) -> Reading:
    marks = {key: mark for key, said in reader.said.items() if (mark := reader.agree(said)) is not None}
    for path, note in reader.notes.items():
        for tag in note.tags:
            if marks.get(str(tag.id)) == "" and not tag.is_new:
                marks[str(tag.id)] = marks.get(all_key(path), "")
    shown = reader.tags
    gone = {tag.id for key, (tag, _) in shown.items() if key not in marks and not reader.mentions(key)}
    damaged = _damage(reader.pages, page, len(gone), len(shown))
    rejected = {int(key) for key, mark in marks.items() if mark == "-" and key in shown}
    return Reading(
        accepted=frozenset(int(key) for key, mark in marks.items() if mark == "x" and key in shown),
        rejected=frozenset(rejected if damaged else rejected | gone),
        typed=tuple(dict.fromkeys(reader.typed)),
        additions=tuple(dict.fromkeys(reader.additions)),
        elsewhere={
            int(key): mark == "x"
            for key, mark in marks.items()
            if mark and key not in shown and key.isdecimal()
        },
        damaged=damaged,
    )


def _damage(pages: Sequence[tuple[str, str]], page: str, gone: int, shown: int) -> str | None:
    """Return why missing lines are not decisions, or None if they are."""
    if ("page", page) not in pages[:1]:
        return "its beginning is missing, or it is an older page"
    if ("end", page) not in pages[-1:]:
        return "its end is missing"
    if any(name != page for _, name in pages):
        return "parts of another page are in it"
    if gone and 2 * gone >= shown:
        return f"{gone} of its {shown} tags are missing"
    return None


def _blocks(kept: Mapping[int, tuple[str | None, str]], lines: Sequence[str]) -> tuple[KeptText, ...]:
    """Join the kept lines under each note; other lines between them become one blank line."""
    texts: dict[str | None, str] = {}
    before: dict[str | None, int] = {}
    for number, (path, text) in sorted(kept.items()):
        if path in texts:
            between = lines[before[path] + 1 : number]
            blank = number - before[path] if not any(line.strip() for line in between) else 2
            texts[path] += "\n" * blank
        texts[path] = texts.get(path, "") + text
        before[path] = number
    return tuple(KeptText(path, text) for path, text in texts.items())
