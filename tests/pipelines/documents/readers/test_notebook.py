import json
from contextlib import suppress

import nbformat
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nbformat import v3, v4

from pipelines.documents.read import note_of
from pipelines.documents.readers.notebook import read
from pipelines.errors import DocumentError
from pipelines.notes.chunk import chunk_note, chunk_settings
from tests.pipelines.documents.blocks import blocks_of, links_of


def saved(*cells, **metadata):
    """Return a notebook as Jupyter saves it."""
    notebook = v4.new_notebook(cells=list(cells), metadata=metadata)
    return nbformat.writes(notebook).encode()


def code(source, *outputs):
    return v4.new_code_cell(source, outputs=list(outputs), execution_count=1)


def shown(**data):
    return v4.new_output("display_data", data={name.replace("_", "/"): value for name, value in data.items()})


ANALYSIS = saved(
    v4.new_markdown_cell(
        "# Rain in May\nData from [[Weather log#May]] and [the station](data/station%201.csv)."
    ),
    code("import numpy as np\nrain = np.array([1, 2])"),
    v4.new_markdown_cell("## Sums\n\n### By week\nText."),
    code(
        "print(rain.sum())\nrain",
        v4.new_output("stream", name="stdout", text="3\n"),
        v4.new_output(
            "execute_result",
            data={"text/plain": "array([1, 2])", "text/html": "<b>1, 2</b>"},
            execution_count=1,
        ),
        shown(image_png="iVBORw0KGgo="),
    ),
    v4.new_raw_cell("A raw cell."),
    code(""),
    v4.new_markdown_cell("## Means\nSee ![](attachment:a.png)![](data:image/png;base64,iVBORw0KGgo=) above."),
    code("1 / 0", v4.new_output("error", ename="ZeroDivisionError", evalue="division", traceback=["..."])),
    authors=[{"name": "Ana Lima"}, {"name": "Ben Oduya"}],
)


def test_a_cell_is_a_block_with_its_text_outputs_under_the_headings_above_it():
    document = read("Rain.ipynb", ANALYSIS, {})
    title = "Rain in May"
    assert blocks_of(document) == [
        (
            "# Rain in May\nData from [[Weather log#May]] and [the station](data/station%201.csv).",
            (title,),
            "cell 1",
        ),
        ("import numpy as np\nrain = np.array([1, 2])", (title,), "cell 2"),
        ("## Sums\n\n### By week\nText.", (title, "Sums", "By week"), "cell 3"),
        ("print(rain.sum())\nrain\n\n3\narray([1, 2])", (title, "Sums", "By week"), "cell 4"),
        ("A raw cell.", (title, "Sums", "By week"), "cell 5"),
        ("## Means\nSee ![](attachment:a.png)![]() above.", (title, "Means"), "cell 7"),
        ("1 / 0", (title, "Means"), "cell 8"),
    ]
    assert (document.title, document.warnings) == (title, ())
    assert document.metadata == {"author": ["Ana Lima", "Ben Oduya"]}


def test_links_of_markdown_cells_are_links():
    assert [link[:4] for link in links_of(read("Rain.ipynb", ANALYSIS, {}))] == [
        ("Weather log", "May", "Weather log#May", False),
        ("data/station 1.csv", "", "the station", False),
    ]


def test_a_note_of_it_has_the_cell_of_each_passage():
    note = note_of("Rain.ipynb", read("Rain.ipynb", ANALYSIS, {}))
    assert (note.title, note.author) == ("Rain in May", "Ana Lima, Ben Oduya")
    places = [chunk.place.shown() for chunk in chunk_note(note, chunk_settings(256, None, None))]
    # Passages of fewer than 20 characters are left out.
    assert places == ["cell 1", "cell 2", "cell 3", "cell 4", "cell 7"]


def test_format_3_has_worksheets_inputs_and_heading_cells():
    notebook = v3.new_notebook(
        worksheets=[
            v3.new_worksheet(
                cells=[
                    v3.new_heading_cell("Old notes", level=1),
                    v3.new_heading_cell("Part", level=2),
                    v3.new_code_cell("x = 1", outputs=[v3.new_output("pyout", output_text="1")]),
                ]
            ),
            v3.new_worksheet(cells=[v3.new_text_cell("markdown", source="Second *sheet*.")]),
        ]
    )
    document = read("Old.ipynb", v3.writes_json(notebook).encode(), {})
    assert blocks_of(document) == [
        ("# Old notes", ("Old notes",), "cell 1"),
        ("## Part", ("Old notes", "Part"), "cell 2"),
        ("x = 1\n\n1", ("Old notes", "Part"), "cell 3"),
        ("Second *sheet*.", ("Old notes", "Part"), "cell 4"),
    ]


