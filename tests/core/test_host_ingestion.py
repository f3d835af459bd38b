"""Whether the engine keeps up with its host, told without wrong alarms."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, BinaryIO

import pytest
from lcm_core.api import Database, ExitCode, Folders, Options, resolve
from lcm_core.base.jsonl import read_moment
from lcm_core.base.times import iso_z, sql_utc
from lcm_host import reading
from lcm_host.checks import run_checks
from lcm_host.ingestion import ingestions
from lcm_host.sessions import list_sessions

from tests.cli.support import run
from tests.core.host_home import START_MS, AgentFolder, Story
from tests.databases import building, connect, new_database
from tests.support import unpack_database

KEY = "agent:main:main"
OUTBOX = "INSERT INTO context_engine_turn_outbox VALUES ('k', 'lossless-claw', 'one', '{}', 7, NULL, ?, ?)"


class Host:
    """A host and its engine: what is said, and what of it is stored."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.agent = AgentFolder(folder / "agents" / "main")
        self.database = new_database(folder / "lcm.db")
        self.story = Story("one", 1)
        self.second = 0

    def say(self, role: str, text: str, **more: Any) -> str:
        self.second += 10
        at = read_moment(START_MS + 1000 * self.second)
        assert at is not None
        content = more.pop("content", [{"type": "text", "text": text}])
        name = self.story.add("message", message={"role": role, "content": content, **more})
        self.story.texts[name] = text
        self.story.entries[-1]["timestamp"] = iso_z(at)
        return name

    def turn(self, number: int) -> list[str]:
        return [self.say("user", f"question {number}"), self.say("assistant", f"answer {number}")]

    def publish(self, *, index: str = "complete", **window: Any) -> None:
        self.agent.hot(self.story, KEY, packed=0.5, index=index, **window)
        self.agent.write("UPDATE session_windows SET created_at = ?", [(START_MS,)])
        self.agent.write(
            "UPDATE transcript_event_identities SET created_at = ?", [(START_MS + 1000 * self.second,)]
        )

    def store(self, entries: list[str], *, ids: bool = True) -> None:
        """What the engine has."""
        by_id = {one["id"]: one for one in self.story.entries}
        with building(self.database) as rows:
            rows.conversation(1, session_id="one", session_key=KEY, created_at="2026-01-01 00:00:00")
            for name in entries:
                at = read_moment(by_id[name]["timestamp"])
                assert at is not None
                rows.message(
                    1,
                    self.story.texts[name],
                    role=by_id[name]["message"]["role"],
                    created_at=sql_utc(at),
                    transcript_entry_id=name if ids else None,
                )

    async def compare(self, **environ: str):
        settings = resolve(Options(openclaw_dir=self.folder), environ, home=self.folder)
        listing = list_sessions(self.folder / "agents")
        assert listing.problems == ()
        async with await Database.open(self.database) as database:
            return await database.read(ingestions, listing.sessions, settings.engine)

    async def one(self, **environ: str):
        [found] = await self.compare(**environ)
        return found


class FileHost(Host):
    """One that keeps its sessions in files."""

    @property
    def path(self) -> Path:
        return self.folder / "agents" / "main" / "sessions" / "one.jsonl"

    def publish(self, *, index: str = "complete", **window: Any) -> None:
        self.write(self.story.lines)

    def write(self, lines: list[str]) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_bytes(("\n".join(lines) + "\n").encode("utf-8", "surrogatepass"))
        entry = {"sessionId": "one", "sessionFile": "/elsewhere/one.jsonl"}
        (self.path.parent / "sessions.json").write_text(json.dumps({KEY: entry}))


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


@pytest.fixture
def file_host(tmp_path: Path) -> FileHost:
    return FileHost(tmp_path)


@pytest.fixture(params=[Host, FileHost], ids=["table", "file"])
def any_host(request: pytest.FixtureRequest, tmp_path: Path) -> Host:
    kind: type[Host] = request.param
    return kind(tmp_path)


