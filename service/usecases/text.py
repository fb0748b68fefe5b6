"""Counts and times in sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

NO_ANSWER = "Your notes do not seem to say."
"""What an answer says where no note is a clear answer."""

REFINING = "sentences are still being read for meaning, so close notes may change places"
"""What is still going on when every note can be found and its passages have vectors, but not all sentences have."""


def counted(number: int, one: str, many: str = "") -> str:
    """Return a count with its noun: `1 note`, `1,200 notes`. `many` where the plural is not the noun with an s."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def by_format(counts: Mapping[str, int]) -> str:
    """Return how many files have each format: `9 pdf, 4 csv`."""
    return ", ".join(f"{count:,} {name}" for name, count in counts.items())


def added(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Add the counts of all domains, the most frequent format first."""
    total: Counter[str] = Counter()
    for one in counts:
        total.update(one)
    return dict(total.most_common())


def not_asked_for(counts: Mapping[str, int], how: Sequence[str]) -> list[str]:
    """Return lines that say which files could be indexed, by format, and how.

    `counts` as `by_format` takes them, `how` from `pipelines.indexing.status.how_to_index`.
    """
    if not counts:
        return []
    files = counted(sum(counts.values()), "other file")
    return [f"{files} could be indexed: {by_format(counts)}", *(f"  {one}" for one in how)]


def not_indexed(ignored: int, others: Mapping[str, int]) -> str:
    """Say how many files are not indexed: `1 file is ignored and 1 PDF is not indexed`; nothing if there are none."""
    parts = [counted(ignored, "file is ignored", "files are ignored")] if ignored else []
    if others:
        formats = ", ".join(f"{count:,} {name.upper()}" for name, count in others.items())
        parts.append(f"{formats} {'is' if sum(others.values()) == 1 else 'are'} not indexed")
    return " and ".join(parts)


def named_so(file: Mapping[str, Any]) -> str:
    """Say that a file which has the words of a question in its name is not indexed, and why."""
    reason = f": {file['reason']}" if file["reason"] else ""
    return f"{file['path']} is called so, but is {file['state']}{reason}"


_NAMED = 5


def sharing(identity: str, paths: Sequence[str]) -> str:
    """Say which records have one id."""
    more = ", …" if len(paths) > _NAMED else ""
    return f"{counted(len(paths), 'record')} have the id {identity}: {', '.join(paths[:_NAMED])}{more}"


def moment(at: str) -> str:
    """Return an ISO 8601 time to the minute, in this machine's time zone."""
    return datetime.fromisoformat(at).astimezone().strftime("%Y-%m-%d %H:%M")


def second(at: str) -> str:
    """Return an ISO 8601 time to the second, in this machine's time zone."""
    return datetime.fromisoformat(at).astimezone().strftime("%Y-%m-%d %H:%M:%S")


_REMOVED = {"deleted": " (deleted)", "ignored": " (ignored by a rule)", None: ""}


def what_happened(
    action: str, renamed_to: str | None, renamed_from: str | None, reason: str | None = None
) -> str:
    """Return an action of a note's log with the other path of a renamed note: `renamed to Garden/Soil.md`.

    `reason`: why a note was removed, if the log knows it.
    """
    if action == "removed":
        action = f"removed from the index{_REMOVED[reason]}"
    ways = ((renamed_to, "to"), (renamed_from, "from"))
    return action + "".join(f" {way} {path}" for path, way in ways if path)


def as_sum(score: float, signals: Mapping[str, float]) -> str:
    """Return a score as the sum of its signals: `0.9 = meaning 0.5 + words 0.4`."""
    terms = [f"{'−' if value < 0 else '+'} {name} {_plain(abs(value))}" for name, value in signals.items()]
    return f"{_plain(score)} = {' '.join(terms).removeprefix('+ ')}" if terms else _plain(score)


def _plain(value: float) -> str:
    return f"{value:.6f}".rstrip("0").rstrip(".")


def as_phrase(filters: Sequence[Mapping[str, Any]]) -> str:
    """Return the operators of a question in words: `tag work or kind letter, not folder Archive`."""
    words = ""
    for one in filters:
        before = "" if not words else " or " if one["alternative"] else ", "
        sign = "not " if one["negated"] else ""
        words += f"{before}{sign}{one['filter'].removeprefix('property.')} {' or '.join(one['values'])}"
    return words


# What a walk along links made of a note, in words.


_REASONS = {
    "below_prune_threshold": "not near enough",
    "beam_overflow": "nearer notes at this distance came first",
    "decay_zero": "newer notes replace it",
    "no_vector": "not searched by meaning yet",
}
_EDGES = {"citation": "cited in {}", "embed": "embedded in {}", "wikilink": "linked from {}"}
_BACK_EDGES = {"citation": "cites {}", "embed": "embeds {}", "wikilink": "links to {}"}
_REPLACED = "although newer notes replace it"


def nearest_first(nodes: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the notes of a walk by their similarity, the highest first; those that cannot be compared come last."""
    return sorted(nodes, key=lambda node: -(-1.0 if node["similarity"] is None else node["similarity"]))


def way_to(node: Mapping[str, Any], start: str) -> str:
    """Return how a walk came to a note: `2 links away, linked from Garden/Soil.md`; `start` for its first notes."""
    edge = node["edge"]
    if edge is None:
        return start
    back = edge["source"] == node["path"]
    phrase = (_BACK_EDGES if back else _EDGES)[edge["kind"]]
    relation = f" ({edge['relation']})" if edge.get("relation") else ""
    other = edge["target"] if back else edge["source"]
    return f"{counted(node['hop'], 'link')} away, {phrase.format(other)}{relation}"


def why_kept(node: Mapping[str, Any]) -> str:
    """Return why a walk kept a note, if its similarity does not show it; else an empty string."""
    if node["retain_reason"] == "kept_despite_decay_zero":
        return _REPLACED
    weight = node["decay_weight"]
    return "" if weight == 1 else f"counts {weight:.2g} because there are newer notes"


def why_left_out(node: Mapping[str, Any]) -> str:
    """Return why a walk left out a note."""
    return _REASONS[node["drop_reason"]]


def of_types(links: Sequence[dict[str, Any]], types: Collection[str]) -> list[dict[str, Any]]:
    """Return those of a note's links that have one of these types, as people write them; all without types."""
    from pipelines.notes.links import types_of  # noqa: PLC0415 - rapidfuzz is slow to load

    wanted = types_of(types)
    return [one for one in links if not types or one.get("type") in wanted]
