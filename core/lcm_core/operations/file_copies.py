"""Large files behind copied rows: which are referred to, and the same text with the ids of their copies.

A stored file stays where it is; its row is copied, since a row belongs to one conversation and goes with it.
References are ids of one length (docs/format.md, "Identifiers"), so token estimates stay what they are.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Final

from lcm_core.change.plan import SqlValue
from lcm_core.store.database import Reader
from lcm_core.store.rows import StoredRow, rows_by

#: An id as texts refer to it; not in a path, where it is a file's name. Behind a JSON escape it is a word.
_FILE_ID: Final = re.compile(r"(?:(?<![\w/\\])|(?<=\\[nrtbf]))file_[a-f0-9]{16}\b", re.IGNORECASE | re.ASCII)
#: Columns that name rows or people and never refer to a file.
_NO_TEXT: Final = frozenset(
    {"summary_id", "part_id", "session_id", "role", "kind", "model", "created_at", "identity_hash"}
    | {"earliest_at", "latest_at", "transcript_entry_id", "stable_event_key"}
)

#: New ids by old ones.
Renamed = Mapping[str, str]


def named_in(rows: Iterable[StoredRow]) -> frozenset[str]:
    """The ids, in lower case, of the files that the texts of some rows refer to."""
    return frozenset(
        found.lower()
        for row in rows
        for column, value in row.items()
        if isinstance(value, str) and column not in _NO_TEXT and "file_" in value.lower()
        for found in _FILE_ID.findall(value)
    )


async def files_to_copy(reader: Reader, wanted: Iterable[str], target: int) -> dict[str, StoredRow]:
    """The rows of some files that the target does not have, by id."""
    rows = await rows_by(reader, "large_files", "file_id", sorted(wanted))
    return {str(row["file_id"]): row for row in rows if row["conversation_id"] != target}


def new_ids(files: Iterable[str]) -> Renamed:
    """An id for the copy of each of some files."""
    return {file: f"file_{secrets.token_hex(8)}" for file in files}


def refer(row: StoredRow, renamed: Renamed) -> dict[str, SqlValue]:
    """A row whose texts refer to the copies; its identity hash follows where it is that of its text."""
    if not renamed:
        return dict(row)
    changed: dict[str, SqlValue] = {
        column: refer_text(value, renamed) if isinstance(value, str) and column not in _NO_TEXT else value
        for column, value in row.items()
    }
    plain = row.get("identity_hash") == _identity(row.get("role"), row.get("content"))
    if plain and changed["content"] != row["content"]:
        changed["identity_hash"] = _identity(changed["role"], changed["content"])
    return changed


def refer_text(text: str, names: Mapping[str, str]) -> str:
    """A text in which other names stand for some files."""
    if "file_" not in text.lower():
        return text
    return _FILE_ID.sub(lambda found: names.get(found[0].lower(), found[0]), text)


def _identity(role: SqlValue, content: SqlValue) -> str:
    """What the engine takes for the identity of a plain message (docs/engine/ingest.md, "Hashes")."""
    if not isinstance(role, str) or not isinstance(content, str):
        return ""
    return sha256(f"{role}\0{content}".encode("utf-8", "surrogateescape")).hexdigest()