@pytest.mark.cases(4)
@pytest.mark.parametrize("index", ["complete", "rebuild"])
@pytest.mark.parametrize("ids", [True, False])
@pytest.mark.parametrize("missing", [0, 1, 3, 100])
async def test_what_was_said_and_is_not_stored_is_counted(
    any_host: Host, missing: int, ids: bool, index: str
) -> None:
    stored = [name for number in range(3) for name in any_host.turn(number)]
    last = any_host.second
    for number in range(missing):
        any_host.turn(number)
    any_host.publish(index=index)
    any_host.store(stored, ids=ids)
    found = await any_host.one()
    assert (found.conversation_id, found.behind, found.in_flight) == (1, 2 * missing, False)
    assert found.needs_a_look is (missing > 0)
    assert found.behind_since == (read_moment(START_MS + 1000 * (last + 10)) if missing else None)
    assert found.last_entry is not None
    assert found.last_entry.entry_id == any_host.story.leaf


async def test_a_turn_in_flight_is_not_behind(any_host: Host) -> None:
    stored = any_host.turn(1)
    any_host.say("user", "question 2")
    call = [{"type": "toolCall", "id": "c", "name": "n", "arguments": {}}]
    any_host.say("assistant", "", content=call, stopReason="toolUse")
    any_host.say("toolResult", "result")
    any_host.publish()
    any_host.store(stored)
    found = await any_host.one()
    assert (found.behind, found.in_flight, found.needs_a_look) == (0, True, False)


async def test_finished_turns_before_one_in_flight_are_behind(any_host: Host) -> None:
    stored = any_host.turn(1)
    any_host.turn(2)
    any_host.say("user", "question 3")
    any_host.publish()
    any_host.store(stored)
    found = await any_host.one()
    assert (found.behind, found.in_flight) == (2, True)


async def test_a_turn_that_the_host_calls_running_is_not_behind(host: Host) -> None:
    stored = host.turn(1)
    host.turn(2)
    host.publish()
    host.agent.write("UPDATE session_nodes SET status = 'running'")
    host.store(stored)
    found = await host.one()
    assert (found.behind, found.in_flight) == (0, True)


async def test_what_the_engine_never_stores_is_not_missing(any_host: Host) -> None:
    stored = any_host.turn(1)
    any_host.say("user", "[OpenClaw heartbeat poll]")
    any_host.say("assistant", "HEARTBEAT_OK")
    any_host.say("user", "Read HEARTBEAT.md and do what it says")
    any_host.say("assistant", "heartbeat_ok")
    any_host.say("assistant", "shown in a channel", provider="openclaw", model="delivery-mirror")
    any_host.say("assistant", "a note by the operator", provider="openclaw", model="gateway-injected")
    any_host.say("bashExecution", "ls")
    any_host.say("assistant", "", content=[], stopReason="error")
    any_host.story.add("custom_message", customType="run-failed-before-reply", content="x")
    any_host.story.add("reset", reason="new")
    any_host.publish()
    any_host.store(stored)
    found = await any_host.one()
    assert (found.behind, found.in_flight) == (0, False)


@pytest.mark.cases(3)
@pytest.mark.parametrize(
    "environ",
    [
        {"LCM_IGNORE_SESSION_PATTERNS": "agent:main:**"},
        {"LCM_STATELESS_SESSION_PATTERNS": "agent:*:main"},
    ],
)
async def test_ignored_sessions_are_left_out(any_host: Host, environ: dict[str, str]) -> None:
    any_host.turn(1)
    any_host.publish()
    any_host.store([])
    assert (await any_host.one()).behind == 2
    assert await any_host.compare(**environ) == []


async def test_a_session_without_a_conversation_is_behind_from_its_own_beginning(host: Host) -> None:
    """What a fork or an import has copied into it was never the engine's to store."""
    host.turn(1)
    own = host.second
    host.turn(2)
    host.publish()
    with connect(host.database) as db:
        db.execute("INSERT INTO conversations (session_id, created_at) VALUES ('x', '2026-01-01 00:00:00')")
    assert (await host.one()).behind == 4
    host.agent.write("UPDATE session_windows SET created_at = ?", [(START_MS + 1000 * own + 5000,)])
    assert (await host.one()).behind == 2


def test_what_was_deleted_here_is_not_missing_until_more_is_said(any_host: Host) -> None:
    any_host.turn(1)
    any_host.publish()
    any_host.store(any_host.turn(2))
    with connect(any_host.database) as db:
        db.execute("INSERT INTO conversations (session_id, created_at) VALUES ('x', '2026-01-01 00:00:00')")
    assert run("conversations", "delete", 1, "--db", any_host.database, "--apply", "--yes").code == 0
    assert asyncio.run(any_host.compare()) == []
    with connect(any_host.database) as db:
        db.execute("UPDATE lcm_tui_operations SET created_at = '2026-01-02 00:00:00'")
    assert asyncio.run(any_host.one()).behind == 2, "said after that"
    assert run("history", "undo", "--last", "--db", any_host.database, "--apply", "--yes").code == 0
    assert asyncio.run(any_host.one()).conversation_id == 1


