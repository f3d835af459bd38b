"""A lossless-claw database into Remnic's: session by session, in short transactions.

docs/spec/remnic.md, "Import".

A preview, a run and a comparison walk the same way. What differs is who is asked, and whether it is written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Concatenate, Final, TypeAlias

from lcm_core.base.errors import NotFoundError, UsageError
from lcm_core.base.text import safe_line
from lcm_core.base.times import iso_z, parse_utc
from lcm_core.base.values import P, Record, Struct, T, field, replace
from lcm_core.change.copying import Stop, check_wanted
from lcm_core.change.plan import Cells
from lcm_core.store.opening import Row, Rows, SqlValue, quoted
from lcm_core.store.schema import Columns, Schema, number, text

from lcm_remnic import records as schema
from lcm_remnic.records import Kind, Origin, Report, SessionId, Step, Unheld, What, Why, is_place
from lcm_remnic.source import (
    MessageKey,
    Outline,
    Placed,
    Session,
    Source,
    SourceConversation,
    TurnKey,
    WantedTurn,
    count_messages,
    differing_nodes,
    differing_turns,
    gone_summaries,
    in_order,
    load_conversations,
    load_messages,
    load_newcomers,
    load_outline,
    load_owners,
    load_parts,
    load_record,
    load_session,
    load_texts,
    next_turn,
    node_of,
    origin_in,
    origin_of,
    parts_of,
    place_summaries,
    read_empty,
    read_remnic,
    record_key,
    record_of,
    turn_of,
)
from lcm_remnic.write import MovedOnError, RemnicWriter

# -- what it cannot hold ---------------------------------------------------------------------------------
# What of a source is not imported into Remnic, or does not come back out of it (docs/spec/remnic.md, "What it
# cannot hold"). The rows of whole tables are counted; each row of a damaged file is noted with the reason.

#: Tables of a conversation that an import reads.
_BROUGHT: Final = frozenset({"conversations", "messages", "summaries", "context_items"})
#: Tables whose numbers are told even when they are 0.
_ALWAYS: Final = frozenset({"large_files", "focus_briefs"})
#: Tables that hang on a row of one with a conversation: the column of both, and the other table.
_BELOW: Final = (
    ("focus_brief_sources", "brief_id", "focus_briefs"),
    ("pending_summary_node_messages", "node_id", "pending_summary_nodes"),
    ("pending_summary_node_children", "node_id", "pending_summary_nodes"),
)
#: What the columns of a turn and of a node promise.
_PROMISED: Final = (
    ("messages", "message_id", ("role", "content", "created_at"), ("token_count",)),
    ("summaries", "summary_id", ("content",), ("token_count",)),
)


def load_left_behind(rows: Rows, schema: Schema, conversations: Sequence[int]) -> dict[str, int]:
    """How many rows of some conversations Remnic has no table for, by table."""
    found: dict[str, int] = {}
    for table in sorted(schema.tables):
        if table in _BROUGHT or table.startswith("lcm_tui_") or not schema.has(table, "conversation_id"):
            continue
        sql = f"SELECT count(*) AS n FROM {quoted(table)} WHERE conversation_id IN (?*)"
        found[table] = sum(row["n"] for row in rows.rows_in(sql, conversations))
    for table, key, above in _BELOW:
        if schema.has(table, key) and schema.has(above, "conversation_id"):
            sql = f"""SELECT count(*) AS n FROM {above} AS above JOIN {table} AS below USING ({key})
                WHERE above.conversation_id IN (?*)"""
            found[table] = sum(row["n"] for row in rows.rows_in(sql, conversations))
    return {table: count for table, count in found.items() if count or table in _ALWAYS}


def unheld_in(outline: Outline, lost: Collection[str]) -> Iterator[Unheld]:
    """Links and context items of a session whose other end does not come along; pure.

    *lost*: ids of summaries that are no nodes.
    """
    held: dict[int | str, int] = {one.message_id: one.conversation_id for one in outline.messages}
    held |= {one.summary_id: one.conversation_id for one in outline.summaries if one.summary_id not in lost}
    for table, links in (("summary_messages", outline.links), ("summary_parents", outline.edges)):
        for link in links:
            owner = held.get(link.summary_id)
            if owner is None or held.get(link.target) != owner:
                yield _link(table, link.summary_id, link.target, Why.NO_END)
    for row in outline.context:
        ref = row["message_id"] if row["summary_id"] is None else row["summary_id"]
        if not isinstance(ref, int | str) or held.get(ref) != row["conversation_id"]:
            yield _item(row["conversation_id"], row["ordinal"], ref)


def load_strays(
    rows: Rows,
    schema: Schema,
    conversations: Sequence[int],
    sessions: Collection[str],
    *,
    whole: bool,
    unreadable: Sequence[int],
) -> list[Unheld]:
    """Rows that belong to no message, summary or conversation, and values of wrong types.

    *whole*: of the whole file, else of some *sessions*, which are those of *conversations*. *unreadable* are
    messages that cannot be turns.
    """
    found: list[Unheld] = []
    if whole:
        found += _without_conversation(rows, schema)
    found += _parts(rows, schema, sessions, unreadable, whole=whole)
    found += _odd_links(rows, schema, conversations, whole=whole)
    for row in rows.rows_in(
        """SELECT rowid AS id FROM summaries
        WHERE conversation_id IN (?*) AND typeof(summary_id) <> 'text'""",
        conversations,
    ):
        found.append(Unheld("summaries", Why.NO_ID, f"row {row['id']}"))
    for table, key, texts, numbers in _PROMISED:
        odd = [f"typeof({name}) <> 'text'" for name in texts if schema.has(table, name)]
        odd += [f"typeof({name}) <> 'integer'" for name in numbers if schema.has(table, name)]
        for row in rows.rows_in(
            f"SELECT {key} AS id FROM {table} WHERE conversation_id IN (?*) AND ({' OR '.join(odd)})",
            conversations,
        ):
            found.append(Unheld(table, Why.WRONG_TYPE, _said(row["id"])))
    return found


def _without_conversation(rows: Rows, schema: Schema) -> Iterator[Unheld]:
    missing = "NOT EXISTS (SELECT 1 FROM conversations AS c WHERE c.conversation_id IS t.conversation_id)"
    for table, key in (("messages", "message_id"), ("summaries", "summary_id")):
        for (ref,) in rows.tuples(f"SELECT t.{key} FROM {table} AS t WHERE {missing}"):
            yield Unheld(table, Why.NO_CONVERSATION, _said(ref))
    if schema.has("context_items", "conversation_id"):
        for owner, ordinal, ref in rows.tuples(
            f"""SELECT t.conversation_id, t.ordinal, coalesce(t.summary_id, t.message_id)
            FROM context_items AS t WHERE {missing}"""
        ):
            yield _item(owner, ordinal, ref)


def _parts(
    rows: Rows, schema: Schema, sessions: Collection[str], unreadable: Sequence[int], *, whole: bool
) -> Iterator[Unheld]:
    if not schema.has("message_parts"):
        return
    for row in rows.rows("""SELECT p.part_id, p.message_id, p.session_id FROM message_parts AS p
        WHERE NOT EXISTS (SELECT 1 FROM messages AS m JOIN conversations USING (conversation_id)
            WHERE m.message_id = p.message_id)"""):
        if whole or (text(row["session_id"]) or "").strip() in sessions:
            yield _part(row["part_id"], row["message_id"])
    sql = "SELECT part_id, message_id FROM message_parts WHERE message_id IN (?*)"
    for row in rows.rows_in(sql, unreadable):
        yield _part(row["part_id"], row["message_id"])


def _odd_links(rows: Rows, schema: Schema, conversations: Sequence[int], *, whole: bool) -> Iterator[Unheld]:
    """Links of summaries that are not there, and to what is no id."""
    for table, key in (("summary_messages", "message_id"), ("summary_parents", "parent_summary_id")):
        if not schema.has(table):
            continue
        if whole:
            for one, ref in rows.tuples(
                f"""SELECT t.summary_id, t.{key} FROM {table} AS t WHERE NOT EXISTS (
                SELECT 1 FROM summaries AS s JOIN conversations USING (conversation_id)
                WHERE s.summary_id = t.summary_id)"""
            ):
                yield _link(table, one, ref, Why.NO_SUMMARY)
        for row in rows.rows_in(
            f"""SELECT t.summary_id AS one, t.{key} AS ref FROM summaries AS s
            JOIN {table} AS t ON t.summary_id = s.summary_id
            WHERE s.conversation_id IN (?*) AND typeof(t.{key}) NOT IN ('integer', 'text')""",
            conversations,
        ):
            yield _link(table, row["one"], row["ref"], Why.NO_END)


# -- names -----------------------------------------------------------------------------------------------


def _link(table: str, one: SqlValue, ref: SqlValue, why: Why) -> Unheld:
    return Unheld(table, why, f"{_said(one)} to {_said(ref)}")


def _item(owner: SqlValue, ordinal: SqlValue, ref: SqlValue) -> Unheld:
    place = f"ordinal {_said(ordinal)} of conversation {_said(owner)}"
    return Unheld("context_items", Why.NO_TARGET, f"{_said(ref)} at {place}")


def _part(part: SqlValue, message: SqlValue) -> Unheld:
    return Unheld("message_parts", Why.NO_MESSAGE, f"{_said(part)} of message {_said(message)}")


def _said(value: SqlValue) -> str:
    return "NULL" if value is None else safe_line(text(value) or "''")


# -- sessions as records ---------------------------------------------------------------------------------
# Remnic's sessions, turns and nodes, for lists and one session.

_RECORDS = "lcm-tui:conversation:"


class SessionEntry(Record, frozen=True):
    """A session as a line of a list."""

    session: SessionId
    turns: int
    imported: int  #: turns that an importer brought
    parts: int
    nodes: int
    max_depth: int | None
    tokens: int
    first_at: str | None
    last_at: str | None
    records: int = 0  #: conversations of which an import of ours kept the rest


class Contents(Record, frozen=True):
    """What a database of Remnic's holds."""

    version: str | None
    sessions: tuple[SessionEntry, ...]


