"""A taxonomy is a note that a person writes: it is read as meant, and errors name their line."""

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.errors import TaxonomyError
from pipelines.model import TagEntry, Taxonomy
from pipelines.tagging.vocabulary import find, load, parse, renamed
from tests.oddities import ODDITIES, is_untouched, make_outside, put

ROOT = Path(__file__).parents[3]
EXAMPLES = sorted((ROOT / "examples" / "vault").rglob("_taxonomy.md"))
TEXT = """\
# Finance

Prose about it.

## Valuation

- valuation: what it is worth (aliases: worth, fair-value)
- dcf (retired)

## Renames

- value -> valuation
- discounted -> dcf
"""


def tags(text):
    return [entry.tag for entry in parse(text).entries]


def only(text):
    (entry,) = parse(text).entries
    return entry


def errors(text):
    with pytest.raises(TaxonomyError) as raised:
        parse(text, "t.md")
    return str(raised.value).splitlines()


# Reading


def test_groups_tags_and_renames_are_read_with_their_lines():
    assert parse(TEXT) == Taxonomy(
        (
            TagEntry("valuation", "Valuation", "what it is worth", ("worth", "fair-value"), "active", 7),
            TagEntry("dcf", "Valuation", "", (), "retired", 8),
        ),
        (("value", "valuation"), ("discounted", "dcf")),
    )


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.parent.name)
def test_the_taxonomies_of_the_example_are_valid(path):
    taxonomy = parse(path.read_text(encoding="utf-8"))
    assert taxonomy.entries
    assert taxonomy.renames


def test_the_example_in_the_documentation_is_valid():
    page = (ROOT / "docs" / "review.md").read_text(encoding="utf-8")
    taxonomy = parse(page.split("```markdown\n")[1].split("```")[0])
    assert [(entry.tag, entry.status) for entry in taxonomy.entries][-1] == ("dcf", "retired")
    assert len(taxonomy.renames) == 1


@pytest.mark.parametrize(
    ("item", "tag", "description"),
    [
        ("- moat: why: it lasts", "moat", "why: it lasts"),
        ("* moat: x", "moat", "x"),
        ("+\tmoat:  x", "moat", "x"),
        ("- #moat: x", "moat", "x"),
        ("- **moat**: x", "moat", "x"),
        ("- **moat:** x", "moat", "x"),
        ("- `#moat`: x", "moat", "x"),
        ("- moat", "moat", ""),
        ("- moat : x", "moat", "x"),
        ("- moat:", "moat", ""),
        ("- a/b: see [[Note]] (or not)", "a/b", "see [[Note]] (or not)"),
        ("- moat: one\n  two", "moat", "one two"),
        ("- 日本: x", "日本", "x"),
        ("- moat: x <!-- not this --> %%nor this%%", "moat", "x"),
    ],
)
def test_a_tag_may_be_written_in_several_ways(item, tag, description):
    entry = only(item)
    assert (entry.tag, entry.description) == (tag, description)


@pytest.mark.parametrize(
    ("facts", "aliases", "status"),
    [
        ("(aliases: a, b)", ("a", "b"), "active"),
        ("(alias: a)", ("a",), "active"),
        ("(retired)", (), "retired"),
        ("(status: retired)", (), "retired"),
        ("(Status: Active)", (), "active"),
        ("(active)", (), "active"),
        ("(retired; aliases: a b, #c++)", ("a b", "c++"), "retired"),
        ("(aliases: a; retired)", ("a",), "retired"),
        ("(retired) (aliases: a)", ("a",), "retired"),
        ("(aliases:)", (), "active"),
    ],
)
def test_brackets_at_the_end_give_aliases_and_status(facts, aliases, status):
    for item in (f"- moat: x {facts}", f"- moat {facts}"):
        assert (only(item).aliases, only(item).status) == (aliases, status)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_are_counted_whatever_ends_them(end):
    assert [entry.line for entry in parse(TEXT.replace("\n", end)).entries] == [7, 8]


@pytest.mark.parametrize(
    "text",
    [
        "---\ntags:\n  - not-this\n---\n",
        "```\n- not-this: x\n```\n",
        "~~~\n- not-this: x\n```\n~~~\n",
        "<!--\n- not-this: x\n-->\n",
        "%%\n- not-this: x\n%%\n",
        "```mermaid\n%% one\n```\n",
        "> [!note]\n> - not-this: x\n",
        "Prose: with a colon.\n",
        "- a list item that says: something long\n",
        "- just some words\n",
        "- [[Note]]: about it\n",
        "- [text](x.md)\n",
        "- https://example.com\n",
        "- [ ] task: do it\n",
        "- ![[picture.png]]\n",
        "-\n",
        "    - not-this: code\n",
    ],
)
def test_what_is_no_tag_is_passed_over(text):
    assert tags(f"{text}\n## Group\n\n- yes: x\n") == ["yes"]


