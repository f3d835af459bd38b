"""The app and the terminal it runs in."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import sqlite3
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual import events

from lcm_tui.kit import logfile, terminal
from lcm_tui.kit.terminal import Received
from tests.app.test_failures import one_sentence, run_in_terminal
from tests.conftest import DatabaseFactory
from tests.support import sampled

PASTE = b"\x1b[200~"
PASTE_END = b"\x1b[201~"

# -- what comes from the terminal --------------------------------------------------------------------------


def taken(*pieces: bytes | float) -> list[str]:
    """What is made of bytes and pauses (in seconds): keys as text, pastes in brackets."""
    received, now = Received(), 100.0
    found: list[str | events.Paste] = []
    for piece in (*pieces, 2.0):
        if isinstance(piece, bytes):
            found += received.take(piece, now)
            continue
        end = now + piece
        while now < end:
            now = min(now + terminal.QUIET_SECONDS, end)
            found += received.pause(now)
    told: list[str] = []
    for one in found:
        if isinstance(one, events.Paste):
            told.append(f"<{one.text}>")
        elif told and not told[-1].startswith("<"):
            told[-1] += one
        else:
            told.append(one)
    return told


def split_everywhere(sent: bytes) -> Iterable[tuple[bytes, bytes]]:
    return ((sent[:at], sent[at:]) for at in range(len(sent) + 1))


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        (b"q", ["q"]),
        ("é漢🙂".encode(), ["é漢🙂"]),
        (b"\x1b[A\x1bOP\x1b[1;5C", ["\x1b[A\x1bOP\x1b[1;5C"]),
        (b"\x1b[<35;97;4M", ["\x1b[<35;97;4M"]),
        ("é".encode("latin-1") + b"q", ["q"]),
        ("привет".encode("koi8-r") + b"?", ["?"]),
        ("日本".encode("shift-jis")[:1] + b"q", ["q"]),
        (b"a\xf0\x9fb", ["ab"]),
        (b"\xff\xfe\x80q", ["q"]),
        (b"\xed\xa0\x80q", ["q"]),  # half a pair of surrogates
        (b"\x1b[M" + bytes([32, 32 + 140, 52]) + b"q", ["q"]),
        (b"\x1b[M !!q", ["q"]),
        (b"".join(b"\x1b[M" + bytes([67, 128 + one, 40]) for one in range(60)) + b"?", ["?"]),
        (PASTE + b"abc" + PASTE_END, ["<abc>"]),
        (b"a" + PASTE + b"b" + PASTE_END + b"c", ["a", "<b>", "c"]),
        (PASTE + PASTE_END + b"q", ["<>", "q"]),
        (PASTE + b"a\x1b[31mad hoc" + PASTE_END, ["<a[31mad hoc>"]),
        (PASTE + b"a\x1b\x1bq\x1b[M   \x1b]0;x\x07y" + PASTE_END, ["<aq[M   ]0;xy>"]),
        (PASTE + b"a\xffb\xe9" + PASTE_END, ["<a\ufffdb\ufffd>"]),
        (PASTE + b"a\r\nb\rc\td\x00\x7f" + "\x9b1m".encode() + PASTE_END, ["<a\nb\nc\td1m>"]),
        # What is pasted may hold the marks itself.
        (PASTE + b"x" + PASTE_END + b"a\r" + PASTE_END + b"q", ["<x[201~a\n>", "q"]),
        (PASTE + b"x" + PASTE_END + b"a\r" + PASTE + b"y" + PASTE_END, ["<x[201~a\n[200~y>"]),
        (PASTE + PASTE + b"x" + PASTE_END, ["<[200~x>"]),
    ],
)
def test_bytes_are_keys_or_a_paste_however_they_are_cut(sent: bytes, expected: list[str]):
    for first, second in split_everywhere(sent):
        assert taken(first, second) == expected
    assert taken(*(bytes([one]) for one in sent)) == expected


def test_pastes_with_a_pause_between_them_are_two_and_keys_between_them_are_keys():
    first, second = PASTE + b"a" + PASTE_END, PASTE + b"b" + PASTE_END
    assert taken(first, 0.1, b"\r", 0.1, second) == ["<a>", "\r", "<b>"]


def test_a_pause_in_a_paste_ends_nothing():
    assert taken(PASTE + b"a", 5.0, b"qqq\x1b", 5.0, b"[A" + PASTE_END) == ["<aqqq[A>"]


def test_a_paste_whose_end_got_lost_is_given_up_with_escape_or_ctrl_c():
    for key in (b"\x1b", b"\x03", b"\x1b[27u", b"\x1b[99;5u"):
        assert taken(PASTE + b"a", 1.5, key, 0.2, b"q") == ["<a>", f"{key.decode()}q"]
        assert taken(PASTE + b"a", 0.1, key, 0.2, PASTE_END)[0].startswith("<a")


def test_keys_behind_a_paste_do_not_wait_until_they_pause():
    repeated = [piece for _ in range(100) for piece in (b"j", 0.01)]
    told = taken(PASTE + b"a" + PASTE_END, 0.01, *repeated)
    assert told == ["<a>", "j" * 100]


def test_an_escape_key_is_not_held_back_for_more_than_a_moment():
    received = Received()
    assert list(received.take(b"\x1b", 1.0)) == []
    assert received.waits
    assert list(received.pause(1.0 + terminal.QUIET_SECONDS)) == ["\x1b"]
    assert not received.waits


def test_a_paste_of_any_size_takes_no_time_and_bounded_room():
    sent = PASTE + b"\x1b" * 20_000_000 + b"q" + PASTE_END
    begun = time.process_time()
    told = taken(*(sent[at : at + 65536] for at in range(0, len(sent), 65536)))
    assert told == ["<q>"]
    assert time.process_time() - begun < 5


def test_a_paste_that_is_too_long_loses_its_middle():
    told = taken(PASTE, *([b"a" * 65536] * 200), b"b" + PASTE_END, 0.1, b"q")
    assert told[1:] == ["q"]
    assert told[0].endswith("ab>")
    assert 1_000_000 < len(told[0]) < 5_000_000


@given(
    st.lists(st.binary(max_size=9) | st.sampled_from([PASTE, PASTE_END, b"\x1b", b"\x1b[M", 0.03, 0.6, 1.5]))
)
def test_whatever_comes_a_paste_is_no_key_and_keys_are_text(pieces: list[bytes | float]):
    held = b"".join(one for one in pieces if isinstance(one, bytes))
    told = taken(*pieces, PASTE_END, 0.1, b"?")
    assert told[-1].endswith("?")
    assert all("\ufffd" not in one for one in told if not one.startswith("<"))
    if PASTE not in held and b"\x1b[M" not in held and PASTE_END not in held:
        keys = "".join(one for one in told if not one.startswith("<"))
        assert held.decode("utf-8", "ignore") in keys or "\x1b" in keys


# -- the app in a terminal ---------------------------------------------------------------------------------


class InTerminal:
    """A program in a terminal of 80x24."""

    def __init__(self, *command: str, **environment: str) -> None:
        self.end, inner = pty.openpty()
        termios.tcsetwinsize(inner, (24, 80))
        ours = {"PYTHONPATH": os.pathsep.join(sys.path), "TERM": "xterm-256color"}
        self.process = subprocess.Popen(
            command,
            stdin=inner,
            stdout=inner,
            stderr=inner,
            env={**os.environ, **ours, **environment},
            preexec_fn=lambda: os.login_tty(os.dup(inner)),
        )
        os.close(inner)
        self.seen = b""

    def send(self, sent: bytes) -> None:
        os.write(self.end, sent)

    def until(self, text: bytes) -> None:
        """Wait for what was not seen yet."""
        end = time.monotonic() + 60
        while text not in self.seen:
            assert time.monotonic() < end, f"{text!r} does not come: {self.seen[-2000:]!r}"
            if select.select([self.end], [], [], 0.2)[0]:
                self.seen += os.read(self.end, 65536)
        self.seen = self.seen.partition(text)[2]

    def quiet(self) -> None:
        """Wait until nothing has been drawn for a second."""
        while select.select([self.end], [], [], 1.0)[0]:
            self.seen += os.read(self.end, 65536)

    def ended(self) -> int:
        """The exit code; what is written meanwhile is read."""
        end = time.monotonic() + 60
        while self.process.poll() is None:
            assert time.monotonic() < end, "it does not end"
            if select.select([self.end], [], [], 0.1)[0]:
                try:
                    self.seen += os.read(self.end, 65536)
                except OSError:
                    break
        code = self.process.wait(60)
        os.close(self.end)
        return code


def app_on(path: Path, **environment: str) -> InTerminal:
    return InTerminal(sys.executable, "-m", "lcm_tui", "--db", str(path), **environment)


HOSTILE = (
    "é".encode("latin-1"),
    b"\xf0\x9f",
    b"\x1b[M" + bytes([32, 32 + 140, 52]),
    b"\x1b[M\xff\xff\xff" * 30,
    b"\x1b[99999999999;5u",
    b"\x1b[1114112;1u",
    b"\x1b[97;;55296u",
    b"\x1b[55296;1u",
    b"\x1b[97;9999999999999999999u",
    b"\x1b[<99999;99999999;99999999M",
    b"\x1b[<0;0;0M\x1b[<0;-5;-5m",
    b"\x1b[48;99999999;99999999;0;0t\x1b[<0;5;5M",
    b"\x1b[48;0;0;0;0t\x1b[<0;5;5M",
    PASTE + b"a\xffb\xe9" + PASTE_END,
    PASTE + b"q\x1bq\x1b[31mqq\x03" + PASTE_END,
    PASTE + b"\x1b[31mq" * 10_000 + PASTE_END,
)


@pytest.mark.long
def test_the_app_runs_on_whatever_the_terminal_sends(database_file: DatabaseFactory):
    app = app_on(database_file("0.15.3"))
    app.until(b"Conversations")
    for sent in HOSTILE:
        app.send(sent)
        time.sleep(0.05)
    app.send(b"?")
    app.until(b"ype to filter")
    app.send(b"\x03")
    assert app.ended() == 0
    assert not logfile.log_path().exists() or "Traceback" not in logfile.log_path().read_text()


@pytest.mark.long
def test_a_paste_commits_nothing_in_an_open_preview(database_copy: DatabaseFactory, tmp_path: Path):
    path = database_copy("0.15.3")
    config = tmp_path / "config.toml"
    config.write_text("backup_offer_mb = 0\n")  # no question comes before the commit

    def archived() -> int:
        with closing(sqlite3.connect(path)) as connection:
            found: tuple[int] = connection.execute(
                "SELECT count(*) FROM conversations WHERE archived_at IS NOT NULL"
            ).fetchone()
            return found[0]

    before = archived()
    app = app_on(path, LCM_TUI_CONFIG=str(config))
    app.until(b"Conversations")
    app.send(b"K")
    app.until(b"not applied yet")
    app.until(b"Apply")
    time.sleep(0.5)
    for pasted in (
        b"\x1b[31mad hoc",
        b"a\ra\ry",
        b"x\x1b[201~a\ry",
        b"x\x1b[201~a\x1b[200~a",
        b"\x1bOa\x1b\x1ba\xff",
    ):
        app.send(PASTE + pasted + PASTE_END)
        time.sleep(0.1)
    app.send(b"?")
    app.until(b"ype to filter")
    app.send(b"\x03")
    assert app.ended() == 0
    assert archived() == before


THREADS = {
    "reading": """
