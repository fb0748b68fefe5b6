"""Compression keeps or leaves out; it never changes what it keeps."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.context.compress import GAP, Aim, best_part, compress, unbroken, units_of
from pipelines.model import ContextLimits
from pipelines.notes.markdown import BLOCKS
from pipelines.search.quotes import check_quote

_NUMBER = re.compile(r"\d[\d.,:/-]*\d|\d")
_LINES = st.sampled_from(
    [
        *("# Report of the garden", "## Costs", "", "", "---"),
        *(
            "- [ ] call Ada Lovelace",
            "- [x] pay 12.50 by 2026-03-01",
            "1. first",
            "* plain point",
            "- another point",
        ),
        *("  and so on", "- see [[Soil]]", "- a [link](x.md)"),
        *(
            "> We shall fight on the beaches.",
            "| day | cost |",
            "| --- | --- |",
            "| Mon | 3 |",
            "| Tue | 40,000 |",
        ),
        *("```python", "```", "~~~", "import os", "import sys", "from re import compile", "import json"),
        *(
            "    self.a = 1",
            "    self.b = 22",
            "    self.c = a + b",
            "print(1)",
            "log.info(x)",
            "def f(x):",
            "x = y",
        ),
        *("It rained. The worms were glad. It cost 5.3 euros in May 2024!", 'She said "no" to it.'),
        *(
            "A sentence that the end of a line",
            "breaks. Then another one.",
            "Dr. No paid $1,000,000.00 at 10:30.",
        ),
        *(
            "知识库很好。今天下雨。",
            "ein „Zitat“ darin. Ohne.",
            "x" * 300,
            "word " * 60,
            "\tindented",
            "a\u2028b",
        ),
        *("> - a quoted point", "> # A quoted title", ">", "It goes on without a mark", "2. of it", "==="),
        *(
            "- > a quote in a point",
            "  > and more of it",
            "use 5 mg",
            "use soap",
            "from the shop",
            "``` text",
        ),
    ]
)
_TEXTS = st.one_of(
    st.lists(_LINES, max_size=40).flatmap(
        lambda lines: st.sampled_from(["\n", "\r\n"]).map(lambda end: end.join(lines))
    ),
    st.text(max_size=300),
)
_AIMS = st.builds(
    Aim,
    mode=st.sampled_from(["light", "strong"]),
    terms=st.lists(st.sampled_from(["worms", "cost", "os"]), max_size=2),
    repeated=st.lists(st.sampled_from(["It rained.", "* plain point"]), max_size=2),
    near=st.lists(st.tuples(st.integers(0, 400), st.integers(1, 80), st.floats(-1, 1)), max_size=5).map(
        lambda found: [(start, start + length, cosine) for start, length, cosine in found]
    ),
    share=st.floats(0, 1),
)


@given(_TEXTS, _AIMS)
def test_what_is_kept_is_kept_word_for_word(text, aim):
    shown, parts = compress(text, aim)
    starts = {one.start for one in units_of(text)}
    ends = {one.end for one in units_of(text)}
    rest = shown
    for part in parts:
        kept = part.mark or text[part.start : part.end]
        assert part.start in starts
        assert part.end in ends
        before, found, rest = rest.partition(kept)
        assert found or not kept
        assert not before.strip()
    assert not rest.strip()
    assert [part.start for part in parts] == sorted(part.start for part in parts)


@given(_TEXTS, _AIMS)
def test_no_number_date_name_or_quote_changes(text, aim):
    _, parts = compress(text, aim)
    kept = [text[part.start : part.end] for part in parts if not part.mark]
    numbers = _NUMBER.findall(text)
    for one in kept:
        for number in _NUMBER.findall(one):
            assert number in numbers
    # Each sentence and line that is kept can be quoted, and is found in the original.
    for one in units_of("\n".join(kept)):
        quote = "\n".join(kept)[one.start : one.end]
        if check_quote(quote, ["\n".join(kept)]).reason == "match" and quote in text:
            assert check_quote(quote, [text]).reason == "match"


@given(_TEXTS, _AIMS)
def test_headings_tasks_quotes_links_and_sentences_with_numbers_stay(text, aim):
    shown, _ = compress(text, aim)
    for one in units_of(text):
        if one.fixed and text[one.start : one.end].strip() not in aim.repeated:
            assert text[one.start : one.end] in shown


# Without rows of tables: compression takes any line that begins with a bar for a row.
@given(_TEXTS.map(lambda text: text.replace("|", "")), _AIMS)
def test_whatever_a_parser_takes_for_a_quote_or_a_heading_stays_line_by_line(text, aim):
    shown, _ = compress(text, aim)
    lines = re.split(r"\r\n?|\n", text)
    for token in BLOCKS.parse(text):
        if token.type in ("blockquote_open", "heading_open") and token.map:
            for line in lines[slice(*token.map)]:
                assert line.strip() in shown, (token.type, line)


_SPOKEN = st.sampled_from(
    ["It rained.", "The worms were glad!", "Nobody knows why.", "Don\u2019t go?", "So be it"]
)
_MARKS = st.sampled_from(
    [
        '""',
        "\u201c\u201d",
        "\u201e\u201c",
        "\u201d\u201d",
        "\u00ab\u00bb",
        "\u00bb\u00ab",
        "\u300c\u300d",
        "\u2018\u2019",
    ]
)


@given(
    st.lists(_SPOKEN), st.lists(_SPOKEN, min_size=1), _MARKS, st.lists(_SPOKEN), st.sampled_from(" \n"), _AIMS
)
def test_a_quotation_of_several_sentences_is_never_cut(before, said, marks, after, between, aim):
    if marks == "\u2018\u2019":  # what opens as a single quotation mark is closed by a plain one
        said = [one.rstrip("\u2019") for one in said]
    quotation = marks[0] + between.join(said) + marks[1]
    text = between.join([*before, f"Ada said: {quotation}", *after])
    shown, _ = compress(text, replace(aim, repeated=()))
    assert quotation in shown


@given(
    st.lists(
        st.sampled_from(["use 5 mg", "use soap", "from 10 to 12", "import it", "by 2026-03-01", "log: x"])
    ),
    _AIMS,
)
def test_numbers_in_a_plain_fence_stay_and_nothing_in_it_is_called_an_import(lines, aim):
    shown, _ = compress("\n".join(["```", *lines, "```"]), aim)
    kept = [line for line in shown.splitlines() if "[…" not in line]
    assert [line for line in kept if _NUMBER.search(line)] == [one for one in lines if _NUMBER.search(one)]
    assert "# [" not in shown


@given(_TEXTS)
def test_units_cover_a_text_in_order(text):
    units = units_of(text)
    covered = [False] * len(text)
    for one in units:
        assert one.start < one.end
        for at in range(one.start, one.end):
            assert not covered[at]
            covered[at] = True
    assert all(done or sign.isspace() for done, sign in zip(covered, text, strict=True))
    assert units == sorted(units, key=lambda one: one.start)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ('She said "It rained. The worms were glad. Nobody saw." And left.', "The worms were glad."),
        (
            "See [the report of Dr. No. It is long](x.md). And leave.",
            "See [the report of Dr. No. It is long](x.md).",
        ),
        ("> We shall fight\non the beaches.", "on the beaches."),
        ("> We shall fight\n| on | all |", "| on | all |"),
        ("> In the year\n2. of the war", "2. of the war"),
        ("- clover\n- lime\n- rape\n- heather\n  > a quote\n- sloe", "- heather\n  > a quote"),
        ("- a\n- b\n- c\n- [ ] call Ada\nabout frames", "- [ ] call Ada\nabout frames"),
        ("The report\nof the garden\n=====", "The report\nof the garden\n====="),
        ("```\nuse 5 mg\nuse soap\nuse water\nuse a brush\nuse time\n```", "use 5 mg"),
        ("The glass holds ½ a litre. It is full.", "The glass holds ½ a litre."),
        ("他生于一九八六年。雨。", "他生于一九八六年。"),
        ("We met [here][place]. It rained.", "We met [here][place]."),
    ],
)
def test_what_stays_in_the_strongest_compression(text, kept):
    padding = "\n\n" + "Nothing of note happened there. " * 30
    assert kept in compress(text + padding, Aim("strong", ["brush"]))[0]


@pytest.mark.parametrize(
    ("text", "ranges"),
    [
        ('5" of rain. It fell. 6" more.', []),
        ("\u2018Don\u2019t go.\u2019 he said", ["\u2018Don\u2019t go.\u2019"]),
        ("\u2018tis so. \u201cA. B.\u201d", ["\u201cA. B.\u201d"]),
        ("„A. B.“ und “C. D.”", ["„A. B.“", "“C. D.”"]),
        ("\u201cIt goes on. And on.", ["\u201cIt goes on. And on."]),
        ("[a. b](c) [[d. e]] [f. g][h]", ["[a. b](c)", "[[d. e]]", "[f. g][h]"]),
        ("「雨。雨。」", ["「雨。雨。」"]),
    ],
)
def test_quotations_and_links_are_found(text, ranges):
    assert [text[start:end] for start, end in unbroken(text)] == ranges


NOTE = """## Bees

