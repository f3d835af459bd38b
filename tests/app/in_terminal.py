"""The program as an operator has it: in a terminal of 80x24, keys in, what stands on the screen out."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, Self

from benchmarks.screen import Screen

ROWS, COLUMNS = 24, 80
PATIENCE_SECONDS: Final = 60.0
#: What a terminal sends for keys that have a name.
CODES: Final = {
    "enter": "\r",
    "escape": "\x1b",
    "tab": "\t",
    "space": " ",
    "up": "\x1b[A",
    "down": "\x1b[B",
    "home": "\x1b[H",
    "end": "\x1b[F",
    "f2": "\x1bOQ",
    "f6": "\x1b[17~",
    "ctrl+s": "\x13",
    "ctrl+t": "\x14",
}


class Operator:
    """Somebody at the keys of the program, who looks before each; a context manager that ends it."""

    def __init__(self, database: Path, home: Path, **environment: str) -> None:
        """*home*: where settings and caches go; nothing of the user who runs the tests is read."""
        self.keys = 0
        self._home = home
        self._screen = Screen(ROWS, COLUMNS)
        self._end, inner = pty.openpty()
        termios.tcsetwinsize(inner, (ROWS, COLUMNS))
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL", "TZ") if name in os.environ}
        self._process = subprocess.Popen(
            (sys.executable, "-m", "lcm_tui", "--db", str(database)),
            stdin=inner,
            stdout=inner,
            stderr=inner,
            env={
                **kept,
                "HOME": str(home),
                "OPENCLAW_STATE_DIR": str(home),
                "PYTHONPATH": os.pathsep.join(sys.path),
                "TERM": "xterm-256color",
                "TEXTUAL_ANIMATIONS": "none",
                **environment,
            },
            cwd=home,
            preexec_fn=lambda: os.login_tty(os.dup(inner)),
        )
        os.close(inner)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._process.kill()
        self._process.wait(PATIENCE_SECONDS)
        os.close(self._end)
        logged = "".join(one.read_text() for one in self._home.rglob("lcm-tui.log"))
        assert kind or " ERROR " not in logged, f"something failed behind the screen:\n{logged}"

    @property
    def screen(self) -> str:
        """What stands on it, a line for each row."""
        return self._screen.text()

    def sees(self, *texts: str) -> None:
        """Wait for texts, each within a line of the screen or over several of them."""
        self.waits(lambda: all(text in self.screen or text in self._flat for text in texts), str(texts))

    def waits(self, condition: Callable[[], object], what: str = "") -> None:
        """Wait for *condition*, and until nothing is drawn any more."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not (self._quiet() and condition()):
            assert time.monotonic() < deadline, f"waited in vain for {what}; the screen:\n{self.screen}"

    def press(self, key: str, *texts: str) -> None:
        """Press one key, and wait for what it leads to."""
        os.write(self._end, CODES.get(key, key).encode())
        self.keys += 1
        self.sees(*texts)

    def types(self, words: str, *texts: str) -> None:
        """Type words; they count as one key."""
        for letter in words:
            os.write(self._end, letter.encode())
        self.keys += 1
        self.sees(*texts)

    @property
    def _flat(self) -> str:
        return " ".join(self.screen.split())

    def _quiet(self) -> bool:
        """Take what was drawn; whether that was nothing for a moment."""
        if not select.select([self._end], [], [], 0.15)[0]:
            return True
        self._screen.feed(os.read(self._end, 65536))
        return False
