"""What the file's schema holds, as a commit needs it: tables, their columns, and what refers to what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lcm_core.change.connection import Writer
from lcm_core.store.schema import Schema

#: References that the engine keeps without declaring them (docs/format.md, "Tables").
UNDECLARED = (("focus_brief_sources", "summary_id", "summaries", "summary_id"),)


@dataclass(frozen=True, slots=True)
class Reference:
    """A column whose values name rows of another table."""

    table: str
    column: str
    target: str
    target_column: str


@dataclass(frozen=True, slots=True)
class Catalog:
    """The schema of one file."""

    schema: Schema
    references: tuple[Reference, ...]

    @property
    def tables(self) -> Mapping[str, frozenset[str]]:
        """Columns by table; search tables and their shadows have none."""
        return self.schema.tables

    def to(self, table: str) -> tuple[Reference, ...]:
        """What refers to a table."""
        return tuple(one for one in self.references if one.target == table)

    def of(self, table: str) -> tuple[Reference, ...]:
        """What a table refers to."""
        return tuple(one for one in self.references if one.table == table)


def read_catalog(writer: Writer) -> Catalog:
    """Read the schema; the module of a virtual table may be missing, so only its name is read."""
    tables: dict[str, frozenset[str]] = {}
    references: list[Reference] = []
    for name, sql in writer.rows("SELECT name, sql FROM sqlite_master WHERE type = 'table'"):
        tables[name] = frozenset()
        if sql is None or str(sql).upper().startswith("CREATE VIRTUAL"):
            continue
        columns = writer.rows("SELECT name FROM pragma_table_info(?)", (name,))
        tables[name] = frozenset(row[0] for row in columns)
        keys = writer.rows('SELECT "from", "table", "to" FROM pragma_foreign_key_list(?)', (name,))
        references += [Reference(name, row[0], row[1], row[2] or row[0]) for row in keys]
    references += [Reference(*one) for one in UNDECLARED]
    held = (
        one
        for one in references
        if one.column in tables.get(one.table, ()) and one.target_column in tables.get(one.target, ())
    )
    return Catalog(Schema(tables), tuple(held))
