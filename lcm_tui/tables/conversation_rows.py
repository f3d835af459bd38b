"""A conversation, or a session that only the disk knows, as a row of a list: cells, order, filter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from lcm_core.base.records import Conversation
from lcm_core.base.text import fold
from lcm_core.base.times import format_local, parse_utc, sort_key
from lcm_core.store.conversations import ConversationCounts, ConversationEntry

from lcm_tui.kit.spans import Column, Line, Span, StyleName, share_text
from lcm_tui.tables.blocks import bar_text, size_text

if TYPE_CHECKING:
    from lcm_core.store.statistics import ConversationSums
    from lcm_host.sessions import HostSession


# -- sessions of the host --------------------------------------------------------------------------------
# In words.

ON_DISK = "on disk"


def session_state(session: HostSession) -> str:
    """Where it lies: ``on disk`` (a file), ``living``, ``earlier``, ``cold``, ``deleted`` or ``archived``.

    ``earlier`` is a window of the host's database that its key does not go on with.
    """
    stored = session.storage.value
    if stored == "hot":
        return "living" if session.current else "earlier"
    return ON_DISK if stored == "jsonl" else stored


def session_name(session: HostSession) -> str:
    """Agent and channel as its key has them, as a conversation is called; without a key its id."""
    agent, _, lane = (session.session_key or "").removeprefix("agent:").partition(":")
    if not lane or not (session.session_key or "").startswith("agent:"):
        return session.session_key or session.session_id
    return lane if lane == agent else f"{agent} {lane}"


# -- why a session has several conversations -------------------------------------------------------------
# In words (docs/engine/sessions.md, "Events").

#: What ended a conversation, by its ``archive_cause``.
_CAUSES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "manual-reset": "by /reset",
        "session-deleted": "because the host deleted the session",
        "session-end": "because the session ended",
        "rollover-fallback": "by a rollover: the old transcript was missing, so the host started a new one",
        "cron-rotation": "because each run of the job starts a new one",
        "backfill": "by an import: the host does not continue it",
    }
)
#: The same as a state, in a cell of a list.
_STATES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "manual-reset": "reset",
        "session-deleted": "deleted session",
        "session-end": "session ended",
        "rollover-fallback": "rollover",
        "cron-rotation": "cron rotation",
        "backfill": "imported",
    }
)
_ROLLOVER: Final = "rollover-fallback"


def ended_state(conversation: Conversation) -> str:
    """The state of an archived conversation, in a cell: what ended it."""
    cause = conversation.archive_cause or "archived"
    return _STATES.get(cause, cause)


def ended_by(conversation: Conversation) -> str:
    """What ended an archived conversation; follows "archived"."""
    cause = conversation.archive_cause
    if not cause:
        return "for a reason that was not recorded"
    return _CAUSES.get(cause, f"with the cause {cause}")


def chain_line(conversation: Conversation, chain: Sequence[Conversation], merge_key: str) -> Line:
    """What comes before and behind a conversation of a session that has several; empty when it has one.

    *chain* are all of them by id; *merge_key* rejoins them where a rollover split them.
    """
    own = conversation.conversation_id
    before = next((one for one in reversed(chain) if one.conversation_id < own), None)
    behind = next((one for one in chain if one.conversation_id > own), None)
    spans: list[Span] = []
    if conversation.active is False:
        spans.append(Span(f" archived {ended_by(conversation)}", "warn"))
    if behind is not None:
        spans.append(Span(f"{'; ' if spans else ' '}the session continues in conversation "))
        spans.append(Span(str(behind.conversation_id), "key"))
    if before is not None:
        spans.append(Span(f"{'; ' if spans else ' '}the previous one is conversation "))
        spans.append(Span(str(before.conversation_id), "key"))
        if before.active is False:
            spans.append(Span(f", archived {ended_by(before)}"))
    split = any(one is not None and one.archive_cause == _ROLLOVER for one in (before, conversation))
    if split and (before is not None or behind is not None):
        spans.append(Span(f"; {merge_key} in the list rejoins them", "dim"))
    return tuple(spans)


# -- rows ------------------------------------------------------------------------------------------------

COLUMNS = (
    Column("id", "id", 5, right=True, keep=100),
    Column("name", "conversation", 20, grows=True, keep=95, wish=32),
    Column("agent", "agent", 9, keep=12),
    Column("session", "session", 18, keep=10),
    Column("state", "state", 15, keep=45),
    Column("messages", "messages", 8, right=True, keep=65),
    Column("depths", "summaries", 23, keep=60),
    Column("tokens", "tokens", 13, right=True, keep=50),
    Column("bytes", "bytes", 13, right=True, keep=72),
    Column("context", "context", 7, right=True, keep=55),
    Column("context_tokens", "ctx tokens", 10, right=True, keep=52),
    Column("share", "of budget", 11, right=True, keep=75),
    Column("broken", "broken", 6, right=True, keep=80),
    Column("activity", "last activity", 16, keep=85, timed="last"),
)
#: Columns whose values are read behind the first page.
COUNTED = frozenset({"messages", "tokens", "bytes", "depths", "context", "context_tokens", "share", "broken"})
#: Cells of the bar beside a number, and beside a share.
BAR, SHARE_BAR = 4, 3

#: A context above this share of the budget is about to be compacted (``contextThreshold`` is 0.75).
HIGH_SHARE = 0.7
PENDING = "…"
UNRECORDED = "–"

RowKey = int | str  #: conversation id, or agent and id of a session that only the host knows


@dataclass(frozen=True, slots=True)
class Row:
    """What is known so far about a conversation, or about a session that only the host knows."""

    entry: ConversationEntry | None
    session: HostSession | None = None
    counts: ConversationCounts | None = None
    sums: ConversationSums | None = None
    words: str | None = None  #: how its first user message begins; None: not read yet
    bytes: int | None = None  #: of its texts; None: not measured yet
    newer: int = 0  #: messages that the host has and the database has not

    @property
    def conversation(self) -> Conversation | None:
        """The conversation, when the database knows it."""
        return self.entry.conversation if self.entry else None


def with_sessions(rows: Mapping[RowKey, Row], sessions: Collection[HostSession]) -> dict[RowKey, Row]:
    """The conversations of *rows*, and below them those of *sessions* that the database does not know."""
    held = {key: row for key, row in rows.items() if row.entry is not None}
    if not sessions:
        return held
    from lcm_host.sessions import unknown_to

    conversations = [row.conversation for row in held.values() if row.conversation is not None]
    ids = {one.session_id for one in conversations}
    keys = {one.session_key for one in conversations if one.session_key}
    for one in unknown_to(sessions, ids, keys):
        held[f"{one.agent or ''}/{one.session_id}"] = Row(None, one)
    return held


@dataclass(frozen=True, slots=True)
class Scale:
    """What the bars of a list are measured against; 0: nothing is known yet."""

    tokens: int = 0  #: of the conversation with the most
    bytes: int = 0
    budget: int = 0  #: tokens


def scale_of(rows: Iterable[Row], budget: int) -> Scale:
    """The largest numbers of a list."""
    held = list(rows)
    return Scale(
        max((row.sums.message_tokens for row in held if row.sums is not None), default=0),
        max((row.bytes for row in held if row.bytes is not None), default=0),
        budget,
    )


def wider(one: Scale, other: Scale) -> Scale:
    """The scale of both lists."""
    return Scale(max(one.tokens, other.tokens), max(one.bytes, other.bytes), other.budget)


def names_of(rows: Mapping[RowKey, Row]) -> dict[RowKey, str]:
    """What a person tells each row by: its title, else agent and channel, and how its user began.

    A title that only one conversation has is enough; where all of it is alike, the id is added.
    """
    titles = Counter(row.conversation.title for row in rows.values() if row.conversation is not None)
    names = {key: _name(row, titles) for key, row in rows.items()}
    alike = Counter(names.values())
    return {key: f"{name} #{key}" if alike[name] > 1 else name for key, name in names.items()}


def _name(row: Row, titles: Mapping[str | None, int]) -> str:
    one = row.conversation
    if one is None:
        return session_name(row.session) if row.session is not None else ""
    title, words = one.told_title, row.words or ""
    if title and titles[one.title] == 1:
        return title
    known = title or one.channel
    if not known:
        return f"“{words}”" if words else one.session_id
    return f"{known}  “{words}”" if words else known


def cells_of(row: Row, zone: tzinfo | None, name: str = "", scale: Scale = Scale()) -> Mapping[str, Span]:
    """What stands in each column."""
    if row.entry is None:
        return _disk_cells(row.session, zone) if row.session else {}
    conversation, counts, sums = row.entry.conversation, row.counts, row.sums
    return {
        "id": Span(str(conversation.conversation_id), "key"),
        "agent": Span(conversation.agent or UNRECORDED),
        "name": Span(name or conversation.name, "dim" if conversation.active is False else "text"),
        "session": Span(conversation.lane, "dim"),
        "state": Span(f"{row.newer:,} newer", "error") if row.newer else _state(conversation),
        "messages": Span(_number(counts.messages if counts else None)),
        "tokens": _measured(sums.message_tokens if sums else None, scale.tokens),
        "bytes": _measured(row.bytes, scale.bytes, size_text),
        "depths": Span(_depths(counts)),
        "context": Span(_number(counts.context_items if counts else None)),
        "context_tokens": Span(_number(sums.context_tokens if sums else None)),
        "share": _share(sums, scale.budget),
        "broken": _broken(sums),
        "activity": _said_at(row.entry.last_activity, zone),
    }


def _disk_cells(session: HostSession, zone: tzinfo | None) -> dict[str, Span]:
    newest, state = session.newest_at, session_state(session)
    return {
        "id": Span("disk", "warn"),
        "agent": Span(session.agent or UNRECORDED),
        # A narrow list has no column for the state; that a file lies on the disk is said by the first one.
        "name": Span(session_name(session) if state == ON_DISK else f"{state}  {session_name(session)}"),
        "session": Span(session.session_key or session.session_id),
        "state": Span(state, "warn"),
        "activity": Span(format_local(newest, zone)[:16]) if newest else Span("no messages", "dim"),
    }


def _said_at(stamp: str | None, zone: tzinfo | None) -> Span:
    moment = parse_utc(stamp)
    return Span(format_local(moment, zone)[:16]) if moment else Span(stamp or "no messages", "dim")


def _state(conversation: Conversation) -> Span:
    if conversation.active is None:
        return Span(UNRECORDED, "dim")
    if conversation.active:
        return Span("active", "ok")
    return Span(ended_state(conversation), "warn")


def _number(value: int | None) -> str:
    return PENDING if value is None else f"{value:,}"


def _measured(value: int | None, most: int, text: Callable[[int], str] = "{:,}".format) -> Span:
    """A number beside its bar."""
    if value is None:
        return Span(PENDING)
    return Span(f"{bar_text(value / most, BAR) if most else ''} {text(value):>8}")


def _share(sums: ConversationSums | None, budget: int) -> Span:
    """How much of the budget the context takes."""
    if sums is None or not budget:
        return Span(PENDING)
    share = sums.context_tokens / budget
    style: StyleName = "error" if share > 1 else "warn" if share > HIGH_SHARE else "text"
    return Span(f"{bar_text(share, SHARE_BAR)} {share_text(share):>7}", style)


def _depths(counts: ConversationCounts | None) -> str:
    if counts is None:
        return PENDING
    return " ".join(
        f"leaf·{found.count}" if found.depth == 0 else f"D{found.depth}·{found.count}"
        for found in counts.summaries
    )


def _broken(sums: ConversationSums | None) -> Span:
    if sums is None:
        return Span(PENDING, "dim")
    return Span(f"✗{sums.broken}", "error") if sums.broken else Span("")


# -- filter ------------------------------------------------------------------------------------------------


class RowFilter:
    """Which rows hold all of some words, in any column; what a row says is put together once."""

    def __init__(self) -> None:
        self._said: dict[RowKey, tuple[Row, str, str]] = {}  #: a row, its name, and what it says
        self._listed: tuple[Sequence[RowKey], list[str]] | None = None  #: keys, and what their rows say

    def passing(
        self,
        keys: Sequence[RowKey],
        rows: Mapping[RowKey, Row],
        names: Mapping[RowKey, str],
        words: Sequence[str],
        zone: tzinfo | None,
    ) -> Sequence[RowKey]:
        """Those of *keys*, in their order, whose rows hold every one of *words*, which are in lower case."""
        if not words:
            return keys
        if self._listed is None or self._listed[0] is not keys:
            self._listed = (keys, [self._text(key, rows[key], names.get(key, ""), zone) for key in keys])
        found: Iterable[tuple[RowKey, str]] = zip(*self._listed, strict=True)
        for word in words:
            found = [pair for pair in found if word in pair[1]]
        return [key for key, _ in found]

    def forget(self) -> None:
        """Rows or names are others: who calls `passing` with the keys of before wants these."""
        self._listed = None

    def _text(self, key: RowKey, row: Row, name: str, zone: tzinfo | None) -> str:
        held = self._said.get(key)
        known = held is not None and held[0] is row and held[1] == name
        return held[2] if held is not None and known else self.learn(key, row, name, zone)

    def learn(self, key: RowKey, row: Row, name: str, zone: tzinfo | None) -> str:
        """What a row says in all its columns, folded; it is kept."""
        text = fold(" ".join(span.text for span in cells_of(row, zone, name).values()))
        self._said[key] = (row, name, text)
        return text


# -- order -------------------------------------------------------------------------------------------------

Order = Callable[[ConversationEntry, Row], Any]
_LONG_AGO = datetime.min.replace(tzinfo=UTC)


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
    "name": (_text(lambda conversation: conversation.name), False),
    "state": (_text(lambda conversation: _state(conversation).text), False),
    "messages": (_count(lambda row: row.counts.messages if row.counts else None), True),
    "tokens": (_count(lambda row: row.sums.message_tokens if row.sums else None), True),
    "bytes": (_count(lambda row: row.bytes), True),
    "share": (_count(lambda row: row.sums.context_tokens if row.sums else None), True),
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
    """The keys in the order of a column; sessions that only the host knows are below, newest first."""
    order, descending = ORDERS[column]
    listed: list[tuple[Any, RowKey]] = []
    disk: list[tuple[datetime, str]] = []
    for key in keys:
        row = rows[key]
        if row.entry is not None:
            listed.append((order(row.entry, row), key))
        elif row.session is not None:
            disk.append((row.session.newest_at or _LONG_AGO, str(key)))
    listed.sort(key=lambda pair: pair[0], reverse=descending != turned)
    disk.sort(reverse=True)
    return [*(key for _, key in listed), *(path for _, path in disk)]
