"""Links, edges and parts one end of which is gone (B3, B4, E13)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from lcm_core.dag.checks.facts import Limits, Tally, told
from lcm_core.findings import Confidence, Finding, FixId, KeyPart
from lcm_core.records import ConversationId


class LinkFault(StrEnum):
    """What is wrong with a row that connects two others; the value is the check."""

    NO_MESSAGE = "B3"
    NO_SUMMARY = "B4"
    ORPHAN_PART = "E13"


@dataclass(frozen=True, slots=True)
class BadLink:
    """A row of a table that connects others, with an end that is gone."""

    table: str
    key: tuple[KeyPart, ...]
    fault: LinkFault
    conversation_id: ConversationId | None  #: of the end that is there


_WORDS = {
    LinkFault.NO_MESSAGE: ("link", "name a message that is gone."),
    LinkFault.NO_SUMMARY: ("link or edge", "name a summary that is gone."),
    LinkFault.ORPHAN_PART: ("part", "belong to a message that is gone."),
}


class LinkScan:
    """Gathers bad links by fault and conversation."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._tallies: dict[tuple[LinkFault, ConversationId | None], Tally] = {}

    def take(self, links: Iterable[BadLink]) -> None:
        """Note some bad links."""
        for link in links:
            key = (link.fault, link.conversation_id)
            self._tallies.setdefault(key, Tally(self._limits)).add(link.table, *link.key)

    def findings(self) -> Iterator[Finding]:
        """One finding per fault and conversation."""
        for (fault, conversation_id), rows in self._tallies.items():
            noun, words = _WORDS[fault]
            is_part = fault is LinkFault.ORPHAN_PART
            fix = FixId.DELETE_ORPHAN_PARTS if is_part else FixId.DELETE_ORPHAN_LINKS
            yield rows.finding(
                fault.value,
                Confidence.BROKEN,
                conversation_id,
                told(rows.count, noun, conversation_id, words),
                fix,
            )
