"""Cursors: where an answer continues, sealed so that a client can only give them back.

A cursor carries a code (HMAC) under a key of this vault, over the state and over what was asked. A cursor that was
altered, made up, or taken from another request is refused.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
from typing import Any

from pipelines.errors import CursorError

_CODE = 16
_LONGEST = 1_000
_OTHER = (
    "this cursor does not continue this request: give back the cursor of the last answer, unchanged, with the same "
    "arguments; or leave it out to begin again"
)


def cursor_key(token: str) -> bytes:
    """Return the key that seals a vault's cursors, from its token."""
    return hmac.digest(token.encode(), b"cursor of an agent", hashlib.sha256)


def seal(key: bytes, asked: str, state: dict[str, Any]) -> str:
    """Return the cursor for a state that continues what was asked."""
    text = json.dumps(state, separators=(",", ":"), sort_keys=True).encode()
    return base64.urlsafe_b64encode(_code(key, asked, text) + text).decode().rstrip("=")


def unseal(key: bytes, asked: str, cursor: str) -> dict[str, Any]:
    """Return the state in a cursor. Raises CursorError."""
    try:
        data = base64.b64decode(cursor[:_LONGEST] + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise CursorError(_OTHER) from None
    code, text = data[:_CODE], data[_CODE:]
    if not hmac.compare_digest(code, _code(key, asked, text)):
        raise CursorError(_OTHER)
    state: dict[str, Any] = json.loads(text)
    return state


def _code(key: bytes, asked: str, text: bytes) -> bytes:
    # The length keeps what was asked and the state apart.
    bound = asked.encode(errors="surrogatepass")
    return hmac.digest(key, len(bound).to_bytes(8, "big") + bound + text, hashlib.sha256)[:_CODE]
