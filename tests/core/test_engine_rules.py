"""Which engine a file is compacted like follows from its schema."""

from __future__ import annotations

from dataclasses import replace

import pytest
from lcm_core.engine_rules import RULES_0_1, RULES_PRESENT, engine_rules
from lcm_core.fresh_tail import fresh_tail
from lcm_core.operations.compaction.reading import load_context
from lcm_core.operations.compaction.selection import tail_start
from lcm_core.store.context import entries_of, references
from lcm_core.store.database import Database, Reader
from lcm_core.store.schema import BETA_TABLES, FEATURES, Schema
from lcm_core.summarize.reading import Rendering
from lcm_core.tokens import Estimator

from tests.conftest import DatabaseFactory

VERSIONS = ("0.1.2", "0.3.0", "0.8.2", "0.15.3")


async def test_the_recorded_versions(database_file: DatabaseFactory) -> None:
    found = {}
    for version in VERSIONS:
        async with await Database.open(database_file(version)) as database:
            found[version] = engine_rules(database.schema)
    assert found["0.1.2"] == RULES_0_1
    assert replace(found["0.3.0"], ingest=RULES_0_1.ingest) == RULES_0_1  # it stores otherwise
    assert found["0.15.3"] == RULES_PRESENT
    between = found["0.8.2"]
    assert (between.name, between.estimator) == ("0.8", Estimator.WEIGHTED)
    passes = between.compaction
    assert (passes.leaf_trigger, passes.has_prefix_target, passes.bounded) == (
        True,
        False,
        False,
    )
    assert (between.source.names_role, between.source.reads_structure) == (False, False)
    assert (between.tail.fresh_tail_count, between.source.strip_injected_context_tags) == (64, ())


def test_what_the_rules_of_a_file_are_called() -> None:
    tables: dict[str, frozenset[str]] = {}
    names = {}
    for tag, table, column in FEATURES:
        tables[table] = tables.get(table, frozenset()) | ({column} if column else set())
        names[tag] = engine_rules(Schema(tables)).name  # the last of a tag stands for it
    assert (names["0.5.0"], names["0.7.0"], names["0.9.0"], names["0.9.2"]) == ("0.1", "0.6", "0.8", "0.9")
    assert (names["0.12.0"], names["0.13.0"], names["0.15.2"]) == ("0.13", "0.13", "0.15")
    assert engine_rules(Schema(tables | {table: frozenset() for table in BETA_TABLES})).name == "0.15"


@pytest.mark.parametrize("version", VERSIONS)
async def test_the_tail_is_that_of_the_context_screen(version: str, database_file: DatabaseFactory) -> None:
    async with await Database.open(database_file(version)) as database:
        rules = engine_rules(database.schema)

        async def compare(reader: Reader) -> list[tuple[int | None, int | None]]:
            pairs = []
            for row in await reader.rows("SELECT DISTINCT conversation_id FROM context_items"):
                loaded = await load_context(reader, row[0], Rendering(rules))
                entries = await entries_of(reader, (await references(reader, row[0])).items())
                items = [_Item(one.item.ordinal, one.role, one.tokens or 0) for one in entries]
                for count in (1, 7, 64):
                    start = tail_start(loaded.context, count, rules.tail)
                    ours = loaded.context.ordinals[start] if start < len(loaded.context) else None
                    pairs.append(
                        (ours, fresh_tail(items, replace(rules.tail, fresh_tail_count=count)).first_ordinal)
                    )
            return pairs

        pairs = await database.read(compare)
    assert pairs
    assert all(ours == theirs for ours, theirs in pairs)


class _Item:
    """A context item as the rule of the context screen sees it."""

    def __init__(self, ordinal: int, role: str | None, tokens: int) -> None:
        self.ordinal, self.role, self.tokens = ordinal, role, tokens
        self.is_message = role is not None
