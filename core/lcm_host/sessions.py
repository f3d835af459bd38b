"""The sessions of a host in databases, archives and files: which there are, and how entries are read."""

from __future__ import annotations

import dataclasses
import hashlib
import importlib
import io
import os
import re
from array import array
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, BinaryIO, Concatenate, Final, ParamSpec, TypeAlias, TypeVar, cast

from lcm_core.base.errors import ConfigurationError, LcmError, NotFoundError
from lcm_core.base.javascript import Json, JsonObject
from lcm_core.base.jsonl import (
    HEAD_BYTES,
    BadLineError,
    Cancelled,
    LineProblem,
    RawLine,
    TranscriptError,
    TranscriptMissingError,
    check_cancelled,
    decode_object,
    never_cancelled,
    open_regular,
    open_transcript,
    peek_object,
    read_moment,
    scan_lines,
    string,
)
from lcm_core.base.paths import HOST_DATABASE, SESSIONS_FOLDER, host_databases, is_host_store
from lcm_core.base.setting_values import object_or_empty
from lcm_core.base.values import Record, Struct, field
from lcm_core.engine.sessions import has_failed, is_runtime_context, stored_role
from lcm_core.engine.stored_parts import message_text
from lcm_core.store.host_database import HostRows, read_host
from lcm_core.store.opening import FileState, file_state

from lcm_host.rows import (
    ENTRY_LIMIT,
    TRIED_SCHEMA,
    AgentSessions,
    ArchiveRow,
    ColdRow,
    EventRow,
    WindowRow,
    agent_sessions,
)
from lcm_host.transcript_files import (
    DiskSession,
    SessionIndex,
    SessionProblem,
    SessionState,
    find_sessions,
)

# -- each session once -----------------------------------------------------------------------------------
# Which sessions a host has, in its databases and in files (docs/host.md, "Each session once").
#
# A session is known by its agent and id. It may be in the agent's database, in an archive and in a file at
# the same time: the database comes before a live file, that before what was deleted or archived.

#: Where an import leaves copies of the files that it took.
IMPORTED_FOLDER: Final = "session-sqlite-import-archive"
_IMPORTED: Final = re.compile(r"(?P<name>.+)\.jsonl\.imported-(?P<ms>\d{1,16})", re.DOTALL)
_COLD_FOLDER: Final = "cold"


class Storage(StrEnum):
    """Where a session is; the value is the word of the command line."""

    HOT = "hot"  #: in the agent's database, entry by entry
    COLD = "cold"  #: put away by the host, packed, and still one of its sessions
    DELETED = "deleted"  #: only an archive is left
    ARCHIVED = "archived"  #: reset, or imported by the host and only its copy is left
    JSONL = "jsonl"  #: a file, as hosts before 2026.8.1 keep it


#: Of the places of one session the first counts.
_ORDER: Final = (Storage.HOT, Storage.COLD, Storage.JSONL, Storage.DELETED, Storage.ARCHIVED)


class HotPlace(Record, frozen=True):
    """The rows of an agent's database."""

    database: Path


class ColdPlace(Record, frozen=True):
    """A cold archive, in a file of *folder* or in the row itself."""

    database: Path
    folder: Path
    row: ColdRow


class ArchivePlace(Record, frozen=True):
    """The transcript of a session that was deleted or reset, in its row."""

    database: Path
    row: ArchiveRow


class FilePlace(Record, frozen=True):
    """A transcript in a file of its own."""

    path: Path
    disk: DiskSession | None = None  #: what a listing of files says of it; None: a copy that an import left


Place = HotPlace | ColdPlace | ArchivePlace | FilePlace


class HostSession(Record, frozen=True):
    """One session of the host."""

    agent: str | None
    session_id: str
    session_key: str | None
    storage: Storage
    current: bool  #: the one that its key goes on with
    previous_session_id: str | None
    newest_at: datetime | None  #: UTC; of what is in a file or archive, when that was last written
    place: Place
    created_at: datetime | None = (
        None  #: of a window, or of a fork: entries that are older were copied into it
    )

    @property
    def live_file(self) -> Path | None:
        """The plain file in which the host goes on with it; None: it is elsewhere, packed, or at its end."""
        place = self.place
        if self.storage is not Storage.JSONL or not isinstance(place, FilePlace) or place.disk is None:
            return None
        return None if place.disk.packed else place.path


