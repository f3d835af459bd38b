"""Every damage that the doctor finds and can mend, planted into a copy, mended, and taken back."""

from __future__ import annotations

import sqlite3

import pytest
from lcm_core.base.findings import FixId

from tests.conftest import DatabaseFactory
from tests.core.checks.every_damage import DAMAGES
from tests.core.checks.planting import Plant
from tests.operations.fixing import Key, findings_of, fix, key_of

#: One for each kind of fix; the others take two minutes.
SHORT = {
    "a_message_of_the_context_is_deleted",
    "a_summary_of_another_conversation",
    "a_summary_went_into_two",
    "a_gap_where_a_message_was",
    "a_message_left_the_middle_of_a_leaf",
    "a_source_was_made_from_its_consumer",
    "wrong_tokens_of_a_leaf",
    "a_block_was_replayed",
}

_healthy: set[Key] = set()


def param(plant: Plant) -> object:
    marks = () if plant.make.__name__ in SHORT else (pytest.mark.long,)
    return pytest.param(plant, marks=marks, id=plant.name)


@pytest.mark.long
@pytest.mark.parametrize("plant", map(param, DAMAGES))
async def test_what_can_be_mended_is_gone_and_nothing_new_is_there(
    plant: Plant, database_copy: DatabaseFactory, database_file: DatabaseFactory
):
    _healthy.update(() if _healthy else map(key_of, await findings_of(database_file("0.15.3"))))
    path = database_copy("0.15.3")
    connection = sqlite3.connect(path)
    plant.make(connection)
    connection.commit()
    connection.close()

    def wanted(one) -> bool:
        return one.fix not in (None, FixId.MERGE_SPLIT) and key_of(one) not in _healthy

    done = await fix(path, wanted)
    left = {key_of(one) for one in done.after}
    mended = [one for one in done.before if wanted(one)]
    assert not [one for one in mended if key_of(one) in left]
    assert not [one for one in done.new if key_of(one) not in _healthy]
    assert bool(mended) == bool(done.fixes)
    assert not done.fixes.left


def test_every_kind_of_fix_has_a_damage_of_its_own():
    assert {plant.make.__name__ for plant in DAMAGES} >= SHORT
