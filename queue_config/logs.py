"""structlog set-up: JSON lines for services, columns for a terminal, secrets never."""

from __future__ import annotations

import logging
import sys
from typing import Any

import structlog

_SECRET_KEYS = frozenset({"token", "api_key", "authorization", "cookie", "password", "redis_url", "secret"})


def redact(_: object, __: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Replace the value of every key that names a secret, however deep it lies."""
    return {key: _redacted(key, value) for key, value in event.items()}


def _redacted(key: object, value: Any) -> Any:
    if str(key).lower() in _SECRET_KEYS:
        return "***"
    if isinstance(value, dict):
        return {inner: _redacted(inner, held) for inner, held in value.items()}
    if isinstance(value, list | tuple):
        return [_redacted(None, held) for held in value]
    return value


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
    renderer: Any = (
        structlog.dev.ConsoleRenderer()
        if sys.stderr.isatty()
        else structlog.processors.JSONRenderer(ensure_ascii=False)
    )
    handler = logging.StreamHandler()
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(logging.INFO)
    # A line a task and a line a request; ours say more.
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
