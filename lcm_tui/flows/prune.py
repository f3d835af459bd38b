"""The changes of ``conversations``: those that are archived, and those that go."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from lcm_core.base.errors import LcmError, RefusedError
from lcm_core.base.records import ConversationId
from lcm_core.base.text import counted
from lcm_core.base.values import replace
from lcm_core.change.commit import Committed
from lcm_core.change.journal import new_batch_id
from lcm_core.change.plan import Plan
from lcm_core.change.preview import Planner
from lcm_core.change.undo import Scrubbed, scrub
from lcm_core.operations.disk import freed_by
from lcm_core.operations.export import (
    Exported,
    Traces,
    default_folder,
    export_conversation,
    forget_traces,
    forgetting_means,
)
from lcm_core.operations.prune import plan_archive, plan_delete
from lcm_core.store.conversations import get_conversation
from lcm_core.store.database import Reader

from lcm_tui.flows.change import Change, Choice, Confirmation, Notice, Then
from lcm_tui.flows.ui import Ui
from lcm_tui.tables.disk import freed_sentences
from lcm_tui.tables.messages import below_home

# -- archive ---------------------------------------------------------------------------------------------

ABOUT_ARCHIVING: Final = """
Archiving marks conversations as ended, as the host does at a reset. No data is deleted; the host starts a new
conversation at the session's next message.
"""


def archiving(conversations: Sequence[ConversationId], then: Then | None = None) -> Change:
    """Archive those of *conversations* that are not yet."""
    wanted = tuple(conversations)

    async def plan(reader: Reader) -> Plan:
        made = await plan_archive(reader, wanted)
        if not made:
            raise RefusedError("All of them are already archived.")
        return made

    return Change(plan, f"Archive {named_conversations(wanted)}", ABOUT_ARCHIVING, then=then)


def named_conversations(conversations: Sequence[ConversationId]) -> str:
    """Which conversations, in a title."""
    if len(conversations) == 1:
        return f"conversation {conversations[0]}"
    return f"{len(conversations):,} conversations"


# -- delete ----------------------------------------------------------------------------------------------
# Each conversation is exported to a file before; or it is erased, and nothing of it is kept.

#: Rows beyond which the command line is the better place: it does not hold all of them at once.
MOST_ROWS: Final = 30_000

ABOUT_DELETING: Final = """
a exports each conversation to a file, then deletes every row of it. U, then u restores it from the history;
lcm-tui import restores it from the file.

