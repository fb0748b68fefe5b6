"""A vault with everything that the dashboard can show: indexed, waiting, parked, held, proposed; and its history."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pipelines.model import LOW_PRIORITY, FoundFile, Suggestion, now_iso
from pipelines.state.health import Process, Processes
from pipelines.state.jobs import History, Result
from pipelines.state.state import EMBEDDING_SPEED, HELD, WATCHER, EmbeddingSpeed, Hold, WatcherFacts
from pipelines.state.tags import Proposals
from queue_config.settings import Settings
from service.usecases.maintenance import index_once
from workers.heartbeat import host, process_name
from workers.resources import Resources

HOSTILE = "<img src=x onerror=alert(1)> \"quoted\" & 'apostrophe'"
HOSTILE_FILE = "Hostile/<script>alert(1)<&script> \"'&amp;.md"
HOSTILE_PIPE = "pipe \"<b>'&quot;\\ ünï %41?#.md"
_DOMAINS = """
notes:
  legacy: true
fitness:
  path: fitness
  embedding_dim: 32
"""
_TASKS = ("index_notes", "index_notes", "index_notes", "drain", "recompute_graph", "reconcile_vault")


@dataclass(frozen=True)
class Stage:
    """A seeded vault, and what serves it."""

    settings: Settings
    resources: Resources

    @property
    def state(self) -> Path:
        return self.resources.place.state


def make_stage(folder: Path, model: Path, *, notes: int, jobs: int) -> Stage:
    """Write a vault, index it, and make the rest of what a busy week leaves behind."""
    root = folder / "vault"
    _write_vault(root, notes)
    settings = Settings(vault=root, state=folder / "state", embedding_model=str(model), max_note_mb=0.02)
    resources = Resources(settings)
    index_once(resources, lambda *_: None)
    _owe(resources)
    _propose(resources, notes)
    _say(resources)
    _work_done(resources.place.state, jobs)
    return Stage(settings, resources)


def _write_vault(root: Path, notes: int) -> None:
    subjects = ("garden", "soil", "compost", "winter", "river", "market", "bread", "sleep", "paper", "code")
    typed = "feeds: '[[Soil 11]]'\n"
    for number in range(notes):
        subject = subjects[number % len(subjects)]
        folder = root / ("fitness" if number % 5 == 0 else f"{subject.title()}s")
        folder.mkdir(parents=True, exist_ok=True)
        near = " and ".join(
            f"[[{subject.title()} {n}]]" for n in (number + 10, number + 30, number - 20) if 0 <= n < notes
        )
        (folder / f"{subject.title()} {number}.md").write_text(
            f"---\ntags: [{subject}]\n{typed if number == 1 else ''}---\n# {subject.title()} {number}\n\n"
            f"The {subject} in {number}: soil and compost, a line to the river. See {near}.\n\n## More\n\nbread and sleep\n"
        )
    (root / "_domains.yaml").write_text(_DOMAINS)
    (root / "Hostile").mkdir()
    (root / HOSTILE_FILE).write_text(
        f"---\ntitle: '{HOSTILE.replace(chr(39), chr(39) * 2)}'\n---\n# <script>alert(2)</script>\n\nsoil <b>bold</b> [[nowhere <i>]]\n"
    )
    (root / "plain.rtf").write_text("no note")
    for name in ("pipe.md", HOSTILE_PIPE):
        os.mkfifo(root / name)
    for name in ("Export of everything.md", "Mail archive.md", "fitness/Log.md"):
        (root / name).write_text("much " * 10_000)


def _owe(resources: Resources) -> None:
    domain = resources.domains()[0]
    seen = [(FoundFile(f"Soon {n}.md", f"Soon {n}.md", 1, 1, 10_000_000 + n), "hash") for n in range(3)]
    resources.cache(domain).ledger.record(domain.slug, seen, [], priority=LOW_PRIORITY)


def _propose(resources: Resources, notes: int) -> None:
    with closing(Proposals(resources.place.state)) as proposals:
        for number in range(0, min(notes, 40), 2):
            folder = resources.root
            path = next(folder.rglob(f"* {number}.md")).relative_to(folder).as_posix()
            domain = "fitness" if path.startswith("fitness/") else "notes"
            suggested = [
                (Suggestion("area/garden", 0.93), "area"),
                (Suggestion("season/winter", 0.58), "season"),
            ]
            proposals.add(domain, path, suggested, proposer="local", note_hash="hash", at=now_iso())
        hostile = [(Suggestion("<b>tag</b>", 0.4), "<i>group</i>")]
        proposals.add("notes", HOSTILE_FILE, hostile, proposer="local", note_hash="hash", at=now_iso())
        decided = [one.id for one in proposals.of_state(None, "waiting", limit=6)]
        proposals.decide(decided[:2], "rejected", now_iso())
        proposals.settle(decided[2:4], "refused", now_iso(), reason="the note changed meanwhile")


def _say(resources: Resources) -> None:
    state = resources.state()
    state.put(WATCHER, WatcherFacts("events", None, 12.3, 2.1, overflows=0, process=1))
    state.put(EMBEDDING_SPEED, EmbeddingSpeed(412.0), "notes")
    state.put(HELD, Hold(41, ("Old/A.md", "Old/<b>.md")), "fitness")
    began = (datetime.now(UTC) - timedelta(hours=7)).isoformat(timespec="milliseconds")
    with closing(Processes(resources.place.state)) as processes:
        processes.put(Process(process_name(), "query", "0.1.0", began, 184_000_000))
        processes.put(Process(f"{host()}:1/0.5", "worker", "0.1.0", began, 612_000_000))


def _work_done(state: Path, count: int) -> None:
    """Record jobs that began and ended, the last of them just now."""
    now = datetime.now(UTC)
    clock = [now]
    with closing(History(state, lambda: clock[0])) as history:
        for number in range(count):
            task = _TASKS[number % len(_TASKS)]
            domain = "notes" if number % 3 else "fitness"
            paths = [f"Soils/Soil {number % 400}.md"] if task == "index_notes" else []
            failed, ran = number % 97 == 0, 40.0 + number * 37 % 900
            clock[0] = now - timedelta(seconds=80_000 * (count - number) / count)
            job = history.start(
                f"task-{number}",
                task,
                domain,
                worker="desk:600/1.5",
                paths=paths,
                waited_ms=number * 13 % 400,
            )
            clock[0] += timedelta(milliseconds=ran)
            history.finish(
                job,
                Result(
                    "failed" if failed else "done",
                    ran,
                    attempt=1 + failed,
                    error=f"{HOSTILE}: cannot be read" if failed else None,
                    log=["job began", "job ended <b>ms=12</b>"],
                    saved_ms={domain: [200.0 + ran] * len(paths)},
                ),
            )
        clock[0] = datetime.now(UTC)
        history.start("task-now", "drain", "notes", worker=process_name(), waited_ms=3)


def multiply_jobs(state: Path, times: int) -> None:
    """Copy the whole history `times` times, to get a hundred thousand jobs in a moment."""
    with closing(sqlite3.connect(state / "state.db")) as con, con:
        columns = ", ".join(
            name for _, name, *_ in con.execute("PRAGMA table_info(job_history)") if name != "id"
        )
        con.execute(
            f"INSERT INTO job_history ({columns}) SELECT {columns} FROM job_history,"
            " (WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) SELECT i FROM n)"
            " WHERE state <> 'running'",
            (times,),
        )
