"""What the search reads besides hits: names of conversations, and where a hit leads."""

from __future__ import annotations

from collections.abc import Mapping

from lcm_core.recall.find import Hit
from lcm_core.recall.gathering import terms_of
from lcm_core.recall.read import Passage
from lcm_core.recall.terms import parse
from lcm_core.records import Conversation, ConversationId, SummaryId
from lcm_core.store.conversations import get_conversation, list_conversations
from lcm_core.store.database import Reader
from lcm_core.store.files import get_file
from lcm_core.store.messages import seq_of_message
from lcm_core.store.search import has_search_table
from lcm_core.store.searched import DocumentKind
from lcm_core.store.summaries import get_summary

from lcm_tui import places


async def load_names(reader: Reader) -> Mapping[ConversationId, Conversation]:
    """The conversations by their ids, for their names."""
    found = await list_conversations(reader)
    return {entry.conversation.conversation_id: entry.conversation for entry in found}


async def load_needs_index(reader: Reader) -> bool:
    """Whether the file has no search table of its own that a search can begin with."""
    return not await reader.run(lambda rows: has_search_table(rows, reader.schema))


async def expansion_of(reader: Reader, summary_id: SummaryId) -> places.Place:
    """A summary to be read down.

    Raises:
        NotFoundError: it, or its conversation, is gone.
    """
    found = await get_summary(reader, summary_id)
    return places.Expansion(await get_conversation(reader, found.summary.conversation_id), summary_id)


async def place_of(reader: Reader, hit: Hit) -> places.Place:
    """Where a hit stands.

    Raises:
        NotFoundError: it, or its conversation, is gone.
    """
    return await _place(reader, hit.conversation_id, hit.kind, hit.id, _found_in(hit))


async def place_of_passage(reader: Reader, passage: Passage, question: str) -> places.Place:
    """The place of a passage that was found for a question, at the longest of its words; as `place_of`."""
    name = passage.citation.partition("@")[0].removeprefix("msg#")
    terms = [term for word in terms_of(question) for term in parse(word).terms]
    places = [place for term in terms for place in term.places(passage.text)[:1]]
    find = max((passage.text[start:end] for start, end in places), key=len, default="")
    return await _place(reader, passage.conversation_id, passage.kind, name, find)


async def _place(
    reader: Reader, owner: ConversationId, kind: DocumentKind, name: str, find: str
) -> places.Place:
    conversation = await get_conversation(reader, owner)
    match kind:
        case DocumentKind.MESSAGE:
            return places.Messages(conversation, await seq_of_message(reader, owner, int(name)), find)
        case DocumentKind.SUMMARY:
            return places.Summaries(conversation, SummaryId(name), find)
        case DocumentKind.BRIEF:
            return places.Briefs(conversation, name, find)
        case DocumentKind.FILE:
            return places.FileText(await get_file(reader, name), find)


def _found_in(hit: Hit) -> str:
    """What was found, as it is written there: the longest of several words, which says the most."""
    return max((hit.snippet[one.start : one.end] for one in hit.spans), key=len, default="")
