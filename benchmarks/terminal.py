"""A program in a pseudo-terminal: keys in, output with the time at which each piece of it could be read."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.screen import Screen

ROWS, COLUMNS = 50, 160
_SYNCHRONIZED_QUERY = b"\x1b[?2026$p"
_SYNCHRONIZED_ANSWER = b"\x1b[?2026;2$y"  #: supported, as modern terminals say: frames come delimited


class ProgramError(Exception):
    """The measured program did not do what the measurement needs; the text says what and shows the screen."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of output and when it was read, in seconds of ``time.perf_counter``."""

    at: float
    data: bytes


class Terminal:
    """One run of a program, 160 by 50; a context manager that ends it.

    Output is only collected while time is measured; it is interpreted afterwards, piece by piece, so that
    the emulator never delays the program.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self.screen = Screen(ROWS, COLUMNS)
        self._command = list(command)
        self._environment = dict(environment)
        self._pid = -1
        self._fd = -1
        self._alive = False
        self.started = 0.0  #: just before the fork, in seconds of ``time.perf_counter``

    def __enter__(self) -> Terminal:
        self.started = time.perf_counter()
        self._pid, self._fd = pty.fork()
        if self._pid == 0:  # pragma: no cover - the child
            try:
                fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
                os.execvpe(self._command[0], self._command, self._environment)
            finally:
                os._exit(127)
        self._alive = True
        return self

    def __exit__(self, *_: object) -> None:
        if self._alive:
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
            self._alive = False
        os.close(self._fd)

    @property
    def pid(self) -> int:
        """The process id of the program."""
        return self._pid

    def send(self, keys: str) -> float:
        """Write *keys*; returns when, in seconds of ``time.perf_counter``."""
        at = time.perf_counter()
        os.write(self._fd, keys.encode())
        return at

    def collect(self, *, quiet: float, longest: float) -> list[Chunk]:
        """Output until none came for *quiet* seconds, or *longest* have passed; not yet interpreted."""
        chunks: list[Chunk] = []
        end = time.perf_counter() + longest
        while (left := end - time.perf_counter()) > 0:
            if not select.select([self._fd], [], [], min(quiet, left))[0]:
                if left > quiet:
                    break
                continue
            try:
                data = os.read(self._fd, 65536)
            except OSError:
                data = b""
            if not data:
                self._alive = False
                os.waitpid(self._pid, 0)
                break
            chunks.append(Chunk(time.perf_counter(), data))
            if _SYNCHRONIZED_QUERY in data:
                os.write(self._fd, _SYNCHRONIZED_ANSWER)
        return chunks

    def feed(self, chunks: Sequence[Chunk]) -> None:
        """Interpret *chunks*."""
        for chunk in chunks:
            self.screen.feed(chunk.data)

    def settle(self, quiet: float = 0.25, longest: float = 1.5) -> None:
        """Let the program draw until it has nothing more to draw."""
        self.feed(self.collect(quiet=quiet, longest=longest))

    def wait(
        self, shown: Callable[[Screen], bool], what: str, *, quiet: float = 0.15, longest: float = 30.0
    ) -> float:
        """When *shown* became true of the screen, in seconds of ``time.perf_counter``.

        Raises:
            ProgramError: it did not within *longest* seconds, or the program ended.
        """
        end = time.perf_counter() + longest
        if shown(self.screen):
            raise ProgramError(f"{what}: on the screen before it was asked for\n{self.screen.text()}")
        while time.perf_counter() < end and self._alive:
            at = self._first(self.collect(quiet=quiet, longest=1.0), shown)
            if at is not None:
                return at
        state = "not within the time" if self._alive else "the program ended"
        raise ProgramError(f"{what}: {state}\n{self.screen.text()}")

    def _first(self, chunks: Sequence[Chunk], shown: Callable[[Screen], bool]) -> float | None:
        found: float | None = None
        for chunk in chunks:
            self.screen.feed(chunk.data)
            if found is None and shown(self.screen):
                found = chunk.at
        return found

    def memory(self) -> tuple[float, float]:
        """Resident memory of the program in MB: now, and at its highest (equal where that is not known)."""
        status = Path(f"/proc/{self._pid}/status")
        if status.exists():
            fields = dict(line.split(":", 1) for line in status.read_text().splitlines() if ":" in line)
            now, highest = (int(fields[name].split()[0]) / 1024 for name in ("VmRSS", "VmHWM"))
            return now, highest
        shown = subprocess.run(
            ["ps", "-o", "rss=", "-p", str(self._pid)], capture_output=True, text=True, check=True
        )
        return int(shown.stdout) / 1024, int(shown.stdout) / 1024

    def finish(self, keys: str, longest: float = 10.0) -> None:
        """Send *keys*, which end the program, and wait for its end.

        Raises:
            ProgramError: it is still there after *longest* seconds.
        """
        end = time.perf_counter() + longest
        while self._alive and time.perf_counter() < end:
            self.send(keys)
            self.feed(self.collect(quiet=1.0, longest=1.0))
        if self._alive:
            raise ProgramError(f"the program did not end\n{self.screen.text()}")


def environment(home: Path, **more: str) -> dict[str, str]:
    """A clean environment for the program: *home* is empty, so no session or setting of the user is found."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL", "TZ") if name in os.environ}
    return {
        **kept,
        "HOME": str(home),
        "OPENCLAW_STATE_DIR": str(home),
        "XDG_CONFIG_HOME": str(home / "config"),
        "TERM": "xterm-256color",
        "COLORTERM": "truecolor",
        "TEXTUAL_ANIMATIONS": "none",
        "VIRTUAL_ENV": sys.prefix,
        **more,
    }
