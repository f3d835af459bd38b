"""All focus briefs of a conversation, and the text of the one that is selected."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

from lcm_core.base.errors import LcmError
from lcm_core.base.records import Conversation, ConversationId, FocusBrief
from lcm_core.base.values import Record, field, replace
from lcm_core.change.commit import Committed
from lcm_core.change.journal import new_batch_id
from lcm_core.engine.wrapper import FocusOverlay
from lcm_core.operations.focus import MOST_PROMPT, FocusKind, MeasuredBriefs, measure_briefs
from lcm_core.operations.selection import Mode
from lcm_core.store.database import Reader
from lcm_core.store.focus import active_in, list_briefs
from textual import on
from textual.app import ComposeResult

from lcm_tui.flows.compaction import CompactionWish, plan_compaction
from lcm_tui.flows.drafts import choose_writer
from lcm_tui.flows.focus import BriefOnScreen, activating, clearing, deleting_brief
from lcm_tui.kit import commands, places
from lcm_tui.kit.commands import Key
from lcm_tui.kit.dialogs import Question
from lcm_tui.kit.lines import LineView
from lcm_tui.kit.listing import Finder, ListPane, TextFinder
from lcm_tui.kit.panes import TwoPanes
from lcm_tui.kit.spans import Block, Column, Span
from lcm_tui.kit.text import TextView
from lcm_tui.screens import actions
from lcm_tui.screens.reading import DataScreen, row_keys
from lcm_tui.tables.blocks import cells_of
from lcm_tui.tables.focus import BRIEF_COLUMNS, ListedBrief, brief_document, sent_document, sweep_text

# -- what it reads ---------------------------------------------------------------------------------------
# First the briefs, then what is around them.


class Briefs(Record, frozen=True):
    """The briefs of a conversation by their ids, newest first, and what the one in force does."""

    by_id: Mapping[str, ListedBrief] = field(default_factory=dict)
    overlay: FocusOverlay | None = None  #: None: it covers nothing of the context, or that is not read yet

    @property
    def active(self) -> str | None:
        """The id of the brief that the engine uses."""
        return next((key for key, one in self.by_id.items() if one.is_active), None)

    @property
    def briefs(self) -> tuple[FocusBrief, ...]:
        """The briefs alone."""
        return tuple(one.brief for one in self.by_id.values())

    def overlay_of(self, brief_id: str) -> FocusOverlay | None:
        """What a brief is sent instead of; None when it is not sent."""
        overlay = self.overlay
        return overlay if overlay is not None and overlay.brief.brief_id == brief_id else None

    def known_from(self, before: Briefs | None) -> Briefs:
        """The same with what was read *before* around briefs that are the same, until it is read again."""
        if before is None:
            return self
        entries = {key: one.entry for key, one in before.by_id.items()}
        found = {
            key: replace(one, entry=held)
            if (held := entries.get(key)) is not None and held.brief == one.brief
            else one
            for key, one in self.by_id.items()
        }
        return Briefs(found, before.overlay if before.active == self.active else None)

    def measured(self, found: MeasuredBriefs) -> Briefs:
        """The same with what is around them."""
        entries = {entry.brief.brief_id: entry for entry in found.entries}
        by_id = {key: replace(one, entry=entries.get(key)) for key, one in self.by_id.items()}
        return Briefs(by_id, found.overlay)


async def read_briefs(reader: Reader, conversation_id: ConversationId) -> Briefs:
    """The briefs alone: quick, however long the context is."""
    known = await list_briefs(reader, conversation_id)
    active = active_in(known)
    return Briefs({one.brief_id: ListedBrief(one, one is active) for one in known})


# -- the list --------------------------------------------------------------------------------------------

COLUMNS: Final = tuple(column for column in BRIEF_COLUMNS if column.width)


class BriefList(ListPane[str]):
    """Briefs, newest first; a dot marks the one in force."""

    def __init__(self) -> None:
        super().__init__(id="chosen")
        self.briefs: Briefs | None = None
        self.recorded = True  #: whether this version of the engine has briefs

    def show(self, briefs: Briefs) -> None:
        """List what was read; the cursor stays on its brief, and new ones are marked."""
        before, self.briefs = self.briefs, briefs
        self.relist()
        if before is not None:
            known = {key: entry.brief for key, entry in before.by_id.items()}
            fresh = (key for key, entry in briefs.by_id.items() if known.get(key) != entry.brief)
            self.table.mark_fresh(list(fresh))

    @property
    def selected(self) -> ListedBrief | None:
        """The brief under the cursor."""
        key = self.table.selected
        return self.briefs.by_id.get(key) if self.briefs is not None and key is not None else None

    def why_none(self) -> str | None:
        """Why nothing can be done with what is selected."""
        return "no brief is selected" if self.selected is None else None

    # -- listing -----------------------------------------------------------------------------------------

    def matching(self, words: Sequence[str]) -> Sequence[str]:
        """All of them: they are few, so nothing filters them."""
        del words
        return list(self.briefs.by_id) if self.briefs is not None else ()

    def why_empty(self) -> str:
        """There are none, or this version knows none."""
        if not self.recorded:
            return "Focus briefs: not recorded by this version (added in 0.11.0)."
        return "This conversation has no focus briefs."

    def columns(self) -> Sequence[Column]:
        """What is said of a brief."""
        return COLUMNS

    def cells(self, key: str) -> Mapping[str, Span]:
        """A brief in a line."""
        assert self.briefs is not None  # it has been listed
        return cells_of(COLUMNS, self.briefs.by_id[key], self.zone)


# -- the screen ------------------------------------------------------------------------------------------


class BriefsScreen(DataScreen[Briefs]):
    """The focus briefs of one conversation."""

    HELP = """
