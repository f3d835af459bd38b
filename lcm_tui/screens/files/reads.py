"""What the screens of large files read, from the database and from the disk."""

from __future__ import annotations

from dataclasses import dataclass

from lcm_core.errors import NotFoundError
from lcm_core.paths import FileText, StoredFile, read_head, resolve_stored
from lcm_core.records import ConversationId, LargeFile
from lcm_core.settings import Settings
from lcm_core.store import files as store
from lcm_core.store.database import Reader

#: How much of a file is shown: what wraps before the key that opened it is felt to wait.
SHOWN_BYTES = 256_000


@dataclass(frozen=True, slots=True)
class FilePage:
    """The newest files, the newest of them first."""

    files: tuple[LargeFile, ...]
    more: bool  #: there are older ones


@dataclass(frozen=True, slots=True)
class OpenedFile:
    """Where a file is and how it begins."""

    stored: StoredFile
    text: FileText | None  #: None when it was not found or could not be read
    failure: str = ""  #: why not, one sentence


async def load_files(reader: Reader, conversation_id: ConversationId | None, limit: int) -> FilePage:
    """The newest files of a conversation, or of all: at most *limit*."""
    found = await store.list_files(reader, conversation_id, newest=limit + 1)
    return FilePage(tuple(found[::-1][:limit]), len(found) > limit)


def stored_file(file: LargeFile, settings: Settings) -> StoredFile:
    """Where a file of the database is on this machine. Reads the disk: not for the event loop."""
    return resolve_stored(
        file.storage_uri,
        conversation_id=file.conversation_id,
        large_files_dir=settings.large_files_dir.value,
        state_dir=settings.state_dir.value,
        known=settings.knows_large_files,
    )


def open_file(file: LargeFile, settings: Settings) -> OpenedFile:
    """Find and read the beginning of a file. Reads the disk: not for the event loop."""
    stored = stored_file(file, settings)
    if stored.path is None:
        return OpenedFile(stored, None, stored.message)
    try:
        return OpenedFile(stored, read_head(stored.path, SHOWN_BYTES))
    except NotFoundError as error:
        return OpenedFile(stored, None, error.message)
