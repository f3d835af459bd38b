"""The context screen under a budget: what is sent, what is not and why, the messages, and a file of them."""

from __future__ import annotations

import asyncio
import json
import stat
from pathlib import Path

import pytest
from lcm_core.engine.assembly import AssemblyStep
from lcm_core.store.context_view import Distance
from textual.pilot import Pilot

from lcm_tui.kit.spans import text_of
from lcm_tui.screens.context import Assembly, ContextScreen
from lcm_tui.tables.sent import distance_line
from tests.app.host import Host
from tests.app.support import (
    NARROW,
    WIDE,
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
    wait_until_last_said,
)
from tests.app.test_context import changed, open_sound_app
from tests.conftest import DatabaseFactory
from tests.databases import run


async def assembled(pilot: Pilot[int], number: int) -> ContextScreen:
    """The context of a conversation, read and assembled."""
    await settled(pilot)
    screen = await go_to(pilot, ContextScreen(conversation(pilot, number)))
    await wait_for(pilot, lambda: screen.assembly.ledger is not None and screen.items.was_read)
    await settled(pilot)
    return screen


def account(pilot: Pilot[int]) -> list[str]:
    """How much is sent; what is stored, and the next compaction; what is left out or adjusted."""
    return shown_lines(pilot)[1:4]


@pytest.mark.long
async def test_the_budget_decides_live_what_is_sent(database_file: DatabaseFactory):
    async with open_sound_app(database_file("0.15.3"), size=NARROW) as pilot:
        screen = await assembled(pilot, 1)
        assert account(pilot)[0].startswith(" sent 4,430 of 128,000 tokens = 3.5 % ▕")
        assert account(pilot)[1].startswith(" stored 3,304: summaries 965 · fresh tail 2,339 · 92,696 to")
        assert shown_lines(pilot)[4].split()[:5] == ["0", "D3", "sum_4c4bd529", "282", "379"]
        await pilot.press("B", *"3500", "enter")
        await wait_for_text(pilot, "5 not sent", "compaction is due")
        lines = shown_lines(pilot)
        assert lines[4] == " ordinal 0 · budget: the first that does not fit: 363 tokens"
        assert [line.split()[:6] for line in lines[6:8]] == [
            ["-", "0", "D3", "sum_4c4bd529", "282", "cut:"],
            ["-", "1", "D3", "sum_6f28c0a7", "227", "cut:"],
        ]
        assert lines[11].split()[:7] == ["│", "4", "user", "m848", "#367", "85", "92"]
        for _ in range(3):
            await pilot.press("plus")
        await wait_for_text(pilot, "sent 4,430 of 16,000 tokens = 27.7 %")
        assert "not sent" not in shown(pilot)
        assert screen.assembly.ledger is not None
        assert screen.assembly.ledger.assembled.budget == 16_000
        await pilot.press("m", "escape")
        assert screen.items.display, "back to the items, of the same budget"
        assert screen.assembly.what_if == 16_000
        await pilot.press("escape")
        await wait_for_text(pilot, "of 128,000")
        await pilot.press("escape")
        await wait_for(pilot, lambda: pilot.app.screen is not screen)


@pytest.mark.long
async def test_a_smaller_budget_reads_nothing(database_file: DatabaseFactory):
    async with open_sound_app(database_file("0.15.3"), size=NARROW) as pilot:
        screen = await assembled(pilot, 1)
        before = pilot.app.session.database.statements
        for _ in range(6):
            await pilot.press("minus")
        await wait_for(
            pilot, lambda: screen.assembly.ledger and screen.assembly.ledger.assembled.budget == 4_000
        )
        await settled(pilot)
        assert pilot.app.session.database.statements == before


@pytest.mark.long
async def test_beside_the_list_stands_why_an_item_is_not_sent(database_file: DatabaseFactory):
    async with open_sound_app(database_file("0.15.3"), size=WIDE, budget=3_500) as pilot:
        screen = await assembled(pilot, 1)
        await wait_for(pilot, lambda: "budget: the first that does not fit: 363 tokens" in screen.text.text)
        await pilot.press("j")
        await wait_for(pilot, lambda: "hard limit: whole messages weigh" in screen.text.text)
        assert screen.items.select(("message", 850, 0))
        await wait_for(pilot, lambda: "as message 3: 195 tokens" in screen.text.text)


