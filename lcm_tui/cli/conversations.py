"""``conversations list`` and ``conversations show``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lcm_core.fresh_tail import FreshTail
from lcm_core.records import Conversation, FocusBrief
from lcm_core.settings import Json, Settings
from lcm_core.store.briefs import active_brief, list_briefs
from lcm_core.store.database import Reader
from lcm_core.store.listing import Page, Window, conversation_page
from lcm_core.store.schema import Schema
from lcm_core.store.state import BOOTSTRAP, MAINTENANCE, TELEMETRY, EngineState, StateRow, engine_state
from lcm_core.store.statistics import (
    ConversationStatistics,
    DepthTotal,
    ItemTotal,
    depth_totals,
    item_totals,
    statistics_of,
)

from lcm_tui.cli import documents
from lcm_tui.cli.answer import Answer, Paging, Run
from lcm_tui.cli.documents import Document
from lcm_tui.cli.options import Selector
from lcm_tui.cli.readable import Block, Cell, Column, Facts, Mark, Prose, Table
from lcm_tui.cli.selecting import chosen
from lcm_tui.cli.stored import as_text
from lcm_tui.cli.tails import tail_of

#: State columns that hold 0 or 1.
_SWITCHES = frozenset({"fork_bounded", "pending", "running"})


@dataclass(frozen=True, slots=True)
class _Counted:
    conversation: Conversation
    counted: ConversationStatistics
    tail: FreshTail


@dataclass(frozen=True, slots=True)
class _Shown:
    schema: Schema
    conversation: _Counted
    depths: list[DepthTotal]
    context: list[ItemTotal]
    state: EngineState
    briefs: int
    active: FocusBrief | None


def list_(run: Run, window: Window) -> Answer:
    """A page of conversations."""
    schema, page = run.read(_load_list, run.settings, window)
    paging = Paging("conversations", window.limit, len(page.items), page.next)
    items: list[Json] = [
        documents.counted_conversation(row.conversation, row.counted, row.tail) for row in page.items
    ]
    missing = documents.not_recorded(schema, "conversations")
    return run.answer(
        "conversations.list",
        {"items": items},
        [_table(run, schema, page.items)],
        paging=paging,
        not_recorded=[f"items.{name}" for name in missing],
    )


async def _load_list(reader: Reader, settings: Settings, window: Window) -> tuple[Schema, Page[_Counted]]:
    page = await conversation_page(reader, window)
    counted = await statistics_of(reader, [record.conversation_id for record in page.items])
    rows = [
        _Counted(record, numbers, tail_of(numbers.context_messages, reader.schema, settings))
        for record, numbers in zip(page.items, counted, strict=True)
    ]
    return reader.schema, Page(tuple(rows), page.next)


def _table(run: Run, schema: Schema, rows: tuple[_Counted, ...]) -> Table:
    columns = (
        Column("Id", right=True),
        Column("Agent", spare=1),
        Column("Session", grows=True),
        Column("State", spare=2),
        Column("Messages", right=True),
        Column("Tokens", right=True, spare=6),
        Column("Summaries", right=True, spare=4),
        Column("Depth", right=True, spare=5),
        Column("Context", right=True, spare=3),
        Column("Tokens", right=True, spare=6),
        Column("Last message"),
    )
    cells = [
        (
            row.conversation.conversation_id,
            row.conversation.agent,
            row.conversation.title or row.conversation.lane,
            _state(schema, row.conversation),
            row.counted.messages.count,
            row.counted.messages.tokens,
            row.counted.summaries.count,
            row.counted.max_depth,
            row.counted.context_items,
            row.counted.context_tokens,
            run.time(row.counted.messages.latest),
        )
        for row in rows
    ]
    return Table(columns, cells, empty="There is no conversation here.")


def _state(schema: Schema, record: Conversation) -> Cell:
    if not schema.has("conversations", "active"):
        return Mark.NOT_RECORDED
    if record.active:
        return "active"
    return f"archived ({record.archive_cause})" if record.archive_cause else "archived"


def show(run: Run, named: Selector) -> Answer:
    """One conversation with everything around it."""
    found = run.read(_load, run.settings, named)
    return run.answer(
        "conversations.show", _document(found), _blocks(run, found), not_recorded=_not_recorded(found.schema)
    )


async def _load(reader: Reader, settings: Settings, named: Selector) -> _Shown:
    record = await chosen(reader, named)
    [counted] = await statistics_of(reader, [record.conversation_id])
    active = await active_brief(reader, record.conversation_id)
    return _Shown(
        reader.schema,
        _Counted(record, counted, tail_of(counted.context_messages, reader.schema, settings)),
        await depth_totals(reader, record.conversation_id),
        await item_totals(reader, record.conversation_id),
        await engine_state(reader, record.conversation_id),
        len(await list_briefs(reader, record.conversation_id)),
        None if active is None else as_text(active),
    )


def _document(found: _Shown) -> Document:
    row = found.conversation
    files = found.state.files
    return {
        "conversation": documents.counted_conversation(row.conversation, row.counted, row.tail),
        "summaryDepths": documents.depths(found.depths),
        "context": [
            {"itemType": total.item_type, "count": total.count, "tokens": total.tokens}
            for total in found.context
        ],
        "telemetry": _state_document(found.state.telemetry),
        "maintenance": _state_document(found.state.maintenance),
        "bootstrap": _state_document(found.state.bootstrap),
        "focusBriefs": {
            "count": found.briefs,
            "activeBrief": None if found.active is None else documents.active_brief(found.active),
        },
        "largeFiles": {"count": files.count, "bytes": files.bytes, "latestAt": files.latest},
        "archiveCause": row.conversation.archive_cause,
    }


def _state_document(row: StateRow | None) -> Document | None:
    if row is None:
        return None
    return {
        _camel(name): bool(value) if name in _SWITCHES else documents.scalar(value)
        for name, value in row.items()
    }


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(word.capitalize() for word in rest)


def _not_recorded(schema: Schema) -> list[str]:
    fields = [f"conversation.{name}" for name in documents.not_recorded(schema, "conversations")]
    tables: Mapping[str, str] = {
        "telemetry": TELEMETRY,
        "maintenance": MAINTENANCE,
        "bootstrap": BOOTSTRAP,
        "focusBriefs": "focus_briefs",
    }
    fields += [field for field, table in tables.items() if not schema.has(table)]
    return fields if schema.has("conversations", "archive_cause") else [*fields, "archiveCause"]


def _blocks(run: Run, found: _Shown) -> list[Block]:
    record, counted = found.conversation.conversation, found.conversation.counted
    has = found.schema.has
    key: Cell = record.session_key if has("conversations", "session_key") else Mark.NOT_RECORDED
    facts: list[tuple[str, Cell]] = [
        ("Conversation", str(record.conversation_id)),
        ("Session", record.session_id),
        ("Session key", key),
        ("Title", record.title),
        ("State", _state(found.schema, record)),
        (
            "Archived",
            run.time(record.archived_at) if has("conversations", "archived_at") else Mark.NOT_RECORDED,
        ),
        ("Created", run.time(record.created_at)),
        ("Bootstrapped", run.time(record.bootstrapped_at)),
        ("Messages", f"{counted.messages.count:,} ({counted.messages.tokens:,} tokens)"),
        ("  first", run.time(counted.messages.earliest)),
        ("  last", run.time(counted.messages.latest)),
        ("Summaries", f"{counted.summaries.count:,} ({counted.summaries.tokens:,} tokens)"),
        ("  cover", f"{counted.covered_tokens:,} message tokens"),
        ("Context items", f"{counted.context_items:,} ({counted.context_tokens:,} tokens)"),
        (
            "Fresh tail",
            f"{found.conversation.tail.messages:,} messages ({found.conversation.tail.tokens:,} tokens)",
        ),
        (
            "Focus briefs",
            f"{found.briefs:,}" + (f", active: {found.active.brief_id}" if found.active else ""),
        ),
        ("Large files", f"{found.state.files.count:,} ({found.state.files.bytes:,} bytes)"),
    ]
    return [
        Facts(facts),
        _totals(
            "Summaries by depth",
            [(f"d{row.depth} {row.kind}", row.count, row.tokens) for row in found.depths],
        ),
        _totals("Context", [(row.item_type, row.count, row.tokens) for row in found.context]),
        _state_block("Telemetry", TELEMETRY, found.state.telemetry, found.schema),
        _state_block("Maintenance", MAINTENANCE, found.state.maintenance, found.schema),
        _state_block("Transcript", BOOTSTRAP, found.state.bootstrap, found.schema),
    ]


def _totals(title: str, rows: list[tuple[Cell, Cell, Cell]]) -> Table:
    columns = (Column("What"), Column("Count", right=True), Column("Tokens", right=True))
    return Table(columns, rows, title=title)


def _state_block(title: str, table: str, row: StateRow | None, schema: Schema) -> Block:
    if row is None:
        return Prose("Nothing noted." if schema.has(table) else "Not recorded by this version.", title=title)
    cells: list[tuple[str, Cell]] = []
    for name, value in row.items():
        if value is not None:
            cells.append(
                (name.replace("_", " "), value if isinstance(value, int) else str(documents.scalar(value)))
            )
    return Facts(cells, title=title)
