"""What each model is worth, and each way to rank with it, as Markdown for docs/notes/models.md.

    python -m benchmarks.models [--data FOLDER] [--keep FOLDER]

Each collection is indexed by each model and asked at most 150 questions, evenly spaced. Of scifact-train 1,500
documents are indexed, among them all that answer these. Each way is judged against another one by the paired test of
`benchmarks.quality`. At last a vault in English, German and Chinese is asked in its own and in other languages.
Times are those of the processor, so that a busy machine gives the same.
"""

from __future__ import annotations

import json
import multiprocessing
import shutil
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from math import log
from pathlib import Path
from statistics import fmean, median

import numpy as np
import psutil
from rich.console import Console
from scipy.sparse import csr_array

from benchmarks.command import conditions, folder_of, markdown, parser, present
from benchmarks.judged import COLLECTIONS, JudgedSet, asked_anew, prepare, read_questions, read_rows
from benchmarks.match import WRITTEN, written
from benchmarks.quality import NOW, sampled
from pipelines.embedding.embedder import Embedder, Library
from pipelines.embedding.models import EMBEDDED_MODEL, MULTILINGUAL_MODEL, find_model
from pipelines.notes.lexical import STOPWORDS, folded, index_tokens
from pipelines.question import Question, read_question
from pipelines.search.ablation import steps
from pipelines.search.evaluate import GainEstimate, judge, ndcg
from pipelines.search.fusion import convex_combination
from pipelines.search.rank import SHALLOWEST, Source
from pipelines.search.thresholds import scaled
from pipelines.store import Cache
from queue_config.settings import Settings
from service.usecases.maintenance import index_once
from service.usecases.search import View
from workers.resources import Resources

MODELS = {"MiniLM": EMBEDDED_MODEL, "e5": MULTILINGUAL_MODEL}
LIBRARIES: tuple[Library, ...] = ("torch", "numpy")
QUESTIONS, DEPTH, TEXTS = 150, 50, 100
WEIGHTS = (0.0, 0.5, 0.85)
SAMPLED = {"scifact-train": 1_500}
"""The documents that are indexed of a set that is too large."""
TIMED = "cranfield"
"""The set whose passages and questions show how fast a model is, and what memory it takes."""
WORDS, TFIDF, BOTH = "words alone", "tfidf alone", "tfidf and words"


def against(way: str) -> str:
    """Return what a way is compared with: MiniLM, words without a model, or the list before it is re-ranked."""
    if way.startswith("tfidf"):
        return WORDS
    return f"{way.partition(',')[0]}, torch" if " by " in way else "MiniLM, torch"


@dataclass
class Measured:
    """How good the answers of each way are, by set, and the processor's seconds for each question."""

    scores: dict[str, dict[str, list[float]]] = field(default_factory=lambda: defaultdict(dict))
    seconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    def take(self, way: str, name: str, score: float, seconds: float) -> None:
        """Keep what came of a question."""
        self.scores[way].setdefault(name, []).append(score)
        self.seconds[way].append(seconds)

    def verdict(self, way: str) -> GainEstimate:
        """Judge a way against the one that it is compared with; each set counts alike."""
        own, other = self.scores[way], self.scores[against(way)]
        gains = {name: [a - b for a, b in zip(own[name], other[name], strict=True)] for name in own}
        weights = [1 / len(several) for several in gains.values() for _ in several]
        return judge([gain for several in gains.values() for gain in several], weights)

    def row(self, way: str, names: Sequence[str], costs: Mapping[str, Cost]) -> list[str]:
        """Return the row of a way in the table."""
        means = [fmean(self.scores[way][name]) for name in names]
        said = self.verdict(way)
        p = f"p {said.p:.3f}" if said.p >= 0.001 else "p < 0.001"
        verdict = f"{said.gain:+.3f} {said.word} ({p}), {against(way)}" if way != against(way) else ""
        cost = costs.get(way)
        return [
            way,
            *(f"{mean:.3f}" for mean in means),
            f"{fmean(means):.3f}",
            verdict,
            f"{1000 * median(self.seconds[way]):.1f}",
            f"{cost.texts:,.0f}" if cost and cost.texts else "",
            f"{cost.megabytes:.0f}" if cost else "",
        ]


@dataclass(frozen=True)
class Cost:
    """The texts that a core embeds in a second, and the megabytes of a process that answers questions."""

    texts: float | None
    megabytes: float


# TF-IDF as the source document's backend has it, with our own tokens and without its limit of 10,000 words.


def words_of(text: str) -> Counter[str]:
    """Return how often each word of a text occurs."""
    return Counter(word for token in index_tokens(text) if (word := folded((token,))) not in STOPWORDS)


