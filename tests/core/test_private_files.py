"""Private files: those that an operator names, and partial ones, of which our own dead ones are removed."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import platformdirs
import pytest
from lcm_core.base.errors import FileMissingError
from lcm_core.base.files import (
    FileNotWrittenError,
    FileThereError,
    PartialFile,
    as_utf8,
    drafts_folder,
    make_private,
    remove_dead,
    write_private,
)
from lcm_core.change.backup import make_backup

from tests.conftest import WRITTEN, DatabaseFactory


def test_a_new_file_is_for_this_user_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    before = os.umask(0)
    try:
        written = write_private(Path("out.json"), "{}\n")
    finally:
        os.umask(before)
    assert written == tmp_path / "out.json"
    assert written.read_text() == "{}\n"
    assert stat.S_IMODE(written.stat().st_mode) == 0o600


@pytest.mark.cases(15)
@pytest.mark.parametrize("umask", [0o022, 0o002, 0o077, 0])
@pytest.mark.parametrize("before", ["", ".local", ".local/state", ".local/state/lcm-tui"])
def test_every_folder_that_is_made_is_for_this_user_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, umask: int, before: str
):
    (tmp_path / before).mkdir(mode=0o755, parents=True, exist_ok=True)
    for one in ("XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(one, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    there = {one for one in tmp_path.rglob("*") if one.is_dir()}
    modes = {one: one.stat().st_mode for one in there if one.name != "lcm-tui"}
    mask = os.umask(umask)
    try:
        for folder in (drafts_folder(), Path(platformdirs.user_log_dir("lcm-tui", appauthor=False))):
            assert make_private(folder).is_dir()
        make_private(tmp_path / "of an operator" / "deeper" / "still")
    finally:
        os.umask(mask)
    made = {one for one in tmp_path.rglob("*") if one.is_dir()} - modes.keys()
    assert len(made) >= 5
    assert {stat.S_IMODE(one.stat().st_mode) for one in made} == {0o700}
    assert all(one.stat().st_mode == mode for one, mode in modes.items())


def test_what_is_there_stays_unless_it_is_to_be_replaced(tmp_path: Path):
    path = tmp_path / "out.md"
    path.write_text("mine")
    path.chmod(0o644)
    with pytest.raises(FileThereError, match="already exists"):
        write_private(path, "new")
    assert path.read_text() == "mine"
    write_private(path, "new", replace=True)
    assert path.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(tmp_path) == ["out.md"]


def test_the_open_database_is_never_replaced(tmp_path: Path):
    database, link = tmp_path / "lcm.db", tmp_path / "link.db"
    database.write_text("rows")
    link.symlink_to(database)
    for name in (database, link):
        with pytest.raises(FileNotWrittenError, match="open database"):
            write_private(name, "{}", replace=True, never=[database, tmp_path / "lcm.db-wal"])
    assert database.read_text() == "rows"


def test_what_cannot_be_written_is_said_in_a_sentence(tmp_path: Path):
    for name in (
        tmp_path / "no" / "such" / "folder.json",
        tmp_path,
        tmp_path / "a\0b",
        tmp_path / ("x" * 300),
    ):
        for replace in (False, True):
            with pytest.raises((FileNotWrittenError, FileMissingError), match=r"^[^\n]*\.$"):
                write_private(name, "{}", replace=replace)
    assert os.listdir(tmp_path) == []


def test_bytes_that_were_no_text_do_not_spoil_the_file():
    assert as_utf8("a\udcffb") == b"a\xef\xbf\xbdb"
    assert as_utf8("\ud83d\ude00 \ud800") == "😀 \ufffd".encode()
    assert as_utf8("缓存") == "缓存".encode()


#: Makes a partial file, says its name, and waits to be killed.
WRITER = """
import sys
from pathlib import Path
from lcm_core.base.files import PartialFile
print(PartialFile.create(Path(sys.argv[1]), "copy.db").path.name, flush=True)
sys.stdin.read()
"""


def test_a_file_of_a_killed_run_goes_with_the_next(tmp_path: Path, database_copy: DatabaseFactory):
    folder = tmp_path / "backups"
    folder.mkdir()
    child = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    with child:
        assert child.stdout is not None
        name = child.stdout.readline().strip()
        assert os.listdir(folder) == [name]
        assert stat.S_IMODE((folder / name).stat().st_mode) == 0o600
        assert remove_dead(folder) == []  # its writer lives
        child.send_signal(signal.SIGKILL)
    path = database_copy("0.15.3")
    make_backup(path, folder / "lcm.db.backup")
    assert os.listdir(folder) == ["lcm.db.backup"]


def test_ours_stay_while_they_are_written(tmp_path: Path):
    file = PartialFile.create(tmp_path, "copy.db")
    other = PartialFile.create(tmp_path, "copy.db")
    assert {file.path, other.path} == set(tmp_path.iterdir())
    file.path.rename(tmp_path / "copy.db")
    file.close()
    other.close()
    other.close()
    assert os.listdir(tmp_path) == ["copy.db"]


@pytest.mark.parametrize(
    ("name", "goes"),
    [
        ("lcm.db.backup.lcm-tui-0123abcd.partial", True),
        (".conversation-3.lcm-tui-0123abcd.partial", True),
        ("lcm.db.20260301T000000Z.backup.0123abcd.partial", True),  # as 0.1 named them, long ago
        (".conversation-3-0123abcd.partial", True),
        ("film.mkv.partial", False),
        ("film.lcm-tui-0123abcd.partial.mkv", False),
        ("lcm-tui-0123abcd.partial", False),
        ("thesis.12345678x.partial", False),
    ],
)
def test_only_our_names_go(tmp_path: Path, name: str, goes: bool):
    path = tmp_path / name
    path.write_bytes(b"half")
    path.chmod(0o600)
    os.utime(path, (WRITTEN, WRITTEN))
    assert remove_dead(tmp_path) == ([path] if goes else [])
    assert path.exists() is not goes


def test_what_is_no_private_file_of_ours_stays(tmp_path: Path):
    name = "copy.db.lcm-tui-{}.partial"
    shared, folder, pipe, link = (tmp_path / name.format(f"0000000{number}") for number in range(4))
    shared.write_bytes(b"x")
    shared.chmod(0o644)
    folder.mkdir(0o700)
    os.mkfifo(pipe, 0o600)
    target = tmp_path / "target"
    target.write_bytes(b"x")
    target.chmod(0o600)
    link.symlink_to(target)
    young = tmp_path / "lcm.db.0123abcd.partial"  # by its name of 0.1, which held no lock
    young.write_bytes(b"x")
    young.chmod(0o600)
    before = sorted(os.listdir(tmp_path))
    assert remove_dead(tmp_path) == []
    assert remove_dead(tmp_path / "missing") == []
    assert sorted(os.listdir(tmp_path)) == before
