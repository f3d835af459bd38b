"""A session of the host written out as a transcript, a few entries at a time (docs/host.md, "What an import
takes").

At most `_BYTES` of entries are held, or one entry where that is larger, whatever the session holds.
"""

from __future__ import annotations

import json
from typing import BinaryIO, Final

from lcm_core.host.active import ActivePath, active_path, path_events
from lcm_core.host.archives import Source, from_stream
from lcm_core.host.entries import value_of
from lcm_core.host.listing import HostSession, HotPlace
from lcm_core.host.transcripts import path_of
from lcm_core.ingest.jsonl import (
    BadLineError,
    Cancelled,
    LineProblem,
    TranscriptChangedError,
    check_cancelled,
    decode_object,
    never_cancelled,
    string,
)
from lcm_core.ingest.transcript import TranscriptScan
from lcm_core.javascript import JsonObject
from lcm_core.store.host_database import HostRows, read_host
from lcm_core.store.host_sessions import EventRow, hot_state

#: What ends a line for a reader of the whole file, and stands in JSON only where an escape may.
_LINE_ENDS: Final = (
    (b"\n", b" "),
    (b"\r", b" "),
    ("\u2028".encode(), b"\\u2028"),
    ("\u2029".encode(), b"\\u2029"),
)
#: Entries, and bytes of them, that are read in one transaction.
_STEP: Final = 500
_BYTES: Final = 8 * 1024 * 1024
#: How often a session is begun anew whose history its host rewrites meanwhile.
_ATTEMPTS: Final = 3


def write_transcript(
    session: HostSession, target: BinaryIO, *, cancelled: Cancelled = never_cancelled
) -> int:
    """Write what the host sees of a session as a transcript, a header first; how many entries were bad.

    It is read in pieces, whatever it holds. Bad entries are left out. *target* may be written more than
    once, from where it stands. Raises as `lcm_core.host.transcripts.read_page`.
    """
    begin = target.tell()
    place = session.place
    if not isinstance(place, HotPlace):
        return from_stream(session, _write_lines, session.session_id, target, begin, cancelled)
    for _ in range(_ATTEMPTS):
        _begin(target, begin, session.session_id)
        try:
            return _write_rows(session.session_id, place, target, cancelled)
        except TranscriptChangedError:
            continue
    raise _rewritten(session.session_id)


def write_lines(
    session: HostSession, target: BinaryIO, *, cancelled: Cancelled = never_cancelled
) -> tuple[LineProblem, ...]:
    """Write every entry of a session that lies in an archive or a file, on its path or not, as it is.

    Returns what is wrong with the archive besides. Raises as `write_transcript`.
    """
    return from_stream(session, _copy_lines, target, target.tell(), cancelled)


def _begin(target: BinaryIO, begin: int, session_id: str) -> None:
    target.seek(begin)
    target.truncate()
    header = {"type": "session", "version": 3, "id": session_id}
    target.write(json.dumps(header).encode() + b"\n")


def _write_rows(session_id: str, place: HotPlace, target: BinaryIO, cancelled: Cancelled) -> int:
    path = read_host(place.database, active_path, session_id)
    at, bad = 0, 0
    previous: str | None = None
    while at < len(path):
        found = read_host(place.database, _some_rows, path, at)
        if not found:
            raise _rewritten(session_id)
        for row in found:
            check_cancelled(cancelled)
            try:
                value = value_of(row)[0]
            except BadLineError:
                bad += 1
                continue
            previous = _write_entry(target, value, previous)
        at += len(found)
    return bad


def _some_rows(rows: HostRows, path: ActivePath, at: int) -> list[EventRow]:
    """The next entries of a path, as many as may be held."""
    if not path.is_still(hot_state(rows, path.session_id)):
        raise _rewritten(path.session_id)
    found: list[EventRow] = []
    held = 0
    for row in path_events(rows, path, at, min(at + _STEP, len(path))):
        found.append(row)
        held += len(row.json or b"") + (row.size or 0)
        if held >= _BYTES:
            break
    return found


def _rewritten(session_id: str) -> TranscriptChangedError:
    return TranscriptChangedError(
        f"Session {session_id} was rewritten by its host while it was read: try again."
    )


def _write_lines(source: Source, session_id: str, target: BinaryIO, begin: int, cancelled: Cancelled) -> int:
    """Entries come in the order of the path, which is that of the file unless somebody made it up."""
    _begin(target, begin, session_id)
    scan = TranscriptScan()
    for line in source.lines(cancelled):
        scan.take(line)
    wanted = {scan.place_of(number) for number in path_of(source, scan)[0]}
    lines = {line for line, _ in wanted}
    previous: str | None = None
    bad = 0
    for line in source.lines(cancelled):
        for part in scan.parts(line) if line.number in lines else ():
            if (part.number, part.offset) not in wanted:
                continue
            try:
                value = decode_object(part.data)
            except BadLineError:
                bad += 1
                continue
            previous = _write_entry(target, value, previous)
    return bad


def _write_entry(target: BinaryIO, value: JsonObject, previous: str | None) -> str | None:
    """Write an entry behind the one before it on the path; its id."""
    entry = {**value, "parentId": previous}
    try:
        data = json.dumps(entry, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:  # half a pair, or bytes that are no text
        data = json.dumps(entry, separators=(",", ":")).encode()
    for end, instead in _LINE_ENDS:
        data = data.replace(end, instead)
    target.write(data + b"\n")
    return string(value.get("id")) or previous


def _copy_lines(
    source: Source, target: BinaryIO, begin: int, cancelled: Cancelled
) -> tuple[LineProblem, ...]:
    target.seek(begin)
    target.truncate()
    for line in source.lines(cancelled):
        target.write(line.data.replace(b"\n", b" ") + b"\n")
    return tuple(source.problems)
