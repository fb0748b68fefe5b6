"""The endpoints of the settings, and what a process keeps of them besides vectors: use, cost and failures."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress

from pipelines.chat.models import ChatModel, Message, ModelRequest
from pipelines.claude import API
from pipelines.embedding.endpoints import EmbeddingEndpoint, Vectors
from pipelines.embedding.remote import ask_dimension
from pipelines.errors import ChatModelError, ChatOffError, EverindexError
from pipelines.model import EndpointUse, now_iso
from pipelines.state.endpoints import EndpointUses
from pipelines.state.health import Problems
from queue_config.logs import Trouble
from queue_config.settings import ChatSettings, Settings

ENDPOINT = "endpoint"
"""The kind of the problem reported while an endpoint is not used."""


def endpoints_of(settings: Settings, model: str) -> list[EmbeddingEndpoint]:
    """Return the endpoints that serve a model, in the order in which they are tried; none for a model run here."""
    return [
        EmbeddingEndpoint(
            name=one.called,
            url=one.url,
            model=one.model,
            kind=one.protocol,
            key=one.key.get_secret_value() if one.key else "",
            local=one.local,
            usd_per_million_tokens=one.price,
        )
        for one in settings.endpoints_of(model)
    ]


def dimension_of(settings: Settings, model: str) -> int:
    """Return the dimension of a model that endpoints serve: as the settings say, or as one answers.

    Raises ModelUnavailableError.
    """
    said = (one.dimension for one in settings.endpoints_of(model))
    return next(filter(None, said), None) or ask_dimension(model, endpoints_of(settings, model))


class EndpointSpending:
    """What a process spends at endpoints. `uses` returns this thread's connection; `limit` is US dollars per day."""

    def __init__(self, uses: Callable[[], EndpointUses], limit: float) -> None:
        self._uses = uses
        self._limit = limit
        self._unwritten: list[EndpointUse] = []
        self._writing = threading.Lock()
        self._trouble = Trouble("the use of endpoints cannot be recorded; it counts for this process")

    def may_spend(self) -> bool:
        """Say whether the day's limit allows a paid request."""
        try:
            spent = self._uses().dollars(_today())
        except EverindexError:
            return False
        return spent + sum(use.dollars for use in self._unwritten) < self._limit

    def used(self, use: EndpointUse) -> None:
        """Record a request; one that cannot be written is kept for the next time."""
        with self._writing:
            self._unwritten.append(use)
            try:
                while self._unwritten:
                    self._uses().add(_today(), self._unwritten[0])
                    self._unwritten.pop(0)
                self._trouble.over()
            except EverindexError as error:
                self._trouble.met(str(error))


class EndpointBooks(EndpointSpending):
    """What a process keeps of the endpoints that serve a model: `pipelines.embedding.remote.Books`.

    `agreed` is that method. `problems` returns this thread's connection.
    """

    def __init__(
        self,
        agreed: Callable[[Vectors], Vectors],
        uses: Callable[[], EndpointUses],
        problems: Callable[[], Problems],
        limit: float,
    ) -> None:
        super().__init__(uses, limit)
        self.agreed = agreed
        self._problems = problems

    def said(self, endpoint: str, problem: str | None) -> None:
        """Report why an endpoint is not used, or withdraw that."""
        with suppress(EverindexError):  # a full disk is a problem of its own
            if problem is None:
                self._problems().clear(ENDPOINT, endpoint)
            else:
                self._problems().report(ENDPOINT, endpoint, problem)


def _today() -> str:
    return now_iso()[:10]


# The model of conversations.


_A_WORD = 16  # tokens
_NO_CHAT = (
    "no model is named that could answer; set `chat` in the operator's settings, such as"
    ' EVERINDEX_CHAT=\'{"model": "claude-haiku-5-5"}\' with ANTHROPIC_API_KEY, or with the `url` of a server of'
    " OpenAI's shape (Ollama's: http://localhost:11434/v1), and restart"
)


def require_chat(settings: Settings) -> ChatSettings:
    """Return what the settings say of conversations. Raises ChatOffError."""
    if settings.chat is None:
        raise ChatOffError(_NO_CHAT)
    return settings.chat


def chat_model(settings: Settings) -> ChatModel:
    """Return the model that the settings name; its client is loaded now. Raises ChatOffError, ChatModelError."""
    chosen = require_chat(settings)
    if chosen.url is not None:
        from pipelines.chat.openai import OpenAIModel  # noqa: PLC0415 - most vaults have no conversations

        key = chosen.key.get_secret_value() if chosen.key else ""
        return OpenAIModel(
            chosen.model, chosen.url, key=key, local=chosen.local, usd_per_million_tokens=chosen.price
        )
    from pipelines.chat.claude import Claude  # noqa: PLC0415 - likewise

    secret = chosen.key or settings.anthropic_api_key
    if secret is None:
        raise ChatModelError(
            "no key for Claude is set; set `anthropic_api_key` (ANTHROPIC_API_KEY), and restart"
        )
    return Claude(chosen.model, secret.get_secret_value(), base_url=settings.anthropic_base_url or API)


def try_chat(settings: Settings) -> str:
    """Have the model of the settings say a word, and return its name. Raises ChatOffError, ChatModelError."""

    async def ask() -> None:
        model = chat_model(settings)
        try:
            async for _ in model.stream(ModelRequest("Say yes.", [Message("user", "Say yes.")], _A_WORD)):
                pass
        finally:
            await model.close()

    asyncio.run(ask())
    return require_chat(settings).model
