"""Check that what the touched rows refer to is there, and that nothing refers to a row that went.

Asked before and after a change: what is missing after and was not before would break the database. Targets
are looked up by their keys; what refers to a missing one by index where there is one, else in one scan.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import itemgetter

from lcm_core.change.breaks import reference_key
from lcm_core.change.catalog import Catalog, Reference
from lcm_core.change.connection import Writer
from lcm_core.change.plan import Cell, Cells, Delete, Edit, Insert, Renumber, Splice, SqlValue, Symbol, Update
from lcm_core.change.verify import CONTEXT, quoted

#: Values that touched rows name or bear, by the table and column they are keys of.
Named = dict[tuple[str, str], set[SqlValue]]


def named_by(edits: Iterable[Edit], catalog: Catalog) -> Named:
    """Everything that the touched rows refer to, and every key that comes or goes."""
    found: dict[tuple[str, str], set[Cell]] = {}
    alike: dict[tuple[str, tuple[str, ...]], list[tuple[Cell, ...]]] = {}  # a plan has few kinds of rows
    for table, row in _rows(edits):
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


def missing(writer: Writer, catalog: Catalog, named: Named) -> frozenset[str]:
    """Keys of the references among *named* that have no target now."""
    found: set[str] = set()
    for (target, column), values in named.items():
        present = writer.rows_in(
            f"SELECT {quoted(column)} FROM {quoted(target)} WHERE {quoted(column)} IN (?*)", values
        )
        lacking = values - {row[0] for row in present}
        if lacking:
            for reference in catalog.to(target):
                if reference.target_column == column:
                    found.update(_referring(writer, reference, lacking))
    return frozenset(found)


def _referring(writer: Writer, reference: Reference, values: Iterable[SqlValue]) -> Iterator[str]:
    """A key for everything that names one of *values*."""
    owner = (
        "conversation_id" if reference.table == CONTEXT and reference.column != "conversation_id" else "NULL"
    )
    rows = writer.rows_in(
        f"""SELECT DISTINCT {quoted(reference.column)}, {owner} FROM {quoted(reference.table)}
        WHERE {quoted(reference.column)} IN (?*)""",
        values,
    )
    for row in rows:
        yield reference_key(reference.table, reference.column, row[0], row[1])


def _rows(edits: Iterable[Edit]) -> Iterator[tuple[str, Cells]]:
    """Every row that edits touch, as it was and as it gets."""
    for edit in edits:
        match edit:
            case Insert():
                yield edit.table, edit.row
            case Update():
                yield edit.table, Cells.of({**edit.key.as_dict(), **edit.before.as_dict()})
                yield edit.table, Cells.of({**edit.key.as_dict(), **edit.after.as_dict()})
            case Delete():
                yield edit.table, edit.before
            case Splice():
                yield from ((CONTEXT, row) for row in (*edit.removed, *edit.inserted))
            case Renumber():
                pass
