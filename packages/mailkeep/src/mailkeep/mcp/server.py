"""The server: `tools/list` and `tools/call` over the official SDK, on stdio or on streamable HTTP.

Stateless: no session, no message of the server's own, no resources, no prompts (MCP-10). An expected failure is a tool
result with the text `mailkeep error <code>: <sentence>`; only reader errors (5xxxx) are told, everything else is 54001
and stands in the operator's log by its code alone (MCP-130, MCP-131).
"""

from __future__ import annotations

import logging
import sys
import time
from importlib.metadata import version
from typing import Any, Final, cast

import mcp_types as types
from anyio import AsyncFile
from mcp.server import Server, ServerRequestContext
from mcp.server.stdio import stdio_server
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError
from starlette.applications import Starlette

from mailkeep.app import App
from mailkeep.errors import (
    FilterRefused,
    MailChangeInvalid,
    MailkeepError,
    PageSizeRefused,
    ReaderError,
    ResultLimitRefused,
    UndescribedFailure,
)
from mailkeep.mcp.catalog import TOOLS
from mailkeep.mcp.fence import fenced
from mailkeep.mcp.stdin import lines
from mailkeep.mcp.tool import Tool

log = logging.getLogger(__name__)

PATH: Final = "/mcp"
MAX_REQUEST_OCTETS: Final = 1 << 20
"""Arguments are short: 500 ids, or 64 names of 256 characters twice."""

_TOOLS: Final = {tool.name: tool for tool in TOOLS}
_LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]")
# Argument errors of these arguments have a code of their own; the others are 54001 like any failure of binding.
_BINDING_ERRORS: Final[dict[str, type[ReaderError]]] = {
    "page_size": PageSizeRefused,
    "result_limit": ResultLimitRefused,
    "received_on_or_after": FilterRefused,
    "received_before": FilterRefused,
    "seen": MailChangeInvalid,
    "flagged": MailChangeInvalid,
    "keyword_change": MailChangeInvalid,
    "keywords": MailChangeInvalid,
}


def http_app(app: App) -> Starlette:
    """The endpoint at /mcp. Its lifespan must run; Host and Origin must name this machine (DNS rebinding)."""
    return make_server(app).streamable_http_app(
        streamable_http_path=PATH,
        json_response=True,
        stateless_http=True,
        max_request_body_size=MAX_REQUEST_OCTETS,
        transport_security=TransportSecuritySettings(
            enable_dns_rebinding_protection=True,
            allowed_hosts=[*_LOOPBACK, *(f"{host}:*" for host in _LOOPBACK)],
            allowed_origins=[f"http://{host}{port}" for host in _LOOPBACK for port in ("", ":*")],
        ),
    )


async def run_stdio(app: App) -> None:
    """Serve one client on standard input and output until it closes them or the task is cancelled."""
    server = make_server(app)
    # The SDK asks of its input only that it can be iterated over; what it declares is the file it would open itself.
    source = cast("AsyncFile[str]", lines(sys.stdin.fileno()))
    async with stdio_server(stdin=source) as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


def make_server(app: App) -> Server[Any]:
    """The protocol server on an open App. What is offered follows the settings of the moment (MCP-57)."""

    async def list_tools(
        _: ServerRequestContext[Any], __: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[tool.descriptor() for tool in TOOLS if tool.is_offered(app.settings)])

    async def call_tool(_: ServerRequestContext[Any], params: types.CallToolRequestParams) -> types.CallToolResult:
        return await _call(app, params)

    return Server("mailkeep", version=version("mailkeep"), on_list_tools=list_tools, on_call_tool=call_tool)


async def _call(app: App, params: types.CallToolRequestParams) -> types.CallToolResult:
    tool = _TOOLS.get(params.name)
    if tool is None or not tool.is_offered(app.settings):
        # The same answer for every name that is not served, without the name.
        raise MCPError(types.INVALID_PARAMS, "Unknown tool")
    started = time.monotonic()
    code = 0
    try:
        return await _answer(app, tool, params.arguments or {})
    except ReaderError as error:
        code = error.code
        return _failure(error)
    except MailkeepError as error:
        code = error.code
        return _failure(UndescribedFailure("The request could not be answered."))
    except Exception as error:
        code = UndescribedFailure.code
        log.error("mcp call failed unexpectedly: tool=%s kind=%s", tool.name, type(error).__name__)  # noqa: TRY400
        return _failure(UndescribedFailure("The request could not be answered."))
    finally:
        log.info("mcp call: tool=%s code=%d milliseconds=%d", tool.name, code, (time.monotonic() - started) * 1000)


async def _answer(app: App, tool: Tool, given: dict[str, Any]) -> types.CallToolResult:
    try:
        bound = tool.arguments.model_validate(given)
    except ValidationError as error:
        raise _refusal(error, tool) from None
    result = await tool.call(app, bound)
    text = result.model_dump_json(exclude_none=True)
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=fenced(text) if tool.holds_mail else text)],
        structured_content=result.model_dump(mode="json", exclude_none=True),
    )


def _refusal(error: ValidationError, tool: Tool) -> ReaderError:
    """Names arguments of ours that do not fit; never a value, never a name that the caller made up."""
    ours = tool.arguments.model_fields
    names = sorted({str(item["loc"][0]) for item in error.errors(include_input=False) if item["loc"]} & set(ours))
    refused = _BINDING_ERRORS.get(names[0], UndescribedFailure) if len(names) == 1 else UndescribedFailure
    which = f"Not accepted: {', '.join(names)}." if names else "There is an argument that this tool does not take."
    return refused(f"The arguments do not fit the tool's input schema. {which}")


def _failure(error: ReaderError) -> types.CallToolResult:
    text = f"mailkeep error {error.code}: {error.message}"
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=True)
