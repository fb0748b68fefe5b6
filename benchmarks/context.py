"""What share of the judged notes a block of passages holds by its budget, and how fast, as for docs/notes/context.md.

    python -m benchmarks.context [SET ...] [--data FOLDER] [--keep FOLDER] [--questions N]
    python -m benchmarks.context --latency [--data FOLDER] [--keep FOLDER] [--questions N]

The first form asks the questions of judged sets and fills 500, 1,000, 2,000 and 4,000 tokens with (a) whole notes in
the order of a search, (b) the best passage of each note in that order, (c) what packing chooses, in its default order
and the densest first, (d) packing with compression. All use the same block with the same headings. In (a) and (b)
what does not fit is skipped. Judged notes that are a heading or a list of links alone do not count, in any way: no
block holds them, and they answer nothing. It says whether the default is at least as good as (b), and the verdict on
density.
The second form asks `GET /context` of a query worker with 50,000 passages, as `benchmarks.passages` makes them.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from statistics import fmean
from typing import Any

import httpx
import numpy as np
from rich.console import Console

from benchmarks.command import conditions, folder_of, markdown, parser, present
from benchmarks.judged import COLLECTIONS, JudgedSet, asked_anew, prepare
from benchmarks.passages import large_vault, real_questions
from benchmarks.running import serving, wait_until_idle, wait_until_ready
from pipelines.context import block
from pipelines.context.block import Order, Tokens, says_nothing
from pipelines.context.candidates import Candidate
from pipelines.context.compress import CompressionMode
from pipelines.embedding.models import EMBEDDED_MODEL
from pipelines.model import ContextLimits
from pipelines.question import read_question
from pipelines.search.ablation import with_settings
from pipelines.search.evaluate import judge
from pipelines.search.fusion import Found
from service.usecases.context import Contexts, Round, Wanted
from service.usecases.context_passages import Gathered, candidate_of, gather, most_notes, why_found
from service.usecases.search import View

SETS = ("anthropic-docs", "datatalks-faq", "scifact-train")
BUDGETS = (500, 1_000, 2_000, 4_000)
DEFAULT, DENSEST = "(c) packing", "(c) densest first"
PACKED: dict[str, tuple[CompressionMode, Order]] = {
    DEFAULT: ("none", "relevance"),
    DENSEST: ("none", "density"),
    "(d) with `light`": ("light", "relevance"),
    "(d) with `strong`": ("strong", "relevance"),
}
WAYS = ("(a) whole notes", "(b) passages", *PACKED)
SEARCHED = 100  # notes, which are more than fill 4,000 tokens
OPTIONS: dict[str, tuple[CompressionMode, dict[str, Any]]] = {
    "import_inject_threshold: 2": ("none", {"import_inject_threshold": 2}),
    "context: {max_files: 4}": ("none", {"context": ContextLimits(max_files=4)}),
    "context: {target_ratio: 0.2}": ("strong", {"context": ContextLimits(target_ratio=0.2)}),
    "context: {target_ratio: 0.6}": ("strong", {"context": ContextLimits(target_ratio=0.6)}),
    "context: {max_prune_ratio: 0.5}": ("strong", {"context": ContextLimits(max_prune_ratio=0.5)}),
    "context: {max_prune_ratio: 0.9}": ("strong", {"context": ContextLimits(max_prune_ratio=0.9)}),
}
"""Other values of a domain's settings that change blocks alone, with the compression for which they matter."""
OPTIONS_BUDGET = 1_000
CONTEXT_SETS = (*SETS, "vault-tasks-docs")
"""The sets of `OPTIONS`: those of blocks, and one with links."""
PASSAGES, BUDGET, WARM_UP, WANTED_MS = 50_000, 4_000, 20, 60

Shares = dict[tuple[str, int], list[float]]
"""The share of its judged notes that each question finds, by way and budget."""


def in_order(found: Iterable[tuple[str, str]], budget: int, question: str, tokens: Tokens) -> set[str]:
    """Return the notes of the passages, (path, as rendered), that fit one after another."""
    room = budget - tokens.of([block.written(question, [], [])])[0]
    inside = set()
    for path, rendered in found:
        (size,) = tokens.of([rendered])
        if size <= room:
            room -= size
            inside.add(path)
    return inside


