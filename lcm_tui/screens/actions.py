"""Commands of several screens: dissolve, rewrite and edit summaries, follow links, step through the past."""

from __future__ import annotations

import asyncio
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from lcm_core.base.errors import NotFoundError
from lcm_core.base.files import any_drafts, drafts_folder
from lcm_core.base.records import Conversation, ConversationId, ItemId, SummaryId, SummaryText
from lcm_core.base.text import counted
from lcm_core.store.conversations import get_conversation

from lcm_tui.kit import commands, places
from lcm_tui.kit.commands import Key, always
from lcm_tui.kit.listing import Marks
from lcm_tui.kit.session import PastSession, imported
from lcm_tui.kit.spans import Block
from lcm_tui.kit.terminal import edit_outside
from lcm_tui.screens.frame import CommandScreen
from lcm_tui.screens.reading import DataScreen

if TYPE_CHECKING:
    from lcm_core.change.journal import Operation
    from lcm_core.operations.drafting import BatchItem
    from lcm_core.operations.drafts import SavedDrafts
    from lcm_core.operations.past import Stop
    from lcm_core.operations.past_point import Point
    from lcm_core.store.database import Reader

    from lcm_tui.flows.drafts import Work


# -- dissolve --------------------------------------------------------------------------------------------
# Marking summaries of a conversation, and dissolving the marked ones or the one under the cursor.


class Dissolving(Protocol):
    """A screen on which summaries can be marked and dissolved."""

    @property
    def conversation(self) -> Conversation:
        """Whose summaries they are."""

    @property
    def marks(self) -> Marks[SummaryId]:
        """Those that are marked."""

    def why_not_dissolved(self, summary_id: SummaryId, *, below: bool) -> str | None:
        """Why a summary cannot be dissolved, as far as that is known without reading.

        *below*: it is one of a set, so it may stand below another of it.
        """


def mark_key(
    selected: Callable[[Any], SummaryId | None],
    why_not: Callable[[Any], str | None] = always,
    *,
    help: str = "",  # noqa: A002
) -> Key[Any]:
    """Mark the summary under the cursor, which is *selected*; *why_not* is a reason that comes first."""

    def mark(screen: Any) -> None:
        if (summary_id := selected(screen)) is not None:
            screen.marks.turn([summary_id])
            screen.refresh_bars()

    return commands.MARK.does(
        mark,
        lambda s: why_not(s) or _why_none(selected)(s),
        help=help,
    )


def _why_none(selected: Callable[[Any], SummaryId | None]) -> Callable[[Any], str | None]:
    return lambda s: "no summary is selected" if selected(s) is None else None


def dissolve_key(
    selected: Callable[[Any], SummaryId | None],
    why_not: Callable[[Any], str | None] = always,
    held_above: Callable[[Any, SummaryId], SummaryId | None] = lambda *_: None,
) -> Key[Any]:
    """Dissolve the marked summaries, or the *selected* one; *why_not* is a reason that comes first.

    *held_above* finds the summary to offer instead of one that is not in the context.
    """

    def instead(screen: Any) -> SummaryId | None:
        one = selected(screen)
        return None if screen.marks or one is None else held_above(screen, one)

    def why_none(screen: Dissolving) -> str | None:
        chosen = screen.marks.chosen(selected(screen))
        if not chosen:
            return "no summary is selected"
        if instead(screen) is not None:
            return None
        reasons = ((one, screen.why_not_dissolved(one, below=len(chosen) > 1)) for one in chosen)
        refused = next(((one, reason) for one, reason in reasons if reason is not None), None)
        if refused is None:
            return None
        return f"{refused[0]}: {refused[1]}" if screen.marks else refused[1]

    def dissolve(screen: Any) -> None:
        if (held := instead(screen)) is None:
            preview(screen, screen.marks.chosen(selected(screen)))
            return
        from lcm_tui.kit.dialogs import Question

        said = f"{selected(screen)} is not in the context; {held} is, and was made from it."
        answers = (("a", f"preview dissolving {held}"),)
        question = Question("Dissolve what was made from it?", (Block(said),), answers, decides=False)
        screen.app.push_screen(question, lambda answer: preview(screen, [held]) if answer else None)

    def preview(screen: Any, chosen: Sequence[SummaryId]) -> None:
        from lcm_tui.flows.changes import dissolving

        marks = screen.marks
        change = dissolving(screen.conversation, chosen, screen.session.budget, lambda _: marks.clear())
        screen.open(places.Preview(change))

    return commands.DISSOLVE.does(dissolve, lambda s: why_not(s) or why_none(s))


