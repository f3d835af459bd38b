"""A commit that would add an error is refused, with that error and no other; its removal may be undone."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from lcm_core.api import ExitCode, plan_undo
from lcm_core.change.commit import commit
from lcm_core.change.plan import (
    Cells,
    Item,
    Move,
    WouldBreakError,
    insertion,
    renumbering,
)

from tests.change.support import (
    context_of,
    delete,
    dump,
    listing_of,
    plan_of,
    planned,
    row_of,
    rows_of,
    splice,
    summary_row,
    update,
)
from tests.databases import building, column, connect, run, value
from tests.support import sampled

#: Conversation 1 of 0.15.3: summaries at ordinals 0 to 3 (depths 3, 3, 2, 1?), then raw messages.
CONVERSATION = 1
NEW = "sum_00000000000000aa"


def message_in_context(path: Path) -> int:
    return value(
        path, "SELECT message_id FROM context_items WHERE conversation_id = 1 AND message_id NOT NULL"
    )


def covered_message(path: Path) -> int:
    """A message that a summary in the context of conversation 1 covers."""
    return value(
        path,
        """SELECT link.message_id FROM summary_messages AS link JOIN messages AS m USING (message_id)
        WHERE m.conversation_id = 1 ORDER BY link.message_id""",
    )


def leaf_over(path: Path, message_id: int) -> str:
    return value(path, "SELECT summary_id FROM summary_messages WHERE message_id = ?", message_id)


def root(path: Path) -> str:
    return value(path, "SELECT summary_id FROM context_items WHERE conversation_id = 1 AND ordinal = 0")


def source_of(path: Path, summary_id: str) -> str:
    sql = "SELECT parent_summary_id FROM summary_parents WHERE summary_id = ? ORDER BY ordinal"
    return value(path, sql, summary_id)


def leaf(path: Path) -> str:
    return value(
        path, "SELECT summary_id FROM summaries WHERE kind = 'leaf' AND conversation_id = 1 ORDER BY rowid"
    )


def condensed(path: Path) -> str:
    sql = "SELECT summary_id FROM summaries WHERE kind = 'condensed' AND conversation_id = 1 ORDER BY rowid"
    return value(path, sql)


def link(summary_id: str, message_id: int, ordinal: int = 50):
    return insertion(
        "summary_messages", Cells.of({"summary_id": summary_id, "message_id": message_id, "ordinal": ordinal})
    )


def edge(consumer: str, source: str, ordinal: int = 50):
    return insertion(
        "summary_parents",
        Cells.of({"summary_id": consumer, "parent_summary_id": source, "ordinal": ordinal}),
    )


def new_leaf(path: Path, **changed: object):
    given = {"kind": "leaf", "depth": 0, "conversation_id": 1, **changed}
    return insertion("summaries", summary_row(path, NEW, **given))


def end(path: Path) -> int:
    return len(context_of(path, CONVERSATION))


def a1(path: Path):
    return [splice(path, 1, end(path), 0, 99_999)], {"A1:1:message:99999"}


def a2(path: Path):
    return [splice(path, 1, end(path), 0, NEW)], {f"A2:1:summary:{NEW}"}


def a3(path: Path):
    return [splice(path, 1, end(path), 0, root(path))], {f"A3:1:summary:{root(path)}"}


def a4(path: Path):
    message = message_in_context(path)
    return [splice(path, 1, end(path), 0, message)], {f"A4:1:message:{message}"}


def a5(path: Path):
    other = value(
        path,
        """SELECT message_id FROM messages WHERE conversation_id = 2 AND message_id NOT IN
        (SELECT message_id FROM summary_messages)""",
    )
    return [splice(path, 1, end(path), 0, other)], {f"A5:1:message:{other}"}


def a6_message_comes(path: Path):
    message = covered_message(path)
    return [splice(path, 1, 1, 0, message)], {f"A6:1:message:{message}"}


def a6_link_comes(path: Path):
    """A new leaf over a message that stays in the context."""
    message = message_in_context(path)
    return [new_leaf(path), link(NEW, message), splice(path, 1, 1, 0, NEW)], {f"A6:1:message:{message}"}


def a7_source_comes(path: Path):
    source = source_of(path, root(path))
    return [splice(path, 1, 1, 0, source)], {f"A7:1:summary:{source}"}


def a7_consumer_comes(path: Path):
    made = summary_row(
        path, NEW, kind="condensed", depth=9, conversation_id=1, created_at="2033-01-01 00:00:00"
    )
    return (
        [insertion("summaries", made), edge(NEW, root(path)), splice(path, 1, 1, 0, NEW)],
        {f"A7:1:summary:{root(path)}"},
    )


def a9(path: Path):
    run(path, "UPDATE context_items SET ordinal = 9999999 WHERE conversation_id = 1 AND ordinal = 21")
    left_out = uncovered(path)
    return [splice(path, 1, end(path), 0, left_out)], {f"A9:1:message:{left_out}"}


def uncovered(path: Path) -> int:
    """A message of conversation 1 that stands nowhere: made for the purpose."""
    with building(path) as rows:
        return rows.message(1, "left out", in_context=False)


def a11(path: Path):
    items = context_of(path, 1)
    return [splice(path, 1, len(items) - 1, 1)], {f"A11:1:message:{items[-1][1]}"}


def b1(path: Path):
    return list(delete(path, "summary_messages", summary_id=leaf(path))), {f"B1:1:summary:{leaf(path)}"}


def b2(path: Path):
    return list(delete(path, "summary_parents", summary_id=condensed(path))), {
        f"B2:1:summary:{condensed(path)}"
    }


def b3(path: Path):
    message = covered_message(path)
    parts = delete(path, "message_parts", message_id=message)
    return [*parts, *delete(path, "messages", message_id=message)], {
        f"B3:-:summary_messages.message_id:{message}"
    }


def b4_source_goes(path: Path):
    gone = leaf_over(path, covered_message(path))
    links = delete(path, "summary_messages", summary_id=gone)
    return [*links, *delete(path, "summaries", summary_id=gone)], {
        f"B4:-:summary_parents.parent_summary_id:{gone}"
    }


def b4_edge_comes(path: Path):
    return [edge(condensed(path), NEW)], {f"B4:-:summary_parents.parent_summary_id:{NEW}"}


def b5(path: Path):
    one = condensed(path)
    return [edge(one, one)], {f"B5:1:edge:{one}/{one}"}


def b6(path: Path):
    top, below = root(path), source_of(path, root(path))
    return [edge(below, top)], {
        f"B6:1:summary:{top}",
        f"B6:1:summary:{below}",
        f"B12:1:edge:{below}/{top}",
    }


def b7_edge(path: Path):
    other = value(path, "SELECT summary_id FROM summaries WHERE conversation_id = 2 AND kind = 'leaf'")
    top = root(path)
    run(path, "UPDATE summaries SET created_at = '2020-01-01 00:00:00' WHERE conversation_id = 2")
    return [edge(top, other)], {f"B7:1:edge:{top}/{other}"}


def b7_link(path: Path):
    other = value(path, "SELECT message_id FROM messages WHERE conversation_id = 2")
    return [link(leaf(path), other)], {f"B7:1:link:{leaf(path)}/{other}"}


def b8_leaf(path: Path):
    first = leaf(path)
    run(
        path,
        f"UPDATE summaries SET created_at = '2019-01-01 00:00:00', depth = -1 WHERE summary_id = '{NEW}'",
    )
    second = value(
        path,
        """SELECT s.summary_id FROM summaries AS s JOIN summaries AS f ON f.summary_id = ?
        WHERE s.kind = 'leaf' AND s.conversation_id = 1 AND s.created_at <= f.created_at
        AND s.summary_id <> f.summary_id""",
        first,
    ) or value(
        path, "SELECT summary_id FROM summaries WHERE kind = 'leaf' AND rowid > 1 AND conversation_id = 1"
    )
    return [edge(first, second)], {
        f"B8:1:summary:{first}",
        f"B12:1:edge:{first}/{second}",
        f"B14:1:summary:{second}",
    }


def b8_condensed(path: Path):
    message = covered_message(path)
    return [link(condensed(path), message)], {f"B8:1:summary:{condensed(path)}"}


def b9(path: Path):
    one = condensed(path)
    return [update(path, "summaries", "summary_id", one, depth=0)], {
        f"B9:1:summary:{one}",
        *(f"B12:1:edge:{one}/{row['parent_summary_id']}" for row in edges(path, one)),
    }


def edges(path: Path, consumer: str) -> list[Cells]:
    return rows_of(path, "SELECT * FROM summary_parents WHERE summary_id = ?", consumer)


def b12(path: Path):
    top = root(path)
    below = source_of(path, top)
    depth = value(path, "SELECT depth FROM summaries WHERE summary_id = ?", top)
    return [update(path, "summaries", "summary_id", below, depth=depth)], {f"B12:1:edge:{top}/{below}"}


def b13(path: Path):
    return [splice(path, 1, 0, 1)], {f"B13:1:summary:{root(path)}"}


def b14_edge_comes(path: Path):
    source = source_of(path, root(path))
    other = value(path, "SELECT summary_id FROM context_items WHERE conversation_id = 1 AND ordinal = 1")
    run(path, f"UPDATE summaries SET created_at = '2033-01-01 00:00:00' WHERE summary_id = '{other}'")
    return [edge(other, source)], {f"B14:1:summary:{source}"}


def condensed_over(path: Path, source: str):
    made = summary_row(
        path, NEW, kind="condensed", depth=9, conversation_id=1, created_at="2033-01-01 00:00:00"
    )
    return [insertion("summaries", made), edge(NEW, source)]


def b14_consumer_comes(path: Path):
    source = source_of(path, root(path))
    return [*condensed_over(path, source), splice(path, 1, 1, 0, NEW)], {f"B14:1:summary:{source}"}


def b14_consumer_comes_into_reach(path: Path):
    """It was there before, where no model reads it."""
    source = source_of(path, root(path))
    commit(path, plan_of(*condensed_over(path, source)), journal=False)
    return [splice(path, 1, 1, 0, NEW)], {f"B14:1:summary:{source}"}


def b15_link_comes(path: Path):
    message = covered_message(path)
    other = value(
        path,
        "SELECT summary_id FROM summary_messages WHERE summary_id <> ? AND summary_id IN "
        "(SELECT summary_id FROM summaries WHERE conversation_id = 1)",
        leaf_over(path, message),
    )
    return [link(other, message)], {f"B15:1:message:{message}"}


def b15_leaf_comes_below_what_is_read(path: Path):
    message = covered_message(path)
    commit(path, plan_of(new_leaf(path, created_at="2019-01-01 00:00:00"), link(NEW, message)), journal=False)
    deep = source_of(path, source_of(path, root(path)))
    return [edge(deep, NEW)], {f"B15:1:message:{message}"}


def e13(path: Path):
    message = value(
        path,
        """SELECT message_id FROM message_parts WHERE message_id NOT IN
        (SELECT message_id FROM summary_messages)
        AND message_id IN (SELECT message_id FROM context_items WHERE conversation_id = 1)""",
    )
    at = [ref for _, ref in context_of(path, 1)].index(message)
    return [splice(path, 1, at, 1), *delete(path, "messages", message_id=message)], {
        f"E13:-:message_parts.message_id:{message}"
    }


def g11(path: Path):
    named = value(path, "SELECT summary_id FROM focus_brief_sources")
    lines = [
        *delete(path, "summary_messages", summary_id=named),
        *delete(path, "summary_parents", summary_id=named),
        *delete(path, "summary_parents", parent_summary_id=named),
    ]
    before = {f"B2:1:summary:{row['summary_id']}" for row in consumers(path, named)}
    conversation, at = place_of(path, named)
    taken = [splice(path, conversation, at, 1)] if at is not None else []
    return [*taken, *lines, *delete(path, "summaries", summary_id=named)], {
        f"G11:-:focus_brief_sources.summary_id:{named}",
        *before,
    }


def consumers(path: Path, source: str) -> list[Cells]:
    return rows_of(
        path,
        """SELECT * FROM summary_parents AS e WHERE parent_summary_id = ?
        AND (SELECT count(*) FROM summary_parents AS o WHERE o.summary_id = e.summary_id) = 1""",
        source,
    )


def place_of(path: Path, summary_id: str) -> tuple[int, int | None]:
    conversation = value(path, "SELECT conversation_id FROM summaries WHERE summary_id = ?", summary_id)
    refs = [ref for _, ref in context_of(path, conversation)]
    return conversation, refs.index(summary_id) if summary_id in refs else None


def fk(path: Path):
    return [
        insertion("large_files", row_of(path, "large_files", "rowid", 1).but(file_id="f", conversation_id=77))
    ], {"FK:-:large_files.conversation_id:77"}


CASES = {
    case.__name__: case
    for case in (
        a1, a2, a3, a4, a5, a6_message_comes, a6_link_comes, a7_source_comes, a7_consumer_comes, a9, a11,
        b1, b2, b3, b4_source_goes, b4_edge_comes, b5, b6, b7_edge, b7_link, b8_leaf, b8_condensed, b9, b12,
        b13, b14_edge_comes, b14_consumer_comes, b14_consumer_comes_into_reach, b15_link_comes,
        b15_leaf_comes_below_what_is_read, e13, g11, fk,
    )
}  # fmt: skip


@pytest.mark.cases(3)
@pytest.mark.parametrize("case", CASES)
def test_what_would_add_an_error_is_refused_with_that_error(database_copy, case):
    path = database_copy("0.15.3")
    edits, expected = CASES[case](path)
    before = dump(path)
    with pytest.raises(WouldBreakError) as caught:
        commit(path, plan_of(*edits))
    assert caught.value.findings == expected
    assert caught.value.exit_code == ExitCode.REFUSED
    assert dump(path) == before
    assert value(path, "SELECT count(*) FROM sqlite_master WHERE name = 'lcm_tui_operations'") == 0
    assert any(f"({key.partition(':')[0]})" in caught.value.message for key in expected)


@pytest.mark.long
@pytest.mark.parametrize("case", sampled(CASES, [*CASES][::3]))
def test_what_a_plan_means_to_leave_is_let_through_and_what_removes_it_can_be_undone(database_copy, case):
    """The damage is made with leave; taking that back removes it, and undoing that brings it back."""
    path = database_copy("0.15.3")
    edits, expected = CASES[case](path)
    healthy = dump(path)
    damage = commit(path, plan_of(*edits, allows=expected))
    damaged = dump(path)
    mended = commit(path, asyncio.run(planned(path, plan_undo, damage.id)))
    assert dump(path) == healthy
    assert mended.operation is not None
    assert mended.operation.removed == expected
    undo = asyncio.run(planned(path, plan_undo, mended.id))
    assert undo.allows == expected
    commit(path, undo)
    assert dump(path) == damaged


@pytest.mark.cases(4)
@pytest.mark.parametrize("case", CASES)
def test_an_error_that_is_there_already_is_in_nobodys_way(database_copy, case):
    """A change of the same rows that leaves the damage as it is."""
    path = database_copy("0.15.3")
    edits, expected = CASES[case](path)
    commit(path, plan_of(*edits, allows=expected))
    top = root(path) or leaf(path)
    again = plan_of(update(path, "summaries", "summary_id", top, file_ids='["file_0000000000000001"]'))
    commit(path, again)


def test_taking_out_one_of_three_leaves_two(database_copy):
    path = database_copy("0.15.3")
    message = message_in_context(path)
    plan = plan_of(splice(path, 1, end(path), 0, message), allows={f"A4:1:message:{message}"})
    commit(path, plan)
    again = plan_of(splice(path, 1, end(path), 0, message))
    commit(path, again)  # it stands twice already: nothing new
    refs = [ref for _, ref in context_of(path, 1)]
    assert refs.count(message) == 3
    one = commit(path, plan_of(splice(path, 1, end(path) - 1, 1)))
    assert one.operation is not None
    assert not one.operation.removed
    two = commit(path, plan_of(splice(path, 1, end(path) - 1, 1)))
    assert two.operation is not None
    assert two.operation.removed == {f"A4:1:message:{message}"}


@pytest.mark.long
def test_what_was_read_raw_and_summarised_may_be_read_in_two_summaries(database_copy):
    """Compacting what an earlier sweep left behind is no new damage: the model reads it twice as before."""
    path = database_copy("0.15.3")
    message = covered_message(path)
    commit(path, plan_of(splice(path, 1, 4, 0, message), allows={f"A6:1:message:{message}"}))
    before = dump(path)
    made = commit(path, plan_of(new_leaf(path), link(NEW, message), splice(path, 1, 4, 1, NEW)))
    assert made.operation is not None
    assert made.operation.removed == {f"A6:1:message:{message}"}
    commit(path, asyncio.run(planned(path, plan_undo, made.id)))
    assert dump(path) == before


def test_a_summary_that_comes_back_to_its_own_sources_is_nobodys_second(database_copy):
    """Dissolved and condensed again: the first stays in the DAG, where no model reads it."""
    path = database_copy("0.15.3")
    top = root(path)
    sources = column(
        path, "SELECT parent_summary_id FROM summary_parents WHERE summary_id = ? ORDER BY ordinal", top
    )
    commit(path, plan_of(splice(path, 1, 0, 1, *sources)))
    made = condensed_over(path, sources[0])
    more = [edge(NEW, source, at) for at, source in enumerate(sources[1:], 60)]
    done = commit(path, plan_of(*made, *more, splice(path, 1, 0, len(sources), NEW)))
    with pytest.raises(WouldBreakError) as caught:
        commit(path, plan_of(splice(path, 1, 1, 0, top)))
    assert caught.value.findings == {f"B14:1:summary:{source}" for source in sources}
    commit(path, asyncio.run(planned(path, plan_undo, done.id)))


def test_the_order_of_a_context_may_change(database_copy):
    path = database_copy("0.15.3")
    refs = [ref for _, ref in context_of(path, 1)]
    before = dump(path)
    listing, rows = listing_of(path, 1)
    from lcm_core.change.place import splice_at

    plan = plan_of(splice_at(listing, 1, 2, rows[2:6], rows[2:6][::-1]))
    done = commit(path, plan)
    assert [ref for _, ref in context_of(path, 1)] == [*refs[:2], *refs[2:6][::-1], *refs[6:]]
    commit(path, asyncio.run(planned(path, plan_undo, done.id)))
    assert dump(path) == before


def test_gaps_are_closed_and_opened_again(database_copy):
    path = database_copy("0.15.3")
    run(path, "UPDATE context_items SET ordinal = ordinal + 7 WHERE conversation_id = 1 AND ordinal = 21")
    before = dump(path)
    last = context_of(path, 1)[-1]
    done = commit(path, plan_of(renumbering(1, (Move(Item(last[1]), last[0], 21),))))
    assert [ordinal for ordinal, _ in context_of(path, 1)] == list(range(22))
    commit(path, asyncio.run(planned(path, plan_undo, done.id)))
    assert dump(path) == before


def test_a_summary_may_give_way_to_what_covers_the_same(database_copy):
    """Messages instead of their leaf: nothing is lost, so nothing is refused."""
    path = database_copy("0.15.3")
    with connect(path) as connection:
        [(conversation, summary)] = connection.execute(
            """SELECT c.conversation_id, c.summary_id FROM context_items AS c JOIN summaries AS s
            USING (summary_id) WHERE s.kind = 'leaf' LIMIT 1"""
        ).fetchall()
        messages = [
            row[0]
            for row in connection.execute(
                "SELECT message_id FROM summary_messages WHERE summary_id = ? ORDER BY ordinal", (summary,)
            )
        ]
    at = [ref for _, ref in context_of(path, conversation)].index(summary)
    commit(path, plan_of(splice(path, conversation, at, 1, *messages)))
    lost = splice(path, conversation, at, 1)
    with pytest.raises(WouldBreakError):
        commit(path, plan_of(*delete(path, "summary_messages", summary_id=summary), lost))
