"""WALs that SQLite ignores, in whole or in part: what is found of them, and that no change loses them."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from lcm_core.api import Database, RefusedError
from lcm_core.change import connection as beside
from lcm_core.change.connection import check_beside, keep_wal, open_writer, wals_folder
from lcm_core.checks.running import run_checks
from lcm_core.store.opening import sidecar
from lcm_core.store.wal import examine_wal

from tests.conftest import DatabaseFactory
from tests.databases import connect, leave_unread_wal

COMMITS = 6
SIZES = (512, 1024, 4096, 65536)


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[tuple[int, int], Path]]:
    """Files with a WAL of some commits, by page size and by the rounds that the WAL has behind it."""
    found: dict[tuple[int, int], Path] = {}
    for size in SIZES:
        for rounds in (0, 1, 3):
            folder = tmp_path_factory.mktemp("host")
            found[size, rounds] = written(folder, size, rounds)
    yield found
    for path in found.values():
        shutil.rmtree(path.parent)


def written(folder: Path, page_size: int, rounds: int) -> Path:
    """A file with its WAL, as a host left it that was killed; the later rounds are shorter than the first."""
    work, path = folder / "work.db", folder / "lcm.db"
    with connect(work) as host:
        host.execute(f"PRAGMA page_size = {page_size}")
        host.execute("PRAGMA journal_mode = WAL")
        host.execute("PRAGMA wal_autocheckpoint = 0")
        host.execute("CREATE TABLE t (n INTEGER PRIMARY KEY, text TEXT)")
        for number in range(rounds):
            for _ in range(3 * COMMITS - number):
                host.execute("INSERT INTO t (text) VALUES (?)", ("before" * page_size,))
            host.execute("PRAGMA wal_checkpoint(RESTART)")
        for number in range(COMMITS):
            host.execute("INSERT INTO t (text) VALUES (?)", (f"commit {number}" * (page_size // 4),))
        for suffix in ("", "-wal"):
            shutil.copy(f"{work}{suffix}", f"{path}{suffix}")
    return path


def copy_of(path: Path, folder: Path, wal: bytes) -> Path:
    target = folder / "lcm.db"
    shutil.copy(path, target)
    sidecar(target, "-wal").write_bytes(wal)
    return target


def rows_read(path: Path, folder: Path) -> int:
    """How many rows SQLite itself reads."""
    work = folder / "read"
    work.mkdir()
    for suffix in ("", "-wal"):
        shutil.copy(f"{path}{suffix}", work / f"x.db{suffix}")
    with connect(work / "x.db") as connection:
        try:
            (count,) = connection.execute("SELECT count(*) FROM t").fetchone()
        except sqlite3.Error:
            count = 0
    shutil.rmtree(work)
    return int(count)


def examined(path: Path):
    found = examine_wal(path)
    assert found is not None
    return found


def sizes_of(wal: bytes) -> tuple[int, int]:
    """Bytes of a frame, and how many frames there are."""
    frame = 24 + int.from_bytes(wal[8:12], "big")
    return frame, (len(wal) - 32) // frame


# -- what is found ------------------------------------------------------------------------------------------


@pytest.mark.cases(3)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("rounds", [0, 1, 3])
def test_a_sound_wal_is_sound_also_with_frames_of_earlier_rounds(
    hosts: dict[tuple[int, int], Path], size: int, rounds: int
):
    path = hosts[size, rounds]
    before = {each.name: each.stat() for each in path.parent.iterdir()}
    found = examined(path)
    assert found.is_sound
    assert found.lost == found.uncommitted == found.zeros == 0
    _, frames = sizes_of(sidecar(path, "-wal").read_bytes())
    assert (found.committed == frames) == (rounds == 0)
    for each in path.parent.iterdir():
        assert (each.stat().st_size, each.stat().st_mtime_ns) == (
            before[each.name].st_size,
            before[each.name].st_mtime_ns,
        )


@pytest.mark.cases(1)
@pytest.mark.parametrize("mode", ["PASSIVE", "FULL", "RESTART"])
@pytest.mark.parametrize("size", SIZES)
def test_rounds_of_connections_that_come_and_go_are_explained(tmp_path: Path, size: int, mode: str):
    """Each connection counts rounds from 0, so the header counts fewer than there were."""
    path = tmp_path / "lcm.db"
    with connect(path) as host:
        host.execute(f"PRAGMA page_size = {size}")
        host.execute("PRAGMA journal_mode = WAL")
        host.execute("CREATE TABLE t (n INTEGER PRIMARY KEY, text TEXT)")
        for rows in (5 * COMMITS, 3 * COMMITS, 2 * COMMITS, COMMITS, 1):
            with connect(path) as writer:
                writer.execute("PRAGMA wal_autocheckpoint = 0")
                for _ in range(rows):
                    writer.execute("INSERT INTO t (text) VALUES (?)", ("x" * size,))
                assert examined(path).is_sound
                check_beside(path)
                writer.execute(f"PRAGMA wal_checkpoint({mode})")
        wal = sidecar(path, "-wal").read_bytes()
        frame, frames = sizes_of(wal)
        salts = {wal[at : at + 4] for at in range(32 + 8, len(wal), frame)}
        assert len(salts) > int.from_bytes(wal[12:16], "big") + 1
        assert examined(path).committed < frames


@pytest.mark.parametrize("behind", [1, 2, 255])
@pytest.mark.parametrize("salts", [4, 8])
def test_a_last_frame_with_an_earlier_salt_is_no_earlier_round(
    hosts: dict[tuple[int, int], Path], tmp_path: Path, behind: int, salts: int
):
    """Its checksum continues that of the frame before: its salts are damaged, and its commit is lost."""
    path = hosts[4096, 3]
    wal = bytearray(sidecar(path, "-wal").read_bytes())
    at = 32 + sizes_of(wal)[0] * (examined(path).committed - 1) + 8
    earlier = (int.from_bytes(wal[16:20], "big") - behind) % 2**32
    wal[at : at + salts] = (earlier.to_bytes(4, "big") + b"\x17" * 4)[:salts]
    found = examined(copy_of(path, tmp_path, bytes(wal)))
    assert not found.is_sound
    assert found.lost


@pytest.mark.cases(3)
@pytest.mark.parametrize("rounds", [0, 1, 3])
@pytest.mark.parametrize("seed", range(12))
def test_whatever_sqlite_does_not_read_any_more_is_found(
    hosts: dict[tuple[int, int], Path], tmp_path: Path, rounds: int, seed: int
):
    """Damages of all kinds: where SQLite reads less than before, the WAL is not called sound."""
    chance = random.Random(f"{rounds} {seed}")
    path = hosts[chance.choice(SIZES), rounds]
    wal = sidecar(path, "-wal").read_bytes()
    whole = rows_read(path, tmp_path)
    end = 32 + sizes_of(wal)[0] * examined(path).committed  # behind it are rounds before
    damage = chance.choice((flip, blank, swap_salts, cut, overwrite, exchange))
    damaged = damage(chance, wal, end)
    target = copy_of(path, tmp_path, damaged)
    if rows_read(target, tmp_path) < whole:
        found = examined(target)
        assert not found.is_sound, damage
        assert found.lost, damage
        assert 0 < found.lost_bytes <= len(damaged)


def flip(chance: random.Random, wal: bytes, end: int) -> bytes:
    place = chance.randrange(end)
    return wal[:place] + bytes([wal[place] ^ chance.randrange(1, 256)]) + wal[place + 1 :]


def blank(chance: random.Random, wal: bytes, end: int) -> bytes:
    """A block of zeros, as a file system loses one; not all of the WAL."""
    start = chance.randrange(0, end - 512, 512)
    length = min(chance.choice((512, 4096)), end - start - 64)
    return wal[:start] + bytes(length) + wal[start + length :]


def swap_salts(chance: random.Random, wal: bytes, end: int) -> bytes:
    frame, frames = sizes_of(wal[:end])
    place = chance.choice((16, 32 + 8 + frame * chance.randrange(frames)))
    return wal[:place] + wal[place + 4 : place + 8] + wal[place : place + 4] + wal[place + 8 :]


def cut(chance: random.Random, wal: bytes, end: int) -> bytes:
    """Not between two frames: that cannot be told from a WAL that ends there."""
    frame, frames = sizes_of(wal[:end])
    return wal[: 32 + frame * chance.randrange(frames) + chance.randrange(16, frame)]


def overwrite(chance: random.Random, wal: bytes, end: int) -> bytes:
    start = chance.randrange(end - 100)
    return wal[:start] + chance.randbytes(80) + wal[start + 80 :]


def exchange(chance: random.Random, wal: bytes, end: int) -> bytes:
    """Two frames in each other's place."""
    frame, frames = sizes_of(wal[:end])
    one, two = sorted(chance.sample(range(frames), 2))
    parts = [wal[32 + frame * number : 32 + frame * (number + 1)] for number in range(frames)]
    parts[one], parts[two] = parts[two], parts[one]
    return wal[:32] + b"".join(parts) + wal[end:]


