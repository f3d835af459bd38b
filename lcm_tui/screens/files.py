"""Files: the large payloads that the engine took out of messages, and where they are on this machine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Final

from lcm_core.base.errors import NotFoundError
from lcm_core.base.paths import FileText, StoredFile, read_head
from lcm_core.base.records import Conversation, ConversationId, FileId, LargeFile
from lcm_core.base.settings import Settings
from lcm_core.base.text import fold, sought_as
from lcm_core.base.values import Record
from lcm_core.store import messages as store
from lcm_core.store.database import Reader
from lcm_core.store.messages import FileReferences
from textual import on
from textual.app import ComposeResult

from lcm_tui.kit import commands, places
from lcm_tui.kit.commands import Key
from lcm_tui.kit.lines import LineView
from lcm_tui.kit.listing import Beside, Finder, ListPane, Paging, Said, appeared
from lcm_tui.kit.spans import Block, Column, Document, Span
from lcm_tui.kit.text import TextView
from lcm_tui.screens.frame import SERIES, CommandScreen
from lcm_tui.screens.reading import DataScreen, Series, TextScreen, row_keys
from lcm_tui.tables.blocks import cells_of, size_text
from lcm_tui.tables.files import FILE_COLUMNS, FileRow, stored_file
from lcm_tui.tables.messages import exploration, file_facts, reference_facts

# -- what the screens read -------------------------------------------------------------------------------
# From the database and from the disk.

#: How much of a file is shown: what wraps before the key that opened it is felt to wait.
SHOWN_BYTES = 256_000


class FilePage(Record, frozen=True):
    """The newest files, the newest of them first."""

    files: tuple[LargeFile, ...]
    more: bool  #: there are older ones


class OpenedFile(Record, frozen=True):
    """Where a file is and how it begins."""

    stored: StoredFile
    text: FileText | None  #: None when it was not found or could not be read
    failure: str = ""  #: why not, one sentence


async def load_files(reader: Reader, conversation_id: ConversationId | None, limit: int) -> FilePage:
    """The newest files of a conversation, or of all: at most *limit*."""
    found = await store.list_files(reader, conversation_id, newest=limit + 1)
    return FilePage(tuple(found[::-1][:limit]), len(found) > limit)


def open_file(file: LargeFile, settings: Settings) -> OpenedFile:
    """Find and read the beginning of a file. Reads the disk: not for the event loop."""
    stored = stored_file(file, settings)
    if stored.path is None:
        return OpenedFile(stored, None, stored.message)
    try:
        return OpenedFile(stored, read_head(stored.path, SHOWN_BYTES))
    except NotFoundError as error:
        return OpenedFile(stored, None, error.message)


# -- the list --------------------------------------------------------------------------------------------
# Each file with what became of it on this machine.

COLUMNS: Final = tuple(column for column in FILE_COLUMNS if column.width)


class FileList(ListPane[FileId]):
    """Large files, the newest first."""

    FILTER = "words in any column or in the exploration summary"

    def __init__(self, changed: Callable[[], None], *, everywhere: bool) -> None:
        """*everywhere*: it lists the files of all conversations; *changed*: the filter lists other ones."""
        super().__init__(changed=changed)
        self.files: Mapping[FileId, LargeFile] = {}
        self.states: dict[FileId, StoredFile] = {}  #: where each was at the last look
        self.unsure: set[FileId] = set()  #: files that have to be looked for when they come into sight
        self._everywhere = everywhere
        self._said = Said(self._said_of)

    def show(self, page: FilePage) -> None:
        """List what was read; where the files are is to be looked up again, and shown as it was till then."""
        known = self.files
        self.files = {FileId(file.file_id or ""): file for file in page.files}  # the column may hold NULL
        self._said.forget()
        self.unsure = set(self.files)
        self.relist()
        if known:
            changed = [key for key, file in self.files.items() if known.get(key, file) != file]
            self.table.mark_fresh([*appeared(self.files, known), *changed])

    def learn(self, states: Mapping[FileId, StoredFile]) -> None:
        """It is known where these files are."""
        self.states.update(states)
        self.unsure.difference_update(states)
        self.table.redraw(states)

    @property
    def unsure_in_sight(self) -> Sequence[FileId]:
        """The files in sight that have to be looked for."""
        return [key for key in self.table.visible_keys if key in self.unsure]

    @property
    def selected(self) -> LargeFile | None:
        """The file under the cursor."""
        return self.files.get(self.table.selected) if self.table.selected is not None else None

    def why_not_open(self) -> str | None:
        """A file opens only where it was found."""
        if self.table.selected is None:
            return "no file is selected"
        state = self.states.get(self.table.selected)
        return state.message if state is not None and not state.found else None

    # -- listing -----------------------------------------------------------------------------------------

    def matching(self, words: Sequence[str]) -> Sequence[FileId]:
        """The files of which the database says all the words, the newest first."""
        return self._said.passing(self.files, words)

    def _said_of(self, key: FileId) -> str:
        cells = [span.text for name, span in self.cells(key).items() if name != "state"]
        return " ".join([*cells, self.files[key].exploration_summary or ""])

    def why_empty(self) -> str:
        """Nothing passes the filter, or there is nothing."""
        if self.files:
            return f"No file matches “{self.filter.needle}”."
        return f"This {'database' if self._everywhere else 'conversation'} has no large files."

    def columns(self) -> Sequence[Column]:
        """Whose file it is only where there are several conversations."""
        return COLUMNS if self._everywhere else COLUMNS[1:]

    def cells(self, key: FileId) -> Mapping[str, Span]:
        """What the database says of a file, and what became of it."""
        return cells_of(COLUMNS, FileRow(self.files[key], self.states.get(key)), self.zone)


# -- the screen of all files -----------------------------------------------------------------------------


class FilesScreen(DataScreen[FilePage]):
    """The large files of one conversation, or of all."""

    HELP = """
