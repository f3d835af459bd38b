"""Where the engine's language (JavaScript) reads and writes texts otherwise than Python.

Its white space holds U+FEFF and neither U+0085 nor U+001C to U+001F; its patterns know words of ASCII alone,
so a word ends where an ideograph begins; ``JSON.parse`` refuses ``NaN`` and control characters in strings.
"""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from lcm_core.base.javascript import js_json
from lcm_core.base.records import FocusBrief
from lcm_core.base.setting_values import time_zone
from lcm_core.base.times import engine_label
from lcm_core.base.tokens import Estimator, has_surrogates
from lcm_core.base.values import replace
from lcm_core.engine.blocks import host_block
from lcm_core.engine.clamp import serialized_tokens
from lcm_core.engine.items import resolve_items
from lcm_core.engine.messages import Origin, OriginKind, Role, SentMessage
from lcm_core.engine.rules import RULES_0_1, RULES_PRESENT
from lcm_core.engine.wrapper import wrap_brief
from lcm_core.operations.compact_pass import files_of_source
from lcm_core.operations.copy import named_in
from lcm_core.writers.source import SummarySource, WholeMessage, leaf_source
from lcm_host.messages import HostMessage, StoredMessage, store_message

from tests.core.test_assembly_steps import NOON, message, sent, summary

OPAQUE_TOKENS = 1600

FILE = "file_0123456789abcdef"
#: Blank in one of the languages alone.
BLANK_THERE, BLANK_HERE = "\ufeff", "\x85"


def weight_of(data: str) -> int:
    """What a message weighs that holds nothing but an image's bytes."""
    block = host_block({"type": "image", "data": data})
    return serialized_tokens(SentMessage(Role.USER, (block,), Origin(OriginKind.LIVE)), Estimator.WEIGHTED)


def test_a_payload_is_known_by_how_it_begins_and_by_its_length_there():
    payload = "QUJ1" * 1_024
    opaque = weight_of("[opaque binary payload]") + OPAQUE_TOKENS
    assert weight_of(payload) == opaque
    assert weight_of(payload[1:]) == weight_of("") + 1_023 + 1
    assert weight_of(f"QUJ1\r\n{payload[6:]}") == opaque
    assert weight_of(f"{payload[:512]}{BLANK_THERE * 3584}") == opaque
    for other in (f"{payload[:511]}-{payload}", f"{payload[:9]} {payload}", "A" * 4_096, "1" * 4_096):
        assert weight_of(other) > 1_024
        assert weight_of(other) < OPAQUE_TOKENS + 500
        assert weight_of(other) != opaque
    # Characters above U+FFFF are two units each.
    assert weight_of("data:" + "\U0001f41b" * 2_046) == opaque
    assert weight_of("data:" + "\U0001f41b" * 2_045) > 4_000


@pytest.mark.parametrize(("text", "roles"), [(BLANK_THERE, "u"), (BLANK_HERE, "ua"), ("\x1f", "ua")])
def test_blank_answers_are_not_sent(text: str, roles: str):
    found = sent([message(0, "user", "go"), message(1, "assistant", text, {"text": text})])
    assert "".join(str(one.role)[0] for one in found.messages) == roles


@pytest.mark.parametrize("arguments", ["NaN", '{"a": -Infinity}', '{"a": "b\nc"}'])
def test_arguments_that_are_no_json_there_are_sent_as_text(arguments: str):
    stored = message(0, "assistant", "", {"part_type": "tool", "tool_call_id": "x", "tool_input": arguments})
    [item] = resolve_items([stored], None, RULES_PRESENT, UTC).items
    assert item.sent.calls[0].document["arguments"] == arguments


def test_ids_of_files_end_where_an_ideograph_begins():
    said = message(0, "user", f"参照{FILE}を見て x{FILE} {FILE.upper()}é {FILE}0 fıle_0123456789abcdee")
    assert files_of_source(
        SummarySource("", messages=(WholeMessage(said.message),)), RULES_PRESENT.source
    ) == [FILE]
    assert named_in([{"content": f"参照{FILE}を見て"}]) == {FILE}


@pytest.mark.parametrize("zone", ["GMT", "Etc/GMT", "GMT0", "GMT+0", "GMT-0"])
def test_gmt_is_called_utc(zone: str):
    assert engine_label(datetime(2026, 3, 6, 12, tzinfo=UTC), ZoneInfo(zone)) == "2026-03-06 12:00 UTC"


@pytest.mark.cases(3)
@pytest.mark.parametrize(
    ("written", "zone"),
    [("asia/tokyo", "Asia/Tokyo"), ("utc", "UTC"), (":AMERICA/NEW_YORK", "America/New_York"), ("CET", "CET")],
)
def test_zones_are_known_in_whatever_case(written: str, zone: str):
    assert time_zone(written) == zone
    with pytest.raises(ValueError, match="not a time zone"):
        time_zone(f"{written}x")


def explored(text: str) -> str:
    """What is said of a file of JSON in a message."""
    host = HostMessage({"role": "user", "content": f"<file name='a.json'>{text}</file>"})
    stored = store_message(host, replace(RULES_PRESENT.ingest, large_file_token_threshold=1))
    assert isinstance(stored, StoredMessage)
    return stored.payloads[0].summary


