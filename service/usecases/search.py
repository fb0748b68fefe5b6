"""Search and explanations over the caches, for the query worker and the command line."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import asdict, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

import structlog

from pipelines import store
from pipelines.cache.cache import SqliteCache
from pipelines.cache.passages import NodeRow
from pipelines.cache.vectors import Vector
from pipelines.domains import DOMAINS_FILE
from pipelines.embedding.models import NO_MODEL, SecondModel
from pipelines.errors import (
    BadVectorError,
    CacheError,
    CacheMissingError,
    FilterError,
    ModelUnavailableError,
    NoteNotFoundError,
)
from pipelines.filters import require_no_question
from pipelines.indexing.reconcile import rules_of
from pipelines.indexing.status import nothing_seen_at, why
from pipelines.model import Domain
from pipelines.question import Question
from pipelines.search.ablation import Way, as_it_is
from pipelines.search.excerpts import Excerpt
from pipelines.search.explain import nothing_left
from pipelines.search.find import (
    SentenceVectors,
    by_pairs,
    by_vectors,
    excerpts,
    find,
    find_newest,
    no_opinion,
)
from pipelines.search.fusion import NoteHit, SecondOpinion, stage, timing
from pipelines.search.near_duplicates import Folded
from pipelines.search.operators import passing_chunks
from pipelines.search.rank import SIGNALS, Source
from pipelines.search.spelling import corrected, unknown_values
from pipelines.search.thresholds import band_of
from pipelines.state.note_log import NoteLog, followed
from pipelines.state.state import HELD
from pipelines.vault import files
from queue_config.queue import Queue
from service.runtime.refusals import standing_of
from service.schemas.notes import NodeAnswer
from service.schemas.operations import Health
from service.schemas.search import (
    AlikeNote,
    EmbedAnswer,
    EmbedRequest,
    IndexState,
    Layer,
    SearchAnswer,
    SearchHit,
    place_of,
    typed_filters,
)
from service.usecases.audience import OWNER, Audience, agents, named_domains
from service.usecases.memory import InMemory, TitleIndex, Vocabularies, check_memory
from service.usecases.paging import Page, Ranked, fused, page_of, page_of_list
from service.usecases.status import (
    DomainIndex,
    dates_of,
    describe_health,
    describe_index,
    describe_note,
    index_of,
    on_disk,
    record_ids,
    shared_ids,
    state_of,
    unindexed,
    without_counts,
)
from service.usecases.text import moment, sharing
from workers.attention import attended
from workers.resources import Resources

# The models that embed questions, as far as they are loaded.


_MOST_TOKENS = 96  # of a question for a second model: multilingual-e5-small takes 45 ms for as many
log = structlog.get_logger()


class QuestionModels:
    """The loaded models; `sentences` has the vectors of sentences that each has computed for excerpts."""

    def __init__(self, resources: Resources) -> None:
        self._embedders = resources.embedders
        self._loaded: set[str] = set()
        self.sentences: dict[str, SentenceVectors] = {}

    def has_loaded(self, model: str) -> bool:
        """Say whether the model of that name is ready to embed a question."""
        return model == NO_MODEL or model in self._loaded

    def load(self, models: Iterable[str]) -> None:
        """Load those of the models that are missing, and try endpoints again. Raises ModelUnavailableError."""
        for model in set(models) - {NO_MODEL}:
            # One thread: questions come one at a time, and bulk work has the other cores.
            embedder = self._embedders.load(model, threads=1)
            if model not in self._loaded:
                embedder.encode_query("warm up")
                self.sentences[model] = SentenceVectors(self._embedders.sentence_encoder(model))
                self._loaded.add(model)

    def vector(self, model: str, question: Question) -> Vector | None:
        """Return a question's vector, or None if the model is not loaded or does not work."""
        if model not in self._loaded:
            return None
        try:
            # Excluded words would draw the vector towards them.
            return self._embedders.get(model).encode_query(question.asked)
        except (BadVectorError, ModelUnavailableError) as error:
            log.warning("a question is searched without a model", model=model, reason=str(error))
            if not self._embedders.has_loaded(model):
                self._loaded.discard(model)  # `load` loads it again, or says why it cannot
            return None

    def second_opinion(self, model: SecondModel, question: Question, cache: store.Cache) -> SecondOpinion:
        """Return a second model's opinion on passages; a cross-encoder is loaded when it is first asked."""
        if model.is_cross_encoder:
            return by_pairs(cache, partial(self._pair_scores, model.name, question.asked))
        if model.name not in self._loaded:
            return no_opinion(f"{model.name} is being loaded")
        if self._embedders.get(model.name).count_tokens([question.asked])[0] > _MOST_TOKENS:
            return no_opinion("the question is too long to be compared in time")
        return by_vectors(cache, model.name, partial(self.vector, model.name, question))

    def _pair_scores(self, folder: str, asked: str, texts: Sequence[str]) -> list[float] | None:
        embedders = self._embedders
        try:
            return embedders.cross_encoder(folder).scores(asked, texts, embedders.threads())
        except (BadVectorError, ModelUnavailableError) as error:
            log.warning("a cross-encoder cannot rank notes again", reason=str(error))
            return None


