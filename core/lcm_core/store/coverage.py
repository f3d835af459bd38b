"""Which messages of a conversation its summaries cover: as runs, and as the coverage map."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from lcm_core.base.records import ConversationId, ItemId, SummaryId
from lcm_core.base.values import Record
from lcm_core.engine.coverage import Coverage, Run, Runs, Standing, cover, runs_of
from lcm_core.engine.rules import TailRules, fresh_tail
from lcm_core.store import summaries as summary_store
from lcm_core.store.context import context_items
from lcm_core.store.database import Reader
from lcm_core.store.messages import context_messages
from lcm_core.store.opening import Rows
from lcm_core.store.rows import texts
from lcm_core.store.summaries import few_others

# -- runs ------------------------------------------------------------------------------------------------
# The links of summaries as runs of `lcm_core.engine.coverage`.

#: The place of a message by its id; None: it is not of this conversation.
PlaceOf: TypeAlias = Callable[[int], int | None]


class Linked(Record, frozen=True):
    """The messages of a conversation in order, and what its summaries are linked to."""

    seqs: Sequence[int]  #: by place
    place_of: PlaceOf
    links: Mapping[SummaryId, Runs]  #: summaries linked to no message of the conversation are left out


async def linked_runs(reader: Reader, conversation_id: ConversationId) -> Linked:
    """Eight statements at most, in one thread and over indexes alone: no row of a message is read."""
    if not reader.schema.has("messages"):
        return Linked((), lambda _: None, {})
    links = reader.schema.has("summaries") and reader.schema.has("summary_messages")
    return await reader.run(_linked, conversation_id, links)


def _linked(db: Rows, conversation_id: ConversationId, links: bool) -> Linked:
    """Where no id and no seq is left out, as an engine writes that has one session, none is read alone."""
    unbroken = _unbroken(db, conversation_id)
    distinct = links and _is_key(db, "summary_messages", ("summary_id", "message_id"))
    if unbroken is None or distinct != links:
        return _with_holes(db, conversation_id, links)
    seqs, first_id = unbroken

    def place_of(message_id: int) -> int | None:
        place = message_id - first_id
        return place if 0 <= place < len(seqs) else None

    return Linked(seqs, place_of, _runs(db, conversation_id, first_id, len(seqs)) if links else {})


def _unbroken(db: Rows, conversation_id: ConversationId) -> tuple[range, int] | None:
    """The seqs of messages whose ids and seqs go up together by one, and the first id; None: others."""
    if not _is_key(db, "messages", ("message_id",)):
        return None
    mine = "FROM messages WHERE conversation_id = ?1"
    [(first, last, number)] = db.tuples(
        f"SELECT (SELECT min(seq) {mine}), (SELECT max(seq) {mine}), count(*) {mine}", (conversation_id,)
    )
    if not (isinstance(first, int) and isinstance(last, int)) or last - first + 1 != number:
        return None
    [(first_id,)] = db.tuples(f"SELECT message_id {mine} ORDER BY seq LIMIT 1", (conversation_id,))
    # As no two ids are the same, no two seqs are if each is as far from its id.
    others = f"SELECT 1 {mine} AND message_id - seq IS NOT ?2 LIMIT 1"
    if not isinstance(first_id, int) or db.tuples(others, (conversation_id, first_id - first)):
        return None
    return range(first, last + 1), first_id


def _is_key(db: Rows, table: str, columns: tuple[str, ...]) -> bool:
    """Whether no two rows of the file have the same values there; then no two of the past have."""
    found = db.tuples(f"SELECT name FROM pragma_table_info('{table}', 'main') WHERE pk > 0 ORDER BY pk")
    return tuple([name for (name,) in found]) == columns


#: Whether a summary is linked to every id up to the last that it is linked to. So many different numbers have
#: this sum only if none before the last is left out; and a sum of other than whole numbers is no whole one.
_WHOLE: Final = """(typeof(sum(l.message_id - ?1)) = 'integer'
    AND 2 * sum(l.message_id - ?1) = count(*) * (2 * (max(l.message_id) - ?1) - count(*) + 1))"""
#: Its first place and the one behind its last, if it is so.
_RUN: Final = """CAST(max(l.message_id) - ?1 + 1 - count(*) AS INTEGER) AS start,
    CAST(max(l.message_id) - ?1 + 1 AS INTEGER) AS behind"""
#: If not, the ids one by one.
_SINGLE: Final = "group_concat(CASE typeof(l.message_id) WHEN 'integer' THEN l.message_id END)"
#: The plus keeps SQLite from looking ids up: rows come by summary, as its index has them.
_MINE: Final = "+l.message_id BETWEEN ?1 AND ?2"


def _runs(db: Rows, conversation_id: ConversationId, first_id: int, messages: int) -> dict[SummaryId, Runs]:
    """The places of linked messages, where every id from first to last is one of the conversation's."""
    last_id = first_id + messages - 1
    rows = f"FROM summary_messages AS l WHERE {_MINE}"
    parameters: tuple[int, ...] = (first_id, last_id)
    if not few_others(db, "summary_messages", messages):
        rows = f"""FROM summaries AS s CROSS JOIN summary_messages AS l ON l.summary_id = s.summary_id
            WHERE s.conversation_id = ?3 AND {_MINE}"""
        parameters = (*parameters, conversation_id)
    names, firsts, ends, wholes = texts(
        db,
        f"""SELECT CAST(l.summary_id AS TEXT) AS name, {_RUN}, {_WHOLE} AS whole
        {rows} GROUP BY l.summary_id""",
        ("name", "start", "behind", "whole"),
        parameters,
    )
    places = zip(map(int, firsts), map(int, ends), strict=True)
    runs: dict[SummaryId, Runs] = dict(zip(map(SummaryId, names), zip(places), strict=True))
    if "0" in wholes:
        grouped = f"{rows} GROUP BY l.summary_id HAVING NOT {_WHOLE}"
        for name, text in db.tuples(f"SELECT CAST(l.summary_id AS TEXT), {_SINGLE} {grouped}", parameters):
            del runs[name]
            if text:
                runs[name] = runs_of(int(one) - first_id for one in text.split(","))
    return runs


