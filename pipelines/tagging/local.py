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

from pipelines.model import Suggestion, TagEntry, Taxonomy
from pipelines.notes.chunk import CJK

# Estimate how likely a tag is in a vault with few tagged notes: by other vaults, corrected by this one's notes.
#
# The evidence for a tag in a note falls into a class, and each class has the share of right proposals that was
# measured in six other vaults. The vault's own tagged notes move that share, as if it had been seen `_WEIGHT` times
# before.


Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Indices = npt.NDArray[np.intp]

FEWEST = 5
"""The tags that fewer notes share say nothing about another note."""
FEWEST_TAGS = 4
"""With fewer tags, one of them gets most votes from the nearest notes, whatever the note."""

_STANDS_OUT = 2.0  # standard deviations by which a tag's text is nearer to a note than to others
_WEIGHT = 10.0
_OF_A_TAGGED_NOTE = 0.5  # its author chose its tags, and rarely forgot one
_SHARES = np.array([0.8, 0.75, 0.65, 0.55, 0.5, 0.7, 0.0])


class Guesses:
    """The chance of each proposal from the class of its evidence. Features are those of `local`."""

    def __init__(self, features: Floats, right: Bools, *, voters: int, tags: int) -> None:
        self._voted = voters >= FEWEST and tags >= FEWEST_TAGS
        classes = self._classes(features)
        seen = np.bincount(classes, minlength=len(_SHARES))
        held = np.bincount(classes[right], minlength=len(_SHARES))
        self._shares = (held + _WEIGHT * _SHARES) / (seen + _WEIGHT)
        self._shares[-1] = 0.0

    def chances(self, features: Floats, *, tagged: bool) -> Floats:
        """Return the chance that each tag is right: for a note without tags, or for what a tagged note lacks."""
        shares: Floats = self._shares[self._classes(features)]
        return shares * _OF_A_TAGGED_NOTE if tagged else shares

    def _classes(self, features: Floats) -> Indices:
        votes, _, described, titled, written, nearest = features.T
        named, near = (titled > 0) | (written > 0), nearest > 0
        stands_out, voted = described >= _STANDS_OUT, (votes >= 0.0) & self._voted
        return np.select(
            [
                named & voted,
                (titled > 0) & near,
                named & near & stands_out,
                named & near,
                named & stands_out,
                near & voted,
            ],
            range(len(_SHARES) - 1),
            len(_SHARES) - 1,
        ).astype(np.intp)


# Turn the evidence for a tag into the chance that it is right, as a vault's own tagged notes show it.


_SUREST = 10  # pairs of a note and a tag that show how completely a vault is tagged
_MOST_FORGOTTEN = 0.3
_NEWTON_STEPS = 15
_ONE_SIDED_90 = 1.2816  # quantiles of the normal distribution
_ONE_SIDED_99 = 2.3263


