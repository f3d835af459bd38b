"""The steps of assembly on contexts made by hand: what no recording shows."""

from __future__ import annotations

import json
from datetime import UTC
from typing import Any, cast

import pytest
from lcm_core.api import Message, MessagePart, Summary, SummaryText, api_request
from lcm_core.base.javascript import Json, js_json
from lcm_core.base.records import LargeFile
from lcm_core.base.tokens import Estimator, estimate_weighted
from lcm_core.base.values import replace
from lcm_core.engine.assembly import (
    AssemblyInputs,
    AssemblySettings,
    assemble,
    is_degraded,
)
from lcm_core.engine.blocks import live_message, rebuilt_content, text_block
from lcm_core.engine.clamp import Clamped, clamp, content_quarters, serialized_tokens
from lcm_core.engine.items import (
    ContextMessages,
    DanglingItem,
    LoadedMessage,
    LoadedSummary,
    UnreadItems,
    resolve_items,
)
from lcm_core.engine.messages import Block, OriginKind, Role, counted_content
from lcm_core.engine.rules import RULES_0_1, RULES_PRESENT, ClampRules
from lcm_core.engine.sent import host_messages, markdown

MISSING_RESULT = (
    "[lossless-claw] missing tool result in session history; "
    "inserted synthetic error result for transcript repair."
)
OPAQUE_TOKENS = 1600

NOON = "2026-03-06 12:00:00"


def message(
    ordinal: int, role: str, content: str = "", *parts: dict[str, Any], tokens: int = 10, **more: Any
) -> LoadedMessage:
    """A stored message; each part gives columns of ``message_parts``, its metadata as a value."""
    row = Message(
        (ordinal + 1), 1, ordinal + 1, role, content, tokens, NOON,
        more.get("large_content"), more.get("sender"),
    )  # fmt: skip
    return LoadedMessage(
        ordinal, row, tuple(part(ordinal + 1, at, each) for at, each in enumerate(parts)), more.get("payload")
    )


def part(message_id: int, ordinal: int, given: dict[str, Any]) -> MessagePart:
    columns: dict[str, Any] = dict.fromkeys(
        ("text", "tool_call_id", "tool_name", "tool_status", "tool_input", "tool_output", "tool_error",
         "file_name", "file_mime", "file_url")
    )  # fmt: skip
    metadata = given.get("metadata")
    columns |= {name: value for name, value in given.items() if name in columns}
    return MessagePart(
        message_id,
        ordinal,
        given.get("part_type", "text"),
        **columns,
        metadata=metadata if isinstance(metadata, str | None) else json.dumps(metadata),
    )


def call(ordinal: int, *ids: str, text: str = "") -> LoadedMessage:
    blocks: list[dict[str, Any]] = []
    if text:
        blocks.append({"metadata": {"raw": {"type": "text", "text": text}}, "text": text})
    for call_id in ids:
        raw = {"type": "toolCall", "id": call_id, "name": "bash", "arguments": {"command": "ls"}}
        blocks.append({"part_type": "tool", "tool_call_id": call_id, "metadata": {"raw": raw}})
    return message(ordinal, "assistant", text, *blocks)


def result(ordinal: int, call_id: str, text: str = "done") -> LoadedMessage:
    metadata: dict[str, Any] = {"toolCallId": call_id, "toolName": "bash", "isError": False}
    metadata["raw"] = {"type": "text", "text": text}
    return message(ordinal, "tool", text, {"text": text, "tool_call_id": call_id, "metadata": metadata})


def summary(ordinal: int, depth: int = 0, content: str = "what was said") -> LoadedSummary:
    row = Summary(
        f"sum_{ordinal:016x}", 1, "condensed" if depth else "leaf", depth, 5,
        NOON, NOON, depth, 0, 0, NOON, "[]", None,
    )  # fmt: skip
    return LoadedSummary(ordinal, SummaryText(row, content), ())


def sent(
    items,
    rules=RULES_PRESENT,
    budget: int = 100_000,
    around: AssemblyInputs | None = None,
    **settings: Any,
):
    context = resolve_items(items, None, rules, UTC)
    asked = AssemblySettings(budget, **settings)
    return assemble(context, asked, rules, around or AssemblyInputs())


