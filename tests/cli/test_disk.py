"""``disk``: what takes space, and what is given back."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lcm_tui.flows import checks
from lcm_tui.tables.blocks import bytes_text
from tests.change.support import dump
from tests.cli.support import run
from tests.conftest import DatabaseFactory
from tests.databases import run as change_behind
from tests.databases import value

HOST = (
    "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute('SELECT 1 FROM messages').fetchone(); "
)
HOST += "print('open', flush=True); sys.stdin.read()"


KILLED = (
    "import os, sqlite3, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None); "
    "[c.execute(one) for one in ('PRAGMA journal_mode = WAL', 'PRAGMA wal_autocheckpoint = 0', "
    "sys.argv[2])]; os._exit(0)"
)


def with_log(path: Path, change: str = "UPDATE messages SET content = content") -> Path:
    """Leave a write-ahead log beside a database, as a host does that was killed."""
    subprocess.run([sys.executable, "-c", KILLED, path, change], check=True)
    return Path(f"{path}-wal")


def with_space(path: Path) -> Path:
    """Give a database free pages and a folder of large files: one of a row, two of none, one of them new."""
    change_behind(path, "DELETE FROM message_parts WHERE rowid % 2")
    folder = path.parent / "lcm-files"
    known = value(path, "SELECT file_id FROM large_files WHERE conversation_id = 3")
    day = time.time() - 3 * 86_400
    for name, at in (
        (f"{known}.txt", day),
        ("file_00112233aabbccdd.json", day),
        ("file_00112233aabbccde", None),
    ):
        (folder / "3").mkdir(parents=True, exist_ok=True)
        (folder / "3" / name).write_bytes(b"x" * 5_000)
        if at is not None:
            os.utime(folder / "3" / name, (at, at))
    os.symlink("/etc", folder / "4")
    return path


@pytest.fixture
def path(database_copy: DatabaseFactory) -> Path:
    return with_space(database_copy("0.15.3"))


@contextmanager
def a_host_on(path: Path) -> Iterator[None]:
    host = subprocess.Popen([sys.executable, "-c", HOST, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert host.stdout is not None
    host.stdout.readline()
    try:
        yield
    finally:
        host.communicate()


def disk(path: Path, *arguments: str) -> dict[str, object]:
    return run("disk", *arguments, "--db", path, "--openclaw-dir", path.parent, "--json").data


def sizes(path: Path) -> dict[str, int]:
    return {row["name"]: row["bytes"] for row in disk(path)["items"]}


@pytest.mark.long
def test_all_that_belongs_to_a_database_is_listed_what_can_be_given_back_first(path: Path):
    found = disk(path)
    names = [row["name"] for row in found["items"]]
    assert names[:2] == ["free pages of the file", "large files without a row"]
    assert {"messages", "summaries_fts", "large files"} < set(names)
    in_file = sum(row["bytes"] for row in found["items"] if row["kind"] == "table")
    free = sizes(path)["free pages of the file"]
    assert 0 < path.stat().st_size - in_file - free < path.stat().st_size / 100  # the schema's own pages
    assert sizes(path)["large files without a row"] == 5_000
    assert sizes(path)["large files"] == 15_000


@pytest.mark.long
def test_the_texts_of_a_large_file_are_measured_when_that_is_asked_for(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = disk(path)
    monkeypatch.setattr(checks, "WHOLE_BYTES", 0)
    found = disk(path)
    assert [one["textBytes"] for one in (*found["conversations"], *found["ages"])] == [None] * (
        len(found["conversations"]) + len(found["ages"])
    )
    assert (found["items"], found["bytes"]) == (measured["items"], measured["bytes"])
    assert disk(path, "--all") == measured
    assert (
        "The texts were not measured, as the file is large: --all reads them."
        in run("disk", "--db", path).out
    )


@pytest.mark.long
def test_a_vacuum_gives_the_free_pages_to_the_disk_and_changes_no_row(path: Path):
    before, size = dump(path), path.stat().st_size
    said = " ".join(run("disk", "--free", "pages", "--db", path).out.split())
    assert re.search(
        r"3\.7 MB, about .* KB less.* It takes about .* and 8\.\d MB of the .* free on this disk", said
    )
    shown_first = run("disk", "--free", "pages", "--db", path, "--json").data
    assert (shown_first["applied"], path.stat().st_size) == (False, size)
    done = run("disk", "--free", "pages", "--db", path, "--apply", "--yes", "--json").data
    assert done["bytesAfter"] == path.stat().st_size <= size - shown_first["freeBytes"]
    assert dump(path) == before
    assert sizes(path)["free pages of the file"] == 0


@pytest.mark.long
def test_the_log_counts_as_given_back_before_and_after(path: Path):
    pages = "(page_count - freelist_count) * page_size FROM pragma_page_count, pragma_freelist_count"
    used = value(path, f"SELECT {pages}, pragma_page_size")
    log = with_log(path)
    size = path.stat().st_size + log.stat().st_size
    spare, whole = bytes_text(size - used + 5_000), bytes_text(size + 15_000)
    listed = run("disk", "--db", path, "--openclaw-dir", path.parent).out
    assert f"{spare} of {whole} can be given back." in listed
    assert [row["kind"] for row in disk(path)["items"]][:4] == [*["to give back"] * 3, "table"]
    done = run("disk", "--free", "pages", "--db", path, "--apply", "--yes").out
    after = path.stat().st_size
    assert f"The disk has {bytes_text(size - after)} back" in " ".join(done.split())
    assert after <= used
    assert not log.exists()


def test_the_rows_to_give_back_add_up_to_what_is_said_of_all(path: Path):
    with_log(path, "UPDATE messages SET content = content || hex(zeroblob(2000))")
    found = disk(path)
    spare = sum(row["bytes"] for row in found["items"] if row["kind"] == "to give back")
    listed = run("disk", "--db", path, "--openclaw-dir", path.parent).out
    assert f"{bytes_text(spare)} of {bytes_text(found['bytes'])} can be given back." in listed


def test_a_vacuum_is_refused_while_a_host_has_the_file_open(path: Path):
    size = path.stat().st_size
    with a_host_on(path):
        problem = run("disk", "--free", "pages", "--db", path).out
        assert "is open in python" in " ".join(problem.split())
        refused = run("disk", "--free", "pages", "--db", path, "--apply", "--yes")
        assert refused.code == 9
        assert "Stop it first" in refused.err
    assert path.stat().st_size == size


def test_strays_are_removed_and_nothing_else(path: Path):
    listed = disk(path, "--free", "strays")
    assert [Path(one["path"]).name for one in listed["strays"]] == ["file_00112233aabbccdd.json"]
    before = sorted(one.name for one in (path.parent / "lcm-files" / "3").iterdir())
    done = disk(path, "--free", "strays", "--apply", "--yes")
    assert (done["removed"]["files"], done["removed"]["bytes"]) == (1, 5_000)
    after = sorted(one.name for one in (path.parent / "lcm-files" / "3").iterdir())
    assert set(before) - set(after) == {"file_00112233aabbccdd.json"}
    assert (
        "Every large file has a row."
        in run("disk", "--free", "strays", "--db", path, "--openclaw-dir", path.parent).out
    )


def test_files_of_another_database_are_no_strays(path: Path):
    change_behind(path, "DELETE FROM large_files")
    assert disk(path, "--free", "strays")["strays"] == []
