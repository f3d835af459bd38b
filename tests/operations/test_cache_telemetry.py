"""What a turn notes of the provider's cache: every combination against the table of the page."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lcm_core.engine.sessions import UNKNOWN_MODEL, RuntimeModel
from lcm_host.appending import CacheSnapshot, Session, cache_snapshot, plan_telemetry
from lcm_host.engine import Engine

from tests.change.support import reading
from tests.conftest import DatabaseFactory
from tests.databases import rows

NOW = datetime(2026, 3, 6, 12, tzinfo=UTC)
KEY = Session("s1", "agent:main:main")
TOKENS = st.none() | st.sampled_from([0, 1, 900])


@pytest.mark.long
@given(
    st.fixed_dictionaries(
        {},
        optional={
            "input": TOKENS,
            "cacheRead": TOKENS,
            "cacheWrite": TOKENS,
        },
    ),
    st.fixed_dictionaries(
        {}, optional={"broke": st.booleans(), "cacheRead": TOKENS, "previousCacheRead": TOKENS}
    ),
)
def test_the_state_of_a_cache(usage: Mapping[str, Any], seen: Mapping[str, Any]) -> None:
    found = cache_snapshot({"lastCallUsage": usage, "observation": seen})
    read = usage.get("cacheRead") if usage.get("cacheRead") is not None else seen.get("cacheRead")
    if seen.get("broke"):
        wanted = "cold"
    elif (read or 0) > 0 or (usage.get("cacheWrite") or 0) > 0:
        wanted = "hot"
    elif any(one is not None for one in (*usage.values(), *seen.values())):
        wanted = "cold"
    else:
        wanted = "unknown"
    assert found.state.value == wanted
    whole = sum(one or 0 for one in (usage.get("input"), read, usage.get("cacheWrite")))
    assert found.prompt_tokens == (whole or None)


@pytest.mark.parametrize("value", [None, "x", True, -1, float("nan"), float("inf"), [], {"a": 1}])
def test_what_is_no_number_is_not_known(value: Any) -> None:
    odd = {"lastCallUsage": {"input": value}, "lastCacheTouchAt": value, "retention": 7, "observation": 3}
    assert cache_snapshot(odd) == CacheSnapshot()
    assert cache_snapshot({"lastCallUsage": value, "lastCacheTouchAt": 1e300}) == CacheSnapshot()


def noted(path: Path) -> dict[str, Any]:
    [row] = rows(path, "SELECT * FROM conversation_compaction_telemetry")
    return dict(row)


async def test_turn_after_turn(tmp_path: Path) -> None:
    path, clock = tmp_path / "lcm.db", [NOW]
    async with await Engine.open(path, large_files=tmp_path / "f", clock=lambda: clock[0]) as engine:
        said: list[dict[str, Any]] = []

        async def turn(cache: Mapping[str, Any] | None, model: RuntimeModel = UNKNOWN_MODEL) -> None:
            clock[0] += timedelta(minutes=1)
            said.append({"role": "user", "content": f"number {len(said)}"})
            await engine.after_turn(KEY, said, len(said) - 1, prompt_cache=cache, model=model)

        await turn(None)
        assert not rows(path, "SELECT * FROM conversation_compaction_telemetry")
        usage = {"input": 5, "cacheRead": 90, "cacheWrite": 5}
        await turn({"lastCallUsage": usage, "retention": "long"}, RuntimeModel("p", "m"))
        first = noted(path)
        assert (first["cache_state"], first["last_observed_prompt_token_count"]) == ("hot", 100)
        assert (first["provider"], first["model"], first["retention"]) == ("p", "m", "long")
        assert first["last_observed_cache_hit_at"] == "2026-03-06T12:02:00.000Z"
        await turn({"lastCallUsage": {"cacheRead": 0}})
        await turn({"observation": {"broke": False}})
        assert noted(path)["consecutive_cold_observations"] == 2
        await turn({"observation": {"broke": True}})
        last = noted(path)
        assert last["consecutive_cold_observations"] == 2
        assert last["last_observed_cache_break_at"] == "2026-03-06T12:05:00.000Z"
        assert last["turns_since_leaf_compaction"] == 4
        assert last["last_activity_band"] == "low"
        kept = ("provider", "model", "retention", "last_observed_cache_hit_at", "last_observed_cache_write")
        assert all(last[name] == first[name] for name in kept)
        await turn({})
        assert (noted(path)["cache_state"], noted(path)["consecutive_cold_observations"]) == ("unknown", 2)
        await turn({"lastCallUsage": usage})
        assert noted(path)["consecutive_cold_observations"] == 0


@pytest.mark.parametrize("version", ["0.1.2", "0.15.3"])
def test_nothing_is_noted_where_nothing_is_known_or_can_be(
    version: str, database_file: DatabaseFactory
) -> None:
    one, path = 1, database_file(version)
    snapshot = None if version == "0.15.3" else CacheSnapshot(1)
    load = lambda reader: plan_telemetry(reader, one, snapshot, None, now=NOW)  # noqa: E731
    assert asyncio.run(reading(path, load)) is None
