"""The health screen: findings in their order, why they matter, the place, one plan, and running again."""

from __future__ import annotations

import asyncio
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from lcm_core.api import Confidence, Database, Finding, Report
from lcm_core.base.findings import CheckResult, CheckState, FixId, RowRef, finding_key
from lcm_core.checks.check import Limits, found_rows
from lcm_core.checks.running import STRUCTURE
from lcm_host.checks import CHECKS, run_checks
from textual.pilot import Pilot
from textual.screen import ModalScreen

from lcm_tui.flows.changes import Fixing
from lcm_tui.flows.drafts import Wanted
from lcm_tui.kit.spans import text_of
from lcm_tui.screens import checking as examining
from lcm_tui.screens.drafting import DraftingScreen
from lcm_tui.screens.health import HealthScreen
from lcm_tui.screens.preview import PlanScreen
from lcm_tui.tables.findings import can_fix
from lcm_tui.tables.health import (
    CheckGroupKey,
    Examination,
    FindingKey,
    GroupKey,
    MoreKey,
    RowKey,
)
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
    wait_for,
    wait_for_text,
    wait_until_said,
)
from tests.app.test_hostile import check
from tests.app.test_plan_screen import left, previewed
from tests.change.support import dump, search_faults
from tests.conftest import DatabaseFactory
from tests.databases import damage_table, run, value

FOLDED = {"by design", "skipped"}
WHOLE_FILE = {"F1", "F2", "F3", "F4", "F5", "F6", "G13"}

DAMAGED = "0.15.3-damaged"
DANGLING = "A1:4:context_items:4:13"
HOLE = "A11:3:messages:521"
STALE = "F2:-:messages_fts:286"


async def report_of(path: Path, **options: Any) -> Report:
    async with await Database.open(path) as database:
        return await run_checks(database, **options)


async def health(pilot: Pilot[int], conversation_id: int | None = None) -> HealthScreen:
    """The screen, when all checks have run."""
    owner = None if conversation_id is None else conversation(pilot, conversation_id)
    screen = await go_to(pilot, HealthScreen(owner, only=True))
    await done(pilot, screen)
    return screen


async def done(pilot: Pilot[int], screen: HealthScreen) -> None:
    await wait_for(
        pilot, lambda: not screen.examiner.running and screen.list.examination.complete, "the checks"
    )
    await settled(pilot)


def fixable(screen: HealthScreen, *confidences: Confidence) -> list[str]:
    found = screen.list.examination.findings.items()
    return [key for key, one in found if one.fix is not None and one.confidence in confidences]


def text(document) -> str:
    return "\n".join(text_of(block.spans) if block.spans is not None else block.text for block in document)


# -- below the terminal --------------------------------------------------------------------------------------


def test_every_check_and_every_fix_is_explained():
    rules, effects = [check.why for check in CHECKS.values()], [fix.effect for fix in FixId]
    for sentence in (*rules, *effects, *(confidence.meaning for confidence in Confidence)):
        assert sentence[0].isupper() or sentence[0].isdigit() or sentence.startswith("seq ")
        assert sentence.endswith((".", ")."))


def test_what_is_cut_off_is_said_and_two_findings_of_one_key_are_both_there():
    one = Finding("C16", Confidence.BROKEN, 1, (RowRef("summaries", ("s",)),), 1, "One.")
    other = Finding("C16", Confidence.BROKEN, 1, (RowRef("summaries", ("s",)),), 1, "Two.")
    result = CheckResult(CHECKS["C16"], CheckState.RAN, "", (one, other), 40)
    known = Examination()
    known.take(Report(None, datetime.now(UTC), 0.0, (result,)))
    assert [found.sentence for found in known.findings.values()] == ["One.", "Two."]
    assert known.cut == {"C16": 38}
    [group] = known.groups()
    assert group.keys[-1] == MoreKey("C16")
    assert len(group.keys) == 3


