"""The history: what was changed, what of it holds, and taking it back."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from lcm_core.api import plan_dissolve, plan_undo
from lcm_core.base.values import replace
from lcm_core.change.backup import default_target
from lcm_core.change.commit import commit
from textual.screen import ModalScreen

from lcm_tui.flows.change import Change
from lcm_tui.screens.preview import PlanScreen
from tests.app.hostile import SAMPLES
from tests.app.screens import history, walk_to
from tests.app.support import (
    NARROW,
    at,
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
from tests.app.test_hostile import check
from tests.app.test_plan_screen import NODE, OTHER, previewed
from tests.change.support import context_of, dump, plan_of, planned, update
from tests.conftest import DatabaseFactory
from tests.databases import run, value

FOURTH = "sum_f6b6d7017e1f2ae2"


async def changed(path: Path, *nodes: tuple[int, str]) -> list[str]:
    """Dissolve some summaries; the ids of the operations."""
    ids = []
    for owner, node in nodes:
        plan = await planned(path, plan_dissolve, owner, [node])
        ids.append(commit(path, plan).id)
    return ids


async def test_an_empty_history_says_what_will_stand_there(database_file: DatabaseFactory):
    async with open_app(database_file("0.15.3"), size=NARROW) as pilot:
        await settled(pilot)
        await pilot.press("U")
        await wait_for(pilot, lambda: at(pilot.app.screen, "History"), "the history")
        await wait_for_text(pilot, "No changes yet. Each change appears here")
        screen = pilot.app.screen
        assert at(screen, "History")
        assert screen.why_not("undo") == "there is no change to undo yet"


@pytest.mark.long
async def test_undo_gives_back_the_same_rows_and_can_be_undone(
    database_copy: DatabaseFactory, no_offer: None
):
    path = database_copy("0.15.3")
    before = dump(path)
    [first] = await changed(path, (1, NODE))
    after = dump(path)
    async with open_app(path) as pilot:
        screen = await history(pilot)
        await wait_for_text(pilot, f"Dissolve summary {NODE} into 2 summaries", "+254", first)
        assert "↶" not in shown(pilot)
        assert screen.told("undo").title == "Undo"
        await pilot.press("u")
        await previewed(pilot)
        await wait_for_text(pilot, f"Undo: Dissolve summary {NODE}", "summaries +1")
        await pilot.press("a")
        await wait_for(pilot, lambda: pilot.app.screen is screen, "the history")
        await wait_for(pilot, lambda: len(screen.list.table.keys) == 2, "the undo in the list")
        await wait_for_text(pilot, "↶", "undone")
        assert dump(path) == before
        assert screen.selected_id() == first, "the cursor stays on its operation"
        await wait_for_text(pilot, "u Redo")
        await settled(pilot)
        await pilot.press("u")
        await previewed(pilot)
        await wait_for_text(pilot, "Redo, conversation 1", f"Redo: Dissolve summary {NODE}")
        await pilot.press("a")
        await wait_for(pilot, lambda: len(screen.list.table.keys) == 3, "the redo in the list")
        assert dump(path) == after
        redo, undo, _ = screen.list.table.keys
        await wait_for(pilot, lambda: screen.list.history.undone == {redo: None, undo: redo, first: None})
        [line] = [one for one in shown_lines(pilot) if "Undo: Dissolve" in one]
        assert " redone" in line
        assert " undone" not in shown(pilot)
        await settled(pilot)
        await pilot.press("u")
        await previewed(pilot)
        await pilot.press("a")
        await wait_for(pilot, lambda: len(screen.list.table.keys) == 4, "the second undo in the list")
        again = screen.list.table.keys[0]
        await settled(pilot)
        await pilot.press("enter")
        await wait_for_text(pilot, f"Operation {first}", f"undone by {again}", "u Redo")


@pytest.mark.long
async def test_an_operation_is_shown_in_full(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    now = datetime.now(UTC)
    copy, later = (default_target(path, now + timedelta(hours=hours)) for hours in (-1, 1))
    copy.touch()
    later.touch()
    [first] = await changed(path, (1, NODE))
    async with open_app(path, size=NARROW) as pilot:
        await history(pilot)
        await settled(pilot)
        await pilot.press("enter")
        await wait_for(pilot, lambda: at(pilot.app.screen, "Operation "), "the operation")
        await wait_for_text(
            pilot,
            f"Operation {first}",
            f"last backup before it, beside the database: {copy.name}",
            "Context items: 1 removed, 2 added, later items moved.",
            "tokens  +254 in the context",
            f"- removed      3      – D2        {NODE}      201 Note",
            "── every later item moves by +1",
        )
        screen = pilot.app.screen
        assert at(screen, "Operation ")
        assert "apply" not in screen.commands, "what was done is looked at, not applied"
        await pilot.press("u")
        await previewed(pilot)
        await wait_for_text(pilot, f"Undo: Dissolve summary {NODE}")


@pytest.mark.long
async def test_an_undo_that_would_lose_something_is_refused_with_the_reason(
    database_copy: DatabaseFactory, no_offer: None
):
    path = database_copy("0.15.3")
    await changed(path, (1, NODE))
    source = "sum_18ef3ddbebbf8c2e"
    run(path, f"DELETE FROM context_items WHERE summary_id = '{source}'")
    before = context_of(path, 1)
    async with open_app(path) as pilot:
        await history(pilot)
        await settled(pilot)
        await pilot.press("u")
        screen = await previewed(pilot)
        await wait_for_text(pilot, "cannot be undone any more", "no longer in the context")
        await pilot.press("a")
        await wait_for(pilot, lambda: any("Refused" in text for text in said(pilot)), "the reason")
        assert pilot.app.screen is screen
    assert context_of(path, 1) == before


@pytest.mark.long
async def test_an_undo_that_somebody_else_made_meanwhile_does_not_become_a_redo(
    database_copy: DatabaseFactory, no_offer: None
):
    path = database_copy("0.15.3")
    before = dump(path)
    [first] = await changed(path, (1, NODE))
    async with open_app(path) as pilot:
        await history(pilot)
        await settled(pilot)
        await pilot.press("u")
        await previewed(pilot)
        commit(path, await planned(path, plan_undo, first))
        await wait_for_text(pilot, f"Operation {first}", "was undone by", "There is nothing to apply")
        await pilot.press("a")
        await wait_for(pilot, lambda: any("Refused" in text for text in said(pilot)), "the reason")
    assert dump(path) == before


@pytest.mark.long
async def test_the_list_is_filtered_and_narrowed_to_a_conversation(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    first, second, third = await changed(path, (1, NODE), (4, FOURTH), (1, OTHER))
    async with open_app(path) as pilot:
        screen = await walk_to(pilot, "HistoryScreen", of=1)
        await wait_for_text(pilot, "T Only this one")
        await pilot.press("T")
        await wait_for(
            pilot, lambda: list(screen.list.table.keys) == [third, first], "those of conversation 1"
        )
        await wait_for_text(pilot, "History of 1", "T Show all")
        await pilot.press("T")
        await wait_for(pilot, lambda: list(screen.list.table.keys) == [third, second, first], "all of them")
        await pilot.press("slash", *FOURTH)
        await wait_for(pilot, lambda: list(screen.list.table.keys) == [second], "the one that matches")
        await wait_for_text(pilot, f"1 of 3 /{FOURTH}")
        await pilot.press("enter", "escape")
        await wait_for(pilot, lambda: len(screen.list.table.keys) == 3, "the filter is gone")


@pytest.mark.long
async def test_a_batch_is_taken_back_as_a_whole(database_copy: DatabaseFactory, no_offer: None):
    path = database_copy("0.15.3")
    before = dump(path)

    made = [
        replace(await planned(path, plan_dissolve, owner, [node]), batch="batch-1")
        for owner, node in ((1, NODE), (4, FOURTH))
    ]

    async def plans(_: object):
        return made

    async with open_app(path) as pilot:
        await go_to(pilot, PlanScreen(Change(plans)))
        await previewed(pilot)
        await pilot.press("a")
        await wait_for(pilot, lambda: not isinstance(pilot.app.screen, PlanScreen), "both commits")
        assert value(path, "SELECT count(*) FROM lcm_tui_operations WHERE batch = 'batch-1'") == 2
        await history(pilot)
        await settled(pilot)
        screen = pilot.app.screen
        assert at(screen, "History")
        assert list(screen.list.table.keys) == ["batch-1"]
        await wait_for_text(pilot, "2 operations in 1 line", "▸", "Dissolve: 2 changes of 2 conversations")
        await pilot.press("enter")
        await wait_for(pilot, lambda: len(screen.list.table.keys) == 3, "the batch, unfolded")
        await pilot.press("j", "u")  # one of them alone
        await previewed(pilot)
        await wait_for_text(pilot, "(1) with all of its batch: no")
        await pilot.press("escape", "k", "enter")
        await wait_for(pilot, lambda: len(screen.list.table.keys) == 1, "the batch, folded")
        await pilot.press("u")
        await previewed(pilot)
        await wait_for_text(pilot, "batch: yes", "In 2 contexts", "summaries +2")
        await settled(pilot)
        await pilot.press("a")
        await wait_for(pilot, lambda: at(pilot.app.screen, "History"), "the history")
        assert dump(path) == before
        await wait_for(pilot, lambda: len(screen.list.table.keys) == 2, "the undo, a batch as well")


@pytest.mark.long
async def test_a_compaction_is_undone_as_a_whole_and_what_holds_of_it_in_part_is_said(
    database_copy: DatabaseFactory,
):
    path = database_copy("0.15.3")
    done = []
    for node in (NODE, OTHER):
        edit = update(path, "summaries", "summary_id", node, descendant_token_count=5620)
        plan = replace(plan_of(edit), title=f"Count {node}", conversation_id=1, batch="b", kind="compact")
        done.append(commit(path, plan).id)
    async with open_app(path) as pilot:
        screen = await history(pilot)
        await settled(pilot)
        assert list(screen.list.table.keys) == ["b"]
        assert "Compact: 2 changes of conversation 1" in shown(pilot)
        assert "in part" not in shown(pilot)
        await pilot.press("enter")
        await wait_for(pilot, lambda: len(screen.list.table.keys) == 3, "the batch, unfolded")
        await pilot.press("j", "u")  # one of them alone
        await previewed(pilot)
        await wait_for_text(pilot, "(1) with all of its batch: yes")
        await pilot.press("escape")
        commit(path, await planned(path, plan_undo, done[1]))
        await wait_for_text(pilot, "in part")


async def test_the_operations_of_a_batch_are_listed_under_it_and_its_undo_names_the_conversations(
    database_copy: DatabaseFactory,
):
    path = database_copy("0.15.3")
    done = []
    for owner, node, batch in ((1, NODE, "b"), (None, OTHER, None), (4, FOURTH, "b")):
        edit = update(path, "summaries", "summary_id", node, token_count=700)
        plan = replace(
            plan_of(edit),
            title=f"Count {node} and say more about it",
            conversation_id=owner,
            batch=batch,
            kind="repair",
        )
        done.append(commit(path, plan).id)
    async with open_app(path, size=NARROW) as pilot:
        screen = await history(pilot)
        await settled(pilot)
        assert "Repair: 2 summaries" in shown(pilot)
        await pilot.press("enter")
        await wait_for(
            pilot, lambda: list(screen.list.table.keys) == ["b", done[2], done[0], done[1]], "the batch"
        )
        await wait_for_text(pilot, f"├ Count {FOURTH[:12]} and", f"└ Count {NODE[:12]} and", "ctx tokens")
        await pilot.press("u")
        await previewed(pilot)
        await wait_for_text(
            pilot,
            "Undo, 2 conversations",
            "batch: yes",
            "tokens of 1  4,248 → 3,749 stored (-499), budget 128,000",
            "tokens of 4  1,878 → 1,778 stored (-100), budget 128,000",
        )
        await pilot.press("1")
        await wait_for_text(pilot, "Undo, conversation 4")


@pytest.mark.long
async def test_what_stands_on_an_operation_is_named_and_goes_with_it(
    database_copy: DatabaseFactory, no_offer: None
):
    path = database_copy("0.15.3")
    before, done = dump(path), []
    for tokens in (5620, 6018):
        edit = update(path, "summaries", "summary_id", NODE, descendant_token_count=tokens)
        alone = replace(plan_of(edit), title=f"Count {tokens}", batch=f"batch_of_one_{tokens}")
        done.append(commit(path, alone).id)
    async with open_app(path) as pilot:
        screen = await history(pilot)
        await settled(pilot)
        await pilot.press("u")
        await previewed(pilot)
        assert "(1)" not in shown(pilot), "neither later changes nor others of its batch: nothing to choose"
        await pilot.press("escape")
        await wait_for(pilot, lambda: pilot.app.screen is screen, "the history")
        await pilot.press("j", "u")
        await previewed(pilot)
        await wait_for_text(
            pilot,
            f"1 later change depends on it and goes with it: {done[1]}: Count 6018. Press 1 to undo both",
            "(1) with later changes that depend on it: no",
            "blocked by later changes",
        )
        assert shown_lines(pilot)[-1].startswith(" 1 Undo both ")
        assert "a Apply" not in shown(pilot)
        await pilot.press("1")
        await wait_for_text(pilot, "Undo: Count 6018", "Undo: Count 5620")
        await settled(pilot)
        await pilot.press("a")
        await wait_for(pilot, lambda: pilot.app.screen is screen, "the history")
        await wait_for_text(pilot, "Undo: 2 changes")
    assert dump(path) == before


@pytest.mark.long
async def test_an_undo_taken_back_is_called_a_redo(database_copy: DatabaseFactory, no_offer: None):
    path = database_copy("0.15.3")
    [done] = await changed(path, (1, NODE))
    commit(path, await planned(path, plan_undo, done))
    async with open_app(path) as pilot:
        screen = await history(pilot)
        await settled(pilot)
        assert "u Redo" in shown_lines(pilot)[-1]
        await pilot.press("u")
        await wait_for_text(pilot, "Redo, conversation 1", f"Redo: Dissolve summary {NODE}")
        assert "Undo: Undo" not in shown(pilot)
        await settled(pilot)
        await pilot.press("a")
        await wait_for(pilot, lambda: pilot.app.screen is screen, "the history")
        await settled(pilot)
        assert "u Undo" in shown_lines(pilot)[-1], "the redo is the newest change"
        done = f"Redone: Dissolve summary {NODE} into 2 summaries. To undo it: "
        assert said(pilot)[-1:] == [f"{done}u."], "the keys are those of the screen where it is read"
        await pilot.press("Y")
        await wait_for(pilot, lambda: at(pilot.app.screen, "Engine"))
        assert said(pilot)[-1:] == [f"{done}U, u."]
        await pilot.press("escape")
        await wait_for(pilot, lambda: pilot.app.screen is screen, "the history")
        await pilot.press("u")
        await wait_for_text(pilot, "Undo, conversation 1", f"Undo: Dissolve summary {NODE}")


@pytest.mark.long
async def test_what_stands_on_a_batch_is_named_and_goes_with_it(
    database_copy: DatabaseFactory, no_offer: None
):
    path, done = database_copy("0.15.3"), []
    before = dump(path)
    for tokens, batch in ((5620, "b"), (5621, "b"), (6018, None)):
        edit = update(path, "summaries", "summary_id", NODE, descendant_token_count=tokens)
        plan = replace(plan_of(edit), title=f"Count {tokens}", conversation_id=1, batch=batch)
        done.append(commit(path, plan).id)
    async with open_app(path) as pilot:
        screen = await history(pilot)
        await settled(pilot)
        await pilot.press("j", "u")
        await wait_for_text(
            pilot,
            f"1 later change depends on the batch and goes with it: {done[2]}: Count 6018.",
            "(1) with all of its batch: yes",
        )
        assert shown_lines(pilot)[-1].startswith(" 2 Undo both  1 With all of its batch: no ")
        assert "--with-later" not in shown(pilot)
        await pilot.press("2")
        await wait_for_text(
            pilot,
            "Undo: 3 changes of conversation 1; 1 summary changed",
            "rows    summaries ~1",
            "preview: not applied yet",
        )
        await settled(pilot)
        await pilot.press("a")
        await wait_for(pilot, lambda: pilot.app.screen is screen, "the history")
        await wait_until_said(pilot, "Undone: 3 changes. To redo them: Home, u.")
        await wait_for_text(pilot, "Undo: 3 changes of conversation 1")
        assert "summaries changed" not in shown(pilot), "one summary was changed three times"
    assert dump(path) == before


@pytest.mark.long
async def test_an_operation_with_hostile_words_is_shown_safely(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    harm = SAMPLES["escape"].decode() + SAMPLES["markup"].decode() + SAMPLES["bidi"].decode()
    edit = update(path, "conversations", "conversation_id", 1, title=harm)
    commit(path, replace(plan_of(edit), title=harm, kind=harm[:30]))
    async with open_app(path, size=NARROW) as pilot:
        await history(pilot)
        await settled(pilot)
        assert "␛[2J" in check(pilot)
        await pilot.press("enter")
        await wait_for(pilot, lambda: at(pilot.app.screen, "Operation "), "the operation")
        await settled(pilot)
        assert "␛[2J" in check(pilot)
        await wait_for_text(pilot, "[Diff]")
        await pilot.press("tab")
        await settled(pilot)
        assert 'UPDATE "conversations" SET "title" = ' in check(pilot)
        await pilot.press("enter")
        await wait_for(pilot, lambda: isinstance(pilot.app.screen, ModalScreen), "the statement")
        await wait_for_text(pilot, "CAST(x'")
        check(pilot)
