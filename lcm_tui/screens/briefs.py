"""All focus briefs of a conversation, and the text of the one that is selected."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from lcm_core.assemble.elements import FocusOverlay
from lcm_core.records import Conversation, ConversationId, FocusBrief
from lcm_core.store.briefs import active_brief, focus_overlay, list_briefs
from lcm_core.store.database import Reader
from lcm_core.times import format_local, parse_utc
from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical

from lcm_tui import places
from lcm_tui.commands import bindings
from lcm_tui.frame import DataScreen
from lcm_tui.screens.listing import ListScreen, TextScreen
from lcm_tui.session import Session
from lcm_tui.widgets.bars import TitleBar
from lcm_tui.widgets.lines import LineView
from lcm_tui.widgets.spans import Column, Span, StyleName
from lcm_tui.widgets.text import Block, Document, TextView, field, heading

COLUMNS = (
    Column("mark", "", 1, keep=99),
    Column("status", "status", 10, keep=98),
    Column("created", "created", 16, keep=80),
    Column("covers", "covers to", 16, keep=50),
    Column("tokens", "tokens/target", 13, right=True, keep=60),
    Column("prompt", "prompt", 16, grows=True, keep=90),
    Column("id", "id", 22, keep=30),
)

STATUS_STYLES: dict[str, StyleName] = {"active": "ok", "failed": "error", "draft": "warn"}


@dataclass(frozen=True, slots=True)
class BriefsData:
    """The briefs of a conversation, newest first, and what the one in force does."""

    briefs: tuple[FocusBrief, ...]
    active: str | None  #: id of the brief that the engine uses
    overlay: FocusOverlay | None  #: None: it covers nothing of the context


async def load_briefs(reader: Reader, conversation_id: ConversationId, session: Session) -> BriefsData:
    """Everything that the screen shows, in one transaction."""
    briefs = await list_briefs(reader, conversation_id)
    active = await active_brief(reader, conversation_id)
    overlay = await focus_overlay(reader, conversation_id, session.zone) if active else None
    return BriefsData(tuple(briefs), active.brief_id if active else None, overlay)


class BriefsScreen(TextScreen[str], DataScreen[BriefsData]):
    """The focus briefs of one conversation."""

    HELP = """
A focus brief is a text about one question, written from older parts of a conversation. While one is active,
the engine sends it instead of the summaries that it covers; the others are kept as a record.

● marks the brief in force. "covers to" is the time of the newest message that went into it. enter goes into
the text, m switches to what the model gets.
"""
    BINDINGS: ClassVar[list[BindingType]] = list(bindings("open", "wrapped", "context"))
    DEFAULT_CSS = """
    BriefsScreen {
        #chosen { height: 1fr; min-height: 4; }
        #text { height: 2fr; border-top: solid $foreground 30%; }
    }
    """

    def __init__(self, conversation: Conversation) -> None:
        super().__init__()
        self.conversation = conversation
        self._briefs: dict[str, FocusBrief] = {}
        self._data: BriefsData | None = None
        self._wrapped = False
        self._shown: tuple[str, bool] | None = None

    def compose_body(self) -> ComposeResult:
        """The list above, the text below."""
        with Vertical(id="chosen"):
            yield from ListScreen.compose_body(self)
        yield TextView(id="text")

    def where(self) -> str:
        """Whose briefs."""
        return f"Focus briefs {self.conversation.conversation_id}  {self.conversation.lane}"

    # -- data --------------------------------------------------------------------------------------------

    async def fetch(self) -> BriefsData:
        """The briefs."""
        return await self.session.read(load_briefs, self.conversation.conversation_id, self.session)

    def show(self, data: BriefsData) -> None:
        """Show them; the selection stays on its brief."""
        known = self._briefs
        first = self._data is None
        self._data = data
        self._briefs = {brief.brief_id: brief for brief in data.briefs}
        self.table.empty = self._why_empty()
        self.table.replace(list(self._briefs))
        if not first:
            self.table.mark_fresh([key for key, brief in self._briefs.items() if known.get(key) != brief])
        self.query_one(TitleBar).note = f"{len(data.briefs):,}" if data.briefs else ""
        self._show_text()

    def _why_empty(self) -> str:
        if not self.session.database.schema.has("focus_briefs"):
            return "Focus briefs: not recorded by this version (they came with 0.11.0)."
        return "This conversation has no focus briefs."

    # -- drawing -----------------------------------------------------------------------------------------

    def columns(self) -> Sequence[Column]:
        """What is said of a brief."""
        return COLUMNS

    def cells(self, key: str) -> dict[str, Span]:
        """A brief; a dot marks the one in force."""
        brief = self._briefs[key]
        in_force = self._data is not None and self._data.active == key
        return {
            "mark": Span("●" if in_force else " ", "ok"),
            "status": Span(brief.status, STATUS_STYLES.get(brief.status, "dim")),
            "created": Span(self._time(brief.created_at)[:16]),
            "covers": Span(self._time(brief.covered_latest_at)[:16]),
            "tokens": Span(f"{brief.tokens:,}/{brief.target_tokens:,}"),
            "prompt": Span(brief.prompt),
            "id": Span(brief.brief_id, "key"),
        }

    def _time(self, stored: str | None) -> str:
        return format_local(parse_utc(stored), self.session.zone) or stored or "–"

    @on(LineView.Highlighted, "#list")
    def _highlighted(self) -> None:
        self._show_text()

    def _show_text(self) -> None:
        key = self.table.selected
        brief = self._briefs.get(key) if key is not None else None
        if brief is None or key is None:
            self.text.show(())
            return
        shown = (key, self._wrapped)
        self.text.show(self._document(brief), keep_place=shown == self._shown)
        self._shown = shown

    def _document(self, brief: FocusBrief) -> Document:
        overlay = self._data.overlay if self._data is not None else None
        over = overlay if overlay is not None and overlay.brief.brief_id == brief.brief_id else None
        if self._wrapped and over is not None:
            return (heading("role: user"), Block(over.text))
        covered = "nothing of the context"
        if over is not None:
            covered = f"{', '.join(sorted(over.covered))} at ordinal {over.at_ordinal}"
        seq = brief.covered_message_seq
        instead = [field("instead of", covered)] if brief.status == "active" else []
        return (
            Block(spans=(Span(brief.brief_id, "title"), Span(f"  {brief.status}", "dim"))),
            Block(brief.prompt, "brief"),
            field("covers to", f"{self._time(brief.covered_latest_at)}, seq {'–' if seq is None else seq}"),
            *instead,
            field("made by", f"run {brief.generator_run_id or '–'}, {brief.generator_session_key or '–'}"),
            Block(),
            Block(brief.content) if brief.content.strip() else Block("It has no text.", "dim"),
        )

    # -- commands ----------------------------------------------------------------------------------------

    def selected_id(self) -> str | None:
        """The brief's id."""
        return self.table.selected

    def why_not(self, command: str) -> str | None:
        """Only the brief in force is sent."""
        if command in {"open", "wrapped"} and self.table.selected is None:
            return "no brief is selected"
        if command == "wrapped" and not self._wrapped:
            overlay = self._data.overlay if self._data is not None else None
            if overlay is None or overlay.brief.brief_id != self.table.selected:
                return "this brief is not sent to the model"
        return super().why_not(command)

    def action_wrapped(self) -> None:
        """Switch between the text and what the model gets."""
        self._wrapped = not self._wrapped
        self._show_text()

    def action_context(self) -> None:
        """Show the context that the brief stands in."""
        self.open(places.Context(self.conversation))
