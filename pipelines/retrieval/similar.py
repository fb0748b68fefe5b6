"""Find the notes nearest to a note, by the mean of its passages' vectors."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from pipelines.store import passages
from pipelines.store import search as store
from pipelines.store.cache import Cache, Vector


def nearest_notes(
    cache: Cache, vector: Vector, most: int, without: Collection[str], only: Sequence[int] | None = None
) -> list[tuple[str, int, float]]:
    """Return at most `most` notes except `without`, nearest first: path, the nearest chunk's id and its cosine.

    `only`: the chunks that are compared; None: all.
    Searches deeper until there are enough notes, because the chunks of a long note may take all the first places.
    """
    depth = 2 * most
    while True:
        near = store.nearest(cache, vector, depth, only)
        paths = passages.chunk_paths(cache, [chunk_id for chunk_id, _ in near])
        best: dict[str, tuple[str, int, float]] = {}
        for chunk_id, cosine in near:
            path = paths.get(chunk_id)
            if path is not None and path not in without:
                best.setdefault(path, (path, chunk_id, cosine))
        if len(best) >= most or len(near) < depth:
            return list(best.values())[:most]
        depth *= 4
