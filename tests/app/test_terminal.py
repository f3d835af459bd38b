"""The app and the terminal it runs in."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.mark.long
def test_the_app_ends_when_its_terminal_goes_away(database_file: Callable[[str], Path]) -> None:
    terminal, inner = pty.openpty()
    app = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys; from lcm_tui.cli import main; sys.exit(main())",
            "--db",
            str(database_file("0.15.3")),
        ],
        stdin=inner,
        stdout=inner,
        stderr=inner,
        start_new_session=True,
        env=dict(os.environ, TERM="xterm-256color"),
    )
    os.close(inner)
    try:
        seen = b""
        until = time.monotonic() + 60
        while b"Conversations" not in seen and time.monotonic() < until:
            if select.select([terminal], [], [], 0.2)[0]:
                seen += os.read(terminal, 65536)
        assert b"Conversations" in seen
        os.close(terminal)
        assert app.wait(timeout=60) == 0
    finally:
        app.kill()
        app.wait()
