"""What is around the rows of a plan, copied into memory: there a change is tried before it is made.

The structural checks of a commit ask the database before a change and after it. So that the lock is held for
the writing alone, "after" is asked of a copy: the rows that the checks can reach from those that the edits
touch, up and down the DAG, with the few columns that they look at. The same SQL runs on both; a declared type
converts values as it does in the file (docs/changes.md, "Checked before the lock").

What is loaded, for edits that name the summaries S and the messages M:

- D: S and all below, with the edges to their sources (both ends of an edge that the edits make are in S);
- the links of S to messages, and of D those that can matter: of leaves that a message was summarised in which
  is in a spliced context, and of summaries that have sources of both kinds. Nearly all messages below a
  summary are in no context any more, and there is no end to them;
- what else was made from the sources of what may be read twice (`concerned`): those lines and summaries;
- U: S, what was made from M, those others, and all above; the edges between them;
- the rows of U and of the sources of S and of what may be read twice, and of the messages that M or a line of
  S names;
- of the contexts of all their conversations: the summaries, and the items of M;
- all focus briefs of a conversation of which the edits touch one.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from lcm_core.change.apply import ResolvedEdits, statement, writes_alike
from lcm_core.change.catalog import Catalog
from lcm_core.change.connection import Writer
from lcm_core.change.place import Listing
from lcm_core.change.plan import (
    CONTEXT,
    Cells,
    Edit,
    Owner,
    Ref,
    RowChange,
    Splice,
    Values,
    ref_of,
    touched_rows,
    value_of,
)
from lcm_core.change.structure import BRIEFS, concerned, findings, missing_targets
from lcm_core.change.verify import Verified
from lcm_core.store.connecting import CHUNK, Rows, SqlValue, quoted, rows_in
from lcm_core.store.opening import connect_memory
from lcm_core.store.schema import Schema
from lcm_core.store.walks import LINKS_PER_SUMMARY, Walks

_COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "summaries": ("summary_id", "conversation_id", "kind", "depth", "created_at", "token_count"),
    "messages": ("message_id", "conversation_id", "token_count"),
    "summary_messages": ("summary_id", "message_id"),
    "summary_parents": ("summary_id", "parent_summary_id"),
    "context_items": ("conversation_id", "message_id", "summary_id"),
    BRIEFS: ("brief_id", "conversation_id", "status"),
}
#: What is looked up in the copy by itself.
_INDEXED: Final[Mapping[str, tuple[str, ...]]] = {
    "summaries": ("summary_id",),
    "messages": ("message_id",),
    "summary_messages": ("summary_id", "message_id"),
    "summary_parents": ("summary_id", "parent_summary_id"),
    "context_items": ("conversation_id", "summary_id", "message_id"),
    BRIEFS: ("brief_id",),
}
_LINES: Final = ("summary_messages", "summary_parents")


@dataclass(frozen=True, slots=True)
class Tried:
    """What is wrong around the touched rows before a change and after it."""

    before: frozenset[str]
    after: frozenset[str]
    tokens: int  #: by how much the stored estimates of the contexts grow

    def broken(self, allowed: Collection[str]) -> frozenset[str]:
        """Keys of what it would leave behind that was not there, but for those that are *allowed*."""
        new = self.after.difference(self.before, allowed)
        return frozenset(key for key in new if not _was_read_twice(key, self.before))


def _was_read_twice(key: str, before: frozenset[str]) -> bool:
    """Whether what is read twice was read twice before: raw (A6), or beside its consumer (A7)."""
    check, _, rest = key.partition(":")
    earlier = {"B14": "A7", "B15": "A6"}.get(check)
    return earlier is not None and f"{earlier}:{rest}" in before


def try_change(writer: Writer, catalog: Catalog, verified: Verified, resolved: ResolvedEdits) -> Tried:
    """Make the change in a copy of what is around it, and ask the same before and after."""
    edits = resolved.edits
    lacking = missing_targets(writer, catalog, edits)
    with surroundings(writer, catalog, edits) as copy:
        lists = {owner: context.before for owner, context in verified.contexts.items()}
        before = findings(copy.memory, catalog, edits, lists)
        leaving = moved_tokens(copy.memory, catalog, edits, entering=False)
        copy.apply(edits)
        after = findings(copy.memory, catalog, edits, lists_after(verified, resolved.values))
        entering = moved_tokens(copy.memory, catalog, edits, entering=True)
    return Tried(before | lacking.before, after | lacking.after, entering - leaving)


def lists_after(verified: Verified, values: Values) -> dict[Owner, Listing]:
    """The lists behind the change, with real ids."""
    found: dict[Owner, Listing] = {}
    for owner, context in verified.contexts.items():
        known = owner if isinstance(owner, int) else values.get(owner.name)
        if isinstance(known, int):
            found[known] = context.after.filled(values)
    return found


# -- the copy --------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Named:
    """What edits name: keys of summaries and messages, conversations, and lines that they make."""

    summaries: set[str] = field(default_factory=set)
    messages: set[int] = field(default_factory=set)
    owners: set[int] = field(default_factory=set)
    briefs: set[str] = field(default_factory=set)
    of_briefs: set[int] = field(default_factory=set)  #: conversations that get or lose a brief
    sources: dict[str, set[str]] = field(default_factory=dict)  #: of new edges, by consumer
    linked: dict[str, set[int]] = field(default_factory=dict)  #: messages of new links, by leaf

    @classmethod
    def by(cls, edits: Iterable[Edit]) -> Named:
        """What some resolved edits name."""
        found = cls()
        for edit in edits:
            for table, made, row in touched_rows(edit):
                if table == BRIEFS:
                    found._take_brief(row)
                elif table in _COLUMNS:
                    found._take(row)
                if made and table in _LINES:
                    found._join(row)
        return found

    def _take(self, row: Cells) -> None:
        for column in ("summary_id", "parent_summary_id"):
            if column in row and isinstance(one := row[column], str):
                self.summaries.add(one)
        if isinstance(message := row.get("message_id"), int):
            self.messages.add(message)
        if isinstance(owner := row.get("conversation_id"), int):
            self.owners.add(owner)

    def _take_brief(self, row: Cells) -> None:
        if isinstance(brief := row.get("brief_id"), str):
            self.briefs.add(brief)
        if isinstance(owner := row.get("conversation_id"), int):
            self.of_briefs.add(owner)

    def _join(self, row: Cells) -> None:
        consumer, source, message = (
            row.get(name) for name in ("summary_id", "parent_summary_id", "message_id")
        )
        if isinstance(consumer, str) and isinstance(source, str):
            self.sources.setdefault(consumer, set()).add(source)
        if isinstance(consumer, str) and isinstance(message, int):
            self.linked.setdefault(consumer, set()).add(message)


@contextlib.contextmanager
def surroundings(writer: Writer, catalog: Catalog, edits: tuple[Edit, ...]) -> Iterator[MemoryCopy]:
    """A copy in memory of what is around the rows of resolved *edits*, as *writer* sees it now."""
    with contextlib.closing(connect_memory()) as connection:
        connection.row_factory = sqlite3.Row
        memory = Writer(connection, 0.0)
        memory.execute("BEGIN")
        held = {
            table: tuple([name for name in columns if catalog.schema.has(table, name)])
            for table, columns in _COLUMNS.items()
        }
        copy = MemoryCopy(memory, {table: columns for table, columns in held.items() if columns})
        copy.make(writer)
        _Loading(writer, catalog, copy, edits).load()
        yield copy


@dataclass(frozen=True, slots=True)
class MemoryCopy:
    """The copy: asked like the file itself."""

    memory: Writer
    columns: Mapping[str, tuple[str, ...]]  #: that it has, by table

    def make(self, writer: Writer) -> None:
        """Make the tables; a type as declared converts values as it does there."""
        for table, columns in self.columns.items():
            asked = writer.rows("SELECT name, type FROM pragma_table_info(?)", (table,))
            types = {row[0]: row[1] for row in asked}
            declared = ", ".join(f"{quoted(name)} {_affinity(types.get(name))}" for name in columns)
            self.memory.execute(f"CREATE TABLE {table} ({declared})")
            for name in _INDEXED[table]:
                if name in columns:
                    self.memory.execute(f"CREATE INDEX {table}_{name} ON {table} ({name})")

    def take(self, table: str, rows: Iterable[tuple[SqlValue, ...]]) -> None:
        """Rows of the file, each with its rowid in front; a row that is there already stays one."""
        columns = self.columns[table]
        marks = ", ".join("?" * (len(columns) + 1))
        sql = f"INSERT OR IGNORE INTO {table} (rowid, {', '.join(columns)}) VALUES ({marks})"
        self._write(table, sql, rows)

    def apply(self, edits: Iterable[Edit]) -> None:
        """What the edits do to these tables; ordinals are no matter here."""
        table = sql = ""
        gathered: list[tuple[SqlValue, ...]] = []
        for row_table, row_sql, row in (one for edit in edits for one in self._rows(edit)):
            if row_sql != sql or len(gathered) >= CHUNK:
                self._write(table, sql, gathered)
                table, sql, gathered = row_table, row_sql, []
            gathered.append(row)
        self._write(table, sql, gathered)

    def _write(self, table: str, sql: str, rows: Iterable[tuple[SqlValue, ...]]) -> None:
        for one in writes_alike(table, sql, rows):
            self.memory.execute_many(one.sql, one.rows)

    def _rows(self, edit: Edit) -> Iterator[tuple[str, str, tuple[SqlValue, ...]]]:
        table = CONTEXT if isinstance(edit, Splice) else edit.table
        if table not in self.columns:
            return
        if isinstance(edit, RowChange):
            after = edit.after and self._held(table, edit.after)
            if after is None or after.columns:
                sql, cells = statement(table, edit.key, edit.before, after)
                yield table, sql, tuple(map(value_of, cells))
            return
        for row in edit.removed:
            yield table, self._one_item(), tuple(value_of(row.get(name)) for name in self.columns[table])
        for row in edit.inserted:
            sql, cells = statement(table, row, None, self._held(table, row))
            yield table, sql, tuple(map(value_of, cells))

    def _held(self, table: str, row: Cells) -> Cells:
        """What the copy has of a row."""
        columns, places = _held(self.columns[table], row.columns)
        return Cells(columns, tuple([row.cells[place] for place in places]))

    def _one_item(self) -> str:
        where = " AND ".join(f"{name} IS ?" for name in self.columns["context_items"])
        one = f"SELECT rowid FROM context_items WHERE {where} LIMIT 1"
        return f"DELETE FROM context_items WHERE rowid = ({one})"


def _affinity(declared: object) -> str:
    """What a declared type makes of the values of its column (SQLite, "Determination Of Column Affinity")."""
    text = str(declared or "").upper()
    for parts, affinity in _AFFINITIES:
        if any(part in text for part in parts):
            return affinity
    return "NUMERIC" if text else "BLOB"


_AFFINITIES: Final = (
    (("INT",), "INTEGER"),
    (("CHAR", "CLOB", "TEXT"), "TEXT"),
    (("BLOB",), "BLOB"),
    (("REAL", "FLOA", "DOUB"), "REAL"),
)


@lru_cache(maxsize=64)
def _held(held: tuple[str, ...], given: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """The columns that a copy holds of a row with some columns, and where in it they are."""
    names = tuple([name for name in given if name in held])
    return names, tuple([given.index(name) for name in names])


class _Loading:
    """Reads the rows, walk by walk; every question is one of many keys and of an index."""

    def __init__(self, writer: Writer, catalog: Catalog, copy: MemoryCopy, edits: tuple[Edit, ...]) -> None:
        self._writer = writer
        self._catalog = catalog
        self._copy = copy
        self._edits = edits
        self._named = Named.by(edits)
        self._messages: set[int] = set(self._named.messages)
        self._owners: set[int] = set(self._named.owners)

    def load(self) -> None:
        named = self._named
        below = self._walk(named.summaries, "summary_id", "parent_summary_id")
        self._messages |= {message for _, message in self._links("summary_id", named.summaries)}
        others, sources = self._beside()
        made = {leaf for leaf, _ in self._links("message_id", named.messages)}
        self._links_below(below - named.summaries, made)
        above = self._walk(named.summaries | made | others, "parent_summary_id", "summary_id")
        sources |= {source for _, source in self._edges("summary_id", named.summaries)}
        self._summaries(above | sources)
        self._take("messages", "message_id", self._messages)
        self._contexts()
        self._briefs()

    def _briefs(self) -> None:
        rows = self._take(BRIEFS, "brief_id", self._named.briefs)
        owners = {owner for row in rows if isinstance(owner := row[2], int)}
        self._take(BRIEFS, "conversation_id", owners | self._named.of_briefs)

    def _links_below(self, below: set[str], made: set[str]) -> None:
        """Of summaries under those that are named, the links that show what of it is in a context.

        Asked from the smaller side: of all of them, or of what is in the spliced contexts. *made* are the
        leaves of messages that are named. A leaf without a link in the copy covers nothing that is
        anywhere, as one that has links to other messages alone; so a leaf is copied whole or not at all, and
        a summary that has edges too, which would hide that, is always.
        """
        spliced = {
            edit.conversation_id for edit in self._edits if isinstance(edit, Splice) and not edit.moves
        }
        if not below or not spliced or "context_items" not in self._copy.columns:
            return
        items = [
            row[0]
            for owner in spliced
            if isinstance(owner, int)
            for row in self._writer.rows(
                "SELECT message_id FROM context_items WHERE conversation_id = ? AND message_id IS NOT NULL",
                (owner,),
            )
        ]
        if len(below) * LINKS_PER_SUMMARY <= len(items):
            self._links("summary_id", below)
            return
        holding = made | {leaf for leaf, _ in self._links("message_id", items)}
        rows = self._copy.memory.rows("SELECT DISTINCT summary_id FROM summary_parents")
        self._links("summary_id", below & (holding | {row[0] for row in rows}))

    def _beside(self) -> tuple[set[str], set[str]]:
        """What was made from the sources of summaries that may be read twice; and those sources."""
        if not all(table in self._copy.columns for table in ("summaries", "context_items", *_LINES)):
            return set(), set()
        suspects = concerned(Walks(self._writer, self._catalog.schema.tables), self._edits)
        sources = {source for _, source in self._edges("summary_id", suspects)}
        messages = {message for _, message in self._links("summary_id", suspects)}
        for one in suspects:
            sources |= self._named.sources.get(one, set())
            messages |= self._named.linked.get(one, set())
        consumers = {consumer for consumer, _ in self._edges("parent_summary_id", sources)}
        others = consumers | {leaf for leaf, _ in self._links("message_id", messages)} | suspects
        return others, sources

    def _walk(self, start: set[str], at: str, to: str) -> set[str]:
        """*start* and all that edges lead to from there."""
        found, fresh = set(start), set(start)
        while fresh:
            rows = self._take("summary_parents", at, fresh)
            column = 1 + self._column("summary_parents", to)
            ahead = {one for row in rows if isinstance(one := row[column], str)}
            fresh = ahead - found
            found |= fresh
        return found

    def _edges(self, column: str, keys: Iterable[SqlValue]) -> list[tuple[str, str]]:
        rows = self._take("summary_parents", column, keys)
        return [(row[1], row[2]) for row in rows if isinstance(row[1], str) and isinstance(row[2], str)]

    def _links(self, column: str, keys: Iterable[SqlValue]) -> list[tuple[str, int]]:
        rows = self._take("summary_messages", column, keys)
        return [(row[1], row[2]) for row in rows if isinstance(row[1], str) and isinstance(row[2], int)]

    def _summaries(self, keys: set[str]) -> None:
        rows = self._take("summaries", "summary_id", keys)
        if "conversation_id" in self._copy.columns.get("summaries", ()):
            owner = 1 + self._column("summaries", "conversation_id")
            self._owners |= {one for row in rows if isinstance(one := row[owner], int)}

    def _contexts(self) -> None:
        """The summaries of all contexts that can matter, and of their messages those that are named."""
        if "messages" in self._copy.columns:
            sql = "SELECT DISTINCT conversation_id FROM messages WHERE message_id IN (?*)"
            rows = self._writer.rows_in(sql, self._named.messages)
            self._owners |= {row[0] for row in rows if isinstance(row[0], int)}
        for owner in self._owners:
            self._take("context_items", "conversation_id", [owner], "AND summary_id IS NOT NULL")
            if self._named.messages:
                within = f"AND summary_id IS NULL AND conversation_id = {owner:d}"
                self._take("context_items", "message_id", self._named.messages, within)

    def _take(
        self, table: str, column: str, keys: Iterable[SqlValue], further: str = ""
    ) -> list[tuple[SqlValue, ...]]:
        """MemoryCopy the rows of some keys, and give them: the rowid, then the columns."""
        wanted = list(keys)
        columns = self._copy.columns.get(table)
        if not columns or not wanted:
            return []
        names = ", ".join(columns)
        sql = f"SELECT rowid, {names} FROM {table} WHERE {column} IN (?*) {further}"
        taken: list[tuple[SqlValue, ...]] = []
        for start in range(0, len(wanted), CHUNK):
            rows = [tuple(row) for row in self._writer.rows_in(sql, wanted[start : start + CHUNK])]
            self._copy.take(table, rows)
            taken += rows
        return taken

    def _column(self, table: str, name: str) -> int:
        return self._copy.columns[table].index(name)


# -- tokens of the contexts ------------------------------------------------------------------------------


#: What an item stands for, by the table of its row.
_IDS = {"messages": "message_id", "summaries": "summary_id"}


def moved_tokens(writer: Writer, catalog: Catalog, edits: Iterable[Edit], *, entering: bool) -> int:
    """Tokens of what some edits put into contexts, or take out of them; a missing row weighs none.

    What stays there and is counted anew counts as well. To be asked before the edits are applied for what
    leaves, and behind them for what enters.
    """
    moved: Counter[Ref] = Counter()
    anew: dict[str, list[int | str]] = {table: [] for table in _IDS}
    for edit in edits:
        if isinstance(edit, Splice):
            moved.update(ref_of(row) for row in (edit.inserted if entering else edit.removed))
        elif edit.table in _IDS and edit.before and edit.after and "token_count" in edit.after:
            ref = edit.key[_IDS[edit.table]]
            anew[edit.table] += [ref] if isinstance(ref, int | str) else []
    for table, refs in anew.items():
        moved |= Counter(dict(_items_now(writer, catalog, table, refs)))
    weights = tokens_by_ref(writer, catalog.schema, moved)
    return sum(moved[ref] * tokens for ref, tokens in weights.items())


def tokens_by_ref(db: Rows, schema: Schema, refs: Collection[Ref]) -> dict[Ref, int]:
    """The stored estimates of messages and summaries, by id; a row that is missing has none."""
    found: dict[Ref, int] = {}
    for table, kind in (("messages", int), ("summaries", str)):
        if schema.has(table, "token_count"):
            key = _IDS[table]
            sql = f"SELECT {key}, CAST(token_count AS INTEGER) FROM {table} WHERE {key} IN (?*)"
            keys = [ref for ref in refs if isinstance(ref, kind)]
            found.update((row[0], row[1] or 0) for row in rows_in(db, sql, keys))
    return found


def _items_now(
    writer: Writer, catalog: Catalog, table: str, refs: Iterable[int | str]
) -> list[tuple[int | str, int]]:
    """How many items of their conversations' contexts stand for some messages or summaries now."""
    if not catalog.schema.has("context_items"):
        return []
    key = _IDS[table]
    sql = f"""WITH wanted AS (SELECT {key}, conversation_id FROM {table} WHERE {key} IN (?*))
        SELECT {key}, count(*) FROM context_items WHERE {key} IN (SELECT {key} FROM wanted)
        AND conversation_id IN (SELECT conversation_id FROM wanted) GROUP BY {key}"""
    return [(row[0], row[1]) for row in writer.rows_in(sql, refs)]
