"""What a worker does about renames: apply those of one vocabulary or all, finish them after a crash, undo them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from pipelines.errors import (
    CannotUndoError,
    EverindexError,
    NoteError,
    NoteVanishedError,
    NotFoundError,
    TaxonomyError,
)
from pipelines.model import Domain, Taxonomy, now_iso
from pipelines.notes.encodings import decode
from pipelines.state.state import REVIEWED
from pipelines.state.tags import UNDONE, Change, RenamedFile, pairs_of
from pipelines.tagging import rename
from pipelines.tagging.apply import found_again, heads
from pipelines.tagging.propose import follow_renames
from pipelines.tagging.vocabulary import TAXONOMY_LIMIT, add_rename, find, parse
from pipelines.vault import files as vault
from pipelines.vault import paths
from pipelines.vault.write import replace_if_unchanged
from workers.tag_context import TaggingContext


def rename_tags(
    context: TaggingContext, domains: Sequence[Domain], *, dry_run: bool
) -> dict[str, dict[str, Any]]:
    """Apply the renames of vocabularies to the notes of their domains: in all of the domains, or in none.

    Return by domain what was, or would be, changed, or what keeps all from being changed. What an earlier run left
    unfinished is finished first. Raises VaultNotFoundError, StateError.
    """
    context.resources.require_present()
    if not dry_run:
        earlier = {domain.slug: finish_renames(context, domain) for domain in domains}
        unfinished = {slug: _report(done) for slug, done in earlier.items() if done and not done.finished}
        if unfinished:
            return unfinished
    plans: dict[str, rename.Plan] = {}
    answers: dict[str, dict[str, Any]] = {}
    for domain in domains:
        try:
            plans[domain.slug] = _plan(context, domain)
        except (EverindexError, OSError) as error:
            answers[domain.slug] = {"error": str(error)}
        else:
            answers[domain.slug] = _planned(plans[domain.slug])
    blocked = [slug for slug, answer in answers.items() if "error" in answer or answer["refused"]]
    if dry_run:
        return answers
    if blocked:
        return {slug: _not_begun(answer, blocked) for slug, answer in answers.items()}
    wanted = [(domain, plans[domain.slug]) for domain in domains if plans[domain.slug].renames]
    return answers | (_apply(context, wanted) if wanted else {})


def write_rename(
    context: TaggingContext, domains: Sequence[Domain], old: str, new: str, *, dry_run: bool
) -> dict[str, dict[str, Any]]:
    """Write a rename into the vocabularies of the domains that have the tag; `rename_tags` then applies it.

    Return by domain what it would change, or what keeps it from being applied: then nothing is written. Raises
    NotFoundError if no domain has the tag, TaxonomyError, also if other renames would be applied with it, NoteError,
    UnsafePathError, OSError.
    """
    context.resources.require_present()
    read = {domain.slug: _read_vocabulary(context, domain) for domain in domains}
    plans: dict[str, rename.Plan] = {}
    edits: dict[str, bytes] = {}
    for domain in domains:
        slug, notes = domain.slug, _notes_of(context, domain)
        file, data, taxonomy = read[slug]
        plan = rename.plan(notes, [(old, new)], (file, b""))
        if find(taxonomy, old) or plan.changes or plan.refused:
            text = data.decode("utf-8-sig")
            try:
                edits[slug] = data[: len(data) - len(text.encode())] + add_rename(text, old, new).encode()
            except TaxonomyError as error:
                raise TaxonomyError(f"nothing was renamed: {file}: {error}") from error
            plans[slug] = rename.plan(notes, [(old, new)], (file, edits[slug]))
    if not plans:
        raise NotFoundError(f"no note and no vocabulary has the tag {old!r}")
    for slug in plans if len(plans) == 1 else read:
        _require_no_other(read[slug][0], read[slug][2], old)
    answers = {slug: _planned(plan) for slug, plan in plans.items()}
    if dry_run:
        return answers
    if blocked := [slug for slug, plan in plans.items() if plan.refused]:
        return {slug: _not_begun(answer, blocked) for slug, answer in answers.items()}
    root, displaced = context.resources.root, context.displaced
    for slug, after in edits.items():
        file, data, _ = read[slug]
        if data != after and replace_if_unchanged(root, file, data, after, displaced) is not None:
            raise TaxonomyError(f"{file} is being written to; try again")
    return answers


def _read_vocabulary(context: TaggingContext, domain: Domain) -> tuple[str, bytes, Taxonomy]:
    """Return a domain's vocabulary as it is now: the file, its bytes, and what they say. Raises TaxonomyError."""
    file = vault.path_on_disk(context.resources.root, domain.within(domain.taxonomy))
    try:
        data = paths.read_file(context.resources.root, file, TAXONOMY_LIMIT)
        return file, data, parse(data.decode("utf-8-sig"), file)
    except FileNotFoundError:
        return file, b"", Taxonomy()
    except (TaxonomyError, UnicodeDecodeError) as error:
        raise TaxonomyError(f"nothing was renamed: {error}") from error


