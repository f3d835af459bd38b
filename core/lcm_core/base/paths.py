"""Stored paths: where a file that the database names is on this machine, and whether it may be opened.

A database holds absolute paths of the machine that wrote it, and whoever wrote the text of a message may
have had a hand in them. So a path is looked for in several places, and only a file whose real path is
inside a configured folder is ever opened (docs/spec/host.md, "Payloads on the disk").
"""

from __future__ import annotations

import codecs
import errno
import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from enum import StrEnum
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath
from urllib.parse import unquote, urlsplit

from lcm_core.base.errors import NotFoundError
from lcm_core.base.values import Record, replace

#: Bytes that are read of a file unless the caller wants more (docs/spec/command.md, "Large files").
HEAD_BYTES = 32_768
#: Beyond this share of undecodable or control characters a text is no text.
_MAX_ODD_SHARE = 0.1
#: How files that are no text begin, and what they are.
_SIGNATURES = (
    (b"\x89PNG\r\n\x1a\n", "PNG image"),
    (b"\xff\xd8\xff", "JPEG image"),
    (b"GIF87a", "GIF image"),
    (b"GIF89a", "GIF image"),
    (b"%PDF-", "PDF document"),
    (b"PK\x03\x04", "ZIP archive"),
    (b"\x1f\x8b", "gzip archive"),
    (b"\x28\xb5\x2f\xfd", "zstd archive"),
    (b"SQLite format 3\0", "SQLite database"),
    (b"OggS", "Ogg audio"),
    (b"\x7fELF", "program"),
    (b"\xff\xfe", "UTF-16 text"),
    (b"\xfe\xff", "UTF-16 text"),
)
#: A text may begin so too: these count only when the rest is no text.
_WEAK_SIGNATURES = ((b"BM", "BMP image"), (b"ID3", "MP3 audio"))

#: The engine's folder of large files inside the state folder (docs/spec/host.md, "The state folder").
LARGE_FILES_FOLDER = "lcm-files"
AGENTS_FOLDER = "agents"
SESSIONS_FOLDER = "sessions"
#: Where OpenClaw keeps an agent's sessions from 2026.8.1 on, inside the agent's folder.
HOST_DATABASE = Path("agent", "openclaw-agent.sqlite")
#: Ends of the names of databases that the host may be told to keep sessions in.
HOST_STORES = (".sqlite", ".db")
_FOLDER_UNKNOWN = (
    "The file was not looked for beside the database, which has no lcm-files folder there; name its state "
    "folder with --openclaw-dir."
)
#: What is said wherever only the sessions in files are looked at.
SESSIONS_IN_HOST_DATABASE = "sessions are in OpenClaw's database: lcm-tui sessions"


class StoredFileState(StrEnum):
    """What became of a stored path; the value is the word to show."""

    FOUND = "found"
    MISSING = "missing"
    NOT_LOOKED_FOR = "not looked for"  #: not where it says, and the folder of its database is not known
    OUTSIDE = "outside the configured folder"
    UNREADABLE = "unreadable"


class StoredFile(Record, frozen=True):
    """A path that the database holds, and the file that it means here."""

    stored: str  #: as the database has it: foreign text
    state: StoredFileState
    path: Path | None  #: the real path, free of links; only when found
    size: int | None  #: bytes; only when found
    tried: tuple[Path, ...]  #: where it was looked for, in order
    message: str  #: one sentence without the stored text

    @property
    def found(self) -> bool:
        """Whether there is a file that may be opened."""
        return self.state is StoredFileState.FOUND


class FileText(Record, frozen=True):
    """The beginning of a file as text, or a description when it is no text."""

    text: str  #: decoded UTF-8, not yet safe to show; empty for a binary file
    binary: bool
    description: str  #: what it is, such as "PNG image, 640 x 480" or "text"
    bytes_read: int
    size: int  #: bytes of the whole file

    @property
    def complete(self) -> bool:
        """Whether the whole file was read."""
        return self.bytes_read >= self.size


