"""What a journal row names is opened only where it is a file that we wrote: the row may be anybody's."""

from __future__ import annotations

import hashlib
import os
import stat
import zlib
from pathlib import Path

import pytest
from lcm_core.api import RefusedError
from lcm_core.base.files import make_private, roots
from lcm_core.change import journal as exports
from lcm_core.change.commit import commit
from lcm_core.change.journal import (
    CodecError,
    DamagedRecordError,
    Export,
    export_folder,
    inflate,
    read_export,
    remove_export,
    write_export,
)
from lcm_core.change.undo import prune_history

from tests.change.support import dump, plan_of, undo, update
from tests.databases import run, value

NAME = "op_0123456789abcdef.edits"
BYTES = zlib.compress(b"[]")
HASH = hashlib.sha256(BYTES).hexdigest()


@pytest.fixture
def export(monkeypatch: pytest.MonkeyPatch) -> Export:
    return write_export("op_0123456789abcdef", BYTES)


def test_what_was_written_is_read(export: Export):
    assert read_export(export) == BYTES


def test_the_name_is_all_that_counts_of_a_recorded_path(export: Export, tmp_path: Path):
    """A database that came from another machine, with its exports put into our folder here."""
    elsewhere = Export(Path("/home/of/another/user") / NAME, export.sha256)
    assert read_export(elsewhere) == BYTES
    (tmp_path / NAME).write_bytes(BYTES)
    export.path.unlink()
    with pytest.raises(RefusedError, match="cannot be read"):
        read_export(Export(tmp_path / NAME, HASH))


@pytest.mark.parametrize(
    "named",
    ["/dev/zero", "/dev/stdin", "/etc/passwd", "/", "..", "../lcm.db", f"{NAME}/", f"{NAME}\n", "op_x.edits"],
)
def test_another_name_is_not_opened(export: Export, named: str, monkeypatch: pytest.MonkeyPatch):
    if named == f"{NAME}/":  # a path does not keep the slash: it is the export
        assert read_export(Export(Path(named), HASH)) == BYTES
        return
    monkeypatch.setattr(os, "open", lambda *_, **__: pytest.fail("it was opened"))
    with pytest.raises(RefusedError, match="not a file written by lcm-tui"):
        read_export(Export(Path(named), HASH))


def _replaced(export: Export, how: str, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_bytes(BYTES)
    other.chmod(0o600)
    if how == "readable by others":
        export.path.chmod(0o644)
        return
    if how == "changed":
        export.path.write_bytes(BYTES + b" ")
        return
    export.path.unlink()
    match how:
        case "link to the same bytes":
            export.path.symlink_to(other)
        case "link to a device":
            export.path.symlink_to("/dev/zero")
        case "FIFO":
            os.mkfifo(export.path, 0o600)
        case "folder":
            export.path.mkdir(0o700)
        case "too large":
            export.path.touch(0o600)
            os.truncate(export.path, exports.PACKED_BYTES + 1)  # a sparse file


@pytest.mark.parametrize(
    "how",
    [
        "link to the same bytes",
        "link to a device",
        "FIFO",
        "folder",
        "too large",
        "readable by others",
        "changed",
    ],
)
def test_a_file_that_is_not_ours_is_refused(export: Export, how: str, tmp_path: Path):
    _replaced(export, how, tmp_path)
    with pytest.raises(RefusedError, match=r"nothing was changed") as caught:
        read_export(export)
    assert str(export.path) in caught.value.message


def test_a_file_that_grows_while_it_is_read_is_read_as_far_as_it_was_looked_at(
    export: Export, monkeypatch: pytest.MonkeyPatch
):
    look = os.fstat

    def grown(descriptor: int) -> os.stat_result:
        found = look(descriptor)
        if stat.S_ISREG(found.st_mode):
            with export.path.open("ab") as file:
                file.write(b"x" * 100)
        return found

    monkeypatch.setattr(exports.os, "fstat", grown)
    assert read_export(export) == BYTES


@pytest.mark.long
def test_undo_and_prune_of_a_hostile_row_touch_nothing_else(database_copy, tmp_path: Path):
    path = database_copy("0.15.3")
    done = commit(path, plan_of(update(path, "messages", "message_id", 5, content="changed")))
    precious = tmp_path / "precious"
    precious.write_bytes(b"kept")
    for named in ("/dev/zero", str(precious), str(tmp_path)):
        run(
            path,
            f"UPDATE lcm_tui_operations SET edits = NULL, export_path = '{named}', export_sha256 = '{HASH}'",
        )
        before = dump(path)
        with pytest.raises(RefusedError, match="not a file written by lcm-tui"):
            undo(path, done.id)
        assert dump(path) == before
    run(path, f"UPDATE lcm_tui_operations SET export_path = '{precious}'")
    assert prune_history(path) == 1
    assert precious.read_bytes() == b"kept"


def test_only_exports_are_removed(export: Export, tmp_path: Path):
    (tmp_path / NAME).write_bytes(b"another")
    remove_export(tmp_path / "anything")
    remove_export(Path("/etc") / NAME)
    assert not export.path.exists()
    assert (tmp_path / NAME).exists()


def test_bytes_that_stand_for_too_many_are_refused(database_copy):
    bomb = zlib.compress(b"\0" * 3_000_000, 9)
    with pytest.raises(CodecError, match="more than 1,000,000 bytes"):
        inflate(bomb, 1_000_000)
    assert inflate(bomb, 3_000_000) == b"\0" * 3_000_000
    with pytest.raises(CodecError, match="cut off"):
        inflate(bomb[:-3])
    path = database_copy("0.15.3")
    done = commit(path, plan_of(update(path, "messages", "message_id", 5, content="changed")))
    for stored in ("5", "1.5", "'x'", "x''"):
        run(path, f"UPDATE lcm_tui_operations SET resolution = {stored}")
        with pytest.raises(DamagedRecordError, match="cannot be read"):
            undo(path, done.id)
    assert value(path, "SELECT content FROM messages WHERE message_id = 5") == "changed"


def test_our_folders_are_private_also_those_that_were_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "share"))
    folder = export_folder()
    folder.mkdir(parents=True)
    for one in (tmp_path / "share", folder.parent, folder):
        one.chmod(0o755)
    write_export("op_0123456789abcdef", BYTES)
    assert [stat.S_IMODE(one.stat().st_mode) for one in (folder.parent, folder)] == [0o700, 0o700]
    assert stat.S_IMODE((tmp_path / "share").stat().st_mode) == 0o755  # not ours
    assert folder.parent in roots()


def test_a_folder_that_is_not_ours_keeps_its_mode(tmp_path: Path):
    mine = tmp_path / "lcm-tui" / "exports"
    mine.mkdir(parents=True)
    mine.chmod(0o755)
    assert make_private(mine) == mine
    assert stat.S_IMODE(mine.stat().st_mode) == 0o755
    assert stat.S_IMODE(make_private(tmp_path / "new").stat().st_mode) == 0o700
