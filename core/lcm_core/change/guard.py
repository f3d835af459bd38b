"""Nothing is written but what a plan shows: no trigger runs, and no table takes a row that is not named.

Source: docs/spec/changes.md, "Nothing else writes". The engine makes neither triggers nor views
(docs/spec/format.md, "The file itself"), so any that a file has are another program's. They are found by name
before anything is written; while a transaction is open, SQLite asks `Guard` about each table that a statement
would write.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Collection, Iterable
from typing import Final

from lcm_core.base.errors import DatabaseError, RefusedError
from lcm_core.base.text import clip, safe_line
from lcm_core.store.listing import TABLE as ASSEMBLIES
from lcm_core.store.opening import Rows, error_name
from lcm_core.store.schema import BASE, JOURNAL, Schema

#: The tables of our own, as the first row makes them (docs/spec/format.md, "Tables of ours").
OWN_TABLES: Final = {
    JOURNAL: f"""CREATE TABLE IF NOT EXISTS {JOURNAL} (
    id TEXT PRIMARY KEY NOT NULL,
    batch TEXT,
    kind TEXT NOT NULL,
    conversation_id INTEGER,
    title TEXT NOT NULL,
    edits BLOB,
    resolution BLOB NOT NULL,
    export_path TEXT,
    export_sha256 TEXT,
    removed_findings TEXT NOT NULL,
    row_counts TEXT NOT NULL,
    tokens INTEGER NOT NULL,
    tool_version TEXT NOT NULL,
    created_at TEXT NOT NULL,
    undoes TEXT,
    undone_by TEXT
)""",
    ASSEMBLIES: f"""CREATE TABLE IF NOT EXISTS {ASSEMBLIES} (
    id TEXT PRIMARY KEY NOT NULL,
    conversation_id INTEGER NOT NULL,
    created_at TEXT NOT NULL,
    rules TEXT NOT NULL,
    zone TEXT,
    messages_hash TEXT NOT NULL,
    account TEXT NOT NULL,
    items BLOB NOT NULL
)""",
}
#: The tables behind a full-text table, as SQLite's FTS5 makes them, without blanks and quotes.
_SHADOWS: Final = {
    "data": r"\(idintegerprimarykey,blockblob\)",
    "idx": r"\(segid,term,pgno,primarykey\(segid,term\)\)withoutrowid",
    "content": r"\(idintegerprimarykey(,[cl]\d+)*\)",
    "docsize": r"\(idintegerprimarykey,szblob(,origininteger)?\)",
    "config": r"\(kprimarykey,v\)withoutrowid",
}
_FULL_TEXT: Final = re.compile(r"createvirtualtable\w+usingfts5\b")
_OTHER: Final = (
    "lcm-tui makes it with another definition, so another program changed it. Rename it: the next change "
    "makes a new one, but the changes that this one records can then no longer be undone"
)
_WIDTH: Final = 80


class Guard:
    """What one transaction may write: some tables, with what is behind those that are virtual."""

    def __init__(self, db: Rows, tables: Iterable[str]) -> None:
        """Look at the tables.

        Raises:
            RefusedError: one of them has a trigger, is a view, or is not as the engine or lcm-tui makes it.
        """
        self._tables = frozenset(name.lower() for name in tables)
        listed = db.tuples("SELECT type, name, tbl_name, sql FROM sqlite_master WHERE type <> 'index'")
        held = {str(name).lower(): (kind, str(sql)) for kind, name, _, sql in listed if kind != "trigger"}
        self._prefixes = tuple(
            f"{name}_"
            for name in self._tables
            if name not in held or held[name][1][:14].upper() == "CREATE VIRTUAL"
        )
        for kind, name, table, _ in listed:
            if kind == "trigger" and self._is_ours(str(table)):
                raise trigger_refusal(str(name), str(table))
        for name, (kind, sql) in sorted(held.items()):
            if self._is_ours(name):
                _check_shape(name, kind, sql, held)
        for name in sorted(self._tables & held.keys()):
            if f"{name}_" not in self._prefixes and db.tuples(
                "SELECT 1 FROM pragma_table_xinfo(?) WHERE lower(name) = 'rowid'", (name,)
            ):
                raise _odd_shape(name, "it has a column named rowid, which hides the numbers of its rows")
        self.denied: RefusedError | None = None  #: why SQLite was told not to compile a statement

    def _is_ours(self, table: str) -> bool:
        name = table.lower()
        return name in self._tables or name.startswith(self._prefixes)

    def judge(
        self, action: int, first: str | None, _second: str | None, _database: str | None, within: str | None
    ) -> int:
        """SQLite's question about one step of a statement (`sqlite3.Connection.set_authorizer`)."""
        if within is not None:  # our statements have neither views nor subqueries, by which it would be named
            self.denied = trigger_refusal(within, None)
        elif action in _WRITING and not (self._is_ours(first or "") or (first or "").startswith("sqlite_")):
            self.denied = _odd_shape(first or "", "a change would write it that is not about it")
        else:
            return sqlite3.SQLITE_OK
        return sqlite3.SQLITE_DENY


