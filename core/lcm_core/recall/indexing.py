"""What recall keeps in the cache folder of an operator: the private index of a file, and the recent searches.

Source: docs/recall.md, "The private index".
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import platformdirs

from lcm_core.private_files import PROGRAM, make_private, read_limited
from lcm_core.store.connecting import Rows
from lcm_core.store.database import Database, Reader
from lcm_core.store.opening import FileState, file_state
from lcm_core.store.private_index import PrivateIndex, open_index
from lcm_core.store.searched import WINDOW, Document, DocumentKind, Filter, SearchedRows

#: Bytes that the index of a file may have.
MAX_INDEX_BYTES: Final = 1 << 30
#: Recent searches that are kept.
_RECENT: Final = 50
_RECENT_BYTES: Final = 1 << 20
_SUFFIXES: Final = (".index", ".index-journal", ".recent")


@dataclass(frozen=True, slots=True)
class IndexUse:
    """The index that a search goes by."""

    path: Path  #: there need not be one
    state: FileState | None  #: of the database now


def index_of(source: Path, folder: Path | None = None) -> IndexUse:
    """The index of a database for a search; looks at files, and makes none."""
    return IndexUse(_named(source, folder, ".index"), file_state(source))


def _named(source: Path, folder: Path | None, suffix: str) -> Path:
    digest = hashlib.sha256(os.fsencode(os.path.realpath(source))).hexdigest()[:24]
    return (folder or default_folder()) / f"{digest}{suffix}"


def default_folder() -> Path:
    """Where indexes and recent searches are kept."""
    return Path(platformdirs.user_cache_dir(PROGRAM, appauthor=False)) / "search"


async def make_index(
    database: Database,
    heard: Callable[[float], None] | None = None,
    *,
    folder: Path | None = None,
    most_bytes: int = MAX_INDEX_BYTES,
) -> bool:
    """Make the index of a file or bring it up to date, window by window; False: it reached its size limit.

    Messages that it does not know or that have changed are taken in. *heard* is told the share that was
    looked at, on the event loop. To stop cancel the task: what was taken in is kept.
    Each window is read in a transaction of its own; the database is never written.

    Raises:
        OSError: the index cannot be written: another process makes it, or the disk is full.
        DatabaseError: the file cannot be read.
    """
    path = make_private(folder or default_folder()) / _named(database.path, folder, ".index").name
    state = await asyncio.to_thread(file_state, database.path)
    with contextlib.ExitStack() as stack:
        index = await asyncio.to_thread(stack.enter_context, open_index(path, create=True))
        if index is None:
            raise OSError(f"{path} cannot be used as an index")
        if index.is_of(state):
            return True
        return await _fill(database, index, state, heard, most_bytes)


async def _fill(
    database: Database,
    index: PrivateIndex,
    state: FileState | None,
    heard: Callable[[float], None] | None,
    most_bytes: int,
) -> bool:
    at = looked_at = 0

    async def window(reader: Reader) -> tuple[int, int | None, list[Document]]:
        def load(db: Rows) -> tuple[int, int | None, list[Document]]:
            searched = SearchedRows(db, reader.schema)
            low = searched.next_row(DocumentKind.MESSAGE, at)
            if low is None:
                return 0, None, []
            span = (low, low + WINDOW - 1)
            last = searched.last_row(DocumentKind.MESSAGE)
            return last, low, searched.within(DocumentKind.MESSAGE, span, Filter())

        return await reader.run(load)

    while True:
        last, low, documents = await database.read(window)
        if low is None:
            await asyncio.to_thread(index.end_of_pass, state, looked_at)
            return True
        at = low + WINDOW - 1
        looked_at += len(documents)
        await asyncio.to_thread(index.add, documents, min(at, last))
        if heard is not None:
            heard(min(1.0, at / max(last, 1)))
        if index.size > most_bytes:
            await asyncio.to_thread(index.list_words)
            return False


def remember(source: Path, query: str, folder: Path | None = None) -> None:
    """Keep a search as the most recent one of a database; never an error."""
    with contextlib.suppress(OSError):
        path = make_private(folder or default_folder()) / _named(source, folder, ".recent").name
        kept = [query, *(one for one in recent(source, folder) if one != query)][:_RECENT]
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
        with os.fdopen(os.open(path, flags, 0o600), "w", encoding="utf-8", errors="replace") as file:
            json.dump(kept, file)


def recent(source: Path, folder: Path | None = None) -> list[str]:
    """The recent searches of a database, the newest first."""
    try:
        kept = json.loads(read_limited(_named(source, folder, ".recent"), _RECENT_BYTES))
    except (OSError, ValueError, RecursionError):
        return []
    return [one for one in kept if isinstance(one, str)] if isinstance(kept, list) else []


def forget(source: Path, folder: Path | None = None) -> int:
    """Remove the index and the recent searches of a database; how many files there were.

    Raises:
        OSError: one cannot be removed.
    """
    removed = 0
    for suffix in _SUFFIXES:
        with contextlib.suppress(FileNotFoundError):
            _named(source, folder, suffix).unlink()
            removed += 1
    return removed