def test_nested_items_are_tags_of_the_same_group():
    entries = parse("## G\n- a: x\n    - a/b: y\n").entries
    assert [(entry.tag, entry.group) for entry in entries] == [("a", "G"), ("a/b", "G")]


def test_the_renames_end_at_the_next_heading_of_their_level():
    taxonomy = parse("## renames:\n### Old ones\n- a -> b\n- `#c` → #b\n## G\n- b: x\n")
    assert taxonomy.renames == (("a", "b"), ("c", "b"))
    assert [entry.tag for entry in taxonomy.entries] == ["b"]


def test_a_chain_of_renames_leads_to_its_end_in_the_spelling_of_the_vocabulary():
    assert parse("- C: x\n# Renames\n- a -> b\n- b -> c\n").renames == (("a", "C"), ("b", "C"))


def test_prose_among_the_renames_is_no_rename():
    assert parse("# Renames\nWrite old -> new.\n\n- nothing is to be renamed today\n").renames == ()


@pytest.mark.parametrize("heading", ["# **My** group", "My group\n---", "### `My` group:", "## My group ##"])
def test_a_group_is_its_headings_words(heading):
    assert only(f"{heading}\n\n- a: x\n").group == "My group"


@pytest.mark.parametrize("piece", ["<!--", "%%", "- (", "[", "- ", "```\n", "# "])
def test_a_file_of_one_piece_over_and_over_is_read_to_its_end(piece):
    with suppress(TaxonomyError):
        parse(piece * 5_000)


def test_an_empty_file_is_an_empty_vocabulary():
    assert parse("") == Taxonomy()


@given(st.text(alphabet=st.sampled_from("-#ab:()>;, \n`%<!\t*[]"), max_size=60))
def test_any_text_is_read_or_refused(text):
    with suppress(TaxonomyError):
        parse(text, "t.md")


# What is wrong


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("- two words: x", "t.md:1: 'two words' is not a tag"),
        ("- c++: x", "t.md:1: 'c++' is not a tag"),
        ("\n- 1984: x", "t.md:2: '1984' is not a tag"),
        ("- #two words", "t.md:1: '#two words' is not a tag"),
        ("- moat:why", "t.md:1: 'moat:why' is not a tag"),
        ("- a\\b", "t.md:1: 'a\\b' is not a tag"),
        ("- moat – why it lasts", "t.md:1: 'moat – why it lasts' is not a tag"),
        ("- a: x\n- A: y", "t.md:2: 'A' is already a name on line 1"),
        ("- a: x (aliases: b)\n- B: y", "t.md:2: 'B' is already a name on line 1"),
        ("- b: x\n- a: y (aliases: B)", "t.md:2: the alias 'B' is already a name on line 1"),
        ("- a: x (aliases: c)\n- b: y (aliases: C)", "t.md:2: the alias 'C' is already a name on line 1"),
        ("- a: x (aliases: b, B)", "t.md:1: the alias 'B' is already a name on line 1"),
        ("- a: x (aliases: A)", "t.md:1: the alias 'A' is already a name on line 1"),
        ("- a: x (aliases b)", "t.md:1: `(aliases b)` is not known"),
        ("- a: x (retired in May)", "t.md:1: `(retired in May)` is not known"),
        ("- a: x (status: gone)", "t.md:1: `(status: gone)` is not known"),
        ("- a\n# Renames\n- x", "t.md:3: 'x' is not a rename"),
        ("- a\n# Renames\n- x: what one would call an x", "or move it above `Renames` if it is a tag"),
        ("- a\n# Renames\n- x is what it is (aliases: b)", "or move it above `Renames` if it is a tag"),
        ("- a\n# Renames\n- x - > a", "t.md:3: 'x - > a' is not a rename"),
        ("- a\n# Renames\n- x => a", "t.md:3: 'x => a' is not a rename"),
        ("- a\n# Renames\n- x -> a -> b", "t.md:3: 'x -> a -> b' is not a rename"),
        ("- a\n# Renames\n- x y -> a", "t.md:3: 'x y -> a' is not a rename"),
        ("- a\n# Renames\n- -> a", "t.md:3: '-> a' is not a rename"),
        ("- a\n# Renames\n- x -> a\n- X -> a", "t.md:4: 'X' is already renamed on line 3"),
        ("- a\n# Renames\n- a -> a", "t.md:3: 'a' is renamed to itself"),
        ("- a\n# Renames\n- x -> b", "t.md:3: 'x' is renamed to 'b', which is not in the vocabulary"),
        ("- a (aliases: b)\n# Renames\n- x -> b", "it is an alias of 'a'"),
        ("- a\n# Renames\n- x -> y\n- y -> z", "t.md:3: 'x' is renamed to 'z'"),
        ("- a\n# Renames\n- a -> b\n- b -> a", "t.md:4: the rename of 'b' leads back to itself"),
        ("- a\n# Renames\n- a -> a/b", "t.md:3: the rename of 'a' leads back to itself"),
    ],
)
def test_errors_name_the_line(text, reason):
    assert any(reason in error for error in errors(text))


