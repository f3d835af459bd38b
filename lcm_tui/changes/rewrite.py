"""Putting a draft in the place of a summary's text."""

from __future__ import annotations

from typing import Final

from lcm_core.operations.drafting.draft import Draft
from lcm_core.operations.drafting.items import BatchItem

from lcm_tui.changes.change import Change, Then
from lcm_tui.drafts import Work

ABOUT: Final = """
The draft replaces the summary's text exactly as shown. Its tokens, its model (where recorded), its file ids,
its search rows and the counters of every summary above it are updated; no context changes. Summaries made
from the old text are marked stale in the DAG until they are rewritten too.
"""


def rewriting(work: Work, item: BatchItem, draft: Draft, then: Then) -> Change:
    """A draft of *work* in the place of its summary's text; *then* gets what was committed."""
    title = f"{work.kind.capitalize()} {item.summary_id}, draft {draft.number}"
    return Change(work.planner(item, draft), title, ABOUT, then=then)
