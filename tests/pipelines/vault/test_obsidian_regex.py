import random
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.vault.obsidian import PatternError, compiled

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
        regex = compiled(pattern)
        expected = re.compile(pattern.replace(r"\w", "[A-Za-z0-9_]"), re.IGNORECASE | re.ASCII)
        no_ascii = "é" in pattern  # Python's ASCII mode does not fold it
    except (PatternError, re.error):
        return
    for text in texts:
        if not (no_ascii and "É" in text):
            assert bool(regex.search(text)) == bool(expected.search(text))


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "pattern",
    ["(a+)+$", "(a|a)*b", "(a?){30}a{30}$", "(.*)(.*)(.*)(.*)x$", "(a|b)*a(a|b){200}$", "((a*)*)*b"],
)
def test_no_pattern_takes_for_ever(pattern):
    regex = compiled(pattern)
    chance = random.Random(1)  # noqa: S311 - nothing secret
    for _ in range(20):
        regex.search("".join(chance.choices("ab", k=1000)))
    assert not regex.search("c" * 4000 + "d")


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        (r"(a)\1", "refers back"),
        (r"(?<n>a)\k<n>", "refers back"),
        ("a(?=b)", "looks ahead or behind"),
        ("(?!b)", "looks ahead or behind"),
        ("(?<=a)b", "looks ahead or behind"),
        ("(?<!a)b", "looks ahead or behind"),
        (r"[\1]", "refers back"),
        ("(?i)a", "looks ahead or behind"),
        ("[", "without"),
        ("(a", "missing"),
        ("a)", "unexpected"),
        ("a\\", "backslash"),
        ("*a", "follows nothing"),
        ("^*a", "follows nothing"),
        (r"a|\b+", "follows nothing"),
        ("(?<n", "not closed"),
        ("[b-a]", "range"),
        ("a{1000}{1000}", "follows nothing"),
        ("((a{1000}){1000}){1000}", "repetition"),
        ("(((((){1000}){1000}){1000}){1000}){1000}", "repetition"),
        ("a{999}" * 9, "too large"),
        (r"\ud83d", "half a character"),
        ("a" * 600, "more than 500"),
        ("a{3,2}", "repetition"),
    ],
)
def test_what_takes_more_than_a_step_a_character_is_refused(pattern, reason):
    with pytest.raises(PatternError, match=reason):
        compiled(pattern)


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("(?<name>a)b", "xab", True), ("a{,2}", "a{,2}", True), ("a{x", "A{X", True), (r"\/b", "a/b", True),
        ("[^]", "a", True), ("É", "é", True), (r"\Bb", "ab", True), ("x|", "a", True), (r"[\b]", "\b", True),
        ("[a-]", "-", True), (r"[\w-z]", "-", True), (r"[a-\d]", "-", True), (r"[a-\d]", "b", False), ("ſ|K", "k", True),
        ("^a{02}$", "aa", True), ("[]", "a", False), ("[]]", "]", False), ("[[:alpha:]]", "a", False),
        ("[[:alpha:]]", "a]", True), (r"^\A", "a", True), (r"\z", "b", False), (r"\Qa", "a", False),
        (r"\u{3}", "uuu", True), (r"\pL", "é", False), (r"\cA", "\1", True), ("a$", "a\n", False),
        (".", "\u2028", False), (r"\s", "\u00a0", True), (r"\S", "\ufeff", False), (r"[\S]", "\v", False),
        (r"[^\S]", "a", False), (r"\W", "sk", False), (r"\D", "١", True), (r"\x41", "a", True),
    ],
)  # fmt: skip
def test_the_syntax_is_javascripts(pattern, text, found):
    assert bool(compiled(pattern).search(text)) is found
