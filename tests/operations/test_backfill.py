"""Backfill: what would be imported, that nothing of it is lost, and that it can be stopped and taken back."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lcm_core.api import NotFoundError, Options, RefusedError, StalePlanError, migrate, resolve
from lcm_core.change.commit import commit
from lcm_core.change.reindex import reindex
from lcm_core.engine.rules import RULES_PRESENT
from lcm_host.appending import Session
from lcm_host.backfill import Backfilling, find_to_import, host_source
from lcm_host.engine import Engine
from lcm_host.messages import read_host_file
from lcm_host.sessions import list_sessions

from lcm_tui.flows.changes import HostImport
from tests.change.host import Host
from tests.change.oracle import Whole
from tests.change.support import context_of, dump, reading, rows_of, search_faults
from tests.cli.support import run
from tests.databases import column, connect, value
from tests.databases import run as change_behind

ODD = "ce98a067-e9e5-403f-a6d5-7ded87bb123a"
LONG = "4361652a-c630-427f-a157-12eb5ff25efa"
TOPIC = "2b8481de-5074-498f-a26c-a4ecc47a74b7-topic-1234"
UNKNOWN = (("research", ODD), ("main", LONG), ("main", TOPIC))
#: Messages of each that the engine stores: not a command that the operator ran in the host.
STORED = {ODD: 67, LONG: 97, TOPIC: 27}


def backfill(home: Path, agent: str, session: str, *more: object) -> Any:
    return run("backfill", agent, session, "--openclaw-dir", home, *more)


def file_of(home: Path, agent: str, session: str) -> Path:
    return home / "agents" / agent / "sessions" / f"{session}.jsonl"


def everything_in(folder: Path) -> dict[str, bytes]:
    return {str(one.relative_to(folder)): one.read_bytes() for one in folder.rglob("*") if one.is_file()}


def transcript(path: Path, *messages: object, session: str = "s-new") -> Path:
    lines: list[dict[str, Any]] = [{"type": "session", "id": session, "timestamp": "2026-03-02T08:00:00Z"}]
    for number, message in enumerate(messages):
        parent = f"e{number - 1}" if number else None
        at = f"2026-03-02T08:{number // 60 % 60:02}:{number % 60:02}Z"
        held = {"role": "user", "content": message} if isinstance(message, str) else message
        lines.append(
            {"type": "message", "id": f"e{number}", "parentId": parent, "timestamp": at, "message": held}
        )
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def lines_of(count: int) -> list[str]:
    """The lines of a session of some messages in a row, a header first."""
    lines = [json.dumps({"type": "session", "id": "s-new", "timestamp": "2026-03-02T08:00:00Z"})]
    for number in range(count):
        role = "assistant" if number % 2 else "user"
        text = f"note {number}: pier {number} opens at {number} o'clock"
        lines.append(
            json.dumps(
                {"type": "message", "id": f"e{number}", "parentId": f"e{number - 1}" if number else None}
                | {"timestamp": f"2026-03-02T08:00:{number:02}Z", "message": {"role": role, "content": text}}
            )
        )
    return lines


def other(line: str, entry_id: str, text: str | None = None) -> str:
    """The same entry under another id, with another text if one is given."""
    entry = json.loads(line)
    entry["id"] = entry_id
    entry["message"]["content"] = text or entry["message"]["content"]
    return json.dumps(entry)


def tool_answer(line: str, entry_id: str, text: str) -> str:
    entry = json.loads(line)
    entry["id"], call = entry_id, "toolu_0123456789abcdef"
    entry["message"] = {"role": "toolResult", "toolCallId": call, "toolName": "x", "content": text}
    return json.dumps(entry)


ALL = lines_of(10)
#: Lines, how many messages are stored, and what is said to be lost.
SPLICED: dict[str, tuple[list[str], int, str]] = {
    "two on one line": ([*ALL[:4], ALL[4] + ALL[5], *ALL[6:]], 10, ""),
    "all on one line": ([ALL[0], "".join(ALL[1:])], 10, ""),
    "the header and all": (["".join(ALL)], 10, ""),
    "cut, then the next": ([*ALL[:4], ALL[4][:70] + ALL[5], *ALL[6:]], 9, "e3"),
    "NUL before one": ([*ALL[:5], "\0" * 300 + ALL[5], *ALL[6:]], 10, ""),
    "an id twice": ([*ALL[:5], other(ALL[5], "e3"), *ALL[6:]], 9, "line 6"),
    "an id three times": ([*ALL[:5], other(ALL[5], "e3"), other(ALL[6], "e3"), *ALL[7:]], 8, "line 7"),
    "a line written again": ([*ALL[:5], ALL[4], *ALL[5:]], 10, ""),
    "another text for an id": ([*ALL[:5], other(ALL[4], "e3", "changed"), *ALL[5:]], 10, "line 5"),
    "all written again": ([*ALL, *ALL[1:]], 10, ""),
    "two answers of a call": (
        [*ALL[:5], tool_answer(ALL[5], "t1", "one"), tool_answer(ALL[5], "t2", "two"), *ALL[6:]],
        10,
        "left out",
    ),
}


@pytest.mark.long
@pytest.mark.parametrize(("lines", "stored", "lost"), SPLICED.values(), ids=SPLICED)
def test_what_is_announced_is_stored_and_what_is_lost_is_named(
    lines: list[str], stored: int, lost: str, openclaw_home: Path, tmp_path: Path
) -> None:
    path = tmp_path / "s-new.jsonl"
    path.write_text("\n".join(lines) + "\n")
    given = ("backfill", "--file", path, "--openclaw-dir", openclaw_home)
    before = value(openclaw_home / "lcm.db", "SELECT max(message_id) FROM messages")
    shown = run(*given).out
    data = run(*given, "--apply", "--yes", "--json").data
    found = rows_of(
        openclaw_home / "lcm.db",
        f"SELECT count(*), sum(token_count) FROM messages WHERE message_id > {before}",
    )
    assert [one.cells for one in found] == [(stored, data["import"]["tokens"])]
    assert data["import"]["messages"] == stored
    assert f"To import          {stored} messages" in shown
    told = json.dumps(data["transcript"]["problems"]) + json.dumps(data["importWarnings"])
    assert lost in told
    assert bool(lost) or "lost" not in told
    again = run(*given)
    assert "nothing to import" in again.out
    assert not lost.startswith("line") or "is not imported" in again.out


# -- the sessions of the demonstration that its database does not know -----------------------------------


@pytest.mark.long
@pytest.mark.parametrize(("agent", "session"), UNKNOWN)
def test_a_session_is_imported_once_whole_and_taken_back(
    openclaw_home: Path, agent: str, session: str
) -> None:
    home, path = openclaw_home, openclaw_home / "lcm.db"
    before, files = dump(path), everything_in(home)
    shown = backfill(home, agent, session, "--json").data
    assert everything_in(home) == files
    assert (shown["applied"], shown["conversation"]["new"]) == (False, True)
    expected = STORED[session]
    assert shown["import"]["messages"] == expected
    done = backfill(home, agent, session, "--apply", "--yes", "--json").data
    number = done["conversationId"]
    assert done["applied"] is True
    seqs = column(path, "SELECT seq FROM messages WHERE conversation_id = ? ORDER BY seq", number)
    assert seqs == list(range(1, expected + 1))
    assert [ordinal for ordinal, _ in context_of(path, number)] == list(range(expected))
    assert search_faults(path) == []
    for row in rows_of(path, "SELECT * FROM large_files WHERE conversation_id = ?", number):
        stored = Path(str(row["storage_uri"]))
        assert stored.is_relative_to(home / "lcm-files" / str(number))
        assert stored.stat().st_size == row["byte_size"]
    after = dump(path)
    again = backfill(home, agent, session, "--apply", "--yes")
    assert again.code == 0
    assert f"Conversation {number} already has all of it" in again.out
    assert dump(path) == after
    undone = run("history", "undo", done["operationId"], "--apply", "--yes", "--db", path)
    assert undone.code == 0, undone.err
    assert dump(path) == before


@pytest.mark.long
def test_nothing_of_a_transcript_is_lost(openclaw_home: Path) -> None:
    """Every block of every message stands in the parts as the host wrote it."""
    path = openclaw_home / "lcm.db"
    assert backfill(openclaw_home, "main", LONG, "--apply", "--yes").code == 0
    with connect(path) as connection:
        stored = connection.execute(
            """SELECT m.transcript_entry_id, m.role, p.text_content, p.metadata FROM messages AS m
            JOIN message_parts AS p USING (message_id) WHERE m.conversation_id = 9
            ORDER BY m.seq, p.ordinal"""
        ).fetchall()
    parts: dict[str, list[Any]] = {}
    for entry, role, text, metadata in stored:
        parts.setdefault(entry, []).append((role, text, json.loads(metadata)))
    lines = [json.loads(line) for line in file_of(openclaw_home, "main", LONG).read_text().splitlines()]
    roles = set()
    for line in (line for line in lines if line["type"] == "message"):
        message = line["message"]
        kept = parts.pop(line["id"])
        roles.add((message["role"], kept[0][0]))
        if isinstance(message["content"], str):
            assert [text for _, text, _ in kept] == [message["content"]]
            continue
        for block, (_, _, metadata) in zip(message["content"], kept, strict=True):
            if block["type"] == "image":
                [file] = rows_of(
                    path, "SELECT * FROM large_files WHERE file_id = ?", metadata["externalizedFileId"]
                )
                assert Path(str(file["storage_uri"])).read_bytes() == base64.b64decode(block["data"])
            else:
                assert metadata["raw"] == block
    assert parts == {}
    assert roles == {("user", "user"), ("assistant", "assistant"), ("toolResult", "tool")}


@pytest.mark.long
def test_it_is_said_what_the_engine_would_have_kept(
    database_copy: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = database_copy("0.15.3")
    file = transcript(tmp_path / "s.jsonl", *["word " * 80] * 20)  # of 100 tokens each
    arguments = ("backfill", "--file", file, "--db", path)
    assert run(*arguments, "--json").data["import"]["engineKeeps"] == 20
    monkeypatch.setenv("LCM_BOOTSTRAP_MAX_TOKENS", "250")
    shown = run(*arguments, "--json").data
    assert (shown["import"]["messages"], shown["import"]["engineKeeps"]) == (20, 2)
    said = "the engine itself would keep the newest 2 of these 20 messages, to fit in 250 tokens"
    assert shown["importWarnings"] == [said]
    assert said in " ".join(run(*arguments).out.split())
    assert run(*arguments, "--apply", "--yes").code == 0
    transcript(file, *["word " * 80] * 20, "more")
    assert run(*arguments, "--json").data["import"]["engineKeeps"] is None


@pytest.mark.long
def test_what_is_left_out_is_said_with_its_line(openclaw_home: Path) -> None:
    shown = backfill(openclaw_home, "research", ODD, "--json").data
    assert shown["transcript"]["badLines"] == 1
    assert [problem["line"] for problem in shown["transcript"]["problems"]] == [16]
    assert shown["transcript"]["abandoned"] == 1
    people = backfill(openclaw_home, "research", ODD).out
    assert "line 16: not JSON" in people
    assert "1 entry on abandoned branches is not imported" in people
    assert "1 message left out: of roles that the engine does not store" in people
    backfill(openclaw_home, "research", ODD, "--apply", "--yes")
    texts = column(openclaw_home / "lcm.db", "SELECT content FROM messages WHERE conversation_id = 9")
    assert "abandoned branch message" not in texts
    assert {"HEARTBEAT: check tasks", "HEARTBEAT_OK"} <= set(texts)
    assert shown["import"]["skipped"] == {"of roles that the engine does not store": 1}


@pytest.mark.long
def test_it_is_said_where_files_are_written(openclaw_home: Path) -> None:
    """Also for a copy of the database: they would lie among those of the host."""
    shown = backfill(openclaw_home, "research", ODD).out
    assert f"2 (98 bytes), in {openclaw_home / 'lcm-files'}" in shown
    assert "0 (0 bytes)\n" in backfill(openclaw_home, "main", TOPIC).out


def test_turns_of_the_hosts_timer_go_when_the_operator_prunes_them(
    database_copy: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = {"role": "assistant", "content": "HEARTBEAT_OK"}
    file = transcript(tmp_path / "s.jsonl", "Read HEARTBEAT.md if it exists.", ended, "just asking", ended)
    arguments = ("backfill", "--file", file, "--db", database_copy("0.15.3"), "--json")
    assert run(*arguments).data["import"]["messages"] == 4
    monkeypatch.setenv("LCM_PRUNE_HEARTBEAT_OK", "true")
    shown = run(*arguments).data["import"]
    assert (shown["messages"], shown["skipped"]) == (2, {"heartbeats": 2})


# -- finding the session ---------------------------------------------------------------------------------


def test_sessions_by_their_names(openclaw_home: Path) -> None:
    agents = openclaw_home / "agents"
    topic = find_to_import(agents, "main", TOPIC)
    assert host_source(topic, agents).session == Session(TOPIC, None)
    assert find_to_import(agents, "main", f"{TOPIC}.jsonl") == topic
    known = find_to_import(agents, "ops", "d029fad2-116d-483f-a14f-4b687e0df1b3")
    assert host_source(known, agents).session.session_key == "agent:ops:main"
    with pytest.raises(NotFoundError, match="has no session"):
        find_to_import(agents, "ops", ODD)


@pytest.mark.cases(3)
@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("main", "nope"), 3),
        (("main",), 2),
        ((), 2),
        (("main", LONG, "--file", "x.jsonl"), 2),
        (("main", LONG, "--set", "leafMinFanout=1"), 2),
        (("main", LONG, "--transplant-to", "99"), 3),
        (("main", LONG, "--transplant-to", "9"), 3),
        (("--file", "/nowhere/x.jsonl"), 3),
        (("--file", ""), 2),
        (("", ""), 2),
        (("main", LONG, "--session-key", ""), 2),
        (("main", LONG, "--title", " "), 2),
    ],
)
def test_refusals(openclaw_home: Path, arguments: tuple[str, ...], code: int) -> None:
    result = run("backfill", *arguments, "--openclaw-dir", openclaw_home)
    assert (result.code, result.out) == (code, "")
    assert result.err.count("\n") == 1


def test_a_column_that_gets_its_default_is_a_warning_only_where_no_known_engine_makes_it(
    openclaw_home: Path,
) -> None:
    change_behind(openclaw_home / "lcm.db", "ALTER TABLE messages ADD COLUMN mood TEXT DEFAULT 'calm'")
    said = backfill(openclaw_home, "main", LONG).out
    assert "Column messages.mood is not in this plan and gets its default" in said
    assert said.count("gets its default") == 1


def test_a_file_from_anywhere_with_a_key_and_a_title(openclaw_home: Path, tmp_path: Path) -> None:
    path = openclaw_home / "lcm.db"
    file = transcript(tmp_path / "loose.jsonl", "hi")
    done = run(
        *("backfill", "--file", file, "--db", path, "--session-key", "agent:x:main", "--title", "Old notes"),
        *("--apply", "--yes"),
    )
    assert done.code == 0, done.err
    [row] = rows_of(path, "SELECT * FROM conversations WHERE conversation_id = 9")
    assert (row["session_id"], row["session_key"], row["title"], row["active"]) == (
        "s-new",
        "agent:x:main",
        "Old notes",
        1,
    )


def test_what_the_host_reset_is_archived(openclaw_home: Path) -> None:
    folder = openclaw_home / "agents" / "main" / "sessions"
    transcript(folder / "old.jsonl.reset.2026-03-01", "hi", session="old")
    assert backfill(openclaw_home, "main", "old", "--apply", "--yes").code == 0
    [row] = rows_of(openclaw_home / "lcm.db", "SELECT * FROM conversations WHERE conversation_id = 9")
    assert (row["active"], row["archive_cause"]) == (0, "backfill")
    assert row["archived_at"] == row["created_at"]


# -- again, in parts, in the way of others ---------------------------------------------------------------


async def made(path: Path, file: Path, tmp: Path, session: Session | None = None) -> Any:
    return await reading(
        path,
        Backfilling(
            session or Session("s-new"), read_host_file(file), RULES_PRESENT.ingest, tmp / "files"
        ).plan,
    )


@pytest.mark.long
def test_a_long_session_comes_in_parts_of_one_batch(
    database_copy: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lcm_host.backfill.PIECE", 100)
    path = database_copy("0.15.3")
    before = dump(path)
    file = transcript(tmp_path / "s.jsonl", *(f"line {number}" for number in range(250)))
    done = run("backfill", "--file", file, "--db", path, "--apply", "--yes", "--json").data
    assert [part["title"] for part in done["plans"]] == [
        f"Import {count} messages of session s-new, part {number} of 3"
        for number, count in enumerate((100, 100, 50), 1)
    ]
    texts = column(path, "SELECT content FROM messages WHERE conversation_id = 9 ORDER BY seq")
    assert texts == [f"line {number}" for number in range(250)]
    assert search_faults(path) == []
    taken = run("history", "undo", done["batch"], "--apply", "--yes", "--db", path)
    assert taken.code == 0, taken.err
    assert dump(path) == before


@pytest.mark.long
async def test_a_run_that_was_stopped_is_gone_on_with(
    database_copy: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lcm_host.backfill.PIECE", 100)
    path = database_copy("0.15.3")
    file = transcript(tmp_path / "s.jsonl", *(f"line {number}" for number in range(250)))
    shown = await made(path, file, tmp_path)
    commit(path, shown.appends[0].plan)
    assert (
        value(
            path, "SELECT last_processed_entry_id FROM conversation_bootstrap_state WHERE conversation_id=9"
        )
        == "e99"
    )
    rest = await made(path, file, tmp_path)
    assert (rest.is_new, rest.anchor.start, rest.tally.stored) == (False, 100, 150)
    for append in rest.appends:
        commit(path, append.plan)
    texts = column(path, "SELECT content FROM messages WHERE conversation_id = 9 ORDER BY seq")
    assert texts == [f"line {number}" for number in range(250)]
    assert (await made(path, file, tmp_path)).appends == ()


async def test_a_plan_that_the_host_has_outrun_is_stale(
    database_copy: Callable[[str], Path], tmp_path: Path
) -> None:
    path = database_copy("0.15.3")
    file = transcript(tmp_path / "s.jsonl", "one", "two")
    first = await made(path, file, tmp_path)
    commit(path, first.appends[0].plan)
    transcript(file, "one", "two", "three")
    planned_before = await made(path, file, tmp_path)
    async with await Engine.open(path, large_files=tmp_path) as engine:
        await engine.ingest(Session("s-new"), {"role": "user", "content": "of the host"})
    before = dump(path)
    with pytest.raises(StalePlanError):
        commit(path, planned_before.appends[0].plan)
    assert dump(path) == before


@pytest.mark.long
@pytest.mark.parametrize("piece", [100, 1_000])
async def test_a_host_that_goes_on_elsewhere_makes_no_part_stale(
    piece: int, database_copy: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every message that anybody stores takes an id; those of the import must not wait for them."""
    monkeypatch.setattr("lcm_host.backfill.PIECE", piece)
    path = database_copy("0.15.3")
    file = transcript(tmp_path / "s.jsonl", *(f"line {number}" for number in range(250)))
    appends = (await made(path, file, tmp_path)).appends
    host = Host(str(path), 1, 1)
    for append in appends:
        for _ in range(20):
            host.append()
        commit(path, append.plan)
    host.connection.close()
    texts = column(path, "SELECT content FROM messages WHERE conversation_id = 9 ORDER BY seq")
    assert texts == [f"line {number}" for number in range(250)]
    assert len(context_of(path, 9)) == 250
    whole = Whole(path)
    assert whole.errors() == set()
    assert whole.disorder() == []


