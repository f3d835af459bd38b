"""Drafts that are being worked on: who writes, the batch and its cost, and applying a draft."""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final, Protocol

from lcm_core.base.errors import LcmError
from lcm_core.base.files import drafts_folder
from lcm_core.base.records import ConversationId, SummaryId
from lcm_core.base.settings import Settings, SummarySettings
from lcm_core.base.text import counted
from lcm_core.base.times import iso_z
from lcm_core.base.tokens import estimate
from lcm_core.base.values import Record, replace
from lcm_core.change.plan import DiskFullError
from lcm_core.operations.batch import Batch, BatchOptions
from lcm_core.operations.drafting import (
    SETTLED,
    BatchItem,
    Draft,
    DraftSetting,
    ItemState,
    Material,
    draft_setting,
    read_material,
    request_for,
)
from lcm_core.operations.drafts import DraftsHeader, DraftsWriter, SavedDrafts
from lcm_core.store.database import Database
from lcm_core.writers.cost import NO_FORECAST, NOTHING_SPENT, CallBudget, Forecast
from lcm_core.writers.keys import KeySource
from lcm_core.writers.prompts import PromptTemplates, SummaryPrompt, operators_prompts, prompts_at
from lcm_core.writers.request import ApiShape, SummaryReply, SummaryRequest, Usage
from lcm_core.writers.writer import ChosenModel, SummaryWriter, call_budget, choose_model, open_summary_writer

from lcm_tui.flows.change import Change, Then

# -- the writer ------------------------------------------------------------------------------------------
# Who writes summaries, by options, environment and config: the same for the command line and the app.


class Modelling(Record, frozen=True):
    """What was chosen, not connected yet."""

    chosen: ChosenModel
    settings: SummarySettings
    prompts: PromptTemplates  #: what is asked, the operator's own templates among them

    @property
    def words(self) -> str:
        """Who is asked, for people."""
        return str(self.chosen.choice)

    @property
    def key(self) -> str | None:
        """Where the key comes from, masked; None: no key is used."""
        return self.chosen.key_origin

    @property
    def prompt_notes(self) -> tuple[str, ...]:
        """What is to be known of the operator's own prompts, when somebody is asked.

        Raises:
            ConfigurationError: a prompt cannot be read.
        """
        return self.prompts.notes() if self.chosen.choice.base_url else ()

    def cost(self, input_tokens: int, output_tokens: int) -> float | None:
        """What so many tokens cost, in USD; None: the price is not known."""
        price = self.chosen.price
        return None if price is None else price.of(input_tokens, output_tokens)

    def open(self, budget: CallBudget | None = None) -> SummaryWriter:
        """The writer; it connects with its first request. Writers of one batch share its *budget*.

        Raises:
            ConfigurationError: a limit of cost cannot be kept.
        """
        return open_summary_writer(self.chosen, self.settings, self.prompts, budget)


def choose_writer(
    settings: Settings,
    summary: SummarySettings | None = None,
    *,
    key_variable: str | None = None,
    prompts: Path | None = None,
) -> Modelling:
    """Choose who is asked; *summary* are the settings with options over them. Nothing is sent.

    *prompts* is a folder of prompts, or one file, in place of those beside our config. It reads files where
    a key is looked for.

    Raises:
        ConfigurationError: provider, model, address and key do not go together, or there are no prompts.
    """
    wanted = settings.summary if summary is None else summary
    source = KeySource(os.environ, settings.credentials_dir, key_variable)
    own = operators_prompts(settings.user_config_file.value) if prompts is None else prompts_at(prompts)
    return Modelling(choose_model(wanted, source), wanted, own)


def named_model(
    settings: Settings,
    summary: SummarySettings | None = None,
    *,
    key_variable: str | None = None,
) -> Modelling | None:
    """The model for a question that somebody named; *summary* as in `choose_writer`. None: nobody did.

    A key alone names none, and the extractive writer is none that can be asked.

    Raises:
        ConfigurationError: provider, model, address and key do not go together.
    """
    named = settings.summary if summary is None else summary
    if not any((named.provider.value, named.model.value, named.base_url.value)):
        return None
    model = choose_writer(settings, summary, key_variable=key_variable)
    return model if model.chosen.choice.base_url else None


def spent_text(usage: Usage) -> str:
    """What something cost, for people: at most so much, where the provider did not say all of it."""
    if usage.is_exact or not usage.cost_usd:
        return cost_text(usage.cost_usd)
    return f"at most {most_text(usage.cost_usd)}"


