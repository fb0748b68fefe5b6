"""The routes that change which notes are indexed, over HTTP."""

from __future__ import annotations

import errno
import os
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from urllib.parse import quote

import pytest
from starlette.testclient import TestClient

from pipelines.errors import CannotUndoError
from pipelines.state.tags import Proposals
from pipelines.vault.ignore import MOST_BYTES, stop_ignoring
from pipelines.vault.write import replace_if_unchanged
from queue_config.settings import Settings
from service.app import create_app
from service.runtime.client import read_token
from service.schemas.notes import NewNote
from service.usecases.changes import stop_indexing, write_note
from service.usecases.maintenance import index_once
from service.usecases.search import View
from tests.browser.serving import cookie_of
from tests.working import indexed, worker
from workers.resources import Resources
from workers.tag_context import TaggingContext
from workers.tagging import take_back

PORT = 8745


@pytest.fixture
def settings(vault, tmp_path, tiny_model):
    return indexed(vault, tmp_path / "state", tiny_model)


@pytest.fixture
def anyone(settings):
    return TestClient(create_app(settings, PORT), base_url=f"http://127.0.0.1:{PORT}")


@pytest.fixture
def program(anyone, settings):
    anyone.headers["Authorization"] = f"Bearer {read_token(settings.state)}"
    return anyone


def test_a_note_is_found_by_the_first_search_after_the_answer(settings, vault, program):
    (vault / "Boat.md").write_text("a wherry")
    with worker(settings):
        answer = program.post("/index", params={"path": "Boat.md", "wait": 1})
        found = program.get("/search", params={"q": '"wherry"'}).json()["results"]
    assert (answer.status_code, answer.json()["findable"]) == (200, True)
    assert [hit["path"] for hit in found] == ["Boat.md"]


def test_a_note_that_waits_is_accepted(program, vault):
    (vault / "Boat.md").write_text("a wherry")
    answer = program.post("/index", params={"path": "Boat.md"})
    assert (answer.status_code, answer.json()["state"]) == (202, "queued")


def test_a_program_can_force_a_note_and_learns_its_passages(settings, program):
    with worker(settings):
        answer = program.post("/index", params={"path": "Soil.md", "wait": 1, "force": 1}).json()
    assert (answer["findable"], answer["passages"]) == (True, 1)
    assert program.get("/log/Soil.md").json()["entries"][0]["texts_embedded"] == 0


@pytest.mark.parametrize(
    ("path", "status"),
    [("", 422), ("No.md", 404), ("../Soil.md", 400), ("/Soil.md", 400), ("a\0.md", 400), ("x" * 5000, 414)],
)
def test_a_path_that_is_no_notes_is_refused(program, path, status):
    assert program.post("/index", params={"path": path}).status_code == status


def test_another_site_cannot_have_a_note_indexed(anyone, settings):
    assert anyone.post("/index?path=Soil.md").status_code == 401
    cookie = {"Cookie": "=".join(cookie_of(settings, PORT))}
    json = {"Content-Type": "application/json"}
    same = {"Sec-Fetch-Site": "same-origin"}
    for headers in (
        json,
        {"Sec-Fetch-Site": "cross-site", **json},
        {"Origin": "http://evil.example", **json},
    ):
        assert anyone.post("/index?path=Soil.md", headers={**cookie, **headers}).status_code == 403
    assert anyone.post("/index?path=Soil.md", headers={**cookie, **same}).status_code == 415
    assert anyone.post("/index?path=Soil.md", headers={**cookie, **same, **json}).status_code == 202


# Stop indexing

NAMES = [
    "Boat.md",
    "[Soil]*?.md",
    "!not.md",
    "#hash.md",
    " blank .md",
    "a\\b.md",
    "Å.md",
    "Deep/**/x.md",
    "*.md",
]


