"""The drafts of one summary, reviewed against its present text."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import ClassVar

from lcm_core.base.diff import compare_sentences
from lcm_core.base.errors import LcmError
from lcm_core.base.records import ConversationId, SummaryId
from lcm_core.base.text import counted, some
from lcm_core.base.values import Record
from lcm_core.change.commit import Committed
from lcm_core.operations.drafting import (
    BatchItem,
    Draft,
    DraftOrigin,
    ItemState,
    Material,
    messages_below,
    retention_of,
)
from lcm_core.operations.stale import stale_in
from lcm_core.store.database import Reader
from lcm_core.writers.acceptance import DraftFault
from lcm_core.writers.retention import Retention
from textual import on
from textual.app import ComposeResult
from textual.widget import Widget

from lcm_tui.flows.drafts import (
    CUT,
    Asked,
    Modelling,
    Work,
    author_like,
    forecast_sentence,
    is_offline,
    key_text,
    rewriting,
)
from lcm_tui.kit import commands, places
from lcm_tui.kit.bars import keys_back
from lcm_tui.kit.commands import Key
from lcm_tui.kit.dialogs import Question
from lcm_tui.kit.diff import DiffFinder, DiffView, layout_key
from lcm_tui.kit.lines import LineView
from lcm_tui.kit.listing import Finder
from lcm_tui.kit.panes import Head, TwoPanes
from lcm_tui.kit.spans import Block, Line, WrappedBlock
from lcm_tui.kit.terminal import edit_outside
from lcm_tui.screens.actions import rewrite_summary
from lcm_tui.screens.frame import DONE_SECONDS, CommandScreen
from lcm_tui.screens.questions import AskAgain, backup_settled
from lcm_tui.screens.reading import DataScreen
from lcm_tui.tables.review import (
    Fact,
    Pair,
    ReviewState,
    Side,
    facts,
    facts_below,
    nothing_below,
    review_head_lines,
)

# -- measuring -------------------------------------------------------------------------------------------
# What a text keeps, loses and invents of its source, beside the present text; measured in threads.


class Texts(Record, frozen=True):
    """What is measured: a text, the present one beside it, and what both are held against."""

    text: str
    now: str
    source: str
    previous: str


# -- the facts -------------------------------------------------------------------------------------------
# The pane that lists what is kept, lost and invented.


class FactList(LineView[Fact]):
    """What was measured, line by line; some lead to a place in a text."""

    def __init__(self) -> None:
        super().__init__(_wrapped, tall=True, empty="Measuring …", id="facts")

    @property
    def place(self) -> Fact | None:
        """The selected line, when it leads somewhere."""
        fact = self.selected
        return fact if fact is not None and fact.spot is not None else None


def _wrapped(fact: Fact, width: int) -> Sequence[Line]:
    block = WrappedBlock(Block(spans=fact.line, indent=2), max(width - 1, 20))
    return [block.line(at) for at in range(len(block))]


# -- what it reads ---------------------------------------------------------------------------------------


async def load_stale_above(
    reader: Reader, conversation_id: ConversationId, summary_id: SummaryId
) -> list[SummaryId]:
    """The summaries that were made from an earlier text of this one."""
    found = await stale_in(reader, conversation_id)
    return [one.summary_id for one in found if summary_id in one.sources]


# -- what is reviewed ------------------------------------------------------------------------------------
# A summary with its drafts, one of them in sight, and what that is compared with.


class Subject:
    """The drafts of one summary, against what is in the database now."""

    def __init__(self, work: Work, summary_id: SummaryId) -> None:
        self.work = work
        self.summary_id = summary_id
        self.material: Material | None = None  #: the summary and its source, as they were read last
        self._pair_at = 0

    @property
    def item(self) -> BatchItem:
        """The summary in its batch, at this moment."""
        return self.work.batch.item(self.summary_id)

    @property
    def draft(self) -> Draft | None:
        """The draft in sight: the proposed one, or the last."""
        return self.item.draft_in_sight

    @property
    def applied(self) -> bool:
        """Whether a draft of it is in the database."""
        return self.item.state is ItemState.COMMITTED

    @property
    def changed_meanwhile(self) -> str:
        """Why the draft in sight no longer fits, in a sentence; empty when it does."""
        draft, material = self.draft, self.material
        if draft is None or material is None or self.item.state is ItemState.COMMITTED:
            return ""
        if draft.base.content != material.base.content:
            return "The summary changed since this draft was made: D compares; e, then ctrl+s keeps yours."
        if not material.is_source_of(draft.base):
            return "The sources changed since this draft was made: r drafts again."
        return ""

    # -- comparing ---------------------------------------------------------------------------------------

    def pairs(self) -> list[Pair]:
        """What can be compared, what is committed first."""
        draft, material = self.draft, self.material
        if material is None or draft is None:
            return []
        now, name = material.base.content, f"draft {draft.number}"
        found = [Pair("now", now, name, draft.text, True)]
        if draft.base.content != now:
            found.append(Pair("when drafted", draft.base.content, "now", now, False))
            found.append(Pair("when drafted", draft.base.content, name, draft.text, False))
        others = (one for one in self.item.drafts if one.number != draft.number)
        found += [Pair(f"draft {one.number}", one.text, name, draft.text, True) for one in others]
        return found

    @property
    def pair(self) -> Pair | None:
        """What is compared."""
        found = self.pairs()
        return found[self._pair_at % len(found)] if found else None

    @property
    def pair_place(self) -> str:
        """Which of the comparisons it is, where there is more than one."""
        count = len(self.pairs())
        return f"comparison {self._pair_at % count + 1} of {count}, D: next" if count > 1 else ""

    def compare_next(self) -> None:
        """Compare with something else."""
        self._pair_at = (self._pair_at + 1) % max(len(self.pairs()), 1)

    def choose(self, step: int) -> None:
        """Look at another draft, *step* drafts further on."""
        drafts, draft = self.item.drafts, self.draft
        if draft is not None:
            at = (drafts.index(draft) + step) % len(drafts)
            self._pair_at = 0
            self.work.batch.choose(self.summary_id, drafts[at].number)

    # -- why something cannot be done --------------------------------------------------------------------

    def why_no_other_draft(self) -> str | None:
        """Another draft can be looked at when there is one."""
        return "there is no other draft: r creates one" if len(self.item.drafts) < 2 else None

    def why_no_other_pair(self) -> str | None:
        """Something else can be compared when there is more than one pair."""
        if len(self.pairs()) < 2:
            return "there is nothing else to compare with: r creates another draft"
        return None

    def why_not_taken(self, text: str | None) -> str | None:
        """Why the text shown cannot be put into the database; None as text: it is only to look at."""
        draft = self.draft
        if self.item.state is ItemState.COMMITTED:
            return "it is applied: U, then u undoes it"
        if draft is None:
            return "there is no draft yet"
        if text is None:
            return "two texts, read only: D returns to the draft"
        if self.material is not None and text == self.material.base.content:
            return "nothing would change"
        if self.changed_meanwhile and text == draft.text:
            return "the database changed: e, then ctrl+s keeps yours"
        return None


# -- applying a draft ------------------------------------------------------------------------------------
# By way of the preview; then the summaries that were made from it.


async def draft_to_take(screen: CommandScreen, subject: Subject, text: str) -> Draft | None:
    """The draft with exactly the text shown; None: it is doubtful, and the operator does not want it.

    A text that no draft has yet becomes one.
    """
    draft, material = subject.draft, subject.material
    if draft is None or material is None:
        return None
    if text != draft.text:
        draft = await subject.work.batch.write(subject.summary_id, text, material.base.content)
        doubtful = DraftFault.REVERSED in draft.faults
    else:
        doubtful = draft.origin is DraftOrigin.FALLBACK or not draft.accepted
    if not doubtful:
        return draft
    is_cut = draft.origin is DraftOrigin.FALLBACK
    cut = ["This is the truncated source, not a summary."] if is_cut else []
    said = tuple(map(Block, (*cut, *draft.sentences[: len(draft.faults)])))
    answers = (("a", "preview it (can be undone)"),)
    return draft if await screen.app.push_screen_wait(Question("Use it anyway?", said, answers)) else None


async def offer_rewrite_above(screen: CommandScreen, item: BatchItem, above: Sequence[SummaryId]) -> None:
    """Offer to go on, from *screen*, with what was made from the text that was replaced."""
    said = Block(f"{some(above)}: made from the old text of {item.summary_id}, so now stale.")
    question = Question(
        "Also rewrite the summaries built on this one?",
        (said,),
        (("r", f"rewrite {above[0]} next"),),
        decides=False,
    )
    if await screen.app.push_screen_wait(question):
        await rewrite_summary(screen, item.conversation_id, above[0])


# -- the screen ------------------------------------------------------------------------------------------


class ReviewScreen(DataScreen[Material]):
    """The drafts of one summary, against what stands there now."""

    HELP = """
