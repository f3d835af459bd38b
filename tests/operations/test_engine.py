"""An engine for a Python host: what it stores, how it finds its place again, and who waits for whom."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from lcm_core.api import Database, EngineSettings, LcmError, NotFoundError, RefusedError, UsageError, migrate
from lcm_core.base.jsonl import TranscriptChangedError
from lcm_core.base.setting_values import SettingSource, Sourced
from lcm_core.base.values import replace
from lcm_core.change.plan import ReadOnlyError
from lcm_core.change.schema import create_database
from lcm_core.operations.selection import reason_of
from lcm_core.store.opening import Access
from lcm_core.writers.request import SummarizerError, SummaryReply
from lcm_host.appending import Session
from lcm_host.backfill import transcript_pieces
from lcm_host.connection import OpenConnection
from lcm_host.engine import Engine
from lcm_host.payloads import PayloadError

from tests.change.support import context_of, dump, rows_of, search_faults
from tests.conftest import DatabaseFactory
from tests.databases import column, connect, keeps_a_wal, run, value

NOW = datetime(2026, 3, 6, 12, tzinfo=UTC)
KEY = Session("s1", "agent:main:main")
_FILE_ID = re.compile(r"file_[0-9a-f]{16}")
SMALL = replace(EngineSettings(), large_file_token_threshold=Sourced(2000, SettingSource.ENVIRONMENT))
#: A first import keeps everything.
WHOLE = replace(SMALL, bootstrap_max_tokens=Sourced(10**9, SettingSource.ENVIRONMENT))


async def gist(request) -> SummaryReply:
    return SummaryReply("What was done, in short.", "a-model")


async def opened(path: Path, **more: Any) -> Engine:
    more = {"large_files": path.parent / "lcm-files", "clock": lambda: NOW, **more}
    return await Engine.open(path, **more)


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[Engine]:
    async with await opened(tmp_path / "lcm.db") as engine:
        yield engine


def said(text: str, second: int = 0, role: str = "user") -> dict[str, Any]:
    return {"role": role, "content": text, "timestamp": 1772440631000 + second * 1000}


def answer(call: str, text: str, second: int = 0) -> dict[str, Any]:
    return {**said(text, second, "toolResult"), "toolCallId": call, "toolName": "exec"}


def texts(path: Path, conversation: int = 1) -> list[str]:
    return column(path, "SELECT content FROM messages WHERE conversation_id = ? ORDER BY seq", conversation)


# -- a new database --------------------------------------------------------------------------------------


def shape(path: Path) -> dict[str, object]:
    """Tables, columns, references and indexes, whatever their order."""
    with closing(sqlite3.connect(path)) as connection:
        found: dict[str, object] = {}
        for name, sql in connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'"):
            if "VIRTUAL" in sql:
                found[name] = "".join(sql.split())
                continue
            columns = 'SELECT name, type, "notnull", dflt_value, pk FROM pragma_table_info(?)'
            keys = 'SELECT "table", "from", "to", on_delete FROM pragma_foreign_key_list(?)'
            indexes = 'SELECT name, "unique", partial FROM pragma_index_list(?)'
            inner = "SELECT group_concat(name) FROM (SELECT name FROM pragma_index_info(?) ORDER BY seqno)"
            found[name] = (
                sorted(connection.execute(columns, (name,)).fetchall(), key=repr),
                sorted(connection.execute(keys, (name,)).fetchall(), key=repr),
                sorted(
                    (index[0], index[1], index[2], connection.execute(inner, (index[0],)).fetchone()[0])
                    for index in connection.execute(indexes, (name,)).fetchall()
                ),
            )
        return found


def test_a_new_database_has_the_present_schema(tmp_path: Path, database_file: Callable[[str], Path]) -> None:
    path = tmp_path / "lcm.db"
    create_database(path)
    assert shape(path) == shape(database_file("0.15.3"))
    assert path.stat().st_mode & 0o777 == 0o600
    assert keeps_a_wal(path)
    assert value(path, "SELECT count(*) FROM lcm_migration_state") == 4
    with pytest.raises(RefusedError, match="already exists"):
        create_database(path)
    with pytest.raises(LcmError, match="cannot be created"):
        create_database(tmp_path / "no" / "lcm.db")


# -- what a host says ------------------------------------------------------------------------------------


async def test_messages_stand_as_the_engine_writes_them(engine: Engine) -> None:
    path = engine.database.path
    first = await engine.ingest(KEY, said("hello"), entry_id="e1")
    assert (first.conversation_id, first.stored) == (1, 1)
    batch = [said("yes", 2, "assistant"), answer("toolu_0123456789AB", "out", 3)]
    assert (await engine.ingest_batch(KEY, batch)).stored == 2
    [conversation] = rows_of(path, "SELECT * FROM conversations")
    assert (conversation["session_id"], conversation["session_key"], conversation["active"]) == (
        "s1",
        "agent:main:main",
        1,
    )
    rows = rows_of(path, "SELECT * FROM messages ORDER BY seq")
    assert [(row["seq"], row["role"], row["content"], row["transcript_entry_id"]) for row in rows] == [
        (1, "user", "hello", "e1"),
        (2, "assistant", "yes", None),
        (3, "tool", "out", None),
    ]
    assert [row["created_at"] for row in rows] == [
        "2026-03-06 12:00:00",  # a message alone always has the present
        "2026-03-02 08:37:13",
        "2026-03-02 08:37:14",
    ]
    assert rows[2]["stable_event_key"] == "tool-result:toolu_0123456789AB"
    assert context_of(path, 1) == [(0, 1), (1, 2), (2, 3)]
    assert column(path, "SELECT created_at FROM context_items") == ["2026-03-06 12:00:00"] * 3
    assert search_faults(path) == []
    assert value(path, "SELECT count(*) FROM sqlite_master WHERE name LIKE 'lcm_tui_%'") == 0


async def test_what_is_known_is_not_stored_again(engine: Engine) -> None:
    path = engine.database.path
    await engine.ingest(KEY, said("hello"), entry_id="e1")
    await engine.ingest(KEY, answer("call_0123456789AB", "out", 1))
    again = await engine.ingest_batch(
        KEY, [said("hello"), answer("call_0123456789AB", "out", 9)], entry_ids=["e1", None]
    )
    assert (again.stored, again.known) == (0, 2)
    # What a provider names so is one event for ever, whatever it says.
    other = await engine.ingest(KEY, answer("call_0123456789AB", "other", 10))
    assert (other.stored, other.known) == (0, 1)
    keys = column(path, "SELECT stable_event_key FROM messages ORDER BY seq")
    assert keys == [None, "tool-result:call_0123456789AB"]


async def test_a_turn_begins_with_what_is_stored(engine: Engine) -> None:
    path = engine.database.path
    history = [said("one"), said("two", 1, "assistant")]
    await engine.ingest_batch(KEY, history)
    done = await engine.after_turn(KEY, [*history, said("three", 2), said("four", 3, "assistant")], 1)
    assert (done.stored, done.known) == (2, 1)
    assert texts(path) == ["one", "two", "three", "four"]
    # The same words at another time are new.
    done = await engine.after_turn(KEY, [said("four", 9, "assistant")])
    assert (done.stored, done.known) == (1, 0)


async def test_a_replay_is_refused(engine: Engine) -> None:
    path = engine.database.path
    lines = [said(f"question {number}", number) for number in range(4)]
    await engine.ingest_batch(KEY, lines)
    await engine.ingest_batch(KEY, lines)  # the very same time is no replay
    before = dump(path)
    with pytest.raises(RefusedError, match="looks like a replay: 3 messages"):
        await engine.ingest_batch(KEY, [said(line["content"], 99) for line in lines[:3]])
    assert dump(path) == before
    assert (await engine.ingest_batch(KEY, [said(lines[0]["content"], 99), said("new", 99)])).stored == 2
    with pytest.raises(RefusedError):  # one of that second is there already
        await engine.ingest_batch(KEY, [said(line["content"], 99) for line in lines[1:3]])


async def test_sessions_that_are_not_stored(tmp_path: Path) -> None:
    settings = replace(
        EngineSettings(),
        ignore_session_patterns=Sourced(("agent:*:cron:**",), SettingSource.ENVIRONMENT),
        stateless_session_patterns=Sourced(("agent:*:subagent:*",), SettingSource.ENVIRONMENT),
    )
    async with await opened(tmp_path / "lcm.db", settings=settings) as engine:
        for key in ("agent:main:cron:a:run:1", "agent:main:subagent:x"):
            assert (await engine.ingest(Session("s", key), said("x"))).conversation_id is None
        assert value(engine.database.path, "SELECT count(*) FROM conversations") == 0


async def test_a_key_goes_on_under_another_session_id(engine: Engine) -> None:
    path = engine.database.path
    await engine.ingest(KEY, said("one"))
    await engine.ingest(Session("s2", KEY.session_key), said("two", 1))
    await engine.ingest(Session("s1", "agent:main:other"), said("three", 2))
    assert column(path, "SELECT session_id FROM conversations ORDER BY conversation_id") == ["s2", "s1"]
    assert texts(path) == ["one", "two"]
    assert column(path, "SELECT session_id FROM message_parts WHERE message_id = 2") == ["s2"]


async def test_payloads_lie_there_before_their_rows_and_not_without_them(tmp_path: Path) -> None:
    path = tmp_path / "lcm.db"
    folder = tmp_path / "lcm-files"
    async with await opened(path, settings=SMALL) as engine:
        await engine.ingest(KEY, answer("a", "long words " * 2000))
        [row] = rows_of(path, "SELECT * FROM large_files")
        stored = Path(str(row["storage_uri"]))
        assert stored.parent == folder / "1"
        assert stored.stat().st_size == row["byte_size"]
        assert value(path, "SELECT large_content FROM messages") is None
        run(path, "CREATE TRIGGER t BEFORE INSERT ON large_files BEGIN SELECT raise(ABORT, 'no'); END")
        before = dump(path)
        with pytest.raises(LcmError):
            await engine.ingest(KEY, answer("b", "other words " * 2000, 1))
        assert dump(path) == before
        assert [one.name for one in folder.rglob("*.txt")] == [stored.name]
        run(path, "DROP TRIGGER t")
        folder.joinpath("1").rename(folder / "2")
        folder.joinpath("1").write_text("")
        with pytest.raises(PayloadError):
            await engine.ingest(KEY, answer("b", "other words " * 2000, 1))
        assert dump(path) == before


# -- old databases, other writers ------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("version", ["0.1.2", "0.3.0", "0.8.2", "0.15.3"])
async def test_any_database_is_gone_on_with_once_migrated(
    version: str, database_copy: Callable[[str], Path]
) -> None:
    path = database_copy(version)
    if version != "0.15.3":
        migrate(path)
    faults = search_faults(path)
    session = Session(value(path, "SELECT session_id FROM conversations WHERE conversation_id = 4"))
    last = value(path, "SELECT max(seq) FROM messages WHERE conversation_id = 4")
    context = context_of(path, 4)
    async with await opened(path) as engine:
        call = {"type": "toolCall", "id": "toolu_x", "name": "exec", "arguments": {"a": 1}}
        done = await engine.ingest(session, {**said("", 0, "assistant"), "content": [call]})
        new = await engine.ingest(Session("unheard of"), said("hi"))
    assert done.conversation_id == 4
    [row] = rows_of(path, "SELECT * FROM messages WHERE conversation_id = 4 ORDER BY seq DESC LIMIT 1")
    assert row["seq"] == last + 1
    assert context_of(path, 4) == [*context, (context[-1][0] + 1, row["message_id"])]
    kind = value(path, "SELECT part_type FROM message_parts WHERE message_id = ?", row["message_id"])
    assert kind == "tool"
    assert context_of(path, new.conversation_id or 0)[0][0] == 0
    assert search_faults(path) == faults


@pytest.mark.long
async def test_two_engines_append_at_once_and_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "lcm.db"
    async with await opened(path) as one, await opened(path) as other:
        await one.ingest(KEY, said("begin"))
        await asyncio.gather(
            *(one.ingest(KEY, said(f"a{number}", number)) for number in range(6)),
            *(other.ingest(KEY, said(f"b{number}", number)) for number in range(6)),
            *(other.ingest(Session("x", f"agent:x:{number}"), said("c")) for number in range(3)),
        )
    mine = texts(path)
    assert sorted(mine) == sorted(["begin", *(f"{who}{number}" for who in "ab" for number in range(6))])
    assert [one for one in mine if one.startswith("a")] == [f"a{number}" for number in range(6)]
    assert column(path, "SELECT seq FROM messages WHERE conversation_id = 1 ORDER BY seq") == list(
        range(1, 14)
    )
    order = "SELECT message_id FROM messages WHERE conversation_id = 1 ORDER BY seq"
    assert [ref for _, ref in context_of(path, 1)] == column(path, order)


async def test_calls_for_one_conversation_wait_and_those_for_others_do_not(engine: Engine) -> None:
    entered = asyncio.Event()

    async def hold() -> None:
        async with engine._turn(KEY):
            entered.set()
            await asyncio.sleep(60)

    holding = asyncio.ensure_future(hold())
    await entered.wait()
    waiting = asyncio.ensure_future(engine.ingest(KEY, said("later")))
    assert (await engine.ingest(Session("o", "agent:o:main"), said("now"))).stored == 1
    assert not waiting.done()
    holding.cancel()
    assert (await waiting).stored == 1


# -- what the model sees ---------------------------------------------------------------------------------


class Writer:
    """Shortens whatever it is given, slowly enough for a host to say something meanwhile."""

    def __init__(self, meanwhile: Callable[[], Any]) -> None:
        self.meanwhile = meanwhile
        self.calls = 0

    async def __call__(self, request, /) -> SummaryReply:
        self.calls += 1
        await self.meanwhile()
        return SummaryReply(f"summary {self.calls}\nExpand for details about: all", "test", "fake")


@pytest.mark.long
async def test_a_context_is_compacted_while_the_host_goes_on(engine: Engine) -> None:
    path = engine.database.path
    await engine.ingest_batch(KEY, [said(f"line {number} " + "word " * 60, number) for number in range(120)])
    whole = await engine.assemble(KEY, budget=100_000)
    assert len(whole.messages) == 120
    waiting = [said("meanwhile", 500)]

    async def say() -> None:
        await engine.ingest_batch(KEY, [waiting.pop()] if waiting else [])

    writer = Writer(say)
    assert (await engine.compact(KEY, writer, budget=100_000)).made == 0  # it is not due
    done = await engine.compact(KEY, writer, budget=100_000, force=True)
    assert done.made == writer.calls >= 1
    refs = [ref for _, ref in context_of(path, 1)]
    raw = [ref for ref in refs if isinstance(ref, int)]
    covered = column(path, "SELECT message_id FROM summary_messages ORDER BY message_id")
    assert [*covered, *raw] == list(range(1, 122))
    assembled = await engine.assemble(KEY, budget=100_000)
    assert len(assembled.messages) == len(refs)
    assert "summary 1" in assembled.messages[0].text
    with pytest.raises(NotFoundError):
        await engine.assemble(Session("unheard of"), budget=1000)


async def test_a_model_that_says_nothing_leaves_the_cut_of_the_engines_own_summariser(
    engine: Engine,
) -> None:
    await engine.ingest_batch(KEY, [said("line " * 60, number) for number in range(120)])

    async def nothing(request, /) -> SummaryReply:
        return SummaryReply("", "a/model", is_missing=True)

    done = await engine.compact(KEY, nothing, budget=100_000, force=True)
    assert done.made >= 1
    note = "\n[LCM fallback summary; truncated for context management]"
    contents = column(engine.database.path, "SELECT content FROM summaries WHERE depth = 0")
    assert contents
    assert all(one.endswith(f"line{note}") for one in contents)


async def test_an_engine_that_is_due_and_cannot_compact_sends_the_hosts_messages(
    engine: Engine, tmp_path: Path
) -> None:
    held = [said("word " * 40, number) for number in range(9)]
    await engine.ingest_batch(KEY, held)

    async def source(budget: int, **more: Any):
        return (await engine.assemble(KEY, budget=budget, live=held, **more)).metadata.source

    assert await source(500, can_compact=False) == "assembled"
    run(
        tmp_path / "lcm.db",
        "INSERT INTO conversation_compaction_maintenance (conversation_id, pending) VALUES (1, 1)",
    )
    await engine.database.refresh()
    assert await source(500, can_compact=False) == "emergency"
    assert await source(500) == "assembled"
    assert await source(100_000, can_compact=False) == "assembled"
    run(tmp_path / "lcm.db", "UPDATE conversation_compaction_maintenance SET projected_token_count = 75001")
    await engine.database.refresh()
    assert await source(100_000, can_compact=False) == "emergency"


@pytest.mark.long
async def test_a_host_that_delivers_the_prompt_is_sent_what_the_assistant_said_last(engine: Engine) -> None:
    for second in range(0, 40, 2):
        await engine.ingest(KEY, said(f"question {second} " * 9, second))
        await engine.ingest(KEY, said(f"answer {second} " * 9, second + 1, "assistant"))

    async def last(**more: Any) -> str:
        assembled = await engine.assemble(KEY, budget=600, **more)
        assert assembled.last_cut.applied
        return str(assembled.messages[-1].role)

    assert await last() == await last(prompt="and now?") == await last(delivers_prompt=True) == "user"
    assert await last(prompt="and now?", delivers_prompt=True) == "assistant"


CALL: dict[str, Any] = {
    "role": "assistant",
    "content": [{"type": "toolCall", "id": "call_1", "name": "read", "arguments": {"path": "a.py"}}],
}
RESULT: dict[str, Any] = {
    "role": "toolResult",
    "toolCallId": "call_1",
    "toolName": "read",
    "content": [{"type": "text", "text": "found it"}],
}


@pytest.mark.long
async def test_a_turn_that_is_not_stored_follows_what_is(engine: Engine) -> None:
    await engine.ingest_batch(KEY, [said("question", 1), said("answer", 2, "assistant")])
    ask = {"role": "user", "content": "and now?"}

    async def sent(*live: dict[str, Any], budget: int = 100_000, **more: Any) -> list[str]:
        found = await engine.assemble(KEY, budget=budget, live=live, **more)
        assert (len(found.weights), sum(found.weights)) == (len(found.messages), found.sent_tokens)
        assert (found.budget, found.metadata.estimated_tokens) == (budget, found.sent_tokens)
        return [message.text for message in found.messages]

    assert await sent() == ["question", "answer"]
    assert await sent(ask) == ["question", "answer", "and now?"]
    assert await sent(ask, prompt="and now?", delivers_prompt=True) == ["question", "answer"]
    assert (await sent(ask, CALL))[:3] == ["question", "answer", "and now?"]
    assert (await sent(ask, CALL, RESULT))[-1] == "found it"
    assert await sent({"role": "user", "content": "question"}) == ["question", "answer", "question"]
    await engine.ingest(KEY, ask)
    assert await sent(ask) == ["question", "answer", "and now?"]
    assert (await sent(ask, CALL, RESULT))[-1] == "found it"
    assert len(await sent(ask, CALL, RESULT)) == 5
    await engine.ingest(KEY, CALL)
    await engine.ingest(KEY, RESULT)
    for live in ((ask,), (ask, CALL), (ask, CALL, RESULT)):
        assert (await sent(*live))[2:] == (await sent())[2:]
    assert (await sent({"role": "user", "content": "stop"}))[-1] == "stop"
    await engine.ingest(KEY, said("done", 9, "assistant"))
    assert (await sent(ask))[-2:] == ["done", "and now?"]


async def test_older_messages_give_way_to_the_turn(engine: Engine) -> None:
    await engine.ingest_batch(KEY, [said("word " * 50, number) for number in range(9)])
    alone = await engine.assemble(KEY, budget=400)
    found = await engine.assemble(KEY, budget=400, live=[{"role": "user", "content": "now " * 50}])
    assert found.messages[-1].text == "now " * 50
    assert len(found.messages) <= len(alone.messages)
    assert found.sent_tokens <= 400
    await engine.noted()
    assert engine.snapshot_problem is None


async def test_of_a_session_that_is_not_stored_the_hosts_messages_are_sent(engine: Engine) -> None:
    held = [said(f"word {number}") for number in range(9)]
    found = await engine.assemble(KEY, budget=100_000, live=held)
    assert found.metadata.source == "fallback-live"
    assert [message.text for message in found.messages] == [one["content"] for one in held]
    cut = await engine.assemble(KEY, budget=60, live=held)
    assert cut.messages == found.messages[-len(cut.messages) :]
    assert 0 < cut.sent_tokens <= 54
    with pytest.raises(NotFoundError):
        await engine.assemble(KEY, budget=100_000, live=[])


@pytest.mark.long
async def test_times_are_those_of_the_zone_in_the_settings(tmp_path: Path) -> None:
    tokyo = replace(EngineSettings(), timezone=Sourced("Asia/Tokyo", SettingSource.ENVIRONMENT))
    sources: list[str] = []

    async def write(request, /) -> SummaryReply:
        sources.append(request.text)
        return SummaryReply("short", "fake")

    async with await opened(tmp_path / "lcm.db", settings=tokyo) as engine:
        await engine.ingest_batch(KEY, [said("line " * 60, number) for number in range(120)])
        await engine.compact(KEY, write, budget=100_000, force=True)
        assembled = await engine.assemble(KEY, budget=100_000)
        other = await engine.assemble(KEY, budget=100_000, zone=UTC)
    assert sources[0].startswith("[2026-03-02 17:37 GMT+9 | user]")
    assert 'earliest_at="2026-03-02T17:37:11"' in assembled.messages[0].text
    assert 'earliest_at="2026-03-02T08:37:11"' in other.messages[0].text


# -- a transcript at the start of a session --------------------------------------------------------------


def transcript(path: Path, *messages: dict[str, Any], more: bytes = b"") -> Path:
    lines: list[dict[str, Any]] = [
        {"type": "session", "version": 3, "id": "s1", "timestamp": "2026-03-02T08:00:00Z"}
    ]
    parent = None
    for number, message in enumerate(messages):
        lines.append({"type": "message", "id": f"e{number}", "parentId": parent, "message": message})
        parent = f"e{number}"
    path.write_bytes(b"".join(json.dumps(line).encode() + b"\n" for line in lines) + more)
    return path


async def test_a_transcript_is_imported_once_and_its_suffix_later(engine: Engine, tmp_path: Path) -> None:
    path = engine.database.path
    lines = [said(f"line {number}", number) for number in range(5)]
    file = transcript(tmp_path / "s1.jsonl", *lines[:3], more=b"{bad\n")
    first = await engine.bootstrap(KEY, file)
    assert (first.imported, first.proof, first.bad_lines) == (3, "nothing is stored yet", 1)
    [state] = rows_of(path, "SELECT * FROM conversation_bootstrap_state")
    assert (state["last_processed_entry_id"], state["last_processed_offset"]) == ("e2", file.stat().st_size)
    assert (state["session_file_path"], state["session_header_id"]) == (str(file), "s1")
    before = dump(path)
    assert (await engine.bootstrap(KEY, file)).imported == 0
    assert dump(path) == before
    transcript(file, *lines)
    later = await engine.bootstrap(KEY, file)
    assert (later.imported, later.proof) == (2, "entry ids")
    assert texts(path) == [f"line {number}" for number in range(5)]
    assert value(path, "SELECT last_processed_entry_id FROM conversation_bootstrap_state") == "e4"


async def test_without_entry_ids_the_texts_prove_the_place(engine: Engine, tmp_path: Path) -> None:
    path = engine.database.path
    lines = [said(text, number) for number, text in enumerate(["a", "b", "c", "b", "c", "d"])]
    await engine.ingest_batch(KEY, lines[:5])
    done = await engine.bootstrap(KEY, transcript(tmp_path / "s1.jsonl", *lines))
    assert (done.imported, done.proof) == (1, "role and text")
    assert texts(path) == ["a", "b", "c", "b", "c", "d"]


async def test_without_any_proof_nothing_is_imported(engine: Engine, tmp_path: Path) -> None:
    await engine.ingest(KEY, said("something else"))
    before = dump(engine.database.path)
    done = await engine.bootstrap(KEY, transcript(tmp_path / "s1.jsonl", said("a"), said("b", 1)))
    assert (done.imported, done.proof) == (0, "none")
    assert done.reason == "the transcript contains no stored message"
    many = transcript(tmp_path / "s2.jsonl", said("something else"), *(said(str(n), n) for n in range(60)))
    done = await engine.bootstrap(KEY, many)
    assert done.reason == "60 messages would be new by their text alone, and 50 are believed"
    assert dump(engine.database.path) == before


async def test_a_hole_is_told_and_not_filled_from_behind(engine: Engine, tmp_path: Path) -> None:
    lines = [said(f"line {number}", number) for number in range(4)]
    await engine.ingest_batch(KEY, [lines[0], lines[2]], entry_ids=["e0", "e2"])
    done = await engine.bootstrap(KEY, transcript(tmp_path / "s1.jsonl", *lines))
    assert (done.imported, done.left_out) == (1, 1)
    assert texts(engine.database.path) == ["line 0", "line 2", "line 3"]


@pytest.mark.cases(2)
@pytest.mark.parametrize(("budget", "kept"), [(1, 0), (99, 0), (100, 1), (249, 2), (250, 3), (10**9, 4)])
async def test_a_first_import_keeps_the_newest_messages_that_fit(
    tmp_path: Path, budget: int, kept: int
) -> None:
    lines = [said("x" * 4 * tokens, tokens) for tokens in (9, 50, 100, 100)]
    file = transcript(tmp_path / "s1.jsonl", *lines)
    fork = file.read_text().replace('"version": 3', '"version": 3, "parentSession": "/other.jsonl"')
    file.write_text(fork)
    settings = replace(
        EngineSettings(),
        bootstrap_max_tokens=Sourced(budget, SettingSource.ENVIRONMENT),
        large_file_token_threshold=Sourced(
            100, SettingSource.ENVIRONMENT
        ),  # what goes to a file counts in full
    )
    async with await opened(tmp_path / "lcm.db", settings=settings) as engine:
        done = await engine.bootstrap(KEY, file)
        assert (done.imported, done.left_out) == (kept, 4 - kept)
        assert (await engine.bootstrap(KEY, file)).imported == 0
    times = column(tmp_path / "lcm.db", "SELECT substr(created_at, 15) FROM messages ORDER BY seq")
    assert times == ["37:20", "38:01", "38:51", "38:51"][4 - kept :]
    [state] = rows_of(tmp_path / "lcm.db", "SELECT * FROM conversation_bootstrap_state")
    # The second look marks a fork of which nothing was left out, too.
    assert (state["fork_source_message_count"], state["fork_bounded"]) == (4, 1)
    assert (state["last_processed_entry_id"], state["last_processed_entry_hash"] is None) == ("e3", not kept)


@pytest.mark.long
async def test_turns_of_the_hosts_timer_go_again_when_asked(tmp_path: Path) -> None:
    lines = [
        said("Read HEARTBEAT.md if it exists.", 0),
        said(" heartbeat_ok\n", 1, "assistant"),
        said("just asking", 2),
        said("HEARTBEAT_OK", 3, "assistant"),  # no file is named: it stays
        said("Read HEARTBEAT.md if it exists.", 4),
        said("There is something: the disk is full.", 5, "assistant"),
    ]
    kept = [one["content"] for one in lines[2:]]
    file = transcript(tmp_path / "s1.jsonl", *lines)
    settings = replace(EngineSettings(), prune_heartbeat_ok=Sourced(True, SettingSource.ENVIRONMENT))
    async with await opened(tmp_path / "pruned.db", settings=settings) as engine:
        assert (await engine.bootstrap(KEY, file)).imported == 6
    assert texts(tmp_path / "pruned.db") == kept
    assert context_of(tmp_path / "pruned.db", 1) == [(ordinal, ordinal + 1) for ordinal in range(2, 6)]
    assert search_faults(tmp_path / "pruned.db") == []
    async with await opened(tmp_path / "whole.db") as engine:
        assert (await engine.bootstrap(KEY, file)).imported == 6
    # Whatever the settings: a turn that has ended goes, and later imports leave such turns out.
    async with await opened(tmp_path / "turn.db") as engine:
        assert (await engine.after_turn(KEY, lines)).stored == 6
        assert texts(tmp_path / "turn.db") == kept
        assert (await engine.after_turn(KEY, [said("Read HEARTBEAT.md", 9)], is_heartbeat=True)).stored == 0
        more = [said("[OpenClaw heartbeat poll]", 10), said("HEARTBEAT_OK", 11, "assistant")]
        transcript(file, *lines, *lines[:2], *more)
        assert (await engine.bootstrap(KEY, file)).imported == 1
    assert texts(tmp_path / "turn.db") == [*kept, "HEARTBEAT_OK"]


@pytest.mark.long
@pytest.mark.parametrize("prunes", [False, True])
async def test_what_the_hosts_timer_asked_is_preserved_when_wanted(prunes: bool, tmp_path: Path) -> None:
    turns = [
        said("[openclaw heartbeat poll]", 0),
        said("Looking.", 1, "assistant"),
        said("HEARTBEAT_OK", 2, "assistant"),
        said("Read HEARTBEAT.md if it exists.", 3),
        said(" heartbeat_ok\n", 4, "assistant"),
        said("[OpenClaw heartbeat poll]", 5),
        said("heartbeat_ok, but the disk is full", 6, "assistant"),  # content
        said("just asking", 7),
        said("HEARTBEAT_OK", 8, "assistant"),  # no idle turn
    ]
    all_of_it = [one["content"] for one in turns]
    kept = [text for at, text in enumerate(all_of_it) if not prunes or at not in (2, 4)]
    settings = replace(
        EngineSettings(),
        prune_heartbeat_ok=Sourced(prunes, SettingSource.ENVIRONMENT),
        preserve_heartbeat_poll=Sourced(True, SettingSource.ENVIRONMENT),
    )
    file = transcript(tmp_path / "s1.jsonl", *turns)
    async with await opened(tmp_path / "first.db", settings=settings) as engine:
        assert (await engine.bootstrap(KEY, file)).imported == 9
    assert texts(tmp_path / "first.db") == kept
    async with await opened(tmp_path / "later.db", settings=settings) as engine:
        transcript(file, said("Hello.", 0))
        await engine.bootstrap(KEY, file)
        transcript(file, said("Hello.", 0), *turns)
        await engine.bootstrap(KEY, file)
    assert texts(tmp_path / "later.db") == ["Hello.", *kept]
    async with await opened(tmp_path / "turn.db", settings=settings) as engine:
        for at in range(3):
            await engine.after_turn(KEY, [turns[at]], is_heartbeat=True)
        await engine.after_turn(KEY, turns[3:])
    assert texts(tmp_path / "turn.db") == kept


@pytest.mark.parametrize("named", [False, True])
async def test_a_turn_of_the_timer_that_is_being_prepared_stays(
    named: bool, database_copy: DatabaseFactory
) -> None:
    """docs/spec/prepared.md, "Batches and nodes": a message that a node names cannot be deleted."""
    path, key = database_copy("1.0-next"), Session("other", "agent:main:other")
    settings = replace(EngineSettings(), prune_heartbeat_ok=Sourced(True, SettingSource.ENVIRONMENT))
    async with await opened(path, settings=settings) as engine:
        await engine.ingest(key, said("Read HEARTBEAT.md if it exists."))
        newest = value(path, "SELECT max(message_id) FROM messages")
        if named:
            node = value(path, "SELECT min(node_id) FROM pending_summary_nodes WHERE status = 'stale'")
            columns = "(node_id, message_id, ordinal)"
            run(path, f"INSERT INTO pending_summary_node_messages {columns} VALUES ('{node}', {newest}, 99)")
        await engine.after_turn(key, [said("HEARTBEAT_OK", 3, "assistant")])
    left = value(path, f"SELECT count(*) FROM messages WHERE message_id >= {newest}")
    assert left == (2 if named else 0)


def without_ids(path: Path, sql: str) -> list[dict[str, Any]]:
    """Rows by column name, with the same word for every id of a file and none of a row."""
    return [
        {
            name: _FILE_ID.sub("file", value) if isinstance(value, str) else value
            for name, value in row.as_dict().items()
            if name not in ("message_id", "part_id")
        }
        for row in rows_of(path, sql)
    ]


@pytest.mark.long
async def test_the_recorded_sessions_give_the_recorded_conversations(
    openclaw_home: Path, tmp_path: Path
) -> None:
    recorded = openclaw_home / "lcm.db"
    path = tmp_path / "new" / "lcm.db"
    path.parent.mkdir()
    wanted = rows_of(recorded, "SELECT * FROM conversations ORDER BY conversation_id")
    async with await opened(path, settings=WHOLE) as engine:
        for row in wanted:
            [file] = (openclaw_home / "agents").glob(f"*/sessions/{row['session_id']}.jsonl")
            session = Session(str(row["session_id"]), str(row["session_key"]))
            if row["conversation_id"] == 8:  # the host reset the session in between
                run(path, "UPDATE conversations SET active = 0 WHERE conversation_id = 5")
            assert (await engine.bootstrap(session, file)).conversation_id == row["conversation_id"]
    # All that the engine wrote but ids, which are random, and the two messages that it stored twice (seq).
    messages = """SELECT conversation_id, transcript_entry_id, role, content, token_count,
        iif(content LIKE '%file\\_%' ESCAPE '\\', NULL, identity_hash), openclaw_sender_metadata, created_at,
        large_content, stable_event_key, iif(conversation_id = 3, NULL, seq) FROM messages
        WHERE transcript_entry_id IS NOT NULL ORDER BY conversation_id, transcript_entry_id"""
    parts = """SELECT m.conversation_id, m.transcript_entry_id, p.* FROM message_parts AS p
        JOIN messages AS m USING (message_id) WHERE m.transcript_entry_id IS NOT NULL
        ORDER BY 1, 2, p.ordinal"""
    for told, rows in ((messages, 863), (parts, 1_194)):
        found = without_ids(path, told)
        assert len(found) == rows
        assert found == without_ids(recorded, told)
    checkpoints = """SELECT last_processed_offset, last_processed_entry_hash, session_header_id,
        last_processed_entry_id FROM conversation_bootstrap_state ORDER BY conversation_id"""
    with connect(path) as ours, connect(recorded) as theirs:
        assert ours.execute(checkpoints).fetchall() == theirs.execute(checkpoints).fetchall()
    assert search_faults(path) == []


async def test_an_import_is_made_in_pieces_and_each_is_committed(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lcm_host.backfill.PIECE", 120)
    lines = [said(f"line {number}", number) for number in range(300)]
    done = await engine.bootstrap(KEY, transcript(tmp_path / "s1.jsonl", *lines))
    assert done.imported == 300
    path = engine.database.path
    assert texts(path) == [line["content"] for line in lines]
    assert column(path, "SELECT ordinal FROM context_items") == list(range(300))
    assert search_faults(path) == []


async def test_what_was_read_is_stored_when_the_next_piece_cannot_be_read(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks_off(*given: Any):
        yield next(transcript_pieces(*given, size=20))
        raise TranscriptChangedError("it was rewritten")

    monkeypatch.setattr("lcm_host.transcripts.transcript_pieces", breaks_off)
    file = transcript(tmp_path / "s1.jsonl", *[said(f"line {number}", number) for number in range(50)])
    with pytest.raises(TranscriptChangedError):
        await engine.bootstrap(KEY, file)
    assert texts(engine.database.path) == [f"line {number}" for number in range(20)]
    monkeypatch.undo()
    assert (await engine.bootstrap(KEY, file)).imported == 30


async def test_a_key_that_says_nothing_joins_no_sessions(engine: Engine) -> None:
    for number, key in enumerate(("", "", "  ", "  ", None), 1):
        done = await engine.ingest(Session(f"s{number}", key), said("hi"))
        assert done.conversation_id == number


async def test_as_many_entry_ids_as_messages(engine: Engine) -> None:
    with pytest.raises(UsageError, match="2 entry ids for 1 message: give"):
        await engine.ingest_batch(KEY, [said("hi")], entry_ids=["a", "b"])


async def test_only_what_was_read_from_a_transcript_was_bootstrapped(engine: Engine, tmp_path: Path) -> None:
    """Otherwise the checks would miss its checkpoint (G8)."""
    facts = """SELECT c.bootstrapped_at AS a, b.last_processed_entry_id AS b,
        b.fork_source_message_count AS c FROM conversations AS c
        LEFT JOIN conversation_bootstrap_state AS b USING (conversation_id)"""

    def noted() -> list[tuple[object, ...]]:
        return [tuple(row.as_dict().values()) for row in rows_of(tmp_path / "lcm.db", facts)]

    stamp = "2026-03-06 12:00:00"
    await engine.ingest(KEY, said("one"))
    assert noted() == [(None, None, None)]
    lines = [said(text) for text in ("one", "two", "three")]
    assert (await engine.bootstrap(KEY, transcript(tmp_path / "t.jsonl", *lines[:2]))).imported == 1
    assert noted() == [(stamp, "e1", 0)]
    await engine.bootstrap(Session("s2"), transcript(tmp_path / "u.jsonl", *lines))
    assert noted()[1:] == [(stamp, "e2", 3)]


@pytest.mark.long
async def test_a_host_that_appends_without_a_rest_reads_whole_contexts_all_the_same(tmp_path: Path) -> None:
    """Its commits would write pages under its own readers, if its file were not open all the while."""
    path = tmp_path / "lcm.db"
    async with await opened(path) as engine:
        assert {one.name for one in tmp_path.iterdir()} >= {"lcm.db", "lcm.db-wal", "lcm.db-shm"}

        async def talk(session: Session) -> None:
            for turn in range(8):
                await engine.ingest(session, said("word " * 400, turn))
                sent = await engine.assemble(session, budget=100_000)
                assert len(sent.messages) == turn + 1

        await asyncio.gather(*(talk(Session(f"s{number}")) for number in range(4)))
        await engine.noted()
        assert engine.snapshot_problem is None
        assert engine.database.access is Access.READ_ONLY
    assert [one.name for one in tmp_path.iterdir()] == ["lcm.db"]
    assert value(path, "PRAGMA quick_check") == "ok"


async def test_an_engine_leaves_no_wal_beside_a_file_that_it_may_not_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite would, as read-only as the file, and the host that owns it could not write that WAL."""
    path, allowed = tmp_path / "lcm.db", os.access
    create_database(path)
    monkeypatch.setattr(
        os, "access", lambda path, mode, **more: mode != os.W_OK and allowed(path, mode, **more)
    )
    async with await opened(path) as engine:
        with pytest.raises(ReadOnlyError):
            await engine.ingest(KEY, said("one"))
        assert [one.name for one in tmp_path.iterdir()] == ["lcm.db"]