@pytest.mark.parametrize(
    ("start", "stop", "said"),
    [
        (0, 32, "its header holds only zeros"),
        (0, 4, "its header is not that of a WAL"),
        (16, 20, "the checksum of its header is wrong"),
        (60, 700, "its checksums or salts do not continue after frame 0"),
    ],
)
def test_what_is_wrong_is_named(
    hosts: dict[tuple[int, int], Path], tmp_path: Path, start: int, stop: int, said: str
):
    path = hosts[4096, 0]
    wal = sidecar(path, "-wal").read_bytes()
    target = copy_of(path, tmp_path, wal[:start] + bytes(stop - start) + wal[stop:])
    assert examined(target).problem == said


@pytest.mark.parametrize("tail", [1, 24, 4096, 5000])
def test_a_wal_that_ends_within_a_frame_is_cut_off(
    hosts: dict[tuple[int, int], Path], tmp_path: Path, tail: int
):
    path = hosts[4096, 0]
    wal = sidecar(path, "-wal").read_bytes()
    found = examined(copy_of(path, tmp_path, wal[:-tail]))
    assert found.problem == "it ends within a frame"
    assert found.lost >= 1


@pytest.mark.parametrize("size", SIZES)
def test_an_interrupted_transaction_is_no_loss(tmp_path: Path, size: int):
    """A writer that was killed, or took back what it had written already, leaves frames without a commit."""
    work = written(tmp_path, size, 0).with_name("work.db")
    with connect(work) as host:
        host.execute("PRAGMA wal_autocheckpoint = 0")
        host.execute("INSERT INTO t (text) VALUES ('one')")
        host.execute("PRAGMA cache_size = 2")
        host.execute("BEGIN")
        host.executemany("INSERT INTO t (text) VALUES (?)", [("x" * size,)] * 20)
        assert examined(work).is_sound
        assert examined(work).uncommitted > 0
        host.execute("ROLLBACK")
        assert examined(work).is_sound
        host.execute("INSERT INTO t (text) VALUES ('two')")
        assert examined(work).is_sound
        check_beside(work)


