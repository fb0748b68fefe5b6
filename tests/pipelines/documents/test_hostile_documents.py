"""Documents made to overwhelm their readers are refused or cut with a reason, and the next one is read."""

from __future__ import annotations

import io
import json
import zlib

import psutil
import pytest
from reportlab.pdfgen.canvas import Canvas

from pipelines.documents.sandbox import Sandbox
from pipelines.errors import DocumentError, ParserDiedError, ParserMemoryError
from tests.pipelines.documents.pdf_files import page_with, stream, written

MOST_GROWTH = 100_000_000
"""Bytes by which the parent process may grow, whatever the documents are."""

# Which of these errors a reader without memory raises depends on where in the library it happens.
TOO_MUCH = (DocumentError, ParserDiedError, ParserMemoryError)


@pytest.fixture(scope="module")
def sandbox():
    one = Sandbox()
    yield one
    one.close()


def pdf(**options):
    file = io.BytesIO()
    canvas = Canvas(file, **options)
    canvas.drawString(72, 700, "Words on a page that can be read.")
    canvas.save()
    return file.getvalue()


def pdf_that_unpacks_to_600_mb():
    packer = zlib.compressobj(1)
    packed = b"".join([*(packer.compress(b" " * 1_000_000) for _ in range(600)), packer.flush()])
    return written(
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        page_with(4, 5),
        stream(packed, b"/Filter /FlateDecode"),
    )


def canvas_in_a_circle():
    nodes = [{"id": name, "type": "text", "text": name, "x": 0, "y": 0} for name in "ab"]
    edges = [{"fromNode": one, "toNode": other, "label": "and"} for one, other in ("ab", "ba", "aa")]
    return json.dumps({"nodes": nodes, "edges": edges}).encode()


def notebook_with_outputs_of_10_mb():
    cell = {
        "cell_type": "code",
        "source": "1",
        "outputs": [{"output_type": "stream", "text": "word " * 2_000_000}],
    }
    return json.dumps({"cells": [cell]}).encode()


@pytest.mark.parametrize(
    ("path", "make", "error", "message"),
    [
        ("locked.pdf", lambda: pdf(encrypt="secret"), DocumentError, "is encrypted"),
        ("half.pdf", lambda: pdf()[:500], DocumentError, "is damaged or not a PDF"),
        ("table.pdf", lambda: b"PK\x03\x04" + bytes(1_000), DocumentError, "is damaged or not a PDF"),
        ("bomb.pdf", pdf_that_unpacks_to_600_mb, TOO_MUCH, ""),
        ("deep.canvas", lambda: b'{"nodes":' + b"[" * 1_000_000, DocumentError, "is nested deeper than 100"),
        ("deep.ipynb", lambda: b'{"cells":' * 1_000_000, DocumentError, "is nested deeper than 100"),
        ("page.html", lambda: b"\x89PNG\r\n\x1a\n" + bytes(1_000), DocumentError, "is not a web page"),
        ("large.html", lambda: b"<p>a <b>b</b> " * 1_500_000, TOO_MUCH, ""),
    ],
)
def test_it_is_refused_with_its_reason_and_the_next_is_read(sandbox, path, make, error, message):
    data = make()
    before = psutil.Process().memory_info().rss
    with pytest.raises(error, match=f"^'{path}' .*{message}"):
        sandbox.read(path, data, {})
    assert sandbox.read("next.pdf", pdf(), {}).text == "Words on a page that can be read."
    assert psutil.Process().memory_info().rss < before + MOST_GROWTH


@pytest.mark.parametrize(
    ("path", "make", "ends"),
    [
        ("loop.canvas", canvas_in_a_circle, "a — and → b\nb — and → a\na — and → a"),
        ("much.ipynb", notebook_with_outputs_of_10_mb, "word word"),
        ("laughs.html", lambda: b'<!DOCTYPE x [<!ENTITY a "ha"><!ENTITY b "&a;&a;">]><p>&b; so', "&b; so"),
        ("deep.html", lambda: b"<div>" * 10_000 + b"the end", "the end"),
    ],
)
def test_it_is_read_as_far_as_it_means_something(sandbox, path, make, ends):
    assert sandbox.read(path, make(), {}).text.endswith(ends)
