"""Documents of every format beside notes, written by the programs' own libraries, for tests that save files.

A save gives a document other words. For formats that are slow to write, it is made once and then holds them in place.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from functools import cache

_LENGTH = 160
"""Characters of the words in a document; a page with fewer than a hundred is left out."""
_MARK = "Here stand the words of a save ".ljust(_LENGTH, "x")
_SAME = "The same words are on this page in every version, so that their vectors are computed once and kept for all."


def _pdf(words: str) -> bytes:
    from reportlab.pdfgen.canvas import Canvas

    file = io.BytesIO()
    drawing = Canvas(file, pageCompression=0)
    for page in (words, _SAME):
        drawing.setFont("Helvetica", 6)
        drawing.drawString(20, 760, page)
        drawing.showPage()
    drawing.save()
    return file.getvalue()


def _docx(words: str) -> bytes:
    from docx import Document

    paper = Document()
    for heading, text in (("Garden", words), ("Soil", _SAME)):
        paper.add_heading(heading, level=1)
        paper.add_paragraph(text)
    file = io.BytesIO()
    paper.save(file)
    return file.getvalue()


def _pptx(words: str) -> bytes:
    from pptx import Presentation

    deck = Presentation()
    for title, text in (("Garden", words), ("Soil", _SAME)):
        slide = deck.slides.add_slide(deck.slide_layouts[1])
        slide.shapes.title.text = title
        slide.placeholders[1].text = text
    file = io.BytesIO()
    deck.save(file)
    return file.getvalue()


def _xlsx(words: str) -> bytes:
    from openpyxl import Workbook

    book = Workbook()
    for name, text in (("Costs", words), ("Notes", _SAME)):
        sheet = book.create_sheet(name)
        sheet.append(["Item", "Amount"])
        sheet.append([text, 12])
    file = io.BytesIO()
    book.save(file)
    return file.getvalue()


def _csv(words: str) -> bytes:
    rows = ["Item,Amount", f"{words},12", *(f"{_SAME.replace(',', ';')},{n}" for n in range(30))]
    return "\n".join(rows).encode()


def _html(words: str) -> bytes:
    text = f"<h1>Garden</h1><p>{words} <a href='a.md'>A note</a></p><h2>Soil</h2><p>{_SAME}</p>"
    return f"<!doctype html><html><body><main>{text}</main></body></html>".encode()


def _ipynb(words: str) -> bytes:
    import nbformat.v4 as form

    code = form.new_code_cell("print(1)", outputs=[form.new_output("stream", text=f"{_SAME}\n")], id="two")
    cells = [form.new_markdown_cell(f"# Garden\n\n{words} [[a]]", id="one"), code]
    return json.dumps(form.new_notebook(cells=cells)).encode()


def _record(words: str) -> dict[str, object]:
    return {"_meta": {"type": "garden"}, "thesis": {"summary": words, "see": "[[a]]"}, "soil": _SAME}


def _json(words: str) -> bytes:
    return json.dumps(_record(words)).encode()


def _yaml(words: str) -> bytes:
    from yaml import safe_dump

    return safe_dump(_record(words), sort_keys=False).encode()


def _python(words: str) -> bytes:
    return f'import d\n\n\ndef garden():\n    """{words}"""\n\n\ndef soil():\n    """{_SAME}"""\n'.encode()


def _typescript(words: str) -> bytes:
    code = 'import {{ soil }} from "./d";\n\n/** {} */\nexport function garden() {{ return soil("{}"); }}\n'
    return code.format(words, _SAME).encode()


def _excalidraw(words: str) -> bytes:
    head = "---\nexcalidraw-plugin: parsed\n---\n\n# Excalidraw Data\n\n## Text Elements\n"
    scene = "N4KAkARALgngDgUwgLgAQQQDwMYEMA2AlgCYBOuA7hADTgQBuCpAzoQPYB2KqATLZMzYBXUtiRoIACyhQ4zZAHoFAc0\n\n"
    drawing = f"%%\n## Drawing\n```compressed-json\n{scene * 3}\n```\n%%"
    return f"{head}{words} ^iALG2Gey\n\nSee [[a]] ^R644Xznp\n\n{drawing}".encode()


_MAKERS: dict[str, Callable[[str], bytes]] = {
    ".csv": _csv,
    ".docx": _docx,
    ".excalidraw.md": _excalidraw,
    ".html": _html,
    ".ipynb": _ipynb,
    ".json": _json,
    ".pdf": _pdf,
    ".pptx": _pptx,
    ".py": _python,
    ".ts": _typescript,
    ".xlsx": _xlsx,
    ".yaml": _yaml,
}
_MADE_ONCE = (".docx", ".pdf", ".pptx", ".xlsx")
DOCUMENTS = tuple(_MAKERS)
"""The suffixes of the documents that can be made."""

EVERY_FORMAT = (
    "vault:\n  legacy: true\n"
    "  formats: [md, txt, canvas, csv, xlsx, pptx, pdf, docx, html, ipynb, yaml, json, code]\n"
)
"""The `_domains.yaml` of a vault in which all of them are notes."""


def ending(name: str) -> str | None:
    """Return the one of `DOCUMENTS` with which a name ends, or None."""
    return next((suffix for suffix in DOCUMENTS if name.endswith(suffix)), None)


def document(suffix: str, words: str) -> bytes:
    """Return a document with one of the `DOCUMENTS` as suffix that says these words: plain ones, on one line."""
    said = words[:_LENGTH].ljust(_LENGTH, ".")
    return _saved(suffix, said) if suffix in _MADE_ONCE else _MAKERS[suffix](said)


@cache
def _parts(suffix: str) -> dict[str, bytes]:
    """Return the files in a document, by name; a PDF is one."""
    made = _MAKERS[suffix](_MARK)
    if suffix == ".pdf":
        return {"": made}
    with zipfile.ZipFile(io.BytesIO(made)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def _saved(suffix: str, words: str) -> bytes:
    parts = {name: data.replace(_MARK.encode(), words.encode()) for name, data in _parts(suffix).items()}
    if suffix == ".pdf":
        return parts[""]  # as long as before, so its table of offsets still holds
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
    return file.getvalue()
