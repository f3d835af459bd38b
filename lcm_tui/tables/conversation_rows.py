"""A conversation, or a session that only the disk knows, as a row of a list: cells, order, filter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime, tzinfo
from operator import attrgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from lcm_core.base.records import Conversation
from lcm_core.base.text import counted, depth_name, fold
from lcm_core.base.times import format_local, parse_utc, sort_key
from lcm_core.base.values import Record
from lcm_core.store.conversations import ConversationCounts, ConversationEntry

from lcm_tui.kit.spans import Line, Span, StyleName, share_text
from lcm_tui.tables.blocks import PENDING, UNRECORDED, ListColumn, bar_text, size_text

if TYPE_CHECKING:
    from lcm_core.engine.rules import FreshTail
    from lcm_core.store.statistics import ConversationSums, Statistics
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
# In words (docs/spec/sessions.md, "Events").

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


def state_of(conversation: Conversation) -> str:
    """Its state, in a cell of a list: of an archived one what ended it."""
    if conversation.active is None:
        return UNRECORDED
    cause = conversation.archive_cause or "archived"
    return "active" if conversation.active else _STATES.get(cause, cause)


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

#: Cells of the bar beside a number, and beside a share.
BAR, SHARE_BAR = 4, 3

#: A context above this share of the budget is about to be compacted (``contextThreshold`` is 0.75).
HIGH_SHARE = 0.7
RowKey = int | str  #: conversation id, or agent and id of a session that only the host knows


class Row(Record, frozen=True):
    """What is known so far about a conversation, or about a session that only the host knows."""

    entry: ConversationEntry | None
    session: HostSession | None = None
    counts: ConversationCounts | None = None
    sums: ConversationSums | None = None
    unreadable: bool = False  #: the file is damaged where its messages or summaries are
    words: str | None = None  #: how its first user message begins; None: not read yet
    newer: int = 0  #: messages that the host has and the database has not
    findings: int = 0  #: of the checks of the structure
    suspicious: int = 0
    stale: int = 0  #: summaries made from a text that was replaced since
    stuck: int = 0  #: 1: work of the engine does not go on by itself
    budget: int = 0  #: tokens, of which its context takes a share; 0: not known
    counted: Statistics | None = None  #: in a command, in place of counts and sums
    tail: FreshTail | None = None

    @property
    def conversation(self) -> Conversation | None:
        """The conversation, when the database knows it."""
        return self.entry.conversation if self.entry else None


def troubles(*rows: Row) -> Sequence[tuple[float, str]]:
    """What can be wrong with conversations, how much of it there is and in words: what they are sorted by."""
    broken = sum(0 if row.sums is None else row.sums.broken for row in rows)
    findings, suspicious = (sum(getattr(row, name) for row in rows) for name in ("findings", "suspicious"))
    newer, stale = (sum(getattr(row, name) for row in rows) for name in ("newer", "stale"))
    shares = [row.sums.context_tokens / row.budget for row in rows if row.sums is not None and row.budget]
    fullest = max((share for share in shares if share > HIGH_SHARE), default=0.0)
    return (
        (sum(row.unreadable for row in rows), "unreadable"),
        (broken, f"{broken:,} broken"),
        (findings, counted(findings, "finding")),
        (sum(row.stuck for row in rows), "engine stuck"),
        (newer, f"{newer:,} newer"),
        (stale, counted(stale, "stale summary")),
        (fullest, f"context {fullest:.0%}"),
        (suspicious, f"{suspicious:,} suspicious"),
    )


def words_of(found: Sequence[tuple[float, str]]) -> list[str]:
    """The words of what there is."""
    return [words for number, words in found if number]


def troubles_by_agent(rows: Iterable[Row]) -> dict[str, Sequence[tuple[float, str]]]:
    """What is wrong with the conversations of each agent together."""
    of_agent: dict[str, list[Row]] = {}
    for row in rows:
        if row.conversation is not None:
            of_agent.setdefault(row.conversation.agent or "", []).append(row)
    return {agent: troubles(*held) for agent, held in of_agent.items()}


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


class Scale(Record, frozen=True):
    """What the bars of a list are measured against; 0: nothing is known yet."""

    tokens: int = 0  #: of the conversation with the most
    bytes: int = 0
    budget: int = 0  #: tokens


def scale_of(rows: Iterable[Row], budget: int) -> Scale:
    """The largest numbers of a list."""
    held = list(rows)
    return Scale(
        max((row.sums.message_tokens for row in held if row.sums is not None), default=0),
        max((row.sums.bytes for row in held if row.sums is not None), default=0),
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


class Drawing(Record, frozen=True):
    """What the cells of a row are drawn with."""

    zone: tzinfo | None
    name: str  #: what a person tells the row by
    scale: Scale


def cells_of(row: Row, zone: tzinfo | None, name: str = "", scale: Scale = Scale()) -> Mapping[str, Span]:
    """What stands in each column."""
    if row.entry is None:
        return _disk_cells(row.session, zone) if row.session else {}
    drawing = Drawing(zone, name, scale)
    cells = {column.name: column.draw(row, drawing) for column in COLUMNS}
    if row.unreadable:  # what still waits never comes
        lost = {name for name, cell in cells.items() if cell.text == PENDING}
        cells |= {name: Span("unreadable" if name == "bytes" else UNRECORDED, "warn") for name in lost}
    return cells


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


def _name_cell(value: str, row: Row, drawing: Drawing) -> Span:
    archived = row.conversation is not None and row.conversation.active is False
    return Span(drawing.name or value, "dim" if archived else "text")


def _state_cell(value: str, row: Row, _: Drawing) -> Span:
    if row.newer:
        return Span(f"{row.newer:,} newer", "error")
    styles: Mapping[str, StyleName] = {UNRECORDED: "dim", "active": "ok"}
    return Span(value, styles.get(value, "warn"))


def _activity_cell(value: str | None, _: Row, drawing: Drawing) -> Span:
    moment = parse_utc(value)
    return Span(format_local(moment, drawing.zone)[:16]) if moment else Span(value or "no messages", "dim")


def _measured(value: int | None, most: int, text: Callable[[int], str] = "{:,}".format) -> Span:
    """A number beside its bar."""
    if value is None:
        return Span(PENDING)
    return Span(f"{bar_text(value / most, BAR) if most else ''} {text(value):>8}")


def _share_cell(tokens: int | None, _: Row, drawing: Drawing) -> Span:
    """How much of the budget the context takes."""
    budget = drawing.scale.budget
    if tokens is None or not budget:
        return Span(PENDING)
    share = tokens / budget
    style: StyleName = "error" if share > 1 else "warn" if share > HIGH_SHARE else "text"
    return Span(f"{bar_text(share, SHARE_BAR)} {share_text(share):>7}", style)


def _depths_cell(_: int | None, row: Row, __: Drawing) -> Span:
    if row.counts is None:
        return Span(PENDING)
    return Span(" ".join(f"{depth_name(one.depth)}·{one.count}" for one in row.counts.summaries))


def _broken_cell(value: int | None, row: Row, _: Drawing) -> Span:
    """How many summaries are broken, or that something else is."""
    if row.unreadable:
        return Span("✗", "error")
    if value is None:
        return Span(PENDING, "dim")
    return Span(f"✗{value or 'other'}", "error") if value or row.findings else Span("")


def _trouble(row: Row) -> Sequence[tuple[float, str]]:
    return () if row.sums is None and not row.unreadable else troubles(row)


def _trouble_cell(value: Sequence[tuple[float, str]], _: Row, __: Drawing) -> Span:
    if not value:
        return Span(PENDING, "dim")
    return Span(", ".join(words_of(value)), "error" if words_of(value[:5]) else "warn")


def _at(*paths: str) -> Callable[[Row], Any]:
    """The value at the first of *paths* whose record has been read, or None."""
    ways = [(attrgetter(path.partition(".")[0]), attrgetter(path)) for path in paths]

    def value(row: Row) -> Any:
        for record, way in ways:
            if record(row) is not None:
                return way(row)
        return None

    return value


_summaries = _at("counted.summaries.count", "counts.summary_count")
_context_tokens = _at("counted.context_tokens", "sums.context_tokens")
# fmt: off
#: What is said of the row of a conversation, by itself and at the head of lists.
ROW_COLUMNS: Final[tuple[ListColumn[Row, Drawing], ...]] = (
    ListColumn("id", "id", 5, right=True, keep=100, heading="Id", json="conversationId",
               agents="conversationId", value=_at("conversation.conversation_id"),
               cell=lambda value, _, __: Span(str(value), "key")),
    ListColumn("session_id", json="sessionId", value=_at("conversation.session_id")),
    ListColumn("session_key", json="sessionKey", agents="sessionKey", stored="conversations.session_key",
               value=_at("conversation.session_key")),
    ListColumn("active", json="active", agents="active", stored="conversations.active",
               value=_at("conversation.active")),
    ListColumn("archived_at", json="archivedAt", stored="conversations.archived_at",
               value=_at("conversation.archived_at")),
    ListColumn("title", json="title", agents="title", value=_at("conversation.title")),
    ListColumn("bootstrapped_at", json="bootstrappedAt", value=_at("conversation.bootstrapped_at")),
    ListColumn("created_at", json="createdAt", stored="conversations.created_at", time=True,
               value=_at("conversation.created_at")),
    ListColumn("updated_at", json="updatedAt", stored="conversations.updated_at", time=True,
               value=_at("conversation.updated_at")),
)
#: All that lists say of a conversation, in order.
CONVERSATION_COLUMNS: Final[tuple[ListColumn[Row, Drawing], ...]] = (
    *ROW_COLUMNS,
    ListColumn("name", "conversation", 20, grows=True, keep=95, wish=44, value=_at("conversation.name"),
               cell=_name_cell),
    ListColumn("agent", "agent", 9, keep=12, heading="Agent", spare=1, value=_at("conversation.agent")),
    ListColumn("named", grows=True, heading="Session", value=_at("conversation.name")),
    ListColumn("session", "session", 18, keep=10, value=_at("conversation.lane"),
               cell=lambda value, _, __: Span(value, "dim")),
    ListColumn("state", "state", 15, keep=45, heading="State", spare=2, stored="conversations.active",
               value=lambda row: row.conversation and state_of(row.conversation), cell=_state_cell),
    ListColumn("messages", "messages", 8, right=True, keep=65, heading="Messages", json="messageCount",
               agents="messages", counted=True, value=_at("counted.messages.count", "counts.messages")),
    ListColumn("depths", "summaries", 23, keep=60, counted=True, value=_summaries, cell=_depths_cell),
    ListColumn("tokens", "tokens", 13, right=True, keep=49, heading="Tokens", spare=6, json="messageTokens",
               counted=True, value=_at("counted.messages.tokens", "sums.message_tokens"),
               cell=lambda value, _, drawing: _measured(value, drawing.scale.tokens)),
    ListColumn("earliest", json="earliestMessageAt", value=_at("counted.messages.earliest")),
    ListColumn("latest", json="latestMessageAt", value=_at("counted.messages.latest")),
    ListColumn("summaries", right=True, heading="Summaries", spare=4, json="summaryCount",
               agents="summaries", value=_summaries),
    ListColumn("summary_tokens", json="summaryTokens", value=_at("counted.summaries.tokens")),
    ListColumn("covered", json="summarizedSourceTokens", value=_at("counted.covered_tokens")),
    ListColumn("first_covered", json="earliestSummaryAt", value=_at("counted.summaries.earliest")),
    ListColumn("last_covered", json="latestSummaryAt", value=_at("counted.summaries.latest")),
    ListColumn("depth", right=True, heading="Depth", spare=5, json="maxSummaryDepth",
               value=_at("counted.max_depth")),
    ListColumn("bytes", "bytes", 13, right=True, keep=72, counted=True, value=_at("sums.bytes"),
               cell=lambda value, _, drawing: _measured(value, drawing.scale.bytes, size_text)),
    ListColumn("context", "context", 7, right=True, keep=48, heading="Context", spare=3, json="contextItems",
               agents="contextItems", counted=True,
               value=_at("counted.context_items", "counts.context_items")),
    ListColumn("context_tokens", "ctx tokens", 10, right=True, keep=46, heading="Tokens", spare=6,
               json="contextTokens", counted=True, value=_context_tokens),
    ListColumn("tail_messages", json="freshTailMessages", value=_at("tail.messages")),
    ListColumn("tail_tokens", json="freshTailTokens", value=_at("tail.tokens")),
    ListColumn("share", "of budget", 11, right=True, keep=75, counted=True, value=_context_tokens,
               cell=_share_cell),
    ListColumn("broken", "broken", 6, right=True, keep=93, counted=True, value=_at("sums.broken"),
               cell=_broken_cell),
    ListColumn("trouble", "trouble", 24, keep=62, wish=35, counted=True, value=_trouble, cell=_trouble_cell),
    ListColumn("activity", "last activity", 16, keep=85, timed="last", heading="Last message",
               agents="lastMessageAt", time=True, value=_at("entry.last_activity"), cell=_activity_cell),
)
# fmt: on
#: Those in the app, and of these what is read behind the first page.
COLUMNS: Final = tuple(column for column in CONVERSATION_COLUMNS if column.width)
#: Beside them while the list is sorted by it: the worst agent first, and of each the worst conversation.
AGENT_TROUBLE: Final[ListColumn[Row, Drawing]] = ListColumn(
    "agent_trouble", "agent trouble", 30, keep=62, wish=42, counted=True, value=_trouble
)
COUNTED: Final = frozenset(column.name for column in (*COLUMNS, AGENT_TROUBLE) if column.counted)


# -- filter ------------------------------------------------------------------------------------------------


class RowFilter:
    """Which rows hold all of some words, in any column; what a row says is put together once."""

    def __init__(self) -> None:
        self._said: dict[RowKey, tuple[Row, str, str]] = {}  #: a row, its name, and what it says
        #: Keys, and beside each what its row says.
        self._listed: tuple[Sequence[RowKey], list[tuple[RowKey, str]]] | None = None
        #: The words of the last call, and what of that held them: the next letter leaves fewer.
        self._passed: tuple[Sequence[str], list[tuple[RowKey, str]]] = ((), [])

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
            said = [(key, self._text(key, rows[key], names.get(key, ""), zone)) for key in keys]
            self._listed = (keys, said)
            self._passed = ((), said)
        before, found = self._passed
        if not all(any(old in word for word in words) for old in before):
            before, found = (), self._listed[1]
        for word in words:
            if word not in before:
                found = [pair for pair in found if word in pair[1]]
        self._passed = (words, found)
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

_LONG_AGO = datetime.min.replace(tzinfo=UTC)


def falls(name: str) -> bool:
    """Whether the largest value of a column comes first."""
    return name in COUNTED or name == "activity"


def _order(column: ListColumn[Row, Drawing], row: Row, entry: ConversationEntry) -> tuple[Any, datetime, int]:
    """By the value, then the activity; what has not been read yet counts as less than nothing."""
    value = None if column.time else column.of(row)
    if column.counted or column.time:
        value = -1 if value is None else value
    elif not isinstance(value, int):
        value = (value or "").casefold()
    activity = sort_key(entry.last_activity or entry.conversation.updated_at)
    return value, activity, entry.conversation.conversation_id


def ordered(
    rows: Mapping[RowKey, Row],
    places: dict[RowKey, Any],
    column: str,
    *,
    turned: bool,
    agents: Mapping[str, Sequence[tuple[float, str]]],
) -> Sequence[RowKey]:
    """The keys in the order of a column; sessions that only the host knows are below, newest first.

    *places*: what rows were sorted by, as far as it holds; the others are added. *agents*: what is wrong with
    the conversations of each, if these are first sorted by that.
    """
    by = next(one for one in (*COLUMNS, AGENT_TROUBLE) if one.name == column)
    listed: list[RowKey] = []
    disk: list[tuple[datetime, str]] = []
    for key, row in rows.items():
        if row.entry is not None:
            listed.append(key)
            if key not in places:
                places[key] = _order(by, row, row.entry)
        elif row.session is not None:
            disk.append((row.session.newest_at or _LONG_AGO, str(key)))
    listed.sort(key=places.__getitem__, reverse=falls(column) != turned)
    if agents:
        named = {key: (row.conversation and row.conversation.agent) or "" for key, row in rows.items()}
        listed.sort(key=lambda key: (agents[named[key]], named[key]), reverse=not turned)
    disk.sort(reverse=True)
    return [*listed, *(path for _, path in disk)]
