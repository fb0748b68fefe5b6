"""What the fake model server refuses of a good request to which one thing is done."""

from __future__ import annotations

import copy
import re

import pytest

from tests.fakes.model_checks import RefusedError, check_completions, check_messages, signature_of

SCHEMA = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}
CALL = {"type": "tool_use", "id": "toolu_1", "name": "search", "input": {"query": "soil"}}
RESULT = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "Soil is alive."}
PICTURE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}


def _set(*path):
    """Return a change: the last of the path is put where the others lead; `...` deletes."""
    *way, key, value = path

    def change(request):
        at = request
        for step in way:
            at = at[step]
        if value is ...:
            del at[key]
        else:
            at[key] = value

    return change


def _insert(at, message):
    return lambda request: request["messages"].insert(at, message)


THOUGHTS = {"toolu_1": "Look."}
TOOL = {"name": "search", "description": "Search.", "input_schema": SCHEMA}
MESSAGES = {
    "model": "claude",
    "max_tokens": 50,
    "system": "You answer.",
    "thinking": {"type": "adaptive"},
    "tools": [TOOL],
    "tool_choice": {"type": "auto"},
    "messages": [
        {"role": "user", "content": [PICTURE, {"type": "text", "text": "What is soil?"}]},
        {
            "role": "assistant",
            "content": [{"type": "thinking", "thinking": "Look.", "signature": signature_of("Look.")}, CALL],
        },
        {"role": "user", "content": [RESULT, {"type": "text", "text": "Go on."}]},
    ],
}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_set("max_tokens", ...), "max_tokens"),
        (_set("max_tokens", 0), "max_tokens"),
        (_set("frequency_penalty", 1), "Extra inputs"),
        (_set("temperature", 0.5), "Extra inputs"),
        (_set("system", " "), "non-empty"),
        (_set("messages", []), "at least one"),
        (_set("messages", 0, "role", "assistant"), "first message"),
        (lambda request: request["messages"].pop(), "prefill"),
        (_insert(0, {"role": "user", "content": "Hello."}), "alternate"),
        (_insert(0, {"role": "user", "content": ""}), "alternate"),
        (_set("messages", 0, "content", ""), "non-empty"),
        (_set("messages", 0, "content", []), "non-empty"),
        (_set("messages", 0, "content", 1, "text", "\n"), "non-empty"),
        (_set("messages", 0, "content", 0, "source", "data", "%"), "base64"),
        (_set("messages", 0, "content", 0, "source", "media_type", "image/tiff"), "media_type"),
        (_set("messages", 0, "content", 1, CALL), "no block of a user"),
        (_set("messages", 1, "content", 1, RESULT), "no block of a assistant"),
        (_set("messages", 2, "content", "Go on."), "without `tool_result`"),
        (_set("messages", 2, "content", 0, "tool_use_id", "toolu_2"), "without `tool_result`"),
        (lambda request: request["messages"][2]["content"].append(RESULT), "must come first"),
        (lambda request: request["messages"][2]["content"].insert(1, RESULT), "single result"),
        (lambda request: request["messages"][2]["content"].reverse(), "must come first"),
        (_set("messages", 1, "content", 1, "input", "{}"), "dictionary"),
        (lambda request: request["messages"][1]["content"].append(CALL), "must be unique"),
        (_set("messages", 1, "content", 0, "thinking", "Other."), "signature"),
        (_set("messages", 1, "content", 0, ...), "Expected `thinking`"),
        (_set("tools", []), "tool"),
        (_set("tools", 0, "name", "look up"), "pattern"),
        (_set("tools", 0, "description", None), "description"),
        (_set("tools", 0, "input_schema", {"type": "string"}), "must be object"),
        (_set("tools", 0, "input_schema", {"type": "object", "properties": 3}), "invalid"),
        (_set("tools", 0, "input_schema", {"type": "object", "oneOf": []}), "top level"),
        (lambda request: request["tools"].append(request["tools"][0]), "unique"),
        (_set("tool_choice", {"type": "any"}), "forces"),
        (_set("tool_choice", {"type": "some"}), "tool_choice"),
        (_set("thinking", {"type": "enabled", "budget_tokens": 1024}), "budget"),
        (_set("messages", 2, "content", 0, "content", [{"type": "search_result", "source": ""}]), "source"),
    ],
)
def test_what_anthropic_refuses_is_refused(change, said):
    check_messages(MESSAGES, THOUGHTS)
    bad = copy.deepcopy(MESSAGES)
    change(bad)
    with pytest.raises(RefusedError, match=re.escape(said)):
        check_messages(bad, THOUGHTS)


TOOL_CALL = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "search", "arguments": '{"query": "soil"}'},
}
COMPLETIONS = {
    "model": "local",
    "max_tokens": 50,
    "stream_options": {"include_usage": True},
    "stream": True,
    "tools": [{"type": "function", "function": {"name": "search", "description": "-", "parameters": SCHEMA}}],
    "messages": [
        {"role": "system", "content": "You answer."},
        {
            "role": "user",
            "content": [
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
                {"type": "text", "text": "What is soil?"},
            ],
        },
        {"role": "assistant", "content": None, "tool_calls": [TOOL_CALL]},
        {"role": "tool", "tool_call_id": "call_1", "content": "Soil is alive."},
        {"role": "assistant", "content": "It is alive."},
        {"role": "user", "content": "Go on."},
    ],
}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_set("max_tokens", 0), "max_tokens"),
        (_set("thinking", {}), "Extra inputs"),
        (_set("stream", ...), "stream_options"),
        (_set("messages", []), "at least one"),
        (_set("messages", 0, "role", "operator"), "role"),
        (_insert(1, {"role": "system", "content": "Be good."}), "system message"),
        (_insert(1, {"role": "user", "content": "Hello."}), "alternate"),
        (_insert(5, {"role": "assistant", "content": "Well."}), "alternate"),
        (_insert(6, {"role": "assistant", "content": "Well."}), "prefill"),
        (_set("messages", 5, "content", " "), "non-empty"),
        (_set("messages", 5, "content", None), "non-empty"),
        (_set("messages", 4, "content", None), "non-empty"),
        (_set("messages", 3, "content", ""), "non-empty"),
        (_set("messages", 1, "content", 0, "image_url", "url", "https://example.com/a.png"), "image_url"),
        (_set("messages", 1, "content", 0, "image_url", "url", "data:image/png;base64,%"), "base64"),
        (_set("messages", 3, ...), "without `tool_result`"),
        (_set("messages", 3, "tool_call_id", "call_2"), "without `tool_result`"),
        (_insert(4, {"role": "tool", "tool_call_id": "call_2", "content": "-"}), "unexpected"),
        (_set("messages", 2, "tool_calls", 0, "function", "arguments", "{"), "arguments as JSON"),
        (_set("messages", 2, "tool_calls", 0, "function", "arguments", {}), "arguments as JSON"),
        (_set("tools", []), "too short"),
        (_set("tools", 0, "function", "parameters", None), "must be object"),
        (_set("tools", 0, "function", "name", "a" * 65), "pattern"),
        (_set("tools", 0, "type", "custom"), "type"),
    ],
)
def test_what_servers_of_openais_shape_refuse_is_refused(change, said):
    check_completions(COMPLETIONS, {})
    bad = copy.deepcopy(COMPLETIONS)
    change(bad)
    with pytest.raises(RefusedError, match=re.escape(said)):
        check_completions(bad, {})
