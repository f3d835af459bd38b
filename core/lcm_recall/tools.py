"""The engine's four tools: their arguments, and the descriptions that the model sees."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from lcm_core.base.javascript import Json, JsonObject
from lcm_core.base.values import Record, T, replace
from lcm_core.store.database import Database, Reader
from lcm_core.store.search import RecalledRows
from lcm_prompts import recall_block

from lcm_recall.answer import Parameters, ToolAnswer, ToolError
from lcm_recall.delegation import Delegate, Delegations, QueryPlan, Task, answer_query, plan_query
from lcm_recall.engine_tools import describe, expand, grep
from lcm_recall.grants import Caller, Grants
from lcm_recall.queries import RecallSettings
from lcm_recall.read import evidence_reply

if TYPE_CHECKING:
    from lcm_core.writers.cost import Model


# -- calling the tools -----------------------------------------------------------------------------------
# By their names, as an agent does.


EXPAND_QUERY: Final = "lcm_expand_query"
_Tool = Callable[[RecalledRows, Parameters, Caller, RecallSettings, datetime], ToolAnswer | QueryPlan]
_WORK: Final[Mapping[str, _Tool]] = {
    "lcm_grep": grep,
    "lcm_describe": describe,
    "lcm_expand": expand,
    EXPAND_QUERY: plan_query,
}
TOOLS: Final = tuple(_WORK)


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
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.grants = grants or Grants()
        self._clock = clock
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
        tool, parameters = _WORK[name], Parameters(given)
        try:
            found = await self._read(
                lambda rows: tool(rows, parameters, caller, self._settings, self._clock())
            )
        except ToolError as error:
            return error.answer
        if isinstance(found, ToolAnswer):
            return found
        return await answer_query(found, caller, self._settings, self._delegations, self._delegate)

    def _asking(self, model: Model) -> Delegate:
        from lcm_recall.ask import ModelDelegate

        return ModelDelegate(self._database, self._settings, model)

    async def _evidence(self, task: Task) -> str:
        return await self._read(lambda rows: evidence_reply(rows, task))

    async def _read(self, ask: Callable[[RecalledRows], T]) -> T:
        async def load(reader: Reader) -> T:
            return await reader.run(lambda rows: ask(RecalledRows(rows, reader.schema)))

        return await self._database.read(load)


# -- what a model is told --------------------------------------------------------------------------------
# Of the four tools, and of the memory as a whole (docs/spec/recall.md, "lcm_grep" to "lcm_expand_query").

#: What stands in a host's system prompt, whatever is stored: a constant, so that caches of prompts stay warm.
RECALL_BLOCK: Final = recall_block()


class RecallTool(Record, frozen=True):
    """A tool of the engine, as it is offered to a model."""

    name: str
    description: str
    parameters: JsonObject  #: as JSON schema


def _text(words: str, *only: str) -> JsonObject:
    return {"type": "string", "description": words, **({"enum": list(only)} if only else {})}


def _number(words: str) -> JsonObject:
    return {"type": "number", "description": words}


def _flag(words: str) -> JsonObject:
    return {"type": "boolean", "description": words}


def _texts(words: str) -> JsonObject:
    return {"type": "array", "items": {"type": "string"}, "description": words}


_SCOPE: Final[JsonObject] = {
    "conversationId": _number("Only this conversation; without it the one of the session, with its family."),
    "allConversations": _flag("Every conversation, when this one does not have it."),
}


def _tool(name: str, description: str, needed: tuple[str, ...], parameters: JsonObject) -> RecallTool:
    properties: dict[str, Json] = {**parameters, **_SCOPE}
    return RecallTool(
        name, description, {"type": "object", "properties": properties, "required": list(needed)}
    )


RECALL_TOOLS: Final = (
    _tool(
        "lcm_grep",
        "Find where something was said: in messages, summaries or files that were stored.",
        ("pattern",),
        {
            "pattern": _text("Words that must all occur and phrases in quotes, or a regular expression."),
            "mode": _text("How the pattern is read; regex by default.", "regex", "full_text"),
            "scope": _text("Where to look; both by default.", "messages", "summaries", "both", "files"),
            "limit": _number("Hits of messages and of summaries each; 50 by default."),
            "since": _text("Not before this time, in ISO."),
            "before": _text("Before this time, in ISO."),
            "sort": _text("Order of words that are found.", "recency", "relevance", "hybrid"),
            "fileIds": _texts("Only these files, with the scope files."),
        },
    ),
    _tool(
        "lcm_describe",
        "Show one summary or file by its id, and what expanding it would cost.",
        ("id",),
        {
            "id": _text("sum_... or file_..."),
            "tokenCap": _number("What its costs are measured against."),
            "expandFile": _flag("The text of a file, too."),
            "expandFileMaxBytes": _number("How much of it; 32,768 bytes by default."),
            "startLine": _number("From this line of that text."),
            "endLine": _number("To this line."),
        },
    ),
    _tool(
        "lcm_expand",
        "For sub-agents with a grant: go from summaries down to what they were made from.",
        (),
        {
            "summaryIds": _texts("Where to begin."),
            "query": _text("Or: the summaries in which these words are."),
            "maxDepth": _number("Levels; 3 by default."),
            "tokenCap": _number("Tokens at most; never more than the grant has left."),
            "includeMessages": _flag("The messages below leaves, too."),
        },
    ),
    _tool(
        "lcm_expand_query",
        "Have a question answered from what lies below summaries.",
        ("prompt",),
        {
            "prompt": _text("The question."),
            "summaryIds": _texts("Where to begin."),
            "query": _text("Or: the summaries in which these words are."),
            "maxTokens": _number("Tokens of the answer; 2,000 by default."),
            "tokenCap": _number("Tokens of all that is read for it."),
            "timeoutMs": _number("Milliseconds in all, at most 600,000."),
        },
    ),
)