async def test_the_rows_of_findings_are_found_with_what_they_refer_to(database_file: DatabaseFactory):
    path = database_file(DAMAGED)
    findings = {finding_key(one): one for one in (await report_of(path)).findings()}

    async def first(key: str):
        async with await Database.open(path) as database:
            return (await database.read(found_rows, findings[key].rows))[0]

    dangling = await first(DANGLING)
    assert (dangling.conversation_id, dangling.ordinal, dangling.message_id, dangling.gone) == (
        4,
        13,
        286,
        True,
    )
    by_rowid = await first("G13:-:context_items:316")
    assert (by_rowid.conversation_id, by_rowid.ordinal, by_rowid.gone) == (4, 13, True)
    hole = await first(HOLE)
    assert (hole.conversation_id, hole.seq, hole.gone) == (3, 111, False)
    searched = await first("F4:-:summaries_fts:1")
    assert searched.summary_id is not None
    assert searched.entry is not None
    part = await first("E13:4:message_parts:3760ad33-f321-4182-ac54-876a75194914")
    assert (part.message_id, part.gone) == (286, True)


@pytest.mark.long
async def test_the_number_of_a_conversation_is_no_other_number(database_file: DatabaseFactory):
    async with open_app(database_file("0.3.0"), size=NARROW) as pilot:
        screen = await go_to(pilot, HealthScreen(None))
        await done(pilot, screen)
        findings = screen.list.examination.findings
        await pilot.press("slash", *"conversation 2", "enter")
        await settled(pilot)
        named = [findings[key.key] for key in screen.list.table.keys if isinstance(key, FindingKey)]
        assert {one.conversation_id for one in named} == {2}
        assert len(named) == sum(one.conversation_id == 2 for one in findings.values())


@pytest.mark.long
async def test_the_cursor_is_at_first_on_the_gravest_finding(database_file: DatabaseFactory):
    async with open_app(database_file(DAMAGED), size=NARROW) as pilot:
        await settled(pilot)
        await pilot.press("down", "H")  # whatever conversation is selected
        await wait_for(pilot, lambda: at(pilot.app.screen, "Health of"), "the health")
        screen = pilot.app.screen
        await wait_for(pilot, lambda: screen.examiner.examination.complete and not screen.examiner.running)
        names = [key.name for key in screen.list.table.keys if isinstance(key, GroupKey)]
        assert names == ["broken E", "broken W", "broken I", "suspicious W", "by design", "skipped"]
        assert screen.list.table.keys[0] == GroupKey("broken E")
        assert screen.list.table.selected == screen.list.table.keys[1]


async def test_what_is_found_later_pushes_nothing_out_of_sight(database_file: DatabaseFactory):
    async with open_app(database_file(DAMAGED), size=NARROW) as pilot:
        screen = await go_to(pilot, HealthScreen(conversation(pilot, 1)))
        await done(pilot, screen)
        assert screen.list.table.cursor > 0
        assert screen.list.table.keys[0] in screen.list.table.visible_keys


def test_what_has_two_sides_asks_which_to_keep():
    covered, hole = (
        Finding(check, Confidence.BROKEN, 3, (), 1, "It is.", fix)
        for check, fix in (("A6", FixId.DROP_COVERED_ITEMS), ("A11", FixId.RESTORE_MESSAGES))
    )
    limits = Limits(datetime.now(UTC))
    assert Fixing([hole], limits).choices == ()
    change = Fixing([covered, hole], limits)
    [keep] = change.choices
    assert keep.values == ("the summary", "its sources")
    assert change.title == "Fix 2 findings"
    assert "A6: Remove from the context what a summary in it covers" in change.about


# -- the list ----------------------------------------------------------------------------------------------


