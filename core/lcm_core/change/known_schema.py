"""What of a file's schema we do not know, and whether it refers to a row that a change touches.

A newer engine, or another tool, may keep something beside the rows that we change and rely on it. Such a file
is changed like any other, except where a table or column that we do not know refers to a row that the change
alters or deletes. Source: docs/engine/prepared.md, "Schemas that we do not know".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final

from lcm_core.change.errors import row_name
from lcm_core.change.plan import CONTEXT, KEYS, Cells, RowChange
from lcm_core.change.schema_new import SEARCH_TABLES, TABLES
from lcm_core.change.verify import Verified
from lcm_core.errors import RefusedError
from lcm_core.store.connecting import CHUNK, Rows, SqlValue, quoted, rows_in
from lcm_core.store.schema import Schema

#: What the 1.x line adds, as far as it could be seen.
_LATER: Final[Mapping[str, str]] = {
    "conversation_transcript_cursors": """conversation_id created_at cursor frontier_entry_id frontier_seq
        mode origin updated_at""",
    "conversation_transcript_gaps": """conversation_id detected_at entry_count first_entry_id
        first_visible_seq gap_id last_entry_id last_visible_seq next_message_id prev_message_id source""",
    "conversation_transcript_epochs": """conversation_id created_at frontier_created_at frontier_entry_id
        frontier_seq metadata_json migration_mode session_id session_key updated_at""",
    "message_transcript_anchor_trust": """conversation_id created_at message_id reason source
        transcript_entry_id trust_state updated_at verified_at""",
    "pending_compaction_batches": """batch_id compactable_end_ordinal compactable_start_ordinal
        conversation_id created_at failure_summary model planned_fresh_tail_start_ordinal prompt_version
        published_at session_key session_target_json source_projection_fingerprint status updated_at""",
    "pending_summary_node_children": "child_node_id child_summary_id node_id ordinal",
    "pending_summary_node_messages": "identity_hash message_id node_id ordinal transcript_entry_id",
    "pending_summary_nodes": """active_ordinal_end active_ordinal_start batch_id
        canonical_summary_id content conversation_id created_at depth
        failure_summary kind lease_expires_at lease_owner model next_attempt_after node_id ordinal_end
        ordinal_start promoted_at prompt_version ready_at retry_count source_context_hash source_fingerprint
        status token_count updated_at""",
    "transcript_user_replay_keys": """conversation_id entry_signature idempotency_key transcript_entry_id
        updated_at""",
    "turn_advancements": """admission_entry_id advancement_key committed_at message_count payload_hash
        session_id session_key terminal_entry_id""",
}
_KNOWN: Final[Mapping[str, frozenset[str]]] = {
    **{table.name: frozenset(name for name, _ in table.columns) for table in TABLES},
    **{table: frozenset(columns.split()) for table, columns in _LATER.items()},
}
#: Tables that no engine makes, and the search tables with their shadows.
_BESIDE: Final = ("lcm_tui_", "sqlite_", *(table.name for table in SEARCH_TABLES))
#: The column that names a row, and the first table that has it as its whole key.
_KEY_COLUMNS: Final[Mapping[str, str]] = {
    key[0]: table for table, key in reversed(list(KEYS.items())) if len(key) == 1
}

_allowed: ContextVar[bool] = ContextVar("unknown schemas may be written", default=False)


def allow_unknown_schema(allowed: bool) -> None:
    """The operator's word, for everything that this context starts from here on."""
    _allowed.set(allowed)


@contextmanager
def unknown_schema_allowed() -> Iterator[None]:
    """The operator's word, for a while."""
    token = _allowed.set(True)
    try:
        yield
    finally:
        _allowed.reset(token)


def unknown_parts(schema: Schema) -> tuple[str, ...]:
    """Columns (``table.column``) that no known engine makes, and tables with a key's column, by name."""
    found = []
    for table, columns in _unknown(schema):
        if table in _KNOWN:
            found += [f"{table}.{column}" for column in columns]
        elif any(_key_named(column) for column in columns):
            found.append(table)
    return tuple(found)


def _unknown(schema: Schema) -> Iterator[tuple[str, list[str]]]:
    """Tables with the columns in them that we do not know, by name; of an unknown table all of them."""
    for table, columns in sorted(schema.tables.items()):
        unknown = sorted(columns - _KNOWN.get(table, frozenset()))
        if unknown and not table.startswith(_BESIDE):
            yield table, unknown


@dataclass(frozen=True, slots=True)
class _Reference:
    """Columns that we do not know, whose values name a row of a table that we know."""

    table: str
    columns: tuple[str, ...]
    target: str
    target_columns: tuple[str, ...]

    @property
    def name(self) -> str:
        """The table and the columns, for people."""
        return f"{self.table}.{', '.join(self.columns)}"


