"""What holds for every context: budgets, tool pairs, purity; and that nothing stored makes it fail."""

from __future__ import annotations

import copy
import json
from datetime import UTC
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lcm_core.api import Message, MessagePart, Summary, SummaryText, api_request
from lcm_core.base.javascript import js_json
from lcm_core.base.tokens import Estimator
from lcm_core.base.values import replace
from lcm_core.engine.assembly import AssemblySettings, assemble
from lcm_core.engine.blocks import host_block
from lcm_core.engine.clamp import content_quarters, serialized_tokens
from lcm_core.engine.items import LoadedMessage, LoadedSummary, resolve_items
from lcm_core.engine.messages import Identity, Origin, OriginKind, Role, SentMessage
from lcm_core.engine.rules import RULES_0_1, RULES_1_0_BETA, RULES_1_1, RULES_PRESENT
from lcm_core.engine.sent import markdown

from tests.core import assembly_model as model

NOON = "2026-03-06 12:00:00"
TEXTS = st.text(alphabet='ab <>&"\n缓🐛\udc80\ud800', max_size=60)
CALL_IDS = st.sampled_from(["x", "y", "z", "", None])
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
TYPES = ["text", "thinking", "toolCall", "tool_use", "tool_result", "function_call", "image", "file", "??"]
RAW = st.fixed_dictionaries(
    {"type": st.sampled_from(TYPES)},
    optional={
        "text": TEXTS | JSON_VALUES,
        "thinking": TEXTS,
        "thinkingSignature": st.sampled_from(["s", '{"type":"reasoning"}', "{"]) | JSON_VALUES,
        "id": CALL_IDS,
        "name": TEXTS,
        "arguments": JSON_VALUES,
        "content": JSON_VALUES,
        "isError": st.booleans(),
    },
)
METADATA = (
    st.none()
    | TEXTS
    | st.dictionaries(
        st.sampled_from(["raw", "toolCallId", "toolName", "isError", "modelProvider"]), RAW | JSON_VALUES
    ).map(json.dumps)
)


MAYBE_TEXT = st.none() | TEXTS


@st.composite
def parts(draw: st.DrawFn, message_id: int) -> tuple[MessagePart, ...]:
    return tuple(
        MessagePart(
            message_id,
            ordinal,
            part_type=draw(st.sampled_from(["text", "reasoning", "tool", "file", "agent", "step_start"])),
            text=draw(MAYBE_TEXT),
            tool_call_id=draw(CALL_IDS),
            tool_name=draw(MAYBE_TEXT),
            tool_status=None,
            tool_input=draw(MAYBE_TEXT),
            tool_output=draw(MAYBE_TEXT),
            tool_error=None,
            file_name=draw(MAYBE_TEXT),
            file_mime=None,
            file_url=None,
            metadata=draw(METADATA),
        )
        for ordinal in range(draw(st.integers(0, 3)))
    )


def summary(ordinal: int, depth: int, content: str, tokens: int) -> LoadedSummary:
    kind = "condensed" if depth else "leaf"
    key = f"sum_{ordinal}"
    rest = (NOON, None, None, None, None, NOON, "[]", None)
    row = Summary(key, 1, kind, depth, tokens, *rest)
    return LoadedSummary(ordinal, SummaryText(row, content), ())


@st.composite
def contexts(draw: st.DrawFn):
    items = []
    for at in range(draw(st.integers(0, 12))):
        content, tokens = draw(TEXTS), draw(st.integers(0, 40))
        if at <= 6 and draw(st.booleans()):
            items.append(summary(at, draw(st.integers(0, 2)), content, tokens))
            continue
        role, sender = draw(st.sampled_from(["user", "assistant", "tool", "system"])), draw(MAYBE_TEXT)
        row = Message(at, 1, at, role, content, tokens, NOON, None, sender)
        items.append(LoadedMessage(at, row, draw(parts(at))))
    return items


SETTINGS = st.builds(
    AssemblySettings,
    budget=st.integers(1, 400),
    fresh_tail_count=st.integers(0, 6),
    fresh_tail_max_tokens=st.none() | st.integers(1, 60),
    prompt=st.none() | TEXTS,
    prompt_aware=st.booleans(),
    clamp=st.booleans(),
)
RULES = st.sampled_from([RULES_0_1, RULES_PRESENT, RULES_1_0_BETA, RULES_1_1])


@pytest.mark.long
@given(contexts(), SETTINGS, RULES)
def test_more_than_the_budget_is_sent_only_when_the_tail_is(items, settings: AssemblySettings, rules):
    found = assemble(resolve_items(items, None, rules, UTC), settings, rules)
    assert found.estimated_tokens <= max(settings.budget, found.tail.tokens)
    assert len(found.weights) == len(found.messages)
    assert sum((found.shares.tail, found.shares.root, found.shares.recent, found.shares.older)) == sum(
        found.weights
    )