async def test_sessions_from_before_the_engine_are_not_its_business(any_host: Host) -> None:
    any_host.turn(1)
    any_host.publish()
    assert await any_host.compare() == []
    with connect(any_host.database) as db:
        db.execute("INSERT INTO conversations (session_id, created_at) VALUES ('x', '2026-11-01 00:00:00')")
    assert await any_host.compare() == []


async def test_a_committed_turn_is_the_end_where_messages_have_no_entry(any_host: Host) -> None:
    stored = [*any_host.turn(1), *any_host.turn(2)]
    any_host.publish()
    any_host.store(stored[:2], ids=False)
    assert (await any_host.one()).behind == 2
    with connect(any_host.database) as db:
        db.execute(
            "CREATE TABLE turn_advancements (advancement_key TEXT, session_id TEXT, session_key TEXT, "
            "terminal_entry_id TEXT, committed_at TEXT)"
        )
        row = ("k", "one", KEY, stored[-1], "2026-03-02 09:00:00")
        db.execute("INSERT INTO turn_advancements VALUES (?, ?, ?, ?, ?)", row)
    found = await any_host.one()
    assert found.behind == 0
    assert found.end is not None
    assert found.end.committed_at == read_moment("2026-03-02T09:00:00Z")


async def test_turns_in_the_outbox_need_a_look(host: Host) -> None:
    stored = host.turn(1)
    host.publish()
    host.store(stored)
    host.agent.write(
        OUTBOX,
        [("no such table", START_MS)],
    )
    found = await host.one()
    assert (found.behind, found.needs_a_look) == (0, True)
    [row] = found.outbox
    assert (row.attempts, row.last_error) == (7, "no such table")
    assert found.lags_since() == read_moment(START_MS)


def status(host: Host, *more: str) -> Any:
    return run("status", "--openclaw-dir", host.folder, "--json", *more)


@pytest.mark.long
def test_status_says_it_and_fails_when_asked_to(any_host: Host) -> None:
    stored = any_host.turn(1)
    any_host.turn(2)
    any_host.publish()
    any_host.store(stored)
    quiet = status(any_host)
    assert quiet.code == ExitCode.DONE
    told = quiet.data["lcmTui"]["ingestion"]
    assert (told["compared"], told["behind"], told["items"][0]["behind"]) == (1, 1, 2)
    loud = status(any_host, "--fail-on", "behind=5m")
    assert loud.code == ExitCode.FINDINGS
    assert json.loads(loud.out)["data"]["lcmTui"]["ingestion"] == told
    assert status(any_host, "--fail-on", f"behind={timedelta(days=90_000).days}d").code == ExitCode.DONE
    assert status(any_host, "--fail-on", "sooner").code == ExitCode.USAGE
    out = run("status", "--openclaw-dir", any_host.folder).out
    assert "no: 2 messages of 1 of 1 session missing" in out
    [item] = run("sessions", "--openclaw-dir", any_host.folder, "--json").data["items"]
    assert (item["conversationId"], item["behind"]) == (1, 2)


def test_a_host_that_is_kept_up_with_does_not_fail(any_host: Host) -> None:
    stored = any_host.turn(1)
    any_host.publish()
    any_host.store(stored)
    found = status(any_host, "--fail-on", "behind=1s")
    assert (found.code, found.data["lcmTui"]["ingestion"]["behind"]) == (ExitCode.DONE, 0)


async def test_the_doctor_finds_what_is_missing_and_what_waits(host: Host) -> None:
    stored = host.turn(1)
    host.turn(2)
    host.publish()
    host.store(stored)
    host.agent.write(
        OUTBOX,
        [("no room", START_MS)],
    )
    folders = Folders(sessions=host.folder / "agents")
    async with await Database.open(host.database) as database:
        report = await run_checks(database, only=["H"], folders=folders)
        elsewhere = await run_checks(database, only=["H"], folders=Folders(sessions=host.folder))
    found = {one.check: (one.conversation_id, one.sentence) for one in report.findings()}
    assert found == {
        "H1": (1, f"2 messages of session {KEY} are missing, since 2026-03-02T08:27:10.000Z."),
        "H2": (
            1,
            f"1 turn of session {KEY} waits for the engine, tried 7 times; the last error is: no room.",
        ),
    }
    assert {one.reason for one in elsewhere.not_run} == {"there is no database of the host"}


