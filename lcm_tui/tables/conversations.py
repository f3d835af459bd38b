"""Conversations as a table, and one of them with everything around it."""

from __future__ import annotations

from lcm_core.base.records import Conversation, FocusBrief
from lcm_core.base.text import counted as number_of
from lcm_core.base.values import Record
from lcm_core.engine.rules import FreshTail
from lcm_core.store.schema import Schema
from lcm_core.store.state import (
    BOOTSTRAP,
    CURSORS,
    MAINTENANCE,
    TELEMETRY,
    EngineState,
    StateRow,
    keeps_checkpoints,
)
from lcm_core.store.statistics import Growth, Statistics

from lcm_tui.tables.blocks import Cell, Facts, Mark, Prose, Table, When
from lcm_tui.tables.blocks import OutputBlock as Block
from lcm_tui.tables.blocks import OutputColumn as Column
from lcm_tui.tables.conversation_rows import state_of
from lcm_tui.tables.status import CELLS, depths_table, spark_text


class ShownConversation(Record, frozen=True):
    """A conversation with everything around it."""

    schema: Schema
    conversation: Conversation
    counted: Statistics
    tail: FreshTail
    state: EngineState
    briefs: int
    active: FocusBrief | None
    growth: Growth | None


def conversation_blocks(when: When, found: ShownConversation) -> list[Block]:
    """One conversation: its counts, its context, and what the engine notes about it."""
    record, counted = found.conversation, found.counted
    has = found.schema.has
    key: Cell = record.session_key if has("conversations", "session_key") else Mark.NOT_RECORDED
    facts: list[tuple[str, Cell]] = [
        ("Conversation", str(record.conversation_id)),
        ("Session", record.session_id),
        ("Session key", key),
        ("Title", record.title),
        ("State", state_of(record) if has("conversations", "active") else Mark.NOT_RECORDED),
        (
            "Archived",
            when(record.archived_at) if has("conversations", "archived_at") else Mark.NOT_RECORDED,
        ),
        ("Created", when(record.created_at)),
        ("Bootstrapped", when(record.bootstrapped_at)),
        ("Messages", f"{counted.messages.count:,} ({counted.messages.tokens:,} tokens)"),
        ("  first", when(counted.messages.earliest)),
        ("  last", when(counted.messages.latest)),
        ("  over time", spark_text(found.growth, CELLS) if found.growth is not None else None),
        ("Summaries", f"{counted.summaries.count:,} ({counted.summaries.tokens:,} tokens)"),
        ("  cover", f"{counted.covered_tokens:,} message tokens"),
        ("Context items", f"{counted.context_items:,} ({counted.context_tokens:,} tokens)"),
        (
            "Fresh tail",
            f"{number_of(found.tail.messages, 'message')} ({found.tail.tokens:,} tokens)",
        ),
        (
            "Focus briefs",
            f"{found.briefs:,}" + (f", active: {found.active.brief_id}" if found.active else ""),
        ),
        ("Large files", f"{found.state.files.count:,} ({found.state.files.bytes:,} bytes)"),
    ]
    return [
        Facts(facts),
        depths_table(counted.depths),
        Table(
            (Column("What"), Column("Count", right=True), Column("Tokens", right=True)),
            [(row.item_type, row.count, row.tokens) for row in counted.context],
            title="Context",
        ),
        _state_block("Telemetry", TELEMETRY, found.state.telemetry, found.schema),
        _state_block("Maintenance", MAINTENANCE, found.state.maintenance, found.schema),
        *_transcript_blocks(found),
    ]


def _transcript_blocks(found: ShownConversation) -> list[Block]:
    """How far the engine has read the host's transcript, and what an older engine left of that."""
    schema, state = found.schema, found.state
    blocks: list[Block] = []
    if schema.has(CURSORS):
        blocks.append(_state_block("Transcript", CURSORS, state.cursor, schema))
    if state.bootstrap is not None and not keeps_checkpoints(schema):
        title = "Transcript, by an older engine (not read any more)"
        blocks.append(_state_block(title, BOOTSTRAP, state.bootstrap, schema))
    elif not schema.has(CURSORS):
        blocks.append(_state_block("Transcript", BOOTSTRAP, state.bootstrap, schema))
    return blocks


def _state_block(title: str, table: str, row: StateRow | None, schema: Schema) -> Block:
    if row is None:
        return Prose("Nothing noted." if schema.has(table) else "Not recorded by this version.", title=title)
    cells: list[tuple[str, Cell]] = []
    for name, value in row.items():
        if value is not None:
            cells.append((name.replace("_", " "), value if isinstance(value, int) else _words(value)))
    return Facts(cells, title=title)


def _words(value: object) -> str:
    """A stored value for people."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    return f"{value:.0f}" if isinstance(value, float) and value.is_integer() else str(value)