def test_files_go_with_a_refused_commit(openclaw_home: Path) -> None:
    path = openclaw_home / "lcm.db"
    files = everything_in(openclaw_home / "lcm-files")
    change_behind(path, "CREATE TRIGGER t BEFORE INSERT ON large_files BEGIN SELECT raise(ABORT, 'no'); END")
    before = dump(path)
    assert backfill(openclaw_home, "research", ODD, "--apply", "--yes").code == 9
    assert dump(path) == before
    assert everything_in(openclaw_home / "lcm-files") == files


def test_a_file_that_the_conversation_was_not_made_from_is_refused(
    openclaw_home: Path, tmp_path: Path
) -> None:
    path = openclaw_home / "lcm.db"
    file = transcript(tmp_path / "s.jsonl", "quite another")
    before = dump(path)
    result = run(
        "backfill", "--file", file, "--session-key", "agent:ops:main", "--db", path, "--apply", "--yes"
    )
    assert (result.code, "is unknown" in result.err) == (9, True)
    assert dump(path) == before


@pytest.mark.long
@pytest.mark.parametrize("version", ["0.1.2", "0.3.0", "0.8.2"])
def test_old_databases_are_imported_to_once_they_are_migrated(
    version: str, database_copy: Callable[[str], Path], openclaw_home: Path, tmp_path: Path
) -> None:
    """Refused before a session is looked for, by every way that stores messages."""
    path = database_copy(version)
    before, files = dump(path), everything_in(path.parent)
    unreadable = tmp_path / "unreadable.jsonl"
    unreadable.write_text("{bad")
    sources: list[tuple[object, ...]] = [("--file", unreadable), ("nobody", "nothing")]
    for source in sources:
        for more in ((), ("--sql",), ("--recompact", "--rules", "0.15"), ("--apply", "--yes")):
            refused = run("backfill", *source, *more, "--db", path, "--json")
            assert (refused.code, refused.error["code"]) == (9, "FILE_NOT_MIGRATED")
            assert re.search(r"wrote this file \(LCM .*\).* `lcm-tui migrate`", refused.error["message"])
    asyncio.run(_refused_by_the_app_and_the_engine(path, openclaw_home, unreadable))
    assert dump(path) == before
    assert everything_in(path.parent) == files

    migrate(path)
    faults = search_faults(path)
    file = transcript(tmp_path / "s.jsonl", "hello", {"role": "assistant", "content": "good morning"})
    done = run("backfill", "--file", file, "--db", path, "--apply", "--yes", "--json").data
    assert done["import"]["messages"] == 2
    assert search_faults(path) == faults


