import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.notes.chunk import chunk_note, chunk_settings
from pipelines.notes.markdown import drawing_start, parse_note

SETTINGS = chunk_settings(256, None, None)
# As the plugin writes it; older versions say `# Drawing`, and newer ones may open the comment above the data.
SCENE = "N4KAkARALgngDgUwgLgAQQQDwMYEMA2AlgCYBOuA7hADTgQBuCpAzoQPYB2KqATLZMzYBXUtiRoIACyhQ4zZAHoFAc0JRJQgEYA6b\n\n"
DRAWING = f"%%\n## Drawing\n```compressed-json\n{SCENE * 3}\n```\n%%"
ABOVE = """---

excalidraw-plugin: parsed
tags: [excalidraw]

---
==⚠  Switch to EXCALIDRAW VIEW in the MORE OPTIONS menu of this document. ⚠==


# Excalidraw Data

## Text Elements
Rain feeds the river ^iALG2Gey

See [[Weather log]]
and the sea ^R644Xznp

## Element Links
R644Xznp: [[Maps/Sea#Coast]]

## Embedded Files
8f1d: [[map of the coast.png]]

"""
NOTE = ABOVE + DRAWING


def indexed(text):
    return "\n".join(chunk.text for chunk in chunk_note(parse_note("Water.excalidraw.md", text), SETTINGS))


def test_the_words_and_links_of_a_drawing_are_indexed_and_its_data_is_not():
    note = parse_note("Water.excalidraw.md", NOTE)
    chunks = chunk_note(note, SETTINGS)
    assert [(chunk.section, chunk.text, chunk.first_line) for chunk in chunks[1:]] == [
        (
            "Text Elements",
            (
                "## Text Elements\nRain feeds the river ^iALG2Gey\n\nSee [[Weather log]]\n"
                "and the sea ^R644Xznp"
            ),
            12,
        ),
        ("Element Links", "## Element Links\nR644Xznp: [[Maps/Sea#Coast]]", 18),
        ("Embedded Files", "## Embedded Files\n8f1d: [[map of the coast.png]]", 21),
    ]
    assert all(note.text[chunk.start : chunk.end] == chunk.text for chunk in chunks)
    assert [link.target for link in note.links] == ["Weather log", "Maps/Sea", "map of the coast.png"]
    assert [heading.text for heading in note.headings][-1] == "Embedded Files"
    assert note.tags == ("excalidraw",)


def test_a_drawing_is_called_by_its_file_and_not_by_the_plugins_heading():
    assert parse_note("Water.excalidraw.md", NOTE).title == "Water.excalidraw"
    old = NOTE.replace("# Excalidraw Data\n\n## Text", "# Text")
    assert parse_note("Water.excalidraw.md", old).title == "Water.excalidraw"
    titled = NOTE.replace("==⚠", "# The water cycle\n==⚠")
    assert parse_note("Water.excalidraw.md", titled).title == "The water cycle"
    assert parse_note("a.md", "# Excalidraw Data\n").title == "Excalidraw Data"


@pytest.mark.parametrize(
    "drawing",
    [
        DRAWING,
        DRAWING.replace("\n", "\r\n"),
        "## Drawing\n\n```json\n{}\n```\n%%\n",
        "%%\n\n# Drawing\n```json\n{}\n```",
        f"%%\n## Drawing\n```compressed-json\n{SCENE}",
    ],
)
def test_every_form_of_the_drawing_ends_the_body(drawing):
    assert drawing_start(ABOVE + drawing, 0, {"excalidraw-plugin": "raw"}) == len(ABOVE)


def test_links_stay_where_the_plugin_hides_its_data_in_a_comment():
    hidden = NOTE.replace("# Excalidraw Data", "%%\n# Excalidraw Data").replace(
        "%%\n## Drawing", "## Drawing"
    )
    note = parse_note("Water.md", hidden)
    assert [link.target for link in note.links] == ["Weather log", "Maps/Sea", "map of the coast.png"]
    assert "N4KA" not in indexed(hidden)


def test_without_the_property_only_a_drawing_in_a_comment_is_one():
    assert "N4KA" not in indexed(f"# Plan\nWords.\n\n{DRAWING}\n")
    assert "N4KA" in indexed(f"# Plan\nWords.\n\n{DRAWING.removeprefix('%%')}\n")
    assert "a: 1" in indexed("# Plan\n\n%%\n## Drawing\n```yaml\na: 1\n```\n%%")


def test_words_below_a_drawing_are_never_lost():
    below = f"{NOTE}\n\nWritten later, below the drawing."
    assert indexed(below).endswith("Written later, below the drawing.")
    twice = f"{ABOVE}## Drawing\n```json\nan example\n```\n\nMore words.\n\n{DRAWING}"
    assert indexed(twice).endswith("More words.")


def test_frontmatter_is_never_taken_for_a_drawing():
    text = "---\n%%\n## Drawing\n```json\n---\nWords.\n"
    note = parse_note("a.md", text)
    assert (note.body_end, indexed(text).splitlines()[-1]) == (len(text), "Words.")


@given(st.lists(st.sampled_from(["%%", "## Drawing", "```json", "```", "\n", "\n\n", "  ", "word", "\r\n"])))
def test_what_follows_the_body_is_only_a_drawing(parts):
    text = "".join(parts)
    rest = text[drawing_start(text, 0, {"excalidraw-plugin": "parsed"}) :]
    assert not rest or "word" not in rest.partition("```json")[2].partition("\n```")[2]
