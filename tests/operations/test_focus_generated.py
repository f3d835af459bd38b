"""Every change of briefs on rows of odd values: done and undone without a trace, or refused in a sentence."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest
from lcm_core.api import (
    BriefText,
    LcmError,
    plan_activate_brief,
    plan_clear_brief,
    plan_create_brief,
    plan_delete_brief,
)
from lcm_core.change.commit import commit
from lcm_core.operations.focus import load_briefs, plan_brief, read_refocus
from lcm_core.store.focus import active_brief

from tests.change.support import dump, planned, reading, undo
from tests.core.test_briefs_generated import ONE, fill
from tests.databases import column, new_database

ACTIVE = "SELECT brief_id FROM focus_briefs WHERE conversation_id = 1 AND status = 'active'"


async def refocus(reader):
    return await plan_brief(reader, await read_refocus(reader, ONE), BriefText("Again."))


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    "seed", [*range(6), *(pytest.param(one, marks=pytest.mark.long) for one in range(6, 120))]
)
def test_every_change_of_odd_briefs_is_undone(seed: int, tmp_path: Path):
    path = new_database(tmp_path / "lcm.db")
    fill(path, random.Random(seed))
    entries = asyncio.run(reading(path, lambda reader: load_briefs(reader, ONE)))
    ids = [one.brief.brief_id for one in entries]
    wanted = [
        *((plan_activate_brief, (ONE, one)) for one in ids),
        *((plan_delete_brief, (ONE, one)) for one in ids),
        (plan_clear_brief, (ONE,)),
        (plan_create_brief, (ONE, "Why?", BriefText("Body \0 \ud800", "m", cited=("sum_0", "sum_nobody")))),
        (refocus, ()),
    ]
    before, refusals = dump(path), []
    for plan, arguments in wanted:
        try:
            made = asyncio.run(planned(path, plan, *arguments))
        except LcmError as error:
            refusals.append(error.message)
            continue
        done = commit(path, made)
        there = column(path, ACTIVE)
        if plan in (plan_activate_brief, plan_create_brief, refocus):
            assert there == [made.select]
            found = asyncio.run(reading(path, lambda reader: active_brief(reader, ONE)))
            assert found is not None
            assert found.brief_id == made.select
        elif plan is plan_clear_brief:
            assert there == []
        undo(path, done.id)
        assert dump(path) == before
    assert all(one.endswith((".", ")")) for one in refusals)
