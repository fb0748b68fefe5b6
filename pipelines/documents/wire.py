"""What a process without rights and its parent say to each other: frames of a JSON head and a body of bytes.

A question's head is `{path, reader, options}`, its body the file. An answer's head is `{ready}`, `{document}`,
`{refused}` (the reader says why), `{error}` (the reader failed) or `{memory}`, its body the document's text in UTF-8.
The parent trusts no answer: a hostile document may have taken the process over.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from typing import Any

from pipelines.documents.document import DEEPEST, LONGEST_LABEL, Document, DocumentLink
from pipelines.errors import DocumentError, ParserDiedError, ParserMemoryError
from pipelines.model import KINDS, Block, Locator
from pipelines.notes.links import LONGEST_TYPE, type_of
from pipelines.notes.privacy import PRIVATE

Buffer = bytes | bytearray | memoryview
PREFIX = struct.Struct(">IQ")
"""The sizes of head and body in bytes."""
MOST_TEXT = 20_000_000
"""Bytes of an answer's body: what the 5,000,000 characters at which readers stop may take."""
MOST_HEAD = 8_000_000
"""Bytes of an answer's head: fifty thousand blocks with a label and some headings each."""
MOST_BLOCKS = 50_000
MOST_LINKS = 20_000
_MOST_VALUES = 1_000_000
"""Commas and brackets of a head, because 8 MB of `{},` would become 300 MB of objects."""
_MOST_METADATA = 65_536
_MOST_HEADINGS = 100
_MOST_WARNINGS = 100
LONGEST_SENTENCE = 1_000
_LONGEST_NAME = 4_096
_GREATEST = 2**31
_REFUSAL = b'{"refused":'