class _ReadDatabase(Record, frozen=True):
    """What an agent's database listed, and the state of the file that it was read from."""

    state: FileState | None
    sessions: tuple[HostSession, ...]
    problems: tuple[SessionProblem, ...]

    def holds_for(self, now: FileState | None) -> bool:
        """Whether nothing was written since."""
        return self.state is not None and self.state == now and not self.state.may_hide_a_write


@dataclasses.dataclass(frozen=True, slots=True)
class HostListing:
    """What was found, the newest first (then by agent and id), and what was skipped."""

    sessions: tuple[HostSession, ...]
    problems: tuple[SessionProblem, ...]
    read: Mapping[Path, _ReadDatabase] = dataclasses.field(
        default_factory=dict, compare=False
    )  #: by database
    files: SessionIndex = dataclasses.field(default_factory=SessionIndex, compare=False)
    checkpoints: int = 0  #: files with copies of sessions as they were, which are left out


def list_sessions(
    folder: Path, before: HostListing | None = None, *, cancelled: Cancelled = never_cancelled
) -> HostListing:
    """The sessions of a folder of agents, of an agent's folder or of a sessions folder.

    What cannot be read is reported in the result. Given the listing *before*, only what was written since
    is opened.

    Raises:
        CancelledError: the caller stopped it.
    """
    problems: list[SessionProblem] = []
    found: dict[tuple[str | None, str], HostSession] = {}
    keys: set[str] = set()
    read: dict[Path, _ReadDatabase] = {}
    root = _root(folder)
    for database in host_databases(folder):
        check_cancelled(cancelled)
        known = None if before is None else before.read.get(database)
        state = file_state(database)
        if known is None or not known.holds_for(state):
            known = _read_database(database, root, state)
        read[database] = known
        problems += known.problems
        for session in known.sessions:
            _take(found, session)
            if session.current and session.session_key:
                keys.add(session.session_key)
    listed = find_sessions(folder, None if before is None else before.files, cancelled=cancelled)
    problems += listed.problems
    for session in (*_of_files(listed.sessions, found, keys), *_imported(folder, found)):
        _take(found, session)
    in_order = tuple(sorted(found.values(), key=_newest_first))
    return HostListing(in_order, tuple(problems), read, listed.index, listed.checkpoints)


def _read_database(database: Path, root: Path, state: FileState | None) -> _ReadDatabase:
    try:
        if not database.resolve().is_relative_to(root):
            return _ReadDatabase(state, (), (SessionProblem(database, _LEADS_OUT),))
        sessions = read_host(database, agent_sessions)
    except (LcmError, OSError) as error:
        return _ReadDatabase(None, (), (SessionProblem(database, str(error)),))
    remarks = tuple(_remarks(database, sessions))
    return _ReadDatabase(state, tuple(_of_database(database, sessions)), remarks)


def unknown_to(
    sessions: Iterable[HostSession], known_ids: Collection[str], known_keys: Collection[str]
) -> list[HostSession]:
    """Those that a database does not know, in the order given.

    One is known when its id, its file's stem or either without the topic is a known session id, or its key
    a known key and it is the one that the key goes on with.
    """
    ids, keys = frozenset(known_ids), frozenset(known_keys)
    return [
        one
        for one in sessions
        if not (one.current and one.session_key in keys) and ids.isdisjoint(_names_of(one))
    ]


def _names_of(session: HostSession) -> frozenset[str]:
    disk = session.place.disk if isinstance(session.place, FilePlace) else None
    return frozenset({session.session_id}) if disk is None else disk.names


def find_session(listing: HostListing, session_id: str, agent: str | None = None) -> HostSession:
    """The session of an id, or of the beginning of one.

    Raises:
        NotFoundError: there is none, or several agents have one.
    """
    of_agent = [one for one in listing.sessions if agent in (None, one.agent)]
    found = [one for one in of_agent if session_id == one.session_id or session_id in _names_of(one)]
    first = min((_ORDER.index(one.storage) for one in found), default=None)
    found = [one for one in found if _ORDER.index(one.storage) == first]
    found = [one for one in found if one.session_id == session_id] or found
    found = found or [one for one in of_agent if session_id and one.session_id.startswith(session_id)]
    if len(found) == 1:
        return found[0]
    if found:
        named = ", ".join(f"{one.session_id} of {one.agent}" for one in found[:5])
        raise NotFoundError(
            f"{len(found):,} sessions match {session_id}: {named}. Give the whole id, or --agent.",
            code="SESSION_AMBIGUOUS",
            details={"session": session_id},
        )
    passed_over = f" {listing.problems[0].path} was skipped." if listing.problems else ""
    raise NotFoundError(
        f"No session matched {session_id}.{passed_over} `lcm-tui sessions list` shows them.",
        code="SESSION_NOT_FOUND",
        details={"session": session_id},
    )


