"""What a file's schema can do, and its values with the types of their columns, whatever is stored."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from operator import itemgetter
from typing import Any, Final, Generic, TypeVar, get_args

from msgspec import NODEFAULT, structs

from lcm_core.base.errors import DatabaseError
from lcm_core.base.values import Record

# -- the schema ------------------------------------------------------------------------------------------
# Its tables and columns (docs/spec/versions.md, "Features").
#
# The engine stores no version number, and an upgraded file differs from a fresh one, so nothing here
# compares versions: a reader requests the columns it wants and gets NULL for those that this file does not
# have.

#: (first tag, table, column or None for the table itself), oldest first (docs/spec/versions.md,
#: "Features").
FEATURES: tuple[tuple[str, str, str | None], ...] = (
    ("0.1.2", "summaries", "earliest_at"),
    ("0.1.2", "summaries", "descendant_count"),
    ("0.3.0", "summaries", "descendant_token_count"),
    ("0.3.0", "summaries", "source_message_token_count"),
    ("0.4.0", "conversations", "session_key"),
    ("0.5.0", "conversation_bootstrap_state", None),
    ("0.5.0", "summaries", "model"),
    ("0.6.0", "conversations", "active"),
    ("0.6.0", "conversations", "archived_at"),
    ("0.7.0", "conversation_compaction_telemetry", None),
    ("0.8.1", "lcm_migration_state", None),
    ("0.9.0", "conversation_compaction_maintenance", None),
    ("0.9.0", "messages", "identity_hash"),
    ("0.9.2", "conversation_compaction_telemetry", "last_observed_prompt_token_count"),
    ("0.10.0", "messages", "large_content"),
    ("0.11.0", "focus_briefs", None),
    ("0.12.0", "conversation_compaction_maintenance", "retry_attempts"),
    ("0.13.0", "messages", "transcript_entry_id"),
    ("0.14.0", "conversations", "archive_cause"),
    ("0.14.0", "large_files", "line_count"),
    ("0.15.2", "messages", "openclaw_sender_metadata"),
    ("0.15.2", "messages", "stable_event_key"),
    ("0.15.3+main", "conversation_compaction_maintenance", "maintenance_revision"),
)

#: Tables by which a file of the 1.x line is recognised.
MARKS_OF_1X = frozenset({"message_transcript_anchor_trust", "pending_compaction_batches"})
#: What the 1.x line added to its first beta, oldest first: (versions that leave such a file, table, column).
FEATURES_OF_1X: tuple[tuple[str, str, str | None], ...] = (
    ("1.0.0 or 1.1.0", "messages", "openclaw_sender_metadata"),
    ("1.1.1 or later", "pending_summary_nodes", "active_ordinal_start"),
    ("1.1.1 or later", "pending_summary_nodes", "active_ordinal_end"),
    ("1.1.1 or later, with transcript cursors", "conversation_transcript_cursors", None),
    ("1.1.1 or later, with transcript cursors", "transcript_user_replay_keys", None),
    ("1.1.1 or later, with transcript cursors and gaps", "conversation_transcript_gaps", None),
)
#: What the 0.x line has and a file that the 1.x line made need not have. An upgraded file keeps it.
NOT_IN_1X = frozenset(
    {
        ("conversation_bootstrap_state", None),
        ("messages", "openclaw_sender_metadata"),
        ("conversation_compaction_maintenance", "maintenance_revision"),
    }
)

#: What every version has: a file that lacks some of it is damaged.
BASE: Mapping[str, tuple[str, ...]] = {
    "conversations": ("conversation_id", "session_id", "created_at", "updated_at"),
    "messages": ("message_id", "conversation_id", "seq", "role", "content", "token_count", "created_at"),
    "summaries": (
        *("summary_id", "conversation_id", "kind", "depth", "content", "token_count"),
        *("created_at", "file_ids"),
    ),
    "summary_messages": ("summary_id", "message_id", "ordinal"),
    "summary_parents": ("summary_id", "parent_summary_id", "ordinal"),
    "context_items": ("conversation_id", "ordinal", "item_type", "message_id", "summary_id"),
    "message_parts": (
        *("part_id", "message_id", "session_id", "part_type", "ordinal", "text_content"),
        *("tool_call_id", "tool_name", "tool_input", "tool_output", "metadata"),
    ),
    "large_files": ("file_id", "conversation_id", "storage_uri"),
}

#: The table of ours that holds the journal of changes; a file that was never changed has none.
JOURNAL = "lcm_tui_operations"
#: Without these the file is not an LCM database.
ESSENTIAL: Mapping[str, frozenset[str]] = {
    "conversations": frozenset({"conversation_id", "session_id"}),
    "messages": frozenset({"message_id", "conversation_id", "seq", "role", "content"}),
}


#: Columns that hold numbers, and those that rows are asked for by; all others hold text.
NUMBERS = frozenset(
    {
        *("active", "byte_size", "covered_message_seq", "depth", "descendant_count"),
        *("descendant_token_count", "fork_bounded", "fork_source_message_count", "line_count", "pending"),
        *("running", "source_message_token_count", "target_tokens", "token_count"),
    }
)
#: Places in a conversation or a context.
PLACES = frozenset({"ordinal", "seq"})
#: Columns of texts that may be long; what another one holds is read up to `LABEL` characters.
BODIES = frozenset(
    {
        *("content", "text_content", "tool_input", "tool_output", "tool_error", "metadata", "file_url"),
        *("exploration_summary", "prompt", "raw_result_json", "openclaw_sender_metadata", "file_ids"),
    }
)
#: No name, role, time or title has more characters, unless somebody means harm: they are shown as a line.
LABEL = 10_000
KEYS = frozenset({"conversation_id", "message_id", "summary_id", "file_id", "brief_id"})


class Schema(Record, frozen=True):
    """The tables of one file and their columns, by name."""

    tables: Mapping[str, frozenset[str]]

    def has(self, table: str, column: str | None = None) -> bool:
        """Whether this file has the table (and, when named, the column)."""
        columns = self.tables.get(table)
        return columns is not None and (column is None or column in columns)

    def select(self, table: str, columns: Iterable[str], alias: str | None = None) -> str:
        """A select list of *columns*, with NULL in place of those that this file does not have.

        Every value but a key and a place has the type of its column, whatever is stored: SQLite keeps what it
        is given, and `lcm_core.store.schema` sees to the rest.
        """
        return ", ".join(self.typed(table, name, f"{alias or table}.{name}") for name in columns)

    def typed(self, table: str, column: str, expression: str) -> str:
        """*expression*, made of a column, under the column's name and with its type; NULL if it is absent."""
        if not self.has(table, column):
            return f"NULL AS {column}"
        if column in KEYS or column in PLACES:
            return f"{expression} AS {column}"
        if column in NUMBERS:
            return f"CAST({expression} AS INTEGER) AS {column}"
        whole = expression if column in BODIES else f"substr({expression}, 1, {LABEL})"
        return f"CAST({whole} AS TEXT) AS {column}"

    @property
    def is_1x(self) -> bool:
        """Whether an engine of the 1.x line has opened this file."""
        return any(table in self.tables for table in MARKS_OF_1X)

    @property
    def version(self) -> str:
        """The engine versions that leave a schema like this one, for people."""
        if self.is_1x:
            later = [tag for tag, table, column in FEATURES_OF_1X if self.has(table, column)]
            return later[-1] if later else "1.0.0-beta"
        tags = list(dict.fromkeys(tag for tag, _, _ in FEATURES))
        present = {tag for tag, table, column in FEATURES if self.has(table, column)}
        if not present:
            return f"before {tags[0]}"
        newest = max(present, key=tags.index)
        following = tags[tags.index(newest) + 1 :]
        return f"{newest} or later, before {following[0]}" if following else f"{newest} or later"

    @property
    def missing(self) -> tuple[str, ...]:
        """What is absent though it is older than the newest feature present, or as old as the engine.

        A migration was not completed, or the file is damaged.
        """
        gone = [table for table in BASE if not self.has(table)]
        base = [(table, column) for table, columns in BASE.items() if table not in gone for column in columns]
        later = self._up_to_newest(FEATURES)
        if self.is_1x:
            later = [one for one in later if one not in NOT_IN_1X] + self._up_to_newest(FEATURES_OF_1X)
        return (
            *gone,
            *(
                table if column is None else f"{table}.{column}"
                for table, column in dict.fromkeys((*base, *later))
                if table not in gone and not self.has(table, column)
            ),
        )

    def _up_to_newest(
        self, features: tuple[tuple[str, str, str | None], ...]
    ) -> list[tuple[str, str | None]]:
        """*features* up to the newest that this file has."""
        held = [at for at, (_, table, column) in enumerate(features) if self.has(table, column)]
        return [(table, column) for _, table, column in features[: held[-1] + 1]] if held else []


