"""Brings an old database to the present schema, as the engine's own migrations do.

Source: docs/spec/versions.md, "Features".

Additive only: tables, columns, indexes and search tables are made, and what their rows would hold is worked
out. One transaction; nothing of it is journaled, the way back is the backup that is made before.

Of rows only what was never recorded is worked out (docs/spec/format.md, "Identifiers" and "Numbers beside a
summary"): a value that is there is left, right or wrong. Ids and numbers are held for the whole file,
texts one page at a time.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from lcm_core.base.errors import RefusedError
from lcm_core.base.javascript import JsonObject, js_json
from lcm_core.base.jsonl import BadLineError, decode_object, string
from lcm_core.base.records import Edge, SummaryId
from lcm_core.base.times import iso_z, parse_utc
from lcm_core.base.values import Record, Struct, field
from lcm_core.change.connection import Writer, open_writer, read_catalog
from lcm_core.change.copying import Stop
from lcm_core.change.guard import check_tables
from lcm_core.change.reindex import fill_search_table, paged
from lcm_core.change.schema import (
    INDEXES,
    MIGRATION_STEPS,
    OBSOLETE_INDEXES,
    SEARCH_TABLES,
    TABLES,
    Table,
    add_search_tables,
)
from lcm_core.engine.graph import PlainNode, SummaryGraph
from lcm_core.engine.rules import engine_rules
from lcm_core.engine.stored_parts import identity_of
from lcm_core.store.database import Reader
from lcm_core.store.opening import Row, Rows
from lcm_core.store.schema import Schema


class Migration(Record, frozen=True):
    """What a file lacks of the present schema."""

    version: str  #: of the engine that left it, for people
    tables: tuple[str, ...]
    columns: tuple[str, ...]  #: ``table.column``, of tables that are there
    indexes: tuple[str, ...]
    search_tables: tuple[str, ...]
    dropped: tuple[str, ...] = field(name="droppedIndexes")  #: those that forbid what is allowed now
    steps: tuple[str, ...]  #: backfills of the engine that have not run

    def __bool__(self) -> bool:
        return any((self.tables, self.columns, self.indexes, self.dropped, self.steps))


class Migrated(Record, frozen=True):
    """A migration that was carried out."""

    migration: Migration
    search_tables: tuple[str, ...]  #: that were made; this SQLite may not know their tokenizer
    rows: dict[str, int]  #: what was worked out, and in how many rows


async def plan_migration(reader: Reader) -> Migration:
    """What *reader*'s file lacks; nothing is written.

    Raises:
        RefusedError: the 1.x line wrote it, which has another schema; or a trigger would run.
    """
    return await reader.run(_lacking, reader.schema)


def migrate(path: Path, *, wait: float = 5.0, stopped: Stop | None = None) -> Migrated:
    """Bring the file to the present schema in one transaction; blocks. Make a backup before.

    *stopped* says whether to give up; it is called until the lock is held.

    Raises:
        CancelledError: *stopped* said so.
        RefusedError: there is nothing to do, the 1.x line wrote it, or rows are in the way of an index.
        BusyError: another process kept the lock for *wait* seconds.
        DatabaseError: it cannot be written; then it is as it was.
    """
    with open_writer(path, wait, stopped) as writer:
        writer.begin()
        catalog = read_catalog(writer)
        migration = _lacking(writer, catalog.schema)
        if not migration:
            raise RefusedError(f"{path} already has the current schema: there is nothing to do.")
        writer.write_only(_WRITTEN)
        _add_tables(writer, catalog.schema)
        for name in migration.dropped:
            writer.execute(f"DROP INDEX {name}")
        rows = {name: count for name, step in ROW_STEPS if (count := step(writer))}
        _add_indexes(writer, migration.indexes)
        made = add_search_tables(writer, frozenset(catalog.schema.tables))
        for table in made:
            fill_search_table(writer, read_catalog(writer).schema, table)
        for step, version in MIGRATION_STEPS:
            writer.execute(
                "INSERT OR IGNORE INTO lcm_migration_state (step_name, algorithm_version) VALUES (?, ?)",
                (step, version),
            )
        writer.commit()
    return Migrated(migration, made, rows)


#: The tables that a migration makes or fills.
_WRITTEN: Final = frozenset({one.name for one in (*TABLES, *SEARCH_TABLES)})


def _lacking(db: Rows, schema: Schema) -> Migration:
    if not engine_rules(schema).is_migrated:
        raise RefusedError(
            f"LCM {schema.version} wrote this file: the 1.x line has a schema of its own, which its engine"
            " brings up to date when it starts. Nothing was changed.",
            code="NOT_MIGRATED",
        )
    check_tables(db, _WRITTEN)
    indexes = {row[0] for row in db.rows("SELECT name FROM sqlite_master WHERE type = 'index'")}
    done: set[tuple[str, int]] = set()
    if schema.has("lcm_migration_state"):
        rows = db.rows("SELECT step_name, algorithm_version FROM lcm_migration_state")
        done = {(row[0], row[1]) for row in rows}
    return Migration(
        schema.version,
        tuple(table.name for table in TABLES if not schema.has(table.name)),
        tuple(_missing_columns(schema)),
        tuple(index.name for index in INDEXES if index.name not in indexes),
        tuple(table.name for table in SEARCH_TABLES if not schema.has(table.name)),
        tuple(name for name in OBSOLETE_INDEXES if name in indexes),
        tuple(step for step, version in MIGRATION_STEPS if (step, version) not in done),
    )


def _missing_columns(schema: Schema) -> Iterator[str]:
    for table in TABLES:
        if schema.has(table.name):
            for column, _ in table.columns:
                if not schema.has(table.name, column):
                    yield f"{table.name}.{column}"


def _add_tables(writer: Writer, schema: Schema) -> None:
    for table in TABLES:
        if not schema.has(table.name):
            writer.execute(table.sql)
            continue
        for column, definition in table.columns:
            if not schema.has(table.name, column):
                _add_column(writer, table, column, definition)


def _add_column(writer: Writer, table: Table, column: str, definition: str) -> None:
    """Add a column; a clock as default is not allowed of one that is added."""
    constant = definition.replace("DEFAULT (datetime('now'))", "DEFAULT '1970-01-01 00:00:00'")
    writer.execute(f"ALTER TABLE {table.name} ADD COLUMN {column} {constant}")


def _add_indexes(writer: Writer, names: tuple[str, ...]) -> None:
    for index in (one for one in INDEXES if one.name in names):
        try:
            writer.execute(index.sql)
        except sqlite3.IntegrityError as error:
            raise RefusedError(
                f"Several rows of {index.table} are the same in {index.columns}, which the "
                "present schema forbids. Nothing was changed: `lcm-tui doctor` shows them; "
                "fix them, then migrate."
            ) from error


# -- what rows would hold -------------------------------------------------------------------------------


class _SummaryNode(Struct):
    """A summary on its way up the DAG."""

    tokens: int
    depth: int
    is_leaf: bool
    counts: tuple[int, int, int]  #: descendants, their tokens, tokens of messages, as stored
    earliest: str | None
    latest: str | None
    created: str | None
    sources: list[str] = field(default_factory=list)


def _summaries(writer: Writer) -> int:
    """Counters and time ranges that were not recorded, from the leaves upwards."""
    nodes = _nodes(writer)
    changed = 0
    graph = SummaryGraph.build(
        (PlainNode(SummaryId(name), "", node.depth) for name, node in nodes.items()),
        (Edge(SummaryId(name), SummaryId(one), 0) for name, node in nodes.items() for one in node.sources),
        (),
    )
    for summary_id in graph.sources_first:
        node = nodes[summary_id]
        before = (*node.counts, node.earliest, node.latest)
        _work_out(writer, summary_id, node, nodes)
        after = (*node.counts, node.earliest, node.latest)
        if after != before:
            changed += 1
            writer.execute(
                """UPDATE summaries SET descendant_count = ?, descendant_token_count = ?,
                source_message_token_count = ?, earliest_at = ?, latest_at = ? WHERE summary_id = ?""",
                (*after, summary_id),
            )
    return changed


def _nodes(writer: Writer) -> dict[str, _SummaryNode]:
    rows = writer.rows(
        """SELECT summary_id, kind, depth, token_count, descendant_count, descendant_token_count,
        source_message_token_count, earliest_at, latest_at, created_at FROM summaries
        WHERE summary_id IS NOT NULL"""
    )
    nodes = {
        row["summary_id"]: _SummaryNode(
            _number(row["token_count"]),
            _number(row["depth"]),
            row["kind"] == "leaf",
            (
                _number(row["descendant_count"]),
                _number(row["descendant_token_count"]),
                _number(row["source_message_token_count"]),
            ),
            row["earliest_at"],
            row["latest_at"],
            row["created_at"],
        )
        for row in rows
    }
    for row in writer.rows(
        "SELECT summary_id, parent_summary_id FROM summary_parents ORDER BY summary_id, ordinal"
    ):
        if row[0] in nodes and row[1] in nodes and row[0] != row[1]:
            nodes[row[0]].sources.append(row[1])
    return nodes


def _work_out(writer: Writer, summary_id: str, node: _SummaryNode, nodes: dict[str, _SummaryNode]) -> None:
    """The formulas of docs/spec/format.md, "Numbers beside a summary", where the column still has what a
    migration put there."""
    if node.is_leaf:
        row = writer.rows(
            """SELECT coalesce(sum(m.token_count), 0), min(julianday(m.created_at)),
            max(julianday(m.created_at)), count(*) FROM summary_messages AS link
            JOIN messages AS m ON m.message_id = link.message_id WHERE link.summary_id = ?""",
            (summary_id,),
        )[0]
        node.counts = (node.counts[0], node.counts[1], node.counts[2] or row[0])
        if row[3] and (node.earliest is None or node.latest is None):
            node.earliest = node.earliest or _moment(writer, row[1])
            node.latest = node.latest or _moment(writer, row[2])
        return
    sources = [nodes[source] for source in node.sources]
    count, tokens, messages = node.counts
    node.counts = (
        count or sum(source.counts[0] + 1 for source in sources),
        tokens or sum(source.tokens + source.counts[1] for source in sources),
        messages or sum(source.counts[2] for source in sources),
    )
    if sources:
        node.earliest = node.earliest or _extreme(min, [one.earliest or one.created for one in sources])
        node.latest = node.latest or _extreme(max, [one.latest or one.created for one in sources])


def _extreme(choose: Callable[[list[str]], str], stamps: list[str | None]) -> str | None:
    moments = [iso_z(moment) for stamp in stamps if (moment := parse_utc(stamp)) is not None]
    return choose(moments) if moments else None


def _moment(writer: Writer, day: float | None) -> str | None:
    if day is None:
        return None
    found: str = writer.value(
        "SELECT strftime('%Y-%m-%dT%H:%M:%S', ? , '+0.0005 seconds') || '.000Z'", (day,)
    )
    return found


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


# -- messages --------------------------------------------------------------------------------------------


def _identities(writer: Writer) -> int:
    """Hashes of messages that have none."""
    changed = 0
    for row in paged(
        writer,
        """SELECT message_id AS place, role, content FROM messages
        WHERE identity_hash IS NULL AND message_id""",
    ):
        role, content = row["role"], row["content"]
        if isinstance(role, str) and isinstance(content, str):
            changed += 1
            writer.execute(
                "UPDATE messages SET identity_hash = ? WHERE message_id = ?",
                (identity_of(role, _as_engine_reads(content)), row["place"]),
            )
    return changed


def _as_engine_reads(text: str) -> str:
    """Bytes that are no UTF-8 reach the engine as U+FFFD."""
    return text if text.isascii() else text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _tool_columns(writer: Writer) -> int:
    """Call ids, names and arguments of tool parts that only their metadata holds (0.5.1)."""
    changed = 0
    for row in paged(
        writer,
        """SELECT rowid AS place, part_id, part_type, tool_call_id, tool_name, tool_input, metadata
        FROM message_parts WHERE (tool_call_id IS NULL OR tool_name IS NULL) AND metadata IS NOT NULL
        AND (part_type IN ('tool', 'agent') OR tool_call_id IS NOT NULL) AND rowid""",
    ):
        found = _from_metadata(row)
        values = {name: value for name, value in found.items() if value is not None and row[name] is None}
        if values:
            changed += 1
            sets = ", ".join(f"{name} = ?" for name in values)
            writer.execute(
                f"UPDATE message_parts SET {sets} WHERE rowid = ?", [*values.values(), row["place"]]
            )
    return changed


def _from_metadata(row: Row) -> dict[str, str | None]:
    try:
        metadata = decode_object(str(row["metadata"]))
    except BadLineError:
        return {}
    raw = metadata.get("raw")
    block: JsonObject = raw if isinstance(raw, dict) else {}
    if row["part_type"] not in ("tool", "agent"):
        return {"tool_name": string(metadata.get("toolName"))}
    kind = (string(block.get("type")) or "").replace("_", "").replace("-", "").lower()
    if kind not in ("toolcall", "tooluse", "functioncall"):
        return {}
    given = block.get("arguments") if "arguments" in block else block.get("input")
    text = given if isinstance(given, str) else None if given is None else js_json(given)
    return {
        "tool_call_id": string(block.get("id")) or string(block.get("call_id")),
        "tool_name": string(block.get("name")),
        "tool_input": text,
    }


#: What is worked out, in this order.
ROW_STEPS: Final[tuple[tuple[str, Callable[[Writer], int]], ...]] = (
    ("counters and times of summaries", _summaries),
    ("columns of tool parts", _tool_columns),
    ("identity hashes of messages", _identities),
)
