"""``focus``: the text over one question that stands in the place of the summaries it covers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from lcm_core.base.errors import UsageError

from lcm_tui.cli import options
from lcm_tui.cli.command import command
from lcm_tui.cli.kinds import StoredText, Text
from lcm_tui.cli.options import BriefOptions

if TYPE_CHECKING:
    from lcm_tui.cli.answer import Answer, Run

brief_id = click.argument(
    "brief", type=StoredText(empty=False), metavar="BRIEF_ID", help="The brief, by its id or a unique prefix."
)


@command("focus list", forms=("csv",), examples=("focus list 2", "focus list 2 --format csv"))
@options.needed_conversation
def list_(run: Run, *, conversation: options.NeededConversation) -> Answer:
    """List the focus briefs of a conversation: what each replaces, and why one is stale."""
    from lcm_tui.cli.briefs import list_briefs

    return list_briefs(run, conversation.selector("focus.list"))


@command("focus show", examples=("focus show focus_0641",))
@brief_id
def show(run: Run, *, brief: str) -> Answer:
    """Show one focus brief with its text, its sources and what is newer."""
    from lcm_tui.cli.briefs import show_brief

    return show_brief(run, brief)


@command(
    "focus create",
    examples=(
        'focus create 2 --prompt "Retries?" --text brief.md',
        'focus create 2 --prompt "Retries?" --model claude-haiku-4-5',
    ),
)
@click.option("--prompt", type=Text(), metavar="TEXT", help="What the brief is about: a question or a task.")
@options.brief_options
def create(run: Run, *, prompt: str | None, brief: BriefOptions) -> Answer:
    """Write a focus brief that replaces the summaries it covers (previews unless --apply).

    The text comes from --text, or from a model named with --provider or --model. The offline writer, the
    default for the summaries of the sweep, cannot answer a question. If a call fails, a failed brief is
    stored, as in the engine.
    """
    from lcm_tui.cli.briefs import BriefWriting

    if brief.from_draft is None and not (prompt or "").strip():
        raise UsageError("focus create needs --prompt TEXT.", details={"option": "prompt"})
    if brief.from_draft is not None and prompt is not None:
        raise UsageError("--prompt is in the draft: omit it.", details={"option": "prompt"})
    return BriefWriting(run, brief, prompt or "").do()


@command("focus refocus", examples=("focus refocus 2 --model claude-haiku-4-5 --apply",))
@options.brief_options
def refocus(run: Run, *, brief: BriefOptions) -> Answer:
    """Rewrite the active brief with newer summaries (previews unless --apply).

    The text, the sweep and failed calls work as in focus create.
    """
    from lcm_tui.cli.briefs import BriefWriting

    return BriefWriting(run, brief).do()


@command("focus activate", examples=("focus activate focus_b291 --apply",))
@brief_id
@options.sql_flags()
def activate(run: Run, *, brief: str, flags: options.SqlFlags) -> Answer:
    """Make an older brief active; the active one is superseded (previews unless --apply)."""
    from lcm_tui.cli.briefs import activate_brief

    return activate_brief(run, brief, flags)


@command("focus clear", examples=("focus clear 2", "focus clear 2 --no-sweep --apply"))
@options.needed_conversation
@options.no_sweep
@options.budget
@options.model_options
@options.sql_flags()
def clear(
    run: Run,
    *,
    conversation: options.NeededConversation,
    no_sweep: bool,
    budget: int | None,
    model: options.ModelOptions,
    flags: options.SqlFlags,
) -> Answer:
    """Deactivate the active brief, which is kept; then sweep the context (previews unless --apply)."""
    from lcm_tui.cli.briefs import clear_brief

    named = conversation.selector("focus.clear")
    return clear_brief(run, named, not no_sweep, budget, model, flags)


@command("focus delete", examples=("focus delete focus_f3a5 --apply",))
@brief_id
@options.sql_flags()
def delete(run: Run, *, brief: str, flags: options.SqlFlags) -> Answer:
    """Delete a focus brief with the record of its sources (previews unless --apply)."""
    from lcm_tui.cli.briefs import delete_brief

    return delete_brief(run, brief, flags)
