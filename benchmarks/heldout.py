"""Whether the vault's links help: questions made from links that are removed before the vault is indexed.

    python -m benchmarks.heldout [VAULT ...] [--data FOLDER] [--keep FOLDER]

A question is the text of a link where that is no name of its note (`text`), or the line around a link that shows only
the name (`line`); the answer is the note that the link pointed to. The links and these lines are gone from the copy
that is indexed. Hubs have at least ten backlinks left, leaves at most two.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import shutil
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from pathlib import Path
from unicodedata import normalize
from urllib.parse import unquote

import ir_measures
from ir_measures import RR, Qrel, ScoredDoc, nDCG
from rich.console import Console
from rich.table import Table

from benchmarks.judged import DATA
from benchmarks.quality import NOW
from pipelines.model import GraphMode, Link, Note
from pipelines.notes.lexical import query_terms
from pipelines.notes.links import link_names_of, name_key, resolve
from pipelines.notes.markdown import read_note
from pipelines.search.rank import Source, depth_for, rank_notes
from queue_config.settings import Settings
from service.usecases.maintenance import index_once
from workers.resources import Resources

VAULTS = (
    "vault-tasks-docs",
    "vault-foam-docs",
    "vault-dnd5e",
    "vault-knowledge-garden",
)
MODES: tuple[GraphMode, ...] = ("off", "linear", "lift")
MEASURES = (RR, nDCG @ 10)
MOST, MOST_OF_NOTE = 150, 3
"""Upper bounds on the questions of one kind: per vault, and per note that answers them or that they come from."""
KINDS = ("text", "line")
FEWEST_WORDS, LONGEST_LINE = 5, 300
HUB, LEAF = 10, 2
_LINK = re.compile(r"!?\[\[[^\]\n]*\]\]|!?\[([^\]\n]*)\]\(([^)\n]*)\)")


@dataclass(frozen=True)
class HeldOut:
    """A question, the note that answers it, the note that it comes from, its kind and its line (from 1)."""

    text: str
    target: str
    source: str
    kind: str
    line: int

    @property
    def key(self) -> str:
        """Return the question's id: by its hash, so that an order by it is no order of the vault's."""
        return hashlib.sha256(f"{self.kind}\0{self.target}\0{self.text}".encode()).hexdigest()[:16]


def read_vault(root: Path) -> tuple[dict[str, Note], dict[str, list[str]]]:
    """Return a vault's notes by path, and all its files by the name that links resolve by."""
    files = {
        normalize("NFC", file.relative_to(root).as_posix()): file
        for file in sorted(root.rglob("*"))
        if file.is_file() and not any(part.startswith(".") for part in file.relative_to(root).parts)
    }
    named = defaultdict(list)
    for path in files:
        named[name_key(path)].append(path)
    notes = {path: read_note(path, file.read_bytes()) for path, file in files.items() if _is_note(path)}
    return notes, named


def _is_note(path: str) -> bool:
    return len(link_names_of(path)) > 1


def resolved(notes: Mapping[str, Note], named: Mapping[str, list[str]]) -> Iterator[tuple[Note, Link, str]]:
    """Yield each link from a note to another note, with its target's path."""
    for path, note in notes.items():
        for link in note.links:
            found = resolve(link.target, path, lambda key: named.get(key, ()))
            if found and found.path in notes and found.path != path and link.property is None:
                yield note, link, found.path


def questions_of(root: Path) -> list[HeldOut]:
    """Choose the links of a vault that become questions."""
    notes, named = read_vault(root)
    found: dict[str, HeldOut] = {}
    for note, link, target in resolved(notes, named):
        shown = link.text.strip()
        line = note.text.splitlines()[link.line - 1] if link.line <= note.text.count("\n") + 1 else ""
        names = _names(notes[target], link)
        if link.kind != "embed" and not any(shown.casefold().startswith(name) for name in names):
            one = HeldOut(shown, target, note.path, "text", link.line)
        else:
            one = HeldOut(_plain(line), target, note.path, "line", link.line)
        if _can_be_asked(one):
            found.setdefault(one.key, one)
    ordered = [found[key] for key in sorted(found)]
    return [one for kind in KINDS for one in _some(one for one in ordered if one.kind == kind)]


def _can_be_asked(one: HeldOut) -> bool:
    words = len(query_terms(one.text))
    return words > 0 if one.kind == "text" else words >= FEWEST_WORDS and len(one.text) <= LONGEST_LINE


def _names(note: Note, link: Link) -> set[str]:
    stem = note.path.rpartition("/")[2].rpartition(".")[0]
    return {name.casefold().strip() for name in (note.title, stem, link.target, *note.aliases)}


def _plain(line: str) -> str:
    """Return the text of a line without its links and marks."""
    return " ".join(re.sub(r"[#*_>`|=\-\[\]]+", " ", _LINK.sub(" ", line)).split())