class StoredPart(Record, frozen=True):
    """A row of Remnic's parts."""

    ordinal: int | None
    kind: str


class StoredTurn(Record, frozen=True):
    """A row of Remnic's messages with its parts."""

    turn_index: int
    role: str
    content: str
    tokens: int
    created_at: str
    origin: Origin | None
    parts: tuple[StoredPart, ...]


class StoredNode(Record, frozen=True):
    """A row of Remnic's summary nodes."""

    id: str
    depth: int
    parent_id: str | None
    text: str
    tokens: int
    start: int
    end: int
    created_at: str


class StoredSession(Record, frozen=True):
    """Everything that Remnic holds of a session."""

    session: SessionId
    turns: tuple[StoredTurn, ...]  #: in order
    nodes: tuple[StoredNode, ...]
    records: int  #: conversations of which an import of ours kept the rest


def read_contents(path: Path) -> Contents:
    """The sessions of a database, in the order in which they began; blocks.

    Raises:
        LcmError: the file cannot be read, or is not Remnic's.
    """
    return read_remnic(path, _load_contents)


def _load_contents(rows: Rows) -> Contents:
    version = None
    if schema.has_table(rows, schema.META):
        found = rows.tuples("SELECT value FROM lcm_meta WHERE key = 'schema_version'")
        version = text(found[0][0]) if found else None
    counted: dict[str, SessionEntry] = {}
    parts = _part_counts(rows)
    nodes = {
        text(row["session_id"]) or "": row
        for row in rows.rows(
            "SELECT session_id, count(*) AS n, max(depth) AS depth FROM lcm_summary_nodes GROUP BY session_id"
        )
    }
    for row in rows.rows(
        """SELECT session_id, count(*) AS n, CAST(total(token_count) AS INTEGER) AS tokens,
        min(created_at) AS first_at, max(created_at) AS last_at,
        sum(metadata LIKE '%"source_seq"%') AS imported
        FROM lcm_messages GROUP BY session_id"""
    ):
        name = text(row["session_id"]) or ""
        below = nodes.pop(name, None)
        counted[name] = SessionEntry(
            SessionId(name),
            row["n"],
            row["imported"] or 0,
            parts.get(name, 0),
            below["n"] if below else 0,
            number(below["depth"]) if below else None,
            number(row["tokens"]) or 0,
            text(row["first_at"]),
            text(row["last_at"]),
        )
    for name, row in nodes.items():
        depth = number(row["depth"])
        counted[name] = SessionEntry(SessionId(name), 0, 0, 0, row["n"], depth, 0, None, None)
    records = Counter(_recorded_sessions(rows))
    for name in records:
        counted.setdefault(name, SessionEntry(SessionId(name), 0, 0, 0, 0, None, 0, None, None))
    entries = (replace(one, records=records[one.session]) for one in counted.values())
    return Contents(version, tuple(sorted(entries, key=lambda one: (one.first_at or "", one.session))))


