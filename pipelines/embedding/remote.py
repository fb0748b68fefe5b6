"""Embed texts by a chain of endpoints that serve one model.

Every batch carries a probe, a fixed sentence whose vector the index keeps: a server with another model is found out
before any of its vectors is used.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt

from pipelines.embedding.endpoints import EmbeddingEndpoint, Vectors, connection, embed, estimate_tokens
from pipelines.embedding.models import CLOSE_ENOUGH, QUESTIONS_KEPT, ModelInfo, prefixes_of
from pipelines.errors import (
    BadVectorError,
    CacheError,
    EndpointError,
    EndpointSlowError,
    ModelUnavailableError,
)
from pipelines.model import EndpointUse

if TYPE_CHECKING:
    import httpx2

PROBES = (
    "The garden needs water in a dry summer.",
    "Das Schiff verlässt den Hafen am frühen Morgen.",
    "Interest rates, 2.5 %: what a loan costs each year.",
)
"""Sentences that identify a model by their vectors. Never change them: each index keeps the vectors."""

BATCH = 64
"""The most texts of one request."""

DOCUMENT_SECONDS = 30.0
QUESTION_SECONDS = 2.0
"""How long a request may take, and how long a question waits for its vector in all."""

RETRY_SECONDS = (5.0, 15.0)
"""The pauses before a request that failed is sent to the same server again."""

FIRST_CLOSED_SECONDS, LONGEST_CLOSED_SECONDS = 30.0, 600.0
"""How long an endpoint is not used after it failed: at first, and at most, doubled with each failure."""

_PROBE_SECONDS = 10.0
_LONGEST_WAIT = 30.0  # seconds that a batch waits because a server asks for it
_SLOW_QUESTIONS = 3  # in a row that got no answer in time, after which an endpoint is closed
_QUESTIONS_AT_ONCE = 8
_WINDOW = 512  # tokens; what the smallest of the usual models reads
_SHORTEST = 500  # characters; a text that is refused for its length is not cut further


class Books(Protocol):
    """What a process keeps of its endpoints beside the vectors. Several threads may call it."""

    def agreed(self, probes: Vectors) -> Vectors:
        """Return the vectors of PROBES that the index keeps; these, if it has none yet. Raises CacheError."""

    def may_spend(self) -> bool:
        """Say whether the day's limit allows a paid request."""

    def used(self, use: EndpointUse) -> None:
        """Record a request."""

    def said(self, endpoint: str, problem: str | None) -> None:
        """Report why an endpoint is not used, or with None that it is."""


def describe_remote(name: str, dimension: int) -> ModelInfo:
    """Return what is known of a model that endpoints serve; its prefixes are those of its family."""
    return ModelInfo(name, Path(), dimension, _WINDOW, *prefixes_of(name))


def ask_dimension(name: str, endpoints: Sequence[EmbeddingEndpoint]) -> int:
    """Return how many numbers a vector of a model has, by the first endpoint that answers.

    Raises ModelUnavailableError.
    """
    reasons = []
    for endpoint in endpoints:
        with connection(endpoint) as client:
            try:
                answer = embed(client, endpoint, PROBES[:1], None, DOCUMENT_SECONDS)
                return int(answer.vectors.shape[1])
            except EndpointError as failure:
                reasons.append(f"{endpoint.name}: {failure}")
    raise ModelUnavailableError(
        f"no endpoint of the model {name} answers ({'; '.join(reasons)}), so how long its vectors are is not known;"
        " start one, or give `dimension` in its settings"
    )


# The chain.


@dataclass(slots=True)
class _Link:
    """An endpoint in a chain, and how it does. `most`: texts per request, fewer for a server that is slow."""

    endpoint: EmbeddingEndpoint
    client: httpx2.Client
    is_open: bool = False
    closed_until: float = -math.inf
    failures: int = 0
    slow_questions: int = 0
    most: int = BATCH
    reason: str = "it was not asked yet"
    again: str = ""