class Calibration:
    """The chance that a proposal is right, learnt from pairs of a note and a tag whose answer is known.

    Features are (pairs, 6), `right` says which pairs are of a note that has the tag `tags` names. A logistic
    regression (https://en.wikipedia.org/wiki/Logistic_regression) gives a score, isotonic regression
    (https://en.wikipedia.org/wiki/Isotonic_regression) the share of right ones at a score. Of each share the lower
    bound counts (Wilson's, https://en.wikipedia.org/wiki/Binomial_proportion_confidence_interval), so that few
    pairs say little.
    """

    def __init__(self, features: Floats, right: Bools, tags: Indices) -> None:
        self._mean, self._scale = features.mean(axis=0), features.std(axis=0) + 1e-9
        self._weights = _logistic(self._standardised(features), right)
        scores = self._scores(features)
        edges, shares, sizes = _isotonic(scores, right)
        self._edges = edges.ravel()
        self._surely = np.maximum.accumulate(_lower_bound(shares, sizes))
        self._likely = np.maximum.accumulate((shares * sizes + 1.0) / (sizes + 2.0))
        self._missing = _missing(scores, right, tags)

    def chances(self, features: Floats, *, tagged: bool) -> Floats:
        """Return the chance that each pair is right: for a note without tags, or for tags that a tagged note lacks.

        What a tagged note lacks may be forgotten or not meant. Were every tag forgotten as often as the surest
        show, a lacking tag of share s is right with odds s / (1 - s) times (1 - c) / c, c the share that was not
        forgotten (Elkan and Noto, Learning classifiers from only positive and unlabeled data, KDD 2008).
        """
        known = self._likely if tagged else self._surely
        shares: Floats = np.interp(self._scores(features), self._edges, np.repeat(known, 2))
        if not tagged:
            return shares
        odds: Floats = shares / (1.0 - shares) * self._missing / (1.0 - self._missing)
        return odds.clip(0.0, 1.0)

    def _standardised(self, features: Floats) -> Floats:
        return np.column_stack([(features - self._mean) / self._scale, np.ones(len(features))])

    def _scores(self, features: Floats) -> Floats:
        return self._standardised(features) @ self._weights


def _logistic(features: Floats, right: Bools) -> Floats:
    """Return the weights of a logistic regression with an L2 penalty of 1, by Newton's method."""
    weights = np.zeros(features.shape[1])
    for _ in range(_NEWTON_STEPS):
        chance = 1.0 / (1.0 + np.exp(-np.clip(features @ weights, -30.0, 30.0)))
        slope = features.T @ (chance - right) + weights
        curve = (features * (chance * (1.0 - chance))[:, None]).T @ features + np.eye(len(weights))
        weights -= np.linalg.solve(curve, slope)
    return weights


def _isotonic(scores: Floats, right: Bools) -> tuple[Floats, Floats, Floats]:
    """Return blocks by ascending score: its least and largest (blocks, 2), its share of right pairs, its size."""
    order = np.argsort(scores, kind="stable")
    blocks: list[tuple[float, float, float, int]] = []
    for score, hit in zip(scores[order].tolist(), right[order].tolist(), strict=True):
        start, end, hits, size = score, score, float(hit), 1
        while blocks and (blocks[-1][1] == start or blocks[-1][2] * size >= hits * blocks[-1][3]):
            lower = blocks.pop()
            start, hits, size = lower[0], lower[2] + hits, lower[3] + size
        blocks.append((start, end, hits, size))
    found = np.array(blocks)
    return found[:, :2], found[:, 2] / found[:, 3], found[:, 3]


def _lower_bound(share: Floats | float, size: Floats | int, z: float = _ONE_SIDED_90) -> Floats:
    share, size = np.asarray(share, np.float64), np.asarray(size, np.float64)
    spread = z * np.sqrt(share * (1.0 - share) / size + (z / (2.0 * size)) ** 2)
    lower: Floats = (share + z * z / (2.0 * size) - spread) / (1.0 + z * z / size)
    return lower


def _missing(scores: Floats, right: Bools, tags: Indices) -> float:
    """Return the share of tags that were forgotten: of the surest pairs, those whose note lacks the tag.

    Tags forgotten by chance are forgotten alike. So where one tag is hardly ever missing, none was forgotten, and
    what the others lack is not meant. Where too many seem to be, it is the evidence that is weak.
    """
    order = np.argsort(-scores, kind="stable")
    surest = right[order[: max(_SUREST, right.sum() // 4)]]
    # One may lack it for a reason of its own.
    missing = float((~surest).sum() - 1) / surest.size
    for tag in np.unique(tags[right]):
        of = right[order[tags[order] == tag]]
        surest = of[: max(_SUREST, of.sum() // 2)]
        missing = min(missing, 1.0 - float(_lower_bound(surest.mean(), surest.size, _ONE_SIDED_99)))
    return missing if 0.0 < missing <= _MOST_FORGOTTEN else 0.0


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
