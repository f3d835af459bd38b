"""What the search reads: hits while the scan goes on, and where each leads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from lcm_core.recall.find import Found, Hit, search
from lcm_core.recall.settings import RecallSettings
from lcm_core.recall.terms import Query
from lcm_core.records import Conversation, ConversationId, SummaryId
from lcm_core.store.conversations import get_conversation, list_conversations
from lcm_core.store.database import Reader
from lcm_core.store.messages import seq_of_message
from lcm_core.store.searched import DocumentKind, Filter

from lcm_tui import places

#: Hits that are listed.
SHOWN: Final = 200


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is searched for, and in which kinds."""

    query: Query
    kinds: tuple[DocumentKind, ...]


async def find_hits(
    reader: Reader, wanted: Wanted, settings: RecallSettings, tell: Callable[[Found], None]
) -> Found:
    """What holds the words; *tell* gets, in another thread, what was found so far.

    Cancelling the caller ends the search at its next statement.
    """
    within = Filter(kinds=wanted.kinds)
    return await reader.run(
        lambda rows: search(rows, reader.schema, wanted.query, within, settings, limit=SHOWN, tell=tell)
    )


async def load_names(reader: Reader) -> Mapping[ConversationId, Conversation]:
    """The conversations by their ids, for their names."""
    found = await list_conversations(reader)
    return {entry.conversation.conversation_id: entry.conversation for entry in found}


async def place_of(reader: Reader, hit: Hit) -> places.Place:
    """Where a hit stands.

    Raises:
        NotFoundError: its conversation is gone.
    """
    conversation = await get_conversation(reader, hit.conversation_id)
    match hit.kind:
        case DocumentKind.MESSAGE:
            seq = await seq_of_message(reader, hit.conversation_id, int(hit.id))
            return places.Messages(conversation, seq)
        case DocumentKind.SUMMARY:
            return places.Summaries(conversation, SummaryId(hit.id))
        case DocumentKind.BRIEF:
            return places.Briefs(conversation)
        case DocumentKind.FILE:
            return places.Files(conversation)