async def test_the_doctor_is_content_with_an_engine_that_keeps_up(host: Host) -> None:
    stored = host.turn(1)
    host.publish()
    host.store(stored)
    async with await Database.open(host.database) as database:
        report = await run_checks(database, only=["H"], folders=Folders(sessions=host.folder / "agents"))
    assert list(report.findings()) == []
    assert report.not_run == ()


# -- the engine that follows transcripts by a cursor ------------------------------------------------------


@pytest.fixture
def followed(tmp_path: Path) -> Host:
    """A host with an engine after 1.1.1."""
    host = Host(tmp_path)
    unpack_database("1.1-later-empty", host.database)
    return host


def follow(host: Host, frontier: str | None, seq: int = 1) -> None:
    """The engine's cursor is at an entry."""
    sql = """INSERT INTO conversation_transcript_cursors
        (conversation_id, mode, cursor, frontier_entry_id, frontier_seq, origin)
        VALUES (1, 'cursor_v1', 'c', ?, ?, 'fresh')"""
    with connect(host.database) as db:
        db.execute(sql, (frontier, seq))


async def test_the_cursor_says_where_the_engine_is(followed: Host) -> None:
    """It goes on over entries that are not stored: those are not missing, nor what is before them."""
    stored = followed.turn(1)
    passed = followed.turn(2)
    followed.turn(3)
    followed.publish()
    followed.store(stored)
    follow(followed, passed[-1], 4)
    found = await followed.one()
    assert (found.behind, found.by_cursor) == (2, True)
    assert found.end is not None
    assert (found.end.frontier, found.end.frontier_seq) == (passed[-1], 4)


@pytest.mark.parametrize("frontier", ["gone", None])
async def test_without_the_cursors_entry_the_stored_ones_say_it(followed: Host, frontier: str | None) -> None:
    stored = followed.turn(1)
    followed.turn(2)
    followed.publish()
    followed.store(stored)
    follow(followed, frontier)
    found = await followed.one()
    assert (found.behind, found.by_cursor) == (2, None if frontier is None else False)


async def test_a_cursor_at_the_end_is_up_to_date_whatever_is_stored(followed: Host) -> None:
    followed.turn(1)
    passed = followed.turn(2)
    followed.publish()
    followed.store([])
    follow(followed, passed[-1], 4)
    found = await followed.one()
    assert (found.behind, found.needs_a_look, found.by_cursor) == (0, False, True)


def gap(host: Host, first: str, last: str, entries: int, *sides: int) -> None:
    columns = """conversation_id, first_entry_id, last_entry_id, first_visible_seq, last_visible_seq,
        entry_count, prev_message_id, next_message_id, source"""
    marks = ", ".join("?" * 9)
    with connect(host.database) as db:
        db.execute(
            f"INSERT INTO conversation_transcript_gaps ({columns}) VALUES ({marks})",
            (1, first, last, 3, 4, entries, *(sides or (None, None)), "resync"),
        )


async def gaps_of(host: Host, sessions: Path | None, **environ: str) -> list[tuple[str, str]]:
    engine = resolve(Options(openclaw_dir=host.folder), environ, home=host.folder).engine
    async with await Database.open(host.database) as database:
        folders = Folders(sessions=sessions, engine=engine)
        report = await run_checks(database, only=["G21"], folders=folders)
    return [(str(one.confidence), one.sentence) for one in report.findings()]


@pytest.mark.parametrize("page", [1, 2_000])
async def test_a_gap_is_found_with_what_the_host_still_has_of_it(
    followed: Host, page: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "_STEP", page)
    before, within, after = followed.turn(1), followed.turn(2), followed.turn(3)
    followed.publish()
    followed.store([*before, *after])
    gap(followed, within[0], within[1], 2, 2, 3)
    [(confidence, sentence)] = await gaps_of(followed, followed.folder / "agents")
    assert confidence == "suspicious"
    assert sentence.startswith(
        "2 entries of the transcript of conversation 1 (after m2 and before m3) were never stored, from "
        f"{within[0]} to {within[1]}. The host still has {within[0]} user: question 2; {within[1]} "
        "assistant: answer 2."
    )
    assert "`lcm-tui backfill main one --session-key KEY`" in sentence
    [(_, alone)] = await gaps_of(followed, None)
    assert alone.endswith("The host's transcript is not at hand.")


