"""Which sessions a host has, in databases, archives and files (docs/spec/host.md, "Each session once")."""

from __future__ import annotations

import dataclasses
import os
import re
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, TypeAlias

from lcm_core.base.errors import LcmError, NotFoundError
from lcm_core.base.javascript import JsonObject
from lcm_core.base.jsonl import (
    EPOCH,
    HEAD_BYTES,
    BadLineError,
    RawLine,
    TranscriptHeader,
    decode_object,
    open_regular,
    read_header,
    read_moment,
    spliced,
    string,
)
from lcm_core.base.paths import HOST_DATABASE, SESSIONS_FOLDER, host_databases, is_host_store
from lcm_core.base.text import agree, counted
from lcm_core.base.values import Record, T, field, replace
from lcm_core.store.host_database import read_host
from lcm_core.store.opening import FileState, file_state

from lcm_host.rows import TRIED_SCHEMA, AgentSessions, ArchiveRow, ColdRow, WindowRow, agent_sessions

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
    """A transcript in a file of its own. Source: its name and its first line."""

    path: Path
    size: int = 0  #: bytes, when it was listed
    file_id: str = ""  #: the header's id, else the stem of the file name; empty: a copy that an import left
    topic: str | None = None  #: the thread of ``<sessionId>-topic-<threadId>.jsonl``
    packed: bool = False  #: compressed: listed, but its first line was not read
    header: TranscriptHeader | None = None  #: None when the first line is none

    @property
    def stem(self) -> str:
        """The file name without its endings."""
        found = _FILE_NAME.fullmatch(self.path.name)
        return found["stem"] if found else self.path.name

    @property
    def names(self) -> frozenset[str]:
        """What a database may call it: its id, its file's stem, and either without the topic."""
        names = {self.file_id, self.stem}
        if self.topic is not None:
            names |= {name.removesuffix(f"-topic-{self.topic}") for name in names}
        return frozenset(names)


Place = HotPlace | ColdPlace | ArchivePlace | FilePlace


class HostSession(Record, frozen=True):
    """One session of the host."""

    agent: str | None
    session_id: str  #: of a topic, which shares the id of its session, the name of its file
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
    def plain_file(self) -> FilePlace | None:
        """The plain file that it lies in; None: it is elsewhere, packed, or a copy that an import left."""
        place = self.place
        return place if isinstance(place, FilePlace) and place.file_id and not place.packed else None

    @property
    def live_file(self) -> Path | None:
        """The plain file in which the host goes on with it; None: it is elsewhere, packed, or at its end."""
        place = self.plain_file
        return None if place is None or self.storage is not Storage.JSONL else place.path

    @property
    def names(self) -> frozenset[str]:
        """What a database may call it."""
        place = self.place
        if isinstance(place, FilePlace) and place.file_id:
            return place.names
        return frozenset({self.session_id})


# -- session files ---------------------------------------------------------------------------------------
# Layout: docs/spec/host.md, "Session files" and "Several files of one session". Nothing is opened that leaves
# the folder through a symbolic link, nothing is opened twice while its size and time stay the same, and
# what cannot be read is reported beside the rest.

#: A registry that is larger than this (bytes) is reported instead of read.
_REGISTRY_LIMIT = 64 * 1024 * 1024
_REGISTRY_NAME = "sessions.json"
#: What is said of a folder that is not there: on many machines that is no fault.
NO_FOLDER = "There is no such folder."
_FILE_NAME = re.compile(
    r"(?P<stem>.+?)\.jsonl(?:\.(?P<state>reset|deleted)\.(?P<stamp>.+?))?(?P<packed>\.zst|\.gz)?", re.DOTALL
)
_TOPIC = re.compile(r"(?P<id>.+)-topic-(?P<topic>\d+)", re.DOTALL)
#: The stem of a copy that the host keeps of a session as it was.
_CHECKPOINT = re.compile(r".+\.checkpoint\.[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}", re.DOTALL)


class SessionProblem(Record, frozen=True):
    """A file or folder that was passed over, or of which something is to be said."""

    path: Path
    reason: str  #: one sentence, for a person
    is_remark: bool = False  #: it was read nevertheless

    @property
    def sentence(self) -> str:
        """The reason with the path, which it may name itself."""
        return self.reason if str(self.path) in self.reason else f"{self.path}: {self.reason}"


class _Registry(Record, frozen=True):
    """``sessions.json``: the key of a file name, and the key of a session id."""

    by_file: Mapping[str, str] = field(default_factory=dict)
    by_id: Mapping[str, tuple[str, str | None]] = field(default_factory=dict)  #: id: (key, file name)