def test_zeros_at_the_end_are_a_finding_and_no_hindrance(hosts: dict[tuple[int, int], Path], tmp_path: Path):
    path = hosts[4096, 0]
    target = copy_of(path, tmp_path, sidecar(path, "-wal").read_bytes() + bytes(3 * 4120))
    found = examined(target)
    assert (found.zeros, found.lost) == (3, 0)
    assert not found.is_sound
    check_beside(target)


def test_big_endian_checksums_are_read(hosts: dict[tuple[int, int], Path], tmp_path: Path):
    """A WAL of another machine: the last bit of its first word says so."""
    path = hosts[1024, 0]
    wal = bytearray(sidecar(path, "-wal").read_bytes())
    wal[3] |= 1
    frame, frames = sizes_of(bytes(wal))
    sums = (0, 0)
    for start, length, at in [(0, 24, 24)] + [
        (32 + frame * n, frame, 32 + frame * n + 16) for n in range(frames)
    ]:
        piece = bytes(wal[start : start + length])
        if length == frame:
            piece = piece[:8] + piece[24:]
        sums = checksum(piece, sums)
        wal[at : at + 8] = b"".join(each.to_bytes(4, "big") for each in sums)
    target = copy_of(path, tmp_path, bytes(wal))
    assert rows_read(target, tmp_path) == COMMITS
    assert examined(target).is_sound
    assert examined(target).committed == frames


