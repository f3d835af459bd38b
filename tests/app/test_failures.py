"""What goes wrong ends in one sentence: in the app while it lives, else in the terminal, restored."""

from __future__ import annotations

import asyncio
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
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest
from lcm_core.api import DatabaseError, ExitCode
from lcm_core.base.records import Conversation

from lcm_tui.app import FIRST, LATER, LcmApp, WarmUp
from lcm_tui.kit import logfile, places
from lcm_tui.kit.session import Session
from lcm_tui.screens.conversation import ConversationScreen
from lcm_tui.screens.conversations import ConversationsScreen
from tests.app.support import NARROW, at, conversation, open_app, said, settled, shown_lines, wait_for
from tests.conftest import DatabaseFactory
from tests.support import sampled

ENTERED, LEFT = b"\x1b[?1049h", b"\x1b[?1049l"

#: The program, with something done to it first.
SCRIPT = """
import sys
from lcm_tui.cli.main import main
{patch}
sys.exit(main(sys.argv[1:]))
"""


class Ended(NamedTuple):
    code: int
    terminal: bytes  #: all that was written to it

    @property
    def left(self) -> str:
        """What stands in the terminal after the app has given it back."""
        return re.sub(r"\x1b\[[?>=<0-9;]*[A-Za-z]", "", self.terminal.rpartition(LEFT)[2].decode()).strip()


def run_in_terminal(
    path: Path, patch: str = "", *, when_drawn: Callable[[subprocess.Popen[bytes], int], None] | None = None
) -> Ended:
    """Run the app in a terminal of 80x24 until it ends; *when_drawn* gets it once the list is there."""
    controller, terminal = pty.openpty()
    termios.tcsetwinsize(terminal, (24, 80))
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT.format(patch=patch), "--db", str(path)],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        start_new_session=True,
    )
    os.close(terminal)
    drawn = b""
    while True:
        ready, _, _ = select.select([controller], [], [], 60)
        assert ready, "the app neither drew nor ended"
        try:
            piece = os.read(controller, 65536)
        except OSError:  # the other end is closed
            break
        drawn += piece
        if when_drawn is not None and b"Conversations" in drawn and b"last (" in drawn:
            when_drawn(process, controller)
            when_drawn = None
        if not piece:
            break
    os.close(controller)
    return Ended(process.wait(60), drawn)


def one_sentence(ended: Ended) -> str:
    """The one sentence that an app leaves behind."""
    assert ended.terminal.count(ENTERED) == ended.terminal.count(LEFT)
    assert b"Traceback" not in ended.terminal
    assert "\n" not in ended.left
    assert ended.left.endswith(".")
    assert len(ended.left) < 300
    return ended.left


# -- a database that cannot be opened ----------------------------------------------------------------------


@pytest.mark.long
def test_a_file_that_is_no_database_is_refused_before_anything_is_drawn(tmp_path: Path):
    path = tmp_path / "notes.txt"
    path.write_text("just text")
    ended = run_in_terminal(path)
    assert ended.code == ExitCode.DATABASE
    assert ENTERED not in ended.terminal
    assert "not a SQLite database" in one_sentence(ended)


@pytest.mark.long
def test_the_database_of_another_program_is_refused_after_the_terminal_is_restored(tmp_path: Path):
    path = tmp_path / "lcm.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE bookmarks (id INTEGER)")
    ended = run_in_terminal(path)
    assert ended.code == ExitCode.DATABASE
    assert "no table 'conversations'" in one_sentence(ended)


