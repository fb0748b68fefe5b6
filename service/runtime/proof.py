"""How a service proves to a program that it is the vault's own, before the program sends it the token.

Once a service has ended, any user's program can take its port. So the program first sends a random number, and the
service answers with its HMAC under the token, which both know. The HMAC covers the address that the connection
reached, so an attacker who listens elsewhere and relays the number to the service gets a useless proof.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets

LOOPBACK = "127.0.0.1"
"""The address at which a program reaches the service of its machine."""
PROOF_PATH = "/proof/"
_NONCE = re.compile(r"[0-9a-f]{32}")


def new_nonce() -> str:
    """Return a new random number."""
    return secrets.token_hex(16)


def proof(token: str, nonce: str, host: str, port: int) -> str | None:
    """Return the proof for a number by a service that knows the token, or None if the number is malformed."""
    if not _NONCE.fullmatch(nonce):
        return None
    text = f"everindex service {host}:{port} {nonce}"
    return hmac.new(token.encode(), text.encode(), hashlib.sha256).hexdigest()
