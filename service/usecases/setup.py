"""Plan and write the first files of a vault: its domains, a starting vocabulary, what to ignore."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from unicodedata import normalize

import yaml

from pipelines import domains
from pipelines.domains import DOMAINS_FILE, WHOLE_VAULT, Registry
from pipelines.errors import NoteError, NotFoundError, TaxonomyError, UnsafePathError
from pipelines.formats import NAMES, OF_A_NEW_VAULT, FormatName, format_of
from pipelines.indexing.languages import Languages, languages_of
from pipelines.indexing.parse import is_heavy
from pipelines.indexing.reconcile import rules_of
from pipelines.model import FoundFile
from pipelines.notes.encodings import decode
from pipelines.notes.frontmatter import read_frontmatter, read_properties
from pipelines.notes.markdown import read_note
from pipelines.tagging.vocabulary import parse
from pipelines.vault import files, ignore, paths
from pipelines.vault.files import disk_key, is_folder, is_hidden, path_on_disk
from pipelines.vault.identity import DOT_FOLDER
from pipelines.vault.ignore import IGNORE_FILE
from pipelines.vault.scan import scan_vault
from pipelines.vault.write import replace_if_unchanged

# Look at a vault that may have no index yet: which notes it has, where, and with which tags.


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

    `languages` are those of a sample of the notes.

    `others` are the paths of files that could be indexed, but whose format no domain names.
    """

    root: Path
    registry: Registry
    notes: tuple[SeenNote, ...]
    read: int
    languages: Languages
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
    read, languages = min(len(found), _MOST_READ), languages_of(root, found)
    return Survey(root, registry, tuple(notes), read, languages, tuple(scan.others))


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


LEAST_NOTES = 10
"""A folder with fewer notes is not offered as a domain."""
LEAST_USES = 3
"""A tag on fewer notes is not in the starting vocabulary."""
_MOST_TAGS = 200
_MOST_FOLDERS = 20
_REST = WHOLE_VAULT[0].slug
_NOT_IN_A_SLUG = re.compile(r"[^\w-]+")
_LONGEST_SLUG = 30  # characters, which are at most 120 bytes; the reader refuses more than 150
_ENCODING = ("utf-8", "surrogateescape")  # a folder's name may be any bytes

_DOMAINS_HEAD = """\
# Each domain has its own vocabulary, review queue and search settings.
# `legacy` marks the domain that owns every note that no other domain owns.
"""
_TAXONOMY_HEAD = """\
# Tags

Only these tags are proposed for your notes. Describe each after a colon, because proposals depend on it:
`- garden: what grows outside, and how to care for it`

"""


@dataclass(frozen=True, slots=True)
class Choices:
    """What to set up: folders that become domains, folders to ignore (as on disk), and what else to collect.

    `vocabulary`: the tags in use. `documents`: the formats of files that could be indexed.
    """

    domains: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    vocabulary: bool = True
    documents: bool = True


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """A file to create: its path in the vault and its text.

    One that `exists` is left as it is; `lacks` are then the lines that the user has to add.
    """

    path: str
    content: str
    exists: bool = False
    lacks: str = ""


def offered_domains(seen: Survey) -> dict[str, int]:
    """Return the folders that may become domains, with the number of notes in each; none if there are fewer than two.

    A vault that has a `_domains.yaml` is offered none.
    """
    if _exists(seen.root, DOMAINS_FILE):
        return {}
    found = {
        folder: count
        for folder, count in seen.top_folders().items()
        if count >= LEAST_NOTES and _can_be_named(folder)
    }
    return dict(list(found.items())[:_MOST_FOLDERS]) if len(found) > 1 else {}


def offered_formats(seen: Survey) -> dict[str, int]:
    """Return the formats that `formats:` may name, with the number of files of each that are not indexed yet.

    A vault that has a `_domains.yaml` is offered none.
    """
    return {} if _exists(seen.root, DOMAINS_FILE) else seen.other_formats()


