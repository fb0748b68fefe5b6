"""Answers are measured as users get them, and a verdict needs runs that agree."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime

import pytest
from click.testing import CliRunner

from pipelines.embedding.embedder import Embedder
from pipelines.errors import CacheError, ConfigurationError, ModelUnavailableError
from pipelines.indexing.ingest import embed_pending, index_words
from pipelines.indexing.reconcile import reconcile
from pipelines.question import read_question
from pipelines.search.ablation import as_it_is, without
from pipelines.search.evaluate import figures
from pipelines.search.rank import SIGNALS
from pipelines.sqlite import connect
from pipelines.state.attention import Attention
from queue_config.settings import Settings
from service.cli.main import app
from service.usecases.explain import compare, indexed_with, measure, measure_steps, not_indexed
from service.usecases.maintenance import rebuild_caches, verify_caches
from service.usecases.search import View
from workers.models import LAST_QUERY_FILE
from workers.resources import Resources

DOMAINS = "notes: {legacy: true}\nreports:\n  decay: {mode: ranked_grouped}\n"
NOTES = {
    "Garden.md": "Compost for the tomato beds. [[Bread]]",
    "Copy.md": "Flour, yeast and a hot oven. [[Garden]]",
    "Bread.md": "Flour, yeast and a hot oven. [[Garden]]",
    "reports/2024.md": "---\nauthor: Ann\npublished_at: 2024-01-01\n---\nThe harvest of the tomato beds was good.",
    "reports/2025.md": "---\nauthor: Ann\npublished_at: 2025-01-01\n---\nThe harvest of the tomato beds was good too.",
}
JUDGED = {
    "beds": ("tomato beds", {"Garden.md": 1, "reports/2025.md": 3}),
    "harvest": ("harvest", {"reports/2025.md": 1}),
    "bread": ("hot oven", {"Bread.md": 1}),
}
NOW = datetime(2026, 11, 22, tzinfo=UTC)


@pytest.fixture
def resources(vault, tmp_path, tiny_model):
    made = Resources(Settings(vault=vault, state=tmp_path / "state", embedding_model=str(tiny_model)))
    index(made, {"_domains.yaml": DOMAINS, **NOTES})
    return made


def index(resources, notes):
    for path, text in notes.items():
        (resources.root / path).parent.mkdir(exist_ok=True)
        (resources.root / path).write_text(text, encoding="utf-8")
    caches = resources.caches()
    reconcile(resources.root, resources.registry(), caches, max_bytes=10**6)
    for domain in resources.domains():
        cache = caches[domain.slug]
        while cache.counts().pending:  # a slice ends after a time, which a slow machine needs for one note
            index_words(cache, resources.ingest(domain, cache))
        while cache.counts().vectors_pending:
            embed_pending(cache, resources.ingest(domain, cache))


def asked(resources):
    return View(resources, wait_for_model=True)


def test_what_is_measured_is_what_a_search_answers(resources):
    (resources.root / "Bread.md").unlink()
    questions = asked(resources)
    for query, found in measure(questions, JUDGED, {"": as_it_is}, NOW)[""].items():
        text, grades = JUDGED[query]
        first, more = (
            [hit.path for hit in questions.search(read_question(text), k).results] for k in (10, 60)
        )
        assert found == figures(first, more, grades)
    assert measure(questions, JUDGED, {"": as_it_is}, NOW)[""]["bread"].recall_60 == 0.0


def test_a_note_that_is_folded_behind_its_copy_is_found_where_the_copy_is(resources):
    questions = asked(resources)
    (hit,) = [hit for hit in questions.search(read_question("hot oven"), 10).results if hit.alike]
    found = {
        path: measure(questions, {"q": ("hot oven", {path: 1})}, {"": as_it_is}, NOW)[""]["q"]
        for path in ("Bread.md", "Copy.md")
    }
    assert {hit.path, hit.alike[0].path} == set(found)
    assert found["Bread.md"] == found["Copy.md"]
    assert found["Bread.md"].recall_10 == 1.0


def test_measuring_is_no_question_of_a_user(resources):
    measure_steps(asked(resources), JUDGED)
    assert not (resources.place.state / LAST_QUERY_FILE).exists()


def test_each_step_has_one_layer_more_and_the_last_has_all(resources):
    found = measure_steps(asked(resources), JUDGED)
    assert list(found.means) == ["meaning", "words", "fused", *list(SIGNALS)[2:]]
    assert list(found.means.values())[-1] == compare(lambda: asked(resources), JUDGED, [], []).as_it_is


@pytest.mark.parametrize("layer", SIGNALS)
def test_no_note_has_a_signal_of_a_layer_that_is_left_out(resources, layer):
    for text, _ in JUDGED.values():
        for one in asked(resources).ranked(read_question(text), 10, way=without([layer])).found:
            assert one.hit.signals.get(layer, 0.0) == 0.0


def test_a_layer_adds_what_is_lost_without_it_and_a_setting_what_is_gained_with_it(resources):
    found = compare(lambda: asked(resources), JUDGED, ["decay"], ["decay.mode=off"])
    layer, setting = found.changes
    assert layer.means == setting.means
    assert layer.verdict.gain == pytest.approx(found.as_it_is.ndcg_10 - layer.means.ndcg_10)
    assert layer.verdict.gain == pytest.approx(-setting.verdict.gain)


def test_runs_that_differ_give_no_verdict(resources):
    runs = []

    def ask_anew():
        runs.append(1)
        if len(runs) == 4:  # the first one only reads the settings
            index(resources, {"reports/2026.md": NOTES["reports/2025.md"].replace("2025", "2026") + " Beds!"})
        return asked(resources)

    (change,) = compare(ask_anew, JUDGED, ["decay"], []).changes
    assert change.verdict is None


def test_attention_does_not_change_while_it_is_measured(resources):
    attention, runs = resources.stores.of(Attention), []

    def ask_anew():
        runs.append(1)
        if len(runs) == 3:  # the user goes on after the first run
            attention.add(["reports/2024.md"], "opened", datetime.now(UTC).timestamp())
        return asked(resources)

    (change,) = compare(ask_anew, JUDGED, [], ["attention=0.9"]).changes
    assert change.verdict is not None
    assert change.verdict.differing == 0
    (later,) = compare(lambda: asked(resources), JUDGED, [], ["attention=0.9"]).changes
    assert later.verdict.differing > 0


def test_measuring_is_no_choice(resources):
    settings = resources.settings.model_copy(update={"attention": True})
    measure_steps(asked(Resources(settings)), JUDGED)
    compare(lambda: asked(Resources(settings)), JUDGED, ["attention"], ["attention=0.5"])
    assert resources.stores.of(Attention).choices() == []


def test_a_setting_that_cannot_be_compared_is_refused_before_anything_is_asked(resources):
    with pytest.raises(ConfigurationError, match="another index"):
        compare(lambda: asked(resources), JUDGED, [], ["embedding=x"])


def test_a_domain_that_cannot_be_asked_cannot_be_measured(resources):
    con = connect(resources.state().cache_path("reports"))
    con.execute("DROP TABLE vault_node")
    con.close()
    with pytest.raises(CacheError, match="reports cannot be asked"):
        measure_steps(asked(Resources(resources.settings)), JUDGED)


def test_notes_that_should_be_found_and_are_not_indexed_are_named(resources):
    judged = {**JUDGED, "typo": ("typo", {"Gardn.md": 1})}
    assert not_indexed(asked(resources), judged) == ["Gardn.md"]


# Another model


BY_MEANING = {**JUDGED, "sleep": ("sleep and dream", {"Bread.md": 1})}
"""With a question that shares no word with any note."""


def compared(resources, model, told=None):
    tell = (lambda _: None) if told is None else told.append
    with indexed_with(resources, model, tell, lambda *_: None) as ask:
        (change,) = compare(
            lambda: asked(resources), BY_MEANING, [], [], {"other": (ask, BY_MEANING)}
        ).changes
    return change


def everything_in(resources):
    """Return each file of the state folder, with its size; SQLite makes and removes its journals."""
    files = resources.place.state.iterdir()
    return sorted(
        (file.name, file.stat().st_size) for file in files if not file.name.endswith(("-wal", "-shm"))
    )


def with_model(resources, model):
    return Resources(resources.settings.model_copy(update={"embedding_model": str(model)}))


def test_another_model_is_measured_by_an_index_of_its_own_which_is_gone_afterwards(
    resources, tiny_model, tmp_path
):
    before, told = everything_in(resources), []
    change = compared(resources, str(shutil.copytree(tiny_model, tmp_path / "same")), told)
    assert (change.kind, change.verdict.differing) == ("setting", 0)
    assert told[0] > 0
    assert everything_in(resources) == before
    assert all(not verdict.differences for verdict in verify_caches(resources).values())


def test_words_alone_are_measured_as_an_index_without_a_model_answers(resources):
    told = []
    change = compared(resources, "none", told)
    assert told == [None]
    assert change.verdict.gain < 0
    other = with_model(resources, "none")
    rebuild_caches(other, lambda *_: None, only_other_models=True)
    assert change.means == compare(lambda: asked(other), BY_MEANING, [], []).as_it_is


def test_vectors_that_a_kept_index_has_are_taken(resources, tiny_model, tmp_path, monkeypatch):
    there = with_model(resources, shutil.copytree(tiny_model, tmp_path / "same"))
    rebuild_caches(there, lambda *_: None, only_other_models=True)
    with monkeypatch.context() as patched:
        patched.setattr(Embedder, "encode_documents", None)
        told = []
        with indexed_with(there, str(tiny_model), told.append, lambda *_: None) as ask:
            assert [cache.counts().vectors_pending for _, cache in ask().readers()] == [0, 0]
    assert told == [None]


def test_attention_counts_for_another_model_too(resources, tiny_model, tmp_path):
    resources.stores.of(Attention).add(["reports/2024.md"], "opened", datetime.now(UTC).timestamp())
    (resources.root / "_domains.yaml").write_text(f"{DOMAINS}  attention: 0.9\n")
    assert compared(resources, str(shutil.copytree(tiny_model, tmp_path / "same"))).verdict.differing == 0


def test_a_model_that_every_domain_has_is_nothing_to_compare(resources, tiny_model):
    with pytest.raises(ConfigurationError, match="nothing to compare"):
        compared(resources, str(tiny_model))


def test_a_folder_that_is_no_model_is_refused_before_anything_is_made(resources, tmp_path):
    with pytest.raises(ModelUnavailableError, match="is not a sentence-transformers model"):
        compared(resources, str(tmp_path))
    assert list(resources.place.state.glob(".compare-*")) == []


def test_a_comparison_with_a_model_is_printed_like_any_other(resources):
    (resources.root / "_queries.yaml").write_text("tomato beds: Garden.md\n")
    place = ["--vault", str(resources.root), "--state", str(resources.place.state)]

    def run(*words):
        return CliRunner().invoke(app, ["eval", *words, *place])

    done = run("--compare", "embedding = none", "--compare", "decay.mode=off")
    assert done.exit_code == 0, done.output
    assert "indexing the vault with none\n" in done.stderr
    assert "embedding = none: too few questions to tell. It would add" in done.stdout
    assert "decay.mode=off: too few questions to tell. It would add" in done.stdout
    wrong = run("--compare", "embedding=none", "--compare", "decay.mode=fast")
    assert isinstance(wrong.exception, ConfigurationError)
    assert "indexing" not in wrong.stderr
    assert "'embedding=' is not a setting" in str(run("--compare", "embedding=").exception)


def test_a_layer_that_there_is_not_is_refused_with_those_that_there_are(tmp_path):
    done = CliRunner().invoke(app, ["eval", "--without", "decay,links", "--vault", str(tmp_path)])
    assert done.exit_code == 2
    assert "'links' is not a layer; the layers are meaning, words" in done.output
