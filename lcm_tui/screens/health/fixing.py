"""Fixing what was found: one plan to preview, search tables alone, or the merge of a split session."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from lcm_core.findings import Finding, FixId
from lcm_core.store.conversations import get_conversation
from textual.notifications import SeverityLevel
from textual.screen import Screen

from lcm_tui import places
from lcm_tui.check_settings import limits_of
from lcm_tui.dialogs.search_only import SearchOnly
from lcm_tui.frame import CommandScreen
from lcm_tui.views.examination import Examination
from lcm_tui.views.findings import can_fix

DONE_SECONDS: Final = 12


class Fixer:
    """Fixes the findings that are chosen on a screen, and says what was fixed."""

    def __init__(
        self,
        screen: CommandScreen,
        chosen: Callable[[], Sequence[Finding]],
        known: Callable[[], Examination],
        *,
        planning: Callable[[bool], None],
        fixed: Callable[[Sequence[Finding]], None],
    ) -> None:
        """*planning*: it has begun (True), or ended. *fixed* gets the findings whose fix was applied."""
        self._screen = screen
        self._chosen = chosen
        self._known = known
        self._planning = planning
        self._fixed = fixed
        self._preview: Screen[None] | None = None  #: that of the last fix, until it is applied
        self._writes_search = False

    @property
    def writing(self) -> bool:
        """Whether what is written to the file at the moment is a fix of this screen."""
        preview = self._preview
        return self._writes_search or (isinstance(preview, CommandScreen) and preview.committing)

    def why_not(self) -> str | None:
        """Why what is chosen cannot be fixed."""
        chosen = self._chosen()
        if not chosen:
            return "No finding is selected; space on a heading marks all below it"
        if any(one.fix is not None for one in chosen):
            return None
        known = self._known().findings.values()
        fixable = sum(map(can_fix, known))
        if not fixable:
            return "No safe automatic fix for this finding"
        mark, fix = self._screen.key_of("mark"), self._screen.key_of("fix")
        others = "1 other finding has one" if fixable == 1 else f"{fixable:,} other findings have one"
        return f"No automatic fix here; {others}: {mark} on a heading marks them, {fix} previews"

    async def fix(self) -> None:
        """Preview one plan for all that is chosen; a split session, which is never marked, goes to merge."""
        chosen = self._chosen()
        if len(chosen) == 1 and chosen[0].fix is FixId.MERGE_SPLIT:
            await self._merge(chosen[0])
        else:
            await self._plan_first([one for one in chosen if can_fix(one)])

    async def _merge(self, finding: Finding) -> None:
        from lcm_tui.changes.merge import merging

        session, owner = self._screen.session, finding.conversation_id
        if owner is None:
            self._screen.app.notify("The finding names no conversation.", severity="warning")
            return
        conversation = await session.read(get_conversation, owner)
        change = merging(conversation, session.budget, lambda _: self._applied(()))
        self._preview = self._screen.open(places.Preview(change))

    async def _plan_first(self, chosen: Sequence[Finding]) -> None:
        """Plan once, to know whether there are rows to change or search tables only."""
        from lcm_core.operations.fix import plan_fixes

        from lcm_tui.changes.fix import fixing

        screen = self._screen
        limits = limits_of(screen.session.settings, screen.session.database.schema)
        self._planning(True)
        try:
            fixes = await screen.session.read(plan_fixes, chosen, limits=limits)
        finally:
            self._planning(False)
        if fixes.plan:
            change = fixing(chosen, limits, lambda _: self._applied(chosen))
            self._preview = screen.open(places.Preview(change))
        elif not fixes.search:
            why = "; ".join(fixes.left) or "the finding no longer exists"
            screen.app.notify(f"There is nothing to change: {why}.", severity="warning", timeout=6)
        elif await screen.app.push_screen_wait(SearchOnly(fixes.search, fixes.left)):
            await self._fix_search(chosen, fixes.search)

    async def _fix_search(self, chosen: Sequence[Finding], tables: Sequence[str]) -> None:
        from lcm_tui.changes.fix import bring_in_step

        self._writes_search = True
        try:
            done = await bring_in_step(self._screen.session.database, tables)
        finally:
            self._writes_search = False
        severity: SeverityLevel = "warning" if done.warns else "information"
        self._screen.app.notify(done.text, title=done.title, severity=severity, timeout=DONE_SECONDS)
        self._applied(chosen)

    def _applied(self, fixed: Sequence[Finding]) -> None:
        self._preview = None
        self._fixed(fixed)
