"""The engine's four tools by their names, as an agent calls them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from lcm_core.javascript import JsonObject
from lcm_core.recall.answer import ToolAnswer
from lcm_core.recall.delegation import Delegations, QueryPlan, Task, answer_query, plan_query
from lcm_core.recall.describe import describe
from lcm_core.recall.evidence import evidence_reply
from lcm_core.recall.expand import expand
from lcm_core.recall.grants import Grants
from lcm_core.recall.grep import grep
from lcm_core.recall.scope import Caller
from lcm_core.recall.settings import RecallSettings
from lcm_core.store.connecting import Rows
from lcm_core.store.database import Reader
from lcm_core.store.recalled import RecalledRows

EXPAND_QUERY: Final = "lcm_expand_query"
_Tool = Callable[[RecalledRows, JsonObject, Caller, RecallSettings], ToolAnswer]
_READING: Final[Mapping[str, _Tool]] = {
    "lcm_grep": grep,
    "lcm_describe": describe,
    "lcm_expand": lambda rows, given, caller, _: expand(rows, given, caller),
}
TOOLS: Final = (*_READING, EXPAND_QUERY)


async def call_tool(
    reader: Reader, name: str, given: JsonObject, caller: Caller, settings: RecallSettings
) -> ToolAnswer:
    """The answer of one of `TOOLS`, within one read transaction; no model is asked.

    Raises:
        KeyError: there is no tool of this name.
    """
    tool = None if name == EXPAND_QUERY else _READING[name]

    def ask(rows: Rows) -> ToolAnswer | QueryPlan:
        recalled = RecalledRows(rows, reader.schema)
        if tool is None:
            return plan_query(recalled, given, caller, settings)
        return tool(recalled, given, caller, settings)

    found = await reader.run(ask)
    if isinstance(found, ToolAnswer):
        return found

    async def evidence(task: Task) -> str:
        return await reader.run(lambda rows: evidence_reply(RecalledRows(rows, reader.schema), task))

    delegations = Delegations(caller.grants or Grants())
    return await answer_query(found, caller, settings, delegations, evidence)