def test_that_command_imports_what_a_gap_lacks(followed: Host) -> None:
    before, within, after = followed.turn(1), followed.turn(2), followed.turn(3)
    followed.publish()
    followed.store([*before, *after])
    gap(followed, within[0], within[1], 2, 2, 3)
    done = run(
        *("backfill", "main", "one", "--session-key", "agent:main:whole", "--db", followed.database),
        *("--openclaw-dir", followed.folder, "--apply", "--yes", "--json"),
    )
    assert done.code == ExitCode.DONE
    with connect(followed.database) as db:
        counts = db.execute("SELECT conversation_id, count(*) FROM messages GROUP BY 1").fetchall()
    assert counts == [(1, 4), (2, 6)]


async def test_a_gap_whose_entries_are_stored_by_now_is_by_design(followed: Host) -> None:
    before, within, after = followed.turn(1), followed.turn(2), followed.turn(3)
    followed.publish()
    followed.store([*before, *within, *after])
    gap(followed, within[0], within[1], 2)
    [(confidence, sentence)] = await gaps_of(followed, followed.folder / "agents")
    assert (confidence, "Nothing that the engine would store of them is missing now." in sentence) == (
        "by design",
        True,
    )


async def test_a_gap_that_the_transcript_no_longer_has_is_said(followed: Host) -> None:
    stored = followed.turn(1)
    followed.publish()
    followed.store(stored)
    gap(followed, "\x1b[31mgone", "gone too", 1)
    [(confidence, sentence)] = await gaps_of(followed, followed.folder / "agents")
    assert (confidence, "They cannot be listed" in sentence) == ("suspicious", True)
    assert "\x1b" not in sentence


async def test_the_gaps_of_another_conversation_are_not_named(followed: Host) -> None:
    stored = followed.turn(1)
    followed.publish()
    followed.store(stored)
    gap(followed, "a", "b", 1)
    with connect(followed.database) as db:
        db.execute("UPDATE conversation_transcript_gaps SET conversation_id = 7")
    assert len(await gaps_of(followed, followed.folder / "agents")) == 1


@pytest.mark.cases(3)
@pytest.mark.parametrize(
    ("environ", "behind"),
    [
        ({}, 0),
        ({"LCM_PRUNE_HEARTBEAT_OK": "true"}, 0),
        ({"LCM_PRESERVE_HEARTBEAT_POLL": "1"}, 4),
        ({"LCM_PRESERVE_HEARTBEAT_POLL": "true", "LCM_PRUNE_HEARTBEAT_OK": "true"}, 2),
    ],
)
async def test_polls_that_are_preserved_are_missing(host: Host, environ: dict[str, str], behind: int) -> None:
    stored = host.turn(1)
    host.say("user", "[OpenClaw heartbeat poll]")
    host.say("assistant", "HEARTBEAT_OK")
    host.say("user", "Read HEARTBEAT.md if it exists.")
    host.say("assistant", " heartbeat_ok ")
    host.publish()
    host.store(stored)
    assert (await host.one(**environ)).behind == behind


async def test_an_acknowledgement_that_was_pruned_is_not_missing(host: Host) -> None:
    stored = [*host.turn(1), host.say("user", "[OpenClaw heartbeat poll]")]
    host.say("assistant", "HEARTBEAT_OK")
    host.publish()
    host.store(stored)
    found = await host.one(LCM_PRESERVE_HEARTBEAT_POLL="true", LCM_PRUNE_HEARTBEAT_OK="true")
    assert (found.behind, found.needs_a_look) == (0, False)


PRESERVED = {"LCM_PRESERVE_HEARTBEAT_POLL": "true"}


@pytest.mark.parametrize(("environ", "behind"), [({}, 0), (PRESERVED, 1)])
async def test_an_acknowledgement_alone_is_missing_only_when_polls_are_preserved(
    any_host: Host, environ: dict[str, str], behind: int
) -> None:
    """What began its turn was stored while the setting was on."""
    stored = [*any_host.turn(1), any_host.say("user", "[openclaw heartbeat poll]")]
    any_host.say("assistant", "\n Heartbeat_OK\u00a0")
    any_host.publish()
    any_host.store(stored)
    assert (await any_host.one(**environ)).behind == behind


