"""The tool ``ask``, which is there only when a model was named at the start (docs/mcp.md, "Asking").

All the others read; this one sends passages of the database to that model.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from lcm_core.javascript import Json
from lcm_core.recall.asking import Asked, AskLimits, Inquiry
from lcm_core.recall.documents import asked_document
from lcm_core.recall.find import OTHER_SPELLING
from lcm_core.recall.read import Passage
from lcm_core.times import with_z

from lcm_tui.mcp.answers import ToolAnswer, answered, quoted, short
from lcm_tui.mcp.arguments import Argument, Given, Text, Whole
from lcm_tui.mcp.memory import CONVERSATION, MAX_TOKENS, Memory
from lcm_tui.mcp.scope import scope_of

NAME: Final = "ask"
#: Seconds for a call in all, and what of them the model may take.
ASK_SECONDS: Final = 55.0
_MODEL_SECONDS: Final = 45.0
HELP: Final = (
    "Answer a question with a model that searches and reads this memory. The answer comes with "
    "checked citations and with the evidence beside it. It takes time and may cost money: try search first."
)
ARGUMENTS: Final[Mapping[str, Argument]] = {
    "question": Text("What you want to know.", True, 2_000),
    "conversation": CONVERSATION,
    "tokens": Whole("Tokens of evidence.", 4_000, 500, MAX_TOKENS),
}

#: The call of the model that begins, of how many at most, and what is done.
Report = Callable[[int, int, str], None]


async def ask(memory: Memory, given: Given, report: Report) -> ToolAnswer:
    """The answer to a question, from the scope of the server alone."""
    assert memory.model is not None
    question = given.text("question") or ""
    scope = await memory.database.read(scope_of, memory.allowed, given.number("conversation"))
    limits = AskLimits(given.count("tokens"), seconds=_MODEL_SECONDS)
    within = None if memory.allowed.everything and given.number("conversation") is None else scope.ids
    inquiry = Inquiry(memory.database, memory.settings, question, limits, within)
    report(0, limits.calls, "Looking for evidence")
    await inquiry.gather(for_model=True)
    async with memory.asking:  # one question at a time: each has the limits of cost to itself
        asked = await inquiry.ask(memory.model, lambda call, words: report(call, limits.calls, words))
    await asyncio.sleep(0)  # what was reported goes out before the answer
    return answered(scope.name, _lines(asked), _data(scope.name, asked))


def _data(scope: str, asked: Asked) -> dict[str, Json]:
    failed = asked.failed
    why: Json = None if failed is None else {"code": failed.code, "message": failed.message}
    return {**asked_document(scope, asked), "failed": why}


def _lines(asked: Asked) -> list[str]:
    lines: list[str] = []
    if asked.answer is None:
        why = "no answer came" if asked.failed is None else short(asked.failed.message, 500)
        lines.append(f"{short(asked.model)}: {why} The evidence follows.")
    else:
        cut = ", cut" if asked.is_cut else ""
        lines += [f"Answer of {short(asked.model)} in {asked.calls} calls{cut}:", *quoted(asked.answer)]
        lines.append(f"It cites {', '.join(map(short, asked.citations)) or 'nothing'}.")
        lines += [
            f"Citation removed: {short(one.citation)} ({short(one.why)})." for one in asked.dropped[:20]
        ]
    if asked.unfound:
        lines.append(short(asked.unfound_text, 500))
    lines.append(f"Evidence, about {asked.tokens:,} tokens:")
    for one in asked.cited_first:
        lines += ["", _head(one), *quoted(f"{short(one.label, 40)}:"), *quoted(one.text)]
    lines += ["", *(f"Not searched or not shown: {short(gap, 200)}." for gap in asked.gaps)]
    return lines


def _head(one: Passage) -> str:
    part = "" if one.complete and not one.start else ", a part of it"
    part += "" if one.spelled else f", {OTHER_SPELLING}"
    named = f"{short(one.citation)}, {one.kind} of conversation {one.conversation_id}"
    return f"{named}, {short(with_z(one.at), 40)}{part}"
