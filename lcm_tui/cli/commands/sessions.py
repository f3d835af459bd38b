"""``sessions``: what the host has, in its databases and in files, and in Codex."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

from lcm_tui.cli import options
from lcm_tui.cli.declaring import Argument, Option, command
from lcm_tui.cli.kinds import Choice, FilePath, StoredText, WholeNumber

if TYPE_CHECKING:
    from lcm_tui.cli.answer import Answer, Run

#: Where a session is: `host.listing.Storage`.
STORAGES: Final = Choice("hot", "cold", "deleted", "archived", "jsonl")

SessionArgument: TypeAlias = Annotated[
    str, Argument("SESSION_ID", "The session, or a unique prefix of its id.")
]
Agent: TypeAlias = Annotated[
    str | None, Option("--agent", "Only sessions of this agent.", StoredText(), "AGENT")
]
Key: TypeAlias = Annotated[
    str | None, Option("--session-key", "Only sessions of this key.", StoredText(), "KEY")
]
Stored: TypeAlias = Annotated[
    tuple[str, ...],
    Option(
        "--storage",
        "Only sessions stored this way; may be given several times.",
        STORAGES,
        "|".join(STORAGES.words),
        several=True,
    ),
]
Current: TypeAlias = Annotated[bool, Option("--current", "Only the current session of each key.")]
Entries: TypeAlias = Annotated[
    int | None, Option("--limit", "The newest N entries (default: all).", WholeNumber(1), "N")
]


@command("sessions list", examples=("sessions list --agent main --current",))
def list_(
    run: Run,
    *,
    paged: options.PageOptions,
    agent: Agent = None,
    session_key: Key = None,
    storage: Stored = (),
    current: Current = False,
    times: options.TimeOptions,
) -> Answer:
    """List the sessions of the host, newest first."""
    from lcm_tui.cli import sessions

    window = options.window(run, "sessions", paged, times)
    return sessions.list_(run, window, agent=agent, session_key=session_key, storage=storage, current=current)


@command("sessions show", examples=("sessions show 2b8481de --limit 20",))
def show(
    run: Run,
    *,
    session_id: SessionArgument,
    agent: Agent = None,
    limit: Entries = None,
    cursor: options.Cursor = None,
) -> Answer:
    """Show the messages of a session that the host still sees, in order."""
    from lcm_tui.cli import sessions

    return sessions.show(run, session_id, agent=agent, count=limit, cursor=cursor)


RolloutFile: TypeAlias = Annotated[
    Path | None,
    Option(
        "--rollout",
        "The Codex session file (default: the newest of the thread that the session is bound to).",
        FilePath(),
        "PATH",
    ),
]


@command(
    "sessions compare",
    examples=(
        "sessions compare 1",
        "sessions compare 1 --rollout rollout.jsonl",
    ),
)
def compare(run: Run, *, conversation: options.NeededConversation, rollout: RolloutFile = None) -> Answer:
    """Compare a conversation with its Codex session."""
    from lcm_tui.cli.codex import compare

    return compare(run, conversation.selector("sessions.compare"), rollout)
