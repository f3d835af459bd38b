"""What the database takes on the disk, inside its file and beside it, and giving some of it back."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

from lcm_core.base.records import ConversationId
from lcm_core.base.text import counted
from lcm_core.operations.disk import BACKUPS, EXPORTS, DiskFile, DiskUse, disk_use, remove_files
from lcm_core.operations.prune import Criteria, select
from lcm_core.store.database import Reader
from textual.app import ComposeResult

from lcm_tui.flows.checks import reads_whole_file
from lcm_tui.kit import commands, places
from lcm_tui.kit.commands import Key
from lcm_tui.kit.dialogs import WholeScreen
from lcm_tui.kit.lines import LineView
from lcm_tui.kit.listing import MARK, ListPane, Marks
from lcm_tui.kit.pick import Pick
from lcm_tui.kit.spans import Column, Span
from lcm_tui.screens.copying import Copies, Forms
from lcm_tui.screens.reading import DataScreen
from lcm_tui.screens.space import LISTED, clear_files, clear_strays, give_back, offer_space
from lcm_tui.tables.blocks import bytes_text, cells_of, json_of
from lcm_tui.tables.disk import (
    DISK_COLUMNS,
    MAY_BE_DELETED,
    SPARE,
    DiskRow,
    disk_rows,
    disk_sentence,
    file_rows,
    numbers_document,
    row_text,
)

COLUMNS: Final = tuple(column for column in DISK_COLUMNS if column.width)


class DiskList(ListPane[str]):
    """Tables and files, what can be given back first; or the files of one row."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: Mapping[str, DiskRow] = {}
        self.marks = Marks[str](self.table.redraw)

    def show(self, rows: Sequence[DiskRow]) -> None:
        """List them."""
        self.rows = {row.name: row for row in rows}
        self.relist()
        self.marks.keep(self.rows)

    def matching(self, words: Sequence[str]) -> Sequence[str]:
        """The rows whose name holds every word."""
        return [name for name in self.rows if all(word in name.lower() for word in words)]

    def why_empty(self) -> str:
        """Nothing passes the filter."""
        return "Nothing of this name takes space."

    def columns(self) -> Sequence[Column]:
        """What is said of a row."""
        return COLUMNS

    def cells(self, key: str) -> Mapping[str, Span]:
        """A row in a line."""
        cells = cells_of(COLUMNS, self.rows[key], None)
        return {**cells, "name": Span(f"{MARK}{key}", "warn")} if key in self.marks else cells


def rows_shown(use: DiskUse) -> list[DiskRow]:
    """The rows of the list: nothing is said of what could be given back and is not there."""
    return [row for row in disk_rows(use) if row.bytes or row.kind != SPARE]


