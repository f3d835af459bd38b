"""``summaries``, ``context`` and ``sessions``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
from lcm_core.base.errors import UsageError
from lcm_core.base.records import ConversationId

from lcm_tui.cli import options
from lcm_tui.cli.command import Sectioned, command
from lcm_tui.cli.kinds import (
    Choice,
    FilePath,
    StoredText,
    Text,
    Tokens,
    WholeNumber,
    invalid,
)

if TYPE_CHECKING:
    from lcm_tui.cli.answer import Answer, Outcome, Run


# -- summaries ------------------------------------------------------------------------------------------
# ``summaries list``, ``summaries show``, ``summaries previous`` and ``summaries map``.


@command("summaries list", forms=("csv",), examples=("summaries list --conversation-id 1 --kind condensed",))
@options.conversation_options
@options.page_options
@options.depth
@click.option(
    "--kind",
    cls=Sectioned,
    section=options.FILTERS,
    type=Choice("leaf", "condensed"),
    metavar="leaf|condensed",
    help="Only this kind.",
)
@options.include_content
@options.time_options
@options.past_options
def summaries_list(
    run: Run,
    *,
    conversation: options.ConversationOptions,
    paged: options.PageOptions,
    depth: int | None,
    kind: str | None,
    include_content: bool,
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
@options.summary_argument
def summaries_show(run: Run, *, summary_id: str) -> Answer:
    """Show one summary: its text, its sources, and the summaries that use it."""
    from lcm_tui.cli import summaries

    return summaries.show(run, summary_id)


@command("summaries previous", examples=("summaries previous sum_18ef3ddbebbf8c2e --json",))
@options.summary_argument
@options.rule_set
def summaries_previous(run: Run, *, summary_id: str, rules: str | None) -> Answer:
    """Show the previous context a summary was made with, reconstructed, and the one for a rewrite."""
    from lcm_tui.cli import summaries

    return summaries.previous(run, summary_id, rules)


@command("summaries map", examples=("summaries map 1", "summaries map 1 --ascii"))
@options.needed_conversation
@click.option(
    "--width",
    type=WholeNumber(20, 10_000),
    metavar="N",
    help="Cells of a line (default: the terminal's width, else 80).",
)
@click.option("--ascii", "letters", is_flag=True, help="Letters instead of patterns.")
@options.past_options
def map_(
    run: Run,
    *,
    conversation: options.NeededConversation,
    width: int | None,
    letters: bool,
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


@command(
    "context show",
    forms=("csv",),
    examples=(
        *("context show 1 --budget 200k", "context show 1 --assembled --export json"),
        "context show 1 --at 2026-03-02T10:00:00Z",
    ),
)
@options.needed_conversation
@options.budget
@click.option(
    "--assembled",
    cls=Sectioned,
    section=_SENT,
    is_flag=True,
    help="Show the messages as sent under the budget, and what is left out.",
)
@options.prompt_option(section=_SENT)
@options.rules_option(section=_SENT)
@options.no_clamp_option(section=_SENT)
@click.option(
    "--export",
    cls=Sectioned,
    section=_SENT,
    type=_FORMS,
    metavar="|".join(_FORMS.words),
    help="Print only the messages: a request for Anthropic's API, or Markdown.",
)
@options.past_options
def context_show(
    run: Run,
    *,
    conversation: options.NeededConversation,
    budget: int | None,
    assembled: bool,
    prompt: str | None,
    rules: str | None,
    no_clamp: bool,
    export: str | None,
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


@command("context compare", examples=("context compare 1 --budget 9k --budget-b 20k", "context compare 1 8"))
@click.argument(
    "conversation",
    type=options.CONVERSATION,
    metavar="CONVERSATION_ID",
    help="The conversation of the first context.",
)
@click.argument(
    "other",
    type=options.CONVERSATION,
    required=False,
    metavar="[OTHER_ID]",
    help="The conversation of the second context; by default the same.",
)
@click.option(
    "--budget",
    cls=Sectioned,
    section=_FIRST,
    type=Tokens(),
    metavar="TOKENS",
    help="Its budget (default: of the compared snapshot, else as configured).",
)
@click.option(
    "--snapshot",
    cls=Sectioned,
    section=_FIRST,
    type=Text(),
    metavar="SNAPSHOT_ID",
    help="The context of this snapshot (`context snapshots` lists them).",
)
@options.prompt_option(section=_FIRST)
@options.rules_option(section=_FIRST)
@click.option(
    "--at",
    cls=Sectioned,
    section=_FIRST,
    type=Text(empty=False),
    metavar="POINT",
    help="As it was: before:OPERATION_ID, after:OPERATION_ID or a time.",
)
@click.option(
    "--budget-b",
    cls=Sectioned,
    section=_SECOND,
    type=Tokens(),
    metavar="TOKENS",
    help="Its budget; by default the same.",
)
@click.option(
    "--snapshot-b",
    cls=Sectioned,
    section=_SECOND,
    type=Text(),
    metavar="SNAPSHOT_ID",
    help="The context of this snapshot.",
)
@options.prompt_option("--prompt-b", "Its prompt; by default the same, '' for none.", section=_SECOND)
@options.rules_option("--rules-b", "Its rules; by default the same.", section=_SECOND)
@click.option(
    "--at-b",
    cls=Sectioned,
    section=_SECOND,
    type=Text(empty=False),
    metavar="POINT",
    help="As it was then; by default now.",
)
@click.option(
    "--db-b",
    cls=Sectioned,
    section=_SECOND,
    type=FilePath(),
    metavar="PATH",
    help="Its database; a backup shows the context at an earlier time.",
)
@options.no_clamp_option(section="Both")
def context_compare(
    run: Run,
    *,
    conversation: ConversationId,
    other: ConversationId | None,
    budget: int | None,
    snapshot: str | None,
    prompt: str | None,
    rules: str | None,
    at: str | None,
    budget_b: int | None,
    snapshot_b: str | None,
    prompt_b: str | None,
    rules_b: str | None,
    at_b: str | None,
    db_b: Path | None,
    no_clamp: bool,
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


@command("context snapshots", forms=("csv",), examples=("context snapshots 1",))
@click.argument(
    "conversation",
    type=options.CONVERSATION,
    metavar="CONVERSATION_ID",
    help="The conversation of the snapshots.",
)
@options.page_options
@click.option(
    "--show",
    type=Text(),
    metavar="SNAPSHOT_ID",
    help="Show what was sent, from the rows that still exist; a unique prefix of the id is enough.",
)
def context_snapshots(
    run: Run, *, conversation: ConversationId, paged: options.PageOptions, show: str | None
) -> Answer:
    """List the contexts that an engine sent, newest first, or show one of them."""
    from lcm_tui.cli import context_compare as context_snapshots

    named = options.Selector(conversation, None)
    if show is not None:
        return context_snapshots.show_snapshot(run, named, show)
    return context_snapshots.snapshots(run, named, options.window(run, "snapshots", paged))


# -- sessions -------------------------------------------------------------------------------------------
# ``sessions``: what the host has, in its databases and in files, and in Codex.

#: Where a session is: `host.listing.Storage`.
STORAGES: Final = Choice("hot", "cold", "deleted", "archived", "jsonl")

agent = click.option("--agent", type=StoredText(), metavar="AGENT", help="Only sessions of this agent.")


@command("sessions list", forms=("csv",), examples=("sessions list --agent main --current",))
@options.page_options
@agent
@click.option("--session-key", type=StoredText(), metavar="KEY", help="Only sessions of this key.")
@click.option(
    "--storage",
    type=STORAGES,
    metavar="|".join(STORAGES.words),
    multiple=True,
    help="Only sessions stored this way; may be given several times.",
)
@click.option("--current", is_flag=True, help="Only the current session of each key.")
@options.time_options
def sessions_list(
    run: Run,
    *,
    paged: options.PageOptions,
    agent: str | None,
    session_key: str | None,
    storage: tuple[str, ...],
    current: bool,
    times: options.TimeOptions,
) -> Answer:
    """List the sessions of the host, newest first."""
    from lcm_tui.cli import sessions

    window = options.window(run, "sessions", paged, times)
    return sessions.list_(run, window, agent=agent, session_key=session_key, storage=storage, current=current)


@command("sessions show", examples=("sessions show 2b8481de --limit 20",))
@click.argument(
    "session_id", type=StoredText(), metavar="SESSION_ID", help="The session, or a unique prefix of its id."
)
@agent
@click.option("--limit", type=WholeNumber(1), metavar="N", help="The newest N entries (default: all).")
@options.cursor
def sessions_show(
    run: Run, *, session_id: str, agent: str | None, limit: int | None, cursor: str | None
) -> Answer:
    """Show the messages of a session that the host still sees, in order."""
    from lcm_tui.cli import sessions

    return sessions.show(run, session_id, agent=agent, count=limit, cursor=cursor)


@command(
    "sessions compare",
    examples=(
        "sessions compare 1",
        "sessions compare 1 --rollout rollout.jsonl",
    ),
)
@options.needed_conversation
@click.option(
    "--rollout",
    type=FilePath(),
    metavar="PATH",
    help="The Codex session file (default: the newest of the thread that the session is bound to).",
)
def sessions_compare(run: Run, *, conversation: options.NeededConversation, rollout: Path | None) -> Answer:
    """Compare a conversation with its Codex session."""
    from lcm_tui.cli.backfill import compare

    return compare(run, conversation.selector("sessions.compare"), rollout)
