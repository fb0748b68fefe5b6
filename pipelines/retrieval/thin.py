"""Lower the score of passages that say little: lists of links after a note's text, names of notes without text."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pipelines import lexical
from pipelines.retrieval.fusion import Signals, best_first
from pipelines.store import thin as store
from pipelines.store.cache import Cache

MOSTLY_LINKS = 0.7
"""The minimum share of a passage's characters within links for it to be a list of links."""

_LOSES = 0.3
_LINK = re.compile(
    r"(?<!!)\[\[[^\[\]\n]*\]\]|(?<!!)\[[^\[\]\n]*\]\((?:[^()\n]|\([^()\n]*\))*\)|https?://[^\s<>()\[\]]+"
)


def share_of_links(text: str) -> float:
    """Return the share of a Markdown text that is links or addresses, ignoring white space and its first heading."""
    body = text.partition("\n")[2] if text.startswith("#") else text
    whole = len("".join(body.split()))
    links = sum(len("".join(match[0].split())) for match in _LINK.finditer(body))
    return links / whole if whole else 0.0


def lessen_thin(cache: Cache, query: str, fused: Sequence[tuple[int, Signals]]) -> list[tuple[int, Signals]]:
    """Lower the score of passages that say little. Raises CacheError.

    The signal `link_list` is for a list of links. A note that begins with such a list is an index and keeps its
    score, as does a list whose note or section the question names. The signal `no_text` is for a chunk that holds
    only names.
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