def test_what_no_json_parser_there_reads_is_said_to_be_none():
    assert explored('{"a": NaN}').endswith("failed to parse as valid JSON.")
    assert explored('{"a": 1}').startswith("Structured summary (JSON):")


def test_keys_that_are_numbers_come_first():
    text = '{"b": 0, "10": 0, "01": 0, "9": 0, "-1": 0, "4294967295": 0, "a": 0}'
    assert "Shape: object(keys=7: 9, 10, b, 01, -1, 4294967295, a)." in explored(text)


def image(data: str):
    """What is taken out of a message with an image."""
    said: Any = {"role": "user", "content": [{"type": "image", "data": data, "mimeType": "image/png"}]}
    stored = store_message(
        HostMessage(said),
        replace(RULES_PRESENT.ingest, large_file_token_threshold=1_000),
        new_id=lambda: FILE,
    )
    assert isinstance(stored, StoredMessage)
    return stored.payloads


def test_images_are_read_as_the_engine_reads_base64():
    data = bytes(range(240, 256)) * 3
    padded = base64.b64encode(data).decode()
    lines = "\r\n".join(padded[at : at + 20] for at in range(0, len(padded), 20))
    for form in (
        padded,
        padded.rstrip("="),
        lines,
        padded + "\ufeff",
    ):
        assert [payload.data for payload in image(form)] == [data]
    assert image("no payload!") == ()
    assert image(base64.urlsafe_b64encode(data).decode()) == ()  # those digits are foreign to its pattern


#: Bytes that are no UTF-8, as they come out of a database, and as the engine reads them.
BYTES, READ = b"a\xffb\xf0\x9f\x92".decode("utf-8", "surrogateescape"), "a\ufffdb\ufffd"


def test_what_is_no_utf_8_is_sent_as_the_engine_reads_it():
    metadata = json.dumps({"raw": {"type": "text", "text": BYTES}}, ensure_ascii=False)
    answer = message(1, "assistant", BYTES, {"text": BYTES, "metadata": metadata})
    brief = FocusBrief("focus_0", 1, BYTES, BYTES, "active", 1, 1, None, 1, None, None, NOON, NOON)
    for rules in (RULES_0_1, RULES_PRESENT):
        sums = sent([summary(0, content=BYTES), answer, message(2, "user", BYTES)], rules)
        assert READ in sums.messages[0].text
        block: Any = sums.messages[1].document()["content"]
        assert block == [{"type": "text", "text": READ}]
        assert sums.messages[2].content == READ
    assert wrap_brief(brief, UTC).count(READ) == 2
    source = WholeMessage(message(0, "user", BYTES).message)
    assert leaf_source([source], RULES_PRESENT.source, UTC).endswith(f"]\n{READ}")


def test_a_half_of_a_character_in_json_is_written_as_the_engine_writes_it():
    """All halves alike: in stored JSON they stand escaped, and only there can they stand."""
    metadata = '{"raw": {"type": "toolCall", "id": "x", "arguments": {"a": "\\udc80 \\ud83d \\udfff"}}}'
    [item] = resolve_items(
        [message(0, "assistant", "", {"part_type": "tool", "metadata": metadata})], None, RULES_PRESENT, UTC
    ).items
    assert js_json(item.sent.calls[0].document).endswith('{"a":"\\udc80 \\ud83d \\udfff"}}')


HALF = "\ud83d"
ODD_BLOCKS: list[Any] = [
    [{"type": {"a": 1}}, {"type": ["text"]}],
    [{"type": ["text"], "text": "x"}],
    [{"type": "toolCall", "id": f"x{HALF}", "name": f"y{HALF}", "arguments": {HALF: HALF}}],
    f'<file name="{HALF}.md" mime="{HALF}">{"word " * 200}</file>',
    [{"type": "image", "data": "QUJD", "mimeType": HALF, "name": HALF}],
]


@pytest.mark.parametrize("content", ODD_BLOCKS)
@pytest.mark.parametrize("role", ["user", "assistant", "toolResult"])
def test_whatever_a_host_says_can_be_stored(content: Any, role: str):
    """Types that are no text, and halves of characters, which no database takes."""
    said: Any = {"role": role, "content": content, "toolCallId": HALF, "toolName": HALF, "responseId": HALF}
    host = HostMessage(said, entry_id=HALF)
    found = store_message(host, replace(RULES_PRESENT.ingest, large_file_token_threshold=100))
    assert isinstance(found, StoredMessage)
    texts = [found.content, found.entry_id, found.event_key]
    for part in found.parts:
        texts += [part.text, part.tool_call_id, part.tool_name, part.tool_input, part.metadata]
    for payload in found.payloads:
        texts += [payload.file_name, payload.mime, payload.summary]
    assert not any(map(has_surrogates, filter(None, texts)))


def test_a_failed_turn_that_says_nothing_there_is_not_stored():
    said: Any = {"role": "assistant", "content": "", "stopReason": "error"}
    assert (
        store_message(HostMessage(said), RULES_PRESENT.ingest)
        == "empty answers of a turn that failed or was stopped"
    )
    for blank in (BLANK_HERE, BLANK_THERE):
        spoken = HostMessage({**said, "content": blank})
        assert (
            store_message(spoken, RULES_PRESENT.ingest)
            != "empty answers of a turn that failed or was stopped"
        )
