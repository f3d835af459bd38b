"""``compact``: the passes that the engine would make, forecast without a call, and made when asked."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, TypeAlias

import typer
from lcm_core.engine_rules import EngineRules
from lcm_core.errors import CancelledError, ExitCode, LcmError, UsageError
from lcm_core.operations.compaction.forecast import CompactionForecast, forecast_passes
from lcm_core.operations.compaction.reading import LoadedContext, load_for_compaction, warnings_of
from lcm_core.operations.compaction.run import (
    CompactionSetting,
    Mode,
    Operation,
    PassDone,
    Runner,
    compaction_setting,
    operation_of,
    refuse_fallback,
)
from lcm_core.operations.compaction.sweep import PassMade, PassMoved, PassSkipped, UnderResult
from lcm_core.store.database import Database, Reader
from lcm_core.store.schema import Schema
from lcm_core.summarize.models.writer import SummaryWriter
from lcm_core.summarize.request import ProviderAuthError
from lcm_core.text import safe_line

from lcm_tui.cli import answer as answers
from lcm_tui.cli import compact_report, modelling, options, output
from lcm_tui.cli.answer import Answer, Run
from lcm_tui.cli.change_flags import ChangeFlags
from lcm_tui.cli.readable import Note
from lcm_tui.cli.registry import command
from lcm_tui.cli.rules import RuleSet, known_rules
from lcm_tui.cli.selecting import ConversationOptions, Selector, chosen
from lcm_tui.cli.working import ask_before_change, can_ask, interruptible
from lcm_tui.compacting import refusal_of, step_words
from lcm_tui.session import budget_for

Leaf: TypeAlias = Annotated[
    bool,
    typer.Option("--leaf", metavar="", help="One leaf, and what the engine condenses after it by itself."),
]
Sweep: TypeAlias = Annotated[
    bool,
    typer.Option("--sweep", metavar="", help="Leaves until nothing is left, then condensed; the default."),
]
UntilUnder: TypeAlias = Annotated[
    str | None,
    typer.Option("--until-under", metavar="TOKENS", help="Sweep after sweep until the context is so small."),
]
SingleRoot: TypeAlias = Annotated[
    bool,
    typer.Option("--single-root", metavar="", help="Down to one summary before the fresh tail."),
]
Tail: TypeAlias = Annotated[
    str | None,
    typer.Option("--tail", metavar="N", help="Newest messages to leave alone; else as configured."),
]
Chunk: TypeAlias = Annotated[
    str | None, typer.Option("--chunk", metavar="TOKENS", help="Size of a chunk; else as configured.")
]
IfDue: TypeAlias = Annotated[
    bool, typer.Option("--if-due", metavar="", help="Only if the engine would do it by itself now.")
]
NoFallback: TypeAlias = Annotated[
    bool,
    typer.Option("--no-fallback", metavar="", help="Stop where no model gave a shorter text; cut nothing."),
]

NoSql: TypeAlias = Annotated[bool, typer.Option("--sql", metavar="", hidden=True)]


def register(app: typer.Typer) -> None:
    """Add the command to *app*."""
    command(app, "compact")(compact)


def compact(
    run: Run,
    *,
    conversation: ConversationOptions,
    leaf: Leaf = False,
    sweep: Sweep = False,
    until_under: UntilUnder = None,
    single_root: SingleRoot = False,
    budget: options.Budget = None,
    tail: Tail = None,
    chunk: Chunk = None,
    if_due: IfDue = False,
    no_fallback: NoFallback = False,
    rules: RuleSet = None,
    sql: NoSql = False,
    model: modelling.ModelFlags,
    flags: ChangeFlags,
) -> Answer:
    """Compact a conversation as its engine would, pass by pass; shown only, without --apply and any call."""
    if sql:
        raise UsageError(
            "compact has no --sql: the text of each pass is written when it is made, and the next one rests "
            "on it; --apply makes them, and `history undo --batch` takes them back.",
            details={"option": "sql"},
        )
    name, operation = _operation(leaf, sweep, until_under, single_root, if_due)
    work = CompactWork(
        run,
        conversation.selector("compact"),
        name,
        operation,
        modelling.modelling(run, model),
        budget_for(run.settings, None if budget is None else options.budget_of(budget)),
        None if tail is None else options.whole_number("tail", tail, 0),
        None if chunk is None else options.whole_number("chunk", chunk, 1),
        no_fallback,
        rules=known_rules(rules),
        target=None if until_under is None else options.budget_of(until_under, "until-under"),
    )
    shown = work.forecast()
    if not flags.apply or not shown.forecast.passes:
        return work.planned(shown)
    return work.apply(shown, agreed=flags.yes)


def _operation(
    leaf: bool, sweep: bool, until_under: str | None, single_root: bool, if_due: bool
) -> tuple[str, Operation[Any]]:
    """What is to be done, by its name and as the passes of it."""
    named = [leaf, sweep, until_under is not None, single_root]
    if sum(named) > 1:
        raise UsageError(
            "--leaf, --sweep, --until-under and --single-root exclude each other.",
            details={"option": "sweep"},
        )
    if if_due and (single_root or until_under is not None):
        raise UsageError(
            "--if-due goes with --leaf and --sweep: the engine does nothing else by itself.",
            details={"option": "if-due"},
        )
    target = None if until_under is None else options.budget_of(until_under, "until-under")
    asked = (
        (leaf, Mode.LEAF),
        (single_root, Mode.SINGLE_ROOT),
        (until_under is not None, Mode.UNTIL_UNDER),
        (True, Mode.SWEEP),
    )
    mode = next(mode for named, mode in asked if named)
    return mode.value, operation_of(mode, target=target, if_due=if_due)


@dataclass(frozen=True, slots=True)
class CompactWork:
    """One run of the command."""

    run: Run
    named: Selector
    name: str
    operation: Operation[Any]
    model: modelling.Modelling
    budget: int
    tail: int | None
    chunk: int | None
    no_fallback: bool
    adjust: Callable[[EngineRules], EngineRules] = lambda rules: rules
    rules: str | None = None  #: by name; None: as the schema says
    target: int | None = None  #: tokens that the context is to be under

    def forecast(self) -> compact_report.Shown:
        """What would be done, read in one transaction."""
        return self.run.read(self._forecast)

    async def _forecast(self, reader: Reader) -> compact_report.Shown:
        owner = (await chosen(reader, self.named)).conversation_id
        setting = self.setting(reader.schema)
        shown = self.shown(await load_for_compaction(reader, owner, setting.rendering), setting)
        return replace(shown, warnings=await warnings_of(reader, owner))

    def setting(self, schema: Schema) -> CompactionSetting:
        """How a database of this schema is compacted by these options."""
        setting = compaction_setting(
            schema,
            self.run.settings.engine,
            self.run.zone,
            self.budget,
            tail=self.tail,
            chunk=self.chunk,
            rules=self.rules,
        )
        rendering = replace(setting.rendering, rules=self.adjust(setting.rendering.rules))
        return replace(setting, rendering=rendering)

    def shown(self, loaded: LoadedContext, setting: CompactionSetting) -> compact_report.Shown:
        """What would be done to a context, also to one that nobody has written yet."""
        forecast: CompactionForecast[Any] = forecast_passes(loaded, setting, self.operation)
        return compact_report.Shown(
            loaded.conversation_id, self.name, setting, forecast, self.model, self.rules is not None
        )

    def planned(self, shown: compact_report.Shown) -> Answer:
        """The answer of a dry run."""
        blocks = compact_report.planned_blocks(shown)
        seen = shown.forecast
        if self.target is not None and seen.tokens_after > self.target:
            about = f"~{seen.tokens_after:,}" if seen.passes else f"{seen.tokens_after:,}"
            blocks.append(Note(f"That is {about} tokens: no pass brings the context under {self.target:,}."))
        if seen.passes:
            blocks.append(Note("No call was made and nothing was changed; --apply does it."))
        return self.run.answer("compact", {**compact_report.document(shown), "applied": False}, blocks)

    # -- doing -------------------------------------------------------------------------------------------

    def apply(self, shown: compact_report.Shown, *, agreed: bool) -> Answer:
        """Ask, then make pass after pass; ctrl-C ends it between two of them."""
        if not agreed and can_ask():
            output.print_aside(compact_report.planned_blocks(shown), self.run.presentation)
        ask_before_change(f"Compact conversation {shown.conversation_id}?", yes=agreed)
        done = _Done()
        try:
            with interruptible() as stopped:
                asyncio.run(self._apply(shown, done, stopped))
        except KeyboardInterrupt:
            done.failed = CancelledError("Cancelled; the passes that were made stay.")
        except LcmError as error:
            if not done.made:
                raise
            done.failed = error
        return self._answer(shown, done)

    async def _apply(self, shown: compact_report.Shown, done: _Done, stopped: Callable[[], bool]) -> None:
        path = self.run.settings.database.value
        async with await Database.open(path, busy_seconds=answers.BUSY_SECONDS) as database:
            writer = self.model.open()
            try:
                await self._passes(database, shown, writer, done, stopped)
            finally:
                await writer.aclose()

    async def _passes(
        self,
        database: Database,
        shown: compact_report.Shown,
        writer: SummaryWriter,
        done: _Done,
        stopped: Callable[[], bool],
    ) -> None:
        runner: Runner[Any] = Runner(
            database,
            shown.conversation_id,
            shown.setting,
            writer,
            self.operation,
            accept=refuse_fallback if self.no_fallback else None,
            ends_at_refusal=True,
        )
        try:
            async for step in runner.steps():
                done.steps.append(step)
                self._tell(done, step)
                if stopped():
                    raise CancelledError("Cancelled; the passes that were made stay.")
        finally:
            done.batch = runner.batch
            await runner.note()
        done.result = runner.result

    @property
    def _tells(self) -> bool:
        """Whether people see each pass when it has been made."""
        return can_ask() and not self.run.presentation.json

    def _tell(self, done: _Done, step: PassDone) -> None:
        """A line of progress for people."""
        if self._tells:
            line = safe_line(step_words(len(done.steps), step))
            output.write(sys.stderr, f"{line}\n", utf8=False)

    def _answer(self, shown: compact_report.Shown, done: _Done) -> Answer:
        if done.failed is None and (refused := refusal_of(done.result)):
            done.failed = ProviderAuthError(refused)
            if not done.made:
                raise done.failed
        after = shown.forecast.tokens_before - done.saved
        data = {
            **compact_report.document(shown),
            "tokens": {"before": shown.forecast.tokens_before, "after": after, "afterIsAssumed": False},
            "applied": done.failed is None,
            "batch": done.batch or None,
            "made": [compact_report.step_document(step) for step in done.made],
            "skipped": sum(isinstance(step.outcome, PassSkipped) for step in done.steps),
            "lost": sum(isinstance(step.outcome, PassMoved) for step in done.steps),
        }
        blocks = compact_report.done_blocks(done.steps, self._undo(done.batch), done.failed, told=self._tells)
        if isinstance(done.result, UnderResult) and done.failed is None:
            data["reached"] = done.result.success
            if not done.result.success:
                words = f"The context has {done.result.final_tokens:,} tokens: no pass brings it under"
                blocks.append(Note(f"{words} {self.target or self.budget:,}."))
        told = self.run.answer("compact", data, blocks)
        if done.failed is None:
            return told
        return Answer(told.command, told.data, told.blocks, told.meta, None, ExitCode.CANCELLED, done.failed)

    def _undo(self, batch: str) -> str:
        """The command that takes all of it back."""
        return self.run.line("history", "undo", "--batch", batch, "--apply")


@dataclass(slots=True)
class _Done:
    """What was done so far."""

    steps: list[PassDone] = field(default_factory=list)
    batch: str = ""
    result: Any = None
    failed: LcmError | None = None

    @property
    def saved(self) -> int:
        """Tokens by which the context became smaller."""
        return sum(step.outcome.saved for step in self.steps if isinstance(step.outcome, PassMade))

    @property
    def made(self) -> list[PassDone]:
        """The passes that made something."""
        return [step for step in self.steps if isinstance(step.outcome, PassMade)]