When a message is too large for a context, or contains an image, the engine writes the payload to a file and
stores a reference and a short description: its exploration summary.

This list shows those files, the newest first.

– means: not recorded.

"on disk" shows whether the file exists on this machine. The database stores the path on the machine that
wrote it, so lcm-tui also looks in the configured folder of large files, by conversation and name. It never
opens a file outside that folder, nor a link that leads out of it.

enter opens a file that was found: text is shown (the beginning of a large file), images and other binary
files are described. / filters the list by words in any column or in the exploration summary; in the text pane
(tab) it finds text.
"""

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
            *exploration(file),
        )
        self.text.show(document, keep_place=self._described == key)
        self._described = key

    KEYS: ClassVar[Sequence[Key[FilesScreen]]] = (
        commands.OPEN.does(_open_file, lambda s: s.list.why_not_open()),
        *row_keys("file", lambda s: s.list.table),
    )


# -- the screen of one file ------------------------------------------------------------------------------
# Read from disk: its text, or what it is when it is no text.


class FileScreen(TextScreen, DataScreen[OpenedFile]):
    """The text of one large file."""

    HELP = """
The file as it is on this machine now: its text, or the beginning of a large file (the title shows how much).

m switches to what the database says about it: its size and type, where it is stored, and its exploration
summary.

A file that is not text is described and not shown. ctrl+r reads it again.

[ and ] go to the previous and the next file of the list that can be opened.
"""

    def __init__(self, file: LargeFile, *, find: str = "") -> None:
        """*find*: what was found in the file, or in what the database says of it: it opens there."""
        super().__init__(empty="Reading the file …")
        self._find = find
        self._file = file
        self._as_facts = False
        self._data: OpenedFile | None = None

    def where(self) -> str:
        """Which file."""
        return self._file.file_name or self._file.file_id

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
            if not self.in_text.stand_on_match(find):
                self.app.notify(f"“{find}” is not in the part of the file that is shown.", timeout=3)
        else:
            self._show_text(keep_place=True)

    def _show_text(self, *, keep_place: bool) -> None:
        if self._data is None:
            return
        note, document = _note_and_text(self._data)
        facts = file_facts(self._file, self._data.stored, self.session)
        if self._as_facts:
            document = (*facts, *exploration(self._file))
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

    def go_on_from(self, before: CommandScreen) -> None:
        """The text, or the facts."""
        if isinstance(before, FileScreen) and not self._find:
            self._as_facts = before._as_facts

    KEYS: ClassVar[Sequence[Key[FileScreen]]] = (
        commands.OTHER_VIEW.does(
            _turn,
            title="Facts",
            help="Switch between the text and what the database says about the file.",
            title_now=lambda s: "Text" if s._as_facts else "",
        ),
        *SERIES,
    )


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
