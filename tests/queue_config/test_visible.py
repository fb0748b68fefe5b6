"""Escaped text, which a terminal shows and does not obey."""

from __future__ import annotations

import json
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from queue_config.visible import visible, visible_json

BIDIRECTIONAL = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}


def is_obeyed(char):
    """Say whether a terminal does something at a character, by what Unicode says of it."""
    if char in "\n\t":
        return False
    return (
        unicodedata.category(char) in ("Cc", "Cs")
        or unicodedata.bidirectional(char) in BIDIRECTIONAL
        or char in "\u061c\u200e\u200f"
    )


def test_every_character_that_a_terminal_obeys_is_made_visible_and_no_other():
    for char in map(chr, range(0x110000)):
        assert (visible(char) != char) == is_obeyed(char), hex(ord(char))


def test_a_character_is_shown_as_its_escape():
    assert visible("a\x1b[2J\x9b\u202eb\udcff\n\tc") == "a\\x1b[2J\\x9b\\u202eb\\udcff\n\tc"


@given(st.recursive(st.text(st.characters(), max_size=20), lambda inner: st.lists(inner, max_size=3)))
def test_json_says_the_same_and_can_be_written(value):
    safe = visible_json(json.dumps(value, ensure_ascii=False, indent=2))
    assert json.loads(safe) == json.loads(json.dumps(value))
    assert not any(map(is_obeyed, safe))
    safe.encode()
