"""The first files of a vault are what Everindex's own readers understand, whatever folders and tags are called."""

from __future__ import annotations

import os
import tempfile
import unicodedata
from pathlib import Path

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pipelines import domains
from pipelines.errors import DomainsFileError, NotFoundError, UnsafePathError
from pipelines.indexing.reconcile import rules_of
from pipelines.notes.frontmatter import is_tag
from pipelines.tagging import vocabulary
from pipelines.vault.scan import scan_vault
from service.usecases.setup import (
    LEAST_NOTES,
    Choices,
    PlannedFile,
    offered_domains,
    offered_formats,
    plan,
    survey,
    write,
)


def notes_in(folder, count=LEAST_NOTES, text="soil\n"):
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        (folder / f"{number}.md").write_text(text)


def set_up(root, choices):
    files = plan(survey(root), choices)
    return {file.path for file, new in write(root, files) if new}


def everything_below(root):
    return {
        path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()
    }


def test_tags_of_enough_notes_are_the_vocabulary_in_their_usual_spelling(vault):
    notes_in(vault, 2, "---\ntags: [Garden, rare]\n---\nsoil\n")
    (vault / "a.md").write_text("#garden and #Sowing/early\n")
    (vault / "b.md").write_text("#Garden #Sowing/early\n")
    (vault / "c.md").write_text("#Sowing/early\n")
    assert set_up(vault, Choices()) == {"_taxonomy.md"}
    read = vocabulary.load(vault, "_taxonomy.md")
    assert read.error is None
    assert [(one.tag, one.description) for one in read.taxonomy.entries] == [
        ("Garden", ""),
        ("Sowing/early", ""),
    ]


def test_a_vocabulary_is_no_note(vault):
    (vault / "a.md").write_text("soil\n")
    (vault / "_taxonomy.md").write_text("- garden\n")
    assert [note.file.path for note in survey(vault).notes] == ["a.md"]


def test_each_domain_has_the_vocabulary_of_its_own_notes(vault):
    notes_in(vault / "Garden", text="#soil\n")
    notes_in(vault / "Work", text="#meeting\n")
    notes_in(vault, 3, "#inbox\n")
    assert set_up(vault, Choices(("Garden", "Work"))) == {
        "_domains.yaml",
        "_taxonomy.md",
        "Garden/_taxonomy.md",
        "Work/_taxonomy.md",
    }
    registry = domains.load(vault)
    assert [(one.slug, one.path, one.legacy) for one in registry.domains] == [
        ("vault", "", True),
        ("garden", "Garden", False),
        ("work", "Work", False),
    ]
    tags = {
        one.slug: [entry.tag for entry in vocabulary.load(vault, one.within(one.taxonomy)).taxonomy.entries]
        for one in registry.domains
    }
    assert tags == {"vault": ["inbox"], "garden": ["soil"], "work": ["meeting"]}


def test_each_new_domain_names_the_formats_of_the_documents_in_it(vault):
    notes_in(vault / "Work")
    for path in ("Größe.pdf", "Work/costs.xlsx", "Work/plan.docx", "Trash/old.csv"):
        (vault / path).parent.mkdir(exist_ok=True)
        (vault / path).write_bytes(b"x")
    found = survey(vault).without(["Trash"])
    assert found.other_formats() == {"xlsx": 1, "pdf": 1, "docx": 1}
    assert set_up(vault, Choices(("Work",), ("Trash",), documents=True)) == {
        "_domains.yaml",
        ".everindexignore",
    }
    assert "  formats: [md, txt, canvas, xlsx, docx]\n" in (vault / "_domains.yaml").read_text()
    assert {one.slug: one.formats for one in domains.load(vault).domains} == {
        "vault": ("md", "txt", "canvas", "pdf"),
        "work": ("md", "txt", "canvas", "xlsx", "docx"),
    }
    assert offered_formats(survey(vault)) == {}


def test_documents_alone_are_reason_for_a_file_of_domains_unless_declined(vault):
    (vault / "report.pdf").write_bytes(b"x")
    assert plan(survey(vault), Choices(documents=False)) == ()
    assert offered_formats(survey(vault)) == {"pdf": 1}
    assert set_up(vault, Choices()) == {"_domains.yaml"}
    assert "report.pdf" in scan_vault(vault, rules_of(vault, domains.load(vault))).notes


def test_what_is_ignored_counts_for_nothing_else(vault):
    notes_in(vault / "99 Templates", text="#placeholder\n")
    notes_in(vault / "Work" / "_template_", text="#placeholder\n")
    notes_in(vault / "Work")
    notes_in(vault / "Garden")
    seen = survey(vault)
    assert seen.ignorable() == {"99 Templates": LEAST_NOTES, "Work/_template_": LEAST_NOTES}
    ignored = tuple(seen.ignorable())
    assert offered_domains(seen.without(ignored)) == {"Garden": LEAST_NOTES, "Work": LEAST_NOTES}
    assert set_up(vault, Choices(ignored=ignored)) == {".everindexignore"}
    assert {note.file.path.rpartition("/")[0] for note in survey(vault).notes} == {"Work", "Garden"}


