"""The fresh tail of a context by the settings of the operator and the rules of the engine that wrote it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lcm_core.engine_rules import TailRules, configured, engine_rules
from lcm_core.fresh_tail import FreshTail, fresh_tail
from lcm_core.settings import Settings
from lcm_core.store.schema import Schema
from lcm_core.store.statistics import ContextMessage
from lcm_core.thresholds import settings_for_session


def tail_rules(schema: Schema, settings: Settings, session_key: str | None) -> TailRules:
    """The rules for the fresh tail of a session."""
    return configured(engine_rules(schema), settings_for_session(settings.engine, session_key)).tail


def tail_of(
    messages: Sequence[ContextMessage],
    schema: Schema,
    settings: Settings,
    session_key: str | None = None,
    *,
    count: int | None = None,
) -> FreshTail:
    """Where the fresh tail of a session's context begins; or its newest *count* messages, and no more."""
    rules = tail_rules(schema, settings, session_key)
    if count is not None:
        rules = replace(rules, fresh_tail_count=count, keeps_turn_whole=False)
    return fresh_tail(messages, rules)
