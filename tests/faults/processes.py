"""The three processes as an init system runs them, a client that asks all the time, and the index against the disk."""

from __future__ import annotations

import hashlib
import os
import resource
import signal
import subprocess
import sys
import threading
import time
import unicodedata
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import httpx
import psutil

from pipelines.cache.cache import SqliteCache
from pipelines.domains import load
from pipelines.indexing.ingest import Ingest
from pipelines.maintenance.verify import verify
from pipelines.notes.chunk import chunk_note
from queue_config.settings import Settings
from tests.documents import DOCUMENTS
from tests.whole.conftest import PATIENCE, User, wait_for
from workers.resources import Resources

COMMANDS = {"watcher": "watch", "worker": "work", "query": "serve"}
SUFFIXES = (".md", ".markdown", ".txt", ".canvas", *DOCUMENTS)
"""The suffixes of files that are notes."""
_MOST_RESULTS = 200
_EVERY_NOTE_HAS = "note"
_SECONDS_OF_AN_ORPHAN = 20.0


@dataclass
class Found:
    """What differs from the disk, by name."""

    lost: set[str] = field(default_factory=set)
    ghosts: set[str] = field(default_factory=set)
    duplicates: set[str] = field(default_factory=set)
    drift: set[str] = field(default_factory=set)

    def counts(self) -> dict[str, float]:
        return {name: len(getattr(self, name)) for name in ("lost", "ghosts", "duplicates", "drift")}

    def __bool__(self) -> bool:
        return bool(self.lost or self.ghosts or self.duplicates or self.drift)


