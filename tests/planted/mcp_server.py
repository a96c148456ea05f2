"""A server of the Model Context Protocol with the tools of `mcp_truth`, over stdio or streamable HTTP.

python -m tests.planted.mcp_server            serves standard input and output
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import mcp.types as wire
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import McpError
from starlette.applications import Starlette
from starlette.routing import Mount

from tests.planted.mcp_truth import CALLS, INSTRUCTIONS, NOTE, NOTE_URI, PICTURE_BASE64, QUESTION, SERVER

DAWDLE_S = 0.4
UNKNOWN = "fly"


def planted_server() -> Server[Any, Any]:
    """The server; the SDK turns what a tool raises into a result, so calls are answered below its own handler."""
    server: Server[Any, Any] = Server(SERVER[0], version=SERVER[1], instructions=INSTRUCTIONS)

    async def list_tools(request: wire.ListToolsRequest) -> wire.ServerResult:
        names = sorted({call.name for call in CALLS if call.is_tool and call.name != UNKNOWN})
        tools = [wire.Tool(name=name, description=f"{name} it", inputSchema={"type": "object"}) for name in names]
        return wire.ServerResult(wire.ListToolsResult(tools=tools))

    async def list_resources(request: wire.ListResourcesRequest) -> wire.ServerResult:
        note = wire.Resource.model_validate({"uri": NOTE_URI, "name": "note"})
        return wire.ServerResult(wire.ListResourcesResult(resources=[note]))

    async def read_resource(request: wire.ReadResourceRequest) -> wire.ServerResult:
        text = wire.TextResourceContents(uri=request.params.uri, mimeType="text/plain", text=NOTE)
        return wire.ServerResult(wire.ReadResourceResult(contents=[text]))

    async def call_tool(request: wire.CallToolRequest) -> wire.ServerResult:
        return wire.ServerResult(await _answer(server, request.params.name, request.params.arguments or {}))

    server.request_handlers = {
        **server.request_handlers,
        wire.ListToolsRequest: list_tools,
        wire.ListResourcesRequest: list_resources,
        wire.ReadResourceRequest: read_resource,
        wire.CallToolRequest: call_tool,
    }
    return server


async def _answer(server: Server[Any, Any], name: str, given: dict[str, Any]) -> wire.CallToolResult:
    if name == "add":
        return _text(str(given["a"] + given["b"]))
    if name == "measure":
        told = {"shelf": given["shelf"], "metres": 1.25}
        text = f'{{"shelf": {given["shelf"]}, "metres": 1.25}}'
        return wire.CallToolResult(content=[wire.TextContent(type="text", text=text)], structuredContent=told)
    if name == "weigh":
        return wire.CallToolResult(content=[], structuredContent={"kilograms": 40})
    if name == "open_shelf":
        return _text(f"no such shelf: {given['shelf']}", failed=True)
    if name == "greet":
        return _text(f"Grüße, {given['name']}\n世界\n", "— the shelf")
    if name == "tidy":
        return wire.CallToolResult(content=[])
    if name == "photograph":
        return wire.CallToolResult(content=[wire.ImageContent(type="image", data=PICTURE_BASE64, mimeType="image/png")])
    return await _slowly(server, name, given)


async def _slowly(server: Server[Any, Any], name: str, given: dict[str, Any]) -> wire.CallToolResult:
    """The answer of a tool that takes its time, or talks to the client before it answers."""
    if name == "dawdle":
        await anyio.sleep(DAWDLE_S)
        return _text("slow and done")
    if name == "hurry":
        return _text("quick and done")
    context = server.request_context
    if name == "count":
        token = context.meta.progressToken if context.meta else None
        for number in range(1, given["to"] + 1):
            if token is not None:
                await context.session.send_progress_notification(
                    token, number, given["to"], related_request_id=str(context.request_id)
                )
        return _text(f"counted to {given['to']}")
    if name == "ask":
        said = wire.SamplingMessage(role="user", content=wire.TextContent(type="text", text=QUESTION))
        answer = await context.session.create_message([said], max_tokens=8, related_request_id=context.request_id)
        assert isinstance(answer.content, wire.TextContent)
        return _text(f"you said {answer.content.text}")
    raise McpError(wire.ErrorData(code=wire.INVALID_PARAMS, message=f"Unknown tool: {name}"))


def _text(*texts: str, failed: bool = False) -> wire.CallToolResult:
    return wire.CallToolResult(content=[wire.TextContent(type="text", text=one) for one in texts], isError=failed)


def planted_app() -> Starlette:
    """The server as an ASGI application that answers by server-sent events."""
    manager = StreamableHTTPSessionManager(planted_server())

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with manager.run():
            yield

    return Starlette(routes=[Mount("/mcp", manager.handle_request)], lifespan=lifespan)


async def serve_stdio() -> None:
    """Serves standard input and output until they are closed."""
    server = planted_server()
    sys.stderr.write("planted shelf ready {not a message}\n")
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options(NotificationOptions()))


if __name__ == "__main__":
    anyio.run(serve_stdio)