class DiskScreen(DataScreen[DiskUse]):
    """What takes the space, and giving it back."""

    HELP = """
What the database takes on this disk: its tables with their indexes and search data, and the files beside it.
What can be given back comes first.

v rewrites the file without its free pages (VACUUM) and empties its write-ahead log.

enter shows the numbers of a table, or lists the files of a row. X there removes backups and exports for good:
those that are marked (space), or the selected one. No undo needs them.

X lists the conversations, the largest first; enter previews deleting one. A deletion leaves its pages free
inside the file: the engine fills them again, and only v makes the file smaller. That is refused while a host
has the file open.

x removes large files that no row names any more, such as those of a deleted conversation, for good. Files of
the last day stay.
"""

    def __init__(self) -> None:
        super().__init__()
        self.list = DiskList()
        self._use: DiskUse | None = None
        self._busy = ""  #: what is being done
        self._opened: DiskRow | None = None  #: whose files are listed

    def compose_body(self) -> ComposeResult:
        """The list."""
        yield self.list

    def where(self) -> str:
        """What this is about."""
        return "Disk"

    def main_widget(self) -> LineView[str]:
        """The list."""
        return self.list.table

    def selected_id(self) -> str | None:
        """The name of the table, or of what lies beside the file."""
        return self.list.table.selected

    @property
    def _row(self) -> DiskRow | None:
        return self.list.rows.get(self.selected_id() or "")

    def copies(self) -> Copies | None:
        """The name of a table, or the paths of files; the numbers; and the command."""
        row = self._row
        if row is None:
            return None

        async def forms(_: Reader) -> Forms:
            text = row_text(row)
            return Forms(
                text, f"## {text}", json_of(DISK_COLUMNS, row) | {"paths": list(map(str, row.paths))}
            )

        paths = shlex.join(map(str, row.paths[:LISTED]))
        return Copies(
            row.name if row.kind == "table" else paths,
            ("disk",),
            forms,
            "the numbers, and the path of each file",
        )

    def _why_no_files(self) -> str | None:
        if self._opened is not None:
            return "these are the files"
        return "nothing is selected" if self._row is None else None

    async def _show_files(self) -> None:
        """Show the numbers of the selected row, or list its files."""
        row = self._row
        assert row is not None  # the key says so
        if row.paths:
            self._list(row, await asyncio.to_thread(file_rows, row, self.session.zone))
        else:
            self.app.push_screen(WholeScreen(numbers_document(row)))

    def _list(self, opened: DiskRow | None, rows: Sequence[DiskRow]) -> None:
        self._opened = opened
        self.list.show(rows)
        self._say(self._busy)

    def step_back(self) -> bool:
        """From the files of a row to the rows."""
        opened = self._opened
        if opened is not None and self._use is not None:
            self._list(None, rows_shown(self._use))
            self.list.table.select(opened.name)
        return opened is not None

    async def fetch(self) -> DiskUse:
        """Measure it: every page is read once."""
        settings = self.session.settings
        folder = settings.large_files_dir.value if settings.knows_large_files else None
        return await self.session.read(disk_use, self.session.database.path, folder)

    def show(self, data: DiskUse) -> None:
        """Show it; the cursor stays on its row, and in its files."""
        self._use = data
        rows, name = rows_shown(data), self._opened and self._opened.name
        opened = next((row for row in rows if row.name == name), None)
        self._list(opened, rows if opened is None else file_rows(opened, self.session.zone))

    # -- giving back -------------------------------------------------------------------------------------

    def _why_no_vacuum(self) -> str | None:
        if self._use is None:
            return "the file is being measured"
        nothing = "nothing to give back: the file has no free pages and no write-ahead log"
        return self._busy or (None if self._use.vacuum_bytes else nothing)

    async def _ask_to_vacuum(self) -> None:
        if await give_back(self, self._say):
            self.load()

    def _why_no_strays(self) -> str | None:
        if self._use is None:
            return "the file is being measured"
        return self._busy or (None if self._use.strays else "every large file has a row")

    async def _ask_to_remove(self) -> None:
        assert self._use is not None  # the key says so
        if await clear_strays(self, self._use.strays):
            self.load()

    def _say(self, busy: str) -> None:
        self._busy = busy
        if self._use is not None:
            said = (
                disk_sentence(self._use)
                if self._opened is None
                else MAY_BE_DELETED.get(self._opened.name, "")
            )
            self.title_bar.note = busy or said
        self.refresh_bars()

    # -- the files of a row ------------------------------------------------------------------------------

    def _mark(self) -> None:
        if (name := self.selected_id()) is not None:
            self.list.marks.turn([name])
            self.refresh_bars()

    def _why_no_file(self) -> str | None:
        if self._opened is None or self._opened.name not in (BACKUPS, EXPORTS):
            return "enter on backups or exports lists files that may be removed"
        return "nothing is selected" if self._row is None else None

    async def _ask_to_clear(self) -> None:
        chosen = [self.list.rows[name] for name in self.list.marks.chosen(self.selected_id())]
        files = [DiskFile(path, row.bytes) for row in chosen for path in row.paths]
        what = "backup" if self._opened is not None and self._opened.name == BACKUPS else "export"
        if await clear_files(self, what, files, lambda: asyncio.to_thread(remove_files, files)):
            self.load()

    # -- what frees more ---------------------------------------------------------------------------------

    async def _pick_conversation(self) -> None:
        """Pick a conversation to delete; of files, remove those that are meant."""
        if self._opened is not None:
            await self._ask_to_clear()
            return
        number = await self.ask(
            "number of the conversation to delete",
            check=lambda text: (
                None if text.strip().isdecimal() else "Pick a conversation, or type its number."
            ),
            picks=self._by_size,
        )
        if number is not None:
            self.open(places.Deletion([ConversationId(int(number))], self._deleted))

    async def _by_size(self) -> Sequence[Pick]:
        """The conversations, the largest first; by messages where it takes long to measure the texts."""
        use = self._use or await self.fetch()
        found = await self.session.read(select, Criteria(), sizes=reads_whole_file(None, use.file.bytes))
        return [
            Pick(
                str(one.id),
                f"{counted(one.messages, 'message') if one.bytes is None else bytes_text(one.bytes)} in "
                f"conversation {self.session.called(one.conversation)}",
            )
            for one in found
        ]

    def _deleted(self, freed: int) -> None:
        self.work_on("space", offer_space, self, freed)

    KEYS: ClassVar[Sequence[Key[DiskScreen]]] = (
        commands.OPEN.does(
            lambda s: s._show_files(),
            lambda s: s._why_no_files(),
            title="Numbers",
            title_now=lambda s: "List files" if s._row and s._row.paths else "",
            help="Show the numbers of this table, or list the files of this row.",
        ),
        commands.MARK.does(_mark, lambda s: s._why_no_file(), hidden=True),
        commands.DELETE.does(
            _pick_conversation,
            lambda s: s._why_no_file() if s._opened else None,
            title="Delete…",
            help="Pick a conversation to delete, the largest first; remove the marked files.",
            hidden=False,
            of_row=False,
        ),
        Key(
            "vacuum",
            "v",
            "Give back",
            "Rewrite the file without its free pages and empty its write-ahead log: the disk gets both.",
            lambda s: s._ask_to_vacuum(),
            lambda s: s._why_no_vacuum(),
            words="vacuum; shrink file; make the file smaller; free disk; disk full",
            where="the disk",
            decides=True,
        ),
        Key(
            "remove-strays",
            "x",
            "Remove strays",
            "Remove the large files that no row names.",
            lambda s: s._ask_to_remove(),
            lambda s: s._why_no_strays(),
            where="the disk",
            decides=True,
        ),
    )
