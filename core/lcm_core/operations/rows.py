"""What several operations make of whole rows: edits, items of a context, and the warning about a budget."""

from __future__ import annotations

import json
import secrets
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TypeVar

from lcm_core.base.errors import NotFoundError, RefusedError
from lcm_core.base.records import ConversationId, SummaryId
from lcm_core.base.times import sql_utc
from lcm_core.change.place import Listing
from lcm_core.change.plan import Cell, Cells, Edit, Owner, Ref, RowChange, deletion, key_of, ref_of
from lcm_core.store.context import stored_tokens
from lcm_core.store.database import Reader
from lcm_core.store.opening import SqlValue
from lcm_core.store.rows import StoredRow, columns_by
from lcm_core.store.state import PreparedBatch
from lcm_core.store.summaries import edges_of

T = TypeVar("T")


def new_summary_id() -> str:
    """An id of the engine's form (docs/spec/format.md, "Identifiers")."""
    return f"sum_{secrets.token_hex(8)}"


def pages(ids: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Some ids, *size* at a time."""
    return (ids[start : start + size] for start in range(0, len(ids), size))


def delete(table: str, rows: Iterable[StoredRow]) -> list[Edit]:
    """The deletion of whole rows."""
    return [deletion(table, Cells.of(row)) for row in rows]


def forget(table: str, column: str, rows: Iterable[StoredRow]) -> list[Edit]:
    """The rows without what a column names: what it named goes."""
    found = (Cells.of(row) for row in rows)
    return [
        RowChange(table, key_of(table, row), Cells.of({column: row[column]}), Cells.of({column: None}))
        for row in found
    ]


def update(table: str, row: Mapping[str, Cell], wanted: Mapping[str, Cell]) -> RowChange:
    """Other values in a row, which holds its key: those of columns that it has and that differ."""
    after = {name: value for name, value in wanted.items() if name in row and row[name] != value}
    before = {name: row[name] for name in after}
    return RowChange(table, key_of(table, Cells.of(row)), Cells.of(before), Cells.of(after))


async def updates(
    reader: Reader, table: str, key: str, wanted: Mapping[SqlValue, Mapping[str, SqlValue]]
) -> list[Edit]:
    """Other values for some columns of rows that are there; what they hold already is no change."""
    columns = list(dict.fromkeys(name for values in wanted.values() for name in values))
    rows = await columns_by(reader, table, key, wanted, columns)
    edits: list[Edit] = []
    for value, after in wanted.items():
        held = rows.get(value, {})
        changed = {
            name: new
            for name, new in after.items()
            if name in held and not (held[name] == new and type(held[name]) is type(new))
        }
        if changed:
            before = Cells.of({name: held[name] for name in changed})
            edits.append(RowChange(table, Cells.of({key: value}), before, Cells.of(changed)))
    return edits


def context_item(conversation_id: Owner, ref: Ref, stamp: str) -> Cells:
    """A new item of a context, without its ordinal: a summary by its id, or a message by its number."""
    is_summary = isinstance(ref, str)
    return Cells.of(
        {
            "conversation_id": conversation_id,
            "item_type": "summary" if is_summary else "message",
            "message_id": None if is_summary else ref,
            "summary_id": ref if is_summary else None,
            "created_at": stamp,
        }
    )


def in_context_order(rows: Iterable[StoredRow]) -> list[Cells]:
    """Rows of ``context_items`` by ordinal."""
    return sorted(map(Cells.of, rows), key=_ordinal)


def listing_of(rows: Iterable[Cells]) -> Listing:
    """Rows of ``context_items`` in order, as the list that a plan is made on."""
    return Listing.of((_ordinal(row), ref_of(row)) for row in rows)


def _ordinal(row: Cells) -> int:
    ordinal = row["ordinal"]
    return ordinal if isinstance(ordinal, int) else -1


def recorded_files(file_ids: object) -> list[str]:
    """The ids in a ``summaries.file_ids``; none when it cannot be read."""
    try:
        recorded = json.loads(str(file_ids))
    except (ValueError, RecursionError):
        return []
    return [one for one in recorded if isinstance(one, str)] if isinstance(recorded, list) else []


def no_such_summary(conversation_id: ConversationId, summary_id: SummaryId) -> NotFoundError:
    """The error of an operation on a summary that is not in its conversation."""
    return NotFoundError(
        f"Conversation {conversation_id} has no summary {summary_id}.",
        code="SUMMARY_NOT_FOUND",
        details={"summaryId": summary_id},
    )


async def sources_of(reader: Reader, consumers: Collection[SummaryId]) -> dict[SummaryId, list[SummaryId]]:
    """The sources of some summaries in order of condensation; those without any are left out."""
    found: dict[SummaryId, list[SummaryId]] = {}
    for edge in await edges_of(reader, consumers):
        found.setdefault(edge.consumer, []).append(edge.source)
    return found


async def over_budget(
    reader: Reader, refs: Iterable[Ref], budget: int | None, *, added: int = 0, more: str = ""
) -> list[str]:
    """A warning when a context of *refs*, and *added* tokens, would not fit; nothing without a *budget*."""
    if budget is None:
        return []
    total = added + await stored_tokens(reader, refs)
    if total <= budget:
        return []
    return [
        f"The context would have {total:,} tokens and exceed the budget of {budget:,}: the engine would "
        f"leave out the oldest items{more}"
    ]


# -- what a 1.x engine has prepared of rows that are deleted (docs/spec/prepared.md) ----------------------


def refuse_active(batches: Iterable[PreparedBatch], what: str, instead: str = "") -> None:
    """Check that the engine works on none of some batches; *what* cannot be done else ("... cannot ...").

    On that of an archived conversation it works as long as a lease runs, and no longer. *instead*: what else
    makes it possible.

    Raises:
        RefusedError: it does.
    """
    now = datetime.now(UTC)
    for batch in batches:
        if not batch.active:
            continue
        advice = f"Let the host run until it has published or discarded the batch, then try again{instead}"
        until = batch.lease_end
        if batch.archived:
            if until is None or until <= now:
                continue
            advice = f"The conversation is archived, so try again when its lease ends: {sql_utc(until)} UTC"
        elif until is not None and until <= now:
            advice = (
                f"Its lease expired at {sql_utc(until)} UTC: the worker died, and waiting is no use. "
                f"Start the host, which takes the batch up again{instead}"
            )
        raise RefusedError(
            f"{what[0].upper()}{what[1:]}: the engine is preparing a compaction with it "
            f"(batch {batch.batch_id}, {batch.status}). {advice}. Nothing was changed.",
            code="BATCH_ACTIVE",
        )


def delete_ended(batches: Sequence[PreparedBatch], what: str) -> list[Edit]:
    """The deletion of ended batches, each row before every row that it refers to; undo brings them back.

    Raises:
        RefusedError: the engine works on one of them; *what* as for `refuse_active`.
    """
    refuse_active(batches, what)
    return [edit for batch in batches for table, row in batch.rows for edit in delete(table, [row])]
