"""`reembed --older` and `--version`: the notes of a pipeline are indexed again."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from click.testing import CliRunner

from pipelines.cache.cache import SqliteCache
from pipelines.errors import NotRunningError
from pipelines.state.note_log import NoteLog
from queue_config.settings import Settings
from service.cli.main import app
from service.runtime.lock import only_one
from service.usecases import maintenance
from service.usecases.maintenance import index_once
from workers.resources import Resources

OLD = "4:50/7/6000"  # the cut of the tests' model
NONE_SUCH = "no note was indexed by such a pipeline"


@pytest.fixture
def resources(vault, tmp_path, tiny_model):
    """A vault whose notes an earlier pipeline indexed."""
    (vault / "Bread.md").write_text("Bread and yeast.")
    (vault / "Boat.md").write_text("The boat.")
    made = Resources(Settings(vault=vault, state=tmp_path / "state", embedding_model=str(tiny_model)))
    index_once(made, lambda *_: None)
    cache = made.cache(made.domains()[0])
    SqliteCache.create(cache.path, replace(cache.meta, pipeline=OLD)).close()
    cache.con.execute(
        "UPDATE vault_file SET applied_generation = generation, embedded_generation = generation"
    )
    return made


@pytest.fixture
def everindex(resources):
    settings = resources.settings
    place = ["--vault", str(settings.vault), "--state", str(settings.state)]
    return lambda *words: CliRunner().invoke(
        app, [*words, *place], env={"EMBEDDING_MODEL": str(settings.embedding_model)}
    )


def last(done):
    return done.stdout.splitlines()[-1]


def indexed_again(resources, path):
    """Return how many texts were embedded each time after the first, which has two entries."""
    return [entry.texts_embedded for entry in resources.stores.of(NoteLog).of_note(path, 100)][:-2]


@pytest.mark.parametrize("chosen", [["--older"], ["--version", "4"], ["--version", OLD]])
def test_the_notes_of_an_earlier_pipeline_are_indexed_again_once(everindex, resources, chosen):
    pipeline = resources.cache(resources.domains()[0]).meta.pipeline
    assert last(everindex("reembed", *chosen)) == f"vault: 2 notes indexed again by the pipeline {pipeline}"
    assert indexed_again(resources, "Bread.md") == [0]
    assert last(everindex("reembed", *chosen)) == NONE_SUCH
    assert indexed_again(resources, "Bread.md") == [0]


def test_the_notes_of_the_current_pipeline_are_indexed_again_each_time(everindex, resources):
    everindex("index")
    for times in (2, 3):
        current = resources.cache(resources.domains()[0]).meta.pipeline
        assert last(everindex("reembed", "--version", current)).startswith("vault: 2 notes indexed again")
        assert indexed_again(resources, "Boat.md") == [0] * times


def test_a_note_that_cannot_be_indexed_is_counted_apart(everindex, resources):
    (resources.root / "Bread.md").write_bytes(b"x" * 11_000_000)
    done = last(everindex("reembed", "--older"))
    assert done.startswith("vault: 1 note indexed again")
    assert done.endswith("; 1 could not be, `everindex why` says why")


def test_a_version_that_indexed_nothing_and_two_choices_at_once_are_refused(everindex):
    assert last(everindex("reembed", "--version", "1")) == NONE_SUCH
    assert everindex("reembed", "--version", "1", "--older").exit_code == 2


def test_a_worker_that_takes_long_for_a_note_is_waited_for(resources, monkeypatch):
    monkeypatch.setattr(maintenance, "_PATIENCE_SECONDS", 0.3)
    (domain,) = resources.domains()
    cache = resources.cache(domain)
    cache.ledger.want_again()
    taken = cache.leases.take("words", 9, "a worker that reads scanned pages")
    began = time.monotonic()

    def release_later(*_):
        if time.monotonic() - began > 1:
            cache.leases.release(taken)

    with only_one(resources.place.state), pytest.raises(NotRunningError, match="no worker takes them up"):
        maintenance.complete_work(resources, release_later)
    assert time.monotonic() - began > 1
