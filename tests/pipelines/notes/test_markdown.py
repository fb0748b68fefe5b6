import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.notes.frontmatter import line_starts
from pipelines.notes.markdown import parse_note


def links(text):
    return [(link.kind, link.target, link.fragment, link.text) for link in parse_note("n.md", text).links]


def targets(text):
    return [link.target for link in parse_note("n.md", text).links]


def tags(text):
    return parse_note("n.md", text).tags


def front(block):
    return parse_note("folder/n.md", f"---\n{block}\n---\nbody\n")


# Frontmatter


def test_the_body_starts_after_the_frontmatter():
    note = front("title: Hello")
    assert note.text[note.body_start :] == "body\n"
    assert note.frontmatter == {"title": "Hello"}
    assert note.warnings == ()


@pytest.mark.parametrize(
    "text", ["---\r\na: 1\r\n---\r\nbody", "\ufeff---\na: 1\n---\nbody", "---\ra: 1\r---\rbody"]
)
def test_frontmatter_may_have_any_line_ends_and_a_byte_order_mark(text):
    note = parse_note("n.md", text)
    assert note.frontmatter == {"a": 1}
    assert note.text[note.body_start :] == "body"


@pytest.mark.parametrize("block", ["", "# only a comment"])
def test_an_empty_frontmatter_is_no_cause_for_a_warning(block):
    note = parse_note("n.md", f"---\n{block}\n---\nx")
    assert (note.frontmatter, note.warnings, note.text[note.body_start :]) == ({}, (), "x")


@pytest.mark.parametrize(
    "text", ["---\na: 1\n", "\n---\na: 1\n---\n", "----\na: 1\n---\n", "x\n---\na: 1\n---\n"]
)
def test_a_block_that_is_not_first_or_never_closed_is_no_frontmatter(text):
    note = parse_note("n.md", text)
    assert (note.body_start, note.frontmatter, note.warnings) == (0, {}, ())


@pytest.mark.parametrize(
    "block",
    [
        "title: {{title}}",
        "a: [",
        "number: !!int x",
        "- a\n- b",
        "just words",
        "a: &x [1]\nb: *x",
        "a: &x [1]",
        "a: !!python/object:os.system x",
        'a: !!int ""',
        "a: !!bool x",
        "a: !!timestamp x",
        "[" * 60_000,
        "- " * 20_000 + "x",
        "{a: " * 15_000,
        "? " * 20_000,
        "\n".join(" " * depth + "a:" for depth in range(300)),
        "a: " + "x" * 70_000,
        "a: \x07",
    ],
    ids=lambda block: block[:20].replace("\n", " "),
)
def test_unreadable_frontmatter_is_text_and_a_warning(block):
    note = parse_note("n.md", f"---\n{block}\n---\n# Title\n[[Link]]\n")
    assert (note.body_start, note.frontmatter) == (0, {})
    assert len(note.warnings) == 1
    assert [heading.text for heading in note.headings] == ["Title"]
    assert note.links[-1].section == "Title"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("---\ntitle: a: b\n---\n", "line 2, column 9: mapping values are not allowed in this context"),
        ("\ufeff---\r\nb: {{date}}\r\n---\r\n", "line 2, column 5: found unhashable key"),
        (
            "---\ntags: [x\n- y\n---\n",
            "line 4, column 1: did not find expected ',' or ']' (while parsing a flow sequence from line 2 on)",
        ),
    ],
)
def test_errors_in_frontmatter_name_the_line_of_the_file(text, problem):
    assert parse_note("n.md", text).warnings == (f"unreadable frontmatter, kept as text: {problem}",)


@pytest.mark.parametrize("value", ["2026-11-31", "2020-02-30T10:00:00", "2026-13-01 12:00", "0000-01-01"])
def test_a_date_that_does_not_exist_leaves_the_other_properties_in_force(value):
    note = parse_note("n.md", f"---\naliases: [Plum]\ntags: [fruit]\ndate: {value}\nread: {value}\n---\n")
    assert (note.tags, note.aliases, note.published_at) == (("fruit",), ("Plum",), None)
    assert note.frontmatter["read"] == value
    assert note.warnings == (f"date is not a date: {value!r}",)


