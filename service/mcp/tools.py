"""A tool: what it is called, what it teaches, takes and gives; and how a call of it is answered."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import anyio.to_thread
import structlog
from mcp_types import CallToolResult, ResourceLink, TextContent, ToolAnnotations
from mcp_types import Tool as ToolEntry
from pydantic import BaseModel, ValidationError
from pydantic.json_schema import JsonSchemaMode

from pipelines.errors import EverindexError
from service.mcp.answers import Answer, Freshness
from service.mcp.arguments import Arguments, Filtered
from service.mcp.library import Library

_MOST_COMPLAINTS = 5

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool of the vault; one that `writes` changes the index or what waits for the operator, never a note."""

    name: str
    title: str
    teaches: str
    takes: type[Arguments]
    gives: type[Answer]
    run: Callable[[Library, Any], Answer]
    writes: bool = False

    def entry(self) -> ToolEntry:
        """Return how the tool is listed."""
        return ToolEntry(
            name=self.name,
            title=self.title,
            description=self.teaches,
            input_schema=self._input_schema(),
            output_schema=brief_schema(self.gives),
            annotations=ToolAnnotations(
                read_only_hint=not self.writes,
                destructive_hint=False,
                idempotent_hint=True,
                open_world_hint=False,
            ),
        )

    def _input_schema(self) -> dict[str, Any]:
        """Return the schema of the arguments; the filters are described once, by `search`."""
        schema = plain_schema(self.takes, "validation")
        if issubclass(self.takes, Filtered) and self.name != "search":
            for name in Filtered.model_fields:
                schema["properties"][name].pop("description", None)
        return schema

    async def call(self, library: Library, given: Mapping[str, Any]) -> CallToolResult:
        """Answer a call; what the agent can correct is an answer that it reads, marked as an error."""
        try:
            asked = self.takes.model_validate(dict(given))
            answer = await anyio.to_thread.run_sync(self.run, library, asked)
        except ValidationError as error:
            return complaint(_faults(error, self.takes))
        except EverindexError as error:
            return complaint(str(error))
        except (OSError, RecursionError) as error:
            log.warning("a tool failed", tool=self.name, reason=str(error))
            return complaint("the vault cannot be read just now; try again soon, and look at `status`")
        return CallToolResult(
            content=[_text(answer), *map(_link, answer.places())],
            structured_content=answer.model_dump(mode="json"),
        )


_WHAT = {
    "missing": "this argument is required",
    "extra_forbidden": "there is no such argument",
    "list_type": 'this has to be a list, such as ["soil"]',
}
"""What is wrong with an argument, by pydantic's type of the error; for others pydantic's own message is clear."""


def complaint(text: str) -> CallToolResult:
    """Return the answer to a call that failed, which the agent can read."""
    return CallToolResult(content=[TextContent(text=text)], is_error=True)


def _text(answer: Answer) -> TextContent:
    return TextContent(text=answer.model_dump_json(exclude_none=True))


def _link(place: Any) -> ResourceLink:
    return ResourceLink(uri=place.uri, name=place.path, title=place.title, mime_type="text/markdown")


def _faults(error: ValidationError, takes: type[BaseModel]) -> str:
    """Say which arguments are wrong and how, without their values, which may be long."""
    found = error.errors(include_url=False, include_context=False, include_input=False)
    known = [str(field.alias or name) for name, field in takes.model_fields.items()]
    said = []
    for one in found[:_MOST_COMPLAINTS]:
        what = _WHAT.get(one["type"]) or one["msg"].removeprefix("Value error, ")
        if one["type"] == "extra_forbidden" and len(one["loc"]) == 1:
            what += f"; the arguments are {', '.join(known)}"
        said.append(f"{'.'.join(map(str, one['loc'])) or 'arguments'}: {what}")
    more = [f"and {len(found) - _MOST_COMPLAINTS} more"] if len(found) > _MOST_COMPLAINTS else []
    return "; ".join([*said, *more])


def plain_schema(model: type[BaseModel], mode: JsonSchemaMode) -> dict[str, Any]:
    """Return a model's JSON schema without the titles that only repeat names: agents pay for each word."""
    plain: dict[str, Any] = _untitled(model.model_json_schema(mode=mode))
    plain.pop("description", None)
    return plain


def _untitled(part: Any) -> Any:
    if isinstance(part, list):
        return [_untitled(one) for one in part]
    if not isinstance(part, dict):
        return part
    # A property may be called `title`; then its value is a schema.
    return {
        name: _untitled(value) for name, value in part.items() if name != "title" or isinstance(value, dict)
    }


def brief_schema(model: type[BaseModel]) -> dict[str, Any]:
    """Return the schema of an answer, which agents read before each session and never fill in.

    Without defaults, the descriptions of definitions, and those of what every answer has, which the server's
    instructions give once; a nullable type is one list of types.
    """
    brief: dict[str, Any] = _brief(plain_schema(model, "serialization"))
    for definition in brief.get("$defs", {}).values():
        definition.pop("description", None)
    _without_shared(brief, Answer)
    _without_shared(brief["$defs"]["Freshness"], Freshness)
    return brief


def _without_shared(part: dict[str, Any], base: type[BaseModel]) -> None:
    """Delete the descriptions of a base's fields, except where a model has its own words for one."""
    for name, field in base.model_fields.items():
        if part["properties"][name].get("description") == field.description:
            part["properties"][name].pop("description", None)


def _brief(part: Any) -> Any:
    if isinstance(part, list):
        return [_brief(one) for one in part]
    if not isinstance(part, dict):
        return part
    brief = {name: _brief(value) for name, value in part.items() if name != "default"}
    match brief.get("anyOf"):
        case [{"type": str(kind), **rest}, {"type": "null"}] if "enum" not in rest:
            del brief["anyOf"]
            return {"type": [kind, "null"], **rest, **brief}
    return brief
