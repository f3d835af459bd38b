"""What a commit foresees of a change is what the doctor then finds in the file, whatever is changed.

A plan is tried on the rows around its edits (docs/spec/changes.md, "Checked before the lock"). Here it is
written into the file as well, in a transaction that is rolled back, and the checks are asked of whole
conversations.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lcm_core.base.values import replace
from lcm_core.change.apply import resolve_symbols, write, writes_of
from lcm_core.change.connection import open_writer, quiet, read_catalog
from lcm_core.change.place import splice_at, verify
from lcm_core.change.plan import Cells, RowChange, Symbol, SymbolKind, deletion, insertion, key_of
from lcm_core.change.surroundings import Surroundings, lists_of, missing_targets, try_change
from lcm_core.checks.structure import conversation_ids, load_structure
from lcm_core.store.database import _ReaderInThread

from tests.change.support import context_of, item_row, listing_of, row_of, rows_of, update
from tests.conftest import DatabaseFactory
from tests.databases import column, connect, run
from tests.support import sampled

VERSIONS = ("0.1.2", "0.8.2", "0.15.3")
Draw = Callable[[st.SearchStrategy[Any]], Any]


class Changing:
    """Makes random edits of the rows that structure is made of; none names a row twice."""

    def __init__(self, path: Path, draw: Draw) -> None:
        self.path = path
        self.draw = draw
        self.edits = []
        self.used: set[tuple[str, Cells]] = set()
        self.new: list[Symbol] = []
        self.owners = column(path, "SELECT conversation_id FROM conversations")
        self.summaries = column(path, "SELECT summary_id FROM summaries ORDER BY rowid")
        self.messages = column(path, "SELECT message_id FROM messages ORDER BY rowid")
        self.lists = {owner: listing_of(path, owner) for owner in self.owners}

    def one_of(self, values: list[Any]) -> Any:
        return values[self.draw(st.integers(0, len(values) - 1))]

    def row(self, table: str) -> Cells:
        last = column(self.path, f"SELECT max(rowid) FROM {table}")[0]
        at = self.draw(st.integers(1, last))
        return rows_of(self.path, f"SELECT * FROM {table} WHERE rowid >= ? ORDER BY rowid LIMIT 1", at)[0]

    def take(self, table: str, key: Cells) -> bool:
        if (table, key) in self.used:
            return False
        self.used.add((table, key))
        return True

    def delete(self, table: str) -> None:
        row = self.row(table)
        key = key_of(table, row)
        if self.take(table, key):
            self.edits.append(deletion(table, row))

    def change(self) -> None:
        row = self.row("summaries")
        names = {
            "kind": ["leaf", "condensed"],
            "conversation_id": self.owners,
            "created_at": ["2020-01-01 00:00:00", "2030-01-01T00:00:00Z", "never"],
            "token_count": [0, 7, 100_000],
        }
        if "depth" in row:
            names["depth"] = [0, 1, 2, -1]
        name = self.one_of(sorted(names))
        if self.take("summaries", key_of("summaries", row)):
            summary = row["summary_id"]
            self.edits.append(
                update(self.path, "summaries", "summary_id", summary, **{name: self.one_of(names[name])})
            )

    def join(self) -> None:
        """A new edge, or a link to a message that is there or only now comes."""
        consumer = self.one_of(self.summaries)
        if self.draw(st.booleans()):
            row = {"summary_id": consumer, "parent_summary_id": self.one_of(self.summaries), "ordinal": 9}
            table = "summary_parents"
        else:
            message = self.one_of([*self.messages[:40], *self.new])
            row = {"summary_id": consumer, "message_id": message, "ordinal": 9}
            table = "summary_messages"
        cells = Cells.of(row)
        there = [key_of(table, one) for one in rows_of(self.path, f"SELECT * FROM {table}")]
        if key_of(table, cells) not in there and self.take(table, key_of(table, cells)):
            self.edits.append(insertion(table, cells))

    def say(self) -> None:
        """A message whose id the database gives."""
        template = row_of(self.path, "messages", "message_id", self.messages[0])
        plain = {
            name: None
            for name in ("identity_hash", "transcript_entry_id", "stable_event_key")
            if name in template
        }
        name = Symbol(f"new:{len(self.new)}", SymbolKind.ID)
        seq = Symbol(f"seq:{len(self.new)}", SymbolKind.SEQ)
        self.new.append(name)
        self.edits.append(
            insertion(
                "messages",
                template.but(message_id=name, seq=seq, conversation_id=self.one_of(self.owners), **plain),
            )
        )

    def splice(self) -> None:
        owner = self.one_of(self.owners)
        listing, rows = self.lists[owner]
        if len(rows) < 2:
            return
        start = self.draw(st.integers(0, len(rows) - 1))
        count = self.draw(st.integers(0, min(3, len(rows) - start)))
        refs = [
            self.one_of([*self.summaries, *self.messages[:30], *self.new])
            for _ in range(self.draw(st.integers(0, 3)))
        ]
        new = [item_row(owner, ref) for ref in refs]
        if count or new:
            made = splice_at(listing, owner, start, rows[start : start + count], new)
            rows[start : start + count] = made.inserted
            self.edits.append(made)

    def any(self) -> None:
        lines = [lambda: self.delete("summary_messages"), lambda: self.delete("summary_parents")]
        rows = [lambda: self.delete("summaries"), lambda: self.delete("messages")]
        self.one_of([*lines, *rows, self.change, self.join, self.join, self.say, self.splice, self.splice])()


@contextmanager
def locked(path: Path):
    """A transaction that leaves nothing."""
    with open_writer(path, 5.0) as writer:
        writer.begin()
        yield writer, read_catalog(writer)
        writer.rollback()


def found_whole(writer, catalog, around: Surroundings) -> set[str]:
    """What the checks say of all conversations as the doctor reads them."""
    reader = _ReaderInThread(SimpleNamespace(connection=None), catalog.schema, writer)

    async def load():
        found = [await load_structure(reader, owner) for owner in await conversation_ids(reader)]
        # What another conversation's row is named by is no matter of the doctor's.
        return [
            replace(one, at_home=frozenset([*one.foreign_messages, *one.foreign_summaries]))
            for one in found
            if one is not None
        ]

    return set(around.keys(asyncio.run(load())))


def of_others(writer) -> set[str]:
    """Keys of what would be lost from a context that is another conversation's."""
    owners = [row[0] for row in writer.rows("SELECT conversation_id FROM conversations")]
    return {
        f"{check}:{owner}:{kind}:{ref}"
        for check, kind, sql in (
            ("A11", "message", "SELECT message_id, conversation_id FROM messages"),
            ("B13", "summary", "SELECT summary_id, conversation_id FROM summaries"),
        )
        for ref, home in writer.rows(sql)
        for owner in owners
        if owner != home
    }


