"""How far a context is from its next compaction."""

from __future__ import annotations

from dataclasses import dataclass

from lcm_core.context_view import Totals
from lcm_core.engine_rules import CompactionRules


@dataclass(frozen=True, slots=True)
class Distance:
    """How far a context is from its next compaction; tokens are stored estimates."""

    tokens: int  #: of all items
    threshold: int  #: above which the engine compacts
    raw: int  #: of raw messages that compaction may touch
    chunk: int | None  #: from which on those alone set it off; None: not in this version

    @property
    def due(self) -> bool:
        """Whether the engine would compact after the next turn."""
        return self.tokens > self.threshold or (self.chunk is not None and self.raw >= self.chunk)

    @property
    def left(self) -> int:
        """How many tokens may still come; 0: it is due. A new message also moves the fresh tail on."""
        total = self.threshold - self.tokens
        return 0 if self.due else total if self.chunk is None else min(total, self.chunk - self.raw)


def distance_of(totals: Totals, rules: CompactionRules, budget: int) -> Distance:
    """The distance of a context under a *budget* (docs/engine/compaction.md, "Sweep").

    The tokens of the prompt, which a host may have seen to be more, are not in the database.
    """
    raw = sum(group.tokens for group in totals.groups if group.role is not None and not group.protected)
    chunk = rules.leaf_chunk_tokens if rules.leaf_trigger else None
    return Distance(totals.tokens, rules.threshold(budget), raw, chunk)
