"""Focus briefs: which one counts, what it covers, and what the model gets instead."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC
from pathlib import Path

import pytest
from lcm_core.api import Database
from lcm_core.base.records import FocusBrief
from lcm_core.base.values import replace
from lcm_core.engine.wrapper import SummaryReach, covers, overlay
from lcm_core.store.focus import active_brief, focus_overlay, list_briefs

from tests.databases import connect
from tests.support import recorded

DatabaseFactory = Callable[[str], Path]
BRIEF = FocusBrief(
    "focus_1", 1, "p", "c", "active", 1, 1, "2026-03-02T10:00:00.000Z", 44, None,
    None, "2026-03-04 12:00:00", "",
)  # fmt: skip


def held(last_seq: int | None, latest: str | None, ordinal: int = 0) -> SummaryReach:
    latest_at = None if latest is None else latest
    return SummaryReach(f"sum_{ordinal}", ordinal, last_seq, latest_at)


async def test_the_briefs_of_a_conversation_newest_first(database_file: DatabaseFactory):
    async with await Database.open(database_file("0.15.3")) as database:
        listed = {number: await database.read(list_briefs, number) for number in (1, 2, 3)}
        active = [await database.read(active_brief, number) for number in (1, 2, 3)]
    assert [(one.brief_id, one.status) for one in listed[2]] == [
        ("focus_0641d2bb900b47e2", "active"),
        ("focus_176b108901f00a77", "failed"),
        ("focus_b291d54f7a07a200", "superseded"),
    ]
    assert [one.status for one in listed[3]] == ["inactive", "failed", "superseded"]
    assert listed[1] == []
    assert active == [None, listed[2][0], None]


async def test_the_recorded_overlay(database_file: DatabaseFactory):
    (sent,) = [
        text for text in recorded("wrapped-summaries.json.gz")["0.15.3"] if text.startswith("<focus_brief ")
    ]
    async with await Database.open(database_file("0.15.3")) as database:
        over = await database.read(focus_overlay, 2, UTC)
        none = await database.read(focus_overlay, 3, UTC)
    assert over is not None
    assert over.text == sent
    assert (over.at_ordinal, over.covered) == (0, {"sum_253c14ef1ca84d7c"})
    assert none is None


async def test_an_active_brief_without_text_or_coverage_does_nothing(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    with connect(path) as database:
        database.execute(
            "UPDATE focus_briefs SET status = 'active' WHERE brief_id = 'focus_176b108901f00a77'"
        )
        database.execute("UPDATE focus_briefs SET covered_message_seq = 43 WHERE status = 'active'")
    async with await Database.open(path) as database:
        active = await database.read(active_brief, 2)
        over = await database.read(focus_overlay, 2, UTC)
    assert active is not None
    assert active.brief_id == "focus_0641d2bb900b47e2"
    assert over is None


async def test_versions_without_briefs_have_none(database_file: DatabaseFactory):
    async with await Database.open(database_file("0.8.2")) as database:
        assert await database.read(list_briefs, 2) == []
        assert await database.read(focus_overlay, 2, UTC) is None


@pytest.mark.parametrize(
    ("last_seq", "latest", "covered"),
    [
        (44, "2027-01-01 00:00:00", True),  # messages decide when both know them
        (45, "2020-01-01 00:00:00", False),
        (None, "2026-03-02 10:00:00", True),  # the same time in the other format
        (None, "2026-03-02 10:00:01", False),
        (None, None, False),
        (None, "1 March", True),  # as text, like the engine
        (None, "3 March", False),
    ],
)
def test_what_a_brief_covers(last_seq: int | None, latest: str | None, covered: bool):
    assert covers(BRIEF, held(last_seq, latest)) is covered
    by_time = replace(BRIEF, covered_message_seq=None)
    assert covers(replace(by_time, covered_latest_at=None), held(last_seq, latest)) is False


def test_one_item_takes_the_place_of_all_that_is_covered():
    context = [held(50, None, 3), held(20, None, 5), held(44, None, 9), held(None, None, 11)]
    over = overlay(BRIEF, context, UTC)
    assert over is not None
    assert (over.at_ordinal, over.covered) == (5, {"sum_5", "sum_9"})
    assert overlay(BRIEF, context[:1], UTC) is None
