"""Set up structlog: JSON lines for services, columns for a terminal, never a secret."""

from __future__ import annotations

import logging
import sys
import time
from typing import Any

import structlog

from queue_config.visible import visible, visible_json

# A problem that lasts for a day must not fill the disk with its log.
_SAY_AGAIN_SECONDS = 60.0
_SECRET_KEYS = frozenset({"token", "api_key", "authorization", "cookie", "password", "redis_url", "secret"})


def redact(_: object, __: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Replace the value of every key that names a secret, at any depth."""
    return {key: _redacted(key, value) for key, value in event.items()}


def _redacted(key: object, value: Any) -> Any:
    if str(key).lower() in _SECRET_KEYS:
        return "***"
    if isinstance(value, dict):
        return {inner: _redacted(inner, held) for inner, held in value.items()}
    if isinstance(value, list | tuple):
        return [_redacted(None, held) for held in value]
    return value


def _shown(_: object, __: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Escape control characters: logs contain paths and library messages that quote notes."""
    return {key: visible(held) if isinstance(held, str) else held for key, held in event.items()}


def _safe_json(_: object, __: str, line: Any) -> str:
    return visible_json(str(line))


def configure(process: str) -> None:
    """Send this process's logs, and those of the libraries it uses, to standard error."""
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.ExtraAdder(),
        redact,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]
    renderers: list[Any] = (
        [_shown, structlog.dev.ConsoleRenderer()]
        if sys.stderr.isatty()
        else [structlog.processors.JSONRenderer(ensure_ascii=False), _safe_json]
    )
    handler = logging.StreamHandler()
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *renderers],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(logging.INFO)
    # They log a line per task and per request; our own lines say more.
    for chatty in ("huey", "httpx", "sentence_transformers", "watchdog", "uvicorn.access"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    structlog.contextvars.bind_contextvars(process=process)


def hand_over() -> None:
    """Leave the logs of this process, unless they are set up already, to the handlers of `logging` that it has."""
    if not structlog.is_configured():
        structlog.configure(
            processors=[
                structlog.stdlib.filter_by_level,
                redact,
                _shown,
                structlog.processors.format_exc_info,
                structlog.processors.KeyValueRenderer(key_order=["event"]),
            ],
            logger_factory=structlog.stdlib.LoggerFactory(),
            wrapper_class=structlog.stdlib.BoundLogger,
        )


class Trouble:
    """A recurring problem, logged when it begins, once a minute while it lasts, and when it ends.

    `what` is the constant name of the event; `fields` go with each line.
    """

    def __init__(self, what: str, **fields: str) -> None:
        self._what = what
        self._fields = fields
        self._said_at: float | None = None

    def met(self, reason: str) -> None:
        """Record that the problem exists."""
        now = time.monotonic()
        if self._said_at is None or now - self._said_at >= _SAY_AGAIN_SECONDS:
            structlog.get_logger().warning(self._what, reason=reason, **self._fields)
            self._said_at = now

    def over(self) -> None:
        """Record that the problem does not exist, or no longer."""
        if self._said_at is not None:
            structlog.get_logger().info("this is over", trouble=self._what, **self._fields)
            self._said_at = None
