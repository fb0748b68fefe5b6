"""Write and restore backups: one tar file with `state.db`, every domain's cache and a manifest, with a digest."""

from __future__ import annotations

import fcntl
import hashlib
import io
import os
import re
import secrets
import shutil
import tarfile
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from pipelines.errors import (
    BackupDamagedError,
    BackupError,
    CacheError,
    EverindexError,
    NotABackupError,
    OtherVaultError,
)
from pipelines.maintenance import databases
from pipelines.maintenance.databases import foreign_in_cache, foreign_in_state
from pipelines.model import now_iso
from pipelines.state.state import STATE_FILE, State, cache_name, numbered_caches
from pipelines.vault.atomic import sync_folder

# The manifest of a backup.


MANIFEST = "manifest.json"


class _ManifestModel(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class CacheMember(_ManifestModel):
    """A domain's cache in a backup."""

    domain: Annotated[str, Field(pattern=r"^[\w-]{1,100}$")]
    number: Annotated[int, Field(ge=1)]
    model: str
    dimension: int
    schema_version: int
    size: Annotated[int, Field(ge=1)]
    sha256: str

    @property
    def name(self) -> str:
        """The name of the cache's file."""
        return cache_name(self.domain, self.number)


class StateMember(_ManifestModel):
    """`state.db` in a backup."""

    size: Annotated[int, Field(ge=1)]
    sha256: str
    name: Literal["state.db"] = "state.db"


class Manifest(_ManifestModel):
    """What a backup contains, of which vault, and when and by which version it was made."""

    format: Literal[1] = 1
    everindex: str
    created: str
    vault_id: str
    root: str
    state: StateMember
    caches: tuple[CacheMember, ...]

    @property
    def members(self) -> tuple[StateMember | CacheMember, ...]:
        """The members that follow the manifest in the archive, in this order."""
        return (self.state, *self.caches)

    @field_validator("caches")
    @classmethod
    def _one_a_domain(cls, caches: tuple[CacheMember, ...]) -> tuple[CacheMember, ...]:
        if len({cache.domain for cache in caches}) < len(caches):
            raise ValueError("a domain has two caches")
        return caches


# Work folders of backups, restores and comparisons, and the removal of those left behind by killed runs.


_PREFIXES = (".backup-", ".restore-", ".salvage-", ".compare-")
_OUTSIDE = "outside"
# Upper bound on the time between creating a folder and locking it.
_YOUNG_SECONDS = 10.0
# How long an interrupted rebuild can be resumed.
_INTERRUPTED_SECONDS = 24 * 3600.0
_BESIDE = re.compile(r"\..+\.[0-9a-f]{8}\.tmp")


@contextmanager
def work_folder(state: Path, purpose: str) -> Iterator[Path]:
    """Create a folder in the state folder for a `backup`, `restore`, `salvage` or `compare`; delete it at the end.

    It is locked while the run lives.
    """
    folder = Path(tempfile.mkdtemp(dir=state, prefix=f".{purpose}-"))
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def claim(folder: Path, *outside: Path) -> None:
    """Record files outside a run's folder that are useless without the run, before they are created."""
    file = folder / _OUTSIDE
    with file.open("ab") as out:
        out.write(b"".join(os.fsencode(path.absolute()) + b"\0" for path in outside))
        out.flush()
        os.fsync(out.fileno())


def sweep_leftovers(folder: Path, state: State) -> list[str]:
    """Delete what killed runs left in a state folder and beside backups; return the names of what was deleted.

    Locked folders are in use. A cache is deleted only if it is newer than its domain's current one, and came from a
    killed restore or from a rebuild interrupted a day ago. Raises CacheError.
    """
    gone = []
    ahead = {
        file
        for domain, number, file in numbered_caches(folder)
        # Not those that a vault had in files before its state was in PostgreSQL.
        if number > state.cache_number(domain) and file == state.numbered(domain, number)
    }
    for dead in filter(_is_dead, _folders(folder)):
        for file in _claimed(dead):
            if _BESIDE.fullmatch(file.name) or file in ahead:
                gone += delete_database(file)
        shutil.rmtree(dead, ignore_errors=True)
        gone.append(dead.name)
    for file in ahead:
        if _age(file) > _INTERRUPTED_SECONDS:
            gone += delete_database(file)
    return gone


def _folders(state: Path) -> list[Path]:
    return [path for path in state.iterdir() if path.name.startswith(_PREFIXES)]


def _is_dead(folder: Path) -> bool:
    """Say whether a folder's run is over: nothing locks it, and it was not just created."""
    try:
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return abs(time.time() - os.fstat(lock).st_mtime) > _YOUNG_SECONDS
    except OSError:
        return False
    finally:
        os.close(lock)


def _claimed(folder: Path) -> list[Path]:
    with suppress(OSError):
        return [Path(os.fsdecode(name)) for name in (folder / _OUTSIDE).read_bytes().split(b"\0") if name]
    return []


def _age(file: Path) -> float:
    """Return how many seconds ago a cache, or its log, was written to."""
    written = []
    for part in database_files(file):
        with suppress(FileNotFoundError):
            written.append(part.stat().st_mtime)
    return abs(time.time() - max(written, default=time.time()))


def database_files(file: Path) -> list[Path]:
    """Return the files that a database may consist of."""
    return [file, *(file.with_name(file.name + end) for end in ("-wal", "-shm"))]


def delete_database(file: Path) -> list[str]:
    """Delete a database with its log, unless it is a link or not there; return its name."""
    if not file.is_file() or file.is_symlink():
        return []
    for part in database_files(file):
        part.unlink(missing_ok=True)
    return [file.name]


_LARGEST_MANIFEST = 1_000_000
_CHUNK = 1 << 20
# It follows the tar's end, which tar programs do not read.
_SEAL = b"everindex backup, sha256 "
_SEAL_LENGTH = len(_SEAL) + 64 + 1


def write_backup(
    target: Path,
    state: Path,
    domains: Iterable[str],
    *,
    vault_id: str,
    root: Path,
    version: str,
    attention: bool = False,
    replaces: bool = False,
) -> Manifest:
    """Write `state.db` and the current caches of these domains into one file, while everything may be in use.

    Which notes were chosen is left out unless `attention` asks for it; only with `replaces` may the file exist.
    Raises BackupError, CacheCorruptError: damaged databases are not backed up.
    """
    _require_free(target, replaces=replaces)
    with _clear_errors(target), work_folder(state, "backup") as folder:
        source = State(state)
        numbers = {domain: source.cache_number(domain) for domain in domains}
        sweep_leftovers(state, source)
        source.close()
        _copy_checked(state / STATE_FILE, folder / STATE_FILE)
        if not attention:
            databases.forget_choices(folder / STATE_FILE)
        manifest = Manifest(
            everindex=version,
            created=now_iso("seconds"),
            vault_id=vault_id,
            root=str(root),
            state=StateMember(size=(folder / STATE_FILE).stat().st_size, sha256=_digest(folder / STATE_FILE)),
            caches=tuple(_copy_cache(state, folder, domain, n) for domain, n in sorted(numbers.items())),
        )
        _write_archive(target, folder, manifest)
    return manifest


def _require_free(target: Path, *, replaces: bool) -> None:
    if target.is_dir():
        raise BackupError(f"{target} is a folder; name the file to write, as in {target / 'everindex.tar'}")
    if not target.parent.is_dir():
        raise BackupError(f"{target.parent} is not a folder; make it first, or name a file in another one")
    if not replaces and os.path.lexists(target):
        raise BackupError(f"{target} exists and was kept; name another file, or replace it with --force")


@contextmanager
def _clear_errors(file: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        where = error.filename or file
        raise BackupError(
            f"{where} cannot be used ({error.strerror}); check the path, its permissions and the space left"
        ) from error


def _copy_cache(state: Path, folder: Path, domain: str, number: int) -> CacheMember:
    name = cache_name(domain, number)
    if not (state / name).exists():
        raise BackupError(
            f"{state / name} does not exist yet; `everindex up` or `everindex index` creates it"
        )
    copied = folder / name
    _copy_checked(state / name, copied)
    meta, schema = databases.cache_meta(copied)
    return CacheMember(
        domain=domain,
        number=number,
        model=meta.model,
        dimension=meta.dimension,
        schema_version=schema,
        size=copied.stat().st_size,
        sha256=_digest(copied),
    )


def _copy_checked(source: Path, target: Path) -> None:
    databases.copy(source, target)
    databases.check(target)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _write_archive(target: Path, folder: Path, manifest: Manifest) -> None:
    """Write next to the target, and replace it once everything is on the disk; only the owner may read it."""
    beside = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    claim(folder, beside)
    try:
        with os.fdopen(os.open(beside, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600), "w+b") as file:
            with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as tar:
                data = manifest.model_dump_json(indent=2).encode()
                tar.addfile(_entry(MANIFEST, len(data)), io.BytesIO(data))
                for member in manifest.members:
                    with (folder / member.name).open("rb") as content:
                        tar.addfile(_entry(member.name, member.size), content)
            file.seek(0)
            seal = hashlib.file_digest(file, "sha256").hexdigest()
            file.seek(0, os.SEEK_END)
            file.write(_SEAL + seal.encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        beside.replace(target)
        sync_folder(target.parent)
    finally:
        beside.unlink(missing_ok=True)


def _entry(name: str, size: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = size, 0o600
    return entry


def restore_backup(file: Path, state: Path, *, vault_id: str | None, root: Path) -> Mapping[str, Path]:
    """Put a backup's databases into a state folder that no process writes to; return each domain's new cache.

    It has to be a backup of the vault with this id; None: any vault's.
    A cache gets the number after the highest existing one, so that no file is overwritten. `state.db` is replaced
    last, in one transaction; a damaged one is set aside. Raises NotABackupError, BackupDamagedError, OtherVaultError,
    BackupError, and then changes nothing.
    """
    with _clear_errors(file), work_folder(state, "restore") as folder:
        manifest = _unpack(file, folder, vault_id, root)
        _check_unpacked(file, folder, manifest)
        placed = {c.domain: _free_name(state, c.domain) for c in manifest.caches}
        databases.set_numbers(folder, state, {domain: number for domain, (number, _) in placed.items()})
        paths = {domain: path for domain, (_, path) in placed.items()}
        claim(folder, *paths.values())
        try:
            for member in manifest.caches:
                (folder / member.name).rename(paths[member.domain])
            sync_folder(state)
            databases.replace_state(folder / STATE_FILE, state)
        except BaseException:
            for path in paths.values():
                path.unlink(missing_ok=True)
            raise
    return paths


def _unpack(file: Path, folder: Path, vault_id: str | None, root: Path) -> Manifest:
    """Check every byte of an archive, and unpack it into a temporary folder."""
    with file.open("rb") as raw:
        _check_seal(file, raw)
        raw.seek(0)
        try:
            with tarfile.open(fileobj=raw, mode="r:") as tar:
                manifest = _read_manifest(file, tar)
                if vault_id not in (None, manifest.vault_id):
                    raise OtherVaultError(
                        f"{file} is a backup of the vault {manifest.vault_id} ({manifest.root}), and {root} is "
                        f"{vault_id}; name that vault with --vault. If these are its notes, add --same-notes"
                    )
                for member in manifest.members:
                    _unpack_member(file, tar, member, folder / member.name)
                if tar.next() is not None:
                    raise NotABackupError(
                        f"{file} has more members than its manifest lists; it was not restored"
                    )
        except tarfile.TarError as error:
            raise NotABackupError(f"{file} is not a backup of Everindex ({error})") from error
    return manifest


def _check_seal(file: Path, raw: IO[bytes]) -> None:
    end = raw.seek(0, os.SEEK_END) - _SEAL_LENGTH
    raw.seek(max(0, end))
    seal = raw.read()
    if end < 0 or not seal.startswith(_SEAL):
        raise NotABackupError(
            f"{file} is not a backup of Everindex, or its end is missing; choose another file"
        )
    raw.seek(0)
    digest, left = hashlib.sha256(), end
    while left:
        part = raw.read(min(_CHUNK, left))
        digest.update(part)
        left -= len(part)
    if seal != _SEAL + digest.hexdigest().encode() + b"\n":
        raise BackupDamagedError(f"{file} is damaged: it changed since it was written; choose another backup")


def _read_manifest(file: Path, tar: tarfile.TarFile) -> Manifest:
    try:
        data = _open_member(file, tar, MANIFEST, _LARGEST_MANIFEST).read()
        return Manifest.model_validate_json(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise NotABackupError(
            f"{file} is not a backup that this version can read ({MANIFEST}: {where}: {first['msg']})"
        ) from error


def _open_member(file: Path, tar: tarfile.TarFile, name: str, largest: int) -> IO[bytes]:
    """Open the next member if it is the expected one."""
    entry = tar.next()
    content = tar.extractfile(entry) if entry is not None and entry.type == tarfile.REGTYPE else None
    if entry is None or content is None or entry.name != name or entry.size > largest or entry.issparse():
        found = entry.name if entry else "nothing"
        raise NotABackupError(f"{file} has {found!r} instead of {name!r}; it was not restored")
    return content


def _unpack_member(file: Path, tar: tarfile.TarFile, member: StateMember | CacheMember, target: Path) -> None:
    digest, size = hashlib.sha256(), 0
    with _open_member(file, tar, member.name, member.size) as content, target.open("xb") as out:
        while part := content.read(_CHUNK):
            digest.update(part)
            size += out.write(part)
        os.fsync(out.fileno())
    if (size, digest.hexdigest()) != (member.size, member.sha256):
        raise BackupDamagedError(f"{file} is damaged: {member.name} has changed; choose another backup")


def _check_unpacked(file: Path, folder: Path, manifest: Manifest) -> None:
    """Refuse databases that SQLite cannot read, or that differ from what the manifest says."""
    try:
        _refuse_foreign(file, folder, manifest)
        for member in manifest.members:
            databases.check(folder / member.name)
        for cache in manifest.caches:
            databases.free_all_rows(folder / cache.name)
            meta, schema = databases.cache_meta(folder / cache.name)
            if (meta.model, meta.dimension, schema) != (cache.model, cache.dimension, cache.schema_version):
                raise CacheError(f"{cache.name} has {meta.model}, not {cache.model}")
    except NotABackupError:
        raise
    except EverindexError as error:
        raise BackupDamagedError(f"{file} cannot be restored: {error}") from error


def _refuse_foreign(file: Path, folder: Path, manifest: Manifest) -> None:
    """Refuse tables, triggers, views and indexes that are not ours, before any database is opened for use."""
    found: dict[str, str | None] = {STATE_FILE: foreign_in_state(folder / STATE_FILE)}
    for cache in manifest.caches:
        found[cache.name] = foreign_in_cache(folder / cache.name, cache.dimension, cache.schema_version)
    for name, foreign in found.items():
        if foreign:
            raise NotABackupError(
                f"{file} was not restored: its {name} has {foreign}. It was altered, or made by another version of"
                " Everindex; choose another backup"
            )


def _free_name(state: Path, domain: str) -> tuple[int, Path]:
    """Return the number and path after every cache of a domain, counting files that SQLite left behind."""
    taken = {path.name.split(".")[1] for path in state.glob(f"cache-{domain}.*.db*")}
    number = max((int(n) for n in taken if n.isdecimal()), default=0) + 1
    return number, state / cache_name(domain, number)
