"""Every connection to `state.db` finds its tables, and the decisions that version 0.1.0 kept among the facts."""

from __future__ import annotations

from contextlib import closing

import apsw
import pytest

from pipelines.state.evidence import Evidence
from pipelines.state.health import Problems, Processes, Vanished
from pipelines.state.jobs import History
from pipelines.state.state import STATE_FILE, State, open_state
from pipelines.state.tags import Proposals

OLD_FACT = "CREATE TABLE fact (key TEXT PRIMARY KEY, value TEXT, at REAL, uptime REAL) WITHOUT ROWID"


@pytest.mark.parametrize("kind", [Evidence, History, Problems, Processes, Proposals, State, Vanished])
def test_the_first_connection_makes_all_tables(tmp_path, kind):
    kind(tmp_path).close()
    with closing(apsw.Connection(str(tmp_path / STATE_FILE))) as con:
        made = {name for (name,) in con.execute("SELECT name FROM sqlite_schema")}
    assert made > {"fact", "evidence", "tag_proposal", "job_history", "process", "paused_domain", "vanished"}


def old_state(folder, **facts):
    """Write a `state.db` of 0.1.0 with these facts, each a key's last part and a JSON text."""
    with closing(apsw.Connection(str(folder / STATE_FILE))) as con:
        con.execute(OLD_FACT)
        for kind, (about, value) in facts.items():
            con.execute("INSERT INTO fact VALUES (?, ?, 1800000000, 0)", (f"{kind}:{about}", value))


@pytest.mark.parametrize(
    ("value", "since"),
    [
        ('{"since": "2026-05-04T12:00:00+00:00"}', "2026-05-04T12:00:00+00:00"),
        ("true", "2027-01-15T08:00:00+00:00"),
        ('{"since": null}', "2027-01-15T08:00:00+00:00"),
        ("{damaged", "2027-01-15T08:00:00+00:00"),
    ],
)
def test_a_domain_that_0_1_0_paused_stays_paused(tmp_path, value, since):
    old_state(tmp_path, paused=("my-notes", value))
    for _ in range(2):
        with closing(State(tmp_path)) as state:
            assert state.decisions.paused_since("my-notes") == since
            assert state.decisions.paused_since("other") is None
    with closing(State(tmp_path)) as state:
        state.decisions.resume("my-notes")
    with closing(State(tmp_path)) as state:
        assert state.decisions.paused_since("my-notes") is None


@pytest.mark.parametrize(
    ("value", "notes"),
    [
        ('{"a.md": 3, "Caf\\u00e9 \'x".md": 1}'.replace("'x\"", "'x"), {"a.md": 3, "Café 'x.md": 1}),
        ('{"a.md": 3, "b.md": "x", "c.md": null}', {"a.md": 3}),
        ("[]", {}),
        ("{damaged", {}),
    ],
)
def test_notes_that_0_1_0_dismissed_stay_dismissed(tmp_path, value, notes):
    old_state(tmp_path, forgotten=("vault", value))
    with closing(open_state(tmp_path)) as con:
        assert list(con.execute("SELECT * FROM fact")) == []
    with closing(State(tmp_path)) as state:
        assert state.decisions.dismissed("vault") == notes