def shape(found) -> list[str]:
    """Roles, with the calls and results of tools: ``a:x,y`` calls x and y, ``t:x`` is the result of x."""
    words = []
    for one in found.messages:
        ids = one.call_id if one.role is Role.TOOL_RESULT else ",".join(b.call_id or "" for b in one.calls)
        words.append(f"{str(one.role)[0]}:{ids}" if ids else str(one.role)[0])
    return words


def repairs(found):
    return [(repair.what, repair.call_id) for repair in found.repairs]


# -- tool pairs ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rules", [RULES_0_1, RULES_PRESENT])
def test_a_result_is_moved_right_behind_its_call(rules):
    found = sent([message(0, "user", "go"), call(1, "x"), message(2, "user", "and?"), result(3, "x")], rules)
    assert shape(found) == ["u", "a:x", "t:x", "u"]
    assert repairs(found) == [("tool result moved behind its call", "x")]


@pytest.mark.parametrize("rules", [RULES_0_1, RULES_PRESENT])
def test_second_and_orphaned_results_are_dropped_and_missing_ones_made_up(rules):
    found = sent(
        [
            message(0, "user", "go"),
            result(1, "z"),
            call(2, "x", "y"),
            result(3, "x"),
            result(4, "x", "again"),
        ],
        rules,
    )
    assert shape(found) == ["u", "a:x,y", "t:x", "t:y"]
    assert set(repairs(found)) == {
        ("tool result without its call dropped", "z"),
        ("second result of a tool call dropped", "x"),
        ("tool call without a result answered with an error", "y"),
    }
    made_up = found.messages[-1]
    assert made_up.origin.kind is OriginKind.SYNTHETIC
    assert made_up.document() == {
        "role": "toolResult",
        "content": [{"type": "text", "text": MISSING_RESULT}],
        "toolCallId": "y",
        "toolName": "bash",
        "isError": True,
    }
    assert {one.ordinal: one.step for one in found.evicted} == {
        1: "tool pairing",
        4: "tool pairing",
    }


def test_a_result_behind_the_next_answer_is_found_by_the_present_engine_only():
    answer = message(2, "assistant", "hm", {"text": "hm"})
    items = [message(0, "user", "go"), call(1, "x"), answer, result(3, "x")]
    assert shape(sent(items, RULES_PRESENT)) == ["u", "a:x", "t:x", "a"]
    old = sent(items, RULES_0_1)
    assert old.messages[2].origin.kind is OriginKind.SYNTHETIC
    assert ("second result of a tool call dropped", "x") in repairs(old)


def made_up(ordinal: int, call_id: str) -> LoadedMessage:
    """A result that an engine made up once, as its host stored it."""
    one = result(ordinal, call_id, MISSING_RESULT)
    metadata = json.loads(one.parts[0].metadata or "") | {"isError": True}
    return replace(one, parts=(replace(one.parts[0], metadata=json.dumps(metadata)),))


def test_a_real_result_wins_over_one_that_was_made_up_once():
    before = [message(0, "user", "go"), call(1, "x"), made_up(2, "x")]
    assert sent([*before, result(3, "x")]).messages[2].text == "done"
    behind = [*before, call(3, "y"), result(4, "y"), result(5, "x")]
    assert [one.origin.ordinal for one in sent(behind).messages] == [0, 1, 5, 3, 4]
    assert [one.origin.ordinal for one in sent([*before, made_up(3, "x")]).messages] == [0, 1, 2]


def test_a_call_whose_id_was_used_before_is_removed_by_the_present_engine():
    items = [
        message(0, "user", "go"),
        call(1, "x"),
        call(2, "x", text="again"),
        call(3, "x", "x"),
        result(4, "x"),
        message(5, "user", "so?"),
    ]
    found = sent(items)
    assert shape(found) == ["u", "a:x", "t:x", "a", "u"]
    assert [what for what, _ in repairs(found)].count(
        "tool call with an id that was used before removed"
    ) == 3
    assert {one.ordinal: one.why for one in found.evicted} == {
        3: "assistant message of nothing but repeated tool calls dropped"
    }
    assert found.evicted[0].step == "tool pairing"


def test_calls_before_the_tail_without_a_result_are_stripped():
    items = [message(0, "user", "go"), call(1, "x", text="wait"), call(2, "y"), *tail(3)]
    found = sent(items, fresh_tail_count=2)
    assert shape(found) == ["u", "a", "u", "a"]
    assert ("tool call without a result removed", "x") in repairs(found)
    assert [(one.ordinal, one.step) for one in found.evicted] == [(2, "normalise")]
    assert shape(sent(items, RULES_0_1, fresh_tail_count=2)) == ["u", "a:x", "t:x", "a:y", "t:y", "u", "a"]


