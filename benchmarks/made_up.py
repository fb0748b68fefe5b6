"""Vaults that are made up: words by Zipf's law, scale-free links."""

from __future__ import annotations

from pathlib import Path

import numpy as np

WORDS = 20_000
_LETTERS = str.maketrans("0123456789", "abcdefghij")


def word(number: int) -> str:
    """Return a made-up word: letters alone, as an identifier's parts are searched, too, and none that is stemmed."""
    return f"qu{str(number).translate(_LETTERS)}o"


def write_vault(root: Path, notes: int) -> None:
    """Write notes of some 120 words in folders of a hundred; each links to two earlier ones, the linked-to first.

    Those that are there already stay.
    """
    chance = np.random.default_rng(1)
    ends = [0]
    for n in range(notes):
        words = " ".join(word(w) for w in np.minimum(chance.zipf(1.3, int(chance.integers(40, 200))), WORDS))
        linked = [ends[int(chance.integers(len(ends)))] for _ in range(2)]
        # Barabási and Albert, Science 286 (1999): who has links is linked to.
        ends += [n, *linked]
        file = root / f"{n // 100:03}" / f"note-{n}.md"
        links = " ".join(f"[[note-{other}]]" for other in linked)
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"# Note {n}\n\n{words}\n\n{links}\n")
