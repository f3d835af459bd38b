"""``context show --assembled``: the messages that the model gets under a budget, and what it does not get."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from datetime import UTC, datetime

from lcm_core.assemble.export import api_request, host_messages, markdown, spoken
from lcm_core.assemble.message import Origin
from lcm_core.assemble.result import Assembled as Assembly
from lcm_core.assemble.result import Evicted
from lcm_core.assembly import assemble_context, settings_for
from lcm_core.engine_rules import NAMED, engine_rules
from lcm_core.recall.cueing import with_cue
from lcm_core.records import Conversation
from lcm_core.store.database import Reader
from lcm_core.text import preview, safe_text
from lcm_core.thresholds import settings_for_session

from lcm_tui.cli import documents
from lcm_tui.cli.answer import Answer, Run
from lcm_tui.cli.documents import Document
from lcm_tui.cli.machine import json_text
from lcm_tui.cli.options import Selector
from lcm_tui.cli.output import write
from lcm_tui.cli.selecting import chosen
from lcm_tui.views.assembled import assembled_blocks, in_tail, prompt_score


@dataclass(frozen=True, slots=True)
class AssemblyOptions:
    """What the options ask for."""

    prompt: str | None = None
    rules: str | None = None
    export: str | None = None
    clamp: bool = True
    history: bool = True  #: also sum what was ever said


@dataclass(frozen=True, slots=True)
class ShownAssembly:
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
        request = api_request(found.assembly)
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
