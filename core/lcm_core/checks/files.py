"""The checks of large files: in the database, in texts and on the disk (E16 to E19)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from lcm_core.base.findings import Check
from lcm_core.base.paths import StoredFileState, resolve_stored
from lcm_core.base.records import ConversationId, LargeFile
from lcm_core.base.text import counted
from lcm_core.base.values import Record
from lcm_core.checks.check import (
    BROKEN,
    BY_DESIGN,
    ERROR,
    INFO,
    SUSPICIOUS,
    WARNING,
    FaultRows,
    Folders,
    Hit,
    Limits,
    Rule,
    Run,
)
from lcm_core.checks.summaries import file_ids, known_files
from lcm_core.engine.items import FILE_REFERENCE
from lcm_core.store.database import Reader
from lcm_core.store.messages import list_files
from lcm_core.store.rows import KeyRange, key_ranges, of_conversation, row_count
from lcm_core.store.schema import Schema

#: Messages by id that one transaction looks at.
_STEP: Final = 20_000
#: Larger files are not read for their lines.
_MOST_BYTES: Final = 64 * 1024 * 1024
#: Files of the folder that are listed.
_MOST_FILES: Final = 100_000


class FileLook(Record, frozen=True):
    """A stored file as it was found on the disk."""

    file: LargeFile
    state: StoredFileState
    size: int | None  #: bytes; None unless it was found
    lines: int | None  #: as the engine counts them; None when they were not counted
    folder: str | None  #: name of the folder that it was found in


class Uses:
    """What messages and summaries say of files."""

    def __init__(self, known: frozenset[str]) -> None:
        self.known = known  #: ids of all files that the database knows
        self.named: set[str] = set()  #: ids that are named anywhere
        self.unknown: dict[ConversationId, list[int]] = {}  #: messages that refer to a file that is unknown

    def take_message(self, message_id: int, owner: int, text: str, large_content: str | None) -> None:
        """Note the ids in a message, and whether one of them is unknown."""
        referred = dict.fromkeys(found.lower() for found in FILE_REFERENCE.findall(text))
        wanted = [*referred, *file_ids(large_content or "")]
        self.named.update(file_ids(text), wanted)
        if any(one not in self.known for one in wanted):
            self.unknown.setdefault(ConversationId(owner), []).append(message_id)


class Files(Record, frozen=True):
    """The large files that were asked for."""

    looks: Sequence[FileLook]
    #: paths with the conversations that they belong to: a transplant copies the row, not the file
    homes: frozenset[tuple[str, int]]
    uses: Uses
    on_disk: Sequence[str]  #: ``<conversation>/<name>``


def _missing(seen: Files, limits: Limits) -> Iterator[Hit]:
    """When not one file is there, it is more likely that this is not their folder."""
    wrong_folder = bool(seen.looks) and all(look.state is StoredFileState.MISSING for look in seen.looks)
    groups: dict[tuple[ConversationId, StoredFileState], FaultRows] = {}
    misplaced: dict[ConversationId, FaultRows] = {}
    for look in seen.looks:
        owner = look.file.conversation_id
        if look.state is not StoredFileState.FOUND:
            groups.setdefault((owner, look.state), FaultRows(limits)).add("large_files", look.file.file_id)
        elif (
            look.folder is not None
            and look.folder.isdecimal()
            and int(look.folder) != owner
            and (look.file.storage_uri, int(look.folder)) not in seen.homes
        ):
            misplaced.setdefault(owner, FaultRows(limits)).add("large_files", look.file.file_id)
    for (owner, state), rows in groups.items():
        gone = state is StoredFileState.MISSING
        what = f"{counted(rows.count, 'large file')} of conversation {owner}: {state.value}"
        why = ", and neither is any other; is this the right folder?" if wrong_folder else "."
        yield rows.hit(BROKEN if gone and not wrong_folder else SUSPICIOUS, what + why, owner=owner)
    for owner, rows in misplaced.items():
        yield from rows.hits(SUSPICIOUS, "large file", owner, "are in the folder of another conversation.")


def _resized(seen: Files, limits: Limits) -> Iterator[Hit]:
    groups: dict[ConversationId, FaultRows] = {}
    for look in seen.looks:
        file = look.file
        size = look.size is not None and file.byte_size is not None and look.size != file.byte_size
        lines = look.lines is not None and file.line_count is not None and look.lines != file.line_count
        if size or lines:
            groups.setdefault(file.conversation_id, FaultRows(limits)).add("large_files", file.file_id)
    for owner, rows in groups.items():
        what = f"{counted(rows.count, 'large file')} of conversation {owner}"
        words = "have a different size on disk than when they were stored."
        yield rows.hit(SUSPICIOUS, f"{what} {words}", owner=owner)


def _unknown_references(seen: Files, limits: Limits) -> Iterator[Hit]:
    words = "refer to a large file that is not in the database."
    for owner, message_ids in sorted(seen.uses.unknown.items()):
        yield from FaultRows(limits, "messages", message_ids).hits(SUSPICIOUS, "message", owner, words)


def _unused(seen: Files, limits: Limits) -> Iterator[Hit]:
    """Stored files that nothing names, and files on the disk that the database does not know."""
    groups: dict[ConversationId, FaultRows] = {}
    named = seen.uses.named & seen.uses.known
    for look in seen.looks:
        if look.file.file_id.lower() not in named:
            groups.setdefault(look.file.conversation_id, FaultRows(limits)).add(
                "large_files", look.file.file_id
            )
    for owner, rows in groups.items():
        words = "are not referenced by any message or summary."
        yield from rows.hits(BY_DESIGN, "large file", owner, words)
    names = ((path, path.rsplit("/", 1)[-1].split(".", 1)[0].lower()) for path in seen.on_disk)
    strays = FaultRows(limits, "disk", (path for path, name in names if name not in seen.uses.known))
    if strays:
        what = f"{counted(strays.count, 'file')} in the folder of large files"
        yield strays.hit(BY_DESIGN, f"{what}: it is not in the database.")


# fmt: off
CHECKS: Final[tuple[Rule[Files], ...]] = (
    Rule("E16", ERROR, "large file missing", "Is a stored file not where it should be?",
         why="Large payloads are stored in files next to the database; the model reads them by id.",
         needs=("large_files",), find=_missing),
    Rule("E17", WARNING, "large file of another size",
         "Does a stored file have a different size or line count?",
         why="The size that was stored is that of the file on the disk; a different size means that the "
         "file was changed.", needs=("large_files",), find=_resized),
    Rule("E18", WARNING, "reference to an unknown file", "Does a message refer to a file that is unknown?",
         why="A message that names a file can be expanded only when the file is known.",
         needs=("large_files",), find=_unknown_references),
    Rule("E19", INFO, "file that nothing refers to", "Is there a stored file that nothing refers to?",
         why="A file without references uses disk space and is never read.", needs=("large_files",),
         find=_unused),
)
# fmt: on


async def read_files(run: Run) -> None:
    """E16 to E19: on the disk, where that is asked for, and in texts."""
    looks: list[FileLook] = []
    homes: frozenset[tuple[str, int]] = frozenset()
    on_disk: list[str] = []
    if run.wants(("E16", "E17", "E19")):
        lines = bool(run.wants(("E17",)))
        stored = await run.database.read(_stored_files, run.conversation_id)
        looks = [await asyncio.to_thread(_look_at, one, run.folders, count_lines=lines) for one in stored]
        everywhere = await run.database.read(_stored_files, None)
        homes = frozenset((one.storage_uri, int(one.conversation_id)) for one in everywhere)
    uses = Uses(frozenset())
    if run.wants(("E18", "E19")):
        uses = Uses(await run.database.read(known_files))
        await _read_uses(run, uses)
        if run.wants(("E19",)) and run.folders.large_files is not None:
            on_disk = await asyncio.to_thread(_files_on_disk, run.folders.large_files, run.conversation_id)
    run.ask(CHECKS, Files(looks, homes, uses, on_disk))


def why_not(check: Check, schema: Schema, folders: Folders) -> str:
    """Why E16, E17 and E19, which look at the disk, cannot be asked."""
    if check.id == "E18":
        return ""
    if folders.large_files is None:
        return "no folder of large files is known"
    return "" if folders.large_files.is_dir() else "the folder of large files does not exist"


async def _read_uses(run: Run, uses: Uses) -> None:
    done, total = 0, await run.database.read(row_count, "messages")
    await run.database.read(_take_summaries, uses, run.conversation_id)
    async for step in key_ranges(run.database, "messages", "message_id", _STEP):
        await run.database.read(_take_messages, uses, run.conversation_id, step)
        done = min(done + _STEP, total)
        run.progress(done, total)


async def _take_messages(
    reader: Reader, uses: Uses, conversation_id: ConversationId | None, step: KeyRange
) -> None:
    large = "CAST(m.large_content AS TEXT)" if reader.schema.has("messages", "large_content") else "NULL"
    only, keys = of_conversation("m.conversation_id", conversation_id)
    for row in await reader.rows(
        f"""SELECT m.message_id, m.conversation_id, CAST(m.content AS TEXT) AS content,
        {large} AS large_content FROM messages AS m WHERE {step.where("m.message_id")} AND {only}
        AND (m.content LIKE '%file\\_%' ESCAPE '\\' OR {large} IS NOT NULL)""",
        *step.bounds,
        *keys,
    ):
        uses.take_message(
            row["message_id"], row["conversation_id"], row["content"] or "", row["large_content"]
        )


async def _take_summaries(reader: Reader, uses: Uses, conversation_id: ConversationId | None) -> None:
    if not reader.schema.has("summaries", "file_ids"):
        return
    only, keys = of_conversation("s.conversation_id", conversation_id)
    for row in await reader.rows(
        f"SELECT CAST(s.file_ids AS TEXT) AS ids FROM summaries AS s WHERE s.file_ids <> '[]' AND {only}",
        *keys,
    ):
        uses.named.update(file_ids(row["ids"] or ""))


async def _stored_files(reader: Reader, conversation_id: ConversationId | None) -> list[LargeFile]:
    """The large files of one conversation or of all, those without an id left out."""
    return [file for file in await list_files(reader, conversation_id) if file.file_id is not None]


def _look_at(file: LargeFile, folders: Folders, *, count_lines: bool) -> FileLook:
    """Find one file on the disk, and count its lines when the database has a count. Blocks: for a thread."""
    large_files, state = folders.large_files, folders.state
    if large_files is None:
        raise ValueError("there is no folder to check")
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


def _files_on_disk(folder: Path, conversation_id: ConversationId | None) -> list[str]:
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