def test_a_running_call_in_the_tail_keeps_its_place():
    found = sent([message(0, "user", "go"), call(1, "x")], fresh_tail_count=2)
    assert shape(found) == ["u", "a:x", "t:x"]


def test_a_call_in_the_tail_goes_when_its_result_stands_before_it():
    early = [message(0, "user", "go"), result(1, "x"), message(2, "user", "x" * 400)]
    for budget in (60, 10_000):  # whether that result is chosen or not
        found = sent([*early, call(3, "x", text="hm")], budget=budget, fresh_tail_count=2)
        assert shape(found)[-2:] == ["u", "a"]
        assert ("tool call without a result removed", "x") in repairs(found)
    waiting = sent([*early, call(3, "y", text="hm")], fresh_tail_count=2)
    assert shape(waiting) == ["u", "u", "a:y", "t:y"]


def test_reasoning_stands_before_the_single_call_of_a_function():
    thought = {"part_type": "reasoning", "text": "hm"}
    calls = [
        {"part_type": "tool", "tool_call_id": name, "metadata": {"rawType": "function_call"}} for name in "xy"
    ]
    one = sent([message(0, "user", "go"), message(1, "assistant", "", calls[0], thought), result(2, "x")])
    assert [str(block.kind) for block in one.messages[1].blocks] == ["reasoning", "tool call"]
    assert repairs(one) == [("reasoning moved before the tool call", None)]
    results = [result(2, "x"), result(3, "y")]
    two = sent([message(0, "user", "go"), message(1, "assistant", "", *calls, thought), *results])
    assert [str(block.kind) for block in two.messages[1].blocks] == ["tool call", "tool call", "reasoning"]


def test_results_of_one_message_stay_in_their_order_when_nothing_is_mended():
    items = [message(0, "user", "go"), call(1, "x", "y"), result(2, "y"), result(3, "x")]
    assert shape(sent(items)) == shape(sent(items, RULES_0_1)) == ["u", "a:x,y", "t:y", "t:x"]
    assert shape(sent([*items, result(4, "z")])) == ["u", "a:x,y", "t:x", "t:y"]
    for rules in (RULES_0_1, RULES_PRESENT):  # a span that holds other messages too is put in order
        assert shape(sent([*items, message(4, "user", "so?")], rules))[1:] == ["a:x,y", "t:x", "t:y", "u"]


def test_a_second_answer_stays_at_0_1_when_nothing_else_is_mended():
    items = [message(0, "user", "go"), call(1, "x"), result(2, "x"), result(3, "x")]
    assert shape(sent(items, RULES_0_1)) == ["u", "a:x", "t:x", "t:x"]
    assert shape(sent(items)) == ["u", "a:x", "t:x"]
    assert shape(sent([result(9, "z"), *items], RULES_0_1)) == ["u", "a:x", "t:x"]


def tail(start: int) -> list[LoadedMessage]:
    return [message(start, "user", "next"), message(start + 1, "assistant", "yes")]


# -- messages from parts ---------------------------------------------------------------------------------


def test_reasoning_keeps_its_signature_only_when_its_model_is_known():
    raw = {"type": "thinking", "thinking": "hm", "thinkingSignature": "abc"}
    text = {"text": "so", "metadata": {"raw": {"type": "text", "text": "so"}}}

    def thought(rules, **identity: str) -> Any:
        reasoning = {"part_type": "reasoning", "text": "hm", "metadata": {"raw": raw, **identity}}
        found = sent([message(0, "user", "go"), message(1, "assistant", "so", reasoning, text)], rules)
        return found.messages[1].document()

    known = thought(RULES_PRESENT, modelProvider="anthropic", modelApi="anthropic-messages", modelId="m")
    assert known["content"][0] == raw
    assert (known["provider"], known["api"], known["model"]) == ("anthropic", "anthropic-messages", "m")
    assert thought(RULES_PRESENT)["content"][0] == {"type": "thinking", "thinking": "hm"}
    assert thought(RULES_0_1)["content"][0] == raw


def test_openais_reasoning_is_sent_as_its_own_item():
    item = {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "e"}
    raw = {"type": "thinking", "thinking": "hm", "thinkingSignature": json.dumps(item)}
    reasoning = {"part_type": "reasoning", "text": "hm", "metadata": {"raw": raw, "modelProvider": "openai"}}
    found = sent([message(0, "user", "go"), message(1, "assistant", "", reasoning, {"text": "so"})])
    assert found.messages[1].blocks[0].document == item


