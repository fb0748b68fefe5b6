"""A tag is added, removed or renamed in its place; every other byte of the note stays as it was."""

import codecs

import pytest
import yaml
from hypothesis import assume, example, given
from hypothesis import strategies as st

from pipelines.errors import NoteTagsError
from pipelines.notes.encodings import decode, encoding_of
from pipelines.notes.frontmatter import is_tag, read_frontmatter, read_properties
from pipelines.notes.markdown import parse_note
from pipelines.tagging.apply import heads, taken_back
from pipelines.tagging.note_tags import add_tags, remove_tags, rename_tags, tags_of_head


def tags_of(data):
    return read_properties(read_frontmatter(decode(data)[0]).values, ()).tags


def note(block, body="text\n"):
    return f"---\n{block}\n---\n{body}".encode()


# Adding


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("tags:\n  - a", "tags:\n  - a\n  - new", id="list"),
        pytest.param("tags:\n- a\nx: 1", "tags:\n- a\n- new\nx: 1", id="list without indentation"),
        pytest.param("tags:\n    - a", "tags:\n    - a\n    - new", id="list far in"),
        pytest.param("tags:\n  - a # why\n  # end", "tags:\n  - a # why\n  - new\n  # end", id="comments"),
        pytest.param("tags:\n  - 'a'  ", "tags:\n  - 'a'  \n  - new", id="spaces behind an item"),
        pytest.param("tags:\n  -", "tags:\n  -\n  - new", id="an empty item"),
        pytest.param("tags: [a, b]", "tags: [a, b, new]", id="inline list"),
        pytest.param("tags: [a, b,]", "tags: [a, b, new,]", id="inline list with a last comma"),
        pytest.param("tags: [ 'a' ] # c", "tags: [ 'a', new ] # c", id="inline list, quoted"),
        pytest.param("tags: [\n  a, # c\n  b # d\n]", "tags: [\n  a, # c\n  b, new # d\n]", id="over lines"),
        pytest.param("tags: []", "tags: [new]", id="an empty list"),
        pytest.param("tags: [ ]", "tags: [new ]", id="an empty list with a space"),
        pytest.param("tags: a", "tags: a, new", id="a word"),
        pytest.param("tags: a, b # c", "tags: a, b, new # c", id="words and commas"),
        pytest.param("tags: a b", "tags: a b new", id="words"),
        pytest.param("tags: 'a, b'", "tags: 'a, b, new'", id="quoted words"),
        pytest.param('tags: ""', 'tags: "new"', id="nothing in quotes"),
        pytest.param("tags: >-\n  a\n  b\nx: 1", "tags: >-\n  a\n  b new\nx: 1", id="folded words"),
        pytest.param("tags:", "tags:\n- new", id="no value"),
        pytest.param("tags: # none yet\nx: 1", "tags: # none yet\n- new\nx: 1", id="no value but a comment"),
        pytest.param("tags: ~", "tags: [new]", id="a tilde"),
        pytest.param("tags: null # c", "tags: [new] # c", id="null"),
        pytest.param("Tags: [a]", "Tags: [a, new]", id="another case"),
        pytest.param('"tags": [a]', '"tags": [a, new]', id="a quoted key"),
        pytest.param("tag: a", "tag: a\ntags:\n  - new", id="only the legacy key"),
        pytest.param("x: 1 # c", "x: 1 # c\ntags:\n  - new", id="no key"),
        pytest.param(
            "x: |+\n  y\n", "x: |+\n  y\n\ntags:\n  - new", id="behind a block that keeps its lines"
        ),
        pytest.param("  x: 1", "  x: 1\n  tags:\n    - new", id="indented properties"),
        pytest.param("# c", "# c\ntags:\n  - new", id="only a comment"),
        pytest.param("{tags: []}", "{tags: [new]}", id="braces"),
        pytest.param("t: 😀é\ntags: [😀, é]", "t: 😀é\ntags: [😀, é, new]", id="beyond the first plane"),
    ],
)
def test_a_tag_is_added_in_the_style_of_those_that_are_there(before, after):
    assert add_tags(note(before), ["new"]) == note(after)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("top", [b"", b"\xef\xbb\xbf"])
