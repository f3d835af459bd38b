"""Sessions of OpenClaw's databases and archives in the app: listed, read, imported, and what is damaged."""

from __future__ import annotations

import hashlib
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from textual.pilot import Pilot

from lcm_tui.screens.disk_session import TranscriptPane
from tests.app.support import at, first_screen, open_app, said, settled, shown, wait_for, wait_for_text
from tests.core.host_home import START_MS, AgentFolder, Story
from tests.core.test_host_sessions import unpacked
from tests.databases import new_database, query
from tests.support import recorded, sampled

PLACES = ("hot", "walked", "cold", "blob", "deleted", "packed file")


pytestmark = pytest.mark.usefixtures("no_offer")


@pytest.fixture(scope="module")
def living(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpacked("openclaw-sqlite-living", tmp_path_factory.mktemp("living")) / "openclaw-sqlite-living"


async def open_row(pilot: Pilot[int], key: str):
    screen = first_screen(pilot)
    await wait_for(pilot, lambda: key in screen.list.table.keys)
    screen.list.table.select(key)
    await pilot.press("enter")
    await wait_for(pilot, lambda: at(pilot.app.screen, "Session "))
    opened = pilot.app.screen
    assert at(opened, "Session ")
    await wait_for(pilot, lambda: opened.pane.run_shown or said(pilot))
    return opened


def put(agent: AgentFolder, story: Story, place: str) -> None:
    match place:
        case "hot" | "walked":
            agent.hot(story, "agent:main:main", index="complete" if place == "hot" else "rebuild")
        case "cold" | "blob":
            agent.put_away(story, "agent:main:main", in_file=place == "cold")
        case "deleted":
            agent.archive(story, "agent:main:main", reason="deleted", encoding="zstd")
        case _:
            agent.transcript(story, "one.jsonl.deleted.2026-11-22T18-06-08.842Z.abc.zst")


async def test_every_session_of_a_living_host_is_listed_with_its_state(living: Path, tmp_path: Path) -> None:
    database = new_database(tmp_path / "lcm.db")
    expected = {
        f"{one['agent']}/{one['sessionId']}": one
        for one in recorded("openclaw-sqlite-living.expected.json.xz")
    }
    async with open_app(database, state_dir=living) as pilot:
        screen = first_screen(pilot)
        await wait_for(pilot, lambda: set(expected) == set(screen.list.table.keys))
        states = {key: screen.list.cells(key)["state"].text for key in screen.list.table.keys}
    words = {("hot", True): "living", ("hot", False): "earlier", ("cold", True): "cold"}
    assert states == {key: words[one["storage"], one["current"]] for key, one in expected.items()}


@pytest.mark.cases(1)
@pytest.mark.parametrize("place", sampled(PLACES, [*PLACES][::2]))
async def test_a_session_is_read_wherever_it_is_and_imported(place: str, tmp_path: Path) -> None:
    story = Story("one", 3).tell(60)
    agent = AgentFolder(tmp_path / "agents" / "main")
    put(agent, story, place)
    database = new_database(tmp_path / "lcm.db")
    async with open_app(database, state_dir=tmp_path) as pilot:
        screen = await open_row(pilot, "main/one")
        run = screen.pane.run_shown
        assert run is not None
        held = [entry.entry_id for entry in run.text.entries()]
        assert held == story.path
        assert screen.selected_id() == story.path[-1]
        await pilot.press("i")
        await wait_for_text(pilot, "Import", "messages")
        await pilot.press("a")
        await wait_for(pilot, lambda: at(pilot.app.screen, "Conversation 1"))
        await pilot.press("escape")
        await wait_for(pilot, lambda: "main/one" not in first_screen(pilot).list.table.keys)
    stored = query(database, "SELECT transcript_entry_id FROM messages ORDER BY seq")
    assert [row[0] for row in stored] == [name for name, _, _ in story.messages]


@pytest.mark.cases(1)
@pytest.mark.parametrize("place", ["file", "cold"])
async def test_the_end_of_a_large_session_comes_first_and_the_cursor_stays_on_its_entry(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lcm_host.reading._LARGE", 0)
    monkeypatch.setattr("lcm_host.reading._LAST", 30_000)
    story, agent = talk(100), AgentFolder(tmp_path / "agents" / "main")
    put(agent, story, "cold") if place == "cold" else agent.transcript(story)
    shown_first: list[int] = []
    showing = TranscriptPane.show

    def show(pane: TranscriptPane, data) -> bool:
        if data.text.is_end:
            shown_first.append(len(data.views))
        return showing(pane, data)

    monkeypatch.setattr(TranscriptPane, "show", show)
    async with open_app(new_database(tmp_path / "lcm.db"), state_dir=tmp_path) as pilot:
        screen = await open_row(pilot, "main/one")
        await wait_for_text(pilot, "200 entries")
        assert shown_first == [40]
        assert screen.selected_id() == story.path[-1]
        assert screen.messages.selected == 199
        assert not screen.pane.is_end


@pytest.mark.long
async def test_what_a_living_host_writes_is_followed_a_page_at_a_time(tmp_path: Path) -> None:
    story = Story("one", 4).tell(300)
    agent = AgentFolder(tmp_path / "agents" / "main")
    agent.hot(story, "agent:main:main")
    later = Story("one", 4).tell(300)
    later.say("user", "this came later")
    async with open_app(new_database(tmp_path / "lcm.db"), state_dir=tmp_path) as pilot:
        screen = await open_row(pilot, "main/one")
        assert len(screen.messages.keys) < 100
        agent.write("DELETE FROM session_windows")
        for table in (
            "transcript_events",
            "transcript_event_identities",
            "session_transcript_active_events",
            "session_transcript_index_state",
            "transcript_rewrite_watermarks",
        ):
            agent.write(f"DELETE FROM {table}")
        agent.hot(later, "agent:main:main")
        await wait_for_text(pilot, "this came later")
        await pilot.press("g")
        await wait_for(pilot, lambda: screen.messages.selected == 0)
        assert screen.selected_id() == later.path[0]
        await pilot.press("slash", *"this came later", "enter")
        await settled(pilot)
        await pilot.press("G")
        await wait_for(pilot, lambda: screen.messages.selected == len(later.path) - 1)


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        ("missing", "restore it from a backup of the host"),
        ("cut", "its zstd frame ends too early"),
        ("checksum", "its checksum differs"),
    ],
)
async def test_a_damaged_archive_is_one_sentence_on_the_screen(
    damage: str, sentence: str, tmp_path: Path
) -> None:
    agent = AgentFolder(tmp_path / "agents" / "main")
    cold = agent.put_away(Story("one", 5).tell(40), "agent:main:main")
    data = cold.read_bytes()
    match damage:
        case "missing":
            cold.unlink()
        case "cut":
            cold.write_bytes(data[:-9])
            digest = hashlib.sha256(data[:-9]).hexdigest()
            agent.write("UPDATE session_transcript_cold_archives SET archive_sha256 = ?", [(digest,)])
        case _:
            agent.write("UPDATE session_transcript_cold_archives SET archive_sha256 = ?", [("0" * 64,)])
    async with open_app(new_database(tmp_path / "lcm.db"), state_dir=tmp_path) as pilot:
        await open_row(pilot, "main/one")
        await wait_for(pilot, lambda: sentence in " ".join(shown(pilot).split()))
        await pilot.press("i")
        await wait_for(pilot, lambda: sentence in " ".join(shown(pilot).split()))


