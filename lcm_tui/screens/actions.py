"""Commands of several screens: dissolve summaries, follow links, open messages, step through the past."""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Protocol

from lcm_core.base.errors import NotFoundError
from lcm_core.base.records import Conversation, ConversationId, ItemId, SummaryId
from lcm_core.base.text import counted
from lcm_core.store.conversations import get_conversation

from lcm_tui.kit import places
from lcm_tui.kit.commands import Action
from lcm_tui.kit.listing import Marks
from lcm_tui.kit.session import PastSession
from lcm_tui.screens.frame import CommandScreen, DataScreen
from lcm_tui.screens.message_pane import MessagesPane

if TYPE_CHECKING:
    from lcm_core.change.journal import Operation


# -- dissolve --------------------------------------------------------------------------------------------
# Marking summaries of a conversation, and dissolving the marked ones or the one under the cursor.


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
        from lcm_tui.flows.changes import dissolving

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


# -- links -----------------------------------------------------------------------------------------------
# Where a conversation, or an item of its context, leads to.


def to(screen: CommandScreen, command: str, place: places.Place) -> Action:
    """A command that opens one place."""
    return Action(command, lambda: screen.open(place))


def conversation_links(screen: CommandScreen, conversation: Conversation) -> tuple[Action, ...]:
    """The views of one conversation, by the commands that open them; a screen takes those that it binds."""
    return (
        to(screen, "context", places.Context(conversation)),
        to(screen, "summaries", places.Summaries(conversation)),
        to(screen, "files", places.Files(conversation)),
        to(screen, "briefs", places.Briefs(conversation)),
        to(screen, "compact", places.Compaction(conversation)),
        to(screen, "history", places.History(conversation, only=True)),
        to(screen, "health", places.Health(conversation, only=True)),
        to(screen, "engine", places.Engine(conversation)),
        to(screen, "snapshots", places.Snapshots(conversation)),
    )


def item_links(
    screen: CommandScreen,
    conversation: Conversation,
    *,
    item: Callable[[], ItemId],
    seq: Callable[[], int | None],
    covered_by: Callable[[], SummaryId | None] = lambda: None,
    is_leaf: Callable[[SummaryId], bool | None] = lambda _: None,
) -> tuple[Action, ...]:
    """Where the selected *item* of a context leads to.

    *seq* is that of the selected message, and *covered_by* a summary that covers it, once they are known.
    *is_leaf* says of a summary whether it is one; None: that is not known.
    """

    def summaries() -> None:
        selected = item()
        summary_id = SummaryId(selected) if isinstance(selected, str) else covered_by()
        screen.open(places.Summaries(conversation, summary_id))

    def previous() -> None:
        screen.open(places.Previous(conversation, SummaryId(str(item()))))

    def why_no_previous() -> str | None:
        selected = item()
        if not isinstance(selected, str):
            return "only a summary has a previous context"
        if is_leaf(SummaryId(selected)) is False:
            return "Only leaves are written with a previous context"
        return None

    def messages() -> None:
        screen.open(places.Messages(conversation, seq()))

    def why_no_messages() -> str | None:
        return "only messages appear in the conversation" if seq() is None else None

    return (
        Action("summaries", summaries),
        Action("previous", previous, why_no_previous),
        Action("messages", messages, why_no_messages),
    )


def bound(screen: CommandScreen, *actions: Action) -> tuple[Action, ...]:
    """Those of *actions* that a screen binds; of several for one command the last."""
    chosen = {action.command: action for action in actions}
    return tuple(chosen[command] for command in screen.bound_commands if command in chosen)


# -- messages --------------------------------------------------------------------------------------------
# Opening and folding messages.


def message_actions(screen: CommandScreen, pane: MessagesPane) -> tuple[Action, ...]:
    """What both a conversation and a transcript offer for the selected message."""
    return (
        Action("open", pane.toggle_selected, pane.why_none),
        Action("fold-all", pane.fold_all),
        Action("copy-id", screen.action_copy_id, pane.why_none),
    )


# -- the past --------------------------------------------------------------------------------------------
# Stepping through a conversation's past operation by operation, and to the moment before one.

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
        from lcm_core.operations.past import operations_on
        from lcm_core.operations.past_point import Point, cut_at

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
        from lcm_core.store.listing import count_snapshots

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
        from lcm_core.operations.past_point import Point

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
