"""Whether a note may leave the machine; where it cannot be known, it may not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.markdown import parse_note
from pipelines.model import Privacy
from pipelines.tagging.privacy import may_leave

OPEN = Privacy()


def reason(text, privacy=OPEN, path="a/note.md"):
    note = parse_note(path, text)
    return may_leave(
        privacy,
        path=path,
        text=text,
        frontmatter=note.frontmatter,
        tags=note.tags,
        warnings=note.warnings,
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Just words about private matters.",
        "---\ntitle: A\ntags: [b]\n---\nBody",
        "---\nprivate: false\n---\n",
        "---\nprivate: no\n---\n",
        "---\nprivate: 'No'\n---\n",
        "---\nprivate: off # not yet\n---\n",
        "---\nprivate:\n---\n",
        "---\nprivate: 0\n---\n",
        "---\nprivately: true\n---\n",
    ],
)
def test_an_ordinary_note_may_leave(text):
    assert reason(text) is None


YES = ("true", "True", "TRUE", "yes", "Yes", "on", "y", "1", "'true'", '"Yes"', "' true '", "!!str true")
PERHAPS = ("[true]", "{a: b}", "very", "work", "ja", "truee", "2026-01-01", "true # really")


@pytest.mark.parametrize("value", [*YES, *PERHAPS])
def test_a_note_that_says_it_is_private_stays_and_so_does_one_that_may_say_so(value):
    assert "private" in reason(f"---\nprivate: {value}\n---\nBody")


@pytest.mark.parametrize("key", ["Private", "PRIVATE", "'private'", "private ", '"Private"'])
def test_the_propertys_name_is_read_without_case_or_quotes(key):
    assert reason(f"---\n{key}: true\n---\n")


@pytest.mark.parametrize(
    "block", ["{private: true}", "{title: a, Private: yes}", " private: true", "? private\n: true"]
)
def test_the_property_is_found_however_the_frontmatter_is_written(block):
    assert reason(f"---\n{block}\n---\nBody")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("---\nprivate: true\n\nNever closed.", id="never closed"),
        pytest.param("\n---\nprivate: true\n---\nBody", id="not the first line"),
        pytest.param("---\nprivate: true\nprivate: false\n---\n", id="twice, once yes"),
        pytest.param("---\r\nprivate: true\r\n---\r\n", id="another line end"),
        pytest.param("private:: yes\n", id="Dataview's way"),
        pytest.param("---\na: [\nprivate: true\n---\n", id="invalid YAML"),
        pytest.param("---\npublished: 2026-02-30\n---\n", id="a date that YAML refuses"),
        pytest.param("---\n- a\n- b\n---\n", id="a list for properties"),
        pytest.param("---\na: &x 1\nb: *x\n---\n", id="aliases, which are not read"),
    ],
)
def test_what_cannot_be_read_as_frontmatter_may_be_private(text):
    assert reason(text)


@pytest.mark.parametrize("tag", ["journal", "Journal", "journal/2026", "JOURNAL/a/b"])
@pytest.mark.parametrize("listed", ["journal", "#journal", "Journal/", "journal/*"])
def test_a_listed_tag_covers_its_nested_ones(tag, listed):
    assert "tag" in reason(f"---\ntags: [{tag}]\n---\n", Privacy(tags=("x", listed)))
    assert "tag" in reason(f"Inline #{tag} here", Privacy(tags=(listed,)))


@pytest.mark.parametrize("tag", ["journals", "my/journal", "journal-2026", "jour"])
def test_a_listed_tag_covers_no_other(tag):
    assert reason(f"---\ntags: [{tag}]\n---\n", Privacy(tags=("journal",))) is None


@pytest.mark.parametrize("path", ["Diary/a.md", "diary/2026/a.md", "DIARY/x/y/z.md"])
@pytest.mark.parametrize("folder", ["Diary", "diary/", "/Diary", "./Diary", "Diary/**", "Diary\\"])
def test_a_listed_folder_covers_all_below_it(path, folder):
    assert "folder" in reason("", Privacy(folders=("x", folder)), path)


@pytest.mark.parametrize("path", ["Diary.md", "Diaries/a.md", "a/Diary/b.md", "note.md"])
def test_a_listed_folder_covers_no_other(path):
    assert reason("", Privacy(folders=("Diary",)), path) is None


def test_a_folder_is_the_same_in_both_forms_of_unicode():
    assert reason("", Privacy(folders=("Tagebu\u0308cher",)), "Tageb\u00fccher/a.md")


@pytest.mark.parametrize("folder", ["", "/", ".", "./", "**"])
def test_the_vaults_own_folder_covers_all(folder):
    assert reason("", Privacy(folders=(folder,)), "a/b.md")


def test_without_llm_nothing_leaves():
    assert "llm" in reason("---\nprivate: false\n---\n", Privacy(llm=False))


@given(st.text(max_size=60), st.sampled_from(["true", "yes", "on", "1"]), st.text(max_size=60))
def test_no_text_around_it_hides_a_private_property(before, value, after):
    assert reason(f"---\nprivate: {value}\n{before}\n---\n{after}")


@given(
    st.text(max_size=80), st.lists(st.text(min_size=1, max_size=8)), st.lists(st.text(min_size=1, max_size=8))
)
def test_more_privacy_never_lets_more_out(text, tags, folders):
    if reason(text) is not None:
        assert reason(text, Privacy(tuple(tags), tuple(folders))) is not None
