"""Evidence records as a person reads them in a terminal."""

from __future__ import annotations

import pytest

from service.cli.quality import _print_record

RECORD = {
    "id": "c1cd",
    "question": "how to publish",
    "evidence": [],
    "citations": [],
    "notes": "",
    "citations_status": "ok",
}


@pytest.mark.parametrize(
    ("match", "words"), [("none", "  (match: none)"), ("strong", "  (match: strong)"), (None, "")]
)
def test_a_record_says_how_near_its_answer_was(capsys, match, words):
    _print_record(RECORD | {"match": match})
    assert capsys.readouterr().out == f"c1cd  how to publish{words}\nok\n"