def test_what_says_nothing_is_dropped_by_the_present_engine():
    blank = {"text": "  ", "metadata": None}
    thought = {"part_type": "reasoning", "text": "hm"}
    items = [
        message(0, "user", "go"),
        message(1, "assistant", "", blank),
        message(2, "assistant", "", thought),
        message(3, "assistant", "", blank, {"text": "so"}),
        message(4, "assistant", ""),
    ]
    found = sent(items)
    assert [one.origin.ordinal for one in found.messages] == [0, 3]
    assert len(found.messages[1].blocks) == 1
    assert [one.ordinal for one in found.evicted] == [1, 2, 4]
    assert [one.origin.ordinal for one in sent(items, RULES_0_1).messages] == [0, 1, 2, 3, 4]


def test_a_users_pictures_are_sent_beside_the_text():
    picture = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
    parts = ({"text": "look"}, {"part_type": "file", "metadata": {"raw": picture}})
    found = sent([message(0, "user", "look", *parts)])
    assert found.messages[0].document()["content"] == [{"type": "text", "text": "look"}, picture]
    turns: Any = api_request(found)["messages"]
    assert turns[0]["content"][1]["source"]["media_type"] == "image/png"


def test_calls_are_rebuilt_from_columns_where_the_block_is_not_recorded():
    columns = {
        "part_type": "tool",
        "tool_call_id": "x",
        "tool_name": "bash",
        "tool_input": '{"command":"ls"}',
    }
    found = sent([message(0, "user", "go"), message(1, "assistant", "", columns), result(2, "x")])
    assert found.messages[1].document()["content"] == [
        {"type": "toolCall", "id": "x", "name": "bash", "arguments": {"command": "ls"}}
    ]


def test_an_answer_in_the_column_wins_over_the_text():
    metadata = {"originalRole": "toolResult", "rawType": "tool_result", "isError": True}
    row = {
        "part_type": "tool",
        "tool_call_id": "x",
        "tool_output": '{"n":1}',
        "text": "t",
        "metadata": metadata,
    }
    found = sent([message(0, "user", "go"), call(1, "x"), message(2, "tool", "", row)])
    assert found.messages[2].document() == {
        "role": "toolResult",
        "content": [{"type": "tool_result", "output": {"n": 1}, "tool_use_id": "x"}],
        "toolCallId": "x",
        "toolName": "unknown",
        "isError": True,
    }


def test_a_tools_row_without_a_call_is_text_of_the_assistant():
    found = sent([message(0, "user", "go"), message(1, "tool", "output")])
    assert found.messages[1].document()["content"] == [{"type": "text", "text": "output"}]
    assert found.messages[1].role is Role.ASSISTANT


def test_system_rows_are_sent_by_the_user():
    assert sent([message(0, "system", "note")]).messages[0].role is Role.USER


@pytest.mark.parametrize(
    "metadata", ["{", "[]", "null", '{"raw":7}', '{"raw":null,"rawType":7,"originalRole":[]}', "\x00"]
)
def test_broken_metadata_costs_nothing_but_itself(metadata: str):
    rows = ({"text": "hi", "metadata": metadata}, {"part_type": "agent", "metadata": metadata})
    for role in ("user", "assistant", "tool"):
        found = sent([message(0, "user", "go"), message(1, role, "hi", *rows)])
        assert "hi" in found.messages[1].text


def test_a_sender_in_a_group_is_named():
    found = sent([message(0, "user", "hello", sender='{"senderName":"Ada\\nL.","senderId":"7"}')])
    sender = {"senderId": "7", "senderName": "Ada\nL."}
    assert found.messages[0].document() == {"role": "user", "content": "hello", "__openclaw": sender}
    assert found.estimated_tokens == estimate_weighted(f"hello\n{js_json(sender)}")


# -- tail and budget -------------------------------------------------------------------------------------


def test_the_tail_counts_items_at_0_1_and_messages_since():
    items = [*(message(at, "user", "x" * 400, tokens=100) for at in range(4)), summary(4), summary(5)]
    assert sent(items, RULES_0_1, budget=1, fresh_tail_count=2).tail.first_ordinal == 4
    assert sent(items, budget=1, fresh_tail_count=2).tail.first_ordinal == 2


