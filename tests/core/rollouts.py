"""Rollouts as Codex writes them, by the facts of docs/spec/host.md, "Codex sessions"."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.databases import connect

THREAD = "0199aaaa-1111-7222-8333-444455556666"


def line(kind: str, payload: Any, at: Any = "2026-03-02T15:14:23.000Z") -> str:
    return json.dumps({"timestamp": at, "type": kind, "payload": payload})


def message(role: str, *texts: Any) -> str:
    blocks = [{"type": "output_text", "text": text} for text in texts]
    return line("response_item", {"type": "message", "role": role, "content": blocks})


def item(kind: str, **payload: Any) -> str:
    return line("response_item", {"type": kind, **payload})


def event(kind: str, text: Any) -> str:
    return line("event_msg", {"type": kind, "message": text})


def rollout_at(folder: Path, date: str = "2026/03/02", thread: str = THREAD) -> Path:
    path = folder / "sessions" / date / f"rollout-{date.replace('/', '-')}T15-14-23-{thread}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


EVENTS = {"user": "user_message", "assistant": "agent_message"}


def as_rollout(path: Path, conversation: int) -> list[str]:
    """The lines that Codex would have written of a recorded conversation, by plain SQL."""
    lines = []
    with connect(path) as db:
        query = "SELECT message_id, role, content FROM messages WHERE conversation_id = ? ORDER BY seq"
        rows = db.execute(query, (conversation,)).fetchall()
        for number, role, content in rows:
            parts = db.execute(
                """SELECT part_type, tool_name, coalesce(tool_input, metadata ->> '$.raw.arguments'),
                tool_output, text_content FROM message_parts WHERE message_id = ? ORDER BY ordinal""",
                (number,),
            ).fetchall()
            for kind, *_, text in parts:
                if kind == "reasoning":
                    lines.append(item("reasoning", summary=[{"type": "summary_text", "text": text}]))
            outputs = [output for kind, _, _, output, _ in parts if kind == "tool" and output]
            if role == "tool":
                lines += [item("function_call_output", output=one) for one in outputs or [content]]
                continue
            if content.strip():
                lines.append(message(role, content))
                if role in EVENTS:
                    lines.append(event(EVENTS[role], content))
            for kind, name, given, output, _ in parts:
                if kind in ("tool", "agent") and name and not output:
                    lines.append(item("function_call", name=name, arguments=given))
    return lines
