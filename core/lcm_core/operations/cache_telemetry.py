"""What is noted of a provider's prompt cache after a turn (docs/engine/sessions.md, "What a turn notes")."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from lcm_core.assemble.cache import CacheState
from lcm_core.change.plan import Cell, Cells, Plan, insertion
from lcm_core.operations.appending import Append
from lcm_core.operations.rows import update
from lcm_core.records import ConversationId
from lcm_core.settings import Json
from lcm_core.store.database import Reader
from lcm_core.store.rows import StoredRow, rows_by
from lcm_core.store.state import TELEMETRY
from lcm_core.thresholds import UNKNOWN_MODEL, RuntimeModel
from lcm_core.times import iso_z, sql_utc


@dataclass(frozen=True, slots=True)
class CacheSnapshot:
    """What a host says of the cache after a call; None where it says nothing. Tokens."""

    prompt: int | None = None  #: that were not in the cache
    read: int | None = None
    written: int | None = None
    broke: bool | None = None  #: None: nothing was observed
    retention: str | None = None
    touched_at: datetime | None = None

    @property
    def state(self) -> CacheState:
        """Whether the cache is warm, as the engine judges it."""
        if self.broke:
            return CacheState.COLD
        if (self.read or 0) > 0 or (self.written or 0) > 0:
            return CacheState.HOT
        said = any(one is not None for one in (self.prompt, self.read, self.written, self.broke))
        return CacheState.COLD if said else CacheState.UNKNOWN

    @property
    def prompt_tokens(self) -> int | None:
        """Tokens of the whole prompt; None where nothing is known of it."""
        return sum(one or 0 for one in (self.prompt, self.read, self.written)) or None


def cache_snapshot(given: Mapping[str, Json]) -> CacheSnapshot:
    """A host's ``promptCache``: its last call goes before what it observed."""
    usage, seen = _object(given, "lastCallUsage"), _object(given, "observation")
    broke = seen.get("broke")
    read = _tokens(usage.get("cacheRead"))
    retention = given.get("retention")
    return CacheSnapshot(
        _tokens(usage.get("input")),
        _tokens(seen.get("cacheRead")) if read is None else read,
        _tokens(usage.get("cacheWrite")),
        broke
        if isinstance(broke, bool)
        else False
        if any(one is not None for one in seen.values())
        else None,
        retention if isinstance(retention, str) and retention.strip() else None,
        _moment(given.get("lastCacheTouchAt")),
    )


def _object(given: Mapping[str, Json], name: str) -> Mapping[str, Json]:
    value = given.get(name)
    return value if isinstance(value, Mapping) else {}


def _number(value: Json) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return value if value >= 0 else None


def _tokens(value: Json) -> int | None:
    number = _number(value)
    return None if number is None else int(number)


def _moment(value: Json) -> datetime | None:
    """A time in milliseconds since 1970."""
    number = _number(value)
    try:
        return None if number is None else datetime.fromtimestamp(number / 1000, UTC)
    except (OverflowError, OSError, ValueError):
        return None


async def plan_telemetry(
    reader: Reader,
    conversation_id: ConversationId,
    snapshot: CacheSnapshot | None,
    raw_tokens: int | None,
    *,
    now: datetime,
    model: RuntimeModel = UNKNOWN_MODEL,
) -> Append | None:
    """Note a turn: the cache, and *raw_tokens* outside the fresh tail; what is not known stays as it was.

    None where neither is known, and in a file that notes no such thing.
    """
    columns = reader.schema.tables.get(TELEMETRY, frozenset())
    if not columns or (snapshot is None and raw_tokens is None):
        return None
    rows = await rows_by(reader, TELEMETRY, "conversation_id", [conversation_id])
    row = rows[0] if rows else None
    noted = _noted(row, snapshot, raw_tokens, now, model)
    values = {name: value for name, value in noted.items() if name in columns}
    if row is not None:
        edit = update(TELEMETRY, row, values)
    else:
        blank: dict[str, Cell] = {
            **dict.fromkeys(columns),
            **{name: value for name, value in _BLANK.items() if name in columns},
        }
        edit = insertion(TELEMETRY, Cells.of({**blank, **values, "conversation_id": conversation_id}))
    plan = Plan("ingest", "Note a turn beside the conversation", conversation_id, (edit,))
    return Append(plan, conversation_id, (), 0, 0)


#: What a new row holds where nothing is known.
_BLANK: Mapping[str, Cell] = {
    "cache_state": CacheState.UNKNOWN.value,
    "consecutive_cold_observations": 0,
    "turns_since_leaf_compaction": 0,
    "tokens_accumulated_since_leaf_compaction": 0,
    "last_activity_band": "low",
}


def _noted(
    row: StoredRow | None,
    snapshot: CacheSnapshot | None,
    raw_tokens: int | None,
    now: datetime,
    model: RuntimeModel,
) -> dict[str, Cell]:
    held = row or {}
    noted: dict[str, Cell] = {
        "turns_since_leaf_compaction": _count(held, "turns_since_leaf_compaction") + 1,
        "tokens_accumulated_since_leaf_compaction": raw_tokens,
        "provider": model.provider,
        "model": model.model,
        "updated_at": sql_utc(now),
    }
    if snapshot is not None:
        state = snapshot.state
        noted |= {
            "last_observed_cache_read": snapshot.read,
            "last_observed_cache_write": snapshot.written,
            "last_observed_prompt_token_count": snapshot.prompt_tokens,
            "last_observed_cache_hit_at": iso_z(now) if state is CacheState.HOT else None,
            "last_observed_cache_break_at": iso_z(now) if snapshot.broke else None,
            "cache_state": state.value,
            "consecutive_cold_observations": _streak(snapshot, _count(held, "consecutive_cold_observations")),
            "retention": snapshot.retention,
            "last_cache_touch_at": None if snapshot.touched_at is None else iso_z(snapshot.touched_at),
        }
    return {name: value for name, value in noted.items() if value is not None}


def _streak(snapshot: CacheSnapshot, old: int) -> int:
    """How many calls in a row found the cache cold."""
    if snapshot.broke:
        return max(old, 1)
    match snapshot.state:
        case CacheState.HOT:
            return 0
        case CacheState.COLD:
            return old + 1
        case CacheState.UNKNOWN:
            return old


def _count(held: StoredRow, name: str) -> int:
    value = held.get(name)
    return value if isinstance(value, int) else 0