def _part_counts(rows: Rows) -> dict[str, int]:
    if not schema.has_table(rows, schema.PARTS):
        return {}
    found = rows.rows(
        """SELECT m.session_id, count(*) AS n FROM lcm_message_parts AS p
        JOIN lcm_messages AS m ON m.id = p.message_id GROUP BY m.session_id"""
    )
    return {text(row["session_id"]) or "": row["n"] for row in found}


def _recorded_sessions(rows: Rows) -> list[str]:
    """The session of each conversation of which something was kept."""
    if not schema.has_table(rows, schema.META):
        return []
    found = rows.tuples(
        "SELECT key FROM lcm_meta WHERE substr(key, 1, ?) = ? ORDER BY key", (len(_RECORDS), _RECORDS)
    )
    keys = [row[0] for row in found if isinstance(row[0], str)]
    return [key.removeprefix(_RECORDS).partition(":")[2] for key in keys]


def session_named(path: Path, name: str) -> SessionId:
    """The session of an id or of the beginning of one.

    Raises:
        NotFoundError: there is no such session, or several begin so.
    """
    every = [one.session for one in read_contents(path).sessions]
    matching = [one for one in every if one == name] or [one for one in every if one.startswith(name)]
    if len(matching) != 1:
        what = f"{len(matching)} sessions begin with {name}" if matching else f"No session matched {name}"
        raise NotFoundError(
            f"{what} in {path}. `lcm-tui remnic list` shows them.",
            code="SESSION_NOT_FOUND",
            details={"sessionId": name},
        )
    return matching[0]


