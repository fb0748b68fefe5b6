"""Two writers of one review queue: a person's editor, and the service, at full speed."""

from __future__ import annotations

import os
import random
import re
import shutil
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pipelines.domains import WHOLE_VAULT
from pipelines.embedding.embedder import Embedder
from pipelines.embedding.models import find_model
from pipelines.errors import EverindexError
from pipelines.model import Suggestion
from pipelines.state.note_log import NoteLog
from pipelines.state.tags import Proposals
from pipelines.tagging.apply import DomainNotes, merge_late
from pipelines.tagging.review import ReviewContext, review
from pipelines.tagging.vocabulary import load
from pipelines.vault import in_folder
from pipelines.vault.write import Late, late_writes, settle
from tests.pipelines.conftest import MAX_BYTES, House
from tests.tiny import build_tiny_model

NOTES = 8
_ITEM = re.compile(r"^- \[ \] `(t\d+)`.*<!-- e:(\d+) ", re.MULTILINE)
_AT = "2026-11-21T12:00:00.000+00:00"
_DECIDED = ("accepted", "applied", "rejected", "refused")


class Person(threading.Thread):
    """A person who edits the queue and the notes, in an editor that checks before a save whether the file changed."""

    def __init__(self, chance: random.Random, root: Path, rounds: int) -> None:
        super().__init__()
        self.chance = chance
        self.root = root
        self.rounds = rounds
        self.done = 0
        self.ticked: set[int] = set()
        self.tokens: dict[str, str] = {}  # what was written, and into which file

    def run(self) -> None:
        while self.done < self.rounds:
            name = "_review-queue.md" if self.chance.random() < 0.6 else f"{self.chance.randrange(NOTES)}.md"
            file = self.root / name
            try:
                with file.open("rb") as held:  # so that `fstat` and `read` see the same file
                    looked, text = os.fstat(held.fileno()), held.read().decode("utf-8", "surrogateescape")
            except FileNotFoundError:
                time.sleep(0.001)
                continue
            if not text.strip():
                continue  # the middle of a save
            token = f"token{self.done}x"
            ticked: set[int] = set()
            new = self.edited(text, token, ticked) if name.startswith("_") else f"{text}{token}\n"
            if self.save(file, looked, new.encode("utf-8", "surrogateescape")):
                self.done += 1
                self.ticked |= ticked
                if token in new:
                    self.tokens[token] = name
            time.sleep(self.chance.random() * 0.004)

    def edited(self, text: str, token: str, ticked: set[int]) -> str:
        lines = text.split("\n")
        items = [n for n, line in enumerate(lines) if _ITEM.match(line)]
        act = self.chance.choice(["tick", "tick", "reject", "move", "prose", "prose", "windows", "shout"])
        if act == "prose" or not items:
            at = self.chance.randrange(1, max(2, len(lines) - 2))
            lines.insert(at, f"{token} is what I think about it")
            return "\n".join(lines)
        at = self.chance.choice(items)
        if act == "tick":
            ticked.add(int(_ITEM.match(lines[at])[2]))
            lines[at] = lines[at].replace("[ ]", "[x]", 1)
        elif act == "reject":
            lines[at] = lines[at].replace("[ ]", "[-]", 1)
        elif act == "move":
            lines.insert(self.chance.choice(items), lines.pop(at))
        elif act == "windows":
            return "\r\n".join(line.rstrip("\r") for line in lines)
        else:
            lines[at] = "  " + lines[at].replace("- [ ]", "* [ ]").upper().replace("<!-- E:", "<!-- e:")
        return "\n".join(lines)

    def save(self, file: Path, looked: os.stat_result, data: bytes) -> bool:
        """Save in one of three ways; give up where the file is not what was loaded."""
        how = self.chance.choice(["in place", "by renaming", "late"])
        beside = file.with_suffix(".tmp")
        try:
            held = file.open("r+b")
        except FileNotFoundError:
            return False
        with held:
            if how == "by renaming":
                beside.write_bytes(data)
            elif how == "late":
                time.sleep(self.chance.random() * 0.01)
            now = os.fstat(held.fileno())
            if (now.st_ino, now.st_mtime_ns, now.st_size) != (
                looked.st_ino,
                looked.st_mtime_ns,
                looked.st_size,
            ):
                return False
            if how == "by renaming":
                return self.rename_over(file, looked, beside)
            held.truncate()
            held.write(data)
            held.truncate()
        return True

    def rename_over(self, file: Path, looked: os.stat_result, beside: Path) -> bool:
        """Replace a file by the one beside it, unless it is no longer the file that was loaded.

        Check and save are one step. No person loads, edits and checks a page within the moment for which an exchange
        shows it; with a gap behind the check, this one would, and would then overwrite the file that is put back.
        """
        folder = os.open(self.root, os.O_DIRECTORY)
        try:
            assert in_folder.rename(folder, beside.name, file.name, swap=True)
            if beside.stat().st_ino == looked.st_ino:
                return True
            assert in_folder.rename(folder, beside.name, file.name, swap=True)
            return False
        finally:
            os.close(folder)
            beside.unlink()


