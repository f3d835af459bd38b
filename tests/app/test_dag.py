"""The screen of the summary DAG, on databases that the real engine wrote and on damage made for it."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sqlite3
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest
from lcm_core.base.text import safe_line
from lcm_core.engine.markers import classify, gist
from textual.dom import DOMNode
from textual.pilot import Pilot

from lcm_tui.app import LcmApp
from lcm_tui.kit.panes import TwoPanes
from lcm_tui.screens.dag import DagScreen
from lcm_tui.screens.dag_tree import columns_for
from lcm_tui.tables import summaries as store
from tests.app.host import Host
from tests.app.support import (
    MIDDLING,
    NARROW,
    WIDE,
    at,
    conversation,
    go_to,
    open_app,
    resize,
    said,
    settled,
    shown,
    shown_lines,
    wait_for,
    wait_for_text,
    wait_until_said,
)
from tests.conftest import DatabaseFactory
from tests.databases import query
from tests.support import DATA, sampled

#: Conversation 1 of 0.15.3: its four roots, newest first, and a way down to a leaf.
ROOTS = ["sum_bb692ab9b90b6a49", "sum_07742015d971b59d", "sum_6f28c0a7f6f90a1a", "sum_4c4bd5292abfa225"]
D1, LEAF = "sum_18ef3ddbebbf8c2e", "sum_afbaa0d9045b3dd1"
#: The summary that lost its consumer in the damaged database.
ORPHAN = "sum_9960da692838a8de"


def change(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as database, database:
        for statement in statements:
            database.execute(statement)
    os.utime(path, (1e9, 1e9))  # a file that was just written is looked at again


#: A root of the damaged one, with broken summaries below it.
BROKEN_BELOW = "sum_4c4bd5292abfa225"


def making(summary_id: str, content: str = "text", *, kind: str = "condensed", depth: int = 1) -> str:
    quoted = content.replace("'", "''")
    return f"""INSERT INTO summaries (summary_id, conversation_id, kind, depth, content, token_count)
        VALUES ('{summary_id}', 1, '{kind}', {depth}, '{quoted}', 2)"""


def edge(consumer: str, source: str, ordinal: int = 0) -> str:
    return f"INSERT INTO summary_parents VALUES ('{consumer}', '{source}', {ordinal})"


@asynccontextmanager
async def dag_of(
    path: Path, conversation_id: int = 1, *, select: str | None = None, size: tuple[int, int] = WIDE
) -> AsyncIterator[tuple[Pilot[int], DagScreen]]:
    async with open_app(path, size=size) as pilot:
        screen = DagScreen(conversation(pilot, conversation_id), select=None if select is None else select)
        await go_to(pilot, screen)
        await wait_for(pilot, lambda: screen.lines.surveyed.is_set(), "the whole graph")
        await settled(pilot)
        if select is None and ROOTS[0] in steps(screen):
            await stand_on(pilot, screen, ROOTS[0])
        yield pilot, screen


def steps(screen: DagScreen) -> list[object]:
    return [place.step for place in screen.lines.keys]


def row_of(pilot: Pilot[int], text: str) -> str:
    """The one row of the tree in which *text* stands, or the beginning of an id."""
    sought = text[:8] if text.startswith("sum_") else text
    [row] = [row for row in rows(pilot) if sought in row]
    return row


def rows(pilot: Pilot[int]) -> list[str]:
    """The rows of the tree that are in sight."""
    region = pilot.app.screen.lines.region
    return [line[: region.width - 1] for line in shown_lines(pilot)[region.y : region.bottom]]


def selected(screen: DagScreen) -> object:
    place = screen.lines.selected
    return None if place is None else place.step


async def stand_on(pilot: Pilot[int], screen: DagScreen, summary_id: str) -> None:
    """Put the cursor on the first row of a summary and wait for its detail."""
    place = next(place for place in screen.lines.keys if place.step == summary_id)
    screen.lines.select(place)
    await settled(pilot)


@pytest.mark.long
async def test_the_broken_ones_are_counted_where_they_are_folded_and_gone_to(database_file: DatabaseFactory):
    async with open_app(database_file("0.15.3"), size=NARROW) as pilot:
        await pilot.press("s")
        await wait_for(pilot, lambda: at(pilot.app.screen, "Summary DAG"))
        screen = pilot.app.screen
        assert isinstance(screen, DagScreen)
        await wait_for_text(pilot, "  4 below")
        stops = []
        for key in ("exclamation_mark", "n", "n", "n"):
            await pilot.press(key)
            await settled(pilot)
            row = row_of(pilot, str(screen.lines.summary)[:12])
            assert "✗" in row
            assert " 2026-03-0" in row, "the time that it covers"
            assert row.startswith("│"), "a guide for each level above"
            assert f"broken {len(stops) + 1} of 4" in shown_lines(pilot)[0]
            stops.append(screen.lines.summary)
        assert len(set(stops)) == 4
        assert "below" not in "".join(rows(pilot)), "what is unfolded hides nothing"
        await pilot.press("n")
        await settled(pilot)
        assert screen.lines.summary == stops[0]
        await wait_for_text(pilot, "Back at the first match.")
        await pilot.press("N")
        await settled(pilot)
        assert screen.lines.summary == stops[3]

        await pilot.press("N", "N")
        await settled(pilot)
        assert "▌" not in shown_lines(pilot)[0], "what was said of the step before is gone"
        for key, place in (("n", 2), ("exclamation_mark", 3), ("N", 2)):
            await settled(pilot)
            await pilot.press("escape", "s")
            await settled(pilot)
            await pilot.press(key)
            await wait_for_text(pilot, f"broken {place + 1} of 4")
            screen = pilot.app.screen
            assert isinstance(screen, DagScreen)
            assert screen.lines.summary == stops[place], "it goes on where the cursor was left"

        await pilot.press("z", "slash", *"broken", "enter")
        await settled(pilot)
        assert "✗" in row_of(pilot, str(screen.lines.summary)[:12])
        found = {screen.lines.summary}
        for _ in range(3):
            await pilot.press("n")
            await settled(pilot)
            found.add(screen.lines.summary)
        assert found >= set(stops)


@pytest.mark.cases(1)
@pytest.mark.parametrize("size", [(60, 15), NARROW, WIDE])
async def test_an_id_is_as_short_as_tells_it_from_others(
    database_file: DatabaseFactory, size: tuple[int, int]
):
    async with dag_of(database_file("0.15.3-damaged"), size=size) as (pilot, screen):
        await stand_on(pilot, screen, BROKEN_BELOW)
        await pilot.press("enter", "j", "enter")
        await settled(pilot)
        width = screen.lines.known.columns(screen.lines.size.width).widths[0]
        ids = [row[:width].rstrip() for row in rows(pilot) if "sum_" in row[:width]]
        assert {row.count("│") for row in ids} >= {1, 2}
        for row in ids:
            assert len(row[row.index("sum_") :]) == len("sum_01234567"), row


async def test_what_is_broken_and_what_it_hides_stand_in_one_column(database_file: DatabaseFactory):
    async with dag_of(database_file("0.15.3-damaged"), size=NARROW) as (pilot, screen):
        await stand_on(pilot, screen, BROKEN_BELOW)
        await pilot.press("enter", "j", "enter", "j")
        await wait_for_text(pilot, "✗ +2 below", "  5 below")
        column = shown_lines(pilot)[1].index("broken")
        marks = [row[column : column + 11].rstrip() for row in rows(pilot)]
        assert {"✗ +2 below", "  5 below", "✗ fallback"} <= {*marks}, "itself and below, below, itself"


@pytest.mark.long
async def test_what_a_repair_mends_is_no_longer_counted(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    async with dag_of(path, size=NARROW) as (pilot, screen):
        await wait_for_text(pilot, "  4 below")
        await pilot.press("exclamation_mark")
        await settled(pilot)
        change(path, f"UPDATE summaries SET content = 'sound' WHERE summary_id = '{screen.lines.summary}'")
        await wait_for_text(pilot, "broken 3 ", "  2 below")


# -- rows -------------------------------------------------------------------------------------------------


@pytest.mark.long
async def test_the_first_rows_are_the_roots_in_the_order_of_the_context(database_file: DatabaseFactory):
    async with dag_of(database_file("0.15.3")) as (pilot, screen):
        assert steps(screen) == ROOTS[::-1]
        mark, name, *more = row_of(pilot, ROOTS[0]).split()
        assert (mark, name[:8]) == ("▸", "sum_bb69")
        assert more[:7] == ["D2", "201", "7", "2026-03-04", "10:11", "3", "Note"]
        assert "63 summaries" in shown_lines(pilot)[0]


@pytest.mark.parametrize("size", sampled([NARROW, MIDDLING, WIDE], [NARROW]))
async def test_a_row_says_how_its_summary_begins_at_every_width(
    database_file: DatabaseFactory, size: tuple[int, int]
):
    path = database_file("0.15.3")
    [(content,)] = query(path, "SELECT content FROM summaries WHERE summary_id = ?", ROOTS[0])
    begins = safe_line(gist(str(content)))[:11]
    async with open_app(path, size=size) as pilot:
        screen = await go_to(pilot, DagScreen(conversation(pilot, 1)))
        await wait_for(pilot, lambda: ROOTS[0] in screen.lines.known.entries)
        await wait_for_text(pilot, begins)
        [row] = [line for line in shown_lines(pilot) if line.startswith(f"▸ {ROOTS[0][:8]}")]
        assert begins in row


@pytest.mark.parametrize("width", range(79, 240, 4))
def test_the_beginning_of_a_summary_is_the_last_column_to_go(width: int):
    layout = columns_for(width)
    shown_at = dict(zip((column.name for column in layout.columns), layout.widths, strict=True))
    assert sum(layout.widths) + len(layout.widths) - 1 == width
    assert shown_at["preview"] >= 12
    assert shown_at.keys() >= {"tree", "depth", "tokens", "context", "broken"}
    assert "time" in shown_at or shown_at["preview"] < 31, "the time has a place before more of the text"


@pytest.mark.long
async def test_rows_unfold_leaf_by_leaf(database_file: DatabaseFactory):
    async with dag_of(database_file("0.15.3-damaged")) as (pilot, screen):
        await wait_for_text(pilot, f"▸ {ROOTS[0][:8]}", "broken", "Orphans", ORPHAN[:8])
        await pilot.press("enter")
        await wait_for_text(pilot, f"▾ {ROOTS[0][:8]}", f"▸ {D1[:8]}")
        await pilot.press("l")
        await wait_for(pilot, lambda: selected(screen) == D1, "the first source")
        await pilot.press("enter")
        await wait_for_text(pilot, f"▾ {D1[:8]}", "11 msg")
        await pilot.press("j")
        await wait_for(pilot, lambda: selected(screen) == LEAF, "the leaf")
        await pilot.press("l")
        await wait_for(pilot, lambda: any(isinstance(step, int) for step in steps(screen)), "messages")
        assert selected(screen) == LEAF


@pytest.mark.long
async def test_what_it_holds_is_styled_when_it_is_mounted_and_not_again(
    database_file: DatabaseFactory, monkeypatch: pytest.MonkeyPatch
):
    styled: list[DOMNode] = []
    update_styles = LcmApp.update_styles

    def counted(app: LcmApp, node: DOMNode, animate: bool = True) -> None:
        styled.append(node)
        update_styles(app, node, animate)

    monkeypatch.setattr(LcmApp, "update_styles", counted)
    async with dag_of(database_file("0.15.3")) as (pilot, screen):
        panes = screen.query_one(TwoPanes)
        assert panes.styles.layout.name == "horizontal"
        await resize(pilot, 80, 24)
        await wait_for(pilot, lambda: panes.styles.layout.name == "vertical", "the layout of the new width")
        assert screen not in styled


@pytest.mark.long
async def test_opening_reads_as_little_of_a_large_graph_as_of_a_small_one(database_copy: DatabaseFactory):
    counts = []
    for more in (0, 3_000):
        path = database_copy("0.15.3")
        leaves = [f"sum_more{number}" for number in range(more)]
        change(path, *(making(name, kind="leaf", depth=0) for name in leaves), *(
            edge(ROOTS[3], name, 100 + number) for number, name in enumerate(leaves)
        ))  # fmt: skip
        async with open_app(path, size=NARROW) as pilot:
            database = pilot.app.session.database
            await settled(pilot)
            before = database.statements
            screen = await go_to(pilot, DagScreen(conversation(pilot, 1)))
            await wait_for(pilot, lambda screen=screen: screen.lines.surveyed.is_set())
            await settled(pilot)
            counts.append(database.statements - before)
            await pilot.press("Z", "Z")
            assert len(screen.lines.keys) == 63 + more
    # Behind the rows all texts are read, a hundred at a time. Work beside the keys may come a statement
    # before or behind; ids asked for in parts would be six more.
    assert counts[0] < 60
    assert counts[1] - counts[0] < 3 * 3_000 // 100 + 20


@pytest.mark.long
async def test_all_summaries_can_be_seen_and_broken_ones_say_how(database_file: DatabaseFactory):
    path = database_file("0.15.3-damaged")
    changes = json.loads((DATA / "lcm-0.15.3-damaged.changes.json").read_text())
    edited = {change["summary_id"] for change in changes if "summary_id" in change}
    kinds = {
        summary_id: classify(content, model)
        for summary_id, content, model in query(path, "SELECT summary_id, content, model FROM summaries")
    }
    checked: set[str] = set()
    async with open_app(path, size=(80, 140)) as pilot:
        owners = query(path, "SELECT summary_id, conversation_id FROM summaries")
        for owner in sorted({owner for summary_id, owner in owners if summary_id in edited}):
            screen = await go_to(pilot, DagScreen(conversation(pilot, owner)))
            await wait_for(pilot, lambda screen=screen: screen.lines.surveyed.is_set())
            await pilot.press("Z", "Z")
            await settled(pilot)
            made = query(path, "SELECT summary_id FROM summaries WHERE conversation_id = ?", owner)
            seen = rows(pilot)
            for [summary_id] in made:
                [row] = [row for row in seen if f" {summary_id[:8]}" in row]
                assert ("✗" in row) == (kinds[summary_id] is not None)
                assert (kinds[summary_id] or "").lower() in row
                checked.add(summary_id)
            await pilot.press("escape")
    assert checked >= edited
    assert {kinds[summary_id] for summary_id in edited} == {
        "old", "fallback", "truncated", "emergency", "empty", None,
    }  # fmt: skip


@pytest.mark.long
async def test_a_leaf_without_messages_says_so(database_file: DatabaseFactory):
    bare = "sum_150d597631f19e3a"
    path = database_file("0.15.3-damaged")
    [[owner]] = query(path, "SELECT conversation_id FROM summaries WHERE summary_id = ?", bare)
    async with dag_of(path, owner, select=bare) as (pilot, _):
        assert "no source" in row_of(pilot, bare)
        assert "▸" not in row_of(pilot, bare)
        await pilot.press("enter")
        await wait_until_said(pilot, "no source of it is recorded")


@pytest.mark.long
async def test_eighty_columns_keep_what_matters(database_file: DatabaseFactory):
    async with dag_of(database_file("0.15.3-damaged"), select="sum_06d84ef9c70348dc", size=NARROW) as (
        pilot,
        screen,
    ):
        row = row_of(pilot, "sum_06d84ef9").split()
        at_id = next(place for place, word in enumerate(row) if word.startswith("sum_06d8"))
        assert row[at_id + 1 : at_id + 4] == ["leaf", "243", "2026-03-02"]
        assert "truncated" in row
        await stand_on(pilot, screen, ROOTS[0])
        beginning = row_of(pilot, "sum_bb692ab9").split()[:8]
        assert beginning == ["▸", "sum_bb692ab9", "D2", "201", "2026-03-04", "10:11", "3", "Note"]


@pytest.mark.long
async def test_a_conversation_without_summaries_says_so(database_copy: DatabaseFactory):
    path = database_copy("0.1.2")
    change(path, "DELETE FROM summaries WHERE conversation_id = 1",
           "DELETE FROM context_items WHERE conversation_id = 1")  # fmt: skip
    async with dag_of(path) as (pilot, screen):
        assert "This conversation has no summaries." in shown(pilot)
        await pilot.press("enter", "Z", "z", "h", "l", "O", "y", "p")
        assert not screen.lines.keys


# -- damage -----------------------------------------------------------------------------------------------


@pytest.mark.long
async def test_orphans_cycles_and_dangling_ids_stand_under_headings(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    change(
        path,
        making("sum_orphan"),
        making("sum_ring_a"),
        making("sum_ring_b"),
        making("sum_under", kind="leaf", depth=0),
        edge("sum_ring_a", "sum_ring_b"),
        edge("sum_ring_b", "sum_ring_a"),
        edge("sum_ring_b", "sum_under", 1),
        making("sum_self"),
        edge("sum_self", "sum_self"),
        edge(ROOTS[0], "sum_gone", 9),
        """INSERT INTO context_items (conversation_id, ordinal, item_type, summary_id)
        VALUES (1, 77, 'summary', 'sum_lost')""",
    )
    async with dag_of(path) as (pilot, screen):
        assert [row_of(pilot, word).split()[-1] for word in ("Orphans:", "Cycles:", "Dangling:")] == [
            "1",
            "4",
            "2",
        ]
        assert steps(screen)[:4] == ROOTS[::-1]
        await pilot.press("Z", "Z", "G")
        await settled(pilot)
        text = shown(pilot)
        for name in ("sum_orphan", "sum_ring_a", "sum_ring_b", "sum_under", "sum_self", "sum_lost"):
            assert name in text
        assert len([row for row in rows(pilot) if "↺ cycle" in row]) == 2
        assert row_of(pilot, "sum_lost").split()[2:] == ["77", "✗", "no", "row"]
        assert all("✗ no row" in row for row in rows(pilot) if "sum_gone" in row)
        place = next(place for place in screen.lines.keys if place.repeats)
        screen.lines.select(place)
        await pilot.press("enter")
        await wait_for(pilot, lambda: any("this is a cycle" in note.lower() for note in said(pilot)))
        await stand_on(pilot, screen, "sum_lost")
        await wait_for_text(pilot, "the context, at ordinal 77")


@pytest.mark.long
async def test_what_stands_in_the_context_is_counted_wherever_the_tree_shows_it(
    database_copy: DatabaseFactory,
):
    path = database_copy("0.1.2")
    with closing(sqlite3.connect(path)) as connection, connection:
        # As after a dissolve that keeps the node: a source of it stands in its place.
        connection.execute(
            "UPDATE context_items SET summary_id = 'sum_7dc016c8a6559683' WHERE summary_id = "
            "'sum_85caef5485c9308d'"
        )
    async with open_app(path, size=WIDE) as pilot:
        await go_to(pilot, DagScreen(conversation(pilot, 5)))
        await wait_for_text(pilot, "13 summaries · 3 in the context")


@pytest.mark.long
async def test_many_orphans_are_folded_and_few_are_not(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    change(path, *(making(f"sum_orphan{number}") for number in range(40)))
    async with dag_of(path) as (pilot, screen):
        assert row_of(pilot, "Orphans:").split()[-1] == "40"
        assert len(screen.lines.keys) == 5
        await pilot.press("G", "enter")
        assert len(screen.lines.keys) == 45
        assert steps(screen)[5] == "sum_orphan0", "the oldest first"


@pytest.mark.long
async def test_without_a_context_everything_is_unfolded_at_the_margin(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    change(path, "DELETE FROM context_items WHERE conversation_id = 1")
    async with dag_of(path) as (_, screen):
        assert steps(screen)[1:] == query_ids(path, ROOTS)


def query_ids(path: Path, ids: Iterable[str]) -> list[str]:
    """Ids in the order in which their rows were made."""
    return [name for [name] in query(path, "SELECT summary_id FROM summaries ORDER BY rowid") if name in ids]


@pytest.mark.long
async def test_a_summary_of_another_conversation_is_named_with_it(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    [[foreign]] = query(path, "SELECT summary_id FROM summaries WHERE conversation_id = 8 LIMIT 1")
    change(path, edge(ROOTS[0], foreign, 9))
    async with dag_of(path) as (pilot, screen):
        await pilot.press("Z")
        await stand_on(pilot, screen, foreign)
        found = [row for row in rows(pilot) if foreign[:8] in row and "✗ conv 8" in row]
        assert len(found) == 2, "below its consumer, and under the heading"


@pytest.mark.long
async def test_ten_thousand_levels_open_unfold_and_fold(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    ids = [f"sum_{number:016x}" for number in range(10_000)]
    change(path, *map(making, ids), *(edge(*pair) for pair in zip(ids[1:], ids, strict=False)))
    async with dag_of(path, select=ids[0]) as (pilot, screen):
        assert selected(screen) == ids[0]
        assert row_of(pilot, "10000·").split()[:2] == ["10000·", "sum_000000000000…"]
        assert len(screen.lines.keys) > 10_000
        await pilot.press("z")
        assert len(screen.lines.keys) == 5
        await pilot.press("Z")
        assert len(screen.lines.keys) == 10_005


# -- moving -----------------------------------------------------------------------------------------------


async def test_keys_fold_unfold_and_lead_to_the_consumer(database_file: DatabaseFactory):
    async with dag_of(database_file("0.15.3")) as (pilot, screen):
        await pilot.press("l", "l")
        assert selected(screen) == D1
        await pilot.press("l", "l", "l")
        await settled(pilot)
        assert selected(screen) == LEAF
        [below] = [place for place in screen.lines.keys if place.step == LEAF]
        assert sum(place.above is below for place in screen.lines.keys) == 11
        await pilot.press("h")
        assert LEAF in steps(screen)
        assert not any(isinstance(step, int) for step in steps(screen))
        await pilot.press("h")
        assert selected(screen) == D1
        await pilot.press("h", "h")
        assert selected(screen) == ROOTS[0]
        await pilot.press("h")
        assert steps(screen) == ROOTS[::-1]
        await pilot.press("l", "j")
        assert D1 in steps(screen)


@pytest.mark.long
async def test_z_folds_all_and_capital_z_unfolds_below_and_then_everywhere(database_file: DatabaseFactory):
    async with dag_of(database_file("0.15.3")) as (pilot, screen):
        await pilot.press("Z")
        assert len(screen.lines.keys) == len(ROOTS) + 7
        await pilot.press("Z")
        assert len(screen.lines.keys) == 63
        await pilot.press("G", "Z")
        await settled(pilot)
        assert any(isinstance(step, int) for step in steps(screen)), "a leaf shows its messages"
        await pilot.press("z")
        assert steps(screen) == ROOTS[::-1]
        assert selected(screen) == ROOTS[0], "the cursor goes out to where it was below"


@pytest.mark.long
async def test_enter_on_a_message_opens_the_conversation_there(database_file: DatabaseFactory):
    async with dag_of(database_file("0.15.3"), select=LEAF) as (pilot, screen):
        await pilot.press("l")
        await settled(pilot)
        await pilot.press("l", "j")
        await settled(pilot)
        message = screen.lines.known.message_of(screen.lines.selected)
        assert message is not None
        assert message.message is not None
        assert f"#{message.message.seq} {message.message.role}" in shown(pilot)
        assert screen.selected_id() == str(message.message_id)
        await pilot.press("enter")
        await wait_for(pilot, lambda: at(pilot.app.screen, "Conversation "))
        await wait_for(pilot, lambda: pilot.app.screen.messages.selected == message.message.seq)
        await pilot.press("escape")
        assert pilot.app.screen is screen


@pytest.mark.long
async def test_a_selected_summary_is_unfolded_to(database_file: DatabaseFactory):
    async with dag_of(database_file("0.15.3"), select=LEAF) as (pilot, screen):
        assert selected(screen) == LEAF
        await wait_for_text(pilot, f"▾ {ROOTS[0][:8]}", f"▾ {D1[:8]}", f"▸ {LEAF[:8]}")


@pytest.mark.long
async def test_summaries_of_any_depth_can_be_stood_on(database_file: DatabaseFactory):
    path = database_file("0.1.2")
    ids = query(path, "SELECT summary_id FROM summaries WHERE conversation_id = 1 ORDER BY rowid")
    async with open_app(path) as pilot:
        for [summary_id] in ids[::30]:
            screen = await go_to(pilot, DagScreen(conversation(pilot, 1), select=summary_id))
            await wait_for(pilot, lambda screen=screen: screen.lines.surveyed.is_set())
            await wait_for(pilot, lambda screen=screen, wanted=summary_id: selected(screen) == wanted)
            await pilot.press("escape")


@pytest.mark.long
async def test_a_summary_that_is_not_here_is_said_to_be_missing(database_file: DatabaseFactory):
    async with dag_of(database_file("0.15.3"), select="sum_nowhere") as (pilot, screen):
        await wait_for(pilot, lambda: said(pilot) == ["sum_nowhere is not in this conversation."])
        assert selected(screen) == ROOTS[3]


@pytest.mark.long
async def test_a_summary_in_two_places_is_marked_and_o_goes_round_them(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    other = "sum_698811c2167466f4"
    change(path, edge(other, LEAF, 9))
    async with dag_of(path, select=LEAF) as (pilot, screen):
        assert re.search(rf"{LEAF[:12]}\w* ×2", shown(pilot))
        first = screen.lines.selected
        await pilot.press("O")
        second = screen.lines.selected
        assert first is not None
        assert second is not None
        assert (first.step, first.above.step) == (LEAF, other)
        assert (second.step, second.above.step) == (LEAF, D1)
        await pilot.press("O")
        assert screen.lines.selected is first
        await pilot.press("h", "O")
        await wait_until_said(pilot, "it appears nowhere else")


@pytest.mark.long
async def test_previous_context_is_shown_for_leaves_and_refused_above(database_file: DatabaseFactory):
    async with dag_of(database_file("0.15.3"), select=LEAF) as (pilot, screen):
        await pilot.press("p")
        await wait_for(pilot, lambda: at(pilot.app.screen, "Previous context"))
        await pilot.press("escape")
        await wait_for(pilot, lambda: pilot.app.screen is screen)
        await stand_on(pilot, screen, ROOTS[0])
        await pilot.press("p")
        await wait_until_said(pilot, "Only leaves are written with a previous context")
        await pilot.press("y", "y")
        await wait_until_said(pilot, f"Copied {ROOTS[0]}")
        assert pilot.app.clipboard == ROOTS[0]


@pytest.mark.long
async def test_the_context_opens_at_the_nearest_consumer_that_it_holds(database_file: DatabaseFactory):
    async with dag_of(database_file("0.15.3"), select=LEAF) as (pilot, screen):
        await pilot.press("c")
        await wait_for(pilot, lambda: at(pilot.app.screen, "Context "))
        await wait_for(pilot, lambda: pilot.app.screen.selected_id() == ROOTS[0])
        await pilot.press("escape")
        await wait_for(pilot, lambda: pilot.app.screen is screen)
        await pilot.press("f")
        await wait_for(pilot, lambda: at(pilot.app.screen, "Files of"))


# -- the detail -------------------------------------------------------------------------------------------


@pytest.mark.long
async def test_the_detail_has_the_text_and_everything_recorded(database_file: DatabaseFactory):
    path = database_file("0.15.3")
    async with dag_of(path, select=D1) as (_, screen):
        [[content]] = query(path, "SELECT content FROM summaries WHERE summary_id = ?", D1)
        text = screen.text.text
        assert all(word in text for word in content.split())
        for said_so in ("claude-haiku-4-5", "Sources (2)", "Consumers (1)", "Messages (0)", ROOTS[0], LEAF):
            assert said_so in text
        assert "not recorded by this version" not in text


@pytest.mark.long
async def test_what_a_version_did_not_record_is_said_so(database_file: DatabaseFactory):
    path = database_file("0.1.2")
    [[summary_id]] = query(path, "SELECT summary_id FROM summaries WHERE conversation_id = 1 LIMIT 1")
    async with dag_of(path, select=summary_id) as (pilot, screen):
        lines = {line.split("  ")[0]: line for line in screen.text.text.split("\n")}
        assert "not recorded by this version" in lines["model"]
        assert "not recorded by this version" in lines["tokens below"]
        assert "not recorded" not in lines["summaries below"]
        assert " – " in row_of(pilot, summary_id) or not screen.query_one("#heading").size.width > 120


@pytest.mark.long
async def test_moving_loads_the_detail_and_keeps_the_old_one_until_then(
    database_file: DatabaseFactory, monkeypatch: pytest.MonkeyPatch
):
    release = asyncio.Event()
    summary_detail = store.summary_detail

    async def late(reader: Any, summary_id) -> Any:
        if summary_id != ROOTS[0]:
            await release.wait()
        return await summary_detail(reader, summary_id)

    monkeypatch.setattr(store, "summary_detail", late)
    async with dag_of(database_file("0.15.3"), select=ROOTS[0]) as (pilot, screen):
        assert ROOTS[0] in screen.text.text
        await pilot.press("k", "k")
        assert selected(screen) == ROOTS[2]
        await pilot.pause(0.2)
        assert ROOTS[0] in screen.text.text
        release.set()
        await wait_for(pilot, lambda: screen.text.text.startswith(f"D3 {ROOTS[2]}"))


@pytest.mark.long
async def test_tab_goes_to_the_detail_and_back(database_file: DatabaseFactory):
    async with dag_of(database_file("0.15.3"), size=NARROW) as (pilot, screen):
        await pilot.press("tab")
        assert screen.text.has_focus
        await pilot.press("G")
        assert selected(screen) == ROOTS[0]
        await wait_for_text(pilot, "Files (0)")
        await pilot.press("tab")
        assert screen.lines.has_focus
        await pilot.press("tab", "escape")
        assert screen.lines.has_focus
        assert pilot.app.screen is screen


@pytest.mark.long
async def test_the_detail_stands_beside_the_tree_when_there_is_room(database_file: DatabaseFactory):
    async with dag_of(database_file("0.15.3")) as (pilot, screen):
        assert screen.text.region.x > screen.lines.region.right - 2
        await pilot.resize_terminal(*NARROW)
        await wait_for(pilot, lambda: screen.text.region.y > screen.lines.region.bottom - 1)
        assert screen.text.region.x == 0


@pytest.mark.long
async def test_messages_are_shown_whole(database_file: DatabaseFactory):
    path = database_file("0.15.3")
    async with dag_of(path, select=LEAF) as (pilot, screen):
        await pilot.press("l")
        await settled(pilot)
        await pilot.press("l")
        await settled(pilot)
        message_id = selected(screen)
        [[content, seq]] = query(path, "SELECT content, seq FROM messages WHERE message_id = ?", message_id)
        assert screen.text.text.startswith(f"#{seq} ")
        assert all(word in screen.text.text for word in content.split())
        assert LEAF in screen.text.text, "what it was made into"


# -- searching --------------------------------------------------------------------------------------------


@pytest.mark.long
async def test_search_finds_texts_that_no_row_has_shown(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    wanted = ["sum_9b0d9711f58502c7", "sum_4143665fb47a089a"]
    change(path, *(
        f"UPDATE summaries SET content = content || ' a NEEDLE here' WHERE summary_id = '{name}'"
        for name in wanted
    ))  # fmt: skip
    async with dag_of(path) as (pilot, screen):
        await pilot.press("slash", *"needle", "enter")
        await wait_for(pilot, lambda: selected(screen) == wanted[0])
        await wait_for_text(pilot, "/needle 1 of 2")
        await pilot.press("n")
        await wait_for(pilot, lambda: selected(screen) == wanted[1])
        await wait_for_text(pilot, "/needle 2 of 2")
        await pilot.press("n")
        assert selected(screen) == wanted[0], "round the end"
        await pilot.press("N")
        assert selected(screen) == wanted[1]
        await pilot.press("slash", *"nothing like it", "enter")
        await wait_until_said(pilot, "No summary here contains “nothing like it”.")
        assert selected(screen) == wanted[1]


@pytest.mark.long
async def test_search_finds_ids_models_failures_and_messages(database_file: DatabaseFactory):
    async with dag_of(database_file("0.15.3-damaged"), select=LEAF) as (pilot, screen):
        await pilot.press("l")
        await settled(pilot)
        message = screen.lines.known.messages[LEAF]
        seq = list(message.values())[4].message.seq
        await pilot.press("slash", *f"#{seq}", "enter")
        await wait_for(pilot, lambda: selected(screen) == list(message)[4])
        await pilot.press("slash", *"07742015", "enter")
        await wait_for(pilot, lambda: selected(screen) == ROOTS[1])


@pytest.mark.long
async def test_search_in_the_text_leaves_the_tree_alone(database_file: DatabaseFactory):
    async with dag_of(database_file("0.15.3"), size=NARROW) as (pilot, screen):
        await pilot.press("tab", "slash", *"Sources (2)", "enter")
        await wait_for(pilot, lambda: screen.text.scroll_offset.y > 0)
        assert screen.text.has_focus
        assert selected(screen) == ROOTS[0]
        assert "Sources (2)" in shown(pilot)


# -- live -------------------------------------------------------------------------------------------------


@pytest.mark.long
async def test_a_condensation_moves_roots_and_takes_selection_and_unfolding_with_them(
    database_copy: DatabaseFactory,
):
    path = database_copy("0.15.3")
    with Host(path) as host:
        async with dag_of(path) as (pilot, screen):
            await pilot.press("l", "j", "l", "j")
            await settled(pilot)
            assert selected(screen) == LEAF
            host.write(
                (making("sum_condensed", "all of it", depth=3), []),
                *((edge("sum_condensed", root, number), []) for number, root in enumerate(ROOTS[:2])),
                ("DELETE FROM context_items WHERE conversation_id = 1 AND ordinal IN (2, 3)", []),
                (
                    """INSERT INTO context_items (conversation_id, ordinal, item_type, summary_id)
                    VALUES (1, 2, 'summary', 'sum_condensed')""",
                    [],
                ),
            )
            await wait_for(pilot, lambda: steps(screen)[2] == "sum_condensed")
            assert {place.step for place in screen.lines._fresh} == {"sum_condensed"}
            assert selected(screen) == LEAF
            assert steps(screen)[2:6] == ["sum_condensed", ROOTS[0], D1, LEAF]
            await wait_for_text(pilot, "64 summaries", " 2 ", "D3")


@pytest.mark.long
async def test_a_message_changes_no_row_and_a_new_text_shows(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    with Host(path) as host:
        async with dag_of(path, select=LEAF) as (pilot, screen):
            survey, keys = screen.lines.known.survey, screen.lines.keys
            host.say(1, "hello")
            await wait_for_text(pilot, "changed")
            await settled(pilot)
            assert screen.lines.known.survey is survey
            assert screen.lines.keys is keys
            host.write(
                (
                    "UPDATE summaries SET content = 'quite another text', token_count = 5 "
                    f"WHERE summary_id = '{LEAF}'",
                    [],
                )
            )
            await wait_for_text(pilot, "quite another text")
            await wait_for(pilot, lambda: " 5 11 msg" in " ".join(row_of(pilot, f"▸ {LEAF[:8]}").split()))


# -- text is data -----------------------------------------------------------------------------------------


@pytest.mark.long
async def test_hostile_texts_and_ids_shift_no_column(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    nasty = "\x1b[31m[/red]\u202eevil\t\x07" + "語" * 40 + "\n" + "x" * 100_000
    change(path, making("sum_[/bold]\x1b]0;t\x07", nasty), making("sum_plain", "fine"))
    change(path, f"UPDATE summaries SET model = '[red]\x1b[2J\u202e' WHERE summary_id = '{ROOTS[0]}'")
    for size in (WIDE, NARROW):
        async with dag_of(path, size=size) as (pilot, screen):
            await pilot.press("G")
            await settled(pilot)
            await pilot.press("k")
            await settled(pilot)
            text = shown(pilot)
            assert not any(char in text for char in "\x1b\x07\u202e")
            assert "␛[31m[/red]" in screen.text.text
            plain, strange = row_of(pilot, "sum_plain"), row_of(pilot, "sum_[/bold]")
            assert plain.index(" D1 ") == strange.index(" D1 ")
            assert all(strip.cell_length == size[0] for strip in screen._compositor.render_strips())
