"""Estimate how likely a tag is in a vault with few tagged notes: by other vaults, corrected by this one's notes.

The evidence for a tag in a note falls into a class, and each class has the share of right proposals that was measured
in six other vaults. The vault's own tagged notes move that share, as if it had been seen `_WEIGHT` times before.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Indices = npt.NDArray[np.intp]

FEWEST = 5
"""The tags that fewer notes share say nothing about another note."""
FEWEST_TAGS = 4
"""With fewer tags, one of them gets most votes from the nearest notes, whatever the note."""

_STANDS_OUT = 2.0  # standard deviations by which a tag's text is nearer to a note than to others
_WEIGHT = 10.0
_OF_A_TAGGED_NOTE = 0.5  # its author chose its tags, and rarely forgot one
_SHARES = np.array([0.8, 0.75, 0.65, 0.55, 0.5, 0.7, 0.0])


class Guesses:
    """The chance of each proposal from the class of its evidence. Features are those of `local`."""

    def __init__(self, features: Floats, right: Bools, *, voters: int, tags: int) -> None:
        self._voted = voters >= FEWEST and tags >= FEWEST_TAGS
        classes = self._classes(features)
        seen = np.bincount(classes, minlength=len(_SHARES))
        held = np.bincount(classes[right], minlength=len(_SHARES))
        self._shares = (held + _WEIGHT * _SHARES) / (seen + _WEIGHT)
        self._shares[-1] = 0.0

    def chances(self, features: Floats, *, tagged: bool) -> Floats:
        """Return the chance that each tag is right: for a note without tags, or for what a tagged note lacks."""
        shares: Floats = self._shares[self._classes(features)]
        return shares * _OF_A_TAGGED_NOTE if tagged else shares

    def _classes(self, features: Floats) -> Indices:
        votes, _, described, titled, written, nearest = features.T
        named, near = (titled > 0) | (written > 0), nearest > 0
        stands_out, voted = described >= _STANDS_OUT, (votes >= 0.0) & self._voted
        return np.select(
            [
                named & voted,
                (titled > 0) & near,
                named & near & stands_out,
                named & near,
                named & stands_out,
                near & voted,
            ],
            range(len(_SHARES) - 1),
            len(_SHARES) - 1,
        ).astype(np.intp)
