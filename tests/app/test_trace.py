"""Where a line of a summary comes from: the messages below it, best first, and the way to them."""

from __future__ import annotations

import re
import time

import pytest
from lcm_core.operations.trace import TracedMessage, TraceSource
from textual.pilot import Pilot

from lcm_tui.kit.lines import LineView
from lcm_tui.screens.frame import CommandScreen
from tests.app.support import (
    NARROW,
    at,
    dag_on,
    open_app,
    resize,
    settled,
    shown,
    shown_lines,
    strips,
    wait_for,
    wait_for_text,
)
from tests.app.test_typed_ahead import typed
from tests.conftest import DatabaseFactory
from tests.databases import column, run

SUMMARY = "sum_a8e198f2d073c00f"
CONDENSED = "sum_4c4bd5292abfa225"


def front(pilot: Pilot[int]) -> CommandScreen:
    screen = pilot.app.screen
    assert isinstance(screen, CommandScreen)
    return screen


@pytest.mark.long
async def test_a_line_is_traced_to_the_message_that_says_it_in_two_keys(database_file: DatabaseFactory):
    path = database_file("0.15.3")
    line = "scripts/backfill_users.sh:348: refreshToken(640f)"
    [seq] = column(
        path,
        f"""SELECT DISTINCT seq FROM messages JOIN message_parts USING (message_id)
        WHERE coalesce(text_content, '') || coalesce(tool_output, '') LIKE '%{line}%'""",
    )
    async with open_app(path, size=NARROW) as pilot:
        await settled(pilot)
        await dag_on(pilot, SUMMARY)
        await pilot.press("L")
        await wait_for_text(pilot, f"Lines of {SUMMARY}", line, f"#{seq}  tool")
        await settled(pilot)
        first = next(row for row in shown(pilot).split("\n") if " %  m" in row)
        assert f"#{seq}" in first
        await resize(pilot, 60, 15)
        assert " enter Message  " in shown(pilot)
        await pilot.press("enter")
        await wait_for_text(pilot, f"#{seq}", "tool")


@pytest.mark.long
async def test_enter_in_the_text_of_a_summary_traces_the_line_in_sight(database_file: DatabaseFactory):
    async with open_app(database_file("0.15.3"), size=NARROW) as pilot:
        await settled(pilot)
        await dag_on(pilot, CONDENSED)
        await pilot.press("tab", "slash", *"refactor the schema", "enter")
        await settled(pilot)
        assert re.search(r"enter (Lines )?", shown_lines(pilot)[-1])
        await pilot.press("enter")
        await wait_for_text(pilot, f"Lines of {CONDENSED}", "100 %  m14 #14")
        lines = front(pilot).query_one("#lines", LineView)
        assert lines.cursor > 0
        await pilot.press("escape", "escape", "c")
        await wait_for(pilot, lambda: at(pilot.app.screen, "Context"))
        await settled(pilot)
        await pilot.press("home", "enter")
        await wait_for_text(pilot, "as text")
        await pilot.press("slash", *"refactor the schema", "enter")
        await settled(pilot)
        await pilot.press("enter")
        await wait_for_text(pilot, "Lines of sum_", "100 %  m14 #14")


@pytest.mark.long
async def test_a_message_lists_the_lines_of_the_summaries_that_tell_of_it(database_file: DatabaseFactory):
    path = database_file("0.15.3")
    [leaf] = column(path, "SELECT summary_id FROM summary_messages WHERE message_id = 14")
    async with open_app(path, size=NARROW) as pilot:
        await settled(pilot)
        await pilot.press("colon", *"m14")
        await wait_for_text(pilot, "essage m14")
        await pilot.press("enter")
        await wait_for(pilot, lambda: at(pilot.app.screen, "Conversation 1"))
        await settled(pilot)
        await pilot.press("L")
        await wait_for_text(pilot, "Summaries of message 14", f"leaf {leaf}", f"D3 {CONDENSED}")
        rows = [row for row in shown_lines(pilot) if "sum_" in row]
        assert [row.split("sum_")[0].split()[-1] for row in rows] == ["leaf", "D1", "D2", "D3"]
        assert f"100 %  D3 {CONDENSED}" in shown(pilot)
        await pilot.press("home", "enter")  # which tells more of another message
        await wait_for_text(pilot, f"Lines of {leaf}", " led here", "▸ weaker: ")
        sources = re.findall(r"(\d+) %  (m\d+) ", shown(pilot))
        assert sources[0][1] == "m14"
        assert int(sources[0][0]) < int(sources[1][0])
        await pilot.press("escape", "end")
        await settled(pilot)
        assert front(pilot).selected_id() == CONDENSED
        await pilot.press("enter")
        await wait_for_text(pilot, f"Lines of {CONDENSED}", "100 %  m14 #14")
        await pilot.press("enter")
        await wait_for_text(pilot, "Conversation 1", "#14")


