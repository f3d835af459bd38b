"""One large file, read from disk: its text, or what it is when it is no text."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import ClassVar

from lcm_core.records import LargeFile
from lcm_core.text import fold, sought_as
from textual.app import ComposeResult
from textual.binding import BindingType

from lcm_tui.commands import STEPPED, Action, bindings
from lcm_tui.data_screen import DataScreen
from lcm_tui.frame import CommandScreen
from lcm_tui.panes.finding import Finder, TextFinder
from lcm_tui.screens.files.reads import OpenedFile, open_file
from lcm_tui.views.file import file_facts
from lcm_tui.views.units import size_text
from lcm_tui.widgets.text import Block, Document, TextView, heading


class FileScreen(DataScreen[OpenedFile]):
    """The text of one large file."""

    HELP = """
The file as it is on this machine now: its text, or the beginning of a large file (the title shows how much).
A file that is not text is described and not shown. ctrl+r reads it again.

m switches to what the database says about it: its size and type, where it is stored, and its exploration
summary. [ and ] go to the previous and the next file of the list that can be opened.
"""
    BINDINGS: ClassVar[list[BindingType]] = list(bindings("other-view", *STEPPED))
    WORDS: ClassVar[Mapping[str, tuple[str, str]]] = MappingProxyType(
        {"other-view": ("Facts", "Switch between the text and what the database says about the file.")}
    )

    def __init__(self, file: LargeFile, *, find: str = "") -> None:
        """*find*: what was found in the file, or in what the database says of it: it opens there."""
        super().__init__()
        self._find = find
        self._file = file
        self.text = TextView(empty="Reading the file …", id="text")
        self._in_text = TextFinder(self.text)
        self._as_facts = False
        self._data: OpenedFile | None = None

    def compose_body(self) -> ComposeResult:
        """The text."""
        yield self.text

    def on_mount(self) -> None:
        """Give the keys to the text."""
        self.text.focus()

    def where(self) -> str:
        """Which file."""
        return self._file.file_name or self._file.file_id

    def finder(self) -> Finder:
        """The search in the text."""
        return self._in_text

    def selected_id(self) -> str | None:
        """The file's id."""
        return self._file.file_id

    def data_changed(self) -> None:
        """A change of the database is none of the file."""
        self.show_live()

    async def fetch(self) -> OpenedFile:
        """Find the file and read its beginning."""
        return await asyncio.to_thread(open_file, self._file, self.session.settings)

    def show(self, data: OpenedFile) -> None:
        """Show the text, or say why there is none."""
        self._data = data
        if find := self._find:
            self._find = ""
            self._as_facts = self._is_in_facts(find, data)
            self._show_text(keep_place=True)
            if not self._in_text.stand_on_match(find):
                self.app.notify(f"“{find}” is not in the part of the file that is shown.", timeout=3)
        else:
            self._show_text(keep_place=True)

    def _show_text(self, *, keep_place: bool) -> None:
        if self._data is None:
            return
        note, document = _note_and_text(self._data)
        facts = file_facts(self._file, self._data.stored, self.session)
        if self._as_facts:
            said = self._file.exploration_summary
            summary = Block(said) if said else Block("No exploration summary.", "dim")
            document = (*facts, Block(), heading("Exploration summary"), summary)
        elif self._data.text is None or self._data.text.binary:
            document = (*document, Block(), *facts)
        self.title_bar.note = note
        self.text.show(document, keep_place=keep_place)

    def _is_in_facts(self, find: str, data: OpenedFile) -> bool:
        """Whether only what the database says about the file holds it."""
        sought, text = sought_as(find), data.text.text if data.text is not None else ""
        return sought not in fold(text) and sought in fold(self._file.exploration_summary or "")

    def _turn(self) -> None:
        self._as_facts = not self._as_facts
        self._show_text(keep_place=False)
        self.refresh_bars()

    def actions(self) -> Sequence[Action]:
        """The other view."""
        return (Action("other-view", self._turn),)

    def title_now(self, command: str) -> str:
        """`m` gives the other view."""
        return "Text" if command == "other-view" and self._as_facts else super().title_now(command)

    def go_on_from(self, before: CommandScreen) -> None:
        """The text, or the facts."""
        if isinstance(before, FileScreen) and not self._find:
            self._as_facts = before._as_facts


def _note_and_text(data: OpenedFile) -> tuple[str, Document]:
    """A word on the file for the title, and the text to show or the reason why there is none."""
    if data.text is None:
        return "cannot be shown", (Block(data.failure, "warn"),)
    size = size_text(data.text.size)
    if data.text.binary:
        said = f"This file is not text and is not shown: {data.text.description}, {data.text.size:,} bytes."
        return f"{data.text.description}, {size}", (Block(said),)
    if not data.text.text:
        return "empty", (Block("This file is empty.", "dim"),)
    note = size if data.text.complete else f"the first {size_text(data.text.bytes_read)} of {size}"
    return note, (Block(data.text.text),)
