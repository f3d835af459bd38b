"""Writing into Remnic's database, the only place that does; the journal of imports, and their undo."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import secrets
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Concatenate, Final, TypeAlias

import platformdirs
from lcm_core.base.errors import DatabaseBusyError, NotFoundError, RefusedError
from lcm_core.base.files import PROGRAM, make_private, sync_folder
from lcm_core.base.times import iso_z
from lcm_core.base.values import P, Record, Struct, T, field, replace
from lcm_core.change.connection import Writer, creating, open_writer
from lcm_core.change.copying import Stop, check_wanted
from lcm_core.change.journal import CodecError, decode_values, encode_values
from lcm_core.change.plan import Cell, Cells, Symbol
from lcm_core.store.opening import Rows, SqlValue, quoted, real_path

from lcm_remnic import records as schema
from lcm_remnic.records import Step, What
from lcm_remnic.source import read_remnic

# -- the journal -----------------------------------------------------------------------------------------
# What an import wrote, beside Remnic's database in a file of ours, so that it can be undone.
#
# A file for each import, under our own folder, this user's alone (0600). Its first line says what it is,
# each further line what one transaction wrote, on the disk before that was committed; the last one that it
# ended. Of a row that was added the journal keeps its key and a digest, of one that changed the columns
# before and after.


FORMAT: Final = "lcm-tui remnic import"
VERSION: Final = 1


class Came(Record, frozen=True):
    """A row that was inserted."""

    table: str
    key: int | str
    digest: str  #: of the whole row


class Changed(Record, frozen=True):
    """A row of which columns were changed."""

    table: str
    key: int | str
    before: Mapping[str, SqlValue]
    after: Mapping[str, SqlValue]


Written: TypeAlias = Came | Changed


class Import(Record, frozen=True):
    """An import as its file tells it."""

    id: str = field(name="importId")
    path: Path
    target: str
    source: str
    begun_at: str
    ended: bool
    undone_at: str | None
    rows: int

    @property
    def state(self) -> str:
        """What became of it."""
        return "undone" if self.undone_at else "complete" if self.ended else "incomplete"


def folder_of(target: Path) -> Path:
    """Where the imports into a database are kept."""
    name = hashlib.sha256(os.fsencode(real_path(target))).hexdigest()[:16]
    return Path(platformdirs.user_state_dir(PROGRAM, appauthor=False)) / "remnic" / name


class Journal:
    """The file of an import on its way, locked until it is closed."""

    def __init__(self, name: str, folder: Path, descriptor: int) -> None:
        self.id = name
        self._folder = folder
        self._descriptor = descriptor
        self._new = False  #: nothing was ever noted in it

    @classmethod
    def begin(cls, target: Path, source: Path) -> Journal:
        """Go on with the newest import of *source* that was stopped, or begin one.

        Raises:
            RefusedError: the file cannot be made.
        """
        folder, origin = folder_of(target), str(real_path(source))
        try:
            make_private(folder)
            for one in imports(target):
                stopped = not one.ended and one.undone_at is None and one.source == origin
                if stopped and (descriptor := _locked(one.path)) is not None:
                    _cut_torn_line(descriptor)
                    return cls(one.id, folder, descriptor)
            name = f"rem_{secrets.token_hex(8)}"
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
            descriptor = os.open(folder / f"{name}.jsonl", flags, 0o600)
            _lock(descriptor)
            journal = cls(name, folder, descriptor)
            journal._new = True
            journal.line(
                {
                    "format": FORMAT,
                    "version": VERSION,
                    "id": name,
                    "target": str(real_path(target)),
                    "source": origin,
                    "begunAt": iso_z(datetime.now(UTC)),
                }
            )
            sync_folder(folder)
        except OSError as error:
            raise _unkept(folder, error) from error
        return journal

    def line(self, value: Mapping[str, object]) -> None:
        """Add a line and make it last."""
        data = (json.dumps(value, ensure_ascii=True, separators=(",", ":")) + "\n").encode("ascii")
        view = memoryview(data)
        while view:
            view = view[os.write(self._descriptor, view) :]
        os.fsync(self._descriptor)

    def wrote(self, written: Iterable[Written]) -> None:
        """Add what a transaction is about to commit.

        Raises:
            RefusedError: the disk has no room.
        """
        lines = [_encoded(one) for one in written]
        if not lines:
            return
        self._new = False
        try:
            self.line({"wrote": lines})
        except OSError as error:
            raise _unkept(self._folder, error) from error

    def end(self) -> None:
        """Say that the import is whole."""
        self.line({"ended": iso_z(datetime.now(UTC))})

    def close(self) -> None:
        """Let go of the file; without anything to undo it goes."""
        if self._new:
            with contextlib.suppress(OSError):
                (self._folder / f"{self.id}.jsonl").unlink()
        os.close(self._descriptor)


def imports(target: Path) -> list[Import]:
    """The imports into a database that files are kept of, the newest first."""
    found = []
    with contextlib.suppress(OSError):
        for path in folder_of(target).glob("rem_*.jsonl"):
            with contextlib.suppress(OSError, ValueError):
                found.append(_read(path))
    return sorted(found, key=lambda one: (one.begun_at, one.id), reverse=True)


def find_import(target: Path, name: str | None) -> Import:
    """The import of an id or the beginning of one; without it, the newest that was not undone.

    Raises:
        NotFoundError: there is none, or several begin so.
    """
    every = imports(target)
    if name is None:
        left = [one for one in every if one.undone_at is None and one.rows]
    else:
        left = [one for one in every if one.id.startswith(name)]
    if not left or (name is not None and len(left) > 1):
        what = f"No import matched {name}" if name and not left else "There is no import to undo"
        if len(left) > 1:
            what = f"{len(left)} imports begin with {name}"
        raise NotFoundError(
            f"{what} in {target}. `lcm-tui remnic list` shows those that can be undone.",
            code="IMPORT_NOT_FOUND",
        )
    return left[0]


def written_by(one: Import) -> Iterator[tuple[Written, ...]]:
    """What the transactions of an import wrote, the newest first.

    Raises:
        RefusedError: the file is damaged.
    """
    pieces = [tuple(_decoded(one.path, each) for each in _wrote(line)) for line in _lines(one.path)]
    return iter(reversed([piece for piece in pieces if piece]))


@contextlib.contextmanager
def undoing(one: Import) -> Iterator[None]:
    """Hold the file of an import while it is taken back, and note that it was when nothing went wrong.

    Raises:
        RefusedError: the import still runs.
    """
    descriptor = _locked(one.path)
    if descriptor is None:
        raise RefusedError(f"Import {one.id} is still running. Wait until it has ended, or stop it.")
    journal = Journal(one.id, one.path.parent, descriptor)
    try:
        _cut_torn_line(descriptor)
        yield
        journal.line({"undone": iso_z(datetime.now(UTC))})
    finally:
        journal.close()


def digest_of(row: Mapping[str, SqlValue]) -> str:
    """What names the content of a whole row."""
    text = json.dumps(encode_values(row), ensure_ascii=True, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:32]


def _read(path: Path) -> Import:
    found: Import | None = None
    for value in _lines(path):
        if found is None:
            if value.get("format") != FORMAT or value.get("version") != VERSION:
                raise ValueError("another kind of file")
            named = [str(value.get(name, "")) for name in ("id", "target", "source", "begunAt")]
            found = Import(named[0], path, named[1], named[2], named[3], False, None, 0)
        elif "ended" in value:
            found = replace(found, ended=True)
        elif "undone" in value:
            found = replace(found, undone_at=str(value["undone"]))
        elif "wrote" in value:
            rows = found.rows + len(_wrote(value))
            found = replace(found, ended=False, undone_at=None, rows=rows)
    if found is None:
        raise ValueError("an empty file")
    return found


def _wrote(line: Mapping[str, object]) -> list[object]:
    """The rows of a line that one transaction wrote."""
    found = line.get("wrote")
    return found if isinstance(found, list) else []


def _lines(path: Path) -> Iterator[dict[str, object]]:
    """Every whole line: one that was cut off belongs to what was never committed."""
    with path.open(encoding="ascii", errors="replace") as file:
        for line in file:
            if not line.endswith("\n"):
                return
            value = json.loads(line)
            if not isinstance(value, dict):
                raise ValueError("no object")
            yield value


def _encoded(one: Written) -> dict[str, object]:
    if isinstance(one, Came):
        return {"came": one.table, "key": one.key, "digest": one.digest}
    return {
        "changed": one.table,
        "key": one.key,
        "before": encode_values(one.before),
        "after": encode_values(one.after),
    }


def _decoded(path: Path, value: object) -> Written:
    try:
        assert isinstance(value, dict)
        if "came" in value:
            return Came(str(value["came"]), value["key"], str(value["digest"]))
        before, after = decode_values(value["before"]), decode_values(value["after"])
        return Changed(str(value["changed"]), value["key"], before, after)
    except (AssertionError, KeyError, CodecError) as error:
        raise RefusedError(f"{path} is damaged: this import cannot be undone.") from error


def _lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return True
    return True


def _locked(path: Path) -> int | None:
    """A descriptor of a file that nobody writes; None when somebody does."""
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW)
    if _lock(descriptor):
        return descriptor
    os.close(descriptor)
    return None


def _cut_torn_line(descriptor: int) -> None:
    """Remove the last line where it was cut off."""
    size = os.fstat(descriptor).st_size
    at = size
    while at > 0:
        start = max(0, at - 65536)
        piece = os.pread(descriptor, at - start, start)
        newline = piece.rfind(b"\n")
        if newline >= 0:
            at = start + newline + 1
            break
        at = start
    if at < size:
        os.ftruncate(descriptor, at)


def _unkept(folder: Path, error: OSError) -> RefusedError:
    return RefusedError(
        f"The data for undoing the import cannot be written to {folder} ({error.strerror}), so the import "
        "stops. Free space there, then run the same command again.",
        code="JOURNAL_FAILED",
    )


# -- writing ---------------------------------------------------------------------------------------------
# Short transactions, noted before their commit.
#
# `commit(plan)` is for lossless-claw's tables: it keeps their context, their search tables and its journal
# in the same file. Remnic's file gets no table of ours, so what is written there is noted beside it
# (`Journal`).


class MovedOnError(DatabaseBusyError):
    """A row is not as it was found, or came meanwhile: what is to be done is planned anew."""

    default_code = "REMNIC_MOVED_ON"


class RemnicWriter(Struct):
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

    def look(self, load: Callable[Concatenate[Rows, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a load over one state of the file."""
        with self.writer.snapshot():
            return load(self.writer, *args, **kwargs)

    def make(self, find: Callable[[Rows], Sequence[Step]]) -> Sequence[Step]:
        """Do in one transaction what *find* finds under its lock.

        Raises:
            MovedOnError: *find* says so, or a row changed; nothing was written.
            LcmError: the lock was not free, or the disk is full.
        """
        self.writer.begin()
        try:
            steps = find(self.writer)
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
    search, column = schema.SEARCH[table]
    if not schema.has_table(writer, search):
        return ""
    sizes = f"{search}_docsize"
    try:
        known = schema.has_table(writer, sizes)
        indexed = bool(known and writer.tuples(f"SELECT 1 FROM {sizes} WHERE id = ?", (place,)))
        with _savepoint(writer):
            # What is not indexed is not taken out: that would spoil the index.
            if old is not None and (indexed or not known):
                writer.execute(
                    f"INSERT INTO {search} ({search}, rowid, {column}) VALUES ('delete', ?, ?)", (place, old)
                )
                indexed = False
            if new is not None and not indexed:
                writer.execute(f"INSERT INTO {search} (rowid, {column}) VALUES (?, ?)", (place, new))
    except sqlite3.DatabaseError as error:
        return str(error)
    return ""


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
    """Make an empty database of schema 2, and its folder; blocks. Raises what `creating` does."""
    with contextlib.suppress(OSError):  # making the file says why
        path.parent.mkdir(parents=True, exist_ok=True)
    with creating(path) as writer:
        for statement in schema.statements():
            writer.execute(statement)


