"""The log file: what goes wrong is written there with its traceback, and never to the terminal.

The file is made by the first record, readable by its owner only; browsing that goes well leaves none.
"""

from __future__ import annotations

import contextlib
import logging
import os
from pathlib import Path

import platformdirs
from lcm_core.base.files import make_private

#: When the file has grown to this, the next program to write begins a new one and keeps this one as ``.1``.
MAX_BYTES = 1_000_000


def log_path() -> Path:
    """Where the log of this user is, whether or not it is there yet."""
    return Path(platformdirs.user_log_dir("lcm-tui", appauthor=False)) / "lcm-tui.log"


class PrivateFileHandler(logging.Handler):
    """Writes records to `log_path`, opened at the first; a record that cannot be written is dropped."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.setFormatter(logging.Formatter("%(asctime)s %(process)d %(levelname)s %(name)s: %(message)s"))
        self.written = False  #: whether a record reached the file

    def emit(self, record: logging.LogRecord) -> None:
        """Append one record."""
        try:
            text = self.format(record) + "\n"
            _append(log_path(), text.encode("utf-8", "backslashreplace"))
            self.written = True
        except (OSError, RuntimeError, ValueError):  # no home, no room, no permission: nowhere to complain
            return


def install() -> PrivateFileHandler:
    """Send what is logged anywhere in the program to the log file, in place of an earlier handler of ours."""
    root = logging.getLogger()
    for handler in [found for found in root.handlers if isinstance(found, PrivateFileHandler)]:
        root.removeHandler(handler)
    handler = PrivateFileHandler()
    root.addHandler(handler)
    return handler


def _append(path: Path, content: bytes) -> None:
    make_private(path.parent)
    with contextlib.suppress(FileNotFoundError):
        if path.stat().st_size > MAX_BYTES:
            path.replace(path.with_name(path.name + ".1"))
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, content)
    finally:
        os.close(descriptor)
