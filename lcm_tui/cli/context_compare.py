"""``context compare``: what two contexts send to the model, and how they differ."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, TypeAlias

import typer
from lcm_core.assemble.compare import ContextDiff, compare_contexts, names_of
from lcm_core.assemble.ledger import MessageKey
from lcm_core.assemble.message import SentMessage
from lcm_core.assemble.result import Assembled
from lcm_core.assembly import settings_for
from lcm_core.comparing import Side, read_sides
from lcm_core.diff import unified_text
from lcm_core.records import ConversationId
from lcm_core.store.database import Database

from lcm_tui.cli import options
from lcm_tui.cli.answer import BUSY_SECONDS, Answer, Run
from lcm_tui.cli.documents import Document
from lcm_tui.cli.readable import Block, Facts, Note, Prose, counted
from lcm_tui.cli.registry import command

_PANEL = "The second context"
#: Messages that a line for people names.
NAMED = 8

First: TypeAlias = Annotated[
    str, typer.Argument(metavar="CONVERSATION_ID", help="The conversation of the first context.")
]
Second: TypeAlias = Annotated[
    str | None,
    typer.Argument(metavar="[OTHER_ID]", help="That of the second one; by default the same."),
]
BudgetB: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--budget-b", metavar="TOKENS", help="Its budget; by default the same.", rich_help_panel=_PANEL
    ),
]
DatabaseB: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--db-b",
        metavar="PATH",
        help="Its database; a backup shows how a context was at that time.",
        rich_help_panel=_PANEL,
    ),
]


@dataclass(frozen=True, slots=True)
class _Asked:
    """A context as it was asked for."""

    side: Side
    path: Path


def register(group: typer.Typer) -> None:
    """Add the command to the ``context`` group."""
    command(group, "compare")(compare)


def compare(
    run: Run,
    conversation: First,
    other: Second = None,
    budget: options.Budget = None,
    budget_b: BudgetB = None,
    db_b: DatabaseB = None,
) -> Answer:
    """Compare what two contexts send: two budgets, two conversations, or now and a backup."""
    first_budget = _budget(run, budget)
    second_budget = first_budget if budget_b is None else options.budget_of(budget_b, "budget-b")
    number = options.whole_number("conversation-id", conversation, 1)
    other_number = number if other is None else options.whole_number("conversation-id", other, 1)
    here = run.settings.database.value
    there = here if db_b is None else Path(db_b).expanduser()
    old = _Asked(_side(run, number, first_budget), here)
    new = _Asked(_side(run, other_number, second_budget), there)
    found = asyncio.run(_compared(run, old, new))
    return run.answer("context.compare", _document(found, old, new), list(_blocks(found, old, new)))


def _budget(run: Run, given: str | None) -> int:
    from lcm_tui.cli.context import budget_for

    return budget_for(run, None if given is None else options.budget_of(given))


def _side(run: Run, number: int, budget: int) -> Side:
    settings = replace(settings_for(run.settings.engine, budget), clamp=True)
    return Side(ConversationId(number), settings)


async def _compared(run: Run, old: _Asked, new: _Asked) -> ContextDiff:
    """Both contexts as of one moment when they are of one database."""
    if old.path == new.path:
        left, right = await _read(run, old.path, [old.side, new.side])
    else:
        [left] = await _read(run, old.path, [old.side])
        [right] = await _read(run, new.path, [new.side])
    return compare_contexts(left, right)


async def _read(run: Run, path: Path, sides: Sequence[Side]) -> list[Assembled]:
    async with await Database.open(path, busy_seconds=BUSY_SECONDS) as database:
        return await database.read(read_sides, sides, run.zone)


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


def _context(one: Assembled, named: _Asked) -> Document:
    return {
        "databasePath": str(named.path),
        "conversationId": named.side.conversation_id,
        "budget": one.budget,
        "rules": one.rules,
        "messages": len(one.messages),
        "evicted": one.evicted_items,
        "sentTokens": one.sent_tokens,
        "storedTokens": one.stored_tokens,
        "messagesHash": one.messages_hash,
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


# -- for people ------------------------------------------------------------------------------------------


def _blocks(found: ContextDiff, old: _Asked, new: _Asked) -> Iterator[Block]:
    yield Facts(
        [
            ("- first", _told(found.old, old, with_path=old.path != new.path)),
            ("+ second", _told(found.new, new, with_path=old.path != new.path)),
            ("Only in the first", _named(found.only_old)),
            ("Only in the second", _named(found.only_new)),
            ("Changed", _named(found.changed)),
            ("Alike", counted(found.same, "message", "messages")),
        ]
    )
    if found.diff.hunks:
        yield Prose("\n".join(unified_text(found.diff)))
    else:
        yield Note("Both send exactly the same.")


def _told(one: Assembled, named: _Asked, *, with_path: bool) -> str:
    where = f" in {named.path}" if with_path else ""
    sent = f"{counted(len(one.messages), 'message', 'messages')}, {one.sent_tokens:,} tokens"
    left_out = f"{counted(one.evicted_items, 'item', 'items')} not sent"
    return f"conversation {named.side.conversation_id}{where}, {one.budget:,} tokens: {sent}; {left_out}"


def _named(keys: Sequence[MessageKey]) -> str:
    if not keys:
        return "nothing"
    more = f" and {len(keys) - NAMED:,} more" if len(keys) > NAMED else ""
    return f"{counted(len(keys), 'message', 'messages')}: {', '.join(names_of(keys[:NAMED]))}{more}"
