"""Renames are applied to every note or to none, whenever the process dies and whatever a person writes meanwhile.

`KILLS=20 pytest tests/pipelines/tagging/test_rename_renames.py` kills that often at every step.
"""

import io
import os
import shutil
import signal
from functools import partial, wraps

import pytest

from pipelines.errors import NoteUnreadableError, NoteVanishedError, StateError
from pipelines.tagging import rename
from pipelines.tagging.note_tags import rename_tags
from pipelines.tagging.rename import Refusal, RenameReport, began_at, begin, distribute, plan, recover
from pipelines.tagging.vocabulary import parse
from pipelines.vault.atomic import write_atomic
from tests.faults.stage import in_child

KILLS = int(os.environ.get("KILLS", "1"))
TAXONOMY = "- new: x\n- other: y\n\n# Renames\n\n- old -> new\n- past -> other\n"
NOTES = {
    "a.md": b"---\ntags: [old, x]\n---\n#past\r\n",
    "b/c.md": b"---\ntags:\n  - past/nested # c\n---\n",
    "b/d.md": b"no tag \xff\n",
    "b/e.md": b"\xef\xbb\xbf#old/x `#old`",
}
AFTER = {
    "a.md": b"---\ntags: [new, x]\n---\n#other\r\n",
    "b/c.md": b"---\ntags:\n  - other/nested # c\n---\n",
    "b/d.md": b"no tag \xff\n",
    "b/e.md": b"\xef\xbb\xbf#new/x `#old`",
    "_taxonomy.md": b"- new: x\n- other: y\n\n# Renames\n\n",
}
BEFORE = {**NOTES, "_taxonomy.md": TAXONOMY.encode()}


def replace(path, read, new):
    try:
        present = path.read_bytes()
    except FileNotFoundError as error:
        raise NoteVanishedError(str(path)) from error
    if present != read:
        return present
    write_atomic(path, new)
    return None


def apply(planned, root, journal, replace):
    """Do what a worker does: refuse a plan, or record and carry it out."""
    if planned.refused:
        return RenameReport((), planned.refused, (), finished=False)
    begin(journal.with_name("run.json"), {journal: planned}, "2026")
    return recover(root, journal, replace)


class Vault:
    def __init__(self, folder):
        self.root, self.journal = folder / "vault", folder / "state" / "renames.json"
        self.run = folder / "state" / "run.json"
        for path, data in BEFORE.items():
            self.write(path, data)

    def write(self, path, data):
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_bytes(data)

    def read(self):
        files = (file for file in self.root.rglob("*") if file.is_file() and file.suffix == ".md")
        return {file.relative_to(self.root).as_posix(): file.read_bytes() for file in files}

    def plan(self):
        taxonomy = (self.root / "_taxonomy.md").read_bytes()
        return plan(self.read().items(), parse(taxonomy.decode()).renames, ("_taxonomy.md", taxonomy))

    def replacing(self, replace=replace):
        return lambda raw, read, new: replace(self.root / raw, read, new)

    def apply(self, replace=replace):
        return apply(self.plan(), self.root, self.journal, self.replacing(replace))

    def recover(self, replace=replace):
        distribute(self.run)
        return recover(self.root, self.journal, self.replacing(replace))


@pytest.fixture
def vault(tmp_path):
    return Vault(tmp_path)


# Planning


def test_a_plan_shows_each_change_and_changes_nothing(vault):
    planned = vault.plan()
    assert {(c.path, c.before, c.after) for c in planned.changes} == {
        (path, data, AFTER[path]) for path, data in NOTES.items() if data != AFTER[path]
    }
    assert planned.refused == ()
    assert vault.read() == BEFORE
    assert not vault.journal.exists()


def test_the_taxonomy_is_no_note_of_the_plan(vault):
    vault.write("_taxonomy.md", b"- new: x\n# Renames\n- #old -> #new\n")
    assert "_taxonomy.md" not in {change.path for change in vault.plan().changes}
    assert vault.apply().finished
    assert vault.read()["_taxonomy.md"] == b"- new: x\n# Renames\n"


def test_a_note_that_cannot_be_renamed_in_keeps_all_as_it_is_and_is_reported(vault):
    vault.write("f.md", b"---\ntags: [old\n---\n")
    before = vault.read()
    report = vault.apply()
    assert [refusal.path for refusal in report.refused] == ["f.md"]
    assert "unreadable" in report.refused[0].reason
    assert (report.changed, report.finished) == ((), False)
    assert vault.read() == before
    assert not vault.journal.exists()