def test_a_link_in_unreadable_frontmatter_is_kept_and_has_no_section():
    note = parse_note("n.md", "---\n{{x}} [[L]] #t\n---\n")
    assert [(link.target, link.line, link.section) for link in note.links] == [("L", 2, "")]
    assert note.tags == ("t",)


def test_an_alias_bomb_is_refused():
    levels = ["a0: &a0 [x, x]", *(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]" for i in range(1, 30))]
    assert "aliases" in front("\n".join(levels)).warnings[0]


def test_a_key_that_yaml_takes_for_true_stays_a_word():
    assert front("true: x").frontmatter == {"true": "x"}


def test_an_asterisk_in_a_value_is_no_alias():
    assert front("a: x * y & z").frontmatter == {"a": "x * y & z"}


def test_frontmatter_values_can_be_written_as_json():
    note = front(
        "d: 2024-01-05\nt: 2024-01-05 10:00:00\nn: .nan\ni: .inf\nb: !!binary aGk=\n"
        "s: !!set {x, y}\n1: one\nnull: z\nbig: 0xffffffffffffffffffff\nl: [{k: 2024-01-05}]"
    )
    assert note.frontmatter == {
        "d": "2024-01-05",
        "t": "2024-01-05 10:00:00",
        "n": ".nan",
        "i": ".inf",
        "b": "hi",
        "s": ["x", "y"],
        "1": "one",
        "null": "z",
        "big": "0xffffffffffffffffffff",
        "l": [{"k": "2024-01-05"}],
    }
    json.dumps(note.frontmatter, allow_nan=False)


# Properties


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("---\ntitle: From here\n---\n# Not here", "From here"),
        ("---\ntitle: 1984\n---\n", "1984"),
        ("---\ntitle: ''\n---\nText.\n\n# *The* `H1` [[x|y]]", "The H1 y"),
        ("## Books\n\n# Clippings\n", "My note"),
        ("no heading", "My note"),
        ("> # quoted", "My note"),
    ],
)
def test_the_title_is_frontmatters_then_the_first_heading_of_level_1_then_the_files_name(text, title):
    assert parse_note("folder/My note.md", text).title == title


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        ("tags: [a, b]", ("a", "b")),
        ("tags: a", ("a",)),
        ("tags: a, b c", ("a", "b", "c")),
        ("tags: ['#a', A, a/b]", ("a", "a/b")),
        ("tag: a\ntags: b", ("b", "a")),
        ("Tags: [项目, 🚀]", ("项目", "🚀")),
        ("tags:", ()),
    ],
)
def test_tags_are_read_from_lists_and_strings(block, expected):
    note = front(block)
    assert note.tags == expected
    assert note.warnings == ()


def test_a_name_that_cannot_be_a_tag_is_left_out_with_a_warning():
    note = front("tags: [two words, 1984, 'a,b', y1984]")
    assert note.tags == ("y1984",)
    assert len(note.warnings) == 3


def test_aliases_are_read_from_lists_and_comma_separated_strings():
    assert front("aliases: [One name, 1984, one NAME]").aliases == ("One name", "1984")
    assert front("aliases: One name, Other").aliases == ("One name", "Other")
    assert front("alias: One").aliases == ("One",)


def test_authors_are_joined_and_lose_their_brackets():
    assert front("author: '[[Jane Doe]]'").author == "Jane Doe"
    assert front("authors:\n - '[[people/jane|Jane]]'\n - Bob").author == "Jane, Bob"
    assert front("author: [[Jane]]").author == "Jane"
    assert front("author:").author is None


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        ("published_at: 2024-01-05", "2024-01-05"),
        ("published: '[[2024-01-05]]'", "2024-01-05"),
        ("date: 2024-01-05 10:00", "2024-01-05T10:00:00"),
        ("date: 2024-01-05T10:00:00Z", "2024-01-05T10:00:00+00:00"),
        ("published: 2024-01-05\ndate: 2020-01-01", "2024-01-05"),
        ("published:\ndate: 2020-01-01", "2020-01-01"),
        ("published: yes\ndate: 2020-01-01", "2020-01-01"),
        ("published: false", None),
    ],
)
def test_the_date_of_publication_is_an_iso_string(block, expected):
    note = front(block)
    assert (note.published_at, note.warnings) == (expected, ())


