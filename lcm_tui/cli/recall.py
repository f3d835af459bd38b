"""What the commands that search and read the memory have in common (docs/recall.md)."""

from __future__ import annotations

import click
from lcm_core.base.javascript import JsonObject
from lcm_core.base.records import ConversationId
from lcm_core.base.text import as_typed, counted
from lcm_core.store.conversations import list_conversations
from lcm_core.store.database import Reader
from lcm_recall.answer import REPEATS
from lcm_recall.queries import recall_settings
from lcm_recall.read import Passage
from lcm_recall.search import OTHER_SPELLING
from lcm_recall.tools import RecallTools

from lcm_tui.cli import options
from lcm_tui.cli.answer import Answer, Run
from lcm_tui.cli.command import Sectioned
from lcm_tui.cli.kinds import SessionKey, StoredText, SummaryId
from lcm_tui.tables.blocks import Prose

as_engine = click.option("--as-engine", is_flag=True, help="Search and answer like the engine's own tool.")
#: All conversations of a session, where a session is searched and not one conversation chosen.
whole_session = click.option(
    "--session-key", type=SessionKey(), metavar="KEY", help="All conversations of this session key."
)
agent = click.option(
    "--agent",
    cls=Sectioned,
    section=options.FILTERS,
    type=StoredText(empty=False),
    metavar="NAME",
    help="Only sessions of this agent.",
)
id_argument = click.argument(
    "name",
    type=SummaryId(),
    metavar="ID",
    help="m12, sum_..., file_..., a brief (or a unique prefix of a summary or brief), or a citation.",
)


async def in_scope(
    reader: Reader, number: int | None, key: str | None, agent: str | None
) -> tuple[str, tuple[ConversationId, ...] | None]:
    """The conversations that are asked for, with their name for the answer; None: all."""
    if number is None and key is None and agent is None:
        return "all conversations", None
    listed = await list_conversations(reader)
    key = key and as_typed(key, {one.conversation.session_key for one in listed})
    chosen = tuple(
        one.conversation.conversation_id
        for one in listed
        if (number is None or one.conversation.conversation_id == number)
        and (key is None or one.conversation.session_key == key)
        and (agent is None or one.conversation.agent == agent)
    )
    names = [] if number is None else [f"conversation {number}"]
    names += [] if key is None else [f"session family {key}"]
    names += [] if agent is None else [f"agent {agent}"]
    return f"{', '.join(names)} ({counted(len(chosen), 'conversation')})", chosen


def engine_answer(run: Run, name: str, tool: str, given: JsonObject, session_key: str | None) -> Answer:
    """What the engine's own *tool* answers, as the command *name*."""
    settings = recall_settings(run.settings)
    answer = run.work(lambda database: RecallTools(database, settings).call(tool, given, session_key))
    data: JsonObject = {"text": answer.text, "details": answer.details}
    return run.answer(name, data, [Prose(answer.text)])


def passage_title(run: Run, one: Passage) -> str:
    """The line above a passage."""
    part = f", from character {one.start:,}" if one.start else ""
    part += "" if one.complete else ", continues"
    part += f", {REPEATS}" if one.repeats else ""
    part += f", {OTHER_SPELLING}" if one.other_spelling else ""
    return f"{'  ' * one.level}{one.citation}  {one.label}  {run.time(one.at)}{part}"