def plan(seen: Survey, choices: Choices) -> tuple[PlannedFile, ...]:
    """Return the files to create, and those that exist and stay.

    Raises NotFoundError for a folder that is not in the vault, UnsafePathError for the vault itself and for a folder
    that no line can name, DomainsFileError.
    """
    owned = _in_vault(seen.root, choices.domains, "--domain")
    ignored = _in_vault(seen.root, choices.ignored, "--ignore")
    for folder in owned:
        if not _can_be_named(folder):
            raise UnsafePathError(
                f"--domain {folder!r}: its name is not UTF-8, or looks like an escaped byte; rename the folder"
            )
    left = seen.without(ignored)
    files: list[PlannedFile] = []
    registry = seen.registry
    others = left.others if choices.documents and offered_formats(left) else ()
    if _exists(seen.root, DOMAINS_FILE):
        files.append(PlannedFile(DOMAINS_FILE, "", lacks=_lacking(owned, registry)))
    elif owned or others:
        text = _domains_text(owned, others)
        files.append(PlannedFile(DOMAINS_FILE, text))
        registry = Registry(domains.parse(text), text)
    if choices.vocabulary:
        files += _vocabularies(left, registry)
    if _exists(seen.root, IGNORE_FILE):
        # A folder that the file ignores already has no notes in the survey.
        lacking = [folder for folder in ignored if len(seen.without([folder]).notes) < len(seen.notes)]
        files.append(PlannedFile(IGNORE_FILE, "", lacks=_ignoring(lacking)))
    elif ignored:
        files.append(PlannedFile(IGNORE_FILE, f"{ignore.HEAD}\n{_ignoring(ignored)}"))
    return tuple(replace(file, exists=_exists(seen.root, file.path)) for file in files)


def _in_vault(root: Path, folders: Sequence[str], option: str) -> tuple[str, ...]:
    """Return folders without empty and `.` parts, each once. Raises NotFoundError, UnsafePathError."""
    found = []
    for folder in folders:
        if not is_folder(root, folder):
            raise NotFoundError(f"there is no folder {folder} in {root}; give its path as it is in the vault")
        parts = [part for part in folder.split("/") if part not in ("", ".")]
        if not parts:
            raise UnsafePathError(f"{option} {folder!r} is the vault itself; name a folder in it")
        found.append("/".join(parts))
    return tuple(dict.fromkeys(found))


def _can_be_named(folder: str) -> bool:
    """Say whether `_domains.yaml` can name a folder: the keys of notes spell out bytes that are not UTF-8."""
    return disk_key(folder) == normalize("NFC", folder)


def write(root: Path, files: Iterable[PlannedFile]) -> Iterator[tuple[PlannedFile, bool]]:
    """Create each file that does not exist; yield it, and whether it was written: a file that appeared stays.

    Raises NoteError if a file cannot be written.
    """
    # Only a file that is replaced is displaced, and none is.
    nowhere = root / DOT_FOLDER
    for file in files:
        if not file.exists:
            data = file.content.encode(*_ENCODING)
            yield file, replace_if_unchanged(root, file.path, None, data, nowhere) is None


