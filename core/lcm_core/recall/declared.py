"""What a host tells its model of the four tools, and of the memory as a whole.

Source: docs/engine/recall.md, "lcm_grep" to "lcm_expand_query".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lcm_prompts import recall_block

from lcm_core.javascript import Json, JsonObject

#: What stands in a host's system prompt, whatever is stored: a constant, so that caches of prompts stay warm.
RECALL_BLOCK: Final = recall_block()


@dataclass(frozen=True, slots=True)
class RecallTool:
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
