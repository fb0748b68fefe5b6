"""How often a note's own title, alias or file name, typed as the question, finds that note first.

    python -m benchmarks.names [VAULT ...] [--data FOLDER] [--keep FOLDER] [--most N]
    python -m benchmarks.names --keywords [--without LAYER]

Each vault is indexed by the real pipeline, and asked as a user asks: over all its domains, for ten notes; the second
figure is what the other layers find alone. A name counts where one note alone has it, or has it with the best claim.
With `--keep` the indexes stay for the next run; `--most` names of each kind are asked, always the same ones.

`--keywords` asks the questions of `keywords.tsv` instead: a few words, as people type them, none of them a name. The
right note is the one that is about nothing else. The second figures are those without a layer (`name_words`).
"""

from __future__ import annotations

import json
import shutil
from collections import defaultdict
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path, PurePosixPath
from statistics import fmean

from rich.console import Console
from rich.table import Table

from benchmarks.command import EXAMPLE, folder_of, parser
from pipelines.notes.lexical import fold_name
from pipelines.question import read_question
from pipelines.search.ablation import Way, as_it_is, without
from pipelines.search.evaluate import ndcg
from pipelines.search.rank import SIGNALS
from queue_config.settings import Settings
from service.schemas.search import LONGEST_QUERY
from service.usecases.explain import paths_of
from service.usecases.maintenance import index_once
from service.usecases.search import View
from workers.resources import Resources

KEYWORDS = Path(__file__).with_name("keywords.tsv")
_MOST = 300
_RANK = {"title": 0, "alias": 1, "file": 2}


def prepare(name: str, data: Path, kept: Path) -> View:
    """Index a vault, or bring the index that is there up to date, and return what can be asked of it."""
    vault = kept / name / "vault"
    if not vault.exists():
        shutil.copytree(EXAMPLE if name == "example" else data / name / "vault", vault)
    resources = Resources(Settings(vault=vault, state=kept / name / "state"))
    index_once(resources, lambda *_: None)
    return View(resources, wait_for_model=True)


def unique_names(questions: View) -> dict[str, dict[str, str]]:
    """Return by kind the names (and the path of the note) that one note alone has, or has with the best claim."""
    having: dict[str, dict[str, tuple[int, str]]] = defaultdict(dict)
    for domain, cache in questions.readers():
        hidden = domain.configuration
        for path, (title, aliases) in cache.notes.names().items():
            if path not in hidden:
                for kind, name in _names(path, title, aliases):
                    having[fold_name(name)].setdefault(path, (_RANK[kind], name))
    found: dict[str, dict[str, str]] = {kind: {} for kind in _RANK}
    for several in having.values():
        best = min(rank for rank, _ in several.values())
        first = [(name, path) for path, (rank, name) in several.items() if rank == best]
        if len(first) == 1:
            found[list(_RANK)[best]][first[0][0]] = first[0][1]
    return found


def _names(path: str, title: str, aliases: str) -> Iterator[tuple[str, str]]:
    yield "title", title
    yield from (("alias", str(alias)) for alias in json.loads(aliases))
    yield "file", PurePosixPath(path).stem


def firsts(questions: View, names: list[str], way: Way) -> dict[str, str]:
    """Ask names; return the path that each finds first."""
    found = {name: questions.ranked(read_question(name[:LONGEST_QUERY]), 10, way=way).found for name in names}
    return {name: several[0].hit.path if several else "-" for name, several in found.items()}


def read_keywords() -> dict[str, dict[str, dict[str, int]]]:
    """Return the questions in keywords: by vault and question, the grade of each right note."""
    found: dict[str, dict[str, dict[str, int]]] = defaultdict(dict)
    for line in KEYWORDS.read_text(encoding="utf-8").splitlines()[1:]:
        vault, question, *notes_of_it = line.split("\t")
        found[vault][question] = dict.fromkeys(notes_of_it, 1)
    return found


def keyword_figures(questions: View, grades: dict[str, dict[str, int]], way: Way) -> tuple[float, float]:
    """Ask questions in keywords; return hit@1 and nDCG@5."""
    found = {
        text: paths_of(questions.page(read_question(text), 10, way=way), right)
        for text, right in grades.items()
    }
    firsts_of = [paths[:1] and paths[0] in grades[text] for text, paths in found.items()]
    return fmean(map(bool, firsts_of)), fmean(ndcg(found[text], right, 5) for text, right in grades.items())


def print_keywords(console: Console, data: Path, kept: Path, layer: str) -> None:
    """Print hit@1 and nDCG@5 of the questions in keywords, with and without a layer."""
    table = Table("vault", "questions", "hit@1", f"without {layer}", "nDCG@5", f"without {layer}")
    for vault, grades in read_keywords().items():
        questions = prepare(vault, data, kept)
        whole, less = (keyword_figures(questions, grades, way) for way in (as_it_is, without([layer])))
        figures = (f"{figure:.3f}" for pair in zip(whole, less, strict=True) for figure in pair)
        table.add_row(vault, str(len(grades)), *figures)
    console.print(table)


def main() -> None:
    """Measure and print."""
    options = parser(__doc__, data=True, keep=True)
    options.add_argument("vaults", nargs="*")
    options.add_argument("--most", type=int, default=_MOST)
    options.add_argument("--keywords", action="store_true", help="Ask the questions of keywords.tsv.")
    options.add_argument("--without", choices=list(SIGNALS), default="name_words")
    options.add_argument("--show", action="store_true", help="Print what found another note first.")
    given = options.parse_args()
    if given.keywords:
        with folder_of(given.keep) as kept:
            print_keywords(Console(width=160), given.data, kept, given.without)
        return
    vaults = given.vaults or ["example", *sorted(folder.name for folder in given.data.glob("vault-*"))]
    console, table = Console(width=160), Table("vault", "titles", "aliases", "file names")
    with folder_of(given.keep) as kept:
        for vault in vaults:
            questions = prepare(vault, given.data, kept)
            cells = []
            for names in unique_names(questions).values():
                chosen = sorted(names, key=lambda name: sha256(name.encode()).hexdigest())[: given.most]
                shares = []
                for way in (as_it_is, without(["names"])):
                    found = firsts(questions, chosen, way)
                    missed = [name for name in chosen if found[name] != names[name]]
                    shares.append(f"{1 - len(missed) / len(chosen):.1%}" if chosen else "-")
                    if given.show and way is as_it_is:
                        for name in missed:
                            console.print(name, names[name], found[name], sep="  |  ", markup=False)
                cells.append(f"{shares[0]} ({shares[1]}) of {len(chosen)}")
            table.add_row(vault, *cells)
            console.print(f"{vault} done: {cells}")
    console.print(table)


if __name__ == "__main__":
    main()
