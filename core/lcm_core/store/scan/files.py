"""Reads what the database says of large files and what lies in their folder (E16 to E19)."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from lcm_core.dag.checks.files import FileLook, FileUse, references
from lcm_core.dag.checks.texts import file_ids
from lcm_core.paths import resolve_stored
from lcm_core.records import ConversationId, LargeFile
from lcm_core.store.database import Database, Reader
from lcm_core.store.files import list_files
from lcm_core.store.steps import Step, steps

#: Messages by id that one transaction looks at.
_STEP = 20_000
#: Larger files are not read for their lines.
_MOST_BYTES = 64 * 1024 * 1024
#: Files of the folder that are listed.
_MOST_FILES = 100_000


@dataclass(frozen=True, slots=True)
class Folders:
    """Where the files that a database refers to lie on this machine; None: not known."""

    large_files: Path | None = None
    state: Path | None = None
    sessions: Path | None = None  #: a sessions folder, an agent's folder or a folder of agents


class UseScan:
    """Gathers which files messages and summaries name."""

    def __init__(self, known: frozenset[str]) -> None:
        self._known = known
        self._named: set[str] = set()
        self._unknown: dict[ConversationId, list[int]] = {}

    def take_text(self, text: str) -> None:
        """Note the ids in a text."""
        self._named.update(file_ids(text))

    def take_message(self, message_id: int, owner: int, text: str, large_content: str | None) -> None:
        """Note the ids in a message, and whether one of them is unknown."""
        self.take_text(text)
        wanted = references(text) + file_ids(large_content or "")
        self._named.update(wanted)
        if any(one not in self._known for one in wanted):
            self._unknown.setdefault(ConversationId(owner), []).append(message_id)

    @property
    def use(self) -> FileUse:
        """What was gathered; unknown ids count as named only by who names them."""
        return FileUse(frozenset(self._named & self._known), self._unknown)


async def scan_use(
    database: Database, scan: UseScan, conversation_id: ConversationId | None
) -> AsyncIterator[tuple[int, int]]:
    """Let *scan* take messages and summaries a step at a time; ids done, and ids there are."""
    done, total = 0, await database.read(_count_messages)
    await database.read(_take_summaries, scan, conversation_id)
    async for step in steps(database, "messages", "message_id", _STEP):
        await database.read(_take_messages, scan, conversation_id, step)
        done = min(done + _STEP, total)
        yield done, total


async def _count_messages(reader: Reader) -> int:
    return await reader.value("SELECT count(*) FROM messages") or 0


async def _take_messages(
    reader: Reader, scan: UseScan, conversation_id: ConversationId | None, step: Step
) -> None:
    large = "CAST(m.large_content AS TEXT)" if reader.schema.has("messages", "large_content") else "NULL"
    only, keys = ("", ()) if conversation_id is None else ("AND m.conversation_id = ?", (conversation_id,))
    for row in await reader.rows(
        f"""SELECT m.message_id, m.conversation_id, CAST(m.content AS TEXT) AS content,
        {large} AS large_content FROM messages AS m WHERE {step.where("m.message_id")} {only}
        AND (m.content LIKE '%file\\_%' ESCAPE '\\' OR {large} IS NOT NULL)""",
        *step.bounds,
        *keys,
    ):
        scan.take_message(
            row["message_id"], row["conversation_id"], row["content"] or "", row["large_content"]
        )


async def _take_summaries(reader: Reader, scan: UseScan, conversation_id: ConversationId | None) -> None:
    if not reader.schema.has("summaries", "file_ids"):
        return
    only, keys = ("", ()) if conversation_id is None else ("AND s.conversation_id = ?", (conversation_id,))
    for row in await reader.rows(
        f"SELECT CAST(s.file_ids AS TEXT) AS ids FROM summaries AS s WHERE s.file_ids <> '[]' {only}", *keys
    ):
        scan.take_text(row["ids"] or "")


async def stored_files(reader: Reader, conversation_id: ConversationId | None) -> list[LargeFile]:
    """The large files of one conversation or of all, those without an id left out."""
    return [file for file in await list_files(reader, conversation_id) if file.file_id is not None]


def look_at(file: LargeFile, folders: Folders, *, count_lines: bool) -> FileLook:
    """Find one file on the disk, and count its lines when the database has a count. Blocks: for a thread."""
    large_files, state = folders.large_files, folders.state
    if large_files is None:
        raise ValueError("there is no folder to look in")
    stored = resolve_stored(
        file.storage_uri,
        conversation_id=file.conversation_id,
        large_files_dir=large_files,
        state_dir=large_files.parent if state is None else state,
    )
    lines = None
    if (
        count_lines
        and stored.path is not None
        and file.line_count is not None
        and (stored.size or 0) <= _MOST_BYTES
    ):
        lines = _lines(stored.path)
    folder = None if stored.path is None else stored.path.parent.name
    return FileLook(file, stored.state, stored.size, lines, folder)


def _lines(path: Path) -> int | None:
    """Lines as the engine counts them: one more than newlines; None when the file cannot be read."""
    try:
        with path.open("rb") as file:
            return 1 + sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))
    except OSError:
        return None


def files_on_disk(folder: Path, conversation_id: ConversationId | None) -> list[str]:
    """The files ``<conversation>/<name>`` of the folder of large files. Blocks: for a thread."""
    found: list[str] = []
    for owner in _names(folder):
        if not owner.isdecimal() or conversation_id not in (None, int(owner)):
            continue
        for name in _names(folder / owner):
            found.append(f"{owner}/{name}")
            if len(found) >= _MOST_FILES:
                return found
    return found


def _names(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []
