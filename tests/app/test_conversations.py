"""The first list: what each column says, filter, order, sessions on disk, and what fills in behind."""

from __future__ import annotations

import json
import os
import re
import shutil
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from lcm_core.base.text import cell_width, clip
from lcm_core.base.values import replace
from lcm_core.store.conversations import list_conversations
from lcm_core.store.database import Database
from lcm_core.store.summaries import broken_in
from textual.pilot import Pilot
from textual.screen import Screen

from lcm_tui.app import LcmApp
from lcm_tui.kit.bars import Heading
from lcm_tui.kit.spans import share_text, text_of
from lcm_tui.screens import conversation_panel as outlook
from lcm_tui.screens.conversation_figures import Counting
from lcm_tui.screens.conversation_list import TROUBLE
from lcm_tui.screens.conversation_panel import Outlooker
from lcm_tui.screens.conversations import ConversationsScreen
from lcm_tui.tables import conversation_rows
from lcm_tui.tables.conversation_rows import AGENT_TROUBLE, COLUMNS, Row, falls, troubles, words_of
from tests.app.host import Host
from tests.app.support import (
    NARROW,
    at,
    first_screen,
    open_app,
    said,
    settled,
    shown,
    shown_lines,
    wait_for,
    wait_for_text,
    wait_until_said,
)
from tests.conftest import DatabaseFactory
from tests.databases import query, run
from tests.support import VERSIONS, sampled

#: Wide enough for every column.
ALL = (sum(max(column.width, column.wish) + 2 for column in COLUMNS) + 54, 50)
#: What bars are made of.
BARS = " █▏▎▍▌▋▊▉░"


def heading_of(pilot: Pilot[int]) -> str:
    """The line of the headings, below the panel."""
    return next(line for line in shown_lines(pilot) if line.startswith(("   id ", "  ↑id ", "  ↓id ")))


def without_arrow(heading: str) -> str:
    """The titles alone: which of them sorts is another matter."""
    return heading.translate({ord("↑"): " ", ord("↓"): " "})


def cells(pilot: Pilot[int], conversation_id: int | str) -> dict[str, str]:
    """What the row of a conversation says, by column, as it is drawn."""
    screen = first_screen(pilot)
    width = screen.list.table.scrollable_content_region.width
    layout = screen.list.layout_at(width)
    [line] = screen.list.table._lines_of(conversation_id)
    # A character of two cells is followed by one of none, so that a place in the text is one in the line.
    text = "".join(one + "\0" * (cell_width(one) - 1) for one in text_of(line))
    at, found = 0, {}
    for column, size in zip(layout.columns, layout.widths, strict=True):
        found[column.name] = text[at : at + size].replace("\0", "").strip(BARS)
        at += size + 1
    return found


async def test_nothing_else_is_read_before_the_first_rows_have_been_painted(
    database_copy: DatabaseFactory, monkeypatch: pytest.MonkeyPatch
):
    painted: list[bool] = []
    painting = LcmApp._display

    def noted(app: LcmApp, screen: Screen[object], update: object) -> None:
        painted.append(not app._batch_count and at(screen, "Conversations"))
        painting(app, screen, update)

    monkeypatch.setattr(outlook, "FIRST_SECONDS", 0.001)
    read = {
        "counts": Counting._fill_rows,
        "sessions": ConversationsScreen._find_sessions,
        "history": Outlooker._read,
        "checks": Outlooker._check,
    }
    before: dict[str, bool] = {}

    async def read_counts(counting: Counting) -> None:
        before.setdefault("counts", any(painted))
        await read["counts"](counting)

    async def read_sessions(screen: ConversationsScreen) -> None:
        before.setdefault("sessions", any(painted))
        await read["sessions"](screen)

    async def read_history(outlooker: Outlooker) -> None:
        before.setdefault("history", any(painted))
        await read["history"](outlooker)

    async def check(outlooker: Outlooker) -> None:
        before.setdefault("checks", any(painted))
        await read["checks"](outlooker)

    monkeypatch.setattr(LcmApp, "_display", noted)
    monkeypatch.setattr(Outlooker, "_read", read_history)
    monkeypatch.setattr(Outlooker, "_check", check)
    monkeypatch.setattr(Counting, "_fill_rows", read_counts)
    monkeypatch.setattr(ConversationsScreen, "_find_sessions", read_sessions)
    async with open_app(database_copy("0.15.3")) as pilot:
        await wait_for(pilot, lambda: len(before) == len(read))
        assert before == dict.fromkeys(read, True)


