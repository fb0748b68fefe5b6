"""A vault whose state and indexes are in PostgreSQL, as its users meet it: a real server, which also dies."""

from __future__ import annotations

import re

import psycopg
import pytest

from pipelines.indexing.ingest import index_words
from pipelines.sqlite import select
from pipelines.state.note_log import NoteLog
from queue_config.settings import Settings
from tests.postgres import PostgresServer, postgres_server
from workers.elsewhere import hand_out
from workers.resources import Resources
from workers.tasks import compare

from .conftest import User, wait_for

NOTES = {
    "Moats.md": "---\ntags: [moat]\naliases: [Castle]\n---\n# Moats\n\nThe market gives a moat a price. See [[Garden]].\n",
    "Garden.md": "# Garden\n\nCompost for the tomato, soil for the bean. [[Bread]]\n",
    "Bread.md": "# Bread\n\nThe bread needs flour, and the market. [[Moats]]\n",
    **{
        f"notes/{n}.md": f"# Note {n}\n\nLetter {n} on the river and the boat, see [[{n - 1}]].\n"
        for n in range(30)
    },
}
QUESTIONS = [
    "moats",
    "how does the garden grow",
    "castle",
    "river -boat",
    "tag:moat",
    '"letter 7"',
    "bread market",
]


@pytest.fixture
def server():
    with postgres_server() as started:
        yield started


@pytest.fixture
def user(tmp_path, tiny_model, server: PostgresServer):
    root = tmp_path / "notes"
    for path, text in NOTES.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    made = User(tmp_path, root, EMBEDDING_MODEL=str(tiny_model), EVERINDEX_STORE=server.address)
    yield made
    made.stop()


def answers(user: User) -> dict[str, list[dict[str, object]]]:
    """What each question finds, without what only names this index."""
    user.wait_until_quiet()
    user.wait_until_upkeep_is_done()
    found = {}
    for question in QUESTIONS:
        hits = user.get("/search", q=question, k=10).json()["results"]
        found[question] = [{key: value for key, value in hit.items() if key != "chunk"} for hit in hits]
    return found


def test_the_answers_are_those_of_a_vault_in_files_and_no_file_holds_the_state(user, tmp_path):
    user.up()
    found = answers(user)
    assert all(found.values())
    assert not (user.state / "state.db").exists()
    user.stop()
    here = User(tmp_path / "files", user.root, EMBEDDING_MODEL=user.environment["EMBEDDING_MODEL"])
    here.up()
    assert answers(here) == found
    here.stop()


def test_without_memory_for_vectors_pgvector_finds_the_same_and_status_says_so(user):
    user.up()
    found = answers(user)
    user.stop()
    user.environment["EVERINDEX_MEMORY_MB"] = "0"
    user.up()

    def said() -> object:
        (domain,) = user.health()["domains"].values()
        return domain["vectors_in_postgresql"]

    wait_for(said, "the index is built")
    assert re.fullmatch(r"ivfflat, recall@10 [01]\.\d\d", str(said()))
    assert f"vectors in PostgreSQL: {said()}" in user.run("status", *user.place)
    assert f"vectors in PostgreSQL: {said()}" in user.get("/ops").text
    for question, hits in answers(user).items():
        # A cosine is computed otherwise than in the file.
        expected = [(hit["path"], pytest.approx(hit["score"], abs=1e-5)) for hit in found[question]]
        assert [(hit["path"], hit["score"]) for hit in hits] == expected
    (user.root / "late.md").write_text("# Late\n\nThe quokka crosses.\n")
    wait_for(lambda: of_the_late_note(user), "its vector")
    user.stop()
    user.environment["EVERINDEX_VECTOR_INDEX"] = "exact"
    user.up()
    wait_for(lambda: said() == "exact", "the index is dropped")
    assert user.health()["problems"] == []


def of_the_late_note(user: User) -> list[tuple[object, ...]]:
    """What the table for pgvector has of it."""
    resources = resources_of(user)
    (domain,) = resources.domains()
    sql = "SELECT 1 FROM vault_embedding e JOIN vault_chunk c ON c.id = e.chunk_id WHERE c.path = 'late.md'"
    return select(resources.stored(domain).con, sql)