def test_line_ends_and_a_byte_order_mark_stay(end, top):
    data = top + note("tags:\n  - a\nx: 1").replace(b"\n", end.encode())
    expected = top + note("tags:\n  - a\n  - new\nx: 1").replace(b"\n", end.encode())
    assert add_tags(data, ["new"]) == expected


def test_mixed_line_ends_stay_and_the_new_line_ends_as_the_one_before_it():
    assert (
        add_tags(b"---\ntags:\r\n- a\r\nx: 1\n---\r", ["new"]) == b"---\ntags:\r\n- a\r\n- new\r\nx: 1\n---\r"
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"", b"---\ntags:\n  - new\n---\n"),
        (b"text", b"---\ntags:\n  - new\n---\ntext"),
        (b"\xef\xbb\xbfa\r\nb\n", b"\xef\xbb\xbf---\r\ntags:\r\n  - new\r\n---\r\na\r\nb\n"),
        (b"---\n---", b"---\ntags:\n - new\n---"),
        (b"\n---\nx: 1\n---\n", b"---\ntags:\n  - new\n---\n\n---\nx: 1\n---\n"),
    ],
)
def test_a_block_is_made_where_there_is_none(before, after):
    assert add_tags(before, ["new"]) == after


def test_bytes_that_are_no_text_stay_in_the_block_and_in_the_body():
    assert (
        add_tags(b"---\nx: caf\xe9\n---\n\xff\0", ["new"]) == b"---\nx: caf\xe9\ntags:\n  - new\n---\n\xff\0"
    )


@pytest.mark.parametrize("block", ["tags: [New]", "tags:\n  - '#nEw'", "tag: new", "tags: a, NEW"])
def test_a_note_that_has_the_tag_is_left_alone(block):
    assert add_tags(note(block), ["new"]) == note(block)


@pytest.mark.parametrize(
    "tag",
    ["yes", "No", "null", "404b", "2024-01", "1e5", "0x1F", "-x", "😀", "y", "_x", "2024-01-01", "1_0a"],
)
@pytest.mark.parametrize("block", ["tags:\n  - a", "tags: [a]", "tags:", "x: 1", "tags: a", "tags: []"])
def test_a_tag_that_yaml_takes_for_something_else_reads_back_as_that_tag(tag, block):
    after = add_tags(note(block), [tag])
    assert tag in tags_of(after)
    assert remove_tags(after, [tag]) == note(block)


def test_what_other_yaml_versions_take_for_a_number_is_quoted():
    assert add_tags(note("tags: [a]"), ["1e5", "yes", "404b"]) == note('tags: [a, "1e5", "yes", "404b"]')


@pytest.mark.parametrize("tag", ["", "two words", "1984", "a,b", "#a", "/a", "a/", "a\nb", "a:b"])
def test_what_is_no_tag_is_refused(tag):
    with pytest.raises(NoteTagsError, match="is not a tag"):
        add_tags(b"", ["fine", tag] if tag else ["two words"])


@pytest.mark.parametrize(
    ("block", "reason"),
    [
        ("title: [", "unreadable"),
        ("just text", "unreadable"),
        ("tags: &x [a]", "anchors"),
        ("x: &x 1\ny: *x", "anchors"),
        ("x: " + "y" * 70_000, "larger than"),
        ("tags: {a: b}", "pairs"),
        ("tags: [{a: b}]", "more than plain tags"),
        ("tags:\n  - - a", "more than plain tags"),
        ("tags: [[Note]]", "more than plain tags"),
        ("tags: !!set {a}", "type"),
        ("tags: !!str a", "type"),
        ("tags: [!!str a]", "more than plain tags"),
        ("tags: [a]\ntags: [b]", "twice"),
        ("tags: [a]\nTags: [b]", "twice"),
        ("x: 1\nx: 2", "twice"),
        (f"tags: [{'a, ' * 501}]", "more than 500 tags"),
        ("{x: 1}", "could not be read back"),
        ("tags:\n  - |\n    a\nx: 1", "could not be read back"),
    ],
)
def test_a_frontmatter_that_cannot_be_edited_safely_is_refused_with_a_reason(block, reason):
    with pytest.raises(NoteTagsError, match=reason):
        add_tags(note(block), ["new"])


