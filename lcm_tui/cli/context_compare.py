"""A context at other times and beside others: ``--at``, ``context compare`` and ``context snapshots``."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path

from lcm_core.base.diff import unified_text
from lcm_core.base.errors import UsageError
from lcm_core.base.records import Conversation, ConversationId
from lcm_core.base.setting_values import Json
from lcm_core.base.text import safe_text
from lcm_core.base.values import Record, replace
from lcm_core.change.journal import Operation
from lcm_core.change.plan import Ref
from lcm_core.engine.compare import ContextDiff, SentContext, compare_contexts
from lcm_core.engine.messages import SentMessage
from lcm_core.engine.rules import NAMED
from lcm_core.operations.assembly import settings_for
from lcm_core.operations.past import Since, since
from lcm_core.operations.past_overlay import Past
from lcm_core.operations.past_point import FORMS, Point, parse_point
from lcm_core.operations.snapshots import ComparedContext, read_sides, rebuild_snapshot
from lcm_core.store.context import stored_tokens
from lcm_core.store.database import Database, Reader
from lcm_core.store.listing import (
    DamagedSnapshot,
    Page,
    SnapshotItem,
    Window,
    get_snapshot,
    snapshot_page,
)

from lcm_tui.cli import documents
from lcm_tui.cli.answer import BUSY_SECONDS, Answer, Paging, Run
from lcm_tui.cli.context import context_blocks, context_document, load_context
from lcm_tui.cli.documents import Document
from lcm_tui.cli.kinds import invalid
from lcm_tui.cli.options import Selector
from lcm_tui.cli.past_told import past_document
from lcm_tui.cli.selecting import chosen
from lcm_tui.kit.session import budget_for
from lcm_tui.tables.blocks import Note, json_names, json_of, list_table
from lcm_tui.tables.comparison import comparison_blocks
from lcm_tui.tables.past import past_blocks, since_blocks
from lcm_tui.tables.snapshots import (
    EMPTY,
    LISTED_COLUMNS,
    SNAPSHOT_COLUMNS,
    Listed,
    ShownSnapshot,
    snapshot_blocks,
)

# -- the past (--at) -------------------------------------------------------------------------------------
# A command over a conversation as it was.


def point_of(run: Run, written: str, option: str = "at") -> Point:
    """A point as it was typed.

    Raises:
        UsageError: it is none.
    """
    point = parse_point(written, run.clock)
    if point is None:
        raise invalid(option, f"must be {FORMS}", written)
    return point


async def owner_of(reader: Reader, named: Selector) -> ConversationId:
    """The conversation that was named; by its number also when it is gone.

    Raises:
        NotFoundError: no conversation has that session key.
    """
    if named.session_key is None:
        return named.conversation_id or ConversationId(0)
    return (await chosen(reader, named)).conversation_id


def run_over(run: Run, named: Selector, written: str) -> Run:
    """The run over the database as it was.

    Raises:
        UsageError: what was typed is no point.
        NotFoundError: no conversation has that session key.
    """
    point = point_of(run, written)
    return replace(run, past=Past(run.read(owner_of, named), point))


def show_before(run: Run, operation: Operation) -> Answer:
    """The context before an operation, and what changed since.

    Raises:
        UsageError: the operation is noted under no single conversation.
    """
    owner = operation.conversation_id
    if owner is None:
        raise UsageError(
            f"Operation {operation.id} changed several conversations. Choose one: `lcm-tui context show "
            f"CONVERSATION_ID --at before:{operation.id}`.",
            details={"option": "at"},
        )
    named = Selector(ConversationId(owner), None)
    past = replace(run, past=Past(ConversationId(owner), Point(operation.id)))
    shown = past.read(load_context, past, named, None)
    assert past.past is not None
    assert past.past.found is not None
    changed = since(past.past.found.earlier)
    now = run.read(stored_tokens, past.past.found.earlier.refs_now)
    document: Document = {
        "context": context_document(shown),
        "since": _since_document(changed, shown.view.totals.tokens, now),
    }
    blocks = [*since_blocks(changed, shown.view.totals.tokens, now), *context_blocks(past, shown)]
    return past.answer("history.show", document, blocks)


def _since_document(changed: Since, then: int, now: int) -> Document:
    return {
        "tokens": {"then": then, "now": now},
        "leftContext": _ids(changed.left),
        "joinedContext": _ids(changed.joined),
        "summariesMade": list(changed.made),
        "summariesGone": list(changed.gone),
        "summariesChanged": list(changed.changed),
    }


def _ids(refs: Sequence[Ref]) -> list[Json]:
    """Items by what they represent: message ids, and the ids of summaries."""
    return [ref for ref in refs if isinstance(ref, int | str)]


# -- context compare -------------------------------------------------------------------------------------
# What two contexts send to the model, and how they differ.


class _Asked(Record, frozen=True):
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


class Wanted(Record, frozen=True):
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


# -- a comparison as JSON --------------------------------------------------------------------------------


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
        "lines": documents.some_of(found.diff, "removed added"),
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
        else {"id": taken.snapshot_id, **documents.some_of(taken, "created_at exact gone not_kept")},
        "rules": one.rules,
        "messages": len(one.messages),
        "evicted": one.evicted_items,
        **documents.some_of(one, "sent_tokens stored_tokens messages_hash"),
        "metadata": None if one.metadata is None else one.metadata.document(),
    }


def _message(message: SentMessage) -> Document:
    origin = message.origin
    return {
        "role": str(message.role),
        "origin": str(origin.kind),
        **documents.some_of(origin, "ordinal message_id summary_id brief_id stored_tokens"),
    }


# -- context snapshots -----------------------------------------------------------------------------------
# What a running engine gave to its host, and what of it can be shown again.


def show_snapshot(run: Run, named: Selector, snapshot_id: str) -> Answer:
    """One snapshot, as far as its rows still stand."""
    shown = run.read(_load, run, named, snapshot_id)
    return run.answer("context.snapshots", _shown_document(shown), list(snapshot_blocks(run.time, shown)))


def snapshots(run: Run, named: Selector, window: Window) -> Answer:
    """A page of the snapshots of a conversation."""
    owner, page = run.read(_list, named, window)
    data: Document = {
        "conversation": documents.conversation(owner),
        "items": [_listed(one) for one in page.items],
    }
    return run.answer(
        "context.snapshots",
        data,
        [
            list_table(LISTED_COLUMNS, page.items, run.time, empty=EMPTY),
            *(Note(safe_text(one.problem)) for one in _damaged(page.items)),
        ],
        paging=Paging("snapshots", window.limit, len(page.items), page.next),
        names=json_names(LISTED_COLUMNS),
    )


async def _list(reader: Reader, named: Selector, window: Window) -> tuple[Conversation, Page[Listed]]:
    owner = await chosen(reader, named)
    return owner, await snapshot_page(reader, owner.conversation_id, window)


async def _load(reader: Reader, run: Run, named: Selector, snapshot_id: str) -> ShownSnapshot:
    owner = await chosen(reader, named)
    one = await get_snapshot(reader, owner.conversation_id, snapshot_id)
    return ShownSnapshot(owner, one, await rebuild_snapshot(reader, one, run.zone))


# -- a snapshot as JSON ----------------------------------------------------------------------------------


def _damaged(found: Sequence[Listed]) -> Iterator[DamagedSnapshot]:
    return (one for one in found if isinstance(one, DamagedSnapshot))


def _listed(one: Listed) -> Document:
    """Every entry says whether it is damaged; one that is has nothing else to say."""
    found = json_of(LISTED_COLUMNS, one)
    if isinstance(one, DamagedSnapshot):
        return {name: found[name] for name in ("id", "createdAt", "damaged")}
    return found


def _item(one: SnapshotItem) -> Document:
    return {"origin": str(one.kind), **documents.some_of(one, "ordinal ref tokens")}


def _shown_document(shown: ShownSnapshot) -> Document:
    found = shown.found
    return {
        "conversation": documents.conversation(shown.conversation),
        "snapshot": json_of(SNAPSHOT_COLUMNS, shown.snapshot),
        "items": [_item(one) for one in shown.snapshot.sent],
        "mendedAway": [_item(one) for one in shown.snapshot.dropped],
        "finalClamp": [_item(one) for one in shown.snapshot.cut],
        "exact": found.exact,
        "gone": [_item(one) for one in found.gone],
        "notKept": found.not_kept,
        "messages": [message.document() for message in found.messages],
    }
