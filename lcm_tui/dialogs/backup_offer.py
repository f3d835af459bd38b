"""The offer of a backup before the first change of a day; one is never made without being asked for."""

from __future__ import annotations

import asyncio
import threading
import time
from datetime import UTC, date, datetime
from pathlib import Path
from typing import ClassVar, Final

from lcm_core.change.backup import default_target, known_backups, make_backup, offers_backup
from lcm_core.change.beside import keep_wal, unread_wal, wals_folder
from lcm_core.change.copying import CopyProgress
from lcm_core.change.journal import operations
from lcm_core.errors import LcmError
from lcm_core.store.database import Reader
from lcm_core.times import parse_utc
from textual import on
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType

from lcm_tui.dialogs.dialog import Dialog
from lcm_tui.dialogs.question import Question
from lcm_tui.session import Session
from lcm_tui.typed_ahead import Decision
from lcm_tui.views.units import size_text
from lcm_tui.widgets.composition import gauge
from lcm_tui.widgets.spans import Span
from lcm_tui.widgets.text import Block, Document, TextView, field, heading

MIB: Final = 1024 * 1024
#: How often the progress is drawn.
DRAWN_SECONDS: Final = 0.1
GAUGE: Final = 40
KEYS: Final = (
    ("b enter", "back up and continue"),
    ("n", "no backup: continue without one"),
    ("esc", "cancel"),
)


async def last_operation_at(reader: Reader) -> datetime | None:
    """When this database was changed by us the last time."""
    found = await reader.run(operations, limit=1)
    return parse_utc(found[0].created_at) if found else None


async def wants_backup(session: Session) -> bool:
    """Whether to offer a backup now: before the first change of a day, to a file of the size set for it."""
    limit, state = session.settings.backup_offer_mb.value * MIB, session.file_state
    now = _now(session)
    if not limit or state is None or session.demo or session.backup_declined == now.date():
        return False
    last = await session.read(last_operation_at)
    size = state.size + state.wal_size
    return await asyncio.to_thread(
        lambda: offers_backup(size, limit, last, known_backups(session.database.path), now)
    )


def today(session: Session) -> date:
    """The day that it is for the operator."""
    return _now(session).date()


def _now(session: Session) -> datetime:
    return datetime.now(UTC).astimezone(session.zone)