def test_a_database_without_pgvector_is_a_problem_and_questions_are_answered_from_the_file(user, server):
    with psycopg.connect(server.address, autocommit=True) as administrator:
        administrator.execute("CREATE ROLE plain LOGIN")
        administrator.execute("CREATE DATABASE plain OWNER plain")
    user.environment["EVERINDEX_STORE"] = server.address.replace("everindex@", "plain@").replace(
        "/postgres", "/plain"
    )
    user.environment["EVERINDEX_MEMORY_MB"] = "0"
    user.up()
    (problem,) = wait_for(lambda: user.health()["problems"], "the problem is reported")
    assert "run `CREATE EXTENSION vector`" in problem
    assert all(answers(user).values())
    with psycopg.connect(server.address.replace("/postgres", "/plain"), autocommit=True) as administrator:
        administrator.execute("CREATE EXTENSION vector")
    wait_for(lambda: not user.health()["problems"], "the problem is over")


def test_a_save_while_the_server_is_dead_is_found_when_it_is_back(user, server):
    user.up()
    server.kill()
    for _ in range(20):  # by any thread
        answer = user.get("/search", q="moats").json()
        assert answer["results"][0]["path"] == "Moats.md"
        assert "cannot be used" in answer["index"]["waits"]
    (user.root / "late.md").write_text("# Late\n\nThe quokka crosses.\n")
    server.start()

    def is_found() -> bool:
        hits = user.get("/search", q="quokka").json().get("results", [])  # until it answers again: an error
        return "late.md" in {hit["path"] for hit in hits}

    wait_for(is_found, "the late note")


def test_another_host_answers_from_its_own_copy_and_follows(user, tmp_path):
    user.up()
    other = User(
        tmp_path / "other",
        user.root,
        **{k: user.environment[k] for k in ("EMBEDDING_MODEL", "EVERINDEX_STORE")},
    )
    other.start("serve", *other.place, "--port", str(other.port))
    wait_for(lambda: other.health() and "Moats.md" in other.found("moats"), "the other host answers")
    (user.root / "late.md").write_text("# Late\n\nThe quokka crosses.\n")
    wait_for(lambda: "late.md" in other.found("quokka"), "the other host follows")
    other.stop()


@pytest.fixture
def far(user, tmp_path):
    """A user on a host without the vault: its folder is not there, and the store is the same."""
    store = {name: user.environment[name] for name in ("EMBEDDING_MODEL", "EVERINDEX_STORE")}
    made = User(tmp_path / "far", tmp_path / "nowhere" / user.root.name, **store)
    yield made
    made.stop()


def test_a_host_without_the_vault_answers_and_shows_notes_and_says_where_the_rest_is_done(user, far):
    assert "cannot be opened" in far.run("serve", *far.place, code=1)  # nothing is known of such a vault yet
    user.up()
    far.start("serve", *far.place, "--port", str(far.port))
    wait_for(lambda: far.health() and "Moats.md" in far.found("moats"), "the far host answers")
    (user.root / "late.md").write_text("---\na: 1\n---\n# Late\n\nThe quokka crosses.\n\nTwice.\n")
    wait_for(lambda: "late.md" in far.found("quokka"), "the far host follows")
    assert far.get("/notes/late.md").status_code == 200
    here, there = (one.get("/search", q="quokka").json()["results"][0]["excerpt"] for one in (user, far))
    assert here == there
    assert "The quokka crosses.\n\nTwice." in far.run("show", "late.md", *far.place)
    assert far.health()["problems"] == user.health()["problems"] == []
    assert "on another host" in far.post("/reload").text
    (user.root / "late.md").unlink()
    wait_for(lambda: "late.md" not in far.found("quokka"), "the far host misses the deleted note, too")
    assert "on another host" in far.run("watch", *far.place, code=1)
    assert "on another host" in far.run("migrate", "--to", "files", *far.place, code=1)


def resources_of(user: User) -> Resources:
    """What a process beside the vault has, in this process."""
    environment = user.environment
    return Resources(
        Settings(
            vault=user.root,
            state=user.state,
            store=environment["EVERINDEX_STORE"],
            embedding_model=environment["EMBEDDING_MODEL"],
        )
    )