def most_text(cost: float | None) -> str:
    """A cost that is not passed, for people: never rounded down."""
    if not cost:
        return cost_text(cost)
    digits = 2 if cost >= 0.01 else 4
    return f"${math.ceil(round(cost * 10**digits, 6)) / 10**digits:.{digits}f}"


def cost_text(cost: float | None) -> str:
    """A cost for people."""
    if cost is None:
        return "not known"
    return "nothing" if cost == 0 else f"${cost:.2f}" if cost >= 0.01 else f"${cost:.4f}"


# -- the work --------------------------------------------------------------------------------------------
# Drafts that somebody works on in the app: the batch, what it costs, and where it is kept.

#: Who writes when nobody does: the engine's cut of the source.
CUT: Final = "cut"


class Wanted(Record, frozen=True):
    """What is to be written again."""

    kind: str  #: ``rewrite`` or ``repair``
    conversation_id: ConversationId | None  #: None: all
    summary_id: SummaryId | None = None  #: with everything below it


class Asked(Record, frozen=True):
    """How a draft is asked for; an empty text leaves it as it was before."""

    whom: str = ""  #: ``provider/model``, a provider alone, or `CUT`
    address: str = ""
    prompts: str = ""  #: a prompt file, or a folder of them
    instructions: str = ""


def author_like(settings: Settings, before: Modelling, asked: Asked) -> Modelling:
    """Who the operator named in place of *before*; what is empty stays. Reads files: not for the event loop.

    Raises:
        ConfigurationError: provider, model, address and key do not go together, or there is no prompt.
    """
    if not (asked.whom or asked.address or asked.prompts):
        return before
    choice = before.chosen.choice
    provider, _, model = asked.whom.partition("/")
    same = not asked.whom or provider == choice.provider.name
    named = settings.summary.with_flags(
        provider=provider or choice.provider.name,
        model=model or (choice.model if same else None),
        base_url=asked.address or (choice.base_url or None if same else None),
    )
    own = Path(asked.prompts).expanduser() if asked.prompts else None
    return choose_writer(settings, named, prompts=own)


def is_offline(author: Modelling) -> bool:
    """Whether nothing is sent to anybody."""
    return author.chosen.choice.provider.shape is ApiShape.EXTRACTIVE


def key_text(author: Modelling) -> str:
    """Where the key came from, masked."""
    return f"key {author.key}" if author.key else "no API key needed"


def forecast_text(forecast: Forecast, budget: CallBudget) -> str:
    """What a batch takes, and at most, for people; the limits of *budget* hold."""
    if not forecast.once.calls:
        return "no network call, no cost"
    most = budget.at_most(forecast)
    about = "~" if forecast.once.cost_usd else ""
    tokens = f"~{forecast.once.input_tokens:,} tokens in, up to {forecast.once.output_tokens:,} out"
    cost = f"cost: {about}{cost_text(forecast.once.cost_usd)}"
    if forecast.once.cost_usd is not None:
        cost += f", at most {most_text(most.cost_usd)} in {counted(most.calls, 'call')}"
    return f"{counted(forecast.once.calls, 'call')}, {tokens}, {cost}"


def worth_keeping(items: Iterable[BatchItem]) -> bool:
    """Whether a draft waits for its decision: it is not thrown away, whatever it cost."""
    return any(item.drafts and item.state not in SETTLED for item in items)


def forecast_sentence(forecast: Forecast, budget: CallBudget) -> str:
    """The same as a sentence, for a question."""
    if not forecast.once.calls:
        return "No network call, no cost."
    most = forecast_text(forecast, budget)
    return f"If every first answer is accepted: {most}, including retries and second answers."


class Instructed:
    """A writer that gives the operator's instructions for one draft."""

    def __init__(self, writer: SummaryWriter, instructions: str) -> None:
        self._writer = writer
        self._instructions = instructions

    async def __call__(self, request: SummaryRequest, /) -> SummaryReply:
        """Summarise by them."""
        return await self._writer(replace(request, instructions=self._instructions))


class DraftForecast(Record, frozen=True):
    """One summary that would be drafted."""

    item: BatchItem
    material: Material
    request: SummaryRequest
    forecast: Forecast  #: of its calls
    source_tokens: int
    prompt: SummaryPrompt | None  #: when it was asked for

    @property
    def broken_sources(self) -> tuple[SummaryId, ...]:
        """Its sources that are no summaries and are not written again before it."""
        return tuple(one for one in self.material.broken_sources if one not in self.item.after)


