"""The life of tags as a user sees it, by editing files alone."""

from __future__ import annotations

import apsw
import psutil
import pytest

from tests.fakes.anthropic_api import KEY, Answer, fake_anthropic

from .conftest import User, wait_for

TAXONOMY = "# Tags\n\n## Garden\n\n- soil: what plants grow in\n- compost: rotted leaves\n\n## Renames\n\n- dirt -> soil\n"
NOTE = "---\nauthor: Ann # me\n---\nThe garden soil.\n"


@pytest.fixture(scope="module")
def served(tmp_path_factory, tiny_model):
    """A vault with a vocabulary, and Claude's place taken by the fake."""
    base = tmp_path_factory.mktemp("gardener")
    with fake_anthropic() as api:
        api.by_default = lambda _: Answer([("soil", 0.9)])
        root = base / "notes"
        root.mkdir()
        (root / "_taxonomy.md").write_text(TAXONOMY)
        (root / "old.md").write_text("---\ntags: [dirt]\n---\nAn old note. #dirt/deep\n")
        user = User(
            base,
            root,
            EMBEDDING_MODEL=str(tiny_model),
            ANTHROPIC_API_KEY=KEY,
            ANTHROPIC_BASE_URL=api.url,
        )
        user.api = api  # type: ignore[attr-defined]  # what the stand-in heard is asked of the user
        user.up()
        wait_for(lambda: "tags-began:vault" in facts(user), "the notes that were there are known")
        yield user
        user.stop()


@pytest.fixture
def gardener(served):
    """The same, with nothing asked of Claude yet; afterwards the notes of a test are gone, and nothing waits."""
    served.api.bodies.clear()
    yield served
    (served.root / "bed.md").unlink(missing_ok=True)
    wait_for(lambda: not served.get("/proposals").json()["proposals"], "nothing waits")
    wait_for(lambda: "`soil`" not in queue_of(served), "an empty queue")


def queue_of(user: User) -> str:
    file = user.root / "_review-queue.md"
    return file.read_text(encoding="utf-8") if file.exists() else ""


def test_a_new_note_is_tagged_by_a_tick_in_an_editor(gardener):
    (gardener.root / "bed.md").write_text(NOTE)
    wait_for(lambda: "`soil`" in queue_of(gardener), f"its proposal; {gardener.logs()}")
    assert len(gardener.api.requests) == 1  # not for what was there before
    file = gardener.root / "_review-queue.md"
    file.write_text(queue_of(gardener).replace("- [ ] `soil`", "- [x] `soil`"))
    tagged = NOTE.replace("# me\n", "# me\ntags:\n  - soil\n")
    wait_for(
        lambda: (gardener.root / "bed.md").read_text() == tagged, f"the tag in the note; {gardener.logs()}"
    )
    wait_for(lambda: "There is nothing to review." in queue_of(gardener), "an empty queue")
    found = lambda: [h["path"] for h in gardener.get("/search", q="garden", tag="soil").json()["results"]]  # noqa: E731
    wait_for(lambda: found() == ["bed.md"], "the filter knows the tag")
    assert len(gardener.api.requests) == 1  # our own write asks for nothing
    assert "bed.md" in gardener.run("tags", "log", *gardener.place)
    assert "bed.md" in gardener.run("tags", "log", "bed", *gardener.place)
    gardener.run("tags", "undo", *gardener.place)
    assert (gardener.root / "bed.md").read_text() == NOTE
    wait_for(lambda: "- [ ] `soil`" in queue_of(gardener), "the tag waits again")
    assert KEY not in gardener.logs()
    assert KEY not in gardener.run("config", *gardener.place)


