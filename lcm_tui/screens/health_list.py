"""The list of findings: groups that fold, findings that open into the rows they are about, and marks."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from lcm_core.findings import Confidence, Finding
from lcm_core.records import Conversation
from lcm_core.store.found_rows import FoundRow, found_rows
from textual import on
from textual.app import ComposeResult

from lcm_tui.screens.health_fix import Mending
from lcm_tui.screens.health_rows import (
    COLUMNS,
    FOLDED,
    MARK,
    Group,
    HealthKey,
    can_fix,
    check_line,
    finding_cells,
    group_line,
    in_order,
    keys_of,
    more_line,
    row_line,
)
from lcm_tui.screens.health_run import HeadLine
from lcm_tui.screens.health_text import ROWS_SHOWN
from lcm_tui.screens.listing import PanedScreen
from lcm_tui.widgets.lines import LineView
from lcm_tui.widgets.spans import Column, Line, Span


class FindingList(PanedScreen[HealthKey], Mending):
    """Findings by how sure and how bad they are; a key is a group, a finding, one of its rows, or a check."""

    FILTER = "a check, words of a finding, fix, conversation 3"
    READING = "Checking …"

    def __init__(self, conversation: Conversation | None, *, only: bool) -> None:
        super().__init__(conversation, only=only)
        self._groups: list[Group] = []
        self._folded: set[str] = set(FOLDED)
        self._opened: set[str] = set()  #: findings of which the rows are listed
        self._rows: dict[str, dict[int, FoundRow]] = {}  #: what was read of rows, by finding and place
        self._unread: set[str] = set()  #: findings of which the rows were not read since the last answers
        self._placed: HealthKey | None = None  #: where the cursor was put, as long as nobody moved it
        self._wanted: HealthKey | None = None  #: where to stand when it is listed again

    @abstractmethod
    def describe(self) -> None:
        """Say what is known of the selected line."""

    def compose_body(self) -> ComposeResult:
        """How far the checks are, the findings, and what is known of one beside or below them."""
        yield HeadLine(id="head")
        yield from super().compose_body()

    # -- the list ----------------------------------------------------------------------------------------

    def show_findings(self) -> None:
        """List what is known now; the cursor stays on its finding."""
        findings = self.examination.findings
        self._unread = set(findings)
        for gone in [key for key in self.marks if key not in findings]:
            del self.marks[gone]
        self.relist()
        self.say_state()

    def matching(self, words: Sequence[str]) -> Sequence[HealthKey]:
        """The lines of the groups that are unfolded and of the findings that are open."""
        self._groups = self.examination.groups(words)
        findings = self.examination.findings
        opened = {key: len(findings[key].rows) for key in self._opened if key in findings}
        return keys_of(self._groups, self.folded, opened)

    def say_state(self) -> None:
        """Say in the list too, when it is empty, whether checks still run."""
        super().say_state()
        if self.is_attached and self.is_mounted:
            self.table.empty = self.why_empty()

    def why_empty(self) -> str:
        """Nothing was found yet, passes the filter, or is wrong."""
        none = "Nothing matches." if self._filter.strip() else "Nothing was found."
        return "Checking …" if self.checking else none

    def note(self) -> str:
        """What is marked and what the list is filtered by."""
        said = [f"{MARK} {len(self.marks):,} marked"] if self.marks else []
        return "  ".join([*said, f"/{self._filter}"] if self._filter else said)

    @property
    def folded(self) -> set[str]:
        """The groups of which only the heading is shown: none under a filter."""
        return set() if self._filter.strip() else self._folded

    def standing(self, keys: Sequence[HealthKey]) -> HealthKey | None:
        """Where to stand as long as nobody has moved."""
        selected = self.table.selected
        if selected is not None and selected != self._placed:
            return None
        place = self._first(keys)
        self._placed = place if place is not None else self._placed
        return place

    def _first(self, keys: Sequence[HealthKey]) -> HealthKey | None:
        """Where to stand before anybody has moved: on a bad summary of the conversation one came from."""
        if self._wanted in keys:
            return self._wanted
        owner = self.conversation.conversation_id if self.conversation is not None else None
        findings = self.examination.findings
        theirs = [
            key
            for key in keys
            if key[0] == "finding" and owner is not None and findings[key[1]].conversation_id == owner
        ]
        bad = (
            key
            for key in theirs
            if findings[key[1]].check[0] == "C" and findings[key[1]].confidence is Confidence.BROKEN
        )
        return next(bad, theirs[0] if theirs else in_order(keys))

    # -- drawing -----------------------------------------------------------------------------------------

    def columns(self) -> Sequence[Column]:
        """Whose finding it is only where there are several conversations."""
        return [column for column in COLUMNS if not (self._only and column.name == "conversation")]

    def cells(self, key: HealthKey) -> dict[str, Span]:
        """What stands in the line of a finding."""
        finding = self.examination.findings[key[1]]
        return finding_cells(finding, marked=key[1] in self.marks)

    def draw(self, key: HealthKey, width: int) -> Sequence[Line]:
        """A heading, a finding, a row of one, or a check that was not run."""
        kind, name = key[0], key[1]
        finding = self.examination.findings.get(name)
        match kind:
            case "group":
                group = next((one for one in self._groups if one.name == name), None)
                folded = name in self.folded
                return (group_line(group, folded=folded),) if group is not None else ()
            case "check":
                return (check_line(self.examination.results[name]),)
            case "more":
                return (more_line(name, self.examination.cut.get(name, 0)),)
            case "row" if finding is not None:
                place = int(key[2])
                return (row_line(finding.rows[place], self._rows.get(name, {}).get(place)),)
            case _:
                return super().draw(key, width) if finding is not None else ()

    # -- folding and opening ---------------------------------------------------------------------------------

    @on(LineView.Sided, "#list")
    def _sided(self, event: LineView.Sided) -> None:
        key: HealthKey | None = event.key
        if key is None:
            return
        if event.side > 0:
            self._unfold(key)
        else:
            self._fold(key)

    def toggle(self, group: HealthKey) -> None:
        """Unfold a group, or fold it."""
        if group[1] in self.folded:
            self._unfold(group)
        else:
            self._fold(group)

    def _unfold(self, key: HealthKey) -> None:
        if key[0] == "group":
            self._folded.discard(key[1])
        elif key[0] == "finding":
            self._opened.add(key[1])
            self._unread.add(key[1])
        self._relist_at(key)

    def _fold(self, key: HealthKey) -> None:
        if key[0] == "row" or (key[0] == "finding" and key[1] in self._opened):
            self._opened.discard(key[1])
            self._relist_at(("finding", key[1]))
            return
        group = next((one for one in self._groups if key in one.keys), None)
        name = key[1] if key[0] == "group" else group.name if group is not None else None
        if name is not None:
            self._folded.add(name)
            self._relist_at(("group", name))

    def _relist_at(self, key: HealthKey) -> None:
        self._placed = None
        self.relist()
        self.table.select(key)
        self.want_rows()

    # -- the rows of findings ------------------------------------------------------------------------------

    @on(LineView.Scrolled, "#list")
    def _scrolled(self) -> None:
        self.want_rows()

    def want_rows(self) -> None:
        """Read the rows of what is selected and of what is open in sight, as far as they are not known."""
        wanted = [key[1] for key in self.table.visible_keys if key[0] == "row"]
        selected = self.table.selected
        if selected is not None and selected[0] in {"finding", "row"}:
            wanted.append(selected[1])
        missing = [name for name in dict.fromkeys(wanted) if name in self._unread]
        if missing:
            self.work_on("rows", self._read_rows, missing)

    async def _read_rows(self, names: Sequence[str]) -> None:
        for name in names:
            finding = self.examination.findings.get(name)
            if finding is None:
                continue
            refs = finding.rows if name in self._opened else finding.rows[:ROWS_SHOWN]
            rows = await self.session.read(found_rows, refs)
            self._rows[name] = dict(enumerate(rows))
            self._unread.discard(name)
            self.table.redraw([("row", name, str(place)) for place in range(len(rows))])
            self.describe()

    # -- marking ------------------------------------------------------------------------------------------

    def finding_at_cursor(self) -> Finding | None:
        """The finding under the cursor, or whose row is."""
        key = self.table.selected
        return self.examination.findings.get(key[1]) if key and key[0] in {"finding", "row"} else None

    def action_mark(self) -> None:
        """Mark a finding, or all of a group; once more takes the marks away."""
        keys = self._markable()
        if all(key in self.marks for key in keys):
            for key in keys:
                del self.marks[key]
        else:
            self.marks.update(dict.fromkeys(keys))
        self.table.redraw([("finding", key) for key in keys])
        if len(keys) == 1:
            self.table.action_move(1)
        self.say_note()
        self.refresh_bars()

    def _markable(self) -> list[str]:
        """The findings under the cursor that can be mended together with others."""
        key = self.table.selected
        findings = self.examination.findings
        if key is None:
            return []
        held = [key]
        if key[0] == "group":
            held = next((one.keys for one in self._groups if one.name == key[1]), [])
        elif key[0] == "row":
            held = [("finding", key[1])]
        return [one[1] for one in held if one[0] == "finding" and can_fix(findings[one[1]])]

    def chosen(self) -> list[Finding]:
        """The marked findings; without marks the one under the cursor."""
        findings = self.examination.findings
        if self.marks:
            return [findings[key] for key in self.marks if key in findings]
        selected = self.finding_at_cursor()
        return [] if selected is None else [selected]
