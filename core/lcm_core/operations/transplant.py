"""Copy what a conversation's context remembers in front of another conversation's context.

A deep copy of the summaries in the source's context, down to messages, parts and large files. The source
stays as it is. Copied messages come before the target's first one and are in no context, so the newest by
seq, and with it the tail that a host reads, stay the target's own (docs/spec/format.md, "Numbering").

What the target has already is not copied again, else it would be stored twice and read twice. A summary may
be gone from it, dissolved or rewritten, while what it was made from is there: its messages (same role, text
and time) are compared too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from typing import Final

from lcm_core.base.errors import RefusedError
from lcm_core.base.records import ContextItems, Conversation, ConversationId, SummaryId
from lcm_core.base.text import counted, phrase
from lcm_core.base.times import parse_utc, sort_key, sql_utc
from lcm_core.base.values import Record
from lcm_core.change.place import Listing, splice_at
from lcm_core.change.plan import Plan, Splice
from lcm_core.operations.copy import DeepCopy, Subtree, load_subtree, named_in, refer_text
from lcm_core.operations.rows import context_item, over_budget
from lcm_core.store import context as context_store
from lcm_core.store import conversations as conversation_store
from lcm_core.store.conversations import seq_bounds
from lcm_core.store.database import Reader
from lcm_core.store.focus import active_brief
from lcm_core.store.opening import SqlValue
from lcm_core.store.ownership import messages_of_times
from lcm_core.store.rows import StoredRow, rows_by
from lcm_core.store.summaries import broken_among

#: Of many duplicates this many are in the sentence; all of them are in the exception.
_SAID: Final = 3


class DuplicatesError(RefusedError):
    """The target holds what was to be copied."""

    def __init__(self, source: int, target: int, duplicates: Sequence[Duplicate]) -> None:
        self.duplicates = tuple(duplicates)
        named = [f"{one.summary_id} as {one.present_id}" for one in self.duplicates[:_SAID]]
        more = len(self.duplicates) - len(named)
        super().__init__(
            f"Conversation {target} holds {len(self.duplicates):,} of the summaries of conversation {source} "
            f"already, by text or messages ({', '.join(named)}{f', and {more:,} more' if more else ''}). "
            "Skip duplicates (--skip-duplicates) to copy only what it lacks.",
            code="DUPLICATES",
            details={"source": source, "target": target, "duplicates": len(self.duplicates)},
        )


async def plan_transplant(
    reader: Reader,
    source: ConversationId,
    target: ConversationId,
    *,
    skip_duplicates: bool = False,
    budget: int | None = None,
    now: datetime | None = None,
) -> Plan:
    """Copy the summaries in the context of *source* to the front of the context of *target*.

    *skip_duplicates* leaves out summaries of the context whose text the target has, and whatever it has all
    messages of; a summary over such a one is replaced by its other sources. A text alone that is below
    another summary comes with it, since that would have no sources. A *budget* (tokens) adds a warning when
    the context would exceed it. ``Plan.select`` is the first summary of the copy.

    Raises:
        NotFoundError: there is no such conversation.
        DuplicatesError: the target has some of what would be copied, and that is not to be skipped.
        RefusedError: both are the same, there is nothing to copy, or what is there cannot be copied whole.
    """
    if source == target:
        raise RefusedError(f"Conversation {source} cannot be transplanted into itself: name another target.")
    from_ = await conversation_store.get_conversation(reader, source)
    into = await conversation_store.get_conversation(reader, target)
    items = await context_store.context_items(reader, source)
    chosen = await _choose(reader, items, source, target, skip_duplicates)
    whole = chosen.whole
    copy = await DeepCopy.begin(reader, whole, target, into.session_id)
    context = await context_store.context_items(reader, target)
    order = [copy.ids[root] for root in await asyncio.to_thread(_by_time, whole, chosen.roots)]
    stamp = sql_utc(now or datetime.now(UTC))
    edits = (*await copy.edits(reader), await asyncio.to_thread(_in_front, context, target, order, stamp))
    added = sum(
        tokens for root in chosen.roots if isinstance(tokens := whole.summaries[root]["token_count"], int)
    )
    warnings = [
        *_direction(from_, into),
        *_left_out(items, source, chosen),
        *await _bad(reader, whole),
        *copy.warnings(),
        *await _out_of_time(reader, whole, target),
        *await _under_briefs(reader, target),
        *await over_budget(reader, context.refs, budget, added=added, more=", and those are copied"),
    ]
    return Plan(
        kind="transplant",
        title=_title(chosen, source, target),
        conversation_id=target,
        edits=edits,
        warnings=tuple(warnings),
        allows=copy.oddities(),
        select=order[0],
    )


class _Chosen(Record, frozen=True):
    """What is to be copied."""

    roots: Sequence[str]  #: summaries of the context, in its order, or what of their sources is lacking
    whole: Subtree
    skipped: int  #: summaries of the context that the target has
    in_part: int  #: those of which it has some sources; the others come
    below: int  #: summaries below that the target has too


async def _choose(
    reader: Reader,
    items: ContextItems,
    source: ConversationId,
    target: ConversationId,
    skip_duplicates: bool,
) -> _Chosen:
    roots = list(dict.fromkeys(str(one) for one in items.summary_ids if one is not None))
    if not roots:
        raise RefusedError(
            f"The context of conversation {source} contains no summary: nothing to transplant. "
            "Raw messages are not copied."
        )
    whole = await load_subtree(reader, source, roots)
    present = await already_there(reader, whole, set(roots), target)
    if present.duplicates and not skip_duplicates:
        raise DuplicatesError(source, target, present.duplicates)
    chosen = await asyncio.to_thread(missing_roots, whole, roots, present)
    if not chosen:
        raise RefusedError(
            f"Conversation {target} holds every summary of the context of conversation {source} already, or "
            "its sources: nothing left to transplant."
        )
    if chosen != roots:
        whole = await load_subtree(reader, source, chosen)
    known = {one.summary_id for one in present.duplicates}
    return _Chosen(
        chosen,
        whole,
        skipped=sum(root in known for root in roots),
        in_part=sum(root not in known and root not in chosen for root in roots),
        below=sum(one in whole.summaries for one in known),
    )


def _title(chosen: _Chosen, source: int, target: int) -> str:
    below = len(chosen.whole.summaries) - len(chosen.roots)
    under = [counted(below, "summary")] if below else []
    under.append(counted(len(chosen.whole.messages), "message"))
    return (
        f"Copy {counted(len(chosen.roots), 'summary')} of the context of conversation {source} to the front "
        f"of conversation {target}, with {' and '.join(under)} below"
    )


# -- the context -----------------------------------------------------------------------------------------


def _by_time(whole: Subtree, roots: Sequence[str]) -> list[str]:
    """Some summaries by what they cover, in order of time; those of one moment stay in their order."""
    spans: dict[str, tuple[datetime, datetime]] = {}

    def span_of(source: str | int) -> tuple[datetime, datetime]:
        if isinstance(source, str):
            return spans[source]
        moment = sort_key(_text(whole.messages[source].get("created_at")))
        return moment, moment

    for summary, row in whole.summaries.items():  # sources first
        first, last = (parse_utc(_text(row.get(name))) for name in ("earliest_at", "latest_at"))
        if first is None or last is None:
            below = [span_of(source) for source in whole.below[summary]]
            first = first or min(span[0] for span in below)
            last = last or max(span[1] for span in below)
        spans[summary] = first, last
    return sorted(roots, key=spans.__getitem__)


def _text(value: SqlValue) -> str | None:
    return value if isinstance(value, str) else None


def _in_front(context: ContextItems, target: ConversationId, summaries: Sequence[str], stamp: str) -> Splice:
    """The copies before everything that is there."""
    rows = [context_item(target, summary, stamp) for summary in summaries]
    listing = Listing.of(zip(context.ordinals, context.refs, strict=True))
    return splice_at(listing, target, 0, [], rows)


# -- warnings --------------------------------------------------------------------------------------------


def _direction(source: Conversation, target: Conversation) -> Iterator[str]:
    """What speaks against copying from here to there: who has chosen the wrong one sees it."""
    if source.agent and target.agent and source.agent != target.agent:
        yield (
            f"The agents differ: conversation {source.conversation_id} is of {source.agent}, conversation "
            f"{target.conversation_id} of {target.agent}"
        )
    if target.active is False:
        yield (
            f"Conversation {target.conversation_id} has ended: the engine sends nothing of it unless it is "
            "opened again"
        )


def _left_out(items: ContextItems, source: ConversationId, chosen: _Chosen) -> Iterator[str]:
    if chosen.skipped:
        words = "are skipped: the target has the text or all messages"
        yield phrase(chosen.skipped, "summary", None, words)
    if chosen.in_part:
        words = "are replaced by the sources that the target lacks"
        yield phrase(chosen.in_part, "summary", None, words)
    if chosen.below:
        yield phrase(
            chosen.below,
            "summary",
            None,
            "below have a text that the target also has; they are copied with the summaries made from them",
        )
    raw = sum(one is not None for one in items.message_ids)
    if raw:
        yield phrase(raw, "raw message", source, "are not copied: only what summaries cover is")


async def _bad(reader: Reader, whole: Subtree) -> list[str]:
    """Copies of truncations are truncations."""
    bad = await broken_among(reader, list(map(SummaryId, whole.summaries)))
    return [phrase(len(bad), "copied summary", None, "are broken, as in the source")] if bad else []


async def _out_of_time(reader: Reader, whole: Subtree, target: ConversationId) -> list[str]:
    """Whether part of the copy is newer than what it comes before."""
    bounds = await seq_bounds(reader, target)
    begins = parse_utc(bounds.first_at) if bounds else None
    ends = max((sort_key(_text(row.get("created_at"))) for row in whole.messages.values()), default=None)
    if begins is None or ends is None or ends <= begins:
        return []
    return [f"Part of the copy will be placed before older messages of conversation {target}"]


async def _under_briefs(reader: Reader, target: ConversationId) -> list[str]:
    """An active brief hides what is older than what it covers, and every copy is."""
    brief = await active_brief(reader, target)
    if brief is None:
        return []
    return [
        f"Focus brief {brief.brief_id} of conversation {target} hides the copy from the model until you "
        "remove it (/lossless unfocus)"
    ]


# -- what the target has already ------------------------------------------------------------------------


#: Paths of stored files by id: in a text, a file counts as what is stored of it, for a copy has another id.
Stored = Mapping[str, str]


class Duplicate(Record, frozen=True):
    """A summary that the target has already, by its text or by all messages below it."""

    summary_id: str  #: in the source
    present_id: str  #: in the target; of one that is known by its messages, the first of them
    in_context: bool  #: whether it is in the source's context; else it is below what is


class Present(Record, frozen=True):
    """What of a subtree its target has."""

    duplicates: tuple[Duplicate, ...]  #: those of the context first
    whole: frozenset[str]  #: summaries all of whose messages are there
    in_part: frozenset[str]  #: summaries with such a one below them


async def already_there(reader: Reader, tree: Subtree, roots: set[str], target: ConversationId) -> Present:
    """Compare everything under *roots* with a conversation; texts that are blank say nothing."""
    summaries = await rows_by(reader, "summaries", "conversation_id", [target])
    messages = await messages_of_times(
        reader, target, {str(row.get("created_at")) for row in tree.messages.values()}
    )
    texts = [*tree.summaries.values(), *summaries, *tree.messages.values(), *messages]
    stored = await _stored_files(reader, texts)
    return await asyncio.to_thread(_compare, tree, roots, summaries, messages, stored)


async def _stored_files(reader: Reader, rows: Sequence[StoredRow]) -> Stored:
    named = await asyncio.to_thread(named_in, ({"content": row["content"]} for row in rows))
    files = await rows_by(reader, "large_files", "file_id", sorted(named))
    return {str(row["file_id"]): str(row["storage_uri"]) for row in files}


def _compare(
    tree: Subtree,
    roots: set[str],
    summaries: Iterable[StoredRow],
    messages: Iterable[StoredRow],
    stored: Stored,
) -> Present:
    texts: dict[bytes, str] = {}
    for row in summaries:
        texts.setdefault(_text_hash(row, stored), str(row["summary_id"]))
    said: dict[tuple[object, ...], int] = {}
    for row in messages:
        if isinstance(row["message_id"], int):
            said.setdefault(_said(row, stored), row["message_id"])
    whole, in_part, first = _by_messages(
        tree,
        {message: said[key] for message, row in tree.messages.items() if (key := _said(row, stored)) in said},
    )
    found = []
    for summary, row in tree.summaries.items():
        there = texts.get(_text_hash(row, stored)) if str(row["content"]).strip() else None
        if there is None and summary in whole:
            there = f"message {first[summary]}"
        if there is not None:
            found.append(Duplicate(summary, there, summary in roots))
    return Present(tuple(sorted(found, key=lambda one: not one.in_context)), whole, in_part)


def _by_messages(
    tree: Subtree, held: Mapping[int, int]
) -> tuple[frozenset[str], frozenset[str], Mapping[str, int]]:
    """The summaries all of whose messages are *held*, those with such a one below, and their first message.

    A leaf of which the target has only some messages is none of these: its text covers the others.
    """
    first: dict[str, int] = {}
    in_part: set[str] = set()
    for summary in tree.summaries:  # sources first
        ends = [first.get(one) if isinstance(one, str) else held.get(one) for one in tree.below[summary]]
        known = [one for one in ends if one is not None]
        if known and len(known) == len(ends):
            first[summary] = known[0]
        if any(one in first or one in in_part for one in tree.below[summary] if isinstance(one, str)):
            in_part.add(summary)
    return frozenset(first), frozenset(in_part), first


def _said(row: StoredRow, stored: Stored) -> tuple[object, ...]:
    return row["role"], row.get("created_at"), _text_hash(row, stored)


def _text_hash(row: StoredRow, stored: Stored) -> bytes:
    content = row["content"]
    if isinstance(content, bytes):
        return sha256(content).digest()
    return sha256(refer_text(str(content), stored).encode("utf-8", "surrogateescape")).digest()


def missing_roots(tree: Subtree, roots: Iterable[str], present: Present) -> list[str]:
    """What is to be copied of the context's summaries: not what the target has, by text or by messages.

    A summary that it has in part is replaced by those of its sources that it lacks.
    """
    known = {one.summary_id for one in present.duplicates if one.in_context}
    found: dict[str, None] = {}
    waiting = [root for root in reversed(list(roots)) if root not in known]
    while waiting:
        one = waiting.pop()
        if one in present.whole:
            continue
        if one in present.in_part:
            waiting += (source for source in reversed(tree.below[one]) if isinstance(source, str))
        else:
            found[one] = None
    return list(found)
