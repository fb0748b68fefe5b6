"""After any file operations, lost, late and repeated hints, and crashes: quiet means equal to the disk.

Real files, real SQLite, a real (tiny) model. Events may be dropped, repeated and late; a worker may die holding
its leases, or between words and vectors. The oracle is a cache built from the disk alone. `EXAMPLES=10000` tries more,
`--hypothesis-seed` replays.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from pipelines.documents.read import Files
from pipelines.documents.sandbox import Sandbox
from pipelines.domains import DOMAINS_FILE, load
from pipelines.indexing.ingest import embed_pending, index_saved, index_words
from pipelines.indexing.reconcile import reconcile
from tests.documents import DOCUMENTS, EVERY_FORMAT, document, ending

from .conftest import MAX_BYTES, House, LetGo

ON_BOTH_STORES = True
NAMES = ["a.md", "b.md", "B.md", "caf\u00e9.md", "cafe\u0301.md", "日记.md", "x.txt", "plan.canvas"]
DOCUMENT_NAMES = [f"d{suffix}" for suffix in DOCUMENTS]
FOLDERS = ["", "one", "one/two", "Two"]
CANVAS = json.dumps(
    {
        "nodes": [
            {
                "id": "1",
                "type": "text",
                "text": "The garden soil. [[a]]",
                "x": 0,
                "y": 0,
                "width": 9,
                "height": 9,
            },
            {"id": "2", "type": "file", "file": "one/b.md", "x": 0, "y": 9, "width": 9, "height": 9},
        ]
    }
)
TEXTS = [
    "",
    "The garden soil.",
    "# Boat\n\nThe river.\n\n## Sail\n\nWinter sail [[a]].",
    "---\ntags: [bread]\naliases: [Oven]\n---\n## Bread\n\nFlour and yeast.\n\n## Sleep\n\nThe night.",
    "## Bread\n\nFlour and yeast.",
    "[[b]] [[B.md]] [[x.txt]] [[two/b]] [[caf\u00e9#Menu]] [[./a]] [Diary](../日记.md) ![[one/x.txt]] [[nowhere]]",
    "---\nsource: '[[one/two/a]]'\n---\n## Sources\n\n[[../b]] [[a|the letter a]] [[#Sources]]",
    "---\nbroken: [\n---\nText #tag",
    "\n\n".join(f"## Part {n}\n\nLetter {n}." for n in range(40)),
    "x" * (MAX_BYTES + 1),
    CANVAS,
]
VERSIONS = [f"The garden soil of version {version}" for version in range(3)]
names = st.one_of(st.sampled_from(NAMES), st.sampled_from(DOCUMENT_NAMES))
paths = st.builds(lambda folder, name: f"{folder}/{name}".lstrip("/"), st.sampled_from(FOLDERS), names)
texts = st.one_of(st.sampled_from(TEXTS), st.sampled_from(VERSIONS))


def content(path, text):
    """Return the bytes of a file: a version is what a document says, other texts stand as they are."""
    suffix = ending(path)
    return document(suffix, text) if suffix and text in VERSIONS else text.encode()


class Vault(RuleBasedStateMachine):
    """A vault that is being written in while its index follows."""

    embedder = None  # set by the test
    address: str | None = None
    sandbox: Sandbox  # likewise

    @initialize()
    def begin(self):
        self.base = Path(tempfile.mkdtemp())
        (self.base / "vault").mkdir()
        (self.base / "state").mkdir()
        self.house = House(self.base / "vault", self.base / "state", self.embedder, address=self.address)
        self.house.files = Files(self.sandbox)
        self.house.write(DOMAINS_FILE, EVERY_FORMAT)
        self.unheard: list[str] = []

    def touched(self, *raws: str) -> None:
        self.unheard += raws

    # What people and editors do

    @rule(path=paths, text=texts)
    def write(self, path, text):
        file = self.house.root / path
        if not file.is_dir():
            self.house.write(path, content(path, text))
            self.touched(path)

    @rule(path=paths, text=texts)
    def save_atomically(self, path, text):
        file = self.house.root / path
        if not file.is_dir():
            self.house.write(f"{path}.tmp", content(path, text)).replace(file)
            self.touched(path)

    @rule(path=paths)
    def delete(self, path):
        if (self.house.root / path).is_file():
            (self.house.root / path).unlink()
            self.touched(path)

    @rule(old=paths, new=paths)
    def move(self, old, new):
        source, target = self.house.root / old, self.house.root / new
        if source.is_file() and not target.is_dir():
            target.parent.mkdir(parents=True, exist_ok=True)
            source.replace(target)
            self.touched(old, new)

    @rule(one=paths, two=paths)
    def swap(self, one, two):
        first, second = self.house.root / one, self.house.root / two
        if first.is_file() and second.is_file() and one != two:
            kept = self.base / "kept"
            first.replace(kept)
            second.replace(first)
            kept.replace(second)
            self.touched(one, two)

    @rule(old=st.sampled_from(FOLDERS[1:]), new=st.sampled_from([*FOLDERS[1:], "new"]))
    def move_folder(self, old, new):
        source, target = self.house.root / old, self.house.root / new
        if source.is_dir() and not target.exists() and not new.startswith(f"{old}/"):
            target.parent.mkdir(parents=True, exist_ok=True)
            source.rename(target)
            self.touched(old, new)

    @rule(folder=st.sampled_from(FOLDERS[1:]))
    def move_folder_out(self, folder):
        if (self.house.root / folder).is_dir():
            shutil.rmtree(self.house.root / folder)
            self.touched(folder)

    @rule(ignored=st.booleans())
    def change_the_rules(self, ignored):
        rules = self.house.root / ".gitignore"
        rules.write_text("one/\n" if ignored else "")
        self.unheard.append("")

    @rule(formats=st.sampled_from(["md", "md, txt, pdf, yaml, code", ""]))
    def change_the_formats(self, formats):
        chosen = f"vault:\n  legacy: true\n  formats: [{formats}]\n" if formats else EVERY_FORMAT
        self.house.write(DOMAINS_FILE, chosen)
        self.unheard.append("")

    # What the service does, more or less

    @rule(data=st.data())
    def hear(self, data):
        """Some of the events arrive, in any order, some of them twice."""
        if self.unheard:
            heard = data.draw(st.lists(st.sampled_from(self.unheard), max_size=6))
            self.house.notice(*(raw for raw in heard if raw))

    @rule()
    def work_on_a_hint(self):
        index_saved(self.house.cache, self.house.ingest)

    @rule(vectors=st.booleans())
    def work_a_slice(self, vectors):
        (embed_pending if vectors else index_words)(self.house.cache, self.house.ingest)

    @rule(stage=st.sampled_from(["words", "vectors"]), late=st.booleans())
    def a_worker_dies_with_its_leases(self, stage, late):
        self.house.cache.leases.take(stage, 3, "a worker that is gone")
        if late:
            self.house.now += 10_000

    @rule()
    def everything_dies_and_starts_again(self):
        self.house.cache.close()
        self.house.cache = self.house.open("cache-vault.1.db")
        self.house.now = 5.0  # a reboot resets the clock

    @rule()
    def compare(self):
        self.compare_all()

    def compare_all(self):
        root = self.house.root
        reconcile(root, load(root), {"vault": self.house.cache}, max_bytes=MAX_BYTES, brake=LetGo())

    @rule()
    def fall_quiet(self):
        """The sweep frees what the dead held; then the index must equal the disk."""
        self.compare_all()
        for _ in range(
            4
        ):  # a note that was being worked on whenever its worker died is parked: it did nothing
            self.house.cache.leases.free_those_of_the_dead(lambda _: False)
            self.house.drain()
            for path, kind, _ in self.house.parked():
                if kind == "crash":
                    self.house.cache.ledger.retry(path)
        assert self.house.picture() == self.house.scratch_picture()
        self.unheard.clear()

    def teardown(self):
        if hasattr(self, "house"):
            try:
                self.fall_quiet()
            finally:
                self.house.cache.close()
                shutil.rmtree(self.base)


@pytest.mark.timeout(900)
def test_quiet_means_equal_to_the_disk(tiny_embedder, address):
    Vault.embedder = tiny_embedder
    Vault.address = address
    Vault.sandbox = Sandbox()
    try:
        run_state_machine_as_test(
            Vault,
            settings=settings(
                max_examples=int(os.environ.get("EXAMPLES", "25")),
                stateful_step_count=30,
                print_blob=True,
                suppress_health_check=list(HealthCheck),
            ),
        )
    finally:
        Vault.sandbox.close()
