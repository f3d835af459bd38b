"""The journal keeps what is needed to take any operation back, and says why when it cannot be taken back."""

from __future__ import annotations

import asyncio
import base64
import os
import stat
import zlib
from pathlib import Path

import pytest
from lcm_core import __version__
from lcm_core.api import (
    Database,
    ExitCode,
    NotFoundError,
    Reader,
    RefusedError,
    StalePlanError,
    plan_dissolve,
    plan_redo,
    plan_undo,
)
from lcm_core.change import journal as exports
from lcm_core.change.commit import commit
from lcm_core.change.journal import DamagedRecordError, edits_of, get, operations
from lcm_core.change.plan import DiskFullError, Symbol, SymbolKind, WouldBreakError, insertion
from lcm_core.change.preview import preview_plan
from lcm_core.change.undo import NotUndoableError, latest, prune_history, undone_by

from tests.change.support import (
    REAL,
    context_of,
    delete,
    dissolvable,
    dump,
    plan_of,
    planned,
    reading,
    rows_of,
    search_faults,
    splice,
    undo,
    update,
)
from tests.databases import building, column, run, value

TABLE = "SELECT count(*) FROM sqlite_master WHERE name = 'lcm_tui_operations'"


def dissolve(path: Path, number: int = 0, **options: object):
    conversation, summary = dissolvable(path)[number]
    plan = asyncio.run(planned(path, plan_dissolve, conversation, [summary]))
    return commit(path, plan, **options)


def redo(path: Path, operation: str):
    return commit(path, asyncio.run(planned(path, plan_redo, operation)))


def listed(path: Path, **options: object):
    return asyncio.run(reading(path, lambda reader: reader.run(operations, **options)))


def effective(path: Path, operation: str) -> bool:
    return asyncio.run(reading(path, lambda reader: undone_by(reader, operation))) is None


# -- the table -------------------------------------------------------------------------------------------


@pytest.mark.cases(1)
@pytest.mark.parametrize("version", REAL)
def test_the_table_comes_with_the_first_commit_and_not_with_browsing(database_copy, version):
    path = database_copy(version)
    before = path.read_bytes()
    conversation, summary = dissolvable(path)[0]
    assert listed(path) == []
    with pytest.raises(NotFoundError):
        asyncio.run(planned(path, plan_undo, "op_0000000000000000"))
    plan = asyncio.run(planned(path, plan_dissolve, conversation, [summary]))
    asyncio.run(reading(path, lambda reader: preview_plan(reader, plan)))
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]
    commit(path, plan)
    assert value(path, TABLE) == 1


def test_an_operation_says_what_it_did(database_copy):
    path = database_copy("0.15.3")
    total = """SELECT sum(token_count) FROM context_items JOIN summaries USING (summary_id)
        WHERE context_items.conversation_id = 1"""
    tokens = value(path, total)
    done = dissolve(path)
    after = value(path, total)
    [operation] = listed(path)
    assert operation == done.operation
    assert operation.id.startswith("op_")
    assert len(operation.id) == 19
    assert operation.kind == "dissolve"
    assert operation.conversation_id == 1
    assert operation.title.startswith("Dissolve summary sum_")
    assert operation.tool_version == __version__
    assert operation.tokens == done.tokens == after - tokens
    assert operation.undone_by is None
    assert {count.table for count in operation.rows} == {"context_items", "summaries", "summary_parents"}


def test_operations_are_listed_newest_first_and_page_by_page(database_copy):
    path = database_copy("0.15.3")
    done = [dissolve(path).id, dissolve(path, -1).id]
    done.append(undo(path, done[0]).id)
    newest = listed(path, limit=2)
    assert [one.id for one in newest] == [done[2], done[1]]
    assert [one.id for one in listed(path, below=newest[-1].place)] == [done[0]]
    other = dissolvable(path)[-1][0]
    assert all(one.conversation_id == other for one in listed(path, conversation_id=other))


def test_a_commit_that_fails_makes_no_table(database_copy):
    path = database_copy("0.15.3")
    conversation, summary = dissolvable(path)[0]
    plan = asyncio.run(planned(path, plan_dissolve, conversation, [summary]))
    run(path, f"DELETE FROM context_items WHERE summary_id = '{summary}'")
    with pytest.raises(StalePlanError):
        commit(path, plan)
    assert value(path, TABLE) == 0


# -- undo and redo ---------------------------------------------------------------------------------------


