"""The Messages API on the loopback: what the real SDK talks to in tests."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tests.fakes.server import Fail, Say, ScriptedServer, halves


class MessagesApi(ScriptedServer):
    """Speaks ``POST /v1/messages``, streamed or not."""

    def failure(self, step: Fail) -> Any:
        return {"type": "error", "error": {"type": step.kind, "message": step.message}, "request_id": "req_1"}

    def whole(self, step: Say) -> Any:
        content = [{"type": "thinking", "thinking": step.thinking, "signature": "x"}] if step.thinking else []
        content += [{"type": "text", "text": step.text}] if step.text else []
        return {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "claude-test",
            "content": content,
            "stop_reason": step.stop,
            "stop_sequence": None,
            "usage": counts(step),
        }

    def events(self, step: Say) -> Iterator[bytes]:
        usage = {**counts(step), "output_tokens": 1}
        start = {**self.whole(step), "content": [], "stop_reason": None, "usage": usage}
        yield event({"type": "message_start", "message": start})
        yield event({"type": "ping"})
        blocks = [("thinking", step.thinking)] if step.thinking else []
        blocks += [("text", step.text)] if step.text else []
        for index, (kind, text) in enumerate(blocks):
            empty = {"type": kind, kind: "", **({"signature": ""} if kind == "thinking" else {})}
            yield event({"type": "content_block_start", "index": index, "content_block": empty})
            first, second = halves(text)
            yield delta(index, kind, first)
            if step.breaks == "error":
                yield event({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}})
            if step.breaks:
                return
            yield delta(index, kind, second)
            yield event({"type": "content_block_stop", "index": index})
        end = {"stop_reason": step.stop, "stop_sequence": None}
        taken = {name: value for name, value in counts(step).items() if name == "output_tokens"}
        yield event({"type": "message_delta", "delta": end, "usage": taken})
        yield event({"type": "message_stop"})


def counts(step: Say) -> dict[str, int]:
    """What the server says it took."""
    taken = {"input_tokens": step.input_tokens} if step.told in ("both", "input") else {}
    return taken | ({"output_tokens": step.output_tokens} if step.told in ("both", "output") else {})


def event(document: dict[str, Any]) -> bytes:
    """A server-sent event."""
    return f"event: {document['type']}\ndata: {json.dumps(document)}\n\n".encode()


def delta(index: int, kind: str, text: str) -> bytes:
    """A piece of a block."""
    piece = {"type": f"{kind}_delta", kind: text}
    return event({"type": "content_block_delta", "index": index, "delta": piece})