@pytest.mark.long
@given(contexts(), SETTINGS)
def test_what_was_counted_once_is_the_weight_of_the_whole(items, settings: AssemblySettings):
    found = assemble(resolve_items(items, None, RULES_PRESENT, UTC), settings, RULES_PRESENT)
    anew = [serialized_tokens(replace(one, quarters=None), Estimator.WEIGHTED) for one in found.messages]
    assert list(found.weights) == anew


@pytest.mark.long
@settings(max_examples=50)
@given(contexts(), SETTINGS, st.booleans())
def test_by_the_rules_of_1_1_whole_turns_are_left(items, settings: AssemblySettings, delivered: bool):
    context = resolve_items(items, None, RULES_1_1, UTC)
    asked = replace(settings, clamp=False, host_delivers_turn=delivered)
    whole = assemble(context, asked, RULES_1_1)
    found = assemble(context, replace(asked, clamp=True), RULES_1_1)
    weighed: list[Any] = [
        {**one.document(), "weight": weight}
        for one, weight in zip(whole.messages, whole.weights, strict=True)
    ]
    left = model.clamped_by_turns(weighed, settings.budget, delivered=delivered)
    assert [one.document() for one in found.messages] == [
        {name: one[name] for name in one if name != "weight"} for one in left
    ]
    assert found.sent_tokens == sum(found.weights) == found.last_cut.tokens


@pytest.mark.parametrize(
    ("raw", "kind", "text"),
    [
        ({"type": "input_file", "fileName": "a.py", "text": "said"}, "file", "a.py"),
        ({"type": "other", "name": "a.py", "text": "said"}, "other", "said"),
    ],
)
def test_a_file_reads_as_its_name_and_what_nobody_knows_as_its_text(raw, kind, text: str):
    block = host_block(raw)
    assert (block.kind, block.text) == (kind, text)


@pytest.mark.cases(27)
@pytest.mark.parametrize(
    "identity", [None, Identity("p", "a", "m"), Identity("p", "a", "data:" + "x" * 5_000)]
)
@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize(
    ("raw", "adds_up"),
    [
        ({"type": "text", "text": 'a "b"\n \u7f13\u5b58 \ud83d\udc1b'}, True),
        ({"type": "text", "text": "x" * 5000}, True),
        ({"type": "text", "text": "data:image/png;base64,QUJD"}, True),
        ({"type": "text", "text": "data:" + "x" * 4_090}, True),
        ({"type": "text", "text": "data:" + "x" * 4_091}, False),
        ({"type": "text", "text": "data:x" + "\U0001f41b" * 2_045}, False),
        ({"type": "image", "data": "QUJ1" * 2000}, False),
    ],
)
def test_a_message_is_counted_with_its_blocks_only_once(
    raw, adds_up: bool, role: Role, identity: Identity | None
):
    content = (host_block(raw),)
    quarters, counts = content_quarters(content, Estimator.WEIGHTED)
    assert counts is adds_up
    known = SentMessage(
        role,
        content,
        Origin(OriginKind.MESSAGE),
        12345,
        "data:a/b,c",
        "grep",
        False,
        identity,
        quarters=quarters,
    )
    anew = serialized_tokens(replace(known, quarters=None), Estimator.WEIGHTED)
    if adds_up:
        assert serialized_tokens(known, Estimator.WEIGHTED) == anew
    assert known.with_content(()).quarters is None, "other blocks weigh something else"


@pytest.mark.long
@settings(max_examples=40)
@given(contexts(), SETTINGS, RULES)
def test_the_same_records_give_the_same_messages_and_stay_as_they_are(
    items, settings: AssemblySettings, rules
):
    before = copy.deepcopy(items)
    context = resolve_items(items, None, rules, UTC)
    assert assemble(context, settings, rules) == assemble(context, settings, rules)
    assert context == resolve_items(before, None, rules, UTC)
    assert items == before


@pytest.mark.long
@given(contexts(), SETTINGS, RULES)
def test_whatever_is_stored_can_be_sent_and_exported(items, settings: AssemblySettings, rules):
    found = assemble(resolve_items(items, None, rules, UTC), settings, rules)
    request: Any = api_request(found)
    for document in (*(message.document() for message in found.messages), request):
        assert json.loads(js_json(document)) is not None
    roles = [turn["role"] for turn in request["messages"]]
    assert all(one != following for one, following in pairwise(roles))
    assert markdown(found).endswith("\n")
    sent = {message.origin.ordinal for message in found.messages}
    gone = {one.ordinal for one in found.evicted}
    assert sent | gone == {item.ordinal for item in items}