#: Every table with its columns; of a virtual one the name alone, for its module may be missing. One
#: statement, for every start and every commit waits for it; of no table (NULL) there are no columns.
LISTING = """SELECT t.name, c.name FROM sqlite_master AS t LEFT JOIN pragma_table_info(
    CASE WHEN t.sql LIKE 'CREATE VIRTUAL%' THEN NULL ELSE t.name END) AS c
    WHERE t.type = 'table'"""


def listed_schema(listed: Iterable[Sequence[Any]]) -> Schema:
    """The schema of a file: *listed* are the rows of `LISTING`."""
    tables: dict[str, set[str]] = {}
    for table, column in listed:
        columns = tables.setdefault(table, set())
        if column is not None:
            columns.add(column)
    return Schema({table: frozenset(columns) for table, columns in tables.items()})


def check_essential(schema: Schema, name: str) -> None:
    """Refuse a database of another program.

    Raises:
        DatabaseError: a table or column without which nothing can be shown is missing.
    """
    if schema.has("lcm_messages") and schema.has("lcm_summary_nodes") and not schema.has("conversations"):
        raise DatabaseError(
            f"{name} is a database of Remnic, not of lossless-claw: "
            "`lcm-tui remnic list --remnic PATH` shows what is in it.",
            code="DATABASE_IS_REMNIC",
        )
    for table, columns in ESSENTIAL.items():
        if not schema.has(table):
            raise DatabaseError(
                f"{name} is a SQLite database but not an LCM one: it has no table '{table}'. "
                "Give the path of the engine's lcm.db with --db.",
                code="DATABASE_NOT_LCM",
            )
        lacking = sorted(columns - schema.tables[table])
        if lacking:
            raise DatabaseError(
                f"{name} is not an LCM database that can be read: its table '{table}' has no column "
                f"'{lacking[0]}'. Give the path of the engine's lcm.db with --db.",
                code="DATABASE_NOT_LCM",
            )


