"""Make the archive of a vault and its state folder that later versions are tested with.

Run it with the version whose state is wanted, in a checkout of that version:

    python tests/upgrades/make_state.py 0.1.0-3813f35.tar.xz

The state has what people and history made: a promoted, a rejected and a waiting proposal, a renamed tag, held
deletions, a paused domain with a pending note, a parked note, an evidence record with a write-back, and
the jobs that did it all.
"""

from __future__ import annotations

import json
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

EXAMPLES = Path("examples/vault")
DOMAINS = """\
nutrition:
  legacy: true
garden:
  path: garden
work:
  path: work
"""
COLLIDING = ("Caf\u00e9.md", "Cafe\u0301.md")
GARDEN_NOTES, VANISHED = 30, 25


class Service:
    """A vault that `everindex up` serves."""

    def __init__(self, base: Path) -> None:
        self.vault, self.state = base / "vault", base / "state"
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        options = ["--vault", str(self.vault), "--state", str(self.state), "--port", str(self.port)]
        self.process = subprocess.Popen([sys.executable, "-m", "service.cli", "up", *options])

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        token = (self.state / "token").read_text().strip()
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
            return json.load(answer)

    def wait(self, condition: Callable[[], Any], what: str) -> Any:
        for _ in range(600):
            try:
                if value := condition():
                    return value
            except (OSError, KeyError, ValueError):
                pass  # it is starting
            time.sleep(0.1)
        raise SystemExit(f"not within a minute: {what}")

    def wait_until_quiet(self) -> None:
        def quiet() -> bool:
            h = self.ask("GET", "/health")
            return bool(
                h["model_ready"] and h["last_reconcile"] and not h["pending"] and not h["vectors_pending"]
            )

        self.wait(quiet, "everything is indexed")

    def proposals(self, state: str) -> list[dict[str, Any]]:
        return list(self.ask("GET", f"/proposals?state={state}")["proposals"])

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(30)


def make_vault(vault: Path) -> None:
    """Write the notes that are there when it is first indexed."""
    shutil.copytree(EXAMPLES / "nutrition", vault)
    (vault / "_domains.yaml").write_text(DOMAINS)
    for folder in ("garden", "work"):
        (vault / folder).mkdir()
    for number in range(GARDEN_NOTES):
        text = f"# Bed {number}\n\nBed number {number} has tomatoes. See [[Bed {(number + 1) % GARDEN_NOTES}]].\n"
        (vault / "garden" / f"Bed {number}.md").write_text(text)
    (vault / "work" / "Plan.md").write_text("# Plan\n\nShip the release on Friday.\n")
    for name in COLLIDING:
        (vault / name).write_text("# Café\n\nOne name in two Unicode forms is parked.\n")


def make_history(service: Service) -> None:
    """Do what operators do."""
    vault, ask = service.vault, service.ask
    # Notes that are there before the vocabulary is known are not proposed for.
    time.sleep(20)
    for number, text in enumerate(
        ("an espresso and caffeine", "lentils and other legumes", "tofu and miso, soy")
    ):
        body = f"# New {number}\n\nAll about {text}: caffeine, legumes, soy. I drink coffee; I cook lentils and tofu.\n"
        (vault / f"New {number}.md").write_text(body)
    service.wait(lambda: ask("GET", "/why/New%202.md")["state"] == "indexed", "the new notes")
    service.wait_until_quiet()
    ask("POST", "/proposals/ask?path=New%200.md")
    waiting = service.wait(lambda: len(p := service.proposals("waiting")) >= 3 and p, "three proposals")
    ask("POST", "/proposals/decide", {"accept": [waiting[0]["id"]], "reject": [waiting[1]["id"]]})
    service.wait(lambda: ask("GET", "/changes"), "a promoted tag")
    record = ask("POST", "/v1/rx", {"question": "how much coffee is too much?", "k": 5})
    hit = record["evidence"][0]
    quote = {"path": hit["path"], "quote": hit["text"][:60].rpartition(" ")[0], "text_hash": hit["text_hash"]}
    ask("POST", "/v1/rx/deep", {"id": record["id"], "citations": [quote], "notes": "Little after noon."})
    ask("POST", "/ops/queue/pause?domain=work")
    (vault / "work" / "Plan.md").write_text("# Plan\n\nShip the release on Monday.\n")
    ask("POST", "/ops/parked/forget", {"paths": [ask("GET", "/ops/parked.json")["notes"][0]["path"]]})
    shutil.move(vault / "garden", vault.parent / "aside")
    (vault / "garden").mkdir()
    for number in range(VANISHED, GARDEN_NOTES):
        shutil.copy2(vault.parent / "aside" / f"Bed {number}.md", vault / "garden")
    shutil.rmtree(vault.parent / "aside")
    service.wait(lambda: any("vanished" in p for p in ask("GET", "/health")["problems"]), "held deletions")
    time.sleep(5)  # what was saved before is written down


def main() -> None:
    """Make the archive that the first argument names."""
    target = Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder)
        make_vault(base / "vault")
        service = Service(base)
        try:
            service.wait_until_quiet()
            make_history(service)
        finally:
            service.stop()
        shutil.rmtree(base / "state" / "logs")
        with tarfile.open(target, "w:xz", preset=9) as archive:
            for name in ("vault", "state"):
                archive.add(base / name, name)


if __name__ == "__main__":
    main()