@pytest.mark.long
def test_undo_is_an_operation_and_can_be_undone_again_and_again(database_copy):
    path = database_copy("0.15.3")
    before = dump(path)
    first = dissolve(path)
    after = dump(path)
    for _ in range(3):
        assert effective(path, first.id)
        undone = undo(path, first.id)
        assert dump(path) == before
        assert not effective(path, first.id)
        assert asyncio.run(reading(path, lambda reader: undone_by(reader, first.id))) == undone.id
        assert undone.operation is not None
        assert undone.operation.title == f"Undo: {first.operation.title}"
        redone = redo(path, first.id)
        assert dump(path) == after
        assert redone.operation is not None
        assert redone.operation.undoes == undone.id
    assert search_faults(path) == []
    chain = listed(path)[::-1]
    assert [one.undone_by for one in chain] == [*(one.id for one in chain[1:]), None]


def test_what_is_undone_is_not_undone_twice(database_copy):
    path = database_copy("0.15.3")
    first = dissolve(path)
    with pytest.raises(RefusedError, match="in effect"):
        redo(path, first.id)
    second = undo(path, first.id)
    with pytest.raises(RefusedError, match=f"was undone by {second.id}"):
        undo(path, first.id)


def test_two_that_undo_the_same_do_not_both_succeed(database_copy):
    path = database_copy("0.15.3")
    run(path, "DELETE FROM conversation_bootstrap_state WHERE conversation_id = 2")
    first = commit(path, plan_of(update(path, "conversations", "conversation_id", 1, title="t")))
    plan = asyncio.run(planned(path, plan_undo, first.id))
    commit(path, plan)
    run(path, "UPDATE conversations SET title = 't' WHERE conversation_id = 1")
    with pytest.raises(StalePlanError, match="undone already"):
        commit(path, plan)


@pytest.mark.long
def test_operations_are_undone_in_any_order(database_copy):
    path = database_copy("0.15.3")
    before = dump(path)
    done = [dissolve(path, number).id for number in (0, 3, 5)]
    for operation in (done[1], done[0], done[2]):
        undo(path, operation)
    assert dump(path) == before


@pytest.mark.long
def test_the_one_that_was_undone_last_is_found(database_copy):
    path = database_copy("0.15.3")
    one, two, three = [dissolve(path, number).id for number in (0, 3, 5)]

    def last(undone: bool) -> str:
        return asyncio.run(reading(path, lambda reader: latest(reader, undone=undone))).id

    assert last(undone=False) == three
    for operation in (one, three, two):
        undo(path, operation)
        assert last(undone=True) == operation
    redo(path, two)
    assert (last(undone=False), last(undone=True)) == (two, three)


@pytest.mark.long
def test_an_operation_on_top_is_undone_first(database_copy):
    path = database_copy("0.15.3")
    before = dump(path)
    first = dissolve(path)
    restored = context_of(path, 1)[0][1]
    conversation, below = 1, str(restored)
    second = commit(path, asyncio.run(planned(path, plan_dissolve, conversation, [below])))
    with pytest.raises(NotUndoableError) as caught:
        undo(path, first.id)
    assert [one.id for one in caught.value.dependents] == [second.id]
    assert second.id in caught.value.message
    assert "no longer in the context" in caught.value.moved[0].text
    assert caught.value.exit_code == ExitCode.REFUSED
    assert caught.value.moved
    undo(path, second.id)
    undo(path, first.id)
    assert dump(path) == before


def test_undo_waits_for_nobody_and_finds_its_place_again(database_copy):
    """The host appends, compacts something else and prunes, and the dissolve is still undone at its place."""
    path = database_copy("0.15.3")
    first = dissolve(path)
    restored = [ref for _, ref in context_of(path, 1)][:2]
    last = context_of(path, 1)[-1]
    with building(path) as rows:
        rows.message(1, "x")
    run(
        path,
        f"DELETE FROM context_items WHERE conversation_id = 1 AND ordinal = {last[0] - 3}",
        "UPDATE context_items SET ordinal = ordinal + 100 WHERE conversation_id = 1 AND ordinal > 5",
    )
    items = context_of(path, 1)
    undo(path, first.id)
    after = context_of(path, 1)
    rest = [ref for _, ref in items if ref not in restored]
    assert [ref for _, ref in after] == [dissolvable(path)[0][1], *rest]
    assert [ordinal for ordinal, _ in after[1:]] == [ordinal - 1 for ordinal, _ in items[2:]]