def path_of(session: HostSession) -> Path:
    """The file that a session lies in: a database, an archive or a transcript."""
    place = session.place
    if isinstance(place, FilePlace):
        return place.path
    if isinstance(place, ColdPlace) and not place.row.in_database:
        return place.folder / (place.row.name or "")
    return place.database


_LEADS_OUT: Final = "This database leads out of the folder through a link and was not opened."


def _root(folder: Path) -> Path:
    real = Path(os.path.realpath(folder))
    return real.parent if folder.name == SESSIONS_FOLDER or is_host_store(folder) else real


def _newest_first(session: HostSession) -> tuple[float, str, str]:
    moment = session.newest_at
    return (-moment.timestamp() if moment else float("inf"), session.agent or "", session.session_id)


def _take(found: dict[tuple[str | None, str], HostSession], session: HostSession) -> None:
    name = (session.agent, session.session_id)
    known = found.get(name)
    if known is None or _ORDER.index(session.storage) < _ORDER.index(known.storage):
        found[name] = session


# -- sessions in databases -------------------------------------------------------------------------------


def _remarks(database: Path, sessions: AgentSessions) -> Iterator[SessionProblem]:
    if sessions.left_out:
        yield SessionProblem(
            database, f"{sessions.left_out:,} rows without a usable session id were skipped.", is_remark=True
        )
    if sessions.schema_number > TRIED_SCHEMA:
        yield SessionProblem(
            database,
            f"Its schema {sessions.schema_number} is newer than {TRIED_SCHEMA}, the newest that was tried: "
            "something may be missing here.",
            is_remark=True,
        )


def _of_database(database: Path, sessions: AgentSessions) -> Iterator[HostSession]:
    agent = database.parent.parent.name
    if database.parent.name != HOST_DATABASE.parent.name:  # the host was told to keep it elsewhere
        agent = sessions.agent or database.parent.name
    currents = _currents(sessions.windows)
    for window in sessions.windows:
        place: Place = HotPlace(database)
        if window.cold is not None:
            place = ColdPlace(database, cold_folder(database), window.cold)
        current = window.session_id in currents
        yield HostSession(
            agent,
            window.session_id,
            window.session_key,
            Storage.HOT if window.cold is None else Storage.COLD,
            current,
            window.previous_session_id or (_noted_previous(window) if current else None),
            read_moment(window.newest_ms),
            place,
            read_moment(window.created_ms),
        )
    newest_last = sorted(sessions.archives, key=lambda archive: archive.created_ms or 0)
    for archive in {archive.session_id: archive for archive in newest_last}.values():
        yield HostSession(
            agent,
            archive.session_id,
            archive.session_key,
            Storage.DELETED if archive.reason == "deleted" else Storage.ARCHIVED,
            False,
            None,
            read_moment(archive.created_ms),
            ArchivePlace(database, archive),
        )


def cold_folder(database: Path) -> Path:
    """Where an agent's cold archives are: with its sessions, or beside a database that lies elsewhere."""
    folder = database.parent
    return (folder.parent / SESSIONS_FOLDER if folder.name == "agent" else folder) / _COLD_FOLDER


def _currents(windows: Iterable[WindowRow]) -> set[str]:
    """The window that each key goes on with: the one that its node names, else its newest."""
    by_key: dict[str, list[WindowRow]] = {}
    for window in windows:
        if window.session_key is not None and window.current_session_id is not None:
            by_key.setdefault(window.session_key, []).append(window)
    found: set[str] = set()
    for several in by_key.values():
        named = {one.session_id for one in several}.intersection({several[0].current_session_id})
        newest = max(several, key=lambda window: window.created_ms or 0).session_id
        found |= named or {newest}
    return found


def _noted_previous(window: WindowRow) -> str | None:
    if window.entry_json is None:
        return None
    try:
        noted = string(decode_object(window.entry_json).get("previousSessionId"))
    except BadLineError:
        return None
    return noted if noted != window.session_id else None


