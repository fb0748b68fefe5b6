"""Every hit says what each signal adds to its score, and a note is explained as a search ranks it."""

from __future__ import annotations

import random
import shutil

import pytest
import yaml
from fastapi import FastAPI
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from pipelines.question import read_question
from pipelines.search.fusion import NoteHit
from queue_config.settings import Settings
from service.http.routes import add_search
from service.usecases.explain import explain
from service.usecases.maintenance import index_once
from service.usecases.search import View, score_of, signals_of
from service.usecases.text import as_sum
from workers.resources import Resources

WORDS = [
    "garden",
    "compost",
    "tomato",
    "bread",
    "yeast",
    "oven",
    "river",
    "boat",
    "sail",
    "winter",
    "harvest",
    "KLVN-2025",
    "backlog",
    "moat",
    "price",
]
DOMAINS = {"whole": {"legacy": True}, "same": {}, "other": {}}


def write_vault(root, chance):
    """Write notes of two domains of one model and one of another, with authors, dates, titles and links."""
    paths = [f"{folder}{n}.md" for folder in ("", "same/", "other/") for n in range(14)]
    for path in paths:
        (root / path).parent.mkdir(exist_ok=True)
        head = {"title": " ".join(chance.sample(WORDS, 2))}
        if chance.random() < 0.6:
            head |= {"author": chance.choice("AB"), "published_at": f"20{chance.randint(10, 26)}-01-01"}
        text = " ".join(chance.choices(WORDS, k=chance.randint(3, 40)))
        links = " ".join(f"[[{one.removesuffix('.md')}]]" for one in chance.sample(paths, 3))
        (root / path).write_text(f"---\n{yaml.safe_dump(head)}---\n{text}\n\n{links}\n", encoding="utf-8")
    (root / "copy.md").write_bytes((root / paths[0]).read_bytes())
    return [*paths, "copy.md"]


@pytest.fixture(scope="module")
def vault(tmp_path_factory, tiny_model):
    """An indexed vault: its folder, its notes, and the routes that answer questions about it."""
    base = tmp_path_factory.mktemp("explained")
    root, other = base / "vault", base / "other-model"
    root.mkdir()
    shutil.copytree(tiny_model, other)
    paths = write_vault(root, random.Random(18))  # noqa: S311 - a vault, not a secret
    models = {"whole": str(tiny_model), "same": str(tiny_model), "other": str(other)}
    write_settings(root, {}, models)
    allowed = f"{tiny_model},{other}"
    resources = Resources(Settings(vault=root, state=base / "state", allowed_models=allowed))
    index_once(resources, lambda *_: None)
    assert len({resources.reader(domain).meta.model for domain in resources.domains()}) == 2
    app = FastAPI()
    add_search(app, View(resources, wait_for_model=True), resources.queue())
    return root, paths, models, TestClient(app)


def write_settings(root, given, models):
    domains = {
        slug: {**fixed, **given.get(slug, {}), "embedding": models[slug]} for slug, fixed in DOMAINS.items()
    }
    (root / "_domains.yaml").write_text(yaml.safe_dump(domains), encoding="utf-8")


WEIGHTS = st.floats(0, 3).map(lambda weight: round(weight, 3))
SETTINGS = st.fixed_dictionaries(
    {},
    optional={
        "fusion": st.sampled_from(["rrf", "convex"]),
        "lexical": st.fixed_dictionaries({"weight": WEIGHTS}),
        "decay": st.fixed_dictionaries(
            {"mode": st.sampled_from(["off", "ranked_grouped"])},
            optional={"ladder": st.lists(WEIGHTS, min_size=1, max_size=4), "recency_boost_amount": WEIGHTS},
        ),
        "graph": st.fixed_dictionaries({"mode": st.sampled_from(["off", "linear", "lift"])}),
    },
)
QUESTIONS = st.lists(st.sampled_from([*WORDS, '"river boat"', "-winter", "of"]), min_size=1, max_size=5).map(
    " ".join
)
ASKED = st.sampled_from([[], ["whole"], ["other"], ["whole", "same"], ["same", "other"]])


@settings(max_examples=25)
@given(st.fixed_dictionaries(dict.fromkeys(DOMAINS, SETTINGS)), QUESTIONS, ASKED, st.integers(1, 40))
def test_the_signals_of_every_hit_add_up_to_its_score(vault, given, question, domains, k):
    root, _, models, client = vault
    write_settings(root, given, models)
    answer = client.get("/search", params={"q": question, "k": k, "explain": 1, "domain": domains}).json()
    for hit in answer["results"]:
        assert sum(hit["signals"].values()) == pytest.approx(hit["score"], abs=1e-6)
        assert all(hit["signals"].values())


