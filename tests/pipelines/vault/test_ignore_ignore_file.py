"""A line that ignores exactly one path of a vault, and can be taken back."""

from __future__ import annotations

import stat
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pipelines.errors import AlreadyThereError, NotARegularFileError, NotFoundError, UnsafePathError
from pipelines.vault import ignore as ignore_file
from pipelines.vault.ignore import HEAD, IGNORE_FILE, ignore, line_for, read_globs, stop_ignoring
from pipelines.vault.write import remove_if_unchanged, replace_if_unchanged

NAMES = st.text(
    st.characters(exclude_characters="/\0\r\n", exclude_categories=["Cs"]) | st.sampled_from("*?[]\\! #"),
    min_size=1,
    max_size=12,
).filter(lambda name: name not in (".", ".."))
PATHS = st.lists(NAMES, min_size=1, max_size=3)


@pytest.fixture
def displaced(tmp_path):
    return tmp_path / "displaced"


@given(parts=PATHS, others=PATHS, is_folder=st.booleans())
@example(parts=["a*b?[c].md"], others=["axby[c].md"], is_folder=False)
@example(parts=["!not"], others=["not"], is_folder=False)
@example(parts=["#tag.md"], others=["tag.md"], is_folder=False)
@example(parts=["ends with spaces  "], others=["ends with spaces"], is_folder=False)
@example(parts=["back\\slash"], others=["backslash"], is_folder=False)
@example(parts=["Soil.md"], others=["Garden", "Soil.md"], is_folder=False)
def test_a_line_ignores_its_path_and_no_other(parts, others, is_folder):
    path, other = (unicodedata.normalize("NFC", "/".join(one)) for one in (parts, others))
    globs = read_globs(line_for(path, is_folder=is_folder))
    assert globs.verdict(path, is_folder=is_folder) is True
    if other != path:
        assert globs.verdict(other, is_folder=is_folder) is None
    if is_folder:
        assert globs.verdict(path, is_folder=False) is None


def test_a_line_is_added_behind_the_others_and_taken_back_byte_for_byte(vault, displaced):
    (vault / "Soil.md").write_text("clay")
    file = vault / IGNORE_FILE
    before = b"# mine\r\n*.pdf\n\nSoil*\nbad\xff\n"
    file.write_bytes(before)
    file.chmod(0o640)
    assert ignore(vault, "Soil.md", displaced) == "/Soil.md"
    assert file.read_bytes() == before + b"/Soil.md\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert stop_ignoring(vault, "Soil.md", displaced) == "/Soil.md"
    assert file.read_bytes() == before
    assert sorted(one.name for one in vault.iterdir()) == [IGNORE_FILE, "Soil.md"]


def test_a_file_that_everindex_made_goes_with_its_last_line(vault, displaced):
    for name in ("Soil.md", "Sand.md"):
        (vault / name).write_text("clay")
        ignore(vault, name, displaced)
    stop_ignoring(vault, "Soil.md", displaced)
    assert (vault / IGNORE_FILE).read_text() == f"{HEAD}\n/Sand.md\n"
    stop_ignoring(vault, "Sand.md", displaced)
    assert sorted(one.name for one in vault.iterdir()) == ["Sand.md", "Soil.md"]


@pytest.mark.parametrize("own", ["", "# mine\n", "\n", "*.pdf\n", f"{HEAD}\n# mine\n", f"{HEAD} \n"])
def test_a_file_with_other_lines_or_from_before_stays(vault, displaced, own):
    (vault / "Soil.md").write_text("clay")
    (vault / IGNORE_FILE).write_text(own)
    ignore(vault, "Soil.md", displaced)
    stop_ignoring(vault, "Soil.md", displaced)
    assert (vault / IGNORE_FILE).read_text() == own


def test_a_comment_that_is_written_while_the_file_is_removed_stays(vault, displaced, monkeypatch):
    (vault / "Soil.md").write_text("clay")
    ignore(vault, "Soil.md", displaced)
    saves = [f"{HEAD}\n# mine\n/Soil.md\n"]

    def late(*given):
        if saves:
            (vault / IGNORE_FILE).write_text(saves.pop())
        return remove_if_unchanged(*given)

    monkeypatch.setattr(ignore_file, "remove_if_unchanged", late)
    stop_ignoring(vault, "Soil.md", displaced)
    assert (vault / IGNORE_FILE).read_text() == f"{HEAD}\n# mine\n"


def test_a_folder_is_ignored_as_one_and_can_be_taken_back_when_it_is_gone(vault, displaced):
    (vault / "Old/Notes").mkdir(parents=True)
    assert ignore(vault, "Old/Notes/", displaced) == "/Old/Notes/"
    (vault / "Old/Notes").rmdir()
    assert stop_ignoring(vault, "Old/Notes", displaced) == "/Old/Notes/"


