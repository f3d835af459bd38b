"""Closing the debt of a conversation that has ended, behind a backup as the engine's doctor does it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from lcm_core.change.backup import Backup, default_target, make_backup
from lcm_core.change.commit import Committed
from lcm_core.change.plan import Plan
from lcm_core.operations.close_debt import LABEL, plan_close_debt
from lcm_core.records import Conversation
from lcm_core.store.database import Database, Reader

from lcm_tui.changes.change import Change, Notice, Surroundings

ABOUT: Final = """
Compaction that is due in an ended conversation never runs: its debt record stays forever. Closing the debt
marks the record as closed by the operator; no message or summary changes. The database is backed up first,
and the change is refused if the engine has changed the record meanwhile. U, then u undoes it.
"""


class _Backed(Surroundings):
    """The copy that is made before the change."""

    def __init__(self) -> None:
        self._made: Backup | None = None

    @property
    def wants_backup(self) -> bool:
        """None is offered: one is made."""
        return False

    async def before_all(self, database: Database, plans: Sequence[Plan]) -> None:
        """Copy the file."""
        del plans
        self._made = self._made or await asyncio.to_thread(
            lambda: make_backup(database.path, default_target(database.path, label=LABEL))
        )

    async def applied(self, database: Database, done: Sequence[Committed]) -> Sequence[Notice]:
        """Where the copy is."""
        del database, done
        return () if self._made is None else (Notice("Backup made before", str(self._made.path)),)


def closing_debt(conversation: Conversation) -> Change:
    """Close the debt of a conversation."""
    owner = conversation.conversation_id

    async def plan(reader: Reader) -> Plan:
        return await plan_close_debt(reader, owner)

    title = f"Close the debt of conversation {conversation.called}"
    return Change(plan, title, ABOUT, around=_Backed())
