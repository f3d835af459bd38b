"""What a killed run left on its way is removed by the next one: only what is ours, only what is dead."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from lcm_core.change.backup import make_backup
from lcm_core.private_files import PartialFile, remove_dead

from tests.conftest import WRITTEN, DatabaseFactory

#: Makes a partial file, says its name, and waits to be killed.
WRITER = """
import sys
from pathlib import Path
from lcm_core.private_files import PartialFile
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
