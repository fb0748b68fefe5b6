"""How good the local proposer is: a fifth of the tags is hidden, and asked for again.

    python -m benchmarks.tags [VAULT ...] [--data FOLDER] [--keep FOLDER]

The real pipeline indexes each vault, from which inline tags were taken, so that no vector knows what is hidden;
with `--keep` the indexes stay for the next run. The vocabulary is the tags that occur, without descriptions. Hidden
are all tags of a fifth of the tagged notes (`new notes`), or a fifth of all pairs of a note and a tag (`pairs`). A
proposal is right if it is exactly a hidden tag of its note. The baseline proposes the tag with the nearest text, for
as many notes as the proposer spoke on, those with the highest cosine.
"""

from __future__ import annotations

import argparse
import platform
import re
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.judged import DATA
from pipelines.cache.notes import vectors_of
from pipelines.cache.vectors import mean_vector
from pipelines.model import Note, TagEntry, Taxonomy
from pipelines.notes.encodings import decode
from pipelines.notes.frontmatter import distinct
from pipelines.notes.markdown import parse_note
from pipelines.tagging.local import EmbeddedNote, LocalProposer, Vector, tag_text
from queue_config.settings import Settings
from service.usecases.maintenance import index_once
from workers.resources import Resources

VAULTS = ("vault-dnd5e", "vault-knowledge-garden")
SEEDS = (1, 2, 3)
HIDDEN = 0.2


@dataclass(frozen=True)
class TaggedVault:
    """A vault's notes with all their tags, its vocabulary, and the vectors of the tags' texts."""

    notes: list[EmbeddedNote]
    taxonomy: Taxonomy
    tag_vectors: dict[str, Vector]


@dataclass
class Figures:
    """What came of asking, summed over the seeds; `asked` are the notes that lost a tag."""

    asked: int = 0
    lost: int = 0
    answered: int = 0
    proposed: int = 0
    right: int = 0
    baseline_right: int = 0
    complete: int = 0
    alarms: int = 0
    seconds: float = 0.0


def prepare(name: str, data: Path, kept: Path) -> TaggedVault:
    """Index a vault without its inline tags below `kept`, or bring the index that is there up to date."""
    source, vault = data / name / "vault", kept / name / "vault"
    notes = []
    for file in sorted(source.rglob("*.md")):
        path = file.relative_to(source).as_posix()
        note = parse_note(path, decode(file.read_bytes())[0])
        bare = parse_note(path, _without_inline_tags(note))
        _write(vault / path, bare.text)
        notes.append((note, bare))
    resources = Resources(Settings(vault=vault, state=kept / name / "state"))
    index_once(resources, lambda *_: None, confirmed=True)
    (domain,) = resources.domains()
    cache = resources.reader(domain)
    names = distinct(tag for note, _ in notes for tag in note.tags)
    taxonomy = Taxonomy(tuple(TagEntry(tag, "", "") for tag in names))
    texts = [tag_text(entry) for entry in taxonomy.entries]
    vectors = resources.embedders.get(cache.meta.model).encode_documents(texts)
    embedded = [
        EmbeddedNote(
            note.path,
            bare.title,
            bare.text[bare.body_start :],
            mean_vector(vectors_of(cache, note.path)),
            tuple(tag.casefold() for tag in note.tags),
        )
        for note, bare in notes
    ]
    return TaggedVault(embedded, taxonomy, dict(zip(names, vectors, strict=True)))


def _without_inline_tags(note: Note) -> str:
    body = note.text[note.body_start :]
    for tag in note.tags:
        body = re.sub(rf"#{re.escape(tag)}(?![\w/-])", "", body, flags=re.IGNORECASE)
    return note.text[: note.body_start] + body


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    if not file.exists() or file.read_bytes() != text.encode():
        file.write_bytes(text.encode())


