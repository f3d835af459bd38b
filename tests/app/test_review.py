"""Rewriting from the screens, with the model that needs no network: drafts, review, commit, queue, undo."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from lcm_core.operations.drafting import ItemState
from lcm_core.operations.drafts import EVERY
from textual.pilot import Pilot
from textual.screen import ModalScreen
from textual.widgets import Input

from lcm_tui.flows.drafts import Wanted, Work
from lcm_tui.kit.bars import Notices
from lcm_tui.kit.dialog import PromptLine
from lcm_tui.kit.text import TextView
from lcm_tui.screens.dag import DagScreen
from lcm_tui.screens.drafting import DraftingScreen
from lcm_tui.screens.editor import EditScreen
from lcm_tui.screens.preview import PlanScreen
from lcm_tui.screens.previous import SourceScreen
from lcm_tui.screens.review import ReviewScreen
from tests.app.support import (
    MIDDLING,
    NARROW,
    at,
    conversation,
    go_to,
    open_app,
    settled,
    shown,
    shown_lines,
    wait_for,
    wait_for_text,
    wait_until_said,
)
from tests.change.support import dump
from tests.conftest import DatabaseFactory
from tests.databases import run, value
from tests.fakes.messages_api import MessagesApi
from tests.fakes.server import Say

DEFAULT = "nothing invented, no rule lost, no worse"

#: A leaf of conversation 8 that says what it should, and conversation 1's condensed summary of the context.
LEAF, NODE = "sum_cbafeb91521b3da9", "sum_bb692ab9b90b6a49"
CONTENT = "SELECT content FROM summaries WHERE summary_id = ?"
MODEL = "SELECT model FROM summaries WHERE summary_id = ?"


pytestmark = pytest.mark.usefixtures("no_offer")


async def review_of(pilot: Pilot[int], summary_id: str, conversation_id: int) -> ReviewScreen:
    """The review of a summary, its draft measured."""
    dag = await go_to(pilot, DagScreen(conversation(pilot, conversation_id), select=summary_id))
    await wait_for(pilot, lambda: dag.lines.summary == summary_id, "the summary")
    await pilot.press("r")
    await wait_for(pilot, lambda: at(pilot.app.screen, "Review "), "a review")
    screen = pilot.app.screen
    assert at(screen, "Review ")
    await wait_for(pilot, lambda: screen.view.diff is not None and screen.facts.keys, "a draft")
    await settled(pilot)
    return screen


async def queue_of(pilot: Pilot[int], conversation_id: int, *keys: str) -> DraftingScreen:
    """The queue that some keys of the DAG lead to, its batch estimated."""
    dag = await go_to(pilot, DagScreen(conversation(pilot, conversation_id), select=NODE))
    await wait_for(pilot, lambda: dag.lines.summary == NODE, "the summary")
    for key in keys:
        await pilot.press(key)
        await pilot.pause()
    await wait_for(pilot, lambda: isinstance(pilot.app.screen, DraftingScreen), "a queue")
    screen = pilot.app.screen
    assert isinstance(screen, DraftingScreen)
    await wait_for(pilot, lambda: screen.preparation.forecast is not None, "an estimate")
    return screen


async def test_a_low_narrow_terminal_shows_ids_and_reasons_below_a_short_head(database_copy: DatabaseFactory):
    async with open_app(database_copy("0.15.3-damaged"), size=(40, 12)) as pilot:
        await queue_of(pilot, 1, "R", "enter")
        await wait_for_text(pilot, "11 broken summaries", "Not started · P", "summary      reason")
        assert sum(line.startswith("● sum_") for line in shown_lines(pilot)) >= 4


async def test_the_question_of_a_repair_closes_before_what_lists_them_is_imported(
    database_copy: DatabaseFactory, monkeypatch: pytest.MonkeyPatch
):
    imported = asyncio.Event()

    async def slow(*_: str) -> None:
        await imported.wait()

    async with open_app(database_copy("0.15.3-damaged"), size=NARROW) as pilot:
        first = pilot.app.screen
        await pilot.press("R")
        await wait_for_text(pilot, "Repair summaries")
        monkeypatch.setattr("lcm_tui.screens.actions.imported", slow)
        await pilot.press("enter")
        await wait_for(pilot, lambda: pilot.app.screen is first and "Repair summaries" not in shown(pilot))
        await wait_for_text(pilot, "Reading …")
        imported.set()
        await wait_for(pilot, lambda: isinstance(pilot.app.screen, DraftingScreen))


@pytest.mark.long
@pytest.mark.parametrize("size", [(48, 15), (60, 15), NARROW, (120, 35), (160, 50)])
async def test_a_batch_of_several_conversations_says_at_every_width_whose_each_is(
    size: tuple[int, int], database_copy: DatabaseFactory
):
    async with open_app(database_copy("0.15.3-damaged"), size=size) as pilot:
        await settled(pilot)
        await pilot.press("R", "v")
        await wait_for_text(pilot, "sum_3917e17d    1 ")
        if size[0] > 48:
            await wait_for_text(pilot, " waiting")


async def ask_again(pilot: Pilot[int], *said: str) -> None:
    """Fill in how another draft is asked for: whom, address, prompts, instructions."""
    await pilot.press("r")
    await filled_in(pilot, *said)


async def filled_in(pilot: Pilot[int], *said: str) -> None:
    """The form of who writes opens; fill it in."""
    await wait_for(pilot, lambda: isinstance(pilot.app.screen, ModalScreen), "the form")
    form = pilot.app.screen
    names = ("whom", "address", "prompts", "instructions")
    given = {**dict.fromkeys(names, ""), **dict(zip(names, said, strict=False))}
    for name, text in given.items():
        form.query_one(f"#{name}", Input).value = text
    await pilot.press("enter")
    await wait_for(pilot, lambda: form not in pilot.app.screen_stack)


async def asked(pilot: Pilot[int], said: str, answer: str) -> None:
    """A question was put; answer it."""
    await wait_for(pilot, lambda: isinstance(pilot.app.screen, ModalScreen), "a question")
    await wait_for_text(pilot, said)
    await pilot.press(answer)


async def applied(pilot: Pilot[int]) -> None:
    """Apply what is previewed, and wait until it is done."""
    await wait_for(pilot, lambda: isinstance(pilot.app.screen, PlanScreen), "a preview")
    screen = pilot.app.screen
    assert isinstance(screen, PlanScreen)
    await wait_for(pilot, lambda: screen.why_not("apply") is None, "a plan")
    assert "replaces the summary's text" in screen.explained() or screen.where().startswith(("Undo", "Redo"))
    await pilot.press("a")
    await wait_for(pilot, lambda: screen not in pilot.app.screen_stack, "the commit")


@pytest.mark.long
async def test_a_draft_is_reviewed_and_put_in_exactly_as_shown(database_copy: DatabaseFactory):
    path = database_copy("0.15.3-damaged")
    before = value(path, CONTENT, LEAF)
    async with open_app(path) as pilot:
        screen = await review_of(pilot, LEAF, 8)
        assert value(path, CONTENT, LEAF) == before
        assert "offline: sentences of the source, no model was called" in shown(pilot)
        text = screen.shown_text()
        await pilot.press("a")
        await applied(pilot)
        await wait_for(pilot, lambda: at(pilot.app.screen, "Summary DAG"), "the tree")
    assert value(path, CONTENT, LEAF) == text != before
    assert value(path, MODEL, LEAF) == "extractive"


async def test_the_present_text_has_one_number_of_tokens_and_the_stored_one_is_named(
    database_copy: DatabaseFactory,
):
    path = database_copy("0.15.3-damaged")
    run(path, f"UPDATE summaries SET token_count = 7 WHERE summary_id = '{LEAF}'")
    async with open_app(path, size=MIDDLING) as pilot:
        screen = await review_of(pilot, LEAF, 8)
        await wait_for(pilot, lambda: screen.before, "both texts measured")
        now, draft = screen.before[0].tokens, screen.subject.draft
        assert draft is not None
        await wait_for_text(
            pilot,
            f" now {now:,} tokens (the database counts 7)",
            f" · {draft.tokens:,} tokens",
            f"tokens {now:>20,}{draft.tokens:>13,}",
        )


@pytest.mark.long
async def test_half_of_a_draft_is_taken_by_hand(database_copy: DatabaseFactory):
    path = database_copy("0.15.3-damaged")
    before = value(path, CONTENT, NODE)
    async with open_app(path, size=NARROW) as pilot:
        screen = await review_of(pilot, NODE, 1)
        view, draft = screen.view, screen.subject.draft
        assert draft is not None
        await pilot.press("enter")
        await wait_for(pilot, lambda: view.diff is not None and len(view.diff.hunks) > 5, "the parts")
        await settled(pilot)
        await pilot.press("space", "]", "]", "space")
        await pilot.pause()
        assert view.left == {0, 2}
        text = screen.shown_text()
        assert text not in (before, draft.text)
        assert "2 skipped" in shown(pilot)
        await pilot.press("a")
        await applied(pilot)
        await wait_for(pilot, lambda: not isinstance(pilot.app.screen, PlanScreen | ReviewScreen))
    assert value(path, CONTENT, NODE) == text
    assert value(path, MODEL, NODE) == "manual"
    lines, old, new = (set(one.split("\n")) for one in (text, before, draft.text))
    assert lines & (new - old), "what was taken is there"
    assert lines <= old | new, "and nothing that neither text has"


@pytest.mark.long
async def test_a_summary_that_changed_meanwhile_is_refused_and_all_three_texts_shown(
    database_copy: DatabaseFactory,
):
    path = database_copy("0.15.3-damaged")
    async with open_app(path) as pilot:
        screen = await review_of(pilot, LEAF, 8)
        base = value(path, CONTENT, LEAF)
        run(path, f"UPDATE summaries SET content = 'what the host wrote' WHERE summary_id = '{LEAF}'")
        await wait_for_text(pilot, "changed since this draft was made")
        await wait_for(pilot, lambda: screen.shown_text() is not None, "both texts to be compared")
        assert "database changed" in str(screen.why_not("apply"))
        texts = {(pair.old_name, pair.new_name): (pair.old, pair.new) for pair in screen.subject.pairs()}
        assert texts["when drafted", "now"] == (base, "what the host wrote")
        assert set(texts) == {("now", "draft 1"), ("when drafted", "now"), ("when drafted", "draft 1")}
        await pilot.press("D")
        await wait_for_text(pilot, "+ what the host wrote")
        assert screen.shown_text() is None  # these two are only to look at
    assert value(path, CONTENT, LEAF) == "what the host wrote"


@pytest.mark.long
async def test_what_is_kept_is_measured_again_when_the_summary_or_its_source_changed(
    database_copy: DatabaseFactory,
):
    path = database_copy("0.15.3-damaged")
    async with open_app(path) as pilot:
        screen = await review_of(pilot, LEAF, 8)
        run(path, f"UPDATE summaries SET content = 'lib/host.py' WHERE summary_id = '{LEAF}'")
        await wait_for(
            pilot,
            lambda: screen.texts is not None and screen.texts.now == "lib/host.py",
        )
        run(
            path,
            f"""UPDATE messages SET content = 'It all stands in src/only_here.py.' WHERE message_id =
            (SELECT message_id FROM summary_messages WHERE summary_id = '{LEAF}' AND ordinal = 0)""",
        )
        await wait_for(
            pilot,
            lambda: screen.texts is not None and "src/only_here.py" in screen.texts.source,
            "the other source",
        )
        await pilot.press("tab")
        await wait_for_text(pilot, "src/only_here.py")
        lost = next(fact for fact in screen.facts.keys if "src/only_here.py" in str(fact.line))
        assert screen.facts.select(lost)
        await pilot.press("enter")
        await wait_for(pilot, lambda: isinstance(pilot.app.screen, SourceScreen), "the source")
        await wait_for_text(pilot, "It all stands in src/only_here.py.")


@pytest.mark.long
async def test_a_draft_edited_here_is_another_draft_with_the_same_checks(database_copy: DatabaseFactory):
    path = database_copy("0.15.3-damaged")
    async with open_app(path) as pilot:
        screen = await review_of(pilot, LEAF, 8)
        await pilot.press("e")
        await wait_for(pilot, lambda: isinstance(pilot.app.screen, EditScreen), "an editor")
        editor = pilot.app.screen
        assert isinstance(editor, EditScreen)
        assert editor.text == screen.subject.draft.text if screen.subject.draft else False
        editor.area.text = "Short, and it invents lib/not_there.py."
        await pilot.press("ctrl+s")
        await wait_for(pilot, lambda: len(screen.subject.item.drafts) == 2, "a second draft")
        await settled(pilot)
        assert [one.origin for one in screen.subject.item.drafts] == ["normal", "manual"]
        await wait_for_text(pilot, "draft 2 of 2", "Invented: 1", "lib/not_there.py")
        await pilot.press("comma")
        await wait_for_text(pilot, "draft 1 of 2", "Invented: nothing")
        await pilot.press("D")
        await wait_for_text(pilot, "- draft 2", "+ draft 1")


@pytest.mark.long
async def test_a_text_made_from_broken_summaries_says_so(database_copy: DatabaseFactory):
    async with open_app(database_copy("0.15.3")) as pilot:
        screen = await review_of(pilot, "sum_f6b6d7017e1f2ae2", 4)
        assert screen.subject.material is not None
        assert screen.subject.material.broken_sources
        await wait_for_text(pilot, "1 broken among its sources: repair first")


@pytest.mark.long
async def test_enter_on_a_lost_item_shows_where_it_stood(database_copy: DatabaseFactory):
    async with open_app(database_copy("0.15.3-damaged"), size=NARROW) as pilot:
        screen = await review_of(pilot, LEAF, 8)
        await pilot.press("tab")
        lost = next(fact for fact in screen.facts.keys if fact.spot is not None)
        assert screen.facts.select(lost)
        await pilot.press("enter")
        await wait_for(pilot, lambda: isinstance(pilot.app.screen, SourceScreen), "the source")
        await wait_for_text(pilot, lost.line[1].text)


@pytest.mark.long
async def test_asking_again_keeps_the_drafts_that_are_there(database_copy: DatabaseFactory):
    async with open_app(database_copy("0.15.3-damaged")) as pilot:
        screen = await review_of(pilot, LEAF, 8)
        await ask_again(pilot, "extractive")
        await wait_for(
            pilot, lambda: len(screen.subject.item.drafts) == 2 and not screen.busy, "another draft"
        )
        assert [one.number for one in screen.subject.item.drafts] == [1, 2]


@pytest.mark.long
async def test_another_model_is_asked_at_another_address_by_another_prompt(
    database_copy: DatabaseFactory, tmp_path: Path
):
    prompt = tmp_path / "mine.j2"
    prompt.write_text("Say it as a haiku. {{ instructions }}\n{{ source }}")
    with MessagesApi(Say("A haiku.\nExpand for details about: the rest")) as server:
        async with open_app(database_copy("0.15.3-damaged")) as pilot:
            screen = await review_of(pilot, LEAF, 8)
            await ask_again(pilot, "anthropic/claude-x", server.url, str(prompt), "Name the tickets.")
            await asked(pilot, "Your own prompts are used:", "a")
            await wait_for(
                pilot,
                lambda: len(screen.subject.item.drafts) == 2 and not screen.busy,
                "another draft",
            )
            assert screen.subject.draft is not None
            assert screen.subject.draft.model == "claude-x"
            assert screen.subject.work.budget.spent.calls == 1
            said = server.received[0].body
            assert said["model"] == "claude-x"
            assert said["messages"][0]["content"].startswith("Say it as a haiku. Name the tickets.")
            await ask_again(pilot, "extractive", "", str(tmp_path / "not there"))
            await wait_until_said(pilot, "There is no prompt at")
            assert len(screen.subject.item.drafts) == 2


@pytest.mark.long
async def test_the_cut_of_the_source_is_made_by_hand_and_taken_only_after_a_question(
    database_copy: DatabaseFactory,
):
    path = database_copy("0.15.3-damaged")
    async with open_app(path) as pilot:
        screen = await review_of(pilot, LEAF, 8)
        await ask_again(pilot, "cut")
        await wait_for(pilot, lambda: len(screen.subject.item.drafts) == 2, "the cut")
        assert screen.subject.draft is not None
        assert screen.subject.draft.origin == "fallback"
        await settled(pilot)
        await pilot.press("a")
        await asked(pilot, "not a summary", "a")
        await applied(pilot)
    assert value(path, CONTENT, LEAF) == screen.subject.draft.text


@pytest.mark.long
async def test_what_a_condensed_summary_keeps_of_the_messages_below_it(database_copy: DatabaseFactory):
    async with open_app(database_copy("0.15.3-damaged")) as pilot:
        screen = await review_of(pilot, NODE, 1)
        await wait_for(pilot, lambda: len(screen.before) == 2, "the messages below")
        direct, below = screen.before
        assert below.source_tokens > direct.source_tokens
        assert below.share is not None
        assert direct.share is not None
        assert below.share < direct.share, "what its sources had lost shows here alone"
        await wait_for_text(pilot, f"{below.source_tokens:,} tokens")


@pytest.mark.long
async def test_a_draft_is_measured_also_while_its_pane_hides_the_diff(database_copy: DatabaseFactory):
    async with open_app(database_copy("0.15.3-damaged"), size=NARROW) as pilot:
        screen = await review_of(pilot, LEAF, 8)
        await pilot.press("tab")
        await wait_for(pilot, lambda: not screen.query_one("#diff").display)
        await ask_again(pilot, "cut")
        await wait_for(pilot, lambda: len(screen.subject.item.drafts) == 2, "the cut")
        cut = screen.subject.item.drafts[1].text
        await wait_for(pilot, lambda: screen.texts is not None and screen.texts.text == cut)


@pytest.mark.long
async def test_who_costs_something_is_asked_only_after_a_question(
    database_copy: DatabaseFactory, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("LCM_TUI_SUMMARY_PROVIDER", "anthropic")
    monkeypatch.setenv("LCM_TUI_SUMMARY_MODEL", "claude-haiku-4-5")
    monkeypatch.setenv("LCM_TUI_SUMMARY_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("LCM_TUI_SUMMARY_API_KEY", "sk-ant-test-0123456789abcdef")
    async with open_app(database_copy("0.15.3-damaged")) as pilot:
        dag = await go_to(pilot, DagScreen(conversation(pilot, 8), select=LEAF))
        await wait_for(pilot, lambda: dag.lines.summary == LEAF)
        await pilot.press("r")
        await wait_for_text(
            pilot, "Call this model?", "claude-haiku-4-5", "1 call", "LCM_TUI_SUMMARY_API_KEY"
        )
        assert "0123456789" not in shown(pilot)
        await pilot.press("escape")
        await wait_for(pilot, lambda: at(pilot.app.screen, "Review "))
        screen = pilot.app.screen
        assert at(screen, "Review ")
        await settled(pilot)
        assert screen.subject.work.writer.meter.budget.spent.calls == 0
        assert not screen.subject.item.drafts


IN_CONTEXTS = "SELECT sum(token_count) FROM context_items JOIN summaries USING (summary_id)"


@pytest.mark.long
async def test_all_that_is_broken_is_repaired_by_a_rule_and_taken_back(database_copy: DatabaseFactory):
    path = database_copy("0.15.3-damaged")
    before, tokens = dump(path), value(path, IN_CONTEXTS)
    async with open_app(path, size=NARROW) as pilot:
        screen = await queue_of(pilot, 1, "R", "enter")
        contaminated = {
            one for one, item in screen.preparation.items.items() if item.reason == "contaminated"
        }
        assert contaminated
        assert contaminated.isdisjoint(screen.preparation.marks.keys)
        await pilot.press("P")
        await asked(pilot, "no network call", "a")
        await wait_for(pilot, lambda: screen.work is not None and not screen.work.batch.running)
        work = screen.work
        assert work is not None
        assert {item.state for item in work.batch.items} == {ItemState.REVIEW, ItemState.WAITING}
        assert dump(path) == before
        assert "9 to review" in shown(pilot)
        assert shown(pilot).count("2 waiting") == 1
        assert shown(pilot).count("offline") == 1
        await pilot.press("A")
        await wait_for_text(
            pilot, "6 of 9 drafts pass. This applies to this batch only.", "9 of 9 drafts pass (v)."
        )
        await pilot.press("v")
        await wait_for_text(pilot, "Accept every draft without fault.", "9 of 9 drafts pass.")
        assert "every draft without fault…" not in shown(pilot)
        await asked(pilot, "every draft without fault", "e")
        await wait_for_text(pilot, f"{DEFAULT}  6 of 9 drafts pass", "every  9 of 9 drafts pass")
        await pilot.press(*"every", "enter")
        await wait_for_text(pilot, "Accept every draft without fault.", "9 of 9 drafts pass.")
        await pilot.press("enter")
        await wait_for(pilot, lambda: work.batch.finished, "all committed")
        grown = value(path, IN_CONTEXTS) - tokens
        await wait_for_text(
            pilot, f" 11 applied, {grown:+,} tokens, 5 summaries stale now; U, then u undoes all of them."
        )
        assert dump(path) != before
        for state in (ItemState.SKIPPED, ItemState.COMMITTED, ItemState.SKIPPED):  # undone, redone, undone
            await pilot.press("U")
            await wait_for(pilot, lambda: at(pilot.app.screen, "History"))
            await settled(pilot)
            await pilot.press("u")
            await wait_for_text(pilot, "with all of its batch: yes")
            await applied(pilot)
            await pilot.press("escape")
            await wait_for(pilot, lambda: pilot.app.screen is screen, "the drafts")
            await wait_for(pilot, lambda state=state: {one.state for one in work.batch.items} == {state})
            assert ("U, then u undoes" in shown(pilot)) is (state is ItemState.COMMITTED)
    assert dump(path) == before


@pytest.mark.long
async def test_what_a_rule_leaves_is_selected_and_what_waits_leads_to_its_source(
    database_copy: DatabaseFactory, no_offer: None
):
    async with open_app(database_copy("0.15.3-damaged"), size=NARROW) as pilot:
        screen = await queue_of(pilot, 1, "R", "enter")
        await pilot.press("P")
        await asked(pilot, "No network call", "a")
        await wait_for(pilot, lambda: screen.work is not None and not screen.work.batch.running)
        work = screen.work
        assert work is not None
        await wait_for_text(pilot, "Waiting for your decisions: enter reviews, A accepts by conditions")
        await settled(pilot)
        assert "P Resume" not in shown_lines(pilot)[-1], "nothing can be drafted before a decision"
        await pilot.press("A")
        await asked(pilot, "no rule is lost", "enter")
        await wait_for_text(
            pilot, "1 waiting · 4 to review · 6 applied", "Auto-accept when nothing is invented"
        )
        assert "rule" not in shown_lines(pilot)[-1], "a rule is what a text says"
        first = next(item for item in work.batch.items if item.state is ItemState.REVIEW)
        await wait_for(pilot, lambda: screen.list.table.selected == first.summary_id)
        waiting = next(item for item in work.batch.items if item.state is ItemState.WAITING)
        source = work.batch.waits_for(waiting.summary_id)
        screen.list.table.select(waiting.summary_id)
        whole = f"· Source undecided: accept or skip {source}."
        await wait_for_text(pilot, "  Source undecided: ", whole, "enter Source")
        await pilot.press("enter")
        await wait_for(pilot, lambda: screen.list.table.selected == source)
        await pilot.press("L")
        await wait_for(pilot, lambda: bool(work.batch.item(waiting.summary_id).drafts))


@pytest.mark.long
async def test_a_run_that_is_broken_off_ends_before_the_next_and_a_new_rule_judges_what_the_old_one_left(
    database_copy: DatabaseFactory, no_offer: None
):
    async with open_app(database_copy("0.15.3-damaged"), size=NARROW) as pilot:
        screen = await queue_of(pilot, 1, "R", "enter")
        await pilot.press("P")
        await asked(pilot, "No network call", "a")
        await wait_for(pilot, lambda: screen.work is not None and not screen.work.batch.running)
        await settled(pilot)
        await pilot.press("A")
        await asked(pilot, "no rule is lost", "enter")
        await wait_for_text(pilot, "4 to review · 6 applied")
        await settled(pilot)
        work = screen.work
        assert work is not None
        assert all(item.why for item in work.batch.items if item.state is ItemState.REVIEW)
        work.batch.accept_by(EVERY)
        assert not any(item.why for item in work.batch.items if item.state is ItemState.REVIEW)
        screen.on_screen_resume()  # a question that closes goes on with what waits
        await wait_for(pilot, lambda: work.batch.running)
        screen.work_on("batch", screen._run, work)  # and its answer begins at the same time
        await wait_for_text(pilot, "11 applied")


@pytest.mark.long
async def test_an_applied_draft_leads_to_the_next_undecided_and_a_decided_batch_takes_no_rule(
    database_copy: DatabaseFactory,
):
    async with open_app(database_copy("0.15.3-damaged"), size=NARROW) as pilot:
        screen = await queue_of(pilot, 1, "R", "enter")
        await pilot.press("P")
        await asked(pilot, "no network call", "a")
        await wait_for(pilot, lambda: screen.work is not None and not screen.work.batch.running)
        work = screen.work
        assert work is not None
        await wait_for_text(pilot, " tok ")
        first, *others = [one for one in work.batch.items if one.state is ItemState.REVIEW]
        await work.batch.take(first.summary_id, first.drafts[-1].number, alone=True)
        screen.list.table.select(first.summary_id)
        await wait_for_text(pilot, f"was {first.reason}")
        await pilot.press("enter")
        place, count = work.batch.items.index(work.batch.item(first.summary_id)) + 1, len(work.batch.items)
        await wait_for_text(pilot, f"draft {place} of {count} · applied", "J Next undecided")
        await pilot.press("J")
        await wait_for_text(pilot, f"Review {others[0].summary_id}")
        assert work.batch.item(others[0].summary_id).state is ItemState.REVIEW
        await pilot.press("escape")
        await wait_for(pilot, lambda: pilot.app.screen is screen)
        for item in work.batch.items:
            if item.state is not ItemState.COMMITTED:
                work.batch.skip(item.summary_id, "Skipped.")
        await pilot.press("A")
        await wait_until_said(pilot, "every draft is decided")


@pytest.mark.long
async def test_somebody_else_writes_a_batch_once_the_question_named_them(database_copy: DatabaseFactory):
    path = database_copy("0.15.3-damaged")
    with MessagesApi(Say("Short.\nExpand for details about: the rest")) as server:
        async with open_app(path) as pilot:
            screen = await queue_of(pilot, 1, "R", "enter")
            await pilot.press("P")
            await asked(pilot, "no network call", "w")
            await filled_in(pilot, "anthropic/claude-x", server.url, "", "Name the tickets.")
            await wait_for(
                pilot,
                lambda: screen.preparation.forecast is not None and screen.preparation.forecast.once.calls,
                "an estimate",
            )
            await pilot.press("P")
            await asked(pilot, "anthropic/claude-x", "a")
            await wait_for(pilot, lambda: screen.work is not None and server.received, "a call")
            work = screen.work
            assert work is not None
            await wait_for(pilot, lambda: not work.batch.running, "the drafts")
            assert {item.draft.model for item in work.batch.items if item.draft} == {"claude-x"}
            assert "Name the tickets." in str(server.received[0].body)


@pytest.mark.long
async def test_a_start_typed_before_the_estimate_is_kept_and_enter_starts_what_is_free(
    database_copy: DatabaseFactory, monkeypatch: pytest.MonkeyPatch
):
    real, known = Work.forecast, asyncio.Event()

    async def late(work: Work, *given: Any) -> Any:
        await known.wait()
        return await real(work, *given)

    monkeypatch.setattr(Work, "forecast", late)
    monkeypatch.setattr(Notices, "leave", lambda *_: None)
    async with open_app(database_copy("0.15.3-damaged"), size=NARROW) as pilot:
        screen = await go_to(pilot, DraftingScreen(Wanted("repair", 2), "Repair"))
        await wait_for(pilot, lambda: screen.preparation.items, "the broken summaries")
        await pilot.press("P")
        await wait_for(pilot, lambda: screen._begins, "a start that waits")
        assert "the question follows" in str(screen.why_not("apply"))
        known.set()
        await wait_for_text(pilot, "enter a  start")
        assert pilot.app.notices.standing is None, "the question has come"
        await asked(pilot, "enter a  start", "enter")
        await wait_for(pilot, lambda: screen.work is not None, "the batch")
        await wait_for(pilot, lambda: not screen.work or not screen.work.batch.running, "its drafts")
        drafts = len(screen.work.batch.items) if screen.work is not None else 0
        await pilot.press("escape")
        await wait_until_said(pilot, "Drafts saved. Press R or W to continue.")
        await wait_for_text(pilot, f"{drafts} drafts to review")
        await pilot.press("R")
        await asked(pilot, f"continue with {drafts} drafts that wait for review", "enter")
        await asked(pilot, "Continue an earlier batch?", "a")
        await wait_for(pilot, lambda: isinstance(pilot.app.screen, DraftingScreen))
        screen = pilot.app.screen
        assert isinstance(screen, DraftingScreen)
        await wait_for(pilot, lambda: screen.work is not None, "the drafts that were made offline")
        assert screen.work is not None
        assert len(screen.work.batch.items) == drafts
        assert all(item.drafts for item in screen.work.batch.items)


@pytest.mark.long
async def test_what_is_broken_is_chosen_and_contaminated_apart(database_copy: DatabaseFactory):
    async with open_app(database_copy("0.15.3-damaged")) as pilot:
        screen = await queue_of(pilot, 1, "R", "enter")
        assert len(screen.preparation.marks) == 11
        await pilot.press("1")
        await wait_for(
            pilot, lambda: len(screen.preparation.marks) == 19 and screen.preparation.forecast is not None
        )
        await pilot.press("1", "space")
        await wait_for(pilot, lambda: len(screen.preparation.marks) == 10)
        assert screen.list.table.selected not in screen.preparation.marks


@pytest.mark.long
async def test_a_filter_narrows_a_batch_and_takes_nothing_out_of_it(database_copy: DatabaseFactory):
    async with open_app(database_copy("0.15.3-damaged")) as pilot:
        screen = await queue_of(pilot, 1, "R", "enter")
        keys, marked = list(screen.list.table.keys), set(screen.preparation.marks.keys)
        wanted = [key for key, item in screen.preparation.items.items() if item.reason == "truncated"]
        assert 0 < len(wanted) < len(keys)
        await pilot.press("slash", *"trunc", "enter")
        await wait_for(pilot, lambda: list(screen.list.table.keys) == wanted, "those that were truncated")
        await wait_for_text(pilot, f"{len(wanted)} of {len(keys)} /trunc")
        assert set(screen.preparation.marks.keys) == marked
        await pilot.press("escape")
        await wait_for(pilot, lambda: list(screen.list.table.keys) == keys, "all of them")
        assert pilot.app.screen is screen


@pytest.mark.long
async def test_a_subtree_is_written_from_its_leaves_up_and_one_is_left_out(database_copy: DatabaseFactory):
    path = database_copy("0.15.3-damaged")
    async with open_app(path) as pilot:
        screen = await queue_of(pilot, 1, "W")
        depths = [item.depth for item in screen.preparation.items.values()]
        assert depths == sorted(depths)
        assert list(screen.preparation.items)[-1] == NODE
        await pilot.press("P")
        await asked(pilot, f"{len(depths)} summaries", "a")
        await wait_for(pilot, lambda: screen.work is not None and not screen.work.batch.running)
        work = screen.work
        assert work is not None
        waiting = {item.summary_id for item in work.batch.items if item.state is ItemState.WAITING}
        assert NODE in waiting
        await pilot.press("g", "L")
        first = next(iter(screen.preparation.items))
        await wait_for(pilot, lambda: work.batch.item(first).state is ItemState.SKIPPED)
        await pilot.press("j", "enter")
        await wait_for(pilot, lambda: at(pilot.app.screen, "Review "), "a review")


@pytest.mark.long
async def test_a_rule_that_is_none_is_refused_with_those_that_are(database_copy: DatabaseFactory):
    async with open_app(database_copy("0.15.3-damaged")) as pilot:
        screen = await queue_of(pilot, 1, "R", "enter")
        assert screen.why_not("accept-rest") == "not started: P starts the drafts"
        assert shown_lines(pilot)[-1].startswith(" P Start  space Mark  U History"), "no row has a draft yet"
        await pilot.press("P")
        await asked(pilot, "no network call", "a")
        await wait_for(pilot, lambda: screen.work is not None and not screen.work.batch.running)
        await pilot.press("A")
        await asked(pilot, "nothing is invented", "e")
        await wait_for_text(pilot, "accept when (commas combine; F1 explains)", "drafts pass")
        assert not screen.prompt.line.awaited
        await pilot.press(*"good ones", "enter")
        line = screen.query_one(PromptLine)
        await wait_for(pilot, lambda: DEFAULT in line.problem)
        await pilot.press("escape")
        await wait_for(pilot, lambda: not screen.asking)
        assert screen.work is not None
        assert screen.work.batch.options.rule is None


@pytest.mark.long
async def test_pausing_twice_breaks_calls_off_and_their_summaries_wait_again(
    database_copy: DatabaseFactory, monkeypatch: pytest.MonkeyPatch
):
    path = database_copy("0.15.3-damaged")
    before = dump(path)
    with MessagesApi(Say("never told", pause=1.0)) as server:
        monkeypatch.setenv("LCM_TUI_SUMMARY_PROVIDER", "anthropic")
        monkeypatch.setenv("LCM_TUI_SUMMARY_BASE_URL", server.url)
        monkeypatch.setenv("LCM_TUI_SUMMARY_API_KEY", "sk-ant-test-0123456789abcdef")
        async with open_app(path) as pilot:
            screen = await queue_of(pilot, 1, "R", "enter")
            await pilot.press("P")
            await asked(pilot, "11 summaries", "a")
            await wait_for(pilot, lambda: server.received, "a call")
            await wait_for_text(pilot, "4 drafting")
            await pilot.press("P", "P")
            work = screen.work
            assert work is not None
            await wait_for(pilot, lambda: not work.batch.running, "the end of the batch")
            await wait_for_text(pilot, "11 waiting", "paused")
            assert {item.state for item in work.batch.items} == {ItemState.WAITING}
            assert "0123456789" not in shown(pilot)
    assert dump(path) == before


@pytest.mark.long
async def test_a_wide_terminal_shows_the_texts_beside_the_list(database_copy: DatabaseFactory):
    """The present text of what is selected, and its draft once there is one; a narrow one shows the list."""
    path = database_copy("0.15.3-damaged")
    async with open_app(path, size=MIDDLING) as pilot:
        screen = await queue_of(pilot, 1, "R", "enter")
        text = screen.query_one("#text", TextView)
        await wait_for_text(pilot, "Text now, ")
        first = screen.selected_id()
        width = screen.list.outer_size.width
        await pilot.press("left_curly_bracket")
        await wait_for(pilot, lambda: screen.list.outer_size.width < width, "the divider to move")
        await pilot.press(*"jjjjjjjjkkkkkkk")
        content = value(path, CONTENT, screen.selected_id())
        assert screen.selected_id() != first
        begins = next(line for line in str(content).splitlines() if line.strip())[:20]
        await wait_for(pilot, lambda: begins in shown(pilot), "the text of another one")
        await pilot.press("P")
        await asked(pilot, "Draft ", "a")
        await wait_for(pilot, lambda: screen.list.item is not None and bool(screen.list.item.drafts))
        await wait_for_text(pilot, "Draft, ")
        await pilot.press("tab", "slash", *"text now,", "enter")
        assert text.has_focus
        await wait_for_text(pilot, "Text now, ")
        await pilot.press("escape")
        assert screen.list.table.has_focus
        assert pilot.app.screen is screen
        await pilot.resize_terminal(*NARROW)
        await wait_for(pilot, lambda: not text.display, "the list alone")
        assert screen.list.outer_size.width == NARROW[0]


@pytest.mark.long
async def test_what_the_head_warns_of_is_not_said_again_below_it(database_copy: DatabaseFactory):
    async with open_app(database_copy("0.15.3-damaged"), size=NARROW) as pilot:
        screen = await queue_of(pilot, 1, "R", "enter")
        assert shown(pilot).lower().count("not started") == 1
        await pilot.press("P")
        await asked(pilot, "no network call", "a")
        await wait_for(pilot, lambda: screen.work is not None and not screen.work.batch.running)
        await pilot.press("a")
        await wait_for_text(pilot, "[Diff]", "! 1 summary depends on the old text")
        assert "Warnings" not in shown(pilot)
        assert shown(pilot).count("depends on the old text") == 1
