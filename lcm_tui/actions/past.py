"""Going through the past of a conversation operation by operation, and to the moment before one."""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from lcm_core.errors import NotFoundError
from lcm_core.records import Conversation, ConversationId
from lcm_core.store.conversations import get_conversation

from lcm_tui import places
from lcm_tui.commands import Action
from lcm_tui.frame import CommandScreen, DataScreen
from lcm_tui.session import PastSession

if TYPE_CHECKING:
    from lcm_core.change.journal import Operation

#: What the keys of changes mean where they step through operations.
STEPS: Final = MappingProxyType(
    {
        "hunk-previous": ("Older", "Show it as it was before the previous operation."),
        "hunk-next": ("Newer", "Show it as it was before the next operation, and at last as it is now."),
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


def step_actions(screen: DataScreen[Any], conversation: Conversation) -> tuple[Action, ...]:
    """Step through the operations that changed a conversation."""
    owner = conversation.conversation_id

    async def older() -> None:
        then = screen.then
        if then is None:
            from lcm_core.past.reading import newest_point

            point = await screen.session.read(lambda reader: reader.run(newest_point, owner, {}))
            if point is None:
                screen.app.notify("The history has no operation that changed this conversation.", timeout=4)
                return
        else:
            found = then.past.found
            point = None if found is None else found.older
            if point is None:
                screen.app.notify("This is before the oldest operation in the history.", timeout=4)
                return
        screen.look_at(screen.session, owner, point)
        screen.load()

    def newer() -> None:
        then = screen.then
        if then is not None and then.past.found is not None:
            screen.look_at(screen.session, owner, then.past.found.newer)
            screen.load()

    def why_no_newer() -> str | None:
        return _NO_NEWER if screen.then is None else None

    return (Action("hunk-previous", older), Action("hunk-next", newer, why_no_newer))


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
