"""Reads what a summary is made from and renders it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import tzinfo

from lcm_core.dag.previous import PreviousContext, PreviousRules
from lcm_core.engine_rules import EngineRules, engine_rules
from lcm_core.javascript import trimmed
from lcm_core.records import MessageId, SummaryId, SummaryText
from lcm_core.store import summaries as summary_store
from lcm_core.store.database import Reader
from lcm_core.store.previous import previous_context
from lcm_core.store.standing import whole_messages
from lcm_core.summarize.source import SourceMessage, condensed_source, leaf_source, said_by


@dataclass(frozen=True, slots=True)
class Rendering:
    """How source texts are rendered: by the rules of a file as configured, in the operator's time zone."""

    rules: EngineRules
    zone: tzinfo | None = None  #: None: that of this machine


@dataclass(frozen=True, slots=True)
class Source:
    """What a summary is made from: messages, or summaries, and the text of them."""

    text: str  #: empty when they say nothing
    messages: tuple[SourceMessage, ...] = ()
    summaries: tuple[SummaryText, ...] = ()
    gone: tuple[int | str, ...] = ()  #: ids whose rows are not there any more


async def source_of_messages(
    reader: Reader, message_ids: Sequence[MessageId], rendering: Rendering
) -> Source:
    """The source of a leaf that is made from some messages, in their order."""
    messages = tuple(SourceMessage(*one) for one in await whole_messages(reader, message_ids))
    present = {one.message.message_id for one in messages}
    text = leaf_source(messages, rendering.rules.source, rendering.zone)
    return Source(text, messages=messages, gone=tuple(one for one in message_ids if one not in present))


async def source_of_summaries(
    reader: Reader, summary_ids: Sequence[SummaryId], rendering: Rendering
) -> Source:
    """The source of a condensed summary that is made from some summaries, in their order."""
    summaries = tuple(await summary_store.texts_of(reader, summary_ids))
    present = {one.summary.summary_id for one in summaries}
    text = condensed_source(summaries, rendering.rules.source, rendering.zone)
    return Source(text, summaries=summaries, gone=tuple(one for one in summary_ids if one not in present))


async def source_of(reader: Reader, summary_id: SummaryId, rendering: Rendering) -> Source:
    """The true sources of a summary that is there, by its links.

    Raises:
        NotFoundError: no summary has this id.
    """
    summary = (await summary_store.get_summary(reader, summary_id)).summary
    if summary.kind == "condensed":
        edges = await summary_store.sources_of(reader, summary_id)
        return await source_of_summaries(reader, [edge.source for edge in edges], rendering)
    ids = await summary_store.source_message_ids(reader, summary_id)
    return await source_of_messages(reader, [MessageId(one) for one in ids], rendering)


def previous_rules(rules: EngineRules) -> PreviousRules:
    """How an engine reads the summaries that stand before a leaf, and which of them it passes over."""

    def reading(summary: str) -> str:
        return trimmed(said_by(summary, rules.source))

    return PreviousRules(reading, rules.compaction.meaningful_fanout, rules.compaction.sweeps_only)


async def previous_of(reader: Reader, summary_id: str, rules: EngineRules | None = None) -> PreviousContext:
    """The previous context of a summary, by *rules* or those of the engine that left the file.

    Raises:
        NotFoundError: no summary has this id.
    """
    rules = engine_rules(reader.schema) if rules is None else rules
    return await previous_context(reader, summary_id, previous_rules(rules))
