"""A queue must be processed when its file or its proposals changed, and not because Everindex wrote it."""

from __future__ import annotations

import pytest

from pipelines.model import Suggestion, now_iso
from pipelines.tagging.review import review
from queue_config.settings import Settings
from service.usecases.maintenance import index_once
from workers import tag_context
from workers.resources import Resources
from workers.tag_context import TaggingContext


@pytest.fixture
def context(vault, tmp_path, tiny_model):
    (vault / "_taxonomy.md").write_text("# Tags\n\n- soil: what plants grow in\n")
    (vault / "a.md").write_text("The garden.")
    made = TaggingContext(
        Resources(Settings(vault=vault, state=tmp_path / "state", embedding_model=str(tiny_model)))
    )
    index_once(made.resources, lambda *_: None)
    propose(made, "a.md")
    return made


@pytest.fixture
def domain(context):
    (found,) = context.resources.domains()
    return found


def propose(context, path):
    context.proposals().add(
        "vault", path, [(Suggestion("soil", 0.9), "Tags")], proposer="p", note_hash="h", at=now_iso()
    )


def reviewed(context, domain):
    """Process the queue; return what was known before, and what the review did."""
    before = tag_context.current(context, domain)
    return before, review(context.reviewing(domain, apply=False), now_iso())


def queue_of(context, domain):
    return context.resources.root / domain.review_queue


def test_what_a_review_wrote_is_what_is_there(context, domain):
    before, done = reviewed(context, domain)
    assert done.written
    left = tag_context.after(context, domain, done, before)
    assert left == tag_context.current(context, domain) != before


def test_an_edit_and_a_proposal_each_change_the_state(context, domain):
    reviewed(context, domain)
    seen = [tag_context.current(context, domain)]
    page = queue_of(context, domain)
    page.write_text(page.read_text() + "A line of mine.\n")
    seen.append(tag_context.current(context, domain))
    propose(context, "b.md")
    seen.append(tag_context.current(context, domain))
    assert seen[0].file != seen[1].file
    assert seen[0].proposals == seen[1].proposals != seen[2].proposals


def test_a_waiting_tag_is_shown_as_new_once_the_vocabulary_lost_it(context, domain):
    before, done = reviewed(context, domain)
    left = tag_context.after(context, domain, done, before)
    (context.resources.root / "_taxonomy.md").write_text("# Tags\n\n- water: what plants drink\n")
    assert left != tag_context.current(context, domain)
    reviewed(context, domain)
    assert "not in the vocabulary yet" in queue_of(context, domain).read_text()


def test_an_edit_during_a_review_is_still_to_be_read(context, domain):
    before, done = reviewed(context, domain)
    page = queue_of(context, domain)
    page.write_text(page.read_text().replace("[ ]", "[x]"))
    left = tag_context.after(context, domain, done, before)
    assert left != tag_context.current(context, domain)


def test_a_queue_without_a_file_has_a_state(context, domain):
    assert tag_context.current(context, domain).file is None