class TfIdf:
    """The passages of a cache as vectors of words: each `(0.5 + 0.5 count / most) (ln((N + 1) / (df + 1)) + 1)`."""

    def __init__(self, cache: Cache) -> None:
        self.ids = sorted(cache.search.chunks_with_vectors(None))
        rows = cache.passages.chunk_rows(self.ids)
        counts = [words_of(f"{rows[one].title}\n{rows[one].text}") for one in self.ids]
        having = Counter(word for own in counts for word in own)
        self._idf = {word: log((len(counts) + 1) / (df + 1)) + 1 for word, df in having.items()}
        self._numbers = {word: number for number, word in enumerate(self._idf)}
        weights = [self._weights(own) for own in counts]
        ends = np.cumsum([0, *map(len, weights)])
        places = [self._numbers[word] for own in weights for word in own]
        values = np.array([value for own in weights for value in own.values()], np.float32)
        self._matrix = csr_array((values, places, ends), (len(counts), max(1, len(self._idf))))

    def _weights(self, counts: Counter[str]) -> dict[str, float]:
        most = max(counts.values(), default=1)
        raw = {
            word: (0.5 + 0.5 * count / most) * self._idf[word]
            for word, count in counts.items()
            if word in self._idf
        }
        length = sum(value**2 for value in raw.values()) ** 0.5
        return {word: value / length for word, value in raw.items()}

    def scores(self, text: str) -> dict[int, float]:
        """Return the cosine of each passage that has a word of a question."""
        question = np.zeros(self._matrix.shape[1], np.float32)
        for word, value in self._weights(words_of(text)).items():
            question[self._numbers[word]] = value
        found = self._matrix @ question
        return {self.ids[at]: float(found[at]) for at in np.flatnonzero(found)}

    @property
    def megabytes(self) -> float:
        """The memory of the weights."""
        parts = (self._matrix.data, self._matrix.indices, self._matrix.indptr)
        return sum(part.nbytes for part in parts) / 1e6


def measure_tfidf(judged: JudgedSet, view: View, name: str, into: Measured) -> tuple[float, float]:
    """Ask a set's questions by TF-IDF, alone and with BM25; return its passages per second, and its megabytes."""
    ((_, cache),) = view.readers()
    began = time.process_time()
    table = TfIdf(cache)
    built = time.process_time() - began
    paths = cache.passages.chunk_paths(table.ids)
    for query, text in judged.queries.items():
        question, grades = read_question(text), judged.grades[query]
        (source,) = view.page(question, 1, way=steps()["words"], now=NOW).ranked.sources.values()
        began = time.process_time()
        scores = table.scores(text)
        best = dict(sorted(scores.items(), key=lambda pair: -pair[1])[:SHALLOWEST])
        alone = time.process_time() - began
        into.take(TFIDF, name, ndcg(_notes(best, paths), grades), alone)
        fused = with_words(source, question, best, scores)
        into.take(BOTH, name, ndcg(_notes(fused, paths), grades), time.process_time() - began)
    return len(table.ids) / built, table.megabytes


def with_words(
    source: Source, question: Question, best: Mapping[int, float], scores: Mapping[int, float]
) -> list[int]:
    """Return passages by TF-IDF and BM25, fused as cosines and BM25 are."""
    matches = source.matches(question)
    words = dict(matches(SHALLOWEST, None))
    missing = [one for one in best if one not in words]
    words |= dict(matches(len(missing), missing))
    both = {"tfidf": {one: scores.get(one, 0.0) for one in {**best, **words}}, "words": words}
    return [one for one, _ in convex_combination(both)]


def _notes(chunks: Sequence[int] | Mapping[int, float], paths: Mapping[int, str]) -> list[str]:
    return list(dict.fromkeys(paths[chunk] for chunk in chunks if chunk in paths))[:10]


# The models, each alone and as re-ranker of the other.


def _ask_by_torch(view: View, model: str) -> None:
    """Let torch embed a view's questions: a service leaves only many texts to it, in a process of its own."""
    by_torch = Embedder(find_model(model), threads=1, library="torch")
    view.resources.embedders._loaded[model] = by_torch  # noqa: SLF001 - no one else wants this


@contextmanager
def asked_by(judged: JudgedSet, model: str, library: Library) -> Iterator[View]:
    """Open a set as a service does, with questions embedded by a library."""
    with asked_anew(judged) as view:
        if library == "torch":
            _ask_by_torch(view, model)
        yield view


