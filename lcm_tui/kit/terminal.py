"""The terminal that the app is drawn on: what comes from it, the operator's editor, and keys typed ahead."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import io
import logging
import os
import re
import select
import shlex
import signal
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar
from weakref import WeakKeyDictionary, WeakSet

from lcm_core.base.errors import ConfigurationError, LcmError
from lcm_core.base.text import abridged, safe_line
from rich.console import Console, RenderableType
from textual import constants, events
from textual._xterm_parser import XTermParser
from textual.app import App
from textual.driver import Driver
from textual.drivers.linux_driver import LinuxDriver
from textual.message import Message
from textual.screen import ModalScreen, Screen
from textual.worker import WorkerFailed

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


# The parser has no public name: Textual's driver reads bytes and parses them in one function, which ends with
# the first byte that is no UTF-8 and takes what is pasted for keys (tests/app/test_terminal.py).


# -- the terminal ----------------------------------------------------------------------------------------
# What comes from it passes here; it may disappear at any moment.

log = logging.getLogger(__name__)

PASTE: Final = b"\x1b[200~"
PASTE_END: Final = b"\x1b[201~"
#: An old mouse report: three bytes follow, each 32 more than what it says, which need be no UTF-8.
OLD_MOUSE: Final = b"\x1b[M"
_BEGINNINGS: Final = re.compile(re.escape(PASTE) + b"|" + re.escape(OLD_MOUSE) + rb"[\x20-\xff]{0,3}")
#: The beginning of one of them at the end of what was read: the longest first.
_CUT: Final = tuple(PASTE[:length] for length in range(len(PASTE) - 1, 0, -1))
#: What ends a paste whose end mark got lost, if it comes alone: esc or ctrl-c, also as kitty sends them.
_GIVEN_UP: Final = re.compile(rb"\x03|\x1b(\[(27|99;5)(;1)?u)?")

#: Nothing came for so long: what was sent at once has been read (a key that is held down comes every 30 ms).
QUIET_SECONDS: Final = 0.02
#: Nobody types the beginning of a mark that is longer than alt with a bracket: it waits so long for its end.
CUT_SECONDS: Final = 0.5
#: How long keys wait at most behind the end of a paste, should they never pause.
PASTE_HOLD_SECONDS: Final = 0.5
#: A paste that is not ended can be given up when nothing came for so long.
STALLED_SECONDS: Final = 1.0
#: A paste may have so many bytes; of a longer one the middle is dropped.
PASTE_BYTES: Final = 4_000_000
_PASTE_KEPT: Final = 1_000_000
#: How often the thread that draws goes on after an error.
_DRAWN_AGAIN: Final = 1000
#: Columns and rows that a terminal may have: each cell is drawn.
LARGEST: Final = 1000
_LOOK_SECONDS: Final = 0.1
#: Nothing came for so long: nothing that was read waits for a pause any more.
_IDLE_SECONDS: Final = 5.0
_READ_BYTES: Final = 65536


class Received:
    """The bytes of a terminal, taken apart into text for the parser of keys and pastes
    (docs/spec/decisions.md, "What a terminal sends").
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._cut = b""  #: what may be the beginning of a mark or of an old mouse report
        self._paste: bytearray | None = None  #: begun: all that came since its mark
        self._ended_at: float | None = None  #: when an end mark was last seen in it
        self._last_at = 0.0  #: when something came last
        self._stalled = False  #: nothing has come for so long that a paste can be given up

    @property
    def waits(self) -> bool:
        """Whether a pause decides what to do with something that was read."""
        return bool(self._cut) or self._ended_at is not None

    def take(self, data: bytes, now: float) -> Iterator[str | events.Paste]:
        """What came at a time (monotonic, in seconds), as far as it is certain what it is."""
        stalled, self._stalled, self._last_at = self._stalled, False, now
        if self._paste is None:
            yield from self._typed(data, now)
        elif stalled and self._ended_at is None and _GIVEN_UP.fullmatch(data):
            yield from self._pasted(self._paste, data, now)
        else:
            self._go_on_pasting(self._paste, data, now)
            if self._ended_at is not None and now - self._ended_at > PASTE_HOLD_SECONDS:
                yield from self._ended(self._paste, now)

    def pause(self, now: float) -> Iterator[str | events.Paste]:
        """Nothing has come until now: what waited for more of the same has all of it."""
        passed = now - self._last_at
        self._stalled = passed > STALLED_SECONDS
        if self._paste is not None and self._ended_at is not None and passed >= QUIET_SECONDS:
            yield from self._ended(self._paste, now)
        elif self._cut and passed >= (QUIET_SECONDS if len(self._cut) < len(OLD_MOUSE) else CUT_SECONDS):
            cut, self._cut = self._cut, b""
            if not cut.startswith(OLD_MOUSE):
                yield from self._text(cut)

    def _typed(self, data: bytes, now: float) -> Iterator[str | events.Paste]:
        data, self._cut = self._cut + data, b""
        while (mark := _BEGINNINGS.search(data)) is not None:
            yield from self._text(data[: mark.start()])
            if mark[0] == PASTE:
                self._paste = bytearray()
                self._go_on_pasting(self._paste, data[mark.end() :], now)
                return
            if len(mark[0]) < len(OLD_MOUSE) + 3 and mark.end() == len(data):
                self._cut = mark[0]
                return
            data = data[mark.end() :]
        self._cut = next((cut for cut in _CUT if data.endswith(cut)), b"")
        yield from self._text(data.removesuffix(self._cut))

    def _text(self, data: bytes) -> Iterator[str]:
        """What is no text was typed by nobody."""
        if text := self._decoder.decode(data).replace("\ufffd", ""):
            yield text

    def _go_on_pasting(self, paste: bytearray, data: bytes, now: float) -> None:
        seen = max(len(paste) - len(PASTE_END), 0)
        paste += data
        if paste.find(PASTE_END, seen) >= 0:
            self._ended_at = now
        if len(paste) > PASTE_BYTES:
            del paste[_PASTE_KEPT : -2 * _READ_BYTES]

    def _ended(self, paste: bytearray, now: float) -> Iterator[str | events.Paste]:
        """A paste ends with the last end mark before a pause: what is pasted may contain others."""
        self._ended_at = None
        pasted, mark, rest = paste.rpartition(PASTE_END)
        if not mark:  # it was in the middle that was dropped
            return
        yield from self._pasted(pasted, bytes(rest), now)

    def _pasted(self, pasted: bytearray, rest: bytes, now: float) -> Iterator[str | events.Paste]:
        self._paste = None
        yield events.Paste(without_controls(pasted.decode("utf-8", "replace")))
        yield from self._typed(rest, now)


