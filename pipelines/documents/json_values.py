"""Parse JSON from an untrusted source."""

from __future__ import annotations

import json

from pipelines.documents.decoding import storable
from pipelines.documents.limits import DEEPEST
from pipelines.errors import DocumentError


def parse_json(path: str, text: str) -> object:
    """Return the value of a file's JSON; characters that cannot be stored are replaced.

    Raises DocumentError if it is not JSON or is nested deeper than 100 levels.
    """
    try:
        return _storable(json.loads(text), 0)
    except RecursionError:
        raise DocumentError(
            f"{path!r} is nested deeper than {DEEPEST} levels; it was probably not saved by its program"
        ) from None
    except json.JSONDecodeError as error:
        raise DocumentError(
            f"{path!r} is not valid JSON (line {error.lineno}, column {error.colno}: {error.msg}); "
            "restore it, or save it again in its program"
        ) from None
    except ValueError as error:  # a number of more than 4,300 digits
        raise DocumentError(f"{path!r} has a number that cannot be read ({error}); shorten it") from None


def _storable(value: object, depth: int) -> object:
    if depth > DEEPEST:
        raise RecursionError
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, list):
        return [_storable(item, depth + 1) for item in value]
    if isinstance(value, dict):
        return {storable(name): _storable(item, depth + 1) for name, item in value.items()}
    return value
