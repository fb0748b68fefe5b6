"""A vault whose model endpoints serve: indexed over real HTTP by fakes, through faults, without losing a text."""

from __future__ import annotations

from contextlib import ExitStack, suppress

import numpy as np
import pytest

from pipelines.cache.cache import SqliteCache
from pipelines.embedding.remote import PROBES
from pipelines.errors import ModelUnavailableError
from pipelines.filters import Filters
from pipelines.question import read_question
from queue_config.settings import Settings
from service.usecases.maintenance import index_once, rebuild_caches
from service.usecases.search import View
from service.usecases.status import find_problems
from tests.consumer import work
from tests.fakes.embedding_api import (
    BROKEN,
    DIMENSION,
    HANG,
    MODEL,
    NAN,
    OTHER_MODEL,
    Reply,
    fake_embedding,
    vector_of,
)
from workers.resources import Resources
from workers.tag_context import TaggingContext
from workers.tasks import load_models, make_tasks, reconcile_now

NOTES = {
    f"Note {n}.md": f"# Note {n}\n\nThe {word} of page {n}.\n"
    for n, word in enumerate(["river", "boat"] * 45)
}


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr("pipelines.embedding.remote.RETRY_SECONDS", (0.0, 0.0))
    for name in ("DOCUMENT_SECONDS", "QUESTION_SECONDS", "_PROBE_SECONDS"):
        monkeypatch.setattr(f"pipelines.embedding.remote.{name}", 1.0)


@pytest.fixture
def stack():
    with ExitStack() as opened:
        yield opened


@pytest.fixture
def server(stack):
    return stack.enter_context(fake_embedding())


@pytest.fixture
def second(stack):
    return stack.enter_context(fake_embedding())


@pytest.fixture
def world(vault, tmp_path, stack):
    """Return a function that opens a vault whose endpoints are these fakes, given as (fake, settings)."""

    def make(*fakes, notes=NOTES, **given):
        for path, text in notes.items():
            (vault / path).parent.mkdir(parents=True, exist_ok=True)
            (vault / path).write_text(text)
        endpoints = [
            {"name": f"e{number}", "url": f"{fake.url}/v1", "model": MODEL} | own
            for number, (fake, own) in enumerate(fakes)
        ]
        settings = Settings(
            vault=vault, state=tmp_path / "state", embedding_model=MODEL, endpoints=endpoints, **given
        )
        made = Resources(settings)
        stack.callback(made.embedders.close)
        return made

    return make


def run(resources, turns=60):
    """Work as the worker does until nothing is left that can be done now."""
    queue = resources.queue()
    tasks = make_tasks(queue, resources)
    reconcile_now(queue, tasks, resources)
    for _ in range(turns):
        work(queue)
        try:
            load_models(queue, tasks, resources)
        except ModelUnavailableError:
            break
        if not len(queue.storage.enqueued_items()):
            break
    return queue


def cache_of(resources):
    (domain,) = resources.domains()
    return resources.reader(domain)


def stored(resources):
    """Return each text of the index with its stored vector, None if it has none."""
    cache = cache_of(resources)
    rows = cache.con.execute("SELECT text, text_hash FROM vault_chunk ORDER BY id").fetchall()
    vectors = cache.vectors.of([text_hash for _, text_hash in rows])
    return {text: vectors.get(text_hash) for text, text_hash in rows}


def none_lost_none_foreign(resources, notes=NOTES):
    found = stored(resources)
    assert len(found) == len(notes)
    assert all(vector is not None for vector in found.values())
    assert all(np.allclose(vector, vector_of(text), atol=1e-5) for text, vector in found.items())
    assert cache_of(resources).ledger.parked_notes() == []


def none_foreign(resources):
    found = {text: vector for text, vector in stored(resources).items() if vector is not None}
    assert all(np.allclose(vector, vector_of(text), atol=1e-5) for text, vector in found.items())
    assert cache_of(resources).ledger.parked_notes() == []
    return found


def problems(resources):
    return {
        found.subject: found.message for found in resources.problems().reported() if found.kind == "endpoint"
    }


def ask(resources, text="river page"):
    view = View(resources)
    with suppress(ModelUnavailableError):
        view.load_models()
    return view.search(read_question(text, Filters()), 5)


@pytest.fixture
def reopened(stack):
    """Return a function that makes new resources on the same state: what was closed may be tried at once."""

    def make(resources):
        made = Resources(resources.settings)
        stack.callback(made.embedders.close)
        return made

    return make


# Indexing


def test_a_worker_has_endpoints_embed_what_it_indexed(world, server):
    resources = world((server, {}))
    run(resources)
    none_lost_none_foreign(resources)
    assert ask(resources).results
    assert sorted(text for text in server.texts if text in stored(resources)) == sorted(stored(resources))


