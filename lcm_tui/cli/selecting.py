"""Which conversation or summary a command is about, and records whose text is text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeVar

from lcm_core.base.errors import NotFoundError, UsageError
from lcm_core.base.records import Conversation, ConversationId, SummaryId
from lcm_core.base.settings import Settings
from lcm_core.base.text import BLANKS, safe_line, some
from lcm_core.base.values import replace
from lcm_core.engine.rules import FreshTail, TailRules, configured, engine_rules, fresh_tail
from lcm_core.engine.sessions import settings_for_session
from lcm_core.store.conversations import find_by_session_key, get_conversation, titles_with
from lcm_core.store.database import Reader
from lcm_core.store.listing import CANDIDATES, summary_ids_beginning, the_one
from lcm_core.store.messages import ContextMessage
from lcm_core.store.schema import Schema
from lcm_core.store.summaries import summaries_in

from lcm_tui.cli.kinds import ConversationName
from lcm_tui.cli.options import ByKey, Named

# -- records as text -------------------------------------------------------------------------------------
# SQLite stores what it is given, and some program may have given it bytes.

R = TypeVar("R")


def as_text(record: R) -> R:
    """A record of the store with text in place of bytes."""
    given: Any = record
    texts = {
        name: value.decode("utf-8", "surrogateescape")
        for name in given.__struct_fields__
        if isinstance(value := getattr(given, name), bytes)
    }
    changed: R = replace(given, **texts) if texts else record
    return changed


# -- selecting -------------------------------------------------------------------------------------------

#: Conversations that are named where several fit.
_NAMED: Final = 5


async def chosen(reader: Reader, named: Named) -> Conversation:
    """The conversation that was named.

    Raises:
        NotFoundError: there is none of that name.
        UsageError: several have that in their titles.
    """
    return as_text(await get_conversation(reader, await number_of(reader, named)))


async def number_of(reader: Reader, named: Named) -> ConversationId:
    """The id of the conversation that was named; an id is not looked up, as its conversation may be gone.

    A session key has to be whole. A title that is what was named goes before those that contain it.

    Raises:
        NotFoundError: there is none of that name.
        UsageError: several have that in their titles.
    """
    if isinstance(named, int):
        return named
    try:
        key = named.key if isinstance(named, ByKey) else named
        return (await find_by_session_key(reader, key)).conversation_id
    except NotFoundError:
        if isinstance(named, ByKey):
            raise
    bare = named.strip(BLANKS).casefold()
    titles = await titles_with(reader, bare)
    whole = [number for number, title in titles if title.casefold() == bare]
    fitting = whole or [number for number, _ in titles]
    if len(fitting) == 1:
        return fitting[0]
    name, details = safe_line(named), {"kind": "name", "value": named}
    if not fitting:
        raise NotFoundError(
            f"No conversation has the session key {name}, or that in its title.",
            code="CONVERSATION_NOT_FOUND",
            details=details,
        )
    listed = some((f"{number} ({safe_line(title)})" for number, title in titles if number in fitting), _NAMED)
    raise UsageError(
        f"Several conversations have {name} in their titles: {listed}. Give the id of one.",
        code="AMBIGUOUS_ID",
        details=details,
    )


async def numbers_of(reader: Reader, named: Sequence[ConversationName]) -> tuple[ConversationId, ...]:
    """The same of several."""
    return tuple([await number_of(reader, one) for one in named])


async def owner_of(
    reader: Reader, named: ConversationName | None, summaries: Sequence[SummaryId]
) -> ConversationId:
    """The conversation that was named, else the one of the first of some *summaries*.

    Raises:
        NotFoundError: there is none of that name.
    """
    if named is not None:
        return (await chosen(reader, named)).conversation_id
    [row] = await summaries_in(reader, summaries[:1])
    return row.conversation_id


async def owner_if_named(reader: Reader, named: Named | None) -> ConversationId | None:
    """The conversation that was named, where one was.

    Raises:
        NotFoundError: there is none of that name.
    """
    return None if named is None else (await chosen(reader, named)).conversation_id


async def summary_beginning(reader: Reader, wanted: str) -> SummaryId:
    """The summary whose id is *wanted*, or the only one whose id begins so.

    Raises:
        NotFoundError: there is none.
        UsageError: there are several.
    """
    if not wanted:
        raise UsageError(
            "The id of a summary is empty. Give the id, or a unique prefix.", code="INVALID_COMMAND"
        )
    found = await summary_ids_beginning(reader, wanted, CANDIDATES + 1)
    if not found:
        raise NotFoundError(
            f"No summary matched id {wanted}.", code="SUMMARY_NOT_FOUND", details={"summaryId": wanted}
        )
    return SummaryId(the_one(wanted, found, "summaries", "summaryId"))


# -- the fresh tail --------------------------------------------------------------------------------------
# By the settings of the operator and the rules of the engine that wrote the context.


def tail_rules(schema: Schema, settings: Settings, session_key: str | None) -> TailRules:
    """The rules for the fresh tail of a session."""
    return configured(engine_rules(schema), settings_for_session(settings.engine, session_key)).tail


def tail_of(
    messages: Sequence[ContextMessage],
    schema: Schema,
    settings: Settings,
    session_key: str | None = None,
    *,
    count: int | None = None,
) -> FreshTail:
    """Where the fresh tail of a session's context begins; or its newest *count* messages, and no more."""
    rules = tail_rules(schema, settings, session_key)
    if count is not None:
        rules = replace(rules, fresh_tail_count=count, keeps_turn_whole=False)
    return fresh_tail(messages, rules)
