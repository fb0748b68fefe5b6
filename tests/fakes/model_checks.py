"""What servers of models check of a request, in Anthropic's and in OpenAI's shape: what a fake of them refuses.

It is stricter than each of them, as a conversation has to suit them all: two messages of one role in a row, which
templates of llama.cpp refuse, or a call's arguments that are no JSON object.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import jsonschema


def signature_of(thought: str) -> str:
    return base64.b64encode(hashlib.sha256(b"fake" + thought.encode()).digest()).decode()


class RefusedError(Exception):
    """A real server would refuse this; the message is its reason."""


def _need(condition: object, message: str) -> None:
    if not condition:
        raise RefusedError(message)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _check_fields(request: dict[str, Any], known: Sequence[str]) -> None:
    unknown = sorted(request.keys() - set(known))
    _need(not unknown, f"{unknown}: Extra inputs are not permitted")


def _check_most(request: dict[str, Any], name: str) -> None:
    most = request.get(name)
    _need(isinstance(most, int) and most > 0, f"{name}: Field required, an integer of at least 1")


def _check_turns(roles: Sequence[str]) -> None:
    """Refuse two turns of one role in a row, and a conversation that does not begin and end with the user."""
    _need(roles and roles[0] == "user", "messages: first message must use the user role")
    _need(roles[-1] == "user", "This model does not support assistant message prefill.")
    _need(all(a != b for a, b in pairwise(roles)), "messages: roles must alternate user/assistant")


def _check_schemas(tools: Sequence[tuple[str, Any, Any]], longest_name: int) -> None:
    """Check the names, descriptions and schemas of tools."""
    names = [name for name, _, _ in tools]
    _need(len(set(names)) == len(names), "tools: Tool names must be unique.")
    for name, description, schema in tools:
        ok = isinstance(name, str) and re.fullmatch(r"[a-zA-Z0-9_-]+", name) and len(name) <= longest_name
        _need(ok, f"tools: {name!r} does not match the pattern of names")
        _need(isinstance(description, str), f"tools.{name}.description: Input should be a valid string")
        _need(
            isinstance(schema, dict) and schema.get("type") == "object", f"tools.{name}: type must be object"
        )
        refused = {"oneOf", "allOf", "anyOf"} & schema.keys()
        _need(not refused, f"tools.{name}: input_schema does not support {refused} at the top level")
        try:
            jsonschema.Draft202012Validator.check_schema(schema)
        except jsonschema.SchemaError as error:
            raise RefusedError(f"tools.{name}: JSON schema is invalid: {error.message}") from None


def _check_picture(data: object, media_type: object) -> None:
    _need(media_type in ("image/png", "image/jpeg", "image/gif", "image/webp"), f"media_type: {media_type}")
    try:
        ok = bool(base64.b64decode(str(data), validate=True))
    except ValueError:
        ok = False
    _need(ok, "image: invalid base64 data")


def _check_answered(asked: Sequence[str], answered: Sequence[str]) -> None:
    missing = [one for one in asked if one not in answered]
    _need(not missing, f"`tool_use` ids were found without `tool_result` blocks immediately after: {missing}")
    odd = [one for one in answered if one not in asked]
    _need(not odd, f"unexpected `tool_use_id` found in `tool_result` blocks: {odd}")
    _need(len(set(answered)) == len(answered), "each tool_use must have a single result")


_MESSAGES_FIELDS = (
    *("model", "max_tokens", "messages", "system", "stream", "tools", "tool_choice", "thinking", "metadata"),
    *("stop_sequences", "output_config", "cache_control", "service_tier"),
)
_BLOCKS = {
    "user": ("text", "image", "tool_result", "search_result"),
    "assistant": ("text", "thinking", "redacted_thinking", "tool_use"),
}


def check_messages(request: dict[str, Any], thoughts: Mapping[str, str]) -> None:
    """Check a request of Anthropic's shape. Raises RefusedError."""
    _check_fields(request, _MESSAGES_FIELDS)
    _check_most(request, "max_tokens")
    messages = request.get("messages")
    _need(isinstance(messages, list) and messages, "messages: at least one message is required")
    _check_turns([message.get("role") for message in messages])
    system = request.get("system", "-")
    for block in system if isinstance(system, list) else [{"type": "text", "text": system}]:
        _need(
            block["type"] == "text" and _is_text(block["text"]),
            "system: text content blocks must be non-empty",
        )
    tools = request.get("tools") or []
    _check_schemas(
        [(tool.get("name"), tool.get("description"), tool.get("input_schema")) for tool in tools], 128
    )
    _check_thinking(request)
    asked: list[str] = []
    for number, message in enumerate(messages):
        blocks = _blocks(message, number)
        kinds = [block["type"] for block in blocks]
        results = [block for block in blocks if block["type"] == "tool_result"]
        _need(kinds[: len(results)] == ["tool_result"] * len(results), "tool_result blocks must come first")
        _check_answered(asked, [result.get("tool_use_id") for result in results])
        calls = [block for block in blocks if block["type"] == "tool_use"]
        asked = [call.get("id") for call in calls]
        _need(len(set(asked)) == len(asked), "messages: `tool_use` ids must be unique")
        _need(tools or not (calls or results), "Requests which include `tool_use` blocks must define tools")
        _check_thoughts(blocks, thoughts, number)
    _check_search_results(request)
    held = json.dumps([request.get("system"), tools, messages]).count('"cache_control": {')
    _need(held <= 4, "A maximum of 4 blocks with cache_control may be provided.")


