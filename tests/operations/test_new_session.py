"""What `/new`, `/reset` and the end of a session leave: as recorded, and in shapes that nobody recorded."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from lcm_core.api import EngineSettings
from lcm_core.base.setting_values import SettingSource, Sourced
from lcm_core.base.values import replace
from lcm_core.change.commit import commit
from lcm_host.appending import Session, plan_new_session
from lcm_host.engine import Engine

from tests.change.support import context_of, dump, planned, undo
from tests.cli.support import run as run_command
from tests.conftest import DatabaseFactory
from tests.databases import query, run, value
from tests.support import recorded

NOW = datetime(2026, 3, 6, 12, tzinfo=UTC)
RECORDED: dict[str, Any] = recorded("lcm-0.15.3.policy.json.xz")
KEY = Session("s1", "agent:main:main")
ROWS = "SELECT conversation_id, active, archive_cause, session_id FROM conversations ORDER BY 1"


@pytest.mark.cases(1)
@pytest.mark.parametrize("case", RECORDED["newSession"], ids=lambda case: case["retainDepth"])
def test_what_new_leaves_in_a_context(case: dict[str, Any], database_copy: DatabaseFactory) -> None:
    path, owner = database_copy("0.15.3"), case["conversation"]
    before = dump(path)
    plan = asyncio.run(planned(path, plan_new_session, owner, int(case["retainDepth"]), now=NOW))
    assert len(context_of(path, owner)) == case["before"]
    done = commit(path, plan) if plan else None
    left = [(one["ordinal"], one["summary_id"]) for one in case["after"]]
    assert [(at, ref if isinstance(ref, str) else None) for at, ref in context_of(path, owner)] == left
    if done is not None:
        undo(path, done.id)
    assert dump(path) == before


@pytest.mark.cases(1)
@pytest.mark.parametrize("version", ["0.1.2", "0.8.2", "1.0-next"])
@pytest.mark.parametrize("depth", [0, 1, 2])
def test_ordinals_stay_also_where_what_stays_is_scattered(
    version: str, depth: int, database_copy: DatabaseFactory
) -> None:
    path = database_copy(version)
    items = [
        (one, *row)
        for one in range(1, 9)
        for row in query(
            path,
            "SELECT i.ordinal, s.depth FROM context_items AS i LEFT JOIN summaries AS s USING (summary_id) "
            "WHERE i.conversation_id = ? ORDER BY 1",
            one,
        )
    ]
    for one in {owner for owner, _, _ in items}:
        plan = asyncio.run(planned(path, plan_new_session, one, depth, now=NOW))
        if plan:
            commit(path, plan)
        kept = [at for owner, at, level in items if owner == one and level is not None and level >= depth]
        assert [at for at, _ in context_of(path, one)] == kept


async def opened(path: Path, depth: int = 2) -> Engine:
    settings = replace(EngineSettings(), new_session_retain_depth=Sourced(depth, SettingSource.ENVIRONMENT))
    return await Engine.open(
        path, large_files=path.parent / "lcm-files", clock=lambda: NOW, settings=settings
    )


async def test_the_life_of_a_session(tmp_path: Path) -> None:
    path = tmp_path / "lcm.db"
    async with await opened(path) as engine:
        assert await engine.reset(KEY) == 1, "there was none: one begins"
        assert await engine.reset(KEY) is None, "it is fresh"
        await engine.ingest(KEY, {"role": "user", "content": "hello"})
        await engine.new_session(KEY)
        assert (context_of(path, 1), value(path, "SELECT count(*) FROM messages")) == ([], 1)
        assert await engine.reset(KEY) == 2
        assert query(path, ROWS) == [(1, 0, "manual-reset", "s1"), (2, 1, None, "s1")]
        for reason in ("new", "unknown", "restart", "shutdown", "", " "):
            assert await engine.end_session(KEY, reason) is None
        assert await engine.end_session(KEY, "reset") is None, "after /reset it is fresh"
        following = Session("s2", KEY.session_key)
        assert await engine.end_session(KEY, "idle", following=following) == 3
        assert query(path, ROWS)[1:] == [(2, 0, "session-end", "s1"), (3, 1, None, "s2")]
        assert await engine.end_session(following, "deleted") == 3
        assert query(path, ROWS)[2:] == [(3, 0, "session-deleted", "s2")]


async def test_a_negative_depth_prunes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "lcm.db"
    async with await opened(path, -1) as engine:
        await engine.ingest(KEY, {"role": "user", "content": "hello"})
        await engine.new_session(KEY)
    assert len(context_of(path, 1)) == 1


@pytest.mark.long
def test_an_operator_prunes_a_context_as_new_does(database_copy: DatabaseFactory) -> None:
    path = database_copy("0.15.3")
    run(path, "UPDATE conversation_bootstrap_state SET soft_reset_pruned_at = NULL")
    before = dump(path)
    shown = run_command("conversations", "prune", "3", "--db", path, "--json").data
    assert (shown["applied"], shown["rows"]["context_items"]["delete"], dump(path)) == (False, 26, before)
    done = run_command("conversations", "prune", "3", "--apply", "--yes", "--db", path, "--json").data
    assert [at for at, _ in context_of(path, 3)] == [0, 1]
    undo(path, done["operationId"])
    assert dump(path) == before
