"""What is asked of the caches, without a server around it."""

from __future__ import annotations

from queue_config.settings import Settings
from service.questions import Questions
from workers.resources import LAST_QUERY_FILE, Resources


def test_a_question_is_answered_although_it_cannot_be_noted_that_it_was_asked(vault, tmp_path, tiny_model):
    resources = Resources(Settings(vault=vault, state=tmp_path / "state", embedding_model=str(tiny_model)))
    resources.caches()
    (resources.place.state / LAST_QUERY_FILE).symlink_to("/nowhere/at/all")
    assert Questions(resources).search("the garden", 3).count == 0
