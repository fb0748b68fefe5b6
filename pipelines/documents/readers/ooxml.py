"""Read the parts of an Office file, a zip archive of XML. Nothing that the archive says about itself is trusted."""

from __future__ import annotations

import posixpath
import re
import struct
import zipfile
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from copy import copy
from dataclasses import dataclass
from datetime import date
from io import BytesIO
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import unquote

from lxml import etree

from pipelines.documents.document import MOST_UNPACKED, keywords, tags_metadata
from pipelines.errors import DocumentError
from pipelines.notes.privacy import PRIVATE, named

Element = Any
"""An element of lxml, which has no types."""

MOST_MEMBERS = 10_000
LARGEST_TREE = 10_000_000
"""Bytes of a part that is parsed as a whole; its tree can take twenty times as much memory."""
_PIECE = 1 << 20
_COMPOUND_FILE = bytes.fromhex("d0cf11e0a1b11ae1")
_MEMBER = b"PK\x01\x02"
_ENCRYPTED = 0x1
_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    NotImplementedError,
    RuntimeError,
    OSError,
    ValueError,
    OverflowError,
)
"""What zipfile raises for archives that are damaged or made to be."""

_SAFE: Mapping[str, bool] = {
    "resolve_entities": False,
    "no_network": True,
    "load_dtd": False,
    "huge_tree": False,
    "remove_comments": True,
    "remove_pis": True,
}


@dataclass(frozen=True, slots=True)
class Relation:
    """A part's relation: its kind, such as `slide`, and its target, another part or (`external`) an address."""

    kind: str
    target: str
    external: bool


class Package:
    """An Office file: its parts by their names, and the relations between them.

    Every method raises DocumentError, with a sentence for the user, if what it needs is missing or damaged.
    """

    def __init__(self, path: str, data: bytes) -> None:
        self._path = path
        self._zip = _open(path, data)

        self._members = {_part_name(one.filename): one for one in self._zip.infolist()}

    @property
    def parts(self) -> AbstractSet[str]:
        """Return the names of the parts."""
        return self._members.keys()

    def written_name(self, part: str) -> str:
        """Return the name of a part as the archive has it."""
        return self._members[part].filename

    def damaged(self, part: str, reason: str) -> DocumentError:
        """Return the error for a part that cannot be read."""
        name = self.written_name(part) if part in self._members else part
        return DocumentError(
            f"{self._path!r} is damaged: its part {name!r} {reason}; open it in the program that wrote it and save it"
            " again"
        )

    def pieces(self, part: str) -> Iterator[bytes]:
        """Yield the content of a part, piece by piece."""
        stated = self._members.get(part)
        if stated is None:
            raise self.damaged(part, "is missing")
        # zipfile stops at the size that the archive states. Other libraries read on, so that a larger one must show.
        longer = copy(stated)
        longer.file_size += 1
        size = 0
        try:
            with self._zip.open(longer) as stream:
                while piece := stream.read(_PIECE):
                    size += len(piece)
                    yield piece
        except _DAMAGE as error:
            raise self.damaged(part, f"cannot be unpacked ({_line(error)})") from error
        if size != stated.file_size:
            raise self.damaged(part, f"has {size:,} bytes or more instead of {stated.file_size:,}")

    def tree(self, part: str) -> Element:
        """Return the root element of a part."""
        if part in self.parts and self._members[part].file_size > LARGEST_TREE:
            name = self.written_name(part)
            raise DocumentError(
                f"{self._path!r} has more than {LARGEST_TREE:,} bytes in its part {name!r}; split it"
            )
        parser = etree.XMLParser(**_SAFE)
        try:
            for piece in self.pieces(part):
                parser.feed(piece)
            root = parser.close()
        except (etree.LxmlError, LookupError, ValueError) as error:
            raise self.damaged(part, f"is not readable XML ({_line(error)})") from error
        self._refuse_doctype(part, root)
        return root

    def outermost(self, part: str, *names: str) -> Iterator[Element]:
        """Yield the elements of these local names that lie in no other such element, and free each one afterwards."""
        depth = 0
        for event, element in self._events(part, ("start", "end"), [f"{{*}}{name}" for name in names]):
            depth += 1 if event == "start" else -1
            if depth:
                continue
            yield element
            element.clear()
            while element.getprevious() is not None:
                del element.getparent()[0]

    def relations(self, part: str) -> Mapping[str, Relation]:
        """Return the relations of a part by their ids; those of the package itself for an empty name."""
        folder, name = posixpath.split(part)
        stated = posixpath.join(folder, "_rels", f"{name}.rels")
        if stated not in self.parts:
            return {}
        return {
            one.get("Id", ""): _relation(folder, one)
            for one in self.tree(stated)
            if local(one) == "Relationship"
        }

    def main_part(self, root: str, kind: str) -> str:
        """Return the name of the part that holds the document; `root` is its root element in a file of `kind`."""
        found = (one.target for one in self.relations("").values() if one.kind == "officeDocument")
        name = next(found, "")
        if name:
            for _, element in self._events(name, ("start",), None):
                if local(element) == root:
                    return name
                break
        raise DocumentError(
            f"{self._path!r} is not {kind}; rename it so that its extension names the format that it has"
        )

    def _events(
        self, part: str, events: Collection[str], tags: Collection[str] | None
    ) -> Iterator[tuple[str, Element]]:
        parser = etree.XMLPullParser(events=events, tag=tags, **_SAFE)
        checked = False
        try:
            for piece in self.pieces(part):
                parser.feed(piece)
                for event, element in parser.read_events():
                    if not checked:
                        self._refuse_doctype(part, element)
                        checked = True
                    yield event, element
            parser.close()
        except (etree.LxmlError, LookupError, ValueError) as error:
            raise self.damaged(part, f"is not readable XML ({_line(error)})") from error

    def _refuse_doctype(self, part: str, element: Element) -> None:
        """Raise DocumentError for a document type: Office writes none, and entities defined there can be bombs."""
        if element.getroottree().docinfo.doctype:
            raise self.damaged(part, "defines a document type, which Office files never do")


