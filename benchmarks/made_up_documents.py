"""Documents that are made up, each by the library that programs write its format with: words by Zipf's law."""

from __future__ import annotations

import io
import json
from collections.abc import Callable

import numpy as np

from benchmarks.made_up import WORDS, word


def words(number: int, count: int) -> str:
    """Return a sentence of made-up words; the same number gives the same one."""
    chance = np.random.default_rng(number)
    return " ".join(word(one) for one in np.minimum(chance.zipf(1.3, count), WORDS)) + "."


def text(number: int) -> bytes:
    """Return three paragraphs of plain text."""
    return "\n\n".join(words(number + part, 60) for part in range(3)).encode()


def canvas(number: int) -> bytes:
    """Return a canvas of six cards, one of which is a file, with an arrow from each to the next."""
    place = {"width": 400, "height": 200, "x": 0}
    cards: list[dict[str, object]] = [
        place | {"id": f"c{card}", "type": "text", "text": words(number + card, 20), "y": 220 * card}
        for card in range(5)
    ]
    cards.append(place | {"id": "c5", "type": "file", "file": "Soil.md", "y": 1_100})
    arrows = [{"id": f"e{n}", "fromNode": f"c{n}", "toNode": f"c{n + 1}"} for n in range(5)]
    return json.dumps({"nodes": cards, "edges": arrows}).encode()


def table(number: int, rows: int = 60) -> list[list[object]]:
    """Return a header and rows of a date, words and two numbers."""
    days = [f"2026-{1 + row % 12:02}-{1 + row % 28:02}" for row in range(rows)]
    cells = [[day, words(number + row, 3), row, row / 7] for row, day in enumerate(days)]
    return [["Date", "Item", "Count", "Share"], *cells]


def csv(number: int) -> bytes:
    """Return a table as comma-separated values."""
    return "\n".join(",".join(map(str, row)) for row in table(number)).encode()


def sheet(number: int, rows: int = 60) -> bytes:
    """Return a workbook with a table."""
    from openpyxl import Workbook

    book = Workbook(write_only=True)
    page = book.create_sheet("Costs")
    for row in table(number, rows):
        page.append(row)
    file = io.BytesIO()
    book.save(file)
    return file.getvalue()


def slides(number: int) -> bytes:
    """Return a presentation of three slides with notes."""
    from pptx import Presentation

    deck = Presentation()
    for one in range(3):
        slide = deck.slides.add_slide(deck.slide_layouts[1])
        slide.shapes.title.text = words(number + one, 4)
        slide.placeholders[1].text = words(number + one, 30)
        slide.notes_slide.notes_text_frame.text = words(number + one, 20)
    file = io.BytesIO()
    deck.save(file)
    return file.getvalue()


def pdf(number: int, pages: int = 4) -> bytes:
    """Return a PDF of pages with twenty lines each."""
    from reportlab.pdfgen.canvas import Canvas

    file = io.BytesIO()
    drawing = Canvas(file)
    for page in range(pages):
        for line in range(20):
            drawing.drawString(72, 760 - 20 * line, words(number + page + line, 10))
        drawing.showPage()
    drawing.save()
    return file.getvalue()


def letter(number: int) -> bytes:
    """Return a text document with three headings, paragraphs and a small table."""
    from docx import Document

    paper = Document()
    for part in range(3):
        paper.add_heading(words(number + part, 4), level=1)
        paper.add_paragraph(words(number + part, 80))
    grid = paper.add_table(rows=2, cols=2)
    for row in grid.rows:
        for cell in row.cells:
            cell.text = words(number, 2)
    file = io.BytesIO()
    paper.save(file)
    return file.getvalue()


def page(number: int) -> bytes:
    """Return a web page with what surrounds the content of most."""
    parts = "".join(f"<h2>{words(number + n, 4)}</h2><p>{words(number + n, 80)}</p>" for n in range(3))
    return (
        f"<!doctype html><html><head><meta charset=utf-8><title>{words(number, 4)}</title>"
        f"<script>let x = 1</script></head><body><nav>Home</nav><main>{parts}</main></body></html>"
    ).encode()


def notebook(number: int) -> bytes:
    """Return a notebook of text and code with its output."""
    import nbformat.v4 as form

    cells = []
    for part in range(3):
        cells.append(form.new_markdown_cell(f"# {words(number + part, 4)}\n\n{words(number + part, 40)}"))
        output = form.new_output("stream", text=words(number + part, 10))
        cells.append(form.new_code_cell(f"total = {part}\nprint(total)", outputs=[output]))
    return json.dumps(form.new_notebook(cells=cells)).encode()


def record(number: int) -> dict[str, object]:
    """Return a record of an analysed company."""
    return {
        "_meta": {"id": f"T{number}", "type": "stock", "created": "2026-11-24"},
        "thesis": {"summary": words(number, 60), "drivers": [words(number + n, 10) for n in range(5)]},
        "risks": [{"name": words(number + n, 3), "chance": n / 10} for n in range(4)],
        "valuation": {"fair_value": 100 + number, "method": words(number, 5)},
    }


def yaml(number: int) -> bytes:
    """Return a record as YAML."""
    from yaml import safe_dump

    return safe_dump(record(number), sort_keys=False).encode()


def as_json(number: int) -> bytes:
    """Return a record as JSON."""
    return json.dumps(record(number), indent=2).encode()


def code(number: int) -> bytes:
    """Return a module of Python with a class and functions."""
    parts = [
        f'"""{words(number, 10)}"""',
        "import os",
        f"class Thing{number}:\n    def name(self):\n        return 1",
    ]
    parts += [
        f'def part_{n}(given):\n    """{words(number + n, 10)}"""\n    return given + {n}' for n in range(5)
    ]
    return "\n\n\n".join(parts).encode()


MAKERS: dict[str, Callable[[int], bytes]] = {
    "txt": text,
    "canvas": canvas,
    "csv": csv,
    "xlsx": sheet,
    "pptx": slides,
    "pdf": pdf,
    "docx": letter,
    "html": page,
    "ipynb": notebook,
    "yaml": yaml,
    "json": as_json,
    "py": code,
}
"""What makes a document of a number, by the end of its name."""
