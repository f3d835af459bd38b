"""What tests of transplants share: copies and originals as rows that name each other by what they say."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lcm_core.api import plan_transplant
from lcm_core.change.commit import commit

from tests.change.support import context_of, planned
from tests.databases import column, connect

NOW = datetime(2026, 3, 6, 12, tzinfo=UTC)

#: Columns in which a copy is not its original: what names rows and the conversation.
NAMES = frozenset(
    {"summary_id", "parent_summary_id", "message_id", "part_id", "conversation_id", "session_id", "seq"}
)

Row = dict[str, Any]


def plan(path: Path, source: int, target: int, **options: Any):
    return asyncio.run(planned(path, plan_transplant, source, target, now=NOW, **options))


def transplant(path: Path, source: int, target: int, **options: Any) -> str:
    return commit(path, plan(path, source, target, **options)).id


def rows(path: Path, sql: str, *parameters: object) -> list[Row]:
    with connect(path) as connection:
        cursor = connection.execute(sql, parameters)
        names = [one[0] for one in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor]


def context_summaries(path: Path, conversation: int) -> list[str]:
    return [str(ref) for _, ref in context_of(path, conversation) if isinstance(ref, str)]


def below(path: Path, roots: list[str]) -> list[str]:
    """Everything that some summaries were made from, themselves included."""
    found = dict.fromkeys(roots)
    for one in list(found):
        for source in column(path, "SELECT parent_summary_id FROM summary_parents WHERE summary_id = ?", one):
            found.setdefault(source)
    return list(found) if len(found) == len(roots) else below(path, list(found))


class Files:
    """Texts with what is stored in place of the ids of files."""

    def __init__(self, path: Path) -> None:
        self.stored = {one["file_id"]: one["storage_uri"] for one in rows(path, "SELECT * FROM large_files")}

    def plain(self, text: Any) -> Any:
        if not isinstance(text, str):
            return text
        return re.sub(r"file_[a-f0-9]{16}", lambda found: self.stored.get(found[0], found[0]), text)


class Shape:
    """A conversation's summaries as rows that name each other by what they say, not by their ids."""

    def __init__(self, path: Path, summaries: list[str]) -> None:
        files, self.path = Files(path), path
        marks = ", ".join("?" * len(summaries))
        found = rows(path, f"SELECT * FROM summaries WHERE summary_id IN ({marks})", *summaries)
        self.summaries = {one["summary_id"]: self._said(one, files) for one in found}
        links = rows(path, f"SELECT * FROM summary_messages WHERE summary_id IN ({marks})", *summaries)
        ids = {one["message_id"] for one in links}
        self.rows = {
            one["message_id"]: one
            for one in rows(path, "SELECT * FROM messages ORDER BY seq")
            if one["message_id"] in ids
        }
        self.messages = {message: self._said(one, files) for message, one in self.rows.items()}
        self.links = Counter(
            (self.summaries[one["summary_id"]], self.messages[one["message_id"]], one["ordinal"])
            for one in links
        )
        self.edges = Counter(
            (self.summaries[one["summary_id"]], self.summaries[one["parent_summary_id"]], one["ordinal"])
            for one in rows(path, f"SELECT * FROM summary_parents WHERE summary_id IN ({marks})", *summaries)
        )
        parts = (one for one in rows(path, "SELECT * FROM message_parts") if one["message_id"] in ids)
        self.parts = Counter((self.messages[one["message_id"]], self._said(one, files)) for one in parts)

    @staticmethod
    def _said(row: Row, files: Files) -> str:
        kept = {name: files.plain(cell) for name, cell in row.items() if name not in NAMES}
        if "file_" in str(row.get("content")):
            kept.pop("identity_hash", None)
        return repr(sorted(kept.items()))

    def same(self, other: Shape) -> bool:
        mine = Counter(self.summaries.values()), list(self.messages.values())
        theirs = Counter(other.summaries.values()), list(other.messages.values())
        return (*mine, self.links, self.edges, self.parts) == (
            *theirs,
            other.links,
            other.edges,
            other.parts,
        )