def test_a_worker_without_the_vault_indexes_what_is_handed_out(user, far):
    resources = resources_of(user)
    for number in range(200):
        (user.root / f"many {number}.md").write_text(f"# Many {number}\n\nA letter about number {number}.\n")
    compare(resources)
    resources.tell_of_vault()
    (domain,) = resources.domains()
    cache = resources.stored(domain)
    worker = far.start("work", *far.place)

    def few_are_left() -> bool:
        hand_out(resources)
        waiting = cache.leases.waiting()
        return waiting is None or waiting.words <= 64

    wait_for(few_are_left, "the far worker indexes the notes")
    assert cache.counts().notes >= 150
    wait_for(lambda: resources.stores.of(NoteLog).of_note("many 7.md", 5), "the log has it")
    assert worker.poll() is None
    user.up()  # the rest, and the vectors of all
    assert select(cache.con, "SELECT count(*) FROM vault_content") == [(0,)]
    assert user.run("verify", *user.place)
    assert "many 199.md" in user.found("letter number 199")


def test_a_worker_for_vectors_alone_leaves_words_to_the_others(user, far):
    resources = resources_of(user)
    compare(resources)
    resources.tell_of_vault()
    (domain,) = resources.domains()
    cache = resources.stored(domain)
    far.start("work", "--only", "vectors", *far.place)
    ingest = resources.ingest(domain, cache)
    while cache.leases.has_pending("words"):
        index_words(cache, ingest)
    wait_for(lambda: cache.leases.waiting() is None, "the vectors of all notes")


def damage(server: PostgresServer) -> None:
    """Take rows away in PostgreSQL without any process noticing."""
    with psycopg.connect(server.address, autocommit=True) as con:
        con.execute('SET search_path = "notes_cache-vault.1"')
        of_bread = "SELECT text_hash FROM vault_chunk WHERE path = 'Bread.md'"
        for sql in (
            "DELETE FROM vault_chunk WHERE path = 'Garden.md'",
            "DELETE FROM vault_edge WHERE path = 'Moats.md'",
            f"DELETE FROM vault_vector WHERE text_hash IN ({of_bread})",
            "DELETE FROM vault_node WHERE path = 'notes/7.md'",
        ):
            assert con.execute(sql).rowcount


@pytest.mark.parametrize("is_served", [False, True], ids=["alone", "beside a service"])
def test_verify_names_the_rows_that_are_lost_in_postgresql_and_repair_brings_them_back(
    user, server, is_served
):
    user.up()
    found = answers(user)
    if not is_served:
        user.stop()
    damage(server)
    said = user.run("verify", *user.place, code=1)
    for named in ("chunk: Garden.md", "edge: Moats.md", "vector: Bread.md", "ledger: notes/7.md"):
        assert f"vault: {named}: " in said
    said = user.run("verify", "--repair", *user.place)
    assert f"no difference; {len(NOTES)} files compared with the disk" in said
    assert {path: (user.root / path).read_text() for path in NOTES} == NOTES
    if not is_served:
        assert "0 texts embedded" in user.run("index", *user.place)
        user.up()
    assert answers(user) == found


def test_the_copy_of_another_database_is_made_again_though_its_model_was_another(user, server):
    user.run("index", *user.place)
    with psycopg.connect(server.address, autocommit=True) as administrator:
        administrator.execute("CREATE DATABASE other")
    user.environment["EVERINDEX_STORE"] = server.address.replace("/postgres", "/other")
    user.environment["EMBEDDING_MODEL"] = "none"
    user.run("index", *user.place)
    user.run("verify", *user.place)
    user.up()
    assert user.found("moats")[0] == "Moats.md"


def test_a_backup_says_that_the_server_has_its_own(user, tmp_path):
    user.run("index", *user.place)
    assert "pg_dump" in user.run("backup", str(tmp_path / "backup"), *user.place, code=2)
    assert not (tmp_path / "backup").exists()


def test_a_server_that_is_not_there_is_named_without_its_password(user):
    user.environment["EVERINDEX_STORE"] = "postgresql://me:secret@127.0.0.1:1/notes"
    said = user.run("index", *user.place, code=1)
    assert "127.0.0.1:1/notes" in said
    assert "secret" not in said
    user.environment["EVERINDEX_STORE"] = "mysql://x"
    assert "postgresql://" in user.run("index", *user.place, code=2)