async def filter_by(pilot: Pilot[int], text: str) -> None:
    await pilot.press("slash", *("space" if character == " " else character for character in text))
    await pilot.pause()


# -- what is said ------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("version", VERSIONS)
async def test_every_number_is_that_of_plain_sql(database_file: DatabaseFactory, version: str):
    path = database_file(version)
    async with open_app(path, size=ALL, budget=10_000) as pilot:
        await settled(pilot)
        for (key,) in query(path, "SELECT conversation_id FROM conversations"):

            def ask(columns: str, table: str, rest: str = "", key: object = key) -> list[tuple[object, ...]]:
                return query(path, f"SELECT {columns} FROM {table} WHERE conversation_id = ? {rest}", key)

            drawn = cells(pilot, key)
            [(messages, tokens)] = ask("count(*), ifnull(sum(token_count), 0)", "messages")
            [(items,)] = ask("count(*)", "context_items")
            depths = ask("depth, count(*)", "summaries", "GROUP BY depth ORDER BY depth")
            broken = len(await pilot.app.session.read(broken_in, key))
            assert drawn["id"] == str(key)
            assert drawn["messages"] == f"{messages:,}"
            assert drawn["tokens"] == f"{tokens:,}"
            assert drawn["context"] == f"{items:,}"
            assert drawn["depths"] == " ".join(
                f"D{depth}·{count}" if depth else f"leaf·{count}" for depth, count in depths
            )
            assert drawn["broken"] == (f"✗{broken}" if broken else "")
            assert drawn["share"] == share_text(int(drawn["context_tokens"].replace(",", "")) / 10_000)


@pytest.mark.long
async def test_agent_session_and_state_come_from_the_database(database_file: DatabaseFactory):
    async with open_app(database_file("0.15.3"), size=ALL) as pilot:
        await settled(pilot)
        first, archived = cells(pilot, 1), cells(pilot, 5)
        assert (first["agent"], first["session"], first["state"]) == ("main", "main", "active")
        assert (archived["agent"], archived["session"]) == ("ops", "discord:channel:o…")
        assert archived["state"] == "reset"
        assert first["activity"] == "2026-03-04 12:11"


@pytest.mark.long
async def test_what_a_version_does_not_record_is_told_from_nothing(database_file: DatabaseFactory):
    async with open_app(database_file("0.1.2"), size=ALL) as pilot:
        await settled(pilot)
        drawn = cells(pilot, 1)
        assert (drawn["agent"], drawn["state"]) == ("–", "–")
        path = database_file("0.1.2")
        [(session_id,)] = query(path, "SELECT session_id FROM conversations WHERE conversation_id = 1")
        assert drawn["session"] == clip(str(session_id), 18)


