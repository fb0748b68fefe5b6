"""A damaged cache affects only its own domain, its message says what to do, and that works."""

from __future__ import annotations

import shutil
from random import Random

import pytest
from click.testing import CliRunner

from pipelines.errors import CacheCorruptError
from pipelines.question import read_question
from pipelines.sqlite import connect, empty_journal
from queue_config.settings import Settings
from service.cli.main import app
from service.usecases.maintenance import index_once, rebuild_caches, verify_caches
from service.usecases.search import View
from tests.sweeps import share
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

PAGE = 4096
PLACES = share(9, 80)  # in a cache of about 160 pages
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
    questions = View(Resources(settings), wait_for_model=True)
    answer = questions.search(read_question("garden"), 10)
    found = [hit.path for hit in answer.results]
    assert "b.md" in found
    # It answers, too, or the answer says why not; where only its state cannot be read, it may do both.
    failed = answer.index.failed
    assert "damaged/a.md" in found or "damaged" in failed
    assert all("everindex index --rebuild" in reason for reason in failed.values())
    unfound = questions.search(read_question('"no such phrase" -garden'), 10)
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
    answer = View(Resources(settings), wait_for_model=True).search(read_question("garden"), 10)
    assert {"b.md", "damaged/a.md"} == {hit.path for hit in answer.results}


def test_the_health_names_a_cache_of_which_only_a_part_can_be_read(settings):
    resources = Resources(settings)
    con = connect(resources.state().cache_path("damaged"))
    con.execute("DROP TABLE vault_ignored")
    con.close()
    questions = View(Resources(settings))
    assert questions.index_state().failed == {}  # it reads other tables
    health = questions.health(questions.resources.queue())
    assert (health.status, set(health.domains)) == ("degraded", {"whole"})
    (problem,) = [one for one in health.problems if "is damaged" in one]
    assert "everindex index --rebuild" in problem


def _overwrite_with(fill):
    def damage(data, at):
        end = min(at + 5 * PAGE, len(data))
        data[at:end] = fill(end - at)

    return damage


def _truncate(data, at):
    del data[at:]


def _exchange_pages(data, at):
    """Put pages from elsewhere in the file there: each is sound, and only its place is wrong."""
    end = min(at + 5 * PAGE, len(data))
    data[at:end] = (data[at:] + data[PAGE:])[5 * PAGE : 5 * PAGE + end - at]


KINDS = {
    "zeros": _overwrite_with(bytes),
    "random bytes": _overwrite_with(Random(7).randbytes),  # noqa: S311 - the same damage each time
    "the end missing": _truncate,
    "other pages": _exchange_pages,
}


@pytest.fixture(scope="module")
def indexed(tmp_path_factory, tiny_model):
    """Return the settings of an indexed vault whose cache has some hundred pages."""
    base = tmp_path_factory.mktemp("damage")
    vault = base / "vault"
    vault.mkdir()
    for number in range(60):
        (vault / f"{number}.md").write_text(
            f"# Bed {number}\n\nIn bed {number} grow beans. [[{(number * 7) % 60}]]\n\n"
            + "\n\n".join(f"## Week {week}\n\nWater of week {week} for {number}." for week in range(4))
        )
    made = Settings(vault=vault, state=base / "state", embedding_model=str(tiny_model))
    resources = Resources(made)
    index_once(resources, lambda *_: None)
    for cache in resources.caches().values():
        empty_journal(cache.con)  # or its pages would be read instead of the damaged ones
    return made


@pytest.mark.parametrize("place", range(PLACES))
@pytest.mark.parametrize("kind", KINDS)
def test_a_rebuild_succeeds_wherever_the_old_cache_is_damaged(indexed, tmp_path, kind, place):
    (file,) = indexed.state.glob("cache-*.db")
    data = bytearray(file.read_bytes())
    state = tmp_path / "state"
    shutil.copytree(indexed.state, state)
    KINDS[kind](data, place * (len(data) // PAGE) // PLACES * PAGE)
    (state / file.name).write_bytes(data)
    made = indexed.model_copy(update={"state": state})
    rebuild_caches(Resources(made), lambda *_: None)
    (verdict,) = verify_caches(Resources(made)).values()
    assert (verdict.differences, verdict.compared) == ((), 60)
    found = View(Resources(made), wait_for_model=True).search(read_question("water of week 3 for 42"), 5)
    assert found.results[0].path == "42.md"
