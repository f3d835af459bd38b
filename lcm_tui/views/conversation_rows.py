"""A conversation, or a session that only the disk knows, as a row of a list: cells, order, filter."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import TYPE_CHECKING, Any

from lcm_core.records import Conversation
from lcm_core.store.conversations import ConversationCounts, ConversationEntry
from lcm_core.times import format_local, parse_utc, sort_key

from lcm_tui.widgets.spans import Column, Span

if TYPE_CHECKING:  # neither is known when the first rows are drawn
    from lcm_core.ingest.sessions import DiskSession
    from lcm_core.store.statistics import ConversationSums

COLUMNS = (
    Column("id", "id", 5, right=True, keep=100),
    Column("agent", "agent", 9, keep=40),
    Column("session", "session", 18, grows=True, keep=90),
    Column("title", "title", 13, keep=10),
    Column("state", "state", 15, keep=45),
    Column("messages", "messages", 8, right=True, keep=80),
    Column("tokens", "tokens", 9, right=True, keep=50),
    Column("depths", "summaries", 18, keep=60),
    Column("context", "context", 7, right=True, keep=55),
    Column("context_tokens", "tokens", 8, right=True, keep=52),
    Column("broken", "bad", 4, right=True, keep=70),
    Column("activity", "last activity", 16, keep=85),
)
#: Columns whose values are read behind the first page.
COUNTED = frozenset({"messages", "tokens", "depths", "context", "context_tokens", "broken"})

PENDING = "…"
UNRECORDED = "–"

RowKey = int | str  #: conversation id, or the path of a session on disk


@dataclass(frozen=True, slots=True)
class Row:
    """What is known so far about a conversation, or about a session that only the disk knows."""

    entry: ConversationEntry | None
    session: DiskSession | None = None
    counts: ConversationCounts | None = None
    sums: ConversationSums | None = None

    @property
    def conversation(self) -> Conversation | None:
        """The conversation, when the database knows it."""
        return self.entry.conversation if self.entry else None


def with_sessions(rows: Mapping[RowKey, Row], sessions: Collection[DiskSession]) -> dict[RowKey, Row]:
    """The conversations of *rows*, and below them those of *sessions* that the database does not know."""
    held = {key: row for key, row in rows.items() if row.entry is not None}
    if not sessions:
        return held
    from lcm_core.ingest.sessions import KnownSession, unknown_to

    conversations = [row.conversation for row in held.values() if row.conversation is not None]
    known = [KnownSession(one.session_id, one.session_key) for one in conversations]
    return held | {str(one.path): Row(None, one) for one in unknown_to(sessions, known)}


def cells_of(row: Row, zone: tzinfo | None) -> Mapping[str, Span]:
    """What stands in each column."""
    if row.entry is None:
        return _disk_cells(row.session, zone) if row.session else {}
    conversation, counts, sums = row.entry.conversation, row.counts, row.sums
    return {
        "id": Span(str(conversation.conversation_id), "key"),
        "agent": Span(conversation.agent or UNRECORDED),
        "session": Span(conversation.lane, "dim" if conversation.active is False else "text"),
        "title": Span(conversation.title or "", "dim"),
        "state": _state(conversation),
        "messages": Span(_number(counts.messages if counts else None)),
        "tokens": Span(_number(sums.message_tokens if sums else None)),
        "depths": Span(_depths(counts)),
        "context": Span(_number(counts.context_items if counts else None)),
        "context_tokens": Span(_number(sums.context_tokens if sums else None)),
        "broken": _broken(sums),
        "activity": _said_at(row.entry.last_activity, zone),
    }


def _disk_cells(session: DiskSession, zone: tzinfo | None) -> dict[str, Span]:
    return {
        "id": Span("disk", "warn"),
        "agent": Span(session.agent or UNRECORDED),
        "session": Span(session.session_key or session.session_id),
        "state": Span("on disk", "warn"),
        "activity": Span(format_local(session.modified, zone)[:16]),
    }


def _said_at(stamp: str | None, zone: tzinfo | None) -> Span:
    moment = parse_utc(stamp)
    return Span(format_local(moment, zone)[:16]) if moment else Span(stamp or "no messages", "dim")


def _state(conversation: Conversation) -> Span:
    if conversation.active is None:
        return Span(UNRECORDED, "dim")
    if conversation.active:
        return Span("active", "ok")
    return Span(conversation.archive_cause or "archived", "warn")


def _number(value: int | None) -> str:
    return PENDING if value is None else f"{value:,}"


def _depths(counts: ConversationCounts | None) -> str:
    if counts is None:
        return PENDING
    return " ".join(f"{'L' if found.depth == 0 else found.depth}:{found.count}" for found in counts.summaries)


def _broken(sums: ConversationSums | None) -> Span:
    if sums is None:
        return Span(PENDING, "dim")
    return Span(f"✗{sums.broken}", "error") if sums.broken else Span("")


# -- filter ------------------------------------------------------------------------------------------------


class RowFilter:
    """Which rows hold all of some words, in any column; what a row says is put together once."""

    def __init__(self) -> None:
        self._said: dict[RowKey, tuple[Row, str]] = {}

    def passing(self, rows: Mapping[RowKey, Row], words: Sequence[str], zone: tzinfo | None) -> list[RowKey]:
        """The keys of the rows that hold every one of *words*, which are in lower case."""
        if not words:
            self._said.clear()
            return list(rows)
        return [key for key, row in rows.items() if all(word in self._text(key, row, zone) for word in words)]

    def _text(self, key: RowKey, row: Row, zone: tzinfo | None) -> str:
        held = self._said.get(key)
        if held is None or held[0] is not row:
            text = " ".join(span.text for span in cells_of(row, zone).values()).casefold()
            held = self._said[key] = (row, text)
        return held[1]


# -- order -------------------------------------------------------------------------------------------------

Order = Callable[[ConversationEntry, Row], Any]


def _text(value: Callable[[Conversation], str]) -> Order:
    return lambda entry, _: (
        value(entry.conversation).casefold(),
        _activity(entry),
        entry.conversation.conversation_id,
    )


def _count(value: Callable[[Row], int | None]) -> Order:
    """What has not been read yet counts as less than nothing."""

    def order(entry: ConversationEntry, row: Row) -> tuple[object, ...]:
        counted = value(row)
        return (-1 if counted is None else counted, _activity(entry), entry.conversation.conversation_id)

    return order


def _activity(entry: ConversationEntry) -> datetime:
    return sort_key(entry.last_activity or entry.conversation.updated_at)


#: How each column sorts, and whether its largest value comes first.
ORDERS: Mapping[str, tuple[Order, bool]] = {
    "activity": (lambda entry, _: (_activity(entry), entry.conversation.conversation_id), True),
    "id": (lambda entry, _: entry.conversation.conversation_id, False),
    "agent": (_text(lambda conversation: conversation.agent or ""), False),
    "session": (_text(lambda conversation: conversation.lane), False),
    "title": (_text(lambda conversation: conversation.title or ""), False),
    "state": (_text(lambda conversation: _state(conversation).text), False),
    "messages": (_count(lambda row: row.counts.messages if row.counts else None), True),
    "tokens": (_count(lambda row: row.sums.message_tokens if row.sums else None), True),
    "depths": (
        _count(lambda row: sum(found.count for found in row.counts.summaries) if row.counts else None),
        True,
    ),
    "context": (_count(lambda row: row.counts.context_items if row.counts else None), True),
    "context_tokens": (_count(lambda row: row.sums.context_tokens if row.sums else None), True),
    "broken": (_count(lambda row: row.sums.broken if row.sums else None), True),
}


def ordered(
    rows: Mapping[RowKey, Row], keys: Iterable[RowKey], column: str, *, turned: bool
) -> Sequence[RowKey]:
    """The keys in the order of a column; sessions that only the disk knows stand below, newest first."""
    order, descending = ORDERS[column]
    listed: list[tuple[Any, RowKey]] = []
    disk: list[tuple[datetime, str]] = []
    for key in keys:
        row = rows[key]
        if row.entry is not None:
            listed.append((order(row.entry, row), key))
        elif row.session is not None:
            disk.append((row.session.modified, str(key)))
    listed.sort(key=lambda pair: pair[0], reverse=descending != turned)
    disk.sort(reverse=True)
    return [*(key for _, key in listed), *(path for _, path in disk)]