A focus brief is a text about one question, written from older parts of a conversation.

While one is active, the engine sends it instead of the summaries it covers; inactive briefs are kept as a
record.

● marks the active brief. "covers to" is the time of the newest message that it covers, "saves" how many fewer
tokens are sent. A brief is stale when its sources changed or there are newer summaries; newer messages alone
are sent as they are. The text below says what came. enter moves into the text, m switches to what the model
receives.

ctrl+n writes a new brief about a question that you type, with a model or by hand; r rewrites the active one
with newer summaries. * makes an older brief active, K deactivates the active one and keeps it, X deletes one.
Each is previewed first, and can be undone. Before it writes a brief, and after clearing, the engine sweeps
the context: the passes are shown with their cost, and belong to the same batch.
"""

    def __init__(self, conversation: Conversation, *, select: str | None = None, find: str = "") -> None:
        """*find*: what was found in the selected brief, which is shown there."""
        super().__init__()
        self.conversation = conversation
        self.list = BriefList()
        self.text = TextView(id="text")
        self._in_text = TextFinder(self.text)
        self._as_sent = False
        self._wanted = select  #: the brief to select
        self._find = find
        self._shown: tuple[str, bool] | None = None  #: the brief whose text is shown, and whether as sent

    def compose_body(self) -> ComposeResult:
        """The list above, the text below."""
        yield TwoPanes(self.list, self.text, shares=(0.6, 1 / 3))

    def where(self) -> str:
        """Whose briefs."""
        return f"Focus briefs {self.session.called(self.conversation)}"

    def main_widget(self) -> LineView[str]:
        """The list."""
        return self.list.table

    def finder(self) -> Finder:
        """The search in the text."""
        return self._in_text

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

    # -- reasons -----------------------------------------------------------------------------------------

    def _why_unknown(self) -> str | None:
        if self.list.briefs is None:
            return "still loading: try again in a moment"
        return None if self.list.recorded else "this engine version has no focus briefs (added in 0.11.0)"

    def _why_none_active(self) -> str | None:
        if (unknown := self._why_unknown()) is not None:
            return unknown
        briefs = self.list.briefs
        found = briefs is not None and briefs.active is not None
        return None if found else "no focus brief is active"

    def _why_not_activated(self) -> str | None:
        entry = self.list.selected
        if entry is None:
            return self.list.why_none()
        if entry.is_active:
            return "this brief is active"
        return None if entry.brief.content.strip() else "this brief has no text"

    # -- commands ----------------------------------------------------------------------------------------

    async def _new(self) -> None:
        typed = await self.ask("What should the brief be about?", check=_prompt_problem)
        if typed is not None and typed.strip():
            self._write(FocusKind.CREATE, typed.strip())

    def _refocus(self) -> None:
        briefs = self.list.briefs
        if briefs is not None and briefs.active is not None:
            self._write(FocusKind.REFOCUS, briefs.by_id[briefs.active].brief.prompt)

    def _write(self, kind: FocusKind, prompt: str) -> None:
        work = BriefOnScreen(self.session, self.conversation, kind, prompt)
        self.open(places.BriefDraft(work))

    def _activate(self) -> None:
        if (entry := self.list.selected) is not None:
            self.open(places.Preview(activating(self.conversation, entry.brief.brief_id)))

    def _delete(self) -> None:
        if (entry := self.list.selected) is not None:
            self.open(places.Preview(deleting_brief(self.conversation, entry.brief.brief_id)))

    async def _clear(self) -> None:
        """Preview it, with what the engine does behind it; then offer that."""
        session, batch = self.session, new_batch_id()
        passes, notes = "", []
        try:
            wish = CompactionWish(Mode.SWEEP, session.budget)
            seen = await plan_compaction(session.database, session.settings, self.conversation, wish, None)
            if seen.forecast.passes:
                seen = replace(seen, model=await asyncio.to_thread(choose_writer, session.settings))
                passes = sweep_text(seen)
                notes.append(f"The engine then sweeps: {passes}; offered after this")
        except LcmError as error:
            notes.append(f"The sweep after it cannot be estimated: {error.message.rstrip('.')}")

        def then(done: Sequence[Committed]) -> None:
            if done and passes:
                self.work_on("sweep", self._offer_sweep, passes, batch, exclusive=False)

        self.open(places.Preview(clearing(self.conversation, batch, notes, then)))

    async def _offer_sweep(self, passes: str, batch: str) -> None:
        question = Question(
            "Sweep the context?",
            (Block(f"{passes}. The engine would sweep now; the passes belong to the same batch."),),
            (("a", "show the passes with their cost"),),
            leave="skip it; the engine would not",
            decides=False,
        )
        if await self.app.push_screen_wait(question):
            self.open(places.Compaction(self.conversation, batch))

    KEYS: ClassVar[Sequence[Key[BriefsScreen]]] = (
        commands.OPEN.does(lambda s: s.text.focus(), lambda s: s.list.why_none()),
        Key(
            "new-brief",
            "ctrl+n",
            "New brief",
            "Write a focus brief about one question, with a model or by hand.",
            _new,
            _why_unknown,
            words="focus on; new focus; write brief",
            where="focus briefs",
        ),
        commands.REWRITE.does(
            _refocus,
            _why_none_active,
            title="Refocus",
            help="Rewrite the active brief with newer summaries.",
        ),
        Key(
            "activate",
            "asterisk",
            "Activate",
            "Preview making the selected focus brief the active one.",
            _activate,
            _why_not_activated,
            where="focus briefs",
            of_row=True,
        ),
        commands.ARCHIVE.does(
            _clear,
            _why_none_active,
            title="Clear",
            help="Preview deactivating the active brief, which is kept.",
        ),
        commands.DELETE.does(_delete, lambda s: s.list.why_none(), help="Preview deleting this brief."),
        commands.OTHER_VIEW.does(
            _turn_form,
            _why_not_sent,
            title="As sent",
            help="Switch between the text as stored and as sent to the model.",
            title_now=lambda s: "As stored" if s._as_sent else "",
        ),
        actions.ITS_CONTEXT,
        actions.ITS_HISTORY,
        *row_keys("brief", lambda s: s.list.table),
    )


def _prompt_problem(text: str) -> str | None:
    said = len(text.strip())
    return None if said <= MOST_PROMPT else f"at most {MOST_PROMPT:,} characters, not {said:,}"
