"""The engine's four tools by their names, as an agent calls them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeVar

from lcm_core.javascript import JsonObject
from lcm_core.recall.answer import ToolAnswer
from lcm_core.recall.delegation import Delegate, Delegations, QueryPlan, Task, answer_query, plan_query
from lcm_core.recall.describe import describe
from lcm_core.recall.evidence import evidence_reply
from lcm_core.recall.expand import expand
from lcm_core.recall.grants import Grants
from lcm_core.recall.grep import grep
from lcm_core.recall.scope import Caller
from lcm_core.recall.settings import RecallSettings
from lcm_core.store.connecting import Rows
from lcm_core.store.database import Database, Reader
from lcm_core.store.recalled import RecalledRows

if TYPE_CHECKING:  # without a model nothing of it is loaded
    from lcm_core.summarize.replies import Model

T = TypeVar("T")

EXPAND_QUERY: Final = "lcm_expand_query"
_Tool = Callable[[RecalledRows, JsonObject, Caller, RecallSettings], ToolAnswer]
_READING: Final[Mapping[str, _Tool]] = {
    "lcm_grep": grep,
    "lcm_describe": describe,
    "lcm_expand": lambda rows, given, caller, _: expand(rows, given, caller),
}
TOOLS: Final = (*_READING, EXPAND_QUERY)


class RecallTools:
    """The tools over one database, with the grants and the questions of this process.

    A *model*, which somebody named, answers the questions of ``lcm_expand_query``, also those for which the
    host's settings name another; without one the evidence itself does, and nobody is asked.
    """

    def __init__(
        self,
        database: Database,
        settings: RecallSettings,
        *,
        grants: Grants | None = None,
        model: Model | None = None,
    ) -> None:
        self.grants = grants or Grants()
        self._database = database
        # No other model than the one that was named: nothing is asked again "without" the host's choice.
        self._settings = replace(settings, expansion_provider="", expansion_model="")
        self._delegations = Delegations(self.grants)
        self._delegate = self._evidence if model is None else self._asking(model)

    async def call(
        self, name: str, given: JsonObject, session_key: str | None = None, session_id: str | None = None
    ) -> ToolAnswer:
        """The answer of one of `TOOLS` to a session; what a tool refuses is an answer, too.

        Each reads in one transaction; none is open while a question is answered.

        Raises:
            KeyError: there is no tool of this name.
            DatabaseError: the file cannot be read.
        """
        caller = Caller(session_key, session_id, self.grants)
        tool = None if name == EXPAND_QUERY else _READING[name]

        def ask(rows: RecalledRows) -> ToolAnswer | QueryPlan:
            if tool is None:
                return plan_query(rows, given, caller, self._settings)
            return tool(rows, given, caller, self._settings)

        found = await self._read(ask)
        if isinstance(found, ToolAnswer):
            return found
        return await answer_query(found, caller, self._settings, self._delegations, self._delegate)

    def _asking(self, model: Model) -> Delegate:
        from lcm_core.recall.model_delegate import ModelDelegate

        return ModelDelegate(self._database, self._settings, model)

    async def _evidence(self, task: Task) -> str:
        return await self._read(lambda rows: evidence_reply(rows, task))

    async def _read(self, ask: Callable[[RecalledRows], T]) -> T:
        async def load(reader: Reader) -> T:
            def asked(rows: Rows) -> T:
                return ask(RecalledRows(rows, reader.schema))

            return await reader.run(asked)

        return await self._database.read(load)
