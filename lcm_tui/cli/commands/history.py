"""``history``: what lcm-tui changed in this database, and taking it back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, TypeAlias

from lcm_core.base.errors import UsageError

from lcm_tui.cli import options
from lcm_tui.cli.declaring import Argument, Option, command
from lcm_tui.cli.kinds import Moment, Stamp, Text, WholeNumber

if TYPE_CHECKING:
    from lcm_tui.cli.answer import Answer, Run

OperationArgument: TypeAlias = Annotated[
    str, Argument("OPERATION_ID", "The operation, or a unique prefix of its id.", Text())
]
OptionalOperation: TypeAlias = Annotated[
    str | None,
    Argument("OPERATION_ID", "The operation or a unique prefix of its id; or use an option.", Text()),
]
Batch: TypeAlias = Annotated[
    str | None, Option("--batch", "All operations committed together.", Text(), "BATCH")
]
Keep: TypeAlias = Annotated[
    int | None, Option("--keep-newest", "Keep the newest N operations.", WholeNumber(0), "N")
]
Older: TypeAlias = Annotated[
    Stamp | None, Option("--before", "Only operations from before this time.", Moment(), "TIME")
]
Last: TypeAlias = Annotated[
    bool,
    Option("--last", "Undo: the newest change in effect. Redo: the last undone change."),
]
WithLater: TypeAlias = Annotated[
    bool, Option("--with-later", "Undo later operations that depend on it too, as a batch.")
]
BeforeIt: TypeAlias = Annotated[
    bool, Option("--context-before", "Show the context before the operation, and what changed since.")
]
Unfold: TypeAlias = Annotated[bool, Option("--unfold", "List each operation of a batch separately.")]


@dataclass(frozen=True, slots=True)
class Back:
    """What is to be taken back or made again: one of three ways to name it."""

    operation_id: OptionalOperation = None
    batch: Batch = None
    last: Last = False

    def check(self, command: str) -> None:
        """Refuse it unless it is named in one way.

        Raises:
            UsageError: it is named in several, or in none.
        """
        if [self.operation_id is not None, self.batch is not None, self.last].count(True) != 1:
            raise UsageError(
                f"`{command.replace('.', ' ')}` needs one of: OPERATION_ID, --batch BATCH, --last.",
                details={"command": command},
            )


@command("history list", examples=("history list", "history list 3 --unfold"))
def list_(
    run: Run,
    *,
    conversation: options.ConversationOptions,
    paged: options.PageOptions,
    unfold: Unfold = False,
) -> Answer:
    """List the changes, newest first, with their undos; a batch is one line."""
    from lcm_tui.cli import history

    wanted = conversation.selector("history.list")
    return history.list_(run, wanted, options.window(run, "history", paged), unfold=unfold)


@command("history show", examples=("history show op_4c4b", "history show op_4c4b --context-before"))
def show(run: Run, *, operation_id: OperationArgument, context_before: BeforeIt = False) -> Answer:
    """Show one operation: every row it changed, and whether it can be undone (or redone) now."""
    from lcm_tui.cli import history

    return (history.show_context if context_before else history.show)(run, operation_id)


@command("history undo", examples=("history undo --last --apply", "history undo op_4c4b --with-later"))
def undo(
    run: Run,
    *,
    back: Back,
    with_later: WithLater = False,
    budget: options.Budget = None,
    flags: options.SqlFlags,
) -> Answer:
    """Undo any operation (previews unless --apply). It can be redone."""
    from lcm_tui.cli import history

    if with_later and back.batch is not None:
        raise UsageError("--with-later goes with OPERATION_ID or --last.", details={"option": "with-later"})
    back.check("history.undo")
    return history.undo(run, back.operation_id, back.batch, flags, with_later=with_later, budget=budget)


@command("history redo", examples=("history redo --last --apply",))
def redo(run: Run, *, back: Back, budget: options.Budget = None, flags: options.SqlFlags) -> Answer:
    """Redo an undone operation (previews unless --apply)."""
    from lcm_tui.cli import history

    back.check("history.redo")
    return history.redo(run, back.operation_id, back.batch, flags, budget=budget)


@command("history prune", examples=("history prune --before 2026-01-01 --apply",))
def prune(
    run: Run,
    *,
    conversation: options.ConversationOptions,
    before: Older = None,
    keep: Keep = None,
    flags: options.ChangeFlags,
) -> Answer:
    """Remove operations from the history; they can then no longer be undone (previews unless --apply)."""
    from lcm_tui.cli import history

    named = conversation.selector("history.prune")
    if before is None and keep is None and not named.given:
        raise UsageError(
            "`history prune` needs --before TIME, --keep-newest N or a conversation.",
            details={"command": "history.prune"},
        )
    return history.prune(run, named, None if before is None else before.moment(run.clock), keep, flags)