def resolve_stored(
    stored: str, *, conversation_id: int, large_files_dir: Path, state_dir: Path, known: bool = True
) -> StoredFile:
    """Find a large file: as stored, by conversation and name, then with the state folder mapped onto ours.

    Opens nothing. Inside means inside *large_files_dir* or the state folder's own ``lcm-files``, where
    files stay that were stored before another folder was configured. Where it is not *known* that the
    folders are those of this database, a file that is not in them is not called missing.
    """
    parsed = _parse(stored)
    if parsed is None:
        return _not_local(stored)
    candidates = [Path(parsed)] if isinstance(parsed, PurePosixPath) and parsed.is_absolute() else []
    if parsed.name and parsed.name != "..":
        candidates.append(large_files_dir / str(conversation_id) / parsed.name)
    candidates += _below(parsed, LARGE_FILES_FOLDER, large_files_dir)
    candidates += _below(parsed, LARGE_FILES_FOLDER, state_dir / LARGE_FILES_FOLDER)
    found = _first_inside(stored, candidates, (large_files_dir, state_dir / LARGE_FILES_FOLDER))
    if known or found.state is not StoredFileState.MISSING:
        return found
    return replace(found, state=StoredFileState.NOT_LOOKED_FOR, message=_FOLDER_UNKNOWN)


def is_host_store(path: Path) -> bool:
    """Whether a path is a database of sessions by itself, and no folder of them."""
    return path.suffix in HOST_STORES and path.is_file()


def host_databases(sessions: Path) -> tuple[Path, ...]:
    """OpenClaw's own databases that belong to a sessions folder, an agent's folder or a folder of agents.

    A path that is a file is one itself: the host was told to keep sessions there. Else they are looked for
    by name. None is opened. Source: docs/spec/host.md, "Sessions in SQLite" and "Where the sessions are".
    """
    if is_host_store(sessions):
        return (sessions,)
    folders = [sessions, sessions.parent if sessions.name == SESSIONS_FOLDER else sessions]
    with suppress(OSError):
        folders += sorted(folder for folder in sessions.iterdir() if folder.is_dir())
    found = (folder / name for folder in folders for name in (HOST_DATABASE, HOST_DATABASE.name))
    return tuple(dict.fromkeys(one for one in found if one.is_file()))


def resolve_transcript(stored: str, *, sessions: Path, state_dir: Path) -> StoredFile:
    """Find a session's transcript: as stored, inside *sessions*, then with the state folder mapped onto ours.

    *sessions* is a sessions folder, an agent's folder or a folder of agents. Opens nothing.
    """
    parsed = _parse(stored)
    if parsed is None:
        return _not_local(stored)
    agents = state_dir / AGENTS_FOLDER
    candidates = [Path(parsed)] if isinstance(parsed, PurePosixPath) and parsed.is_absolute() else []
    candidates += _below(parsed, AGENTS_FOLDER, sessions)
    if parsed.name and parsed.name != "..":
        candidates += [sessions / parsed.name, sessions / SESSIONS_FOLDER / parsed.name]
    candidates += _below(parsed, AGENTS_FOLDER, agents)
    # Beside an agent's sessions is its `agent/` folder with credentials: only transcripts may be opened.
    return _first_inside(stored, candidates, (sessions, agents), named=".jsonl")


def read_head(path: Path, limit_bytes: int = HEAD_BYTES) -> FileText:
    """Read at most *limit_bytes* of the file that `resolve_stored` found (pass ``StoredFile.path``).

    Raises:
        NotFoundError: the file went away, became a link or cannot be read.
    """
    head, size = read_bytes(path, limit_bytes)
    return _described(head, size)


def read_bytes(path: Path, limit_bytes: int) -> tuple[bytes, int]:
    """The first *limit_bytes* of the file that `resolve_stored` found, and how many it has.

    Raises:
        NotFoundError: the file went away, became a link or cannot be read.
    """
    try:
        # A link in place of the file, or a pipe that would block, was put there after it was resolved.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise OSError(errno.EINVAL, "it is not a regular file")
            head = file.read(max(0, limit_bytes))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise NotFoundError(
            f"The file {path} cannot be read: {reason}; reload to see where it is now.",
            code="FILE_UNREADABLE",
            details={"path": str(path), "reason": reason},
        ) from None
    return head, max(status.st_size, len(head))