@pytest.mark.long
async def test_the_findings_of_the_selected_conversation_are_a_key_away(database_file: DatabaseFactory):
    async with open_app(database_file(DAMAGED), size=NARROW) as pilot:
        first = pilot.app.screen
        assert at(first, "Conversations")
        await settled(pilot)
        assert first.list.table.select(3)
        assert "✗7" in shown(pilot)
        await pilot.press("H")
        await wait_for(pilot, lambda: at(pilot.app.screen, "Health of"), "the health")
        screen = pilot.app.screen
        assert at(screen, "Health of")
        await done(pilot, screen)
        selected = screen.selected_id()
        assert selected is not None
        assert screen.list.examination.findings[selected].confidence is Confidence.BROKEN
        whole = {finding_key(one) for one in (await report_of(database_file(DAMAGED))).findings()}
        assert set(screen.list.examination.findings) == whole
        assert "15 broken + 23 summaries" in check(pilot)
        await pilot.press("T")
        await done(pilot, screen)
        assert {one.conversation_id for one in screen.list.examination.findings.values()} == {3}
        table = screen.list.table
        assert table.selected == table.keys[1], "the gravest"
        assert table.select(
            next(key for key in table.keys if isinstance(key, FindingKey) and key.key.startswith("C1:"))
        )
        selected = screen.selected_id()
        assert selected is not None
        await pilot.press("enter")
        await wait_for(pilot, lambda: at(pilot.app.screen, "Summary DAG"), "the DAG")
        dag = pilot.app.screen
        assert at(dag, "Summary DAG")
        await wait_for(pilot, lambda: dag.selected_id() == selected.rpartition(":")[2], "the summary")


