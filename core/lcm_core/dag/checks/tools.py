"""Tool calls and their results in the parts of a conversation (E7, E8, E11)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from lcm_core.dag.checks.facts import Limits, Structure, Tally, told
from lcm_core.findings import Confidence, Finding, FixId

_BROKEN, _SUSPICIOUS, _BY_DESIGN = Confidence.BROKEN, Confidence.SUSPICIOUS, Confidence.BY_DESIGN

#: Types of blocks that call a tool (docs/engine/ingest.md, "What a block is").
CALLS: Final = frozenset(
    {
        "toolCall",
        "tool_use",
        "tool-use",
        "toolUse",
        "functionCall",
        "function_call",
        "tool_call",
        "server_tool_use",
    }
)
_RESULTS: Final = frozenset({"tool_result", "toolResult", "function_call_output", "tool_use_result"})
_ID_KEYS: Final = ("id", "call_id", "callId", "toolCallId", "tool_call_id", "tool_use_id", "toolUseId")


@dataclass(frozen=True, slots=True)
class ToolPart:
    """A part that is a tool call or a result."""

    call_id: str
    is_call: bool
    from_metadata: bool  #: the column is empty and the metadata holds the id


def tool_part(role: str, part_type: str, call_id: str | None, metadata: str | None) -> ToolPart | None:
    """What a part says of a tool; None when it says nothing.

    The id is the column's, else ``metadata.toolCallId``, else that of ``metadata.raw`` (0.1 kept it there).
    """
    if call_id:
        return ToolPart(call_id, role == "assistant" and part_type in ("tool", "agent"), False)
    if part_type not in ("tool", "agent") and role != "tool":
        return None
    known = _object(metadata)
    raw = known.get("raw")
    kind = str(known.get("rawType") or (raw.get("type") if isinstance(raw, dict) else ""))
    found = known.get("toolCallId")
    if not isinstance(found, str) and isinstance(raw, dict) and kind in CALLS | _RESULTS:
        found = next((raw[key] for key in _ID_KEYS if isinstance(raw.get(key), str)), None)
    if not isinstance(found, str) or not found:
        return None
    return ToolPart(found, kind in CALLS or (role == "assistant" and kind not in _RESULTS), True)


def _object(metadata: str | None) -> dict[str, Any]:
    try:
        value = json.loads(metadata or "")
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


class ToolScan:
    """Pairs the calls and results of one conversation."""

    def __init__(self, structure: Structure, limits: Limits) -> None:
        self._structure, self._limits = structure, limits
        self._calls: dict[str, list[int]] = {}  #: places by id
        self._results: dict[str, list[int]] = {}
        self._from_metadata = Tally(limits)

    def take(self, place: int, part_id: str | None, part: ToolPart) -> None:
        """Note one part of the message at *place*."""
        places = (self._calls if part.is_call else self._results).setdefault(part.call_id, [])
        if not places or places[-1] != place:
            places.append(place)
        if part.from_metadata:
            self._from_metadata.add("message_parts", part_id)

    def unpaired(self) -> Iterator[Finding]:
        """E7. A call of the last turn may still run; the first results may answer calls that are not here."""
        structure = self._structure
        open_from = self._last_turn()
        first_call = min((places[0] for places in self._calls.values()), default=len(structure.messages))
        for own, other, words, repair in (
            (
                self._calls,
                self._results,
                "call a tool without getting a result",
                "makes up an error as result",
            ),
            (self._results, self._calls, "are tool results without a call", "leaves them out"),
        ):
            rows, cut_off = Tally(self._limits), Tally(self._limits)
            for call_id, places in own.items():
                if call_id in other or (own is self._calls and places[-1] >= open_from):
                    continue
                # A transplant copies what its summaries cover, and half a pair may lie behind that.
                early = places[-1] < (first_call if own is self._results else structure.copied)
                for place in places:
                    (cut_off if early else rows).add("messages", structure.messages.ids[place])
            words = f"{words}; the engine {repair} on sending."
            yield from rows.told("E7", _SUSPICIOUS, structure, "message", words)
            yield from cut_off.told("E7", _BY_DESIGN, structure, "message", words)

    def _last_turn(self) -> int:
        messages = self._structure.messages
        for place in range(len(messages) - 1, -1, -1):
            if messages.role(place) == "user":
                return place
        return 0

    def repeated(self) -> Iterator[Finding]:
        """E8: models use ids again, so this alone is no damage."""
        rows = Tally(self._limits)
        ids = 0
        for places_by_id in (self._calls, self._results):
            for places in places_by_id.values():
                if len(places) > 1:
                    ids += 1
                    for place in places[1:]:
                        rows.add("messages", self._structure.messages.ids[place])
        if rows:
            yield rows.finding(
                "E8",
                _BY_DESIGN,
                self._structure.id,
                told(
                    ids,
                    "tool call id",
                    self._structure.id,
                    "stand on several messages: a model that uses ids again, or copies of messages.",
                ),
            )

    def unfilled(self, *, backfilled: bool) -> Iterator[Finding]:
        """E11; *backfilled*: the file went through the migration that fills the columns (0.5.1)."""
        words = "have the tool call id only in the metadata; "
        if backfilled:
            confidence, fix, why = (
                _SUSPICIOUS,
                FixId.FILL_TOOL_COLUMNS,
                "the migration should have filled it.",
            )
        else:  # the migration of a later version does it, and an earlier one reads the metadata
            confidence, fix, why = _BY_DESIGN, None, "as before 0.5.1."
        yield from self._from_metadata.told("E11", confidence, self._structure, "part", words + why, fix)
