"""``backfill``: a session that the database does not know, or knows in part, from its transcript."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lcm_core.base.errors import UsageError

from lcm_tui.cli import options
from lcm_tui.cli.command import argument, command, option
from lcm_tui.cli.kinds import FilePath, Raw, Text
from lcm_tui.cli.options import AfterImport

if TYPE_CHECKING:
    from lcm_tui.cli.answer import Answer, Run


@command(
    "backfill",
    examples=(
        "backfill main 4361652a-c630-427f-a157-12eb5ff25efa",
        "backfill --file session.jsonl --recompact --apply",
    ),
)
@argument("agent", Raw(), "[AGENT]", "The agent of the session.", required=False)
@argument("session", Raw(), "[SESSION]", "The session id, or the name of its file.", required=False)
@option("--file", FilePath(text=True), "PATH", "The path of the transcript, or of a Codex rollout.")
@option("--session-key", Text(empty=False), "KEY", "The session key, if its folder does not contain it.")
@option("--title", Text(empty=False), "TEXT", "Title of a new conversation.")
@options.after_import
@options.model_options
@options.sql_flags()
def backfill(
    run: Run,
    *,
    agent: str | None,
    session: str | None,
    file: Path | None,
    session_key: str | None,
    title: str | None,
    after: AfterImport,
    model: options.ModelOptions,
    flags: options.SqlFlags,
) -> Answer:
    """Import a session's transcript as the engine would (previews unless --apply)."""
    if file is not None and agent is not None:
        raise UsageError("--file and AGENT SESSION exclude each other.", details={"option": "file"})
    if file is None and not (agent and session):
        raise UsageError("backfill needs AGENT SESSION, or --file PATH.", details={"option": "file"})
    from lcm_tui.cli import importing

    named = (agent or "", session or "")
    return importing.backfill(run, file, named, session_key, title, after, model, flags)
