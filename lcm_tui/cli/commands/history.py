"""``history``: what lcm-tui changed in this database, and taking it back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from lcm_core.base.errors import UsageError
from lcm_core.base.values import Record

from lcm_tui.cli import options
from lcm_tui.cli.command import command, gather
from lcm_tui.cli.kinds import Moment, Stamp, Text, WholeNumber

if TYPE_CHECKING:
    from lcm_tui.cli.answer import Answer, Run


class Back(Record, frozen=True):
    """What is to be taken back or made again: one of three ways to name it."""

    operation_id: str | None = None
    batch: str | None = None
    last: bool = False

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


back = gather(
    "back",
    Back,
    click.argument(
        "operation_id",
        type=Text(),
        required=False,
        metavar="[OPERATION_ID]",
        help="The operation or a unique prefix of its id; or use an option.",
    ),
    click.option("--batch", type=Text(), metavar="BATCH", help="All operations committed together."),
    click.option(
        "--last", is_flag=True, help="Undo: the newest change in effect. Redo: the last undone change."
    ),
)


@command("history list", forms=("csv",), examples=("history list", "history list 3 --unfold"))
@options.conversation_options
@options.page_options
@click.option("--unfold", is_flag=True, help="List each operation of a batch separately.")
def list_(
    run: Run, *, conversation: options.ConversationOptions, paged: options.PageOptions, unfold: bool
) -> Answer:
    """List the changes, newest first, with their undos; a batch is one line."""
    from lcm_tui.cli import history

    wanted = conversation.selector("history.list")
    return history.list_(run, wanted, options.window(run, "history", paged), unfold=unfold)


@command("history show", examples=("history show op_4c4b", "history show op_4c4b --context-before"))
@click.argument(
    "operation_id", type=Text(), metavar="OPERATION_ID", help="The operation, or a unique prefix of its id."
)
@click.option(
    "--context-before", is_flag=True, help="Show the context before the operation, and what changed since."
)
def show(run: Run, *, operation_id: str, context_before: bool) -> Answer:
    """Show one operation: every row it changed, and whether it can be undone (or redone) now."""
    from lcm_tui.cli import history

    return (history.show_context if context_before else history.show)(run, operation_id)


@command("history undo", examples=("history undo --last --apply", "history undo op_4c4b --with-later"))
@back
@click.option("--with-later", is_flag=True, help="Undo later operations that depend on it too, as a batch.")
@options.budget
@options.sql_flags()
def undo(run: Run, *, back: Back, with_later: bool, budget: int | None, flags: options.SqlFlags) -> Answer:
    """Undo any operation (previews unless --apply). It can be redone."""
    from lcm_tui.cli import history

    if with_later and back.batch is not None:
        raise UsageError("--with-later goes with OPERATION_ID or --last.", details={"option": "with-later"})
    back.check("history.undo")
    return history.undo(run, back.operation_id, back.batch, flags, with_later=with_later, budget=budget)


@command("history redo", examples=("history redo --last --apply",))
@back
@options.budget
@options.sql_flags()
def redo(run: Run, *, back: Back, budget: int | None, flags: options.SqlFlags) -> Answer:
    """Redo an undone operation (previews unless --apply)."""
    from lcm_tui.cli import history

    back.check("history.redo")
    return history.redo(run, back.operation_id, back.batch, flags, budget=budget)


@command("history prune", examples=("history prune --before 2026-01-01 --apply",))
@options.conversation_options
@click.option("--before", type=Moment(), metavar="TIME", help="Only operations from before this time.")
@click.option("--keep-newest", "keep", type=WholeNumber(0), metavar="N", help="Keep the newest N operations.")
@options.change_flags
def prune(
    run: Run,
    *,
    conversation: options.ConversationOptions,
    before: Stamp | None,
    keep: int | None,
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
