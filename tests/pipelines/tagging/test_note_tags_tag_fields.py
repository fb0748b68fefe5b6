"""The tags of a frontmatter are found where they are written, in every style of writing them."""

import pytest

from pipelines.errors import NoteTagsError
from pipelines.tagging.note_tags import first_tag, parse_block, tag_fields

STYLES = {
    "list": "tags:\n  - soil\n  - 'compost'\n",
    "inline": "tags: [soil, '#compost']\n",
    "words": "tags: soil, compost\n",
}


def written(text):
    return [text[item.start : item.end] for field in tag_fields(text) for item in field.items]


@pytest.mark.parametrize("style", STYLES)
def test_the_position_of_a_tag_is_that_of_its_own_characters(style):
    text = f"---\ntitle: x\n{STYLES[style]}---\n#soil in the text\n"
    (field,) = tag_fields(text)
    assert field.style == style
    assert [item.name for item in field.items] == ["soil", "compost"]
    assert [one.strip("'#") for one in written(text)] == ["soil", "compost"]
    assert text[field.key : field.key_end] == "tags"


def test_bytes_that_are_no_text_move_no_position():
    text = b"---\ntitle: \xff\xfe\ntags: [soil]\n---\n".decode("utf-8", "surrogateescape")
    assert written(text) == ["soil"]


@pytest.mark.parametrize(("value", "style"), [("", "empty"), (" null", "null"), (" []", "inline")])
def test_a_property_without_tags_has_a_style_and_no_items(value, style):
    (field,) = tag_fields(f"---\ntags:{value}\n---\n")
    assert (field.style, field.items) == (style, ())


def test_both_names_of_the_property_are_found_whatever_their_case():
    text = "---\nTags: soil\ntag: compost\n---\n"
    assert [field.name for field in tag_fields(text)] == ["tags", "tag"]
    found = first_tag(text, lambda name: name == "compost")
    assert found is not None
    assert found[0].name == "tag"
    assert first_tag(text, lambda name: name == "bread") is None


def test_a_note_without_frontmatter_has_no_block():
    assert parse_block("tags: [soil]\n") is None
    assert tag_fields("# Soil\n") == ()


@pytest.mark.parametrize(
    ("block", "reason"),
    [
        ("tags: {soil: 1}\n", "name: value"),
        ("tags: !!str soil\n", "YAML type"),
        ("tags: [[soil]]\n", "more than plain tags"),
        ("tags: a\nTags: b\n", "twice"),
        (f"tags: [{', '.join(f't{n}' for n in range(501))}]\n", "more than 500 tags"),
    ],
)
def test_tags_that_cannot_be_edited_safely_are_refused_with_the_reason(block, reason):
    with pytest.raises(NoteTagsError, match=reason):
        parse_block(f"---\n{block}---\n")