async def test_a_conversation_without_messages_or_with_a_strange_time_says_so(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    run(
        path,
        "DELETE FROM messages WHERE conversation_id = 7",
        "UPDATE messages SET created_at = 'half past' WHERE conversation_id = 6",
    )
    async with open_app(path) as pilot:
        await settled(pilot)
        assert cells(pilot, 7)["activity"] == "no messages"
        assert cells(pilot, 7)["messages"] == "0"
        assert cells(pilot, 6)["activity"] == "half past"


async def test_an_empty_database_says_so(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    run(path, "PRAGMA foreign_keys = OFF", "DELETE FROM conversations")
    async with open_app(path) as pilot:
        await wait_for_text(pilot, "This database contains no conversation.")
        await pilot.press("enter", "c", "s", "y", "S", "I", "G")
        assert pilot.app.screen is first_screen(pilot)
        await wait_until_said(pilot, "no conversation is selected")


async def test_a_narrow_screen_keeps_what_matters_most(database_file: DatabaseFactory):
    async with open_app(database_file("0.15.3"), size=NARROW) as pilot:
        await settled(pilot)
        heading = heading_of(pilot).split()
        assert heading[:2] == ["id", "conversation"]
        assert {"bytes", "budget", "broken", "last"} <= set(heading)
        assert "session" not in heading
        assert max(map(len, shown_lines(pilot))) <= 80


@pytest.mark.cases(1)
@pytest.mark.parametrize("width", range(60, 160, 20))
async def test_a_row_with_an_error_has_a_mark_at_every_width_in_every_order(
    width: int, database_file: DatabaseFactory, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(outlook, "FIRST_SECONDS", 0.001)
    async with open_app(database_file("0.15.3-damaged"), size=(width, 24)) as pilot:
        screen = first_screen(pilot)
        await wait_for(pilot, lambda: screen.outlooker.outlook.verdict, "the verdict")
        await settled(pilot)
        assert not broken_of(screen, 7)
        screen.list.note(findings={7: 1})
        assert broken_of(screen, 7) == "✗other"
        for column in (*COLUMNS, AGENT_TROUBLE):
            screen.list.sort_by(column.name)
            layout = screen.list.layout_at(width - 1)
            assert layout.shows("broken") or column.name == TROUBLE


def broken_of(screen: ConversationsScreen, key: int) -> str:
    return screen.list.cells(key)["broken"].text


# -- filter ------------------------------------------------------------------------------------------------


FILTERS = {
    "ops": {5, 7, 8},
    "OPS discord": {5, 8},
    "reset": {5},
    "384": {1},  # a count
    "D3 12:11": {1},
    "12:11": {1},  # a time
    "nothing at all": set[int](),
    "[red]": set[int](),
}


@pytest.mark.long
async def test_what_has_no_room_is_shown_in_turn(database_file: DatabaseFactory):
    """At 80 columns, l shows the other columns beside id and session, h the first ones again."""
    async with open_app(database_file("0.15.3"), size=NARROW) as pilot:
        await settled(pilot)
        first = heading_of(pilot)
        assert first.endswith("›")
        await pilot.press("h")
        assert heading_of(pilot) == first
        seen, rows = [first], ""
        while not seen[-1].endswith("‹"):
            await pilot.press("l")
            await wait_for(pilot, lambda: heading_of(pilot) not in seen)
            seen.append(heading_of(pilot))
            rows += shown(pilot)
        for heading in seen:
            assert {"id", "conversation"} <= set(heading.split())
        titles = {column.timed or column.title for column in COLUMNS}
        assert not [title for title in titles if not any(title in heading for heading in seen)]
        assert "reset" in rows
        assert "3,304" in rows
        await pilot.press("l")
        assert heading_of(pilot) == seen[-1]
        await pilot.press("S", "S", "S", "S", "escape")
        await wait_for_text(pilot, "by id")
        for heading in reversed(seen[:-1]):
            await pilot.press("h")
            await wait_for(
                pilot, lambda heading=heading: without_arrow(heading_of(pilot)) == without_arrow(heading)
            )


@pytest.mark.long
async def test_where_all_columns_have_room_there_is_no_sign_of_others(database_file: DatabaseFactory):
    async with open_app(database_file("0.15.3"), size=ALL) as pilot:
        await settled(pilot)
        heading = heading_of(pilot)
        await pilot.press("l", "h")
        assert heading_of(pilot) == heading
        assert "last (UTC) ↓ " in heading
        assert "›" not in heading


@pytest.mark.long
async def test_typing_filters_over_all_columns(database_file: DatabaseFactory):
    async with open_app(database_file("0.15.3")) as pilot:
        await settled(pilot)
        screen = first_screen(pilot)
        for typed, expected in FILTERS.items():
            await filter_by(pilot, typed)
            assert (typed, set(screen.list.table.keys)) == (typed, expected)
            await wait_for_text(pilot, f"{len(expected)} of 8 /{typed}")
            assert ("No conversation matches" in shown(pilot)) == (not expected)
            await pilot.press("escape")
        broken = {key for key in screen.list.rows if cells(pilot, key)["broken"]}
        screen.list.filter.typed("✗")
        assert set(screen.list.table.keys) == broken


@pytest.mark.long
async def test_a_letter_looks_at_no_row_again_but_at_one_of_which_more_is_known(
    database_file: DatabaseFactory, monkeypatch: pytest.MonkeyPatch
):
    looked, saying = [], conversation_rows.cells_of

    def noted(row, *more: Any):
        looked.append(row)
        return saying(row, *more)

    async with open_app(database_file("0.15.3")) as pilot:
        listed = first_screen(pilot).list
        await settled(pilot)
        await pilot.press("slash", "q", "q")
        await wait_for(pilot, lambda: listed.filter.needle == "qq")
        assert not listed.table.keys
        monkeypatch.setattr(conversation_rows, "cells_of", noted)
        key, row = next(
            (key, row) for key, row in listed.rows.items() if not row.entry.conversation.told_title
        )
        listed.learn(key, replace(row, words="qqq it is"))
        listed.say([key])
        looked.clear()
        await pilot.press("q")
        await wait_for(pilot, lambda: list(listed.table.keys) == [key])
        assert looked == []  # it was put together when it was read, the others before the first letter


@pytest.mark.long
async def test_the_filter_stays_after_enter_and_goes_with_escape(database_file: DatabaseFactory):
    async with open_app(database_file("0.15.3")) as pilot:
        screen = first_screen(pilot)
        await settled(pilot)
        await filter_by(pilot, "ops")
        await pilot.press("backspace", "enter")
        assert screen.list.table.has_focus
        assert not screen.asking
        assert set(screen.list.table.keys) >= {5, 7, 8}
        await pilot.press("down")
        selected = screen.list.table.selected
        await pilot.press("slash")
        assert screen.query_one("#prompt").value == "op"
        await pilot.press("escape")
        assert len(screen.list.table.keys) == 8
        assert screen.list.table.selected == selected
        assert not screen.asking
        await pilot.press("escape")
        assert pilot.app.return_code is None
        await pilot.press("q")
        assert pilot.app.return_code == 0


@pytest.mark.long
async def test_the_selection_stays_through_filtering_when_it_matches(database_file: DatabaseFactory):
    async with open_app(database_file("0.15.3")) as pilot:
        screen = first_screen(pilot)
        await settled(pilot)
        screen.list.table.select(7)
        await filter_by(pilot, "agent")  # nothing says so: the word agent is not shown
        await pilot.press(*["backspace"] * 5, *"ops")
        assert screen.list.table.selected in screen.list.table.keys
        await pilot.press("escape")
        assert len(screen.list.table.keys) == 8


# -- order -------------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize(
    "column", sampled([column.name for column in COLUMNS], [column.name for column in COLUMNS[:5]])
)
async def test_any_column_sorts_and_turns_round(database_file: DatabaseFactory, column: str):
    async with open_app(database_file("0.15.3"), size=ALL) as pilot:
        screen = first_screen(pilot)
        await settled(pilot)
        screen.list.table.select(3)
        screen.list.sort_by("id" if column != "id" else "activity")
        screen.list.sort_by(column)
        await settled(pilot)
        order = list(screen.list.table.keys)
        values = [value_of(pilot, key, column) for key in order]
        assert values == sorted(values, reverse=falls(column))
        assert screen.list.table.selected == order[0]
        screen.list.table.select(3)
        await pilot.press("I")
        values = [value_of(pilot, key, column) for key in screen.list.table.keys]
        assert values == sorted(values, reverse=not falls(column))
        assert screen.list.table.cursor == 0
        arrow = "↑" if falls(column) else "↓"
        title = next(found.title for found in COLUMNS if found.name == column)
        await wait_for_text(pilot, f"by {title} {arrow}")


def value_of(pilot: Pilot[int], key: int | str, column: str) -> object:
    """What a cell says, so that it compares as a person would compare it."""
    row = first_screen(pilot).list.rows[key]
    assert row.conversation is not None
    one = row.conversation
    whole = {"agent": one.agent, "session": one.lane, "name": one.name}
    if column in whole:
        return (whole[column] or "").casefold()
    if column == "bytes":
        return row.sums.bytes
    if column == "share":
        column = "context_tokens"
    text = cells(pilot, key)[column]
    if column == "depths":
        return sum(int(found.split("·")[-1].removeprefix("leaf·")) for found in text.split())
    if column in ("activity", "state"):
        return text
    if column == "trouble":
        return troubles(row)
    return int(re.sub("[^0-9]", "", text) or 0)


@pytest.mark.long
async def test_a_click_on_a_heading_sorts_and_a_second_one_turns(database_file: DatabaseFactory):
    async with open_app(database_file("0.15.3")) as pilot:
        screen = first_screen(pilot)
        await settled(pilot)
        at = heading_of(pilot).index("messages") + 3
        await pilot.click(Heading, offset=(at, 0))
        await pilot.pause()
        counts = [int(cells(pilot, key)["messages"]) for key in screen.list.table.keys]
        assert counts == sorted(counts, reverse=True)
        await pilot.click(Heading, offset=(at, 0))
        await pilot.pause()
        counts = [int(cells(pilot, key)["messages"]) for key in screen.list.table.keys]
        assert counts == sorted(counts)


@pytest.mark.long
async def test_a_filtered_name_shows_the_word_that_it_has_behind_its_end(database_file: DatabaseFactory):
    async with open_app(database_file("0.15.3"), size=NARROW) as pilot:
        await settled(pilot)
        assert "unbounded" not in cells(pilot, 1)["name"][:20]
        await pilot.press("slash", *"unbounded")
        await wait_for(pilot, lambda: any("unbo" in line for line in shown_lines(pilot)[8:14]))
        [line] = [line for line in shown_lines(pilot) if line.startswith("    1 ")]
        assert re.search("1 ….{6}unbo", line)


@pytest.mark.long
async def test_a_click_on_the_sign_of_more_columns_shows_them(database_file: DatabaseFactory):
    async with open_app(database_file("0.15.3"), size=NARROW) as pilot:
        await settled(pilot)
        first = heading_of(pilot)
        signs = []
        while not signs or heading_of(pilot) != first:
            signs.append(heading_of(pilot)[-1])
            await pilot.click(Heading, offset=(NARROW[0] - 1, 0))
            await settled(pilot)
        assert signs[0] == "›"
        assert signs[-1] == "‹"
        assert first_screen(pilot).list.sorted_by == "activity", "nothing was sorted"


@pytest.mark.long
async def test_every_heading_stands_over_its_column_and_names_it_when_clicked(database_file: DatabaseFactory):
    async with open_app(database_file("0.15.3"), size=NARROW) as pilot:
        screen = first_screen(pilot)
        await settled(pilot)
        layout = screen.list.layout_at(screen.list.table.scrollable_content_region.width)
        at = 0
        for column, width in zip(layout.columns, layout.widths, strict=True):
            shown_title = heading_of(pilot).ljust(80)[at : at + width].strip(" ↑↓")
            title = f"{column.timed} (UTC)" if column.timed else column.title
            assert title.startswith(shown_title.rstrip("…"))
            screen.list.sorted_by = "id" if column.name != "id" else "name"
            await pilot.click(Heading, offset=(at, 0))
            await pilot.pause()
            assert screen.list.sorted_by == column.name
            at += width + 1


async def test_the_heading_says_which_column_sorts_and_which_way(database_file: DatabaseFactory):
    async with open_app(database_file("0.15.3"), size=NARROW) as pilot:
        screen = first_screen(pilot)
        await settled(pilot)
        assert "last (UTC) ↓" in heading_of(pilot)
        await pilot.press("I")
        await wait_for(pilot, lambda: "last (UTC) ↑" in heading_of(pilot))
        for name, heading in (("id", "↑id"), ("name", "conversation ↑"), ("broken", "↓broken")):
            screen.list.sort_by(name)
            await wait_for(pilot, lambda heading=heading: heading in heading_of(pilot), heading)
            assert sum(map(heading_of(pilot).count, "↑↓")) == 1
            assert "broken" in heading_of(pilot), "no title loses a letter"


@pytest.mark.long
@pytest.mark.parametrize("size", [NARROW, (160, 50)])
async def test_trouble_comes_first_with_its_reason(
    size: tuple[int, int], database_file: DatabaseFactory, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(outlook, "FIRST_SECONDS", 0.001)
    async with open_app(database_file("0.15.3-damaged"), size=size) as pilot:
        screen = first_screen(pilot)
        await wait_for(pilot, lambda: screen.outlooker.outlook.verdict, "the verdict")
        await pilot.press("S")
        await wait_for_text(pilot, "most broken, then findings")
        await pilot.press("enter")  # trouble is selected
        await wait_for_text(pilot, "by trouble ↓", "11 broken, 5 findings, 3 suspicious")
        assert pilot.app.screen is screen
        assert "↓trouble" in heading_of(pilot) or "trouble ↓" in heading_of(pilot)
        rows = [screen.list.rows[key] for key in screen.list.table.keys]
        counts = [(row.sums.broken, row.findings, row.newer, row.suspicious) for row in rows if row.sums]
        assert counts == sorted(counts, reverse=True)
        assert max(findings for _, findings, _, _ in counts) > 0


@pytest.mark.long
@pytest.mark.parametrize("size", [NARROW, (160, 50)])
async def test_the_agent_with_the_most_trouble_comes_first_with_the_reason(
    size: tuple[int, int], database_file: DatabaseFactory, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(outlook, "FIRST_SECONDS", 0.001)
    async with open_app(database_file("0.15.3-damaged"), size=size) as pilot:
        screen = first_screen(pilot)
        await wait_for(pilot, lambda: screen.outlooker.outlook.verdict, "the verdict")
        await pilot.press("S")
        await wait_for_text(pilot, "the same, by agent")
        await pilot.press("g", "down", "enter")
        await wait_for_text(pilot, "by agent trouble ↓", "main: 14 broken", "research: 7 broken")
        agents = [row.conversation.agent for key in screen.list.table.keys if (row := screen.list.rows[key])]
        assert [agent for agent, _ in groupby(agents)] == ["main", "research", "ops"]
        counts = [troubles(screen.list.rows[key]) for key in (1, 2, 4, 6)]
        assert list(screen.list.table.keys)[:4] == [1, 2, 4, 6]
        assert counts == sorted(counts, reverse=True)
        await pilot.press("I")
        await wait_for_text(pilot, "by agent trouble ↑")
        assert list(screen.list.table.keys)[-1] == 1
        await pilot.press("S", "g", "enter")
        await wait_for(pilot, lambda: "main: 14" not in shown(pilot), "no column of agents")


@pytest.mark.long
async def test_with_one_agent_nothing_is_sorted_by_agents(database_file: DatabaseFactory):
    async with open_app(database_file("0.1.2"), size=NARROW) as pilot:
        await settled(pilot)
        await pilot.press("S")
        await wait_for_text(pilot, "most broken, then findings")
        assert "agent trouble" not in shown(pilot)


async def test_the_sort_key_lists_the_columns_goes_through_them_and_is_kept(database_file: DatabaseFactory):
    path = database_file("0.15.3")
    async with open_app(path, size=NARROW) as pilot:
        screen = first_screen(pilot)
        await settled(pilot)
        names = [*(column.name for column in COLUMNS), AGENT_TROUBLE.name]
        met = []
        await pilot.press("S")
        await wait_for_text(pilot, "Sort by")
        for _ in names:
            await pilot.press("S")
            met.append(screen.list.sorted_by)
            assert screen.list.layout_at(79).shows(screen.list.sorted_by)
        assert sorted(met) == sorted(names)
        await pilot.press("escape")
        await wait_for(pilot, lambda: pilot.app.screen is screen)
        await pilot.press("S", "t", "enter")
        await wait_for(pilot, lambda: pilot.app.screen is screen)
        assert screen.list.sorted_by == TROUBLE
        assert not said(pilot), "no letter is refused"
        await pilot.press("I")
        await wait_for_text(pilot, "by trouble ↑")
    async with open_app(path, size=NARROW) as pilot:  # the next start
        await wait_for_text(pilot, "by trouble ↑")


@pytest.mark.long
async def test_a_start_stands_on_the_first_row_until_a_key_is_pressed(database_file: DatabaseFactory):
    path = database_file("0.15.3-damaged")
    async with open_app(path, size=NARROW) as pilot:
        await settled(pilot)
        first_screen(pilot).list.sort_by("broken")
        first_screen(pilot).list.turn()
    async with open_app(path, size=NARROW) as pilot:
        listed = first_screen(pilot).list
        await settled(pilot)
        assert listed.order == "by broken ↑"
        broken = [row.sums.broken for key in listed.table.keys if (row := listed.rows[key]).sums is not None]
        assert broken == sorted(broken), "also by what is remembered"
        assert listed.table.cursor == 0
        chosen = listed.table.selected
        await pilot.press("x")
        listed.sort_as("broken")
        listed.show([row.entry for row in listed.rows.values() if row.entry is not None])
        assert listed.table.selected == chosen != listed.table.keys[0]


async def test_what_is_opened_before_its_name_was_read_gets_it_in_the_title(
    database_file: DatabaseFactory, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(Counting, "begin", lambda self: None)
    async with open_app(database_file("0.15.3"), size=NARROW) as pilot:
        await settled(pilot)
        assert "main  “" not in shown(pilot)
        await pilot.press("enter")
        await wait_for_text(pilot, "Conversation 1  main  “Can you")


@pytest.mark.long
async def test_a_sort_goes_to_the_first_row_and_the_sort_list_offers_another_column(
    database_file: DatabaseFactory,
):
    async with open_app(database_file("0.15.3"), size=NARROW) as pilot:
        screen = first_screen(pilot)
        await settled(pilot)
        await pilot.press("down", "down", "S")
        await wait_for_text(pilot, "Sort by")
        await pilot.press("enter")
        await wait_for(pilot, lambda: pilot.app.screen is screen)
        assert (screen.list.sorted_by, screen.list.table.cursor) == (TROUBLE, 0)
        worst = screen.list.table.selected
        await pilot.press("down", "I")
        await settled(pilot)
        assert screen.list.table.cursor == 0
        await pilot.press("S", "t", "t", "home", "enter")  # a second time: the other way round
        await wait_for(pilot, lambda: pilot.app.screen is screen)
        await settled(pilot)
        assert screen.list.table.selected == worst
        await pilot.press("down")
        await pilot.click(Heading, offset=(heading_of(pilot).index("id") + 1, 0))
        await settled(pilot)
        assert screen.list.table.cursor == 0


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (Row(None), []),
        (
            Row(None, findings=1, suspicious=3, stuck=1, newer=12, stale=1),
            ["1 finding", "engine stuck", "12 newer", "1 stale summary", "3 suspicious"],
        ),
        (Row(None, newer=3, findings=1), ["1 finding", "3 newer"]),
    ],
)
def test_what_is_wrong_is_said_in_words_always_in_the_same_order(row: Row, words: list[str]):
    assert words_of(troubles(row)) == words


# -- sessions on disk --------------------------------------------------------------------------------------


@pytest.mark.long
async def test_sessions_that_the_database_does_not_know_stand_below_and_open(openclaw_home: Path):
    async with open_app(openclaw_home / "lcm.db", state_dir=openclaw_home) as pilot:
        screen = first_screen(pilot)
        await wait_for_text(pilot, "8 and 3 on disk")
        await settled(pilot)
        disk = [key for key in screen.list.table.keys if isinstance(key, str)]
        assert len(disk) == 3
        assert list(screen.list.table.keys)[-3:] == disk
        screen.list.table.select(disk[0])
        await pilot.pause()
        state = screen.list.cells(disk[0])["state"].text  # the name has its room at this width
        assert (cells(pilot, disk[0])["id"], state) == ("disk", "on disk")
        assert screen.why_not("context")
        await pilot.press("c")
        await wait_until_said(pilot, "this session is not in the database")
        await pilot.press("enter")
        await wait_for(pilot, lambda: at(pilot.app.screen, "Session "))


@pytest.mark.long
@pytest.mark.parametrize(
    "column", sampled([column.name for column in COLUMNS], [COLUMNS[0].name, COLUMNS[-1].name])
)
async def test_sessions_on_disk_stay_below_in_every_order(openclaw_home: Path, column: str):
    async with open_app(openclaw_home / "lcm.db", state_dir=openclaw_home) as pilot:
        screen = first_screen(pilot)
        await wait_for_text(pilot, "8 and 3 on disk")
        await settled(pilot)
        for _ in range(2):
            screen.list.sort_by(column)
            await settled(pilot)
            assert [isinstance(key, str) for key in screen.list.table.keys] == [False] * 8 + [True] * 3


async def test_the_sessions_folder_can_be_given(openclaw_home: Path, database_file: DatabaseFactory):
    folder = openclaw_home / "agents" / "ops" / "sessions"  # two of its three are in that database
    async with open_app(database_file("0.1.2"), sessions=folder) as pilot:
        await wait_for_text(pilot, "7 and 1 on disk")


@pytest.mark.long
async def test_a_session_that_comes_appears_and_one_that_becomes_known_goes(openclaw_home: Path):
    path = openclaw_home / "lcm.db"
    with Host(path) as host:
        async with open_app(path, state_dir=openclaw_home) as pilot:
            screen = first_screen(pilot)
            await wait_for_text(pilot, "8 and 3 on disk")
            folder = openclaw_home / "agents" / "main" / "sessions"
            header = {"type": "session", "version": 3, "id": "a-new-session"}
            (folder / "a-new-session.jsonl").write_text(json.dumps(header) + "\n")
            await pilot.press("ctrl+r")
            await wait_for_text(pilot, "8 and 4 on disk", "a-new-session")
            host.write(("INSERT INTO conversations (session_id) VALUES ('a-new-session')", []))
            await wait_for_text(pilot, "9 and 3 on disk")
            shutil.rmtree(openclaw_home / "agents")
            screen._look_again()
            await wait_for(pilot, lambda: "on disk" not in shown_lines(pilot)[0])


async def test_the_time_of_a_session_on_disk_is_shown_in_the_same_zone_as_all(
    openclaw_home: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    for path in openclaw_home.glob("agents/*/sessions/*.jsonl"):
        os.utime(path, (datetime(2026, 3, 1, 20, tzinfo=UTC).timestamp(),) * 2)
    async with open_app(openclaw_home / "lcm.db", state_dir=openclaw_home) as pilot:
        await wait_for_text(pilot, "last (UTC+9)", "on disk", "2026-03-02 05:00")


# -- going on, live ----------------------------------------------------------------------------------------


@pytest.mark.long
async def test_enter_and_a_second_click_open_the_conversation(database_file: DatabaseFactory):
    async with open_app(database_file("0.15.3")) as pilot:
        screen = first_screen(pilot)
        await settled(pilot)
        await pilot.click("#list", offset=(5, 3))
        assert pilot.app.screen is screen
        selected = screen.selected_id()
        await pilot.click("#list", offset=(5, 3))
        await wait_for(pilot, lambda: at(pilot.app.screen, "Conversation "))
        assert str(pilot.app.screen.conversation.conversation_id) == selected
        await settled(pilot)
        await pilot.press("escape")
        assert pilot.app.screen is screen
        assert screen.selected_id() == selected


async def test_the_first_rows_need_one_statement(database_file: DatabaseFactory):
    async with Database.open(database_file("0.15.3")) as database:
        before = database.statements
        data = await database.read(list_conversations)
        assert database.statements - before == 1
        assert len(data) == 8


@pytest.mark.long
async def test_counts_out_of_sight_are_read_again_when_they_come_into_sight(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    run(
        path,
        """WITH RECURSIVE n(i) AS (SELECT 100 UNION ALL SELECT i + 1 FROM n WHERE i < 200)
        INSERT INTO conversations (conversation_id, session_id, updated_at)
        SELECT i, 'session ' || i, '2020-01-01 00:00:00' FROM n""",
    )
    with Host(path) as host:
        async with open_app(path, size=NARROW) as pilot:
            screen = first_screen(pilot)
            await settled(pilot)
            assert 100 not in screen.list.table.visible_keys
            host.write(
                (
                    """INSERT INTO summaries (summary_id, conversation_id, kind, depth, content, token_count)
                    VALUES ('sum_x', 100, 'leaf', 0, ' ', 7)""",
                    [],
                )
            )
            await wait_for(pilot, lambda: 100 in screen.counting.uncounted)
            await settled(pilot)
            await pilot.press("G")
            await settled(pilot)
            assert 100 in screen.list.table.visible_keys
            await wait_for(pilot, lambda: cells(pilot, 100)["broken"] == "✗1")
            assert screen.list.rows[100].counts.summaries[0].count == 1


@pytest.mark.long
async def test_a_summary_that_is_mended_in_place_loses_its_mark(
    database_copy: DatabaseFactory, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("lcm_tui.screens.conversation_figures.WHOLE_SECONDS", 0.0)
    path = database_copy("0.15.3")
    with Host(path) as host:
        async with open_app(path) as pilot:
            await settled(pilot)
            assert cells(pilot, 1)["broken"] == "✗4"
            seen = pilot.app.session.changed_at
            host.write(("UPDATE summaries SET content = 'mended', model = 'm' WHERE conversation_id = 1", []))
            await wait_for(pilot, lambda: pilot.app.session.changed_at != seen)
            await settled(pilot)
            first_screen(pilot)._look_again()
            await wait_for(pilot, lambda: cells(pilot, 1)["broken"] == "")


@pytest.mark.long
async def test_the_bars_are_measured_by_the_longest_row_that_is_left(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    async with open_app(path, size=ALL) as pilot:
        await settled(pilot)
        screen = first_screen(pilot)

        def full() -> list[int]:
            return [key for key in screen.list.rows if "████" in text_of(*screen.list.table._lines_of(key))]

        assert full() == [1]
        run(path, "DELETE FROM messages WHERE conversation_id = 1", "DELETE FROM summaries")
        await wait_for(pilot, lambda: full() == [3])