def why_not_dissolved(leaf: bool | None, standing: int, below: bool) -> str | None:
    """Why a summary cannot be dissolved: *leaf* (None: not known), how often it stands in the context."""
    if leaf:
        return "a leaf cannot be dissolved"
    if standing > 1:
        return f"{standing} times in the context: remove duplicates first (H)"
    if standing == 0 and not below:
        return "not in the context: nothing to dissolve"
    return None


# -- drafts ----------------------------------------------------------------------------------------------
# From a screen to drafts: one summary, what is below it, or everything that is broken.


def repair_key(conversation: Callable[[Any], Conversation | None], *, only: bool = False) -> Key[Any]:
    """List what is broken, in the selected *conversation* or in the whole file (None: that at once).

    Drafts that wait for review are offered first, those of the newest batch; *only* those of *conversation*.
    """
    return commands.REPAIR.does(lambda s: _repair(s, conversation(s), only=only))


async def _repair(screen: CommandScreen, conversation: Conversation | None, *, only: bool) -> None:
    """Ask whether to repair this conversation or the whole file; no model is called yet."""
    from lcm_tui.kit.dialogs import Question

    owner = conversation.conversation_id if only and conversation is not None else None
    kept = await _waiting(screen, lambda item: owner in (None, item.conversation_id))
    if conversation is None and kept is None:
        open_repair(screen, None)
        return

    async def list_them(answer: str) -> None:
        screen.app.notify("Reading …", timeout=3)  # as long as the modules need, the first time
        await imported("lcm_tui.flows.drafts", "lcm_tui.screens.drafting")
        if kept is not None and answer == "enter":
            await resume_drafts(screen, kept)
        else:
            open_repair(screen, None if answer == "v" else conversation)

    def answered(answer: str | None) -> None:
        if answer:
            screen.open_by("list-drafts", list_them, answer)

    answers = [("v", "every conversation of the database")]
    if conversation is not None:
        here = f"only conversation {conversation.conversation_id} ({screen.session.name_of(conversation)})"
        answers.insert(0, ("enter" if kept is None else "o", here))
    if kept is not None:
        those = counted(kept.to_review, "draft that waits", "drafts that wait")
        answers.insert(0, ("enter", f"continue with {those} for review"))
    said = Block(
        "Lists the broken and stale summaries. No model is called and nothing changes until you confirm."
    )
    question = Question("Repair summaries", (said,), answers, decides=False)
    screen.app.push_screen(question, answered)


async def _waiting(screen: CommandScreen, meant: Callable[[BatchItem], bool]) -> SavedDrafts | None:
    """The newest batch with a draft that waits for review of an item that is *meant*."""
    if not await asyncio.to_thread(any_drafts):
        return None
    await imported("lcm_core.operations.drafts", "lcm_tui.flows.drafts")
    from lcm_core.operations.drafts import unfinished

    from lcm_tui.flows.drafts import worth_keeping

    found = await asyncio.to_thread(unfinished, drafts_folder(), screen.session.database.path)
    return next((kept for kept in found if worth_keeping(filter(meant, kept.items))), None)


async def resume_drafts(screen: CommandScreen, kept: SavedDrafts) -> None:
    """Go on with a batch of drafts that waits for decisions."""
    from lcm_tui.flows.drafts import Wanted

    last = kept.items[-1]  # sources come first, so it is the summary that was asked for
    if len(kept.items) == 1:
        await rewrite_summary(screen, last.conversation_id, last.summary_id)
    elif kept.header.kind == "rewrite":
        wanted = Wanted("rewrite", last.conversation_id, last.summary_id)
        screen.open(places.Drafting(wanted, f"Rewrite {last.summary_id} and what is below it"))
    else:
        owners = {item.conversation_id for item in kept.items}
        owner = last.conversation_id if len(owners) == 1 else None
        where = "the whole database" if owner is None else f"conversation {owner}"
        screen.open(places.Drafting(Wanted(kept.header.kind, owner), f"Repair {where}"))


