"""How an engine version stores a host's message: values, chosen by the schema it left.

Source: docs/engine/versions.md, "Rules of storing".
"""

from __future__ import annotations

from dataclasses import dataclass

from lcm_core.store.schema import Schema
from lcm_core.tokens import estimate_utf16, estimate_weighted


@dataclass(frozen=True, slots=True)
class StoringRules:
    """What differs between engine versions in the rows of one message."""

    name: str
    calls_are_tools: bool  #: a tool call is a ``tool`` part with its columns; before, an ``agent`` part
    results_are_named: bool  #: a result's tool, and whether it failed, stand in its part
    images_become_files: bool  #: inline images are stored in files (0.9)
    payloads_become_files: bool  #: large tool results and other large payloads too (0.5, 0.9.3)
    weighted: bool  #: tokens by code-point weights (0.8)
    opens_signatures: bool  #: sealed reasoning is counted as the provider's own block (0.8)
    loose_text: bool  #: the JSON of reasoning without text is content, and so are the data of images (0.8)
    is_present: bool = False  #: all of it by the rules of the present engine (0.15.2)

    def estimate(self, text: str) -> int:
        """Tokens of a text as this version counts them."""
        return estimate_weighted(text) if self.weighted else estimate_utf16(text)


STORING_0_1 = StoringRules("0.1", False, False, False, False, False, False, False)
STORING_0_3 = StoringRules("0.3", True, True, False, False, False, False, False)
STORING_0_5 = StoringRules("0.5", True, True, False, True, False, False, False)
STORING_0_8 = StoringRules("0.8", True, True, False, True, True, True, True)
STORING_0_9 = StoringRules("0.9", True, True, True, True, True, True, False)
#: The engine whose rules docs/engine/ingest.md tells; the older ones are told by their flags alone.
STORING_PRESENT = StoringRules("0.15", True, True, True, True, True, True, False, is_present=True)

#: The first version that left a table or column, newest first, and how it stored.
_CHOICES = (
    ("messages", "stable_event_key", STORING_PRESENT),
    ("messages", "identity_hash", STORING_0_9),
    ("lcm_migration_state", None, STORING_0_8),
    ("conversation_bootstrap_state", None, STORING_0_5),
    ("summaries", "descendant_token_count", STORING_0_3),
)


def storing_rules(schema: Schema) -> StoringRules:
    """The rules of the engine that keeps a file of this schema."""
    return next((rules for table, column, rules in _CHOICES if schema.has(table, column)), STORING_0_1)
