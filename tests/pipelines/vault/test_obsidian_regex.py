import random
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.vault.obsidian import PatternError, Regex

ATOMS = st.sampled_from(
    [
        *(
            "a",
            "b",
            "A",
            "/",
            r"\.",
            "md",
            ".",
            r"\d",
            r"\w",
            r"\s",
            "[ab]",
            "[^a]",
            "[a-c]",
            r"[\d.]",
            "^",
            "$",
        ),
        *(r"\b", r"(a|b)", "(?:ab)", "(^|/)", "(?:(a*)*)", "[A-Z]", "1", "_", " ", "é", r"\x61", r"\u0062"),
    ]
)
PATTERNS = st.recursive(
    st.tuples(ATOMS, st.sampled_from(["", "", "", "*", "+", "?", "{2}", "{1,2}", "{0,}", "*?"])).map("".join),
    lambda parts: st.one_of(
        st.lists(parts, min_size=1, max_size=4).map("".join),
        st.lists(parts, min_size=2, max_size=3).map("|".join),
        st.tuples(parts, st.sampled_from(["", "*", "+?", "{0,2}"])).map(lambda two: f"(?:{two[0]}){two[1]}"),
    ),
    max_leaves=8,
)


@given(PATTERNS, st.lists(st.text("abABc1_/. mdéÉ", min_size=1, max_size=10), min_size=1, max_size=8))
@settings(max_examples=500)
def test_a_pattern_finds_what_pythons_own_engine_finds(pattern, texts):
    try:
        regex = Regex(pattern)
        expected = re.compile(pattern.replace(r"\w", "[A-Za-z0-9_]"), re.IGNORECASE | re.ASCII)
        no_ascii = "é" in pattern  # Python's ASCII mode does not fold it
    except (PatternError, re.error):
        return
    for text in texts:
        if not (no_ascii and "É" in text):
            assert regex.finds(text) == bool(expected.search(text))


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "pattern",
    ["(a+)+$", "(a|a)*b", "(a?){30}a{30}$", "(.*)(.*)(.*)(.*)x$", "(a|b)*a(a|b){200}$", "((a*)*)*b"],
)
def test_no_pattern_takes_for_ever(pattern):
    regex = Regex(pattern)
    chance = random.Random(1)  # noqa: S311 - nothing secret
    for _ in range(20):
        regex.finds("".join(chance.choices("ab", k=1000)))
    assert not regex.finds("c" * 4000 + "d")


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        (r"(a)\1", "refers back"),
        (r"(?<n>a)\k<n>", "refers back"),
        ("a(?=b)", "looks ahead or behind"),
        ("(?!b)", "looks ahead or behind"),
        ("(?<=a)b", "looks ahead or behind"),
        ("(?<!a)b", "looks ahead or behind"),
        ("[", "too early"),
        ("(a", "without"),
        ("a)", "without"),
        ("*a", "follows nothing"),
        ("(?<n", "not closed"),
        ("[b-a]", "wrong order"),
        ("a{1000}{1000}", "follows nothing"),
        ("((a{1000}){1000}){1000}", "too long"),
        ("(((((){1000}){1000}){1000}){1000}){1000}", "too long"),
        ("(" * 200 + ")" * 200, "nested"),
        ("a" * 600, "more than 500"),
        ("a{3,2}", "counts"),
    ],
)
def test_what_takes_more_than_a_step_a_character_is_refused(pattern, reason):
    with pytest.raises(PatternError, match=reason):
        Regex(pattern)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("(?<name>a)b", "xab"), ("a{,2}", "a{,2}"), ("a{x", "A{X"), (r"\/b", "a/b"), ("[^]", "a"), ("É", "é"),
        (r"\Bb", "ab"), ("x|", "a"), (r"[\b]", "\b"), ("[a-]", "-"), (r"[\w-z]", "-"), ("ſ|K", "k"),
    ],
)  # fmt: skip
def test_the_syntax_is_javascripts(pattern, text):
    assert Regex(pattern).finds(text)
