"""Lower the score of passages that say little: lists of links after a note's text, names of notes without text."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pipelines import lexical
from pipelines.retrieval.fusion import Signals, best_first
from pipelines.store.cache import Cache
from pipelines.store.thin import chunks_of_names, later_chunks_with_links

MOSTLY_LINKS = 0.7
"""The minimum share of a passage's characters within links for it to be a list of links."""

_LOSES = 0.3
_ITEM = re.compile(r"\s*(?:[-*+]|\d+[.)])\s+")
_LONGEST_LABEL, _LONGEST_NAME, _PARTICLE = 4, 5, 3  # the last one in letters: van, of, and
_LINK = re.compile(
    r"(?<!!)\[\[[^\[\]\n]*\]\]|(?<!!)\[[^\[\]\n]*\]\((?:[^()\n]|\([^()\n]*\))*\)|https?://[^\s<>()\[\]]+"
)


def share_of_links(text: str) -> float:
    """Return the share of a Markdown text that is links or addresses, ignoring white space and its first heading.

    In a list, a label before a link belongs to it, and items that are names count up to as much as the links do.
    """
    body = text.partition("\n")[2] if text.startswith("#") else text
    links = names = 0
    for line in body.splitlines():
        found, item = list(_LINK.finditer(line)), _ITEM.match(line)
        links += sum(_length(link[0]) for link in found)
        if item and found:
            label = line[item.end() : found[0].start()]
            links += _length(label) if _is_label(label) else 0
        elif item and _is_name(line[item.end() :]):
            names += _length(line)
    whole = _length(body)
    return (links + min(names, links)) / whole if whole else 0.0


def _is_label(text: str) -> bool:
    """Say whether what is before a link only says what it is, as in `Source: [[A note]]`."""
    return text.rstrip(" *_").endswith((":", "\u2013", "\u2014")) and len(text.split()) <= _LONGEST_LABEL


def _is_name(text: str) -> bool:
    words = text.split()
    is_capital = [word.strip("*_(")[:1].isupper() for word in words]
    short = (len(word) <= _PARTICLE for word in words)
    return (
        len(words) <= _LONGEST_NAME and any(is_capital) and all(map(any, zip(is_capital, short, strict=True)))
    )


def _length(text: str) -> int:
    """Return the number of a text's characters without white space."""
    return len("".join(text.split()))


def lessen_thin(cache: Cache, query: str, fused: Sequence[tuple[int, Signals]]) -> list[tuple[int, Signals]]:
    """Lower the score of passages that say little. Raises CacheError.

    The signal `link_list` is for a list of links. A note that begins with such a list is an index and keeps its
    score, as does a list whose note or section the question names. The signal `no_text` is for a chunk that holds
    only names.
    """
    ids = [chunk_id for chunk_id, _ in fused]
    asked = set(lexical.telling_words(query))
    lesser = dict.fromkeys(chunks_of_names(cache, ids), "no_text")
    lesser |= {
        one.chunk_id: "link_list"
        for one in later_chunks_with_links(cache, ids)
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
