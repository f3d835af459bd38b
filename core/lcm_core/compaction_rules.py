"""How an engine version compacts: values of one record, chosen by the schema that it left (docs/engine).

What an operator set stands above them: `compaction_settings`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from lcm_core.rules import name_of
from lcm_core.settings.engine import INJECTED_TAGS, EngineSettings
from lcm_core.store.schema import Schema
from lcm_core.tokens import Estimator


@dataclass(frozen=True, slots=True)
class SourceRules:
    """How what a summary is made from becomes text."""

    names_role: bool  #: the header of a message says its role (0.15 on)
    names_sender: bool  #: and who sent it (0.15.2 on)
    meaningful_only: bool  #: payloads, injected context and blank lines go, and messages that are left empty
    reads_structure: bool  #: parts stand in for blank content, and JSON is reduced to what it says (0.10 on)


@dataclass(frozen=True, slots=True)
class EscalationRules:
    """What becomes of an answer that is too long, or empty."""

    accepts_empty: bool  #: an empty answer is a summary; else it is replaced by the fallback
    trims: bool  #: blanks around an answer are taken off before it is counted
    fallback_units: int | None  #: UTF-16 units that the fallback keeps; None: as many tokens as set
    omits_directives: bool  #: sentences shaped like instructions are left out of the fallback (0.12 on)
    caps: bool  #: an answer over target times the overage factor is cut (0.5.3 on)
    aggressive_leaf_cap: int | None  #: highest target of the second attempt; None: 0.55 of the leaf target


@dataclass(frozen=True, slots=True)
class SweepRules:
    """Which passes a sweep makes, and when it stops."""

    leaf_trigger: bool  #: raw tokens outside the tail set off a sweep that is not forced, not only the total
    bounded: bool  #: by iterations and time (0.11.2 on)
    prefix_target: bool  #: condensation goes on only while the summaries are over a target (0.10 on)
    skips_empty: (
        bool  #: a chunk that says nothing is passed over (0.15 on); else the zero marker stands for it
    )
    meaningful_fanout: bool  #: leaves that say nothing do not count towards the fan-out
    running_total: bool  #: each pass is reckoned with its weights; else the database is added up each time
    outlives_refusal: bool  #: a refused key ends a phase of a sweep; else it ends the operation
    endless_depth: bool  #: a negative depth of what is condensed by itself is no limit, not none
    keeps_turn_whole: bool  #: the fresh tail begins at the newest user message at the latest
    writes_events: bool  #: a message is stored for each pass (up to 0.6.0)


@dataclass(frozen=True, slots=True)
class CompactionSettings:
    """The numbers in force. Tokens are estimates, ``_ms`` milliseconds."""

    context_threshold: float
    fresh_tail_count: int
    fresh_tail_max_tokens: int | None
    leaf_min_fanout: int
    condensed_min_fanout: int
    condensed_min_fanout_hard: int
    max_depth: int  #: of what is condensed by itself: 0 leaves only, -1 without limit
    leaf_chunk_tokens: int
    leaf_target_tokens: int
    condensed_target_tokens: int
    prefix_target_tokens: int | None  #: None: derived, see `prefix_target`
    max_rounds: int
    max_iterations: int
    sweep_deadline_ms: int
    until_under_deadline_ms: int
    overage_factor: float
    fallback_max_tokens: int | None  #: None: not set, see docs/engine/texts.md, "Fallback"
    injected_tags: tuple[str, ...]
    instructions: str

    @property
    def smallest_condensation(self) -> int:
        """Tokens that a condensed chunk must have (docs/engine/compaction.md, "Condensed chunk")."""
        return max(self.condensed_target_tokens, self.leaf_chunk_tokens // 10)

    def threshold(self, budget: int) -> int:
        """Tokens above which a context of this *budget* is compacted."""
        return math.floor(self.context_threshold * budget)

    def prefix_target(self, budget: int) -> int:
        """Tokens that the summaries of a context should come down to (docs/engine/compaction.md, "Sweep")."""
        if self.prefix_target_tokens is not None:
            return self.prefix_target_tokens
        half = math.floor(max(1, self.threshold(budget)) * 0.5)
        return max(self.condensed_target_tokens, min(self.leaf_chunk_tokens, half))


@dataclass(frozen=True, slots=True)
class CompactionRules:
    """Everything in which versions of the engine differ when they compact."""

    name: str
    estimator: Estimator
    source: SourceRules
    escalation: EscalationRules
    sweep: SweepRules
    defaults: CompactionSettings


_DEFAULTS_PRESENT = CompactionSettings(
    context_threshold=0.75,
    fresh_tail_count=64,
    fresh_tail_max_tokens=None,
    leaf_min_fanout=8,
    condensed_min_fanout=4,
    condensed_min_fanout_hard=2,
    max_depth=1,
    leaf_chunk_tokens=20_000,
    leaf_target_tokens=2_400,
    condensed_target_tokens=2_000,
    prefix_target_tokens=None,
    max_rounds=10,
    max_iterations=12,
    sweep_deadline_ms=120_000,
    until_under_deadline_ms=300_000,
    overage_factor=3.0,
    fallback_max_tokens=None,
    injected_tags=INJECTED_TAGS,
    instructions="",
)

COMPACTION_0_1 = CompactionRules(
    name="0.1",
    estimator=Estimator.UTF16,
    source=SourceRules(names_role=False, names_sender=False, meaningful_only=False, reads_structure=False),
    escalation=EscalationRules(
        accepts_empty=True,
        trims=False,
        fallback_units=2_048,
        omits_directives=False,
        caps=False,
        aggressive_leaf_cap=640,
    ),
    sweep=SweepRules(
        leaf_trigger=True,
        bounded=False,
        prefix_target=False,
        skips_empty=False,
        meaningful_fanout=False,
        running_total=False,
        outlives_refusal=False,
        endless_depth=False,
        keeps_turn_whole=False,
        writes_events=True,
    ),
    defaults=replace(
        _DEFAULTS_PRESENT, fresh_tail_count=32, max_depth=0, leaf_target_tokens=1_200, injected_tags=()
    ),
)
COMPACTION_PRESENT = CompactionRules(
    name="0.15",
    estimator=Estimator.WEIGHTED,
    source=SourceRules(names_role=True, names_sender=True, meaningful_only=True, reads_structure=True),
    escalation=EscalationRules(
        accepts_empty=False,
        trims=True,
        fallback_units=None,
        omits_directives=True,
        caps=True,
        aggressive_leaf_cap=None,
    ),
    sweep=SweepRules(
        leaf_trigger=False,
        bounded=True,
        prefix_target=True,
        skips_empty=True,
        meaningful_fanout=True,
        running_total=True,
        outlives_refusal=True,
        endless_depth=True,
        keeps_turn_whole=True,
        writes_events=False,
    ),
    defaults=_DEFAULTS_PRESENT,
)


#: Rules that an operator can ask for by name, whatever wrote the file.
NAMED: Mapping[str, CompactionRules] = {rules.name: rules for rules in (COMPACTION_0_1, COMPACTION_PRESENT)}


def compaction_rules(schema: Schema) -> CompactionRules:
    """The rules by which the engine that left this schema compacts.

    `rules_of` parts the engines at the same column. Files of the versions between the two get the present
    rules less what is known to be younger than the file (docs/engine/versions.md); how else 0.6 to 0.14
    differed, nothing tells.
    """
    if not schema.has("conversations", "active"):
        return COMPACTION_0_1
    rules = COMPACTION_PRESENT
    source, escalation, sweep, defaults = rules.source, rules.escalation, rules.sweep, rules.defaults
    maintenance = "conversation_compaction_maintenance"
    if not schema.has("messages", "openclaw_sender_metadata"):  # 0.15.2; 0.15.0 looks like 0.14
        source = replace(source, names_role=schema.is_beta, names_sender=False)
    if not (schema.is_beta or schema.has("conversations", "archive_cause")):  # 0.14, the last before 0.15
        # Up to 0.14 a chunk that says nothing became a summary that says nothing: a fault, not repeated here.
        sweep = replace(sweep, keeps_turn_whole=False, meaningful_fanout=False)
    if not (schema.is_beta or schema.has(maintenance, "retry_attempts")):  # 0.12
        escalation = replace(escalation, omits_directives=False)
        defaults = replace(defaults, injected_tags=())
    if not (schema.is_beta or schema.has("focus_briefs")):  # 0.11
        sweep = replace(sweep, bounded=False)
    if not (schema.is_beta or schema.has("messages", "large_content")):  # 0.10
        source = replace(source, reads_structure=False)
        sweep = replace(sweep, leaf_trigger=True, prefix_target=False)
    return CompactionRules(
        name_of(schema),
        Estimator.WEIGHTED if schema.counts_code_points else Estimator.UTF16,
        source,
        escalation,
        sweep,
        defaults,
    )


def rules_named(name: str, schema: Schema) -> CompactionRules:
    """The rules of another engine than the one that left this schema; tokens are counted as in the file.

    Raises:
        KeyError: no rules have that name.
    """
    return replace(NAMED[name], estimator=compaction_rules(schema).estimator)


#: Settings that have another name in the engine's table.
_NAMES: Mapping[str, str] = {
    "max_depth": "sweep_max_depth",
    "prefix_target_tokens": "summary_prefix_target_tokens",
    "max_iterations": "max_sweep_iterations",
    "until_under_deadline_ms": "compact_until_under_deadline_ms",
    "overage_factor": "summary_max_overage_factor",
    "injected_tags": "strip_injected_context_tags",
    "instructions": "custom_instructions",
}


def compaction_settings(engine: EngineSettings, rules: CompactionRules) -> CompactionSettings:
    """What an operator set, above the defaults of these rules."""
    values: dict[str, Any] = {}
    for field in fields(CompactionSettings):
        sourced = getattr(engine, _NAMES.get(field.name, field.name), None)
        if sourced is not None and sourced.is_set:
            values[field.name] = sourced.value
    return replace(rules.defaults, **values)
