"""``sessions compare``: a conversation beside the Codex session that it was held in."""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path

from lcm_core.diff import unified_text
from lcm_core.host.codex import Spoken
from lcm_core.host.codex_compare import CodexDiff, Held, compare_with_codex, read_held
from lcm_core.settings import Settings
from lcm_core.store.database import Reader
from lcm_core.times import iso_z

from lcm_tui.cli.answer import Answer, Run
from lcm_tui.cli.documents import Document
from lcm_tui.cli.options import Selector
from lcm_tui.cli.selecting import chosen
from lcm_tui.cli.working import interruptible
from lcm_tui.views.codex import codex_blocks


def compare(run: Run, named: Selector, rollout: Path | None) -> Answer:
    """How the two differ."""
    held = run.read(_held, named, run.settings)
    with interruptible() as stopped:
        found = compare_with_codex(held, run.settings, os.environ, rollout, cancelled=stopped)
    return run.answer("sessions.compare", _document(held, found), list(codex_blocks(found)))


async def _held(reader: Reader, named: Selector, settings: Settings) -> Held:
    return await read_held(reader, await chosen(reader, named), settings)


def _document(held: Held, found: CodexDiff) -> Document:
    read = found.rollout
    return {
        "conversationId": held.conversation.conversation_id,
        "sessionId": held.conversation.session_id,
        "rollout": {
            "path": str(read.path),
            "older": found.older,
            "lines": read.lines,
            "rows": len(read.rows),
            "repeatedEvents": read.repeated,
            "notCompared": dict(read.others),
            "notImported": read.refused,
            "problems": [{"line": one.line, "reason": one.reason} for one in read.problems.kept],
            "problemCount": read.problems.count,
        },
        "rows": len(held.rows),
        "complete": found.complete,
        "onlyCodex": [_row(one) for one in found.only_codex],
        "onlyConversation": [_row(one) for one in found.only_conversation],
        "elsewhere": found.elsewhere,
        "same": found.same,
        "lines": {"removed": found.diff.removed, "added": found.diff.added},
        "diff": list(unified_text(found.diff)),
    }


def _row(one: Spoken) -> Document:
    return {"role": one.role, "where": one.where, "createdAt": _iso(one.at), "text": one.text}


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else iso_z(moment)
