"""How ids are written in lists."""

from __future__ import annotations

from pathlib import Path

import pytest
from lcm_core.engine.markers import FALLBACK_MARKER

from tests.app.support import NARROW, open_app, settled, wait_for_text
from tests.databases import building, new_database


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    "keys", [("s",), ("c",), ("R", "enter"), ("F", *"needle"), ("H", "right", "down", "right", "down")]
)
async def test_two_ids_that_begin_alike_have_one_digit_more_in_every_list(
    keys: tuple[str, ...], tmp_path: Path
):
    path = new_database(tmp_path / "lcm.db")
    with building(path) as rows:
        owner = rows.conversation()
        for name in ("sum_01234567aaaaaaaa", "sum_01234567bbbbbbbb", "sum_76543210cccccccc"):
            rows.summary(owner, name, f"{FALLBACK_MARKER}\nneedle", in_context=True)
    async with open_app(path, size=NARROW) as pilot:
        await settled(pilot)
        for key in keys:
            await pilot.press(key)
            await settled(pilot)
        await wait_for_text(pilot, "sum_01234567a ", "sum_01234567b ", "sum_76543210c ")
