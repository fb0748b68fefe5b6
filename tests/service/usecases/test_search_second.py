"""A domain's second model ranks its best notes again, where a question does not leave it out and it is ready.

The models that embed are real; the cross-encoder is tiny and random, so that only its effect is seen.
"""

from __future__ import annotations

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from pipelines.embedding.models import MULTILINGUAL_MODEL
from pipelines.errors import ConfigurationError
from pipelines.question import read_question
from pipelines.search.evaluate import mean
from queue_config.settings import Settings
from service.cli.in_process import InProcess
from service.cli.render import about
from service.http.routes import add_search
from service.mcp.library import Library
from service.mcp.schemas import Search
from service.mcp.search import search
from service.usecases.explain import compare, measure
from service.usecases.maintenance import index_once, rebuild_caches
from service.usecases.search import View
from service.usecases.status import find_problems
from workers.resources import Resources

NOTES = {
    "Soil.md": "Garden soil with compost is dark. The garden.",
    "Bed.md": "Tomatoes need water in a dry summer.",
    "Boat.md": "A boat sails on the river, and the river is wide.",
    "Bread.md": "Bread wants flour, yeast and a hot oven.",
    "Sleep.md": "At night the garden sleeps and dreams.",
}
QUESTION = "sailing over water"


def write(vault, rerank):
    (vault / "_domains.yaml").write_text(f"notes:\n  legacy: true\n  rerank: {rerank}\n")


@pytest.fixture
def open_view(vault, tmp_path, tiny_model):
    """Return a function that opens the vault with a section `rerank`, indexed unless it says otherwise."""
    for name, text in NOTES.items():
        (vault / name).write_text(text)

    def opened(rerank="{}", *, index=True, **settings):
        write(vault, rerank)
        resources = Resources(
            Settings(vault=vault, state=tmp_path / "state", embedding_model=str(tiny_model), **settings)
        )
        if index:
            index_once(resources, lambda *_: None)
        return View(resources, wait_for_model=True)

    return opened


def paths(answer):
    return [hit.path for hit in answer.results]


def ask(view, *, rerank=None, explain=False):
    return view.search(read_question(QUESTION, rerank=rerank), 10, explain=explain)


def layer_of(hit):
    return next((layer for layer in hit.layers if layer.layer == "rescored"), None)


E5 = f"{{model: {MULTILINGUAL_MODEL}}}"


def test_notes_are_in_the_order_of_the_second_models_cosines_and_explained(open_view):
    view = open_view(E5)
    answer = ask(view, explain=True)
    embedder = view.resources.embedders.get(MULTILINGUAL_MODEL)
    cosines = embedder.encode_documents(list(NOTES.values())) @ embedder.encode_query(QUESTION)
    near = dict(zip(NOTES, cosines.tolist(), strict=True))
    assert paths(answer) == sorted(NOTES, key=lambda path: -near[path])
    assert paths(answer) != paths(ask(view, rerank=False))
    for hit in answer.results:
        assert layer_of(hit).parts["second"] == pytest.approx(near[hit.path], abs=0.003)
        assert sum(hit.signals.values()) == pytest.approx(hit.score, abs=1e-5)
    assert answer.not_reranked is None


def test_the_rating_and_the_similarity_stay_those_of_the_first_model(open_view):
    view = open_view(E5)
    again, plain = ask(view), ask(view, rerank=False)
    facts = [{hit.path: (hit.match, hit.similarity) for hit in answer.results} for answer in (again, plain)]
    assert facts[0] == facts[1]


def test_a_note_that_the_question_names_stays_first(open_view):
    view = open_view(E5)
    for name in NOTES:
        found = view.search(read_question(name.removesuffix(".md")), 10, explain=True)
        assert paths(found)[0] == name
        assert layer_of(found.results[0])


def test_without_a_section_no_second_model_is_loaded_and_nothing_waits(open_view):
    view = open_view()
    answer = ask(view, explain=True)
    assert [layer_of(hit) for hit in answer.results] == [None] * len(NOTES)
    assert not view.resources.embedders.has_loaded(MULTILINGUAL_MODEL)
    (cache,) = view.resources.caches().values()
    assert cache.second.hashes_pending() == []
    assert answer.not_reranked is None
    assert "no domain that was asked has a second model" in ask(view, rerank=True).not_reranked


def test_while_vectors_are_missing_the_order_is_as_it_was_and_the_answer_says_so(open_view):
    view = open_view(E5)
    plain = ask(view, rerank=False)
    (cache,) = view.resources.caches().values()
    cache.con.execute("UPDATE vault_second SET codes = NULL WHERE rowid = 1")
    answer = ask(view, explain=True)
    assert paths(answer) == paths(plain)
    assert answer.not_reranked == f"notes: passages still get their vectors by {MULTILINGUAL_MODEL}"
    assert answer.index.refining
    assert [layer_of(hit) for hit in answer.results] == [None] * len(NOTES)
    assert ask(view, rerank=False).not_reranked is None


def test_while_the_model_loads_the_order_is_as_it_was_and_the_answer_says_so(open_view):
    resources = open_view(E5).resources
    view = View(resources)
    view._models.load([cache.meta.model for cache in resources.caches().values()])
    assert ask(view).not_reranked == f"notes: {MULTILINGUAL_MODEL} is being loaded"
    view.load_models()
    assert ask(view).not_reranked is None