@pytest.mark.long
async def test_bad_entries_and_wrong_counts_are_said_where_they_are_read_and_imported(tmp_path: Path) -> None:
    story = talk(5)
    frame, cold = (AgentFolder(tmp_path / "agents" / name) for name in ("frame", "cold"))
    frame.hot(story, "agent:frame:main", packed=1)
    frame.write("UPDATE transcript_events SET event_utf8_bytes = event_utf8_bytes + 3 WHERE seq IN (3, 4)")
    cold.put_away(Story("two", 9).tell(20), "agent:cold:main")
    cold.write("UPDATE session_transcript_cold_archives SET event_count = 7")
    cold.write("PRAGMA user_version = 99")
    async with open_app(new_database(tmp_path / "lcm.db"), state_dir=tmp_path) as pilot:
        await wait_for_text(pilot, "? 1 place to note:")
        assert "unread" not in shown(pilot)
        await open_row(pilot, "cold/two")
        await wait_for_text(pilot, "entries in the archive, but 7 in the host's record")
        await pilot.press("escape")
        await open_row(pilot, "frame/one")
        await wait_for_text(pilot, "its frame says")
        await pilot.press("i")
        await wait_for_text(pilot, "2 entries of the session cannot be read", "Import 8 messages")


# -- is it ingesting? --------------------------------------------------------------------------------------


def stored(story: Story, database: Path, count: int) -> None:
    """A database whose engine has stored the first messages of a session."""
    names = [name for name, _, _ in story.messages]
    with closing(sqlite3.connect(database)) as db, db:
        db.execute(
            "INSERT INTO conversations (conversation_id, session_id, session_key, created_at, updated_at) "
            "VALUES (1, 'one', 'agent:main:main', '2026-03-02 07:00:00', '2026-03-02 07:00:00')"
        )
        db.executemany(
            "INSERT INTO messages (conversation_id, seq, role, content, token_count, transcript_entry_id, "
            "created_at, identity_hash) VALUES (1, ?, 'user', 'x', 1, ?, '2026-03-02 08:00:01', ?)",
            [(seq, name, f"h{seq}") for seq, name in enumerate(names[:count], 1)],
        )


