"""What the screens of snapshots read."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import tzinfo
from typing import Final, TypeAlias

from lcm_core.assemble.ledger import Ledger, ledger_of
from lcm_core.records import ConversationId
from lcm_core.snapshots import RebuiltSnapshot, rebuild_snapshot
from lcm_core.store.assemblies import DamagedSnapshot, Snapshot, snapshot_page
from lcm_core.store.database import Reader
from lcm_core.store.listing import Window
from lcm_core.times import format_zoned, parse_utc

#: Snapshots that are read; an engine keeps 20 of a conversation unless its host says otherwise.
MOST: Final = 500

Listed: TypeAlias = Snapshot | DamagedSnapshot


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """A snapshot as far as it can be shown today."""

    found: RebuiltSnapshot
    ledger: Ledger

    def place(self, number: int) -> int | None:
        """Where the message that was sent as that *number*, from 0, stands among those of today."""
        return self.found.places[number]


async def load_snapshots(reader: Reader, conversation_id: ConversationId) -> tuple[Listed, ...]:
    """The newest snapshots of a conversation, newest first."""
    return tuple((await snapshot_page(reader, conversation_id, Window(MOST))).items)


async def load_snapshot(reader: Reader, one: Snapshot, zone: tzinfo | None) -> Rebuilt:
    """Put a snapshot together from what stands now. *zone*: that of the times in the messages."""
    found = await rebuild_snapshot(reader, one, zone)
    return Rebuilt(found, await asyncio.to_thread(ledger_of, found.assembled))


def when_of(one: Listed, zone: tzinfo | None) -> str:
    """When it was sent, in the zone that is shown; of a damaged one whatever stands there."""
    return format_zoned(parse_utc(one.created_at), zone) or one.created_at