class Trio(User):
    """A watcher, a worker and a query worker over one vault; a test that kills one starts it again."""

    def __init__(
        self,
        base: Path,
        model: Path,
        redis_url: str | None = None,
        disk: Path | None = None,
        store: str | None = None,
    ) -> None:
        settings = {"EMBEDDING_MODEL": str(model), "REDIS_URL": redis_url, "EVERINDEX_STORE": store}
        super().__init__(base, base / "vault", **{name: value for name, value in settings.items() if value})
        self.root.mkdir(parents=True)
        # A segmentation fault is wanted, its core dump is not.
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
        # The state may lie on a disk of its own, with one log: the others tell what was said while it was full.
        self.state = (disk or base) / "state"
        self._logs = dict.fromkeys(COMMANDS, base) | {"watcher": disk or base}
        self.cache_path = self.state / "cache-vault.1.db"
        self.restarts = 0
        self._running: dict[str, subprocess.Popen[str]] = {}
        self._settings = Settings(
            vault=self.root,
            state=base / "judge" if store else self.state,
            embedding_model=str(model),
            store=store,
        )
        self._ingest: Ingest | None = None
        self._judge: Resources | None = None
        self._children_of_killed: list[psutil.Process] = []

    def __enter__(self) -> Self:
        for name in COMMANDS:
            self.begin(name)
        try:
            wait_for(lambda: self.health().get("last_reconcile"), "the first comparison")
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # Processes

    def begin(self, name: str) -> None:
        with self.log_path(name).open("ab") as log:
            process = self.start(COMMANDS[name], *self.place, "--port", str(self.port), output=log)
        self._running[name] = process

    def end(self, name: str, number: int = signal.SIGKILL) -> None:
        """Kill a process and wait until it is gone."""
        self.revive()
        process = self._running[name]
        self._children_of_killed += psutil.Process(process.pid).children()
        process.send_signal(number)
        process.wait()
        self.processes.remove(process)

    def orphans(self) -> int:
        """Count the children of killed processes that do not end soon."""
        _, alive = psutil.wait_procs(self._children_of_killed, timeout=_SECONDS_OF_AN_ORPHAN)
        self._children_of_killed = []
        return len([one for one in alive if one.is_running() and one.status() != psutil.STATUS_ZOMBIE])

    @contextmanager
    def reading(self) -> Iterator[SqliteCache]:
        """Yield the index as questions read it; of one in PostgreSQL a copy of our own, with all that is committed."""
        if self._settings.store is None:
            with closing(SqliteCache.open(self.cache_path)) as cache:
                yield cache
            return
        if self._judge is None:
            self._judge = Resources(self._settings)
        stored = self._judge.stored(self._judge.domains()[0])
        stored.follow()
        yield stored.copy.cache

    def catch_worker(self, patience: float = 3.0) -> None:
        """Return while the worker works on a note, if it does so soon."""
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            with self.reading() as cache:
                if _leased(cache):
                    return
            time.sleep(0.001)

    def catch_reader(self) -> psutil.Process:
        """Stop the process that reads documents while the worker waits for its answer; return the process."""

        def is_awaited(reader: psutil.Process) -> bool:
            return _leased(cache, "error_kind = 'apart'") and reader.is_running()

        def caught() -> psutil.Process | None:
            for child in psutil.Process(self._running["worker"].pid).children():
                with suppress(psutil.NoSuchProcess):  # it is replaced when another format is read
                    if any("sandbox_child" in word for word in child.cmdline()):
                        child.suspend()
                        if is_awaited(child):
                            time.sleep(0.1)  # it may have answered just before
                            if is_awaited(child):
                                return child
            return None

        with closing(SqliteCache.open(self.cache_path)) as cache:
            reader: psutil.Process = wait_for(caught, "a document is read")
        return reader

    def revive(self) -> None:
        """Restart each process that ended by itself, and count it."""
        for name, process in self._running.items():
            if process.poll() is not None:
                log = self.log_path(name).read_text()
                sys.stderr.write(f"{name} ended by itself ({process.returncode}): {log[-1000:]}\n")
                self.restarts += 1
                self.begin(name)

    def log_path(self, name: str) -> Path:
        return self._logs[name] / f"{name}.log"

    def complaints(self) -> int:
        """Count the bytes of log lines of any level but `info`."""
        lines = (line for name in COMMANDS for line in self.log_path(name).read_bytes().splitlines())
        return sum(len(line) for line in lines if b'"level": "info"' not in line)

    # Comparing

    def on_disk(self) -> dict[str, str]:
        """Return the hash of each file that is a note, unless it or one of its folders is hidden."""
        found = {}
        for folder, folders, names in os.walk(self.root):
            folders[:] = [name for name in folders if not name.startswith(".")]
            for name in names:
                if name.lower().endswith(SUFFIXES) and not name.startswith((".", "_")):
                    path = Path(folder, name)
                    key = unicodedata.normalize("NFC", path.relative_to(self.root).as_posix())
                    found[key] = hashlib.sha256(path.read_bytes()).hexdigest()
        return found

    def wait_until_equal(self, patience: float = PATIENCE) -> tuple[Found, float]:
        """Wait until nothing is pending and the index equals the disk; return what still differs, and the seconds."""
        started = time.monotonic()
        while True:
            self.revive()
            found = self.differing_paths()
            seconds = time.monotonic() - started
            if found is not None and not found:
                return self.compare(), seconds
            if seconds > patience:
                return self.compare(), seconds
            if found and found.ghosts:
                self._confirm_what_is_held()
            time.sleep(0.05)

    def _confirm_what_is_held(self) -> None:
        """Confirm the deletions, as a person who deleted more than a fifth of the notes on purpose."""
        if any("vanished" in problem for problem in self.health().get("problems", [])):
            with suppress(httpx.HTTPError):  # the query worker was just killed
                self.post("/confirm-deletions")

    def differing_paths(self) -> Found | None:
        """Return which paths differ from the disk; None while work is pending."""
        with self.reading() as cache:
            if _leased(cache) or cache.ledger.pending()[0] or cache.vectors.pending():
                return None
            return self._paths(cache)

    def _paths(self, cache: SqliteCache) -> Found:
        wanted = self.on_disk()
        indexed = dict(cache.con.execute("SELECT path, indexed_hash FROM vault_file").fetchall())
        nodes = {path for (path,) in cache.con.execute("SELECT path FROM vault_node").fetchall()}
        seen = cache.ledger.stat_of(list(wanted))
        return Found(
            lost={path for path, sha in wanted.items() if indexed.get(path) != sha or path not in nodes},
            ghosts=(indexed.keys() | nodes) - wanted.keys(),
            drift={
                f"{path}: changed since the watcher looked"
                for path, (raw, size, mtime_ns, _) in seen.items()
                if (size, mtime_ns) != ((i := (self.root / raw).stat()).st_size, i.st_mtime_ns)
            },
        )

    def compare(self) -> Found:
        """Compare everything: paths, hashes, chunks, what is served, and whatever `everindex verify` looks at."""
        health = wait_for(self.health, "the query worker answers")
        registry = load(self.root)
        served = self.get("/search", q=_EVERY_NOTE_HAS, k=_MOST_RESULTS).json()["results"]
        with self.reading() as cache:
            if self._ingest is None:
                self._ingest = Resources(self._settings).ingest(registry.domains[0], cache)
            verdict = verify(cache, self._ingest, registry)
            duplicates = set(self._duplicates(cache, self._ingest))
            # Last, so that damage by a late job is seen.
            found = self._paths(cache)
        found.duplicates = duplicates
        found.ghosts |= {hit["path"] for hit in served} - self.on_disk().keys()
        found.drift |= {f"{d.path}: {d.detail}" for d in verdict.differences}
        found.drift |= {problem for problem in health["problems"] if "vanished at once" in problem}
        if found:
            sys.stderr.write(f"not as on disk: {found}\n")
        return found

    def _duplicates(self, cache: SqliteCache, ingest: Ingest) -> Iterator[str]:
        """Return the notes that have a text, a word or a vector more often than the chunker gives it."""
        for path in self.on_disk():
            note = ingest.files.read(path, (self.root / path).read_bytes())
            given = Counter(chunk.text_hash for chunk in chunk_note(note, ingest.chunking))
            rows = cache.con.execute("SELECT text_hash FROM vault_chunk WHERE path = ?", (path,)).fetchall()
            if Counter(text_hash for (text_hash,) in rows) - given:
                yield path
        for path, count in cache.con.execute(
            "SELECT path, count(*) FROM vault_chunk GROUP BY path, position HAVING count(*) > 1"
        ).fetchall():
            yield f"{path}: {count} chunks in one place"
        (chunks, words, vectors) = cache.con.execute(
            "SELECT (SELECT count(*) FROM vault_chunk), (SELECT count(*) FROM vault_chunk_fts),"
            " (SELECT count(*) FROM vault_chunk_vec)"
        ).fetchall()[0]
        if max(words, vectors) > chunks:
            yield f"{words} full-text rows and {vectors} vectors of {chunks} chunks"


