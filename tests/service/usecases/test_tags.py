"""What is asked about tags, without a server and a worker."""

from __future__ import annotations

import pytest

from pipelines.errors import CannotUndoError
from pipelines.model import Suggestion, now_iso
from pipelines.tagging.apply import promote
from pipelines.tagging.propose import begin
from queue_config.settings import Settings
from service.usecases.maintenance import index_once
from service.usecases.search import View
from service.usecases.tags import Tags
from workers.renames import rename_tags
from workers.resources import Resources


@pytest.fixture
def tags(vault, tmp_path, tiny_model):
    """A vault in which a tag was renamed and another waits, before it got other domains."""
    (vault / "_taxonomy.md").write_text("- soil\n\n## Renames\n\n- dirt -> soil\n")
    (vault / "a.md").write_text("---\ntags: [dirt]\n---\nWords.\n")
    resources = Resources(Settings(vault=vault, state=tmp_path / "state", embedding_model=str(tiny_model)))
    index_once(resources, lambda *_: None)
    made = Tags(View(resources), resources.queue())
    rename_tags(made.context, resources.domains(), dry_run=False)
    made.context.proposals().add(
        "vault", "a.md", [(Suggestion("soil", 0.8), "")], proposer="local", note_hash="h", at="2026-11-21"
    )
    (vault / "_domains.yaml").write_text("beds: {path: Beds}\n")
    return made


def test_a_rename_made_in_a_former_domain_is_refused_at_once_with_the_reason(tags):
    with pytest.raises(CannotUndoError, match=r"dirt -> soil\) was made in vault, which .* no longer has"):
        tags.undo(None)


def test_what_waits_for_a_note_of_no_domain_is_counted_apart(tags):
    listed = tags.proposals(None, ["waiting"], 10)
    assert (listed.proposals, listed.counts, listed.set_aside) == ([], {}, 1)


@pytest.fixture
def moved(vault, tmp_path, tiny_model):
    """A vault whose note got a tag, and was moved before that was indexed."""
    (vault / "_taxonomy.md").write_text("- soil\n")
    (vault / "a.md").write_text("Worms live in the dark earth of the garden.\n")
    resources = Resources(Settings(vault=vault, state=tmp_path / "state", embedding_model=str(tiny_model)))
    index_once(resources, lambda *_: None)
    made = Tags(View(resources), resources.queue())
    (domain,) = resources.domains()
    begin(resources.reader(domain), made.context.proposals(), domain.slug)
    store, suggested = made.context.proposals(), [(Suggestion("soil", 0.8), "")]
    store.add(
        domain.slug,
        "a.md",
        suggested,
        proposer="agent Ada",
        note_hash="h",
        at=now_iso(),
        rationale="It has worms.",
    )
    store.decide([one.id for one in store.of_state(None, "waiting")], "accepted", now_iso())
    promote(made.context.notes(domain), now_iso())
    (vault / "a.md").rename(vault / "b.md")
    index_once(resources, lambda *_: None)
    return made


def test_the_log_of_a_note_that_was_moved_at_once_has_what_was_done_before(moved):
    (change,) = moved.changes(10, "b.md")
    assert (change.action, change.path, change.tags, change.undone_at) == ("promoted", "b.md", ["soil"], None)
    # Only the undoing moves what is known.
    assert [one.path for one in moved.changes(10, None)] == ["a.md"]
    assert [one.path for one in moved.changes(10, "a.md")] == ["a.md"]
    assert moved.changes(10, "never.md") == []


def test_a_decision_and_the_log_keep_who_proposed_a_tag_and_why(moved):
    (kept,) = moved.proposals(None, ["applied"], 10).proposals
    assert (kept.proposer, kept.rationale, kept.reason) == ("agent Ada", "It has worms.", None)
    (change,) = moved.changes(10, None)
    assert [one.model_dump() for one in change.proposed] == [
        {"tag": "soil", "proposer": "agent Ada", "rationale": "It has worms."}
    ]
