"""Look at a vault that may have no index yet: which notes it has, where, and with which tags."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from unicodedata import normalize

from pipelines import domains
from pipelines.domains import Registry
from pipelines.errors import NoteError
from pipelines.formats import NAMES, format_of
from pipelines.indexing.parse import is_heavy
from pipelines.indexing.reconcile import rules_of
from pipelines.model import FoundFile
from pipelines.notes.encodings import decode
from pipelines.notes.frontmatter import read_frontmatter, read_properties
from pipelines.notes.markdown import read_note
from pipelines.vault import files
from pipelines.vault.files import disk_key
from pipelines.vault.scan import scan_vault

_MOST_READ = 5_000
"""Upper bound on the notes whose tags are read: about ten seconds of reading."""
_LARGEST_READ = 1_000_000  # bytes
# Also `99 Templates` and `_templates_`, as vaults are often sorted.
_NO_NOTES_INSIDE = re.compile(r"[\W\d_]*(?:templates?|trash)[\W_]*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class SeenNote:
    """A note on disk with the tags that were read from it."""

    file: FoundFile
    tags: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Survey:
    """The notes of a vault that no rule ignores, its domains, and how many of the notes were read for their tags.

    `others` are the paths of files that could be indexed, but whose format no domain names.
    """

    root: Path
    registry: Registry
    notes: tuple[SeenNote, ...]
    read: int
    others: tuple[str, ...] = ()

    def without(self, folders: Collection[str]) -> Survey:
        """Return the same survey without the notes in some folders, named as they are on disk."""
        left_out = frozenset(folders)
        left = (note for note in self.notes if left_out.isdisjoint(_folders_around(note.file.raw)))
        keys = frozenset(map(disk_key, left_out))
        others = (path for path in self.others if keys.isdisjoint(_folders_around(path)))
        return replace(self, notes=tuple(left), others=tuple(others))

    def other_formats(self) -> dict[str, int]:
        """Return the number of files of each format that could be indexed, in the order of the table of formats."""
        counts = Counter(form.name for path in self.others if (form := format_of(path)))
        return {name: counts[name] for name in NAMES if counts[name]}

    def top_folders(self) -> dict[str, int]:
        """Return the number of notes in each top-level folder (as on disk), those with most notes first.

        Folders whose names differ only in their Unicode form count as one.
        """
        counts: Counter[str] = Counter()
        on_disk: dict[str, str] = {}
        for note in self.notes:
            folder, inside, _ = note.file.raw.partition("/")
            if inside:
                counts[normalize("NFC", folder)] += 1
                on_disk.setdefault(normalize("NFC", folder), folder)
        return {
            on_disk[key]: count for key, count in sorted(counts.items(), key=lambda one: (-one[1], one[0]))
        }

    def ignorable(self) -> dict[str, int]:
        """Return the folders of templates and of deleted notes, as on disk, with the number of notes in each."""
        found: Counter[str] = Counter()
        for note in self.notes:
            parts = note.file.raw.split("/")[:-1]
            at = next((n for n, part in enumerate(parts, 1) if _NO_NOTES_INSIDE.fullmatch(part)), 0)
            if at and not {"\r", "\n"} & set(note.file.raw):  # no line can name it
                found["/".join(parts[:at])] += 1
        return dict(sorted(found.items()))


def survey(root: Path) -> Survey:
    """Walk a vault as the scanner does and read the tags of its newest notes; nothing is written.

    Raises VaultNotFoundError, and DomainsFileError if there is an invalid `_domains.yaml`.
    """
    registry = domains.load(root)
    scan = scan_vault(root, rules_of(root, registry))
    configuration = {path for domain in registry.domains for path in domain.configuration}
    found = [file for path, file in scan.notes.items() if path not in configuration]
    found.sort(key=lambda file: (-file.mtime_ns, file.path))
    notes = (
        SeenNote(file, _tags_of(root, file) if number < _MOST_READ else ())
        for number, file in enumerate(found)
    )
    return Survey(root, registry, tuple(notes), min(len(found), _MOST_READ), tuple(scan.others))


def _tags_of(root: Path, file: FoundFile) -> tuple[str, ...]:
    """Return a note's tags; of a note that is expensive to parse only those in its frontmatter."""
    if not files.is_markdown(file.path):
        return ()
    try:
        data = files.read(root, file.raw, _LARGEST_READ).data
    except (NoteError, OSError):
        return ()  # the index will park it with its reason
    if is_heavy(data):
        return read_properties(read_frontmatter(decode(data)[0]).values, ()).tags
    return read_note(file.path, data).tags


def _folders_around(path: str) -> Iterator[str]:
    return accumulate(path.split("/")[:-1], "{}/{}".format)