_CONTROLS: Final = {code: None for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\t\n"}


def without_controls(pasted: str) -> str:
    """A text that was pasted, with its lines and tabs: no character of it can be a command to a terminal."""
    return re.sub(r"\r\n?", "\n", pasted).translate(_CONTROLS)


class TerminalDriver(LinuxDriver):
    """Textual's driver, reading through `Received`, and stopping and going on in the event loop.

    Textual stops in the handler of the signal: whatever the handler interrupts may hold a lock that it needs,
    and what is drawn while the terminal belongs to others fills a queue that nobody empties.
    """

    def __init__(
        self, app: App[Any], *, debug: bool = False, mouse: bool = True, size: tuple[int, int] | None = None
    ) -> None:
        super().__init__(app, debug=debug, mouse=mouse, size=size)
        self._events = asyncio.get_running_loop()
        self._away = False  #: the terminal was given back
        self._lent = False  #: to a program that we wait for
        self._stopping = False
        self._gone = app.leave_with_terminal if isinstance(app, TerminalApp) else lambda: None
        self._wakes, self._wake = os.pipe()  #: ends the wait of the thread that reads, until the process ends
        signal.signal(signal.SIGTSTP, self._on_stop)
        signal.signal(signal.SIGCONT, self._on_continue)

    @contextmanager
    def no_automatic_restart(self) -> Iterator[None]:
        """Who continues us meanwhile does not give the terminal back to us."""
        self._lent = True
        try:
            with super().no_automatic_restart():
                yield
        finally:
            self._lent = False

    def _on_stop(self, number: int, frame: FrameType | None) -> None:
        self._stopping = True
        self._events.call_soon_threadsafe(self._stop)

    def _on_continue(self, number: int, frame: FrameType | None) -> None:
        self._stopping = False
        if not self._lent:
            self._events.call_soon_threadsafe(self._go_on, self._away)

    def _stop(self) -> None:
        """Stop the process, as the signal does by itself: not at all where no shell could continue it."""
        if not (self._away or self._lent):
            self.suspend_application_mode()
        if self._stopping:
            signal.signal(signal.SIGTSTP, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGTSTP)
            signal.signal(signal.SIGTSTP, self._on_stop)
            self._stopping = False
        if not self._lent:
            self.resume_application_mode()

    def _go_on(self, stopped_by_us: bool) -> None:
        if not (stopped_by_us or self._away):  # by SIGSTOP: a shell has used the terminal since
            self.suspend_application_mode()
        self.resume_application_mode()

    def suspend_application_mode(self) -> None:
        """Give the terminal back for a while."""
        super().suspend_application_mode()
        self._away = True

    def resume_application_mode(self) -> None:
        """Take the terminal again, once only, as soon as we are in its foreground."""
        if not self._away:
            return
        if in_background(self.fileno):
            self._events.call_later(_LOOK_SECONDS, self.resume_application_mode)
            return
        self._away = False
        super().resume_application_mode()
        self.process_message(self.SignalResume())

    def stop_application_mode(self) -> None:
        """Restore the terminal, unless that is done: to touch it from the background would stop us."""
        if not self._away:
            super().stop_application_mode()

    def write(self, data: str) -> None:
        """Draw, unless the terminal is with others: all is drawn again then."""
        if not self._away:
            super().write(data)

    def run_input_thread(self) -> None:
        """Read what the terminal sends until the app ends."""
        received, self._parser = Received(), XTermParser()
        heard_at = time.monotonic()
        while not self.exit_event.is_set():
            silence = time.monotonic() - heard_at
            soon = received.waits or silence < 2 * _LOOK_SECONDS
            pause = QUIET_SECONDS if soon else _LOOK_SECONDS if silence < _IDLE_SECONDS else None
            ready, _, _ = select.select([self.fileno, self._wakes], [], [], pause)
            data = self._read() if self.fileno in ready else b""
            now = time.monotonic()
            if data:
                heard_at = now
            for piece in received.take(data, now) if data else received.pause(now):
                if isinstance(piece, events.Paste):
                    self.process_message(piece)
                else:
                    self._parse(piece)
            for message in self._parser.tick():
                self.process_message(message)

    def _read(self) -> bytes:
        with suppress(OSError):
            if data := os.read(self.fileno, _READ_BYTES):
                return data
        self._events.call_soon_threadsafe(self._gone)
        self.exit_event.wait(_LOOK_SECONDS)
        return b""

    def disable_input(self) -> None:
        """End the thread that reads."""
        os.write(self._wake, b"\0")
        super().disable_input()
        os.read(self._wakes, 1)

    def _parse(self, text: str) -> None:
        for character in text:
            try:
                for message in self._parser.feed(character):
                    self.process_message(message)
            except (ArithmeticError, ValueError) as error:  # as of a key whose number no character has
                log.warning("a sequence of the terminal was dropped: %r", error)
                parser, self._parser = self._parser, XTermParser()
                if all(parser.terminal_size or ()) and all(parser.terminal_pixel_size or ()):
                    self._parser.mouse_pixels = parser.mouse_pixels
                    self._parser.terminal_size = parser.terminal_size
                    self._parser.terminal_pixel_size = parser.terminal_pixel_size

    def process_message(self, message: Message) -> None:
        """Hand on what can be meant: not a key with half a character, not a size that nothing has."""
        if isinstance(message, events.Key) and any(
            "\ud800" <= one <= "\udfff" for one in message.character or ""
        ):
            return
        if isinstance(message, events.Resize) and not (0 < min(message.size) <= max(message.size) <= LARGEST):
            return
        super().process_message(message)


class TerminalApp(App[int]):
    """An app that ends as its terminal and the errors of its threads have it end."""

    def __init__(self, *, ansi_color: bool | None) -> None:
        super().__init__(ansi_color=ansi_color)
        self.failure: LcmError | None = None  #: why it ended
        self.error_console = Console(file=io.StringIO())  # what Textual prints of an error

    def live_with_terminal(self) -> None:
        """End in order with the process or the terminal; draw again where others have drawn."""
        for kind in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(kind) is not signal.SIG_IGN:  # as under nohup
                asyncio.get_running_loop().add_signal_handler(kind, self.exit, 128 + kind)
        self.app_resume_signal.subscribe(self, self._draw_again)

    def _draw_again(self, _: App[object]) -> None:
        """The terminal is ours again, and others have drawn on it."""
        self.screen.refresh(layout=True)

    def refresh(self, *, repaint: bool = True, layout: bool = False, recompose: bool = False) -> Self:
        """Draw again, but not because a screen above the one in front has been removed.

        That one was drawn when it came to the front; Textual would draw all of it once more.
        """
        return (
            self
            if layout and repaint
            else super().refresh(repaint=repaint, layout=layout, recompose=recompose)
        )

    def leave_with_terminal(self) -> None:
        """End with the terminal: without one, Textual would read its end for ever."""
        if is_gone():
            self.exit(128 + signal.SIGHUP)

    def _handle_exception(self, error: Exception) -> None:
        """A defect of ours: into the log, one sentence for the user, never a traceback on the screen.

        What Textual would print is dropped; tests get the error itself from it, as with any app.
        """
        cause = error.error if isinstance(error, WorkerFailed) else error
        log.critical("the app failed", exc_info=cause)
        if self.failure is None:
            self.failure = _defect(f"The log has the details: {type(cause).__name__}.")
        super()._handle_exception(error)

    def panic(self, *renderables: RenderableType) -> None:
        """End for what a thread of Textual has caught, which is ended as any other defect is."""
        if self.failure is None:
            told = io.StringIO()
            Console(file=told, width=110).print(*renderables)
            log.critical("a thread of the terminal failed\n%s", told.getvalue())
            self.failure = _defect("The log has the details: a thread of the terminal failed.")
        super().panic()

    def fail_with(self, error: BaseException) -> None:
        """End, as after a defect, for what a thread has raised; from any thread."""
        self.call_later(self._handle_exception, error)

    def get_driver_class(self) -> type[Driver]:
        """Ours, unless the environment names another."""
        if constants.DRIVER is None:
            return TerminalDriver
        try:
            return super().get_driver_class()
        except Exception as error:  # whatever the import of a module raises
            raise ConfigurationError(
                f"TEXTUAL_DRIVER is {abridged(repr(constants.DRIVER))}, which is no driver of Textual "
                f"(such as module:Class); unset it."
            ) from error


def _defect(details: str) -> LcmError:
    return LcmError(f"lcm-tui stopped because of an internal error; the database was not touched. {details}")


def in_background(terminal: int) -> bool:
    """Whether another job has the terminal with this file descriptor."""
    try:
        return os.tcgetpgrp(terminal) != os.getpgrp()
    except OSError:  # it is not the one that jobs share
        return False


def is_gone() -> bool:
    """Whether standard input is no terminal any more."""
    return sys.__stdin__ is None or not sys.__stdin__.isatty()


@contextmanager
def that_may_go_away() -> Iterator[None]:
    """Draw on standard error so that what a lost terminal cannot take is dropped.

    Textual draws by a thread with a short queue. An error would end that thread, and the app would wait for
    ever to put into the queue what nobody takes out, before it notices that it is to end.
    """
    own = sys.__stderr__
    if own is None or not own.isatty():
        yield
        return
    file = io.BufferedWriter(_Terminal(own.fileno(), "w", closefd=False))
    vars(sys)["__stderr__"] = io.TextIOWrapper(file, own.encoding, own.errors, line_buffering=True)
    try:
        yield
    finally:
        vars(sys)["__stderr__"] = own


@contextmanager
def whose_threads_may_fail(fail: Callable[[BaseException], object]) -> Iterator[None]:
    """Call *fail* with what ends a thread of Textual; of the one that draws, the rest is still drawn.

    Else the app would wait for ever to hand over what is to be drawn, such as the restored terminal.
    """
    before = threading.excepthook

    def failed(args: threading.ExceptHookArgs) -> None:
        thread = args.thread
        log.critical("the thread %s failed", thread and thread.name, exc_info=args.exc_value)
        if thread is None or not thread.name.startswith("textual-"):
            return
        fail(args.exc_value or args.exc_type())
        for _ in range(_DRAWN_AGAIN):
            with suppress(Exception):
                thread.run()
                return

    threading.excepthook = failed
    try:
        yield
    finally:
        threading.excepthook = before


class _Terminal(io.FileIO):
    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return super().write(data)
        except OSError:
            return memoryview(data).nbytes


__all__ = ["Received", "TerminalDriver", "is_gone", "that_may_go_away", "without_controls"]


# -- the operator's editor -------------------------------------------------------------------------------
# Editing a text in it: it has the terminal until it ends.


def editor_of(environ: Mapping[str, str]) -> list[str]:
    """The operator's editor and its arguments.

    Raises:
        ConfigurationError: none is set, or its quotes do not close.
    """
    said = environ.get("VISUAL") or environ.get("EDITOR") or ""
    try:
        command = shlex.split(said)
    except ValueError as error:
        raise ConfigurationError(
            f"The editor {safe_line(said)} cannot be understood ({error}): set EDITOR, or use e to edit here."
        ) from None
    if not command:
        raise ConfigurationError("No editor is set: set EDITOR (for instance to vi), or use e to edit here.")
    return command


async def edit_outside(app: App[int], name: str, text: str) -> str | None:
    """The text as the operator's editor saved it; None after a message that it saved none."""
    try:
        return await _edited(app, name, text)
    except LcmError as error:
        app.notify(error.message, title="Not edited", severity="error", timeout=12)
        return None


async def _edited(app: App[int], name: str, text: str) -> str:
    """Give the terminal to the operator's editor until it ends, and return the text that it left.

    The file lies in a private folder and goes afterwards. The event loop goes on meanwhile, so that what is
    in flight is not held up, but nothing is drawn.

    Raises:
        ConfigurationError: no editor is set, it cannot be started or failed, or it left no file.
    """
    command = editor_of(os.environ)
    with tempfile.TemporaryDirectory(prefix="lcm-tui-") as folder:
        path = Path(folder) / f"{''.join(one for one in name if one.isalnum() or one in '_-')}.md"
        path.write_bytes(text.encode("utf-8", "surrogateescape"))
        with app.suspend(), app.batch_update(), _without_interrupts():
            # Textual gives the terminal back at the end of the block, and not when something is raised in it.
            problem = await _run(command, path)
        if problem is not None:
            raise ConfigurationError(problem)
        try:
            edited = path.read_bytes().decode("utf-8", "surrogateescape")
        except OSError as error:
            raise ConfigurationError(
                f"The editor left no readable file ({error.strerror}); the draft is unchanged."
            ) from None
    # Editors end a file with a line break that the text did not have.
    return edited[:-1] if edited.endswith("\n") and not text.endswith("\n") else edited


async def _run(command: Sequence[str], path: Path) -> str | None:
    """Wait for an editor; what went wrong, as a sentence."""
    try:
        process = await asyncio.create_subprocess_exec(*command, str(path))
    except (OSError, ValueError) as error:  # ValueError: a NUL in the command
        why = error.strerror if isinstance(error, OSError) else str(error)
        return f"The editor {safe_line(command[0])} cannot be started ({why}): set EDITOR, or use e."
    code = await process.wait()
    return f"The editor ended with {code}; the draft is unchanged." if code else None


@contextlib.contextmanager
def _without_interrupts() -> Iterator[None]:
    """ctrl+c in the terminal is the editor's."""
    before = signal.signal(signal.SIGINT, lambda number, frame: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


# -- keys typed ahead ------------------------------------------------------------------------------------
# Keys that come faster than screens: each waits until the one before has acted and the screen is painted.
#
# Textual gives a key at once to whatever is in front, also to a screen that has no widgets yet. Here keys
# queue: a screen gets them when it is painted and has read what it shows. What requests a decision gets
# none that was typed before it could be read.

T = TypeVar("T")

#: How often it is looked whether the screen in front is ready.
LOOK_SECONDS: Final = 0.01
#: A screen that reads for longer gets its keys: some need no data, and none waits for a database.
HOLD_SECONDS: Final = 1.5
#: Said once of all keys that were pressed before a question could be read.
TOO_EARLY: Final = "Too early: answer this now."
#: A key that nobody has reported to have acted by then has gone with its widget.
LOST_SECONDS: Final = 0.5


class Decision(ModalScreen[T]):
    """A question: only keys that were pressed after it was painted answer it."""

    decides = True  #: else an answer only leads somewhere
    painted_at: float | None = None  #: first, monotonic

    def on_mount(self) -> None:
        """Note when it can be read."""
        self.call_after_refresh(self._note_painted)

    def _note_painted(self) -> None:
        self.painted_at = time.monotonic()

    def answered_by(self, key: events.Key) -> bool:
        """Whether a key may be an answer: whoever pressed it could have read the question."""
        seen = self.painted_at is not None and key.time >= self.painted_at
        return seen or not self.decides or key.key == "escape"


class Handled(Message, bubble=True):
    """Follows a key through the same widgets: when it arrives at the app, the key has been dealt with."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


class TypedAhead:
    """The keys that wait, and whose turn it is."""

    def __init__(
        self,
        app: App[int],
        act: Callable[[events.Key], Awaitable[None]],
        loaded: Callable[[], bool],
        opening: Callable[[], bool],
    ) -> None:
        """*act* passes a key to the screen in front.

        *loaded* says whether that has read what it shows, *opening* whether a key is about to open another.
        """
        self._app = app
        self._act = act
        self._loaded = loaded
        self._opening = opening
        self._waiting: deque[events.Key] = deque()
        self._number = 0  #: of the key that was given away last
        self._acting = False  #: it has not been dealt with
        self._looking = False  #: a look at the screen in front is due
        self._fronts: WeakKeyDictionary[Screen[object], float] = WeakKeyDictionary()  #: since when in front
        self._painted: WeakSet[Screen[object]] = WeakSet()

    @property
    def resting(self) -> bool:
        """Whether every key has been dealt with."""
        return not (self._waiting or self._acting)

    async def take(self, key: events.Key) -> None:
        """A key was pressed."""
        if key.key == "ctrl+j":  # what a terminal makes of enter that is pressed before the app has it
            enter = events.Key("enter", "\r")
            enter.time = key.time
            key = enter.set_sender(self._app)
        self._waiting.append(key)
        await self.go_on()

    def dealt_with(self, number: int | None = None) -> None:
        """The key that was given away last has acted, or the one with that *number*.

        What it left to the app to do, such as moving the focus, comes before the next one.
        """
        if number in (None, self._number):
            self._app.call_later(self._next, self._number)

    async def _next(self, number: int) -> None:
        if self._acting and number == self._number:
            self._acting = False
            await self.go_on()

    async def go_on(self) -> None:
        """Give keys away, one after the other, as long as what stands in front can take them."""
        while self._waiting and not self._acting:
            if not self._ready(self._waiting[0]):
                self._look_again()
                return
            key = self._waiting.popleft()
            screen = self._app.screen
            if isinstance(screen, Decision) and not screen.answered_by(key):
                self._app.notify(TOO_EARLY, severity="warning", timeout=4)
                continue
            self._acting, self._number = True, self._number + 1
            target = self._app.focused or screen
            await self._act(key)
            if not target.post_message(Handled(self._number)):
                self._acting = False
            elif self._acting:
                self._app.set_timer(LOST_SECONDS, partial(self.dealt_with, self._number))

    def _ready(self, key: events.Key) -> bool:
        """Whether the screen in front has been painted, and holds what a key could be meant for."""
        if not self._app.screen_stack:  # the app begins, or ends
            return False
        screen, now = self._app.screen, time.monotonic()
        since = self._fronts.setdefault(screen, now)
        if not screen.is_mounted:
            return False
        if screen not in self._painted:
            screen.call_after_refresh(self._painted.add, screen)
            return False
        if key.key == "escape":
            return True
        return not self._opening() and (self._loaded() or now - since > HOLD_SECONDS)

    def _look_again(self) -> None:
        if not self._looking and self._app.is_running:
            self._looking = True
            self._app.set_timer(LOOK_SECONDS, self._look)

    async def _look(self) -> None:
        self._looking = False
        await self.go_on()
