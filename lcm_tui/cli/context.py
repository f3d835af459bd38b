"""``context``: what the model sees of a conversation, two of them compared, and what it was sent before."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from lcm_core.base.diff import unified_text
from lcm_core.base.errors import UsageError
from lcm_core.base.javascript import JsonObject
from lcm_core.base.records import Conversation, ConversationId, FocusBrief, SummaryId, Timestamp
from lcm_core.base.setting_values import Json
from lcm_core.base.text import counted, safe_text
from lcm_core.base.values import Record, replace, to_json
from lcm_core.engine.assembly import Assembled as Assembly
from lcm_core.engine.messages import SentMessage
from lcm_core.engine.rules import NAMED, engine_rules
from lcm_core.engine.sent import (
    ContextDiff,
    SentContext,
    api_request,
    compare_contexts,
    host_messages,
    markdown,
)
from lcm_core.engine.sessions import settings_for_session
from lcm_core.engine.wrapper import FocusOverlay
from lcm_core.operations.assembly import add_history, assemble_context, settings_for
from lcm_core.operations.snapshots import ComparedContext, read_sides, rebuild_snapshot
from lcm_core.operations.stale import read_wrong
from lcm_core.store.context import stored_tokens
from lcm_core.store.context_view import ContextView, read_context
from lcm_core.store.conversations import get_conversation
from lcm_core.store.database import Database, Reader
from lcm_core.store.focus import list_briefs
from lcm_core.store.listing import (
    DamagedSnapshot,
    Page,
    SnapshotItem,
    Window,
    get_snapshot,
    snapshot_page,
    summaries_created,
)
from lcm_core.store.remembered import FileMemory
from lcm_core.store.schema import Schema

from lcm_tui.cli import documents, options
from lcm_tui.cli.answer import BUSY_SECONDS, Answer, Outcome, Paging, Run
from lcm_tui.cli.command import command, flag, option
from lcm_tui.cli.documents import Document, MadeList, past_document
from lcm_tui.cli.kinds import (
    Choice,
    ConversationArgument,
    ConversationName,
    FilePath,
    Kind,
    Pair,
    Text,
    Tokens,
    invalid,
)
from lcm_tui.cli.options import Named
from lcm_tui.cli.output import write
from lcm_tui.cli.selecting import as_text, chosen, number_of, tail_rules
from lcm_tui.cli.working import point_of, run_at
from lcm_tui.kit.session import budget_for
from lcm_tui.kit.spans import text_of
from lcm_tui.tables.blocks import (
    Cell,
    Facts,
    Note,
    OutputBlock,
    json_names,
    json_of,
    list_table,
    not_recorded,
    shown,
)
from lcm_tui.tables.composition import bar_line, legend_line
from lcm_tui.tables.context import ITEM_COLUMNS, ItemRow, context_table
from lcm_tui.tables.conversation_rows import ROW_COLUMNS
from lcm_tui.tables.machine import json_text
from lcm_tui.tables.preview import BAR
from lcm_tui.tables.sent import (
    PASTED_COLUMNS,
    REPAIR_COLUMNS,
    SENT_COLUMNS,
    EvictedRow,
    assembled_blocks,
    pasted_rows,
    sent_rows,
)
from lcm_tui.tables.snapshots import (
    EMPTY,
    LISTED_COLUMNS,
    SNAPSHOT_COLUMNS,
    Listed,
    ShownSnapshot,
    snapshot_blocks,
)

if TYPE_CHECKING:
    from lcm_core.change.plan import Ref
    from lcm_core.operations.past import Since
    from lcm_core.operations.past_overlay import Past

# -- the items -----------------------------------------------------------------------------------------

_SENT = "As the model receives it"
_FORMS = Choice("json", "markdown")


#: What the context of a comparison may differ in.
_DIFFERENT: Final[Mapping[str, Kind[Any]]] = {
    "conversation": ConversationArgument(),
    "budget": Tokens(),
    "prompt": Text(),
    "rules": options.RULE_NAMES,
    "at": Text(empty=False),
    "db": FilePath(),
}


@command(
    "context",
    forms=("csv",),
    examples=(
        *("context 1 --budget 200k", "context 1 --assembled --export json"),
        *("context 1 --at 2026-03-02T10:00:00Z", "context 1 --compare budget=20k", "context 1 --snapshots"),
    ),
)
@options.needed_conversation
@options.budget
@option(
    "--at",
    Text(empty=False),
    "POINT",
    "As it was: before:OPERATION_ID, before:last, after:OPERATION_ID, a time, or the id of a snapshot.",
)
@flag("--snapshots", "List the contexts that an engine sent, newest first.")
@options.page_options
@flag(
    "--assembled",
    "Show the messages as sent under the budget, and what is left out; the options below do so too.",
    section=_SENT,
)
@option("--prompt", Text(), "TEXT", "Apply prompt-aware eviction with this prompt.", section=_SENT)
@options.rules_option(section=_SENT)
@flag(
    "--no-clamp",
    "Without the hard limit: the assembler's output before the engine's final trim.",
    section=_SENT,
)
@option(
    "--export",
    _FORMS,
    "|".join(_FORMS.words),
    "Print only the messages: a request for Anthropic's API, or Markdown.",
    section=_SENT,
)
@option(
    "--compare",
    Pair(*_DIFFERENT),
    "NAME=VALUE",
    "Compare it with another, by what is different of that: conversation=ID, budget=20k, prompt=TEXT "
    "(empty for none), rules=0.15, at=POINT (default: now), db=PATH (such as a backup); may be given several "
    "times.",
    section=_SENT,
    multiple=True,
)
def context(
    run: Run,
    *,
    conversation: ConversationName,
    budget: int | None,
    at: str | None,
    snapshots: bool,
    paged: options.PageOptions,
    assembled: bool,
    prompt: str | None,
    rules: str | None,
    no_clamp: bool,
    export: str | None,
    compare: tuple[tuple[str, str], ...],
) -> Outcome:
    """Show the items of a context; with --assembled, what the model receives; with --at, as it was."""
    if snapshots:
        options.alone("--snapshots", "--limit", "--cursor", "--format")
        return _list_snapshots(run, conversation, paged)
    if compare:
        options.alone("--compare", "--budget", "--at", "--prompt", "--rules", "--no-clamp")
        first = {"budget": budget, "at": at, "prompt": prompt, "rules": rules}
        return _compare(run, conversation, first, dict(compare), clamp=not no_clamp)
    if paged != options.PageOptions():
        raise UsageError("--limit and --cursor require --snapshots.", details={"option": "limit"})
    if at is not None and _is_snapshot(at):
        options.alone("--at")
        return show_snapshot(run, at, conversation)
    run = run_at(run, conversation, at)
    if assembled or no_clamp or not prompt is rules is export is None:
        asked = budget_for(run.settings, budget)
        owner, one = run.read_remembering(
            _load_whole, run, conversation, asked, prompt, rules, clamp=not no_clamp
        )
        if export is not None:
            _export(run, owner, one, export)
            return 0
        report = list(assembled_blocks(run.time, owner, one, asked, prompt))
        return run.answer("context", _assembled_document(owner, one), report)
    return _show_items(run, conversation, budget)


#: Items that the table for people lists, the newest ones.
MOST_LISTED = 2_000


class ShownContext(Record, frozen=True):
    """A context with everything that the command prints of it."""

    schema: Schema
    conversation: Conversation
    view: ContextView
    created: Mapping[SummaryId, Timestamp]  #: when its summaries were made
    briefs: list[FocusBrief]
    budget: int

    @property
    def share(self) -> float:
        """The part of the budget that the items take."""
        return round(self.view.totals.share(self.budget), 4)

    def item_document(self, place: int) -> Document:
        """An item as programs get it."""
        entry = self.view.entries[place]
        summary_id = entry.item.summary_id
        created = entry.said_at if summary_id is None else self.created.get(summary_id)
        return json_of(ITEM_COLUMNS, ItemRow(self.view, place, created))


def _show_items(run: Run, named: Named, budget: int | None) -> Answer:
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
    if run.past is not None and run.past.found is not None:
        from lcm_core.operations.past import since

        from lcm_tui.tables.past import since_blocks

        earlier, then = run.past.found.earlier, found.view.totals.tokens
        changed, now = since(earlier), replace(run, past=None).read(stored_tokens, earlier.refs_now)
        document["since"] = _since_document(changed, then, now)
        blocks = [*since_blocks(changed, then, now), *blocks]
    return run.answer("context", document, blocks, not_recorded=missing)


def _blocks(run: Run, found: ShownContext, named: Named) -> list[OutputBlock]:
    """The context, and how many of its items the model does not receive, when some are left out."""
    facts, *others = context_blocks(run, found)
    _, assembly = run.read(_load_assembled, run, named, found.budget)
    left_out, unseen = assembly.evicted_items, assembly.unseen.messages
    of_them = f", {counted(unseen, 'message')} of them in no summary" if unseen else ""
    said = f"{counted(left_out, 'item is', 'items are')} left out{of_them}; --assembled shows which, and why."
    return [facts, *([Note(said)] if left_out else []), *others]


async def load_context(reader: Reader, run: Run, named: Named, budget: int | None) -> ShownContext:
    """Read the context of a conversation; *budget* None means the configured one."""
    conversation = await chosen(reader, named)
    key = conversation.conversation_id
    rules = tail_rules(reader.schema, run.settings, conversation.session_key)
    view = await read_context(reader, key, rules, run.zone)
    summaries = [entry.item.summary_id for entry in view.entries if entry.item.summary_id is not None]
    return ShownContext(
        reader.schema,
        conversation,
        replace(
            view,
            entries=tuple(map(as_text, view.entries)),
            wrong=await read_wrong(reader, key, summaries),
        ),
        await summaries_created(reader, summaries),
        [as_text(brief) for brief in await list_briefs(reader, key)],
        budget_for(run.settings, budget),
    )


def context_document(found: ShownContext) -> Document:
    """The context as the envelope's ``data``."""
    totals = found.view.totals
    briefs: Document = (
        {"focusBriefs": [_brief(found, brief) for brief in found.briefs]} if found.briefs else {}
    )
    return {
        "conversation": documents.conversation(found.conversation),
        "items": MadeList(range(len(found.view.items)), found.item_document),
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
        said = f"{brief.brief_id}  {brief.status}, {shown(brief.tokens)} tokens"
        if over is not None:
            said += f", replaces {counted(len(over.covered), 'summary')} at ordinal {over.at_ordinal}"
        facts.append(("Focus brief", said))
    older = totals.items - MOST_LISTED
    left_out = [Note(f"The {older:,} older items are not listed; --json lists all.")] if older > 0 else []
    return [Facts(facts), *left_out, context_table(found.view, run.time, MOST_LISTED)]


def _composition(found: ShownContext) -> Iterator[tuple[str, Cell]]:
    """What the context is made of, in the letters that the app uses without colours."""
    groups = found.view.totals.groups
    if groups:
        yield "Made of", text_of(bar_line(groups, BAR, plain=True))
        yield "", text_of(legend_line(groups, found.view.tail, plain=True)).strip()


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


# -- the items ---assembled ----------------------------------------------------------------------------
# The messages that the model receives under a budget, and what it does not.


async def _load_assembled(
    reader: Reader,
    run: Run,
    named: Named,
    budget: int,
    prompt: str | None = None,
    rule_set: str | None = None,
    *,
    clamp: bool = True,
) -> tuple[Conversation, Assembly]:
    """Assemble a context under a budget in tokens."""
    from lcm_recall.cue import with_cue

    conversation = await chosen(reader, named)
    rules = engine_rules(reader.schema) if rule_set is None else NAMED[rule_set]
    now = datetime.now(UTC)
    owner = conversation.conversation_id
    assembly = await assemble_context(
        reader,
        owner,
        settings_for(
            settings_for_session(run.settings.engine, conversation.session_key),
            budget,
            prompt,
            clamp=clamp,
        ),
        zone=run.zone,
        rules=rules,
        now=now,
    )
    return conversation, await with_cue(reader, owner, assembly, prompt, rules, now)


async def _load_whole(
    reader: Reader,
    memory: FileMemory,
    run: Run,
    named: Named,
    budget: int,
    prompt: str | None,
    rule_set: str | None,
    *,
    clamp: bool,
) -> tuple[Conversation, Assembly]:
    """The same with what was ever said in the conversation."""
    found, assembly = await _load_assembled(reader, run, named, budget, prompt, rule_set, clamp=clamp)
    said = await memory.history_of(reader, found.conversation_id)
    return found, await add_history(reader, found.conversation_id, assembly, said)


def _export(run: Run, owner: Conversation, one: Assembly, form: str) -> None:
    """Write the messages to standard output; to a terminal without what it would obey."""
    terminal = sys.stdout.isatty()
    if form == "json":
        request = cast(JsonObject, api_request(one))
        text = json_text(request, pretty=run.presentation.pretty, for_terminal=terminal) + "\n"
    else:
        text = markdown(one, f"Conversation {owner.conversation_id}")
        text = safe_text(text) if terminal else text
    write(sys.stdout, text, utf8=True)


def _assembled_document(owner: Conversation, one: Assembly) -> Document:
    return {
        "conversation": documents.conversation(owner),
        **documents.some_of(one, "rules selection"),
        "items": [json_of(SENT_COLUMNS, row) for row in sent_rows(one)],
        "messages": list(host_messages(one)),
        "evicted": [EvictedRow(one, each).document for each in one.evicted],
        "unread": None
        if one.unread is None
        else documents.some_of(one.unread, "items summaries first_ordinal last_ordinal"),
        "unseen": {
            "messages": one.unseen.messages,
            "tokens": sum(one.unseen.tokens.values()),
            "ordinals": sorted(one.unseen.tokens),
            "unread": one.unseen.unread,
        },
        "pasted": [json_of(PASTED_COLUMNS, row) for row in pasted_rows(one)],
        "repairs": [json_of(REPAIR_COLUMNS, each) for each in one.repairs],
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


# -- two of them compared ----------------------------------------------------------------------------------
# What two contexts send to the model, and how they differ.


def _is_snapshot(at: str) -> bool:
    """Whether a point is a context that an engine sent, by its id."""
    return at.startswith("asm_")


def _compare(
    run: Run,
    named: ConversationName,
    asked: Mapping[str, Any],
    other: Mapping[str, str],
    *,
    clamp: bool,
) -> Answer:
    """Compare what two contexts send: two budgets, prompts, conversations or times."""
    from lcm_tui.tables.comparison import comparison_blocks
    from lcm_tui.tables.past import past_blocks

    differs = {name: _DIFFERENT[name].read(f"compare {name}", value) for name, value in other.items()}
    for name in ("budget", "prompt", "rules"):
        if _is_snapshot(asked.get("at") or "") and asked.get(name) is not None:
            raise invalid(name, "cannot be combined with --at SNAPSHOT: a snapshot has its own")
        if _is_snapshot(differs.get("at", "")) and name in differs:
            raise invalid("compare", f"{name} cannot be combined with a snapshot, which has its own")
    owner = run.read(number_of, named)
    beside = run.read(number_of, differs["conversation"]) if "conversation" in differs else owner
    old = _side(run, owner, asked, "at")
    new = _side(run, beside, {**asked, "at": None, **differs}, "compare")
    found = asyncio.run(_compared(run, old, new, clamp=clamp))
    blocks = list(comparison_blocks(run.time, found, old.name(beside=new), new.name(beside=old)))
    for side in (old, new):
        if side.past is not None and side.past.found is not None:
            blocks += past_blocks(run.time, side.past.found)
    return run.answer("context", _comparison_document(found, old, new), blocks)


def _side(run: Run, owner: ConversationId, values: Mapping[str, Any], option: str) -> _Side:
    """A context as *values* ask for it."""
    from lcm_core.operations.past_overlay import Past

    at = values["at"]
    snapshot = at if at is not None and _is_snapshot(at) else None
    past = None if at in (None, "now", snapshot) else Past(owner, point_of(run, at, option))
    path = values.get("db", run.settings.database.value)
    return _Side(owner, path, values["budget"], snapshot, values["prompt"], values["rules"], past)


class _Side(Record, frozen=True):
    """A context as it was asked for."""

    conversation_id: ConversationId
    path: Path
    budget: int | None
    snapshot: str | None
    prompt: str | None
    rules: str | None
    past: Past | None  #: it is read as it was then

    def name(self, *, beside: _Side) -> str:
        """Which conversation it is of, with its database where that of the other is another one."""
        where = f" in {self.path}" if self.path != beside.path else ""
        then = f" {self.past.point.text}" if self.past is not None else ""
        return f"conversation {self.conversation_id}{then}{where}"

    def to_compare(self, run: Run, *, clamp: bool) -> ComparedContext:
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


async def _compared(run: Run, old: _Side, new: _Side, *, clamp: bool) -> ContextDiff:
    """Both contexts as of one moment when they are of one database."""
    first, second = (side.to_compare(run, clamp=clamp) for side in (old, new))
    if old.path == new.path and old.past is new.past is None:
        left, right = await _read(run, old, [first, second])
    elif new.snapshot is not None:
        [right] = await _read(run, new, [second])
        [left] = await _read(run, old, [_under(first, right)])
    else:
        [left] = await _read(run, old, [first])
        [right] = await _read(run, new, [_under(second, left)])
    return compare_contexts(left, right)


def _under(side: ComparedContext, other: SentContext) -> ComparedContext:
    """The side under the budget of the other one, when that is a snapshot and no budget was given."""
    if other.taken is None or not side.budget_of_snapshot:
        return side
    return replace(side, settings=replace(side.settings, budget=other.budget))


async def _read(run: Run, side: _Side, contexts: Sequence[ComparedContext]) -> list[SentContext]:
    opening = Database.open if side.past is None else side.past.open
    async with await opening(side.path, busy_seconds=BUSY_SECONDS) as database:
        return await database.read(read_sides, contexts, run.zone, with_history=True)


def _comparison_document(found: ContextDiff, old: _Side, new: _Side) -> Document:
    first = dict(zip(found.old_text.keys, found.old.messages, strict=True))
    second = dict(zip(found.new_text.keys, found.new.messages, strict=True))
    return {
        "first": _side_document(found.old, old),
        "second": _side_document(found.new, new),
        "messages": {
            "onlyFirst": [_message(first[key]) for key in found.only_old],
            "onlySecond": [_message(second[key]) for key in found.only_new],
            "changed": [_message(second[key]) for key in found.changed],
            "same": found.same,
        },
        "lines": documents.some_of(found.diff, "removed added"),
        "diff": list(unified_text(found.diff)),
    }


def _side_document(one: SentContext, side: _Side) -> Document:
    taken, past = one.taken, side.past
    return {
        "databasePath": str(side.path),
        "conversationId": side.conversation_id,
        "past": None if past is None or past.found is None else past_document(past.found),
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


# -- snapshots -----------------------------------------------------------------------------------
# What a running engine gave to its host, and what of it can be shown again.


def _list_snapshots(run: Run, conversation: ConversationName, paged: options.PageOptions) -> Answer:
    """List the contexts that an engine sent, newest first."""
    window = options.window(run, "snapshots", paged)
    owner, page = run.read(_load_snapshots, conversation, window)
    data: Document = {
        "conversation": documents.conversation(owner),
        "items": [_listed(one) for one in page.items],
    }
    damaged = [one for one in page.items if isinstance(one, DamagedSnapshot)]
    return run.answer(
        "context",
        data,
        [
            list_table(LISTED_COLUMNS, page.items, run.time, empty=EMPTY),
            *(Note(safe_text(one.problem)) for one in damaged),
        ],
        paging=Paging("snapshots", window.limit, len(page.items), page.next),
        names=json_names(LISTED_COLUMNS),
    )


async def _load_snapshots(
    reader: Reader, named: ConversationName, window: Window
) -> tuple[Conversation, Page[Listed]]:
    conversation = await chosen(reader, named)
    return conversation, await snapshot_page(reader, conversation.conversation_id, window)


def show_snapshot(run: Run, snapshot_id: str, owner: ConversationName | None = None) -> Answer:
    """Show what was sent, from the rows that still exist; of an *owner*, if that is given."""
    one = run.read(_load_snapshot, run, snapshot_id, owner)
    return run.answer("context", _snapshot_document(one), list(snapshot_blocks(run.time, one)))


async def _load_snapshot(
    reader: Reader, run: Run, snapshot_id: str, owner: ConversationName | None
) -> ShownSnapshot:
    named = None if owner is None else await number_of(reader, owner)
    one = await get_snapshot(reader, named, snapshot_id)
    conversation = as_text(await get_conversation(reader, one.conversation_id))
    return ShownSnapshot(conversation, one, await rebuild_snapshot(reader, one, run.zone))


def _listed(one: Listed) -> Document:
    """Every entry says whether it is damaged; one that is has nothing else to say."""
    found = json_of(LISTED_COLUMNS, one)
    if isinstance(one, DamagedSnapshot):
        return {name: found[name] for name in ("id", "createdAt", "damaged")}
    return found


def _snapshot_document(one: ShownSnapshot) -> Document:
    found = one.found
    return {
        "conversation": documents.conversation(one.conversation),
        "snapshot": json_of(SNAPSHOT_COLUMNS, one.snapshot),
        "items": [_snapshot_item(each) for each in one.snapshot.sent],
        "mendedAway": [_snapshot_item(each) for each in one.snapshot.dropped],
        "finalClamp": [_snapshot_item(each) for each in one.snapshot.cut],
        "exact": found.exact,
        "gone": [_snapshot_item(each) for each in found.gone],
        "notKept": found.not_kept,
        "messages": [message.document() for message in found.messages],
    }


def _snapshot_item(one: SnapshotItem) -> Document:
    return {"origin": str(one.kind), **documents.some_of(one, "ordinal ref tokens")}
