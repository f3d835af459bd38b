"""Dissolving gives a summary's place back to its sources, all of it or nothing, and says why it would not."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from lcm_core.api import (
    DatabaseError,
    NotFoundError,
    Options,
    RefusedError,
    plan_dissolve,
    plan_undo,
    resolve,
)
from lcm_core.change.commit import commit
from lcm_core.change.plan import Splice
from lcm_core.operations.assembly import assemble_context, settings_for

from tests.change.oracle import Whole
from tests.change.support import (
    REAL,
    allowed,
    changed,
    context_of,
    dissolvable,
    dump,
    planned,
    reading,
    search_faults,
    sources,
    undo,
)
from tests.databases import column, connect, run, value
from tests.support import recorded, sampled

NOW = datetime(2026, 3, 6, 12, tzinfo=UTC)


def plan(path: Path, conversation: int, *summaries: str, **options: Any):
    return asyncio.run(planned(path, plan_dissolve, conversation, summaries, now=NOW, **options))


# -- what it does ----------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("version", sampled(REAL, ("0.1.2", "0.15.3")))
def test_every_summary_that_can_be_dissolved_gives_way_to_its_sources(database_copy, version):
    path = database_copy(version)
    before, whole = dump(path), Whole(path)
    done = []
    for conversation, summary in dissolvable(path):
        refs = [ref for _, ref in context_of(path, conversation)]
        at, restored = refs.index(summary), sources(path, summary)
        made = plan(path, conversation, summary)
        assert made.select == restored[0]
        done.append(commit(path, made).id)
        items = context_of(path, conversation)
        assert [ref for _, ref in items] == [*refs[:at], *restored, *refs[at + 1 :]]
        assert [ordinal for ordinal, _ in items] == list(range(len(items)))
    assert Whole(path).errors() == whole.errors()
    assert {one for one in Whole(path).uncovered() if isinstance(one, int)} <= whole.uncovered()
    assert search_faults(path) == []
    for operation in reversed(done):
        undo(path, operation)
    assert dump(path) == before
    assert search_faults(path) == []


def test_new_items_bear_the_time_of_the_plan(database_copy):
    path = database_copy("0.15.3")
    conversation, summary = dissolvable(path)[0]
    restored = sources(path, summary)
    commit(path, plan(path, conversation, summary))
    stamps = {
        value(path, "SELECT created_at FROM context_items WHERE summary_id = ?", one) for one in restored
    }
    assert stamps == {"2026-03-06 12:00:00"}


def test_what_an_active_brief_replaces_is_dissolved_without_a_change_of_what_is_sent(database_copy):
    path = database_copy("0.15.3")
    conversation, summary = next(one for one in dissolvable(path) if one[0] == 2)
    said = (
        "The active focus brief replaces this summary and its sources: what the model is sent stays the same"
    )

    async def sent(reader):
        engine = resolve(Options(), {}, home=Path("/nonexistent")).engine
        found = await assemble_context(reader, conversation, settings_for(engine, 128_000), zone=UTC)
        return [(one.role, one.content) for one in found.messages]

    made = plan(path, conversation, summary)
    assert any(one.startswith(said) for one in made.warnings)
    before = asyncio.run(reading(path, sent))
    assert before
    done = commit(path, made)
    assert asyncio.run(reading(path, sent)) == before
    undo(path, done.id)
    run(path, "UPDATE focus_briefs SET status = 'inactive' WHERE status = 'active'")
    assert not any(one.startswith(said) for one in plan(path, conversation, summary).warnings)


@pytest.mark.long
def test_every_trace_of_the_node_goes(database_copy):
    """Edges, links, brief sources, and what tables of other versions say of it."""
    path = database_copy("0.15.3")
    conversation, summary = dissolvable(path)[0]
    covered = value(path, "SELECT message_id FROM summary_messages")
    run(
        path,
        f"INSERT INTO summary_messages VALUES ('{summary}', {covered}, 0)",
        f"""INSERT INTO focus_brief_sources (brief_id, summary_id, ordinal, role)
        SELECT brief_id, '{summary}', 0, 'cited' FROM focus_briefs LIMIT 1""",
        """CREATE TABLE later_nodes (node_id TEXT PRIMARY KEY, canonical_summary_id TEXT
        REFERENCES summaries(summary_id) ON DELETE SET NULL)""",
        """CREATE TABLE later_children (node_id TEXT, child_summary_id TEXT
        REFERENCES summaries(summary_id) ON DELETE CASCADE)""",
        f"INSERT INTO later_nodes VALUES ('node', '{summary}'), ('other', NULL)",
        f"INSERT INTO later_children VALUES ('node', '{summary}')",
    )
    before = dump(path)
    done = allowed(lambda: commit(path, plan(path, conversation, summary)))
    with connect(path) as connection:
        tables = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for table in tables:
            if table == "lcm_tui_operations":
                continue
            for row in connection.execute(f'SELECT * FROM "{table}"'):
                assert summary not in row, table
    assert value(path, "SELECT count(*) FROM later_nodes") == 2
    assert done.search is None
    undo(path, done.id)
    assert dump(path) == before


@pytest.mark.long
def test_what_the_engine_prepared_from_a_node_goes_with_it_and_comes_back(database_copy):
    """A node of an ended batch that names the summary (RESTRICT), and the one that became it (SET NULL)."""
    path = database_copy("1.0-next")
    conversation, summary = dissolvable(path)[0]
    active = value(path, "SELECT batch_id FROM pending_compaction_batches WHERE status = 'planning'")
    run(
        path,
        f"""INSERT INTO pending_summary_node_children (node_id, ordinal, child_summary_id)
        SELECT node_id, 99, '{summary}' FROM pending_summary_nodes WHERE batch_id = '{active}' LIMIT 1""",
    )
    with pytest.raises(RefusedError, match=rf"preparing a compaction with it .batch {active}, planning"):
        plan(path, conversation, summary)
    run(path, f"UPDATE pending_compaction_batches SET status = 'stale' WHERE batch_id = '{active}'")
    before = dump(path)
    done = commit(path, plan(path, conversation, summary))
    assert active not in column(path, "SELECT batch_id FROM pending_compaction_batches")
    assert column(path, "SELECT canonical_summary_id FROM pending_summary_nodes") != [summary]
    commit(path, asyncio.run(planned(path, plan_undo, done.id)))
    assert changed(before, dump(path)) == set()


@pytest.mark.parametrize(
    ("named", "statements"),
    [
        (
            "notes.summary_id, which lcm-tui does not know, refers to it (ON DELETE RESTRICT)",
            [
                "CREATE TABLE notes (summary_id TEXT REFERENCES summaries(summary_id) ON DELETE RESTRICT)",
                "INSERT INTO notes VALUES ('{summary}')",
            ],
        ),
        (
            "conversations.pinned, which lcm-tui does not know, refers to it (ON DELETE NO ACTION)",
            [
                "ALTER TABLE conversations ADD COLUMN pinned TEXT REFERENCES summaries",
                "UPDATE conversations SET pinned = '{summary}' WHERE conversation_id = {owner}",
            ],
        ),
    ],
)
def test_an_unknown_column_that_forbids_the_deletion_is_named_and_the_summary_can_be_kept(
    database_copy, named: str, statements: list[str]
):
    path = database_copy("0.15.3")
    conversation, summary = dissolvable(path)[0]
    run(path, *(one.format(summary=summary, owner=conversation) for one in statements))
    with pytest.raises(RefusedError) as told:
        allowed(lambda: plan(path, conversation, summary))
    assert named in told.value.message
    assert "--keep" in told.value.message
    assert told.value.code == "SCHEMA_UNKNOWN"
    commit(path, plan(path, conversation, summary, keep=True))


def test_a_node_that_is_kept_stays_in_the_dag(database_copy):
    path = database_copy("0.15.3")
    before = dump(path)
    conversation, summary = dissolvable(path)[0]
    made = plan(path, conversation, summary, keep=True)
    assert [type(edit) for edit in made.edits] == [Splice]
    assert "kept" in made.title
    done = commit(path, made)
    after = dump(path)
    assert {table for table in before if before[table] != after[table]} == {"context_items"}
    assert sources(path, summary)
    undo(path, done.id)
    assert dump(path) == before


@pytest.mark.long
@pytest.mark.parametrize("levels", [2, 99])
def test_several_levels_go_at_once(database_copy, levels):
    path = database_copy("0.15.3")
    before = dump(path)
    conversation, summary = dissolvable(path)[0]
    wanted = [summary]
    for _ in range(levels):
        wanted = [below for one in wanted for below in (sources(path, one) if depth(path, one) else [one])]
    refs = [ref for _, ref in context_of(path, conversation)]
    done = commit(path, plan(path, conversation, summary, levels=levels))
    assert [ref for _, ref in context_of(path, conversation)] == [*wanted, *refs[1:]]
    assert Whole(path).errors() == set()
    undo(path, done.id)
    assert dump(path) == before


def depth(path: Path, summary: str) -> int:
    return value(path, "SELECT depth FROM summaries WHERE summary_id = ?", summary)


def test_a_chosen_set_goes_at_once(database_copy):
    """A root, one of its two sources, and another root."""
    path = database_copy("0.15.3")
    before = dump(path)
    (conversation, first), (_, second) = dissolvable(path)[:2]
    upper, lower = sources(path, first)
    made = plan(path, conversation, lower, second, first)
    expected = [upper, *sources(path, lower), *sources(path, second)]
    rest = [ref for _, ref in context_of(path, conversation)][2:]
    assert len([edit for edit in made.edits if isinstance(edit, Splice)]) == 2
    done = commit(path, made)
    assert [ref for _, ref in context_of(path, conversation)] == [*expected, *rest]
    assert made.select == upper
    undo(path, done.id)
    assert dump(path) == before


def test_a_broken_source_that_comes_back_is_a_warning(database_copy):
    path = database_copy("0.15.3")
    assert plan(path, 1, "sum_4c4bd5292abfa225").warnings == (
        "sum_e2c12a356775e203 (fallback) is broken; it will be in the context again: repair it with R "
        "(`lcm-tui repair`), which drafts a new text",
    )
    with connect(path) as connection:
        connection.execute("UPDATE summaries SET content = 'ok' WHERE summary_id = 'sum_e2c12a356775e203'")
    assert plan(path, 1, "sum_4c4bd5292abfa225").warnings == ()


def test_a_budget_that_would_be_exceeded_is_a_warning(database_copy):
    path = database_copy("0.15.3")
    conversation, summary = dissolvable(path)[0]
    made = plan(path, conversation, summary, budget=1)
    done = commit(path, made)
    after = value(
        path,
        """SELECT sum(coalesce(s.token_count, m.token_count)) FROM context_items AS c
        LEFT JOIN summaries AS s USING (summary_id) LEFT JOIN messages AS m USING (message_id)
        WHERE c.conversation_id = ?""",
        conversation,
    )
    assert [warning for warning in made.warnings if f"{after:,} tokens" in warning]
    undo(path, done.id)
    assert not any(
        "exceed" in warning for warning in plan(path, conversation, summary, budget=after).warnings
    )
    assert any(
        "exceed" in warning for warning in plan(path, conversation, summary, budget=after - 1).warnings
    )


# -- what it refuses -------------------------------------------------------------------------------------


def test_a_refusal_names_what_can_be_dissolved_instead(database_copy):
    path = database_copy("0.15.3")
    within = next(
        (summary, source)
        for conversation, summary in dissolvable(path)
        if conversation == 1
        for source in sources(path, summary)
        if sources(path, source)
    )
    held, below = within
    with pytest.raises(RefusedError, match=f"Summary {below} is not in the .*`lcm-tui dissolve {held}`."):
        plan(path, 1, below)


DAMAGE: dict[str, tuple[list[str], str]] = {
    "not in the context": (
        ["DELETE FROM context_items WHERE summary_id = '{summary}'"],
        "is not in the context of conversation 1",
    ),
    "in the context twice": (
        [
            """INSERT INTO context_items (conversation_id, ordinal, item_type, summary_id)
            VALUES (1, 900, 'summary', '{summary}')"""
        ],
        "is 2 times in the context",
    ),
    "a leaf": (["UPDATE summaries SET kind = 'leaf' WHERE summary_id = '{summary}'"], "is a leaf"),
    "no sources": (["DELETE FROM summary_parents WHERE summary_id = '{summary}'"], "has no sources"),
    "a source row is missing": (
        ["DELETE FROM summaries WHERE summary_id = '{source}'"],
        "Source {source} of summary {summary} is missing",
    ),
    "a source is in the context": (
        [
            """INSERT INTO context_items (conversation_id, ordinal, item_type, summary_id)
            VALUES (1, 900, 'summary', '{source}')"""
        ],
        "Source {source} of summary {summary} is already in the context",
    ),
    "a source belongs to another conversation": (
        ["UPDATE summaries SET conversation_id = 2 WHERE summary_id = '{source}'"],
        "belongs to conversation 2",
    ),
    "another summary is made from it": (
        [
            """INSERT INTO summaries (summary_id, conversation_id, kind, depth, content, token_count)
            VALUES ('sum_over', 1, 'condensed', 9, 'x', 1)""",
            "INSERT INTO summary_parents VALUES ('sum_over', '{summary}', 0)",
        ],
        "Summary sum_over is made from {summary}",
    ),
    "it is its own source": (
        ["INSERT INTO summary_parents VALUES ('{summary}', '{summary}', 9)"],
        "cycle",
    ),
    "it alone covers a message": (
        [
            """INSERT INTO messages (conversation_id, seq, role, content, token_count)
            VALUES (1, 9000, 'user', 'x', 1)""",
            "INSERT INTO summary_messages SELECT '{summary}', max(message_id), 0 FROM messages",
        ],
        "alone covers message",
    ),
    "another conversation's": (
        ["UPDATE summaries SET conversation_id = 2 WHERE summary_id = '{summary}'"],
        "belongs to conversation 2, not to 1",
    ),
}


@pytest.mark.cases(2)
@pytest.mark.parametrize("case", DAMAGE)
def test_it_is_refused_with_the_reason(database_copy, case):
    path = database_copy("0.15.3")
    conversation, summary = dissolvable(path)[0]
    names = {"summary": summary, "source": sources(path, summary)[0]}
    statements, said = DAMAGE[case]
    run(path, *(statement.format(**names) for statement in statements))
    before = dump(path)
    with pytest.raises(RefusedError) as caught:
        plan(path, conversation, summary)
    assert said.format(**names) in caught.value.message
    assert caught.value.message.endswith(".")
    assert dump(path) == before


def test_keeping_it_is_possible_where_another_summary_is_made_from_it(database_copy):
    path = database_copy("0.15.3")
    conversation, summary = dissolvable(path)[0]
    statements, _ = DAMAGE["another summary is made from it"]
    run(path, *(statement.format(summary=summary) for statement in statements))
    commit(path, plan(path, conversation, summary, keep=True))
    assert sources(path, "sum_over") == [summary]


@pytest.mark.parametrize(
    ("conversation", "summary", "kind"),
    [
        (99, "{known}", NotFoundError),
        (1, "sum_0000000000000000", NotFoundError),
        (2, "{known}", RefusedError),
    ],
)
def test_what_is_not_there_is_told(database_copy, conversation, summary, kind):
    path = database_copy("0.15.3")
    with pytest.raises(kind) as caught:
        plan(path, conversation, summary.format(known=dissolvable(path)[0][1]))
    assert caught.value.message.endswith(".")


@pytest.mark.parametrize("summaries", [[], ["{below}"], ["{root}", "{elsewhere}"]])
def test_a_set_must_hang_together(database_copy, summaries):
    path = database_copy("0.15.3")
    conversation, root = dissolvable(path)[0]
    names = {
        "root": root,
        "below": sources(path, root)[0],
        "elsewhere": sources(path, dissolvable(path)[1][1])[0],
    }
    with pytest.raises(RefusedError):
        plan(path, conversation, *(one.format(**names) for one in summaries))


def test_no_level_at_all_is_refused(database_copy):
    path = database_copy("0.15.3")
    conversation, summary = dissolvable(path)[0]
    with pytest.raises(RefusedError):
        plan(path, conversation, summary, levels=0)


def test_a_source_that_two_of_them_share_is_refused(database_copy):
    """A diamond would bring it back twice."""
    path = database_copy("0.15.3")
    conversation, root = dissolvable(path)[0]
    first, second = sources(path, root)
    shared = sources(path, first)[0]
    run(path, f"INSERT INTO summary_parents VALUES ('{second}', '{shared}', 9)")
    with pytest.raises(RefusedError, match=f"{shared} would be in the context twice"):
        plan(path, conversation, root, levels=2)
    commit(path, plan(path, conversation, root))


@pytest.mark.parametrize("table", ["summaries", "summary_parents", "summary_messages", "context_items"])
def test_a_schema_without_the_tables_is_told_in_a_sentence(database_copy, table):
    path = database_copy("0.15.3")
    conversation, summary = dissolvable(path)[0]
    run(path, f"DROP TABLE {table}")
    if table == "summary_messages":  # no part of this plan; but a commit proves what summaries cover
        with pytest.raises(DatabaseError, match=r"lacks a part .*\(summary_messages\)"):
            commit(path, plan(path, conversation, summary))
        return
    with pytest.raises(RefusedError, match=rf"has no table {table}.*Restore a backup"):
        plan(path, conversation, summary)


# -- against the Go tool --------------------------------------------------------------

RECORDED = recorded("go-dissolve.json.gz")
APPLIED = [
    (version, name)
    for version, cases in RECORDED.items()
    for name, calls in cases.items()
    if name != "dissolve-errors" and calls[-1]["diff"]
]


def unlike(path: Path, *tables: str) -> dict[str, list[dict[str, Any]]]:
    """All rows of some tables as dictionaries."""
    found = {}
    with connect(path) as connection:
        for table in tables:
            cursor = connection.execute(f"SELECT * FROM {table}")
            names = [one[0] for one in cursor.description]
            found[table] = [dict(zip(names, row, strict=True)) for row in cursor]
    return found


def comparable(rows: list[dict[str, Any]], fresh: set[str]) -> list[list[tuple[str, str]]]:
    """Rows without the clock of items that came back."""
    return sorted(
        sorted(
            (name, repr(cell))
            for name, cell in row.items()
            if not (name == "created_at" and row.get("summary_id") in fresh and "ordinal" in row)
        )
        for row in rows
    )


@pytest.mark.long
@pytest.mark.parametrize("case", sampled(APPLIED, APPLIED[::4]), ids="-".join)
def test_the_rows_are_those_of_the_go_tool(database_copy, case):
    version, name = case
    """But for clocks, and for what it forgets: the search tables."""
    path = database_copy(version)
    call = RECORDED[version][name][-1]
    conversation, summary = int(call["args"][1]), call["args"][3]
    keep = "--purge=false" in call["args"]
    fresh = set(sources(path, summary))
    tables = ("context_items", "summaries", "summary_parents", "summary_messages", "messages")
    expected = unlike(path, *tables)
    for table, difference in call["diff"].items():
        rows = [row for row in expected[table] if row not in difference["removed"]]
        assert len(rows) == len(expected[table]) - len(difference["removed"])
        expected[table] = [*rows, *difference["added"]]
    before = dump(path)
    done = commit(path, plan(path, conversation, summary, keep=keep))
    after = unlike(path, *tables)
    for table in tables:
        assert comparable(after[table], fresh) == comparable(expected[table], fresh), table
    assert search_faults(path) == []
    undo(path, done.id)
    assert dump(path) == before


def test_the_go_tool_was_asked_for_enough():
    assert len(APPLIED) == 12
    assert sum("--purge=false" in RECORDED[version][name][-1]["args"] for version, name in APPLIED) == 6


@pytest.mark.parametrize("version", RECORDED)
def test_what_the_go_tool_refuses_is_refused(database_copy, version):
    path = database_copy(version)
    calls = [call["args"] for call in RECORDED[version]["dissolve-errors"] if "--summary-id" in call["args"]]
    assert len(calls) >= 4
    for args in calls:
        with pytest.raises((RefusedError, NotFoundError)):
            plan(path, int(args[1]), args[3])
