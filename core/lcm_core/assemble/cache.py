"""Whether a provider's prompt cache is warm, so that changing the prompt now would cost.

Source: docs/engine/assembly.md, "Whether a prompt cache is warm".

One policy for all providers: what counts is what was observed, not who was asked.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from lcm_core.times import parse_utc


class CacheState(StrEnum):
    """What is known of a prompt cache."""

    HOT = "hot"
    COLD = "cold"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class CacheTelemetry:
    """What the engine noted of a conversation's calls. Source: ``conversation_compaction_telemetry``."""

    provider: str | None = None
    model: str | None = None
    state: str | None = None  #: hot, cold or unknown
    retention: str | None = None  #: none, short or long
    cache_read: int | None = None  #: tokens of the last call that came from the cache
    cache_write: int | None = None
    hit_at: str | None = None
    break_at: str | None = None
    touch_at: str | None = None  #: the cache was read or written
    call_at: str | None = None


@dataclass(frozen=True, slots=True)
class CachePolicy:
    """What follows from it."""

    state: CacheState
    mutation_sensitive: bool  #: changing the prompt now throws a warm cache away
    reason: str


UNOBSERVED = CachePolicy(CacheState.UNKNOWN, False, "this database has no cache telemetry")

#: How long a provider keeps what it was asked to keep long; the short one is a setting.
_LONG_RETENTION = timedelta(hours=1)
_SHORT_RETENTION = timedelta(seconds=300)


def cache_policy(
    telemetry: CacheTelemetry | None, now: datetime, *, short: timedelta = _SHORT_RETENTION
) -> CachePolicy:
    """Judge a cache at *now* (aware); *short* is how long one of no stated retention stays warm."""
    if telemetry is None:
        return UNOBSERVED
    if (telemetry.retention or "").lower() == "none":
        return CachePolicy(CacheState.COLD, False, "the provider was told not to cache")
    touched = _latest(telemetry.hit_at, telemetry.touch_at)
    broken = parse_utc(telemetry.break_at)
    if broken is not None and (touched is None or broken >= touched):
        return CachePolicy(CacheState.COLD, False, "the cache was seen to break after it was last used")
    used = bool(telemetry.cache_read) or bool(telemetry.cache_write)
    hot = telemetry.state == CacheState.HOT
    if not (used or hot or touched):
        state = CacheState.COLD if telemetry.state == CacheState.COLD else CacheState.UNKNOWN
        return CachePolicy(state, False, "no use of a cache was seen")
    window = _LONG_RETENTION if (telemetry.retention or "").lower() == "long" else short
    since = touched or (parse_utc(telemetry.call_at) if used or hot else None)
    if since is None:
        return CachePolicy(CacheState.HOT, True, "the cache was used; when is not recorded")
    if now >= since + window:
        return CachePolicy(CacheState.COLD, False, "the cache was last used too long ago")
    if telemetry.state == CacheState.COLD and not used:
        return CachePolicy(CacheState.COLD, False, "the last call found the cache cold")
    what = "read from" if telemetry.cache_read else "written to" if telemetry.cache_write else "used"
    return CachePolicy(CacheState.HOT, True, f"the cache was {what} and is still kept")


def _latest(*stamps: str | None) -> datetime | None:
    moments = [moment for stamp in stamps if (moment := parse_utc(stamp)) is not None]
    return max(moments, default=None)
