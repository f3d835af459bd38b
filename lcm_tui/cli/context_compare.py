"""``context compare``: what two contexts send to the model, and how they differ."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, TypeAlias

import typer
from lcm_core.assemble.compare import ContextDiff, SentContext, SnapshotOrigin, compare_contexts, names_of
from lcm_core.assemble.ledger import MessageKey
from lcm_core.assemble.message import SentMessage
from lcm_core.assembly import settings_for
from lcm_core.diff import unified_text
from lcm_core.engine_rules import NAMED, EngineRules
from lcm_core.records import ConversationId
from lcm_core.snapshots import ComparedContext, read_sides
from lcm_core.store.database import Database
from lcm_core.text import safe_text

from lcm_tui.cli import options
from lcm_tui.cli.answer import BUSY_SECONDS, Answer, Run
from lcm_tui.cli.documents import Document
from lcm_tui.cli.readable import Block, Facts, Note, Prose, counted
from lcm_tui.cli.registry import command
from lcm_tui.cli.rules import known_rules, rules_option
from lcm_tui.session import budget_for

_FIRST = "The first context"
_PANEL = "The second context"
_BOTH = "Both"
#: Messages that a line for people names.
MOST_NAMED = 8

First: TypeAlias = Annotated[
    str, typer.Argument(metavar="CONVERSATION_ID", help="The conversation of the first context.")
]
Second: TypeAlias = Annotated[
    str | None,
    typer.Argument(metavar="[OTHER_ID]", help="That of the second one; by default the same."),
]
BudgetA: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--budget",
        metavar="TOKENS",
        help="Its budget; else that of the snapshot it is compared with, else as configured.",
        rich_help_panel=_FIRST,
    ),
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


Snapshot: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--snapshot",
        metavar="SNAPSHOT_ID",
        help="It as it was when this snapshot was kept (`context snapshots` lists them).",
        rich_help_panel=_FIRST,
    ),
]
SnapshotB: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--snapshot-b",
        metavar="SNAPSHOT_ID",
        help="It as it was when this snapshot was kept.",
        rich_help_panel=_PANEL,
    ),
]
Prompt: TypeAlias = Annotated[str | None, options.prompt_option(panel=_FIRST)]
PromptB: TypeAlias = Annotated[
    str | None,
    options.prompt_option("--prompt-b", "Its prompt; by default the same, '' for none.", panel=_PANEL),
]
RulesA: TypeAlias = Annotated[str | None, rules_option(panel=_FIRST)]
RulesB: TypeAlias = Annotated[
    str | None,
    rules_option("--rules-b", "Its rules; by default the same.", panel=_PANEL),
]
NoClamp: TypeAlias = Annotated[bool, options.no_clamp_option(panel=_BOTH)]


@dataclass(frozen=True, slots=True)
class _Asked:
    """A context as it was asked for."""

    side: ComparedContext
    path: Path


def register(group: typer.Typer) -> None:
    """Add the command to the ``context`` group."""
    command(group, "compare")(compare)


def compare(
    run: Run,
    conversation: First,
    other: Second = None,
    budget: BudgetA = None,
    snapshot: Snapshot = None,
    prompt: Prompt = None,
    rules: RulesA = None,
    budget_b: BudgetB = None,
    snapshot_b: SnapshotB = None,
    prompt_b: PromptB = None,
    rules_b: RulesB = None,
    db_b: DatabaseB = None,
    no_clamp: NoClamp = False,
) -> Answer:
    """Compare what two contexts send: two budgets, prompts, conversations or times.

    An earlier time is a snapshot that an engine kept, or a backup.
    """
    _refuse_beside_snapshot(snapshot, "snapshot", {"budget": budget, "prompt": prompt, "rules": rules})
    _refuse_beside_snapshot(
        snapshot_b, "snapshot-b", {"budget-b": budget_b, "prompt-b": prompt_b, "rules-b": rules_b}
    )
    number = options.whole_number("CONVERSATION_ID", conversation, 1)
    other_number = number if other is None else options.whole_number("OTHER_ID", other, 1)
    here = run.settings.database.value
    there = here if db_b is None else Path(db_b).expanduser()
    first = _Wanted(run, budget, snapshot, prompt, _rules(rules, "rules"), not no_clamp)
    second = replace(
        first,
        budget=budget if budget_b is None else budget_b,
        option="budget-b" if budget_b is not None else "budget",
        snapshot=snapshot_b,
        prompt=prompt if prompt_b is None else prompt_b,
        rules=_rules(rules, "rules") if rules_b is None else _rules(rules_b, "rules-b"),
    )
    old, new = _Asked(first.side(number), here), _Asked(second.side(other_number), there)
    found = asyncio.run(_compared(run, old, new))
    return run.answer("context.compare", _document(found, old, new), list(_blocks(run, found, old, new)))


def _refuse_beside_snapshot(snapshot: str | None, option: str, others: Mapping[str, str | None]) -> None:
    for name, value in others.items():
        if snapshot is not None and value is not None:
            raise options.invalid(name, f"cannot be combined with --{option}: a snapshot has its own")


def _rules(name: str | None, option: str) -> EngineRules | None:
    known = known_rules(name, option)
    return None if known is None else NAMED[known]


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What the options say of one of the contexts."""

    run: Run
    budget: str | None
    snapshot: str | None
    prompt: str | None
    rules: EngineRules | None
    clamp: bool
    option: str = "budget"

    def side(self, number: int) -> ComparedContext:
        """It, of a conversation."""
        for name, value in (("--prompt", self.prompt), ("--snapshot", self.snapshot)):
            if value is not None:
                options.readable_text(name, value)
        given = None if self.budget is None else options.budget_of(self.budget, self.option)
        settings = settings_for(
            self.run.settings.engine,
            budget_for(self.run.settings, given),
            self.prompt or None,
            clamp=self.clamp,
        )
        return ComparedContext(
            ConversationId(number),
            settings,
            self.rules,
            snapshot_id=self.snapshot,
            budget_of_snapshot=given is None,
        )


