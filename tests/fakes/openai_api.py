"""Chat completions on the loopback, as OpenAI-compatible servers speak them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tests.fakes.server import Fail, Say, ScriptedServer, halves

_ENDS = {"end_turn": "stop", "max_tokens": "length", "refusal": "content_filter"}


class OpenAIApi(ScriptedServer):
    """Speaks ``POST /v1/chat/completions``, streamed or not."""

    def failure(self, step: Fail) -> Any:
        return {"error": {"message": step.message, "type": step.kind, "param": None, "code": None}}

    def whole(self, step: Say) -> Any:
        message = {"role": "assistant", "content": step.text, "reasoning_content": step.thinking}
        choice = {"index": 0, "message": message, "finish_reason": _ENDS[step.stop]}
        return {**self._frame("chat.completion"), "choices": [choice], "usage": self._usage(step)}

    def events(self, step: Say) -> Iterator[bytes]:
        if step.thinking:
            yield self._delta({"reasoning_content": step.thinking})
        for number, piece in enumerate(halves(step.text)):
            yield self._delta({"role": "assistant", "content": piece})
            if step.breaks and number == 0:
                if step.breaks == "error":
                    yield data({"error": {"message": "Overloaded", "type": "server_error"}})
                return
        yield self._delta({}, _ENDS[step.stop])
        yield data({**self._frame("chat.completion.chunk"), "choices": [], "usage": self._usage(step)})
        yield b"data: [DONE]\n\n"

    def _delta(self, piece: dict[str, Any], finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": piece, "finish_reason": finish}
        return data({**self._frame("chat.completion.chunk"), "choices": [choice]})

    @staticmethod
    def _frame(kind: str) -> dict[str, Any]:
        return {"id": "chatcmpl-1", "object": kind, "created": 1, "model": "test"}

    @staticmethod
    def _usage(step: Say) -> dict[str, int]:
        taken = {"prompt_tokens": step.input_tokens} if step.told in ("both", "input") else {}
        return taken | ({"completion_tokens": step.output_tokens} if step.told in ("both", "output") else {})


def data(document: Any) -> bytes:
    """A server-sent event without a name."""
    return f"data: {json.dumps(document)}\n\n".encode()
