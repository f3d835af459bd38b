"""Filtered lists for the command line, newest first, page by page, and the snapshots of assemblies.

A page ends at a `Position`: the stored time and the id of its last row. Rows are ordered and compared by the
time itself, so that the two stored formats mix rightly, then by id; a row without a usable time comes last.
Only messages have no index by time: those of a conversation are paged by seq where that is the same.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from typing import Final, Generic

from lcm_core.base.errors import DatabaseError, NotFoundError, UsageError
from lcm_core.base.javascript import Json, JsonObject
from lcm_core.base.records import (
    Conversation,
    ConversationId,
    LargeFile,
    Message,
    MessageId,
    Summary,
    SummaryId,
    Timestamp,
)
from lcm_core.base.times import iso_z
from lcm_core.base.values import Record, T
from lcm_core.engine.messages import OriginKind
from lcm_core.store.conversations import CONVERSATIONS, moment
from lcm_core.store.database import Reader
from lcm_core.store.focus import briefs_beginning, of_these
from lcm_core.store.messages import FILES, MESSAGES
from lcm_core.store.opening import Row, Rows
from lcm_core.store.rows import IN_SEQ_ORDER, of_conversation, records_in, where_all
from lcm_core.store.summaries import SUMMARIES, count_by

#: Characters of a text that a list reads unless whole texts are asked for; a preview needs 240 of them.
HEAD = 2_000
#: Messages, the newest, whose times must fall with their seq where a conversation is paged by seq.
_IN_ORDER: Final = 1_000


class Position(Record, frozen=True):
    """The last row of a page."""

    timestamp: str | None  #: as stored; None when the row has none
    id: int | str


class Window(Record, frozen=True):
    """Which page of a list, and of which time."""

    limit: int
    position: Position | None = None  #: the page begins after it
    since: datetime | None = None  #: inclusive
    until: datetime | None = None  #: exclusive


class Page(Record, Generic[T], frozen=True):
    """Some rows of a list, and where the next page begins."""

    items: tuple[T, ...]
    next: Position | None  #: None: this is the last page


class ListedSummary(Record, frozen=True):
    """A summary as a line of a list, with its text or the beginning of it."""

    summary: Summary
    covers_until: Timestamp | None  #: the newest time it covers, else when it was made: the list's order
    content: str
    consumers: int
    sources: int
    source_messages: int


class _List(Record, frozen=True):
    """What the lists differ in."""

    table: str
    id: str
    time: str  #: SQL of the stored time, with the alias ``t``
    walk: str = ""  #: SQL of the order in which its rows are read


async def conversation_page(
    reader: Reader, window: Window, *, by_activity: bool = False
) -> Page[Conversation]:
    """Conversations, the one last updated first; *by_activity*: the one with the newest message."""
    time = _column(reader, "conversations", "updated_at")
    if by_activity:
        newest = f"""SELECT {reader.schema.select("messages", ("created_at",), "m")} FROM messages AS m
            WHERE m.conversation_id = t.conversation_id ORDER BY m.seq DESC LIMIT 1"""
        time = f"coalesce(({newest}), {time})"
    listed = _List("conversations", "conversation_id", time)
    columns = CONVERSATIONS.select(reader.schema, "t")
    rows, end = await _page(reader, listed, columns, window, (), ())
    return Page(tuple(CONVERSATIONS.record(row) for row in rows), end)


async def message_page(
    reader: Reader,
    conversation_id: ConversationId,
    window: Window,
    *,
    roles: Sequence[str] = (),
    whole: bool = False,
) -> Page[Message]:
    """Messages of a conversation, the newest first; texts are cut after `HEAD` characters unless *whole*."""
    where, parameters = ["t.conversation_id = ?"], (conversation_id, *roles)
    if roles:
        where.append(f"t.role IN ({', '.join('?' * len(roles))})")
    columns = MESSAGES.select(reader.schema, "t", content=_content(whole))
    place = await _place_by_seq(reader, conversation_id, window)
    if place is None:
        listed = _List("messages", "message_id", _column(reader, "messages", "created_at"), IN_SEQ_ORDER)
        rows, end = await _page(reader, listed, columns, window, where, parameters)
    else:
        if place:
            where.append("(t.seq, t.message_id) < (?, ?)")
        rows = await reader.rows(
            f"""SELECT CAST(t.created_at AS TEXT) AS page_time, t.message_id AS page_id, {columns}
            FROM messages AS t {where_all(where)} ORDER BY t.seq DESC, t.message_id DESC LIMIT ?""",
            *parameters,
            *place,
            window.limit + 1,
        )
        rows, end = _cut(rows, window.limit)
    return Page(tuple(MESSAGES.record(row) for row in rows), end)


async def _place_by_seq(
    reader: Reader, conversation_id: ConversationId, window: Window
) -> tuple[int, ...] | None:
    """Seq and id of the message behind which a page by seq begins, none for the first; None: page by time.

    That takes a look at each message of the conversation. By seq it is the same where no message is a copy
    (they are numbered below 0) and, of the newest, times fall with seq. Both are the same for every page, and
    so none is left out or listed twice, whatever older times are.
    """
    if (
        window.since is not None
        or window.until is not None
        or not reader.schema.has("messages", "created_at")
    ):
        return None
    first = await reader.stored(
        "SELECT seq FROM messages WHERE conversation_id = ? ORDER BY seq LIMIT 1", conversation_id
    )
    if not first or not isinstance(first[0]["seq"], int) or first[0]["seq"] < 0:
        return None
    newest = await reader.tuples(
        f"""SELECT {moment("created_at")}, message_id FROM messages
        WHERE conversation_id = ? ORDER BY seq DESC, message_id DESC LIMIT {_IN_ORDER}""",
        conversation_id,
    )
    if any(newer <= older for newer, older in pairwise(newest)) or not newest[-1][0]:
        return None
    if window.position is None:
        return ()
    behind = await reader.tuples(
        """SELECT seq, message_id, CAST(created_at AS TEXT) FROM messages
        WHERE message_id = ? AND conversation_id = ?""",
        window.position.id,
        conversation_id,
    )
    return behind[0][:2] if behind and behind[0][2] == window.position.timestamp else None


async def messages_by_id(reader: Reader, message_ids: Sequence[MessageId]) -> list[Message]:
    """Some messages whole, in the order asked; those that are gone are left out."""
    found = {one.message_id: one for one in await records_in(reader, MESSAGES, "message_id", message_ids)}
    return [found[message_id] for message_id in message_ids if message_id in found]


async def summary_page(
    reader: Reader,
    conversation_id: ConversationId | None,
    window: Window,
    *,
    depth: int | None = None,
    kind: str | None = None,
    whole: bool = False,
) -> Page[ListedSummary]:
    """Summaries of a conversation or of all, those that cover the newest time first."""
    if not reader.schema.has("summaries"):
        return Page((), None)
    wanted = {"conversation_id": conversation_id, "depth": depth, "kind": kind}
    given = {name: value for name, value in wanted.items() if value is not None}
    where = [f"{_column(reader, 'summaries', name)} = ?" for name in given]
    columns = _summary_columns(reader, whole=whole)
    listed = _List("summaries", "summary_id", _covers_until(reader))
    rows, end = await _page(reader, listed, columns, window, where, tuple(given.values()))
    return Page(tuple(await _listed_summaries(reader, rows)), end)


async def listed_summaries(reader: Reader, summary_ids: Sequence[SummaryId]) -> list[ListedSummary]:
    """Some summaries whole, in the order asked; those that are gone are left out."""
    if not reader.schema.has("summaries"):
        return []
    rows = await reader.rows_in(
        f"""SELECT {_summary_columns(reader, whole=True)}
        FROM summaries AS t WHERE t.summary_id IN (?*)""",
        summary_ids,
    )
    found = {item.summary.summary_id: item for item in await _listed_summaries(reader, rows)}
    return [found[summary_id] for summary_id in summary_ids if summary_id in found]


async def summaries_created(reader: Reader, summary_ids: Sequence[SummaryId]) -> dict[SummaryId, Timestamp]:
    """When some summaries were made; those that are gone are left out."""
    if not reader.schema.has("summaries", "created_at"):
        return {}
    rows = await reader.rows_in(
        "SELECT summary_id, CAST(created_at AS TEXT) AS created_at FROM summaries WHERE summary_id IN (?*)",
        summary_ids,
    )
    return {row["summary_id"]: row["created_at"] for row in rows}


async def file_page(
    reader: Reader, conversation_id: ConversationId | None, window: Window
) -> Page[LargeFile]:
    """Large files of a conversation or of all, the newest first."""
    if not reader.schema.has("large_files"):
        return Page((), None)
    condition, parameters = of_conversation("t.conversation_id", conversation_id)
    listed = _List("large_files", "file_id", _column(reader, "large_files", "created_at"))
    columns = FILES.select(reader.schema, "t")
    rows, end = await _page(reader, listed, columns, window, [condition], parameters)
    return Page(tuple(FILES.record(row) for row in rows), end)


# -- ids that are typed ------------------------------------------------------------------------------------

#: Ids that an ambiguous beginning names in its refusal.
CANDIDATES: Final = 10


async def summary_ids_beginning(
    reader: Reader, prefix: str, limit: int, within: Collection[ConversationId] | None = None
) -> list[SummaryId]:
    """At most *limit* ids of summaries that begin with *prefix*, in order; *within*: of these conversations.

    Bytes that are no UTF-8 are counted otherwise by SQLite: an id that holds some is found as a whole.
    """
    if not reader.schema.has("summaries"):
        return []
    rows = await reader.rows(
        f"""SELECT summary_id FROM summaries
        WHERE (substr(summary_id, 1, ?) = ? OR summary_id = ?) {of_these(within)}
        ORDER BY summary_id LIMIT ?""",
        len(prefix),
        prefix,
        prefix,
        limit,
    )
    return [SummaryId(row["summary_id"]) for row in rows]


async def whole_id(reader: Reader, named: str, within: Collection[ConversationId] | None = None) -> str:
    """What is *named*: the one summary or brief whose id begins so, else the name as it is.

    A citation names the whole id: it is not completed. *within*: only in these conversations; None: in all.

    Raises:
        UsageError: several begin so.
    """
    if named.startswith("sum_") and "@" not in named:
        ids = await summary_ids_beginning(reader, named, CANDIDATES + 1, within)
        return the_one(named, ids, "summaries", "summaryId") if ids else named
    if named.startswith("focus_") and "@" not in named:
        briefs = [brief for brief, _ in await briefs_beginning(reader, named, CANDIDATES + 1, within)]
        return the_one(named, briefs, "focus briefs", "briefId") if briefs else named
    return named


def the_one(wanted: str, found: Sequence[str], kind: str, name: str) -> str:
    """The id that is *wanted*, or the only one *found* that begins so.

    *kind* is what they are, for people, *name* what machines call the id.

    Raises:
        UsageError: there are several.
    """
    if wanted in found or len(found) == 1:
        return wanted if wanted in found else found[0]
    listed = ", ".join(found[:CANDIDATES]) + (", ..." if len(found) > CANDIDATES else "")
    raise UsageError(
        f"Several {kind} begin with {wanted}: {listed}. Give more of the id.",
        code="AMBIGUOUS_ID",
        details={name: wanted, "candidates": listed},
    )


def _column(reader: Reader, table: str, column: str) -> str:
    return f"t.{column}" if reader.schema.has(table, column) else "NULL"


def _covers_until(reader: Reader) -> str:
    latest, created = (_column(reader, "summaries", name) for name in ("latest_at", "created_at"))
    return f"coalesce({latest}, {created})"


def _summary_columns(reader: Reader, *, whole: bool) -> str:
    covers = f"CAST({_covers_until(reader)} AS TEXT) AS covers_until"
    content = reader.schema.typed("summaries", "content", _content(whole))
    return f"{SUMMARIES.select(reader.schema, 't')}, {content}, {covers}"


def _content(whole: bool) -> str:
    return "t.content" if whole else f"substr(t.content, 1, {HEAD})"


async def _page(
    reader: Reader,
    listed: _List,
    columns: str,
    window: Window,
    where: Sequence[str],
    parameters: Sequence[object],
) -> tuple[list[Row], Position | None]:
    """The rows of one page and where it ends, None when nothing follows.

    The inner query sorts ids and times alone; the columns of the page are read for its rows only.
    """
    conditions: list[str] = []
    values: list[object] = []
    if window.since is not None:
        conditions.append("moment >= julianday(?)")
        values.append(iso_z(window.since))
    if window.until is not None:
        conditions.append("moment < julianday(?) AND moment > 0")
        values.append(iso_z(window.until))
    if window.position is not None:
        conditions.append(f"(moment, id) < ((SELECT {moment('at')} FROM (SELECT ? AS at)), ?)")
        values += [_known_time(window.position.timestamp), window.position.id]
    rows = await reader.rows(
        f"""SELECT CAST(page.time AS TEXT) AS page_time, page.id AS page_id, {columns}
        FROM (
            SELECT place, id, time, moment
            FROM (
                SELECT t.rowid AS place, t.{listed.id} AS id,
                       {listed.time} AS time, {moment(listed.time)} AS moment
                FROM {listed.table} AS t {where_all(where)} {listed.walk}
            )
            {where_all(conditions)}
            ORDER BY moment DESC, id DESC LIMIT ?
        ) AS page JOIN {listed.table} AS t ON t.rowid = page.place
        ORDER BY page.moment DESC, page.id DESC""",
        *parameters,
        *values,
        window.limit + 1,
    )
    return _cut(rows, window.limit)


def _cut(rows: list[Row], limit: int) -> tuple[list[Row], Position | None]:
    """The rows of a page, of which one more was read, and where it ends."""
    if len(rows) <= limit:
        return rows, None
    return rows[:limit], Position(rows[limit - 1]["page_time"], rows[limit - 1]["page_id"])


def _known_time(stored: str | None) -> str | None:
    """A stored time as a parameter; text that holds bytes of no UTF-8 is no time."""
    return None if stored is None or re.search("[\ud800-\udfff]", stored) else stored


async def _listed_summaries(reader: Reader, rows: Sequence[Row]) -> list[ListedSummary]:
    ids = [row["summary_id"] for row in rows]
    consumers = await count_by(reader, "summary_parents", "parent_summary_id", ids)
    sources = await count_by(reader, "summary_parents", "summary_id", ids)
    source_messages = await count_by(reader, "summary_messages", "summary_id", ids)
    return [
        ListedSummary(
            SUMMARIES.record(row),
            row["covers_until"],
            row["content"] or "",
            consumers.get(row["summary_id"], 0),
            sources.get(row["summary_id"], 0),
            source_messages.get(row["summary_id"], 0),
        )
        for row in rows
    ]


# -- snapshots -------------------------------------------------------------------------------------------
# What an `Engine` noted of each context that it gave to a host.
#
# Table ``lcm_tui_assemblies`` is our own (docs/spec/format.md, "Tables of ours"); `lcm_core.change.snapshots`
# writes it. A snapshot holds numbers and references, never a text: what was sent is rebuilt from the rows
# that still exist, and the hash of the messages shows whether that is what was sent.

TABLE: Final = "lcm_tui_assemblies"

_COLUMNS: Final = "id, conversation_id, created_at, rules, zone, messages_hash, account, items"
#: How a kind of origin is written in a row.
CODES: Final[Mapping[OriginKind, str]] = {
    OriginKind.MESSAGE: "m",
    OriginKind.SUMMARY: "s",
    OriginKind.FOCUS_BRIEF: "f",
    OriginKind.SYNTHETIC: "y",
    OriginKind.LIVE: "l",
    OriginKind.CUE: "c",
}
_KINDS: Final = {code: kind for kind, code in CODES.items()}


class SnapshotItem(Record, frozen=True):
    """A message that was sent, or a context item that was chosen and then dropped."""

    kind: OriginKind
    ordinal: int | None  #: of the context item
    ref: int | str | None  #: the message, summary or focus brief; None: made up, or the host's own
    tokens: int  #: as sent

    @property
    def name(self) -> str:
        """What it is, for people: ``message 7`` or the id of a summary or focus brief."""
        if self.ref is None:
            return str(self.kind)
        return f"message {self.ref}" if self.kind is OriginKind.MESSAGE else str(self.ref)


class Snapshot(Record, frozen=True):
    """One assembly as it was noted. Source: table ``lcm_tui_assemblies``."""

    id: str  #: ``asm_`` and 16 hex digits
    conversation_id: ConversationId
    created_at: Timestamp
    rules: str  #: the name of the rules
    zone: str | None  #: of the times in wrappers; None: that of the host's machine, or one without a name
    messages_hash: str  #: the engine's ``finalMessagesHash``
    budget: int  #: tokens
    fresh_tail_count: int | None  #: what the operator asked for; None: as the rules say
    fresh_tail_max_tokens: int | None
    stub_large_tool_payloads: bool
    metadata: JsonObject  #: `Metadata.document`
    selection: str
    sent_tokens: int
    evicted: int  #: items that were not sent
    sent: tuple[SnapshotItem, ...]  #: as they were sent, in order
    dropped: tuple[SnapshotItem, ...]  #: chosen, then dropped
    cut: tuple[SnapshotItem, ...] = ()  #: chosen, and cut off last since the whole was over the budget


class DamagedSnapshot(Record, frozen=True):
    """A row of ``lcm_tui_assemblies`` that cannot be read."""

    id: str
    conversation_id: ConversationId
    created_at: Timestamp  #: as it is stored
    problem: str  #: in a sentence


async def snapshot_page(
    reader: Reader, conversation_id: ConversationId, window: Window
) -> Page[Snapshot | DamagedSnapshot]:
    """Snapshots of a conversation, the newest first; none where no engine of ours ran.

    A page behind a snapshot that has given way to newer ones is empty: what is older went before it.
    """
    if not await _exists(reader):
        return Page((), None)
    after = None if window.position is None else window.position.id
    rows = await reader.stored(
        f"""SELECT {_COLUMNS} FROM {TABLE} WHERE conversation_id = ?
        AND (? IS NULL OR rowid < (SELECT rowid FROM {TABLE} WHERE id = ? AND conversation_id = ?))
        ORDER BY rowid DESC LIMIT ?""",
        conversation_id,
        after,
        after,
        conversation_id,
        window.limit + 1,
    )
    found = tuple(_whole_or_damaged(row) for row in rows[: window.limit])
    more = len(rows) > window.limit
    return Page(found, Position(found[-1].created_at, found[-1].id) if more else None)


async def count_snapshots(reader: Reader, conversation_id: ConversationId) -> int:
    """How many snapshots are kept of a conversation."""
    if not await _exists(reader):
        return 0
    sql = f"SELECT count(*) AS n FROM {TABLE} WHERE conversation_id = ?"
    return int((await reader.stored(sql, conversation_id))[0]["n"])


def snapshot_until(db: Rows, conversation_id: int, seconds: int) -> tuple[str, str] | None:
    """Id and time of the newest snapshot that was kept until a moment, in seconds since 1970; None: none."""
    if not db.rows("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (TABLE,)):
        return None
    rows = db.rows(
        f"""SELECT id, created_at FROM {TABLE} WHERE conversation_id = ?
        AND CAST(strftime('%s', created_at) AS INTEGER) <= ? ORDER BY rowid DESC LIMIT 1""",
        (conversation_id, seconds),
    )
    return (str(rows[0]["id"]), str(rows[0]["created_at"])) if rows else None


async def get_snapshot(reader: Reader, conversation_id: ConversationId | None, snapshot_id: str) -> Snapshot:
    """One snapshot of a conversation, or of any (None), by its id or the beginning of it.

    Raises:
        NotFoundError: there is none of that id.
        UsageError: several ids begin so.
        DatabaseError: it cannot be read.
    """
    rows: Sequence[Row] = ()
    if await _exists(reader):
        rows = await reader.stored(
            f"""SELECT {_COLUMNS} FROM {TABLE} WHERE conversation_id = coalesce(?, conversation_id)
            AND substr(id, 1, ?) = ? ORDER BY id LIMIT 2""",
            conversation_id,
            len(snapshot_id),
            snapshot_id,
        )
    row = rows[0] if rows and snapshot_id else None
    if row is not None and len(rows) > 1 and row["id"] != snapshot_id:
        raise UsageError(
            f"More than one snapshot matches {snapshot_id}: "
            f"{rows[0]['id']}, {rows[1]['id']} … Give more of the id.",
            code="AMBIGUOUS_SNAPSHOT_ID",
            details={"snapshotId": snapshot_id},
        )
    if row is None:
        raise NotFoundError(
            f"There is no snapshot {snapshot_id}: newer ones may have replaced it. `lcm-tui context "
            f"{conversation_id or 'CONVERSATION'} --snapshots` lists those that exist.",
            code="SNAPSHOT_NOT_FOUND",
            details={"snapshotId": snapshot_id},
        )
    return _snapshot(row)


async def owner_of_snapshot(reader: Reader, snapshot_id: str) -> ConversationId | None:
    """The conversation of a snapshot; None: no snapshot has this id."""
    if not await _exists(reader):
        return None
    owner = await reader.value(f"SELECT conversation_id FROM {TABLE} WHERE id = ?", snapshot_id)
    return None if owner is None else ConversationId(owner)


async def _exists(reader: Reader) -> bool:
    return bool(
        await reader.value("SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = ?", TABLE)
    )


# -- how a row holds a snapshot --------------------------------------------------------------------------


def packed_items(*lists_of_items: Sequence[SnapshotItem]) -> bytes:
    """The items of a snapshot, compact: those that were sent, were dropped, were cut off last."""
    lists = [
        [[CODES[one.kind], one.ordinal, one.ref, one.tokens] for one in items] for items in lists_of_items
    ]
    return zlib.compress(json.dumps(lists, separators=(",", ":")).encode("ascii"), 6)


def packed_account(one: Snapshot) -> str:
    """The numbers of a snapshot as JSON."""
    account: JsonObject = {
        "budget": one.budget,
        "tailCount": one.fresh_tail_count,
        "tailMaxTokens": one.fresh_tail_max_tokens,
        "stubPayloads": one.stub_large_tool_payloads,
        "selection": one.selection,
        "sentTokens": one.sent_tokens,
        "evicted": one.evicted,
        "metadata": one.metadata,
    }
    return json.dumps(account, separators=(",", ":"))


def _whole_or_damaged(row: Row) -> Snapshot | DamagedSnapshot:
    try:
        return _snapshot(row)
    except DatabaseError as error:
        owner, at = ConversationId(row["conversation_id"]), Timestamp(str(row["created_at"]))
        return DamagedSnapshot(str(row["id"]), owner, at, error.message)


def _snapshot(row: Row) -> Snapshot:
    try:
        account = json.loads(row["account"])
        # There are two lists where a snapshot was taken before the last cut was noted.
        sent, dropped, *more = json.loads(zlib.decompress(row["items"]))
        return Snapshot(
            id=str(row["id"]),
            conversation_id=ConversationId(row["conversation_id"]),
            created_at=Timestamp(str(row["created_at"])),
            rules=str(row["rules"]),
            zone=_zone(row["zone"]),
            messages_hash=str(row["messages_hash"]),
            budget=int(account["budget"]),
            fresh_tail_count=_number(account["tailCount"]),
            fresh_tail_max_tokens=_number(account["tailMaxTokens"]),
            stub_large_tool_payloads=bool(account["stubPayloads"]),
            metadata=dict(account["metadata"]),
            selection=str(account["selection"]),
            sent_tokens=int(account["sentTokens"]),
            evicted=int(account["evicted"]),
            sent=tuple(map(_item, sent)),
            dropped=tuple(map(_item, dropped)),
            cut=tuple(map(_item, more[0])) if more else (),
        )
    except (zlib.error, ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise DatabaseError(
            f"Snapshot {row['id']} of conversation {row['conversation_id']} is damaged ({error}). A running "
            "engine replaces it with its next assemblies.",
            code="SNAPSHOT_DAMAGED",
        ) from error


def _item(cells: Sequence[Json]) -> SnapshotItem:
    code, ordinal, ref, tokens = cells
    if not isinstance(ref, int | str | None):
        raise ValueError(f"an item refers to {ref!r}")
    return SnapshotItem(_KINDS[str(code)], _number(ordinal), ref, _number(tokens) or 0)


def _zone(value: object) -> str | None:
    if value is not None and not isinstance(value, str):
        raise ValueError(f"{value!r} is not a time zone")
    return value


def _number(value: object) -> int | None:
    if value is not None and not isinstance(value, int):
        raise ValueError(f"{value!r} is not a number")
    return value
