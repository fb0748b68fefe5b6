"""Compute a vault's domains as they would be with another setting; nothing is written."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import yaml

from pipelines.domains import WHOLE_VAULT, Registry, parse
from pipelines.errors import ConfigurationError, DomainsFileError
from pipelines.model import Domain
from pipelines.parsing.yaml_guard import YAML_SURPRISES, refuse_bombs

_INDEXED = (
    *("path", "legacy", "embedding", "embedding_dim", "embedding_context", "pagerank_over", "formats"),
    "documents",
)
"""Settings that take effect when notes are indexed."""

_UNASKED = ("taxonomy", "review_queue", "privacy", "promote")
"""Settings that do not affect any ranking."""


def with_setting(registry: Registry, given: str) -> tuple[Domain, ...]:
    """Return the domains with one setting of `_domains.yaml` changed in each, given as in `lexical.weight=0.5`.

    Raises ConfigurationError if it is not a setting, already has this value, or cannot change an answer without
    indexing the notes again.
    """
    setting, equals, value = (part.strip() for part in given.partition("="))
    if not (setting and equals and value):
        raise ConfigurationError(f"{given!r} is not a setting; write SETTING=VALUE, as in lexical.weight=0.5")
    try:
        refuse_bombs(value, setting)
        domains = parse(_changed(registry, setting.split("."), value), setting)
    except (DomainsFileError, yaml.YAMLError, *YAML_SURPRISES) as error:
        # The parsed text is generated, so its line numbers mean nothing to the reader.
        reason = str(error).partition(": ")[2] if isinstance(error, DomainsFileError) else "not valid YAML"
        raise ConfigurationError(f"{given!r} cannot be compared: {reason}") from error
    _refuse_what_changes_nothing(registry, domains, given)
    return domains


def _changed(registry: Registry, keys: list[str], value: str) -> str:
    """Return the text of `_domains.yaml` with a value at these keys in each domain."""
    whole = {WHOLE_VAULT[0].slug: {"legacy": True}}
    data: dict[str, Any] = yaml.safe_load(registry.source) if registry.source else whole
    for slug, settings in data.items():
        section = data[slug] = settings or {}
        for key in keys[:-1]:
            if not isinstance(section.get(key), dict):
                section[key] = {}
            section = section[key]
        # Parsed once per domain, because YAML writes an object used in two places as an alias.
        section[keys[-1]] = yaml.safe_load(value)
    return yaml.safe_dump(data, sort_keys=False)


def _refuse_what_changes_nothing(registry: Registry, domains: tuple[Domain, ...], given: str) -> None:
    changed = {
        field.name
        for before, after in zip(registry.domains, domains, strict=True)
        for field in fields(Domain)
        if getattr(before, field.name) != getattr(after, field.name)
    }
    if changed & set(_INDEXED):
        raise ConfigurationError(
            f"{given!r} cannot be compared: it needs another index; change it in a copy of the vault,"
            " and run `everindex eval` in both"
        )
    if changed & set(_UNASKED):
        raise ConfigurationError(f"{given!r} cannot be compared: no answer depends on it")
    if not changed:
        raise ConfigurationError(f"every domain already has {given!r}: there is nothing to compare")
