"""Count tokens: by a model's tokenizer where it is loaded, else by an estimate that has that name."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

_BYTES_PER_TOKEN = 4
# Tokenizers of the BERT family give a longer word one token, however long it is.
_LONG_WORD = re.compile(r"\S{100,}")

Counting = Callable[[Sequence[str]], Sequence[int]]
"""Return the number of tokens of each text."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """A way to count tokens, and its name: that of a model, or `estimate`.

    It remembers each text that it has counted, so make one for each block.
    """

    name: str
    counting: Counting
    _known: dict[str, int] = field(default_factory=dict, repr=False, compare=False)

    def of(self, texts: Sequence[str]) -> list[int]:
        """Return the number of tokens of each text; a very long word counts by its bytes."""
        new = [text for text in dict.fromkeys(texts) if text not in self._known]
        for text, tokens in zip(new, self.counting(new) if new else (), strict=True):
            self._known[text] = tokens + sum(map(_by_bytes, _LONG_WORD.findall(text)))
        return [self._known[text] for text in texts]


def _by_bytes(text: str) -> int:
    return math.ceil(len(text.encode("utf-8", "replace")) / _BYTES_PER_TOKEN)


def estimated() -> Tokens:
    """Return the estimate: one token per four bytes of UTF-8, which fits English and exceeds most other text."""
    return Tokens("estimate", lambda texts: [_by_bytes(_LONG_WORD.sub("", text)) for text in texts])
