"""Read a file of named entries that the vault's owner writes: `_contexts.yaml`, `_scopes.yaml`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from pipelines.disk import beneath
from pipelines.errors import ConfigurationError, DomainsFileError, UnsafePathError
from pipelines.parsing.yaml_guard import YAML_SURPRISES, refuse_bombs, refuse_twice

LONGEST_NAME = 100
"""Characters of an entry's name."""


def read_text(root: Path, file: str, limit: int, error: type[ConfigurationError]) -> str | None:
    """Return the text of a file at the vault's root, None without one; raises the given error if it is unreadable."""
    try:
        return beneath.read_file(root, file, limit).decode("utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnsafePathError, UnicodeDecodeError) as problem:
        raise error(f"{root / file} cannot be read: {problem}") from problem


def parse_entries(
    text: str, file: str, error: type[ConfigurationError], expected: str, most: int
) -> tuple[dict[object, Any], yaml.Node | None]:
    """Return the entries by name, and the node that knows their lines.

    Raises the given error, with file, line and reason, for what is no YAML mapping, has aliases, is nested too deep,
    names an entry twice, or has more than `most` entries.
    """
    try:
        refuse_bombs(text, file)
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        data = yaml.load(text, Loader=yaml.SafeLoader)
        refuse_twice(node, file)
    except DomainsFileError as problem:
        raise error(str(problem)) from problem
    except (yaml.YAMLError, *YAML_SURPRISES) as problem:
        mark = getattr(problem, "problem_mark", None)
        reason = getattr(problem, "problem", None) or str(problem)
        raise error(f"{file}:{mark.line + 1 if mark else 1}: not valid YAML: {reason}") from problem
    if not isinstance(data, dict) or not data:
        raise error(f"{file}:1: expected {expected}")
    if len(data) > most:
        raise error(f"{file}: {len(data)} entries are more than {most}; remove some")
    return data, node
