"""``python -m benchmarks.hostile``: seconds of first pages on files made to be slow, against 10."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from lcm_core.base.settings import Options, resolve
from textual.pilot import Pilot

from lcm_tui.app import LcmApp
from lcm_tui.cli.demo import unpack_demo
from lcm_tui.cli.main import main as run
from lcm_tui.screens.conversations import ConversationsScreen
from lcm_tui.screens.reading import DataScreen

BAR_SECONDS = 10.0
ITEMS = 500_000
CHARACTERS = 200_000_000
#: Screens by the key that leads from the list of conversations, with the first one selected, to them.
SCREENS = {"the list": "", "the conversation": "enter", "the DAG": "s", "the context": "c"}
#: After so long a screen counts as one that never comes.
PATIENCE_SECONDS = 120.0
COMMANDS = (
    ("conversations", "list"),
    ("conversations", "show", "1"),
    ("messages", "1"),
    ("summaries", "1"),
    ("context", "1"),
    ("context", "1", "--assembled"),
)


def many_items(database: sqlite3.Connection) -> None:
    """Half a million context items that name few messages."""
    last = database.execute("SELECT max(ordinal) FROM context_items WHERE conversation_id = 1").fetchone()[0]
    rows = database.execute("SELECT message_id FROM messages WHERE conversation_id = 1 LIMIT 50").fetchall()
    database.execute("BEGIN")
    database.executemany(
        """INSERT INTO context_items (conversation_id, ordinal, item_type, message_id)
        VALUES (1, ?, 'message', ?)""",
        ((last + 1 + number, rows[number % len(rows)][0]) for number in range(ITEMS)),
    )
    database.execute("COMMIT")


def long_texts(database: sqlite3.Connection) -> None:
    """A title and the texts of a message and a summary, of 200 MB each."""
    text = f"printf('%.*c', {CHARACTERS}, 'x')"
    database.execute(f"UPDATE conversations SET title = {text} WHERE conversation_id = 1")
    for table in ("messages", "summaries"):
        newest = f"SELECT max(rowid) FROM {table} WHERE conversation_id = 1"
        database.execute(f"UPDATE {table} SET content = {text} WHERE rowid = ({newest})")


def endless_view(database: sqlite3.Connection) -> None:
    """The edges of the DAG as a view that never ends."""
    database.execute("DROP TABLE summary_parents")
    database.execute(
        """CREATE VIEW summary_parents AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)
        SELECT 'x' || i AS summary_id, 'y' || i AS parent_summary_id, i AS ordinal FROM n"""
    )


KINDS: tuple[Callable[[sqlite3.Connection], None], ...] = (many_items, long_texts, endless_view)


async def first_page(database: Path, key: str) -> float:
    """Seconds from the start of the app, or from a key in its list, until a screen shows what it read."""
    settings = resolve(Options(db=database), {"LCM_TUI_CONFIG": os.devnull}, home=database.parent)
    begun = time.monotonic()
    app = LcmApp(settings)
    async with app.run_test(size=(160, 50)) as pilot:
        await _loaded(pilot)
        first = app.screen
        if isinstance(first, ConversationsScreen) and key:
            first.list.table.select(1)
            begun = time.monotonic()
            await pilot.press(key)
            await _loaded(pilot, instead_of=first)
        return time.monotonic() - begun


async def _loaded(pilot: Pilot[int], instead_of: object = None) -> None:
    """Wait until a screen is in front that has shown what it read, `PATIENCE_SECONDS` at most."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        screen = pilot.app.screen
        if screen is not instead_of and isinstance(screen, DataScreen) and screen.loaded:
            return
        await asyncio.sleep(0.01)


def main() -> int:
    """Print the seconds of every command and screen on every file; 1 when one missed the bar."""
    missed = 0
    with tempfile.TemporaryDirectory() as folder:
        for kind in KINDS:
            home = unpack_demo(Path(folder) / kind.__name__)
            with closing(sqlite3.connect(home.database, isolation_level=None)) as database:
                database.execute("PRAGMA synchronous = OFF")
                database.execute("PRAGMA foreign_keys = OFF")
                kind(database)
            for words in COMMANDS:
                begun = time.monotonic()
                with contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO(), encoding="utf-8")):
                    code = run([*words, "--db", str(home.database)])
                taken = time.monotonic() - begun
                missed += taken > BAR_SECONDS
                print(f"{kind.__name__:14}{' '.join(words):34}exit {code}  {taken:6.1f} s")
            for title, key in SCREENS.items():
                taken = asyncio.run(first_page(home.database, key))
                missed += taken > BAR_SECONDS
                print(f"{kind.__name__:14}{'app: ' + title:42}{taken:6.1f} s", flush=True)
    print(f"{missed} over {BAR_SECONDS:.0f} s")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
