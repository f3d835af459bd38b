"""Which sessions a host has, in its databases and in files, each once (docs/host.md, "Each session once").

A session is known by its agent and id. It may lie in the agent's database, in an archive and in a file at the
same time: the database goes before a live file, that before what was deleted or put away.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Final

from lcm_core.errors import LcmError, NotFoundError
from lcm_core.ingest.jsonl import (
    BadLineError,
    Cancelled,
    check_cancelled,
    decode_object,
    never_cancelled,
    read_moment,
    string,
)
from lcm_core.ingest.sessions import DiskSession, SessionIndex, SessionProblem, SessionState, find_sessions
from lcm_core.paths import HOST_DATABASE, SESSIONS_FOLDER, host_databases, is_host_store
from lcm_core.store.host_database import read_host
from lcm_core.store.host_sessions import (
    TRIED_SCHEMA,
    AgentSessions,
    ArchiveRow,
    ColdRow,
    WindowRow,
    agent_sessions,
)
from lcm_core.store.opening import FileState, file_state

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


@dataclass(frozen=True, slots=True)
class HotPlace:
    """The rows of an agent's database."""

    database: Path


@dataclass(frozen=True, slots=True)
class ColdPlace:
    """A cold archive, in a file of *folder* or in the row itself."""

    database: Path
    folder: Path
    row: ColdRow


@dataclass(frozen=True, slots=True)
class ArchivePlace:
    """The transcript of a session that was deleted or reset, in its row."""

    database: Path
    row: ArchiveRow


@dataclass(frozen=True, slots=True)
class FilePlace:
    """A transcript in a file of its own."""

    path: Path
    disk: DiskSession | None = None  #: what a listing of files says of it; None: a copy that an import left


Place = HotPlace | ColdPlace | ArchivePlace | FilePlace


@dataclass(frozen=True, slots=True)
class HostSession:
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


@dataclass(frozen=True, slots=True)
class _ReadDatabase:
    """What an agent's database listed, and the state of the file that it was read from."""

    state: FileState | None
    sessions: tuple[HostSession, ...]
    problems: tuple[SessionProblem, ...]

    def holds_for(self, now: FileState | None) -> bool:
        """Whether nothing was written since."""
        return self.state is not None and self.state == now and not self.state.may_hide_a_write


@dataclass(frozen=True, slots=True)
class HostListing:
    """What was found, the newest first (then by agent and id), and what was skipped."""

    sessions: tuple[HostSession, ...]
    problems: tuple[SessionProblem, ...]
    read: Mapping[Path, _ReadDatabase] = field(default_factory=dict, compare=False)  #: by database
    files: SessionIndex = field(default_factory=SessionIndex, compare=False)
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


# -- databases -------------------------------------------------------------------------------------------


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


# -- files -----------------------------------------------------------------------------------------------


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