def _require_no_other(file: str, taxonomy: Taxonomy, old: str) -> None:
    """Raise TaxonomyError if a vocabulary lists renames of other tags: they would be applied, too."""
    others = [f"{one} -> {new}" for one, new in taxonomy.renames if one.casefold() != old.casefold()]
    if others:
        raise TaxonomyError(
            f"nothing was renamed, because {file} lists other renames: {', '.join(others)};"
            " apply them with `everindex tags rename`, or remove them"
        )


def _plan(context: TaggingContext, domain: Domain) -> rename.Plan:
    """Return what a vocabulary's renames would change. Raises TaxonomyError, UnsafePathError, OSError."""
    root, vocabulary = context.resources.root, context.vocabulary(domain)
    if vocabulary.error:
        raise TaxonomyError(f"nothing was renamed: {vocabulary.error}")
    file = vault.path_on_disk(root, domain.within(domain.taxonomy))
    pairs = vocabulary.taxonomy.renames
    data = paths.read_file(root, file, TAXONOMY_LIMIT) if pairs else b""
    return rename.plan(_notes_of(context, domain), pairs, (file, data))


def _planned(plan: rename.Plan) -> dict[str, Any]:
    return {
        "renames": [list(pair) for pair in plan.renames],
        "changes": [_change(change) for change in plan.changes],
        "refused": [[one.path, one.reason] for one in plan.refused],
        "finished": not plan.renames,
    }


def _not_begun(answer: dict[str, Any], blocked: list[str]) -> dict[str, Any]:
    """Return the answer of a domain in which nothing was renamed, because of itself or of those in `blocked`."""
    if "error" in answer or answer["finished"]:
        return answer
    waits_for = [] if answer["refused"] else blocked
    kept = {name: answer[name] for name in ("renames", "refused", "finished")}
    return kept | {"changed": [], "vanished": [], "waits_for": waits_for}


def _apply(context: TaggingContext, plans: Sequence[tuple[Domain, rename.Plan]]) -> dict[str, dict[str, Any]]:
    """Apply plans that nothing keeps from being applied; once they are recorded, a crash only delays them."""
    rename.begin(run_of(context), {journal_of(context, domain): plan for domain, plan in plans}, now_iso())
    answers: dict[str, dict[str, Any]] = {}
    for domain, plan in plans:
        answers[domain.slug] = {"renames": [list(pair) for pair in plan.renames]}
        try:
            number, done = _finish(context, domain, plan.renames)
        except (EverindexError, OSError) as error:
            answers[domain.slug]["error"] = f"{error}; the renames are recorded, and finished later"
        else:
            answers[domain.slug] |= {"change": number} | _report(done)
    return answers


# Finishing


def run_of(context: TaggingContext) -> Path:
    """Return the record of a run over several domains whose journals are not all written yet."""
    return context.resources.place.state / "renames.json"


def journal_of(context: TaggingContext, domain: Domain) -> Path:
    """Return the journal of a domain's unfinished renames."""
    return context.resources.place.state / f"renames-{domain.slug}.json"


def has_unfinished(context: TaggingContext, domain: Domain) -> bool:
    """Say whether renames of a domain are to be finished."""
    return run_of(context).exists() or journal_of(context, domain).exists()


def finish_renames(context: TaggingContext, domain: Domain) -> rename.RenameReport | None:
    """Finish the renames that a crash or a refused note left unfinished, in the same log entry; None: there are none.

    Raises StateError, NoteError.
    """
    rename.distribute(run_of(context))
    if not journal_of(context, domain).exists():
        return None
    return _finish(context, domain, context.vocabulary(domain).taxonomy.renames)[1]


