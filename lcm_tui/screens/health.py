"""Health: what the checks find in a database or in one conversation, why it matters, and what fixes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

from lcm_core.base.findings import Finding, FixId, RowRef
from lcm_core.base.records import ContextItem, Conversation, ConversationId, MessageId, SummaryId
from lcm_core.base.text import cell_width, counted
from lcm_core.base.values import Record
from lcm_core.checks.check import FoundRow, found_rows
from lcm_core.checks.messages import repetitions_of
from lcm_core.checks.repetitions import Repetition
from lcm_core.store.context import context_items
from lcm_core.store.conversations import get_conversation
from lcm_core.store.database import Reader
from lcm_core.store.summaries import load_graph
from lcm_host.checks import CHECKS
from textual import on
from textual.app import ComposeResult
from textual.notifications import SeverityLevel
from textual.screen import Screen

from lcm_tui.flows.checks import limits_of
from lcm_tui.kit import commands, places
from lcm_tui.kit.commands import Key
from lcm_tui.kit.dialogs import Question
from lcm_tui.kit.drawn import Lines
from lcm_tui.kit.lines import LineView
from lcm_tui.kit.listing import Beside, Finder
from lcm_tui.kit.spans import Block, Document, Line, Span
from lcm_tui.kit.text import TextView
from lcm_tui.screens import actions
from lcm_tui.screens.checking import Examiner
from lcm_tui.screens.copying import Copies, of_finding
from lcm_tui.screens.exporting import export_rows, rows_of
from lcm_tui.screens.frame import CommandScreen
from lcm_tui.screens.health_list import FindingList
from lcm_tui.screens.reading import Series, row_keys
from lcm_tui.tables.findings import FINDING_COLUMNS, REPEATING, can_fix
from lcm_tui.tables.health import (
    CheckGroupKey,
    CheckKey,
    FindingKey,
    GroupKey,
    HealthKey,
    MoreKey,
    RowKey,
    check_document,
    check_group_document,
    finding_document,
    found_pieces,
    group_document,
    progress_line,
)

# -- where a finding leads -------------------------------------------------------------------------------
# The screen that shows the row it is about.


class FoundPlace(Record, frozen=True):
    """A row of a finding, with the conversation that it stands in and its item of the context."""

    finding: Finding
    conversation: Conversation
    row: FoundRow | None
    item: ContextItem | None  #: of a row of the context: the item at its ordinal, or the next one

    @property
    def summary_id(self) -> SummaryId | None:
        """The summary that the row is, or refers to, if there still is one."""
        return None if self.row is None or self.row.gone else self.row.summary_id

    @property
    def item_id(self) -> tuple[str, str] | None:
        """What to stand on in the context."""
        at: tuple[SummaryId | None, MessageId | None]
        if self.item is not None:
            at = self.item.summary_id, self.item.message_id
        else:
            at = self.summary_id, None if self.row is None else self.row.message_id
        if at[0] is not None:
            return "summary", str(at[0])
        return None if at[1] is None else ("message", str(at[1]))


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
            return places.Context(conversation, select=place.item_id)
        if row.ref.table in ("large_files", "disk"):
            return places.Files(conversation)
        if row.ref.table == "focus_briefs":
            return places.Briefs(conversation)
        if place.summary_id is not None:
            return places.Summaries(conversation, select=place.summary_id)
        if row.seq is not None:
            return places.Messages(conversation, seq=row.seq)
    if family == "A":
        return places.Context(conversation, select=place.item_id)
    if family in "BCD":
        return places.Summaries(conversation)
    return places.Messages(conversation)


# -- the screen ------------------------------------------------------------------------------------------

DONE_SECONDS: Final = 12


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

enter opens the place, c the context that it is in, s the summary DAG. space marks findings that can be fixed,
on a heading all below it; x previews one fix for all that is marked. Afterwards the search tables are updated
and the checks run again. A split session opens the merge preview; R rewrites broken summaries. When the
database changes, ctrl+r runs the checks again.
"""

    def __init__(self, conversation: Conversation | None = None, *, only: bool = False) -> None:
        """The health of the database; with *only* that of *conversation*, which T switches to."""
        super().__init__()
        self.conversation = conversation
        owner = None if conversation is None else conversation.conversation_id
        self.head = Lines(self._head_line, id="head")
        self.list = FindingList(self._say_note)
        self.list.narrowed = only and conversation is not None
        self.text = TextView(id="text")
        self.examiner = Examiner(
            self, owner if only else None, found=self._show_findings, moved=self._say_state
        )
        self._preview: Screen[None] | None = None  #: that of the last fix, until it is applied
        self._writes_search = False
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
        if self.examiner.running and not self.text.has_focus:
            self.examiner.stop()
            return True
        return super().step_back()

    def data_changed(self) -> None:
        """Say that what is shown is older than the file; the checks run again when the operator wants it."""
        super().data_changed()
        preview = self._preview
        committing = isinstance(preview, CommandScreen) and preview.committing
        self.examiner.file_changed(by_us=self._writes_search or committing)

    @property
    def loaded(self) -> bool:
        """Whether a finding is selected, or none will be: keys are meant for the first one."""
        return super().loaded and not (self.examiner.running and self.list.finding_key is None)

    # -- what the checks say -------------------------------------------------------------------------------

    def _show_findings(self) -> None:
        self._repeated.clear()
        self.list.show(self.examiner.examination)

    def _say_state(self) -> None:
        """Say in the head how far the checks are, or what they found, and whether that may be old."""
        if self.is_attached and self.is_mounted:
            self.head.again()
            self.list.say_checking(self.examiner.running)
            self.refresh_bars()

    def _head_line(self, width: int) -> Sequence[Line]:
        """What has no room is left out as a whole."""
        run = self.examiner
        if run.running:
            return [progress_line(run.examination, run.share, run.stage)]
        reload = self.key_of("reload") if run.outdated else None
        line: list[Span] = []
        fix, chosen = self.key_of("fix"), self.list.chosen()
        for piece in found_pieces(run.examination, chosen, ended=run.ended, reload=reload, fix=fix):
            if line and sum(cell_width(span.text) for span in (*line, *piece)) > width:
                break
            line += piece
        return [tuple(line)]

    def _say_note(self) -> None:
        """Say what is marked and what the list is filtered by."""
        needle = self.list.filter.needle
        said = filter(None, (self.list.marks.text, f"/{needle}" if needle else ""))
        self.title_bar.note = "  ".join(said)
        self.head.again()
        self.refresh_bars()

    # -- what is selected ----------------------------------------------------------------------------------

    @on(LineView.Highlighted, "#list")
    def _highlighted(self) -> None:
        self.head.again()
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
                return check_group_document(self.list.findings_of(key), listed=not self.list.is_folded(key))
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

    def _row(self) -> RowRef | None:
        """The row under the cursor, or the first one of the finding there."""
        key, finding = self.list.table.selected, self.list.finding
        rows = () if finding is None else finding.rows
        return rows[key.place if isinstance(key, RowKey) else 0] if rows else None

    async def _found_place(self) -> FoundPlace | None:
        """Where that row stands now; None: in no conversation, which is said."""
        finding = self.list.finding
        place = None if finding is None else await self.session.read(place_of, finding, self._row())
        if place is None:
            said = "This finding is about the whole database: there is no row to open."
            self.app.notify(said, timeout=4)
        return place if self.app.screen is self else None

    async def _open(self) -> None:
        """Go to the place that a finding or its row is about; a heading folds and unfolds."""
        key = self.list.table.selected
        if isinstance(key, GroupKey | CheckGroupKey):
            self.list.toggle(key)
            self._describe()
        elif (place := await self._found_place()) is not None:
            self.open(leads_to(place), self._series)

    async def _open_context(self) -> None:
        """Show the context; of a summary that is not in it what was made from that."""
        if (place := await self._found_place()) is not None:
            select, owner = place.item_id, place.conversation.conversation_id
            if place.item is None and place.summary_id is not None:
                graph = await self.session.read(load_graph, owner)
                select = "summary", graph.held_above(place.summary_id) or place.summary_id
            self.open(places.Context(place.conversation, select=select))

    async def _open_summaries(self) -> None:
        if (place := await self._found_place()) is not None:
            self.open(places.Summaries(place.conversation, select=place.summary_id))

    def _why_no_place(self) -> str | None:
        """Why there is no conversation to look into."""
        finding = self.list.finding
        if finding is None:
            return "select a finding: it opens where that is"
        return "the finding is about the whole database" if finding.conversation_id is None else None

    def _summary(self) -> SummaryId | None:
        """The summary that the selected finding, or its row, is about."""
        ref = self._row()
        return SummaryId(str(ref.key[0])) if ref is not None and ref.table == "summaries" else None

    async def _trace(self) -> None:
        """Show where the lines of that summary come from."""
        summary_id, place = self._summary(), await self._found_place()
        if summary_id is not None and place is not None:
            self.open(places.Trace(place.conversation, summary_id))

    async def _place_of(self, key: HealthKey) -> places.Place | None:
        """Where a finding is, unless it is about the whole database; a heading unfolds."""
        if isinstance(key, CheckGroupKey) and self.list.is_folded(key):
            self.list.toggle(key)
        finding = self.list.examination.findings.get(key.key) if isinstance(key, FindingKey) else None
        if finding is None:
            return None
        found = await self.session.read(place_of, finding, finding.rows[0] if finding.rows else None)
        return None if found is None else leads_to(found)

    # -- fixing --------------------------------------------------------------------------------------------

    def _why_not_fix(self) -> str | None:
        """Why what is chosen cannot be fixed."""
        chosen = self.list.chosen()
        if not chosen:
            if self.examiner.running:
                return "the checks are still running"
            return "No finding is selected"
        if any(one.fix is not None for one in chosen):
            return None
        fixable = sum(map(can_fix, self.list.examination.findings.values()))
        if not fixable:
            return "No safe automatic fix for this finding"
        mark, fix = self.key_of("mark"), self.key_of("fix")
        others = counted(fixable, "other finding has one", "other findings have one")
        return f"No automatic fix here; {others}: {mark} on a heading marks them, {fix} previews"

    async def _fix(self) -> None:
        """Preview one plan for all that is chosen; a split session, which is never marked, goes to merge."""
        chosen = self.list.chosen()
        if len(chosen) == 1 and chosen[0].fix is FixId.MERGE_SPLIT:
            await self._merge(chosen[0])
        else:
            await self._plan_first([one for one in chosen if can_fix(one)])

    async def _merge(self, finding: Finding) -> None:
        from lcm_tui.flows.changes import merging

        owner = finding.conversation_id
        if owner is None:
            self.app.notify("The finding names no conversation.", severity="warning")
            return
        conversation = await self.session.read(get_conversation, owner)
        change = merging(conversation, self.session.budget, lambda _: self._fixed(()))
        self._preview = self.open(places.Preview(change))

    async def _plan_first(self, chosen: Sequence[Finding]) -> None:
        """Plan once, to know whether there are rows to change or search tables only."""
        from lcm_core.operations.fixing import plan_fixes

        from lcm_tui.flows.changes import Fixing

        limits = limits_of(self.session.settings, self.session.database.schema)
        self.title_bar.note = "planning …"
        try:
            fixes = await self.session.read(plan_fixes, chosen, limits=limits)
        finally:
            self._say_note()
        if fixes.plan:
            self._preview = self.open(places.Preview(Fixing(chosen, limits, lambda _: self._fixed(chosen))))
        elif not fixes.search:
            why = "; ".join(fixes.left) or "the finding no longer exists"
            self.app.notify(f"There is nothing to change: {why}.", severity="warning", timeout=6)
        elif await self._agreed_to_rebuild(fixes.search, fixes.left):
            await self._fix_search(chosen, fixes.search)

    async def _agreed_to_rebuild(self, tables: Sequence[str], left: Sequence[str]) -> bool:
        """Ask before search tables are rebuilt when no row has to change."""
        said = (
            Block("No conversation row changes. These search tables will be rebuilt where they are wrong:"),
            Block(", ".join(tables), "key", indent=2),
            Block(
                "A few hundred rows at a time, so a host hardly waits. Nothing to undo: search tables are "
                "built from messages and summaries and contain nothing else."
            ),
            *(Block(f"Left: {one}.", "warn") for one in left),
        )
        question = Question("Rebuild search tables", said, (("a", "apply"),))
        return await self.app.push_screen_wait(question) == "a"

    async def _fix_search(self, chosen: Sequence[Finding], tables: Sequence[str]) -> None:
        from lcm_tui.flows.changes import bring_in_step

        self._writes_search = True
        try:
            done = await bring_in_step(self.session.database, tables)
        finally:
            self._writes_search = False
        severity: SeverityLevel = "warning" if done.warns else "information"
        self.app.notify(done.text, title=done.title, severity=severity, timeout=DONE_SECONDS)
        self._fixed(chosen)

    def _fixed(self, fixed: Sequence[Finding]) -> None:
        """Take the marks away, and check again what these findings were found by."""
        self._preview = None
        self.list.marks.clear()
        self.examiner.check_again({one.check for one in fixed})

    # -- other commands ------------------------------------------------------------------------------------

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
        commands.FIX.does(_fix, _why_not_fix),
        *actions.edit_keys(_summary, hidden=False),
        commands.TRACE.does(
            _trace,
            lambda s: None if s._summary() else "the selected finding is about no summary",
            hidden=False,
        ),
        actions.repair_key(lambda s: s.conversation),
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
        commands.SCOPE.does(
            _turn_scope, _why_no_scope, title_now=lambda s: "Only this one" if not s.list.narrowed else ""
        ),
        commands.CONTEXT.does(
            _open_context, _why_no_place, help="Show the context that the selected finding is in."
        ),
        commands.SUMMARIES.does(
            _open_summaries, _why_no_place, help="Show the summary DAG that the selected finding is in."
        ),
        commands.HISTORY.does(_open_history),
        *row_keys("finding", lambda s: s.list.table),
    )
    COMMON: ClassVar[Sequence[Key[HealthScreen]]] = (commands.RELOAD.does(lambda s: s.examiner.check_all()),)