def _some(candidates: Iterable[HeldOut]) -> list[HeldOut]:
    chosen: list[HeldOut] = []
    taken: Counter[str] = Counter()
    for one in candidates:
        ends = (f"to {one.target}", f"from {one.source}")
        if len(chosen) < MOST and all(taken[end] < MOST_OF_NOTE for end in ends):
            chosen.append(one)
            taken.update(ends)
    return chosen


def remove(root: Path, questions: Iterable[HeldOut]) -> None:
    """Take the questions out of a vault: links with such a text, such lines, other links between the same notes."""
    questions = list(questions)
    texts = {one.text for one in questions if one.kind == "text"}
    lines = {one.text for one in questions if one.kind == "line"}
    ends = {(one.source, one.target) for one in questions}
    notes, named = read_vault(root)
    written = defaultdict(set)
    for note, link, target in resolved(notes, named):
        if (note.path, target) in ends:
            written[note.path].add(link.target)
    for file in root.rglob("*.md"):
        path = normalize("NFC", file.relative_to(root).as_posix())
        old = file.read_bytes().decode("utf-8", "surrogateescape")

        def without(link: re.Match[str], targets: AbstractSet[str] = frozenset(written[path])) -> str:
            target, shown = _target_and_text(link)
            return "" if shown in texts or target in targets else link[0]

        kept = [line for line in old.splitlines(keepends=True) if _plain(line) not in lines]
        new = "".join(_LINK.sub(without, line) for line in kept)
        if new != old:
            file.write_bytes(new.encode("utf-8", "surrogateescape"))


def _target_and_text(link: re.Match[str]) -> tuple[str, str]:
    if link[1] is not None:
        return unquote(link[2].strip("<> ")).partition("#")[0], link[1].strip()
    target, _, shown = link[0].strip("!][").partition("|")
    return target.partition("#")[0].strip(), shown.strip()


def prepare(name: str, data: Path, kept: Path) -> tuple[Resources, list[HeldOut], Counter[str]]:
    """Make a vault without its questions and its index; return them, and the backlinks that each note has left."""
    vault, questions = kept / name / "vault", questions_of(data / name / "vault")
    if not vault.exists():
        shutil.copytree(data / name / "vault", vault)
        for one in (vault, *vault.rglob("*")):
            one.chmod(one.stat().st_mode | 0o200)
        remove(vault, questions)
    notes, named = read_vault(vault)
    left = {(note.path, target) for note, _, target in resolved(notes, named)}
    questions = [one for one in questions if one.target in notes and (one.source, one.target) not in left]
    backlinks = Counter(target for _, target in left)
    resources = Resources(Settings(vault=vault, state=kept / name / "state"))
    index_once(resources, lambda *_: None)
    return resources, questions, backlinks


def rows(name: str, data: Path, kept: Path) -> Iterator[tuple[str, ...]]:
    """Ask a vault's questions in every mode: for each kind, of all, hubs and leaves, how many, and RR / nDCG@10."""
    resources, questions, backlinks = prepare(name, data, kept)
    (domain,) = resources.domains()
    cache = resources.reader(domain)
    embedder = resources.embedders.get(cache.meta.model)
    runs: dict[GraphMode, list[ScoredDoc]] = {mode: [] for mode in MODES}
    for one in questions:
        vector = embedder.encode_query(one.text)
        for mode, run in runs.items():
            source = Source(replace(domain, graph_mode=mode), cache, vector)
            hits = rank_notes(source, one.text, depth_for(10), NOW).hits
            run += [ScoredDoc(one.key, hit.path, float(-place)) for place, hit in enumerate(hits)]
    groups = {"all": range(1_000_000), "hubs": range(HUB, 1_000_000), "leaves": range(LEAF + 1)}
    for kind in KINDS:
        for group, counts in groups.items():
            chosen = [one for one in questions if one.kind == kind and backlinks[one.target] in counts]
            qrels = [Qrel(one.key, one.target, 1) for one in chosen]
            if qrels:
                found = [ir_measures.calc_aggregate(MEASURES, qrels, run) for run in runs.values()]
                figures = (" / ".join(f"{means[measure]:.3f}" for measure in MEASURES) for means in found)
                yield (name, kind, group, str(len(qrels)), *figures)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("vaults", nargs="*", default=VAULTS)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--keep", type=Path)
    given = parser.parse_args()
    console = Console(width=160)
    table = Table("vault", "question", "of", "questions", *MODES, title="MRR / nDCG@10 by graph.mode")
    with tempfile.TemporaryDirectory() as folder:
        for name in given.vaults:
            if (given.data / name).exists():
                for row in rows(name, given.data, given.keep or Path(folder)):
                    table.add_row(*row)
            else:
                console.print(f"{name}: missing below {given.data}; not measured")
    console.print(table)


if __name__ == "__main__":
    main()
