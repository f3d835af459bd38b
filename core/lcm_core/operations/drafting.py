"""Drafting: which summaries of a batch get another text, and how the draft of one is made and judged."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, tzinfo
from enum import StrEnum
from functools import lru_cache
from typing import Final

from lcm_core.base.engine_settings import EngineSettings
from lcm_core.base.records import ConversationId, MessageId, Summary, SummaryId, SummaryText
from lcm_core.base.times import iso_z, sort_key
from lcm_core.base.tokens import Estimator, estimate
from lcm_core.base.values import Record, field, replace
from lcm_core.change.guard import check_whole
from lcm_core.engine.graph import SummaryGraph
from lcm_core.engine.markers import BadKind, broken_kind
from lcm_core.engine.previous import NOTHING, PreviousChoice
from lcm_core.engine.rules import configured, engine_rules
from lcm_core.operations.rows import no_such_summary
from lcm_core.store import summaries as summary_store
from lcm_core.store.database import Reader
from lcm_core.store.schema import Schema
from lcm_core.writers.acceptance import (
    DraftVerdict,
    fallback,
    judge,
    target_tokens,
    without_wrapping,
)
from lcm_core.writers.request import MANUAL, Summarizer, SummaryReply, SummaryRequest, Usage, storable
from lcm_core.writers.retention import Retention, RetentionSource, measure, read_retention_source
from lcm_core.writers.source import (
    Rendering,
    SummarySource,
    condensed_source,
    previous_of,
    source_of,
    source_of_messages,
)

# -- what a draft is made from ---------------------------------------------------------------------------
# What is read is read in one short transaction, and nothing is held afterwards. There are up to three
# drafts: a normal answer, an aggressive one, and the deterministic cut, which nothing commits by itself.

#: Texts that sources are taken to have: drafts that are not committed yet.
Overrides = Mapping[SummaryId, str]
NO_OVERRIDES: Final[Overrides] = {}


class DraftSetting(Record, frozen=True):
    """How summaries of one database are drafted."""

    rendering: Rendering
    previous: bool = True  #: give leaves their previous context


def draft_setting(
    schema: Schema,
    engine: EngineSettings,
    zone: tzinfo | None,
    *,
    rules: str | None = None,
    previous: bool = True,
) -> DraftSetting:
    """How summaries of a database of this schema are drafted.

    *zone* is that of times in source texts, None this machine's; *rules* are those of an engine by name, None
    of the one that left the schema.
    """
    return DraftSetting(Rendering(configured(engine_rules(schema, rules), engine), zone), previous)


class DraftBase(Record, frozen=True):
    """What was in the database when a draft was made; it is committed only over this."""

    content: str
    source_digest: str  #: of what the summary is made from


class Material(Record, frozen=True):
    """A summary with all that a new text of it is made from."""

    summary: Summary
    base: DraftBase
    broken: BadKind | None  #: what is wrong with the present text
    source: SummarySource
    previous: PreviousChoice  #: never a later summary, never a broken one; empty where none is given
    broken_sources: tuple[SummaryId, ...]  #: what those lack, no text made from them can hold

    @property
    def depth(self) -> int:
        """The depth that the prompt is chosen by: 0 for messages."""
        return max(self.summary.depth, 1) if self.source.summaries else 0

    def is_source_of(self, base: DraftBase) -> bool:
        """Whether what a draft was made from, by its *base*, is still what the summary is made from."""
        return base.source_digest in (self.base.source_digest, earlier_digest_of(self.source))


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
        DatabaseError: the file lacks tables without which no text can be changed.
    """
    check_whole(reader.schema)
    text = await summary_store.get_summary(reader, summary_id)
    source = overridden(await source_of(reader, summary_id, rendering), overrides, rendering)
    previous = NOTHING
    if with_previous:
        found = await previous_of(reader, summary_id, rendering.rules)
        previous = found.for_rewrite if found.applies else NOTHING
    summary = text.summary
    stored = [one.summary.summary_id for one in source.summaries if one.summary.summary_id not in overrides]
    broken = await summary_store.broken_among(reader, [summary.summary_id, *stored])
    return Material(
        summary,
        DraftBase(text.content, digest_of(source)),
        broken.get(summary_id),
        source,
        previous,
        tuple(
            key
            for one in source.summaries
            if (key := one.summary.summary_id) in broken
            or (key in overrides and broken_kind(one.content, one.summary.model) is not None)
        ),
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


def request_for(material: Material, setting: DraftSetting, *, aggressive: bool = False) -> SummaryRequest:
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


# -- drafts ---------------------------------------------------------------------------------------------


#: What it records for a cut of the source.
CUT: Final = "unknown"


class DraftOrigin(StrEnum):
    """Where a draft comes from."""

    NORMAL = "normal"
    AGGRESSIVE = "aggressive"
    FALLBACK = "fallback"  #: no model made it: a cut of the source with the engine's marker
    MANUAL = "manual"  #: a person wrote it, or took parts of it


class Draft(DraftVerdict, frozen=True):
    """One proposed text of a summary, with what was found of it."""

    number: int  #: from 1, within its summary
    origin: DraftOrigin
    text: str
    model: str  #: what ``summaries.model`` would record
    source_tokens: int
    target_tokens: int
    usage: Usage
    replaced: str = field(name="base")  #: what was in the database
    source_digest: str
    made_at: str  #: UTC, ISO
    previous: tuple[str, ...] = ()  #: summaries whose texts were given, so as not to be repeated
    gone: int = 0  #: sources that are not there any more: nothing in it can cover them
    summary_id: SummaryId = SummaryId("")  #: in JSON that of its item

    @property
    def base(self) -> DraftBase:
        """What it is committed over."""
        return DraftBase(self.replaced, self.source_digest)

    @property
    def may_be_taken(self) -> bool:
        """Whether a rule may accept it; a person may take any by its number."""
        return self.accepted and self.origin is not DraftOrigin.FALLBACK


async def draft_summary(
    summarizer: Summarizer,
    material: Material,
    setting: DraftSetting,
    *,
    first: int = 1,
    keep: Callable[[Draft], None] = lambda draft: None,
) -> tuple[Draft, ...]:
    """Ask for a new text, and ask again for a shorter one when the answer is rejected.

    No lock is held and no transaction is open. *keep* gets each draft at once, so that what was paid for is
    not lost when the next call fails. When neither answer is accepted, the deterministic cut of the source is
    added: shown, never taken by itself. *first* is the number of the first draft.

    Raises:
        ProviderAuthError: the key was refused.
        HopelessError: the provider answers no one for now.
        SummarizerError: no answer came back; drafts that *keep* got stay.
    """
    made: list[Draft] = []

    def add(draft: Draft) -> Draft:
        made.append(draft)
        keep(draft)
        return draft

    for origin in (DraftOrigin.NORMAL, DraftOrigin.AGGRESSIVE):
        request = request_for(material, setting, aggressive=origin is DraftOrigin.AGGRESSIVE)
        reply = await summarizer(request)
        draft = await asyncio.to_thread(_answered, material, request, reply, origin, first + len(made))
        if add(draft).may_be_taken:
            return tuple(made)
    add(cut_draft(material, setting, first + len(made)))
    return tuple(made)


def _answered(
    material: Material, request: SummaryRequest, reply: SummaryReply, origin: DraftOrigin, number: int
) -> Draft:
    """A model's answer as a draft, without what it put around the summary."""
    text = without_wrapping(storable(reply.text))
    cleaned = SummaryReply(text, reply.model, reply.finished, reply.stop_reason, reply.usage)
    return _draft(material, request, origin, number, cleaned)


def cut_draft(material: Material, setting: DraftSetting, number: int) -> Draft:
    """The engine's deterministic cut of the source (docs/spec/texts.md, "Fallback")."""
    request = request_for(material, setting, aggressive=True)
    text = fallback(request.text, setting.rendering.rules)
    return _draft(material, request, DraftOrigin.FALLBACK, number, SummaryReply(text, CUT))


def manual_draft(material: Material, setting: DraftSetting, text: str, number: int) -> Draft:
    """A text that a person wrote, judged as a model's is."""
    request = request_for(material, setting)
    return _draft(material, request, DraftOrigin.MANUAL, number, SummaryReply(storable(text), MANUAL))


def _draft(
    material: Material, request: SummaryRequest, origin: DraftOrigin, number: int, reply: SummaryReply
) -> Draft:
    verdict = judge(reply, request)
    return Draft(
        verdict.tokens,
        verdict.faults,
        verdict.cautions,
        verdict.sentences,
        number=number,
        summary_id=material.summary.summary_id,
        origin=origin,
        text=reply.as_came,
        model=reply.model,
        source_tokens=estimate(request.text, request.estimator),
        target_tokens=request.target_tokens,
        usage=reply.usage,
        replaced=material.base.content,
        source_digest=material.base.source_digest,
        made_at=iso_z(datetime.now(UTC)),
        previous=tuple(node.summary_id for node in material.previous.nodes),
        gone=len(material.source.gone),
    )


async def retention_of(
    material: Material, text: str, setting: DraftSetting, source: str | None = None
) -> Retention:
    """What a text keeps of its source, loses and invents; worked out off the event loop.

    *source* is held against it in place of the text that the summary is made from.
    """
    against = material.source.text if source is None else source
    previous, estimator = material.previous.text, setting.rendering.rules.estimator
    return await asyncio.to_thread(_kept, against, previous, estimator, text)


@lru_cache(maxsize=4)  # while a draft is edited, the present text stays, and so do two sources
def _kept(source: str, previous: str, estimator: Estimator, text: str) -> Retention:
    return measure(_read_source(source, previous, estimator), text)


@lru_cache(maxsize=2)
def _read_source(source: str, previous: str, estimator: Estimator) -> RetentionSource:
    return read_retention_source(source, previous=previous, estimator=estimator)


async def messages_below(reader: Reader, material: Material, setting: DraftSetting) -> str | None:
    """The messages below a condensed summary as a source text; None: a leaf, or there are too many."""
    if not material.source.summaries:
        return None
    return await text_below(reader, material.summary, setting.rendering)


# -- the messages below a condensed summary -------------------------------------------------------------


#: More than that is not measured: reading it takes a second of the processor.
MOST_TOKENS: Final = 100_000
MOST_MESSAGES: Final = 3_000


async def text_below(reader: Reader, summary: Summary, rendering: Rendering) -> str | None:
    """The messages below a condensed summary as one source text, each once; None: there are too many.

    Empty when none is left. A condensed summary may look complete against its direct sources while those
    had lost most of it; what is lost level by level shows only here (docs/spec/decisions.md, "Drafts").
    """
    if (summary.source_message_tokens or 0) > MOST_TOKENS:
        return None
    graph = await summary_store.load_graph(reader, summary.conversation_id)
    ids: dict[MessageId, None] = {}
    for one in graph.bottom_up(summary.summary_id):
        for message_id in await summary_store.source_message_ids(reader, one):
            ids[MessageId(message_id)] = None
        if len(ids) > MOST_MESSAGES:
            return None
    text = (await source_of_messages(reader, sorted(ids), rendering)).text
    return text if estimate(text, rendering.rules.estimator) <= MOST_TOKENS else None


# -- items of a batch ------------------------------------------------------------------------------------
# Summaries that are to get another text, and their progress.


class ItemState(StrEnum):
    """How far an item has come; the value is the word to show."""

    WAITING = "waiting"  #: for a call that is free, or for its sources
    DRAFTING = "drafting"
    REVIEW = "review"  #: there are drafts, and somebody has to decide
    COMMITTED = "committed"
    SKIPPED = "skipped"  #: somebody decided to leave it as it is
    FAILED = "failed"  #: no draft, and why


#: States that an item does not leave by itself.
SETTLED: Final = frozenset({ItemState.COMMITTED, ItemState.SKIPPED})


class BatchItem(Record, frozen=True):
    """A summary in a batch. A value: the batch holds the newest one of each."""

    summary_id: SummaryId
    conversation_id: ConversationId
    depth: int
    tokens: int  #: of the text that was there when the batch was made
    reason: str = ""  #: why it is in the batch: ``truncated``, ``contaminated`` ...
    after: tuple[SummaryId, ...] = ()  #: its sources in the batch: they come first
    state: ItemState = ItemState.WAITING
    why: str = ""  #: one sentence: why it failed, was skipped, is not accepted, or waits
    drafts: tuple[Draft, ...] = ()  #: in the order in which they were made; none is ever thrown away
    chosen: int | None = None  #: number of the draft that is proposed, or was committed
    theirs: str | None = None  #: what is there now, where it changed since the draft (three-way)
    operation: str | None = None  #: of the history, once it is committed

    @property
    def draft(self) -> Draft | None:
        """The draft that is proposed, or was committed; None: none is accepted, one has to be chosen."""
        return None if self.chosen is None else self.numbered(self.chosen)

    @property
    def draft_in_sight(self) -> Draft | None:
        """The proposed draft, or the last that there is."""
        return self.draft or (self.drafts[-1] if self.drafts else None)

    @property
    def to_judge(self) -> Draft | None:
        """The proposed draft, while it is to be reviewed and a rule may accept it."""
        draft = self.draft if self.state is ItemState.REVIEW else None
        return draft if draft is not None and draft.may_be_taken else None

    def numbered(self, number: int) -> Draft | None:
        """One of its drafts."""
        return next((one for one in self.drafts if one.number == number), None)

    @property
    def usage(self) -> Usage:
        """What its drafts cost."""
        return sum((one.usage for one in self.drafts), Usage(cost_usd=0.0))


class BatchProgress(Record, frozen=True):
    """How far a batch has come."""

    total: int
    counts: Mapping[ItemState, int]
    drafted: int  #: in this run
    seconds: float  #: of this run
    in_flight: int
    usage: Usage  #: of all drafts of the batch, those of earlier runs too

    @property
    def done(self) -> int:
        """Items that need no call any more."""
        return self.total - self.counts.get(ItemState.WAITING, 0) - self.in_flight

    @property
    def per_minute(self) -> float | None:
        """Items drafted in a minute; None until one was."""
        return self.drafted * 60 / self.seconds if self.drafted and self.seconds > 0 else None

    @property
    def remaining(self) -> float | None:
        """Seconds until all are drafted, by the rate so far; None: not known."""
        rate = self.per_minute
        return (self.total - self.done) * 60 / rate if rate else None


def ready(items: Mapping[SummaryId, BatchItem], *, ahead: bool) -> list[BatchItem]:
    """The waiting items whose sources in the batch are settled; *ahead*: a draft of them will do."""
    waiting = (item for item in items.values() if item.state is ItemState.WAITING)
    return [item for item in waiting if is_ready(item, items, ahead=ahead)]


def is_ready(item: BatchItem, items: Mapping[SummaryId, BatchItem], *, ahead: bool = False) -> bool:
    """Whether its sources among *items* are settled; *ahead*: a draft of them will do."""
    enough = SETTLED | ({ItemState.REVIEW, ItemState.FAILED} if ahead else frozenset())
    return all(one not in items or items[one].state in enough for one in item.after)


def by_id(items: Iterable[BatchItem]) -> dict[SummaryId, BatchItem]:
    """Items by id, in their order, each summary once."""
    found: dict[SummaryId, BatchItem] = {}
    for item in items:
        found.setdefault(item.summary_id, item)
    return found


def interrupted(item: BatchItem) -> BatchItem:
    """An item whose drafting was broken off, or failed: it waits, or is decided when it was paid for."""
    if item.state not in (ItemState.DRAFTING, ItemState.FAILED):
        return item
    drafted = next((one.number for one in reversed(item.drafts) if one.may_be_taken), None)
    if drafted is not None:
        return replace(item, state=ItemState.REVIEW, chosen=drafted, why="")
    return replace(item, state=ItemState.WAITING, why="")


# -- which summaries, sources before their consumers ----------------------------------------------------


async def select_items(
    reader: Reader,
    conversation_id: ConversationId,
    *,
    summary_ids: Sequence[SummaryId] = (),
    depth: int | None = None,
    subtree: bool = False,
) -> list[BatchItem]:
    """The summaries that are to be rewritten: some, those of a depth, or all; *subtree*: with all below them.

    Raises:
        NotFoundError: the conversation has no such summary.
    """
    graph = await summary_store.load_graph(reader, conversation_id)
    for one in summary_ids:
        if one not in graph.nodes:
            raise no_such_summary(conversation_id, one)
    wanted: Collection[SummaryId] = summary_ids or [
        one for one, node in graph.nodes.items() if depth is None or node.depth == depth
    ]
    if subtree:
        wanted = [one for one in graph.bottom_up(*wanted) if one in graph.nodes]
    rows = {one.summary_id: one for one in await summary_store.summaries_in(reader, set(wanted))}
    ids = sources_first(graph, [one for one in wanted if one in rows], rows)
    return make_items(graph, ids, rows, dict.fromkeys(ids, ""))


def sources_first(
    graph: SummaryGraph, wanted: Iterable[SummaryId], rows: Mapping[SummaryId, Summary]
) -> list[SummaryId]:
    """Leaves as in the context, others, the rest by depth and time (docs/spec/decisions.md, "Drafts")."""
    place = {one: at for at, one in reversed(list(enumerate(graph.in_context)))}

    def key(one: SummaryId) -> tuple[int, int, datetime, str]:
        row = rows[one]
        leaf = row.kind == "leaf"
        return (
            0 if leaf else max(row.depth, 1),
            place.get(one, len(place)) if leaf else 0,
            sort_key(row.created_at),
            one,
        )

    return sorted(dict.fromkeys(wanted), key=key)


def make_items(
    graph: SummaryGraph,
    ids: Sequence[SummaryId],
    rows: Mapping[SummaryId, Summary],
    reasons: Mapping[SummaryId, str],
) -> list[BatchItem]:
    """Items for some summaries, each behind those of its sources that are among them."""
    place = {one: at for at, one in enumerate(ids)}
    return [
        BatchItem(
            one,
            rows[one].conversation_id,
            rows[one].depth,
            rows[one].tokens,
            reasons[one],
            # On a cycle only those before it: the others would wait for each other.
            tuple(
                source for source in graph.sources.get(one, ()) if place.get(source, len(ids)) < place[one]
            ),
        )
        for one in ids
    ]
