"""Tags proposed without leaving the machine: what similar notes and the folder's have, and what tags say.

`calibration` turns the evidence for a tag into a confidence, learnt from the vault's own tagged notes, each left out
while it is judged. Where these are few, `guesses` judges the evidence.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pipelines.chunk import CJK
from pipelines.model import Suggestion, TagEntry, Taxonomy
from pipelines.tagging.calibration import Calibration
from pipelines.tagging.guesses import FEWEST, FEWEST_TAGS, Bools, Floats, Guesses, Indices

Vector = npt.NDArray[np.float32]

THRESHOLD, GUESSED = 0.7, 0.5
"""The least chance of a proposal that was learnt, and of one that is guessed, unless the domain has a threshold."""

MOST = 5
FEWEST_TAGGED = 20  # with fewer there is nothing to calibrate on
_JUDGED = 1_000  # tagged notes to calibrate on: shares are known to within 2 %, and fitting takes a second
_NEIGHBOURS = 12
_WELL_KNOWN = 50  # tagged notes from which what was learnt of a tag is better than any guess
_WARMTH = 0.1  # of the neighbours' weights, in cosine
_BELIEF = 2.0  # a tag's share of all notes counts like this many notes of a folder
_DESCRIBED = 5  # the tags with the nearest texts are weighed, whichever notes have them
_READ = 4_000  # characters of a note that are searched for the names of tags
_WORD = re.compile(rf"[{CJK}]|[^\W_{CJK}]+")
_INLINE_TAG = re.compile(r"(?<!\S)#\S+")
_VOTES, _FOLDER, _DESCRIPTION, _IN_TITLE, _IN_TEXT, _NEAREST = range(6)


@dataclass(frozen=True, slots=True, eq=False)
class EmbeddedNote:
    """A note as it is weighed: `text` is its body without frontmatter, `vector` the mean of its chunks'.

    The vector is float32 of unit length, or None where the note has no text.
    """

    path: str
    title: str
    text: str
    vector: Vector | None
    tags: tuple[str, ...] = ()


def tag_text(entry: TagEntry) -> str:
    """Return the text of a tag that is embedded: its name in words, its other names, what it means."""
    names = ", ".join(" ".join(_WORD.findall(name)) or name for name in (entry.tag, *entry.aliases))
    return f"{names}. {entry.description}" if entry.description else names


class LocalProposer:
    """Proposes a vocabulary's active tags for the notes of a domain; `fit` makes it."""

    def __init__(self, evidence: _Evidence, guesses: Guesses, calibration: Calibration | None) -> None:
        self._evidence = evidence
        self._guesses = guesses
        self._calibration = calibration

    @classmethod
    def fit(
        cls, taxonomy: Taxonomy, notes: Sequence[EmbeddedNote], tag_vectors: Mapping[str, Vector]
    ) -> LocalProposer:
        """Learn from a domain's notes; those without a tag of the vocabulary only show what is usual.

        `tag_vectors` has the unit vector of each active tag's `tag_text`. It takes about a second at 10,000 notes
        of 384 dimensions.
        """
        active = [entry for entry in taxonomy.entries if entry.status == "active"]
        evidence = _Evidence(active, notes, tag_vectors)
        tags, features, right = evidence.leave_one_out()
        one_sided = evidence.is_one_sided(of=len(notes))
        guesses = Guesses(features, right, voters=0 if one_sided else len(evidence.notes), tags=len(active))
        if len(evidence.notes) < FEWEST_TAGGED or one_sided:
            return cls(evidence, guesses, None)
        return cls(evidence, guesses, Calibration(features, right, tags))

    def propose(self, note: EmbeddedNote, threshold: float | None = None) -> tuple[Suggestion, ...]:
        """Return at most five tags that the note lacks, the likeliest first; none where none is likely."""
        has = self._evidence.indices(note.tags)
        tags, features = self._evidence.weigh(note)
        chances, least = self._guesses.chances(features, tagged=has.size > 0), np.full(len(tags), GUESSED)
        if self._calibration is not None:
            learnt = self._calibration.chances(features, tagged=has.size > 0)
            guessed = (learnt < THRESHOLD) & (chances >= GUESSED) & (len(self._evidence.notes) < _WELL_KNOWN)
            known = (self._evidence.counts[tags] > 0) & ~guessed
            chances[known], least[known] = learnt[known], THRESHOLD
        likely = np.flatnonzero((chances >= (threshold or least)) & ~np.isin(tags, has))
        best = likely[np.lexsort((tags[likely], -chances[likely]))][:MOST]
        return tuple(Suggestion(self._evidence.names[tags[i]], float(chances[i])) for i in best)


