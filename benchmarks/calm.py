"""Processor time that nobody asked for: ``python -m benchmarks.calm``.

After a start until the program is calm, at the first start on a file (a), at later ones, and after a host
wrote to it; while a host commits beside the list, the conversation that it writes and its context; and what
keys in the list take right after a later start. ``--program`` names another checkout's program.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.generate import LARGEST, database
from benchmarks.shapes import MANY_CONVERSATIONS
from benchmarks.terminal import Terminal, environment

#: Less than this in three seconds is calm; nobody waits longer than so many seconds for it.
_CALM, _LOOKS, _LONGEST = 0.06, 3, 180
_BESIDE = 60.0
_COMMITS = 5
_KEYS = "j" * 10 + "k" * 10
#: What is in front beside a host, and the key that opens it from the list, whose first row is written.
_SCREENS = (("list", ""), ("conversation", "\r"), ("context", "c"))


def main() -> None:
    """Print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", default=str(Path(sys.executable).with_name("lcm-tui")))
    program = parser.parse_args().program
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        path = home / "a.db"
        shutil.copyfile(database(MANY_CONVERSATIONS), path)
        time.sleep(0.1)  # a file that was written in this moment is not remembered
        command, own = (program, "--db", str(path)), environment(home)
        for name in ("first start", "later start"):
            with Terminal(command, own) as terminal:
                _say(name, terminal)
        with Terminal(command, own) as terminal:
            terminal.collect(quiet=1.0, longest=1.5)
            before = _seconds(terminal.pid)
            for key in _KEYS:
                terminal.send(key)
                terminal.collect(quiet=0.12, longest=0.12)
            print(f"a key right after it: {1000 * (_seconds(terminal.pid) - before) / len(_KEYS):.1f} ms")
        for name, key in _SCREENS:
            with Terminal(command, own) as terminal:
                _until_calm(terminal)
                terminal.send(key)
                _until_calm(terminal)
                _beside(name, path, terminal)
        with Terminal(command, own) as terminal:
            _say("start after that", terminal)


def _say(name: str, terminal: Terminal) -> None:
    seconds = _until_calm(terminal)
    print(f"{name}: {seconds:.2f} s until calm, at most {terminal.memory()[1]:.0f} MB", flush=True)


def _until_calm(terminal: Terminal) -> float:
    """Seconds of the processor, the start included."""
    known: list[float] = []
    while len(known) < _LONGEST:
        terminal.collect(quiet=1.0, longest=1.0)
        known.append(_seconds(terminal.pid))
        if len(known) > 2 * _LOOKS and known[-1] - known[-1 - _LOOKS] < _CALM:
            break
    return known[-1]


def _beside(name: str, path: Path, terminal: Terminal) -> None:
    writing = (sys.executable, "-m", "benchmarks.writer", str(path), str(LARGEST), str(_COMMITS))
    host = subprocess.Popen(writing, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        terminal.collect(quiet=5.0, longest=5.0)
        before, begun = _seconds(terminal.pid), time.monotonic()
        while time.monotonic() - begun < _BESIDE:
            terminal.collect(quiet=1.0, longest=1.0)
        share = (_seconds(terminal.pid) - before) / (time.monotonic() - begun)
    finally:
        printed, _ = host.communicate("stop\n", timeout=30)
    print(f"{name} beside {printed.strip()} commits, {_COMMITS} a second: {share:.1%} of a core", flush=True)


def _seconds(pid: int) -> float:
    """Processor time of all threads of a process (Linux)."""
    tasks = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(task.read_text().split()[0]) for task in tasks) / 1e9


if __name__ == "__main__":
    main()
