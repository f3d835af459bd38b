"""The session files of a host on disk, found without reading more than the first line of each.

Layout: docs/host.md, "Session files" and "Several files of one session". Nothing is opened that leaves the
folder through a symbolic link, nothing is opened twice while its size and time stay the same, and what cannot
be read is reported beside the rest.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from lcm_core.ingest.jsonl import (
    EPOCH,
    HEAD_BYTES,
    BadLineError,
    Cancelled,
    RawLine,
    TranscriptHeader,
    check_cancelled,
    decode_object,
    never_cancelled,
    open_regular,
    read_header,
    spliced,
    string,
)
from lcm_core.javascript import JsonObject
from lcm_core.paths import host_databases, is_host_store

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


class SessionState(StrEnum):
    """What the host did with the file, as its name says."""

    LIVE = "live"
    RESET = "reset"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True)
class DiskSession:
    """A transcript on disk. Source: its name, its first line and ``sessions.json``."""

    agent: str | None  #: from the folder's place, else from the session key
    session_id: str  #: the header's id, else the stem of the file name
    session_key: str | None  #: from ``sessions.json``; only the current file of a session has one
    topic: str | None  #: the thread of ``<sessionId>-topic-<threadId>.jsonl``
    path: Path
    size: int  #: bytes
    modified: datetime  #: UTC
    state: SessionState
    packed: bool  #: compressed: listed, but its first line was not read
    header: TranscriptHeader | None  #: None when the first line is none

    @property
    def stem(self) -> str:
        """The file name without its endings."""
        return _stem(self.path.name)

    @property
    def names(self) -> frozenset[str]:
        """What a database may call it: its id, its file's stem, and either without the topic."""
        names = {self.session_id, self.stem}
        if self.topic is not None:
            names |= {name.removesuffix(f"-topic-{self.topic}") for name in names}
        return frozenset(names)


@dataclass(frozen=True, slots=True)
class SessionProblem:
    """A file or folder that was passed over, or of which something is to be said."""

    path: Path
    reason: str  #: one sentence, for a person
    is_remark: bool = False  #: it was read nevertheless

    @property
    def sentence(self) -> str:
        """The reason with the path, which it may name itself."""
        return self.reason if str(self.path) in self.reason else f"{self.path}: {self.reason}"


class _Stamp(NamedTuple):
    """What shows that a file is still the same."""

    size: int
    modified_ns: int


@dataclass(frozen=True, slots=True)
class _Registry:
    """``sessions.json``: the key of a file name, and the key of a session id."""

    by_file: Mapping[str, str] = field(default_factory=dict)
    by_id: Mapping[str, tuple[str, str | None]] = field(default_factory=dict)  #: id: (key, file name)


