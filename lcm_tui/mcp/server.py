"""The server itself, over the official SDK: one client on standard input and output."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from lcm_core import __version__
from lcm_core.recall.settings import RecallSettings
from lcm_core.store.database import Database
from lcm_core.text import safe_line
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage

from lcm_tui.mcp.answers import UNTRUSTED, ToolAnswer
from lcm_tui.mcp.arguments import schema_of
from lcm_tui.mcp.scope import Allowed, check_allowed
from lcm_tui.mcp.tools import DEADLINE_SECONDS, TOOLS, Memory, call

log = logging.getLogger(__name__)

#: How long a lock of the host is waited for, within the deadline of a call.
_BUSY_SECONDS = 1.0
_INSTRUCTIONS = (
    "The memory of an LCM agent, read only. search finds where something was said; describe and expand "
    f"read it; cite what you use by its id. {UNTRUSTED}"
)

Incoming = SessionMessage | Exception


async def serve(path: Path, settings: RecallSettings, allowed: Allowed) -> None:
    """Serve one client until its input ends; what was asked before that is answered.

    Raises:
        DatabaseError: the file cannot be read.
        NotFoundError: what is allowed is not there.
    """
    _log_to_stderr()
    async with await Database.open(path, busy_seconds=_BUSY_SECONDS) as database:
        await database.read(check_allowed, allowed)
        watching = asyncio.create_task(_follow(database))
        try:
            log.info("serving %s, %s", path, allowed.name)
            async with stdio_server() as (incoming, outgoing):
                await _converse(_server(Memory(database, settings, allowed)), incoming, outgoing)
        finally:
            watching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watching
    log.info("the input was closed")


async def _follow(database: Database) -> None:
    """See what a host writes, and leave its file alone while nobody asks."""
    async for _ in database.watch():
        pass


def _server(memory: Memory) -> Server[dict[str, Any]]:
    async def list_tools(_: object, __: object) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[*_listed()])

    async def call_tool(_: object, asked: types.CallToolRequestParams) -> types.CallToolResult:
        try:
            return _result(await call(memory, asked.name, asked.arguments or {}))
        except Exception:
            log.exception("the tool failed")
            words = "Something unexpected went wrong; the log of the server says what."
            return _result(ToolAnswer(words, {"error": {"code": "INTERNAL", "message": words}}, failed=True))

    return Server(
        "lcm-tui",
        version=__version__,
        title="LCM memory",
        instructions=_INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def _listed() -> list[types.Tool]:
    hints = types.ToolAnnotations(
        read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
    )
    return [
        types.Tool(
            name=one.name,
            description=one.help,
            input_schema=schema_of(one.arguments),
            output_schema={"type": "object"},
            annotations=hints,
        )
        for one in TOOLS
    ]


def _result(answer: ToolAnswer) -> types.CallToolResult:
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=answer.text)],
        structured_content=dict(answer.data),
        is_error=answer.failed,
    )


# -- the end of the input ----------------------------------------------------------------------------------


class _Unanswered:
    """The requests that have no answer yet."""

    def __init__(self) -> None:
        self._ids: set[str | int] = set()
        self._none = asyncio.Event()
        self._none.set()

    def asked(self, one: Incoming) -> None:
        if isinstance(one, SessionMessage):
            if isinstance(one.message, types.JSONRPCRequest):
                self._ids.add(one.message.id)
                self._none.clear()
            elif isinstance(one.message, types.JSONRPCNotification):
                self._withdrawn(one.message)

    def answered(self, one: SessionMessage) -> None:
        if isinstance(one.message, types.JSONRPCResponse | types.JSONRPCError) and one.message.id is not None:
            self._done(one.message.id)

    async def none_left(self) -> None:
        await self._none.wait()

    def _withdrawn(self, notice: types.JSONRPCNotification) -> None:
        named = (notice.params or {}).get("requestId")
        if notice.method == "notifications/cancelled" and isinstance(named, str | int):
            self._done(named)

    def _done(self, number: str | int) -> None:
        self._ids.discard(number)
        if not self._ids:
            self._none.set()


async def _converse(server: Server[dict[str, Any]], incoming: Any, outgoing: Any) -> None:
    """Run the server between two pipes: the SDK drops what is under way when the input ends."""
    unanswered = _Unanswered()
    to_server, from_client = anyio.create_memory_object_stream[Incoming](0)
    to_client, from_server = anyio.create_memory_object_stream[SessionMessage](0)
    async with anyio.create_task_group() as group:
        group.start_soon(_pass_in, incoming, to_server, unanswered)
        group.start_soon(_pass_out, from_server, outgoing, unanswered)
        await server.run(from_client, to_client, server.create_initialization_options())
        to_client.close()


async def _pass_in(
    incoming: AsyncIterator[Incoming], to_server: MemoryObjectSendStream[Incoming], unanswered: _Unanswered
) -> None:
    async with to_server:
        async for one in incoming:
            unanswered.asked(one)
            await to_server.send(one)
        with anyio.move_on_after(DEADLINE_SECONDS + _BUSY_SECONDS):
            await unanswered.none_left()


async def _pass_out(
    from_server: MemoryObjectReceiveStream[SessionMessage], outgoing: Any, unanswered: _Unanswered
) -> None:
    async with outgoing, from_server:
        async for one in from_server:
            await outgoing.send(one)
            unanswered.answered(one)


# -- the log -----------------------------------------------------------------------------------------------


class _SafeFormatter(logging.Formatter):
    """One safe line a record, its traceback included."""

    def format(self, record: logging.LogRecord) -> str:
        return safe_line(super().format(record))


def _log_to_stderr() -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_SafeFormatter("lcm-tui mcp: %(levelname)s %(message)s"))
    root = logging.getLogger()
    root.addHandler(handler)
    logging.getLogger("lcm_tui.mcp").setLevel(logging.INFO)
