"""``reindex``: search tables are written anew from messages and summaries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, TypeAlias

from lcm_tui.cli.declaring import Option, command
from lcm_tui.cli.kinds import Text
from lcm_tui.cli.options import ChangeFlags

if TYPE_CHECKING:
    from lcm_tui.cli.answer import Answer, Run

Tables: TypeAlias = Annotated[
    tuple[str, ...],
    Option("--table", "Only this search table; may be given several times.", Text(), "NAME", several=True),
]


@command("reindex", examples=("reindex --apply", "reindex --table summaries_fts --apply"))
def reindex(run: Run, *, table: Tables = (), flags: ChangeFlags) -> Answer:
    """Rebuild the search tables from messages and summaries (previews unless --apply)."""
    from lcm_tui.cli import reindex

    return reindex.reindex_(run, table, flags)