# -- typed values ----------------------------------------------------------------------------------------
# A column of numbers can hold text, bytes, a real or infinity, and one of text can hold bytes. Everything
# that is shown or checked reads through here, so that no other place has to think of it
# (docs/spec/hostile-files.md). What is changed or put back is read as it is stored
# (`lcm_core.store.database.Reader.stored`).

GREATEST: Final = 2**63 - 1
LEAST: Final = -(2**63)
#: The id of no message, for one that is no whole number.
NO_MESSAGE: Final = LEAST // 2

_Kinds = frozenset[type]
_NUMBER: Final[_Kinds] = frozenset({int, type(None)})
_PLACE: Final[_Kinds] = frozenset({int})
_TEXT: Final[_Kinds] = frozenset({str, type(None)})
_NO_BYTES: Final[_Kinds] = frozenset({int, float, str, type(None)})
#: Ids of rows that SQLite counts.
_NUMBER_KEYS: Final = frozenset({"conversation_id", "message_id"})
#: Columns of text by whose values rows are asked for, or that are put together with other text.
_TEXTS: Final = frozenset(
    {
        *("summary_id", "parent_summary_id", "file_id", "brief_id", "part_id", "session_id", "session_key"),
        *("kind", "role", "content", "item_type", "part_type", "status", "created_at", "updated_at"),
        *("latest_at", "earliest_at", "storage_uri", "file_name", "metadata", "tool_name", "tool_call_id"),
    }
)
_LEADING: Final = re.compile(r"\s*([+-]?\d{1,30})")