@settings(max_examples=25)
@given(st.fixed_dictionaries(dict.fromkeys(DOMAINS, SETTINGS)), QUESTIONS, st.integers(1, 20), st.data())
def test_a_note_is_explained_as_a_search_of_all_domains_ranks_it(vault, given, question, k, data):
    root, paths, models, client = vault
    write_settings(root, given, models)
    path = data.draw(st.sampled_from(paths))
    said = client.get("/explain", params={"q": question, "path": path, "k": k}).json()
    results = client.get("/search", params={"q": question, "k": k, "explain": 1}).json()["results"]
    places = [hit["path"] for hit in results]
    assert said["result"] == (places.index(path) + 1 if path in places else None)
    if said["score"] is not None:
        assert sum(said["signals"].values()) == pytest.approx(said["score"], abs=1e-6)
    if path in places:
        hit = results[places.index(path)]
        assert {name: said[name] for name in ("score", "signals", "layers", "domain")} == {
            name: hit[name] for name in ("score", "signals", "layers", "domain")
        }
        assert said["reason"].startswith("it is number ")
    behind = {one["path"]: hit["path"] for hit in results for one in hit["alike"]}
    if path in behind:
        assert said["reason"].startswith(f"it is folded behind {behind[path]}, result ")


def test_a_note_whose_file_is_gone_is_reported_as_gone(vault):
    root, paths, models, client = vault
    write_settings(root, {}, models)
    kept = (root / paths[0]).read_bytes()
    (root / paths[0]).unlink()
    said = client.get("/explain", params={"q": "garden", "path": paths[0]}).json()
    (root / paths[0]).write_bytes(kept)
    assert said["reason"] == "its file is gone, and no answer has a note without a file"


@given(st.dictionaries(st.text("abc", min_size=1), st.floats(-2, 2), max_size=12))
def test_what_is_shown_of_a_sum_adds_up_whatever_is_rounded(signals):
    hit = NoteHit("a.md", 1, signals)
    assert sum(signals_of(hit).values()) == pytest.approx(score_of(hit), abs=1e-9)
    assert all(value == pytest.approx(signals[name], abs=1e-5) for name, value in signals_of(hit).items())


def test_a_sum_reads_as_a_person_writes_it():
    assert as_sum(0.9, {"meaning": 0.5, "words": 0.420001, "decay": -0.020001}) == (
        "0.9 = meaning 0.5 + words 0.420001 \N{MINUS SIGN} decay 0.020001"
    )
    assert as_sum(0.0, {}) == "0"


def test_a_copy_is_said_to_be_folded_behind_its_original(vault):
    root, paths, models, client = vault
    write_settings(root, {}, models)
    *_, text = (root / paths[0]).read_text(encoding="utf-8").split("---\n")
    asked = {"q": " ".join(text.split()[:9]), "k": 40}
    hits = client.get("/search", params=asked).json()["results"]
    (behind,) = [
        one["path"]
        for hit in hits
        for one in hit["alike"]
        if {one["path"], hit["path"]} == {paths[0], "copy.md"}
    ]
    said = client.get("/explain", params={**asked, "path": behind}).json()
    assert said["result"] is None
    assert "whose best passage says the same" in said["reason"]


def test_a_result_that_only_a_deeper_ranking_gives_is_explained(vault_of_one_long_note):
    answer = vault_of_one_long_note.search(read_question("heron"), 10, explain=True)
    assert answer.count == 10
    for place, hit in enumerate(answer.results, start=1):
        said = explain(vault_of_one_long_note, read_question("heron"), hit.path, 10)
        assert (said.result, said.score, said.signals, said.layers) == (
            place,
            hit.score,
            hit.signals,
            hit.layers,
        )
        assert said.reason.startswith(f"it is number {place} of 13 candidates")


@pytest.fixture
def vault_of_one_long_note(tmp_path, tiny_model):
    """Questions, by words alone, to a vault in which one note has more passages than a retriever gives at first."""
    root = tmp_path / "long"
    root.mkdir()
    parts = [
        f"## Part {part}\n\nheron {' '.join(f'w{part}x{n}' for n in range(30))} heron" for part in range(80)
    ]
    (root / "long.md").write_text("\n\n".join(parts))
    for number in range(12):
        (root / f"other {number}.md").write_text(" ".join(f"u{number}x{n}" for n in range(40)) + " heron")
    resources = Resources(Settings(vault=root, state=tmp_path / "state", embedding_model=str(tiny_model)))
    index_once(resources, lambda *_: None)
    return View(resources)
