"""The source document's figures for names of symbols, by hand, and the symbols of a real source tree."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.cache.cache import SqliteCache
from pipelines.search.code import SymbolNames, asked_names, lift_symbols, overlap

DOMAINS = "vault:\n  legacy: true\n  formats: [md, code]\n"
MONEY = '''\
"""Money."""


def round_to_tenth(value):
    """Round as the labels are printed."""
    return int(value * 10 + 0.5) / 10


class CashAccount:
    """An account."""

    def close(self):
        return None
'''


@pytest.mark.parametrize(
    ("symbol", "asked", "match"),
    [
        # 0.8 x 3 / max(3, 3)
        ({"round", "to", "tenth"}, {"round", "to", "tenth"}, 0.8),
        # 0.8 x 2 / max(3, 2) = 0.533: counts
        ({"round", "to", "tenth"}, {"round", "tenth"}, 0.533333),
        # 0.8 x 2 / max(3, 4) = 0.4: does not count
        ({"round", "to", "tenth"}, {"how", "round", "tenth", "work"}, 0.4),
        # 0.8 x 1 / max(2, 1)
        ({"cash", "account"}, {"account"}, 0.4),
        ({"close"}, {"close"}, 0.8),
        ({"close"}, {"open"}, 0.0),
        (set(), set(), 0.0),
    ],
)
def test_the_common_words_of_two_names_count_by_the_longer_one(symbol, asked, match):
    assert overlap(symbol, asked) == pytest.approx(match, abs=1e-6)


def test_a_passage_whose_symbol_is_named_counts_three_times():
    fused = [(1, {"meaning": 0.5, "words": 0.4}), (2, {"meaning": 0.3, "words": 0.1})]
    # (0.3 + 0.1) x 3 = 1.2
    assert lift_symbols(fused, {2: 0.533}) == [
        (2, {"meaning": 0.3, "words": 0.1, "symbol": pytest.approx(0.8)}),
        (1, {"meaning": 0.5, "words": 0.4}),
    ]
    assert lift_symbols(fused, {}) == fused


@pytest.mark.parametrize(
    ("query", "exact", "alone", "parts"),
    [
        ("round_to_tenth", ["round_to_tenth"], "", {"round", "to", "tenth"}),
        ("why does roundToTenth fail", ["roundtotenth"], "", {"why", "does", "round", "to", "tenth", "fail"}),
        ("HTTPServer2", ["httpserver2"], "", {"http", "server", "2"}),
        ("account.close()", ["account.close"], "", {"account", "close"}),
        ("std::sort", ["std.sort"], "", {"std", "sort"}),
        ("what does `close` do", ["close"], "", {"what", "does", "close"}),
        ("what does close() do", ["close"], "", {"what", "does", "close"}),
        ("Close", [], "close", {"close"}),
        ("class Account", [], "account", {"class", "account"}),
        # Words of the language, not surely names:
        ("how to close an account", [], "", {"how", "close", "account"}),
        # A name has three letters.
        ("if it is", [], "", set()),
        ("", [], "", set()),
    ],
)
def test_names_of_code_are_distinguished_from_words(query, exact, alone, parts):
    asked = asked_names(query)
    assert (list(asked.exact), asked.alone, asked.parts) == (exact, alone, parts)


@given(st.text(max_size=200))
def test_any_question_can_be_read(query):
    asked = asked_names(query)
    assert all(asked.exact)


def test_of_a_long_question_the_first_names_count_and_a_name_without_end_is_none():
    assert len(asked_names(" ".join(f"name_{n}" for n in range(10_000))).exact) == 64
    assert asked_names("x" * 10_000 + "_" + "y" * 10_000).exact == ()
    assert asked_names("a_a." * 10_000).parts == {"a"}


@pytest.fixture
def tree(house):
    house.write("_domains.yaml", DOMAINS)
    house.write("money.py", MONEY)
    house.write("notes.md", "# Rounding\n\nWe call round_to_tenth often.")
    house.index()
    return house


def defined(house, query, names=None, hidden=()):
    names = names or SymbolNames()
    chunks = names.definitions(house.cache, asked_names(query).exact, hidden)
    sections = dict(house.cache.con.execute("SELECT id, section FROM vault_chunk"))
    return sorted((path, sections[chunk]) for chunk, path in chunks.items())


@pytest.mark.parametrize(
    ("query", "label"),
    [
        ("round_to_tenth", "round_to_tenth"),
        ("where is Round_To_Tenth used", "round_to_tenth"),
        ("money.round_to_tenth(1.25)", "round_to_tenth"),
        ("CashAccount", "CashAccount"),
        # A method of a short class is in the passage of its class, whatever its object is called.
        ("CashAccount.close", "CashAccount"),
        ("self.savings.close()", "CashAccount"),
    ],
)
def test_a_name_is_defined_where_its_symbol_is(tree, query, label):
    assert defined(tree, query) == [("money.py", label)]


def test_a_name_of_many_definitions_names_none_and_a_qualifier_chooses(tree):
    for n in range(11):
        tree.write(f"shops/shop{n}.py", f"class Shop{n}:\n    def open_up(self):\n        return {n}\n")
    tree.index()
    assert defined(tree, "open_up()") == []
    assert defined(tree, "Shop7.open_up()") == [("shops/shop7.py", "Shop7")]
    (tree.root / "shops/shop7.py").unlink()
    tree.index()
    assert len(defined(tree, "open_up()")) == 10


def test_hidden_files_define_nothing(tree):
    assert defined(tree, "round_to_tenth", hidden={"money.py"}) == []


def test_what_a_name_means_does_not_depend_on_hidden_files(tree):
    before = defined(tree, "Vault.close()"), strengths(tree, "Vault.close()")
    assert before == ([("money.py", "CashAccount")], {"CashAccount": 1.0})
    tree.save("secret.py", "class Vault:\n    def close(self):\n        return None\n")
    assert defined(tree, "Vault.close()") == [("secret.py", "Vault")]
    hidden = {"secret.py"}
    assert (
        defined(tree, "Vault.close()", hidden=hidden),
        strengths(tree, "Vault.close()", hidden=hidden),
    ) == before


def test_what_was_defined_in_a_file_that_is_gone_counts_no_longer(tree):
    names = SymbolNames()
    for n in range(11):
        tree.write(f"shop{n}.py", f"class Shop{n}:\n    def open_up(self):\n        return {n}\n")
    tree.write("old.py", "class Vault:\n    def close(self):\n        return None\n")
    tree.index()
    assert defined(tree, "open_up()", names) == []
    assert defined(tree, "Vault.close()", names) == [("old.py", "Vault")]
    (tree.root / "shop7.py").unlink()
    (tree.root / "old.py").unlink()
    tree.index()
    assert len(defined(tree, "open_up()", names)) == 10
    assert defined(tree, "Vault.close()", names) == [("money.py", "CashAccount")]


def test_a_question_that_began_before_a_save_does_not_undo_what_was_taken_in(tree):
    names = SymbolNames()
    earlier, read = SqliteCache.open(tree.cache.path), []
    with earlier.snapshot():
        assert len(names.definitions(earlier, ["round_to_tenth"], ())) == 1
        tree.save("more.py", "def round_to_cent(value):\n    return value\n")
        assert defined(tree, "round_to_cent", names) == [("more.py", "round_to_cent")]
        earlier.con.set_exec_trace(lambda _cursor, sql, _values: read.append(sql) or True)
        assert names.definitions(earlier, ["round_to_cent"], ()) == {}
        assert len(names.definitions(earlier, ["round_to_tenth"], ())) == 1
        assert not any("instr(frontmatter" in sql for sql in read)
    earlier.close()


def test_of_very_many_symbols_of_a_file_the_last_are_named_exactly(tree, monkeypatch):
    assert strengths(tree, "round tenth") == {"round_to_tenth": pytest.approx(0.8 * 2 / 3)}
    monkeypatch.setattr("pipelines.search.code._MOST_BY_PARTS", 1)
    assert strengths(tree, "round tenth") == {}
    assert strengths(tree, "round_to_tenth") == {"round_to_tenth": 1.0}


def test_the_names_follow_the_files(tree):
    names = SymbolNames()
    assert defined(tree, "round_to_tenth", names) == [("money.py", "round_to_tenth")]
    tree.save("more.py", "def round_to_cent(value):\n    return value\n")
    assert defined(tree, "round_to_cent", names) == [("more.py", "round_to_cent")]
    tree.save("more.py", "def round_to_franc(value):\n    return value\n")
    assert defined(tree, "round_to_cent", names) == []
    assert defined(tree, "round_to_franc", names) == [("more.py", "round_to_franc")]
    # No passage is new, but one is gone.
    tree.save("money.py", MONEY[: MONEY.index("class")])
    assert defined(tree, "CashAccount", names) == []
    (tree.root / "money.py").rename(tree.root / "coins.py")
    tree.index()
    assert defined(tree, "round_to_tenth", names) == [("coins.py", "round_to_tenth")]


def test_more_changes_than_are_kept_are_taken_in_by_reading_all_names_again(tree):
    names = SymbolNames()
    assert defined(tree, "round_to_tenth", names) == [("money.py", "round_to_tenth")]
    (tree.root / "money.py").rename(tree.root / "coins.py")
    tree.index()
    tree.cache.con.execute(
        "INSERT INTO vault_chunk_change SELECT max(number) + 30000, 0 FROM vault_chunk_change"
    )
    assert defined(tree, "round_to_tenth", names) == [("coins.py", "round_to_tenth")]
    tree.write("more.py", "class Vault:\n    def close(self):\n        return None\n")
    tree.index()
    assert defined(tree, "Vault.close()", names) == [("more.py", "Vault")]
    (tree.root / "more.py").unlink()
    tree.index()
    assert defined(tree, "Vault.close()", names) == [("coins.py", "CashAccount")]


def strengths(house, query, paths=("money.py", "notes.md"), hidden=()):
    found = SymbolNames().strengths(house.cache, asked_names(query), paths, hidden)
    sections = dict(house.cache.con.execute("SELECT id, section FROM vault_chunk"))
    return {sections[chunk]: match for chunk, match in found.items()}


def test_parts_of_a_name_count_by_their_number_and_the_whole_name_most(tree):
    assert strengths(tree, "round_to_tenth") == {"round_to_tenth": 1.0}
    assert strengths(tree, "round tenth") == {"round_to_tenth": pytest.approx(0.533333)}
    assert strengths(tree, "roundTenth") == {"round_to_tenth": pytest.approx(0.533333)}
    assert strengths(tree, "account cash") == {"CashAccount": pytest.approx(0.8)}
    assert strengths(tree, "close") == {"CashAccount": 1.0}
    assert strengths(tree, "how can an account be closed") == {}
    assert strengths(tree, "round_to_tenth", ["notes.md"]) == {}


def test_hostile_names_and_questions_are_answered(tree):
    tree.save("long.py", f"def {'x' * 10_000}(): ...\n")
    tree.save("many.py", "".join(f"def a{n}(): return {n} + 1 + 2\n" for n in range(3_000)))
    names = SymbolNames()
    assert defined(tree, "a2999", names) == [("many.py", "a2999")]
    assert defined(tree, " ".join(f"a{n}" for n in range(10_000)), names)
    assert defined(tree, "x" * 10_000, names) == []
