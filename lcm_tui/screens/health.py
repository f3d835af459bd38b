"""Health: what the checks find in a database or in one conversation, why it matters, and what mends it."""

from __future__ import annotations

from typing import ClassVar

from lcm_core.checks import WHOLE_FILE, Repetition, repetitions_of
from lcm_core.findings import Finding, RowRef
from lcm_core.records import Conversation, ConversationId
from textual import on
from textual.binding import BindingType

from lcm_tui import places
from lcm_tui.commands import bindings
from lcm_tui.screens.health_list import FindingList
from lcm_tui.screens.health_places import leads_to, place_of
from lcm_tui.screens.health_rows import HealthKey
from lcm_tui.screens.health_text import REPEATING, check_document, finding_document, group_document
from lcm_tui.screens.rewriting import Repairing
from lcm_tui.widgets.bars import Heading
from lcm_tui.widgets.lines import LineView
from lcm_tui.widgets.text import Block, Document


class HealthScreen(FindingList, Repairing):
    """The findings of the checks, by how sure and how bad they are."""

    HELP = """
What is wrong with this database, or with one conversation of it (T switches). The checks run beside the keys;
esc stops them. First comes what needs no text, then what does, then what reads the whole file: SQLite's own
check and the search tables. For one conversation, or a file of more than 1 GB, those wait until F asks.

✗ broken: no engine leaves it so. ? suspicious: damage, or something that somebody meant. · by design: looks
like damage and is none. "grade" says what such damage would mean. "fix" says that there is a fix that needs
no model and does not guess. – not run means just that: not asked, and why. h folds, l unfolds; l on a finding
lists its rows. The pane says why it matters and what the fix would do.

enter goes to the place. space marks findings that can be fixed, on a heading all below it; x makes one plan
for what is marked and shows it. After it, search tables are brought in step and the checks run again. A
session that was split goes to merge; bad summaries are written again by R, or by r where enter leads. When
the file changes, nothing is run again by itself: ctrl+r does.
"""
    BINDINGS: ClassVar[list[BindingType]] = list(
        bindings("open", "fix", "repair", "mark", "whole-file", "scope", "history")
    )

    def __init__(self, conversation: Conversation | None = None, *, only: bool = False) -> None:
        """The health of the database; with *only* that of *conversation*, else its findings are stood on."""
        super().__init__(conversation, only=only)
        self._repeated: dict[ConversationId, list[Repetition]] = {}
        self._described: HealthKey | None = None

    def on_mount(self) -> None:
        """Begin with the checks."""
        self.check_all()

    def where(self) -> str:
        """Whose health."""
        if self._only and self.conversation is not None:
            return f"Health of {self.conversation.conversation_id}  {self.conversation.lane}"
        return "Health of the database"

    def show_findings(self) -> None:
        """List what is known now; what is repeated may have changed."""
        self._repeated.clear()
        super().show_findings()

    # -- what is selected ----------------------------------------------------------------------------------

    @on(LineView.Highlighted, "#list")
    def _highlighted(self) -> None:
        self.describe()
        self.want_rows()

    def describe(self) -> None:
        """Say what is known of the selected line."""
        key = self.table.selected
        document = self._document(key) if key is not None else ()
        self.text.show(document, keep_place=key == self._described)
        self._described = key

    def _document(self, key: HealthKey) -> Document:
        finding = self.finding_at_cursor()
        if finding is not None:
            rows = self._rows.get(key[1], {})
            owner = finding.conversation_id
            repeated = self._repeated.get(owner) if owner is not None else []
            return finding_document(key[1], finding, rows, repeated)
        if key[0] == "check":
            return check_document(self.examination.results[key[1]])
        if key[0] == "more":
            return (Block("A check lists a thousand findings. Fix some, or look at one conversation (T)."),)
        return group_document(key[1])

    def want_rows(self) -> None:
        """Read what stands in the rows in sight, and what is repeated where the selected finding asks."""
        super().want_rows()
        finding = self.finding_at_cursor()
        owner = finding.conversation_id if finding is not None and finding.check in REPEATING else None
        if owner is not None and owner not in self._repeated:
            self.work_on("repeated", self._read_repeated, owner)

    async def _read_repeated(self, owner: ConversationId) -> None:
        self._repeated[owner] = await repetitions_of(self.session.database, owner)
        self.describe()

    # -- going on ------------------------------------------------------------------------------------------

    def action_open(self) -> None:
        """Go to the place that a finding or its row is about; a heading folds."""
        key, finding = self.table.selected, self.finding_at_cursor()
        if key is None:
            return
        if key[0] == "group":
            self.toggle(key)
        elif finding is not None:
            place = int(key[2]) if key[0] == "row" else 0
            ref = finding.rows[place] if finding.rows else None
            self.work_on("go", self._go, finding, ref)

    async def _go(self, finding: Finding, ref: RowRef | None) -> None:
        place = await self.session.read(place_of, finding, ref)
        if place is None:
            self.app.notify("This is about the file as a whole: there is no place to go to.", timeout=4)
        elif self.app.screen is self:
            self.open(leads_to(place))

    # -- commands ------------------------------------------------------------------------------------------

    def repaired(self) -> Conversation | None:
        """The conversation that this was opened for."""
        return self.conversation

    def selected_id(self) -> str | None:
        """The id of the finding, as `doctor --fix` takes it; of a check that was not run, its own."""
        key = self.table.selected
        return key[1] if key is not None and key[0] in {"finding", "row", "check"} else None

    def why_not(self, command: str) -> str | None:
        """What the selected line does not offer."""
        key = self.table.selected
        match command:
            case "open":
                if key is None:
                    return "nothing is selected"
                return "it was not run, so it leads nowhere" if key[0] in {"check", "more"} else None
            case "mark":
                return None if self._markable() else "only findings with a fix are marked"
            case "fix":
                return self.why_not_fix()
            case "scope" if self.conversation is None:
                return "no conversation was selected when this was opened"
            case "whole-file" if self.checking and self.asked >= WHOLE_FILE:
                return "the whole file is being read already"
            case _:
                return super().why_not(command)

    def action_reload(self) -> None:
        """Run the checks again."""
        self.check_all()

    def action_whole_file(self) -> None:
        """Run what reads the whole file."""
        self.check([WHOLE_FILE] if not self.checking else [self.asked - WHOLE_FILE, WHOLE_FILE])

    def action_scope(self) -> None:
        """Switch between this conversation and all; what is known of the other stays known."""
        if self.checking:
            self.stop()
        self._only = not self._only
        self._placed = self._wanted = self.table.selected
        self.say_where()
        self.query_one("#heading", Heading).refresh()
        self.show_findings()
        if not self.examination.complete:
            self.check_all()

    def action_history(self) -> None:
        """Show what was changed."""
        self.open(places.History(self.conversation, only=self._only))

    async def action_back(self) -> None:
        """Leave the prompt, the text, the checks that run, the filter, then the screen."""
        if self.checking and not self.asking and not self.text.has_focus:
            self.stop()
        else:
            await super().action_back()
