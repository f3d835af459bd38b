"""Mending findings from the health screen: one plan for all that are marked, search tables after it."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Final

from lcm_core.errors import LcmError, RefusedError
from lcm_core.findings import Finding, FixId
from lcm_core.records import Conversation, ConversationId
from lcm_core.store.conversations import get_conversation
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import Screen

from lcm_tui import places
from lcm_tui.check_settings import limits_of
from lcm_tui.frame import CommandScreen
from lcm_tui.screens.health_rows import can_fix
from lcm_tui.screens.health_run import Examining
from lcm_tui.typed_ahead import Decision
from lcm_tui.widgets.bars import TitleBar
from lcm_tui.widgets.spans import Span
from lcm_tui.widgets.text import Block, Document, TextView, heading

if TYPE_CHECKING:  # what changes a database is imported when something is to be changed
    from lcm_core.change.commit import Committed
    from lcm_core.change.plan import Plan
    from lcm_core.operations.fix import Fixes
    from lcm_core.store.database import Reader

    from lcm_tui.changes.change import Change

#: Checks whose fix can take out the one side or the other.
TWO_SIDED: Final = frozenset({"A6", "A7", "B21"})
KEEP_WORDS: Final = ("the summary", "its sources")
#: How long a search table may be waited for (seconds).
WAIT_SECONDS: Final = 5.0
DONE_SECONDS: Final = 12


class SearchOnly(Decision[bool]):
    """What is done when no row has to change, only search tables; the answer is whether to do it."""

    DEFAULT_CSS = """
    SearchOnly { align: center middle; }
    SearchOnly > Vertical { width: 74; max-width: 100%; height: 13; max-height: 100%; background: $surface; }
    SearchOnly > Vertical { padding: 1 2; }
    SearchOnly TextView { background: $surface; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("a", "dismiss(True)", "Apply", id="search-apply"),
        Binding("escape,q", "dismiss(False)", "Leave", id="search-leave"),
    ]

    def __init__(self, tables: Sequence[str], left: Sequence[str]) -> None:
        super().__init__()
        self._tables = tuple(tables)
        self._left = tuple(left)

    def compose(self) -> ComposeResult:
        """What is done, and the keys."""
        with Vertical():
            yield TextView(self._document())

    def _document(self) -> Document:
        return (
            heading("Bring search tables in step"),
            Block(
                "No row of a conversation has to change. Rewritten is what is missing, stale or too many in:"
            ),
            Block(", ".join(self._tables), "key", indent=2),
            Block("A few hundred rows at a time, so a host hardly waits. There is nothing to undo: search"),
            Block("tables are made from messages and summaries, and hold nothing else."),
            *(Block(f"Left: {one}.", "warn") for one in self._left),
            Block(),
            Block(spans=(Span("a    ", "key"), Span("apply")), indent=5),
            Block(spans=(Span("esc  ", "key"), Span("leave; nothing is changed")), indent=5),
        )