class _Evidence:
    """The evidence for a tag in a note: the tags of similar notes and of its folder's, the tag's text and name.

    `counts` has the tagged notes of each tag. Features are float64 (tags, 6): log odds of the share of similar
    notes and of the folder's that have the tag; by how many standard deviations its text is nearer than to other
    notes; whether its name is in the title, in the text; whether no other tag's text is nearer.
    """

    def __init__(
        self, active: Sequence[TagEntry], notes: Sequence[EmbeddedNote], tag_vectors: Mapping[str, Vector]
    ) -> None:
        self.names = [entry.tag for entry in active]
        self._index = {name.casefold(): i for i, entry in enumerate(active) for name in entry.aliases}
        self._index |= {name.casefold(): i for i, name in enumerate(self.names)}
        self._phrases = _phrases(active)
        has = [self.indices(note.tags) for note in notes]
        self.notes = [note for note, tags in zip(notes, has, strict=True) if tags.size]
        self._has = [tags for tags in has if tags.size]
        self.counts = self._count(range(len(self.notes)))
        folders: dict[str, list[int]] = {}
        for i, note in enumerate(self.notes):
            folders.setdefault(_folder(note), []).append(i)
        self._folders = {folder: (len(of), self._count(of)) for folder, of in folders.items()}
        self._placed = np.array([i for i, note in enumerate(self.notes) if note.vector is not None], np.intp)
        self._vectors = _stack(note.vector for note in self.notes)
        self._texts = _stack(tag_vectors[name] for name in self.names)
        every = _stack(note.vector for note in notes)
        closeness = every @ self._texts.T if every.size and self._texts.size else np.zeros((1, len(active)))
        least = 1e-6 if len(every) >= FEWEST else np.inf
        self._usual, self._spread = closeness.mean(axis=0), closeness.std(axis=0) + least

    def _count(self, notes: Iterable[int]) -> Floats:
        tags = [self._has[i] for i in notes]
        found = np.concatenate(tags) if tags else np.zeros(0, np.intp)
        return np.bincount(found, minlength=len(self.names)).astype(np.float64)

    def is_one_sided(self, of: int) -> bool:
        """Say whether few tags are in use, and not on most of this many notes.

        Then tagged notes tell which of these tags a note has, but not whether it has any.
        """
        return bool(np.count_nonzero(self.counts) < FEWEST_TAGS) and len(self.notes) < THRESHOLD * of

    def indices(self, tags: Iterable[str]) -> Indices:
        """Return the places in the vocabulary of those tags that it has, by their names or other names."""
        found = {self._index[tag.casefold()] for tag in tags if tag.casefold() in self._index}
        return np.array(sorted(found), np.intp)

    def leave_one_out(self) -> tuple[Indices, Floats, Bools]:
        """Weigh tagged notes as if each had come without its tags: tags, features, whether the note has the tag."""
        if not self.notes:
            return np.zeros(0, np.intp), np.zeros((0, _NEAREST + 1)), np.zeros(0, np.bool_)
        judged = np.unique(np.linspace(0, len(self.notes) - 1, _JUDGED).astype(int))
        place = {int(note): at for at, note in enumerate(self._placed)}
        # One product of matrices is ten times faster than a thousand of a matrix and a vector.
        closeness = self._vectors[[place[i] for i in judged if i in place]] @ self._vectors.T
        rows = iter(closeness)
        found = []
        for i in judged:
            row = None
            if i in place:
                row = next(rows)
                row[place[i]] = -np.inf
            tags, features = self._features(self.notes[i], row, self._has[i])
            found.append((tags, features, np.isin(tags, self._has[i])))
        tags, features, right = (np.concatenate(part) for part in zip(*found, strict=True))
        return tags, features, right

    def weigh(self, note: EmbeddedNote) -> tuple[Indices, Floats]:
        """Return the tags for which anything speaks, and their features; the note's own tags are not used."""
        row = None if note.vector is None or not self._vectors.size else self._vectors @ note.vector
        return self._features(note, row, np.zeros(0, np.intp))

    def _features(self, note: EmbeddedNote, row: Vector | None, left_out: Indices) -> tuple[Indices, Floats]:
        """Weigh a note by its closeness to the tagged notes; `left_out` are its own tags if it is one of them."""
        own = np.bincount(left_out, minlength=len(self.names))
        notes, tagged = len(self.notes) - bool(left_out.size), self.counts - own
        usual = tagged / max(1, notes)
        votes = usual if row is None else self._votes(row)
        size, counts = self._folders.get(_folder(note), (0, np.zeros(len(self.names))))
        counts = counts - own if left_out.size else counts
        share = (counts + _BELIEF * usual) / (max(0, size - bool(left_out.size)) + _BELIEF)
        described = np.zeros(len(self.names))
        nearest = np.zeros(0, np.intp)
        if note.vector is not None and self._texts.size:
            closeness = self._texts @ note.vector
            described = (closeness - self._usual) / self._spread
            nearest = np.argsort(-closeness, kind="stable")[:_DESCRIBED]
        titled, written = self._named(note.title), self._named(_INLINE_TAG.sub(" ", note.text[:_READ]))
        voted = np.zeros(0, np.intp) if row is None else np.flatnonzero(votes)
        tags = np.unique(np.concatenate([voted, np.flatnonzero(counts), nearest, titled, written]))
        flags = [np.isin(tags, which) for which in (titled, written, nearest[:1])]
        columns = [_log_odds(votes[tags]), _log_odds(share[tags]), described[tags], *flags]
        return tags, np.column_stack(columns).astype(np.float64)

    def _votes(self, row: Vector) -> Floats:
        """Return the share of each tag among the most similar tagged notes, weighted by similarity."""
        near = np.argpartition(-row, min(_NEIGHBOURS, len(row)) - 1)[:_NEIGHBOURS]
        near = near[np.isfinite(row[near])]
        if not near.size:
            return np.zeros(len(self.names))
        weights = np.exp((row[near] - row[near].max()) / _WARMTH).astype(np.float64)
        having = [self._has[i] for i in self._placed[near]]
        shared = np.repeat(weights, [len(tags) for tags in having])
        votes: Floats = np.bincount(np.concatenate(having), shared, len(self.names)) / weights.sum()
        return votes

    def _named(self, text: str) -> Indices:
        """Return the tags whose name, or its last part, or another name occurs in a text as whole words."""
        padded = _padded(text)
        found = {
            tag
            for word in set(padded.split())
            for phrase, tag in self._phrases.get(word, ())
            if phrase in padded
        }
        return np.array(sorted(found), np.intp)


def _phrases(active: Sequence[TagEntry]) -> dict[str, list[tuple[str, int]]]:
    """Return what tags are called, with their places, by first word; a single character is no name."""
    phrases: dict[str, list[tuple[str, int]]] = {}
    for i, entry in enumerate(active):
        for name in (entry.tag.rpartition("/")[2], *entry.aliases):
            phrase = _padded(name)
            if len(phrase.strip()) > 1:
                phrases.setdefault(phrase.split()[0], []).append((phrase, i))
    return phrases


def _padded(text: str) -> str:
    return f" {' '.join(_WORD.findall(text.casefold()))} "


def _folder(note: EmbeddedNote) -> str:
    return note.path.rpartition("/")[0]


def _stack(vectors: Iterable[Vector | None]) -> Vector:
    found = [vector for vector in vectors if vector is not None]
    return np.stack(found) if found else np.zeros((0, 0), np.float32)


def _log_odds(share: Floats) -> Floats:
    return np.log((share + 0.01) / (1.01 - share))
