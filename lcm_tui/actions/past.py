"""Going through the past of a conversation operation by operation, and to the moment before one."""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from lcm_core.errors import NotFoundError
from lcm_core.records import Conversation, ConversationId
from lcm_core.store.conversations import get_conversation
from lcm_core.wording import counted

from lcm_tui import places
from lcm_tui.commands import Action
from lcm_tui.data_screen import DataScreen
from lcm_tui.frame import CommandScreen
from lcm_tui.session import PastSession

if TYPE_CHECKING:
    from lcm_core.change.journal import Operation

#: What the keys of changes mean where they step through operations.
STEPS: Final = MappingProxyType(
    {
        "hunk-previous": ("Older", "Go to the past: as it was before the previous operation."),
        "hunk-next": (
            "Newer",
            "Come back from the past: as it was before the next operation, at last as it is now.",
        ),
    }
)
#: What the keys of views mean on an operation.
BEFORE: Final = MappingProxyType(
    {
        "context": ("Context before", "Show the context as it was before this operation."),
        "summaries": ("DAG before", "Show the summary DAG as it was before this operation."),
    }
)
_NO_NEWER: Final = "this is the present"


class _Steps:
    """Where a screen is in the past of a conversation: presses are counted, and taken together."""

    def __init__(self, screen: DataScreen[Any], conversation: Conversation) -> None:
        self._screen = screen
        self._owner = conversation.conversation_id
        self._pressed = 0  #: steps back that were asked for and not taken
        self._taking = False

    def press(self, steps: int) -> None:
        """So many steps back; forward when they are negative."""
        self._pressed += steps
        if not self._taking:
            self._taking = self._screen.moving = True
            self._screen.work_on("past", self._take, exclusive=False)

    async def _take(self) -> None:
        try:
            while self._pressed:
                await self._take_all()
        finally:
            self._taking = self._screen.moving = False
            if self._screen.is_attached:
                self._screen.refresh_bars()

    async def _take_all(self) -> None:
        from lcm_core.past.point import Point, cut_at
        from lcm_core.past.reading import operations_on

        screen, then = self._screen, self._screen.then
        present = screen.session if then is None else then.present
        steps, self._pressed = self._pressed, 0
        found = await present.read(lambda reader: reader.run(operations_on, self._owner, {}))
        try:
            here = 0 if then is None else len(cut_at(then.past.point, found).taken)
        except NotFoundError:  # it was removed from the history just now
            here, steps = len(found) + 1, -len(found) - 1
        there = max(0, min(here + steps, len(found)))
        if not found:
            screen.app.notify(await self._no_past(), timeout=6)
        elif there == here:
            end = "This is the present." if here == 0 else "This is before the oldest operation."
            screen.app.notify(end, timeout=4)
        else:
            point = Point(found[there - 1].id) if there else None
            screen.look_at(present, self._owner, point)
            await screen.load_now()

    async def _no_past(self) -> str:
        """That there is nothing to step to, and where else it can be seen what the model saw."""
        from lcm_core.store.assemblies import count_snapshots

        screen = self._screen
        kept = await screen.session.read(count_snapshots, self._owner)
        said = "No change by lcm-tui."
        if not kept or "snapshots" not in screen.commands:
            return said
        return f"{said} {screen.key_of('snapshots')} lists {counted(kept, 'context')} as sent."


def step_actions(screen: DataScreen[Any], conversation: Conversation) -> tuple[Action, ...]:
    """Step through the operations that changed a conversation."""
    steps = _Steps(screen, conversation)
    return (
        Action("hunk-previous", lambda: steps.press(1)),
        Action("hunk-next", lambda: steps.press(-1), lambda: _NO_NEWER if screen.then is None else None),
    )


def before_actions(
    screen: CommandScreen, chosen: Callable[[], Operation | None], why_not: Callable[[], str | None]
) -> tuple[Action, ...]:
    """Open the context or the summary DAG as it was before the *chosen* operation."""

    async def conversation_before(operation: Operation, owner: ConversationId) -> places.Earlier:
        from lcm_core.past.point import Point

        point = Point(operation.id)
        try:
            conversation = await screen.session.read(get_conversation, owner)
        except NotFoundError:  # it was deleted since
            then = PastSession(screen.session, owner, point)
            try:
                conversation = await then.read(get_conversation, owner)
            finally:
                await then.close()
        return places.Earlier(places.Context(conversation), point)

    async def context() -> None:
        operation = chosen()
        if operation is not None and operation.conversation_id is not None:
            owner = ConversationId(operation.conversation_id)
            screen.open(await conversation_before(operation, owner))

    async def summaries() -> None:
        operation = chosen()
        if operation is not None and operation.conversation_id is not None:
            owner = ConversationId(operation.conversation_id)
            found = await conversation_before(operation, owner)
            screen.open(found._replace(place=places.Summaries(found.place.conversation)))

    def why() -> str | None:
        operation = chosen()
        if (reason := why_not()) is not None or operation is None:
            return reason
        if operation.conversation_id is None:
            return "it changed several conversations: open one, and step to it with ["
        return None

    return (Action("context", context, why), Action("summaries", summaries, why))