A draft of a summary, compared with the text that it would replace. Nothing has been changed yet.

- marks removed lines, + added lines, ~ (side by side) changed lines with the changed words highlighted.

[ and ] go to the previous and the next change. space skips the change at the cursor (= kept, · skipped) or
includes it again; enter on a change of several lines splits it into single lines. a previews the rows and
applies exactly the text shown, with all included changes; J applies at once and goes to the next draft of the
batch; on an applied draft it goes to the next undecided one. v or m switches between unified and side by
side. If changes are skipped, or the text is edited by hand (e here, E in $EDITOR), the model is recorded as
"manual".

The pane beside it (tab) counts, for the current text and for the draft, what is kept, lost and invented:
paths, ids, numbers with units, times, rules ("must", "never") ... A rule that the draft reverses is listed
first, and such a draft is never accepted by itself. The comparison is lexical: a kept number may be used for
the wrong thing, and a rule in other words counts as lost. enter on a lost item shows its place in the source,
on an invented one its place in the draft, on a reversed rule both.

r drafts again: with another model, address, prompt or instructions; "cut" truncates the source without a
model. . and , show the next and the previous draft; all are kept. D compares the draft with the next of: the
current text, each other draft, and, if the summary changed meanwhile, the text that the draft was made from.
The truncated source is never accepted automatically.
"""

    def __init__(self, work: Work, summary_id: SummaryId, *, own: bool = False) -> None:
        """*own*: the work is this summary alone, and ends with the screen."""
        super().__init__()
        self.own = own
        self.subject = Subject(work, summary_id)
        self.view = DiffView(empty="Reading …", id="diff", compare=compare_sentences)
        self.facts = FactList()
        self._panes = TwoPanes(self.view, self.facts, shares=(0.6, 0.6), beside=120, below=False)
        self.head = Head(self.head_lines, least=5)
        self.busy = ""  #: what is being done, while it is
        self._asked = Asked()  #: what was asked for last
        self.texts: Texts | None = None  #: that were measured last
        self.kept: Retention | None = None  #: what the text then kept of its source
        #: the same of the present text, and what that keeps of the messages below it
        self.before: tuple[Retention, ...] = ()
        self._finder = DiffFinder(self.view)

    def compose_body(self) -> ComposeResult:
        """The head, the diff and what it means."""
        yield self.head
        yield self._panes

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
        if subject.draft is None and waits and not self.busy:
            self._begin()
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
            said = self.busy or self.subject.item.why
            self.view.empty = said or "No draft yet: r creates one."
        else:
            self.view.can_choose = pair.takes
            self.view.show(pair.old, pair.new)
        self._say()

    def _say(self) -> None:
        bar = self.title_bar
        diff, hunk = self.view.diff, self.view.hunk
        bar.note = self.busy
        if not self.busy and diff is not None and self.subject.pair is not None:
            count = len(diff.hunks)
            where = counted(count, "change") if hunk is None else f"change {hunk + 1:,} of {count:,}"
            said = where if count else "no differences"  # how many are included, the head says
            bar.note = f"{self._place_text()}{'applied' if self.subject.applied else said}"
        self.head.again()
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
        self.head.again()

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
            self.busy,
            subject.changed_meanwhile,
            subject.work.author,
            None if draft is None else subject.work.author_of(draft),
            *self._measured(draft),
            subject.pair,
            subject.pair_place,
            self._changes_text(),
        )
        return review_head_lines(subject.material, state)

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

    def _measured(self, draft: Draft | None) -> tuple[Retention | None, Retention | None]:
        """What the text shown and the present one keep; nothing when another one was measured."""
        if draft is None or self.texts is None or self.texts.text != self._measurable(draft):
            return None, None
        return self.kept, next(iter(self.before), None)

    def _measure_again(self) -> None:
        """Measure the text shown, unless all that it is held against is what was measured last."""
        draft, material = self.subject.draft, self.subject.material
        if self.view.text is None or draft is None or material is None:
            return
        now, source, previous = material.base.content, material.source.text, material.previous.text
        texts = Texts(self._measurable(draft), now, source, previous)
        if texts != self.texts:
            self.work_on("measure", self._measure, material, texts)

    async def _measure(self, material: Material, texts: Texts) -> None:
        """Against the direct sources first, then against the messages below, which takes longer."""
        setting = self.subject.work.batch.setting
        before = await retention_of(material, texts.now, setting)
        kept = await retention_of(material, texts.text, setting)
        self.texts, self.kept, self.before = texts, kept, (before,)
        if not material.source.summaries:
            self._show_facts(facts(before, kept))
            return
        self._show_facts(facts(before, kept, nothing_below("…")))
        messages = await self.session.read(messages_below, material, setting)
        if not messages:
            why = "not run: too many" if messages is None else "none is left"
            self._show_facts(facts(before, kept, nothing_below(why)))
            return
        now = await retention_of(material, texts.now, setting, messages)
        draft = await retention_of(material, texts.text, setting, messages)
        self.before = (before, now)
        self._show_facts(facts(before, kept, facts_below(now, draft)))

    def _show_facts(self, found: Sequence[Fact]) -> None:
        self.facts.replace(found)
        self.refresh_review()

    # -- commands ----------------------------------------------------------------------------------------

    def decided_on(self) -> object:
        """The draft in sight."""
        return self.subject.draft

    def _why_no_hunk(self) -> str | None:
        return None if self.view.diff is not None and self.view.diff.hunks else "no differences"

    def _why_not_mark(self) -> str | None:
        only = None if self.view.can_choose else "two texts, read only: D returns to the draft"
        return self._why_no_hunk() or only

    def _why_not_open(self) -> str | None:
        if self.facts.has_focus and self.facts.place is None:
            return "only lost, invented or reversed items can be opened"
        return None

    def _why_not_apply(self) -> str | None:
        return self._why_busy() or self.subject.why_not_taken(self.shown_text())

    @property
    def _following(self) -> SummaryId | None:
        """The next summary of the batch that is undecided."""
        return None if self.own else self.subject.work.next_to_review(self.subject.summary_id)

    def _why_not_apply_and_next(self) -> str | None:
        if not self.subject.applied or self.own:
            return self._why_not_apply()
        if self._following is None:
            return "it is applied, and no other draft of the batch is left"
        return None

    def _next_pane(self) -> None:
        """Go to the other pane; on a narrow screen it takes the place of the first."""
        to_facts = not self.facts.has_focus
        self._panes.show_alone(self.facts if to_facts else self.view)
        (self.facts if to_facts else self.view).focus()
        self.call_after_refresh(self.facts.redraw)
        self.call_after_refresh(self._say)

    def _take_or_leave(self) -> None:
        if not self.view.take_or_leave():
            self.app.notify("No change here: ] goes to the next.", timeout=3)

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
        fact, texts = self.facts.place, self.texts
        if fact is None or fact.spot is None or texts is None:
            return
        of_source = fact.spot.side is Side.SOURCE
        title = f"{'Source' if of_source else 'Draft'} of {self.subject.summary_id}"
        text = texts.source if of_source else texts.text
        self.open(places.Source(title, text, fact.spot.start, fact.spot.end))

    # -- new drafts --------------------------------------------------------------------------------------

    def _why_busy(self) -> str | None:
        """One draft is made at a time."""
        return f"wait: {self.busy}" if self.busy else None

    def _why_not_edited(self) -> str | None:
        """There must be a text to begin with."""
        unread = self.subject.material is None
        return self._why_busy() or ("it is still being read" if unread else None)

    def _set_busy(self, what: str) -> None:
        self.busy = what
        self.refresh_review()

    # -- asking a model ----------------------------------------------------------------------------------

    def _begin(self) -> None:
        """Ask for the first draft; whoever costs something is asked only after a question."""
        self._set_busy("asking …")
        self.work_on("rewrite", self._ask_author, self.subject.work.author, "", True)

    async def _ask_again(self) -> None:
        """Ask for another draft, as the operator says."""
        subject = self.subject
        form = AskAgain("Draft again", subject.work.author.words, self._asked, cut=True)
        asked = await self.app.push_screen_wait(form)
        if asked is None:
            return
        self._asked = asked
        if asked.whom == CUT:
            await subject.work.batch.cut(subject.summary_id)
            return
        self._set_busy("asking …")
        try:
            author = await asyncio.to_thread(author_like, self.session.settings, subject.work.author, asked)
        except LcmError as error:
            self._say_failed(error)
            self._set_busy("")
            return
        await self._ask_author(author, asked.instructions, first=False)

    async def _ask_author(self, author: Modelling, instructions: str, first: bool) -> None:
        """Put the question, and ask."""
        work = self.subject.work
        try:
            if not await self._agreed(author):
                return
            self._set_busy(f"{author.words.partition(' (')[0]} writes …")
            await work.draft(self.subject.summary_id, author, instructions, first=first)
        except LcmError as error:
            self._say_failed(error)
        finally:
            self._set_busy("")

    def _say_failed(self, error: LcmError) -> None:
        self.app.notify(error.message, title="No draft", severity="error", timeout=12)

    async def _agreed(self, author: Modelling) -> bool:
        """Whether somebody may be asked who costs something; others may."""
        if is_offline(author):
            return True
        work = self.subject.work
        seen = await work.forecast(self.subject.summary_id, work.writer_of(author))
        said = [
            Block(author.words),
            Block(key_text(author)),
            Block(forecast_sentence(seen.forecast, work.budget)),
        ]
        said += [Block(note) for note in await asyncio.to_thread(lambda: author.prompt_notes)]
        question = Question("Call this model?", tuple(said), (("a", "ask"),))
        answer = await self.app.push_screen_wait(question)
        return bool(answer)

    # -- writing by hand ---------------------------------------------------------------------------------

    def _edit(self) -> None:
        """Edit the text shown, here."""
        self.open(places.Editor(str(self.subject.summary_id), self._first_text(), self._edited()))

    async def _edit_outside(self) -> None:
        """Edit the text shown in the operator's own editor."""
        take = self._edited()
        text = await edit_outside(self.app, str(self.subject.summary_id), self._first_text())
        if text is not None:
            take(text)

    def _first_text(self) -> str:
        """The text shown; without a draft the present one."""
        shown, draft, material = self.shown_text(), self.subject.draft, self.subject.material
        if shown is not None:
            return shown
        return draft.text if draft else material.base.content if material else ""

    def _edited(self) -> Callable[[str], None]:
        """What takes the text that is edited now: over the stored text of this moment."""
        subject, first, material = self.subject, self._first_text(), self.subject.material
        over, outdated = material.base.content if material else "", bool(subject.changed_meanwhile)

        def take(text: str) -> None:
            if outdated or text != first:
                write = subject.work.batch.write
                self.work_on("write", write, subject.summary_id, text, over, exclusive=False)

        return take

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
                self.work_on("committed", self._committed, item, draft, exclusive=False)

        self.open(places.Preview(rewriting(self.subject.work, item, draft, then)))

    async def _apply_and_next(self) -> None:
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
        keys = keys_back("undo", [self.subject.item.conversation_id])
        self.app.notify(f"Applied to {self.subject.summary_id}. To undo it: {keys}.", timeout=DONE_SECONDS)
        following = self._following
        if self.app.screen is self:
            await self.action_back()
            if following is not None:
                self.open(places.Review(work, following))

    async def _committed(self, item: BatchItem, draft: Draft) -> None:
        """Leave, and offer to go on with what was made from the text that was replaced."""
        await self.subject.work.batch.take(item.summary_id, draft.number)
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

    KEYS: ClassVar[Sequence[Key[ReviewScreen]]] = (
        commands.APPLY.does(
            _apply,
            _why_not_apply,
            title="Preview",
            help="Preview applying the text shown; nothing is written yet.",
        ),
        Key(
            "apply-next",
            "J",
            "Apply, next",
            "Apply the text shown without a preview, and go to the next draft of the batch.",
            _apply_and_next,
            _why_not_apply_and_next,
            title_now=lambda s: "Next undecided" if s.subject.applied and not s.own else "",
            words="accept; accept and next; next summary; approve",
            decides=True,
            opens=True,
        ),
        commands.OPEN.does(_open_line, _why_not_open),
        commands.MARK.does(
            _take_or_leave,
            _why_not_mark,
            title="Skip/include",
            help="Skip the change at the cursor, or include it again.",
        ),
        Key(
            "include-all",
            "plus",
            "Include all",
            "Include every change.",
            lambda s: s.view.take_all(include=True),
            _why_not_mark,
            hidden=True,
        ),
        Key(
            "skip-all",
            "minus",
            "Skip all",
            "Skip every change: what is left is the present text, from which e starts.",
            lambda s: s.view.take_all(include=False),
            _why_not_mark,
            words="start from the present text; reject all; none of them",
            hidden=True,
        ),
        commands.EDIT.does(_edit, _why_not_edited),
        commands.HUNK_PREVIOUS.does(lambda s: s._go(-1, "That was the first change."), _why_no_hunk),
        commands.HUNK_NEXT.does(lambda s: s._go(1, "That was the last change."), _why_no_hunk),
        layout_key(lambda s: s.view),
        commands.EDIT_OUTSIDE.does(_edit_outside, _why_not_edited),
        commands.REWRITE.does(
            _ask_again,
            _why_busy,
            title="Draft again",
            help="Draft again with another model, prompt or instructions.",
        ),
        Key(
            "draft-next",
            "full_stop",
            "Next draft",
            "Show the next draft.",
            lambda s: s.subject.choose(1),
            lambda s: s.subject.why_no_other_draft(),
            hidden=True,
        ),
        Key(
            "draft-previous",
            "comma",
            "Previous draft",
            "Show the previous draft.",
            lambda s: s.subject.choose(-1),
            lambda s: s.subject.why_no_other_draft(),
            hidden=True,
        ),
        commands.COMPARE.does(_compare, lambda s: s.subject.why_no_other_pair()),
        commands.HISTORY,
    )
    COMMON: ClassVar[Sequence[Key[ReviewScreen]]] = (commands.PANE.does(_next_pane),)
