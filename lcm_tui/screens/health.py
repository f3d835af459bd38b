"""Health: what the checks find in a database or in one conversation, why it matters, and what fixes it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime, tzinfo
from functools import partial
from typing import ClassVar, Final

from lcm_core.base.findings import CheckState, Finding, FixId, Progress, Report, RowRef
from lcm_core.base.records import ContextItem, Conversation, ConversationId, SummaryId
from lcm_core.base.text import cell_width, counted
from lcm_core.base.times import format_local
from lcm_core.base.values import Record
from lcm_core.checks.messages import Repetition, repetitions_of
from lcm_core.checks.running import STRUCTURE, WHOLE_FILE
from lcm_core.store.context import context_items
from lcm_core.store.conversations import get_conversation
from lcm_core.store.database import Reader
from lcm_core.store.found_rows import FoundRow, found_rows
from lcm_core.store.opening import FileState, file_state
from lcm_host.checks import CHECKS, TEXTS, run_checks
from textual import on
from textual.app import ComposeResult
from textual.notifications import SeverityLevel
from textual.screen import Screen
from textual.strip import Strip
from textual.worker import Worker

from lcm_tui.flows.checks import WHOLE_BYTES, folders_of, limits_of, reads_whole_file
from lcm_tui.kit import commands, places
from lcm_tui.kit.commands import Key
from lcm_tui.kit.dialogs import SearchOnly
from lcm_tui.kit.drawn import Drawn, strip_of
from lcm_tui.kit.lines import LineView
from lcm_tui.kit.listing import MARK, Beside, Finder, ListPane, Marks
from lcm_tui.kit.spans import Block, Column, Document, Line, Span
from lcm_tui.kit.text import TextView
from lcm_tui.screens import pruning
from lcm_tui.screens.copying import Copies, of_finding
from lcm_tui.screens.exporting import export_rows, rows_of
from lcm_tui.screens.frame import CommandScreen
from lcm_tui.screens.pruning import Series
from lcm_tui.tables.blocks import cells_of
from lcm_tui.tables.findings import FINDING_COLUMNS, REPEATING, can_fix
from lcm_tui.tables.health import (
    FOLDED,
    ROWS_SHOWN,
    CheckGroupKey,
    CheckKey,
    Examination,
    FindingKey,
    Group,
    GroupKey,
    HealthKey,
    MoreKey,
    RowKey,
    check_document,
    check_group_cells,
    check_group_document,
    check_line,
    finding_document,
    first_to_look_at,
    found_pieces,
    group_document,
    group_line,
    lines_of,
    more_line,
    progress_line,
    row_line,
)

# -- running the checks ----------------------------------------------------------------------------------
# Beside the keys: phases, progress, stopping, and whether the file changed since.

#: How often the progress is drawn (seconds).
DRAWN_SECONDS: Final = 0.2
STOPPED: Final = "the checks were stopped earlier"
NOT_ASKED: Final = "it reads the whole database; {} does"


class Examiner:
    """Runs the checks over one conversation or the whole file, and knows what they said of each."""

    def __init__(
        self,
        screen: CommandScreen,
        scope: ConversationId | None,
        *,
        found: Callable[[], None],
        moved: Callable[[], None],
    ) -> None:
        """*scope*: the conversation that is looked at, None for the whole file.

        *found* is called when the checks have said something, *moved* when a run began, came further or
        ended.
        """
        self.scope = scope
        self.share = 0.0  #: of the present run, 0 to 1
        self.stage = ""  #: what is being looked at, for people
        self.ended = ""  #: when the last run ended, for people
        self.outdated = False  #: somebody else wrote since the last run began
        self._screen = screen
        self._found = found
        self._moved = moved
        self._known: dict[ConversationId | None, Examination] = {}
        self._worker: Worker[None] | None = None
        self._turn = 0  #: counts the runs
        self._asked: frozenset[str] = frozenset()  #: what the present run asks
        self._reported = -1  #: the run whose end is reported
        self._said_at = 0.0  #: when its progress was drawn, monotonic
        self._seen: FileState | None = None  #: the file when the last run began

    @property
    def examination(self) -> Examination:
        """What is known of the present scope."""
        return self._known.setdefault(self.scope, Examination())

    @property
    def running(self) -> bool:
        """Whether checks are running."""
        return self._worker is not None

    @property
    def reads_whole_file(self) -> bool:
        """Whether the whole file is being read, or will be by the present run."""
        return self.running and self._asked >= WHOLE_FILE

    # -- what is asked -------------------------------------------------------------------------------------

    def check_all(self) -> None:
        """Ask everything again, the whole-file checks where that is quick or was wanted before."""
        phases = [STRUCTURE, TEXTS]
        if self._wants_whole():
            phases.append(WHOLE_FILE)
        else:
            self.examination.leave_out(WHOLE_FILE, NOT_ASKED.format(self._screen.key_of("whole-file")))
        self._begin(phases)

    def check_again(self, fixed: Collection[str]) -> None:
        """Ask again, after a fix, what has found something: one damage often shows in several checks."""
        if self.running:
            self.check_all()
            return
        found = {one.check for one in self.examination.findings.values()} | set(fixed)
        phases = [found & STRUCTURE, found & TEXTS, found & WHOLE_FILE]
        state = self._screen.session.file_state
        if state is not None and state.size > WHOLE_BYTES:  # reading it again takes its time
            phases = [found & STRUCTURE, *(set(fixed) & part for part in (TEXTS, WHOLE_FILE))]
        self._begin([phase for phase in phases if phase])

    def check_whole_file(self) -> None:
        """Ask what reads the whole file, after what is being asked; its end is reported."""
        self._begin([self._asked - WHOLE_FILE, WHOLE_FILE] if self.running else [WHOLE_FILE])
        self._reported = self._turn

    def look_at(self, scope: ConversationId | None) -> None:
        """Look at another scope; what is known of this one stays known."""
        self.stop()
        self.scope = scope
        self._found()
        self._moved()
        if not self.examination.complete:
            self.check_all()

    def stop(self) -> None:
        """End the run, if there is one; what it said so far stays."""
        if self._worker is None:
            return
        self._worker.cancel()
        self._worker = None
        self._turn += 1
        self.examination.leave_out(CHECKS, STOPPED)
        self.ended = f"stopped {now_text(self._screen.session.zone)}"
        self._found()
        self._moved()

    def file_changed(self, *, by_us: bool) -> None:
        """The file was written; *by_us*: by a change of this screen, after which it checks again."""
        known = self._seen is not None and self._screen.session.file_state == self._seen
        if not (self.outdated or known or by_us):
            self.outdated = True
            self._moved()

    # -- running -------------------------------------------------------------------------------------------

    def _wants_whole(self) -> bool:
        """Whether the whole-file checks run unasked: over a file that is small, or that had them before."""
        known = self.examination.results.get("G13")
        if known is not None and not known.reason:
            return True
        state = self._screen.session.file_state
        return state is not None and reads_whole_file(self.scope, state.size)

    def _begin(self, phases: Sequence[Collection[str]]) -> None:
        """Ask some checks, phase by phase; a run that is under way ends."""
        self._turn += 1
        self.outdated = False
        self.share, self.stage = 0.0, "beginning"
        self._asked = frozenset(check for phase in phases for check in phase)
        self._worker = self._screen.work_on("checks", self._run, self._turn, self.scope, tuple(phases))
        self._moved()

    async def _run(self, turn: int, scope: ConversationId | None, phases: Sequence[Collection[str]]) -> None:
        session, started = self._screen.session, time.monotonic()
        try:
            self._seen = await asyncio.to_thread(file_state, session.database.path)
            self.outdated = False  # news of what was written before this, by a fix of ours, comes late
            for number, only in enumerate(phases):
                report = await run_checks(
                    session.database,
                    conversation=scope,
                    only=only,
                    folders=folders_of(session.settings),
                    limits=limits_of(session.settings, session.database.schema),
                    progress=partial(self._came_to, turn, number, len(phases)),
                )
                if turn == self._turn:
                    known = self._known.setdefault(scope, Examination())
                    known.take(report)
                    if scope is None and known.complete and number == len(phases) - 1:
                        session.examined = (self._seen, tuple(known.results.values()))
                    self._found()
                    self._moved()
                    if turn == self._reported and number == len(phases) - 1:
                        self._report(report)
        finally:
            if turn == self._turn:
                self._worker = None
                self.ended = taken_text(time.monotonic() - started, session.zone)
                self._moved()

    def _report(self, report: Report) -> None:
        ran = [one for one in report.results if one.state is CheckState.RAN]
        found = counted(sum(one.finding_count for one in ran), "finding")
        self._screen.app.notify(f"The {counted(len(ran), 'slow check')} ran: {found}.", timeout=4)

    def _came_to(self, turn: int, phase: int, phases: int, now: Progress) -> None:
        if turn != self._turn:
            return
        self.share = (phase + now.fraction) / phases
        self.stage = now.stage
        if (moment := time.monotonic()) - self._said_at >= DRAWN_SECONDS:
            self._said_at = moment
            self._moved()


def taken_text(seconds: float, zone: tzinfo | None) -> str:
    """How long a run took and when it ended: now, in *zone* (None: that of the machine)."""
    return f"{seconds:.1f} s, {now_text(zone)}"


def now_text(zone: tzinfo | None) -> str:
    """The time of day."""
    return format_local(datetime.now(UTC), zone)[11:19]


# -- fixing ----------------------------------------------------------------------------------------------
# One plan to preview, search tables alone, or the merge of a split session.

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
        from lcm_tui.flows.changes import merging

        session, owner = self._screen.session, finding.conversation_id
        if owner is None:
            self._screen.app.notify("The finding names no conversation.", severity="warning")
            return
        conversation = await session.read(get_conversation, owner)
        change = merging(conversation, session.budget, lambda _: self._applied(()))
        self._preview = self._screen.open(places.Preview(change))

    async def _plan_first(self, chosen: Sequence[Finding]) -> None:
        """Plan once, to know whether there are rows to change or search tables only."""
        from lcm_core.operations.fixing import plan_fixes

        from lcm_tui.flows.changes import Fixing

        screen = self._screen
        limits = limits_of(screen.session.settings, screen.session.database.schema)
        self._planning(True)
        try:
            fixes = await screen.session.read(plan_fixes, chosen, limits=limits)
        finally:
            self._planning(False)
        if fixes.plan:
            change = Fixing(chosen, limits, lambda _: self._applied(chosen))
            self._preview = screen.open(places.Preview(change))
        elif not fixes.search:
            why = "; ".join(fixes.left) or "the finding no longer exists"
            screen.app.notify(f"There is nothing to change: {why}.", severity="warning", timeout=6)
        elif await screen.app.push_screen_wait(SearchOnly(fixes.search, fixes.left)):
            await self._fix_search(chosen, fixes.search)

    async def _fix_search(self, chosen: Sequence[Finding], tables: Sequence[str]) -> None:
        from lcm_tui.flows.changes import bring_in_step

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


# -- head and list ---------------------------------------------------------------------------------------
# Groups that fold, findings that open into their rows.


class HeadLine(Drawn):
    """One line: how far the checks are, or what they found. What has no room is left out as a whole."""

    SPEAKS: ClassVar[bool] = True
    DEFAULT_CSS = """
    HeadLine { height: 1; width: 1fr; background: $surface; }
    """

    def __init__(self) -> None:
        super().__init__(id="head")
        self._said: Sequence[Line] = ()

    def say(self, said: Sequence[Line]) -> None:
        """Show other pieces, what matters most first."""
        if said != self._said:
            self._said = said
            self.refresh()

    def render_line(self, y: int) -> Strip:
        """The one line."""
        spans: list[Span] = []
        for piece in self._said:
            if spans and sum(cell_width(span.text) for span in (*spans, *piece)) > self.size.width:
                break
            spans += piece
        return strip_of(tuple(spans), self.style_of, self.size.width)


class FindingList(ListPane[HealthKey]):
    """Findings by how sure and how bad they are, and below them the checks that were not run."""

    FILTER = "a check, words of a finding, fix, conversation 3"
    READING = "Checking …"
    FILTER_CHANGES_LINES = True

    def __init__(self, changed: Callable[[], None]) -> None:
        """The cursor is at first on the gravest finding; *changed*: other marks, or another filter."""
        super().__init__(changed=changed)
        self.table.also_moves("fold, unfold a group, or a finding with its rows")
        self.examination = Examination()
        self.narrowed = False  #: to one conversation
        self.marks = Marks[str](self._marked)  #: of findings, by their keys in the examination
        self.rows: dict[str, Mapping[int, FoundRow]] = {}  #: what was read of rows, by finding and place
        self._checking = True
        self._groups: list[Group] = []
        self._folded: set[str] = set(FOLDED)
        self._unfolded: set[CheckGroupKey] = set()
        self._opened: set[str] = set()  #: findings of which the rows are listed
        self._unread: set[str] = set()  #: findings of which the rows were not read since the last answers
        self._placed: HealthKey | None = None  #: where the cursor was put, as long as nobody moved it
        self._wanted: HealthKey | None = None  #: where to stand when it is listed again

    def show(self, examination: Examination) -> None:
        """List what is known now; the cursor stays on its finding."""
        self.examination = examination
        self._unread = set(examination.findings)
        self.marks.keep(examination.findings)
        self.relist()

    def say_checking(self, checking: bool) -> None:
        """Say so in the list too, when it is empty."""
        self._checking = checking
        self.table.empty = self.why_empty()

    def stand_still(self) -> None:
        """Stand on the same line when something else is listed, if it is in there."""
        self._placed = self._wanted = self.table.selected

    # -- what is selected --------------------------------------------------------------------------------

    @property
    def finding_key(self) -> str | None:
        """The key of the finding under the cursor, or of the one whose row is."""
        match self.table.selected:
            case FindingKey(key) | RowKey(key):
                return key
        return None

    @property
    def finding(self) -> Finding | None:
        """That finding."""
        return self.examination.findings.get(self.finding_key or "")

    @property
    def listed(self) -> list[Finding]:
        """All that pass the filter, also those of folded groups."""
        keys = [key.key for group in self._groups for key in group.keys if isinstance(key, FindingKey)]
        return [found for key in keys if (found := self.examination.findings.get(key)) is not None]

    def findings_of(self, key: CheckGroupKey) -> list[Finding]:
        """Those that a line stands for."""
        return [self.examination.findings[name] for name in self._below(key)]

    def chosen(self) -> list[Finding]:
        """The marked findings; without marks those under the cursor."""
        selected, findings = self.table.selected, self.examination.findings
        if not self.marks and isinstance(selected, CheckGroupKey):
            return self.findings_of(selected)
        return [findings[key] for key in self.marks.chosen(self.finding_key) if key in findings]

    def markable(self) -> list[str]:
        """The findings under the cursor, below a heading all, that can be fixed together with others."""
        match self.table.selected:
            case GroupKey() | CheckGroupKey() as heading:
                keys = self._below(heading)
            case _:
                keys = [] if self.finding_key is None else [self.finding_key]
        findings = self.examination.findings
        return [key for key in keys if key in findings and can_fix(findings[key])]

    def _below(self, heading: GroupKey | CheckGroupKey) -> list[str]:
        """The keys of all findings below a heading, listed or folded away."""
        group = self._group(heading.name if isinstance(heading, GroupKey) else heading.group)
        if group is None:
            return []
        checks = group.by_check if isinstance(heading, GroupKey) else (heading.check,)
        found = (name for check in checks for name in group.findings_of(check))
        return [name for name in found if name in self.examination.findings]

    def mark(self) -> None:
        """Mark a finding, or all below a heading; once more takes the marks away."""
        keys = self.markable()
        self.marks.turn(keys)
        if self.finding_key is not None:
            self.table.action_move(1)

    def _marked(self, keys: Sequence[str]) -> None:
        headings = [key for key in self.table.keys if isinstance(key, CheckGroupKey)]
        self.table.redraw([*headings, *(FindingKey(key) for key in keys)])
        if self._changed is not None:
            self._changed()

    # -- listing -----------------------------------------------------------------------------------------

    def matching(self, words: Sequence[str]) -> Sequence[HealthKey]:
        """The lines of the groups and checks that are unfolded and of the findings that are open."""
        self._groups = self.examination.groups(words)
        findings = self.examination.findings
        opened = {key: len(findings[key].rows) for key in self._opened if key in findings}
        return lines_of(self._groups, self._folded_now, self.is_folded, opened)

    def relist(self, *, changed: bool = True) -> None:
        """List them; until somebody moves, what is found above the cursor pushes nothing out of sight."""
        super().relist(changed=changed)
        if self._wanted is None and self.table.selected == self._placed:
            self.table.reveal_top()

    def why_empty(self) -> str:
        """Nothing was found yet, passes the filter, or is wrong."""
        if self._checking:
            return self.READING
        return "Nothing matches." if self.filter.words else "Nothing was found."

    def keep_on(self, keys: Sequence[HealthKey]) -> HealthKey | None:
        """Where to stand as long as nobody has moved."""
        selected = self.table.selected
        if selected is not None and selected != self._placed:
            return None
        place = self._wanted
        if place not in keys:
            place = first_to_look_at(keys)
        self._placed = place if place is not None else self._placed
        return place

    def columns(self) -> Sequence[Column]:
        """Whose finding it is only where there are several conversations."""
        left_out = "conversation" if self.narrowed else ""
        return [column for column in FINDING_COLUMNS if column.width and column.name != left_out]

    def cells(self, key: HealthKey) -> Mapping[str, Span]:
        """What stands in the line of a finding, or of several of one check."""
        if isinstance(key, CheckGroupKey):
            fixable = [name for name in self._below(key) if can_fix(self.examination.findings[name])]
            mark = MARK if fixable and all(name in self.marks for name in fixable) else ""
            return check_group_cells(self.findings_of(key), mark, folded=self.is_folded(key))
        assert isinstance(key, FindingKey)
        mark = MARK if key.key in self.marks else ""
        return cells_of(FINDING_COLUMNS, self.examination.findings[key.key], mark)

    def draw(self, key: HealthKey, width: int) -> Sequence[Line]:
        """A heading, a finding, a row of one, or a check that was not run."""
        known = self.examination
        match key:
            case GroupKey(name):
                group = self._group(name)
                return (group_line(group, folded=name in self._folded_now),) if group is not None else ()
            case CheckKey(check):
                return (check_line(known.results[check]),)
            case MoreKey(check):
                return (more_line(check, known.cut.get(check, 0)),)
            case RowKey(name, place) if name in known.findings:
                ref = known.findings[name].rows[place]
                return (row_line(ref, self.rows.get(name, {}).get(place)),)
            case CheckGroupKey() if self._below(key):
                return super().draw(key, width)
            case FindingKey(name) if name in known.findings:
                return super().draw(key, width)
        return ()

    def _group(self, name: str) -> Group | None:
        return next((one for one in self._groups if one.name == name), None)

    # -- folding and opening -----------------------------------------------------------------------------

    @property
    def _folded_now(self) -> set[str]:
        """The groups of which only the heading is shown: none under a filter."""
        return set() if self.filter.words else self._folded

    def is_folded(self, key: CheckGroupKey) -> bool:
        """Whether a line stands for its findings: not under a filter."""
        return not self.filter.words and key not in self._unfolded

    def _check_group_of(self, key: HealthKey) -> CheckGroupKey | None:
        """The line below which a finding is listed."""
        for group in self._groups:
            for check, below in group.by_check.items():
                if key in below:
                    return CheckGroupKey(group.name, check) if len(below) > 1 else None
        return None

    @on(LineView.Sided, "#list")
    def _sided(self, event: LineView.Sided) -> None:
        key: HealthKey | None = event.key
        if key is None:
            return
        if event.side > 0:
            self._unfold(key)
        else:
            self._fold(key)

    def toggle(self, heading: GroupKey | CheckGroupKey) -> None:
        """Unfold what a heading stands for, or fold it."""
        if isinstance(heading, GroupKey):
            folded = heading.name in self._folded_now
        else:
            folded = self.is_folded(heading)
        if folded:
            self._unfold(heading)
        else:
            self._fold(heading)

    def go_to(self, name: str) -> bool:
        """Stand on a finding, by its key; what it is folded into unfolds."""
        key = FindingKey(name)
        group = next((one for one in self._groups if key in one.keys), None)
        if group is None:
            return False
        self._folded.discard(group.name)
        if (heading := self._check_group_of(key)) is not None:
            self._unfolded.add(heading)
        self._relist_at(key)
        return self.table.selected == key

    def _unfold(self, key: HealthKey) -> None:
        if isinstance(key, GroupKey):
            self._folded.discard(key.name)
        elif isinstance(key, CheckGroupKey):
            self._unfolded.add(key)
        elif isinstance(key, FindingKey):
            self._opened.add(key.key)
            self._unread.add(key.key)
        self._relist_at(key)

    def _fold(self, key: HealthKey) -> None:
        if isinstance(key, RowKey) or (isinstance(key, FindingKey) and key.key in self._opened):
            self._opened.discard(key.key)
            self._relist_at(FindingKey(key.key))
            return
        heading = key if isinstance(key, CheckGroupKey) else self._check_group_of(key)
        if heading is not None and heading in self._unfolded:
            self._unfolded.discard(heading)
            self._relist_at(heading)
            return
        group = key.name if isinstance(key, GroupKey) else None
        group = group or (heading.group if heading is not None else None)
        group = group or next((one.name for one in self._groups if key in one.keys), None)
        if group is not None:
            self._folded.add(group)
            self._relist_at(GroupKey(group))

    def _relist_at(self, key: HealthKey) -> None:
        self._placed = None
        self.relist()
        self.table.select(key)

    # -- the rows of findings ----------------------------------------------------------------------------

    def unread_rows(self) -> Mapping[str, Sequence[RowRef]]:
        """The rows to read, by finding: of what is selected, and of what is open in sight."""
        wanted = [key.key for key in self.table.visible_keys if isinstance(key, RowKey)]
        if self.finding_key is not None:
            wanted.append(self.finding_key)
        findings = self.examination.findings
        return {
            name: findings[name].rows[: None if name in self._opened else ROWS_SHOWN]
            for name in dict.fromkeys(wanted)
            if name in self._unread and name in findings
        }

    def take_rows(self, name: str, rows: Sequence[FoundRow]) -> None:
        """Show what was read of the rows of a finding."""
        self.rows[name] = dict(enumerate(rows))
        self._unread.discard(name)
        self.table.redraw([RowKey(name, place) for place in range(len(rows))])


# -- where a finding leads -------------------------------------------------------------------------------
# The screen that shows the row it is about.


class FoundPlace(Record, frozen=True):
    """A row of a finding, with the conversation that it stands in and its item of the context."""

    finding: Finding
    conversation: Conversation
    row: FoundRow | None
    item: ContextItem | None  #: of a row of the context: the item at its ordinal, or the next one


async def place_of(reader: Reader, finding: Finding, ref: RowRef | None) -> FoundPlace | None:
    """Where a row of a finding stands now; None when that is in no conversation.

    Raises:
        NotFoundError: the conversation is gone.
    """
    row = (await found_rows(reader, [ref]))[0] if ref is not None else None
    owner = row.conversation_id if row is not None else None
    owner = finding.conversation_id if owner is None else owner
    if owner is None:
        return None
    conversation = await get_conversation(reader, owner)
    item = None
    if row is not None and row.ordinal is not None:
        items = await context_items(reader, owner)
        behind = (one for one in items if one.ordinal >= row.ordinal)
        item = next(behind, items.item(-1) if items else None)
    return FoundPlace(finding, conversation, row, item)


def leads_to(place: FoundPlace) -> places.Place:
    """The place that shows it, standing on the row as far as there is one."""
    row, conversation = place.row, place.conversation
    family = CHECKS[place.finding.check].family
    if row is not None:
        if row.ref.table == "context_items":
            return _context(place)
        if row.ref.table in ("large_files", "disk"):
            return places.Files(conversation)
        if row.ref.table == "focus_briefs":
            return places.Briefs(conversation)
        if row.summary_id is not None and not row.gone:
            return places.Summaries(conversation, select=row.summary_id)
        if row.seq is not None:
            return places.Messages(conversation, seq=row.seq)
    if family == "A":
        return _context(place)
    if family in "BCD":
        return places.Summaries(conversation)
    return places.Messages(conversation)


def _context(place: FoundPlace) -> places.Place:
    item = place.item
    select = None
    if item is not None and item.summary_id is not None:
        select = ("summary", str(item.summary_id))
    elif item is not None and item.message_id is not None:
        select = ("message", str(item.message_id))
    return places.Context(place.conversation, select=select)


# -- the screen ------------------------------------------------------------------------------------------


class HealthScreen(CommandScreen):
    """The findings of the checks, by confidence and severity."""

    HELP = """
