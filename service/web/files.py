"""What a note's page embeds: files of the vault, of which nothing runs, and the frame that draws diagrams."""

from __future__ import annotations

import hashlib
import re
from base64 import b64encode
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import BinaryIO
from urllib.parse import quote

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from service.http.errors import FILES, static_address
from service.usecases.notes import OpenFile, open_file
from service.usecases.search import View

_INERT = "default-src 'none'; style-src 'unsafe-inline'; sandbox"
# Chromium's own reader of PDF does not start in a sandbox. It is a page of the browser's, without our origin.
_READER = "default-src 'none'; object-src 'self'; frame-ancestors 'none'"
_HEAD = 1_024  # bytes in which a PDF begins, as readers take it
_PART = 65_536
_RANGE = re.compile(r"bytes=(\d{1,15})-(\d{0,15})")


@dataclass(frozen=True, slots=True)
class _ShownType:
    """A type of file that the browser shows: what its bytes begin with decides, and not only its name."""

    media_type: str
    begins: Callable[[bytes], bool]
    policy: str = _INERT


def _with(*starts: bytes) -> Callable[[bytes], bool]:
    return lambda head: head.startswith(starts)


_JPEG = _ShownType("image/jpeg", _with(b"\xff\xd8\xff"))
_TYPES = {
    ".pdf": _ShownType("application/pdf", lambda head: b"%PDF-" in head, _READER),
    ".png": _ShownType("image/png", _with(b"\x89PNG\r\n\x1a\n")),
    ".jpg": _JPEG,
    ".jpeg": _JPEG,
    ".gif": _ShownType("image/gif", _with(b"GIF87a", b"GIF89a")),
    ".webp": _ShownType("image/webp", lambda head: head[:4] == b"RIFF" and head[8:12] == b"WEBP"),
    ".avif": _ShownType("image/avif", lambda head: head[4:12] in (b"ftypavif", b"ftypavis")),
    ".bmp": _ShownType("image/bmp", _with(b"BM")),
    # A picture may hold scripts and links. As an image a browser runs none; opened by itself, the policy forbids all.
    ".svg": _ShownType("image/svg+xml", lambda _: True),
}
_SAVED = _ShownType("application/octet-stream", lambda _: True)


# The frame of a diagram. It has no origin, so its requests have no cookie and could load nothing from here: its page
# holds its scripts. Mermaid writes style attributes, which the note's own page forbids.


_SCRIPTS = ("vendor/mermaid.tiny.js", "note-diagram.js")
_FRAME = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="color-scheme" content="light dark">
<title>Diagram</title>
<style>body { margin: 0; overflow: hidden; }</style>
</head>
<body></body>
"""


def diagram_address() -> str:
    """Return the address of the frame, with a digest of its scripts."""
    return "/parts/diagram?v=" + "".join(static_address(name).rpartition("=")[2] for name in _SCRIPTS)


def _diagram_frame() -> Response:
    scripts = [(FILES / name).read_text(encoding="utf-8") for name in _SCRIPTS]
    hashes = [b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    allowed = " ".join(f"'sha256-{one}'" for one in hashes)
    policy = (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none';"
        " frame-ancestors 'self'; sandbox allow-scripts"
    )
    headers = {
        "Content-Security-Policy": policy,
        "X-Frame-Options": "SAMEORIGIN",
        "Cache-Control": "private, max-age=31536000, immutable",
    }
    return HTMLResponse(_FRAME + "".join(f"<script>{script}</script>\n" for script in scripts), 200, headers)


def add_files(app: FastAPI, view: View) -> None:
    """Add the routes."""

    @app.get("/parts/diagram", include_in_schema=False)
    def diagram() -> Response:
        """Send the frame in which a note's page draws a diagram."""
        return _diagram_frame()

    @app.get("/files/{path:path}", include_in_schema=False)
    def vault_file(request: Request, path: str) -> Response:
        """Send a file of the vault. A name decides which file, and the vault's rules whether it may be had."""
        found = open_file(view, path)
        head = found.file.read(_HEAD)
        shown = _TYPES.get(PurePosixPath(found.name).suffix.lower(), _SAVED)
        if not shown.begins(head):
            shown = _SAVED
        first, end = _asked_part(request.headers.get("range"), found.size)
        placed = "attachment" if shown is _SAVED else "inline"
        headers = {
            "Content-Security-Policy": shown.policy,
            "Content-Disposition": f"{placed}; filename*=UTF-8''{quote(found.name)}",
            "Content-Length": str(end - first),
            "Accept-Ranges": "bytes",
        }
        if end - first < found.size:
            headers["Content-Range"] = f"bytes {first}-{end - 1}/{found.size}"
        return _PartOfFile(found, first, end, headers, shown.media_type)


def _asked_part(header: str | None, size: int) -> tuple[int, int]:
    """Return where the one part that a request asks for begins and ends; all of the file for any other request."""
    found = _RANGE.fullmatch(header or "")
    if found is None or int(found[1]) >= size:
        return 0, size
    first = int(found[1])
    return first, min(int(found[2]) + 1, size) if found[2] and int(found[2]) >= first else size


class _PartOfFile(StreamingResponse):
    """A part of an open file, which is closed also when the client leaves."""

    def __init__(
        self, found: OpenFile, first: int, end: int, headers: dict[str, str], media_type: str
    ) -> None:
        status = 206 if end - first < found.size else 200
        super().__init__(_read(found.file, first, end), status, headers, media_type)
        self._file = found.file

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        with self._file:
            await super().__call__(scope, receive, send)


def _read(file: BinaryIO, first: int, end: int) -> Iterator[bytes]:
    file.seek(first)
    while first < end and (part := file.read(min(_PART, end - first))):
        yield part
        first += len(part)
