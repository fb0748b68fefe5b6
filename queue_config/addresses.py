"""Addresses that settings give: whether they can be used, and used safely."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

_REDIS_SCHEMES = ("redis", "rediss", "unix")


def is_of_redis(url: str) -> bool:
    """Say whether a URL is an address of Redis."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in _REDIS_SCHEMES and (parts.port is None or parts.port > 0)
    except ValueError:
        return False
    return usable


def is_encrypted(url: str) -> bool:
    """Say whether a URL is an HTTPS address without a user's name, or an HTTP address on this machine."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme == "https" or (parts.scheme == "http" and _is_this_machine(parts.hostname))
        usable = usable and bool(parts.hostname) and parts.username is None and (parts.port or 1) > 0
    except ValueError:
        return False
    return usable and url.isprintable() and " " not in url


def _is_this_machine(host: str | None) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host or "").is_loopback
    except ValueError:
        return False