async def test_a_message_that_no_summary_was_made_from_says_so(database_file: DatabaseFactory):
    async with open_app(database_file("0.15.3"), size=NARROW) as pilot:
        await settled(pilot)
        await pilot.press("c")
        await wait_for(pilot, lambda: at(pilot.app.screen, "Context"))
        await settled(pilot)
        await pilot.press("end", "enter")
        await wait_for_text(pilot, "as text")
        await pilot.press("enter")
        await wait_for_text(pilot, "No summary was made from this message.")


@pytest.mark.long
async def test_what_no_message_says_was_made_up(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    made_up = "Nobody approved zebra-quartz 99817 in Ouagadougou.\n"
    run(path, f"UPDATE summaries SET content = '{made_up}' || content WHERE summary_id = '{SUMMARY}'")
    async with open_app(path, size=NARROW) as pilot:
        await settled(pilot)
        await dag_on(pilot, SUMMARY)
        await pilot.press("L", "home")
        await wait_for_text(pilot, "No message below this summary says this.")
        await wait_for_text(pilot, "It may be a heading")
        await pilot.press("enter")
        await wait_for_text(pilot, "No message says this.")


@pytest.mark.long
async def test_the_second_source_is_chosen_and_opened(database_file: DatabaseFactory):
    async with open_app(database_file("0.15.3"), size=NARROW) as pilot:
        await settled(pilot)
        await dag_on(pilot, CONDENSED)
        await pilot.press("L")
        await wait_for_text(pilot, "100 %  m14 #14", "61 %  m61 #53")
        await pilot.press("tab", "down")
        await settled(pilot)
        assert front(pilot).selected_id() == "m61", "what y copies"
        await pilot.press("enter")
        await wait_for(pilot, lambda: at(pilot.app.screen, "Conversation 1"), "the conversation")
        await wait_for(pilot, lambda: "#53" in shown_lines(pilot)[0], "the message")
        await pilot.press("escape", "escape")
        await settled(pilot)
        assert at(pilot.app.screen, "Lines of"), "esc leads from the messages to the lines first"


@pytest.mark.long
async def test_the_excerpt_is_cut_around_the_words_that_both_share(database_file: DatabaseFactory):
    async with open_app(database_file("0.15.3"), size=NARROW) as pilot:
        await settled(pilot)
        await dag_on(pilot, CONDENSED)
        await pilot.press("L")
        await wait_for_text(pilot, "100 %  m14 #14")
        excerpt = shown(pilot).split("100 %  m14 #14")[1].split(" %  m")[0]
        said = " ".join(re.sub("[▁-█]", " ", excerpt).split())
        assert "Ingrid asked us to refactor the schema migration before Friday." in said
        back = front(pilot).query_one("#messages", LineView).style_of("match").bgcolor
        marked = "".join(
            piece.text if piece.style and piece.style.bgcolor == back else "|"
            for strip in strips(pilot)
            for piece in strip
        )
        assert {"refactor", "schema migration", "Friday"} <= set(filter(None, marked.split("|")))


@pytest.mark.long
async def test_words_that_the_excerpt_leaves_out_are_named(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    far = "quartz zebra" + " lorem" * 200 + " ocelot"
    run(path, f"UPDATE messages SET content = '{far}' WHERE message_id = 14")
    run(path, "DELETE FROM message_parts WHERE message_id = 14")
    line = "The quartz zebra met an ocelot."
    run(path, f"UPDATE summaries SET content = '{line}' WHERE summary_id = '{CONDENSED}'")
    async with open_app(path, size=NARROW) as pilot:
        await settled(pilot)
        await dag_on(pilot, CONDENSED)
        await pilot.press("L")
        await wait_for_text(pilot, "m14 #14", "elsewhere in it: ocelot")


@pytest.mark.long
async def test_weaker_sources_are_folded_into_one_row(database_file: DatabaseFactory):
    async with open_app(database_file("0.15.3"), size=NARROW) as pilot:
        await settled(pilot)
        await dag_on(pilot, CONDENSED)
        await pilot.press("L")
        await wait_for_text(pilot, "100 %  m14 #14")
        await pilot.press("tab", "end")
        await wait_for_text(pilot, "▸ weaker: ", "share less than half")
        shares = [int(share) for share in re.findall(r"(\d+) %  m", shown(pilot))]
        assert min(shares) >= 50
        strong = len(front(pilot).query_one("#messages", LineView).keys) - 1
        await pilot.press("enter")
        await settled(pilot)
        view = front(pilot).query_one("#messages", LineView)
        assert len(view.keys) > strong + 1
        assert view.cursor == strong, "the cursor is on the first of the weaker ones"
        assert "weaker" not in shown(pilot)


@pytest.mark.long
async def test_the_best_source_is_listed_however_little_it_shares(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    line = "Ingrid asked us to refactor a zebra of quartz"
    run(path, f"UPDATE summaries SET content = '{line}' WHERE summary_id = '{CONDENSED}'")
    async with open_app(path, size=NARROW) as pilot:
        await settled(pilot)
        await dag_on(pilot, CONDENSED)
        await pilot.press("L")
        await wait_for_text(pilot, " %  m", "▸ weaker: ")
        assert len(front(pilot).query_one("#messages", LineView).keys) == 2


@pytest.mark.long
async def test_the_cursor_stays_in_the_messages_when_the_file_changes(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    async with open_app(path, size=NARROW) as pilot:
        await settled(pilot)
        await dag_on(pilot, CONDENSED)
        await pilot.press("L")
        await wait_for_text(pilot, "100 %  m14 #14")
        await pilot.press("tab", "down")
        await settled(pilot)
        assert front(pilot).selected_id() == "m61"
        run(path, "UPDATE messages SET token_count = 7 WHERE message_id = 900")
        front(pilot).data_changed()
        await settled(pilot)
        assert front(pilot).selected_id() == "m61"


async def test_the_traced_sentence_is_in_sight_and_marked(database_file: DatabaseFactory):
    async with open_app(database_file("0.15.3"), size=NARROW) as pilot:
        await settled(pilot)
        await dag_on(pilot, CONDENSED)
        await pilot.press("L")
        await wait_for_text(pilot, "100 %  m14 #14")
        await pilot.press("enter")
        await wait_for_text(pilot, "asked us to refactor the schema", "migration before Friday.")
        await settled(pilot)
        back = front(pilot).query_one("#messages", LineView).style_of("match").bgcolor
        marked = " ".join(
            piece.text
            for strip in strips(pilot)
            for piece in strip
            if piece.style and piece.style.bgcolor == back
        )
        assert marked == "Ingrid asked us to refactor the schema migration before Friday"


@pytest.mark.long
async def test_a_sentence_is_sought_by_words_that_stand_in_one_place(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    often = "The schema migration waits.\n" + "Lorem ipsum.\n" * 30
    run(
        path,
        f"""UPDATE messages SET content = '{often}Ingrid moved
        the schema migration.' WHERE message_id = 14""",
    )
    run(path, "DELETE FROM message_parts WHERE message_id = 14")
    line = "Ingrid moved the schema migration."
    run(path, f"UPDATE summaries SET content = '{line}' WHERE summary_id = '{CONDENSED}'")
    async with open_app(path, size=NARROW) as pilot:
        await settled(pilot)
        await dag_on(pilot, CONDENSED)
        await pilot.press("L")
        await wait_for_text(pilot, "100 %  m14 #14")
        await pilot.press("enter")
        await wait_for_text(pilot, "Ingrid moved", "#14")


@pytest.mark.long
async def test_enter_waits_for_the_messages_of_a_line(
    database_file: DatabaseFactory, monkeypatch: pytest.MonkeyPatch
):
    quick = TraceSource.of_line

    def slow(source: TraceSource, line: str) -> list[TracedMessage]:
        time.sleep(0.3)
        return quick(source, line)

    async with open_app(database_file("0.15.3"), size=NARROW) as pilot:
        await settled(pilot)
        await dag_on(pilot, CONDENSED)
        await pilot.press("L")
        await wait_for_text(pilot, "100 %  m14 #14")
        await pilot.press("home")
        await wait_for_text(pilot, "No message below this summary says this.")
        monkeypatch.setattr(TraceSource, "of_line", slow)
        typed(pilot, "down", "enter")
        await wait_for(pilot, lambda: at(pilot.app.screen, "Conversation 1"), "the conversation")