def is_mixed(writer) -> bool:
    """Whether a summary is in another conversation's context, or below a summary of another one."""
    return bool(
        writer.rows(
            """SELECT 1 FROM context_items AS c JOIN summaries AS s USING (summary_id)
            WHERE c.conversation_id <> s.conversation_id UNION ALL
            SELECT 1 FROM summary_parents AS e JOIN summaries AS s ON s.summary_id = e.summary_id
            JOIN summaries AS p ON p.summary_id = e.parent_summary_id
            WHERE p.conversation_id <> s.conversation_id"""
        )
    )


def check(path: Path, edits) -> bool:
    """Foresee, write, and ask the file as the doctor does; whether the plan fitted at all."""
    with locked(path) as (writer, catalog):
        verified = verify(writer, edits, catalog.tables)
        if verified.moved:
            return False
        resolved = resolve_symbols(writer, verified.steps, verified.values)
        foreseen = try_change(writer, catalog, verified, resolved)
        around = Surroundings(writer, catalog, resolved.edits, lists_of(verified, resolved.values))
        before, tokens, foreign = found_whole(writer, catalog, around), tokens_of(writer), of_others(writer)
        before |= missing_targets(writer, catalog, resolved.edits)[0]
        mixed = is_mixed(writer)
        write(writer, writes_of(resolved.edits, verified.contexts, resolved.values), quiet)
        after = found_whole(writer, catalog, around)
        # Of rows that are there by then, "before" is what the file says now.
        after |= missing_targets(writer, catalog, resolved.edits)[0]
        foreign |= of_others(writer)
        if mixed or is_mixed(writer):  # the walks of a commit cross the border, those of the doctor do not
            foreign |= {
                key for key in foreseen.before | foreseen.after | before | after if key[:3] in SHARING
            }
        assert foreseen.tokens == tokens_of(writer) - tokens
    assert foreseen.after - foreseen.before - foreign == after - before - foreign
    assert foreseen.before - foreseen.after - foreign == before - after - foreign
    return True


