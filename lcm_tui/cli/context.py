"""``context show``: what the model sees of a conversation, in order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from lcm_core.assemble.elements import FocusOverlay
from lcm_core.context_items import ContextItems
from lcm_core.context_view import Found, Totals, findings_at, gap_text, totals_from
from lcm_core.engine_rules import TailRules
from lcm_core.fresh_tail import FreshTail, fresh_tail
from lcm_core.records import Conversation, ConversationId, FocusBrief, SummaryId, Timestamp
from lcm_core.store.briefs import focus_overlay, list_briefs
from lcm_core.store.context import (
    ContextEntry,
    context_entries,
    context_pages,
    context_sums,
    newest_items,
    newest_messages,
)
from lcm_core.store.database import Reader
from lcm_core.store.listing import summaries_created
from lcm_core.store.schema import Schema
from lcm_core.store.statistics import ContextMessage
from lcm_core.text import preview
from lcm_core.wording import counted

from lcm_tui.cli import documents
from lcm_tui.cli.answer import Answer, Run
from lcm_tui.cli.assembled import AssemblyOptions, load_assembled
from lcm_tui.cli.documents import Document
from lcm_tui.cli.machine import LongList
from lcm_tui.cli.options import Selector
from lcm_tui.cli.selecting import chosen
from lcm_tui.cli.stored import as_text
from lcm_tui.cli.tails import tail_rules
from lcm_tui.session import budget_for
from lcm_tui.views.blocks import Block, Cell, Column, Facts, Note, Table, shown
from lcm_tui.views.context import kind_words
from lcm_tui.views.preview import BAR
from lcm_tui.widgets.composition import bar_line, legend_line
from lcm_tui.widgets.spans import text_of

#: Items that the table for people lists, the newest ones.
MOST_LISTED = 2_000
#: Items that are read at a time for programs.
PAGE = 2_000


@dataclass(frozen=True, slots=True)
class Listed:
    """The items of a context as programs get them."""

    items: LongList = field(default_factory=LongList)
    covered: dict[SummaryId, None] = field(default_factory=dict)  #: those that a brief replaces, in order


@dataclass(frozen=True, slots=True)
class ShownContext:
    """A context with everything that the command prints of it.

    The last of the *items* are those of the *entries*: the newest. For programs there are none of both, and
    all are *listed*.
    """

    schema: Schema
    conversation: Conversation
    items: ContextItems
    entries: list[ContextEntry]
    listed: Listed
    totals: Totals
    tail: FreshTail
    briefs: list[FocusBrief]
    overlay: FocusOverlay | None
    budget: int

    @property
    def tokens(self) -> int:
        """Stored estimates of all items; a dangling one counts nothing."""
        return self.totals.tokens

    @property
    def first(self) -> int:
        """The place among the items of the first entry."""
        return len(self.items) - len(self.entries)

    @property
    def share(self) -> float:
        """The part of the budget that the items take."""
        return round(self.tokens / self.budget, 4)


def show(run: Run, named: Selector, budget: int | None) -> Answer:
    """What is in a context; *budget* None means the configured one."""
    found = run.read(load_context, run, named, budget)
    machine = run.presentation.prints_data
    blocks = [] if machine else _blocks(run, found, named)
    missing = [f"conversation.{name}" for name in documents.not_recorded(found.schema, "conversations")]
    # Each takes a while for hundreds of thousands of items, and only one of the two is printed.
    document = context_document(found) if machine else {}
    return run.answer("context.show", document, blocks, not_recorded=missing)


def _blocks(run: Run, found: ShownContext, named: Selector) -> list[Block]:
    """The context, and how many of its items the model does not receive, when some are left out."""
    facts, *others = context_blocks(run, found)
    wanted = AssemblyOptions(history=False)
    assembly = run.read(load_assembled, run, named, found.budget, wanted).assembly
    left_out, unseen = assembly.evicted_items, assembly.unseen.messages
    of_them = f", {counted(unseen, 'message')} of them in no summary" if unseen else ""
    said = f"{counted(left_out, 'item is', 'items are')} left out{of_them}; --assembled shows which, and why."
    return [facts, *([Note(said)] if left_out else []), *others]


async def load_context(reader: Reader, run: Run, named: Selector, budget: int | None) -> ShownContext:
    """Read the context of a conversation; *budget* None means the configured one."""
    conversation = await chosen(reader, named)
    key = conversation.conversation_id
    overlay = await focus_overlay(reader, key, run.zone)
    items, listed = ContextItems(), Listed()
    entries: list[ContextEntry] = []
    if run.presentation.prints_data:
        covered = frozenset() if overlay is None else overlay.covered
        async for page, first in context_pages(reader, key, PAGE):
            await _list_page(reader, key, page, first, covered, listed)
    else:
        items, first = await newest_items(reader, key, MOST_LISTED)
        entries = await _entries(reader, items, first)
    tail, protected = await _tail(
        reader, tail_rules(reader.schema, run.settings, conversation.session_key), key
    )
    return ShownContext(
        reader.schema,
        conversation,
        items,
        entries,
        listed,
        totals_from(await context_sums(reader, key), protected),
        tail,
        [as_text(brief) for brief in await list_briefs(reader, key)],
        overlay,
        budget_for(run.settings, budget),
    )


async def _tail(
    reader: Reader, rules: TailRules, key: ConversationId
) -> tuple[FreshTail, list[ContextMessage]]:
    """The fresh tail, and its messages; of the context no more is read than the rule needs."""
    most = max(MOST_LISTED, 2 * rules.fresh_tail_count)
    while True:
        raw = await newest_messages(reader, key, most)
        found = fresh_tail(raw, rules)
        reached = not rules.keeps_turn_whole or any(one.role == "user" for one in raw)
        if len(raw) < most or (reached and len(raw) > rules.fresh_tail_count):
            return found, raw[len(raw) - found.messages :]
        most *= 8


async def _entries(reader: Reader, items: ContextItems, first: int) -> list[ContextEntry]:
    """The items from a place on, with what they refer to."""
    wanted = [items.item(place) for place in range(first, len(items))]
    return [as_text(entry) for entry in await context_entries(reader, wanted)]


async def _list_page(
    reader: Reader,
    owner: ConversationId,
    page: ContextItems,
    first: int,
    covered: frozenset[SummaryId],
    listed: Listed,
) -> None:
    """Read what a page of a context refers to, and append it to the list for programs."""
    entries = await _entries(reader, page, first)
    standing = [entry.item.summary_id for entry in entries if entry.item.summary_id is not None]
    created = await summaries_created(reader, standing)
    documents = [
        {
            "ordinal": entry.item.ordinal,
            "itemType": entry.item.item_type,
            "summaryId": entry.item.summary_id,
            "messageId": entry.item.message_id,
            "kind": entry.kind,
            "depth": entry.depth,
            "role": entry.role,
            "tokenCount": entry.tokens,
            "createdAt": _created(created, entry),
            "preview": preview(entry.preview),
            "seq": entry.seq,
            "status": findings[0].finding if findings else None,
        }
        for entry, findings in zip(entries, _findings(page, entries, owner), strict=True)
    ]
    if documents:
        listed.items.extend(documents)
    listed.covered.update(dict.fromkeys(one for one in standing if one in covered))


def _findings(
    items: ContextItems, entries: Sequence[ContextEntry], owner: ConversationId
) -> list[list[Found]]:
    """What is wrong with each entry; they are the last of the items."""
    first = len(items) - len(entries)
    return [findings_at(items, place, entry.weight, owner) for place, entry in enumerate(entries, first)]


def _created(created: Mapping[SummaryId, Timestamp], entry: ContextEntry) -> Timestamp | None:
    """When the message was said or the summary was made."""
    return entry.said_at if entry.item.summary_id is None else created.get(entry.item.summary_id)


def context_document(found: ShownContext) -> Document:
    """The context as the envelope's ``data``."""
    briefs: Document = (
        {"focusBriefs": [_brief(found, brief) for brief in found.briefs]} if found.briefs else {}
    )
    return {
        "conversation": documents.conversation(found.conversation),
        "items": found.listed.items,
        "totals": {
            "items": found.totals.items,
            "messages": found.totals.messages,
            "summaries": found.totals.summaries,
            "tokens": found.tokens,
            "budget": found.budget,
            "share": found.share,
        },
        "freshTail": documents.fresh_tail(found.tail),
        **briefs,
    }


