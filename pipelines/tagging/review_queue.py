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
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from urllib.parse import quote

from pipelines.parsing.frontmatter import is_tag
from pipelines.parsing.lines import LINE_END

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
class Kept:
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
    kept: Sequence[Kept] = (),
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
