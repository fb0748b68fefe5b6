"""Passages that say little count less: lists of links below a note's text, and the names of notes without text."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pipelines import lexical
from pipelines.retrieval.fusion import Signals, best_first
from pipelines.store import thin as store
from pipelines.store.cache import Cache

MOSTLY_LINKS = 0.7
"""The share of a passage's characters from which on it is a list of links."""

_LOSES = 0.3
_LINK = re.compile(
    r"(?<!!)\[\[[^\[\]\n]*\]\]|(?<!!)\[[^\[\]\n]*\]\((?:[^()\n]|\([^()\n]*\))*\)|https?://[^\s<>()\[\]]+"
)


def share_of_links(text: str) -> float:
    """Return which share of a Markdown text is links or addresses; white space and its first heading do not count."""
    body = text.partition("\n")[2] if text.startswith("#") else text
    whole = len("".join(body.split()))
    links = sum(len("".join(match[0].split())) for match in _LINK.finditer(body))
    return links / whole if whole else 0.0


def lessen_thin(cache: Cache, query: str, fused: Sequence[tuple[int, Signals]]) -> list[tuple[int, Signals]]:
    """Let passages that say little lose a part of their score. Raises CacheError.

    The signal `link_list`: of a list of links. A note that begins with such a list is an index, and keeps its score;
    so does a list whose note or section the question names. The signal `no_text`: of a note's names alone.
    """
    ids = [chunk_id for chunk_id, _ in fused]
    asked = set(lexical.telling_words(query))
    lesser = dict.fromkeys(store.chunks_of_names(cache, ids), "no_text")
    lesser |= {
        one.chunk_id: "link_list"
        for one in store.later_chunks_with_links(cache, ids)
        if share_of_links(one.text) >= MOSTLY_LINKS > share_of_links(one.first)
        and not any(_is_asked(name, asked) for name in (one.title, one.section))
    }
    if not lesser:
        return list(fused)
    return best_first(
        {
            chunk_id: signals
            | ({lesser[chunk_id]: -_LOSES * sum(signals.values())} if chunk_id in lesser else {})
            for chunk_id, signals in fused
        }
    )


def _is_asked(name: str, asked: set[str]) -> bool:
    words = set(lexical.telling_words(name))
    return bool(words) and (words <= asked or asked <= words)