@pytest.mark.parametrize("where", ["begin", "refresh"])
async def test_an_engine_that_is_not_wanted_any_more_closes_what_it_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    path, reached, go_on = tmp_path / "lcm.db", asyncio.Event(), threading.Event()
    create_database(path)
    loop, begin, refresh = asyncio.get_running_loop(), OpenConnection.begin, Database.refresh

    def slow(presence: OpenConnection) -> None:
        loop.call_soon_threadsafe(reached.set)
        go_on.wait(10)
        begin(presence)

    async def never(database: Database) -> None:
        await refresh(database)
        reached.set()
        await asyncio.sleep(600)

    if where == "begin":
        monkeypatch.setattr(OpenConnection, "begin", slow)
    else:
        monkeypatch.setattr(Database, "refresh", never)
    opening = asyncio.create_task(opened(path))
    await reached.wait()
    opening.cancel()
    loop.call_later(0.1, go_on.set)
    with pytest.raises(asyncio.CancelledError):
        await opening
    await asyncio.to_thread(go_on.wait, 10)
    await asyncio.sleep(0.2)
    assert [one.name for one in tmp_path.iterdir()] == ["lcm.db"]


async def test_after_an_overflow_finished_tool_calls_of_the_current_turn_are_compacted(
    database_copy: DatabaseFactory,
) -> None:
    """Of a file of 1.1; the schema of before it knows no such thing."""
    small = replace(
        EngineSettings(),
        fresh_tail_count=Sourced(2, SettingSource.ENVIRONMENT),
        leaf_chunk_tokens=Sourced(150, SettingSource.ENVIRONMENT),
    )
    session = Session("?", "agent:main:overflow")
    async with await opened(database_copy("1.1.0-shapes"), settings=small) as engine:
        assert (await engine.compact(session, gist, budget=4_000, force=True)).made == 0
        assert (await engine.compact(session, gist, budget=4_000, overflowed=True)).leaves == 2
        assert (await engine.compact(session, gist, budget=4_000, overflowed=True)).made == 0