def number(value: object) -> int | None:
    """A value as SQLite casts it to an integer: what it begins with, 0 without; the nearest if too large."""
    if isinstance(value, float):
        if value != value:  # NaN, which SQLite never stores
            return None
        return int(max(float(LEAST), min(value, 9.2e18))) if abs(value) < 9.2e18 else _limit(value > 0)
    if isinstance(value, bytes):
        value = value[:64].decode("latin-1")
    if isinstance(value, str):
        found = _LEADING.match(value[:64])
        value = int(found[1]) if found else 0
    if isinstance(value, int):
        return max(LEAST, min(value, GREATEST))
    return None


def place(value: object) -> int:
    """A place as a number: -1, which is before all others and which no engine gives, where it is none."""
    return value if isinstance(value, int) else -1


def text(value: object) -> str | None:
    """A value as SQLite casts it to text; bytes that are no UTF-8 as surrogate escapes."""
    if value is None or isinstance(value, str):
        return value
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else str(value)


def number_key(value: object) -> int | None:
    """The id that a value is: one that no row has where it is no whole number, equal for equal values.

    ``12abc`` does not name row 12: SQLite, and so the engine, finds nothing under it.
    """
    if value is None or isinstance(value, int):
        return value
    return NO_MESSAGE - zlib.crc32(repr(value)[:1000].encode("utf-8", "replace"))


def _limit(above: bool) -> int:
    return GREATEST if above else LEAST


def _no_bytes(value: object) -> object:
    return text(value) if isinstance(value, bytes) else value


_Repair = Callable[[object], object]
_PROMISED: Final[Mapping[str, tuple[_Kinds, _Repair]]] = {
    **dict.fromkeys(NUMBERS, (_NUMBER, number)),
    **dict.fromkeys(PLACES, (_PLACE, place)),
    **dict.fromkeys(_NUMBER_KEYS, (_NUMBER, number_key)),
    **dict.fromkeys(_TEXTS, (_TEXT, text)),
}
_OTHER: Final = (_NO_BYTES, _no_bytes)


class _RepairedRow(tuple[Any, ...]):
    """A row of which a value did not fit, as `sqlite3.Row` would have it."""

    names: tuple[str, ...]

    def keys(self) -> list[str]:
        """The names of the columns, in order."""
        return list(self.names)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            try:
                return super().__getitem__(self.names.index(key))
            except ValueError:
                raise IndexError(f"no column {key}") from None
        return super().__getitem__(key)


def typed(rows: list[Any]) -> list[Any]:
    """Rows with every value of the type that its column's name promises, or NULL.

    A column of another name holds a number or text, no bytes. Rows that are as promised stay as they are.
    """
    if not rows:
        return rows
    names = tuple(rows[0].keys())
    wrong = {
        column: repair
        for column, (kinds, repair) in enumerate(_promised(names))
        if not kinds.issuperset(map(type, map(itemgetter(column), rows)))
    }
    return [_repaired(row, names, wrong) for row in rows] if wrong else rows