def test_the_command_that_indexes_uses_endpoints_too(world, server):
    resources = world((server, {}))
    index_once(resources, lambda *_: None)
    none_lost_none_foreign(resources)


def test_a_save_does_not_wait_for_an_endpoint(world, server, monkeypatch):
    resources = world((server, {}), notes={"a.md": "# Soil\n\nclay\n"})
    queue = resources.queue()
    tasks = make_tasks(queue, resources)
    run(resources)
    asked = len(server.requests)
    (resources.root / "b.md").write_text("# Boat\n\nsail\n")
    monkeypatch.setattr(resources.embedders, "bulk", None)  # would be called before a text is embedded
    for path in ("b.md",):
        from workers.tasks import look_at

        _, wanted = look_at(resources, path)
        for slug in wanted:
            tasks.index_notes(slug, [])
    queue.execute(queue.dequeue())
    assert cache_of(resources).ledger.row("b.md").indexed_at
    assert len(server.requests) == asked


def test_the_model_of_a_domain_may_be_one_that_endpoints_serve(vault, tmp_path, server, stack):
    (vault / "_domains.yaml").write_text(f"notes: {{path: notes, embedding: {MODEL}}}\n")
    (vault / "notes").mkdir()
    (vault / "notes" / "a.md").write_text("clay")
    endpoints = [{"url": f"{server.url}/v1", "model": MODEL}]
    resources = Resources(Settings(vault=vault, state=tmp_path / "state", endpoints=endpoints))
    index_once(resources, lambda *_: None)
    stack.callback(resources.embedders.close)
    none_lost_none_foreign(resources, {"notes/a.md": ""})


def test_a_server_may_call_the_model_otherwise(world, server):
    server.model = "gguf"
    resources = world((server, {"model": "gguf", "serves": MODEL}))
    run(resources)
    assert cache_of(resources).meta.model == MODEL
    assert all(request["model"] == "gguf" for request in server.requests)
    assert all(vector is not None for vector in stored(resources).values())


def test_without_an_answer_a_new_index_needs_the_dimension(world, reopened, server):
    server.by_default = lambda _: BROKEN
    with pytest.raises(ModelUnavailableError, match="give `dimension` in its settings"):
        world((server, {})).caches()
    resources = world((server, {"dimension": DIMENSION}))
    run(resources)
    assert [vector for vector in stored(resources).values() if vector is not None] == []
    assert len(stored(resources)) == len(NOTES)
    server.by_default = lambda _: Reply()
    again = reopened(resources)
    run(again)
    none_lost_none_foreign(again)


def test_a_start_asks_no_endpoint_for_the_dimension_of_an_index(world, reopened, server):
    resources = world((server, {}))
    run(resources)
    server.by_default = lambda _: BROKEN
    again = reopened(resources)
    again.check_models()
    again.caches()


# Faults


FAULTS = {"another model": OTHER_MODEL, "NaN": NAN, "500": BROKEN, "hang": HANG, "429": Reply(status=429)}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_the_middle_of_an_index_loses_no_text_and_stores_no_foreign_vector(
    world, server, second, fault
):
    seen = []

    def from_then_on(texts):
        seen.append(texts)
        return FAULTS[fault] if len(seen) > 2 else Reply()

    server.by_default = from_then_on
    resources = world((server, {}), (second, {}))
    run(resources)
    none_lost_none_foreign(resources)
    assert "e0" in problems(resources)
    assert ask(resources).results


def test_an_endpoint_that_dies_in_the_middle_of_an_index_is_replaced_by_the_next(world, server, second):
    seen = []

    def dying(texts):
        seen.append(texts)
        if len(seen) == 3:
            return Reply(how="dropped")
        return Reply(how="dropped") if len(seen) > 3 else Reply()

    server.by_default = dying
    resources = world((server, {}), (second, {}))
    run(resources)
    none_lost_none_foreign(resources)


@pytest.mark.parametrize("fault", FAULTS)
def test_with_no_endpoint_left_words_are_indexed_and_vectors_stay_owed(world, reopened, server, fault):
    seen = []

    def from_then_on(texts):
        seen.append(texts)
        return FAULTS[fault] if len(seen) > 2 else Reply()

    server.by_default = from_then_on
    resources = world((server, {}))
    queue = run(resources)
    none_foreign(resources)
    assert len(stored(resources)) == len(NOTES)
    answer = ask(resources)
    assert answer.results
    assert answer.index.vectors_pending == len(NOTES)
    assert any("e0" in text and "tried again at" in text for text in find_problems(resources, queue))
    server.by_default = lambda _: Reply()
    again = reopened(resources)
    run(again)
    none_lost_none_foreign(again)
    assert problems(again) == {}
    assert ask(again).index.vectors_pending == 0


