"""The source document's figures for files that several found ones import, by hand."""

from __future__ import annotations

import pytest

from pipelines.search.code import add_imported, best_files, imported_scores
from pipelines.search.fusion import NoteHit


@pytest.mark.parametrize(("found", "kept"), [(1, 1), (2, 2), (5, 3), (12, 4), (24, 8), (60, 8)])
def test_the_references_of_the_best_third_count_but_of_three_to_eight_files(found, kept):
    # min(max(3, n // 3), 8): 5 -> 3, 12 -> 4, 24 -> 8
    hits = [NoteHit(f"{n}.py", n, {"meaning": 1.0 / (n + 1)}) for n in range(found)]
    hits.insert(1, NoteHit("note.md", 99, {"meaning": 0.7}))
    assert [hit.path for hit in best_files(hits)] == [f"{n}.py" for n in range(kept)]


SCORES = [0.8, 0.6, 0.5, 0.4]
"""Their upper quartile (the 75th percentile, by nearest rank) is 0.6: three of four are not above it."""


def test_three_references_give_nine_tenths_of_the_best_and_two_seven_tenths_of_the_upper_quartile():
    # 0.9 x 0.8 = 0.72, 0.7 x 0.6 = 0.42
    assert imported_scores(SCORES, {"many.py": 3, "two.py": 2, "one.py": 1}) == {
        "many.py": pytest.approx(0.72),
        "two.py": pytest.approx(0.42),
    }
    assert imported_scores(SCORES, {"four.py": 4}) == {"four.py": pytest.approx(0.72)}


def test_at_most_two_files_are_added_and_ten_there_may_be():
    references = {f"{n}.py": 2 for n in range(5)}
    # min(2, max(0, 10 - files)): 4 files leave room for 2, 9 files for 1, 10 and 11 files for none.
    assert list(imported_scores(SCORES, references)) == ["0.py", "1.py"]
    for files, room in ((8, 2), (9, 1), (10, 0), (11, 0)):
        assert len(imported_scores([0.5] * files, references)) == room
    assert imported_scores([], references) == {}


@pytest.mark.parametrize(
    "test", ["tests/a.py", "src/test_a.py", "a_test.go", "a.spec.ts", "x/__tests__/a.js", "x/ATest.java"]
)
def test_source_files_come_before_tests_then_the_number_of_references_decides(test):
    references = {test: 4, "b.py": 2, "c.py": 3, "latest.py": 2}
    assert list(imported_scores(SCORES, references)) == ["c.py", "b.py"]
    assert list(imported_scores(SCORES, {test: 4, "latest.py": 2})) == ["latest.py", test]


DOMAINS = "vault:\n  legacy: true\n  formats: [md, code]\n"


@pytest.fixture
def imported(house):
    house.write("_domains.yaml", DOMAINS)
    for name in ("a", "b", "c"):
        house.write(f"{name}.py", f"import money\nfrom scales import weigh\n\ndef use_{name}(): ...\n")
    house.write("b.py", "import money\n\ndef use_b(): ...\n")
    house.write("money.py", "def round_up(): ...\n")
    house.write("scales.py", "def weigh(): ...\n")
    house.write("note.md", "[[money.py]] [[scales.py]]")
    house.index()
    return house


def hits_of(house, scores):
    ids = dict(house.cache.con.execute("SELECT path, min(id) FROM vault_chunk GROUP BY path"))
    return [NoteHit(path, ids[path], {"meaning": score}) for path, score in scores.items()]


def test_what_the_best_files_import_is_found_by_it_alone_or_moves_up(imported):
    hits = hits_of(imported, {"note.md": 2.0, "a.py": 1.0, "b.py": 0.8, "c.py": 0.6, "scales.py": 0.1})
    found = {hit.path: hit for hit in add_imported(imported.cache, hits, None)}
    # `money.py` by a, b and c: 0.9 x 1.0. `scales.py` by a and c: 0.7 x 1.0, the upper quartile of 1.0, 0.8, 0.6.
    assert found["money.py"].signals == {"imports": pytest.approx(0.9)}
    assert (found["money.py"].scores["references"], found["scales.py"].scores["references"]) == (3, 2)
    assert found["scales.py"].signals == {"meaning": 0.1, "imports": pytest.approx(0.6)}
    assert list(found) == ["note.md", "a.py", "money.py", "b.py", "scales.py", "c.py"]
    assert "imports" not in found["note.md"].signals


def test_what_a_filter_leaves_out_is_not_added_and_a_better_place_is_kept(imported):
    hits = hits_of(imported, {"money.py": 3.0, "a.py": 1.0, "c.py": 0.8, "b.py": 0.6})
    added = add_imported(imported.cache, hits, None)
    # `scales.py` by a and c: 0.7 x 3.0
    assert [(hit.path, hit.score) for hit in added[:2]] == [
        ("money.py", 3.0),
        ("scales.py", pytest.approx(2.1)),
    ]
    assert added[0].signals == {"meaning": 3.0}
    kept = add_imported(imported.cache, hits, [hit.chunk_id for hit in hits])
    assert [hit.path for hit in kept] == ["money.py", "a.py", "c.py", "b.py"]


def test_what_a_filter_leaves_out_takes_no_place_of_what_it_keeps(imported):
    for name in ("a", "b", "c"):
        imported.write(f"{name}.py", f"import apples\nimport money\nimport scales\n\ndef use_{name}(): ...\n")
    imported.write("apples.py", "def peel(): ...\n")
    imported.index()
    hits = hits_of(imported, {"a.py": 1.0, "b.py": 0.8, "c.py": 0.6})
    only = [
        chunk
        for (chunk,) in imported.cache.con.execute("SELECT id FROM vault_chunk WHERE path <> 'apples.py'")
    ]
    assert [hit.path for hit in add_imported(imported.cache, hits, None)] == [
        *("a.py", "apples.py", "money.py", "b.py", "c.py"),
    ]
    assert [hit.path for hit in add_imported(imported.cache, hits, only)] == [
        *("a.py", "money.py", "scales.py", "b.py", "c.py"),
    ]