def test_the_prompt_chooses_where_it_may():
    texts = ["the lease table", "nothing", "lease lease lease", "nothing else", "new"]
    items = [message(at, "user", f"{text:80}") for at, text in enumerate(texts)]
    found = sent(items, budget=60, fresh_tail_count=1, prompt="LEASE")
    assert [one.origin.ordinal for one in found.messages] == [0, 2, 4]
    assert found.selection == "prompt-aware"
    assert {one.step for one in found.evicted} == {"prompt"}
    for settings in ({"prompt": "lease", "prompt_aware": False}, {"prompt": "..."}):
        plain = sent(items, budget=60, fresh_tail_count=1, **settings)
        assert plain.selection == "chronological"
    old = sent(items, RULES_0_1, budget=30, fresh_tail_count=1, prompt="lease")
    assert old.selection == "chronological"


def test_filling_stops_at_the_first_that_does_not_fit():
    items = [message(0, "user", "a"), message(1, "user", "x" * 4000), message(2, "user", "b")]
    found = sent(items, budget=50, fresh_tail_count=1)
    assert [one.origin.ordinal for one in found.messages] == [2]
    assert [one.why for one in found.evicted] == [
        "older than ordinal 1, which does not fit",
        "the first that does not fit: 1,000 tokens",
    ]


def test_a_tail_over_the_budget_is_sent_and_told():
    found = sent([message(0, "user", "a"), message(1, "user", "x" * 4000)], budget=50, fresh_tail_count=1)
    assert found.over_budget
    assert found.evicted[0].why == "the fresh tail alone takes 1,000 of 50 tokens"


def test_dangling_items_are_skipped_and_told():
    found = sent([DanglingItem(0, "message 7"), message(1, "user", "hi")])
    assert [(one.ordinal, one.step, one.why) for one in found.evicted] == [
        (0, "resolve", "the database has no message 7")
    ]
    assert found.metadata.context_items == 1


def test_large_answers_before_the_tail_become_references_when_asked():
    payload = LargeFile("file_1", 1, None, None, 123_456, None, "/x", "Lines: 9.", NOON)
    large = replace(result(2, "x", "y" * 8000), payload=payload)
    items = [message(0, "user", "go"), call(1, "x"), large, *tail(3)]
    found = sent(items, fresh_tail_count=2, stub_large_tool_payloads=True)
    assert found.messages[2].text == (
        "[LCM Tool Output: file_1 | tool=bash | 123,456 bytes]\n\nExploration Summary:\nLines: 9.\n\n"
        'Call lcm_describe(id="<file_id above>", expandFile=true) to fetch the full output content from disk.'
    )
    assert sent(items, fresh_tail_count=2).messages[2].text == "y" * 8000
    assert sent(items, fresh_tail_count=9, stub_large_tool_payloads=True).messages[2].text == "y" * 8000


# -- what it weighs and the last cut ---------------------------------------------------------------------


def test_stored_counts_are_trusted_at_0_1_only():
    items = [message(0, "user", "x" * 400, tokens=7)]
    assert (sent(items, RULES_0_1).estimated_tokens, sent(items).estimated_tokens) == (7, 100)
    none = [message(0, "user", "缓存" * 4, tokens=0)]
    assert (sent(none, RULES_0_1).estimated_tokens, sent(none).estimated_tokens) == (2, 12)


def test_payloads_that_are_no_text_count_a_fixed_amount():
    picture = {"type": "image", "data": "QUJ1" * 2000, "mimeType": "image/png"}
    parts = ({"text": "look"}, {"part_type": "file", "metadata": {"raw": picture}})
    [one] = sent([message(0, "user", "look", *parts)]).messages
    assert OPAQUE_TOKENS < serialized_tokens(one, Estimator.WEIGHTED) < OPAQUE_TOKENS + 50


def test_the_last_cut_packs_the_newest_into_nine_tenths():
    items = [message(at, "user", "x" * 400) for at in range(10)]
    told = sent(items, budget=1000, fresh_tail_count=1)
    assert (told.last_cut.messages, told.last_cut.applied, len(told.messages)) == (2, False, 10)
    cut = sent(items, budget=1000, fresh_tail_count=1, clamp=True)
    assert (len(cut.messages), cut.last_cut.applied) == (8, True)
    assert cut.sent_tokens == told.last_cut.tokens <= 900
    assert {one.step for one in cut.evicted} == {"final clamp"}
    assert sent(items, RULES_0_1, budget=100, fresh_tail_count=1).last_cut.messages == 0