@pytest.mark.parametrize(("words", "why"), [(40, None), (120, "notes: the question is too long")])
def test_a_long_question_which_takes_long_to_encode_is_not_ranked_again(open_view, words, why):
    view = open_view(E5)
    question = " ".join(["sailing", "water"] * (words // 2))
    answer = view.search(read_question(question), 10)
    if why is None:
        assert answer.not_reranked is None
        return
    assert answer.not_reranked.startswith(why)
    assert paths(answer) == paths(view.search(read_question(question, rerank=False), 10))


def test_a_model_that_cannot_be_used_is_a_problem_and_the_question_is_answered(open_view):
    view = open_view("{model: no-such/model}")
    assert len(ask(view).results) == len(NOTES)
    assert "no-such/model cannot be used" in ask(view).not_reranked
    (problem,) = find_problems(view.resources, view.resources.queue())
    assert "EVERINDEX_ALLOWED_MODELS" in problem
    view = open_view()
    view.resources.second_model(view.resources.domains()[0])
    assert find_problems(view.resources, view.resources.queue()) == []


def test_a_rebuild_takes_the_vectors_that_there_are(open_view, monkeypatch):
    resources = open_view(E5).resources
    before = paths(ask(View(resources, wait_for_model=True)))
    monkeypatch.setattr("service.usecases.maintenance.prepare_second", None)
    rebuild_caches(resources, lambda *_: None)
    (cache,) = resources.caches().values()
    assert cache.second.hashes_pending() == []
    assert paths(ask(View(resources, wait_for_model=True))) == before


def test_a_cross_encoder_ranks_only_for_a_question_that_asks_for_it(open_view, tiny_cross_encoder):
    view = open_view(f"{{model: '{tiny_cross_encoder}'}}", allowed_models=str(tiny_cross_encoder))
    plain = ask(view, explain=True)
    assert [layer_of(hit) for hit in plain.results] == [None] * len(NOTES)
    assert plain.not_reranked is None
    assert view.resources.embedders._pairs == {}
    answer = ask(view, rerank=True, explain=True)
    scores = view.resources.embedders.cross_encoder(str(tiny_cross_encoder)).scores(
        QUESTION, list(NOTES.values()), 1
    )
    rated = dict(zip(NOTES, scores, strict=True))
    assert paths(answer) == sorted(NOTES, key=lambda path: -rated[path])
    assert answer.not_reranked is None


def test_a_cross_encoder_that_only_the_vault_names_is_not_loaded(open_view, tiny_cross_encoder):
    view = open_view(f"{{model: '{tiny_cross_encoder}'}}")
    assert "cannot be used" in ask(view, rerank=True).not_reranked
    assert view.resources.embedders._pairs == {}


def test_a_cross_encoder_that_fails_leaves_the_order(open_view, tiny_cross_encoder, monkeypatch):
    view = open_view(f"{{model: '{tiny_cross_encoder}'}}", allowed_models=str(tiny_cross_encoder))
    monkeypatch.setattr("pipelines.embedding.embedder.find_spec", lambda _: None)
    answer = ask(view, rerank=True)
    assert paths(answer) == paths(ask(view, rerank=False))
    assert answer.not_reranked == "notes: the cross-encoder failed (the log says why)"


def test_every_door_passes_on_whether_to_rank_again(open_view):
    view = open_view(E5)
    again, plain = paths(ask(view)), paths(ask(view, rerank=False))
    app = FastAPI()
    add_search(app, view, view.resources.queue())
    http, library, program = TestClient(app), Library(view), InProcess(view.resources)
    for rerank, expected in ((True, again), (False, plain), (None, again)):
        given = {} if rerank is None else {"rerank": rerank}
        got = [
            http.get("/search", params={"q": QUESTION, **given}).json()["results"],
            http.post("/search", json={"q": QUESTION, **given}).json()["results"],
            program.call("GET", "/search", (), q=QUESTION, k=10, **given)["results"],
        ]
        assert [[hit["path"] for hit in results] for results in got] == [expected] * 3
        assert [hit.path for hit in search(library, Search(query=QUESTION, **given)).hits] == expected


def test_doors_say_why_notes_are_not_ranked_again(open_view):
    view = open_view()
    found = search(Library(view), Search(query=QUESTION, rerank=True))
    assert any("not ranked again: no domain" in warning for warning in found.warnings)
    assert "; not ranked again: no domain" in about(ask(view, rerank=True).model_dump(mode="json"), 5)


def test_an_evaluation_measures_it_and_other_weights(open_view):
    view = open_view(E5)
    judged = {"one": (QUESTION, {paths(ask(view))[0]: 1})}

    def anew():
        return View(Resources(view.resources.settings), wait_for_model=True)

    report = compare(anew, judged, ["rerank"], ["rerank.weight=1.0"])
    assert report.as_it_is.mrr == 1.0
    without, weighed = (change.means for change in report.changes)
    assert without.mrr == weighed.mrr < 1.0
    with pytest.raises(ConfigurationError, match="another index"):
        compare(anew, judged, [], ["rerank.model=all-MiniLM-L6-v2"])
    assert mean(measure(view, judged, {"": lambda source: source}, None)[""].values()).mrr == 1.0


def test_the_second_look_is_timed(open_view):
    view, told = open_view(E5), {}
    view.observe = told.__setitem__
    ask(view)
    assert told["rerank"] > 0
