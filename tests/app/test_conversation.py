"""The messages of a conversation: a window over all of them, jumps, searches, calls and results."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from lcm_core.store import messages as store
from textual.pilot import Pilot

from lcm_tui.cli.demo import unpack_demo
from lcm_tui.kit.dialog import Prompt
from lcm_tui.kit.spans import text_of
from lcm_tui.screens.conversation import ConversationScreen
from tests.app.host import Host
from tests.app.screens import walk_to
from tests.app.support import (
    NARROW,
    WIDE,
    at,
    go_to,
    open_app,
    settled,
    shown,
    shown_lines,
    wait_for,
    wait_for_text,
    wait_until_refused,
    wait_until_said,
)
from tests.conftest import DatabaseFactory
from tests.databases import query, run
from tests.support import VERSIONS, sampled

WINDOW = 420

TOTAL = 600
LONG = 4  #: the conversation that gets so many messages


@pytest.fixture
def path(database_copy: DatabaseFactory) -> Path:
    return database_copy("0.15.3")


@pytest.fixture
def long_path(path: Path) -> Path:
    """Conversation 4 with 600 messages, one an hour; every tenth has many lines."""
    run(
        path,
        f"DELETE FROM messages WHERE conversation_id = {LONG}",
        f"""WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {TOTAL})
        INSERT INTO messages (conversation_id, seq, role, content, token_count, created_at)
        SELECT {LONG}, i, CASE i % 2 WHEN 0 THEN 'user' ELSE 'assistant' END,
            'message ' || i || CASE i % 10 WHEN 0 THEN replace('+++', '+', char(10) || 'more') ELSE '' END,
            5, datetime('2026-01-01', '+' || i || ' hours')
        FROM n""",
    )
    return path


def say(path: Path, seq: int, text: str) -> None:
    """Put a text in place of what message *seq* of conversation 1 holds."""
    with closing(sqlite3.connect(path)) as connection:
        key = "(SELECT message_id FROM messages WHERE conversation_id = 1 AND seq = ?)"
        connection.execute(f"UPDATE messages SET content = ? WHERE message_id = {key}", (text, seq))
        connection.execute(f"DELETE FROM message_parts WHERE message_id = {key}", (seq,))
        connection.commit()


async def open_conversation(
    pilot: Pilot[int], conversation_id: int, *, seq: int | None = None
) -> ConversationScreen:
    session = pilot.app.session
    from lcm_core.store.conversations import get_conversation

    conversation = await session.read(get_conversation, conversation_id)
    screen = await go_to(pilot, ConversationScreen(conversation, seq=seq))
    await settled(pilot)
    return screen


def held(screen: ConversationScreen) -> list[int]:
    """The seqs of the window, which are one run and no more than a window holds."""
    keys = list(screen.messages.keys)
    assert len(keys) <= WINDOW
    assert keys == sorted(keys)
    return keys


async def type_in(pilot: Pilot[int], text: str) -> None:
    """Answer the prompt."""
    pilot.app.screen.query_one(Prompt).value = text
    await pilot.press("enter")
    await settled(pilot)


# -- the window --------------------------------------------------------------------------------------------


@pytest.mark.long
async def test_the_newest_message_comes_first_and_is_selected(path: Path):
    async with open_app(path) as pilot:
        screen = await open_conversation(pilot, 1)
        assert screen.messages.selected == 384
        assert screen.messages.at_end
        assert not screen.messages.has_newer
        await wait_for_text(pilot, "Conversation 1  main  ", "#384")


@pytest.mark.long
async def test_every_message_is_met_by_paging_up_and_down(long_path: Path):
    async with open_app(long_path) as pilot:
        screen = await open_conversation(pilot, LONG)
        for key, end in (("pageup", 1), ("pagedown", TOTAL)):
            seen: set[int] = set()
            while screen.messages.selected != end:
                await wait_for(pilot, lambda: not screen.pane.extending)
                keys = held(screen)
                assert keys == list(range(keys[0], keys[-1] + 1))
                seen |= set(screen.messages.visible_keys)
                await pilot.press(key)
            assert seen | set(screen.messages.visible_keys) == set(range(1, TOTAL + 1))


@pytest.mark.long
async def test_the_wheel_goes_on_beyond_the_window(long_path: Path):
    async with open_app(long_path, size=NARROW) as pilot:
        screen = await open_conversation(pilot, LONG)
        while screen.messages.keys[-1] == TOTAL:  # until what was first has been let go
            top = screen.messages.visible_keys[0]
            for _ in range(5):
                screen.messages.scroll_up(animate=False, immediate=True)
            await pilot.pause()
            assert top - 6 <= screen.messages.visible_keys[0] <= top
            held(screen)
        await settled(pilot)
        assert screen.messages.visible_keys[0] in range(top - 6, top + 1)


@pytest.mark.long
async def test_first_and_last_are_those_of_all_messages(long_path: Path):
    async with open_app(long_path) as pilot:
        screen = await open_conversation(pilot, LONG)
        await pilot.press("g")
        await settled(pilot)
        assert screen.messages.selected == 1
        assert "message 1" in shown(pilot)
        assert not screen.messages.has_older
        await pilot.press("G")
        await settled(pilot)
        assert screen.messages.selected == TOTAL
        assert screen.messages.at_end
        assert not screen.messages.has_newer
        assert f"#{TOTAL}" in shown(pilot)


@pytest.mark.long
async def test_opening_a_long_conversation_reads_a_page(long_path: Path):
    async with open_app(long_path) as pilot:
        await settled(pilot)
        before = pilot.app.session.database.statements
        screen = await open_conversation(pilot, LONG)
        assert pilot.app.session.database.statements - before < 20
        assert len(screen.messages.keys) < 200


@pytest.mark.long
async def test_a_page_that_comes_late_does_not_bring_an_older_window_back(
    long_path: Path, monkeypatch: pytest.MonkeyPatch
):
    async with open_app(long_path) as pilot:
        screen = await open_conversation(pilot, LONG)
        late = await screen.fetch()
        await pilot.press("g")
        await settled(pilot)
        screen.post_message(screen.Loaded(late))
        await settled(pilot)
        assert screen.messages.selected == 1
        assert screen.messages.keys[0] == 1


# -- live --------------------------------------------------------------------------------------------------


@pytest.mark.long
async def test_the_window_keeps_its_bound_while_a_host_appends(long_path: Path):
    with Host(long_path) as host:
        async with open_app(long_path) as pilot:
            screen = await open_conversation(pilot, LONG)
            for batch in range(4):
                for number in range(150):
                    host.say(LONG, f"new {batch} {number}")
                last = TOTAL + (batch + 1) * 150
                await wait_for(
                    pilot, lambda last=last: last in screen.messages.keys or screen.messages.has_newer
                )
                await settled(pilot)
                held(screen)
                assert screen.messages.selected == TOTAL
                assert TOTAL in screen.messages.visible_keys


@pytest.mark.long
async def test_in_the_middle_nothing_moves_when_a_host_appends(long_path: Path):
    with Host(long_path) as host:
        async with open_app(long_path) as pilot:
            screen = await open_conversation(pilot, LONG, seq=300)
            assert screen.messages.selected == 300
            before = shown(pilot).split("\n")[1:]
            changed = pilot.app.session.changed_at
            host.say(LONG, "new")
            await wait_for(pilot, lambda: pilot.app.session.changed_at != changed)
            await settled(pilot)
            assert shown(pilot).split("\n")[1:] == before
            assert screen.messages.has_newer


@pytest.mark.long
async def test_messages_that_go_leave_the_others_where_they_are(long_path: Path):
    with Host(long_path) as host:
        async with open_app(long_path) as pilot:
            screen = await open_conversation(pilot, LONG)
            await pilot.press("pageup")
            await settled(pilot)
            selected = screen.messages.selected
            assert selected is not None
            host.write((f"DELETE FROM messages WHERE conversation_id = {LONG} AND seq > ?", [selected + 3]))
            await wait_for(pilot, lambda: screen.messages.keys[-1] == selected + 3)
            assert screen.messages.selected == selected
            host.write((f"DELETE FROM messages WHERE conversation_id = {LONG}", []))
            await wait_for_text(pilot, "This conversation has no messages.")
            host.say(LONG, "a new start")
            await wait_for_text(pilot, "a new start")


@pytest.mark.long
async def test_an_opened_message_stays_open_and_whole_while_its_surroundings_change(path: Path):
    say(path, 384, "x" * 3000 + "THE END")
    with Host(path) as host:
        async with open_app(path) as pilot:
            screen = await open_conversation(pilot, 1)
            message_id = screen.pane.entries[384].message.message_id
            await pilot.press("enter")
            await wait_for_text(pilot, "THE END")
            host.say(1, "something new")
            await wait_for(pilot, lambda: screen.messages.keys[-1] == 385)
            await settled(pilot)
            assert "THE END" in shown(pilot)
            host.write(
                ("INSERT INTO summary_messages VALUES ('sum_new', ?, 0)", [message_id]),
                ("DELETE FROM context_items WHERE message_id = ?", [message_id]),
            )
            await wait_for_text(pilot, "leaf sum_new")
            assert "THE END" in shown(pilot)
            changed = "UPDATE messages SET content = replace(content, 'x', 'y') WHERE message_id = ?"
            host.write((changed, [message_id]))
            await wait_for_text(pilot, "yyy", "THE END")


async def test_a_conversation_that_is_deleted_while_it_is_shown_is_said_to_be_gone(path: Path):
    async with open_app(path) as pilot:
        await open_conversation(pilot, 5)
        run(
            path,
            *(f"DELETE FROM {table} WHERE conversation_id = 5" for table in ("context_items", "messages")),
            "DELETE FROM conversations WHERE conversation_id = 5",
        )
        await wait_for_text(pilot, "Conversation 5 is no longer in the database.")


async def test_a_line_says_where_the_context_begins(path: Path):
    [(first,)] = query(
        path,
        "SELECT min(seq) FROM context_items AS item JOIN messages USING (message_id)"
        " WHERE item.conversation_id = 1",
    )
    async with open_app(path, size=NARROW) as pilot:
        await open_conversation(pilot, 1)
        await pilot.press("J", *str(first), "enter")
        await wait_for_text(pilot, "── in the context from here ──")
        lines = shown_lines(pilot)
        at = next(place for place, line in enumerate(lines) if "in the context from here" in line)
        assert lines[at + 1].split()[0] == str(first)


# -- opening -----------------------------------------------------------------------------------------------


@pytest.mark.long
async def test_opening_a_message_shows_all_of_it_and_folding_its_start(path: Path):
    say(path, 384, "\n".join(f"line {number}" for number in range(400)))
    async with open_app(path) as pilot:
        screen = await open_conversation(pilot, 1)
        assert screen.messages.selected == 384
        assert not screen.pane.entries[384].complete
        await pilot.press("enter")
        await wait_for(pilot, lambda: screen.pane.entries[384].complete)
        assert "line 20" in shown(pilot)  # what was at the end of the screen has made room for itself
        await pilot.press(*["pagedown"] * 10)
        assert "line 399" in shown(pilot)
        await pilot.press("enter")
        assert "line 399" not in shown(pilot)
        await pilot.press("l")
        assert 384 in screen.messages.opened
        await pilot.press("h")
        assert 384 not in screen.messages.opened
        await pilot.press("enter", "z")
        assert not screen.messages.opened


@pytest.mark.long
@pytest.mark.parametrize("version", sampled(VERSIONS[:4], ("0.1.2", "0.15.3")))
async def test_calls_and_results_are_paired_in_every_version(database_file: DatabaseFactory, version: str):
    path = database_file(version)
    async with open_app(path) as pilot:
        screen = await open_conversation(pilot, 1, seq=30)
        page = await pilot.app.session.read(store.oldest_page, screen.conversation.conversation_id, 10_000)
        screen.pane._take(page, await screen.pane._views_of(page), 30)
        await settled(pilot)
        drawn = {seq: screen.messages._lines_of(seq) for seq in screen.messages.keys}
        texts = {seq: [text_of(line) for line in lines] for seq, lines in drawn.items()}
        calls = {
            (seq, int(number))
            for seq, lines in texts.items()
            for line in lines
            for number in re.findall(r"→ #(\d+)", line)
        }
        results = {
            (int(number), seq)
            for seq, lines in texts.items()
            for line in lines
            for number in re.findall(r"← #(\d+)", line)
        }
        assert len(calls) > 50
        assert calls == results
        assert all(call < result for call, result in calls)
        unpaired = sum("in sight" in line for lines in texts.values() for line in lines)
        assert unpaired <= 2  # at the ends of what is held
        named = [line for lines in texts.values() for line in lines if "▸ exec" in line or "▸ read" in line]
        assert named
        assert any("▸ reasoning: " in line for lines in texts.values() for line in lines)
        if version != "0.15.3":
            assert any("▣ image" in line for lines in texts.values() for line in lines)


@pytest.mark.long
async def test_what_covers_a_message_is_said_and_opened(path: Path):
    async with open_app(path) as pilot:
        screen = await open_conversation(pilot, 1, seq=20)
        entry = screen.pane.entries[20]
        assert entry.covered_by
        await wait_for_text(pilot, f"leaf {entry.covered_by[0]}")
        await pilot.press("s")
        await wait_for(pilot, lambda: at(pilot.app.screen, "Summary DAG"))
        dag = pilot.app.screen
        await settled(pilot)
        assert at(dag, "Summary DAG")
        assert dag.selected_id() == entry.covered_by[0]


@pytest.mark.long
async def test_a_message_that_no_summary_covers_leads_to_the_dag_with_a_word(path: Path):
    async with open_app(path) as pilot:
        await open_conversation(pilot, 1)
        await pilot.press("s")
        await wait_for(pilot, lambda: at(pilot.app.screen, "Summary DAG"))
        await wait_until_said(pilot, "No summary covers this message.")


# -- jumping -----------------------------------------------------------------------------------------------


JUMPS = {
    "120": 120,
    "#7": 7,
    "999999": TOTAL,
    "-3": 1,
    "2026-01-20 10:00": 466,
    "2026-01-20T10:00:30Z": 467,
    "2026-01-20 11:00+01:00": 466,
    "2020-01-01": 1,
    "2030-01-01": TOTAL,
}


@pytest.mark.long
async def test_a_jump_goes_to_a_seq_or_a_time(long_path: Path):
    async with open_app(long_path) as pilot:
        screen = await open_conversation(pilot, LONG)
        for typed, expected in JUMPS.items():
            await pilot.press("J")
            await type_in(pilot, typed)
            assert (typed, screen.messages.selected) == (typed, expected)
            assert expected in screen.messages.visible_keys
            held(screen)


@pytest.mark.long
async def test_a_typed_time_is_meant_in_the_zone_that_is_shown(
    long_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    async with open_app(long_path) as pilot:
        screen = await open_conversation(pilot, LONG)
        assert "2026-01-26 09:00:00" in shown(pilot)  # midnight in UTC
        await pilot.press("J")
        await type_in(pilot, "2026-01-25 09:00")
        assert screen.messages.selected == TOTAL - 24


@pytest.mark.long
async def test_a_jump_goes_to_a_message_id_of_this_conversation_only(path: Path):
    async with open_app(path) as pilot:
        screen = await open_conversation(pilot, 2)
        wanted = screen.pane.entries[100].message.message_id
        await pilot.press("g", "J")
        await type_in(pilot, f"m{wanted}")
        assert screen.messages.selected == 100
        for typed, problem in (
            ("m1", "“m1” is not in this conversation."),
            ("yesterday", "“yesterday” is no seq"),
            ("[red]", "“[red]” is no seq"),
            ("9" * 30, f"“{'9' * 30}” is no seq"),
        ):
            await pilot.press("J")
            screen.query_one(Prompt).value = typed
            await pilot.press("enter")
            await wait_until_refused(pilot, problem)
            assert screen.query_one(Prompt).value == typed, "it is there to be put right"
            await pilot.press("escape")
        assert screen.messages.selected == 100


@pytest.mark.long
async def test_what_is_new_is_counted_also_where_a_jump_has_left_the_newest_page(long_path: Path):
    with Host(long_path) as host:
        async with open_app(long_path, size=NARROW) as pilot:
            screen = await open_conversation(pilot, LONG)
            await pilot.press("pageup")
            host.say(LONG, "one that is new")
            await wait_for_text(pilot, "1 new ↓")
            await pilot.press("J", *"50", "enter")
            await wait_for(pilot, lambda: screen.messages.selected == 50 and screen.messages.has_newer)
            await wait_for_text(pilot, "1 new ↓")
            host.say(LONG, "and one more")
            await wait_for_text(pilot, "2 new ↓")
            await pilot.press("G")
            await wait_for_text(pilot, "and one more")
            await wait_for(pilot, lambda: "new ↓" not in shown(pilot), "nothing new below the end")


@pytest.mark.long
async def test_an_empty_or_abandoned_prompt_moves_nothing(path: Path):
    async with open_app(path) as pilot:
        screen = await open_conversation(pilot, 1)
        await pilot.press("J", "enter")
        await pilot.press("J", "5", "escape")
        await settled(pilot)
        assert pilot.app.screen is screen
        assert not screen.asking
        assert screen.messages.selected == 384
        assert screen.messages.has_focus


# -- searching ---------------------------------------------------------------------------------------------


@pytest.mark.long
async def test_a_search_finds_matches_far_away_in_both_directions(long_path: Path):
    async with open_app(long_path) as pilot:
        screen = await open_conversation(pilot, LONG)
        await pilot.press("slash")
        await type_in(pilot, "MESSAGE 39")
        expected = [seq for seq in range(TOTAL, 0, -1) if f"message {seq}".startswith("message 39")]
        assert expected[0] == 399
        met = [screen.messages.selected]
        for _ in range(len(expected) - 1):
            await pilot.press("n")
            await settled(pilot)
            met.append(screen.messages.selected)
        assert met == expected
        await pilot.press("n")
        await settled(pilot)
        await wait_until_said(pilot, "Continued from the newest message.")
        assert screen.messages.selected == expected[0]
        await pilot.press("N")
        await settled(pilot)
        await wait_until_said(pilot, "Continued from the oldest message.")
        assert screen.messages.selected == expected[-1]
        await pilot.press("escape")
        assert pilot.app.screen is screen
        await pilot.press("n")
        await wait_until_said(pilot, "search first: / finds text")


@pytest.mark.long
async def test_a_match_in_the_part_that_is_not_shown_is_opened_and_brought_into_sight(path: Path):
    for seq in (100, 200):
        say(path, seq, "x" * 9000 + " needle")
    async with open_app(path, size=NARROW) as pilot:
        screen = await open_conversation(pilot, 1)
        await pilot.press("slash")
        await type_in(pilot, "needle")
        await wait_for_text(pilot, " needle")
        assert screen.messages.selected == 200
        assert screen.messages.opened == {200}
        await pilot.press("n")
        await settled(pilot)
        assert screen.messages.selected == 100
        assert screen.messages.opened == {100}  # the first one is folded again
        assert " needle" in shown(pilot)


@pytest.mark.long
async def test_matches_are_marked_wherever_they_stand(path: Path):
    async with open_app(path) as pilot:
        screen = await open_conversation(pilot, 1)
        await pilot.press("slash")
        await type_in(pilot, "the")
        marked = {
            span.text.casefold()
            for seq in screen.messages.visible_keys
            for line in screen.messages._lines_of(seq)
            for span in line
            if span.style == "match"
        }
        assert marked == {"the"}


@pytest.mark.long
async def test_another_search_takes_the_place_of_one_that_runs(long_path: Path):
    async with open_app(long_path) as pilot:
        screen = await open_conversation(pilot, LONG)
        await pilot.press("slash", *"nowhere", "enter", "slash")
        await type_in(pilot, "message 42")
        assert screen.messages.selected in {
            seq for seq in range(TOTAL + 1) if f"message {seq}".startswith("message 42")
        }
        assert screen.pane.finder.needle == "message 42"


@pytest.mark.long
@pytest.mark.parametrize(
    ("cause", "ended", "rejoined"),
    [
        (
            "'rollover-fallback'",
            "by a rollover: the old transcript was missing, so the host started a new one",
            "; V in the list rejoins them",
        ),
        ("'manual-reset'", "by /reset", ""),
        ("NULL", "for a reason that was not recorded", ""),
    ],
)
async def test_a_session_of_two_conversations_is_explained_at_both_ends(
    cause: str, ended: str, rejoined: str, tmp_path: Path
):
    path = unpack_demo(tmp_path / "home").database
    run(path, f"UPDATE conversations SET archive_cause = {cause} WHERE conversation_id = 9")
    for owner, said in (
        (9, f" archived {ended}; the session continues in conversation 10{rejoined}"),
        (10, f" the previous one is conversation 9, archived {ended}{rejoined}"),
    ):
        async with open_app(path, size=WIDE) as pilot:
            await walk_to(pilot, "ConversationScreen", of=owner)
            assert said in shown_lines(pilot)


async def test_a_bar_of_the_time_leads_to_the_messages_of_it(long_path: Path):
    run(long_path, f"DELETE FROM messages WHERE conversation_id = {LONG} AND seq BETWEEN 101 AND 300")
    async with open_app(long_path, size=NARROW) as pilot:
        await walk_to(pilot, "ConversationScreen", of=LONG)
        [(row, line)] = [(row, line) for row, line in enumerate(shown_lines(pilot)) if " over time " in line]
        bars = re.search(r" 2026-01-01 01:00 ([▁▂▃▄▅▆▇█]+┊[▁▂▃▄▅▆▇█]+) 2026-01-26 00:00$", line)
        assert bars is not None
        assert len(line) <= 80
        await pilot.click(offset=(bars.start(1), row))
        await wait_for(pilot, lambda: "      message 1" in shown_lines(pilot), "the first message")
        await pilot.click(offset=(bars.end(1) - 1, row))
        await wait_for(pilot, lambda: "      message 577" in shown_lines(pilot), "those of the last bar")
