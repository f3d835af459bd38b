"""``status``: what a database holds, on one page, and whether its engine keeps up with the host."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

from lcm_core.base.errors import UsageError
from lcm_core.base.records import ConversationId

from lcm_tui.cli import options
from lcm_tui.cli.declaring import Argument, Option, Outcome, command
from lcm_tui.cli.kinds import (
    Choice,
    FilePath,
    Lag,
    Moment,
    Stamp,
    StoredText,
    Text,
    Tokens,
    WholeNumber,
    invalid,
)
from lcm_tui.cli.options import Watch

if TYPE_CHECKING:
    from lcm_tui.cli.answer import Answer, Run


FailOn: TypeAlias = Annotated[
    timedelta | None,
    Option(
        "--fail-on",
        "Exit with code 6 if the engine has been behind its host for this long.",
        Lag(),
        "behind=N[smhdw]",
    ),
]


@command(
    "status",
    examples=(
        "status",
        "status --db copy.db --json",
        "status --fail-on behind=5m",
        "status --watch 10 --fail-on behind=5m --quiet",
    ),
)
def status(run: Run, *, fail_on: FailOn = None, watch: Watch = None) -> Outcome:
    """Show the contents of the database, its engine version, and whether the engine keeps up with its
    host."""
    from lcm_tui.cli import status

    if watch is None:
        return status.status(run, fail_on)
    from lcm_tui.cli.working import watched

    return watched(run, lambda: status.status(run, fail_on), watch, ends=fail_on is not None)


# -- engine ---------------------------------------------------------------------------------------------
# ``engine``: what the 1.x engine has prepared, what is stuck, and what it owes.

At: TypeAlias = Annotated[
    Stamp | None,
    Option("--at", "Time for ages and leases (default: now).", Moment(), "TIME"),
]
ShowPrepared: TypeAlias = Annotated[
    bool,
    Option(
        "--show-prepared", "Also show the prepared texts of one conversation; no model has received them."
    ),
]
CloseDebt: TypeAlias = Annotated[
    bool,
    Option(
        "--close-debt",
        "Close the compaction debt of an ended conversation, which no engine pays. Makes a backup first.",
    ),
]


@command("engine", examples=("engine", "engine 3 --show-prepared", "engine 4 --close-debt --apply"))
def engine(
    run: Run,
    *,
    conversation: options.ConversationOptions,
    at: At = None,
    show_prepared: ShowPrepared = False,
    close_debt: CloseDebt = False,
    flags: options.SqlFlags,
) -> Answer:
    """Show prepared compactions and compaction debt; conversations that need attention come first."""
    from lcm_tui.cli import engine

    named = conversation.selector("engine", needed=close_debt)
    if close_debt:
        return engine.close_debt(run, named, flags)
    if flags.apply:
        raise UsageError("engine --apply requires --close-debt.", details={"option": "apply"})
    if show_prepared and not named.given:
        raise UsageError(
            f"--show-prepared needs a conversation: {options.by_what('engine')}.",
            details={"option": "show-prepared"},
        )
    when = None if at is None else at.moment(run.clock)
    return engine.engine(run, named, when, show_prepared=show_prepared)


# -- conversations --------------------------------------------------------------------------------------
# ``conversations list`` and ``conversations show``.


@command("conversations list", examples=("conversations list --recency 7d",))
def conversations_list(run: Run, *, paged: options.PageOptions, times: options.TimeOptions) -> Answer:
    """List all conversations, including archived ones, last updated first."""
    from lcm_tui.cli import conversations

    window = options.window(run, "conversations", paged, times, as_engine=True)
    return conversations.list_(run, window)


@command("conversations show", examples=("conversations show 1",))
def conversations_show(run: Run, *, conversation: options.NeededConversation) -> Answer:
    """Show one conversation: its counts, its context, and what the engine records about it."""
    from lcm_tui.cli import conversations

    return conversations.show(run, conversation.selector("conversations.show"))


# -- messages -------------------------------------------------------------------------------------------
# ``messages list`` and ``messages tail``.

ROLES = Choice("system", "user", "assistant", "tool")

Roles: TypeAlias = Annotated[
    tuple[str, ...],
    Option(
        "--role",
        f"Only this role ({', '.join(ROLES.words)}); may be given several times.",
        ROLES,
        "ROLE",
        several=True,
        section=options.FILTERS,
    ),
]
Count: TypeAlias = Annotated[
    int | None,
    Option(
        "--count",
        "Number of messages (default: the fresh tail as configured for the engine).",
        WholeNumber(1, options.MAX_LIMIT),
        "1..500",
    ),
]


@command("messages list", examples=("messages list --session-key agent:main:main --role user --limit 20",))
def messages_list(
    run: Run,
    *,
    conversation: options.NeededConversation,
    paged: options.PageOptions,
    role: Roles = (),
    include_content: options.IncludeContent = False,
    times: options.TimeOptions,
) -> Answer:
    """List the messages of a conversation, newest first."""
    from lcm_tui.cli import messages

    named = conversation.selector("messages.list")
    window = options.window(run, "messages", paged, times, as_engine=True)
    return messages.list_(run, named, window, tuple(dict.fromkeys(role)), include_content=include_content)


@command("messages tail", examples=("messages tail 1",))
def messages_tail(run: Run, *, conversation: options.NeededConversation, count: Count = None) -> Answer:
    """Show the fresh tail: the newest messages of the context, which compaction does not touch."""
    from lcm_tui.cli import messages

    return messages.tail(run, conversation.selector("messages.tail"), count)


# -- summaries ------------------------------------------------------------------------------------------
# ``summaries list``, ``summaries show``, ``summaries previous`` and ``summaries map``.

SummaryKind: TypeAlias = Annotated[
    str | None,
    Option(
        "--kind", "Only this kind.", Choice("leaf", "condensed"), "leaf|condensed", section=options.FILTERS
    ),
]


@command("summaries list", examples=("summaries list --conversation-id 1 --kind condensed",))
def summaries_list(
    run: Run,
    *,
    conversation: options.ConversationOptions,
    paged: options.PageOptions,
    depth: options.Depth = None,
    kind: SummaryKind = None,
    include_content: options.IncludeContent = False,
    times: options.TimeOptions,
    past: options.PastOptions,
) -> Answer:
    """List the summaries of one or all conversations, newest coverage first."""
    from lcm_tui.cli import summaries
    from lcm_tui.cli.working import run_at

    named = conversation.selector("summaries.list", needed=past.at is not None)
    run = run_at(run, named, past)
    filters = summaries.Filters(depth, kind, include_content)
    window = options.window(run, "summaries", paged, times, as_engine=True)
    return summaries.list_(run, named, window, filters)


@command("summaries show", examples=("summaries show sum_4c4bd5292abfa225",))
def summaries_show(run: Run, *, summary_id: options.SummaryArgument) -> Answer:
    """Show one summary: its text, its sources, and the summaries that use it."""
    from lcm_tui.cli import summaries

    return summaries.show(run, summary_id)


@command("summaries previous", examples=("summaries previous sum_18ef3ddbebbf8c2e --json",))
def summaries_previous(
    run: Run, *, summary_id: options.SummaryArgument, rules: options.RuleSet = None
) -> Answer:
    """Show the previous context a summary was made with, reconstructed, and the one for a rewrite."""
    from lcm_tui.cli import summaries

    return summaries.previous(run, summary_id, rules)


Width: TypeAlias = Annotated[
    int | None,
    Option(
        "--width", "Cells of a line (default: the terminal's width, else 80).", WholeNumber(20, 10_000), "N"
    ),
]
Ascii: TypeAlias = Annotated[bool, Option("--ascii", "Letters instead of patterns.")]


@command("summaries map", examples=("summaries map 1", "summaries map 1 --ascii"))
def map_(
    run: Run,
    *,
    conversation: options.NeededConversation,
    width: Width = None,
    letters: Ascii = False,
    past: options.PastOptions,
) -> Answer:
    """Draw which summaries cover which messages, by depth, and what the context uses."""
    from lcm_tui.cli import coverage as coverage_map
    from lcm_tui.cli.working import run_at

    named = conversation.selector("summaries.map")
    run = run_at(run, named, past)
    return coverage_map.show(run, named, width, letters=letters)


# -- context --------------------------------------------------------------------------------------------
# ``context``: what the model sees of a conversation, two of them compared, and what it was sent before.

_SENT = "As the model receives it"
_FIRST = "The first context"
_SECOND = "The second context"
_FORMS = Choice("json", "markdown")

Assembled: TypeAlias = Annotated[
    bool,
    Option(
        "--assembled",
        "Show the messages as sent under the budget, and what is left out.",
        section=_SENT,
    ),
]
Prompt: TypeAlias = Annotated[str | None, options.prompt_option(section=_SENT)]
RuleSet: TypeAlias = Annotated[str | None, options.rules_option(section=_SENT)]
NoClamp: TypeAlias = Annotated[bool, options.no_clamp_option(section=_SENT)]
Export: TypeAlias = Annotated[
    str | None,
    Option(
        "--export",
        "Print only the messages: a request for Anthropic's API, or Markdown.",
        _FORMS,
        "|".join(_FORMS.words),
        section=_SENT,
    ),
]


@command(
    "context show",
    forms=("csv",),
    examples=(
        *("context show 1 --budget 200k", "context show 1 --assembled --export json"),
        "context show 1 --at 2026-03-02T10:00:00Z",
    ),
)
def context_show(
    run: Run,
    *,
    conversation: options.NeededConversation,
    budget: options.Budget = None,
    assembled: Assembled = False,
    prompt: Prompt = None,
    rules: RuleSet = None,
    no_clamp: NoClamp = False,
    export: Export = None,
    past: options.PastOptions,
) -> Outcome:
    """Show the items of a context; with --assembled, what the model receives; with --at, as it was."""
    from lcm_tui.cli import context
    from lcm_tui.cli.context import AssemblyOptions, show_assembled
    from lcm_tui.cli.working import run_at
    from lcm_tui.kit.session import budget_for

    named = conversation.selector("context.show")
    run = run_at(run, named, past)
    if assembled:
        wanted = AssemblyOptions(prompt, rules, export, not no_clamp)
        return show_assembled(run, named, budget_for(run.settings, budget), wanted)
    for name, value in (
        ("prompt", prompt),
        ("rules", rules),
        ("export", export),
        ("no-clamp", no_clamp or None),
    ):
        if value is not None:
            raise UsageError(f"--{name} requires --assembled.", details={"option": name})
    return context.show(run, named, budget)


First: TypeAlias = Annotated[
    ConversationId,
    Argument("CONVERSATION_ID", "The conversation of the first context.", options.CONVERSATION),
]
Second: TypeAlias = Annotated[
    ConversationId | None,
    Argument(
        "OTHER_ID", "The conversation of the second context; by default the same.", options.CONVERSATION
    ),
]
BudgetA: TypeAlias = Annotated[
    int | None,
    Option(
        "--budget",
        "Its budget (default: of the compared snapshot, else as configured).",
        Tokens(),
        "TOKENS",
        section=_FIRST,
    ),
]
BudgetB: TypeAlias = Annotated[
    int | None, Option("--budget-b", "Its budget; by default the same.", Tokens(), "TOKENS", section=_SECOND)
]
DatabaseB: TypeAlias = Annotated[
    Path | None,
    Option(
        "--db-b",
        "Its database; a backup shows the context at an earlier time.",
        FilePath(),
        "PATH",
        section=_SECOND,
    ),
]
SnapshotA: TypeAlias = Annotated[
    str | None,
    Option(
        "--snapshot",
        "The context of this snapshot (`context snapshots` lists them).",
        Text(),
        "SNAPSHOT_ID",
        section=_FIRST,
    ),
]
SnapshotB: TypeAlias = Annotated[
    str | None,
    Option("--snapshot-b", "The context of this snapshot.", Text(), "SNAPSHOT_ID", section=_SECOND),
]
PromptA: TypeAlias = Annotated[str | None, options.prompt_option(section=_FIRST)]
PromptB: TypeAlias = Annotated[
    str | None,
    options.prompt_option("--prompt-b", "Its prompt; by default the same, '' for none.", section=_SECOND),
]
RulesA: TypeAlias = Annotated[str | None, options.rules_option(section=_FIRST)]
RulesB: TypeAlias = Annotated[
    str | None, options.rules_option("--rules-b", "Its rules; by default the same.", section=_SECOND)
]
AtA: TypeAlias = Annotated[
    str | None,
    Option(
        "--at",
        "As it was: before:OPERATION_ID, after:OPERATION_ID or a time.",
        Text(empty=False),
        "POINT",
        section=_FIRST,
    ),
]
AtB: TypeAlias = Annotated[
    str | None,
    Option(
        "--at-b",
        "As it was then; by default now.",
        Text(empty=False),
        "POINT",
        section=_SECOND,
    ),
]
NoClampBoth: TypeAlias = Annotated[bool, options.no_clamp_option(section="Both")]


@command("context compare", examples=("context compare 1 --budget 9k --budget-b 20k", "context compare 1 8"))
def context_compare(
    run: Run,
    *,
    conversation: First,
    other: Second = None,
    budget: BudgetA = None,
    snapshot: SnapshotA = None,
    prompt: PromptA = None,
    rules: RulesA = None,
    at: AtA = None,
    budget_b: BudgetB = None,
    snapshot_b: SnapshotB = None,
    prompt_b: PromptB = None,
    rules_b: RulesB = None,
    at_b: AtB = None,
    db_b: DatabaseB = None,
    no_clamp: NoClampBoth = False,
) -> Answer:
    """Compare what two contexts send: two budgets, prompts, conversations or times.

    An earlier time is a point of the history, a snapshot that an engine kept, or a backup.
    """
    from lcm_tui.cli.context_compare import Wanted, compare

    _refuse_beside_snapshot(
        snapshot, "snapshot", {"budget": budget, "prompt": prompt, "rules": rules, "at": at}
    )
    _refuse_beside_snapshot(
        snapshot_b,
        "snapshot-b",
        {"budget-b": budget_b, "prompt-b": prompt_b, "rules-b": rules_b, "at-b": at_b},
    )
    first = Wanted(conversation, budget, snapshot, prompt, rules, at)
    second = Wanted(
        conversation if other is None else other,
        budget if budget_b is None else budget_b,
        snapshot_b,
        prompt if prompt_b is None else prompt_b,
        rules if rules_b is None else rules_b,
        at_b,
    )
    return compare(run, first, second, db_b, clamp=not no_clamp)


def _refuse_beside_snapshot(
    snapshot: str | None, option: str, others: Mapping[str, str | int | None]
) -> None:
    for name, value in others.items():
        if snapshot is not None and value is not None:
            raise invalid(name, f"cannot be combined with --{option}: a snapshot has its own")


Owner: TypeAlias = Annotated[
    ConversationId,
    Argument("CONVERSATION_ID", "The conversation of the snapshots.", options.CONVERSATION),
]
Show: TypeAlias = Annotated[
    str | None,
    Option(
        "--show",
        "Show what was sent, from the rows that still exist; a unique prefix of the id is enough.",
        Text(),
        "SNAPSHOT_ID",
    ),
]


@command("context snapshots", examples=("context snapshots 1",))
def context_snapshots(
    run: Run, *, conversation: Owner, paged: options.PageOptions, show: Show = None
) -> Answer:
    """List the contexts that an engine sent, newest first, or show one of them."""
    from lcm_tui.cli import context_compare as context_snapshots

    named = options.Selector(conversation, None)
    if show is not None:
        return context_snapshots.show_snapshot(run, named, show)
    return context_snapshots.snapshots(run, named, options.window(run, "snapshots", paged))


# -- files ----------------------------------------------------------------------------------------------
# ``files list`` and ``files show``: payloads that the engine took out of messages.

FileArgument: TypeAlias = Annotated[str, Argument("FILE_ID", "The file.")]
WithContent: TypeAlias = Annotated[
    bool, Option("--content", "Print the file itself, if it exists and is text.")
]


@command("files list", examples=("files list 1",))
def files_list(
    run: Run,
    *,
    conversation: options.ConversationOptions,
    paged: options.PageOptions,
    times: options.TimeOptions,
) -> Answer:
    """List the large files of one or all conversations, newest first."""
    from lcm_tui.cli import files

    named = conversation.selector("files.list")
    return files.list_(run, named, options.window(run, "files", paged, times))


@command("files show", examples=("files show file_b7b54f0887584669 --content",))
def files_show(run: Run, *, file_id: FileArgument, content: WithContent = False) -> Answer:
    """Show one file: its record, its location, and what refers to it."""
    from lcm_tui.cli import files

    return files.show(run, file_id, content=content)


# -- sessions -------------------------------------------------------------------------------------------
# ``sessions``: what the host has, in its databases and in files, and in Codex.

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
def sessions_list(
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
def sessions_show(
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
def sessions_compare(
    run: Run, *, conversation: options.NeededConversation, rollout: RolloutFile = None
) -> Answer:
    """Compare a conversation with its Codex session."""
    from lcm_tui.cli.backfill import compare

    return compare(run, conversation.selector("sessions.compare"), rollout)
