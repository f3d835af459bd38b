"""A write-ahead log that SQLite ignores, in whole or in part, and what else is wrong with a refused file.

SQLite reads a WAL up to the first frame whose salts or checksum do not fit, and says nothing of the rest; the
next connection that closes the file deletes it. `examine_wal` finds such a rest without writing anything
(docs/spec/decisions.md, "A WAL that SQLite ignores").
"""

from __future__ import annotations

import os
import sqlite3
import struct
import threading
import time
from array import array
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import BinaryIO, Final

from lcm_core.base.errors import DatabaseBusyError, DatabaseError, DatabaseMissingError
from lcm_core.base.values import Record
from lcm_core.store.opening import (
    MAGIC,
    TICK_NS,
    FileState,
    ReadConnection,
    connect_reading,
    error_name,
    explain,
    file_state,
    keep_open,
    lacks_locks,
    no_locks,
    not_a_database,
    real_path,
    sidecar,
)

_HEADER_BYTES: Final = 32
_FRAME_HEADER: Final = 24
_MAGIC: Final = 0x377F0682  #: the last bit: checksums over big-endian words
#: Frames that are looked at together.
_TOGETHER: Final = 256
#: Bytes of a WAL that are examined unless a caller says otherwise: some four seconds.
MOST_BYTES: Final = 1 << 30
_ATTEMPTS: Final = 4
#: Rounds back that a frame left from one may be: garbage has a salt among them once in 4,096 times.
_MOST_ROUNDS: Final = 1 << 20
#: How long a file is checked without its WAL, at most. s
_ALONE_SECONDS: Final = 3.0


class WalState(Record, frozen=True):
    """What a WAL contains; all counts are of what was examined."""

    path: Path
    size: int  #: bytes
    examined: int  #: bytes
    committed: int  #: frames that SQLite reads
    uncommitted: int = 0  #: frames of this round that no commit follows, as an interrupted writer leaves them
    lost: int = 0  #: frames, also a cut one, that SQLite ignores although no round before explains them
    lost_bytes: int = 0
    zeros: int = 0  #: frames' worth of zeros
    problem: str = ""  #: why SQLite stops reading; empty when it reads all that counts
    is_in_use: bool = False  #: it was written all the while: what looked wrong may be what was half written

    @property
    def is_sound(self) -> bool:
        """Whether SQLite reads everything that was ever committed to it, as far as it was examined."""
        return not self.problem


def examine_wal(
    path: Path, *, most: int = MOST_BYTES, stopped: Callable[[], bool] = lambda: False
) -> WalState | None:
    """What of the WAL beside database *path* SQLite ignores; None: there is no WAL, or an empty one. Blocks.

    At most *most* bytes are read of it each time, and nothing after *stopped* says so, which is called before
    each read. What looks wrong counts when two examinations in a row say it of a file that was not written
    meanwhile; one that never rests is in use, and called sound.

    Raises:
        OSError: it cannot be read.
    """
    path = real_path(path)
    wal = sidecar(path, "-wal")
    before: tuple[FileState, bytes, WalState] | None = None
    for attempt in range(_ATTEMPTS):
        if attempt:
            time.sleep(TICK_NS / 1e9)
        state = file_state(path)
        if state is None or not state.wal_size:
            return None
        try:
            with wal.open("rb") as file:
                found = _Examination(wal, file, _page_size(path), most, stopped).run()
                header = os.pread(file.fileno(), _HEADER_BYTES, 0)
        except FileNotFoundError:
            return None
        if found.is_sound:
            return found
        now = (state, header, found)
        if now == before and state == file_state(path) and not state.may_hide_a_write:
            return found
        before = now
    return WalState(wal, found.size, found.examined, found.committed, is_in_use=True)


def _page_size(path: Path) -> int:
    """As the database itself says; 4,096 when its header is gone."""
    with suppress(OSError, ValueError):
        header = os.pread(keep_open(path), 18, 0)
        size = int.from_bytes(header[16:18], "big")
        if header.startswith(MAGIC) and size:
            return 65536 if size == 1 else size
    return 4096


class _Header(Record, frozen=True):
    page_size: int  #: bytes
    swapped: bool  #: checksums are over big-endian words
    salts: bytes
    checksum: tuple[int, int]
    problem: str


class _Frame(Record, frozen=True):
    page: int
    commits: bool
    salts: bytes
    follows: bool  #: its checksum continues that of the frame before
    is_zero: bool


