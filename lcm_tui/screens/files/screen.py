"""Files: the large payloads that the engine took out of messages, and where they are on this machine."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import ClassVar

from lcm_core.records import Conversation, FileId
from lcm_core.store import files as store
from lcm_core.store.files import FileReferences
from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType

from lcm_tui import places
from lcm_tui.actions.series import Series, row_actions
from lcm_tui.commands import STEPPED, Action, bindings
from lcm_tui.data_screen import DataScreen
from lcm_tui.panes.finding import Finder
from lcm_tui.panes.listing import Beside, Paging
from lcm_tui.screens.files.panes import FileList
from lcm_tui.screens.files.reads import FilePage, load_files, stored_file
from lcm_tui.views.file import file_facts, reference_facts
from lcm_tui.widgets.lines import LineView
from lcm_tui.widgets.text import Block, TextView, heading


class FilesScreen(DataScreen[FilePage]):
    """The large files of one conversation, or of all."""

    HELP = """
When a message is too large for a context, or contains an image, the engine writes the payload to a file and
stores a reference and a short description: its exploration summary. This list shows those files, the newest
first. – means: not recorded.

"on disk" shows whether the file exists on this machine. The database stores the path on the machine that
wrote it, so lcm-tui also looks in the configured folder of large files, by conversation and name. It never
opens a file outside that folder, nor a link that leads out of it.

enter opens a file that was found: text is shown (the beginning of a large file), images and other binary
files are described. / filters the list by words in any column or in the exploration summary; in the text
pane (tab) it finds text.
"""
    BINDINGS: ClassVar[list[BindingType]] = list(bindings("open", *STEPPED))

    def __init__(self, conversation: Conversation | None, *, select: FileId | None = None) -> None:
        super().__init__()
        self._conversation = conversation
        self.list = FileList(self._filtered, everywhere=conversation is None)
        self.text = TextView(id="text")
        self._panes = Beside(self.list, self.text)
        self._paging = Paging()
        self._series = Series("file", lambda: self.list.table, self._place_of)
        self._references: dict[FileId, FileReferences] = {}
        self._described: FileId | None = None
        self._wanted = select  #: to select, once it is listed

    def compose_body(self) -> ComposeResult:
        """The list, and what is known of the selected file."""
        yield self._panes

    def actions(self) -> Sequence[Action]:
        """Opening a file."""
        return (
            Action("open", self._open_file, self.list.why_not_open),
            *row_actions(self, "file", lambda: self.list.table),
        )

    def where(self) -> str:
        """Whose files."""
        if self._conversation is None:
            return "Files of all conversations"
        return f"Files of conversation {self.session.called(self._conversation)}"

    def main_widget(self) -> LineView[FileId]:
        """The list."""
        return self.list.table

    def finder(self) -> Finder:
        """The filter of the list, or the search in the text when the keys are there."""
        return self._panes.finder

    def step_back(self) -> bool:
        """Leave the text, then take the filter away."""
        return self._panes.leave_text() or super().step_back()

    def selected_id(self) -> str | None:
        """The file's id."""
        return self.list.table.selected or None

    def _open_file(self) -> None:
        if self.list.selected is not None:
            self.open(places.FileText(self.list.selected), self._series)

    async def _place_of(self, key: FileId) -> places.Place | None:
        """A file that is where it was stored."""
        file, state = self.list.files.get(key), self.list.states.get(key)
        if file is None:
            return None
        if state is None or key in self.list.unsure:
            state = await asyncio.to_thread(stored_file, file, self.session.settings)
        return places.FileText(file) if state.found else None

    # -- the list ----------------------------------------------------------------------------------------

    async def fetch(self) -> FilePage:
        """The files, as many as were asked for."""
        chosen = self._conversation.conversation_id if self._conversation is not None else None
        return await self.session.read(load_files, chosen, self._paging.limit(self.list))

    def show(self, data: FilePage) -> None:
        """Show the files, and look for those in sight."""
        self.list.zone = self.session.zone
        wanted = self._paging.take(self.list, len(data.files), more=data.more)
        self.list.show(data)
        if self._wanted is not None and (self.list.table.select(self._wanted) or not data.more):
            self._wanted = None
        self._listed()
        if wanted:
            self.load()

    def _filtered(self) -> None:
        self._listed()
        if self._paging.more:
            self.load()

    def _listed(self) -> None:
        self.title_bar.note = self.list.counted(self._paging.count)
        self._describe()
        self._look_up()

    @on(LineView.Scrolled, "#list")
    def _scrolled(self) -> None:
        self._look_up()
        if self._paging.reached_end(self.list):
            self.load()

    # -- where the files are -----------------------------------------------------------------------------

    def _look_up(self) -> None:
        """Find out, off the event loop, what became of the files in sight."""
        if keys := self.list.unsure_in_sight:
            self.work_on("locate", self._locate, keys)

    async def _locate(self, keys: Sequence[FileId]) -> None:
        wanted = {key: self.list.files[key] for key in keys if key in self.list.files}
        settings = self.session.settings
        found = await asyncio.to_thread(lambda: [stored_file(file, settings) for file in wanted.values()])
        self.list.learn(dict(zip(wanted, found, strict=True)))
        self._describe()
        self.refresh_bars()

    # -- the selected file -------------------------------------------------------------------------------

    @on(LineView.Highlighted, "#list")
    def _highlighted(self) -> None:
        self._describe()
        self._look_up()
        if self.list.table.selected is not None:
            self.work_on("refer", self._refer, self.list.table.selected)

    async def _refer(self, key: FileId) -> None:
        """Find what refers to the selected file."""
        file = self.list.files.get(key)
        if file is not None:
            self._references[key] = await self.session.read(store.references_to, file)
            self._describe()

    def _describe(self) -> None:
        """Say what is known of the selected file."""
        key, file = self.list.table.selected, self.list.selected
        if key is None or file is None:
            self.text.show(())
            return
        document = (
            *file_facts(file, self.list.states.get(key), self.session),
            *reference_facts(self._references.get(key)),
            Block(),
            heading("Exploration summary"),
            Block(file.exploration_summary)
            if file.exploration_summary
            else Block("No exploration summary.", "dim"),
        )
        self.text.show(document, keep_place=self._described == key)
        self._described = key