import os
from lcm_tui.kit import terminal
def broken(self): raise RuntimeError("a defect")
terminal.TerminalDriver._read = broken
""",
    "parsing": """
from lcm_tui.kit import terminal
terminal.XTermParser.tick = lambda self: [][0]
""",
    "drawing": """
from lcm_tui.kit import terminal
write, left = terminal._Terminal.write, [3]
def broken(self, data):
    left[0] -= 1
    if left[0] == 0: raise RuntimeError("a defect")
    return write(self, data)
terminal._Terminal.write = broken
""",
}


@pytest.mark.long
@pytest.mark.parametrize("where", THREADS)
def test_an_error_in_a_thread_of_the_library_ends_in_one_sentence(database_file: DatabaseFactory, where: str):
    ended = run_in_terminal(
        database_file("0.15.3"), THREADS[where], when_drawn=lambda _, end: os.write(end, b"x") and None
    )
    assert ended.code == 1
    assert "an internal error" in one_sentence(ended)
    logged = logfile.log_path().read_text()
    assert "Traceback" in logged
    assert "failed" in logged


@pytest.mark.long
@pytest.mark.parametrize(
    "named",
    sampled(
        [
            "nonsense",
            "",
            ":",
            "os:path",
            "lcm_tui.app:LcmApp",
            "no.such.module:Driver",
            ".x:y",
            "\x1b[2J" * 99,
        ],
        ["nonsense", "lcm_tui.app:LcmApp", "\x1b[2J" * 99],
    ),
)
def test_a_driver_that_is_none_is_a_sentence(database_file: DatabaseFactory, named: str):
    app = app_on(database_file("0.15.3"), TEXTUAL_DRIVER=named)
    assert app.ended() == 4
    left = app.seen.decode()
    assert re.fullmatch(r"TEXTUAL_DRIVER is .+, which is no driver of Textual.+\.\r\n", left), left


@pytest.mark.long
@pytest.mark.parametrize(
    "size",
    sampled(
        ["99999999", "-5", "words", "²", "9" * 5000, "0", "1e3", "٣", "10000"],
        ["99999999", "words", "9" * 5000],
    ),
)
def test_no_size_of_the_environment_stops_the_app(database_file: DatabaseFactory, size: str):
    app = app_on(database_file("0.15.3"), COLUMNS=size, LINES=size)
    app.until(b"Conversations")
    app.send(b"q")
    assert app.ended() == 0


def test_no_variable_of_the_library_stops_the_app(database_file: DatabaseFactory):
    odd = {
        "TEXTUAL_COLOR_SYSTEM": "x",
        "TEXTUAL_LOG": "/nowhere/x",
        "TEXTUAL_FPS": "9" * 20,
        "ESCDELAY": "9" * 999,
    }
    app = app_on(
        database_file("0.15.3"), **odd, TEXTUAL_SCREENSHOT="0", TEXTUAL_THEME="x", TEXTUAL="x", TERM="x"
    )
    app.until(b"Conversations")
    app.send(b"q")
    assert app.ended() == 0


@pytest.mark.long
def test_a_process_that_nobody_could_continue_does_not_stop(database_file: DatabaseFactory):
    app = app_on(database_file("0.15.3"))
    app.until(b"Conversations")
    for sent in (signal.SIGTSTP, signal.SIGCONT, signal.SIGCONT, signal.SIGTSTP):
        app.process.send_signal(sent)
        time.sleep(0.3)
    app.send(b"\x1a")
    time.sleep(0.5)
    app.send(b"q")
    assert app.ended() == 0


@pytest.mark.long
@pytest.mark.parametrize("stop", ["ctrl-z", "SIGTSTP", "SIGSTOP", "twice", "in the background"])
def test_a_job_that_is_stopped_and_continued_ends(database_file: DatabaseFactory, stop: str):
    shell = InTerminal("bash", "--norc", "-i", PS1="READY> ", HISTFILE="")
    shell.until(b"READY>")
    shell.send(f"{sys.executable} -m lcm_tui --db {database_file('0.15.3')}\r".encode())
    shell.until(b"Conversations")
    for _ in range(2 if stop == "twice" else 1):
        if stop in ("SIGTSTP", "SIGSTOP"):
            children = subprocess.run(
                ["ps", "-o", "pid=", "--ppid", str(shell.process.pid)], capture_output=True
            )
            os.kill(int(children.stdout.split()[0]), getattr(signal, stop))
        else:
            shell.send(b"\x1a")
        shell.until(b"READY>")
        if stop == "in the background":
            shell.send(b"bg\r")
            time.sleep(1)
        shell.send(b"fg\r")
        shell.until(b"Conversations")
    time.sleep(0.5)
    shell.send(b"q")
    shell.until(b"READY>")
    shell.send(b"exit\r")
    assert shell.ended() == 0


@pytest.mark.long
def test_the_app_ends_when_its_terminal_goes_away(database_file: Callable[[str], Path]) -> None:
    app = app_on(database_file("0.15.3"))
    app.until(b"Conversations")
    os.close(app.end)
    assert app.process.wait(60) == 129


@pytest.mark.long
def test_a_screen_that_comes_back_is_drawn_once(database_file: DatabaseFactory):
    app = app_on(database_file("0.15.3"))
    app.until(b"Conversations")
    app.send(b"\r")
    app.until(b"Conversation 1")
    app.quiet()
    app.seen = b""
    app.send(b"\x1b")
    app.until(b"Conversations")
    app.quiet()
    assert b"Conversations" not in app.seen
    app.send(b"q")
    assert app.ended() == 0
