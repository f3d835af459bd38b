"""What the 1.x engine prepares, owes and has committed, in words; and blocks of a view as a document."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Final

from lcm_core.base.text import counted
from lcm_core.base.times import age, parse_utc
from lcm_core.operations.engine_work import (
    MOST_RETRIES,
    PROOF,
    BatchState,
    ConversationWork,
    DebtState,
    EngineWork,
    Need,
    NodeState,
    Outdated,
    Spread,
    Step,
    took,
)
from lcm_core.store.engine_work import NodeRow, PreparedText

from lcm_tui.kit.spans import Block as Piece
from lcm_tui.kit.spans import Document, heading, text_field
from lcm_tui.tables.blocks import (
    Cell,
    Facts,
    ListColumn,
    Mark,
    Note,
    OutputBlock,
    OutputColumn,
    Prose,
    Table,
    Verbatim,
    When,
    fact_field,
    list_table,
    seconds_text,
    shown,
)

# -- blocks as a document --------------------------------------------------------------------------------
# Facts as fields, a table's rows as lines that may be wrapped.

#: Cells that the name of a fact takes at most.
NAMES = 20


def document_of(blocks: Iterable[OutputBlock]) -> Document:
    """The same as a document. Values that are not recorded say that it is this version that does not."""
    pieces: list[Piece] = []
    for block in blocks:
        if pieces:
            pieces.append(Piece())
        pieces += _pieces(block)
    return tuple(pieces)


def _pieces(block: OutputBlock) -> Iterator[Piece]:
    if isinstance(block, Facts | Table | Prose) and block.title:
        yield heading(block.title)
    match block:
        case Facts():
            width = min(NAMES, max((len(name) for name, _ in block.rows), default=0) + 2)
            yield from (fact_field(name, value, width) for name, value in block.rows)
        case Table():
            yield from map(_row, block.rows)
            if not block.rows:
                yield Piece(block.empty, "dim")
        case Note():
            yield Piece(block.text, "dim")
        case Prose() | Verbatim():
            yield Piece(block.text)


def _row(row: Sequence[Cell]) -> Piece:
    first, *rest = row
    return text_field(shown(first), "  ".join(shown(one) for one in rest if one is not None), width=10)


# -- the engine's work -----------------------------------------------------------------------------------
# Every conversation on a line, and one in full. A prepared text is never shown as part of a conversation:
# it has a heading of its own (docs/spec/prepared.md, "Batches and nodes").

PREPARES_NOTHING: Final = (
    "The engine version of this database prepares nothing: it compacts when compaction is due."
)
NOT_SENT: Final = "Prepared, not part of the conversation: no model has received it"
_MANY: Final = {"prepared summary": "prepared summaries", "batch": "batches"}
#: Why a conversation stands where it does in the list.
NEEDS: Final = {
    Need.EXPIRED_LEASE: "a worker died holding a lease",
    Need.OLD_RUN: "a run died with its process",
    Need.FAILED_DEBT: "compaction failed, never retried",
    Need.LOST_BY_FAILURE: "preparing failed for good",
    Need.DUE_WITHOUT_BATCH: "noted as due, nothing is prepared",
    Need.NOTHING: None,
}


def work_blocks(when: When, work: EngineWork) -> list[OutputBlock]:
    """Every conversation, what needs a look first."""

    def prepared(one: ConversationWork) -> str | None:
        return prepared_words(one) if work.prepares else None

    columns: tuple[ListColumn[ConversationWork, None], ...] = (
        ListColumn("conversation", heading="Conv.", right=True, value="conversation_id", text=str),
        ListColumn("key", heading="Session key", grows=True, value="conversation.session_key"),
        ListColumn("need", heading="Needs attention", grows=True, value=lambda one: NEEDS[one.need]),
        ListColumn("prepared", heading="Prepared", grows=True, value=prepared),
        ListColumn("debt", heading="Debt", grows=True, value=lambda one: debt_words(when, one)),
        ListColumn("turn", heading="Last turn", spare=1, value="last_turn", time=True),
    )
    return [list_table(columns, work.conversations, when, empty="No conversations."), *_notes(work)]


def _notes(work: EngineWork) -> list[Note]:
    notes = [] if work.prepares else [Note(PREPARES_NOTHING)]
    times = took_words(work.conversations)
    if times is not None:
        notes.append(Note(f"How long compactions took: {times}."))
    if work.unowned:
        rows = counted(work.unowned, "row belongs", "rows belong")
        notes.append(Note(f"{rows} to a conversation or batch that does not exist; they are not shown here."))
    return notes


def conversation_work_blocks(
    when: When, work: EngineWork, one: ConversationWork, texts: Sequence[PreparedText] = ()
) -> list[OutputBlock]:
    """One conversation in full, with prepared texts where they were asked for."""
    blocks: list[OutputBlock] = [Facts(_facts(when, work, one))]
    batch = one.batch
    if batch is not None:
        blocks += [*_publication(batch), _nodes(when, batch)]
        if batch.published:
            blocks.append(_published(when, batch))
    if one.gaps:
        blocks.append(_gaps(when, one))
    return [*blocks, *prepared_blocks(texts), *_notes(work)]


def prepared_blocks(texts: Sequence[PreparedText]) -> list[OutputBlock]:
    """Prepared texts, each under a heading that says that nothing was sent of it."""
    return [Prose(one.text, f"{NOT_SENT} ({one.node.node_id}, {one.node.status})") for one in texts]


def _facts(when: When, work: EngineWork, one: ConversationWork) -> list[tuple[str, Cell]]:
    facts: list[tuple[str, Cell]] = [
        ("Conversation", one.conversation.called),
        ("Session key", one.conversation.session_key),
        ("Active", Mark.NOT_RECORDED if one.conversation.active is None else one.conversation.active),
        ("Needs attention", NEEDS[one.need]),
    ]
    if not work.prepares:
        facts.append(("Prepared", Mark.NOT_RECORDED))
    else:
        facts += [
            ("Prepared", prepared_words(one)),
            ("Stuck", "; ".join(stuck_words(when, one)) or None),
            ("Last batch lost", lost_words(one)),
        ]
    rows = work.rows
    facts += [
        ("Debt", Mark.NOT_RECORDED if rows.debts is None else debt_words(when, one)),
        ("Anchors", Mark.NOT_RECORDED if rows.anchors is None else anchor_words(one)),
        ("Epoch", Mark.NOT_RECORDED if rows.epochs is None else epoch_words(one)),
        ("Last committed turn", Mark.NOT_RECORDED if rows.turns is None else when(one.last_turn)),
    ]
    # What only the newest engine has: a line that says so of every other file would only take room.
    if rows.cursors is not None:
        facts.append(("Cursor", cursor_words(when, one)))
    if rows.gaps is not None:
        facts.append(("Gaps", gap_words(one)))
    if rows.replay_keys is not None:
        facts.append(("Replay keys", replay_words(one)))
    return facts


def prepared_words(one: ConversationWork) -> str | None:
    """``3 of 3 nodes, 59 tokens, the oldest 3h ago; complete, waits …``; None when no batch is active."""
    batch = one.batch
    if batch is None:
        return None
    words = f"{len(batch.prepared):,} of {counted(len(batch.open), 'node')}"
    if batch.ready_tokens:
        words += f", {counted(batch.ready_tokens, 'token')}"
    if batch.oldest_ready is not None:
        words += f", the oldest {_since(batch.oldest_ready, one.now)}"
    if batch.published:
        words += f", {len(batch.published):,} more published"
    if batch.outdated is not None:
        by = f" ({batch.changed_by})" if batch.outdated is Outdated.CHANGED else ""
        return f"{words}; {batch.outdated.value}{by}, so the engine will discard it"
    if batch.is_complete:
        return f"{words}; complete, waits for the threshold"
    if batch.publishable:
        place = _range(batch.publishable[0].start, batch.publishable[-1].end)
        return f"{words}; {place} can be published at the threshold"
    return words


def _since(moment: datetime | None, now: datetime) -> str:
    words = age(moment, now)
    if not words:
        return "at an unknown time"
    return words if words == "now" or words.startswith("in ") else f"{words} ago"


def stuck_words(when: When, one: ConversationWork) -> list[str]:
    """What does not go on by itself, or not now, each in a phrase."""
    found = []
    for batch in one.batches:
        for node in batch.open if batch.row.active else ():
            place = f"{_range(node.start, node.end)}"
            match batch.state_of(node):
                case NodeState.EXPIRED:
                    lease = _since(parse_utc(node.lease_expires_at), one.now)
                    found.append(f"{place}: the lease expired {lease}, its worker died")
                case NodeState.NO_LEASE:
                    found.append(f"{place}: claimed, with no lease that can be read")
                case NodeState.WAITS_TO_RETRY:
                    found.append(
                        f"{place}: failure {node.retries} of {MOST_RETRIES} ({node.failure or 'no reason'}), "
                        f"waits until {when(node.next_attempt_after)}"
                    )
                case NodeState.GIVEN_UP:
                    found.append(
                        f"{place}: failed {counted(node.retries, 'time')} ({node.failure or 'no reason'})"
                    )
                case NodeState.UNKNOWN:
                    found.append(f"{place}: is {node.status or 'nothing'}, which no known engine writes")
                case _:
                    pass
    return found


def lost_words(one: ConversationWork) -> str | None:
    """Why the last batch that was given up was; None when none is recorded."""
    lost = one.lost
    if lost is None:
        return None
    unused = sum(node.has_text for node in lost.nodes)
    kept = f"; {counted(unused, 'prepared text was', 'prepared texts were')} never used" if unused else ""
    return f"{lost.row.failure or 'no reason recorded'}{kept}"


def debt_words(when: When, one: ConversationWork) -> str | None:
    """The debt in words, with its age; None where there is none."""
    row = one.debt_row
    if row is None:
        return None
    reason = f" ({row.reason})" if row.reason else ""
    requested = f"requested {_since(parse_utc(row.requested_at), one.now)}{reason}"
    started = _since(parse_utc(row.started_at), one.now)
    failed = f"attempt {row.retries or 0:,} failed: {row.failure}" if row.failure else ""
    match one.debt:
        case DebtState.NONE:
            return None
        case DebtState.DUE:
            return f"due, {requested}" + (f"; {failed}" if failed else "")
        case DebtState.BELOW:
            sizes = "" if one.below is None else f" ({one.below.tokens:,} of {one.below.threshold:,} tokens)"
            words = f"noted as due {when(row.requested_at)}, below the threshold now{sizes}"
            return words + (f"; {failed}" if failed else "")
        case DebtState.WAITS:
            return f"waits until {when(row.next_attempt_after)}, {requested}; {failed or 'it failed before'}"
        case DebtState.FAILED:
            return f"failed; the engine does not retry it, {requested}: {row.failure}"
        case DebtState.RUNNING:
            return f"running, started {started}"
        case DebtState.DIED:
            return f"marked as running, started {started}: its process is gone"
        case DebtState.CLOSED:
            resolved = _since(parse_utc(row.resolved_at), one.now)
            return f"closed by the operator {resolved}: nothing was compacted"
        case DebtState.INACTIVE:
            return f"historical, {requested}: the conversation is not active, so it never runs"


def took_words(conversations: Sequence[ConversationWork]) -> str | None:
    """``last run of 3 conversations: 30 s (p50), 40 s (p90); …``; None where no row says how long."""
    times = took(conversations)
    named = (
        (times.runs, "last run of", "conversation"),
        (times.texts, "from plan to text of", "prepared summary"),
        (times.batches, "from plan to publication of", "batch"),
    )
    words = [
        f"{what} {counted(one.count, noun, _MANY.get(noun))}: {_spread(one)}"
        for one, what, noun in named
        if one is not None
    ]
    return "; ".join(words) or None


def _spread(one: Spread) -> str:
    p50, p90 = ("under 1 s" if value < 1 else seconds_text(value) for value in (one.p50, one.p90))
    return p50 if one.count == 1 else f"{p50} (p50), {p90} (p90)"


def anchor_words(one: ConversationWork) -> str:
    """How many messages are proven to come from the transcript; what is not proven is no fault."""
    proven = one.anchored(*PROOF)
    total = sum(anchor.count for anchor in one.anchors) + one.without_anchor
    words = f"{proven:,} of {counted(total, 'message')} matched to the host's transcript"
    return words + ("; the others are kept, no action needed" if proven < total else "")


def epoch_words(one: ConversationWork) -> str | None:
    """From where on the transcript is compared; None where all of it is."""
    epoch = one.epoch
    if epoch is None:
        return None
    if epoch.frontier_entry_id is None:
        return f"{epoch.mode}: no boundary could be chosen"
    return f"{epoch.mode}: compared from entry {epoch.frontier_entry_id} on, older entries are not compared"


def cursor_words(when: When, one: ConversationWork) -> str:
    """How far the engine has followed the host's transcript."""
    cursor = one.cursor
    if cursor is None:
        return "none: the conversation is not followed by a cursor yet"
    origins = {"fresh": "from its beginning", "legacy-migration": "taken over from an older engine"}
    origin = origins.get(cursor.origin, cursor.origin or "of unknown origin")
    if cursor.frontier_entry_id is None:
        return f"no entry passed yet, {origin}"
    place = "" if cursor.frontier_seq is None else f", message {cursor.frontier_seq:,} of the host"
    return f"up to entry {cursor.frontier_entry_id}{place}, {when(cursor.updated_at)}; {origin}"