def _finish(
    context: TaggingContext, domain: Domain, pairs: Sequence[tuple[str, str]]
) -> tuple[int, rename.RenameReport]:
    """Finish what a domain's journal contains; return its log entry, which has each file before it is replaced."""
    root, log, journal = context.resources.root, context.proposals().renames, journal_of(context, domain)
    at = rename.began_at(journal) or now_iso()
    number = log.begin(domain.slug, domain.within(domain.taxonomy), pairs, at)

    # While there is a journal, so that a crash only delays it; the queue is then written with the new names.
    follow_renames(context.proposals(), domain.slug, pairs, number)
    context.resources.state().delete(REVIEWED, domain.slug)

    def replacing(raw: str, read: bytes, new: bytes) -> bytes | None:
        log.write(number, RenamedFile(vault.note_key(raw), *heads(read, new)))
        return replace_if_unchanged(root, raw, read, new, context.displaced)

    done = rename.recover(root, journal, replacing)
    if done and done.finished:
        log.finish(number)
    return number, done or rename.RenameReport((), (), (), finished=True)


# Undoing


def take_back_renames(context: TaggingContext, domain: Domain, change: Change) -> dict[str, Any]:
    """Undo a domain's part of a run of renames; return the files restored and left alone.

    Raises CannotUndoError, also while a note that is gone may only have moved.
    """
    if change.undone_at is not None:
        raise CannotUndoError(f"change {change.id} is already undone")
    if has_unfinished(context, domain):
        raise CannotUndoError(
            f"the renames of {domain.slug} are not finished; correct the notes that `everindex tags rename` reports,"
            " finish the renames, and then undo them"
        )
    root = context.resources.root
    files = _files_now(context, domain, change)
    # A path that is not UTF-8 can be opened only by the name in the ledger.
    raws = context.resources.reader(domain).ledger.stat_of([file.path for file in files])
    names = {
        path: raws[path][0] if path in raws else vault.path_on_disk(root, path)
        for path in (change.path, *(file.path for file in files))
    }
    done = rename.take_back(
        [replace(file, path=names[file.path]) for file in files],
        pairs_of(change.tags),
        names[change.path],
        root,
        lambda raw, read, new: replace_if_unchanged(root, raw, read, new, context.displaced),
    )
    if not done.restored:
        first = done.left[0]
        raise CannotUndoError(f"nothing was undone: {first.path}: {first.reason}")
    if done.finished:
        _record_undoing(context, change, [path for path, raw in names.items() if raw in done.restored])
    return {
        "restored": list(done.restored),
        "left": [[one.path, one.reason] for one in done.left],
    }


def _record_undoing(context: TaggingContext, change: Change, restored: Sequence[str]) -> None:
    """Record that renames are undone; tags that wait get their former names, and the queue is written again."""
    store, at = context.proposals(), now_iso()
    store.keys.take_back(change.id)
    context.resources.state().delete(REVIEWED, change.domain)
    store.changes.undo(change.id, at)
    store.changes.record(replace(change, at=at, action=UNDONE, undone_at=None), files=restored)


def _files_now(context: TaggingContext, domain: Domain, change: Change) -> list[RenamedFile]:
    """Return the files of a run, those that were moved before their new bytes were indexed at their paths of now."""
    log, notes = context.proposals().renames, context.notes(domain)
    files = [file for file in log.files(change.id) if file.path != change.path]
    there = notes.cache.ledger.hashes_of([file.path for file in files])
    gone = [file for file in files if file.path not in there]
    if gone and notes.cache.leases.has_pending("words"):
        raise CannotUndoError(f"{gone[0].path!r} no longer exists, or was just moved; try again in a minute")
    for file in gone:
        of_note = replace(change, path=file.path, head_before=file.head_before, head_after=file.head_after)
        with suppress(NoteVanishedError):  # it is then reported as left alone
            found_again(notes.cache, notes.proposals, notes.log, notes.root, of_note, notes.max_bytes)
    return log.files(change.id)


# What is read and said


def _notes_of(context: TaggingContext, domain: Domain) -> list[tuple[str, bytes]]:
    """Read a domain's notes as they are; unreadable notes have no known tags."""
    cache = context.resources.reader(domain)
    notes = []
    for raw, _, _, _ in cache.ledger.stat_of(sorted(cache.ledger.settled())).values():
        with suppress(NoteError):
            data = vault.read(context.resources.root, raw, context.resources.settings.max_note_bytes).data
            notes.append((raw, data))
    return notes


def _change(change: rename.FileEdit) -> dict[str, Any]:
    """Return the lines of a change that differ."""
    before, after = (decode(data)[0].splitlines() for data in (change.before, change.after))
    pairs = zip(before, after, strict=False)
    return {"path": change.path, "lines": [[old, new] for old, new in pairs if old != new]}


def _report(done: rename.RenameReport) -> dict[str, Any]:
    return {
        "changed": list(done.changed),
        "refused": [[one.path, one.reason] for one in done.refused],
        "vanished": list(done.vanished),
        "finished": done.finished,
    }