async def _refused_by_the_app_and_the_engine(path: Path, home: Path, unreadable: Path) -> None:
    key, message = Session("s-new"), {"role": "user", "content": "hello"}
    async with await Engine.open(path, large_files=home / "new-files", snapshots=0) as engine:
        for call in (
            engine.ingest(key, message),
            engine.ingest_batch(key, [message]),
            engine.after_turn(key, [message], transcript=unreadable),
            engine.bootstrap(key, unreadable),
            engine.new_session(key),
            engine.reset(key),
            engine.end_session(key, "idle"),
        ):
            with pytest.raises(RefusedError, match="`lcm-tui migrate`"):
                await call
    settings = resolve(Options(db=path, openclaw_dir=home), {}, home=home)
    for session in list_sessions(home / "agents").sessions:
        with pytest.raises(RefusedError, match="`lcm-tui migrate`"):
            await reading(path, HostImport(session, settings).planner)
    assert not (home / "new-files").exists()


@pytest.mark.long
def test_a_database_that_was_written_to_meanwhile_by_the_go_tool(openclaw_home: Path) -> None:
    """Its rows begin at seq 0 and have no entry ids: the texts prove where they end."""
    path = openclaw_home / "lcm.db"
    assert backfill(openclaw_home, "main", TOPIC, "--apply", "--yes").code == 0
    change_behind(
        path,
        "DELETE FROM context_items WHERE conversation_id = 9 AND ordinal > 19",
        """DELETE FROM message_parts WHERE message_id IN
        (SELECT message_id FROM messages WHERE conversation_id = 9 AND seq > 20)""",
        "DELETE FROM messages WHERE conversation_id = 9 AND seq > 20",
        "UPDATE messages SET transcript_entry_id = NULL, seq = seq - 1 WHERE conversation_id = 9",
    )
    reindex(path)
    shown = backfill(openclaw_home, "main", TOPIC, "--apply", "--yes", "--json").data["import"]
    assert (shown["messages"], shown["provenBy"]) == (7, "role and text")
    seqs = column(path, "SELECT seq FROM messages WHERE conversation_id = 9 ORDER BY seq")
    assert seqs == list(range(27))