def gap_words(one: ConversationWork) -> str | None:
    """What of the transcript was never stored; None: nothing that the engine has noted."""
    if not one.gaps:
        return None
    entries = sum(gap.entries for gap in one.gaps)
    return f"{counted(len(one.gaps), 'gap')}, {counted(entries, 'entry')} never stored"


def replay_words(one: ConversationWork) -> str | None:
    """What the engine has seen of users' entries, by which it knows them in the host's memory."""
    seen = one.replay
    return None if seen is None else f"{seen.keys:,} of {counted(seen.entries, 'entry')} of users"


def _gaps(when: When, one: ConversationWork) -> Table:
    rows = [
        (
            _range(gap.first_seq, gap.last_seq),
            f"{counted(gap.entries, 'entry')}, {gap.first_entry_id} to {gap.last_entry_id}",
            f"between {_message(gap.prev_message_id)} and {_message(gap.next_message_id)}",
            f"{gap.source or 'noted'}, {when(gap.detected_at)}",
        )
        for gap in one.gaps
    ]
    return Table(
        (
            OutputColumn("Host's messages"),
            OutputColumn("Missing", grows=True),
            OutputColumn("Place"),
            OutputColumn("Noted", spare=1),
        ),
        rows,
        title="Entries of the host's transcript that were never stored",
    )