def hide(notes: Sequence[EmbeddedNote], way: str, seed: int) -> list[EmbeddedNote]:
    """Return the notes with a fifth of the tags hidden: of whole notes, or of pairs of a note and a tag."""
    rng = np.random.default_rng(seed)
    tagged = [i for i, note in enumerate(notes) if note.tags]
    chosen = set(rng.choice(tagged, round(len(tagged) * HIDDEN), replace=False).tolist())
    shown = []
    for i, note in enumerate(notes):
        keeps = (
            (rng.random(len(note.tags)) >= HIDDEN)
            if way == "pairs"
            else np.full(len(note.tags), i not in chosen)
        )
        kept = tuple(tag for tag, keep in zip(note.tags, keeps, strict=True) if keep)
        shown.append(replace(note, tags=kept))
    return shown


def ask(vault: TaggedVault, way: str, seed: int, figures: Figures) -> None:
    """Hide, learn from what is left, ask for every note that lost a tag, and add up."""
    shown = hide(vault.notes, way, seed)
    started = time.perf_counter()
    proposer = LocalProposer.fit(vault.taxonomy, shown, vault.tag_vectors)
    figures.seconds = max(figures.seconds, time.perf_counter() - started)
    nearest: list[tuple[float, bool]] = []
    answered = 0
    for note, full in zip(shown, vault.notes, strict=True):
        if not full.tags:
            continue
        hidden = set(full.tags) - set(note.tags)
        found = [suggestion.tag.casefold() for suggestion in proposer.propose(note)]
        if not hidden:
            figures.complete += 1
            figures.alarms += len(found)
            continue
        figures.asked += 1
        figures.lost += len(hidden)
        answered += bool(found)
        figures.proposed += len(found)
        figures.right += len(hidden.intersection(found))
        nearest.append(_nearest(note, vault.tag_vectors, hidden))
    nearest.sort(key=lambda pair: -pair[0])
    figures.answered += answered
    figures.baseline_right += sum(right for _, right in nearest[:answered])


def _nearest(note: EmbeddedNote, tag_vectors: Mapping[str, Vector], hidden: set[str]) -> tuple[float, bool]:
    """Return the cosine of the nearest tag that the note lacks, and whether it was hidden."""
    if note.vector is None:
        return -1.0, False
    lacking = {tag: vector for tag, vector in tag_vectors.items() if tag.casefold() not in note.tags}
    cosines = np.stack(list(lacking.values())) @ note.vector
    best = int(cosines.argmax())
    return float(cosines[best]), list(lacking)[best].casefold() in hidden


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
    missing = [name for name in given.vaults if not (given.data / name / "vault").is_dir()]
    if missing:
        console.print(f"not measured, as {given.data} lacks them: {', '.join(missing)}")
    headings = ("vault", "hidden", "notes asked", "precision", "coverage", "recall", "baseline's precision")
    table = Table(*headings, "proposals a complete note", "longest fit, s")
    with tempfile.TemporaryDirectory() as folder:
        for name in (vault for vault in given.vaults if vault not in missing):
            vault = prepare(name, given.data, given.keep or Path(folder))
            for way in ("new notes", "pairs"):
                figures = Figures()
                for seed in SEEDS:
                    ask(vault, way, seed, figures)
                table.add_row(name, way, *_cells(figures))
    console.print(table)
    console.print(
        f"{datetime.now(UTC):%Y-%m-%d}, {platform.machine()}, all-MiniLM-L6-v2, seeds {SEEDS} together"
    )


def _cells(figures: Figures) -> tuple[str, ...]:
    return (
        str(figures.asked),
        f"{figures.right / max(1, figures.proposed):.3f}",
        f"{figures.answered / max(1, figures.asked):.3f}",
        f"{figures.right / max(1, figures.lost):.3f}",
        f"{figures.baseline_right / max(1, figures.answered):.3f}",
        f"{figures.alarms / max(1, figures.complete):.3f}",
        f"{figures.seconds:.2f}",
    )


if __name__ == "__main__":
    main()