#: What an earlier listing read of each file, with its size and time: the next one opens only changed files.
SessionIndex: TypeAlias = "Mapping[str, tuple[tuple[int, int], Any]]"


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
    """What was found, the newest first, and what was skipped."""

    sessions: tuple[HostSession, ...]
    problems: tuple[SessionProblem, ...]
    files: SessionIndex = dataclasses.field(default_factory=dict, compare=False)
    checkpoints: int = 0  #: files with copies of sessions as they were, which are left out
    read: Mapping[Path, _ReadDatabase] = dataclasses.field(
        default_factory=dict, compare=False
    )  #: by database


def find_sessions(folder: Path, before: HostListing | None = None) -> HostListing:
    """The transcripts in a sessions folder, in an agent's folder or in a folder of agents.

    Unreadable files and folders are reported in the result. Given the listing *before*, only what was
    written since is opened.
    """
    return _Finder(folder, {} if before is None else before.files).find()


def _topic(stem: str, header_id: str | None) -> str | None:
    """The thread in a file name; without a header that confirms it only digits count."""
    if header_id is not None and stem.startswith(f"{header_id}-topic-"):
        return stem.removeprefix(f"{header_id}-topic-") or None
    found = _TOPIC.fullmatch(stem)
    return found["topic"] if found else None


#: What became of a session, by what its file is called.
_STORAGE: Final = {None: Storage.JSONL, "reset": Storage.ARCHIVED, "deleted": Storage.DELETED}


class _Listed(Record, frozen=True):
    """A file of a folder, and what says how new it is and whose."""

    modified_ns: int
    file: FilePlace
    storage: Storage
    key: str | None  #: from ``sessions.json``; only the current file of a session has one


