"""Reads what is true of the file as a whole: pages, references, counters, space (G12 to G17)."""

from __future__ import annotations

from collections.abc import AsyncIterator

from lcm_core.dag.checks.whole import Migration, Space, Violation
from lcm_core.findings import FixId
from lcm_core.store.database import Database, Reader

#: Faults that quick_check names; it stops there.
_MOST_FAULTS = 100
#: Violations of one table that are counted.
_MOST_VIOLATIONS = 100_000
_KEPT_ROWIDS = 200
_STEPS = ("backfillSummaryDepths", "backfillSummaryMetadata", "backfillToolCallColumns")
_IDENTITY_STEP = "repairOpenClawMetadataIdentityState"
#: What mends rows of a table that refer to nothing.
_FIXES = {
    "message_parts": FixId.DELETE_ORPHAN_PARTS,
    "summary_messages": FixId.DELETE_ORPHAN_LINKS,
    "summary_parents": FixId.DELETE_ORPHAN_LINKS,
    "focus_brief_sources": FixId.DELETE_ORPHAN_LINKS,
    "context_items": FixId.DROP_DANGLING_ITEMS,
}


async def quick_check(reader: Reader) -> list[str]:
    """What SQLite finds wrong with the pages; the one read that takes as long as the file is large."""
    rows = await reader.rows(f"PRAGMA quick_check({_MOST_FAULTS})")
    return [str(row[0]) for row in rows if row[0] != "ok"]


async def violations(database: Database) -> AsyncIterator[tuple[list[Violation], int, int]]:
    """Rows that refer to nothing, a table at a time."""
    tables = sorted(table for table, columns in database.schema.tables.items() if columns)
    for step, table in enumerate(tables, 1):
        yield await database.read(_violations_of, table), step, len(tables)


async def _violations_of(reader: Reader, table: str) -> list[Violation]:
    found: dict[str, list[int]] = {}
    counts: dict[str, int] = {}
    for row in await reader.rows(
        f'SELECT "rowid" AS id, parent FROM pragma_foreign_key_check(?) LIMIT {_MOST_VIOLATIONS}', table
    ):
        counts[row["parent"]] = counts.get(row["parent"], 0) + 1
        rowids = found.setdefault(row["parent"], [])
        if len(rowids) < _KEPT_ROWIDS and row["id"] is not None:
            rowids.append(row["id"])
    return [
        # Where the other table is gone altogether its rows are not lost one by one: a backup has them.
        Violation(
            table,
            parent,
            found[parent],
            counts[parent],
            _fix(table, parent) if reader.schema.has(parent) else None,
        )
        for parent in counts
    ]


def _fix(table: str, parent: str) -> FixId | None:
    return _FIXES.get(table) if parent in ("messages", "summaries") else None


async def load_migration(reader: Reader) -> Migration:
    """What the schema lacks, which steps are not recorded, and whether an old index is left over."""
    schema = reader.schema
    steps: list[str] = []
    if schema.has("lcm_migration_state"):
        done = {row["step_name"] for row in await reader.rows("SELECT step_name FROM lcm_migration_state")}
        wanted = [*_STEPS, *((_IDENTITY_STEP,) if schema.has("conversations", "archive_cause") else ())]
        steps = [step for step in wanted if step not in done]
    leftover = await reader.value(
        "SELECT count(*) FROM sqlite_master WHERE type = 'index' AND name = 'conversations_session_key_idx'"
    )
    missing = [
        name
        for name in schema.missing
        if name.partition(".")[0] == name or schema.has(name.partition(".")[0])
    ]
    return Migration(missing, steps, bool(leftover) and schema.has("conversations", "active"))


async def load_space(reader: Reader, wal: int) -> Space:
    """Pages and free pages of the file; *wal* is the size of its WAL in bytes."""
    return Space(
        await reader.value("PRAGMA page_count"),
        await reader.value("PRAGMA freelist_count"),
        await reader.value("PRAGMA page_size"),
        wal,
    )


async def counters_behind(reader: Reader) -> list[tuple[str, int, int]]:
    """Tables whose id counter is behind their largest id: table, counter, id."""
    recorded = {row["name"]: row["seq"] for row in await reader.rows("SELECT name, seq FROM sqlite_sequence")}
    found = []
    for table, key in (("conversations", "conversation_id"), ("messages", "message_id")):
        largest = await reader.value(f"SELECT max({key}) FROM {table}") or 0
        counter = recorded.get(table) or 0
        if isinstance(counter, int) and counter < largest:
            found.append((table, counter, largest))
    return found


async def stuck_batches(reader: Reader, today: float) -> list[tuple[str, list[str]]]:
    """Work of the 1.0-beta line that nobody goes on with; *today* in days."""
    late = f"julianday(%s) < {today!r} - 1.0 / 24"
    queries = (
        (
            "nodes whose lease ran out more than an hour ago",
            "SELECT node_id AS id FROM pending_summary_nodes WHERE status = 'running' AND "
            f"{late % 'lease_expires_at'}",
        ),
        (
            "nodes of published batches, never promoted",
            """SELECT n.node_id AS id FROM pending_summary_nodes AS n JOIN pending_compaction_batches AS b
            ON b.batch_id = n.batch_id WHERE b.status = 'published' AND n.status = 'ready'""",
        ),
        (
            "promoted nodes without a summary",
            "SELECT node_id AS id FROM pending_summary_nodes WHERE status = 'promoted' AND "
            "canonical_summary_id IS NULL",
        ),
        (
            "batches that are being published",
            "SELECT batch_id AS id FROM pending_compaction_batches WHERE status = 'publishing'",
        ),
    )
    return [(what, [row["id"] for row in await reader.rows(query)]) for what, query in queries]


async def anchor_trust(reader: Reader) -> tuple[int, int, list[int]]:
    """Anchors, how many of them are not to be trusted, and conversations whose transcript is corrupt."""
    row = await reader.row(
        """SELECT count(*) AS anchors, total(trust_state IN ('suspect', 'unproven')) AS doubtful
        FROM message_transcript_anchor_trust"""
    )
    corrupt = await reader.rows(
        "SELECT conversation_id AS id FROM conversation_transcript_epochs WHERE migration_mode = 'corrupt'"
    )
    anchors, doubtful = (0, 0) if row is None else (row["anchors"], int(row["doubtful"]))
    return anchors, doubtful, [one["id"] for one in corrupt]
