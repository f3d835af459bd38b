"""The context of a conversation: its items, what is wrong with them, and what they add up to."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lcm_core.api import Database
from lcm_core.base.records import ContextItems
from lcm_core.base.text import fold, parse_budget, sought_as, step
from lcm_core.base.tokens import Verdict
from lcm_core.engine.rules import RULES_PRESENT, engine_rules
from lcm_core.store import context as store
from lcm_core.store.context_view import gap_text, read_context, searched_text, tail_in, totals_of

from tests.databases import building, query
from tests.support import VERSIONS, with_values

ABNORMAL_ORDINAL = 10_000_000
STEPS = (4000, 8000, 16000, 32000, 64000, 100000, 128000, 200000, 256000, 400000, 1000000)
TAIL = ("tail", 0, 0)

DatabaseFactory = Callable[[str], Path]
ONE = 1


async def shown_context(database: Database, number: int):
    """A context as a screen reads it."""
    return await database.read(read_context, number, engine_rules(database.schema).tail)


# -- what is right ---------------------------------------------------------------------------------------


@pytest.mark.cases(4)
@pytest.mark.parametrize("version", VERSIONS)
async def test_totals_are_what_plain_sql_says(database_file: DatabaseFactory, version: str):
    path = database_file(version)
    expected = {
        number: row
        for number, *row in query(
            path,
            """SELECT c.conversation_id, count(*), count(c.message_id), count(c.summary_id),
            sum(coalesce(m.token_count, s.token_count, 0)),
            sum(m.message_id IS NULL AND s.summary_id IS NULL)
            FROM context_items AS c LEFT JOIN messages AS m USING (message_id)
            LEFT JOIN summaries AS s ON s.summary_id = c.summary_id GROUP BY c.conversation_id""",
        )
    }
    assert len(expected) >= 7
    async with await Database.open(path) as database:
        for number, (items, messages, summaries, tokens, dangling) in expected.items():
            totals = (await shown_context(database, number)).totals
            assert (totals.items, totals.messages, totals.summaries) == (items, messages, summaries)
            assert (totals.tokens, totals.dangling, totals.foreign) == (tokens, dangling, 0)
            assert sum(group.tokens for group in totals.groups) == tokens
            assert sum(group.count for group in totals.groups) == items - dangling


async def test_groups_of_a_context(database_file: DatabaseFactory):
    async with await Database.open(database_file("0.15.3")) as database:
        known = await shown_context(database, 1)
        few = with_values(RULES_PRESENT, fresh_tail_count=2).tail
    split = totals_of(known.entries, tail_in(known.entries, few), ONE)
    assert [(group.name, group.protected, group.count, group.tokens) for group in known.totals.groups] == [
        ("D3", False, 2, 509),
        ("D2", False, 2, 456),
        ("user", True, 4, 284),
        ("assistant", True, 9, 1195),
        ("tool", True, 5, 860),
    ]
    assert [(group.name, group.protected) for group in split.groups] == [
        ("D3", False),
        ("D2", False),
        ("user", False),
        ("assistant", False),
        ("tool", False),
        ("user", True),
        ("assistant", True),
        ("tool", True),
    ]
    assert round(known.totals.share(128_000), 4) == 0.0258
    assert [known.running[place] for place in (0, 1, 21)] == [282, 509, 3304]


@pytest.mark.long
async def test_stored_counts_are_the_engines_but_for_signed_reasoning(database_file: DatabaseFactory):
    found = []
    async with await Database.open(database_file("0.15.3")) as database:
        for number in range(1, 9):
            items = await database.read(store.context_items, number)
            found += [await database.read(store.check_tokens, item) for item in items.refs]
    odd = [check for check in found if check is None or check.verdict is not Verdict.FITS]
    assert len(found) == 150
    assert {check and check.lacking for check in odd} == {"signed reasoning was counted in another form"}
    assert len(odd) == 5


@pytest.mark.parametrize(("table", "key", "item"), [
    ("summaries", "summary_id", "sum_bb692ab9b90b6a49"),
    ("messages", "message_id", 848),
])  # fmt: skip
async def test_a_wrong_count_is_told_from_a_right_one(
    database_copy: DatabaseFactory, table: str, key: str, item
):
    path = database_copy("0.15.3")
    async with await Database.open(path) as database:
        before = await database.read(store.check_tokens, item)
    with building(path, checks=False) as rows:
        rows.execute(f"UPDATE {table} SET token_count = token_count + 7 WHERE {key} = ?", item)
    async with await Database.open(path) as database:
        after = await database.read(store.check_tokens, item)
        gone = await database.read(store.check_tokens, "sum_gone")
    assert before is not None
    assert after is not None
    assert (before.verdict, after.verdict) == (Verdict.FITS, Verdict.DIFFERS)
    assert after.weighted in (before.weighted, 91)  # the blocks of message 848 as JSON count 91, its text 85
    assert gone is None


async def test_the_sources_that_a_wrapper_names(database_file: DatabaseFactory):
    async with await Database.open(database_file("0.15.3")) as database:
        condensed, leaf = "sum_253c14ef1ca84d7c", "sum_9a7f94a529fbc394"
        sources = await database.read(store.present_sources, [condensed, leaf])
    assert sources == {condensed: ["sum_41231e346260ecbc", "sum_a9293ba83e71ce65"]}


async def test_a_search_looks_at_ids_kinds_and_previews(database_file: DatabaseFactory):
    async with await Database.open(database_file("0.15.3")) as database:
        known = await shown_context(database, 1)
    texts = [fold(searched_text(entry)) for entry in known.entries]

    def found(needle: str) -> int | None:
        return next((place for place, text in enumerate(texts) if sought_as(needle) in text), None)

    assert found("SUM_BB69") == 3
    assert found("m848 #367") == 4
    assert found("tool") == 6
    assert found("d2") == 2
    assert found("nowhere to be found") is None


# -- what is wrong ---------------------------------------------------------------------------------------


async def test_the_damage_that_was_made(database_file: DatabaseFactory):
    async with await Database.open(database_file("0.15.3-damaged")) as database:
        three, four = await shown_context(database, 3), await shown_context(database, 4)
    assert [gap_text(gap) for gap in three.items.gaps] == ["gap: ordinal 2 is missing"]
    assert [key for key in three.keys if key[0] == "gap"] == [("gap", 2, 0)]
    assert three.keys[2] == ("gap", 2, 0)
    dangling = [place for place in range(14) if four.findings(place)]
    assert dangling == [13]
    assert four.items.refs[13] == 286
    [found] = four.findings(13)
    assert (found.finding, found.text) == ("dangling", "row is gone: the engine skips it")
    assert not any(three.findings(place) for place in range(27))


async def test_damage_of_every_other_kind(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    with building(path, checks=False) as rows:
        rows.item(1, 848, -3)
        rows.item(1, "sum_4c4bd5292abfa225", 24)
        rows.item(1, 569, 25)
        rows.item(1, "sum_6f28c0a7f6f90a1a", 26, item_type="message")
        rows.item(1, 0, 27, item_type="summary", message_id=None)
        rows.item(1, 865, ABNORMAL_ORDINAL + 5)
    async with await Database.open(path) as database:
        known = await shown_context(database, 1)
    view = known
    said = {
        ordinal: [(found.finding, found.text) for found in known.findings(place)]
        for place, ordinal in enumerate(view.items.ordinals)
        if known.findings(place)
    }
    negative = "negative ordinal: a resequencing was interrupted"
    huge = "ordinal out of range: a resequencing was interrupted"
    both = "duplicate: also at {}"
    assert said == {
        -3: [("duplicate", both.format("4")), ("ordinal", negative)],
        0: [("duplicate", both.format("24"))],
        1: [("duplicate", both.format("26"))],
        4: [("duplicate", both.format("-3"))],
        21: [("duplicate", both.format("10,000,005"))],
        24: [("duplicate", both.format("0"))],
        25: [("foreign", "belongs to conversation 2")],
        26: [
            ("type", "item_type is message, but it refers to a summary"),
            ("duplicate", both.format("1")),
        ],
        27: [("dangling", "refers to nothing: the engine skips it")],
        ABNORMAL_ORDINAL + 5: [("duplicate", both.format("21")), ("ordinal", huge)],
    }
    assert [gap_text(gap) for gap in view.items.gaps] == ["gap: ordinals 22–23 are missing"]
    assert len(view.keys) == len(set(view.keys)) == 28 + 2
    assert ("summary", "sum_4c4bd5292abfa225", 0) in view.keys
    assert ("summary", "sum_4c4bd5292abfa225", 1) in view.keys
    assert ("item", 27, 0) in view.keys
    assert (known.totals.foreign, known.totals.dangling) == (1, 1)


@pytest.mark.long
@given(st.sets(st.integers(-20, 60) | st.integers(ABNORMAL_ORDINAL - 3, ABNORMAL_ORDINAL + 5), min_size=1))
def test_gaps_are_the_missing_ordinals(ordinals: set[int]):
    held = tuple(sorted(ordinals))
    items = ContextItems.naming(range(len(held)), held)
    normal = [ordinal for ordinal in held if 0 <= ordinal < ABNORMAL_ORDINAL]
    gaps = items.gaps
    missing = [at for gap in gaps for at in (gap.first, gap.last)]
    assert sum(gap.last - gap.first + 1 for gap in gaps) == (normal[-1] + 1 - len(normal) if normal else 0)
    assert not set(missing) & ordinals
    assert all(held[gap.place] == gap.last + 1 for gap in gaps)


def test_what_stands_twice_and_what_a_type_does_not_say():
    message, other, name = 1, 2, "sum_a"
    items = ContextItems(
        (0, 1, 2, 3, 4, 5),
        ("message", "summary", "message", "summary", "message", "summary"),
        (message, None, None, other, None, None),
        (None, name, name, "sum_b", None, None),
        ("",) * 6,
    )
    assert items.refs == (1, "sum_a", "sum_a", "sum_b", None, None)
    assert items.repeated == {"sum_a": (1, 2)}
    assert items.mismatched == {2, 3, 4, 5}
    assert [item.summary_id for item in items] == list(items.summary_ids)
    assert items.item(-1) == list(items)[-1]


async def test_lines_between_items_stand_where_they_belong(database_file: DatabaseFactory):
    async with await Database.open(database_file("0.15.3")) as database:
        known = await shown_context(database, 2)
    assert known.keys[:3] == (
        ("brief", "focus_0641d2bb900b47e2", 0),
        ("summary", "sum_253c14ef1ca84d7c", 0),
        TAIL,
    )
    assert known.places[:4] == (0, 0, 1, 1)
    assert known.is_covered("sum_253c14ef1ca84d7c")
    assert not known.is_covered(569)
    assert known.tokens_with_brief() == 2235 - 248 + 40
    assert [known.is_protected(place) for place in (0, 1)] == [False, True]


async def test_a_context_is_read_in_as_many_statements_whatever_it_holds(database_copy: DatabaseFactory):
    path, counts = database_copy("0.15.3"), []
    for _ in range(2):
        async with await Database.open(path) as database:
            before = database.statements
            known = await shown_context(database, 1)
            counts.append(database.statements - before)
        with building(path, checks=False) as rows:
            for message in range(2, 200):
                rows.item(1, message)
    assert len(known.entries) == len(known.running) == 22 + 198
    assert max(counts) <= 6


async def test_a_file_without_context_items(database_copy: DatabaseFactory):
    path = database_copy("0.1.2")
    with building(path, checks=False) as rows:
        rows.execute("DROP TABLE context_items")
    async with await Database.open(path) as database:
        known = await shown_context(database, 1)
    assert (known.totals.items, known.totals.tokens, known.keys) == (0, 0, ())


async def test_values_of_the_wrong_type_are_no_defect(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    with building(path, checks=False) as rows:
        rows.execute("UPDATE messages SET token_count = 'many' WHERE message_id = 848")
        rows.execute("UPDATE messages SET content = x'ff00fe' WHERE message_id = 849")
        rows.execute("UPDATE context_items SET ordinal = 7.5 WHERE conversation_id = 1 AND ordinal = 7")
    async with await Database.open(path) as database:
        known = await shown_context(database, 1)
        checks = [await database.read(store.check_tokens, item) for item in known.items.refs]
    assert known.totals.tokens == 3304 - 85
    assert known.entries[5].preview == "\udcff\x00\udcfe"
    assert all(check is not None for check in checks)


# -- the budget ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "tokens"),
    [
        ("128000", 128_000),
        ("128,000", 128_000),
        (" 128 k ", 128_000),
        ("1m", 1_000_000),
        ("1.5M", 1_500_000),
        ("0.25k", 250),
        ("1", 1),
    ],
)
def test_budgets_as_people_write_them(written: str, tokens: int):
    assert parse_budget(written) == tokens


@pytest.mark.parametrize("written", ["", "0", "0k", "-1", "k", "1.5", "12kk", "1e6", "٣", "9" * 40])
def test_what_is_no_budget(written: str):
    assert parse_budget(written) is None


def test_steps_go_up_and_down_through_the_same_sizes():
    sizes = [STEPS[0]]
    while (larger := step(sizes[-1], 1)) != sizes[-1]:
        sizes.append(larger)
    assert tuple(sizes) == STEPS
    assert [step(size, -1) for size in STEPS[1:]] == list(STEPS[:-1])
    assert step(STEPS[0], -1) == STEPS[0]
    assert (step(130_000, 1), step(130_000, -1)) == (200_000, 128_000)
