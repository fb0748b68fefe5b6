"""Properties are what a person wrote, and a line that cannot be read costs only itself."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.model import Privacy
from pipelines.notes.frontmatter import as_written, read_frontmatter, strings
from pipelines.notes.markdown import parse_note
from pipelines.notes.privacy import may_leave


def note(block):
    return parse_note("folder/Name.md", f"---\n{block}\n---\nBody.\n")


def may_be_sent(found):
    return not may_leave(
        Privacy(),
        path=found.path,
        text=found.text,
        frontmatter=found.frontmatter,
        tags=found.tags,
        warnings=found.warnings,
    )


# As it is written


WORDS = ["No", "on", "YES", "true", "True", "Null", "NULL", "1.10", "01234", "007", "12:30", "0o17", "0x1F", "1_000"]  # fmt: skip


@pytest.mark.parametrize("word", [*WORDS, "1e3", ".5", "5.", "+5", "-0", ".nan", "2021-3-4", "=", "<<", "y"])
def test_a_title_and_an_alias_are_what_is_written(word):
    found = note(f"title: {word}\naliases: [{word}]")
    assert (found.title, found.aliases, found.warnings) == (word, (word,), ())


@pytest.mark.parametrize("form", ["tags: [{}, b]", "tags: {}, b", "tags:\n- {}\n- b", "tag: {} b"])
@pytest.mark.parametrize("tag", ["on", "off", "yes", "no", "true", "false", "No", "Null"])
def test_a_tag_that_other_yaml_takes_for_a_truth_value_is_a_tag(form, tag):
    found = note(form.format(tag))
    assert (found.tags, found.warnings) == ((tag, "b"), ())


def test_only_what_loses_nothing_is_another_value_than_text():
    found = note(
        "a: 5\nb: -1.5\nc: true\nd: false\ne: null\nf: ~\ng:\nh: '5'\ni: 1.50\nj: 9007199254740993.5"
    )
    assert list(found.frontmatter.values()) == [5, -1.5, True, False, None, None, None, "5", "1.50", "9007199254740993.5"]  # fmt: skip


plain_words = st.from_regex(r"[A-Za-z0-9.+]([A-Za-z0-9.:+_/-]{0,8}[A-Za-z0-9.+_/-])?", fullmatch=True).filter(
    lambda word: word not in {"null", "...", "."}
)


@given(st.dictionaries(plain_words, plain_words | st.lists(plain_words, min_size=1, max_size=3), min_size=1))
def test_whatever_is_written_comes_back_as_text(properties):
    lines = [f"{name}: {value if isinstance(value, str) else yaml_list(value)}" for name, value in properties.items()]  # fmt: skip
    front = read_frontmatter("\n".join(["---", *lines, "---", ""]))
    assert front.warnings == ()
    expected = {name: [value] if isinstance(value, str) else value for name, value in properties.items()}
    assert {name: list(strings(value)) for name, value in front.values.items()} == expected


def yaml_list(items):
    return "".join(f"\n  - {item}" for item in items)


@given(st.text() | st.floats().map(str) | st.integers().map(str))
def test_a_value_that_is_no_text_has_the_text_that_was_written(text):
    assert list(strings(as_written(text))) == [text]


@pytest.mark.parametrize("value", ["true", "True", "yes", "Yes", "on", "ON", "'true'"])
def test_a_switch_may_be_written_in_each_of_the_usual_ways(value):
    assert note(f"evergreen: {value}").evergreen
    assert not may_be_sent(note(f"private: {value}"))


@pytest.mark.parametrize("value", ["false", "False", "no", "No", "off", "OFF", "0", "null", "Null", "~", ""])
def test_a_switch_may_be_off_in_each_of_the_usual_ways(value):
    assert not note(f"evergreen: {value}").evergreen
    assert may_be_sent(note(f"private: {value}"))


@pytest.mark.parametrize(
    ("written", "date"),
    [
        ("2021-03-04", "2021-03-04"),
        ("2021-3-4", "2021-03-04"),
        ("2021-03-04 10:00:00", "2021-03-04T10:00:00"),
        ("2021-03-04 9:05:00 -5", "2021-03-04T09:05:00-05:00"),
        ("20210304", "2021-03-04"),
    ],
)
def test_a_date_is_read_where_one_is_wanted_and_stays_as_it_is_written(written, date):
    found = note(f"published: {written}")
    assert (found.published_at, found.warnings) == (date, ())
    assert str(found.frontmatter["published"]) == written


# Lines that cannot be read


@pytest.mark.parametrize(
    ("block", "tags", "lines"),
    [
        ("path: `C:\\agents\\one`\ntags: [winpathtag]", ("winpathtag",), "on line 2"),
        ("title: *Italic title*\ntags: [italictag]", ("italictag",), "on line 2"),
        (
            "related:\n  - [[Salt]]suffix\n  - [[A-Company]]\ntags: [listlinktag]",
            ("listlinktag",),
            "on line 3",
        ),
        ("tags: [a]\ntitle: {{title}}", ("a",), "on line 3"),
        ("tags: [a]\n<% tp.file.title %>\nkind: b", ("a",), "on line 3"),
        ("tags:\n  - a\n  - 'b\n  - c\nkind: b", ("a", "c"), "on line 4"),
        ("tags:\n  - a\n`b`\n  - c\nkind: b", ("a", "c"), "on line 4"),
        ("tags: [a]\nkind:\n  x: 1\n y: 2\n", ("a",), "on line 5"),
        ("tags: [a]\nx: *y\nz: &y 1", ("a",), "on line 3"),
        ("  tags: [a]\n  title: {{title}}", ("a",), "on line 3"),
        ("tags: [a]\r\ntitle: @me\r\nkind: b", ("a",), "on line 3"),
    ],
)
def test_a_line_that_cannot_be_read_costs_only_itself(block, tags, lines):
    found = note(block)
    assert found.tags == tags
    assert f"unreadable frontmatter {lines}, kept as text: " in found.warnings[0]
    assert "unreadable" not in "".join(found.warnings[2:])
    assert not may_be_sent(found)


BROKEN = ["x: {{x}}", "x: *y", "x: `y`", "x: [a", "x: 'y", 'x: "y', "x: a: b", "x: @y", "x: %y", "%x", "@x", "`x`", "{x", "words", "'x", "x: &y 1", "x: !!int y", "x: !y/z [", "? [x]"]  # fmt: skip
GOOD = {
    "title: No": ("title", "No"),
    "tags: [a, b]": ("tags", ["a", "b"]),
    "aliases:\n- c\n- d": ("aliases", ["c", "d"]),
    "text: |\n  x: [\n\n  y": ("text", "x: [\n\ny\n"),
    "in:\n  deep:\n    e: 1": ("in", {"deep": {"e": 1}}),
    "url: 'https://x.y'  # z": ("url", "https://x.y"),
    "# comment: f\nempty:": ("empty", None),
}


@given(
    st.permutations(list(GOOD)),
    st.integers(0, len(GOOD)),
    st.sampled_from(BROKEN),
    st.sampled_from(["\n", "\r\n"]),
)
def test_any_single_broken_line_leaves_the_other_properties(good, at, broken, line_end):
    text = "\n".join(["---", *good[:at], broken, *good[at:], "---", "Body"]).replace("\n", line_end)
    front = read_frontmatter(text)
    assert {name: front.values[name] for name, _ in GOOD.values()} == dict(GOOD.values())
    assert set(front.values) <= {*dict(GOOD.values()), "x"}
    line = 2 + "".join(f"{lines}\n" for lines in good[:at]).count("\n")
    (warning,) = front.warnings
    assert re.match(rf"unreadable frontmatter on lines? {line}\b", warning)
    assert broken in "".join(text[slice(*part)] for part in front.unread)


def test_the_links_and_tags_of_unreadable_properties_are_kept_once():
    found = note("up: '[[A]]'\nx: {{y}} [[B]] #t\nsee:\n- [[D]]e\n- [[F]]\n- '[[C]]'\ncolour: '#fff'")
    assert [(link.kind, link.target, link.line) for link in found.links] == [
        ("property", "A", 2),
        ("property", "C", 7),
        ("wikilink", "B", 3),
        ("wikilink", "D", 5),
        ("wikilink", "F", 6),
    ]
    assert found.tags == ("t",)


@given(st.binary(max_size=200), st.binary(max_size=200))
def test_no_bytes_make_the_reading_of_properties_fail(before, after):
    text = (b"---\n" + before + b"\ntitle: x\n" + after + b"\n---\n").decode("utf-8", "replace")
    json.dumps(dict(parse_note("n.md", text).frontmatter), allow_nan=False)


@pytest.mark.parametrize(
    "line",
    [
        "`x: y",
        "x: [",
        "a: b",
        "x: 'y",
        "x: *y",
        "a:\n - [",
        "{x: &a 1}",
        "a: b: c",
        "x: !!int y",
        "x: 'y\n 'z",
    ],
)
def test_64_kb_of_unreadable_lines_give_a_few_warnings(line):
    block = (line + "\n") * (65_000 // (len(line) + 1))
    front = read_frontmatter(f"---\ngood: yes\n{block}---\n")
    assert 0 < len(front.warnings) <= 22
    assert front.values["good"] == "yes"


BOMB = "\n".join(["a0: &a0 [x, x]", *(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]" for i in range(1, 30))])


@pytest.mark.parametrize("bomb", [BOMB, "a: " + "[" * 20_000, "a: " + "{b: " * 10_000, "a: " + "x" * 70_000])
def test_a_bomb_is_not_built_where_the_lines_are_read_one_by_one(bomb):
    found = note(f"title: T\n{bomb}\nx: {{{{y}}}}")
    assert set(found.frontmatter) <= {"title"}
    assert not may_be_sent(found)


# Properties that are written twice


@pytest.mark.parametrize(
    ("block", "values", "warning"),
    [
        ("status: a\nx: 1\nstatus: b", {"status": "b", "x": 1}, "`status` is written twice on lines 2 and 4; the last one counts"),
        ("tags: [first]\ntags: second, third", {"tags": ["first", "second", "third"]}, "`tags` is written twice on lines 2 and 3; all of them count"),
        ("aliases: A b, C\naliases: [D]\naliases:", {"aliases": ["A b", "C", "D"]}, "`aliases` is written 3 times, first and last on lines 2 and 4; all of them count"),
    ],
)  # fmt: skip
def test_a_property_that_is_written_twice_is_said_with_what_counts(block, values, warning):
    found = note(block)
    assert (found.frontmatter, found.warnings) == (values, (warning,))
    assert may_be_sent(found)


def test_both_tags_count_where_the_property_is_written_in_two_cases():
    assert note("tags: [a]\nTags: [b]\ntag: c\nTAG: d").tags == ("a", "b", "c", "d")


@pytest.mark.parametrize("key", ["private", '"\\x70rivate"', "Private"])
@pytest.mark.parametrize("other", ["tags: [private]\ntags: [x]", "{}: yes\nprivate: no", "{}: yes\n{}: off"])
def test_a_second_line_does_not_open_a_private_note(key, other):
    assert not may_be_sent(note(other.format(key, key)))
