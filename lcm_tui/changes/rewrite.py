"""Putting a draft in the place of a summary's text."""

from __future__ import annotations

from typing import Final

from lcm_core.operations.drafting.draft import Draft
from lcm_core.operations.drafting.items import BatchItem

from lcm_tui.changes.change import Change, Then
from lcm_tui.drafts import Work

ABOUT: Final = """
The text of the summary gives way to the draft, whole as it was shown. With it go its tokens, its model (where
that is recorded), its file ids and its search rows, and the counters of every summary above it; no context
changes. What was made from the old text is marked stale in the DAG until it is written again too.
"""


def rewriting(work: Work, item: BatchItem, draft: Draft, then: Then) -> Change:
    """A draft of *work* in the place of its summary's text; *then* gets what was committed."""
    title = f"{work.kind.capitalize()} {item.summary_id}, draft {draft.number}"
    return Change(work.planner(item, draft), title, ABOUT, then=then)
