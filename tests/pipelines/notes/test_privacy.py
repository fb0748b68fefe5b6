"""Whether a note may leave the machine; where it cannot be known, it may not."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.model import Privacy
from pipelines.notes.markdown import parse_note
from pipelines.notes.privacy import may_leave, own_privacy

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
        pytest.param("---\nnumber: !!int x\n---\n", id="a value that YAML refuses"),
        pytest.param("---\n- a\n- b\n---\n", id="a list for properties"),
        pytest.param("---\na: &x 1\nb: *x\n---\n", id="aliases, which are not read"),
    ],
)
def test_what_cannot_be_read_as_frontmatter_may_be_private(text):
    assert reason(text)


def test_a_date_that_does_not_exist_hides_no_note_and_no_other_property():
    assert reason("---\npublished: 2026-02-30\n---\n") is None
    assert reason("---\npublished: 2026-02-30\nprivate: true\n---\n")


@pytest.mark.parametrize(
    "line",
    [
        "--.private: yes",
        "_x.private: yes",
        "a-b.c_d.private = yes",
        "> - 3) [x] **private**: yes",
        "Words, then (private:: yes) and more",
        "x [private: yes]",
    ],
)
def test_the_property_is_found_in_a_line_of_text_whatever_stands_around_it(line):
    assert reason(f"Before.\n{line}\nAfter.") == "it says that it is private"
    assert reason(f"Before.\n{line.replace('yes', 'no')}\nAfter.") is None


@pytest.mark.parametrize("tag", ["journal", "Journal", "journal/2026", "JOURNAL/a/b"])
@pytest.mark.parametrize("listed", ["journal", "#journal", "Journal/", "journal/*"])
def test_a_listed_tag_covers_its_nested_ones(tag, listed):
    assert "tag" in reason(f"---\ntags: [{tag}]\n---\n", Privacy(tags=("x", listed)))
    assert "tag" in reason(f"Inline #{tag} here", Privacy(tags=(listed,)))


@pytest.mark.parametrize("tag", ["journals", "my/journal", "journal-2026", "jour"])
def test_a_listed_tag_covers_no_other(tag):
    assert reason(f"---\ntags: [{tag}]\n---\n", Privacy(tags=("journal",))) is None


@pytest.mark.parametrize("path", ["Diary/a.md", "diary/2026/a.md", "DIARY/x/y/z.md", "a/Diary/b.md"])
@pytest.mark.parametrize("folder", ["Diary", "diary/", "/Diary", "./Diary", "Diary/**", "Diary\\"])
def test_a_listed_folder_covers_all_below_it(path, folder):
    assert "folder" in reason("", Privacy(folders=("x", folder)), path)


@pytest.mark.parametrize("path", ["Diary.md", "Diaries/a.md", "a/Diary.md", "a/MyDiary/b.md", "note.md"])
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


# However it is written

FORMS = (
    "{key}:: {value}",
    "[{key}:: {value}]",
    "({key}:: {value})",
    "Words, and [{key}:: {value}] more words.",
    "- {key}:: {value}",
    "* [ ] {key}: {value}",
    "12. {key}: {value}",
    "**{key}**:: {value}",
    "**{key}:** {value}",
    "__{key}__: {value}",
    "> {key}: {value}",
    "> > - {key} :: {value}",
    "    {key}: {value}",
    "# {key}: {value}",
    "| {key}: {value}",
    "<!-- {key}: {value} -->",
    "%% {key}:: {value} %%",
    '{{"{key}": "{value}"}}',
    "extra = {{title = 'a', {key} = '{value}'}}",
    "+++\n{key} = '{value}'\n+++\nBody",
    "\ufeff+++\r\ntitle = 'a'\r\n[extra]\r\n{key} = '{value}'\r\n+++\r\nBody",
    "---\nmeta: {{{key}: {value}}}\n---\nBody",
    "---\nmeta:\n  - deep:\n      {key}: {value}\n---\nBody",
    "---\n'{key} ': {value}\n---\nBody",
    "---\n'**{key}**': {value}\n---\nBody",
    "---\nmeta:\n  {key}: {value}\n\nNever closed",
)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("key", ["private", "Private", "pri\u200bvate", "ｐｒｉｖａｔｅ"])
@pytest.mark.parametrize("value", ["true", "yes", "1"])
def test_a_private_property_is_seen_in_every_form(form, key, value):
    written = form.format(key=key, value=value)
    assert reason(written)
    assert reason(f"# Title\n\nWords.\n\n{written}\n\nMore words.\n")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("value", ["false", "no", "0"])
def test_a_property_that_plainly_says_no_lets_the_note_leave_in_every_form(form, value):
    if "<!--" not in form and "%%" not in form:  # a comment's end is no plain no
        assert reason(form.format(key="private", value=value)) is None


@given(st.sampled_from(FORMS), st.text(max_size=60), st.text(max_size=60))
def test_no_text_around_it_hides_a_written_property(form, before, after):
    assert reason(f"{before}\n{form.format(key='private', value='true')}\n{after}")


@pytest.mark.parametrize("block", ["a = [", "private = maybe", "[" * 5_000 + "]" * 5_000, "a = 1\na = 2"])
def test_toml_frontmatter_that_cannot_be_read_may_be_private(block):
    assert "private" in reason(f"+++\n{block}\n+++\nBody")


@pytest.mark.parametrize(
    "text",
    [
        "A hotel is private: 3 rooms",
        "isprivate:: true",
        "x = private",
        "class A { private: }",
        "+++ no toml",
        "private",
    ],
)
def test_words_that_are_no_property_let_a_note_leave(text):
    assert reason(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "Inline #private here",
        "---\ntags: [a, Private/diary]\n---\n",
        "---\n'tags ': [private]\n---\n",
        "---\nmeta: {tags: 'a, private'}\n---\n",
        "+++\ntags = ['private']\n+++\n",
    ],
)
def test_the_tag_private_says_so_without_a_setting(text):
    assert "tag" in reason(text)


@pytest.mark.parametrize("key", ["tags ", " Tags", "TAG", "tags\u200b"])
def test_a_listed_tag_is_seen_under_a_key_that_is_misspelt(key):
    assert "tag" in reason(f'---\n"{key}": journal/2026\n---\n', Privacy(tags=("journal",)))


@pytest.mark.parametrize("path", ["Private/a.md", "Sub/Private/a.md", "Sub/PRIVATE/deep/a.md"])
def test_a_folder_named_private_says_so_without_a_setting(path):
    assert "folder" in reason("", path=path)


@pytest.mark.parametrize("path", ["Private.md", "Privately/a.md", "Sub/private notes/a.md"])
def test_no_other_name_is_a_folder_named_private(path):
    assert reason("", path=path) is None


@pytest.mark.parametrize(
    "text", ["[" * 300_000, "," * 300_000, "private" * 40_000, "- " * 150_000, "_" * 300_000]
)
def test_a_hostile_text_costs_its_length(text):
    assert may_leave(OPEN, path="a.md", text=text, frontmatter={}, tags=(), warnings=()) is None


def test_a_text_of_long_ligatures_is_not_spelt_out():
    tracemalloc.start()
    try:
        privacy = own_privacy(
            path="a.txt", text="\ufdfa" * 200_000 + "\nprivate: yes", frontmatter={}, tags=(), warnings=()
        )
        assert tracemalloc.get_traced_memory()[1] < 4_000_000
    finally:
        tracemalloc.stop()
    assert privacy.private
