"""Evidence records stay as they were written until they are deleted, also through a backup."""

from __future__ import annotations

from dataclasses import replace

import apsw
import pytest

from pipelines.errors import EvidenceNotFoundError, StateError
from pipelines.maintenance.backup import restore_backup, write_backup
from pipelines.state.evidence import Citation, Evidence, EvidenceHit, EvidenceRecord, EvidenceSummary
from pipelines.state.state import STATE_FILE, State

ON_BOTH_STORES = True

HIT = EvidenceHit("vault", "Soil.md", "Soil", "Winter", 3, 9, "Soil … sleeps", 0.25, 1, "h1", "s1")
LATER = "2026-03-02T10:00:00+00:00"


def record(name="r1", **changed):
    made = EvidenceRecord(
        id=name,
        question="what does soil do in winter? ☃",
        domain=None,
        match="strong",
        asked_at="2026-03-01T10:00:00+00:00",
        hits=(HIT, replace(HIT, path="Gone.md", chunk=None, text_hash=None, source_hash=None)),
        texts={"h1": "Soil sleeps in winter."},
    )
    return replace(made, **changed)


@pytest.fixture
def evidence(place):
    State(place).close()
    opened = Evidence(place)
    yield opened
    opened.close()


def rows_left(folder):
    con = apsw.Connection(str(folder / STATE_FILE))
    tables = ("evidence", "evidence_hit", "evidence_citation", "evidence_text")
    left = {table: con.execute(f"SELECT count(*) FROM {table}").fetchall()[0][0] for table in tables}
    con.close()
    return left


def test_a_record_is_read_as_it_was_written(evidence):
    evidence.add(record())
    assert evidence.get("r1") == record()


def test_a_record_is_there_after_everything_was_closed(evidence, place):
    evidence.add(record())
    evidence.close()
    State(place).close()
    other = Evidence(place)
    assert other.get("r1") == record()
    other.close()


@pytest.mark.parametrize("match", ["strong", "weak", "none", None])
def test_how_well_the_notes_answered_is_kept(evidence, match):
    evidence.add(record(match=match))
    assert evidence.get("r1").match == match


def test_records_are_listed_the_newest_first_with_what_they_hold(evidence):
    for number in range(3):
        evidence.add(record(f"r{number}", question=f"q{number}"))
    evidence.curate("r1", [Citation("Soil.md", "q", ("h1",), "s1")], {}, notes=None, at=LATER)
    first = EvidenceSummary("r2", "q2", "strong", record().asked_at, None, 2, 0)
    second = EvidenceSummary("r1", "q1", "strong", record().asked_at, LATER, 2, 1)
    assert evidence.newest(2) == [first, second]
    assert evidence.count() == 3


def test_the_newest_records_that_a_note_answered_or_is_cited_in_are_found_by_its_path(evidence):
    for number in range(4):
        evidence.add(record(f"r{number}", hits=(HIT,) if number < 2 else ()))
    evidence.curate("r2", [Citation("Soil.md", "q", (), None)], {}, notes=None, at=LATER)
    assert [found.id for found in evidence.naming("Soil.md", 2)] == ["r2", "r1"]
    assert evidence.naming("Soil.md", 1) == [evidence.get("r2")]
    assert evidence.naming("soil.md", 9) == []


CITATIONS = (
    Citation("Soil.md", "Soil sleeps in winter", ("h1",), "s1"),
    Citation("River.md", None, (), None),
    Citation("River.md", "a quote", ("h2", "h3"), "s2"),
)


def test_a_curated_result_is_read_in_its_order(evidence):
    evidence.add(record())
    evidence.curate("r1", CITATIONS, {"h1": "ignored", "h2": "A boat.", "h3": "A sail."}, notes="n", at=LATER)
    found = evidence.get("r1")
    assert (found.citations, found.notes, found.curated_at) == (CITATIONS, "n", LATER)
    assert found.texts == {"h1": "Soil sleeps in winter.", "h2": "A boat.", "h3": "A sail."}