def facts(user: User) -> str:
    con = apsw.Connection(str(user.state / "state.db"), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return " ".join(key for (key,) in con.execute("SELECT key FROM fact"))
    finally:
        con.close()


def test_renames_are_shown_then_applied_to_every_note_of_the_domain(gardener):
    before = (gardener.root / "old.md").read_text()
    shown = gardener.run("tags", "rename", "--dry-run", *gardener.place)
    assert "tags: [soil]" in shown
    assert (gardener.root / "old.md").read_text() == before
    gardener.run("tags", "rename", *gardener.place)
    assert (gardener.root / "old.md").read_text() == "---\ntags: [soil]\n---\nAn old note. #soil/deep\n"
    assert "dirt" not in (gardener.root / "_taxonomy.md").read_text()
    logged = gardener.run("tags", "log", *gardener.place)
    assert "renamed  dirt -> soil  1 note and _taxonomy.md" in logged
    undone = gardener.run("tags", "undo", *gardener.place)
    assert "renamed dirt -> soil in 1 note and _taxonomy.md" in undone
    assert "restored: old.md" in undone
    assert (gardener.root / "old.md").read_text() == before
    assert (gardener.root / "_taxonomy.md").read_text() == TAXONOMY
    assert "nothing to undo" in gardener.run("tags", "undo", *gardener.place, code=1)


def test_proposals_for_a_deleted_note_disappear_everywhere_and_accepting_one_says_why(gardener):
    (gardener.root / "bed.md").write_text(NOTE)
    (one,) = wait_for(lambda: gardener.get("/proposals").json()["proposals"], "a proposal")
    wait_for(lambda: "`soil`" in queue_of(gardener), "the queue")
    (gardener.root / "bed.md").unlink()
    wait_for(lambda: not gardener.get("/proposals").json()["proposals"], "it goes")
    assert "nothing waits" in gardener.run("tags", "list", *gardener.place)
    wait_for(lambda: "There is nothing to review." in queue_of(gardener), "an empty queue")
    assert gardener.get("/ops/overview.json").json()["domains"][0]["review_waiting"] == 0
    assert 'state="waiting"' not in gardener.get("/metrics").text
    answer = gardener.post("/proposals/decide", {"accept": [one["id"]]})
    assert answer.status_code == 404
    assert "'bed.md': no longer there" in answer.json()["detail"]
    (gardener.root / "bed.md").write_text(NOTE)
    wait_for(lambda: gardener.get("/proposals").json()["proposals"] == [one], "it is back with its note")


def test_decisions_over_http_reach_the_note_and_the_queue(gardener):
    spent = gardener.get("/proposals").json()["spent_today"]["notes"]
    asked = gardener.post("/proposals/ask", path="old.md").json()
    assert asked["paths"] == ["old.md"]
    (one,) = wait_for(lambda: gardener.get("/proposals").json()["proposals"], "a proposal")
    assert (one["path"], one["tag"], one["proposer"]) == ("old.md", "soil", "claude-haiku-5-5")
    gardener.post("/proposals/decide", {"accept": [one["id"]]})
    wait_for(lambda: "soil" in (gardener.root / "old.md").read_text().partition("---\nAn")[0], "the tag")
    assert gardener.get("/proposals").json()["spent_today"]["notes"] == spent + 1


def test_a_worker_that_dies_while_it_promotes_leaves_the_tag_in_the_note_once(gardener):
    (gardener.root / "bed.md").write_text(NOTE)
    (one,) = wait_for(lambda: gardener.get("/proposals").json()["proposals"], "a proposal")
    gardener.post("/proposals/decide", {"accept": [one["id"]]})
    for process in psutil.Process(gardener.processes[0].pid).children(recursive=True):
        if "work" in process.cmdline():
            process.kill()
    wait_for(lambda: (gardener.root / "bed.md").read_text().count("soil\n") == 1, "the tag")
    assert (gardener.root / "bed.md").read_text().count("- soil") == 1


def test_an_invalid_vocabulary_is_reported_until_it_is_corrected(gardener):
    (gardener.root / "_taxonomy.md").write_text(TAXONOMY + "- a -> b -> c\n")
    problems = lambda: gardener.json("status")["problems"]  # noqa: E731
    (said,) = wait_for(problems, "the problem")
    assert "_taxonomy.md:11: " in said
    assert said in gardener.run("tags", "propose", "old.md", *gardener.place)
    assert gardener.run("tags", "propose", "old.md", *gardener.place).startswith(
        "proposals requested for 1 note"
    )
    (gardener.root / "_taxonomy.md").write_text(TAXONOMY)
    wait_for(lambda: not problems(), "it is over")


def test_a_tag_is_renamed_by_one_command_in_the_notes_and_in_the_vocabulary(gardener):
    note, vocabulary = gardener.root / "heap.md", gardener.root / "_taxonomy.md"
    note.write_text("---\ntags: [compost]\n---\nA heap. #compost/hot\n")
    wait_for(lambda: gardener.get("/node/heap.md").status_code == 200, "the note is indexed")
    asked = ("tags", "rename", "compost", "#humus", *gardener.place)
    try:
        assert "lists other renames: dirt -> soil" in gardener.run(*asked, code=2)
        assert vocabulary.read_text() == TAXONOMY
        vocabulary.write_text(TAXONOMY.replace("- dirt -> soil\n", ""))
        alone = vocabulary.read_text()
        assert "- tags: [compost]\n    + tags: [humus]" in gardener.run(*asked, "--dry-run")
        assert vocabulary.read_text() == alone
        note.write_text("---\ntags: [compost\n---\nA heap. #compost/hot\n")
        assert "refused: heap.md" in gardener.run(*asked, code=1)
        assert vocabulary.read_text() == alone
        note.write_text("---\ntags: [compost]\n---\nA heap. #compost/hot\n")
        assert "compost -> humus" in gardener.run(*asked)
        assert note.read_text() == "---\ntags: [humus]\n---\nA heap. #humus/hot\n"
        assert "- humus: rotted leaves\n" in vocabulary.read_text()
        assert "compost" not in vocabulary.read_text()
        assert "restored: heap.md" in gardener.run("tags", "undo", *gardener.place)
        assert note.read_text() == "---\ntags: [compost]\n---\nA heap. #compost/hot\n"
        assert "no vocabulary has the tag 'mud'" in gardener.run(
            "tags", "rename", "mud", "soil", *gardener.place, code=1
        )
    finally:
        note.unlink()
        vocabulary.write_text(TAXONOMY)
