"""``import``: a conversation that was exported, brought back."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

from lcm_tui.cli.declaring import Argument, command
from lcm_tui.cli.kinds import FilePath
from lcm_tui.cli.options import SqlFlags

if TYPE_CHECKING:
    from lcm_tui.cli.answer import Answer, Run

File: TypeAlias = Annotated[
    Path, Argument("FILE", "A file that prune --delete exported.", FilePath(text=True))
]


@command("import", examples=("import conversation-3.jsonl --apply",))
def import_(run: Run, *, file: File, flags: SqlFlags) -> Answer:
    """Import an exported conversation into this or another database (previews unless --apply)."""
    from lcm_tui.cli.prune import import_

    return import_(run, file, flags)
