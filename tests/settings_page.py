"""Write the tables of docs/settings.md from the code.

`python -m tests.settings_page` renews them: the settings of a process from `queue_config/settings.py`, and those of a
domain from `pipelines/domains.py`. The text around the tables stays.
"""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import AliasChoices, BaseModel, BeforeValidator, SecretStr
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from pipelines.domains import DomainKeys
from queue_config.settings import Settings
from tests.structure import ROOT

PAGE = ROOT / "docs" / "settings.md"
TABLE = re.compile(
    r"(<!-- (\w+): made by `python -m tests\.settings_page` -->\n).*?(<!-- end -->\n)", re.DOTALL
)
SIMPLE = {
    bool: "on or off",
    str: "text",
    Path: "path",
    SecretStr: "secret",
    dict: "table",
}
BOUNDS = (("ge", "≥"), ("gt", ">"), ("le", "≤"), ("lt", "<"))


def bounds_of(metadata: list[Any]) -> str:
    """Return the limits of a number as text, such as `≥ 0, ≤ 65535`."""
    found = {sign: getattr(one, name) for one in metadata for name, sign in BOUNDS if hasattr(one, name)}
    return ", ".join(f"{sign} {limit}" for sign, limit in found.items())


def number_name(kind: type, metadata: list[Any]) -> str:
    """Return what a number may be, such as `whole number, ≥ 1`."""
    limits = bounds_of(metadata)
    name = "whole number" if kind is int else "number"
    return f"{name}, {limits}" if limits else name


def type_name(annotation: Any, metadata: list[Any]) -> str:
    """Return a type as a reader says it: the choices of a Literal, the bounds of a number."""
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        inner = [
            part for one in parts[1:] for part in (one.metadata if isinstance(one, FieldInfo) else [one])
        ]
        return type_name(parts[0], [*metadata, *inner])
    if origin in (typing.Union, types.UnionType):
        (some,) = (part for part in parts if part is not type(None))
        return type_name(some, metadata)
    if origin is typing.Literal:
        return " or ".join(f"`{part}`" for part in parts)
    if origin is list:
        element, _, limits = type_name(parts[0], []).partition(", ")
        return f"list of {element}s" + (f", each {limits}" if limits else "")
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return "table"
    return number_name(annotation, metadata) if annotation in (int, float) else SIMPLE[origin or annotation]


def default_of(field: FieldInfo) -> str:
    """Return a default as it is written in a file; for none, what the description says of it."""
    value = field.get_default(call_default_factory=True, validated_data={})
    said = str(field.description).partition("; default: ")[2]
    if value is PydanticUndefined:
        return "required"
    if isinstance(value, bool):
        return "`on`" if value else "`off`"
    return said if value in (None, "", [], {}) else f"`{value}`"


def cells(*texts: str) -> str:
    """Return one row of a table."""
    return "| " + " | ".join(text.replace("|", "\\|") for text in texts) + " |\n"


def meaning(field: FieldInfo) -> str:
    """Return what a setting does, without its default, which has a column of its own."""
    return str(field.description).partition("; default: ")[0]


def process_rows() -> Iterator[str]:
    """Yield the table of the settings of a process."""
    yield cells("setting", "type", "default", "what it does") + "|---|---|---|---|\n"
    for name, field in Settings.model_fields.items():
        alias = field.validation_alias
        plain = name.upper()
        is_plain = isinstance(alias, AliasChoices) and plain in alias.choices
        also = f" or `{plain}`" if is_plain else ""
        kind = type_name(field.annotation, field.metadata)
        yield cells(f"`{name}`<br>`EVERINDEX_{plain}`{also}", kind, default_of(field), meaning(field))


def domain_rows(model: type[BaseModel] = DomainKeys, prefix: str = "") -> Iterator[str]:
    """Yield the table of the keys of a domain, those of a section with the section's name before them."""
    if not prefix:
        yield cells("key", "type", "default", "what it does") + "|---|---|---|---|\n"
    for name, field in model.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from domain_rows(kind, f"{prefix}{name}.")
        else:
            metadata = [one for one in field.metadata if not isinstance(one, BeforeValidator)]
            yield cells(f"`{prefix}{name}`", type_name(kind, metadata), default_of(field), meaning(field))


def render(page: str) -> str:
    """Return the page with its tables as the code says."""
    tables = {"process": process_rows, "domain": domain_rows}
    return TABLE.sub(lambda found: f"{found[1]}\n{''.join(tables[found[2]]())}\n{found[3]}", page)


def main() -> None:
    """Renew the tables in the page."""
    PAGE.write_text(render(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
