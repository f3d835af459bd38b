"""Editing a draft: here, or in the operator's own editor.

What is edited is text of a database and may hold anything; a text area would send it to the terminal as it
is. Each character that is not safe there gets a harmless one in its place, and its own back at the end.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import ClassVar, Final

from lcm_core.errors import ConfigurationError
from lcm_core.text import safe_text
from textual import events
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.widgets import TextArea

from lcm_tui.widgets.bars import KeyBar, KeyHint, TitleBar

#: What stands for a character that cannot be shown, when its own picture is taken: private use, one cell.
_POOL: Final = range(0xE000, 0xF8FF)
#: Characters at which an editor would break lines, and the tab, which it keeps.
_KEPT: Final = frozenset("\n\t")
_ENDS: Final = frozenset("\x85\u2028\u2029")


def stand_ins(text: str) -> dict[int, str]:
    """For every character of *text* that is not safe to show (by code point) one that stands for it.

    None of those occurs in the text, and no two are alike, so they can be put back.
    """
    used = set(text)
    unsafe = sorted(one for one in used - _KEPT if _is_unsafe(one))
    free = (chr(code) for code in _POOL if chr(code) not in used)
    table: dict[int, str] = {}
    for one in unsafe:
        picture = chr(0x2400 + ord(one)) if ord(one) < 0x20 else "␡" if one == "\x7f" else ""
        if not picture or picture in used:
            picture = next(free)
        used.add(picture)
        table[ord(one)] = picture
    return table


def _is_unsafe(one: str) -> bool:
    """Whether a terminal could take it for more than a character, or a text area for the end of a line."""
    if one.isascii():
        return not one.isprintable()
    blank = one.isspace() and one not in _ENDS
    return safe_text(f"a{one}") != f"a{one}" or not (one.isprintable() or blank)


def put_back(text: str, table: dict[int, str]) -> str:
    """The text with its own characters again."""
    return text.translate({ord(stand_in): code for code, stand_in in table.items()})


class DraftArea(TextArea):
    """A text area into which nothing unsafe can be pasted."""

    async def _on_paste(self, event: events.Paste) -> None:
        event.text = "".join(one for one in event.text if one in _KEPT or not _is_unsafe(one))


class EditScreen(Screen[None]):
    """One text to edit; ctrl+s hands it on, esc asks once before it throws changes away."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s", "keep", "Keep", priority=True, id="edit-keep"),
        Binding("escape", "leave", "Leave", priority=True, id="edit-leave"),
    ]
    DEFAULT_CSS = """
    EditScreen TextArea { border: none; height: 1fr; }
    """

    def __init__(self, name: str, text: str, then: Callable[[str], object]) -> None:
        """*then* gets the text once it is kept."""
        super().__init__()
        self._title = name
        self._begun = text
        self._table = stand_ins(text)
        self._then = then
        self._warned = False

    def compose(self) -> ComposeResult:
        """The text between title and keys."""
        yield TitleBar()
        yield DraftArea(self._begun.translate(self._table), soft_wrap=True, tab_behavior="focus")
        yield KeyBar(
            lambda: [
                KeyHint("^s", "Keep as a draft", "", True),
                KeyHint("esc", "Leave", "", True),
            ]
        )

    def on_mount(self) -> None:
        """Say what is edited."""
        bar = self.query_one(TitleBar)
        bar.where = f"Edit a draft of {self._title}"
        held = len(self._table)
        bar.note = f"{held} unsafe characters are shown by signs and kept" if held else "ctrl+s keeps it"
        self.area.focus()

    @property
    def area(self) -> TextArea:
        """The text area."""
        return self.query_one(TextArea)

    @property
    def text(self) -> str:
        """The text as it is now, with its own characters."""
        return put_back(self.area.text, self._table)

    def action_keep(self) -> None:
        """Hand the text on."""
        text = self.text
        self.app.pop_screen()
        self._then(text)

    def action_leave(self) -> None:
        """Leave; changes are thrown away only at the second time."""
        if self.text != self._begun and not self._warned:
            self._warned = True
            self.app.notify("esc once more throws your changes away; ctrl+s keeps them.", timeout=5)
        else:
            self.app.pop_screen()

    async def action_run(self, command: str) -> None:
        """Keys of the bar are only shown."""


def editor_of(environ: dict[str, str]) -> list[str]:
    """The operator's editor and its arguments.

    Raises:
        ConfigurationError: none is set.
    """
    said = environ.get("VISUAL") or environ.get("EDITOR") or ""
    with contextlib.suppress(ValueError):
        if shlex.split(said):
            return shlex.split(said)
    raise ConfigurationError("No editor is set: set EDITOR (for instance to vi), or use e to edit here.")


async def edit_outside(app: App[int], name: str, text: str) -> str | None:
    """Give the terminal to the operator's editor until it ends; None: it failed and nothing is taken.

    The file lies in a private folder and goes afterwards. The event loop goes on meanwhile, so that what is
    in flight is not held up, but nothing is drawn.

    Raises:
        ConfigurationError: no editor is set, or it cannot be started.
    """
    command = editor_of(dict(os.environ))
    with tempfile.TemporaryDirectory(prefix="lcm-tui-") as folder:
        path = Path(folder) / f"{''.join(one for one in name if one.isalnum() or one in '_-')}.md"
        path.write_bytes(text.encode("utf-8", "surrogateescape"))
        with app.suspend(), app.batch_update(), _without_interrupts():
            try:
                process = await asyncio.create_subprocess_exec(*command, str(path))
            except OSError as error:
                raise ConfigurationError(
                    f"The editor {command[0]} cannot be started ({error.strerror}): set EDITOR, or use e."
                ) from None
            code = await process.wait()
        edited = path.read_bytes().decode("utf-8", "surrogateescape")
    if code != 0:
        app.notify(f"The editor ended with {code}; nothing was taken from it.", severity="warning")
        return None
    # Editors end a file with a line break that the text did not have.
    return edited[:-1] if edited.endswith("\n") and not text.endswith("\n") else edited


@contextlib.contextmanager
def _without_interrupts() -> Iterator[None]:
    """ctrl+c in the terminal is the editor's."""
    before = signal.signal(signal.SIGINT, lambda number, frame: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
