"""``prune``: what takes the space; conversations archived, deleted, forgotten."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

from lcm_core.errors import UsageError
from lcm_core.records import ConversationId

from lcm_tui.cli.declaring import Argument, Option, command
from lcm_tui.cli.kinds import Age, Choice, FilePath, Raw, Size, Text, WholeNumber
from lcm_tui.cli.options import CONVERSATION, SqlFlags

if TYPE_CHECKING:
    from lcm_tui.cli.answer import Answer, Run

_SELECT = "Which conversations (all conditions must match)"
_DO = "Action"
#: The engine's own cleaners by their names, and all of them (`lcm_core.operations.cleaners`).
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
    from lcm_core.operations.cleaners import Cleaner, Cleaning
    from lcm_core.operations.prune import Criteria, TranscriptFolders
    from lcm_core.records import ConversationId

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