def local(element: Element) -> str:
    """Return the name of an element without its namespace: the two dialects of Office differ in the latter alone."""
    name: str = element.tag
    return name.rpartition("}")[2]


def attribute(element: Element, name: str) -> str:
    """Return the attribute of that local name that is no relation's id, or an empty string."""
    for key, value in element.attrib.items():
        if key.rpartition("}")[2] == name and "relationships}" not in key:
            return str(value)
    return ""


def relation_id(element: Element, name: str = "id") -> str:
    """Return the id of a relation that an element refers to, or an empty string."""
    for key, value in element.attrib.items():
        if key.endswith(f"relationships}}{name}"):
            return str(value)
    return ""


def child(element: Element | None, *names: str) -> Element | None:
    """Return the first child of that local name, or its descendant along several names; None without one."""
    for name in names:
        if element is None:
            return None
        element = next((one for one in element if local(one) == name), None)
    return element


def listed(element: Element, *names: str) -> list[Element]:
    """Return the children of the child of that local name, or of a descendant as in `child`."""
    found = child(element, *names)
    return [] if found is None else list(found)


def walk(element: Element, left_out: Collection[str] = ()) -> Iterator[Element]:
    """Yield an element and its descendants in the order of the document, without those elements and what is in them.

    Not recursive: the depth is the file's to choose.
    """
    stack = [element]
    while stack:
        one = stack.pop()
        if local(one) not in left_out:
            yield one
            stack.extend(reversed(one))


def topmost(element: Element, names: Collection[str], left_out: Collection[str] = ()) -> Iterator[Element]:
    """Yield the descendants of these local names that lie in no other such descendant."""
    stack = list(reversed(element))
    while stack:
        one = stack.pop()
        if local(one) in names:
            yield one
        elif local(one) not in left_out:
            stack.extend(reversed(one))


