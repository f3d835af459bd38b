"""Every state that was dumped while it was the present is what is rebuilt: context, DAG, what is sent."""

from __future__ import annotations

import asyncio
import shutil
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lcm_core.api import Database, NotFoundError, plan_dissolve, plan_merge, plan_transplant, plan_undo
from lcm_core.base.times import parse_utc
from lcm_core.change.commit import commit
from lcm_core.engine.rules import NAMED
from lcm_core.operations.past import Compaction, stops_on
from lcm_core.operations.past_overlay import Past
from lcm_core.operations.past_point import Point
from lcm_core.operations.prune import plan_delete
from lcm_core.operations.rewrite import plan_rewrite
from lcm_core.writers.source import Rendering

from tests.change.host import Host
from tests.change.support import REAL, dissolvable, planned
from tests.change.test_sequences import CONVERSATIONS, Sequence, starting, steps
from tests.cli.support import run
from tests.databases import column, connect, value
from tests.operations.test_merge import OLD, split
from tests.past.states import BASE, MINUTE, Times, after, before, said, state_now, state_then
from tests.support import sampled
from tests.test_earlier_files import earlier, unpacked

__all__ = ["earlier", "split", "starting"]  # fixtures
RULES = next(reversed(NAMED.values()))


def unlike(one, other):
    return [name for name in one if one[name] != other[name]]


def append(path: Path, conversation: int, when, text: str) -> None:
    """A message of the host, at the end of the context."""
    stamp = when.strftime("%Y-%m-%d %H:%M:%S")
    with connect(path) as connection:
        [seq] = connection.execute(
            "SELECT max(seq) + 1 FROM messages WHERE conversation_id = ?", (conversation,)
        ).fetchone()
        message = connection.execute(
            """INSERT INTO messages (conversation_id, seq, role, content, token_count, created_at)
            VALUES (?, ?, 'user', ?, 9, ?)""",
            (conversation, seq, text, stamp),
        ).lastrowid
        connection.execute(
            """INSERT INTO context_items (conversation_id, ordinal, item_type, message_id, created_at)
            SELECT ?, coalesce(max(ordinal), -1) + 1, 'message', ?, ?
            FROM context_items WHERE conversation_id = ?""",
            (conversation, message, stamp, conversation),
        )


appended = st.lists(st.booleans(), min_size=8, max_size=8)


@pytest.mark.long
@pytest.mark.parametrize("version", sampled(["0.1.2", "0.15.3"], ["0.1.2"]))
@settings(max_examples=6)
@given(script=steps, appends=appended)
def test_each_state_of_a_sequence_comes_back(starting, tmp_path_factory, version, script, appends):
    play_and_go_back(starting(version), tmp_path_factory, CONVERSATIONS[version], script, appends)


@pytest.mark.long
@pytest.mark.parametrize("version", REAL)
@settings(max_examples=60)
@given(script=steps, appends=appended)
def test_each_state_of_a_sequence_comes_back_whatever_was_done(
    starting, tmp_path_factory, version, script, appends
):
    play_and_go_back(starting(version), tmp_path_factory, CONVERSATIONS[version], script, appends)


def play_and_go_back(original: Path, tmp_path_factory, conversation: int, script, appends) -> None:
    path = tmp_path_factory.mktemp("past") / "lcm.db"
    shutil.copyfile(original, path)
    sequence, times = Sequence(path), Times(path)
    expected: list[tuple[Point, dict]] = []
    for (name, number, levels, keep), says in zip(script, appends, strict=False):
        if says:
            append(path, conversation, times.next(), f"message {times.number} of the host")
        state = state_now(path, conversation)
        times.next()
        getattr(sequence, name)(number, levels, keep)
        for operation in times.note():
            expected.append((before(operation), state))
            expected.append((after(operation), state_now(path, conversation)))
            expected.append((Point(when=times.now + MINUTE / 2), state_now(path, conversation)))
    if expected:
        found = state_then(path, conversation, *(point for point, _ in reversed(expected)))
        for (point, state), (then, statements) in zip(reversed(expected), found, strict=True):
            assert unlike(state, then) == [], point
            assert {one.doubt for one in statements} <= {"appended"}, said(statements)
    shutil.rmtree(path.parent)


