"""The state folder of an earlier version opens, keeps every decision, and embeds nothing again.

`make_state.py` made each archive with the version that its name tells.
"""

from __future__ import annotations

import re
import tarfile
import time
from pathlib import Path

import apsw
import pytest

from pipelines.maintenance.backup import restore_backup, write_backup
from pipelines.sqlite import steps_of
from pipelines.state.attention import Attention
from pipelines.vault.identity import identify
from tests.whole.conftest import User, wait_for

ARCHIVES = sorted(Path(__file__).parent.glob("*.tar.xz"))
WITHOUT_CHOICES = [path for path in ARCHIVES if path.name.startswith(("0.1.", "0.2."))]


def version_of(archive):
    return archive.name.removesuffix(".tar.xz")


@pytest.fixture(params=ARCHIVES, ids=version_of)
def heir(request, tmp_path):
    """A user who updated Everindex: the vault and the state of an earlier version; nothing runs yet."""
    with tarfile.open(request.param) as archive:
        archive.extractall(tmp_path, filter="data")
    user = User(tmp_path, tmp_path / "vault")
    # Deletions are held for an hour: the archive's, from now on.
    con = apsw.Connection(str(user.state / "state.db"))
    con.execute("UPDATE fact SET at = ?, uptime = ? WHERE key LIKE 'held:%'", (time.time(), time.monotonic()))
    con.close()
    yield user
    user.stop()


def query(user, sql):
    con = apsw.Connection(str(user.state / "state.db"), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return list(con.execute(sql))
    finally:
        con.close()


def embedded(user):
    """Return how many texts were ever embedded."""
    found = re.search(r"^everindex_embed_batch_texts_sum (\S+)$", user.get("/metrics").text, re.MULTILINE)
    return float(found[1])


def vectors(user):
    """Return the current cache files of the domains, and the texts that have a vector in each."""
    found = {}
    for slug in ("nutrition", "garden", "work"):
        con = apsw.Connection(str(user.state / f"cache-{slug}.1.db"), flags=apsw.SQLITE_OPEN_READONLY)
        found[slug] = {row[0] for row in con.execute("SELECT text_hash FROM vault_vector")}
        con.close()
    return found


def start(user):
    user.start("up", *user.place, "--port", str(user.port))
    wait_for(
        lambda: (
            (h := user.health()) and h["last_reconcile"] and h["model_ready"] and not h["vectors_pending"]
        ),
        "the service",
        patience=180,
    )


def test_what_people_and_history_made_is_kept_found_and_not_embedded_again(heir):
    before = {
        "texts": query(heir, "SELECT sum(total) FROM job_histogram WHERE name = 'embedded_texts'")[0][0],
        "jobs": {row[0] for row in query(heir, "SELECT task_id FROM job_history")},
        "vectors": vectors(heir),
        "proposals": set(query(heir, "SELECT state, path, tag FROM tag_proposal")),
    }
    assert {
        ("applied", "New 0.md", "caffeine"),
        ("rejected", "New 1.md", "legumes"),
        ("waiting", "New 2.md", "soy"),
    } <= before["proposals"]
    start(heir)

    kept = heir.get("/proposals", state=["applied", "rejected", "waiting"]).json()["proposals"]
    assert {(one["state"], one["path"], one["tag"]) for one in kept} == before["proposals"]
    changes = heir.get("/changes").json()
    assert [(c["path"], c["tags"], c["undone_at"]) for c in changes] == [("New 0.md", ["caffeine"], None)]
    (record,) = heir.get("/v1/rx").json()["records"]
    whole = heir.get(f"/v1/rx/{record['id']}").json()
    assert (whole["question"], whole["notes"]) == ("how much coffee is too much?", "Little after noon.")
    assert whole["citations_status"] == "all_verified"
    assert before["jobs"] <= {job["task_id"] for job in heir.get("/ops/jobs.json", limit=500).json()["jobs"]}

    problems = wait_for(
        lambda: "25 notes vanished" in (found := " ".join(heir.health().get("problems", ()))) and found,
        "the notes whose deletion waits to be confirmed",
        patience=180,
    )
    assert "work is paused" in problems
    assert heir.get("/why/work/Plan.md").json()["state"] == "pending"
    assert query(heir, "SELECT * FROM dismissed_note") == [("nutrition", "Cafe\u0301.md", 1)]
    assert heir.get("/why/garden/Bed 3.md").json()["state"] == "pending"  # held: gone from disk, kept

    known = wait_for(
        lambda: heir.get("/why/Caffeine.md").json().get("dates"), "the dates of a note", patience=180
    )
    assert (known["created_by"][:8], known["changed_by"]) == ("property", "file")
    assert "Caffeine.md" in heir.found("what a late espresso does to the night")[:3]
    assert heir.found('"Bed number 26 has tomatoes"') == ["garden/Bed 26.md"]
    assert heir.found('"Bed number 3 has tomatoes"') == []  # held, and its file is gone
    assert embedded(heir) == before["texts"]
    assert vectors(heir) == before["vectors"]


def test_what_waited_goes_on_where_it_stood(heir):
    start(heir)
    heir.post("/ops/queue/resume", domain="work")
    wait_for(lambda: heir.get("/why/work/Plan.md").json()["state"] == "indexed", "the paused domain's note")
    heir.run("index", "--confirm-deletions", *heir.place)
    wait_for(lambda: heir.get("/why/garden/Bed 3.md").json()["state"] == "unknown", "the held deletions")
    waiting = heir.get("/proposals", state="waiting").json()["proposals"]
    (soy,) = [one for one in waiting if one["tag"] == "soy"]
    heir.post("/proposals/decide", {"accept": [soy["id"]], "reject": []})
    wait_for(lambda: "soy" in (heir.root / "New 2.md").read_text().partition("# New")[0], "the accepted tag")
    heir.run("tags", "undo", str(heir.get("/changes", path="New 0.md").json()[0]["id"]), *heir.place)
    wait_for(lambda: (heir.root / "New 0.md").read_text().startswith("# New 0"), "the undone promotion")


def test_a_backup_that_the_earlier_version_made_is_restored(heir, tmp_path):
    """Its databases are as that version left them: nothing was opened by this one before."""
    file = tmp_path / "backup.tar"
    identity = identify(heir.root)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("pipelines.state.state.version_of", lambda _: max(steps_of("pipelines.state")))
        write_backup(
            file,
            heir.state,
            ["nutrition", "garden", "work"],
            vault_id=identity.vault_id,
            root=heir.root,
            version="0.1.0",
        )
    placed = restore_backup(file, heir.state, vault_id=identity.vault_id, root=heir.root)
    assert sorted(placed) == ["garden", "nutrition", "work"]
    assert not (heir.state / "state.db.damaged-1").exists()
    attention = Attention(heir.state)
    assert attention.choices() == []
    attention.close()


@pytest.mark.parametrize("heir", WITHOUT_CHOICES, ids=version_of, indirect=True)
def test_choices_are_recorded_in_a_state_that_had_no_table_for_them(heir):
    assert query(heir, "SELECT 1 FROM sqlite_schema WHERE name = 'attention'") == []
    attention = Attention(heir.state)
    attention.add(["Caffeine.md"], "opened", 0.0)
    assert [one.path for one in attention.choices()] == ["Caffeine.md"]
    attention.close()
    assert query(heir, "SELECT count(*) FROM evidence") == [(1,)]