def test_a_second_result_replaces_the_first_and_the_answers_passages_stay(evidence):
    evidence.add(record())
    evidence.curate("r1", CITATIONS, {"h2": "A boat.", "h3": "A sail."}, notes="n", at=LATER)
    evidence.curate("r1", CITATIONS[2:], {"h3": "A sail."}, notes=None, at=LATER)
    found = evidence.get("r1")
    assert (found.citations, found.notes) == (CITATIONS[2:], None)
    assert found.texts == {"h1": "Soil sleeps in winter.", "h3": "A sail."}


def test_a_records_passages_are_its_own(evidence):
    evidence.add(record("r1"))
    evidence.add(record("r2", texts={"h1": "another"}))
    evidence.curate("r1", CITATIONS, {"h2": "A boat.", "h3": "A sail."}, notes=None, at=LATER)
    assert evidence.get("r2") == record("r2", texts={"h1": "another"})


@pytest.mark.of_sqlite
def test_deleting_leaves_nothing_of_a_record_and_all_of_the_others(evidence, tmp_path):
    evidence.add(record("r1"))
    evidence.curate("r1", CITATIONS, {"h2": "A boat."}, notes="n", at=LATER)
    evidence.add(record("r2"))
    evidence.delete("r1")
    assert evidence.get("r2") == record("r2")
    assert evidence.count() == 1
    evidence.delete("r2")
    assert set(rows_left(tmp_path).values()) == {0}


@pytest.mark.of_sqlite
@pytest.mark.parametrize(
    "act",
    [
        lambda evidence: evidence.get("none"),
        lambda evidence: evidence.delete("none"),
        lambda evidence: evidence.curate("none", CITATIONS, {"h2": "A boat."}, notes="n", at=LATER),
    ],
    ids=["get", "delete", "curate"],
)
def test_a_record_that_is_not_there_is_named_and_nothing_is_written(evidence, tmp_path, act):
    with pytest.raises(EvidenceNotFoundError, match="no evidence record 'none'"):
        act(evidence)
    assert set(rows_left(tmp_path).values()) == {0}


@pytest.mark.of_sqlite
def test_a_record_is_written_whole_or_not_at_all(evidence):
    evidence.add(record())
    with pytest.raises(apsw.ConstraintError):
        evidence.curate("r1", (replace(CITATIONS[0], path=None),), {}, notes="n", at=LATER)
    assert evidence.get("r1") == record()


def test_without_a_state_folder_there_is_an_error_that_says_so(tmp_path):
    with pytest.raises(StateError, match="nowhere"):
        Evidence(tmp_path / "nowhere")


def test_records_come_back_with_a_backup(house):
    house.write("garden.md", "# Garden\n\nThe soil.")
    house.index()
    State(house.state).close()
    evidence = Evidence(house.state)
    evidence.add(record())
    evidence.curate("r1", CITATIONS, {"h2": "A boat."}, notes="n", at=LATER)
    kept = evidence.get("r1")
    file = house.root.parent / "backup.tar"
    same = {"vault_id": house.identity.vault_id, "root": house.root}
    write_backup(file, house.state, ["vault"], version="0.1.0", **same)
    evidence.delete("r1")
    evidence.add(record("r2"))
    evidence.close()
    restore_backup(file, house.state, **same)
    restored = Evidence(house.state)
    assert restored.get("r1") == kept
    assert restored.count() == 1
    restored.close()


def test_a_state_file_from_before_there_were_records_gets_them(tmp_path):
    State(tmp_path).close()
    con = apsw.Connection(str(tmp_path / STATE_FILE))
    for table in rows_left(tmp_path):
        con.execute(f"DROP TABLE {table}")
    con.execute("DROP TABLE tag_proposal")
    con.execute("PRAGMA user_version = 0")  # versions up to 0.3.0 had no numbers
    con.close()
    State(tmp_path).close()
    evidence = Evidence(tmp_path)
    evidence.add(record())
    assert evidence.get("r1") == record()
    evidence.close()
