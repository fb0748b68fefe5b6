"""Word documents become a block per section, under the headings that enclose it."""

from __future__ import annotations

import io
from datetime import UTC, datetime

import docx
import pytest
from docx.enum.style import WD_STYLE_TYPE
from docx.opc.constants import RELATIONSHIP_TYPE
from docx.opc.packuri import PackURI
from docx.opc.part import Part
from docx.oxml import parse_xml
from docx.oxml.ns import nsdecls, qn

from pipelines.documents.document import DocumentLink
from pipelines.documents.readers import word
from pipelines.documents.readers.word import read

W = nsdecls("w", "r")


def saved(document):
    out = io.BytesIO()
    document.save(out)
    return out.getvalue()


def blocks(document):
    return [(document.text[b.start : b.end], b.label, b.headings, b.place) for b in document.blocks]


def texts(document):
    return [block[0] for block in blocks(read("a.docx", saved(document), {}))]


def add_xml(paragraph, xml):
    paragraph._p.append(parse_xml(xml))


def add_link(document, paragraph, address, text):
    key = document.part.relate_to(address, RELATIONSHIP_TYPE.HYPERLINK, is_external=True)
    add_xml(paragraph, f'<w:hyperlink {W} r:id="{key}"><w:r><w:t>{text}</w:t></w:r></w:hyperlink>')


def add_notes(document, kind, notes):
    """Add the part with footnotes or endnotes, which python-docx cannot write."""
    listed = "".join(
        f'<w:{kind} w:id="{key}"><w:p><w:r><w:t>{text}</w:t></w:r></w:p></w:{kind}>'
        for key, text in notes.items()
    )
    xml = f"<w:{kind}s {W}>{listed}</w:{kind}s>"
    name = f"application/vnd.openxmlformats-officedocument.wordprocessingml.{kind}s+xml"
    part = Part(PackURI(f"/word/{kind}s.xml"), name, xml.encode(), document.part.package)
    document.part.relate_to(
        part, f"http://schemas.openxmlformats.org/officeDocument/2006/relationships/{kind}s"
    )


def refer(paragraph, kind, key):
    add_xml(paragraph, f'<w:r {W}><w:{kind}Reference w:id="{key}"/></w:r>')


def test_each_section_becomes_a_block_under_its_headings():
    document = docx.Document()
    document.add_heading("Annual report", 0)
    document.add_paragraph("Before all headings.")
    document.add_heading("Costs", 1)
    document.add_paragraph("They rose.")
    document.add_heading("Rent", 2)
    document.add_paragraph("A line\nand its second.")
    document.add_paragraph("")
    document.add_paragraph("flat", style="List Bullet")
    document.add_paragraph("house", style="List Number")
    document.add_heading("Plan", 1)
    table = document.add_table(2, 2)
    for cell, text in zip(table._cells, ("what", "when", "move", "May"), strict=True):
        cell.text = text
    document.core_properties.author = "Ada"
    document.core_properties.created = datetime(2026, 4, 1, tzinfo=UTC)
    found = read("report.docx", saved(document), {})
    assert blocks(found) == [
        ("Annual report\nBefore all headings.", "", (), None),
        ("Costs\nThey rose.", "Costs", ("Costs",), None),
        ("Rent\nA line\nand its second.\n- flat\n- house", "Rent", ("Costs", "Rent"), None),
        ("Plan\nwhat | when\nmove | May", "Plan", ("Plan",), None),
    ]
    assert (found.title, found.warnings) == ("Annual report", ())
    assert found.metadata == {"author": "Ada", "date": "2026-04-01"}


def test_headings_are_known_by_name_by_outline_and_by_the_style_they_are_based_on():
    document = docx.Document()
    styles = document.styles
    styles["Heading 1"].element.set(qn("w:styleId"), "berschrift1")  # as German Word writes it
    own = styles.add_style("Kapitel", WD_STYLE_TYPE.PARAGRAPH)
    own.base_style = styles["Heading 1"]
    outlined = styles.add_style("Unterkapitel", WD_STYLE_TYPE.PARAGRAPH)
    add_to = outlined.element.get_or_add_pPr()
    add_to.append(parse_xml(f'<w:outlineLvl {W} w:val="1"/>'))
    body = styles.add_style("Wie Kapitel", WD_STYLE_TYPE.PARAGRAPH)
    body.base_style = own
    body.element.get_or_add_pPr().append(parse_xml(f'<w:outlineLvl {W} w:val="9"/>'))
    document.add_paragraph("Eins", style="Kapitel")
    document.add_paragraph("Zwei", style="Unterkapitel")
    document.add_paragraph("Text", style="Wie Kapitel")
    direct = document.add_paragraph("Drei")
    direct._p.get_or_add_pPr().append(parse_xml(f'<w:outlineLvl {W} w:val="2"/>'))
    found = blocks(read("a.docx", saved(document), {}))
    assert [block[2] for block in found] == [("Eins",), ("Eins", "Zwei"), ("Eins", "Zwei", "Drei")]
    assert found[1][0] == "Zwei\nText"


