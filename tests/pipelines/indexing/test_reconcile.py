"""Disk against ledger, for the whole vault and for the paths that an event named."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from pipelines.domains import Registry, load
from pipelines.errors import VaultNotFoundError
from pipelines.indexing.reconcile import check_paths, reconcile, rehash
from pipelines.maintenance.verify import verify
from pipelines.model import Domain
from pipelines.vault.scan import scan_vault
from tests.pipelines.conftest import MAX_BYTES, House, LetGo

ON_BOTH_STORES = True


def found(house):
    return house.reconcile().plain()


def test_the_first_scan_finds_everything_and_the_second_nothing(house):
    for n in range(3):
        house.write(f"{n}.md", f"Note {n}.")
    house.write(".obsidian/x.md", "ignored")
    assert found(house) == {"new": 3, "updated": 0, "removed": 0, "unchanged": 0, "ignored": 1, "held": 0}
    house.drain()
    assert found(house) == {"new": 0, "updated": 0, "removed": 0, "unchanged": 3, "ignored": 1, "held": 0}
    for note in house.root.glob("*.md"):
        note.touch()
    assert found(house)["unchanged"] == 3


def test_two_scans_in_a_row_owe_one_generation(house):
    house.write("a.md", "Once.")
    house.reconcile()
    house.reconcile()
    assert len(house.drain()) == 1


def test_a_vault_that_cannot_be_listed_deletes_nothing(house, tmp_path):
    house.save("a.md", "Kept.")
    house.root.rename(tmp_path / "away")
    with pytest.raises(VaultNotFoundError, match="mounted"):
        house.reconcile()
    assert house.cache.counts().notes == 1


@pytest.mark.parametrize("event", [False, True], ids=["all is compared", "an event names the folder above"])
def test_notes_in_a_folder_that_cannot_be_read_are_kept(
    public, as_nobody, tmp_path, tiny_embedder, monkeypatch, event
):
    house = House(public, tmp_path, tiny_embedder)
    house.write("a/closed/deep/kept.md", "Kept.")
    house.write("a/gone.md", "Gone.")
    house.index()
    (public / "a" / "gone.md").unlink()
    (public / "a" / "closed").chmod(0o700 if os.geteuid() == 0 else 0o000)
    monkeypatch.setattr("pipelines.indexing.reconcile.scan_vault", lambda *args: as_nobody(scan_vault, *args))
    report = house.notice("a") if event else house.reconcile()
    (public / "a" / "closed").chmod(0o700)
    assert [(one.path, one.kind) for one in report.events] == [("a/gone.md", "deleted")]
    assert len(report.complaints) == 1
    assert "'a/closed' cannot be read" in report.complaints[0]
    house.cache.close()


def test_a_folder_event_names_everything_below_it(house):
    house.write("in/deep/a.md", "One.")
    house.write("in/b.md", "Two.")
    assert {e.path for e in house.notice("in").events} == {"in/deep/a.md", "in/b.md"}


def test_a_folder_moved_out_removes_what_was_below_it(house, tmp_path):
    house.write("in/deep/a.md", "One.")
    house.write("inner.md", "Two.")
    house.index()
    (house.root / "in").rename(tmp_path / "out")
    assert {(e.path, e.kind) for e in house.notice("in").events} == {("in/deep/a.md", "deleted")}


def test_a_note_that_becomes_ignored_leaves_the_index(house):
    house.write("drafts/a.md", "Draft.")
    house.index()
    house.write(".gitignore", "drafts/\n")
    house.index()
    assert (house.cache.counts().notes, house.cache.counts().ignored) == (0, 1)
    (house.root / ".gitignore").unlink()
    house.index()
    assert (house.cache.counts().notes, house.cache.counts().ignored) == (1, 0)


def test_an_ignored_file_is_counted_as_soon_as_it_is_saved_and_no_longer_than_it_exists(house):
    house.write("x.sync-conflict-1.md", "copy")
    house.notice("x.sync-conflict-1.md")
    assert house.cache.counts().ignored == 1
    (house.root / "x.sync-conflict-1.md").unlink()
    house.notice("x.sync-conflict-1.md")
    assert house.cache.counts().ignored == 0


def test_two_files_with_one_name_in_two_unicode_forms_are_both_parked_and_reported(house):
    house.write("caf\u00e9.md", "Composed.")
    house.write("cafe\u0301.md", "Decomposed.")
    house.index()
    rows = house.parked()
    assert [row[1] for row in rows] == ["name-collision"] * 2
    assert house.cache.counts().notes == 0


@pytest.mark.parametrize("by_event", [True, False])
def test_a_collision_that_is_resolved_indexes_the_one_that_stayed(house, by_event):
    house.write("caf\u00e9.md", "Composed.")
    house.write("cafe\u0301.md", "Decomposed.")
    house.index()
    (house.root / "caf\u00e9.md").unlink()
    if by_event:
        house.notice("caf\u00e9.md")
    else:
        house.reconcile()
    house.drain()
    assert house.picture() == house.scratch_picture()
    assert house.cache.counts().notes == 1


def test_a_decomposed_name_is_known_by_its_composed_form_and_opened_by_its_own(house):
    house.save("cafe\u0301.md", "Words.")
    assert house.picture()["files"][0][:2] == ("caf\u00e9.md", "cafe\u0301.md".encode())


def test_a_link_out_of_the_vault_is_ignored_and_reported(house, tmp_path):
    (tmp_path / "secret.md").write_text("Outside.")
    (house.root / "link.md").symlink_to(tmp_path / "secret.md")
    house.index()
    assert house.cache.ignored_rule("link.md") == "symlink (not followed)"
    (house.root / "link2.md").symlink_to(tmp_path / "secret.md")
    house.notice("link2.md")
    assert (house.cache.counts().notes, house.cache.counts().ignored) == (0, 2)


@pytest.fixture
def two(house):
    """Two domains of one vault: `fitness/`, and everything else."""
    registry = Registry((Domain("rest", "", legacy=True), Domain("fitness", "fitness")))
    other = house.open("cache-fitness.1.db")
    yield registry, {"rest": house.cache, "fitness": other}
    other.close()


def test_a_path_belongs_to_one_domain(house, two):
    registry, caches = two
    house.write("fitness/run.md", "Run.")
    house.write("fitness.md", "Not in the folder.")
    reports = reconcile(house.root, registry, caches, max_bytes=1000)
    assert [e.path for e in reports["fitness"].events] == ["fitness/run.md"]
    assert [e.path for e in reports["rest"].events] == ["fitness.md"]


@pytest.mark.of_sqlite
@pytest.mark.parametrize("by", ["a comparison", "the watcher"])
def test_a_link_to_a_note_whose_deletion_another_domain_holds_is_not_broken(house, two, by):
    registry, caches = two
    runs = [f"fitness/run {n}.md" for n in range(25)]
    for path in runs:
        house.write(path, "Run.")
    house.write("log.md", "As in [[run 7]] and [[nowhere]].")
    reconcile(house.root, registry, caches, max_bytes=1000)
    house.drain()
    for path in runs:
        (house.root / path).unlink()
    if by == "a comparison":
        reports = reconcile(house.root, registry, caches, max_bytes=1000)
    else:
        reports = check_paths(house.root, registry, caches, runs, max_bytes=1000)
    assert reports["fitness"].held == 25
    broken = [link.target for link in caches["rest"].graph.links_in_state("broken", 10)]
    assert broken == ["nowhere"]
    siblings = [caches["fitness"].path]
    told = verify(caches["rest"], replace(house.ingest, domain="rest", siblings=lambda: siblings), registry)
    assert [d for d in told.differences if "run" in d.path] == []


def test_a_note_moved_between_domains_leaves_one_and_enters_the_other(house, two):
    registry, caches = two
    house.write("run.md", "Run.")
    reconcile(house.root, registry, caches, max_bytes=1000)
    (house.root / "fitness").mkdir()
    (house.root / "run.md").rename(house.root / "fitness/run.md")
    reports = check_paths(house.root, registry, caches, ["run.md", "fitness/run.md"], max_bytes=1000)
    assert [(e.path, e.kind) for e in reports["rest"].events] == [("run.md", "deleted")]
    assert [(e.path, e.kind) for e in reports["fitness"].events] == [("fitness/run.md", "created")]


def test_a_folder_above_a_domain_that_goes_takes_the_domains_notes(house, two, tmp_path):
    registry, caches = two
    deep = Registry((registry.domains[0], Domain("fitness", "body/fitness")))
    house.write("body/fitness/run.md", "Run.")
    house.write("body/other.md", "Other.")
    reconcile(house.root, deep, caches, max_bytes=1000)
    (house.root / "body").rename(tmp_path / "gone")
    reports = check_paths(house.root, deep, caches, ["body"], max_bytes=1000)
    assert [e.path for e in reports["fitness"].events] == ["body/fitness/run.md"]
    assert [e.path for e in reports["rest"].events] == ["body/other.md"]


def test_a_change_of_the_domains_moves_notes_between_caches(house, two):
    registry, caches = two
    house.write("fitness/run.md", "Run.")
    one = Registry((Domain("rest", "", legacy=True),))
    reconcile(house.root, one, {"rest": caches["rest"]}, max_bytes=1000)
    reports = reconcile(house.root, registry, caches, max_bytes=1000)
    assert [e.kind for e in reports["rest"].events] == ["deleted"]
    assert [e.kind for e in reports["fitness"].events] == ["created"]


@pytest.mark.parametrize("by_event", [True, False])
def test_a_mass_of_deletions_is_held_until_it_is_confirmed(house, tmp_path, by_event):
    for n in range(100):
        house.write(f"in/{n}.md", f"Note {n}.")
    house.index()
    (house.root / "in").rename(tmp_path / "out")
    report = house.notice("in") if by_event else house.reconcile()
    assert (report.removed, report.held) == (0, 100)
    assert house.cache.counts().notes == 100
    reports = reconcile(
        house.root,
        load(house.root),
        {"vault": house.cache},
        max_bytes=1000,
        brake=LetGo(),
    )
    assert reports["vault"].removed == 100


@pytest.mark.parametrize(
    ("notes", "removed", "held"), [(100, 20, 0), (100, 21, 21), (19, 19, 0), (20, 20, 20)]
)
def test_a_mass_is_more_than_a_fifth_and_at_least_twenty(house, notes, removed, held):
    for n in range(notes):
        house.write(f"{n}.md", f"Note {n}.")
    house.reconcile()
    for n in range(removed):
        (house.root / f"{n}.md").unlink()
    assert house.reconcile().held == held


@pytest.mark.parametrize("by_event", [True, False])
def test_a_folder_renamed_is_no_mass_deletion(house, by_event):
    for n in range(50):
        house.write(f"old/{n}.md", f"Note {n}.")
    house.index()
    (house.root / "old").rename(house.root / "new")
    report = house.notice("old", "new") if by_event else house.reconcile()
    assert (report.removed, report.new, report.held) == (50, 50, 0)


def test_held_deletions_do_not_hold_up_other_changes(house):
    for n in range(50):
        house.write(f"{n}.md", f"Note {n}.")
    house.index()
    for n in range(40):
        (house.root / f"{n}.md").unlink()
    house.write("new.md", "New.")
    report = house.reconcile()
    assert (report.new, report.held) == (1, 40)


def test_held_notes_that_come_back_were_never_gone(house, tmp_path):
    for n in range(50):
        house.write(f"in/{n}.md", f"Note {n}.")
    house.index()
    (house.root / "in").rename(tmp_path / "out")
    house.reconcile()
    (tmp_path / "out").rename(house.root / "in")
    report = house.reconcile()
    assert (report.held, report.events) == (0, [])


def test_notes_that_become_ignored_are_no_mass_deletion(house):
    for n in range(50):
        house.write(f"drafts/{n}.md", f"Note {n}.")
    house.index()
    house.write(".gitignore", "drafts/\n")
    report = house.reconcile()
    assert (report.removed, report.held, report.ignored) == (50, 0, 50)


def test_an_edit_that_left_size_and_time_as_they_were_is_found_by_hashing(house):
    import os

    for n in range(5):
        house.write(f"{n}.md", f"Note {n}.")
    house.index()
    file = house.root / "3.md"
    before = file.stat()
    with file.open("r+b") as handle:
        handle.write(b"Edit 3")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert house.reconcile().events == []
    cursor, found = "", []
    while True:
        report, cursor = rehash(house.root, "vault", house.cache, cursor, 2, max_bytes=1000)
        found += [event.path for event in report.events]
        if not cursor:
            break
    assert found == ["3.md"]


def test_a_name_that_collides_later_parks_both_notes_and_frees_the_one_that_stays(house):
    house.save("caf\u00e9.md", "Composed.")
    house.write("cafe\u0301.md", "Decomposed.")
    house.index()
    assert [kind for _, kind, _ in house.parked()] == ["name-collision"] * 2
    assert house.picture() == house.scratch_picture()
    (house.root / "cafe\u0301.md").unlink()
    house.index()
    assert house.parked() == []
    assert house.picture() == house.scratch_picture()


def test_a_note_that_was_too_large_for_another_reason_says_the_new_reason(house):
    house.write("caf\u00e9.md", b"x" * (MAX_BYTES + 1))
    house.index()
    house.write("cafe\u0301.md", "")
    house.index()
    assert [kind for _, kind, _ in house.parked()] == ["name-collision"] * 2


def test_a_raised_limit_takes_up_the_notes_that_were_too_large(house):
    house.write("big.md", b"x" * (MAX_BYTES + 1))
    house.index()
    assert [kind for _, kind, _ in house.parked()] == ["too-large"]
    report = reconcile(house.root, load(house.root), {"vault": house.cache}, max_bytes=MAX_BYTES + 1)["vault"]
    assert [event.path for event in report.events] == ["big.md"]
    assert house.parked() == []


def test_a_saved_note_with_an_accent_is_checked_alone(house):
    house.write("caf\u00e9.md", "Coffee.")
    house.write("other.md", "No event has named it yet.")
    assert [event.path for event in house.notice("caf\u00e9.md").events] == ["caf\u00e9.md"]


@pytest.mark.parametrize("gone", [["caf\u00e9.md"], ["cafe\u0301.md"], ["caf\u00e9.md", "cafe\u0301.md"]])
def test_colliding_names_that_go_are_forgotten_and_what_is_left_is_indexed(house, gone):
    for name in ("caf\u00e9.md", "cafe\u0301.md"):
        house.write(name, f"Coffee {name}.")
    house.index()
    for name in gone:
        (house.root / name).unlink()
    house.notice(*gone)
    house.drain()
    assert house.picture() == house.scratch_picture()
