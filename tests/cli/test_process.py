"""The program as a process of its own: without a terminal, with a broken pipe, interrupted, completed."""

from __future__ import annotations

import contextlib
import logging
import os
import pty
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from lcm_tui.cli import status
from lcm_tui.cli.main import main
from lcm_tui.kit import logfile
from tests.cli.support import Result, run
from tests.conftest import DatabaseFactory
from tests.databases import connect

PROGRAM = [sys.executable, "-c", "import sys; from lcm_tui.cli.main import main; sys.exit(main())"]


def start(*arguments: object, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PROGRAM, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        env={**os.environ, **options.pop("env", {})},
        **options,
    )


@pytest.mark.long
def test_the_app_refuses_without_a_terminal():
    result = start()
    assert (result.returncode, result.stdout) == (2, "")
    assert "`lcm-tui status`" in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.long
def test_what_is_wrong_with_a_given_path_is_said_before_the_terminal_is_missed(tmp_path: Path):
    missing, folder = tmp_path / "nowhere.db", tmp_path
    for result in (start("--db", missing), start(env={"LCM_DATABASE_PATH": str(missing)})):
        assert (result.returncode, result.stdout) == (3, "")
        assert result.stderr.startswith(f"There is no database at {missing}. Open one with `lcm-tui PATH`")
        assert result.stderr.count("\n") == 1
    assert "is a folder" in start("--db", folder).stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
def test_a_given_database_still_needs_a_terminal(database_file: DatabaseFactory):
    result = start("--db", database_file("0.15.3"))
    assert result.returncode == 2
    assert result.stderr.startswith("The app needs a terminal")


@pytest.mark.long
@pytest.mark.parametrize("term", ["dumb", ""])
def test_the_app_refuses_a_terminal_that_cannot_draw(term: str):
    controller, terminal = pty.openpty()
    result = subprocess.run(
        PROGRAM,
        stdin=terminal,
        stdout=terminal,
        stderr=subprocess.PIPE,
        env={**os.environ, "TERM": term},
        check=False,
    )
    os.close(terminal)
    os.close(controller)
    assert result.returncode == 2
    assert b"The app needs a terminal" in result.stderr


@pytest.mark.long
def test_the_demonstration_is_text_without_a_terminal(tmp_path: Path):
    result = start("demo", env={"TMPDIR": str(tmp_path)})
    assert (result.returncode, result.stderr) == (0, "")
    assert "Messages            895" in result.stdout
    assert "Ordinal" in result.stdout
    assert f"a temporary copy in {tmp_path}/lcm-tui-demo-" in result.stdout
    assert "which is now deleted" in result.stdout
    assert list(tmp_path.iterdir()) == []


