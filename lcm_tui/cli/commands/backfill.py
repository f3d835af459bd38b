"""``backfill``: a session that the database does not know, or knows in part, from its transcript."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

from lcm_core.errors import UsageError

from lcm_tui.cli import options
from lcm_tui.cli.backfill_options import AfterImport
from lcm_tui.cli.declaring import Argument, Option, command
from lcm_tui.cli.kinds import FilePath, Raw, Text

if TYPE_CHECKING:
    from lcm_tui.cli.answer import Answer, Run

Agent: TypeAlias = Annotated[str | None, Argument("AGENT", "The agent of the session.", Raw())]
SessionId: TypeAlias = Annotated[
    str | None, Argument("SESSION", "The session id, or the name of its file.", Raw())
]
File: TypeAlias = Annotated[
    Path | None,
    Option("--file", "The path of the transcript, or of a Codex rollout.", FilePath(text=True), "PATH"),
]
Key: TypeAlias = Annotated[
    str | None,
    Option(
        "--session-key",
        "The session key, if its folder does not contain it.",
        Text(empty=False),
        "KEY",
    ),
]
Title: TypeAlias = Annotated[
    str | None, Option("--title", "Title of a new conversation.", Text(empty=False), "TEXT")
]


@command("backfill", examples=("backfill main 2b8481de", "backfill --file session.jsonl --recompact --apply"))
def backfill(
    run: Run,
    *,
    agent: Agent = None,
    session: SessionId = None,
    file: File = None,
    session_key: Key = None,
    title: Title = None,
    after: AfterImport,
    model: options.ModelOptions,
    flags: options.SqlFlags,
) -> Answer:
    """Import a session's transcript as the engine would (previews unless --apply)."""
    if file is not None and agent is not None:
        raise UsageError("--file and AGENT SESSION exclude each other.", details={"option": "file"})
    if file is None and not (agent and session):
        raise UsageError("backfill needs AGENT SESSION, or --file PATH.", details={"option": "file"})
    from lcm_tui.cli import backfill

    if file is None:
        return backfill.of_host(run, agent or "", session or "", session_key, title, after, model, flags)
    return backfill.of_file(run, file, session_key, title, after, model, flags)
