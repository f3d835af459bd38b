"""What a tool gives back: a text for the model that called it, and the same as a value.

Source: docs/engine/recall.md, "Answers".
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from lcm_core.javascript import Json, JsonObject


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """The answer of one of the four tools."""

    text: str
    details: JsonObject


class ToolError(Exception):
    """What a tool refuses: it becomes its answer."""

    def __init__(self, error: str, hint: str | None = None) -> None:
        super().__init__(error)
        self.error = error
        self.hint = hint

    @property
    def answer(self) -> ToolAnswer:
        """The refusal as the answer of the tool."""
        hint: dict[str, Json] = {} if self.hint is None else {"hint": self.hint}
        return as_json({"error": self.error, **hint})


def as_json(details: JsonObject) -> ToolAnswer:
    """An answer whose text is its value, indented by two blanks."""
    return ToolAnswer(json.dumps(details, ensure_ascii=False, indent=2), details)