def _message(message_id: int | None) -> str:
    return "a deleted message" if message_id is None else f"m{message_id}"


def _range(start: int | None, end: int | None) -> str:
    return f"{'?' if start is None else start}-{'?' if end is None else end}"


def _publication(batch: BatchState) -> list[Table]:
    """What publication would put in place of what: now, and once everything is prepared."""
    now = [_steps(batch, batch.publishable, "Would be published now")] if batch.publishable else []
    if batch.is_complete:
        return now
    return [*now, _steps(batch, batch.planned, "Would be published once everything is prepared")]


def _steps(batch: BatchState, steps: Sequence[Step], title: str) -> Table:
    return Table(
        (
            OutputColumn("Ordinals"),
            OutputColumn("In the context now", grows=True),
            OutputColumn("Then", grows=True),
        ),
        [(_range(one.start, one.end), _now(batch, one), _then(batch, one)) for one in steps],
        title=title,
        empty="Nothing: the summaries of the batch do not cover its range.",
    )


def _now(batch: BatchState, step: Step) -> str:
    if step.node is None:
        return f"summary {step.summary_id}"
    messages, summaries = batch.replaced(step)
    parts = [counted(messages, "message")] if messages else []
    parts += [counted(summaries, "summary")] if summaries else []
    return " and ".join(parts)


