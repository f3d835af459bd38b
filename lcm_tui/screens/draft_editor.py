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
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Final

from lcm_core.errors import ConfigurationError
from lcm_core.text import safe_line, safe_text
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
    EditScreen TextArea, EditScreen TextArea:focus { border: none; height: 1fr; }
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


def editor_of(environ: Mapping[str, str]) -> list[str]:
    """The operator's editor and its arguments.

    Raises:
        ConfigurationError: none is set, or its quotes do not close.
    """
    said = environ.get("VISUAL") or environ.get("EDITOR") or ""
    try:
        command = shlex.split(said)
    except ValueError as error:
        raise ConfigurationError(
            f"The editor {safe_line(said)} cannot be understood ({error}): set EDITOR, or use e to edit here."
        ) from None
    if not command:
        raise ConfigurationError("No editor is set: set EDITOR (for instance to vi), or use e to edit here.")
    return command


async def edit_outside(app: App[int], name: str, text: str) -> str:
    """Give the terminal to the operator's editor until it ends, and return the text that it left.

    The file lies in a private folder and goes afterwards. The event loop goes on meanwhile, so that what is
    in flight is not held up, but nothing is drawn.

    Raises:
        ConfigurationError: no editor is set, it cannot be started or failed, or it left no file.
    """
    command = editor_of(os.environ)
    with tempfile.TemporaryDirectory(prefix="lcm-tui-") as folder:
        path = Path(folder) / f"{''.join(one for one in name if one.isalnum() or one in '_-')}.md"
        path.write_bytes(text.encode("utf-8", "surrogateescape"))
        with app.suspend(), app.batch_update(), _without_interrupts():
            # Textual gives the terminal back at the end of the block, and not when something is raised in it.
            problem = await _run(command, path)
        if problem is not None:
            raise ConfigurationError(problem)
        try:
            edited = path.read_bytes().decode("utf-8", "surrogateescape")
        except OSError as error:
            raise ConfigurationError(
                f"The editor left no file that can be read ({error.strerror}); nothing was taken from it."
            ) from None
    # Editors end a file with a line break that the text did not have.
    return edited[:-1] if edited.endswith("\n") and not text.endswith("\n") else edited


async def _run(command: Sequence[str], path: Path) -> str | None:
    """Wait for an editor; what went wrong, as a sentence."""
    try:
        process = await asyncio.create_subprocess_exec(*command, str(path))
    except (OSError, ValueError) as error:  # ValueError: a NUL in the command
        why = error.strerror if isinstance(error, OSError) else str(error)
        return f"The editor {safe_line(command[0])} cannot be started ({why}): set EDITOR, or use e."
    code = await process.wait()
    return f"The editor ended with {code}; nothing was taken from it." if code else None


@contextlib.contextmanager
def _without_interrupts() -> Iterator[None]:
    """ctrl+c in the terminal is the editor's."""
    before = signal.signal(signal.SIGINT, lambda number, frame: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