# -- behind the import -----------------------------------------------------------------------------------


@pytest.mark.long
def test_one_summary_at_the_end_and_in_front_of_another(openclaw_home: Path) -> None:
    path = openclaw_home / "lcm.db"
    wishes = ("--single-root", "--set", "leafChunkTokens=1200", "--transplant-to", 7)
    offline = ("--provider", "extractive")
    files = everything_in(openclaw_home)
    refused = backfill(openclaw_home, "main", LONG, "--transplant-to", 7, "--apply", "--yes")
    assert (refused.code, refused.out) == (9, "")
    assert "Conversation 9 would have no summary to transplant: add --recompact." in refused.err
    shown = backfill(openclaw_home, "main", LONG, *wishes, *offline, "--json").data
    assert everything_in(openclaw_home) == files
    assert (shown["transplantTo"], shown["compaction"]["freshTail"]["count"]) == (7, 0)
    exact = [one for one in shown["compaction"]["passes"] if one["exact"]]
    assert sum(len(one["sources"]) for one in exact if one["kind"] == "leaf") == 97
    done = backfill(openclaw_home, "main", LONG, *wishes, *offline, "--apply", "--yes", "--json").data
    assert len(context_of(path, 9)) == 1
    assert done["transplant"]["applied"] is True
    assert isinstance(context_of(path, 7)[0][1], str)
    covered = (
        "SELECT count(DISTINCT message_id) FROM summary_messages AS l JOIN messages AS m USING (message_id)"
    )
    assert value(path, f"{covered} WHERE m.conversation_id = 9") == 97
    assert search_faults(path) == []
    before = dump(path)
    again = backfill(openclaw_home, "main", LONG, *wishes, *offline, "--apply", "--yes")
    assert (again.code, "nothing left to transplant" in again.out) == (0, True)
    assert dump(path) == before