@pytest.mark.parametrize(
    "data", [b"---", b"---\n", b"---\ntitle: x\n", b"\xef\xbb\xbf---\r\nx: 1", b"---\nx: 1\n----\n"]
)
def test_a_frontmatter_that_never_ends_is_refused(data):
    with pytest.raises(NoteTagsError, match="never ends"):
        add_tags(data, ["new"])


def test_a_block_that_would_grow_beyond_what_is_read_is_refused():
    with pytest.raises(NoteTagsError):
        add_tags(note("x: " + "y" * 65_520), ["a-tag-that-is-one-too-many"])


# Any frontmatter

NAMES = st.sampled_from(["a", "B", "c/d", "e-f", "g_h", "é", "😀", "yes", "two words", "#h", "1984", "404b"])
QUOTES = st.sampled_from(["", "'", '"'])
COMMENTS = st.sampled_from(["", " # c", "  ", " # tags: [x]"])


@st.composite
def quoted(draw):
    name = draw(NAMES)
    quote = draw(QUOTES) or ("'" if name.startswith("#") else "")
    return f"{quote}{name}{quote}"


@st.composite
def tag_properties(draw):
    key = draw(st.sampled_from(["tags", "Tags", '"tags"', "tags "]))
    names = draw(st.lists(quoted(), max_size=4))
    plain = draw(st.lists(st.sampled_from(["a", "B", "c/d", "e-f"]), min_size=1, max_size=3))
    style = draw(st.sampled_from(["list", "inline", "lines", "words", "empty"]))
    comment = draw(COMMENTS)
    if style == "list" and names:
        indent = " " * draw(st.integers(0, 4))
        return f"{key}:{comment}\n" + "\n".join(f"{indent}- {name}{draw(COMMENTS)}" for name in names)
    if style == "inline":
        return f"{key}: [{', '.join(names)}{',' if names and draw(st.booleans()) else ''}]{comment}"
    if style == "lines":
        return f"{key}: [\n" + "".join(f"  {name},{draw(COMMENTS)}\n" for name in names) + f"  ]{comment}"
    if style == "words":
        quote = draw(QUOTES)
        return f"{key}: {quote}{draw(st.sampled_from([' ', ', ', ',  '])).join(plain)}{quote}{comment}"
    return f"{key}:{comment}"


OTHERS = st.sampled_from(
    [
        "title: 'x: # y'",
        "# - a comment",
        "",
        "aliases:\n- b\n- c",
        "d: 2024-01-05",
        "t: |\n  tags: [z]\n",
        "é: {k: [1]}",
    ]
)


@st.composite
def notes(draw):
    blocks = [
        *draw(st.lists(OTHERS, max_size=2, unique=True)),
        draw(st.one_of(st.just(""), tag_properties())),
    ]
    blocks += draw(
        st.lists(st.sampled_from(["last: >-\n  a\n  b", "tag: q", "# end"]), max_size=2, unique=True)
    )
    block = "\n".join(blocks)
    body = draw(st.sampled_from(["", "text", "\n# H\n#a text\n", "---\nx: 1\n---\n", "\n"]))
    front = f"---{draw(st.sampled_from(['', ' ']))}\n{block}\n---" + (f"\n{body}" if body else "")
    text = draw(st.sampled_from([front, front, front, f"---\n---\n{body}", body]))
    text = text.replace("\n", draw(st.sampled_from(["\n", "\r\n", "\r"])))
    return (
        draw(st.sampled_from([b"", b"\xef\xbb\xbf"]))
        + text.encode()
        + draw(st.sampled_from([b"", b"\xff\xfe\0"]))
    )


NEW = st.lists(st.sampled_from(["new", "x/y", "no", "3d", "日本", "-z"]), min_size=1, max_size=3, unique=True)


def others_of(data):
    values = read_frontmatter(decode(data)[0]).values
    return [(name, value) for name, value in values.items() if name.lower() not in {"tags", "tag"}]