def _described(head: bytes, size: int) -> FileText:
    known = next((name for start, name in _SIGNATURES if head.startswith(start)), None)
    if head[:4] == b"RIFF" and head[8:12] in (b"WEBP", b"WAVE"):
        known = "WebP image" if head[8:12] == b"WEBP" else "WAV audio"
    text = codecs.getincrementaldecoder("utf-8-sig")("replace").decode(head, final=len(head) >= size)
    odd = sum(1 for sign in text if sign == "\ufffd" or (sign < " " and sign not in "\t\n\r\f\x1b"))
    binary = b"\0" in head or odd > _MAX_ODD_SHARE * len(text)
    if known is None and not binary:
        return FileText(text, False, "text" if size else "empty file", len(head), size)
    known = known or next((name for start, name in _WEAK_SIGNATURES if head.startswith(start)), None)
    return FileText("", True, (known or "binary data") + _dimensions(head), len(head), size)


def _dimensions(head: bytes) -> str:
    """Width and height in pixels where the format keeps them in a fixed place."""
    if head[12:16] == b"IHDR" and len(head) >= 24:
        width, height = int.from_bytes(head[16:20]), int.from_bytes(head[20:24])
    elif head[:4] == b"GIF8" and len(head) >= 10:
        width, height = int.from_bytes(head[6:8], "little"), int.from_bytes(head[8:10], "little")
    else:
        return ""
    return f", {width} x {height}"


def _parse(stored: str) -> PurePath | None:
    """The stored text as a path of the machine that wrote it; None when it names nothing on a disk."""
    if not stored.strip() or "\0" in stored:
        return None
    if re.match(r"[A-Za-z]:[\\/]|\\\\", stored):
        return PureWindowsPath(stored)
    if not re.match(r"[A-Za-z][A-Za-z0-9+.-]+:", stored):
        return PurePosixPath(stored)
    try:
        uri = urlsplit(stored)
    except ValueError:
        return None
    if uri.scheme != "file" or uri.netloc not in ("", "localhost"):
        return None
    path = unquote(uri.path, errors="surrogateescape")
    if "\0" in path or not path:
        return None
    return PureWindowsPath(path[1:]) if re.match(r"/[A-Za-z]:/", path) else PurePosixPath(path)


def _below(stored: PurePath, folder: str, ours: Path) -> Iterator[Path]:
    """The part below *folder* in the stored path, put below *ours*; the last such folder comes first."""
    parts = stored.parts
    for index in range(len(parts) - 2, -1, -1):
        if parts[index] == folder:
            yield ours.joinpath(*parts[index + 1 :])


def _not_local(stored: str) -> StoredFile:
    message = "The database stores no path on a disk for this file."
    return StoredFile(stored, StoredFileState.MISSING, None, None, (), message)


def _first_inside(
    stored: str, candidates: Iterable[Path], folders: Sequence[Path], named: str = ""
) -> StoredFile:
    """The first candidate that is a readable file inside a folder; else why not, the most telling reason.

    The real name must contain *named*.
    """
    tried = tuple(dict.fromkeys(candidates))
    inside = [os.path.realpath(folder) for folder in folders]
    worst = StoredFileState.MISSING
    for candidate in tried:
        state, real, size = _look(candidate, inside, named)
        if state is StoredFileState.FOUND:
            return StoredFile(stored, state, real, size, tried, "The file is there.")
        if worst is StoredFileState.MISSING or state is StoredFileState.UNREADABLE:
            worst = state
    message = {
        StoredFileState.MISSING: f"The file is not on this machine; expected below {folders[0]}.",
        StoredFileState.OUTSIDE: f"The file is outside {folders[0]} and is therefore not opened.",
        StoredFileState.UNREADABLE: (
            f"The file below {folders[0]} cannot be read; check its type and permissions."
        ),
    }[worst]
    return StoredFile(stored, worst, None, None, tried, message)


def _look(
    candidate: Path, inside: Sequence[str], named: str
) -> tuple[StoredFileState, Path | None, int | None]:
    refused = StoredFileState.OUTSIDE
    try:
        real = Path(os.path.realpath(candidate))
        if named in real.name and any(real.is_relative_to(folder) for folder in inside):
            refused = StoredFileState.UNREADABLE
        status = real.stat()
    except OSError as error:
        gone = error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG)
        return (StoredFileState.MISSING if gone else refused), None, None
    except ValueError:  # text that no path can hold, such as a lone surrogate
        return StoredFileState.MISSING, None, None
    if refused is StoredFileState.OUTSIDE:
        return refused, None, None
    if not stat.S_ISREG(status.st_mode) or not os.access(real, os.R_OK):
        return StoredFileState.UNREADABLE, None, None
    return StoredFileState.FOUND, real, status.st_size
