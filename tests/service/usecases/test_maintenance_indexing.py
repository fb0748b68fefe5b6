"""An index keeps its way of splitting and embedding notes until `everindex reembed` has filled another."""

from __future__ import annotations

import shutil

import pytest

from pipelines.embedding.embedder import Embedder
from pipelines.indexing.ingest import chunking_of
from pipelines.maintenance import rebuild
from pipelines.maintenance.backup import database_files
from pipelines.question import read_question
from pipelines.sqlite import connect
from pipelines.state.state import EMBEDDING_SPEED, EmbeddingSpeed
from queue_config.settings import Settings
from service.usecases.maintenance import (
    index_once,
    rebuild_caches,
    remove_kept,
    stored_indexes,
    verify_caches,
)
from service.usecases.search import View
from workers.resources import Resources

NOTE = "---\ntitle: Sourdough\n---\nFlour and water.\n\n## Feeding\n\nFeed it twice a day.\n"
OTHERS = [{"embedding_context": "breadcrumb"}, {"chunk_target_words": 40}]


@pytest.fixture
def opened(vault, tmp_path, tiny_model):
    """Return the function that opens the vault with some settings, as a process does."""

    def open_with(**changed):
        given = {"vault": vault, "state": tmp_path / "state", "embedding_model": str(tiny_model)}
        return Resources(Settings(**given | changed))

    (vault / "bread.md").write_text(NOTE)
    (vault / "river.md").write_text("# River\n\nA boat on the river.\n")
    return open_with


def index(resources):
    return index_once(resources, lambda *_: None)


def reembed(resources):
    return rebuild_caches(resources, lambda *_: None, only_other_models=True)


def break_off_reembed(resources, monkeypatch):
    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(rebuild, "embed_pending", killed)
        with pytest.raises(KeyboardInterrupt):
            reembed(resources)


def meta(resources):
    (domain,) = resources.domains()
    return resources.reader(domain).meta


def cost(resources):
    (domain,) = View(resources).health(resources.queue()).domains.values()
    return domain.reembed


def found(resources, question):
    return [
        hit.path for hit in View(resources, wait_for_model=True).search(read_question(question), 5).results
    ]


def test_an_index_says_which_files_it_could_have_besides(vault, opened):
    assert not any("could be indexed" in line for line in index(opened()))
    (vault / "report.pdf").write_bytes(b"%PDF-1.4")
    assert index(opened())[-2:] == [
        "1 other file could be indexed: 1 pdf",
        f"  `everindex init {vault}` writes a _domains.yaml with the formats of your files",
    ]


@pytest.mark.parametrize("changed", OTHERS)
def test_changed_settings_leave_an_index_as_it_is_and_the_status_says_what_the_switch_costs(opened, changed):
    index(opened())
    before = meta(opened())
    resources = opened(**changed)
    (said,) = index(resources)
    assert "0 changed" in said
    assert "0 texts embedded" in said
    assert meta(resources) == before
    waits = cost(resources)
    assert (waits.texts, waits.seconds) == (3, None)
    resources.state().put(EMBEDDING_SPEED, EmbeddingSpeed(0.1), "vault")
    assert cost(resources).seconds == 30
    assert cost(opened()) is None


def test_the_cost_names_both_ways(opened):
    index(opened())
    change = cost(opened(embedding_context="title", chunk_target_words=40)).change
    assert "embedding_context off, and the settings say title" in change
    assert "the settings say 40" in change


def test_settings_that_cannot_split_notes_are_a_problem_and_the_index_keeps_its_passages(opened):
    index(opened())
    resources = opened(chunk_overlap_words=900)
    health = View(resources).health(resources.queue())
    (problem,) = [one for one in health.problems if "overlap" in one]
    assert problem.startswith("vault: chunks of 50 words cannot overlap by 900: set an overlap from 0")
    assert (health.status, cost(resources)) == ("degraded", None)
    assert found(resources, "boat")[0] == "river.md"


@pytest.mark.parametrize("changed", OTHERS)
def test_reembed_builds_another_index_beside_the_old_one_and_switches(opened, changed):
    index(opened())
    before = meta(opened()).pipeline
    resources = opened(**changed)
    (line,) = reembed(resources)
    assert "cache-vault.1.db is kept" in line
    assert meta(resources).pipeline != before
    assert cost(resources) is None
    assert reembed(resources) == []
    (verdict,) = verify_caches(resources).values()
    assert verdict.differences == ()
    assert found(resources, "feed")[0] == "bread.md"


def test_only_passages_with_a_context_are_embedded_again(opened):
    index(opened())
    (line,) = reembed(opened(embedding_context="breadcrumb"))
    assert "2 texts embedded" in line  # `# River` begins with its title