def test_an_unreadable_note_that_does_not_name_the_tag_blocks_no_rename(vault):
    vault.write("f.md", b"---\ntags: [unrelated\n---\n")
    assert vault.apply().finished


@pytest.mark.parametrize(
    "text",
    [
        b"- two words: x\n# Renames\n- old -> new\n",
        b"\xff",
        b"- old: x\n    - new: y\n# Renames\n- old -> new\n",
    ],
)
def test_a_taxonomy_that_the_renames_cannot_be_cut_out_of_keeps_all_as_it_is(vault, text):
    vault.write("_taxonomy.md", text)
    before = vault.read()
    report = apply(
        plan(NOTES.items(), [("old", "new")], ("_taxonomy.md", text)),
        vault.root,
        vault.journal,
        vault.replacing(),
    )
    assert [refusal.path for refusal in report.refused] == ["_taxonomy.md"]
    assert vault.read() == before


# Applying


def test_the_notes_are_renamed_in_and_then_the_taxonomy(vault):
    seen = []

    def watched(path, read, new):
        assert vault.journal.exists()
        seen.append(path.relative_to(vault.root).as_posix())
        return replace(path, read, new)

    report = vault.apply(watched)
    assert vault.read() == AFTER
    assert report.finished
    assert sorted(report.changed) == ["_taxonomy.md", "a.md", "b/c.md", "b/e.md"]
    assert seen == list(report.changed)
    assert seen[-1] == "_taxonomy.md"
    assert not vault.journal.exists()
    assert vault.recover() is None


def test_applying_again_finds_nothing_to_do(vault):
    vault.apply()
    assert vault.apply().changed == ()
    assert vault.read() == AFTER


def test_what_a_person_wrote_since_the_plan_is_kept(vault):
    planned = vault.plan()
    vault.write("a.md", b"#old rewritten")
    vault.write("_taxonomy.md", TAXONOMY.encode() + b"- third -> new\n")
    assert apply(planned, vault.root, vault.journal, vault.replacing()).finished
    assert vault.read()["a.md"] == b"#new rewritten"
    assert vault.read()["_taxonomy.md"] == AFTER["_taxonomy.md"] + b"- third -> new\n"


def test_a_note_that_vanished_is_reported(vault):
    planned = vault.plan()
    (vault.root / "a.md").unlink()
    shutil.rmtree(vault.root / "b")
    (vault.root / "b").write_text("a file in the folder's place")
    report = apply(planned, vault.root, vault.journal, vault.replacing())
    assert sorted(report.vanished) == ["a.md", "b/c.md", "b/e.md"]
    assert report.finished


def disk_full(path, read, new):
    if path.name == "c.md":
        raise NoteUnreadableError("no space left")
    return replace(path, read, new)


def saving(path, read, new):
    return b"half of a sa" if path.name == "c.md" else replace(path, read, new)


@pytest.mark.parametrize(("failing", "reason"), [(disk_full, "no space left"), (saving, "written to")])
def test_a_note_that_cannot_be_written_is_pending_and_the_taxonomy_waits_for_it(vault, failing, reason):
    report = vault.apply(failing)
    assert [refusal.path for refusal in report.refused] == ["b/c.md"]
    assert reason in report.refused[0].reason
    assert not report.finished
    assert vault.read() == {**AFTER, "b/c.md": BEFORE["b/c.md"], "_taxonomy.md": BEFORE["_taxonomy.md"]}
    with pytest.raises(StateError, match="not finished"):
        vault.apply()
    assert not vault.recover(failing).finished
    assert vault.recover().changed == ("b/c.md", "_taxonomy.md")
    assert vault.read() == AFTER


def test_a_note_that_became_unreadable_is_pending_until_it_is_mended(vault):
    planned = vault.plan()
    vault.write("a.md", b"---\ntags: [old\n---\n")
    assert not apply(planned, vault.root, vault.journal, vault.replacing()).finished
    assert [type(refusal) for refusal in vault.recover().refused] == [Refusal]
    vault.write("a.md", b"---\ntags: [old]\n---\n")
    assert vault.recover().finished
    assert vault.read()["a.md"] == b"---\ntags: [new]\n---\n"


def test_a_taxonomy_that_became_invalid_is_pending_until_it_is_mended(vault):
    planned = vault.plan()
    vault.write("_taxonomy.md", b"- two words: x\n")
    assert [r.path for r in apply(planned, vault.root, vault.journal, vault.replacing()).refused] == [
        "_taxonomy.md"
    ]
    vault.write("_taxonomy.md", TAXONOMY.encode())
    assert vault.recover().changed == ("_taxonomy.md",)


