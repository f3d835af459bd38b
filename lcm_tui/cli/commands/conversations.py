"""``transplant``: what one conversation remembers, copied to the front of another one's context."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import click
from lcm_core.base.errors import UsageError
from lcm_core.base.records import ConversationId

from lcm_tui.cli import options
from lcm_tui.cli.command import Sectioned, command
from lcm_tui.cli.kinds import Age, Choice, FilePath, Raw, Size, Text, WholeNumber
from lcm_tui.cli.options import CONVERSATION, AfterImport, SqlFlags

if TYPE_CHECKING:
    from lcm_tui.cli.answer import Answer, Run


@command("transplant", examples=("transplant 5 8 --skip-duplicates",))
@click.argument(
    "source",
    type=options.CONVERSATION,
    metavar="SOURCE",
    help="The conversation to copy from; it does not change.",
)
@click.argument("target", type=options.CONVERSATION, metavar="TARGET", help="The conversation to copy into.")
@click.option("--skip-duplicates", is_flag=True, help="Skip summaries whose text the target already has.")
@options.budget
@options.sql_flags()
def transplant(
    run: Run,
    *,
    source: ConversationId,
    target: ConversationId,
    skip_duplicates: bool,
    budget: int | None,
    flags: options.SqlFlags,
) -> Answer:
    """Copy the summaries of a context to the front of another context (previews unless --apply)."""
    from lcm_tui.cli import merge as transplant

    return transplant.transplant(run, source, target, flags, skip_duplicates=skip_duplicates, budget=budget)


# -- merge ----------------------------------------------------------------------------------------------
# ``merge``: sessions that a rollover split, listed, and made one conversation again.


@command("merge", examples=("merge", "merge 8 --apply"))
@click.argument(
    "conversations",
    type=options.CONVERSATION,
    nargs=-1,
    required=False,
    metavar="[CONVERSATION_ID...]",
    help="Any conversation of the session; several conversations merge several sessions. Without one: list "
    "split sessions.",
)
@click.option(
    "--assume-rollover", is_flag=True, help="Treat the split as a rollover when the cause was not recorded."
)
@options.budget
@options.sql_flags()
def merge(
    run: Run,
    *,
    conversations: tuple[ConversationId, ...],
    assume_rollover: bool,
    budget: int | None,
    flags: options.SqlFlags,
) -> Answer:
    """Rejoin a session that a rollover split into several conversations (previews unless --apply)."""
    from lcm_tui.cli import merge

    return merge.merge(run, conversations, flags, assume_rollover=assume_rollover, budget=budget)


# -- backfill -------------------------------------------------------------------------------------------
# ``backfill``: a session that the database does not know, or knows in part, from its transcript.


@command("backfill", examples=("backfill main 2b8481de", "backfill --file session.jsonl --recompact --apply"))
@click.argument("agent", type=Raw(), required=False, metavar="[AGENT]", help="The agent of the session.")
@click.argument(
    "session",
    type=Raw(),
    required=False,
    metavar="[SESSION]",
    help="The session id, or the name of its file.",
)
@click.option(
    "--file",
    type=FilePath(text=True),
    metavar="PATH",
    help="The path of the transcript, or of a Codex rollout.",
)
@click.option(
    "--session-key",
    type=Text(empty=False),
    metavar="KEY",
    help="The session key, if its folder does not contain it.",
)
@click.option("--title", type=Text(empty=False), metavar="TEXT", help="Title of a new conversation.")
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
    from lcm_tui.cli import backfill

    if file is None:
        return backfill.of_host(run, agent or "", session or "", session_key, title, after, model, flags)
    return backfill.of_file(run, file, session_key, title, after, model, flags)


# -- prune ----------------------------------------------------------------------------------------------
# ``prune``: what takes the space; conversations archived, deleted, forgotten.

_SELECT = "Which conversations (all conditions must match)"
_DO = "Action"
#: The engine's own cleaners by their names, and all of them (`lcm_core.operations.prune`).
CLEANERS = ("archived_subagents", "cron_sessions", "null_subagent_context")
ALL = "all"


@command(
    "prune",
    examples=(
        "prune",
        "prune --older-than 90d --archive",
        "prune --cleaner cron_sessions",
        "prune 3 --delete --apply",
    ),
)
@click.argument(
    "conversations",
    type=CONVERSATION,
    nargs=-1,
    required=False,
    metavar="[CONVERSATION_ID...]",
    help="Conversation ids.",
)
@click.option(
    "--older-than",
    cls=Sectioned,
    section=_SELECT,
    type=Age(),
    metavar="AGE",
    help="The newest message is older than: 90d, 12w, 3m (of 30 days), 1y.",
)
@click.option(
    "--larger-than",
    cls=Sectioned,
    section=_SELECT,
    type=Size(),
    metavar="SIZE",
    help="Its texts are larger than: 50MB, 800KB, 1GB.",
)
@click.option(
    "--max-messages",
    cls=Sectioned,
    section=_SELECT,
    type=WholeNumber(0),
    metavar="N",
    help="It has at most this many messages.",
)
@click.option(
    "--empty",
    cls=Sectioned,
    section=_SELECT,
    is_flag=True,
    help="It has no messages, no summaries and no context.",
)
@click.option(
    "--session-pattern",
    cls=Sectioned,
    section=_SELECT,
    type=Raw(),
    metavar="GLOB",
    help="Its session key or id matches a pattern such as 'agent:*:cron:*'.",
)
@click.option("--no-session-key", cls=Sectioned, section=_SELECT, is_flag=True, help="It has no session key.")
@click.option(
    "--orphaned",
    cls=Sectioned,
    section=_SELECT,
    is_flag=True,
    help="Its recorded transcript no longer exists on this machine.",
)
@click.option("--archived", cls=Sectioned, section=_SELECT, is_flag=True, help="It is already archived.")
@click.option(
    "--cleaner",
    "cleaners",
    cls=Sectioned,
    section=_SELECT,
    type=Choice(*CLEANERS, ALL),
    metavar="NAME",
    multiple=True,
    help=f"The engine's own cleaner of this name would delete it: {', '.join(CLEANERS)}, or {ALL}; may be "
    "given several times.",
)
@click.option(
    "--agent",
    "agents",
    cls=Sectioned,
    section=_SELECT,
    type=Text(empty=False),
    metavar="NAME",
    multiple=True,
    help="An agent whose conversations --cleaner selects (default: the agents of the host's configuration, "
    "else main); may be given several times.",
)
@click.option(
    "--archive",
    cls=Sectioned,
    section=_DO,
    is_flag=True,
    help="Mark it as ended, as the host does; no data is deleted.",
)
@click.option(
    "--delete",
    cls=Sectioned,
    section=_DO,
    is_flag=True,
    help="Export it to a file, then delete every row (can be undone).",
)
@click.option(
    "--forget",
    cls=Sectioned,
    section=_DO,
    is_flag=True,
    help="Erase it permanently, without an export or history. CANNOT be undone.",
)
@click.option(
    "--new-session",
    cls=Sectioned,
    section=_DO,
    is_flag=True,
    help="Prune its context as /new does: remove messages, and summaries below newSessionRetainDepth.",
)
@click.option(
    "--export-to",
    cls=Sectioned,
    section=_DO,
    type=FilePath(),
    metavar="DIR",
    help="The folder for the exports of --delete (default: the data folder of lcm-tui).",
)
@click.option(
    "--vacuum",
    cls=Sectioned,
    section=_DO,
    is_flag=True,
    help="Rewrite the file after --delete (VACUUM), so that it gets smaller.",
)
@options.sql_flags()
def prune(
    run: Run,
    *,
    conversations: tuple[ConversationId, ...],
    older_than: timedelta | None,
    larger_than: int | None,
    max_messages: int | None,
    empty: bool,
    session_pattern: str | None,
    no_session_key: bool,
    orphaned: bool,
    archived: bool,
    cleaners: tuple[str, ...],
    agents: tuple[str, ...],
    archive: bool,
    delete: bool,
    forget: bool,
    new_session: bool,
    export_to: Path | None,
    vacuum: bool,
    flags: SqlFlags,
) -> Answer:
    """Show disk use; archive, delete or erase conversations (previews unless --apply)."""
    from lcm_core.base.records import ConversationId
    from lcm_core.operations.prune import Cleaner, Cleaning, Criteria, TranscriptFolders

    from lcm_tui.cli import prune

    settings = run.settings
    if agents and not cleaners:
        raise UsageError("--agent requires --cleaner.", details={"option": "agent"})
    cleaning = Cleaning(
        tuple(one for one in Cleaner if one in cleaners or ALL in cleaners), agents or settings.agents.value
    )
    criteria = Criteria(
        ids=tuple(map(ConversationId, conversations)),
        older_than=older_than,
        larger_than=larger_than,
        max_messages=max_messages,
        empty=empty,
        session_pattern=session_pattern,
        no_key=no_session_key,
        orphaned=TranscriptFolders(settings.sessions.value, settings.state_dir.value) if orphaned else None,
        archived=archived,
        cleaning=cleaning if cleaners else None,
    )
    named = (("archive", archive), ("delete", delete), ("forget", forget), ("new-session", new_session))
    given = [action for action, wanted in named if wanted]
    if len(given) > 1:
        raise UsageError(f"--{given[0]} and --{given[1]} exclude each other.", details={"option": given[1]})
    if not given and flags.apply:
        raise UsageError(
            "prune --apply requires an action: --archive, --delete, --forget or --new-session.",
            details={"option": "apply"},
        )
    if given and not criteria:
        raise UsageError(
            f"prune --{given[0]} needs conversations, or a condition such as --older-than 90d.",
            details={"option": given[0]},
        )
    for option, value in (("export-to", export_to), ("vacuum", vacuum or None)):
        if value is not None and not delete:
            raise UsageError(f"--{option} requires --delete.", details={"option": option})
    return prune.prune(run, criteria, given[0] if given else None, flags, export_to, vacuum=vacuum)


# -- import ---------------------------------------------------------------------------------------------
# ``import``: a conversation that was exported, brought back.


@command("import", examples=("import conversation-3.jsonl --apply",))
@click.argument("file", type=FilePath(text=True), metavar="FILE", help="A file that prune --delete exported.")
@options.sql_flags()
def import_(run: Run, *, file: Path, flags: SqlFlags) -> Answer:
    """Import an exported conversation into this or another database (previews unless --apply)."""
    from lcm_tui.cli.prune import import_

    return import_(run, file, flags)
