"""The one place that writes into a database of Remnic's: short transactions, noted before their commit.

`commit(plan)` is for lossless-claw's tables: it keeps their context, their search tables and its journal in
the same file. Remnic's file gets no table of ours, so what is written there is noted beside it (`journal`).
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lcm_core.change.connection import Writer, explained, open_writer
from lcm_core.change.copying import Stop
from lcm_core.change.errors import ReadOnlyError
from lcm_core.change.plan import Cell, Cells, Symbol
from lcm_core.errors import DatabaseBusyError, RefusedError
from lcm_core.remnic import schema
from lcm_core.remnic.journal import Came, Changed, Journal, Written, digest_of
from lcm_core.remnic.records import Step, What
from lcm_core.store.connecting import Rows, SqlValue, quoted


class MovedOnError(DatabaseBusyError):
    """A row is not as it was found, or came meanwhile: what is to be done is planned anew."""

    default_code = "REMNIC_MOVED_ON"


@dataclass(slots=True)
class RemnicWriter:
    """A connection to Remnic's database that writes step by step."""

    writer: Writer
    journal: Journal
    search_failed: str = ""  #: why search rows could not be written

    @property
    def id(self) -> str:
        """By which the import is known for its undo."""
        return self.journal.id

    def end(self) -> None:
        """Note that the import is whole."""
        self.journal.end()

    def transact(self, make: Callable[[Rows], Sequence[Step]]) -> Sequence[Step]:
        """Do in one transaction what *make* finds under its lock.

        Raises:
            MovedOnError: *make* says so, or a row changed; nothing was written.
            LcmError: the lock was not free, or the disk is full.
        """
        self.writer.begin()
        try:
            steps = make(self.writer)
            self.writer.write_only(schema.WRITTEN)
            written = self._apply(steps)
            self.journal.wrote(written)
            self.writer.commit()
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                self.writer.rollback()
            raise
        return steps

    def _apply(self, steps: Sequence[Step]) -> list[Written]:
        ids: dict[str, int] = {}
        came: dict[tuple[str, int | str], None] = {}
        changed: list[Written] = []
        for step in steps:
            if not step.writes:
                continue
            if step.what is What.SEARCH:
                assert isinstance(step.key, int)
                self._make_found(step.table, step.key, step.after)
            elif step.key is None:
                after = {name: _value(cell, ids) for name, cell in step.after.values}
                key = self._insert(step.table, after)
                if step.origin is not None and isinstance(key, int):
                    ids[step.origin.text] = key
                came[step.table, key] = None
            else:
                changed.append(self._update(step))
        rows = [Came(table, key, digest_of(whole_row(self.writer, table, key))) for table, key in came]
        return [*rows, *changed]

    def _insert(self, table: str, row: Mapping[str, SqlValue]) -> int | str:
        names = ", ".join(map(quoted, row))
        sql = f"INSERT INTO {table} ({names}) VALUES ({', '.join('?' * len(row))})"
        place = self.writer.execute(sql, tuple(row.values())).lastrowid
        assert place is not None
        if table in schema.SEARCH:
            self._search(table, place, None, row.get(schema.SEARCH[table][1]))
        key = row.get(schema.KEYS[table], place)
        assert isinstance(key, int | str)
        return key

    def _update(self, step: Step) -> Changed:
        assert step.key is not None
        before = {name: _value(cell, {}) for name, cell in step.before.values}
        after = {name: _value(cell, {}) for name, cell in step.after.values}
        place = update_row(self.writer, step.table, step.key, before, after)
        if place is None:
            raise MovedOnError(f"Row {step.key} of {step.table} keeps changing. Try again later.")
        if step.table in schema.SEARCH and (column := schema.SEARCH[step.table][1]) in after:
            self._search(step.table, place, before[column], after[column])
        return Changed(step.table, step.key, before, after)

    def _make_found(self, table: str, place: int, said: Cells) -> None:
        self._search(table, place, None, _value(said[schema.SEARCH[table][1]], {}))

    def _search(self, table: str, place: int, old: SqlValue, new: SqlValue) -> None:
        self.search_failed = reindex(self.writer, table, place, old, new) or self.search_failed


