"""Write the tables of docs/settings.md and docs/notes/ranking-options.md from the code.

`python -m tests.settings_page` renews them: the settings of a process from `queue_config/settings.py`, and those of a
domain from `pipelines/domains.py`. A setting with an example is on the first page, one without on the second, unless it
is retired. The text around the tables stays.
"""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel, BeforeValidator, SecretStr
from pydantic.fields import FieldInfo

from pipelines.domains import DomainKeys
from queue_config.settings import RETIRED, Settings
from tests.structure import ROOT

PAGE = ROOT / "docs" / "settings.md"
OTHERS = ROOT / "docs" / "notes" / "ranking-options.md"
TABLE = re.compile(
    r"(<!-- (\w+): made by `python -m tests\.settings_page` -->\n)(.*?)(<!-- end -->\n)", re.DOTALL
)
SIMPLE = {
    bool: "true or false",
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
    """Return what the description says of a default, else the value as it is written in a file."""
    value = field.get_default(call_default_factory=True, validated_data={})
    said = str(field.description).partition("; default: ")[2]
    if said or value in (None, "", [], {}):
        return said
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def cells(*texts: str) -> str:
    """Return one row of a table."""
    return "| " + " | ".join(text.replace("|", "\\|") for text in texts) + " |\n"


def meaning(field: FieldInfo) -> str:
    """Return what a setting does, without its default, which has a column of its own."""
    return str(field.description).partition("; default: ")[0]


def process_rows() -> Iterator[str]:
    """Yield the table of the settings of a process that a person may want."""
    yield cells("setting", "default", "effect", "example") + "|---|---|---|---|\n"
    for name, field in Settings.model_fields.items():
        for example in field.examples or ():
            yield cells(f"`{name}`", default_of(field), meaning(field), f"`{name} = {example}`")


def domain_rows() -> Iterator[str]:
    """Yield the table of the keys of a domain that a person may want."""
    yield cells("key", "default", "effect", "example") + "|---|---|---|---|\n"
    for name, field in DomainKeys.model_fields.items():
        for example in field.examples or ():
            yield cells(f"`{name}`", default_of(field), meaning(field), f"`{name}: {example}`")


def other_process_rows() -> Iterator[str]:
    """Yield the table of the other settings of a process."""
    yield cells("setting", "type", "default", "effect") + "|---|---|---|---|\n"
    for name, field in Settings.model_fields.items():
        if not (field.examples or name in RETIRED):
            kind = type_name(field.annotation, field.metadata)
            yield cells(f"`{name}`", kind, default_of(field), meaning(field))


def other_domain_rows(model: type[BaseModel] = DomainKeys, prefix: str = "") -> Iterator[str]:
    """Yield the table of the other keys of a domain, those of a section with the section's name before them."""
    if not prefix:
        yield cells("key", "type", "default", "effect") + "|---|---|---|---|\n"
    for name, field in model.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel) and not field.examples:
            yield from other_domain_rows(kind, f"{prefix}{name}.")
        elif not field.examples:
            metadata = [one for one in field.metadata if not isinstance(one, BeforeValidator)]
            yield cells(f"`{prefix}{name}`", type_name(kind, metadata), default_of(field), meaning(field))


def render(page: str) -> str:
    """Return the page with its tables as the code says."""
    tables: dict[str, Callable[[], Iterator[str]]] = {
        "process": process_rows,
        "domain": domain_rows,
        "other_process": other_process_rows,
        "other_domain": other_domain_rows,
    }
    return TABLE.sub(lambda found: f"{found[1]}\n{''.join(tables[found[2]]())}\n{found[4]}", page)


def main() -> None:
    """Renew the tables in both pages."""
    for page in (PAGE, OTHERS):
        page.write_text(render(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
