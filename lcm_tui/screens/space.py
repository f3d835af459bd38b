"""Space that is given back to the disk, and files that are removed, each after a question."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from lcm_core.base.errors import LcmError
from lcm_core.base.text import counted
from lcm_core.operations.disk import DiskFile, Removed, estimate_vacuum, remove_strays, strays_in, vacuum
from lcm_core.store.statistics import file_size
from textual.app import App

from lcm_tui.kit.dialogs import Question
from lcm_tui.kit.session import Session
from lcm_tui.kit.spans import Block
from lcm_tui.tables.blocks import bytes_text
from lcm_tui.tables.disk import vacuum_sentence, vacuumed_sentence

#: Files that a question lists.
LISTED: Final = 8


async def give_back(
    app: App[int], session: Session, busy: Callable[[str], object], *, leave: str = "cancel"
) -> bool:
    """Ask whether to run a VACUUM, with its time and room, and run it; False when it was not run.

    If it cannot run, the reason is shown instead of the question. *busy* is called with the current activity,
    and with "" at the end.
    """
    path, stop = session.database.path, threading.Event()
    file = await session.read(file_size, tables=False)
    estimate = await asyncio.to_thread(estimate_vacuum, path)
    if estimate.problem:
        app.notify(f"{estimate.problem}. The space was not given back.", severity="warning")
        return False
    question = Question(
        "Give the space back?",
        (Block(vacuum_sentence(estimate, file)),),
        (("a", "rewrite the file"),),
        leave=leave,
    )
    if await app.push_screen_wait(question) != "a":
        return False
    busy("giving the space back …")
    try:
        before, after = await asyncio.to_thread(lambda: vacuum(path, stopped=stop.is_set))
    except asyncio.CancelledError:
        stop.set()
        raise
    finally:
        busy("")
    await session.database.refresh()
    app.notify(vacuumed_sentence(before, after))
    return True


async def clear_strays(
    app: App[int], session: Session, strays: Sequence[DiskFile], *, leave: str = "cancel"
) -> bool:
    """List large files that no row names, and remove them when that is agreed to."""

    async def remove() -> Removed:
        return await session.read(remove_strays, session.settings.large_files_dir.value, strays)

    return await clear_files(app, "large file", strays, remove, leave=leave)


async def clear_files(
    app: App[int],
    what: str,
    files: Sequence[DiskFile],
    remove: Callable[[], Awaitable[Removed]],
    *,
    leave: str = "cancel",
) -> bool:
    """List files, each a *what*, and remove them when that is agreed to."""
    more = [f"and {len(files) - LISTED:,} more"] if len(files) > LISTED else []
    names = [f"{one.path.parent.name}/{one.path.name}" for one in files[:LISTED]]
    size = bytes_text(sum(one.bytes for one in files))
    question = Question(
        f"Remove {counted(len(files), what)} ({size})? This cannot be undone.",
        tuple(map(Block, [*names, *more])),
        (("a", "remove them"),),
        leave=leave,
        enter=False,
    )
    if await app.push_screen_wait(question) != "a":
        return False
    try:
        done = await remove()
    except LcmError as error:
        app.notify(error.message, severity="error")
        return False
    app.notify(" ".join([f"{bytes_text(done.bytes)} are free again.", *done.kept[:1]]))
    return True


async def offer_space(app: App[int], session: Session) -> None:
    """After a deletion: offer what it freed in the file, then the large files that no row names now."""
    if (await session.read(file_size, tables=False)).free:
        await give_back(app, session, lambda said: app.notify(said) if said else None, leave="not now")
    settings = session.settings
    if settings.knows_large_files:
        strays = await session.read(strays_in, settings.large_files_dir.value)
        if strays:
            await clear_strays(app, session, strays, leave="not now")