def _brief(found: ShownContext, brief: FocusBrief) -> Document:
    over = (
        found.overlay
        if found.overlay is not None and found.overlay.brief.brief_id == brief.brief_id
        else None
    )
    return {
        **documents.active_brief(brief),
        "status": brief.status,
        "covers": [] if over is None else list(found.listed.covered),
        "atOrdinal": None if over is None else over.at_ordinal,
    }


def context_blocks(run: Run, found: ShownContext) -> list[Block]:
    """The context for people."""
    tail, totals = found.tail, found.totals
    parts = f"{counted(totals.summaries, 'summary')}, {counted(totals.messages, 'message')}"
    where = "nothing is protected" if tail.first_ordinal is None else f"from ordinal {tail.first_ordinal}"
    facts: list[tuple[str, Cell]] = [
        ("Conversation", found.conversation.called),
        ("Items", f"{totals.items:,}: {parts}"),
        ("Tokens", f"{found.tokens:,} stored of {found.budget:,} ({found.share:.1%})"),
        *_composition(found),
        (
            "Fresh tail",
            f"{where}: {counted(tail.messages, 'message')}, {tail.tokens:,} stored tokens",
        ),
    ]
    for brief in found.briefs:
        over = (
            found.overlay
            if found.overlay is not None and found.overlay.brief.brief_id == brief.brief_id
            else None
        )
        stands = "" if over is None else _stands_for(over)
        facts.append(
            ("Focus brief", f"{brief.brief_id}  {brief.status}, {shown(brief.tokens)} tokens{stands}")
        )
    older = totals.items - len(found.entries)
    left_out = [Note(f"The {older:,} older items are not listed; --json lists all.")] if older > 0 else []
    return [Facts(facts), *left_out, _table(run, found)]


