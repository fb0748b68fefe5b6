"""A damaged cache affects only its own domain, its message says what to do, and that works."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from pipelines.errors import CacheCorruptError
from pipelines.store.connection import connect
from queue_config.settings import Settings
from service.cli import app
from service.usecases.indexing import index_once
from service.usecases.search import SearchService
from workers.resources import Resources

DAMAGE = {
    "an entry of vault_meta": "DELETE FROM vault_meta WHERE key = 'pipeline'",
    "the words": "DROP TABLE vault_chunk_fts",
    "the vectors' index": "DROP TABLE vault_chunk_vec",
    "the notes": "DROP TABLE vault_node",
    "the ledger": "DROP TABLE vault_file",
    "the ranks": "DROP TABLE vault_rank",
    "the journal": "DROP TABLE vault_chunk_change",
    "the graph's generation": "DELETE FROM vault_graph",
    "a column": "ALTER TABLE vault_node DROP COLUMN title",
    "a vector": "UPDATE vault_vector SET embedding = x'0000'",
}

MENDED_IN_PLACE = ("the graph's generation", "a vector")


@pytest.fixture
def settings(vault, tmp_path, tiny_model):
    (vault / "_domains.yaml").write_text("whole: {legacy: true}\ndamaged: {path: damaged}\n")
    (vault / "damaged").mkdir()
    (vault / "damaged" / "a.md").write_text("The garden of one. [[b]]")
    (vault / "b.md").write_text("The garden of another.")
    made = Settings(vault=vault, state=tmp_path / "state", embedding_model=str(tiny_model))
    index_once(Resources(made), lambda *_: None)
    return made


@pytest.mark.parametrize("what", DAMAGE)
def test_the_other_domain_answers_and_the_way_out_works(settings, what):
    resources = Resources(settings)
    con = connect(resources.state().cache_path("damaged"))
    con.execute(DAMAGE[what])
    con.close()
    questions = SearchService(Resources(settings), wait_for_model=True)
    answer = questions.search("garden", 10)
    found = [hit.path for hit in answer.results]
    assert "b.md" in found
    # It answers, too, or the answer says why not; where only its state cannot be read, it may do both.
    failed = answer.index.failed
    assert "damaged/a.md" in found or "damaged" in failed
    assert all("everindex index --rebuild" in reason for reason in failed.values())
    unfound = questions.search('"no such phrase" -garden', 10)
    assert unfound.reason.startswith('no note has the phrase "no such phrase"')
    assert failed.keys() <= unfound.index.failed.keys()
    questions.health(questions.resources.queue())
    where = ["--vault", str(settings.vault), "--state", str(settings.state)]
    environment = {"EMBEDDING_MODEL": str(settings.embedding_model)}
    for command in (["verify", *where], ["verify", "--repair", *where]):
        result = CliRunner().invoke(app, command, env=environment)
        if what in MENDED_IN_PLACE:
            assert result.exit_code == (0 if "--repair" in command else 1), result.output
            continue
        # The command's `main` prints the errors of ours as sentences.
        assert result.exit_code == 1
        assert isinstance(result.exception, SystemExit | CacheCorruptError), result.exception
        assert "everindex index --rebuild" in result.output + str(result.exception)
    result = CliRunner().invoke(app, ["index", "--rebuild", *where], env=environment)
    assert result.exit_code == 0, result.output
    result = CliRunner().invoke(app, ["verify", *where], env=environment)
    assert result.exit_code == 0, result.output
    answer = SearchService(Resources(settings), wait_for_model=True).search("garden", 10)
    assert {"b.md", "damaged/a.md"} == {hit.path for hit in answer.results}
