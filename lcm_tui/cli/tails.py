"""The fresh tail of a context by the settings of the operator and the rules of the engine that wrote it."""

from __future__ import annotations

from collections.abc import Sequence

from lcm_core.fresh_tail import FreshTail, fresh_tail
from lcm_core.rules import rules_of
from lcm_core.settings import Settings
from lcm_core.store.schema import Schema
from lcm_core.store.statistics import ContextMessage


def tail_of(
    messages: Sequence[ContextMessage], schema: Schema, settings: Settings, *, count: int | None = None
) -> FreshTail:
    """Where the fresh tail begins among a context's raw messages; *count* overrules the settings."""
    configured = settings.engine.fresh_tail_count
    if count is None and configured.is_set:
        count = configured.value
    return fresh_tail(
        messages, rules_of(schema), count=count, max_tokens=settings.engine.fresh_tail_max_tokens.value
    )
