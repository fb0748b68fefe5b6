"""Answers with true and false quotations from the example vault: what comes out as verified is what the notes say.

False ones are altered in a word, a number or a negation, cut inside a word, merged from two passages, or invented. An
ellipsis may leave words out, so a quotation with one is true if its parts stand in one note in this order, and merged
if they do not. Each stands in one of several marks, and cites the right source, none, or a wrong one.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from pipelines.chat.spans import Sentences, judge
from pipelines.search.excerpts import plain
from pipelines.search.quotes import check_quote, normalise

VAULT = Path(__file__).parents[3] / "examples" / "vault"
ANSWERS = 200
SOURCES = 8
MARKS = {
    "straight": ('"', '"'),
    "curly": ("“", "”"),
    "german": ("„", "“"),
    "french": ("«", "»"),
    "spaced french": ("« ", " »"),
    "turned french": ("»", "«"),
    "block": ("> ", ""),
    "block in marks": ('> "', '"'),
}
LEADS = ("The notes say:", "So it is", "Dort steht", "On lit", "In short,", "It adds that")
OWN = ("That is all.", "Nothing else is said about it.", "Weiter steht dort nichts!", "What follows from it?")
NEGATIONS = {"not", "no", "never", "without", "nicht", "kein", "keine"}


@dataclass(frozen=True)
class Quotation:
    """A quotation, what was done to it, and whether its citation leads to where it stands."""

    text: str
    kind: str
    marks: str
    cited: str

    @property
    def is_true(self):
        return self.kind in ("true", "elided") and self.cited != "wrong"


def notes():
    """Return the body of each note that has some sentences, as written."""
    bodies = []
    for file in sorted(VAULT.rglob("*.md")):
        body = re.sub(r"\A---\n.*?\n---\n", "", file.read_text(), flags=re.DOTALL)
        if len(lines_of(body)) >= 4:
            bodies.append(body)
    return bodies


@cache
def forms_of(body):
    """Return a note as it is compared: as written, and as it is read."""
    return [f" {normalise(form)} " for form in (body, plain(body))]


@cache
def lines_of(body):
    """Return the lines of a note that are prose long enough to be quoted, without code and the marks that quote it."""
    lines = (re.sub(r"^\s*(?:[-*]|\d+\.)\s+(?:\[.\]\s+)?", "", line).strip() for line in body.splitlines())
    return [line for line in lines if len(line.split()) >= 8 and not re.search(r"[“”„«»‹›`|#>]", line)]


NOTES = notes()


class Writer:
    """Writes one answer: the same for the same seed."""

    def __init__(self, seed):
        self.chance = random.Random(seed)  # noqa: S311 - texts, not secrets
        self.sources = dict(enumerate(self.chance.sample(NOTES, SOURCES), 1))
        self.quotations = []

    def answer(self):
        parts = []
        for _ in range(self.chance.randint(3, 6)):
            made = None
            while made is None:
                n = self.chance.choice(list(self.sources))
                made = self.made(n, self.chance.choice(list(KINDS)))
            text, kind = made
            parts.append(self.written(text, kind, n))
            if self.chance.random() < 0.3:
                parts.append(self.chance.choice(OWN))
        return self.joined(parts)

    def joined(self, parts):
        """Return the parts one after the other; a block quote is a paragraph, and others may be."""
        text = ""
        for part in parts:
            is_apart = part.startswith(">") or text.rpartition("\n")[2].startswith(">")
            between = "\n\n" if is_apart else self.chance.choice([" ", " ", "\n", "\n\n"])
            text += f"{between if text else ''}{part}"
        return text

    def made(self, n, kind):
        """Return a quotation of a kind, or None where this passage does not lend itself to it."""
        text = KINDS[kind](self, n)
        if text is None:
            return None
        is_there = self.stands(text, n)
        if kind in ("true", "elided"):
            return text, kind
        # By chance another note may say what was made up.
        return None if is_there or any(self.stands(text, other) for other in self.sources) else (text, kind)

    def stands(self, text, n):
        """Say whether a note has these words: no use of the checker, but for what counts as the same letter."""
        return any(f" {normalise(text)} " in form for form in forms_of(self.sources[n]))

    def written(self, text, kind, n):
        marks = self.chance.choice([name for name in MARKS if '"' not in text or '"' not in MARKS[name][0]])
        cited = self.chance.choice(("right", "right", "none", "wrong"))
        other = self.chance.choice([m for m in (*self.sources, 99) if m != n])
        if cited == "wrong" and other in self.sources and self.stands(text, other):
            cited, other = "right", n
        self.quotations.append(Quotation(text, kind, marks, cited))
        mark = {"right": f" [{n}]", "none": "", "wrong": f" [{other}]"}[cited]
        opened, closed = MARKS[marks]
        if self.chance.random() < 0.3:
            text = text.replace(" ", "\n> " if opened.startswith(">") else "\n", self.chance.randint(1, 3))
        if opened.startswith(">"):
            return f"{opened}{text}{closed}{mark}"
        lead = self.chance.choice(LEADS)
        if mark and self.chance.random() < 0.2:
            return f"According to{mark}, {opened}{text}{closed}."
        return f"{lead} {opened}{text}{closed}{mark}."

    def passage(self, n, least=5, most=24):
        """Return some words of a note, as written or as they are read."""
        line = self.chance.choice(lines_of(self.sources[n]))
        words = (plain(line) if self.chance.random() < 0.5 else line).split()
        size = self.chance.randint(least, most)
        at = self.chance.randint(0, max(0, len(words) - size))
        text = " ".join(words[at : at + size])
        return text if len(text) > 30 and self.stands(text, n) else self.passage(n, least, most)

    def true(self, n):
        return self.passage(n)

    def elided(self, n):
        first, second = self.in_order(n)
        return (
            None if first is None else f"{first} {self.chance.choice(['...', '…', '[...]', '[…]'])} {second}"
        )

    def word_changed(self, n):
        words = self.passage(n).split()
        at = self.chance.randrange(len(words))
        words[at] = self.chance.choice([word for word in self.passage(n).split() if word != words[at]])
        return " ".join(words)

    def word_dropped(self, n):
        words = self.passage(n, 7).split()
        if len(words) < 7:
            return None
        del words[self.chance.randrange(1, len(words) - 1)]
        return " ".join(words)

    def number_changed(self, n):
        text = next((text for text in (self.passage(n) for _ in range(30)) if re.search(r"\d", text)), None)
        if text is None:
            return None
        one = self.chance.choice(list(re.finditer(r"\d+", text)))
        return f"{text[: one.start()]}{int(one[0]) + self.chance.choice([1, 10])}{text[one.end() :]}"

    def negation_changed(self, n):
        words = self.passage(n).split()
        at = next((at for at, word in enumerate(words) if word.lower() in NEGATIONS), None)
        if at is None:
            words.insert(self.chance.randrange(1, len(words)), "not")
        elif at in (0, len(words) - 1):
            return None
        else:
            del words[at]
        return " ".join(words)

    def cut_in_a_word(self, n):
        text = self.passage(n)
        last = re.search(r"\w{4,}$", text)
        return text[: last.start() + 2] if last else None

    def merged(self, n):
        return f"{self.passage(n)} {self.passage(n)}"

    def merged_by_an_ellipsis(self, n):
        other = self.chance.choice([m for m in self.sources if m != n])
        return f"{self.passage(n)} ... {self.passage(other)}"

    def turned_around(self, n):
        first, second = self.in_order(n)
        return None if first is None else f"{second} [...] {first}"

    def in_order(self, n):
        """Return two passages of a note, each of which stands there once, the second after the first."""
        pair = sorted(
            (self.passage(n), self.passage(n)),
            key=lambda text: normalise(self.sources[n]).find(normalise(text)),
        )
        body = normalise(self.sources[n])
        places = [body.find(normalise(text)) for text in pair]
        once = all(body.count(normalise(text)) == 1 for text in pair)
        return pair if once and places[0] + len(normalise(pair[0])) < places[1] else (None, None)

    def invented(self, _):
        words = [word for body in NOTES for word in body.split() if word.isalpha()]
        return " ".join(self.chance.sample(words, self.chance.randint(6, 15)))


KINDS = {
    "true": Writer.true,
    "elided": Writer.elided,
    "another word": Writer.word_changed,
    "a word less": Writer.word_dropped,
    "another number": Writer.number_changed,
    "a negation": Writer.negation_changed,
    "cut": Writer.cut_in_a_word,
    "merged": Writer.merged,
    "merged by an ellipsis": Writer.merged_by_an_ellipsis,
    "turned around": Writer.turned_around,
    "invented": Writer.invented,
}


def judged(answer, sources, chance):
    """Return the sentences of an answer that comes in pieces, with what supports each."""
    sentences, found = Sentences(), []

    def verify(quote, numbers):
        return {n: check_quote(quote, [sources[n]]).reason for n in numbers}

    at = 0
    while at < len(answer):
        piece = answer[at : at + chance.randint(1, 12)]
        at += len(piece)
        found += sentences.add(piece)
    found += sentences.rest()
    assert "".join(one.text for one in found) == answer
    return [(one, judge(one, sources, verify)) for one in found]


def same(quote):
    """Return a quotation without what the marks of a block quote may take from its ends."""
    return normalise(quote).strip('"*_ ')


@pytest.mark.parametrize("seed", range(ANSWERS))
def test_what_is_verified_is_what_the_notes_say(seed):
    writer = Writer(seed)
    answer = writer.answer()
    found = [result for _, result in judged(answer, writer.sources, writer.chance)]
    verified = Counter(same(span.quote) for one in found for span in one.spans if span.is_verified)
    assert verified == Counter(same(one.text) for one in writer.quotations if one.is_true), answer
    false = sum(not one.is_true for one in writer.quotations)
    assert sum(one.support == "unverified" for one in found) >= min(1, false), answer


def test_the_answers_have_every_kind_of_quotation_in_all_marks_and_citations():
    made = Counter()
    for seed in range(ANSWERS):
        writer = Writer(seed)
        writer.answer()
        made.update((one.kind, one.marks) for one in writer.quotations)
        made.update((one.kind, one.cited) for one in writer.quotations)
    wanted = {(kind, other) for kind in KINDS for other in (*MARKS, "right", "none", "wrong")}
    assert wanted == set(made)