def tokens_of(writer) -> int:
    return sum(
        writer.value(
            f"SELECT total(CAST(token_count AS INTEGER)) FROM context_items JOIN {table} USING ({key})"
        )
        for table, key in (("messages", "message_id"), ("summaries", "summary_id"))
    )


#: The checks of what is read in two summaries.
SHARING = ("B14", "B15")
#: Leaves and condensed summaries that share a source with the one before them: it may be read twice.
SHARED = tuple(
    f"""INSERT OR IGNORE INTO {table} SELECT next, source, 77 FROM (
    SELECT (SELECT min(other.summary_id) FROM {table} AS other JOIN summaries AS o USING (summary_id)
        WHERE other.summary_id > line.summary_id AND o.conversation_id = made.conversation_id) AS next,
    line.{source} AS source FROM {table} AS line JOIN summaries AS made USING (summary_id)
    WHERE line.ordinal = 0) WHERE next IS NOT NULL"""
    for table, source in (("summary_messages", "message_id"), ("summary_parents", "parent_summary_id"))
)


@pytest.mark.long
@pytest.mark.parametrize("version", sampled(VERSIONS, ("0.1.2", "0.15.3")))
def test_what_is_foreseen_comes_true(version: str, database_copy: DatabaseFactory) -> None:
    path = database_copy(version)
    run(path, *SHARED)
    tried = []

    @settings(max_examples=15)
    @given(st.data())
    def trying(data: st.DataObject) -> None:
        changing = Changing(path, data.draw)
        for _ in range(data.draw(st.integers(1, 8))):
            changing.any()
        tried.append(check(path, changing.edits))

    trying()
    assert tried.count(True) > len(tried) / 2


def test_lines_of_a_cycle_that_only_the_edits_close(database_copy: DatabaseFactory) -> None:
    """Two consumers over one another, through an edge that is there and one that comes."""
    path = database_copy("0.15.3")
    with connect(path) as connection:
        consumer, source = connection.execute(
            "SELECT summary_id, parent_summary_id FROM summary_parents LIMIT 1"
        ).fetchone()
    back = Cells.of({"summary_id": source, "parent_summary_id": consumer, "ordinal": 0})
    assert check(path, [insertion("summary_parents", back)])
    with locked(path) as (writer, catalog):
        verified = verify(writer, [insertion("summary_parents", back)], catalog.tables)
        foreseen = try_change(writer, catalog, verified, resolve_symbols(writer, verified.steps, {}))
    assert {key.split(":")[0] for key in foreseen.after - foreseen.before} >= {"B6", "B12"}


@pytest.mark.long
def test_values_are_converted_as_in_the_file(database_copy: DatabaseFactory) -> None:
    """A depth that comes as text is a number in a column of numbers: the check of depths sees that."""
    path = database_copy("0.15.3")
    leaf = rows_of(path, "SELECT * FROM summaries WHERE kind = 'leaf' LIMIT 1")[0]
    edit = RowChange("summaries", key_of("summaries", leaf), Cells.of({"depth": 0}), Cells.of({"depth": "1"}))
    assert check(path, [edit])


def test_a_message_that_a_summary_far_above_covers(database_copy: DatabaseFactory) -> None:
    """The summary comes into a context beside a message below it: over lines that no edit names."""
    path = database_copy("0.15.3")
    with connect(path) as connection:
        top, message, owner = connection.execute(
            """SELECT e.summary_id, l.message_id, s.conversation_id FROM summary_parents AS e
            JOIN summary_parents AS f ON f.summary_id = e.parent_summary_id
            JOIN summary_messages AS l ON l.summary_id = f.parent_summary_id
            JOIN summaries AS s ON s.summary_id = e.summary_id LIMIT 1"""
        ).fetchone()
        last = connection.execute(
            "SELECT max(ordinal) FROM context_items WHERE conversation_id = ?", (owner,)
        )
        connection.execute(
            "INSERT INTO context_items (conversation_id, ordinal, item_type, message_id) VALUES (?, ?, ?, ?)",
            (owner, last.fetchone()[0] + 1, "message", message),
        )
        connection.execute("DELETE FROM context_items WHERE summary_id = ?", (top,))
    listing, _ = listing_of(path, owner)
    edits = [splice_at(listing, owner, 0, [], [item_row(owner, top)])]
    assert check(path, list(edits))
    with locked(path) as (writer, catalog):
        verified = verify(writer, edits, catalog.tables)
        foreseen = try_change(writer, catalog, verified, resolve_symbols(writer, verified.steps, {}))
    assert f"A6:{owner}:message:{message}" in foreseen.after


