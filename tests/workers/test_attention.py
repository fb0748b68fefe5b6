"""A choice is recorded only if the operator wants it, and never delays the answer; deleted notes are forgotten."""

from __future__ import annotations

import apsw
import pytest
from structlog.testing import capture_logs

from pipelines.indexing.reconcile import reconcile
from pipelines.state.attention import Attention
from pipelines.state.state import STATE_FILE
from queue_config.settings import Settings
from workers.attention import _RECORDER, AttentionSweep, chosen
from workers.resources import Resources


@pytest.fixture
def open_vault(vault, tmp_path, tiny_model):
    def make(**settings):
        return Resources(
            Settings(vault=vault, state=tmp_path / "state", embedding_model=str(tiny_model), **settings)
        )

    return make


def recorded(resources):
    """Return the notes that were chosen, once everything is written."""
    _RECORDER.submit(lambda: None).result()
    return [(one.path, one.how) for one in resources.stores.of(Attention).choices()]


def test_nothing_is_recorded_by_default(open_vault):
    resources = open_vault()
    chosen(resources, ["Soil.md"], "opened")
    assert recorded(resources) == []


def test_what_is_chosen_is_recorded_if_the_setting_says_so(open_vault):
    resources = open_vault(attention=True)
    chosen(resources, ["Soil.md"], "opened")
    chosen(resources, ["Soil.md"], "read")
    chosen(resources, [], "cited")
    assert recorded(resources) == [("Soil.md", "opened")]


def test_who_chooses_does_not_wait_for_a_state_that_is_locked(open_vault):
    resources = open_vault(attention=True)
    assert recorded(resources) == []
    lock = apsw.Connection(str(resources.place.state / STATE_FILE))
    lock.execute("BEGIN IMMEDIATE")
    chosen(resources, ["Soil.md"], "opened")  # the lock is held until after this returned
    lock.execute("ROLLBACK")
    assert recorded(resources) == [("Soil.md", "opened")]


def test_a_failure_is_logged_and_fails_no_caller(open_vault):
    resources = open_vault(attention=True)
    (resources.place.state / STATE_FILE).unlink(missing_ok=True)
    (resources.place.state / STATE_FILE).mkdir()
    with capture_logs() as logs:
        chosen(resources, ["Soil.md"], "opened")
        _RECORDER.submit(lambda: None).result()
    (line,) = logs
    assert (line["event"], line["log_level"]) == ("a choice was not recorded", "error")
    assert "Soil" not in str(line)


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def scan(resources):
    reconcile(resources.root, resources.registry(), resources.caches(), max_bytes=10**6)


def test_a_deleted_note_is_forgotten_and_one_that_comes_back_in_time_is_not(open_vault):
    resources, clock = open_vault(attention=True), Clock()
    sweep = AttentionSweep(resources, clock)
    for name in ("Soil", "River", "Boat"):
        (resources.root / f"{name}.md").write_text(f"{name} is here.")
    scan(resources)
    chosen(resources, ["Soil.md", "River.md", "Boat.md"], "opened")
    assert len(recorded(resources)) == 3
    sweep()
    (resources.root / "Soil.md").unlink()
    (resources.root / "River.md").unlink()
    (resources.root / "Boat.md").rename(resources.root / "Ship.md")
    scan(resources)
    sweep()
    assert {path for path, _ in recorded(resources)} == {"Soil.md", "River.md", "Ship.md"}
    (resources.root / "River.md").write_text("River is here again.")
    scan(resources)
    clock.now = 3600.0
    sweep()
    assert {path for path, _ in recorded(resources)} == {"River.md", "Ship.md"}


def test_a_vault_that_is_not_there_loses_nothing(open_vault):
    resources, clock = open_vault(attention=True), Clock()
    sweep = AttentionSweep(resources, clock)
    chosen(resources, ["Soil.md"], "opened")
    assert len(recorded(resources)) == 1
    resources.root.rename(resources.root.with_name("away"))
    for clock.now in (0.0, 3600.0):
        sweep()
    assert len(recorded(resources)) == 1


def test_a_process_of_one_domain_leaves_the_notes_of_others_alone(open_vault):
    everything = open_vault()
    (everything.root / "_domains.yaml").write_text("notes: {legacy: true}\nwork: {}\n")
    resources, clock = open_vault(attention=True, domain="work"), Clock()
    sweep = AttentionSweep(resources, clock)
    chosen(resources, ["Soil.md", "work/Plan.md"], "opened")
    assert len(recorded(resources)) == 2
    for clock.now in (0.0, 3600.0):
        sweep()
    assert recorded(resources) == [("Soil.md", "opened")]
