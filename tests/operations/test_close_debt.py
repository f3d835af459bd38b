"""Debt of a conversation that has ended: closed as the engine does it, and opened again by an undo."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import pytest
from lcm_core.api import Plan, RefusedError, StalePlanError
from lcm_core.change.commit import commit
from lcm_core.change.plan import Cells, RowChange
from lcm_core.change.preview import preview_plan
from lcm_core.operations.debt import plan_close_debt

from tests.change.support import dump, planned, reading, undo
from tests.conftest import DatabaseFactory
from tests.databases import connect, query

NOW = datetime(2026, 9, 20, 14, tzinfo=UTC)
ENDED = 7
TABLE = "conversation_compaction_maintenance"


def closing(path: Path, conversation: int = ENDED) -> Plan:
    return asyncio.run(planned(path, plan_close_debt, conversation, now=NOW))


def debt(path: Path) -> tuple[object, ...]:
    columns = "pending, running, resolution_reason, resolved_at, maintenance_revision"
    [row] = query(path, f"SELECT {columns} FROM {TABLE} WHERE conversation_id = ?", ENDED)
    return row


def change(path: Path, sql: str) -> None:
    with connect(path) as connection:
        connection.execute(sql)


def test_closed_with_the_next_revision_and_opened_with_another(database_copy: DatabaseFactory) -> None:
    path = database_copy("1.0-next")
    before = dump(path)
    first = debt(path)
    done = commit(path, closing(path))
    assert debt(path) == (0, 0, "operator-ignored", "2026-09-20T14:00:00.000Z", 1)
    undone = undo(path, done.id)
    assert debt(path) == (*first[:-1], 2)
    again = undo(path, undone.id)
    assert debt(path) == (0, 0, "operator-ignored", "2026-09-20T14:00:00.000Z", 3)
    undo(path, again.id)
    change(path, f"UPDATE {TABLE} SET maintenance_revision = 0 WHERE conversation_id = {ENDED}")
    assert dump(path) == before


def test_what_the_engine_notes_meanwhile_makes_the_plan_stale(database_copy: DatabaseFactory) -> None:
    path = database_copy("1.0-next")
    plan = closing(path)
    change(path, f"UPDATE {TABLE} SET maintenance_revision = 1 WHERE conversation_id = {ENDED}")
    before = dump(path)
    with pytest.raises(StalePlanError):
        commit(path, plan)
    assert dump(path) == before


def test_debt_that_was_noted_anew_is_not_undone(database_copy: DatabaseFactory) -> None:
    path = database_copy("1.0-next")
    done = commit(path, closing(path))
    change(path, f"UPDATE {TABLE} SET pending = 1, resolution_reason = NULL, maintenance_revision = 2")
    with pytest.raises(RefusedError, match="cannot be undone"):
        undo(path, done.id)


@pytest.mark.parametrize(
    ("conversation", "why"), [(2, "is active"), (8, "no compaction debt"), (9, "is active")]
)
def test_only_pending_debt_of_what_has_ended(conversation, why, database_file: DatabaseFactory) -> None:
    with pytest.raises(RefusedError, match=why):
        closing(database_file("1.0-next"), conversation)


@pytest.mark.parametrize("version", ["0.1.2", "0.8.2"])
def test_a_version_that_records_no_closing(version: str, database_file: DatabaseFactory) -> None:
    with pytest.raises(RefusedError, match="resolution_reason"):
        closing(database_file(version), 1)


@pytest.mark.parametrize(("ordinal", "said"), [(0, True), (24, False)])
def test_a_change_of_what_is_being_prepared_says_what_is_lost(ordinal, said, database_file) -> None:
    path = database_file("1.0-next")
    [[start, end]] = query(
        path,
        "SELECT compactable_start_ordinal, compactable_end_ordinal FROM pending_compaction_batches "
        "WHERE conversation_id = 2 AND status = 'planning'",
    )
    at = start + ordinal if said else end + 1
    [[message, text]] = query(
        path,
        "SELECT message_id, content FROM messages JOIN context_items USING (message_id) "
        "WHERE context_items.conversation_id = 2 AND context_items.ordinal = ?",
        at,
    )
    edit = RowChange(
        "messages",
        Cells.of({"message_id": message}),
        Cells.of({"content": text}),
        Cells.of({"content": f"{text}!"}),
    )
    plan = Plan("fix", "Edit", 2, (edit,))
    shown = asyncio.run(reading(path, lambda reader: preview_plan(reader, plan)))
    assert any("is preparing a compaction of conversation 2" in one for one in shown.warnings) == said
