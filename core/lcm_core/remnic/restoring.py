"""A session of Remnic's as conversations of lossless-claw: pure (docs/remnic.md, "Export").

What an import of ours recorded comes back as it was; all other rows are derived from turns and nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from lcm_core.change.codec import CodecError, decode_values
from lcm_core.remnic.payloads import OURS, Json, parsed_object, part_of
from lcm_core.remnic.records import LIMIT, Origin, SessionId, is_place
from lcm_core.remnic.wanted import record_key
from lcm_core.store.connecting import SqlValue
from lcm_core.store.typed import GREATEST, LEAST, number, text
from lcm_core.wording import agree, counted

#: A row by column, as `ConversationFile` has it.
FileRow = dict[str, SqlValue]

_ROLES: Final = frozenset({"system", "user", "assistant", "tool"})
_PART_TYPES: Final = frozenset(
    {
        *("text", "reasoning", "tool", "patch", "file", "subtask", "compaction", "step_start", "step_finish"),
        *("snapshot", "agent", "retry"),
    }
)


@dataclass(frozen=True, slots=True)
class StoredPart:
    """A row of Remnic's parts."""

    id: int
    ordinal: SqlValue
    kind: str
    payload: str
    tool_name: SqlValue
    file_path: SqlValue


@dataclass(frozen=True, slots=True)
class StoredTurn:
    """A row of Remnic's messages with its parts."""

    id: int
    turn_index: int
    role: str
    content: str
    tokens: int
    created_at: str
    metadata: str | None
    origin: Origin | None
    parts: tuple[StoredPart, ...]


@dataclass(frozen=True, slots=True)
class StoredNode:
    """A row of Remnic's summary nodes."""

    id: str
    depth: int
    parent_id: str | None
    text: str
    tokens: int
    start: int
    end: int
    created_at: str


@dataclass(frozen=True, slots=True)
class StoredSession:
    """Everything that Remnic holds of a session."""

    session: SessionId
    turns: tuple[StoredTurn, ...]  #: in order
    nodes: tuple[StoredNode, ...]
    records: Mapping[str, str]  #: what was kept of conversations, by key


@dataclass(frozen=True, slots=True)
class Restored:
    """A conversation as rows, and what did not come along."""

    number: int
    session: SessionId
    rows: dict[str, list[FileRow]] = field(repr=False)
    notes: tuple[str, ...] = ()


@dataclass(slots=True)
class _Conversation:
    """A conversation on its way."""

    number: int
    session: SessionId
    record: Mapping[str, Json]
    turns: list[StoredTurn] = field(default_factory=list)
    nodes: list[StoredNode] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    ids: dict[int, int] = field(default_factory=dict)  #: message by turn

    @property
    def known(self) -> Mapping[str, Json]:
        """The summaries that are in the record."""
        return _object(self.record.get("summaries"))


def restore_session(stored: StoredSession, free: int) -> tuple[Restored, ...]:
    """The conversations of a session; one that has no number gets *free*, the next free one."""
    parted = _parted(stored, free)
    where = {turn.turn_index: one.number for one in parted.values() for turn in one.turns}
    first = next(iter(parted.values()), None)
    for node in sorted(stored.nodes, key=lambda node: (node.depth, node.start, node.id)):
        owner = next((one for one in parted.values() if node.id in one.known), None)
        owner = owner or _owner_by_range(node, parted, where)
        if owner is not None:
            owner.nodes.append(node)
        elif first is not None:
            first.notes.append(f"node {node.id} is skipped: its turns are missing, or of two conversations")
    return tuple(_restored(one) for one in parted.values())


def _parted(stored: StoredSession, free: int) -> dict[int, _Conversation]:
    """The conversations of a session with their turns; Remnic's own turns follow the one before them."""
    found: dict[int, _Conversation] = {}
    for key, value in stored.records.items():
        number_ = key.split(":")[2] if key.count(":") > 2 else ""
        if _is_number(number_) and key == record_key(stored.session, number_):
            found[int(number_)] = _Conversation(int(number_), stored.session, _record(value))
    named: dict[str, int] = {str(one): one for one in found}
    for turn in stored.turns:
        if turn.origin is not None and turn.origin.conversation_id not in named:
            number_ = turn.origin.conversation_id
            is_number = _is_number(number_)
            owner = int(number_) if is_number else free
            free += not is_number
            named[number_] = owner
            found[owner] = _Conversation(owner, stored.session, {})
    first = next((turn.origin for turn in stored.turns if turn.origin is not None), None)
    last = named[first.conversation_id] if first else next(iter(found), None)
    for turn in stored.turns:
        if turn.origin is not None:
            last = named[turn.origin.conversation_id]
        elif last is None:
            last = free
            found[last] = _Conversation(last, stored.session, {})
        found[last].turns.append(turn)
    return dict(sorted(found.items()))


