"""The keys of local findings: what a change would break, and what an operation removed.

A key is ``<check>:<conversation or ->:<kind>:<reference>``, for example ``A4:7:message:17``; the check is
one of docs/engine/doctor.md. Keys are stable: the journal keeps those that an operation removed, so that an
undo may bring exactly those back.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from lcm_core.change.plan import Ref
from lcm_core.store.connecting import SqlValue

#: Checks of references, by the column that refers.
_REFERENCES: Final[Mapping[tuple[str, str], str]] = {
    ("context_items", "message_id"): "A1",
    ("context_items", "summary_id"): "A2",
    ("summary_messages", "message_id"): "B3",
    ("summary_messages", "summary_id"): "B4",
    ("summary_parents", "summary_id"): "B4",
    ("summary_parents", "parent_summary_id"): "B4",
    ("message_parts", "message_id"): "E13",
    ("focus_brief_sources", "summary_id"): "G11",
}


#: What a key says where the same check finds different things, by check and kind.
_OF_KIND: Final[Mapping[tuple[str, str], str]] = {
    ("G11", "briefs"): "another focus brief of conversation {conversation} is active",
}


def context_key(check: str, conversation_id: int, ref: Ref) -> str:
    """Something wrong with an item of a context."""
    return f"{check}:{conversation_id}:{'summary' if isinstance(ref, str) else 'message'}:{ref}"


def summary_key(check: str, conversation_id: SqlValue, ref: SqlValue) -> str:
    """Something wrong with a summary."""
    return f"{check}:{conversation_id!s}:summary:{ref!s}"


def message_key(check: str, conversation_id: SqlValue, ref: SqlValue) -> str:
    """Something wrong with a message; *ref* may be the name of a symbol, until it has its id."""
    return f"{check}:{conversation_id!s}:message:{ref!s}"


def briefs_key(conversation_id: SqlValue) -> str:
    """Several focus briefs of a conversation are active."""
    return f"G11:{conversation_id!s}:briefs:active"


def resolved(key: str, values: Mapping[str, SqlValue]) -> str:
    """A key with the id of a message that was planned by the name of its symbol."""
    place, kind, name = key.partition(":message:")
    return f"{place}{kind}{values[name]!s}" if name in values else key


def line_key(check: str, conversation_id: SqlValue, kind: str, consumer: SqlValue, source: SqlValue) -> str:
    """Something wrong with an ``edge`` between summaries or a ``link`` to a message."""
    return f"{check}:{conversation_id!s}:{kind}:{consumer!s}/{source!s}"


def reference_key(table: str, column: str, value: SqlValue, conversation_id: int | None = None) -> str:
    """A reference without a target; *conversation_id* of a context item."""
    check = _REFERENCES.get((table, column), "FK")
    if conversation_id is not None:
        return f"{check}:{conversation_id}:{'message' if column == 'message_id' else 'summary'}:{value!s}"
    return f"{check}:-:{table}.{column}:{value!s}"


def sentence_of(key: str) -> str:
    """What a key says, as part of a sentence; the check's id follows it."""
    check, _, rest = key.partition(":")
    conversation, _, rest = rest.partition(":")
    kind, _, ref = rest.partition(":")
    from lcm_core.checks import CHECKS  # whoever changes nothing broken needs none of them

    known = CHECKS[check].broken if check in CHECKS else ""
    pattern = _OF_KIND.get((check, kind)) or known or "{kind} refers to {ref}, which is missing"
    return f"{pattern.format(conversation=conversation, kind=kind, ref=ref)} ({check})"
