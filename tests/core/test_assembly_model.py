"""Assembly against a second telling of its page (`tests.core.assembly_model`), on shapes nobody recorded."""

from __future__ import annotations

import json
from datetime import UTC
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lcm_core.api import MessagePart
from lcm_core.base.javascript import js_json
from lcm_core.engine.blocks import host_block, live_message, rebuilt_content
from lcm_core.engine.clamp import clamp, clamp_tokens
from lcm_core.engine.items import fill_budget, resolve_items
from lcm_core.engine.messages import Origin, OriginKind, Role, SentMessage, content_document
from lcm_core.engine.pairing import DROPPING, pair_tools, without_silence, without_unanswered_calls
from lcm_core.engine.rules import RULES_1_1, RULES_PRESENT, ClampRules

from tests.core import assembly_model as model
from tests.core.test_assembly_steps import message, summary

MISSING_RESULT = (
    "[lossless-claw] missing tool result in session history; "
    "inserted synthetic error result for transcript repair."
)

MORE = settings(max_examples=120)
NAMES = st.sampled_from("xyz")
TEXTS = st.sampled_from(["", " ", "\n\ufeff", "so", "lease table", "\x85"])
BLOCKS = st.one_of(
    TEXTS.map(lambda text: {"type": "text", "text": text}),
    st.sampled_from(["thinking", "reasoning", "redacted_thinking"]).map(lambda name: {"type": name}),
    st.builds(
        lambda kind, key, name, tool: {"type": kind, key: name, "name": tool},
        st.sampled_from([*model.CALLS, "functionCall", "toolcall"]),
        st.sampled_from(["id", "id", "call_id"]),
        NAMES | st.just(""),
        st.sampled_from(["bash", "", None]),
    ),
    st.sampled_from([{"type": "text"}, {"type": "image"}, {}, 7, None, "x", [1]]),
)
CONTENTS = st.lists(BLOCKS, max_size=4) | TEXTS


@st.composite
def conversations(draw: st.DrawFn) -> list[SentMessage]:
    """Messages by ordinal: calls and results of few ids, in any order, some made up once by an engine."""
    found = []
    for at in range(draw(st.integers(0, 14))):
        role = draw(
            st.sampled_from([Role.USER, Role.ASSISTANT, Role.ASSISTANT, Role.TOOL_RESULT, Role.TOOL_RESULT])
        )
        origin = Origin(OriginKind.MESSAGE, at, message_id=at)
        if role is not Role.TOOL_RESULT:
            found.append(SentMessage(role, blocks_of(draw(CONTENTS)), origin, at))
            continue
        said = draw(st.sampled_from([MISSING_RESULT, "done"]))
        failed = draw(st.sampled_from([True, True, False, None]))
        content = blocks_of([{"type": "text", "text": said}])
        found.append(SentMessage(role, content, origin, at, draw(NAMES), "bash", failed))
    return found


def blocks_of(content: Any) -> Any:
    return content if isinstance(content, str) else tuple(map(host_block, content))


def told(sent: list[SentMessage]) -> list[model.Message]:
    """Messages as the model takes them."""
    return [{**one.document(), "ordinal": one.origin.ordinal} for one in sent]


def same(sent: list[SentMessage], expected: list[model.Message]) -> bool:
    """Whether both are the same messages, the order of members aside."""
    bare = [{key: one[key] for key in one if key != "ordinal"} for one in expected]
    return [one.document() for one in sent] == bare


def gone(repairs) -> set[int | None]:
    return {repair.origin.ordinal for repair in repairs if repair.what in DROPPING}


@pytest.mark.long
@MORE
@given(conversations(), st.none() | st.integers(0, 14), st.sets(NAMES))
def test_calls_wait_for_a_result_behind_them(
    sent: list[SentMessage], tail_from: int | None, elsewhere: set[str]
):
    repairs = []
    context = elsewhere | {one.call_id or "" for one in sent if one.role is Role.TOOL_RESULT}
    found = without_unanswered_calls(sent, tail_from, context, repairs)
    assert same(found, model.without_calls(told(sent), tail_from, context))
    assert {one.origin.ordinal for one in sent} - {one.origin.ordinal for one in found} == gone(repairs)


@pytest.mark.long
@given(conversations())
def test_what_says_nothing_goes(sent: list[SentMessage]):
    repairs = []
    found = without_silence(sent, repairs)
    assert same(found, model.without_silence(told(sent)))
    assert {one.origin.ordinal for one in sent} - {one.origin.ordinal for one in found} == gone(repairs)


@pytest.mark.long
@settings(max_examples=300)
@given(conversations())
def test_tools_are_paired_as_the_page_says(sent: list[SentMessage]):
    sent = without_silence(sent, [])
    repairs = []
    found = pair_tools(sent, repairs, calls_once=True)
    assert same(found, model.paired(told(sent)))
    kept = [one.origin.ordinal for one in found if one.origin.kind is OriginKind.MESSAGE]
    assert {one.origin.ordinal for one in sent} - set(kept) == gone(repairs)
    assert len(kept) == len(set(kept))
    if repairs:  # every call has one result, right behind it and in order
        waiting: list[str | None] = []
        called: list[str | None] = []
        for one in found:
            if one.role is Role.TOOL_RESULT:
                assert one.call_id == waiting.pop(0)
                continue
            assert not waiting
            waiting = [call.call_id for call in one.calls]
            called += waiting
        assert not waiting
        assert len(called) == len(set(called))
    else:
        assert found == sent


