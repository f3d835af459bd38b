"""Cursors of paged lists, those of the engine's own command (docs/spec/command.md, "Cursors")."""

from __future__ import annotations

import base64
import binascii
import json

from lcm_core.base.errors import UsageError
from lcm_core.base.setting_values import JsonObject
from lcm_core.store.listing import Position

from lcm_tui.tables.machine import json_text

VERSION = 1
#: Lists whose ids are numbers; those of the others are text.
_NUMBERED = frozenset({"conversations", "conversations by activity", "messages", "history"})
_MAX_CHARACTERS = 4_000


def encode(resource: str, position: Position) -> str:
    """The cursor behind *position* in the list of *resource*."""
    content: JsonObject = {
        "v": VERSION,
        "resource": resource,
        "timestamp": position.timestamp,
        "id": position.id,
    }
    raw = json_text(content).encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def decode(resource: str, cursor: str) -> Position:
    """The position that a cursor of this list names.

    Raises:
        UsageError: it is no cursor, or one of another list.
    """
    content = _content(cursor)
    if not isinstance(content, dict) or content.get("v") != VERSION:
        raise _refused("it was not made by this command", cursor)
    if content.get("resource") != resource:
        raise _refused(f"it belongs to another list than {resource}", cursor)
    timestamp, row_id = content.get("timestamp"), content.get("id")
    if not (timestamp is None or isinstance(timestamp, str)):
        raise _refused("it contains no time", cursor)
    if resource in _NUMBERED:
        if not isinstance(row_id, int) or isinstance(row_id, bool) or abs(row_id) >= 2**63:
            raise _refused("it contains no id of that list", cursor)
    elif not isinstance(row_id, str):
        raise _refused("it contains no id of that list", cursor)
    return Position(timestamp, row_id)


def _content(cursor: str) -> object:
    if len(cursor) > _MAX_CHARACTERS:
        return None
    try:
        raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        return json.loads(raw.decode("utf-8"))
    except (binascii.Error, ValueError, RecursionError):
        return None


def _refused(reason: str, cursor: str) -> UsageError:
    return UsageError(
        f"The cursor cannot be used: {reason}. Use the cursor printed by the previous page, or omit "
        "--cursor.",
        code="INVALID_CURSOR",
        details={"option": "cursor", "value": cursor[:80]},
    )
