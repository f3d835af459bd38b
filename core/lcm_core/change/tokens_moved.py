"""How many tokens a change takes out of contexts and puts into them, by the stored estimates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from lcm_core.change.catalog import Catalog
from lcm_core.change.connection import Writer
from lcm_core.change.plan import Edit, Ref, Splice, ref_of


def tokens_of(writer: Writer, catalog: Catalog, edits: Iterable[Edit], *, entering: bool) -> int:
    """Tokens of what some edits put into contexts, or take out of them; a missing row weighs none."""
    moved: Counter[Ref] = Counter()
    for edit in edits:
        if isinstance(edit, Splice):
            moved.update(ref_of(row) for row in (edit.inserted if entering else edit.removed))
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