class _Finder:
    """One listing: walks at most two levels and collects sessions, problems and the next cache."""

    def __init__(self, folder: Path, index: SessionIndex) -> None:
        self.folder = folder
        self.root = Path(os.path.realpath(folder))
        self.index = index
        self.sessions: list[tuple[int, HostSession]] = []  #: with what each is ordered by
        self.problems: list[SessionProblem] = []
        self.read: dict[str, tuple[tuple[int, int], Any]] = {}  #: the next index
        self.checkpoints = 0

    def find(self) -> HostListing:
        entries = {} if is_host_store(self.folder) else self._entries(self.folder)
        self._list(self.folder, entries, _agent_of(self.root))
        for name, status in sorted(entries.items()):
            if not stat.S_ISDIR(status.st_mode):
                continue
            inner = self.folder / name
            nested = inner / "sessions"
            if os.path.lexists(nested):
                if self._inside(nested):
                    self._list(nested, self._entries(nested), name)
            elif name == "sessions":  # the folder given is one agent's
                self._list(inner, self._entries(inner), _agent_of(self.root / name))
        self.sessions.sort(key=lambda each: (each[0], os.fspath(path_of(each[1]))))
        self.problems.sort(key=lambda each: (os.fspath(each.path), each.reason))
        sessions = tuple(session for _, session in self.sessions)
        return HostListing(sessions, tuple(self.problems), self.read, self.checkpoints)

    def _problem(self, path: Path, reason: str, *, is_remark: bool = False) -> None:
        self.problems.append(SessionProblem(path, reason, is_remark))

    def _inside(self, path: Path) -> bool:
        """Whether the path stays in the folder when its links are followed; reported when it does not."""
        try:
            inside = Path(os.path.realpath(path, strict=True)).is_relative_to(self.root)
        except OSError as error:
            self._problem(path, f"This link leads nowhere ({_why(error)}).")
            return False
        if not inside:
            self._problem(path, "This link leads out of the folder and was not followed.")
        return inside

    def _entries(self, folder: Path) -> dict[str, os.stat_result]:
        """What a folder contains, by name; links resolved, and only where they stay inside."""
        found: dict[str, os.stat_result] = {}
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    relevant = entry.name == _REGISTRY_NAME or _FILE_NAME.fullmatch(entry.name)
                    if not (relevant or entry.is_dir()):
                        continue
                    if entry.is_symlink() and not self._inside(folder / entry.name):
                        continue
                    with suppress(FileNotFoundError):  # removed since the folder was read
                        found[entry.name] = entry.stat()
        except FileNotFoundError:
            self._problem(folder, NO_FOLDER)
        except OSError as error:
            self._problem(folder, f"This folder cannot be read ({_why(error)}).")
        return found

    def _list(self, folder: Path, entries: Mapping[str, os.stat_result], agent: str | None) -> None:
        registry = _Registry()
        if (status := entries.get(_REGISTRY_NAME)) is not None:
            unread = "The keys of these sessions cannot be read"
            registry = self._cached(folder / _REGISTRY_NAME, status, _read_registry, unread) or registry
        live: dict[str, list[_Listed]] = {}
        for name, status in entries.items():
            matched = _FILE_NAME.fullmatch(name)
            if matched is None or stat.S_ISDIR(status.st_mode):
                continue
            path = folder / name
            if _CHECKPOINT.fullmatch(matched["stem"]) and name not in registry.by_file:
                self.checkpoints += 1
                continue
            if not stat.S_ISREG(status.st_mode):
                self._problem(path, "This is not a regular file and was not opened.")
                continue
            packed = matched["packed"] is not None
            unread = "This file cannot be read"
            header = None if packed else self._cached(path, status, first_header, unread)
            own_id = header.session_id if header else None
            topic = _topic(matched["stem"], own_id)
            file = FilePlace(path, status.st_size, own_id or matched["stem"], topic, packed, header)
            listed = _Listed(status.st_mtime_ns, file, _STORAGE[matched["state"]], registry.by_file.get(name))
            if listed.storage is Storage.JSONL:
                live.setdefault(file.file_id, []).append(listed)
            else:
                self._add(listed, agent, _key_of_id(registry, file, entries))
        for several in live.values():
            self._add_one_of(several, agent, registry, entries)

    def _add(self, listed: _Listed, agent: str | None, key: str | None) -> None:
        """Take its session; whether its key goes on with another one is not looked up."""
        key, file, header = listed.key or key, listed.file, listed.file.header
        session = HostSession(
            agent or _agent_in(key),
            file.stem if file.topic is not None else file.file_id,
            key,
            listed.storage,
            listed.storage is Storage.JSONL and key is not None,
            None,
            _moment(listed.modified_ns),
            file,
            header.started_at if header is not None and header.parent_session else None,
        )
        self.sessions.append((-listed.modified_ns, session))

    def _add_one_of(
        self,
        several: Sequence[_Listed],
        agent: str | None,
        registry: _Registry,
        entries: Mapping[str, os.stat_result],
    ) -> None:
        """Take the files that count of the live ones with one session id, and say which do not."""
        ordered = sorted(several, key=lambda each: (_rank(each.file), -each.modified_ns, each.file.path.name))
        named = [each for each in ordered if each.key is not None]
        kept = named or [each for each in ordered if _is_own_name(each.file)] or ordered[:1]
        kept = list({each.file.stem: each for each in reversed(kept)}.values())[::-1]
        first = kept[0]
        for each in kept:
            self._add(each, agent, _key_of_id(registry, each.file, entries) if each is first else None)
        name = first.file.path.name
        counts = f"the index names {name}" if named else f"{name} is the one that counts"
        for each in ordered:
            if all(each is not one for one in kept):
                reason = f"This is another file of session {each.file.file_id}: {counts}."
                self._problem(each.file.path, reason, is_remark=True)

    def _cached(self, path: Path, status: os.stat_result, read: Callable[[Path], T], unread: str) -> T | None:
        """What is read of a file, as before where it did not change; None where it cannot be."""
        stamp, name = (status.st_size, status.st_mtime_ns), os.fspath(path)
        cached = self.index.get(name)
        if cached is None or cached[0] != stamp:
            try:
                cached = (stamp, read(path))
            except (OSError, BadLineError) as error:
                self._problem(path, f"{unread} ({_why(error)}).")
                return None
        self.read[name] = cached
        found: T = cached[1]
        return found


def first_header(path: Path) -> TranscriptHeader | None:
    """The header, when the first line with something in it is one; reads `HEAD_BYTES` at most.

    Raises:
        OSError: the file cannot be read.
    """
    with open_regular(path) as file:
        read = 0
        while read < HEAD_BYTES and (line := file.readline(HEAD_BYTES - read)):
            read += len(line)
            if line.strip():
                found = spliced(RawLine(1, 0, len(line), line, False, ended=True))
                try:
                    return read_header(decode_object(line if found is None else found.records[0].data))
                except BadLineError:
                    return None
    return None


