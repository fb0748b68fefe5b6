"""How tags that wait are listed."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from pipelines.errors import NoteNotFoundError
from service.cli.main import app

NOTHING = [
    "nothing was proposed for c0.md, c1.md, c2.md, c3.md, c4.md and 2 more notes: no tag surely fits it",
    "nothing was proposed for d.md",
    "nor for 2 more notes",
]


class Service:
    def call(self, *_, **__):
        waiting = [("a.md", "soil"), ("b.md", "soil"), ("a.md", "compost")]
        return {
            "proposals": [
                {
                    "domain": "garden",
                    "path": path,
                    "tag": tag,
                    "group": "",
                    "confidence": 0.9,
                    "proposer": "local",
                }
                for path, tag in waiting
            ],
            "spent_today": {"notes": 0, "dollars": 0.0},
            "nothing": [
                *(
                    {"domain": "garden", "path": f"c{n}.md", "reason": "no tag surely fits it"}
                    for n in range(7)
                ),
                {"domain": "garden", "path": "d.md", "reason": None},
            ],
            "nothing_count": 10,
            "set_aside": 2,
        }


def test_a_note_is_listed_once_with_all_the_tags_that_wait_for_it(monkeypatch):
    monkeypatch.setattr("service.cli.tags.need_service", lambda _: Service())
    lines = CliRunner().invoke(app, ["tags", "list"]).output.splitlines()
    assert lines == [
        "a.md",
        "  soil  90% local",
        "  compost  90% local",
        "b.md",
        "  soil  90% local",
        *NOTHING,
        "2 tags wait for notes that no domain of _domains.yaml contains, until one does again",
    ]


class Asking:
    """A service that proposes tags for two notes, and knows no other."""

    root = Path("/vault")

    def call(self, _method, _address, path=None, **_):
        if path in ("a.md", "b.md"):
            return {"paths": [path], "problems": ["the vocabulary is short"]}
        if path is None:
            return {"results": []}
        raise NoteNotFoundError(f"{path}: there is no such file", {"state": "no file", "path": path})


def test_tags_are_proposed_for_several_notes_and_one_that_is_unknown_fails_alone(monkeypatch):
    monkeypatch.setattr("service.cli.tags.need_service", lambda _: Asking())
    done = CliRunner().invoke(app, ["tags", "propose", "a.md", "folder/none.md", "b.md"])
    assert done.stdout.splitlines() == [
        "proposals requested for 2 notes; `everindex tags list` shows them",
        "the vocabulary is short",
    ]
    assert "folder/none.md" in done.stderr
    assert done.exit_code == 1


class Reviewing:
    """A service whose worker read a review queue in which one tag was rejected."""

    def __init__(self, rejected):
        self.rejected = rejected

    def call(self, *_, **__):
        none = {"accepted": 0, "applied": [], "refused": [], "put_off": []}
        return {"domains": {"garden": none | {"rejected": self.rejected}}}


@pytest.mark.parametrize(
    ("rejected", "said"), [(1, "garden: 1 tag rejected\n"), (0, "garden: nothing to apply\n")]
)
def test_promote_says_what_was_rejected(monkeypatch, rejected, said):
    monkeypatch.setattr("service.cli.tags.need_service", lambda _: Reviewing(rejected))
    assert CliRunner().invoke(app, ["tags", "apply"]).output == said


class Renaming:
    """A service that refuses renames because a note cannot be changed."""

    def call(self, *_, **__):
        refused = [["a.md", "unreadable frontmatter; correct the frontmatter first"]]
        return {"domains": {"garden": {"renames": [["dirt", "soil"]], "refused": refused}}}


class Unable:
    """A service that renames nothing, because one of the vocabularies lacks the new tag."""

    def call(self, *_, **__):
        garden = {"renames": [["dirt", "soil"]], "changed": [], "refused": [], "finished": False}
        return {"domains": {"garden": garden | {"waits_for": ["work"]}, "work": {"error": "it has no soil"}}}


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_a_rename_that_one_domain_cannot_have_fails(monkeypatch, options):
    monkeypatch.setattr("service.cli.tags.need_service", lambda _: Unable())
    done = CliRunner().invoke(app, ["tags", "rename", *options])
    assert done.exit_code == 1
    assert "it has no soil" in done.output
    assert options or "nothing is renamed until it can be in work, too" in done.output


@pytest.mark.parametrize("options", [(), ("--json",), ("--dry-run",)])
def test_a_rename_that_is_refused_fails_and_says_what_to_do(monkeypatch, options):
    monkeypatch.setattr("service.cli.tags.need_service", lambda _: Renaming())
    done = CliRunner().invoke(app, ["tags", "rename", *options])
    assert done.exit_code == 1
    assert "a.md" in done.output
    assert "--json" in options or "correct these notes, or ignore them" in done.output


class Stuck:
    """A service that cannot undo the last change."""

    def __init__(self, actions=("undone", "promoted", "promoted")):
        self.changes = [
            {
                "id": 9 - n,
                "at": f"2026-11-2{4 - n}T10:00:00.000+00:00",
                "action": action,
                "tags": ["soil"],
                "path": f"{n}.md",
                "notes": 0,
                "undone_at": None,
            }
            for n, action in enumerate(actions)
        ]

    def call(self, method, *_, **__):
        return self.changes if method == "GET" else {"domains": {"garden": {"error": "'1.md' is gone"}}}


def test_a_note_that_a_program_replaced_is_undone_by_its_id_only(monkeypatch):
    monkeypatch.setattr("service.cli.tags.need_service", lambda _: Stuck(("replaced", "promoted")))
    assert "undoing 8: promoted" in CliRunner().invoke(app, ["tags", "undo"]).output
    assert "undoing 9: replaced" in CliRunner().invoke(app, ["tags", "undo", "9"]).output


@pytest.mark.parametrize(
    ("given", "actions", "way_out"),
    [
        (
            [],
            ("undone", "promoted", "promoted"),
            "; `everindex tags undo 7` undoes the change before it (promoted soil in 2.md), `everindex tags log` lists all",
        ),
        ([], ("undone", "promoted"), ""),
        (["8"], ("undone", "promoted", "promoted"), ""),
    ],
    ids=["an earlier change", "no earlier change", "by its id"],
)
def test_an_undo_that_fails_without_an_id_says_how_to_undo_the_change_before(
    monkeypatch, given, actions, way_out
):
    monkeypatch.setattr("service.cli.tags.need_service", lambda _: Stuck(actions))
    done = CliRunner().invoke(app, ["tags", "undo", *given])
    assert done.exit_code == 1
    assert f"garden: '1.md' is gone{way_out}\n" in done.output
