"""``context show``: what the model sees of a conversation, in order."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import cast

from lcm_core.base.javascript import JsonObject
from lcm_core.base.records import Conversation, FocusBrief, SummaryId, Timestamp
from lcm_core.base.text import counted, preview, safe_text
from lcm_core.base.values import Record, to_json
from lcm_core.engine.assembly import Assembled as Assembly
from lcm_core.engine.assembly import Evicted
from lcm_core.engine.messages import Origin
from lcm_core.engine.rules import NAMED, engine_rules
from lcm_core.engine.sent import api_request, host_messages, markdown, spoken
from lcm_core.engine.sessions import settings_for_session
from lcm_core.engine.wrapper import FocusOverlay
from lcm_core.operations.assembly import assemble_context, settings_for
from lcm_core.store.context import ContextEntry
from lcm_core.store.context_view import ContextView, gap_text, read_context
from lcm_core.store.database import Reader
from lcm_core.store.focus import list_briefs
from lcm_core.store.listing import summaries_created
from lcm_core.store.schema import Schema
from lcm_recall.cue import with_cue

from lcm_tui.cli import documents
from lcm_tui.cli.answer import Answer, Run
from lcm_tui.cli.documents import Document, tail_rules
from lcm_tui.cli.machine import json_text
from lcm_tui.cli.options import Selector
from lcm_tui.cli.output import write
from lcm_tui.cli.selecting import as_text, chosen
from lcm_tui.kit.session import budget_for
from lcm_tui.kit.spans import text_of
from lcm_tui.tables.blocks import (
    Cell,
    Facts,
    Note,
    OutputBlock,
    OutputColumn,
    Table,
    kind_words,
    not_recorded,
    shown,
)
from lcm_tui.tables.composition import bar_line, legend_line
from lcm_tui.tables.conversation_rows import ROW_COLUMNS
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
        **documents.some_of(one, "rules selection"),
        "items": [_item(one, at) for at in range(len(one.messages))],
        "messages": list(host_messages(one)),
        "evicted": [_evicted(one, each) for each in one.evicted],
        "unread": None
        if one.unread is None
        else documents.some_of(one.unread, "items summaries first_ordinal last_ordinal"),
        "unseen": {
            "messages": one.unseen.messages,
            "tokens": sum(one.unseen.tokens.values()),
            "ordinals": sorted(one.unseen.tokens),
            "unread": one.unseen.unread,
        },
        "pasted": [
            {"ordinal": ordinal, **documents.some_of(file, "file_id file_name mime_type byte_size")}
            for ordinal, files in sorted(one.pasted.items())
            for file in files
        ],
        "repairs": [
            {"what": str(each.what), **_origin(each.origin), "callId": each.call_id} for each in one.repairs
        ],
        "finalClamp": documents.some_of(one.last_cut, "limit messages tokens applied"),
        "freshTail": to_json(one.tail),
        "shares": {
            "freshTail": one.shares.tail,
            "recentSummaries": one.shares.recent,
            "root": one.shares.root,
            "olderLayers": one.shares.older,
        },
        "totals": {
            "messages": len(one.messages),
            "evicted": one.evicted_items,
            **documents.some_of(one, "estimated_tokens sent_tokens stored_tokens budget"),
            "remainingBudget": one.remaining,
            "share": round(one.estimated_tokens / one.budget, 4),
        },
        "systemPromptAddition": documents.some_of(one.system, "kind text"),
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
    return documents.some_of(origin, "ordinal message_id summary_id brief_id depth")


def _evicted(one: Assembly, each: Evicted) -> Document:
    return {
        **({"ordinal": each.ordinal} if each.origin is None else _origin(each.origin)),
        **documents.some_of(each, "tokens step why"),
        "promptScore": prompt_score(one, each.ordinal),
    }


#: Items that the table for people lists, the newest ones.
MOST_LISTED = 2_000


class ShownContext(Record, frozen=True):
    """A context with everything that the command prints of it."""

    schema: Schema
    conversation: Conversation
    view: ContextView
    entries: list[ContextEntry]
    created: Mapping[SummaryId, Timestamp]  #: when its summaries were made
    briefs: list[FocusBrief]
    budget: int

    @property
    def share(self) -> float:
        """The part of the budget that the items take."""
        return round(self.view.totals.share(self.budget), 4)


def show(run: Run, named: Selector, budget: int | None) -> Answer:
    """What is in a context; *budget* None means the configured one."""
    found = run.read(load_context, run, named, budget)
    machine = run.presentation.prints_data
    blocks = [] if machine else _blocks(run, found, named)
    missing = not_recorded(ROW_COLUMNS, found.schema, "conversation")
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
    rules = tail_rules(reader.schema, run.settings, conversation.session_key)
    view = await read_context(reader, key, rules, run.zone)
    summaries = [entry.item.summary_id for entry in view.entries if entry.item.summary_id is not None]
    return ShownContext(
        reader.schema,
        conversation,
        view,
        [as_text(entry) for entry in view.entries],
        await summaries_created(reader, summaries),
        [as_text(brief) for brief in await list_briefs(reader, key)],
        budget_for(run.settings, budget),
    )


def _items(found: ShownContext) -> Iterator[Document]:
    """The items as programs get them."""
    for place, entry in enumerate(found.entries):
        item, findings = entry.item, found.view.findings(place)
        made = entry.said_at if item.summary_id is None else found.created.get(item.summary_id)
        yield {
            **documents.some_of(item, "ordinal item_type summary_id message_id"),
            **documents.some_of(entry, "kind depth role"),
            "tokenCount": entry.tokens,
            "createdAt": made,
            "preview": preview(entry.preview),
            "seq": entry.seq,
            "status": findings[0].finding if findings else None,
        }


def context_document(found: ShownContext) -> Document:
    """The context as the envelope's ``data``."""
    totals = found.view.totals
    briefs: Document = (
        {"focusBriefs": [_brief(found, brief) for brief in found.briefs]} if found.briefs else {}
    )
    return {
        "conversation": documents.conversation(found.conversation),
        "items": list(_items(found)),
        "totals": {
            **documents.some_of(totals, "items messages summaries tokens"),
            "budget": found.budget,
            "share": found.share,
        },
        "freshTail": to_json(found.view.tail),
        **briefs,
    }