def measure_set(name: str, sets: Mapping[str, JudgedSet], into: Measured) -> tuple[float, float]:
    """Ask a set's questions in every way; return what `measure_tfidf` does."""
    with ExitStack() as opened:
        views = {
            (short, library): opened.enter_context(asked_by(sets[short], MODELS[short], library))
            for short in MODELS
            for library in LIBRARIES
        }
        judged = sets["MiniLM"]
        for query, text in judged.queries.items():
            grades, lists = judged.grades[query], {}
            for (short, library), view in views.items():
                began = time.process_time()
                page = view.page(read_question(text), DEPTH, now=NOW)
                took = time.process_time() - began
                lists[short] = {one.first.hit.path: one.first.hit.score for one in page.shown}, took
                into.take(f"{short}, {library}", name, ndcg(list(lists[short][0])[:10], grades), took)
            for short, other in (("MiniLM", "e5"), ("e5", "MiniLM")):
                first, took = lists[short]
                began = time.process_time()
                near = cosines_of(views[other, "numpy"], MODELS[other], text, list(first))
                took += time.process_time() - began
                for weight in WEIGHTS:
                    found = reranked(first, near, weight)[:10]
                    into.take(f"{short}, re-ranked by {other}, w {weight:g}", name, ndcg(found, grades), took)
            began = time.process_time()  # the question's vector is known by now, and not compared
            page = views["MiniLM", "numpy"].page(read_question(text), 10, way=steps()["words"], now=NOW)
            took = time.process_time() - began
            into.take(WORDS, name, ndcg([one.first.hit.path for one in page.shown], grades), took)
        return measure_tfidf(judged, views["MiniLM", "numpy"], name, into)


def cosines_of(view: View, model: str, text: str, paths: Sequence[str]) -> dict[str, float]:
    """Return the scaled cosine of each note's best passage to a question, by a model."""
    (vector,) = view.resources.embedders.get(model).encode_queries([text])
    ((_, cache),) = view.readers()
    near = scaled(model, cache.search.cosines(vector, cache.search.chunks_of_notes(paths, (), None)))
    notes, best = cache.passages.chunk_paths(list(near)), dict[str, float]()
    for chunk, cosine in near.items():
        best[notes[chunk]] = max(cosine, best.get(notes[chunk], 0.0))
    return best


def reranked(first: Mapping[str, float], near: Mapping[str, float], weight: float) -> list[str]:
    """Order notes by `weight` of their score and the rest of another model's cosine, each a share of the best one."""
    best, nearest = max(first.values(), default=1.0), max(near.values(), default=1.0) or 1.0
    worth = {
        path: weight * score / best + (1 - weight) * near.get(path, 0.0) / nearest
        for path, score in first.items()
    }
    return sorted(worth, key=lambda path: -worth[path])


def cost_of(kept: Path, data: Path, short: str | None, library: Library) -> Cost:
    """Return what a process of its own takes that answers questions with a model, or with words alone."""
    folder = kept / (short or "MiniLM") / TIMED
    resources = Resources(Settings(vault=folder / "vault", state=folder / "state"))
    view = View(resources, wait_for_model=short is not None)
    if short:
        view.load_models()
        if library == "torch":
            _ask_by_torch(view, MODELS[short])
    view.follow_commits()
    for text in [*read_questions(data / TIMED, "")[0].values()][:20]:
        view.page(read_question(text), 10, now=NOW)
    megabytes = psutil.Process().memory_info().rss / 1e6
    if short is None:
        return Cost(None, megabytes)
    texts = [row["text"] for row in read_rows(data / TIMED / "corpus.jsonl")][:TEXTS]
    began = time.process_time()
    view.resources.embedders.get(MODELS[short]).encode_documents(texts)
    return Cost(len(texts) / (time.process_time() - began), megabytes)


def costs(kept: Path, data: Path) -> dict[str, Cost]:
    """Return the cost of each model by each library, and of words alone, each measured in a fresh process."""
    wanted = {f"{short}, {library}": (short, library) for short in MODELS for library in LIBRARIES}
    found = {}
    for way, (short, library) in {**wanted, WORDS: (None, LIBRARIES[0])}.items():
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
            found[way] = pool.submit(cost_of, kept, data, short, library).result()
    return found


# A vault in several languages.


