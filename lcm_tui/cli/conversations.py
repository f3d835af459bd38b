"""``conversations list``, ``conversations show`` and ``conversations export``."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import click
from lcm_core.base.files import make_private, write_private
from lcm_core.base.records import Conversation, ConversationId
from lcm_core.base.settings import Settings
from lcm_core.base.values import Record, to_json
from lcm_core.engine.rules import FreshTail
from lcm_core.store.context import context_messages
from lcm_core.store.conversations import ConversationEntry
from lcm_core.store.database import Reader
from lcm_core.store.focus import active_brief, list_briefs
from lcm_core.store.listing import Page, Window, conversation_page
from lcm_core.store.opening import database_files
from lcm_core.store.schema import Schema
from lcm_core.store.state import BOOTSTRAP, CURSORS, MAINTENANCE, TELEMETRY, StateRow, engine_state
from lcm_core.store.statistics import (
    Statistics,
    growth_of,
    statistics_of,
)

from lcm_tui.cli import documents, options
from lcm_tui.cli.answer import Answer, Paging, Run
from lcm_tui.cli.command import command
from lcm_tui.cli.documents import Document, tail_of
from lcm_tui.cli.kinds import FilePath
from lcm_tui.cli.options import Selector
from lcm_tui.cli.selecting import as_text, chosen
from lcm_tui.tables.blocks import Facts, json_names, json_of, list_table, not_recorded
from lcm_tui.tables.conversation_rows import CONVERSATION_COLUMNS, Row
from lcm_tui.tables.conversations import ShownConversation, conversation_blocks

#: State columns that hold 0 or 1.
_SWITCHES = frozenset({"fork_bounded", "pending", "running"})


@command("conversations list", forms=("csv",), examples=("conversations list --recency 7d",))
@options.page_options
@options.time_options
def list_(run: Run, *, paged: options.PageOptions, times: options.TimeOptions) -> Answer:
    """List all conversations, including archived ones, last updated first."""
    window = options.window(run, "conversations", paged, times, as_engine=True)
    schema, page = run.read(_load_list, run.settings, window)
    return run.answer(
        "conversations.list",
        {"items": [json_of(CONVERSATION_COLUMNS, row) for row in page.items]},
        [list_table(CONVERSATION_COLUMNS, page.items, run.time, schema, empty="No conversations.")],
        paging=Paging("conversations", window.limit, len(page.items), page.next),
        not_recorded=not_recorded(CONVERSATION_COLUMNS, schema, "items"),
        names=json_names(CONVERSATION_COLUMNS),
    )


async def _load_list(reader: Reader, settings: Settings, window: Window) -> tuple[Schema, Page[Row]]:
    page = await conversation_page(reader, window)
    raw = await context_messages(reader, [record.conversation_id for record in page.items])
    rows = [
        _row(
            record,
            await statistics_of(reader, record.conversation_id),
            tail_of(raw[record.conversation_id], reader.schema, settings, record.session_key),
        )
        for record in page.items
    ]
    return reader.schema, Page(tuple(rows), page.next)


def _row(record: Conversation, counted: Statistics, tail: FreshTail) -> Row:
    return Row(ConversationEntry(record, counted.messages.latest), counted=counted, tail=tail)


@command("conversations show", examples=("conversations show 1",))
@options.needed_conversation
def show(run: Run, *, conversation: options.NeededConversation) -> Answer:
    """Show one conversation: its counts, its context, and what the engine records about it."""
    found = run.read(_load, run.settings, conversation.selector("conversations.show"))
    return run.answer(
        "conversations.show",
        _document(found),
        conversation_blocks(run.time, found),
        not_recorded=_not_recorded(found.schema),
    )


async def _load(reader: Reader, settings: Settings, named: Selector) -> ShownConversation:
    record = await chosen(reader, named)
    raw = await context_messages(reader, [record.conversation_id])
    active = await active_brief(reader, record.conversation_id)
    return ShownConversation(
        reader.schema,
        record,
        await statistics_of(reader, record.conversation_id),
        tail_of(raw[record.conversation_id], reader.schema, settings, record.session_key),
        await engine_state(reader, record.conversation_id),
        len(await list_briefs(reader, record.conversation_id)),
        None if active is None else as_text(active),
        await growth_of(reader, record.conversation_id),
    )


@command(
    "conversations export",
    examples=("conversations export 1", "conversations export 1 --to talk.md --markdown"),
)
@options.needed_conversation
@click.option(
    "--to",
    type=FilePath(text=True),
    metavar="PATH",
    help="The output file or folder (default: the folder of exports in your data folder).",
)
@click.option("--markdown", is_flag=True, help="Write only the messages, to be read.")
def export(run: Run, *, conversation: options.NeededConversation, to: Path | None, markdown: bool) -> Answer:
    """Write a conversation to a new private file, which `import` reads; nothing is deleted."""
    named = conversation.selector("conversations.export")
    written = run.read(_export, named, run.settings.database.value, to, markdown)
    facts = Facts([("Export", str(written.path)), ("Size", f"{written.bytes:,} bytes")])
    return run.answer("conversations.export", to_json(written), [facts])


class _Written(Record, frozen=True):
    conversation_id: ConversationId
    path: Path
    bytes: int


async def _export(
    reader: Reader, named: Selector, database: Path, to: Path | None, markdown: bool
) -> _Written:
    from lcm_core.operations.export import default_folder, export_name, export_to

    record = await chosen(reader, named)
    number, place = record.conversation_id, make_private(default_folder()) if to is None else to
    if place.is_dir():
        place /= f"{export_name(number, datetime.now(UTC))}.{'md' if markdown else 'jsonl'}"
    if not markdown:
        made = await export_to(reader, record, place, database)
        return _Written(number, made.path, made.bytes)
    from lcm_recall.markdown import conversation_markdown

    text = await conversation_markdown(reader, record)
    path = await asyncio.to_thread(write_private, place, text, never=database_files(database))
    return _Written(number, path, path.stat().st_size)


def _document(found: ShownConversation) -> Document:
    return {
        "conversation": json_of(CONVERSATION_COLUMNS, _row(found.conversation, found.counted, found.tail)),
        "summaryDepths": to_json(found.counted.depths),
        "context": to_json(found.counted.context),
        "telemetry": _state_document(found.state.telemetry),
        "maintenance": _state_document(found.state.maintenance),
        "bootstrap": _state_document(found.state.bootstrap),
        "focusBriefs": {
            "count": found.briefs,
            "activeBrief": None if found.active is None else documents.active_brief(found.active),
        },
        "largeFiles": to_json(found.state.files),
        "archiveCause": found.conversation.archive_cause,
        "transcriptCursor": _state_document(found.state.cursor),
    }


def _state_document(row: StateRow | None) -> Document | None:
    if row is None:
        return None
    return {
        documents.camel(name): bool(value) if name in _SWITCHES else documents.scalar(value)
        for name, value in row.items()
    }


def _not_recorded(schema: Schema) -> list[str]:
    fields = not_recorded(CONVERSATION_COLUMNS, schema, "conversation")
    tables: Mapping[str, str] = {
        "telemetry": TELEMETRY,
        "maintenance": MAINTENANCE,
        "bootstrap": BOOTSTRAP,
        "focusBriefs": "focus_briefs",
        "transcriptCursor": CURSORS,
    }
    fields += [field for field, table in tables.items() if not schema.has(table)]
    return fields if schema.has("conversations", "archive_cause") else [*fields, "archiveCause"]