LAST_CUT = ClampRules(0.9, acts_above_share=False, keeps_turns=False)


def left_by(messages, weights: tuple[int, ...], budget: int, **how: bool) -> tuple[int, ...]:
    """The places that the last cut of 0.15 leaves."""
    left = clamp(messages, weights, budget, LAST_CUT, **how).messages
    return tuple(at for at, one in enumerate(messages) if one in left)


def test_the_last_cut_leaves_no_result_first_and_no_answer_last():
    found = sent([message(0, "user", "go"), call(1, "x"), result(2, "x"), *tail(3)]).messages
    assert left_by(found, (1, 1, 1, 1, 1), 200) == (0, 1, 2, 3, 4)
    assert clamp(found, (50, 50, 50, 50, 50), 200, LAST_CUT) == Clamped(
        (found[3],),
        {0: "too old", 1: "too old", 2: "a result first", 4: "an answer last"},
    )
    # The newest user message is put in front, whatever it weighs, and the answer behind it goes.
    assert left_by(found, (1, 1, 1, 300, 170), 200) == (3,)
    assert left_by(found, (1, 1, 1, 300, 170), 200, host_delivers_turn=True) == (3, 4)


def test_a_user_message_put_in_front_is_sent_and_what_stood_behind_it_told_as_cut():
    blocks = [{"text": "x" * 400}] * 3
    items = [
        message(0, "user", "y" * 4_000),
        *(message(at, "assistant", "", *blocks) for at in (1, 2)),
        call(3, "x"),
        result(4, "x"),
    ]
    found = sent(items, budget=450, fresh_tail_count=1, clamp=True)
    assert [one.origin.ordinal for one in found.messages] == [0, 3, 4]
    assert {one.ordinal: one.step for one in found.evicted} == {1: "final clamp", 2: "final clamp"}
    assert found.sent_tokens == sum(found.weights) > 450


def test_an_answer_without_text_and_parts_is_not_there_to_the_present_engine():
    items = [
        message(0, "user", "go"),
        message(1, "assistant", " \n"),
        message(2, "assistant", "", {"text": " "}),
    ]
    found = sent(items)
    assert (found.metadata.raw_messages, found.tail.items) == (2, 2)
    assert [(one.ordinal, one.step) for one in found.evicted] == [
        (1, "resolve"),
        (2, "normalise"),
    ]
    old = sent(items, RULES_0_1)
    assert (old.metadata.raw_messages, len(old.messages)) == (3, 3)


@pytest.mark.long
def test_json_deeper_than_any_hosts_is_read_as_none():
    for depth, is_read in ((150, True), (250, False), (100_000, False)):
        raw = '{"type":"x","v":' + "[" * depth + "]" * depth + "}"
        stored = message(0, "user", "go", {"text": "said", "metadata": f'{{"raw":{raw}}}'}, {"text": "more"})
        [one] = sent([stored], clamp=True).messages
        assert (one.blocks[0].text == "") is is_read
        assert api_request(sent([stored]))["messages"]


def test_the_last_cut_leaves_an_answer_alone_where_nobody_asked():
    spoken = sent([message(0, "assistant", "hm", {"text": "hm"}), call(1, "x")]).messages[:2]
    assert left_by(spoken, (90, 90), 100) == (1,)
    assert left_by(spoken, (90, 90), 100, host_delivers_turn=True) == (1,)
    silent = [spoken[1].with_content((text_block(" "),))]
    assert left_by(silent, (90,), 10) == (0,)
    assert left_by(silent, (90,), 10, host_delivers_turn=True) == ()
    turns = (("user", "go"), ("assistant", "said"), ("assistant", " \n"))
    plain = [live_message({"role": role, "content": text}) for role, text in turns]
    assert left_by(plain, (200, 50, 40), 100, host_delivers_turn=True) == (0, 1)


# -- where it came from ----------------------------------------------------------------------------------


def live(count: int):
    return tuple(live_message({"role": "user", "content": f"live {at}"}) for at in range(count))


