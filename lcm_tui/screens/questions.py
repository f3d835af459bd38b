"""Dialogs of several screens: how drafts are requested, an answer with its evidence, a backup first."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import ClassVar, Final

from lcm_core.base.errors import LcmError
from lcm_core.base.text import counted
from lcm_core.base.times import parse_utc
from lcm_core.base.values import replace
from lcm_core.change.backup import default_target, known_backups, make_backup, offers_backup
from lcm_core.change.connection import keep_wal, unread_wal, wals_folder
from lcm_core.change.copying import CopyProgress
from lcm_core.change.journal import operations
from lcm_core.store.database import Reader
from textual import on
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Input, Static

from lcm_tui.flows.change import Choice
from lcm_tui.flows.drafts import CUT, Asked
from lcm_tui.kit.bars import DONE_SECONDS
from lcm_tui.kit.commands import DIVIDER_BACK, DIVIDER_ON
from lcm_tui.kit.dialog import BESIDE, TEXT, TYPING, Answers, Dialog, answer_rows, key_row
from lcm_tui.kit.dialogs import Question
from lcm_tui.kit.panes import TwoPanes
from lcm_tui.kit.session import Session
from lcm_tui.kit.spans import (
    Block,
    Document,
    Line,
    Span,
    WrappedBlock,
    heading,
    slice_of,
    text_field,
    text_of,
)
from lcm_tui.kit.terminal import Decision
from lcm_tui.kit.text import TextView
from lcm_tui.tables.asked import MARGIN, blocks_of, passage_at, passages_in
from lcm_tui.tables.blocks import size_text
from lcm_tui.tables.composition import gauge
from lcm_tui.tables.messages import below_home

# -- how drafts are requested ----------------------------------------------------------------------------
# Who writes them, where, with which prompts and which instructions.

_FIELDS: Final = (
    ("whom", "Writer: provider/model, or extractive"),
    ("address", "Server address, if not the default"),
    ("prompts", "Prompt: a file, or a folder of prompts"),
    ("instructions", "Instructions"),
)
#: What the help says of them.
_EXPLAINED: Final = (
    (
        "Writer",
        "who writes: openai/gpt-5-mini, for example, or extractive, which is offline and costs nothing",
    ),
    ("Server address", "of a server that is not the provider's own, such as http://localhost:11434"),
    ("Prompt", "a file with a prompt, or a folder with one for each depth"),
    ("Instructions", "a sentence for the writer, such as: keep every path and ticket number"),
)


class AskAgain(Dialog[Asked | None]):
    """Four lines to fill in; the result is None when it was left."""

    ABOUT = """
    Who writes the drafts, and how. Nothing is sent before you start; drafts change nothing before you preview
    and apply them.
    """
    FIXED = 12
    DEFAULT_CSS = """
    AskAgain .box { overflow-y: auto; scrollbar-size-vertical: 1; }
    AskAgain Input { height: 1; border: none; padding: 0 1; margin-bottom: 1; background: $panel; }
    AskAgain Input:focus { border: none; background: $primary 30%; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "start", "Start", tooltip="Draft with what is filled in.", id="ask-start"),
        # At once, or what is typed right after would still go to the line before.
        Binding(
            "tab,down",
            "app.focus_next",
            "Next field",
            tooltip="Go to the next field.",
            priority=True,
            id="ask-next",
        ),
        Binding(
            "shift+tab,up",
            "app.focus_previous",
            "Previous",
            tooltip="Go to the previous field.",
            priority=True,
            show=False,
            id="ask-previous",
        ),
        Binding("escape", "leave", "Cancel", tooltip="Close without drafting.", id="ask-leave"),
    ]

    def __init__(self, title: str, before: str, last: Asked, *, cut: bool = False) -> None:
        """*before* names who is asked when nobody is named; *last* is filled in; *cut*: a cut will do."""
        super().__init__()
        self._title = title
        self._cut = f", or '{CUT}' (truncate the source)" if cut else ""
        self._before = before
        self._last = last

    def compose_box(self) -> ComposeResult:
        """What can be said."""
        said = TextView((heading(self._title), Block(f"Empty fields keep the last writer: {self._before}.")))
        said.can_focus = False
        yield said
        for name, words in _FIELDS:
            yield Static(words + (self._cut if name == "whom" else ""), markup=False)
            yield Input(getattr(self._last, name), id=name)

    def own_help(self, usual: Sequence[Binding]) -> Sequence[Binding]:
        """A question mark is text here."""
        return [replace(one, key="f1", id="help-while-typing") for one in usual]

    def explained(self) -> Document:
        """What each field takes."""
        rows = (text_field(f"{name} ", what, width=TEXT) for name, what in _EXPLAINED)
        return (Block(), heading(self._title), *rows)

    def more_keys(self) -> Document:
        """Those that edit a field."""
        return (key_row("shift+tab", "Previous", "Go to the previous field."), *TYPING)

    def on_mount(self) -> None:
        """Begin with who writes."""
        self.query_one("#whom", Input).focus()

    @on(Input.Submitted)
    def action_start(self) -> None:
        """Draft with what is filled in."""
        said = {name: self.query_one(f"#{name}", Input).value.strip() for name, _ in _FIELDS}
        self.dismiss(Asked(**said))

    def action_leave(self) -> None:
        """Leave."""
        self.dismiss(None)


