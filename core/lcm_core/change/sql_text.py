"""The SQL that a verified plan stands for: statements that leave the same rows as a commit does.

`script_of` is a whole script (docs/changes.md, "As SQL"): one transaction, search tables too, no parameter
left open. It fits the file as it is now; it checks no structure, and leaves nothing in the history.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Final

from lcm_core.change.plan import (
    CONTEXT,
    Cell,
    Cells,
    Edit,
    Splice,
    Symbol,
    SymbolKind,
    Values,
    substitute,
)
from lcm_core.change.search_index import MESSAGES, SUMMARIES, indexed_text, search_entries, summary_text
from lcm_core.change.verify import Step
from lcm_core.engine_rules import engine_rules
from lcm_core.store.connecting import quoted
from lcm_core.store.schema import Schema


def script_of(steps: Sequence[Step], values: Values, schema: Schema) -> Iterator[str]:
    """Statements that a shell of SQLite runs; *values* of all symbols as things are now."""
    resolved = [replace(step, edit=substitute(step.edit, values)) for step in steps]
    yield "PRAGMA foreign_keys = OFF;"
    yield "BEGIN IMMEDIATE;"
    yield from sql_of(resolved)
    yield from _search([step.edit for step in resolved], schema)
    yield "COMMIT;"


def _search(edits: Iterable[Edit], schema: Schema) -> Iterator[str]:
    """What the search tables have to follow: of a message by its id, of a summary in one scan a table."""
    entries = search_entries(edits)
    if schema.has(MESSAGES):
        gone = {**entries.gone, **dict.fromkeys(entries.come)}
        yield from (f"DELETE FROM {MESSAGES} WHERE rowid = {literal(one)};" for one in gone)
        rules = engine_rules(schema).search
        for message_id, content in entries.come.items():
            text = indexed_text(content, rules)
            if text is not None:
                values = f"{literal(message_id)}, {literal(text)}"
                yield f"INSERT INTO {MESSAGES} (rowid, content) VALUES ({values});"
    summaries = ", ".join(map(literal, {**entries.gone_summaries, **dict.fromkeys(entries.come_summaries)}))
    for table in (name for name in SUMMARIES if summaries and schema.has(name)):
        yield f"DELETE FROM {table} WHERE summary_id IN ({summaries});"
        for summary_id, content in entries.come_summaries.items():
            values = f"{literal(summary_id)}, {literal(summary_text(content))}"
            yield f"INSERT INTO {table} (summary_id, content) VALUES ({values});"


def sql_of(steps: Iterable[Step]) -> Iterator[str]:
    """The rows' statements alone; what nobody knows yet is a parameter such as ``:new_1``.

    Text that a script cannot hold (not valid UTF-8, with a NUL), or that a terminal would obey, stands as the
    bytes it is made of.
    """
    for step in steps:
        edit = step.edit
        if isinstance(edit, Splice):
            yield from _splice(edit, step)
        elif edit.before is None:
            yield _insert(edit.table, edit.row)
        elif edit.after is None:
            yield f"DELETE FROM {quoted(edit.table)} WHERE {_where(edit.key)};"
        else:
            columns = ", ".join(f"{quoted(name)} = {literal(value)}" for name, value in edit.after.values)
            yield f"UPDATE {quoted(edit.table)} SET {columns} WHERE {_where(edit.key, edit.before)};"


def _splice(edit: Splice, step: Step) -> Iterator[str]:
    for row in edit.removed:
        key = Cells.of({"conversation_id": edit.conversation_id, "ordinal": row["ordinal"]})
        ref = row.without("ordinal", "conversation_id", "created_at", "item_type")
        yield f"DELETE FROM {CONTEXT} WHERE {_where(key, ref)};"
    for old, new in step.shifts:
        yield (
            f"UPDATE {CONTEXT} SET ordinal = {new} "
            f"WHERE conversation_id = {literal(edit.conversation_id)} AND ordinal = {old};"
        )
    for row in edit.inserted:
        yield _insert(CONTEXT, row)


def _insert(table: str, row: Cells) -> str:
    own = _GIVEN_IDS.get(table, "")
    new = row.get(own)
    if isinstance(new, Symbol) and new.kind is SymbolKind.ID:
        return f"{_insertion(table, row.without(own))} -- its id is {_parameter(new.name)}"
    return _insertion(table, row)


#: Columns that the database itself fills where a plan leaves them open.
_GIVEN_IDS: Final = {"messages": "message_id", "conversations": "conversation_id"}


def _insertion(table: str, row: Cells) -> str:
    return f"{_beginning(table, row.columns)}{', '.join(map(literal, row.cells))});"


@lru_cache(maxsize=128)
def _beginning(table: str, columns: tuple[str, ...]) -> str:
    return f"INSERT INTO {quoted(table)} ({', '.join(map(quoted, columns))}) VALUES ("


def _where(*cells: Cells) -> str:
    return " AND ".join(
        f"{quoted(name)} IS {literal(value)}" for each in cells for name, value in each.values
    )


def literal(value: Cell) -> str:
    """A value in SQL."""
    match value:
        case str():
            if _UNPRINTABLE.search(value):
                return f"CAST(x'{value.encode('utf-8', 'surrogateescape').hex()}' AS TEXT)"
            return "'" + value.replace("'", "''") + "'"
        case None:
            return "NULL"
        case Symbol():
            return _parameter(value.name)
        case bytes():
            return f"x'{value.hex()}'"
        case float():
            return {float("inf"): "9e999", float("-inf"): "-9e999"}.get(value, repr(value))
        case int():
            return str(value)


#: Controls but tab and newline, characters that turn, hide or join what is around them, and what stands for
#: a byte that is no UTF-8.
_UNPRINTABLE: Final = re.compile(
    "[\0-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]"
)


def _parameter(name: str) -> str:
    return ":" + "".join(letter if letter.isalnum() else "_" for letter in name)
