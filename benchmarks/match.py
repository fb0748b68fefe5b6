"""How often answerable questions get answers and unanswerable ones none, as Markdown for docs/notes/quality.md.

    python -m benchmarks.match [--model NAME] [--data FOLDER] [--keep FOLDER]

Each judged set is asked its own questions and those of the other sets; the vaults of `questions_data` are asked the
questions that were written for them, and those in another language than theirs. The numbers in
`pipelines/search/judgement.py` and `thresholds.py` were chosen on `CHOSEN_ON`.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.command import EXAMPLE, folder_of, markdown, parser, present
from benchmarks.judged import COLLECTIONS, QUESTIONS, VAULTS, JudgedSet, asked_anew, prepare, read_rows
from benchmarks.quality import NOW
from pipelines.question import read_question
from queue_config.settings import Settings
from service.usecases.maintenance import index_once
from service.usecases.paging import Page
from service.usecases.search import View
from workers.resources import Resources

OWN, OF_OTHERS, SHOWN = 120, 25, 10
HERE = Path(__file__).parent
WRITTEN = {
    "examples": EXAMPLE,
    "de": HERE / "vaults" / "de",
    "zh": HERE / "vaults" / "zh",
}
"""The vaults with questions of our own; those of knowledge-garden are asked of the judged set of that name."""
CHOSEN_ON = ("qmd-eval-docs", "anthropic-docs", "cranfield", "cisi", "examples", "de", "garden-zh")


@dataclass
class Shares:
    """Counts of questions: answerable ones and what came of them, and unanswerable ones that got no answer."""

    name: str
    answerable: int = 0
    answered: int = 0
    in_ten: int = 0
    among_answers: int = 0
    strong: int = 0
    unanswerable: int = 0
    unanswered: int = 0
    strong_nonsense: int = 0
    near: int = 0
    near_unanswered: int = 0

    def take(self, page: Page, kind: str, relevant: Mapping[str, int]) -> None:
        """Count the answer to a question of a kind."""
        answers = page.answers
        if kind == "answerable":
            self.answerable += 1
            self.answered += bool(answers)
            self.strong += page.match == "strong"
            self.in_ten += any(one.first.hit.path in relevant for one in page.shown)
            self.among_answers += any(one.first.hit.path in relevant for one in answers)
        elif kind == "near":
            self.near += 1
            self.near_unanswered += not answers
        else:
            self.unanswerable += 1
            self.unanswered += not answers
            self.strong_nonsense += page.match == "strong"

    def row(self) -> list[str]:
        """Return the shares as cells of a table."""
        own, others = max(1, self.answerable), max(1, self.unanswerable)
        return [
            f"{self.name}{'' if self.name in CHOSEN_ON else ' *'}",
            f"{self.answerable} / {self.unanswerable}",
            f"{self.unanswered / others:.0%}",
            f"{self.answered / own:.0%}",
            f"{self.in_ten / own:.1%}",
            f"{self.among_answers / own:.1%}",
            f"{self.strong / own:.0%} / {self.strong_nonsense / others:.0%}",
            f"{self.near_unanswered} of {self.near}" if self.near else "",
        ]


HEAD = [
    "set",
    "questions",
    "unanswerable: none",
    "answerable: any",
    "right note in ten",
    "right among answers",
    "strong: own / others",
    "near misses: none",
]


def ask(service: View, text: str, kind: str, relevant: Mapping[str, int], counted: Shares) -> None:
    """Ask for ten notes and count what came."""
    counted.take(service.page(read_question(text), SHOWN, now=NOW), kind, relevant)


def of_set(judged: JudgedSet, sets: list[JudgedSet]) -> Shares:
    """Ask a judged set a sample of its own questions and of each other set's."""
    counted = Shares(judged.name)
    with asked_anew(judged) as service:
        for query in _sample(judged, OWN):
            ask(service, judged.queries[query], "answerable", judged.grades[query], counted)
        for other in sets:
            if other is not judged:
                for query in _sample(other, OF_OTHERS):
                    ask(service, other.queries[query], "elsewhere", {}, counted)
    return counted


def of_written(name: str, judged: JudgedSet, rows: Iterable[Mapping[str, Any]]) -> Shares:
    """Ask a vault questions that were written for it."""
    counted = Shares(name)
    with asked_anew(judged) as service:
        for row in rows:
            ask(service, row["question"], row["kind"], dict.fromkeys(row["paths"], 1), counted)
    return counted


def written(name: str) -> list[dict[str, Any]]:
    """Return the questions of a file of `questions_data`."""
    return list(read_rows(QUESTIONS / f"{name}.jsonl"))


def across(name: str) -> list[dict[str, Any]]:
    """Return a vault's questions in other languages than its own, and those of a field that it has nothing about."""
    own = [row for row in written("across") if row["vault"] == name]
    others = [row for other in WRITTEN if other != name for row in written(other)]
    return own + [{**row, "paths": []} for row in others if row["kind"] == "elsewhere"]


def _sample(judged: JudgedSet, most: int) -> list[str]:
    ids = sorted(judged.queries)
    random.Random(7).shuffle(ids)  # noqa: S311 - a sample, not a secret
    return ids[:most]


def _written(kept: Path, model: str | None) -> Iterator[Shares]:
    for name, notes in WRITTEN.items():
        vault = kept / f"written-{name}" / "vault"
        if not vault.exists():
            shutil.copytree(notes, vault)
        resources = Resources(Settings(vault=vault, state=vault.parent / "state", embedding_model=model))
        index_once(resources, lambda *_: None)
        judged = JudgedSet(name, resources, {}, {})
        yield of_written(name, judged, written(name))
        yield of_written(f"{name}, in other languages", judged, across(name))


def main() -> None:
    """Measure and print."""
    options = parser(__doc__, data=True, keep=True)
    options.add_argument("--model", help="what embeds, if not the embedded model for English")
    given = options.parse_args()
    console = Console(width=160, soft_wrap=True)
    with folder_of(given.keep) as kept:
        names = present((*COLLECTIONS, *VAULTS), given.data, console)
        sets = [prepare(name, given.data, kept, model=given.model) for name in names]
        rows = [of_set(judged, sets) for judged in sets]
        rows += _written(kept, given.model)
        garden = next((one for one in sets if one.name == "vault-knowledge-garden"), None)
        if garden:
            rows.append(of_written("garden-zh", garden, written("knowledge-garden")))
        console.print(markdown(HEAD, [one.row() for one in rows]))
        console.print("* not used to choose the numbers")


if __name__ == "__main__":
    main()