@pytest.mark.parametrize(
    ("items", "around", "source"),
    [
        ([message(0, "user", "hi")], AssemblyInputs(), "assembled"),
        ([], AssemblyInputs(), "fallback-empty"),
        ([], AssemblyInputs(live=live(2)), "fallback-live"),
        ([message(0, "user", "hi")], AssemblyInputs(live=live(1)), "assembled"),
        ([message(0, "user", "hi")], AssemblyInputs(live=live(2)), "fallback-live"),
        ([summary(0), message(1, "user", "hi")], AssemblyInputs(live=live(9)), "assembled"),
        ([message(0, "assistant", "hi")], AssemblyInputs(), "fallback-no-user-turn"),
        ([message(0, "assistant", "")], AssemblyInputs(), "fallback-empty"),
        (
            [message(0, "user", "hi")],
            AssemblyInputs(live=live(1), degraded=True),
            "emergency",
        ),
    ],
)
def test_where_the_messages_came_from(items, around: AssemblyInputs, source):
    found = sent(items, around=around)
    assert found.metadata.source == source
    assert found.metadata.prompt_authoritative == (source == "assembled")
    assert (found.metadata.fallback_reason is None) == (source == "assembled")
    if around.live and source != "assembled":
        assert [one["content"] for one in host_messages(found)] == [one.content for one in around.live]


@pytest.mark.parametrize(
    ("unread", "source"),
    [
        (UnreadItems(8, 0, 0, 0, 7), "assembled"),
        (UnreadItems(7, 0, 0, 0, 6), "fallback-live"),
        (UnreadItems(1, 1, 0, 0, 0), "assembled"),
    ],
)
def test_what_was_not_read_counts_when_the_host_holds_more(unread: UnreadItems, source):
    context = resolve_items([message(20, "user", "a"), message(21, "user", "b")], None, RULES_PRESENT, UTC)
    asked = AssemblySettings(10, fresh_tail_count=1)
    found = assemble(replace(context, unread=unread), asked, RULES_PRESENT, AssemblyInputs(live=live(10)))
    assert found.metadata.source == source


def test_a_row_whose_message_is_gone_is_no_message_that_the_host_holds_alone():
    items = [DanglingItem(0, "message 7"), message(1, "user", "hi")]
    assert sent(items, around=AssemblyInputs(live=live(2))).metadata.source == "assembled"


def test_an_engine_that_cannot_compact_gives_up_above_three_quarters():
    assert not is_degraded(debt_pending=True, tokens=75, budget=100)
    assert is_degraded(debt_pending=True, tokens=76, budget=100)
    assert not is_degraded(debt_pending=False, tokens=500, budget=100)


def test_the_hosts_messages_are_sent_word_for_word():
    held: list[Any] = [
        {"role": "user", "content": "go", "timestamp": 1772440631000},
        {"role": "system", "content": [{"type": "text", "text": "a"}, "b"], "custom": {"x": 1}},
        {"role": "assistant", "content": [], "api": "a", "usage": {"input": 5}, "stopReason": "error"},
        {"role": "toolResult", "toolCallId": "x", "content": None, "details": [1.0], "isError": False},
    ]
    around = AssemblyInputs(live=tuple(map(live_message, held)))
    found = sent([], around=around, clamp=True)
    assert host_messages(found) == held
    assert found.sent_tokens == sum(serialized_tokens(one, Estimator.WEIGHTED) for one in around.live or ())
    assert found.sent_tokens >= len(json.dumps(held, separators=(",", ":"))) // 4 - 2


def test_the_hosts_messages_are_cut_to_the_budget():
    found = sent([], budget=40, around=AssemblyInputs(live=live(9)))
    assert 0 < len(found.messages) < 9
    assert found.sent_tokens <= 36


def test_the_addition_to_the_system_prompt_fits_the_summaries_at_0_1():
    def kind(*items, rules=RULES_0_1):
        return sent([*items, message(9, "user", "hi")], rules).system.kind

    assert kind() == "none"
    assert kind(summary(0)) is kind(summary(0), summary(1, 1)) == "recall"
    assert kind(summary(0, 2)) is kind(summary(0, 1), summary(1, 1)) == "deep recall"
    assert kind(rules=RULES_PRESENT) == "policy"


# -- exports ---------------------------------------------------------------------------------------------


def test_the_request_for_an_api_alternates_and_pairs():
    context = [
        message(0, "user", "go"),
        summary(1),
        call(2, "call_1|fc_2", text="so"),
        result(3, "call_1|fc_2"),
    ]
    request = api_request(sent(context))
    turns: Any = request["messages"]
    assert [turn["role"] for turn in turns] == ["user", "assistant", "user"]
    assert [block["type"] for turn in turns for block in turn["content"]] == [
        "text", "text", "text", "tool_use", "tool_result",
    ]  # fmt: skip
    used, answered = turns[1]["content"][1], turns[2]["content"][0]
    assert used == {"type": "tool_use", "id": "call_1_fc_2", "name": "bash", "input": {"command": "ls"}}
    assert answered["tool_use_id"] == used["id"]
    assert request["system"]


