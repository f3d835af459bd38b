"""Requests as they come in, a line each: none is larger than a limit, none with an id stays unanswered.

Source: docs/mcp.md, "Limits". The SDK drops a line that it cannot read, and its client would wait for ever.
"""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import BinaryIO, Final

from anyio import to_thread

log = logging.getLogger(__name__)

#: Bytes of a request; the arguments of a tool have a few thousand.
MAX_LINE: Final = 1 << 20
_ID: Final = rb'"id"\s*:\s*(?:(-?\d{1,15})|"([^"\\]{1,200})")\s*'
#: Where an id can only be that of the request: before anything that is nested, or last of all.
_FIRST: Final = re.compile(rb'\s*\{\s*(?:"(?:jsonrpc|method)"\s*:\s*"[^"\\]*"\s*,\s*)*' + _ID + rb"[,}]")
_LAST: Final = re.compile(_ID + rb"\}\s*\Z")
#: Bytes of a line that is too long in which an id is looked for, at its start and at its end.
_ENDS: Final = 1_000

RequestId = int | str
#: Answers a request that cannot be read: its id, and why.
Refuse = Callable[[RequestId, str], Awaitable[None]]


async def requests(
    stream: BinaryIO, problem_of: Callable[[str], str | None], refuse: Refuse
) -> AsyncIterator[str]:
    """The lines of a client until its input ends; what cannot be read is refused, or logged without an id."""
    while True:
        line, whole = await to_thread.run_sync(_read, stream, abandon_on_cancel=True)
        if not line:
            return
        text = line.decode("utf-8", "replace")
        problem = problem_of(text) if whole else f"The request has more than {MAX_LINE:,} bytes."
        if problem is None:
            yield text
        elif (number := request_id(line)) is not None:
            await refuse(number, problem)
        elif line.strip():
            log.warning("a line was left out: %s", problem)


def request_id(line: bytes) -> RequestId | None:
    """The id of a request that cannot be read as a whole, where it can only be that."""
    found = _FIRST.match(line) or _LAST.search(line[-_ENDS:])
    if found is None:
        return None
    return int(found[1]) if found[1] is not None else found[2].decode("utf-8", "replace")


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
