"""What a shell may offer of a database while a line is typed: ids and keys, at once and without a word."""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Final, Literal, TypeAlias

from lcm_core.base.errors import LcmError
from lcm_core.base.text import safe_line
from lcm_core.store.opening import Access, choose_way

Named: TypeAlias = Literal["conversation", "session key", "summary", "brief", "operation"]

#: Seconds that a person waits for, and rows that are looked at.
_MOST_SECONDS, _MOST_ROWS = 0.3, 500
#: Names that a shell takes as they are: what a database holds is foreign.
_PLAIN: Final = re.compile(r"[\w.:@/+-]+", re.ASCII)
_LONGEST: Final = 60
_SQL: Final[Mapping[Named, str]] = {
    "conversation": "SELECT * FROM conversations ORDER BY conversation_id DESC LIMIT ?2",
    "session key": "SELECT * FROM conversations WHERE session_key BETWEEN ?1 AND ?1 || char(1114111) "
    "ORDER BY conversation_id DESC LIMIT ?2",
    "summary": "SELECT * FROM summaries WHERE summary_id BETWEEN ?1 AND ?1 || char(1114111) LIMIT ?2",
    "brief": "SELECT * FROM focus_briefs ORDER BY rowid DESC LIMIT ?2",
    "operation": "SELECT id, title FROM lcm_tui_operations ORDER BY rowid DESC LIMIT ?2",
}
#: The column that names each, and those of which the first with a text describes it.
_COLUMNS: Final[Mapping[Named, tuple[str, tuple[str, ...]]]] = {
    "conversation": ("conversation_id", ("title", "session_key", "session_id")),
    "session key": ("session_key", ("title",)),
    "summary": ("summary_id", ("content",)),
    "brief": ("brief_id", ("prompt",)),
    "operation": ("id", ("title",)),
}


def names_in(path: Path, named: Named, beginning: str) -> list[tuple[str, str]]:
    """Names of a database that begin so, each with a description; none where that would take long.

    No file is made or changed, and nothing is said of one that cannot be read.
    """
    try:
        way = choose_way(path)
        if way.access is Access.COPY:
            return []
        with closing(way.connect(_MOST_SECONDS)) as connection:
            end = time.monotonic() + _MOST_SECONDS
            connection.set_progress_handler(lambda: time.monotonic() > end, 1_000)
            rows = connection.execute(_SQL[named], (beginning, _MOST_ROWS)).fetchall()
    except (LcmError, OSError, ValueError, sqlite3.Error):
        return []
    return list(dict(_described(rows, named, beginning)).items())


def _described(rows: list[sqlite3.Row], named: Named, beginning: str) -> Iterator[tuple[str, str]]:
    column, describing = _COLUMNS[named]
    for row in rows:
        name = str(row[column])
        if name.startswith(beginning) and _PLAIN.fullmatch(name):
            words = (str(row[one]) for one in describing if one in row.keys() and row[one])  # noqa: SIM118
            yield name, safe_line(next(words, "")[:_LONGEST])
