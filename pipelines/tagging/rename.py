"""Apply a taxonomy's renames to all notes of its domain: plan them, record them in a journal, then carry them out.

The journal contains the renames and the notes' paths, but not their bytes. Renaming is idempotent: whatever a
crash or a person did to a note, it is renamed again from its current content. So an interrupted run is always
finished, and what a person wrote meanwhile stays. The taxonomy is changed after the last note, and the journal is
deleted when all is done. A run over several domains is recorded as a whole before any of its journals is written.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pipelines.errors import NoteError, NoteTagsError, NoteVanishedError, StateError, TaxonomyError
from pipelines.state.tags import RenamedFile
from pipelines.tagging.apply import restored
from pipelines.tagging.note_tags import has_none, rename_tags
from pipelines.tagging.vocabulary import without_renames
from pipelines.vault import files as vault
from pipelines.vault.atomic import sync_folder, write_atomic

Replace = Callable[[str, bytes, bytes], bytes | None]
"""Replace a file of the vault, if its content still is the second argument, by the third.

Return None, or the content found instead. Raises NoteError if the file cannot be replaced.
"""

_LIMIT = 1_000_000_000  # bytes: a started run is finished even if the limit in the settings was lowered


@dataclass(frozen=True, slots=True)
class FileEdit:
    """A file that renaming changes, with its bytes before and after."""

    path: str
    before: bytes
    after: bytes


@dataclass(frozen=True, slots=True)
class Refusal:
    """A file that has to be changed but cannot be, and the reason."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What renaming would do. `changes` are those of notes, `taxonomy` is the file that contains the renames."""

    renames: tuple[tuple[str, str], ...]
    taxonomy: str
    changes: tuple[FileEdit, ...]
    refused: tuple[Refusal, ...]


@dataclass(frozen=True, slots=True)
class RenameReport:
    """The result of a run: the files changed, those that could not be changed, the notes that no longer exist.

    `finished`: the renames are applied and removed from the taxonomy. If it is false and the run had begun, the
    refused files are still pending: the next `recover` tries them again.
    """

    changed: tuple[str, ...]
    refused: tuple[Refusal, ...]
    vanished: tuple[str, ...]
    finished: bool


@dataclass(frozen=True, slots=True)
class _Journal:
    """What is recorded before the first note is changed; paths are relative to the vault."""

    renames: tuple[tuple[str, str], ...]
    taxonomy: str
    notes: tuple[str, ...]
    at: str = ""


def plan(
    notes: Iterable[tuple[str, bytes]], renames: Iterable[tuple[str, str]], taxonomy: tuple[str, bytes]
) -> Plan:
    """Return what renames (old, new) would change in notes and in the taxonomy that contains them.

    Notes and taxonomy are (path on disk relative to the vault, bytes); the taxonomy is skipped among the
    notes, and so are documents, whose tags are not in frontmatter.
    """
    pairs = tuple(renames)
    changes, refused = [], []
    for path, data in notes:
        if path == taxonomy[0] or not vault.is_markdown(path):
            continue
        try:
            after = rename_tags(data, dict(pairs))
        except NoteTagsError as error:
            refused.append(Refusal(path, str(error)))
            continue
        if after != data:
            changes.append(FileEdit(path, data, after))
    try:
        _taxonomy_without(taxonomy[1], pairs)
    except TaxonomyError as error:
        refused.append(Refusal(taxonomy[0], str(error)))
    return Plan(pairs, taxonomy[0], tuple(changes), tuple(refused))


def begin(run: Path, planned: Mapping[Path, Plan], at: str) -> None:
    """Record what plans without refused files will do, each in its journal: all of them or none; `recover` does it.

    A plan with a refused file is not started, because a tag renamed in all notes but one would become two tags, and
    the refused note is quickly corrected. `run` is a file beside the journals, and `at` the time of the run. Raises
    StateError if an earlier run is not finished, or if nothing can be written.
    """
    for journal in planned:
        if journal.exists():
            raise StateError(
                f"the renames in {journal} are not finished; correct the notes that they report, and finish them"
                " first"
            )
    written = {
        journal.name: asdict(
            _Journal(one.renames, one.taxonomy, tuple(change.path for change in one.changes), at)
        )
        for journal, one in planned.items()
    }
    try:
        _write(run, written)
    except OSError as error:
        raise StateError(
            f"{run} cannot be written ({error.strerror}), and no note was changed; check the state folder's "
            "permissions and free space"
        ) from error
    distribute(run)


def distribute(run: Path) -> None:
    """Write the journals of a run that was recorded, if there is one. Raises StateError."""
    if not run.exists():
        return
    try:
        for name, written in (_read(run) or {}).items():
            _write(run.with_name(name), written)
        run.unlink()
        sync_folder(run.parent)
    except OSError as error:
        raise StateError(
            f"the renames in {run} cannot be begun ({error.strerror}); check the state folder's permissions and free"
            " space"
        ) from error