def test_every_error_is_reported_in_the_order_of_the_lines():
    found = errors("- two words: x\n- b: x\n- b: y\n# Renames\n- x -> y\n- q\n")
    assert [error.split(":")[1] for error in found] == ["1", "3", "5", "6"]


# Finding


@pytest.mark.parametrize("name", ["valuation", "VALUATION", "Fair-Value"])
def test_an_entry_is_found_by_tag_or_alias_without_case(name):
    assert find(parse(TEXT), name).tag == "valuation"


def test_what_is_not_there_is_not_found():
    assert find(parse(TEXT), "fair") is None


@pytest.mark.parametrize(
    ("tag", "new"), [("a", "b"), ("A/x", "b/x"), ("a/y/z", "c/z"), ("ab", "ab"), ("x/a", "x/a"), ("d", "b")]
)
def test_a_nested_tag_goes_with_its_longest_renamed_part(tag, new):
    assert renamed(tag, {"a": "b", "a/y": "c", "d": "a"}) == new


# Loading


def test_without_a_file_the_vocabulary_is_empty(tmp_path):
    assert load(tmp_path, "_taxonomy.md").taxonomy == Taxonomy()


def test_an_invalid_file_leaves_the_last_good_one_in_force_until_it_is_mended(tmp_path):
    path = tmp_path / "_taxonomy.md"
    path.write_bytes(b"\xef\xbb\xbf- a: x\r\n")
    good = load(tmp_path, path.name)
    assert [entry.tag for entry in good.taxonomy.entries] == ["a"]
    for content, reason in ((b"- two words: x", ":1: 'two words'"), (b"- caf\xe9", "cannot be read")):
        path.write_bytes(content)
        bad = load(tmp_path, path.name, good)
        assert bad.taxonomy == good.taxonomy
        assert reason in bad.error
        assert load(tmp_path, path.name, bad).error == bad.error
    path.write_bytes(b"\xef\xbb\xbf- a: x\r\n")
    assert load(tmp_path, path.name, bad) == good
    assert load(tmp_path, path.name, good) is good


def test_an_invalid_first_file_is_an_empty_vocabulary_with_the_error(tmp_path):
    (tmp_path / "t.md").write_text("- two words: x")
    assert load(tmp_path, "t.md").taxonomy == Taxonomy()
    assert load(tmp_path, "t.md").error


@pytest.mark.parametrize("kind", ODDITIES)
def test_what_is_no_regular_file_is_no_vocabulary_and_the_last_good_stays(tmp_path, kind):
    outside = make_outside(tmp_path)
    path = tmp_path / "t.md"
    path.write_text("- a: x")
    good = load(tmp_path, "t.md")
    put(path, kind, outside)
    bad = load(tmp_path, "t.md", good)
    assert bad.taxonomy == good.taxonomy
    assert "t.md cannot be read" in bad.error
    assert load(tmp_path, "t.md").taxonomy == Taxonomy()
    assert is_untouched(outside)


def test_a_vocabulary_behind_a_link_is_not_read(tmp_path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "t.md").write_text("- secret: x")
    (tmp_path / "vault").mkdir()
    (tmp_path / "vault" / "link").symlink_to("../outside")
    found = load(tmp_path / "vault", "link/t.md")
    assert found.taxonomy == Taxonomy()
    assert "links are not followed" in found.error


def test_a_refused_text_is_not_parsed_again_until_it_changes(tmp_path):
    path = tmp_path / "t.md"
    path.write_text("- two words: x")
    bad = load(tmp_path, "t.md")
    assert load(tmp_path, "t.md", bad) is bad
    path.write_text("- other words: x")
    assert "other words" in load(tmp_path, "t.md", bad).error
