"""Layer 2: an author's older notes count less, by their position among the candidates."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from pipelines.model import Decay, NoteFacts
from pipelines.moments import moment_of
from pipelines.retrieval.hit import Hit

_Group = tuple[str, str]


def decay_weights(notes: Iterable[NoteFacts], decay: Decay, root: str = "") -> dict[str, float]:
    """Return the factor of each note's score, by path.

    Notes are grouped by author and ordered by their dates, newest first. The factor is `ladder[position]`, or the
    ladder's last value past its end. A note whose kind is in `kind_overrides` (its `kind`, else its top folder below
    `root`, the domain's own) is grouped by its folder and uses that kind's ladder. A note without an author is its
    own group; an evergreen note has 1.0 and takes no position. Equal dates are ordered by path, and notes without a
    date come last. With `mode: off` every factor is 1.0. The source document's layer 2, "ranked_grouped".
    """
    factors: dict[str, float] = {}
    groups: dict[_Group, list[NoteFacts]] = defaultdict(list)
    ladders: dict[_Group, tuple[float, ...]] = {}
    for note in notes:
        if decay.mode == "off" or note.evergreen:
            factors[note.path] = 1.0
            continue
        group, ladder = _group(note, decay, root)
        groups[group].append(note)
        ladders[group] = ladder
    for group, members in groups.items():
        ladder = ladders[group]
        if len(members) > 1:  # most groups have one note, and parsing dates is slow
            members.sort(key=lambda note: (-_created(note), note.path))
        factors |= {note.path: ladder[min(i, len(ladder) - 1)] for i, note in enumerate(members)}
    return factors


def decay_hits(
    hits: Sequence[Hit], notes: Mapping[str, NoteFacts], decay: Decay, root: str = ""
) -> list[Hit]:
    """Multiply the score of each hit by its note's factor, and return the hits, best first."""
    factors = decay_weights(notes.values(), decay, root)
    decayed = []
    for hit in hits:
        factor = factors[hit.path]
        score = hit.score * factor
        decayed.append(hit.after({"decay": score - hit.score}, decay=factor, decayed=score))
    return sorted(decayed, key=lambda hit: -hit.score)


def _group(note: NoteFacts, decay: Decay, root: str) -> tuple[_Group, tuple[float, ...]]:
    folder, _, _ = note.path.rpartition("/")
    kind = note.kind or note.path.removeprefix(f"{root}/").partition("/")[0]
    override = decay.kind_overrides.get(kind)
    if override:
        return (f"folder of {kind}", folder), override.group_by_path_prefix
    if note.author:
        return ("author", note.author.casefold()), decay.ladder
    return ("note", note.path), decay.ladder


def _created(note: NoteFacts) -> float:
    moment = moment_of(note.created)
    return float("-inf") if moment is None else moment.timestamp()
