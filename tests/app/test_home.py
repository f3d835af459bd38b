"""The panel above the first list: what it says, what it reads, and where its lines lead."""

from __future__ import annotations

import asyncio
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from lcm_core.api import Confidence, Database, plan_archive, plan_undo_batch
from lcm_core.base.values import replace
from lcm_core.change.commit import commit
from lcm_core.store.remembered import Verdict
from textual.pilot import Pilot
from textual.screen import ModalScreen

from lcm_tui.kit.spans import Span
from lcm_tui.screens import conversation_panel as reading
from lcm_tui.screens.preview import PlanScreen
from lcm_tui.tables.conversation_rows import cells_of, troubles, words_of
from lcm_tui.tables.home import Changed, Filled, Outlook, PanelKey, Sized, Subject, panel_keys, panel_line
from tests.app.support import (
    NARROW,
    WIDE,
    at,
    first_screen,
    open_app,
    settled,
    shown,
    shown_lines,
    wait_for,
    wait_for_text,
    wait_until_said,
)
from tests.conftest import DatabaseFactory
from tests.databases import damage_table
from tests.operations.test_rewrite import above, deep, rewritten


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    ("version", "size", "labels", "texts"),
    [
        (
            "0.15.3-damaged",
            NARROW,
            ["database", "broken", "context", "disk"],
            [
                "lcm.db  ✗ 9 findings ? 4 suspicious  quick check, H runs all ",
                "✗ 23 broken summaries in 6 conversations",
                "2.6 % of 128k",  # as in the column "of budget"
                "564.7 KB 49% of texts",
            ],
        ),
        (
            "1.1-later",
            NARROW,
            ["database", "engine", "context", "disk"],
            ["? 3 suspicious  LCM 1.1.1 or later  quick check ", "5 conversations: a worker died "],
        ),
        (
            "0.15.3-damaged",
            WIDE,
            ["database", "broken", "context"],
            ["49% of texts", "16% of texts", "12% of texts", "2.6 % of 128k", "1.8 % of 128k"],
        ),
    ],
)
async def test_the_panel_says_what_needs_a_look_and_the_urgent_first(
    version: str,
    size: tuple[int, int],
    labels: list[str],
    texts: list[str],
    database_file: DatabaseFactory,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(reading, "FIRST_SECONDS", 0.001)
    async with open_app(database_file(version), size=size) as pilot:
        await verdict(pilot)
        lines = shown_lines(pilot)
        panel = lines[1 : next(row for row, line in enumerate(lines) if line.startswith("   id "))]
        assert [line.split()[0] for line in panel if not line.startswith("  ")] == labels
        for text in texts:
            assert text in "\n".join(panel)


@pytest.mark.cases(1)
@pytest.mark.parametrize("size", [(60, 15), NARROW, (100, 24), (160, 50)])
async def test_the_list_stays_where_it_is_and_no_verdict_is_cut(
    size: tuple[int, int], database_file: DatabaseFactory, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(reading, "FIRST_SECONDS", 0.001)
    heights: list[object] = []
    show = reading.Panel.show

    def noted(panel: reading.Panel, outlook: Outlook) -> None:
        show(panel, outlook)
        heights.append(panel.styles.height)

    monkeypatch.setattr(reading.Panel, "show", noted)
    async with open_app(database_file("0.15.3-damaged"), size=size) as pilot:
        await verdict(pilot)
        assert len(heights) > 3
        assert len({str(height) for height in heights[1:]}) == 1  # the first is of no size yet
        line = next(line for line in shown_lines(pilot) if line.startswith(" database"))
        said = line[: size[0] if size[0] < 130 else size[0] // 2].rstrip()
        assert "4 suspicious" in said
        assert "…" not in said
        assert said.endswith(" H")


@pytest.mark.cases(1)
@pytest.mark.parametrize("size", [NARROW, (160, 50)])
async def test_a_line_that_is_read_late_moves_none_below_it(
    size: tuple[int, int], database_file: DatabaseFactory, monkeypatch: pytest.MonkeyPatch
):
    places: dict[str, set[int]] = {}
    show = reading.Panel.show

    def noted(panel: reading.Panel, outlook: Outlook) -> None:
        show(panel, outlook)
        for view in (panel.lines, panel.beside):
            subjects = [key.subject.value for key in view.keys]
            for one in set(subjects):
                places.setdefault(one, set()).add(subjects.index(one))

    async def late(outlooker: reading.Outlooker) -> None:
        await asyncio.sleep(0.5)
        await read_engine(outlooker)

    read_engine = reading.Outlooker._read_engine
    monkeypatch.setattr(reading.Outlooker, "_read_engine", late)
    monkeypatch.setattr(reading.Panel, "show", noted)
    async with open_app(database_file("1.0-next"), size=size) as pilot:
        await wait_for_text(pilot, "engine ", "context ", "disk ", "5 conversations: ")
        await settled(pilot)
    assert {len(rows) for rows in places.values()} == {1}, places


@pytest.mark.parametrize("by_health", [False, True])
@pytest.mark.parametrize("width", range(58, 200, 7))
def test_a_verdict_says_at_every_width_that_the_file_has_changed_since(width: int, by_health: bool):
    verdict = Verdict(40, 0, 9, 4, 90, fixable=3, outdated=True, at=1.7e9, by_health=by_health)
    outlook = Outlook("a-long-name-of-a-database.db", "0.15.3+main or later", verdict=verdict)
    line = "".join(span.text for span in panel_line(outlook, PanelKey(Subject.STATE), width))
    assert len(line) == width
    assert re.search(r"9 findings \? 4 suspicious .*changed( since)?\)", line)


def test_that_a_verdict_is_of_the_quick_check_is_said_before_how_old_it_is():
    verdict = Verdict(40, 0, 9, 4, 90, outdated=True)
    line = panel_line(Outlook("a.db", "0.15.3", verdict=verdict), PanelKey(Subject.STATE), 76)
    assert "quick check  (changed since)" in "".join(span.text for span in line)
    verdict = Verdict(40, 0, 9, 4, 90)
    line = panel_line(Outlook("lcm.db", "0.15.3", verdict=verdict), PanelKey(Subject.STATE), 60)
    assert "9 findings ? 4 suspicious  quick " in "".join(span.text for span in line)


@pytest.mark.parametrize(
    ("engine", "shorter"),
    [("0.15.3+main or later", "0.15.3+"), ("1.0.0 or 1.1.0", "1.0.0+"), ("1.1.1 or later, new", "1.1.1+")],
)
def test_a_version_that_is_not_certain_stays_so_where_it_is_shortened(engine: str, shorter: str):
    outlook = Outlook("lcm.db", engine, verdict=Verdict(40, 0, 0, 0, 90, outdated=True))
    line = "".join(span.text for span in panel_line(outlook, PanelKey(Subject.STATE), 81))
    assert f"structure sound  LCM {shorter}  quick check  (changed since)" in line


# -- beside the list ---------------------------------------------------------------------------------------


@pytest.mark.long
async def test_a_wide_screen_says_of_the_selected_row_how_it_ended_what_is_wrong_and_what_to_press(
    database_file: DatabaseFactory, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(reading, "FIRST_SECONDS", 0.001)
    async with open_app(database_file("0.15.3-damaged"), size=(159, 50)) as pilot:
        await verdict(pilot)
        assert "Last exchange" not in shown(pilot), "no room"
        await pilot.resize_terminal(*WIDE)
        await wait_for_text(pilot, "Last exchange", "user  2026-03-04 12:10", "assistant  2026-03-04 12:11")
        await wait_for_text(
            pilot, "✗ 11 broken summaries: 5 fallback, 2 old, 2", "D14 negative counter", "? B17 source order"
        )
        await wait_for_text(
            pilot, "R     rewrites the broken summaries", "H     shows the findings and fixes"
        )
        await pilot.press(*"jj")  # conversation 6, in which nothing is wrong
        await wait_for_text(pilot, "nothing that the quick check or the counts show")
        assert "rewrites the broken summaries" not in shown(pilot)
        await pilot.press(*"jjj")  # conversation 7
        await wait_for(pilot, lambda: "broken summaries:" not in shown(pilot), "nothing broken in it")
        await pilot.resize_terminal(*NARROW)
        await wait_for(pilot, lambda: "What to press" not in shown(pilot), "the list alone")


async def test_a_session_on_disk_is_told_beside_the_list_with_its_keys(openclaw_home: Path):
    async with open_app(openclaw_home / "lcm.db", state_dir=openclaw_home) as pilot:
        listed = first_screen(pilot).list
        await wait_for(pilot, lambda: any(isinstance(key, str) for key in listed.table.keys), "a session")
        listed.table.select(next(key for key in listed.table.keys if isinstance(key, str)))
        await wait_for_text(pilot, "This session is not in the database.")


# -- in the app --------------------------------------------------------------------------------------------


async def verdict(pilot: Pilot[int]) -> None:
    await wait_for(pilot, lambda: first_screen(pilot).outlooker.outlook.verdict, "the verdict")
    await settled(pilot)


async def test_what_is_left_of_a_bar_is_its_track(database_file: DatabaseFactory):
    async with open_app(database_file("0.15.3"), size=NARROW) as pilot:
        await wait_for_text(pilot, "████ 5", "▏░░   1.7 %")


@pytest.mark.long
async def test_a_file_that_cannot_be_read_in_part_is_not_called_sound(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    damage_table(path, "message_parts")
    async with open_app(path, size=WIDE) as pilot:
        await wait_for_text(pilot, "✗ damaged: cannot be read in part", " unreadable ")
        rows = first_screen(pilot).list.rows.values()
        lost = [row for row in rows if row.unreadable]
        assert {words_of(troubles(row))[0] for row in lost} == {"unreadable"}
        cells = cells_of(lost[0], None)
        assert [cells[name].text for name in ("bytes", "share", "tokens")] == ["unreadable", "–", "–"]
        assert "structure sound" not in shown(pilot)


def test_the_count_of_broken_summaries_says_which_conversations_it_leaves_out():
    outlook = Outlook("lcm.db", "0.15.3", broken=5, broken_in=4, unreadable=3)
    said = "".join(span.text for span in panel_line(outlook, PanelKey(Subject.BROKEN), 80))
    assert "✗ 5 broken summaries in 4 conversations, 3 unreadable" in said


@pytest.mark.long
async def test_the_checks_are_asked_once_until_the_file_changes(
    database_copy: DatabaseFactory, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(reading, "FIRST_SECONDS", 0.001)
    monkeypatch.setattr(reading, "AGAIN_SECONDS", 0.0)
    asked: list[str] = []
    check = reading.Outlooker._check

    async def counted(outlooker: reading.Outlooker) -> None:
        asked.append("")
        await check(outlooker)

    monkeypatch.setattr(reading.Outlooker, "_check", counted)
    path = database_copy("0.15.3")
    async with open_app(path, size=NARROW) as pilot:
        await verdict(pilot)
        assert "✓ structure sound" in shown(pilot)
        await pilot.press("U")
        await wait_for(pilot, lambda: at(pilot.app.screen, "History"))
        await pilot.press("escape")
        await settled(pilot)
        assert len(asked) == 1
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("PRAGMA foreign_keys = OFF")
            connection.execute(
                "DELETE FROM summaries WHERE summary_id IN (SELECT max(summary_id) FROM context_items)"
            )
        await wait_for_text(pilot, "broken")
        await wait_for(pilot, lambda: len(asked) >= 2)


@pytest.mark.long
async def test_a_key_on_a_line_is_about_the_conversation_that_it_names(database_file: DatabaseFactory):
    async with open_app(database_file("0.15.3-damaged"), size=NARROW) as pilot:
        await wait_for_text(pilot, "23 broken summaries", "8 ops", "564.7 KB 49% of texts")
        await settled(pilot)
        await pilot.press("tab")
        await wait_for_text(pilot, "q List")  # it does not quit here
        await pilot.press("q")
        await wait_for(pilot, lambda: shown(pilot).endswith("q Quit"))
        await pilot.press("tab", "down", "down", "down")
        screen = first_screen(pilot)
        assert screen.panel.selected.ref == 3
        assert screen.selected_id() == "3"
        await pilot.press("c")
        await wait_for_text(pilot, "Context 3")


@pytest.mark.long
async def test_the_card_says_what_health_has_found_also_after_a_change(
    database_copy: DatabaseFactory, monkeypatch
):
    monkeypatch.setattr(reading, "FIRST_SECONDS", 0.001)
    monkeypatch.setattr(reading, "AGAIN_SECONDS", 0.0)
    monkeypatch.setattr(reading, "SHARE_OF_CHECKS", 0)
    path = database_copy("0.15.3-damaged")
    async with open_app(path, size=NARROW) as pilot:
        await verdict(pilot)
        assert "✗ 9 findings ? 4 suspicious  quick check" in shown(pilot)
        await pilot.press("H")
        await wait_for(pilot, lambda: at(pilot.app.screen, "Health of"))
        health = pilot.app.screen
        assert at(health, "Health of")
        await wait_for(pilot, lambda: not health.examiner.running and health.examiner.ended, "all checks")
        found = health.examiner.examination
        broken = found.count(Confidence.BROKEN) - found.broken_summaries
        await pilot.press("escape")
        assert f"✗ {found.broken_summaries} broken summaries" in shown(pilot), "in a line of their own"
        suspicious = found.count(Confidence.SUSPICIOUS)
        await wait_for_text(pilot, f"✗ {broken} findings ? {suspicious} suspicious")
        listed = first_screen(pilot).list
        troubled = {key: row.suspicious for key, row in listed.rows.items()}
        async with await Database.open(path) as database:
            commit(path, await database.read(plan_archive, [8]))
        await wait_for_text(
            pilot, f"✗ 9 findings ? 4 suspicious {broken + suspicious - 13} more when Health ran "
        )
        assert {key: row.suspicious for key, row in listed.rows.items()} == troubled


@pytest.mark.long
async def test_lines_lead_where_their_keys_lead(database_file: DatabaseFactory, monkeypatch):
    monkeypatch.setattr(reading, "FIRST_SECONDS", 0.001)
    async with open_app(database_file("0.15.3-damaged"), size=NARROW) as pilot:
        await verdict(pilot)
        first = first_screen(pilot)
        ways = {" database": "Health of", " broken": "Repair ", " context": "Context ", " disk": "Disk"}
        for label, place in ways.items():
            y = next(row for row, line in enumerate(shown_lines(pilot)) if line.startswith(label))
            await pilot.click(offset=(20, y))
            await wait_for(pilot, lambda place=place: at(pilot.app.screen, place))
            await settled(pilot)
            while pilot.app.screen is not first:
                await pilot.press("escape")
                await settled(pilot)


@pytest.mark.long
async def test_the_panel_shows_changes_and_u_undoes_one(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    async with await Database.open(path) as database:
        for number in (1, 2, 3):
            commit(path, await database.read(plan_archive, [number]))
    async with open_app(path, size=WIDE) as pilot:
        await settled(pilot)
        screen = first_screen(pilot)
        assert shown(pilot).count("Archive") == 3
        for pane in (screen.about, screen.panel and screen.panel.lines, screen.panel and screen.panel.beside):
            await pilot.press("tab")
            await wait_for(pilot, lambda pane=pane: pane is not None and pane.has_focus)
        await pilot.press("G", "u")
        await wait_for(pilot, lambda: isinstance(pilot.app.screen, PlanScreen))
        await wait_for_text(pilot, "Undo, conversation 1")


@pytest.mark.long
async def test_a_summary_of_a_replaced_text_is_counted_and_led_to(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    leaf = deep(path)
    middle, *more = above(path, leaf)
    async with await Database.open(path) as database, open_app(path, size=NARROW) as pilot:
        await settled(pilot)
        assert " stale " not in shown(pilot)
        await rewritten(database, leaf)
        await wait_for_text(
            pilot, " stale     ! 1 stale summary in conversation 1, made from a replaced text"
        )
        [line] = [one for one in shown_lines(pilot) if one.startswith(" stale ")]
        assert line.rstrip().endswith(" R")
        row = first_screen(pilot).list.rows[1]
        assert "1 stale summary" in words_of(troubles(row))
        await pilot.press("tab", "down", "down", "enter")
        await wait_for_text(pilot, "Repair the whole database", "summaries, 1 stale summary, all marked")
        await settled(pilot)
        assert pilot.app.screen.selected_id() == middle, "the broken ones are above it"
        assert "stale (made from a text that was replaced since)" in shown(pilot)
        await pilot.press("escape")
        await wait_for(pilot, lambda: pilot.app.screen is first_screen(pilot))
        await pilot.press("escape", "s")
        await wait_for(pilot, lambda: at(pilot.app.screen, "Summary DAG of 1"))
        await settled(pilot)
        stops = {}
        for key in ("exclamation_mark", "n", "n", "n", "n"):
            await pilot.press(key)
            await settled(pilot)
            said = next(one for one in shown_lines(pilot)[0].split(" · ") if " of " in one).split()[-4:]
            stops[" ".join(said)] = pilot.app.screen.selected_id()
        assert sorted(stops) == [*(f"broken {at} of 4" for at in (1, 2, 3, 4)), "stale 1 of 1"]
        assert stops["stale 1 of 1"] == middle
        await pilot.press("escape")
        for summary_id in (middle, *more):
            await rewritten(database, summary_id)
        await wait_for(pilot, lambda: " stale " not in shown(pilot))


@pytest.mark.long
async def test_what_was_undone_together_is_one_line_and_offers_no_undo(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    async with await Database.open(path) as database:
        for number in (1, 2):
            plan = await database.read(plan_archive, [number])
            commit(path, replace(plan, batch="batch-1"))
    async with open_app(path, size=NARROW) as pilot:
        await wait_for_text(pilot, "Archive: 2 changes of 2 conversations")
        assert [line.rstrip()[-1] for line in shown_lines(pilot) if line.startswith(" changes")] == ["u"]
        await pilot.press("u")
        await wait_for_text(pilot, "(1) with all of its batch: yes", "Undo, 2 conversations")
    async with await Database.open(path) as database:
        for plan in await database.read(plan_undo_batch, "batch-1"):
            commit(path, plan)
    async with open_app(path, size=NARROW) as pilot:
        await wait_for_text(pilot, "Undo: 2 changes")
        [line] = [line for line in shown_lines(pilot) if line.startswith(" changes")]
        assert line.rstrip().endswith(" U"), "an undo is not undone here: the history has the others"
        await pilot.press("u")
        await wait_until_said(pilot, "there is no change to undo")


def test_a_change_pushes_no_other_line_out_of_80x24():
    outlook = Outlook(
        "lcm.db",
        "0.15.3",
        broken=1,
        ingesting=(Span("✗ 1 message missing"),),
        sessions=3,
        nearest=[Filled(number, "main", 10, 100, 75) for number in (1, 2)],
        largest=[Sized(number, "main", 10) for number in (1, 2)],
    )
    most = next(most for height, most in reading.LINES if height <= NARROW[1])
    before = {key.subject for key in panel_keys(outlook, most)}
    changed = replace(outlook, changes=[Changed("op_1", "Archive", "03-02 15:36", True)])
    assert {key.subject for key in panel_keys(changed, most)} == before | {Subject.OPERATION}


async def test_an_empty_database_has_one_line(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA foreign_keys = OFF")
        connection.execute("DELETE FROM conversations")
    async with open_app(path, size=NARROW) as pilot:
        await wait_for_text(pilot, "no conversation yet")
        await settled(pilot)
        assert [line.split()[0] for line in shown_lines(pilot)[1:3]] == ["database", "id"]


@pytest.mark.long
async def test_quitting_asks_when_something_waits(database_file: DatabaseFactory):
    async with open_app(database_file("0.15.3")) as pilot:
        await settled(pilot)
        pilot.app.session.paid.keep("model", None, None)  # type: ignore[arg-type]
        await pilot.press("q")
        await wait_for(pilot, lambda: isinstance(pilot.app.screen, ModalScreen))
        await pilot.press("escape")
        await wait_for(pilot, lambda: at(pilot.app.screen, "Conversations"))
        assert pilot.app.return_code is None
        await pilot.press("q")
        await wait_for(pilot, lambda: isinstance(pilot.app.screen, ModalScreen))
        await pilot.press("q")
        await wait_for(pilot, lambda: pilot.app.return_code is not None)


# -- names -------------------------------------------------------------------------------------------------


async def test_no_two_conversations_have_the_same_name(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("DROP INDEX IF EXISTS conversations_active_session_key_idx")
        connection.execute(
            "UPDATE conversations SET session_key = 'agent:main:main', active = 0, title = NULL"
        )
        connection.execute("UPDATE conversations SET title = 'Ferry' WHERE conversation_id IN (2, 3)")
        connection.execute("UPDATE conversations SET title = 'Only one' WHERE conversation_id = 4")
        connection.execute("DELETE FROM messages WHERE conversation_id IN (5, 6)")
    async with open_app(path, size=NARROW) as pilot:
        await settled(pilot)
        names = [line[6:24] for line in shown_lines(pilot) if line[:5].strip().isdigit()]
        assert len(set(names)) == len(names) == 8
        for name in ("Only one ", "main  “", "Ferry  “", "main #5"):
            assert any(one.startswith(name) for one in names)