@pytest.mark.cases(1)
@pytest.mark.parametrize(("environ", "behind"), [({}, 2), (PRESERVED, 6)])
def test_all_say_the_same_of_heartbeats(
    any_host: Host, environ: dict[str, str], behind: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    stored = any_host.turn(1)
    any_host.say("user", "[OpenClaw heartbeat poll]")
    any_host.say("assistant", "HEARTBEAT_OK")
    any_host.turn(2)
    any_host.say("user", f"{'x' * 300} HEARTBEAT.md")
    any_host.say("assistant", "heartbeat_ok")
    any_host.publish()
    any_host.store(stored)
    place = ("--openclaw-dir", any_host.folder, "--json")
    told = run("status", *place).data["lcmTui"]["ingestion"]["items"]
    sessions = run("sessions", *place).data["items"]
    doctor = run("doctor", "--check", "H1", *place)
    assert [one["behind"] for one in told] == [behind]
    assert [one["behind"] for one in sessions] == [behind]
    assert (doctor.code, f"{behind} messages" in doctor.out) == (ExitCode.FINDINGS, True)


@pytest.mark.parametrize("environ", [{}, PRESERVED])
async def test_a_gap_lacks_only_what_the_engine_stores(followed: Host, environ: dict[str, str]) -> None:
    before, within = followed.turn(1), followed.turn(2)
    poll = followed.say("user", "[OpenClaw heartbeat poll]")
    idle = followed.say("assistant", " heartbeat_OK ")
    followed.say("assistant", "shown", provider="openclaw", model="gateway-injected")
    followed.say("system-note", "another role")
    followed.say("assistant", "", content=[], stopReason="error")
    more, after = followed.turn(3), followed.turn(4)
    followed.publish()
    followed.store([*before, *after])
    gap(followed, within[0], more[1], 4, 2, 3)
    [(_, sentence)] = await gaps_of(followed, followed.folder / "agents", **environ)
    listed = [one for one in (*within, poll, idle, *more) if f"{one} " in sentence]
    assert listed == ([*within, poll, idle, *more] if environ else [*within, *more])
    assert "shown" not in sentence
    assert "another role" not in sentence


@pytest.mark.parametrize(("environ", "confidence"), [({}, "by design"), (PRESERVED, "suspicious")])
async def test_a_gap_of_heartbeats_alone_lacks_nothing_unless_they_are_preserved(
    followed: Host, environ: dict[str, str], confidence: str
) -> None:
    """It was noted while the setting was on; the text that names the file of heartbeats is long."""
    before = followed.turn(1)
    idle = [followed.say("user", f"{'x' * 300} HEARTBEAT.md"), followed.say("assistant", "HEARTBEAT_OK")]
    after = followed.turn(2)
    followed.publish()
    followed.store([*before, *after])
    gap(followed, idle[0], idle[1], 2, 2, 3)
    [(found, _)] = await gaps_of(followed, followed.folder / "agents", **environ)
    assert found == confidence


async def test_what_a_poll_brought_up_is_listed_in_a_gap(followed: Host) -> None:
    """An acknowledgement with more text is content."""
    before = followed.turn(1)
    followed.say("user", "[OpenClaw heartbeat poll]")
    alert = followed.say("assistant", "HEARTBEAT_OK, but the disk is full")
    after = followed.turn(2)
    followed.publish()
    followed.store([*before, *after])
    gap(followed, alert, alert, 1, 2, 3)
    [(confidence, sentence)] = await gaps_of(followed, followed.folder / "agents")
    assert (confidence, "the disk is full" in sentence) == ("suspicious", True)


# -- sessions in files -----------------------------------------------------------------------------------


async def test_the_end_of_a_large_file_is_read_as_far_as_is_needed(
    file_host: FileHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    scanned = reading._scan_end

    def counted(source, file: BinaryIO, begin: int, until: int):
        read.append(until - begin)
        return scanned(source, file, begin, until)

    monkeypatch.setattr(reading, "_scan_end", counted)
    for number in range(40):
        file_host.say("user", f"question {number} " + "x" * 20_000)
        file_host.say("assistant", f"answer {number}")
    names = list(file_host.story.texts)
    file_host.publish()
    file_host.store(names[:-2])
    assert (await file_host.one()).behind == 2
    assert read == [64 * 1024]
    file_host.database.unlink()
    file_host.database = new_database(file_host.folder / "lcm.db")
    file_host.store(names[:10])
    assert (await file_host.one()).behind == 70
    assert read[1:] == [64 * 1024, 512 * 1024, file_host.path.stat().st_size]


async def test_a_session_in_a_file_is_compared_by_what_it_holds_not_by_its_time(file_host: FileHost) -> None:
    file_host.turn(1)
    file_host.publish()
    os.utime(file_host.path, (2_000_000_000, 2_000_000_000))
    with connect(file_host.database) as db:
        db.execute("INSERT INTO conversations (session_id, created_at) VALUES ('x', '2026-10-01 00:00:00')")
    assert await file_host.compare() == []
    with connect(file_host.database) as db:
        db.execute("UPDATE conversations SET created_at = '2026-01-01 00:00:00'")
    assert (await file_host.one()).behind == 2


async def test_what_a_fork_in_a_file_has_copied_is_not_missing(file_host: FileHost) -> None:
    file_host.turn(1)
    own = file_host.second
    file_host.turn(2)
    begun = read_moment(START_MS + 1000 * own + 5000)
    assert begun is not None
    file_host.story.header |= {"parentSession": "/x/parent.jsonl", "timestamp": iso_z(begun)}
    file_host.publish()
    with connect(file_host.database) as db:
        db.execute("INSERT INTO conversations (session_id, created_at) VALUES ('x', '2026-01-01 00:00:00')")
    assert (await file_host.one()).behind == 2


async def test_a_file_that_changes_is_compared_again(file_host: FileHost) -> None:
    stored = file_host.turn(1)
    file_host.publish()
    file_host.store(stored)
    assert (await file_host.one()).behind == 0
    file_host.turn(2)
    file_host.publish()
    assert (await file_host.one()).behind == 2


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    ("spoil", "behind", "bad"),
    [
        (lambda lines: [*lines[:3], lines[3] + lines[4], *lines[5:]], 2, 0),
        (lambda lines: [*lines[:3], "\0" * 500 + lines[3], *lines[4:]], 2, 0),
        (lambda lines: [*lines[:3], lines[3][:40] + lines[4], *lines[5:]], 1, 1),
        (lambda lines: [*lines[:2], "{bad", "[1]", *lines[2:]], 2, 2),
    ],
)
def test_status_and_doctor_say_the_same_of_a_file_with_spoiled_lines(
    spoil: Callable[[list[str]], list[str]], behind: int, bad: int, file_host: FileHost
) -> None:
    stored = file_host.turn(1)
    file_host.turn(2)
    file_host.write(spoil(file_host.story.lines))
    file_host.store(stored)
    told = status(file_host).data["lcmTui"]["ingestion"]
    assert (told["compared"], told["items"][0]["behind"]) == (1, behind)
    assert [one["lines"] for one in told["badLines"]] == ([bad] if bad else [])
    out = run("status", "--openclaw-dir", file_host.folder).out
    assert f"no: {behind} message" in out
    assert ("of session one cannot be read." in out) is bool(bad)

    async def examined():
        folders = Folders(sessions=file_host.folder / "agents")
        async with await Database.open(file_host.database) as database:
            return await run_checks(database, only=["H"], folders=folders)

    report = asyncio.run(examined())
    found = {one.check: one.sentence for one in report.findings()}
    assert found["H1"].startswith(f"{behind} message")
    assert ("H3" in found) is bool(bad)
    assert not bad or f"{bad} line" in found["H3"]


def test_status_counts_checkpoints_and_mentions_other_files_of_a_session(file_host: FileHost) -> None:
    stored = file_host.turn(1)
    file_host.publish()
    file_host.store(stored)
    folder = file_host.path.parent
    for name in ("one.checkpoint.0d9f1c6e-1111-4222-8333-944444444444", "one (copy)"):
        (folder / f"{name}.jsonl").write_text("\n".join(file_host.story.lines[:1]) + "\n")
    out = run("status", "--openclaw-dir", file_host.folder).out
    assert "yes: the engine has everything of 1 session of the host" in out
    assert "1 checkpoint of session files left out." in out
    assert "one (copy).jsonl: This is another file of session one: the index names one.jsonl." in out
    told = status(file_host).data["lcmTui"]["ingestion"]
    assert (told["checkpoints"], len(told["problems"])) == (1, 1)
