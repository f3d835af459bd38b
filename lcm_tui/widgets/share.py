"""A share as people write it; the first screen needs nothing else of what draws shares."""

from __future__ import annotations


def share_text(share: float) -> str:
    """``2.6 %``, and never ``0.0 %`` of something."""
    if 0 < share < 0.0005:
        return "<0.1 %"
    return f"{share * 100:,.1f} %"
