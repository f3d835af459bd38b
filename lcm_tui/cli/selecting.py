"""Which conversation or summary a command is about, and records whose text is text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from lcm_core.base.errors import NotFoundError, UsageError
from lcm_core.base.records import Conversation, ConversationId, SummaryId
from lcm_core.base.values import replace
from lcm_core.store.conversations import find_by_session_key, get_conversation
from lcm_core.store.database import Reader
from lcm_core.store.listing import CANDIDATES, summary_ids_beginning, the_one
from lcm_core.store.summaries import summaries_in

from lcm_tui.cli.options import Selector

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


async def chosen(reader: Reader, named: Selector) -> Conversation:
    """The conversation that was named.

    Raises:
        NotFoundError: there is none of that name.
    """
    if named.session_key is not None:
        return as_text(await find_by_session_key(reader, named.session_key))
    return as_text(await get_conversation(reader, named.conversation_id or ConversationId(0)))


async def owner_of(reader: Reader, named: Selector, summaries: Sequence[SummaryId]) -> ConversationId:
    """The conversation that was named, else the one of the first of some *summaries*.

    Raises:
        NotFoundError: there is none of that name.
    """
    if named.given or not summaries:
        return (await chosen(reader, named)).conversation_id
    [row] = await summaries_in(reader, summaries[:1])
    return row.conversation_id


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