# -- a host in between ------------------------------------------------------------------------------------


def by_host(path: Path, conversation: int, times: Times, *actions: str) -> None:
    """The host appends, compacts or prunes, each at a minute of its own."""
    host = Host(str(path), conversation, times.number)
    for action in actions:
        stamp = times.next().strftime("%Y-%m-%d %H:%M:%S")
        seen = {
            table: {row[0] for row in host.ask(f"SELECT {key} FROM {table}")}
            for table, key in _STAMPED.items()
        }
        assert getattr(host, action)() is not None
        for table, key in _STAMPED.items():
            for (found,) in host.ask(f"SELECT {key} FROM {table}"):
                if found not in seen[table]:
                    host.ask(f"UPDATE {table} SET created_at = ? WHERE {key} = ?", stamp, found)
    host.connection.close()


_STAMPED = {"messages": "message_id", "summaries": "summary_id", "context_items": "rowid"}


@pytest.mark.long
def test_an_old_summary_that_is_put_into_the_context_later_is_said(long_one: Path):
    """As another tool does that dissolves: what was in the place of its items, no row says."""
    times = Times(long_one)
    times.next()
    first = dissolve(long_one, 3)
    times.note()
    when = times.next().strftime("%Y-%m-%d %H:%M:%S")
    by_hand(
        long_one,
        "UPDATE context_items SET created_at = ? WHERE conversation_id = 3 AND ordinal IN (4, 5)",
        when,
    )
    [(then, statements)] = state_then(long_one, 3, after(first))
    assert then["context"] == state_now(long_one, 3)["context"]
    assert [one.doubt for one in statements] == ["made-later"]


def test_summaries_that_are_below_each_other_end(long_one: Path):
    times = Times(long_one)
    by_host(long_one, 3, times, "compact", "compact")
    [one, two] = column(
        long_one, "SELECT summary_id FROM summaries WHERE conversation_id = 3 ORDER BY rowid"
    )[-2:]
    for consumer, source in ((one, two), (two, one)):
        by_hand(long_one, "INSERT INTO summary_parents VALUES (?, ?, 9)", consumer, source)
    [(_, statements)] = state_then(long_one, 3, Point(when=BASE))
    assert {one.doubt for one in statements} == {"compacted", "made-later"}


def by_hand(path: Path, statement: str, *parameters: str) -> None:
    """What somebody else does to the file."""
    with connect(path) as connection:
        connection.execute(statement, parameters)


def dissolve(path: Path, conversation: int) -> str:
    summary = next(name for owner, name in dissolvable(path) if owner == conversation)
    return commit(path, asyncio.run(planned(path, plan_dissolve, conversation, [summary]))).id


@pytest.fixture
def long_one(database_copy) -> Path:
    """A context whose tail is long enough for the host to compact in."""
    path = database_copy("0.15.3")
    for number in range(40):
        append(path, 3, BASE - 2 * MINUTE, f"message {number} before everything")
    return path


@pytest.mark.long
def test_what_the_host_compacts_later_is_opened_again(long_one: Path):
    times = Times(long_one)
    start = state_now(long_one, 3)
    times.next()
    first = dissolve(long_one, 3)
    times.note()
    middle = state_now(long_one, 3)
    by_host(long_one, 3, times, "append", "compact", "append", "compact", "append")
    times.next()
    second = dissolve(long_one, 3)
    times.note()
    end = state_now(long_one, 3)
    by_host(long_one, 3, times, "append", "compact", "append")
    found = state_then(long_one, 3, after(second), after(first), before(first))
    for state, (then, statements) in zip((end, middle, start), found, strict=True):
        assert unlike(state, then) == []
        assert "compacted" in {one.doubt for one in statements}
        assert {one.doubt for one in statements} <= {"compacted", "appended"}


