"""Remnic's database as tables: its sessions, one of them, what an import does, and how both sides differ."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from lcm_core.base.text import counted, preview, some
from lcm_core.engine.markers import beginning
from lcm_remnic.reading import Contents, SessionEntry, StoredNode, StoredPart, StoredSession, StoredTurn
from lcm_remnic.records import Report, Step, What, Why
from lcm_remnic.write import Import, Undone

from lcm_tui.tables.blocks import Cell, Facts, ListColumn, Note, Table, When, list_table
from lcm_tui.tables.blocks import OutputBlock as Block
from lcm_tui.tables.blocks import OutputColumn as Column

#: How the rows of an import are called.
ROW_NAMES = {
    What.TURN: "Messages",
    What.PART: "Parts",
    What.NODE: "Summaries",
    What.RECORD: "Records",
    What.EVENT: "Compaction events",
    What.SEARCH: "Search rows",
}
#: Ids of a list that are named.
_NAMED = 5
_LEFT_BEHIND = {
    "large_files": "large files",
    "focus_briefs": "focus briefs",
    "focus_brief_sources": "sources of focus briefs",
    "conversation_bootstrap_state": "bootstrap states",
    "conversation_compaction_maintenance": "compaction states",
    "conversation_compaction_telemetry": "telemetry rows",
}
#: Reasons that have a sentence of their own.
_TOLD = frozenset({Why.NO_SEQ, Why.NO_TURN, Why.ELSEWHERE})


# fmt: off
SESSIONS: Final[tuple[ListColumn[SessionEntry, None], ...]] = (
    ListColumn("session", heading="Session", grows=True, json="sessionId", value="session"),
    ListColumn("turns", heading="Turns", right=True, json="turns", value="turns"),
    ListColumn("imported", heading="Imported", right=True, spare=2, json="importedTurns", value="imported"),
    ListColumn("parts", heading="Parts", right=True, spare=3, json="parts", value="parts"),
    ListColumn("nodes", heading="Nodes", right=True, json="nodes", value="nodes"),
    ListColumn("depth", heading="Depth", right=True, spare=1, json="maxDepth", value="max_depth"),
    ListColumn("tokens", heading="Tokens", right=True, json="tokens", value="tokens"),
    ListColumn("first", heading="First", spare=4, json="firstAt", value="first_at", time=True),
    ListColumn("last", heading="Last", spare=5, json="lastAt", value="last_at", time=True),
    ListColumn("records", json="recordedConversations", value="records"),
)
IMPORTS: Final[tuple[ListColumn[Import, None], ...]] = (
    ListColumn("import", heading="Import", json="importId", value="id"),
    ListColumn("begun", heading="Begun", json="begunAt", value="begun_at", time=True),
    ListColumn("undone", json="undoneAt", value="undone_at"),
    ListColumn("rows", heading="Rows", right=True, json="rows", value="rows"),
    ListColumn("state", heading="State", json="state", value="state"),
    ListColumn("source", heading="From", grows=True, json="source", value="source"),
)
NODES: Final[tuple[ListColumn[StoredNode, None], ...]] = (
    ListColumn("node", heading="Node", json="nodeId", value="id"),
    ListColumn("depth", heading="Depth", right=True, json="depth", value="depth"),
    ListColumn("below", heading="Below", json="parentId", value="parent_id"),
    ListColumn("first", json="firstTurn", value="start"),
    ListColumn("last", json="lastTurn", value="end"),
    ListColumn("turns", heading="Turns", value=lambda one: f"{one.start}-{one.end}"),
    ListColumn("tokens", heading="Tokens", right=True, spare=1, json="tokenCount", value="tokens"),
    ListColumn("created", json="createdAt", value="created_at", time=True),
    ListColumn("text", heading="Text", grows=True, json="content", value="text",
               text=lambda text: preview(beginning(text))),
)
TURNS: Final[tuple[ListColumn[StoredTurn, None], ...]] = (
    ListColumn("turn", heading="Turn", right=True, json="turnIndex", value="turn_index"),
    ListColumn("role", heading="Role", json="role", value="role"),
    ListColumn("count", heading="Parts", right=True, spare=2, value=lambda one: len(one.parts)),
    ListColumn("tokens", heading="Tokens", right=True, spare=1, json="tokenCount", value="tokens"),
    ListColumn("created", heading="Time", spare=3, json="createdAt", value="created_at", time=True),
    ListColumn("conversation", json="conversationId",
               value=lambda one: None if one.origin is None else one.origin.conversation_id),
    ListColumn("seq", json="seq", value=lambda one: None if one.origin is None else one.origin.seq),
    ListColumn("origin", heading="From", spare=4,
               value=lambda one: None if one.origin is None else one.origin.text),
    ListColumn("text", heading="Text", grows=True, json="content", value="content", text=preview),
    ListColumn("parts", json="parts", value=lambda one: [_part(part) for part in one.parts]),
)
DIFFERENCES: Final[tuple[ListColumn[Step, None], ...]] = (
    ListColumn("difference", heading="Difference", json="difference", value="kind.value"),
    ListColumn("row", heading="Row", json="row", value="what.value"),
    ListColumn("name", heading="Which", grows=True, json="name", value="name"),
    ListColumn("table", json="table", value="table"),
    ListColumn("columns", heading="Columns", grows=True, json="columns", value="columns",
               text=lambda columns: ", ".join(columns) or None),
    ListColumn("session", heading="Session", spare=1, json="sessionId", value="session"),
)
# fmt: on


def _part(one: StoredPart) -> dict[str, int | str | None]:
    return {"ordinal": one.ordinal if isinstance(one.ordinal, int) else None, "kind": one.kind}


def contents_blocks(when: When, held: Contents, imports: Sequence[Import]) -> list[Block]:
    """The sessions of a database, and the imports into it."""
    blocks: list[Block] = [list_table(SESSIONS, held.sessions, when, empty="No session is recorded.")]
    if imports:
        blocks.append(list_table(IMPORTS, imports, when, title="Imports by lcm-tui"))
    return blocks


def newest_turns(held: StoredSession, limit: int) -> Sequence[StoredTurn]:
    """The turns of a session that are shown."""
    return held.turns[-limit:]


def highest_nodes(held: StoredSession, limit: int) -> Sequence[StoredNode]:
    """The nodes of a session that are shown, the highest first."""
    return sorted(held.nodes, key=lambda one: (-one.depth, one.start, one.id))[:limit]


def session_blocks(when: When, held: StoredSession, limit: int) -> list[Block]:
    """Turns and nodes of a session, the newest turns, the highest nodes first."""
    facts: list[tuple[str, Cell]] = [
        ("Session", held.session),
        ("Turns", len(held.turns)),
        ("Nodes", len(held.nodes)),
        ("Imported conversations", len(held.records)),
    ]
    blocks: list[Block] = [
        Facts(facts),
        list_table(NODES, highest_nodes(held, limit), when, title="Nodes", empty="No node."),
        list_table(TURNS, newest_turns(held, limit), when, title="Turns", empty="No turn."),
    ]
    if len(held.turns) > limit or len(held.nodes) > limit:
        blocks.append(Note(f"At most {limit:,} of each are shown, the newest turns; --limit shows more."))
    return blocks


def report_blocks(report: Report, left_behind: Iterable[tuple[str, int]]) -> list[Block]:
    """What an import did or would do."""
    columns = (
        Column("Rows"),
        Column("Insert", right=True),
        Column("Change", right=True),
        Column("Move", right=True),
        Column("Extra", right=True),
        Column("Same", right=True),
    )
    rows: list[tuple[Cell, ...]] = [
        (ROW_NAMES[what], one.missing, one.changed, one.moved, one.extra, one.same)
        for what, one in report.rows.items()
    ]
    facts: list[tuple[str, Cell]] = [
        ("Conversations scanned", report.conversations),
        ("Sessions with changes", report.sessions),
        ("Multi-parent collapsed", report.collapsed),
    ]
    blocks: list[Block] = [Facts(facts), Table(columns, rows)]
    blocks += [Note(one) for one in remarks(report, left_behind)]
    return blocks


def remarks(report: Report, left_behind: Iterable[tuple[str, int]]) -> list[str]:
    """What does not come along, in sentences."""
    found = []
    if report.no_messages:
        what = counted(len(report.no_messages), "summary is", "summaries are")
        found.append(f"{what} skipped because no message is below: {some(report.no_messages, _NAMED)}.")
    if report.elsewhere:
        what = counted(len(report.elsewhere), "summary is", "summaries are")
        found.append(
            f"{what} skipped: Remnic has the id in another session: {some(report.elsewhere, _NAMED)}."
        )
    found += [f"Skipped: {one}." for one in report.conflicts[:_NAMED]]
    if len(report.conflicts) > _NAMED:
        found.append(f"{len(report.conflicts) - _NAMED:,} more conversations are skipped in the same way.")
    if report.unreadable:
        what = counted(report.unreadable, "message has", "messages have")
        which = some(report.unheld["messages", Why.NO_SEQ].rows, _NAMED, report.unreadable)
        found.append(f"{what} no seq of its own and cannot be identified in Remnic: skipped: {which}.")
    for (table, why), rows in sorted(report.unheld.items()):
        if why not in _TOLD:
            what = counted(rows.count, "row")
            found.append(f"{what} of {table} cannot be held ({why}): {some(rows.rows, _NAMED, rows.count)}.")
    kept = [f"{count:,} {_LEFT_BEHIND.get(table, table)}" for table, count in left_behind if count]
    if kept:
        these = " and ".join([", ".join(kept[:-1]), kept[-1]] if kept[1:] else kept)
        found.append(f"Remnic has no place for {these}; they stay in the source only.")
    return found


def differences_table(when: When, steps: Sequence[Step], total: int) -> Table:
    """The rows that differ."""
    title = f"{total:,} differences" if total != 1 else "1 difference"
    if len(steps) < total:
        title = f"{title}, the first {len(steps):,}"
    return list_table(DIFFERENCES, steps, when, title=title, empty="Nothing differs.")


def undone_blocks(one: Import, found: Undone, *, done: bool) -> list[Block]:
    """What an undo did or would do."""
    facts: list[tuple[str, Cell]] = [
        ("Import", one.id),
        ("From", one.source),
        ("Removed" if done else "Rows to remove", found.removed),
        ("Restored" if done else "Rows to restore", found.restored),
        ("Already removed or restored", found.gone),
        ("Changed since, not touched", found.left),
    ]
    return [Facts(facts)]
