"""Focus briefs over a context: which summaries one stands for, and how the model gets it.

docs/engine/assembly.md, "What is sent" and "The element of a summary".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import tzinfo

from lcm_core.assemble.xml import escaped_attribute, time_attribute
from lcm_core.records import FocusBrief, SummaryId, Timestamp
from lcm_core.times import parse_utc
from lcm_core.tokens import as_engine_read


@dataclass(frozen=True, slots=True)
class ContextSummary:
    """A summary in a context and how far it reaches."""

    summary_id: SummaryId
    ordinal: int
    last_seq: int | None  #: seq of the newest message below it; None: no message is linked to it
    latest_at: Timestamp | None


@dataclass(frozen=True, slots=True)
class FocusOverlay:
    """An active brief over a context: one item takes the place of all that it covers."""

    brief: FocusBrief
    covered: frozenset[SummaryId]
    at_ordinal: int  #: of the first covered item, where the brief stands instead
    text: str  #: as the model gets it


def overlay(
    brief: FocusBrief, summaries: Iterable[ContextSummary], zone: tzinfo | None
) -> FocusOverlay | None:
    """What *brief* does to a context that holds *summaries*; None when it covers none of them."""
    under = [summary for summary in summaries if covers(brief, summary)]
    if not under:
        return None
    return FocusOverlay(
        brief,
        frozenset(summary.summary_id for summary in under),
        min(summary.ordinal for summary in under),
        wrap_brief(brief, zone),
    )


def covers(brief: FocusBrief, summary: ContextSummary) -> bool:
    """Whether a brief stands for a summary: by messages where both know them, else by time.

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
        f'id="{escaped_attribute(brief.brief_id)}"',
        f'prompt="{escaped_attribute(as_engine_read(brief.prompt))}"',
        f'token_count="{brief.tokens}"',
        f'target_tokens="{brief.target_tokens}"',
        time_attribute("created_at", brief.created_at, zone),
        time_attribute("covered_latest_at", brief.covered_latest_at, zone),
        "" if seq is None else f'covered_message_seq="{seq}"',
    ]
    head = f"<focus_brief {' '.join(one for one in attributes if one)}>"
    return "\n".join([head, "  <content>", as_engine_read(brief.content), "  </content>", "</focus_brief>"])
