"""Whole conversations archived, deleted in pieces, exported, imported again, and forgotten."""

from __future__ import annotations

import asyncio
import json
import re
import stat
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from lcm_core.api import (
    Database,
    NotFoundError,
    RefusedError,
    StalePlanError,
    plan_archive,
    plan_dissolve,
    plan_transplant,
    plan_undo_batch,
)
from lcm_core.base.errors import CancelledError
from lcm_core.base.values import replace
from lcm_core.change.commit import commit
from lcm_core.change.plan import BusyError, DiskFullError, RowChange
from lcm_core.change.preview import as_one_plan, first_preview, titles_of
from lcm_core.change.undo import forget_history, scrub
from lcm_core.checks.running import run_checks
from lcm_core.operations import export as importing
from lcm_core.operations import prune as pruning
from lcm_core.operations.disk import ages_of, disk_use, vacuum
from lcm_core.operations.export import export_conversation, plan_import, read_conversation_file
from lcm_core.operations.prune import (
    Cleaner,
    Cleaning,
    Criteria,
    TranscriptFolders,
    plan_delete,
    select,
    selection,
)
from lcm_core.store.conversations import get_conversation
from lcm_host.appending import Session
from lcm_host.engine import Engine

from tests.change.support import (
    REAL,
    Rows,
    changed,
    context_of,
    dissolvable,
    dump,
    only,
    planned,
    previewed,
    search_faults,
    unpacked,
)
from tests.conftest import DatabaseFactory
from tests.databases import building, column, connect, run, value
from tests.support import sampled

APART_BYTES = 16_384
WORTH_SAYING = 0.1

NOW = datetime(2026, 3, 6, 12, tzinfo=UTC)


@pytest.fixture
def path(database_copy: DatabaseFactory) -> Path:
    """A database of its own."""
    return database_copy("0.15.3")


def of_version(database_copy: DatabaseFactory, version: str) -> Path:
    """The newest whole; of older versions a conversation, for their tables and columns are what differs."""
    return database_copy(version) if version == REAL[-1] else only(database_copy(version), 3)


def deletion(path: Path, *ids: int, **options: Any):
    return asyncio.run(planned(path, plan_delete, ids, **options))


def carry_out(path: Path, plans):
    return [commit(path, replace(plan, batch="b")) for plan in plans]


def delete(path: Path, *ids: int):
    """Delete in as many waves as it takes."""
    done = []
    while plans := deletion(path, *ids, rows=300).plans:
        done += carry_out(path, plans)
    return done


def undo_all(path: Path) -> None:
    """Take back everything that `carry_out` did."""
    carry_out(path, asyncio.run(planned(path, plan_undo_batch, "b")))


def export(path: Path, conversation_id: int, folder: Path | None = None):
    async def load(reader):
        conversation = await get_conversation(reader, conversation_id)
        return await export_conversation(reader, conversation, folder or path.parent / "exports", path)

    return asyncio.run(planned(path, load))


def selected(path: Path, **criteria: Any) -> list[int]:
    found = asyncio.run(planned(path, select, Criteria(**criteria), NOW))
    return [one.id for one in found]


def conversations(path: Path) -> list[int]:
    return column(path, "SELECT conversation_id FROM conversations ORDER BY 1")


def without(rows: Rows, *tables: str) -> Rows:
    return {table: found for table, found in rows.items() if table not in tables}


# -- the engine's cleaners -------------------------------------------------------------------------------


def cleaned(path: Path, *cleaners: Cleaner, agents: Sequence[str] = ("main",)) -> set[int]:
    return set(selected(path, cleaning=Cleaning(cleaners or tuple(Cleaner), tuple(agents))))


def test_the_cleaners_select_what_the_engine_said(path: Path):
    """Recorded: `doctor clean` of 0.15.3 on this file, with one agent, `main`."""
    found = asyncio.run(planned(path, selection, Criteria(cleaning=Cleaning())))
    assert [(one.id, one.messages) for one in found.conversations] == [(6, 49)]
    assert found.cleaned.chosen == {6: [Cleaner.CRON_SESSIONS]}
    assert found.cleaned.previews[6] == (
        "We saw `TypeError: Cannot read properties of undefined (reading 'id')` 14 times in the last 20 "
        "hours. I traced it to ..."
    )


#: Session key, active, archived_at, first message; and which cleaner selects it.
SHAPES: Sequence[tuple[str | None, object, str | None, object, Cleaner | None]] = (
    ("agent:main:subagent:1", 0, None, "x", Cleaner.ARCHIVED_SUBAGENTS),
    ("agent:ops:subagent:1:more", 0, "2026-03-01", "x", Cleaner.ARCHIVED_SUBAGENTS),
    ("agent:main:subagent:", 0, None, "x", Cleaner.ARCHIVED_SUBAGENTS),
    ("agent:main:subagent:1", 1, None, "x", None),
    ("agent:main:subagent", 0, None, "x", None),
    ("agent:main:subagents:1", 0, None, "x", None),
    ("agent:main:telegram:subagent:1", 0, None, "x", None),
    ("agent:other:subagent:1", 0, None, "x", None),
    ("xagent:main:subagent:1", 0, None, "x", None),
    ("agent:main:cron:1", 1, None, "x", Cleaner.CRON_SESSIONS),
    ("agent:OPS:cron:1", 0, None, "x", Cleaner.CRON_SESSIONS),
    ("agent:m_in:cron:1", 0, None, "x", None),
    ("agent::cron:1", 0, None, "x", None),
    (None, 0, "2026-03-01", "[Subagent Context] go", Cleaner.NULL_SUBAGENT_CONTEXT),
    (None, 0, "2026-03-01", b"[Subagent Context] \xff", Cleaner.NULL_SUBAGENT_CONTEXT),
    (None, 0, "2026-03-01", " [Subagent Context]", None),
    (None, 0, None, "[Subagent Context]", None),
    (None, 1, "2026-03-01", "[Subagent Context]", None),
    ("", 0, "2026-03-01", "[Subagent Context]", None),
    (None, 0, "2026-03-01", None, None),
)