class RemoteEmbedder:
    """A model that a chain of endpoints serves; it has the methods of `Embedder`. Several threads may use it.

    The first endpoint that can be used embeds. One that failed is closed for a while, then tried again. `is_broken`
    says that none is open; `connect` opens what can be opened.
    """

    warning: str | None = None

    def __init__(
        self,
        info: ModelInfo,
        endpoints: Sequence[EmbeddingEndpoint],
        books: Books,
        *,
        clock: Callable[[], float] = time.monotonic,
        wait: Callable[[float], object] | None = None,
    ) -> None:
        """Make a chain, in the order in which endpoints are tried; nothing is sent yet."""
        self.info = info
        self._books = books
        self._clock = clock
        self._closed = threading.Event()
        self._wait = wait or self._closed.wait
        self._links = [_Link(endpoint, connection(endpoint)) for endpoint in endpoints]
        self._changing = threading.Lock()
        self._turn = count()
        self._probes: Vectors = np.zeros((0, info.dimension), np.float32)
        self._questions = ThreadPoolExecutor(_QUESTIONS_AT_ONCE, "question")
        self._vector_of_question = lru_cache(QUESTIONS_KEPT)(self._answer_in_time)

    def close(self) -> None:
        """Close the connections that are kept alive; nothing waits to try again from then on."""
        self._closed.set()
        self._questions.shutdown(wait=False, cancel_futures=True)
        for link in self._links:
            link.client.close()

    @property
    def is_broken(self) -> bool:
        """Whether no endpoint is open."""
        return not any(link.is_open for link in self._links)

    @property
    def has_local(self) -> bool:
        """Whether an endpoint is open that private notes may go to."""
        return any(link.is_open for link in self._links if link.endpoint.local)

    @property
    def device(self) -> str:
        """The name of the endpoint that embeds."""
        return next((link.endpoint.name for link in self._links if link.is_open), "no endpoint")

    @property
    def precision(self) -> str:
        """How it computes, as text for people."""
        return "as the server computes"

    @property
    def probes(self) -> Vectors:
        """The vectors of PROBES by which endpoints are admitted; empty before the first was."""
        return self._probes

    def use_threads(self, threads: int) -> None:
        """Ignore the number of threads: the server has its own."""

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Return an estimate of the tokens of each text: one per four characters, at least one."""
        return [estimate_tokens(text) for text in texts]

    def connect(self) -> None:
        """Try each endpoint that is not open and whose time has come.

        Raises ModelUnavailableError if none is open then, CacheError.
        """
        for link in self._links:
            self._admit(link, DOCUMENT_SECONDS)
        if self.is_broken:
            raise ModelUnavailableError(self._why_none(self._links))

    def encode_documents(self, texts: Sequence[str], *, private: bool = False) -> Vectors:
        """Encode texts with the model's prefix of passages: shape (len(texts), dimension), unit length.

        `private`: by endpoints that are marked `local` alone. It may take minutes. Raises BadVectorError if a text is
        the cause, ModelUnavailableError, CacheError.
        """
        return self._encode([self.info.passage_prefix + text for text in texts], private=private)

    def encode_queries(self, queries: Sequence[str]) -> Vectors:
        """Encode sentences as questions, by endpoints that are marked `local` alone.

        Elsewhere each sentence of a vault would be sent and paid for. Raises as `encode_documents`.
        """
        return self._encode([self.info.query_prefix + query for query in queries], private=True)

    def encode_query(self, query: str) -> Vectors:
        """Encode one question with the model's prefix of questions, in 2 s: shape (dimension,), read-only.

        The vectors of recent questions are kept. Raises BadVectorError, ModelUnavailableError.
        """
        return self._vector_of_question(self.info.query_prefix + query)

    def _encode(self, texts: Sequence[str], *, private: bool) -> Vectors:
        out = np.zeros((len(texts), self.info.dimension), np.float32)
        for start in range(0, len(texts), BATCH):
            out[start : start + BATCH] = self._by_chain(texts[start : start + BATCH], private=private)
        return out

    def _by_chain(self, texts: Sequence[str], *, private: bool) -> Vectors:
        links = [link for link in self._links if link.endpoint.local or not private]
        bad: BadVectorError | None = None
        for link in links:
            self._admit(link, DOCUMENT_SECONDS)
            if not link.is_open or not self._affords(link):
                continue
            try:
                return self._patiently(link, texts, RETRY_SECONDS)
            except EndpointError as failure:
                self._shut(link, failure)
            except BadVectorError as error:
                bad = error  # another server may embed it
        if bad is not None:
            raise bad
        raise ModelUnavailableError(self._why_none(links))

    def _patiently(self, link: _Link, texts: Sequence[str], pauses: Sequence[float]) -> Vectors:
        """Return the vectors of a batch, after pauses if need be, and in parts if the server takes no more.

        Raises EndpointError, and BadVectorError for a text that the server cannot embed though it embeds a probe.
        """
        for pause in (*pauses, None):
            if len(texts) > link.most:
                break
            try:
                return self._ask(link, texts, DOCUMENT_SECONDS)
            except EndpointError as failure:
                if failure.of_texts and self._answers(link):
                    if isinstance(failure, EndpointSlowError):
                        link.most = max(1, len(texts) // 2)
                    break
                wait = math.inf if pause is None else max(pause, failure.retry_after)
                if not failure.passing or wait > _LONGEST_WAIT:
                    raise
                self._wait(wait)
                if not link.is_open:
                    raise  # another thread found that it is of no use
        return self._in_parts(link, texts)

    def _in_parts(self, link: _Link, texts: Sequence[str]) -> Vectors:
        half = len(texts) // 2
        if half:
            return np.concatenate([self._patiently(link, part, ()) for part in (texts[:half], texts[half:])])
        (text,) = texts
        if len(text) <= _SHORTEST:
            raise BadVectorError(
                f"the endpoint {link.endpoint.name} embeds other texts, and not one of this note; shorten it"
            )
        # A model on this machine reads the beginning of a long text, too.
        return self._patiently(link, [text[: len(text) // 2]], ())

    def _answers(self, link: _Link) -> bool:
        """Say whether a server embeds a probe correctly by itself."""
        try:
            self._ask(link, [], _PROBE_SECONDS)
        except EndpointError:
            return False
        return True

    def _ask(self, link: _Link, texts: Sequence[str], seconds: float) -> Vectors:
        """Return the unit vectors of texts by one request. Raises EndpointError, BadVectorError."""
        at = next(self._turn) % len(PROBES)
        vectors = self._counted(link, [PROBES[at]], texts, seconds)
        self._compare(vectors[:1], self._probes[at : at + 1])
        found = vectors[1:]
        bad = np.flatnonzero(~_are_usable(found))
        if len(bad) == 1 and len(texts) == 1:
            raise BadVectorError(
                f"the endpoint {link.endpoint.name} returned a vector that is zero or not finite; it was not used"
            )
        if len(bad) == 1:
            (one,) = bad
            found[one] = self._ask(link, [texts[int(one)]], seconds)[0]
        elif len(bad):
            raise EndpointError(f"{len(bad)} of {len(texts)} vectors that are zero or not finite")
        if texts:
            link.failures = 0
        return _unit(found)

    def _counted(self, link: _Link, probes: Sequence[str], texts: Sequence[str], seconds: float) -> Vectors:
        """Return the vectors of probes and texts as they came, of the right dimension; the request is counted."""
        endpoint, usable, tokens = link.endpoint, False, 0
        try:
            answer = embed(link.client, endpoint, [*probes, *texts], self.info.dimension, seconds)
            tokens = answer.tokens
            if answer.vectors.shape[1] != self.info.dimension:
                raise EndpointError(
                    f"vectors of {answer.vectors.shape[1]} numbers, and the index has {self.info.dimension}: it"
                    " serves another model"
                )
            usable = True
            return answer.vectors
        finally:
            paid = tokens * endpoint.usd_per_million_tokens / 1e6
            done = len(texts) if usable else 0
            self._books.used(EndpointUse(endpoint.name, 1, int(not usable), done, tokens, paid))

    def _compare(self, found: Vectors, known: Vectors) -> None:
        cosine = float((_known(found) * known).sum(axis=1).min())
        if cosine < CLOSE_ENOUGH:
            raise EndpointError(
                f"other vectors than those of the index (cosine {cosine:.3f} for a known sentence): it serves another"
                " model; correct it, or give it another name in `serves`"
            )

    # Opening and closing

    def _admit(self, link: _Link, seconds: float) -> None:
        """Open an endpoint that is closed and whose time has come, if its vectors are those of the index.

        Raises CacheError.
        """
        if link.is_open or self._clock() < link.closed_until:
            return
        try:
            found = self._counted(link, PROBES, (), seconds)
            self._probes = self._books.agreed(_known(found))
            self._compare(found, self._probes)
        except EndpointError as failure:
            self._shut(link, failure)
            return
        with self._changing:
            link.is_open, link.slow_questions, link.most = True, 0, BATCH
        self._books.said(link.endpoint.name, None)

    def _affords(self, link: _Link) -> bool:
        """Say whether the day's limit allows a request; if not, close the endpoint until midnight, UTC."""
        if not link.endpoint.usd_per_million_tokens or self._books.may_spend():
            return True
        now = datetime.now(UTC)
        midnight = (now + timedelta(days=1)).replace(hour=0, minute=0, second=0, microsecond=0)
        limit = EndpointError("the day's limit is reached (the setting `usd_a_day`)")
        self._shut(link, limit, (midnight - now).total_seconds())
        return False

    def _shut(self, link: _Link, failure: EndpointError, seconds: float | None = None) -> None:
        """Close an endpoint, for longer each time that it fails before it has embedded anything."""
        with self._changing:
            if self._clock() < link.closed_until:
                return  # threads that asked at once failed together
            link.failures += 1
            if seconds is None:
                doubled = FIRST_CLOSED_SECONDS * 2.0 ** min(link.failures - 1, 9)
                seconds = max(min(doubled, LONGEST_CLOSED_SECONDS), failure.retry_after)
            link.is_open, link.closed_until, link.reason = False, self._clock() + seconds, str(failure)
            link.again = f"{datetime.now(UTC) + timedelta(seconds=seconds):%H:%M:%S} UTC"
        self._books.said(
            link.endpoint.name,
            f"the endpoint {link.endpoint.name} is not used ({link.reason}); it is tried again at {link.again}",
        )

    def _why_none(self, links: Sequence[_Link]) -> str:
        if not links:
            return f"no endpoint of the model {self.info.name} is marked `local: true`"
        reasons = [
            f"{link.endpoint.name}: {link.reason}" + (f", again at {link.again}" if link.again else "")
            for link in links
        ]
        return f"no endpoint of the model {self.info.name} can be used ({'; '.join(reasons)})"

    # Questions

    def _answer_in_time(self, text: str) -> Vectors:
        """Return the vector of a question. Not even a name that cannot be resolved makes it wait longer."""
        until = self._clock() + QUESTION_SECONDS
        future = self._questions.submit(self._vector_in, text, until)
        try:
            vector = future.result(QUESTION_SECONDS)
        except TimeoutError:
            raise ModelUnavailableError(f"no endpoint answered within {QUESTION_SECONDS:.0f} s") from None
        except CacheError as error:
            raise ModelUnavailableError(str(error)) from error
        vector.flags.writeable = False  # all who ask the same question get this array
        return vector

    def _vector_in(self, text: str, until: float) -> Vectors:
        reasons: list[str] = []
        for link in self._in_order():
            left = until - self._clock()
            if left <= 0:
                break
            self._admit(link, left)
            left = until - self._clock()
            if not link.is_open or not self._affords(link) or left <= 0:
                continue
            try:
                vectors = self._ask(link, [text], left)
            except EndpointError as failure:
                reasons.append(f"{link.endpoint.name}: {failure}")
                link.slow_questions += isinstance(failure, EndpointSlowError)
                if not isinstance(failure, EndpointSlowError) or link.slow_questions >= _SLOW_QUESTIONS:
                    self._shut(link, failure)
            else:
                link.slow_questions = 0
                return np.asarray(vectors[0], np.float32)
        raise ModelUnavailableError("; ".join(reasons) or self._why_none(self._links))

    def _in_order(self) -> Iterator[_Link]:
        """Yield the open endpoints, and only if there are none those to try: a question has no time for them."""
        yield from [link for link in self._links if link.is_open] or self._links


def _are_usable(vectors: Vectors) -> npt.NDArray[np.bool_]:
    return np.asarray(np.isfinite(vectors).all(axis=1) & vectors.any(axis=1), np.bool_)


def _known(vectors: Vectors) -> Vectors:
    """Return the vectors of probes at unit length. Raises EndpointError."""
    if not _are_usable(vectors).all():
        raise EndpointError("vectors of known sentences that are zero or not finite")
    return _unit(vectors)


def _unit(vectors: Vectors) -> Vectors:
    exact = vectors.astype(np.float64)
    lengths = np.linalg.norm(exact, axis=1, keepdims=True)
    return np.asarray(exact / np.where(lengths > 0, lengths, 1), np.float32)
