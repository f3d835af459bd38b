"""Snapshots of assemblies: kept by an engine, bounded, shown again, gone with their conversation."""

from __future__ import annotations

import asyncio
import json
import zlib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from lcm_host.appending import Session
from lcm_host.engine import Engine

from tests.change.support import dump, rows_of
from tests.cli.support import run
from tests.conftest import DatabaseFactory
from tests.databases import column, connect, value

NOW = datetime(2026, 3, 6, 12, tzinfo=UTC)
TABLE = "SELECT count(*) FROM sqlite_master WHERE name = 'lcm_tui_assemblies'"
COUNT = "SELECT count(*) FROM lcm_tui_assemblies WHERE conversation_id = ?"
NEWEST = "SELECT id FROM lcm_tui_assemblies ORDER BY rowid DESC LIMIT 1"


async def opened(path: Path, **more: Any) -> Engine:
    return await Engine.open(path, large_files=path.parent / "lcm-files", clock=lambda: NOW, **more)


def session_of(path: Path, conversation_id: int) -> Session:
    [row] = rows_of(path, f"SELECT * FROM conversations WHERE conversation_id = {conversation_id}")
    key = row.get("session_key")
    return Session(str(row["session_id"]), None if key is None else str(key))


def shown(path: Path, conversation_id: int, *more: object) -> Any:
    return run("context", conversation_id, "--snapshots", "--db", path, "--json", *more).data


def snapshot(path: Path, name: str) -> Any:
    return run("show", name, "--db", path, "--json").data


async def assembled(path: Path, conversation_id: int = 1, budget: int = 3_500, **more: Any) -> Any:
    async with await opened(path) as engine:
        found = await engine.assemble(session_of(path, conversation_id), budget=budget, **more)
        await engine.noted()
        assert engine.snapshot_problem is None
        return found


@pytest.mark.long
@pytest.mark.parametrize(
    ("version", "most", "small"), [("0.1.2", 6, 2_000), ("0.15.3", 6, 2_000), ("1.1.0-shapes", 13, 600)]
)
async def test_what_was_sent_is_shown_again(
    database_copy: DatabaseFactory, version: str, most: int, small: int
) -> None:
    path = database_copy(version)
    before = dump(path)
    for conversation in column(path, "SELECT conversation_id FROM conversations ORDER BY 1 LIMIT ?", most):
        for budget in (small, 128_000):
            sent = await assembled(path, conversation, budget, zone=ZoneInfo("Asia/Tokyo"))
            owner = value(
                path, NEWEST.replace("id FROM", "conversation_id FROM")
            )  # the active one of its key
            data = await in_thread(snapshot, path, value(path, NEWEST))
            assert data["exact"], (owner, budget)
            assert (data["gone"], data["notKept"]) == ([], 0)
            assert data["messages"] == json.loads(json.dumps([one.document() for one in sent.messages]))
            counted = ("rawHistoryEstimatedTokens", "rawHistoryDebtTokens")
            noted, told = data["snapshot"]["metadata"], sent.metadata.document()
            assert {**noted, **dict.fromkeys(counted)} == told
            total = "SELECT sum(token_count) FROM messages WHERE conversation_id = ?"
            assert noted[counted[0]] == value(path, total, owner)
            assert 0 <= noted[counted[1]] <= noted[counted[0]]
            assert data["snapshot"]["timezone"] == "Asia/Tokyo"
    assert dump(path) == before


async def in_thread(call: Any, *arguments: object) -> Any:
    """The command line runs a loop of its own."""
    return await asyncio.to_thread(call, *arguments)


@pytest.mark.long
async def test_the_newest_are_kept_and_listed(database_copy: DatabaseFactory) -> None:
    path = database_copy("0.15.3")
    async with await opened(path, snapshots=3) as engine:
        for budget in (2_000, 3_000, 4_000, 5_000):
            await engine.assemble(session_of(path, 1), budget=budget)
        await engine.assemble(session_of(path, 2), budget=1_000)
    data = await in_thread(shown, path, 1)
    assert [one["budget"] for one in data["items"]] == [5_000, 4_000, 3_000]
    assert len((await in_thread(shown, path, 1, "--limit", 1))["items"]) == 1
    assert value(path, COUNT, 2) == 1
    text = (await in_thread(run, "context", 1, "--snapshots", "--db", path)).out
    assert value(path, NEWEST.replace("ORDER", "WHERE conversation_id = 1 ORDER")) in text
    missing = await in_thread(run, "show", "asm_x", "--db", path)
    assert missing.code == 3
    assert "There is no snapshot asm_x" in missing.err


async def test_no_text_and_no_prompt_is_kept(database_copy: DatabaseFactory) -> None:
    path = database_copy("0.15.3")
    live = [{"role": "user", "content": "xylophone in the host's list"}]
    await assembled(path, 1, 3_500, prompt="quagmire", live=live)
    [row] = rows_of(path, "SELECT * FROM lcm_tui_assemblies")
    assert "quagmire" not in repr(row)
    assert "xylophone" not in repr(row)


