"""How the engine treats a session: what it does not store, and which compaction threshold applies. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from enum import StrEnum
from functools import lru_cache
from typing import Final

from lcm_core.base.engine_settings import EngineSettings, ThresholdRule
from lcm_core.base.javascript import JsonObject
from lcm_core.base.setting_values import Sourced
from lcm_core.base.text import BLANKS
from lcm_core.base.values import Record, replace
from lcm_core.engine.stored_parts import first_text

# -- what is not stored ----------------------------------------------------------------------------------
# Messages and sessions of a host that the engine does not store (docs/spec/ingest.md, "What is not
# stored").


class Skipped(StrEnum):
    """Why a message is not stored; the value ends a sentence that begins with a number of messages."""

    ROLE = "of roles that the engine does not store"
    FAILED = "empty answers of a turn that failed or was stopped"
    RUNTIME = "runtime context of the host"
    HEARTBEAT = "heartbeats"


#: How the engine stores the roles of a host; others are not stored.
_ROLES: Final = {
    "user": "user",
    "assistant": "assistant",
    "system": "system",
    "tool": "tool",
    "toolResult": "tool",
}
_RUNTIME: Final = (
    "OpenClaw runtime context for the immediately preceding user message. "
    "This context is runtime-generated, not user-author."
)
_POLL: Final = "[openclaw heartbeat poll]"
_ACKNOWLEDGED: Final = "heartbeat_ok"
_MARKER: Final = "heartbeat.md"


def stored_role(message: JsonObject) -> str | None:
    """The role under which a message is stored; None when it is not."""
    role = message.get("role")
    return _ROLES.get(role) if isinstance(role, str) else None


def has_failed(message: JsonObject) -> bool:
    """Whether an answer says nothing because its turn failed."""
    reason = first_text(message, ("stopReason", "stop_reason"))
    return reason in ("error", "aborted") and message.get("content") in (None, "", [])


def is_runtime_context(role: str, text: str) -> bool:
    """Whether an answer is what the host told the model about its runtime."""
    return role == "assistant" and text.lstrip(BLANKS).startswith(_RUNTIME)


def is_mirror(message: JsonObject, role: str, text: str) -> bool:
    """Whether an answer may be the copy of the one before it (the database decides)."""
    return role == "assistant" and message.get("model") == "delivery-mirror" and bool(text.strip(BLANKS))


def is_poll(role: str, content: str) -> bool:
    """Whether a message is the host's own timer asking (docs/spec/ingest.md, "Heartbeats")."""
    return role == "user" and content.strip(BLANKS).lower() == _POLL


def is_acknowledgement(role: str, content: str) -> bool:
    """Whether an answer says only that there is nothing to do."""
    return role == "assistant" and content.strip(BLANKS).lower() == _ACKNOWLEDGED


def names_heartbeats(content: str) -> bool:
    """Whether a text names the file in which the host keeps what its timer asks for."""
    return _MARKER in content.lower()


def matches_any(patterns: Iterable[str], name: str) -> bool:
    """Whether a session's key (or id) fits one of the patterns, as a whole."""
    return any(_compiled(pattern).fullmatch(name) for pattern in patterns)


#: Why the engine stores nothing of a session.
EXCLUDED: Final = "session excluded by pattern"
STATELESS: Final = "stateless session"


def why_not_stored(settings: EngineSettings, name: str) -> str | None:
    """Why sessions of a key (or id) are not stored; None: they are."""
    if matches_any(settings.ignore_session_patterns.value, name):
        return EXCLUDED
    stateless = matches_any(settings.stateless_session_patterns.value, name)
    return STATELESS if stateless and settings.skip_stateless_sessions.value else None


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> re.Pattern[str]:
    pieces = {"**": ".*", "*": "[^:]*", "?": "[^:]"}
    return re.compile(
        "".join(pieces.get(piece, re.escape(piece)) for piece in re.split(r"(\*\*|\*|\?)", pattern)),
        re.DOTALL,
    )


# -- the compaction threshold ----------------------------------------------------------------------------
# Which threshold applies to a session and a model, and whether the one of a noted debt still does. The
# rules are in docs/spec/thresholds.md. The caller supplies what is known of the model.

#: Why no rule holds.
NO_RULE: Final = "no_override_matched"


class ThresholdSource(StrEnum):
    """Whose threshold it is; the value is what the engine stores."""

    GLOBAL = "global"
    OVERRIDE = "override"


class RuntimeModel(Record, frozen=True):
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


class Threshold(Record, frozen=True):
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


class NotedThreshold(Record, frozen=True):
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
