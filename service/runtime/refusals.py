"""Turn a running service's refusals into the errors that the use cases raise, so that messages are the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipelines import errors
from pipelines.errors import (
    EverindexError,
    FilterError,
    NotComparableError,
    NoteNotFoundError,
    NotFoundError,
    ServiceError,
    WorkerTimeoutError,
)

_ERRORS: dict[int, type[EverindexError]] = {
    400: ServiceError,
    404: NotFoundError,
    409: NotComparableError,
    422: FilterError,
    504: WorkerTimeoutError,
}


def standing_of(known: Mapping[str, Any]) -> str:
    """Return the state of a path, and what to do about it, as a sentence; `known` is the answer of `why`."""
    reason = f": {known['reason']}" if known["reason"] else ""
    state = "a folder" if known["state"] == "folder" else known["state"]
    cure = f"; {known['cure']}" if known.get("cure") else ""
    return f"{known['path']} is {state}{reason}{cure}"


def refusal(address: str, status: int, detail: Any, name: object = None) -> EverindexError:
    """Return the error that the service at an address answered with; `name` is its class, where it said so."""
    if isinstance(detail, Mapping) and {"path", "state", "reason"} <= detail.keys():
        return NoteNotFoundError(standing_of(detail), detail)
    kind = getattr(errors, name, None) if isinstance(name, str) else None
    if isinstance(kind, type) and issubclass(kind, EverindexError) and kind is not NoteNotFoundError:
        # Without `__init__`: the message is whole already.
        return kind.__new__(kind, str(detail))
    if status in _ERRORS:
        return _ERRORS[status](str(detail))
    return ServiceError(f"the service at {address} answered {status}: {detail}")