# Reasons why a known note is not found, or not yet, or not by all.


def gone_because(resources: Resources, cache: store.Cache, path: str) -> str | None:
    """Say that no answer has a note because its file is gone, or return None."""
    raw, *_ = cache.ledger.stat_of([path]).get(path, (path,))
    if not resources.present() or files.look(resources.root, raw) is not None:
        return None
    return "its file is gone, and no answer has a note without a file"


def _history_of(resources: Resources, path: str) -> dict[str, str]:
    """Return what became of a note that is not there, as far as its log says."""
    log = resources.stores.of(NoteLog)
    last = next(iter(log.of_note(path, 1)), None)
    if last is None or last.passages is not None:
        return {}
    if last.other_path:
        root = resources.root
        now = followed(
            log.renamed(), path, lambda name: files.look(root, files.path_on_disk(root, name)) is not None
        )
        return {"reason": f"it was renamed to {now}", "renamed_to": now}
    return {"reason": f"it was taken out of the index on {moment(last.at)}; there is no such file"}


def _vanished_because(resources: Resources, cache: SqliteCache, slug: str, path: str) -> str | None:
    """Say that a note's file is gone while the index keeps the note, or return None."""
    if path not in resources.vanished().waiting(slug) and gone_because(resources, cache, path) is None:
        return None
    if resources.state().get(HELD, slug):
        return (
            "its file vanished with many others, and no answer has it; the index keeps it until it is back,"
            " until `everindex index --confirm-deletions`, or until nothing about them has changed for an hour while"
            " Everindex runs"
        )
    return "its file is gone, so no answer has it; the index forgets it within a minute while Everindex runs"


def paused_because(resources: Resources, slug: str) -> str | None:
    """Say since when a domain's notes wait for an operator, or return None."""
    paused = resources.state().decisions.paused_since(slug)
    if paused is None:
        return None
    since = moment(paused)
    return f"{slug} is paused since {since}; it is indexed when an operator resumes {slug} (`/ops/queue`)"


def _same_id(
    resources: Resources, caches: Mapping[str, SqliteCache], path: str, identity: object
) -> Iterator[str]:
    """Yield a sentence about the records that have the id of this one."""
    if isinstance(identity, str):
        paths = shared_ids(resources.root, record_ids(caches.values(), identity)).get(identity, [])
        if path in paths:
            yield f"{sharing(identity, paths)}; give each an id of its own"


def _as_read(
    resources: Resources, caches: Mapping[str, SqliteCache], known: Mapping[str, Any]
) -> dict[str, Any]:
    """Return warnings about an indexed note, and why agents do not see it. Raises CacheError."""
    node = caches[known["domain"]].passages.node(known["path"])
    warnings = list(node.warnings) if node else []
    if node:
        warnings += _same_id(resources, caches, node.path, node.frontmatter.get("id"))
    hidden = None
    if known["path"] in agents(resources).known_private(known["domain"]):
        unread = any("frontmatter" in warning for warning in warnings)
        hidden = (
            "its frontmatter cannot be read, and may say that it is private"
            if unread
            else "it is private by its folder, a tag or a `private` property, or it configures its domain"
        )
    return {"warnings": warnings, "hidden_from_agents": hidden}