Bees fly far. They need water. A hive weighed 12.5 kg in 2024. Nobody knows why.
Honey keeps for years.

- clover
- lime
- heather
- rape
- [ ] order frames
- borage

| month | frames |
|---|---|
| May | 4 |
| June | 9 |
| July | 7 |
| August | 3 |
"""


def test_lists_and_tables_are_summarised_with_their_counts():
    shown, _ = compress(NOTE, Aim("strong", ["honey"]))
    assert "- heather\n[… 1 item]\n- [ ] order frames\n[… 1 item]" in shown
    assert "| June | 9 |\n[… 2 rows]" in shown


@pytest.mark.parametrize("entry", ["- hive {} weighs little", "- [[Hive {}]] on the hill"])
def test_a_list_of_which_most_entries_have_numbers_or_links_is_summarised(entry):
    entries = [entry.format(number) for number in range(30)]
    shown, _ = compress("\n".join([*entries, "- [ ] call Ada"]), Aim("strong", ["hill 17", "hive 17"]))
    kept = [line for line in shown.splitlines() if line in entries]
    assert kept[:3] == entries[:3]
    assert len(kept) <= 4
    assert "- [ ] call Ada" in shown


def test_an_entry_with_a_number_stays_where_few_have_one():
    shown, _ = compress("- a\n- b\n- c\n- d\n- e\n- rent 12 euros\n- f", Aim("strong"))
    assert "- rent 12 euros" in shown


def test_the_sentences_farthest_from_the_question_go_first():
    at = {words: NOTE.index(words) for words in ("Bees fly", "They need", "Nobody", "Honey")}
    near = [(at["Bees fly"], at["They need"] - 1, 0.1), (at["They need"], at["They need"] + 10, 0.9)]
    near += [(at["Nobody"], at["Nobody"] + 5, 0.2), (at["Honey"], at["Honey"] + 5, 0.8)]
    shown, _ = compress(NOTE, Aim("strong", near=near))
    assert f"{GAP} They need water. A hive weighed 12.5 kg in 2024. {GAP}\nHoney keeps for years." in shown


def test_without_vectors_sentences_with_words_of_the_question_stay():
    shown, _ = compress(NOTE, Aim("strong", ["honey"]))
    assert "Honey keeps for years." in shown
    assert "Bees fly far." not in shown


def test_no_more_is_left_out_than_has_to_be():
    text = ("One thing is so. Another is not. " * 10).strip()
    light, strong = (compress(text, Aim(mode))[0] for mode in ("light", "strong"))
    assert len(strong) < len(light) < len(text)
    assert compress(text, Aim("strong", share=1.0))[0] == text
    assert compress(text, Aim("none"))[0] == text


def test_a_domain_sets_what_strong_compression_aims_at_and_how_much_it_leaves_out_at_most():
    text = " ".join(f"Sentence {'i' * n} is so." for n in range(1, 11))

    def kept(mode="strong", **limits):
        shown, _ = compress(text, Aim(mode, limits=ContextLimits(**limits)))
        return shown.count("is so")

    assert (kept(target_ratio=1.0), kept(target_ratio=0.0)) == (10, 3)  # of ten sentences seven may go
    assert (kept(target_ratio=0.0, max_prune_ratio=0.2), kept(target_ratio=0.0, max_prune_ratio=1.0)) == (
        8,
        0,
    )
    assert kept("light", target_ratio=0.0) == kept("light", target_ratio=1.0) == 6


def test_the_limits_count_for_source_code_too():
    code = "\n".join(f"value{n} = other{n}" for n in range(10))

    def kept(**limits):
        shown, _ = compress(code, Aim("strong", is_source=True, limits=ContextLimits(**limits)))
        return shown.count(" = ")

    assert (kept(target_ratio=1.0), kept(target_ratio=0.0), kept(target_ratio=0.0, max_prune_ratio=0.5)) == (
        10,
        3,
        5,
    )


def test_lines_of_a_template_go():
    shown, _ = compress("What went well?\n\nThe soil.\n", Aim("light", repeated=["What went well?"], share=1))
    assert shown == f"{GAP}\n\nThe soil."


CODE = """```python
import os
import sys
import json
from re import compile

class Hive:
    def __init__(self, frames):
        self.frames = frames
        self.honey = 0
        self.bees = 0
        log.info("made")
        log.info("really")

    def harvest(self):
        taken = self.honey
        rest = taken - taken
        total = rest + taken
        # TODO: weigh it
        return total
```"""


def test_source_code_is_summarised_by_the_rules_of_the_source_document():
    shown, _ = compress(CODE, Aim("light"))
    assert "# [4 imports: os, sys, json, re]" in shown
    assert "# [3 assignments: frames, honey, bees]" in shown
    assert "# [2 log statements]" in shown
    assert "taken = self.honey" in shown


@pytest.mark.parametrize(
    "line", ["class Hive:", "    def harvest(self):", "        return total", "# TODO: weigh it"]
)
def test_what_source_code_is_about_stays(line):
    shown, _ = compress(CODE, Aim("strong"))
    assert line in shown
    assert re.search(r"\[… \d+ lines? of code\]", shown)


PYTHON = '''"""Weigh hives.

