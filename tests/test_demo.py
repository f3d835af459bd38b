import errno
import os
import sqlite3
from pathlib import Path

import pytest

from lcm_tui.cli.demo import TURNS, keep_snapshots, unpack_demo
from tests.cli.support import run
from tests.databases import reading
from tests.demonstration import build


@pytest.fixture
def demo(tmp_path: Path):
    return unpack_demo(tmp_path)


@pytest.mark.long
def test_the_database_is_what_the_script_makes(demo, tmp_path: Path):
    assert dump(demo.database) == dump(build(tmp_path / "made.db")), "python -m tests.demonstration"


def dump(path: Path) -> list[str]:
    """All rows but those of the search tables, which SQLite lays out as it likes."""
    with reading(path) as database:
        return [line for line in database.iterdump() if "_fts" not in line]


@pytest.mark.long
def test_each_command_that_mends_has_something_to_mend(demo):
    found = {
        one["check"]
        for one in run("doctor", "--db", demo.database, "--fail-on", "never", "--json").data["findings"]
    }
    assert {"A1", "C1", "D2", "F1", "G4"} <= found
    assert "Merge conversation 9 into 10" in run("merge", 10, "--db", demo.database).out


@pytest.mark.long
def test_its_snapshots_can_be_shown_again_and_leave_everything_else_as_it_is(demo):
    def rows(path: Path) -> list[str]:
        database = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)
        dumped = [line for line in database.iterdump() if "lcm_tui_assemblies" not in line]
        database.close()
        return dumped

    before = rows(demo.database)
    keep_snapshots(demo)
    assert rows(demo.database) == before
    listed = run("context", 1, "--snapshots", "--db", demo.database, "--json").data["items"]
    assert [one["budget"] for one in listed] == [budget for _, budget, _ in reversed(TURNS)]
    for one in listed:
        shown = run("show", one["id"], "--db", demo.database, "--json")
        assert shown.data["exact"]


def test_every_stored_file_has_its_twin_in_the_large_files_folder(demo):
    database = sqlite3.connect(f"{demo.database.as_uri()}?immutable=1", uri=True)
    stored = {Path(uri).parts[-2:] for (uri,) in database.execute("SELECT storage_uri FROM large_files")}
    database.close()
    unpacked = {path.parts[-2:] for path in demo.large_files.glob("*/*")}
    assert len(stored) == 11
    assert unpacked == stored


def test_three_sessions_on_disk_are_unknown_to_the_database(demo):
    database = sqlite3.connect(f"{demo.database.as_uri()}?immutable=1", uri=True)
    known = {session for (session,) in database.execute("SELECT session_id FROM conversations")}
    database.close()
    on_disk = {path.stem for path in demo.agents.glob("*/sessions/*.jsonl")}
    assert len(on_disk) == 11
    assert len([stem for stem in on_disk if not any(stem.startswith(session) for session in known)]) == 3


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o277])
def test_nobody_else_may_read_it_whatever_the_umask(tmp_path: Path, umask: int):
    folder = tmp_path / "demo"
    folder.mkdir(mode=0o700)
    before = os.umask(umask)
    try:
        demo = unpack_demo(folder)
    finally:
        os.umask(before)
    modes = {
        (path.is_dir(), path.stat().st_mode & 0o777) for path in [demo.state_dir, *demo.state_dir.rglob("*")]
    }
    assert modes == {(True, 0o700), (False, 0o600)}


def test_a_folder_that_is_there_keeps_its_mode(tmp_path: Path):
    tmp_path.chmod(0o755)
    unpack_demo(tmp_path)
    assert tmp_path.stat().st_mode & 0o777 == 0o755


def test_nothing_is_written_over(demo):
    demo.database.write_text("mine")
    with pytest.raises(FileExistsError):
        unpack_demo(demo.state_dir.parent)
    assert demo.database.read_text() == "mine"


def test_half_a_demonstration_is_taken_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("lcm_tui.cli.demo._unpack_files", full)
        refused = run("demo", "--to", tmp_path)
    assert (refused.code, list(tmp_path.iterdir())) == (9, [])
    assert run("demo", "--to", tmp_path).code == 0


def test_transcripts_keep_a_fixed_time(demo):
    times = {path.stat().st_mtime for path in demo.agents.rglob("*.jsonl")}
    assert times == {1772798400.0}  # 2026-03-06 12:00:00 UTC, the clock of the recorded answers
