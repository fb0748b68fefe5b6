"""The models that embed questions, as far as they are loaded."""

from __future__ import annotations

from collections.abc import Iterable

import structlog

from pipelines.cache.cache import Vector
from pipelines.errors import BadVectorError, ModelUnavailableError
from pipelines.notes import lexical
from pipelines.search.find import SentenceVectors
from pipelines.search.fusion import stage
from workers.resources import Resources

log = structlog.get_logger()


class QuestionModels:
    """The loaded models; `sentences` has the vectors of sentences that each has computed for excerpts."""

    def __init__(self, resources: Resources) -> None:
        self._embedders = resources.embedders
        self._loaded: set[str] = set()
        self.sentences: dict[str, SentenceVectors] = {}

    def has_loaded(self, model: str) -> bool:
        """Say whether the model of that name is ready to embed a question."""
        return model in self._loaded

    def load(self, models: Iterable[str]) -> None:
        """Load those of the models that are missing. Raises ModelUnavailableError."""
        for model in set(models) - self._loaded:
            # One thread: questions come one at a time, and bulk work has the other cores.
            embedder = self._embedders.get(model, threads=1)
            embedder.encode_query("warm up")
            self.sentences[model] = SentenceVectors(embedder.encode_queries)
            self._loaded.add(model)

    def vector(self, model: str, query: str) -> Vector | None:
        """Return a question's vector, or None if the model is not loaded or does not work."""
        if model not in self._loaded:
            return None
        try:
            with stage("encode"):
                # Excluded words would draw the vector towards them.
                return self._embedders.get(model).encode_query(lexical.without_unwanted(query))
        except (BadVectorError, ModelUnavailableError) as error:
            log.warning("a question is searched by its words alone", reason=str(error))
            if not self._embedders.has_loaded(model):
                self._loaded.discard(model)  # `load` loads it again, or says why it cannot
            return None
