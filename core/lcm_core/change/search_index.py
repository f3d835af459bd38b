"""Keep the search tables in step with what a commit changes, and rebuild them.

They are derived from messages and summaries (docs/spec/search.md, "Upkeep"): never in edits, journal or
undo. When one of them is broken the commit goes on and says `NOT_UPDATED`; `reindex` corrects it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from lcm_core.base.javascript import trimmed
from lcm_core.base.text import BLANKS
from lcm_core.base.values import Record, field
from lcm_core.change.apply import Write, writes_alike
from lcm_core.change.connection import Catalog, Writer
from lcm_core.change.plan import CONTEXT, Cell, Edit, Splice, value_of
from lcm_core.engine.rules import SearchRules, engine_rules
from lcm_core.store.listing import TABLE as ASSEMBLIES
from lcm_core.store.opening import Row, SqlValue, error_name
from lcm_core.store.schema import JOURNAL, Schema

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