What is wrong with this database, or with one conversation of it (T switches).

Findings of one check are one line: enter unfolds it, x on it fixes all of them. h folds, l unfolds; l on a
finding lists its rows.

Checks run in the background; esc stops them. Checks that read no text come first, then those that do, then
the slow ones: SQLite's integrity_check and the search index. For one conversation, or a database over 1 GB,
the slow ones wait for 1.

✗ broken: no engine version writes this, or the engine marked a text as no summary. ? suspicious: damage, or
intended by someone. · by design: looks like damage but is not. "fix" marks findings with a safe fix that
needs no model. – skipped: the reason is shown. The pane says why it matters and what the fix would do.

enter opens the place. space marks findings that can be fixed, on a heading all below it; x previews one fix
for all that is marked. Afterwards the search tables are updated and the checks run again. A split session
opens the merge preview; R rewrites broken summaries. When the database changes, ctrl+r runs the checks again.
"""

    def __init__(self, conversation: Conversation | None = None, *, only: bool = False) -> None:
        """The health of the database; with *only* that of *conversation*, which T switches to."""
        super().__init__()
        self.conversation = conversation
        owner = None if conversation is None else conversation.conversation_id
        self.head = HeadLine()
        self.list = FindingList(self._say_note)
        self.list.narrowed = only and conversation is not None
        self.text = TextView(id="text")
        self.examiner = Examiner(
            self, owner if only else None, found=self._show_findings, moved=self._say_state
        )
        self._fixer = Fixer(
            self,
            self.list.chosen,
            lambda: self.list.examination,
            planning=self._say_planning,
            fixed=self._check_fixed,
        )
        self._panes = Beside(self.list, self.text)
        self._repeated: dict[ConversationId, list[Repetition]] = {}
        self._described: HealthKey | None = None
        self._series = Series("finding", lambda: self.list.table, self._place_of)

    def compose_body(self) -> ComposeResult:
        """How far the checks are, the findings, and what is known of one beside or below them."""
        yield self.head
        yield self._panes

    def on_mount(self) -> None:
        """Begin with the checks."""
        self.examiner.check_all()

    def where(self) -> str:
        """Whose health."""
        if self.list.narrowed and self.conversation is not None:
            return f"Health of {self.session.called(self.conversation)}"
        return "Health of the database"

    def main_widget(self) -> LineView[HealthKey]:
        """The list."""
        return self.list.table

    def finder(self) -> Finder:
        """The filter of the list, or the search in the text when the keys are there."""
        return self._panes.finder

    def selected_id(self) -> str | None:
        """The id of the finding, as `doctor --fix` takes it; of a check that was not run, its own."""
        match self.list.table.selected:
            case CheckKey(check) | CheckGroupKey(_, check):
                return check
        return self.list.finding_key

    def copies(self) -> Copies | None:
        """The finding; of a check that was not run its id."""
        name, finding = self.selected_id(), self.list.finding
        if name is None or finding is None:
            return None if name is None else Copies(name)
        return of_finding(name, finding)

    async def _export(self) -> None:
        """The findings that are listed."""
        rows = rows_of(self.where(), FINDING_COLUMNS, self.list.listed, self.session.zone)
        await export_rows(self, "findings", rows)

    def step_back(self) -> bool:
        """Leave the text, stop the checks, or take the filter away."""
        if self._panes.leave_text():
            return True
        if self.examiner.running:
            self.examiner.stop()
            return True
        return super().step_back()

    def data_changed(self) -> None:
        """Say that what is shown is older than the file; the checks run again when the operator wants it."""
        super().data_changed()
        self.examiner.file_changed(by_us=self._fixer.writing)

    # -- what the checks say -------------------------------------------------------------------------------

    def _show_findings(self) -> None:
        self._repeated.clear()
        self.list.show(self.examiner.examination)

    def _check_fixed(self, fixed: Sequence[Finding]) -> None:
        self.list.marks.clear()
        self.examiner.check_again({one.check for one in fixed})

    def _say_state(self) -> None:
        """Say in the head how far the checks are, or what they found, and whether that may be old."""
        if not (self.is_attached and self.is_mounted):
            return
        run = self.examiner
        if run.running:
            said = [progress_line(run.examination, run.share, run.stage)]
        else:
            reload = self.key_of("reload") if run.outdated else None
            said = found_pieces(run.examination, ended=run.ended, reload=reload, fix=self.key_of("fix"))
        self.head.say(said)
        self.list.say_checking(run.running)
        self.refresh_bars()

    def _say_note(self) -> None:
        """Say what is marked and what the list is filtered by."""
        needle = self.list.filter.needle
        said = filter(None, (self.list.marks.text, f"/{needle}" if needle else ""))
        self.title_bar.note = "  ".join(said)
        self.refresh_bars()

    def _say_planning(self, planning: bool) -> None:
        if planning:
            self.title_bar.note = "planning …"
        else:
            self._say_note()

    # -- what is selected ----------------------------------------------------------------------------------

    @on(LineView.Highlighted, "#list")
    def _highlighted(self) -> None:
        self._describe()
        self._read_details()

    @on(LineView.Scrolled, "#list")
    def _scrolled(self) -> None:
        self._read_details()

    def _describe(self) -> None:
        """Say what is known of the selected line."""
        key = self.list.table.selected
        document = self._document(key) if key is not None else ()
        self.text.show(document, keep_place=key == self._described)
        self._described = key

    def _document(self, key: HealthKey) -> Document:
        match key:
            case CheckKey(check):
                return check_document(self.examiner.examination.results[check])
            case MoreKey():
                said = "A check lists a thousand findings. Fix some, or look at one conversation (T)."
                return (Block(said),)
            case GroupKey(name):
                return group_document(name)
            case CheckGroupKey():
                return check_group_document(self.list.findings_of(key))
            case FindingKey(name) | RowKey(name):
                finding = self.list.finding
                if finding is None:
                    return ()
                owner = finding.conversation_id
                repeated = self._repeated.get(owner) if owner is not None else []
                return finding_document(name, finding, self.list.rows.get(name, {}), repeated)

    def _read_details(self) -> None:
        """Read what stands in the rows in sight, and what is repeated where the selected finding asks."""
        if rows := self.list.unread_rows():
            self.work_on("rows", self._read_rows, rows)
        finding = self.list.finding
        owner = finding.conversation_id if finding is not None and finding.check in REPEATING else None
        if owner is not None and owner not in self._repeated:
            self.work_on("repeated", self._read_repeated, owner)

    async def _read_rows(self, wanted: Mapping[str, Sequence[RowRef]]) -> None:
        for name, refs in wanted.items():
            self.list.take_rows(name, await self.session.read(found_rows, refs))
            self._describe()

    async def _read_repeated(self, owner: ConversationId) -> None:
        self._repeated[owner] = await repetitions_of(self.session.database, owner)
        self._describe()

    # -- commands ------------------------------------------------------------------------------------------

    def _why_not_open(self) -> str | None:
        match self.list.table.selected:
            case None:
                return "nothing is selected"
            case CheckKey() | MoreKey():
                return "the check was skipped, so it has no rows to open"
        return None

    async def _open(self) -> None:
        """Go to the place that a finding or its row is about; a heading folds and unfolds."""
        key, finding = self.list.table.selected, self.list.finding
        if isinstance(key, GroupKey | CheckGroupKey):
            self.list.toggle(key)
        elif finding is not None:
            at = key.place if isinstance(key, RowKey) else 0
            place = await self.session.read(place_of, finding, finding.rows[at] if finding.rows else None)
            if place is None:
                self.app.notify(
                    "This finding is about the whole database: there is no row to open.", timeout=4
                )
            elif self.app.screen is self:
                self.open(leads_to(place), self._series)

    def _summary(self) -> SummaryId | None:
        """The summary that the selected finding, or its row, is about."""
        key, finding = self.list.table.selected, self.list.finding
        rows = () if finding is None else finding.rows
        ref = rows[key.place if isinstance(key, RowKey) else 0] if rows else None
        return SummaryId(str(ref.key[0])) if ref is not None and ref.table == "summaries" else None

    async def _trace(self) -> None:
        """Show where the lines of that summary come from."""
        summary_id, finding = self._summary(), self.list.finding
        if summary_id is not None and finding is not None and finding.conversation_id is not None:
            conversation = await self.session.read(get_conversation, finding.conversation_id)
            self.open(places.Trace(conversation, summary_id))

    async def _place_of(self, key: HealthKey) -> places.Place | None:
        """Where a finding is, unless it is about the whole database; a heading unfolds."""
        if isinstance(key, CheckGroupKey) and self.list.is_folded(key):
            self.list.toggle(key)
        finding = self.list.examination.findings.get(key.key) if isinstance(key, FindingKey) else None
        if finding is None:
            return None
        found = await self.session.read(place_of, finding, finding.rows[0] if finding.rows else None)
        return None if found is None else leads_to(found)

    def _why_not_mark(self) -> str | None:
        return None if self.list.markable() else "only findings with a fix are marked"

    def _why_not_whole_file(self) -> str | None:
        return "the slow checks are already running" if self.examiner.reads_whole_file else None

    def _why_no_scope(self) -> str | None:
        return "this screen was opened without a selected conversation" if self.conversation is None else None

    def _turn_scope(self) -> None:
        """Switch between this conversation and all; what is known of the other stays known."""
        if self.conversation is None:
            return
        self.list.stand_still()
        self.list.narrowed = not self.list.narrowed
        self.list.heading.refresh()
        self.say_where()
        self.examiner.look_at(self.conversation.conversation_id if self.list.narrowed else None)

    def _open_history(self) -> None:
        """Show what was changed."""
        self.open(places.History(self.conversation, only=self.list.narrowed))

    KEYS: ClassVar[Sequence[Key[HealthScreen]]] = (
        commands.OPEN.does(_open, _why_not_open),
        commands.EXPORT.does(
            _export,
            lambda s: None if s.list.listed else "no finding is listed",
            help="Write the listed findings to a file: Markdown, JSON or CSV.",
        ),
        commands.FIX.does(lambda s: s._fixer.fix(), lambda s: s._fixer.why_not()),
        *pruning.edit_keys(_summary, hidden=False),
        commands.TRACE.does(
            _trace,
            lambda s: None if s._summary() else "the selected finding is about no summary",
            hidden=False,
        ),
        pruning.repair_key(lambda s: s.conversation),
        commands.MARK.does(lambda s: s.list.mark(), _why_not_mark),
        Key(
            "whole-file",
            "1",
            "Full check",
            "Also run the slow checks (integrity_check, search index).",
            lambda s: s.examiner.check_whole_file(),
            _why_not_whole_file,
            words="slow checks; integrity check; deep check; complete check",
            where="health",
        ),
        commands.SCOPE.does(_turn_scope, _why_no_scope),
        commands.HISTORY.does(_open_history),
        *pruning.row_keys("finding", lambda s: s.list.table),
    )
    COMMON: ClassVar[Sequence[Key[HealthScreen]]] = (commands.RELOAD.does(lambda s: s.examiner.check_all()),)