def test_a_heading_that_skips_a_level_and_one_that_returns():
    document = docx.Document()
    for text, level in (("A", 1), ("A.x.1", 3), ("A.y", 2), ("B", 1)):
        document.add_heading(text, level)
    found = blocks(read("a.docx", saved(document), {}))
    assert [block[2] for block in found] == [("A",), ("A", "A.x.1"), ("A", "A.y"), ("B",)]


def test_styles_that_are_based_on_each_other_end_nothing():
    document = docx.Document()
    one = document.styles.add_style("One", WD_STYLE_TYPE.PARAGRAPH)
    two = document.styles.add_style("Two", WD_STYLE_TYPE.PARAGRAPH)
    one.base_style, two.base_style = two, one
    document.add_paragraph("text", style="One")
    assert texts(document) == ["text"]


def test_items_are_indented_by_their_level():
    document = docx.Document()
    document.add_paragraph("outer", style="List Bullet")
    inner = document.add_paragraph("inner")
    numbering = f'<w:numPr {W}><w:ilvl w:val="1"/><w:numId w:val="1"/></w:numPr>'
    inner._p.get_or_add_pPr().append(parse_xml(numbering))
    plain = document.add_paragraph("plain", style="List Bullet")
    plain._p.get_or_add_pPr().append(parse_xml(f'<w:numPr {W}><w:numId w:val="0"/></w:numPr>'))
    assert texts(document) == ["- outer\n  - inner\nplain"]


def test_deleted_text_codes_of_fields_headers_and_contents_are_left_out():
    document = docx.Document()
    document.sections[0].header.paragraphs[0].text = "HEADER"
    document.sections[0].footer.paragraphs[0].text = "FOOTER"
    document.styles.add_style("toc 1", WD_STYLE_TYPE.PARAGRAPH)
    document.add_paragraph("Costs 3", style="toc 1")
    paragraph = document.add_paragraph("kept ")
    add_xml(paragraph, f"<w:del {W}><w:r><w:delText>GONE</w:delText></w:r></w:del>")
    add_xml(paragraph, f"<w:moveFrom {W}><w:r><w:t>MOVED</w:t></w:r></w:moveFrom>")
    add_xml(paragraph, f"<w:ins {W}><w:r><w:t>added, page </w:t></w:r></w:ins>")
    add_xml(paragraph, f'<w:r {W}><w:fldChar w:fldCharType="begin"/><w:instrText>PAGE</w:instrText></w:r>')
    add_xml(paragraph, f'<w:r {W}><w:t>7</w:t><w:fldChar w:fldCharType="end"/></w:r>')
    table = document.add_table(2, 1)
    table.cell(0, 0).text, table.cell(1, 0).text = "DELETED ROW", "row"
    table.rows[0]._tr.get_or_add_trPr().append(parse_xml(f"<w:del {W}/>"))
    assert texts(document) == ["kept added, page 7\nrow"]


def test_notes_follow_the_section_that_refers_to_them():
    document = docx.Document()
    add_notes(document, "footnote", {1: "A footnote.", 2: "Of the heading.", 3: "Unused."})
    add_notes(document, "endnote", {1: "An endnote."})
    refer(document.add_paragraph("First"), "footnote", 1)
    refer(document.add_heading("Costs", 1), "footnote", 2)
    table = document.add_table(1, 1)
    table.cell(0, 0).text = "cell"
    refer(table.cell(0, 0).paragraphs[0], "endnote", 1)
    refer(document.add_paragraph("again"), "footnote", 1)
    refer(document.add_paragraph("lost"), "footnote", 9)
    found = blocks(read("a.docx", saved(document), {}))
    assert [block[0] for block in found] == [
        "First[^1]\n[^1]: A footnote.",
        "Costs[^2]\ncell[^3]\nagain[^1]\nlost\n[^2]: Of the heading.\n[^3]: An endnote.",
    ]
    assert found[1][1:3] == ("Costs", ("Costs",))