def _leased(cache: SqliteCache, condition: str = "1") -> bool:
    """Say whether a process works on a note, or on one of some notes."""
    sql = f"SELECT 1 FROM vault_file WHERE lease_token IS NOT NULL AND {condition}"
    return bool(cache.con.execute(sql).fetchall())


class Asker(threading.Thread):
    """Asks the query worker a question every 50 ms and counts the failures.

    While the query worker is being started again (`excuse`) it need not answer.
    """

    def __init__(self, trio: Trio) -> None:
        super().__init__(daemon=True)
        self._trio = trio
        self._stop_asking = threading.Event()
        self._killed_at: float | None = None
        self.answers = 0
        self.failed: list[str] = []
        self.longest_silence = 0.0

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop_asking.set()
        self.join()

    def excuse(self) -> None:
        """Expect no answer from now on, until the first one after `killed`."""
        self._killed_at = float("inf")

    def killed(self) -> None:
        """Record that the query worker is gone: questions from now on go to its successor."""
        self._killed_at = time.monotonic()

    def run(self) -> None:
        token = (self._trio.state / "token").read_text().strip()
        with httpx.Client(
            base_url=f"http://127.0.0.1:{self._trio.port}",
            headers={"Authorization": f"Bearer {token}"},
            trust_env=False,
            timeout=PATIENCE,
        ) as client:
            while not self._stop_asking.wait(0.05):
                self._ask(client)

    def _ask(self, client: httpx.Client) -> None:
        began = time.monotonic()
        try:
            answer = client.get("/search", params={"q": "the garden and the river", "k": 5})
            trouble = "" if answer.status_code == httpx.codes.OK else f"{answer.status_code} {answer.text}"
        except httpx.HTTPError as error:
            trouble = repr(error)
        killed_at = self._killed_at
        if not trouble:
            self.answers += 1
            if killed_at is not None and began > killed_at:
                self.longest_silence = max(self.longest_silence, time.monotonic() - killed_at)
                self._killed_at = None
        elif killed_at is None:
            self.failed.append(trouble)

    def wait(self) -> None:
        """Wait until the query worker answers again, if it was killed."""
        wait_for(lambda: self._killed_at is None, "the query worker answers again")

    def take(self) -> dict[str, float]:
        """Return the counts, and reset them."""
        self.wait()
        if self.failed:
            sys.stderr.write(f"not answered: {self.failed[:3]}\n")
        counted = {
            "answers": self.answers,
            "failed_answers": len(self.failed),
            "worst_silence_s": round(self.longest_silence, 2),
        }
        self.answers, self.failed, self.longest_silence = 0, [], 0.0
        return counted
