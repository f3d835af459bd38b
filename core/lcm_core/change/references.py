"""Check that what the touched rows refer to is there, and that nothing refers to a row that went.

What is missing after a change and was not before would break the database. Both are asked of the database
before it: what follows is counted. Targets are looked up by their keys; what refers to a missing one by index
where there is one, else in one scan.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter

from lcm_core.change.breaks import reference_key
from lcm_core.change.catalog import Catalog, Reference
from lcm_core.change.connection import Writer
from lcm_core.change.plan import CONTEXT, Cell, Cells, Edit, SqlValue, Symbol, touched_rows
from lcm_core.change.verify import quoted

#: Values that touched rows name or bear, by the table and column they are keys of.
Named = dict[tuple[str, str], set[SqlValue]]


def named_by(edits: Iterable[Edit], catalog: Catalog) -> Named:
    """Everything that the touched rows refer to, and every key that comes or goes."""
    found: dict[tuple[str, str], set[Cell]] = {}
    alike: dict[tuple[str, tuple[str, ...]], list[tuple[Cell, ...]]] = {}  # a plan has few kinds of rows
    for table, _, row in (one for edit in edits for one in touched_rows(edit)):
        alike.setdefault((table, row.columns), []).append(row.cells)
    for (table, columns), rows in alike.items():
        naming = [(reference, reference.column) for reference in catalog.of(table)]
        naming += ((reference, reference.target_column) for reference in catalog.to(table))
        for reference, column in naming:
            if column in columns:
                values = map(itemgetter(columns.index(column)), rows)
                found.setdefault((reference.target, reference.target_column), set()).update(values)
    return {
        key: {one for one in values if one is not None and not isinstance(one, Symbol)}
        for key, values in found.items()
    }


@dataclass(frozen=True, slots=True)
class Missing:
    """Keys of the references without a target, among those that edits touch."""

    before: frozenset[str]
    after: frozenset[str]


def missing(writer: Writer, catalog: Catalog, edits: Sequence[Edit]) -> Missing:
    """What lacks its target in the database as it is, and what will behind resolved *edits*.

    Rows are counted: those that are there, less those that the edits take away, and those that they make.
    """
    change = _Change.of(edits)
    before: set[str] = set()
    after: set[str] = set()
    for (target, column), values in named_by(edits, catalog).items():
        rows = writer.rows_in(
            f"SELECT {quoted(column)} FROM {quoted(target)} WHERE {quoted(column)} IN (?*)", values
        )
        there: Counter[SqlValue] = Counter(row[0] for row in rows)
        then = there + Counter()
        then.update(change.of_column(target, column))
        lacking = {one for one in values if there[one] <= 0}
        lacking_then = {one for one in values if then[one] <= 0}
        if lacking or lacking_then:
            for reference in catalog.to(target):
                if reference.target_column == column:
                    now, later = _referring(writer, reference, lacking | lacking_then, change)
                    before.update(key for value, key in now if value in lacking)
                    after.update(key for value, key in later if value in lacking_then)
    return Missing(frozenset(before), frozenset(after))


#: A value that is referred to, and the key of the reference.
_Referring = set[tuple[SqlValue, str]]


def _referring(
    writer: Writer, reference: Reference, values: Iterable[SqlValue], change: _Change
) -> tuple[_Referring, _Referring]:
    """What names one of *values*, before the change and behind it."""
    wanted = set(values)
    owner = None
    if reference.table == CONTEXT and reference.column != "conversation_id":
        owner = "conversation_id"
    rows = writer.rows_in(
        f"""SELECT {quoted(reference.column)}, {owner or "NULL"}, count(*) FROM {quoted(reference.table)}
        WHERE {quoted(reference.column)} IN (?*) GROUP BY 1, 2""",
        wanted,
    )
    now: Counter[tuple[SqlValue, SqlValue]] = Counter()
    for value, of, count in rows:
        now[value, of] += count
    later = Counter(now)
    for (value, of), count in change.of_reference(reference.table, reference.column, owner).items():
        if value in wanted:
            later[value, of] += count
    return _keys(reference, now), _keys(reference, later)


def _keys(reference: Reference, counts: Mapping[tuple[SqlValue, SqlValue], int]) -> _Referring:
    return {
        (value, reference_key(reference.table, reference.column, value, of if isinstance(of, int) else None))
        for (value, of), count in counts.items()
        if count > 0
    }


@dataclass(frozen=True, slots=True)
class _Change:
    """Rows that come (1) and go (-1), by table: only the columns that an edit knows."""

    rows: Mapping[str, Sequence[tuple[int, Cells]]]

    @classmethod
    def of(cls, edits: Iterable[Edit]) -> _Change:
        found: dict[str, list[tuple[int, Cells]]] = {}
        for table, comes, row in (one for edit in edits for one in touched_rows(edit)):
            found.setdefault(table, []).append((1 if comes else -1, row))
        return cls(found)

    def of_column(self, table: str, column: str) -> Counter[SqlValue]:
        """By how many rows a column's values grow or shrink."""
        found: Counter[SqlValue] = Counter()
        for sign, row in self.rows.get(table, ()):
            if column in row.columns:
                found[_known(row[column])] += sign
        return found

    def of_reference(self, table: str, column: str, owner: str | None) -> Counter[tuple[SqlValue, SqlValue]]:
        """The same with the conversation beside it, where *owner* names its column."""
        found: Counter[tuple[SqlValue, SqlValue]] = Counter()
        for sign, row in self.rows.get(table, ()):
            if column in row.columns:
                found[_known(row[column]), _known(row.get(owner)) if owner else None] += sign
        return found


def _known(cell: Cell) -> SqlValue:
    return None if isinstance(cell, Symbol) else cell