def test_a_progress_bar_is_its_last_state_and_long_outputs_are_cut():
    bar = v4.new_output("stream", name="stderr", text="\x1b[32m10%\x1b[0m\r50%\r100%\r\ndone\n")
    long = [v4.new_output("stream", name="stdout", text="word-" * 300) for _ in range(2)]
    document = read("Bar.ipynb", saved(code("run()", bar), code("loop()", *long), title="Stated"), {})
    first, second = (text for text, _, _ in blocks_of(document))
    assert first == "run()\n\n100%\ndone"
    assert len(second) == len("loop()\n\n") + 2_000
    assert document.warnings == ("outputs that were cut after 2,000 characters: 1",)
    assert note_of("Bar.ipynb", document).title == "Stated"


def test_wrong_types_are_left_out_and_counted():
    cells = [
        5,
        None,
        {"cell_type": "code", "source": {"no": 1}, "outputs": "no"},
        {
            "cell_type": "code",
            "source": ["a", 1, "b"],
            "outputs": [7, {"text": 3}, {"data": {"text/plain": []}}],
        },
        {"cell_type": "heading", "source": "Odd", "level": 2.0},
        {"source": "no type \ud800\0"},
    ]
    data = json.dumps({"cells": cells, "metadata": {"authors": ["Ana", {"name": 1}], "title": 5}}).encode()
    document = read("Odd.ipynb", data, {})
    assert [text for text, _, _ in blocks_of(document)] == ["ab", "# Odd", "no type \ufffd\ufffd"]
    assert document.warnings == ("cells that are not of a known form were left out: 2",)
    assert document.metadata == {}


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "is not valid JSON (line 1, column 1: Expecting value)"),
        (ANALYSIS[:400], "is not valid JSON (line "),
        (b"%PDF-1.7 by another name", "is not valid JSON"),
        (b"\xff\xfe\x00", "is not valid JSON"),
        (b'{"cells":' + b"[" * 100_000, "is nested deeper than 100 levels"),
        (b'{"nodes":[],"edges":[]}', "is not a notebook: it has no list of cells"),
        (b'{"cells":{"a":1}}', "is not a notebook: it has no list of cells"),
        (b"[1, 2]", "is not a notebook: it has no list of cells"),
    ],
)
def test_a_damaged_file_is_refused_with_its_reason(data, reason):
    with pytest.raises(DocumentError) as refused:
        read("a.ipynb", data, {})
    assert str(refused.value).startswith(f"'a.ipynb' {reason}")


def test_the_ceilings_cut_and_say_so(monkeypatch):
    data = saved(*[code(f"cell({number})") for number in range(5)])
    monkeypatch.setattr("pipelines.documents.readers.notebook.MOST_CELLS", 3)
    document = read("Long.ipynb", data, {})
    assert (len(document.blocks), document.warnings) == (3, ("only the first 3 of 5 cells were read",))
    monkeypatch.setattr("pipelines.documents.readers.notebook.MOST_CHARACTERS", 12)
    document = read("Long.ipynb", data, {})
    assert document.text == "cell(0)\n\ncell("
    assert document.warnings == ("only the first 12 characters were read, up to cell 2",)


@settings(max_examples=60)
@given(st.data())
def test_a_notebook_with_any_damage_gives_a_document_or_a_reason(data):
    damaged = bytearray(ANALYSIS[: data.draw(st.integers(1, len(ANALYSIS)), label="length")])
    for _ in range(data.draw(st.integers(0, 5), label="flips")):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    with suppress(DocumentError):
        read("a.ipynb", bytes(damaged), {}).text.encode()


def test_a_notebook_that_says_that_it_is_private_is_private():
    stated = saved(code("1"), private=True)
    nested = saved(code("1"), jupytext={"Private": "yes"})
    tagged = saved(v4.new_markdown_cell("Salaries. #private"))
    for data in (stated, nested, tagged):
        assert note_of("a.ipynb", read("a.ipynb", data, {})).privacy.private
    assert not note_of("a.ipynb", read("a.ipynb", saved(code("# 1"), private=False), {})).privacy.private