class BackupOffer(Dialog[bool], Decision[bool]):
    """Make a backup first, go on without one, or leave; the answer is whether to go on."""

    ABOUT = """
    Before the first change of a day lcm-tui offers a copy of the database. Every change can be undone in the
    history without it; the copy also helps when the file itself is lost or damaged.
    """
    FIXED = 3
    DEFAULT_CSS = """
    BackupOffer #choices { height: 3; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("b,enter", "backup", "Back up", tooltip="Make the copy, then continue.", id="offer-backup"),
        Binding(
            "n",
            "without",
            "No backup",
            tooltip="Continue without a copy; not asked again today.",
            id="offer-without",
        ),
        Binding(
            "escape,q",
            "leave",
            "Cancel",
            tooltip="Change nothing. While the copy is made: stop it.",
            id="offer-leave",
        ),
    ]

    def __init__(self, path: Path, size: int, *, agreed: bool = False) -> None:
        """Offer a backup of *path*, a file of *size* bytes; once it was *agreed* to, make it at once."""
        super().__init__()
        self._agreed = agreed
        self._file = path
        self._file_size = size
        self._target = default_target(path)
        self._stop: threading.Event | None = None  #: a copy is being made; setting it ends that
        self._progress: CopyProgress | None = None
        self._drawn_at = 0.0
        self._problem = ""

    def on_mount(self) -> None:
        """Begin with what was agreed to."""
        if self._agreed:
            self.action_backup()

    def compose_box(self) -> ComposeResult:
        """What is offered, and its keys."""
        yield TextView(self._document())
        yield TextView(self._choices(), id="choices")  # in sight however long the paths are

    def _choices(self) -> Document:
        if self._stop is not None:
            return ()
        return tuple(Block(spans=(Span(f"{key:<9}", "key"), Span(what)), indent=9) for key, what in KEYS)

    def _document(self) -> Document:
        first = "First change today. Make a backup first?"
        blocks = [
            heading("Back up before this change?"),
            Block(self._problem, "error") if self._problem else Block(first),
            Block(),
        ]
        if self._stop is not None:
            blocks += [*self._progress_blocks(), Block()]
        return (
            *blocks,
            field("copy of", f"{self._file}, {size_text(self._file_size)}", width=9),
            field("to", str(self._target), width=9),
        )

    def _progress_blocks(self) -> Document:
        now = self._progress
        share = now.done / now.total if now is not None and now.total else 0.0
        what = now.step.value if now is not None else "beginning"
        return (
            Block(spans=(*gauge(share, GAUGE), Span(f" {share * 100:.0f} %"))),
            Block(spans=(Span(f"{what} …   "), Span("esc", "key"), Span(" stops it"))),
        )

    def _draw(self) -> None:
        if not self.is_attached:
            return
        self.query(TextView).first().show(self._document())
        self.query_one("#choices", TextView).show(self._choices())
        self.fit()

    @on(TextView.Clicked, "#choices")
    def _clicked(self, event: TextView.Clicked) -> None:
        """A click on a choice makes it."""
        (self.action_backup, self.action_without, self.action_leave)[event.block]()

    # -- answers -----------------------------------------------------------------------------------------

    def action_without(self) -> None:
        """Go on without a backup."""
        if self._stop is None:
            self.dismiss(True)

    def action_leave(self) -> None:
        """Stop a copy that is being made; else leave."""
        if self._stop is not None:
            self._stop.set()
        else:
            self.dismiss(False)

    def action_backup(self) -> None:
        """Make the copy, then go on."""
        if self._stop is None:
            self._stop, self._problem, self._progress = threading.Event(), "", None
            self._draw()
            self.run_worker(self._make(), group="backup", exit_on_error=False)

    async def _make(self) -> None:
        """Copy in a thread; what goes wrong is said here, and the choice is there again."""
        stop = self._stop
        assert stop is not None
        try:
            made = await asyncio.to_thread(make_backup, self._file, self._target, self._told, stop.is_set)
        except LcmError as error:
            self._problem = error.message
            self._stop, self._target = None, default_target(self._file)
            self._draw()
            return
        finally:
            stop.set()  # when the app ends meanwhile, so does the copy
        self.app.notify(f"{made.path}, {size_text(made.bytes)}", title="Backup made", timeout=12)
        self.dismiss(True)

    def _told(self, progress: CopyProgress) -> None:
        """Called in the thread of the copy."""
        now = time.monotonic()
        if now - self._drawn_at >= DRAWN_SECONDS:
            self._drawn_at, self._progress = now, progress
            self.call_later(self._draw)


async def wal_settled(app: App[int], session: Session) -> bool:
    """Whether the file may be changed; a WAL that SQLite ignores in part is copied, if the operator agrees.

    Raises:
        LcmError: the WAL cannot be read or copied.
    """
    path = session.database.path
    found = await asyncio.to_thread(unread_wal, path)
    if found is None or not found.lost:
        return True
    size = size_text(found.lost_bytes)
    text = (
        f"SQLite ignores {size} of {found.path}, because {found.problem}. A change deletes the WAL, with the "
        f"commits in it. A copy would be kept in {wals_folder()}, readable only for you."
    )
    asked = Question(
        "The WAL is not read", (Block(spans=(Span(text),)),), (("k", "keep a copy and continue"),)
    )
    if await app.push_screen_wait(asked) != "k":
        return False
    kept = await asyncio.to_thread(keep_wal, path)
    if kept is not None:
        app.notify(f"The WAL was copied to {kept}.")
    return True


async def backup_settled(app: App[int], session: Session, *, answer: bool | None = None) -> bool:
    """Offer a backup before the first change of a day; False when the operator would rather leave it.

    *answer*: who asked another question has asked this one with it: True makes one, False does without.
    """
    if not await wal_settled(app, session):
        return False
    if not await wants_backup(session):
        return True
    if answer is False:
        session.backup_declined = today(session)
        return True
    state = session.file_state
    size = state.size + state.wal_size if state is not None else 0
    go_on = await app.push_screen_wait(BackupOffer(session.database.path, size, agreed=bool(answer)))
    if go_on:
        session.backup_declined = today(session)
    return go_on