@pytest.mark.long
@settings(max_examples=300)
@given(conversations())
def test_tools_are_paired_as_0_1_did(sent: list[SentMessage]):
    sent = [one if one.role is Role.USER else one.with_content(listed(one)) for one in sent]
    repairs = []
    assert same(pair_tools(sent, repairs, calls_once=False), model.paired_as_0_1(told(sent)))


def listed(one: SentMessage) -> Any:
    return blocks_of([one.content]) if isinstance(one.content, str) else one.content


@pytest.mark.long
@MORE
@given(conversations(), st.integers(0, 400), st.booleans(), st.booleans(), st.data())
def test_the_last_cut_leaves_what_the_page_says(
    sent: list[SentMessage], budget: int, early: bool, delivered: bool, data: st.DataObject
):
    weights = [data.draw(st.integers(1, 90)) for _ in sent]
    rules = ClampRules(0.9, acts_above_share=early, keeps_turns=False)
    found = clamp(sent, weights, budget, rules, host_delivers_turn=delivered)
    weighed = [{**one, "weight": weight} for one, weight in zip(told(sent), weights, strict=True)]
    left = model.clamped(weighed, budget, early=early, delivered=delivered)
    ordinals = [one.origin.ordinal for one in found.messages]
    assert ordinals == [one["ordinal"] for one in left]
    assert sorted([*ordinals, *found.cut]) == list(range(len(sent)))


@st.composite
def lists_of_a_host(draw: st.DrawFn) -> list[SentMessage]:
    """What a host holds itself: also instructions, and results under another role, or of no call."""
    found = []
    for _ in range(draw(st.integers(0, 12))):
        role = draw(st.sampled_from(["user", "assistant", "assistant", "tool", "toolResult", "system"]))
        document: dict[str, Any] = {"role": role, "content": draw(CONTENTS)}
        if role in ("tool", "toolResult"):
            document["toolCallId"] = draw(NAMES)
        found.append(live_message(document))
    return found


@pytest.mark.long
@pytest.mark.parametrize("of_host", [False, True])
@settings(max_examples=200)
@given(st.data(), st.integers(0, 500), st.booleans())
def test_the_last_cut_of_1_1_keeps_turns_as_the_page_says(
    of_host: bool, data: st.DataObject, budget: int, delivered: bool
):
    sent = data.draw(lists_of_a_host() if of_host else conversations())
    weights = [data.draw(st.integers(1, 90)) for _ in sent]
    rules = ClampRules(0.9, acts_above_share=True, keeps_turns=True)
    found = clamp(sent, weights, budget, rules, host_delivers_turn=delivered)
    weighed = [
        {**one.document(), "weight": weight, "at": at}
        for at, (one, weight) in enumerate(zip(sent, weights, strict=True))
    ]
    left = model.clamped_by_turns(weighed, budget, delivered=delivered)
    bare = [{key: one[key] for key in one if key not in ("weight", "at")} for one in left]
    assert [one.document() for one in found.messages] == bare
    places = [one["at"] for one in left if "at" in one]
    assert sorted([*places, *found.cut]) == list(range(len(sent)))


BIG = st.sampled_from(["QUJ1" * 1_200, "data:" + "x" * 5_000, "word " * 900])
RESULT_CONTENTS = st.one_of(
    TEXTS,
    st.none(),
    st.integers(0, 99),
    st.lists(
        st.one_of(
            TEXTS,
            TEXTS.map(lambda text: {"type": "text", "text": text}),
            st.builds(lambda text: {"type": "image", "data": text, "mimeType": "image/png"}, BIG | TEXTS),
            st.builds(lambda text: {"type": "json", "__openclaw": {"a": text}}, TEXTS),
            st.sampled_from([{"type": "text"}, {"type": "text", "text": 7}, 7, None, [1, "a"], {}]),
        ),
        max_size=4,
    ),
)


@MORE
@given(
    st.sampled_from(["user", "assistant", "tool", "toolResult", "system"]),
    RESULT_CONTENTS,
    st.fixed_dictionaries(
        {},
        optional={
            "toolName": st.sampled_from(["bash", "", "a long name of a tool", 7, None]),
            "tool_name": st.sampled_from(["grep", ""]),
            "toolCallId": NAMES,
            "type": st.sampled_from(["toolResult", "message"]),
            "__openclaw": st.just({"senderId": "71", "senderName": "Mira"}),
        },
    ),
)
def test_messages_weigh_for_the_last_cut_what_the_page_says(role: str, content: Any, rest: dict[str, Any]):
    document = {"role": role, "content": content, **rest}
    assert clamp_tokens(live_message(document), RULES_1_1.assembly) == model.measured(document)