def mixed(kept: Path, model: str) -> JudgedSet:
    """Index one vault of the notes of `WRITTEN`; its questions are their own, and those in other languages."""
    vault = kept / "mixed" / "vault"
    for name, notes in WRITTEN.items():
        if not (vault / name).exists():
            shutil.copytree(notes, vault / name, ignore=shutil.ignore_patterns("_*"))
    resources = Resources(Settings(vault=vault, state=vault.parent / "state", embedding_model=model))
    index_once(resources, lambda *_: None)
    rows = [{**row, "vault": name} for name in WRITTEN for row in written(name)] + written("across")
    rows = [row for row in rows if row["kind"] == "answerable"]
    grades = {row["id"]: {f"{row['vault']}/{path}": 1 for path in row["paths"]} for row in rows}
    return JudgedSet("mixed", resources, {row["id"]: row["question"] for row in rows}, grades)


def direction(query: str) -> str:
    """Return the language of a question and that of its notes, by its id: `de-01-in-en`."""
    vault, _, asked = query.partition("-")
    of_notes = {"examples": "en"}.get(vault, vault)
    return f"{asked.partition('-in-')[2] or of_notes} to {of_notes}"


def languages_table(sets: Mapping[str, JudgedSet]) -> str:
    """Return nDCG@10, and the shares of questions with the right note first and among ten, by language and model."""
    found: dict[str, dict[str, list[tuple[float, bool, bool]]]] = {}
    for short, judged in sets.items():
        with asked_anew(judged) as view:
            for query, text in judged.queries.items():
                grades = judged.grades[query]
                page = view.page(read_question(text), 10, now=NOW)
                paths = [one.first.hit.path for one in page.shown]
                figures = ndcg(paths, grades), paths[0] in grades, any(path in grades for path in paths)
                found.setdefault(direction(query), {}).setdefault(short, []).append(figures)
    rows = [
        [
            way,
            str(len(of["e5"])),
            *(f"{fmean(one[0] for one in of[short]):.3f}, {_shares(of[short])}" for short in sets),
        ]
        for way, of in sorted(found.items())
    ]
    return markdown(["question to notes", "questions", *sets], rows)


def _shares(figures: Sequence[tuple[float, bool, bool]]) -> str:
    return f"{fmean(one[1] for one in figures):.0%}, {fmean(one[2] for one in figures):.0%}"


def smaller(name: str, data: Path, kept: Path) -> Path:
    """Return the folder of a set's data, or if it is too large, that of a copy with fewer questions and documents."""
    if name not in SAMPLED:
        return data
    copy = kept / "data" / name
    copy.mkdir(parents=True, exist_ok=True)
    queries, grades = read_questions(data / name, "")
    asked = [query for query in queries if query in grades]
    asked = asked[:: -(-len(asked) // QUESTIONS)]
    wanted = {document for query in asked for document in grades[query]}
    rows = list(read_rows(data / name / "corpus.jsonl"))
    others = [row["_id"] for row in rows if row["_id"] not in wanted]
    missing = SAMPLED[name] - len(wanted)
    wanted |= {others[place * len(others) // missing] for place in range(missing)}
    files = {
        "corpus.jsonl": [json.dumps(row) for row in rows if row["_id"] in wanted],
        "queries.jsonl": [json.dumps({"_id": query, "text": queries[query]}) for query in asked],
        "qrels.tsv": ["query-id\tcorpus-id\tscore"]
        + [f"{query}\t{document}\t{grade}" for query in asked for document, grade in grades[query].items()],
    }
    for file, lines in files.items():
        (copy / file).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return copy.parent


def main() -> None:
    """Measure and print."""
    given = parser(__doc__, data=True, keep=True).parse_args()
    console = Console(soft_wrap=True, markup=False, highlight=False)
    measured, table = Measured(), (0.0, 0.0)
    with folder_of(given.keep) as kept:
        names = present(COLLECTIONS, given.data, console)
        if TIMED not in names:
            console.print(f"nothing is measured without {TIMED}")
            return
        for name in names:
            began = time.monotonic()
            data = smaller(name, given.data, kept)
            sets = {
                short: sampled(prepare(name, data, kept / short, model=model), QUESTIONS)
                for short, model in MODELS.items()
            }
            of_set = measure_set(name, sets, measured)
            table = of_set if name == TIMED else table
            console.print(f"{name}: {time.monotonic() - began:.0f} s")
        found = costs(kept, given.data)
        found[TFIDF] = Cost(table[0], found[WORDS].megabytes + table[1])
        rows = [measured.row(way, names, found) for way in measured.scores]
        head = ["way", *names, "mean", "gain", "ms", "texts/s and core", "MB"]
        console.print(f"\nnDCG@10:\n\n{markdown(head, rows)}\n")
        languages = {short: mixed(kept / short, model) for short, model in MODELS.items()}
        console.print(f"\nIn several languages:\n\n{languages_table(languages)}\n\n{conditions()}")


if __name__ == "__main__":
    main()