def update_row(
    writer: Writer, table: str, key: int | str, before: Mapping[str, SqlValue], after: Mapping[str, SqlValue]
) -> int | None:
    """Change a row that is as it was; its number, or None when it is gone or otherwise by now."""
    column = schema.KEYS[table]
    sets = ", ".join(f"{quoted(name)} = ?" for name in after)
    places = writer.tuples(f"SELECT rowid FROM {table} WHERE {column} = ?", (key,))
    now = whole_row(writer, table, key)
    if not places or any(now.get(name) != value for name, value in before.items()):
        return None
    writer.execute(f"UPDATE {table} SET {sets} WHERE {column} = ?", (*after.values(), key))
    return int(places[0][0])


def whole_row(rows: Rows, table: str, key: int | str) -> dict[str, SqlValue]:
    """A row by its key, whole; empty when it is gone."""
    found = rows.rows(f"SELECT * FROM {table} WHERE {schema.KEYS[table]} = ?", (key,))
    return dict(zip(found[0].keys(), found[0], strict=True)) if found else {}


def reindex(writer: Writer, table: str, place: int, old: SqlValue, new: SqlValue) -> str:
    """Have search find a row by its new text instead of its old one; None is no text.

    Gives why that failed: the search table is damaged, and stays as it is. Search is derived, so nothing else
    waits for it.
    """
    if not schema.has_table(writer, schema.SEARCH[table][0]):
        return ""
    try:
        _reindex(writer, table, place, old, new)
    except sqlite3.DatabaseError as error:
        return str(error)
    return ""


def _reindex(writer: Writer, table: str, place: int, old: SqlValue, new: SqlValue) -> None:
    """The same; what is not indexed is not taken out, which would spoil the index."""
    search, column = schema.SEARCH[table]
    sizes = f"{search}_docsize"
    known = schema.has_table(writer, sizes)
    indexed = bool(known and writer.tuples(f"SELECT 1 FROM {sizes} WHERE id = ?", (place,)))
    with _savepoint(writer):
        if old is not None and (indexed or not known):
            writer.execute(
                f"INSERT INTO {search} ({search}, rowid, {column}) VALUES ('delete', ?, ?)", (place, old)
            )
            indexed = False
        if new is not None and not indexed:
            writer.execute(f"INSERT INTO {search} (rowid, {column}) VALUES (?, ?)", (place, new))


@contextlib.contextmanager
def _savepoint(writer: Writer) -> Iterator[None]:
    writer.execute("SAVEPOINT search")
    try:
        yield
    except sqlite3.DatabaseError:
        writer.execute("ROLLBACK TO search")
        raise
    finally:
        writer.execute("RELEASE search")


def _value(cell: Cell, ids: Mapping[str, int]) -> SqlValue:
    if isinstance(cell, Symbol):
        return ids[cell.name]
    return cell


@contextlib.contextmanager
def writing(path: Path, source: Path, wait: float, stopped: Stop | None = None) -> Iterator[RemnicWriter]:
    """Open a database of Remnic's for an import from *source*; what is written is noted.

    Raises:
        LcmError: it cannot be opened for writing, or nothing can be noted.
    """
    with open_writer(path, wait, stopped) as writer:
        with writer.snapshot():
            schema.check_writable(writer, path)
        with contextlib.closing(Journal.begin(path, source)) as journal:
            yield RemnicWriter(writer, journal)


def create(path: Path) -> None:
    """Make an empty database of schema 2, private to its user, in WAL mode; blocks.

    Raises:
        RefusedError: something is at *path* already.
        ReadOnlyError: its folder cannot be written.
        DatabaseError: SQLite refused.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except FileExistsError as error:
        raise RefusedError(f"{path} already exists. Nothing was changed.") from error
    except OSError as error:
        raise ReadOnlyError(
            f"{path} cannot be created ({error.strerror or error}): check its folder's permissions."
        ) from error
    try:
        with open_writer(path, 5.0) as writer:
            writer.execute("PRAGMA journal_mode = WAL")
            writer.begin()
            for statement in schema.statements():
                writer.execute(statement)
            writer.commit()
    except BaseException as error:
        for ending in ("", "-wal", "-shm"):
            with contextlib.suppress(OSError):
                os.unlink(f"{path}{ending}")
        if isinstance(error, sqlite3.Error):
            raise explained(error, path, 0.0) from error
        raise
