"""The context of a conversation on the screen, an item of it whole, and the focus briefs."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path

import pytest
from lcm_core.change.commit import commit_plan
from lcm_core.change.undo import plan_undo
from lcm_core.store.database import Database
from textual.events import Key
from textual.pilot import Pilot

from lcm_tui.kit.dialog import Prompt
from lcm_tui.screens.context import ContextScreen
from lcm_tui.screens.context_items import ItemScreen
from lcm_tui.tables.context import PREVIEW_FROM, columns
from lcm_tui.tables.summaries import ID_CELLS
from tests.app.host import Host
from tests.app.screens import walk_to
from tests.app.support import (
    NARROW,
    WIDE,
    at,
    conversation,
    dag_on,
    go_to,
    open_app,
    resize,
    settled,
    shown,
    shown_lines,
    wait_for,
    wait_for_text,
    wait_until_last_said,
    wait_until_refused,
    wait_until_said,
)
from tests.conftest import DatabaseFactory
from tests.databases import building, column, new_database
from tests.operations.test_rewrite import rewritten
from tests.support import recorded, sampled


@asynccontextmanager
async def open_sound_app(
    path: Path, *, size: tuple[int, int] = WIDE, budget: int | None = None
) -> AsyncIterator[Pilot[int]]:
    """The app on a database; work that failed behind the screen fails the test."""
    async with open_app(path, size=size, budget=budget) as pilot:
        yield pilot
        assert pilot.app.notices.standing is None or pilot.app.notices.standing.severity != "error"


@contextmanager
def changed(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path)) as connection:
        yield connection
        connection.commit()


async def opened(pilot: Pilot[int], number: int, *, select: tuple[str, ...] | None = None) -> ContextScreen:
    """The context of a conversation, read to its end."""
    await settled(pilot)
    screen = await go_to(pilot, ContextScreen(conversation(pilot, number), select=select))
    await wait_for(pilot, lambda: screen.items.was_read)
    await settled(pilot)
    return screen


def rows(pilot: Pilot[int]) -> list[str]:
    """The lines of the list, the text beside it left out."""
    first = pilot.app.screen.query_one("#list").region.y
    return [line.split(" │")[0].rstrip() for line in shown_lines(pilot)[first:-1]]


def head(pilot: Pilot[int]) -> list[str]:
    """How much of the budget is taken, what the context is made of, and what is wrong, if anything is."""
    return shown_lines(pilot)[1:4]


@pytest.mark.long
async def test_editing_and_tracing_a_summary_stand_in_the_key_bar(database_file: DatabaseFactory):
    async with open_app(database_file("0.15.3-damaged"), size=NARROW) as pilot:
        await settled(pilot)
        await pilot.press("c")
        await wait_for_text(pilot, " m As sent  e Edit ", " L Lines ")
        await pilot.press("L")
        await wait_for(pilot, lambda: at(pilot.app.screen, "Lines of "), "where its lines come from")


# -- the list --------------------------------------------------------------------------------------------


@pytest.mark.long
async def test_the_items_in_order_with_what_stands_between_them(database_file: DatabaseFactory):
    async with open_sound_app(database_file("0.15.3"), size=NARROW) as pilot:
        await opened(pilot, 2)
        lines = rows(pilot)
        assert lines[0].startswith(
            "── focus brief replaces 1 summary marked ┆ (40 tokens): “session cache 缓存"
        )
        assert lines[1].split()[:6] == ["┆", "0", "D2", "sum_253c14ef", "248", "in"]
        assert lines[2].startswith("── fresh tail: 25 messages, 1,987 stored tokens ──")
        assert lines[3].split()[:7] == ["│", "1", "user", "m569", "#91", "104", "111"]
        await wait_for_text(pilot, " of 128,000 tokens = ")
        assert head(pilot)[1].startswith(" stored 2,235: summaries 248 · fresh tail 1,987 · ")
        assert "2,027 with the focus brief" in head(pilot)[2]
        assert shown_lines(pilot)[0].startswith(" Context 2  main telegram:direct:4242")


@pytest.mark.long
async def test_damage_is_shown_where_it_is(database_file: DatabaseFactory):
    async with open_sound_app(database_file("0.15.3-damaged"), size=NARROW) as pilot:
        await opened(pilot, 3)
        assert rows(pilot)[2].startswith("── gap: ordinal 2 is missing ──")
        assert "1 gap" in head(pilot)[2]
        await pilot.press("escape")
        await opened(pilot, 4)
        last = next(line for line in rows(pilot) if "m286" in line)
        assert last.startswith("✗      13 message   m286")
        assert last.endswith("row is gone: the engine skips it")
        assert "1 dangling" in head(pilot)[2]


@pytest.mark.long
async def test_a_stored_count_that_no_estimator_gives_stands_beside_ours(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    with changed(path) as connection:
        connection.execute("UPDATE summaries SET token_count = 202 WHERE summary_id = 'sum_bb692ab9b90b6a49'")
    async with open_sound_app(path, size=NARROW) as pilot:
        await opened(pilot, 1)
        await wait_for(pilot, lambda: "202 ≠ ~201" in shown(pilot))
        line = next(line for line in rows(pilot) if "sum_bb69" in line)
        assert line.startswith("!       3 D2")
        assert not any("≠" in other for other in rows(pilot) if other != line)


@pytest.mark.long
async def test_what_cannot_be_recomputed_is_said_beside_the_list(database_file: DatabaseFactory):
    async with open_sound_app(database_file("0.15.3"), size=WIDE) as pilot:
        screen = await opened(pilot, 3, select=("message", "522"))
        assert screen.item() == 522
        await wait_for_text(pilot, "78, not recomputable: signed reasoning was counted in")
        assert "≠" not in shown(pilot)


@pytest.mark.long
@pytest.mark.parametrize("version", sampled(["0.1.2", "0.3.0", "0.8.2"], ["0.1.2"]))
async def test_older_versions(database_file: DatabaseFactory, version: str):
    async with open_sound_app(database_file(version), size=WIDE) as pilot:
        screen = await opened(pilot, 1)
        totals = screen.items.totals
        assert totals is not None
        assert " of 128,000 tokens" in head(pilot)[0]
        assert f"stored {totals.tokens:,}: " in head(pilot)[1]
        assert all("…" not in line[31:60] for line in rows(pilot)), "all is read; ids may be short"
        assert ("tail", 0, 0) in screen.items.keys


@pytest.mark.long
async def test_without_colours_the_bar_is_made_of_letters(
    database_file: DatabaseFactory, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("NO_COLOR", "1")
    async with open_sound_app(database_file("0.15.3"), size=NARROW) as pilot:
        await opened(pilot, 1)
        await pilot.press("B", *"4000", "enter")
        await wait_for_text(pilot, " of 4,000 tokens = ")
        bar = head(pilot)[0].split("▕")[1]
        assert "".join(dict.fromkeys(bar)) == "32UAT░▏"
        await resize(pilot, *WIDE)
        assert head(pilot)[1].split()[:4] == ["stored", "3,304:", "3=D3", "509"]


@pytest.mark.long
async def test_a_long_context_is_read_at_once(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    with changed(path) as connection:
        connection.executemany(
            "INSERT INTO messages (message_id, conversation_id, seq, role, content, token_count)"
            " VALUES (?, 7, ?, 'user', ?, 3)",
            ((10_000 + at, 1_000 + at, f"message {at}") for at in range(3_000)),
        )
        connection.executemany(
            "INSERT INTO context_items (conversation_id, ordinal, item_type, message_id)"
            " VALUES (7, ?, 'message', ?)",
            ((19 + at, 10_000 + at) for at in range(3_000)),
        )
    async with open_sound_app(path) as pilot:
        screen = await opened(pilot, 7)
        assert len(screen.items.view.items) == 3_019
        assert screen.items.view.totals.tokens == 1_480 + 3 * 3_000
        await pilot.press("end")
        await wait_for_text(pilot, "message 2999", "10,480")
        assert "3,019 of 3,019" in shown_lines(pilot)[0]
        assert screen.items.select(("tail", 0, 0))
        await wait_for_text(pilot, "── fresh tail: 64 messages, 192 stored tokens")


@pytest.mark.long
async def test_a_limit_of_tokens_says_by_which_tokens(
    database_file: DatabaseFactory, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("LCM_FRESH_TAIL_MAX_TOKENS", "500")
    async with open_sound_app(database_file("0.15.3"), size=WIDE) as pilot:
        screen = await opened(pilot, 1)
        assert screen.items.select(("tail", 0, 0))
        await wait_for(pilot, lambda: "of at most 500 tokens" in screen.text.text)
        assert "This list counts stored tokens. Compaction also counts" in " ".join(screen.text.text.split())


@pytest.mark.long
async def test_an_item_that_was_asked_for(database_file: DatabaseFactory):
    async with open_sound_app(database_file("0.15.3"), size=NARROW) as pilot:
        screen = await opened(pilot, 1, select=("summary", "sum_bb692ab9b90b6a49"))
        assert screen.items.selected == ("summary", "sum_bb692ab9b90b6a49", 0)
        await pilot.press("escape")
        screen = await opened(pilot, 1, select=("message", "865"))
        assert screen.items.selected == ("message", 865, 0)
        await pilot.press("escape")
        await opened(pilot, 1, select=("summary", "sum_gone"))
        await wait_until_said(pilot, "sum_gone is not in this context.")


@pytest.mark.long
async def test_a_stale_summary_is_named_in_the_context_and_stays_in_it_in_the_map(
    database_copy: DatabaseFactory,
):
    path, stale = database_copy("0.15.3"), "sum_4c4bd5292abfa225"
    [source, *_] = column(
        path, "SELECT parent_summary_id FROM summary_parents WHERE summary_id = ? ORDER BY ordinal", stale
    )
    async with open_sound_app(path) as pilot, await Database.open(path) as database:
        await opened(pilot, 1, select=("summary", stale))
        assert "stale" not in shown(pilot)
        operation = await rewritten(database, source)
        await wait_for_text(pilot, "D3 stale")
        await pilot.press("space")
        await wait_for_text(pilot, "D3 ●stale")
        await pilot.press("space")
        await resize(pilot, *WIDE)
        await dag_on(pilot, stale)
        await wait_for_text(pilot, f"D3 1 of 2 {stale} stale · in the context · ")
        await pilot.press("escape")
        await commit_plan(database, await database.read(plan_undo, operation))
        await wait_for(pilot, lambda: "stale" not in shown(pilot))


async def test_a_broken_summary_is_marked_and_gone_to(database_file: DatabaseFactory):
    async with open_app(database_file("0.15.3"), size=NARROW) as pilot:
        screen = await opened(pilot, 3)
        # Typed before it is known what is broken, the key waits for that.
        await pilot.press("exclamation_mark")
        await wait_for(pilot, lambda: screen.items.item == "sum_cc7a115ea76fd980")
        await pilot.press("home")
        await wait_for_text(pilot, "fallback · ")
        [line] = [line for line in shown_lines(pilot) if "fallback" in line]
        assert re.match("✗ +1 D2 +sum_cc7a115e ", line)
        await pilot.press("exclamation_mark")
        await wait_for(pilot, lambda: screen.items.item == "sum_cc7a115ea76fd980")
        await pilot.press("exclamation_mark")
        await settled(pilot)
        assert screen.items.item == "sum_cc7a115ea76fd980", "the only one"
        await pilot.press("home", *"/broken", "enter")
        await wait_for(pilot, lambda: screen.items.item == "sum_cc7a115ea76fd980")
        await pilot.resize_terminal(60, 15)
        await wait_for(pilot, lambda: any(re.match("✗ +1 D2 fallback ", line) for line in shown_lines(pilot)))


async def test_an_empty_context_says_so(database_copy: DatabaseFactory):
    path = database_copy("0.1.2")
    with changed(path) as connection:
        connection.execute("DELETE FROM context_items WHERE conversation_id = 1")
    async with open_sound_app(path, size=NARROW) as pilot:
        await opened(pilot, 1)
        assert "The context is empty: the model receives nothing of this conversation." in shown(pilot)
        await wait_for_text(pilot, "sent 0 of 128,000 tokens = 0.0 %")
        assert head(pilot)[1].startswith(" stored 0 · ")


# -- beside the list -------------------------------------------------------------------------------------


@pytest.mark.long
async def test_the_text_beside_the_list_and_what_the_model_gets(database_file: DatabaseFactory):
    async with open_sound_app(database_file("0.15.3"), size=WIDE) as pilot:
        screen = await opened(pilot, 2)
        await pilot.press("k")  # from the first item to the brief above it
        await wait_for_text(pilot, "Focus brief focus_0641d2bb900b47e2", "As the model receives it")
        await pilot.press("j")
        await wait_for(pilot, lambda: "248, counting rule of 0.8+" in screen.text.text)
        assert "Finding: def computeDigest" in screen.text.text
        assert "by focus_0641d2bb900b47e2" in screen.text.text
        assert "not sent focus brief: focus_0641d2bb900b47e2 replaces it" in screen.text.text
        await pilot.press("m")
        await wait_for(pilot, lambda: "<focus_brief id=" in screen.text.text)
        await pilot.press("m", "j")
        await wait_for(
            pilot, lambda: "The newest messages, which compaction may not touch" in screen.text.text
        )
        await pilot.press("j")
        await wait_for(pilot, lambda: "m569 #91" in screen.text.text)


@pytest.mark.long
async def test_a_narrow_screen_has_no_text_beside_the_list(database_file: DatabaseFactory):
    async with open_sound_app(database_file("0.15.3"), size=NARROW) as pilot:
        screen = await opened(pilot, 1)
        assert not screen.text.display
        await pilot.resize_terminal(*WIDE)
        await wait_for(pilot, lambda: "sum_4c4bd5292abfa225" in screen.text.text)
        assert screen.text.display
        await pilot.resize_terminal(*NARROW)
        await wait_for(pilot, lambda: not screen.text.display)


# -- the budget ------------------------------------------------------------------------------------------


@pytest.mark.long
async def test_the_budget_goes_in_steps_and_is_typed(database_file: DatabaseFactory):
    async with open_sound_app(database_file("0.15.3"), size=NARROW) as pilot:
        screen = await opened(pilot, 1)
        await pilot.press("plus")
        await wait_for_text(pilot, "sent 4,430 of 200,000 tokens = 2.2 %", "stored 3,304: ")
        for _ in range(9):
            await pilot.press("minus")
        await wait_for_text(pilot, "sent 3,110 of 4,000 tokens = 77.8 %", "stored 3,304: ")
        await pilot.press("B")
        assert screen.asking
        await pilot.press(*"2k", "enter")
        await wait_for_text(pilot, "sent 1,330 of 2,000 tokens = 66.5 %", "stored: over budget by 1,304")
        assert shown(pilot).endswith("esc As configured")
        await pilot.press("B", *"lots", "enter")
        await wait_until_refused(pilot, "“lots” is not a number of tokens")
        await pilot.press("escape")
        assert "what if: budget 2,000" in shown_lines(pilot)[0]
        assert pilot.app.session.budget == 128_000
        await pilot.press("escape")
        await wait_for_text(pilot, " of 128,000 tokens", " esc Back")
        await opened(pilot, 7)
        assert " of 128,000 tokens" in head(pilot)[0], "what was asked there holds there"
        assert "what if" not in shown_lines(pilot)[0]


async def test_the_budget_of_the_command_line(database_file: DatabaseFactory):
    async with open_sound_app(database_file("0.15.3"), size=NARROW, budget=16_000) as pilot:
        await opened(pilot, 1)
        await wait_for_text(pilot, "sent 4,430 of 16,000 tokens = 27.7 %")


# -- keys ------------------------------------------------------------------------------------------------


@pytest.mark.long
async def test_a_search_goes_from_match_to_match(database_file: DatabaseFactory):
    async with open_sound_app(database_file("0.15.3"), size=NARROW) as pilot:
        screen = await opened(pilot, 1)
        await pilot.press("slash", *"tool")
        await wait_for(pilot, lambda: screen.item() == 850)
        await pilot.press("enter", "n")
        await wait_for(pilot, lambda: screen.item() == 856)
        await pilot.press("N")
        await wait_for(pilot, lambda: screen.item() == 850)
        await pilot.press("N")
        await wait_for(pilot, lambda: screen.item() == 864)
        await pilot.press("escape", "slash", *"#384", "enter")
        await wait_for(pilot, lambda: screen.item() == 865)
        await pilot.press("slash", *"zebra", "enter")
        await wait_until_said(pilot, "No item of this context holds “zebra”.")
        assert screen.item() == 865
        await pilot.press("escape")
        assert pilot.app.screen is screen
        await pilot.press("escape")
        assert pilot.app.screen is not screen


@pytest.mark.long
async def test_the_border_of_the_fresh_tail_leads_to_the_message_there(database_file: DatabaseFactory):
    async with open_sound_app(database_file("0.15.3"), size=NARROW) as pilot:
        screen = await opened(pilot, 1)
        border = next(place for place, key in enumerate(screen.items.keys) if key[0] == "tail")
        await pilot.press("g", *["down"] * border)
        below = shown(pilot).partition("── fresh tail: ")[2].splitlines()
        first = next(line for line in below if "#" in line)
        await pilot.press("M")
        await wait_for(pilot, lambda: at(pilot.app.screen, "Conversation "))
        await settled(pilot)
        assert f"m{pilot.app.screen.selected_id()} " in first


@pytest.mark.long
async def test_from_an_item_to_other_screens(database_file: DatabaseFactory):
    async with open_sound_app(database_file("0.15.3"), size=NARROW) as pilot:
        screen = await opened(pilot, 1)
        for key, place in (("enter", "Context 1  sum_"), ("s", "Summary DAG"), ("b", "Focus briefs")):
            await pilot.press(key)
            await wait_for(pilot, lambda place=place: at(pilot.app.screen, place))
            await settled(pilot)
            if key != "b":
                assert "sum_4c4bd" in shown(pilot)
            pilot.app.pop_screen()
            await wait_for(pilot, lambda: pilot.app.screen is screen)
        await pilot.press("p")
        await wait_until_last_said(pilot, "Only leaves are written with a previous context")
        await pilot.press("M")
        await wait_until_last_said(pilot, "only messages appear in the conversation")
        assert screen.items.select(("message", 850, 0))
        await pilot.press("p")
        await wait_until_last_said(pilot, "only a summary has a previous context")
        await pilot.press("M")
        await wait_for(pilot, lambda: at(pilot.app.screen, "Conversation "))
        await settled(pilot)
        assert pilot.app.screen.selected_id() == "850"


async def test_the_cursor_begins_on_an_item_where_a_line_is_above_them(
    database_copy: DatabaseFactory,
):
    path = database_copy("0.15.3")
    with changed(path) as connection:
        connection.execute("DELETE FROM context_items WHERE conversation_id = 4 AND summary_id IS NOT NULL")
    async with open_sound_app(path, size=NARROW) as pilot:
        screen = await opened(pilot, 4)
        assert rows(pilot)[0].startswith("──")
        assert screen.items.counted_keys()[0] == 1
        assert screen.why_not("open") is None


@pytest.mark.long
async def test_lines_between_items_are_explained_and_a_brief_leads_to_all_briefs(
    database_file: DatabaseFactory,
):
    async with open_sound_app(database_file("0.15.3"), size=NARROW) as pilot:
        screen = await opened(pilot, 2)
        assert screen.items.select(("tail", 0, 0))
        await pilot.press("enter")
        await wait_for_text(pilot, "The rule protects")
        await pilot.press("escape", "y")
        await wait_until_last_said(pilot, "Nothing is selected.")
        await pilot.press("home", "y", "y")
        await wait_until_last_said(pilot, "Copied focus_0641d2bb900b47e2")
        await pilot.press("enter")
        await wait_for(pilot, lambda: at(pilot.app.screen, "Focus briefs"))


# -- live ------------------------------------------------------------------------------------------------


@pytest.mark.long
async def test_new_items_are_marked_and_nothing_moves(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    with Host(path) as host:
        async with open_sound_app(path, size=WIDE) as pilot:
            screen = await opened(pilot, 1)
            await pilot.press("j", "j")
            selected, top = screen.items.selected, screen.items.scroll_offset.y
            await wait_for(pilot, lambda: "sum_07742015d971b59d" in screen.text.text)
            text = screen.text.text
            for at in range(5):
                host.say(1, f"live {at}")
            await wait_for(pilot, lambda: screen.items.totals and screen.items.totals.items == 27)
            assert screen.items.selected == selected
            assert screen.items.scroll_offset.y == top
            assert screen.text.text == text
            await wait_for_text(
                pilot,
                "stored 3,329: ",
                "live 4",
                "23 messages, 2,364 stored tokens",
            )
            assert set(screen.items._fresh) <= {key for key in screen.items.keys if key[0] == "message"}


@pytest.mark.long
async def test_a_row_that_goes_is_noticed_at_once(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    with Host(path) as host:
        async with open_sound_app(path, size=NARROW) as pilot:
            screen = await opened(pilot, 1)
            host.write(
                ("PRAGMA defer_foreign_keys = 1", []), ("DELETE FROM messages WHERE message_id = 850", [])
            )
            await wait_for_text(pilot, "row is gone: the engine skips it", "1 dangling")
            await wait_for(pilot, lambda: screen.items.totals and screen.items.totals.tokens == 3304 - 168)


# -- an item ---------------------------------------------------------------------------------------------


@pytest.mark.long
async def test_an_item_as_text_and_as_the_model_gets_it(database_file: DatabaseFactory):
    (sent,) = [
        text
        for text in recorded("wrapped-summaries.json.gz")["0.15.3"]
        if text.startswith('<summary id="sum_4c4bd5292abfa225"')
    ]
    async with open_sound_app(database_file("0.15.3"), size=WIDE) as pilot:
        await settled(pilot)
        item = "sum_4c4bd5292abfa225"
        screen = await go_to(pilot, ItemScreen(conversation(pilot, 1), item))
        await settled(pilot)
        assert "<summary" not in screen.text.text
        assert "tokens   282, counting rule of 0.8+" in screen.text.text
        await pilot.press("m")
        assert screen.text.document[-1].text == sent
        await pilot.press("slash", *"parents", "enter")
        assert screen.selected_id() == item


@pytest.mark.long
async def test_a_message_as_the_model_gets_it(database_file: DatabaseFactory):
    async with open_sound_app(database_file("0.15.3"), size=WIDE) as pilot:
        await settled(pilot)
        screen = await go_to(pilot, ItemScreen(conversation(pilot, 1), 861, wrapped=True))
        await settled(pilot)
        text = screen.text.text
        assert "role: assistant" in text
        assert '"type": "toolCall"' in text
        assert '"arguments": {' in text
        await pilot.press("m")
        assert '"type"' not in screen.text.text


async def test_an_item_whose_row_is_gone(database_file: DatabaseFactory):
    async with open_sound_app(database_file("0.15.3-damaged"), size=NARROW) as pilot:
        await settled(pilot)
        await go_to(pilot, ItemScreen(conversation(pilot, 4), 286))
        await wait_for_text(pilot, "The row is missing; the engine skips the item.")
        await pilot.press("M")
        await wait_until_last_said(pilot, "only messages appear in the conversation")


# -- briefs ----------------------------------------------------------------------------------------------


@pytest.mark.long
async def test_all_briefs_with_the_one_in_force_marked(database_file: DatabaseFactory):
    async with open_sound_app(database_file("0.15.3"), size=NARROW) as pilot:
        await settled(pilot)
        screen = await walk_to(pilot, "BriefsScreen", of=2)
        await settled(pilot)
        lines = shown_lines(pilot)
        assert [line.split()[:2] for line in lines[2:5]] == [
            ["●", "active"],
            ["failed", "2026-03-04"],
            ["superseded", "2026-03-04"],
        ]
        assert "40/1,200" in lines[2]
        assert "sum_253c14ef1ca84d7c at ordinal 0" in screen.text.text
        await pilot.press("m")
        assert screen.text.text.startswith("role: user\n<focus_brief id=")
        await pilot.press("j")
        assert "It has no text." in screen.text.text
        await pilot.press("m", "m")
        await wait_until_last_said(pilot, "this brief is not sent to the model")


@pytest.mark.long
async def test_versions_without_briefs_and_conversations_without_any(database_file: DatabaseFactory):
    async with open_sound_app(database_file("0.8.2"), size=NARROW) as pilot:
        await settled(pilot)
        await walk_to(pilot, "BriefsScreen", of=1)
        await wait_for_text(pilot, "Focus briefs: not recorded by this version")
    async with open_sound_app(database_file("0.15.3"), size=NARROW) as pilot:
        await settled(pilot)
        await walk_to(pilot, "BriefsScreen", of=1)
        await wait_for_text(pilot, "This conversation has no focus briefs.")


# -- the bar ---------------------------------------------------------------------------------------------


@pytest.mark.long
async def test_the_bar_in_letters_its_legend_and_counts_that_differ(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("NO_COLOR", "1")
    path = new_database(tmp_path / "lcm.db")
    with building(path) as made:
        owner = made.conversation()
        for name, depth, tokens in (("sum_1", 1, 300), ("sum_2", 1, 300), ("sum_3", 0, 1)):
            made.summary(owner, name, depth=depth, in_context=True, token_count=tokens)
        made.message(owner, "word " * 20, token_count=100)
        made.message(owner, "x", token_count=50)
        made.message(owner, "y", role="tool", token_count=249)
    async with open_sound_app(path, size=WIDE) as pilot:
        await opened(pilot, owner)
        numbers, legend, _ = head(pilot)
        assert " of 128,000 tokens" in numbers
        assert legend.startswith(" stored 1,000: 1=D1 600 L=leaf 1 u=user 150 t=tool 249 ")
        await pilot.press("B", *"1000", "enter")
        await wait_for_text(pilot, "sent 252 of 1,000 tokens = 25.2 %")
        bar = head(pilot)[0].split("▕")[1].rstrip("▏")
        assert "".join(dict.fromkeys(bar)) == "1LUT░"
        assert bar.count("L") == 1, "of 1,000 tokens 1"
        [first] = [row for row in rows(pilot) if " sum_1 " in row]
        assert re.search(r" 300 ≠ ~13 +\d", first)
        await resize(pilot, *NARROW)
        assert any(" 300 ≠ ~13 " in row for row in rows(pilot))


@pytest.mark.long
async def test_a_reload_draws_rows_only_where_the_context_has_changed(
    database_copy: DatabaseFactory, monkeypatch: pytest.MonkeyPatch
):
    path = database_copy("0.15.3")
    with Host(path) as host:
        async with open_sound_app(path) as pilot:
            screen = await go_to(pilot, ContextScreen(conversation(pilot, 3)))
            await settled(pilot)
            draw, show = screen.items._draw, screen.show
            drawn = []
            reloads = []

            def counted(key, width: int):
                drawn.append(key)
                return draw(key, width)

            def reloaded(data) -> None:
                show(data)
                reloads.append(data)

            monkeypatch.setattr(screen, "show", reloaded)
            monkeypatch.setattr(screen.items, "_draw", counted)
            host.say(1, "another conversation")
            await wait_for(pilot, lambda: reloads)
            await settled(pilot)
            assert drawn == [], "nothing of this context has changed"
            host.say(3, "this conversation")
            await wait_for(pilot, lambda: len(reloads[-1].items) > len(reloads[0].items))
            await settled(pilot)
            assert 0 < len(drawn) <= 4 * len(screen.items.visible_keys)
            drawn.clear()
            await pilot.press("B", *"2000", "enter")
            await settled(pilot)
            assert set(screen.items.visible_keys) <= set(drawn), "what is sent has changed"


@pytest.mark.long
async def test_no_key_typed_right_behind_the_key_of_a_prompt_is_lost(database_copy: DatabaseFactory):
    async with open_app(database_copy("0.15.3")) as pilot:
        await pilot.press("c")
        await wait_for(pilot, lambda: at(pilot.app.screen, "Context "))
        await settled(pilot)
        screen = pilot.app.screen
        assert at(screen, "Context ")
        for key in "B64k":
            pilot.app.post_message(Key(key, key))
        await wait_for(pilot, lambda: screen.asking and screen.query_one(Prompt).value == "64k")


# -- the head --------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("size", [WIDE, NARROW, (60, 15)])
async def test_the_head_is_two_lines_where_nothing_is_wrong(
    database_file: DatabaseFactory, size: tuple[int, int]
):
    async with open_sound_app(database_file("0.15.3"), size=size) as pilot:
        screen = await opened(pilot, 1)
        await wait_for(pilot, lambda: screen.assembly.ledger is not None, "the assembly")
        await settled(pilot)
        lines = shown_lines(pilot)
        assert lines[1].startswith(" sent 4,430 of 128,000 tokens = 3.5 % ▕")
        assert lines[1].endswith("░▏")
        assert lines[2].startswith(" stored 3,304: ")
        assert "fresh tail 2,339" in lines[2]
        assert "sent" not in lines[2], "one figure alone is what is sent"
        assert "compaction" in lines[2]
        assert lines[3].split()[:3] == ["ordinal", "kind", "id"]


@pytest.mark.long
async def test_a_low_head_has_one_line_of_what_is_wrong(database_file: DatabaseFactory):
    async with open_sound_app(database_file("0.15.3"), size=(60, 15), budget=3_500) as pilot:
        screen = await opened(pilot, 1)
        await wait_for_text(pilot, "ordinal 0 · budget: the first that does not fit")
        assert screen.items.select(("message", 850, 0))
        await wait_for_text(pilot, "5 not sent: budget 1, hard limit 4")
        assert screen.head.size.height == 3
        await pilot.press("home")
        await wait_for_text(pilot, "ordinal 0 · budget: the first that does not fit")
        await resize(pilot, *NARROW)
        await wait_for_text(pilot, "5 not sent: budget 1", "ordinal 0 · budget: the first that does not fit")


@pytest.mark.long
async def test_the_shares_and_the_rules_stand_in_the_whole_request(database_file: DatabaseFactory):
    async with open_sound_app(database_file("0.15.3"), size=NARROW) as pilot:
        await opened(pilot, 1)
        await pilot.press("m", "home", "enter")
        await wait_for_text(
            pilot,
            "engine      as engine 0.15 sends it; ",
            "shares      always sent 3,079 (70%), recent 0",
            "root 702",
        )


@pytest.mark.parametrize("width", range(PREVIEW_FROM, 200, 7))
def test_the_preview_of_an_item_gets_what_is_left_and_an_id_never_more_than_it_needs(width: int):
    layout = columns(width, ID_CELLS)
    cells = dict(zip((column.name for column in layout.columns), layout.widths, strict=True))
    assert sum(layout.widths) + len(layout.widths) - 1 == width
    assert cells["preview"] >= 12
    assert cells["id"] <= ID_CELLS
    assert width < 160 or cells["preview"] == max(cells.values())