def test_only_what_is_in_the_folders_is_left_out_and_these_are_gone_through_once(vault):
    class Folders(list):
        passes = 0

        def __iter__(self):
            Folders.passes += 1
            return super().__iter__()

    for folder in ("a", "a/b", "ab", "c/a", "d/e", "d/ef"):
        notes_in(vault / folder, 2)
    left = survey(vault).without(Folders(["a", "d/e", "nowhere"]))
    assert {note.file.path.rpartition("/")[0] for note in left.notes} == {"ab", "c/a", "d/ef"}
    assert Folders.passes == 1


def test_a_folder_that_no_line_can_name_is_not_offered_to_be_ignored(vault):
    notes_in(vault / "Templates\n")
    assert survey(vault).ignorable() == {}


@pytest.mark.parametrize("folders", [("Garden",), ("Garden", "few")])
def test_less_than_two_large_folders_are_not_offered_as_domains(vault, folders):
    for folder in folders:
        notes_in(vault / folder, LEAST_NOTES if folder == "Garden" else 1)
    assert offered_domains(survey(vault)) == {}


def test_a_decomposed_name_is_offered_and_its_domain_owns_the_notes(vault):
    for folder in ("Cafe\u0301", "Garden"):
        notes_in(vault / folder, text="#soil\n")
    assert set(offered_domains(survey(vault))) == {"Cafe\u0301", "Garden"}
    assert "Cafe\u0301/_taxonomy.md" in set_up(vault, Choices(("Cafe\u0301",)))
    assert sorted(one.name for one in vault.iterdir() if one.is_dir()) == ["Cafe\u0301", "Garden"]
    owner = domains.load(vault).owner("Caf\u00e9/0.md")
    assert (owner.slug, owner.path) == ("caf\u00e9", "Caf\u00e9")


@pytest.mark.parametrize("folder", ["", ".", "./", "./."])
@pytest.mark.parametrize("option", ["--domain", "--ignore"])
def test_the_vault_itself_is_refused_as_a_folder(vault, folder, option):
    notes_in(vault / "Garden")
    choices = Choices((folder,)) if option == "--domain" else Choices(ignored=(folder,))
    with pytest.raises(UnsafePathError, match=f"{option} '{folder}' is the vault itself"):
        plan(survey(vault), choices)


@pytest.mark.parametrize("name", [b"\xff", b"\\xff"])
def test_a_folder_that_no_domain_can_name_is_refused_and_not_offered(vault, name):
    folder = os.fsdecode(name)
    for one in (folder, "Garden", "Work"):
        notes_in(vault / one)
    assert set(offered_domains(survey(vault))) == {"Garden", "Work"}
    with pytest.raises(UnsafePathError, match=r"--domain .* is not UTF-8"):
        plan(survey(vault), Choices((folder,)))


def test_a_folder_given_in_two_ways_is_one_folder(vault):
    notes_in(vault / "Garden", text="#soil\n")
    notes_in(vault / "Templates", text="#placeholder\n")
    choices = Choices(("Garden", "./Garden/"), ("./Templates", "Templates"))
    assert set_up(vault, choices) == {"_domains.yaml", ".everindexignore", "Garden/_taxonomy.md"}
    assert [one.path for one in domains.load(vault).domains] == ["", "Garden"]
    assert (vault / ".everindexignore").read_text().count("Templates") == 1


def test_domains_that_share_a_vocabulary_get_one_with_the_tags_of_both(vault):
    (vault / "_domains.yaml").write_text("a: {legacy: true, taxonomy: q/_taxonomy.md}\nb: {path: q}\n")
    notes_in(vault, 3, "#inbox\n")
    notes_in(vault / "q", 3, "#soil\n")
    existing, planned = plan(survey(vault), Choices())
    assert (existing.path, existing.exists, existing.lacks) == ("_domains.yaml", True, "")
    assert planned.path == "q/_taxonomy.md"
    assert planned.content.endswith("- inbox\n- soil\n")


@pytest.mark.parametrize("path", [".everindexignore", ".obsidian/tags.md", "_domains.yaml", "_review.md"])
def test_no_vocabulary_is_created_where_another_file_belongs(vault, path):
    (vault / "_domains.yaml").write_text(f"a: {{legacy: true, taxonomy: {path}, review_queue: _review.md}}\n")
    (vault / ".obsidian").mkdir()
    notes_in(vault, 3, "#soil\n")
    notes_in(vault / "Templates")
    planned = plan(survey(vault), Choices(ignored=("Templates",)))
    assert [(file.path, file.exists) for file in planned] == [
        ("_domains.yaml", True),
        (".everindexignore", False),
    ]


def test_files_that_exist_stay_as_they_are(vault, tmp_path):
    notes_in(vault / "Garden", text="#soil\n")
    notes_in(vault / "Templates")
    (vault / "_domains.yaml").write_text("all: {legacy: true, taxonomy: Garden/tags.md}\n")
    (vault / "Garden" / "tags.md").write_text("- mine\n")
    (vault / ".everindexignore").symlink_to(tmp_path / "nowhere")
    before = everything_below(vault)
    files = plan(survey(vault), Choices(("Garden",), ("Templates",)))
    assert {file.path: file.exists for file in files} == {
        "_domains.yaml": True,
        "Garden/tags.md": True,
        ".everindexignore": True,
    }
    assert list(write(vault, files)) == []
    assert everything_below(vault) == before
    assert not (tmp_path / "nowhere").exists()


