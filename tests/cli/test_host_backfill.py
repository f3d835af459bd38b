"""``backfill`` of sessions that lie in the host's databases and archives."""

from __future__ import annotations

import re
import tarfile
from pathlib import Path
from typing import Any

import pytest
from lcm_core.api import ExitCode

from tests.cli.support import Result, run
from tests.core.host_home import AgentFolder, Story
from tests.core.rollouts import THREAD, event, item, line, message
from tests.databases import new_database, query
from tests.support import DATA

BACKFILL = ("--apply", "--yes", "--json")
STORED = """SELECT m.seq, m.role, m.content, m.transcript_entry_id, m.created_at, m.token_count
    FROM messages AS m ORDER BY m.conversation_id, m.seq"""


def stored_in(database: Path) -> list[tuple[Any, ...]]:
    """Messages, whatever number their files were given."""
    return [
        tuple(re.sub("file_[0-9a-f]{16}", "file", one) if isinstance(one, str) else one for one in row)
        for row in query(database, STORED)
    ]


def backfill(home: Path, database: Path, agent: str, session: str, *more: str) -> Result:
    return run("backfill", agent, session, "--openclaw-dir", home, "--db", database, *more, *BACKFILL)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hosts")
    for name in ("openclaw-sqlite", "openclaw-sqlite-living"):
        with tarfile.open(DATA / f"{name}.tar.xz") as archive:
            archive.extractall(folder, filter="data")
    return folder


@pytest.mark.long
@pytest.mark.parametrize(
    ("home", "agent", "session"),
    [
        ("openclaw-sqlite", "research", "aae0fb17-2596-4b89-aa70-5cb0c7729baa"),  # with packed entries
        ("openclaw-sqlite-living", "research", "aae0fb17-2596-4b89-aa70-5cb0c7729baa"),  # cold
        ("openclaw-sqlite-deleted", "main", "34904ebd-bc37-4a66-a7f0-18a94dd1c57a"),
        ("openclaw-sqlite-living", "main", "076f4055-3ec1-4d9d-a20f-91df214643db"),
    ],
)
def test_the_rows_are_those_of_the_file(
    data: Path, openclaw_home: Path, tmp_path: Path, home: str, agent: str, session: str
) -> None:
    file, table = new_database(tmp_path / "file.db"), new_database(tmp_path / "table.db")
    assert backfill(openclaw_home, file, agent, session).code == ExitCode.DONE
    assert backfill(data / home, table, agent, session).code == ExitCode.DONE
    stored = stored_in(table)
    assert stored == stored_in(file)
    assert len(stored) > 40
    assert query(table, "SELECT * FROM conversation_bootstrap_state") == []
    assert list(tmp_path.glob("**/session.jsonl")) == []


def messages(story: Story) -> list[tuple[Any, ...]]:
    roles = {"user": "user", "assistant": "assistant", "toolResult": "tool"}
    return [(roles[role], name) for name, role, _ in story.messages]


@pytest.mark.cases(1)
@pytest.mark.parametrize("place", ["hot", "walked", "cold", "blob", "deleted", "identity", "packed file"])
@pytest.mark.parametrize("seed", range(2))
def test_what_the_host_sees_is_imported_once(tmp_path: Path, place: str, seed: int) -> None:
    story = Story("one", seed).tell(60)
    agent = AgentFolder(tmp_path / "agents" / "main")
    match place:
        case "hot" | "walked":
            agent.hot(story, "agent:main:main", index="complete" if place == "hot" else "rebuild")
        case "cold" | "blob":
            agent.put_away(story, "agent:main:main", in_file=place == "cold")
        case "deleted" | "identity":
            encoding = "zstd" if place == "deleted" else "identity"
            agent.archive(story, "agent:main:main", reason="deleted", encoding=encoding)
        case _:
            agent.transcript(story, "one.jsonl.deleted.2026-11-22T18-06-08.842Z.abc.zst")
    database = new_database(tmp_path / "lcm.db")
    assert backfill(tmp_path, database, "main", "one").code == ExitCode.DONE
    stored = query(database, "SELECT role, transcript_entry_id FROM messages ORDER BY seq")
    assert stored == messages(story)
    again = backfill(tmp_path, database, "main", "one")
    assert again.code == ExitCode.DONE
    assert query(database, "SELECT role, transcript_entry_id FROM messages ORDER BY seq") == stored
    current = place in ("hot", "walked", "cold", "blob")
    key = query(database, "SELECT session_key, active FROM conversations")
    assert key == [("agent:main:main" if current else None, int(current))]


def test_what_came_later_is_added(tmp_path: Path) -> None:
    story = Story("one", 1).tell(30)
    AgentFolder(tmp_path / "before" / "agents" / "main").hot(story, "agent:main:main")
    database = new_database(tmp_path / "lcm.db")
    backfill(tmp_path / "before", database, "main", "one")
    story.say("user", "later")
    story.say("assistant", "still later")
    AgentFolder(tmp_path / "after" / "agents" / "main").hot(story, "agent:main:main")
    backfill(tmp_path / "after", database, "main", "one")
    stored = query(database, "SELECT role, transcript_entry_id FROM messages ORDER BY seq")
    assert stored == messages(story)


