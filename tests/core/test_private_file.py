"""Files that an operator names: private, whole, and never over another one unasked."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from lcm_core.private_files import FileNotWrittenError, FileThereError, as_utf8, write_private


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


def test_what_is_there_stays_unless_it_is_to_be_replaced(tmp_path: Path):
    path = tmp_path / "out.md"
    path.write_text("mine")
    path.chmod(0o644)
    with pytest.raises(FileThereError, match="is there already"):
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
            with pytest.raises(FileNotWrittenError, match=r"^[^\n]*\.$"):
                write_private(name, "{}", replace=replace)
    assert os.listdir(tmp_path) == []


def test_bytes_that_were_no_text_do_not_spoil_the_file():
    assert as_utf8("a\udcffb") == b"a\xef\xbf\xbdb"
    assert as_utf8("\ud83d\ude00 \ud800") == "😀 \ufffd".encode()
    assert as_utf8("缓存") == "缓存".encode()