def _is_number(written: str) -> bool:
    """Whether a text is the number of a conversation."""
    return written.isascii() and written.isdecimal() and len(written) < 20 and 0 < int(written) < LIMIT


def _owner_by_range(
    node: StoredNode, parted: Mapping[int, _Conversation], where: Mapping[int, int]
) -> _Conversation | None:
    """The conversation of the first and the last turn of a node that are there, when it is one."""
    inside = [turn for turn in where if node.start <= turn <= node.end]
    if not inside or where[min(inside)] != where[max(inside)]:
        return None
    return parted[where[min(inside)]]


def _restored(one: _Conversation) -> Restored:
    messages, parts = _messages(one)
    summaries, links, edges = _summaries(one, messages)
    context = _context(one, messages, summaries, links, edges)
    rows: dict[str, list[FileRow]] = {
        "conversations": [_conversation(one)],
        "messages": messages,
        "message_parts": parts,
        "summaries": summaries,
        "summary_messages": links,
        "summary_parents": edges,
        "context_items": context,
    }
    kept = {table: held for table, held in rows.items() if held}
    return Restored(one.number, one.session, kept, tuple(one.notes))


def _conversation(one: _Conversation) -> FileRow:
    recorded = _decoded(one.record.get("conversation"))
    if isinstance(recorded.get("session_id"), str):
        return {**recorded, "conversation_id": one.number}
    title = next((parsed_object(turn.metadata).get("title") for turn in one.turns if turn.metadata), None)
    times = [turn.created_at for turn in one.turns if turn.created_at] or ["1970-01-01 00:00:00"]
    return {
        "conversation_id": one.number,
        "session_id": one.session,
        "title": title if isinstance(title, str) else None,
        "active": 1,
        "created_at": times[0],
        "updated_at": times[-1],
    }


# -- messages --------------------------------------------------------------------------------------------


def _messages(one: _Conversation) -> tuple[list[FileRow], list[FileRow]]:
    turns, repeated = _each_once(one.turns)
    used: set[SqlValue] = set()
    if repeated:
        one.notes.append(f"{counted(repeated, 'repeated turn')} {agree(repeated, 'are skipped')}")
    kept = {turn.id: _decoded(parsed_object(turn.metadata).get(OURS)) for turn in turns}
    _give_ids(one, turns, kept)
    last = max((turn.origin.seq for turn in turns if turn.origin), default=0)
    messages, parts = [], []
    odd = 0
    for turn in turns:
        last += turn.origin is None
        role = turn.role if turn.role in _ROLES else "tool" if "tool" in turn.role.lower() else "user"
        odd += role != turn.role
        row: FileRow = {
            **kept[turn.id],
            "message_id": one.ids[turn.id],
            "conversation_id": one.number,
            "seq": turn.origin.seq if turn.origin else last,
            "role": role,
            "content": turn.content,
            "token_count": turn.tokens,
            "created_at": turn.created_at,
        }
        messages.append(row)
        parts += _parts(one, turn, used)
    if odd:
        one.notes.append(
            f"{odd:,} turns have a role that lossless-claw does not have: they become tool or user"
        )
    messages.sort(key=lambda row: number(row["seq"]) or 0)
    return messages, parts


def _each_once(turns: Iterable[StoredTurn]) -> tuple[list[StoredTurn], int]:
    met: set[Origin] = set()
    kept = []
    repeated = 0
    for turn in turns:
        if turn.origin in met:
            repeated += 1
            continue
        if turn.origin is not None:
            met.add(turn.origin)
        kept.append(turn)
    return kept, repeated


def _give_ids(
    one: _Conversation, turns: Sequence[StoredTurn], kept: Mapping[int, Mapping[str, SqlValue]]
) -> None:
    """The ids that messages had; behind them, new ones."""
    used: set[int] = set()
    for turn in turns:
        had = kept[turn.id].get("message_id")
        if is_place(had) and had > 0 and had not in used:
            used.add(had)
            one.ids[turn.id] = had
    behind = max(used, default=0)
    for turn in turns:
        if turn.id not in one.ids:
            behind += 1
            one.ids[turn.id] = behind


def _parts(one: _Conversation, turn: StoredTurn, used: set[SqlValue]) -> list[FileRow]:
    """The parts of a turn; *used* are the ids of parts so far."""
    found: dict[int, FileRow] = {}
    for place, part in enumerate(turn.parts):
        row: FileRow = part_of(part.kind, part.payload, part.tool_name, part.file_path)
        if row.get("part_type") not in _PART_TYPES:
            row["part_type"] = "text"
        ordinal = part.ordinal if is_place(part.ordinal) else place
        name = row.get("part_id")
        if ordinal in found:
            one.notes.append(f"part {ordinal} of turn {turn.turn_index} is skipped: it is there twice")
            continue
        if not isinstance(name, str) or name in used:
            name = f"remnic-{part.id}"
        used.add(name)
        row.setdefault("session_id", one.session)
        found[ordinal] = {**row, "part_id": name, "message_id": one.ids[turn.id], "ordinal": ordinal}
    return list(found.values())


