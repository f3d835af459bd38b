"""Deleting conversations, each exported to a file before; or forgetting them, of which nothing is kept."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from lcm_core.change.commit import Committed
from lcm_core.change.forgetting import Scrubbed, scrub
from lcm_core.change.journal import new_batch_id
from lcm_core.change.plan import Plan
from lcm_core.errors import LcmError, RefusedError
from lcm_core.operations.conversation_file import Exported, default_folder, export_conversation
from lcm_core.operations.forgetting import Traces, forget_traces, forgetting_means
from lcm_core.operations.prune import plan_delete
from lcm_core.records import ConversationId
from lcm_core.store.conversations import get_conversation
from lcm_core.store.database import Database, Reader

from lcm_tui.changes.archive import named
from lcm_tui.changes.change import Change, Choice, Confirmation, Notice, Surroundings, Then

#: Rows beyond which the command line is the better place: it does not hold all of them at once.
MOST_ROWS: Final = 30_000

ABOUT: Final = """
a exports each conversation to a file, then deletes every row of it. U, then u restores it from the history;
lcm-tui import restores it from the file.

1 switches to permanent erasure, for privacy: nothing is exported, lcm-tui's own records of the conversations
(history, snapshots, drafts) are erased too, the deleted bytes are overwritten and the file is rewritten
(VACUUM). This CANNOT be undone, so a asks you to type the conversation's number, or how many there are.
Copies elsewhere, such as backups, are listed and not touched.
"""


class _Deleting(Surroundings):
    """The exports of what is deleted, and the traces of what is forgotten."""

    def __init__(self, conversations: Sequence[ConversationId]) -> None:
        self.kept = Choice("mode", ("delete with export and undo", "erase permanently (NO UNDO)"))
        self._conversations = tuple(conversations)
        self._exports: list[Exported] = []
        self._untraced: set[int] = set()  #: the history does not know them any more
        self._traces = Traces()

    @property
    def forgets(self) -> bool:
        """Whether nothing is kept."""
        return self.kept.on

    def title(self) -> str:
        """Deleting or forgetting."""
        return f"{'Forget' if self.forgets else 'Delete'} {named(self._conversations)}"

    def confirmation(self) -> Confirmation | None:
        """The number of the conversation, or how many they are: nobody types that without meaning it."""
        if not self.forgets:
            return None
        several = len(self._conversations)
        wanted = several if several > 1 else self._conversations[0]
        what = "how many they are" if several > 1 else "the number of the conversation"
        return Confirmation(str(wanted), f"type {what} to erase permanently ({wanted}); esc cancels")

    @property
    def wants_backup(self) -> bool:
        """No backup is offered of what is to be forgotten."""
        return not self.forgets

    async def before_all(self, database: Database, plans: Sequence[Plan]) -> None:
        """Export what is deleted, as long as its rows are there."""
        if self.forgets:
            return
        for number in dict.fromkeys(plan.conversation_id for plan in plans):
            edits = [edit for plan in plans if plan.conversation_id == number for edit in plan.edits]
            known = any(one.conversation_id == number and one.covers(edits) for one in self._exports)
            if number is not None and not known:
                self._exports.append(await database.read(_export, number, database.path))

    async def before(self, database: Database, plan: Plan, stopped: Callable[[], bool]) -> None:
        """Take what is forgotten out of the history, as long as its rows tell what belongs to it."""
        number = plan.conversation_id
        if self.forgets and number is not None and number not in self._untraced:
            self._traces += await asyncio.to_thread(
                lambda: forget_traces(database.path, ConversationId(number), stopped=stopped)
            )
            self._untraced.add(number)

    async def failed(
        self, database: Database, error: LcmError, done: Sequence[Committed]
    ) -> Sequence[Notice]:
        """Of what was forgotten so far nothing is left in the file; before that, say what became of it."""
        if self.forgets and done:
            return await self._scrub(database)
        if self.forgets:
            self._traces.add_to(error)
        return ()

    async def applied(self, database: Database, done: Sequence[Committed]) -> Sequence[Notice]:
        """Where the exports are, or that nothing is left."""
        del done
        if self.forgets:
            return await self._scrub(database)
        return (Notice("Exported to", "\n".join(str(one.path) for one in self._exports)),)

    async def _scrub(self, database: Database) -> Sequence[Notice]:
        try:
            done = await asyncio.to_thread(scrub, database.path)
        except LcmError as error:
            done = Scrubbed((), False, False, (error.message.rstrip("."),))
        await database.refresh()
        gone = f"Operations removed from the history: {self._traces.operations:,}"
        anew = ". The file was rewritten (VACUUM)" if done.rewritten else ""
        problems = (
            Notice("Not everything was erased", f"{problem}.", warns=True) for problem in done.problems
        )
        return (Notice("Erased", f"{gone}{anew}."), *problems)


def deleting(conversations: Sequence[ConversationId], path: Path, then: Then | None = None) -> Change:
    """Delete *conversations* of the database at *path*, or forget them."""
    around = _Deleting(conversations)
    batch = new_batch_id()
    wanted = tuple(conversations)

    async def plan(reader: Reader) -> Sequence[Plan]:
        forget = around.forgets
        deletion = await plan_delete(reader, wanted, forget=forget, rows=MOST_ROWS)
        if not deletion.complete:
            ids = " ".join(str(one) for one in wanted)
            raise RefusedError(
                f"This changes more than {MOST_ROWS:,} rows. Use the command line, which works part by "
                f"part: lcm-tui prune {ids} --{'forget' if forget else 'delete'}"
            )
        if not deletion.plans:
            raise RefusedError("These conversations were already deleted.")
        notes: tuple[str, ...] = (f"Each is exported to {default_folder()} before it is deleted",)
        if forget:
            notes = await asyncio.to_thread(forgetting_means, path, wanted)
        first, *rest = deletion.plans
        noted = [replace(first, warnings=(*notes, *first.warnings)), *rest]
        return [replace(one, batch=batch) for one in noted]

    return Change(plan, around.title(), ABOUT, (around.kept,), then, around)


async def _export(reader: Reader, number: int, path: Path) -> Exported:
    return await export_conversation(reader, await get_conversation(reader, number), default_folder(), path)
