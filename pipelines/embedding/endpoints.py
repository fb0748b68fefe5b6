"""One request to a server that embeds, by OpenAI's `/v1/embeddings` or Ollama's `/api/embed`, and its answer."""

from __future__ import annotations

import json
import logging
import math
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from pipelines.errors import EndpointError, EndpointSlowError

if TYPE_CHECKING:
    import httpx2  # takes 60 ms, and only a vault with endpoints needs it

_BYTES_PER_NUMBER = 32
_BYTES_BESIDE = 100_000
_MOST_NUMBERS = 16_384  # of a vector whose dimension is not known yet
_CHARACTERS_PER_TOKEN = 4
_MOST_TOKENS = 10**9  # no answer costs as many
_LONGEST_RETRY_AFTER = 3600.0
_PASSING = (408, 409, 425, 429)
_SERVER_ERRORS = 500
_OF_THE_TEXTS = (400, 413, 422)  # and what a server's error may be about
_REMEDIES = {
    301: "correct its url, as redirections are not followed",
    401: "check its key",
    402: "check the account's credit",
    403: "check what its key may do",
    404: "check its url and model",
}

Vectors = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class EmbeddingEndpoint:
    """A server that the operator's settings name. `model` is what that server calls the model.

    `url` is the one of OpenAI's clients (`https://api.openai.com/v1`), or Ollama's (`http://localhost:11434`).
    `local`: private notes may go there.
    """

    name: str
    url: str
    model: str
    kind: Literal["openai", "ollama"] = "openai"
    key: str = field(default="", repr=False)
    local: bool = False
    usd_per_million_tokens: float = 0.0


@dataclass(frozen=True, slots=True)
class EmbeddingAnswer:
    """The vectors as they came, one per text, and the tokens that were counted."""

    vectors: Vectors
    tokens: int


def connection(endpoint: EmbeddingEndpoint) -> httpx2.Client:
    """Return a client that sends texts to the endpoint's own address alone, whatever the environment says."""
    import httpx2  # noqa: PLC0415 - likewise

    # At info level it logs addresses.
    logging.getLogger("httpx2").setLevel(logging.WARNING)
    headers = {"Accept-Encoding": "identity"} | (
        {"Authorization": f"Bearer {endpoint.key}"} if endpoint.key else {}
    )
    return httpx2.Client(headers=headers, follow_redirects=False, trust_env=False)


def embed(
    client: httpx2.Client,
    endpoint: EmbeddingEndpoint,
    texts: Sequence[str],
    dimension: int | None,
    seconds: float,
) -> EmbeddingAnswer:
    """Send texts and return the answer. Raises EndpointError."""
    import httpx2  # noqa: PLC0415 - likewise

    # Lone surrogates, which YAML escapes can create, have no bytes in UTF-8.
    plain = [text.encode("utf-8", "replace").decode("utf-8") for text in texts]
    path = "/embeddings" if endpoint.kind == "openai" else "/api/embed"
    asked: dict[str, Any] = {"model": endpoint.model, "input": plain}
    if endpoint.kind == "openai":
        asked["encoding_format"] = "float"
    most = _BYTES_BESIDE + len(texts) * (dimension or _MOST_NUMBERS) * _BYTES_PER_NUMBER
    try:
        body = _read(client, endpoint.url.rstrip("/") + path, asked, most, seconds)
    except httpx2.TimeoutException:
        raise EndpointSlowError(seconds) from None
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError, RuntimeError) as error:  # the last: it is closed
        raise EndpointError(f"no answer ({type(error).__name__})", passing=True) from None
    try:
        return _parsed(endpoint, json.loads(body), plain)
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise EndpointError(f"an answer that cannot be read ({type(error).__name__})") from None


def _read(client: httpx2.Client, url: str, asked: Mapping[str, Any], most: int, seconds: float) -> bytes:
    """Return the body of a good answer, of at most `most` bytes."""
    until = time.monotonic() + seconds
    with client.stream("POST", url, json=asked, timeout=seconds) as response:
        status = response.status_code
        if status != HTTPStatus.OK:
            todo = _REMEDIES.get(301 if response.is_redirect else status)
            raise EndpointError(
                f"HTTP {status}" + (f"; {todo}" if todo else ""),
                passing=status in _PASSING or status >= _SERVER_ERRORS,
                of_texts=status in _OF_THE_TEXTS or status >= _SERVER_ERRORS,
                retry_after=_retry_after(response.headers),
            )
        body = bytearray()
        for part in response.iter_raw():
            body += part
            if len(body) > most:
                raise EndpointError(f"an answer of more than {most // 1_000_000 + 1} MB")
            if time.monotonic() > until:
                raise EndpointSlowError(seconds)
    return bytes(body)


def _parsed(endpoint: EmbeddingEndpoint, said: Any, texts: Sequence[str]) -> EmbeddingAnswer:
    """Return an answer's vectors in the order of the texts.

    Raises EndpointError, ValueError, TypeError, LookupError, AttributeError.
    """
    if endpoint.kind == "openai":
        rows = [row["embedding"] for row in sorted(said["data"], key=lambda row: row["index"])]
        tokens = (said.get("usage") or {}).get("total_tokens")
    else:
        rows, tokens = said["embeddings"], said.get("prompt_eval_count")
    if len(rows) != len(texts):
        raise EndpointError(f"{len(rows)} vectors for {len(texts)} texts")
    if any(isinstance(row[0], list) for row in rows):
        raise EndpointError(
            "a vector per token; start it with pooling (`--pooling mean`), or with another model"
        )
    # A server may write what is no number as null.
    numbers = [[math.nan if number is None else number for number in row] for row in rows]
    vectors = np.array(numbers, np.float64)
    if vectors.ndim != 2 or not vectors.shape[1]:  # noqa: PLR2004 - texts and numbers
        raise EndpointError("vectors of different lengths")
    if not isinstance(tokens, int) or isinstance(tokens, bool) or not 0 < tokens <= _MOST_TOKENS:
        tokens = sum(map(estimate_tokens, texts))
    with np.errstate(over="ignore"):
        return EmbeddingAnswer(vectors.astype(np.float32), tokens)


def _retry_after(headers: Mapping[str, str]) -> float:
    """Return how many seconds `retry-after` asks to wait, from a number or a date; 0 if it does not."""
    said = headers.get("retry-after", "")
    seconds = 0.0
    with suppress(ValueError):
        seconds = (parsedate_to_datetime(said).astimezone(UTC) - datetime.now(UTC)).total_seconds()
    with suppress(ValueError):
        seconds = float(said)
    return min(max(0.0, seconds), _LONGEST_RETRY_AFTER) if math.isfinite(seconds) else 0.0


def estimate_tokens(text: str) -> int:
    """Return about how many tokens a text has: one per four characters, at least one."""
    return max(1, -(-len(text) // _CHARACTERS_PER_TOKEN))
