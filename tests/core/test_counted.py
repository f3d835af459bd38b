"""Doctor and item screen know the counts that the present engine stores (docs/spec/ingest.md, "Tokens")."""

from __future__ import annotations

import json
import re
from typing import Any

from lcm_core.api import Message, MessagePart
from lcm_core.base.tokens import Verdict, check_message_tokens
from lcm_core.engine.blocks import tokens_as_sent

from tests.support import recorded


def _message(row: dict[str, Any]) -> Message:
    return Message(
        message_id=1,
        conversation_id=1,
        seq=row["seq"],
        role=row["role"],
        content=row["content"],
        tokens=row["token_count"],
        created_at=row["created_at"],
        large_content=None,
        sender=row["openclaw_sender_metadata"],
    )


def _part(row: dict[str, Any]) -> MessagePart:
    names = ("text_content", "tool_call_id", "tool_name", None, "tool_input", "tool_output")
    values = [None if name is None else row.get(name) for name in names]
    return MessagePart(
        1, row["ordinal"], row["part_type"], *values, None, None, None, None, row.get("metadata")
    )


def test_every_recorded_count_is_one_that_is_expected():
    rows = [
        json.loads(re.sub(r"file_#(\d+)", r"file_000000000000000\1", json.dumps(row)))
        for case in recorded("ingest-messages.json.gz")["cases"]
        if case["rows"] is not None
        for row in case["rows"]["messages"]
    ]
    odd = []
    for row in rows:
        metadata = [part.get("metadata") for part in row["parts"]]
        check = check_message_tokens(row["token_count"], row["content"], metadata)
        sent = tokens_as_sent(_message(row), [_part(part) for part in row["parts"]])
        if check.verdict is Verdict.DIFFERS and abs(sent - row["token_count"]) > 1:
            odd.append((row["role"], row["token_count"], sent, row["content"][:80], row["parts"]))
    assert len(rows) > 1_000
    assert odd == []
