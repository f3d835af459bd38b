"""A large file in words: what the database says of it, what became of it here, and what names it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from lcm_core.paths import StoredFile
from lcm_core.records import LargeFile
from lcm_core.store.files import FileReferences

from lcm_tui.session import Session
from lcm_tui.views.units import moment_text
from lcm_tui.widgets.text import Block, Document, field

#: So many of the messages, and of the summaries, that name a file are listed.
NAMED: Final = 5


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
        field("created", moment_text(file.created_at, session.zone)),
        field("conversation", str(file.conversation_id)),
    )


def _place_facts(file: LargeFile, stored: StoredFile | None) -> Document:
    """Where a file is and where it was stored, as far as it is known by now."""
    stored_as = Block(f"stored as {file.storage_uri or '(no path)'}", "dim")
    if stored is None:
        return (field("on disk", "…", "dim"), stored_as)
    if stored.path is None:
        return (field("on disk", str(stored.state), "warn"), Block(stored.message, "warn"), stored_as)
    blocks = [field("on disk", str(stored.state), "ok"), Block(_below_home(stored.path))]
    if file.byte_size is not None and stored.size != file.byte_size:
        blocks.append(Block(f"The file has {stored.size:,} bytes, which is not the recorded size.", "warn"))
    return tuple(blocks) if str(stored.path) == file.storage_uri else (*blocks, stored_as)


def _below_home(path: Path) -> str:
    """A path as people write it: what lies in their home begins with ``~``."""
    home = Path.home()
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path)


def reference_facts(references: FileReferences | None) -> Document:
    """What refers to a file, as far as it is known by now."""
    if references is None:
        return (Block("named in …", "dim"),)
    named = [f"message m{message_id}" for message_id in references.messages[:NAMED]]
    named += [str(summary_id) for summary_id in references.summaries[:NAMED]]
    left = max(len(references.messages) - NAMED, 0) + max(len(references.summaries) - NAMED, 0)
    named += [f"{left} more"] if left else []
    said = ", ".join(named) if named else "neither the context nor a summary"
    return (Block(f"named in {said}", "dim"),)
