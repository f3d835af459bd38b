"""Drafts: what would be asked, what came of it, what is to be decided."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lcm_core.dag.previous import PreviousChoice
from lcm_core.diff import compare_texts, unified_text
from lcm_core.operations.drafting.draft import Draft, DraftOrigin, Material
from lcm_core.operations.drafting.items import BatchItem, BatchProgress, ItemState
from lcm_core.records import SummaryId
from lcm_core.summarize.acceptance import DraftFault, reversal_sentence
from lcm_core.summarize.cost import CallLoad, Forecast, Spent, total_forecast
from lcm_core.summarize.prompts import SummaryPrompt
from lcm_core.summarize.request import SummaryRequest, Usage
from lcm_core.summarize.retention import Retention
from lcm_core.summarize.rulebook import Checked
from lcm_core.wording import counted, some

from lcm_tui.views.blocks import Block, Cell, Column, Facts, Note, Prose, Table
from lcm_tui.views.units import seconds_text
from lcm_tui.views.writer import writer_facts
from lcm_tui.writing import Modelling, cost_text, most_text, spent_text

#: Rows of a table for people; the whole of it is in the JSON.
MOST = 200


@dataclass(frozen=True, slots=True)
class DraftForecast:
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


def spent_words(spent: Spent) -> str:
    """What a batch has taken in all its runs."""
    return f"Spent on this batch so far: {counted(spent.calls, 'call')}, {cost_words(spent.usage)}."


def draft_forecast_blocks(
    seen: Sequence[DraftForecast], most: CallLoad, model: Modelling, words: str
) -> list[Block]:
    """What would be asked, of whom, and what it would cost; *most* is all of it, as far as limits let it."""
    once = total_forecast(one.forecast for one in seen).once
    columns = (
        Column("Summary"),
        Column("Conv", right=True, spare=2),
        Column("Depth", right=True),
        Column("Why"),
        Column("Now", right=True),
        Column("Target", right=True),
        Column("Source", right=True),
        Column("Previous context", grows=True, spare=1),
    )
    rows = [_forecast_row(one) for one in seen[:MOST]]
    facts = [*writer_facts(model), *_cost_facts(once, most), ("Accepted by rule", words)]
    blocks: list[Block] = [Table(columns, rows), Facts(facts)]
    if len(seen) > MOST:
        blocks.append(Note(f"{len(seen) - MOST:,} more are not shown; --json shows them all."))
    lost = [one.item.summary_id for one in seen if one.material.source.gone]
    if lost:
        blocks.append(Note(f"Sources of {', '.join(lost[:3])} are missing: no draft can cover them."))
    spoilt = [one for one in seen if one.broken_sources]
    if spoilt:
        sources = list(dict.fromkeys(source for one in spoilt for source in one.broken_sources))
        named = ", ".join(sources[:3]) + (f" and {len(sources) - 3:,} more" if len(sources) > 3 else "")
        made = "1 of these is" if len(spoilt) == 1 else f"{len(spoilt):,} of these are"
        blocks.append(
            Note(f"{made} made from broken summaries ({named}): repair those first, or the gap remains.")
        )
    for one in seen:
        if one.prompt is not None:
            blocks.append(Prose(one.prompt.system, title=f"{one.item.summary_id}: system"))
            blocks.append(Prose(one.prompt.user, title=f"{one.item.summary_id}: request"))
    return blocks


def _cost_facts(once: CallLoad, most: CallLoad) -> list[tuple[str, Cell]]:
    """What it takes, and at most; nothing to say where nobody is asked."""
    if not once.calls:
        return [("Cost", "nothing")]
    cost = f"~{cost_text(once.cost_usd)}" if once.cost_usd else cost_text(once.cost_usd)
    return [
        ("Calls", f"{once.calls:,}; at most {most.calls:,}, including retries and second answers"),
        ("Sent", f"~{once.input_tokens:,} tokens; at most {most.input_tokens:,}"),
        ("Answers", f"up to {once.output_tokens:,} tokens; at most {most.output_tokens:,}"),
        ("Cost", f"{cost} if every first answer is accepted"),
        ("Cost at most", most_text(most.cost_usd)),
    ]


def _forecast_row(one: DraftForecast) -> Sequence[Cell]:
    item = one.item
    return (
        item.summary_id,
        item.conversation_id,
        item.depth,
        item.reason or None,
        f"{item.tokens:,}",
        f"{one.request.target_tokens:,}",
        f"{one.source_tokens:,}",
        _previous_words(one.material.previous),
    )


def _previous_words(previous: PreviousChoice) -> str | None:
    skipped = [one.summary_id for one in previous.passed_over if "broken" in one.reason]
    words = ", ".join(node.summary_id for node in previous.nodes)
    if skipped:
        words += f"{' ' if words else ''}(not {', '.join(skipped[:2])}: broken)"
    return words or None


def outcome_blocks(
    items: Sequence[BatchItem], progress: BatchProgress, spent: Spent, undo: str
) -> list[Block]:
    """What came of a batch, and what all its calls took, those without a draft too."""
    columns = (
        Column("Summary"),
        Column("Depth", right=True),
        Column("State"),
        Column("Tokens", right=True),
        Column("Model", spare=1),
        Column("Operation", spare=2),
        Column("Why", grows=True),
    )
    rows: list[Sequence[Cell]] = []
    for item in items[:MOST]:
        draft = item.draft
        tokens = f"{item.tokens:,}" if draft is None else f"{item.tokens:,} → {draft.tokens:,}"
        model = None if draft is None else draft.model
        rows.append(
            (item.summary_id, item.depth, item.state.value, tokens, model, item.operation, item.why or None)
        )
    counts = ", ".join(
        f"{progress.counts[state]:,} {state}" for state in ItemState if progress.counts.get(state)
    )
    facts: list[tuple[str, Cell]] = [
        ("Summaries", counts),
        ("Cost of the drafts", cost_words(progress.usage)),
        ("Total cost", f"{counted(spent.calls, 'call')}, {cost_words(spent.usage)}"),
    ]
    if undo:
        facts.append(("To undo all of it", undo))
    return [Table(columns, rows), Facts(facts), *_three_way_blocks(items)]


def _three_way_blocks(items: Sequence[BatchItem]) -> Iterator[Block]:
    """What became of the text that a draft was made over: there, and in the draft."""
    for item in items[:MOST]:
        if item.theirs is not None and item.draft is not None:
            base = item.draft.base.content
            for words, text in (
                ("what changed since it was drafted", item.theirs),
                ("what the draft would change", item.draft.text),
            ):
                yield Prose(
                    "\n".join(unified_text(compare_texts(base, text))), title=f"{item.summary_id}: {words}"
                )


def taken_blocks(items: Sequence[BatchItem]) -> list[Block]:
    """What would be taken from a file of drafts."""
    columns = (
        Column("Summary"),
        Column("Depth", right=True),
        Column("Tokens", right=True),
        Column("Model"),
        Column("Found", grows=True),
    )
    rows: list[Sequence[Cell]] = []
    for item in items[:MOST]:
        if item.draft is not None:
            tokens = f"{item.tokens:,} → {item.draft.tokens:,}"
            found = " ".join(item.draft.verdict.sentences) or None
            rows.append((item.summary_id, item.depth, tokens, item.draft.model, found))
    return [Table(columns, rows)]


def cost_words(usage: Usage) -> str:
    """What was spent, for people."""
    tokens = f"{usage.input_tokens:,} tokens in, {usage.output_tokens:,} out"
    cost = spent_text(usage)
    return f"{cost} ({tokens})" if usage.input_tokens else cost


def progress_line(progress: BatchProgress, spent: Spent) -> str:
    """How far a batch has come and what it took, on one line."""
    words = f"{progress.done:,} of {progress.total:,} drafted, {progress.in_flight} in flight"
    if progress.per_minute is not None:
        words += f", {progress.per_minute:.0f}/min"
    if progress.remaining:
        words += f", about {seconds_text(progress.remaining)} left"
    if spent.usage.cost_usd:
        words += f", {spent_text(spent.usage)}"
    return words


def draft_blocks(
    item: BatchItem, draft: Draft, material: Material, kept: Retention, below: Retention | None
) -> list[Block]:
    """A draft to decide on: what changes, what was found, what it keeps, also of the messages *below*."""
    title = (
        f"{item.summary_id} (depth {item.depth}): {item.tokens:,} to {draft.tokens:,} tokens by {draft.model}"
    )
    changed = "\n".join(unified_text(compare_texts(material.base.content, draft.text)))
    blocks: list[Block] = [Prose(changed, title=title)]
    if draft.origin is DraftOrigin.FALLBACK:
        blocks.append(Note("This is the truncated source: every answer was rejected."))
    blocks += [Note(sentence) for sentence in draft.verdict.sentences]
    if kept.reversed and DraftFault.REVERSED not in draft.verdict.faults:
        blocks.append(Note(reversal_sentence(kept.reversed)))
    of_messages = [] if below is None else [("and of the messages below", _share(below))]
    blocks.append(
        Facts(
            [
                ("Kept of what matters most", _share(kept)),
                *of_messages,
                ("Invented", some([one.text for one in kept.invented], 6) or "nothing"),
                ("Rules", _rules(kept)),
                ("Lost", some([one.text for one in kept.lost], 6) or "nothing"),
            ]
        )
    )
    return blocks


def _share(kept: Retention) -> str:
    return "nothing to keep" if kept.share is None else f"{kept.share * 100:.0f} %"


def _rules(kept: Retention) -> str:
    """How many came through, and the ones that did not."""
    checked = kept.rules_checked
    if checked is Checked.NONE:
        return checked.words
    said = f"{kept.constraints_kept:,} of {kept.constraints:,} kept"
    said += f" ({checked.words})" if checked.words else ""
    if kept.reversed:
        said += f"; reversed: {some([f'{one.rule.text} ({one.words})' for one in kept.reversed], 6)}"
    if kept.constraints_lost:
        said += f"; lost: {some([one.text for one in kept.constraints_lost], 6)}"
    return said
