"""What an operator wants most, each in at most five keys from the first screen of a terminal of 80x24.

Each word typed, enter and each confirmation counts like a key.
"""

from __future__ import annotations

import pytest
from lcm_core.api import Database, plan_archive
from lcm_core.change.commit import commit
from lcm_core.operations.drafting import ItemState
from textual.pilot import Pilot

from lcm_tui.kit.terminal import Decision
from lcm_tui.screens import conversation_panel as outlook
from lcm_tui.screens.drafting import DraftingScreen
from tests.app.support import NARROW, at, open_app, settled, shown, wait_for, wait_for_text, working
from tests.conftest import DatabaseFactory
from tests.databases import query

FIVE = 5


class Operator:
    """Somebody at the keys, who looks before each."""

    def __init__(self, pilot: Pilot[int]) -> None:
        self.pilot = pilot
        self.keys = 0

    async def press(self, *keys: str) -> None:
        """Press keys, each when what the one before led to can be read."""
        for key in keys:
            await self.looks()
            await self.pilot.press(key)
            self.keys += 1
        await self.looks()

    async def looks(self) -> None:
        """Wait until a question is asked, or everything that the keys led to has been read."""
        app = self.pilot.app
        await wait_for(self.pilot, lambda: app._typed.resting, "the keys to act")
        await self.pilot.pause()
        if not isinstance(app.screen, Decision):
            await wait_for(self.pilot, lambda: isinstance(app.screen, Decision) or not working(self.pilot))

    async def sees(self, *texts: str) -> None:
        """Wait for texts, each within a line of the screen."""
        await wait_for_text(self.pilot, *texts)


def broken(pilot: Pilot[int]) -> int:
    """How many summaries the first screen calls broken, in all conversations."""
    first = pilot.app.screen_stack[1]
    assert at(first, "Conversations")
    return first.outlooker.outlook.broken


async def test_1_every_broken_summary_in_all_conversations(database_file: DatabaseFactory):
    async with open_app(database_file("0.15.3"), size=NARROW) as pilot:
        operator = Operator(pilot)
        await operator.sees("✗ 16 broken summaries in 6 conversations")  # without a key
        await operator.press("R", "v")
        screen = pilot.app.screen
        assert isinstance(screen, DraftingScreen)
        await wait_for(pilot, lambda: len(screen.list.table.keys) >= broken(pilot))
        assert operator.keys <= FIVE


