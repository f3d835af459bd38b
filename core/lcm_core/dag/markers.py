"""Which summaries are no summaries: truncations and stand-ins that the engine stored when a model failed.

The rules and their order are those of the engine's own doctor (docs/engine/doctor.md, "Order of the
markers"), by position: a marker that a summary merely quotes is no fault. Positions count UTF-16 units, as
JavaScript does. What the doctor does not see (empty text, hard caps) is distinguished from what it does.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final

from lcm_core.javascript import BLANKS


class BrokenKind(StrEnum):
    """What is wrong with the text of a summary."""

    OLD = "old"  #: begins with the fallback marker, as the oldest versions wrote it
    FALLBACK = "fallback"  #: the summariser gave nothing; the text is a cut of the source
    TRUNCATED = (
        "truncated"  #: every attempt came out longer than the source, which was cut; the doctor says "new"
    )
    EMERGENCY = "emergency"  #: no model could be found; the text is a cut of the source
    EMPTY = "empty"  #: no text at all; the doctor does not report it


FALLBACK_MARKER: Final = "[LCM fallback summary; truncated for context management]"
DIRECTIVE_MARKER: Final = "[LCM fallback summary; directive-shaped untrusted content omitted]"
TRUNCATED_MARKER: Final = "[Truncated from "
EMERGENCY_MARKER: Final = "[Truncated for context management]"
EMERGENCY_MODEL: Final = "emergency-fallback"
UNKNOWN_MODEL: Final = "unknown"

#: A summary that holds none of these (letter case counts), has another model than `EMERGENCY_MODEL` and is
#: not blank is not broken: a query can leave its text unread (with ``trim(content, BLANKS)``, for SQLite's
#: plain ``trim`` removes spaces only).
MARKER_LIKE: Final[tuple[str, ...]] = (
    FALLBACK_MARKER,
    DIRECTIVE_MARKER,
    TRUNCATED_MARKER,
    EMERGENCY_MARKER,
)
TRUNCATED_WINDOW: Final = 40  #: UTF-16 units from the end within which the truncation marker counts
FALLBACK_WINDOW: Final = 80  #: likewise for the fallback marker

_CAPPED: Final = re.compile(r"\[Capped(?: from [0-9]+ tokens)?(?: to ~[0-9]+)?\]\s*\Z")


def classify(content: str, model: str | None) -> BrokenKind | None:
    """What is wrong with a summary, or None. Only the first place of a marker counts, as for the engine.

    *model* None means that this schema does not record it; migrating gives such rows the model ``unknown``,
    and so they count here.
    """
    if content.startswith(DIRECTIVE_MARKER):
        return BrokenKind.FALLBACK
    if content.startswith(FALLBACK_MARKER):
        return BrokenKind.OLD
    if DIRECTIVE_MARKER in content:
        return BrokenKind.FALLBACK
    if _first_is_within(content, TRUNCATED_MARKER, TRUNCATED_WINDOW):
        return BrokenKind.TRUNCATED
    if _first_is_within(content, FALLBACK_MARKER, FALLBACK_WINDOW):
        return BrokenKind.FALLBACK
    if model == EMERGENCY_MODEL or (model in (None, UNKNOWN_MODEL) and EMERGENCY_MARKER in content):
        return BrokenKind.EMERGENCY
    return None if content.strip(BLANKS) else BrokenKind.EMPTY


def _first_is_within(content: str, marker: str, window: int) -> bool:
    """Whether the first *marker* begins in the last *window* UTF-16 units of *content*."""
    at = content.find(marker)
    if at < max(len(content) - window, 0):  # a character is one unit or two, so it is no nearer than that
        return False
    return len(content[at:].encode("utf-16-le", "surrogatepass")) // 2 <= window


def is_capped(content: str) -> bool:
    """Whether the text was cut at the hard cap (docs/engine/texts.md, "Escalation"); no doctor reports it."""
    return _CAPPED.search(content, max(len(content) - 200, 0)) is not None
