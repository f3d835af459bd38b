"""Drafts on disk: what was paid for survives a stop and a crash, in a private file of this user.

One file per batch: a first line that says what it is, then a line for every item whenever it changed; the
last one of an item holds. A line that a crash cut off is left out. The file goes when all is decided.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Final

import platformdirs

from lcm_core.change.errors import DiskFullError
from lcm_core.errors import NotFoundError, RefusedError
from lcm_core.ingest.jsonl import JsonObject, open_regular
from lcm_core.operations.drafting.documents import (
    DamagedError,
    item_document,
    item_from,
    spent_document,
    spent_from,
    text_of,
)
from lcm_core.operations.drafting.items import SETTLED, Item
from lcm_core.own_folders import make_private
from lcm_core.records import SummaryId
from lcm_core.summarize.cost import NOTHING_SPENT, Spent

_FORMAT: Final = "lcm-tui drafts"
_VERSION: Final = 1
_SUFFIX: Final = ".drafts"


@dataclass(frozen=True, slots=True)
class Header:
    """What a file of drafts belongs to."""

    batch: str
    kind: str  #: ``rewrite`` or ``repair``
    database: str
    made_at: str  #: UTC, ISO
    spent: Spent = NOTHING_SPENT  #: by all runs so far, so that limits hold for the batch and not for a run


@dataclass(frozen=True, slots=True)
class Kept:
    """A file of drafts as it was read."""

    path: Path
    header: Header
    items: tuple[Item, ...]

    @property
    def open_items(self) -> int:
        """How many are not settled."""
        return sum(item.state not in SETTLED for item in self.items)


def drafts_folder() -> Path:
    """Where drafts of this user are kept unless a caller says otherwise."""
    return Path(platformdirs.user_state_dir("lcm-tui", appauthor=False)) / "drafts"


class Keeper:
    """Writes one file of drafts. One process at a time: the file is locked."""

    def __init__(self, path: Path, file: IO[bytes]) -> None:
        self.path = path
        self._file = file

    @classmethod
    def create(cls, folder: Path, header: Header, items: Iterable[Item]) -> Keeper:
        """Begin a file that only this user can read.

        Raises:
            DiskFullError: it cannot be written.
        """
        path = folder / f"{header.batch}{_SUFFIX}"
        try:
            make_private(folder)
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
        except OSError as error:
            raise _unwritable(path, error) from error
        keeper = cls(path, os.fdopen(descriptor, "ab"))
        keeper._lock()
        first: JsonObject = {
            "format": _FORMAT,
            "version": _VERSION,
            "batch": header.batch,
            "kind": header.kind,
            "database": str(Path(header.database).resolve()),
            "madeAt": header.made_at,
            "spent": spent_document(header.spent),
        }
        keeper._write([first, *map(item_document, items)])
        return keeper

    @classmethod
    def reopen(cls, kept: Kept) -> Keeper:
        """Go on with a file.

        Raises:
            RefusedError: another process works on it.
        """
        try:
            file = kept.path.open("ab")
        except OSError as error:
            raise _unwritable(kept.path, error) from error
        keeper = cls(kept.path, file)
        keeper._lock()
        file.write(b"\n")  # behind what a crash may have cut off
        return keeper

    def keep(self, item: Item, spent: Spent | None = None) -> None:
        """Note how far an item has come, and what the batch has taken; on the disk when this returns."""
        taken: JsonObject = {} if spent is None else {"spent": spent_document(spent)}
        self._write([{**item_document(item), **taken}])

    def close(self, *, finished: bool) -> None:
        """End; a file of a *finished* batch goes, for it holds what the database holds."""
        self._file.close()
        if finished:
            with contextlib.suppress(OSError):
                self.path.unlink()

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._file.close()
            raise RefusedError(
                f"Another lcm-tui works on these drafts: {self.path}. Wait until it has ended.",
                code="DRAFTS_IN_USE",
            ) from None

    def _write(self, documents: Iterable[JsonObject]) -> None:
        try:
            for document in documents:
                self._file.write(json.dumps(document, separators=(",", ":")).encode() + b"\n")
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise _unwritable(self.path, error) from error


def _unwritable(path: Path, error: OSError) -> DiskFullError:
    return DiskFullError(
        f"The drafts cannot be kept in {path} ({error.strerror}), so no call is made. Make room there and go "
        "on with --resume.",
        code="DRAFTS_UNWRITABLE",
        details={"path": str(path)},
    )


def read_kept(path: Path) -> Kept:
    """A file of drafts.

    Raises:
        NotFoundError: it is not there.
        RefusedError: it is no file of drafts.
    """
    try:
        with open_regular(path) as file:  # a device may never end
            lines = file.read().split(b"\n")
    except OSError as error:
        raise NotFoundError(
            f"The drafts {path} cannot be read ({error.strerror}).", code="DRAFTS_NOT_FOUND"
        ) from None
    try:
        header = _header(lines[0])
    except (ValueError, DamagedError):
        raise RefusedError(f"{path} is no file of drafts of this program.", code="DRAFTS_INVALID") from None
    items: dict[SummaryId, Item] = {}
    for item, spent in _items(lines[1:]):
        items[item.summary_id] = item
        header = replace(header, spent=spent or header.spent)
    return Kept(path, header, tuple(items.values()))


def _header(line: bytes) -> Header:
    document = json.loads(line)
    if (
        not isinstance(document, dict)
        or document.get("format") != _FORMAT
        or document.get("version") != _VERSION
    ):
        raise DamagedError("format")
    batch, kind, database, made_at = (
        text_of(document, key) for key in ("batch", "kind", "database", "madeAt")
    )
    return Header(batch, kind, database, made_at, spent_from(document))


def _items(lines: Iterable[bytes]) -> Iterator[tuple[Item, Spent | None]]:
    """Every item as often as it was kept, with what the batch had taken then, where that was noted."""
    for line in lines:
        with contextlib.suppress(ValueError, DamagedError):  # a crash cut it off
            document = json.loads(line)
            if isinstance(document, dict):
                yield item_from(document), spent_from(document) if "spent" in document else None


def unfinished(folder: Path, database: Path, kind: str | None = None) -> list[Kept]:
    """The batches on a database that were not brought to their end, the newest first."""
    found = [
        kept
        for kept in _of_database(folder, database)
        if kind in (None, kept.header.kind) and kept.open_items
    ]
    return sorted(found, key=lambda kept: (kept.header.made_at, kept.header.batch), reverse=True)


def _of_database(folder: Path, database: Path) -> Iterator[Kept]:
    there = str(database.resolve())
    for path in sorted(folder.glob(f"batch_*{_SUFFIX}")) if folder.is_dir() else ():
        with contextlib.suppress(NotFoundError, RefusedError):
            kept = read_kept(path)
            if kept.header.database == there:
                yield kept


def forget(folder: Path, database: Path, conversation_ids: Collection[int]) -> list[Path]:
    """Remove the drafts of some conversations that are to leave no trace; the files that went or shrank.

    A file that another process works on is left as it is, and is not among them.
    """
    changed = []
    for kept in _of_database(folder, database):
        left = [item for item in kept.items if item.conversation_id not in conversation_ids]
        if len(left) == len(kept.items):
            continue
        with contextlib.suppress(RefusedError):
            Keeper.reopen(kept).close(finished=True)
            if left:
                Keeper.create(folder, kept.header, left).close(finished=False)
            changed.append(kept.path)
    return changed