def _brief(found: ShownContext, brief: FocusBrief) -> Document:
    over = _overlay_of(found, brief)
    covered = dict.fromkeys(one for one in found.view.items.summary_ids if over and one in over.covered)
    return {
        **documents.active_brief(brief),
        "status": brief.status,
        "covers": list(covered),
        "atOrdinal": None if over is None else over.at_ordinal,
    }


def _overlay_of(found: ShownContext, brief: FocusBrief) -> FocusOverlay | None:
    """What a brief replaces, if it is the one in force."""
    over = found.view.overlay
    return over if over is not None and over.brief.brief_id == brief.brief_id else None


def context_blocks(run: Run, found: ShownContext) -> list[OutputBlock]:
    """The context for people."""
    tail, totals = found.view.tail, found.view.totals
    parts = f"{counted(totals.summaries, 'summary')}, {counted(totals.messages, 'message')}"
    where = "nothing is protected" if tail.first_ordinal is None else f"from ordinal {tail.first_ordinal}"
    facts: list[tuple[str, Cell]] = [
        ("Conversation", found.conversation.called),
        ("Items", f"{totals.items:,}: {parts}"),
        ("Tokens", f"{totals.tokens:,} stored of {found.budget:,} ({found.share:.1%})"),
        *_composition(found),
        (
            "Fresh tail",
            f"{where}: {counted(tail.messages, 'message')}, {tail.tokens:,} stored tokens",
        ),
    ]
    for brief in found.briefs:
        over = _overlay_of(found, brief)
        stands = "" if over is None else _stands_for(over)
        facts.append(
            ("Focus brief", f"{brief.brief_id}  {brief.status}, {shown(brief.tokens)} tokens{stands}")
        )
    older = totals.items - MOST_LISTED
    left_out = [Note(f"The {older:,} older items are not listed; --json lists all.")] if older > 0 else []
    return [Facts(facts), *left_out, _table(run, found)]


def _composition(found: ShownContext) -> Iterator[tuple[str, Cell]]:
    """What the context is made of, in the letters that the app uses without colours."""
    groups = found.view.totals.groups
    if groups:
        yield "Made of", text_of(bar_line(groups, BAR, plain=True))
        yield "", text_of(legend_line(groups, found.view.tail, plain=True)).strip()


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
    gaps = {gap.place: gap_text(gap) for gap in found.view.items.gaps}
    overlay = found.view.overlay
    first = max(0, len(found.entries) - MOST_LISTED)
    for place, entry in enumerate(found.entries[first:], first):
        item = entry.item
        if place in gaps:
            yield ("", "", "", "", "", gaps[place], "")
        notes = [finding.text for finding in found.view.findings(place)]
        if item.ordinal == found.view.tail.first_ordinal:
            notes.append("fresh tail begins")
        if overlay is not None and item.summary_id in overlay.covered:
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