def columns_of(rows: list[Any]) -> list[Sequence[Any]]:
    """The columns of rows, of which there is one at least, with values as `typed` has them."""
    promised = _promised(tuple(rows[0].keys()))
    return [
        column if kinds.issuperset(map(type, column)) else tuple(map(repair, column))
        for column, (kinds, repair) in zip(zip(*rows, strict=True), promised, strict=True)
    ]


@lru_cache(1_000)  # the names of a statement are the same each time
def _promised(names: tuple[str, ...]) -> tuple[tuple[_Kinds, _Repair], ...]:
    return tuple([_PROMISED.get(name, _OTHER) for name in names])


def _repaired(row: Sequence[object], names: tuple[str, ...], wrong: Mapping[int, _Repair]) -> _RepairedRow:
    repaired = _RepairedRow(wrong[at](value) if at in wrong else value for at, value in enumerate(row))
    repaired.names = names
    return repaired


def parameter(value: object) -> object:
    """A value that SQLite can bind: a whole number beyond 64 bits as a real, which compares as it would."""
    if isinstance(value, int) and not LEAST <= value <= GREATEST:
        return float(value) if abs(value) < 10**300 else float("inf") * (1 if value > 0 else -1)
    return value


# -- rows as records -------------------------------------------------------------------------------------

R = TypeVar("R", bound=Record)


class Columns(Generic[R]):
    """The columns of a table that a record is made of, one for each field.

    A column has the name of its field unless *named* says another; None: the caller gives that field. NULL is
    read as the default of the field, else as 0 or an empty text where the field cannot be None.
    """

    def __init__(
        self,
        table: str,
        record: type[R],
        texts: Callable[[object], str | None] | None = None,
        /,
        **named: str | None,
    ) -> None:
        """*texts*: how a text is read in rows whose values are as they are stored; None: they are `typed`."""
        self.table, self._record, self._texts = table, record, texts
        self._fields = [one for one in record.__struct_fields__ if named.get(one, one) is not None]
        self.names = tuple(named.get(one) or one for one in self._fields)

    def select(self, schema: Schema, alias: str, **instead: str) -> str:
        """A select list (`Schema.select`); *instead*: what is read in the place of a column."""
        names = ((name, instead.get(name, f"{alias}.{name}")) for name in self.names)
        return ", ".join(schema.typed(self.table, name, expression) for name, expression in names)

    def record(self, row: Any, /, **given: object) -> R:
        """The record of a row that has these columns, *given* its other fields."""
        of_row, blanks, reads = self._reading
        values = list(of_row(row))
        for at, blank in blanks:
            if values[at] is None:
                values[at] = blank
        for at, read in reads:
            if values[at] is not None:
                values[at] = read(values[at])
        if not given:
            return self._record(*values)
        return self._record(**dict(zip(self._fields, values, strict=True)), **given)

    @cached_property
    def _reading(self) -> tuple[Callable[[Any], Any], list[tuple[int, object]], list[tuple[int, _Repair]]]:
        """How the values are fetched; by place what NULL is read as, and values that lack their type."""
        infos = {one.name: one for one in structs.fields(self._record)}
        blanks: list[tuple[int, object]] = []
        reads: list[tuple[int, _Repair]] = []
        for at, (name, column) in enumerate(zip(self._fields, self.names, strict=True)):
            held = infos[name].type
            kinds = [getattr(one, "__supertype__", one) for one in get_args(held) or (held,)]
            if infos[name].default not in (NODEFAULT, None):
                blanks.append((at, infos[name].default))
            elif column not in KEYS and type(None) not in kinds:
                blanks.append((at, kinds[0]()))
            if bool in kinds:
                reads.append((at, bool))
            elif int in kinds and (self._texts is not None or column not in NUMBERS | KEYS | PLACES):
                reads.append((at, number))
            elif str in kinds and self._texts is not None:
                reads.append((at, self._texts))
        return itemgetter(*self.names), blanks, reads