# -- runs with holes -------------------------------------------------------------------------------------


def _with_holes(db: Rows, conversation_id: ConversationId, links: bool) -> Linked:
    """Ids come as one text for all messages and one for each summary: as rows they take three times as long.

    A summary that is linked to messages in a row is recognised by its text: no id of it is looked at alone.
    """
    ids, seqs = _messages(db, conversation_id)
    places = {key: place for place, key in enumerate(ids)}
    runs: dict[SummaryId, Runs] = {}
    rows: Sequence[tuple[str, str | None]] = ()
    if links:
        rows = db.tuples(
            """SELECT CAST(summary_id AS TEXT), (SELECT group_concat(link.message_id)
            FROM summary_messages AS link
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
            runs[SummaryId(summary_id)] = own
    return Linked(tuple(seqs), lambda message_id: places.get(str(message_id)), runs)


def _messages(db: Rows, conversation_id: ConversationId) -> tuple[list[str], list[int]]:
    """Ids and seqs of the messages, by seq."""
    [(ids, seqs)] = db.tuples(
        """SELECT group_concat(message_id), group_concat(ifnull(CAST(seq AS INTEGER), -1)) FROM (
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


# -- the coverage map ------------------------------------------------------------------------------------


async def read_coverage(reader: Reader, conversation_id: ConversationId, rules: TailRules) -> Coverage:
    """The map of a conversation; which summaries are broken or stale is not known yet (`Coverage.marked`).

    A fixed number of statements and no text.
    """
    columns = await summary_store.load_columns(reader, conversation_id)
    # What needs no link is worked out while SQLite goes through them.
    standing, linked = await asyncio.gather(
        asyncio.to_thread(Standing, columns), linked_runs(reader, conversation_id)
    )
    items = await context_items(reader, conversation_id)
    raw = await context_messages(reader, [conversation_id])
    tail = fresh_tail(raw[conversation_id], rules)
    first = None
    if tail.first_ordinal is not None:
        first = items.refs[items.ordinals.index(tail.first_ordinal)]
    return await asyncio.to_thread(_covered, standing, linked, items.refs, first)


def _covered(
    standing: Standing, linked: Linked, refs: tuple[ItemId, ...] | list[ItemId], first: ItemId
) -> Coverage:
    items = [
        linked.place_of(ref) if isinstance(ref, int) else None if ref is None else SummaryId(ref)
        for ref in refs
    ]
    tail = linked.place_of(first) if isinstance(first, int) else None
    return cover(standing, linked.links, linked.seqs, items, tail).prepare()
