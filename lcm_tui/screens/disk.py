"""What the database takes on the disk, inside its file and beside it, and giving some of it back."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Mapping, Sequence
from typing import ClassVar, Final, Protocol, runtime_checkable

from lcm_core.operations.disk import DiskUse, disk_use
from lcm_core.store.database import Reader
from textual.app import ComposeResult

from lcm_tui.kit import commands
from lcm_tui.kit.commands import Key
from lcm_tui.kit.dialogs import WholeScreen
from lcm_tui.kit.lines import LineView
from lcm_tui.kit.listing import ListPane
from lcm_tui.kit.spans import Column, Layout, Span, lay_out
from lcm_tui.screens.copying import Copies, Forms
from lcm_tui.screens.questions import LISTED, clear_strays, give_back
from lcm_tui.screens.reading import DataScreen
from lcm_tui.tables.blocks import cells_of, json_of
from lcm_tui.tables.disk import (
    DISK_COLUMNS,
    SPARE,
    DiskRow,
    disk_rows,
    disk_sentence,
    files_document,
    row_text,
)

COLUMNS: Final = tuple(column for column in DISK_COLUMNS if column.width)


class DiskList(ListPane[str]):
    """Tables and files, what can be given back first."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: Mapping[str, DiskRow] = {}

    def show(self, use: DiskUse) -> None:
        """List what was measured."""
        self.rows = {row.name: row for row in disk_rows(use) if row.bytes or row.kind != SPARE}
        self.relist()

    def matching(self, words: Sequence[str]) -> Sequence[str]:
        """The rows whose name holds every word."""
        return [name for name in self.rows if all(word in name.lower() for word in words)]

    def why_empty(self) -> str:
        """Nothing passes the filter."""
        return "Nothing of this name takes space."

    def columns(self) -> Sequence[Column]:
        """What is said of a row; nothing that no row says."""
        rows = self.rows.values()
        return [column for column in COLUMNS if any(column.draw(row, None).text for row in rows)]

    def layout_at(self, width: int) -> Layout:
        """The columns that have room; how much something takes before the folder that it is in."""
        layout = super().layout_at(width)
        if layout.shows("share"):
            return layout
        return lay_out([one for one in self.columns() if one.name != "folder"], width)

    def cells(self, key: str) -> Mapping[str, Span]:
        """A row in a line."""
        return cells_of(COLUMNS, self.rows[key], None)


@runtime_checkable
class BySize(Protocol):
    """A screen whose list can have the largest on top."""

    def show_largest(self) -> None:
        """Sort by size and select the largest."""


class DiskScreen(DataScreen[DiskUse]):
    """What takes the space, and giving it back."""

    HELP = """
What the database takes on this disk: its tables with their indexes and search data, and the files beside it.
What can be given back comes first.

enter shows the numbers of a row, or its files, such as backups, and which of them may be deleted by hand.

v rewrites the file without its free pages (VACUUM) and empties its write-ahead log.

X goes to the conversations, the largest on top, where X deletes. A deletion leaves its pages free inside the
file: the engine fills them again, and only v makes the file smaller. It is refused while a host has the file
open.

x removes large files that no row names any more, such as those of a deleted conversation. Files of the last
day stay. This cannot be undone.
"""

    def __init__(self) -> None:
        super().__init__()
        self.list = DiskList()
        self._use: DiskUse | None = None
        self._busy = ""  #: what is being done

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
        return "nothing is selected" if self._row is None else None

    async def _show_files(self) -> None:
        """Show the numbers of the selected row, or its files."""
        assert self._row is not None  # the key says so
        self.app.push_screen(
            WholeScreen(await asyncio.to_thread(files_document, self._row, self.session.zone))
        )

    async def fetch(self) -> DiskUse:
        """Measure it: every page is read once."""
        settings = self.session.settings
        folder = settings.large_files_dir.value if settings.knows_large_files else None
        return await self.session.read(disk_use, self.session.database.path, folder)

    def show(self, data: DiskUse) -> None:
        """Show it; the cursor stays on its row."""
        self._use = data
        self.title_bar.note = self._busy or disk_sentence(data)
        self.list.show(data)

    # -- giving back -------------------------------------------------------------------------------------

    def _why_no_vacuum(self) -> str | None:
        if self._use is None:
            return "the file is being measured"
        nothing = "nothing to give back: the file has no free pages and no write-ahead log"
        return self._busy or (None if self._use.vacuum_bytes else nothing)

    async def _ask_to_vacuum(self) -> None:
        if await give_back(self.app, self.session, self._say):
            self.load()

    def _why_no_strays(self) -> str | None:
        if self._use is None:
            return "the file is being measured"
        return self._busy or (None if self._use.strays else "every large file has a row")

    async def _ask_to_remove(self) -> None:
        assert self._use is not None  # the key says so
        if await clear_strays(self.app, self.session, self._use.strays):
            self.load()

    def _say(self, busy: str) -> None:
        self._busy = busy
        if self._use is not None:
            self.title_bar.note = busy or disk_sentence(self._use)
        self.refresh_bars()

    # -- what frees more ---------------------------------------------------------------------------------

    def _why_not_below(self) -> str | None:
        if isinstance(self.app.screen_stack[-2], BySize):
            return None
        return "the list of conversations is not below this screen: there S sorts by bytes, and X deletes"

    async def _list_conversations(self) -> None:
        """Leave for the conversations, the largest on top."""
        below = self.app.screen_stack[-2]
        if isinstance(below, BySize):
            below.show_largest()
        await self.action_back()

    KEYS: ClassVar[Sequence[Key[DiskScreen]]] = (
        commands.OPEN.does(
            lambda s: s._show_files(),
            lambda s: s._why_no_files(),
            help="Show the numbers of this row, or its files and which may be deleted by hand.",
        ),
        commands.DELETE.does(
            lambda s: s._list_conversations(),
            lambda s: s._why_not_below(),
            title="Delete…",
            help="Go to the conversations, the largest on top: X there deletes, and says what that frees.",
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