def _exists(root: Path, path: str) -> bool:
    """Say whether anything has this path; what is behind a link counts, because nothing may be written there."""
    try:
        paths.look(root, path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except (OSError, UnsafePathError):
        return True
    return True


class _InOneLine(list[str]):
    """A list that is written in brackets."""


class _Writer(yaml.SafeDumper):
    """Writes mappings in blocks, and lists of formats in a line each."""


_Writer.add_representer(
    _InOneLine,
    lambda writer, names: writer.represent_sequence("tag:yaml.org,2002:seq", names, flow_style=True),
)


def _domains_text(folders: Sequence[str], others: Sequence[str]) -> str:
    """Return a `_domains.yaml` in which each folder is a domain, and one more domain owns all other notes.

    Each domain has the formats of its files among `others`, beside those of a new vault.
    """
    taken, wanted = {_REST}, dict[str, set[FormatName]]()
    values: dict[str, dict[str, object]] = {_REST: {"legacy": True}}
    for folder in (normalize("NFC", one) for one in folders):
        values[_slug(folder, taken)] = {"path": folder}
    # PyYAML quotes what would be read as something else, but reads Unicode's line breaks back as spaces unless they
    # are escaped.
    readable = all(folder.isprintable() for folder in folders)
    text = _dumped(values, readable=readable)
    registry = Registry(domains.parse(text), text)
    for path in others:
        owner, form = registry.owner(path), format_of(path)
        if owner and form:
            wanted.setdefault(owner.slug, set(OF_A_NEW_VAULT)).add(form.name)
    for slug, names in wanted.items():
        values[slug]["formats"] = _InOneLine(name for name in NAMES if name in names)
    return _DOMAINS_HEAD + _dumped(values, readable=readable)


def _ignoring(folders: Iterable[str]) -> str:
    return "".join(f"{ignore.line_for(folder, is_folder=True)}\n" for folder in folders)


def _lacking(folders: Sequence[str], registry: Registry) -> str:
    """Return the lines that an existing `_domains.yaml` lacks for these folders to be domains."""
    taken, owned = {domain.slug for domain in registry.domains}, {domain.path for domain in registry.domains}
    missing = [folder for folder in (normalize("NFC", one) for one in folders) if folder not in owned]
    values: dict[str, dict[str, object]] = {_slug(folder, taken): {"path": folder} for folder in missing}
    return _dumped(values, readable=all(map(str.isprintable, missing))) if values else ""


def _dumped(values: dict[str, dict[str, object]], *, readable: bool) -> str:
    return yaml.dump(values, Dumper=_Writer, allow_unicode=readable, sort_keys=False, width=1_000)


def _slug(folder: str, taken: set[str]) -> str:
    """Return a name for a domain, like its folder's and unlike those taken, to which it is added."""
    base = _NOT_IN_A_SLUG.sub("-", folder).strip("-_")[:_LONGEST_SLUG].lower()
    base = base if base.replace("-", "").replace("_", "").isalnum() else "folder"
    slug, number = base, 2
    while slug in taken:
        slug, number = f"{base}-{number}", number + 1
    taken.add(slug)
    return slug


def _vocabularies(seen: Survey, registry: Registry) -> Iterator[PlannedFile]:
    """Yield a vocabulary for the domains that have tags in use; domains may share one."""
    places = {domain.slug: domain.within(domain.taxonomy) for domain in registry.domains}
    uses: dict[str, Counter[str]] = {place: Counter() for place in places.values()}
    spelled: Counter[str] = Counter()
    for note in seen.notes:
        spelled.update(note.tags)
        if owner := registry.owner(note.file.path):
            uses[places[owner.slug]].update({tag.casefold() for tag in note.tags})
    spelling = {tag.casefold(): tag for tag, _ in reversed(spelled.most_common())}
    for place, counts in uses.items():
        if (tags := _in_use(counts, spelling)) and _is_free(seen.root, place, registry):
            items = "".join(f"- {tag}\n" for tag in tags)
            yield PlannedFile(path_on_disk(seen.root, place), _TAXONOMY_HEAD + items)


def _in_use(uses: Counter[str], spelling: dict[str, str]) -> list[str]:
    """Return the tags that enough notes have, in alphabetical order, each in its most frequent spelling."""
    found = [spelling[tag] for tag, count in uses.most_common() if count >= LEAST_USES]
    return sorted(filter(_is_item, found[:_MOST_TAGS]), key=str.casefold)


def _is_item(tag: str) -> bool:
    """Say whether a list item is read as this tag: `---` is a line, not a tag."""
    try:
        return [entry.tag for entry in parse(_TAXONOMY_HEAD + f"- {tag}\n").entries] == [tag]
    except TaxonomyError:
        return False


def _is_free(root: Path, place: str, registry: Registry) -> bool:
    """Say whether a vocabulary may be created there: its folder exists, and nothing else uses the path."""
    if is_hidden(place) or place in {DOMAINS_FILE, *registry.generated}:
        return False
    folder = path_on_disk(root, place).rpartition("/")[0]
    return not folder or is_folder(root, folder)