def checksum(piece: bytes, sums: tuple[int, int]) -> tuple[int, int]:
    """As SQLite describes it, one word after the other."""
    first, second = sums
    for place in range(0, len(piece), 8):
        one, two = (int.from_bytes(piece[place + at : place + at + 4], "big") for at in (0, 4))
        first = (first + one + second) % 2**32
        second = (second + two + first) % 2**32
    return first, second


def test_a_large_wal_is_examined_as_far_as_was_asked(hosts: dict[tuple[int, int], Path]):
    path = hosts[65536, 3]
    found = examine_wal(path, most=1)
    assert found is not None
    assert 0 < found.examined <= 32 + 256 * (24 + 65536)
    stopped = examine_wal(path, stopped=lambda: True)
    assert stopped is not None
    assert stopped.examined == 32


# -- rounds that another connection counts, and files that are written meanwhile ----------------------------


@pytest.mark.cases(6)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("rounds", [0, 1, 3])
def test_a_round_with_new_salts_over_earlier_ones_is_sound(
    hosts: dict[tuple[int, int], Path], tmp_path: Path, size: int, rounds: int
):
    """A connection that has begun no round chooses salts by chance when it writes the first frame."""
    path = hosts[size, rounds]
    newer = sidecar(path, "-wal").read_bytes()
    frame, _ = sizes_of(newer)
    newer = newer[: 32 + frame * examined(path).committed]
    older = sidecar(hosts[size, 3], "-wal").read_bytes()
    if rounds == 3:
        newer = newer[: 32 + frame]
    target = copy_of(path, tmp_path, newer + older[len(newer) :])
    assert len(older) > len(newer)
    found = examined(target)
    assert (found.problem, found.lost) == ("", 0)


def append(wal: Path) -> None:
    with wal.open("ab") as file:
        file.write(bytes(100))


def begin_again(wal: Path) -> None:
    """Another header, with the size and the time of before."""
    before = wal.stat()
    with wal.open("r+b") as file:
        file.seek(16)
        file.write(os.urandom(8))
    os.utime(wal, ns=(before.st_atime_ns, before.st_mtime_ns))


def replace(wal: Path) -> None:
    before = wal.stat()
    other = wal.with_name("other")
    shutil.copy(wal, other)
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    other.rename(wal)


def touch(wal: Path) -> None:
    os.utime(wal, ns=(0, wal.stat().st_mtime_ns - 1_000_000_000))


def damaged_host(path: Path, folder: Path) -> Path:
    """With a page that was lost, and at rest for long."""
    wal = sidecar(path, "-wal").read_bytes()
    target = copy_of(path, folder, wal[:60] + bytes(640) + wal[700:])
    for each in (target, sidecar(target, "-wal")):
        os.utime(each, ns=(10**18, 10**18))
    return target


@pytest.mark.parametrize("write", [append, begin_again, replace, touch])
def test_a_wal_that_is_written_meanwhile_is_in_use(
    hosts: dict[tuple[int, int], Path], tmp_path: Path, write: Callable[[Path], None]
):
    target = damaged_host(hosts[4096, 1], tmp_path)
    calls = 0

    def written_meanwhile() -> bool:
        nonlocal calls
        calls += 1
        write(sidecar(target, "-wal"))
        return False

    found = examine_wal(target, stopped=written_meanwhile)
    assert found is not None
    assert found.is_sound
    assert found.is_in_use
    assert 2 <= calls <= 20
    found = examined(target)  # at rest again, it is what it was
    assert not found.is_sound
    assert not found.is_in_use


def test_a_wal_at_rest_is_examined_twice_and_keeps_its_finding(
    hosts: dict[tuple[int, int], Path], tmp_path: Path
):
    target = damaged_host(hosts[4096, 1], tmp_path)
    calls = 0

    def count() -> bool:
        nonlocal calls
        calls += 1
        return False

    found = examine_wal(target, stopped=count)
    assert found is not None
    assert found.lost > 0
    assert calls == 2


@pytest.mark.parametrize("written", [1, 2])
def test_a_finding_counts_once_the_writer_rests(
    hosts: dict[tuple[int, int], Path], tmp_path: Path, written: int
):
    target = damaged_host(hosts[4096, 1], tmp_path)
    left = [touch] * written

    def written_at_first() -> bool:
        if left:
            left.pop()(sidecar(target, "-wal"))
        return False

    found = examine_wal(target, stopped=written_at_first)
    assert found is not None
    assert found.lost > 0


