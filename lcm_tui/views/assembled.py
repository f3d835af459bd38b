"""An assembly for people: the messages that are sent, what is not sent and in which step it went."""

from __future__ import annotations

from collections.abc import Iterator

from lcm_core.assemble.export import beginning
from lcm_core.assemble.message import SentMessage
from lcm_core.assemble.result import Assembled as Assembly
from lcm_core.assemble.result import AssemblyStep, Evicted
from lcm_core.records import Conversation
from lcm_core.text import preview
from lcm_core.wording import counted

from lcm_tui.views.blocks import Block, Cell, Column, Facts, Note, Table


def assembled_blocks(owner: Conversation, one: Assembly, asked: int, prompt: str | None) -> Iterator[Block]:
    """What is sent, what is not and why; *asked* is the budget before any cap."""
    meta = one.metadata
    facts: list[tuple[str, Cell]] = [
        ("Conversation", owner.called),
        ("Source", _source(one)),
        ("Rules", one.rules),
        ("Tokens", f"{one.estimated_tokens:,} of {one.budget:,} ({one.estimated_tokens / one.budget:.1%})"),
        ("As sent", f"{one.sent_tokens:,} tokens with all fields; {one.stored_tokens:,} are stored for them"),
        ("Sent", f"{counted(len(one.messages), 'message')} of {_context(one)}, {one.selection}"),
        ("Always sent", f"{tail_words(one)}; {one.remaining:,} left for the rest"),
        ("Shares", _shares(one)),
        ("History", f"{meta.raw_history_tokens or 0:,} tokens, {_debt(one)} of them raw before the tail"),
        ("Cache", f"{meta.cache.state}: {meta.cache.reason}"),
        ("System prompt", f"addition: {one.system.kind}"),
    ]
    if one.unseen.messages:
        facts.insert(6, ("In no summary", _unseen(one)))
    yield Facts(facts)
    yield _messages_table(one)
    if one.evicted:
        yield _evicted_table(one)
    if one.pasted:
        yield _pasted_table(one)
    if one.repairs:
        rows = [(each.origin.ordinal, each.call_id or "", str(each.what)) for each in one.repairs]
        columns = (Column("Ordinal", right=True), Column("Call"), Column("Repair", grows=True))
        yield Table(columns, rows, "Adjusted for the provider")
    if one.unread is not None:
        unread = one.unread
        yield Note(
            f"{counted(unread.items, 'older item')} (ordinals {unread.first_ordinal} to "
            f"{unread.last_ordinal}) cannot fit and were not read."
        )
    if one.budget < asked:
        yield Note(f"maxAssemblyTokenBudget caps the budget at {one.budget:,}.")
    if one.last_cut.messages and not one.last_cut.applied:
        yield Note(_last_cut(one))
    if one.prompt_scores:
        named = sum(share > 0 for share in one.prompt_scores.values())
        yield Note(
            f"The prompt ranked {counted(len(one.prompt_scores), 'item')} before the tail; "
            f"{named:,} contain a word of it."
        )
    elif prompt and not one.has_cue:
        yield Note(f"The prompt has no effect: {one.prompt_idle}.")
    if one.has_cue:
        yield Note("The first message is the recall cue: it quotes history about identifiers in the prompt.")
    if one.tail.tokens > one.budget:
        cut = one.last_cut.applied and one.last_cut.messages
        then = "the hard limit shortens it" if cut else "it is sent in full anyway"
        yield Note(f"What is always sent alone exceeds the budget; {then}.")


def _last_cut(one: Assembly) -> str:
    """What the hard limit would drop."""
    gone, left = counted(one.last_cut.messages, "message"), f"{one.last_cut.tokens:,} tokens remain"
    before = f"before the host receives them, the engine drops {gone} (hard limit)"
    if sum(one.weights) <= one.last_cut.limit:
        return f"A tool exchange comes before the first user's message: {before}; {left}."
    return (
        f"Whole messages as JSON exceed {one.last_cut.limit:,} tokens: {before}: the oldest, and what may "
        f"not come first or last; {left}."
    )


def _source(one: Assembly) -> str:
    meta = one.metadata
    trust = "authoritative" if meta.prompt_authoritative else "not authoritative"
    reason = f": {meta.fallback_reason}" if meta.fallback_reason else ""
    return f"{meta.source}{reason}, {trust} as the prompt size"


def _context(one: Assembly) -> str:
    meta = one.metadata
    summaries = counted(meta.summaries, "summary")
    return f"{meta.context_items:,} items ({summaries}, {counted(meta.raw_messages, 'message')})"


def _unseen(one: Assembly) -> str:
    """What the model sees in no form."""
    tokens = f"{sum(one.unseen.tokens.values()):,} tokens"
    older = f" and {one.unseen.unread:,} older, not read" if one.unseen.unread else ""
    read = f"{counted(len(one.unseen.tokens), 'message')} left out ({tokens}){older}"
    return f"{read}: neither sent nor in a summary that is sent"


def _pasted_table(one: Assembly) -> Table:
    columns = (
        Column("Ordinal", right=True),
        Column("File"),
        Column("Bytes", right=True),
        Column("Name", grows=True),
    )
    rows = [
        (ordinal, file.file_id, file.byte_size, file.file_name)
        for ordinal, files in sorted(one.pasted.items())
        for file in files
    ]
    return Table(columns, rows, "Pasted by a user; a note is sent in its place")


def _debt(one: Assembly) -> str:
    return f"{one.metadata.raw_history_debt_tokens or 0:,}"


def tail_words(one: Assembly) -> str:
    """What is always sent, and how much of it the hard limit drops all the same."""
    tail = one.tail
    if tail.first_ordinal is None:
        return "nothing is protected"
    said = (
        f"from ordinal {tail.first_ordinal}: {counted(tail.items, 'item')}, {tail.tokens:,} estimated tokens"
    )
    clamped = (each.ordinal >= tail.first_ordinal for each in one.evicted if each.step is AssemblyStep.CLAMP)
    dropped = sum(clamped)
    return f"{said}, {dropped:,} of them dropped by the hard limit" if dropped else said


def _shares(one: Assembly) -> str:
    total = sum(one.weights) or 1
    named = (
        ("always sent", one.shares.tail),
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
        notes = [] if began or not in_tail(one, message) else ["always sent from here"]
        began = began or bool(notes)
        if at in one.last_cut.cut and not one.last_cut.applied:
            notes.append("hard limit")
        origin = message.origin
        if (share := prompt_score(one, origin.ordinal)) is not None:
            notes.append(f"prompt {share:.1%}")
        rows.append(
            (
                at + 1,
                str(message.role),
                message.origin.name,
                origin.ordinal,
                weight,
                origin.stored_tokens,
                ", ".join(notes),
                preview(beginning(message)),
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
    rows = [(each.ordinal, _name(each), each.tokens, each.step.words, each.why) for each in one.evicted]
    return Table(columns, rows, "Not sent")


def _name(each: Evicted) -> str:
    origin = each.origin
    if origin is None:
        return ""
    return origin.summary_id or (f"message {origin.message_id}" if origin.message_id else str(origin.kind))


def in_tail(one: Assembly, message: SentMessage) -> bool:
    """Whether a message stands in the fresh tail."""
    first, ordinal = one.tail.first_ordinal, message.origin.ordinal
    return first is not None and ordinal is not None and ordinal >= first


def prompt_score(one: Assembly, ordinal: int | None) -> float | None:
    """The share of an item's words that the prompt names; None where no prompt chose it."""
    share = None if ordinal is None else one.prompt_scores.get(ordinal)
    return None if share is None else round(share, 4)
