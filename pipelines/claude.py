"""What every request to Anthropic's API shares: where it goes, what its answer costs, and why it was refused."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from anthropic import APIStatusError

API = "https://api.anthropic.com"
NEWEST_HAIKU = "claude-haiku-5-5"
_SERVER_ERRORS = 500
_PASSING = (408, 409, 425, 429, 499)
_REMEDIES = {
    400: "check that the model {model} takes structured output, and the account's credit",
    401: "check the API key",
    402: "check the account's credit",
    403: "check what the API key may do",
    404: "check the name of the model, {model}",
    413: "shorten the vocabulary's descriptions",
}


@dataclass(frozen=True, slots=True)
class _Price:
    """US dollars per million tokens; a prompt longer than `long_from` tokens costs five times as much."""

    input: float
    output: float
    long_from: float = math.inf


# https://platform.claude.com/docs/en/models/haiku-5-5/overview and the models overview, read on 2026-11-21.
_PRICES = {
    "claude-haiku-5-5": _Price(0.10, 0.50, 100_000),
    "claude-haiku-4-5": _Price(1.00, 5.00),
    "claude-sonnet-5-5": _Price(2.00, 10.00),
    "claude-opus-5-5": _Price(4.00, 20.00),
}
# An unknown model is charged at the highest price, so that the budget holds in any case.
_DEAREST = _Price(10.00, 50.00)
_CACHE_WRITE, _CACHE_READ = 1.25, 0.10  # multiples of the input price
_LONG = 5.0
_MOST_COUNTED = 10**9  # tokens; no model reads or writes as many


def _price_of(model: str) -> _Price:
    return next((_PRICES[name] for name in _PRICES if model.startswith(name)), _DEAREST)


def dollars_of(model: str, tokens_in: int, tokens_out: int) -> float:
    """Return what so many tokens cost in US dollars, as far as they are known without the API's own count."""
    price = _price_of(model)
    return (price.input * tokens_in + price.output * tokens_out) / 1e6


def cost_of(model: str, usage: Any) -> float:
    """Return the cost of an answer in US dollars, from its token counts."""
    price = _price_of(model)
    written, read = _tokens(usage.cache_creation_input_tokens), _tokens(usage.cache_read_input_tokens)
    asked, said = _tokens(usage.input_tokens), _tokens(usage.output_tokens)
    prompt = asked + written + read
    paid = price.input * (asked + _CACHE_WRITE * written + _CACHE_READ * read)
    paid += price.output * said
    return float(paid * (_LONG if prompt > price.long_from else 1.0) / 1e6)


def _tokens(counted: Any) -> int:
    """Return a token count from the answer, limited so that a wrong one can neither lower nor break the day's cost.

    Raises TypeError.
    """
    if counted is not None and not isinstance(counted, int):
        raise TypeError("a number of tokens is an integer")
    return min(max(counted or 0, 0), _MOST_COUNTED)


class ApiRefusal(NamedTuple):
    """Why a request was refused, for the operator; `passes`: a later try may succeed, after `retry_after` seconds."""

    message: str
    passes: bool = False
    retry_after: float | None = None


def refusal_of(error: APIStatusError, model: str, key: str) -> ApiRefusal:
    """Return what an HTTP status means; it never contains the key."""
    status = error.status_code
    if status in _PASSING or status >= _SERVER_ERRORS:
        message = f"Anthropic's API cannot answer at the moment (HTTP {status}); try again later"
        return ApiRefusal(message, passes=True, retry_after=_retry_after(error.response.headers))
    said = str(error.api_message or "no reason was given").replace(key, "[key]")[:300]
    todo = _REMEDIES.get(status, "see what it says, and correct the settings").format(model=model)
    return ApiRefusal(f"Anthropic's API refused the request (HTTP {status}: {said}); {todo}")


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Return how many seconds `retry-after` asks to wait, from a number or a date (RFC 9110, 10.2.3)."""
    said = headers.get("retry-after", "")
    try:
        seconds = float(said)
    except ValueError:
        try:
            seconds = (parsedate_to_datetime(said).astimezone(UTC) - datetime.now(UTC)).total_seconds()
        except ValueError:
            return None
    return max(0.0, seconds) if math.isfinite(seconds) else None


def encodable(text: str) -> str:
    """Replace lone surrogates, which YAML escapes can create and UTF-8 cannot encode."""
    return text.encode("utf-8", "replace").decode("utf-8")
