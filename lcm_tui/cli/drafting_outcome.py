"""What came of drafts, for people and for programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lcm_core.errors import CancelledError, LcmError
from lcm_core.operations.drafting.batch import Batch
from lcm_core.operations.drafting.items import SETTLED, BatchItem, ItemState
from lcm_core.operations.drafting.rules import AcceptanceRule
from lcm_core.operations.stale import Stale, stale_in
from lcm_core.summarize.models.writer import SummaryWriter
from lcm_core.summarize.request import ProviderUnavailableError
from lcm_core.wording import counted

from lcm_tui.cli import drafting_report as report
from lcm_tui.cli.answer import Answer, Run
from lcm_tui.cli.documents import Document
from lcm_tui.cli.modelling import model_document
from lcm_tui.views import drafts as drafts_view
from lcm_tui.views.blocks import Block, Note
from lcm_tui.writing import Modelling

STOPPED = "Stopped. Applied drafts stay and the others are saved: --resume continues."


@dataclass(frozen=True, slots=True)
class Selection:
    """What a command is about, with what it has to say besides."""

    items: Sequence[BatchItem]
    data: Document = field(default_factory=dict)
    blocks: Sequence[Block] = ()
    nothing: str = "Nothing to rewrite."


@dataclass(slots=True)
class Outcome:
    """What a run left behind."""

    items: tuple[BatchItem, ...] = ()
    data: Document = field(default_factory=dict)
    blocks: list[Block] = field(default_factory=list)
    failed: LcmError | None = None
    file: Path | None = None  #: where the drafts were written for review
    kept: bool = False  #: what is not decided can be gone on with


async def tell(
    run: Run,
    command: str,
    batch: Batch,
    writer: SummaryWriter,
    model: Modelling,
    rule: AcceptanceRule | None,
    outcome: Outcome,
) -> None:
    """Say what came of a batch."""
    items = outcome.items = batch.items
    committed = [item for item in items if item.state is ItemState.COMMITTED]
    undo = run.undo_of_batch(batch.id) if committed else ""
    stale = await _stale(batch, committed)
    progress = batch.progress()
    outcome.data = {
        **outcome.data,
        "applied": bool(committed) and batch.finished,
        "batch": batch.id,
        "writer": model_document(model),
        "rule": None if rule is None else rule.words,
        "usage": report.usage_document(progress.usage),
        "spent": report.spent_document(writer.meter.budget.spent),
        "counts": {state.value: progress.counts.get(state, 0) for state in ItemState},
        "undo": undo or None,
        "items": [report.outcome_document(item) for item in items],
        "stale": [{"summaryId": one.summary_id, "sources": list(one.sources)} for _, one in stale],
    }
    outcome.blocks = drafts_view.outcome_blocks(items, progress, writer.meter.budget.spent, undo)
    if stale:
        number = counted(len(stale), "summary was", "summaries were")
        owners = dict.fromkeys(owner for owner, _ in stale)
        lines = " ; ".join(f"`{run.line('rewrite', str(owner), '--stale')}`" for owner in owners)
        outcome.blocks.append(Note(f"{number} made from texts that were rewritten since: {lines}."))
    if outcome.file is not None:
        take = run.line(command, "--from-drafts", str(outcome.file), "--apply")
        words = f"Drafts are in {outcome.file}: set take to true for the drafts to apply, then `{take}`."
        outcome.blocks.append(Note(f"{words} Nothing was changed."))


async def _stale(batch: Batch, committed: Sequence[BatchItem]) -> list[tuple[int, Stale]]:
    owners = dict.fromkeys(item.conversation_id for item in committed)
    return [(owner, one) for owner in owners for one in await batch.database.read(stale_in, owner)]


def answer_of(run: Run, command: str, selection: Selection, outcome: Outcome) -> Answer:
    """The answer of a command; exit code 10 when only part of it was done.

    Raises:
        LcmError: what ended the run, when nothing at all came of it.
    """
    failed, items = outcome.failed, outcome.items
    if failed is not None and not any(item.drafts or item.state in SETTLED for item in items):
        raise failed
    kept = " The drafts are saved: --resume continues." if outcome.kept else ""
    if isinstance(failed, ProviderUnavailableError):
        failed = CancelledError(f"{failed.message}{kept}", code=failed.code, details=failed.details)
    left = sum(item.state not in SETTLED for item in items)
    if failed is None and outcome.file is None and left:
        failed = CancelledError(
            f"{left:,} of {len(items):,} summaries were not applied; the reason is listed.{kept}",
            code="BATCH_IN_PART",
        )
    if failed is None and outcome.file is not None:
        without = sum(not item.drafts for item in items)
        if without:
            failed = CancelledError(
                f"{without:,} of {len(items):,} summaries have no draft; the reason is listed.",
                code="BATCH_IN_PART",
            )
    blocks = [*selection.blocks, *outcome.blocks]
    if failed is not None:
        blocks.append(Note(failed.message))
    return run.answer(command, {**selection.data, **outcome.data}, blocks).in_part(failed)