def test_what_is_in_another_context_is_lost_from_none(database_copy: DatabaseFactory) -> None:
    """A foreign item leaves a context: it is in its own conversation's, which no edit names."""
    path = database_copy("0.15.3")
    message = next(ref for _, ref in context_of(path, 2) if isinstance(ref, int))
    run(
        path,
        f"""INSERT INTO context_items (conversation_id, ordinal, item_type, message_id)
        VALUES (1, 9999, 'message', {message})""",
    )
    listing, rows = listing_of(path, 1)
    edits = [splice_at(listing, 1, len(rows) - 1, rows[-1:], [])]
    assert check(path, list(edits))
    with locked(path) as (writer, catalog):
        verified = verify(writer, edits, catalog.tables)
        foreseen = try_change(writer, catalog, verified, resolve_symbols(writer, verified.steps, {}))
    assert foreseen.after == frozenset()
    assert f"A5:1:message:{message}" in foreseen.before


def grow(path: Path, leaves: int, links: int) -> None:
    """A summary at the end of context 1, over one summary over *leaves* leaves of *links* messages each."""
    with connect(path) as connection:
        last, message = (
            connection.execute(sql).fetchone()[0]
            for sql in ("SELECT max(ordinal) FROM context_items", "SELECT max(message_id) FROM messages")
        )
        connection.execute("BEGIN")
        names = [f"leaf-{number}" for number in range(leaves)]
        add = """INSERT INTO summaries (summary_id, conversation_id, kind, depth, content, token_count)
            VALUES (?, 1, ?, ?, '', 1)"""
        rows = [("top", "condensed", 2), ("middle", "condensed", 1), *((name, "leaf", 0) for name in names)]
        connection.executemany(add, rows)
        edges = [("top", "middle"), *(("middle", name) for name in names)]
        connection.executemany("INSERT INTO summary_parents VALUES (?, ?, 0)", edges)
        for number, name in enumerate(names):
            ids = range(message + 1 + number * links, message + 1 + (number + 1) * links)
            connection.executemany(
                "INSERT INTO messages (message_id, conversation_id, seq, role, content, token_count) "
                "VALUES (?, 1, ?, 'user', '', 1)",
                [(one, 1_000_000 + one) for one in ids],
            )
            connection.executemany(
                "INSERT INTO summary_messages VALUES (?, ?, 0)", [(name, one) for one in ids]
            )
        connection.execute(
            """INSERT INTO context_items (conversation_id, ordinal, item_type, summary_id)
            VALUES (1, ?, 'summary', 'top')""",
            (last + 1,),
        )
        connection.execute("COMMIT")


def read_for(path: Path, refs: list[str]) -> int:
    """Rows that are read for a plan which puts *refs* into the place of the last item of context 1."""
    listing, rows = listing_of(path, 1)
    edits = [splice_at(listing, 1, len(rows) - 1, rows[-1:], [item_row(1, ref) for ref in refs])]
    assert check(path, list(edits))
    with locked(path) as (writer, catalog):
        verified = verify(writer, edits, catalog.tables)
        resolved = resolve_symbols(writer, verified.steps, verified.values)
        around = Surroundings(writer, catalog, resolved.edits, lists_of(verified, resolved.values))
        return sum(map(len, around.rows.values()))


@pytest.mark.long
@pytest.mark.parametrize(("ref", "rows_per_leaf"), [("top", 0), ("middle", 2)])
def test_what_is_far_below_a_summary_is_not_read(
    ref: str, rows_per_leaf: int, database_copy: DatabaseFactory
) -> None:
    """Of a source of what is named its edge and its row, of what is below nothing: a history has no end."""
    counts = []
    for leaves in (100, 300):
        path = database_copy("0.15.3")
        grow(path, leaves, 20)
        counts.append(read_for(path, [ref]))
    assert counts[1] - counts[0] == 200 * rows_per_leaf


def test_an_ordinal_that_is_a_text_is_in_no_change_s_way(database_copy: DatabaseFactory) -> None:
    """In a context that the change leaves alone."""
    path = database_copy("0.15.3")
    run(path, "UPDATE context_items SET ordinal = '' WHERE conversation_id = 2 AND ordinal = 0")
    with connect(path) as connection:
        [summary] = connection.execute(
            "SELECT summary_id FROM summaries WHERE conversation_id = 2"
        ).fetchone()
    assert check(path, [update(path, "summaries", "summary_id", summary, depth=77)])
