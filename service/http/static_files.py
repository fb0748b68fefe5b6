"""Style sheets, scripts and the icon: their addresses change with their bytes, so that a browser may keep them."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from importlib.resources import files
from pathlib import Path

from starlette.datastructures import QueryParams
from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

_FOLDER = ("service.dashboard", "static")
_WORKER = "graph-layout.js"
# A web worker follows the policy of its script, not of the page: this lets it load our other scripts.
_WORKER_POLICY = "default-src 'none'; script-src 'self'"
_DIGITS = 12


def static_address(name: str) -> str:
    """Return the address of a file, with a digest of its bytes."""
    return f"/static/{name}?v={_digest(name)}"


class Static(StaticFiles):
    """Serves the files. A browser may keep one that it asked for by its present digest for a year."""

    def __init__(self) -> None:
        super().__init__(packages=[_FOLDER])

    async def get_response(self, path: str, scope: Scope) -> Response:
        """Return a file; the map's worker with the policy that it needs."""
        response = await super().get_response(path, scope)
        if path == _WORKER:
            response.headers["Content-Security-Policy"] = _WORKER_POLICY
        if QueryParams(scope["query_string"]).get("v") == _digest(path):
            response.headers["Cache-Control"] = "private, max-age=31536000, immutable"
        return response


def _digest(name: str) -> str:
    path = Path(str(files(_FOLDER[0]) / _FOLDER[1])) / name
    stat = path.stat()
    return _digest_of(path, stat.st_mtime_ns, stat.st_size)


@lru_cache
def _digest_of(path: Path, _modified: int, _size: int) -> str:
    """Return the digest of a file's bytes. The other arguments make a changed file another one."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:_DIGITS]
