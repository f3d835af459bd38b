"""The drafts of one summary, against what stands in its place now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import ClassVar

from lcm_core.change.commit import Committed
from lcm_core.diff import compare_sentences
from lcm_core.operations.drafting.draft import Draft, Material, text_below
from lcm_core.operations.drafting.items import BatchItem, ItemState
from lcm_core.records import SummaryId
from lcm_core.wording import counted
from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.widget import Widget

from lcm_tui import places
from lcm_tui.actions.layout import OTHER_LAYOUT, layout_actions, layout_title, without_twin
from lcm_tui.actions.links import to
from lcm_tui.changes.rewrite import rewriting
from lcm_tui.commands import Action, bindings
from lcm_tui.data_screen import DataScreen
from lcm_tui.dialogs.backup_offer import backup_settled
from lcm_tui.drafts import Work
from lcm_tui.frame import DONE_SECONDS, CommandScreen
from lcm_tui.panes.diff import DiffFinder
from lcm_tui.panes.finding import Finder
from lcm_tui.panes.head import Head
from lcm_tui.screens.review.committing import draft_to_take, offer_rewrite_above
from lcm_tui.screens.review.drafter import Drafter
from lcm_tui.screens.review.measuring import Measurement, Texts
from lcm_tui.screens.review.panes import FactList
from lcm_tui.screens.review.reads import load_stale_above
from lcm_tui.screens.review.subject import Subject
from lcm_tui.views.retention import Side
from lcm_tui.views.review import ReviewState, head_lines
from lcm_tui.widgets.diff_view import DiffView
from lcm_tui.widgets.lines import LineView
from lcm_tui.widgets.spans import Line
from lcm_tui.widgets.two_panes import TwoPanes


class ReviewScreen(DataScreen[Material]):
    """The drafts of one summary, against what stands there now."""

    HELP = """
A draft of a summary, compared with the text that it would replace. Nothing has been changed yet.

- marks removed lines, + added lines, ~ (side by side) changed lines with the changed words highlighted. [ and
] go to the previous and the next change. space skips the change at the cursor (= kept, · skipped) or includes
it again; enter on a change of several lines splits it into single lines. a previews the rows and applies
exactly the text shown, with all included changes; A applies at once and goes to the next draft of the batch;
on an applied draft it goes to the next undecided one.
v or m switches between unified and side by side. If changes are skipped, or the text is edited by hand (e
here, E in $EDITOR), the model is recorded as "manual".

The pane beside it (tab) counts, for the current text and for the draft, what is kept, lost and invented:
paths, ids, numbers with units, times, rules ("must", "never") ... A rule that the draft reverses is listed
first, and no rule of a batch accepts such a draft. The comparison is lexical: a kept number may be used for
the wrong thing, and a rule in other words counts as lost. enter on a lost item shows its place in the source,
on an invented one its place in the draft, on a reversed rule both.