def _read_registry(path: Path) -> _Registry:
    with open_regular(path) as file:
        data = file.read(_REGISTRY_LIMIT + 1)
    if len(data) > _REGISTRY_LIMIT:
        raise BadLineError(f"more than {_REGISTRY_LIMIT:,} bytes")
    by_file: dict[str, str] = {}
    by_id: dict[str, tuple[str, str | None]] = {}
    for key, entry in decode_object(data).items():
        if not isinstance(entry, dict) or not key.strip():
            continue
        name = _base_name(entry)
        if name is not None:
            by_file.setdefault(name, key)
        session_id = string(entry.get("sessionId"))
        if session_id is not None:
            by_id.setdefault(session_id, (key, name))
    return _Registry(by_file, by_id)


def _base_name(entry: JsonObject) -> str | None:
    """The file's name; its folder is that of the machine that wrote it."""
    stored = string(entry.get("sessionFile"))
    return re.split(r"[/\\]", stored)[-1] or None if stored else None


def _key_of_id(registry: _Registry, file: FilePlace, present: Mapping[str, os.stat_result]) -> str | None:
    """The key of a file by its session id, when the entry's own file is not there."""
    key, file_name = registry.by_id.get(file.file_id, (None, None))
    return None if file_name in present else key


def _is_own_name(file: FilePlace) -> bool:
    """Whether the host itself names files so: by the session's id, with the thread of a topic or without."""
    return file.stem == file.file_id or file.topic is not None


def _rank(file: FilePlace) -> tuple[bool, bool]:
    """Of the files of one session: the one with the id's name before topics, plain before packed ones."""
    return file.stem != file.file_id, file.packed


def _agent_of(folder: Path) -> str | None:
    """The agent's id when the folder is ``agents/<agent>/sessions``."""
    return folder.parent.name if folder.name == "sessions" and folder.parent.parent.name == "agents" else None


def _agent_in(key: str | None) -> str | None:
    parts = (key or "").split(":")
    return parts[1] if len(parts) > 2 and parts[0] == "agent" and parts[1] else None


def _moment(nanoseconds: int) -> datetime:
    try:
        return EPOCH + timedelta(microseconds=nanoseconds // 1000)
    except OverflowError:  # a clock that was wrong: keep the order's direction
        return datetime.max.replace(tzinfo=UTC) if nanoseconds > 0 else datetime.min.replace(tzinfo=UTC)


def _why(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__


# -- each session once -----------------------------------------------------------------------------------


def list_sessions(folder: Path, before: HostListing | None = None) -> HostListing:
    """The sessions of a folder of agents, of an agent's folder or of a sessions folder.

    What cannot be read is reported in the result. Given the listing *before*, only what was written since
    is opened.
    """
    problems: list[SessionProblem] = []
    found: dict[tuple[str | None, str], HostSession] = {}
    keys: set[str] = set()
    read: dict[Path, _ReadDatabase] = {}
    root = _root(folder)
    for database in host_databases(folder):
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
    listed = find_sessions(folder, before)
    problems += listed.problems
    for session in (*_of_files(listed.sessions, found, keys), *_imported(folder, found)):
        _take(found, session)
    in_order = tuple(sorted(found.values(), key=_newest_first))
    return HostListing(in_order, tuple(problems), listed.files, listed.checkpoints, read)


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
        one for one in sessions if not (one.current and one.session_key in keys) and ids.isdisjoint(one.names)
    ]


def find_session(listing: HostListing, session_id: str, agent: str | None = None) -> HostSession:
    """The session of an id, or of the beginning of one.

    Raises:
        NotFoundError: there is none, or several agents have one.
    """
    of_agent = [one for one in listing.sessions if agent in (None, one.agent)]
    found = [one for one in of_agent if session_id == one.session_id or session_id in one.names]
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
        f"No session matched {session_id}.{passed_over} `lcm-tui sessions` shows them.",
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
        rows, were = counted(sessions.left_out, "row"), agree(sessions.left_out, "were")
        what = f"{rows} without a usable session id {were} skipped."
        yield SessionProblem(database, what, is_remark=True)
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
    sessions: Iterable[HostSession], found: dict[tuple[str | None, str], HostSession], keys: set[str]
) -> Iterator[HostSession]:
    """The sessions in files that are in no database; *keys* go on with sessions there."""
    for session in sessions:
        assert isinstance(session.place, FilePlace)
        known = found.get((session.agent, session.place.file_id))
        if known is None or known.storage not in (Storage.HOT, Storage.COLD):
            yield replace(session, current=session.current and session.session_key not in keys)


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