class Service:
    """What a worker does, without a pause: propose, review, take in what came late."""

    def __init__(self, chance: random.Random, base: Path, model: Path) -> None:
        self.chance = chance
        root, state = base / "vault", base / "state"
        root.mkdir()
        state.mkdir()
        self.house = House(root, state, Embedder(find_model(str(model)), threads=1))
        for n in range(NOTES):
            self.house.write(f"{n}.md", f"---\ntitle: Note {n}\n---\nThe garden soil {n}.\n")
        self.house.index()
        (self.domain,) = WHOLE_VAULT
        self.proposals = Proposals(state)
        self.displaced = state / "displaced"
        self.notes = DomainNotes(
            "vault", root, MAX_BYTES, self.house.cache, self.proposals, NoteLog(state), self.displaced
        )
        self.number = 0
        self.was: dict[int, str] = {}
        self.resurrected = 0

    def propose(self) -> None:
        self.number += 1
        suggestion = (Suggestion(f"t{self.number}", 0.9), "")
        path = f"{self.chance.randrange(NOTES)}.md"
        self.proposals.add("vault", path, [suggestion], proposer="local", note_hash="x", at=_AT)

    def review(self, late: bytes | None = None) -> None:
        review(ReviewContext(self.domain, load(self.house.root, "none"), self.notes), _AT, late)
        for one in self.proposals.of_state(None, "waiting", *_DECIDED):
            self.resurrected += self.was.get(one.id) in _DECIDED and one.state == "waiting"
            self.was[one.id] = one.state

    def take_in(self, late: Late) -> None:
        if late.raw == "_review-queue.md":
            self.review(late.late)
        elif not merge_late(self.notes, late.raw, late):
            aside = self.displaced / "unclaimed" / f"{late.record.stem}-{late.raw}"
            aside.parent.mkdir(exist_ok=True)
            aside.write_bytes(late.late)
        settle(late)

    def turn(self) -> None:
        waiting = len(self.proposals.of_state(None, "waiting"))
        if waiting < 20 and self.chance.random() < 0.5:
            self.propose()
        try:
            self.review()
            for late in late_writes(self.house.root, self.displaced, time.monotonic()):
                self.take_in(late)
        except EverindexError:
            pass  # the person is writing: the next turn

    def close(self) -> None:
        self.proposals.close()
        self.house.cache.close()


@contextmanager
def _service(chance: random.Random, folder: Path, model: Path) -> Iterator[Service]:
    base = folder / f"race{chance.randrange(10**9)}"
    base.mkdir()
    service = Service(chance, base, model)
    try:
        yield service
    finally:
        service.close()
        shutil.rmtree(base)


def race(chance: random.Random, folder: Path, model: Path, rounds: int) -> dict[str, float]:
    """Let both write for `rounds` edits; return what was lost, doubled, or came back."""
    with _service(chance, folder, model) as service:
        root = service.house.root
        for _ in range(10):
            service.propose()
        service.review()
        person = Person(random.Random(chance.random()), root, rounds)  # noqa: S311 - faults, not secrets
        person.start()
        while person.is_alive():
            service.turn()
        until = time.monotonic() + 2.5  # late writes are reported after a second
        while time.monotonic() < until:
            service.turn()
            time.sleep(0.05)
        return _count(service, person)


def _count(service: Service, person: Person) -> dict[str, float]:
    root = service.house.root
    aside = "".join(
        f.read_bytes().decode("utf-8", "replace") for f in (service.displaced / "unclaimed").glob("*")
    )
    texts = {
        name: (root / name).read_bytes().decode("utf-8", "replace") for name in set(person.tokens.values())
    }
    lost = [t for t, name in person.tokens.items() if t not in texts[name] and t not in aside]
    doubled = [t for t, name in person.tokens.items() if texts[name].count(t) > 1]
    page = (root / "_review-queue.md").read_text(encoding="utf-8", errors="replace")
    ids = Counter(re.findall(r"<!-- e:(\d+) ", page))
    states = {one.id: one.state for one in service.proposals.of_state(None, "waiting", *_DECIDED)}
    shown_decided = [number for number in ids if states.get(int(number)) in _DECIDED]
    ticks_lost = [number for number in person.ticked if states[number] == "waiting"]
    tags = [
        tag
        for n in range(NOTES)
        for tag, count in Counter(re.findall(r"- (t\d+)\b", (root / f"{n}.md").read_text())).items()
        if count > 1
    ]
    return {
        "edits": float(person.done),
        "lost": float(len(lost)),
        "lines_twice": float(len(doubled)),
        "items_twice": float(sum(count > 1 for count in ids.values()) + len(tags)),
        "resurrected": float(service.resurrected + len(shown_decided)),
        "ticks_lost": float(len(ticks_lost)),
        "applied": float(sum(state == "applied" for state in states.values())),
    }


def races(chance: random.Random, folder: Path, rounds: int = 250) -> Iterator[dict[str, float]]:
    """Race for ever; yield what each race did."""
    model = build_tiny_model(folder)
    while True:
        yield race(chance, folder, model, rounds)