def rendered(vault: Path, found: Sequence[Found]) -> dict[str, list[tuple[str, str]]]:
    """Return the notes of a search as whole notes and as their best passages, as a block shows them."""
    whole, best = [], []
    for one in found:
        path = one.hit.path
        passage = candidate_of(one.domain, one.chunk, "", one.hit.score, why_found(one), None)
        note = Candidate(
            **{name: getattr(passage, name) for name in passage.__slots__} | {"text": _text(vault, path)}
        )
        whole.append((path, block.passage(note)))
        best.append((path, block.passage(passage)))
    return {"(a) whole notes": whole, "(b) passages": best}


def _text(vault: Path, path: str) -> str:
    return (vault / path).read_text(encoding="utf-8").strip()


def shares(judged: JudgedSet, questions: View, most: int) -> Shares:
    """Ask at most `most` of a set's questions, and fill every budget in every way."""
    contexts, found = Contexts(questions), Shares()
    tokens = Tokens(EMBEDDED_MODEL, questions.resources.embedders.get(EMBEDDED_MODEL).count_tokens)
    for query, text in islice(judged.queries.items(), most):
        wanted = {
            path for path in judged.grades[query] if not says_nothing(_text(judged.resources.root, path))
        }
        if not wanted:
            continue
        question = read_question(text)
        page = questions.page(question, SEARCHED)
        # As `Contexts.ask` gathers for the largest budget: a smaller one takes the first of the same notes.
        gathered: dict[Order, Gathered] = {
            "relevance": gather(questions, question, notes=most_notes(BUDGETS[-1]), beyond=True),
            "density": gather(questions, question),
        }
        orders = rendered(judged.resources.root, [one.first for one in page.shown])
        for budget in BUDGETS:
            notes = {way: in_order(order, budget, text, tokens) for way, order in orders.items()}
            for way, (mode, order) in PACKED.items():
                notes[way] = packed(contexts, text, gathered[order], budget, mode, order)
            for way, inside in notes.items():
                found.setdefault((way, budget), []).append(len(inside & wanted) / len(wanted))
    return found


def option_gains(judged: JudgedSet, questions: View, most: int) -> dict[str, list[float]]:
    """Return by how much each option changes the share of judged notes in a block, question by question."""
    contexts, domains = Contexts(questions), questions.resources.registry().domains
    gains: dict[str, list[float]] = {name: [] for name in OPTIONS}

    def share(query: str, mode: CompressionMode, changed: dict[str, Any]) -> float:
        text, wanted = judged.queries[query], judged.grades[query].keys()
        way = with_settings({one.slug: replace(one, **changed) for one in domains})
        notes = most_notes(OPTIONS_BUDGET)
        gathered = gather(questions, read_question(text), notes=notes, beyond=True, way=way)
        inside = packed(contexts, text, gathered, OPTIONS_BUDGET, mode, "relevance")
        return len(inside & wanted) / len(wanted)

    for query in islice(judged.queries, most):
        usual = {mode: share(query, mode, {}) for mode in {mode for mode, _ in OPTIONS.values()}}
        for name, (mode, changed) in OPTIONS.items():
            gains[name].append(share(query, mode, changed) - usual[mode])
    return gains


def packed(
    contexts: Contexts, question: str, gathered: Gathered, budget: int, mode: CompressionMode, order: Order
) -> set[str]:
    """Return the notes that packing chooses."""
    wanted = Wanted(question, budget, mode, question, order=order)
    answer = contexts.packed(wanted, [Round(gathered)], time.perf_counter())
    return {one.path for one in answer.passages}


def table(found: dict[str, Shares]) -> str:
    """Return the mean share of each way by set and budget."""
    rows = [
        [name, f"{budget:,}", *(f"{fmean(of[way, budget]):.3f}" for way in WAYS)]
        for name, of in found.items()
        for budget in BUDGETS
    ]
    return markdown(["set", "tokens", *WAYS], rows)


