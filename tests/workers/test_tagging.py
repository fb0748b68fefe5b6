"""What a worker does about tags: vocabularies that cannot be read, renames, and the way back."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from pipelines.errors import EverindexError, NoteError
from pipelines.indexing.reconcile import reconcile
from pipelines.model import Suggestion, now_iso
from pipelines.state.attention import Attention
from pipelines.state.state import TAGGED
from pipelines.tagging.apply import promote
from pipelines.tagging.propose import begin, due
from pipelines.tagging.review import review
from pipelines.vault.write import UNCLAIMED, replace_if_unchanged
from queue_config.settings import Settings
from service.usecases.maintenance import index_once
from service.usecases.status import find_problems
from workers.attention import _RECORDER
from workers.renames import rename_tags
from workers.resources import Resources
from workers.tag_context import TaggingContext
from workers.tag_sweep import QUIET_SECONDS, TagSweep
from workers.tagging import make_tag_tasks, review_now, take_back
from workers.tasks import compare

TAXONOMY = "# Tags\n\n- soil: what plants grow in\n- compost: rotted leaves\n"


class Gardener:
    """A worker with a vault, one step at a time."""

    def __init__(self, resources: Resources) -> None:
        self.resources = resources
        self.root = resources.root
        self.queue = resources.queue()
        self.context = TaggingContext(resources)
        self.sweep = TagSweep(self.context, self.queue, make_tag_tasks(self.queue, self.context))
        self.domain = resources.domains()[0]

    def write(self, path: str, text: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode())

    def text(self, path: str) -> str:
        return (self.root / path).read_bytes().decode()

    def index(self) -> None:
        index_once(self.resources, lambda *_: None)

    def problems(self) -> list[str]:
        self.sweep()
        return [said for said in find_problems(self.resources, self.queue) if "_taxonomy.md" in said]


@pytest.fixture
def settings(vault, tmp_path, tiny_model):
    return Settings(vault=vault, state=tmp_path / "state", embedding_model=str(tiny_model))


@pytest.fixture
def gardener(settings):
    made = Gardener(Resources(settings))
    made.write("_taxonomy.md", TAXONOMY)
    made.index()
    return made


# New notes


def test_a_note_that_is_saved_during_the_first_index_is_new(settings):
    gardener = Gardener(Resources(settings))
    gardener.write("_taxonomy.md", TAXONOMY)
    for n in range(4):
        gardener.write(f"old {n}.md", f"Bed {n} has soil and compost.")
    compare(gardener.resources)
    gardener.sweep()
    gardener.write("new.md", "The new bed has soil and compost, too.")
    gardener.index()
    cache, proposals = gardener.resources.cache(gardener.domain), gardener.context.proposals()
    assert due(cache, proposals, gardener.domain.slug, time.time(), gardener.domain.configuration) == [
        "new.md"
    ]


def test_a_note_that_is_saved_right_after_the_vocabulary_is_new_and_one_from_before_is_not(settings):
    gardener = Gardener(Resources(settings))
    gardener.write("before.md", "A bed of soil and compost.")
    gardener.index()
    gardener.sweep()
    for path, text in (("_taxonomy.md", TAXONOMY), ("after.md", "The new bed has soil and compost, too.")):
        time.sleep(0.02)  # two files do not have the same time
        gardener.write(path, text)
    reconcile(gardener.root, gardener.resources.registry(), gardener.resources.caches(), max_bytes=10_000)
    gardener.sweep()
    gardener.index()
    cache, proposals = gardener.resources.cache(gardener.domain), gardener.context.proposals()
    found = due(cache, proposals, gardener.domain.slug, time.time(), gardener.domain.configuration)
    assert found == ["after.md"]


def test_notes_of_a_domain_that_no_comparison_has_read_are_not_new(gardener):
    gardener.write("kitchen/_taxonomy.md", TAXONOMY)
    gardener.write("kitchen/bread.md", "Flour and soil.")
    gardener.write("_domains.yaml", "kitchen:\n  path: kitchen\n")
    gardener.sweep()
    gardener.index()
    gardener.sweep()
    (kitchen,) = gardener.resources.domains()
    cache, proposals = gardener.resources.cache(kitchen), gardener.context.proposals()
    assert due(cache, proposals, "kitchen", time.time(), kitchen.configuration) == []


# A vocabulary that cannot be read


def test_an_invalid_vocabulary_is_a_problem_with_file_line_and_reason_until_it_is_mended(gardener):
    assert gardener.problems() == []
    gardener.write("_taxonomy.md", TAXONOMY + "- soil: twice\n- two words (retired)\n")
    (said,) = gardener.problems()
    assert "_taxonomy.md:5: 'soil' is already a name on line 3" in said
    assert "_taxonomy.md:6: 'two words' is not a tag" in said
    assert "the last valid vocabulary is used" in said
    (reported,) = gardener.resources.problems().reported()
    assert (reported.kind, reported.subject) == ("taxonomy", "vault")
    assert [entry.tag for entry in gardener.context.vocabulary(gardener.domain).taxonomy.entries] == [
        "soil",
        "compost",
    ]
    gardener.write("_taxonomy.md", TAXONOMY + "- bread: flour\n")
    assert gardener.problems() == []


@pytest.mark.parametrize("end", ["deleted", "as it was"])
def test_the_problem_ends_with_the_invalid_file(gardener, end):
    gardener.write("_taxonomy.md", "- a (b; retired)\n")
    assert gardener.problems()
    if end == "deleted":
        (gardener.root / "_taxonomy.md").unlink()
    else:
        gardener.write("_taxonomy.md", TAXONOMY)
    assert gardener.problems() == []


def test_a_vocabulary_that_was_never_good_is_a_problem_too(vault, tmp_path, tiny_model):
    (vault / "_taxonomy.md").write_bytes(b"- caf\xe9: not UTF-8\n")
    gardener = Gardener(
        Resources(Settings(vault=vault, state=tmp_path / "new", embedding_model=str(tiny_model)))
    )
    gardener.index()
    (said,) = gardener.problems()
    assert "no tags are proposed until it is corrected" in said


def test_the_last_good_vocabulary_outlives_a_restart(gardener, settings):
    assert gardener.problems() == []
    gardener.write("_taxonomy.md", TAXONOMY + "- soil: twice\n")
    again = Gardener(Resources(settings))
    (said,) = again.problems()
    assert "'soil' is already a name on line 3" in said
    assert "the last valid vocabulary" in said
    assert len(again.context.vocabulary(again.domain).taxonomy.entries) == 2


def test_the_problem_goes_with_its_domain(gardener):
    gardener.write("_taxonomy.md", "- a (b; retired)\n")
    gardener.resources.problems().report("taxonomy", "former", "_taxonomy.md:1: of a domain that went")
    (said,) = gardener.problems()
    assert "former" not in said
    assert [one.subject for one in gardener.resources.problems().reported()] == ["vault"]


# Renames, and the way back

RENAMES = TAXONOMY + "- dirt: what soil was called\n\n## Renames\n\n- dirt -> soil\n- peat -> compost\n"
NOTES = {
    "a.md": "---\r\ntags: [dirt, soil]  # both\r\n---\r\nWords. #dirt/deep\r\n",
    "b.md": "No frontmatter, but #peat.",
    "deep/c.md": "---\ntags:\n  - soil\n  - dirt\n---\n\nThe end #dirt\n",
    "d.md": "---\ntags: [soil]\n---\nUntouched.\n",
}


@pytest.fixture
def renaming(gardener):
    gardener.write("_taxonomy.md", RENAMES)
    for path, text in NOTES.items():
        gardener.write(path, text)
    gardener.index()
    return gardener


def rename(gardener):
    done = rename_tags(gardener.context, [gardener.domain], dry_run=False)
    gardener.index()
    return done[gardener.domain.slug]


def undo(gardener, number=None):
    change = gardener.context.proposals().changes.find(number)
    done = take_back(gardener.context, gardener.domain, change.id)
    gardener.index()
    return done


def contents(gardener) -> dict[str, str]:
    return {path: gardener.text(path) for path in ("_taxonomy.md", *NOTES)}


def test_renames_are_one_change_of_the_log_and_are_taken_back_byte_for_byte(renaming):
    before = contents(renaming)
    assert rename(renaming)["finished"]
    assert "dirt" not in "".join(contents(renaming).values())
    (change,) = renaming.context.proposals().changes.latest(10)
    assert (change.action, change.tags, change.path, change.notes) == (
        "renamed",
        ("dirt -> soil", "peat -> compost"),
        "_taxonomy.md",
        3,
    )
    assert [one.id for one in renaming.context.proposals().changes.latest(10, "deep/c.md")] == [change.id]
    assert renaming.context.proposals().changes.latest(10, "d.md") == []
    done = undo(renaming)
    assert contents(renaming) == before
    assert set(done["restored"]) == {"_taxonomy.md", "a.md", "b.md", "deep/c.md"}
    assert done["left"] == []
    log = renaming.context.proposals().changes.latest(10)
    assert [(one.action, one.notes) for one in log] == [("undone", 3), ("renamed", 3)]
    assert renaming.context.proposals().changes.find(None) is None
    with pytest.raises(EverindexError, match="already undone"):
        undo(renaming, change.id)


@pytest.mark.parametrize("dry_run", [True, False])
def test_the_log_of_a_rename_counts_what_it_did_and_quotes_no_note(renaming, dry_run):
    renaming.sweep.tasks.apply_renames(["vault"], "asked", dry_run)
    with capture_logs() as lines:
        renaming.queue.execute(renaming.queue.dequeue())
    (said,) = [line for line in lines if line["event"] == "job done"]
    assert (said["renames"], said["refused"]) == (2, 0)
    assert "No frontmatter, but" not in str(lines)
    assert "No frontmatter, but" in str(renaming.resources.state().get(TAGGED, "asked").value) or not dry_run


def test_without_an_id_the_newest_change_is_taken_back_and_no_older_one(renaming):
    proposals = renaming.context.proposals()
    proposals.want("vault", "d.md", "compost", "", "accepted", "2026")
    renaming.context.reviewing(renaming.domain, apply=True)
    promote(renaming.context.notes(renaming.domain), "2026")
    renaming.index()
    promoted = contents(renaming)
    rename(renaming)
    assert undo(renaming)["action"] == "renamed"
    assert contents(renaming) == promoted
    assert undo(renaming)["action"] == "promoted"
    assert renaming.text("d.md") == NOTES["d.md"]
    assert proposals.changes.find(None) is None


def test_a_note_that_was_edited_where_it_was_renamed_is_left_alone_and_reported(renaming):
    rename(renaming)
    renaming.write("a.md", renaming.text("a.md").replace("# both", "# mine"))
    renaming.write("b.md", renaming.text("b.md") + "ing")
    (renaming.root / "deep/c.md").unlink()
    renaming.index()
    kept = renaming.text("a.md")
    done = undo(renaming)
    assert renaming.text("a.md") == kept
    assert {path: why.partition(";")[0] for path, why in done["left"]} == {
        "a.md": "it has changed since",
        "b.md": "it has changed since",
        "deep/c.md": "'deep/c.md' no longer exists",
    }
    assert done["restored"] == ["_taxonomy.md"]
    assert renaming.text("_taxonomy.md") == RENAMES
    log = renaming.context.proposals().changes.latest(10)
    assert [(one.action, one.notes) for one in log] == [("undone", 0), ("renamed", 3)]


def test_the_undoing_of_renames_counts_the_notes_that_it_restored_and_is_in_their_log_alone(renaming):
    rename(renaming)
    renaming.write("a.md", renaming.text("a.md").replace("# both", "# mine"))
    renaming.index()
    assert undo(renaming)["restored"] == ["_taxonomy.md", "b.md", "deep/c.md"]
    log = renaming.context.proposals().changes
    assert [(one.action, one.notes) for one in log.latest(10)] == [("undone", 2), ("renamed", 3)]
    assert [one.action for one in log.latest(10, "b.md")] == ["undone", "renamed"]
    assert [one.action for one in log.latest(10, "a.md")] == ["renamed"]


def test_a_note_that_lost_its_renamed_tags_is_left_alone_with_that_reason(renaming):
    rename(renaming)
    renaming.write("a.md", "---\r\ntags: [other]\r\n---\r\nWords.\r\n")
    renaming.write("deep/c.md", "---\ntags: [soil]\n---\n\nThe end\n")
    renaming.write("_taxonomy.md", "- soil: other words\n- compost: others\n")
    renaming.index()
    assert undo(renaming)["left"] == [
        ["_taxonomy.md", "it has changed since; rename its tags by hand"],
        ["a.md", "it no longer has the renamed tags"],
        ["deep/c.md", "it has changed since; rename its tags by hand"],
    ]


def test_what_was_written_below_a_renamed_part_stays(renaming):
    rename(renaming)
    renaming.write("b.md", renaming.text("b.md") + "\nMore.")
    renaming.write("deep/c.md", renaming.text("deep/c.md") + "More.\n")
    renaming.index()
    undo(renaming)
    assert renaming.text("deep/c.md") == NOTES["deep/c.md"] + "More.\n"
    assert renaming.text("b.md") == NOTES["b.md"] + "\nMore."


def test_a_renamed_note_that_moved_since_is_taken_back_at_its_new_place(renaming):
    due(renaming.resources.reader(renaming.domain), renaming.context.proposals(), "vault", 0.0)
    begin(renaming.resources.reader(renaming.domain), renaming.context.proposals(), "vault")
    rename(renaming)
    due(renaming.resources.reader(renaming.domain), renaming.context.proposals(), "vault", 0.0)
    (renaming.root / "b.md").rename(renaming.root / "moved.md")
    renaming.index()
    due(renaming.resources.reader(renaming.domain), renaming.context.proposals(), "vault", 0.0)
    assert undo(renaming)["left"] == []
    assert renaming.text("moved.md") == NOTES["b.md"]


@pytest.mark.parametrize("step", range(6))
def test_a_run_that_dies_is_finished_as_the_same_change_and_taken_back_whole(renaming, monkeypatch, step):
    before, steps = contents(renaming), iter(range(6))

    def dying(*arguments):
        if next(steps) == step:
            raise KeyboardInterrupt
        return replace_if_unchanged(*arguments)

    monkeypatch.setattr("workers.renames.replace_if_unchanged", dying)
    try:
        rename_tags(renaming.context, [renaming.domain], dry_run=False)
    except KeyboardInterrupt:
        (change,) = renaming.context.proposals().changes.latest(10)
        assert change.action == "renaming"
        with pytest.raises(EverindexError, match="are not finished"):
            take_back(renaming.context, renaming.domain, change.id)
    monkeypatch.undo()
    renaming.index()
    review_now(renaming.context, renaming.domain, apply=False)
    assert "dirt" not in "".join(contents(renaming).values())
    (change,) = renaming.context.proposals().changes.latest(10)
    assert (change.action, change.notes) == ("renamed", 3)
    renaming.index()
    undo(renaming)
    assert contents(renaming) == before


def test_taking_back_that_dies_is_done_again(renaming, monkeypatch):
    before = contents(renaming)
    rename(renaming)
    calls = iter(range(9))

    def dying(*arguments):
        if next(calls) == 2:
            raise KeyboardInterrupt
        return replace_if_unchanged(*arguments)

    monkeypatch.setattr("workers.renames.replace_if_unchanged", dying)
    with pytest.raises(KeyboardInterrupt):
        undo(renaming)
    monkeypatch.undo()
    renaming.index()
    assert undo(renaming)["left"] == []
    assert contents(renaming) == before


def test_what_waits_has_the_new_name_after_a_rename(renaming):
    store, slug = renaming.context.proposals(), renaming.domain.slug
    for path, tags in (("a.md", ("dirt/deep",)), ("b.md", ("dirt", "soil")), ("d.md", ("peat",))):
        store.add(
            slug,
            path,
            [(Suggestion(tag, 0.8), "") for tag in tags],
            proposer="local",
            note_hash="h",
            at="2026-11-21",
        )
    store.decide([one.id for one in store.of_note(slug, "d.md")], "rejected", "2026-11-22")
    rename_tags(renaming.context, [renaming.domain], dry_run=False)
    assert {(one.path, one.tag) for one in store.of_state(slug, "waiting")} == {
        ("a.md", "soil/deep"),
        ("b.md", "soil"),
    }
    assert [one.tag for one in store.of_state(slug, "rejected", tag="compost")] == ["compost"]
    review_now(renaming.context, renaming.domain, apply=False)
    assert "`dirt" not in renaming.text("_review-queue.md")


def test_what_waits_or_was_rejected_has_its_former_name_when_a_rename_is_undone(renaming):
    store, slug = renaming.context.proposals(), renaming.domain.slug
    for path, tag in (("b.md", "dirt"), ("c.md", "soil"), ("d.md", "peat")):
        store.add(
            slug,
            path,
            [(Suggestion(tag, 0.8), "")],
            proposer="local",
            note_hash="h",
            at="2026-11-21",
        )
    store.decide([one.id for one in store.of_note(slug, "d.md")], "rejected", "2026-11-22")
    rename(renaming)
    review_now(renaming.context, renaming.domain, apply=False)
    assert "`dirt" not in renaming.text("_review-queue.md")
    undo(renaming)
    waiting = {(one.path, one.tag) for one in store.of_state(slug, "waiting")}
    assert waiting == {("b.md", "dirt"), ("c.md", "soil")}
    assert [(one.path, one.tag) for one in store.of_state(slug, "rejected")] == [("d.md", "peat")]
    assert is_due(renaming)
    review_now(renaming.context, renaming.domain, apply=False)
    assert "`dirt`" in renaming.text("_review-queue.md")


def test_renames_that_are_refused_are_no_change(renaming):
    renaming.write("broken.md", "---\ntags: [dirt\n---\n")
    renaming.index()
    assert not rename(renaming)["finished"]
    assert renaming.context.proposals().changes.latest(10) == []
    assert renaming.context.proposals().changes.find(None) is None


# Renames in several domains

PLACES = {"garden": "Garden", "work": "Work"}


@pytest.fixture
def domains(settings):
    (settings.vault / "_domains.yaml").write_text("".join(f"{a}:\n  path: {b}\n" for a, b in PLACES.items()))
    made = Gardener(Resources(settings))
    for place in PLACES.values():
        made.write(f"{place}/_taxonomy.md", RENAMES)
        made.write(f"{place}/a.md", NOTES["a.md"])
    made.index()
    return made


def in_all(gardener):
    """Return the bytes of all notes and vocabularies."""
    return {
        f"{place}/{name}": gardener.text(f"{place}/{name}")
        for place in PLACES.values()
        for name in ("_taxonomy.md", "a.md")
    }


def rename_all(gardener):
    return rename_tags(gardener.context, gardener.resources.domains(), dry_run=False)


def undo_run(gardener):
    log = gardener.context.proposals().changes
    run = log.run_of(log.find(None))
    for one in run:
        take_back(gardener.context, gardener.resources.registry().get(one.domain), one.id)
    return [one.domain for one in run]


@pytest.mark.parametrize(
    "written",
    [
        ("Work/_taxonomy.md", TAXONOMY + "\n## Renames\n\n- dirt -> loam\n"),
        ("Work/broken.md", "---\ntags: [dirt\n---\n"),
    ],
)
def test_renames_that_one_domain_cannot_have_are_made_in_none(domains, written):
    domains.write(*written)
    domains.index()
    before = in_all(domains)
    done = rename_all(domains)
    assert done["garden"]["waits_for"] == ["work"]
    assert done["garden"]["changed"] == []
    assert "loam" in done["work"].get("error", "") or done["work"]["refused"][0][0] == "Work/broken.md"
    assert in_all(domains) == before
    assert domains.context.proposals().changes.latest(10) == []


def test_renames_of_several_domains_are_taken_back_together(domains):
    before = in_all(domains)
    assert all(one["finished"] for one in rename_all(domains).values())
    assert "dirt" not in "".join(in_all(domains).values())
    assert [one.domain for one in domains.context.proposals().changes.latest(10)] == ["work", "garden"]
    assert undo_run(domains) == ["garden", "work"]
    assert in_all(domains) == before
    assert domains.context.proposals().changes.find(None) is None


@pytest.mark.parametrize("step", range(4))
def test_renames_of_several_domains_that_die_are_finished_in_all_and_taken_back_together(
    domains, monkeypatch, step
):
    before, steps = in_all(domains), iter(range(9))

    def dying(*arguments):
        if next(steps) == step:
            raise KeyboardInterrupt
        return replace_if_unchanged(*arguments)

    monkeypatch.setattr("workers.renames.replace_if_unchanged", dying)
    with pytest.raises(KeyboardInterrupt):
        rename_all(domains)
    monkeypatch.undo()
    again = Gardener(Resources(domains.resources.settings))
    again.index()
    for domain in again.resources.domains():
        review_now(again.context, domain, apply=False)
    assert "dirt" not in "".join(in_all(again).values())
    assert undo_run(again) == ["garden", "work"]
    assert in_all(again) == before


# A queue that cannot be used


def test_a_queue_that_is_a_file_of_the_persons_own_is_a_problem_until_it_is_moved_away(gardener):
    gardener.write("a.md", "The garden soil.")
    gardener.index()
    gardener.context.proposals().add(
        gardener.domain.slug,
        "a.md",
        [(Suggestion("soil", 0.8), "")],
        proposer="local",
        note_hash="seen",
        at="2026-11-22T00:00:00.000+00:00",
    )
    gardener.write("_review-queue.md", "my own list\n")
    for _ in range(2):
        with pytest.raises(NoteError):
            review_now(gardener.context, gardener.domain, apply=True)
    said = [one for one in find_problems(gardener.resources, gardener.queue) if "_review-queue.md" in one]
    assert len(said) == 1
    assert "move it away, or name another" in said[0]
    assert gardener.text("_review-queue.md") == "my own list\n"
    (gardener.root / "_review-queue.md").unlink()
    review_now(gardener.context, gardener.domain, apply=True)
    assert "`soil`" in gardener.text("_review-queue.md")
    assert not any("_review-queue.md" in one for one in find_problems(gardener.resources, gardener.queue))


def test_a_problem_of_a_queue_ends_with_its_vocabulary(gardener):
    gardener.write("_review-queue.md", "my own list\n")
    with pytest.raises(NoteError):
        review_now(gardener.context, gardener.domain, apply=True)
    (gardener.root / "_taxonomy.md").unlink()
    gardener.sweep()
    assert not any("_review-queue.md" in one for one in find_problems(gardener.resources, gardener.queue))


def test_saves_that_could_not_be_merged_are_a_problem_until_their_files_are_gone(gardener):
    def said() -> list[str]:
        gardener.sweep()
        return [one for one in find_problems(gardener.resources, gardener.queue) if "unclaimed" in one]

    assert said() == []
    folder = gardener.context.displaced / UNCLAIMED
    folder.mkdir(parents=True)
    for name in ("1-a.md", "2-b.md"):
        (folder / name).write_text("what was typed meanwhile")
    (problem,) = said()
    assert str(folder) in problem
    assert "2 saves" in problem
    (folder / "1-a.md").unlink()
    assert "1-a.md" not in said()[0]
    (folder / "2-b.md").unlink()
    assert said() == []


def test_a_decision_is_taken_back_by_the_worker_that_wrote_it(gardener):
    gardener.write("note.md", "The soil.\n")
    gardener.index()
    store = gardener.context.proposals()
    store.add(
        gardener.domain.slug,
        "note.md",
        [(Suggestion("soil", 0.8), "")],
        proposer="local",
        note_hash="h",
        at="2026-11-21",
    )
    (one,) = store.of_state(None, "waiting")
    store.decide([one.id], "accepted", "2026-11-22")
    promote(gardener.context.notes(gardener.domain), "2026-11-22")
    assert "soil" in gardener.text("note.md").partition("The soil")[0]
    gardener.sweep.tasks.undo_decisions(gardener.domain.slug, "asked", [one.id])
    gardener.queue.execute(gardener.queue.dequeue())
    assert gardener.text("note.md") == "The soil.\n"
    assert store.get([one.id])[0].state == "waiting"
    assert gardener.resources.state().get(TAGGED, "asked").value == {"left": []}


# Domains that change


def with_domains(gardener, text):
    """Give the vault other domains, and index it as they say."""
    gardener.write("_domains.yaml", text)
    gardener.index()
    gardener.sweep()


@pytest.fixture
def proposed(gardener):
    """A vault with a tag that waits for one note, one that another note got, and a decision against a third."""
    store, slug = gardener.context.proposals(), gardener.domain.slug
    for name, tag in (("a", "soil"), ("b", "compost"), ("c", "soil")):
        gardener.write(f"Beds/{name}.md", f"Words of {name}.\n")
        store.add(
            slug,
            f"Beds/{name}.md",
            [(Suggestion(tag, 0.8), "")],
            proposer="local",
            note_hash="h",
            at="2026-11-21",
        )
    gardener.index()
    (_, second, third) = store.get([1, 2, 3])
    store.decide([second.id], "accepted", "2026-11-22")
    store.decide([third.id], "rejected", "2026-11-22")
    promote(gardener.context.notes(gardener.domain), "2026-11-22")
    gardener.sweep()
    return gardener


def test_what_waits_for_a_note_follows_it_to_the_domain_that_owns_it_now(proposed):
    with_domains(proposed, "beds: {path: Beds}\n")
    store = proposed.context.proposals()
    assert [(one.domain, one.path) for one in store.of_state("beds", "waiting")] == [("beds", "Beds/a.md")]
    assert [one.path for one in store.of_state("beds", "rejected")] == ["Beds/c.md"]
    assert store.of_state("vault", "waiting", "applied", "rejected") == []
    review_now(proposed.context, proposed.resources.registry().get("beds"), apply=True)
    assert "`soil`" in proposed.text("Beds/_review-queue.md")


def test_a_queue_is_written_for_what_followed_its_note_to_a_domain_without_a_vocabulary(proposed):
    with_domains(proposed, "beds: {path: Beds}\n")
    proposed.sweep.clock = lambda: time.monotonic() + QUIET_SECONDS
    proposed.sweep()
    tasks = []
    while task := proposed.queue.dequeue():
        tasks.append((task.name, task.args[0]))
    assert ("review_tags", "beds") in tasks


@pytest.fixture
def examined(renaming):
    """Notes that the proposer knows, so that they are recognised by their text."""
    begin(renaming.resources.reader(renaming.domain), renaming.context.proposals(), "vault")
    return renaming


def rename_and_move(gardener, *moves):
    """Rename tags, and move notes before the index has their new bytes."""
    rename_tags(gardener.context, [gardener.domain], dry_run=False)
    for old, new in moves:
        (gardener.root / new).parent.mkdir(exist_ok=True)
        (gardener.root / old).rename(gardener.root / new)


def test_a_renamed_note_that_was_moved_before_it_was_indexed_is_taken_back_at_its_new_place(examined):
    rename_and_move(examined, ("b.md", "moved.md"), ("deep/c.md", "shallow/c.md"))
    examined.index()
    done = undo(examined)
    assert (done["left"], sorted(done["restored"])) == (
        [],
        ["_taxonomy.md", "a.md", "moved.md", "shallow/c.md"],
    )
    assert examined.text("moved.md") == NOTES["b.md"]
    assert examined.text("shallow/c.md") == NOTES["deep/c.md"]
    log = examined.context.proposals().changes
    assert [one.action for one in log.latest(10, "moved.md")] == ["undone", "renamed"]


def test_an_equal_note_of_a_run_that_moved_is_not_taken_for_its_twin_that_was_deleted(examined):
    examined.write("twin.md", NOTES["b.md"])
    examined.index()
    begin(examined.resources.reader(examined.domain), examined.context.proposals(), "vault")
    rename_and_move(examined, ("twin.md", "moved.md"))
    (examined.root / "b.md").unlink()
    examined.index()
    moved = examined.text("moved.md")
    assert [path for path, _ in undo(examined)["left"]] == ["b.md", "twin.md"]
    assert examined.text("moved.md") == moved


def test_while_a_renamed_note_may_only_have_moved_nothing_is_taken_back(examined):
    rename_and_move(examined, ("b.md", "moved.md"))
    caches = {examined.domain.slug: examined.resources.cache(examined.domain)}
    reconcile(examined.root, examined.resources.registry(), caches, max_bytes=1_000_000)
    renamed = examined.text("a.md")
    with pytest.raises(EverindexError, match=r"'b\.md' no longer exists, or was just moved"):
        undo(examined)
    assert examined.text("a.md") == renamed
    examined.index()
    assert undo(examined)["left"] == []


def test_the_queue_of_a_former_domain_is_a_problem_until_it_is_deleted(proposed):
    review_now(proposed.context, proposed.domain, apply=False)
    with_domains(proposed, "beds: {path: Beds}\n")

    def said():
        proposed.sweep()
        return [one for one in find_problems(proposed.resources, proposed.queue) if "is not read" in one]

    (problem,) = said()
    assert problem.startswith("'_review-queue.md' is the review queue of a domain that")
    (proposed.root / "_review-queue.md").unlink()
    assert said() == []


def test_a_promotion_is_taken_back_from_a_note_that_was_moved_before_its_tag_was_indexed(gardener):
    gardener.write("a.md", NOTES["b.md"])
    gardener.index()
    store = gardener.context.proposals()
    begin(gardener.resources.reader(gardener.domain), store, "vault")
    store.want("vault", "a.md", "soil", "", "accepted", "2026")
    promote(gardener.context.notes(gardener.domain), now_iso())
    (gardener.root / "a.md").rename(gardener.root / "moved.md")
    gardener.index()
    done = undo(gardener)
    assert (done["restored"], done["left"]) == (["moved.md"], [])
    assert gardener.text("moved.md") == NOTES["b.md"]


def test_a_change_made_in_a_former_domain_is_undone_in_the_one_that_owns_its_note_now(proposed):
    with_domains(proposed, "beds: {path: Beds}\n")
    (change,) = proposed.context.proposals().changes.latest(10)
    assert change.domain == "beds"
    take_back(proposed.context, proposed.resources.registry().get("beds"), change.id)
    assert proposed.text("Beds/b.md") == "Words of b.\n"


def test_what_waits_for_a_note_of_no_domain_is_kept_until_one_owns_it_again(proposed):
    with_domains(proposed, "other: {path: Other}\n")
    assert len(proposed.context.proposals().of_state("vault", "waiting")) == 1
    (proposed.root / "_domains.yaml").unlink()
    proposed.index()
    proposed.sweep()
    assert [one.path for one in proposed.context.proposals().of_state("vault", "waiting")] == ["Beds/a.md"]


def test_a_request_to_a_domain_that_is_gone_is_answered(gardener):
    gardener.sweep.tasks.undo_change("former", "asked", 1)
    gardener.queue.execute(gardener.queue.dequeue())
    said = gardener.resources.state().get(TAGGED, "asked").value
    assert said == {"error": "there is no domain 'former'; the vault has vault"}


def test_a_note_into_which_an_accepted_tag_is_written_is_chosen(settings):
    gardener = Gardener(Resources(settings.model_copy(update={"attention": True})))
    for name, text in {"_taxonomy.md": TAXONOMY, "note.md": "The soil.\n", "other.md": "Compost.\n"}.items():
        gardener.write(name, text)
    gardener.index()
    store = gardener.context.proposals()
    for path in ("note.md", "other.md"):
        suggested = [(Suggestion("soil", 0.8), "")]
        store.add("vault", path, suggested, proposer="local", note_hash="h", at="2026-11-21")
    accepted, rejected = sorted(store.of_state(None, "waiting"), key=lambda one: one.path)
    store.decide([accepted.id], "accepted", "2026-11-22")
    store.decide([rejected.id], "rejected", "2026-11-22")
    review_now(gardener.context, gardener.domain, apply=True)
    _RECORDER.submit(lambda: None).result()
    choices = gardener.resources.stores.of(Attention).choices()
    assert [(one.path, one.how) for one in choices] == [("note.md", "promoted")]


# A folder in another Unicode form than its key

DECOMPOSED = "Cafe\u0301"


@pytest.fixture
def decomposed(settings):
    (settings.vault / "_domains.yaml").write_text("cafe:\n  path: Caf\u00e9\n", encoding="utf-8")
    made = Gardener(Resources(settings))
    made.write(f"{DECOMPOSED}/_taxonomy.md", RENAMES)
    for path, text in NOTES.items():
        made.write(f"{DECOMPOSED}/{path}", text)
    made.index()
    return made


def test_a_decomposed_folder_has_its_vocabulary_and_its_queue(decomposed):
    propose_soil(decomposed, f"{DECOMPOSED}/e.md", "Caf\u00e9/e.md")
    assert is_due(decomposed)
    review_now(decomposed.context, decomposed.domain, apply=True)
    assert not is_due(decomposed)
    queue = f"{DECOMPOSED}/_review-queue.md"
    page = decomposed.text(queue)
    decomposed.write(queue, page.replace("- [ ] ", "- [x] ", 1))
    assert is_due(decomposed)
    assert review_now(decomposed.context, decomposed.domain, apply=True)["applied"] == [
        ["Caf\u00e9/e.md", "soil"]
    ]
    assert "soil" in decomposed.text(f"{DECOMPOSED}/e.md").partition("The garden")[0]
    decomposed.index()
    known = decomposed.resources.reader(decomposed.domain).ledger.settled()
    assert "Caf\u00e9/e.md" in known
    assert "Caf\u00e9/_review-queue.md" not in known
    assert [one.name for one in decomposed.root.iterdir() if one.is_dir() and one.name[0] != "."] == [
        DECOMPOSED
    ]


def test_renames_of_a_decomposed_folder_are_applied_and_taken_back(decomposed):
    def contents():
        return {path: decomposed.text(f"{DECOMPOSED}/{path}") for path in ("_taxonomy.md", *NOTES)}

    before = contents()
    assert rename(decomposed)["finished"]
    assert "dirt" not in "".join(contents().values())
    assert undo(decomposed)["left"] == []
    assert contents() == before


# An edit at the moment of a review


def propose_soil(gardener, path, key=None):
    gardener.write(path, "The garden soil.\n")
    gardener.index()
    gardener.context.proposals().add(
        gardener.domain.slug,
        key or path,
        [(Suggestion("soil", 0.8), "")],
        proposer="local",
        note_hash="seen",
        at="2026-11-22T00:00:00.000+00:00",
    )


def is_due(gardener):
    """Say whether a sweep would have the queue read once it has been quiet for a while."""
    now = time.monotonic()
    sweep = replace(gardener.sweep, clock=lambda: now, seen={})
    sweep._review_due(gardener.domain)
    now += QUIET_SECONDS + 1
    return sweep._review_due(gardener.domain)


def test_a_queue_is_read_once(gardener):
    propose_soil(gardener, "a.md")
    assert is_due(gardener)
    review_now(gardener.context, gardener.domain, apply=True)
    assert not is_due(gardener)


def test_the_queue_follows_the_text_of_a_note_that_waits(gardener):
    propose_soil(gardener, "a.md")
    review_now(gardener.context, gardener.domain, apply=True)
    gardener.write("a.md", gardener.text("a.md") + "\nWorms live in it.\n")
    gardener.index()
    assert is_due(gardener)
    review_now(gardener.context, gardener.domain, apply=True)
    assert "Worms live in it" in gardener.text("_review-queue.md")
    assert not is_due(gardener)
    gardener.write("b.md", "No tag waits for this note.")
    gardener.index()
    assert not is_due(gardener)


@pytest.mark.parametrize("first", [True, False], ids=["as the page is written", "as it is found unchanged"])
def test_a_tick_made_right_after_the_queue_was_read_is_still_to_be_read(gardener, monkeypatch, first):
    propose_soil(gardener, "a.md")
    if not first:
        review_now(gardener.context, gardener.domain, apply=True)

    def review_then_tick(*given):
        done = review(*given)
        text = gardener.text("_review-queue.md")
        gardener.write("_review-queue.md", text.replace("- [ ] `soil`", "- [x] `soil`"))
        return done

    with monkeypatch.context() as patch:
        patch.setattr("workers.tagging.review", review_then_tick)
        review_now(gardener.context, gardener.domain, apply=True)
    assert is_due(gardener)
    review_now(gardener.context, gardener.domain, apply=True)
    assert "soil" in gardener.text("a.md").partition("---\nThe")[0]


def test_a_proposal_made_right_after_the_queue_was_read_is_still_to_be_shown(gardener, monkeypatch):
    propose_soil(gardener, "a.md")

    def review_then_propose(*given):
        done = review(*given)
        propose_soil(gardener, "b.md")
        return done

    with monkeypatch.context() as patch:
        patch.setattr("workers.tagging.review", review_then_propose)
        review_now(gardener.context, gardener.domain, apply=True)
    assert is_due(gardener)
    review_now(gardener.context, gardener.domain, apply=True)
    assert "b.md" in gardener.text("_review-queue.md")