# -- undo ------------------------------------------------------------------------------------------------
# What was added is removed, what changed gets its columns back (docs/spec/remnic.md, "Undo"). Only rows that
# are as the import left them: whatever Remnic or anybody else wrote since stays, and is counted.


class Undone(Struct):
    """What was taken back, or would be."""

    removed: int = 0
    restored: int = 0
    gone: int = 0  #: rows that are not there any more, or are restored already
    left: int = field(name="changedSince", default=0)  #: rows that were changed since: they stay


def preview_undo(target: Path, one: Import) -> Undone:
    """What taking an import back would do; blocks.

    Raises:
        LcmError: the database or the file of the import cannot be read.
    """
    return read_remnic(target, _previewed, one)


def _previewed(rows: Rows, one: Import) -> Undone:
    found = Undone()
    later: dict[tuple[str, int | str], dict[str, object]] = {}
    for piece in written_by(one):
        for each in reversed(piece):
            row = {**whole_row(rows, each.table, each.key), **later.get((each.table, each.key), {})}
            _judge(found, each, row)
            if not isinstance(each, Came):
                later.setdefault((each.table, each.key), {}).update(each.before)
    return found


def _judge(found: Undone, each: Written, row: dict[str, object]) -> bool:
    """Count what becomes of a row; whether it is to be taken back."""
    if not row:
        found.gone += 1
        return False
    if isinstance(each, Came):
        if digest_of(row) != each.digest:  # type: ignore[arg-type]
            found.left += 1
            return False
        found.removed += 1
        return True
    if all(row.get(name) == value for name, value in each.before.items()):
        found.gone += 1
        return False
    if any(row.get(name) != value for name, value in each.after.items()):
        found.left += 1
        return False
    found.restored += 1
    return True


