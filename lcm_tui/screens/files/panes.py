"""The list of large files, each with what became of it on this machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from lcm_core.paths import StoredFile, StoredFileState
from lcm_core.records import FileId, LargeFile

from lcm_tui.panes.listing import ListPane, Said, appeared
from lcm_tui.screens.files.reads import FilePage
from lcm_tui.views.units import moment_text, size_text
from lcm_tui.widgets.spans import Column, Span

PENDING = "…"
UNRECORDED = "–"

COLUMNS = (
    Column("conversation", "conv", 5, right=True, keep=70),
    Column("name", "name", 16, grows=True, keep=100),
    Column("state", "on disk", 10, keep=95),
    Column("bytes", "size", 8, right=True, keep=80),
    Column("lines", "lines", 7, right=True, keep=30),
    Column("type", "type", 16, keep=20),
    Column("created", "created", 16, keep=60, timed="at"),
    Column("id", "id", 21, keep=50),
)

#: The words of the list for what became of a file.
_STATES = {
    StoredFileState.FOUND: Span("found", "ok"),
    StoredFileState.MISSING: Span("missing", "warn"),
    StoredFileState.NOT_LOOKED_FOR: Span("unknown", "dim"),
    StoredFileState.OUTSIDE: Span("outside", "error"),
    StoredFileState.UNREADABLE: Span("unreadable", "error"),
}


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
        file, state = self.files[key], self.states.get(key)
        return {
            "conversation": Span(str(file.conversation_id), "dim"),
            "name": Span(file.file_name or "(no name)", "text" if file.file_name else "dim"),
            "state": _STATES[state.state] if state is not None else Span(PENDING, "dim"),
            "bytes": Span(UNRECORDED if file.byte_size is None else size_text(file.byte_size)),
            "lines": Span(UNRECORDED if file.line_count is None else f"{file.line_count:,}"),
            "type": Span(file.mime_type or UNRECORDED, "dim"),
            "created": Span(moment_text(file.created_at, self.zone)[:16]),
            "id": Span(key or UNRECORDED, "key"),
        }
