"""Keeping a host in another process at work beside a test."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.change import host as host_module


@contextmanager
def at_work(
    path: Path, conversation_id: int, count: int, seed: int, log: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """A host that makes at least *count* transactions, and goes on until it hears `enough`."""
    arguments = [str(path), str(conversation_id), str(count), str(seed), str(log)]
    process = subprocess.Popen([sys.executable, host_module.__file__, *arguments], stdin=subprocess.PIPE)
    try:
        yield process
    finally:
        enough(process)
        if process.poll() is None:
            process.kill()
        process.wait()
    assert process.returncode == 0


def enough(process: subprocess.Popen[bytes]) -> None:
    """Let the host end when it has made its transactions; it may be told so again."""
    assert process.stdin is not None
    process.stdin.close()