def _check_thinking(request: dict[str, Any]) -> None:
    choice, thinking = request.get("tool_choice"), request.get("thinking") or {"type": "disabled"}
    kind = thinking.get("type")
    _need(kind in ("enabled", "adaptive", "disabled", "between_tools"), f"thinking.type: {kind}")
    budget = thinking.get("budget_tokens", 1024)
    _need(kind != "enabled" or 1024 <= budget < request["max_tokens"], "thinking.budget_tokens: out of range")
    if choice is not None:
        _need(request.get("tools"), "tool_choice may only be specified while providing tools.")
        _need(choice.get("type") in ("auto", "any", "tool", "none"), f"tool_choice: {choice}")
        forced = choice["type"] in ("any", "tool")
        _need(
            not forced or kind == "disabled", "Thinking may not be enabled when tool_choice forces tool use."
        )


def _blocks(message: dict[str, Any], number: int) -> list[dict[str, Any]]:
    """Return the checked blocks of a message."""
    content = message.get("content")
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    _need(isinstance(blocks, list) and blocks, f"messages.{number}: content must be non-empty")
    for block in blocks:
        kind = block.get("type")
        _need(
            kind in _BLOCKS[message["role"]], f"messages.{number}: {kind} is no block of a {message['role']}"
        )
        _check_block(block, number)
    return list(blocks)


def _check_block(block: dict[str, Any], number: int) -> None:
    kind = block["type"]
    if kind == "text":
        _need(_is_text(block.get("text")), f"messages.{number}: text content blocks must be non-empty")
    elif kind == "image":
        _need(block["source"]["type"] == "base64", f"messages.{number}: image.source")
        _check_picture(block["source"].get("data"), block["source"].get("media_type"))
    elif kind == "tool_use":
        _need(
            isinstance(block.get("input"), dict), f"messages.{number}: tool_use.input: not a valid dictionary"
        )
        _need(re.fullmatch(r"[a-zA-Z0-9_-]+", str(block.get("id"))), f"messages.{number}: tool_use.id")
    elif kind == "tool_result":
        content = block.get("content") or "-"
        for part in content if isinstance(content, list) else [{"type": "text", "text": content}]:
            _need(
                part["type"] in ("text", "image", "search_result"), f"messages.{number}: tool_result.content"
            )
            _check_block(part, number)
    elif kind == "search_result":
        _need(_is_text(block.get("source")) and _is_text(block.get("title")), "search_result: source, title")
        _need(block.get("content"), "search_result.content: at least one text block is required")
        for part in block["content"]:
            _need(part["type"] == "text" and _is_text(part["text"]), "search_result.content: text, non-empty")


def _check_thoughts(blocks: Sequence[dict[str, Any]], thoughts: Mapping[str, str], number: int) -> None:
    """Refuse thinking that was altered, and a call without what was thought before it."""
    said = [block for block in blocks if block["type"] == "thinking"]
    for block in said:
        ok = block.get("signature") == signature_of(block.get("thinking", ""))
        _need(ok, f"messages.{number}: Invalid `signature` in `thinking` block")
    wanted = {
        thoughts[block["id"]] for block in blocks if block["type"] == "tool_use" and block["id"] in thoughts
    }
    missing = wanted - {block["thinking"] for block in said} if len(said) < 2 else set()
    _need(not missing, f"messages.{number}: Expected `thinking`, but found `tool_use`")


