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

    def meant() -> list[ConversationId]:
        """The marked ones; it is said when the selected one is none of them."""
        chosen, under = marks.chosen(selected()), selected()
        if under is not None and under not in chosen:
            said = ", ".join(map(str, chosen[:5])) + (" …" if len(chosen) > 5 else "")
            screen.app.notify(
                f"This is about the marked conversations ({said}), not the selected one ({under}).",
                severity="warning",
                timeout=8,
            )
        return chosen

    def archive() -> None:
        from lcm_tui.changes.archive import archiving

        screen.open(places.Preview(archiving(meant(), done)))

    def delete() -> None:
        screen.open(places.Deletion(meant(), done))

    def done(_: tuple[Committed, ...]) -> None:
        marks.clear()
        screen.refresh_bars()

    return (
        Action("mark", mark, why_none),
        Action("archive", archive, why_not),
        Action("delete", delete, why_not),
    )
