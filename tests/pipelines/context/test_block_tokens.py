"""How tokens are counted."""

from __future__ import annotations

from pipelines.context.block import Tokens, estimated


def test_the_estimate_has_its_name_and_counts_bytes():
    tokens = estimated()
    assert tokens.name == "estimate"
    assert tokens.of(["", "abcd", "abcde", "äöüß", "知识库"]) == [0, 1, 2, 2, 3]


def test_a_text_is_counted_once():
    counted = []
    tokens = Tokens("words", lambda texts: [counted.append(text) or 1 for text in texts])
    assert tokens.of(["a", "b", "a"]) + tokens.of(["b", "c"]) == [1] * 5
    assert counted == ["a", "b", "c"]


def test_a_tokenizer_cannot_count_a_flood_as_one_word():
    tokens = Tokens("words", lambda texts: [len(text.split()) for text in texts])
    assert tokens.of(["two words", "x" * 4_000 + " end"]) == [2, 1_002]
