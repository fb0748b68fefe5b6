"""Look at a sample of notes for their languages, by which a domain's model is chosen before its first index."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pipelines.domains import Registry
from pipelines.errors import NoteError
from pipelines.indexing.reconcile import rules_of
from pipelines.language import Language, language_of
from pipelines.model import FoundFile
from pipelines.notes.frontmatter import body_of
from pipelines.vault import files
from pipelines.vault.scan import scan_vault

_MOST_READ = 300
_LARGEST = 1_000_000  # bytes
_PIECE, _PIECES = 400, 5  # characters
# Below this, notes are taken for English ones: of English vaults, up to 2 % look like others (docs/models.md).
_SHARE = 0.1
_NAMES: Mapping[Language, str] = {
    "de": "German",
    "fr": "French",
    "es": "Spanish",
    "it": "Italian",
    "pt": "Portuguese",
    "nl": "Dutch",
    "cjk": "Chinese, Japanese or Korean",
    "other": "in another script",
}


@dataclass(frozen=True, slots=True)
class Languages:
    """How many notes of a sample were read and told, and how many of them are in each language but English."""

    told: int
    others: Mapping[Language, int]

    @property
    def share(self) -> float:
        """The share of notes that are not in English."""
        return sum(self.others.values()) / max(1, self.told)

    @property
    def need_multilingual(self) -> bool:
        """Say whether a model for English alone would miss too much; one odd note among several is no reason."""
        count = sum(self.others.values())
        return self.share >= _SHARE and (count > 1 or count == self.told)

    def described(self) -> str:
        """Return how much is in which language: `34 % of these notes are not in English (mostly German)`."""
        language = max(self.others, key=lambda one: self.others[one])
        return f"{self.share:.0%} of these notes are not in English (mostly {_NAMES[language]})".replace(
            "%", " %"
        )


def languages_by_domain(root: Path, registry: Registry) -> dict[str, Languages]:
    """Return the languages of each domain's notes, by slug. Raises VaultNotFoundError."""
    own: dict[str, list[FoundFile]] = {domain.slug: [] for domain in registry.domains}
    for path, file in scan_vault(root, rules_of(root, registry)).notes.items():
        if (domain := registry.owner(path)) and path not in domain.configuration:
            own[domain.slug].append(file)
    return {slug: languages_of(root, found) for slug, found in own.items()}


def languages_of(root: Path, notes: Sequence[FoundFile]) -> Languages:
    """Return the languages of up to 300 notes, the same ones for the same names."""
    written = sorted((one for one in notes if files.is_markdown(one.path)), key=lambda one: one.path)
    sample = random.Random(0).sample(written, min(len(written), _MOST_READ))  # noqa: S311 - not a secret
    found = [language for file in sample if (language := _language_of(root, file))]
    told: Counter[Language] = Counter(found)
    return Languages(told.total(), {language: n for language, n in told.items() if language != "en"})


def _language_of(root: Path, file: FoundFile) -> Language | None:
    """Return the language of most of a note's first pieces, without its frontmatter."""
    try:
        text = files.read(root, file.raw, _LARGEST).data.decode(errors="replace")
    except (NoteError, OSError):
        return None  # the index will park it with its reason
    body = body_of(text)[: _PIECE * _PIECES]
    votes = Counter(language_of(body[at : at + _PIECE]) for at in range(0, len(body), _PIECE))
    del votes[None]
    return max(votes, key=lambda one: votes[one]) if votes else None