Each once a day.
"""

import json
import math
from os import (
    path,
    sep,
)

FRAMES = 10
LIMITS = {
    "low": 1,
}


@final
class Hive:
    """A hive.

    It has frames, and
    nobody counts them.
    """

    def weigh(
        self,
        scale,
    ):
        # FIXME: the scale is
        # often wrong
        first = scale.read()
        second = first - first
        third = second + first
        if (
            first
            and second
        ):
            return dict(
                first=first,
            )
        raise ValueError("empty")
'''
JAVASCRIPT = """import { read } from "fs";
import path from "path";
import { write } from "fs";

/**
 * Weighs hives,
 * all of them.
 */
export class Hive {
  weigh(scale) {
    // TODO: calibrate
    const first = scale.read();
    const second = first - first;
    const third = second + first;
    if (first) {
      return third;
    } else {
      throw new Error("empty");
    }
  }
}
"""


@pytest.mark.parametrize(
    ("text", "gone"),
    [
        (PYTHON, r"import|FRAMES|LIMITS|^    path|^    sep|^\)|low|^}|first = |second = |third = "),
        (JAVASCRIPT, r"import|(first|second|third) = "),
    ],
)
def test_of_a_source_file_definitions_branches_returns_docstrings_and_todos_stay(text, gone):
    shown, _ = compress(text, Aim("strong", is_source=True))
    for line in filter(str.strip, text.splitlines()):
        if not re.search(gone, line):
            assert line in shown
    assert re.search(r"# \[3 imports: ", shown)
    assert "[… " in shown
    assert not re.search(r"^(?:import|FRAMES|LIMITS)", shown, re.MULTILINE)


def sizes(texts):
    return [len(text.split()) for text in texts]


@given(_TEXTS, _AIMS, st.integers(1, 60), st.booleans())
def test_the_best_part_of_a_text_fits_and_is_a_range_of_its_units(text, aim, room, is_source):
    found = best_part(text, replace(aim, is_source=is_source), sizes, room)
    units = units_of(text, is_source=is_source)
    if found is None:
        assert not units or max(sizes(text[one.start : one.end] for one in units)) > room
        return
    start, end = found
    assert sum(sizes(text[one.start : one.end] for one in units if start <= one.start < end)) <= room
    assert {start} <= {one.start for one in units}
    assert {end} <= {one.end for one in units}


def test_the_best_part_of_source_code_begins_with_a_definition():
    text = "class A:\n    def f(self):\n        x = 1\n        return x\n\n    def honey(self):\n        y = 2\n        z = 3\n"
    start, end = best_part(text, Aim("none", ["z"], is_source=True), sizes, 9)
    assert text[start:end] == "    def honey(self):\n        y = 2\n        z = 3"
