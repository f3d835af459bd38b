"""Which messages of a conversation its summaries are linked to, as runs of `lcm_core.dag.coverage`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from lcm_core.dag.coverage import Run, Runs, runs_of
from lcm_core.records import ConversationId, SummaryId
from lcm_core.store.connecting import Rows
from lcm_core.store.database import Reader


@dataclass(frozen=True, slots=True)
class Linked:
    """The messages of a conversation in order, and what its summaries are linked to."""

    seqs: tuple[int, ...]  #: by place
    places: Mapping[str, int]  #: of the messages, by their ids as digits
    links: Mapping[SummaryId, Runs]  #: summaries linked to no message of the conversation are left out


async def linked_runs(reader: Reader, conversation_id: ConversationId) -> Linked:
    """Two statements, over indexes alone and in one thread; no text and no row of a message is read."""
    messages = reader.schema.has("messages")
    links = reader.schema.has("summaries") and reader.schema.has("summary_messages")
    return await reader.run(_linked, conversation_id, messages, links)


def _linked(db: Rows, conversation_id: ConversationId, messages: bool, links: bool) -> Linked:
    """Ids come as one text for all messages and one for each summary: as rows they take three times as long.

    A summary that is linked to messages in a row is recognised by its text: no id of it is looked at alone.
    """
    ids, seqs = _messages(db, conversation_id) if messages else ([], [])
    places = {key: place for place, key in enumerate(ids)}
    found: dict[SummaryId, Runs] = {}
    rows: Iterable[tuple[str, str | None]] = ()
    if links:
        rows = db.tuples(
            """SELECT summary_id, (SELECT group_concat(link.message_id) FROM summary_messages AS link
            WHERE link.summary_id = s.summary_id AND typeof(link.message_id) = 'integer')
            FROM summaries AS s WHERE conversation_id = ?""",
            (conversation_id,),
        )
    for summary_id, text in rows:
        if not text:
            continue
        run = _run_of(text, ids, places)
        own = (run,) if run else runs_of(places[key] for key in text.split(",") if key in places)
        if own:
            found[SummaryId(summary_id)] = own
    return Linked(tuple(seqs), places, found)


def _messages(db: Rows, conversation_id: ConversationId) -> tuple[list[str], list[int]]:
    """Ids and seqs of the messages, by seq."""
    [(ids, seqs)] = db.tuples(
        """SELECT group_concat(message_id), group_concat(CAST(seq AS INTEGER)) FROM (
        SELECT message_id, seq FROM messages
        WHERE conversation_id = ? AND typeof(message_id) = 'integer' ORDER BY seq, message_id)""",
        (conversation_id,),
    )
    if not ids:
        return [], []
    return ids.split(","), list(map(int, seqs.split(",")))


def _run_of(text: str, ids: list[str], places: Mapping[str, int]) -> Run | None:
    """The places of ids in a text when they follow each other, in order and each once."""
    first, last = (
        places.get(text[: text.find(",")] if "," in text else text),
        places.get(text[text.rfind(",") + 1 :]),
    )
    if first is None or last is None or ",".join(ids[first : last + 1]) != text:
        return None
    return first, last + 1
