"""The levels below a summary against a plain walk, and the texts of a level against the rows themselves."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from lcm_core.api import Database
from lcm_recall import program

from tests.databases import building, new_database

#: What each of six summaries is made from: others of them (also itself, and one without a row) and messages.
SOURCES = st.lists(
    st.tuples(st.lists(st.integers(0, 6), max_size=3, unique=True), st.lists(st.integers(1, 5), max_size=3)),
    min_size=6,
    max_size=6,
)


def steps_to(sources: list[tuple[list[int], list[int]]]) -> dict[str, int]:
    """How many steps below the first summary each other one and each message is."""
    steps, met = {"sum_0": 0}, ["sum_0"]
    for name in met:
        if name.startswith("sum_") and name != "sum_6":
            below, messages = sources[int(name[4:])]
            new = [one for one in (*(f"sum_{one}" for one in below), *map(str, messages)) if one not in steps]
            steps |= dict.fromkeys(new, steps[name] + 1)
            met += dict.fromkeys(new)
    return steps


async def read_all(path: Path, tokens: int):
    async with await Database.open(path) as database:
        return await _read_all(database, tokens)


async def _read_all(database: Database, tokens: int):
    """The levels below the first summary, and all texts of each, page by page."""
    levels = await program.levels(database, "sum_0")
    texts = []
    for level in levels:
        joined, cursor = list[str](), ""
        while True:
            page = await program.expand(
                database, "sum_0", level=level.number, tokens=tokens, cursor=cursor or None
            )
            for one in page.passages:
                before = joined.pop() if one.start else ""
                assert len(before) == one.start
                joined.append(before + one.text)
            if page.next is None:
                break
            assert page.next != cursor
            cursor = page.next
        texts.append(joined)
    return levels, texts


@given(SOURCES, st.integers(2, 40))
@settings(max_examples=40, deadline=None)
def test_each_text_is_on_one_level_and_pages_put_together_are_all_of_them(
    sources: list[tuple[list[int], list[int]]], tokens: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = new_database(Path(folder) / "lcm.db")
        with building(path) as rows:
            owner = rows.conversation()
            for number in range(1, 6):
                rows.message(owner, f"message {number} " * number, token_count=number)
            for number in range(6):
                rows.summary(owner, f"sum_{number}", f"summary {number}", depth=number % 3, token_count=10)
            for number, (below, messages) in enumerate(sources):
                rows.links(
                    f"sum_{number}",
                    sources=[f"sum_{one}" for one in below],
                    messages=list(dict.fromkeys(messages)),
                )
        expected = steps_to(sources)
        levels, texts = asyncio.run(read_all(path, tokens))
        found = {str(one): level.number for level in levels for one in (*level.summaries, *level.messages)}
        assert found == {name: level for name, level in expected.items() if name != "sum_6"}
        assert sum(one.missing for one in levels) == ("sum_6" in expected)
        for level, read_texts in zip(levels, texts, strict=True):
            assert level.tokens == 10 * len(level.summaries) + sum(level.messages)
            assert sum(count for _, count in level.depths) == len(level.summaries)
            wanted = [f"summary {name[4:]}" for name in level.summaries]
            assert read_texts == wanted + [f"message {one} " * one for one in level.messages]
