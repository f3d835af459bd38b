"""What the target of a transplant has already: texts of summaries, and the messages below them.

A summary may have gone from the target, dissolved or written again, while what it was made from is there: its
messages tell (same role, text and time). Copied once more they would be stored twice, and read twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256

from lcm_core.operations.file_copies import named_in, refer_text
from lcm_core.operations.subtree import Subtree
from lcm_core.records import ConversationId
from lcm_core.store.database import Reader
from lcm_core.store.occupied import messages_of_times
from lcm_core.store.rows import StoredRow, rows_by

#: Paths of stored files by id: in a text, a file counts as what is stored of it, for a copy has another id.
Stored = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Duplicate:
    """A summary that the target has already, by its text or by all messages below it."""

    summary_id: str  #: in the source
    present_id: str  #: in the target; of one that is known by its messages, the first of them
    in_context: bool  #: whether it stands in the source's context; else it lies below what does


@dataclass(frozen=True, slots=True)
class Present:
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

    A leaf of which the target has only some messages is none of these: its text tells the others.
    """
    below: dict[str, list[str | int]] = {}
    for row in tree.links:
        if isinstance(message := row["message_id"], int):
            below.setdefault(str(row["summary_id"]), []).append(message)
    for row in tree.edges:
        below.setdefault(str(row["summary_id"]), []).append(str(row["parent_summary_id"]))
    first: dict[str, int] = {}
    in_part: set[str] = set()
    for summary in tree.summaries:  # sources first
        ends = [first.get(one) if isinstance(one, str) else held.get(one) for one in below.get(summary, ())]
        known = [one for one in ends if one is not None]
        if known and len(known) == len(ends):
            first[summary] = known[0]
        if any(one in first or one in in_part for one in below.get(summary, ()) if isinstance(one, str)):
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

    A summary that it has in part gives way to those of its sources that it lacks.
    """
    known = {one.summary_id for one in present.duplicates if one.in_context}
    sources: dict[str, list[str]] = {}
    for edge in tree.edges:
        sources.setdefault(str(edge["summary_id"]), []).append(str(edge["parent_summary_id"]))
    found: dict[str, None] = {}
    waiting = [root for root in reversed(list(roots)) if root not in known]
    while waiting:
        one = waiting.pop()
        if one in present.whole:
            continue
        if one in present.in_part:
            waiting += reversed(sources.get(one, []))
        else:
            found[one] = None
    return list(found)
