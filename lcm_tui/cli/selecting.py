"""Which conversation or summary a command is about, and records whose text is text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from lcm_core.base.errors import NotFoundError, UsageError
from lcm_core.base.records import Conversation, ConversationId, SummaryId
from lcm_core.base.values import replace
from lcm_core.store.conversations import find_by_session_key, get_conversation
from lcm_core.store.database import Reader
from lcm_core.store.focus import briefs_beginning
from lcm_core.store.listing import summary_ids_beginning
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

#: Ids that an ambiguous beginning names in its refusal.
CANDIDATES = 10


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


async def whole_id(reader: Reader, named: str) -> str:
    """What is *named*: the one summary or brief whose id begins so, else the name as it is.

    A citation names the whole id: it is not completed.

    Raises:
        UsageError: several begin so.
    """
    if named.startswith("sum_") and "@" not in named:
        found = await summary_ids_beginning(reader, named, CANDIDATES + 1)
        return the_one(named, found, "summaries", "summaryId") if found else named
    if named.startswith("focus_") and "@" not in named:
        briefs = [brief_id for brief_id, _ in await briefs_beginning(reader, named, CANDIDATES + 1)]
        return the_one(named, briefs, "focus briefs", "briefId") if briefs else named
    return named


def the_one(wanted: str, found: Sequence[str], kind: str, name: str) -> str:
    """The id that is *wanted*, or the only one *found* that begins so.

    *kind* is what they are, for people, *name* what machines call the id.

    Raises:
        UsageError: there are several.
    """
    if wanted in found or len(found) == 1:
        return wanted if wanted in found else found[0]
    listed = ", ".join(found[:CANDIDATES]) + (", ..." if len(found) > CANDIDATES else "")
    raise UsageError(
        f"Several {kind} begin with {wanted}: {listed}. Give more of the id.",
        code="AMBIGUOUS_ID",
        details={name: wanted, "candidates": listed},
    )