@pytest.mark.long
def test_each_cleaner_selects_its_own_and_nothing_else(path: Path):
    wanted: dict[int, Cleaner] = {}
    with building(path) as db:
        for number, (key, active, archived, first, by) in enumerate(SHAPES, 100):
            db.execute(
                """INSERT INTO conversations (conversation_id, session_id, session_key, active, archived_at)
                VALUES (?, ?, ?, ?, ?)""",
                *(number, f"s{number}", key, active, archived),
            )
            if first is not None:
                insert = """INSERT INTO messages (conversation_id, seq, role, content, token_count)
                    VALUES (?, ?, 'user', ?, 1)"""
                db.execute(insert, number, 2, "[Subagent Context] later")
                db.execute(insert, number, 1, first)
            if by is not None:
                wanted[number] = by
    for cleaner in Cleaner:
        mine = {number for number, by in wanted.items() if by is cleaner}
        assert cleaned(path, cleaner, agents=("main", " Ops ")) - {6} == mine
    assert cleaned(path, agents=("main", "ops")) == {6, *wanted}
    assert delete(path, *cleaned(path, agents=("main", "ops")))
    assert cleaned(path, agents=("main", "ops")) == set()
    undo_all(path)
    assert cleaned(path, agents=("main", "ops")) == {6, *wanted}


def test_a_version_without_keys_has_nothing_to_clean(database_copy: DatabaseFactory):
    assert cleaned(database_copy("0.1.2")) == set()


# -- deleting --------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("version", sampled(REAL, ("0.3.0", "0.15.3")))
def test_everything_goes_in_pieces_and_comes_back(
    database_copy: DatabaseFactory, version: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(pruning, "PIECE_ROWS", 150)
    path = of_version(database_copy, version)
    before, ids = dump(path), conversations(path)
    done = delete(path, *ids)
    left = {table for table, rows in dump(path).items() if rows}
    assert left <= {"lcm_migration_state"}
    assert search_faults(path) == []
    assert len(done) > 3 * len(ids)
    undo_all(path)
    assert changed(before, dump(path)) == set()
    assert search_faults(path) == []


@pytest.mark.long
def test_after_every_piece_the_database_is_sound(path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(pruning, "PIECE_ROWS", 60)
    for plan in deletion(path, 3).plans:
        carry_out(path, [plan])
        with connect(path) as connection:
            assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
        assert search_faults(path) == []
    assert 3 not in conversations(path)


@pytest.mark.long
def test_only_its_own_rows_go(path: Path):
    before = dump(path)
    delete(path, 3)
    after = dump(path)
    for table, rows in after.items():
        assert set(rows) <= set(before[table])
        owned = [unpacked(row) for row in set(before[table]) - set(rows)]
        assert {row["conversation_id"] for row in owned if "conversation_id" in row} <= {3}


def test_a_piece_is_small_and_a_wave_too(path: Path):
    plans = deletion(path, 1).plans
    assert len(plans) > 2
    for plan in plans:
        assert plan.whole
        assert sum(1 for _ in plan.edits) <= pruning.PIECE_ROWS + 60
    assert titles_of(plans) == ("Delete conversation 1 main",), "not what its first piece deletes"
    first = deletion(path, 1, rows=1)
    assert (len(first.plans), first.complete) == (1, False)
    assert deletion(path, 7).complete


@pytest.mark.long
def test_what_undo_needs_stands_beside_the_database(path: Path):
    done = delete(path, 1)
    kept = [one.operation for one in done]
    large = [one for one in kept if one is not None and one.export is not None]
    assert large
    inside = column(path, "SELECT length(edits) FROM lcm_tui_operations WHERE edits NOT NULL")
    assert all(size <= APART_BYTES for size in inside)


def test_a_host_that_appends_makes_it_stale(path: Path):
    plans = deletion(path, 7).plans
    with building(path) as rows:
        rows.message(7, "still here", in_context=False)
    before = dump(path)
    with pytest.raises(StalePlanError, match="it has grown"):
        carry_out(path, plans)
    assert changed(before, dump(path)) == set()
    carry_out(path, deletion(path, 7).plans)
    assert 7 not in conversations(path)


@pytest.mark.long
def test_a_host_that_appends_between_pieces_loses_nothing(path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(pruning, "PIECE_ROWS", 60)
    first, *rest = deletion(path, 3).plans
    carry_out(path, [first])
    exported = export(path, 3)
    with building(path) as rows:
        rows.message(3, "still here", in_context=False)
    with pytest.raises(StalePlanError):
        carry_out(path, rest)
    assert value(path, "SELECT content FROM messages WHERE conversation_id = 3 ORDER BY seq DESC") == (
        "still here"
    )
    left = deletion(path, 3).plans
    assert not exported.covers([edit for plan in left for edit in plan.edits])
    assert exported.covers([edit for plan in rest for edit in plan.edits])


# -- who else uses it --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        (
            """INSERT INTO summary_messages SELECT (SELECT summary_id FROM summaries WHERE conversation_id = 2
            AND kind = 'leaf'), message_id, 99 FROM messages WHERE conversation_id = 7 LIMIT 1""",
            "of conversation 2 needs message",
        ),
        (
            """INSERT INTO context_items SELECT 2, 9999, 'message', message_id, NULL, created_at
            FROM messages WHERE conversation_id = 7 LIMIT 1""",
            "the context of conversation 2 needs message",
        ),
    ],
)
def test_what_another_conversation_uses_is_not_deleted(path: Path, statement: str, words: str):
    run(path, statement)
    before = dump(path)
    with pytest.raises(RefusedError, match=words):
        deletion(path, 7)
    assert changed(before, dump(path)) == set()


