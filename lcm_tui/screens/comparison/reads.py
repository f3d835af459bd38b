"""What a comparison reads."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC
from typing import TYPE_CHECKING

from lcm_core.assemble.compare import ContextDiff

from lcm_tui.places import Side
from lcm_tui.session import PastSession, Session

if TYPE_CHECKING:
    from lcm_core.snapshots import ComparedContext


async def load_comparison(session: Session, left: Side, right: Side) -> ContextDiff:
    """Assemble what is not assembled yet, and compare.

    Raises:
        NotFoundError: a conversation, a snapshot or an operation is gone.
        UsageError: what is compared cannot be compared.
    """
    from lcm_core import snapshots
    from lcm_core.assembly import settings_for

    engine = session.settings.engine
    one, other = [
        snapshots.ComparedContext(
            side.conversation_id,
            settings_for(engine, side.budget, side.prompt or None, clamp=side.clamps),
            assembled=side.assembled,
            snapshot_id=side.snapshot_id,
            budget_of_snapshot=side.budget_of_snapshot,
            engine=engine,
        )
        for side in (left, right)
    ]
    one, other = await _as_then(session, left, one), await _as_then(session, right, other)
    return await session.read(snapshots.read_comparison, one, other, session.engine_zone)


async def _as_then(session: Session, side: Side, wanted: ComparedContext) -> ComparedContext:
    """A side at a point of the past, assembled; any other is left to be read."""
    if not side.at:
        return wanted
    from lcm_core.past.point import parse_point
    from lcm_core.snapshots import read_sides

    point = parse_point(side.at, UTC)
    assert point is not None
    then = PastSession(session, side.conversation_id, point)
    try:
        [assembled] = await then.read(read_sides, [wanted], session.engine_zone)
    finally:
        await then.close()
    return replace(wanted, assembled=assembled)