@pytest.mark.long
async def test_2_repair_them_all_with_a_look_at_each(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    async with open_app(path, size=NARROW) as pilot:
        operator = Operator(pilot)
        await operator.press("R", "v", "P", "a", "enter")
        assert operator.keys <= FIVE
        first = pilot.app.screen
        assert at(first, "Review ")
        await operator.sees("+ draft 1")
        await operator.press("J")
        if pilot.app.screen is first or "Back up before" in shown(pilot):  # once a day
            await operator.press("n")
        seen = {first.subject.summary_id}
        for _ in range(2):
            await wait_for(pilot, lambda: _reviewed(pilot) not in (None, *seen))
            seen.add(_reviewed(pilot) or first.subject.summary_id)
            before = operator.keys
            await operator.press("J")
            assert operator.keys == before + 1
        assert query(path, "SELECT count(*) FROM lcm_tui_operations") == [(3,)]


def _reviewed(pilot: Pilot[int]) -> object:
    screen = pilot.app.screen
    return screen.subject.summary_id if at(screen, "Review ") else None


async def test_2_repair_them_all_by_the_default_rule(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    async with open_app(path, size=NARROW) as pilot:
        operator = Operator(pilot)
        await operator.press("R", "v", "P", "a", "A", "enter")
        assert operator.keys == 6
        screen = pilot.app.screen
        assert isinstance(screen, DraftingScreen)
        await wait_for(pilot, lambda: screen.work is not None and screen.work.batch.options.rule is not None)
        await settled(pilot)
        assert screen.work is not None
        assert not screen.work.batch.running
        items = screen.work.batch.items
    accepted = sum(one.state is ItemState.COMMITTED for one in items)
    assert accepted
    assert len(items) == 16
    assert all(one.why for one in items if one.state is not ItemState.COMMITTED), (
        "each of the others says why"
    )
    assert query(path, "SELECT count(*) FROM lcm_tui_operations") == [(accepted,)]


async def test_3_undo_the_third_last_change(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    archived = "SELECT conversation_id FROM conversations WHERE active = 0 ORDER BY 1"
    before = query(path, archived)
    async with await Database.open(path) as database:
        for number in (1, 2, 3):
            commit(path, await database.read(plan_archive, [number]))
    async with open_app(path, size=NARROW) as pilot:
        operator = Operator(pilot)
        await operator.press("U", "j", "j", "u", "a")
        await wait_for(pilot, lambda: at(pilot.app.screen, "History"))
        assert operator.keys <= FIVE
    assert set(query(path, archived)) == {*before, (2,), (3,)}, "the third-last alone is undone"


async def test_4_what_did_the_model_see(database_file: DatabaseFactory):
    async with open_app(database_file("0.15.3"), size=NARROW) as pilot:
        operator = Operator(pilot)
        await operator.press("c", "m")
        assert at(pilot.app.screen, "Context ")
        await operator.sees("Whole request · assembled")
        assert operator.keys <= FIVE


async def test_5_why_is_the_context_full_and_what_was_left_out(database_file: DatabaseFactory):
    async with open_app(database_file("0.15.3"), size=NARROW, budget=2_000) as pilot:
        operator = Operator(pilot)
        await operator.press("c")
        assert at(pilot.app.screen, "Context ")
        await operator.sees("of 2,000", "cut: budget")
        assert operator.keys <= FIVE


async def test_6_where_was_something_said(database_file: DatabaseFactory):
    async with open_app(database_file("0.15.3"), size=NARROW) as pilot:
        operator = Operator(pilot)
        await operator.press("F")
        await pilot.press(*"OPS-3587")  # one word
        operator.keys += 1
        await operator.sees("ticket OPS-3587")
        await operator.press("enter")
        assert at(pilot.app.screen, "Conversation ")
        assert operator.keys <= FIVE
        await operator.sees("OPS-3587. p95 went from 187ms")


async def test_7_give_back_the_detail_of_a_condensation(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    [before] = query(path, "SELECT count(*) FROM context_items WHERE conversation_id = 1")
    async with open_app(path, size=NARROW) as pilot:
        operator = Operator(pilot)
        await operator.press("s", "d", "a")
        await wait_for(pilot, lambda: at(pilot.app.screen, "Summary DAG"))
        assert operator.keys <= FIVE
    [after] = query(path, "SELECT count(*) FROM context_items WHERE conversation_id = 1")
    assert after > before
    assert list(path.parent.glob("*.backup")), "before the first change of a day"


async def test_8_carry_a_dag_to_the_new_session(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    [before] = query(path, "SELECT count(*) FROM summaries WHERE conversation_id = 8")
    async with open_app(path, size=NARROW) as pilot:
        operator = Operator(pilot)
        await operator.press("t", "enter", "a")  # the newest other conversation is listed first
        await wait_for(pilot, lambda: at(pilot.app.screen, "Conversations"))
        assert operator.keys <= FIVE
    [after] = query(path, "SELECT count(*) FROM summaries WHERE conversation_id = 8")
    assert after > before


async def test_9_which_conversations_eat_the_disk(database_file: DatabaseFactory):
    async with open_app(database_file("0.15.3"), size=NARROW) as pilot:
        operator = Operator(pilot)
        await operator.sees(" disk ", "566.9 KB", "████ 566.9 KB")
        assert operator.keys <= FIVE


async def test_10_is_the_database_sound(database_file: DatabaseFactory, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(outlook, "FIRST_SECONDS", 0.001)
    async with open_app(database_file("0.15.3-damaged"), size=NARROW) as pilot:
        operator = Operator(pilot)
        await operator.sees("✗ 9 findings ? 4 suspicious")
        await operator.press("H")
        await operator.sees("broken", "suspicious")
        assert operator.keys <= FIVE
