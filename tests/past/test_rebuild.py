"""Every state that was dumped while it was the present is what is rebuilt: context, DAG, what is sent."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lcm_core.past.point import Point
from lcm_core.past.rebuild import Doubt

from tests.change.test_sequences import CONVERSATIONS, Sequence, starting, steps
from tests.databases import connect
from tests.past.states import MINUTE, Times, after, before, said, state_now, state_then

__all__ = ["starting"]  # a fixture


def unlike(one, other):
    return [name for name in one if one[name] != other[name]]


def append(path: Path, conversation: int, when, text: str) -> None:
    """A message of the host, at the end of the context."""
    stamp = when.strftime("%Y-%m-%d %H:%M:%S")
    with connect(path) as connection:
        [seq] = connection.execute(
            "SELECT max(seq) + 1 FROM messages WHERE conversation_id = ?", (conversation,)
        ).fetchone()
        message = connection.execute(
            """INSERT INTO messages (conversation_id, seq, role, content, token_count, created_at)
            VALUES (?, ?, 'user', ?, 9, ?)""",
            (conversation, seq, text, stamp),
        ).lastrowid
        connection.execute(
            """INSERT INTO context_items (conversation_id, ordinal, item_type, message_id, created_at)
            SELECT ?, coalesce(max(ordinal), -1) + 1, 'message', ?, ?
            FROM context_items WHERE conversation_id = ?""",
            (conversation, message, stamp, conversation),
        )


@pytest.mark.parametrize("version", ["0.1.2", "0.15.3"])
@settings(max_examples=6)
@given(script=steps, appends=st.lists(st.booleans(), min_size=8, max_size=8))
def test_each_state_of_a_sequence_comes_back(starting, tmp_path_factory, version, script, appends):
    conversation = CONVERSATIONS[version]
    path = tmp_path_factory.mktemp("past") / "lcm.db"
    shutil.copyfile(starting(version), path)
    sequence, times = Sequence(path), Times(path)
    expected: list[tuple[Point, dict]] = []
    for (name, number, levels, keep), says in zip(script, appends, strict=False):
        if says:
            append(path, conversation, times.next(), f"message {times.number} of the host")
        state = state_now(path, conversation)
        times.next()
        getattr(sequence, name)(number, levels, keep)
        for operation in times.note():
            expected.append((before(operation), state))
            expected.append((after(operation), state_now(path, conversation)))
            expected.append((Point(when=times.now + MINUTE / 2), state_now(path, conversation)))
    if expected:
        found = state_then(path, conversation, *(point for point, _ in reversed(expected)))
        for (point, state), (then, statements) in zip(reversed(expected), found, strict=True):
            assert unlike(state, then) == [], point
            assert {one.doubt for one in statements} <= {Doubt.APPENDED}, said(statements)
    shutil.rmtree(path.parent)
