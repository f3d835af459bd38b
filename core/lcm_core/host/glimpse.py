"""The newest entries of a large session before all of it is read.

Rules: docs/host.md, "Looking through a session".

A path is walked back from its last entry, so its end can be read from the end of a file. What is packed is
unpacked for it, but only its last lines are parsed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from lcm_core.host.archives import Source, from_stream
from lcm_core.host.listing import ColdPlace, FilePlace, HostSession, HotPlace
from lcm_core.ingest.jsonl import (
    Cancelled,
    RawLine,
    decode_object,
    never_cancelled,
    open_transcript,
)
from lcm_core.ingest.transcript import MISSING, TranscriptEntry, TranscriptScan, read_entry

#: Smaller files are read whole at once. Bytes
_LARGE: Final = 4 * 1024 * 1024
#: What is read of the end of a file, and how many lines and bytes of what is packed are kept.
_END: Final = 1024 * 1024
_LINES: Final = 400
_KEPT: Final = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True, eq=False)
class Glimpse:
    """The end of a session as one that is open; a position counts from its first entry."""

    held: tuple[TranscriptEntry, ...]
    place_word: str = ""
    size: int | None = None
    abandoned: int = 0
    bad: int = 0
    remarks: tuple[str, ...] = ()

    def __len__(self) -> int:
        """Entries that were read."""
        return len(self.held)

    def entries(
        self,
        start: int,
        stop: int,
        *,
        text_limit: int | None = None,
        cancelled: Cancelled = never_cancelled,
    ) -> list[TranscriptEntry]:
        """Some of them, as they were read."""
        del text_limit, cancelled
        return list(self.held[max(0, start) : max(0, stop)])

    def refreshed(self, *, cancelled: Cancelled = never_cancelled) -> Glimpse:
        """It stays as it is: open the session instead."""
        del cancelled
        return self

    def close(self) -> None:
        """Nothing of it is kept open."""


def glimpse(
    session: HostSession, count: int, text_limit: int, *, cancelled: Cancelled = never_cancelled
) -> Glimpse | None:
    """The last *count* entries of a session that takes its time to be opened; None: it takes none, or they
    cannot be told without the others. Blocks.

    Raises:
        TranscriptError: it cannot be read.
        DatabaseError: the same of the host's database.
        CancelledError: the caller stopped it.
    """
    place = session.place
    if isinstance(place, HotPlace):
        return None
    if isinstance(place, FilePlace) and place.path.suffix != ".zst":
        lines = _end_of_file(place)
    elif isinstance(place, ColdPlace) and (place.row.raw_bytes or 0) < _LARGE:
        return None
    else:
        lines = from_stream(session, _last_lines, cancelled)
    entries = list(_path_of(lines, text_limit))[-count:] if lines else []
    return Glimpse(tuple(entries)) if entries else None


def _end_of_file(place: FilePlace) -> list[bytes]:
    """The whole lines at the end of a large file; none of a small one."""
    with open_transcript(place.path) as file:
        size = file.seek(0, 2)
        if size < _LARGE:
            return []
        begin = max(0, size - _END)
        file.seek(begin)
        lines = file.read(_END).split(b"\n")
        return lines[1:] if begin else lines


def _last_lines(source: Source, cancelled: Cancelled) -> list[bytes]:
    kept: deque[bytes] = deque()
    size = held = 0
    for line in source.raw(cancelled):
        size += len(line)
        held += len(line)
        kept.append(line)
        while len(kept) > _LINES or (held > _KEPT and len(kept) > 1):
            held -= len(kept.popleft())
    return [source.entry_of(line) for line in kept] if size >= _LARGE else []


def _path_of(lines: Sequence[bytes], text_limit: int) -> Iterator[TranscriptEntry]:
    """The entries of some last lines that are on the path; none where a marker leads out of them."""
    scan = TranscriptScan()
    for number, data in enumerate(lines, 1):
        if data.strip():
            scan.take(RawLine(number, 0, len(data), data, False, ended=True))
    origins = scan.columns.origin
    if any(origins[at] == MISSING for at in scan.markers):
        return
    shown, _ = scan.path()
    for at in shown:
        line_number, offset = scan.place_of(at)
        data = lines[line_number - 1][offset : offset + scan.columns.size[at]]
        line = RawLine(0, 0, len(data), b"", False, ended=True)
        yield read_entry(line, decode_object(data), on_path=True, text_limit=text_limit)
