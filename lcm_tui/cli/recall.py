"""What the commands that search and read the memory have in common (docs/spec/searching.md)."""

from __future__ import annotations

from lcm_core.base.records import ConversationId
from lcm_core.base.text import counted
from lcm_core.store.conversations import list_conversations, narrowed
from lcm_core.store.database import Reader
from lcm_recall.read import Passage

from lcm_tui.cli import options
from lcm_tui.cli.answer import Run
from lcm_tui.cli.command import argument, option
from lcm_tui.cli.kinds import SessionKey, StoredText, SummaryId

#: All conversations of a session, where a session is searched and not one conversation chosen.
whole_session = option("--session-key", SessionKey(), "KEY", "All conversations of this session key.")
agent = options.filter_option("--agent", StoredText(empty=False), "NAME", "Only sessions of this agent.")
id_argument = argument(
    "name",
    SummaryId(),
    "ID",
    "m12, sum_..., file_..., a brief (or a unique prefix of a summary or brief), or a citation.",
)


async def in_scope(
    reader: Reader, number: int | None, key: str | None, agent: str | None
) -> tuple[str, tuple[ConversationId, ...] | None]:
    """The conversations that are asked for, with their name for the answer; None: all."""
    if number is None and key is None and agent is None:
        return "all conversations", None
    named, entries = narrowed(await list_conversations(reader), number, key, agent)
    ids = tuple(one.conversation.conversation_id for one in entries)
    return f"{named} ({counted(len(ids), 'conversation')})", ids


def passage_title(run: Run, one: Passage) -> str:
    """The line above a passage."""
    return f"{'  ' * one.level}{one.citation}  {one.label}  {run.time(one.at)}{one.part_text}"
