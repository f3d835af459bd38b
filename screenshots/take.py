"""Takes the pictures of README from the demonstration database: ``make pictures``.

Every picture is a state that a person reaches with the keys listed here. SVG, as Textual draws the screen.
"""

from __future__ import annotations

import asyncio
import gzip
import os
import sqlite3
import sys
import tarfile
import tempfile
import time
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from lcm_core.base.settings import Options, resolve

from lcm_tui.app import LcmApp
from lcm_tui.cli.demo import keep_snapshots, unpack_demo
from lcm_tui.screens import engine as reads

FOLDER = Path(__file__).parent
RECORDED = FOLDER.parent / "tests" / "data"
#: The clock of what was recorded: ages and leases are counted up to it.
THEN = datetime(2026, 9, 20, 13, 57, 35, tzinfo=UTC)
WIDE, SMALL = (160, 50), (80, 24)
LEASE_TABLE = (*"lease", "space", *"table")


@dataclass(frozen=True, slots=True)
class Picture:
    """A file name, the keys that lead there, and what must be on the screen before it is taken."""

    name: str
    keys: tuple[str, ...]
    shows: str
    size: tuple[int, int] = WIDE
    recorded: str = ""  #: a file of tests/data in the place of the demonstration
    host: str = ""  #: the state folder in this archive of tests/data as the host's; its outbox has a turn
    tail: str = ""  #: messages of the fresh tail, where the configured number leaves nothing to choose


PICTURES = (
    Picture("conversations", (), "4 findings"),
    Picture("conversations-80x24", (), "4 findings", SMALL),
    Picture("conversation", ("enter", "k", "k", "enter"), "result (#"),
    Picture("conversation-80x24", ("enter",), "#384", SMALL),
    Picture("dag", ("s", "l", "j", "l"), "63 summaries"),
    Picture("dag-80x24", ("s", "l", "j", "l"), "D3", SMALL),
    Picture("map", ("s", "shift+tab"), "the selected summary"),
    Picture("context", ("c",), "fresh tail"),
    Picture("context-sent", ("c", "m", "j", "j"), "stored"),
    Picture("context-80x24", ("c",), "fresh tail", SMALL),
    Picture("context-evicted", ("c", "B", *"3500", "enter"), "first that does not fit"),
    Picture(
        "context-prompt", ("c", "Q", *LEASE_TABLE, "enter", "B", *"2600", "enter", *"jjj"), "for it", tail="4"
    ),
    Picture("snapshots", ("c", "at"), "asm_"),
    Picture("snapshot", ("c", "at", "enter", "j"), "exactly what was sent"),
    Picture("snapshot-compare", ("c", "at", *"jjj", "D"), "only in the second"),
    Picture("item", ("c", "enter", "m"), "<summary"),
    Picture("focus-brief", (*"jjjjj", "c"), "focus"),
    Picture("briefs", (*"jjjjj", "b"), "focus_"),
    Picture(
        "brief-draft",
        (*"jjjjj", "b", "ctrl+n", *LEASE_TABLE, "enter", "e", *"Workers", "space", *"renew.", "ctrl+s"),
        "saved",
    ),
    Picture("previous", ("s", "l", "j", "l", "j", "l", "j", "j", "p"), "reconstructed"),
    Picture("files", ("f",), "file_"),
    Picture("file", ("f", "enter"), "fake-png"),
    Picture("compare", ("c", "D", *"2k", "enter"), "2,000"),
    Picture("repair", ("R", "enter"), "marked"),  # before a draft waits, which R would offer
    Picture("draft-editor", ("s", "r", "e"), "^s"),
    Picture("help", ("question_mark",), "F2"),
    Picture("disk-session", ("G", "enter"), "Session on disk"),
    Picture("plan", ("s", "d"), "Dissolve summary"),
    Picture("plan-80x24", ("s", "d"), "moved", SMALL),
    Picture("health", ("H",), "by design"),
    Picture("health-80x24", ("H",), "broken", SMALL),
    Picture("compacting", ("C", "1", *"single root", "enter"), "depth 4"),
    Picture("compacting-draft", ("C", "number_sign", "8", "enter", "3", "a"), "your decision"),
    Picture("transplant", ("t",), "Choose the target"),
    Picture("review", ("s", "r"), "of its source"),
    Picture("review-80x24", ("s", "r"), "of its source", SMALL),
    Picture("backfill", ("G", "enter", "i"), "Import 27 messages"),
    Picture("prune", (*"jjj", "X"), "Delete conversation 8"),
    Picture("search", ("F", *"lease table"), "hits, best first"),
    Picture("expansion", ("s", "greater_than_sign", *"jj"), "~"),
    Picture("ask", ("F", *"lease table", "ctrl+g"), "Evidence"),
    Picture("engine", ("Y", "g"), "a worker died", recorded="lcm-1.0-next.db.gz"),
    Picture("host-sessions", ("G",), "turns are not committed", host="openclaw-sqlite-living"),
    # These change the database: they come last.
    Picture("merge", ("j", "V"), "Merge"),
    Picture("history", ("s", "d", "a", "enter", "U"), "Dissolve summary"),
    Picture("past", ("c", "left_square_bracket"), "read-only"),
)