@pytest.mark.long
def test_what_is_there_already_is_compacted_when_asked(openclaw_home: Path) -> None:
    path = openclaw_home / "lcm.db"
    known = "d029fad2-116d-483f-a14f-4b687e0df1b3"
    wishes = (
        "--recompact",
        "--set",
        "freshTailCount=4",
        "--set",
        "leafChunkTokens=600",
        "--provider",
        "extractive",
    )
    assert backfill(openclaw_home, "ops", known, *wishes, "--apply").code == 9  # nobody can be asked
    for rules in ("0.1", "0.15"):
        shown = backfill(openclaw_home, "ops", known, *wishes, "--rules", rules, "--json").data["compaction"]
        assert shown["rules"] == rules
    done = backfill(openclaw_home, "ops", known, *wishes, "--apply", "--yes", "--json").data
    assert done["compaction"]["applied"] is True
    assert len(context_of(path, 7)) < 19


@pytest.mark.cases(3)
@pytest.mark.parametrize("content", ["", "{bad", '{"type":"session","id":"s"}\n', "\n\n\n"])
def test_a_file_without_messages_makes_no_conversation(
    content: str, database_copy: Callable[[str], Path], tmp_path: Path
) -> None:
    path, file = database_copy("0.15.3"), tmp_path / "s.jsonl"
    file.write_text(content)
    before = dump(path)
    wishes = ("--recompact", "--provider", "extractive", "--apply", "--yes")
    result = run("backfill", "--file", file, "--db", path, *wishes)
    assert (result.code, "nothing to import" in result.out) == (0, True), result.err
    assert dump(path) == before