def explained(
    resources: Resources, caches: Mapping[str, SqliteCache], known: Mapping[str, Any], *, is_owner: bool
) -> dict[str, Any]:
    """Return the state of a path with what keeps its note from answers, and for the owner with what became of it.

    Raises CacheError.
    """
    state, slug, path = known["state"], known["domain"], known["path"]
    if state == "pending":
        return {**known, "reason": paused_because(resources, slug) or known["reason"]}
    if state == "indexed":
        if gone := _vanished_because(resources, caches[slug], slug, path):
            return {**known, "state": "pending", "reason": gone}  # that it is removed
        node = caches[slug].passages.node(path)
        more = _as_read(resources, caches, known) if is_owner else {}
        return {**known, "dates": dates_of(node).model_dump() if node else None, **more}
    return {**known, **(_history_of(resources, path) if state == "unknown" and is_owner else {})}


# Turn the results of retrieval into the schemas of the answers.


_DIGITS = 6
_MERGED = 50  # results of each phrasing of a question
_COSINE_DIGITS = 4
_LAYERS = {signal.layer: signal for signal in SIGNALS.values() if signal.layer}


def search_hit(
    folded: Folded,
    shown: Excerpt,
    chosen_by_meaning: bool,  # noqa: FBT001
    model: str,
    *,
    note: NodeRow | None,
    explain: bool,
) -> SearchHit:
    """Return an answer's note with those that are like it, and with its layers if they were asked for.

    `model` is that of the note's domain, `note` its own row; None: it was removed just now.
    """
    found = folded.first
    chunk = found.chunk
    return SearchHit(
        path=chunk.path,
        title=chunk.title,
        section=chunk.section,
        excerpt=shown.text,
        text=chunk.text,
        marks=list(shown.marks),
        ranges=[]
        if chunk.is_names_alone
        else [(chunk.start + s, chunk.start + e) for s, e in shown.sentences],
        score=score_of(found.hit),
        match=found.match,
        similarity=similarity_of(found.hit),
        band=band_of(model, similarity_of(found.hit)),
        lines=(chunk.first_line, chunk.last_line),
        place=place_of(chunk.place),
        modified=chunk.modified,
        published=chunk.published,
        date=(note.dates.created if note else chunk.published or chunk.modified)[:10],
        kind=note.kind if note else None,
        properties=note.frontmatter if note else {},
        stale=found.stale,
        domain=found.domain,
        excerpt_by="meaning" if chosen_by_meaning else "words",
        signals=signals_of(found.hit) if explain else None,
        layers=layers_of(found.hit, found.ranks) if explain else None,
        alike=[
            AlikeNote(
                path=one.chunk.path,
                title=one.chunk.title,
                domain=one.domain,
                score=round(one.hit.score, _DIGITS),
            )
            for one in folded.alike
        ],
    )


def _notes(page: Page) -> dict[tuple[str, str], NodeRow]:
    """Return the rows of the notes that are shown, by domain and path."""
    found: dict[tuple[str, str], NodeRow] = {}
    shown = [(one.first.domain, one.first.hit.path) for one in page.shown]
    for slug in dict.fromkeys(slug for slug, _ in shown):
        paths = [path for domain, path in shown if domain == slug]
        # Passages were read from them a moment ago: the answer stands without the rest.
        with suppress(CacheError):
            rows = page.ranked.sources[slug].cache.passages.nodes(paths)
            found |= {(slug, path): row for path, row in rows.items()}
    return found


def score_of(hit: NoteHit) -> float:
    """Return a hit's score as it is shown."""
    return round(hit.score, _DIGITS)


def similarity_of(hit: NoteHit) -> float | None:
    """Return the cosine of a hit's passage and the question as it is shown; None while it is unknown."""
    cosine = hit.scores.get("cosine")
    return None if cosine is None else round(cosine, _COSINE_DIGITS)


def signals_of(hit: NoteHit) -> dict[str, float]:
    """Return what each signal adds to a hit's score: rounded, the largest one so that the sum is the shown score.

    A signal that adds nothing is left out.
    """
    shown = {name: round(value, _DIGITS) for name, value in hit.signals.items()}
    if shown:
        largest = max(shown, key=lambda name: abs(shown[name]))
        others = sum(value for name, value in shown.items() if name != largest)
        shown[largest] = round(score_of(hit) - others, _DIGITS)
    return {name: value for name, value in shown.items() if value}


def layers_of(hit: NoteHit, ranks: Mapping[str, int]) -> list[Layer]:
    """Return a hit's rank and score in each layer, in order."""
    return [_layer(hit, name, rank) for name, rank in ranks.items()]