def test_the_demonstration_ignores_the_settings_of_the_operator(
    tmp_path: Path, database_file: DatabaseFactory, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("LCM_DATABASE_PATH", str(database_file("0.1.2")))
    monkeypatch.setenv("LCM_FRESH_TAIL_COUNT", "2")
    data = run("demo", "--json").data
    assert data["status"]["status"]["conversations"]["total"] == 10
    assert data["status"]["freshTail"]["count"] == 64
    assert not Path(data["temporaryFolder"]).exists()
    assert run("demo", "--db", database_file("0.1.2")).code == 2


@pytest.mark.long
def test_a_reader_that_leaves_early_is_no_error(database_file: DatabaseFactory):
    arguments = ["messages", "list", "1", "--limit", "500", "--include-content", "--json"]
    process = subprocess.Popen(
        [*PROGRAM, *arguments, "--db", str(database_file("0.15.3"))],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.read(10)
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait() == 0
    process.stderr.close()


INTERRUPTED = """
import asyncio, os, signal, sys
from lcm_tui.__main__ import main
from lcm_tui.cli import status

async def load(reader, settings):
    os.kill(os.getpid(), int(os.environ["KIND"]))
    await asyncio.sleep(60)

status.load_status = load
sys.exit(main())
"""


@pytest.mark.long
@pytest.mark.parametrize(("flags", "begins"), [((), "The output could not be"), (("--json",), '{"ok":false')])
def test_an_output_that_cannot_be_written_is_told(
    flags: tuple[str, ...], begins: str, database_file: DatabaseFactory
):
    command = [*PROGRAM, "--db", str(database_file("0.15.3")), "status", *flags]
    with Path("/dev/full").open("w") as full:
        result = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
        silent = subprocess.run([*command, "--limit", "1"], stderr=full, check=False)
    assert result.returncode == 1
    assert result.stderr.startswith(begins)
    assert "No space left on device" in result.stderr
    assert result.stderr.count("\n") == 1
    assert silent.returncode == 2


@pytest.mark.long
@pytest.mark.parametrize("arguments", [["--help"], ["status", "--help"], ["--help", "--json"]])
def test_help_whose_reader_has_gone_is_no_error(arguments: list[str]):
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as pipe, Path("/dev/full").open("w") as full:
        gone = subprocess.run([*PROGRAM, *arguments], stdout=pipe, stderr=subprocess.PIPE, check=False)
        no_room = subprocess.run([*PROGRAM, *arguments], stdout=full, stderr=subprocess.PIPE, check=False)
    assert (gone.returncode, gone.stderr) == (0, b"")
    assert no_room.returncode == 1
    assert b"The output could not be written (No space left on device)" in no_room.stderr


def test_ctrl_c_while_the_program_is_being_imported_is_quiet(tmp_path: Path):
    (tmp_path / "click.py").write_text(
        "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nwhile True: pass\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-m", "lcm_tui", "status"]
    result = subprocess.run(command, capture_output=True, check=False, env=environment, timeout=50)
    assert (result.returncode, result.stdout, result.stderr) == (10, b"", b"")


@pytest.mark.long
def test_a_closed_output_is_no_error(database_file: DatabaseFactory):
    command = " ".join(["exec", '"$0"', "-c", '"$1"', "--db", '"$2"', "status", ">&-"])
    result = subprocess.run(
        ["sh", "-c", command, PROGRAM[0], PROGRAM[2], str(database_file("0.15.3"))],
        stderr=subprocess.PIPE,
        check=False,
    )
    assert (result.returncode, result.stderr) == (0, b"")


@pytest.mark.long
def test_a_closed_input_is_one_without_a_terminal():
    command = ["sh", "-c", 'exec "$0" -m lcm_tui <&-', PROGRAM[0]]
    result = subprocess.run(command, capture_output=True, check=False, text=True)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("The app needs a terminal")


@pytest.mark.long
@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda kind: kind.name)
def test_an_interrupted_command_says_so_and_leaves_nothing_behind(
    database_copy: DatabaseFactory, tmp_path: Path, kind: signal.Signals
):
    """It reads a private copy, for the WAL has no index."""
    path = database_copy("0.15.3")
    with contextlib.closing(sqlite3.connect(path)) as host:
        host.execute("UPDATE conversations SET title = 'only in the WAL'")
        host.commit()
        wal = path.with_name(f"{path.name}-wal").read_bytes()
    path.with_name(f"{path.name}-wal").write_bytes(wal)
    folder = tmp_path / "temporary"
    folder.mkdir()
    result = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, "status", "--db", str(path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
        env={**os.environ, "KIND": str(int(kind)), "TMPDIR": str(folder)},
    )
    assert (result.returncode, result.stdout) == (10 if kind is signal.SIGINT else 128 + kind, "")
    assert result.stderr == "Cancelled; nothing was changed.\n"
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("lcm-tui conv", ["conversations"]),
        ("lcm-tui focus ", ["list", "create", "activate", "clear", "delete"]),
        ("lcm-tui messages list --db x --ro", ["--role"]),
        ("lcm-tui messages list --role ", ["system", "user", "assistant", "tool"]),
        ("lcm-tui --completion ", ["bash", "zsh", "fish", "powershell"]),
        ("lcm-tui --db x --limit 2 history ", ["list", "undo", "redo", "prune"]),
        ("lcm-tui dissolve 1 --su", ["--summary"]),
    ],
)
def test_the_shell_is_told_what_may_come_next(
    line: str, expected: list[str], monkeypatch: pytest.MonkeyPatch
):
    assert completed(monkeypatch, line).out.split() == [f"plain,{word}" for word in expected]


@pytest.mark.parametrize(
    "line", ["lcm-tui --db di", "lcm-tui status --config=x", "lcm-tui restore ", "lcm-tui demo --to "]
)
def test_a_path_is_left_to_the_shell(line: str, monkeypatch: pytest.MonkeyPatch):
    assert completed(monkeypatch, line).out.startswith("file,")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("context ", {"7", "8"}),
        ("conversations show --conversation-id 7", {"7"}),
        ("context agent:o", {"ops:main", "ops:discord:channel:ops-room"}),
        ("messages list --session-key agent:o", {"ops:main", "ops:discord:channel:ops-room"}),
        ("dissolve sum_4c", {"sum_4c4bd5292abfa225"}),
        ("dissolve 1 --summary sum_4c", {"sum_4c4bd5292abfa225"}),
        ("summaries show sum_4c", {"sum_4c4bd5292abfa225"}),
        ("context x", set()),
    ],
)
def test_names_are_those_of_the_database(
    line: str, expected: set[str], database_file: DatabaseFactory, monkeypatch: pytest.MonkeyPatch
):
    path = database_file("0.15.3")
    before = sorted(path.parent.iterdir())
    monkeypatch.setenv("COMP_BREAKS", ":=")
    answered = completed(monkeypatch, f"lcm-tui --db {path} {line}")
    found = {word.removeprefix("plain,") for word in answered.out.split()}
    assert (found >= expected, bool(found), answered.err) == (True, bool(expected), "")
    assert sorted(path.parent.iterdir()) == before
    for nothing in ("/nowhere.db", __file__):
        assert completed(monkeypatch, f"lcm-tui --db {nothing} {line}") == Result(0, "\n", "")