def screen_text(app: LcmApp) -> str:
    """What is on the screen, as text."""
    lines = app.screen._compositor.render_strips()
    return "\n".join(strip.text for strip in lines)


def is_reading(app: LcmApp) -> bool:
    """Whether something is still on its way to the screen."""
    return any(not worker.is_finished and worker.group not in {"watch", "compact"} for worker in app.workers)


async def wait_for(app: LcmApp, text: str, seconds: float = 15.0) -> None:
    """Wait until *text* is on the screen and nothing is pending any more."""
    end = time.monotonic() + seconds
    while text not in screen_text(app) or is_reading(app):
        if time.monotonic() > end:
            sys.stderr.write(screen_text(app) + "\n")
            raise SystemExit(f"'{text}' did not appear")
        await asyncio.sleep(0.05)


def host_folder(name: str, home: Path) -> Path:
    """The state folder of a recorded host, whose engine is behind by a turn."""
    with tarfile.open(RECORDED / f"{name}.tar.xz") as archive:
        archive.extractall(home / "host", filter="data")
    state = home / "host" / name
    row = ("t1", "lossless-claw", "27046938-a735-4a93-a971-f4fe747bb833", "{}", 3, "database is locked")
    with closing(sqlite3.connect(state / "agents" / "main" / "agent" / "openclaw-agent.sqlite")) as db, db:
        db.execute(
            "INSERT INTO context_engine_turn_outbox (advancement_key, engine_id, session_id, payload_json, "
            "attempt_count, last_error, created_at) VALUES (?, ?, ?, ?, ?, ?, ?)",
            (*row, int(THEN.timestamp() * 1000)),
        )
    return state


async def take(picture: Picture, home: Path) -> None:
    """Drive the app to one state and save it."""
    options, last = Options(openclaw_dir=str(home / ".openclaw")), "3 on disk"
    if picture.recorded:
        file = home / "recorded.db"
        file.write_bytes(gzip.decompress((RECORDED / picture.recorded).read_bytes()))
        options, last = Options(db=str(file)), "live"
    if picture.host:
        options = Options(db=home / ".openclaw" / "lcm.db", openclaw_dir=host_folder(picture.host, home))
    environment = {"TZ": "UTC"} | ({"LCM_FRESH_TAIL_COUNT": picture.tail} if picture.tail else {})
    app = LcmApp(resolve(options, environment, home=home), demo=True)
    async with app.run_test(size=picture.size) as pilot:
        await wait_for(app, last)  # the last thing that the list finds
        for key in picture.keys:
            await pilot.press(key)
            await asyncio.sleep(0.3)
        await wait_for(app, picture.shows)
        await asyncio.sleep(0.4)
        target = FOLDER / f"{picture.name}.svg"
        target.write_text(app.export_screenshot(title="lcm-tui"), encoding="utf-8")
        app.exit(0)


def main() -> None:
    """Take the pictures named on the command line, or all of them."""
    for name in ("NO_COLOR", "TEXTUAL_THEME"):
        os.environ.pop(name, None)
    # Named where a deletion is previewed; no picture writes an export.
    os.environ["XDG_DATA_HOME"] = "/home/operator/.local/share"
    reads.clock = lambda: THEN
    wanted, missing = set(sys.argv[1:]), []
    with tempfile.TemporaryDirectory(prefix="lcm-tui-pictures-") as folder:
        home = Path(folder)
        keep_snapshots(unpack_demo(home))
        for picture in PICTURES:
            if not wanted or picture.name in wanted:
                try:
                    asyncio.run(take(picture, home))
                except SystemExit as told:  # the others are taken all the same
                    missing.append(f"{picture.name}: {told}")
                    continue
                sys.stdout.write(f"{picture.name}.svg\n")
    if missing:
        raise SystemExit("\n".join(missing))


if __name__ == "__main__":
    main()
