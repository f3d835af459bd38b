"""The sessions of a host: what real hosts left, what nobody has recorded, and what is damaged."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import sqlite3
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from lcm_core.api import LcmError, NotFoundError
from lcm_host import reading
from lcm_host.reading import extents, open_session, read_page
from lcm_host.sessions import Storage, cold_folder, find_session, list_sessions

from tests.core.host_home import SCHEMA, AgentFolder, Story, zstd
from tests.support import DATA, recorded, sampled

RESET = "27046938-a735-4a93-a971-f4fe747bb833"
REWOUND = "cb1e768d-0637-49c2-bdce-783f85bf661b"
BEFORE = "076f4055-3ec1-4d9d-a20f-91df214643db"


def unpacked(name: str, target: Path) -> Path:
    with tarfile.open(DATA / f"{name}.tar.xz") as archive:
        archive.extractall(target, filter="data")
    return target


@pytest.fixture(scope="session")
def living(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A host after rewind, fork, reset, an injected message and cold storage: its folder of agents."""
    return (
        unpacked("openclaw-sqlite-living", tmp_path_factory.mktemp("living"))
        / "openclaw-sqlite-living"
        / "agents"
    )


@pytest.fixture(scope="session")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Hosts right after the import, and after two sessions were deleted."""
    return unpacked("openclaw-sqlite", tmp_path_factory.mktemp("imported"))


@pytest.fixture
def agents(tmp_path: Path) -> Path:
    return tmp_path / "agents"


@pytest.fixture
def agent(agents: Path) -> AgentFolder:
    return AgentFolder(agents / "main")


def sessions(agents: Path):
    listing = list_sessions(agents)
    assert listing.problems == ()
    return {one.session_id: one for one in listing.sessions}


def said(page) -> list[tuple[str | None, str | None, str | None]]:
    return [(one.entry_id, one.role, one.text) for one in page.entries if one.is_message]


def check(session, story: Story) -> None:
    whole = read_page(session)
    assert said(whole) == story.messages
    assert [one.entry_id for one in whole.entries] == story.path
    assert sorted(whole.off_path) == sorted(story.off_path)
    assert (whole.start, whole.total) == (0, len(story.path))
    assert [one.problem for one in whole.entries if one.problem] == []
    pages, off, before = [], [], None
    while before != 0:
        page = read_page(session, limit=7, before=before)
        pages, off, before = [*page.entries, *pages], [*page.off_path, *off], page.start
    assert tuple(pages) == whole.entries
    assert off == list(whole.off_path)


# -- what real hosts left --------------------------------------------------------------------------------


@pytest.mark.long
def test_every_session_of_a_living_host_is_read_as_its_host_sees_it(living: Path) -> None:
    expected = recorded("openclaw-sqlite-living.expected.json.xz")
    found = sessions(living)
    assert len(found) == len(expected) == 12
    for one in expected:
        session = found[one["sessionId"]]
        page = read_page(session)
        identity = (session.agent, session.session_key, session.storage, session.current)
        assert identity == (one["agent"], one["key"], one["storage"], one["current"])
        assert session.previous_session_id == one["previousSessionId"]
        assert [[entry.entry_id, entry.type] for entry in page.entries] == one["path"]
        assert list(page.off_path) == one["offPath"]
        assert said(page) == [(each["id"], each["role"], each["text"]) for each in one["messages"]]


@pytest.mark.long
def test_what_an_import_made_says_what_the_files_said(imported: Path, openclaw_home: Path) -> None:
    files = sessions(openclaw_home / "agents")
    tables = sessions(imported / "openclaw-sqlite" / "agents")
    assert len(tables) == 10
    for session_id, session in tables.items():
        [file] = [one for name, one in files.items() if name.startswith(session_id)]
        assert (session.storage, file.storage) == (Storage.HOT, Storage.JSONL)
        assert said(read_page(session)) == said(read_page(file))


def test_deleted_sessions_are_read_from_their_archives(imported: Path, openclaw_home: Path) -> None:
    found = sessions(imported / "openclaw-sqlite-deleted" / "agents")
    files = sessions(openclaw_home / "agents")
    deleted = [one for one in found.values() if one.storage is Storage.DELETED]
    assert len(deleted) == 2
    assert len(found) == 6
    for session in deleted:
        assert said(read_page(session)) == said(read_page(files[session.session_id]))
        assert not session.current


def test_a_deleted_session_without_a_database_is_read_from_its_file(imported: Path, tmp_path: Path) -> None:
    agents = tmp_path / "agents"
    shutil.copytree(imported / "openclaw-sqlite-deleted" / "agents", agents)
    before = {
        name: said(read_page(one)) for name, one in sessions(agents).items() if one.storage is Storage.DELETED
    }
    shutil.rmtree(agents / "main" / "agent")
    after = sessions(agents)
    assert {name: said(read_page(one)) for name, one in after.items()} == before
    assert {one.storage for one in after.values()} == {Storage.DELETED}


def test_extents_count_entries_without_the_header(living: Path) -> None:
    found = list(sessions(living).values())
    counted = {one.session_id: extent.entries for one, extent in extents(found).items()}
    expected = recorded("openclaw-sqlite-living.expected.json.xz")
    assert counted == {one["sessionId"]: len(one["path"]) + len(one["offPath"]) for one in expected}


@pytest.mark.long
def test_the_walk_agrees_with_the_list_of_the_host(living: Path, tmp_path: Path) -> None:
    """Without its own list each hot session is walked, and comes out the same."""
    home = tmp_path / "agents"
    shutil.copytree(living, home)
    with closing(sqlite3.connect(home / "main" / "agent" / "openclaw-agent.sqlite")) as db, db:
        db.execute("UPDATE session_transcript_index_state SET needs_rebuild = 1")
        db.execute("DELETE FROM session_transcript_active_events")
    listed, walked = sessions(living), sessions(home)
    hot = [name for name, one in listed.items() if one.storage is Storage.HOT]
    assert len(hot) == 4
    for name in hot:
        one, other = read_page(listed[name]), read_page(walked[name])
        assert (one.entries, sorted(one.off_path)) == (other.entries, sorted(other.off_path))


# -- what nobody has recorded ----------------------------------------------------------------------------

HOT_INDEXES = ("complete", "rebuild", "behind", "counts", "leaf", "missing")


@pytest.mark.long
@pytest.mark.parametrize("seed", sampled(range(12), range(4)))
def test_made_up_sessions_are_read_from_every_place(agents: Path, agent: AgentFolder, seed: int) -> None:
    stories: dict[str, tuple[Story, Storage]] = {}

    def story(name: str, storage: Storage) -> Story:
        made = Story(name, seed).tell(5 + seed * 3)
        stories[name] = (made, storage)
        return made

    for index in HOT_INDEXES:
        agent.hot(story(f"hot-{index}", Storage.HOT), f"k:{index}", index=index, packed=0.3)
    for index in ("complete", "behind", "missing", "counts"):
        agent.put_away(story(f"cold-{index}", Storage.COLD), f"c:{index}", index=index)
    agent.put_away(story("cold-blob", Storage.COLD), "c:blob", in_file=False)
    agent.archive(story("deleted", Storage.DELETED), "k:d", reason="deleted", encoding="zstd")
    agent.archive(story("reset", Storage.ARCHIVED), "k:r", reason="reset", encoding="identity")
    agent.transcript(story("file", Storage.JSONL))
    agent.transcript(story("gone", Storage.DELETED), "gone.jsonl.deleted.2026-11-22T18-06-08.842Z.abc.zst")
    agent.transcript(
        story("copy", Storage.ARCHIVED), "session-sqlite-import-archive/a_b.copy.jsonl.imported-17"
    )
    found = sessions(agents)
    assert {name: one.storage for name, one in found.items()} == {
        name: storage for name, (_, storage) in stories.items()
    }
    for name, (made, _) in stories.items():
        check(found[name], made)
    counted = {one.session_id: extent.entries for one, extent in extents(list(found.values())).items()}
    assert counted == {name: len(made.entries) for name, (made, _) in stories.items()}


def test_a_session_stands_once_wherever_it_is_kept(agents: Path, agent: AgentFolder) -> None:
    told = Story("one", 1).tell(20)
    older = Story("one", 1).tell(12)
    agent.hot(told, "agent:main:main")
    agent.transcript(older)
    agent.transcript(older, "session-sqlite-import-archive/agent_main_main.one.jsonl.imported-5")
    agent.archive(older, "agent:main:main", reason="reset", encoding="zstd")
    [session] = list_sessions(agents).sessions
    assert (session.storage, session.current) == (Storage.HOT, True)
    check(session, told)


def test_the_same_id_of_two_agents_is_two_sessions(agents: Path, agent: AgentFolder) -> None:
    other = AgentFolder(agents / "ops")
    agent.hot(Story("one", 1).tell(5), "agent:main:main")
    other.hot(Story("one", 2).tell(9), "agent:ops:main")
    listing = list_sessions(agents)
    assert sorted(str(one.agent) for one in listing.sessions) == ["main", "ops"]
    with pytest.raises(NotFoundError, match="2 sessions match one"):
        find_session(listing, "one")
    assert find_session(listing, "one", "ops").session_key == "agent:ops:main"


def test_a_key_goes_on_with_the_window_that_it_names(agents: Path, agent: AgentFolder) -> None:
    """Else with its newest one; one that was left keeps its entries under the same ids."""
    first = Story("first", 1).tell(10)
    second = Story("second", 1, entries=list(first.entries), paths=dict(first.paths), texts=dict(first.texts))
    second.leaf = second.tail = first.leaf
    second.rewind(to=first.path[4])
    agent.hot(first, "k", current=False)
    agent.hot(second, "k", previous="first")
    found = sessions(agents)
    assert (found["first"].current, found["second"].current) == (False, True)
    assert found["second"].previous_session_id == "first"
    check(found["first"], first)
    check(found["second"], second)
    agent.write("UPDATE session_nodes SET current_session_id = 'no such'")
    found = sessions(agents)
    assert (found["first"].current, found["second"].current) == (False, True)
    agent.write("UPDATE session_windows SET previous_session_id = NULL")
    agent.write("""UPDATE session_nodes SET entry_json = '{"previousSessionId":"first"}'""")
    assert sessions(agents)["second"].previous_session_id == "first"


def test_a_live_file_of_a_key_that_the_tables_go_on_with_is_not_current(
    agents: Path, agent: AgentFolder
) -> None:
    agent.hot(Story("new", 1).tell(5), "agent:main:main")
    agent.transcript(Story("old", 1).tell(5))
    (agent.sessions / "sessions.json").write_text(json.dumps({"agent:main:main": {"sessionId": "old"}}))
    found = sessions(agents)
    assert (found["old"].session_key, found["old"].current) == ("agent:main:main", False)
    assert found["new"].current


def test_of_several_archives_of_a_session_the_newest_counts(agents: Path, agent: AgentFolder) -> None:
    agent.archive(Story("one", 1).tell(5), "k", reason="reset", encoding="zstd", generation="a")
    newer = Story("one", 2).tell(9)
    agent.archive(newer, "k", reason="deleted", encoding="zstd", generation="b")
    agent.write("UPDATE session_transcript_archives SET created_at = created_at + 5 WHERE generation = 'b'")
    [session] = list_sessions(agents).sessions
    assert session.storage is Storage.DELETED
    check(session, newer)


def test_a_database_outside_a_folder_agent_keeps_cold_files_beside_it(
    agents: Path, agent: AgentFolder
) -> None:
    assert cold_folder(agent.database) == agent.cold
    assert cold_folder(agents / "elsewhere" / "store.sqlite") == agents / "elsewhere" / "cold"


# -- a living host ---------------------------------------------------------------------------------------


def test_reading_leaves_nothing_beside_the_database(agents: Path, agent: AgentFolder) -> None:
    agent.hot(Story("one", 1).tell(5), "k")
    with closing(sqlite3.connect(agent.database)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("UPDATE session_windows SET updated_at = 5")
    before = (sorted(os.listdir(agent.database.parent)), agent.database.read_bytes())
    check(sessions(agents)["one"], Story("one", 1).tell(5))
    assert (sorted(os.listdir(agent.database.parent)), agent.database.read_bytes()) == before


def test_what_a_living_host_commits_is_seen_at_once(agents: Path, agent: AgentFolder) -> None:
    told = Story("one", 1).tell(5)
    agent.hot(told, "k", index="missing")
    with closing(sqlite3.connect(agent.database, isolation_level=None)) as host:
        host.execute("PRAGMA journal_mode = WAL")
        host.execute("UPDATE session_windows SET updated_at = 5")
        session = sessions(agents)["one"]
        check(session, told)
        told.say("assistant", "newer")
        last = told.entries[-1]
        host.execute("BEGIN")
        row = ("one", len(told.entries), json.dumps(last), 1)
        host.execute("INSERT INTO transcript_events VALUES (?, ?, ?, ?, NULL, NULL, NULL)", row)
        assert said(read_page(session)) == told.messages[:-1]
        host.execute("COMMIT")
        assert said(read_page(session)) == told.messages


def test_a_session_that_went_away_says_so(agents: Path, agent: AgentFolder) -> None:
    agent.hot(Story("one", 1).tell(5), "k")
    session = sessions(agents)["one"]
    agent.write("DELETE FROM session_windows")
    agent.write("DELETE FROM transcript_events")
    with pytest.raises(NotFoundError, match=r"not in .* any more"):
        read_page(session)


def test_an_old_sqlite_is_one_sentence(
    agents: Path, agent: AgentFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent.hot(Story("one", 1).tell(5), "k")
    monkeypatch.setattr("lcm_core.store.host_database.sqlite3.sqlite_version_info", (3, 36, 0))
    [problem] = list_sessions(agents).problems
    assert "3.37 or later" in problem.reason


# -- damage ----------------------------------------------------------------------------------------------


def one_bad_row(agent: AgentFolder, sql: str, told: Story):
    agent.write(sql)
    return read_page(list_sessions(agent.path.parent).sessions[0])


BAD_ROWS = {
    "no JSON": ("event_json = '{\"type\":', event_zstd = NULL", "not JSON"),
    "no object": ("event_json = '[1]', event_zstd = NULL", "not an object"),
    "neither": ("event_json = NULL, event_zstd = NULL", "its row is empty"),
    "both": ("event_json = '{}', event_zstd = x'28b52ffd'", "contains it twice"),
    "no frame": ("event_json = NULL, event_zstd = x'00112233', event_utf8_bytes = 4", "not a zstd frame"),
    "cut off": (
        "event_json = NULL, event_zstd = x'28b52ffd24', event_utf8_bytes = 40",
        "damaged|does not hold",
    ),
    "no size": (
        "event_json = NULL, event_zstd = x'28b52ffd24', event_utf8_bytes = NULL",
        "a recorded size of",
    ),
    "a huge size": (
        "event_json = NULL, event_zstd = x'28b52ffd24', event_utf8_bytes = 99999999999",
        "a recorded size of",
    ),
}


@pytest.mark.cases(5)
@pytest.mark.parametrize("name", BAD_ROWS)
@pytest.mark.parametrize("index", ["complete", "rebuild"])
def test_one_bad_row_is_one_reported_row(agent: AgentFolder, name: str, index: str) -> None:
    values, reason = BAD_ROWS[name]
    told = Story("one", 3)
    for number in range(6):
        told.say("user", f"message {number}")
    agent.hot(told, "k", packed=0, index=index)
    page = one_bad_row(agent, f"UPDATE transcript_events SET {values} WHERE seq = 3", told)
    assert [one.text for one in page.entries if one.number != 3] == [
        text for at, (_, _, text) in enumerate(told.messages, 1) if at != 3
    ]
    assert page.total == 6
    [problem] = page.problems
    assert (problem.line, page.problem_count) == (3, 1)
    assert re.search(reason, problem.reason)


@pytest.mark.parametrize("said_size", [-1, 0, 1])
def test_a_packed_entry_of_another_size_is_shown_by_what_its_row_says(
    agent: AgentFolder, said_size: int
) -> None:
    told = Story("one", 3)
    for number in range(4):
        told.say("user", f"message {number} " * 50)
    agent.hot(told, "k", packed=1)
    sql = f"UPDATE transcript_events SET event_utf8_bytes = event_utf8_bytes + {said_size} WHERE seq = 2"
    page = one_bad_row(agent, sql, told)
    bad = page.entries[1]
    assert (bad.entry_id, bad.type, bad.role) == (told.path[1], "message", "user")
    assert (bad.text is None, bad.problem is not None, page.problem_count) == (
        (said_size != 0,) * 2 + (abs(said_size),)
    )


def test_a_frame_without_a_size_is_held_to_the_size_of_its_row(agent: AgentFolder) -> None:
    told = Story("one", 3)
    told.say("user", "x" * 2000)
    agent.hot(told, "k", packed=0)
    line = told.lines[1].encode()
    compressor = zstd.ZstdCompressor()
    frame = compressor.compress(line) + compressor.flush()
    bomb = zstd.compress(b" " * 50_000_000)
    for data, size, text in (
        (frame, len(line), told.messages[0][2]),
        (frame, len(line) - 1, None),
        (bomb, 100, None),
    ):
        agent.write(
            "UPDATE transcript_events SET event_json = NULL, event_zstd = ?, event_utf8_bytes = ? "
            "WHERE seq = 1",
            [(data, size)],
        )
        [entry] = read_page(list_sessions(agent.path.parent).sessions[0]).entries
        assert (entry.text, entry.problem is None) == (text, text is not None)


def cold_row(values: str) -> Callable[[AgentFolder, Path], None]:
    return lambda agent, path: agent.write(f"UPDATE session_transcript_cold_archives SET {values}")


def outside(agent: AgentFolder, path: Path) -> None:
    away = agent.path.parent.parent / "away.zst"
    path.rename(away)
    path.symlink_to(away)


def a_folder(agent: AgentFolder, path: Path) -> None:
    path.unlink()
    path.mkdir()


def with_bytes(change: Callable[[bytes], bytes]) -> Callable[[AgentFolder, Path], None]:
    def damage(agent: AgentFolder, path: Path) -> None:
        path.write_bytes(change(path.read_bytes()))

    return damage


COLD = {
    "missing": (lambda agent, path: path.unlink(), "is missing"),
    "cut off": (with_bytes(lambda data: data[:-20]), "checksum"),
    "bad frame": (with_bytes(lambda data: data[:40] + b"\0" * 99), "damaged|checksum"),
    "no frame": (with_bytes(lambda data: b"hello"), "damaged"),
    "empty": (with_bytes(lambda data: b""), "checksum"),
    "another file": (with_bytes(lambda data: data + zstd.compress(b"{}\n")), "checksum"),
    "a folder": (a_folder, "cannot be read"),
    "a link": (outside, "leads out of its folder"),
    "another session": (cold_row("session_id = 'other'"), "does not belong to session"),
    "another generation": (cold_row("generation = 'other'"), "does not belong to session"),
    "a name that leads out": (cold_row("archive_name = '../../x.jsonl.zst'"), "is no file in"),
    "no name": (cold_row("archive_name = NULL"), "is no file in"),
    "a bomb": (cold_row("raw_bytes = 1, event_count = 1"), "more than the"),
}


@pytest.mark.long
@pytest.mark.parametrize("name", sampled(COLD, [*COLD][::3]))
def test_a_damaged_cold_archive_is_one_sentence(agents: Path, agent: AgentFolder, name: str) -> None:
    damage, reason = COLD[name]
    told = Story("one", 3).tell(3)
    for _ in range(100):
        told.say("user", "the same again " * 8000)
    path = agent.put_away(told, "k")
    if name == "another session":
        agent.window(Story("other", 1).tell(3), "k:other")
        agent.write("DELETE FROM session_windows WHERE session_id = 'one'")
    damage(agent, path)
    session = next(one for one in list_sessions(agents).sessions if one.storage is Storage.COLD)
    with pytest.raises(LcmError, match=reason) as caught:
        read_page(session)
    assert caught.value.message.count("\n") == 0


def test_another_number_of_events_is_a_remark(agents: Path, agent: AgentFolder) -> None:
    told = Story("one", 3).tell(9)
    agent.put_away(told, "k")
    agent.write("UPDATE session_transcript_cold_archives SET event_count = 77")
    page = read_page(sessions(agents)["one"])
    assert said(page) == told.messages
    assert "77 in the host's record" in page.problems[0].reason


def test_a_database_that_ends_too_early_is_a_problem_and_the_others_are_listed(
    agents: Path, agent: AgentFolder
) -> None:
    other = AgentFolder(agents / "ops")
    other.hot(Story("one", 1).tell(5), "k")
    agent.hot(Story("two", 1).tell(50), "k")
    whole = agent.database.read_bytes()
    for size in (0, 50, 4096, len(whole) // 2, len(whole) - 4096):
        agent.database.write_bytes(whole[:size])
        listing = list_sessions(agents)
        assert [one.session_id for one in listing.sessions] == ["one"]
        assert [one.path for one in listing.problems] == [agent.database]
    agent.database.write_bytes(b"no database, but long enough to be one" * 500)
    [problem] = list_sessions(agents).problems
    assert "not a SQLite database" in problem.reason


def test_bytes_that_are_wrong_end_in_a_sentence(agents: Path, agent: AgentFolder) -> None:
    agent.hot(Story("one", 1).tell(60), "k")
    whole = agent.database.read_bytes()
    for place in range(4096, len(whole), 4096 * 3):
        agent.database.write_bytes(whole[:place] + b"\xff" * 4096 + whole[place + 4096 :])
        for session in list_sessions(agents).sessions:
            with contextlib.suppress(LcmError):
                read_page(session)


def test_a_schema_that_is_not_known_is_a_sentence(agents: Path, agent: AgentFolder) -> None:
    agent.hot(Story("one", 1).tell(5), "k")
    agent.write("PRAGMA user_version = 31")
    listing = list_sessions(agents)
    assert [one.session_id for one in listing.sessions] == ["one"]
    assert "31 is newer than 23" in listing.problems[0].reason
    agent.write("ALTER TABLE transcript_events RENAME TO entries")
    listing = list_sessions(agents)
    assert listing.sessions == ()
    assert "no table transcript_events (its schema is 31)" in listing.problems[0].reason


@pytest.mark.long
def test_columns_of_other_versions_are_not_missed(agents: Path, agent: AgentFolder) -> None:
    """Before schema 23 nothing was packed; a file may lack every column that is not a key."""
    told = Story("one", 1).tell(30)
    agent.hot(told, "k", packed=0)
    for table, columns in {
        "transcript_events": ("event_zstd", "event_utf8_bytes", "navigation_json", "created_at"),
        "session_windows": ("previous_session_id", "created_at", "updated_at", "transcript_updated_at"),
        "session_nodes": ("entry_json", "status"),
        "transcript_event_identities": ("created_at", "message_idempotency_key"),
        "session_transcript_index_state": ("leaf_event_id",),
    }.items():
        for column in columns:
            agent.write(f"ALTER TABLE {table} DROP COLUMN {column}")
            check(sessions(agents)["one"], told)
    for table in (
        "session_transcript_index_state",
        "session_transcript_active_events",
        "transcript_event_identities",
    ):
        agent.write(f"DROP TABLE {table}")
        check(sessions(agents)["one"], told)


#: Of these nothing is read yet.
UNREAD = {"schema_meta", "context_engine_turn_outbox"}


def tables_and_columns() -> Iterator[tuple[str, str]]:
    with closing(sqlite3.connect(":memory:")) as db:
        db.executescript(SCHEMA.replace("/*strict*/", ""))
        for (table,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            for row in db.execute(f"PRAGMA table_info({table})"):
                if table not in UNREAD:
                    yield table, row[1]


WRONG: tuple[Any, ...] = (None, -1, 2**62, 1.5, b"\xff\x00", "x" * 9000, '{"type":5}')


@pytest.mark.long
@pytest.mark.parametrize("place", sampled(tables_and_columns(), [*tables_and_columns()][::6]), ids=".".join)
def test_values_of_wrong_types_are_never_an_error_of_ours(tmp_path: Path, place: tuple[str, str]) -> None:
    table, column = place
    agent = AgentFolder(tmp_path / "agents" / "main", strict=False)
    agent.hot(Story("one", 1).tell(8), "k", packed=0.5)
    agent.put_away(Story("two", 1).tell(8), "c")
    agent.archive(Story("three", 1).tell(8), "d", reason="deleted", encoding="zstd")
    original = agent.database.read_bytes()
    for wrong in WRONG:
        agent.database.write_bytes(original)
        agent.write(f"UPDATE OR REPLACE {table} SET {column} = ?", [(wrong,)])
        listing = list_sessions(tmp_path / "agents")
        extents(listing.sessions)
        for session in listing.sessions:
            for limit in (None, 3):
                with contextlib.suppress(LcmError):
                    read_page(session, limit=limit)


def test_links_that_lead_out_are_not_followed(tmp_path: Path, agents: Path, agent: AgentFolder) -> None:
    agent.hot(Story("one", 1).tell(5), "k")
    away = tmp_path / "away"
    shutil.move(agent.path / "agent", away)
    (agent.path / "agent").symlink_to(away)
    listing = list_sessions(agents)
    assert listing.sessions == ()
    assert "leads out of the folder" in listing.problems[0].reason


# -- stores elsewhere ------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["kept/main/openclaw-agent.sqlite", "kept/one.sqlite"])
def test_a_database_that_the_host_was_told_to_keep_elsewhere(
    place: str, living: Path, tmp_path: Path
) -> None:
    source = living / "main"
    path = tmp_path / place
    path.parent.mkdir(parents=True)
    for end in ("", "-wal", "-shm"):
        if (file := source / "agent" / f"openclaw-agent.sqlite{end}").exists():
            shutil.copy(file, Path(f"{path}{end}"))
    if (source / "sessions" / "cold").exists():
        shutil.copytree(source / "sessions" / "cold", path.parent / "cold")
    usual = {one.session_id: one for one in list_sessions(living).sessions if one.agent == "main"}
    hot = {name for name, one in usual.items() if one.storage in (Storage.HOT, Storage.COLD)}
    found = list_sessions(path if path.suffix == ".sqlite" and path.stem == "one" else tmp_path / "kept")
    assert {one.session_id for one in found.sessions if one.session_id in hot} == hot
    assert {one.agent for one in found.sessions} == {"main"}
    assert not found.problems
    for one in found.sessions:
        if one.storage is Storage.COLD:
            assert read_page(one, limit=1).entries


# -- the end of a large session ----------------------------------------------------------------------------


@pytest.mark.cases(3)
@pytest.mark.parametrize("place", ["cold", "blob", "deleted", "identity", "packed file", "file"])
@pytest.mark.parametrize("seed", range(6))
def test_the_end_of_a_session_is_told_without_the_rest_or_not_at_all(
    agent: AgentFolder, agents: Path, monkeypatch: pytest.MonkeyPatch, place: str, seed: int
) -> None:
    monkeypatch.setattr(reading, "_LARGE", 0)
    monkeypatch.setattr(reading, "_LAST", 20_000)
    story = Story("one", seed).tell(120)
    match place:
        case "cold" | "blob":
            agent.put_away(story, "agent:main:main", in_file=place == "cold")
        case "deleted" | "identity":
            encoding = "zstd" if place == "deleted" else "identity"
            agent.archive(story, "agent:main:main", reason="deleted", encoding=encoding)
        case "packed file":
            agent.transcript(story, "one.jsonl.deleted.2026-11-22T18-06-08.842Z.abc.zst")
        case _:
            agent.transcript(story)
    [session] = sessions(agents).values()
    with closing(open_session(session, newest=9)) as end, closing(open_session(session)) as opened:
        assert [one.entry_id for one in opened.entries()] == story.path
        held = list(end.entries())
        if end.is_end:
            assert len(held) <= 9
            assert [one.value for one in held] == [
                one.value for one in opened.entries(len(opened) - len(held))
            ]
            whole = end.refreshed()
            assert list(whole.entries()) == list(opened.entries())
        else:
            assert held == list(opened.entries())


def test_most_ends_are_told(agent: AgentFolder, agents: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    story = Story("one", 0)
    for number in range(50):
        story.say("user", f"said {number}")
    agent.transcript(story)
    [session] = sessions(agents).values()
    assert not open_session(session, newest=9).is_end  # it is small: all of it is read at once
    monkeypatch.setattr(reading, "_LARGE", 0)
    monkeypatch.setattr(reading, "_LAST", 5_000)
    end = open_session(session, newest=9)
    assert end.is_end
    assert [one.entry_id for one in end.entries()] == story.path[-9:]


@pytest.mark.cases(2)
@pytest.mark.parametrize("place", ["cold", "blob", "deleted", "packed file"])
def test_a_large_archive_is_unpacked_into_a_private_file_that_goes_again(
    agent: AgentFolder, agents: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, place: str
) -> None:
    monkeypatch.setattr("lcm_host.archives._IN_MEMORY", 10)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    story = Story("one", 3).tell(60)
    if place in ("cold", "blob"):
        agent.put_away(story, "k", in_file=place == "cold")
    elif place == "deleted":
        agent.archive(story, "k", reason="deleted", encoding="zstd")
    else:
        agent.transcript(story, "one.jsonl.deleted.2026-11-22T18-06-08.842Z.abc.zst")
    [session] = sessions(agents).values()
    with closing(open_session(session)) as opened:
        [private] = temporary.iterdir()
        assert private.stat().st_mode & 0o777 == 0o700
        assert [one.entry_id for one in opened.entries()] == story.path
    assert list(temporary.iterdir()) == []
    check(session, story)
    assert list(temporary.iterdir()) == []
    temporary.rmdir()
    with pytest.raises(LcmError, match=r"cannot be unpacked into .*TMPDIR"):
        open_session(session)
