"""``engine``: the state that the 1.x engine keeps in the file, for people and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime

from lcm_core.base.engine_settings import EngineSettings
from lcm_core.base.errors import UsageError
from lcm_core.base.setting_values import Json
from lcm_core.base.times import iso_or_none, iso_z, sort_key
from lcm_core.base.values import to_json
from lcm_core.change.backup import default_target
from lcm_core.operations.debt import LABEL, plan_close_debt
from lcm_core.operations.engine_work import (
    BatchState,
    ConversationWork,
    EngineWork,
    Step,
    claimable,
    read_work,
    running,
    took,
)
from lcm_core.store.database import Reader
from lcm_core.store.engine_work import NodeRow, PreparedText, TurnCount, prepared_texts

from lcm_tui.cli import options
from lcm_tui.cli.answer import Answer, Run
from lcm_tui.cli.command import command, flag, option
from lcm_tui.cli.documents import Document, some_of
from lcm_tui.cli.kinds import ConversationName, Moment, Stamp
from lcm_tui.cli.options import Named, SqlFlags
from lcm_tui.cli.selecting import chosen, owner_if_named
from lcm_tui.tables.blocks import Note
from lcm_tui.tables.engine import conversation_work_blocks, work_blocks

#: What is said of a batch and of a node besides its state.
_BATCH = "conversation_id batch_id status failure start end published_at"
_NODE = (
    "start end planned_start planned_end summary_id tokens retries "
    "lease_owner lease_expires_at next_attempt_after failure ready_at"
)


@command("engine", examples=("engine", "engine 3 --include-content", "engine --json"))
@options.optional_conversation
@option("--at", Moment(), "TIME", "Time for ages and leases (default: now).")
@flag("--include-content", "Also show the prepared texts of one conversation; no model has received them.")
@flag(
    "--close-debt",
    "Close the compaction debt of an ended conversation, which no engine pays. Makes a backup first.",
)
@options.sql_flags()
def engine(
    run: Run,
    *,
    conversation: ConversationName | None,
    at: Stamp | None,
    include_content: bool,
    close_debt: bool,
    flags: SqlFlags,
) -> Answer:
    """Show prepared compactions and compaction debt; conversations that need attention come first."""
    if close_debt and conversation is None:
        raise options.no_conversation("engine")
    if close_debt and conversation is not None:
        return _close_debt(run, conversation, flags)
    if flags.apply:
        raise UsageError("engine --apply requires --close-debt.", details={"option": "apply"})
    if include_content and conversation is None:
        raise UsageError(
            f"--include-content needs a conversation: {options.by_what('engine')}.",
            details={"option": "include-content"},
        )
    moment = datetime.now(UTC) if at is None else at.moment(run.clock)
    work, texts = run.read(_load, run.settings.engine, conversation, moment, include_content)
    if conversation is not None:
        [one] = work.conversations
        blocks = conversation_work_blocks(run.time, work, one, texts)
    else:
        blocks = work_blocks(run.time, work)
    recorded = {
        "batches": work.rows.batches,
        "maintenance": work.rows.debts,
        "anchors": work.rows.anchors,
        "epochs": work.rows.epochs,
        "turns": work.rows.turns,
        "cursors": work.rows.cursors,
        "gaps": work.rows.gaps,
        "replayKeys": work.rows.replay_keys,
    }
    missing = [name for name, rows in recorded.items() if rows is None]
    data = work_document(work)
    if include_content:
        data = {**data, "prepared": [_text(one) for one in texts]}
    return run.answer("engine", data, blocks, not_recorded=missing)


def _close_debt(run: Run, named: Named, flags: SqlFlags) -> Answer:
    """Show what closing the debt of a conversation would do, or do it behind a backup."""
    from lcm_tui.cli import changing  # with what a change needs, 90 ms that looking does not
    from lcm_tui.flows.changes import ClosingDebt

    target = default_target(run.settings.database.value, label=LABEL)

    async def plan(reader: Reader) -> changing.Proposal:
        planned = await plan_close_debt(reader, (await chosen(reader, named)).conversation_id)
        note = Note(f"A backup is made before: {target}")
        return changing.Proposal((planned,), data={"backup": str(target)}, blocks=[note])

    return changing.run_change(run, "engine", ClosingDebt(plan, "", lambda _: target), flags)


async def _load(
    reader: Reader, engine: EngineSettings, named: Named | None, now: datetime, show_prepared: bool
) -> tuple[EngineWork, Sequence[PreparedText]]:
    owner = await owner_if_named(reader, named)
    work = await read_work(reader, engine, now, owner)
    return work, await prepared_texts(reader, work.rows.nodes) if show_prepared else []


def work_document(work: EngineWork) -> Document:
    """The state as the envelope's ``data`` (docs/spec/command.md, "Ours")."""
    batches = [batch for one in _by_id(work) for batch in one.batches]
    nodes = Counter(
        (batch.row.conversation_id, node.batch_id, node.depth or 0, node.status, node.kind)
        for batch in batches
        for node in batch.nodes
    )
    return {
        "now": iso_z(work.now),
        "prepares": work.prepares,
        "conversations": [_conversation(one) for one in work.conversations],
        "batches": [some_of(batch.row, _BATCH) for batch in batches],
        "nodes": [
            {"c": owner, "batch_id": batch, "kind": kind, "depth": depth, "status": status, "n": count}
            for (owner, batch, depth, status, kind), count in sorted(nodes.items())
        ],
        "claimableAtNow": [{"id": one.node_id, "c": one.conversation_id} for one in claimable(work)],
        "runningExpiredAtNow": [{"node_id": one.node_id} for one in running(work, expired=True)],
        "runningLiveAtNow": [{"node_id": one.node_id} for one in running(work, expired=False)],
        "anchors": to_json(work.rows.anchors or ()),
        "messagesWithoutTrustRow": [{"c": owner, "n": count} for owner, count in work.rows.without_anchor],
        "epochs": to_json(work.rows.epochs or ()),
        "maintenance": [_debt(one) for one in _by_id(work) if one.debt_row is not None],
        "turns": _turns(work.rows.turns or ()),
        "cursors": to_json(work.rows.cursors or ()),
        "gaps": to_json(work.rows.gaps or ()),
        "replayKeys": to_json(work.rows.replay_keys or ()),
        "took": to_json(took(work.conversations)),
        "unowned": work.unowned,
    }