def open_repair(
    screen: CommandScreen, conversation: Conversation | None, select: SummaryId | None = None
) -> None:
    """List what is broken or stale in a conversation, or in the whole file."""
    from lcm_tui.flows.drafts import Wanted

    wanted = Wanted("repair", None if conversation is None else conversation.conversation_id)
    where = "the whole database"
    if conversation is not None:
        where = f"conversation {screen.session.called(conversation)}"
    screen.open(places.Drafting(wanted, f"Repair {where}", select))


def rewrite_key(selected: Callable[[Any], SummaryId | None]) -> Key[Any]:
    """A draft for the *selected* summary."""

    async def rewrite(screen: Any) -> None:
        if (summary_id := selected(screen)) is not None:
            await rewrite_summary(screen, screen.conversation.conversation_id, summary_id)

    return commands.REWRITE.does(rewrite, _why_none(selected))


def rewrite_subtree_key(selected: Callable[[Any], SummaryId | None]) -> Key[Any]:
    """Drafts for the *selected* summary and what lies below it."""

    def rewrite_below(screen: Any) -> None:
        from lcm_tui.flows.drafts import Wanted

        if (summary_id := selected(screen)) is not None:
            wanted = Wanted("rewrite", screen.conversation.conversation_id, summary_id)
            screen.open(places.Drafting(wanted, f"Rewrite {summary_id} and what is below it"))

    return Key(
        "rewrite-subtree",
        "W",
        "Rewrite subtree",
        "Rewrite this summary and every summary below it.",
        rewrite_below,
        _why_none(selected),
        where="the summary DAG and the context",
        changes=True,
        of_row=True,
    )


async def rewrite_summary(
    screen: CommandScreen, conversation_id: ConversationId, summary_id: SummaryId
) -> None:
    """Draft another text for a summary, and review it."""
    screen.open(
        places.Review(await work_on_summary(screen, conversation_id, summary_id), summary_id, own=True)
    )


async def work_on_summary(
    screen: CommandScreen, conversation_id: ConversationId, summary_id: SummaryId
) -> Work:
    """A batch of one summary, with its drafts that were kept."""
    from lcm_core.operations.batch import BatchOptions
    from lcm_core.operations.drafting import select_items

    from lcm_tui.flows.drafts import Work, choose_writer

    session = screen.session
    items = await session.read(select_items, conversation_id, summary_ids=[summary_id])
    author = await asyncio.to_thread(choose_writer, session.settings)
    kept = await asyncio.to_thread(_kept_of, session.database.path, [summary_id])
    options = BatchOptions("rewrite", session.settings.summary.in_flight.value)
    return Work(session.database, session.settings, author, items, options, kept=kept)


def _kept_of(path: Path, ids: Sequence[SummaryId]) -> SavedDrafts | None:
    """Drafts of exactly these summaries that were not decided."""
    from lcm_core.operations.drafts import unfinished

    from lcm_tui.flows.drafts import worth_keeping

    for kept in unfinished(drafts_folder(), path, "rewrite"):
        if [item.summary_id for item in kept.items] == list(ids) and worth_keeping(kept.items):
            return kept
    return None


# -- the present text of a summary -----------------------------------------------------------------------
# `e` and `E` where summaries are listed: what is kept becomes a draft, which is reviewed like any other.


def edit_keys(selected: Callable[[Any], SummaryId | None], *, hidden: bool = True) -> Sequence[Key[Any]]:
    """Edit the text of the *selected* summary, here or in the operator's editor."""

    async def read(screen: Any, summary_id: SummaryId) -> SummaryText:
        from lcm_core.store.summaries import get_summary  # the first screen starts without it

        return await screen.session.read(get_summary, summary_id)  # type: ignore[no-any-return]

    async def offered(screen: Any, summary_id: SummaryId) -> bool:
        """Offer a draft that waits instead; True: it was opened, or nothing is to be edited."""
        kept = await _waiting(screen, lambda item: item.summary_id == summary_id)
        if kept is None:
            return False
        from lcm_tui.kit.dialogs import Question

        answers = (("enter", "review the draft"), ("e", "edit the stored text"))
        question = Question(f"A draft of {summary_id} waits for review", (), answers, decides=False)
        answer = await screen.app.push_screen_wait(question)
        if answer == "enter":
            await resume_drafts(screen, kept)
        return bool(answer != "e")

    async def edit(screen: Any) -> None:
        if (summary_id := selected(screen)) is not None:
            if await offered(screen, summary_id):
                return
            before = await read(screen, summary_id)

            def then(edited: str) -> None:
                screen.open_by("edit", _review, screen, before, edited)

            screen.open(places.Editor(str(summary_id), before.content, then))

    async def edit_elsewhere(screen: Any) -> None:
        if (summary_id := selected(screen)) is not None and not await offered(screen, summary_id):
            before = await read(screen, summary_id)
            edited = await edit_outside(screen.app, str(summary_id), before.content)
            if edited is not None:
                await _review(screen, before, edited)

    return (
        commands.EDIT.does(
            edit,
            _why_none(selected),
            help="Edit the text of this summary here; what you keep is reviewed, then applied.",
            hidden=hidden,
        ),
        commands.EDIT_OUTSIDE.does(
            edit_elsewhere,
            _why_none(selected),
            help="Edit the text of this summary in $EDITOR; what you keep is reviewed, then applied.",
            hidden=True,
        ),
    )


