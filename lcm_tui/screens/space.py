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

from lcm_tui.flows.change import confirm_removal
from lcm_tui.kit.dialogs import Question
from lcm_tui.kit.spans import Block
from lcm_tui.screens.frame import CommandScreen
from lcm_tui.tables.blocks import bytes_text
from lcm_tui.tables.disk import vacuum_sentence, vacuumed_sentence

#: Files that a question lists.
LISTED: Final = 8


async def _ask(screen: CommandScreen, question: Question) -> bool:
    """Ask on the screen that caused it; on any other, say where to find the question."""
    if screen.app.screen is not screen:
        screen.app.notify(f"Disk ({screen.key_of('disk')}) can give space back now.")
        return False
    return await screen.app.push_screen_wait(question) == "a"


async def give_back(
    screen: CommandScreen, busy: Callable[[str], object], *, leave: str = "cancel", freed: int = 0
) -> bool:
    """Ask whether to run a VACUUM, with its time and room, and run it; False when it was not run.

    If it cannot run, the reason is shown instead of the question. *busy* is called with the current activity,
    and with "" at the end. *freed*: bytes that a deletion was estimated to free.
    """
    app, session, stop = screen.app, screen.session, threading.Event()
    path = session.database.path
    file = await session.read(file_size, tables=False)
    estimate = await asyncio.to_thread(estimate_vacuum, path)
    if estimate.problem:
        app.notify(f"{estimate.problem}. The space was not given back.", severity="warning")
        return False
    question = Question(
        "Give the space back?",
        (Block(vacuum_sentence(estimate, file, freed)),),
        (("a", "rewrite the file"),),
        leave=leave,
    )
    if not await _ask(screen, question):
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


async def clear_strays(screen: CommandScreen, strays: Sequence[DiskFile], *, leave: str = "cancel") -> bool:
    """List large files that no row names, and remove them when that is agreed to."""
    session = screen.session

    async def remove() -> Removed:
        return await session.read(remove_strays, session.settings.large_files_dir.value, strays)

    return await clear_files(screen, "large file", strays, remove, leave=leave)


async def clear_files(
    screen: CommandScreen,
    what: str,
    files: Sequence[DiskFile],
    remove: Callable[[], Awaitable[Removed]],
    *,
    leave: str = "cancel",
) -> bool:
    """List files, each a *what*, and remove them when their number is typed."""
    more = [f"and {len(files) - LISTED:,} more"] if len(files) > LISTED else []
    names = [f"{one.path.parent.name}/{one.path.name}" for one in files[:LISTED]]
    size = bytes_text(sum(one.bytes for one in files))
    question = Question(
        f"Remove {counted(len(files), what)} ({size})? This cannot be undone.",
        tuple(map(Block, [*names, *more])),
        (("a", "remove for good…"),),
        leave=leave,
    )
    if not await _ask(screen, question) or not await screen.confirmed(confirm_removal(len(files))):
        return False
    try:
        done = await remove()
    except LcmError as error:
        screen.app.notify(error.message, severity="error")
        return False
    screen.app.notify(" ".join([f"{bytes_text(done.bytes)} are free again.", *done.kept[:1]]))
    return True


async def offer_space(screen: CommandScreen, freed: int) -> None:
    """After a deletion: offer what it freed in the file, then the large files that no row names now."""
    session, settings = screen.session, screen.session.settings
    if (await session.read(file_size, tables=False)).free:
        notify = screen.app.notify
        await give_back(screen, lambda said: said and notify(said), leave="not now", freed=freed)
    if settings.knows_large_files:
        strays = await session.read(strays_in, settings.large_files_dir.value)
        if strays:
            await clear_strays(screen, strays, leave="not now")