class Mending(Examining):
    """A screen with findings that can be marked and mended."""

    def __init__(self, conversation: Conversation | None, *, only: bool) -> None:
        super().__init__(conversation, only=only)
        self.marks: dict[str, None] = {}  #: keys of findings
        self._plan_screen: Screen[None] | None = None  #: the preview that was opened last
        self._syncing = False  #: search tables are being written

    @abstractmethod
    def chosen(self) -> list[Finding]:
        """The marked findings that are still there; without marks the one under the cursor."""

    @abstractmethod
    def say_note(self) -> None:
        """Say in the title what is marked."""

    def why_not_fix(self) -> str | None:
        """Why what is chosen cannot be mended."""
        chosen = self.chosen()
        if not chosen:
            return "no finding is selected; space on a heading marks all below it"
        if any(one.fix is not None for one in chosen):
            return None
        return "there is no fix that would not guess"

    def action_fix(self) -> None:
        """Preview one plan for all that is chosen; a split session goes to merge."""
        chosen = [one for one in self.chosen() if one.fix is not None]
        splits = [one for one in chosen if one.fix is FixId.MERGE_SPLIT]
        if splits and len(splits) == len(chosen):
            if len(splits) > 1:
                self.app.notify("Split sessions are merged one by one: this is the first.", timeout=6)
            self.work_on("fix", self._merge, splits[0])
            return
        if splits:
            self.app.notify("A split session is merged by itself: x on it, without marks.", timeout=6)
        self.work_on("fix", self._plan_first, [one for one in chosen if can_fix(one)])

    async def _merge(self, finding: Finding) -> None:
        from lcm_tui.changes.merge import merging

        owner = finding.conversation_id
        if owner is None:
            self.app.notify("The finding names no conversation to begin with.", severity="warning")
            return
        conversation = await self.session.read(get_conversation, owner)
        self._preview(merging(conversation, self.session.budget, self._merged))

    def _merged(self, conversation_id: ConversationId) -> None:
        del conversation_id
        self.work_on("mend", self._after, [], (), exclusive=False)

    async def _plan_first(self, chosen: Sequence[Finding]) -> None:
        """Plan once, to know whether there are rows to change or search tables only."""
        from lcm_core.operations.fix import plan_fixes

        self.query_one(TitleBar).note = "planning …"
        limits = limits_of(self.session.settings, self.session.database.schema)
        try:
            fixes = await self.session.read(plan_fixes, chosen, limits=limits)
        finally:
            self.say_note()
        if fixes.plan:
            self._preview_fixes(chosen, fixes)
        elif fixes.search:
            go_on = await self.app.push_screen_wait(SearchOnly(fixes.search, fixes.left))
            if go_on:
                await self._after(chosen, fixes.search)
        else:
            why = "; ".join(fixes.left) or "what was found is gone"
            self.app.notify(f"There is nothing to change: {why}.", severity="warning", timeout=6)

    def _preview_fixes(self, chosen: Sequence[Finding], first: Fixes) -> None:
        from lcm_core.operations.fix import Keep, plan_fixes

        from lcm_tui.changes.change import Change, Choice

        keep = Choice("where a summary and all that it covers are in sight, keep", KEEP_WORDS)
        limits = limits_of(self.session.settings, self.session.database.schema)
        search: list[tuple[str, ...]] = [first.search]

        async def plan(reader: Reader) -> Plan:
            side = Keep.SOURCES if keep.on else Keep.SUMMARIES
            fixes = await plan_fixes(reader, chosen, keep=side, limits=limits)
            search[0] = fixes.search
            if not fixes.plan:
                raise RefusedError("No row has to change any more: leave, and check again.")
            return _with_search(fixes)

        async def then() -> None:
            await self._after(chosen, search[0])

        def applied(done: tuple[Committed, ...]) -> None:
            del done
            self.work_on("mend", then, exclusive=False)

        two_sided = any(one.check in TWO_SIDED for one in chosen)
        number = len(chosen)
        title = f"Fix {chosen[0].check}" if number == 1 else f"Fix {number:,} findings"
        choices = (keep,) if two_sided else ()
        self._preview(Change(plan, title, about_fixes(chosen), choices, applied))

    def _preview(self, change: Change) -> None:
        """Put the preview in front; what it commits is no news to this screen."""
        self._plan_screen = self.open(places.Preview(change))

    def is_ours(self) -> bool:
        """Whether what is written at the moment is our own fix."""
        return self._syncing or (
            isinstance(self._plan_screen, CommandScreen) and self._plan_screen.committing
        )

    async def _after(self, chosen: Sequence[Finding], search: Sequence[str]) -> None:
        """Bring the search tables in step, and ask again whatever has found something."""
        from lcm_core.change.reindex import resync

        self._syncing, self._plan_screen = True, None
        try:
            if search:
                path = self.session.database.path
                done = await asyncio.to_thread(resync, path, tuple(search), wait=WAIT_SECONDS)
                said = ", ".join(f"{one.table} {one.rows:,}" for one in done)
                self.app.notify(f"Rows written: {said}", title="Search tables in step", timeout=DONE_SECONDS)
        except LcmError as error:
            self.app.notify(error.message, title="Search tables", severity="error", timeout=DONE_SECONDS)
        finally:
            await self.session.database.refresh()
            self._syncing = False
        for key in [key for key, one in self.examination.findings.items() if one in chosen]:
            self.marks.pop(key, None)
        self.check_again({one.check for one in chosen})


def about_fixes(chosen: Sequence[Finding]) -> str:
    """What the fixes of some findings do, for the help of their preview."""
    checks: dict[FixId, dict[str, None]] = {}
    for one in chosen:
        if one.fix is not None:
            checks.setdefault(one.fix, {})[one.check] = None
    said = [f"{', '.join(found)}: {fix.effect}" for fix, found in checks.items()]
    return "\n\n".join(["One plan mends all that was chosen, without a model and without guessing.", *said])


def _with_search(fixes: Fixes) -> Plan:
    """The plan, which says what is done after it."""
    if not fixes.search:
        return fixes.plan
    tables = ", ".join(fixes.search)
    said = f"{tables}: brought in step after it; search tables are in no plan and need no undo"
    return replace(fixes.plan, warnings=(*fixes.plan.warnings, said))
