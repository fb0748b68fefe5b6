"""Presentations become a block per slide: title, texts, tables, notes."""

from __future__ import annotations

import io
from copy import deepcopy
from datetime import UTC, datetime

import pptx
import pytest
from pptx.opc.constants import RELATIONSHIP_TYPE as RT
from pptx.opc.package import Part
from pptx.opc.packuri import PackURI
from pptx.oxml import parse_xml
from pptx.oxml.ns import nsdecls
from pptx.util import Inches

from pipelines.documents.document import DocumentLink
from pipelines.documents.readers import slides
from pipelines.documents.readers.slides import read
from pipelines.model import Locator

BOX = (Inches(1), Inches(1), Inches(4), Inches(1))
TITLE_AND_TEXT, TITLE_ONLY, BLANK = 1, 5, 6


def saved(deck):
    out = io.BytesIO()
    deck.save(out)
    return out.getvalue()


def add_slide(deck, layout, title=""):
    slide = deck.slides.add_slide(deck.slide_layouts[layout])
    if title:
        slide.shapes.title.text = title
    return slide


def blocks(document):
    return [(document.text[b.start : b.end], b.label, b.headings, b.place) for b in document.blocks]


def slide_place(number):
    return Locator("slide", "", number, number)


def test_each_slide_becomes_a_block_with_its_texts_table_and_notes():
    deck = pptx.Presentation()
    slide = add_slide(deck, TITLE_AND_TEXT, "Why now")
    slide.placeholders[1].text = "Costs fall\nDemand\vrises"
    slide.notes_slide.notes_text_frame.text = "Pause here.\nThen ask."
    number = deepcopy(slide.notes_slide.notes_placeholder._element)
    number.xpath(".//p:ph")[0].set("type", "sldNum")
    slide.notes_slide.shapes._spTree.append(number)
    slide = add_slide(deck, TITLE_ONLY, "Figures")
    table = slide.shapes.add_table(2, 2, *BOX).table
    for row, cells in enumerate([("year", "sum"), ("2026", "7 m")]):
        for column, text in enumerate(cells):
            table.cell(row, column).text = text
    slide.shapes.add_textbox(*BOX).text_frame.text = "Source: survey"
    slide = add_slide(deck, BLANK)
    slide.shapes.add_group_shape().shapes.add_textbox(*BOX).text_frame.text = "in a group"
    deck.core_properties.title, deck.core_properties.author = "Plan", "Ada"
    deck.core_properties.created = datetime(2026, 2, 3, tzinfo=UTC)
    document = read("deck.pptx", saved(deck), {})
    assert blocks(document) == [
        (
            "Why now\nCosts fall\nDemand rises\nNotes:\nPause here.\nThen ask.",
            "Why now",
            ("Why now",),
            slide_place(1),
        ),
        ("Figures\nyear | sum\n2026 | 7 m\nSource: survey", "Figures", ("Figures",), slide_place(2)),
        ("in a group", "Slide 3", (), slide_place(3)),
    ]
    assert (document.title, document.metadata) == ("Plan", {"author": "Ada", "date": "2026-02-03"})
    assert document.warnings == ()


def test_slides_are_read_in_the_order_in_which_they_are_shown():
    deck = pptx.Presentation()
    for title in ("first made", "second made", "third made"):
        add_slide(deck, TITLE_ONLY, title)
    order = deck.slides._sldIdLst
    order.insert(0, order[2])
    assert [block[1] for block in blocks(read("a.pptx", saved(deck), {}))] == [
        "third made",
        "first made",
        "second made",
    ]


def test_what_every_slide_repeats_is_left_out_and_an_empty_slide_keeps_its_number():
    deck = pptx.Presentation()
    add_slide(deck, BLANK)
    slide = add_slide(deck, TITLE_ONLY, "Kept")
    for layout in slide.slide_layout.placeholders:
        if layout.placeholder_format.type in (13, 15, 16):  # number, footer, date
            slide.shapes.clone_placeholder(layout)
            slide.shapes[-1].text_frame.text = "repeated"
    assert len(slide.shapes) == 4
    assert blocks(read("a.pptx", saved(deck), {})) == [("Kept", "Kept", ("Kept",), slide_place(2))]


