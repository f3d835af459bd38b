"""Where a line of a summary comes from: the messages below it, best first, and the way to them."""

from __future__ import annotations

from tests.app.support import NARROW, dag_on, open_app, settled, shown, wait_for_text
from tests.conftest import DatabaseFactory
from tests.databases import column, run

SUMMARY = "sum_a8e198f2d073c00f"


async def test_a_line_is_traced_to_the_message_that_says_it_in_three_keys(database_file: DatabaseFactory):
    path = database_file("0.15.3")
    line = "scripts/backfill_users.sh:348: refreshToken(640f)"
    [seq] = column(
        path,
        f"""SELECT DISTINCT seq FROM messages JOIN message_parts USING (message_id)
        WHERE coalesce(text_content, '') || coalesce(tool_output, '') LIKE '%{line}%'""",
    )
    async with open_app(path, size=NARROW) as pilot:
        await settled(pilot)
        await dag_on(pilot, SUMMARY)
        await pilot.press("L", "j")
        await wait_for_text(pilot, f"Lines of {SUMMARY}", line, f"#{seq}  tool")
        await settled(pilot)
        first = next(row for row in shown(pilot).split("\n") if " %  #" in row)
        assert f"#{seq}" in first
        await pilot.press("enter")
        await wait_for_text(pilot, f"#{seq}", "tool")


async def test_what_no_message_says_was_made_up(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    made_up = "Nobody approved zebra-quartz 99817 in Ouagadougou.\n"
    run(path, f"UPDATE summaries SET content = '{made_up}' || content WHERE summary_id = '{SUMMARY}'")
    async with open_app(path, size=NARROW) as pilot:
        await settled(pilot)
        await dag_on(pilot, SUMMARY)
        await pilot.press("L")
        await wait_for_text(pilot, "No message below this summary says this.")
        await pilot.press("enter")
        await wait_for_text(pilot, "no message says this")
