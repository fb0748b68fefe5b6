"""Read the commit dates of a vault's notes from its git repository, without trusting the repository.

The vault may come from a stranger, and git runs programs named in a repository's configuration. So git runs in an
empty repository of our own that borrows only the objects. Besides these, only HEAD, the index and the list of shallow
commits are used, and read like any file of a vault. The working tree is not touched.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import structlog

from pipelines.errors import UnsafePathError
from pipelines.vault.files import note_key
from pipelines.vault.paths import folder, read_file

_COMMIT = re.compile(r"[0-9a-f]{40}")
_SECOND = re.compile(rb"\x01(\d+)")
_INDEXED = re.compile(rb"([^\0]+)\0  ctime: \d+:\d+\n  mtime: (\d+):\d+\n(?:  [^\n]*\n){3}")
_LARGEST_FILE, _MOST_OBJECTS = 100_000_000, 1_000_000
_LONGEST_SECONDS = 5.0
_LAST_SECOND = datetime(9999, 12, 31, tzinfo=UTC).timestamp()
# Memory and output are limited where the system can: a few objects may expand to millions of files.
_BOUNDED = 'ulimit -v 4000000; ulimit -f 100000; exec nice -n 10 "$@"'
_CONFIG = "[core]\n\trepositoryformatversion = 0\n\tbare = true\n"

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class GitFile:
    """When a file was first and last committed (seconds since 1970), also under its earlier names.

    `written` is the second in which git last saw the file in the state recorded in the index; a file with another
    time was modified since. None: the file is not in the index.
    """

    created: float
    changed: float
    written: int | None


def read_git_dates(root: Path, head: str) -> dict[str, GitFile]:
    """Return what the repository at a vault's root knows of files as of the commit in HEAD.

    It is empty without git, or if the repository links to anything outside or takes too long.
    """
    try:
        git = shutil.which("git")
        if head and git and Path(git).is_absolute() and _is_whole(root):
            return _read(git, root, head)
    except (OSError, ValueError, UnsafePathError, subprocess.SubprocessError) as error:
        log.info("no dates from the vault's git repository", reason=str(error))
    return {}


def head_commit(root: Path) -> str:
    """Return the commit in HEAD; `""` if there is none, or no repository that can be read."""
    try:
        said = _text(root, "HEAD")
    except (OSError, ValueError, UnsafePathError):
        return ""  # no repository, or one whose folder is elsewhere
    if said.startswith("ref: "):
        name = said.removeprefix("ref: ")
        try:
            said = _text(root, name)
        except (OSError, UnsafePathError):
            with suppress(OSError, ValueError, UnsafePathError):
                packed = _text(root, "packed-refs").splitlines()
                said = next((line[:40] for line in packed if line[41:] == name), "")
    return said if _COMMIT.fullmatch(said) else ""


def _text(root: Path, name: str) -> str:
    return read_file(root, f".git/{name}", _LARGEST_FILE).decode().strip()


def _is_whole(root: Path) -> bool:
    """Say whether the objects consist only of files and folders, with none borrowed from another repository."""
    count = 0
    with folder(root, ".git/objects") as top:
        for _, folders, files, fd in os.fwalk(".", dir_fd=top):
            count += len(files)
            kinds = [os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode for name in (*folders, *files)]
            if not all(stat.S_ISREG(kind) or stat.S_ISDIR(kind) for kind in kinds) or count > _MOST_OBJECTS:
                return False
            if any(name.endswith("alternates") for name in files):
                return False
    return True


def _repository(root: Path, head: str, ours: Path) -> dict[str, str]:
    """Fill an empty folder with a repository that borrows the vault's objects; return the environment for git."""
    (ours / "refs").mkdir()
    (ours / "objects").mkdir()
    (ours / "config").write_text(_CONFIG, encoding="ascii")
    (ours / "HEAD").write_text(f"{head}\n", encoding="ascii")
    for name in ("index", "shallow"):
        with suppress(FileNotFoundError):
            (ours / name).write_bytes(read_file(root, f".git/{name}", _LARGEST_FILE))
    return {
        "PATH": os.defpath,
        "HOME": str(ours),
        "LC_ALL": "C",
        "GIT_DIR": str(ours),
        "GIT_OBJECT_DIRECTORY": str(root.absolute() / ".git" / "objects"),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
    }


def _read(git: str, root: Path, head: str) -> dict[str, GitFile]:
    with tempfile.TemporaryDirectory(prefix="everindex-git-") as ours:
        environment = _repository(root, head, Path(ours))

        def run(*arguments: str) -> bytes:
            with tempfile.TemporaryFile() as answer:
                subprocess.run(  # noqa: S603 - git itself, with our own configuration
                    ["/bin/sh", "-c", _BOUNDED, "git", git, "--no-pager", *arguments],
                    cwd=ours,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=answer,
                    stderr=subprocess.DEVNULL,
                    timeout=_LONGEST_SECONDS,
                    check=True,
                )
                answer.seek(0)
                return answer.read()

        renames = ("--name-status", "-z", "-M100%", "--no-mailmap")
        logged = run("log", "--format=%x01%ct", *renames, head)
        written = {path: int(second) for path, second in _written(run("ls-files", "-z", "--debug"))}
    return {
        path: GitFile(created, changed, written.get(path))
        for path, (created, changed) in _committed(logged).items()
    }


def _committed(logged: bytes) -> dict[str, tuple[float, float]]:
    """Return the times of each file's first and last commit, from the output of `git log` (newest commit first).

    A file that was renamed without a change has the commits of its earlier name as well.
    """
    found: dict[str, tuple[float, float]] = {}
    later = {"": ""}  # what a path of an older commit is called since; "": it was another file
    moment = 0.0
    tokens = iter(logged.split(b"\0"))
    for token in tokens:
        if second := _SECOND.fullmatch(token):
            moment = min(float(second[1]), _LAST_SECOND)
            continue
        status = token.strip()
        old = new = _path(next(tokens, b""))
        if status.startswith(b"R"):
            new = _path(next(tokens, b""))
        path = later.get(new, new)
        if path:
            found[path] = (moment, found[path][1] if path in found else moment)
        if old != new:
            later[new], later[old] = "", path
    return found


def _path(raw: bytes) -> str:
    return note_key(os.fsdecode(raw))


def _written(listed: bytes) -> Iterator[tuple[str, bytes]]:
    for name, second in _INDEXED.findall(listed):
        yield _path(name), second