# -- what comes of it ---------------------------------------------------------------------------------------


@pytest.fixture
def unread(database_copy: DatabaseFactory) -> Path:
    """An LCM file whose WAL has a lost page."""
    path = database_copy("0.15.3")
    leave_unread_wal(path)
    return path


async def test_the_doctor_names_it(unread: Path):
    async with await Database.open(unread) as opened:
        report = await run_checks(opened, only={"G20"})
    [finding] = report.findings()
    assert f"{unread}-wal" in finding.sentence
    assert f"{sidecar(unread, '-wal').stat().st_size - 32:,} bytes" in finding.sentence


def test_a_change_is_refused_until_a_private_copy_was_kept(unread: Path):
    wal = sidecar(unread, "-wal").read_bytes()
    with pytest.raises(RefusedError) as raised, open_writer(unread, 0.1):
        pass
    assert raised.value.code == "WAL_UNREAD"
    assert "--allow-unread-wal" in raised.value.message
    assert sidecar(unread, "-wal").read_bytes() == wal
    kept = keep_wal(unread)
    assert kept is not None
    assert kept.parent == wals_folder()
    assert kept.read_bytes() == wal
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert stat.S_IMODE(kept.parent.stat().st_mode) == 0o700
    with open_writer(unread, 0.1) as writer:
        writer.begin()
        writer.execute("UPDATE conversations SET title = 'changed'")
        writer.commit()
    assert not sidecar(unread, "-wal").exists()
    assert kept.read_bytes() == wal


def test_the_same_wal_is_kept_once(unread: Path, monkeypatch: pytest.MonkeyPatch):
    first = keep_wal(unread)
    monkeypatch.setattr(beside, "_agreed", {})
    assert keep_wal(unread) == first
    assert len(list(wals_folder().iterdir())) == 1


def test_a_wal_that_cannot_be_kept_stops_the_change(unread: Path, monkeypatch: pytest.MonkeyPatch):
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(beside, "sync_folder", fail)
    with pytest.raises(RefusedError, match="No space left"):
        keep_wal(unread)
    with pytest.raises(RefusedError, match="SQLite ignores"):
        check_beside(unread)


def test_an_agreement_is_for_one_wal(unread: Path):
    keep_wal(unread)
    check_beside(unread)
    wal = sidecar(unread, "-wal")
    content = wal.read_bytes()
    os.rename(wal, wal.with_name("away"))
    wal.write_bytes(bytes(32) + content[32:])
    with pytest.raises(RefusedError, match="header holds only zeros"):
        check_beside(unread)


@pytest.mark.long
def test_an_agreement_ends_with_its_wal_also_where_the_next_one_has_its_inode(unread: Path):
    wal = sidecar(unread, "-wal")
    for number in range(20):
        content = wal.read_bytes()
        keep_wal(unread)
        check_beside(unread)
        wal.unlink()
        wal.write_bytes(content[:-1] + bytes([number]))
        with pytest.raises(RefusedError, match="SQLite ignores"):
            check_beside(unread)


# -- other names of the file --------------------------------------------------------------------------------


@pytest.mark.long
def test_a_link_of_a_file_in_use_is_not_changed(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    link = path.with_name("link.db")
    os.link(path, link)
    for name in (path, link):
        check_beside(name)  # nobody uses it
    with connect(path) as host:
        host.execute("UPDATE conversations SET title = 'in the WAL'")
        with pytest.raises(RefusedError) as raised:
            check_beside(link)
        assert raised.value.code == "FILE_HAS_OTHER_NAMES"
        assert "2 names" in raised.value.message
        check_beside(path)


def test_a_link_whose_other_name_is_elsewhere_may_be_in_use(database_copy: DatabaseFactory, tmp_path: Path):
    path = database_copy("0.15.3")
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "elsewhere" / "lcm.db"
    os.link(path, link)
    with pytest.raises(RefusedError, match="not all of them are in its folder"):
        check_beside(link)
    path.unlink()
    check_beside(link)
