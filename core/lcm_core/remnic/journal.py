"""What an import wrote, beside Remnic's database in a file of ours: so that it can be taken back.

A file for each import, under our own folder, this user's alone (0600). Its first line says what it is, each
further line what one transaction wrote, on the disk before that was committed; the last one that it ended.
Of a row that came its key and a digest are kept, of one that changed the columns before and after.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TypeAlias

import platformdirs

from lcm_core.change.codec import CodecError, decode_values, encode_values
from lcm_core.errors import NotFoundError, RefusedError
from lcm_core.private_files import PROGRAM, make_private, sync_folder
from lcm_core.store.connecting import SqlValue
from lcm_core.store.opening import real_path
from lcm_core.times import iso_z

FORMAT: Final = "lcm-tui remnic import"
VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class Came:
    """A row that was inserted."""

    table: str
    key: int | str
    digest: str  #: of the whole row


@dataclass(frozen=True, slots=True)
class Changed:
    """A row of which columns were changed."""

    table: str
    key: int | str
    before: Mapping[str, SqlValue]
    after: Mapping[str, SqlValue]


Written: TypeAlias = Came | Changed


@dataclass(frozen=True, slots=True)
class Import:
    """An import as its file tells it."""

    id: str
    path: Path
    target: str
    source: str
    begun_at: str
    ended: bool
    undone_at: str | None
    rows: int


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
