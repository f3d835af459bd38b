"""Of what a context names and its conversation lacks: what is left of the gone, where the foreign stands."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from lcm_core.records import SummaryId
from lcm_core.store.database import Reader


async def remains_of(
    reader: Reader, gone: Iterable[SummaryId], ours: Collection[SummaryId]
) -> dict[SummaryId, tuple[int | SummaryId, ...]]:
    """What links and edges still name as the sources of summaries that are gone, each in order.

    A source that is gone too has its own entry; *ours* are summaries that are there. Those of which nothing
    is left are left out.
    """
    found: dict[SummaryId, tuple[int | SummaryId, ...]] = {}
    asked: set[SummaryId] = set()
    waiting = sorted(set(gone))
    while waiting:
        asked.update(waiting)
        sources: dict[SummaryId, list[int | SummaryId]] = {}
        for table, column, kind in (
            ("summary_messages", "message_id", "INTEGER"),
            ("summary_parents", "parent_summary_id", "TEXT"),
        ):
            if reader.schema.has(table):
                for row in await reader.rows_in(
                    f"""SELECT summary_id, CAST({column} AS {kind}) AS source FROM {table}
                    WHERE summary_id IN (?*) ORDER BY summary_id, CAST(ordinal AS INTEGER), rowid""",
                    waiting,
                ):
                    sources.setdefault(SummaryId(row["summary_id"]), []).append(row["source"])
        found |= {one: tuple(named) for one, named in sources.items()}
        below = {SummaryId(one) for named in sources.values() for one in named if isinstance(one, str)}
        waiting = sorted(await _without_row(reader, below - asked - set(ours)))
    return found


async def _without_row(reader: Reader, summaries: Collection[SummaryId]) -> set[SummaryId]:
    """Those of some summaries that no conversation has."""
    if not reader.schema.has("summaries"):
        return set(summaries)
    rows = await reader.rows_in("SELECT summary_id FROM summaries WHERE summary_id IN (?*)", summaries)
    return set(summaries) - {row["summary_id"] for row in rows}


async def reached_at_home(reader: Reader, owners: Mapping[int | str, int]) -> frozenset[int | str]:
    """The messages and summaries that the context of their own conversation holds, or covers.

    *owners* by message or summary.
    """
    if not owners or not reader.schema.has("context_items"):
        return frozenset()
    tops: dict[int | str, set[int | str]] = {ref: {ref} for ref in owners}
    for kind, first in (
        (int, "SELECT message_id AS root, summary_id AS id FROM summary_messages WHERE message_id IN (?*)"),
        (
            str,
            """SELECT parent_summary_id AS root, summary_id AS id FROM summary_parents
            WHERE parent_summary_id IN (?*)""",
        ),
    ):
        wanted = [ref for ref in owners if isinstance(ref, kind)]
        if wanted and reader.schema.has("summary_messages") and reader.schema.has("summary_parents"):
            for row in await reader.rows_in(
                f"""WITH RECURSIVE above(root, id) AS ({first} UNION
                SELECT above.root, e.summary_id FROM above CROSS JOIN summary_parents AS e
                ON e.parent_summary_id = above.id) SELECT root, id FROM above""",
                wanted,
            ):
                tops[row["root"]].add(row["id"])
    held = {
        (row["conversation_id"], ref)
        for row in await reader.rows_in(
            "SELECT conversation_id, message_id, summary_id FROM context_items WHERE conversation_id IN (?*)",
            sorted(set(owners.values())),
        )
        for ref in (row["message_id"], row["summary_id"])
    }
    return frozenset(ref for ref, over in tops.items() if any((owners[ref], one) in held for one in over))
