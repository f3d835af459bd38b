"""Remnic's database as tables: its sessions, one of them, what an import does, and how both sides differ."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lcm_core.base.text import counted, preview, some
from lcm_core.engine.markers import beginning
from lcm_remnic.reading import Contents, StoredSession
from lcm_remnic.records import Report, Step, What, Why
from lcm_remnic.write import Import, Undone

from lcm_tui.tables.blocks import Cell, Facts, Note, Table, When
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


def contents_blocks(when: When, held: Contents, imports: Sequence[Import]) -> list[Block]:
    """The sessions of a database, and the imports into it."""
    columns = (
        Column("Session", grows=True),
        Column("Turns", right=True),
        Column("Imported", right=True, spare=2),
        Column("Parts", right=True, spare=3),
        Column("Nodes", right=True),
        Column("Depth", right=True, spare=1),
        Column("Tokens", right=True),
        Column("First", spare=4),
        Column("Last", spare=5),
    )
    rows: list[tuple[Cell, ...]] = [
        (
            one.session,
            one.turns,
            one.imported,
            one.parts,
            one.nodes,
            one.max_depth,
            one.tokens,
            when(one.first_at),
            when(one.last_at),
        )
        for one in held.sessions
    ]
    blocks: list[Block] = [Table(columns, rows, empty="No session is recorded.")]
    if imports:
        titles = (
            Column("Import"),
            Column("Begun"),
            Column("Rows", right=True),
            Column("State"),
            Column("From", grows=True),
        )
        blocks.append(
            Table(
                titles,
                [(one.id, when(one.begun_at), one.rows, one.state, one.source) for one in imports],
                title="Imports by lcm-tui",
            )
        )
    return blocks


def session_blocks(when: When, held: StoredSession, limit: int) -> list[Block]:
    """Turns and nodes of a session, the newest turns, the highest nodes first."""
    turns = held.turns[-limit:]
    nodes = sorted(held.nodes, key=lambda one: (-one.depth, one.start, one.id))
    facts: list[tuple[str, Cell]] = [
        ("Session", held.session),
        ("Turns", len(held.turns)),
        ("Nodes", len(held.nodes)),
        ("Imported conversations", len(held.records)),
    ]
    node_rows: list[tuple[Cell, ...]] = [
        (one.id, one.depth, one.parent_id, f"{one.start}-{one.end}", one.tokens, preview(beginning(one.text)))
        for one in nodes[:limit]
    ]
    turn_rows: list[tuple[Cell, ...]] = [
        (
            one.turn_index,
            one.role,
            len(one.parts),
            one.tokens,
            when(one.created_at),
            one.origin.text if one.origin else None,
            preview(one.content),
        )
        for one in turns
    ]
    node_columns = (
        Column("Node"),
        Column("Depth", right=True),
        Column("Below"),
        Column("Turns"),
        Column("Tokens", right=True, spare=1),
        Column("Text", grows=True),
    )
    turn_columns = (
        Column("Turn", right=True),
        Column("Role"),
        Column("Parts", right=True, spare=2),
        Column("Tokens", right=True, spare=1),
        Column("Time", spare=3),
        Column("From", spare=4),
        Column("Text", grows=True),
    )
    blocks: list[Block] = [Facts(facts)]
    blocks.append(Table(node_columns, node_rows, title="Nodes", empty="No node."))
    blocks.append(Table(turn_columns, turn_rows, title="Turns", empty="No turn."))
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


def differences_table(steps: Sequence[Step], total: int) -> Table:
    """The rows that differ."""
    columns = (
        Column("Difference"),
        Column("Row"),
        Column("Which", grows=True),
        Column("Columns", grows=True),
        Column("Session", spare=1),
    )
    rows = [
        (one.kind.value, one.what.value, one.name, ", ".join(one.columns) or None, one.session)
        for one in steps
    ]
    title = f"{total:,} differences" if total != 1 else "1 difference"
    if len(steps) < total:
        title = f"{title}, the first {len(steps):,}"
    return Table(columns, rows, title=title, empty="Nothing differs.")


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