class _Rounds:
    """The frames with other salts than the header's: whether rounds before explain them.

    The header's own count of rounds says nothing of that: each connection counts those that it began itself
    (docs/spec/decisions.md, "A WAL that SQLite ignores").
    """

    def __init__(self, header: _Header) -> None:
        self._header = header
        self._salts = header.salts  #: of the frame before
        self._counts: dict[bytes, int] = {}
        self._proven: set[int] = set()
        self._damaged = 0
        self.has_begun = False  #: whether the header's round has a frame

    def pass_by(self, frame: _Frame) -> None:
        """Any frame, in their order."""
        is_like_before, self._salts = frame.salts == self._salts, frame.salts
        if frame.salts == self._header.salts or frame.is_zero:
            return
        if frame.follows and not is_like_before:  # a checksum covers no salts: only these were changed
            self._damaged += 1
            return
        if frame.follows:  # SQLite wrote both
            self._proven.add(_number(frame.salts) // _MOST_ROUNDS)
        self._counts[frame.salts] = self._counts.get(frame.salts, 0) + 1

    @property
    def lost(self) -> int:
        """How many frames no round before explains."""
        return self._damaged + sum(count for salts, count in self._counts.items() if not self.explain(salts))

    def explain(self, salts: bytes) -> bool:
        """Whether a frame is left from a round before, whose pages the file has."""
        if self._header.problem:
            return False
        behind = (_number(self._header.salts) - _number(salts)) % 2**32
        if 1 <= behind <= _MOST_ROUNDS and salts[4:] != self._header.salts[4:]:
            return True
        near = _number(salts) // _MOST_ROUNDS
        return self.has_begun and not self._proven.isdisjoint(range(near - 1, near + 2))


def _number(salts: bytes) -> int:
    """The first of the two, to which each round adds one; the second is another one each time."""
    return int.from_bytes(salts[:4], "big")


class _Examination:
    """One pass over a WAL."""

    def __init__(
        self, path: Path, file: BinaryIO, page_size: int, most: int, stopped: Callable[[], bool]
    ) -> None:
        self._path = path
        self._file = file
        self._most = most
        self._stopped = stopped
        self._size = os.fstat(file.fileno()).st_size
        self._header = _read_header(file.read(_HEADER_BYTES), page_size)
        self._frame_bytes = _FRAME_HEADER + self._header.page_size

    def run(self) -> WalState:
        header = self._header
        whole, rest = divmod(max(0, self._size - _HEADER_BYTES), self._frame_bytes)
        number = committed = uncommitted = lost = zeros = 0
        unbroken = this_round = not header.problem
        rounds = _Rounds(header)
        for number, frame in enumerate(self._frames(whole), 1):
            is_ours = frame.salts == header.salts and not header.problem
            unbroken = unbroken and is_ours and frame.follows and frame.page > 0
            rounds.pass_by(frame)
            if unbroken:
                uncommitted += 1
                rounds.has_begun = True
                if frame.commits:
                    committed, uncommitted = number, 0
                continue
            this_round = is_ours
            if frame.is_zero:
                zeros += 1
            elif is_ours and not frame.commits:
                uncommitted += 1
            elif frame.salts == header.salts:
                lost += 1
        lost += rounds.lost
        examined = min(self._size, _HEADER_BYTES + number * self._frame_bytes)
        cut = number == whole and rest > 0 and self._is_cut(rest, this_round, rounds)
        if cut:
            lost, examined = lost + 1, self._size
        if lost:  # frames before the lost commit are lost with it
            lost, uncommitted = lost + uncommitted, 0
        lost_bytes = min(lost * self._frame_bytes, self._size - _HEADER_BYTES)
        problem = self._problem(committed, lost, zeros, cut=cut and unbroken)
        return WalState(
            self._path, self._size, examined, committed, uncommitted, lost, lost_bytes, zeros, problem
        )

    def _problem(self, committed: int, lost: int, zeros: int, *, cut: bool) -> str:
        if not (lost or zeros):
            return ""
        if self._header.problem:
            return self._header.problem
        if not lost:
            return f"zeros follow its frame {committed:,}"
        if cut:
            return "it ends within a frame"
        return f"its checksums or salts do not continue after frame {committed:,}"

    def _is_cut(self, rest: int, after_this_round: bool, rounds: _Rounds) -> bool:
        """Whether what is left at the end is the start of a frame that belongs to this round."""
        begun = os.pread(self._file.fileno(), min(rest, _FRAME_HEADER), self._size - rest)
        if not any(begun) and not any(os.pread(self._file.fileno(), rest, self._size - rest)):
            return False
        salts = begun[8:16]
        if self._header.problem or len(salts) < 8:
            return bool(self._header.problem) or after_this_round
        return salts == self._header.salts or not rounds.explain(salts)

    def _frames(self, whole: int) -> Iterator[_Frame]:
        checksum = self._header.checksum
        for start in range(0, whole, _TOGETHER):
            if self._stopped() or start * self._frame_bytes >= self._most:
                return
            count = min(_TOGETHER, whole - start)
            content = self._file.read(count * self._frame_bytes)
            count = len(content) // self._frame_bytes
            if not count:  # it was truncated meanwhile
                return
            heads = [
                struct.unpack_from(">II8sII", content, number * self._frame_bytes) for number in range(count)
            ]
            stored = [(head[3], head[4]) for head in heads]
            sums = _checksums(content, self._frame_bytes, [checksum, *stored[:-1]], self._header.swapped)
            for number, (page, size, salts, *_) in enumerate(heads):
                begin = number * self._frame_bytes
                is_zero = not (page or size or any(salts)) and not any(
                    content[begin : begin + self._frame_bytes]
                )
                yield _Frame(page, size > 0, salts, sums[number] == stored[number], is_zero)
            checksum = stored[-1]


def _read_header(content: bytes, page_size: int) -> _Header:
    """The header of a WAL; what of it cannot be used is taken from the database."""
    if len(content) < _HEADER_BYTES:
        return _Header(page_size, False, bytes(8), (0, 0), "its header is cut off")
    magic, _, size, _, salts, *checksum = struct.unpack(">IIII8sII", content)
    swapped = bool(magic & 1)
    is_sized = 512 <= size <= 65536 and not size & (size - 1)
    [counted] = _checksums(content + bytes(0), 24, [(0, 0)], swapped, columns=range(3))
    first, second = checksum
    problem = ""
    if not any(content):
        problem = "its header holds only zeros"
    elif magic & ~1 != _MAGIC or not is_sized:
        problem = "its header is not that of a WAL"
    elif counted != (first, second):
        problem = "the checksum of its header is wrong"
    if problem:
        return _Header(size if is_sized else page_size, swapped, salts, (0, 0), problem)
    return _Header(size, swapped, salts, (first, second), "")


def _checksums(
    content: bytes,
    each: int,
    begin: list[tuple[int, int]],
    swapped: bool,
    columns: range | None = None,
) -> list[tuple[int, int]]:
    """SQLite's checksum of several pieces of *each* bytes, all at once; *begin*: what each continues.

    It adds up pairs of 32-bit words, each to the sum of the other. Whole numbers with 64 bits for each piece
    do that for all of them together, 30 times as fast as one after the other.
    """
    count = len(begin)
    if swapped:
        words = array("I", content[: count * each])
        words.byteswap()
        content = words.tobytes()
    pairs = array("Q", content[: count * each])
    low = int.from_bytes(b"\xff\xff\xff\xff\0\0\0\0" * count, "little")
    first = int.from_bytes(array("Q", [one for one, _ in begin]).tobytes(), "little")
    second = int.from_bytes(array("Q", [two for _, two in begin]).tobytes(), "little")
    step = each // 8
    # A frame's checksum is over the first eight bytes of its header, and its page.
    for column in columns or (0, *range(3, step)):
        pair = int.from_bytes(pairs[column::step].tobytes(), "little")
        first = (first + (pair & low) + second) & low
        second = (second + (pair >> 32 & low) + first) & low
    firsts, seconds = (array("Q", one.to_bytes(count * 8, "little")) for one in (first, second))
    return list(zip(firsts, seconds, strict=True))


# -- what is wrong with a file that SQLite refused ---------------------------------------------------------

#: What may come of a WAL that belongs to another file.
_FOREIGN_CODES: Final = ("DATABASE_CORRUPT", "DATABASE_NOT_LCM", "DATABASE_IS_REMNIC")
_IS_LCM: Final = "SELECT 1 FROM sqlite_master WHERE name = 'conversations' AND type = 'table'"
_alone: dict[tuple[int, int], ReadConnection] = {}


def diagnose(error: sqlite3.Error | DatabaseError, path: Path) -> DatabaseError:
    """`explain`, after a look at the file system, and at the file without its WAL; blocks."""
    location = real_path(path)
    if isinstance(error, sqlite3.Error) and lacks_locks(error, location):
        return no_locks(path)
    found = error if isinstance(error, DatabaseError) else explain(error, path)
    if isinstance(error, sqlite3.Error) and error_name(error).startswith("SQLITE_NOTADB"):
        with suppress(OSError, ValueError):
            found = not_a_database(path, os.pread(keep_open(location), 100, 0))
    if isinstance(found, DatabaseBusyError | DatabaseMissingError) or found.code not in _FOREIGN_CODES:
        return found
    if not is_sound_alone(location):
        return found
    return DatabaseError(
        f"{path} cannot be read with its -wal, but it is sound without its -wal: {location.name}-wal is "
        "probably another file's. If no host uses the file, move it and the -shm to another folder and keep "
        "them.",
        code="WAL_OF_ANOTHER_FILE",
    )


def is_sound_alone(path: Path) -> bool:
    """Whether *path* is an LCM database in which SQLite finds no fault without its WAL; False if it has none.

    SQLite looks for 3 s at most.
    The connection is never closed, as `keep_open` says.
    """
    state = file_state(path)
    if state is None or not state.wal_size:
        return False
    try:
        found = path.stat()
        key = (found.st_dev, found.st_ino)
        if key not in _alone:
            _alone[key] = connect_reading(path, 0, immutable=True, any_thread=True)
        connection = _alone[key]
    except (OSError, sqlite3.Error):
        return False
    timer = threading.Timer(_ALONE_SECONDS, connection.interrupt)
    timer.start()
    try:
        with closing(connection.execute("PRAGMA quick_check(1)")) as cursor:
            is_sound = cursor.fetchone()[0] == "ok"
        return is_sound and connection.execute(_IS_LCM).fetchone() is not None
    except sqlite3.Error as error:
        return error_name(error) == "SQLITE_INTERRUPT"
    finally:
        timer.cancel()
