"""``backup`` and ``restore`` from the command line: what they print, ask, refuse, and leave behind."""

from __future__ import annotations

import asyncio
import io
import os
import pty
import signal
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from lcm_core.api import Reader
from lcm_core.change import commit as committing
from lcm_core.change.backup import known_backups
from lcm_core.change.copying import CopyProgress, CopyStep

from lcm_tui.cli import answer, progress, working
from lcm_tui.cli import backup as commands
from lcm_tui.tables import blocks as units
from tests.cli.support import run
from tests.conftest import DatabaseFactory

PROGRAM = [sys.executable, "-c", "import sys; from lcm_tui.cli.main import main; sys.exit(main())"]


def messages(path: Path) -> int:
    database = sqlite3.connect(f"{path.as_uri()}?immutable=1", uri=True)
    [[number]] = database.execute("SELECT count(*) FROM messages").fetchall()
    database.close()
    return int(number)


def spoil(path: Path) -> None:
    database = sqlite3.connect(path)
    database.execute("DELETE FROM messages WHERE message_id > 800")
    database.commit()
    database.close()


@pytest.fixture
def saved(database_copy: DatabaseFactory, tmp_path: Path) -> tuple[Path, Path]:
    """A database that lost messages after a backup was made of it, and the backup."""
    path = database_copy("0.15.3")
    backup = tmp_path / "backup"
    assert run("backup", "--db", path, "--to", backup).code == 0
    spoil(path)
    return path, backup


def test_a_database_of_another_program_is_refused_and_a_damaged_one_is_not(
    database_copy: DatabaseFactory, tmp_path: Path
):
    other = tmp_path / "other.db"
    with sqlite3.connect(other) as database:
        database.execute("CREATE TABLE messages (id INTEGER, body TEXT)")
    database.close()
    refused = run("backup", "--db", other, "--json")
    assert (refused.code, refused.error["code"]) == (5, "DATABASE_NOT_LCM")
    assert "not an LCM one, so a copy of it restores no conversation" in refused.error["message"]
    (tmp_path / "empty.db").touch()
    assert run("backup", "--db", tmp_path / "empty.db").code == 5
    assert sorted(one.name for one in tmp_path.iterdir() if one.suffix != ".db") == []
    path = database_copy("0.15.3")
    with sqlite3.connect(path) as database:
        database.execute("DROP TABLE messages")
    database.close()
    assert run("backup", "--db", path, "--to", tmp_path / "kept").code == 0


