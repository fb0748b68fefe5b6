"""The roles of a vault in PostgreSQL: one that indexes, one that answers, one that only looks."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from tests.postgres import PostgresServer, postgres_server

from .conftest import User, wait_for

NOTES = {
    "Moats.md": "---\ntags: [moat]\n---\n# Moats\n\nThe market gives a moat a price. See [[Garden]].\n",
    "Garden.md": "# Garden\n\nCompost for the tomato, soil for the bean.\n",
    "Diary/Today.md": "# Today\n\nNobody else is to read this.\n",
    "_domains.yaml": "all:\n  legacy: true\n  privacy: {folders: [Diary]}\n",
}


@pytest.fixture
def server():
    with postgres_server() as started:
        yield started


def as_role(server: PostgresServer, role: str) -> str:
    return server.address.replace("everindex@", f"{role}@")


@pytest.fixture
def user(tmp_path, server):
    root = tmp_path / "notes"
    for path, text in NOTES.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    made = User(tmp_path, root, EVERINDEX_STORE=server.address)
    yield made
    made.stop()


def statements() -> list[str]:
    """The statements about roles that the documentation has, in its order."""
    said = (Path(__file__).parents[2] / "docs" / "deployment.md").read_text()
    (found,) = re.findall(r"^```sql\n(CREATE ROLE.*?)^```", said, re.MULTILINE | re.DOTALL)
    return [
        line.partition(" --")[0].replace("DATABASE notes", "DATABASE postgres") for line in found.splitlines()
    ]


@pytest.fixture
def roles(user, server):
    """The documented roles, on a vault that its indexer has indexed."""
    with psycopg.connect(server.address, autocommit=True) as owner:
        wanted = statements()
        after = next(at for at, statement in enumerate(wanted) if "notes_" in statement)
        for statement in wanted[:after]:
            owner.execute(statement)
        user.environment["EVERINDEX_STORE"] = as_role(server, "indexer")
        user.run("index", *user.place)
        for statement in wanted[after:]:
            owner.execute(statement)
    return wanted


@pytest.fixture
def reader(roles, user, server, tmp_path):
    assert roles
    made = User(tmp_path / "other", user.root, EVERINDEX_STORE=as_role(server, "reader"))
    yield made
    made.stop()


def test_a_reader_answers_and_follows_and_writes_nothing(reader, user, server, tmp_path):
    with (tmp_path / "output").open("wb") as output:
        reader.start("serve", *reader.place, "--port", str(reader.port), output=output)
        wait_for(lambda: reader.health() and "Moats.md" in reader.found("moats"), "the reader answers")
        (user.root / "late.md").write_text("# Late\n\nThe quokka crosses.\n")
        user.run("index", *user.place)
        wait_for(lambda: "late.md" in reader.found("quokka"), "the reader follows")
        user.run("index", "--rebuild", *user.place)
        (user.root / "later.md").write_text("# Later\n\nThe wombat sleeps.\n")
        user.run("index", *user.place)
        wait_for(lambda: "later.md" in reader.found("wombat"), "the reader follows a new cache")
        with psycopg.connect(as_role(server, "reader"), autocommit=True) as con:
            said = "SELECT count(*) FROM notes_state.process WHERE role = 'query'"
            assert wait_for(lambda: con.execute(said).fetchone() == (1,), "the reader says that it lives")
            for change in (
                "DELETE FROM notes_state.domain_cache",
                "DELETE FROM notes_state.view_domain",
                'UPDATE "notes_cache-all.2".vault_node SET private = false',
                "CREATE SCHEMA mine",
            ):
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    con.execute(change)
        refused = reader.post("/v1/rx", {"question": "moats"})
        assert "permission denied for table evidence" in refused.text
        reader.stop()
    said = (tmp_path / "output").read_text()
    assert "Traceback" not in said


def test_a_reader_compares_its_memory_although_it_counts_nothing(reader):
    compare = (
        "from queue_config.settings import Settings\n"
        "from service.usecases.search import View\n"
        "from workers.resources import Resources\n"
        f"View(Resources(Settings(vault={str(reader.root)!r}, state={str(reader.state)!r}))).check_memory()\n"
    )
    subprocess.run([sys.executable, "-c", compare], env=reader.environment, check=True)


@pytest.mark.usefixtures("roles")
def test_a_dashboard_sees_what_is_not_private(user, server):
    with psycopg.connect(as_role(server, "dashboard"), autocommit=True) as con:
        found = con.execute("SELECT file_path, embed_model FROM notes_views.documents ORDER BY 1").fetchall()
        model = user.json("status")["domains"]["all"]["model"]
        assert found == [("Garden.md", model), ("Moats.md", model)]
        assert con.execute("SELECT count(*) FROM notes_views.passages WHERE has_vector").fetchone() == (2,)
        (user.root / "_domains.yaml").write_text(
            "all:\n  legacy: true\n  privacy: {folders: [Diary], tags: [moat]}\n"
        )
        user.run("index", *user.place)
        assert con.execute("SELECT file_path FROM notes_views.documents").fetchall() == [("Garden.md",)]
        for forbidden in (
            "notes_views_all.documents",
            "notes_state.note_log",
            '"notes_cache-all.1".vault_chunk',
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                con.execute(f"SELECT * FROM {forbidden}")


@pytest.mark.usefixtures("roles")
def test_a_rebuild_waits_for_no_dashboard_and_is_seen_by_it(user, server):
    with psycopg.connect(as_role(server, "dashboard")) as con:  # in one transaction
        count = "SELECT count(*) FROM notes_views.documents"
        assert con.execute(count).fetchone() == (2,)
        (user.root / "late.md").write_text("# Late\n\nThe quokka crosses.\n")
        user.run("index", "--rebuild", *user.place)
        assert con.execute(count).fetchone() == (3,)


def test_what_prevents_the_views_is_a_problem_and_no_note_waits_for_it(user, server):
    with psycopg.connect(server.address, autocommit=True) as owner:
        owner.execute("CREATE ROLE indexer LOGIN")
        owner.execute("GRANT CREATE ON DATABASE postgres TO indexer")
        owner.execute("CREATE SCHEMA notes_views")  # somebody else's
        user.environment["EVERINDEX_STORE"] = as_role(server, "indexer")
        assert "3 notes" in user.run("index", *user.place)
        assert "the SQL views do not show what changed" in user.run("status", *user.place)
        owner.execute("DROP SCHEMA notes_views")
        user.run("index", *user.place)
        assert "SQL views" not in user.run("status", *user.place)
        assert owner.execute("SELECT count(*) FROM notes_views.documents").fetchone() == (2,)