@given(data=notes(), new=NEW)
@example(data=b"---\ntags:\n---\n", new=["new"])
@example(data=b"---\n---\n", new=["new"])
@example(data=b"---\ntags: []\n---\n", new=["new"])
@example(data=b"", new=["new"])
def test_what_is_added_is_only_inserted_and_taken_out_again_to_the_byte(data, new):
    try:
        after = add_tags(data, new)
    except NoteTagsError:
        # An unclosed block is the only thing here that cannot be edited.
        assert (
            not data.removeprefix(b"\xef\xbb\xbf").startswith(b"---")
            or read_frontmatter(decode(data)[0]).end == 0
        )
        return
    assert set(tags_of(after)) == {*tags_of(data), *new}
    assert others_of(after) == others_of(data)
    rest = iter(after)
    assert all(byte in rest for byte in data), "something was taken away"
    assert remove_tags(after, new) == data
    assert add_tags(after, new) == after


@given(data=notes(), name=st.sampled_from(["a", "c/d", "yes", "é"]))
def test_a_renamed_tag_is_renamed_back_and_renaming_twice_is_renaming_once(data, name):
    try:
        after = rename_tags(data, {name: "zz"})
        again = rename_tags(after, {name: "zz"})
    except NoteTagsError:
        return
    assert again == after
    assert others_of(after) == others_of(data)
    before, now = parse_note("", decode(data)[0]).tags, parse_note("", decode(after)[0]).tags
    assert [tag.replace(name, "zz", 1) if tag == name else tag for tag in before] == list(now)


@given(st.binary(max_size=80), NEW)
@example(b"---\n\xff: \xfe\n---", ["new"])
def test_any_bytes_get_the_tag_or_are_refused(data, new):
    for edit in (lambda: add_tags(data, new), lambda: add_tags(b"---\n" + data + b"\n---\n", new)):
        try:
            after = edit()
        except NoteTagsError:
            continue
        assert {*new} <= {*tags_of(after)}


@given(st.text(max_size=10))
def test_every_tag_reads_back_in_every_style_or_is_refused(tag):
    assume(is_tag(tag) and tag.strip("/") == tag)
    for block in ("tags: [a]", "tags:\n  - a", "tags: a"):
        try:
            after = add_tags(note(block), [tag])
        except (NoteTagsError, UnicodeEncodeError):
            continue
        assert {name.casefold() for name in tags_of(after)} == {"a", tag.casefold()}


# Taking out


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("tags: [a, gone, b]", "tags: [a, b]", id="between"),
        pytest.param("tags: [gone, a]", "tags: [a]", id="first"),
        pytest.param(
            "tags: [a, # of a\n  gone, # of it\n  b]", "tags: [a, # of a\n   # of it\n  b]", id="comments"
        ),
        pytest.param("tags: [gone,]", "tags: []", id="alone"),
        pytest.param("tags:\n  - a\n  - '#Gone' # c\n  - b", "tags:\n  - a\n  - b", id="a line"),
        pytest.param("tags:\n  # c\n  - gone\nx: 1", "tags:\n  # c\nx: 1", id="alone below a comment"),
        pytest.param("tags: a, gone b", "tags: a b", id="a word"),
        pytest.param("tags: [gone, a]\ntag: gone c", "tags: [a]\ntag: c", id="in both keys"),
        pytest.param("tags: [gone/x]", "tags: [gone/x]", id="a nested one stays"),
    ],
)
def test_a_tag_is_taken_out(before, after):
    assert remove_tags(note(before), ["gone"]) == note(after)


def test_a_tag_in_an_unusual_place_is_not_removed():
    with pytest.raises(NoteTagsError, match="line of its own"):
        remove_tags(note("tags:\n  -\n    gone"), ["gone"])


# Renaming

