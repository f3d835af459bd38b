"""``focus``: the text over one question that stands in the place of the summaries it covers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from lcm_core.base.errors import NotFoundError, UsageError
from lcm_core.base.records import ConversationId
from lcm_core.base.text import safe_line
from lcm_core.base.values import replace
from lcm_core.change.plan import Plan
from lcm_core.operations.focus import (
    BriefEntry,
    check_known_to_engine,
    load_briefs,
    plan_activate_brief,
    plan_delete_brief,
)
from lcm_core.store.database import Reader
from lcm_core.store.focus import briefs_beginning
from lcm_core.store.listing import CANDIDATES, the_one

from lcm_tui.cli import options
from lcm_tui.cli.answer import Answer, Run
from lcm_tui.cli.changing import run_change
from lcm_tui.cli.command import argument, command, flag, option
from lcm_tui.cli.kinds import BriefId, ConversationName, Text
from lcm_tui.cli.options import BriefOptions, Named
from lcm_tui.cli.selecting import as_text, chosen
from lcm_tui.tables.blocks import json_names, json_of

if TYPE_CHECKING:  # with the flows that it shows, it costs more than help may
    from lcm_tui.tables.focus import ListedBrief

brief_id = argument("brief", BriefId(empty=False), "BRIEF_ID", "The brief, by its id or a unique prefix.")


@command("focus list", forms=("csv",), examples=("focus list 2", "focus list 2 --format csv"))
@options.needed_conversation
def list_(run: Run, *, conversation: ConversationName) -> Answer:
    """List the focus briefs of a conversation: what each replaces, and why one is stale."""
    from lcm_tui.tables.focus import BRIEF_COLUMNS, briefs_blocks

    owner, entries = run.read(_load_all, conversation)
    return run.answer(
        "focus.list",
        {"conversationId": owner, "items": [json_of(BRIEF_COLUMNS, _listed(one)) for one in entries]},
        briefs_blocks([_listed(_shown(one)) for one in entries], run.clock),
        names=json_names(BRIEF_COLUMNS),
    )


async def _load_all(reader: Reader, named: Named) -> tuple[ConversationId, Sequence[BriefEntry]]:
    owner = (await chosen(reader, named)).conversation_id
    check_known_to_engine(reader)
    return owner, await load_briefs(reader, owner)


def _listed(entry: BriefEntry) -> ListedBrief:
    from lcm_tui.tables.focus import ListedBrief

    return ListedBrief(entry.brief, entry.is_active, entry)


def _shown(entry: BriefEntry) -> BriefEntry:
    return replace(entry, brief=as_text(entry.brief))


def show_brief(run: Run, brief: str) -> Answer:
    """Show one focus brief with its text, its sources and what is newer."""
    from lcm_tui.tables.focus import BRIEF_COLUMNS, brief_blocks

    entry = run.read(_load, brief)
    document = {**json_of(BRIEF_COLUMNS, _listed(entry)), "content": entry.brief.content}
    return run.answer("show", document, brief_blocks(_shown(entry), run.clock))


async def _load(reader: Reader, wanted: str) -> BriefEntry:
    brief_id, owner = await _brief_beginning(reader, wanted)
    [found] = await load_briefs(reader, owner, only=brief_id, with_tokens=True)
    return found


async def _brief_beginning(reader: Reader, wanted: str) -> tuple[str, ConversationId]:
    """The brief whose id is *wanted*, or the only one whose id begins so, and its conversation.

    Raises:
        NotFoundError: there is none.
        UsageError: there are several.
        RefusedError: this version has no briefs.
    """
    check_known_to_engine(reader)
    found = dict(await briefs_beginning(reader, wanted, CANDIDATES + 1))
    if not found:
        raise NotFoundError(
            f"No focus brief matched id {safe_line(wanted)}.",
            code="BRIEF_NOT_FOUND",
            details={"briefId": wanted},
        )
    brief_id = the_one(wanted, list(found), "focus briefs", "briefId")
    return brief_id, found[brief_id]


@command(
    "focus create",
    examples=(
        'focus create 2 --prompt "Retries?" --text brief.md',
        'focus create 2 --prompt "Retries?" --model claude-haiku-4-5',
        "focus create 2 --update --model claude-haiku-4-5",
    ),
)
@option("--prompt", Text(), "TEXT", "What the brief is about: a question or a task.")
@flag("--update", "Write the active brief again, with what is newer (the engine's refocus).")
@options.brief_options
def create(run: Run, *, prompt: str | None, update: bool, brief: BriefOptions) -> Answer:
    """Write a focus brief that replaces the summaries it covers (previews unless --apply).

    The text comes from --text, or from a model named with --provider or --model. The offline writer, the
    default for the summaries of the sweep, cannot answer a question. If a call fails, a failed brief is
    stored, as in the engine.
    """
    from lcm_tui.cli.briefs import BriefWriting

    if update and prompt is not None:
        raise UsageError("--prompt and --update exclude each other.", details={"option": "prompt"})
    if update:
        return BriefWriting(run, brief).do()
    if brief.from_draft is None and not (prompt or "").strip():
        raise UsageError("focus create needs --prompt TEXT, or --update.", details={"option": "prompt"})
    if brief.from_draft is not None and prompt is not None:
        raise UsageError("--prompt is in the draft: omit it.", details={"option": "prompt"})
    return BriefWriting(run, brief, prompt or "").do()


@command("focus activate", examples=("focus activate focus_b291 --apply",))
@brief_id
@options.sql_flags()
def activate(run: Run, *, brief: str, flags: options.SqlFlags) -> Answer:
    """Make an older brief active; the active one is superseded (previews unless --apply)."""
    return run_change(run, "focus.activate", partial(_of_brief, plan_activate_brief, brief), flags)


async def _of_brief(
    plan: Callable[[Reader, ConversationId, str], Awaitable[Plan]], wanted: str, reader: Reader
) -> Plan:
    brief_id, owner = await _brief_beginning(reader, wanted)
    return await plan(reader, owner, brief_id)


@command("focus clear", examples=("focus clear 2", "focus clear 2 --no-sweep --apply"))
@options.needed_conversation
@options.no_sweep
@options.budget
@options.model_options
@options.sql_flags()
def clear(
    run: Run,
    *,
    conversation: ConversationName,
    no_sweep: bool,
    budget: int | None,
    model: options.ModelOptions,
    flags: options.SqlFlags,
) -> Answer:
    """Deactivate the active brief, which is kept; then sweep the context (previews unless --apply)."""
    from lcm_tui.cli.briefs import clear_brief

    return clear_brief(run, conversation, not no_sweep, budget, model, flags)


@command("focus delete", examples=("focus delete focus_f3a5 --apply",))
@brief_id
@options.sql_flags()
def delete(run: Run, *, brief: str, flags: options.SqlFlags) -> Answer:
    """Delete a focus brief with the record of its sources (previews unless --apply)."""
    return run_change(run, "focus.delete", partial(_of_brief, plan_delete_brief, brief), flags)
