"""``import``: a conversation that was exported, brought back."""

from __future__ import annotations

from pathlib import Path

from lcm_core.operations.export import plan_import, read_conversation_file
from lcm_core.store.database import Reader

from lcm_tui.cli import changing, options
from lcm_tui.cli.answer import Answer, Run
from lcm_tui.cli.command import argument, command
from lcm_tui.cli.documents import Document
from lcm_tui.cli.kinds import FilePath
from lcm_tui.cli.options import SqlFlags
from lcm_tui.tables.blocks import Facts


@command("import", examples=("import conversation-3.jsonl --apply",))
@argument("file", FilePath(text=True), "FILE", "A file that `conversations delete` or `export` made.")
@options.sql_flags()
def import_(run: Run, *, file: Path, flags: SqlFlags) -> Answer:
    """Import an exported conversation into this or another database (previews unless --apply)."""
    held = read_conversation_file(file)

    async def plan(reader: Reader) -> changing.Proposal:
        made = await plan_import(reader, held)
        facts = Facts(
            [("File", str(file)), ("Conversation", str(held.conversation_id)), ("Exported", held.exported_at)]
        )
        data: Document = {"file": str(file), "exportedAt": held.exported_at}
        return changing.Proposal(made, data=data, blocks=[facts], brief=True)

    return changing.run_change(run, "import", plan, flags)
