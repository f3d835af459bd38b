"""Repair: the rows that the engine's doctor repairs, in its order; and afterwards nothing is bad."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest
from lcm_core.api import BadKind, Database, ExtractiveSummarizer, NotFoundError
from lcm_core.checks.running import run_checks
from lcm_core.engine.markers import MARKER_LIKE
from lcm_core.operations.drafting import ItemState
from lcm_core.operations.drafts import AcceptanceRule
from lcm_core.operations.repair import find_repair, kind_of_text
from lcm_core.writers.cost import FREE, CallMeter

from tests.change.support import dump, search_faults
from tests.conftest import DatabaseFactory
from tests.databases import query, run, value
from tests.operations.drafting import (
    VERSIONS,
    Writer,
    bad_ids,
    batch_of,
    faults_of,
    repair_of,
    states,
    taken_back,
)
from tests.support import recorded, sampled


async def test_the_rows_that_the_doctor_repaired_in_its_order(database_file: DatabaseFactory) -> None:
    commands = recorded("lcm-0.15.3.doctor-apply.json.gz")
    changed = {one["before"]["summary_id"] for one in commands["changedSummaries"]}
    found: set[str] = set()
    async with await Database.open(database_file("0.15.3")) as database:
        for command in commands["commands"]:
            owner = int(re.findall(r"conversation id: (\d+)", command["text"])[0])
            listed = re.findall(r"sum_[0-9a-f]{16}", command["text"].partition("Repaired summaries")[2])
            ids = bad_ids(await repair_of(database, owner))
            assert ids == listed
            found.update(ids)
    assert found == changed


@pytest.mark.cases(1)
@pytest.mark.parametrize("version", [*VERSIONS, "0.15.3-damaged"])
async def test_what_is_bad_is_what_the_checks_say(version: str, database_file: DatabaseFactory) -> None:
    path = database_file(version)
    async with await Database.open(path) as database:
        report = await run_checks(database, only={"C1", "C2", "C3", "C4", "C7", "C9", "C10", "C15"})
        sure = {
            one.rows[0].key[0]
            for one in report.findings()
            if one.confidence == "broken" and one.check != "C10"
        }
        spoiled = {one.rows[0].key[0] for one in report.findings() if one.check == "C10"}
        found, direct = set(), set()
        for owner in [one for (one,) in query(path, "SELECT conversation_id FROM conversations")]:
            repair = await repair_of(database, owner)
            found.update(bad_ids(repair))
            direct.update(one.summary.summary_id for one in repair.contaminated if one.direct)
    assert found == sure
    assert spoiled == direct


@pytest.mark.long
@pytest.mark.parametrize("version", sampled(VERSIONS, ("0.1.2", "0.15.3")))
async def test_afterwards_nothing_is_bad_and_all_of_it_can_be_taken_back(
    version: str, database_copy: DatabaseFactory
) -> None:
    path = database_copy(version)
    before, faults = dump(path), await faults_of(path)
    async with await Database.open(path) as database:
        writer = ExtractiveSummarizer(CallMeter(FREE))
        repair = await repair_of(database)
        batch = batch_of(database, repair.items, writer, kind="repair", rule=AcceptanceRule())
        await batch.run()
        assert set(states(batch).values()) == {ItemState.COMMITTED}
        assert bad_ids(await repair_of(database)) == []
        assert await faults_of(path) <= faults
        assert search_faults(path) == []
        if database.schema.has("summaries", "model"):
            models = {
                value(path, "SELECT model FROM summaries WHERE summary_id = ?", one) for one in states(batch)
            }
            assert models == {"extractive"}
        await taken_back(database, batch.id)
    assert dump(path) == before


@pytest.mark.long
async def test_a_consumer_is_made_from_the_new_texts_of_its_sources(database_copy: DatabaseFactory) -> None:
    path = database_copy("0.15.3")
    async with await Database.open(path) as database:
        repair = await repair_of(database)
        assert [one.reason for one in repair.items] == ["fallback"] * 4
        wanted = repair.all_items
        writer = Writer()
        batch = batch_of(database, wanted, writer, rule=AcceptanceRule(), kind="repair", in_flight=1)
        await batch.run()
        assert set(states(batch).values()) == {ItemState.COMMITTED}
    chain = next(one for one in wanted if one.depth == 2 and one.after)
    asked = writer.calls[list(states(batch)).index(chain.summary_id)]
    assert (asked.depth, asked.previous) == (2, None)
    for source in chain.after:
        assert value(path, "SELECT content FROM summaries WHERE summary_id = ?", source) in asked.text
    assert not any(marker in asked.text for marker in MARKER_LIKE)


async def test_contaminated_consumers_are_listed_and_chosen_apart(database_file: DatabaseFactory) -> None:
    async with await Database.open(database_file("0.15.3")) as database:
        repair = await repair_of(database)
    bad = set(bad_ids(repair))
    assert {item.summary_id for item in repair.items} == bad
    apart = {one.summary.summary_id: one for one in repair.contaminated}
    assert not bad & apart.keys()
    assert {item.summary_id for item in repair.all_items} == bad | apart.keys()
    direct = apart["sum_382ac3e5b5b5cc57"]
    assert direct.direct
    assert set(direct.sources) <= bad
    above = apart["sum_93d8bff206c72158"]
    assert not above.direct
    assert set(above.sources) <= apart.keys() | bad
    order = [item.summary_id for item in repair.all_items]
    assert all(
        order.index(source) < order.index(item.summary_id)
        for item in repair.all_items
        for source in item.after
    )


async def test_a_summary_whose_id_is_bytes_is_passed_over(database_copy: DatabaseFactory) -> None:
    path = database_copy("0.15.3")
    async with await Database.open(path) as database:
        before = await repair_of(database)
    for one in (before.bad[0].summary.summary_id, before.contaminated[0].summary.summary_id):
        for table, column in (("summaries", "summary_id"), ("summary_parents", "summary_id")):
            run(path, f"UPDATE {table} SET {column} = CAST({column} AS BLOB) WHERE {column} = '{one}'")
    async with await Database.open(path) as database:
        found = await repair_of(database)
    assert bad_ids(found) == bad_ids(before)[1:]
    assert len(found.contaminated) < len(before.contaminated)


async def test_it_is_narrowed_down(database_file: DatabaseFactory) -> None:
    async with await Database.open(database_file("0.15.3")) as database:
        one = 3
        truncated = await database.read(find_repair, one, kinds={"truncated"})
        assert bad_ids(truncated) == ["sum_e3abe9b12886b92b"]
        named = await database.read(find_repair, one, summary_ids=["sum_cc7a115ea76fd980"])
        assert bad_ids(named) == ["sum_cc7a115ea76fd980"]
        since = datetime(2027, 1, 1, tzinfo=UTC)
        assert bad_ids(await database.read(find_repair, one, since=since)) == []
        with pytest.raises(NotFoundError):
            await database.read(find_repair, one, summary_ids=["sum_6c18661f50d6fc7f"])


async def test_quoted_markers_and_a_model_of_its_own_are_left_alone(database_copy: DatabaseFactory) -> None:
    path = database_copy("0.15.3")
    sound = "sum_41231e346260ecbc"
    run(
        path,
        f"""UPDATE summaries SET content = '[Truncated from 12 tokens] was at the end of the old text.'
        || content WHERE summary_id = '{sound}'""",
    )
    async with await Database.open(path) as database:
        assert sound not in bad_ids(await repair_of(database, 2))


@pytest.mark.parametrize(
    ("text", "model", "kind"),
    [
        ("\u3000\n", "m", "empty"),
        ('{"type": "error", "error": {"message": "no"}}', "m", "error"),
        ("I'm sorry, but I can't help with that.", "m", "refusal"),
        ("<think>What is this?</think>\nA text", "m", "reasoning"),
        ("A text\n[Capped from 900 tokens to ~600]", "m", "capped"),
        ("... --- ...", "m", "wordless"),
        ("概要。決定した。", "m", None),
        ("A text", "emergency-fallback", "emergency"),
        ("漢字" * 300 + "\n[Truncated from 900 tokens]", "m", "truncated"),
    ],
)
def test_kinds(text: str, model: str, kind: BadKind | None) -> None:
    assert kind_of_text(text, model) == kind