def test_links_to_files_beside_the_document_are_links():
    document = docx.Document()
    document.add_paragraph("Intro")
    document.add_heading("Links", 1)
    paragraph = document.add_paragraph("See ")
    add_link(document, paragraph, "notes/My%20plan.md#Costs", "the plan")
    add_link(document, paragraph, "https://example.com/a.md", " or a site")
    add_link(document, paragraph, "mailto:a@example.com", " or a mail")
    table = document.add_table(1, 2)
    add_link(document, table.cell(0, 1).paragraphs[0], "..\\b.docx", "other")
    add_xml(
        document.add_paragraph(), f'<w:hyperlink {W} w:anchor="x"><w:r><w:t>jump</w:t></w:r></w:hyperlink>'
    )
    found = read("a.docx", saved(document), {})
    text = "Intro\n\nLinks\nSee the plan or a site or a mail\n| other\njump"
    assert found.text == text
    assert found.links == (
        DocumentLink("notes/My plan.md", text.index("the plan"), "Costs", "the plan"),
        DocumentLink("../b.docx", text.index("other"), "", "other"),
    )


def test_content_controls_text_boxes_and_nested_tables_are_read_once():
    document = docx.Document()
    body = document.element.body
    control = f"<w:sdt {W}><w:sdtContent><w:p><w:r><w:t>in a control</w:t></w:r></w:p></w:sdtContent></w:sdt>"
    body.insert(0, parse_xml(control))
    box = "<w:txbxContent><w:p><w:r><w:t>in a box</w:t></w:r></w:p></w:txbxContent>"
    compatible = 'xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006"'
    add_xml(
        document.add_paragraph("around "),
        f"<w:r {W} {compatible}><mc:AlternateContent><mc:Choice>{box}</mc:Choice><mc:Fallback>{box}</mc:Fallback>"
        "</mc:AlternateContent></w:r>",
    )
    outer = document.add_table(1, 2)
    outer.cell(0, 0).text = "outer"
    inner = outer.cell(0, 1).add_table(2, 1)
    inner.cell(0, 0).text, inner.cell(1, 0).text = "inner 1", "inner 2"
    assert texts(document) == ["in a control\naround\nin a box\nouter | inner 1 inner 2"]


def test_the_strict_dialect_is_read():
    document = docx.Document()
    document.add_heading("Costs", 1)
    document.add_paragraph("They rose.")
    data = change_all(
        saved(document),
        lambda xml: xml.replace(
            b"http://schemas.openxmlformats.org/wordprocessingml/2006/main",
            b"http://purl.oclc.org/ooxml/wordprocessingml/main",
        ).replace(
            b"http://schemas.openxmlformats.org/officeDocument/2006/relationships",
            b"http://purl.oclc.org/ooxml/officeDocument/relationships",
        ),
    )
    assert blocks(read("a.docx", data, {})) == [("Costs\nThey rose.", "Costs", ("Costs",), None)]


def change_all(data, change):
    import zipfile

    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w") as new:
        for one in old.namelist():
            new.writestr(one, change(old.read(one)))
    return out.getvalue()


def test_reading_stops_at_the_limit_of_characters_and_says_so(monkeypatch):
    monkeypatch.setattr(word, "MOST_CHARACTERS", 1_000)
    document = docx.Document()
    document.add_heading("Long", 1)
    for _ in range(30):
        document.add_paragraph("x" * 99)
    found = read("a.docx", saved(document), {})
    assert 1_000 <= len(found.text) < 1_200
    assert found.warnings == ("only about 1,000 characters were read, up to the section 'Long'",)


def test_a_document_without_text_has_no_blocks():
    assert blocks(read("a.docx", saved(docx.Document()), {})) == []


@pytest.mark.parametrize("named", ["a.docx", "Folder/A.DOCX"])
def test_the_title_is_the_visible_one_or_that_of_the_properties(named):
    document = docx.Document()
    document.core_properties.title = "Of the properties"
    assert read(named, saved(document), {}).title == "Of the properties"
    document.add_heading("Visible", 0)
    assert read(named, saved(document), {}).title == "Visible"