def test_a_last_line_without_an_end_stays_a_line(vault, displaced):
    (vault / "Soil.md").write_text("clay")
    (vault / IGNORE_FILE).write_text("*.pdf")
    ignore(vault, "Soil.md", displaced)
    assert (vault / IGNORE_FILE).read_text() == "*.pdf\n/Soil.md\n"


def test_paths_that_are_ignored_already_or_never_were_are_reported(vault, displaced):
    (vault / "Soil.md").write_text("clay")
    ignore(vault, "Soil.md", displaced)
    with pytest.raises(AlreadyThereError, match="ignored already, by /Soil"):
        ignore(vault, "Soil.md", displaced)
    with pytest.raises(NotFoundError, match="everindex why"):
        stop_ignoring(vault, "Other.md", displaced)
    with pytest.raises(NotFoundError, match="there is no Other"):
        ignore(vault, "Other.md", displaced)


@pytest.mark.parametrize("path", ["../x.md", "/etc/passwd", "a/../../x", "", "."])
@pytest.mark.parametrize("change", [ignore, stop_ignoring])
def test_what_is_outside_of_the_vault_is_refused(vault, displaced, change, path):
    with pytest.raises(UnsafePathError):
        change(vault, path, displaced)
    assert list(vault.iterdir()) == []


def test_a_name_with_a_line_break_is_refused(vault, displaced):
    (vault / "a\nb.md").write_text("clay")
    with pytest.raises(UnsafePathError, match="line break"):
        ignore(vault, "a\nb.md", displaced)


def test_a_link_in_the_file_s_place_is_not_followed(vault, displaced, tmp_path):
    (vault / "Soil.md").write_text("clay")
    (tmp_path / "outside").write_text("mine")
    (vault / IGNORE_FILE).symlink_to(tmp_path / "outside")
    with pytest.raises(NotARegularFileError):
        ignore(vault, "Soil.md", displaced)
    assert (tmp_path / "outside").read_text() == "mine"


def test_the_lines_of_a_file_from_windows_are_known_and_stay_as_they_are(vault, displaced):
    (vault / "Soil.md").write_text("clay")
    file = vault / IGNORE_FILE
    file.write_bytes(b"*.pdf\r\n/Old.md\r\n")
    ignore(vault, "Soil.md", displaced)
    assert file.read_bytes() == b"*.pdf\r\n/Old.md\r\n/Soil.md\r\n"
    with pytest.raises(AlreadyThereError):
        ignore(vault, "Soil.md", displaced)
    assert stop_ignoring(vault, "Old.md", displaced) == "/Old.md"
    assert file.read_bytes() == b"*.pdf\r\n/Soil.md\r\n"


def test_what_an_editor_saves_in_the_same_moment_stays(vault, displaced, monkeypatch):
    (vault / "Soil.md").write_text("clay")
    file = vault / IGNORE_FILE
    file.write_text("*.pdf\n")
    saves = ["*.pdf\n*.png\n"]

    def late(*given):
        if saves:
            file.write_text(saves.pop())
        return replace_if_unchanged(*given)

    monkeypatch.setattr(ignore_file, "replace_if_unchanged", late)
    ignore(vault, "Soil.md", displaced)
    assert file.read_text() == "*.pdf\n*.png\n/Soil.md\n"


@pytest.mark.parametrize(
    "line", ["Drafts", "Drafts/", "/Drafts", "/Drafts/", "**/Drafts/", "Drafts/**", "/Drafts/*"]
)
@pytest.mark.parametrize("path", ["Drafts", "Drafts/"])
def test_a_line_is_taken_back_however_it_is_written(vault, displaced, line, path):
    (vault / IGNORE_FILE).write_text(f"# mine\n\n*.tmp\n{line}\n/Old/Drafts/\n")
    assert stop_ignoring(vault, path, displaced) == line
    assert (vault / IGNORE_FILE).read_text() == "# mine\n\n*.tmp\n/Old/Drafts/\n"


def test_the_line_itself_may_be_given_to_be_taken_back(vault, displaced):
    (vault / IGNORE_FILE).write_text("# mine\nDrafts\nDrafts/**\n*.tmp\n")
    for line in ("Drafts/**", "*.tmp"):
        assert stop_ignoring(vault, line, displaced) == line
    assert (vault / IGNORE_FILE).read_text() == "# mine\nDrafts\n"
    with pytest.raises(NotFoundError):
        stop_ignoring(vault, "# mine", displaced)


def test_where_no_line_or_several_name_a_path_the_lines_are_listed_and_stay(vault, displaced):
    text = "# mine\nDrafts/**\n**/Drafts\nDra*/\n"
    (vault / IGNORE_FILE).write_text(text)
    with pytest.raises(NotFoundError, match=r"several lines .* name Drafts: .*; give the one"):
        stop_ignoring(vault, "Drafts", displaced)
    with pytest.raises(
        NotFoundError, match=r"exactly Drafts/a\.md; its lines are Drafts/\*\*, \*\*/Drafts, Dra\*/;"
    ):
        stop_ignoring(vault, "Drafts/a.md", displaced)
    assert (vault / IGNORE_FILE).read_text() == text
