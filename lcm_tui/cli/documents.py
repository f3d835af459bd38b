"""Records as JSON objects, named and ordered as in docs/engine/command.md, "Commands"; and the fresh tail.

A field of a column that this file does not have is null; `not_recorded` names those fields.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence

from lcm_core.base.records import Conversation, FocusBrief, Message
from lcm_core.base.setting_values import Json
from lcm_core.base.settings import Settings
from lcm_core.base.text import preview
from lcm_core.base.values import replace
from lcm_core.engine.rules import FreshTail, TailRules, configured, engine_rules, fresh_tail
from lcm_core.engine.sessions import settings_for_session
from lcm_core.store.context import ContextMessage
from lcm_core.store.conversations import ConversationEntry, DepthCount
from lcm_core.store.listing import ListedSummary
from lcm_core.store.schema import Schema

from lcm_tui.tables.blocks import D, ListColumn, R
from lcm_tui.tables.conversation_rows import ROW_COLUMNS, Row

Document = dict[str, Json]

#: JSON fields that not every version records, and the columns behind them, by the table they are read from.
_RECORDED_LATER: Mapping[str, Mapping[str, str]] = {
    "conversations": {one.json: one.stored.partition(".")[2] for one in ROW_COLUMNS if one.stored},
    "messages": {"largeContent": "large_content", "createdAt": "created_at"},
    "summaries": {
        "earliestAt": "earliest_at",
        "latestAt": "latest_at",
        "descendantCount": "descendant_count",
        "descendantTokenCount": "descendant_token_count",
        "sourceMessageTokenCount": "source_message_token_count",
        "model": "model",
        "createdAt": "created_at",
    },
    "large_files": {"lineCount": "line_count"},
}


def not_recorded(schema: Schema, *tables: str) -> tuple[str, ...]:
    """The fields of *tables* that this file's version does not record."""
    return tuple(
        field
        for table in tables
        for field, column in _RECORDED_LATER.get(table, {}).items()
        if not schema.has(table, column)
    )


def listed(columns: Iterable[ListColumn[R, D]], row: R) -> Document:
    """A row of a list, by its columns."""
    return {column.json: column.value(row) for column in columns if column.json}


def conversation(record: Conversation) -> Document:
    """The row of a conversation."""
    return listed(ROW_COLUMNS, Row(ConversationEntry(record, None)))


def depths(totals: Iterable[DepthCount]) -> list[Json]:
    """Summaries by kind and depth."""
    return [
        {"kind": total.kind, "depth": total.depth, "count": total.count, "tokens": total.tokens}
        for total in totals
    ]


def message(record: Message, *, content: bool) -> Document:
    """A message as a line of a list, with its text when *content*."""
    return {
        "messageId": record.message_id,
        "conversationId": record.conversation_id,
        "seq": record.seq,
        "role": record.role,
        "tokenCount": record.tokens,
        "createdAt": record.created_at or None,
        "largeContent": record.large_content,
        "preview": preview(record.content),
        **({"content": record.content} if content else {}),
    }


def source_message(record: Message) -> Document:
    """A message that a leaf was made from."""
    return {
        "messageId": record.message_id,
        "seq": record.seq,
        "role": record.role,
        "tokenCount": record.tokens,
        "createdAt": record.created_at or None,
        "content": record.content,
    }


def summary(listed: ListedSummary, *, content: bool) -> Document:
    """A summary as a line of a list, with its text when *content*.

    ``parentCount`` counts its consumers and ``childCount`` its sources, as in the engine's command.
    """
    record = listed.summary
    return {
        "summaryId": record.summary_id,
        "conversationId": record.conversation_id,
        "kind": record.kind,
        "depth": record.depth,
        "tokenCount": record.tokens,
        "earliestAt": record.earliest_at,
        "latestAt": record.latest_at,
        "coverageAt": listed.covers_until,
        "descendantCount": record.descendant_count,
        "descendantTokenCount": record.descendant_tokens,
        "sourceMessageTokenCount": record.source_message_tokens,
        "createdAt": record.created_at or None,
        "fileIds": file_ids(record.file_ids),
        "model": record.model,
        "parentCount": listed.consumers,
        "childCount": listed.sources,
        "sourceMessageCount": listed.source_messages,
        "preview": preview(listed.content),
        **({"content": listed.content} if content else {}),
    }


def file_ids(stored: str) -> Json:
    """The ids in a stored JSON array; null when it is none."""
    try:
        found = json.loads(stored)
    except (ValueError, RecursionError):
        return None
    return [item for item in found if isinstance(item, str)] if isinstance(found, list) else None


def active_brief(record: FocusBrief) -> Document:
    """The focus brief in force, without its text."""
    return {
        "briefId": record.brief_id,
        "prompt": record.prompt,
        "tokenCount": record.tokens,
        "targetTokens": record.target_tokens,
        "coveredLatestAt": record.covered_latest_at,
        "coveredMessageSeq": record.covered_message_seq,
        "generatorRunId": record.generator_run_id,
        "generatorSessionKey": record.generator_session_key,
        "createdAt": record.created_at or None,
        "updatedAt": record.updated_at or None,
    }


def fresh_tail_document(tail: FreshTail) -> Document:
    """Where the protected end of a context begins and how much it holds."""
    return {
        "count": tail.count,
        "maxTokens": tail.max_tokens,
        "firstOrdinal": tail.first_ordinal,
        "messages": tail.messages,
        "tokens": tail.tokens,
    }


def scalar(value: object) -> Json:
    """Any stored value as JSON has it: numbers as JavaScript writes them, bytes as text."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        return int(value) if value.is_integer() and abs(value) < 2**53 else value
    return value if isinstance(value, bool | int | str) else None


# -- the fresh tail --------------------------------------------------------------------------------------
# By the settings of the operator and the rules of the engine that wrote the context.


def tail_rules(schema: Schema, settings: Settings, session_key: str | None) -> TailRules:
    """The rules for the fresh tail of a session."""
    return configured(engine_rules(schema), settings_for_session(settings.engine, session_key)).tail


def tail_of(
    messages: Sequence[ContextMessage],
    schema: Schema,
    settings: Settings,
    session_key: str | None = None,
    *,
    count: int | None = None,
) -> FreshTail:
    """Where the fresh tail of a session's context begins; or its newest *count* messages, and no more."""
    rules = tail_rules(schema, settings, session_key)
    if count is not None:
        rules = replace(rules, fresh_tail_count=count, keeps_turn_whole=False)
    return fresh_tail(messages, rules)
