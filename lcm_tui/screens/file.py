"""One large file, read from disk: its text, or what it is when it is no text."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from lcm_core.errors import NotFoundError
from lcm_core.paths import FileText, StoredFile, read_head, resolve_stored
from lcm_core.records import LargeFile
from lcm_core.settings import Settings
from lcm_core.times import format_local, parse_utc
from textual.app import ComposeResult
from textual.binding import BindingType

from lcm_tui.commands import bindings
from lcm_tui.frame import DataScreen
from lcm_tui.screens.text_search import TextSearch
from lcm_tui.session import Session
from lcm_tui.views.units import size_text
from lcm_tui.widgets.bars import TitleBar
from lcm_tui.widgets.text import Block, Document, TextView, field

#: How much of a file is shown: what wraps before the key that opened it is felt to wait.
SHOWN_BYTES = 256_000


@dataclass(frozen=True, slots=True)
class OpenedFile:
    """Where a file is and how it begins."""

    stored: StoredFile
    text: FileText | None  #: None when it was not found or could not be read
    failure: str = ""  #: why not, one sentence


def stored_file(file: LargeFile, settings: Settings) -> StoredFile:
    """Where a file of the database is on this machine. Reads the disk: not for the event loop."""
    return resolve_stored(
        file.storage_uri,
        conversation_id=file.conversation_id,
        large_files_dir=settings.large_files_dir.value,
        state_dir=settings.state_dir.value,
    )


def open_file(file: LargeFile, settings: Settings) -> OpenedFile:
    """Find and read the beginning of a file. Reads the disk: not for the event loop."""
    stored = stored_file(file, settings)
    if stored.path is None:
        return OpenedFile(stored, None, stored.message)
    try:
        return OpenedFile(stored, read_head(stored.path, SHOWN_BYTES))
    except NotFoundError as error:
        return OpenedFile(stored, None, error.message)


def time_of(file: LargeFile, session: Session) -> str:
    """When a file was stored, as it is written in the database where that cannot be read."""
    return format_local(parse_utc(file.created_at), session.zone) or file.created_at


def file_facts(file: LargeFile, stored: StoredFile | None, session: Session) -> Document:
    """What the database says of a file, and what became of it here."""
    schema = session.database.schema
    lines = "–" if schema.has("large_files", "line_count") else "not recorded by this version"
    return (
        field("file", file.file_id, "key"),
        *_place_facts(file, stored),
        field("name", file.file_name or "–"),
        field("type", file.mime_type or "–"),
        field("size", "–" if file.byte_size is None else f"{file.byte_size:,} bytes"),
        field("lines", lines if file.line_count is None else f"{file.line_count:,}"),
        field("created", time_of(file, session)),
        field("conversation", str(file.conversation_id)),
    )


def _place_facts(file: LargeFile, stored: StoredFile | None) -> Document:
    """Where a file is and where it was stored, as far as it is known by now."""
    stored_as = Block(f"stored as {file.storage_uri or '(no path)'}", "dim")
    if stored is None:
        return (field("on disk", "…", "dim"), stored_as)
    if stored.path is None:
        return (field("on disk", str(stored.state), "warn"), Block(stored.message, "warn"), stored_as)
    blocks = [field("on disk", str(stored.state), "ok"), Block(at_home(stored.path))]
    if file.byte_size is not None and stored.size != file.byte_size:
        blocks.append(Block(f"The file has {stored.size:,} bytes, not as many as were stored.", "warn"))
    return tuple(blocks) if str(stored.path) == file.storage_uri else (*blocks, stored_as)


class FileScreen(TextSearch, DataScreen[OpenedFile]):
    """The text of one large file."""

    HELP = """
The file as it is on this machine now: its text, of a large file the beginning (the title says how much of
how much). A file that is not text is described and not shown. ctrl+r reads it again.
"""
    BINDINGS: ClassVar[list[BindingType]] = list(bindings())

    def __init__(self, file: LargeFile) -> None:
        super().__init__()
        self._file = file

    def compose_body(self) -> ComposeResult:
        """The text."""
        yield TextView(empty="Reading the file …", id="text")

    def main_widget(self) -> TextView:
        """The text."""
        return self.text

    def on_mount(self) -> None:
        """Read the file."""
        self.query_one(TitleBar).where = self._file.file_name or self._file.file_id
        self.text.focus()

    def data_changed(self) -> None:
        """A change of the database is none of the file."""
        self.show_live()

    async def fetch(self) -> OpenedFile:
        """Find the file and read its beginning."""
        return await asyncio.to_thread(open_file, self._file, self.session.settings)

    def show(self, data: OpenedFile) -> None:
        """Show the text, or say why there is none."""
        note, document = _told(data)
        if data.text is None or data.text.binary:
            document = (*document, Block(), *file_facts(self._file, data.stored, self.session))
        self.query_one(TitleBar).note = note
        self.text.show(document, keep_place=True)

    # -- commands ------------------------------------------------------------------------------------------

    def selected_id(self) -> str | None:
        """The file's id."""
        return self._file.file_id


def _told(data: OpenedFile) -> tuple[str, Document]:
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


def at_home(path: Path) -> str:
    """A path as people write it: what lies in their home begins with ``~``."""
    home = Path.home()
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path)