def read_session(path: Path, session: SessionId) -> StoredSession:
    """Everything of a session; blocks.

    Raises:
        LcmError: the file cannot be read, or is not Remnic's.
    """
    return read_remnic(path, _load_session, session)


def _load_session(rows: Rows, session: SessionId) -> StoredSession:
    found = rows.rows(
        """SELECT id, turn_index, role, content, token_count, created_at, metadata FROM lcm_messages
        WHERE session_id = ? ORDER BY turn_index, id""",
        (session,),
    )
    parts = load_parts(rows, [row["id"] for row in found]) if schema.has_table(rows, schema.PARTS) else {}
    turns = tuple(_turn(row, parts.get(row["id"], [])) for row in found)
    sql = f"""SELECT {", ".join(_NODES.names)} FROM lcm_summary_nodes
        WHERE session_id = ? ORDER BY depth, msg_start, id"""
    nodes = tuple(map(_NODES.record, rows.rows(sql, (session,))))
    records = _recorded_sessions(rows).count(session)
    return StoredSession(session, turns, nodes, records)


def _turn(row: Row, parts: list[Row]) -> StoredTurn:
    held = tuple(map(_PARTS.record, parts))
    return _TURNS.record(row, origin=origin_in(row["metadata"]), parts=held)


_TURNS: Final = Columns("lcm_messages", StoredTurn, text, tokens="token_count", origin=None, parts=None)
_PARTS: Final = Columns(schema.PARTS, StoredPart, text)
_NODES: Final = Columns(
    "lcm_summary_nodes",
    StoredNode,
    text,
    text="summary_text",
    tokens="token_count",
    start="msg_start",
    end="msg_end",
)


#: Messages, or nodes, of one transaction: a Remnic that writes waits for no more.
BATCH: Final = 100
#: How often a session is planned anew because somebody else brings the same one.
ATTEMPTS: Final = 10_000
#: Characters of one transaction, where messages are large.
BATCH_CHARACTERS: Final = 1_000_000