def test_browsing_makes_no_table(database_copy: DatabaseFactory) -> None:
    path = database_copy("0.15.3")
    assert shown(path, 1)["items"] == []
    assert "No snapshots" in run("context", 1, "--snapshots", "--db", path).out
    assert run("context", 1, "--assembled", "--db", path).code == 0
    assert run("show", "asm_x", "--db", path).code == 3
    assert value(path, TABLE) == 0


async def test_a_snapshot_that_fails_costs_nothing(database_copy: DatabaseFactory) -> None:
    path = database_copy("0.15.3")
    async with await opened(path) as engine:
        with connect(path) as host:
            host.execute("BEGIN IMMEDIATE")
            assert (await engine.assemble(session_of(path, 1), budget=3_500)).messages
            await engine.noted()
            assert "lock" in (engine.snapshot_problem or "")
            host.execute("ROLLBACK")
        assert value(path, TABLE) == 0
        await engine.assemble(session_of(path, 1), budget=3_500)
        await engine.noted()
        assert engine.snapshot_problem is None
    async with await opened(path, snapshots=0) as engine:
        await engine.assemble(session_of(path, 1), budget=3_500)
    assert value(path, COUNT, 1) == 1


async def test_it_says_what_is_gone_and_what_changed(database_copy: DatabaseFactory) -> None:
    path = database_copy("0.15.3")
    await assembled(path, 1, 6_000)
    name = value(path, NEWEST)
    whole = await in_thread(snapshot, path, name)
    first = next(one for one in whole["items"] if one["origin"] == "summary")
    with connect(path) as host:
        host.execute("UPDATE summaries SET content = 'other' WHERE summary_id = ?", (first["ref"],))
    changed = await in_thread(snapshot, path, name)
    assert (changed["exact"], changed["gone"]) == (False, [])
    with connect(path) as host:
        host.execute("DELETE FROM summaries WHERE summary_id = ?", (first["ref"],))
    left = await in_thread(snapshot, path, name)
    assert (left["exact"], left["gone"]) == (False, [first])
    assert len(left["messages"]) == len(whole["messages"]) - 1
    text = (await in_thread(run, "show", name, "--db", path)).out
    assert f"Deleted from the database: {first['ref']}." in text


async def test_a_focus_brief_that_was_sent_is_found_when_it_is_active_no_more(
    database_copy: DatabaseFactory,
) -> None:
    path = database_copy("0.15.3")
    await assembled(path, 2, 100_000)
    with connect(path) as host:
        host.execute("UPDATE focus_briefs SET status = 'superseded' WHERE status = 'active'")
    data = await in_thread(snapshot, path, value(path, NEWEST))
    assert [one["ref"] for one in data["items"] if one["origin"] == "focus brief"] == [
        "focus_0641d2bb900b47e2"
    ]
    assert (data["exact"], data["gone"]) == (True, [])


async def test_the_hosts_own_list_is_counted(tmp_path: Path) -> None:
    path, session = tmp_path / "lcm.db", Session("s1", "agent:main:main")
    async with await opened(path) as engine:
        await engine.ingest(session, {"role": "assistant", "content": "hello", "timestamp": 1772440631000})
        assert value(path, TABLE) == 0
        live = [{"role": "user", "content": "are you there?"}]
        sent = await engine.assemble(session, budget=1_000, live=live)
        assert sent.metadata.source != "assembled"
    data = await in_thread(snapshot, path, value(path, NEWEST))
    assert (data["exact"], data["notKept"], data["gone"]) == (False, 1, [])
    assert data["snapshot"]["metadata"]["source"] == str(sent.metadata.source)


async def test_what_was_cut_off_last_is_told_apart(database_copy: DatabaseFactory) -> None:
    path = database_copy("0.15.3")
    sent = await assembled(path, 1, 3_500)
    data = await in_thread(snapshot, path, value(path, NEWEST))
    assert data["exact"]
    assert [one["ordinal"] for one in data["finalClamp"]] == [1, 2, 3, 21]
    assert [one["ordinal"] for one in data["items"]] == list(range(4, 21))
    assert len(data["messages"]) == len(sent.messages) == 17


async def test_a_snapshot_of_before_the_cut_was_noted_is_read(database_copy: DatabaseFactory) -> None:
    path = database_copy("0.15.3")
    await assembled(path, 1, 6_000)
    with connect(path) as host:
        [(items,)] = host.execute("SELECT items FROM lcm_tui_assemblies").fetchall()
        two_lists = zlib.compress(json.dumps(json.loads(zlib.decompress(items))[:2]).encode())
        host.execute("UPDATE lcm_tui_assemblies SET items = ?", (two_lists,))
    data = await in_thread(snapshot, path, value(path, NEWEST))
    assert (data["exact"], data["finalClamp"]) == (True, [])