def test_an_index_in_files_stays_beside_the_one_in_postgresql_and_mixes_with_it_nowhere(user):
    store = user.environment.pop("EVERINDEX_STORE")
    user.run("index", *user.place)
    of_files = {path.name: path.read_bytes() for path in user.state.glob("cache-*.db")}
    (user.root / "Bread.md").unlink()
    user.environment["EVERINDEX_STORE"] = store
    user.run("index", *user.place)
    assert "Bread.md" not in user.run("list", *user.place)
    assert {name: (user.state / name).read_bytes() for name in of_files} == of_files


def test_a_vault_goes_to_postgresql_and_back_with_the_same_answers_and_embeds_nothing(user):
    store = user.environment.pop("EVERINDEX_STORE")
    user.run("index", *user.place)
    user.run("index", "--rebuild", *user.place)
    user.up()
    found = answers(user)
    log = user.json("log", "Garden.md")
    assert "Everindex runs on" in user.run("migrate", "--to", store, *user.place, code=1)
    user.stop()
    said = user.run("migrate", "--to", store, *user.place)
    assert f"Set EVERINDEX_STORE={store}, and start" in said
    user.run("verify", *user.place)
    files = {path: path.read_bytes() for path in sorted(user.state.glob("*.db")) if path.name != "queue.db"}
    assert [path.name for path in files] == ["cache-vault.1.db", "cache-vault.2.db", "state.db"]
    user.environment["EVERINDEX_STORE"] = store
    user.run("verify", *user.place)
    assert "0 texts embedded" in user.run("index", *user.place)
    assert user.json("log", "Garden.md") == log
    user.up()
    assert answers(user) == found
    (user.root / "late.md").write_text("# Late\n\nThe quokka crosses.\n")
    wait_for(lambda: "late.md" in user.found("quokka"), "the late note")
    found = answers(user)
    user.stop()
    assert {path: path.read_bytes() for path in files} == files
    assert "a vault is there already, and was kept" in user.run(
        "migrate", "--to", "files", *user.place, code=1
    )
    for path in files:
        path.unlink()
    with psycopg.connect(store, autocommit=True) as con:
        far = "INSERT INTO notes_state.process VALUES ('elsewhere:1/1.00', 'query', '', '', 0, 4e9, 4e9)"
        con.execute(far)
        said = user.run("migrate", "--to", "files", *user.place, code=1)
        assert "(elsewhere:1/1.00); stop it" in said
        con.execute("DELETE FROM notes_state.process")
    said = user.run("migrate", "--to", "files", *user.place)
    assert "Remove the setting `store` (EVERINDEX_STORE)" in said
    assert 'DROP SCHEMA IF EXISTS "notes_state", "notes_cache-vault.2", "notes_views"' in said
    user.run("verify", *user.place)
    del user.environment["EVERINDEX_STORE"]
    user.run("verify", *user.place)
    assert "0 texts embedded" in user.run("index", *user.place)
    user.up()
    assert answers(user) == found
    assert "late.md" in user.found("quokka")


def test_a_migration_that_was_killed_is_no_index_until_another_one_ends(user):
    store = user.environment.pop("EVERINDEX_STORE")
    user.run("index", *user.place)
    with psycopg.connect(store) as con, psycopg.connect(store, autocommit=True) as other:
        con.execute("SELECT pg_advisory_xact_lock(hashtextextended('notes_cache-vault.1', 0))")
        process = user.start("migrate", "--to", store, *user.place)
        there = "SELECT 1 FROM pg_namespace WHERE nspname = 'notes_state'"
        wait_for(lambda: other.execute(there).fetchone(), "the migration began")
        process.kill()
        process.communicate()
    user.environment["EVERINDEX_STORE"] = store
    for command in (("index",), ("search", "moats"), ("up",)):
        assert "is an unfinished copy" in user.run(*command, *user.place, code=1)
    del user.environment["EVERINDEX_STORE"]
    assert "Moats.md" in user.run("search", "moats", *user.place)
    user.run("migrate", "--to", store, *user.place)
    user.environment["EVERINDEX_STORE"] = store
    assert "0 texts embedded" in user.run("index", *user.place)


def test_what_cannot_be_migrated_is_told(user):
    store = user.environment["EVERINDEX_STORE"]
    user.run("index", *user.place)
    assert "in PostgreSQL already" in user.run("migrate", "--to", store, *user.place, code=2)
    del user.environment["EVERINDEX_STORE"]
    assert "in files already" in user.run("migrate", "--to", "files", *user.place, code=2)
    assert "or to `files`" in user.run("migrate", "--to", "mysql://x", *user.place, code=2)
