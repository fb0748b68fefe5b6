"""The vectors of sentences as signed bytes: which are pending, how they are stored, and how a question reads them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from pipelines.store.cache import Cache
from pipelines.store.connection import row, transaction
from pipelines.store.connection import rows as select

Quantized = npt.NDArray[np.int8]
"""Vectors with one signed byte per dimension; the column is named `codes`, as FAISS calls them."""


def owes_sentences(cache: Cache) -> bool:
    """Say whether there is a text whose sentences have no vectors yet."""
    return row(cache.con, f"{_OWED} LIMIT 1") is not None


def owed_texts(cache: Cache, most: int) -> dict[str, str]:
    """Return up to `most` texts whose sentences have no vectors yet, by hash."""
    return dict(select(cache.con, f"{_OWED} LIMIT ?", (most,)))


# A text that no chunk has any more is not embedded: it only waits for its vector's grace period to end.
_OWED = (
    "SELECT s.text_hash, (SELECT text FROM vault_chunk c WHERE c.text_hash = s.text_hash) FROM vault_sentence s"
    " WHERE s.codes IS NULL AND EXISTS (SELECT 1 FROM vault_chunk c WHERE c.text_hash = s.text_hash)"
)


def keep_quantized(cache: Cache, quantized: Mapping[str, Quantized]) -> None:
    """Store the quantized vectors of texts' sentences by text hash: shape (sentences, dimension)."""
    with transaction(cache.con):
        cache.con.executemany(
            "UPDATE vault_sentence SET codes = ? WHERE text_hash = ?",
            ((matrix.tobytes(), text_hash) for text_hash, matrix in quantized.items()),
        )


def quantized_of_chunks(cache: Cache, ids: Sequence[int]) -> dict[int, Quantized]:
    """Return the quantized vectors of chunks' sentences by chunk id, without unprepared ones.

    Shape: (sentences, dimension).
    """
    found = select(
        cache.con,
        "SELECT c.id, s.codes FROM vault_chunk c JOIN vault_sentence s USING (text_hash)"
        " WHERE c.id IN (SELECT value FROM json_each(?)) AND length(s.codes) % ? = 0",
        (json.dumps(list(ids)), cache.meta.dimension),
    )
    return {
        chunk_id: np.frombuffer(blob, np.int8).reshape(-1, cache.meta.dimension) for chunk_id, blob in found
    }
