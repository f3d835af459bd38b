"""Files: the large payloads that the engine took out of messages, and where they are on this machine."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from lcm_core.paths import StoredFile, StoredFileState
from lcm_core.records import Conversation, ConversationId, FileId, LargeFile
from lcm_core.store import files as store
from lcm_core.store.database import Reader
from lcm_core.store.files import FileReferences
from textual import on
from textual.binding import BindingType

from lcm_tui import places
from lcm_tui.commands import bindings
from lcm_tui.screens.file import file_facts, stored_file, time_of
from lcm_tui.screens.listing import PagedScreen, PanedScreen
from lcm_tui.views.units import size_text
from lcm_tui.widgets.lines import LineView
from lcm_tui.widgets.spans import Column, Span
from lcm_tui.widgets.text import Block, Document, heading

PENDING = "…"
UNRECORDED = "–"
#: So many of the messages, and of the summaries, that name a file are listed.
NAMED = 5

COLUMNS = (
    Column("conversation", "conv", 5, right=True, keep=70),
    Column("name", "name", 16, grows=True, keep=100),
    Column("state", "on disk", 10, keep=95),
    Column("bytes", "size", 8, right=True, keep=80),
    Column("lines", "lines", 7, right=True, keep=30),
    Column("type", "type", 16, keep=20),
    Column("created", "created", 16, keep=60),
    Column("id", "id", 21, keep=50),
)

#: The words of the list for what became of a file.
_STATES = {
    StoredFileState.FOUND: Span("found", "ok"),
    StoredFileState.MISSING: Span("missing", "warn"),
    StoredFileState.OUTSIDE: Span("outside", "error"),
    StoredFileState.UNREADABLE: Span("unreadable", "error"),
}


@dataclass(frozen=True, slots=True)
class FilePage:
    """The newest files, the newest of them first."""

    files: tuple[LargeFile, ...]
    more: bool  #: there are older ones


async def load_files(reader: Reader, conversation_id: ConversationId | None, limit: int) -> FilePage:
    """The newest files of a conversation, or of all: at most *limit*."""
    found = await store.list_files(reader, conversation_id, newest=limit + 1)
    return FilePage(tuple(found[::-1][:limit]), len(found) > limit)


class FilesScreen(PanedScreen[FileId], PagedScreen[FileId, FilePage]):
    """The large files of one conversation, or of all."""

    HELP = """
When a message is too large for a context, or holds an image, the engine writes the payload into a file and
keeps a reference and a short description of it: its exploration summary. This is the list of those files,
the newest first. – means: not recorded.

"on disk" says what became of the file on this machine. The database holds the path of the machine that wrote
it, so the file is also looked for in the configured folder of large files, by conversation and name. A file
outside that folder is never opened, whatever the database says; neither is a link that leads out of it.

