"""The vectors of texts, which outlive the chunks that have them for a while, and arithmetic on unit vectors.

A second model's are beside those of the cache's own.
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterable, Mapping, Sequence

import apsw
import numpy as np
import numpy.typing as npt

from pipelines.cache.passages import Quantized
from pipelines.cache.schema import CacheMeta
from pipelines.errors import BadVectorError
from pipelines.sqlite import Connection, first, one, select, transaction

KEPT = "kept"
"""The `error_kind` of a row whose note must not leave this machine, which has nothing to embed it with."""

VECTOR_GRACE_SECONDS = 7 * 24 * 3600.0
Vector = npt.NDArray[np.float32]

_LARGEST_DEAD_SHARE = 0.5
# The length of a float32 unit vector with a few thousand dimensions is off by less than a hundredth of this.
_LENGTH_TOLERANCE = 1e-3


class SqlVectors:
    """The vectors of a cache by the hashes of their texts, on its connection."""

    def __init__(self, con: Connection, meta: CacheMeta) -> None:
        self._con = con
        self._meta = meta

    def of(self, hashes: Iterable[str]) -> dict[str, Vector]:
        """Return the stored vectors among these text hashes."""
        return {
            text_hash: np.frombuffer(blob, "<f4")
            for text_hash, blob in select(
                self._con,
                "SELECT text_hash, embedding FROM vault_vector"
                " WHERE text_hash IN (SELECT value FROM json_each(?))",
                (json.dumps(list(hashes)),),
            )
        }

    def has_any(self) -> bool:
        """Say whether a vector is stored."""
        return first(self._con, "SELECT 1 FROM vault_vector LIMIT 1") is not None

    def store(self, vectors: Mapping[str, Vector]) -> None:
        """Store vectors by the hashes of their texts. Raises BadVectorError, and then stores none of them."""
        rows = [(text_hash, self._blob(vector), time.time()) for text_hash, vector in vectors.items()]
        with transaction(self._con):
            # A vector counts as unused until a chunk refers to it, so a worker that dies leaves nothing behind
            # for good.
            self._con.executemany("INSERT INTO vault_vector VALUES (?, ?, ?) ON CONFLICT DO NOTHING", rows)

    def probes(self) -> list[Vector]:
        """Return the vectors of the sentences that identify the model; none for one that ran on this machine.

        None, too, if one is damaged: then the model has to be taken for another.
        """
        found = select(self._con, "SELECT embedding FROM vault_probe ORDER BY position")
        if any(not isinstance(blob, bytes) or len(blob) != 4 * self._meta.dimension for (blob,) in found):
            return []
        return [np.frombuffer(blob, "<f4") for (blob,) in found]

    def keep_probes(self, probes: Sequence[Vector]) -> list[Vector]:
        """Let these identify the model, unless there are vectors by now; return those that do.

        Raises BadVectorError.
        """
        rows = [(position, self._blob(vector)) for position, vector in enumerate(probes)]
        if not self.probes():
            with transaction(self._con):
                if not first(self._con, "SELECT 1 FROM vault_vector UNION ALL SELECT 1 FROM vault_probe"):
                    self._con.executemany("INSERT INTO vault_probe VALUES (?, ?)", rows)
        return self.probes()

    def _blob(self, vector: Vector) -> bytes:
        if vector.shape != (self._meta.dimension,) or not (np.isfinite(vector).all() and vector.any()):
            raise BadVectorError(
                f"the model {self._meta.model} returned a vector of shape {vector.shape} that is not "
                f"{self._meta.dimension} finite numbers, or is zero; it was not stored"
            )
        return vector.astype("<f4").tobytes()

    def count(self) -> int:
        """Count the texts that have a vector, those that no chunk has any more included."""
        (count,) = one(self._con, "SELECT count(*) FROM vault_vector")
        return int(count)

    def drop_unused(self) -> int:
        """Delete the vectors without a chunk for longer than the grace period, and free room; return how many."""
        with transaction(self._con):
            self._con.execute(
                "DELETE FROM vault_vector WHERE unused_since < ?", (time.time() - VECTOR_GRACE_SECONDS,)
            )
            dropped = self._con.changes()
        self.reclaim()
        return dropped

    def pending_texts(self, path: str, most: int) -> dict[str, str]:
        """Return up to `most` of a note's texts, below their contexts, that have no stored vector, by hash."""
        sql = (
            "SELECT c.text_hash, coalesce(c.context || '\n', '') || c.text FROM vault_chunk c"
            " LEFT JOIN vault_vector v USING (text_hash)"
            " WHERE c.path = ? AND c.has_vector = 0 AND v.text_hash IS NULL LIMIT ?"
        )
        return dict(select(self._con, sql, (path, most)))

    def pending(self, besides: Collection[str] = ()) -> int:
        """Count the chunks whose vectors are pending, without those of parked and kept notes and of `besides`."""
        (count,) = one(
            self._con,
            "SELECT count(*) FROM vault_chunk WHERE has_vector = 0"
            f" AND path NOT IN (SELECT path FROM vault_file WHERE parked = 1 OR error_kind = '{KEPT}')"
            " AND path NOT IN (SELECT value FROM json_each(?))",
            (json.dumps(list(besides)),),
        )
        return int(count)

    # Reclaim the space that deleted vectors leave in `vault_chunk_vec`.
    #
    # sqlite-vec stores vectors in blocks, fills only the newest block, and frees a block when its last vector is
    # deleted. Without this, the index of a vault that is edited for a year would consist mostly of holes, which each
    # search reads.

    def reclaim(self) -> int:
        """Move the vectors out of the emptiest blocks while more than half of the space is unused.

        Return how many blocks were emptied, one short transaction each. Raises CacheError.
        """
        if not isinstance(self._con, apsw.Connection):
            return 0  # PostgreSQL reuses room by itself
        emptied = 0
        while (block := self._block_to_empty()) is not None:
            self._empty(block)
            emptied += 1
        return emptied

    def _block_to_empty(self) -> int | None:
        """Return the block with the fewest vectors, except for the block that is being filled."""
        blocks = select(
            self._con,
            "SELECT b.chunk_id, b.size, count(r.rowid) FROM vault_chunk_vec_chunks b"
            " LEFT JOIN vault_chunk_vec_rowids r USING (chunk_id) GROUP BY b.chunk_id ORDER BY b.chunk_id",
        )
        room = sum(size for _, size, _ in blocks[:-1])
        alive = sum(count for _, _, count in blocks[:-1])
        if not room or 1 - alive / room <= _LARGEST_DEAD_SHARE:
            return None
        return int(min(blocks[:-1], key=lambda block: block[2])[0])

    def _empty(self, block: int) -> None:
        with transaction(self._con):
            ids = select(self._con, "SELECT rowid FROM vault_chunk_vec_rowids WHERE chunk_id = ?", (block,))
            for (chunk_id,) in ids:
                found = first(
                    self._con, "SELECT embedding FROM vault_chunk_vec WHERE chunk_id = ?", (chunk_id,)
                )
                if found:
                    self._con.execute("DELETE FROM vault_chunk_vec WHERE chunk_id = ?", (chunk_id,))
                    self._con.execute("INSERT INTO vault_chunk_vec VALUES (?, ?)", (chunk_id, found[0]))