def test_summaries_of_another_conversation_are_seen_too(path: Path):
    run(
        path,
        """INSERT INTO summary_parents SELECT
        (SELECT summary_id FROM summaries WHERE conversation_id = 1 AND kind = 'condensed'),
        (SELECT summary_id FROM summaries WHERE conversation_id = 2 AND kind = 'leaf'), 99""",
    )
    with pytest.raises(RefusedError, match=r"summary sum_\w+ of conversation 1 needs summary sum_"):
        deletion(path, 2)


def test_files_that_others_name_are_said(path: Path):
    file = value(path, "SELECT file_id FROM large_files WHERE conversation_id = 3")
    run(
        path,
        f"""UPDATE summaries SET file_ids = '["{file}"]' WHERE summary_id =
        (SELECT summary_id FROM summaries WHERE conversation_id = 2 LIMIT 1)""",
    )
    warnings = " ".join(deletion(path, 3).plans[0].warnings)
    assert f"file {file} is deleted with conversation 3" in warnings


def test_dangling_lines_go_with_it(path: Path):
    run(
        path,
        """INSERT INTO summary_messages SELECT 'sum_gone', message_id, 1 FROM messages
        WHERE conversation_id = 7 LIMIT 1""",
        """INSERT INTO summary_parents SELECT 'sum_gone', summary_id, 1 FROM summaries
        WHERE conversation_id = 8 LIMIT 1""",
    )
    delete(path, 7, 8)
    assert value(path, "SELECT count(*) FROM summary_messages WHERE summary_id = 'sum_gone'") == 0
    assert value(path, "SELECT count(*) FROM summary_parents WHERE summary_id = 'sum_gone'") == 0