CHANGED_SINCE = {
    "the id was taken": (
        """INSERT INTO summaries (summary_id, conversation_id, kind, content, token_count)
        VALUES ('{gone}', 1, 'leaf', 'another', 1)""",
        "summaries {gone} was not there, now there",
    ),
    "a source went from the context": (
        "DELETE FROM context_items WHERE summary_id = '{source}'",
        "no longer in the context",
    ),
    "a column went": ("ALTER TABLE summaries DROP COLUMN model", "column summaries.model"),
}


@pytest.mark.cases(2)
@pytest.mark.parametrize("case", CHANGED_SINCE)
def test_what_has_changed_since_is_said(database_copy, case):
    path = database_copy("0.15.3")
    gone = dissolvable(path)[0][1]
    first = dissolve(path)
    names = {"gone": gone, "source": context_of(path, 1)[0][1]}
    statement, said = CHANGED_SINCE[case]
    run(path, statement.format(**names))
    with pytest.raises(NotUndoableError) as caught:
        undo(path, first.id)
    assert said.format(**names) in caught.value.message
    assert caught.value.message.endswith(".")


def test_an_undo_that_would_break_what_was_built_since_is_refused(database_copy):
    """A row that the operation made has a part under it by now, which the undo would leave without it."""
    path = database_copy("0.15.3")
    template = rows_of(path, "SELECT * FROM messages LIMIT 1")[0]
    row = template.but(
        message_id=Symbol("new:1", SymbolKind.ID),
        seq=Symbol("new:2", SymbolKind.SEQ),
        transcript_entry_id=None,
        stable_event_key=None,
    )
    made = commit(path, plan_of(insertion("messages", row)))
    run(
        path,
        """INSERT INTO message_parts (part_id, message_id, session_id, part_type, ordinal)
        SELECT 'part', max(message_id), 's', 'text', 0 FROM messages""",
    )
    with pytest.raises(WouldBreakError) as caught:
        undo(path, made.id)
    message = value(path, "SELECT max(message_id) FROM messages")
    assert caught.value.findings == {f"E13:-:message_parts.message_id:{message}"}
    run(path, "DELETE FROM message_parts WHERE part_id = 'part'")
    undo(path, made.id)


def test_an_undo_whose_sources_are_gone_is_refused(database_copy):
    path = database_copy("0.15.3")
    first = dissolve(path)
    source = context_of(path, 1)[0][1]
    run(path, f"DELETE FROM summaries WHERE summary_id = '{source}'")
    with pytest.raises(WouldBreakError) as caught:
        undo(path, first.id)
    assert caught.value.findings == {f"B4:-:summary_parents.parent_summary_id:{source}"}


def test_a_column_that_a_migration_added_takes_its_default_and_is_named(database_copy):
    path = database_copy("0.15.3")
    gone = dissolvable(path)[0][1]
    first = dissolve(path)
    run(
        path,
        "ALTER TABLE summaries ADD COLUMN mood TEXT DEFAULT 'calm'",
        "ALTER TABLE context_items ADD COLUMN weight INTEGER NOT NULL DEFAULT 7",
    )
    plan = asyncio.run(planned(path, plan_undo, first.id))
    shown = asyncio.run(reading(path, lambda reader: preview_plan(reader, plan)))
    assert [warning for warning in shown.warnings if "summaries.mood" in warning]
    assert [warning for warning in shown.warnings if "context_items.weight" in warning]
    undone = commit(path, plan)
    assert value(path, "SELECT mood FROM summaries WHERE summary_id = ?", gone) == "calm"
    assert value(path, "SELECT weight FROM context_items WHERE summary_id = ?", gone) == 7
    run(path, f"UPDATE summaries SET mood = 'angry' WHERE summary_id = '{gone}'")
    again = undo(path, undone.id)
    undo(path, again.id)
    assert value(path, "SELECT mood FROM summaries WHERE summary_id = ?", gone) == "angry"


def test_an_old_database_that_was_migrated_since_is_undone(database_copy):
    """0.3.0 becomes 0.15 between commit and undo: columns and tables come."""
    path = database_copy("0.3.0")
    gone = dissolvable(path)[0][1]
    first = dissolve(path)
    run(
        path,
        "ALTER TABLE summaries ADD COLUMN model TEXT NOT NULL DEFAULT 'unknown'",
        "ALTER TABLE conversations ADD COLUMN session_key TEXT",
        "CREATE TABLE focus_brief_sources (brief_id TEXT, summary_id TEXT, ordinal INTEGER, role TEXT)",
    )
    undo(path, first.id)
    assert value(path, "SELECT model FROM summaries WHERE summary_id = ?", gone) == "unknown"
    assert search_faults(path) == []


