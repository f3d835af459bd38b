"""The folded words of a file's messages in a file of our own, so that a search need not read them all.

It holds no texts, but their words: which messages hold each. What it finds is looked at in the file itself,
so what it remembers of a message that has changed or gone shows nothing. Source: docs/spec/searching.md, "The
private index".
"""

from __future__ import annotations

import os
import re
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from lcm_core.base.text import fold
from lcm_core.base.values import Record
from lcm_core.store.opening import Connection, FileState, connect_writing, error_name
from lcm_core.store.search import Document

_FORMAT: Final = "3"
_WAIT: Final = 1.0
#: Words that one search asks for; with more it reads the file instead.
_MOST_WORDS: Final = 5_000
_TOGETHER: Final = 100
#: A message is indexed under its row id, and what it says after a change under a number from here on.
_CHANGED: Final = 1 << 60
#: What SQLite surely takes as part of a word, whatever its version: longer words hold it whole.
_RUN: Final = re.compile(
    "[0-9A-Za-z]{2,}|[\u3400-\u4dbf\u4e00-\u9fcb\uac00-\ud7a3\u3041-\u3096\u30a1-\u30fa]+"
)

_SCHEMA: Final = (
    "CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS documents (document INTEGER PRIMARY KEY, row INTEGER, sum INTEGER)",
    "CREATE INDEX IF NOT EXISTS documents_by_row ON documents (row, sum)",
    "CREATE TABLE IF NOT EXISTS words (word TEXT PRIMARY KEY) WITHOUT ROWID",
    """CREATE VIRTUAL TABLE IF NOT EXISTS texts
    USING fts5(text, content='', detail=none, columnsize=0, tokenize='unicode61 remove_diacritics 0')""",
    "CREATE VIRTUAL TABLE IF NOT EXISTS listed USING fts5vocab(texts, row)",
)


class Looked(Record, frozen=True):
    """What an index knows of a search."""

    reaches: int  #: row id of the newest document that it knows
    #: Ids of documents that may hold what is looked for: those that hold it in whole words first, and of
    #: both the newest first.
    ids: Sequence[str]
    is_whole: bool  #: the file has not been written since
    is_exact: bool  #: and each of *rows* does hold it