WORDS = st.lists(st.sampled_from(["lease", "table", "a", "é", "leaseé", "表lease", "X1", "-"]), max_size=6)


@pytest.mark.long
@MORE
@given(st.lists(st.tuples(WORDS, st.booleans()), max_size=9), st.integers(-5, 120), WORDS)
def test_what_fits_is_chosen(given_items: list[tuple[list[str], bool]], room: int, asked: list[str]):
    stored = [
        summary(at, content=" ".join(words)) if is_summary else message(at, "user", " ".join(words))
        for at, (words, is_summary) in enumerate(given_items)
    ]
    items = resolve_items(stored, None, RULES_PRESENT, UTC).items
    found = fill_budget(items, room, " ".join(asked))
    texts = [" ".join(words) for words, _ in given_items]
    expected = model.chosen(texts, [item.tokens for item in items], room, " ".join(asked))
    assert [item.ordinal for item in found.kept] == expected
    assert sorted(item.ordinal for item in (*found.kept, *found.evicted)) == list(range(len(items)))


# -- blocks ------------------------------------------------------------------------------------------------

SMALL = st.sampled_from([None, "", "x", "so", '{"a":1}', "[1]", "null", "7", '"t"', "NaN", "{", " "])
TYPES = st.sampled_from(
    [*model.CALLS, *model.RESULTS, "text", "thinking", "reasoning", "image", "", None, 7, "toolcall"]
)
SIGNATURES = st.sampled_from(
    ["", "s", "reasoning_content", '{"type":"reasoning","id":"r"}', '{"type":"reasoning"}', "{", None, 7]
)
RAW = st.fixed_dictionaries(
    {},
    optional={
        "type": TYPES,
        "text": st.sampled_from(["so", "", None, 7]),
        "thinkingSignature": SIGNATURES,
        "thoughtSignature": st.just("t"),
        "id": st.sampled_from(["i", "", None, 7]),
        "call_id": st.sampled_from(["c", "", None]),
        "name": st.sampled_from(["n", "", None]),
        "arguments": st.sampled_from([None, "", "{}", "text", {"b": [1]}, 0, False]),
        "input": st.sampled_from([None, "", "[2]", {}, []]),
        "output": st.sampled_from([None, "", "o", {"p": 1}]),
        "content": st.sampled_from([None, "", "o", []]),
        "is_error": st.sampled_from([True, False, None, "no"]),
        "isError": st.sampled_from([True, False, 1]),
    },
)
METADATA = st.one_of(
    st.sampled_from([None, "", "{", "null", "7", "[]", '["a"]', "{}"]),
    st.fixed_dictionaries(
        {},
        optional={
            "raw": RAW | st.sampled_from([None, 7, "x", [1], [], [{"n": None}], [{"type": "text"}]]),
            "rawType": TYPES,
            "originalRole": st.sampled_from(["toolResult", "assistant", "tool", "", 7]),
            "topLevelReasoningOnly": st.sampled_from([True, False, 1]),
            "modelProvider": st.sampled_from(["p", ""]),
            "modelApi": st.just("a"),
            "modelId": st.sampled_from(["m", None]),
        },
    ).map(json.dumps),
)
PARTS = st.lists(
    st.fixed_dictionaries(
        {
            "part_type": st.sampled_from(["text", "reasoning", "tool", "file", "agent", "step_start"]),
            "text": st.sampled_from([None, "", "so", " "]),
            "tool_call_id": st.sampled_from([None, "", "k"]),
            "tool_name": st.sampled_from([None, "", "tool", " "]),
            "tool_input": SMALL,
            "tool_output": SMALL,
            "metadata": METADATA,
        }
    ),
    max_size=3,
)


@pytest.mark.long
@settings(max_examples=300)
@given(PARTS, st.sampled_from(Role), st.sampled_from(["", " ", "said"]))
def test_parts_become_the_blocks_of_the_table(rows: list[dict[str, Any]], role: Role, text: str):
    parts = [
        MessagePart(
            message_id=1,
            ordinal=at,
            tool_status=None,
            tool_error=None,
            file_name=None,
            file_mime=None,
            file_url=None,
            part_id=f"part{at}",
            **row,
        )
        for at, row in enumerate(rows)
    ]
    numbered = [{**row, "part_id": f"part{at}"} for at, row in enumerate(rows)]
    expected: Any = model.blocks(numbered, is_assistant=role is Role.ASSISTANT)
    if not expected:
        only = [{"type": "text", "text": text}]
        expected = text if role is Role.USER else only if text or role is Role.TOOL_RESULT else []
    elif role is Role.USER and len(expected) == 1 and model.kind(expected[0]) == "text":
        said = expected[0].get("text")
        expected = said if isinstance(said, str) else expected
    found = content_document(rebuilt_content(text, parts, role, RULES_PRESENT.assembly))
    assert js_json(found) == js_json(expected)  # the order of members counts