async def _review(screen: CommandScreen, before: SummaryText, edited: str) -> None:
    """Show the difference with its verdict, from where it is previewed and applied."""
    if edited == before.content:
        screen.app.notify("The text is as it was: nothing to review.", timeout=4)
        return
    summary = before.summary
    work = await work_on_summary(screen, summary.conversation_id, summary.summary_id)
    await work.batch.write(summary.summary_id, edited, before.content)
    screen.open(places.Review(work, summary.summary_id, own=True))


# -- undo ------------------------------------------------------------------------------------------------
# The newest change of the conversation that a screen shows.


async def _undo_newest(screen: Any) -> None:
    """Preview undoing the newest change of the conversation, whole where it is a batch."""
    from lcm_tui.flows.changes import undoing_line
    from lcm_tui.screens.conversation_panel import recent_changes

    lines = await screen.session.read(recent_changes, screen.conversation.conversation_id)
    if (line := next((line for line in lines if line.undoable), None)) is not None:
        screen.open(places.Preview(undoing_line(line)))
    else:
        said = f"There is no change of this conversation to undo; {screen.key_of('history')} lists all."
        screen.app.notify(said, severity="warning", timeout=4)


#: `u` where a conversation is shown, and not its changes.
UNDO_NEWEST: Final[Key[Any]] = commands.UNDO.does(
    _undo_newest, help="Preview undoing the newest change of this conversation.", of_row=False, hidden=True
)


# -- links -----------------------------------------------------------------------------------------------
# Where a conversation, or an item of its context, leads to.


ITS_CONTEXT: Final[Key[Any]] = commands.CONTEXT.does(lambda s: s.open(places.Context(s.conversation)))
ITS_FILES: Final[Key[Any]] = commands.FILES.does(lambda s: s.open(places.Files(s.conversation)))
ITS_BRIEFS: Final[Key[Any]] = commands.BRIEFS.does(lambda s: s.open(places.Briefs(s.conversation)))
ITS_COMPACT: Final[Key[Any]] = commands.COMPACT.does(lambda s: s.open(places.Compaction(s.conversation)))
ITS_HISTORY: Final[Key[Any]] = commands.HISTORY.does(
    lambda s: s.open(places.History(s.conversation, only=True))
)
ITS_HEALTH: Final[Key[Any]] = commands.HEALTH.does(lambda s: s.open(places.Health(s.conversation, only=True)))
ITS_ENGINE: Final[Key[Any]] = commands.ENGINE.does(lambda s: s.open(places.Engine(s.conversation)))
ITS_SNAPSHOTS: Final[Key[Any]] = commands.SNAPSHOTS.does(lambda s: s.open(places.Snapshots(s.conversation)))


def summaries_key(
    item: Callable[[Any], ItemId], covered_by: Callable[[Any], SummaryId | None] = lambda _: None
) -> Key[Any]:
    """The selected *item* of a context in the DAG, or what covers it, once that is known."""

    def go(screen: Any) -> None:
        selected = item(screen)
        summary_id = SummaryId(selected) if isinstance(selected, str) else covered_by(screen)
        screen.open(places.Summaries(screen.conversation, summary_id))

    return commands.SUMMARIES.does(go)