class Work:
    """One batch of drafts with its author; what changes is told to whoever listens."""

    def __init__(
        self,
        database: Database,
        settings: Settings,
        author: Modelling,
        items: Iterable[BatchItem],
        options: BatchOptions,
        *,
        setting: DraftSetting | None = None,
        kept: SavedDrafts | None = None,
        instructions: str = "",
    ) -> None:
        """*kept*: drafts of an earlier run to go on with; *instructions* are the operator's for all of it.

        *setting*: how summaries are drafted; None: as the database and the settings say.
        """
        self.database = database
        self.author = author
        self.kind = options.kind
        self.listeners: list[Callable[[BatchItem], None]] = []
        self._unkept: LcmError | None = None  #: why drafts are not kept on the disk
        #: of the whole batch: earlier runs count, and whoever else is asked
        self.budget = call_budget(author.settings, NOTHING_SPENT if kept is None else kept.header.spent)
        self._writers = {author: author.open(self.budget)}
        self._authors: dict[tuple[SummaryId, int], Modelling] = {}  #: of drafts that others were asked for
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="drafts")  # notes follow each other
        self._keeper: Future[DraftsWriter] | None = None
        self._loop = asyncio.get_running_loop()
        self._kept = kept
        self._closed = False
        self.batch = Batch(
            database,
            items if kept is None else kept.items,
            setting or draft_setting(database.schema, settings.engine, settings.zone),
            Instructed(self.writer, instructions) if instructions else self.writer,
            options,
            batch_id="" if kept is None else kept.header.batch,
            keep=self._keep,
            changed=self._changed,
        )

    @property
    def writer(self) -> SummaryWriter:
        """Who is asked unless somebody else is named."""
        return self._writers[self.author]

    @property
    def failed(self) -> LcmError | None:
        """What stopped it; None: nothing did."""
        return self._unkept or self.batch.failed

    @property
    def worth_keeping(self) -> bool:
        """Whether a draft waits for its decision."""
        return worth_keeping(self.batch.items)

    # -- who writes --------------------------------------------------------------------------------------

    def writer_of(self, author: Modelling) -> SummaryWriter:
        """Asks *author*; closed with the work."""
        if author not in self._writers:
            self._writers[author] = author.open(self.budget)
        return self._writers[author]

    async def draft(
        self, summary_id: SummaryId, author: Modelling, instructions: str = "", *, first: bool = False
    ) -> None:
        """Ask *author* for another draft of one summary; *first*: run the batch, which asks for its first.

        Raises:
            LcmError: there is none.
        """
        if first:
            await self.batch.run()
            if self.batch.failed is not None:
                raise self.batch.failed
            return
        writer = self.writer_of(author)
        asked = Instructed(writer, instructions) if instructions else writer
        drafts = await self.batch.again(summary_id, asked)
        self._authors.update({(one.summary_id, one.number): author for one in drafts})

    def author_of(self, draft: Draft) -> Modelling | None:
        """Who was asked for a draft; None: nobody knows any more, for it is of an earlier run."""
        known = self._authors.get((draft.summary_id, draft.number))
        if known is None and draft.model == self.author.chosen.choice.model:
            return self.author
        return known

    def next_to_review(self, after: SummaryId) -> SummaryId | None:
        """The next summary of the batch whose draft waits for a decision, round its end."""
        ids = [item.summary_id for item in self.batch.items]
        at = ids.index(after) + 1 if after in ids else 0
        waiting = {item.summary_id for item in self.batch.items if item.state is ItemState.REVIEW}
        return next((one for one in (*ids[at:], *ids[:at]) if one in waiting), None)

    # -- estimates ---------------------------------------------------------------------------------------

    async def forecast(
        self, summary_id: SummaryId, writer: SummaryWriter | None = None, *, prompt: bool = False
    ) -> DraftForecast:
        """What drafting one summary takes, and at most; with the *prompt* if wanted. Nothing is sent."""
        setting, asked = self.batch.setting, writer or self.writer
        material = await self.database.read(
            read_material, summary_id, setting.rendering, with_previous=setting.previous
        )
        first, again = (request_for(material, setting, aggressive=one) for one in (False, True))

        def work() -> DraftForecast:
            return DraftForecast(
                self.batch.item(summary_id),
                material,
                first,
                asked.forecast(first, again) if material.source.text else NO_FORECAST,
                estimate(material.source.text, setting.rendering.rules.estimator),
                self.author.prompts.render(first) if prompt else None,
            )

        return await asyncio.to_thread(work)

    # -- keeping -----------------------------------------------------------------------------------------

    async def begin(self) -> None:
        """Begin to keep drafts, before anything is paid for.

        Raises:
            LcmError: they cannot be kept.
        """
        await asyncio.wrap_future(self._file())

    def _file(self) -> Future[DraftsWriter]:
        if self._keeper is None:
            self._keeper = self._thread.submit(self._begin)
        return self._keeper

    def _keep(self, item: BatchItem) -> None:
        """Note on the disk how far an item has come; not on the event loop, which a slow disk would hold."""
        keeper, spent = self._file(), self.budget.spent
        kept = self._thread.submit(lambda: keeper.result().keep(item, spent))
        kept.add_done_callback(self._kept_or_not)

    def _begin(self) -> DraftsWriter:
        if self._kept is not None:
            return DraftsWriter.reopen(self._kept)
        path = str(self.database.path)
        header = DraftsHeader(self.batch.id, self.kind, path, iso_z(datetime.now(UTC)))
        return DraftsWriter.create(drafts_folder(), header, self.batch.items)

    def _kept_or_not(self, done: Future[None]) -> None:
        """Called in the thread: what cannot be kept must not be paid for."""
        error = done.exception()
        if error is not None:
            self._unkept = error if isinstance(error, LcmError) else DiskFullError(str(error))
            self._loop.call_soon_threadsafe(self.batch.stop)

    async def close(self, *, keep: bool | None = None) -> None:
        """End: break off what runs, close connections; drafts stay on the disk unless all is decided.

        *keep* says whether they stay; None: when one waits for its decision.
        """
        if self._closed:
            return
        self._closed = True
        try:
            await self.batch.cancel()
            for writer in self._writers.values():
                await writer.aclose()
        finally:  # a cancelled `close` is not called again, and the thread would never end
            finished = self.batch.finished or not self.worth_keeping if keep is None else not keep
            closing = self._thread.submit(self._close, finished=finished)
            self._thread.shutdown(wait=False)
        await asyncio.wrap_future(closing)

    def _close(self, *, finished: bool) -> None:
        """Close the file of drafts; in the thread."""
        if self._keeper is not None and self._keeper.exception() is None:
            self._keeper.result().close(finished=finished)

    def _changed(self, item: BatchItem) -> None:
        for listener in tuple(self.listeners):
            listener(item)