def _relation(folder: str, element: Element) -> Relation:
    target = element.get("Target", "").replace("\\", "/")
    external = element.get("TargetMode", "") == "External"
    if not external:
        target = _part_name(posixpath.normpath(posixpath.join("/", folder, unquote(target))))
    return Relation(element.get("Type", "").rpartition("/")[2], target, external)


def _part_name(written: str) -> str:
    """Return the name of a part in one form: case does not count, and some programs on Windows write backslashes."""
    return written.replace("\\", "/").lstrip("/").lower()


def _open(path: str, data: bytes) -> zipfile.ZipFile:
    suffix = PurePosixPath(path).suffix.lower()
    if not data:
        raise DocumentError(f"{path!r} is empty (0 bytes); copy it again from where it came")
    if data.startswith(_COMPOUND_FILE):
        raise DocumentError(
            f"{path!r} is encrypted or in the format of Office 97 to 2003; save a copy as {suffix} without a password"
        )
    # zipfile would keep an object for each member before they can be counted.
    if data.count(_MEMBER) > MOST_MEMBERS:
        raise DocumentError(
            f"{path!r} has more than {MOST_MEMBERS:,} members, as no Office file has; leave it out"
        )
    try:
        archive = zipfile.ZipFile(BytesIO(data))
    except _DAMAGE as error:
        if data.startswith(b"PK"):
            raise DocumentError(
                f"{path!r} is damaged or incomplete ({_line(error)}); copy it again from where it came"
            ) from error
        raise DocumentError(
            f"{path!r} is not a {suffix} file; rename it to the extension of its format"
        ) from error
    members = archive.infolist()
    if any(one.flag_bits & _ENCRYPTED for one in members):
        raise DocumentError(f"{path!r} is encrypted; save a copy without a password")
    size = sum(one.file_size for one in members)
    if size > MOST_UNPACKED:
        raise DocumentError(
            f"{path!r} unpacks to {size / 1_000_000:,.0f} MB, and at most {MOST_UNPACKED // 1_000_000} MB are read;"
            " split it, or leave it out"
        )
    return archive


def _line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


# Read the properties of an Office file: title, author, date of creation, tags, and whether it is private.


# What PowerPoint writes as the title of every presentation, in the user's language.
_DEFAULT_TITLE = re.compile(r"(?:\w+[ -])?powerpoint(?:[ -]\w+)?", re.IGNORECASE)


def core_properties(package: Package) -> tuple[str, dict[str, object]]:
    """Return the title, or an empty string, and the metadata `author`, `date`, `tags` and `private`, if stated.

    Tags are the keywords and the category, `private` and more tags may be properties that the author added. Raises
    DocumentError if a part with properties is damaged.
    """
    stated = {  # keywords may have an element for each language
        local(one): " ".join(", ".join(one.itertext()).split())
        for one in _properties(package, "core-properties")
    }
    added = {
        attribute(one, "name"): "".join(one.itertext()) for one in _properties(package, "custom-properties")
    }
    tags = [stated.get("keywords", ""), stated.get("category", "")]
    tags += [str(value) for name in ("tags", "tag") for value in named(added, name)]
    metadata = tags_metadata(tag for text in tags for tag in keywords(text))
    if private := list(named(added, PRIVATE)):
        metadata.setdefault(PRIVATE, private)
    if stated.get("creator"):
        metadata["author"] = stated["creator"]
    created = stated.get("created", "")[:10]
    if _is_date(created):
        metadata["date"] = created
    title = stated.get("title", "")
    return "" if _DEFAULT_TITLE.fullmatch(title) else title, metadata


def _properties(package: Package, kind: str) -> Iterable[Element]:
    """Return the elements of a part with properties, none if the file has no such part."""
    part = next((one.target for one in package.relations("").values() if one.kind == kind), None)
    # An archive can have a member without a name, too.
    return package.tree(part) if part and part in package.parts else ()


def _is_date(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False