# -- summaries -------------------------------------------------------------------------------------------


def _summaries(
    one: _Conversation, messages: Sequence[FileRow]
) -> tuple[list[FileRow], list[FileRow], list[FileRow]]:
    nodes = {node.id: node for node in one.nodes}
    held = {row["message_id"] for row in messages}
    times = {row["message_id"]: text(row["created_at"]) or "" for row in messages}
    weights = {row["message_id"]: number(row["token_count"]) or 0 for row in messages}
    below: dict[str, list[StoredNode]] = {}
    for node in one.nodes:
        above = nodes.get(node.parent_id or "")
        if above is not None and above.depth > node.depth:  # so no circle comes along
            below.setdefault(str(node.parent_id), []).append(node)
    summaries: dict[str, FileRow] = {}
    links: list[FileRow] = []
    edges: list[FileRow] = []
    lost = 0
    for node in sorted(one.nodes, key=lambda node: (node.depth, node.start, node.id)):
        recorded = _object(one.known.get(node.id))
        base: FileRow = {
            "summary_id": node.id,
            "conversation_id": one.number,
            "content": node.text,
            "token_count": node.tokens,
        }
        if recorded:
            made, wanted = _recorded_links(node, recorded)
            mine = [link for link in made if link["message_id"] in held]
            sources = [edge for edge in wanted if edge["parent_summary_id"] in nodes]
            lost += len(made) - len(mine) + len(wanted) - len(sources)
            row = {**_decoded(recorded.get("row")), **base}
            if row.get("kind") not in ("leaf", "condensed"):
                row["kind"] = "condensed" if sources else "leaf"
            summaries[node.id] = row
        else:
            mine, sources = _derived_links(one, node, below.get(node.id, []))
            inside = [link["message_id"] for link in mine]
            summaries[node.id] = {
                **_derived_summary(node, sources, summaries, [times[one_] for one_ in inside]),
                **base,
            }
            if not sources:
                summaries[node.id]["source_message_token_count"] = _total(weights[one_] for one_ in inside)
        links += mine
        edges += sources
    if lost:
        is_skipped = agree(lost, "are skipped")
        one.notes.append(f"{counted(lost, 'link')} between summaries {is_skipped}: the other end is missing")
    return list(summaries.values()), links, edges


def _recorded_links(node: StoredNode, recorded: Mapping[str, Json]) -> tuple[list[FileRow], list[FileRow]]:
    links: list[FileRow] = [
        {"summary_id": node.id, "message_id": target, "ordinal": ordinal}
        for target, ordinal in _pairs(recorded.get("messages"))
    ]
    edges: list[FileRow] = [
        {"summary_id": node.id, "parent_summary_id": target, "ordinal": ordinal}
        for target, ordinal in _pairs(recorded.get("sources"))
    ]
    return links, edges


def _derived_links(
    one: _Conversation, node: StoredNode, below: Sequence[StoredNode]
) -> tuple[list[FileRow], list[FileRow]]:
    """A node without others below it was made from the turns of its range."""
    if below:
        inside = sorted(below, key=lambda each: (each.start, each.id))
        return [], [
            {"summary_id": node.id, "parent_summary_id": each.id, "ordinal": place}
            for place, each in enumerate(inside)
        ]
    turns = [turn for turn in one.turns if node.start <= turn.turn_index <= node.end and turn.id in one.ids]
    return [
        {"summary_id": node.id, "message_id": one.ids[turn.id], "ordinal": place}
        for place, turn in enumerate(turns)
    ], []


def _derived_summary(
    node: StoredNode,
    edges: Sequence[FileRow],
    made: Mapping[str, FileRow],
    times: Sequence[str],
) -> FileRow:
    """Columns that Remnic has not, by the engine's formulas (docs/format.md, "Numbers beside a summary")."""
    sources = [made[str(edge["parent_summary_id"])] for edge in edges if edge["parent_summary_id"] in made]

    def total(*columns: str) -> int:
        return _total(number(row.get(name)) or 0 for row in sources for name in columns)

    starts = [text(row.get("earliest_at")) or "" for row in sources] + list(times)
    ends = [text(row.get("latest_at")) or "" for row in sources] + list(times)
    return {
        "kind": "condensed" if edges else "leaf",
        "depth": max(1, node.depth) if edges else 0,
        "earliest_at": min(filter(None, starts), default=None),
        "latest_at": max(filter(None, ends), default=None),
        "descendant_count": _total([total("descendant_count"), len(sources)]),
        "descendant_token_count": total("descendant_token_count", "token_count"),
        "source_message_token_count": total("source_message_token_count"),
        "created_at": node.created_at,
        "file_ids": "[]",
        "model": "unknown",
    }


