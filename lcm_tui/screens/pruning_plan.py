"""The previews of archiving, deleting and forgetting conversations.

What is deleted is exported to a file before; of what is forgotten nothing is kept.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from lcm_core.change.forgetting import Scrubbed, scrub
from lcm_core.change.plan import Plan
from lcm_core.change.planning import Planned
from lcm_core.errors import LcmError, RefusedError
from lcm_core.operations.conversation_file import Exported, default_folder, export_conversation
from lcm_core.operations.forgetting import Traces, forget_traces, forgetting_means
from lcm_core.operations.prune import plan_delete
from lcm_core.records import ConversationId
from lcm_core.store.conversations import get_conversation
from lcm_core.store.database import Reader

from lcm_tui.changes.archive import named
from lcm_tui.changes.change import Change, Choice, Then
from lcm_tui.screens.plan import DONE_SECONDS, PlanScreen
from lcm_tui.screens.plan_view import HELP_VIEW
from lcm_tui.widgets.bars import TitleBar

#: Rows beyond which the command line is the better place: it does not hold all of them at once.
MOST_ROWS: Final = 30_000


class DeletionScreen(PlanScreen):
    """The preview of a deletion, which exports the conversations before; or of forgetting them for good."""

    HELP = f"""
A preview: nothing has been changed yet, and leaving costs nothing. a exports each conversation to a file,
then deletes every row of it; U, then u brings it back from the history, lcm-tui import from the file.

1 turns this into forgetting, for privacy: nothing is exported, what lcm-tui noted about the conversations
(history, snapshots, drafts) goes too, the deleted bytes are overwritten and the file is written anew. That
CANNOT be undone, so a has you type the number of the conversation, or how many there are. Copies that lie
elsewhere, such as backups, are listed and not touched.

{HELP_VIEW}
"""

    def __init__(self, conversations: Sequence[ConversationId], then: Then) -> None:
        self._keeping = Choice("kept", ("an export and the history", "NOTHING: forgotten for good"))
        title = f"Delete {named(conversations)}"
        super().__init__(Change(self._plan, title, choices=(self._keeping,), then=then))
        self._conversations = tuple(conversations)
        self._exports: list[Exported] = []
        self._batch = f"batch_{secrets.token_hex(8)}"
        self._untraced: set[int] = set()  #: the history does not know them any more
        self._traces = Traces()
        self._confirming = False  #: the prompt is open to agree, not to search

    @property
    def _forget(self) -> bool:
        return self._keeping.on

    async def _plan(self, reader: Reader) -> Sequence[Plan]:
        forget = self._forget
        deletion = await plan_delete(reader, self._conversations, forget=forget, rows=MOST_ROWS)
        if not deletion.complete:
            ids = " ".join(str(one) for one in self._conversations)
            raise RefusedError(
                f"That is more than {MOST_ROWS:,} rows. Do it from the command line, which goes part by "
                f"part: lcm-tui prune {ids} --{'forget' if forget else 'delete'}"
            )
        if not deletion.plans:
            raise RefusedError("These conversations are gone already.")
        notes: tuple[str, ...] = (f"Each is exported to {default_folder()} before it is deleted",)
        if forget:
            path = self.session.database.path
            notes = await asyncio.to_thread(forgetting_means, path, self._conversations)
        first, *rest = deletion.plans
        noted = [replace(first, warnings=(*notes, *first.warnings)), *rest]
        return [replace(plan, batch=self._batch) for plan in noted]

    # -- agreeing ----------------------------------------------------------------------------------------

    def turned(self) -> None:
        """Say what it is now."""
        verb = "Forget" if self._forget else "Delete"
        self.query_one(TitleBar).where = f"{verb} {named(self._conversations)}"

    def action_apply(self) -> None:
        """Apply what is shown; forgetting needs something typed that nobody types without meaning it."""
        if not self._forget:
            super().action_apply()
            return
        self._confirming = True
        wanted = self._to_type()
        what = "the number of the conversation" if len(self._conversations) == 1 else "how many they are"
        self.open_prompt(f"type {what} to forget for good ({wanted}); esc leaves")

    def _to_type(self) -> str:
        several = len(self._conversations)
        return str(several if several > 1 else self._conversations[0])

    def answered(self, text: str, *, done: bool) -> None:
        """What was typed to agree, or a search."""
        if not self._confirming:
            super().answered(text, done=done)
        elif done:
            self._confirming = False
            if text.strip() != self._to_type():
                self.app.notify("That is not it; nothing was changed.", severity="warning")
            elif self.why_not("apply") is None:
                super().action_apply()

    async def action_back(self) -> None:
        """Leave the prompt first."""
        self._confirming = False
        await super().action_back()

    async def settled(self) -> bool:
        """No backup is offered of what is to be forgotten."""
        return self._forget or await super().settled()

    # -- applying ----------------------------------------------------------------------------------------

    async def before_commit(self, plan: Plan) -> None:
        """Take what is to be forgotten out of the history, as long as its rows tell what belongs to it."""
        number = plan.conversation_id
        if self._forget and number is not None and number not in self._untraced:
            path, stopped = self.session.database.path, self.stopped
            self._traces += await asyncio.to_thread(
                lambda: forget_traces(path, ConversationId(number), stopped=stopped)
            )
            self._untraced.add(number)

    async def _commit(self, planned: Planned) -> None:
        if self._forget:
            try:
                await super()._commit(planned)
            except LcmError as error:
                if self._done:
                    await self._scrub()
                else:
                    self._traces.add_to(error)
                raise
            await self._scrub()
            return
        for number in dict.fromkeys(plan.conversation_id for plan in planned.plans):
            edits = [edit for plan in planned.plans if plan.conversation_id == number for edit in plan.edits]
            known = any(one.conversation_id == number and one.covers(edits) for one in self._exports)
            if number is not None and not known:
                self._exports.append(await self.session.read(_export, number, self.session.database.path))
        await super()._commit(planned)
        where = "\n".join(str(one.path) for one in self._exports)
        self.app.notify(where, title="Exported to", timeout=DONE_SECONDS)

    async def _scrub(self) -> None:
        """Leave nothing of it in the file, and say what became of that."""
        bar = self.query_one(TitleBar)
        bar.note = "writing the file anew …"
        self.refresh_bars()
        database = self.session.database
        try:
            done = await asyncio.to_thread(scrub, database.path)
        except LcmError as error:
            done = Scrubbed((), False, False, (error.message.rstrip("."),))
        await database.refresh()
        gone = f"Operations taken out of the history: {self._traces.operations:,}"
        anew = ". The file was written anew" if done.rewritten else ""
        self.app.notify(f"{gone}{anew}.", title="Forgotten", timeout=DONE_SECONDS)
        for problem in done.problems:
            self.app.notify(f"{problem}.", title="Not all is gone", severity="warning", timeout=DONE_SECONDS)


async def _export(reader: Reader, number: int, path: Path) -> Exported:
    return await export_conversation(reader, await get_conversation(reader, number), default_folder(), path)
