"""The checks in parts, for somebody who watches: what answers soon first, what reads the whole file last."""

from __future__ import annotations

from typing import Final

from lcm_core.dag.checks.registry import CHECKS
from lcm_core.store.scan import stages

#: What needs no text: context, DAG, metadata, and what is noted about conversations.
STRUCTURE: Final = frozenset(stages.STRUCTURE_RULES) | stages.LINKS | stages.STATE | stages.SCHEMA
#: What reads the whole file for its own sake (F1 to F6, G13).
WHOLE_FILE: Final = stages.SEARCH | stages.PAGES
#: What reads the texts of summaries and messages, parts and large files.
TEXTS: Final = frozenset(CHECKS) - STRUCTURE - WHOLE_FILE