async def test_a_file_that_cannot_be_read_in_part_is_said_first(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    damage_table(path, "message_parts")
    async with open_app(path, size=NARROW) as pilot:
        screen = await health(pilot)
        await wait_for_text(pilot, "✗ the file itself is damaged")
        assert next(iter(screen.list.examination.findings.values())).check == "G13"


@pytest.mark.long
async def test_what_is_by_design_is_folded_and_what_was_not_run_says_why(database_file: DatabaseFactory):
    async with open_app(database_file(DAMAGED)) as pilot:
        screen = await health(pilot)
        await pilot.press("G")
        await pilot.pause()
        assert screen.list.table.selected == GroupKey("skipped")
        assert "▸ – skipped  11 checks" in shown(pilot)
        assert "▸ · by design  7" in shown(pilot)
        bad = next(key for key in screen.list.examination.findings if key.startswith("C1:"))
        assert screen.list.go_to(bad)
        refused = str(screen.why_not("fix"))
        assert refused.startswith("No automatic fix here; 17 other findings have one: space on a heading")
        await pilot.press("G")
        assert not any(key == FindingKey("A11:2:messages:146") for key in screen.list.table.keys)
        await pilot.press("l", "G")
        await wait_for_text(pilot, "large file missing: no folder of large files is known")
        assert screen.why_not("open") == "the check was skipped, so it has no rows to open"
        await pilot.press("slash", *"by design a11", "enter")
        await wait_for_text(pilot, "32 messages", "A11 message hole")
        await pilot.press("escape")
        assert screen.list.go_to(HOLE)
        await wait_for_text(pilot, "the model does not see", "Add the messages to the context again")
        await pilot.press("enter")
        await wait_for(pilot, lambda: at(pilot.app.screen, "Conversation "), "the message")
        await wait_for_text(pilot, "#111")


@pytest.mark.long
async def test_findings_of_one_check_are_one_line_that_unfolds(database_file: DatabaseFactory):
    async with open_app(database_file(DAMAGED), size=NARROW) as pilot:
        screen = await health(pilot)
        table, fallbacks = screen.list.table, CheckGroupKey("broken E", "C3")
        assert sum(isinstance(key, FindingKey) and key.key.startswith("C3:") for key in table.keys) == 0
        assert "▸ C3            15       summariser fallback: 15 findings in 4 convers" in shown(pilot)
        assert table.select(fallbacks)
        await wait_for_text(pilot, "C3 summariser fallback  ✗ broken, error, 15 findings")
        assert "✗ 15 broken + 23 summaries  ? 22 suspicious  – 11 skipped" in shown(pilot), (
            "none of these can be fixed"
        )
        assert screen.selected_id() == "C3"
        await pilot.press("enter")
        below = table.keys[table.cursor + 1 : table.cursor + 16]
        assert all(isinstance(key, FindingKey) and key.key.startswith("C3:") for key in below)
        await pilot.press("down", "h")
        assert table.selected == fallbacks
        assert not any(key in table.keys for key in below)
        await pilot.press("slash", *"c3 fallback", "enter")
        await settled(pilot)
        assert below[-1] in table.keys, "under a filter all that matches is listed"


@pytest.mark.long
async def test_the_head_says_what_the_key_fixes_and_on_a_heading_that_is_all_below(
    database_file: DatabaseFactory,
):
    async with open_app(database_file(DAMAGED), size=NARROW) as pilot:
        screen = await health(pilot)
        heading = GroupKey("broken E")
        assert screen.list.table.select(heading)
        meant = sum(map(can_fix, screen.list.findings_of(heading)))
        assert meant > 1
        await wait_for_text(pilot, f"x fixes these {meant}")
        assert screen.list.go_to(HOLE)
        await wait_for_text(pilot, "x fixes this")
        assert screen.list.table.select(heading)
        await pilot.press("x")
        await previewed(pilot)
        await wait_for_text(pilot, f"Fix {meant} findings")


@pytest.mark.long
async def test_the_pane_of_an_unfolded_line_does_not_list_its_findings_again(database_file: DatabaseFactory):
    async with open_app(database_file(DAMAGED), size=WIDE) as pilot:
        screen = await health(pilot)
        table, truncated = screen.list.table, CheckGroupKey("broken E", "C1")
        sentences = [one.sentence for one in screen.list.findings_of(truncated)]
        assert table.select(truncated)
        await settled(pilot)
        assert sentences[0] in " ".join(screen.text.text.split())
        await pilot.press("enter")
        await settled(pilot)
        assert table.selected == truncated
        assert not any(one in " ".join(screen.text.text.split()) for one in sentences)
        assert "Is a summary only its truncated source?" in screen.text.text


@pytest.mark.long
async def test_a_finding_leads_to_its_context_and_its_summaries(database_file: DatabaseFactory):
    async with open_app(database_file(DAMAGED), size=NARROW) as pilot:
        screen = await health(pilot)
        for key, pressed, place, selected in (
            (DANGLING, "c", "Context 4", "286"),
            (DANGLING, "s", "Summary DAG of 4", None),
            ("C1:1:summaries:sum_06d84ef9c70348dc", "s", "Summary DAG of 1", "sum_06d84ef9c70348dc"),
            ("C1:1:summaries:sum_06d84ef9c70348dc", "c", "Context 1", "sum_4c4bd5292abfa225"),
        ):
            assert screen.list.go_to(key)
            await pilot.press(pressed)
            await wait_for(pilot, lambda place=place: at(pilot.app.screen, place), place)
            await settled(pilot)
            if selected is not None:
                assert pilot.app.screen.selected_id() == selected
            await pilot.press("escape")
            await wait_for(pilot, lambda: pilot.app.screen is screen, "the findings")
        assert screen.list.go_to(STALE)
        assert screen.why_not("context") == "the finding is about the whole database"


@pytest.mark.long
async def test_what_a_folded_line_stands_for_is_marked_and_fixed_together(database_file: DatabaseFactory):
    async with open_app(database_file(DAMAGED), size=NARROW) as pilot:
        screen = await health(pilot)
        folded = [key for key in screen.list.table.keys if isinstance(key, CheckGroupKey)]
        several = next(key for key in folded if any(map(can_fix, screen.list.findings_of(key))))
        expected = [finding_key(one) for one in screen.list.findings_of(several) if can_fix(one)]
        assert screen.list.table.select(several)
        assert [finding_key(one) for one in screen.list.chosen() if can_fix(one)] == expected
        await pilot.press("space")
        assert sorted(screen.list.marks.keys) == sorted(expected)
        assert screen.list.table.selected == several
        await pilot.press("space")
        assert not screen.list.marks


@pytest.mark.long
async def test_the_rows_of_a_finding_are_listed_and_lead_on(database_file: DatabaseFactory):
    async with open_app(database_file(DAMAGED)) as pilot:
        screen = await health(pilot, 4)
        assert screen.list.go_to(DANGLING)
        await pilot.press("l", "j")
        assert screen.list.table.selected == RowKey(DANGLING, 0)
        await wait_for_text(pilot, "context item at 13  m286: deleted (row missing)")
        await pilot.press("enter")
        await wait_for(pilot, lambda: at(pilot.app.screen, "Context "), "the context")
        context = pilot.app.screen
        assert at(context, "Context ")
        await wait_for(pilot, lambda: context.selected_id() == "286", "the item")
        await pilot.press("escape", "h")
        assert screen.list.table.selected == FindingKey(DANGLING)
        assert RowKey(DANGLING, 0) not in screen.list.table.keys


@pytest.mark.long
async def test_what_was_stored_again_is_shown_as_ranges(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    run(
        path,
        """INSERT INTO messages (conversation_id, seq, role, content, token_count, created_at)
        SELECT conversation_id, seq + 1000, role, content, token_count, created_at FROM messages
        WHERE conversation_id = 3 AND seq BETWEEN 1 AND 12""",
    )
    async with open_app(path) as pilot:
        screen = await health(pilot, 3)
        replay = next(key for key, one in screen.list.examination.findings.items() if one.check == "E3")
        assert screen.list.table.select(GroupKey("by design"))
        await pilot.press("l")
        assert screen.list.go_to(replay)
        tokens = value(path, "SELECT sum(token_count) FROM messages WHERE conversation_id = 3 AND seq > 1000")
        await wait_for_text(pilot, "seq 1-12 again at 1001-1012", f"12 messages, {tokens:,} tokens")


# -- fixing ------------------------------------------------------------------------------------------------


@pytest.mark.long
async def test_all_that_can_be_mended_is_one_plan_and_undone_as_one(
    database_copy: DatabaseFactory, no_offer: None
):
    path = database_copy(DAMAGED)
    before = dump(path)
    async with open_app(path) as pilot:
        screen = await health(pilot)
        wanted = fixable(screen, Confidence.BROKEN)
        assert len(wanted) == 15
        for name in ("broken E", "broken W", "broken I"):
            assert screen.list.table.select(GroupKey(name))
            await pilot.press("space")
        assert set(screen.list.marks.keys) == set(wanted)
        assert screen.list.go_to(HOLE)
        await pilot.press("x")
        await previewed(pilot)
        await wait_for_text(pilot, "Fix 15 findings", "updated afterwards")
        preview = pilot.app.screen
        assert isinstance(preview, PlanScreen)
        assert "E13, G13: Delete parts whose message is missing." in preview.explained()
        await pilot.press("a")
        await left(pilot)
        await wait_for(pilot, lambda: not fixable(screen, Confidence.BROKEN), "the checks that ran again")
        await done(pilot, screen)
        assert not screen.list.marks
        assert "changed since" not in shown(pilot), "our own change is no news"
        assert screen.list.examination.count(Confidence.BROKEN) == 23
        assert search_faults(path) == []
        assert value(path, "SELECT count(*) FROM lcm_tui_operations") == 1
        await pilot.press("U")
        await wait_for(pilot, lambda: at(pilot.app.screen, "History"), "the history")
        await settled(pilot)
        await pilot.press("u")
        await previewed(pilot)
        await pilot.press("a")
        await left(pilot)
        assert dump(path) == before
        await pilot.press("escape")
        await wait_for_text(pilot, "changed since: ^r")


@pytest.mark.long
async def test_a_filter_that_hides_everything_says_so_after_the_checks_too(database_file: DatabaseFactory):
    async with open_app(database_file("0.3.0"), size=NARROW) as pilot:
        screen = await go_to(pilot, HealthScreen(None))
        await wait_for(pilot, lambda: not screen.examiner.running and screen.list.table.keys)
        await pilot.press("slash", *"nosuchwords", "enter")
        await wait_for_text(pilot, "Nothing matches.")
        screen.examiner.check_all()
        await wait_for(pilot, lambda: not screen.examiner.running)
        await wait_for_text(pilot, "Nothing matches.")


@pytest.mark.long
async def test_search_tables_alone_are_mended_without_a_plan(database_copy: DatabaseFactory):
    path = database_copy(DAMAGED)
    async with open_app(path) as pilot:
        screen = await health(pilot)
        for key, times in (("escape", 1), ("a", 2)):
            assert screen.list.go_to(STALE)
            await pilot.press("x")
            await wait_for(pilot, lambda: isinstance(pilot.app.screen, ModalScreen), "the question")
            await wait_for_text(pilot, "No conversation row changes", "messages_fts")
            await pilot.press(key)
            await wait_for(pilot, lambda: pilot.app.screen is screen, "the list")
            assert times
        await wait_for(
            pilot, lambda: STALE not in screen.list.examination.findings, "the check that ran again"
        )
        await done(pilot, screen)
        assert "F4:-:summaries_fts:1" in screen.list.examination.findings
    assert not value(path, "SELECT count(*) FROM sqlite_master WHERE name = 'lcm_tui_operations'")


@pytest.mark.long
async def test_a_summary_of_a_finding_is_edited_and_traced_by_keys_of_the_bar(database_copy: DatabaseFactory):
    async with open_app(database_copy(DAMAGED), size=NARROW) as pilot:
        await settled(pilot)
        await pilot.press("H")
        await wait_for_text(pilot, "broken + 23 summaries", "C1 ")
        await pilot.press("slash", *"sum_06d84ef9c70348dc", "enter")
        await wait_for_text(pilot, " e Edit  L Lines  R Repair ")
        await pilot.press("L")
        await wait_for(pilot, lambda: at(pilot.app.screen, "Lines of "), "where its lines come from")


@pytest.mark.long
async def test_what_has_no_fix_says_so_and_a_split_session_goes_to_merge(
    database_copy: DatabaseFactory, no_offer: None
):
    path = database_copy("0.15.3")
    run(path, "UPDATE conversations SET archive_cause = 'rollover-fallback' WHERE conversation_id = 5")
    async with open_app(path) as pilot:
        screen = await health(pilot)
        none = next(key for key, one in screen.list.examination.findings.items() if one.check == "C3")
        assert screen.list.go_to(none)
        assert screen.why_not("fix") == "No safe automatic fix for this finding"
        assert screen.why_not("mark") == "only findings with a fix are marked"
        await wait_for_text(pilot, "No automatic fix. Press R")
        await pilot.press("R")
        await wait_for(pilot, lambda: isinstance(pilot.app.screen, DraftingScreen), "what is broken")
        assert pilot.app.screen.wanted == Wanted("repair", None)
        await pilot.press("escape")
        await wait_for(pilot, lambda: pilot.app.screen is screen, "the findings")
        split = next(key for key, one in screen.list.examination.findings.items() if one.check == "G4")
        assert screen.list.go_to(split)
        await wait_for_text(pilot, "Rejoin the session into one conversation")
        await pilot.press("x")
        await previewed(pilot)
        await wait_for_text(pilot, "Merge conversation 5 into 8")
        await pilot.press("a")
        await left(pilot)
        await wait_for(
            pilot, lambda: split not in screen.list.examination.findings, "the check that ran again"
        )
        await done(pilot, screen)


# -- running -----------------------------------------------------------------------------------------------


@pytest.mark.long
async def test_a_change_of_the_file_is_said_and_nothing_runs_by_itself(database_copy: DatabaseFactory):
    path = database_copy(DAMAGED)
    async with open_app(path, size=(60, 15)) as pilot:
        screen = await health(pilot, 4)
        assert screen.list.go_to(DANGLING)
        run(path, "DELETE FROM message_parts WHERE message_id = 286")
        await wait_for_text(pilot, "changed since: ^r")
        await settled(pilot)
        assert any(one.check == "E13" for one in screen.list.examination.findings.values()), "as it was found"
        await pilot.press("ctrl+r")
        await wait_for(
            pilot,
            lambda: all(one.check != "E13" for one in screen.list.examination.findings.values()),
            "another run",
        )
        await done(pilot, screen)
        assert "changed since" not in shown(pilot)
        assert screen.selected_id() == DANGLING


@pytest.mark.long
async def test_what_reads_the_whole_file_is_asked_for_in_a_conversation(database_file: DatabaseFactory):
    async with open_app(database_file(DAMAGED)) as pilot:
        screen = await health(pilot, 1)
        assert screen.list.examination.results["F4"].state is CheckState.NOT_RUN
        assert "1 does" in screen.list.examination.results["F4"].reason
        await pilot.press("1")
        await wait_for(
            pilot, lambda: screen.list.examination.results["F1"].state is CheckState.RAN, "search tables"
        )
        await done(pilot, screen)
        await wait_until_said(pilot, "slow checks ran: ")
        assert screen.list.examination.results["G13"].state is CheckState.NOT_RUN, "it is about the file"


async def test_checks_that_were_stopped_at_once_say_nothing_of_damage(
    database_file: DatabaseFactory, monkeypatch: pytest.MonkeyPatch
):
    async def endless(*_: Any, **__: Any) -> Report:
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(examining, "run_checks", endless)
    async with open_app(database_file("0.15.3"), size=NARROW) as pilot:
        screen = await go_to(pilot, HealthScreen())
        await wait_for_text(pilot, "esc stops")
        await pilot.press("escape")
        await wait_for_text(pilot, f" stopped after 0 of {len(CHECKS)} checks")
        assert not re.search("no damage|0 broken|0 suspicious", shown(pilot))
        assert not screen.examiner.running


async def test_escape_stops_the_checks_and_then_leaves(
    database_file: DatabaseFactory, monkeypatch: pytest.MonkeyPatch
):
    async def halfway(*args: Any, **options: Any) -> Report:
        if options["only"] == STRUCTURE:
            return await run_checks(*args, **options)
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(examining, "run_checks", halfway)
    async with open_app(database_file(DAMAGED), size=NARROW) as pilot:
        screen = await go_to(pilot, HealthScreen())
        await wait_for(pilot, lambda: HOLE in screen.list.examination.findings, "the first part")
        assert screen.examiner.running
        await wait_for_text(pilot, "esc stops")
        await pilot.press("escape")
        assert not screen.examiner.running
        assert screen.list.examination.results["C3"].reason == "the checks were stopped earlier"
        assert re.search(r" stopped after \d\d of 1\d\d checks  ✗ [1-9]", shown(pilot))
        assert screen.list.examination.results["A11"].state is CheckState.RAN
        await settled(pilot)
        assert "stopped after" in check(pilot)
        await pilot.press("escape")
        await wait_for(pilot, lambda: pilot.app.screen is not screen, "the list of conversations")
        assert said(pilot) == []


@pytest.mark.long
async def test_the_pane_says_rule_fix_and_rows(database_file: DatabaseFactory):
    async with open_app(database_file(DAMAGED), size=WIDE) as pilot:
        screen = await health(pilot)
        stand_in = next(key for key in screen.list.examination.findings if key.startswith("C3:"))
        for key, *said in (
            (DANGLING, "A1 ", CHECKS["A1"].why, "context item at 13"),
            (HOLE, "A11 ", CHECKS["A11"].why, "Add the messages to the context again, in", "m521 #111"),
            (stand_in, "C3 ", "No automatic fix. Press R"),
        ):
            assert screen.list.go_to(key)
            await settled(pilot)
            pane = " ".join(screen.text.text.split())
            for text in said:
                assert text in pane, pane
