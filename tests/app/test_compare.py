"""Two contexts compared on the screen."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lcm_core.base.records import ConversationId
from lcm_core.base.text import cell_width
from lcm_core.engine.assembly import AssemblySettings, assemble
from lcm_core.engine.items import ContextMessages, ResolvedItem
from lcm_core.engine.messages import Origin, OriginKind, Role, SentMessage
from lcm_core.engine.rules import RULES_0_1
from lcm_core.engine.sent import compare_contexts, sent_now
from textual.pilot import Pilot

from lcm_tui.kit import places
from lcm_tui.kit.diff import draw, lay_out
from lcm_tui.kit.spans import text_of
from lcm_tui.screens.comparison import CompareScreen
from lcm_tui.screens.context import comparison
from tests.app.host import Host
from tests.app.support import (
    NARROW,
    WIDE,
    at,
    open_app,
    said,
    settled,
    shown,
    shown_lines,
    wait_for,
    wait_for_text,
    wait_until_refused,
    wait_until_said,
)
from tests.app.test_context import open_sound_app
from tests.app.test_context_assembled import assembled
from tests.conftest import DatabaseFactory
from tests.core.rollouts import THREAD, as_rollout, message, rollout_at
from tests.databases import value


async def compared(pilot: Pilot[int], wanted: str):
    """What is typed on the context of conversation 1 compared with it."""
    await assembled(pilot, 1)
    await pilot.press("D", *wanted, "enter")
    await wait_for(pilot, lambda: at(pilot.app.screen, "Compare "))
    screen = pilot.app.screen
    assert at(screen, "Compare ")
    await wait_for(pilot, lambda: screen.table.laid is not None)
    await settled(pilot)
    return screen


@pytest.mark.long
async def test_another_budget_one_under_the_other_and_side_by_side(database_file: DatabaseFactory):
    async with open_sound_app(database_file("0.15.3"), size=NARROW, budget=3_500) as pilot:
        screen = await compared(pilot, "128k")
        lines = shown_lines(pilot)
        assert lines[1] == " - now · under 3,500 · 17 messages, 2,813 tokens · 5 not sent"
        assert lines[2] == " + under 128,000 · 22 messages, 4,430 tokens"
        assert "5 only in the second · 0 changed · 17 unchanged" in lines[3]
        assert lines[4].startswith("+▌== user · sum_4c4bd5292abfa225 d3")
        assert screen.selected_id() == "sum_4c4bd5292abfa225"
        fold = next(key for key in screen.table.keys if key.hidden)
        assert screen.table.select(fold)
        await wait_for_text(pilot, "── 159 unchanged lines · ")
        folded = len(screen.table.keys)
        await pilot.press("enter")
        await wait_for(pilot, lambda: len(screen.table.keys) > folded)
        await pilot.press("v")
        await wait_for(pilot, lambda: screen.table.laid and screen.table.laid.side_by_side)
        await pilot.press("g")
        assert shown_lines(pilot)[4].split("│")[1].startswith(" + == user · sum_4c4bd5292abfa225")
        await pilot.press("slash", *"Bilal", "enter")
        await wait_for(pilot, lambda: "Bilal" in shown(pilot) or "is not" in said(pilot)[-1])


async def test_the_change_that_is_counted_is_marked_and_in_sight(database_file: DatabaseFactory):
    def seen(screen: CompareScreen[Any], change: int) -> tuple[list[int], int]:
        """The places of the marked lines on the screen, and how many lines of a change would have room."""
        lines = [at for at, line in enumerate(shown_lines(pilot)) if line[1:2] == "▌"]
        laid = screen.table.laid
        assert laid is not None
        return lines, min(
            sum(laid.hunk_of(piece) == change for piece in laid.pieces), screen.table.size.height
        )

    async with open_sound_app(database_file("0.15.3"), size=NARROW, budget=3_500) as pilot:
        screen = await compared(pilot, "#2 64k")
        for number in range(2, 6):
            await pilot.press("]")
            await wait_for_text(pilot, f"change {number} of ")
            lines, room = seen(screen, number - 1)
            assert len(lines) == room
            assert lines[0] == screen.table.region.y + screen.table.cursor - screen.table.scroll_offset.y
        assert [one for one in screen.commands if "side" in screen.told(one).title] == ["layout"], "one key"
        await pilot.press("v")
        await wait_for(pilot, lambda: screen.table.laid and screen.table.laid.side_by_side)
        await wait_for_text(pilot, "v Unified")
        await settled(pilot)
        lines, room = seen(screen, 4)
        assert len(lines) == room > 0


@pytest.mark.long
async def test_another_conversation_change_by_change(database_file: DatabaseFactory):
    async with open_sound_app(database_file("0.15.3"), size=WIDE) as pilot:
        screen = await compared(pilot, "#2 64k")
        assert shown_lines(pilot)[0].startswith(" Compare  1 with 2")
        assert shown_lines(pilot)[2].startswith(" + conversation 2 · under 64,000 · 26 messages")
        assert screen.table.laid is not None
        assert len(screen.table.laid.hunks) > 3
        places = []
        for _ in range(3):
            places.append(screen.table.cursor)
            await pilot.press("right_square_bracket")
        assert places == sorted(set(places))
        assert "change 4 of" in shown_lines(pilot)[0]
        await pilot.press("left_square_bracket")
        assert screen.table.cursor == places[-1]


@pytest.mark.long
async def test_how_it_was_when_the_screen_was_opened(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    with Host(path) as host:
        async with open_sound_app(path, size=NARROW) as pilot:
            context = await assembled(pilot, 1)
            number = host.say(1, "Is the cache warm?")
            await wait_for_text(pilot, " sent 4,442 of ")
            await pilot.press("D", *"opened", "enter")
            await wait_for_text(pilot, "22 messages, 4,430 of 128,000", f"+▌== user · message {number}")
            assert "1 only in the second" in shown(pilot)
            host.say(1, "And now?")
            await wait_for_text(pilot, "+▌And now?", "2 only in the second")
            await pilot.press("escape")
            await wait_for(pilot, lambda: pilot.app.screen is context)


@pytest.mark.long
async def test_what_cannot_be_compared_is_said(database_file: DatabaseFactory):
    async with open_sound_app(database_file("0.15.3"), size=NARROW) as pilot:
        context = await assembled(pilot, 1)
        await pilot.press("D", *"yesterday", "enter")
        await wait_until_refused(
            pilot,
            "“yesterday” was not understood. Use a budget (64k), a conversation (#3), a snapshot "
            "(asm_…), a point of the past (op_… or a time), “now” or “opened”.",
        )
        await pilot.press("escape", "D", *"128k", "enter")
        await wait_until_refused(pilot, "That is this context itself: choose another budget or conversation.")
        assert pilot.app.screen is context


def sent(texts: list[str]) -> Iterator[ResolvedItem]:
    """Messages of the user that say these texts."""
    for place, text in enumerate(texts):
        origin = Origin(OriginKind.MESSAGE, place, message_id=place, stored_tokens=1)
        yield ResolvedItem(place, SentMessage(Role.USER, text, origin, 1), True, "user", 1, 1)


def difference(old: list[str], new: list[str]):
    """The difference of two contexts of such messages."""
    settings_ = AssemblySettings(1_000_000)
    left, right = (
        assemble(ContextMessages(tuple(sent(texts))), settings_, RULES_0_1) for texts in (old, new)
    )
    return compare_contexts(sent_now(left), sent_now(right))


def test_a_typed_time_is_written_as_the_past_writes_it():
    typed = comparison("2026-03-03 09:00", places.Side(ConversationId(1), 8_000, "now"), None, UTC)
    assert typed.left.when == "at 2026-03-03 09:00:00Z"


TEXTS = st.lists(st.text(st.sampled_from("ab \n\t缓😀é\u202e\x1b"), max_size=60), max_size=6)


@settings(max_examples=60, deadline=None)
@given(TEXTS, TEXTS, st.integers(8, 60), st.booleans())
def test_every_changed_line_is_shown_and_none_is_wider_than_the_screen(
    old: list[str], new: list[str], width: int, beside: bool
):
    found = difference(old, new)
    laid = lay_out(found.diff, width, side_by_side=beside)
    assert len(laid.pieces) == len(set(laid.pieces))
    assert len(laid.hunks) == len(found.diff.hunks)
    for piece in laid.pieces:
        assert cell_width(text_of(draw(laid, piece))) <= max(width, 17)
    shown_rows = {piece.row for piece in laid.pieces if not piece.hidden}
    assert {at for at, row in enumerate(laid.rows) if row.hunk is not None} <= shown_rows
    hidden = sum(piece.hidden for piece in laid.pieces)
    assert len(shown_rows) + hidden == len(laid.rows)


def test_a_long_line_is_wrapped_and_the_word_that_changed_is_marked(tmp_path: Path):
    found = difference(
        ["the retry limit is " + "very " * 20 + "low"], ["the retry limit is " + "very " * 20 + "high"]
    )
    laid = lay_out(found.diff, 40, side_by_side=False)
    drawn = [draw(laid, piece) for piece in laid.pieces]
    marked = ["".join(span.text for span in line if span.style == "match") for line in drawn]
    assert [text for text in marked if text] == ["low", "high"]
    assert sum(text_of(line).startswith("- ") for line in drawn) == 4


# -- a conversation and its Codex session ----------------------------------------------------------------


@pytest.mark.long
async def test_a_conversation_is_compared_with_its_codex_session(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    session = value(path, "SELECT session_id FROM conversations WHERE conversation_id = 7")
    folder = path.parent / ".openclaw" / "agents" / "ops"
    (folder / "sessions").mkdir(parents=True)
    binding = folder / "sessions" / f"{session}.jsonl.codex-app-server.json"
    binding.write_text(json.dumps({"threadId": THREAD}))
    lines = as_rollout(path, 7)
    rollout_at(folder / "agent" / "codex-home").write_text("\n".join([*lines, message("user", "not stored")]))
    async with open_app(path, size=NARROW, state_dir=path.parent / ".openclaw") as pilot:
        await settled(pilot)
        screen = pilot.app.screen
        assert at(screen, "Conversations")
        assert screen.list.table.select(7)
        await pilot.press("enter")
        await wait_for(pilot, lambda: "compare" in pilot.app.screen.in_key_bar(), "the key")  # type: ignore[attr-defined]
        await pilot.press("D")
        await wait_for_text(pilot, "rows: 1 only in Codex")
        assert "0 only in the conversation" in shown(pilot)
        await pilot.press("right_square_bracket")
        await wait_for_text(pilot, "not stored")
        await pilot.press("y", "y")
        await wait_for(pilot, lambda: pilot.app.clipboard == f"line {len(lines) + 1:,}")
        await pilot.press("escape", "escape")
        await settled(pilot)
        assert screen.list.table.select(1)
        await pilot.press("enter")
        await settled(pilot)
        alone = pilot.app.screen
        assert at(alone, "Conversation ")
        await wait_for(pilot, lambda: alone.why_not("compare"), "what is known of Codex")
        assert "compare" not in alone.in_key_bar()
        await pilot.press("D")
        await wait_until_said(pilot, "is bound to no Codex session")
        assert pilot.app.screen is alone, "there is nothing to show beside"
