"""``context show``: what the model sees of a conversation, in order."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import cast

from lcm_core.base.javascript import JsonObject
from lcm_core.base.records import ContextItems, Conversation, ConversationId, FocusBrief, SummaryId, Timestamp
from lcm_core.base.text import counted, preview, safe_text
from lcm_core.base.values import Record, field
from lcm_core.engine.assembly import Assembled as Assembly
from lcm_core.engine.assembly import Evicted
from lcm_core.engine.messages import Origin
from lcm_core.engine.rules import NAMED, FreshTail, TailRules, engine_rules, fresh_tail
from lcm_core.engine.sent import api_request, host_messages, markdown, spoken
from lcm_core.engine.sessions import settings_for_session
from lcm_core.engine.wrapper import FocusOverlay
from lcm_core.operations.assembly import assemble_context, settings_for
from lcm_core.store.context import (
    ContextEntry,
    context_entries,
    context_pages,
    context_sums,
    newest_items,
    newest_messages,
)
from lcm_core.store.context_view import Found, Totals, findings_at, gap_text, totals_from
from lcm_core.store.database import Reader
from lcm_core.store.focus import focus_overlay, list_briefs
from lcm_core.store.listing import summaries_created
from lcm_core.store.schema import Schema
from lcm_core.store.statistics import ContextMessage
from lcm_recall.cue import with_cue

from lcm_tui.cli import documents
from lcm_tui.cli.answer import Answer, Run
from lcm_tui.cli.documents import Document, tail_rules
from lcm_tui.cli.machine import LongList, json_text
from lcm_tui.cli.options import Selector
from lcm_tui.cli.output import write
from lcm_tui.cli.selecting import as_text, chosen
from lcm_tui.kit.session import budget_for
from lcm_tui.kit.spans import text_of
from lcm_tui.tables.blocks import Cell, Facts, Note, OutputBlock, OutputColumn, Table, kind_words, shown
from lcm_tui.tables.composition import bar_line, legend_line
from lcm_tui.tables.preview import BAR
from lcm_tui.tables.sent import assembled_blocks, in_tail, prompt_score

# -- context show --assembled ----------------------------------------------------------------------------
# The messages that the model receives under a budget, and what it does not.


class AssemblyOptions(Record, frozen=True):
    """What the options ask for."""

    prompt: str | None = None
    rules: str | None = None
    export: str | None = None
    clamp: bool = True
    history: bool = True  #: also sum what was ever said


class ShownAssembly(Record, frozen=True):
    """An assembly and whose it is."""

    conversation: Conversation
    assembly: Assembly


def show_assembled(run: Run, named: Selector, budget: int, wanted: AssemblyOptions) -> Answer | int:
    """Answer with the messages and the account of them, or write the messages alone."""
    found = run.read(load_assembled, run, named, budget, wanted)
    if wanted.export is not None:
        _export(run, found, wanted.export)
        return 0
    report = list(assembled_blocks(found.conversation, found.assembly, budget, wanted.prompt))
    return run.answer("context.show", _document(found), report)


async def load_assembled(
    reader: Reader, run: Run, named: Selector, budget: int, wanted: AssemblyOptions
) -> ShownAssembly:
    """Assemble a context under a budget in tokens."""
    conversation = await chosen(reader, named)
    rules = engine_rules(reader.schema) if wanted.rules is None else NAMED[wanted.rules]
    now = datetime.now(UTC)
    owner = conversation.conversation_id
    assembly = await assemble_context(
        reader,
        owner,
        settings_for(
            settings_for_session(run.settings.engine, conversation.session_key),
            budget,
            wanted.prompt,
            clamp=wanted.clamp,
        ),
        zone=run.zone,
        rules=rules,
        with_history=wanted.history,
        now=now,
    )
    return ShownAssembly(conversation, await with_cue(reader, owner, assembly, wanted.prompt, rules, now))


def _export(run: Run, found: ShownAssembly, form: str) -> None:
    """Write the messages to standard output; to a terminal without what it would obey."""
    terminal = sys.stdout.isatty()
    if form == "json":
        request = cast(JsonObject, api_request(found.assembly))
        text = json_text(request, pretty=run.presentation.pretty, for_terminal=terminal) + "\n"
    else:
        text = markdown(found.assembly, f"Conversation {found.conversation.conversation_id}")
        text = safe_text(text) if terminal else text
    write(sys.stdout, text, utf8=True)


# -- JSON ------------------------------------------------------------------------------------------------


def _document(found: ShownAssembly) -> Document:
    one = found.assembly
    return {
        "conversation": documents.conversation(found.conversation),
        "rules": one.rules,
        "selection": str(one.selection),
        "items": [_item(one, at) for at in range(len(one.messages))],
        "messages": list(host_messages(one)),
        "evicted": [_evicted(one, each) for each in one.evicted],
        "unread": None
        if one.unread is None
        else {
            "items": one.unread.items,
            "summaries": one.unread.summaries,
            "firstOrdinal": one.unread.first_ordinal,
            "lastOrdinal": one.unread.last_ordinal,
        },
        "unseen": {
            "messages": one.unseen.messages,
            "tokens": sum(one.unseen.tokens.values()),
            "ordinals": sorted(one.unseen.tokens),
            "unread": one.unseen.unread,
        },
        "pasted": [
            {
                "ordinal": ordinal,
                "fileId": file.file_id,
                "fileName": file.file_name,
                "mimeType": file.mime_type,
                "byteSize": file.byte_size,
            }
            for ordinal, files in sorted(one.pasted.items())
            for file in files
        ],
        "repairs": [
            {"what": str(each.what), **_origin(each.origin), "callId": each.call_id} for each in one.repairs
        ],
        "finalClamp": {
            "limit": one.last_cut.limit,
            "messages": one.last_cut.messages,
            "tokens": one.last_cut.tokens,
            "applied": one.last_cut.applied,
        },
        "freshTail": {
            "count": one.tail.count,
            "maxTokens": one.tail.max_tokens,
            "firstOrdinal": one.tail.first_ordinal,
            "items": one.tail.items,
            "tokens": one.tail.tokens,
        },
        "shares": {
            "freshTail": one.shares.tail,
            "recentSummaries": one.shares.recent,
            "root": one.shares.root,
            "olderLayers": one.shares.older,
        },
        "totals": {
            "messages": len(one.messages),
            "evicted": one.evicted_items,
            "estimatedTokens": one.estimated_tokens,
            "sentTokens": one.sent_tokens,
            "storedTokens": one.stored_tokens,
            "budget": one.budget,
            "remainingBudget": one.remaining,
            "share": round(one.estimated_tokens / one.budget, 4),
        },
        "systemPromptAddition": {"kind": str(one.system.kind), "text": one.system.text},
        "metadata": one.metadata.document(),
        "messagesHash": one.messages_hash,
    }


def _item(one: Assembly, at: int) -> Document:
    message = one.messages[at]
    return {
        "role": str(message.role),
        "origin": str(message.origin.kind),
        **_origin(message.origin),
        "promptScore": prompt_score(one, message.origin.ordinal),
        "tokens": one.weights[at],
        "storedTokens": message.origin.stored_tokens,
        "freshTail": in_tail(one, message),
        "preview": preview(spoken(message)),
    }


def _origin(origin: Origin) -> Document:
    return {
        "ordinal": origin.ordinal,
        "messageId": origin.message_id,
        "summaryId": origin.summary_id,
        "briefId": origin.brief_id,
        "depth": origin.depth,
    }


def _evicted(one: Assembly, each: Evicted) -> Document:
    return {
        **({"ordinal": each.ordinal} if each.origin is None else _origin(each.origin)),
        "tokens": each.tokens,
        "step": str(each.step),
        "why": each.why,
        "promptScore": prompt_score(one, each.ordinal),
    }


#: Items that the table for people lists, the newest ones.
MOST_LISTED = 2_000
#: Items that are read at a time for programs.
PAGE = 2_000


class Listed(Record, frozen=True):
    """The items of a context as programs get them."""

    items: LongList = field(default_factory=LongList)
    covered: dict[SummaryId, None] = field(default_factory=dict)  #: those that a brief replaces, in order


class ShownContext(Record, frozen=True):
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
    if not found.schema.has("context_items"):
        missing.append("items")
        blocks.append(
            Note("This file has no table context_items: it does not record what is in the context.")
        )
    # Each takes a while for hundreds of thousands of items, and only one of the two is printed.
    document = context_document(found) if machine else {}
    return run.answer("context.show", document, blocks, not_recorded=missing)


def _blocks(run: Run, found: ShownContext, named: Selector) -> list[OutputBlock]:
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
        "freshTail": documents.fresh_tail_document(found.tail),
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


def context_blocks(run: Run, found: ShownContext) -> list[OutputBlock]:
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
        OutputColumn("Ordinal", right=True),
        OutputColumn("Item"),
        OutputColumn("What"),
        OutputColumn("Stored", right=True),
        OutputColumn("Time", spare=2),
        OutputColumn("Note", spare=1),
        OutputColumn("Text", grows=True),
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
