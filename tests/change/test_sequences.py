"""Any sequence of changes, undos and redos keeps a database whole, and undoing all of it gives it back."""

from __future__ import annotations

import asyncio
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lcm_core.api import Plan, RefusedError, plan_dissolve, plan_redo, plan_undo, plan_undo_with_later
from lcm_core.change.commit import commit
from lcm_core.change.journal import all_operations
from lcm_core.change.undo import undone_by

from tests.change.oracle import Whole
from tests.change.support import REAL, dissolvable, dump, only, planned, reading, search_faults
from tests.past.test_any_operations import ALL, World
from tests.support import sampled

#: A conversation with several dissolvable summaries of two depths, by version.
CONVERSATIONS = {"0.1.2": 3, "0.3.0": 5, "0.8.2": 3, "0.15.3": 3}

numbers = st.floats(0, 0.999)
steps = st.lists(
    st.tuples(
        st.sampled_from(["dissolve", "dissolve", "undo", "redo"]), numbers, st.integers(1, 3), st.booleans()
    ),
    min_size=1,
    max_size=7,
)


@pytest.fixture(scope="module")
def starting(tmp_path_factory: pytest.TempPathFactory, database_file: Callable[[str], Path]):
    """A database of one conversation by version, to be copied."""
    made: dict[str, Path] = {}

    def make(version: str) -> Path:
        if version not in made:
            folder = tmp_path_factory.mktemp(f"starting-{version}")
            made[version] = only(
                Path(shutil.copyfile(database_file(version), folder / "lcm.db")), CONVERSATIONS[version]
            )
        return made[version]

    return make


class Sequence:
    """A database that is changed step by step, and checked after each."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.before = dump(path)
        self.errors = Whole(path).errors()
        self.uncovered = Whole(path).uncovered()
        self.operations: list[str] = []
        self.refusals: list[str] = []

    def choose(self, wanted: bool, number: float) -> str | None:
        """One of the operations that are in effect, or of those that are not."""
        found = [one for one in self.operations if self.effective(one) is wanted]
        return found[int(number * len(found))] if found else None

    def effective(self, operation: str) -> bool:
        async def ask(reader):
            return await undone_by(reader, operation) is None

        return bool(asyncio.run(reading(self.path, ask)))

    def dissolve(self, number: float, levels: int, keep: bool) -> None:
        choices = dissolvable(self.path)
        if not choices:
            return
        conversation, summary = choices[int(number * len(choices))]
        try:
            plan = asyncio.run(
                planned(self.path, plan_dissolve, conversation, [summary], levels=levels, keep=keep)
            )
        except RefusedError as error:
            self.refusals.append(error.message)
            return
        self.operations.append(commit(self.path, plan).id)

    def undo(self, number: float, _: int, __: bool) -> None:
        self._again(plan_undo, self.choose(True, number))

    def redo(self, number: float, _: int, __: bool) -> None:
        self._again(plan_redo, self.choose(False, number))

    def _again(self, plan_it, operation: str | None) -> bool:
        if operation is None:
            return False
        try:
            commit(self.path, asyncio.run(planned(self.path, plan_it, operation)))
        except RefusedError as error:
            self.refusals.append(error.message)
            return False
        return True

    def check(self) -> None:
        whole = Whole(self.path)
        assert whole.errors() == self.errors
        assert not {one for one in whole.uncovered() - self.uncovered if isinstance(one, int)}
        assert search_faults(self.path) == []
        expected = (
            *("is made from", "cannot be undone any more", "cannot be redone any more"),
            *("cannot be undone by itself", "cannot be redone by itself"),
        )
        assert all(any(words in one for words in expected) for one in self.refusals), self.refusals

    def undo_all(self, order) -> None:
        """Undo whatever is in effect; what lies under something else has its turn later."""
        waiting = [one for one in order(self.operations) if self.effective(one)]
        while waiting:
            left = [one for one in waiting if not self._again(plan_undo, one)]
            assert len(left) < len(waiting), "nothing more can be undone"
            waiting = left


def play(sequence: Sequence, script, order) -> None:
    for name, number, levels, keep in script:
        getattr(sequence, name)(number, levels, keep)
        sequence.check()
    sequence.undo_all(order)
    sequence.check()
    assert dump(sequence.path) == sequence.before


@pytest.mark.parametrize("version", sampled([REAL[0], REAL[-1]], [REAL[-1]]))
@settings(max_examples=8)
@given(script=steps, order=st.sampled_from([list, lambda given_list: given_list[::-1], sorted]))
def test_undoing_everything_gives_the_same_rows(starting, tmp_path_factory, version, script, order):
    path = tmp_path_factory.mktemp("sequence") / "lcm.db"
    shutil.copyfile(starting(version), path)
    play(Sequence(path), script, order)
    shutil.rmtree(path.parent)


@pytest.mark.long
@pytest.mark.parametrize("version", REAL)
@settings(max_examples=150)
@given(script=steps, order=st.sampled_from([list, lambda given_list: given_list[::-1], sorted]))
def test_undoing_everything_gives_the_same_rows_whatever_was_done(
    starting, tmp_path_factory, version, script, order
):
    path = tmp_path_factory.mktemp("sequence") / "lcm.db"
    shutil.copyfile(starting(version), path)
    play(Sequence(path), script, order)
    shutil.rmtree(path.parent)


# -- all operations ----------------------------------------------------------------------------------------


def take_all_back(path: Path, rng: random.Random) -> None:
    """Undo one after the other what is in effect, in any order; what can only go with later ones, so."""

    async def held(reader) -> list[str]:
        found = [one for one in await reader.run(lambda db: list(all_operations(db))) if one.undoes is None]
        return [one.id for one in found if await undone_by(reader, one.id) is None]

    while waiting := asyncio.run(reading(path, held)):
        rng.shuffle(waiting)
        assert any(taken_back(path, plan_undo, one) for one in waiting) or any(
            taken_back(path, plan_undo_with_later, one) for one in sorted(waiting)
        ), "nothing more can be undone"


def taken_back(path: Path, plan_it, operation: str) -> bool:
    try:
        plans = asyncio.run(planned(path, plan_it, operation))
        for plan in [plans] if isinstance(plans, Plan) else plans:
            commit(path, plan)
    except RefusedError:
        return False
    return True


@pytest.mark.long
@pytest.mark.parametrize("played", sampled([(40, 12), *((seed, 40) for seed in range(36))], [(40, 12)]))
def test_operations_of_all_kinds_are_taken_back_to_the_start(database_copy, played: tuple[int, int]):
    seed, steps = played
    path, rng = database_copy("0.15.3"), random.Random(seed)
    before = dump(path)
    world = World(path, rng)
    world.dissolve()  # makes a journal
    for _ in range(steps):
        rng.choice(ALL)(world)
    take_all_back(path, rng)
    assert dump(path) == before
