"""Sessions of OpenClaw's databases, measured: ``python -m benchmarks.host``.

Generates a session of many entries, one of large ones, and a folder of agents with many sessions; prints how
long listing, opening the newest page and importing take, and the most memory that an import needs.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from lcm_host.reading import open_session
from lcm_host.sessions import list_sessions

from tests.core.host_home import START_MS, AgentFolder
from tests.databases import new_database

#: Entries of the first page of the app.
_PAGE = 40


def rows(session_id: str, count: int, size: int) -> Iterator[tuple[str, tuple[object, ...]]]:
    """The rows of a session of *count* messages of *size* characters, as its host has them."""
    key, stamp = f"agent:main:{session_id}", START_MS + 1000 * count
    yield (
        "INSERT INTO session_windows VALUES (?, ?, NULL, NULL, ?, ?, ?)",
        (session_id, key, stamp, stamp, stamp),
    )
    yield "INSERT INTO session_nodes VALUES (?, ?, '{}', ?, 'done')", (key, session_id, stamp)
    event = "INSERT INTO transcript_events VALUES (?, ?, ?, ?, NULL, NULL, NULL)"
    yield event, (session_id, 0, json.dumps({"type": "session", "version": 3, "id": session_id}), START_MS)
    for seq in range(1, count + 1):
        name, before, at = f"e{seq:07d}", f"e{seq - 1:07d}" if seq > 1 else None, START_MS + 1000 * seq
        said = f"entry {seq} says something about table {seq * 7919 % 1000} "
        content = [{"type": "text", "text": (said * (size // len(said) + 1))[:size]}]
        message = {"role": "user" if seq % 2 else "assistant", "content": content, "stopReason": "stop"}
        entry = {"type": "message", "id": name, "parentId": before, "timestamp": at, "message": message}
        yield event, (session_id, seq, json.dumps(entry), at)
        yield (
            "INSERT INTO transcript_event_identities VALUES (?, ?, ?, 'message', ?, NULL, ?)",
            (session_id, name, seq, before, at),
        )
        yield (
            "INSERT INTO session_transcript_active_events VALUES (?, ?, ?, ?, 1)",
            (session_id, seq - 1, seq, seq - 1),
        )
    yield (
        "INSERT INTO session_transcript_index_state VALUES (?, ?, ?, 0, ?, ?, 0)",
        (session_id, count, f"e{count:07d}", count, count),
    )


def fill(folder: Path, sessions: int, count: int, size: int) -> None:
    """Make the folder of an agent with so many sessions."""
    with closing(sqlite3.connect(AgentFolder(folder).database)) as db, db:
        for number in range(sessions):
            for sql, values in rows(f"s{number}", count, size):
                db.execute(sql, values)


def measure_session(home: Path, what: str, count: int, size: int) -> None:
    """One session: its newest page, and its import by the command line in a process of its own."""
    fill(home / "agents" / "main", 1, count, size)
    [session] = list_sessions(home / "agents").sessions
    begun = time.perf_counter()
    opened = open_session(session)
    list(opened.entries(len(opened) - _PAGE))
    page = time.perf_counter() - begun
    database = new_database(home / "lcm.db")
    line = (sys.executable, "-m", "lcm_tui", "backfill", "main", "s0", "--apply", "--yes")
    begun = time.perf_counter()
    subprocess.run(
        [*line, "--openclaw-dir", str(home), "--db", str(database)],
        check=True,
        stdout=subprocess.DEVNULL,
        env={**os.environ, "LCM_TUI_CONFIG": os.devnull},
    )
    took = time.perf_counter() - begun
    most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024
    print(f"{what}: newest page {page:.3f} s, import {took:.0f} s, at most {most:,} MB so far")


def measure_list(home: Path, agents: int, sessions: int) -> None:
    """A list of many sessions, and the same again when nothing was written."""
    for number in range(agents):
        fill(home / "agents" / f"a{number}", sessions // agents, 4, 100)
    begun = time.perf_counter()
    listing = list_sessions(home / "agents")
    first, begun = time.perf_counter() - begun, time.perf_counter()
    list_sessions(home / "agents", listing)
    again = time.perf_counter() - begun
    print(f"{len(listing.sessions):,} sessions of {agents}: listed in {first:.3f} s, again in {again:.3f} s")


def main() -> None:
    """Generate, measure, print."""
    options = argparse.ArgumentParser(prog="python -m benchmarks.host", description=__doc__)
    options.add_argument("--entries", type=int, default=100_000)
    options.add_argument("--large", type=int, default=100, help="entries of 5 MB")
    options.add_argument("--sessions", type=int, default=5_000)
    asked = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="lcm-tui-host-") as folder:
        measure_list(Path(folder) / "many", 20, asked.sessions)
        measure_session(Path(folder) / "long", f"{asked.entries:,} entries", asked.entries, 400)
        measure_session(Path(folder) / "large", f"{asked.large:,} entries of 5 MB", asked.large, 5_000_000)


if __name__ == "__main__":
    main()
