"""Health: what the checks find in a database or in one conversation, why it matters, and what fixes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import ClassVar

from lcm_core.checks import Repetition, repetitions_of
from lcm_core.findings import Finding, RowRef
from lcm_core.records import Conversation, ConversationId
from lcm_core.store.found_rows import found_rows
from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType

from lcm_tui import places
from lcm_tui.actions.drafts import repair_action
from lcm_tui.actions.series import Series, row_actions
from lcm_tui.commands import COMMANDS, STEPPED, Action, bindings
from lcm_tui.frame import CommandScreen
from lcm_tui.panes.finding import Finder
from lcm_tui.panes.listing import Beside
from lcm_tui.screens.health.examining import Examiner
from lcm_tui.screens.health.fixing import Fixer
from lcm_tui.screens.health.panes import FindingList, HeadLine
from lcm_tui.screens.health.reads import leads_to, place_of
from lcm_tui.views.examination import CheckKey, FindingKey, GroupKey, HealthKey, MoreKey, RowKey
from lcm_tui.views.findings import REPEATING
from lcm_tui.views.health import (
    check_document,
    finding_document,
    found_line,
    group_document,
    progress_line,
)
from lcm_tui.widgets.lines import LineView
from lcm_tui.widgets.text import Block, Document, TextView


class HealthScreen(CommandScreen):
    """The findings of the checks, by confidence and severity."""

    HELP = """
What is wrong with this database, or with one conversation of it (T switches). Checks run in the background;
esc stops them. Checks that read no text come first, then those that do, then the slow ones: SQLite's
integrity_check and the search index. For one conversation, or a database over 1 GB, the slow ones wait for 1.

✗ broken: no engine version writes this, or the engine marked a text as no summary. ? suspicious: damage, or
intended by someone. · by design: looks like damage but is not. "fix" marks findings with a safe fix that
needs no model. – skipped: the reason is shown. h folds, l unfolds; l on a finding lists its rows. The pane
says why it matters and what the fix would do.

enter opens the place. space marks findings that can be fixed, on a heading all below it; x previews one fix
for all that is marked. Afterwards the search tables are updated and the checks run again. A split session
opens the merge preview; R rewrites broken summaries. When the database changes, ctrl+r runs the checks again.
"""
    BINDINGS: ClassVar[list[BindingType]] = list(
        bindings("open", "fix", "repair", "mark", "whole-file", "scope", "history", *STEPPED)
    )
    #: Beside "Fix", which needs no model, it says what it repairs.
    WORDS: ClassVar[Mapping[str, tuple[str, str]]] = MappingProxyType(
        {"repair": ("Repair summaries", COMMANDS["repair"].help)}
    )

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

    def actions(self) -> Sequence[Action]:
        """Going to what was found, fixing it, and running the checks."""
        return (
            Action("open", self._open, self._why_not_open),
            Action("mark", self.list.mark, self._why_not_mark),
            Action("fix", self._fixer.fix, self._fixer.why_not),
            repair_action(self, lambda: self.conversation),
            Action("whole-file", self.examiner.check_whole_file, self._why_not_whole_file),
            Action("reload", self.examiner.check_all),
            Action("scope", self._turn_scope, self._why_no_scope),
            Action("history", self._open_history),
            *row_actions(self, "finding", lambda: self.list.table),
        )

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
        selected = self.list.table.selected
        return selected.check if isinstance(selected, CheckKey) else self.list.finding_key

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
            line = progress_line(run.examination, run.share, run.stage)
        else:
            reload = self.key_of("reload") if run.outdated else None
            line = found_line(run.examination, ended=run.ended, reload=reload, fix=self.key_of("fix"))
        self.head.say(line)
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
        """Go to the place that a finding or its row is about; a heading folds."""
        key, finding = self.list.table.selected, self.list.finding
        if isinstance(key, GroupKey):
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

    async def _place_of(self, key: HealthKey) -> places.Place | None:
        """Where a finding is, unless it is about the whole database."""
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
