"""From a screen to drafts: one summary, what lies below it, or everything that is broken."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lcm_core.records import Conversation, ConversationId, SummaryId

from lcm_tui import places
from lcm_tui.commands import Action
from lcm_tui.frame import CommandScreen
from lcm_tui.widgets.text import Block

if TYPE_CHECKING:  # what asks models and changes a database is imported when that is wanted
    from lcm_core.operations.drafting.saved import SavedDrafts


def repair_action(screen: CommandScreen, conversation: Callable[[], Conversation | None]) -> Action:
    """List what is broken, in the selected *conversation* or in the whole file (None: that at once)."""
    return Action("repair", lambda: _repair(screen, conversation()))


def _repair(screen: CommandScreen, conversation: Conversation | None) -> None:
    """Ask where; nobody is asked for a summary before the operator says so."""
    from lcm_tui.dialogs.question import Question

    if conversation is None:
        open_repair(screen, None)
        return

    def answered(answer: str | None) -> None:
        if answer:
            open_repair(screen, conversation if answer == "enter" else None)

    here = f"only conversation {conversation.conversation_id} ({screen.session.name_of(conversation)})"
    said = Block("Lists the broken summaries. No model is called and nothing changes until you confirm.")
    answers = (("enter", here), ("a", "every conversation of the database"))
    question = Question("Repair broken summaries", (said,), answers, decides=False)
    screen.app.push_screen(question, answered)


async def resume_drafts(screen: CommandScreen, kept: SavedDrafts) -> None:
    """Go on with a batch of drafts that waits for decisions."""
    from lcm_tui.drafts import Wanted

    last = kept.items[-1]  # sources come first, so it is the summary that was asked for
    if len(kept.items) == 1:
        await rewrite_summary(screen, last.conversation_id, last.summary_id)
    elif kept.header.kind == "rewrite":
        wanted = Wanted("rewrite", last.conversation_id, last.summary_id)
        screen.open(places.Drafting(wanted, f"Rewrite {last.summary_id} and what is below it"))
    else:
        owners = {item.conversation_id for item in kept.items}
        owner = last.conversation_id if len(owners) == 1 else None
        where = "the whole database" if owner is None else f"conversation {owner}"
        screen.open(places.Drafting(Wanted(kept.header.kind, owner), f"Repair {where}"))


def open_repair(screen: CommandScreen, conversation: Conversation | None) -> None:
    """List what is broken in a conversation, or in the whole file."""
    from lcm_tui.drafts import Wanted

    wanted = Wanted("repair", None if conversation is None else conversation.conversation_id)
    where = "the whole database"
    if conversation is not None:
        where = f"conversation {screen.session.called(conversation)}"
    screen.open(places.Drafting(wanted, f"Repair {where}"))


def rewrite_actions(
    screen: CommandScreen, conversation: Conversation, selected: Callable[[], SummaryId | None]
) -> tuple[Action, ...]:
    """Drafts for the *selected* summary, for what lies below it too, and for what is broken here."""

    def why_not() -> str | None:
        return "no summary is selected" if selected() is None else None

    async def rewrite() -> None:
        if (summary_id := selected()) is not None:
            await rewrite_summary(screen, conversation.conversation_id, summary_id)

    def rewrite_below() -> None:
        from lcm_tui.drafts import Wanted

        if (summary_id := selected()) is not None:
            wanted = Wanted("rewrite", conversation.conversation_id, summary_id)
            screen.open(places.Drafting(wanted, f"Rewrite {summary_id} and what is below it"))

    return (
        Action("rewrite", rewrite, why_not),
        Action("rewrite-subtree", rewrite_below, why_not),
        repair_action(screen, lambda: conversation),
    )


async def rewrite_summary(
    screen: CommandScreen, conversation_id: ConversationId, summary_id: SummaryId
) -> None:
    """Draft another text for a summary, and review it."""
    from lcm_core.operations.drafting.items import select_items

    from lcm_tui.drafts import Work, author_of

    session = screen.session
    items = await session.read(select_items, conversation_id, summary_ids=[summary_id])
    author = await asyncio.to_thread(author_of, session.settings)
    kept = await asyncio.to_thread(_kept_of, session.database.path, [summary_id])
    work = Work(session, author, items, kind="rewrite", kept=kept)
    screen.open(places.Review(work, summary_id, own=True))


def _kept_of(path: Path, ids: Sequence[SummaryId]) -> SavedDrafts | None:
    """Drafts of exactly these summaries that were not decided."""
    from lcm_core.operations.drafting.saved import unfinished
    from lcm_core.private_files import drafts_folder

    from lcm_tui.drafts import worth_keeping

    for kept in unfinished(drafts_folder(), path, "rewrite"):
        if [item.summary_id for item in kept.items] == list(ids) and worth_keeping(kept.items):
            return kept
    return None
