"""What a comparison reads."""

from __future__ import annotations

from lcm_core.assemble.compare import ContextDiff

from lcm_tui.places import Side
from lcm_tui.session import Session


async def load_comparison(session: Session, left: Side, right: Side) -> ContextDiff:
    """Assemble what is not assembled yet, and compare.

    Raises:
        NotFoundError: a conversation or a snapshot is gone.
        UsageError: what is compared cannot be compared.
    """
    from lcm_core import snapshots
    from lcm_core.assembly import settings_for

    engine = session.settings.engine
    one, other = (
        snapshots.ComparedContext(
            side.conversation_id,
            settings_for(engine, side.budget, side.prompt or None, clamp=side.clamps),
            assembled=side.assembled,
            snapshot_id=side.snapshot_id,
            budget_of_snapshot=side.budget_of_snapshot,
            engine=engine,
        )
        for side in (left, right)
    )
    return await session.read(snapshots.read_comparison, one, other, session.zone)