def test_a_date_that_cannot_be_read_is_reported():
    note = front("date: last spring")
    assert note.published_at is None
    assert "last spring" in note.warnings[0]


def test_evergreen_is_a_property_or_a_tag():
    assert front("evergreen: true").evergreen
    assert front("tags: Evergreen").evergreen
    assert parse_note("n.md", "#evergreen").evergreen
    assert not front("evergreen: false").evergreen


def test_kind_is_a_property():
    assert front("kind: essay").kind == "essay"
    assert front("x: 1").kind is None


# Wikilinks


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[[N]]", ("wikilink", "N", "", "N")),
        ("[[N.md]]", ("wikilink", "N.md", "", "N.md")),
        ("[[ N | shown ]]", ("wikilink", "N", "", "shown")),
        ("[[N#H]]", ("wikilink", "N", "H", "N#H")),
        ("[[N#H1#H2|t #1]]", ("wikilink", "N", "H1#H2", "t #1")),
        ("[[N#^id]]", ("wikilink", "N", "^id", "N#^id")),
        ("[[#H]]", ("wikilink", "", "H", "#H")),
        ("![[i.png|300]]", ("embed", "i.png", "", "300")),
        ("[[N\\|t]]", ("wikilink", "N", "", "t")),
        ("[[[N]]]", ("wikilink", "N", "", "N")),
        ("[[open [[N]]", ("wikilink", "N", "", "N")),
        ("[[a [[N]] b]]", ("wikilink", "N", "", "N")),
        ("[[Sq]uare]]", ("wikilink", "Sq]uare", "", "Sq]uare")),
        ("[[N^id]]", ("wikilink", "N^id", "", "N^id")),
        ("[[N|a|b]]", ("wikilink", "N", "", "a|b")),
        ("[[../N]]", ("wikilink", "../N", "", "../N")),
        ("[[/a/N]]", ("wikilink", "/a/N", "", "/a/N")),
        ("[[a%20b]]", ("wikilink", "a%20b", "", "a%20b")),
        ("[[https://x.org/#a]]", ("wikilink", "https://x.org/", "a", "https://x.org/#a")),
        ("[^1]: [[N]]", ("wikilink", "N", "", "N")),
        ("^[in a footnote [[N]]]", ("wikilink", "N", "", "N")),
        ("> - **[[N]]**", ("wikilink", "N", "", "N")),
        ("costs $5 and [[N]] costs $6", ("wikilink", "N", "", "N")),
        ("%% never closed [[N]]", ("wikilink", "N", "", "N")),
    ],
)
def test_wikilinks_are_read_in_all_their_forms(text, expected):
    assert links(text) == [expected]


def test_a_pipe_is_escaped_in_a_table():
    assert links("| a | b |\n|---|---|\n| [[N\\|t]] | ![[i.png\\|9]] |\n") == [
        ("wikilink", "N", "", "t"),
        ("embed", "i.png", "", "9"),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "[[]]",
        "[[|x]]",
        "[[#]]",
        "[[a\nb]]",
        "\\[[N]]",
        "`[[N]]`",
        "```\n[[N]] #t\n```",
        "    [[N]] #t",
        "<!-- [[N]] #t -->",
        "a <!-- [[N]] #t --> b",
        "<div>\n[[N]] #t\n</div>",
        "%% [[N]] #t %%",
        "a %%[[N]]\n #t%% b",
        "%%\n[[N]]\n\n #t\n%%",
        "text\n%%\n[[N]]\n\n #t\n%%",
        "$[[N]]$",
        "$$\n[[N]]\n\n#t\n$$",
        "a $$[[N]]$$ b",
    ],
)
def test_code_comments_and_math_hold_no_links_and_no_tags(text):
    assert targets(text) == []
    assert tags(text) == ()


def test_text_after_a_comment_is_read_again():
    assert targets("%%\n[[A]]\n%%\n[[B]] %%[[C]]%% [[D]]") == ["B", "D"]


def test_a_comment_that_a_list_item_does_not_close_ends_with_the_item():
    assert targets("- %%\n- [[A]]\n\n%% b\n") == ["A"]