def previous_key(
    item: Callable[[Any], ItemId], is_leaf: Callable[[Any, SummaryId], bool | None] = lambda *_: None
) -> Key[Any]:
    """What the selected *item* was written after; *is_leaf* says of a summary whether it is one, if known."""

    def why_not(screen: Any) -> str | None:
        selected = item(screen)
        if not isinstance(selected, str):
            return "only a summary has a previous context"
        if is_leaf(screen, SummaryId(selected)) is False:
            return "only leaves are written with a previous context"
        return None

    return commands.PREVIOUS.does(
        lambda s: s.open(places.Previous(s.conversation, SummaryId(str(item(s))))), why_not
    )


def trace_key(item: Callable[[Any], ItemId], *, hidden: bool = True) -> Key[Any]:
    """The trace of the selected summary or message; not *hidden* where there is room in the key bar."""
    return commands.TRACE.does(
        lambda s: open_trace(s, item(s)),
        lambda s: "select a summary or a message" if item(s) is None else None,
        hidden=hidden,
    )


def open_trace(screen: Any, item: ItemId, line: str = "") -> None:
    """Where the lines of a summary come from, from *line* on; the summaries that tell of a message."""
    if isinstance(item, str):
        screen.open(places.Trace(screen.conversation, SummaryId(item), line))
    elif item is not None:
        screen.open(places.MessageTrace(screen.conversation, item))


def messages_key(seq: Callable[[Any], int | None]) -> Key[Any]:
    """The selected message, whose *seq* it is, in its conversation."""
    return commands.MESSAGES.does(
        lambda s: s.open(places.Messages(s.conversation, seq(s))),
        lambda s: "only messages appear in the conversation" if seq(s) is None else None,
    )


# -- messages --------------------------------------------------------------------------------------------
# What both a conversation and a transcript offer for the selected message.

OPEN_MESSAGE: Final[Key[Any]] = commands.OPEN.does(
    lambda s: s.pane.toggle_selected(), lambda s: s.pane.why_none()
)
FOLD_MESSAGES: Final[Key[Any]] = commands.FOLD_ALL.does(lambda s: s.pane.fold_all())
COPY_MESSAGE_ID: Final[Key[Any]] = commands.COPY_ID.does(
    lambda s: s.action_copy_id(), lambda s: s.pane.why_none()
)


# -- the past --------------------------------------------------------------------------------------------
# Stepping through a conversation's past, by its operations and compactions, and to the moment before one.


async def read_stops(reader: Reader, conversation_id: ConversationId) -> tuple[Stop, ...]:
    """Where stepping through the past of a conversation stops."""
    from lcm_core.operations.past import stops_on

    return await reader.run(lambda rows: stops_on(rows, reader.schema.tables, conversation_id, {}))


def is_seen(stop: Stop) -> bool:
    """Whether a conversation shows something else after it: notes of the engine alone are not shown."""
    from lcm_core.store.state import MAINTENANCE, TELEMETRY  # the first screen starts without it

    tables = {row.table for row in getattr(stop, "rows", ())}
    return not tables or not tables <= {TELEMETRY, MAINTENANCE}


_NO_NEWER: Final = "this is the present"


