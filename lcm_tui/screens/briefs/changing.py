"""What can be done with the briefs of a conversation: a new one, refocus, activate, clear, delete."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from lcm_core.change.commit import Committed
from lcm_core.change.journal import new_batch_id
from lcm_core.errors import LcmError
from lcm_core.operations.focus import MOST_PROMPT, FocusKind
from lcm_core.records import Conversation

from lcm_tui import places
from lcm_tui.briefing import BriefWork, sweep_forecast
from lcm_tui.changes.focus import activating, clearing, deleting_brief
from lcm_tui.commands import Action
from lcm_tui.dialogs.question import Question
from lcm_tui.frame import CommandScreen
from lcm_tui.screens.briefs.panes import BriefList
from lcm_tui.views.brief_draft import sweep_text
from lcm_tui.widgets.wrapped import Block
from lcm_tui.writing import choose_writer


class BriefChanges:
    """The changes of one screen of briefs."""

    def __init__(self, screen: CommandScreen, conversation: Conversation, chosen: BriefList) -> None:
        self._screen = screen
        self._conversation = conversation
        self._list = chosen

    def actions(self) -> Sequence[Action]:
        """The commands."""
        return (
            Action("new-brief", self._new, self._why_unknown),
            Action("rewrite", self._refocus, self._why_none_active),
            Action("activate", self._activate, self._why_not_activated),
            Action("archive", self._clear, self._why_none_active),
            Action("delete", self._delete, self._list.why_none),
        )

    # -- reasons -----------------------------------------------------------------------------------------

    def _why_unknown(self) -> str | None:
        if self._list.briefs is None:
            return "still loading: try again in a moment"
        return None if self._list.recorded else "this engine version has no focus briefs (added in 0.11.0)"

    def _why_none_active(self) -> str | None:
        if (unknown := self._why_unknown()) is not None:
            return unknown
        briefs = self._list.briefs
        found = briefs is not None and briefs.active is not None
        return None if found else "no focus brief is active"

    def _why_not_activated(self) -> str | None:
        entry = self._list.selected
        if entry is None:
            return self._list.why_none()
        if entry.is_active:
            return "this brief is active"
        return None if entry.brief.content.strip() else "this brief has no text"

    # -- commands ----------------------------------------------------------------------------------------

    async def _new(self) -> None:
        typed = await self._screen.ask("What should the brief be about?", check=_prompt_problem)
        if typed is not None and typed.strip():
            self._open(FocusKind.CREATE, typed.strip())

    def _refocus(self) -> None:
        briefs = self._list.briefs
        if briefs is not None and briefs.active is not None:
            self._open(FocusKind.REFOCUS, briefs.by_id[briefs.active].brief.prompt)

    def _open(self, kind: FocusKind, prompt: str) -> None:
        work = BriefWork(self._screen.session, self._conversation, kind, prompt)
        self._screen.open(places.BriefDraft(work))

    def _activate(self) -> None:
        if (entry := self._list.selected) is not None:
            self._screen.open(places.Preview(activating(self._conversation, entry.brief.brief_id)))

    def _delete(self) -> None:
        if (entry := self._list.selected) is not None:
            self._screen.open(places.Preview(deleting_brief(self._conversation, entry.brief.brief_id)))

    async def _clear(self) -> None:
        """Preview it, with what the engine does behind it; then offer that."""
        session, batch = self._screen.session, new_batch_id()
        passes, notes = "", []
        try:
            seen = await sweep_forecast(session, self._conversation)
            if seen.passes:
                passes = sweep_text(seen, await asyncio.to_thread(choose_writer, session.settings))
                notes.append(f"The engine then sweeps: {passes}; offered after this")
        except LcmError as error:
            notes.append(f"The sweep after it cannot be estimated: {error.message.rstrip('.')}")

        def then(done: Sequence[Committed]) -> None:
            if done and passes:
                self._screen.work_on("sweep", self._offer_sweep, passes, batch, exclusive=False)

        self._screen.open(places.Preview(clearing(self._conversation, batch, notes, then)))

    async def _offer_sweep(self, passes: str, batch: str) -> None:
        question = Question(
            "Sweep the context?",
            (Block(f"{passes}. The engine would sweep now; the passes belong to the same batch."),),
            (("a", "show the passes with their cost"),),
            leave="skip it; the engine would not",
            decides=False,
        )
        if await self._screen.app.push_screen_wait(question):
            self._screen.open(places.Compaction(self._conversation, batch))


def _prompt_problem(text: str) -> str | None:
    said = len(text.strip())
    return None if said <= MOST_PROMPT else f"at most {MOST_PROMPT:,} characters, not {said:,}"
