"""A search whose first hits are handed out while it goes on: what a screen that searches stands on.

Source: docs/recall.md, "Progress".
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from lcm_core.recall.find import DEADLINE_SECONDS, RANKED, Found, Progress, search
from lcm_core.recall.indexing import IndexUse
from lcm_core.recall.settings import RecallSettings
from lcm_core.recall.spellings import KnownWords
from lcm_core.recall.terms import Query
from lcm_core.store.database import Database, Reader
from lcm_core.store.searched import Filter


async def search_live(
    database: Database,
    query: Query,
    wanted: Filter,
    settings: RecallSettings,
    heard: Callable[[Progress], None],
    *,
    limit: int = 20,
    offset: int = 0,
    seconds: float = DEADLINE_SECONDS,
    near_seconds: float | None = 1.0,
    words: KnownWords | None = None,
    index: IndexUse | None = None,
    ranked: int = RANKED,
) -> Found:
    """Search, and tell *heard* how far it is; the answer is that of `search`.

    *heard* is called on the event loop of the caller, in order, and never after this has returned or raised:
    first with what the file's own search tables find, with the first hit of the scan, then about five times a
    second. What it is given replaces what it was given before: a later page may rank otherwise, and begins
    anew when the file was replaced while it was read. It must return soon and raise nothing.

    To end a search, as when another query is typed, cancel the task that awaits it: what SQLite runs is
    interrupted, and the task ends when its thread has. A worker of Textual that is exclusive does that.

    *index* is that of the file (`index_of`), None to go without.

    Raises:
        DatabaseError: the file cannot be read.
        asyncio.CancelledError: the caller was cancelled; `heard` is not called any more.
    """
    loop = asyncio.get_running_loop()
    over = False

    def hand_out(progress: Progress) -> None:
        if not over:
            heard(progress)

    def from_thread(progress: Progress) -> None:
        loop.call_soon_threadsafe(hand_out, progress)

    async def load(reader: Reader) -> Found:
        return await reader.run(
            lambda rows: search(
                rows,
                reader.schema,
                query,
                wanted,
                settings,
                limit=limit,
                offset=offset,
                seconds=seconds,
                near_seconds=near_seconds,
                words=words,
                heard=from_thread,
                index=index,
                ranked=ranked,
            )
        )

    try:
        return await database.read(load)
    finally:
        over = True