# -- exports ---------------------------------------------------------------------------------------------


def large_plan(path: Path):
    """All parts of a conversation, and a splice with symbols in it for good measure."""
    parts = delete(path, "message_parts", session_id=value(path, "SELECT session_id FROM message_parts"))
    items = context_of(path, 1)
    return plan_of(*parts, splice(path, 1, len(items) - 1, 1), allows={f"A11:1:message:{items[-1][1]}"})


@pytest.fixture
def small_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exports, "LIMIT_BYTES", 2_000)


@pytest.mark.long
def test_a_large_operation_keeps_its_edits_in_a_file_of_ones_own(database_copy, small_limit):
    path = database_copy("0.15.3")
    before = dump(path)
    done = commit(path, large_plan(path))
    assert done.operation is not None
    export = done.operation.export
    assert export is not None
    assert stat.S_IMODE(export.path.stat().st_mode) == 0o600
    assert export.path.stat().st_size > 2_000
    assert value(path, "SELECT edits FROM lcm_tui_operations") is None
    assert value(path, "SELECT length(resolution) FROM lcm_tui_operations") < 2_000
    assert asyncio.run(reading(path, lambda reader: reader.run(edits_of, done.operation))) == done.edits
    undone = commit(path, asyncio.run(planned(path, plan_undo, done.id)))
    assert dump(path) == before
    assert undone.operation is not None
    assert undone.operation.export is not None
    again = commit(path, asyncio.run(planned(path, plan_redo, done.id)))
    commit(path, asyncio.run(planned(path, plan_undo, again.id)))
    assert dump(path) == before


@pytest.mark.long
def test_more_than_eight_megabytes_are_exported(database_copy):
    path = database_copy("0.15.3")
    noise = base64.b85encode(os.urandom(8 * 1024 * 1024 + 4096)).decode()  # in no search table
    part = value(path, "SELECT min(part_id) FROM message_parts")
    run(path, f"UPDATE message_parts SET metadata = 'x' WHERE part_id = '{part}'")
    plan = plan_of(update(path, "message_parts", "part_id", part, metadata=noise))
    done = commit(path, plan)
    assert done.operation is not None
    assert done.operation.export is not None
    assert exports.LIMIT_BYTES == 8 * 1024 * 1024
    assert value(path, "SELECT length(coalesce(edits, '')) FROM lcm_tui_operations") == 0
    undo(path, done.id)
    assert value(path, "SELECT metadata FROM message_parts WHERE part_id = ?", part) == "x"


@pytest.mark.long
@pytest.mark.parametrize("damage", ["gone", "changed"])
def test_an_export_that_is_gone_or_changed_is_refused(database_copy, small_limit, damage):
    path = database_copy("0.15.3")
    done = commit(path, large_plan(path))
    after = dump(path)
    assert done.operation is not None
    assert done.operation.export is not None
    export = done.operation.export.path
    if damage == "gone":
        export.unlink()
    else:
        export.write_bytes(zlib.compress(b"[]"))
    with pytest.raises(RefusedError) as caught:
        undo(path, done.id)
    assert str(export) in caught.value.message
    assert dump(path) == after


def test_a_commit_that_fails_leaves_no_export(database_copy, small_limit):
    path = database_copy("0.15.3")
    plan = large_plan(path)
    run(path, "DELETE FROM message_parts")
    with pytest.raises(StalePlanError):
        commit(path, plan)
    assert list(exports.export_folder().iterdir()) == []


def test_an_export_that_cannot_be_written_changes_nothing(database_copy, tmp_path, small_limit, monkeypatch):
    path = database_copy("0.15.3")
    before = dump(path)
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "file"))
    with pytest.raises(DiskFullError, match="too large for the journal"):
        commit(path, large_plan(path))
    assert dump(path) == before


