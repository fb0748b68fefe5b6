"""How well the model that your settings name answers from notes: questions that they answer, and others.

    EVERINDEX_CHAT='{"model": "claude-haiku-5-5"}' ANTHROPIC_API_KEY=... python -m benchmarks.chat
        [SET ...] [--questions N] [--data FOLDER] [--keep FOLDER] [--record FILE]

Each question is a conversation of its own with the service (`POST /chat`), and is sent to the model with the passages
that were found. The vaults of `questions_data` have questions that were written for them; the other sets are asked N
of their own, and as many of the other sets'. What a day may cost is a setting (`usd_a_day`).
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import NamedTuple

import httpx
from pydantic import TypeAdapter
from rich.console import Console

from benchmarks.command import conditions, folder_of, markdown, milliseconds, parser, present
from benchmarks.judged import COLLECTIONS, VAULTS, prepare
from benchmarks.match import WRITTEN, written
from benchmarks.quality import sampled
from benchmarks.running import serving, wait_until_ready
from pipelines.embedding.models import EMBEDDED_MODEL
from queue_config.settings import Settings
from service.schemas.chat import ChatLine, DoneLine, MetadataLine, TextLine
from service.usecases.maintenance import index_once
from workers.resources import Resources

QUESTIONS = 20
ANSWERABLE, UNANSWERABLE = "answerable", "unanswerable"
_SUPPORTED = ("quoted", "cited")
_LINE: TypeAdapter[ChatLine] = TypeAdapter(ChatLine)


class Chosen(NamedTuple):
    """A set: its vault, its index, and its questions, each with its kind."""

    name: str
    vault: Path
    state: Path
    questions: Sequence[tuple[str, str]]


@dataclass
class Asked:
    """A question and what came of it; seconds are from the question to the line, None if there was none."""

    set: str
    kind: str
    question: str
    says_not_in_notes: bool = False
    sentences: dict[str, int] = field(default_factory=dict)
    verified: int = 0
    unverified: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    dollars: float = 0.0
    ended: str = "broken off"
    wrong: list[str] = field(default_factory=list)
    first_source: float | None = None
    first_text: float | None = None
    answer: str = ""

    @property
    def is_answered(self) -> bool:
        """Whether the model said anything."""
        return bool(self.sentences)

    @property
    def is_supported(self) -> bool:
        """Whether a sentence rests on a note, and none quotes or names what is not there."""
        return any(self.sentences.get(one) for one in _SUPPORTED) and not self.sentences.get("unverified")

    def take(self, line: ChatLine, seconds: float) -> None:
        """Take a line of the answer."""
        match line:
            case MetadataLine(sources=[_, *_]) if self.first_source is None:
                self.first_source = seconds
            case TextLine(support="judgement"):
                self.says_not_in_notes = True
            case TextLine():
                self.first_text = seconds if self.first_text is None else self.first_text
                if line.text.strip():
                    self.sentences[line.support] = self.sentences.get(line.support, 0) + 1
                self.answer += line.text
            case DoneLine():
                self.verified, self.unverified = line.verified, line.unverified
                self.tokens_in, self.tokens_out, self.dollars = line.tokens_in, line.tokens_out, line.dollars
                self.ended = line.ended
            case _:
                self.wrong += [line.message] if line.type == "error" else []


def ask(client: httpx.Client, name: str, kind: str, question: str) -> Asked:
    """Ask in a conversation of its own, which is deleted. Raises httpx.HTTPError where the service cannot answer."""
    asked = Asked(name, kind, question)
    chat = None
    began = time.perf_counter()
    with client.stream("POST", "/chat", json={"question": question}, timeout=300) as response:
        if response.is_error:
            response.read()
            raise httpx.HTTPStatusError(response.text, request=response.request, response=response)
        for text in response.iter_lines():
            line = _LINE.validate_json(text)
            asked.take(line, time.perf_counter() - began)
            chat = line.chat if isinstance(line, MetadataLine) else chat
    if chat:
        client.delete(f"/chats/{chat}")
    return asked


def ask_all(chosen: Chosen, model: str = EMBEDDED_MODEL) -> Iterator[Asked]:
    """Serve a set's vault, and ask it each question."""
    with serving(chosen.vault, chosen.state, model) as (client, process):
        wait_until_ready(client, process)
        for kind, question in chosen.questions:
            yield ask(client, chosen.name, kind, question)


HEAD = (
    "set",
    "questions",
    "answered",
    "supported",
    "sentences: quoted / cited / unverified / own",
    "quotations: verified / not",
    "not in your notes",
    "first source",
    "first text",
    "tokens in / out",
    "dollars",
    "stopped or failed",
)


