"""Why a note is among the answers to a question, or is not."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Literal

from pipelines.domains import with_setting
from pipelines.embedding.check import speed_of
from pipelines.embedding.embedder import Embedder
from pipelines.embedding.models import NO_MODEL, find_model
from pipelines.errors import CacheError, ConfigurationError
from pipelines.maintenance.backup import work_folder
from pipelines.maintenance.databases import copy
from pipelines.question import Question, read_question
from pipelines.search.ablation import RETRIEVERS, Way, as_it_is, steps, with_settings, without
from pipelines.search.evaluate import Figures, GainEstimate, Grades, Loss, figures, losses, mean, verdict_of
from pipelines.search.explain import Standing, reason, standing
from pipelines.search.near_duplicates import Folded
from pipelines.state.state import STATE_FILE
from pipelines.vault import files
from service.schemas.search import Explanation
from service.usecases.maintenance import Progress, index_once, stored_indexes
from service.usecases.paging import Page, followed_by
from service.usecases.search import View, gone_because, layers_of, score_of, signals_of
from workers.resources import Resources
from workers.vault_paths import VAULT_FILE

_EVERY = sys.maxsize  # all candidates


def explain(view: View, question: Question, path: str, k: int) -> Explanation:
    """Say why a note is among the answers to a question, or is not."""
    path = files.note_key(path)
    known = view.why(path)
    page = view.page(question, k)
    every = view.ranked(question, _EVERY, depth=page.depth)
    found = followed_by(page.found, every.found)
    for slug, source in every.sources.items():
        if source.cache.passages.node(path) is None or not view.audience.sees(slug, path):
            continue
        stands = standing(source, question, path, page.depth, found)
        gone = None if stands.place else gone_because(view.resources, source.cache, path)
        if not (gone or stands.place or path in source.cache.search.notes_of(source.only)):
            gone = "it does not pass the filters in the question"
        return _explanation(path, slug, known["state"], stands, page.shown, gone)
    return _unindexed(known, path, page.depth)


def _explanation(
    path: str, domain: str, state: str, standing: Standing, shown: Sequence[Folded], gone: str | None
) -> Explanation:
    """Return why a note is among the results of a search, or is not."""
    found = standing.found
    place, before = _place(path, shown)
    return Explanation(
        path=path,
        domain=domain,
        state=state,
        result=place if before is None else None,
        score=score_of(found.hit) if found else None,
        signals=signals_of(found.hit) if found else {},
        layers=layers_of(found.hit, found.ranks) if found else [],
        passages_nearer=standing.nearer,
        cosine=standing.cosine,
        bm25=standing.bm25,
        depth=standing.depth,
        reason=gone or reason(standing, len(shown), place, before),
    )


def _place(path: str, shown: Sequence[Folded]) -> tuple[int | None, str | None]:
    """Return a note's place among the results (from 1), and the note that it is folded behind, if it is."""
    for place, one in enumerate(shown, start=1):
        if one.first.hit.path == path:
            return place, None
        if path in [other.hit.path for other in one.alike]:
            return place, one.first.hit.path
    return None, None


def _unindexed(known: Mapping[str, Any], path: str, depth: int) -> Explanation:
    """Return the explanation of a path that no index has; `known` is what `why` says of it."""
    return Explanation(
        path=path,
        domain=known["domain"],
        state=known["state"],
        result=None,
        score=None,
        signals={},
        layers=[],
        passages_nearer=None,
        cosine=None,
        bm25=None,
        depth=depth,
        reason=f"it is not indexed: {known['reason']}",
    )


# Measure the answers to judged questions: after each step of an answer, and with a changed layer or setting.


RUNS = 3

_FEW, _MANY = 10, 60
_MOST_LOSSES = 10
_AS_IT_IS = "as it is"

Judged = Mapping[str, tuple[str, Grades]]
"""The questions by name, each with the notes that should be found."""

Measured = dict[str, dict[str, Figures]]
"""How good each answer is: way -> question -> figures."""


@dataclass(frozen=True, slots=True)
class Steps:
    """The mean measures after each step, by its name, and the questions that lost most from one step to the next."""

    questions: int
    means: Mapping[str, Figures]
    losses: list[Loss]


@dataclass(frozen=True, slots=True)
class ChangeEffect:
    """The effect of a layer or setting: the means with the change, and the verdict on it.

    There is no verdict if the runs differ, because then the change is not the only difference.
    """

    kind: Literal["without", "setting"]
    name: str
    means: Figures
    verdict: GainEstimate | None


@dataclass(frozen=True, slots=True)
class EvaluationReport:
    """What came of changes: how many questions were asked, how often, and how good answers are without a change."""

    questions: int
    runs: int
    as_it_is: Figures
    changes: list[ChangeEffect]


def not_indexed(view: View, judged: Judged) -> list[str]:
    """Return the notes that should be found but are in no index."""
    wanted = dict.fromkeys(path for _, grades in judged.values() for path in grades)
    return [path for path in wanted if view.why(path)["state"] != "indexed"]


