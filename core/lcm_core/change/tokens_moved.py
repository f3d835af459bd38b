"""How many tokens a change takes out of contexts and puts into them, by the stored estimates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from lcm_core.change.catalog import Catalog
from lcm_core.change.connection import Writer
from lcm_core.change.plan import Edit, Ref, Splice, ref_of

#: What an item stands for, by the table of its row.
_KEYS = {"messages": "message_id", "summaries": "summary_id"}


def tokens_of(writer: Writer, catalog: Catalog, edits: Iterable[Edit], *, entering: bool) -> int:
    """Tokens of what some edits put into contexts, or take out of them; a missing row weighs none.

    What stays there and is counted anew counts as well. To be asked before the edits are applied for what
    leaves, and behind them for what enters.
    """
    moved: Counter[Ref] = Counter()
    anew: dict[str, list[int | str]] = {table: [] for table in _KEYS}
    for edit in edits:
        if isinstance(edit, Splice):
            moved.update(ref_of(row) for row in (edit.inserted if entering else edit.removed))
        elif edit.table in _KEYS and edit.before and edit.after and "token_count" in edit.after:
            ref = edit.key[_KEYS[edit.table]]
            anew[edit.table] += [ref] if isinstance(ref, int | str) else []
    for table, refs in anew.items():
        moved |= Counter(dict(_standing(writer, catalog, table, refs)))
    messages = [ref for ref in moved if isinstance(ref, int)]
    summaries = [ref for ref in moved if isinstance(ref, str)]
    rows = [
        *_weights(writer, catalog, "messages", "message_id", messages),
        *_weights(writer, catalog, "summaries", "summary_id", summaries),
    ]
    return sum(moved[ref] * tokens for ref, tokens in rows)


def _weights(
    writer: Writer, catalog: Catalog, table: str, column: str, refs: Iterable[Ref]
) -> list[tuple[int | str, int]]:
    if not catalog.schema.has(table, "token_count"):
        return []
    sql = f"SELECT {column}, CAST(token_count AS INTEGER) FROM {table} WHERE {column} IN (?*)"
    keys = [ref for ref in refs if isinstance(ref, int | str)]
    return [(row[0], row[1] or 0) for row in writer.rows_in(sql, keys)]


def _standing(
    writer: Writer, catalog: Catalog, table: str, refs: Iterable[int | str]
) -> list[tuple[int | str, int]]:
    """How many items of their conversations' contexts stand for some messages or summaries now."""
    if not catalog.schema.has("context_items"):
        return []
    key = _KEYS[table]
    sql = f"""WITH wanted AS (SELECT {key}, conversation_id FROM {table} WHERE {key} IN (?*))
        SELECT {key}, count(*) FROM context_items WHERE {key} IN (SELECT {key} FROM wanted)
        AND conversation_id IN (SELECT conversation_id FROM wanted) GROUP BY {key}"""
    return [(row[0], row[1]) for row in writer.rows_in(sql, refs)]