def frame(head: Mapping[str, object], body_size: int = 0) -> bytes:
    """Return the bytes that announce a body of that size."""
    # A lone surrogate cannot be encoded and would be refused by the index, too.
    data = json.dumps(head, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    return PREFIX.pack(len(data), body_size) + data


def packed(document: Document) -> tuple[bytes, bytes]:
    """Return the head and the body of an answer with a document; what is longer than an answer may be is cut."""
    warnings = []
    if len(document.blocks) > MOST_BLOCKS:
        warnings.append(f"only the first {MOST_BLOCKS:,} of {len(document.blocks):,} parts were read")
    if len(document.links) > MOST_LINKS:
        warnings.append(f"only the first {MOST_LINKS:,} of {len(document.links):,} links were read")
    metadata = document.metadata
    if len(_as_json(metadata).encode("utf-8", "replace")) > _MOST_METADATA:
        metadata = {PRIVATE: True}  # it may say so, and what may be private is
        warnings.append(
            f"its metadata has more than {_MOST_METADATA:,} bytes and was left out, so it counts as private"
        )
    head = {
        "title": document.title[:LONGEST_SENTENCE],
        "metadata": metadata,
        "blocks": [_packed_block(block) for block in document.blocks[:MOST_BLOCKS]],
        "links": [
            [link.target[:_LONGEST_NAME], link.at, link.fragment[:_LONGEST_NAME],
             link.text[:_LONGEST_NAME], link.embed, link.type or ""]
            for link in document.links[:MOST_LINKS]
        ],
        "warnings": [warning[:LONGEST_SENTENCE] for warning in (*warnings, *document.warnings)][:_MOST_WARNINGS],
        "pictures": document.has_pictures,
    }  # fmt: skip
    text = document.text.encode("utf-8", "replace")
    return frame({"document": head}, len(text)), text


def _packed_block(block: Block) -> list[object]:
    place = block.place
    return [
        block.start,
        block.end,
        block.label[:LONGEST_LABEL],
        [heading[:LONGEST_LABEL] for heading in block.headings[:_MOST_HEADINGS]],
        place and [place.kind, place.name[:_LONGEST_NAME], place.first, place.last],
    ]


def sizes(path: str, prefix: Buffer) -> tuple[int, int]:
    """Return the sizes of an answer's head and body. Raises DocumentError if one is larger than it may be."""
    head, body = PREFIX.unpack_from(prefix)
    if head > MOST_HEAD or body > MOST_TEXT:
        raise DocumentError(
            f"{path!r} has more parts or text than can be indexed ({MOST_TEXT / 1e6:g} MB); split it"
        )
    return head, body


def is_refusal(head: Buffer) -> bool:
    """Say whether an answer is a reader's refusal, after which its process is as it was."""
    return bytes(head[: len(_REFUSAL)]) == _REFUSAL


def document_of(path: str, head: Buffer, body: Buffer) -> Document:
    """Return the document of an answer.

    Raises DocumentError if the reader refused the file, ParserMemoryError if it ran out of memory, ParserDiedError if
    the answer is not valid.
    """
    data = bytes(head)
    if sum(map(data.count, (b",", b"[", b"{"))) > _MOST_VALUES:
        raise DocumentError(f"{path!r} has more parts than can be indexed; split it")
    try:
        answer = _dict(json.loads(data), None)
        reason = answer.get("refused", answer.get("error"))
        if reason is not None:
            refused: Exception = DocumentError(_sentence(path, _text(reason, _GREATEST)))
        elif "memory" in answer:
            refused = ParserMemoryError(f"{path!r} needs too much memory to read; split it")
        else:
            return _document(answer["document"], str(body, "utf-8"))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ParserDiedError(
            f"{path!r} could not be read: its process gave an answer that is not valid ({error})"
        ) from None
    raise refused


def _sentence(path: str, message: str) -> str:
    """Return a reader's reason for refusing a file, as one line that names the file."""
    line = " ".join(message.split())[:LONGEST_SENTENCE]
    return (
        line
        if line.startswith(tuple(f"{path!r}{after}" for after in " ,:"))
        else f"{path!r} cannot be read: {line}"
    )


def _document(raw: object, text: str) -> Document:
    found = _dict(raw, {"title", "metadata", "blocks", "links", "warnings", "pictures"})
    metadata = _dict(found["metadata"], None)
    _check_depth(metadata, DEEPEST)
    if len(_as_json(metadata).encode()) > _MOST_METADATA:
        raise ValueError("metadata")
    blocks: list[Block] = []
    for one in _list(found["blocks"], MOST_BLOCKS):
        blocks.append(_block(one, blocks[-1].end if blocks else 0, len(text)))
    return Document(
        text=text,
        blocks=tuple(blocks),
        title=_text(found["title"], LONGEST_SENTENCE),
        metadata=metadata,
        links=tuple(_link(one, len(text)) for one in _list(found["links"], MOST_LINKS)),
        warnings=tuple(_text(one, LONGEST_SENTENCE) for one in _list(found["warnings"], _MOST_WARNINGS)),
        has_pictures=_is_true(found["pictures"]),
    )


def _block(raw: object, after: int, size: int) -> Block:
    start, end, label, headings, place = _list(raw, 5)
    first = _number(start, after, size)
    return Block(
        start=first,
        end=_number(end, first, size),
        label=_text(label, LONGEST_LABEL),
        headings=tuple(_text(one, LONGEST_LABEL) for one in _list(headings, _MOST_HEADINGS)),
        place=None if place is None else _place(place),
    )


def _place(raw: object) -> Locator:
    kind, name, first, last = _list(raw, 4)
    if kind not in KINDS:
        raise ValueError("the kind of a place")
    begin, end = _number(first, 0, _GREATEST), _number(last, 0, _GREATEST)
    if end and end < begin:
        raise ValueError("the numbers of a place")
    return Locator(kind, _text(name, _LONGEST_NAME), begin, end)


def _link(raw: object, size: int) -> DocumentLink:
    target, at, fragment, text, embed, kind = _list(raw, 6)
    return DocumentLink(
        _text(target, _LONGEST_NAME),
        _number(at, 0, size),
        _text(fragment, _LONGEST_NAME),
        _text(text, _LONGEST_NAME),
        _is_true(embed),
        type_of(_text(kind, LONGEST_TYPE)),
    )


def _dict(value: object, keys: set[str] | None) -> dict[str, Any]:
    """Return a JSON object; with `keys`, one that has exactly these."""
    if not isinstance(value, dict) or (keys is not None and value.keys() != keys):
        raise ValueError("an object")
    return value


def _list(value: object, most: int) -> Sequence[Any]:
    if not isinstance(value, list) or len(value) > most:
        raise ValueError("a list")
    return value


def _text(value: object, longest: int) -> str:
    if not isinstance(value, str) or len(value) > longest:
        raise ValueError("a text")
    value.encode()  # raises UnicodeEncodeError, a ValueError, for a lone surrogate
    return value


def _is_true(value: object) -> bool:
    if type(value) is not bool:
        raise ValueError("yes or no")
    return value


def _number(value: object, least: int, greatest: int) -> int:
    if type(value) is not int or not least <= value <= greatest:
        raise ValueError("a number")
    return value


def _check_depth(value: object, levels: int) -> None:
    """Raise ValueError for values nested more deeply than the code after this can be sure to walk."""
    if levels < 0:
        raise ValueError("nesting")
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for one in inner:
        _check_depth(one, levels - 1)


def _as_json(metadata: Mapping[str, object]) -> str:
    """Return metadata as JSON. Raises ValueError for NaN and infinity, which JSON does not have."""
    return json.dumps(dict(metadata), ensure_ascii=False, allow_nan=False)
