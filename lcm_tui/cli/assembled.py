"""``context show --assembled``: the messages that the model gets under a budget, and what it does not get."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, TypeAlias

import typer
from lcm_core.assemble.export import api_request, host_messages, markdown, origin_name, spoken
from lcm_core.assemble.message import Origin, SentMessage
from lcm_core.assemble.result import Assembled as Assembly
from lcm_core.assemble.result import Evicted
from lcm_core.assembly import assemble_context, settings_for
from lcm_core.errors import UsageError
from lcm_core.records import Conversation
from lcm_core.rules import NAMED
from lcm_core.store.database import Reader
from lcm_core.text import preview, safe_text

from lcm_tui.cli import documents
from lcm_tui.cli.answer import Answer, Run
from lcm_tui.cli.documents import Document
from lcm_tui.cli.machine import json_text
from lcm_tui.cli.options import invalid, readable_text
from lcm_tui.cli.output import write
from lcm_tui.cli.readable import Block, Cell, Column, Facts, Note, Table, counted
from lcm_tui.cli.selecting import Selector, chosen

FORMS = ("json", "markdown")
_PANEL = "As the model gets it"

Assembled: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--assembled",
        metavar="",
        help="The messages as they are sent under the budget, and what is left out.",
        rich_help_panel=_PANEL,
    ),
]
Prompt: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--prompt",
        metavar="TEXT",
        help="Choose by this prompt, as prompt-aware eviction does.",
        rich_help_panel=_PANEL,
    ),
]
RuleSet: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--rules",
        metavar="|".join(NAMED),
        autocompletion=lambda: list(NAMED),
        help="The rules of another engine than the one that wrote the file.",
        rich_help_panel=_PANEL,
    ),
]
Export: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--export",
        metavar="|".join(FORMS),
        autocompletion=lambda: list(FORMS),
        help="Only the messages: a request for Anthropic's API, or a text to read.",
        rich_help_panel=_PANEL,
    ),
]


@dataclass(frozen=True, slots=True)
class AssemblyOptions:
    """What the options ask for."""

    prompt: str | None
    rules: str | None
    export: str | None


@dataclass(frozen=True, slots=True)
class _Shown:
    conversation: Conversation
    assembly: Assembly


def assembly_options(
    *, assembled: bool, prompt: str | None, rules: str | None, export: str | None
) -> AssemblyOptions | None:
    """The options of ``--assembled``; None without it.

    Raises:
        UsageError: an option that says nothing without it, or a value that there is not.
    """
    for name, value in (("prompt", prompt), ("rules", rules), ("export", export)):
        if value is not None and not assembled:
            raise UsageError(f"--{name} goes with --assembled.", details={"option": name})
    if rules is not None and rules not in NAMED:
        raise invalid("rules", f"must be one of {', '.join(NAMED)}", rules)
    if export is not None and export not in FORMS:
        raise invalid("export", "must be json or markdown", export)
    if prompt is not None:
        readable_text("--prompt", prompt)
    return AssemblyOptions(prompt, rules, export) if assembled else None


def show_assembled(run: Run, named: Selector, budget: int, wanted: AssemblyOptions) -> Answer | int:
    """Answer with the messages and the account of them, or write the messages alone."""
    found = run.read(_load, run, named, budget, wanted)
    if wanted.export is not None:
        _export(run, found, wanted.export)
        return 0
    return run.answer("context.show", _document(found), list(_blocks(found, budget)))


async def _load(reader: Reader, run: Run, named: Selector, budget: int, wanted: AssemblyOptions) -> _Shown:
    conversation = await chosen(reader, named)
    assembly = await assemble_context(
        reader,
        conversation.conversation_id,
        settings_for(run.settings.engine, budget, wanted.prompt),
        zone=run.zone,
        rules=None if wanted.rules is None else NAMED[wanted.rules],
        with_history=True,
    )
    return _Shown(conversation, assembly)


def _export(run: Run, found: _Shown, form: str) -> None:
    """Write the messages to standard output; to a terminal without what it would obey."""
    terminal = sys.stdout.isatty()
    if form == "json":
        request = api_request(found.assembly)
        text = json_text(request, pretty=run.presentation.pretty, for_terminal=terminal) + "\n"
    else:
        text = markdown(found.assembly, f"Conversation {found.conversation.conversation_id}")
        text = safe_text(text) if terminal else text
    write(sys.stdout, text, utf8=True)


# -- JSON ------------------------------------------------------------------------------------------------


def _document(found: _Shown) -> Document:
    one = found.assembly
    return {
        "conversation": documents.conversation(found.conversation),
        "rules": one.rules,
        "selection": str(one.selection),
        "items": [_item(one, at) for at in range(len(one.messages))],
        "messages": list(host_messages(one)),
        "evicted": [_evicted(each) for each in one.evicted],
        "unread": None
        if one.unread is None
        else {
            "items": one.unread.items,
            "summaries": one.unread.summaries,
            "firstOrdinal": one.unread.first_ordinal,
            "lastOrdinal": one.unread.last_ordinal,
        },
        "repairs": [
            {"what": str(each.what), **_origin(each.origin), "callId": each.call_id} for each in one.repairs
        ],
        "finalClamp": {
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
        "tokens": one.weights[at],
        "storedTokens": message.origin.stored_tokens,
        "freshTail": _in_tail(one, message),
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


def _evicted(each: Evicted) -> Document:
    return {
        **({"ordinal": each.ordinal} if each.origin is None else _origin(each.origin)),
        "tokens": each.tokens,
        "step": str(each.step),
        "why": each.why,
    }


# -- for people ------------------------------------------------------------------------------------------


def _blocks(found: _Shown, asked: int) -> Iterator[Block]:
    one, meta = found.assembly, found.assembly.metadata
    facts: list[tuple[str, Cell]] = [
        ("Conversation", f"{found.conversation.conversation_id}  {found.conversation.lane}"),
        ("Source", _source(one)),
        ("Rules", one.rules),
        ("Tokens", f"{one.estimated_tokens:,} of {one.budget:,} ({one.estimated_tokens / one.budget:.1%})"),
        ("As sent", f"{one.sent_tokens:,} tokens with all fields; {one.stored_tokens:,} are stored for them"),
        ("Sent", f"{counted(len(one.messages), 'message', 'messages')} of {_context(one)}, {one.selection}"),
        ("Fresh tail", _tail(one)),
        ("Shares", _shares(one)),
        ("History", f"{meta.raw_history_tokens or 0:,} tokens, {_debt(one)} of them raw before the tail"),
        ("Cache", f"{meta.cache.state}: {meta.cache.reason}"),
        ("System prompt", f"addition: {one.system.kind}"),
    ]
    yield Facts(facts)
    yield _messages_table(one)
    if one.evicted:
        yield _evicted_table(one)
    if one.repairs:
        rows = [(each.origin.ordinal, each.call_id or "", str(each.what)) for each in one.repairs]
        columns = (Column("Ordinal", right=True), Column("Call"), Column("Repair", grows=True))
        yield Table(columns, rows, "Mended")
    if one.unread is not None:
        unread = one.unread
        yield Note(
            f"{counted(unread.items, 'older item', 'older items')} (ordinals {unread.first_ordinal} to "
            f"{unread.last_ordinal}) cannot fit and were not read."
        )
    if one.budget < asked:
        yield Note(f"maxAssemblyTokenBudget caps the budget at {one.budget:,}.")
    if one.last_cut.messages and not one.last_cut.applied:
        oldest = counted(one.last_cut.messages, "message", "messages")
        yield Note(
            f"Whole messages as JSON are over the budget: before it hands them over, the engine cuts off the "
            f"oldest {oldest} (final clamp); {one.last_cut.tokens:,} tokens are left."
        )
    if one.tail.tokens > one.budget:
        yield Note("The fresh tail alone is more than the budget; it is protected all the same.")


def _source(one: Assembly) -> str:
    meta = one.metadata
    trust = "authoritative" if meta.prompt_authoritative else "not authoritative"
    reason = f": {meta.fallback_reason}" if meta.fallback_reason else ""
    return f"{meta.source}{reason}, {trust} for the size of the prompt"


def _context(one: Assembly) -> str:
    meta = one.metadata
    summaries = counted(meta.summaries, "summary", "summaries")
    return f"{meta.context_items:,} items ({summaries}, {counted(meta.raw_messages, 'message', 'messages')})"


def _debt(one: Assembly) -> str:
    return f"{one.metadata.raw_history_debt_tokens or 0:,}"


def _tail(one: Assembly) -> str:
    tail = one.tail
    if tail.first_ordinal is None:
        return "nothing is protected"
    return (
        f"from ordinal {tail.first_ordinal}: {counted(tail.items, 'item', 'items')}, "
        f"{tail.tokens:,} tokens; {one.remaining:,} left beside it"
    )


def _shares(one: Assembly) -> str:
    total = sum(one.weights) or 1
    named = (
        ("tail", one.shares.tail),
        ("recent", one.shares.recent),
        ("older", one.shares.older),
        ("root", one.shares.root),
    )
    return ", ".join(f"{name} {tokens:,} ({tokens / total:.0%})" for name, tokens in named)


def _messages_table(one: Assembly) -> Table:
    columns = (
        Column("#", right=True),
        Column("Role"),
        Column("From"),
        Column("Ordinal", right=True, spare=2),
        Column("Sent", right=True),
        Column("Stored", right=True, spare=1),
        Column("Note", spare=3),
        Column("Text", grows=True),
    )
    rows = []
    began = False
    for at, (message, weight) in enumerate(zip(one.messages, one.weights, strict=True)):
        notes = [] if began or not _in_tail(one, message) else ["fresh tail begins"]
        began = began or bool(notes)
        if at < one.last_cut.messages and not one.last_cut.applied:
            notes.append("final clamp")
        origin = message.origin
        rows.append(
            (
                at + 1,
                str(message.role),
                origin_name(message),
                origin.ordinal,
                weight,
                origin.stored_tokens,
                ", ".join(notes),
                preview(spoken(message)),
            )
        )
    return Table(columns, rows, "Sent", empty="Nothing is sent.")


def _evicted_table(one: Assembly) -> Table:
    columns = (
        Column("Ordinal", right=True),
        Column("What"),
        Column("Tokens", right=True),
        Column("Step"),
        Column("Why", grows=True),
    )
    rows = [(each.ordinal, _name(each), each.tokens, str(each.step), each.why) for each in one.evicted]
    return Table(columns, rows, "Not sent")


def _name(each: Evicted) -> str:
    origin = each.origin
    if origin is None:
        return ""
    return origin.summary_id or (f"message {origin.message_id}" if origin.message_id else str(origin.kind))


def _in_tail(one: Assembly, message: SentMessage) -> bool:
    first, ordinal = one.tail.first_ordinal, message.origin.ordinal
    return first is not None and ordinal is not None and ordinal >= first