@pytest.mark.long
def test_what_the_host_takes_away_without_a_trace_is_said_where_the_journal_misses_it(long_one: Path):
    times = Times(long_one)
    times.next()
    operation = dissolve(long_one, 3)
    times.note()
    with connect(long_one) as connection:  # one of the items that came back, by no rule at all
        [item] = connection.execute(
            "SELECT rowid FROM context_items WHERE conversation_id = 3 AND summary_id IS NOT NULL LIMIT 1"
        ).fetchone()
        connection.execute("DELETE FROM context_items WHERE rowid = ?", (item,))
    [(then, statements)] = state_then(long_one, 3, before(operation))
    assert "context" in {one.doubt for one in statements}, said(statements)
    assert [one.operation_id for one in statements if one.doubt == "context"] == [operation]
    assert then["context"] == state_now(long_one, 3)["context"]


def rewrite(path: Path, summary: str, text: str) -> str:
    plan = planned(path, plan_rewrite, 3, summary, text, model="manual", rendering=Rendering(RULES, UTC))
    return commit(path, asyncio.run(plan)).id


@pytest.mark.long
def test_a_row_that_the_host_changed_is_said_and_what_the_history_knows_is_shown(database_copy):
    path = database_copy("0.15.3")
    times = Times(path)
    summary = value(
        path, "SELECT summary_id FROM summaries WHERE conversation_id = 3 AND kind = 'leaf' LIMIT 1"
    )
    states, operations = [state_now(path, 3)], []
    for text in ("The first text, rewritten.", "The second text, rewritten again."):
        times.next()
        operations.append(rewrite(path, summary, text))
        times.note()
        states.append(state_now(path, 3))
    found = state_then(path, 3, before(operations[1]), before(operations[0]), after(operations[1]))
    assert [unlike(states[number], found[at][0]) for at, number in enumerate((1, 0, 2))] == [[], [], []]
    by_hand(path, "UPDATE summaries SET content = 'by somebody else' WHERE summary_id = ?", summary)
    found = state_then(path, 3, before(operations[1]), before(operations[0]))
    for (then, statements), state in zip(found, (states[1], states[0]), strict=True):
        assert unlike(state, then) == []
        assert [one.doubt for one in statements] == ["row"]
        assert "content" in statements[0].text
        assert operations[1] in statements[0].text


# -- the history itself -----------------------------------------------------------------------------------


@pytest.mark.long
def test_operations_that_were_removed_from_the_history_are_said(long_one: Path):
    times, operations, states = Times(long_one), [], []
    for text in ("one", "two", "three"):
        times.next()
        states.append(state_now(long_one, 3))
        name = value(
            long_one, "SELECT summary_id FROM summaries WHERE conversation_id = 3 ORDER BY rowid LIMIT 1"
        )
        operations.append(rewrite(long_one, name, f"The text {text}, rewritten."))
        times.note()
    by_hand(long_one, "DELETE FROM lcm_tui_operations WHERE id = ?", operations[1])
    [(then, statements), (exact, none)] = state_then(
        long_one, 3, before(operations[0]), before(operations[2])
    )
    assert [one.doubt for one in statements] == ["pruned", "row"]
    assert unlike(states[2], exact) == []
    assert none == ()
    assert unlike(states[0], then) == []  # the oldest change knows what it replaced
    by_hand(long_one, "DELETE FROM lcm_tui_operations WHERE id = ?", operations[0])
    [(then, statements)] = state_then(long_one, 3, Point(when=BASE))
    assert [one.doubt for one in statements] == ["pruned"]


def test_a_record_that_cannot_be_read_is_said(long_one: Path):
    times = Times(long_one)
    operation = dissolve(long_one, 3)
    times.note()
    by_hand(long_one, "UPDATE lcm_tui_operations SET edits = x'00' WHERE id = ?", operation)
    [(then, statements)] = state_then(long_one, 3, before(operation))
    assert "unreadable" in {one.doubt for one in statements}
    assert then["context"] == state_now(long_one, 3)["context"]