# The vectors by a second model, which ranks the best notes again.


_WANTED = "SELECT value FROM vault_meta WHERE key = 'second_model'"
# As for sentences: a text that no chunk has any more only waits for its vector's grace period to end.
_PENDING = (
    "SELECT text_hash, text FROM (SELECT s.text_hash, (SELECT coalesce(c.context || '\n', '') || c.text"
    " FROM vault_chunk c WHERE c.text_hash = s.text_hash LIMIT 1) AS text FROM vault_second s"
    " WHERE s.codes IS NULL) pending WHERE text IS NOT NULL LIMIT ?"
)


class SqlSecondVectors:
    """The vectors of a cache's texts by a second model, on its connection; a text's go when its own vector does."""

    def __init__(self, con: Connection) -> None:
        self._con = con

    def want(self, model: str | None) -> None:
        """Have all texts with a vector wait for one by this model; None: by no model. What is stored stays."""
        if first(self._con, _WANTED) == (None if model is None else (model,)):
            return
        with transaction(self._con):
            self._con.execute("DELETE FROM vault_second WHERE codes IS NULL")
            self._con.execute("DELETE FROM vault_meta WHERE key = 'second_model'")
            if model is not None:
                self._con.execute("INSERT INTO vault_meta VALUES ('second_model', ?)", (model,))
                self._con.execute(
                    "INSERT INTO vault_second (text_hash, model) SELECT text_hash, ? FROM vault_vector WHERE true"
                    " ON CONFLICT DO NOTHING",
                    (model,),
                )

    def pending(self, most: int) -> dict[str, str]:
        """Return up to `most` texts, below their contexts, that wait for the wanted model, by hash."""
        return dict(select(self._con, _PENDING, (most,)))

    def hashes_pending(self) -> list[str]:
        """Return the hashes of all texts that wait for the wanted model."""
        found = select(self._con, "SELECT text_hash FROM vault_second WHERE codes IS NULL")
        return [text_hash for (text_hash,) in found]

    def keep(self, model: str, quantized: Mapping[str, Quantized]) -> None:
        """Store vectors of texts by their hashes; an empty one says that the model has none for the text."""
        with transaction(self._con):
            self._con.executemany(
                "UPDATE vault_second SET codes = ? WHERE text_hash = ? AND model = ?",
                ((vector.tobytes(), text_hash, model) for text_hash, vector in quantized.items()),
            )

    def of_chunks(self, model: str, ids: Sequence[int]) -> dict[int, Quantized]:
        """Return the vectors of chunks by id, without unprepared ones; empty: the model has none for the text."""
        found = select(
            self._con,
            "SELECT c.id, s.codes FROM vault_chunk c JOIN vault_second s USING (text_hash)"
            " WHERE c.id IN (SELECT CAST(value AS BIGINT) FROM json_each(?)) AND s.model = ? AND s.codes IS NOT NULL",
            (json.dumps(list(ids)), model),
        )
        return {chunk_id: np.frombuffer(blob, np.int8) for chunk_id, blob in found}

    def of(self, model: str, hashes: Collection[str]) -> dict[str, Quantized]:
        """Return the vectors of texts by hash, without unprepared and empty ones."""
        found = select(
            self._con,
            "SELECT text_hash, codes FROM vault_second"
            " WHERE text_hash IN (SELECT value FROM json_each(?)) AND model = ? AND length(codes) > 0",
            (json.dumps(list(hashes)), model),
        )
        return {text_hash: np.frombuffer(blob, np.int8) for text_hash, blob in found}


# Arithmetic on unit vectors.


def mean_vector(vectors: Sequence[Vector]) -> Vector | None:
    """Return the mean of unit vectors at unit length; None if there are none, or if they cancel each other out."""
    if not vectors:
        return None
    mean: Vector = np.stack(vectors).mean(axis=0)
    length = np.float32(np.linalg.norm(mean))
    return mean / length if length else None


def is_unit(vector: Vector) -> bool:
    """Say whether a vector has length 1, as every stored one; damage seldom leaves that as it was."""
    with np.errstate(all="ignore"):
        return bool(abs(np.linalg.norm(vector) - 1) <= _LENGTH_TOLERANCE)
