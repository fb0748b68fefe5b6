"""What tagging works with: a domain's vocabulary and notes, the proposers; made at first use."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from pipelines.model import Domain, Taxonomy
from pipelines.store.cache import Cache
from pipelines.store.proposals import Proposals
from pipelines.tagging import propose, review, taxonomy
from pipelines.tagging.haiku import NEWEST_HAIKU, HaikuProposer
from pipelines.tagging.local import LocalProposer
from pipelines.tagging.promote import Notes
from pipelines.tagging.taxonomy import TaxonomyFile
from workers.resources import Resources

DISPLACED_FOLDER = "displaced"
# Fitting takes a second at 10,000 notes; what was tagged meanwhile can wait so long.
_REFIT_SECONDS = 300.0


class TagDesk:
    """The tagging of a vault's domains, over the resources of a process."""

    def __init__(self, resources: Resources) -> None:
        self.resources = resources
        self._own = threading.local()
        self._vocabularies: dict[str, TaxonomyFile] = {}
        self._fitted: dict[str, tuple[float, Taxonomy, LocalProposer]] = {}
        self._haiku: HaikuProposer | None = None

    @property
    def displaced(self) -> Path:
        """The folder for what an exchange displaced."""
        return self.resources.place.state / DISPLACED_FOLDER

    def proposals(self) -> Proposals:
        """Return this thread's connection to the tag tables."""
        if not hasattr(self._own, "proposals"):
            self.resources.state()  # makes the tables
            self._own.proposals = Proposals(self.resources.place.state)
        proposals: Proposals = self._own.proposals
        return proposals

    def vocabulary(self, domain: Domain) -> TaxonomyFile:
        """Return a domain's vocabulary in force, read again when the file changed."""
        file = self.resources.root / domain.within(domain.taxonomy)
        found = taxonomy.load(file, self._vocabularies.get(domain.slug))
        self._vocabularies[domain.slug] = found
        return found

    def notes(self, domain: Domain) -> Notes:
        """Return where a domain's notes are."""
        return Notes(
            domain.slug,
            self.resources.root,
            self.resources.settings.max_note_bytes,
            self.resources.reader(domain),
            self.proposals(),
            self.displaced,
        )

    def proposing(self, domain: Domain) -> propose.Desk:
        """Return what proposing for a domain takes. Raises CacheError."""
        settings, cache = self.resources.settings, self.resources.reader(domain)
        vocabulary = self.vocabulary(domain).taxonomy
        return propose.Desk(
            domain=domain,
            taxonomy=vocabulary,
            cache=cache,
            proposals=self.proposals(),
            root=self.resources.root,
            max_bytes=settings.max_note_bytes,
            local=lambda: self._local(domain, vocabulary, cache),
            haiku=self._claude(),
            budget=propose.Budget(settings.tag_notes_a_day, settings.tag_usd_a_day),
        )

    def reviewing(self, domain: Domain, *, apply: bool) -> review.Desk:
        """Return what reviewing a domain takes; `apply` the tags that are accepted."""
        return review.Desk(domain, self.vocabulary(domain), self.notes(domain), apply)

    def _local(self, domain: Domain, vocabulary: Taxonomy, cache: Cache) -> LocalProposer:
        fitted = self._fitted.get(domain.slug)
        if fitted and fitted[1] == vocabulary and time.monotonic() - fitted[0] < _REFIT_SECONDS:
            return fitted[2]
        embedder = self.resources.embedder(cache.meta.model)
        proposer = propose.fit_local(cache, vocabulary, lambda texts: list(embedder.encode_documents(texts)))
        self._fitted[domain.slug] = (time.monotonic(), vocabulary, proposer)
        return proposer

    def _claude(self) -> HaikuProposer | None:
        settings = self.resources.settings
        if settings.anthropic_api_key and self._haiku is None:
            self._haiku = HaikuProposer(
                settings.anthropic_api_key.get_secret_value(),
                model=settings.tag_model or NEWEST_HAIKU,
                base_url=settings.anthropic_base_url,
            )
        return self._haiku
