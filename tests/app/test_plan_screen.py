"""The preview of a change: what it says, what `a` writes, and what becomes of it when the file moves on."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from lcm_core.api import RefusedError, plan_dissolve
from lcm_core.base.values import replace
from lcm_core.change.commit import commit_plan
from lcm_core.change.connection import wals_folder
from lcm_core.change.plan import BusyError, Plan
from textual.pilot import Pilot
from textual.screen import ModalScreen

from lcm_tui.flows import change as flow
from lcm_tui.flows.change import Change, Choice
from lcm_tui.kit.text import TextView
from lcm_tui.screens import conversation_panel as outlook
from lcm_tui.screens import preview as plan_module
from lcm_tui.screens.context import ContextScreen
from lcm_tui.screens.dag import DagScreen
from lcm_tui.screens.preview import PlanScreen
from lcm_tui.screens.questions import BackupOffer
from tests.app.host import Host
from tests.app.support import (
    NARROW,
    at,
    conversation,
    go_to,
    open_app,
    said,
    settled,
    shown,
    shown_lines,
    wait_for,
    wait_for_text,
    wait_until_said,
)
from tests.change.support import context_of, dump
from tests.conftest import DatabaseFactory
from tests.databases import column, connect, leave_unread_wal, run, value

#: A condensed summary in the context of conversation 1 (0.15.3), its sources, and a second one before it.
NODE, SOURCES = "sum_bb692ab9b90b6a49", ["sum_18ef3ddbebbf8c2e", "sum_81f1946ebb3dbf3b"]
OTHER = "sum_07742015d971b59d"
MOVED_ON = "The database changed, so this was planned again"


def dissolve(*summary_ids: str, conversation_id: int = 1):
    async def plan(reader):
        return await plan_dissolve(reader, conversation_id, list(summary_ids))

    return plan


async def previewed(pilot: Pilot[int]) -> PlanScreen:
    """The preview in front, when it has been planned."""
    await wait_for(pilot, lambda: isinstance(pilot.app.screen, PlanScreen), "a preview")
    screen = pilot.app.screen
    assert isinstance(screen, PlanScreen)
    await wait_for(pilot, lambda: screen.view.shown is not None or screen._refusal, "a plan")
    await settled(pilot)
    return screen


async def left(pilot: Pilot[int]) -> None:
    """All is applied."""
    await wait_for(pilot, lambda: not isinstance(pilot.app.screen, BackupOffer | PlanScreen), "the commit")


async def context_of_one(pilot: Pilot[int], select: str = NODE) -> ContextScreen:
    screen = await go_to(pilot, ContextScreen(conversation(pilot, 1), select=("summary", select)))
    await wait_for(pilot, lambda: screen.selected_id() == select, select)
    await settled(pilot)
    return screen


@pytest.mark.long
async def test_a_summary_is_dissolved_from_the_context(database_copy: DatabaseFactory, no_offer: None):
    path = database_copy("0.15.3")
    before = [ref for _, ref in context_of(path, 1)]
    async with open_app(path, size=NARROW) as pilot:
        screen = await context_of_one(pilot)
        await pilot.press("d")
        await previewed(pilot)
        await wait_for_text(
            pilot,
            f"Dissolve summary {NODE} into 2 summaries",
            "Ordinals 4–21 move by +1; 201 tokens leave, 455 enter",
            "tokens  3,304 → 3,558 stored (+254), budget 128,000",
            "rows    context_items +2 -1; summaries -1; summary_parents -2",
            f"- removed      3      – D2        {NODE}      201 Note that",
            f"+ added        –      3 D1        {SOURCES[0]}      166 web/comp",
            f"+ added        –      4 D1        {SOURCES[1]}      289 Can you",
            "→ moved        4      5 user      m848                       85 Note that",
        )
        assert [ref for _, ref in context_of(path, 1)] == before, "a preview changes nothing"
        await pilot.press("a")
        await wait_for(pilot, lambda: pilot.app.screen is screen, "the context")
        await wait_for(pilot, lambda: screen.selected_id() == SOURCES[0], "the first restored source")
        at = before.index(NODE)
        assert [ref for _, ref in context_of(path, 1)] == [*before[:at], *SOURCES, *before[at + 1 :]]
        await wait_until_said(pilot, f"Applied: Dissolve summary {NODE} into 2 summaries. To undo it: u.")
        await pilot.press("u")
        await previewed(pilot)
        await wait_for_text(pilot, f"Undo: Dissolve summary {NODE}")
        await pilot.press("a")
        await wait_for(pilot, lambda: pilot.app.screen is screen, "the context")
        await wait_until_said(pilot, "To redo it: U, u")
        assert [ref for _, ref in context_of(path, 1)] == before
        await pilot.press("u")
        await wait_until_said(pilot, "There is no change of this conversation to undo; U lists all.")
        await pilot.press("left_square_bracket")
        await wait_for(pilot, lambda: screen.then is not None)
        await settled(pilot)
        await pilot.press("u")
        await wait_until_said(pilot, "the past cannot be changed; ] leads to the present")


@pytest.mark.long
async def test_the_panes_show_edits_and_sql_and_any_line_whole(
    database_copy: DatabaseFactory, no_offer: None
):
    async with open_app(database_copy("0.15.3")) as pilot:
        screen = await go_to(pilot, PlanScreen(Change(dissolve(NODE))))
        await previewed(pilot)
        await pilot.press("tab")
        await wait_for_text(pilot, "[Edits 6]", f"delete from summary_parents: {NODE} {SOURCES[1]}")
        assert screen.view._statements is None, "SQL that nobody looks at is not written"
        await pilot.press("tab", "tab")
        await wait_for_text(
            pilot, 'DELETE FROM context_items WHERE "conversation_id" IS 1 AND "ordinal" IS 3'
        )
        rows, around, search = 1 + 18 + 2 + 3, 3, 2
        assert len(screen.view.sql.keys) == rows + around + search
        await pilot.press("G", "k", "k", "k")  # before COMMIT and the search tables
        assert screen.view.why_not_open() == "it is shown whole"
        await pilot.press(*"kkk", "enter")
        await wait_for(pilot, lambda: isinstance(pilot.app.screen, ModalScreen), "the statement")
        await wait_for_text(pilot, 'INSERT INTO "context_items"', SOURCES[1])
        await pilot.press("escape", "tab", "enter")
        await wait_for(pilot, lambda: isinstance(pilot.app.screen, ModalScreen), "the item")
        await wait_for_text(pilot, NODE, "Condensed memory covering")


async def test_the_diff_begins_with_the_context_and_enter_shows_a_whole_row(
    database_copy: DatabaseFactory, no_offer: None
):
    async with open_app(database_copy("0.15.3"), size=NARROW) as pilot:
        await go_to(pilot, PlanScreen(Change(dissolve(NODE))))
        await previewed(pilot)
        await pilot.press("m")
        await wait_for_text(pilot, "[Diff", f"== summaries {NODE}")
        lines = [line for line in shown_lines(pilot) if "== " in line]
        assert [line.partition("== ")[2].split()[0] for line in lines] == ["context"] * 3 + [
            "other",
            "summaries",
        ]
        await pilot.press("G", "enter")
        await wait_for(pilot, lambda: isinstance(pilot.app.screen, ModalScreen), "the row")
        key = f"parent_summary_id: {SOURCES[1]}", f"summary_id: {NODE}"
        whole = pilot.app.screen.query_one(TextView).text
        assert whole.splitlines() == [f"== summary_parents {NODE}", "ordinal: 1", *key]


@pytest.mark.parametrize(("size", "words"), [(NARROW, 50), ((60, 15), 34)])
async def test_a_warning_is_shown_to_its_end_and_the_list_below_keeps_lines(
    database_copy: DatabaseFactory, no_offer: None, size: tuple[int, int], words: int
):
    warning = " ".join(f"word{number:02}" for number in range(words))

    async def plan(reader: Any) -> Plan:
        return replace(await dissolve(NODE)(reader), warnings=(warning,))

    async with open_app(database_copy("0.15.3"), size=size) as pilot:
        screen = await go_to(pilot, PlanScreen(Change(plan)))
        await previewed(pilot)
        said = " ".join(" ".join(shown_lines(pilot)).split())
        assert f"! {warning}. tokens 3,304 → 3,558" in said
        assert "rows context_items" in said or size != NARROW
        assert screen.view.ordinals.size.height >= 2


@pytest.mark.long
async def test_the_help_says_what_the_change_does(database_copy: DatabaseFactory):
    async with open_app(database_copy("0.15.3")) as pilot:
        await context_of_one(pilot)
        await pilot.press("d")
        await previewed(pilot)
        await pilot.press("question_mark")
        await wait_for_text(
            pilot, "Dissolving a condensed summary puts its sources", "A preview: nothing has been changed"
        )
        await pilot.press(*"option")
        await wait_for(pilot, lambda: "Rows" not in shown(pilot), "the filter")
        assert [name for name in ("Option 1", "Option 2", "Option 3") if name in shown(pilot)] == [
            "Option 1",
            "Option 2",
        ], "those that this change has"


@pytest.mark.long
async def test_choices_are_planned_anew(database_copy: DatabaseFactory, no_offer: None):
    path = database_copy("0.15.3")
    async with open_app(path) as pilot:
        await context_of_one(pilot)
        await pilot.press("d")
        await previewed(pilot)
        await wait_for_text(pilot, "(1) keep the dissolved summary in the database: no  (2) levels: 1")
        await pilot.press("2")
        await wait_for_text(pilot, "levels: 2", "with 2 below into 5 summaries")
        await pilot.press("1")
        await wait_for_text(
            pilot, "in the database: yes", "kept in the database", "rows    context_items +5 -1"
        )
        await settled(pilot)
        await pilot.press("a")
        await wait_for(pilot, lambda: at(pilot.app.screen, "Context "), "the context")
        assert value(path, "SELECT count(*) FROM summaries WHERE summary_id = ?", NODE) == 1
        assert NODE not in [ref for _, ref in context_of(path, 1)]


@pytest.mark.long
async def test_a_preview_follows_a_host_that_appends(database_copy: DatabaseFactory, no_offer: None):
    path = database_copy("0.15.3")
    with Host(path) as host:
        async with open_app(path) as pilot:
            screen = await go_to(pilot, PlanScreen(Change(dissolve(NODE))))
            await previewed(pilot)
            host.say(1, "one more while the preview lies there")
            await wait_for_text(pilot, "Ordinals 4–22 move by +1", "tokens  3,309 → 3,563 stored (+254)")
            assert "moved on" not in shown(pilot), "an append makes no plan stale"
            await wait_for_text(pilot, "planned again ", "; before: Ordinals 4–21 move by +1; ")
            await pilot.press("j")
            await wait_for(pilot, lambda: "planned again" not in shown(pilot), "the next key")
            await settled(pilot)
            await pilot.press("a")
            await wait_for(pilot, lambda: pilot.app.screen is not screen, "the end of the preview")
            assert len(context_of(path, 1)) == 24


@pytest.mark.long
async def test_a_stale_plan_is_shown_again_with_what_moved(database_copy: DatabaseFactory, no_offer: None):
    path = database_copy("0.15.3")
    async with open_app(path) as pilot:
        screen = await go_to(pilot, PlanScreen(Change(dissolve(NODE))))
        await previewed(pilot)
        run(path, f"UPDATE summaries SET content = 'written again' WHERE summary_id = '{NODE}'")
        await wait_for_text(
            pilot, "The database changed, so this was planned again", f"summaries {NODE}: content"
        )
        await settled(pilot)
        await pilot.press("a")
        await wait_for(pilot, lambda: pilot.app.screen is not screen, "the end of the preview")
        assert value(path, "SELECT count(*) FROM summaries WHERE summary_id = ?", NODE) == 0


@pytest.mark.long
async def test_what_moves_between_the_preview_and_the_commit_is_shown_first(
    database_copy: DatabaseFactory, no_offer: None, monkeypatch: pytest.MonkeyPatch
):
    path = database_copy("0.15.3")
    async with open_app(path) as pilot:
        screen = await go_to(pilot, PlanScreen(Change(dissolve(NODE))))
        await previewed(pilot)
        monkeypatch.setattr(screen, "data_changed", lambda: None)  # it has not noticed yet
        run(path, f"UPDATE summaries SET content = 'written again' WHERE summary_id = '{NODE}'")
        await pilot.press("a")
        await wait_for_text(pilot, MOVED_ON)
        assert pilot.app.screen is screen
        assert value(path, "SELECT count(*) FROM summaries WHERE summary_id = ?", NODE) == 1
        await settled(pilot)
        await pilot.press("a")
        await wait_for(pilot, lambda: pilot.app.screen is not screen, "the end of the preview")


async def test_a_refusal_is_a_sentence_on_the_screen(database_copy: DatabaseFactory, no_offer: None):
    path = database_copy("0.15.3")
    swap = "UPDATE context_items SET summary_id = '{1}' WHERE summary_id = '{0}'"
    run(path, swap.format(NODE, SOURCES[0]))
    async with open_app(path, size=NARROW) as pilot:
        screen = await go_to(pilot, PlanScreen(Change(dissolve(NODE))))
        await previewed(pilot)
        await wait_for_text(pilot, f"{NODE} is not in the context", "There is nothing to apply.")
        assert screen.why_not("apply") == "Refused: see the reason above"
        run(path, swap.format(SOURCES[0], NODE))
        await wait_for_text(pilot, f"Dissolve summary {NODE} into 2")
        await wait_for(pilot, lambda: screen.why_not("apply") is None, "something to apply")


@pytest.mark.long
async def test_a_busy_file_leaves_the_preview_where_it_is(
    database_copy: DatabaseFactory, no_offer: None, monkeypatch: pytest.MonkeyPatch
):
    async def locked(*_: object, **__: object):
        raise BusyError("lcm.db", 5.0)

    monkeypatch.setattr(flow, "commit_plan", locked)
    async with open_app(database_copy("0.15.3")) as pilot:
        screen = await go_to(pilot, PlanScreen(Change(dissolve(NODE))))
        await previewed(pilot)
        await pilot.press("a")
        await wait_for_text(pilot, "was locked by another process during the whole wait of 5.0 s")
        assert pilot.app.screen is screen
        await settled(pilot)
        assert screen.why_not("apply") is None


@pytest.mark.long
async def test_esc_gives_up_the_wait_for_the_lock(
    database_copy: DatabaseFactory, no_offer: None, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(plan_module, "WAIT_SECONDS", 60.0)
    path = database_copy("0.15.3")
    before = dump(path)
    async with open_app(path, size=NARROW) as pilot:
        below = await context_of_one(pilot)
        await pilot.press("d")
        screen = await previewed(pilot)
        with connect(path) as host:
            host.execute("BEGIN IMMEDIATE")
            await pilot.press("a")
            await wait_for_text(
                pilot, "applying, esc s", "It may have to wait until no other process writes; esc stops it."
            )
            assert screen.why_not("apply") == "it is being applied now"
            await pilot.press("escape")
            await wait_for_text(pilot, "Cancelled; nothing was changed.", "preview: ")
            assert pilot.app.screen is screen, "the preview is still there"
            host.execute("ROLLBACK")
        assert dump(path) == before
        await settled(pilot)
        await pilot.press("a")
        await wait_for(pilot, lambda: pilot.app.screen is below, "the context")
        assert dump(path) != before


@pytest.mark.long
async def test_esc_ends_a_batch_and_what_was_done_stays(
    database_copy: DatabaseFactory, no_offer: None, monkeypatch: pytest.MonkeyPatch
):
    path = database_copy("0.15.3")
    first_done, go_on = asyncio.Event(), asyncio.Event()

    async def slow(database, plan, **named: Any):
        done = await commit_plan(database, plan, **named)
        first_done.set()
        await go_on.wait()
        return done

    async def plans(reader):
        return [await plan_dissolve(reader, 1, [node]) for node in (NODE, OTHER)]

    monkeypatch.setattr(flow, "commit_plan", slow)
    async with open_app(path) as pilot:
        screen = await go_to(pilot, PlanScreen(Change(plans)))
        await previewed(pilot)
        await pilot.press("a")
        await wait_for(pilot, first_done.is_set, "the first commit")
        await pilot.press("escape")
        await wait_for_text(pilot, "applying 1 of 2, stopping")
        go_on.set()
        await wait_for_text(pilot, "Cancelled. Earlier changes stay.")
        assert pilot.app.screen is screen
    assert len(column(path, "SELECT id FROM lcm_tui_operations")) == 1


@pytest.mark.long
async def test_a_file_that_was_replaced_during_the_preview_is_not_written(
    database_copy: DatabaseFactory, no_offer: None, monkeypatch: pytest.MonkeyPatch
):
    path, other = database_copy("0.15.3"), database_copy("0.15.3-damaged")
    held = other.read_bytes()
    async with open_app(path) as pilot:
        screen = await go_to(pilot, PlanScreen(Change(dissolve(NODE))))
        await previewed(pilot)
        with monkeypatch.context() as unheard:
            unheard.setattr(screen, "data_changed", lambda: None)  # it has not noticed yet
            unheard.setattr(screen, "load", lambda: None)
            other.replace(path)
            await screen.session.database.refresh()  # what reads has
            await pilot.press("a")
            await wait_for(  # wherever the lines break: the path may have any length
                pilot,
                lambda: all(
                    words in " ".join(shown(pilot).split())
                    for words in (
                        "is a different file than the one this was planned on",
                        "Nothing was changed; preview the change again.",
                    )
                ),
                "the refusal",
            )
        assert pilot.app.screen is screen
        assert path.read_bytes() == held
        await pilot.press("ctrl+r")
        await wait_for(
            pilot, lambda: "another file" not in shown(pilot), "the plan on the file that is there"
        )
        await wait_for_text(pilot, f"Dissolve summary {NODE}", "preview: not applied yet")
        await settled(pilot)
        await pilot.press("a")
        await wait_for(pilot, lambda: pilot.app.screen is not screen, "the end of the preview")
        assert value(path, "SELECT count(*) FROM summaries WHERE summary_id = ?", NODE) == 0


@pytest.mark.long
async def test_a_batch_is_shown_as_one_and_committed_plan_by_plan(
    database_copy: DatabaseFactory, no_offer: None
):
    path = database_copy("0.15.3")
    done = []
    chosen = Choice.switch("both")

    async def plans(reader):
        nodes = [(1, NODE), *([(4, "sum_f6b6d7017e1f2ae2")] if chosen.on else [])]
        return [await plan_dissolve(reader, owner, [node]) for owner, node in nodes]

    async with open_app(path) as pilot:
        screen = await go_to(pilot, PlanScreen(Change(plans, choices=(chosen,), then=done.append)))
        await previewed(pilot)
        await pilot.press("1")
        await wait_for_text(
            pilot, f"Dissolve summary {NODE}", "Dissolve summary sum_f6b6d7017e1f2ae2", "In 2 contexts"
        )
        await wait_for_text(pilot, "── context of conversation 1", "summaries -2")
        await settled(pilot)
        await pilot.press("a")
        await wait_for(pilot, lambda: done, "both commits")
        assert [one.operation.conversation_id for one in done[0] if one.operation] == [1, 4]
        assert pilot.app.screen is not screen


@pytest.mark.long
async def test_marks_choose_a_set_and_outlive_a_reload(database_copy: DatabaseFactory, no_offer: None):
    path = database_copy("0.15.3")
    async with open_app(path) as pilot:
        screen = await go_to(pilot, DagScreen(conversation(pilot, 1), select=NODE))
        await wait_for(pilot, lambda: screen.selected_id() == NODE, NODE)
        await settled(pilot)
        await pilot.press("space", "k", "space")
        await wait_for_text(pilot, f"▸●{NODE[:8]}", f"▸●{OTHER[:8]}", "● 2 marked")
        run(path, "UPDATE summaries SET token_count = token_count + 1 WHERE depth = 0")
        await settled(pilot)
        assert list(screen.marks.keys) == [NODE, OTHER]
        await pilot.press("d")
        await previewed(pilot)
        await wait_for_text(pilot, "Dissolve 2 summaries of the context into")
        await pilot.press("a")
        await wait_for(pilot, lambda: pilot.app.screen is screen, "the tree")
        assert not screen.marks
        await settled(pilot)
        assert screen.selected_id() in context_refs(path)
        assert not {NODE, OTHER} & context_refs(path)


def context_refs(path: Path) -> set[object]:
    return {ref for _, ref in context_of(path, 1)}


@pytest.mark.long
async def test_what_cannot_be_dissolved_says_why(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    leaf = value(path, "SELECT summary_id FROM summaries WHERE conversation_id = 1 AND kind = 'leaf' LIMIT 1")
    async with open_app(path) as pilot:
        screen = await go_to(pilot, DagScreen(conversation(pilot, 1), select=SOURCES[0]))
        await wait_for(pilot, lambda: screen.selected_id() == SOURCES[0], "the source")
        await settled(pilot)
        await pilot.press("d")
        await wait_for_text(pilot, f"{SOURCES[0]} is not in", f"enter a  preview dissolving {NODE}")
        await pilot.press("a")
        await previewed(pilot)
        await wait_for_text(pilot, f"Dissolve summary {NODE} into 2")
        await pilot.press("escape")
        assert pilot.app.screen is screen
        screen.lines.reveal(screen.lines.known.path_to(leaf) or ())
        reason = screen.why_not("dissolve")
        assert reason is not None
        assert "a leaf cannot be dissolved" in reason
        await pilot.press("d")
        await wait_for(pilot, lambda: any("leaf cannot be" in text for text in said(pilot)), "the reason")
        assert pilot.app.screen is screen


@pytest.mark.long
async def test_the_first_change_of_a_day_is_offered_a_backup(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    rows = dump(path)
    async with open_app(path, size=NARROW) as pilot:
        await go_to(pilot, PlanScreen(Change(dissolve(NODE))))
        await previewed(pilot)
        await wait_for_text(pilot, "(b) back up first: yes, 3.7 MB")
        await pilot.press("b")
        await wait_for_text(pilot, "(b) back up first: no")
        await pilot.press("b")
        assert dump(path) == rows
        assert list(path.parent.glob("*.backup")) == [], "none is made before a"
        await pilot.press("a")
        await wait_for(
            pilot, lambda: not isinstance(pilot.app.screen, BackupOffer | PlanScreen), "the commit"
        )
        [backup] = path.parent.glob(f"*.{datetime.now(UTC):%Y%m%d}T*.backup")
        assert dump(backup) == rows
        assert NODE not in context_refs(path)
        second = await go_to(pilot, PlanScreen(Change(dissolve(OTHER))))
        await previewed(pilot)
        assert "back up first" not in shown(pilot)
        await pilot.press("a")
        await wait_for(pilot, lambda: pilot.app.screen is not second, "the end of the preview")
        assert OTHER not in context_refs(path), "the second change of the day is made without a question"


@pytest.mark.long
async def test_a_backup_that_fails_is_said_and_the_choice_is_there_again(
    database_copy: DatabaseFactory, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    def full(*_: object) -> None:
        raise RefusedError("There is no room for it. Nothing was written.")

    monkeypatch.setattr("lcm_tui.screens.questions.make_backup", full)
    path = database_copy("0.15.3").rename(tmp_path / f"{'a long name ' * 12}.db")  # the choice stays in sight
    async with open_app(path) as pilot:
        await go_to(pilot, PlanScreen(Change(dissolve(NODE))))
        await previewed(pilot)
        await pilot.press("a")
        await wait_for_text(pilot, "There is no room for it.", "continue without")
        await pilot.press("n")
        await wait_for(
            pilot, lambda: not isinstance(pilot.app.screen, BackupOffer | PlanScreen), "the commit"
        )
        assert NODE not in context_refs(path)


@pytest.mark.long
async def test_a_long_shift_is_read_only_where_it_is_seen(database_copy: DatabaseFactory, no_offer: None):
    path = database_copy("0.15.3")
    run(
        path,
        """INSERT INTO messages (conversation_id, seq, role, content, token_count)
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000)
        SELECT 1, 1000 + i, 'user', 'message ' || i, 3 FROM n""",
        """INSERT INTO context_items (conversation_id, ordinal, item_type, message_id)
        SELECT 1, seq, 'message', message_id FROM messages WHERE conversation_id = 1 AND seq > 1000""",
    )
    async with open_app(path, size=NARROW) as pilot:
        screen = await go_to(pilot, PlanScreen(Change(dissolve(NODE))))
        await previewed(pilot)
        await wait_for_text(pilot, "[Ordinals 5,021]", "move by +1; ")
        assert len(screen.view._entries) <= 24
        await pilot.press("G")
        await wait_for_text(pilot, "→ moved     6000   6001 user", "message 5000")
        await settled(pilot)
        await pilot.press("slash", *SOURCES[1], "enter")
        await wait_for(pilot, lambda: screen.selected_id() == SOURCES[1], "the item that was searched for")
        await settled(pilot)
        assert len(screen.view._entries) <= 2 * 24
        assert len(screen.view.ordinals._lines) < 100, "only lines that were seen are drawn"


@pytest.mark.long
async def test_a_batch_that_stops_half_way_goes_on_from_there(
    database_copy: DatabaseFactory, no_offer: None, monkeypatch: pytest.MonkeyPatch
):
    path, real, calls = database_copy("0.15.3"), flow.commit_plan, count(1)
    done = []

    async def second_time_busy(database, plan, **named: Any):
        if next(calls) == 2:
            raise BusyError("lcm.db", 5.0)
        return replace(
            await real(database, plan, **named), search="search index not updated: run `lcm-tui reindex`"
        )

    async def plans(reader):
        return [await plan_dissolve(reader, 1, [node]) for node in (NODE, OTHER)]

    monkeypatch.setattr(flow, "commit_plan", second_time_busy)
    async with open_app(path) as pilot:
        screen = await go_to(pilot, PlanScreen(Change(plans, then=done.append)))
        await previewed(pilot)
        await pilot.press("a")
        await wait_for_text(pilot, "was locked by another process", f"Dissolve summary {OTHER} into 2")
        await wait_for(pilot, lambda: f"Dissolve summary {NODE}" not in shown(pilot), "the rest alone")
        assert NODE not in context_refs(path)
        assert OTHER in context_refs(path)
        await settled(pilot)
        await pilot.press("a")
        await wait_for(pilot, lambda: pilot.app.screen is not screen, "the end of the preview")
        assert OTHER not in context_refs(path)
        assert [len(each) for each in done] == [2], "what was done before counts as well"
        await wait_until_said(pilot, "reindex")


@pytest.mark.long
async def test_a_wal_that_sqlite_ignores_is_asked_about_and_kept(
    database_copy: DatabaseFactory, no_offer: None
):
    path = database_copy("0.15.3")
    wal = leave_unread_wal(path)
    async with open_app(path, size=NARROW) as pilot:
        await context_of_one(pilot)
        await pilot.press("d")
        await previewed(pilot)
        await pilot.press("a")
        await wait_for_text(pilot, "The WAL is not read", "keep a copy and continue")
        await pilot.press("escape")
        await previewed(pilot)
        assert path.with_name("lcm.db-wal").read_bytes() == wal
        assert not wals_folder().exists()
        await pilot.press("a")
        await wait_for_text(pilot, "The WAL is not read")
        await pilot.press("a")
        await left(pilot)
    [kept] = wals_folder().iterdir()
    assert kept.read_bytes() == wal
    assert value(path, "SELECT count(*) FROM summaries WHERE summary_id = ?", NODE) == 0


async def test_the_first_screen_says_that_a_wal_is_not_read(
    database_copy: DatabaseFactory, no_offer: None, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(outlook, "FIRST_SECONDS", 0.001)
    path = database_copy("0.15.3")
    leave_unread_wal(path)
    async with open_app(path, size=NARROW) as pilot:
        await wait_for_text(pilot, "WAL not read")
