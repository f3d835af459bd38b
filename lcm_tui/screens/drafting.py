"""The queue of a batch of drafts: which summaries, progress, cost, and which drafts are accepted."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from typing import ClassVar, Final

from lcm_core.base.records import ConversationId, SummaryId, SummaryText
from lcm_core.base.text import counted, fold
from lcm_core.base.values import replace
from lcm_core.change.commit import Committed
from lcm_core.operations.drafting import SETTLED, BatchItem, ItemState
from lcm_core.operations.drafts import DEFAULT, EVERY, AcceptanceRule, SavedDrafts, parse_rule
from lcm_core.operations.repair import STALE
from lcm_core.store.database import Reader
from lcm_core.store.summaries import context_ordinals, texts_of
from lcm_core.writers.request import NO_USAGE
from lcm_core.writers.writer import call_budget
from textual import on
from textual.app import ComposeResult

from lcm_tui.flows.drafts import (
    Wanted,
    Work,
    draft,
    forecast_sentence,
    forecast_text,
    is_offline,
    key_text,
    rewriting,
)
from lcm_tui.kit import commands, places
from lcm_tui.kit.commands import Key
from lcm_tui.kit.dialogs import Question
from lcm_tui.kit.lines import LineView
from lcm_tui.kit.listing import MARK, Finder, ListPane, Marks, TextFinder, WholeRow
from lcm_tui.kit.panes import Aside, Head
from lcm_tui.kit.pick import Pick
from lcm_tui.kit.spans import Block, Column, Document, Layout, Line, Span, heading, lay_out
from lcm_tui.screens.frame import DONE_SECONDS
from lcm_tui.screens.preparation import Found, Preparation, find
from lcm_tui.screens.questions import backup_settled, wants_backup
from lcm_tui.screens.reading import DataScreen
from lcm_tui.tables.blocks import cells_of
from lcm_tui.tables.drafts import (
    ITEM_COLUMNS,
    BatchState,
    Outcome,
    Passing,
    head_lines,
    reason_text,
    state_text,
    whole_text,
)
from lcm_tui.tables.summaries import ShortIds

# -- beside the list -------------------------------------------------------------------------------------
# The draft of the selected summary and its present text, where there is room.

#: From this width of the terminal on, in cells.
WIDE: Final = 120
#: A cursor that runs on reads nothing.
DETAIL_SECONDS: Final = 0.06


def texts_document(item: BatchItem, found: list[SummaryText]) -> Document:
    """The draft of a summary, and its present text: *found*, which is empty when it is gone."""
    blocks: list[Block] = []
    draft = item.draft_in_sight
    if draft is not None:
        proposed = "Draft" if item.draft is not None else "Draft, not proposed"
        blocks += [heading(f"{proposed}, {draft.tokens:,} tokens, {draft.model}"), Block(draft.text), Block()]
    if not found:
        return (*blocks, Block(f"{item.summary_id} is no longer in the database.", "error"))
    one = found[0]
    return (*blocks, heading(f"Text now, {one.summary.tokens:,} tokens"), Block(one.content))


# -- the list --------------------------------------------------------------------------------------------

#: Where a batch goes through several conversations.
OF_SEVERAL: Final = (Column("mark", "", 1, keep=10), *(one for one in ITEM_COLUMNS if one.width))
COLUMNS: Final = tuple(one for one in OF_SEVERAL if one.name != "conversation")


class ItemList(ListPane[SummaryId]):
    """The summaries of a batch, sources before their consumers, each as far as it has come."""

    READING: ClassVar[str] = "Searching …"
    FILTER: ClassVar[str] = "words of an id, a reason or a state"

    def __init__(
        self,
        item_of: Callable[[SummaryId], BatchItem],
        marks: Marks[SummaryId],
        changed: Callable[[], None],
    ) -> None:
        """*item_of*: a summary as far as it has come at the moment; *changed*: the filter lists others."""
        super().__init__(changed=changed)
        self._item_of = item_of
        self._marks = marks
        self._keys: Sequence[SummaryId] = ()
        self._nothing = self.READING
        self._ids = ShortIds()
        self._several = False  #: whether the batch goes through several conversations

    def show(self, keys: Sequence[SummaryId], *, nothing: str) -> None:
        """List a batch; *nothing* is said when it has no summary."""
        self._keys, self._nothing = keys, nothing
        self._several = len({self._item_of(key).conversation_id for key in keys}) > 1
        self._ids = ShortIds(keys)
        self.relist()

    @property
    def count_text(self) -> str:
        """How many the filter lets through; empty: there is no filter."""
        return self.counted(f"{len(self._keys):,}") if self.filter.needle else ""

    @property
    def item(self) -> BatchItem | None:
        """The selected summary, as far as it has come."""
        key = self.table.selected
        return None if key is None else self._item_of(key)

    def matching(self, words: Sequence[str]) -> Sequence[SummaryId]:
        """The summaries whose id, reason or state hold the words."""
        return [key for key in self._keys if all(word in self._text_of(key) for word in words)]

    def _text_of(self, key: SummaryId) -> str:
        item = self._item_of(key)
        return fold(f"{key} #{item.conversation_id} {reason_text(item)} {state_text(item.state)}")

    def why_empty(self) -> str:
        """Nothing passes the filter, or there is nothing."""
        return "No summary matches." if self._keys else self._nothing

    def columns(self) -> Sequence[Column]:
        """What is said of a summary; of which conversation it is where there are several."""
        shown = OF_SEVERAL if self._several else COLUMNS
        return [replace(one, width=self._ids.cells) if one.name == "summary" else one for one in shown]

    def layout_at(self, width: int) -> Layout:
        """The columns that have room, all of them before the sentence, which the foot says too."""
        layout = super().layout_at(width)
        if layout.shows("state"):
            return layout
        return lay_out([one for one in self.columns() if one.name != "why"], width)

    def cells(self, key: SummaryId) -> Mapping[str, Span]:
        """Whether it is marked, why it is to be written again, and how far it has come."""
        marked = key in self._marks
        mark = Span(MARK if marked else "○", "title" if marked else "dim")
        cells = self._ids.within(cells_of(ITEM_COLUMNS, self._item_of(key), None), "summary")
        return {"mark": mark, **cells}


# -- what it reads beside the summaries ------------------------------------------------------------------


async def summaries_in_contexts(reader: Reader, owners: Iterable[ConversationId]) -> frozenset[SummaryId]:
    """The summaries that are in the contexts of some conversations."""
    found: set[SummaryId] = set()
    for owner in owners:
        found.update(summary_id for summary_id, _ in await context_ordinals(reader, owner))
    return frozenset(found)


async def load_outcome(reader: Reader, items: Sequence[BatchItem]) -> Outcome:
    """What the drafts that were applied did to the contexts, and what is stale in their conversations now."""
    from lcm_core.change.journal import Operation, get
    from lcm_core.operations.stale import stale_in

    async def holds(operation: Operation) -> bool:
        undone_by = operation.undone_by
        return undone_by is None or not await holds(await reader.run(get, undone_by))

    made = [(one.conversation_id, one.operation) for one in items if one.operation is not None]
    done = [(owner, await reader.run(get, operation)) for owner, operation in made]
    held = [(owner, one) for owner, one in done if await holds(one)]
    stale = [len(await stale_in(reader, owner)) for owner in {owner for owner, _ in held}]
    undone = frozenset(name for _, name in made) - {one.id for _, one in held}
    return Outcome(undone, sum(one.tokens for _, one in held), sum(stale))


# -- the screen ------------------------------------------------------------------------------------------

#: How often rate and remaining time are drawn.
SECONDS: Final = 0.5
ASK_RULE: Final = "accept when (commas combine; F1 explains)"
#: Conditions that can be picked, with the number of drafts that pass each.
OFFERED: Final = (DEFAULT, "nothing invented, no rule lost", "nothing invented", "no worse", "every")
RULES: Final = """
Combine conditions with commas. "nothing invented": no path, id, number or name that the source does not have.
"no rule lost": every rule of the source was checked and is in the draft. "no worse": the present text keeps
no more of the source, or is broken. "names 80": at least 80 % of the names and numbers that matter most are
kept. "no caution": the review found nothing to say. "every": any draft without a fault.
They are shown once more before they apply.
"""


class DraftingScreen(DataScreen[Found]):
    """A batch of drafts."""

    HELP = """