# -- an answer and its evidence --------------------------------------------------------------------------
# Over the screen, beside each other where there is room.

#: Cells of a terminal in which two texts stand beside each other.
_BESIDE: Final = 100
_CHOOSING: Final = (
    key_row("↑ ↓ k j", "Passage", "Select the passage above or below; a tall one scrolls first."),
    key_row("1 … 9", "Open", "Open the passage of this number."),
    key_row("PgUp PgDn", "Page", "Scroll by a page; space pages on."),
    key_row("Home End", "Ends", "Go to the first passage or the last; g and G do the same."),
)


class Passages(TextView):
    """The evidence, in which one passage is selected; a passage that is too tall scrolls before the next."""

    moves = (
        (("up", "down"), "the passage above, the passage below"),
        (("page-up", "page-down", "text-page-down"), "scroll by a page"),
        (("first", "last"), "the first passage, the last one"),
    )

    def __init__(self, document: Document, *, id: str) -> None:  # noqa: A002 - Textual's own name for it
        super().__init__(document, id=id)
        self.selected = 1

    @property
    def count(self) -> int:
        """How many passages there are."""
        return passages_in(self.document)

    def select(self, number: int) -> None:
        """Select a passage and bring it into sight, its heading at least."""
        self.selected = max(1, min(number, self.count))
        first, end = self._extent
        if end - first > self._height or first < self._top:
            self._show_from(first)
        elif end > self._top + self._height:
            self._show_from(end - self._height)
        self._draw_anew()

    def action_move(self, step: int) -> None:
        """To the next passage, or the one before; first to the end of the one that is selected."""
        first, end = self._extent
        cut = end > self._top + self._height if step > 0 else first < self._top
        last = self.selected == (self.count if step > 0 else 1)
        if cut or last:
            super().action_move(step)
        else:
            self.select(self.selected + step)

    def action_page(self, direction: int) -> None:
        """Scroll by a page, and select what is in sight then; at the end of the text the last passage."""
        before = self._top
        super().action_page(direction)
        first, end = self._extent
        if self._top == before:
            self.select(self.count if direction > 0 else 1)
        elif end <= self._top or first >= self._top + self._height:
            self.selected = min(passage_at(self.first_block), max(self.count, 1))
            self._draw_anew()

    def action_first(self) -> None:
        """To the first passage."""
        super().action_first()
        self.select(1)

    def action_last(self) -> None:
        """To the last passage."""
        self.select(self.count)

    @property
    def _extent(self) -> tuple[int, int]:
        """The first line of the selected passage, and the one behind its last."""
        heading, text = blocks_of(self.selected)
        if text + 1 >= len(self._tops):
            return 0, 0
        return self._tops[heading], self._tops[text + 1]

    def _line_or_nothing(self, at: int) -> Line:
        line = super()._line_or_nothing(at)
        first, end = self._extent
        if not first <= at < end:
            return line
        return (Span("▌".ljust(MARGIN), "key"), *slice_of(line, MARGIN, len(text_of(line))))


