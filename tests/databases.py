"""Databases for tests: read by SQL, changed behind everybody's back, and filled with rows by one builder.

A test takes a recorded database (the fixture `database_copy`) or an empty one (`new_database`) and says what
matters to it; the builder gives the other columns the values that an engine would have written::

    with building(path) as rows:
        said = rows.message(1, "hello", role="assistant")
        rows.summary(1, "sum_new", messages=[said], in_context=True)
    assert value(path, "SELECT count(*) FROM summary_messages WHERE message_id = ?", said) == 1

Nothing here reads or writes through the code under test, but for the schema of a new database.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from lcm_core.base.tokens import estimate_weighted
from lcm_core.change.schema import create_database

Value = str | int | float | bytes | None


# -- any rows --------------------------------------------------------------------------------------------


@contextmanager
def connect(path: Path, *, timeout: float = 5.0) -> Iterator[sqlite3.Connection]:
    """A connection of the test's own that may write, without foreign keys, outside of a transaction.

    It waits *timeout* seconds for a lock. Text that is not UTF-8 is read with surrogate escapes.
    """
    with _closing(sqlite3.connect(path, isolation_level=None, timeout=timeout)) as connection:
        yield connection


def leave_unread_wal(path: Path) -> bytes:
    """Put a WAL beside *path* whose first page was lost, with three commits that SQLite does not read; it."""
    with tempfile.TemporaryDirectory() as folder:
        host_file = Path(shutil.copy(path, Path(folder) / path.name))
        with connect(host_file) as host:
            host.execute("PRAGMA wal_autocheckpoint = 0")
            for number in range(3):
                host.execute("UPDATE conversations SET title = ?", (f"only in the log {number}",))
            wal = host_file.with_name(f"{path.name}-wal").read_bytes()
    size = int.from_bytes(wal[8:12], "big")
    unread = wal[:56] + bytes(size) + wal[56 + size :]
    path.with_name(f"{path.name}-wal").write_bytes(unread)
    return unread


@contextmanager
def _closing(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    connection.text_factory = lambda raw: raw.decode("utf-8", "surrogateescape")
    try:
        yield connection
    finally:
        connection.close()


@contextmanager
def reading(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection to read with. A file that nobody is at work on is left without a trace."""
    if any(path.with_name(path.name + end).exists() for end in ("-wal", "-journal")):
        with connect(path) as connection:
            yield connection
    else:
        with _closing(sqlite3.connect(f"{path.as_uri()}?immutable=1", uri=True)) as connection:
            yield connection


def query(path: Path, sql: str, *parameters: object) -> list[tuple[Any, ...]]:
    """All rows."""
    with reading(path) as connection:
        return connection.execute(sql, parameters).fetchall()


def rows(path: Path, sql: str, *parameters: object) -> list[sqlite3.Row]:
    """All rows, their values by name or place."""
    with reading(path) as connection:
        connection.row_factory = sqlite3.Row
        return connection.execute(sql, parameters).fetchall()


def column(path: Path, sql: str, *parameters: object) -> list[Any]:
    """The first column of all rows."""
    return [row[0] for row in query(path, sql, *parameters)]


def value(path: Path, sql: str, *parameters: object) -> Any:
    """The first column of the first row; None where there is no row."""
    return next(iter(column(path, sql, *parameters)), None)


def damage_table(path: Path, table: str) -> None:
    """Overwrite the last page of the rows of a table: those cannot be read any more."""
    size = value(path, "PRAGMA page_size")
    page = value(path, "SELECT rootpage FROM sqlite_master WHERE name = ?", table)
    with path.open("r+b") as file:
        while True:
            file.seek((page - 1) * size)
            head = file.read(12)
            if head[0] != 5:  # no inner page of a tree, whose head ends with its last child
                break
            page = int.from_bytes(head[8:])
        file.seek((page - 1) * size)
        file.write(b"\xff" * size)


def folder(path: Path) -> dict[str, bytes]:
    """Every file of the folder of a database by name, its own with them."""
    return {found.name: found.read_bytes() for found in path.parent.iterdir()}


