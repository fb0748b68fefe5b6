"""The list of notes: what it shows, in which order, and which notes it leaves out."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from pipelines.errors import FilterError
from queue_config.settings import Settings
from service.cli.main import app
from service.usecases.maintenance import index_once
from workers.resources import Resources

NOTES = {
    "Garden/Soil.md": "---\nkind: Concept\ndate: 2025-03-01\ntags: [garden/soil]\n---\n# Soil\n\nIt is alive.\n",
    "Garden/Compost.md": "---\nkind: concept\ndate: 2026-01-05\ntags: [garden]\n---\n# One\n\n"
    + "Warm. " * 80
    + "\n\n# Two\n\n"
    + "Damp. " * 80,
    "Boat.md": "---\nkind: letter\ndate: 2025-12-31\n---\nSails.\n",
    "_taxonomy.md": "- garden\n",
}


@pytest.fixture
def everindex(vault, tmp_path, tiny_model):
    """Run the command on a vault of three notes and a vocabulary."""
    for path, text in NOTES.items():
        (vault / path).parent.mkdir(exist_ok=True)
        (vault / path).write_text(text)
    made = Settings(vault=vault, state=tmp_path / "state", embedding_model=str(tiny_model))
    index_once(Resources(made), lambda *_: None)
    place = ["--vault", str(vault), "--state", str(tmp_path / "state")]
    return lambda *words: CliRunner().invoke(app, [*words, *place], catch_exceptions=False)


def paths(done):
    assert done.exit_code == 0, done.output
    return [note["path"] for note in json.loads(done.stdout)["notes"]]


def test_a_line_has_date_path_kind_and_passages(everindex):
    passages = len(json.loads(everindex("show", "--json", "Garden/Compost.md").stdout)["chunks"])
    assert passages > 1
    assert everindex("list").stdout.splitlines() == [
        "2025-12-31  Boat.md  (letter, 1 passage)",
        f"2026-01-05  Garden/Compost.md  (concept, {passages} passages)",
        "2025-03-01  Garden/Soil.md  (Concept, 1 passage)",
        "3 notes; 1 vocabulary is indexed, too: _taxonomy.md",
    ]
    assert everindex("list", "--kind", "letter").stdout.splitlines()[-1] == "1 note"


def test_json_has_the_same_facts_and_the_domain(everindex):
    answer = json.loads(everindex("list", "--json", "--tag", "garden/soil").stdout)
    assert answer == {
        "notes": [
            {
                "path": "Garden/Soil.md",
                "title": "Soil",
                "domain": "vault",
                "kind": "Concept",
                "date": "2025-03-01",
                "chunks": 1,
                "warnings": [],
            }
        ],
        "count": 1,
        "reason": None,
        "configuration": [],
    }
    assert json.loads(everindex("list", "--json").stdout)["configuration"] == ["_taxonomy.md"]


def test_the_newest_come_first_by_date(everindex):
    assert paths(everindex("list", "--sort", "date", "--json")) == [
        "Garden/Compost.md",
        "Boat.md",
        "Garden/Soil.md",
    ]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--tag", "garden"], ["Garden/Compost.md", "Garden/Soil.md"]),
        (["--tag", "garden", "--tag", "garden/soil"], ["Garden/Soil.md"]),
        (["--kind", "CONCEPT"], ["Garden/Compost.md", "Garden/Soil.md"]),
        (["--kind", "letter", "--kind", "concept"], ["Boat.md", "Garden/Compost.md", "Garden/Soil.md"]),
        (["--since", "2025-12-31"], ["Boat.md", "Garden/Compost.md"]),
        (["--since", "2025-12-31", "-f", "until=2025-12-31"], ["Boat.md"]),
        (["-f", "folder=Garden", "--kind", "concept"], ["Garden/Compost.md", "Garden/Soil.md"]),
        (["--domain", "vault", "--tag", "nothing"], []),
    ],
)
def test_the_filters_are_those_of_a_search(everindex, options, expected):
    assert paths(everindex("list", "--json", *options)) == expected
    found = json.loads(everindex("search", "--json", "-k", "50", "--all", *options, "soil").stdout)["results"]
    assert {hit["path"] for hit in found} == set(expected)


def test_a_note_whose_file_is_gone_is_not_listed(everindex, vault):
    (vault / "Boat.md").unlink()
    assert paths(everindex("list", "--json")) == ["Garden/Compost.md", "Garden/Soil.md"]


@pytest.mark.parametrize("command", [("list",), ("search", "soil")])
def test_a_filter_that_cannot_be_read_is_refused(everindex, command):
    with pytest.raises(FilterError, match="not a date"):
        everindex(*command, "--since", "last week")
    done = everindex(*command, "-f", "tag")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "write NAME=VALUE" in done.stderr


def test_notes_that_could_not_be_read_whole_are_counted_listed_and_explained(
    everindex, vault, tmp_path, tiny_model
):
    (vault / "Broken.md").write_text("---\ntags: [a\nkind: x\n---\nA heron.\n")
    (vault / "Latin.md").write_bytes(b"Caf\xe9 au lait.\n")
    made = Settings(vault=vault, state=tmp_path / "state", embedding_model=str(tiny_model))
    index_once(Resources(made), lambda *_: None)
    status = everindex("status").stdout
    assert "2 notes have parts that could not be read: `everindex list -f has=warning` names them" in status
    listed = everindex("list", "-f", "has=warning").stdout.splitlines()
    assert [line.split("  ")[1] for line in listed if line.startswith("20")] == ["Broken.md", "Latin.md"]
    assert "            warning: not UTF-8 at byte 3: read as Windows-1252" in listed
    why = everindex("why", "Broken.md").stdout.splitlines()
    assert why[0] == "Broken.md is indexed"
    assert why[1].startswith("  created 20")
    assert why[2].startswith("  warning: unreadable frontmatter on line 2, kept as text")
    assert why[3] == (
        "  agents do not see it: its frontmatter cannot be read, and may say that it is private"
    )
    indexed, dated = everindex("why", "Boat.md").stdout.splitlines()
    assert (indexed, dated[:12]) == ("Boat.md is indexed", "  created 20")


@pytest.mark.parametrize(
    ("filter_", "said"),
    [
        ("tag=gardne", "no note has the tag gardne; did you mean garden?"),
        ("tag=garden/soyl", "no note has the tag garden/soyl; did you mean garden/soil?"),
        ("tag=zebra", "no note has the tag zebra"),
        ("folder=gradne", "no note is in the folder gradne; did you mean Garden?"),
        ("folder=Garden/Soil", "no note is in the folder garden/soil"),
        ("kind=leter", "no note is of the kind leter; did you mean letter?"),
    ],
)
def test_what_no_note_has_is_named_with_what_was_probably_meant(everindex, filter_, said):
    assert everindex("list", "-f", filter_).stdout.startswith(f"0 notes: {said}")
    assert said in everindex("search", "soil", "-f", filter_).stdout


def test_filters_that_notes_pass_one_by_one_but_not_together_are_not_called_unknown(everindex):
    assert everindex("list", "-f", "folder=garden", "-f", "kind=letter").stdout == "0 notes\n"