class TwoTexts(Dialog[None]):
    """An answer and its evidence; ``tab`` goes from one to the other."""

    ABOUT = "The evidence for a question, and its answer if a model was asked. Nothing changes here."
    FIXED = None
    DEFAULT_CSS = """
    TwoTexts .box { width: 100%; }
    TwoTexts Divider { background: $surface; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab", "app.focus_next", "Other text", tooltip="Go to the other text.", id="two-texts-tab"),
        Binding(
            DIVIDER_BACK.key,
            "divide(-1)",
            "Divider back",
            tooltip=DIVIDER_BACK.help,
            id="divider-back",
        ),
        Binding(
            DIVIDER_ON.key,
            "divide(1)",
            "Divider on",
            tooltip=DIVIDER_ON.help,
            id="divider-on",
        ),
        Binding("enter", "open(0)", "Open", tooltip="Open the selected passage.", id="two-texts-open"),
        *(
            Binding(
                str(number),
                f"open({number})",
                f"Passage {number}",
                tooltip="Open the passage of this number.",
                show=False,
                id=f"two-texts-open-{number}",
            )
            for number in range(1, 10)
        ),
        Binding("escape,q", "dismiss", "Back", tooltip="Close both texts.", id="two-texts-back"),
    ]

    def __init__(self, first: Document, second: Document, open_passage: Callable[[int], object]) -> None:
        """*open_passage* gets the number of a passage, from 1."""
        super().__init__()
        self._open_passage = open_passage
        self.first = TextView(first, id="first")
        self.second = Passages(second, id="second")
        self._panes = TwoPanes(self.first, self.second, shares=(0.4, 0.5), beside=_BESIDE)

    def compose_box(self) -> ComposeResult:
        """Both texts."""
        yield self._panes

    def on_mount(self) -> None:
        """Arrows choose a passage at once."""
        self.second.focus()

    def fit(self) -> None:
        """The answer has the lines that it needs; what is left is the evidence's."""
        width = max(self.app.size.width - BESIDE, 1)
        self._panes.give_lines(sum(len(WrappedBlock(block, width)) for block in self.first.document))

    def more_keys(self) -> Document:
        """Those that choose a passage."""
        return _CHOOSING

    def action_open(self, number: int) -> None:
        """Open a passage in its conversation; 0: the selected one."""
        count = self.second.count
        if number > count:
            there = counted(count, "passage") if count else "no passage"
            self.notify(f"There is no passage {number}: the evidence has {there}.", timeout=3)
        elif count:
            self.second.select(number or self.second.selected)
            self._open_passage(self.second.selected)

    @on(TextView.Clicked, "#second")
    def _clicked_passage(self, event: TextView.Clicked) -> None:
        """A click selects a passage; one on the selected passage opens it."""
        number = passage_at(event.block)
        if number == self.second.selected:
            self.action_open(0)
        else:
            self.second.select(number)

    def action_divide(self, step: int) -> None:
        """Give one of them more room."""
        self.query_one(TwoPanes).move(step)

    async def show(self, first: Document, second: Document) -> None:
        """Show others."""
        await self.first.load(first)
        await self.second.load(second)
        self.second.select(1)
        self.fit()


# -- the offer of a backup -------------------------------------------------------------------------------
# Before the first change of a day; none is made without a yes.

MIB: Final = 1024 * 1024
#: How often the progress is drawn.
DRAWN_SECONDS: Final = 0.1
GAUGE: Final = 40
KEYS: Final = (
    ("enter a", "back up and continue"),
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
    last, size = await session.read(last_operation_at), _size_of(session)
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
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("a,b,enter", "backup", "Back up", tooltip="Make the copy, then continue.", id="offer-backup"),
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
        yield Answers(KEYS)

    def _document(self) -> Document:
        first = "This is the first change today."
        blocks = [
            heading("Back up before this change?"),
            Block(self._problem, "error") if self._problem else Block(first),
            Block(),
        ]
        if self._stop is not None:
            blocks += [*self._progress_blocks(), Block()]
        return (
            *blocks,
            text_field("copy of", f"{self._file}, {size_text(self._file_size)}", width=9),
            text_field("to", str(self._target), width=9),
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
        self.query_one(Answers).show(answer_rows(KEYS if self._stop is None else ()))
        self.fit()

    @on(TextView.Clicked, "#answers")
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
        said = f"{below_home(made.path)}, {size_text(made.bytes)}"
        self.app.notify(said, title="Backup made", timeout=DONE_SECONDS)
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
        "The WAL is not read", (Block(spans=(Span(text),)),), (("a", "keep a copy and continue"),)
    )
    if not await app.push_screen_wait(asked):
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
    offer = BackupOffer(session.database.path, _size_of(session), agreed=bool(answer))
    go_on = await app.push_screen_wait(offer)
    if go_on:
        session.backup_declined = today(session)
    return go_on


class BackupFirst(Choice):
    """The same offer as a choice of a screen that shows what it is about to change: `a` agrees to both."""

    def __init__(self) -> None:
        super().__init__("back up first", ("yes", "no"))
        self._size = 0  #: of the copy, in bytes; 0: none is offered

    async def look(self, session: Session) -> None:
        """See whether one is to be offered."""
        self._size = _size_of(session) if await wants_backup(session) else 0

    def said(self, key: str) -> list[tuple[str, str, str]]:
        """The choice as `choices_lines` takes it; nothing where none is offered."""
        value = self.value if self.on else f"{self.value}, {size_text(self._size)}"
        return [(key, self.title, value)] if self._size else []

    def why_not(self) -> str | None:
        """Why there is nothing to choose."""
        return None if self._size else "a backup is offered before the first change of a day only"

    async def settled(self, app: App[int], session: Session) -> bool:
        """Make the copy, or continue without one, as is chosen; ask where nothing was offered before."""
        return await backup_settled(app, session, answer=not self.on if self._size else None)


def _size_of(session: Session) -> int:
    state = session.file_state
    return state.size + state.wal_size if state is not None else 0
