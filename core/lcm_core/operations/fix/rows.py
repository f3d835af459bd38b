"""The edits that make one state of a conversation's rows out of another, whole rows read as they are."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from lcm_core.change.plan import Cells, Edit, RowChange, insertion, key_of
from lcm_core.checks.structure import NO_LINKS, StoredNode, Structure
from lcm_core.operations.rows import delete, updates
from lcm_core.records import SummaryId
from lcm_core.store.connecting import SqlValue
from lcm_core.store.database import Reader
from lcm_core.store.rows import StoredRow, rows_by
from lcm_core.times import iso_z

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_DAY: Final = 2_440_587.5
#: Columns of a summary and what they are of a node; times are days there.
_NUMBERS: Final = {
    "depth": "depth",
    "token_count": "tokens",
    "descendant_count": "descendant_count",
    "descendant_token_count": "descendant_tokens",
    "source_message_token_count": "source_tokens",
}
_TIMES: Final = {"earliest_at": "earliest", "latest_at": "latest"}


async def summary_updates(
    reader: Reader, before: Structure, after: Structure, file_ids: Mapping[SummaryId, str]
) -> list[Edit]:
    """What changed in the rows of summaries."""
    wanted: dict[SqlValue, Mapping[str, SqlValue]] = {}
    for summary_id, node in after.nodes.items():
        changed = _columns(before.nodes[summary_id], node)
        if summary_id in file_ids:
            changed["file_ids"] = file_ids[summary_id]
        if changed:
            wanted[summary_id] = changed
    return await updates(reader, "summaries", "summary_id", wanted)


def _columns(before: StoredNode, after: StoredNode) -> dict[str, SqlValue]:
    if before == after:
        return {}
    changed: dict[str, SqlValue] = {
        column: getattr(after, name)
        for column, name in _NUMBERS.items()
        if getattr(after, name) != getattr(before, name)
    }
    for column, name in _TIMES.items():
        day = getattr(after, name)
        if day is not None and not math.isnan(day) and day != getattr(before, name):
            changed[column] = iso_z(_EPOCH + timedelta(milliseconds=round((day - _EPOCH_DAY) * 86_400_000)))
    return changed


async def line_edits(reader: Reader, before: Structure, after: Structure) -> list[Edit]:
    """What changed in links and edges."""
    edits: list[Edit] = []
    links = {
        one: (_by_message(before, one), _by_message(after, one))
        for one in {**before.links, **after.links}
        if before.links.get(one) is not after.links.get(one)
    }
    edits += await _lines(reader, "summary_messages", "message_id", links)
    edges = {
        one: (_by_source(before, one), _by_source(after, one))
        for one in {**before.edges, **after.edges}
        if before.edges.get(one) is not after.edges.get(one)
    }
    edits += await _lines(reader, "summary_parents", "parent_summary_id", edges)
    return edits


def _by_message(structure: Structure, summary_id: SummaryId) -> dict[SqlValue, int]:
    links = structure.links.get(summary_id, NO_LINKS)
    return dict(zip(links.message_ids, links.ordinals, strict=True))


def _by_source(structure: Structure, summary_id: SummaryId) -> dict[SqlValue, int]:
    return {edge.source: edge.ordinal for edge in structure.edges.get(summary_id, ())}


async def _lines(
    reader: Reader,
    table: str,
    column: str,
    changed: Mapping[SummaryId, tuple[Mapping[SqlValue, int], Mapping[SqlValue, int]]],
) -> list[Edit]:
    """Links or edges of some summaries: ordinals by what they lead to, before and after."""
    edits: list[Edit] = []
    present = {
        (row["summary_id"], row[column]): row for row in await rows_by(reader, table, "summary_id", changed)
    }
    for summary_id, (old, new) in changed.items():
        gone = [present[summary_id, one] for one in old.keys() - new.keys() if (summary_id, one) in present]
        edits += delete(table, gone)
        for target, ordinal in new.items():
            row = present.get((summary_id, target))
            if row is None:
                held = {"summary_id": summary_id, column: target, "ordinal": ordinal}
                edits.append(insertion(table, Cells.of(held)))
            elif row["ordinal"] != ordinal:
                key = key_of(table, Cells.of(row))
                ordinals = (Cells.of({"ordinal": value}) for value in (row["ordinal"], ordinal))
                edits.append(RowChange(table, key, *ordinals))
    return edits


def items_of(rows: Sequence[StoredRow]) -> list[Cells] | None:
    """The whole items of a context; None when one is such as no schema takes again."""
    return [Cells.of(row) for row in rows] if all(map(_is_sound, rows)) else None


def _is_sound(row: StoredRow) -> bool:
    """Whether an item has a number, and just the reference that its type calls for (A15)."""
    message, summary = row["message_id"], row["summary_id"]
    if not isinstance(row["ordinal"], int):
        return False
    if row["item_type"] == "message":
        return isinstance(message, int) and summary is None
    return row["item_type"] == "summary" and isinstance(summary, str) and message is None
