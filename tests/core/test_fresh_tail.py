"""Where the fresh tail begins, against what the real engine said."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lcm_core.api import Database
from lcm_core.engine.rules import RULES_0_1, RULES_PRESENT, engine_rules, fresh_tail, protected
from lcm_core.store.messages import context_messages

from tests.support import recorded, with_values

DatabaseFactory = Callable[[str], Path]

#: First ordinal and number of raw messages that the assembler of 0.15.3 reported for each conversation
#: (freshTailOrdinal, baseFreshTailCount), with a tail of 10 messages, of 2, and of 10 within 400 tokens.
ENGINE = {
    1: ((12, 10), (14, 8), (14, 8)),
    2: ((16, 10), (17, 9), (17, 9)),
    3: ((18, 10), (20, 8), (20, 8)),
    4: ((4, 10), (12, 2), (9, 5)),
    5: ((2, 10), (3, 9), (3, 9)),
    6: ((5, 10), (7, 8), (7, 8)),
    7: ((9, 10), (10, 9), (10, 9)),
    8: ((4, 10), (4, 10), (4, 10)),
}


@dataclass(frozen=True)
class Item:
    ordinal: int
    is_message: bool
    role: str | None
    tokens: int


def items(text: str, tokens: int = 10) -> list[Item]:
    """``s`` a summary; ``u`` ``a`` ``t`` messages of the user, the assistant, a tool."""
    roles = {"u": "user", "a": "assistant", "t": "tool"}
    return [Item(at, sign != "s", roles.get(sign), tokens) for at, sign in enumerate(text)]


@pytest.mark.parametrize("number", ENGINE)
async def test_the_tail_of_the_real_engine(database_file: DatabaseFactory, number: int):
    async with await Database.open(database_file("0.15.3")) as database:
        raw = (await database.read(context_messages, [number]))[number]
        rules = engine_rules(database.schema)
    found = [
        fresh_tail(raw, with_values(rules, fresh_tail_count=count, fresh_tail_max_tokens=limit).tail)
        for count, limit in ((10, None), (2, None), (10, 400))
    ]
    assert tuple((tail.first_ordinal, tail.messages) for tail in found) == ENGINE[number]


async def test_the_tail_of_the_engines_command(database_file: DatabaseFactory):
    """Its rule does not go back to the newest user message; no context here is long enough to tell."""
    answers = recorded("lcm-0.15.3.cli.json.gz")
    (said,) = [one["stdout"] for one in answers if one["args"] == ["conversations", "list"]]
    listed = (json.loads(said) if isinstance(said, str) else said)["data"]["items"]
    assert len(listed) == 8
    async with await Database.open(database_file("0.15.3")) as database:
        for one in listed:
            owner = one["conversationId"]
            raw = (await database.read(context_messages, [owner]))[owner]
            tail = fresh_tail(raw, engine_rules(database.schema).tail)
            assert (tail.messages, tail.tokens) == (one["freshTailMessages"], one["freshTailTokens"])
            assert tail.count == 64


def test_the_turn_stays_whole_only_for_the_present_engine():
    context_items = items("ssuatat")
    assert fresh_tail(context_items, with_values(RULES_PRESENT, fresh_tail_count=2).tail).first_ordinal == 2
    assert fresh_tail(context_items, with_values(RULES_0_1, fresh_tail_count=2).tail).first_ordinal == 5


def test_a_tail_that_holds_the_user_is_not_moved():
    assert fresh_tail(items("uatuat"), with_values(RULES_PRESENT, fresh_tail_count=3).tail).first_ordinal == 3
    assert fresh_tail(items("uatuat"), with_values(RULES_PRESENT, fresh_tail_count=4).tail).first_ordinal == 2


def test_a_tail_of_no_messages_protects_nothing_also_not_the_turn():
    """As the recorded sweeps with a tail of none show of the present engine."""
    for rules in (RULES_0_1, RULES_PRESENT):
        assert fresh_tail(items("suata"), with_values(rules, fresh_tail_count=0).tail).first_ordinal is None


def test_no_raw_message_means_nothing_is_protected():
    tail = fresh_tail(items("sss"), RULES_PRESENT.tail)
    assert (tail.first_ordinal, tail.messages, tail.tokens) == (None, 0, 0)


def test_the_newest_message_is_protected_whatever_it_weighs():
    tail = fresh_tail(items("taa", 500), with_values(RULES_0_1, fresh_tail_max_tokens=100).tail)
    assert (tail.first_ordinal, tail.messages, tail.tokens) == (2, 1, 500)


@given(
    st.lists(st.tuples(st.integers(0, 60), st.booleans()), max_size=20),
    st.integers(-1, 8),
    st.one_of(st.none(), st.integers(0, 200)),
    st.booleans(),
)
def test_the_rule_as_it_is_written(
    messages: list[tuple[int, bool]], count: int, limit: int | None, whole_turn: bool
) -> None:
    """Step by step from the newest message back, as docs/spec/compaction.md has it."""
    users = [at for at, (_, is_user) in enumerate(messages) if is_user]
    newest_user = users[0] if users and whole_turn else -1
    taken = 0
    while count > 0 and taken < len(messages):
        spent = sum(tokens for tokens, _ in messages[:taken])
        inside = taken > newest_user
        too_many = taken >= count
        too_much = taken > 0 and limit is not None and spent + messages[taken][0] > limit
        if inside and (too_many or too_much):
            break
        taken += 1
    found = protected(iter(messages), count=count, max_tokens=limit, whole_turn=whole_turn)
    assert found == taken