def test_a_point_that_is_none_is_refused(long_one: Path):
    operation = dissolve(long_one, 3)
    with pytest.raises(NotFoundError):
        state_then(long_one, 3, before("op_none"))
    with pytest.raises(NotFoundError):
        state_then(long_one, 1, before(operation))


@pytest.mark.long
def test_a_conversation_that_was_deleted_is_there_before(database_copy):
    path = database_copy("0.15.3")
    times = Times(path)
    times.next()
    dissolve(path, 3)
    times.note()
    state = state_now(path, 3)
    times.next()
    deletion = asyncio.run(planned(path, plan_delete, [3], rows=60))
    for plan in deletion.plans:
        commit(path, plan)
    while not deletion.complete:
        deletion = asyncio.run(planned(path, plan_delete, [3], rows=60))
        for plan in deletion.plans:
            commit(path, plan)
    operations = times.note()
    assert len(operations) > 2
    [(then, statements)] = state_then(path, 3, before(operations[0]))
    assert unlike(state, then) == []
    assert statements == ()


@pytest.mark.long
def test_a_transplant_and_a_merge_are_taken_back_on_both_sides(split: Path, database_copy):
    path = database_copy("0.15.3")
    states = {owner: state_now(path, owner) for owner in (1, 7)}
    operation = commit(path, asyncio.run(planned(path, plan_transplant, 1, 7, skip_duplicates=True))).id
    [(then, _)] = state_then(path, 7, before(operation))
    assert unlike(states[7], then) == []
    owners = column(split, "SELECT conversation_id FROM conversations")
    states = {owner: state_now(split, owner) for owner in owners}
    plan = asyncio.run(planned(split, plan_merge, [OLD]))
    merged = commit(split, plan).id
    changed = [owner for owner in owners if unlike(states[owner], state_now(split, owner))]
    assert len(changed) > 1
    for owner in changed:
        [(then, _)] = state_then(split, owner, before(merged))
        assert unlike(states[owner], then) == []


# -- files of earlier versions ----------------------------------------------------------------------------


def test_the_history_of_an_earlier_version_is_taken_back(tmp_path: Path):
    folder = unpacked("earlier-edits.tar.xz", tmp_path)
    path, was = folder / "lcm.db", folder / "before.db"
    first = value(path, "SELECT min(created_at) FROM lcm_tui_operations")
    owners = column(was, "SELECT conversation_id FROM conversations")
    assert owners
    for owner in owners:
        [(then, statements)] = state_then(path, owner, Point(when=parse_utc(first) - MINUTE))
        assert unlike(state_now(was, owner), then) == []
        assert statements == ()


async def test_no_row_of_then_reaches_a_disk(long_one: Path):
    """SQLite keeps temporary tables in a file unless it is told otherwise."""
    operation = await asyncio.to_thread(dissolve, long_one, 3)
    past = Past(3, Point(operation))

    async def kept(reader) -> list[Any]:
        laid = await reader.value("SELECT count(*) FROM sqlite_temp_master")
        return [await reader.value("PRAGMA temp_store"), laid]

    async with await past.open(long_one) as database:
        store, laid = await database.read(kept)
    assert (store, laid > 0) == (2, True)


@pytest.mark.long
def test_the_journal_of_the_first_version_is_taken_back(earlier: Path):
    """A dissolve, its undo, its redo, and a deletion whose rows are in an exported file."""
    path, later = earlier / "lcm.db", earlier / "later.db"
    ids = column(path, "SELECT id FROM lcm_tui_operations ORDER BY rowid")
    dissolved, undone, redone, deleted = ids
    shutil.copyfile(path, later)
    assert run("history", "undo", deleted, "--apply", "--yes", "--db", later).code == 0
    with_it = state_now(later, 4)
    assert run("history", "undo", dissolved, "--apply", "--yes", "--db", later).code == 0
    without = state_now(later, 4)
    assert with_it["context"] != without["context"] != []
    points = [before(one) for one in (deleted, redone, undone, dissolved)]
    for (then, statements), was in zip(
        state_then(path, 4, *points), (with_it, without, with_it, without), strict=True
    ):
        assert unlike(was, then) == []
        assert statements == ()