class PrivateIndex(Record, frozen=True):
    """An index that is open. Everything of it blocks, and raises `sqlite3.Error` when it is broken."""

    path: Path
    connection: Connection

    @property
    def reaches(self) -> int:
        """Up to which row id of the messages it knows them; what is newer has to be read."""
        return int(self._fact("reaches") or 0)

    @property
    def size(self) -> int:
        """Bytes on disk."""
        return self.path.stat().st_size

    def is_of(self, state: FileState | None) -> bool:
        """Whether the file has not been written since all of it was looked at."""
        return state is not None and self._fact("state") == _written(state)

    def add(self, documents: Iterable[Document], last: int) -> int:
        """Take in the messages that are new or have changed; how many. *last*: how far it reaches then."""
        db, added = self.connection, 0
        db.execute("BEGIN IMMEDIATE")
        try:
            for document in sorted(documents, key=lambda one: int(one.id)):  # FTS5 writes each run of numbers
                text = "\n".join(text for _, text in document.texts).encode("utf-8", "replace").decode()
                row, checked = int(document.id), zlib.crc32(text.encode())
                if db.execute("SELECT 1 FROM documents WHERE row = ? AND sum = ?", (row, checked)).fetchone():
                    continue
                number = self._number_for(row)
                db.execute(
                    "INSERT INTO documents (document, row, sum) VALUES (?, ?, ?)", (number, row, checked)
                )
                # FTS5 reads no further than a NUL.
                values = (number, fold(text).replace("\x00", " "))
                db.execute("INSERT INTO texts (rowid, text) VALUES (?, ?)", values)
                added += 1
            self._keep("reaches", str(max(last, self.reaches)))
            db.execute("COMMIT")
        except BaseException:
            db.execute("ROLLBACK")
            raise
        return added

    def list_words(self) -> None:
        """Bring the list of words up to date; until then what `add` took in is not found."""
        db = self.connection
        db.execute("BEGIN IMMEDIATE")
        try:
            db.execute("INSERT OR IGNORE INTO words SELECT term FROM listed")
            self._keep("listed", str(self.reaches))
            db.execute("COMMIT")
        except BaseException:
            db.execute("ROLLBACK")
            raise

    def end_of_pass(self, state: FileState | None, messages: int) -> None:
        """All *messages* were looked at; *state* is that of the file before the first of them was."""
        self.list_words()
        count = self.connection.execute("SELECT count(*) FROM documents").fetchone()[0]
        # Then it knows nothing of what a message said before, or of one that is gone.
        self._keep("plain", "yes" if count == messages else "no")
        self._keep("state", "" if state is None else _written(state))
        self._keep("inode", "" if state is None else str(state.inode))

    def look(self, texts: Sequence[str], state: FileState | None) -> Looked | None:
        """What it knows of *texts*, which are folded, for a file in this *state*.

        None: it is not complete, broken or of another file, or the texts tell too little, and all messages
        have to be read.
        """
        try:
            if state is None or self._fact("inode") != str(state.inode):
                return None
            if self._fact("listed") != str(self.reaches):
                return None
            runs = list(dict.fromkeys(run for text in texts for run in _RUN.findall(text)))
            words = {run: self._words_with(run) for run in runs}
            few = {run: some for run, some in words.items() if len(some) <= _MOST_WORDS}
            if not few:
                return None
            whole = self.is_of(state)
            exact = whole and len(few) == len(runs) and all(_RUN.fullmatch(text) for text in texts)
            exact = exact and self._fact("plain") == "yes"
            return Looked(self.reaches, list(map(str, self._rows_with(few))), whole, exact)
        except sqlite3.Error:
            return None

    def _rows_with(self, words: Mapping[str, Sequence[str]]) -> list[int]:
        """Row ids of the messages in which each run of signs stands, in one of the words that hold it."""
        found: set[int] | None = None
        best: set[int] | None = None
        for run, some in words.items():
            whole = set(self._documents_with([run])) if run in some else set[int]()
            there = whole.union(self._documents_with([word for word in some if word != run]))
            best = whole if best is None else best & whole
            found = there if found is None else found & there
        first = self._rows(best or set())
        return [
            *sorted(first, reverse=True),
            *sorted(self._rows((found or set()) - (best or set())) - first, reverse=True),
        ]

    def words_of(self, state: FileState | None, most: int) -> list[str]:
        """Words of a file in this *state*, at most so many; none when it is broken or of another file."""
        try:
            if state is None or self._fact("inode") != str(state.inode):
                return []
            return [row[0] for row in self.connection.execute("SELECT word FROM words LIMIT ?", (most,))]
        except sqlite3.Error:
            return []

    def _number_for(self, row: int) -> int:
        """Under which number what a message says now is indexed."""
        taken = self.connection.execute("SELECT 1 FROM documents WHERE document = ?", (row,)).fetchone()
        if row < _CHANGED and taken is None:
            return row
        last = self.connection.execute("SELECT max(document) FROM documents").fetchone()[0]
        return max(_CHANGED, int(last) + 1)

    def _rows(self, documents: set[int]) -> set[int]:
        rows = {number for number in documents if number < _CHANGED}
        changed = sorted(documents - rows)
        for start in range(0, len(changed), 500):
            part = changed[start : start + 500]
            marks = ", ".join("?" * len(part))
            query = f"SELECT row FROM documents WHERE document IN ({marks})"
            rows.update(row[0] for row in self.connection.execute(query, part))
        return rows

    def _words_with(self, run: str) -> list[str]:
        rows = self.connection.execute(
            "SELECT word FROM words WHERE instr(word, ?) LIMIT ?", (run, _MOST_WORDS + 1)
        )
        return [row[0] for row in rows]

    def _documents_with(self, words: Sequence[str]) -> Iterator[int]:
        for start in range(0, len(words), _TOGETHER):
            expression = " OR ".join(f'"{word}"' for word in words[start : start + _TOGETHER])
            query = "SELECT rowid FROM texts WHERE texts MATCH ?"
            yield from [row for (row,) in self.connection.execute(query, (expression,)).fetchall()]

    def _fact(self, name: str) -> str | None:
        row = self.connection.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        return None if row is None else str(row[0])

    def _keep(self, name: str, value: str) -> None:
        self.connection.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, value))


@contextmanager
def open_index(path: Path, *, create: bool = False) -> Iterator[PrivateIndex | None]:
    """The index at *path*; None when there is none that can be used. Nothing is made unless *create* says so.

    One that is broken or of another format is made anew then.

    Raises:
        OSError: it cannot be made or written: another process is using it, or the disk is full.
    """
    if not path.exists() and not create:
        yield None
        return
    connection = _opened(path, create)
    if connection is None:
        yield None
        return
    with closing(connection):
        try:
            yield PrivateIndex(path, connection)
        except sqlite3.Error as error:  # of the index: one of the file is a DatabaseError
            raise OSError(f"the index cannot be written: {error}") from error


def _opened(path: Path, create: bool) -> Connection | None:
    for attempt in range(2):
        if create:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
        connection = None
        try:
            connection = connect_writing(path, _WAIT, any_thread=True)
            connection.execute("PRAGMA secure_delete = ON")
            connection.execute("PRAGMA synchronous = OFF")
            if create:
                for statement in _SCHEMA:
                    connection.execute(statement)
                connection.execute("INSERT OR IGNORE INTO facts VALUES ('format', ?)", (_FORMAT,))
            row = connection.execute("SELECT value FROM facts WHERE name = 'format'").fetchone()
            if row is not None and row[0] == _FORMAT:
                return connection
        except sqlite3.Error as error:
            if create and error_name(error).startswith("SQLITE_BUSY"):
                if connection is not None:
                    connection.close()
                raise OSError("the index cannot be written: another process is using it") from error
        if connection is not None:
            connection.close()
        if not create or attempt:
            return None
        path.unlink(missing_ok=True)
    return None


def _written(state: FileState) -> str:
    return f"{state.inode} {state.size} {state.modified_ns} {state.wal_size} {state.wal_modified_ns}"