def test_names_that_a_shell_would_obey_are_not_offered(
    database_copy: DatabaseFactory, monkeypatch: pytest.MonkeyPatch
):
    path = database_copy("0.15.3")
    with connect(path) as database:
        database.execute(
            "UPDATE conversations SET session_key = 'agent:$(touch x)' || conversation_id, title = ?",
            ("\x1b[31m,\n",),
        )
    line = f"lcm-tui --db {path} messages list --session-key "
    assert completed(monkeypatch, line).out == "\n"
    assert "\x1b" not in completed(monkeypatch, f"lcm-tui --db {path} context ", "fish").out


def completed(monkeypatch: pytest.MonkeyPatch, line: str, shell: str = "bash") -> Result:
    """What the program tells a shell that asks by its environment."""
    monkeypatch.setenv("_LCM_TUI_COMPLETE", f"{shell}_complete")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", "")
    return run()


@pytest.mark.long
def test_a_shell_asks_a_process():
    env = {"_LCM_TUI_COMPLETE": "bash_complete", "COMP_WORDS": "lcm-tui conv"}
    assert start(env=env).stdout == "plain,conversations\n"


@pytest.mark.parametrize("line", ["", " ", "lcm-tui 'conv", "lcm-tui --db", "lcm-tui --db=", "lcm-tui \\"])
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_that_asks_nonsense_gets_no_traceback(line: str, shell: str, monkeypatch: pytest.MonkeyPatch):
    asked = completed(monkeypatch, line, shell)
    assert asked.err == ""
    assert asked.code in (0, 1)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "powershell"])
def test_completion_prints_a_script_for_the_shell(shell: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: pytest.fail("a process was started"))
    assert "_LCM_TUI_COMPLETE" in run("--completion", shell).out


@pytest.mark.long
def test_the_script_of_bash_completes_a_key_behind_its_colons(database_file: DatabaseFactory):
    line = f"lcm-tui --db {database_file('0.15.3')} messages list --session-key agent:ops:m"
    program = f"env {sys.executable} -m lcm_tui"
    lines = (
        run("--completion", "bash").out.replace('"$1"', program),
        f"COMP_LINE='{line}' COMP_POINT=${{#COMP_LINE}}",
        "_lcm_tui_completion lcm-tui",
        'echo "${COMPREPLY[@]}"',
    )
    shell = shutil.which("bash")
    assert shell is not None
    done = subprocess.run([shell, "--norc", "-c", "\n".join(lines)], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("main\n", "")


def test_the_unexpected_is_one_sentence_and_a_private_log(
    database_file: DatabaseFactory, monkeypatch: pytest.MonkeyPatch
):
    def fail(*_: object) -> None:
        raise ZeroDivisionError("secret reason")

    monkeypatch.setattr(status, "status_document", fail)
    result = run("status", "--db", database_file("0.15.3"))
    log = logfile.log_path()
    assert (result.code, result.out) == (1, "")
    assert result.err == f"Unexpected error (ZeroDivisionError). The details are in {log}.\n"
    assert "secret reason" in log.read_text()
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    assert run("status", "--db", database_file("0.15.3"), "--json").error["code"] == "INTERNAL_ERROR"


def test_a_log_that_cannot_be_written_is_no_second_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(logfile, "log_path", lambda: tmp_path / "file" / "lcm-tui.log")
    (tmp_path / "file").touch()
    monkeypatch.setattr("lcm_tui.cli.main._outcome", lambda *_: 1 / 0)
    result = run("status")
    assert result.code == 1
    assert result.err.endswith("No log could be written.\n")


def test_a_full_log_is_put_aside_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "log" / "lcm-tui.log"
    monkeypatch.setattr(logfile, "log_path", lambda: path)
    monkeypatch.setattr(logfile, "MAX_BYTES", 10)
    handler = logfile.install()
    for text in ("first", "second", "third"):
        handler.handle(logging.LogRecord("x", logging.ERROR, "", 0, text, None, None))
    assert "third" in path.read_text()
    assert "second" in path.with_name("lcm-tui.log.1").read_text()
    assert len(list(path.parent.iterdir())) == 2


def test_what_goes_well_leaves_no_log(database_file: DatabaseFactory):
    assert main(["status", "--db", str(database_file("0.15.3")), "--json"]) == 0
    assert not logfile.log_path().exists()


def test_the_app_is_opened_with_the_settings(monkeypatch: pytest.MonkeyPatch, database_file: DatabaseFactory):
    from lcm_tui import app
    from lcm_tui.cli import main as launch

    opened: list[tuple[str, bool]] = []

    def run_app(settings: object, *, demo: bool = False) -> int:
        opened.append((str(settings.database.value), demo))
        return 0

    monkeypatch.setattr(launch, "has_terminal", lambda: True)
    monkeypatch.setattr("lcm_tui.cli.demo.has_terminal", lambda: True)
    monkeypatch.setattr(app, "run_app", run_app)
    path = str(database_file("0.15.3"))
    assert run("--db", path).code == 0
    assert opened == [(path, False)]
    demo = run("demo")
    assert demo.code == 0
    assert opened[1][1] is True
    assert "it is deleted" in demo.out
    assert not Path(opened[1][0]).exists()
    assert run("--json").code == 2