@pytest.mark.long
def test_a_cycle_of_summaries_goes(path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(pruning, "PIECE_ROWS", 12)
    with connect(path) as connection:
        consumer, source = connection.execute(
            """SELECT e.summary_id, e.parent_summary_id FROM summary_parents AS e
            JOIN summaries AS s ON s.summary_id = e.summary_id WHERE s.conversation_id = 2"""
        ).fetchone()
        connection.execute("INSERT INTO summary_parents VALUES (?, ?, 9)", (source, consumer))
    delete(path, 2)
    assert 2 not in conversations(path)


# -- choosing ----------------------------------------------------------------------------------------------


def test_conditions_hold_together(path: Path):
    assert selected(path, empty=True) == []
    run(path, "INSERT INTO conversations (session_id, session_key) VALUES ('s-empty', 'agent:main:x')")
    new = max(conversations(path))
    assert selected(path, empty=True) == [new]
    assert selected(path, max_messages=19) == [7, new]
    assert selected(path, max_messages=19, empty=True) == [new]
    assert selected(path, session_pattern="agent:ops:*") == [5, 8, 7]
    assert selected(path, session_pattern="s-emp??") == [new]
    assert selected(path, session_pattern="agent:OPS:*") == []
    assert set(selected(path, archived=True)) == {5, 6}
    assert selected(path, ids=(3, 7), max_messages=20) == [7]
    with pytest.raises(NotFoundError):
        selected(path, ids=(99,))


def test_age_counts_from_the_newest_message(path: Path):
    assert selected(path, older_than=timedelta(days=4)) == []
    old = {5, 7}  # their newest message is from the early afternoon of March 2nd
    run(path, "UPDATE messages SET created_at = '2026-01-01T10:00:00.000Z' WHERE conversation_id IN (5, 7)")
    assert set(selected(path, older_than=timedelta(days=60))) == old
    run(
        path,
        "UPDATE messages SET created_at = '2026-03-06 11:00:00' WHERE conversation_id = 5 AND seq = "
        "(SELECT max(seq) FROM messages WHERE conversation_id = 5)",
    )
    assert selected(path, older_than=timedelta(days=60)) == [7]


def test_size_counts_the_bytes_of_texts(path: Path):
    with connect(path) as connection:
        texts = connection.execute(
            """SELECT (SELECT sum(length(CAST(content AS BLOB))) FROM messages WHERE conversation_id = 7)
            + (SELECT sum(coalesce(length(CAST(text_content AS BLOB)), 0)) FROM message_parts AS p
               JOIN messages AS m USING (message_id) WHERE m.conversation_id = 7)"""
        ).fetchone()[0]
    found = asyncio.run(planned(path, select, Criteria(ids=(7,))))
    [size] = [one.bytes for one in found]
    assert size >= texts
    assert selected(path, larger_than=size - 1, ids=(7,)) == [7]
    assert selected(path, larger_than=size, ids=(7,)) == []
    whole = asyncio.run(planned(path, select, Criteria()))
    assert {one.id: one.bytes for one in whole}[7] == size


def test_orphans_have_a_transcript_that_is_gone(openclaw_home: Path):
    path = openclaw_home / "lcm.db"
    folders = TranscriptFolders(openclaw_home / "agents", openclaw_home)
    before = selected(path, orphaned=folders)
    stored = value(
        path, "SELECT session_file_path FROM conversation_bootstrap_state WHERE conversation_id = 1"
    )
    [file] = openclaw_home.glob(f"agents/*/sessions/{Path(stored).name}")
    file.unlink()
    assert set(selected(path, orphaned=folders)) == {*before, 1}


def test_a_conversation_without_a_key(path: Path):
    assert selected(path, no_key=True) == []
    run(path, "UPDATE conversations SET session_key = NULL WHERE conversation_id = 6")
    assert selected(path, no_key=True) == [6]


@pytest.mark.cases(3)
@pytest.mark.parametrize("version", REAL)
def test_the_space_adds_up(database_copy: DatabaseFactory, version: str):
    path = database_copy(version)
    space = asyncio.run(planned(path, disk_use, path, None))
    assert space.file.bytes == path.stat().st_size
    tables = space.file.tables
    if tables is not None:
        assert sum(one.bytes for one in tables) <= path.stat().st_size
        assert "messages_fts" in {one.name for one in tables}
    assert not {one.name for one in tables or ()} & {"messages_fts_data", "messages_fts_content"}
    bands = ages_of(asyncio.run(planned(path, select, Criteria())), NOW)
    assert sum(band.conversations for band in bands) == len(conversations(path))


# -- what the 1.x engine has prepared --------------------------------------------------------------------


def test_ended_batches_go_with_their_conversation_and_come_back(database_copy: DatabaseFactory):
    """A message that a node of a given-up batch names could not be deleted alone (RESTRICT)."""
    path = database_copy("1.0-next")
    before = dump(path)
    named = """SELECT count(*) FROM pending_summary_node_messages AS n JOIN messages AS m
        ON m.message_id = n.message_id WHERE m.conversation_id = 3"""
    assert value(path, named) == 12
    delete(path, 3)
    assert conversations(path) == [1, 2, 4, 5, 6, 7, 8, 9, 10, 11]
    assert column(path, "PRAGMA foreign_key_check") == []
    assert "pcb_626a9f6f943cd0a5_d7a19d2ff37972bd" not in column(
        path, "SELECT batch_id FROM pending_compaction_batches"
    )
    undo_all(path)
    assert changed(before, dump(path)) == set()


@pytest.mark.long
def test_blank_messages_come_back_without_the_search_rows_that_they_never_had(database_copy: DatabaseFactory):
    """From 0.5 on the engine gives blank messages no row; 0.5.3 notes where it stopped reading already."""
    path = database_copy("0.3.0")
    run(
        path,
        "CREATE TABLE conversation_bootstrap_state (conversation_id INTEGER PRIMARY KEY)",
        "UPDATE messages SET content = ' ' WHERE seq = 2",
        "DELETE FROM messages_fts WHERE rowid IN (SELECT message_id FROM messages WHERE trim(content) = '')",
    )
    assert search_faults(path) == []
    delete(path, 3)
    undo_all(path)
    assert search_faults(path) == []


@pytest.mark.parametrize("status", ["planning", "ready", "publishing", "a word of tomorrow"])
def test_a_batch_that_the_engine_works_on_refuses_the_deletion(database_copy: DatabaseFactory, status: str):
    path = database_copy("1.0-next")
    run(
        path,
        "PRAGMA ignore_check_constraints = 1",
        f"UPDATE pending_compaction_batches SET status = '{status}' WHERE conversation_id = 3",
    )
    for lease, advice in (
        ("2099-01-01T00:00:00.000Z", "Let the host run until it has published or discarded the batch"),
        (
            "2026-09-20T09:54:08.000Z",
            "Its lease expired at 2026-09-20 09:54:08 UTC: the worker died, and waiting is no use. Start the",
        ),
    ):
        run(path, f"UPDATE pending_summary_nodes SET lease_expires_at = '{lease}' WHERE conversation_id = 3")
        before = dump(path)
        with pytest.raises(RefusedError) as told:
            deletion(path, 3)
        assert "preparing a compaction with it (batch pcb_626a9f6f943cd0a5" in told.value.message
        assert advice in told.value.message
        assert (
            "(K in the list of conversations, `lcm-tui conversations archive 3 --apply`)"
            in told.value.message
        )
        assert dump(path) == before


@pytest.mark.long
def test_a_batch_that_nobody_will_end_goes_with_its_archived_conversation(database_copy: DatabaseFactory):
    """Only a lease that still runs refuses it: a worker may be about to write."""
    path = database_copy("1.0-next")
    run(path, "UPDATE conversations SET active = 0 WHERE conversation_id = 1")
    lease = "UPDATE pending_summary_nodes SET lease_expires_at = '{}' WHERE lease_owner IS NOT NULL"
    run(path, lease.format("2099-01-01T00:00:00.000Z"))
    with pytest.raises(
        RefusedError, match="archived, so try again when its lease ends: 2099-01-01 00:00:00 UTC"
    ):
        deletion(path, 1)
    run(path, lease.format("2026-09-20T09:54:08.000Z"))
    before = dump(path)
    [said] = [
        one for one in previewed(path, as_one_plan(deletion(path, 1).plans)).warnings if "engine" in one
    ]
    assert said == "What the engine is preparing of conversation 1 is deleted with it"
    delete(path, 1)
    assert value(path, "SELECT count(*) FROM pending_compaction_batches WHERE conversation_id = 1") == 0
    undo_all(path)
    assert changed(before, dump(path)) == set()


@pytest.mark.long
def test_every_conversation_of_a_1x_file_goes_and_comes_back(database_copy: DatabaseFactory):
    path = database_copy("1.0-next")
    run(path, "UPDATE pending_compaction_batches SET status = 'stale' WHERE status = 'planning'")
    before, ids = dump(path), conversations(path)
    delete(path, *ids)
    left = {table for table, rows in dump(path).items() if rows}
    assert left <= {"lcm_migration_state", "turn_advancements", "sqlite_stat1"}
    undo_all(path)
    assert changed(before, dump(path)) == set()


# -- archiving ---------------------------------------------------------------------------------------------


def test_archive_is_what_a_reset_leaves(path: Path):
    before = dump(path)
    plan = asyncio.run(planned(path, plan_archive, [7, 5], now=NOW))
    assert len(plan.edits) == 1
    assert plan.warnings[1] == "Conversation 5, already archived, is left"
    carry_out(path, [plan])
    with connect(path) as connection:
        row = connection.execute(
            "SELECT active, archived_at, archive_cause FROM conversations WHERE conversation_id = 7"
        ).fetchone()
    assert row == (0, "2026-03-06T12:00:00.000Z", "manual-reset")
    assert changed(before, dump(path)) == {"conversations"}
    carry_out(path, asyncio.run(planned(path, plan_undo_batch, "b")))
    assert changed(before, dump(path)) == set()


def test_archive_without_a_cause_in_the_schema(database_copy: DatabaseFactory):
    path = database_copy("0.8.2")
    carry_out(path, [asyncio.run(planned(path, plan_archive, [7], now=NOW))])
    assert value(path, "SELECT active FROM conversations WHERE conversation_id = 7") == 0


@pytest.mark.parametrize("version", ["0.1.2", "0.3.0"])
def test_early_engines_archive_nothing(database_copy: DatabaseFactory, version: str):
    with pytest.raises(RefusedError, match=r"before 0\.6"):
        asyncio.run(planned(database_copy(version), plan_archive, [1]))


# -- files -------------------------------------------------------------------------------------------------


def imported(path: Path, file: Path):
    return asyncio.run(planned(path, plan_import, read_conversation_file(file), now=NOW))


@pytest.mark.long
@pytest.mark.parametrize("version", sampled(REAL, ("0.1.2",)))
def test_exported_deleted_imported_is_the_same(database_copy: DatabaseFactory, version: str):
    path = of_version(database_copy, version)
    before, ids = dump(path), conversations(path)
    files = [export(path, one) for one in ids]
    delete(path, *ids)
    for one in files:
        plans = imported(path, one.path)
        assert all(plan.warnings == () for plan in plans)
        carry_out(path, plans)
    assert changed(before, dump(path)) == set()
    assert search_faults(path) == []


def in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """An import of some forty rows a piece, and of a few context items."""
    monkeypatch.setattr(importing, "PIECE_SECONDS", 0.0005)
    monkeypatch.setattr(importing, "CONTEXT_ROWS", 5)


@pytest.mark.long
@pytest.mark.parametrize("version", sampled(REAL, ("0.3.0", "0.15.3")))
def test_an_import_in_pieces_is_the_same_and_nobody_sees_half_of_it(
    database_copy: DatabaseFactory, version: str, monkeypatch: pytest.MonkeyPatch
):
    in_pieces(monkeypatch)
    path = only(database_copy(version), 3)
    before, broken = dump(path), errors(path)
    session = value(path, "SELECT session_id FROM conversations WHERE conversation_id = 3")
    file = export(path, 3)
    delete(path, 3)
    without_it = dump(path)
    plans = imported(path, file.path)
    assert len(plans) > 5
    assert {plan.batch for plan in plans} == {plans[0].batch} != {None}
    for plan in plans:
        assert value(path, "SELECT count(*) FROM conversations WHERE session_id = ?", session) == 0
        if "active" in column(path, "SELECT name FROM pragma_table_info('conversations')"):
            assert not value(path, "SELECT sum(active) FROM conversations WHERE conversation_id = 3")
        commit(path, plan)
        with connect(path) as connection:
            assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
        assert search_faults(path) == []
    assert changed(before, dump(path)) == set()
    assert errors(path) == broken
    assert plans[0].batch is not None
    for plan in asyncio.run(planned(path, plan_undo_batch, plans[0].batch)):
        commit(path, plan)
    assert changed(without_it, dump(path)) == set()


@pytest.mark.long
@pytest.mark.parametrize("stopped_after", sampled([1, 3, -1], [1]))
def test_a_stopped_import_is_taken_back_and_made_again(
    path: Path, monkeypatch: pytest.MonkeyPatch, stopped_after: int
):
    in_pieces(monkeypatch)
    only(path, 3)
    before, broken = dump(path), errors(path)
    file = export(path, 3)
    delete(path, 3)
    empty = dump(path)
    plans = imported(path, file.path)
    batch = plans[0].batch
    for plan in plans[:stopped_after]:
        commit(path, plan)
    # What is there is no conversation of a host, and broken in nothing but that it is not in its context yet.
    assert errors(path) <= broken | {"A11"}
    with pytest.raises(RefusedError, match=f"conversation 3 contains a part of it.*undo {batch} "):
        imported(path, file.path)
    for plan in asyncio.run(planned(path, plan_undo_batch, batch)):
        commit(path, plan)
    assert changed(empty, dump(path)) == set()
    carry_out(path, imported(path, file.path))
    assert changed(before, dump(path)) == set()


@pytest.mark.long
def test_a_host_that_appends_all_the_while_stops_no_import(path: Path, monkeypatch: pytest.MonkeyPatch):
    in_pieces(monkeypatch)
    file = export(path, 3)
    said = "SELECT content FROM messages WHERE conversation_id = 3 ORDER BY seq"
    texts = without_file_ids(column(path, said))
    plans = imported(path, file.path)  # all of it under new ids
    for number, plan in enumerate(plans):
        with building(path) as rows:
            rows.message(1, f"host {number}", in_context=False)
        commit(path, plan)
    new = plans[0].conversation_id
    assert new not in (None, 3)
    assert without_file_ids(column(path, said.replace("= 3", f"= {new}"))) == texts
    assert value(path, "SELECT count(*) FROM messages WHERE content LIKE 'host %'") == len(plans)


@pytest.mark.long
def test_no_piece_of_an_import_keeps_a_host_waiting(path: Path, tmp_path: Path):
    file = export(path, 1)
    *lines, end = file.path.read_text().splitlines()
    message = next(json.loads(line) for line in lines if '"table":"messages"' in line)
    more = [
        {**message["row"], "message_id": 100_000 + n, "seq": 100_000 + n, "content": "word " * 200}
        for n in range(1500)
    ]
    lines += (json.dumps({"table": "messages", "row": row}) for row in more)
    counts = json.loads(end)["end"]
    counts["messages"] += len(more)
    file.path.write_text("\n".join([*lines, json.dumps({"end": counts})]) + "\n")
    delete(path, 1)
    plans = imported(path, file.path)
    seen = asyncio.run(planned(path, first_preview, plans))
    assert len(plans) > 2
    assert 0 < seen.lock_seconds <= 2 * importing.PIECE_SECONDS <= WORTH_SAYING
    assert not any("will wait" in warning for warning in seen.warnings)


def without_file_ids(texts: Sequence[str]) -> list[str]:
    return [re.sub("file_[0-9a-f]{16}", "file", text) for text in texts]


def errors(path: Path) -> set[str]:
    """The checks of the doctor that find an error."""

    async def checked():
        async with await Database.open(path) as database:
            return await run_checks(database)

    results = asyncio.run(checked()).results
    return {one.check.id for one in results if one.findings and one.check.severity == "E"}


def shape(path: Path, conversation_id: int) -> list[Any]:
    """A conversation without its ids: what its context says, and what every summary was made from."""
    with connect(path) as connection:
        return [
            connection.execute(sql, (conversation_id,)).fetchall()
            for sql in (
                "SELECT seq, role, content, token_count FROM messages WHERE conversation_id = ? ORDER BY seq",
                """SELECT c.ordinal, c.item_type, coalesce(m.seq, s.content) FROM context_items AS c
                LEFT JOIN messages AS m USING (message_id) LEFT JOIN summaries AS s USING (summary_id)
                WHERE c.conversation_id = ? ORDER BY c.ordinal""",
                """SELECT s.content, l.ordinal, m.seq FROM summaries AS s
                JOIN summary_messages AS l USING (summary_id) JOIN messages AS m USING (message_id)
                WHERE s.conversation_id = ? ORDER BY 1, 2, 3""",
                """SELECT s.content, e.ordinal, p.content FROM summaries AS s
                JOIN summary_parents AS e USING (summary_id)
                JOIN summaries AS p ON p.summary_id = e.parent_summary_id
                WHERE s.conversation_id = ? ORDER BY 1, 2, 3""",
                """SELECT m.seq, p.ordinal, p.part_type, p.text_content FROM message_parts AS p
                JOIN messages AS m USING (message_id) WHERE m.conversation_id = ? ORDER BY 1, 2""",
            )
        ]


@pytest.mark.long
def test_what_is_still_there_comes_in_under_new_ids(path: Path):
    file = export(path, 2)
    plans = imported(path, file.path)
    assert "Conversation 2 already exists here, so the import gets a new number" in plans[0].warnings
    # One piece needs no conversation that is nobody's until the last.
    assert all(edit.before is None for edit in plans[0].edits if isinstance(edit, RowChange))
    before = dump(path)
    carry_out(path, plans)
    new = max(conversations(path))
    assert new != 2
    copied, original = (re.sub("file_[0-9a-f]{16}", "file", repr(shape(path, one))) for one in (new, 2))
    assert copied == original
    assert all(set(rows) >= set(before[table]) for table, rows in dump(path).items() if table in before)
    # Of a session only one conversation can be active.
    assert value(path, "SELECT active FROM conversations WHERE conversation_id = ?", new) == 0
    assert search_faults(path) == []


@pytest.mark.long
@pytest.mark.parametrize(("old", "new"), [("0.1.2", "0.15.3"), ("0.15.3", "0.1.2")])
def test_into_a_database_of_another_version(database_copy: DatabaseFactory, old: str, new: str):
    source, target = database_copy(old), database_copy(new)
    file = export(source, 3)
    plans = imported(target, file.path)
    carry_out(target, plans)
    there = max(conversations(target))
    texts = [[[part for part in row if part is not None] for row in rows] for rows in shape(source, 3)[:2]]
    assert [[list(row) for row in rows] for rows in shape(target, there)[0:1]] == texts[:1]
    said = " ".join(plans[0].warnings)
    assert ("does not record" in said) == (new == "0.1.2")
    assert search_faults(target) == []


def test_a_file_is_private_whole_and_documented(path: Path):
    file = export(path, 7)
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    assert [one.name for one in file.path.parent.iterdir()] == [file.path.name]
    lines = [json.loads(line) for line in file.path.read_text().splitlines()]
    assert (lines[0]["format"], lines[0]["version"], lines[0]["conversationId"]) == (
        "lcm-tui conversation",
        1,
        7,
    )
    assert {line["table"] for line in lines[1:-1]} == set(lines[-1]["end"])
    assert sum(lines[-1]["end"].values()) == len(lines) - 2 == file.rows
    assert export(path, 7).path != file.path


@pytest.mark.long
def test_bytes_that_are_no_text_come_back(path: Path):
    with connect(path) as connection:
        connection.execute(
            "UPDATE messages SET content = CAST(X'ff00fe41' AS TEXT) WHERE conversation_id = 7 AND seq = 3"
        )
    before = dump(path)
    file = export(path, 7)
    delete(path, 7)
    carry_out(path, imported(path, file.path))
    assert changed(before, dump(path)) == set()


@pytest.mark.cases(4)
@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda lines: lines[:-1], "its end is missing"),
        (lambda lines: [*lines[:5], *lines[6:]], "missing or surplus rows"),
        (lambda lines: lines[1:], "is not the header of an export"),
        (
            lambda lines: ['{"format": "lcm-tui conversation", "version": 9, "conversationId": 7}'],
            "version 9",
        ),
        (lambda lines: [lines[0], "{"], "line 2 is not JSON"),
        (lambda lines: [lines[0], "[1]"], "line 2 is not an object"),
        (
            lambda lines: [line.replace('"conversation_id":7', '"conversation_id":1') for line in lines],
            "another",
        ),
        (lambda lines: [*lines, lines[1]], "comes after its end"),
    ],
)
def test_a_file_that_is_not_whole_is_refused(path: Path, spoil: Any, words: str):
    file = export(path, 7).path
    file.write_text("\n".join(spoil(file.read_text().splitlines())) + "\n")
    with pytest.raises(RefusedError, match=words):
        read_conversation_file(file)