_WRITING: Final = frozenset({sqlite3.SQLITE_INSERT, sqlite3.SQLITE_UPDATE, sqlite3.SQLITE_DELETE})


def check_whole(schema: Schema) -> None:
    """Refuse a change of a file without the tables by which summaries and contexts are checked.

    Raises:
        DatabaseError: one of them, or a column that every version has, is missing.
    """
    lacking = [
        table if not schema.has(table) else f"{table}.{column}"
        for table in _STRUCTURE
        for column in BASE[table]
        if not schema.has(table, column)
    ]
    if lacking:
        named = ", ".join(dict.fromkeys(lacking))
        raise DatabaseError(
            f"This database lacks a part of LCM's schema ({named}): it is damaged, or a migration did not "
            "finish. Nothing was changed; restore a backup (`lcm-tui restore`), or let the host start once "
            "and migrate it.",
            code="DATABASE_INCOMPLETE",
            details={"missing": named},
        )


_STRUCTURE: Final = ("summaries", "summary_messages", "summary_parents", "context_items")


#: A statement: the table that it writes, its text, and how many values it takes.
Statement = tuple[str, str, int]


def check_tables(db: Rows, tables: Collection[str], statements: Iterable[Statement] = ()) -> Guard:
    """Refuse a change of *tables* which something else would write along, or which SQLite cannot make here.

    What comes out lets nothing else be written, as long as nobody commits.

    SQLite compiles the *statements* without running them. A user's index, constraint or column may need a
    function or an order of texts that only another program has.

    Raises:
        RefusedError: as `Guard` does, or a statement cannot be compiled.
    """
    guard = Guard(db, tables)
    for table, sql, values in sorted(set(statements)):
        try:
            db.tuples(f"EXPLAIN {sql}", (None,) * values)
        except sqlite3.OperationalError as error:
            if not error_name(error).startswith("SQLITE_ERROR"):
                raise
            if not _IS_GONE.search(str(error)):
                raise _odd_shape(
                    table, f"an index, constraint or column of another program needs more ({error})"
                ) from error
    return guard


#: What SQLite says of a table or column that a plan knows and the file no longer has: the plan is stale.
_IS_GONE: Final = re.compile("no such table|no such column|has no column named")


def trigger_refusal(name: str, table: str | None) -> RefusedError:
    """Why nothing is written where a trigger would run; *table* is where it is, if that is known."""
    named = clip(safe_line(name), _WIDTH)
    where = "" if table is None else f" on table {clip(safe_line(table), _WIDTH)}"
    return RefusedError(
        f"Trigger {named}{where} would run with this change and may write what no preview shows; the engine "
        f"makes no triggers. Nothing was changed; if you trust it, drop it, make the change and create it "
        "again.",
        code="DATABASE_HAS_TRIGGER",
        details={"trigger": name, "table": table},
    )


def _odd_shape(table: str, why: str) -> RefusedError:
    return RefusedError(
        f"Table {clip(safe_line(table), _WIDTH)} cannot be written safely: {why}. Nothing was changed.",
        code="TABLE_UNKNOWN",
        details={"table": table},
    )


def _check_shape(name: str, kind: str, sql: str, held: dict[str, tuple[str, str]]) -> None:
    if kind != "table":
        raise _odd_shape(name, f"it is a {safe_line(kind)}, not a table")
    if name in OWN_TABLES:
        if _bare(sql) != _bare(OWN_TABLES[name]):
            raise _odd_shape(name, _OTHER)
        return
    table, _, shadow = name.rpartition("_")
    expected = _SHADOWS.get(shadow)
    if expected is None or not _FULL_TEXT.match(_bare(held.get(table, ("", ""))[1])):
        return
    if not re.fullmatch(f"createtable{re.escape(name)}{expected}", _bare(sql)):
        raise _odd_shape(name, f"it belongs to the search table {table}, and SQLite makes it otherwise")


def _bare(sql: str) -> str:
    """A definition without what means nothing: blanks, quotes of names, capitals."""
    return re.sub(r"[\s'\"\[\]`]", "", sql).lower().replace("ifnotexists", "", 1)
