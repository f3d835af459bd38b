"""Compacting from the app: forecast without a call, made pass by pass, stopped, given up, taken back."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from lcm_core.api import Database, ExtractiveSummarizer, plan_undo_batch
from lcm_core.change.commit import commit
from lcm_core.writers.request import SummarizerError
from textual.pilot import Pilot
from textual.screen import ModalScreen

from lcm_tui.tables.compaction import Passes
from tests.app.host import Host
from tests.app.support import (
    NARROW,
    at,
    open_app,
    settled,
    shown,
    wait_for,
    wait_for_text,
    wait_until_refused,
    wait_until_said,
)
from tests.change.support import context_of, dump
from tests.conftest import DatabaseFactory
from tests.databases import value
from tests.operations.compacting import start_database

#: The first messages of conversation 1 that make a chunk, as the engine's own numbers below select them.
FIRST, SECOND = list(range(1, 15)), list(range(15, 31))


@pytest.fixture(autouse=True)
def small_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks small enough for a small database; nobody is asked about backups."""
    own = tmp_path / "own.toml"
    own.write_text('backup_offer_mb = 0\n[summary]\nprovider = "extractive"\n')
    monkeypatch.setenv("LCM_TUI_CONFIG", str(own))
    monkeypatch.setenv("LCM_FRESH_TAIL_COUNT", "10")
    monkeypatch.setenv("LCM_LEAF_CHUNK_TOKENS", "1400")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Seven conversations of raw messages, as the present engine wrote them."""
    return start_database("0.15.3", tmp_path / "lcm.db")


def answered_by(monkeypatch: pytest.MonkeyPatch, *answers):
    """The model does something else at its first call, at its second ...; later ones it answers."""
    calls = []
    waiting, ask = list(answers), ExtractiveSummarizer.__call__

    async def call(self: ExtractiveSummarizer, request, /):
        calls.append(request)
        if waiting:
            await waiting.pop(0)(request)
        return await ask(self, request)

    monkeypatch.setattr(ExtractiveSummarizer, "__call__", call)
    return calls


async def opened(pilot: Pilot[int], conversation_id: int = 1):
    """The screen of a conversation, its passes forecast."""
    await settled(pilot)
    first = pilot.app.screen
    assert at(first, "Conversations")
    assert first.list.table.select(conversation_id)
    await pilot.press("C")
    await wait_for(pilot, lambda: at(pilot.app.screen, "Compact "))
    screen = pilot.app.screen
    assert at(screen, "Compact ")
    await wait_for(pilot, lambda: screen.list.table.keys)
    await settled(pilot)
    return screen


async def pick_mode(pilot: Pilot[int], mode: str) -> None:
    """Pick a mode by its whole name."""
    await pilot.press("1")
    await wait_for_text(pilot, "single root")
    await pilot.press(*mode, "enter")
    await wait_for_text(pilot, f"mode: {mode} ")
    await settled(pilot)


async def made(pilot: Pilot[int], screen, count: int) -> None:
    """So many summaries have been made, and nothing more is."""
    await wait_for(pilot, lambda: len(screen.compaction.made) >= count and not screen.compaction.running)
    await settled(pilot)
    assert len(screen.compaction.made) == count


def sources(path: Path, conversation_id: int = 1) -> list[list[int]]:
    """What each leaf of a context was made from."""
    leaves = [ref for _, ref in context_of(path, conversation_id) if isinstance(ref, str)]
    query = "SELECT group_concat(message_id) FROM summary_messages WHERE summary_id = ?"
    return [sorted(map(int, str(value(path, query, leaf)).split(","))) for leaf in leaves]


@pytest.mark.long
async def test_every_pass_is_shown_before_any_call(path: Path, monkeypatch: pytest.MonkeyPatch):
    calls, before = answered_by(monkeypatch), dump(path)
    async with open_app(path, size=NARROW) as pilot:
        screen = await opened(pilot)
        await wait_for_text(
            pilot,
            "tokens  10,182 → ~",
            "cost nothing",
            "1 leaf     m1 to m14                        14    1,320",
            "2 leaf     m15 to m30                       16    1,392",
            "Pass 1 would make a leaf",
            "[2026-04-14 15:13 UTC | user]",
        )
        await pilot.press("1")
        await wait_for_text(pilot, "7 passes, saves ~", "14 messages → 1 summary, saves ~", "nothing to do")
        await pilot.press("escape")
        for mode in ("one leaf", "leaf, then condense", "until under", "single root"):
            await pick_mode(pilot, mode)
            assert f"mode: {mode} " in shown(pilot)
        assert "depth 1" in "\n".join(str(screen.list.draw(number, 79)) for number in screen.list.table.keys)
    assert (calls, dump(path)) == ([], before)


@pytest.mark.long
async def test_one_pass_then_the_rest_then_all_of_it_back(path: Path):
    before = dump(path)
    async with open_app(path, size=NARROW) as pilot:
        screen = await opened(pilot)
        forecast = [one.refs for one in screen.list.passes.coming.values()]
        await pilot.press("a")
        await wait_for_text(pilot, "ordinals 0 to 13 become one summary", "a Accept")
        await pilot.press("a")
        await made(pilot, screen, 1)
        assert sources(path) == [FIRST]
        assert screen.list.table.selected == 2
        await pilot.press("A")
        await made(pilot, screen, len(forecast))
        assert [tuple(refs) for refs in sources(path)] == forecast
        await wait_for_text(pilot, f"{len(forecast)} summaries, -", "passes  no more (sweep: all messages")
        assert screen.why_not("apply")
        batch = screen.compaction.batch
        await pilot.press("escape")
        await wait_for(pilot, lambda: pilot.app.screen is not screen)
        await wait_until_said(pilot, f"{len(forecast)} summaries were made. To undo all of it: u.")
    assert value(path, "SELECT count(DISTINCT batch) FROM lcm_tui_operations") == 1
    async with await Database.open(path) as database:
        plans = await database.read(plan_undo_batch, batch)
    for plan in plans:
        commit(path, plan)
    assert dump(path) == before


@pytest.mark.long
async def test_before_it_is_three_keys_away_until_it_is_undone(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")  # its host compacted it long before
    async with open_app(path, size=NARROW) as pilot:
        screen = await opened(pilot)
        await one_pass(pilot, screen)
        await made(pilot, screen, 1)
        batch = screen.compaction.batch
        await pilot.press("escape")
        await wait_for(pilot, lambda: at(pilot.app.screen, "Conversations"))
        await pilot.press("c")
        await wait_for(pilot, lambda: at(pilot.app.screen, "Context "))
        first = value(path, "SELECT min(id) FROM lcm_tui_operations WHERE title LIKE 'Compact%'")
        host = "2026-03-04T11:59:23.000Z"
        await pilot.press("D")
        await wait_for_text(pilot, "1 summary made", "before the compaction of 03-04 11:59")
        offered = [one.text for one in pilot.app.screen.prompt.list.keys]
        assert offered[:2] == [f"before:{first}", host]
        assert len(offered) == len(set(offered))
        await pilot.press("enter")
        await wait_for(pilot, lambda: at(pilot.app.screen, "Compare "))
        await wait_for_text(pilot, "- before the compaction of ", "only in the first")
        await pilot.press("escape")
        async with await Database.open(path) as database:
            plans = await database.read(plan_undo_batch, batch)
        for plan in plans:
            commit(path, plan)
        await pilot.press("D")
        await wait_for_text(pilot, "before the compaction of 03-04 11:59")
        assert pilot.app.screen.prompt.list.keys[0].text == host, "what was undone is no compaction now"


@pytest.mark.long
async def test_a_draft_waits_for_a_word(path: Path):
    async with open_app(path) as pilot:
        screen = await opened(pilot)
        await pilot.press("3", "A")
        await wait_for(pilot, lambda: screen.compaction.held is not None)
        await wait_for_text(pilot, "a draft that waits for your decision", "The summary")
        await wait_for_text(pilot, "of what is named most and last", "3 of 3 rules")
        assert sources(path) == []
        await pilot.press("a")
        await wait_for(pilot, lambda: len(screen.compaction.made) == 1 and screen.compaction.held is not None)
        assert sources(path) == [FIRST]
        await pilot.press("escape")
        await wait_for(pilot, lambda: isinstance(pilot.app.screen, ModalScreen))
        await wait_for_text(pilot, "Keep this draft?", "m15 to m30")
        await pilot.press("escape")
        await wait_for(pilot, lambda: pilot.app.screen is screen)
        assert screen.compaction.held is not None
        await pilot.press("escape")
        await wait_for(pilot, lambda: isinstance(pilot.app.screen, ModalScreen))
        await pilot.press("x")
        await wait_for(pilot, lambda: not screen.compaction.running)
        await wait_for_text(pilot, "discarded")
        assert sources(path) == [FIRST]
        await settled(pilot)
        await pilot.press("a")
        await wait_for(pilot, lambda: screen.compaction.held is not None)
        await pilot.press("A")
        await made(pilot, screen, 7)


async def test_a_draft_that_waits_is_listed_as_drafted(path: Path):
    async with open_app(path) as pilot:
        screen = await opened(pilot)
        planned = screen.list.passes.coming
        await pilot.press("a")
        await wait_for(pilot, lambda: screen.compaction.held is not None)
        held = screen.compaction.held
        await wait_for_text(pilot, f" {held.text.tokens:,} ▸ draft")
        passes = Passes((), {1: planned[2], 2: planned[2]}, held)  # planned again after somebody has written
        cells = passes.cells(1, "")
        assert (passes.numbers(), passes.refs(1)) == ([1, 2], held.chunk.refs)
        assert (cells["count"].text, cells["into"].text) == (
            f"{len(held.chunk.refs)}",
            f"{held.text.tokens:,}",
        )
        assert Passes((), {}, held).numbers() == [1], "nothing else is due any more"


async def one_pass(pilot: Pilot[int], screen) -> None:
    """Draft the next pass, read what it would do, and accept it: the same key twice."""
    await pilot.press("a")
    await wait_for_text(pilot, "a draft that waits for your decision", "become one summary", "a Accept")
    await pilot.press("a")


@pytest.mark.long
async def test_the_rows_of_a_draft_are_previewed_and_accepted_there(path: Path):
    async with open_app(path, size=NARROW) as pilot:
        screen = await opened(pilot)
        assert (screen.why_not("other-view") or "").startswith("no draft waits")
        await pilot.press("a")
        await wait_for(pilot, lambda: screen.compaction.held is not None)
        held, before = screen.compaction.held, dump(path)
        await pilot.press("m")
        await wait_for_text(pilot, "Accept pass 1", "- removed      0      – user      m1 ", "[Ordinals")
        await pilot.press("escape")
        assert screen.compaction.held is held
        assert dump(path) == before
        await pilot.press("m")
        await wait_for_text(pilot, "- removed      0      – user      m1 ")
        await pilot.press("a")
        await made(pilot, screen, 1)
        assert held is not None
        assert held.summary_id in [ref for _, ref in context_of(path, 1)]
        await pilot.press("escape")
        await wait_until_said(pilot, "1 summary was made. To undo it: u.")
        await wait_for_text(pilot, "Compact 14 messages (1,320 ")


async def put_off(pilot: Pilot[int], screen, answer: str) -> None:
    """Ask for the next pass, and say so to its draft."""
    await pilot.press("a")
    await wait_for(pilot, lambda: screen.compaction.held is not None)
    await pilot.press("escape")
    await wait_for(pilot, lambda: isinstance(pilot.app.screen, ModalScreen))
    await pilot.press(answer)
    await wait_for(pilot, lambda: not screen.compaction.running)
    await settled(pilot)


@pytest.mark.long
async def test_a_draft_that_is_kept_is_not_paid_for_twice(path: Path, monkeypatch: pytest.MonkeyPatch):
    calls = answered_by(monkeypatch)
    async with open_app(path) as pilot:
        screen = await opened(pilot)
        await pilot.press("3")
        await put_off(pilot, screen, "k")
        await wait_for_text(pilot, "kept")
        await pilot.press("escape")
        await wait_for(pilot, lambda: pilot.app.screen is not screen)
        screen = await opened(pilot)
        await one_pass(pilot, screen)
        await made(pilot, screen, 1)
        await wait_for(pilot, lambda: screen.title_bar.note == "1 made", "the note without the batch")
        assert (len(calls), sources(path)) == (1, [FIRST])
        await pilot.press("3")
        await put_off(pilot, screen, "x")
        await put_off(pilot, screen, "a")
        assert (len(calls), sources(path)) == (3, [FIRST, SECOND])
        assert len(pilot.app.session.paid) == 0


@pytest.mark.long
async def test_tokens_to_come_under_and_the_tail_are_typed(path: Path):
    async with open_app(path, size=NARROW) as pilot:
        screen = await opened(pilot)
        assert "(2) target: none" in shown(pilot), "it applies to another mode"
        await pilot.press("2", *"9k", "enter")
        await settled(pilot)
        assert "mode: until under  (2) target: 9,000  (3) accept" in shown(pilot)
        assert screen.wanted() == ("until-under", 9_000)
        await pilot.press("2", *"60%", "enter")
        await settled(pilot)
        assert screen.wanted() == ("until-under", 76_800)
        assert "is already below 76,800" in shown(pilot)
        await pilot.press("2")
        await wait_for_text(pilot, "the budget  128,000 tokens", "10 %")
        await pilot.press("enter")
        await settled(pilot)
        assert screen.wanted() == ("until-under", 128_000)
        await pilot.press("2", *"much", "enter")
        await wait_until_refused(pilot, "“much” is neither a number of tokens")
        await pilot.press("escape")
        await pick_mode(pilot, "sweep")
        await pilot.press("number_sign", *"500", "enter")
        await settled(pilot)
        assert "(#) tail: 500" in shown(pilot)
        assert "All raw messages are in the fresh tail" in shown(pilot)
        assert "tail    all 121 messages, 10,182 tokens (rule: the newest 500)" in shown(pilot)
        assert "passes  none (sweep: all messages outside the fresh tail, then summaries)" in shown(pilot)
        await pilot.press("enter")
        await wait_for_text(pilot, "(#) tail: 62", "1 leaf     m1 to m14")
        await pilot.press("number_sign", "enter")
        await wait_for_text(pilot, "1 leaf     m1 to m14")


@pytest.mark.long
async def test_its_keys_are_told_in_its_own_words(path: Path):
    async with open_app(path) as pilot:
        screen = await opened(pilot)
        assert shown(pilot).splitlines()[-1].startswith(" a Draft 1 pass  A Run all  enter Whole text")
        await pilot.press("question_mark")
        await wait_for_text(pilot, "Draft the next pass and show it")
        assert screen.told("history").title == "History"


@pytest.mark.long
async def test_a_call_that_fails_is_a_sentence_and_costs_nothing_made(
    path: Path, monkeypatch: pytest.MonkeyPatch
):
    async def answer(request) -> None:
        del request

    async def fail(request) -> None:
        raise SummarizerError(f"The fake is ill after {len(request.text) > 0} text.")

    answered_by(monkeypatch, answer, fail)
    async with open_app(path) as pilot:
        screen = await opened(pilot)
        await pilot.press("A")
        await made(pilot, screen, 1)
        await wait_for_text(pilot, "The fake is ill after True text.")
        assert sources(path) == [FIRST]
        await pilot.press("A")
        await made(pilot, screen, 7)
        assert "The fake is ill" not in shown(pilot)
        assert sources(path)[:2] == [FIRST, SECOND]


@pytest.mark.long
async def test_stopped_after_the_pass_at_hand_and_given_up(path: Path, monkeypatch: pytest.MonkeyPatch):
    goes_on, cancelled = asyncio.Event(), []

    async def wait(request) -> None:
        await goes_on.wait()

    async def hang(request) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(request)
            raise

    answered_by(monkeypatch, wait, hang)
    async with open_app(path) as pilot:
        screen = await opened(pilot)
        await pilot.press("A")
        await wait_for(pilot, lambda: screen.compaction.is_asking)
        assert screen.why_not("choice-1")
        await pilot.press("escape")
        await wait_for_text(pilot, "then stops")
        goes_on.set()
        await made(pilot, screen, 1)
        await pilot.press("a")
        await wait_for(pilot, lambda: screen.compaction.is_asking)
        await pilot.press("escape", "escape")
        await wait_for_text(pilot, "The call was given up")
        await wait_for(pilot, lambda: not screen.compaction.running)
        assert len(cancelled) == 1
        assert sources(path) == [FIRST]
        assert pilot.app.screen is screen


@pytest.mark.long
async def test_a_host_writes_meanwhile(path: Path, monkeypatch: pytest.MonkeyPatch):
    with Host(path) as host:

        async def change(request) -> None:
            host.say(1, "What is new?")
            host.write(("DELETE FROM context_items WHERE conversation_id = 1 AND message_id = 3", []))

        answered_by(monkeypatch, change)
        async with open_app(path) as pilot:
            screen = await opened(pilot)
            await one_pass(pilot, screen)
            await wait_for_text(pilot, "changed", "pass 2: waiting draft")
            await pilot.press("a")
            await made(pilot, screen, 1)
            await wait_for_text(pilot, "changed", "made")
            assert sources(path) == [[number for number in range(1, 16) if number != 3]]
            host.write(("UPDATE messages SET token_count = 1300 WHERE message_id = 16", []))
            await wait_for_text(pilot, "leaf     m16 to m18 ")


@pytest.mark.long
async def test_one_leaf_and_no_more(path: Path):
    async with open_app(path) as pilot:
        screen = await opened(pilot)
        await pick_mode(pilot, "one leaf")
        assert screen.list.table.keys == [1]
        await pilot.press("A")
        await made(pilot, screen, 1)
        assert sources(path) == [FIRST]
        assert screen.list.passes.coming[2].refs[0] == 15


@pytest.mark.long
async def test_without_a_key_it_is_forecast_and_not_made(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "own.toml").write_text('[summary]\nprovider = "anthropic"\n')
    async with open_app(path, state_dir=tmp_path) as pilot:
        screen = await opened(pilot)
        assert "m1 to m14" in shown(pilot)
        reason = screen.why_not("apply")
        assert reason
        assert "key" in reason


@pytest.mark.long
async def test_a_backup_is_offered_before_the_first_change(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "own.toml").write_text('backup_offer_mb = 100\n[summary]\nprovider = "extractive"\n')
    calls = answered_by(monkeypatch)
    async with open_app(path) as pilot:
        screen = await opened(pilot)
        await wait_for_text(pilot, "(b) back up first: yes, ")
        assert (calls, screen.compaction.done) == ([], [])
        await pilot.press("a")
        await wait_for_text(pilot, "a draft that waits for your decision", "a Accept")
        assert not list(path.parent.glob("*.backup")), "a draft changes nothing"
        await pilot.press("a")
        await made(pilot, screen, 1)
        assert list(path.parent.glob("*.backup"))


async def test_engines_from_1_1_on_offer_the_current_turn(
    database_copy: DatabaseFactory, monkeypatch: pytest.MonkeyPatch
):
    path = database_copy("1.1.0-shapes")
    monkeypatch.setenv("LCM_FRESH_TAIL_COUNT", "2")
    async with open_app(path, size=NARROW) as pilot:
        await settled(pilot)
        first = pilot.app.screen
        assert at(first, "Conversations")
        assert first.list.table.select(1)
        await pilot.press("C")
        await wait_for_text(pilot, "No pass: the text says why.")
        await pilot.press("1")
        await wait_for_text(pilot, "sweep, current turn too  4 messages → 1 summary, saves ~")
        await pilot.press("enter")
        await wait_for_text(pilot, "mode: sweep, current turn too", "1 leaf     m12 to m15")
        await pilot.press("A")
        screen = pilot.app.screen
        assert at(screen, "Compact ")
        await made(pilot, screen, 1)
    assert sources(path)[-1] == [12, 13, 14, 15]
