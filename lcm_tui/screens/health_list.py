"""The list of the health screen: groups that fold, findings that open into their rows, and what is marked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from lcm_core.base.findings import Finding, RowRef
from lcm_core.checks.check import FoundRow
from textual import on

from lcm_tui.kit.lines import LineView
from lcm_tui.kit.listing import MARK, ListPane, Marks
from lcm_tui.kit.spans import Column, Line, Span
from lcm_tui.tables.blocks import cells_of
from lcm_tui.tables.findings import FINDING_COLUMNS, can_fix
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
    check_group_cells,
    check_line,
    first_to_look_at,
    group_line,
    lines_of,
    more_line,
    row_line,
)
from lcm_tui.tables.summaries import ShortIds


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
        self._ids = ShortIds()
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
        self._ids = ShortIds(
            text
            for one in examination.findings.values()
            for text in (one.sentence, *(str(ref.key[0]) for ref in one.rows[:ROWS_SHOWN] if ref.key))
        )
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

    def findings_of(self, key: GroupKey | CheckGroupKey) -> list[Finding]:
        """Those that a line stands for."""
        return [self.examination.findings[name] for name in self._below(key)]

    def chosen(self) -> list[Finding]:
        """The marked findings; without marks those under the cursor, of a heading all below it."""
        selected, findings = self.table.selected, self.examination.findings
        if not self.marks and isinstance(selected, GroupKey | CheckGroupKey):
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
        """The cells of a finding's line, or of a line for several findings of one check."""
        if isinstance(key, CheckGroupKey):
            fixable = [name for name in self._below(key) if can_fix(self.examination.findings[name])]
            mark = MARK if fixable and all(name in self.marks for name in fixable) else ""
            return check_group_cells(self.findings_of(key), mark, folded=self.is_folded(key))
        assert isinstance(key, FindingKey)
        mark = MARK if key.key in self.marks else ""
        return self._ids.within(cells_of(FINDING_COLUMNS, self.examination.findings[key.key], mark), "what")

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
                return (row_line(ref, self.rows.get(name, {}).get(place), self._ids),)
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