@pytest.mark.long
def test_a_locked_database_is_busy(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    patch = """
from lcm_core.store import database as handle
make = handle.Handle.__init__
handle.Handle.__init__ = lambda self, path, way, _, arrange: make(self, path, way, 0.05, arrange)
"""
    with closing(sqlite3.connect(path, isolation_level=None)) as host:
        host.execute("PRAGMA journal_mode = DELETE")
        host.execute("BEGIN EXCLUSIVE")
        ended = run_in_terminal(path, patch)
    assert ended.code == ExitCode.BUSY
    assert "is locked by another process" in one_sentence(ended)


@pytest.mark.long
def test_a_database_whose_list_cannot_be_read_leaves_no_process_behind(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    with closing(sqlite3.connect(path)) as connection:
        (page,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'messages'").fetchone()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
    content = bytearray(path.read_bytes())
    content[(page - 1) * size : page * size] = b"\xff" * size
    path.write_bytes(content)
    ended = run_in_terminal(path)
    assert ended.code == ExitCode.DATABASE
    assert "is damaged" in one_sentence(ended)


async def test_the_app_ends_with_the_code_of_what_kept_it_from_opening(tmp_path: Path):
    path = tmp_path / "lcm.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE bookmarks (id INTEGER)")
    async with open_app(path) as pilot:
        app = pilot.app
        assert isinstance(app, LcmApp)
        assert isinstance(app.failure, DatabaseError)
        assert app.return_value == ExitCode.DATABASE


# -- defects of ours ---------------------------------------------------------------------------------------

DEFECTS = {
    "in a handler": """
from lcm_tui.screens.conversation import ConversationScreen
from lcm_tui.screens.conversations import ConversationsScreen
def show(self, data): raise ValueError("a [red]defect[/] \\x1b[2J")
ConversationsScreen.show = show
""",
    "with its own rendering": """
from lcm_tui.screens.conversation import ConversationScreen
from lcm_tui.screens.conversations import ConversationsScreen
class Rendered(Exception):
    def __rich__(self): return "SHOWN BY TEXTUAL"
def show(self, data): raise Rendered()
ConversationsScreen.show = show
""",
    "while drawing": """
from lcm_tui.kit.lines import LineView
def drawn(self, rows): raise KeyError("x" * 100_000)
LineView.drawn = drawn
""",
    "in a worker that ends the app": """
from lcm_tui.screens.conversation import ConversationScreen
from lcm_tui.screens.conversations import ConversationsScreen
async def broken(): raise LookupError("nothing")
ConversationsScreen.show = lambda self, data: self.run_worker(broken())
""",
}


@pytest.mark.long
@pytest.mark.parametrize("where", DEFECTS)
def test_a_defect_ends_in_one_sentence_and_its_traceback_is_in_the_log(
    database_file: DatabaseFactory, where: str
):
    ended = run_in_terminal(database_file("0.15.3"), DEFECTS[where])
    assert ended.code == ExitCode.INTERNAL
    assert "an internal error" in one_sentence(ended)
    assert b"SHOWN BY TEXTUAL" not in ended.terminal
    assert ENTERED in ended.terminal
    logged = logfile.log_path().read_text()
    assert "Traceback (most recent call last)" in logged
    assert "the app failed" in logged


@pytest.mark.long
@pytest.mark.parametrize(
    "kind",
    sampled([signal.SIGINT, signal.SIGTERM, signal.SIGHUP], [signal.SIGHUP]),
    ids=lambda kind: kind.name,
)
def test_a_signal_to_end_restores_the_terminal(database_file: DatabaseFactory, kind: signal.Signals):
    ended = run_in_terminal(database_file("0.15.3"), when_drawn=lambda process, _: process.send_signal(kind))
    assert (ended.code, ended.left) == (0 if kind is signal.SIGINT else 128 + kind, "")
    assert ended.terminal.count(ENTERED) == ended.terminal.count(LEFT) == 1


@pytest.mark.long
def test_leaving_the_app_ends_the_process(database_file: DatabaseFactory):
    ended = run_in_terminal(
        database_file("0.15.3"), when_drawn=lambda _, terminal: os.write(terminal, b"q") and None
    )
    assert (ended.code, ended.left) == (ExitCode.DONE, "")
    assert not logfile.log_path().exists()


# -- work beside the keys ----------------------------------------------------------------------------------


async def test_work_that_fails_is_told_once_and_the_app_lives_on(
    database_file: DatabaseFactory, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    async def broken(screen: ConversationsScreen) -> None:
        raise ValueError("a defect")

    async with open_app(database_file("0.15.3")) as pilot:
        screen = pilot.app.screen
        assert at(screen, "Conversations")
        await settled(pilot)
        before = list(screen.list.table.keys)
        monkeypatch.setattr(ConversationsScreen, "fetch", broken)
        for _ in range(3):
            screen.data_changed()
            await settled(pilot)
        notes = [note for note in said(pilot) if "Something went wrong" in note]
        assert len(notes) == 1
        assert "defect" not in notes[0]
        assert list(screen.list.table.keys) == before
        assert "ValueError: a defect" in caplog.text
        await pilot.press("ctrl+r")  # the operator asks again, and is told again
        await settled(pilot)
        assert len([note for note in said(pilot) if "Something went wrong" in note]) == 2


@pytest.mark.cases(1)
@pytest.mark.parametrize("place", [places.Context, places.Summaries, places.Messages, places.Files])
async def test_what_cannot_be_read_is_said_in_its_place_until_it_is_read(
    database_file: DatabaseFactory,
    monkeypatch: pytest.MonkeyPatch,
    place: Callable[[Conversation], places.Place],
    caplog: pytest.LogCaptureFixture,
):
    async def broken(*_: object, **__: object) -> None:
        raise ImportError("no name 'Past'")

    async with open_app(database_file("0.15.3"), size=NARROW) as pilot:
        await settled(pilot)
        with monkeypatch.context() as patched:
            patched.setattr(Session, "read", broken)
            pilot.app.open_place(place(conversation(pilot, 1)))
            await settled(pilot)
            body = "".join("".join(shown_lines(pilot)[1:-1]).split())
            said = f"Cannotread:ImportError:noname'Past'.{logfile.log_path()}hasthedetails.^rtriesagain."
            assert said in body
            assert "Reading" not in body
        await pilot.press("ctrl+r")
        await settled(pilot)
        assert "Cannot read" not in "".join(shown_lines(pilot)[1:-1])
    assert "ImportError" in caplog.text


async def test_an_error_that_a_person_can_act_on_is_told_in_its_own_words(
    database_file: DatabaseFactory, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    async def refused(screen: ConversationsScreen) -> None:
        raise DatabaseError("It is [b]locked[/]: try again.")

    async with open_app(database_file("0.15.3")) as pilot:
        screen = pilot.app.screen
        assert at(screen, "Conversations")
        monkeypatch.setattr(ConversationsScreen, "fetch", refused)
        screen.load()
        await wait_for(pilot, lambda: "Cannot read: It is [b]locked[/]: try again." in said(pilot))
        assert not caplog.records


async def test_work_that_is_cancelled_before_it_began_leaves_no_warning(database_file: DatabaseFactory):
    done: list[int] = []

    async def work(number: int) -> None:
        done.append(number)

    async with open_app(database_file("0.15.3")) as pilot:
        screen = pilot.app.screen
        assert at(screen, "Conversations")
        for number in range(5):
            screen.work_on("something", work, number)
        await settled(pilot)
        assert done == [4]
        for number in range(3):
            screen.work_on("something", work, number, exclusive=False)
        await settled(pilot)
        assert done == [4, 0, 1, 2]


@pytest.mark.long
async def test_a_screen_loads_once_when_it_opens_and_changes_amount_to_one_more(
    database_file: DatabaseFactory, monkeypatch: pytest.MonkeyPatch
):
    fetched: list[ConversationScreen] = []
    original = ConversationScreen.fetch

    async def fetch(screen: ConversationScreen) -> object:
        fetched.append(screen)
        return await original(screen)

    monkeypatch.setattr(ConversationScreen, "fetch", fetch)
    async with open_app(database_file("0.15.3")) as pilot:
        await settled(pilot)
        await pilot.press("enter")
        await wait_for(pilot, lambda: at(pilot.app.screen, "Conversation "))
        await settled(pilot)
        screen = pilot.app.screen
        assert fetched == [screen]
        assert at(screen, "Conversation ")
        screen.load()
        await wait_for(pilot, lambda: len(fetched) == 2)
        for _ in range(10):
            screen.load()  # more, while that one runs or rests
        await settled(pilot)
        assert len(fetched) == 3


@pytest.mark.long
async def test_a_change_is_noticed_after_a_screen_failed_to_follow_it(
    database_copy: DatabaseFactory, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    def broken(screen: ConversationsScreen) -> None:
        raise ValueError("a defect")

    path = database_copy("0.15.3")
    async with open_app(path) as pilot:
        await settled(pilot)
        with monkeypatch.context() as patched:
            patched.setattr(ConversationsScreen, "data_changed", broken)
            os.utime(path)
            await wait_for(pilot, lambda: "a defect" in caplog.text)
        with closing(sqlite3.connect(path)) as host:
            host.execute("UPDATE conversations SET title = 'followed again'")
            host.commit()
        screen = pilot.app.screen
        assert at(screen, "Conversations")
        await wait_for(
            pilot,
            lambda: any(row.conversation.title == "followed again" for row in screen.list.rows.values()),
        )


@pytest.mark.long
async def test_a_screen_that_cannot_be_imported_ahead_ends_nothing(
    database_file: DatabaseFactory, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    tried: list[str] = []
    done: list[str] = []

    def broken(name: str) -> None:
        tried.append(name)
        raise ImportError(f"no {name}")

    async def rest(warm_up: WarmUp) -> None:
        done.append("rests")

    monkeypatch.setattr("lcm_tui.app.WARM_UP_SECONDS", 0)
    monkeypatch.setattr("lcm_tui.app.REST_SECONDS", 0)
    monkeypatch.setattr("lcm_tui.app.CALM_SECONDS", 0.01)
    monkeypatch.setattr("lcm_tui.app.importlib.import_module", broken)
    monkeypatch.setattr("lcm_tui.app.gc.freeze", lambda: done.append("frozen"))
    monkeypatch.setattr("lcm_tui.app.gc.set_threshold", lambda *_: None)
    monkeypatch.setattr(WarmUp, "_collect_at_rest", rest)
    async with open_app(database_file("0.15.3")) as pilot:
        assert isinstance(pilot.app, LcmApp)
        ahead = asyncio.create_task(pilot.app._warm_up.run())
        await wait_for(pilot, lambda: FIRST[-1] in tried)
        await pilot.pause(0.1)
        assert tried == [*FIRST]  # whoever presses no key opens no screen
        pilot.app.session.key_at = time.monotonic()
        await ahead
    assert tried == [*FIRST, *LATER]
    assert done == ["frozen", "frozen", "rests"]
    assert "lcm_tui.screens.dag cannot be imported" in caplog.text


async def test_nothing_is_imported_ahead_while_keys_come(
    database_file: DatabaseFactory, monkeypatch: pytest.MonkeyPatch
):
    tried: list[str] = []
    monkeypatch.setattr("lcm_tui.app.WARM_UP_SECONDS", 60)
    monkeypatch.setattr("lcm_tui.app.import_ahead", tried.append)
    monkeypatch.setattr("lcm_tui.app.gc.freeze", lambda: tried.append("frozen"))
    monkeypatch.setattr("lcm_tui.app.gc.set_threshold", lambda *_: None)
    async with open_app(database_file("0.15.3")) as pilot:
        app = pilot.app
        assert isinstance(app, LcmApp)
        app.session.key_at = time.monotonic()
        ahead = asyncio.create_task(app._warm_up.run())
        await wait_for(pilot, lambda: tried == ["frozen"])
        await pilot.pause(0.1)
        assert tried == ["frozen"]
        ahead.cancel()