class Looking(Record, frozen=True):
    """A preview or a comparison: nothing is written. *path* None: there is no database yet."""

    path: Path | None

    def look(self, load: Callable[Concatenate[Rows, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a load over one state of the file."""
        if self.path is None:
            return read_empty(load, *args, **kwargs)
        return read_remnic(self.path, load, *args, **kwargs)

    def make(self, steps: Callable[[Rows], Sequence[Step]]) -> Sequence[Step]:
        """Find steps."""
        return self.look(steps)


#: Remnic's database: asked, or asked and written to.
Target: TypeAlias = Looking | RemnicWriter


def import_into(
    source: Source,
    target: Target,
    sessions: Iterable[str] = (),
    *,
    report: Report | None = None,
    seen: Callable[[Step], None] = lambda step: None,
    told: Callable[[int, int], None] = lambda done, of: None,
    stopped: Stop = lambda: False,
) -> Report:
    """Bring everything of some *sessions* (all without any) that differs; blocks.

    *report* holds what was done by then also when something goes wrong. *seen* gets every difference, *told*
    how many of how many messages were looked at.

    Raises:
        NotFoundError: the source has no such session.
        CancelledError: *stopped* said so, between two transactions.
        LcmError: a file cannot be read or written. What was committed stays; a further run goes on.
    """
    wanted = tuple(sessions)
    chosen = chosen_sessions(source, wanted)
    report = Report() if report is None else report
    total = source.read(count_messages, [one.conversation_id for each in chosen.values() for one in each])
    done = 0
    unreadable: list[int] = []
    for session, conversations in chosen.items():
        report.conversations += len(conversations)
        work = _SessionWork(source, target, session, conversations, report, seen, stopped)
        for count in work.run():
            done += count
            told(min(done, total), total)
        unreadable += work.unreadable
    numbers = [one.conversation_id for each in chosen.values() for one in each]
    report.note(source.read(load_strays, numbers, tuple(chosen), whole=not wanted, unreadable=unreadable))
    return report


def chosen_sessions(
    source: Source, sessions: Iterable[str] = ()
) -> dict[SessionId, tuple[SourceConversation, ...]]:
    """The conversations of each session that is meant, in the order of their ids.

    Raises:
        NotFoundError: there is no such session.
    """
    every: dict[SessionId, tuple[SourceConversation, ...]] = {}
    for one in source.read(load_conversations):
        every[one.session] = (*every.get(one.session, ()), one)
    wanted = [SessionId(one.strip()) for one in sessions]
    if "" in wanted:  # a shell variable that is not set
        raise UsageError(
            "SESSION_ID is empty; give it the id of a session or omit it.",
            details={"option": "SESSION_ID"},
        )
    for name in wanted:
        if name not in every:
            raise NotFoundError(
                f"No session matched {name} in {source.path}. `lcm-tui conversations list` shows them.",
                code="SESSION_NOT_FOUND",
                details={"sessionId": name},
            )
    return {one: held for one, held in every.items() if not wanted or one in wanted}


def left_behind(source: Source, sessions: Iterable[str] = ()) -> dict[str, int]:
    """Rows of the chosen sessions that Remnic has no table for, by table."""
    chosen = chosen_sessions(source, sessions).values()
    numbers = [one.conversation_id for each in chosen for one in each]
    return source.read(load_left_behind, numbers)


class _Order(Record, frozen=True):
    """The place that each message gets."""

    turns: Mapping[int, tuple[int | None, int | None]]  #: row and place by message; a place of None: its own
    whole: bool  #: the session holds nothing but this source's messages, so places are ranks


class _Record(Record, frozen=True):
    """What is kept of a conversation, as it is stored and as it should be."""

    conversation: SourceConversation
    key: str
    stored: tuple[SqlValue, ...]  #: its value; empty: none is stored
    wanted: str
    gone: tuple[str, ...]  #: summaries that the source does not hold any more


class _SessionWork(Struct):
    """One session on its way."""

    source: Source
    target: Target
    session: SessionId
    conversations: tuple[SourceConversation, ...]
    report: Report
    seen: Callable[[Step], None]
    stopped: Stop
    last_id: int = 0  #: no turn has a larger id that is not known
    appended: int = 0  #: turns that a preview put behind the last one
    gained: bool = False
    wrote: bool = False
    done: set[int] = field(default_factory=set)  #: messages whose rows are right
    unreadable: tuple[int, ...] = ()  #: messages that can be no turns

    def run(self) -> Iterator[int]:
        """All of it; yields how many messages were looked at."""
        outline = self.source.read(load_outline, [one.conversation_id for one in self.conversations])
        held = self.target.look(load_session, self.session)
        outline = self._without_conflicts(outline, held)
        present: Session | None = held
        self.unreadable = outline.unreadable
        self.report.unreadable += len(outline.unreadable)
        self.report.note(Unheld("messages", Why.NO_SEQ, str(one)) for one in outline.unreadable)
        wanted = in_order(outline.messages)
        for left in reversed(range(ATTEMPTS)):
            try:
                yield from self._turns(wanted, present or self.target.look(load_session, self.session))
                break
            except MovedOnError:  # somebody wrote in between: what is left is planned anew
                present = None
                if not left:
                    raise
        present = self.target.look(load_session, self.session)
        self._nodes(outline, self._places(wanted, present))
        self._records(outline)
        self._strays(outline, present)
        if wanted and (self.gained or not present.has_marker):
            self._event()
        self.report.sessions += self.wrote

    # -- turns -------------------------------------------------------------------------------------------

    def _without_conflicts(self, outline: Outline, present: Session) -> Outline:
        """The outline without the conversations under whose numbers Remnic has those of another database."""
        times = {turn.origin: turn.created_at for turn in present.turns if turn.origin is not None}
        other: dict[int, MessageKey] = {}
        for one in outline.messages:
            if not _same_time(times.get(origin_of(one)), one.created_at):
                other.setdefault(one.conversation_id, one)
        for key, one in other.items():
            self.report.conflicts.append(
                f"conversation {key} of session {self.session}: Remnic has another message as its seq "
                f"{one.seq}"
            )
        if not other:
            return outline
        self.conversations = tuple(one for one in self.conversations if one.conversation_id not in other)
        gone = {one.summary_id for one in outline.summaries if one.conversation_id in other}
        return replace(
            outline,
            messages=tuple(one for one in outline.messages if one.conversation_id not in other),
            summaries=tuple(one for one in outline.summaries if one.summary_id not in gone),
        )

    def _order(self, wanted: Sequence[MessageKey], present: Session) -> _Order:
        """Where each message is to be, by what Remnic holds now."""
        rows: dict[Origin, TurnKey] = {}
        for turn in present.turns:
            if turn.origin is not None:
                rows.setdefault(turn.origin, turn)
        known = {origin_of(one) for one in wanted}
        whole = all(turn.origin in known for turn in present.turns) and len(rows) == len(present.turns)
        held = [rows.get(origin_of(one)) for one in wanted]
        free = {} if whole else _gaps(held, {turn.turn_index for turn in present.turns})
        return _Order(
            {
                one.message_id: (None if turn is None else turn.id, rank if whole else free.get(rank))
                for rank, (one, turn) in enumerate(zip(wanted, held, strict=True))
            },
            whole,
        )

    def _turns(self, wanted: Sequence[MessageKey], present: Session) -> Iterator[int]:
        order = self._order(wanted, present)
        self.last_id = present.last_id
        left = [one for one in wanted if one.message_id not in self.done]
        owners = {one.conversation_id: one for one in self.conversations}
        for start in range(0, len(left), BATCH):
            check_wanted(self.stopped)
            some = left[start : start + BATCH]
            held = self.source.read(load_messages, [one.message_id for one in some])
            batch = []
            for one in some:
                message = held.get(one.message_id)
                if message is None:
                    continue  # gone from the source since
                row, place = order.turns[one.message_id]
                made = turn_of(message, owners[one.conversation_id])
                batch.append(WantedTurn(one.message_id, origin_of(one), row, place, made, parts_of(message)))

            for piece in _pieces(batch):

                def make(rows: Rows, piece: Sequence[WantedTurn] = piece) -> Sequence[Step]:
                    return self._turn_steps(rows, piece, order)

                self._count(self.target.make(make), {What.TURN: len(piece), What.PART: _parts_in(piece)})
                self.done.update(one.message_id for one in piece)
            self.done.update(one.message_id for one in some)
            yield len(some)

    def _turn_steps(self, rows: Rows, batch: Sequence[WantedTurn], order: _Order) -> Sequence[Step]:
        for origin in load_newcomers(rows, self.session, self.last_id):
            if order.whole or origin is not None:
                raise MovedOnError("Another process keeps writing to this session. Try again later.")
        steps = list(differing_turns(rows, self.session, batch))
        behind = next_turn(rows, self.session) + (self.appended if isinstance(self.target, Looking) else 0)
        placed = []
        for step in steps:
            if step.origin is not None and step.after["turn_index"] is None:
                step = replace(step, after=step.after.but(turn_index=behind))
                behind += 1
                self.appended += 1
            placed.append(step)
        came = sum(step.origin is not None for step in placed)
        if came and isinstance(self.target, RemnicWriter):
            self.last_id = max(self.last_id, self._last_id(rows)) + came
        return placed

    @staticmethod
    def _last_id(rows: Rows) -> int:
        """The largest number that a turn ever had: what comes next is behind it."""
        [(last,)] = rows.tuples("SELECT max(id) FROM lcm_messages")
        if not schema.has_table(rows, "sqlite_sequence"):
            return last or 0
        [(used,)] = rows.tuples("SELECT max(seq) FROM sqlite_sequence WHERE name = ?", (schema.TURNS,))
        return max(used or 0, last or 0)

    def _places(self, wanted: Sequence[MessageKey], present: Session) -> dict[int, int]:
        """The turn of each message: as it is in a run, as it would be in a preview."""
        order = self._order(wanted, present)
        now = {turn.id: turn.turn_index for turn in present.turns}
        found: dict[int, int] = {}
        behind = self.target.look(next_turn, self.session)
        for one in wanted:
            row, rank = order.turns[one.message_id]
            place = rank if rank is not None else now.get(row) if row is not None else None
            if place is None:
                place, behind = behind, behind + 1
            if isinstance(place, int):
                found[one.message_id] = place
        return found

    # -- nodes -------------------------------------------------------------------------------------------

    def _nodes(self, outline: Outline, places: Mapping[int, int]) -> None:
        owners = self.target.look(load_owners, [one.summary_id for one in outline.summaries])
        elsewhere = sorted(name for name, owner in owners.items() if owner != self.session)
        self.report.elsewhere += elsewhere
        kept = tuple(one for one in outline.summaries if one.summary_id not in set(elsewhere))
        placed, lost = place_summaries(replace(outline, summaries=kept), places)
        self.report.no_messages += lost
        self.report.note(Unheld("summaries", Why.NO_TURN, safe_line(one)) for one in lost)
        self.report.note(Unheld("summaries", Why.ELSEWHERE, safe_line(one)) for one in elsewhere)
        self.report.note(unheld_in(outline, {*lost, *elsewhere}))
        self.report.collapsed += sum(one.collapsed for one in placed)
        known = frozenset(one.summary_id for one in outline.summaries)
        for start in range(0, len(placed), BATCH):
            check_wanted(self.stopped)
            some = placed[start : start + BATCH]
            wanted = self._wanted_nodes(some)

            def make(rows: Rows, wanted: Mapping[str, Cells] = wanted) -> Sequence[Step]:
                return tuple(differing_nodes(rows, self.session, wanted, known))

            self._count(self.target.make(make), {What.NODE: len(wanted)})

    def _wanted_nodes(self, some: Sequence[Placed]) -> dict[str, Cells]:
        texts = self.source.read(load_texts, [one.summary.summary_id for one in some])
        return {
            one.summary.summary_id: node_of(one, self.session, texts[one.summary.summary_id])
            for one in some
            if one.summary.summary_id in texts
        }

    # -- what belongs to it ------------------------------------------------------------------------------

    def _records(self, outline: Outline) -> None:
        """What Remnic has no column for, and nodes of summaries that the source does not hold any more."""
        known = frozenset(one.summary_id for one in outline.summaries)
        for conversation in self.conversations:
            key = record_key(self.session, conversation.conversation_id)
            for left in reversed(range(ATTEMPTS)):
                seen = self.target.look(load_record, key)
                gone = gone_summaries(
                    seen[0] if seen else None, known
                )  # worked out before the lock: it is the longest of all
                record = _Record(conversation, key, seen, record_of(conversation, outline, gone), tuple(gone))
                try:
                    self._count(self.target.make(partial(self._record_steps, record)), {What.RECORD: 1})
                    break
                except MovedOnError:
                    if not left:
                        raise

    def _record_steps(self, record: _Record, rows: Rows) -> Sequence[Step]:
        if load_record(rows, record.key) != record.stored:
            raise MovedOnError("Another process keeps importing the same conversation. Try again later.")
        steps = list(self._gone_nodes(load_owners(rows, record.gone)))
        name = f"record of conversation {record.conversation.conversation_id}"
        made = partial(Step, what=What.RECORD, session=self.session, name=name, table=schema.META)
        if not record.stored:
            row = Cells.of({"key": record.key, "value": record.wanted})
            steps.append(made(Kind.MISSING, key=None, after=row))
        elif record.stored != (record.wanted,):
            before, after = Cells.of({"value": record.stored[0]}), Cells.of({"value": record.wanted})
            steps.append(made(Kind.CHANGED, key=record.key, before=before, after=after))
        return steps

    def _gone_nodes(self, owners: Mapping[str, str]) -> Iterator[Step]:
        for name, owner in sorted(owners.items()):
            if owner == self.session:
                yield Step(Kind.EXTRA, What.NODE, self.session, name, schema.NODES, name)

    def _strays(self, outline: Outline, present: Session) -> None:
        """Turns of an import whose message the source does not hold any more, and repeated ones."""
        known = {origin_of(one) for one in outline.messages}
        numbers = {str(one.conversation_id) for one in self.conversations}
        met: set[Origin] = set()
        for turn in present.turns:
            one = turn.origin
            if one is None or one.conversation_id not in numbers:
                continue
            if one not in known or one in met:
                kind = Kind.REPEATED if one in met else Kind.EXTRA
                self._count(
                    [Step(kind, What.TURN, self.session, one.text, schema.TURNS, turn.id)],
                    {},
                )
            met.add(one)

    def _event(self) -> None:
        """The mark that Remnic reads as the end of an import (docs/spec/remnic.md, "Events")."""

        def make(rows: Rows) -> Sequence[Step]:
            [(tokens,)] = rows.tuples(
                "SELECT CAST(total(token_count) AS INTEGER) FROM lcm_messages WHERE session_id = ?",
                (self.session,),
            )
            row = Cells.of(
                {
                    "session_id": self.session,
                    "fired_at": iso_z(datetime.now(UTC)),
                    "msg_before": next_turn(rows, self.session),
                    "tokens_before": tokens,
                    "tokens_after": tokens,
                }
            )
            name = "end of the import"
            return (Step(Kind.MISSING, What.EVENT, self.session, name, schema.EVENTS, None, after=row),)

        self._count(self.target.make(make), {What.EVENT: 1})

    def _count(self, steps: Sequence[Step], looked_at: Mapping[What, int]) -> None:
        differing: dict[What, int] = {}
        for step in steps:
            self.report.rows[step.what].count(step.kind)
            if step.kind not in (Kind.EXTRA, Kind.REPEATED):
                differing[step.what] = differing.get(step.what, 0) + 1
            self.wrote |= step.writes
            self.gained |= step.kind is Kind.MISSING and step.what in (What.TURN, What.NODE)
            self.seen(step)
        for what, count in looked_at.items():
            self.report.rows[what].same += max(0, count - differing.get(what, 0))


def _pieces(batch: Sequence[WantedTurn]) -> Iterator[Sequence[WantedTurn]]:
    """A batch in transactions of about `BATCH_CHARACTERS`."""
    piece: list[WantedTurn] = []
    size = 0
    for one in batch:
        piece.append(one)
        size += sum(len(str(cell)) for row in (one.row, *one.parts.values()) for cell in row.cells)
        if size >= BATCH_CHARACTERS:
            yield piece
            piece, size = [], 0
    if piece:
        yield piece


def _same_time(stored: SqlValue, created_at: str) -> bool:
    """Whether two times may be of one message, in whichever form each is written; none fits any."""
    if not stored or not created_at or stored == created_at:
        return True
    moments = parse_utc(text(stored)), parse_utc(created_at)
    return None not in moments and moments[0] == moments[1]


def _gaps(held: Sequence[TurnKey | None], used: Collection[SqlValue]) -> dict[int, int]:
    """Free places for messages without a turn, by rank, where all of a run fit before the turn that follows.

    So what Remnic deleted for its age comes back to where it was.
    """
    found: dict[int, int] = {}
    before, run = -1, 0
    for rank, turn in enumerate(held):
        if turn is None:
            run += 1
            continue
        if is_place(turn.turn_index):
            free: list[int] = []
            place = turn.turn_index - 1
            while place > before and len(free) < run:
                if place not in used:
                    free.append(place)
                place -= 1
            if len(free) == run:
                found |= {rank - 1 - number: one for number, one in enumerate(free)}
            before = max(before, turn.turn_index)
        run = 0
    return found


def _parts_in(batch: Sequence[WantedTurn]) -> int:
    return sum(len(one.parts) for one in batch)