def row(name: str, asked: Sequence[Asked]) -> list[str]:
    """Return the figures of some questions as cells of a table; tokens are of one answer."""
    answered = [one for one in asked if one.is_answered]
    sentences = [
        sum(one.sentences.get(kind, 0) for one in asked) for kind in (*_SUPPORTED, "unverified", "own")
    ]
    times = [
        [s for one in asked if (s := getattr(one, at)) is not None] for at in ("first_source", "first_text")
    ]
    tokens = [one.tokens_in for one in asked], [one.tokens_out for one in asked]
    return [
        name,
        str(len(asked)),
        f"{len(answered) / len(asked):.0%}",
        f"{sum(one.is_supported for one in answered) / max(1, len(answered)):.0%}",
        " / ".join(map(str, sentences)),
        f"{sum(one.verified for one in asked)} / {sum(one.unverified for one in asked)}",
        f"{sum(one.says_not_in_notes for one in asked) / len(asked):.0%}",
        *(milliseconds(seconds) if seconds else "" for seconds in times),
        " / ".join(f"{sum(counts) / len(asked):,.0f}" for counts in tokens),
        f"{sum(one.dollars for one in asked):.4f}",
        str(sum(one.ended != "complete" for one in asked)),
    ]


def table(asked: Sequence[Asked]) -> str:
    """Return a table with a row for each set and kind of question, and one for each kind over all sets."""
    kinds = list(dict.fromkeys(one.kind for one in asked))
    names = list(dict.fromkeys(one.set for one in asked))
    groups = [
        (f"{name}, {kind}", [one for one in asked if (one.set, one.kind) == (name, kind)])
        for name in names
        for kind in kinds
    ]
    groups += (
        [(f"all, {kind}", [one for one in asked if one.kind == kind]) for kind in kinds]
        if len(names) > 1
        else []
    )
    return markdown(HEAD, [row(name, some) for name, some in groups if some])


def record(asked: Sequence[Asked], model: str, file: Path) -> None:
    """Write the conditions and each question with its answer as JSON."""
    said = {"conditions": conditions(), "model": model, "questions": [asdict(one) for one in asked]}
    file.write_text(json.dumps(said, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _written(name: str, kept: Path, most: int) -> Chosen:
    """Make a vault of `questions_data` and its index."""
    vault, state = kept / f"written-{name}" / "vault", kept / f"written-{name}" / "state"
    if not vault.exists():
        shutil.copytree(WRITTEN[name], vault)
    index_once(Resources(Settings(vault=vault, state=state, embedding_model=EMBEDDED_MODEL)), lambda *_: None)
    asked = []
    for kind in (ANSWERABLE, UNANSWERABLE):
        of_kind = [
            row["question"] for row in written(name) if (row["kind"] == ANSWERABLE) == (kind == ANSWERABLE)
        ]
        asked += [(kind, text) for text in of_kind[:most]]
    return Chosen(name, vault, state, asked)


def _chosen(names: Sequence[str], kept: Path, data: Path, most: int, console: Console) -> Iterator[Chosen]:
    """Yield each set with at most so many questions of each kind."""
    for name in names:
        if name in WRITTEN:
            yield _written(name, kept, most)
    there = present([name for name in names if name not in WRITTEN], data, console)
    sets = [prepare(name, data, kept, model=EMBEDDED_MODEL) for name in there]
    for judged in sets:
        others = [other for other in sets if other is not judged]
        each = -(-most // max(1, len(others)))
        foreign = [text for other in others for text in sampled(other, each).queries.values()][:most]
        asked = [(ANSWERABLE, text) for text in sampled(judged, most).queries.values()]
        asked += [(UNANSWERABLE, text) for text in foreign]
        yield Chosen(judged.name, kept / judged.name / "vault", kept / judged.name / "state", asked)


def main() -> None:
    """Ask, print and record."""
    sets = (*WRITTEN, *COLLECTIONS, *VAULTS)
    options = parser(__doc__, data=True, keep=True)
    options.add_argument("sets", nargs="*", metavar="SET", help=f"of {', '.join(sets)}; default: examples")
    options.add_argument("--questions", type=int, default=QUESTIONS, metavar="N", help="of each kind per set")
    options.add_argument(
        "--record", type=Path, help="write each question with its answer to this file, as JSON"
    )
    given = options.parse_args()
    if unknown := sorted(set(given.sets) - set(sets)):
        options.error(f"no such set: {', '.join(unknown)}")
    console = Console(width=160, soft_wrap=True)
    model = Settings().chat
    if model is None:
        options.error("no model is named that could answer; set EVERINDEX_CHAT, as shown above")
    asked: list[Asked] = []
    with folder_of(given.keep) as kept:
        for chosen in _chosen(given.sets or ["examples"], kept, given.data, given.questions, console):
            console.print(f"{chosen.name}: {len(chosen.questions)} questions to {model.model}")
            asked += ask_all(chosen)
            if given.record:
                record(asked, model.model, given.record)
    if asked:
        console.print(table(asked))
    for message in dict.fromkeys(message for one in asked for message in one.wrong):
        console.print(f"an answer failed: {message}")


if __name__ == "__main__":
    main()
