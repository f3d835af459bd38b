"""The elements in which the model receives summaries and focus briefs, and the state of its prompt cache.

Source: docs/spec/assembly.md, "The element of a summary" and "What is sent". Wrapped summaries are equal
byte for byte to all 92 that were recorded of 0.1.2 and 0.15.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta, tzinfo
from enum import StrEnum
from typing import Final

from lcm_core.base.records import FocusBrief, Summary, SummaryId, Timestamp
from lcm_core.base.times import format_local, parse_utc
from lcm_core.base.tokens import as_engine_read
from lcm_core.base.values import Record, field
from lcm_core.engine.rules import EngineRules

#: What ends the element of a summary, and that of a focus brief.
SUMMARY_END: Final = "\n  </content>\n</summary>"
BRIEF_END: Final = "\n  </content>\n</focus_brief>"


def _time_attribute(name: str, stored: str | None, zone: tzinfo | None) -> str:
    """``name="YYYY-MM-DDTHH:MM:SS"`` in *zone*, which it does not name; empty for no readable time."""
    moment = parse_utc(stored)
    return f'{name}="{format_local(moment, zone).replace(" ", "T")}"' if moment else ""


def _escaped(text: str) -> str:
    """*text* between the tags of an element; quotes stay (as recorded)."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _escaped_attribute(text: str) -> str:
    """*text* between the quotes of an attribute."""
    return _escaped(text).replace('"', "&quot;")


# -- summaries ---------------------------------------------------------------------------------------------


def wrap_summary(
    summary: Summary, content: str, sources: Sequence[SummaryId], rules: EngineRules, zone: tzinfo | None
) -> str:
    """A summary as the model gets it, in a message of the role user.

    *sources* are those that have a row, in the order of condensation; times are shown in *zone* (None: that
    of this machine). A time that is not recorded or cannot be read leaves its attribute out.
    """
    in_attribute = _escaped_attribute if rules.wrapper.escapes else str
    attributes = [
        f'id="{in_attribute(summary.summary_id)}"',
        f'kind="{in_attribute(summary.kind)}"',
        f'depth="{summary.depth}"',
        f'descendant_count="{max(0, summary.descendant_count or 0)}"',
        'trust="untrusted"' if rules.wrapper.has_trust else "",
        _time_attribute("earliest_at", summary.earliest_at, zone),
        _time_attribute("latest_at", summary.latest_at, zone),
    ]
    lines = [f"<summary {' '.join(one for one in attributes if one)}>"]
    if sources and summary.kind == "condensed":
        lines.append("  <parents>")
        lines += [f'    <summary_ref id="{in_attribute(source)}" />' for source in sources]
        lines.append("  </parents>")
    text = _escaped(content) if rules.wrapper.escapes else content
    return "\n".join([*lines, "  <content>", text]) + SUMMARY_END


# -- focus briefs ------------------------------------------------------------------------------------------


class SummaryReach(Record, frozen=True):
    """A summary in a context and how far it reaches."""

    summary_id: SummaryId
    ordinal: int
    last_seq: int | None  #: seq of the newest message below it; None: no message is linked to it
    latest_at: Timestamp | None


class FocusOverlay(Record, frozen=True):
    """An active brief over a context: one item takes the place of all that it covers."""

    brief: FocusBrief
    covered: frozenset[SummaryId]
    at_ordinal: int  #: of the first covered item, where the brief is sent instead
    text: str  #: as the model gets it


def overlay(brief: FocusBrief, summaries: Iterable[SummaryReach], zone: tzinfo | None) -> FocusOverlay | None:
    """What *brief* does to a context that holds *summaries*; None when it covers none of them."""
    under = covered_by(brief, summaries)
    if not under:
        return None
    return FocusOverlay(
        brief,
        frozenset(summary.summary_id for summary in under),
        min(summary.ordinal for summary in under),
        wrap_brief(brief, zone),
    )


def covered_by(brief: FocusBrief, summaries: Iterable[SummaryReach]) -> list[SummaryReach]:
    """The summaries that a brief covers, of a context that may hold thousands."""
    limit = brief.covered_message_seq
    if limit is None:
        return [one for one in summaries if covers(brief, one)]
    return [
        one for one in summaries if (covers(brief, one) if one.last_seq is None else one.last_seq <= limit)
    ]


def covers(brief: FocusBrief, summary: SummaryReach) -> bool:
    """Whether a brief covers a summary: by messages where both know them, else by time.

    A time that cannot be read is compared as text, as the engine does.
    """
    if brief.covered_message_seq is not None and summary.last_seq is not None:
        return summary.last_seq <= brief.covered_message_seq
    if not brief.covered_latest_at or not summary.latest_at:
        return False
    reach, limit = parse_utc(summary.latest_at), parse_utc(brief.covered_latest_at)
    if reach is None or limit is None:
        return summary.latest_at <= brief.covered_latest_at
    return reach <= limit


def wrap_brief(brief: FocusBrief, zone: tzinfo | None) -> str:
    """A brief as the model gets it, in a message of the role user; times in *zone*."""
    seq = brief.covered_message_seq
    attributes = [
        f'id="{_escaped_attribute(brief.brief_id)}"',
        f'prompt="{_escaped_attribute(as_engine_read(brief.prompt))}"',
        f'token_count="{brief.tokens}"',
        f'target_tokens="{brief.target_tokens}"',
        _time_attribute("created_at", brief.created_at, zone),
        _time_attribute("covered_latest_at", brief.covered_latest_at, zone),
        "" if seq is None else f'covered_message_seq="{seq}"',
    ]
    head = f"<focus_brief {' '.join(one for one in attributes if one)}>"
    return "\n".join([head, "  <content>", as_engine_read(brief.content)]) + BRIEF_END


# -- the prompt cache ------------------------------------------------------------------------------------
# Whether a provider's prompt cache is warm, so that changing the prompt now would cost
# (docs/spec/assembly.md, "Whether a prompt cache is warm"). One policy applies to all providers: what was
# observed counts, not who was asked.


class CacheState(StrEnum):
    """What is known of a prompt cache."""

    HOT = "hot"
    COLD = "cold"
    UNKNOWN = "unknown"


class CacheTelemetry(Record, frozen=True):
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


class CachePolicy(Record, frozen=True):
    """What follows from it."""

    state: CacheState = field(name="cacheState")
    #: changing the prompt now throws a warm cache away
    mutation_sensitive: bool = field(name="cacheMutationSensitive")
    reason: str = field(name="cacheReason")


UNOBSERVED = CachePolicy(CacheState.UNKNOWN, False, "this database has no cache telemetry")

#: How long a provider keeps what it was asked to keep long; and what no retention is stated of.
_LONG_RETENTION = timedelta(hours=1)
_SHORT_RETENTION = timedelta(seconds=300)


def cache_policy(telemetry: CacheTelemetry | None, now: datetime) -> CachePolicy:
    """Judge a cache at *now* (aware)."""
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
    window = _LONG_RETENTION if (telemetry.retention or "").lower() == "long" else _SHORT_RETENTION
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