def test_markdown_cannot_be_broken_out_of():
    text = markdown(sent([message(0, "user", "```\n# not a heading\n````")]))
    assert "\n`````\n```\n# not a heading\n````\n`````\n" in text
    assert "## 1. user · message 1 ·" in text


def test_an_empty_context_is_an_empty_answer():
    found = assemble(ContextMessages(()), AssemblySettings(100), RULES_PRESENT)
    assert (found.messages, found.estimated_tokens, found.tail.first_ordinal) == ((), 0, None)
    assert api_request(found)["messages"] == []


def test_shares_add_up_to_what_is_sent():
    items = [summary(0, 2), summary(1, 1), summary(2), *tail(3)]
    found = sent(items, fresh_tail_count=2)
    assert found.weights == (found.shares.root, found.shares.older, found.shares.recent, *found.weights[3:])
    assert found.shares.tail == sum(found.weights[3:])
    beside = sum(item.tokens for item in resolve_items(items, None, RULES_PRESENT, UTC).items[1:])
    without_root = sent(items, fresh_tail_count=2, budget=beside)
    assert (without_root.shares.root, without_root.shares.older) == (0, found.shares.older)


def nested(levels: int):
    value = {}
    for _ in range(levels):
        value = {"inner": [value]}
    return value


@pytest.mark.long
@pytest.mark.parametrize("odd", [nested(100_000), {1, 2}], ids=["deep", "set"])
def test_what_json_cannot_write_in_a_message_of_the_host_weighs_nothing(odd: object) -> None:
    message = live_message({"role": "user", "content": [{"type": "odd", "holds": cast("Json", odd)}]})
    assert serialized_tokens(message, Estimator.WEIGHTED) == 0
    assert counted_content(message.content) == ""


@pytest.mark.parametrize("levels", [200, 300, 450])
def test_a_message_that_json_can_write_is_weighed_however_deep_it_is_nested(levels: int) -> None:
    message = live_message({"role": "user", "content": [{"type": "odd", "holds": nested(levels)}]})
    assert serialized_tokens(message, Estimator.WEIGHTED) == 3 * levels + 14
    assert content_quarters(message.content, Estimator.WEIGHTED)[1]


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ({"originalRole": "user", "rawType": "tool_result", "raw": [{"n": None}]}, {}),
        ({"raw": {"type": "toolCall", "input": None}}, {"arguments": None}),
        ({"raw": {"type": "toolCall", "arguments": None}}, {}),
        ({"raw": {"type": "toolCall", "arguments": None, "input": {"a": 1}}}, {"arguments": {"a": 1}}),
        ({"rawType": "tool_use", "raw": ["x"]}, {"type": "tool_use"}),
        (
            {"rawType": "tool_use", "raw": {"type": "tool_use", "input": None}},
            {"type": "tool_use", "input": None},
        ),
    ],
)
def test_a_call_is_put_together_from_what_the_host_noted(metadata, expected):
    tool = part(1, 0, {"part_type": "tool", "metadata": metadata})
    [found] = rebuilt_content("", [tool], Role.ASSISTANT, RULES_PRESENT.assembly)
    assert isinstance(found, Block)
    assert found.document == {"type": "toolCall", "id": f"toolu_lcm_{tool.part_id}"} | expected


@pytest.mark.parametrize("raw", [[1], [], [{"type": "toolCall"}], {"type": "", "text": "a"}, {"type": ""}])
@pytest.mark.parametrize("raw_type", [None, "", "text", "toolcall"])
def test_a_block_of_no_tool_is_sent_as_the_host_noted_it(raw, raw_type: str | None):
    of_call = {"raw": {"type": ""}, "rawType": "toolCall"}  # an empty type is one
    for metadata, expected in (({"raw": raw, "rawType": raw_type}, raw), (of_call, {"type": ""})):
        tool = part(1, 0, {"part_type": "tool", "metadata": metadata})
        [found] = rebuilt_content("", [tool], Role.ASSISTANT, RULES_PRESENT.assembly)
        assert isinstance(found, Block)
        assert found.document == expected