@pytest.mark.parametrize("name", NAMES)
def test_exactly_one_note_leaves_the_index_its_file_stays_and_it_comes_back(settings, vault, program, name):
    (vault / name).parent.mkdir(parents=True, exist_ok=True)
    (vault / name).write_text("a wherry")
    resources = Resources(settings)
    index_once(resources, lambda *_: None)
    answer = program.delete(f"/documents/{quote(name)}")
    assert (answer.status_code, answer.json()["passages"]) == (200, 1)
    assert answer.json()["line"] in (vault / ".everindexignore").read_text().splitlines()
    index_once(resources, lambda *_: None)
    assert program.get("/search", params={"q": "wherry clay"}).json()["count"] == 1
    assert (vault / name).read_text() == "a wherry"
    assert program.delete(f"/documents/{quote(name)}").json()["detail"]["state"] == "ignored"
    stop_ignoring(vault, name, resources.place.displaced)
    assert not (vault / ".everindexignore").exists()
    index_once(resources, lambda *_: None)
    assert program.get("/search", params={"q": "wherry clay"}).json()["count"] == 2


@pytest.mark.parametrize(
    ("path", "status"),
    [
        *[
            ("No.md", 404),
            ("", 404),
            ("Folder", 404),
            ("_taxonomy.md", 404),
            ("picture.png", 404),
            ("Link.md", 404),
        ],
        *[("%2e%2e/Soil.md", 400), ("/Soil.md", 400), ("Soil.md%0A*", 400)],
        *[("Soil.md%00", 400), ("x" * 5000, 414)],
    ],
)
def test_what_is_no_note_is_refused_and_no_line_is_written(program, vault, path, status):
    (vault / "Folder").mkdir()
    (vault / "Link.md").symlink_to("Soil.md")
    for name in ("_taxonomy.md", "picture.png"):
        (vault / name).write_text("")
    assert program.delete(f"/documents/{path}").status_code == status
    assert not (vault / ".everindexignore").exists()


def test_a_line_that_a_deeper_rule_overrules_is_not_left_behind(program, vault):
    (vault / "Deep").mkdir()
    (vault / "Deep" / "Soil.md").write_text("clay")
    (vault / "Deep" / ".everindexignore").write_text("!Soil.md\n")
    answer = program.delete("/documents/Deep/Soil.md")
    assert answer.status_code == 409
    assert "lets it in" in answer.json()["detail"]
    assert not (vault / ".everindexignore").exists()


def test_a_line_that_is_there_and_overruled_is_reported_and_stays(program, vault):
    (vault / "Deep").mkdir()
    (vault / "Deep" / "Soil.md").write_text("clay")
    (vault / "Deep" / ".gitignore").write_text("!Soil.md\n")
    (vault / ".everindexignore").write_text("/Deep/Soil.md\n")
    answer = program.delete("/documents/Deep/Soil.md")
    assert answer.status_code == 409
    assert "lets it in" in answer.json()["detail"]
    assert (vault / ".everindexignore").read_text() == "/Deep/Soil.md\n"


def test_a_name_that_is_no_text_is_ignored_and_answered_as_its_key(vault, program):
    address = quote(r"by\xff.md")
    (vault / os.fsdecode(b"by\xff.md")).write_text("a wherry")
    answer = program.delete(f"/documents/{address}")
    assert (answer.status_code, answer.json()["line"]) == (200, "/by\\xff.md")
    assert b"/by\xff.md" in (vault / ".everindexignore").read_bytes().splitlines()


@pytest.mark.parametrize("kind", ["link", "fifo", "folder"])
def test_what_is_no_file_in_the_place_of_the_ignore_file_stays_and_is_named(program, vault, tmp_path, kind):
    place, outside = vault / ".everindexignore", tmp_path / "outside"
    outside.write_text("mine")
    make = {
        "link": lambda: place.symlink_to(outside),
        "fifo": lambda: os.mkfifo(place),
        "folder": place.mkdir,
    }
    make[kind]()
    answer = program.delete("/documents/Soil.md")
    assert answer.status_code == 409
    assert ".everindexignore" in answer.json()["detail"]
    assert outside.read_text() == "mine"
    assert not place.is_file() or place.is_symlink()