def test_where_the_journal_cannot_be_written_no_note_is_changed(vault):
    vault.journal.parent.write_text("a file in the state folder's place")
    with pytest.raises(StateError, match="no note was changed"):
        vault.apply()
    assert vault.read() == BEFORE


def test_of_several_domains_none_is_begun_while_one_is_not_finished(vault):
    vault.apply(disk_full)
    before, other = vault.read(), vault.journal.with_name("other.json")
    with pytest.raises(StateError, match="not finished"):
        begin(vault.run, {other: vault.plan(), vault.journal: vault.plan()}, "2027")
    assert (other.exists(), vault.run.exists()) == (False, False)
    assert vault.read() == before


# Dying


@pytest.mark.parametrize("step", range(3))
def test_a_run_over_several_domains_is_begun_in_all_or_in_none(vault, monkeypatch, step):
    journals = [vault.journal, vault.journal.with_name("other.json")]
    steps = iter(range(9))

    def dying(path, data):
        if next(steps) == step:
            raise KeyboardInterrupt
        write_atomic(path, data)

    monkeypatch.setattr(rename, "write_atomic", dying)
    with pytest.raises(KeyboardInterrupt):
        begin(vault.run, dict.fromkeys(journals, vault.plan()), "2026")
    monkeypatch.undo()
    distribute(vault.run)
    assert [began_at(one) for one in journals] == ([""] * 2 if step == 0 else ["2026"] * 2)
    assert not vault.run.exists()


@pytest.mark.parametrize("length", [0, 1, 20, -1])
def test_a_torn_journal_is_discarded(vault, length):
    vault.apply(disk_full)
    vault.journal.write_bytes(vault.journal.read_bytes()[:length])
    assert vault.recover() is None
    assert not vault.journal.exists()
    assert vault.apply().finished
    assert vault.read() == AFTER


def test_a_journal_that_was_altered_is_discarded(vault):
    vault.apply(disk_full)
    vault.journal.write_bytes(vault.journal.read_bytes().replace(b"past", b"paxt"))
    assert vault.recover() is None


def hook(reached):
    """Call `reached` before and after whatever can change a disk, from now on, in this process."""

    def around(owner, name):
        original = getattr(owner, name)

        @wraps(original)
        def hooked(*args, **kwargs):
            reached()
            result = original(*args, **kwargs)
            reached()
            return result

        setattr(owner, name, hooked)

    for name in ("fsync", "replace", "unlink", "mkdir", "open"):
        around(os, name)
    around(io, "open")


def counting(vault):
    steps = 0

    def reached():
        nonlocal steps
        steps += 1

    hook(reached)
    assert vault.apply().finished
    return steps


def dying(act, nth):
    left = nth

    def reached():
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    hook(reached)
    act()


def test_killed_at_any_step_and_killed_again_while_it_recovers_it_is_all_or_nothing(tmp_path):
    log = tmp_path / "log"
    steps = in_child(partial(counting, Vault(tmp_path / "counted")), log).answer
    assert steps > 30
    finished = 0
    for trial in range(steps * KILLS):
        vault = Vault(tmp_path / "trial")
        nth = trial % steps + 1
        assert in_child(partial(dying, vault.apply, nth), log).died
        begun = vault.journal.exists() or vault.run.exists()
        if begun and trial % 2:
            in_child(lambda vault=vault, nth=nth: dying(vault.recover, nth // 2 + 1), log)
        vault.recover()
        assert vault.read() == (AFTER if begun or vault.read() == AFTER else BEFORE), f"killed at step {nth}"
        assert not vault.journal.exists()
        finished += vault.read() == AFTER
        shutil.rmtree(tmp_path / "trial")
    assert 0 < finished < steps * KILLS


def test_what_a_person_wrote_after_the_death_is_kept(tmp_path):
    vault = Vault(tmp_path)

    def die_at_second(path, read, new):
        if path.name == "c.md":
            os.kill(os.getpid(), signal.SIGKILL)
        return replace(path, read, new)

    assert in_child(partial(vault.apply, die_at_second), tmp_path / "log").died
    vault.write("a.md", vault.read()["a.md"] + b"#old and more")
    vault.write("b/e.md", b"nothing left")
    report = vault.recover()
    assert report.finished
    assert vault.read() == {**AFTER, "a.md": AFTER["a.md"] + b"#new and more", "b/e.md": b"nothing left"}
    assert rename_tags(vault.read()["a.md"], {"old": "new"}) == vault.read()["a.md"]
