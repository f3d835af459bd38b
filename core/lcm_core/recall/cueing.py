"""The recall cue before an assembled context (docs/engine/recall.md, "Recall cue").

An assembly is pure and knows no search: so those who hand its messages to a host put the cue before them.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from lcm_core.assemble.assembler import weight
from lcm_core.assemble.message import Origin, OriginKind, Role, SentMessage
from lcm_core.assemble.result import Assembled, SentSource
from lcm_core.engine_rules import EngineRules
from lcm_core.recall.cue import cue_lines, cue_text, identifiers_in
from lcm_core.records import ConversationId
from lcm_core.store.connecting import Rows
from lcm_core.store.database import Reader
from lcm_core.store.recalled import RecalledRows
from lcm_core.tokens import estimate


async def with_cue(
    reader: Reader,
    conversation_id: ConversationId,
    assembled: Assembled,
    prompt: str | None,
    rules: EngineRules,
    now: datetime,
) -> Assembled:
    """The same messages, behind what history says of identifiers in *prompt* that they do not hold.

    Nothing is put before messages that are not the database's, by rules of before 0.12, or where the budget
    has no room for all of it.
    """
    wanted = rules.assembly.recall_cue and assembled.metadata.source is SentSource.ASSEMBLED
    if prompt is None or not wanted or not identifiers_in(prompt):
        return assembled
    asked, seen = prompt, [message.text for message in assembled.messages]

    def lines(rows: Rows) -> list[str]:
        return cue_lines(RecalledRows(rows, reader.schema), conversation_id, asked, seen, now)

    text = cue_text(await reader.run(lines))
    return assembled if text is None else _before(assembled, text, rules)


def _before(assembled: Assembled, text: str, rules: EngineRules) -> Assembled:
    tokens = estimate(text, rules.assembly.estimator)
    cue = SentMessage(Role.USER, text, Origin(OriginKind.CUE), tokens)
    more = weight(cue, rules)
    if sum(assembled.weights) + more > assembled.budget:
        return assembled
    told = replace(assembled.metadata, estimated_tokens=assembled.metadata.estimated_tokens + more)
    return replace(
        assembled,
        messages=(cue, *assembled.messages),
        weights=(more, *assembled.weights),
        estimated_tokens=assembled.estimated_tokens + tokens,
        sent_tokens=assembled.sent_tokens + more,
        metadata=told,
    )
