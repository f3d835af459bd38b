"""The rules of an engine version that reading needs, chosen by the schema it left.

Two values of one record: what 0.1 did and what the present engine does (docs/engine/versions.md, "Rules of
assembly"). Files of the versions between them get the present value less what came after their schema.
Settings that an operator made stand above them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from lcm_core.assemble.rules import ASSEMBLY_0_1, ASSEMBLY_PRESENT, AssemblyRules
from lcm_core.store.schema import Schema
from lcm_core.tokens import Estimator


@dataclass(frozen=True, slots=True)
class Rules:
    """How an engine of some version treats a context."""

    name: str
    fresh_tail_count: int  #: raw messages that compaction may not touch
    tail_keeps_turn_whole: bool  #: the tail is moved back to the newest user message (0.15.0 on)
    previous_context_nodes: int  #: summaries given to a leaf as previous context, at the most
    wrapper_has_trust: bool  #: ``trust="untrusted"`` in the summary wrapper (0.12 on)
    wrapper_escapes: bool  #: summary text is XML-escaped in the wrapper (0.12 on)
    assembly: AssemblyRules


RULES_0_1 = Rules("0.1", 32, False, 2, False, False, ASSEMBLY_0_1)
RULES_PRESENT = Rules("0.15", 64, True, 2, True, True, ASSEMBLY_PRESENT)

#: Rules that an operator can ask for by name, whatever wrote the file.
NAMED: Mapping[str, Rules] = {rules.name: rules for rules in (RULES_0_1, RULES_PRESENT)}

#: What a version left in the schema, newest first, and what files without it are called.
_BEFORE = (
    ("conversations", "archive_cause", "0.13"),  # 0.14.0; 0.14 and 0.15.0 look alike
    ("conversation_compaction_maintenance", "retry_attempts", "0.11"),
    ("focus_briefs", None, "0.10"),
    ("messages", "large_content", "0.9"),
    ("conversation_compaction_telemetry", "last_observed_prompt_token_count", "0.8"),  # 0.9.2
)


def name_of(schema: Schema) -> str:
    """What the rules of this file are called, those of assembly and of compaction alike."""
    if not schema.has("conversations", "active"):
        return RULES_0_1.name
    if not schema.counts_code_points:  # 0.8.1
        return "0.6"
    if schema.is_beta:
        return RULES_PRESENT.name
    missing = [name for table, column, name in _BEFORE if not schema.has(table, column)]
    return missing[-1] if missing else RULES_PRESENT.name


def rules_of(schema: Schema) -> Rules:
    """The rules that the engine which wrote this file follows.

    The changes came one by one between 0.5.3 and 0.15; ``conversations.active`` (0.6.0) is the first column
    after the defaults changed, so everything from there on counts as the present engine, less what is known
    to be younger than the file (`_less_what_came_later`).
    """
    return _less_what_came_later(schema) if schema.has("conversations", "active") else RULES_0_1


def _less_what_came_later(schema: Schema) -> Rules:
    """The present rules without those whose first version left a column that is not there."""
    has = schema.has
    escapes = schema.is_beta or has("conversation_compaction_maintenance", "retry_attempts")  # 0.12.0
    keeps_turn = schema.is_beta or has("conversations", "archive_cause")  # 0.14.0, the last before 0.15.0
    rules, assembly = replace(RULES_PRESENT, name=name_of(schema)), ASSEMBLY_PRESENT
    if not escapes:
        rules = replace(rules, wrapper_has_trust=False, wrapper_escapes=False)
        assembly = replace(assembly, clamp_share=None, counts_serialized=False)
    if not keeps_turn:
        rules = replace(rules, tail_keeps_turn_whole=False)
    if not has("messages", "openclaw_sender_metadata"):  # 0.15.2, which also brought the model's identity
        assembly = replace(assembly, signatures_need_identity=False)
    if not (schema.is_beta or has("messages", "large_content")):  # 0.10.0
        assembly = replace(assembly, stubs_payloads=False)
    if not (schema.is_beta or has("conversation_compaction_telemetry", "last_observed_prompt_token_count")):
        assembly = replace(assembly, prompt_aware_by_default=True)  # 0.9.2
    if not schema.counts_code_points:  # 0.8.1, which brought the tail of raw messages, too
        assembly = replace(assembly, estimator=Estimator.UTF16, tail_of_items=True)
    return rules if assembly == ASSEMBLY_PRESENT else replace(rules, assembly=assembly)