def _by_id(work: EngineWork) -> list[ConversationWork]:
    return sorted(work.conversations, key=lambda one: one.conversation_id)


def _conversation(one: ConversationWork) -> Document:
    record, batch = one.conversation, one.batch
    return {
        "id": record.conversation_id,
        "k": record.session_key,
        "active": None if record.active is None else int(record.active),
        "cause": record.archive_cause,
        "need": one.need.name.lower(),
        "debt": one.debt.name.lower(),
        "work": None if batch is None else _work(batch),
        "lost": None
        if one.lost is None
        else {"batch_id": one.lost.row.batch_id, "failure_summary": one.lost.row.failure},
        "lastTurnAt": one.last_turn,
    }


def _work(batch: BatchState) -> Document:
    return {
        "batch_id": batch.row.batch_id,
        "prepared": len(batch.prepared),
        "nodes": [_node(batch, one) for one in batch.nodes],
        "tokens": batch.ready_tokens,
        "oldestReadyAt": iso_or_none(batch.oldest_ready),
        "published": len(batch.published),
        "publishable": bool(batch.publishable),
        "complete": batch.is_complete,
        "outdated": None if batch.outdated is None else batch.outdated.name.lower(),
        "changedBy": batch.changed_by,
        "publication": [_step(batch, one) for one in batch.publishable or batch.planned],
        "planned": [_step(batch, one) for one in batch.planned],
    }


def _node(batch: BatchState, node: NodeRow) -> Document:
    state = batch.state_of(node).name.lower()
    return {**some_of(node, "node_id kind depth status"), "state": state, **some_of(node, _NODE)}


def _step(batch: BatchState, step: Step) -> Document:
    messages, summaries = batch.replaced(step)
    return {
        "a": step.start,
        "z": step.end,
        "node_id": None if step.node is None else step.node.node_id,
        "keptSummaryId": step.summary_id,
        "replaces": {"messages": messages, "summaries": summaries},
    }


def _debt(one: ConversationWork) -> Document:
    active = one.conversation.active
    return {"c": None, "active": None if active is None else int(active), **to_json(one.debt_row)}


def _turns(turns: Sequence[TurnCount]) -> list[Json]:
    """The turns by session key, whose sessions follow each other."""
    by_key: dict[str | None, list[TurnCount]] = {}
    for one in turns:
        by_key.setdefault(one.session_key, []).append(one)
    return [
        {
            "k": key,
            "n": sum(one.turns for one in several),
            "messages": sum(one.messages for one in several),
            "first": min((one.first for one in several if one.first), key=sort_key, default=None),
            "last": max((one.last for one in several if one.last), key=sort_key, default=None),
        }
        for key, several in by_key.items()
    ]


def _text(one: PreparedText) -> Document:
    node = one.node
    return {
        "node_id": node.node_id,
        "batch_id": node.batch_id,
        "c": node.conversation_id,
        "status": node.status,
        "inConversation": False,
        "text": one.text,
    }