@pytest.mark.long
async def test_pages_and_beginnings_of_ids(database_copy: DatabaseFactory) -> None:
    path = database_copy("0.15.3")
    async with await opened(path) as engine:
        for budget in (2_000, 3_000, 4_000):
            await engine.assemble(session_of(path, 1), budget=budget)
    first = await in_thread(run, "context", 1, "--snapshots", "--db", path, "--json", "--limit", 2)
    assert [one["budget"] for one in first.data["items"]] == [4_000, 3_000]
    cursor = first.document["pagination"]["nextCursor"]
    rest = await in_thread(shown, path, 1, "--limit", 2, "--cursor", cursor)
    assert [one["budget"] for one in rest["items"]] == [2_000]
    newest = value(path, NEWEST)
    assert (await in_thread(snapshot, path, newest[:12]))["snapshot"]["id"] == newest
    several = await in_thread(run, "show", "asm_", "--db", path)
    assert several.code == 2
    assert "More than one snapshot matches asm_" in several.err


@pytest.mark.long
async def test_a_snapshot_is_compared_with_now_and_with_another(database_copy: DatabaseFactory) -> None:
    path = database_copy("0.15.3")
    async with await opened(path) as engine:
        await engine.assemble(session_of(path, 1), budget=3_500)
        await engine.assemble(session_of(path, 1), budget=6_000)
    newer, older = column(path, "SELECT id FROM lcm_tui_assemblies ORDER BY rowid DESC")
    with connect(path) as host:
        host.execute("UPDATE messages SET content = 'later' WHERE message_id = 858")
        host.execute("DELETE FROM message_parts WHERE message_id = 858")
    compare = ("context", 1, "--db", path, "--json")
    now = (await in_thread(run, *compare, "--at", older[:12], "--compare", "at=now")).data
    assert (now["first"]["snapshot"]["id"], now["second"]["snapshot"]) == (older, None)
    assert (now["first"]["budget"], now["second"]["budget"]) == (3_500, 3_500)
    assert now["second"]["metadata"]["rawHistoryEstimatedTokens"] > 0
    assert not now["first"]["snapshot"]["exact"]
    two = (await in_thread(run, *compare, "--at", older, "--compare", f"at={newer}")).data
    assert [one["ordinal"] for one in two["messages"]["onlySecond"]] == [0, 1, 2, 3, 21]
    wide = (await in_thread(run, *compare, "--compare", f"at={older}", "--budget", "6000")).data
    assert (wide["first"]["budget"], wide["second"]["budget"]) == (6_000, 3_500)
    text = (await in_thread(run, *compare[:-1], "--at", older, "--compare", "at=now")).out
    assert f"snapshot {older} of 2026-03-06 12:00:00Z (rows changed since), 3,500 tokens" in text
    for refused in (("--at", "asm_none"), ("--at", older, "--budget", "1k")):
        for more in ((), ("--compare", "at=now")):
            code = 3 if len(refused) == 2 else 2
            assert (await in_thread(run, *compare, *refused, *more)).code == code
    sent = (await in_thread(run, *compare, "--at", older)).data
    assert sent == (await in_thread(run, "show", older, *compare[2:])).data
    assert (await in_thread(run, "context", 2, *compare[2:], "--at", older)).code == 3
    with_rules = (await in_thread(run, *compare, "--compare", "rules=0.1")).data
    assert (with_rules["first"]["rules"], with_rules["second"]["rules"]) == ("0.15", "0.1")
    asked = (await in_thread(run, *compare, "--budget", "3k", "--compare", "prompt=lease", "--no-clamp")).data
    assert asked["first"]["messagesHash"] != asked["second"]["messagesHash"]


@pytest.mark.long
@pytest.mark.parametrize("how", ["delete", "forget"])
async def test_they_go_with_their_conversation(database_copy: DatabaseFactory, how: str) -> None:
    path = database_copy("0.15.3")
    for conversation in (3, 7):
        await assembled(path, conversation)
    more = ["--to", path.parent / "x"] if how == "delete" else ["--forever"]
    done = await in_thread(run, "conversations", "delete", 7, "--db", path, "--apply", "--yes", *more)
    assert done.code == 0, done.err
    assert (value(path, COUNT, 3), value(path, COUNT, 7)) == (1, 0)


@pytest.mark.long
async def test_a_damaged_snapshot_hides_no_other(database_copy: DatabaseFactory) -> None:
    path = database_copy("0.15.3")
    for _ in range(2):
        await assembled(path)
    damaged, whole = column(path, "SELECT id FROM lcm_tui_assemblies ORDER BY rowid DESC")
    for columns in (
        "account = x'00'",
        "account = 3",
        "account = '{}'",
        "account = '{\"budget\": 1e999}'",
        "zone = 3",
    ):
        with connect(path) as host:
            host.execute(f"UPDATE lcm_tui_assemblies SET {columns} WHERE id = ?", (damaged,))
        command = ("context", 1, "--snapshots", "--db", path)
        first, second = (await in_thread(run, *command, "--json")).data["items"]
        assert set(first) == {"id", "createdAt", "damaged"}
        assert f"Snapshot {damaged} of conversation 1 is damaged" in first["damaged"]
        assert (second["id"], second["damaged"]) == (whole, None)
        printed = (await in_thread(run, *command)).out
        assert whole in printed
        assert f"Snapshot {damaged} of conversation 1 is damaged" in printed
        refused = await in_thread(run, "show", damaged, "--db", path)
        assert refused.code == 5
        assert "is damaged" in refused.err
