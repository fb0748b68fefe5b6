"""Gather the candidates of a block: passages of the notes that match, and of the notes linked with these."""

from __future__ import annotations

import heapq
import threading
from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise
from pathlib import PurePosixPath

import numpy as np

from pipelines.cache.passages import ChunkRow, Quantized
from pipelines.cache.vectors import Vector
from pipelines.context.block import Tokens, boilerplate_share, repeated_lines, says_nothing
from pipelines.context.candidates import Candidate, whole_section
from pipelines.context.compress import Aim, CompressionMode, best_part, compress
from pipelines.errors import CacheError
from pipelines.formats import format_of
from pipelines.notes.frontmatter import line_starts
from pipelines.question import Question
from pipelines.search.ablation import Way, as_it_is
from pipelines.search.excerpts import split_sentences
from pipelines.search.fusion import Found
from pipelines.search.rank import Source
from pipelines.search.thresholds import Match, is_noise, scaled
from pipelines.store import Cache
from service.usecases.paging import Page
from service.usecases.search import View
from service.usecases.status import on_disk

NOTES = 24
"""How many notes of a search give sections."""

_MOST_NOTES, _TOKENS_PER_NOTE = 100, 60
_NEAREST = 3  # notes, where none is an answer
_AROUND = 20  # passages before and after the best one of a note
_GAP = 20  # characters of white space between two passages of a section; more: one between them is missing
_SECTIONS = 3  # of a note
_AT_MOST = 0.99  # of the best passage's relevance: the search chose that one, also where another is nearer
_LITTLE = 1e-6
_NEAR = 0.8  # a section's cosine as a share of the best one's
_LINKING, _COMPARED, _LINKED = 10, 40, 12  # the best notes whose links count; notes at their other ends
_MANY, _SEVERAL, _ONE = 3, 2, 1
_OF_TOP, _OF_UPPER_QUARTER, _OF_ONE = 0.9, 0.7, 0.5


@dataclass(slots=True)
class Gathered:
    """The passages that a question gives: by matching, and along links; and by what they were found.

    `warnings` says which domain could not be asked and why. `rows` are the stored passages of each note, `scores`
    those of the notes that match, best first, `hidden` the notes of each domain that the asker must not see.
    """

    page: Page
    matching: list[Candidate] = field(default_factory=list)
    further: list[Candidate] = field(default_factory=list)
    linked: list[Candidate] = field(default_factory=list)
    stale: dict[tuple[str, str], bool | None] = field(default_factory=dict)
    rows: dict[tuple[str, str], list[ChunkRow]] = field(default_factory=dict)
    scores: dict[tuple[str, str], float] = field(default_factory=dict)
    hidden: dict[str, frozenset[str]] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    @property
    def match(self) -> Match | None:
        """How near the best note is; None if that is unknown."""
        return self.page.match