def check_unknown(db: Rows, schema: Schema, verified: Verified) -> None:
    """Refuse a change of rows to which something refers that we do not know.

    Raises:
        RefusedError: there is such a row, and the operator did not allow to change it.
    """
    unknown = () if _allowed.get() else tuple(_unknown(schema))
    for table, columns in unknown:
        for reference in _references(db, schema, table, columns):
            rows = _altered(db, verified, reference)
            if (values := _first_referred(db, reference, rows)) is not None:
                change, key = rows[values]
                raise RefusedError(
                    f"This change {change} {row_name(reference.target, key)}, and {reference.name}, which "
                    "lcm-tui does not know, refers to that row: a newer engine or another tool may rely on "
                    "it. To change it anyway, make a backup and give --allow-unknown-schema (or set "
                    "write_unknown_schema = true in config.toml). Nothing was changed.",
                    code="SCHEMA_UNKNOWN",
                    details={"unknown": reference.name},
                )


def _references(db: Rows, schema: Schema, table: str, columns: list[str]) -> Iterator[_Reference]:
    """What the unknown *columns* of a table refer to: as declared, else by the names of keys."""
    declared: dict[int, list[tuple[str, str, str | None]]] = {}
    sql = f'SELECT id, "from", "table", "to" FROM pragma_foreign_key_list({_literal(table)}) ORDER BY id, seq'
    for number, column, target, target_column in db.tuples(sql):
        declared.setdefault(number, []).append((column, target, target_column))
    names = {known.casefold(): known for known in _KNOWN if schema.has(known)}
    for pairs in declared.values():
        target = names.get(pairs[0][1].casefold())
        if target is not None and any(column in columns for column, _, _ in pairs):
            targets = [column for _, _, column in pairs]
            whole = KEYS.get(target, ()) if None in targets else tuple(one for one in targets if one)
            yield _Reference(table, tuple(column for column, _, _ in pairs), target, whole)
    for column in columns:
        key = _key_named(column)
        if key is not None and schema.has(_KEY_COLUMNS[key], key):
            yield _Reference(table, (column,), _KEY_COLUMNS[key], (key,))
        elif "ordinal" in column.casefold().split("_") and schema.has(table, "conversation_id"):
            yield _Reference(table, ("conversation_id", column), CONTEXT, ("conversation_id", "ordinal"))


def _key_named(column: str) -> str | None:
    """The key that a column is named after: ``message_id``, also as ``source_message_id``."""
    name = column.casefold()
    return next((key for key in _KEY_COLUMNS if name == key or name.endswith(f"_{key}")), None)


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


#: What becomes of each row that a plan alters or deletes, and its key, by the values that refer to it.
_Altered = dict[tuple[SqlValue, ...], tuple[str, Cells]]


def _altered(db: Rows, verified: Verified, reference: _Reference) -> _Altered:
    found: _Altered = {}
    for edit in verified.edits:
        if isinstance(edit, RowChange) and edit.table == reference.target and edit.before is not None:
            values = _values(db, edit, reference.target_columns)
            found[values] = ("deletes" if edit.after is None else "alters", edit.key)
    if reference.target == CONTEXT and set(reference.target_columns) == set(KEYS[CONTEXT]):
        found |= _altered_places(verified, reference.target_columns)
    return found


def _values(db: Rows, edit: RowChange, columns: tuple[str, ...]) -> tuple[SqlValue, ...]:
    """The values of a row's *columns* as they are before the change."""
    held = {**edit.key.as_dict(), **(edit.before.as_dict() if edit.before else {})}
    if any(column not in held for column in columns):
        keys = " AND ".join(f"{quoted(name)} IS ?" for name in edit.key.columns)
        sql = f"SELECT {', '.join(map(quoted, columns))} FROM {quoted(edit.table)} WHERE {keys}"
        rows = db.tuples(sql, [_plain(value) for value in edit.key.cells])
        held |= dict(zip(columns, rows[0], strict=True)) if rows else {}
    return tuple(_plain(held.get(column)) for column in columns)


def _plain(value: object) -> SqlValue:
    return value if isinstance(value, int | float | str | bytes) else None


def _altered_places(verified: Verified, columns: tuple[str, ...]) -> _Altered:
    """The places of contexts at which something else is afterwards, or nothing."""
    found: _Altered = {}
    for owner, change in verified.contexts.items():
        after = dict(zip(change.after.ordinals, change.after.rows, strict=True))
        for ordinal, row in zip(change.before.ordinals, change.before.rows, strict=True):
            if isinstance(owner, int) and (ordinal not in after or after[ordinal] != row):
                place: dict[str, SqlValue] = {"conversation_id": owner, "ordinal": ordinal}
                values = tuple(place[column] for column in columns)
                found[values] = ("moves or removes", Cells.of(dict(place)))
    return found


def _first_referred(
    db: Rows, reference: _Reference, rows: Iterable[tuple[SqlValue, ...]]
) -> tuple[SqlValue, ...] | None:
    """The first of the values of *rows* that the table of the reference holds."""
    wanted = {values for values in rows if None not in values}
    first = {values[0] for values in wanted}
    if not wanted:
        return None
    sql = f"SELECT DISTINCT {', '.join(map(quoted, reference.columns))} FROM {quoted(reference.table)}"
    where = f" WHERE {quoted(reference.columns[0])} IN (?*)"
    # So many keys are looked for among what the table holds, not one chunk of them after the other.
    held = rows_in(db, sql + where, first) if len(first) <= CHUNK else db.rows(sql)
    return next((tuple(row) for row in held if tuple(row) in wanted), None)