def undo_import(
    target: Path,
    one: Import,
    wait: float,
    *,
    told: Callable[[int, int], None] = lambda done, of: None,
    stopped: Stop = lambda: False,
) -> Undone:
    """Take an import back, a transaction of its own for each of the import's; blocks. It can be run again.

    Raises:
        RefusedError: the import still runs, or its file is damaged.
        CancelledError: *stopped* said so; what was taken back is.
        LcmError: the database cannot be written.
    """
    found = Undone()
    done = 0
    with undoing(one), open_writer(target, wait, stopped) as writer:
        schema.check_writable(writer, target)
        for piece in written_by(one):
            check_wanted(stopped)
            writer.begin()
            writer.write_only(schema.WRITTEN)
            for each in reversed(piece):
                _take_back(writer, found, each)
            writer.commit()
            done += len(piece)
            told(done, one.rows)
    return found


def _take_back(writer: Writer, found: Undone, each: Written) -> None:
    row = whole_row(writer, each.table, each.key)
    if not _judge(found, each, dict(row)):
        return
    key = schema.KEYS[each.table]
    column = schema.SEARCH[each.table][1] if each.table in schema.SEARCH else None
    [(place,)] = writer.tuples(f"SELECT rowid FROM {each.table} WHERE {key} = ?", (each.key,))
    if isinstance(each, Came):
        if column is not None:
            reindex(writer, each.table, place, row[column], None)
        writer.execute(f"DELETE FROM {each.table} WHERE {key} = ?", (each.key,))
        return
    if column is not None and column in each.before:
        reindex(writer, each.table, place, row[column], each.before[column])
    update_row(writer, each.table, each.key, {}, each.before)