def verdicts(found: dict[str, Shares]) -> Iterator[str]:
    """Yield whether packing is at least as good as passages in order, the verdict on density, and on compression.

    Compression holds if it is at least as good as passages are with twice the budget.
    """
    for budget in BUDGETS:
        ours, theirs = (
            fmean(fmean(of[way, budget]) for of in found.values()) for way in (DEFAULT, "(b) passages")
        )
        word = "holds" if ours >= theirs else "does not hold"
        yield f"{budget:,} tokens: {DEFAULT} {word} against (b): {ours:.3f} to {theirs:.3f}, the mean of all sets"
        gains = [
            dense - default
            for of in found.values()
            for dense, default in zip(of[DENSEST, budget], of[DEFAULT, budget], strict=True)
        ]
        verdict = judge(gains)
        yield (
            f"{budget:,} tokens: {DENSEST} against the default is {verdict.word}: {verdict.gain:+.3f}"
            f" ({verdict.low:+.3f} to {verdict.high:+.3f}, p {verdict.p:.3f}, {verdict.questions} questions)"
        )
    for name, of in found.items():
        for mode in ("(d) with `light`", "(d) with `strong`"):
            pairs = [(fmean(of[mode, half]), fmean(of["(b) passages", 2 * half])) for half in BUDGETS[:-1]]
            said = ", ".join(f"{ours:.3f} to {theirs:.3f}" for ours, theirs in pairs)
            yield f"{name}: {mode} {'holds' if all(a >= b for a, b in pairs) else 'does not hold'}: {said}"


def measure_shares(given: argparse.Namespace, console: Console) -> None:
    """Measure the share of judged notes, and print it."""
    found = {}
    with folder_of(given.keep) as kept:
        for name in present(given.sets, given.data, console):
            judged = prepare(name, given.data, kept)
            with asked_anew(judged) as questions:
                found[name] = shares(judged, questions, given.questions)
    if found:
        console.print(f"\n{table(found)}\n")
        console.print("\n".join(verdicts(found)))


def measure_latency(given: argparse.Namespace, console: Console) -> None:
    """Measure how long `GET /context` takes at 50,000 passages, and print it."""
    if len(present(COLLECTIONS, given.data, console)) < len(COLLECTIONS):
        return
    with folder_of(given.keep) as kept:
        folder = kept / f"minilm-{PASSAGES}"
        for what, said in large_vault(folder, given.data, PASSAGES):
            console.print(f"{what}: {said}")
        # Each path has questions of its own: the vector of a question that was just asked is kept.
        count = given.questions + WARM_UP
        questions = real_questions(given.data, 2 * count)
        with serving(folder / "vault", folder / "state") as (client, process):
            wait_until_ready(client, process)
            wait_until_idle(process)
            for path, more, asked in (
                ("/search", {}, questions[:count]),
                ("/context", {"budget": BUDGET}, questions[count:]),
            ):
                seconds = [_seconds(client, path, {"q": question, **more}) for question in asked][WARM_UP:]
                middle, most = np.percentile(seconds, (50, 95)) * 1e3
                console.print(
                    f"{path}: median {middle:.1f} ms, 95th {most:.1f} ms (wanted of /context: {WANTED_MS})"
                )


def _seconds(client: httpx.Client, path: str, asked: dict[str, object]) -> float:
    started = time.perf_counter()
    client.get(path, params=asked).raise_for_status()  # type: ignore[arg-type]  # texts and numbers
    return time.perf_counter() - started


def main() -> None:
    """Measure and print."""
    options = parser(__doc__, data=True, keep=True)
    options.add_argument("sets", nargs="*", default=SETS)
    options.add_argument("--questions", type=int, default=200, help="of each set, or timed")
    options.add_argument("--latency", action="store_true")
    given = options.parse_args()
    console = Console(soft_wrap=True, markup=False, highlight=False)
    (measure_latency if given.latency else measure_shares)(given, console)
    console.print(f"\n{conditions()}, all-MiniLM-L6-v2")


if __name__ == "__main__":
    main()
