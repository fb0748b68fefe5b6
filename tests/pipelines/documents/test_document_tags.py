"""Tags and keywords in a document's own properties are its tags, and decide about privacy as a note's do."""

from __future__ import annotations

import io
import json

import docx
import nbformat
import openpyxl
import pptx
import pytest
from openpyxl.packaging.custom import BoolProperty, StringProperty
from reportlab.pdfgen.canvas import Canvas

from pipelines.documents.document import keywords, tags_metadata
from pipelines.documents.read import note_of
from pipelines.documents.readers import html, notebook, pdf, sheets, slides, word
from pipelines.model import Privacy
from pipelines.notes.privacy import may_leave

OF_A_DOMAIN = Privacy(tags=("salary",))


def judged(note):
    return may_leave(
        OF_A_DOMAIN,
        path=note.path,
        text=note.text,
        frontmatter=note.frontmatter,
        tags=note.tags,
        warnings=note.warnings,
    )


def saved(made):
    out = io.BytesIO()
    made.save(out)
    return out.getvalue()


def of_word(stated):
    made = docx.Document()
    made.core_properties.keywords = stated
    return word.read("a.docx", saved(made), {})


def of_slides(stated):
    made = pptx.Presentation()
    made.core_properties.category = stated
    return slides.read("a.pptx", saved(made), {})


def of_sheets(stated):
    made = openpyxl.Workbook()
    made.custom_doc_props.append(StringProperty(name="Tags", value=stated))
    return sheets.read("a.xlsx", saved(made), {})


def of_pdf(stated):
    out = io.BytesIO()
    canvas = Canvas(out)
    canvas.setKeywords(stated)
    canvas.drawString(40, 700, "Words on a page, enough of them to be no scan.")
    canvas.save()
    return pdf.read("a.pdf", out.getvalue(), {})


def of_html(stated):
    page = f'<html><head><meta name="keywords" content="{stated}"></head><body><p>Words.</p></body></html>'
    return html.read("a.html", page.encode(), {})


def of_notebook(stated):
    made = nbformat.v4.new_notebook(metadata={"keywords": stated.split(";")})
    return notebook.read("a.ipynb", nbformat.writes(made).encode(), {})


@pytest.mark.parametrize("of_format", [of_word, of_slides, of_sheets, of_pdf, of_html, of_notebook])
@pytest.mark.parametrize(
    ("stated", "tags", "private"),
    [
        ("Soil; #Water/rain", ("Soil", "Water/rain"), None),
        ("soil; Private", ("soil", "Private"), "the tag 'private' is private"),
        ("soil; salary/2026", ("soil", "salary/2026"), "the tag 'salary' is private"),
        ("soil; salary table", ("soil",), "the tag 'salary' is private"),
        ("machine learning", (), None),
    ],
)
def test_keywords_are_tags_and_decide_about_privacy(of_format, stated, tags, private):
    note = note_of("a", of_format(stated))
    assert note.tags == tags
    assert judged(note) == private
    assert note.warnings == (), "a keyword of several words is nothing to complain about"


@pytest.mark.parametrize("value", [True, False])
def test_a_property_that_the_author_added_says_whether_a_file_is_private(value):
    made = openpyxl.Workbook()
    made.custom_doc_props.append(BoolProperty(name="Private", value=value))
    note = note_of("a.xlsx", sheets.read("a.xlsx", saved(made), {}))
    assert judged(note) == ("it says that it is private" if value else None)


def test_the_tags_of_cells_decide_about_privacy_alone():
    made = nbformat.v4.new_notebook()
    made.cells.append(nbformat.v4.new_code_cell("pay()", metadata={"tags": ["hide-input", "salary"]}))
    note = note_of("a.ipynb", notebook.read("a.ipynb", nbformat.writes(made).encode(), {}))
    assert note.tags == ()
    assert judged(note) == "the tag 'salary' is private"


def test_too_many_tags_make_a_document_private_rather_than_lose_one():
    many = keywords(",".join(f"tag-{n}" for n in range(2_000)))
    assert tags_metadata(many) == tags_metadata([], many) == {"private": True}
    assert len(json.dumps(tags_metadata(many[:900]))) < 65_536