def _layer(hit: NoteHit, name: str, rank: int) -> Layer:
    signal = _LAYERS.get(name)  # fusion and merging are layers, but no signals
    score, parts = (signal.score or name, signal.parts) if signal else (name, ())
    return Layer(
        layer=name,
        rank=rank,
        score=round(hit.scores.get(score, 0.0), _DIGITS),
        parts={part: round(hit.scores[part], _DIGITS) for part in parts if part in hit.scores},
    )


def why_nothing(ranked: Ranked) -> str | None:
    """Say why a question's quotes, minus signs and filters leave no note in the domains that answered."""
    answered = _answered(ranked)
    # The ranking read the same tables; if they break only now, there is no certain reason.
    with suppress(CacheError):
        unknown = unknown_values(
            [(source.cache, source.hidden) for source in answered], ranked.question.filters
        )
        return "; ".join(unknown) or nothing_left(answered, ranked.question)
    return None


def why_not_reranked(page: Page) -> str | None:
    """Say why notes are not ranked again although the question or their domain asks for it."""
    sources = page.ranked.sources
    if page.ranked.question.rerank and all(one.domain.rerank_model is None for one in sources.values()):
        return f"no domain that was asked has a second model (`rerank` in {DOMAINS_FILE})"
    left = {one.domain for one in page.found} - {one.domain for one in page.found if "rescored" in one.ranks}
    return "; ".join(f"{slug}: {one.why}" for slug in sorted(left) if (one := sources[slug].second)) or None


def meant_by(ranked: Ranked, resources: Resources) -> str | None:
    """Return the question with its misspelt words corrected by the domains that answered.

    None if there are none, or if no model is loaded that knows how words are spelled.
    """
    loaded = [model for model, vector in ranked.question.vectors.items() if vector is not None]
    with suppress(CacheError):
        if loaded:
            count_tokens = resources.embedders.get(loaded[0]).count_tokens
            return corrected(_answered(ranked), ranked.question, count_tokens)
    return None


def _answered(ranked: Ranked) -> list[Source]:
    return [source for slug, source in ranked.sources.items() if slug not in ranked.failed]


Answer = TypeVar("Answer")


class Call(NamedTuple):
    """A question as another process can answer it: `search` or `context`, who asks, and what is given with it."""

    what: Literal["search", "context"]
    is_owner: bool
    question: Question
    given: Mapping[str, Any]


class Spread(Protocol):
    """Has a question answered by another process, or by `here` in this one."""

    def __call__(self, asked: Call, here: Callable[[], Answer], /) -> Answer:
        """Return the answer of one of them. Raises what `here` raises."""


def _alone(_asked: Call, here: Callable[[], Answer]) -> Answer:
    return here()


def _unobserved(_stage: str, _seconds: float) -> None:
    """Ignore the duration of a stage."""


def _require_words(*phrasings: Question) -> None:
    for one in phrasings:
        if one.is_list or not one.text.strip():
            raise FilterError(
                f"{one.typed!r} has no words to search for; give filters apart from the phrasings"
            )


