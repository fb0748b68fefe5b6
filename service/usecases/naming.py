"""Notes by the name that a person or an agent gives them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePosixPath

from pipelines.notes.links import NOTE_SUFFIXES
from pipelines.search.names import fold_name
from service.usecases.schemas.titles import TitleHit


def bare_name(name: str) -> str:
    """Return a name without the suffix of a note's file."""
    return next((name[: -len(end)] for end in NOTE_SUFFIXES if name.lower().endswith(end)), name)


def notes_called(name: str, hits: Iterable[TitleHit]) -> list[str]:
    """Return the paths of those notes whose title, alias or file is called exactly so, whatever the case."""
    wanted = fold_name(bare_name(name))
    return [hit.path for hit in hits if wanted and wanted in set(map(fold_name, _names(hit)))]


def _names(hit: TitleHit) -> tuple[str, ...]:
    file = PurePosixPath(hit.path)
    return hit.name, hit.title, file.name, file.stem, str(file.with_suffix(""))
