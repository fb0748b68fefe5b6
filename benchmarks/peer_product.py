"""A product on its copy of a vault, as the benchmark handles it: commands to run, and a question to ask."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import httpx
import psutil

from benchmarks.freshness import free_port
from benchmarks.peer_endpoint import KEY
from benchmarks.peer_install import outer_environment
from benchmarks.peer_mcp import McpClient

_PATIENCE = 300.0


class Product:
    """A product on its copy of a vault: installed below `tools`, with its state and home below `home`."""

    name: str
    package: str
    asked_by: str
    watches = True
    meaning = True
    # How the product ranks by words or by vectors alone, where it lets one choose; `mode` is the choice, if any.
    words_alone = vectors_alone = ""
    mode = ""

    def __init__(self, tools: Path, root: Path, home: Path, endpoint: str) -> None:
        self.tools, self.root, self.home, self.endpoint = tools / self.package, root, home, endpoint
        self.port = free_port()
        self.process: psutil.Popen | None = None
        home.mkdir(parents=True, exist_ok=True)

    @property
    def environment(self) -> dict[str, str]:
        """The variables of its processes: a home of its own, and the endpoint as OpenAI's."""
        return {
            **outer_environment(),
            "HOME": str(self.home),
            "XDG_CACHE_HOME": str(self.home / "cache"),
            "XDG_CONFIG_HOME": str(self.home / "config"),
            "NO_COLOR": "1",
            "HF_HUB_OFFLINE": "1",
            "OPENAI_API_KEY": KEY,
            "OPENAI_BASE_URL": self.endpoint,
        }

    def program(self, name: str) -> str:
        """Return where a program of its environment is."""
        return str(self.tools / "bin" / name)

    def index_commands(self) -> list[list[str]]:
        """Return the commands that build its first index, in turn."""
        raise NotImplementedError

    def serve_command(self) -> list[str]:
        """Return the command that serves, and watches where the product can."""
        raise NotImplementedError

    def ask_command(self, question: str) -> list[str]:
        """Return the command with which a terminal asks."""
        raise NotImplementedError

    def ask(self, question: str, k: int = 10) -> list[str]:
        """Return the paths of the best notes, best first."""
        raise NotImplementedError

    def ask_all(self, questions: Sequence[str]) -> list[list[str]]:
        """Return the paths of the ten best notes for each question."""
        return [self.ask(question) for question in questions]

    def run(self, command: Sequence[str]) -> str:
        """Run one of its commands; return its output. Raises RuntimeError with its last line of errors."""
        done = subprocess.run(
            command, env=self.environment, cwd=self.home, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise RuntimeError(f"{self.name}: {(done.stderr or done.stdout).strip()[-300:]}")
        return done.stdout

    def start(self) -> None:
        """Start serving, and wait until it answers. Raises TimeoutError."""
        with (self.home / "serve.log").open("w") as log:
            self.process = psutil.Popen(
                self.serve_command(), env=self.environment, cwd=self.home, stdout=log, stderr=log
            )
        deadline = time.monotonic() + _PATIENCE
        while not self.answers():
            if time.monotonic() > deadline or not self.process.is_running():
                raise TimeoutError(f"{self.name} does not answer; {self.home / 'serve.log'} says why")
            time.sleep(0.2)

    def answers(self) -> bool:
        """Say whether a question is answered."""
        try:
            self.ask("garden")
        except (httpx.HTTPError, OSError, RuntimeError, LookupError, ValueError):
            return False
        return True

    def stop(self) -> None:
        """End its processes, as a terminal does."""
        if self.process and self.process.is_running():
            children = self.process.children(recursive=True)
            self.process.terminate()
            _, left = psutil.wait_procs([self.process, *children], timeout=20)
            for process in left:
                process.kill()

    def after_change(self) -> None:
        """Do what a product without a watcher wants after each change."""

    def embedded_here(self) -> int:
        """Return how many texts it embedded by itself, without the endpoint."""
        return 0

    def _paths(self, found: Iterable[str], k: int) -> list[str]:
        """Return paths from the vault's root, each once, in their order."""
        return list(dict.fromkeys(path.removeprefix(f"{self.root}/") for path in found))[:k]


class McpProduct(Product):
    """A product that programs ask over the Model Context Protocol, by HTTP."""

    asked_by = "MCP by HTTP"

    def call(self, tool: str, arguments: dict[str, Any]) -> Any:
        """Call a tool; return what it found, an empty list for no content. Raises LookupError if the tool failed."""
        if not hasattr(self, "_mcp"):
            self._mcp = McpClient(f"http://127.0.0.1:{self.port}/mcp")
        result = self._mcp.send("tools/call", {"name": tool, "arguments": arguments})
        if result.get("isError"):
            raise LookupError(str(result["content"])[:300])
        return json.loads(result["content"][0]["text"]) if result["content"] else []
