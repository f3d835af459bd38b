"""All focus briefs of a conversation, and the text of the one that is selected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import ClassVar

from lcm_core.focus_view import measure_briefs
from lcm_core.records import Conversation
from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType

from lcm_tui import places
from lcm_tui.actions.links import to
from lcm_tui.actions.series import row_actions
from lcm_tui.commands import AS_SENT, STEPPED, Action, bindings
from lcm_tui.data_screen import DataScreen
from lcm_tui.panes.finding import Finder, TextFinder
from lcm_tui.screens.briefs.changing import BriefChanges
from lcm_tui.screens.briefs.panes import BriefList
from lcm_tui.screens.briefs.reads import Briefs, read_briefs
from lcm_tui.views.brief import brief_document, sent_document
from lcm_tui.widgets.lines import LineView
from lcm_tui.widgets.text import TextView
from lcm_tui.widgets.two_panes import TwoPanes


class BriefsScreen(DataScreen[Briefs]):
    """The focus briefs of one conversation."""

    HELP = """
A focus brief is a text about one question, written from older parts of a conversation. While one is active,
the engine sends it instead of the summaries it covers; inactive briefs are kept as a record.

● marks the active brief. "covers to" is the time of the newest message that it covers, "saves" how
many fewer tokens are sent. A brief is stale when its sources changed or there are newer summaries; newer
messages alone are sent as they are. The text below says what came. enter moves into the text, m switches to
what the model receives.

ctrl+n writes a new brief about a question that you type, with a model or by hand; r rewrites the active one
with newer summaries. * makes an older brief active, K deactivates the active one and keeps it, X deletes one.
Each is previewed first, and can be undone. Before it writes a brief, and after clearing, the engine sweeps
the context: the passes are shown with their cost, and belong to the same batch.
"""
    BINDINGS: ClassVar[list[BindingType]] = list(
        bindings(
            *(
                "open",
                "new-brief",
                "rewrite",
                "activate",
                "archive",
                "delete",
                "other-view",
                "context",
                "history",
                *STEPPED,
            )
        )
    )
    WORDS: ClassVar[Mapping[str, tuple[str, str]]] = MappingProxyType(
        {
            **AS_SENT,
            "rewrite": ("Refocus", "Rewrite the active brief with newer summaries."),
            "archive": ("Clear", "Preview deactivating the active brief, which is kept."),
            "delete": ("Delete", "Preview deleting this brief."),
        }
    )

    def __init__(self, conversation: Conversation, *, select: str | None = None, find: str = "") -> None:
        """*find*: what was found in the selected brief, which is shown there."""
        super().__init__()
        self.conversation = conversation
        self.list = BriefList()
        self.text = TextView(id="text")
        self._in_text = TextFinder(self.text)
        self.changes = BriefChanges(self, conversation, self.list)
        self._as_sent = False
        self._wanted = select  #: the brief to select
        self._find = find
        self._shown: tuple[str, bool] | None = None  #: the brief whose text is shown, and whether as sent

    def compose_body(self) -> ComposeResult:
        """The list above, the text below."""
        yield TwoPanes(self.list, self.text, shares=(0.6, 1 / 3))

    def actions(self) -> Sequence[Action]:
        """Reading a brief, as it is stored and as it is sent."""
        return (
            Action("open", self.text.focus, self.list.why_none),
            Action("other-view", self._turn_form, self._why_not_sent),
            *self.changes.actions(),
            to(self, "context", places.Context(self.conversation)),
            to(self, "history", places.History(self.conversation, only=True)),
            *row_actions(self, "brief", lambda: self.list.table),
        )

    def where(self) -> str:
        """Whose briefs."""
        return f"Focus briefs {self.session.called(self.conversation)}"

    def main_widget(self) -> LineView[str]:
        """The list."""
        return self.list.table

    def finder(self) -> Finder:
        """The search in the text."""
        return self._in_text

    def step_back(self) -> bool:
        """Leave the text first."""
        if self.text.has_focus:
            self.list.table.focus()
            return True
        return False

    def stand_on(self, ref: str | int) -> None:
        """Select a brief that a change has brought, as soon as it has been read."""
        self._wanted = str(ref)
        self.load()

    def selected_id(self) -> str | None:
        """The brief's id."""
        return self.list.table.selected

    async def fetch(self) -> Briefs:
        """The briefs; what is around them is read when they are shown."""
        return await self.session.read(read_briefs, self.conversation.conversation_id)

    def show(self, data: Briefs) -> None:
        """Show them; the selection stays on its brief."""
        self._list(data.known_from(self.list.briefs))
        if data.by_id:
            self.work_on("measure", self._measure, data)

    async def _measure(self, data: Briefs) -> None:
        """Read what is around the briefs: a walk below every summary of the context."""
        owner, zone = self.conversation.conversation_id, self.session.engine_zone
        found = await self.session.read(measure_briefs, owner, data.briefs, zone=zone)
        self._list(data.measured(found))
        self._find = ""  # the facts above the text have grown: its matches are on other lines

    def _list(self, data: Briefs) -> None:
        self.list.zone = self.session.zone
        self.list.recorded = self.session.database.schema.has("focus_briefs")
        self.list.show(data)
        if self._wanted is not None and self.list.table.select(self._wanted):
            self._wanted = None
        self.title_bar.note = f"{len(data.by_id):,}" if data.by_id else ""
        self._show_text()

    @on(LineView.Highlighted, "#list")
    def _highlighted(self) -> None:
        self._show_text()

    def _show_text(self) -> None:
        entry, briefs = self.list.selected, self.list.briefs
        if entry is None or briefs is None:
            self.text.show(())
            return
        overlay = briefs.overlay_of(entry.brief.brief_id)
        if self._as_sent and overlay is not None:
            document = sent_document(overlay)
        else:
            document = brief_document(entry.brief, entry.entry, overlay, self.session.zone)
        shown = (entry.brief.brief_id, self._as_sent)
        self.text.show(document, keep_place=shown == self._shown)
        self._shown = shown
        if self._find and self._wanted is None:
            self._in_text.stand_on_match(self._find)

    def _why_not_sent(self) -> str | None:
        """Only the brief in force is sent."""
        entry, briefs = self.list.selected, self.list.briefs
        if entry is None or briefs is None:
            return "no brief is selected"
        sent = self._as_sent or briefs.overlay_of(entry.brief.brief_id) is not None
        return None if sent else "this brief is not sent to the model"

    def _turn_form(self) -> None:
        """Switch between the text and what the model gets."""
        self._as_sent = not self._as_sent
        self._show_text()
        self.refresh_bars()

    def title_now(self, command: str) -> str:
        """`m` gives the other form."""
        return "As stored" if command == "other-view" and self._as_sent else super().title_now(command)
