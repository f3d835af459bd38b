"""Whether a prompt cache is warm: every case, for every provider alike."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from lcm_core.engine.wrapper import CacheTelemetry, cache_policy

NOW = datetime(2026, 4, 29, 8, 0, tzinfo=UTC)
TOUCHED = "2026-04-29T07:48:04.137Z"  # twelve minutes before
PROVIDERS = [("openai-codex", "gpt-5.5"), ("anthropic", "claude-opus-4-5"), ("somebody", None)]

HOT = ("hot", True)
COLD = ("cold", False)
UNKNOWN = ("unknown", False)


@pytest.mark.cases(30)
@pytest.mark.parametrize(("provider", "model"), PROVIDERS)
@pytest.mark.parametrize(
    ("observed", "expected"),
    [
        ({"state": "hot", "retention": "long", "cache_read": 59_904, "touch_at": TOUCHED}, HOT),
        ({"retention": "long", "cache_read": 59_904, "hit_at": TOUCHED}, HOT),
        ({"retention": "long", "cache_write": 12_000, "touch_at": TOUCHED}, HOT),
        ({"state": "unknown", "retention": "long", "touch_at": TOUCHED}, HOT),
        ({"state": "cold", "retention": "long", "cache_write": 12_000, "touch_at": TOUCHED}, HOT),
        ({"retention": "short", "cache_read": 1, "touch_at": "2026-04-29 07:56:00"}, HOT),
        ({"retention": "short", "cache_read": 1, "touch_at": TOUCHED}, COLD),
        ({"cache_read": 1, "touch_at": TOUCHED}, COLD),
        ({"retention": "long", "cache_read": 1, "touch_at": "2026-04-29T06:59:59Z"}, COLD),
        ({"retention": "none", "state": "hot", "cache_read": 59_904, "touch_at": TOUCHED}, COLD),
        ({"retention": "long", "touch_at": TOUCHED, "break_at": "2026-04-29T07:50:00Z"}, COLD),
        ({"retention": "long", "cache_read": 9, "touch_at": TOUCHED, "break_at": TOUCHED}, COLD),
        ({"retention": "long", "cache_read": 9, "touch_at": TOUCHED, "break_at": "2026-04-29 07:00:00"}, HOT),
        ({"state": "cold", "retention": "long", "touch_at": TOUCHED}, COLD),
        ({"state": "cold"}, COLD),
        ({"state": "hot", "retention": "long"}, HOT),
        ({"retention": "long", "cache_read": 0, "cache_write": 0}, UNKNOWN),
        ({}, UNKNOWN),
        ({"touch_at": "yesterday"}, UNKNOWN),
    ],
)
def test_what_was_observed_decides_and_not_who_was_asked(
    provider: str, model: str | None, observed: dict[str, Any], expected
):
    policy = cache_policy(CacheTelemetry(provider, model, **observed), NOW)
    assert (policy.state, policy.mutation_sensitive) == expected
    assert policy.reason


def test_nothing_observed_is_unknown():
    policy = cache_policy(None, NOW)
    assert (policy.state, policy.mutation_sensitive) == UNKNOWN