def test_a_question_is_answered_by_words_while_the_endpoint_hangs(world, server):
    resources = world((server, {}))
    run(resources)
    view = View(resources)
    view.load_models()
    server.by_default = lambda _: HANG
    answer = view.search(read_question("river", Filters()), 5)
    assert answer.results
    assert all(hit.similarity is None for hit in answer.results)


def test_what_is_closed_makes_no_hints(world, server):
    resources = world((server, {}))
    queue = run(resources)
    server.by_default = lambda _: BROKEN
    (resources.root / "new.md").write_text("# New\n\nfrost\n")
    queue = run(resources)
    tasks = make_tasks(resources.queue(), resources)
    work(queue)
    from workers.tasks import hint

    for domain in resources.domains():
        hint(queue, tasks, domain, resources.cache(domain))
    assert len(queue.storage.enqueued_items()) == 0


# Which model


def test_the_probes_are_kept_in_the_index(world, server):
    resources = world((server, {}))
    run(resources)
    kept = cache_of(resources).vectors.probes()
    assert np.allclose(kept, [vector_of(text) for text in PROBES], atol=1e-5)


def test_another_model_under_the_same_name_is_refused_after_a_restart(world, reopened, server):
    resources = world((server, {}))
    run(resources)
    server.by_default = lambda _: OTHER_MODEL
    (resources.root / "new.md").write_text("# New\n\nfrost\n")
    again = reopened(resources)
    run(again)
    none_foreign(again)
    assert "it serves another model" in problems(again)["e0"]


def test_a_rebuilt_index_takes_the_vectors_that_were_paid_for(world, server):
    resources = world((server, {}))
    run(resources)
    seen = set(server.texts)
    asked = len(server.texts)
    rebuild_caches(resources, lambda *_: None)
    none_lost_none_foreign(resources)
    assert set(server.texts) == seen
    assert len(server.texts) <= asked + len(PROBES)


def test_an_index_that_a_local_model_made_is_not_filled_by_endpoints(
    vault, tmp_path, tiny_model, server, stack
):
    (vault / "a.md").write_text("# Soil\n\nclay\n")
    here = Settings(vault=vault, state=tmp_path / "state", embedding_model=str(tiny_model))
    index_once(Resources(here), lambda *_: None)
    server.dimension = 32
    endpoints = [{"url": f"{server.url}/v1", "model": MODEL, "serves": str(tiny_model)}]
    (vault / "b.md").write_text("# Boat\n\nsail\n")
    resources = Resources(here.model_copy(update={"endpoints": Settings(endpoints=endpoints).endpoints}))
    with pytest.raises(ModelUnavailableError, match="may have the vectors of another model"):
        index_once(resources, lambda *_: None)
    stack.callback(resources.embedders.close)
    assert sum(vector is not None for vector in stored(resources).values()) == 1


def test_an_index_that_endpoints_made_is_not_filled_by_a_local_model(
    vault, tmp_path, tiny_model, server, stack
):
    (vault / "a.md").write_text("# Soil\n\nclay\n")
    server.dimension = 32
    endpoints = [{"url": f"{server.url}/v1", "model": MODEL, "serves": str(tiny_model)}]
    name = str(tiny_model)
    there = Settings(vault=vault, state=tmp_path / "state", embedding_model=name, endpoints=endpoints)
    first = Resources(there)
    index_once(first, lambda *_: None)
    stack.callback(first.embedders.close)
    (vault / "b.md").write_text("# Boat\n\nsail\n")
    resources = Resources(there.model_copy(update={"endpoints": []}))
    with pytest.raises(ModelUnavailableError, match="may have the vectors of another model"):
        index_once(resources, lambda *_: None)
    assert sum(vector is not None for vector in stored(resources).values()) == 1


# Private notes


PRIVATE = {
    "open.md": "# Open\n\nThe river is wide.\n",
    "own.md": "---\nprivate: true\n---\n# Own\n\nThe doctor said frost.\n",
    "private/diary.md": "# Diary\n\nI met the clay.\n",
}
SECRETS = ("The doctor said frost.", "I met the clay.")


def seen_of(server):
    return " ".join(server.texts)


def test_private_notes_go_only_to_local_endpoints(world, server, second):
    resources = world((server, {}), (second, {"local": True}), notes=PRIVATE)
    run(resources)
    none_lost_none_foreign(resources, PRIVATE)
    assert not any(secret in seen_of(server) for secret in SECRETS)
    assert all(secret in seen_of(second) for secret in SECRETS)
    assert "The river is wide." in seen_of(server)


