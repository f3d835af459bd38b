"""The review of one summary's drafts: what changes, what is lost, and what is put in its place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

from lcm_core.operations.drafting.draft import Material
from lcm_core.operations.drafting.items import BatchItem, ItemState
from lcm_core.records import SummaryId
from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container
from textual.widget import Widget

from lcm_tui import places
from lcm_tui.commands import bindings
from lcm_tui.drafts import Work
from lcm_tui.frame import DataScreen
from lcm_tui.screens.review_asking import Asking
from lcm_tui.screens.review_committing import Committing
from lcm_tui.screens.review_head import ReviewHead, Standing, head_lines
from lcm_tui.screens.review_measuring import Measuring
from lcm_tui.widgets.bars import TitleBar
from lcm_tui.widgets.diff_view import DiffView
from lcm_tui.widgets.lines import LineView
from lcm_tui.widgets.spans import Line

#: Cells from which the diff and what it means stand beside each other.
WIDE: Final = 120


class ReviewScreen(Committing, Asking, Measuring):
    """The drafts of one summary, against what stands there now."""

    HELP = """
A draft of a summary, compared with the text that it would replace. Nothing has been changed yet.

- and + are lines that go and come, ~ (side by side) lines that changed, with the words that did. [ and ] go
from change to change; space leaves the change at the cursor (= stays, · stays out) or takes it again; enter
on a change of several lines makes each of them a change of its own. What a puts into the database is exactly
the text shown: all changes that are taken. v switches between unified and side by side. With changes left
out, or edited by hand (e here, E in $EDITOR), the model is recorded as "manual".

The pane beside it (tab) counts, for the present text and for the draft, what is kept of the source, lost and
invented: paths, ids, numbers with units, times, rules ("must", "never") ... A rule that the draft turns into
its opposite is named first, and no rule of a batch accepts such a draft. All of it is lexical: a number that
is kept may be told of the wrong thing, a rule told in other words looks lost. enter on a lost item shows
where in the source it is, on an invented one where in the draft, on a reversed rule both.