def search_results(request: dict[str, Any]) -> list[dict[str, Any]]:
    """Return all search results of a request, in order: of messages and of what tools returned."""
    found = []
    for message in request["messages"]:
        for block in message["content"] if isinstance(message["content"], list) else []:
            inner = block.get("content") if block["type"] == "tool_result" else [block]
            found += [one for one in inner or [] if isinstance(one, dict) and one["type"] == "search_result"]
    return found


def _check_search_results(request: dict[str, Any]) -> None:
    cited = {bool((one.get("citations") or {}).get("enabled")) for one in search_results(request)}
    _need(len(cited) < 2, "search_result: citations must be enabled for all, or for none")


_COMPLETIONS_FIELDS = (
    *("model", "messages", "stream", "stream_options", "tools", "tool_choice", "parallel_tool_calls", "stop"),
    *("max_tokens", "max_completion_tokens", "temperature", "top_p", "seed", "response_format", "user", "n"),
    *("reasoning_effort", "store"),
)


def check_completions(request: dict[str, Any], _thoughts: Mapping[str, str]) -> None:
    """Check a request of OpenAI's shape. Raises RefusedError."""
    _check_fields(request, _COMPLETIONS_FIELDS)
    for name in ("max_tokens", "max_completion_tokens"):
        if request.get(name) is not None:
            _check_most(request, name)
    _need(request.get("stream") or not request.get("stream_options"), "stream_options: only with `stream`")
    messages = request.get("messages")
    _need(isinstance(messages, list) and messages, "messages: at least one message is required")
    roles = [message.get("role") for message in messages]
    _need(
        all(role in ("system", "developer", "user", "assistant", "tool") for role in roles), "messages: role"
    )
    systems = [number for number, role in enumerate(roles) if role in ("system", "developer")]
    _need(systems in ([], [0]), "messages: a system message must be the first, and the only one")
    tools = request.get("tools")
    _need(tools is None or tools, "tools: [] is too short")
    _need(all(tool.get("type") == "function" for tool in tools or []), "tools: type")
    functions = [tool["function"] for tool in tools or []]
    _check_schemas(
        [(one.get("name"), one.get("description"), one.get("parameters")) for one in functions], 64
    )
    _need(tools or "tool_choice" not in request, "tool_choice is only allowed when tools are specified")
    _check_conversation(messages)


def _check_conversation(messages: Sequence[dict[str, Any]]) -> None:
    """Check contents, and that each call is answered before the next message that is no answer."""
    asked: list[str] = []
    answered: list[str] = []
    roles = []
    for number, message in enumerate([*messages, {"role": "end"}]):
        if message["role"] == "tool":
            answered.append(message.get("tool_call_id"))
            _need(_is_text(message.get("content")), f"messages.{number}: content must be non-empty")
            continue
        _check_answered(asked, answered)
        # What tools return stands for the user's turn, where the model goes on after them.
        roles += ["user"] if answered and message["role"] in ("assistant", "end") else []
        calls = message.get("tool_calls") or []
        asked, answered = [call["id"] for call in calls], []
        if message["role"] in ("user", "assistant"):
            roles.append(message["role"])
        if message["role"] != "end":
            _check_content(message, number, calls)
    _check_turns(roles)


def _check_content(message: dict[str, Any], number: int, calls: Sequence[dict[str, Any]]) -> None:
    content = message.get("content")
    if content is None and calls:
        content = "-"
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    _need(isinstance(parts, list) and parts, f"messages.{number}: content must be non-empty")
    for part in parts:
        if part["type"] == "text":
            _need(_is_text(part.get("text")), f"messages.{number}: content must be non-empty")
            continue
        _need(part["type"] == "image_url" and message["role"] == "user", f"messages.{number}: {part['type']}")
        found = re.fullmatch(r"data:([a-z/]+);base64,(.*)", part["image_url"]["url"], re.DOTALL)
        _need(found, f"messages.{number}: image_url")
        _check_picture(found[2], found[1])
    for call in calls:
        try:
            arguments = json.loads(call["function"]["arguments"])
        except (TypeError, ValueError):
            arguments = None
        _need(isinstance(arguments, dict), "Failed to parse tool call arguments as JSON")
