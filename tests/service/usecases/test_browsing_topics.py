"""The topics that the first page offers: headings that read like questions, of different notes."""

from __future__ import annotations

import pytest

from queue_config.settings import Settings
from service.usecases.browsing import Browsing
from service.usecases.maintenance import index_once
from service.usecases.search import View
from workers.resources import Resources

NOTES = {
    "Soil.md": "# Soil\n\n## See also\n\n[[Sleep]]\n\n## What do worms eat?\n\nLeaves.\n\n## Why does compost heat up?\n\nLife.\n",
    "Sleep.md": "# Sleep\n\n## Light in the evening\n\nDim it. [[Soil]]\n",
    "2026-11-03.md": "# 2026-11-03\n\n## 3 November 2026\n\nRain. [[Soil]]\n",
    "Log 7.md": "# Log 7\n\n## report_final.pdf\n\nText. [[Soil]]\n",
}


@pytest.fixture
def browsing(vault, tmp_path, tiny_model):
    for name, text in NOTES.items():
        (vault / name).write_text(text)
    settings = Settings(vault=vault, state=tmp_path / "state", embedding_model=str(tiny_model))
    index_once(Resources(settings), lambda *_: None)
    return Browsing(View(Resources(settings)))


def test_each_is_of_another_note_and_none_is_a_date_a_file_or_a_part(browsing):
    assert browsing.topics("1") == ["What do worms eat?", "Light in the evening"]


def test_they_are_found_again_only_for_another_index(browsing, monkeypatch):
    found = browsing.topics("1")
    monkeypatch.setattr(Browsing, "_find_topics", lambda _: ["other"])
    assert browsing.topics("1") == found
    assert browsing.topics("2") == ["other"]