# -- sessions in files -----------------------------------------------------------------------------------


def _of_files(
    files: Iterable[DiskSession], found: dict[tuple[str | None, str], HostSession], keys: set[str]
) -> Iterator[HostSession]:
    for file in files:
        known = found.get((file.agent, file.session_id))
        if known is not None and known.storage in (Storage.HOT, Storage.COLD):
            continue
        live = file.state is SessionState.LIVE
        deleted = file.state is SessionState.DELETED
        yield HostSession(
            file.agent,
            file.stem if file.topic is not None else file.session_id,
            file.session_key,
            Storage.JSONL if live else Storage.DELETED if deleted else Storage.ARCHIVED,
            live and file.session_key is not None and file.session_key not in keys,
            None,
            file.modified,
            FilePlace(file.path, file),
            file.header.started_at if file.header is not None and file.header.parent_session else None,
        )


def _imported(folder: Path, found: dict[tuple[str | None, str], HostSession]) -> Iterator[HostSession]:
    """The copies that an import of the host left, of sessions that are nowhere else."""
    for agent, archive in _import_folders(folder):
        try:
            entries = sorted(os.scandir(archive), key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in entries:
            named = _IMPORTED.fullmatch(entry.name)
            if named is None or not entry.is_file(follow_symlinks=False):
                continue
            _key, _, session_id = named["name"].rpartition(".")
            if not session_id or (agent, session_id) in found:
                continue
            yield HostSession(
                agent,
                session_id,
                None,
                Storage.ARCHIVED,
                False,
                None,
                read_moment(int(named["ms"])),
                FilePlace(archive / entry.name),
            )


def _import_folders(folder: Path) -> Iterator[tuple[str, Path]]:
    if is_host_store(folder):
        return
    agents = [folder.parent] if folder.name == SESSIONS_FOLDER else [folder]
    try:
        agents += sorted(one for one in folder.iterdir() if one.is_dir() and not one.is_symlink())
    except OSError:
        return
    for agent in agents:
        for inside in ("", SESSIONS_FOLDER, "agent"):
            place = agent / inside / IMPORTED_FOLDER
            if place.is_dir() and not place.is_symlink():
                yield agent.name, place


# -- packed entries --------------------------------------------------------------------------------------
# What the host has packed with zstd: entries in a table, and archives (docs/host.md, "Packed entries").
# Nothing is unpacked beyond a limit that the caller gives, and no archive is held as a whole.

#: How a zstd frame begins.
MAGIC: Final = b"\x28\xb5\x2f\xfd"
#: Bytes that one call unpacks at most.
_PIECE: Final = 256 * 1024


def _zstd() -> Any:
    """The standard library's module, or its copy for Python below 3.14."""
    for name in ("compression.zstd", "backports.zstd"):
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    raise ConfigurationError(
        "Sessions of this host are compressed with zstd, which this Python cannot read: install "
        "backports.zstd into its environment.",
        code="ZSTD_MISSING",
    )


def unpacked_entry(data: bytes, size: int | None, limit: int) -> bytes:
    """An entry of the table: one frame that says how long it is, as the table does.

    Raises:
        BadLineError: the bytes are no such frame, or sizes differ.
        ConfigurationError: this Python cannot unpack it.
    """
    zstd = _zstd()
    if not data.startswith(MAGIC):
        raise BadLineError("compressed, but not a zstd frame")
    if size is None or not 0 <= size <= limit:
        said = "none" if size is None else f"{size:,}"
        raise BadLineError(f"compressed, with a recorded size of {said}; it must be 0 to {limit:,} bytes")
    try:
        said = zstd.get_frame_info(data).decompressed_size
        if said is not None and said != size:
            raise BadLineError(f"compressed; its frame says {said:,} bytes, its row {size:,}")
        unpacking = zstd.ZstdDecompressor()
        text: bytes = unpacking.decompress(data, size + 1)
    except zstd.ZstdError as error:
        raise BadLineError(f"compressed, and its zstd frame is damaged ({error})") from error
    if len(text) != size or not unpacking.eof or unpacking.unused_data:
        raise BadLineError(f"compressed, and its frame does not contain the {size:,} bytes that its row says")
    return text


def unpacked(name: str, packed: Iterator[bytes], limit: int) -> Iterator[bytes]:
    """What pieces of a packed file hold, in pieces; *name* is how the file is called in a sentence.

    Raises:
        TranscriptError: the frame is damaged or cut off, or it holds more than *limit* bytes.
        ConfigurationError: this Python cannot unpack it.
    """
    zstd = _zstd()
    held = 0
    try:
        for piece in _unpack(zstd, name, packed):
            held += len(piece)
            if held > limit:
                raise _damaged(name, f"it has more than the {limit:,} bytes that the host may have written")
            yield piece
    except zstd.ZstdError as error:
        raise _damaged(name, f"its zstd frame is damaged: {error}") from error


def _unpack(zstd: Any, name: str, packed: Iterator[bytes]) -> Iterator[bytes]:
    unpacking = None
    for data in packed:
        while data:
            if unpacking is None or unpacking.eof:
                unpacking = zstd.ZstdDecompressor()
            yield unpacking.decompress(data, _PIECE)
            while not unpacking.eof and not unpacking.needs_input:
                yield unpacking.decompress(b"", _PIECE)
            data = unpacking.unused_data if unpacking.eof else b""
    if unpacking is None or not unpacking.eof:
        raise _damaged(name, "its zstd frame ends too early")


def _damaged(name: str, reason: str) -> TranscriptError:
    return TranscriptError(
        f"{name} cannot be read: {reason}. Copy it again, or restore it from a backup of the host.",
        code="ARCHIVE_DAMAGED",
    )


class Pieces(io.RawIOBase):
    """Pieces of bytes as a file that is read once, from its beginning."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        super().__init__()
        self._pieces = pieces
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        """It can be read, and not written or moved in."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill *buffer* as far as one piece goes; 0 at the end."""
        while not self._rest:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._rest = memoryview(piece)
        count = min(len(self._rest), len(buffer))
        buffer[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count


# -- archives --------------------------------------------------------------------------------------------
# A session that is read as a stream of lines: cold and deleted archives, and files (docs/host.md, "Cold
# archives" and "Deleted and reset sessions").
#
# Only the line that is being read is held. An archive is read to its end only when its checksum is the one
# that the host recorded.

P = ParamSpec("P")
T = TypeVar("T")

#: Bytes that an archive may hold, whatever the host says of it.
ARCHIVE_LIMIT: Final = 8 * 1024**3
_CHUNK: Final = 1024 * 1024
#: A line of a cold archive holds an entry as a text within JSON: twice its bytes at most, and more.
_COLD_LINE: Final = 2 * ENTRY_LIMIT + 64 * 1024
#: How the host begins a line with an entry.
_EVENT_LINE: Final = (b'{"kind":"event"', b'{"kind": "event"')

Opened: TypeAlias = Callable[[], AbstractContextManager[BinaryIO]]


class TextLines:
    """A transcript, line by line."""

    def __init__(self, opened: Opened) -> None:
        self._opened = opened

    def lines(self, cancelled: Cancelled) -> Iterator[RawLine]:
        """All lines, from the beginning."""
        with self._opened() as file:
            yield from scan_lines(file, limit=ENTRY_LIMIT, cancelled=cancelled)

    def raw(self, cancelled: Cancelled) -> Iterator[bytes]:
        """All lines that may be entries, not parsed; too long ones are empty."""
        for line in self.lines(cancelled):
            yield b"" if line.too_long else line.data

    def entry_of(self, line: bytes) -> bytes:
        """The entry in such a line."""
        return line

    def path(self) -> Sequence[int] | None:
        """The host's own active path, as numbers of lines; None where it has to be walked."""
        return None

    @property
    def problems(self) -> list[LineProblem]:
        """What is wrong beside the lines themselves."""
        return []


class ColdLines(Struct):
    """The entries of a cold archive (docs/host.md, "Cold archives"), and what it says of their path."""

    session_id: str
    row: ColdRow
    opened: Opened
    problems: list[LineProblem] = field(default_factory=list)
    active: array[int] = field(default_factory=lambda: array("q"))
    index: JsonObject = field(default_factory=dict)

    def lines(self, cancelled: Cancelled) -> Iterator[RawLine]:
        """The entries, numbered by their place in the session.

        Raises:
            TranscriptError: it is the archive of another session, or of another state of this one.
        """
        self.problems, self.active = [], array("q")
        events = 0
        with self.opened() as file:
            for outer in scan_lines(file, limit=_COLD_LINE, cancelled=cancelled):
                try:
                    value = {} if outer.too_long else decode_object(outer.data)
                except BadLineError as error:
                    self.problems.append(LineProblem(outer.number, f"a line of the archive is {error}"))
                    continue
                if outer.number == 1:
                    self._check_header(value)
                row = object_or_empty(value.get("row"))
                if value.get("kind") == "event" or outer.too_long:
                    events += 1
                    yield _cold_event(row, events - 1, outer)
                else:
                    self._note(value.get("kind"), row)
        if self.row.events is not None and events != self.row.events:
            said = f"{events:,} entries in the archive, but {self.row.events:,} in the host's record"
            self.problems.append(LineProblem(events, said))

    def raw(self, cancelled: Cancelled) -> Iterator[bytes]:
        """All lines that may be entries, not parsed; too long ones are empty."""
        with self.opened() as file:
            for line in scan_lines(file, limit=_COLD_LINE, cancelled=cancelled):
                if line.data.startswith(_EVENT_LINE):
                    yield b"" if line.too_long else line.data

    def entry_of(self, line: bytes) -> bytes:
        """The entry in such a line; nothing where there is none."""
        try:
            row = decode_object(line).get("row")
        except BadLineError:
            return b""
        text = row.get("event_json") if isinstance(row, dict) else None
        return text.encode("utf-8", "surrogatepass") if isinstance(text, str) else b""

    def _check_header(self, value: JsonObject) -> None:
        same = value.get("kind") == "header" and value.get("sessionId") == self.session_id
        if not same or (self.row.generation is not None and value.get("generation") != self.row.generation):
            raise TranscriptError(
                f"The cold archive {self.row.name} does not belong to session {self.session_id} of this host "
                "database: restore the right file from a backup of the host.",
                code="ARCHIVE_OF_ANOTHER_SESSION",
            )

    def _note(self, kind: object, row: JsonObject) -> None:
        if kind == "active":
            self.active.append(_place(row.get("event_seq")))
        elif kind == "index":
            self.index = row

    def path(self) -> Sequence[int] | None:
        """The host's own active path; None where its list was not complete."""
        index = self.index
        complete = index.get("needs_rebuild") == 0 and index.get("indexed_seq") == self.row.last_seq
        if not complete or index.get("active_event_count") != len(self.active) or -1 in self.active:
            return None
        return self.active


def _place(value: Json) -> int:
    """A place in the session; -1 for what is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**62 else -1


def _cold_event(row: JsonObject, number: int, outer: RawLine) -> RawLine:
    place = _place(row.get("seq"))
    text = row.get("event_json")
    if outer.too_long or not isinstance(text, str):
        return RawLine(number if place < 0 else place, 0, outer.size, b"", outer.too_long, ended=True)
    try:
        data = text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # half a pair, escaped in the archive
        data = text.encode("utf-8", "surrogatepass")
    too_long = len(data) > ENTRY_LIMIT
    kept = data[:HEAD_BYTES] if too_long else data
    return RawLine(number if place < 0 else place, 0, len(data), kept, too_long, ended=True)


Source: TypeAlias = TextLines | ColdLines


def cold_row_lines(rows: HostRows, session: HostSession) -> ColdLines:
    """The entries of a cold archive that lies in its row."""
    assert isinstance(session.place, ColdPlace)
    row = session.place.row
    name = f"The cold archive of session {session.session_id} in {rows.path}"

    def packed() -> Generator[bytes, None, None]:
        return rows.blob("session_transcript_cold_archives", "archive_blob", row.row)

    return ColdLines(session.session_id, row, _opened(name, packed, _cold_limit(row), row.sha256))


def archive_lines(rows: HostRows, place: ArchivePlace) -> TextLines:
    """The transcript of a session that was deleted or reset, in its row."""
    row = place.row
    name = f"The archive of session {row.session_id} in {rows.path}"

    def stored() -> Generator[bytes, None, None]:
        return rows.blob("session_transcript_archives", "archive_blob", row.row)

    return TextLines(_opened(name, stored, ARCHIVE_LIMIT, row.sha256, packed=row.encoding != "identity"))


def _cold_limit(row: ColdRow) -> int:
    """Bytes that a cold archive may hold: each entry several times over, as texts within JSON."""
    if row.raw_bytes is None or row.events is None:
        return ARCHIVE_LIMIT
    return min(ARCHIVE_LIMIT, max(0, 16 * row.raw_bytes + 8192 * row.events) + _CHUNK)


def cold_file(place: ColdPlace) -> Opened:
    """What opens a cold archive that lies in a file of its folder.

    Raises:
        TranscriptError: it is not there, or its row names another place.
    """
    name = place.row.name or ""
    path = place.folder / name
    if not name or name in (".", "..") or {"/", "\\", "\0"}.intersection(name):
        raise TranscriptError(
            f"The host's database {place.database} names a cold archive of this session that is no file in "
            f"{place.folder}: the database is damaged.",
            code="ARCHIVE_OUTSIDE",
        )
    _check_inside(path, place.folder)
    if not path.exists():
        raise TranscriptMissingError(
            f"The cold archive {path} is missing: restore it from a backup of the host.",
            code="ARCHIVE_MISSING",
            details={"path": str(path)},
        )
    return _opened(str(path), lambda: _pieces_of(path), _cold_limit(place.row), place.row.sha256)


def _check_inside(path: Path, folder: Path) -> None:
    if not path.resolve().is_relative_to(folder.resolve()):
        raise TranscriptError(
            f"{path} leads out of its folder through a link and was not opened.", code="ARCHIVE_OUTSIDE"
        )


def file_of(path: Path) -> Opened:
    """What opens a transcript in a file, packed or not."""
    if path.suffix != ".zst":
        return lambda: open_transcript(path)
    return _opened(str(path), lambda: _pieces_of(path), ARCHIVE_LIMIT, None)


def _pieces_of(path: Path) -> Generator[bytes, None, None]:
    try:
        with open_regular(path) as file:
            while piece := file.read(_CHUNK):
                yield piece
    except OSError as error:
        raise TranscriptError(
            f"{path} cannot be read ({error.strerror or error}): check the file and its permissions."
        ) from error


def _opened(
    name: str,
    stored: Callable[[], Generator[bytes, None, None]],
    limit: int,
    sha256: str | None,
    *,
    packed: bool = True,
) -> Opened:
    """What opens an archive; it is read to its end only when its checksum is the recorded one."""

    @contextmanager
    def opened() -> Iterator[BinaryIO]:
        with closing(stored()) as raw, closing(_checked(name, raw, sha256)) as pieces:
            text = unpacked(name, pieces, limit) if packed else pieces
            yield cast(BinaryIO, io.BufferedReader(Pieces(text), _CHUNK))

    return opened


def _checked(name: str, pieces: Iterator[bytes], sha256: str | None) -> Generator[bytes, None, None]:
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece)
        yield piece
    if sha256 is not None and digest.hexdigest() != sha256:
        raise TranscriptError(
            f"{name} was changed after the host wrote it (its checksum differs): restore it from a backup of "
            "the host.",
            code="ARCHIVE_DAMAGED",
        )


def from_stream(
    session: HostSession,
    use: Callable[Concatenate[Source, P], T],
    *args: P.args,
    **kwargs: P.kwargs,
) -> T:
    """What *use* makes of a session that does not lie in the host's table of entries; it may run again.

    Raises:
        TranscriptError: an archive or file cannot be read; the sentence says why and what to do.
        DatabaseError: the same of the host's database.
    """
    place = session.place
    match place:
        case ColdPlace() if place.row.in_database:
            return read_host(place.database, lambda rows: use(cold_row_lines(rows, session), *args, **kwargs))
        case ColdPlace():
            return use(ColdLines(session.session_id, place.row, cold_file(place)), *args, **kwargs)
        case ArchivePlace():
            return read_host(place.database, lambda rows: use(archive_lines(rows, place), *args, **kwargs))
        case FilePlace():
            return use(TextLines(file_of(place.path)), *args, **kwargs)
        case HotPlace():
            raise ValueError(f"{session.session_id} is in the table of entries")


# -- entries ---------------------------------------------------------------------------------------------
# One entry of a session: who said what, and when, whichever place it was read from. A row or line that
# cannot be read is an entry with a problem, never a reason to stop.

MESSAGE = "message"
#: Answers that the host shows and no model gave: the engine never gets them.
_SHOWN_ONLY: Final = frozenset({"delivery-mirror", "gateway-injected"})


class SessionEntry(Record, frozen=True):
    """One entry of a session's path. Texts are as the host wrote them: make them safe before showing them."""

    number: int  #: its place in the file: ``seq`` of a row (0 is the header), or the line, from 1
    entry_id: str | None
    type: str | None  #: message, compaction, reset ...
    role: str | None  #: of a message, as the host wrote it
    text: str | None  #: of a message: what its text blocks say; None where it cannot be read
    created_at: datetime | None  #: UTC
    problem: str | None  #: why it is not shown whole; follows "entry N:" in a sentence
    is_storable: bool = False  #: a message that an engine stores, unless it is a heartbeat

    @property
    def is_message(self) -> bool:
        """Whether it is something that somebody said."""
        return self.type == MESSAGE


def entry_of_row(row: EventRow) -> SessionEntry:
    """The entry that a row of the host's table holds."""
    try:
        value, problem = value_of(row)
    except BadLineError as error:
        value, problem = navigation_of(row), str(error)
    return entry_of(row.seq, value, problem, row.created_ms)


def entry_of_line(line: RawLine) -> SessionEntry:
    """The entry that a line of a transcript holds."""
    try:
        if line.too_long:
            return entry_of(line.number, peek_object(line.data), _too_long(line.size))
        return entry_of(line.number, decode_object(line.data), None)
    except BadLineError as error:
        return entry_of(line.number, {}, str(error))


def entry_of(
    number: int, value: JsonObject, problem: str | None, created_ms: int | None = None
) -> SessionEntry:
    """The entry of a value, of which only the beginning may be there: then there is a *problem*."""
    message = object_or_empty(value.get("message"))
    kind = string(value.get("type"))
    if kind == MESSAGE and not message and problem is None:
        problem = "an entry of type message without a message"
    stamp = read_moment(value.get("timestamp")) or read_moment(message.get("timestamp"))
    return SessionEntry(
        number,
        string(value.get("id")),
        kind,
        string(message.get("role")),
        text_of(message.get("content")) if kind == MESSAGE and problem is None else None,
        stamp or read_moment(created_ms),
        problem,
        kind == MESSAGE and _is_storable(message),
    )


def _is_storable(message: JsonObject) -> bool:
    """Whether an engine stores such messages (docs/host.md, "Is it ingesting?")."""
    role, model = stored_role(message), message.get("model")
    shown_only = message.get("provider") == "openclaw" and model in _SHOWN_ONLY
    mirrored = role == "assistant" and model == "delivery-mirror"
    if role is None or shown_only or mirrored or has_failed(message):
        return False
    return not (role == "assistant" and is_runtime_context(role, message_text(message)))


def text_of(content: Json) -> str:
    """What a message says: a text as it is, of blocks their texts, one in a line."""
    if isinstance(content, str):
        return content
    return "\n".join(_texts(content))


def _texts(content: Json) -> Iterator[str]:
    blocks = content if isinstance(content, list) else [content]
    for block in blocks:
        if isinstance(block, str):
            yield block
        elif isinstance(block, dict) and block.get("type") == "text" and isinstance(block.get("text"), str):
            yield str(block["text"])


def value_of(row: EventRow) -> tuple[JsonObject, str | None]:
    """What a row holds, and why it is not whole.

    Raises:
        BadLineError: it cannot be read at all.
        ConfigurationError: this Python cannot unpack it.
    """
    if row.json is not None and row.packed_size is not None:
        raise BadLineError("its row contains it twice, as text and packed")
    if row.json is not None:
        if len(row.json) > ENTRY_LIMIT:
            return peek_object(row.json), _too_long(None)
        return decode_object(row.json), None
    if row.packed_size is None:
        raise BadLineError("its row is empty")
    if row.packed is None:
        raise BadLineError(_too_long(row.packed_size))
    return decode_object(unpacked_entry(row.packed, row.size, ENTRY_LIMIT)), None


def navigation_of(row: EventRow) -> JsonObject:
    """What the host noted beside a packed entry: its type, ids, time and role; empty when it did not."""
    try:
        noted = decode_object(row.navigation or "").get("navigation")
    except BadLineError:
        return {}
    return noted if isinstance(noted, dict) else {}


def _too_long(size: int | None) -> str:
    said = f"{size:,} bytes" if size is not None else f"more than {ENTRY_LIMIT:,} characters"
    return f"too long ({said}) to be read with the others"
