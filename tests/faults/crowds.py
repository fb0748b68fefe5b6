"""Many at once: writers at full speed, and workers and readers side by side for a long time."""

from __future__ import annotations

import hashlib
import random
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import httpx

from pipelines.cache.cache import SqliteCache
from tests.postgres import PostgresServer
from tests.whole.conftest import User, wait_for

FILES = 100_000
WRITERS = 4
READERS = 8
ROUND_SECONDS = 30.0
PATIENCE = 600.0
WORDS = [
    "garden",
    "soil",
    "compost",
    "tomato",
    "winter",
    "river",
    "boat",
    "sail",
    "market",
    "price",
    "bread",
    "flour",
    "yeast",
    "sleep",
    "letter",
]

WRITE = """
import os, sys
root, writer, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
for n in range(count):
    folder = f"{root}/{writer}/{n // 500}"
    if n % 500 == 0:
        os.makedirs(folder)
    with open(f"{folder}/{n}.draft.md", "w") as file:
        file.write(f"# Note {n} of {writer}\\n\\nThe garden and the river, number {n}.\\n")
    os.rename(f"{folder}/{n}.draft.md", f"{folder}/{n}.md")
"""


def writers(
    folder: Path, model: Path, files: int = FILES, server: PostgresServer | None = None
) -> Iterator[dict[str, float]]:
    """Write and rename files with four processes; yield what was missed, and when all was known and indexed."""
    while True:
        base = folder / "writers"
        user = User(base, base / "vault", EMBEDDING_MODEL=str(model))
        if server:
            server.make_database("writers")
            user.environment["EVERINDEX_STORE"] = server.address_of("writers")
        user.root.mkdir(parents=True)
        start(user, "watch", "work", "serve")
        try:
            yield _write_all(user, files)
        finally:
            user.stop()
            shutil.rmtree(base)


def start(user: User, *commands: str) -> None:
    """Start processes as an init system would; each logs to a file."""
    (user.root.parent / "logs").mkdir(exist_ok=True)
    for number, command in enumerate(commands):
        with (user.root.parent / "logs" / f"{number}-{command}.log").open("ab") as log:
            user.start(command, *user.place, "--port", str(user.port), output=log)


def _write_all(user: User, files: int) -> dict[str, float]:
    wait_for(lambda: user.health().get("last_reconcile"), "the first comparison")
    shares = [str(files // WRITERS)] * WRITERS
    running = [
        subprocess.Popen([sys.executable, "-c", WRITE, str(user.root), str(n), share])
        for n, share in enumerate(shares)
    ]
    for process in running:
        process.wait()
    ended = time.monotonic()
    (domain,) = user.health()["domains"].values()
    cache = SqliteCache.open(Path(domain["cache"]))
    wait_for(lambda: cache.ledger.known() >= files, "every file is known", PATIENCE)
    known = time.monotonic() - ended
    wait_for(lambda: not cache.ledger.pending()[0], "every word is indexed", PATIENCE)
    indexed = time.monotonic() - ended
    wanted = {
        path.relative_to(user.root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in user.root.rglob("*.md")
    }
    found = dict(cache.con.execute("SELECT path, indexed_hash FROM vault_file").fetchall())
    cache.close()
    return {
        "files": files,
        "missed": len(wanted.items() - found.items()),
        "ghosts": len(found.keys() - wanted.keys()),
        "overflows": user.health()["watcher"]["overflows"],
        "worst_known_s": round(known, 1),
        "worst_indexed_s": round(indexed, 1),
    }


def readers(
    chance: random.Random, folder: Path, model: Path, seconds: float = ROUND_SECONDS
) -> Iterator[dict[str, float]]:
    """Let two workers and eight readers work while notes are saved; yield what the readers got, once per round."""
    base = folder / "readers"
    user = User(base, base / "vault", EMBEDDING_MODEL=str(model))
    user.root.mkdir(parents=True)
    for n in range(500):
        _save(user, chance, n)
    start(user, "watch", "work", "work", "serve")
    user.wait_until_quiet()
    try:
        while True:
            yield _read_and_write(user, chance, seconds)
    finally:
        user.stop()


def _save(user: User, chance: random.Random, n: int) -> None:
    words = " ".join(chance.choices(WORDS, k=80))
    (user.root / f"{n}.md").write_text(f"# {n}\n\n{words}\n\n## More\n\n{words}\n")


def _read_and_write(user: User, chance: random.Random, seconds: float) -> dict[str, float]:
    met: Counter[str] = Counter()
    longest = [0.0]
    stopped = threading.Event()
    counting = threading.Lock()

    def read(seed: float) -> None:
        own = random.Random(seed)  # noqa: S311 - words, not secrets
        token = (user.state / "token").read_text().strip()
        with httpx.Client(headers={"Authorization": f"Bearer {token}"}, timeout=60) as client:
            while not stopped.is_set():
                asked = time.monotonic()
                answer = client.get(
                    f"http://127.0.0.1:{user.port}/search", params={"q": " ".join(own.choices(WORDS, k=2))}
                )
                with counting:
                    met["questions"] += 1
                    met["failed"] += answer.status_code != httpx.codes.OK
                    met["locked"] += "locked" in answer.text
                    longest[0] = max(longest[0], time.monotonic() - asked)

    threads = [threading.Thread(target=read, args=(chance.random(),)) for _ in range(READERS)]
    for thread in threads:
        thread.start()
    journal, until = 0, time.monotonic() + seconds
    while time.monotonic() < until:
        _save(user, chance, chance.randrange(500))
        time.sleep(chance.random() * 0.1)
        journal = max(journal, *(log.stat().st_size for log in user.state.glob("cache-*.db-wal")))
    stopped.set()
    for thread in threads:
        thread.join()
    return {
        "seconds": seconds,
        "questions": met["questions"],
        "failed": met["failed"],
        "locked": met["locked"],
        "worst_answer_s": round(longest[0], 2),
        "worst_journal_mb": round(journal / 1e6, 1),
    }
