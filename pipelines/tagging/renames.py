"""A taxonomy's renames over the notes of its domain: planned, written down, then applied to the last one.

What is written down (the journal) is the renames and the notes, not the notes' bytes: renaming twice is renaming
once, so whatever state a crash or a person left a note in, it is renamed again from what it holds then. So a run
that was interrupted is always finished, and what a person wrote meanwhile stays. The journal goes when all is
done, and the taxonomy is changed before that, after the last note.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from pipelines import vault
from pipelines.durable_files import sync_folder, write_atomic
from pipelines.errors import NoteError, NoteTagsError, NoteVanishedError, StateError, TaxonomyError
from pipelines.store.rename_log import RenamedFile
from pipelines.tagging.heads import restored
from pipelines.tagging.note_tags import rename_tags
from pipelines.tagging.taxonomy import without_renames

Replace = Callable[[str, bytes, bytes], bytes | None]
"""Make the third the content of a file of the vault if it still is the second; return None, or what is there instead.

Raises NoteError where the file cannot be replaced.
"""

_LIMIT = 1_000_000_000  # bytes: a note that was begun is finished, also when the settings' limit was lowered


@dataclass(frozen=True, slots=True)
class Change:
    """A file that renaming changes, with its bytes before and after."""

    path: str
    before: bytes
    after: bytes


@dataclass(frozen=True, slots=True)
class Refusal:
    """A file that has to be renamed in and cannot be, and why."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What renaming would do. `changes` are the notes', `taxonomy` is the file that the renames stand in."""

    renames: tuple[tuple[str, str], ...]
    taxonomy: str
    changes: tuple[Change, ...]
    refused: tuple[Refusal, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """What a run did: the files it changed, those it could not change, the notes that are no longer there.

    `finished` says that the renames are applied and gone from the taxonomy. Where it is not, and the run had
    begun, the refused files are owed: the next `recover` tries them again.
    """

    changed: tuple[str, ...]
    refused: tuple[Refusal, ...]
    vanished: tuple[str, ...]
    finished: bool


@dataclass(frozen=True, slots=True)
class _Journal:
    """What is written down before the first note is changed; paths are relative to the vault."""

    renames: tuple[tuple[str, str], ...]
    taxonomy: str
    notes: tuple[str, ...]


def plan(
    notes: Iterable[tuple[str, bytes]], renames: Iterable[tuple[str, str]], taxonomy: tuple[str, bytes]
) -> Plan:
    """Say what renames (old, new) would change in notes and in the taxonomy that they stand in.

    Notes and taxonomy are (path on disk relative to the vault, bytes); the taxonomy is skipped among the notes.
    """
    pairs = tuple(renames)
    changes, refused = [], []
    for path, data in notes:
        if path == taxonomy[0]:
            continue
        try:
            after = rename_tags(data, dict(pairs))
        except NoteTagsError as error:
            refused.append(Refusal(path, str(error)))
            continue
        if after != data:
            changes.append(Change(path, data, after))
    try:
        _taxonomy_without(taxonomy[1], pairs)
    except TaxonomyError as error:
        refused.append(Refusal(taxonomy[0], str(error)))
    return Plan(pairs, taxonomy[0], tuple(changes), tuple(refused))


def apply(plan: Plan, root: Path, journal: Path, replace: Replace) -> Report:
    """Apply a plan to the vault at `root`, all of it or nothing; `journal` is a file in the state folder.

    A plan with a refused file is not begun: a tag that is renamed in all notes but one is two tags, and the
    refused note is quickly mended. Whatever happens after the journal is written is finished by `recover`.
    Raises StateError where an earlier run is not finished, or the journal cannot be written.
    """
    if plan.refused:
        return refused(plan)
    if journal.exists():
        raise StateError(
            f"the renames in {journal} are not finished yet; mend the notes that they report, and finish them first"
        )
    written = _Journal(plan.renames, plan.taxonomy, tuple(change.path for change in plan.changes))
    try:
        _write(journal, written)
    except OSError as error:
        raise StateError(
            f"{journal} cannot be written ({error.strerror}), and no note was changed; check the state folder's "
            "permissions and free space"
        ) from error
    return _finish(written, root, journal, replace)


def refused(plan: Plan) -> Report:
    """Report a plan that is not begun, as some of its files cannot be renamed in."""
    return Report((), plan.refused, (), finished=False)


def recover(root: Path, journal: Path, replace: Replace) -> Report | None:
    """Finish what a crash or a refused file left unfinished; return None where nothing is.

    A damaged journal is discarded: it is complete before the first note is changed, and as long as the
    taxonomy has the renames, they can be applied anew.
    """
    written = _read(journal)
    if written is None:
        journal.unlink(missing_ok=True)
        return None
    return _finish(written, root, journal, replace)


@dataclass(frozen=True, slots=True)
class TakenBack:
    """What taking renames back did: the files that are as they were, and those that were left alone, and why.

    `finished` says that nothing is to be gained by another try: what was left alone was changed since, or is gone.
    """

    restored: tuple[str, ...]
    left: tuple[Refusal, ...]
    finished: bool


def take_back(files: Iterable[RenamedFile], root: Path, replace: Replace) -> TakenBack:
    """Make files what they were before a run, exactly; a file whose renamed part was edited since is left alone."""
    done, left, finished = [], [], True
    for file in files:

        def before(data: bytes, file: RenamedFile = file) -> bytes:
            found = restored(data, file.head_before, file.head_after)
            if found is None:
                raise NoteTagsError("it was changed since; rename the tags there by hand")
            return found

        try:
            _edit(root, file.path, before, replace)
        except (NoteVanishedError, NoteTagsError) as error:
            left.append(Refusal(file.path, str(error)))
        except NoteError as error:
            finished = False
            left.append(Refusal(file.path, str(error)))
        else:
            done.append(file.path)
    return TakenBack(tuple(done), tuple(left), finished)


def _finish(written: _Journal, root: Path, journal: Path, replace: Replace) -> Report:
    changed, refused, vanished = [], [], []
    rules = dict(written.renames)

    def edit(path: str, edited: Callable[[bytes], bytes]) -> None:
        try:
            if _edit(root, path, edited, replace):
                changed.append(path)
        except NoteVanishedError:
            vanished.append(path)
        except (NoteError, NoteTagsError, TaxonomyError) as error:
            refused.append(Refusal(path, str(error)))

    for path in written.notes:
        edit(path, lambda data: rename_tags(data, rules))
    if not refused:
        edit(written.taxonomy, lambda data: _taxonomy_without(data, written.renames))
    if not refused:
        journal.unlink(missing_ok=True)
        sync_folder(journal.parent)
    return Report(tuple(changed), tuple(refused), tuple(vanished), finished=not refused)


def _edit(root: Path, path: str, edited: Callable[[bytes], bytes], replace: Replace) -> bool:
    """Replace a file by what is made of it; say whether it changed. Raises NoteError, and what `edited` raises."""
    data = vault.read(root, path, _LIMIT).data
    after = edited(data)
    if after == data:
        return False
    if replace(path, data, after) is not None:
        # What is there may be half of a save.
        raise NoteError(f"{path!r} is being written to just now; try again when it is quiet")
    return True


def _taxonomy_without(data: bytes, renames: Iterable[tuple[str, str]]) -> bytes:
    """Take applied renames out of a taxonomy's bytes. Raises TaxonomyError."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise TaxonomyError(f"the taxonomy is not UTF-8 at byte {error.start}; save it as UTF-8") from error
    top = "\ufeff" if text.startswith("\ufeff") else ""
    return (top + without_renames(text.removeprefix(top), tuple(renames))).encode("utf-8")


# The journal


def _write(journal: Path, written: _Journal) -> None:
    """Write the journal so that it is there, whole, before anything else is written."""
    content = json.dumps(asdict(written))
    journal.parent.mkdir(parents=True, exist_ok=True)
    sealed = {"sha256": hashlib.sha256(content.encode("ascii")).hexdigest(), "content": content}
    write_atomic(journal, json.dumps(sealed).encode("ascii"))
    sync_folder(journal.parent)


def _read(journal: Path) -> _Journal | None:
    """Return the journal, or None where there is none or it is damaged."""
    try:
        sealed = json.loads(journal.read_bytes())
        content = sealed["content"]
        if hashlib.sha256(content.encode("ascii")).hexdigest() != sealed["sha256"]:
            return None
        written: Mapping[str, list[list[str]]] = json.loads(content)
    except (FileNotFoundError, ValueError, LookupError, TypeError, AttributeError):
        return None
    pairs = tuple((old, new) for old, new in written["renames"])
    return _Journal(pairs, str(written["taxonomy"]), tuple(str(path) for path in written["notes"]))
