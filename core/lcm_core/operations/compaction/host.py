"""Whether the host compacts a conversation itself just now.

An engine up to 0.15 remembers the ordinals of a chunk, asks its model, and then takes out whatever stands at
those ordinals. A pass of ours in between moves them, and the host would take messages out of its context that
no summary covers. It notes that it has begun, so we wait for it.

Source: docs/engine/compaction.md, "Two that compact at once".
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from lcm_core.change.errors import Moved, StalePlanError
from lcm_core.change.plan import Cells, RowChange
from lcm_core.errors import RefusedError
from lcm_core.records import ConversationId
from lcm_core.store.database import Reader
from lcm_core.store.rows import rows_by
from lcm_core.store.state import MAINTENANCE
from lcm_core.times import parse_utc

#: A note that is older stayed behind when the host died: no compaction of the engine takes longer than 300 s.
STUCK: Final = timedelta(minutes=10)


class HostCompactsError(RefusedError):
    """The host is at it: two at once could take messages out of the context."""

    def __init__(self, conversation_id: int, since: str) -> None:
        super().__init__(
            f"The host compacts conversation {conversation_id} itself, since {since}; two at once could take "
            "messages out of its context. Nothing more was changed: wait until it has finished, or stop it.",
            code="HOST_COMPACTS",
        )


async def host_since(reader: Reader, conversation_id: ConversationId, now: datetime) -> str | None:
    """Since when the host compacts a conversation, as it noted; None when it does not, or died over it."""
    for row in await rows_by(reader, MAINTENANCE, "conversation_id", [conversation_id]):
        since = row.get("last_started_at")
        moment = parse_utc(since) if isinstance(since, str) else None
        if row.get("running") and moment is not None and abs(now - moment) < STUCK:
            return str(since)
    return None


async def still_resting(reader: Reader, conversation_id: ConversationId, now: datetime) -> list[RowChange]:
    """What a plan holds so that it is stale, and not committed, when the host begins before it is.

    Raises:
        StalePlanError: it has begun since somebody looked.
    """
    if await host_since(reader, conversation_id, now) is not None:
        raise StalePlanError(
            [Moved(f"conversation {conversation_id}", "left alone", "compacted by the host")]
        )
    return [
        RowChange(MAINTENANCE, Cells.of({"conversation_id": conversation_id}), resting, resting)
        for row in await rows_by(reader, MAINTENANCE, "conversation_id", [conversation_id])
        if row.get("running") == 0
        for resting in (Cells.of({"running": 0}),)
    ]