@pytest.mark.parametrize(
    ("before", "reason"),
    [(b"/Secret/\n" + b"#" * (MOST_BYTES - 15) + b"\n", "shorten it"), ("x\n".encode("utf-16"), "UTF-8")],
)
def test_an_ignore_file_that_can_take_no_line_keeps_its_bytes(program, vault, before, reason):
    (vault / ".everindexignore").write_bytes(before)
    answer = program.delete("/documents/Soil.md")
    assert answer.status_code == 409
    assert reason in answer.json()["detail"]
    assert (vault / ".everindexignore").read_bytes() == before


def test_of_many_notes_at_once_each_gets_its_line(settings, vault):
    names = [f"n{number}.md" for number in range(24)]
    for name in names:
        (vault / name).write_text("")
    questions = View(Resources(settings))
    with ThreadPoolExecutor(8) as threads:
        lines = [one.line for one in threads.map(partial(stop_indexing, questions), names)]
    assert lines == [f"/{name}" for name in names]
    assert {*lines} <= {*(vault / ".everindexignore").read_text().splitlines()}


def test_lines_of_an_ignore_file_are_kept(program, vault):
    (vault / ".everindexignore").write_bytes(b"# mine\r\n*.tmp\r\n")
    assert program.delete("/documents/Soil.md").status_code == 200
    assert (vault / ".everindexignore").read_bytes() == b"# mine\r\n*.tmp\r\n/Soil.md\r\n"


