"""A compaction: what would be done, pass by pass, and what was done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lcm_core.errors import LcmError
from lcm_core.operations.compaction.forecast import CompactionForecast
from lcm_core.operations.compaction.run import CompactionSetting, PassDone
from lcm_core.operations.compaction.sweep import PassMade
from lcm_core.records import ConversationId
from lcm_core.wording import counted

from lcm_tui.compacting import cost_of, depth_text, span_text, step_words
from lcm_tui.views.blocks import Block, Cell, Column, Facts, Note, Prose, Table
from lcm_tui.views.preview import LINES, some
from lcm_tui.views.writer import writer_facts
from lcm_tui.writing import Modelling, cost_text


@dataclass(frozen=True, slots=True)
class ShownCompaction:
    """What would be done to a conversation, and by whom."""

    conversation_id: ConversationId
    operation: str
    setting: CompactionSetting
    forecast: CompactionForecast[Any]
    model: Modelling
    rules_chosen: bool = False  #: by option, not by the schema
    warnings: tuple[str, ...] = ()  #: each without a full stop

    @property
    def cost(self) -> float | None:
        """What it would cost in USD, when each first answer is good; None: the price is not known."""
        return cost_of(self.forecast, self.model)


def planned_compaction(shown: ShownCompaction) -> list[Block]:
    """What would be done, for people."""
    seen = shown.forecast
    if not seen.passes:
        return [Facts(_facts(shown), title="Nothing to compact"), *_notes(shown)]
    title = f"Compact conversation {shown.conversation_id}: {counted(len(seen.passes), 'pass')}"
    return [Facts(_facts(shown), title=title), _table(seen), *_notes(shown)]


def _facts(shown: ShownCompaction) -> list[tuple[str, Cell]]:
    seen, setting = shown.forecast, shown.setting
    bounds, rules = setting.bounds(), setting.rendering.rules
    rows: list[tuple[str, Cell]] = [
        (
            "Rules",
            f"of the engine {rules.name}, {'by --rules' if shown.rules_chosen else 'by the schema'}",
        ),
        (
            "Fresh tail",
            f"{counted(bounds.fresh_tail_count, 'message')} at least, "
            f"{seen.tail_tokens:,} tokens"
            + ("" if seen.tail_from is None else f", from ordinal {seen.tail_from:,}"),
        ),
        *([("Current turn", "finished tool calls too")] if setting.takes_current_turn else []),
        (
            "Compaction threshold",
            f"{rules.compaction.threshold(setting.budget):,} tokens",
        ),
    ]
    if not seen.passes:
        return [*rows, ("Tokens", f"{seen.tokens_before:,}")]
    rows += [
        (
            "Tokens",
            f"{seen.tokens_before:,} -> ~{seen.tokens_after:,}, {seen.tokens_before / setting.budget:.1%} -> "
            f"~{seen.tokens_after / setting.budget:.1%} of {setting.budget:,}",
        ),
        ("Calls", f"~{seen.calls:,}, ~{seen.input_tokens:,} tokens in, ~{seen.output_tokens:,} out"),
        ("Cost", f"~{cost_text(shown.cost)}" if shown.cost else cost_text(shown.cost)),
    ]
    return [*rows, *writer_facts(shown.model)]


def _table(seen: CompactionForecast[Any]) -> Table:
    columns = (
        Column("Pass", right=True),
        Column("Makes"),
        Column("From", grows=True),
        Column("Sources", right=True),
        Column("Tokens", right=True),
        Column("Into", right=True),
    )
    rows: list[tuple[Cell, ...]] = [
        (
            one.number,
            depth_text(one.depth),
            span_text(one.refs) if one.is_exact else f"~{span_text(one.refs)}",
            len(one.refs),
            one.source_tokens if one.is_exact else f"~{one.source_tokens}",
            f"~{one.assumed_tokens}",
        )
        for one in seen.passes[:LINES]
    ]
    return Table(columns, rows, title="Passes")


def _notes(shown: ShownCompaction) -> list[Block]:
    seen = shown.forecast
    notes: list[Block] = [Note(f"Warning: {warning}.") for warning in shown.warnings]
    if len(seen.passes) > LINES:
        notes.append(Note(f"{len(seen.passes) - LINES:,} more passes; --json lists all."))
    if any(not one.is_exact for one in seen.passes):
        notes.append(
            Note("~ marks estimates: what later passes condense depends on the length of earlier drafts.")
        )
    if getattr(seen.result, "stopped_at_bound", False):
        notes.append(
            Note("A sweep stops at its maximum number of passes; run the same command again to continue.")
        )
    if seen.damaged:
        notes.append(
            Note(
                f"Warning: {counted(seen.damaged, 'item')} of this context refer to a row that is "
                "missing, duplicate, or of another conversation; compaction skips them: see `lcm-tui doctor`."
            )
        )
    return notes


def done_compaction(
    steps: Sequence[PassDone], undo: str, failed: LcmError | None, *, told: bool = False
) -> list[Block]:
    """What was done, for people; *told*: they saw each pass when it had been made."""
    made = [step for step in steps if isinstance(step.outcome, PassMade)]
    saved = sum(step.outcome.saved for step in steps if isinstance(step.outcome, PassMade))
    costs = [step.draft.text.usage.cost_usd for step in made if step.draft]
    cost = None if None in costs else sum(one for one in costs if one is not None)
    facts: list[tuple[str, Cell]] = [
        ("Passes", counted(len(made), "summary was made", "summaries were made")),
        ("Tokens in context", f"{-saved:+,}"),
        ("Cost", cost_text(cost)),
    ]
    if made:
        facts.append(("To undo", undo))
    lines = [step_words(number, step) for number, step in enumerate(steps, 1)]
    blocks: list[Block] = [Facts(facts, title="Compacted" if failed is None else "Compacted in part")]
    if lines and not told:
        blocks.append(Prose("\n".join(some(lines)), title="Passes"))
    if failed is not None:
        blocks.append(Note(failed.message))
    return blocks
