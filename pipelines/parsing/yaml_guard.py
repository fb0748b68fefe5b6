"""Read a vault's YAML safely: refuse dangerous documents before they are built, and find the line of a key."""

from __future__ import annotations

from collections.abc import Sequence

import yaml

from pipelines.errors import DomainsFileError

YAML_SURPRISES = (ValueError, LookupError, AttributeError, TypeError, RecursionError)
"""What PyYAML raises besides its own errors: if a tag does not fit its value, whatever the conversion raises."""

_DEEPEST = 20


def yaml_problem(error: Exception, lines_above: int = 0) -> str:
    """Return in one line what is wrong with a YAML text, and where.

    `lines_above` is the number of lines of the file above the text, so that lines are counted from the top of the
    file.
    """
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None or error.problem is None:
        return " ".join(str(error).split()) or type(error).__name__
    at = error.problem_mark
    said = f"line {at.line + 1 + lines_above}, column {at.column + 1}: {error.problem}"
    begun = error.context_mark
    if error.context is None or begun is None or begun.line == at.line:
        return said
    return f"{said} ({error.context} from line {begun.line + 1 + lines_above} on)"


def refuse_bombs(text: str, name: str) -> None:
    """Refuse YAML that is made to exhaust memory: aliases (a few lines expand to gigabytes) and endless nesting.

    Raises DomainsFileError, YAMLError.
    """
    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST:
            raise DomainsFileError(f"{name}: nested more than {_DEEPEST} levels deep")
        if isinstance(event, yaml.AliasEvent):
            line = event.start_mark.line + 1 if event.start_mark else 1
            raise DomainsFileError(f"{name}:{line}: YAML aliases (`*x`) are not allowed here")


def refuse_twice(node: yaml.Node | None, name: str) -> None:
    """Refuse a mapping with a repeated key, because YAML would silently drop the first one."""
    if not isinstance(node, yaml.MappingNode):
        return
    seen: set[str] = set()
    for key, value in node.value:
        if str(key.value) in seen:
            raise DomainsFileError(f"{name}:{key.start_mark.line + 1}: {key.value!r} is written twice")
        seen.add(str(key.value))
        refuse_twice(value, name)


def line_of(node: yaml.Node | None, keys: Sequence[object]) -> int:
    """Return the line (from 1) of a key path, followed as deep as it exists."""
    line = 1
    for key in keys:
        if isinstance(node, yaml.MappingNode):
            pair = next(((k, v) for k, v in node.value if k.value == str(key)), None)
            if pair is None:
                break
            line, node = pair[0].start_mark.line + 1, pair[1]
        elif isinstance(node, yaml.SequenceNode) and isinstance(key, int) and key < len(node.value):
            node = node.value[key]
            line = node.start_mark.line + 1
        else:
            break
    return line
