"""Why a session has several conversations, in words (docs/engine/sessions.md, "Events")."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from lcm_core.records import Conversation

from lcm_tui.widgets.spans import Line, Span

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