@pytest.mark.cases(1)
@pytest.mark.parametrize(("version", "raises"), [("1.1.0-upgraded", False), ("0.15.3", True)])
async def test_an_engine_from_1_1_on_reports_what_it_did_before_a_model_failed(
    version: str, raises: bool, database_copy: DatabaseFactory
) -> None:
    small = replace(
        EngineSettings(),
        fresh_tail_count=Sourced(4, SettingSource.ENVIRONMENT),
        leaf_chunk_tokens=Sourced(300, SettingSource.ENVIRONMENT),
    )
    path, calls = database_copy(version), 0

    async def second_fails(request, /) -> SummaryReply:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise SummarizerError("The server did not answer in time.")
        return await gist(request)

    session = Session(
        "?", str(value(path, "SELECT session_key FROM conversations WHERE conversation_id = 2"))
    )
    before = value(path, "SELECT count(*) FROM summaries")
    async with await opened(path, settings=small) as engine:
        if raises:
            with pytest.raises(SummarizerError, match="in time"):
                await engine.compact(session, second_fails, budget=4_000, force=True)
        else:
            done = await engine.compact(session, second_fails, budget=4_000, force=True)
            assert (done.made, str(done.failed)) == (1, "The server did not answer in time.")
            reason = reason_of(done.made, None, done.failed)
            assert reason == "compaction failed after partial progress"
            calls = 1  # the first answer of the next one is the one that fails
            with pytest.raises(SummarizerError):
                await engine.compact(session, second_fails, budget=4_000, force=True)
    assert value(path, "SELECT count(*) FROM summaries") == before + 1
