"""The rules of an engine version that reading needs, chosen by the schema it left.

Two values of one record: what 0.1 did and what the present engine does (engine.md 2.2, 2.5, 7). Settings
that an operator made stand above them.
"""

from __future__ import annotations

from dataclasses import dataclass

from lcm_core.store.schema import Schema


@dataclass(frozen=True, slots=True)
class Rules:
    """How an engine of some version treats a context."""

    name: str
    fresh_tail_count: int  #: raw messages that compaction may not touch
    tail_keeps_turn_whole: bool  #: the tail is moved back to the newest user message (0.15.0 on)
    previous_context_nodes: int  #: summaries given to a leaf as previous context, at the most
    wrapper_has_trust: bool  #: ``trust="untrusted"`` in the summary wrapper (0.12 on)
    wrapper_escapes: bool  #: summary text is XML-escaped in the wrapper (0.12 on)


RULES_0_1 = Rules("0.1", 32, False, 2, False, False)
RULES_PRESENT = Rules("0.15", 64, True, 2, True, True)


def rules_of(schema: Schema) -> Rules:
    """The rules that the engine which wrote this file follows.

    The changes came one by one between 0.5.3 and 0.15; ``conversations.active`` (0.6.0) is the first column
    after the defaults changed, so everything from there on counts as the present engine.
    """
    return RULES_PRESENT if schema.has("conversations", "active") else RULES_0_1
