"""Where a conversation, or an item of its context, leads to."""

from __future__ import annotations

from collections.abc import Callable

from lcm_core.context_items import ItemId
from lcm_core.records import Conversation, SummaryId

from lcm_tui import places
from lcm_tui.commands import Action
from lcm_tui.frame import CommandScreen


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
