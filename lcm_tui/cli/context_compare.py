"""``context compare``: what two contexts send to the model, and how they differ."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from lcm_core.assemble.compare import ContextDiff, SentContext, compare_contexts
from lcm_core.assemble.message import SentMessage
from lcm_core.assembly import settings_for
from lcm_core.diff import unified_text
from lcm_core.engine_rules import NAMED
from lcm_core.past.database import Past
from lcm_core.records import ConversationId
from lcm_core.snapshots import ComparedContext, read_sides
from lcm_core.store.database import Database

from lcm_tui.cli.answer import BUSY_SECONDS, Answer, Run
from lcm_tui.cli.documents import Document
from lcm_tui.cli.past import point_of
from lcm_tui.cli.past_told import past_document
from lcm_tui.session import budget_for
from lcm_tui.views.comparison import comparison_blocks
from lcm_tui.views.past import past_blocks


@dataclass(frozen=True, slots=True)
class _Asked:
    """A context as it was asked for."""

    side: ComparedContext
    path: Path
    past: Past | None = None  #: it is read as it was then

    def name(self, *, beside: _Asked) -> str:
        """Which conversation it is of, with its database where that of the other is another one."""
        where = f" in {self.path}" if self.path != beside.path else ""
        then = f" {self.past.point.text}" if self.past is not None else ""
        return f"conversation {self.side.conversation_id}{then}{where}"


def compare(run: Run, first: Wanted, second: Wanted, db_b: Path | None, *, clamp: bool) -> Answer:
    """How what two contexts send differs; the second may stand in another database."""
    here = run.settings.database.value
    old = _Asked(first.side(run, clamp=clamp), here, first.past(run, "at"))
    new = _Asked(second.side(run, clamp=clamp), here if db_b is None else db_b, second.past(run, "at-b"))
    found = asyncio.run(_compared(run, old, new))
    blocks = list(comparison_blocks(run.time, found, old.name(beside=new), new.name(beside=old)))
    for side in (old, new):
        if side.past is not None and side.past.found is not None:
            blocks += past_blocks(run.time, side.past.found)
    return run.answer("context.compare", _document(found, old, new), blocks)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the options say of one of the contexts."""

    conversation_id: ConversationId
    budget: int | None
    snapshot: str | None
    prompt: str | None
    rules: str | None
    at: str | None

    def past(self, run: Run, option: str) -> Past | None:
        """The point at which it is read; None: now."""
        return None if self.at is None else Past(self.conversation_id, point_of(run, self.at, option))

    def side(self, run: Run, *, clamp: bool) -> ComparedContext:
        """It, to be read."""
        budget = budget_for(run.settings, self.budget)
        return ComparedContext(
            self.conversation_id,
            settings_for(run.settings.engine, budget, self.prompt or None, clamp=clamp),
            None if self.rules is None else NAMED[self.rules],
            snapshot_id=self.snapshot,
            budget_of_snapshot=self.budget is None,
            engine=run.settings.engine,
        )


async def _compared(run: Run, old: _Asked, new: _Asked) -> ContextDiff:
    """Both contexts as of one moment when they are of one database."""
    if old.path == new.path and old.past is new.past is None:
        left, right = await _read(run, old, [old.side, new.side])
    elif new.side.snapshot_id is not None:
        [right] = await _read(run, new, [new.side])
        [left] = await _read(run, old, [_under(old.side, right)])
    else:
        [left] = await _read(run, old, [old.side])
        [right] = await _read(run, new, [_under(new.side, left)])
    return compare_contexts(left, right)


def _under(side: ComparedContext, other: SentContext) -> ComparedContext:
    """The side under the budget of the other one, when that is a snapshot and no budget was given."""
    if other.taken is None or not side.budget_of_snapshot:
        return side
    return replace(side, settings=replace(side.settings, budget=other.budget))


async def _read(run: Run, asked: _Asked, sides: Sequence[ComparedContext]) -> list[SentContext]:
    opening = Database.open if asked.past is None else asked.past.open
    async with await opening(asked.path, busy_seconds=BUSY_SECONDS) as database:
        return await database.read(read_sides, sides, run.zone, with_history=True)


# -- JSON ------------------------------------------------------------------------------------------------


def _document(found: ContextDiff, old: _Asked, new: _Asked) -> Document:
    first = dict(zip(found.old_text.keys, found.old.messages, strict=True))
    second = dict(zip(found.new_text.keys, found.new.messages, strict=True))
    return {
        "first": _context(found.old, old),
        "second": _context(found.new, new),
        "messages": {
            "onlyFirst": [_message(first[key]) for key in found.only_old],
            "onlySecond": [_message(second[key]) for key in found.only_new],
            "changed": [_message(second[key]) for key in found.changed],
            "same": found.same,
        },
        "lines": {"removed": found.diff.removed, "added": found.diff.added},
        "diff": list(unified_text(found.diff)),
    }


def _context(one: SentContext, named: _Asked) -> Document:
    taken = one.taken
    return {
        "databasePath": str(named.path),
        "conversationId": named.side.conversation_id,
        "past": None if named.past is None or named.past.found is None else past_document(named.past.found),
        "budget": one.budget,
        "snapshot": None
        if taken is None
        else {
            "id": taken.snapshot_id,
            "createdAt": taken.created_at,
            "exact": taken.exact,
            "gone": taken.gone,
            "notKept": taken.not_kept,
        },
        "rules": one.rules,
        "messages": len(one.messages),
        "evicted": one.evicted_items,
        "sentTokens": one.sent_tokens,
        "storedTokens": one.stored_tokens,
        "messagesHash": one.messages_hash,
        "metadata": None if one.metadata is None else one.metadata.document(),
    }


def _message(message: SentMessage) -> Document:
    origin = message.origin
    return {
        "role": str(message.role),
        "origin": str(origin.kind),
        "ordinal": origin.ordinal,
        "messageId": origin.message_id,
        "summaryId": origin.summary_id,
        "briefId": origin.brief_id,
        "storedTokens": origin.stored_tokens,
    }
