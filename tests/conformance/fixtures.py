"""What the public suite calls: tools, resources and prompts of given names, added to a server of our factory.

The suite fixes names, texts and the rounds of questions. A name that is none of these goes on to the vault's own
handlers, so that lists, completion, notices and errors are those of the real server.
"""

from __future__ import annotations

import base64
import json
import re

from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.shared.exceptions import MCPError
from mcp_types import (
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    AudioContent,
    BlobResourceContents,
    CallToolRequestParams,
    CallToolResult,
    CreateMessageRequest,
    CreateMessageRequestParams,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    EmbeddedResource,
    GetPromptRequestParams,
    GetPromptResult,
    ImageContent,
    InputRequiredResult,
    ListPromptsResult,
    ListRootsRequest,
    ListToolsResult,
    PaginatedRequestParams,
    Prompt,
    PromptArgument,
    PromptMessage,
    ReadResourceRequestParams,
    ReadResourceResult,
    SamplingMessage,
    TextContent,
    TextResourceContents,
    Tool,
)

_PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII="
_WAV = base64.b64encode(
    b"RIFF$\x00\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00@\x1f\x00\x00@\x1f\x00\x00\x01\x00\x08\x00data\x00\x00\x00\x00"
).decode()
_IMAGE = ImageContent(data=_PNG, mime_type="image/png")
_EMPTY = {"type": "object", "properties": {}}
_SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}
_TEMPLATE = re.compile(r"test://template/([^/]+)/data\Z")


def with_fixtures(server):
    """Return a server of our factory with what the suite calls."""
    for method, params, handler in (
        ("tools/list", PaginatedRequestParams, _list_tools),
        ("tools/call", CallToolRequestParams, _call_tool),
        ("resources/read", ReadResourceRequestParams, _read_resource),
        ("prompts/list", PaginatedRequestParams, _list_prompts),
        ("prompts/get", GetPromptRequestParams, _get_prompt),
    ):
        own = server.get_request_handler(method)
        server.add_request_handler(method, params, _before(handler, own.handler))
    # State that goes through a client's hands is sealed, as the library's own server does it.
    server.middleware.append(RequestStateBoundary(RequestStateSecurity.ephemeral(), default_audience=None))
    return server


def _before(handler, own):
    async def handle(request, asked):
        return await handler(request, asked, own)

    return handle


async def _list_tools(request, asked, own):
    listed = await own(request, asked)
    return ListToolsResult(tools=[*listed.tools, *(_entry(name) for name in sorted(_TOOLS))])


def _entry(name):
    schemas = {"json_schema_2020_12_tool": _SCHEMA, "test_headers": _HEADERS}
    return Tool(name=name, description="For the conformance suite.", input_schema=schemas.get(name, _EMPTY))


_HEADERS = {
    "type": "object",
    "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
    "required": [],
}


async def _call_tool(request, asked, own):
    tool = _TOOLS.get(asked.name)
    if tool is None:
        return await own(request, asked)
    answer = await tool(request, asked)
    return CallToolResult(content=answer) if isinstance(answer, list) else answer


def _says(*content):
    async def say(_request, _asked):
        return list(content)

    return say


async def _fails(_request, _asked):
    return CallToolResult(
        content=[TextContent(text="This tool intentionally returns an error for testing")], is_error=True
    )


async def _progresses(request, _asked):
    for done in (0, 50, 100):
        await request.session.report_progress(done, 100)
    return [TextContent(text="done")]


async def _needs_sampling(request, _asked):
    able = request.session.client_capabilities
    if able is None or able.sampling is None:
        raise MCPError(
            MISSING_REQUIRED_CLIENT_CAPABILITY,
            "this tool needs the capability sampling",
            {"requiredCapabilities": {"sampling": {}}},
        )
    return [TextContent(text="the client can sample")]


def _text(uri, text, kind="text/plain"):
    return TextResourceContents(uri=uri, mime_type=kind, text=text)


def _asks(message, field, kind="string"):
    form = {"type": "object", "properties": {field: {"type": kind}}, "required": [field]}
    return ElicitRequest(params=ElicitRequestFormParams(message=message, requested_schema=form))


def _samples(text):
    message = SamplingMessage(role="user", content=TextContent(text=text))
    return CreateMessageRequest(params=CreateMessageRequestParams(messages=[message], max_tokens=100))


def _rounds(*rounds):
    """Return a tool that asks the client in rounds. Each is the requests, and the state that the client echoes."""

    async def ask(_request, asked):
        number = int(asked.request_state or 0)
        given = asked.input_responses or {}
        if number < len(rounds) and rounds[number].keys() <= {
            name
            for name, one in given.items()
            if not isinstance(one, ElicitResult) or one.content is not None
        }:
            number += 1
        if number == len(rounds):
            return [TextContent(text=f"state-ok: {json.dumps(sorted(given))}")]
        return InputRequiredResult(input_requests=rounds[number], request_state=str(number))

    return ask


