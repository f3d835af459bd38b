"""Editing a text here: a draft, or what is to become one.

What is edited is text of a database and may hold anything; a text area would send it to the terminal as it
is. Each character that is not safe there gets a harmless one in its place, and its own back at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from lcm_core.base.text import counted
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.widgets import TextArea

from lcm_tui.kit.bars import KeyBar, KeyHint, TitleBar
from lcm_tui.kit.dialog import key_row
from lcm_tui.kit.spans import Block, Document, heading
from lcm_tui.tables.compaction import KEPT, is_unsafe, put_back, stand_ins


class DraftArea(TextArea):
    """A text area into which nothing unsafe can be pasted."""

    def on_paste(self, event: events.Paste) -> None:
        """Take out what is unsafe, before the text area takes the rest."""
        event.text = "".join(one for one in event.text if one in KEPT or not is_unsafe(one))


class EditScreen(Screen[None]):
    """One text to edit; ctrl+s hands it on, esc asks once before it throws changes away."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s", "keep", "Keep", priority=True, id="edit-keep"),
        Binding("f1", "help", "Help", id="edit-help"),
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
                KeyHint("^s", "Keep", "keep", True),
                KeyHint("^z", "Undo typing", "undo", True),
                KeyHint("F1", "Help", "help", True),
                KeyHint("esc", "Leave", "back", True),
            ]
        )

    def on_mount(self) -> None:
        """Say what is edited."""
        bar = self.query_one(TitleBar)
        bar.where = f"Edit {self._title}"
        held = len(self._table)
        if held:
            bar.note = f"{counted(held, 'unsafe character')} shown as signs and kept"
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
            self.app.notify("esc again discards it; ctrl+s keeps it.", timeout=5)
        else:
            self.app.pop_screen()

    def action_help(self) -> None:
        """Explain the editor; the text stays as it is."""
        from lcm_tui.kit.dialog import HelpScreen

        self.app.push_screen(HelpScreen(_help()))

    async def action_run(self, command: str) -> None:
        """A key of the bar was clicked."""
        acts = {"keep": self.action_keep, "undo": self.area.action_undo, "help": self.action_help}
        acts.get(command, self.action_leave)()


def _help() -> Document:
    rows = (
        ("ctrl+s", "Keep", "Keep the text as a draft. It changes nothing in the database yet."),
        ("esc", "Leave", "Leave without keeping; with changes, esc has to be pressed twice."),
        ("F1", "Help", "This help; the text stays as it is."),
        ("arrows", "Move", "Move by a character or a line; with ctrl by a word; with shift they select."),
        ("PgUp PgDn", "Page", "Move by a page."),
        ("Home End", "Line ends", "Go to the beginning or the end of the line."),
        ("^z ^y", "Undo, redo", "Undo and redo what was typed."),
        ("^x ^v", "Cut, paste", "Cut what is selected, paste what was cut; the terminal's own paste works."),
        ("F7", "Select all", "Select the whole text."),
        ("^u ^k", "Delete", "Delete to the beginning, or to the end, of the line."),
        ("^w", "Word", "Delete the word before the cursor."),
        ("^q ^c", "Quit", "Quit lcm-tui immediately, without asking: the typing is lost."),
    )
    return (
        Block(
            "A text to edit. Keep it, and it becomes a draft that you review, preview and apply as any other."
        ),
        Block(),
        heading("Keys of the editor"),
        *(key_row(*row) for row in rows),
    )