def test_rows_of_our_own_tables_are_not_imported(path: Path):
    commit(path, asyncio.run(planned(path, plan_archive, [7])))
    file = export(path, 7).path
    *lines, end = file.read_text().splitlines()
    lines.append('{"table":"lcm_tui_operations","row":{"id":"op_x","conversation_id":7}}')
    counts = json.loads(end)["end"]
    file.write_text("\n".join([*lines, json.dumps({"end": {**counts, "lcm_tui_operations": 1}})]) + "\n")
    plans = imported(path, file)
    assert "1 row of lcm_tui_operations not imported" in " ".join(plans[0].warnings)
    assert "lcm_tui_operations" not in {getattr(edit, "table", "") for plan in plans for edit in plan.edits}


def test_no_export_no_file(path: Path, tmp_path: Path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(DiskFullError, match="so it is not deleted"):
        export(path, 7, blocked / "below")


# -- forgetting --------------------------------------------------------------------------------------------


SECRET = "xylophone-zwieback-quagmire"


def forget(path: Path, conversation_id: int) -> None:
    plans = deletion(path, conversation_id, forget=True).plans
    forget_history(path, conversation_id)
    for plan in plans:
        assert plan.keeping == "nowhere"
        assert commit(path, plan).operation is None


def traces(path: Path) -> dict[str, list[bytes]]:
    words = SECRET.encode().split(b"-")
    return {
        file.name: found
        for file in path.parent.rglob("*")
        if file.is_file() and (found := [word for word in words if word in file.read_bytes()])
    }


@pytest.mark.long
@pytest.mark.parametrize("version", REAL)
def test_nothing_of_a_forgotten_conversation_is_left(database_copy: DatabaseFactory, version: str):
    path = database_copy(version)
    with connect(path) as host:  # it deletes and rearranges without overwriting, as the engine's SQLite does
        host.execute("PRAGMA secure_delete = OFF")
        host.execute(
            "UPDATE messages SET content = content || ? WHERE conversation_id = 3 AND seq % 2",
            (f" {SECRET}",),
        )
        host.execute("UPDATE summaries SET content = content || ? WHERE conversation_id = 3", (f" {SECRET}",))
        host.execute(
            """DELETE FROM messages_fts WHERE rowid IN
            (SELECT message_id FROM messages WHERE conversation_id = 3)"""
        )
        host.execute(
            """INSERT INTO messages_fts (rowid, content) SELECT message_id, content FROM messages
            WHERE conversation_id = 3 AND trim(content) <> ''"""
        )
    kept = dump(path)
    other = next(owner for owner, _ in dissolvable(path) if owner != 3)
    summary = next(summary for owner, summary in dissolvable(path) if owner == other)
    commit(path, asyncio.run(planned(path, plan_dissolve, other, [summary], keep=True)))
    mine = [summary for owner, summary in dissolvable(path) if owner == 3]
    if mine:
        commit(path, asyncio.run(planned(path, plan_dissolve, 3, mine[:1])))
    assert traces(path)
    forget(path, 3)
    done = scrub(path)
    assert (done.rewritten, done.problems) == (True, ())
    assert traces(path) == {}
    assert column(path, "SELECT conversation_id FROM lcm_tui_operations") == [other]
    assert search_faults(path) == []
    rest = dump(path)
    assert all(set(rows) <= set(kept[table]) for table, rows in rest.items() if table != "context_items")


def test_history_that_holds_its_rows_under_another_number_goes_too(path: Path):
    commit(path, asyncio.run(planned(path, plan_transplant, 2, 7, skip_duplicates=True)))
    commit(path, asyncio.run(planned(path, plan_archive, [8])))
    commit(path, asyncio.run(planned(path, plan_archive, [4, 3])))
    assert forget_history(path, 3) == 1
    assert forget_history(path, 7) == 1
    assert column(path, "SELECT conversation_id FROM lcm_tui_operations") == [8]


def test_another_reader_keeps_the_log_from_being_emptied(path: Path):
    with connect(path) as host:
        host.execute("PRAGMA journal_mode = WAL")
        host.execute("BEGIN")
        host.execute("SELECT count(*) FROM messages").fetchone()
        forget(path, 7)
        done = scrub(path, wait=0.05)
        assert not done.truncated
        assert "stop it" in " ".join(done.problems)
        host.execute("COMMIT")


@pytest.mark.long
def test_writing_the_file_anew_makes_it_smaller(path: Path):
    before = context_of(path, 1)
    delete(path, 2, 3)
    large, small = vacuum(path)
    assert small < large
    assert context_of(path, 1) == before
    assert search_faults(path) == []


@pytest.mark.long
def test_writing_the_file_anew_can_be_given_up(path: Path):
    delete(path, 2, 3)
    before, size = dump(path), path.stat().st_size
    looks = iter([False, False])
    with pytest.raises(CancelledError):
        vacuum(path, stopped=lambda: next(looks, True))
    assert next(looks, None) is None, "it had begun"
    with connect(path) as host:
        host.execute("BEGIN IMMEDIATE")
        with pytest.raises(BusyError):
            vacuum(path, wait=0.05, stopped=lambda: False)
    assert (dump(path), path.stat().st_size) == (before, size)
    assert value(path, "PRAGMA integrity_check") == "ok"
    large, small = vacuum(path, stopped=lambda: False)
    assert small < large


def test_what_was_not_written_anew_because_it_was_stopped_is_told(path: Path):
    forget(path, 7)
    done = scrub(path, stopped=lambda: True)
    assert not done.rewritten
    assert "because the command was stopped" in " ".join(done.problems)
    assert value(path, "PRAGMA integrity_check") == "ok"


@pytest.mark.long
async def test_a_host_never_sees_or_touches_half_of_an_import(path: Path, monkeypatch: pytest.MonkeyPatch):
    """A host that appends and assembles after every piece, at last in the session that came back."""
    in_pieces(monkeypatch)
    before, session, plans = await asyncio.to_thread(_to_be_imported, path)
    elsewhere = Session("elsewhere", "agent:main:elsewhere")
    async with await Engine.open(path, large_files=path.parent / "lcm-files") as host:
        for number, plan in enumerate(plans, 1):
            with pytest.raises(NotFoundError):
                await host.assemble(session, budget=10_000)
            await asyncio.to_thread(commit, path, plan)
            done = await host.ingest(elsewhere, {"role": "user", "content": f"host {number}"})
            assert done.conversation_id != plan.conversation_id
            assert len((await host.assemble(elsewhere, budget=10_000)).messages) == number
        assert (await host.assemble(session, budget=100_000)).messages
        assert column(path, OWN) == before
        done = await host.ingest(session, {"role": "user", "content": "and on"})
        assert done.conversation_id == plans[0].conversation_id


@pytest.mark.long
async def test_a_session_that_a_host_begins_meanwhile_stays_its_own(
    path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The last piece is refused, the half is taken back, and the import comes as an archived conversation."""
    in_pieces(monkeypatch)
    _, session, plans = await asyncio.to_thread(_to_be_imported, path)
    async with await Engine.open(path, large_files=path.parent / "lcm-files") as host:
        for number, plan in enumerate(plans[:-1]):
            await asyncio.to_thread(commit, path, plan)
            done = await host.ingest(session, {"role": "user", "content": f"host {number}"})
            assert done.conversation_id != plan.conversation_id
        with pytest.raises(StalePlanError):
            await asyncio.to_thread(commit, path, plans[-1])
        assert plans[0].batch is not None
        for plan in await planned(path, plan_undo_batch, plans[0].batch):
            await asyncio.to_thread(commit, path, plan)
        assert len((await host.assemble(session, budget=10_000)).messages) == len(plans) - 1
    assert value(path, "SELECT count(*) FROM messages WHERE conversation_id = 3") == 0
    await asyncio.to_thread(lambda: carry_out(path, imported(path, path.parent / "exported")))
    active = "SELECT active, count(*) FROM conversations WHERE session_key = ? GROUP BY active ORDER BY 1"
    with connect(path) as connection:
        assert connection.execute(active, (session.session_key,)).fetchall() == [(0, 1), (1, 1)]


OWN = "SELECT role || content FROM messages WHERE conversation_id = 3 ORDER BY seq"


def _to_be_imported(path: Path):
    """Conversation 3 exported and deleted: what it said, its session, and the pieces of its import."""
    before = column(path, OWN)
    with connect(path) as connection:
        row = "SELECT session_id, session_key FROM conversations WHERE conversation_id = 3"
        session = Session(*connection.execute(row).fetchone())
    export(path, 3).path.rename(path.parent / "exported")
    delete(path, 3)
    return before, session, tuple(imported(path, path.parent / "exported"))