class View:
    """A vault as one asker sees it: searches, notes and their standing. All use cases get one.

    With `wait_for_model` the first question waits for the model. `observe` receives the seconds that each stage of a
    search took. `spread` chooses the process that answers a question.
    """

    def __init__(self, resources: Resources, *, wait_for_model: bool = False) -> None:
        self.resources = resources
        self.audience = OWNER
        self._wait = wait_for_model
        self._models = QuestionModels(resources)
        self.memory = InMemory(resources.settings.memory_bytes, resources.vector_table)
        self._vocabularies = Vocabularies(resources)
        self.titles = TitleIndex()
        self._shared: tuple[tuple[str, ...], dict[str, list[str]]] = ((), {})
        self.observe: Callable[[str, float], None] = _unobserved
        self.spread: Spread = _alone

    def seen_by(self, audience: Audience) -> View:
        """Return the same vault, with the same models and data in memory, as another asker sees it."""
        other = copy(self)
        other.audience = audience
        return other

    def readers(self, slug: str | None = None) -> list[tuple[Domain, SqliteCache]]:
        """Return the domains (or the named one) that have a cache, each with this thread's connection.

        Raises DomainNotFoundError.
        """
        found = []
        for domain in named_domains(self.resources, slug):
            try:
                found.append((domain, self.resources.reader(domain)))
            except CacheMissingError:
                continue  # the watcher is about to make it
            except CacheError as error:
                log.warning("a domain cannot be asked", domain=domain.slug, reason=str(error))
        return found

    def _ask(
        self, ask: Callable[[Domain, SqliteCache], Answer], slugs: Collection[str] = ()
    ) -> tuple[dict[str, Answer], dict[str, str]]:
        """Query every domain (or some); return the answers and the failures. One damaged cache affects no other."""
        answers, failed = {}, {}
        for domain in self.resources.domains():
            if slugs and domain.slug not in slugs:
                continue
            try:
                answers[domain.slug] = ask(domain, self.resources.reader(domain))
            except CacheMissingError:
                continue  # the watcher is about to make it
            except CacheError as error:
                failed[domain.slug] = str(error)
                log.warning("a domain cannot be asked", domain=domain.slug, reason=str(error))
        return answers, failed

    def load_models(self) -> None:
        """Load missing models of all caches, then the second models that rank their notes again."""
        readers = self.readers()
        self._models.load(cache.meta.model for _, cache in readers)
        for domain, _ in readers:
            second = self.resources.second_model(domain)
            if second and not second.is_cross_encoder:
                try:
                    self._models.load([second.name])
                except ModelUnavailableError as error:
                    self.resources.refuse_second(domain, error)

    def follow_commits(self) -> bool:
        """Update the data in memory from the caches whose models are loaded, and say whether all is there by now.

        Only one thread calls it.
        """
        caches = [cache for _, cache in self.readers()]
        for cache in caches:  # they need no model, and the first question would wait for them
            self.memory.names(cache).follow(cache)
        return self.memory.follow([one for one in caches if self._models.has_loaded(one.meta.model)])

    def check_memory(self) -> None:
        """Compare a part of the data in memory with the caches. Called by the thread that follows commits."""
        check_memory(self.resources, self.memory, self.readers())

    def _embed(self, question: Question, model: str) -> None:
        """See that a question has its vector by a model, or None where there is none."""
        if model in question.vectors:
            return
        if self._wait and not (question.is_list or self._models.has_loaded(model)):
            self.load_models()
        with stage("encode"):
            question.vectors[model] = None if question.is_list else self._models.vector(model, question)

    def _second(self, domain: Domain, cache: SqliteCache, question: Question) -> SecondOpinion | None:
        """Return what ranks a domain's notes again for a question, if it or its domain asks for that."""
        if domain.rerank_model is None or question.rerank is False or question.is_list:
            return None
        model = self.resources.second_model(domain)
        if model is None:
            return no_opinion(f"{domain.rerank_model} cannot be used (`everindex status`)")
        if model.is_cross_encoder and not question.rerank:
            return None  # it takes longer than a question may
        return self._models.second_opinion(model, question, cache)

    def search(
        self,
        question: Question,
        k: int,
        *,
        explain: bool = False,
        offset: int = 0,
        fold: bool = True,
        also: Sequence[Question] = (),
    ) -> SearchAnswer:
        """Answer a question by `k` results after the first `offset`, copies folded.

        `also`: other phrasings of it, whose best 50 results each are merged with its own. Raises DomainNotFoundError,
        FilterError.
        """
        given: dict[str, Any] = {"k": k, "explain": explain, "offset": offset, "fold": fold, "also": also}
        here = partial(self._search, question, **given)
        return self.spread(Call("search", self.audience.sees_all, question, given), here)

    def _search(
        self,
        question: Question,
        k: int,
        *,
        explain: bool,
        offset: int,
        fold: bool,
        also: Sequence[Question],
    ) -> SearchAnswer:
        started = time.perf_counter()
        self.resources.embedders.leave_a_core()
        with timing() as seconds:
            if also:
                _require_words(question, *also)
                page = fused([self.page(one, _MERGED, fold=fold) for one in (question, *also)], k, offset)
            else:
                page = self.page(question, k, offset=offset, fold=fold)
            cut = self._excerpts(page)
        index = self.index_state(question.filters.domains)
        index.failed |= page.ranked.failed
        took = time.perf_counter() - started
        notes = _notes(page)
        for name, spent in {**seconds, "total": took}.items():
            self.observe(name, spent)
        return SearchAnswer(
            query=question.typed,
            text=question.text,
            order="newest" if question.is_list else "relevance",
            filters=typed_filters(question),
            results=[
                search_hit(
                    one,
                    *show,
                    page.ranked.models[one.first.domain],
                    note=notes.get((one.first.domain, one.first.hit.path)),
                    explain=explain,
                )
                for one, show in zip(page.shown, cut, strict=True)
            ],
            count=len(page.shown),
            offset=offset,
            answers=len(page.answers),
            more=page.more,
            match=page.match,
            deep_available=page.match in ("weak", "none") or page.sparse,
            took_ms=round(took * 1000, 1),
            index=index,
            reason=None if page.ranked.found else why_nothing(page.ranked),
            not_reranked=why_not_reranked(page),
            did_you_mean=question.with_text(meant_by(page.ranked, self.resources)),
            **({} if page.answers or offset else self._unindexed(question)),
        )

    def _unindexed(self, question: Question) -> dict[str, Any]:
        return unindexed(self.resources, self.audience, self.readers(), question)

    @stage("excerpts")
    def _excerpts(self, page: Page) -> list[tuple[Excerpt, bool]]:
        """Cut the excerpt of each result by the phrasing that found it."""
        by = page.by or (page.ranked,) * len(page.shown)
        distinct = {id(one): one for one in by}
        similar = {at: one.similarities(self._models.sentences) for at, one in distinct.items()}
        return [
            cut
            for found, ranked in zip(page.shown, by, strict=True)
            for cut in excerpts([found.first], ranked.question, similar[id(ranked)])
        ]

    def page(
        self,
        question: Question,
        k: int,
        *,
        offset: int = 0,
        fold: bool = True,
        way: Way = as_it_is,
        now: datetime | None = None,
    ) -> Page:
        """Return the results that a search shows, without their excerpts. Raises DomainNotFoundError, FilterError.

        Searches, explanations and measurements all use this. It must not learn from a question, or every
        measurement would change the next. A question without words, beside filters, has the newest notes that pass.
        """
        if question.is_list:
            ranked = self.ranked(question, offset + k + 1, now=now)
            return page_of_list(ranked, k, offset)

        def rank(most: int, depth: int) -> Ranked:
            return self.ranked(question, most, depth=depth, way=way, now=now)

        return page_of(rank, k, offset, folded=fold)

    def ranked(
        self,
        question: Question,
        k: int,
        *,
        depth: int | None = None,
        way: Way = as_it_is,
        now: datetime | None = None,
    ) -> Ranked:
        """Rank the notes of all domains, or those of the filters, for a question.

        `depth`: see `find`. `way` changes what each domain is asked by. Raises DomainNotFoundError, FilterError.
        """
        root, present, now = self.resources.root, self.resources.present(), now or datetime.now(UTC)
        filters, gone = question.filters, self.resources.gone()
        if question.is_list:
            require_no_question(filters)

        def source(domain: Domain, cache: SqliteCache) -> Source:
            held, hidden = self.memory, self.audience.hidden(domain.slug) | gone
            self._embed(question, cache.meta.model)
            if filters.name_communities:
                self.audience.require_communities(domain.slug)
            vector = question.vectors[cache.meta.model]
            only = passing_chunks(cache, filters, hidden, vector)
            memory, names = (held.quantized(cache), held.words(cache)), held.names(cache)
            second = self._second(domain, cache, question)
            own = Source(domain, cache, vector, only, *memory, names=names, hidden=hidden, second=second)
            tags = partial(self._vocabularies.names, domain)
            return way(
                replace(own, attended=attended(self.resources, now), symbols=held.symbols(cache), tags=tags)
            )

        for slug in filters.domains:
            named_domains(self.resources, slug)
        sources, failed = self._ask(source, filters.domains)
        asked = list(sources.values())
        found, also_failed = (
            find_newest(asked, question, k, root=root, present=present)
            if question.is_list
            else find(asked, question, k, root=root, present=present, now=now, depth=depth)
        )
        for slug, error in also_failed.items():
            log.warning("a domain cannot be asked", domain=slug, reason=str(error))
            failed[slug] = str(error)
        return Ranked(found, question, sources, failed)

    def embed(self, asked: EmbedRequest) -> EmbedAnswer:
        """Return the vector of a text. Raises DomainNotFoundError, FilterError, CacheError, ModelUnavailableError."""
        models = {cache.meta.model for _, cache in self.readers(asked.domain)}
        if len(models) > 1:
            raise FilterError(f"the domains have several models ({', '.join(sorted(models))}); name a domain")
        if not models:
            raise CacheMissingError("nothing is indexed yet, so no model is known; ask again when a note is")
        (model,) = models
        embedder = self.resources.embedders.load(model, threads=1)
        text = asked.text
        vector = embedder.encode_query(text) if asked.question else embedder.encode_documents([text])[0]
        return EmbedAnswer(model=model, vector=vector.tolist())

    def index_state(self, slugs: Collection[str] = ()) -> IndexState:
        """Say whether the index is behind the disk, and which domains cannot be asked.

        Who does not see all notes learns only whether any note or vector is pending, not how many are, and nothing of
        notes that are hidden.
        """

        def ask(domain: Domain, cache: SqliteCache) -> DomainIndex:
            ready = self._models.has_loaded(cache.meta.model)
            return index_of(self.resources, domain, cache, self.audience, ready=ready)

        found, failed = self._ask(ask, slugs)
        state = describe_index(self.resources, list(found.values()), failed)
        return state if self.audience.sees_all else without_counts(state)

    def health(self, queue: Queue) -> Health:
        """Describe the vault, its caches, and all problems."""
        domains, failed = self._ask(partial(state_of, self.resources))
        index = self.index_state()
        index.failed |= failed
        return describe_health(self.resources, queue, domains, index, self._shared_ids(), self.readers())

    def _shared_ids(self) -> dict[str, list[str]]:
        """Return the ids that several records have, looked for anew when an index has changed."""
        caches = [cache for _, cache in self.readers()]
        with suppress(CacheError):
            state = tuple(cache.search.generation() for cache in caches)
            if self._shared[0] != state:
                self._shared = state, shared_ids(self.resources.root, record_ids(caches))
        return self._shared[1]

    def holder(self, path: str) -> tuple[Domain, SqliteCache]:
        """Return the domain and cache of an indexed note that the asker sees. Raises NoteNotFoundError."""
        for domain, cache in self.readers():
            if cache.passages.node(path) is not None and self.audience.sees(domain.slug, path):
                return domain, cache
        raise self.no_such_note(path)

    def node(self, path: str) -> NodeAnswer:
        """Return a note and its chunks. Raises NoteNotFoundError, also for a note whose file is gone."""
        path = files.note_key(path)
        for domain, cache in self.readers():
            with cache.snapshot():
                sees = self.audience.sees(domain.slug, path) and path in on_disk(
                    self.resources, cache, [path]
                )
                if sees and (node := describe_note(domain, cache, path, self.audience, self.backlinks)):
                    return node
        raise self.no_such_note(path)

    def backlinks(self, path: str) -> list[dict[str, Any]]:
        """Return the notes of any domain that link to a file, without those whose files are gone.

        The type of a link is that of its inverse, if its domain names one: it is seen from its target.
        """
        linking: list[dict[str, Any]] = []
        for domain, cache in self.readers():
            back, name = domain.relations.back, domain.relations.name
            found = cache.graph.backlinks(path)
            there = on_disk(self.resources, cache, [one.path for one in found])
            linking += [
                asdict(one)
                | {"domain": domain.slug, "type": back(one.type), "relation": name(back(one.type))}
                for one in found
                if one.path in there and self.audience.sees(domain.slug, one.path)
            ]
        return linking

    def parked(self, path: str | None = None) -> list[str]:
        """Return the parked notes, or those of them that have a path."""
        found = [row.path for _, cache in self.readers() for row in cache.ledger.parked_notes()]
        return found if path is None else [one for one in found if one == files.note_key(path)]

    def no_such_note(self, path: str) -> NoteNotFoundError:
        """Return the error that says why a note is unavailable."""
        known = self.why(path)
        return NoteNotFoundError(standing_of(known), known)

    def why(self, path: str) -> dict[str, Any]:
        """Return the state of a path, with the reason; a path that the asker does not see is unknown."""
        registry = self.resources.registry()
        key, root = files.note_key(path), self.resources.root
        if not self.audience.sees_all and not self.audience.named([key]):
            return nothing_seen_at(key, registry)
        caches = {domain.slug: cache for domain, cache in self.readers()}
        known = why(path, root, registry, rules_of(root, registry), caches)
        if not self.audience.sees_all:
            known.pop("cure", None)  # it names the vault's folder, and is for the owner to do
        return explained(self.resources, caches, known, is_owner=self.audience.sees_all)
