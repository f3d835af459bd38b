"""Which compaction threshold holds for a session and a model, and whether that of a noted debt still does.

The rules are in docs/engine/thresholds.md. Pure: what is known of the model is given by whoever knows it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from lcm_core.ingest.skipping import matches_any
from lcm_core.settings import Sourced
from lcm_core.settings.engine import EngineSettings
from lcm_core.settings.threshold_rules import ThresholdRule
from lcm_core.settings.values import Json

#: Names under which a host tells the context window of its model, the first that is a number counts.
_WINDOWS: Final = (
    *("modelContextWindow", "modelContextWindowTokens", "contextWindow", "contextWindowTokens"),
    *("maxContextTokens", "contextWindowMax"),
)
#: Why no rule holds.
NO_RULE: Final = "no_override_matched"


class ThresholdSource(StrEnum):
    """Whose threshold it is; the value is what the engine stores."""

    GLOBAL = "global"
    OVERRIDE = "override"


@dataclass(frozen=True, slots=True)
class RuntimeModel:
    """What a host says of the model that a session runs on; None where it says nothing."""

    provider: str | None = None
    model: str | None = None
    window: int | None = None  #: tokens

    @property
    def ref(self) -> str | None:
        """``provider/model``; a model that names its provider is its own reference."""
        if self.model is None or self.provider is None or "/" in self.model:
            return self.model
        return f"{self.provider}/{self.model}"


UNKNOWN_MODEL: Final = RuntimeModel()


def runtime_model(given: Mapping[str, Json]) -> RuntimeModel:
    """The model of a host's own notes."""
    windows = (given.get(name) for name in _WINDOWS)
    return RuntimeModel(
        _first_words(given, "provider", "providerId"),
        _first_words(given, "model", "modelId"),
        next((int(one) for one in windows if _is_window(one) and isinstance(one, int | float)), None),
    )


def _first_words(given: Mapping[str, Json], *names: str) -> str | None:
    words = (value.strip() for name in names if isinstance(value := given.get(name), str))
    return next((one for one in words if one), None)


def _is_window(value: Json) -> bool:
    return (
        isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value >= 1
    )


@dataclass(frozen=True, slots=True)
class Threshold:
    """The threshold that holds."""

    share: float  #: of the budget
    source: ThresholdSource
    reason: str  #: the engine's own words
    specificity: int = 0
    rule_index: int | None = None
    fresh_tail_count: int | None = None  #: None: the configured one
    leaf_chunk_tokens: int | None = None  #: None: the configured one


def threshold_for(
    configured: float, rules: Sequence[ThresholdRule], session_key: str | None, model: RuntimeModel
) -> Threshold:
    """The most specific rule that fits, the first of equal ones; else what is *configured*."""
    fitting = [at for at, rule in enumerate(rules) if _fits(rule, session_key, model)]
    if not fitting:
        return Threshold(configured, ThresholdSource.GLOBAL, NO_RULE)
    best = max(fitting, key=lambda at: (rules[at].specificity, -at))
    rule = rules[best]
    return Threshold(
        rule.threshold,
        ThresholdSource.OVERRIDE,
        _reason(rule, model),
        rule.specificity,
        best,
        rule.fresh_tail_count,
        rule.leaf_chunk_tokens,
    )


def _fits(
    rule: ThresholdRule, session_key: str | None, model: RuntimeModel, *, unknown: bool = False
) -> bool:
    """Whether each matcher fits; what is not known of the model counts as *unknown* says."""
    if rule.session_pattern is not None and not (
        session_key is not None and matches_any([rule.session_pattern], session_key)
    ):
        return False
    if rule.model is not None and rule.model not in (model.ref, model.model):
        return unknown and model.model is None
    if rule.window_min is None and rule.window_max is None:
        return True
    if model.window is None:
        return unknown
    return (rule.window_min or 0) <= model.window <= (rule.window_max or math.inf)


def _reason(rule: ThresholdRule, model: RuntimeModel) -> str:
    parts = (
        ("model=", rule.model),
        ("modelContextWindow>=", rule.window_min),
        ("modelContextWindow<=", rule.window_max),
        ("sessionPattern=", rule.session_pattern),
        ("resolvedModelContextWindow=", model.window),
    )
    return ",".join(f"{name}{value}" for name, value in parts if value is not None)


@dataclass(frozen=True, slots=True)
class NotedThreshold:
    """What a debt has noted of the threshold that it came from; None where nothing is noted."""

    share: float | None
    source: str | None
    fresh_tail_count: int | None = None
    leaf_chunk_tokens: int | None = None


def still_holds(
    noted: NotedThreshold,
    configured: float,
    rules: Sequence[ThresholdRule],
    session_key: str | None,
    model: RuntimeModel,
) -> bool:
    """Whether the present configuration could have made a noted threshold, and makes no other one now."""
    if noted.share is None:
        return False
    live = threshold_for(configured, rules, session_key, model)
    if noted.source != ThresholdSource.OVERRIDE:
        return live.source is ThresholdSource.GLOBAL and noted.share == configured
    if live.source is ThresholdSource.OVERRIDE and not _same(noted, live):
        return False
    return any(
        _fits(rule, session_key, model, unknown=True)
        and _same(noted, Threshold(rule.threshold, ThresholdSource.OVERRIDE, "", 0, None, *_sizes(rule)))
        for rule in rules
    )


def _sizes(rule: ThresholdRule) -> tuple[int | None, int | None]:
    return rule.fresh_tail_count, rule.leaf_chunk_tokens


def _same(noted: NotedThreshold, other: Threshold) -> bool:
    """The same threshold, and the same sizes as far as they were noted."""
    return (
        noted.share == other.share
        and noted.fresh_tail_count in (None, other.fresh_tail_count)
        and noted.leaf_chunk_tokens in (None, other.leaf_chunk_tokens)
    )


def settings_for_session(
    engine: EngineSettings, session_key: str | None, model: RuntimeModel = UNKNOWN_MODEL
) -> EngineSettings:
    """The settings with what a rule puts in their place for one session and model.

    For compaction and assembly alone: a first import is bounded by what is configured for all.
    """
    rules = engine.context_threshold_overrides
    if not rules.value:
        return engine
    found = threshold_for(engine.context_threshold.value, rules.value, session_key, model)
    if found.rule_index is None:
        return engine
    name = f"{rules.name}[{found.rule_index}]"
    changed = replace(engine, context_threshold=Sourced(found.share, rules.source, name))
    if found.fresh_tail_count is not None:
        changed = replace(changed, fresh_tail_count=Sourced(found.fresh_tail_count, rules.source, name))
    if found.leaf_chunk_tokens is not None:
        changed = replace(changed, leaf_chunk_tokens=Sourced(found.leaf_chunk_tokens, rules.source, name))
    return changed