class Steps:
    """Where a screen is in the past of a conversation: presses are counted, and taken together."""

    def __init__(self, screen: DataScreen[Any], conversation: Conversation) -> None:
        self._screen = screen
        self._owner = conversation.conversation_id
        self._pressed = 0  #: steps back that were asked for and not taken
        self._jump: tuple[Point | None] | None = None  #: where they begin; None: at what is shown
        self._taking = False
        self._from_present = False  #: the screen has shown the present

    @property
    def leads_back(self) -> bool:
        """Whether the screen shows the past, or is about to, and showed the present before."""
        return self._from_present and (self._taking or self._screen.then is not None)

    def back(self) -> bool:
        """Go back to the present, if it was shown before; False: it was not."""
        if leads_back := self.leads_back:
            self.go(None)
        return leads_back

    def press(self, steps: int) -> None:
        """So many steps back; forward when they are negative."""
        self._pressed += steps
        self._begin()

    def go(self, point: Point | None) -> None:
        """Show a moment of the past; None: the present."""
        self._jump, self._pressed = (point,), 0
        self._begin()

    def _begin(self) -> None:
        self._from_present |= self._screen.then is None
        if not self._taking:
            self._taking = self._screen.moving = True
            self._screen.work_on("past", self._take, exclusive=False)

    async def _take(self) -> None:
        try:
            while self._pressed or self._jump is not None:
                await self._take_all()
        finally:
            self._taking = self._screen.moving = False
            if self._screen.is_attached:
                self._screen.refresh_bars()

    async def _take_all(self) -> None:
        from lcm_core.operations.past import point_before, stops_since

        screen, then = self._screen, self._screen.then
        present = screen.session if then is None else then.present
        shown = None if then is None else then.past.point
        jump, steps = self._jump, self._pressed
        self._jump, self._pressed = None, 0
        (point,) = (shown,) if jump is None else jump
        stops = await present.read(read_stops, self._owner)
        try:
            here = 0 if point is None else stops_since(stops, point)
        except NotFoundError:  # it was removed from the history just now
            here, steps = len(stops) + 1, -len(stops) - 1
        # Counted from the present; `here` may be the place of one that is not seen.
        seen = [0, *(place for place, stop in enumerate(stops, 1) if is_seen(stop))]
        at = (bisect_right(seen, here) - 1) if steps > 0 else bisect_left(seen, here)
        to = max(0, min(at + steps, len(seen) - 1))
        if jump is None or steps:
            point = point_before(stops[seen[to] - 1]) if seen[to] else None
        if not stops and jump is None:
            screen.app.notify(await self._no_past(), timeout=6)
        elif point == shown:
            end = "This is the present." if shown is None else "This is before the oldest change."
            screen.app.notify(end if jump is None else "This moment is already shown.", timeout=4)
        else:
            screen.look_at(present, self._owner, point)
            screen.step = f"{to:,} of {len(seen) - 1:,} moments back" if to else ""
            await screen.load_now()

    async def _no_past(self) -> str:
        """That there is nothing to step to, and where else it can be seen what the model saw."""
        from lcm_core.store.listing import count_snapshots

        screen = self._screen
        kept = await screen.session.read(count_snapshots, self._owner)
        said = "No change by lcm-tui, and no compaction."
        if not kept or "snapshots" not in screen.commands:
            return said
        return f"{said} {screen.key_of('snapshots')} lists {counted(kept, 'context')} as sent."


#: `esc` on a screen with `Steps`.
BACK_FROM_PAST: Final[Key[Any]] = commands.BACK.does(
    title_now=lambda s: "Present" if s.steps.leads_back else "",
    help="Go back: from the past to the present first; it never quits.",
)
#: Step through the operations that changed a conversation.
STEPS: Final[Sequence[Key[Any]]] = (
    commands.HUNK_PREVIOUS.does(
        lambda s: s.steps.press(1),
        title="Older",
        bar="Past",
        help="Go to the past: as it was before the previous change or compaction.",
    ),
    commands.HUNK_NEXT.does(
        lambda s: s.steps.press(-1),
        lambda s: _NO_NEWER if s.then is None and not s.moving else None,
        title="Newer",
        bar="Past",
        help="Come back from the past: as it was before the next change or compaction, at last as it is now.",
    ),
)


def before_keys(
    chosen: Callable[[Any], Operation | None], why_not: Callable[[Any], str | None]
) -> tuple[Key[Any], Key[Any]]:
    """Open the context or the summary DAG as it was before the *chosen* operation."""

    async def open_before(
        screen: CommandScreen, place: Callable[[Conversation], places.Context | places.Summaries]
    ) -> None:
        from lcm_core.operations.past_point import Point

        operation = chosen(screen)
        if operation is None or operation.conversation_id is None:
            return
        owner, point = ConversationId(operation.conversation_id), Point(operation.id)
        try:
            conversation = await screen.session.read(get_conversation, owner)
        except NotFoundError:  # it was deleted since
            then = PastSession(screen.session, owner, point)
            try:
                conversation = await then.read(get_conversation, owner)
            finally:
                await then.close()
        screen.open(places.Earlier(place(conversation), point))

    def why(screen: CommandScreen) -> str | None:
        operation = chosen(screen)
        if (reason := why_not(screen)) is not None or operation is None:
            return reason
        if operation.conversation_id is None:
            return "it changed several conversations: open one and press ["
        return None

    return (
        commands.CONTEXT.does(
            lambda s: open_before(s, places.Context),
            why,
            title="Context before",
            help="Show the context as it was before this operation.",
        ),
        commands.SUMMARIES.does(
            lambda s: open_before(s, places.Summaries),
            why,
            title="DAG before",
            help="Show the summary DAG as it was before this operation.",
        ),
    )