RENAMES = {"a": "b", "Old": "new", "true-word": "yes", "c": "d", "d": "e"}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("tags: [a, x] # c", "tags: [b, x] # c", id="inline list"),
        pytest.param("tags:\n- x\n- a # c", "tags:\n- x\n- b # c", id="list"),
        pytest.param("tags: a", "tags: b", id="a word"),
        pytest.param("tags: x, a", "tags: x, b", id="words"),
        pytest.param("tags: '#a x'", "tags: '#b x'", id="with its sign"),
        pytest.param(
            "tags: [\"#A\", 'OLD/x']", "tags: [\"#b\", 'new/x']", id="quoted, nested, in another case"
        ),
        pytest.param("tags: true-word", 'tags: "yes"', id="to what must be quoted"),
        pytest.param("tags: [true-word]", 'tags: ["yes"]', id="to what must be quoted, in a list"),
        pytest.param("tags: [a, b]", "tags: [b]", id="to one that is there"),
        pytest.param("tags: [a, A/x, b/x]", "tags: [b, b/x]", id="to a nested one that is there"),
        pytest.param("tag: a", "tag: b", id="legacy key"),
        pytest.param("tags: [c]", "tags: [e]", id="a chain"),
        pytest.param('tags: ["\\x61"]', "tags: [b]", id="written with an escape"),
        pytest.param("title: a\nrelated: '#a'", "title: a\nrelated: '#a'", id="only in other properties"),
        pytest.param("tags: [ab, x/a]", "tags: [ab, x/a]", id="only as a part"),
        pytest.param("just text", "just text", id="unreadable, but names none"),
        pytest.param("tags: {x: 1}", "tags: {x: 1}", id="not to be edited, but names none"),
    ],
)
def test_a_tag_is_renamed_in_the_frontmatter(before, after):
    assert rename_tags(note(before), RENAMES) == note(after)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("#a #a/x #A, #ab x#a (#a) #x/a", "#b #b/x #b, #ab x#a (#a) #x/a"),
        ("# H #a\n\n> #a\n\n- [ ] do #a\n", "# H #b\n\n> #b\n\n- [ ] do #b\n"),
        ("|#a|x|\n|---|---|\n|y|#a|\n", "|#b|x|\n|---|---|\n|y|#b|\n"),
        ("**#a** ==#a== #/a/ #a.", "**#b** ==#b== #/b/ #b."),
        ("`#a` #a ``#a``", "`#a` #b ``#a``"),
        ("```\n#a\n```\n#a\n\n    #a\n", "```\n#a\n```\n#b\n\n    #a\n"),
        ("[#a](#a) [[x#a]] [[#a]] <http://x/#a> http://x/#a ![#a](y)",) * 2,
        ("%%#a%% $#a$ <!-- #a --> \\#a &#a;",) * 2,
        ("[see #a] #a\n\n[see #a]: http://x\n", "[see #a] #b\n\n[see #a]: http://x\n"),
        ("[see #a][r] #a\n\n[r]: http://x#a\n", "[see #a][r] #b\n\n[r]: http://x#a\n"),
        ("q0q #a q0q1x #q0q0xa\r\n#a", "q0q #b q0q1x #q0q0xa\r\n#b"),
    ],
)
def test_inline_tags_are_renamed_where_the_parser_sees_them_and_nowhere_else(before, after):
    assert rename_tags(before.encode(), RENAMES) == after.encode()


def test_bytes_that_are_no_text_stay_around_a_renamed_tag():
    assert rename_tags(b"\xef\xbb\xbf\xff #a\xfe\0\r#a\r\n", RENAMES) == b"\xef\xbb\xbf\xff #b\xfe\0\r#b\r\n"


@pytest.mark.parametrize(
    "block",
    ["just text with a", "tags: {a: 1}", "tags: [a", "tags: [a]\ntags: [x]", "tags: '\\a a'\ntags: x"],
)
def test_a_note_that_may_have_the_old_tag_and_cannot_be_edited_is_refused(block):
    with pytest.raises(NoteTagsError):
        rename_tags(note(block), RENAMES)


def test_a_note_in_which_a_tag_cannot_be_distinguished_from_code_is_refused():
    with pytest.raises(NoteTagsError, match="by hand"):
        rename_tags(b"```\n[x #a]: y\n```\n[x #a]\n", RENAMES)


@pytest.mark.parametrize("renames", [{"a": "b", "b": "a"}, {"a": "a/b"}, {"a": "b/a", "b": "a"}])
def test_renames_that_never_end_are_refused(renames):
    with pytest.raises(NoteTagsError, match="never end"):
        rename_tags(b"#a", renames)


PIECES = ["#a", "#a/x", "`", "```\n", "\n", "\n\n", " ", "[", "]", "(", ")", "[x #a]", "]: y", "$", "%%", "> ", "- ", "    ", "|", "<!--", "-->", "**", "x", "\\", "[[", "]]", "---", "\r\n", "é"]  # fmt: skip


