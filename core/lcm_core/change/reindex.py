"""Rebuild search tables from messages and summaries, or bring them in step row by row.

Nothing of it is journaled: they hold nothing of their own. `resync` looks for what differs without a lock
and corrects it a few hundred rows at a time, each from what its row holds in that moment; so a host that
writes waits no longer than for a turn of its own. A table that does not work is written anew (`reindex`).
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from lcm_core.base.errors import CancelledError, RefusedError
from lcm_core.base.javascript import trimmed
from lcm_core.base.text import BLANKS
from lcm_core.base.values import Record, field
from lcm_core.change.apply import Write, literal, writes_alike
from lcm_core.change.connection import Catalog, Writer, open_writer, read_catalog
from lcm_core.change.copying import Stop, check_wanted, never
from lcm_core.change.guard import check_tables
from lcm_core.change.plan import CONTEXT, Cell, Edit, Splice, value_of
from lcm_core.engine.rules import SearchRules, engine_rules
from lcm_core.store.database import Reader
from lcm_core.store.listing import TABLE as ASSEMBLIES
from lcm_core.store.opening import Row, Rows, SqlValue, connect_memory, error_name, quoted
from lcm_core.store.rows import KeyRange, range_end_sql
from lcm_core.store.schema import JOURNAL, Schema
from lcm_core.store.search import is_stale

# -- in step with a commit -------------------------------------------------------------------------------
# The tables are derived from messages and summaries (docs/spec/search.md, "Upkeep"): never in edits,
# journal or undo. When one of them is broken the commit goes on and says `NOT_UPDATED`; `reindex` corrects
# it.

MESSAGES: Final = "messages_fts"
SUMMARIES: Final = ("summaries_fts", "summaries_fts_cjk")
NOT_UPDATED: Final = "search index not updated: run `lcm-tui reindex`"

#: The first line of a message that stands for a stored payload (docs/spec/search.md, "What is indexed of a
#: message").
_HEADERS: Final = ("[LCM File:", "[LCM Tool Output:")
_EXPLORATION: Final = "Exploration Summary"
_HEADING: Final = f"{_EXPLORATION}:"
#: How the lines begin that tell a model how to get the rest.
_ADVICE: Final = ("Use lcm_describe", "Call lcm_describe")
#: Errors that end the transaction or the file, and are no matter of a search table.
_FATAL: Final = (
    *("SQLITE_FULL", "SQLITE_IOERR", "SQLITE_NOMEM", "SQLITE_BUSY", "SQLITE_READONLY", "SQLITE_INTERRUPT"),
)


def indexed_text(content: Cell, rules: SearchRules) -> SqlValue:
    """What an engine of these rules puts into ``messages_fts`` for a message; None: no row."""
    if not isinstance(content, str):
        return None if isinstance(content, bytes | None) else str(content)
    if not rules.indexes_blank and not content.strip(BLANKS):
        return None
    if rules.trims_references:
        return reference_text(content)
    if not rules.shortens_references or not content.startswith(_HEADERS):
        return content
    lines = content.split("\n")
    start = next((at for at, line in enumerate(lines) if line.startswith(_EXPLORATION)), len(lines))
    return "\n".join([lines[0], *lines[max(start, 1) :]])


def summary_text(content: Cell) -> SqlValue:
    """What the engine puts into the search tables of summaries for a summary."""
    return content if isinstance(content, str | int | float | bytes) else ""


def reference_text(content: str) -> str:
    """Of a reference to a payload its first line and its summary, without blank lines and advice (0.15.2)."""
    if not trimmed(content).startswith(_HEADERS):
        return content
    lines = [line for one in content.split("\n") if (line := trimmed(one))]
    start = lines.index(_HEADING) + 1 if _HEADING in lines else len(lines)
    kept = (line for line in lines[start:] if line != _HEADING and not line.startswith(_ADVICE))
    return "\n".join([lines[0], *kept])


class SearchEntries(Record, frozen=True):
    """What search tables have to follow."""

    gone: dict[SqlValue, None] = field(default_factory=dict)  #: message ids whose row goes or is replaced
    come: dict[SqlValue, Cell] = field(default_factory=dict)  #: new texts by message id
    gone_summaries: dict[SqlValue, None] = field(default_factory=dict)
    come_summaries: dict[SqlValue, Cell] = field(default_factory=dict)


class LookedUp(Record, frozen=True):
    """Where the touched summaries are in the search tables."""

    rowids: Mapping[tuple[str, SqlValue], tuple[int, ...]]  #: by table and summary
    broken: frozenset[str]  #: tables that could not be asked


class SearchWrites(Record, frozen=True):
    """What one search table has to follow; nothing to write where it could not even be asked."""

    table: str
    writes: Sequence[Write]
    broken: bool = False


def written_tables(edits: Iterable[Edit], schema: Schema) -> frozenset[str]:
    """The tables that a commit of *edits* writes: theirs, the journal, and what has to follow."""
    written = {JOURNAL}
    followed: set[str] = set()
    for edit in edits:
        if isinstance(edit, Splice):
            written.add(CONTEXT)
            continue
        written.add(edit.table)
        if edit.before is None or edit.after is None or "content" in edit.after:
            followed.update(_FOLLOWING.get(edit.table, ()))
    return frozenset(written | {name for name in followed if schema.has(name)})


#: What has to follow the rows of a table that come or go, or whose text changes.
_FOLLOWING: Final[Mapping[str, tuple[str, ...]]] = {
    "messages": (MESSAGES,),
    "summaries": SUMMARIES,
    "conversations": (ASSEMBLIES,),
}


def look_up(writer: Writer, catalog: Catalog, edits: Iterable[Edit]) -> LookedUp:
    """Find the touched summaries in the search tables: one scan a table, before the lock is taken."""
    entries = search_entries(edits)
    wanted = {**entries.gone_summaries, **dict.fromkeys(entries.come_summaries)}
    found: dict[tuple[str, SqlValue], tuple[int, ...]] = {}
    broken: set[str] = set()
    for table in (name for name in SUMMARIES if wanted and catalog.schema.has(name)):
        sql = f"SELECT rowid, summary_id FROM {table} WHERE summary_id IN (?*)"
        rows = _asked(writer, sql, wanted)
        if rows is None:
            broken.add(table)
            continue
        for row in rows:
            key = (table, row["summary_id"])
            found[key] = (*found.get(key, ()), row["rowid"])
    return LookedUp(found, frozenset(broken))


def search_writes(
    writer: Writer, catalog: Catalog, edits: Iterable[Edit], looked_up: LookedUp
) -> list[SearchWrites]:
    """What brings every search table in step with resolved *edits*, table by table; nothing is written."""
    entries = search_entries(edits)
    found: list[SearchWrites] = []
    if catalog.schema.has(MESSAGES) and (entries.gone or entries.come):
        found.append(_of_messages(writer, entries, catalog.schema))
    if entries.gone_summaries or entries.come_summaries:
        for table in (name for name in SUMMARIES if catalog.schema.has(name)):
            if table in looked_up.broken:
                found.append(SearchWrites(table, (), broken=True))
            else:
                found.append(_of_summaries(entries, table, looked_up))
    return found


def keep_in_step(writer: Writer, tables: Iterable[SearchWrites]) -> str | None:
    """Write to the search tables, each in a savepoint; `NOT_UPDATED` when one of them would not follow."""
    outcome = None
    for each in tables:
        if each.broken or not _written(writer, each.writes):
            outcome = NOT_UPDATED
    return outcome


def _written(writer: Writer, writes: Iterable[Write]) -> bool:
    """Whether one search table took all of it; else it is as it was."""
    writer.execute("SAVEPOINT search")
    try:
        for one in writes:
            if writer.execute_many(one.sql, one.rows) != len(one.rows):
                raise sqlite3.DatabaseError("a row has moved")
        writer.execute("SAVEPOINT flush")  # makes the module write out now what it would at COMMIT
        writer.execute("RELEASE flush")
    except sqlite3.DatabaseError as error:
        if is_fatal(error) or not writer.in_transaction:
            raise
        writer.execute("ROLLBACK TO search")
        writer.execute("RELEASE search")
        return False
    writer.execute("RELEASE search")
    return True


def _asked(writer: Writer, sql: str, keys: Iterable[SqlValue]) -> list[Row] | None:
    """The rows of a search table for some keys; None when it is broken."""
    try:
        return writer.rows_in(sql, keys)
    except sqlite3.DatabaseError as error:
        if is_fatal(error):
            raise
        return None


def is_fatal(error: sqlite3.DatabaseError) -> bool:
    """Whether an error ends the transaction or the file, and is no matter of a search table."""
    return error_name(error).startswith(_FATAL)


def _of_messages(writer: Writer, entries: SearchEntries, schema: Schema) -> SearchWrites:
    # A row that is left over of an older message of the same id would be in the way of the new one.
    wanted = {**entries.gone, **dict.fromkeys(entries.come)}
    left = _asked(writer, f"SELECT rowid FROM {MESSAGES} WHERE rowid IN (?*)", wanted)
    if left is None:
        return SearchWrites(MESSAGES, (), broken=True)
    rules = engine_rules(schema).search
    texts = ((message_id, indexed_text(content, rules)) for message_id, content in entries.come.items())
    come = [(message_id, text) for message_id, text in texts if text is not None]
    writes = [
        *writes_alike(MESSAGES, f"DELETE FROM {MESSAGES} WHERE rowid = ?", [(row[0],) for row in left]),
        *writes_alike(MESSAGES, f"INSERT INTO {MESSAGES} (rowid, content) VALUES (?, ?)", come),
    ]
    return SearchWrites(MESSAGES, writes)


def _of_summaries(entries: SearchEntries, table: str, looked_up: LookedUp) -> SearchWrites:
    gone = [
        (rowid, summary_id)
        for summary_id in {**entries.gone_summaries, **dict.fromkeys(entries.come_summaries)}
        for rowid in looked_up.rowids.get((table, summary_id), ())
    ]
    come = [(summary_id, summary_text(content)) for summary_id, content in entries.come_summaries.items()]
    writes = [
        *writes_alike(table, f"DELETE FROM {table} WHERE rowid = ? AND summary_id IS ?", gone),
        *writes_alike(table, f"INSERT INTO {table} (summary_id, content) VALUES (?, ?)", come),
    ]
    return SearchWrites(table, writes)


def search_entries(edits: Iterable[Edit]) -> SearchEntries:
    """What search tables have to follow of some edits."""
    found = SearchEntries()
    for edit in edits:
        if isinstance(edit, Splice) or edit.table not in ("messages", "summaries"):
            continue
        of_messages = edit.table == "messages"
        ref = value_of(edit.key["message_id" if of_messages else "summary_id"])
        gone = found.gone if of_messages else found.gone_summaries
        come = found.come if of_messages else found.come_summaries
        if edit.after is None:
            come.pop(ref, None)
            gone[ref] = None
        elif edit.before is None or "content" in edit.after:
            if edit.before is not None:
                gone[ref] = None
            come[ref] = edit.after.get("content")
    return found


#: Rows that are read and written at a time.
PAGE = 500


class Rebuilt(Record, frozen=True):
    """A search table that was written anew."""

    table: str
    rows: int


class SearchTable(Record, frozen=True):
    """A search table and what it is made from."""

    table: str
    source: str  #: the table whose rows it makes searchable
    rows: int = field(name="sourceRows")  #: of that table
    #: what this program's SQLite or that table lacks for it; None: it can be rebuilt
    problem: str | None = None


async def search_tables(reader: Reader) -> list[SearchTable]:
    """The search tables that this file has.

    Raises:
        RefusedError: a trigger would run when one of them is rebuilt.
    """
    known = [(MESSAGES, "messages"), *((name, "summaries") for name in SUMMARIES)]
    found = [(table, source) for table, source in known if reader.schema.has(table)]
    problems = await reader.run(_problems, [table for table, _ in found])
    for table, source in found:
        key = "message_id" if source == "messages" else "summary_id"
        lacking = [column for column in (key, "content") if not reader.schema.has(source, column)]
        problems[table] = problems[table] or (f"no such column: {source}.{lacking[0]}" if lacking else None)
    return [
        SearchTable(table, source, await reader.value(f"SELECT count(*) FROM {source}"), problems[table])
        for table, source in found
    ]


def _problems(db: Rows, tables: Sequence[str]) -> dict[str, str | None]:
    """Why a table of the same definition cannot be made, by its name; it is tried in memory."""
    check_tables(db, tables)
    found: dict[str, str | None] = dict.fromkeys(tables)
    for table in tables:
        sql = db.tuples("SELECT sql FROM sqlite_master WHERE name = ?", (table,))[0][0]
        with contextlib.closing(connect_memory()) as memory:
            try:
                memory.execute(sql if str(sql)[:14].upper() == "CREATE VIRTUAL" else "SELECT 1")
            except sqlite3.OperationalError as error:
                found[table] = str(error)
    return found


def reindex(
    path: Path,
    tables: Iterable[str] | None = None,
    *,
    wait: float = 5.0,
    stopped: Stop = never,
) -> tuple[Rebuilt, ...]:
    """Write search tables anew, all that the file has or those named; each in a transaction of its own.

    The write lock is held while a table is rebuilt (about 20 s for a million messages). *stopped* says
    whether to give it up, while the lock is waited for and later: the table is then as it was.

    Raises:
        CancelledError: *stopped* said so.
        RefusedError: a table that this file does not have.
        BusyError, ReadOnlyError, DiskFullError, DatabaseError: as a commit does.
    """
    with open_writer(path, wait, stopped) as writer:
        schema = read_catalog(writer).schema
        known = [name for name in (MESSAGES, *SUMMARIES) if schema.has(name)]
        wanted = known if tables is None else list(tables)
        for table in wanted:
            if table not in known:
                raise RefusedError(
                    f"This database has no search table {table}. It has {', '.join(known) or 'none'}."
                )
        return tuple(_rebuild(writer, schema, table, stopped) for table in wanted)


def _rebuild(writer: Writer, schema: Schema, table: str, stopped: Stop) -> Rebuilt:
    writer.begin()
    writer.write_only([table])
    sql = writer.value("SELECT sql FROM sqlite_master WHERE name = ?", (table,))
    _drop(writer, table)
    writer.execute(sql)
    rows = fill_search_table(writer, schema, table, stopped)
    writer.commit()
    return Rebuilt(table, rows)


def fill_search_table(writer: Writer, schema: Schema, table: str, stopped: Stop = never) -> int:
    """Write all rows of an empty search table, within the caller's transaction; how many there are.

    Raises:
        CancelledError: *stopped* said so.
    """
    rows = 0
    entries = _messages(writer, schema) if table == MESSAGES else _summaries(writer)
    columns = "rowid, content" if table == MESSAGES else "summary_id, content"
    for key, text in entries:
        writer.execute(f"INSERT INTO {table} ({columns}) VALUES (?, ?)", (key, text))
        rows += 1
        if rows % PAGE == 0:
            check_wanted(stopped)
    return rows


def _drop(writer: Writer, table: str) -> None:
    """Drop a search table, also one whose module cannot open it any more."""
    with contextlib.suppress(sqlite3.DatabaseError):
        writer.execute(f"DROP TABLE {table}")
        return
    names = [f"{table}_{shadow}" for shadow in _SHADOWS]
    shadows = writer.rows_in("SELECT name FROM sqlite_master WHERE type = 'table' AND name IN (?*)", names)
    writer.execute("PRAGMA writable_schema = ON")
    try:
        writer.execute("DELETE FROM sqlite_master WHERE type = 'table' AND name = ?", (table,))
    finally:
        writer.execute("PRAGMA writable_schema = RESET")
    for row in shadows:
        writer.execute(f"DROP TABLE {quoted(row[0])}")


_SHADOWS = ("data", "idx", "content", "docsize", "config")


def _messages(writer: Rows, schema: Schema) -> Iterator[tuple[SqlValue, SqlValue]]:
    rules = engine_rules(schema).search
    for row in paged(writer, "SELECT message_id AS place, content FROM messages WHERE message_id"):
        text = indexed_text(row["content"], rules)
        if text is not None:
            yield row["place"], text


def _summaries(writer: Writer) -> Iterator[tuple[SqlValue, SqlValue]]:
    for row in paged(writer, "SELECT rowid AS place, summary_id, content FROM summaries WHERE rowid"):
        yield row["summary_id"], row["content"]


def paged(writer: Rows, select: str) -> Iterator[Row]:
    """All rows that a query finds, `PAGE` at a time, by the column that it ends with and calls ``place``."""
    first = -(2**63)
    while rows := writer.rows(f"{select} >= ? ORDER BY place LIMIT {PAGE}", (first,)):
        yield from rows
        if rows[-1]["place"] == 2**63 - 1:
            return
        first = rows[-1]["place"] + 1


# -- row by row -----------------------------------------------------------------------------------------


#: Ids that are compared at a time.
_STEP: Final = 5_000
#: Rows of a search table that one row has to have, by message id or summary id: those to go.
_Wrong = dict[int | str, tuple[int, ...]]


def resync(
    path: Path,
    tables: Iterable[str],
    *,
    wait: float = 5.0,
    stopped: Stop = never,
) -> tuple[Rebuilt, ...]:
    """Bring some search tables in step; those that this file does not have are left out.

    *stopped* says whether to give it up, while the lock is waited for and later; what is done stays done.

    Raises:
        CancelledError: *stopped* said so.
        BusyError, ReadOnlyError, DiskFullError, DatabaseError: as a commit does.
    """
    done: list[Rebuilt] = []
    try:
        for table in dict.fromkeys(tables):
            rows = _resync_table(path, table, wait, stopped)
            if rows is None:
                done += reindex(path, [table], wait=wait, stopped=stopped)
            elif rows >= 0:
                done.append(Rebuilt(table, rows))
    except CancelledError:
        raise CancelledError(
            "Cancelled; rows of the search tables that were already updated stay updated."
        ) from None
    return tuple(done)


def _resync_table(path: Path, table: str, wait: float, stopped: Stop) -> int | None:
    """How many rows were wrong; None: the table does not work; -1: there is none."""
    with open_writer(path, wait, stopped) as writer:
        schema = read_catalog(writer).schema
        if table not in (MESSAGES, *SUMMARIES) or not schema.has(table):
            return -1
        try:
            if not _works(writer, schema, table):
                return None
            rules = engine_rules(schema).search
            find = _wrong_messages(writer, rules) if table == MESSAGES else _wrong_summaries(writer, table)
            repaired = 0
            for wrong in list(find):
                check_wanted(stopped)
                repaired += _write(writer, rules, table, wrong)
        except sqlite3.DatabaseError as error:
            if is_fatal(error):
                raise
            writer.rollback()
            return None
        return repaired


def _works(db: Rows, schema: Schema, table: str) -> bool:
    """Whether a search table is whole: its parts are there, have the same rows, and it can be searched."""
    if not all(schema.has(f"{table}_{shadow}") for shadow in _SHADOWS):
        return False
    db.rows(f"SELECT rowid FROM {table} WHERE {table} MATCH ? LIMIT 1", ('"lcm"',))
    for one, other in (("content", "docsize"), ("docsize", "content")):
        sql = f"""SELECT EXISTS (SELECT 1 FROM {table}_{one} AS a
            WHERE NOT EXISTS (SELECT 1 FROM {table}_{other} AS b WHERE b.id = a.id))"""
        if db.tuples(sql)[0][0]:
            return False
    return True


def _wrong_messages(db: Rows, rules: SearchRules) -> Iterator[_Wrong]:
    """Messages whose search row is missing or stale, and search rows without message, some at a time."""
    wrong: _Wrong = {}
    for step in _steps(db, "messages", "message_id"):
        for row in db.rows(
            f"""SELECT m.message_id, m.content, f.id, f.c0 FROM messages AS m
            LEFT JOIN {MESSAGES}_content AS f ON f.id = m.message_id
            WHERE {step.where("m.message_id")} AND f.c0 IS NOT m.content""",
            step.bounds,
        ):
            text, held = indexed_text(row[1], rules), row[2] is not None
            if (text is not None) if not held else is_stale(str(row[1]), str(row[3] or "")):
                wrong[row[0]] = (row[0],) if held else ()
        yield from _parts(wrong)
        wrong.clear()
    for step in _steps(db, f"{MESSAGES}_content", "id"):
        for row in db.rows(
            f"""SELECT f.id FROM {MESSAGES}_content AS f WHERE {step.where("f.id")}
            AND NOT EXISTS (SELECT 1 FROM messages AS m WHERE m.message_id = f.id)""",
            step.bounds,
        ):
            wrong[row[0]] = (row[0],)
        yield from _parts(wrong)
        wrong.clear()


def _wrong_summaries(db: Rows, table: str) -> Iterator[_Wrong]:
    """Summaries whose search rows are not exactly one with their text, some at a time."""
    held: dict[str, tuple[int, ...]] = {}
    wrong: _Wrong = {}
    for step in _steps(db, f"{table}_content", "id"):
        for rowid, summary_id, stale in db.rows(
            f"""SELECT f.id, CAST(f.c0 AS TEXT), s.summary_id IS NULL OR f.c1 IS NOT s.content
            FROM {table}_content AS f LEFT JOIN summaries AS s ON s.summary_id = f.c0
            WHERE {step.where("f.id")}""",
            step.bounds,
        ):
            held[summary_id] = (*held.get(summary_id, ()), rowid)
            if stale or len(held[summary_id]) > 1:
                wrong[summary_id] = ()
    for row in db.rows(
        "SELECT summary_id FROM summaries WHERE summary_id IS NOT NULL AND trim(content, ?) <> ''", (BLANKS,)
    ):
        if row[0] not in held:
            wrong[row[0]] = ()
    yield from _parts({summary_id: held.get(str(summary_id), ()) for summary_id in wrong})


def _steps(db: Rows, table: str, column: str) -> Iterator[KeyRange]:
    """Steps over a table by rows that are there: ids may be anything."""
    after: SqlValue = None
    while True:
        keys = () if after is None else (after,)
        rows = db.rows(range_end_sql(table, column, _STEP, behind=bool(keys)), keys)
        until = rows[0][0] if rows else None
        yield KeyRange(after, until)
        if until is None:
            return
        after = until


def _parts(wrong: _Wrong) -> Iterator[_Wrong]:
    items = list(wrong.items())
    return (dict(items[start : start + PAGE]) for start in range(0, len(items), PAGE))


def _write(writer: Writer, rules: SearchRules, table: str, wrong: _Wrong) -> int:
    """Write the search rows of some messages or summaries anew, from what these hold now."""
    writer.begin()
    writer.write_only([table])
    base, key = ("messages", "message_id") if table == MESSAGES else ("summaries", "summary_id")
    for ref, rowids in wrong.items():
        for rowid in _still_theirs(writer, table, ref, rowids):
            writer.execute(f"DELETE FROM {table} WHERE rowid = ?", (rowid,))
        for row in writer.rows(f"SELECT content FROM {base} WHERE {key} = ?", (ref,)):
            if table == MESSAGES and (text := indexed_text(row[0], rules)) is not None:
                writer.execute(f"INSERT INTO {table} (rowid, content) VALUES (?, ?)", (ref, text))
            elif table != MESSAGES:
                writer.execute(f"INSERT INTO {table} (summary_id, content) VALUES (?, ?)", (ref, row[0]))
    writer.commit()
    return len(wrong)


def _still_theirs(writer: Writer, table: str, ref: int | str, rowids: Sequence[int]) -> Iterator[int]:
    """Search rows that are still its own: a host may have written them anew meanwhile."""
    for rowid in rowids:
        if (
            table == MESSAGES
            or writer.value(f"SELECT CAST(c0 AS TEXT) FROM {table}_content WHERE id = ?", (rowid,)) == ref
        ):
            yield rowid


# -- as SQL ---------------------------------------------------------------------------------------------


def resync_sql(db: Rows, schema: Schema, tables: Iterable[str]) -> Iterator[str]:
    """A script that does what `resync` does, for the file as it is now; nothing where nothing is wrong."""
    statements = [
        line
        for table in dict.fromkeys(tables)
        if table in (MESSAGES, *SUMMARIES) and schema.has(table)
        for line in _table_sql(db, schema, table)
    ]
    if statements:
        yield "BEGIN IMMEDIATE;"
        yield from statements
        yield "COMMIT;"


def _table_sql(db: Rows, schema: Schema, table: str) -> list[str]:
    rules = engine_rules(schema).search
    try:
        if _works(db, schema, table):
            find = _wrong_messages(db, rules) if table == MESSAGES else _wrong_summaries(db, table)
            return [line for wrong in find for line in _rows_sql(db, rules, table, wrong)]
    except sqlite3.DatabaseError as error:
        if is_fatal(error):
            raise
    return [*_drop_sql(db, table), *_fill_sql(db, rules, table)]


def _rows_sql(db: Rows, rules: SearchRules, table: str, wrong: _Wrong) -> Iterator[str]:
    """The search rows of some messages or summaries anew: the texts are read when the script runs."""
    ids = ", ".join(map(literal, wrong))
    yield f"DELETE FROM {table} WHERE {'rowid' if table == MESSAGES else 'summary_id'} IN ({ids});"
    yield from _fill_sql(db, rules, table, ids)


def _fill_sql(db: Rows, rules: SearchRules, table: str, ids: str | None = None) -> Iterator[str]:
    among = "" if ids is None else f" AND {{}} IN ({ids})"
    if table != MESSAGES:
        where = f"summary_id IS NOT NULL{among.format('summary_id')}"
        yield (
            f"INSERT INTO {table} (summary_id, content) SELECT summary_id, content FROM summaries "
            f"WHERE {where};"
        )
        return
    other = {}  # what the engine indexes of these is not what they hold
    where = "" if ids is None else f"message_id IN ({ids}) AND"
    for row in paged(db, f"SELECT message_id AS place, content FROM messages WHERE {where} message_id"):
        text = indexed_text(row["content"], rules)
        if text != row["content"]:
            other[row["place"]] = text
    left_out = f" AND message_id NOT IN ({', '.join(map(literal, other))})" if other else ""
    yield (
        f"INSERT INTO {MESSAGES} (rowid, content) SELECT message_id, content FROM messages "
        f"WHERE content IS NOT NULL{among.format('message_id')}{left_out};"
    )
    for message_id, text in other.items():
        if text is not None:
            yield (
                f"INSERT INTO {MESSAGES} (rowid, content) SELECT message_id, {literal(text)} FROM messages "
                f"WHERE message_id = {literal(message_id)};"
            )


def _drop_sql(db: Rows, table: str) -> Iterator[str]:
    """Drop a search table whose module may not open it, and make it again."""
    yield "PRAGMA writable_schema = ON;"
    yield f"DELETE FROM sqlite_master WHERE type = 'table' AND name = {literal(table)};"
    yield "PRAGMA writable_schema = RESET;"
    yield from (f"DROP TABLE IF EXISTS {table}_{shadow};" for shadow in _SHADOWS)
    yield f"{db.tuples('SELECT sql FROM sqlite_master WHERE name = ?', (table,))[0][0]};"