# -- drafting a batch ------------------------------------------------------------------------------------


class DraftsUi(Protocol):
    """Who shows a batch of drafts, and has decided what no rule takes."""

    def working(self, what: str, /) -> AbstractContextManager[object]:
        """Say that *what* goes on."""

    def cancelled(self) -> bool:
        """Whether the calls in flight are to be broken off."""

    def changed(self) -> None:
        """It may have come further; called several times a second."""

    async def decide(self) -> bool:
        """Have decided what waits; True: what waited for that is to be drafted now."""


async def draft(ui: DraftsUi, work: Work) -> None:
    """Draft what is left, take what the rule takes, and have the rest decided, as long as that is wanted.

    Why it stopped is in `Work.failed`.

    Raises:
        LcmError: drafts cannot be kept; nothing was paid for.
    """
    await work.begin()
    while True:
        with ui.working("Drafting"):
            await work.batch.ended()
            running = asyncio.create_task(work.batch.run())
            try:
                while not running.done() and not ui.cancelled():
                    await asyncio.wait((running,), timeout=0.1)
                    ui.changed()
            finally:
                running.cancel()
                await asyncio.wait((running,))
            if not running.cancelled():
                running.result()
        if ui.cancelled() or work.failed is not None or not await ui.decide():
            return


# -- applying a draft ------------------------------------------------------------------------------------
# The draft replaces a summary's text.

ABOUT: Final = """
The draft replaces the summary's text exactly as shown. Its tokens, its model (where recorded), its file ids,
its search rows and the counters of every summary above it are updated; no context changes. Summaries made
from the old text are marked stale in the DAG until they are rewritten too.
"""


def rewriting(work: Work, item: BatchItem, draft: Draft, then: Then) -> Change:
    """A draft of *work* in the place of its summary's text, as an operation of its own; *then* as there."""
    title = f"{work.kind.capitalize()} {item.summary_id}, draft {draft.number}"
    return Change(partial(work.batch.plan, item=item, draft=draft), title, ABOUT, then=then)