def test_links_to_files_beside_the_presentation_are_links():
    deck = pptx.Presentation()
    slide = add_slide(deck, TITLE_ONLY, "Links")
    frame = slide.shapes.add_textbox(*BOX).text_frame
    for text, address in (
        ("the plan", "notes/My%20plan.md#Costs"),
        ("the sheet", "..\\sheets\\a.xlsx"),
        ("a site", "https://example.com/a.md"),
        ("a disk", "file:///C:/a.md"),
    ):
        run = frame.paragraphs[0].add_run()
        run.text = f"{text} "
        run.hyperlink.address = address
    slide.shapes[1].click_action.hyperlink.address = "whole.md"
    document = read("deck.pptx", saved(deck), {})
    assert document.text == "Links\nthe plan the sheet a site a disk"
    assert set(document.links) == {
        DocumentLink("notes/My plan.md", 6, "Costs", "the plan"),
        DocumentLink("../sheets/a.xlsx", 15, "", "the sheet"),
        DocumentLink("whole.md", 0, "", ""),
    }


def test_the_texts_of_smart_art_are_read():
    """python-pptx cannot write any: a frame refers to a part with the texts."""
    deck = pptx.Presentation()
    slide = add_slide(deck, TITLE_ONLY, "Steps")
    frame = slide.shapes.add_table(1, 1, *BOX)._element
    namespaces = nsdecls("a", "r") + ' xmlns:dgm="http://schemas.openxmlformats.org/drawingml/2006/diagram"'
    points = "".join(
        f"<dgm:pt><dgm:t><a:p><a:r><a:t>{text}</a:t></a:r></a:p></dgm:t></dgm:pt>"
        for text in ("plan", "do", "check")
    )
    xml = f"<dgm:dataModel {namespaces}><dgm:ptLst>{points}</dgm:ptLst></dgm:dataModel>"
    kind = "application/vnd.openxmlformats-officedocument.drawingml.diagramData+xml"
    part = Part(PackURI("/ppt/diagrams/data1.xml"), kind, slide.part.package, xml.encode())
    key = slide.part.relate_to(part, RT.DIAGRAM_DATA)
    (data,) = frame.xpath(".//a:graphicData")
    data.clear()
    data.append(parse_xml(f'<dgm:relIds {namespaces} r:dm="{key}"/>'))
    assert read("a.pptx", saved(deck), {}).text == "Steps\nplan\ndo\ncheck"


@pytest.mark.parametrize(
    ("title", "shown"),
    [
        ("PowerPoint Presentation", ""),
        ("PowerPoint-Präsentation", ""),
        ("Présentation PowerPoint", ""),
        ("How PowerPoint ruins talks", "How PowerPoint ruins talks"),
    ],
)
def test_the_title_that_powerpoint_gives_to_all_is_none(title, shown):
    deck = pptx.Presentation()
    deck.core_properties.title = title
    assert read("a.pptx", saved(deck), {}).title == shown


def test_a_presentation_without_slides_has_no_text():
    document = read("a.pptx", saved(pptx.Presentation()), {})
    assert (document.text, document.blocks) == ("", ())


def test_reading_stops_at_the_limits_of_slides_and_characters(monkeypatch):
    deck = pptx.Presentation()
    for number in range(1, 6):
        add_slide(deck, TITLE_ONLY, f"slide {number}")
    data = saved(deck)
    monkeypatch.setattr(slides, "MOST_PAGES", 3)
    document = read("a.pptx", data, {})
    assert [block[3].first for block in blocks(document)] == [1, 2, 3]
    assert document.warnings == ("only the first 3 of 5 slides were read",)
    monkeypatch.setattr(slides, "MOST_PAGES", 9)
    monkeypatch.setattr(slides, "MOST_CHARACTERS", 12)
    assert read("a.pptx", data, {}).warnings == (
        "only the first 2 of 5 slides were read: they have 16 characters",
    )