async def _compared(run: Run, old: _Asked, new: _Asked) -> ContextDiff:
    """Both contexts as of one moment when they are of one database."""
    if old.path == new.path:
        left, right = await _read(run, old.path, [old.side, new.side])
    elif new.side.snapshot_id is not None:
        [right] = await _read(run, new.path, [new.side])
        [left] = await _read(run, old.path, [_under(old.side, right)])
    else:
        [left] = await _read(run, old.path, [old.side])
        [right] = await _read(run, new.path, [_under(new.side, left)])
    return compare_contexts(left, right)


def _under(side: ComparedContext, other: SentContext) -> ComparedContext:
    """The side under the budget of the other one, when that is a snapshot and no budget was given."""
    if other.taken is None or not side.budget_of_snapshot:
        return side
    return replace(side, settings=replace(side.settings, budget=other.budget))


async def _read(run: Run, path: Path, sides: Sequence[ComparedContext]) -> list[SentContext]:
    async with await Database.open(path, busy_seconds=BUSY_SECONDS) as database:
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


# -- for people ------------------------------------------------------------------------------------------


def _blocks(run: Run, found: ContextDiff, old: _Asked, new: _Asked) -> Iterator[Block]:
    yield Facts(
        [
            ("- first", _told(run, found.old, old, with_path=old.path != new.path)),
            ("+ second", _told(run, found.new, new, with_path=old.path != new.path)),
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


def _told(run: Run, one: SentContext, named: _Asked, *, with_path: bool) -> str:
    who = f"conversation {named.side.conversation_id}" + (f" in {named.path}" if with_path else "")
    if one.taken is not None:
        who += f", {taken_words(one.taken, run.time(one.taken.created_at) or '')}"
    sent = f"{counted(len(one.messages), 'message', 'messages')}, {one.sent_tokens:,} tokens"
    left_out = f"{counted(one.evicted_items, 'item', 'items')} not sent"
    return f"{who}, {one.budget:,} tokens: {sent}; {left_out}"


def taken_words(taken: SnapshotOrigin, time: str) -> str:
    """A snapshot, and what of it is shown."""
    lost = [
        f"{counted(taken.gone, 'message', 'messages')} gone" if taken.gone else "",
        f"{counted(taken.not_kept, 'message', 'messages')} of the host's own list" if taken.not_kept else "",
    ]
    how = " and ".join(filter(None, lost)) or ("" if taken.exact else "rows changed since")
    return f"snapshot {safe_text(taken.snapshot_id)} of {time}" + (f" ({how})" if how else "")


def _named(keys: Sequence[MessageKey]) -> str:
    if not keys:
        return "nothing"
    more = f" and {len(keys) - MOST_NAMED:,} more" if len(keys) > MOST_NAMED else ""
    return f"{counted(len(keys), 'message', 'messages')}: {', '.join(names_of(keys[:MOST_NAMED]))}{more}"
