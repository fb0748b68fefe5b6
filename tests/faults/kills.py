"""kill -9, again and again, of one of the processes while an editor changes the vault."""

from __future__ import annotations

import json
import random
import signal
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from pipelines.documents.read import is_read_apart
from pipelines.domains import DOMAINS_FILE
from tests.documents import DOCUMENTS, EVERY_FORMAT, document, ending
from tests.faults.processes import SUFFIXES, Asker, Trio
from tests.tiny import WORDS, build_tiny_model

# A fault in a library ends the one that loads most of them.
KILLS = (
    ("worker", signal.SIGKILL),
    ("worker", signal.SIGSEGV),
    ("worker that waits for its reader", signal.SIGKILL),
    ("reader", signal.SIGKILL),
    ("watcher", signal.SIGKILL),
    ("query", signal.SIGKILL),
)
SOME_DOCUMENTS = (".pdf", ".xlsx", ".yaml")
"""The formats of a vault that is made for every change: only a few, because each format takes time to read."""
# Fewer edits per round than a mass deletion has, and fewer notes per folder.
_EDITS = (2, 9)
_TEXTS = (".md", ".txt")
_LARGEST_FOLDER = 15
_FEWEST, _MOST = 40, 90
_LONGEST_PAUSE = 1.2


class Editor:
    """Edits a vault at random, as editors, file managers and synchronisers do.

    A third of the files that it makes are `documents`, which are given by the ends of their names.
    """

    def __init__(self, root: Path, chance: random.Random, documents: Sequence[str] = DOCUMENTS) -> None:
        self._root = root
        self._chance = chance
        self._documents = documents
        self._count = 0
        (root / DOMAINS_FILE).write_text(EVERY_FORMAT)
        (root / "box").mkdir()
        self._outside = root.parent / "outside"
        self._outside.mkdir()

    def edit(self) -> None:
        """Do one thing to the vault."""
        notes = self._notes()
        if len(notes) < _FEWEST:
            self._create()
            return
        weights = {
            self._create: 3 if len(notes) < _MOST else 0,
            self._move_in: 1 if len(notes) < _MOST else 0,
            self._save: 4,
            self._save_atomically: 4,
            self._append: 2,
            self._save_and_revert: 2,
            self._rename: 2,
            self._convert: 1,
            self._change_case: 1,
            self._move_folder: 1,
            self._delete: 3,
        }
        (action,) = self._chance.choices(list(weights), list(weights.values()))
        action()

    def save_at_length(self) -> None:
        """Give a note a long text."""
        path = self._any_text()
        path.write_text(f"{self._markdown()}\n\n{self._words(4000)}", encoding="utf-8")

    def save_document(self) -> None:
        """Save a document that a separate process reads; a drawing is Markdown, which the worker reads itself."""
        apart = [suffix for suffix in self._documents if is_read_apart(f"a{suffix}")]
        path = self._free_path(self._chance.choice(apart))
        path.write_bytes(self._content(path))

    # Edits

    def _create(self) -> None:
        path = self._free_path()
        path.write_bytes(self._content(path))

    def _move_in(self) -> None:
        beside, path = self._outside / "note", self._free_path()
        beside.write_bytes(self._content(path))
        beside.rename(path)

    def _save(self) -> None:
        path = self._any_note()
        path.write_bytes(self._content(path))

    def _save_atomically(self) -> None:
        path = self._any_note()
        beside = path.with_name(f".{path.name}.tmp")
        beside.write_bytes(self._content(path))
        beside.rename(path)

    def _append(self) -> None:
        with self._any_text().open("a", encoding="utf-8") as file:
            for _ in range(3):
                file.write(f"\n\nOne more note: {self._words(12)}")
                file.flush()

    def _save_and_revert(self) -> None:
        path = self._any_note()
        before = path.read_bytes()
        self._save()
        path.write_bytes(self._content(path))
        time.sleep(self._chance.random() * 0.5)
        path.write_bytes(before)

    def _rename(self) -> None:
        path = self._any_note()
        path.rename(self._free_path(ending(path.name) or path.suffix))

    def _convert(self) -> None:
        path = self._any_text()
        other = path.with_suffix(".md" if path.suffix == ".txt" else ".txt")
        if not other.exists():
            path.rename(other)

    def _change_case(self) -> None:
        path = self._any_note()
        other = path.with_name(path.stem.swapcase() + path.suffix)
        if not other.exists():
            path.rename(other)

    def _move_folder(self) -> None:
        folders = [f for f in self._folders() if not any(child.is_dir() for child in f.iterdir())]
        folder = self._chance.choice(folders)
        parents = [self._root, *(f for f in self._folders() if f != folder and f.parent == self._root)]
        folder.rename(self._chance.choice(parents) / self._name("folder"))

    def _delete(self) -> None:
        self._any_note().unlink()

    # Contents

    def _notes(self) -> list[Path]:
        return sorted(
            path
            for path in self._root.rglob("*")
            if path.suffix in SUFFIXES and not path.name.startswith((".", "_"))
        )

    def _folders(self) -> list[Path]:
        return sorted(p for p in self._root.rglob("*") if p.is_dir() and not p.name.startswith("."))

    def _any_note(self) -> Path:
        return self._chance.choice(self._notes())

    def _any_text(self) -> Path:
        """Return a note whose text may be longer."""
        return self._chance.choice([path for path in self._notes() if path.suffix in _TEXTS])

    def _free_path(self, suffix: str | None = None) -> Path:
        folders = [f for f in self._folders() if len(list(f.iterdir())) < _LARGEST_FOLDER]
        if not folders or self._chance.random() < 1 / 12:
            folders = [self._root / self._name("folder")]
            folders[0].mkdir()
        return self._chance.choice(folders) / f"{self._name('Note')}{suffix or self._suffix()}"

    def _suffix(self) -> str:
        usual = self._chance.choice((".md", ".md", ".txt", ".canvas", ""))
        return usual or self._chance.choice(self._documents)

    def _name(self, kind: str) -> str:
        self._count += 1
        return f"{kind} {self._count} {self._chance.choice(['plain', 'größer', '日记', '🌱', 'a&b', '%20'])}"

    def _words(self, count: int) -> str:
        return " ".join(self._chance.choices(WORDS.split(), k=count))

    def _content(self, path: Path) -> bytes:
        """Return the bytes of a file that did not exist before, though parts of them may have."""
        if suffix := ending(path.name):
            self._count += 1
            return document(suffix, f"A note of version {self._count} with {self._words(20)}")
        text = self._markdown()
        if path.suffix == ".canvas":
            card = {"id": "1", "type": "text", "text": text, "x": 0, "y": 0, "width": 400, "height": 300}
            text = json.dumps({"nodes": [card], "edges": []})
        return text.encode()

    def _markdown(self) -> str:
        chance = self._chance
        self._count += 1
        parts = [f"A note, version {self._count}: {self._words(8)}."]
        if chance.random() < 1 / 3:
            tags = ", ".join(chance.sample(WORDS.split(), 2))
            parts.insert(
                0, f"---\ntitle: Note of {self._words(2)}\ntags: [{tags}]\naliases: [{self._words(1)}]\n---"
            )
        repeated = f"Said again and again: {chance.choice(WORDS.split())}."
        for number in range(chance.randrange(4)):
            parts.append(f"## Part {number} {self._words(2)}")
            parts.append(
                chance.choice([repeated, self._words(chance.randrange(5, 150)), "```\n# no heading\n```"])
            )
        if chance.random() < 1 / 3:
            target = chance.choice(self._notes() or [self._root])
            parts.append(f"See [[{target.name.removesuffix('.md')}]] and #{self._words(1)}.")
        return chance.choice(["\n\n", "\n\n", "\r\n\r\n"]).join(parts)