@pytest.mark.long
def test_a_window_that_was_left_is_a_conversation_of_its_own(data: Path, tmp_path: Path) -> None:
    """Its key goes on with another window, and the same entries stand in both."""
    database, home = new_database(tmp_path / "lcm.db"), data / "openclaw-sqlite-living"
    for session in ("cb1e768d-0637-49c2-bdce-783f85bf661b", "076f4055-3ec1-4d9d-a20f-91df214643db"):
        assert backfill(home, database, "main", session).code == ExitCode.DONE
    found = query(
        database,
        "SELECT c.session_key, c.active, count(*) FROM conversations AS c "
        "JOIN messages USING (conversation_id) GROUP BY conversation_id ORDER BY conversation_id",
    )
    assert found == [("agent:main:telegram:direct:4242", 1, 98), (None, 0, 115)]


@pytest.mark.long
def test_the_answer_names_where_the_session_lies(data: Path, tmp_path: Path) -> None:
    home = data / "openclaw-sqlite-living"
    session = "27046938-a735-4a93-a971-f4fe747bb833"
    told = run(
        *(
            "backfill",
            "main",
            session,
            "--openclaw-dir",
            home,
            "--db",
            new_database(tmp_path / "a.db"),
            "--json",
        )
    ).data
    assert told["transcript"]["path"].endswith("openclaw-agent.sqlite")
    assert told["transcript"]["messages"] == 385


@pytest.mark.long
def test_a_large_session_is_planned_a_few_parts_at_a_time_and_is_one_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    story = Story("one", 7)
    for number in range(60):
        story.say("user" if number % 2 else "assistant", f"said {number}")
    AgentFolder(tmp_path / "agents" / "main").hot(story, "agent:main:main")
    whole, parts = new_database(tmp_path / "whole.db"), new_database(tmp_path / "parts.db")
    assert backfill(tmp_path, whole, "main", "one").code == ExitCode.DONE
    monkeypatch.setattr("lcm_host.backfill.PIECE", 10)
    monkeypatch.setattr("lcm_host.backfill._HELD", 2)
    done = backfill(tmp_path, parts, "main", "one")
    assert done.code == ExitCode.DONE
    assert stored_in(parts) == stored_in(whole)
    told = done.data
    assert len(told["plans"]) == told["import"]["parts"] > 4
    assert told["import"]["messages"] == len(story.messages)
    undone = run("history", "undo", told["batch"], "--db", parts, "--apply", "--yes", "--json")
    assert undone.code == ExitCode.DONE
    assert stored_in(parts) == []


@pytest.mark.long
def test_a_rollout_of_codex_is_imported_once_under_its_thread(tmp_path: Path) -> None:
    rollout, database = tmp_path / "rollout.jsonl", new_database(tmp_path / "lcm.db")
    lines = [
        line("session_meta", {"id": THREAD, "forked_from_id": "0199"}),
        message("user", "hello"),
        event("user_message", "hello"),
        item("function_call", name="read", arguments="{}", call_id="c1"),
        item("function_call_output", call_id="c1", output="body"),
        line("compacted", {"message": "shorter"}),
    ]
    rollout.write_text("\n".join(lines) + "\n")
    arguments = ("backfill", "--file", rollout, "--db", database)
    shown = run(*arguments, "--json").document["data"]
    assert (shown["session"]["sessionId"], shown["transcript"]["path"]) == (THREAD, str(rollout))
    assert shown["import"]["messages"] == 4
    assert [one.split(":")[0] for one in shown["importWarnings"]] == [
        "The thread was forked from another one",
        "1 repeated event left out, as a message says the same",
        "Kept as text of the assistant, since no message has their kind",
    ]
    assert query(database, "SELECT count(*) FROM messages") == [(0,)]
    assert run(*arguments, *BACKFILL).code == ExitCode.DONE
    stored = query(database, "SELECT role, transcript_entry_id FROM messages ORDER BY seq")
    assert [role for role, _ in stored] == ["user", "assistant", "tool", "assistant"]
    assert [entry.rpartition(":")[0] for _, entry in stored] == [
        f"codex:{THREAD}:{number}" for number in (2, 4, 5, 6)
    ]
    with rollout.open("a") as file:
        file.write(message("user", "and then") + "\n")
    again = run(*arguments, *BACKFILL)
    assert query(database, "SELECT count(*) FROM messages") == [(5,)], again
    assert "already has all of it" in run(*arguments).out
    assert query(database, "SELECT session_id, session_key FROM conversations") == [(THREAD, None)]


def test_a_rollout_that_is_not_whole_changes_nothing(tmp_path: Path) -> None:
    rollout, database = tmp_path / "rollout.jsonl", new_database(tmp_path / "lcm.db")
    rollout.write_text("\n".join([line("session_meta", {"id": THREAD}), message("user", "\x1b[31m"), "{"]))
    refused = run("backfill", "--file", rollout, "--db", database, *BACKFILL)
    assert (refused.code, refused.error["code"]) == (ExitCode.DATABASE, "ROLLOUT_INVALID")
    assert query(database, "SELECT count(*) FROM conversations") == [(0,)]