# Markdown links


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[t](p.md#H)", ("markdown", "p.md", "H", "t")),
        ("[*t* `c`](<my note.md>)", ("markdown", "my note.md", "", "t c")),
        ("[t](my%20n%C3%B6te.md#a%20b 'title')", ("markdown", "my nöte.md", "a b", "t")),
        ("[t](#H)", ("markdown", "", "H", "t")),
        ("[t][r]\n\n[r]: ./p.md", ("markdown", "./p.md", "", "t")),
        ("![alt](i.png)", ("embed", "i.png", "", "alt")),
        ("[t](100%.md)", ("markdown", "100%.md", "", "t")),
        ("[t](%2e%2e/a%23b.md)", ("markdown", "../a#b.md", "", "t")),
        ("[t](a%0Ab%5B%7C.md#%5Eid)", ("markdown", "a\nb[|.md", "^id", "t")),
        ("[t](%FF.md)", ("markdown", "\ufffd.md", "", "t")),
        ("[t](/home/me/p.md)", ("markdown", "/home/me/p.md", "", "t")),
        ("[t](..\\p.md)", ("markdown", "..\\p.md", "", "t")),
    ],
)
def test_markdown_links_are_read_and_percent_decoded(text, expected):
    assert links(text) == [expected]


def test_an_image_in_a_link_gives_both():
    assert links("[![a](i.png)](n.md)") == [("markdown", "n.md", "", "a"), ("embed", "i.png", "", "a")]


@pytest.mark.parametrize(
    "text",
    [
        "[t](https://x.org)",
        "[t](HTTP://x.org)",
        "<https://x.org>",
        "[t](mailto:a@b.c)",
        "[t](obsidian://open)",
        "[t](//host/a)",
        "[t](file:///etc/p.md)",
        "[t](C:/p.md)",
        "[t](javascript:alert(1))",
        "[t](data:text/markdown,x)",
        "![a](https://x.org/i.png)",
        "[t]()",
        "[t](#)",
        "[t](%20)",
        "![a](#%20)",
    ],
)
def test_links_out_of_the_vault_and_to_nothing_are_left_out(text):
    assert links(text) == []


# The position of a link


def test_a_link_knows_its_line_and_the_heading_above_it():
    text = (
        "---\na: 1\n---\n[[a]]\n# One [[b]]\ntext\nmore `x\ny` [[c]]\n\nTwo\n---\n- x\n  [d](d.md)\n> z\n> [[e]]\n\n"
        "| h |\n|---|\n| [[f]] |\n"
    )
    found = [(link.target, link.line, link.section) for link in parse_note("n.md", text).links]
    assert found == [
        ("a", 4, ""),
        ("b", 5, "One b"),
        ("c", 8, "One b"),
        ("d.md", 13, "Two"),
        ("e", 15, "Two"),
        ("f", 19, "Two"),
    ]


def test_lines_are_counted_with_any_line_ends():
    assert [link.line for link in parse_note("n.md", "a\r\n[[x]]\r[[y]]\n[[z]]").links] == [2, 3, 4]


def test_a_link_that_two_properties_have_names_the_line_of_each():
    text = "---\nfrom:\n  - '[[Soil]]'\nvia: ['[[Soil]]', '[[Bed]]']\nto: '[[Soil]]'\n---\n"
    found = [(link.property, link.target, link.line) for link in parse_note("a.md", text).links]
    assert found == [("from", "Soil", 3), ("via", "Soil", 4), ("via", "Bed", 4), ("to", "Soil", 5)]
    escaped = parse_note("a.md", "---\nx: 1\nfrom: '[[Soil]]'\nvia: \"\\x5b[Soil]]\"\n---\n")
    assert [(link.property, link.line) for link in escaped.links] == [("from", 3), ("via", 3)]


