"""The name, the content and the file of a new note: safe whatever its title says, read back as it was given."""

from __future__ import annotations

import os
import stat
import threading
import unicodedata
from pathlib import PurePosixPath, PureWindowsPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.errors import NoteTooLargeError, UnsafePathError
from pipelines.notes.markdown import read_note
from pipelines.vault import in_folder
from pipelines.vault.new_note import LONGEST_STEM, content_of, stem_of, write_new
from service.schemas.notes import NewNote

SIGNS = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
NASTY = st.text(
    st.sampled_from("-:#{}[]&*!|>'\"%@`,?\\/ \t\n\r\x85\u2028\u2029\ufeff\x1b\x7f~=<.0123aäNYé😀𝄞"),
    max_size=30,
)
TEXTS = NASTY | st.text(SIGNS, max_size=30) | st.sampled_from(
    ["---", "a\n---\nb: 1", "yes", "null", "~", "1e3", "0x1F", "1_000", "2024-01-01", "12:30:45", "<<", "=", "on",
     "*a", "&a", "!!int 3", "# x", "a: b", "- a", "? a", "\ufeff---\n", "%YAML 1.1", "...", "a #b", " a ", "'", '"']
)  # fmt: skip
KEYS = TEXTS
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63) + 1, 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@given(st.text() | NASTY | st.text(st.sampled_from("conCONprn.aux1¹ ~$_-")))
def test_a_name_is_one_plain_part_of_a_path_on_every_system(title):
    stem = stem_of(title)
    name = f"{stem}.md"
    assert PurePosixPath(name).parts == PureWindowsPath(name).parts == (name,)
    assert not PureWindowsPath(name).is_reserved()
    assert not PureWindowsPath(f"{stem} 2.md").is_reserved()
    assert 0 < len(stem.encode()) <= LONGEST_STEM
    assert stem == unicodedata.normalize("NFC", stem)
    assert stem[0] not in " ._~-"
    assert stem[-1] not in " ."
    assert not set(stem) & set('<>:"/\\|?*[]#^')
    assert stem.isprintable()
    assert ".sync-conflict-" not in stem


@pytest.mark.parametrize(
    ("title", "stem"),
    [
        *[("Moats", "Moats"), ("  a\tb ", "a b"), ("../../etc/passwd", "etc passwd"), (".hidden", "hidden")],
        *[("CON", "Note CON"), ("com1.txt", "Note com1.txt"), ("Console", "Console"), ("a/b: c?", "a b c")],
        *[("...", "Untitled"), ("", "Untitled"), ("\u202egnp.md", "gnp.md"), ("A\u030a", "\u00c5")],
        *[
            ("_taxonomy", "taxonomy"),
            ("[[x]] #y", "x y"),
            ("ü" * 100, "ü" * 60),
            ("v1.2 notes.", "v1.2 notes"),
        ],
    ],
)
def test_a_name_keeps_what_is_readable(title, stem):
    assert stem_of(title) == stem


@given(st.dictionaries(KEYS, VALUES, min_size=1, max_size=5), TEXTS)
def test_what_is_read_back_is_what_was_given(properties, text):
    note = read_note("a.md", content_of(properties, text))
    assert note.frontmatter == properties
    assert list(note.frontmatter) == list(properties)
    assert note.text[note.body_start :] == "\n" + text + ("" if text.endswith("\n") else "\n")
    assert not [warning for warning in note.warnings if "frontmatter" in warning]


@given(TEXTS.filter(str.isprintable).filter(str.strip), TEXTS.filter(len))
def test_title_kind_and_source_are_read_back(title, kind):
    given_note = NewNote(title=title, text="", kind=kind, source=kind)
    note = read_note("a.md", content_of(given_note.frontmatter(), given_note.text))
    assert note.frontmatter == {"title": title, "kind": kind, "source": kind}
    assert note.title == title.strip()
    assert note.kind == (kind.strip() or None)


def test_no_value_adds_a_property_or_ends_the_block():
    forged = 'x"\n---\nprivate: false\ntags: [trusted]'
    for name in ("title", "evil", forged):
        note = read_note("a.md", content_of({"a": forged, name: [forged, {"b": forged}], "z": 1}, "text"))
        assert note.frontmatter == {"a": forged, name: [forged, {"b": forged}], "z": 1}
        assert note.tags == ()


def test_properties_that_a_note_could_not_have_are_refused():
    with pytest.raises(NoteTooLargeError):
        content_of({"a": "x" * 70_000}, "")


# Writing


def test_a_number_is_added_to_a_name_that_is_there_in_any_case_and_form(vault):
    assert write_new(vault, "In", "Soil", b"1") == "In/Soil.md"
    (vault / "In" / "A\u030agren.md").write_text("")
    assert write_new(vault, "In", "SOIL", b"2") == "In/SOIL 2.md"
    assert write_new(vault, "In", "Soil", b"3") == "In/Soil 3.md"
    assert write_new(vault, "In", "\u00c5gren", b"4") == "In/\u00c5gren 2.md"
    assert write_new(vault, "In", "taxonomy", b"5", ["In/Taxonomy.md"]) == "In/taxonomy 2.md"
    assert (vault / "In" / "Soil.md").read_bytes() == b"1"


@pytest.mark.parametrize("swaps", [True, False])
def test_of_many_at_once_none_overwrites_another(vault, monkeypatch, swaps):
    if not swaps:  # a file system that cannot rename without replacing
        monkeypatch.setattr(in_folder, "rename", lambda *_, **__: False)
    (vault / "In").mkdir()
    written = []

    def write(number):
        written.append((write_new(vault, "In", "Soil", b"%d" % number), number))

    threads = [threading.Thread(target=write, args=(number,)) for number in range(16)]
    with monkeypatch.context() as patched:
        patched.setattr(os, "listdir", lambda _: [])  # none sees the files of the others
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len({path for path, _ in written}) == 16
    for path, number in written:
        assert (vault / path).read_bytes() == b"%d" % number
    assert len(list((vault / "In").iterdir())) == 16  # nothing is left beside them


def test_a_folder_behind_a_link_is_refused(vault, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (vault / "In").symlink_to(outside)
    for folder in ("In", "In/Deep"):
        with pytest.raises((UnsafePathError, OSError)):
            write_new(vault, folder, "Soil", b"")
    (vault / "Loose").symlink_to(tmp_path / "missing")
    with pytest.raises((UnsafePathError, OSError)):
        write_new(vault, "Loose", "Soil", b"")
    assert list(outside.iterdir()) == []
    assert not (tmp_path / "missing").exists()


def test_a_link_in_the_place_of_the_note_is_not_followed(vault, tmp_path):
    (vault / "In").mkdir()
    (vault / "In" / "Soil.md").symlink_to(tmp_path / "target.md")
    assert write_new(vault, "In", "Soil", b"x") == "In/Soil 2.md"
    assert not (tmp_path / "target.md").exists()


def test_files_and_folders_have_the_rights_that_the_users_programs_give(vault):
    os.umask(0o077)  # what the processes of Everindex have
    write_new(vault, "In/Deep", "Soil", b"")
    assert stat.S_IMODE((vault / "In/Deep/Soil.md").stat().st_mode) == 0o644
    assert stat.S_IMODE((vault / "In").stat().st_mode) == 0o755