async def _asks_what_the_client_can(request, asked):
    able = request.session.client_capabilities
    requests = {"greeting": _samples("Greet")} if able and able.sampling is not None else {}
    if able and able.elicitation is not None:
        requests["name"] = _asks("What is your name?", "name")
    if requests and not asked.input_responses:
        return InputRequiredResult(input_requests=requests)
    return [TextContent(text="nothing to ask")]


_NAME = {"user_name": _asks("What is your name?", "name")}
_CONFIRM = {"confirm": _asks("Please confirm", "ok", "boolean")}
_RESOURCE = EmbeddedResource(
    resource=_text("test://embedded-resource", "This is an embedded resource content.")
)
_TOOLS = {
    "test_simple_text": _says(TextContent(text="This is a simple text response for testing.")),
    "test_image_content": _says(_IMAGE),
    "test_audio_content": _says(AudioContent(data=_WAV, mime_type="audio/wav")),
    "test_embedded_resource": _says(_RESOURCE),
    "test_multiple_content_types": _says(TextContent(text="Multiple content types test:"), _IMAGE, _RESOURCE),
    "test_error_handling": _fails,
    "test_tool_with_progress": _progresses,
    "test_missing_capability": _needs_sampling,
    "test_logging_tool": _says(TextContent(text="nothing was logged")),
    "test_streaming_elicitation": _rounds(_NAME),
    "test_headers": _says(TextContent(text="served")),
    "json_schema_2020_12_tool": _says(TextContent(text="served")),
    "test_input_required_result_elicitation": _rounds(_NAME),
    "test_input_required_result_sampling": _rounds(
        {"capital_question": _samples("What is the capital of France?")}
    ),
    "test_input_required_result_list_roots": _rounds({"client_roots": ListRootsRequest()}),
    "test_input_required_result_request_state": _rounds(_CONFIRM),
    "test_input_required_result_tampered_state": _rounds(_CONFIRM),
    "test_input_required_result_multiple_inputs": _rounds(
        {**_NAME, "greeting": _samples("Generate a greeting"), "client_roots": ListRootsRequest()}
    ),
    "test_input_required_result_multi_round": _rounds(
        {"step1": _asks("Step 1: What is your name?", "name")},
        {"step2": _asks("Step 2: What is your favorite color?", "color")},
    ),
    "test_input_required_result_capabilities": _asks_what_the_client_can,
}


async def _read_resource(request, asked, own):
    found = _TEMPLATE.match(asked.uri)
    if found:
        said = {"id": found[1], "templateTest": True, "data": f"Data for ID: {found[1]}"}
        return ReadResourceResult(contents=[_text(asked.uri, json.dumps(said), "application/json")])
    if asked.uri == "test://static-text":
        text = "This is the content of the static text resource."
        return ReadResourceResult(contents=[_text(asked.uri, text)])
    if asked.uri == "test://static-binary":
        blob = BlobResourceContents(uri=asked.uri, mime_type="image/png", blob=_PNG)
        return ReadResourceResult(contents=[blob])
    return await own(request, asked)


_PROMPTS = {
    "test_simple_prompt": [],
    "test_prompt_with_arguments": ["arg1", "arg2"],
    "test_prompt_with_embedded_resource": ["resourceUri"],
    "test_prompt_with_image": [],
    "test_input_required_result_prompt": [],
}


async def _list_prompts(request, asked, own):
    listed = await own(request, asked)
    added = [
        Prompt(
            name=name,
            description="For the conformance suite.",
            arguments=[PromptArgument(name=one, description="a text", required=True) for one in arguments],
        )
        for name, arguments in _PROMPTS.items()
    ]
    return ListPromptsResult(prompts=[*listed.prompts, *added])


async def _get_prompt(request, asked, own):
    if asked.name not in _PROMPTS:
        return await own(request, asked)
    given = asked.arguments or {}
    if asked.name == "test_input_required_result_prompt" and not asked.input_responses:
        question = _asks("What context should the prompt use?", "context")
        return InputRequiredResult(input_requests={"user_context": question})
    content = [TextContent(text="This is a simple prompt for testing.")]
    if asked.name == "test_prompt_with_arguments":
        content = [TextContent(text=f"Prompt with arguments: arg1='{given['arg1']}', arg2='{given['arg2']}'")]
    elif asked.name == "test_prompt_with_embedded_resource":
        embedded = _text(given["resourceUri"], "Embedded resource content for testing.")
        content = [
            EmbeddedResource(resource=embedded),
            TextContent(text="Please process the resource above."),
        ]
    elif asked.name == "test_prompt_with_image":
        content = [_IMAGE, TextContent(text="Please analyze the image above.")]
    return GetPromptResult(messages=[PromptMessage(role="user", content=one) for one in content])
