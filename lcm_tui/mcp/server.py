"""The server itself, over the official SDK: one client on standard input and output."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import anyio
import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from lcm_core import __version__
from lcm_core.base.text import safe_line
from lcm_core.store.database import Database
from lcm_recall.queries import RecallSettings
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.session import ServerSession
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage

from lcm_tui.mcp.tools import (
    UNTRUSTED,
    Allowed,
    Memory,
    Report,
    ToolAnswer,
    call,
    check_allowed,
    longest,
    requests,
    schema_of,
    tools_of,
)

if TYPE_CHECKING:
    from lcm_core.writers.cost import Model

log = logging.getLogger(__name__)

#: How long a lock of the host is waited for, within the deadline of a call.
_BUSY_SECONDS = 1.0
_INSTRUCTIONS = (
    "The memory of an LCM agent, read only. search finds where something was said; describe and expand "
    "read it and give its citation, such as msg#12@0123456789ab: cite what you use by that; describe says "
    f"later whether it still holds. {UNTRUSTED}"
)

Incoming = SessionMessage | Exception


async def serve(
    path: Path,
    settings: RecallSettings,
    allowed: Allowed,
    model: Model | None = None,
    *,
    by_index: bool = True,
) -> None:
    """Serve one client until its input ends; what was asked before that is answered.

    A *model* that was named at the start makes the tool ``ask``; it is closed by whoever made it. *by_index*:
    a search may go by the private index, where there is one.

    Raises:
        DatabaseError: the file cannot be read.
        NotFoundError: what is allowed is not there.
    """
    _log_to_stderr()
    async with await Database.open(path, busy_seconds=_BUSY_SECONDS) as database:
        await database.read(check_allowed, allowed)
        watching = asyncio.create_task(_follow(database))
        try:
            asks = "" if model is None else f", asking {safe_line(model.name)}"
            log.info("serving %s, %s%s", path, allowed.name, asks)
            refusals = _Refusals()
            lines = requests(sys.stdin.buffer, _problem_of, refusals.refuse)
            # The SDK asks it for nothing but its lines.
            async with stdio_server(cast("anyio.AsyncFile[str]", lines)) as (incoming, outgoing):
                refusals.outgoing = outgoing
                memory = Memory(database, settings, allowed, model, by_index)
                await _converse(server_of(memory), incoming, outgoing, longest(memory))
        finally:
            watching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watching
    log.info("the input was closed")


async def _follow(database: Database) -> None:
    """See what a host writes, and leave its file alone while nobody asks."""
    async for _ in database.watch():
        pass


def server_of(memory: Memory) -> Server[dict[str, Any]]:
    """The tools, for any transport."""

    async def list_tools(_: object, __: object) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[*_listed(memory)])

    async def call_tool(
        context: ServerRequestContext[Any, Any], asked: types.CallToolRequestParams
    ) -> types.CallToolResult:
        try:
            async with _telling(context.session) as report:
                return _result(await call(memory, asked.name, asked.arguments or {}, report))
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


@asynccontextmanager
async def _telling(session: ServerSession) -> AsyncIterator[Report]:
    """What a call says of its progress, told to the client until the call ends, in order."""
    told: asyncio.Queue[tuple[int, int, str]] = asyncio.Queue()

    async def tell() -> None:
        while True:
            step, steps, words = await told.get()
            await session.report_progress(step, steps, words)

    task = asyncio.create_task(tell())
    try:
        yield lambda step, steps, words: told.put_nowait((step, steps, words))
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def _hints(only_reads: bool) -> types.ToolAnnotations:
    return types.ToolAnnotations(
        read_only_hint=True,
        destructive_hint=False,
        idempotent_hint=only_reads,
        open_world_hint=not only_reads,
    )


def _listed(memory: Memory) -> list[types.Tool]:
    return [
        types.Tool(
            name=one.name,
            description=one.help,
            input_schema=schema_of(one.arguments),
            output_schema={"type": "object"},
            annotations=_hints(one.only_reads),
        )
        for one in tools_of(memory)
    ]


def _result(answer: ToolAnswer) -> types.CallToolResult:
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=answer.text)],
        structured_content=dict(answer.data),
        is_error=answer.failed,
    )


# -- requests that cannot be read --------------------------------------------------------------------------


class _Refusals:
    """Answers what the server never sees."""

    def __init__(self) -> None:
        self.outgoing: Any = None

    async def refuse(self, number: int | str, problem: str) -> None:
        error = types.ErrorData(code=types.INVALID_REQUEST, message=problem)
        with contextlib.suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
            await self.outgoing.send(
                SessionMessage(types.JSONRPCError(jsonrpc="2.0", id=number, error=error))
            )


def _problem_of(line: str) -> str | None:
    """Why a line is no message of the protocol; None: it is one."""
    try:
        types.jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValueError:
        return "The request cannot be read: it is not valid JSON, or not a message of the protocol."
    return None


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


async def _converse(server: Server[dict[str, Any]], incoming: Any, outgoing: Any, seconds: float) -> None:
    """Run the server between two pipes: the SDK drops what is under way when the input ends."""
    unanswered = _Unanswered()
    to_server, from_client = anyio.create_memory_object_stream[Incoming](0)
    to_client, from_server = anyio.create_memory_object_stream[SessionMessage](0)
    async with anyio.create_task_group() as group:
        group.start_soon(_pass_in, incoming, to_server, unanswered, seconds)
        group.start_soon(_pass_out, from_server, outgoing, unanswered)
        await server.run(from_client, to_client, server.create_initialization_options())
        to_client.close()


async def _pass_in(
    incoming: AsyncIterator[Incoming],
    to_server: MemoryObjectSendStream[Incoming],
    unanswered: _Unanswered,
    seconds: float,
) -> None:
    async with to_server:
        async for one in incoming:
            unanswered.asked(one)
            await to_server.send(one)
        with anyio.move_on_after(seconds + _BUSY_SECONDS):
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
