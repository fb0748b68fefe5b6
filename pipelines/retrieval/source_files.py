"""The signals of source files, which concern no other note: by symbol, by file name, by imports."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pipelines.retrieval.filenames import lift_filenames
from pipelines.retrieval.fusion import Signals
from pipelines.retrieval.hit import Hit
from pipelines.retrieval.imports import add_imported
from pipelines.retrieval.symbols import AskedNames, SymbolNames, asked_names, lift_symbols
from pipelines.store.cache import Cache

_Fused = Sequence[tuple[int, Signals]]
_BestOfNotes = Callable[[_Fused], list[Hit]]


@dataclass(frozen=True, slots=True)
class CodeSignals:
    """Which signals of source files count; `symbols` are the names in the cache, read when first needed, or None."""

    symbols: SymbolNames | None = field(default_factory=SymbolNames)
    filename: bool = True
    imports: bool = True

    def asked(
        self, cache: Cache, query: str, *, hidden: Collection[str], only: Sequence[int] | None, is_name: bool
    ) -> AskedSymbols:
        """Return the symbols that a question may name, without `hidden` files; `only` these passages count.

        `is_name`: the question names a note, so a plain word is that name. Raises CacheError.
        """
        if self.symbols is None:
            return NO_SYMBOLS
        names = asked_names(query)
        exact = (*names.exact, *([names.alone] if names.alone and not is_name else ()))
        defining = self.symbols.definitions(cache, exact, hidden)
        allowed = defining if only is None else set(only).intersection(defining)
        return AskedSymbols(self.symbols, names, {chunk: defining[chunk] for chunk in allowed}, hidden)


NO_CODE = CodeSignals(None, filename=False, imports=False)
"""The signals in a domain that indexes no source files."""


@dataclass(frozen=True, slots=True)
class AskedSymbols:
    """The symbols that a question may name, without those of `hidden` files.

    `definitions`: the passages of those named exactly, with their paths.
    """

    symbols: SymbolNames | None
    names: AskedNames
    definitions: Mapping[int, str]
    hidden: Collection[str] = frozenset()

    def lift(
        self, cache: Cache, fused: _Fused, paths: Mapping[int, str], best: _BestOfNotes
    ) -> list[Hit] | None:
        """Return the notes (`best` of passages) with the signal `symbol`; None if no passage has it.

        A note whose passage defines what is named exactly is represented by it. Raises CacheError.
        """
        if self.symbols is None:
            return None
        strengths = self.symbols.strengths(cache, self.names, set(paths.values()), self.hidden)
        lifted = lift_symbols(fused, strengths)
        if not any("symbol" in signals for _, signals in lifted):
            return None
        hits = best(sorted(lifted, key=lambda one: one[0] not in self.definitions))
        known = [hit.after({}, symbol=strengths.get(hit.chunk_id), symbols=hit.score) for hit in hits]
        return sorted(known, key=lambda hit: -hit.score)


NO_SYMBOLS = AskedSymbols(None, asked_names(""), {})


def lift_source_files(
    signals: CodeSignals, cache: Cache, query: str, hits: list[Hit], only: Sequence[int] | None
) -> Iterator[tuple[str, list[Hit]]]:
    """Yield the notes after each signal that changes them, with the name of its layer. Raises CacheError."""
    if signals.filename:
        lifted = lift_filenames(hits, query)
        if any("filename" in hit.signals for hit in lifted):
            hits = lifted
            yield "filenames", hits
    if signals.imports:
        lifted = add_imported(cache, hits, only)
        if any("imports" in hit.signals for hit in lifted):
            yield "imported", lifted
