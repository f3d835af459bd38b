"""A focus brief from the sweep to its text, and the changes that activate, clear and delete one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from enum import Enum, auto
from typing import Final, Protocol

from lcm_core.base.errors import LcmError, RefusedError
from lcm_core.base.records import Conversation
from lcm_core.base.settings import Settings
from lcm_core.base.text import safe_line
from lcm_core.base.times import iso_z
from lcm_core.base.values import Record, replace
from lcm_core.change.commit import Committed
from lcm_core.change.journal import BRIEF_BATCH, new_batch_id
from lcm_core.change.plan import Plan
from lcm_core.change.preview import Planner
from lcm_core.operations.drafting import draft_setting
from lcm_core.operations.focus import (
    CURED_BY_SWEEP,
    BriefDraft,
    FocusEffect,
    FocusKind,
    FocusWish,
    brief_retention,
    call_failed,
    drop_draft,
    effect_of_text,
    have_written,
    keep_draft,
    kept_drafts,
    plan_activate_brief,
    plan_brief,
    plan_clear_brief,
    plan_delete_brief,
    plan_failed_brief,
    read_question,
    read_refocus,
    read_wish,
)
from lcm_core.operations.selection import Mode
from lcm_core.store.database import Database, Reader
from lcm_core.store.schema import Schema
from lcm_core.writers.briefing import BriefLimits, BriefQuestion, BriefText, forecast_brief
from lcm_core.writers.cost import CallBudget, Forecast
from lcm_core.writers.request import SummarizerError
from lcm_core.writers.retention import Retention
from lcm_core.writers.source import Rendering
from lcm_core.writers.writer import ModelSummarizer, call_budget, open_model

from lcm_tui.flows.change import Change, Notice, Then
from lcm_tui.flows.compaction import CompactionWish, PlannedCompaction, plan_compaction
from lcm_tui.flows.drafts import Modelling, choose_writer, named_model
from lcm_tui.flows.ui import Ui
from lcm_tui.kit.session import Session

# -- a new brief -----------------------------------------------------------------------------------------
# The sweep before it, who writes, the text, and what it would replace.


class BriefOutlook(Record, frozen=True):
    """How a brief on its way stands against the database as it is."""

    wish: FocusWish | None = None  #: what it would be made from now; None: that is known after the sweep
    effect: FocusEffect | None = None  #: of the text, or of an empty one
    question: BriefQuestion | None = None  #: what a model would be given, or the least of that
    refusal: str = ""
    cost: Forecast | None = None  #: of asking; None: nobody is to be asked
    problem: str = ""  #: why nobody can be asked


class Step(Enum):
    """What is due next of a brief."""

    SWEEP = auto()
    WRITE = auto()
    PREVIEW = auto()


class BriefWork:
    """One brief that an operator makes, on a screen or by a command. Close it."""

    def __init__(
        self,
        settings: Settings,
        conversation: Conversation,
        kind: FocusKind,
        prompt: str,
        *,
        author: Modelling | None = None,
        budget: CallBudget | None = None,
    ) -> None:
        """*author*: who can write it, with the *budget* of the run; None: nobody was named."""
        self.settings = settings
        self.conversation = conversation
        self.owner = conversation.conversation_id
        self.kind = kind
        self.prompt = prompt
        self.batch = new_batch_id(BRIEF_BATCH)
        self.sweeps = True  #: as the engine does, unless the operator leaves it out
        self.sweep: PlannedCompaction | None = None  #: as it was planned last
        self.swept = False  #: the passes of the sweep are in this batch
        self.author = author
        self.budget = budget
        self.text: str | None = None  #: what the operator wrote for the context as it is when that is planned
        self.draft: BriefDraft | None = None  #: the text with what it was written from
        self.retention: Retention | None = None  #: of a text that a model wrote
        #: what it should have been written from and why it was not; None: no call failed, or that is recorded
        self.failed: tuple[FocusWish, str] | None = None
        self.busy = ""  #: what is being done
        self.changed: Callable[[], object] = lambda: None
        self._model: ModelSummarizer | None = None

    # -- what is read ------------------------------------------------------------------------------------

    async def wish(self, reader: Reader) -> FocusWish:
        """What it would be made from now."""
        if self.kind is FocusKind.REFOCUS:
            return await read_refocus(reader, self.owner)
        return await read_wish(reader, self.owner, self.prompt)

    async def _question(self, reader: Reader) -> tuple[FocusWish, BriefQuestion]:
        """The same, with what a model would be given."""
        wish = await self.wish(reader)
        return wish, await read_question(reader, wish, self._rendering(reader.schema))

    def _rendering(self, schema: Schema) -> Rendering:
        return draft_setting(schema, self.settings.engine, self.settings.zone).rendering

    async def look(self, database: Database) -> BriefOutlook:
        """How it stands.

        Raises:
            LcmError: no brief can be made of the conversation, and a sweep does not change that.
        """

        async def load(reader: Reader) -> BriefOutlook:
            wish, question = await self._question(reader)
            made_from = self.draft.wish if self.draft is not None else wish
            content = "-" if self.draft is None else self.draft.text.content
            return BriefOutlook(wish, await effect_of_text(reader, made_from, content), question)

        try:
            return await database.read(load)
        except RefusedError as error:
            if not self.is_cured_by_sweep(error):
                raise
            return BriefOutlook(question=BriefQuestion(self.prompt, ()))

    def is_cured_by_sweep(self, error: RefusedError) -> bool:
        """Whether the sweep that is due makes what a refusal misses."""
        return error.code in CURED_BY_SWEEP and self._is_sweep_due

    @property
    def _is_sweep_due(self) -> bool:
        return self.sweeps and self.sweep is not None and bool(self.sweep.forecast.passes)

    @property
    def step(self) -> Step:
        """What is due next."""
        if self.draft is not None:
            return Step.PREVIEW
        if self._is_sweep_due:
            return Step.SWEEP
        return Step.WRITE if self.text is None else Step.PREVIEW

    # -- the text ----------------------------------------------------------------------------------------

    def model(self) -> ModelSummarizer | None:
        """The author, to be asked; None: nobody was named."""
        if self._model is None and self.author is not None:
            self._model = open_model(self.author.chosen, self.author.settings, self.budget)
        return self._model

    def forecast(self, question: BriefQuestion) -> Forecast | None:
        """What a call would cost; nothing is sent. None: no model was named."""
        model = self.model()
        return None if model is None else forecast_brief(model, question, BriefLimits())

    async def write(self, database: Database) -> None:
        """Have a model write it; the draft is kept on the disk at once.

        Raises:
            LcmError: no answer came back (`failed`, where the engine would record it), or it cannot be kept.
        """
        model = self.model()
        if model is None:
            return
        self._say("reading …")
        self.failed = None
        rendering = self._rendering(database.schema)
        try:
            wish, question = await database.read(self._question)
            try:
                written = await have_written(
                    database, wish, question, model, rendering, progress=lambda _, words: self._say(words)
                )
            except SummarizerError as error:
                self.failed = (wish, safe_line(error.message)) if call_failed(error) else None
                raise
            before = self.draft
            made = self._draft_of(wish, written.text)
            self.draft = replace(made, path=await asyncio.to_thread(keep_draft, made))
            if before is not None:
                await asyncio.to_thread(drop_draft, before.path)
            self.retention = await brief_retention(question, written.shown, written.text.content, rendering)
        finally:
            self._say("")

    async def take(self, reader: Reader, content: str) -> None:
        """A text that the operator wrote: over what the draft was written from, else over the context now.

        Raises:
            LcmError: no brief can be made of the conversation.
        """
        held = self.draft
        wish = await self.wish(reader) if held is None else held.wish
        text = BriefText(content)
        if held is not None:
            text = replace(held.text, content=content, writer=text.writer, notes="")
        self.draft = replace(self._draft_of(wish, text), path=None if held is None else held.path)
        self.retention = None
        self.changed()

    def _draft_of(self, wish: FocusWish, text: BriefText) -> BriefDraft:
        path = str(self.settings.database.value.resolve())
        return BriefDraft(wish, text, path, iso_z(datetime.now(UTC)), self.batch if self.swept else "")

    def _say(self, what: str) -> None:
        self.busy = what
        self.changed()

    # -- the change --------------------------------------------------------------------------------------

    @property
    def _of_batch(self) -> str | None:
        return self.batch if self.swept or (self.draft is not None and self.draft.batch) else None

    async def plan(self, reader: Reader) -> Plan:
        """The brief with its text, in the batch of the sweep.

        Raises:
            RefusedError: there is no text, or no brief can be made of it.
        """
        if self.text is not None:
            self.draft = None
            await self.take(reader, self.text)
        if self.draft is None:
            raise RefusedError("The brief has no text yet. Nothing was changed.", code="EMPTY_TEXT")
        return await plan_brief(reader, self.draft.wish, self.draft.text, batch=self._of_batch)

    async def plan_failure(self, reader: Reader) -> Plan:
        """The row that the engine leaves when nobody wrote a text, in the batch of the sweep.

        Raises:
            RefusedError: no call failed.
        """
        if self.failed is None or self.author is None:
            raise RefusedError("No call failed. Nothing was changed.", code="NOTHING_FAILED")
        wish, why = self.failed
        return await plan_failed_brief(
            reader, wish, why, self.author.chosen.choice.model, batch=self._of_batch
        )

    async def close(self) -> None:
        """Close what is connected."""
        if self._model is not None:
            model, self._model = self._model, None
            await model.aclose()


class BriefOnScreen(BriefWork):
    """A brief that is looked at while it is made: again and again, against the database as it is."""

    def __init__(self, session: Session, conversation: Conversation, kind: FocusKind, prompt: str) -> None:
        super().__init__(session.settings, conversation, kind, prompt)
        self.session = session
        self.sweeper: Modelling | None = None  #: who writes the summaries of the sweep
        self._looked = False

    async def outlook(self) -> BriefOutlook:
        """How it stands; reads the files of keys and kept drafts at the first time."""
        problem, session = "", self.session
        if not self._looked:
            try:
                self.author = await asyncio.to_thread(named_model, self.settings)
            except LcmError as error:
                problem = error.message
            if self.author is not None:
                self.budget = call_budget(self.author.settings)
            if self.sweeper is None and not problem:
                self.sweeper = await asyncio.to_thread(choose_writer, self.settings)
            if self.draft is None:
                await self._find_kept()
            self._looked = not problem
        if self.sweeps:
            wish = CompactionWish(Mode.SWEEP, session.budget)
            self.sweep = await plan_compaction(
                session.database, self.settings, self.conversation, wish, self.sweeper
            )
        try:
            found = await self.look(session.database)
        except LcmError as error:
            return BriefOutlook(refusal=error.message, problem=problem)
        try:
            cost = None if found.question is None else await asyncio.to_thread(self.forecast, found.question)
        except LcmError as error:
            return replace(found, problem=error.message)
        return replace(found, cost=cost, problem=problem)

    async def _find_kept(self) -> None:
        """A draft that was paid for, of the same question, that nobody decided on."""
        kept = await asyncio.to_thread(kept_drafts, self.session.database.path)
        for one in kept:
            wish = one.wish
            same = wish.conversation_id == self.owner and wish.kind is self.kind
            if same and (self.kind is FocusKind.REFOCUS or wish.prompt == self.prompt.strip()):
                self.draft, self.sweeps = one, False
                self.batch = one.batch or self.batch
                return


class BriefUi(Protocol):
    """Who shows a brief that is made, and asks about it."""

    @property
    def database(self) -> Database:
        """The open file."""

    async def agree(self, step: Step) -> bool:
        """Ask whether to do what is due."""

    async def sweep(self, planned: PlannedCompaction) -> None:
        """Make the passes of the sweep, or show them, each of which can then be made."""

    async def put_in_force(self) -> None:
        """Show the change (`InForce`), and commit it when that is agreed to."""


async def make_brief(ui: BriefUi, work: BriefWork) -> None:
    """Do what is due of a brief as long as that is agreed to: sweep, have it written, put it in force.

    Raises:
        LcmError: the call failed (`BriefWork.failed`), or a step was refused.
    """
    while await ui.agree(step := work.step):
        match step:
            case Step.SWEEP:
                assert work.sweep is not None  # else it is not due
                await ui.sweep(work.sweep)
            case Step.WRITE:
                await work.write(ui.database)
            case Step.PREVIEW:
                await ui.put_in_force()


# -- changes of briefs -----------------------------------------------------------------------------------
# Activated, cleared, and deleted.

_ABOUT: Final = """
The brief becomes the active one: the model receives it instead of the summaries that it covers, which stay
where they are. Every brief that was active before is superseded and kept. No context changes.
"""
_FAILED: Final = """
The engine records a call that wrote no text as a failed brief with the error. No model receives it, and no
other brief changes.
"""
_CLEAR: Final = """
The active brief becomes inactive and is kept: the summaries that it covers are sent again. The engine then
sweeps the context; the passes are shown after this, and belong to the same batch.
"""
_DELETE: Final = """
The brief and the record of its sources are deleted. The engine itself deletes none. U, then u undoes it.
"""


class InForce(Change):
    """The text of a work as the brief of its conversation."""

    def __init__(self, work: BriefWork, planner: Planner | None = None, then: Then | None = None) -> None:
        """*planner*: plans it with what is to be said besides; *then* gets what was committed."""
        title = f"Focus brief, conversation {work.owner}"
        super().__init__(planner or work.plan, title, _ABOUT, then=then)
        self._work = work

    async def applied(self, ui: Ui, done: Sequence[Committed]) -> Sequence[Notice]:
        """It is in the database: the kept draft goes."""
        if self._work.draft is not None:
            await asyncio.to_thread(drop_draft, self._work.draft.path)
        return await super().applied(ui, done)


def recording_failure(work: BriefWork, then: Then) -> Change:
    """The failed call of *work* as the engine records it."""
    return Change(work.plan_failure, f"Failed focus brief, conversation {work.owner}", _FAILED, then=then)


def activating(conversation: Conversation, brief_id: str) -> Change:
    """An older brief in force again."""

    async def plan(reader: Reader) -> Plan:
        return await plan_activate_brief(reader, conversation.conversation_id, brief_id)

    return Change(plan, f"Activate {brief_id}", _ABOUT)


def clearing(conversation: Conversation, batch: str, notes: Sequence[str], then: Then) -> Change:
    """The active brief out of force, as a part of *batch*; *notes* say what follows, without full stops."""

    async def plan(reader: Reader) -> Plan:
        made = await plan_clear_brief(reader, conversation.conversation_id, batch=batch)
        return replace(made, warnings=(*made.warnings, *notes))

    return Change(
        plan, f"Clear the focus brief, conversation {conversation.conversation_id}", _CLEAR, then=then
    )


def deleting_brief(conversation: Conversation, brief_id: str) -> Change:
    """A brief deleted."""

    async def plan(reader: Reader) -> Plan:
        return await plan_delete_brief(reader, conversation.conversation_id, brief_id)

    return Change(plan, f"Delete {brief_id}", _DELETE)