def test_a_vault_that_cannot_be_written_is_named(program, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("pipelines.vault.ignore.replace_if_unchanged", full)
    answer = program.delete("/documents/Soil.md")
    assert answer.status_code == 503
    assert "No space left" in answer.json()["detail"]


def test_another_site_cannot_stop_the_indexing_of_a_note(anyone, settings, vault):
    cookie = {"Cookie": "=".join(cookie_of(settings, PORT)), "Content-Type": "application/json"}
    assert anyone.delete("/documents/Soil.md").status_code == 401
    for site in ("cross-site", "same-site"):
        assert (
            anyone.delete("/documents/Soil.md", headers={**cookie, "Sec-Fetch-Site": site}).status_code == 403
        )
    assert not (vault / ".everindexignore").exists()


# New notes

NOTE = {
    "title": "Wherry / barge",
    "text": "a wherry",
    "kind": "idea",
    "source": "https://a.example/",
    "properties": {"n": 1},
}


@pytest.fixture
def inbox(vault, tmp_path, tiny_model):
    settings = Settings(
        vault=vault, state=tmp_path / "state", embedding_model=str(tiny_model), inbox="In/Box"
    )
    app = create_app(settings, PORT)
    token = read_token(settings.state)
    return TestClient(app, base_url=f"http://127.0.0.1:{PORT}", headers={"Authorization": f"Bearer {token}"})


def test_a_new_note_is_a_file_that_the_answer_says_how_to_find(settings, vault, inbox):
    answer = inbox.post("/notes", json=NOTE)
    assert (answer.status_code, answer.json()["path"]) == (201, "In/Box/Wherry barge.md")
    assert (vault / "In/Box/Wherry barge.md").read_text() == (
        "---\ntitle: Wherry / barge\nkind: idea\nsource: https://a.example/\nn: 1\n---\n\na wherry\n"
    )
    with worker(settings):
        assert inbox.post(answer.json()["index"]).json()["findable"]
        found = inbox.get("/search", params={"q": '"wherry"', "kind": "idea"}).json()["results"]
    assert [hit["title"] for hit in found] == ["Wherry / barge"]
    assert inbox.post("/notes", json=NOTE).json()["path"] == "In/Box/Wherry barge 2.md"


def test_without_an_inbox_nothing_is_written(program, vault):
    before = sorted(vault.rglob("*"))
    answer = program.post("/notes", json=NOTE)
    assert answer.status_code == 409
    assert "EVERINDEX_INBOX" in answer.json()["detail"]
    assert sorted(vault.rglob("*")) == before


@pytest.mark.parametrize(
    "fields",
    [
        *[
            {"title": ""},
            {"title": " "},
            {"title": "a\nb"},
            {"title": "x" * 201},
            {"title": None},
            {"path": "a.md"},
        ],
        *[{"text": "\0"}, {"text": "x" * 500_001}, {"kind": ""}, {"properties": {"Title": "x"}}],
        *[{"properties": {"": 1}}, {"properties": {"a\nb": 1}}, {"properties": {"n": 2**63}}],
        *[{"properties": {"deep": [[[[[[[[[[1]]]]]]]]]]}}, {"properties": [1]}],
    ],
)
def test_a_note_that_could_not_be_read_back_is_refused(inbox, vault, fields):
    assert inbox.post("/notes", json=NOTE | fields).status_code == 422
    assert not (vault / "In").exists()


@pytest.mark.parametrize("value", ['"\\ud83d"', "NaN", "Infinity", "1e999"])
def test_a_value_that_json_has_and_a_note_cannot_is_refused(inbox, vault, value):
    body = f'{{"title": "a", "text": "", "properties": {{"x": {value}}}}}'
    answer = inbox.post("/notes", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 422
    assert not (vault / "In").exists()


def test_an_inbox_that_is_ignored_or_a_link_takes_nothing(inbox, vault, tmp_path):
    (vault / ".everindexignore").write_text("/In/\n")
    assert inbox.post("/notes", json=NOTE).status_code == 409
    (vault / ".everindexignore").unlink()
    (tmp_path / "outside").mkdir()
    (vault / "In").symlink_to(tmp_path / "outside")
    answer = inbox.post("/notes", json=NOTE)
    assert answer.status_code == 409
    assert "symlink" in answer.json()["detail"]
    assert list((tmp_path / "outside").iterdir()) == []


def test_a_note_cannot_become_a_vocabulary(inbox, vault):
    (vault / "_domains.yaml").write_text("all: {legacy: true, taxonomy: In/Box/Words.md}\n")
    assert inbox.post("/notes", json=NOTE | {"title": "words"}).json()["path"] == "In/Box/words 2.md"


def test_a_note_that_would_be_parked_is_not_written(vault, tmp_path, tiny_model):
    settings = Settings(
        vault=vault, state=tmp_path / "state", embedding_model=str(tiny_model), inbox="In", max_note_mb=0.0001
    )
    program = TestClient(create_app(settings, PORT), base_url=f"http://127.0.0.1:{PORT}")
    program.headers["Authorization"] = f"Bearer {read_token(settings.state)}"
    assert program.post("/notes", json=NOTE | {"text": "x" * 200}).status_code == 413
    assert not (vault / "In").exists()


def test_an_inbox_that_cannot_be_written_is_named(inbox, vault):
    (vault / "In").write_text("a file")
    answer = inbox.post("/notes", json=NOTE)
    assert answer.status_code == 503
    assert "In/Box cannot be written" in answer.json()["detail"]


def test_another_site_cannot_write_a_note(anyone, settings):
    assert anyone.post("/notes", json=NOTE).status_code == 401
    cookie = {"Cookie": "=".join(cookie_of(settings, PORT))}
    assert (
        anyone.post("/notes", json=NOTE, headers={**cookie, "Sec-Fetch-Site": "cross-site"}).status_code
        == 403
    )
    assert anyone.post("/notes", json=NOTE, headers=cookie).status_code == 403
    form = {**cookie, "Sec-Fetch-Site": "same-origin", "Content-Type": "text/plain"}
    assert anyone.post("/notes", content="{}", headers=form).status_code == 415


# Write a note again, by its id

CALL = {"title": "Call 1", "text": "Moats are wide.", "properties": {"id": "call-1"}}


def again(**fields):
    return CALL | fields


@pytest.fixture
def place(vault, tmp_path, tiny_model):
    return Resources(
        Settings(vault=vault, state=tmp_path / "state", embedding_model=str(tiny_model), inbox="In/Box")
    )


def taken_back(place, number):
    (domain,) = place.domains()
    index_once(place, lambda *_: None)
    return take_back(TaggingContext(place), domain, number)


def test_a_note_with_a_known_id_is_replaced_at_its_path(inbox, vault):
    first = inbox.post("/notes", json=CALL)
    assert (first.status_code, first.json()["state"]) == (201, "new")
    answer = inbox.post("/notes", json=again(title="Call one", text="Moats are narrow."))
    assert (answer.status_code, answer.json()["state"]) == (200, "replaced")
    assert answer.json()["path"] == first.json()["path"] == "In/Box/Call 1.md"
    (file,) = (vault / "In/Box").iterdir()
    assert file.read_text() == "---\ntitle: Call one\nid: call-1\n---\n\nMoats are narrow.\n"


def test_the_same_note_again_changes_nothing(inbox, vault):
    inbox.post("/notes", json=CALL)
    before = (vault / "In/Box/Call 1.md").stat()
    answer = inbox.post("/notes", json=CALL).json()
    assert (answer["path"], answer["state"], answer["change"]) == ("In/Box/Call 1.md", "unchanged", None)
    assert (vault / "In/Box/Call 1.md").stat() == before


def test_another_id_or_none_makes_another_note_and_a_persons_note_with_the_id_stays(inbox, vault):
    (vault / "Own.md").write_text("---\nid: call-1\n---\nA person's.\n")
    paths = [
        inbox.post("/notes", json=again(properties=properties)).json()["path"]
        for properties in (
            {"id": "call-1"},
            {"id": "call-2"},
            {},
            {"id": 7},
            {"id": 7},
            {"id": True},
            {"id": ""},
        )
    ]
    assert paths == [f"In/Box/Call 1{end}.md" for end in ("", " 2", " 3", " 4", " 4", " 5", " 6")]
    assert (vault / "Own.md").read_text() == "---\nid: call-1\n---\nA person's.\n"


def test_a_note_that_a_person_edited_is_left_as_it_is(inbox, vault):
    inbox.post("/notes", json=CALL)
    (vault / "In/Box/Call 1.md").write_text("Mine now.\n")
    answer = inbox.post("/notes", json=again(text="Moats are narrow."))
    assert answer.status_code == 409
    assert "In/Box/Call 1.md, the note with the id call-1, was changed since" in answer.json()["detail"]
    assert inbox.post("/notes", json=CALL).json()["state"] == "unchanged"  # it was written before
    assert [file.read_text() for file in (vault / "In/Box").iterdir()] == ["Mine now.\n"]


def test_an_edit_of_the_moment_of_the_exchange_stays(inbox, vault, monkeypatch):
    inbox.post("/notes", json=CALL)

    def edited_just_before(root, raw, *others):
        (root / raw).write_text("Mine now.\n")
        return replace_if_unchanged(root, raw, *others)

    with monkeypatch.context() as patched:
        patched.setattr("service.usecases.changes.replace_if_unchanged", edited_just_before)
        assert inbox.post("/notes", json=again(text="Narrow.")).status_code == 409
    assert (vault / "In/Box/Call 1.md").read_text() == "Mine now.\n"
    assert inbox.post("/notes", json=again(text="Narrow.")).status_code == 409


def test_a_note_whose_name_another_one_took_is_not_taken_for_it(inbox, vault):
    first = inbox.post("/notes", json=CALL).json()["path"]
    (vault / first).unlink()
    other = again(text="Boats are wide.", properties={"id": "call-2"})
    assert inbox.post("/notes", json=other).json()["path"] == first
    for text in (CALL["text"], "Moats are narrow."):
        answer = inbox.post("/notes", json=again(text=text)).json()
        assert answer["path"] == "In/Box/Call 1 2.md"
        assert text in (vault / answer["path"]).read_text()
    assert "Boats are wide." in (vault / first).read_text()


def test_after_a_crash_right_after_the_note_was_written_it_is_found_by_its_bytes(inbox, vault, monkeypatch):
    def crash(*_):
        raise RuntimeError("killed")

    with monkeypatch.context() as patched:
        patched.setattr("service.usecases.changes._written", crash)
        with pytest.raises(RuntimeError, match="killed"):
            inbox.post("/notes", json=CALL)
    answer = inbox.post("/notes", json=CALL).json()
    assert (answer["path"], answer["state"]) == ("In/Box/Call 1.md", "unchanged")
    assert [file.name for file in (vault / "In/Box").iterdir()] == ["Call 1.md"]


def test_a_note_that_was_deleted_is_written_anew_and_one_that_was_moved_is_found(inbox, vault, place):
    inbox.post("/notes", json=CALL)
    index_once(place, lambda *_: None)
    (vault / "In/Box/Call 1.md").rename(vault / "In/Box/Renamed.md")
    index_once(place, lambda *_: None)
    assert inbox.post("/notes", json=again(text="Narrow.")).json()["path"] == "In/Box/Renamed.md"
    (vault / "In/Box/Renamed.md").rename(vault / "Kept.md")
    index_once(place, lambda *_: None)
    answer = inbox.post("/notes", json=again(text="Wide."))
    assert answer.status_code == 409
    assert "was moved to Kept.md, and programs write into In/Box only" in answer.json()["detail"]
    assert "Narrow." in (vault / "Kept.md").read_text()
    (vault / "Kept.md").unlink()
    assert inbox.post("/notes", json=again(text="Wide.")).json()["state"] == "new"


def test_a_replaced_note_gets_its_text_back_by_undoing_the_change(inbox, vault, place):
    inbox.post("/notes", json=CALL)
    before = (vault / "In/Box/Call 1.md").read_bytes()
    number = inbox.post("/notes", json=again(text="Moats are narrow.")).json()["change"]
    (change,) = inbox.get("/changes").json()
    assert (change["id"], change["action"], change["path"]) == (number, "replaced", "In/Box/Call 1.md")
    assert taken_back(place, number)["restored"] == ["In/Box/Call 1.md"]
    assert (vault / "In/Box/Call 1.md").read_bytes() == before
    with pytest.raises(CannotUndoError, match="already undone"):
        taken_back(place, number)
    assert inbox.post("/notes", json=again(text="Third.")).status_code == 409  # the operator wanted the first


def test_a_replaced_note_that_was_changed_since_is_not_undone(inbox, vault, place):
    inbox.post("/notes", json=CALL)
    number = inbox.post("/notes", json=again(text="Moats are narrow.")).json()["change"]
    (vault / "In/Box/Call 1.md").write_text("Mine now.\n")
    with pytest.raises(CannotUndoError, match="was changed since"):
        taken_back(place, number)
    assert (vault / "In/Box/Call 1.md").read_text() == "Mine now.\n"


def test_of_a_note_only_the_last_text_is_kept_and_an_undo_without_a_number_means_tags(inbox, place):
    for text in ("One.", "Two.", "Three."):
        inbox.post("/notes", json=again(text=text))
    assert [change["action"] for change in inbox.get("/changes").json()] == ["replaced"]
    assert place.stores.of(Proposals).changes.find(None) is None


def test_after_a_crash_right_after_the_exchange_the_note_is_still_known(inbox, vault, place, monkeypatch):
    inbox.post("/notes", json=CALL)

    def killed(*_):
        raise RuntimeError

    with monkeypatch.context() as patched:
        patched.setattr("service.usecases.changes._recorded", killed)
        with pytest.raises(RuntimeError):
            write_note(View(place), NewNote(**again(text="Narrow.")))
    assert "Narrow." in (vault / "In/Box/Call 1.md").read_text()
    assert inbox.post("/notes", json=again(text="Wide.")).json()["state"] == "replaced"


def test_two_requests_with_one_id_at_once_make_one_note(inbox, vault):
    with ThreadPoolExecutor(2) as threads:
        texts = ["Moats are wide.", "Moats are narrow."]
        answers = list(threads.map(lambda text: inbox.post("/notes", json=again(text=text)), texts))
    assert sorted(answer.json()["state"] for answer in answers) == ["new", "replaced"]
    assert len(list((vault / "In/Box").iterdir())) == 1
