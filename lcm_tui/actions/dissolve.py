"""Marking summaries of a conversation, and dissolving the marked ones or the one under the cursor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from lcm_core.records import Conversation, SummaryId

from lcm_tui import places
from lcm_tui.commands import Action
from lcm_tui.frame import CommandScreen
from lcm_tui.panes.marks import Marks


class Dissolvable(Protocol):
    """Says why a summary cannot be dissolved, as far as that is known without reading."""

    def __call__(self, summary_id: SummaryId, *, below: bool) -> str | None:
        """*below*: it is one of a set, so it may stand below another of it."""


def dissolve_actions(
    screen: CommandScreen,
    conversation: Conversation,
    marks: Marks[SummaryId],
    *,
    selected: Callable[[], SummaryId | None],
    why_not: Dissolvable,
) -> tuple[Action, ...]:
    """Mark and dissolve; *selected* is the summary under the cursor."""

    def mark() -> None:
        if (summary_id := selected()) is not None:
            marks.turn([summary_id])
            screen.refresh_bars()

    def why_no_mark() -> str | None:
        return "no summary is selected" if selected() is None else None

    def why_no_dissolve() -> str | None:
        chosen = marks.chosen(selected())
        if not chosen:
            return "no summary is selected"
        reasons = ((one, why_not(one, below=len(chosen) > 1)) for one in chosen)
        refused = next(((one, reason) for one, reason in reasons if reason is not None), None)
        if refused is None:
            return None
        return f"{refused[0]}: {refused[1]}" if marks else refused[1]

    def dissolve() -> None:
        from lcm_tui.changes.dissolve import dissolving

        chosen = marks.chosen(selected())
        change = dissolving(conversation, chosen, screen.session.budget, lambda _: marks.clear())
        screen.open(places.Preview(change))

    return (Action("mark", mark, why_no_mark), Action("dissolve", dissolve, why_no_dissolve))


def why_not_dissolved(leaf: bool | None, standing: int, below: bool) -> str | None:
    """Why a summary cannot be dissolved: *leaf* (None: not known), how often it stands in the context."""
    if leaf:
        return "only condensed summaries can be dissolved; this is a leaf"
    if standing > 1:
        return f"it is {standing} times in the context: remove the duplicates first (H)"
    if standing == 0 and not below:
        return "it is not in the context: only summaries in the context can be dissolved"
    return None