Summaries to rewrite, sources before the summaries made from them.

No model is called and nothing changes before P: it shows the maximum number of calls and tokens, the cost and
the model, and asks for confirmation.

In the question that P asks, w chooses another model, prompt or instructions. space adds a summary to the
batch (●) or removes it. The reason says what is wrong with a text; the line of the selected summary says what
the word means. Summaries made from broken ones ("from broken") are at the end and are not in the batch
unless you mark them (1 marks them all).

During a run each row shows its state. P pauses: no new call starts; P again cancels the calls in flight.
enter reviews a draft, a previews applying it, L skips a summary. A accepts the rest of this batch if it meets
conditions that you type ("nothing invented, no rule lost, no worse"); a draft that reverses a rule of its
source never does. The conditions apply to this batch only, and also to its drafts to come, without another
question; the screen shows them. A draft that does not meet them shows the reason and waits for you. A summary
whose source waits for you names it, and enter goes there.

In a terminal of at least 120 columns the draft of the selected summary and its present text are shown beside
the list: tab goes there, / finds in it, { and } move the divider.

Drafts are saved on disk: leave at any time and continue later.
"""

    def __init__(self, wanted: Wanted, title: str, select: SummaryId | None = None) -> None:
        super().__init__()
        self.wanted = wanted
        self._select = select  #: where the cursor is first
        self._title = title
        self.work: Work | None = None  #: None: the batch has not begun
        self.preparation = Preparation(self, wanted, self._choice_changed)
        self.list = ItemList(self._item_of, self.preparation.marks, self._say)
        self._beside = Aside(self.list, show_text=self._show_text, beside=WIDE)
        self._text_finder = TextFinder(self._beside.text)
        self._texts_of: BatchItem | None = None  #: whose texts are read, or shown
        self._shown: SummaryId | None = None
        self.head = Head(self.head_lines, least=3)
        self.foot = WholeRow(self.whole_row)
        self._asked_about_kept = False
        self._changed_items: set[SummaryId] = set()  #: and not drawn yet
        self._pausing = False
        self._cancelling = False
        self._begins = False  #: asks whether to begin as soon as the cost is known
        self._outcome = Outcome()  #: of what was applied when it last ran
        self._by_rule = False  #: a rule was set that the drafts were not judged by yet
        self._say_passing: Callable[[], object] = lambda: None  #: how many drafts pass the rule in question

    def compose_body(self) -> ComposeResult:
        """How far it is, every item with the texts of one beside it, and that one in whole sentences."""
        yield self.head
        yield self._beside
        yield self.foot

    def in_key_bar(self) -> list[str]:
        """Starting comes first, then deciding on the drafts that there are."""
        shown = super().in_key_bar()
        if self.work is None or self.work.batch.running:
            return shown
        decide = ("open", "accept-rest", "apply")
        return [*decide, *(name for name in shown if name not in decide)]

    def _keeps_its_place(self, name: str) -> bool:
        """Before the start no row has a draft, and behind the end none is to be decided."""
        no_row = self.loaded and (self.work is None or self.work.batch.finished)
        return not no_row and super()._keeps_its_place(name)

    def main_widget(self) -> LineView[SummaryId]:
        """The items."""
        return self.list.table

    def finder(self) -> Finder:
        """The filter; the search in the text, when that has the keys."""
        return self._text_finder if self._beside.text.has_focus else self.list.filter

    def where(self) -> str:
        """What is written again."""
        return self._title

    def selected_id(self) -> str | None:
        """The selected summary."""
        key = self.list.table.selected
        return None if key is None else str(key)

    def on_mount(self) -> None:
        """Follow the batch."""
        self.set_interval(SECONDS, self._tick)

    async def on_unmount(self) -> None:
        """The batch ends with the screen, also when the app ends; what was paid for is kept."""
        if self.work is not None:
            await self.work.close()

    # -- what there is to do -----------------------------------------------------------------------------

    async def fetch(self) -> Found:
        """The summaries that are meant; once a batch is made of them it is not read again."""
        author = self.preparation.author
        if self.work is not None and author is not None:
            return Found(self.work.batch.items, author, ())
        return await find(self.session, self.wanted, self._reading)

    def _reading(self, one: ConversationId) -> None:
        self.preparation.doing = f"reading conversation {one} …"
        self.call_later(self.head.again)

    def show(self, data: Found) -> None:
        """List it; what is in the batch stays as the operator chose."""
        self._texts_of = None  # what is there now may be another text
        self._show_text()
        if self.work is not None:
            self.list.table.redraw()
            return
        first = not self.preparation.items
        self.preparation.doing = ""
        new = self.preparation.take(data)
        nothing = (
            "Nothing is broken or stale here." if self.wanted.kind == "repair" else "Nothing to rewrite here."
        )
        self.list.show(list(self.preparation.items), nothing=nothing)
        self.preparation.mark(new)
        if first and self._select is not None:
            self.list.table.select(self._select)
        if first and data.kept and not self._asked_about_kept:
            self._asked_about_kept = True
            self.work_on("kept", self._offer_kept, data.kept[0], exclusive=False)
        self._say()

    async def _offer_kept(self, kept: SavedDrafts) -> None:
        """An earlier batch was not brought to its end: go on with it?"""
        said = Block(
            f"A batch of {kept.header.made_at[:16].replace('T', ' ')} UTC has {kept.open_items:,} of "
            f"{counted(len(kept.items), 'summary')} left; its drafts are kept."
        )
        answers = (("a", "continue it"), ("n", "start a new batch; the old drafts are kept"))
        question = Question("Continue an earlier batch?", (said,), answers, decides=False)
        if await self.app.push_screen_wait(question) == "a":
            self._begin_work(kept.items, kept)
        self._say()

    def _begin_work(self, items: Sequence[BatchItem], kept: SavedDrafts | None = None) -> Work:
        self.work = self.preparation.begin(items, kept)
        self.work.listeners.append(self._item_changed)
        self.list.show([item.summary_id for item in self.work.batch.items], nothing="")
        return self.work

    def _show_text(self) -> None:
        """The texts of the selected summary, where there is room, and it is another or has come further."""
        item = self.list.item
        if self._beside.text.display and (item is None or item is not self._texts_of):
            self._texts_of = item
            self.work_on("text", self._read_text, item)

    async def _read_text(self, item: BatchItem | None) -> None:
        await asyncio.sleep(DETAIL_SECONDS)
        found = [] if item is None else await self.session.read(texts_of, [item.summary_id])
        texts = () if item is None else texts_document(item, found)
        await self._beside.text.load(texts, keep_place=item is not None and self._shown == item.summary_id)
        self._shown = None if item is None else item.summary_id

    def _item_of(self, summary_id: SummaryId) -> BatchItem:
        if self.work is not None:
            return self.work.batch.item(summary_id)
        return self.preparation.items[summary_id]

    # -- what is said ------------------------------------------------------------------------------------

    def whole_row(self) -> Line:
        """What the selected row says, also where its columns have no room for it."""
        item = self.list.item
        if item is None:
            return ()
        return (Span(item.summary_id, "key"), Span(f"  {whole_text(item)}", "dim"))

    def head_lines(self) -> Sequence[Line]:
        """Who is asked, how far it is, what it cost, and what is accepted by itself."""
        ready, work = self.preparation, self.work
        if ready.author is None:
            return ()
        estimate = ready.doing
        if not estimate and ready.forecast is not None:
            estimate = forecast_text(ready.forecast, call_budget(ready.author.settings))
        rule = None if work is None else work.batch.options.rule
        stale = sum(item.reason == STALE for item in ready.items.values())
        state = BatchState(
            who=ready.author.words,
            key="" if is_offline(ready.author) else key_text(ready.author),
            listed=len(ready.items),
            broken=len(ready.items) - len(ready.contaminated) - stale if self.wanted.kind == "repair" else 0,
            stale=stale,
            marked=len(ready.marks),
            contaminated=sum(one not in ready.marks for one in ready.contaminated),
            estimate=estimate,
            progress=None if work is None else work.batch.progress(),
            spent=NO_USAGE if work is None else work.budget.spent.usage,
            running=work is not None and work.batch.running,
            ready=work is not None and work.batch.ready,
            rule="" if rule is None else rule.words.removeprefix("accept "),
            outcome=self._outcome,
            trouble=self._trouble(),
        )
        return tuple(head_lines(state))

    def _trouble(self) -> str:
        failed = None if self.work is None else self.work.failed
        return "" if failed is None else failed.message

    def _item_changed(self, item: BatchItem) -> None:
        self._changed_items.add(item.summary_id)

    def _choice_changed(self, keys: Sequence[SummaryId]) -> None:
        """Marks were set or taken away, or an estimate goes on."""
        if self.is_mounted:
            if keys:
                self.list.table.redraw(keys)
            if keys or not self.preparation.doing:
                self._say()
            else:
                self.head.again()
            if self._begins and self.preparation.forecast is not None and self._why_not_proceed() is None:
                self.work_on("batch", self._begin)

    def _tick(self) -> None:
        if self._changed_items:
            changed, self._changed_items = self._changed_items, set()
            self.list.table.redraw(changed)
            self._say()
        elif self.work is not None and self.work.batch.running:
            self.head.again()

    def _say(self) -> None:
        if not self.is_mounted:
            return
        self.title_bar.note = self.list.count_text
        self.head.again()
        self.foot.refresh()
        self._show_text()
        self.refresh_bars()

    def on_resize(self) -> None:
        """Another height has room for another head."""
        self.head.again()

    @on(LineView.Highlighted)
    def _highlighted(self) -> None:
        self._say()

    # -- choosing ----------------------------------------------------------------------------------------

    def _why_begun(self) -> str | None:
        return None if self.work is None else "the batch has started: L skips a summary"

    def _why_not_begun(self) -> str | None:
        if self._begins:
            return "estimating the cost: the question follows"
        return "not started: P starts the drafts" if self.work is None else None

    def _why_not_mark(self) -> str | None:
        return self._why_begun() or ("nothing is selected" if self.list.item is None else None)

    def _mark(self) -> None:
        """Take the summary into the batch, or out of it."""
        if (key := self.list.table.selected) is not None:
            self.preparation.marks.turn([key])

    def _why_no_contaminated(self) -> str | None:
        return self._why_begun() or (
            None if self.preparation.contaminated else "none was made from a broken one"
        )

    # -- running -----------------------------------------------------------------------------------------

    def _why_not_proceed(self) -> str | None:
        if self.work is not None:
            if self.work.batch.finished:
                return "every draft is decided"
            idle = not self.work.batch.running and not self.work.batch.ready
            return "nothing is left to draft before a decision" if idle else None
        ready = self.preparation
        if not self.loaded:
            return None
        if not ready.items:
            return self.list.table.empty
        return None if ready.marks else "no summary is marked"

    def _proceed_title(self) -> str:
        if self.work is None:
            return "Start"
        if not self.work.batch.running:
            return "Resume"
        return "Cancel calls" if self._pausing else "Pause"

    def _proceed(self) -> Awaitable[None] | None:
        """Begin after a question; pause; break off what is in flight; go on."""
        work = self.work
        if work is None:
            return self._begin()
        if not work.batch.running:
            self.work_on("batch", self._run, work)
        elif self._pausing:
            self._cancelling = True
        else:
            self._pausing = True
            work.batch.stop()
            self.app.notify("Pausing. P again cancels the calls in flight.", timeout=5)
        return None

    async def _begin(self) -> None:
        """Ask whether to ask; then make the batch of what is marked."""
        author, forecast = self.preparation.author, self.preparation.forecast
        self._begins = author is None or forecast is None
        if author is None or forecast is None:
            self.app.notify("Estimating the cost: the question follows.", timeout=3)
            return
        chosen = self.preparation.chosen
        said = (
            Block(f"Writer: {author.words}{'' if is_offline(author) else f'; {key_text(author)}'}."),
            Block(forecast_sentence(forecast, call_budget(author.settings))),
            *(Block(note) for note in await asyncio.to_thread(lambda: author.prompt_notes)),
            Block("You review every draft; nothing is saved automatically."),
        )
        answers = (("a", "start"), ("w", "choose another writer (model)…"))
        question = Question(f"Draft {counted(len(chosen), 'summary')}?", said, answers)
        self._host.notices.clear()  # that it follows
        answer = await self.app.push_screen_wait(question)
        if answer == "w":
            await self.preparation.choose_author(author)
        elif answer:
            self.work_on("batch", self._run, self._begin_work(chosen))

    async def _run(self, work: Work) -> None:
        self._pausing = self._cancelling = False
        self._say()
        try:
            await draft(self, work)
        finally:
            if self.is_mounted:
                self.list.table.redraw()
                self._say()
        self._stand_on_first_to_review()
        await self._read_outcome(work)
        if trouble := self._trouble():
            self.app.notify(trouble, title="The batch stopped", severity="error", timeout=12)

    # -- what the flow asks ------------------------------------------------------------------------------

    working = nullcontext  # the head says what goes on

    def cancelled(self) -> bool:
        """Whether the calls in flight are to be broken off."""
        return self._cancelling

    def changed(self) -> None:
        """The head is drawn again twice a second (`_tick`)."""

    async def decide(self) -> bool:
        """Keys decide; then it is gone on with (`_go_on`). A rule that came meanwhile judges first."""
        items = () if self.work is None else self.work.batch.items
        return self._by_rule and any(one.to_judge is not None and not one.why for one in items)

    def _stand_on_first_to_review(self) -> None:
        """After a rule, what it left to the operator."""
        if not self._by_rule or self.work is None:
            return
        self._by_rule = False
        items = self.work.batch.items
        if first := next((one.summary_id for one in items if one.state is ItemState.REVIEW), None):
            self.list.table.select(first)

    async def _read_outcome(self, work: Work) -> None:
        self._outcome = await self.session.read(load_outcome, work.batch.items)
        work.batch.follow_history(self._outcome.undone)
        self.list.table.redraw()
        self.head.again()

    def _go_on(self) -> None:
        """Draft what may be drafted now that something was decided."""
        work = self.work
        waits = work is not None and any(item.state is ItemState.WAITING for item in work.batch.items)
        if work is not None and waits and not work.batch.running and not self._pausing:
            self.work_on("batch", self._run, work)

    # -- deciding ----------------------------------------------------------------------------------------

    def _why_no_draft(self) -> str | None:
        item = self.list.item
        if self.work is None:
            return self._why_not_begun()
        if item is None or (not item.drafts and item.state is not ItemState.FAILED):
            return "it has no draft yet"
        return None

    @property
    def _source(self) -> SummaryId | None:
        """What the selected summary waits for."""
        key = self.list.table.selected
        return None if key is None or self.work is None else self.work.batch.waits_for(key)

    def _review(self) -> None:
        """Review the drafts of the selected summary, or go to the source that it waits for."""
        key = self.list.table.selected
        if (first := self._source) is not None:
            self.list.table.select(first)
        elif key is not None and self.work is not None:
            self.open(places.Review(self.work, key))

    def _why_not_apply(self) -> str | None:
        item = self.list.item
        committed = item is not None and item.state is ItemState.COMMITTED
        return self._why_no_draft() or ("it is applied: U, then u undoes it" if committed else None)

    def _apply(self) -> None:
        """Preview putting the proposed draft in."""
        item, work = self.list.item, self.work
        if item is None or work is None:
            return
        draft = item.draft
        if draft is None or not draft.may_be_taken:
            self._review()
            return

        def then(done: Sequence[Committed]) -> None:
            if done:
                self.work_on("committed", work.batch.take, item.summary_id, draft.number, exclusive=False)

        self.open(places.Preview(rewriting(work, item, draft, then)))

    def stand_on(self, ref: str | int) -> None:
        """Select the summary that was reviewed."""
        if isinstance(ref, str):
            self.list.table.select(SummaryId(ref))

    def on_screen_resume(self) -> None:
        """Go on with what waited for the decision that was made."""
        if self.work is not None:
            self.list.table.redraw()
            self._say()
            self._go_on()
            self.work_on("outcome", self._read_outcome, self.work)

    def _why_not_leave_out(self) -> str | None:
        item = self.list.item
        if item is None:
            return "nothing is selected"
        if self.work is not None and item.state in SETTLED | {ItemState.DRAFTING}:
            return f"it is {state_text(item.state)}"
        return self._why_not_begun()

    def _leave_out(self) -> None:
        """Leave a summary as it is."""
        key = self.list.table.selected
        if key is not None and self.work is not None:
            self.work.batch.skip(key)
            self._go_on()

    def _why_no_rest(self) -> str | None:
        if self.work is not None and all(item.state in SETTLED for item in self.work.batch.items):
            return "every draft is decided"
        return self._why_not_begun()

    async def _accept_rest(self) -> None:
        """Say a rule as a sentence, ask whether to go by it or by another, and run by it."""
        work, rule = self.work, parse_rule(DEFAULT)
        if work is None:
            return
        passing = Passing(work.batch.items)
        measuring = self.work_on("passing", self._measure, work, passing)

        async def picks() -> Sequence[Pick]:
            await measuring.wait()
            return [Pick(one, note=passing.text(parse_rule(one))) for one in OFFERED]

        while (answer := await self._agreed(work, rule, passing)) in ("e", "v"):
            if answer == "v":
                rule = EVERY
                continue
            text = await self.ask(ASK_RULE, check=parse_rule, explained=RULES, picks=picks)
            if text is None:
                return
            rule = parse_rule(text)
        if not answer or not await backup_settled(self.app, self.session, answer=answer == "a"):
            return
        work.batch.accept_by(rule)
        self._by_rule = True
        if not work.batch.running:
            self.work_on("batch", self._run, work)

    async def _measure(self, work: Work, passing: Passing) -> None:
        """Measure the drafts that a rule would judge; the question says at once what is known."""
        async for one in work.batch.to_judge():
            passing.measured.append(one)
            self._say_passing()
        passing.done = True
        self._say_passing()

    async def _agreed(self, work: Work, rule: AcceptanceRule, passing: Passing) -> str:
        owners = {item.conversation_id for item in work.batch.items}
        in_context = await self.session.read(summaries_in_contexts, owners)

        def said() -> Document:
            wider = (
                () if rule == EVERY else (Block(f"Every draft without fault: {passing.text(EVERY)} (v)."),)
            )
            return (
                Block(f"{rule.words[0].upper()}{rule.words[1:]}."),
                *map(Block, passing.sentences(rule, in_context)),
                *wider,
                Block("Truncated and faulty drafts are never accepted. Each becomes one undoable operation."),
            )

        answers = [("a", "accept"), ("e", "other conditions…")]
        if await wants_backup(self.session):
            answers[:1] = [("a", "back up the database, then accept"), ("n", "accept without a backup")]
        if rule != EVERY:
            answers.insert(-1, ("v", "every draft without fault…"))
        question = Question("Accept drafts on these conditions?", said(), answers, leave="cancel")
        self._say_passing = lambda: question.say(said())
        return await self.app.push_screen_wait(question)

    # -- leaving -----------------------------------------------------------------------------------------

    async def before_leaving(self) -> bool:
        """Break off what is in flight; a batch that runs is not left by accident."""
        work = self.work
        if work is None:
            return True
        if work.batch.running and not self._pausing:
            self.app.notify("Still running: esc again cancels, P pauses.", timeout=5)
            self._pausing = True
            work.batch.stop()
            return False
        await work.close()
        if not work.batch.finished and work.worth_keeping:
            self.app.notify("Drafts saved. Press R or W to continue.", timeout=DONE_SECONDS)
        return True

    KEYS: ClassVar[Sequence[Key[DraftingScreen]]] = (
        Key(
            "proceed",
            "P",
            "Start/pause",
            "Start, pause or resume writing the drafts.",
            _proceed,
            _why_not_proceed,
            title_now=_proceed_title,
            words="start drafting; run; pause; resume; go on",
            opens=True,
        ),
        commands.OPEN.does(
            _review,
            lambda s: None if s._source else s._why_no_draft(),
            title="Review",
            help="Review the draft of this summary, or go to the source that it waits for.",
            title_now=lambda s: "Source" if s._source else "",
        ),
        commands.APPLY.does(
            _apply,
            _why_not_apply,
            title="Preview",
            help="Preview applying this draft; nothing is written yet.",
            of_row=True,
        ),
        commands.ACCEPT_REST.does(_accept_rest, _why_no_rest),
        commands.MARK.does(_mark, _why_not_mark),
        Key(
            "leave-out",
            "L",
            "Skip",
            "Skip this summary.",
            _leave_out,
            _why_not_leave_out,
            words="ignore; reject; leave as it is",
            of_row=True,
        ),
        commands.CHOICE_1.does(
            lambda s: s.preparation.marks.turn(s.preparation.contaminated),
            _why_no_contaminated,
            title="Mark all",
            help="Mark or unmark every summary made from a broken one.",
        ),
        commands.HISTORY,
    )
