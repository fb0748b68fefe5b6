"""What is asked about tags, without a server and a worker."""

from __future__ import annotations

import pytest

from pipelines.errors import CannotUndoError
from pipelines.model import Suggestion
from queue_config.settings import Settings
from service.usecases.indexing import index_once
from service.usecases.search import SearchService
from service.usecases.tags import Tags
from workers.renaming import rename_tags
from workers.resources import Resources


@pytest.fixture
def tags(vault, tmp_path, tiny_model):
    """A vault in which a tag was renamed and another waits, before it got other domains."""
    (vault / "_taxonomy.md").write_text("- soil\n\n## Renames\n\n- dirt -> soil\n")
    (vault / "a.md").write_text("---\ntags: [dirt]\n---\nWords.\n")
    resources = Resources(Settings(vault=vault, state=tmp_path / "state", embedding_model=str(tiny_model)))
    index_once(resources, lambda *_: None)
    made = Tags(SearchService(resources), resources.queue())
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