def _composition(found: ShownContext) -> Iterator[tuple[str, Cell]]:
    """What the context is made of, in the letters that the app uses without colours."""
    groups = found.totals.groups
    if groups:
        yield "Made of", text_of(bar_line(groups, BAR, plain=True))
        yield "", text_of(legend_line(groups, found.tail, plain=True)).strip()


def _stands_for(over: FocusOverlay) -> str:
    return f", replaces {counted(len(over.covered), 'summary')} at ordinal {over.at_ordinal}"


def _table(run: Run, found: ShownContext) -> Table:
    columns = (
        Column("Ordinal", right=True),
        Column("Item"),
        Column("What"),
        Column("Stored", right=True),
        Column("Time", spare=2),
        Column("Note", spare=1),
        Column("Text", grows=True),
    )
    return Table(columns, list(_rows(run, found)), empty="The context is empty.")


def _rows(run: Run, found: ShownContext) -> Iterator[tuple[Cell, ...]]:
    gaps = {gap.place: gap_text(gap) for gap in found.items.gaps}
    owner = found.conversation.conversation_id
    listed = zip(found.entries, _findings(found.items, found.entries, owner), strict=True)
    for place, (entry, findings) in enumerate(listed, found.first):
        item = entry.item
        if place in gaps:
            yield ("", "", "", "", "", gaps[place], "")
        notes = [finding.text for finding in findings]
        if item.ordinal == found.tail.first_ordinal:
            notes.append("fresh tail begins")
        if found.overlay is not None and item.summary_id in found.overlay.covered:
            notes.append("replaced by the focus brief")
        yield (
            str(item.ordinal),
            item.summary_id or f"message {item.message_id}",
            kind_words(entry.kind, entry.depth or 0) if entry.kind else entry.role,
            entry.tokens,
            run.time(entry.said_at),
            "; ".join(notes),
            preview(entry.beginning),
        )