async def messages_of(path: Path, owner: int, past: Past | None = None) -> list[tuple[Any, ...]]:
    async with await (Database.open if past is None else past.open)(path) as database:
        return await database.read(
            lambda reader: reader.tuples(
                """SELECT m.message_id, m.seq, m.content, count(l.summary_id) FROM messages AS m
                LEFT JOIN summary_messages AS l ON l.message_id = m.message_id
                WHERE m.conversation_id = ? GROUP BY m.message_id ORDER BY m.seq""",
                owner,
            )
        )


async def test_messages_that_came_since_are_in_no_list_and_no_count(long_one: Path):
    times, owner = Times(long_one), 3
    was = await messages_of(long_one, owner)
    times.next()
    summary = next(name for one, name in dissolvable(long_one) if one == owner)
    commit(long_one, await planned(long_one, plan_dissolve, owner, [summary]))
    [first] = times.note()
    by_host(long_one, owner, times, "append", "compact", "append")
    assert len(await messages_of(long_one, owner)) > len(was)
    point = before(first)
    assert await messages_of(long_one, owner, Past(owner, point)) == was


@pytest.mark.long
def test_the_order_of_the_history_holds_where_a_clock_was_wrong(long_one: Path):
    """One operation of the future, and one without a time, among three."""
    times = Times(long_one)
    states = []
    for _ in range(3):
        times.next()
        states.append(state_now(long_one, 3))
        if len(states) % 2:
            last = dissolve(long_one, 3)
        else:
            commit(long_one, asyncio.run(planned(long_one, plan_undo, last)))
        times.note()
    now = state_now(long_one, 3)
    first, second, _ = times.seen
    by_hand(
        long_one, "UPDATE lcm_tui_operations SET created_at = '2999-01-01T00:00:00Z' WHERE id = ?", second
    )
    by_hand(long_one, "UPDATE lcm_tui_operations SET created_at = 'soon' WHERE id = ?", first)
    for when, state in ((BASE + 4 * MINUTE, now), (BASE + 2.5 * MINUTE, states[1]), (BASE, states[1])):
        [(then, statements)] = state_then(long_one, 3, Point(when=when))
        assert unlike(state, then) == []
        assert statements == ()


@pytest.mark.cases(1)
@pytest.mark.parametrize("deleted", [False, True])
def test_before_a_compaction_what_an_operation_has_deleted_since_is_opened_too(database_copy, deleted):
    path = database_copy("0.15.3")
    newest = newest_compaction(path, 1)
    assert (newest.created_at, newest.summaries) == ("2026-03-04T11:59:24.000Z", 5)
    [(untouched, statements)] = state_then(path, 1, newest.point)
    if deleted:
        commit(path, asyncio.run(planned(path, plan_dissolve, 1, ["sum_bb692ab9b90b6a49"])))
    assert newest_compaction(path, 1).point == newest.point
    [(then, said_then)] = state_then(path, 1, newest.point)
    assert unlike(untouched, then) == []
    assert [one.text for one in said_then] == [one.text for one in statements]


@pytest.mark.long
def test_the_moment_before_a_compaction_is_what_it_was(long_one: Path):
    times = Times(long_one)
    by_host(long_one, 3, times, "append")
    start = state_now(long_one, 3)
    by_host(long_one, 3, times, "compact", "append")
    times.next()
    dissolve(long_one, 3)
    times.note()
    [(then, statements)] = state_then(long_one, 3, newest_compaction(long_one, 3).point)
    assert unlike(start, then) == []
    assert {one.doubt for one in statements} <= {"compacted", "appended"}


def newest_compaction(path: Path, owner: int) -> Compaction:
    async def read():
        async with await Database.open(path) as database:
            tables = database.schema.tables
            return await database.read(lambda reader: reader.run(stops_on, tables, owner, {}))

    return next(one for one in asyncio.run(read()) if isinstance(one, Compaction))