def keeps_a_wal(path: Path) -> bool:
    """Whether a database writes ahead; one that is opened as unchanging does not say."""
    with connect(path) as connection:
        return bool(connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal")


def run(path: Path, *statements: str) -> Path:
    """Change a database behind everybody's back, each statement in a transaction of its own; *path* again."""
    with connect(path) as connection:
        for statement in statements:
            connection.execute(statement)
    return path


@dataclass(slots=True)
class Work:
    """What SQLite did for a `Database` that is opened with ``arrange=work.count``: counts, no times."""

    statements: list[str] = field(default_factory=list)  #: with their parameters, those that SQLite ran
    steps: int = 0  #: of its machine, in hundreds; a row takes about ten steps

    def count(self, connection: sqlite3.Connection, _rows: object, _schema: object) -> None:
        """Note from here on what this connection is asked."""
        connection.set_trace_callback(self.statements.append)
        connection.set_progress_handler(self._step, 100)

    def _step(self) -> None:
        self.steps += 1

    def scans(self, path: Path, *tables: str) -> list[str]:
        """The statements that read all of one of *tables*, as SQLite plans them."""
        return [sql for sql in self.selects if any(f"SCAN {one}" in plan(path, sql) for one in tables)]

    @property
    def selects(self) -> list[str]:
        """The statements that read."""
        return [sql for sql in self.statements if sql.lstrip().startswith(("SELECT", "WITH"))]


def plan(path: Path, sql: str) -> str:
    """How SQLite reads for a statement; a table with another name is called by that of the table."""
    found = "\n".join(row[3] for row in query(path, f"EXPLAIN QUERY PLAN {sql}"))
    for table, name in re.findall(r"\b(?:FROM|JOIN)\s+(\w+)\s+AS\s+(\w+)", sql):
        found = re.sub(rf"\b(SCAN|SEARCH) {name}\b", rf"\1 {table}", found)
    return found


# -- the builder -----------------------------------------------------------------------------------------


class Builder:
    """Adds rows as an engine would write them, to a database of any version.

    Every method takes values for further columns by name, which also replace the defaults; SQLite refuses a
    column that the file does not have. No method writes into search tables.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection

    def execute(self, sql: str, *parameters: object) -> sqlite3.Cursor:
        """Any statement, in the same transaction."""
        return self.connection.execute(sql, parameters)

    def insert(self, table: str, **columns: Value) -> int:
        """A row of any table, columns not named left to the schema; its rowid."""
        names, marks = ", ".join(columns), ", ".join("?" * len(columns))
        cursor = self.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", *columns.values())
        return int(cursor.lastrowid or 0)

    def conversation(self, conversation_id: int | None = None, **columns: Value) -> int:
        """A conversation of a session of its own; its id."""
        session = {"session_id": f"session-{conversation_id or 'new'}"}
        return self.insert("conversations", **{"conversation_id": conversation_id, **session, **columns})

    def message(
        self,
        conversation_id: int,
        content: str,
        *,
        role: str = "user",
        in_context: bool = True,
        **columns: Value,
    ) -> int:
        """A message after the last one, and its place at the end of the context; its id."""
        if "seq" not in columns:
            columns["seq"] = self._next("messages", "seq", 1, conversation_id)
        row: dict[str, Value] = {
            "conversation_id": conversation_id,
            "role": role,
            "content": content,
            "token_count": estimate_weighted(content),
        }
        if "identity_hash" in self._columns("messages"):
            row["identity_hash"] = hashlib.sha256(f"{role}\0{content}".encode()).hexdigest()
        message_id = self.insert("messages", **{**row, **columns})
        if in_context:
            self.item(conversation_id, message_id)
        return message_id

    def part(
        self, message_id: int, part_type: str = "text", text: str | None = None, **columns: Value
    ) -> str:
        """A part after the last of its message; its id. A text part without *text* repeats the message."""
        [ordinal] = self.execute(
            "SELECT coalesce(max(ordinal) + 1, 0) FROM message_parts WHERE message_id = ?", message_id
        ).fetchone()
        session, content = self.execute(
            """SELECT c.session_id, m.content FROM messages AS m
            JOIN conversations AS c USING (conversation_id) WHERE m.message_id = ?""",
            message_id,
        ).fetchone()
        row: dict[str, Value] = {
            "part_id": f"part-{message_id}-{ordinal}",
            "message_id": message_id,
            "session_id": session,
            "part_type": part_type,
            "ordinal": ordinal,
            "text_content": content if text is None and part_type == "text" else text,
            "metadata": "{}",
        }
        row.update(columns)
        self.insert("message_parts", **row)
        return str(row["part_id"])

    def summary(
        self,
        conversation_id: int,
        summary_id: str | None,
        content: str = "What happened there.\nExpand for details about: it",
        *,
        messages: Sequence[int] = (),
        sources: Sequence[str] = (),
        depth: int | None = None,
        in_context: bool = False,
        **columns: Value,
    ) -> int:
        """A summary with links to what it was made from; its rowid.

        *depth* is 1 with *sources* and 0 without, where it is not given; depth 0 is a leaf.
        """
        if depth is None:
            depth = 1 if sources else 0
        row: dict[str, Value] = {
            "summary_id": summary_id,
            "conversation_id": conversation_id,
            "kind": "condensed" if depth else "leaf",
            "depth": depth,
            "content": content,
            "token_count": estimate_weighted(content),
        }
        rowid = self.insert("summaries", **{**row, **columns})
        if summary_id is not None:
            self.links(summary_id, messages=messages, sources=sources)
            if in_context:
                self.item(conversation_id, summary_id)
        return rowid

    def links(
        self, summary_id: str, *, messages: Sequence[int] = (), sources: Sequence[str] = (), first: int = 0
    ) -> None:
        """What a summary was made from, numbered from *first* on."""
        for table, name, found in (
            ("summary_messages", "message_id", messages),
            ("summary_parents", "parent_summary_id", sources),
        ):
            self.connection.executemany(
                f"INSERT INTO {table} (summary_id, {name}, ordinal) VALUES (?, ?, ?)",
                [(summary_id, one, ordinal) for ordinal, one in enumerate(found, first)],
            )

    def item(self, conversation_id: int, ref: int | str, ordinal: int | None = None, **columns: Value) -> int:
        """A message (by its number) or a summary in the context, at its end or at *ordinal*; the ordinal."""
        if ordinal is None:
            ordinal = self._next("context_items", "ordinal", 0, conversation_id)
        row: dict[str, Value] = {
            "conversation_id": conversation_id,
            "ordinal": ordinal,
            "item_type": "summary" if isinstance(ref, str) else "message",
            "message_id": None if isinstance(ref, str) else ref,
            "summary_id": ref if isinstance(ref, str) else None,
        }
        self.insert("context_items", **{**row, **columns})
        return ordinal

    def file(self, conversation_id: int, file_id: str, storage_uri: str, **columns: Value) -> str:
        """A large file that is stored at *storage_uri*; its id."""
        row: dict[str, Value] = {"conversation_id": conversation_id, "storage_uri": storage_uri}
        self.insert("large_files", **{"file_id": file_id, **row, **columns})
        return file_id

    def _next(self, table: str, name: str, first: int, conversation_id: int) -> int:
        sql = f"SELECT coalesce(max({name}) + 1, ?) FROM {table} WHERE conversation_id = ?"
        return int(self.execute(sql, first, conversation_id).fetchone()[0])

    def _columns(self, table: str) -> set[str]:
        return {name for (name,) in self.execute("SELECT name FROM pragma_table_info(?)", table)}


@contextmanager
def building(path: Path, *, checks: bool = True) -> Iterator[Builder]:
    """A builder for a database that is there already; one transaction, committed at the end.

    Args:
        path: the database; foreign keys are not enforced.
        checks: whether the file's CHECK constraints are.
    """
    with connect(path) as connection:
        connection.execute(f"PRAGMA ignore_check_constraints = {not checks:d}")
        connection.execute("BEGIN IMMEDIATE")
        yield Builder(connection)
        connection.execute("COMMIT")


def new_database(path: Path) -> Path:
    """Write an empty database of the present schema, without a WAL; *path* again."""
    path.write_bytes(_empty())
    return path


@cache
def _empty() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "lcm.db"
        create_database(path)
        run(path, "PRAGMA journal_mode = DELETE")
        return path.read_bytes()