def talk(turns: int) -> Story:
    story = Story("one", 6)
    for number in range(turns):
        story.say("user", f"question {number}")
        story.add(
            "message", message={"role": "assistant", "content": f"answer {number}", "stopReason": "stop"}
        )
        story.texts[story.leaf or ""] = f"answer {number}"
    return story


@pytest.mark.long
async def test_both_screens_say_how_far_the_engine_is(tmp_path: Path) -> None:
    story, agent = talk(10), AgentFolder(tmp_path / "agents" / "main")
    agent.hot(story, "agent:main:main", packed=0)
    agent.write(
        "INSERT INTO context_engine_turn_outbox VALUES ('k', 'engine', 'one', '{}', 3, 0, ?, ?)",
        [("no \x1b[31mroom\nleft", START_MS)],
    )
    database = new_database(tmp_path / "lcm.db")
    stored(story, database, 14)
    async with open_app(database, state_dir=tmp_path) as pilot:
        screen = first_screen(pilot)
        await wait_for_text(pilot, "✗ 6 messages missing since 03-02", "1 turn waits")
        assert screen.list.cells(1)["state"].text == "6 newer"
        assert set(screen.list.table.keys) == {1}
        await pilot.press("i")
        await wait_for_text(pilot, "Import 6 messages of session one", "80 tokens enter")
        await pilot.press("escape", "enter")
        await wait_for_text(pilot, "✗ 6 messages missing since 03-02", "1 turn waits (3 attempts: no")
        assert "\x1b" not in shown(pilot)
        await settled(pilot)  # a read of the app could not end while this waits for its lock
        with closing(sqlite3.connect(database)) as db, db:
            db.execute("DELETE FROM messages")
            db.execute("DELETE FROM conversations")
        agent.write("DELETE FROM context_engine_turn_outbox")
        stored(story, database, 20)
        await wait_for_text(pilot, "✓ ingesting")
        await pilot.press("escape")
        screen._look_again()
        screen.hosting._not_before = 0
        await wait_for(pilot, lambda: "✓ up to date with 1 session of the host" in shown(pilot))
        assert screen.list.cells(1)["state"].text == "active"


@pytest.mark.long
async def test_sessions_in_files_are_compared_too(openclaw_home: Path) -> None:
    async with open_app(openclaw_home / "lcm.db", state_dir=openclaw_home) as pilot:
        await wait_for_text(pilot, "on disk", "✓ up to date with 8 sessions of the host")
        await settled(pilot)
        await pilot.press("enter")
        await wait_for(pilot, lambda: at(pilot.app.screen, "Conversation "))
        height = pilot.app.screen.head.styles.height
        await wait_for_text(pilot, "✓ ingesting")
        assert pilot.app.screen.head.styles.height == height, "its room was kept"


@pytest.mark.long
async def test_without_sessions_of_the_host_nothing_is_said(openclaw_home: Path) -> None:
    shutil.rmtree(openclaw_home / "agents")
    async with open_app(openclaw_home / "lcm.db", state_dir=openclaw_home) as pilot:
        await settled(pilot)
        assert "ingesting" not in shown(pilot)
        await pilot.press("enter")
        await settled(pilot)
        assert "ingesting" not in shown(pilot)


async def test_a_database_that_cannot_be_read_is_said_on_the_first_screen(tmp_path: Path) -> None:
    agent = AgentFolder(tmp_path / "agents" / "main")
    agent.database.write_bytes(b"no database, " * 1000)
    async with open_app(new_database(tmp_path / "lcm.db"), state_dir=tmp_path) as pilot:
        await wait_for_text(pilot, "? 1 place not read:", "1 unread")


@pytest.mark.long
async def test_a_large_session_is_imported_a_few_parts_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lcm_host.backfill.PIECE", 10)
    monkeypatch.setattr("lcm_host.backfill._HELD", 2)
    story = talk(30)
    AgentFolder(tmp_path / "agents" / "main").hot(story, "agent:main:main")
    database = new_database(tmp_path / "lcm.db")
    async with open_app(database, state_dir=tmp_path) as pilot:
        await open_row(pilot, "main/one")
        await pilot.press("i")
        await wait_for_text(pilot, "this shows the first 2 of")
        await pilot.press("a")
        await wait_for(pilot, lambda: at(pilot.app.screen, "Conversation 1"))
    names = query(database, "SELECT transcript_entry_id FROM messages ORDER BY seq")
    assert [row[0] for row in names] == [name for name, _, _ in story.messages]
    assert query(database, "SELECT count(DISTINCT batch) FROM lcm_tui_operations") == [(1,)]
