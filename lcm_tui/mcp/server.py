"""The server over the official SDK: one client on standard input and output (docs/spec/mcp.md)."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import re
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, cast

import anyio
import mcp_types as types
from anyio import to_thread
from lcm_core import __version__
from lcm_core.base.errors import LcmError
from lcm_core.base.settings import Settings
from lcm_core.base.text import safe_line
from lcm_core.store.database import Database
from mcp.server.context import ServerRequestContext
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.stdio import stdio_server
from pydantic import ValidationError

from lcm_tui.mcp.scope import UNTRUSTED, Allowed, Served, scope_of, short

if TYPE_CHECKING:
    from lcm_core.writers.cost import Model

log = logging.getLogger(__name__)

#: How long a lock of the host is waited for, within the deadline of a call.
_BUSY_SECONDS: Final = 1.0
#: Seconds that a call may take, and a question.
DEADLINE_SECONDS, ASK_SECONDS = 3.0, 55.0
#: Calls that read at the same time; others wait for their turn.
_AT_ONCE: Final = 4
#: Conversations that are listed as resources.
_RESOURCES: Final = 100
_INSTRUCTIONS: Final = (
    "The memory of an LCM agent, read only. Use lcm_search first: it finds where something was said. Use "
    "lcm_read or lcm_messages where a hit is too short. Cite what you use by its citation, such as "
    f"msg#12@0123456789ab; lcm_show says later whether it still holds. {UNTRUSTED}"
)


async def serve(path: Path, settings: Settings, allowed: Allowed, model: Model | None = None) -> None:
    """Serve one client until its input ends; what was asked before that is answered.

    A *model* that was named at the start makes the tool ``lcm_ask``; it is closed by whoever made it.

    Raises:
        DatabaseError: the file cannot be read.
        NotFoundError: what is allowed is not there.
    """
    _log_to_stderr()
    async with await Database.open(path, busy_seconds=_BUSY_SECONDS) as database:
        await database.read(allowed.check)
        watching = asyncio.create_task(_follow(database))
        try:
            asks = "" if model is None else f", asking {safe_line(model.name)}"
            log.info("serving %s, %s%s", path, allowed.name, asks)
            served = Served(database, settings, allowed, model)
            await MemoryServer(served).run_stdio_async()
        finally:
            watching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watching
    log.info("the input was closed")


async def _follow(database: Database) -> None:
    """See what a host writes, and leave its file alone while nobody asks."""
    async for _ in database.watch():
        pass


class MemoryServer(MCPServer[Any]):
    """The SDK's server, with calls that end, errors in a sentence, and answers to what cannot be read."""

    def __init__(self, served: Served) -> None:
        super().__init__(
            "lcm-tui",
            title="LCM memory",
            instructions=_INSTRUCTIONS,
            version=__version__,
            log_level="WARNING",
            subscriptions=False,
            middleware=[self._offering],
        )
        self._served = served
        self._offered = False
        self._turns = asyncio.Semaphore(_AT_ONCE)

    async def _offering(self, ctx: ServerRequestContext[Any, Any], call_next: Any) -> Any:
        """Offer the tools with the first request behind the handshake.

        What searches and reads takes 0.25 s to import: a client need not wait for it at its own start.
        """
        if not self._offered and ctx.method not in ("initialize", "notifications/initialized"):
            from lcm_tui.mcp.tools import Memory, offer

            offer(self, Memory(self._served))
            self._offered = True
        return await call_next(ctx)

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None = None
    ) -> types.CallToolResult:
        """The answer of a tool; what goes wrong is an answer too, in one sentence."""
        asks = name == "lcm_ask"
        seconds = ASK_SECONDS if asks else DEADLINE_SECONDS
        try:
            given = await self._given(name, arguments)
            async with contextlib.nullcontext() if asks else self._turns, asyncio.timeout(seconds):
                answer = await super().call_tool(name, given, context)
                assert isinstance(answer, types.CallToolResult)
                return answer
        except TimeoutError:
            words = f"{name} took longer than {seconds:g} s and was stopped; "
            words += "narrow it to a conversation, a kind or a time."
        except (LcmError, ToolError) as error:
            words = _sentence(error)
        return types.CallToolResult(content=[types.TextContent(type="text", text=words)], is_error=True)

    async def _given(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments without null. The SDK ignores those that it does not know, though they may narrow."""
        tools = {one.name: one.input_schema["properties"] for one in await self.list_tools()}
        if name not in tools:
            raise ToolError(f"There is no tool {short(name, 40)}; there are {', '.join(tools)}.")
        unknown = next((key for key in arguments if key not in tools[name]), None)
        if unknown is not None:
            there = ", ".join(tools[name]) or "none"
            raise ToolError(f"The argument {short(unknown, 40)} is unknown; there are {there}.")
        return {key: value for key, value in arguments.items() if value is not None}

    async def list_resources(self) -> list[types.Resource]:
        """The conversations of the scope, the newest activity first."""
        scope = await self._served.database.read(scope_of, self._served.allowed)
        return [
            types.Resource(
                uri=f"lcm://conversation/{one.conversation_id}",
                name=f"conversation {one.conversation_id}",
                title=short(one.title or one.session_key) or None,
                mime_type="text/plain",
            )
            for one in (entry.conversation for entry in scope.entries[:_RESOURCES])
        ]

    async def run_stdio_async(self) -> None:
        """Serve standard input and output.

        The SDK's own way drops a line that it cannot read, whose client would wait for ever, and what is
        under way when the input ends.
        """
        model = self._served.model
        seconds = (DEADLINE_SECONDS if model is None else ASK_SECONDS) + _BUSY_SECONDS
        # The SDK iterates over it, and writes to it.
        wire = cast("anyio.AsyncFile[str]", Wire(sys.stdin.buffer, sys.stdout.buffer, seconds))
        server = self._lowlevel_server
        with contextlib.redirect_stdout(sys.stderr):  # what prints must not write into the protocol
            async with stdio_server(wire, wire) as (incoming, outgoing):
                await server.run(incoming, outgoing, server.create_initialization_options())


def _sentence(error: LcmError | ToolError) -> str:
    """What went wrong in a call, so that a model can act on it."""
    cause = error if error.__cause__ is None else error.__cause__
    if isinstance(cause, LcmError):
        return short(cause.message, 500)
    if isinstance(cause, ValidationError):
        wrong = cause.errors(include_url=False)[0]
        name = short(str(wrong["loc"][0]), 40)
        return f"The argument {name} is wrong: {short(wrong['msg'], 300)}."
    if cause is error:
        return str(error)
    log.error("the tool failed", exc_info=error)
    return "Something unexpected went wrong; the log of the server says what."


# -- requests as they come in --------------------------------------------------------------------------------
# A line each: none is larger than a limit, none with an id stays unanswered (docs/spec/mcp.md, "Limits").

#: Bytes of a request; the arguments of a tool have a few thousand.
MAX_LINE: Final = 1 << 20
_ID: Final = rb'"id"\s*:\s*(?:(-?\d{1,15})|"([^"\\]{1,200})")\s*'
#: Where an id can only be that of the request: before anything that is nested, or last of all.
_FIRST: Final = re.compile(rb'\s*\{\s*(?:"(?:jsonrpc|method)"\s*:\s*"[^"\\]*"\s*,\s*)*' + _ID + rb"[,}]")
_LAST: Final = re.compile(_ID + rb"\}\s*\Z")
#: Bytes of a line that is too long in which an id is looked for, at its start and at its end.
_ENDS: Final = 1_000


class Wire:
    """Standard input and output as the SDK reads and writes them: lines of text."""

    def __init__(self, incoming: BinaryIO, outgoing: BinaryIO, seconds: float) -> None:
        self._incoming, self._outgoing = incoming, outgoing
        self._seconds = seconds  #: that what is under way has when the input ends
        self._unanswered: set[int | str] = set()
        self._changed = asyncio.Event()

    async def __aiter__(self) -> AsyncIterator[str]:
        """The lines that are messages, until the input ends; others are refused, or logged without an id."""
        while True:
            line, whole = await to_thread.run_sync(_read, self._incoming, abandon_on_cancel=True)
            if not line:
                break
            text, problem = line.decode("utf-8", "replace"), f"The request has more than {MAX_LINE:,} bytes."
            if whole:
                try:
                    self._note(types.jsonrpc_message_adapter.validate_json(text, by_name=False))
                except ValueError:
                    problem = (
                        "The request cannot be read: it is not valid JSON, or not a message of the protocol."
                    )
                else:
                    yield text
                    continue
            if (number := request_id(line)) is not None:
                error = types.ErrorData(code=types.INVALID_REQUEST, message=problem)
                refusal = types.JSONRPCError(jsonrpc="2.0", id=number, error=error)
                await self.write(refusal.model_dump_json(by_alias=True, exclude_unset=True) + "\n")
            elif line.strip():
                log.warning("a line was left out: %s", problem)
        with anyio.move_on_after(self._seconds):
            while self._unanswered:
                self._changed.clear()
                await self._changed.wait()

    def _note(self, message: types.JSONRPCMessage) -> None:
        """Keep which requests have no answer yet."""
        if isinstance(message, types.JSONRPCRequest):
            self._unanswered.add(message.id)
        elif isinstance(message, types.JSONRPCNotification) and message.method == "notifications/cancelled":
            self._answered((message.params or {}).get("requestId"))

    def _answered(self, number: Any) -> None:
        self._unanswered.discard(number)
        self._changed.set()

    async def write(self, text: str) -> None:
        """Write an answer, or a notice."""
        await to_thread.run_sync(self._write, text.encode())
        message = json.loads(text)
        if "method" not in message:
            self._answered(message.get("id"))

    async def flush(self) -> None:
        """Every line is written at once."""

    def _write(self, line: bytes) -> None:
        self._outgoing.write(line)
        self._outgoing.flush()


def request_id(line: bytes) -> int | str | None:
    """The id of a request that cannot be read as a whole, where it can only be that."""
    match = _FIRST.match(line) or _LAST.search(line[-_ENDS:])
    if match is None:
        return None
    return int(match[1]) if match[1] is not None else match[2].decode("utf-8", "replace")


def _read(stream: BinaryIO) -> tuple[bytes, bool]:
    """A line, and whether it is whole; of one that is too long its start and its end."""
    line = stream.readline(MAX_LINE)
    if len(line) < MAX_LINE or line.endswith(b"\n"):
        return line, True
    start, end, rest = line[:_ENDS], line[-_ENDS:], line
    while rest and not rest.endswith(b"\n"):
        rest = stream.readline(MAX_LINE)
        end = (end + rest)[-_ENDS:]
    return start + end, False


# -- the log -----------------------------------------------------------------------------------------------


class _SafeFormatter(logging.Formatter):
    """One safe line a record, its traceback included."""

    def format(self, record: logging.LogRecord) -> str:
        return safe_line(super().format(record))


def _log_to_stderr() -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_SafeFormatter("lcm-tui mcp: %(levelname)s %(message)s"))
    logging.getLogger().addHandler(handler)
    logging.getLogger("lcm_tui.mcp").setLevel(logging.INFO)
