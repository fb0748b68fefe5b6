"""Vaults that a stranger made: each attack as what it puts into a folder of notes."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable
from pathlib import Path

Attack = Callable[[Path, Path], None]
"""Plants an attack, given the vault and the folder of canaries."""

DEEP = 1_200
ESCAPES = "\x1b]0;title\x07\x1b[2J\x9b31m\u202e\x1b]8;;http://x\x1b\\"
MARKUP = "[red]bold[/red] [/x] [link=http://x]y[/link]"
TAXONOMY = "# Tags\n\n## Garden\n\n- soil: what plants grow in\n"


def honest(root: Path) -> None:
    """Write the note that must be found whatever else is there."""
    (root / "Garden.md").write_text("# Garden\n\nThe garden soil compost honestly.\n")


def link(name: str, target: str) -> Attack:
    """Put a symbolic link in a file's place: to a canary, or to an absolute path."""

    def plant(root: Path, outside: Path) -> None:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(target if target.startswith("/dev") else outside / target)

    return plant


def fifo(name: str) -> Attack:
    """Put a FIFO in a file's place: an open of it waits for ever."""

    def plant(root: Path, _: Path) -> None:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        os.mkfifo(root / name)

    return plant


def folder(name: str) -> Attack:
    """Put a folder in a file's place."""

    def plant(root: Path, _: Path) -> None:
        (root / name).mkdir(parents=True)

    return plant


def text(name: str, content: str | bytes) -> Attack:
    """Write a file."""

    def plant(root: Path, _: Path) -> None:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())

    return plant


def _review_queue_behind_a_link(root: Path, outside: Path) -> None:
    (root / "lnk").symlink_to(os.path.relpath(outside, root))
    text("_domains.yaml", "v:\n  legacy: true\n  review_queue: lnk/.bashrc\n  taxonomy: _taxonomy.md\n")(
        root, outside
    )
    text("_taxonomy.md", TAXONOMY)(root, outside)


def _a_domain_behind_a_link(root: Path, outside: Path) -> None:
    (root / "lnk").symlink_to(outside)
    text("_domains.yaml", "v:\n  legacy: true\nw:\n  path: lnk/notes\n")(root, outside)


def _deep_folders(root: Path, _: Path) -> None:
    here = os.open(root, os.O_RDONLY)
    for _level in range(DEEP):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)


def _odd_files(root: Path, outside: Path) -> None:
    (root / "linked.md").symlink_to(outside / "notes" / "private.md")
    (root / "zero.md").symlink_to("/dev/zero")
    (root / "loop.md").symlink_to("loop.md")
    (root / "folder").symlink_to(outside / "notes")
    os.mkfifo(root / "fifo.md")
    (root / "named.md").mkdir()
    with (root / "sparse.md").open("wb") as file:
        file.truncate(1 << 40)
    here = Path.cwd()
    os.chdir(root)  # a socket's address has at most 107 bytes
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind("socket.md")
    finally:
        os.chdir(here)


def _odd_times(root: Path, _: Path) -> None:
    for name, at in (("far.md", 10_413_792_000), ("farther.md", 2**34), ("old.md", -(2**31))):
        (root / name).write_text("soil\n")
        os.utime(root / name, (at, at))


def _odd_names(root: Path, _: Path) -> None:
    for name in (b"bad\xff.md", rb"bad\xff.md", b" .md", b"new\nline.md", b"tab\t.md", b"x" * 252 + b".md"):
        Path(os.fsdecode(os.fsencode(root) + b"/" + name)).write_text("soil\n")
    (root / f"{MARKUP.replace('/', '|')}.md").write_text("soil\n")
    (root / f"{ESCAPES.replace('/', '|')}.md").write_text("soil\n")


def _escapes_and_markup(root: Path, _: Path) -> None:
    for name, evil in (("Escapes", ESCAPES), ("Markup", MARKUP)):
        quoted = json.dumps(evil)
        head = f"---\ntitle: {quoted}\nauthor: {quoted}\naliases: [{quoted}]\ntags: [soil]\n---\n"
        (root / f"{name}.md").write_text(f"{head}\n# {evil}\n\nsoil {evil} [[{evil}]] [[Garden]] `{evil}`\n")


