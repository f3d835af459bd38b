"""What can be picked instead of typed, from what is known of a conversation."""

from __future__ import annotations

from collections.abc import Sequence

from lcm_core.base.records import Conversation
from lcm_core.base.text import STEPS
from lcm_core.store.database import Reader
from lcm_core.store.listing import Snapshot, Window, snapshot_page
from lcm_core.store.state import engine_state

from lcm_tui.kit.pick import Pick
from lcm_tui.kit.session import Session
from lcm_tui.tables.blocks import tokens_text

#: Snapshots whose budgets are looked at, the newest.
_SNAPSHOTS = 20


async def _budgets_of(reader: Reader, conversation: Conversation) -> list[tuple[int, str]]:
    """The budgets that hosts and engines have passed for a conversation, and who did."""
    number = conversation.conversation_id
    noted = (await engine_state(reader, number)).maintenance or {}
    passed = noted.get("token_budget")
    found = [(passed, "the host’s, as the engine noted it")] if isinstance(passed, int) and passed > 0 else []
    kept = await snapshot_page(reader, number, Window(limit=_SNAPSHOTS))
    return [
        *found,
        *((one.budget, f"of {one.id}") for one in kept.items if isinstance(one, Snapshot)),
    ]


async def budgets(session: Session, conversation: Conversation, *, asked: int) -> Sequence[Pick]:
    """Budgets to set: the configured one, those in use, and the windows that models have."""
    configured = session.budget
    cap = session.settings.engine.max_assembly_token_budget.value
    known = await session.read(_budgets_of, conversation)
    if cap is not None:
        known.insert(0, (cap, "the engine’s cap"))
    named: dict[int, str] = {}
    for budget, note in (*known, *((size, "a model’s window") for size in STEPS)):
        named.setdefault(budget, note)
    named.pop(configured, None)
    return [
        Pick("", f"{configured:,}", f"as configured{', set now' if asked == configured else ''}"),
        *(
            Pick(tokens_text(budget), f"{budget:,}", f"{note}{', set now' if budget == asked else ''}")
            for budget, note in named.items()
        ),
    ]