def _total(counts: Iterable[int]) -> int:
    """A sum that a column holds."""
    return max(LEAST, min(sum(counts), GREATEST))


# -- context ---------------------------------------------------------------------------------------------


def _context(
    one: _Conversation,
    messages: Sequence[FileRow],
    summaries: Sequence[FileRow],
    links: Sequence[FileRow],
    edges: Sequence[FileRow],
) -> list[FileRow]:
    """The context as it was recorded; what was not recorded is replaced by what was made of it.

    So without a record it is every summary that no other was made from, and every message without a summary.
    """
    times: dict[SqlValue, SqlValue] = {row["message_id"]: row["created_at"] for row in messages}
    times |= {row["summary_id"]: row.get("created_at") for row in summaries}
    recorded = _array(one.record.get("context")) if "context" in one.record else None
    items: list[FileRow] = []
    for cells in recorded or ():
        item = _decoded(cells)
        ref = item.get("summary_id") if item.get("summary_id") is not None else item.get("message_id")
        if ref in times and (isinstance(ref, str) or is_place(ref)):
            created = item.get("created_at")
            items.append(_item(one.number, item.get("ordinal"), ref, created or times[ref]))
    if lost := len(recorded or ()) - len(items):
        missing = f"{agree(lost, 'are skipped')}: the message or summary is missing"
        one.notes.append(f"{counted(lost, 'context item')} {missing}")
    native = {one.ids[turn.id] for turn in one.turns if turn.origin is None and turn.id in one.ids}
    behind = 1 + max((number(item.get("ordinal")) or 0 for item in items), default=-1)
    for row in messages:
        if recorded is None or row["message_id"] in native:
            items.append(_item(one.number, behind, row["message_id"], row["created_at"]))
            behind += 1
    uses: dict[SqlValue, list[SqlValue]] = {}
    for link in links:
        uses.setdefault(link["summary_id"], []).append(link["message_id"])
    for edge in edges:
        uses.setdefault(edge["summary_id"], []).append(edge["parent_summary_id"])
    for row in summaries:  # the lowest first
        if row["summary_id"] in one.known and recorded is not None:
            continue
        items = _replaced(one.number, items, row["summary_id"], set(uses.get(row["summary_id"], ())), times)
    places = {item["ordinal"] for item in items if is_place(item["ordinal"])}
    if len(places) < len(items):
        items = [{**item, "ordinal": place} for place, item in enumerate(items)]
    return items


def _replaced(
    owner: int,
    items: Sequence[FileRow],
    summary: SqlValue,
    used: set[SqlValue],
    times: Mapping[SqlValue, SqlValue],
) -> list[FileRow]:
    """The context with a summary in the place of the first of what it was made from."""
    found: list[FileRow] = []
    placed = False
    for item in items:
        ref = item.get("summary_id") if item.get("summary_id") is not None else item.get("message_id")
        if ref not in used:
            found.append(item)
        elif not placed:
            placed = True
            found.append(_item(owner, item["ordinal"], summary, times.get(summary)))
    return found


def _item(owner: int, ordinal: SqlValue, ref: SqlValue, created_at: SqlValue) -> FileRow:
    is_summary = isinstance(ref, str)
    return {
        "conversation_id": owner,
        "ordinal": ordinal,
        "item_type": "summary" if is_summary else "message",
        "message_id": None if is_summary else ref,
        "summary_id": ref if is_summary else None,
        "created_at": text(created_at) or "",
    }


# -- what was recorded -----------------------------------------------------------------------------------


def _record(stored: str) -> Mapping[str, Json]:
    held = parsed_object(stored)
    return held if held.get("version") == 1 else {}


def _object(value: Json) -> Mapping[str, Json]:
    return value if isinstance(value, dict) else {}


def _array(value: Json) -> Sequence[Json]:
    return value if isinstance(value, list) else ()


def _pairs(value: Json) -> list[tuple[int | str, int]]:
    found = []
    for one in _array(value):
        if isinstance(one, list) and len(one) == 2:
            target, ordinal = one
            if (isinstance(target, str) or is_place(target)) and is_place(ordinal):
                found.append((target, ordinal))
    return found


def _decoded(value: Json) -> FileRow:
    """Named values that were kept as JSON; what cannot be read is left out."""
    found: FileRow = {}
    for name, cell in _object(value).items():
        try:
            held = decode_values({name: cell})
        except CodecError:
            continue
        found |= {one: value for one, value in held.items() if not isinstance(value, int) or is_place(value)}
    return found