def test_a_damaged_record_is_refused_in_a_sentence(database_copy):
    path = database_copy("0.15.3")
    first = dissolve(path)
    for name, content in (("edits", "x'00'"), ("edits", "'text'"), ("resolution", "x'00'")):
        old = value(path, f"SELECT {name} FROM lcm_tui_operations")
        run(path, f"UPDATE lcm_tui_operations SET {name} = {content}")
        with pytest.raises(DamagedRecordError, match=rf"{first.id} \(row 1\) cannot be read"):
            undo(path, first.id)
        run(path, f"UPDATE lcm_tui_operations SET {name} = x'{old.hex()}'")
    run(path, "UPDATE lcm_tui_operations SET row_counts = 'x', removed_findings = '3'")
    assert (listed(path)[0].rows, listed(path)[0].removed) == ((), frozenset())
    undo(path, first.id)


# -- pruning ---------------------------------------------------------------------------------------------


@pytest.mark.long
def test_the_history_is_trimmed_from_its_old_end(database_copy, small_limit):
    path = database_copy("0.15.3")
    first = commit(path, large_plan(path))
    second = dissolve(path)
    third = undo(path, second.id)
    assert first.operation is not None
    assert first.operation.export is not None
    assert first.operation.export.path.exists()
    assert prune_history(path, keep=2) == 1
    assert [one.id for one in listed(path)] == [third.id, second.id]
    assert not first.operation.export.path.exists()
    with pytest.raises(NotFoundError):
        undo(path, first.id)
    assert prune_history(path, keep=1) == 0  # it is the undo of the one before
    undo(path, third.id)
    assert prune_history(path, before="2999-01-01 00:00:00") == 3
    assert listed(path) == []
    assert prune_history(path, keep=0) == 0


@pytest.mark.long
def test_a_change_that_was_redone_stays_the_latest_after_a_prune(database_copy):
    path = database_copy("0.15.3")
    dissolve(path, -1)
    first = dissolve(path)
    undo(path, first.id)
    redo(path, first.id)
    assert prune_history(path, keep=1) == 1
    assert len(listed(path)) == 3
    assert asyncio.run(reading(path, latest)).id == first.id
    undo(path, first.id)
    assert prune_history(path, keep=0) == 4


def test_what_was_forgotten_in_the_middle_is_said(database_copy):
    path = database_copy("0.15.3")
    first = dissolve(path)
    second = undo(path, first.id)
    run(path, f"DELETE FROM lcm_tui_operations WHERE id = '{second.id}'")
    with pytest.raises(RefusedError, match="no longer in the history"):
        redo(path, first.id)


def test_the_history_of_one_conversation_is_forgotten(database_copy):
    path = database_copy("0.15.3")
    first, last = dissolvable(path)[0][0], dissolvable(path)[-1][0]
    dissolve(path)
    dissolve(path, -1)
    assert prune_history(path, conversation_id=first) == 1
    assert {one.conversation_id for one in listed(path)} == {last}
    assert first != last


def test_a_file_without_a_history_is_left_alone(database_copy):
    path = database_copy("0.15.3")
    before = path.read_bytes()
    assert prune_history(path, keep=0) == 0
    assert path.read_bytes() == before


def test_the_engine_does_not_see_the_table(database_copy):
    """What an engine reads of a schema: tables and columns by name, and no number.

    Source: docs/spec/format.md, "The file itself".
    """
    path = database_copy("0.15.3")
    before = column(path, "SELECT name FROM sqlite_master ORDER BY name")
    dissolve(path)
    after = column(path, "SELECT name FROM sqlite_master ORDER BY name")
    assert set(after) - set(before) == {"lcm_tui_operations", "sqlite_autoindex_lcm_tui_operations_1"}
    assert value(path, "PRAGMA user_version") == 0
    assert value(path, "PRAGMA application_id") == 0
    assert column(path, "SELECT name FROM sqlite_master WHERE type IN ('trigger', 'view')") == []
    assert column(path, "SELECT \"table\" FROM pragma_foreign_key_list('lcm_tui_operations')") == []
    assert value(path, "PRAGMA foreign_key_check") is None

    async def versions(reader):
        return reader.schema.version, reader.schema.missing

    assert asyncio.run(reading(path, versions))[1] == ()


async def test_one_operation_is_read_by_its_id(database_copy):
    path = database_copy("0.15.3")
    done = await asyncio.to_thread(dissolve, path)
    async with await Database.open(path) as database:
        assert await database.read(Reader.run, get, done.id) == done.operation
        with pytest.raises(NotFoundError) as caught:
            await database.read(Reader.run, get, "op_nothing")
    assert caught.value.exit_code == ExitCode.NOT_FOUND
