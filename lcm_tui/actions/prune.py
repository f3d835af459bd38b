"""Marking conversations, and archiving or deleting the marked ones or the one under the cursor."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from lcm_core.records import ConversationId

from lcm_tui import places
from lcm_tui.commands import Action
from lcm_tui.frame import CommandScreen
from lcm_tui.panes.marks import Marks

if TYPE_CHECKING:  # what changes a database is imported when something is to be changed
    from lcm_core.change.commit import Committed


def prune_actions(
    screen: CommandScreen,
    marks: Marks[ConversationId],
    *,
    selected: Callable[[], ConversationId | None],
    why_none: Callable[[], str | None],
) -> tuple[Action, ...]:
    """Mark, archive and delete; *selected* is that under the cursor, *why_none* says why there is none."""

    def mark() -> None:
        if (conversation_id := selected()) is not None:
            marks.turn([conversation_id])
            screen.refresh_bars()

    def why_not() -> str | None:
        return None if marks else why_none()

    def archive() -> None:
        from lcm_tui.changes.archive import archiving

        screen.open(places.Preview(archiving(marks.chosen(selected()), done)))

    def delete() -> None:
        screen.open(places.Deletion(marks.chosen(selected()), done))

    def done(_: tuple[Committed, ...]) -> None:
        marks.clear()
        screen.refresh_bars()

    return (
        Action("mark", mark, why_none),
        Action("archive", archive, why_not),
        Action("delete", delete, why_not),
    )