@given(st.lists(st.sampled_from(PIECES), max_size=25).map("".join))
def test_whatever_is_written_around_it_exactly_the_tag_is_renamed_or_the_note_is_refused(text):
    before = parse_note("", text)
    try:
        after = rename_tags(text.encode(), {"a": "zz"}).decode()
    except NoteTagsError:
        return
    expected = ["zz" + tag[1:] if tag.split("/")[0] == "a" else tag for tag in before.tags]
    assert list(parse_note("", after).tags) == expected
    assert after.replace("#zz", "#a") == text


def test_the_strings_that_are_written_plain_are_strings_to_yaml():
    for tag in ("a", "éa", "e5", "nan", "inf", "Z0", "日本"):
        assert yaml.safe_load(add_tags(note("tags: [q]"), [tag]).split(b"---")[1]) == {"tags": ["q", tag]}


# Other encodings than UTF-8


ENCODED = {
    "utf-16": "---\ntitle: Größe 日本\ntags: [a]\n---\nText #a.\n",
    "cp1252": "---\ntitle: Übersicht\ntags: [a]\n---\nDie Größe der Äpfel hängt von der Düngung ab. #a\n",
    "cp1251": "---\ntitle: Погода\ntags: [a]\n---\nСегодня хорошая погода, и мы пошли гулять. #a\n",
    "cp932": "---\ntitle: 会議メモ\ntags: [a]\n---\n今日は天気がいいので、散歩に行きました。 #a\n",
}


@pytest.mark.parametrize("codec", ENCODED)
def test_a_note_keeps_its_encoding_when_its_tags_are_edited(codec):
    text = ENCODED[codec]
    data = text.encode(codec)
    after = add_tags(data, ["new"])
    assert after == text.replace("[a]", "[a, new]").encode(codec)
    assert remove_tags(after, ["new"]) == data
    assert rename_tags(data, {"a": "b"}) == text.replace("[a]", "[b]").replace("#a", "#b").encode(codec)


@pytest.mark.parametrize("codec", ENCODED)
def test_an_undo_keeps_the_tags_that_a_note_had_in_any_encoding(codec):
    data = ENCODED[codec].encode(codec)
    after = add_tags(data, ["new"])
    head_before, head_after = heads(data, after)
    assert tags_of_head(head_before) == {"a"}
    assert taken_back(after, head_before, head_after, ["a", "new"]) == data
    later = after + "\nWritten since.".encode(codec).removeprefix(codecs.BOM_UTF16_LE)
    assert taken_back(later, head_before, head_after, ["a", "new"])[: len(data)] == data


@pytest.mark.parametrize("codec", ["utf-16-le", "utf-16-be"])
def test_a_block_is_made_in_the_encoding_of_the_note(codec):
    mark = "\ufeff".encode(codec)
    data = mark + "Größe\r\n日本\r\n".encode(codec)
    after = add_tags(data, ["日本"])
    assert after == mark + '---\r\ntags:\r\n  - "日本"\r\n---\r\nGröße\r\n日本\r\n'.replace('"', "").encode(
        codec
    )
    assert remove_tags(after, ["日本"]) == data


@pytest.mark.parametrize(
    ("data", "tag", "reason"),
    [
        (
            ENCODED["cp1252"].encode("cp1252"),
            "日本",
            "Windows-1252, in which it is written, lacks '日'; save it as",
        ),
        (
            b"\xff\xfe" + "abc".encode("utf-16-le") + b"d",
            "new",
            "parts of it are not UTF-16; save it as UTF-8",
        ),
    ],
)
def test_a_note_that_its_encoding_does_not_let_be_edited_is_refused(data, tag, reason):
    with pytest.raises(NoteTagsError, match=reason):
        add_tags(data, [tag])


@given(
    st.sampled_from(list(ENCODED)),
    st.sampled_from(["new", "größe", "погода", "日本", "on"]),
    st.binary(max_size=20),
)
def test_in_any_encoding_the_tag_is_only_inserted_or_the_note_is_refused(codec, tag, behind):
    data = ENCODED[codec].encode(codec) + behind
    try:
        after = add_tags(data, [tag])
    except NoteTagsError:
        return
    assert encoding_of(after) == encoding_of(data)
    assert tag in parse_note("", decode(after)[0]).tags
    at = next(n for n in range(len(after)) if after[n : n + 1] != data[n : n + 1])
    assert after[:at] + after[at + len(after) - len(data) :] == data
