"""How a service proves to a program that it is the vault's own, before the program sends it the token.

A port is free for every user once its service has ended. So the program sends a random number first; the service
answers with an HMAC of it under the token, which both know. The address that the connection reached is part of it: a
stranger who listens elsewhere and passes the number on to the service gets a proof that is of no use to him.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets

PROOF_PATH = "/proof/"
_NONCE = re.compile(r"[0-9a-f]{32}")


def new_nonce() -> str:
    """Return a number that was never used before."""
    return secrets.token_hex(16)


def proof(token: str, nonce: str, host: str, port: int) -> str | None:
    """Return what a service that knows the token answers to a number, or None where it is no such number."""
    if not _NONCE.fullmatch(nonce):
        return None
    text = f"everindex service {host}:{port} {nonce}"
    return hmac.new(token.encode(), text.encode(), hashlib.sha256).hexdigest()
