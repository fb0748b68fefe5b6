"""Read `_domains.yaml`: the domains of a vault, and the domain that each path belongs to."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from pipelines.disk import beneath
from pipelines.documents.formats import OF_A_NEW_VAULT
from pipelines.domain_settings import read_domain
from pipelines.errors import DomainsFileError, UnsafePathError
from pipelines.model import Domain
from pipelines.parsing.yaml_guard import YAML_SURPRISES, line_of, refuse_bombs, refuse_twice

DOMAINS_FILE = "_domains.yaml"
WHOLE_VAULT = (Domain("vault", "", legacy=True),)
"""The domains of a vault without `_domains.yaml`."""

_MOST = 1_000  # domains, each of which has its own index
_LIMIT = 100_000  # bytes, which are parsed within seconds, whatever they contain


@dataclass(frozen=True, slots=True)
class Registry:
    """The current domains. `error` says why a newer `_domains.yaml` is not used, `refused` is its text.

    `formats` are those of a domain that does not state its own.
    """

    domains: tuple[Domain, ...]
    source: str | None = None
    error: str | None = None
    refused: str | None = None
    formats: tuple[str, ...] = OF_A_NEW_VAULT

    def owner(self, path: str) -> Domain | None:
        """Return the domain that owns a path: the one with the longest folder that contains it."""
        return max(
            (d for d in self.domains if not d.path or path.startswith(d.path + "/")),
            key=lambda d: len(d.path),
            default=None,
        )

    def get(self, slug: str) -> Domain | None:
        """Return a domain by its slug."""
        return next((d for d in self.domains if d.slug == slug), None)

    def formats_of(self, path: str) -> tuple[str, ...]:
        """Return the names of the formats that are indexed at a path; none outside all domains."""
        owner = self.owner(path)
        if owner is None:
            return ()
        return self.formats if owner.formats is None else owner.formats

    @property
    def prefixes(self) -> tuple[str, ...]:
        """The prefixes of the paths that belong to any domain."""
        return tuple(f"{d.path}/" if d.path else "" for d in self.domains)

    @property
    def generated(self) -> tuple[str, ...]:
        """The paths of the review queues, which are generated and never notes."""
        return tuple(d.within(d.review_queue) for d in self.domains)


def load(root: Path, last_good: Registry | None = None) -> Registry:
    """Read the vault's `_domains.yaml`; without one the vault is a single domain.

    If the vault is unavailable, or the file is invalid (with the error recorded), `last_good` stays in use; without
    it DomainsFileError is raised.
    """
    path = root / DOMAINS_FILE
    try:
        text = beneath.read_file(root, DOMAINS_FILE, _LIMIT).decode("utf-8")
    except FileNotFoundError:
        # Checked after the failure, because a vault that becomes unavailable in between has not lost its domains.
        return last_good if last_good and not os.access(root, os.F_OK) else Registry(WHOLE_VAULT)
    except (OSError, UnsafePathError, UnicodeDecodeError) as error:
        return _invalid(DomainsFileError(f"{path} cannot be read: {error}"), last_good)
    if last_good and text == (last_good.refused if last_good.error else last_good.source):
        return last_good
    try:
        return Registry(parse(text, str(path)), text)
    except DomainsFileError as error:
        return _invalid(error, last_good, text)


def _invalid(error: DomainsFileError, last_good: Registry | None, text: str | None = None) -> Registry:
    if last_good is None:
        raise error
    return Registry(last_good.domains, last_good.source, str(error), text)


def parse(text: str, name: str = DOMAINS_FILE) -> tuple[Domain, ...]:
    """Parse the text of a `_domains.yaml`. Raises DomainsFileError with file, line and reason."""
    try:
        refuse_bombs(text, name)
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        data = yaml.load(text, Loader=yaml.SafeLoader)
    except (yaml.YAMLError, *YAML_SURPRISES) as error:
        where, problem = _place(error, text), getattr(error, "problem", None) or " ".join(str(error).split())
        raise DomainsFileError(f"{name}{where}: not valid YAML: {problem}") from error
    if not isinstance(data, dict) or not data:
        raise DomainsFileError(f"{name}:1: expected `<domain>:` followed by its settings")
    if len(data) > _MOST:
        raise DomainsFileError(f"{name}: {len(data)} domains are more than {_MOST}; merge some of them")
    refuse_twice(node, name)
    domains = tuple(read_domain(slug, value, node, name) for slug, value in data.items())
    _check_together(domains, node, name)
    return domains


def _place(error: Exception, text: str) -> str:
    """Return the line of an error in a YAML text, as `:3`; nothing where the error does not know it."""
    if mark := getattr(error, "problem_mark", None):
        return f":{mark.line + 1}"
    position = getattr(error, "position", None)  # of a character that YAML does not allow
    return "" if position is None else f":{text.count(chr(10), 0, position) + 1}"


def _check_together(domains: Sequence[Domain], node: yaml.Node | None, name: str) -> None:
    seen: dict[str, Domain] = {}
    for domain in domains:
        other = seen.setdefault(domain.path, domain)
        if other is not domain:
            what = "are both `legacy: true`" if domain.legacy else f"both own {domain.path + '/'!r}"
            line = line_of(node, (domain.slug,))
            raise DomainsFileError(f"{name}:{line}: {other.slug} and {domain.slug} {what}; only one can")
