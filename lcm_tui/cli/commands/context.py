"""``context``: what the model sees of a conversation, two of them compared, and what it was sent before."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

from lcm_core.errors import UsageError
from lcm_core.records import ConversationId

from lcm_tui.cli import options
from lcm_tui.cli.declaring import Argument, Option, Outcome, command
from lcm_tui.cli.kinds import Choice, FilePath, Text, Tokens, invalid

if TYPE_CHECKING:
    from lcm_tui.cli.answer import Answer, Run

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
def show(
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
    from lcm_tui.cli.assembled import AssemblyOptions, show_assembled
    from lcm_tui.cli.past_at import run_at
    from lcm_tui.session import budget_for

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
def compare(
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
def snapshots(run: Run, *, conversation: Owner, paged: options.PageOptions, show: Show = None) -> Answer:
    """List the contexts that an engine sent, newest first, or show one of them."""
    from lcm_tui.cli import context_snapshots

    named = options.Selector(conversation, None)
    if show is not None:
        return context_snapshots.show(run, named, show)
    return context_snapshots.snapshots(run, named, options.window(run, "snapshots", paged))
