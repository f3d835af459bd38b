"""What the file's schema holds, as a commit needs it: tables, their columns, and what refers to what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lcm_core.change.connection import Writer
from lcm_core.store.schema import LISTING, Schema, listed_schema

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


_REFERRING = """SELECT t.name, f."from", f."table", f."to" FROM sqlite_master AS t
    CROSS JOIN pragma_foreign_key_list(t.name) AS f
    WHERE t.type = 'table' AND t.sql NOT LIKE 'CREATE VIRTUAL%'"""


def read_catalog(writer: Writer) -> Catalog:
    """Read the schema."""
    schema = listed_schema(writer.tuples(LISTING))
    declared = (
        Reference(table, column, target, target_column or column)
        for table, column, target, target_column in writer.tuples(_REFERRING)
    )
    held = (
        one
        for one in (*declared, *(Reference(*one) for one in UNDECLARED))
        if schema.has(one.table, one.column) and schema.has(one.target, one.target_column)
    )
    return Catalog(schema, tuple(held))