def test_without_a_local_endpoint_private_notes_are_found_by_words_and_status_says_so(world, server):
    resources = world((server, {}), notes=PRIVATE)
    queue = run(resources)
    assert not any(secret in seen_of(server) for secret in SECRETS)
    assert len(none_foreign(resources)) == 1
    assert "own.md" in [hit.path for hit in ask(resources, "doctor frost").results]
    said = [text for text in find_problems(resources, queue) if "2 private notes" in text]
    assert len(said) == 1
    assert "local: true" in said[0]
    # They do not keep the worker busy, and count as no vectors that wait.
    assert len(queue.storage.enqueued_items()) == 0
    assert not cache_of(resources).leases.has_pending("vectors")
    assert cache_of(resources).vectors.pending() == 0
    index_once(resources, lambda *_: None)


def test_nothing_of_a_domain_without_language_models_leaves_the_machine(world, vault, server):
    (vault / "_domains.yaml").write_text("notes: {path: notes, llm: off}\n")
    resources = world((server, {}), notes={f"notes/{path}": text for path, text in PRIVATE.items()})
    run(resources)
    assert len(stored(resources)) == 3
    assert set(server.texts) <= set(PROBES)


def test_a_note_that_becomes_private_is_sent_no_more(world, server):
    resources = world((server, {}), notes={"a.md": "# A\n\nThe river is wide.\n"})
    run(resources)
    (resources.root / "a.md").write_text("---\nprivate: true\n---\n# A\n\nThe doctor said frost.\n")
    run(resources)
    assert "frost" not in seen_of(server)


def test_private_notes_whose_endpoint_failed_delay_no_others(world, server, second):
    second.by_default = lambda _: BROKEN
    resources = world((server, {}), (second, {"local": True}), notes=PRIVATE | NOTES)
    run(resources)
    assert len(none_foreign(resources)) == len(NOTES) + 1
    assert not any(secret in seen_of(server) for secret in SECRETS)


# Sentences


def test_sentences_are_sent_to_local_endpoints_alone(world, server, second):
    two = {"a.md": "# A\n\nThe river is wide. The boat is old.\n"}
    resources = world((server, {}), (second, {"local": True}), notes=two)
    index_once(resources, lambda *_: None)
    assert "The boat is old." not in server.texts
    assert "The boat is old." in second.texts
    assert not ask(resources).index.refining


def test_without_a_local_endpoint_excerpts_are_chosen_by_words(world, server):
    two = {"a.md": "# A\n\nThe river is wide. The boat is old.\n"}
    resources = world((server, {}), notes=two)
    index_once(resources, lambda *_: None)
    answer = ask(resources, "boat")
    assert answer.results[0].excerpt_by == "words"
    assert not answer.index.refining
    assert "The boat is old." not in server.texts


# Money


def test_the_days_limit_ends_paid_requests(world, server):
    resources = world((server, {"usd_per_million_tokens": 1_000_000}), embedding_usd_a_day=0.5)
    run(resources)
    assert none_foreign(resources) == {}
    assert "the day's limit is reached" in problems(resources)["e0"]
    texts = [text for text in server.texts if text not in PROBES]
    assert texts == []


def test_what_was_spent_counts_after_a_restart(world, server):
    from datetime import UTC, datetime

    from pipelines.model import EndpointUse
    from pipelines.state.endpoints import EndpointUses

    resources = world((server, {"usd_per_million_tokens": 0.01}), embedding_usd_a_day=0.5)
    today = datetime.now(UTC).date().isoformat()
    resources.stores.of(EndpointUses).add(today, EndpointUse("e0", 1, 0, 10, 10, 0.6))
    run(resources)
    assert none_foreign(resources) == {}
    uses = resources.stores.of(EndpointUses).of_day(today)
    assert uses["e0"].requests > 1


def test_an_old_cache_opens_without_probes(world, server):
    resources = world((server, {}))
    assert SqliteCache.open(next(iter(resources.caches().values())).path).vectors.probes() == []


# Tags


VOCABULARY = "# Tags\n\n## Topics\n\n- soil: what grows in beds\n- boats: what sails\n"


@pytest.mark.parametrize(("llm", "is_sent"), [("on", True), ("off", False)])
def test_a_vocabulary_goes_where_its_domains_notes_may_go(world, vault, server, second, llm, is_sent):
    (vault / "_domains.yaml").write_text(f"notes: {{path: notes, llm: {llm}}}\n")
    notes = {f"notes/{path}": text for path, text in PRIVATE.items()}
    resources = world(
        (server, {}), (second, {"local": True}), notes=notes | {"notes/_taxonomy.md": VOCABULARY}
    )
    run(resources)
    context = TaggingContext(resources)
    (domain,) = resources.domains()
    assert context.vocabulary(domain).error is None
    context.proposing(domain).local()
    # As a note it quotes notes, perhaps; here its tags count.
    sent, kept = (
        [text for text in one.texts if "sails" in text and "##" not in text] for one in (server, second)
    )
    assert bool(sent) is is_sent
    assert bool(kept) is not is_sent
