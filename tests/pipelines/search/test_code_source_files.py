"""A question that names a symbol finds its definition first, in a real source tree among notes."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from pipelines.domains import load
from pipelines.question import read_question
from pipelines.search.ablation import without
from pipelines.search.code import SymbolNames
from pipelines.search.find import find
from pipelines.search.rank import Source, depth_for, rank_notes
from tests.pipelines.conftest import housed

NOW = datetime(2026, 11, 24, tzinfo=UTC)
MENTIONS = " ".join(["The share price needs round_to_tenth, says the note about round_to_tenth."] * 3)
TREE = {
    "_domains.yaml": "vault:\n  legacy: true\n  formats: [md, code]\n",
    "src/money.py": '''\
"""Amounts."""

PENCE = 100


def round_to_tenth(value):
    """Half up, as labels are printed."""
    return int(value * 10 + 0.5) / 10


class Ledger:
    """What was paid."""

    def close_year(self):
        return self.paid
''',
    "src/labels.ts": """\
import { roundToTenth } from "./rounding";

export function labelOf(value: number): string {
  return `${roundToTenth(value)} and price`;
}
""",
    "src/rounding.ts": "export function roundHalf(v: number): number {\n  return Math.round(v * 2) / 2;\n}\n",
    **{
        f"src/shop{n}.py": f"from money import round_to_tenth\n\n\ndef price{n}(share):\n"
        f"    # round_to_tenth twice: round_to_tenth\n    return round_to_tenth(round_to_tenth(share))\n"
        for n in range(4)
    },
    **{f"notes/{n}.md": f"# Note {n}\n\n{MENTIONS}\n\nBread, river and sleep." for n in range(6)},
    "notes/titled.md": "# Ledger\n\nThe ledger of the market.",
}


@pytest.fixture(scope="module")
def tree(tmp_path_factory, tiny_embedder):
    with housed(tmp_path_factory.mktemp("tree"), tiny_embedder, TREE) as house:
        yield house


def ranked(house, query, way=lambda source: source, **given):
    (domain,) = load(house.root).domains
    domain = replace(domain, **given)
    source = Source(domain, house.cache, house.embedder._embedder.encode_query(query))
    return rank_notes(way(source), read_question(query), depth_for(10), NOW)


def place_of(house, hit):
    return house.cache.passages.chunk_rows([hit.chunk_id])[hit.chunk_id].section


@pytest.mark.parametrize("fusion", ["convex", "rrf"])
@pytest.mark.parametrize(
    ("query", "path", "label"),
    [
        ("round_to_tenth", "src/money.py", "round_to_tenth"),
        ("why does round_to_tenth give a price", "src/money.py", "round_to_tenth"),
        ("Ledger.close_year", "src/money.py", "Ledger"),
        ("how is close_year called", "src/money.py", "Ledger"),
        ("`labelOf`", "src/labels.ts", "labelOf"),
    ],
)
def test_a_question_that_names_a_symbol_finds_its_definition_first(tree, query, path, label, fusion):
    ranking = ranked(tree, query, fusion=fusion)
    first = ranking.hits[0]
    assert (first.path, place_of(tree, first)) == (path, label)
    assert first.score == pytest.approx(sum(first.signals.values())) == first.scores["titled"]
    assert first.signals["symbol"] == pytest.approx(2 * first.scores["fused"])
    assert (first.scores["symbol"], first.scores["defined"]) == (1.0, 1.25)
    assert ranking.ranks_of(path)["named"] == 1


def test_without_the_signal_others_come_first(tree):
    ranking = ranked(tree, "why does round_to_tenth give a price", without(["symbol"]))
    assert ranking.hits[0].path != "src/money.py"
    assert not any({"symbol", "definition"} & hit.signals.keys() for hit in ranking.hits)


def test_parts_of_a_name_lift_it_and_a_name_in_full_is_above_them(tree):
    hits = {hit.path: hit for hit in ranked(tree, "round tenth").hits}
    assert hits["src/money.py"].scores["symbol"] == pytest.approx(0.8 * 2 / 3)
    assert "definition" not in hits["src/money.py"].signals
    # `roundToTenth` is a name of nothing; its words are those of `round_to_tenth` and half of `roundHalf`.
    first = ranked(tree, "roundToTenth").hits[0]
    assert (first.path, first.scores["symbol"]) == ("src/money.py", pytest.approx(0.8))


def test_a_plain_word_that_is_a_note_asks_for_the_note(tree):
    first, *others = ranked(tree, "Ledger").hits
    assert first.path == "notes/titled.md"
    assert not any("definition" in hit.signals for hit in others)


def test_a_definition_that_no_retriever_finds_is_found(tree):
    allowed = tree.cache.con.execute("SELECT id FROM vault_chunk WHERE path LIKE 'notes/%'").fetchall()
    ids = [chunk for (chunk,) in allowed]
    (domain,) = load(tree.root).domains
    source = Source(domain, tree.cache, None, without=frozenset({"words"}))
    assert [hit.path for hit in rank_notes(source, read_question("round_to_tenth"), 60, NOW).hits] == [
        "src/money.py"
    ]
    filtered = replace(source, only=ids)
    assert rank_notes(filtered, read_question("round_to_tenth"), 60, NOW).hits == []


def test_a_files_name_and_what_several_found_files_import_are_signals_of_their_own(tree):
    ranking = ranked(tree, "labels of bread")
    (labels,) = [hit for hit in ranking.hits if hit.path == "src/labels.ts"]
    assert labels.signals["filename"] == pytest.approx(0.5 * labels.scores["fused"])
    assert list(ranking.layers)[:4] == ["meaning", "words", "fused", "filenames"]
    assert "filenames" not in ranked(tree, "labels of bread", without(["filename"])).layers

    ranking = ranked(tree, "price share")
    assert "imported" in ranking.layers
    (money,) = [hit for hit in ranking.hits if hit.path == "src/money.py"]
    assert money.signals["imports"] > 0
    assert money.scores["references"] == 3  # of the best three files
    assert "imported" not in ranked(tree, "price share", without(["imports"])).layers


def test_notes_rank_as_before_beside_source_files_and_without_them(tree):
    """A question without a name, and any question of a domain without the format, is answered as without signals."""
    off = without(["symbol", "filename", "imports"])
    for query in ("round_to_tenth", "price share", "labels of bread", "titled market"):
        assert ranked(tree, query, formats=("md",)) == ranked(tree, query, off, formats=("md",))
    before = [hit.path for hit in ranked(tree, "how is the ledger of the market", off).hits]
    after = [hit.path for hit in ranked(tree, "how is the ledger of the market").hits]
    assert [p for p in before if p.endswith(".md")] == [p for p in after if p.endswith(".md")]


def test_without_source_files_nothing_is_read_for_their_signals(house):
    house.write("a.md", "Bread and river.")
    house.index()

    class Untouched(SymbolNames):
        def follow(self, _cache):
            raise AssertionError("the domain has no source files")

    (domain,) = load(house.root).domains
    source = Source(domain, house.cache, house.embedder._embedder.encode_query("bread"), symbols=Untouched())
    assert [hit.path for hit in rank_notes(source, read_question("bread"), 60, NOW).hits] == ["a.md"]


def test_the_definition_comes_first_across_domains_and_is_no_copy(tree):
    (domain,) = load(tree.root).domains
    vector = tree.embedder._embedder.encode_query("round_to_tenth")
    both = [
        Source(replace(domain, slug=slug), tree.cache, vector, only=ids)
        for slug, like in (("code", "src/%"), ("notes", "notes/%"))
        for ids in [
            [i for (i,) in tree.cache.con.execute("SELECT id FROM vault_chunk WHERE path LIKE ?", (like,))]
        ]
    ]
    found, failed = find(both, read_question("round_to_tenth"), 10, root=tree.root, present=True, now=NOW)
    assert not failed
    assert (found[0].hit.path, found[0].hit.is_named, found[0].domain) == ("src/money.py", True, "code")
    assert found[0].chunk.place.shown() == "round_to_tenth"