def test_a_file_that_appears_after_the_plan_stays_as_it_is(vault):
    (vault / "_taxonomy.md").write_text("- mine\n")
    file = PlannedFile("_taxonomy.md", "- ours\n")
    assert list(write(vault, [file])) == [(file, False)]
    assert (vault / "_taxonomy.md").read_text() == "- mine\n"


def test_a_folder_behind_a_link_is_neither_read_nor_written(vault, tmp_path):
    notes_in(tmp_path / "outside", text="#secret\n")
    (vault / "Garden").symlink_to(tmp_path / "outside")
    assert survey(vault).notes == ()
    for choices in (Choices(("Garden",)), Choices(ignored=("../outside",))):
        with pytest.raises(NotFoundError):
            plan(survey(vault), choices)


def test_an_invalid_domains_file_is_reported(vault):
    (vault / "_domains.yaml").write_text("- no\n")
    with pytest.raises(DomainsFileError):
        survey(vault)


# Every name that a file system takes, also bytes that are no UTF-8; a name may be 255 bytes long.
NAMES = (
    st.binary(min_size=1, max_size=60).map(lambda name: name.replace(b"/", b"_").replace(b"\0", b"_"))
    | st.text(
        st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=60
    ).map(str.encode)
).filter(lambda name: name not in (b".", b".."))
ODD_NAMES = [
    *(b"on", b"null", b"123", b"1_000", b"~", b"*x", b"&a", b"a: b", b"# x", b"- x", b"? x", b"{x}", b"!x"),
    *(b"x ", b" x", b"a\nb", b"a\x85b", "\u2028".encode(), "\ufeffx".encode(), b"\xff", b"\\xff", b"[x]*?"),
    *(
        "e\u0301".encode(),
        "\u00e9".encode(),
        "İ".encode() * 40,
        "🏃 x".encode(),
        b".hidden",
        b"vault",
        b"VAULT",
    ),
]


def with_examples(examples):
    def apply(test):
        for one in examples:
            test = example(one)(test)
        return test

    return apply


@given(st.lists(NAMES, min_size=2, max_size=5, unique=True))
@with_examples([[one, b"Plain"] for one in ODD_NAMES])
@example([b"a b", b"a-b", b"a_b", b"A B"])
@settings(max_examples=30)
def test_domains_own_their_folders_whatever_these_are_called(names):
    with tempfile.TemporaryDirectory() as base:
        root = Path(base)
        for name in names:
            notes_in(root / os.fsdecode(name))
        seen = survey(root)
        chosen = tuple(offered_domains(seen))
        set_up(root, Choices(chosen))
        registry = domains.load(root)
        for folder in chosen:
            key = unicodedata.normalize("NFC", folder)
            owner = registry.owner(f"{key}/0.md")
            assert owner is not None
            assert owner.path == key
            assert (root / folder).is_dir()
        assert len(registry.domains) == (len(chosen) + 1 if chosen else 1)
        assert len({one.slug.casefold() for one in registry.domains}) == len(registry.domains)
        if chosen:
            assert yaml.safe_load((root / "_domains.yaml").read_text())


@given(NAMES.filter(lambda name: not set(b"\r\n") & set(name)))
@with_examples([one for one in ODD_NAMES if b"\n" not in one])
@settings(max_examples=30)
def test_an_ignored_folder_is_ignored_and_no_other(name):
    folder = os.fsdecode(name)
    with tempfile.TemporaryDirectory() as base:
        root = Path(base)
        notes_in(root / folder, 1)
        notes_in(root / "Another", 1)
        set_up(root, Choices(ignored=(folder,)))
        left = scan_vault(root, rules_of(root, domains.load(root))).notes
        assert {path.rpartition("/")[0] for path in left} == {"Another"}


TAGS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30).filter(is_tag)


@given(st.lists(TAGS, min_size=1, max_size=8))
@example(["---", "-", "_", "___", "retired", "Renames", "-a", "a-", "a/b", "/a", "New", "x", "1a", "\u200d"])
@settings(max_examples=30)
def test_a_vocabulary_has_tags_that_are_in_use_and_is_valid(tags):
    with tempfile.TemporaryDirectory() as base:
        root = Path(base)
        notes_in(root, 3, f"---\n{yaml.safe_dump({'tags': tags}, allow_unicode=True)}---\n")
        set_up(root, Choices())
        read = vocabulary.load(root, "_taxonomy.md")
        assert read.error is None
        found = {entry.tag.casefold() for entry in read.taxonomy.entries}
        in_use = {tag.casefold() for note in survey(root).notes for tag in note.tags}
        assert found <= in_use
        assert {tag for tag in in_use if tag.isprintable() and tag.strip("-_/") == tag} <= found