r asks again: another model, at another address, by other prompts, with other instructions; "cut" makes the
engine's own cut of the source, by no model. . and , go through the drafts, all of which stay. D compares the
draft with the next of: the present text, each other draft, and, when the summary changed while the draft was
made, the text that the draft was made over. A cut of the source is never taken by itself.
"""
    BINDINGS: ClassVar[list[BindingType]] = list(
        bindings(
            *("apply", "open", "mark", "hunk-previous", "hunk-next", "layout", "edit", "edit-outside"),
            *("rewrite", "draft-next", "draft-previous", "compare", "history"),
        )
    )
    DEFAULT_CSS = """
    ReviewScreen {
        & #panes { height: 1fr; layout: horizontal; }
        & #diff { width: 1fr; height: 1fr; }
        & #facts { width: 1fr; height: 1fr; display: none; }
        &.-facts #facts { display: block; }
        &.-facts #diff { display: none; }
        &.-wide #diff { width: 1fr; display: block; }
        &.-wide #facts { width: 52; display: block; border-left: solid $foreground 30%; padding-left: 1; }
        &.-wide #facts:focus { border-left: solid $accent; }
    }
    """

    def __init__(self, work: Work, summary_id: SummaryId, *, own: bool = False) -> None:
        """*own*: the work is this summary alone, and ends with the screen."""
        super().__init__(work, summary_id)
        self.HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (WIDE, "-wide")]
        self.own = own
        self.head = ReviewHead(self.head_lines)
        self._leaving = False

    def compose_body(self) -> ComposeResult:
        """The head, the diff and what it means."""
        yield self.head
        with Container(id="panes"):
            yield self.view
            yield self.table

    def main_widget(self) -> Widget:
        """The pane in sight."""
        return self.table if self.has_class("-facts") and not self.has_class("-wide") else self.view

    def on_mount(self) -> None:
        """Say where this is."""
        self.query_one(TitleBar).where = f"Review {self.summary_id}"
        self.work.listeners.append(self._item_changed)
        self.view.focus()

    async def on_unmount(self) -> None:
        """Listen no longer; end what is this screen's own, also when the app ends."""
        if self._item_changed in self.work.listeners:
            self.work.listeners.remove(self._item_changed)
        if self.own:
            await self.work.close()

    # -- data --------------------------------------------------------------------------------------------

    async def fetch(self) -> Material:
        """What stands in the database now, and what it is made from."""
        return await self.work.batch.material(self.summary_id)

    def show(self, data: Material) -> None:
        """Show it; without a draft, ask for one."""
        self.material = data
        if (
            self.draft is None
            and not self.busy
            and self.item.state is ItemState.WAITING
            and not self.item.why
        ):
            self.begin()
        self.again()
        self.measure_again()

    def _item_changed(self, item: BatchItem) -> None:
        if item.summary_id == self.summary_id and self.is_mounted:
            self.call_later(self.again)

    def again(self) -> None:
        """Show what has changed."""
        if not self.is_mounted:
            return
        pair = self.pair
        if pair is None:
            self.view.empty = self.busy or self.item.why or "There is no draft yet: r asks for one."
        else:
            self.view.can_choose = pair.takes
            self.view.show(pair.old, pair.new)
        self._say()

    def _say(self) -> None:
        bar = self.query_one(TitleBar)
        diff, hunk = self.view.diff, self.view.hunk
        bar.note = self.busy
        if not self.busy and diff is not None and self.pair is not None:
            count = len(diff.hunks)
            where = "" if hunk is None else f"change {hunk + 1:,} of {count:,}, "
            bar.note = f"{where}{len(self.view.left):,} left out" if count else "nothing is different"
        self.head.refresh()
        self.refresh_bars()

    @on(DiffView.Laid)
    def _laid(self) -> None:
        self._say()
        self.measure_again()

    @on(LineView.Highlighted)
    def _highlighted(self) -> None:
        self._say()

    # -- what is said ------------------------------------------------------------------------------------

    def head_lines(self) -> Sequence[Line]:
        """Five lines."""
        if self.material is None:
            return ()
        draft, pair, work = self.draft, self.pair, self.work
        wrote = None if draft is None else work.author_of(draft)
        state = Standing(self.item, draft, self.busy, self.changed_meanwhile, work.author, wrote, self.turned)
        names = None if pair is None else (pair.old_name, pair.new_name, pair.takes, self.pair_place)
        return head_lines(self.material, state, names, self._left_words())

    def _left_words(self) -> str:
        diff, left = self.view.diff, len(self.view.left)
        if diff is None or not diff.hunks:
            return ""
        lines = f"lines -{diff.removed:,} +{diff.added:,}"
        taken = len(diff.hunks) - left
        return f"{lines} · all changes taken" if not left else f"{lines} · {taken} taken, {left} left out"

    def selected_id(self) -> str | None:
        """The summary."""
        return str(self.summary_id)

    # -- commands ----------------------------------------------------------------------------------------

    def decided_on(self) -> object:
        """The draft in sight."""
        return self.draft

    def why_not(self, command: str) -> str | None:
        """Most of it needs a draft, and rest."""
        if self.busy and command in {"apply", "rewrite", "edit", "edit-outside"}:
            return f"wait: {self.busy}"
        if command in {"edit", "edit-outside"} and self.material is None:
            return "it is still being read"
        if command == "apply":
            return self._why_not_applied()
        if command in {"mark", "hunk-next", "hunk-previous"}:
            diff = self.view.diff
            if diff is None or not diff.hunks:
                return "nothing is different"
            if command == "mark" and not self.view.can_choose:
                return "these two texts are only to look at: D goes on to the draft"
        if command in {"draft-next", "draft-previous"} and len(self.item.drafts) < 2:
            return "there is no other draft: r asks for one"
        if command == "compare" and len(self.pairs()) < 2:
            return "there is nothing else to compare it with: r asks for another draft"
        if command == "open" and (self.focused is self.table and self.spot() is None):
            return "only what is lost, invented or reversed leads somewhere"
        if command in {"next", "previous-match"} and not self.needle:
            return "nothing has been searched for yet"
        return super().why_not(command)

    def _why_not_applied(self) -> str | None:
        if self.item.state is ItemState.COMMITTED:
            return "it has been committed: U takes it back"
        if self.draft is None:
            return "there is no draft yet"
        text = self.text
        if text is None:
            return "these two texts are only to look at: D goes back to the draft"
        if self.material is not None and text == self.material.base.content:
            return "nothing would change"
        if self.changed_meanwhile and text == self.draft.text:
            return (
                "the database moved on since this draft was made: r asks again, e puts it over the new text"
            )
        return None

    def action_pane(self) -> None:
        """Go to the other pane; on a narrow screen it takes the place of the first."""
        to_facts = self.focused is not self.table
        self.set_class(to_facts, "-facts")
        (self.table if to_facts else self.view).focus()
        self.call_after_refresh(self.table.redraw)
        self.call_after_refresh(self._say)

    def action_mark(self) -> None:
        """Take or leave the change at the cursor."""
        if not self.view.take_or_leave():
            self.app.notify("The cursor stands on no change: ] goes to the next.", timeout=3)

    def action_hunk_next(self) -> None:
        """Go to the next change."""
        self._go(1, "That was the last change.")

    def action_hunk_previous(self) -> None:
        """Go to the change before."""
        self._go(-1, "That was the first change.")

    def _go(self, direction: int, end: str) -> None:
        if not self.view.go(direction):
            self.app.notify(end, timeout=3)

    def action_layout(self) -> None:
        """Unified or side by side."""
        self.view.switch()

    @on(LineView.Opened)
    async def _opened(self) -> None:
        await self.action_run("open")

    def action_open(self) -> None:
        """Unfold lines that are alike, or show where something stands."""
        if self.focused is not self.table:
            if not self.view.unfold():
                self.app.notify("There is nothing to unfold here.", timeout=3)
            return
        self.show_spot()

    def action_history(self) -> None:
        """Show what was changed."""
        self.open(places.History())

    # -- leaving ------------------------------------------------------------------------------------------

    async def action_back(self) -> None:
        """Leave; a call that is still waited for is broken off."""
        if self.asking:
            self.close_prompt()
            return
        if self.own and not self._leaving:
            self._leaving = True
            stack = self.app.screen_stack
            below = stack[-2] if len(stack) > 1 else None
            await self.work.close()
            if isinstance(below, DataScreen):
                below.stand_on(str(self.summary_id))
        if self.app.screen is self:
            self.app.pop_screen()
