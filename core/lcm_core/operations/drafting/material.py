"""What a new text of a summary is made from, read in one short transaction; nothing is held afterwards."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from lcm_core.dag.markers import BrokenKind, classify
from lcm_core.dag.previous import NOTHING, PreviousChoice
from lcm_core.records import Summary, SummaryId, SummaryText
from lcm_core.store import summaries as summary_store
from lcm_core.store.database import Reader
from lcm_core.summarize.escalate import target_tokens
from lcm_core.summarize.request import SummaryRequest
from lcm_core.summarize.source import Rendering, SummarySource, condensed_source, previous_of, source_of
from lcm_core.tokens import estimate

#: Texts that sources are taken to have: drafts that are not committed yet.
Overrides = Mapping[SummaryId, str]
NO_OVERRIDES: Final[Overrides] = {}


@dataclass(frozen=True, slots=True)
class Setting:
    """How summaries of one database are drafted."""

    rendering: Rendering
    previous: bool = True  #: give leaves their previous context


@dataclass(frozen=True, slots=True)
class Base:
    """What stood in the database when a draft was made; it is committed only over this."""

    content: str
    source_digest: str  #: of what the summary is made from


@dataclass(frozen=True, slots=True)
class Material:
    """A summary with all that a new text of it is made from."""

    summary: Summary
    base: Base
    broken: BrokenKind | None  #: what is wrong with the present text
    source: SummarySource
    previous: PreviousChoice  #: never a later summary, never a broken one; empty where none is given

    @property
    def depth(self) -> int:
        """The depth that the prompt is chosen by: 0 for messages."""
        return max(self.summary.depth, 1) if self.source.summaries else 0

    def is_source_of(self, base: Base) -> bool:
        """Whether what a draft was made from, by its *base*, is still what the summary is made from."""
        return base.source_digest in (self.base.source_digest, earlier_digest_of(self.source))

    @property
    def broken_sources(self) -> tuple[SummaryId, ...]:
        """Its sources that are no summaries: what those lack, no text made from them can hold."""
        return tuple(
            one.summary.summary_id
            for one in self.source.summaries
            if classify(one.content, one.summary.model) is not None
        )


async def read_material(
    reader: Reader,
    summary_id: SummaryId,
    rendering: Rendering,
    *,
    overrides: Overrides = NO_OVERRIDES,
    with_previous: bool = False,
) -> Material:
    """What a new text of a summary is made from.

    Raises:
        NotFoundError: no summary has this id.
    """
    text = await summary_store.get_summary(reader, summary_id)
    source = overridden(await source_of(reader, summary_id, rendering), overrides, rendering)
    previous = NOTHING
    if with_previous:
        found = await previous_of(reader, summary_id, rendering.rules)
        previous = found.for_rewrite if found.applies else NOTHING
    summary = text.summary
    return Material(
        summary,
        Base(text.content, digest_of(source)),
        classify(text.content, summary.model),
        source,
        previous,
    )


def overridden(source: SummarySource, overrides: Overrides, rendering: Rendering) -> SummarySource:
    """A source as it will be once some drafts have been committed."""
    if not any(one.summary.summary_id in overrides for one in source.summaries):
        return source
    summaries = tuple(
        SummaryText(one.summary, overrides.get(one.summary.summary_id, one.content))
        for one in source.summaries
    )
    text = condensed_source(summaries, rendering.rules.source, rendering.zone)
    return replace(source, text=text, summaries=summaries)


def digest_of(source: SummarySource) -> str:
    """Another one when what a summary is made from has changed, whatever the time zone."""
    return _digest(_pieces(source, whole=True), size=20)


def earlier_digest_of(source: SummarySource) -> str:
    """The digest that drafts of version 0.1 carry: it knows messages and parts by their texts alone."""
    return _digest(_pieces(source, whole=False), size=16)


def _digest(pieces: Iterable[str], size: int) -> str:
    made = hashlib.blake2b(digest_size=size)
    for piece in pieces:
        raw = piece.encode("utf-8", "surrogatepass")
        made.update(len(raw).to_bytes(8) + raw)
    return made.hexdigest()


def _pieces(source: SummarySource, *, whole: bool) -> Iterator[str]:
    for one in source.messages:
        yield from (str(one.message.message_id), one.message.content)
        if whole:
            yield from (one.message.role or "", one.message.sender or "", str(one.message.created_at))
        for part in one.parts:
            texts: Iterable[str | None] = (part.text, part.tool_input, part.tool_output, part.tool_error)
            yield from (text or "" for text in texts)
            if whole:
                more = (part.part_type, part.tool_call_id, part.tool_name, part.metadata)
                yield from (text or "" for text in more)
    for summary in source.summaries:
        yield from (summary.summary.summary_id, summary.content)
    yield from map(str, source.gone)


def request_for(material: Material, setting: Setting, *, aggressive: bool = False) -> SummaryRequest:
    """What a model is asked for a new text.

    The engine asks the same size of every condensed summary, also when its sources are smaller than that; a
    rewrite is never asked for more than there is.
    """
    rules = setting.rendering.rules
    size = estimate(material.source.text, rules.estimator)
    target = target_tokens(material.depth, size, aggressive=aggressive, rules=rules)
    return SummaryRequest(
        text=material.source.text,
        aggressive=aggressive,
        depth=material.depth,
        target_tokens=min(target, max(size - 1, 1)) if material.depth > 0 else target,
        previous=material.previous.text or None,
        instructions=rules.escalation.custom_instructions,
        estimator=rules.estimator,
    )