def types(text):
    return [(link.target, link.type) for link in parse_note("n.md", text).links]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("---\ncompetes_with: '[[a]]'\n---\n", ["competes_with"]),
        ("---\nRelated  To: ['[[a]]', 'by [[a]]']\n---\n", ["related_to", "related_to"]),
        ("---\ndeal: {supplier: '[[a]]', parts: [{of: '[[a]]'}]}\n---\n", ["supplier", "of"]),
        ("---\nup: '[[a]]'\n---\n[[a]]", ["up", None]),
        ("supplier:: [[a]], [words](a.md) and ![[a]]", ["supplier"] * 3),
        ("Text.\nSupplier Of::[[a]]\n[[a]]", ["supplier_of", None]),
        ("**Supplier**:: [[a]]", ["supplier"]),
        ("- supplier:: [[a]]\n  - [[a]]\n1. customer:: [[a]]", ["supplier", None, "customer"]),
        ("- [ ] blocks:: [[a]]", ["blocks"]),
        ("> [!note]\n> supplier:: [[a]]", ["supplier"]),
        ("See [supplier:: [[a]]] and [[a]].", ["supplier", None]),
        ("See (supplier:: of [x], [[a]]) and [[a]].", ["supplier", None]),
        ("supplier:: [[a]] (since (so):: x) (customer:: [[a]])", ["supplier", "customer"]),
        ("| [[a]] | (supplier:: [[a]]) |\n|-|-|\n| b:: [[a]] | |", [None, "supplier", None]),
        ("# supplier:: [[a]]", [None]),
        ("[[a]]\n\nsupplier: [[a]]\n\nstd::vector [[a]]\n\n:: [[a]]", [None] * 4),
        ("`supplier::` [[a]]", [None]),
        ("$supplier::$ [[a]]\n\n%%supplier:: %% [[a]]\n\n\u00e9<!--supplier::--> [[a]]", [None] * 3),
        ("[supplier:: x](a.md) [[a]]", [None, None]),
        ("\\[supplier:: [[a]]\\]", [None]),
        ("It is [supplier:: [[a]] and\nno more] [[a]]", [None, None]),
        ("( [supplier:: [[a]]] [[a]]", ["supplier", None]),
        ("x" * 100 + ":: [[a]]", ["x" * 100]),
        ("x" * 101 + ":: [[a]]", [None]),
        (f"---\n{'x' * 101}: '[[a]]'\n\"a\\u202eb\": '[[a]]'\n---\n", [None, None]),
        ("STRASSE:: [[a]]\n\ncafe\u0301:: [[a]]\n\n🌱:: [[a]]", ["strasse", "caf\u00e9", "🌱"]),
    ],
)
def test_the_type_of_a_link_is_the_nearest_key_of_its_property_or_field(text, expected):
    assert [kind for _, kind in types(text)] == expected


@pytest.mark.parametrize("text", ["```\nsupplier:: [[a]]\n```", "`supplier:: [[a]]`", "%%\nb:: [[a]]\n%%"])
def test_a_field_in_code_or_in_a_comment_is_none(text):
    assert types(text) == []


def test_a_note_has_at_most_a_hundred_types():
    found = types("\n".join(f"key{n}:: [[a]] [[b]]" for n in range(120)) + "\nkey7:: [[c]]")
    assert len(found) == 241
    assert {kind for _, kind in found} == {None, *(f"key{n}" for n in range(100))}
    assert found[-1] == ("c", "key7")


def test_links_in_frontmatter_name_their_property_and_line():
    note = front("a: x\nup: '[[P|shown]]'\nlist:\n  - k: 'see [[Q#h]] and [[R]]'")
    found = [(link.kind, link.target, link.fragment, link.property, link.line) for link in note.links]
    assert found == [
        ("property", "P", "", "up", 3),
        ("property", "Q", "h", "list", 5),
        ("property", "R", "", "list", 5),
    ]


# Tags in the text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("#a and #b/c-d_e.", ("a", "b/c-d_e")),
        ("# Heading #tag", ("tag",)),
        ("**#bold**", ("bold",)),
        ("#项目 #été #🚀go", ("项目", "été", "🚀go")),
        ("#Same #same", ("Same",)),
        ("#a_b_ #y1984", ("a_b_", "y1984")),
        ('<span class="x">#css #feature/views</span> <b>#bold</b>', ("css", "feature/views", "bold")),
        ('<a href="x#no">x</a> a>#no <!-- #no --> <https://x.org/#no> <i>x#no</i>', ()),
        ("x#no \\#no #1984 # no ##no [#no](x.md) https://x.org/#no [[n#no]] [t](y.md#no)", ()),
    ],
)
def test_tags_in_the_text_follow_obsidians_rule(text, expected):
    assert tags(text) == expected


