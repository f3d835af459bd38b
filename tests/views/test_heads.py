"""Lines that say all of what they say, whatever the width."""

from __future__ import annotations

import pytest
from lcm_core.base.findings import CheckResult, CheckState
from lcm_core.base.records import ConversationId, Timestamp
from lcm_core.checks.context import CHECKS
from lcm_core.store.listing import Snapshot

from lcm_tui.kit.bars import TitleBar
from lcm_tui.kit.panes import whole_lines
from lcm_tui.kit.spans import Column, Sorting, Span, heading_of, lay_out, lay_out_in_turn, text_of
from lcm_tui.tables.health import check_document
from lcm_tui.tables.snapshots import noted_document


def test_a_line_of_a_head_that_is_too_long_goes_on_below_and_loses_nothing():
    line = (Span(" draft 1 of 4", "title"), Span(" · 306 tokens (target 315) from a 900-token source", "dim"))
    assert [text_of(one) for one in whole_lines([(Span(" cost: nothing"),), line], 42)] == [
        " cost: nothing",
        " draft 1 of 4 · 306 tokens (target 315)",
        "   from a 900-token source",
    ]


def test_the_place_in_a_list_stays_in_the_title_beside_a_long_name_and_a_note():
    bar = TitleBar(lambda: "7 of 11")
    bar.where, bar.note = (
        "Summary DAG of 1  Schema migration before Friday",
        "63 summaries · 4 in the context",
    )
    bar.live = ((Span("live · idle · 3.8 MB"),), (Span("live · 3.8 MB"),), (Span("live"),))
    said = text_of(bar.compose_line(80))
    assert "7 of 11  live" in said
    assert "63 summaries · 4 in the context" in said
    assert "Summary DAG of 1  Schema mi" in said


def test_an_arrow_beside_a_title_takes_no_letter_of_it():
    layout = lay_out((Column("name", "name", 8, grows=True), Column("broken", "broken", 6, right=True)), 16)
    assert text_of(heading_of(layout)) == "name      broken"
    assert text_of(heading_of(layout, Sorting("name", descending=False))) == "name ↑    broken"
    assert text_of(heading_of(layout, Sorting("broken", descending=True))) == "name     ↓broken"


def test_a_name_has_the_room_it_wishes_before_lesser_columns_which_come_in_turn():
    columns = (
        Column("id", "id", 5, keep=100),
        Column("name", "name", 20, grows=True, wish=32),
        Column("state", "state", 15, keep=45),
        Column("bytes", "bytes", 8, keep=70),
    )
    assert lay_out(columns, 80).widths == (5, 49, 15, 8)
    first, second = lay_out_in_turn(columns, 54)
    assert [column.name for column in first.columns] == ["id", "name", "bytes"]
    assert first.widths == (5, 39, 8)
    assert [column.name for column in second.columns] == ["id", "name", "state"]
    assert second.widths == (5, 32, 15)


@pytest.mark.parametrize(
    ("zone", "said", "sorted_by"),
    [
        ("UTC", "last (UTC)", "last (UTC) ↓"),
        ("UTC+8", "last (UTC+8)", "last (UTC+8) ↓"),
        ("UTC+5:30", "last (UTC+5:30)", "last UTC+5:30 ↓"),
        ("CET/CEST", "last (CET/CEST)", "last CET/CEST ↓"),
        ("UTC+10:30/+11", "last activity", "last activity ↓"),
        ("", "last activity", "last activity ↓"),
    ],
)
def test_a_column_of_times_says_their_zone_as_far_as_there_is_room(zone: str, said: str, sorted_by: str):
    columns = (Column("id", "id", 5), Column("at", "last activity", 16, timed="last"), Column("x", "x", 3))
    layout = lay_out(columns, 40)
    assert text_of(heading_of(layout, zone=zone)) == f"{'id':<5} {said:<16} {'x':<3}"
    sorting = Sorting("at", descending=True)
    assert text_of(heading_of(layout, sorting, zone)) == f"{'id':<5} {sorted_by:<16} {'x':<3}"
    wide = lay_out((Column("at", "covers", 30, timed="in"),), 40)
    assert text_of(heading_of(wide, zone=zone)).strip() == (f"covers ({zone})" if zone else "covers")


def test_a_reason_that_is_a_sentence_gets_no_second_full_stop():
    for reason in ("it stopped halfway: lcm.db is damaged.", "it stopped halfway: lcm.db is damaged"):
        result = CheckResult(CHECKS[0], CheckState.NOT_RUN, reason, (), 0)
        assert check_document(result)[1].text == "It stopped halfway: lcm.db is damaged."


def test_one_item_of_a_snapshot_is_counted_as_one():
    noted = {"contextItemCount": 1, "summaryCount": 0, "freshTailCount": 2}
    one = Snapshot(
        id="asm_1",
        conversation_id=ConversationId(1),
        created_at=Timestamp(""),
        rules="1.0",
        zone=None,
        messages_hash="",
        budget=1_000,
        fresh_tail_count=None,
        fresh_tail_max_tokens=None,
        stub_large_tool_payloads=False,
        metadata=noted,
        selection="",
        sent_tokens=0,
        evicted=0,
        sent=(),
        dropped=(),
    )
    said = "\n".join(text_of(each.spans or ()) for each in noted_document(one, "today"))
    assert "1 item, 0 of them summaries" in said
    assert "2 items, not known tokens" in said