def _then(batch: BatchState, step: Step) -> str:
    if step.node is None:
        return "stays"
    tokens = "" if step.node.tokens is None else f", {counted(step.node.tokens, 'token')}"
    become = "becomes" if sum(batch.replaced(step)) == 1 else "become"
    return f"{become} one {step.node.kind} summary of depth {step.node.depth}{tokens}"


def _nodes(when: When, batch: BatchState) -> Table:
    columns: tuple[ListColumn[NodeRow, None], ...] = (
        ListColumn("ordinals", heading="Ordinals", value=lambda one: _range(one.start, one.end)),
        ListColumn("kind", heading="Kind", spare=2, value="kind"),
        ListColumn("depth", heading="Depth", right=True, spare=3, value="depth"),
        ListColumn("status", heading="Status", value="status"),
        ListColumn("state", heading="State", value=lambda one: batch.state_of(one).value),
        ListColumn("tokens", heading="Tokens", right=True, value="tokens"),
        ListColumn("until", heading="Until", spare=1, value=_until, time=True),
        ListColumn("failure", heading="Last failure", grows=True, value="failure"),
    )
    title = f"Summaries of batch {batch.row.batch_id} ({batch.row.status})"
    return list_table(columns, batch.open, when, title=title, empty="The batch has no summaries.")


def _until(node: NodeRow) -> str | None:
    return node.lease_expires_at if node.status == "running" else node.next_attempt_after


def _published(when: When, batch: BatchState) -> Table:
    """The part of a batch that is in the conversation already."""
    columns: tuple[ListColumn[NodeRow, None], ...] = (
        ListColumn(
            "planned", heading="Planned as", value=lambda one: _range(one.planned_start, one.planned_end)
        ),
        ListColumn("summary", heading="Summary", grows=True, value="summary_id"),
        ListColumn("kind", heading="Kind", value="kind"),
        ListColumn("depth", heading="Depth", right=True, value="depth"),
        ListColumn("tokens", heading="Tokens", right=True, value="tokens"),
    )
    title = "Published already: these are summaries of the conversation"
    return list_table(columns, batch.published, when, title=title)