def test_a_backup_lies_beside_its_database(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    result = run("backup", "--db", path, "--quick-check", "--json")
    [made] = known_backups(path)
    data = result.data
    assert data == {
        "path": str(made.path),
        "bytes": 3731456,
        "pages": 911,
        "seconds": data["seconds"],
        "estimatedSeconds": data["estimatedSeconds"],
        "checked": True,
        "problems": [],
        "access": "immutable",
    }
    assert result.err == ""
    people = run("--db", path, "--quick-check", "backup").out
    assert "no lock and no extra files" in people
    assert "every page" in people


def test_a_backup_goes_where_it_is_sent(
    database_copy: DatabaseFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path, folder = database_copy("0.15.3"), tmp_path / "folder"
    folder.mkdir()
    inside = run("backup", "--db", path, "--to", folder, "--json").data["path"]
    assert Path(inside).parent == folder
    assert Path(inside).name.startswith("lcm.db.2")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert run("backup", "--db", path, "--to", "here", "--json").data["path"] == str(folder / "here")
    assert run("backup", "--db", path, "--to", "~/there", "--json").data["path"] == str(tmp_path / "there")
    taken = run("backup", "--db", path, "--to", "here", "--json")
    assert (taken.code, taken.error["code"]) == (9, "REFUSED")
    assert "--force" in taken.error["message"]
    assert run("backup", "--db", path, "--to", "here", "--force").code == 0
    missing = run("backup", "--db", path, "--to", tmp_path / "no" / "copy", "--json")
    assert (missing.code, missing.error["code"]) == (3, "FOLDER_NOT_FOUND")
    assert run("backup", "--db", path, "--to", "").code == 2
    assert run("backup", "--db", tmp_path / "no.db", "--to", "there").code == 3
    assert run("backup", "--db", path, "--to", path, "--force").code == 9


def test_a_damaged_database_is_copied_and_exits_with_6(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    with path.open("r+b") as file:
        file.seek(4096 * 400)
        file.write(b"\xa5" * 4096)
    result = run("backup", "--db", path, "--quick-check")
    assert result.code == 6
    assert "the database itself is damaged" in result.out
    [made] = known_backups(path)
    assert made.bytes == path.stat().st_size
    assert run("restore", made.path, "--db", path).code == 9


@pytest.mark.long
def test_a_restore_is_shown_and_changes_nothing(saved: tuple[Path, Path]):
    path, backup = saved
    content = path.read_bytes()
    for arguments in ([], ["--yes"]):
        result = run("restore", backup, "--db", path, "--json", *arguments)
        assert result.data["applied"] is False
    data = result.data
    assert (data["database"]["messages"], data["backup"]["messages"]) == (800, 865)
    assert data["backup"]["latestMessageAt"] == "2026-03-04 12:11:41"
    assert (data["missing"], data["unreadable"], data["holders"]) == (False, None, [])
    assert data["roomBytes"] == 2 * 3731456
    people = run("restore", backup, "--db", path).out
    assert "Nothing was changed; --apply restores it." in people
    assert path.read_bytes() == content
    assert known_backups(path) == ()


@pytest.mark.long
def test_a_restore_is_made_when_it_is_agreed_to(saved: tuple[Path, Path]):
    path, backup = saved
    refused = run("restore", backup, "--db", path, "--apply", "--json")
    assert (refused.code, refused.error["code"]) == (9, "REFUSED")
    assert messages(path) == 800
    data = run("restore", backup, "--db", path, "--apply", "--yes", "--json").data
    [kept] = known_backups(path)
    assert (data["applied"], data["kept"], data["path"]) == (True, str(kept.path), str(path))
    assert (messages(path), messages(kept.path)) == (865, 800)
    people = run("--yes", "restore", "--apply", "--db", path, kept.path)
    assert people.code == 0
    assert str(known_backups(path)[1].path) in people.out
    assert messages(path) == 800


@pytest.mark.long
def test_a_host_is_named_before_it_is_too_late(saved: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch):
    path, backup = saved
    monkeypatch.setattr(answer, "BUSY_SECONDS", 0.1)
    code = "import sqlite3, sys; host = sqlite3.connect(sys.argv[1]); host.execute('SELECT * FROM messages')"
    code += ".fetchone(); print(1, flush=True); sys.stdin.read()"
    host = subprocess.Popen(
        [sys.executable, "-c", code, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert host.stdin is not None
    assert host.stdout is not None
    host.stdout.readline()
    shown = run("restore", backup, "--db", path)
    refused = run("restore", backup, "--db", path, "--apply", "--yes")
    host.stdin.close()
    host.wait(20)
    host.stdout.close()
    assert shown.code == 0
    assert refused.code == 8
    assert refused.err.count("\n") == 1
    if Path("/proc/self/fd").is_dir():
        assert f"(process {host.pid})" in shown.out
        assert f"(process {host.pid})" in refused.err
    assert messages(path) == 800


@pytest.mark.long
def test_a_missing_and_an_unreadable_database_are_shown_as_such(saved: tuple[Path, Path]):
    path, backup = saved
    path.write_text("Dear diary,\n" * 50)
    assert "The database cannot be read now" in run("restore", backup, "--db", path).out
    path.unlink()
    shown = run("restore", backup, "--db", path)
    assert (shown.code, path.exists()) == (0, False)
    assert "would be copied there" in shown.out
    assert run("restore", backup, "--db", path, "--apply", "--yes", "--json").data["kept"] is None
    assert messages(path) == 865


def test_a_backup_that_is_not_there_is_not_taken_for_the_database(saved: tuple[Path, Path]):
    path, backup = saved
    for flags in ((), ("--apply", "--yes")):
        result = run("--db", path, "restore", path.parent / "none", *flags)
        assert result.code == 3
        assert result.err.startswith(f"There is no backup at {path.parent / 'none'}.")
        assert "--db" not in result.err
        result = run("--db", path, "restore", backup.parent, *flags)
        assert (result.code, "is a folder" in result.err, "--db" in result.err) == (5, True, False)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["restore"], "restore needs an argument"),
        (["backup", "--apply"], "--apply is not supported by backup"),
        (["backup", "--to"], "--to needs a value"),
        (["restore", "x", "y"], "y"),
    ],
)
def test_mistakes_are_usage_errors(arguments: list[str], words: str):
    result = run(*arguments)
    assert (result.code, result.out) == (2, "")
    assert words in result.err


STOPPED = """
import os, signal, sys
from lcm_core.change import copying
from lcm_tui.cli.main import main; from lcm_tui.cli import progress
copying.STEP_BYTES = 65536
seen = 0
def stop(self, now):
    global seen
    seen += now.step.name == sys.argv[1]
    if now.step.name == sys.argv[1] and seen == 10:
        os.kill(os.getpid(), getattr(signal, sys.argv[2]))
progress.CopyMeter.__call__ = stop
sys.exit(main(sys.argv[3:]))
"""


def stopped(step: str, kind: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", STOPPED, step, kind, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_an_interrupted_backup_leaves_nothing(kind: str, database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    result = stopped("COPY", kind, "backup", "--db", path)
    ended = 10 if kind == "SIGINT" else 128 + getattr(signal, kind)
    assert (result.returncode, result.stdout) == (ended, "")
    assert result.stderr == "Cancelled; nothing was changed.\n"
    assert os.listdir(path.parent) == ["lcm.db"]


@pytest.mark.long
def test_an_interrupted_restore_changes_nothing(saved: tuple[Path, Path]):
    path, backup = saved
    result = stopped("RESTORE", "SIGINT", "restore", backup, "--db", path, "--apply", "--yes")
    [kept] = known_backups(path)
    assert (result.returncode, result.stdout) == (10, "")
    assert result.stderr.endswith(f"A copy of the current database is in {kept.path}.\n")
    assert (messages(path), messages(kept.path)) == (800, 800)


def test_signals_are_as_they_were_afterwards():
    before = signal.getsignal(signal.SIGINT)
    with working.interruptible() as asked:
        os.kill(os.getpid(), signal.SIGINT)
        assert asked()
        assert signal.getsignal(signal.SIGINT) is before
    with working.interruptible() as asked:
        assert not asked()
    assert signal.getsignal(signal.SIGINT) is before


def at_a_terminal(typed: str, *arguments: object) -> tuple[int, str]:
    controller, terminal = pty.openpty()
    process = subprocess.Popen(
        [*PROGRAM, *map(str, arguments)], stdin=terminal, stdout=subprocess.DEVNULL, stderr=terminal
    )
    os.close(terminal)
    os.write(controller, typed.encode())
    shown = b""
    while True:
        try:
            piece = os.read(controller, 4096)
        except OSError:  # how Linux says that the other end is closed
            break
        if not piece:
            break
        shown += piece
    os.close(controller)
    return process.wait(60), shown.decode()


@pytest.mark.long
def test_a_person_is_asked_before_a_restore(saved: tuple[Path, Path]):
    path, backup = saved
    command = ["restore", backup, "--db", path, "--apply"]
    for typed in ("n\n", "\n", "\x04"):
        code, shown = at_a_terminal(typed, *command)
        assert code == 10
        assert "(800 messages, the last of 2026-" in shown
        assert "Cancelled; nothing was changed." in shown
    assert messages(path) == 800
    code, shown = at_a_terminal("y\n", *command)
    assert code == 0
    assert "Restoring 3.7 MB" in shown
    assert "100%" in shown
    assert messages(path) == 865


@pytest.mark.long
def test_a_person_is_asked_before_a_long_backup(
    database_copy: DatabaseFactory, monkeypatch: pytest.MonkeyPatch
):
    path = database_copy("0.15.3")
    monkeypatch.setattr(commands, "LONG_SECONDS", 0.0)
    assert run("backup", "--db", path).code == 0  # nobody is there to ask, and nothing is lost by copying
    monkeypatch.setattr(commands, "can_ask", lambda: True)
    for typed, code in (("n\n", 10), ("", 10), ("\n", 0), ("Yes\n", 0)):
        monkeypatch.setattr(sys, "stdin", io.StringIO(typed))
        result = run("backup", "--db", path)
        assert result.code == code
        assert "Copy 3.7 MB to " in result.err
    assert run("backup", "--db", path, "--yes").err == ""
    assert len(known_backups(path)) == 4


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_one_line_that_goes_away(monkeypatch: pytest.MonkeyPatch):
    shown = Terminal()
    monkeypatch.setattr(sys, "stderr", shown)
    monkeypatch.setenv("COLUMNS", "100")
    meter = progress.CopyMeter()
    for done in (0, 500_000, 1_000_000):
        meter(CopyProgress(CopyStep.COPY, done, 1_000_000))
    meter(CopyProgress(CopyStep.CHECK, 0, 0))
    drawn = shown.getvalue()
    meter.clear()
    assert "Copying 1.0 MB" in drawn
    assert "100%" in drawn
    assert "\n" not in drawn, "one line, drawn over itself"
    assert shown.getvalue().endswith("\x1b[2K"), "the line is erased"
    assert "\x1b[?25h" in shown.getvalue()[len(drawn) :], "and the cursor is back"


@pytest.mark.cases(2)
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("context", 1), ("Reading",)),
        (("dissolve", "sum_bb692ab9b90b6a49"), ("Planning the change",)),
        (
            ("dissolve", "sum_bb692ab9b90b6a49", "--apply", "--yes"),
            ("Planning the change", "Applying the change"),
        ),
        (("context", 1, "--quiet"), ()),
    ],
)
def test_what_takes_long_says_that_it_goes_on(
    database_copy: DatabaseFactory,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[Any, ...],
    said: tuple[str, ...],
):
    """Each pause of a second has passed at once; the work waits until the line was drawn."""
    shown: list[str] = []
    drawn = threading.Event()

    def show(self: progress.ProgressLine, text: str, done: int = 0, total: int = 0) -> None:
        shown.append(text)
        drawn.set()

    async def waited(self: Reader, sql: str, *parameters: object) -> Any:
        if said:
            await asyncio.to_thread(drawn.wait, 30)
        return await stored(self, sql, *parameters)

    def committed(*given: Any, **named: Any) -> Any:
        drawn.clear()
        drawn.wait(30)
        return commit(*given, **named)

    stored, commit = Reader.stored, committing.commit
    monkeypatch.setattr(progress, "SILENT_SECOND", 0.001)
    monkeypatch.setattr(progress.ProgressLine, "show", show)
    monkeypatch.setattr(progress.ProgressLine, "is_shown", True)
    monkeypatch.setattr(Reader, "stored", waited)
    monkeypatch.setattr(committing, "commit", committed)
    assert run(*arguments, "--db", database_copy("0.15.3")).code == 0
    assert list(dict.fromkeys(text.partition(":")[0] for text in shown)) == list(said)


def test_where_there_is_no_terminal_nothing_is_drawn(monkeypatch: pytest.MonkeyPatch):
    shown = io.StringIO()
    monkeypatch.setattr(sys, "stderr", shown)
    line = progress.ProgressLine(bar=False)
    line.show("half", 1, 2)
    line.clear()
    assert shown.getvalue() == ""


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 bytes"), (999, "999 bytes"), (1_000, "1.0 KB"), (999_960, "1.0 MB"), (5_500_000_000, "5.5 GB")],
)
def test_sizes_are_for_people(size: int, text: str):
    assert units.bytes_text(size) == text


def test_durations_are_for_people():
    assert [units.seconds_text(seconds) for seconds in (0.1, 59.6, 125)] == ["1 s", "60 s", "2 min"]