@dataclass(frozen=True, slots=True)
class SessionIndex:
    """What an earlier listing read; give it to the next one and only changed files are opened."""

    headers: Mapping[str, tuple[_Stamp, TranscriptHeader | None]] = field(default_factory=dict)
    registries: Mapping[str, tuple[_Stamp, _Registry]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SessionListing:
    """What was found: sessions newest first (then by path), what was passed over, and the cache."""

    sessions: tuple[DiskSession, ...]
    problems: tuple[SessionProblem, ...]
    index: SessionIndex
    opened: int  #: files whose content was read for this listing
    databases: tuple[Path, ...] = ()  #: OpenClaw's own, whose sessions are not listed
    checkpoints: int = 0  #: copies of sessions as they were, which are left out


def find_sessions(
    folder: Path, index: SessionIndex | None = None, *, cancelled: Cancelled = never_cancelled
) -> SessionListing:
    """The transcripts in a sessions folder, in an agent's folder or in a folder of agents.

    Unreadable files and folders are reported in the result.

    Raises:
        CancelledError: the caller stopped it.
    """
    return _Finder(folder, index or SessionIndex(), cancelled).find()


def _stem(name: str) -> str:
    found = _FILE_NAME.fullmatch(name)
    return found["stem"] if found else name


def _topic(stem: str, header_id: str | None) -> str | None:
    """The thread in a file name; without a header that confirms it only digits count."""
    if header_id is not None and stem.startswith(f"{header_id}-topic-"):
        return stem.removeprefix(f"{header_id}-topic-") or None
    found = _TOPIC.fullmatch(stem)
    return found["topic"] if found else None


class _Finder:
    """One listing: walks at most two levels and collects sessions, problems and the next cache."""

    def __init__(self, folder: Path, index: SessionIndex, cancelled: Cancelled) -> None:
        self.folder = folder
        self.root = Path(os.path.realpath(folder))
        self.index = index
        self.cancelled = cancelled
        self.sessions: list[tuple[int, DiskSession]] = []
        self.problems: list[SessionProblem] = []
        self.headers: dict[str, tuple[_Stamp, TranscriptHeader | None]] = {}
        self.registries: dict[str, tuple[_Stamp, _Registry]] = {}
        self.opened = 0
        self.checkpoints = 0

    def find(self) -> SessionListing:
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
        self.sessions.sort(key=lambda each: (-each[0], os.fspath(each[1].path)))
        self.problems.sort(key=lambda each: (os.fspath(each.path), each.reason))
        return SessionListing(
            sessions=tuple(session for _, session in self.sessions),
            problems=tuple(self.problems),
            index=SessionIndex(self.headers, self.registries),
            opened=self.opened,
            databases=host_databases(self.folder),
            checkpoints=self.checkpoints,
        )

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
                    check_cancelled(self.cancelled)
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
        registry = self._registry(folder, entries)
        live: dict[str, list[tuple[int, DiskSession]]] = {}
        for name, status in entries.items():
            check_cancelled(self.cancelled)
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
            header = None if packed else self._header(path, status)
            session_id = header.session_id if header and header.session_id else None
            session_id, stem = session_id or matched["stem"], matched["stem"]
            key = registry.by_file.get(name)
            session = DiskSession(
                agent=agent or _agent_in(key),
                session_id=session_id,
                session_key=key,
                topic=_topic(stem, header.session_id if header else None),
                path=path,
                size=status.st_size,
                modified=_moment(status.st_mtime_ns),
                state=SessionState(matched["state"] or "live"),
                packed=packed,
                header=header,
            )
            if session.state is SessionState.LIVE:
                live.setdefault(session_id, []).append((status.st_mtime_ns, session))
            else:
                self._add(session, status.st_mtime_ns, _key_of_id(registry, session, entries))
        for several in live.values():
            self._add_one_of(several, registry, entries)

    def _add(self, session: DiskSession, modified_ns: int, key: str | None) -> None:
        key = session.session_key or key
        agent = session.agent or _agent_in(key)
        self.sessions.append((modified_ns, replace(session, session_key=key, agent=agent)))

    def _add_one_of(
        self,
        several: Sequence[tuple[int, DiskSession]],
        registry: _Registry,
        entries: Mapping[str, os.stat_result],
    ) -> None:
        """Take the files that count of the live ones with one session id, and say which do not."""
        ordered = sorted(several, key=lambda each: (_rank(each[1]), -each[0], each[1].path.name))
        named = [each for each in ordered if each[1].session_key is not None]
        kept = named or [each for each in ordered if _is_own_name(each[1])] or ordered[:1]
        kept = list({each[1].stem: each for each in reversed(kept)}.values())[::-1]
        first = kept[0][1]
        for modified_ns, session in kept:
            key = _key_of_id(registry, session, entries) if session is first else None
            self._add(session, modified_ns, key)
        why = "the index names" if named else "counts"
        for _, session in ordered:
            if all(session is not one for _, one in kept):
                self._problem(
                    session.path,
                    f"This is another file of session {session.session_id}: {why} {first.path.name}.",
                    is_remark=True,
                )

    def _header(self, path: Path, status: os.stat_result) -> TranscriptHeader | None:
        stamp, key = _Stamp(status.st_size, status.st_mtime_ns), os.fspath(path)
        cached = self.index.headers.get(key)
        if cached is None or cached[0] != stamp:
            try:
                self.opened += 1
                cached = (stamp, first_header(path))
            except OSError as error:
                self._problem(path, f"This file cannot be read ({_why(error)}).")
                return None
        self.headers[key] = cached
        return cached[1]

    def _registry(self, folder: Path, entries: Mapping[str, os.stat_result]) -> _Registry:
        status, path = entries.get(_REGISTRY_NAME), folder / _REGISTRY_NAME
        if status is None:
            return _Registry()
        stamp, key = _Stamp(status.st_size, status.st_mtime_ns), os.fspath(path)
        cached = self.index.registries.get(key)
        if cached is None or cached[0] != stamp:
            try:
                self.opened += 1
                cached = (stamp, _read_registry(path))
            except (OSError, BadLineError) as error:
                self._problem(path, f"The keys of these sessions cannot be read ({_why(error)}).")
                return _Registry()
        self.registries[key] = cached
        return cached[1]


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


def _key_of_id(
    registry: _Registry, session: DiskSession, present: Mapping[str, os.stat_result]
) -> str | None:
    """The key of a file by its session id, when the entry's own file is not there."""
    key, file_name = registry.by_id.get(session.session_id, (None, None))
    return None if file_name in present else key


def _is_own_name(session: DiskSession) -> bool:
    """Whether the host itself names files so: by the session's id, with the thread of a topic or without."""
    return session.stem == session.session_id or session.topic is not None


def _rank(session: DiskSession) -> tuple[bool, bool]:
    """Of the files of one session: the one with the id's name before topics, plain before packed ones."""
    return session.stem != session.session_id, session.packed


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