def test_tags_of_frontmatter_come_first():
    assert tags("---\ntags: [z]\n---\n#a #Z") == ("z", "a")


# Headings


def test_headings_know_where_they_start():
    text = "---\na: 1\n---\nintro\r\n# A **b** #\n\n  ## C\n\nLong\nname\n===\n"
    note = parse_note("n.md", text)
    assert [(h.level, h.text, h.line) for h in note.headings] == [
        (1, "A b", 5),
        (2, "C", 7),
        (1, "Long name", 9),
    ]
    assert [text[h.start :].split("\n", maxsplit=1)[0] for h in note.headings] == [
        "# A **b** #",
        "  ## C",
        "Long",
    ]


@pytest.mark.parametrize(
    "text", ["```\n# x\n```", "    # x", "> # x", "- # x", "#x", "<!--\n# x\n-->", "%%\n# x\n%%"]
)
def test_code_quotes_lists_and_comments_hold_no_headings(text):
    assert parse_note("n.md", text).headings == ()


def test_text_after_a_deep_outline_is_still_read():
    outline = "".join("  " * depth + "- x\n" for depth in range(30))
    assert [h.text for h in parse_note("n.md", outline + "\n# After\n").headings] == ["After"]


# Anything at all


@pytest.mark.parametrize(
    "piece", ["[[", "![[", "](", "**a", "> ", "- ", "![", "^[", "[^a", "$$ a\n\n", "%%\n\n", "`[[", "(a:: "]
)
def test_repeated_markup_is_survived(piece):
    assert parse_note("n.md", piece * (10_000 // len(piece))).path == "n.md"


@pytest.mark.parametrize(
    ("piece", "count"),
    [
        ("[[n{n}#h|t]] ", 1),
        ("[[n{n}]]\n\n", 1),
        ("[t](n{n}.md) ", 1),
        ("(k{n}:: [[n{n}]] [", 1),
        ("[t][r{n}]\n\n[r{n}]: n{n}.md\n\n", 1),
        ("![t](n{n}.png) ", 1),
        ("[![t](i{n}.png)](n{n}.md) ", 2),
    ],
)
def test_ten_thousand_links_take_twenty_times_as_long_as_five_hundred(piece, count):
    def seconds(links):
        text = "".join(piece.format(n=n) for n in range(links))
        began = time.process_time()
        note = parse_note("n.md", text)
        assert len(note.links) == links * count
        return time.process_time() - began

    # If each link cost as much as there are links, it would be hundreds of times; a busy machine gets some tries.
    assert any(seconds(10_000) < 50 * seconds(500) for _ in range(5))


_MARKUP = st.sampled_from(
    [
        "[[",
        "]]",
        "![",
        "](",
        ")",
        "#",
        "%%",
        "$",
        "$$",
        "`",
        "```\n",
        "---\n",
        "|",
        "\n",
        "> ",
        "- ",
        "a",
        "[^",
        ":",
    ]
)


@settings(max_examples=300)
@given(st.one_of(st.text(), st.lists(_MARKUP).map("".join)))
def test_any_text_parses_and_its_offsets_hold(text):
    note = parse_note("n.md", text)
    starts = line_starts(text)
    assert note.text == text
    assert all(starts[heading.line - 1] == heading.start for heading in note.headings)
    assert all(1 <= link.line <= len(starts) for link in note.links)
    assert all(link.target or link.fragment for link in note.links)
    json.dumps(dict(note.frontmatter), allow_nan=False)


def test_a_title_has_at_most_500_characters():
    assert parse_note("n.md", "# " + "long " * 1_000).title == ("long " * 100)[:500]


@pytest.mark.parametrize("form", ["# {}\n", "{}\n===\n"])
def test_a_heading_has_at_most_500_characters_however_many_links_are_below_it(form):
    note = parse_note("n.md", form.format("long " * 1_000) + "[[a]] [[b]]")
    assert [heading.text for heading in note.headings] == ["long " * 100]
    assert [link.section for link in note.links] == ["long " * 100] * 2
