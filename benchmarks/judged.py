"""Judged sets as vaults: each document a note, indexed by the real pipeline, and kept for the next run."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.command import EXAMPLE
from pipelines.model import EmbeddingContext
from queue_config.settings import Settings
from service.usecases.maintenance import index_once
from service.usecases.search import View
from workers.resources import Resources

QUESTIONS = Path(__file__).parent / "questions_data"
COLLECTIONS = (
    "anthropic-docs",
    "datatalks-faq",
    "cranfield",
    "cisi",
    "cacm",
    "qmd-eval-docs",
    "scifact-train",
)
VAULTS = {"vault-tasks-docs": "anchor", "vault-knowledge-garden": "alias"}
EXAMPLES = "examples"
"""The example vault with the answerable questions that were written for it: the only set with vocabularies."""
# The sketch that the figures are compared with asked these alone.
FIRST_QUERIES = {"datatalks-faq": 600}


@dataclass(frozen=True)
class JudgedSet:
    """A vault with its index, its questions by id, and the grade of each relevant note by question and path."""

    name: str
    resources: Resources
    queries: dict[str, str]
    grades: dict[str, dict[str, int]]


def prepare(
    name: str, data: Path, kept: Path, context: EmbeddingContext | None = None, model: str | None = None
) -> JudgedSet:
    """Make a set's vault and index below `kept`, or bring the one that is there up to date.

    With a `context`, the index is built again, and its passages have that context; likewise with another `model`.
    """
    vault, folder = kept / name / "vault", data / name
    if name == EXAMPLES:
        rows = [row for row in read_rows(QUESTIONS / f"{name}.jsonl") if row["kind"] == "answerable"]
        queries = {row["id"]: row["question"] for row in rows}
        grades = {row["id"]: dict.fromkeys(row["paths"], 1) for row in rows}
        if not vault.exists():
            shutil.copytree(EXAMPLE, vault)
    elif name in VAULTS:
        kind = VAULTS[name]
        queries, grades = read_questions(folder, f"{kind}.")
        if not vault.exists():
            shutil.copytree(folder / "vault", vault)
            if kind == "anchor":
                _remove_links(vault, set(queries.values()))
    else:
        paths = write_notes(folder / "corpus.jsonl", vault)
        queries, grades = read_questions(folder, "")
        queries = dict(sorted(queries.items(), key=lambda item: _order(item[0]))[: FIRST_QUERIES.get(name)])
        grades = {q: {paths[d]: grade for d, grade in of.items()} for q, of in grades.items()}
    resources = Resources(
        Settings(vault=vault, state=kept / name / "state", embedding_context=context, embedding_model=model)
    )
    index_once(resources, lambda *_: None)
    return JudgedSet(name, resources, {q: text for q, text in queries.items() if grades.get(q)}, grades)


@contextmanager
def asked_anew(judged: JudgedSet) -> Iterator[View]:
    """Open a set's caches and load the model, as a service does when it starts."""
    questions = View(Resources(judged.resources.settings), wait_for_model=True)
    questions.load_models()
    questions.follow_commits()
    yield questions


def _order(query: str) -> tuple[int, str]:
    return (int(query) if query.isdecimal() else 0, query)


def write_notes(corpus: Path, vault: Path) -> dict[str, str]:
    """Write one note per document: its title as the heading, its text below; return the paths by document."""
    vault.mkdir(parents=True, exist_ok=True)
    paths = {}
    for number, document in enumerate(read_rows(corpus)):
        paths[document["_id"]] = f"{number:05}.md"
        title = f"# {document['title']}\n\n" if document["title"] else ""
        text = document["text"]
        note = text if text.startswith("# ") else title + text
        file = vault / f"{number:05}.md"
        if not file.exists():
            file.write_text(note, encoding="utf-8")
    return paths


def read_questions(folder: Path, prefix: str) -> tuple[dict[str, str], dict[str, dict[str, int]]]:
    """Return the questions by id, and the grade of each relevant document by question and document."""
    queries = {row["_id"]: row["text"] for row in read_rows(folder / f"{prefix}queries.jsonl")}
    return queries, read_grades(folder / f"{prefix}qrels.tsv")


def read_rows(file: Path) -> Iterator[dict[str, Any]]:
    """Yield the documents or questions of a file."""
    with file.open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def read_grades(file: Path) -> dict[str, dict[str, int]]:
    """Return the grade of each relevant document by question and document."""
    grades: dict[str, dict[str, int]] = {}
    for line in file.read_text(encoding="utf-8").splitlines()[1:]:
        query, document, grade = line.split("\t")
        if int(grade) > 0:
            grades.setdefault(query, {})[document] = int(grade)
    return grades


def _remove_links(vault: Path, texts: set[str]) -> None:
    """Remove every link whose text is a question, because the link would give the answer away."""
    link = re.compile(r"!?\[\[[^\]|\n]*\|([^\]\n]*)\]\]|\[([^\]\n]*)\]\([^)\n]*\)")
    for file in vault.rglob("*.md"):
        old = file.read_text(encoding="utf-8")
        new = link.sub(lambda m: "" if (m[1] or m[2] or "").strip() in texts else m[0], old)
        if new != old:
            file.write_text(new, encoding="utf-8")
