"""The panel above the first list: what it says, what it reads, and where its lines lead."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest
from lcm_core.base.findings import Confidence
from lcm_core.base.records import ConversationId
from lcm_core.base.values import replace
from lcm_core.change.commit import commit
from lcm_core.change.undo import plan_undo_batch
from lcm_core.operations.prune import plan_archive
from lcm_core.store.database import Database
from lcm_core.store.remembered import Verdict
from textual.pilot import Pilot

from lcm_tui.flows.changes import Undoing, undoing_line
from lcm_tui.kit.dialogs import Question
from lcm_tui.kit.spans import Span, text_of
from lcm_tui.screens import conversation_panel as reading
from lcm_tui.screens.context import ContextScreen
from lcm_tui.screens.conversation_panel import PanelLines
from lcm_tui.screens.conversations import ConversationsScreen
from lcm_tui.screens.drafting import DraftingScreen
from lcm_tui.screens.health import HealthScreen
from lcm_tui.screens.history import HistoryScreen
from lcm_tui.screens.preview import PlanScreen
from lcm_tui.tables.conversation_rows import Row, names_of
from lcm_tui.tables.history import ListedOperation, lines_of
from lcm_tui.tables.home import (
    Changed,
    Filled,
    Outlook,
    PanelKey,
    Sized,
    Subject,
    panel_columns,
    panel_keys,
    panel_line,
)
from tests.app.support import (
    NARROW,
    WIDE,
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
from tests.views.test_history import operation

QUIET = Outlook("lcm.db", "0.15.3")
BUSY = Outlook(
    "lcm.db",
    "0.15.3",
    verdict=Verdict(68, 4, 2, 1, 124),
    broken=3,
    broken_in=1,
    drafts=2,
    engine_needs=4,
    ingesting=(Span("✗ 6 messages missing"),),
    sessions=1,
    nearest=(Filled(1, "main", 90_000, 128_000, 96_000), Filled(2, "ops", 10_000, 128_000, 96_000)),
    largest=(Sized(1, "main", 3_000_000), Sized(2, "ops", 1_000_000)),
    total_bytes=4_000_000,
    keys={Subject.STATE: "H"},
    changes=(Changed("op_1", "Dissolve sum_a", "03-06 12:00", True), Changed("op_0", "Repair", "x", False)),
)


def subjects(keys: tuple[PanelKey, ...]) -> list[Subject]:
    return [key.subject for key in keys]


# -- what is said ------------------------------------------------------------------------------------------


def test_a_line_is_there_when_it_has_something_to_say_and_the_urgent_ones_first():
    assert subjects(panel_keys(QUIET, 5)) == [Subject.STATE]
    assert subjects(panel_keys(BUSY, 5)) == [
        Subject.STATE,
        Subject.BROKEN,
        Subject.DRAFTS,
        Subject.ENGINE,
        Subject.INGESTING,
    ]
    assert set(subjects(panel_keys(BUSY, 9))) == set(Subject)
    left, right = panel_columns(BUSY)
    assert subjects(left).count(Subject.NEAREST) == 2
    assert subjects(right) == [Subject.LARGEST] * 2 + [Subject.OPERATION] * 2


@pytest.mark.parametrize(
    "engine", ["1.0.0 or 1.1.0", "1.1.1 or later", "1.1.1 or later, with transcript cursors and gaps"]
)
@pytest.mark.parametrize("width", [76, 79, 159])
def test_the_engine_is_named_before_how_it_was_checked(engine: str, width: int):
    verdict = Verdict(72, 0, 12, 34, 124)
    outlook = Outlook("lcm.db", engine, verdict=verdict, keys={Subject.STATE: "H"})
    line = text_of(panel_line(outlook, PanelKey(Subject.STATE), width))
    assert f"12 findings ? 34 suspicious  LCM {engine.partition(',')[0]} " in line


@pytest.mark.parametrize("width", [20, 78, 79, 159])
def test_a_line_is_as_wide_as_its_room(width: int):
    for key in (*panel_keys(BUSY, 9), *panel_columns(BUSY)[0], *panel_columns(BUSY)[1]):
        assert len(text_of(panel_line(BUSY, key, width))) == max(width, 14)


def test_a_line_says_what_it_is_about():
    said = {key.subject: text_of(panel_line(BUSY, key, 120)) for key in panel_keys(BUSY, 9)}
    assert "lcm.db  ✗ 2 findings ? 1 suspicious  LCM 0.15.3  quick check, H runs all " in said[Subject.STATE]
    assert "(68 of 124 checks)" in said[Subject.STATE]
    assert "✗ 3 broken summaries in 1 conversation " in said[Subject.BROKEN]
    assert "2 drafts to review" in said[Subject.DRAFTS]
    assert "4 conversations need a look" in said[Subject.ENGINE]
    assert "70.3 % of 128k" in said[Subject.NEAREST], "the same share as on the screen of the context"
    assert "3.0 MB 75% of texts" in said[Subject.LARGEST]
    assert "03-06 12:00  Dissolve sum_a  and 1 before" in said[Subject.OPERATION]
    sound = Outlook("lcm.db", "0.15.3", verdict=Verdict(72, 0, 0, 0, 124))
    assert "✓ structure sound  LCM 0.15.3  quick check  (72 of 124 checks)" in text_of(
        panel_line(sound, PanelKey(Subject.STATE), 120)
    )


# -- in the app --------------------------------------------------------------------------------------------


async def verdict(pilot: Pilot[int]) -> None:
    await wait_for(pilot, lambda: first_screen(pilot).outlooker.outlook.verdict, "the verdict")
    await settled(pilot)


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
        await wait_for(pilot, lambda: isinstance(pilot.app.screen, HistoryScreen))
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


async def test_the_card_says_what_health_has_found(database_file: DatabaseFactory, monkeypatch):
    monkeypatch.setattr(reading, "FIRST_SECONDS", 0.001)
    async with open_app(database_file("0.15.3-damaged"), size=NARROW) as pilot:
        await verdict(pilot)
        assert " findings ? 4 suspicious  LCM 0.15" in shown(pilot)
        await pilot.press("H")
        await wait_for(pilot, lambda: isinstance(pilot.app.screen, HealthScreen))
        health = pilot.app.screen
        assert isinstance(health, HealthScreen)
        await wait_for(pilot, lambda: not health.examiner.running and health.examiner.ended, "all checks")
        broken = health.examiner.examination.count(Confidence.BROKEN)
        await pilot.press("escape")
        await wait_for_text(pilot, f"✗ {broken} broken findings")


@pytest.mark.long
async def test_lines_lead_where_their_keys_lead(database_file: DatabaseFactory, monkeypatch):
    monkeypatch.setattr(reading, "FIRST_SECONDS", 0.001)
    async with open_app(database_file("0.15.3-damaged"), size=NARROW) as pilot:
        await verdict(pilot)
        first = first_screen(pilot)
        ways = {" database": HealthScreen, " broken": DraftingScreen, " context": ContextScreen}
        for label, kind in ways.items():
            y = next(at for at, line in enumerate(shown_lines(pilot)) if line.startswith(label))
            await pilot.click(offset=(20, y))
            await wait_for(pilot, lambda kind=kind: isinstance(pilot.app.screen, kind))
            await settled(pilot)
            while pilot.app.screen is not first:
                await pilot.press("escape")
                await settled(pilot)
        await pilot.press("escape")
        assert first.list.table.has_focus
        y = next(at for at, line in enumerate(shown_lines(pilot)) if line.startswith(" disk"))
        await pilot.click(offset=(20, y))
        await wait_for(pilot, lambda: first.list.sorted_by == "bytes")
        sizes = [
            row.sums.bytes if row.sums else 0
            for row in map(first.list.rows.__getitem__, first.list.table.keys)
        ]
        assert sizes == sorted(sizes, reverse=True)


async def test_the_panel_shows_changes_and_u_undoes_one(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    async with await Database.open(path) as database:
        for number in (1, 2, 3):
            commit(path, await database.read(plan_archive, [ConversationId(number)]))
    async with open_app(path, size=WIDE) as pilot:
        await settled(pilot)
        screen = first_screen(pilot)
        assert shown(pilot).count("Archive") == 3
        await pilot.press("tab")
        await pilot.press("tab")
        await wait_for(pilot, lambda: screen.panel is not None and screen.panel.beside.has_focus)
        await pilot.press("G", "u")
        await wait_for(pilot, lambda: isinstance(pilot.app.screen, PlanScreen))
        await wait_for_text(pilot, "Undo, conversation 1")


async def test_what_was_undone_together_is_one_line_and_offers_no_undo(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    async with await Database.open(path) as database:
        for number in (1, 2):
            plan = await database.read(plan_archive, [ConversationId(number)])
            commit(path, replace(plan, batch="batch-1"))
    async with open_app(path, size=NARROW) as pilot:
        await wait_for_text(pilot, "Archive", "and 1 more")
        assert [line.rstrip()[-1] for line in shown_lines(pilot) if line.startswith(" changes")] == ["u"]
        await pilot.press("u")
        await wait_for_text(pilot, "1 with all of its batch: yes", "Undo, 2 conversations")
    async with await Database.open(path) as database:
        for plan in await database.read(plan_undo_batch, "batch-1"):
            commit(path, plan)
    async with open_app(path, size=NARROW) as pilot:
        await wait_for_text(pilot, "Undo: 2 changes")
        [line] = [line for line in shown_lines(pilot) if line.startswith(" changes")]
        assert not line.rstrip().endswith(" u")
        await pilot.press("u")
        await wait_until_said(pilot, "there is no change to undo")


@pytest.mark.parametrize(("kind", "whole"), [("compact", True), ("refocus", True), ("dissolve", False)])
def test_a_compaction_is_named_by_its_summaries_and_undone_as_a_whole(kind: str, whole: bool):
    note = operation(2, title="Note the compaction beside the conversation", batch="b", tokens=0, kind=kind)
    made = operation(1, title="Compact: 1 summary, -894 tokens", batch="b", tokens=-894, kind=kind)
    [line] = lines_of([ListedOperation(note, True, None), ListedOperation(made, True, None)])
    assert line.what == "Compact: 1 summary, -894 tokens and 1 more"
    assert Undoing(note, holds=True).choices[0].on is whole
    assert undoing_line(line).choices[0].on


async def test_an_empty_database_has_one_line(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA foreign_keys = OFF")
        connection.execute("DELETE FROM conversations")
    async with open_app(path, size=NARROW) as pilot:
        await wait_for_text(pilot, "no conversation yet")
        await settled(pilot)
        assert len(pilot.app.screen.query_one("#lines", PanelLines).keys) == 1


async def test_quitting_asks_when_something_waits(database_file: DatabaseFactory):
    async with open_app(database_file("0.15.3")) as pilot:
        await settled(pilot)
        pilot.app.session.paid.keep("model", None, None)  # type: ignore[arg-type]
        await pilot.press("q")
        await wait_for(pilot, lambda: isinstance(pilot.app.screen, Question))
        await pilot.press("escape")
        await wait_for(pilot, lambda: isinstance(pilot.app.screen, ConversationsScreen))
        assert pilot.app.return_code is None
        await pilot.press("q")
        await wait_for(pilot, lambda: isinstance(pilot.app.screen, Question))
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
        names = names_of(first_screen(pilot).list.rows)
        assert len(set(names.values())) == len(names)
        assert names[4] == "Only one"
        assert names[1].startswith("main  “")
        assert names[2].startswith("Ferry  “")
        assert names[5] == "main #5"
        rows = first_screen(pilot).list.rows
        assert isinstance(rows[1], Row)
        assert rows[1].words