def measure(view: View, judged: Judged, ways: Mapping[str, Way], now: datetime) -> Measured:
    """Ask every question in every way, of all domains at once as a search does. Raises CacheError.

    Each way is asked twice, for 10 and for 60 results, because more results have more candidates. Nothing is learnt
    from the questions; only new `questions` (a newly loaded model) encode them again.
    """
    found: Measured = {name: {} for name in ways}
    for query, (typed, grades) in judged.items():
        question = read_question(typed)
        for name, way in ways.items():
            first, more = (paths_of(view.page(question, k, way=way, now=now), grades) for k in (_FEW, _MANY))
            found[name][query] = figures(first, more, grades)
    return found


def paths_of(page: Page, grades: Grades) -> list[str]:
    """Return the paths of the results, best first. Raises CacheError where a domain could not be asked.

    A result with others folded behind it is the best graded of them.
    """
    for slug, why in page.ranked.failed.items():
        raise CacheError(f"{slug} cannot be asked, so its answers cannot be measured: {why}")
    alike = [[one.hit.path for one in (result.first, *result.alike)] for result in page.shown]
    return [max(paths, key=lambda path: grades.get(path, 0)) for paths in alike]


def measure_steps(view: View, judged: Judged) -> Steps:
    """Measure each retriever alone, both together, and what each later layer makes of it."""
    found = measure(view, judged, steps(), datetime.now(UTC))
    means = {name: mean(answers.values()) for name, answers in found.items()}
    return Steps(len(judged), means, losses(found, RETRIEVERS, _MOST_LOSSES))


AskAnew = Callable[[], View]
"""Open the caches and load the model, so that nothing is known from an earlier run."""


def compare(
    ask_anew: AskAnew,
    judged: Judged,
    layers: Sequence[str],
    settings: Sequence[str],
    others: Mapping[str, tuple[AskAnew, Judged]] = MappingProxyType({}),
) -> EvaluationReport:
    """Compare the answers with those without each layer, and with each setting, in three cold runs.

    `others`, by setting: what asks another index, and the questions as they are put to it. Raises ConfigurationError,
    CacheError.
    """
    registry = ask_anew().resources.registry()
    ways = {f"without {name}": without([name]) for name in layers}
    for setting in settings:
        ways[setting] = with_settings({domain.slug: domain for domain in with_setting(registry, setting)})
    now = datetime.now(UTC)
    runs = []
    for _ in range(RUNS):
        run = measure(ask_anew(), judged, {_AS_IT_IS: as_it_is, **ways}, now)
        for name, (ask_other, asked) in others.items():
            run |= measure(ask_other(), asked, {name: as_it_is}, now)
        runs.append(run)

    scores = [
        {way: {query: one.ndcg_10 for query, one in answers.items()} for way, answers in run.items()}
        for run in runs
    ]

    def changed(kind: Literal["without", "setting"], name: str, way: str) -> ChangeEffect:
        one, other = (_AS_IT_IS, way) if kind == "without" else (way, _AS_IT_IS)
        return ChangeEffect(kind, name, mean(runs[0][way].values()), verdict_of(scores, one, other))

    return EvaluationReport(
        questions=len(judged),
        runs=RUNS,
        as_it_is=mean(runs[0][_AS_IT_IS].values()),
        changes=[
            *(changed("without", name, f"without {name}") for name in layers),
            *(changed("setting", setting, setting) for setting in (*settings, *others)),
        ],
    )


# Index the vault with another model, to ask both indexes the same questions.


@contextmanager
def indexed_with(
    resources: Resources, model: str, tell: Callable[[float | None], None], progress: Progress
) -> Iterator[AskAnew]:
    """Index the vault with another model; yield what asks these indexes, which are removed at the end.

    The vault's own state is only read; vectors that one of its indexes has by the model are taken from there.
    `tell` gets the seconds that it will take, None if no text has to be embedded. Raises ConfigurationError if every
    domain has the model or endpoints serve it, ModelUnavailableError.
    """
    if resources.settings.endpoints_of(model):
        raise ConfigurationError(
            f"endpoints serve {model}, and a comparison would have them embed the whole vault; `everindex reembed`"
            " does so, and back again embeds nothing"
        )
    info, place = find_model(model), resources.place
    domains = resources.domains()
    indexes = [one for one in stored_indexes(resources) if resources.settings.domain in (None, one.domain)]
    if {one.model for one in indexes if one.in_use} == {info.name}:
        raise ConfigurationError(f"every domain is indexed with {info.name}: there is nothing to compare")
    with work_folder(place.state, "compare") as folder:
        copy(place.state / STATE_FILE, folder / STATE_FILE)
        shutil.copy(place.state / VAULT_FILE, folder)
        for one in indexes:
            (folder / one.path.name).symlink_to(one.path)
        changed = {"vault": resources.root, "state": folder, "embedding_model": model}
        settings = resources.settings.model_copy(update=changed)
        other = Resources(settings, create=False)
        for domain in domains:  # what is linked is kept from here on
            other.state().switch_cache(domain.slug, other.state().cache_number(domain.slug) + 1)
        seconds = None
        if info.name not in (NO_MODEL, *(one.model for one in indexes)):
            texts = sum(resources.reader(domain).counts().chunks for domain in domains)
            embedder = other.embedders.bulk(info.name, lambda: texts)
            if isinstance(embedder, Embedder):
                # Sentences get vectors, too, and are about as many words as the passages.
                seconds = 2 * texts / speed_of(embedder).texts_per_s
        tell(seconds)
        index_once(other, progress)
        yield lambda: View(Resources(settings, create=False), wait_for_model=True)
