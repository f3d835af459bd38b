"""Commands of several lists: mark and prune conversations, draft summaries, step through a series."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass, field
from inspect import isawaitable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from lcm_core.base.records import Conversation, ConversationId, SummaryId, SummaryText
from lcm_core.base.text import counted

from lcm_tui.kit import commands, places
from lcm_tui.kit.commands import Key
from lcm_tui.kit.lines import LineView
from lcm_tui.kit.listing import Marks
from lcm_tui.kit.places import Place
from lcm_tui.kit.spans import Block
from lcm_tui.kit.terminal import edit_outside
from lcm_tui.screens.frame import CommandScreen

if TYPE_CHECKING:
    from lcm_core.operations.drafts import SavedDrafts
    from lcm_core.operations.prune import Cleaned

    from lcm_tui.flows.drafts import Work


# -- the engine's cleaners -------------------------------------------------------------------------------
# Marking what they would delete.

_ALL = "a"


async def mark_by_cleaner(screen: CommandScreen, marks: Marks[ConversationId]) -> None:
    """Ask by which cleaner, and mark what it selects; what becomes of it is asked for by other keys."""

    from lcm_core.operations.prune import Cleaner, Cleaning, Criteria, selection

    from lcm_tui.kit.dialogs import Question

    criteria = Criteria(cleaning=Cleaning(agents=screen.session.settings.agents.value))
    junk = (await screen.session.read(selection, criteria, sizes=False)).cleaned
    assert junk is not None
    by_key = {str(number): cleaner for number, cleaner in enumerate(Cleaner, 1)}

    def answered(answer: str | None) -> None:
        if answer:
            cleaner = by_key.get(answer)
            chosen = [one for one, by in junk.chosen.items() if cleaner is None or cleaner in by]
            marks.turn([one for one in chosen if one not in marks])
            screen.refresh_bars()

    answers = [(key, _answer(junk, cleaner)) for key, cleaner in by_key.items()]
    answers.append((_ALL, f"all of them: {counted(len(junk.chosen), 'conversation')}"))
    question = Question("Mark by a cleaner of the engine", _about(screen, junk), answers, decides=False)
    screen.app.push_screen(question, answered)


def _about(screen: CommandScreen, junk: Cleaned) -> tuple[Block, ...]:
    agents = ", ".join(junk.cleaning.agents)
    said = [
        f"The engine's doctor clean would delete these conversations of its agents ({agents}).",
        f"Nothing is deleted here: {screen.key_of('archive')} archives the marked ones, "
        f"{screen.key_of('delete')} exports and deletes them.",
    ]
    if junk.others:
        others = ", ".join(sorted(junk.others))
        said.append(f"Of other agents ({others}) it would delete none.")
    return tuple(map(Block, said))


def _answer(junk: Cleaned, cleaner: str) -> str:
    from lcm_core.operations.prune import MEANINGS, Cleaner

    count = sum(cleaner in by for by in junk.chosen.values())
    return f"{MEANINGS[Cleaner(cleaner)]}: {counted(count, 'conversation')}"


# -- drafts ----------------------------------------------------------------------------------------------
# From a screen to drafts: one summary, what is below it, or everything that is broken.


def repair_key(conversation: Callable[[Any], Conversation | None]) -> Key[Any]:
    """List what is broken, in the selected *conversation* or in the whole file (None: that at once)."""
    return commands.REPAIR.does(lambda s: _repair(s, conversation(s)))


def _repair(screen: CommandScreen, conversation: Conversation | None) -> None:
    """Ask where; nobody is asked for a summary before the operator says so."""
    from lcm_tui.kit.dialogs import Question

    if conversation is None:
        open_repair(screen, None)
        return

    def answered(answer: str | None) -> None:
        if answer:
            open_repair(screen, conversation if answer == "enter" else None)

    here = f"only conversation {conversation.conversation_id} ({screen.session.name_of(conversation)})"
    said = Block("Lists the broken summaries. No model is called and nothing changes until you confirm.")
    answers = (("enter", here), ("a", "every conversation of the database"))
    question = Question("Repair broken summaries", (said,), answers, decides=False)
    screen.app.push_screen(question, answered)


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


def open_repair(screen: CommandScreen, conversation: Conversation | None) -> None:
    """List what is broken in a conversation, or in the whole file."""
    from lcm_tui.flows.drafts import Wanted

    wanted = Wanted("repair", None if conversation is None else conversation.conversation_id)
    where = "the whole database"
    if conversation is not None:
        where = f"conversation {screen.session.called(conversation)}"
    screen.open(places.Drafting(wanted, f"Repair {where}"))


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


def _why_none(selected: Callable[[Any], SummaryId | None]) -> Callable[[Any], str | None]:
    return lambda s: "no summary is selected" if selected(s) is None else None


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
    from lcm_core.base.files import drafts_folder
    from lcm_core.operations.drafts import unfinished

    from lcm_tui.flows.drafts import worth_keeping

    for kept in unfinished(drafts_folder(), path, "rewrite"):
        if [item.summary_id for item in kept.items] == list(ids) and worth_keeping(kept.items):
            return kept
    return None


# -- a series --------------------------------------------------------------------------------------------
# `[` and `]` where a screen shows one of a series: the previous and the next one, without the list between.
#
# The rows of a list are the series. Stepping moves the cursor of that list, so `esc` returns to what was
# shown last; what cannot be shown is skipped.

K = TypeVar("K", bound=Hashable)

#: The place that shows a row; None: it cannot be shown.
Shown: TypeAlias = Place | None


@dataclass(eq=False)
class Series(Generic[K]):
    """The rows of a list, each of which a screen can show."""

    one: str  #: what a row is: "operation"
    view: Callable[[], LineView[K]]
    place_of: Callable[[K], Shown | Awaitable[Shown]]
    newest_first: bool = False  #: then `[` goes down, to what is older
    counted: bool = False  #: a screen says which row it shows: it may be opened before the list was seen
    _asked: deque[int] = field(default_factory=deque, init=False)  #: steps down the list, not taken yet
    _taking: bool = field(default=False, init=False)

    def words(self, direction: int) -> tuple[str, str]:
        """Title and sentence of the key that goes in a direction: -1 is back, 1 is on."""
        adjective = _adjective(self.newest_first, direction)
        return f"{adjective} {self.one}", f"Show the {adjective.lower()} {self.one} of the list."

    def place(self) -> str:
        """Which row is shown, "hit 1 of 23"; empty where that is not said."""
        at, total = self.view().counted_keys() if self.counted else (0, 0)
        return f"{self.one} {at:,} of {total:,}" if at else ""

    def press(self, screen: CommandScreen, direction: int) -> None:
        """Go on (1) or back (-1) from what *screen* shows; presses that come meanwhile are taken together.

        They are taken one by one, so that those behind an end count from there.
        """
        self._asked.append(-direction if self.newest_first else direction)
        if not self._taking:
            self._taking = True
            screen.work_on("series", self._take, screen, exclusive=False)

    async def _take(self, screen: CommandScreen) -> None:
        place: Shown = None
        ended = 0  #: the direction in which the last press found nothing; 0: it found something
        try:
            while self._asked:
                down = self._asked.popleft()
                if down == ended:
                    continue  # said already
                found = await self._step(down)
                ended = down if found is None else 0
                if found is None:
                    screen.app.notify(f"This is the {_end(self.newest_first, down)} {self.one}.", timeout=3)
                place = found or place
        finally:
            self._asked.clear()
            self._taking = False
        if place is not None and screen.app.screen is screen:
            following = screen.open_instead(place, self)
            if isinstance(following, CommandScreen):
                following.go_on_from(screen)

    async def _step(self, down: int) -> Shown:
        """The place of the next row that has one; the cursor of the list is on it then."""
        view = self.view()
        at = view.cursor + down
        while 0 <= at < len(view.keys):
            key, before = view.keys[at], len(view.keys)
            place = self.place_of(key)
            if isawaitable(place):
                place = await place
            if place is not None and view.select(key):
                return place
            # A heading may unfold: its rows come behind it.
            at = at + 1 if down > 0 else at - 1 + len(view.keys) - before
        return None


def _adjective(newest_first: bool, direction: int) -> str:
    """What the one in a direction is called: -1 is back."""
    if newest_first:
        return "Older" if direction < 0 else "Newer"
    return "Previous" if direction < 0 else "Next"


def _end(newest_first: bool, down: int) -> str:
    """What the row at an end of the list is called."""
    if newest_first:
        return "oldest" if down > 0 else "newest"
    return "last" if down > 0 else "first"


def row_keys(
    one: str, view: Callable[[Any], LineView[Any]], *, newest_first: bool = False
) -> tuple[Key[Any], Key[Any]]:
    """`[` and `]` where the list and what is selected in it share a screen: the previous and the next row.

    They work from the text, too, which keeps the keys.
    """

    def step(screen: CommandScreen, direction: int) -> None:
        listed = view(screen)
        down = -direction if newest_first else direction
        before = listed.cursor
        listed.action_move(down)
        if listed.cursor == before:
            screen.app.notify(f"This is the {_end(newest_first, down)} {one}.", timeout=3)

    def stepping(key: Key[object], direction: int) -> Key[Any]:
        adjective = _adjective(newest_first, direction)
        return key.does(
            lambda s: step(s, direction),
            lambda s: None if view(s).keys else f"there is no {one} in this list",
            title=f"{adjective} {one}",
            help=f"Select the {adjective.lower()} {one}.",
        )

    return stepping(commands.HUNK_PREVIOUS, -1), stepping(commands.HUNK_NEXT, 1)


# -- the present text of a summary -----------------------------------------------------------------------
# `e` and `E` where summaries are listed: what is kept becomes a draft, which is reviewed like any other.


def edit_keys(selected: Callable[[Any], SummaryId | None], *, hidden: bool = True) -> Sequence[Key[Any]]:
    """Edit the text of the *selected* summary, here or in the operator's editor."""

    async def read(screen: Any, summary_id: SummaryId) -> SummaryText:
        from lcm_core.store.summaries import get_summary  # the first screen starts without it

        return await screen.session.read(get_summary, summary_id)  # type: ignore[no-any-return]

    async def edit(screen: Any) -> None:
        if (summary_id := selected(screen)) is not None:
            before = await read(screen, summary_id)

            def then(edited: str) -> None:
                screen.open_by("edit", _review, screen, before, edited)

            screen.open(places.Editor(str(summary_id), before.content, then))

    async def edit_elsewhere(screen: Any) -> None:
        if (summary_id := selected(screen)) is not None:
            before = await read(screen, summary_id)
            edited = await edit_outside(screen.app, str(summary_id), before.content)
            if edited is not None:
                await _review(screen, before, edited)

    def why_not(screen: Any) -> str | None:
        return "no summary is selected" if selected(screen) is None else None

    return (
        commands.EDIT.does(
            edit,
            why_not,
            help="Edit the text of this summary here; what you keep is reviewed, then applied.",
            hidden=hidden,
        ),
        commands.EDIT_OUTSIDE.does(
            edit_elsewhere,
            why_not,
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
    await work.batch.write(summary.summary_id, edited)
    screen.open(places.Review(work, summary.summary_id, own=True))
