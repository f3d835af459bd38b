"""What TAB completes in the shells that are there: words, paths, and names out of the database."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.support import run
from tests.conftest import DatabaseFactory

#: What is typed before TAB, and what the line then has, which nothing else in it has.
TYPED = (
    ("lcm-tui conver", "conversations"),
    ("lcm-tui --db disti", "distinct.db"),
    ("lcm-tui --db=disti", "--db=distinct.db"),
    ("lcm-tui --db distinct.db show sum_bb692", "sum_bb692ab9b90b6a49"),
    ("lcm-tui --db distinct.db messages list --session-key agent:ops:m", "agent:ops:main"),
    ("lcm-tui compact 1 --set freshT", "freshTailCount="),
    ("lcm-tui config get freshTailC", "freshTailCount"),
    ("lcm-tui --db distinct.db history undo op_", "OPERATION"),
)
START = {
    "bash": ["--norc", "--noprofile", "-i"],
    "zsh": ["-f", "-i"],
}
_COLORS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]|\r|\x08")


@pytest.fixture
def place(tmp_path: Path, database_copy: DatabaseFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a database that has a history, and ``lcm-tui`` on PATH."""
    shutil.copy(database_copy("0.15.3"), tmp_path / "distinct.db")
    done = run("dissolve", "sum_4c4b", "--db", tmp_path / "distinct.db", "--apply", "--yes")
    assert done.code == 0, done.err
    program = tmp_path / "bin" / "lcm-tui"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m lcm_tui "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TERM", "xterm")
    return tmp_path


def shell_program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not here")
    return found


def operation_in(place: Path) -> str:
    listed = run("history", "list", "--db", place / "distinct.db", "--json").data["items"]
    return str(listed[0]["operationId"])


def script_of(place: Path, shell: str) -> Path:
    path = place / f"completion.{shell}"
    path.write_text(run("--completion", shell).out)
    return path


class Typing:
    """A shell at a terminal."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def send(self, text: str) -> None:
        os.write(self.descriptor, text.encode())

    def until(self, wanted: str, seconds: float = 20.0) -> str:
        """What it shows until *wanted* is there."""
        shown, end = "", time.monotonic() + seconds
        while time.monotonic() < end:
            if select.select([self.descriptor], [], [], 0.1)[0]:
                shown += os.read(self.descriptor, 65_536).decode(errors="replace")
                if wanted in _COLORS.sub("", shown):
                    return shown
        pytest.fail(f"{wanted!r} is not in {_COLORS.sub('', shown)!r}")


@contextmanager
def typing_in(shell: str, place: Path) -> Iterator[Typing]:
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [shell_program(shell), *START[shell]],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        cwd=place,
        start_new_session=True,
        env={**os.environ, "COLUMNS": "200", "LINES": "50"},
    )
    os.close(slave)
    try:
        yield Typing(master)
    finally:
        process.kill()
        process.wait()
        os.close(master)


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_tab_completes_what_was_begun(shell: str, place: Path):
    script = script_of(place, shell)
    operation = operation_in(place)
    with typing_in(shell, place) as at:
        at.send("stty cols 200; PS1='> '\n")
        if shell == "zsh":
            at.send("autoload -U compinit; compinit -D -u\n")
        at.send(f"source {script}; echo re''ady\n")
        at.until("ready")
        for line, expected in TYPED:
            at.send(f"{line}\t")
            at.until(operation if expected == "OPERATION" else expected)
            at.send("\x15")


def test_fish_shows_whole_descriptions(place: Path):
    script, fish = script_of(place, "fish"), shell_program("fish")

    def completed(line: str) -> list[str]:
        words = [fish, "--no-config", "-c", f"source {script}; complete -C '{line}'"]
        return subprocess.run(
            words, capture_output=True, text=True, cwd=place, check=True
        ).stdout.splitlines()

    operation = operation_in(place)
    for line, expected in TYPED:
        wanted = operation if expected == "OPERATION" else expected
        assert any(one.startswith(wanted) for one in completed(line)), (line, completed(line))
    [history] = completed("lcm-tui histo")
    assert history == "history\twhat lcm-tui changed in this database; undo and redo"
    [role] = completed("lcm-tui messages list --rol")
    assert role.endswith("Only this role (system, user, assistant, tool); may be given several times.")
