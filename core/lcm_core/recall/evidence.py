"""The evidence itself, where no model is asked (docs/engine/recall.md, "Without a sub-agent")."""

from __future__ import annotations

import json

from lcm_core.recall.delegation import Task
from lcm_core.recall.expand import expand_summary
from lcm_core.store.recalled import RecalledRows

NO_MODEL = "No model was asked; this is what was found, to be read as it is:"


def evidence_reply(rows: RecalledRows, task: Task) -> str:
    """What a sub-agent would reply, with texts as its answer: the summaries of a task in their order, each
    that still fits its cap, and of those that were found by their messages these.
    """
    left = task.token_cap
    parts, cited, truncated = [NO_MODEL], list[str](), False
    for text in rows.summaries(task.bucket.summaries):
        if text.summary.tokens > left:
            truncated = True
            continue
        left -= text.summary.tokens
        cited.append(text.summary.summary_id)
        parts.append(f"[{text.summary.summary_id}]\n{text.content}")
    for summary_id in task.bucket.with_messages:
        below = expand_summary(rows, summary_id, include_messages=True, cap=left)
        left -= below.tokens
        truncated = truncated or below.truncated
        messages = (one.message for one in below.messages)
        parts += [f"[msg#{one.message_id} {one.role}]\n{one.content}" for one in messages]
    return json.dumps(
        {
            "answer": "\n\n".join(parts),
            "citedIds": cited,
            "expandedSummaryCount": len(cited),
            "totalSourceTokens": task.token_cap - left,
            "truncated": truncated,
        }
    )
