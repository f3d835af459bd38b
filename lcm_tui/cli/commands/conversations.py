"""``transplant``: what one conversation remembers, copied to the front of another one's context."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

from lcm_core.base.errors import UsageError
from lcm_core.base.records import ConversationId

from lcm_tui.cli import options
from lcm_tui.cli.declaring import Argument, Option, command
from lcm_tui.cli.kinds import Age, Choice, FilePath, Raw, Size, Text, WholeNumber
from lcm_tui.cli.options import CONVERSATION, AfterImport, SqlFlags

if TYPE_CHECKING:
    from lcm_tui.cli.answer import Answer, Run


SourceArgument: TypeAlias = Annotated[
    ConversationId,
    Argument("SOURCE", "The conversation to copy from; it does not change.", options.CONVERSATION),
]
TargetArgument: TypeAlias = Annotated[
    ConversationId, Argument("TARGET", "The conversation to copy into.", options.CONVERSATION)
]
SkipDuplicates: TypeAlias = Annotated[
    bool, Option("--skip-duplicates", "Skip summaries whose text the target already has.")
]


@command("transplant", examples=("transplant 5 8 --skip-duplicates",))
def transplant(
    run: Run,
    *,
    source: SourceArgument,
    target: TargetArgument,
    skip_duplicates: SkipDuplicates = False,
    budget: options.Budget = None,
    flags: options.SqlFlags,
) -> Answer:
    """Copy the summaries of a context to the front of another context (previews unless --apply)."""
    from lcm_tui.cli import merge as transplant

    return transplant.transplant(run, source, target, flags, skip_duplicates=skip_duplicates, budget=budget)


# -- merge ----------------------------------------------------------------------------------------------
# ``merge``: sessions that a rollover split, listed, and made one conversation again.

ConversationArguments: TypeAlias = Annotated[
    tuple[ConversationId, ...],
    Argument(
        "CONVERSATION_ID",
        "Any conversation of the session; several conversations merge several sessions. Without one: list "
        "split sessions.",
        options.CONVERSATION,
        several=True,
    ),
]
AssumeRollover: TypeAlias = Annotated[
    bool, Option("--assume-rollover", "Treat the split as a rollover when the cause was not recorded.")
]


@command("merge", examples=("merge", "merge 8 --apply"))
def merge(
    run: Run,
    *,
    conversations: ConversationArguments = (),
    assume_rollover: AssumeRollover = False,
    budget: options.Budget = None,
    flags: options.SqlFlags,
) -> Answer:
    """Rejoin a session that a rollover split into several conversations (previews unless --apply)."""
    from lcm_tui.cli import merge

    return merge.merge(run, conversations, flags, assume_rollover=assume_rollover, budget=budget)


# -- backfill -------------------------------------------------------------------------------------------
# ``backfill``: a session that the database does not know, or knows in part, from its transcript.

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


# -- prune ----------------------------------------------------------------------------------------------
# ``prune``: what takes the space; conversations archived, deleted, forgotten.

_SELECT = "Which conversations (all conditions must match)"
_DO = "Action"
#: The engine's own cleaners by their names, and all of them (`lcm_core.operations.prune`).
CLEANERS = ("archived_subagents", "cron_sessions", "null_subagent_context")
ALL = "all"

Conversations: TypeAlias = Annotated[
    tuple[ConversationId, ...],
    Argument("CONVERSATION_ID", "Conversation ids.", CONVERSATION, several=True),
]
OlderThan: TypeAlias = Annotated[
    timedelta | None,
    Option(
        "--older-than",
        "The newest message is older than: 90d, 12w, 3m (of 30 days), 1y.",
        Age(),
        "AGE",
        section=_SELECT,
    ),
]
LargerThan: TypeAlias = Annotated[
    int | None,
    Option("--larger-than", "Its texts are larger than: 50MB, 800KB, 1GB.", Size(), "SIZE", section=_SELECT),
]
MaxMessages: TypeAlias = Annotated[
    int | None,
    Option("--max-messages", "It has at most this many messages.", WholeNumber(0), "N", section=_SELECT),
]
Empty: TypeAlias = Annotated[
    bool, Option("--empty", "It has no messages, no summaries and no context.", section=_SELECT)
]
SessionPattern: TypeAlias = Annotated[
    str | None,
    Option(
        "--session-pattern",
        "Its session key or id matches a pattern such as 'agent:*:cron:*'.",
        Raw(),
        "GLOB",
        section=_SELECT,
    ),
]
NoSessionKey: TypeAlias = Annotated[
    bool, Option("--no-session-key", "It has no session key.", section=_SELECT)
]
Orphaned: TypeAlias = Annotated[
    bool,
    Option("--orphaned", "Its recorded transcript no longer exists on this machine.", section=_SELECT),
]
Cleaners: TypeAlias = Annotated[
    tuple[str, ...],
    Option(
        "--cleaner",
        f"The engine's own cleaner of this name would delete it: {', '.join(CLEANERS)}, or {ALL}; may be "
        "given several times.",
        Choice(*CLEANERS, ALL),
        "NAME",
        section=_SELECT,
        several=True,
    ),
]
Agents: TypeAlias = Annotated[
    tuple[str, ...],
    Option(
        "--agent",
        "An agent whose conversations --cleaner selects (default: the agents of the host's configuration, "
        "else main); may be given several times.",
        Text(empty=False),
        "NAME",
        section=_SELECT,
        several=True,
    ),
]
Archived: TypeAlias = Annotated[bool, Option("--archived", "It is already archived.", section=_SELECT)]
Archive: TypeAlias = Annotated[
    bool, Option("--archive", "Mark it as ended, as the host does; no data is deleted.", section=_DO)
]
Delete: TypeAlias = Annotated[
    bool, Option("--delete", "Export it to a file, then delete every row (can be undone).", section=_DO)
]
Forget: TypeAlias = Annotated[
    bool,
    Option("--forget", "Erase it permanently, without an export or history. CANNOT be undone.", section=_DO),
]
NewSession: TypeAlias = Annotated[
    bool,
    Option(
        "--new-session",
        "Prune its context as /new does: remove messages, and summaries below newSessionRetainDepth.",
        section=_DO,
    ),
]
ExportTo: TypeAlias = Annotated[
    Path | None,
    Option(
        "--export-to",
        "The folder for the exports of --delete (default: the data folder of lcm-tui).",
        FilePath(),
        "DIR",
        section=_DO,
    ),
]
Vacuum: TypeAlias = Annotated[
    bool,
    Option("--vacuum", "Rewrite the file after --delete (VACUUM), so that it gets smaller.", section=_DO),
]


@command(
    "prune",
    examples=(
        "prune",
        "prune --older-than 90d --archive",
        "prune --cleaner cron_sessions",
        "prune 3 --delete --apply",
    ),
)
def prune(
    run: Run,
    *,
    conversations: Conversations = (),
    older_than: OlderThan = None,
    larger_than: LargerThan = None,
    max_messages: MaxMessages = None,
    empty: Empty = False,
    session_pattern: SessionPattern = None,
    no_session_key: NoSessionKey = False,
    orphaned: Orphaned = False,
    archived: Archived = False,
    cleaners: Cleaners = (),
    agents: Agents = (),
    archive: Archive = False,
    delete: Delete = False,
    forget: Forget = False,
    new_session: NewSession = False,
    export_to: ExportTo = None,
    vacuum: Vacuum = False,
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

ConversationFile: TypeAlias = Annotated[
    Path, Argument("FILE", "A file that prune --delete exported.", FilePath(text=True))
]


@command("import", examples=("import conversation-3.jsonl --apply",))
def import_(run: Run, *, file: ConversationFile, flags: SqlFlags) -> Answer:
    """Import an exported conversation into this or another database (previews unless --apply)."""
    from lcm_tui.cli.prune import import_

    return import_(run, file, flags)