STARS = "*".join("a" * 14) + "b"
_EVIL_REGEXES = ["/(a+)+$/", "/(a|aa)*b/", r"/^(\w+\s?)*$/", "/(.*)*x/", "x" * 100_000]
_NAME_FOR_PATTERNS = "a" * 60 + ".md"

ATTACKS: dict[str, Attack] = {
    "a review queue behind a relative link": _review_queue_behind_a_link,
    "a domain behind a link": _a_domain_behind_a_link,
    "a domain outside": text("_domains.yaml", "v:\n  legacy: true\nw:\n  path: ../outside/notes\n"),
    "a taxonomy outside": text("_domains.yaml", "v:\n  legacy: true\n  taxonomy: ../outside/taxonomy.md\n"),
    "_domains.yaml is a link": link("_domains.yaml", "domains.yaml"),
    "_domains.yaml is a FIFO": fifo("_domains.yaml"),
    "_domains.yaml is /dev/zero": link("_domains.yaml", "/dev/zero"),
    "_domains.yaml is a folder": folder("_domains.yaml"),
    "_domains.yaml is huge": text("_domains.yaml", "# soil\n" * 3_000_000),
    "_domains.yaml is nested": text("_domains.yaml", "v: " + "[" * 200_000),
    "_domains.yaml is no text": text("_domains.yaml", b"\xff\xfe\x00v" * 100),
    "_taxonomy.md is a link": link("_taxonomy.md", "taxonomy.md"),
    "_taxonomy.md is a FIFO": fifo("_taxonomy.md"),
    "_taxonomy.md is /dev/zero": link("_taxonomy.md", "/dev/zero"),
    "_review-queue.md is a link": link("_review-queue.md", ".bashrc"),
    "_queries.yaml is a link": link("_queries.yaml", "queries.yaml"),
    ".everindex is a link": link(".everindex", "notes"),
    ".everindex/id is a link": link(".everindex/id", "id"),
    ".everindex/id is a FIFO": fifo(".everindex/id"),
    ".everindex/id is a folder": folder(".everindex/id"),
    "app.json is a link": link(".obsidian/app.json", "app.json"),
    ".obsidian is a link": link(".obsidian", "."),
    "app.json is a FIFO": fifo(".obsidian/app.json"),
    "app.json is /dev/zero": link(".obsidian/app.json", "/dev/zero"),
    "app.json is nested": text(".obsidian/app.json", "[" * 200_000),
    "app.json has patterns": text(".obsidian/app.json", json.dumps({"userIgnoreFilters": _EVIL_REGEXES})),
    ".gitignore is a link": link(".gitignore", "ignore"),
    ".gitignore is a FIFO": fifo(".gitignore"),
    ".gitignore is /dev/zero": link("sub/.gitignore", "/dev/zero"),
    ".gitignore has stars": text(
        ".gitignore", f"{STARS}\n{'*?' * 40}x\n{'[a-z]*' * 20}X\n" + "**/" * 200 + "x\n"
    ),
    ".gitignore has many lines": text(".gitignore", "".join(f"*{n}*x*y\n" for n in range(100_000))),
    "deep folders": _deep_folders,
    "odd files": _odd_files,
    "odd times": _odd_times,
    "odd names": _odd_names,
    "escapes and markup": _escapes_and_markup,
    "brackets": text("Brackets.md", "[" * 20_000),
}
"""What a stranger may put into a vault, each by itself."""


def plant(name: str, root: Path, outside: Path) -> None:
    """Plant an attack in a vault that has one honest note, and a note that patterns take long to match."""
    honest(root)
    (root / _NAME_FOR_PATTERNS).write_text("soil\n")
    ATTACKS[name](root, outside)


TOGETHER = (
    "a review queue behind a relative link",
    "app.json has patterns",
    ".gitignore has stars",
    "deep folders",
    "odd files",
    "odd times",
    "odd names",
    "escapes and markup",
    "brackets",
)
"""Those that one vault can have all at once, while it is served."""
