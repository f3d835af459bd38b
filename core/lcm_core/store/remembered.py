"""What was worked out of a file, for the next start: figures of its conversations, and a verdict.

It lies in a private file in the cache folder of the operator, beside the private index, and may be deleted,
damaged or of another program at any time: then everything is read from the database. What it may be trusted
with, and why, is in docs/spec/decisions.md, "What is remembered".
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, Final

import msgspec

from lcm_core import __version__
from lcm_core.base.errors import LcmError
from lcm_core.base.files import FIGURES, cache_path, make_private, read_limited, write_private
from lcm_core.base.records import ConversationId, Timestamp
from lcm_core.base.values import Record, replace
from lcm_core.store.conversations import ConversationCounts, ConversationEntry, list_conversations
from lcm_core.store.database import Database, Reader
from lcm_core.store.opening import TICK_NS, real_path, sidecar
from lcm_core.store.schema import JOURNAL
from lcm_core.store.statistics import ConversationSums, History, Statistics, history_of, statistics_of

log = logging.getLogger(__name__)

# -- the state of a file -----------------------------------------------------------------------------------


class FileMark(Record, frozen=True):
    """What identifies a file and all that was ever written to it; equal marks: the same contents.

    The time of a change cannot be set, as that of a modification can. Of a WAL it tells nothing: SQLite sets
    it for root by giving the file its owner, whenever it opens it.
    """

    device: int
    inode: int
    size: int  #: bytes
    modified_ns: int
    changed_ns: int
    wal: tuple[int, ...] = ()  #: inode, size, time of modification
    access: str = ""  #: how it was read: a WAL may have been out of reach

    def is_of(self, other: FileMark) -> bool:
        """Whether both are of one file, whatever was written to it."""
        return (self.device, self.inode) == (other.device, other.inode)


def mark_of(path: Path, access: str = "") -> FileMark | None:
    """The mark of a database now; None: it is gone, or was written so lately that more may leave the same."""
    path, now = real_path(path), time.time_ns()
    try:
        main = path.stat()
    except (OSError, ValueError):
        return None
    written, wal = [main.st_mtime_ns, main.st_ctime_ns], tuple[int, ...]()
    with suppress(OSError):
        beside = sidecar(path, "-wal").stat()
        wal = (beside.st_ino, beside.st_size, beside.st_mtime_ns)
        written.append(beside.st_mtime_ns)
    if any(abs(now - each) < TICK_NS for each in written):
        return None
    return FileMark(main.st_dev, main.st_ino, main.st_size, main.st_mtime_ns, main.st_ctime_ns, wal, access)


# -- what is remembered ------------------------------------------------------------------------------------


class Verdict(Record, frozen=True):
    """What the checks said: those of the structure, or all once Health has run them."""

    checks: int  #: that were run
    skipped: int
    broken: int  #: findings of these checks; a broken summary is none
    suspicious: int
    known: int  #: checks that there are
    outdated: bool = False  #: the file was changed since
    damaged: bool = False  #: SQLite cannot read the file in part
    fixable: int = 0  #: findings with a fix that needs no model
    by_health: bool = False  #: all checks, as Health shows them
    more: int = 0  #: findings that only Health looks for, when it last ran
    at: float = 0.0  #: when, if it was remembered: seconds since 1970
    seconds: float = 0.0  #: that it took then
    #: Conversations, checks, and how many findings of them are broken and suspicious.
    named: tuple[tuple[int, str, int, int], ...] = ()


class Figures(Record, frozen=True):
    """All that the first list says of a conversation and that costs a scan."""

    created_at: Timestamp  #: of the conversation
    last_activity: Timestamp | None  #: of its newest message
    counts: ConversationCounts
    sums: ConversationSums
    words: str  #: how its user began; empty: not known

    def fit(self, entry: ConversationEntry, *, grown: bool = False) -> bool:
        """Whether they are of this conversation as it is listed; a *grown* one has newer messages."""
        same = (entry.conversation.conversation_id, entry.conversation.created_at) == (
            self.sums.conversation_id,
            self.created_at,
        )
        return same and (grown or entry.last_activity == self.last_activity)


class Place(Record, frozen=True):
    """How far a file was read: what came since has larger numbers."""

    schema: int  #: what SQLite counts up at every change of it
    message: int = 0  #: the largest id
    summary: int = 0  #: the largest row id
    conversation: int = 0  #: the largest id
    listed: tuple[int, ...] = ()  #: numbers of conversations, by what else the list says of them
    operation: tuple[int, str] | None = None  #: the newest one of our journal


class Memory(Record, frozen=True):
    """What is remembered of one file."""

    file: FileMark  #: in some earlier state
    place: Place
    conversations: tuple[Figures, ...] = ()
    #: The file state for which all figures hold. None: those of rows that change in place must be read again.
    mark: FileMark | None = None
    verdict: Verdict | None = None
    judged: FileMark | None = None  #: the state that the verdict is about
    #: What commands have read, by conversation, and the state of the file that it is of.
    histories: tuple[tuple[int, History], ...] = ()
    statistics: tuple[tuple[int, Statistics], ...] = ()
    summed: FileMark | None = None
    format: int = 3
    program: str = __version__  #: another one may count otherwise


#: Bytes of a file of ours, at most: 40,000 conversations.
MOST_BYTES: Final = 16 * 1024 * 1024
#: The messages of a conversation from which on a command remembers their sums, and how many of each at most.
LONG: Final = 20_000
_MOST_HISTORIES: Final = 100
_GREATEST: Final = 2**62


def recall(source: Path, folder: Path | None = None) -> Memory | None:
    """What is remembered of a database; None: nothing that can be used. Blocks, and is never an error."""
    path = cache_path(source, FIGURES, folder)
    try:
        known = msgspec.json.decode(read_limited(path, MOST_BYTES), type=Memory, strict=True)
    except (OSError, ValueError, RecursionError, msgspec.MsgspecError) as error:
        if not isinstance(error, FileNotFoundError):
            log.debug("%s cannot be used: %s", path, error)
        return None
    same = (known.format, known.program) == (3, __version__)
    sums = [number for _, one in known.histories for number in (one.messages, one.last_id, one.tokens)]
    sums += [number for _, one in known.statistics for number in _numbers_of(one)]
    sound = all(map(_is_sound, known.conversations)) and all(map(_is_possible, sums))
    return known if same and sound else None


def _is_sound(figures: Figures) -> bool:
    sums, counts = figures.sums, figures.counts
    numbers = (
        *(sums.history.messages, sums.history.last_id, sums.history.tokens, sums.message_bytes),
        *(sums.other_bytes, sums.context_tokens, sums.broken, counts.messages, counts.context_items),
    )
    known = sums.conversation_id == counts.conversation_id
    return known and all(map(_is_possible, numbers))


def _numbers_of(found: Statistics) -> Iterator[int]:
    yield found.covered_tokens
    for extent in (found.messages, found.summaries):
        yield from (extent.count, extent.tokens)
    for depth in found.depths:
        yield from (depth.depth, depth.count, depth.tokens)
    for items in found.context:
        yield from (items.count, items.tokens)


def _is_possible(number: int) -> bool:
    return -_GREATEST < number < _GREATEST


def remember(source: Path, memory: Memory, folder: Path | None = None) -> bool:
    """Keep it for the next start; False: that cannot be. Blocks, and is never an error."""
    path = cache_path(source, FIGURES, folder)
    try:
        try:
            written = msgspec.json.encode(memory)
        except (UnicodeEncodeError, OverflowError):  # what cannot be written is read again at each start
            written = msgspec.json.encode(
                replace(memory, conversations=tuple(filter(_can_be_written, memory.conversations)))
            )
        if len(written) > MOST_BYTES:
            return False
        make_private(path.parent)
        write_private(path, written.decode(), replace=True)
    except (OSError, ValueError, OverflowError, LcmError) as error:
        log.debug("%s cannot be written: %s", path, error)
        return False
    return True


def _can_be_written(figures: Figures) -> bool:
    try:
        msgspec.json.encode(figures)
    except (UnicodeEncodeError, OverflowError):
        return False
    return True


# -- what came since ---------------------------------------------------------------------------------------


#: Of conversations, by the column that it needs.
_LISTED: Final = {
    "conversation_id": "count(*)",
    "active": "CAST(total(active) AS INTEGER)",
    "archived_at": "count(archived_at)",
    "title": "CAST(total(length(title)) AS INTEGER)",
}


async def place_of(reader: Reader) -> Place:
    """How far the file reaches now; reads indexes and the short table of conversations."""
    has = reader.schema.has
    summary = "(SELECT max(rowid) FROM summaries)" if has("summaries") else "0"
    listed = ", ".join(sql for column, sql in _LISTED.items() if has("conversations", column))
    row = await reader.row(
        f"""SELECT (SELECT schema_version FROM pragma_schema_version), (SELECT max(message_id) FROM messages),
        {summary}, max(conversation_id), {listed} FROM conversations"""
    )
    assert row is not None  # an aggregate has a row
    newest = None
    if JOURNAL in reader.schema.tables:
        newest = await reader.row(f"SELECT rowid, id FROM {JOURNAL} ORDER BY rowid DESC LIMIT 1")
    schema, message, last, conversation, *numbers = (number or 0 for number in row)
    operation = None if newest is None else (newest["rowid"], str(newest["id"]))
    return Place(schema, message, last, conversation, tuple(numbers), operation)


class Since(Record, frozen=True):
    """What was written behind a place."""

    place: Place  #: the new end
    grown: frozenset[ConversationId]  #: conversations with messages or summaries behind it
    operated: frozenset[ConversationId]  #: conversations that operations of ours have changed


async def since(reader: Reader, place: Place) -> Since | None:
    """What came behind a place; None: more than that was changed, and nothing of before may be relied on."""
    now = await place_of(reader)
    ends = (now.message, now.summary, now.conversation)
    before = (place.message, place.summary, place.conversation)
    if now.schema != place.schema or any(end < known for end, known in zip(ends, before, strict=True)):
        return None
    operated: frozenset[ConversationId] = frozenset()
    if now.operation != place.operation:
        begun = (0, "") if place.operation is None else place.operation
        rows = await reader.rows(
            f"SELECT rowid, id, conversation_id FROM {JOURNAL} WHERE rowid >= ? ORDER BY rowid", begun[0]
        )
        if place.operation is not None:
            if not rows or (rows[0]["rowid"], rows[0]["id"]) != begun:
                return None  # it was taken out of the history, perhaps with others
            del rows[0]
        if any(row["conversation_id"] is None for row in rows):
            return None
        operated = frozenset(ConversationId(row["conversation_id"]) for row in rows)
    grown: set[ConversationId] = set()
    keys = (("messages", "message_id"), ("summaries", "rowid"))
    for (table, key), known, end in zip(keys, before, ends, strict=False):
        if end > known:
            rows = await reader.rows(
                f"SELECT DISTINCT +conversation_id AS owner FROM {table} WHERE {key} > ?", known
            )
            grown.update(ConversationId(row["owner"]) for row in rows)
    return Since(now, frozenset(grown), operated)


class Look(Record, frozen=True):
    """The list of conversations, or those of it that have changed since an earlier look."""

    entries: Sequence[ConversationEntry]
    place: Place
    since: Since | None = None  #: None: all may have changed in any way
    whole: bool = True  #: all conversations are listed


async def look(reader: Reader, place: Place | None, *, whole: bool) -> Look:
    """List conversations; unless *whole*, only those that changed behind a place, where that can be told."""
    came = None if place is None else await since(reader, place)
    if came is None or place is None or whole or came.place.listed != place.listed:
        now = await place_of(reader) if came is None else came.place
        return Look(await list_conversations(reader), now, came)
    return Look(await list_conversations(reader, came.grown | came.operated), came.place, came, whole=False)


# -- of one open file ----------------------------------------------------------------------------------------


class FileMemory:
    """What is remembered of an open file; without leave, nothing is."""

    def __init__(
        self,
        source: Path,
        *,
        allowed: bool,
        folder: Path | None = None,
        access: Callable[[], str] = str,
    ) -> None:
        """*access*: how the file is read at present."""
        self._source = source
        self._access = access
        self._allowed = allowed
        self._folder = folder
        self._recalled = False
        self._memory: Memory | None = None
        self._lock = asyncio.Lock()

    @classmethod
    def of(cls, database: Database, *, allowed: bool) -> FileMemory:
        """What is remembered of an open database."""
        return cls(database.path, allowed=allowed, access=lambda: database.access.value)

    async def recall(self) -> Memory | None:
        """What is remembered, read once; None: nothing of this file."""
        async with self._lock:
            if self._allowed and not self._recalled:
                known, now = await asyncio.to_thread(
                    lambda: (recall(self._source, self._folder), mark_of(self._source))
                )
                self._memory = (
                    known if known is not None and now is not None and known.file.is_of(now) else None
                )
            self._recalled = True
        return self._memory

    async def now(self) -> FileMark | None:
        """The state of the file (`mark_of`)."""
        return await asyncio.to_thread(mark_of, self._source, self._access())

    async def history_of(self, reader: Reader, conversation_id: ConversationId) -> History:
        """What was ever said in a conversation: as it is remembered of this very state of the file, or read.

        The state is looked at within the transaction, so nothing was written before that began.
        """
        known, now = await self.recall(), await self.now() if self._allowed else None
        held: dict[int, History] = {}
        if known is not None and now is not None:
            if known.mark == now:
                held = {one.sums.conversation_id: one.sums.history for one in known.conversations}
            if known.summed == now:
                held.update(known.histories)
        if conversation_id in held:
            return held[conversation_id]
        found = await history_of(reader, conversation_id)
        if found.messages >= LONG:
            await self._keep_read(now, "histories", [(int(conversation_id), found)])
        return found

    async def statistics_of(
        self, reader: Reader, ids: Sequence[ConversationId]
    ) -> dict[ConversationId, Statistics]:
        """The statistics of some conversations, likewise."""
        if not await reader.row(f"SELECT 1 FROM messages LIMIT 1 OFFSET {LONG - 1}"):  # none is long
            return {one: await statistics_of(reader, one) for one in ids}
        known, now = await self.recall(), await self.now() if self._allowed else None
        held: dict[int, Statistics] = {}
        if known is not None and now is not None and known.summed == now:
            held.update(known.statistics)
        found = {one: held.get(one) or await statistics_of(reader, one) for one in ids}
        long = [(int(key), one) for key, one in found.items() if one.messages.count >= LONG]
        if any(key not in held for key, _ in long):
            await self._keep_read(now, "statistics", long)
        return found

    async def _keep_read(self, now: FileMark | None, name: str, read: Sequence[tuple[int, object]]) -> None:
        """Remember what was read of a file to which nothing was written since it was so."""
        if now is not None and await self.now() == now:
            memory = await self._again(now)
            if memory.summed != now:
                memory = replace(memory, histories=(), statistics=(), summed=now)
            every = {**dict(read), **dict(getattr(memory, name))}
            kept: dict[str, Any] = {name: tuple(islice(every.items(), _MOST_HISTORIES))}
            await self._write(replace(memory, **kept))

    async def keep(self, file: FileMark, place: Place, figures: tuple[Figures, ...], *, exact: bool) -> None:
        """Remember figures that were read when the file was so; *exact*: nothing was written since."""
        await self.recall()
        known = self._memory
        memory = Memory(file, place, figures, file if exact else None)
        if known is not None and known.file.is_of(file):
            memory = replace(memory, verdict=known.verdict, judged=known.judged)
        await self._write(memory)

    async def judge(self, file: FileMark, verdict: Verdict) -> None:
        """Remember what the checks said of the file when it was so."""
        await self._write(replace(await self._again(file), verdict=verdict, judged=file))

    async def _again(self, file: FileMark) -> Memory:
        """What is remembered now, for it may have been forgotten since, or written by another program."""
        known = await asyncio.to_thread(recall, self._source, self._folder)
        return known if known is not None and known.file.is_of(file) else Memory(file, Place(0))

    async def _write(self, memory: Memory) -> None:
        if self._allowed:
            self._memory = memory
            await asyncio.to_thread(remember, self._source, memory, self._folder)