def most_notes(budget: int) -> int:
    """Return how many notes may have a passage in a block: more than fit, and at most 100."""
    return min(max(NOTES, budget // _TOKENS_PER_NOTE), _MOST_NOTES)


def gather(
    view: View,
    question: Question,
    *,
    notes: int = NOTES,
    beyond: bool = False,
    without: Collection[str] = (),
    slot: str | None = None,
    way: Way = as_it_is,
) -> Gathered:
    """Search, and return the passages of the answers and of their neighbours, `without` some notes.

    `beyond`: the notes that are no answers give a passage each, too. Where no note is an answer, the three nearest
    give passages. `way`: see `View.page`. Raises DomainNotFoundError.
    """
    page = view.page(question, notes + len(without), way=way)
    gathered = Gathered(page, warnings=[f"{slug}: {why}" for slug, why in page.ranked.failed.items()])
    shown = [one.first for one in page.shown if one.first.chunk.path not in without]
    first = {(one.first.domain, one.first.hit.path) for one in page.answers or page.shown[:_NEAREST]}
    answers = [one for one in shown if beyond or (one.domain, one.hit.path) in first][:notes]
    gathered.stale = {(one.domain, one.hit.path): one.stale for one in answers}
    # Notes of several domains are in an order that their scores alone do not give.
    scores = accumulate((one.hit.score for one in answers), min)
    gathered.scores = {(one.domain, one.hit.path): score for one, score in zip(answers, scores, strict=True)}
    for slug, source in page.ranked.sources.items():
        own = [one for one in answers if one.domain == slug]
        if not own or slug in page.ranked.failed:
            continue
        try:
            with source.cache.snapshot():
                hidden = view.audience.hidden(slug)  # it may have grown since the search
                gathered.hidden[slug] = hidden
                own = [one for one in own if one.hit.path not in hidden]
                found = _matching(source, own, gathered, slot)
                gathered.matching += [one for one in found if one.note in first]
                gathered.further += [one for one in found if one.note not in first]
                skipped = {*without, *hidden, *(one.hit.path for one in own), *source.domain.configuration}
                gathered.linked += _linked(view, source, own, skipped, gathered, slot)
        except CacheError as error:
            gathered.warnings.append(f"{slug}: {error}")
    return gathered


def _matching(
    source: Source, found: Sequence[Found], gathered: Gathered, slot: str | None
) -> list[Candidate]:
    """Return the sections of the best notes that match, each with its passages, and of others their best passage."""
    best = {one.hit.path: one for one in found[:NOTES]}
    rows = _rows(source, [one.hit.chunk_id for one in best.values()], gathered)
    near = scaled(
        source.cache.meta.model, _cosines(source, [row.chunk_id for own in rows.values() for row in own])
    )
    days = {path: day for path, _, day in source.cache.filters.facets([one.hit.path for one in found])}
    candidates: list[Candidate] = []
    for one in found:
        note, day = (one.domain, one.hit.path), days.get(one.hit.path, "")
        score = gathered.scores[note]
        if one.hit.path in best:
            candidates += _sections(one, rows.get(one.hit.path, []), near, score, day, slot)
        elif not _says_nothing(one.chunk):
            candidates.append(candidate_of(one.domain, one.chunk, day, score, why_found(one), slot))
            gathered.rows[note] = [one.chunk]
    return candidates


def _rows(source: Source, ids: Sequence[int], gathered: Gathered) -> dict[str, list[ChunkRow]]:
    """Return the stored passages around some, by path, without those that the filters exclude."""
    allowed = None if source.only is None else set(source.only)
    found = {
        path: [row for row in rows if allowed is None or row.chunk_id in allowed]
        for path, rows in source.cache.passages.chunks_around(ids, _AROUND).items()
    }
    gathered.rows |= {(source.domain.slug, path): rows for path, rows in found.items()}
    return found


def _cosines(source: Source, ids: Sequence[int]) -> dict[int, float]:
    return {} if source.vector is None else source.cache.search.cosines(source.vector, ids)


def _sections(
    one: Found, rows: Sequence[ChunkRow], near: Mapping[int, float], score: float, day: str, slot: str | None
) -> Iterable[Candidate]:
    """Return the best sections of a note: that of its best passage, and those that are nearly as near in meaning.

    Passages that say nothing of their own are left out, also where the search found the note by one.
    """
    telling = [row for row in rows if not _says_nothing(row)]
    if not telling:
        return
    lead = max(telling, key=lambda row: (row.chunk_id == one.hit.chunk_id, near.get(row.chunk_id, 0.0)))
    best = near.get(lead.chunk_id, 0.0)
    if lead.chunk_id != one.hit.chunk_id:
        score *= min(1.0, best / max(near.get(one.hit.chunk_id, 0.0), best, _LITTLE))
    sections: list[tuple[float, list[tuple[ChunkRow, Candidate]]]] = []
    for section in _split(rows):
        parts = []
        for row in section:
            share = min(_AT_MOST, near.get(row.chunk_id, 0.0) / best) if best > 0 else 0.0
            is_hit = row.chunk_id == one.hit.chunk_id
            why = why_found(one) if is_hit else "another passage of a note that matches"
            relevance = score * (1.0 if row is lead else share)
            parts.append((row, candidate_of(one.domain, row, day, relevance, why, slot)))
        shares = [part.relevance for row, part in parts if row in telling]
        if shares and max(shares) >= _NEAR * score:
            sections.append((max(shares), parts))
    for _, own in heapq.nlargest(_SECTIONS, sections, key=lambda pair: pair[0]):
        yield _section([part for _, part in own], [part for row, part in own if row in telling])


def _section(parts: Sequence[Candidate], telling: Sequence[Candidate]) -> Candidate:
    """Return a section, from all its passages; those that say something may stand for it."""
    whole, best = whole_section(parts), max(telling, key=lambda part: part.relevance)
    own = tuple(part for part in whole.parts if part in telling)
    # A source file's lines above a class have no name of their own.
    return replace(whole, why=best.why, section=best.section, parts=own)


def _says_nothing(row: ChunkRow) -> bool:
    """Say whether a passage of a note in Markdown is a list of links, a bare heading, or nothing but its title."""
    form = format_of(row.path)
    if form is None or not form.markdown:
        return False
    return row.text.strip() == row.title.strip() if row.is_names_alone else says_nothing(row.text)


def _split(rows: Sequence[ChunkRow]) -> list[list[ChunkRow]]:
    """Split the passages of a note, in order, into sections; a section begins with its heading.

    In a source file the lines between two symbols, such as imports and constants, belong to the one that follows.
    """
    sections: list[list[ChunkRow]] = [list(rows[:1])] if rows else []
    for before, row in pairwise(rows):
        follows = row.start < before.end or not row.text.startswith("## ")
        same = row.section == before.section or (_is_source(row) and before.place is None)
        if same and follows and row.start <= before.end + _GAP:
            sections[-1].append(row)
        else:
            sections.append([row])
    return sections


def _is_source(row: ChunkRow) -> bool:
    form = format_of(row.path)
    return form is not None and form.name == "code"


def why_found(one: Found) -> str:
    """Say in words why a note matches."""
    if not one.ranks:
        return "passes the filters"
    reasons = []
    if one.hit.is_named:
        reasons.append("the question names it")
    if one.match in ("strong", "weak"):
        reasons.append(f"{one.match} match")
    if one.hit.scores.get("bm25", 0.0) > 0:
        reasons.append("has words of the question")
    return "; ".join(reasons) or "nearest in meaning"


def candidate_of(
    domain: str, row: ChunkRow, day: str, relevance: float, why: str, slot: str | None
) -> Candidate:
    """Return a stored passage as a candidate; without a `day`, its date is when its note was changed."""
    return Candidate(
        domain=domain,
        path=row.path,
        title=row.title,
        section=row.section,
        date=day or row.modified[:10],
        text=row.text,
        start=row.start,
        end=row.end,
        first=row.first_line,
        last=row.last_line,
        relevance=relevance,
        why=why,
        slot=slot,
        place=row.place.shown() if row.place else "",
        is_source=_is_source(row),
    )


def _linked(
    view: View,
    source: Source,
    found: Sequence[Found],
    skipped: Collection[str],
    gathered: Gathered,
    slot: str | None,
) -> list[Candidate]:
    """Return the passages nearest to the question of notes that the best ones link to or are linked from.

    Their relevance is the source document's for a file that others import: 0.9 of the best for three links or more,
    0.7 of the upper quartile for two. One link counts half of that quartile, unless the domain wants more links.
    """
    ends: dict[str, list[str]] = {}
    best = [one.hit.path for one in found[:_LINKING]]
    for edge in source.cache.graph.edges_at(best):
        own = edge.source if edge.source != edge.path else edge.target
        if edge.path not in skipped and own not in ends.get(edge.path, ()):
            ends.setdefault(edge.path, []).append(own)
    fewest = source.domain.import_inject_threshold or _ONE
    ends = {path: own for path, own in ends.items() if len(own) >= fewest}
    most_linked = heapq.nlargest(_COMPARED, ends, key=lambda path: len(ends[path]))
    there = on_disk(view.resources, source.cache, most_linked)
    nearest = nearest_of(source, [path for path in most_linked if path in there])
    scores = sorted((one.hit.score for one in found), reverse=True)
    candidates = []
    for path, (row, cosine) in nearest.items():
        count = len(ends[path])
        relevance = scores[0] * _OF_TOP if count >= _MANY else scores[len(scores) // 4]
        relevance *= 1 if count >= _MANY else _OF_UPPER_QUARTER if count >= _SEVERAL else _OF_ONE
        why = f"linked with {', '.join(ends[path][:_MANY])}"
        candidates.append(candidate_of(source.domain.slug, row, "", relevance * max(0.0, cosine), why, slot))
        gathered.rows.setdefault((source.domain.slug, path), [row])
    return heapq.nlargest(_LINKED, candidates, key=lambda one: one.relevance)


def nearest_of(
    source: Source, paths: Sequence[str], *, drop_noise: bool = True
) -> dict[str, tuple[ChunkRow, float]]:
    """Return the passage of each note that is nearest to the question, with its scaled cosine, without noise."""
    # Nearly every chunk may be allowed: SQLite would read all their ids.
    allowed = None if source.only is None else set(source.only)
    own = source.cache.search.chunks_of_notes(paths, (), None)
    model = source.cache.meta.model
    cosines = _cosines(source, [one for one in own if allowed is None or one in allowed])
    near = scaled(
        model,
        {one: cosine for one, cosine in cosines.items() if not drop_noise or not is_noise(model, cosine)},
    )
    rows = source.cache.passages.chunk_rows(list(near))
    nearest: dict[str, tuple[ChunkRow, float]] = {}
    for chunk_id, row in rows.items():
        cosine = near[chunk_id]
        if not _says_nothing(row) and (row.path not in nearest or cosine > nearest[row.path][1]):
            nearest[row.path] = (row, cosine)
    return nearest


def first_of(source: Source, paths: Collection[str]) -> dict[str, tuple[ChunkRow, float]]:
    """Return the first passage of each note, where the filters allow it; 0 stands for its cosine."""
    allowed = None if source.only is None else set(source.only)
    ids = [
        one for one in source.cache.notes.first_chunks(paths).values() if allowed is None or one in allowed
    ]
    return {row.path: (row, 0.0) for row in source.cache.passages.chunk_rows(ids).values()}


# What compression and density need of the caches: the sentences' vectors, and the lines that folders repeat.


_NOTES_READ = 40  # of a folder
_FOLDERS_KEPT = 256
_SPARE = 0.95  # of the room: marks take some of it


class RepeatedLines:
    """The lines that repeat through the notes of folders, read again when the index has changed."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, str, int], tuple[str, frozenset[str]]] = OrderedDict()
        self._turn = threading.Lock()

    def of(self, domain: str, cache: Cache, folder: str, without: frozenset[str]) -> frozenset[str]:
        """Return the repeated lines of a folder, by its first 40 notes `without` some. Raises CacheError."""
        key, now = (domain, folder, hash(without)), cache.search.generation()
        with self._turn:
            known = self._kept.get(key)
        if known and known[0] == now:
            return known[1]
        texts = cache.passages.texts_in_folder(folder, _NOTES_READ, without)
        found = repeated_lines(["\n".join(own) for own in texts.values()])
        with self._turn:
            self._kept[key] = (now, found)
            while len(self._kept) > _FOLDERS_KEPT:
                self._kept.popitem(last=False)
        return found


class Compression:
    """Compresses the passages of one question, by the stored vectors of their sentences."""

    def __init__(self, mode: CompressionMode, gathered: Gathered, tokens: Tokens) -> None:
        self._mode, self._gathered, self._tokens = mode, gathered, tokens
        self._terms = gathered.page.ranked.question.marked
        self._vectors: dict[str, dict[int, Quantized]] = {}
        self.repeated: dict[tuple[str, str], frozenset[str]] = {}

    def find_repeated(self, lines: RepeatedLines) -> None:
        """Look up the lines that the folders of all passages repeat, without hidden notes. Raises CacheError."""
        for one in (*self._gathered.matching, *self._gathered.linked):
            folder = str(PurePosixPath(one.path).parent)
            cache = self._gathered.page.ranked.sources[one.domain].cache
            hidden = self._gathered.hidden.get(one.domain, frozenset())
            self.repeated[one.note] = lines.of(one.domain, cache, "" if folder == "." else folder, hidden)

    def weighed(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Return passages with their shares of repeated lines."""
        return [
            replace(
                one,
                boilerplate=boilerplate_share(one.text, self.repeated.get(one.note, ())),
                parts=tuple(self.weighed(one.parts)),
            )
            for one in candidates
        ]

    def shrink(self, one: Candidate, room: int) -> Candidate | None:
        """Return a passage compressed towards `room` tokens; None if nothing can be left out. Raises CacheError."""
        if self._mode == "none":
            return None
        (size,) = self._tokens.of([one.text])
        text, _ = compress(one.text, self._aim(one, share=_SPARE * room / max(1, size)))
        return replace(one, text=text, compressed=True) if len(text) < len(one.text) else None

    def cut(self, one: Candidate, room: int) -> Candidate | None:
        """Return the part of a passage around what is nearest to the question; None if nothing fits.

        Raises CacheError.
        """
        found = best_part(one.text, self._aim(one), self._tokens.of, int(_SPARE * room))
        if found is None:
            return None
        start, end = found
        before, within = (len(line_starts(text)) - 1 for text in (one.text[:start], one.text[start:end]))
        return replace(
            one,
            text=one.text[start:end],
            start=one.start + start,
            end=one.start + end,
            first=one.first + before,
            last=one.first + before + within,
            is_whole=False,
        )

    def _aim(self, one: Candidate, share: float = 0.0) -> Aim:
        repeated = self.repeated.get(one.note, frozenset())
        limits = self._gathered.page.ranked.sources[one.domain].domain.context
        return Aim(self._mode, self._terms, self._near(one), repeated, share, one.is_source, limits)

    def _near(self, one: Candidate) -> list[tuple[int, int, float]]:
        """Return how near the sentences of a passage are to the question, where their vectors are prepared."""
        source = self._gathered.page.ranked.sources[one.domain]
        rows = [
            row
            for row in self._gathered.rows.get(one.note, ())
            if row.start < one.end and one.start < row.end
        ]
        if source.vector is None:
            return []
        quantized = self._quantized(one.domain, source.cache)
        return [
            (start - one.start, end - one.start, cosine)
            for row in rows
            if row.chunk_id in quantized
            for start, end, cosine in _sentences(row, quantized[row.chunk_id], source.vector)
        ]

    def _quantized(self, domain: str, cache: Cache) -> Mapping[int, Quantized]:
        if domain not in self._vectors:
            ids = [
                row.chunk_id
                for note, rows in self._gathered.rows.items()
                if note[0] == domain
                for row in rows
            ]
            self._vectors[domain] = cache.passages.quantized_of_chunks(ids)
        return self._vectors[domain]


def _sentences(row: ChunkRow, quantized: Quantized, question: Vector) -> Collection[tuple[int, int, float]]:
    """Return the range in its note and the cosine to the question of each sentence of a stored passage."""
    sentences = split_sentences(row.text)
    if len(sentences) != len(quantized) or not len(quantized):
        return ()
    vectors = quantized.astype(np.float32)
    cosines = vectors @ question / np.linalg.norm(vectors, axis=1)
    return [
        (row.start + one.start, row.start + one.end, float(cosine))
        for one, cosine in zip(sentences, cosines, strict=True)
    ]