async def test_why_an_item_is_left_out_is_said_above_the_list_and_on_its_own_screen(
    database_file: DatabaseFactory,
):
    async with open_sound_app(database_file("0.15.3"), size=NARROW, budget=1_500) as pilot:
        await assembled(pilot, 1)
        before = "ordinal 0 · budget: the fresh tail alone takes 2,339 of 1,500 tokens"
        assert shown_lines(pilot)[5].strip() == before
        await pilot.press("end", "enter")
        await wait_for_text(pilot, "not sent hard limit: an answer cannot come last", "budget   1,500 tokens")
        await pilot.press("escape", "m")
        await wait_for_text(pilot, "hard limit: whole messages weigh 3,079 tokens as sent, more than 1,500")


@pytest.mark.long
async def test_what_is_mended_is_marked_and_told(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    with changed(path) as connection:
        connection.execute("DELETE FROM context_items WHERE message_id = 850")
    async with open_sound_app(path, size=NARROW) as pilot:
        screen = await assembled(pilot, 1)
        assert "~ 1 message adjusted" in account(pilot)[2]
        [line] = [line for line in shown_lines(pilot) if "m849" in line]
        assert line.startswith("~")
        assert screen.items.select(("message", 849, 0))
        await pilot.press("m", "j")
        await wait_for(pilot, lambda: screen.sent.selected and screen.sent.selected[0] == "synthetic")
        [line] = [line for line in shown_lines(pilot) if "synthetic" in line]
        assert line.split()[:2] == ["+", "5"]
        await pilot.press("enter")
        await wait_for_text(
            pilot, "synthetic: the engine adds it so that the tool call before it has a", "an error"
        )


@pytest.mark.long
async def test_the_messages_as_they_are_sent(database_file: DatabaseFactory):
    async with open_sound_app(database_file("0.15.3"), size=WIDE) as pilot:
        screen = await assembled(pilot, 1)
        assert screen.items.select(("message", 851, 0))
        await pilot.press("m")
        await wait_for(pilot, lambda: "tool call exec" in screen.text.text or "text" in screen.text.text)
        assert screen.sent.selected == ("message", 851, 0), "it stays where it was"
        [heading, selected] = [
            line.split() for line in shown_lines(pilot) if "stands for" in line or " 7 a" in line
        ]
        assert (heading[0], selected[1:4]) == ("ordinal", ["7", "assistant", "m851"]), "as in the other list"
        assert "role: assistant" in screen.text.text
        await pilot.press("k")
        await wait_for(pilot, lambda: "role: tool\n" in screen.text.text)
        assert "tokens   195 as sent, stored 168" in screen.text.text
        await pilot.press("g", "j")
        await wait_for(pilot, lambda: '<summary id="sum_4c4bd5292abfa225"' in screen.text.text)
        await pilot.press("slash", *"applyMigration()", "enter")
        await wait_for(pilot, lambda: screen.sent.selected == ("message", 851, 0))
        await pilot.press("j", "k")
        await wait_for(pilot, lambda: screen.seq() == 370)
        await pilot.press("M")
        await wait_for(pilot, lambda: at(pilot.app.screen, "Conversation "))
        pilot.app.pop_screen()
        await wait_for(pilot, lambda: pilot.app.screen is screen)
        await pilot.press("escape", "g", "j", "s")
        await wait_for(pilot, lambda: at(pilot.app.screen, "Summary DAG"))
        pilot.app.pop_screen()
        await wait_for(pilot, lambda: pilot.app.screen is screen)
        await pilot.press("m")
        assert screen.items.selected == ("summary", "sum_4c4bd5292abfa225", 0)


async def test_the_line_above_the_first_item_stays_in_sight_behind_the_messages_as_sent(
    database_file: DatabaseFactory,
):
    async with open_sound_app(database_file("1.0-next"), size=NARROW) as pilot:
        screen = await assembled(pilot, 11)
        assert shown_lines(pilot)[4].startswith("── fresh tail")
        for _ in range(2):
            await pilot.press("m")
            await settled(pilot)
        await wait_for(pilot, lambda: shown_lines(pilot)[4].startswith("── fresh tail"), "the line above")
        assert screen.items.selected == ("message", 239, 0)


async def test_a_message_as_sent_is_called_as_everywhere_and_leads_to_its_item(
    database_file: DatabaseFactory,
):
    async with open_sound_app(database_file("0.15.3"), size=NARROW) as pilot:
        await assembled(pilot, 1)
        await pilot.press("m", "end", "enter")
        await wait_for_text(pilot, "Context 1  m865  as sent under 128,000 tokens", " m As stored ")
        await pilot.press("m")
        await wait_for_text(pilot, "Context 1  m865  as text", " m As sent ")


@pytest.mark.long
async def test_the_first_line_is_the_account_of_all_of_it(database_file: DatabaseFactory):
    async with open_sound_app(database_file("0.15.3"), size=NARROW, budget=3_500) as pilot:
        await assembled(pilot, 1)
        await pilot.press("m", "g", "enter")
        await wait_for(pilot, lambda: at(pilot.app.screen, "Context "))
        await wait_for_text(
            pilot,
            "source      assembled, authoritative for the size of the prompt",
            "cache       cold: the cache was seen to break",
            "budget        1 item",
            "hard limit    4 items",
            "Added to the system prompt",
        )


@pytest.mark.long
async def test_a_message_that_comes_is_assembled_too(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    with Host(path) as host:
        async with open_sound_app(path, size=NARROW) as pilot:
            screen = await assembled(pilot, 1)
            await pilot.press("m", "G")
            selected = screen.sent.selected
            number = host.say(1, "Is the cache warm?")
            await wait_for_text(pilot, " sent 4,442 of ")
            assert screen.sent.selected == selected
            assert screen.assembly.ledger is not None
            assert screen.assembly.ledger.keys[-1] == ("message", number, 0)
            await pilot.press("G")
            assert "Is the cache warm?" in shown_lines(pilot)[-2]
            await pilot.press("m")
            await wait_for(pilot, lambda: not screen.assembly.working)
            await pilot.press("G")
            fate = screen.assembly.ledger.fate(22, number)
            assert fate is not None
            assert fate.sent


@pytest.mark.long
async def test_an_export_is_private_and_replaces_nothing_unasked(
    database_file: DatabaseFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    async with open_sound_app(database_file("0.15.3"), size=WIDE) as pilot:
        screen = await assembled(pilot, 1)
        await pilot.press("o")
        assert "/context-1-128000.json (for" in shown(pilot)
        await pilot.press("enter")
        path = folder / "context-1-128000.json"
        await wait_for(pilot, lambda: any(str(path) in note for note in said(pilot)))
        request = json.loads(path.read_text())
        assert set(request) == {"system", "messages"}
        assert request["messages"][0]["role"] == "user"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        path.write_text("mine")
        await pilot.press("o", "enter")
        await wait_for(pilot, lambda: screen.asking and "Enter again replaces it" in said(pilot)[-1])
        assert path.read_text() == "mine"
        await pilot.press("enter")
        await wait_for(pilot, lambda: path.read_text() != "mine")
        await pilot.press("o", *"seen.md", "enter")
        await wait_for(pilot, lambda: any("as Markdown" in note for note in said(pilot)))
        assert (folder / "seen.md").read_text().startswith("# Conversation 1, as the model sees it\n")
        await pilot.press("o", *"no/seen.md", "enter")
        await wait_for(pilot, lambda: any("There is no folder at" in note for note in said(pilot)))
        await pilot.press("o", *str(pilot.app.session.database.path), "enter", "enter")
        await wait_for(pilot, lambda: any("is the open database" in note for note in said(pilot)))


@pytest.mark.long
async def test_what_another_conversation_says_is_no_reason_to_assemble_this_one(
    database_copy: DatabaseFactory, monkeypatch: pytest.MonkeyPatch
):
    path = database_copy("0.15.3")
    with Host(path) as host:
        async with open_app(path, size=NARROW) as pilot:
            screen = await assembled(pilot, 1)
            made, show = list[int](), screen.assembly._made

            def counted(ledger) -> None:
                made.append(len(ledger.keys))
                show(ledger)

            monkeypatch.setattr(screen.assembly, "_made", counted)
            messages, changes = len(screen.assembly.ledger.keys), screen.assembly.changes
            host.say(3, "to somebody else")
            await wait_for(pilot, lambda: screen.assembly.read_at > changes and not screen.assembly.working)
            assert made == []
            host.say(1, "to this one")
            await wait_for(pilot, lambda: made)
            assert made == [messages + 1]


@pytest.mark.long
async def test_items_come_before_the_assembly_and_a_failure_of_it_is_said(
    database_file: DatabaseFactory, monkeypatch: pytest.MonkeyPatch
):
    from lcm_core.base.errors import DatabaseQueryError

    async def fails(*_arguments: object, **_settings: object) -> None:
        raise DatabaseQueryError("The file is damaged.")

    monkeypatch.setattr("lcm_core.operations.assembly.assembly_basis", fails)
    async with open_app(database_file("0.15.3"), size=NARROW) as pilot:
        await settled(pilot)
        screen = await go_to(pilot, ContextScreen(conversation(pilot, 1)))
        await wait_for_text(pilot, "sum_4c4bd529", " The file is damaged.")
        assert screen.assembly.ledger is None
        assert "…" in "".join(shown_lines(pilot)[7:10])
        await pilot.press("o")
        await wait_until_last_said(pilot, "The file is damaged.")


@pytest.mark.long
async def test_what_is_typed_before_a_context_is_assembled_is_not_lost(
    database_file: DatabaseFactory, monkeypatch: pytest.MonkeyPatch
):
    known, real = asyncio.Event(), Assembly._assemble_once

    async def late(self: Assembly) -> None:
        await known.wait()
        await real(self)

    monkeypatch.setattr(Assembly, "_assemble_once", late)
    async with open_app(database_file("0.15.3"), size=NARROW) as pilot:
        screen = ContextScreen(conversation(pilot, 1))
        await pilot.app.push_screen(screen)
        await wait_for(pilot, lambda: screen.main_widget().keys, "the items")
        await pilot.press("D", *"64k", "enter")
        await wait_for(pilot, lambda: not screen.asking, "the answer")
        assert pilot.app.screen is screen
        known.set()
        await wait_for(pilot, lambda: at(pilot.app.screen, "Compare "), "the comparison")


def test_every_step_has_a_word_for_the_column():
    from lcm_tui.tables.context import STEP_WORDS

    assert set(STEP_WORDS) == set(AssemblyStep)
    assert all(len(word) <= 11 for word in STEP_WORDS.values())


@pytest.mark.parametrize(
    ("distance", "said"),
    [
        (
            Distance(tokens=2_266, threshold=96_000, raw=0, chunk=None),
            "93,734 tokens until compaction (at 96,000)",
        ),
        (
            Distance(tokens=2_266, threshold=96_000, raw=500, chunk=20_000),
            "19,500 tokens until compaction (at 20,000 raw before the tail)",
        ),
        (
            Distance(tokens=90_000, threshold=96_000, raw=500, chunk=20_000),
            "6,000 tokens until compaction (at 96,000)",
        ),
    ],
)
def test_the_nearer_cause_of_a_compaction_is_named(distance: Distance, said: str):
    assert text_of(distance_line(distance)) == said


@pytest.mark.long
async def test_what_is_in_no_summary_and_what_is_a_note_is_said(
    database_copy: DatabaseFactory, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("LCM_FRESH_TAIL_COUNT", "10")
    path = database_copy("1.1.0-upgraded")
    run(path, "UPDATE context_items SET message_id = 192 WHERE conversation_id = 3 AND ordinal = 27")
    async with open_app(path, size=WIDE) as pilot:
        await assembled(pilot, 3)
        await pilot.press("B", *"4000", "enter")
        await wait_for_text(pilot, "6 messages in no summary", "1 paste as a note")
        await pilot.press("home", "down", "down", "down")
        await wait_for_text(pilot, "more than 3,600; no summary covers it")
        await pilot.press("end")
        await wait_for_text(
            pilot, "a note for 20,061 pasted", "only a note is sent, not what the user pasted"
        )
        await pilot.press("m", "end")
        await wait_for_text(pilot, "only this note is sent, not what the user pasted")


@pytest.mark.long
async def test_a_summary_of_this_turns_tools_is_said_to_be_the_assistants(database_file: DatabaseFactory):
    async with open_app(database_file("1.1.0-shapes"), size=WIDE) as pilot:
        await assembled(pilot, 7)
        await pilot.press("down")
        await wait_for_text(pilot, "as message 2: 59 tokens, in the assistant's role")