@pytest.mark.parametrize(
    "content",
    [b"[1]\n\n\n", b"\x7fELF\x00\xff\n" * 500, b"SQLite format 3\x00\nx\n"],
    ids=["json", "program", "database"],
)
def test_what_is_no_transcript_is_refused_in_one_sentence(
    content: bytes, database_copy: Callable[[str], Path], tmp_path: Path
) -> None:
    path, file = database_copy("0.15.3"), tmp_path / "s.jsonl"
    file.write_bytes(content)
    result = run("backfill", "--file", file, "--db", path)
    assert (result.code, result.out) == (5, "")
    assert "is not a transcript" in result.err
    assert result.err.count("\n") == 1


def test_a_folder_that_cannot_be_read_is_named(openclaw_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scandir = os.scandir

    def forbidden(path: Any) -> Any:
        if "research" in str(path):
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", forbidden)
    with pytest.raises(NotFoundError, match=r"Skipped: .*research/sessions \(.*Permission denied"):
        find_to_import(openclaw_home / "agents", "research", ODD)


def test_a_session_in_the_hosts_database_is_not_called_missing(tmp_path: Path):
    held = tmp_path / "agents" / "main" / "agent" / "openclaw-agent.sqlite"
    held.parent.mkdir(parents=True)
    held.touch()
    for folder in (tmp_path / "agents", held.parent.parent, held.parent.parent / "sessions"):
        with pytest.raises(NotFoundError, match=f"in OpenClaw's database: lcm-tui sessions .{held}"):
            find_to_import(folder, "main", ODD)


def test_the_database_is_not_made(tmp_path: Path) -> None:
    file = transcript(tmp_path / "s.jsonl", "hi")
    assert run("backfill", "--file", file, "--db", tmp_path / "none.db", "--apply", "--yes").code == 3
    assert os.listdir(tmp_path) == ["s.jsonl"]