r drafts again: with another model, address, prompt or instructions; "cut" truncates the source without a
model. . and , show the next and the previous draft; all are kept. D compares the draft with the next of: the
current text, each other draft, and, if the summary changed meanwhile, the text that the draft was made from.
The truncated source is never accepted automatically.
"""
    BINDINGS: ClassVar[list[BindingType]] = list(
        bindings(
            *(
                "apply",
                "accept-rest",
                "open",
                "mark",
                "hunk-previous",
                "hunk-next",
                "layout",
                "edit",
                "edit-outside",
            ),
            *("rewrite", "draft-next", "draft-previous", "compare", "history", "other-view"),
        )
    )
    WORDS: ClassVar[Mapping[str, tuple[str, str]]] = MappingProxyType(
        {
            **OTHER_LAYOUT,
            "accept-rest": ("Accept, next", "Apply the text shown and go to the next draft of the batch."),
            "apply": ("Preview", "Preview applying the text shown; nothing is written yet."),
            "mark": ("Skip/include", "Skip the change at the cursor, or include it again."),
            "rewrite": ("Draft again", "Draft again with another model, prompt or instructions."),
        }
    )

    def __init__(self, work: Work, summary_id: SummaryId, *, own: bool = False) -> None:
        """*own*: the work is this summary alone, and ends with the screen."""
        super().__init__()
        self.own = own
        self.subject = Subject(work, summary_id)
        self.view = DiffView(empty="Reading …", id="diff", compare=compare_sentences)
        self.facts = FactList()
        self._panes = TwoPanes(self.view, self.facts, shares=(0.6, 0.6), beside=120, below=False)
        self.head = Head(self.head_lines)
        self.drafter = Drafter(self, self.subject, shown=self.shown_text, changed=self.refresh_review)
        self.measurement = Measurement(work.batch.setting.rendering.rules.estimator)
        self._finder = DiffFinder(self.view)

    def compose_body(self) -> ComposeResult:
        """The head, the diff and what it means."""
        yield self.head
        yield self._panes

    def actions(self) -> Sequence[Action]:
        """Asking, writing, comparing, and putting the text shown into the database."""
        subject, drafter, view = self.subject, self.drafter, self.view
        return (
            Action("apply", self._apply, self._why_not_apply),
            Action("accept-rest", self._accept_and_next, self._why_not_accept),
            Action("open", self._open_line, self._why_not_open),
            Action("pane", self._next_pane),
            Action("mark", self._take_or_leave, self._why_not_mark),
            Action("hunk-next", partial(self._go, 1, "That was the last change."), self._why_no_hunk),
            Action("hunk-previous", partial(self._go, -1, "That was the first change."), self._why_no_hunk),
            *layout_actions(view),
            Action("rewrite", drafter.ask_again, drafter.why_not),
            Action("edit", drafter.edit, drafter.why_not_edited),
            Action("edit-outside", drafter.edit_outside, drafter.why_not_edited),
            Action("draft-next", partial(subject.choose, 1), subject.why_no_other_draft),
            Action("draft-previous", partial(subject.choose, -1), subject.why_no_other_draft),
            Action("compare", self._compare, subject.why_no_other_pair),
            to(self, "history", places.History()),
        )

    def in_key_bar(self) -> list[str]:
        """The other layout once."""
        return without_twin(super().in_key_bar())

    def main_widget(self) -> Widget:
        """The pane in sight."""
        return self.view if self._panes.both else self._panes.alone

    def finder(self) -> Finder:
        """That of the diff."""
        return self._finder

    def where(self) -> str:
        """Which summary."""
        return f"Review {self.subject.summary_id}"

    def selected_id(self) -> str | None:
        """The summary."""
        return str(self.subject.summary_id)

    def on_mount(self) -> None:
        """Follow the batch."""
        self.subject.work.listeners.append(self._item_changed)

    async def on_unmount(self) -> None:
        """Follow it no longer; end what is this screen's own, also when the app ends."""
        if self._item_changed in self.subject.work.listeners:
            self.subject.work.listeners.remove(self._item_changed)
        if self.own:
            await self.subject.work.close()

    # -- data --------------------------------------------------------------------------------------------

    async def fetch(self) -> Material:
        """What is in the database now, and what it is made from."""
        return await self.subject.work.batch.material(self.subject.summary_id)

    def show(self, data: Material) -> None:
        """Show it; without a draft, ask for one."""
        subject = self.subject
        subject.material = data
        waits = subject.item.state is ItemState.WAITING and not subject.item.why
        if subject.draft is None and waits and not self.drafter.busy:
            self.drafter.begin()
        self.refresh_review()
        self._measure_again()

    def _item_changed(self, item: BatchItem) -> None:
        if item.summary_id == self.subject.summary_id and self.is_mounted:
            self.call_later(self.refresh_review)

    def refresh_review(self) -> None:
        """Show what has changed."""
        if not self.is_mounted:
            return
        pair = self.subject.pair
        if pair is None:
            said = self.drafter.busy or self.subject.item.why
            self.view.empty = said or "No draft yet: r creates one."
        else:
            self.view.can_choose = pair.takes
            self.view.show(pair.old, pair.new)
        self._say()

    def _say(self) -> None:
        bar = self.title_bar
        diff, hunk = self.view.diff, self.view.hunk
        bar.note = self.drafter.busy
        if not self.drafter.busy and diff is not None and self.subject.pair is not None:
            count = len(diff.hunks)
            where = counted(count, "change") if hunk is None else f"change {hunk + 1:,} of {count:,}"
            said = where if count else "no differences"  # how many are included, the head says
            bar.note = f"{self._place_text()}{'applied' if self.subject.applied else said}"
        self.head.refresh()
        self.refresh_bars()

    def _place_text(self) -> str:
        """Which summary of its batch it is."""
        items = self.subject.work.batch.items
        if self.own or len(items) < 2:
            return ""
        place = next(at for at, one in enumerate(items, 1) if one.summary_id == self.subject.summary_id)
        return f"draft {place:,} of {len(items):,} · "

    @on(DiffView.Laid)
    def _laid(self) -> None:
        self._say()
        self._measure_again()

    def on_resize(self) -> None:
        """Another height has room for another head."""
        self.head.refresh()

    @on(LineView.Highlighted)
    def _highlighted(self) -> None:
        self._say()

    # -- what is said ------------------------------------------------------------------------------------

    def shown_text(self) -> str | None:
        """The text shown: what would be committed; None: these two are only to look at."""
        pair = self.subject.pair
        return self.view.text if pair is not None and pair.takes else None

    def head_lines(self) -> Sequence[Line]:
        """Five lines."""
        subject = self.subject
        if subject.material is None:
            return ()
        draft = subject.draft
        state = ReviewState(
            subject.item,
            draft,
            self.drafter.busy,
            subject.changed_meanwhile,
            subject.work.author,
            None if draft is None else subject.work.author_of(draft),
            None if draft is None else self.measurement.reversals_in(self._measurable(draft)),
            subject.pair,
            subject.pair_place,
            self._changes_text(),
        )
        return head_lines(subject.material, state)

    def _changes_text(self) -> str:
        diff, left = self.view.diff, len(self.view.left)
        if diff is None or not diff.hunks:
            return ""
        lines = f"sentences -{diff.removed:,} +{diff.added:,}"
        taken = len(diff.hunks) - left
        return f"{lines} · all included" if not left else f"{lines} · {taken} included, {left} skipped"

    # -- what is kept ------------------------------------------------------------------------------------

    def _measurable(self, draft: Draft) -> str:
        """The text that is measured: the one shown, or the draft when that is only compared."""
        shown, pair = self.view.text, self.subject.pair
        return shown if shown is not None and (pair is None or pair.takes) else draft.text

    def _measure_again(self) -> None:
        """Measure the text shown, unless all that it is held against is what was measured last."""
        draft, material = self.subject.draft, self.subject.material
        if self.view.text is None or draft is None or material is None:
            return
        now, source, previous = material.base.content, material.source.text, material.previous.text
        texts = Texts(self._measurable(draft), now, source, previous)
        if texts != self.measurement.texts:
            self.work_on("measure", self._measure, material, texts)

    async def _measure(self, material: Material, texts: Texts) -> None:
        rendering = self.subject.work.batch.setting.rendering
        below = partial(self.session.read, text_below, material.summary, rendering)
        async for found in self.measurement.measure(texts, below if material.source.summaries else None):
            self.facts.replace(found)
            self.refresh_review()

    # -- commands ----------------------------------------------------------------------------------------

    def decided_on(self) -> object:
        """The draft in sight."""
        return self.subject.draft

    def _why_no_hunk(self) -> str | None:
        return None if self.view.diff is not None and self.view.diff.hunks else "no differences"

    def _why_not_mark(self) -> str | None:
        only = None if self.view.can_choose else "these two texts are read only: D returns to the draft"
        return self._why_no_hunk() or only

    def _why_not_open(self) -> str | None:
        if self.facts.has_focus and self.facts.place is None:
            return "only lost, invented or reversed items can be opened"
        return None

    def _why_not_apply(self) -> str | None:
        return self.drafter.why_not() or self.subject.why_not_taken(self.shown_text())

    @property
    def _following(self) -> SummaryId | None:
        """The next summary of the batch that is undecided."""
        return None if self.own else self.subject.work.next_to_review(self.subject.summary_id)

    def _why_not_accept(self) -> str | None:
        if not self.subject.applied or self.own:
            return self._why_not_apply()
        if self._following is None:
            return "it is applied, and no other draft of the batch is to be reviewed"
        return None

    def title_now(self, command: str) -> str:
        """`A` on an applied draft only goes on; `m` gives the other layout."""
        if command == "other-view":
            return layout_title(self.view)
        on = command == "accept-rest" and self.subject.applied and not self.own
        return "Next undecided" if on else super().title_now(command)

    def _next_pane(self) -> None:
        """Go to the other pane; on a narrow screen it takes the place of the first."""
        to_facts = not self.facts.has_focus
        self._panes.show_alone(self.facts if to_facts else self.view)
        (self.facts if to_facts else self.view).focus()
        self.call_after_refresh(self.facts.redraw)
        self.call_after_refresh(self._say)

    def _take_or_leave(self) -> None:
        if not self.view.take_or_leave():
            self.app.notify("No change at the cursor: ] goes to the next one.", timeout=3)

    def _go(self, direction: int, end: str) -> None:
        if not self.view.go(direction):
            self.app.notify(end, timeout=3)

    def _compare(self) -> None:
        self.subject.compare_next()
        self.refresh_review()

    def _open_line(self) -> None:
        """Unfold lines that are alike, or show where something is, in the source or in the draft."""
        if not self.facts.has_focus:
            if not self.view.unfold():
                self.app.notify("Nothing to unfold here.", timeout=3)
            return
        fact, texts = self.facts.place, self.measurement.texts
        if fact is None or fact.spot is None or texts is None:
            return
        of_source = fact.spot.side is Side.SOURCE
        title = f"{'Source' if of_source else 'Draft'} of {self.subject.summary_id}"
        text = texts.source if of_source else texts.text
        self.open(places.Source(title, text, fact.spot.start, fact.spot.end))

    # -- committing --------------------------------------------------------------------------------------

    async def _apply(self) -> None:
        """Preview putting the text shown in the place of the present one."""
        text = self.shown_text()
        draft = None if text is None else await draft_to_take(self, self.subject, text)
        if draft is None:
            return
        item = self.subject.item

        def then(done: Sequence[Committed]) -> None:
            if done:
                self.work_on("committed", self._committed, item, draft, done, exclusive=False)

        self.open(places.Preview(rewriting(self.subject.work, item, draft, then)))

    async def _accept_and_next(self) -> None:
        """Apply the text shown without a preview of its rows, and review the next draft that waits.

        Of a draft that is applied, only go on.
        """
        if self.subject.applied and (after := self._following) is not None:
            work = self.subject.work
            await self.action_back()
            self.open(places.Review(work, after))
            return
        text, work = self.shown_text(), self.subject.work
        draft = None if text is None else await draft_to_take(self, self.subject, text)
        if draft is None or not await backup_settled(self.app, self.session):
            return
        await work.batch.take(self.subject.summary_id, draft.number, alone=True)
        self.app.notify(f"Applied to {self.subject.summary_id}. Undo: U, u", timeout=DONE_SECONDS)
        following = self._following
        if self.app.screen is self:
            await self.action_back()
            if following is not None:
                self.open(places.Review(work, following))

    async def _committed(self, item: BatchItem, draft: Draft, done: Sequence[Committed]) -> None:
        """Leave, and offer to go on with what was made from the text that was replaced."""
        await self.subject.work.committed(item, draft, done)
        above: Sequence[SummaryId] = ()
        if self.own:
            above = await self.session.read(load_stale_above, item.conversation_id, item.summary_id)
        await self.action_back()
        below = self.app.screen
        if above and isinstance(below, CommandScreen):
            below.work_on("rewrite", offer_rewrite_above, below, item, above)

    # -- leaving -----------------------------------------------------------------------------------------

    async def before_leaving(self) -> bool:
        """Break off a call that is still waited for, and let the screen below select the summary."""
        below = self.app.screen_stack[-2]
        if self.own:
            await self.subject.work.close()
        if isinstance(below, CommandScreen):
            below.stand_on(str(self.subject.summary_id))
        return True
