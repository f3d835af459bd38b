"""Edits as JSON: whatever SQLite can hold comes back as it was, in value and in type."""

from __future__ import annotations

import json
import re
import sqlite3
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lcm_core.change.journal import CodecError, decode_values, encode_edits, encode_values, pack, unpack
from lcm_core.change.plan import (
    Cells,
    Item,
    Move,
    RowChange,
    RowCount,
    Splice,
    Symbol,
    SymbolKind,
    deletion,
    different_rows,
    insertion,
    inverse,
    map_symbols,
    renumbering,
    row_counts,
    touched_rows,
)

#: Text as it is read: any bytes, decoded with surrogate escapes.
stored_text = st.binary(max_size=40).map(lambda raw: raw.decode("utf-8", "surrogateescape")) | st.text(
    st.characters(exclude_categories=["Cs"])
)
sql_values = (
    st.none()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | stored_text
    | st.binary(max_size=40)
)
symbols = st.builds(Symbol, st.text(max_size=8), st.sampled_from(SymbolKind))
names = st.text(min_size=1, max_size=10)
cells = st.dictionaries(names, sql_values | symbols, max_size=5).map(Cells.of)
refs = st.none() | st.integers(-(2**63), 2**63 - 1) | stored_text | symbols
items = st.builds(Item, refs, st.integers(0, 9), st.integers(1, 9))
owners = st.integers(1, 2**63 - 1) | symbols
places = st.integers(-(2**63), 2**63 - 1)
ordinals = st.none() | st.integers(-(2**40), 2**40)
edits = st.one_of(
    st.builds(insertion, names, cells),
    st.builds(RowChange, names, cells, cells, cells),
    st.builds(RowChange, names, cells, cells, st.none()),
    st.builds(
        Splice,
        owners,
        st.none() | items,
        st.none() | items,
        st.lists(cells, max_size=3).map(tuple),
        st.lists(cells, max_size=3).map(tuple),
        st.integers(-9, 9),
        st.tuples(ordinals, ordinals),
        st.tuples(st.integers(0, 3), st.integers(0, 3)),
    ),
    st.builds(
        renumbering,
        owners,
        st.lists(st.builds(Move, items, places, places), max_size=3).map(tuple),
    ),
)


def with_types(value: object) -> str:
    """A value with its type: 1, 1.0 and True are equal, and not the same."""
    return repr(value)


@pytest.mark.long
@settings(max_examples=60)
@given(st.lists(edits, max_size=4).map(tuple))
def test_what_was_packed_is_unpacked_and_plain_json(plan):
    assert with_types(unpack(pack(plan))) == with_types(plan)
    text = json.dumps(encode_edits(plan), ensure_ascii=False)
    text.encode("utf-8")  # no lone surrogate in it
    assert json.loads(text) == encode_edits(plan)


@pytest.mark.long
@given(st.dictionaries(names, sql_values, max_size=5))
def test_values_come_back(values):
    assert with_types(decode_values(json.loads(json.dumps(encode_values(values))))) == with_types(values)


@pytest.mark.long
@given(sql_values)
def test_the_values_are_those_that_sqlite_gives_back(value):
    bound = value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value
    cast = "CAST(? AS TEXT)" if isinstance(value, str) else "?"
    connection = sqlite3.connect(":memory:")
    connection.text_factory = lambda raw: raw.decode("utf-8", "surrogateescape")
    [(found,)] = connection.execute(f"SELECT {cast}", (bound,))
    connection.close()
    assert with_types(found) == with_types(value)
    row = Cells.of({"value": found})
    assert with_types(unpack(pack([insertion("t", row)]))) == with_types((insertion("t", row),))


@pytest.mark.long
@settings(max_examples=40)
@given(st.lists(edits, max_size=4).map(tuple))
def test_what_takes_edits_back_touches_the_same_rows_the_other_way_round(plan):
    unnamed = tuple(edit for edit in plan if isinstance(edit, Splice))
    assert inverse(inverse(unnamed)) == unnamed
    counts = {one.table: (one.delete, one.update, one.insert) for one in row_counts(plan)}
    assert {one.table: (one.insert, one.update, one.delete) for one in row_counts(inverse(plan))} == counts
    whole = [edit for edit in plan if isinstance(edit, Splice) or None in (edit.before, edit.after)]
    there = [(table, not comes, row) for edit in whole for table, comes, row in touched_rows(edit)]
    back = [one for edit in reversed(inverse(whole)) for one in touched_rows(edit)]
    assert sorted(map(repr, back)) == sorted(map(repr, there))


@pytest.mark.long
@settings(max_examples=40)
@given(st.lists(edits, max_size=4).map(tuple))
def test_symbols_are_mapped_everywhere_and_nothing_else_is(plan):
    assert [with_types(map_symbols(edit, lambda symbol: symbol)) for edit in plan] == list(
        map(with_types, plan)
    )
    renamed = [map_symbols(edit, lambda symbol: Symbol("other", symbol.kind)) for edit in plan]
    names = set(re.findall(r"Symbol\(name=('.*?'|\".*?\"), kind", with_types(renamed)))
    assert names <= {"'other'"}


def test_an_edit_says_what_changes():
    row = Cells.of({"a": 1})
    with pytest.raises(ValueError, match="before it or after it"):
        RowChange("t", row, None, None)
    with pytest.raises(ValueError, match="either"):
        Splice(1, None, None, (row,), (), 0, moves=(Move(Item(1), 0, 1),))


@pytest.mark.parametrize(
    "document",
    [
        "nonsense",
        "{}",
        '[{"edit": "drop"}]',
        '[{"edit": "insert", "table": "t"}]',
        '[{"edit": "insert", "table": "t", "row": {"a": {"$sql": "1"}}}]',
        '[{"edit": "insert", "table": "t", "row": {"a": [1]}}]',
        '[{"edit": "insert", "table": "messages", "row": {"seq": 1}}]',
        '[{"edit": "delete", "table": "t", "key": {"a": 1}, "before": null}]',
        '[{"edit": "update", "table": "t", "key": {"a": 1}, "before": {"a": 1}}]',
        '[{"edit": "insert", "table": "t", "row": {"a": {"$blob": "?"}}}]',
        '[{"edit": "renumber", "conversationId": true, "moves": []}]',
        "[" * 100_000,
    ],
)
def test_a_damaged_record_is_an_error_of_ours(document):
    with pytest.raises(CodecError):
        unpack(zlib.compress(document.encode()))


@pytest.mark.parametrize("value", [[1], {"a": [1]}, {"a": {"$sql": "1"}}])
def test_values_that_are_none_are_an_error_of_ours(value):
    with pytest.raises(CodecError):
        decode_values(value)


def test_a_record_that_is_no_archive_is_an_error_of_ours():
    with pytest.raises(CodecError):
        unpack(b"not packed")


def test_a_row_that_several_changes_touch_is_one_row():
    def change(key: str, before: str, after: str) -> RowChange:
        values = (Cells.of({"content": text}) for text in (before, after))
        return RowChange("summaries", Cells.of({"summary_id": key}), *values)

    new = Cells.of({"message_id": 3, "content": "new"})
    batch = (
        change("sum_1", "a", "b"),
        change("sum_1", "b", "c"),
        change("sum_2", "a", "b"),
        insertion("messages", new),
        deletion("messages", new),
        renumbering(1, [Move(Item(7), 4, 5)]),
    )
    assert different_rows(batch) == (RowCount("context_items", 0, 1, 0), RowCount("summaries", 0, 2, 0))
    assert row_counts(batch)[-1] == RowCount("summaries", 0, 3, 0)