@pytest.mark.parametrize("changed", ["context", "model"])
def test_changing_the_model_or_the_context_and_back_embeds_nothing(
    opened, tmp_path, tiny_model, changed, monkeypatch
):
    other = shutil.copytree(tiny_model, tmp_path / "another")
    there = {"embedding_context": "breadcrumb"} if changed == "context" else {"embedding_model": str(other)}
    index(opened())
    reembed(opened(**there))
    with monkeypatch.context() as patched:
        patched.setattr(Embedder, "encode_queries", None)  # that encodes sentences, too
        patched.setattr(Embedder, "encode_documents", None)
        for back in ({}, there):
            (line,) = reembed(opened(**back))
            assert "0 texts embedded" in line
    (verdict,) = verify_caches(opened(**there)).values()
    assert verdict.differences == ()


def test_kept_indexes_are_listed_and_removed_and_those_in_use_are_not(opened):
    index(opened())
    resources = opened(embedding_context="breadcrumb")
    reembed(resources)
    used, kept = stored_indexes(resources)
    assert (kept.domain, kept.path.name, kept.context) == ("vault", "cache-vault.1.db", "off")
    assert (used.domain, used.path.name, used.context) == ("vault", "cache-vault.2.db", "breadcrumb")
    assert [(one.in_use, one.vectors) for one in (used, kept)] == [(True, 3), (False, 3)]
    assert kept.size >= kept.path.stat().st_size > 0
    assert kept.model == resources.settings.embedding_model
    for file in database_files(kept.path):
        file.unlink(missing_ok=True)
    kept.path.write_bytes(b"damaged")
    assert [one.model for one in remove_kept(resources)] == [None]
    assert [one.path for one in stored_indexes(resources)] == [used.path]
    assert [file.name for file in resources.place.state.glob("cache-*.db")] == ["cache-vault.2.db"]
    assert found(resources, "boat")[0] == "river.md"


def test_a_kept_index_says_nothing_of_which_files_there_are(opened, vault):
    (vault / "boat.md").write_text("[[river]]")
    index(opened())
    resources = opened(embedding_context="breadcrumb")
    reembed(resources)
    (vault / "river.md").unlink()
    (domain,) = resources.domains()
    resources.cache(domain).con.execute("DELETE FROM vault_file WHERE path = 'river.md'")
    (verdict,) = verify_caches(resources).values()
    said = " ".join(one.detail for one in verdict.differences if one.path == "river.md")
    assert "is gone from the disk, but a link to it still resolves" in said


def test_an_index_that_is_being_built_is_not_a_kept_one(opened, monkeypatch):
    index(opened())
    resources = opened(embedding_context="breadcrumb")
    break_off_reembed(resources, monkeypatch)
    assert [one.in_use for one in stored_indexes(resources)] == [True]


def test_the_index_of_a_domain_that_is_no_more_is_a_kept_one(vault, opened):
    (vault / "_domains.yaml").write_text("notes: {path: notes}\nrest: {legacy: true}\n")
    index(opened())
    (vault / "_domains.yaml").write_text("rest: {legacy: true}\n")
    assert [(one.domain, one.in_use) for one in stored_indexes(opened())] == [
        ("rest", True),
        ("notes", False),
    ]


def test_a_reembed_that_is_broken_off_leaves_the_old_index_answering_and_is_resumed(opened, monkeypatch):
    index(opened())
    resources = opened(embedding_context="breadcrumb")
    before = meta(resources)
    break_off_reembed(resources, monkeypatch)
    again = opened(embedding_context="breadcrumb")
    assert meta(again) == before
    assert found(again, "boat")[0] == "river.md"
    assert cost(again) is not None
    (line,) = reembed(again)
    assert "cache-vault.2.db" in line
    assert meta(again).pipeline.endswith(":breadcrumb")


def test_a_build_that_was_broken_off_with_other_settings_is_not_resumed(opened, monkeypatch):
    index(opened())
    break_off_reembed(opened(embedding_context="breadcrumb"), monkeypatch)
    (line,) = reembed(opened(embedding_context="title"))
    assert "cache-vault.3.db" in line


def test_an_interrupted_build_whose_file_is_damaged_is_not_resumed(opened, monkeypatch):
    index(opened())
    resources = opened(embedding_context="breadcrumb")
    break_off_reembed(resources, monkeypatch)
    (half,) = resources.place.state.glob("cache-vault.2.db")
    con = connect(half)
    con.execute("PRAGMA writable_schema = on")
    con.execute("UPDATE sqlite_schema SET rootpage = 999999 WHERE name = 'vault_chunk'")
    con.close()
    (line,) = reembed(opened(embedding_context="breadcrumb"))
    assert "2 notes in cache-vault.3.db" in line


def test_a_domain_has_its_own_context_unless_the_settings_name_one(vault, opened):
    (vault / "_domains.yaml").write_text(
        "notes: {path: notes, embedding_context: off}\nrest: {legacy: true, embedding_context: title}\n"
    )
    (vault / "notes").mkdir()
    (vault / "notes/a.md").write_text(NOTE)
    resources = opened()
    index(resources)
    own = {d.slug: chunking_of(resources.reader(d).meta.pipeline).context for d in resources.domains()}
    assert own == {"notes": "off", "rest": "title"}
    other = opened(embedding_context="breadcrumb")
    assert len(reembed(other)) == 2
    assert {chunking_of(other.reader(d).meta.pipeline).context for d in other.domains()} == {"breadcrumb"}