def kills(
    chance: random.Random,
    folder: Path,
    redis_url: str | None = None,
    model: Path | None = None,
    documents: Sequence[str] = DOCUMENTS,
) -> Iterator[dict[str, float]]:
    """Kill one process per round while the vault is edited; yield what differs after each round, for ever."""
    base = folder / "kills"
    trio = Trio(base, model or build_tiny_model(folder), redis_url)
    editor = Editor(trio.root, chance, documents)
    for _ in range(_FEWEST):
        editor.edit()
    with trio, Asker(trio) as asker:
        trio.wait_until_equal()
        while True:
            for victim, number in chance.sample(KILLS, k=len(KILLS)):
                yield _round(chance, trio, editor, asker, victim, number)


def kill(trio: Trio, asker: Asker, victim: str, number: int = signal.SIGKILL) -> None:
    """Kill a process and start it again at once, as an init system would."""
    if victim == "query":
        asker.excuse()
    trio.end(victim, number)
    if victim == "query":
        asker.killed()
    trio.begin(victim)


def _round(
    chance: random.Random, trio: Trio, editor: Editor, asker: Asker, victim: str, number: signal.Signals
) -> dict[str, float]:
    restarts = trio.restarts
    for _ in range(chance.randint(*_EDITS)):
        editor.edit()
    if "reader" in victim:
        editor.save_document()
        reader = trio.catch_reader()
        if victim == "reader":
            reader.kill()
        else:
            kill(trio, asker, "worker", number)
            reader.resume()
    else:
        if victim == "worker" and chance.random() < 1 / 2:
            trio.catch_worker()
        else:
            # Any moment: while saves settle, while they are indexed, just after.
            time.sleep(chance.random() * _LONGEST_PAUSE)
        kill(trio, asker, victim, number)
    for _ in range(chance.randint(*_EDITS)):
        editor.edit()
        time.sleep(chance.random() * 0.1)
    found, seconds = trio.wait_until_equal()
    return {
        "kills": 1,
        f"{victim}_{number.name}": 1,
        **found.counts(),
        "orphans": trio.orphans(),
        "restarts": trio.restarts - restarts,
        **asker.take(),
        "worst_quiet_s": round(seconds, 2),
    }