def began_at(journal: Path) -> str:
    """Return the time of the run that a journal belongs to, or "" if it is not known."""
    written = _read_journal(journal)
    return written.at if written else ""


def recover(root: Path, journal: Path, replace: Replace) -> RenameReport | None:
    """Finish what a crash or a refused file left unfinished; return None if nothing is.

    A damaged journal is discarded. The journal is complete before the first note is changed, and while the taxonomy
    has the renames, they can be applied again.
    """
    written = _read_journal(journal)
    if written is None:
        journal.unlink(missing_ok=True)
        return None
    return _finish(written, root, journal, replace)


@dataclass(frozen=True, slots=True)
class UndoneRenames:
    """The result of undoing renames: the files restored, and those left alone with the reason.

    `finished`: another try would not help, because the files left alone were changed since or are gone.
    """

    restored: tuple[str, ...]
    left: tuple[Refusal, ...]
    finished: bool


def take_back(
    files: Iterable[RenamedFile], renames: Mapping[str, str], taxonomy: str, root: Path, replace: Replace
) -> UndoneRenames:
    """Restore files exactly as they were before a run; a file whose renamed part was edited since is left alone.

    `renames` are those of the run (old name -> new), and `taxonomy` is the file that contained them.
    """
    done, left, finished = [], [], True
    for file in files:

        def before(data: bytes, file: RenamedFile = file) -> bytes:
            found = restored(data, file.head_before, file.head_after)
            if found is None and file.path != taxonomy and has_none(data, renames.values()):
                raise NoteTagsError("it no longer has the renamed tags")
            if found is None:
                raise NoteTagsError("it has changed since; rename its tags by hand")
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
    return UndoneRenames(tuple(done), tuple(left), finished)


def _finish(written: _Journal, root: Path, journal: Path, replace: Replace) -> RenameReport:
    changed, refused, vanished = [], [], []
    rules = dict(written.renames)

    def edit(path: str, edited: Callable[[bytes], bytes]) -> None:
        try:
            if _edit(root, path, edited, replace):
                changed.append(path)
        except NoteVanishedError:
            vanished.append(path)
        except (NoteError, TaxonomyError) as error:
            refused.append(Refusal(path, str(error)))

    for path in written.notes:
        edit(path, lambda data: rename_tags(data, rules))
    if not refused:
        edit(written.taxonomy, lambda data: _taxonomy_without(data, written.renames))
    if not refused:
        journal.unlink(missing_ok=True)
        sync_folder(journal.parent)
    return RenameReport(tuple(changed), tuple(refused), tuple(vanished), finished=not refused)


def _edit(root: Path, path: str, edited: Callable[[bytes], bytes], replace: Replace) -> bool:
    """Replace a file by its edited version; say whether it changed. Raises NoteError, and what `edited` raises."""
    data = vault.read(root, path, _LIMIT).data
    after = edited(data)
    if after == data:
        return False
    if replace(path, data, after) is not None:
        # The content found may be half of a save.
        raise NoteError(f"{path!r} is being written to; try again when it is quiet")
    return True


def _taxonomy_without(data: bytes, renames: Iterable[tuple[str, str]]) -> bytes:
    """Remove applied renames from a taxonomy's bytes. Raises TaxonomyError."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise TaxonomyError(f"the taxonomy is not UTF-8 at byte {error.start}; save it as UTF-8") from error
    top = "\ufeff" if text.startswith("\ufeff") else ""
    return (top + without_renames(text.removeprefix(top), tuple(renames))).encode("utf-8")


# The journal


def _write(file: Path, written: Mapping[str, Any]) -> None:
    """Write a journal or a run durably before anything else is written."""
    content = json.dumps(written)
    file.parent.mkdir(parents=True, exist_ok=True)
    sealed = {"sha256": hashlib.sha256(content.encode("ascii")).hexdigest(), "content": content}
    write_atomic(file, json.dumps(sealed).encode("ascii"))
    sync_folder(file.parent)


def _read(file: Path) -> dict[str, Any] | None:
    """Return what was written, or None if there is nothing or it is damaged."""
    try:
        sealed = json.loads(file.read_bytes())
        content = sealed["content"]
        if hashlib.sha256(content.encode("ascii")).hexdigest() != sealed["sha256"]:
            return None
        written: dict[str, Any] = json.loads(content)
    except (FileNotFoundError, ValueError, LookupError, TypeError, AttributeError):
        return None
    return written


def _read_journal(journal: Path) -> _Journal | None:
    written = _read(journal)
    if written is None:
        return None
    pairs = tuple((old, new) for old, new in written["renames"])
    notes = tuple(str(path) for path in written["notes"])
    return _Journal(pairs, str(written["taxonomy"]), notes, written.get("at", ""))