1 switches to permanent erasure, for privacy: nothing is exported, lcm-tui's own records of the conversations
(history, snapshots, drafts) are erased too, the deleted bytes are overwritten and the file is rewritten
(VACUUM). This CANNOT be undone, so a asks you to type the conversation's number, or how many there are.
Copies elsewhere, such as backups, are listed and not touched.
"""


class Deleting(Change):
    """Conversations that go: each exported before, or (`forgets`) with every trace of them."""

    def __init__(
        self,
        planner: Planner,
        path: Path,
        folder: Path,
        conversations: Sequence[ConversationId] = (),
        then: Then | None = None,
    ) -> None:
        """*path* is the database, *folder* where the exports go."""
        modes = "delete with export and undo", "erase permanently (NO UNDO)"
        self.kept = Choice("mode", modes, allows=False)
        super().__init__(planner, about=ABOUT_DELETING, choices=(self.kept,), then=then)
        self.folder = folder
        self.conversations = tuple(conversations)
        self.exports: list[Exported] = []
        self.freed = 0  #: bytes of the database file, about
        self.finished = False  #: nothing of them is left
        self.traces = Traces()  #: of what was forgotten, gone too
        self.scrubbed: Scrubbed | None = None  #: nothing of it is left in the file
        self._path = path
        self._untraced: set[int] = set()  #: the history does not know them any more

    @property
    def forgets(self) -> bool:
        """Whether nothing is kept."""
        return self.kept.on

    @property
    def title(self) -> str:
        """Deleting or forgetting."""
        return f"{'Forget' if self.forgets else 'Delete'} {named_conversations(self.conversations)}"

    @property
    def offers_backup(self) -> bool:
        """No backup is offered of what is to be forgotten."""
        return not self.forgets

    def confirmation(self) -> Confirmation | None:
        """The number of the conversation, or how many they are: nobody types that without meaning it."""
        if not self.forgets:
            return None
        several = len(self.conversations)
        wanted = several if several > 1 else self.conversations[0]
        what = "how many they are" if several > 1 else "the number of the conversation"
        return Confirmation(str(wanted), f"type {what} to erase permanently ({wanted}); esc cancels")

    async def before(self, ui: Ui, plan: Plan) -> None:
        """Export what is deleted; of what is forgotten, take away its traces, which its rows tell."""
        number = plan.conversation_id
        if number is None:
            raise RefusedError(f"{plan.title}: it belongs to no conversation. Nothing was changed.")
        if self.forgets and number not in self._untraced:
            self.traces += await asyncio.to_thread(
                lambda: forget_traces(self._path, ConversationId(number), stopped=ui.cancelled)
            )
            self._untraced.add(number)
        covered = any(one.conversation_id == number and one.covers(plan.edits) for one in self.exports)
        if not self.forgets and not covered:
            self.exports.append(await ui.database.read(_export, number, self.folder, self._path))

    async def failed(self, ui: Ui, error: LcmError, done: Sequence[Committed]) -> Sequence[Notice]:
        """Say what is done of it; of what was forgotten so far nothing is left in the file."""
        if not done:
            if self.forgets:
                self.traces.add_to(error)
            return ()
        scrubbed = await self._scrub(ui, lambda: False) if self.forgets else ()
        return (*scrubbed, Notice(*self._half(len(done)), warns=True))

    def _half(self, done: int) -> tuple[str, str]:
        """What is to be known of a deletion that stopped on its way."""
        verb, end = ("erased", "is lost") if self.forgets else ("deleted", "comes back with an undo")
        made = f"{counted(done, 'change')} of {named_conversations(self.conversations)} made"
        return f"Not all of it is {verb}", f"{made}, and what they took {end}. The rest is still there."

    async def applied(self, ui: Ui, done: Sequence[Committed]) -> Sequence[Notice]:
        """Where the exports are, or that nothing is left."""
        del done
        self.finished = True
        if self.forgets:
            return await self._scrub(ui, ui.cancelled)
        return (Notice("Exported to", "\n".join(str(one.path) for one in self.exports)),)

    async def _scrub(self, ui: Ui, stopped: Callable[[], bool]) -> Sequence[Notice]:
        try:
            done = await asyncio.to_thread(lambda: scrub(self._path, stopped=stopped))
        except LcmError as error:
            done = Scrubbed((), False, False, (error.message.rstrip("."),))
        await ui.database.refresh()
        self.scrubbed = done
        gone = f"Operations removed from the history: {self.traces.operations:,}"
        anew = ". The file was rewritten (VACUUM)" if done.rewritten else ""
        problems = (
            Notice("Not everything was erased", f"{problem}.", warns=True) for problem in done.problems
        )
        return (Notice("Erased" if self.finished else "Erased so far", f"{gone}{anew}."), *problems)


def deleting(
    conversations: Sequence[ConversationId], path: Path, then: Callable[[int], object] | None = None
) -> Change:
    """Delete *conversations* of the database at *path*, or forget them; *then* gets `Deleting.freed`."""
    batch = new_batch_id()

    async def plan(reader: Reader) -> Sequence[Plan]:
        forget = change.forgets
        deletion = await plan_delete(reader, conversations, forget=forget, rows=MOST_ROWS)
        if not deletion.complete:
            ids = " ".join(str(one) for one in conversations)
            raise RefusedError(
                f"This changes more than {MOST_ROWS:,} rows. Use the command line, which works part by "
                f"part: lcm-tui conversations {'forget' if forget else 'delete'} {ids}"
            )
        if not deletion.plans:
            raise RefusedError("These conversations were already deleted.")
        freed = await freed_by(reader, conversations, deletion.plans)
        change.freed, notes = freed.freed, freed_sentences(freed)
        if forget:
            notes = (*await asyncio.to_thread(forgetting_means, path, conversations), *notes)
        else:
            notes += (f"Exported to {below_home(change.folder)} first",)
        first, *rest = deletion.plans
        noted = [replace(first, warnings=(*notes, *first.warnings)), *rest]
        return [replace(one, batch=batch) for one in noted]

    def after(_: object) -> None:
        if then is not None and change.finished:
            then(change.freed)

    change = Deleting(plan, path, default_folder(), conversations, after)
    return change


async def _export(reader: Reader, number: int, folder: Path, path: Path) -> Exported:
    return await export_conversation(reader, await get_conversation(reader, number), folder, path)