enter opens a file that was found. Text is shown, of a large file the beginning; images and other binary files
are described. / filters the list by words in any column or in the exploration summary; in the text at the
side (tab) it searches.
"""
    BINDINGS: ClassVar[list[BindingType]] = list(bindings("open"))
    FILTER = "words in any column or in the exploration summary"

    def __init__(self, conversation: Conversation | None) -> None:
        super().__init__()
        self._conversation = conversation
        self._files: dict[FileId, LargeFile] = {}
        self._states: dict[FileId, StoredFile] = {}
        self._unsure: set[FileId] = set()  #: files that have to be looked for when they come into sight
        self._references: dict[FileId, FileReferences] = {}
        self._described: FileId | None = None
        self._words: dict[FileId, str] = {}

    def where(self) -> str:
        """Whose files."""
        if self._conversation is None:
            return "Files of all conversations"
        return f"Files of conversation {self._conversation.conversation_id}  {self._conversation.lane}"

    # -- data --------------------------------------------------------------------------------------------

    async def fetch(self) -> FilePage:
        """The files, as many as were asked for."""
        chosen = self._conversation.conversation_id if self._conversation is not None else None
        return await self.session.read(load_files, chosen, self.limit)

    def show(self, data: FilePage) -> None:
        """Show the files; where they are is looked up again, and shown as it was until that is known."""
        known = self._files
        self._files = {FileId(file.file_id or ""): file for file in data.files}  # the column may hold NULL
        self.take(len(data.files), more=data.more)
        self._words.clear()
        self._unsure = set(self._files)
        self.relist()
        if known:
            changed = [key for key, file in self._files.items() if known.get(key, file) != file]
            self.table.mark_fresh([*self.appeared(self._files, known), *changed])

    def relist(self, *, changed: bool = True) -> None:
        """List what the filter lets through; say what is selected, and look for what is in sight."""
        super().relist(changed=changed)
        self._describe()
        self._look_up()

    def matching(self, words: Sequence[str]) -> Sequence[FileId]:
        """The files that hold the words, the newest first."""
        return [key for key in self._files if self._matches(key, words)]

    def why_empty(self) -> str:
        """Nothing passes the filter, or there is nothing."""
        if self._files:
            return f"No file matches “{self._filter}”."
        return f"This {'database' if self._conversation is None else 'conversation'} has no large files."

    def _matches(self, key: FileId, words: Sequence[str]) -> bool:
        """Whether all words stand in what the database says of a file."""
        if words and key not in self._words:
            file = self._files[key]
            cells = [span.text for name, span in self.cells(key).items() if name != "state"]
            self._words[key] = " ".join([*cells, file.exploration_summary or ""]).casefold()
        return all(word in self._words[key] for word in words)

    # -- where the files are -------------------------------------------------------------------------------

    @on(LineView.Scrolled, "#list")
    def _scrolled(self) -> None:
        self._look_up()

    def _look_up(self) -> None:
        """Find out, off the event loop, what became of the files in sight."""
        keys = [key for key in self.table.visible_keys if key in self._unsure]
        if keys:
            self.work_on("locate", self._locate, keys)

    async def _locate(self, keys: Sequence[FileId]) -> None:
        wanted = {key: self._files[key] for key in keys if key in self._files}
        settings = self.session.settings
        found = await asyncio.to_thread(lambda: [stored_file(file, settings) for file in wanted.values()])
        self._states.update(zip(wanted, found, strict=True))
        self._unsure.difference_update(wanted)
        self.table.redraw(wanted)
        self._describe()
        self.refresh_bars()

    # -- drawing -------------------------------------------------------------------------------------------

    def columns(self) -> Sequence[Column]:
        """Whose file it is only where there are several conversations."""
        return COLUMNS if self._conversation is None else COLUMNS[1:]

    def cells(self, key: FileId) -> dict[str, Span]:
        """What the database says of a file, and what became of it."""
        file, state = self._files[key], self._states.get(key)
        return {
            "conversation": Span(str(file.conversation_id), "dim"),
            "name": Span(file.file_name or "(no name)", "text" if file.file_name else "dim"),
            "state": _STATES[state.state] if state is not None else Span(PENDING, "dim"),
            "bytes": Span(UNRECORDED if file.byte_size is None else size_text(file.byte_size)),
            "lines": Span(UNRECORDED if file.line_count is None else f"{file.line_count:,}"),
            "type": Span(file.mime_type or UNRECORDED, "dim"),
            "created": Span(time_of(file, self.session)[:16]),
            "id": Span(key or UNRECORDED, "key"),
        }

    # -- the selected file ---------------------------------------------------------------------------------

    @on(LineView.Highlighted, "#list")
    def _highlighted(self) -> None:
        self._describe()
        self._look_up()
        key = self.table.selected
        if key is not None:
            self.work_on("refer", self._refer, key)

    async def _refer(self, key: FileId) -> None:
        """Find what refers to the selected file."""
        file = self._files.get(key)
        if file is not None:
            self._references[key] = await self.session.read(store.references_to, file)
            self._describe()

    def _describe(self) -> None:
        """Say what is known of the selected file."""
        key = self.table.selected
        file = self._files.get(key) if key is not None else None
        if key is None or file is None:
            self.text.show(())
            return
        document = [
            *file_facts(file, self._states.get(key), self.session),
            *_reference_facts(self._references.get(key)),
            Block(),
            heading("Exploration summary"),
            Block(file.exploration_summary)
            if file.exploration_summary
            else Block("There is none: the engine did not write one.", "dim"),
        ]
        self.text.show(tuple(document), keep_place=self._described == key)
        self._described = key

    # -- commands ------------------------------------------------------------------------------------------

    def selected_id(self) -> str | None:
        """The file's id."""
        return self.table.selected or None

    def why_not(self, command: str) -> str | None:
        """A file opens only where it was found."""
        if command == "open":
            key = self.table.selected
            if key is None:
                return "no file is selected"
            state = self._states.get(key)
            return state.message if state is not None and not state.found else None
        return super().why_not(command)

    def action_open(self) -> None:
        """Show the file itself."""
        key = self.table.selected
        if key is not None:
            self.open(places.FileText(self._files[key]))


def _reference_facts(references: FileReferences | None) -> Document:
    """What refers to a file, as far as it is known by now."""
    if references is None:
        return (Block("named in …", "dim"),)
    named = [f"message m{message_id}" for message_id in references.messages[:NAMED]]
    named += [str(summary_id) for summary_id in references.summaries[:NAMED]]
    left = max(len(references.messages) - NAMED, 0) + max(len(references.summaries) - NAMED, 0)
    named += [f"{left} more"] if left else []
    said = ", ".join(named) if named else "neither the context nor a summary"
    return (Block(f"named in {said}", "dim"),)
