"""The previous context of a summary, and the source text that a summary is made from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

from lcm_core.base.errors import NotFoundError
from lcm_core.base.records import Conversation, Summary, SummaryId, SummaryText
from lcm_core.base.text import counted, safe_text
from lcm_core.base.values import Record, field
from lcm_core.engine.previous import Candidate, PreviousChoice, PreviousContext
from lcm_core.store import summaries
from lcm_core.store.database import Reader
from lcm_core.store.previous import leaves_beside
from lcm_core.writers.source import previous_of
from textual import on
from textual.app import ComposeResult

from lcm_tui.kit import commands, places
from lcm_tui.kit.commands import Key
from lcm_tui.kit.lines import LineView
from lcm_tui.kit.listing import Finder, ListPane, TextFinder
from lcm_tui.kit.panes import TwoPanes
from lcm_tui.kit.session import Session
from lcm_tui.kit.spans import Block, Column, Document, Line, Span, heading, text_field
from lcm_tui.kit.text import TextView
from lcm_tui.screens import actions
from lcm_tui.screens.frame import CommandScreen
from lcm_tui.screens.reading import DataScreen, TextScreen
from lcm_tui.tables.blocks import cells_of, kind_words
from lcm_tui.tables.items import ItemData, facts
from lcm_tui.tables.previous import CONSIDERED_COLUMNS, ConsideredSummary, considered

# -- the source ------------------------------------------------------------------------------------------
# The text that a summary or a draft is made from, opened at a place in it.


class SourceScreen(TextScreen):
    """One text to read."""

    HELP = """
The text as the model receives it, scrolled to the selected item.

Every occurrence is highlighted; n and N go to the next and the previous one, / finds other text.
"""

    def __init__(self, title: str, text: str, start: int, end: int) -> None:
        """*start* and *end*: the place in characters of *text*."""
        super().__init__((Block(text),))
        self._title = title
        self._content = text
        self._start = start
        self._wanted = text[start:end]

    def where(self) -> str:
        """Which text."""
        return self._title

    def on_mount(self) -> None:
        """Go to the place once the width of the text is known."""
        self.call_after_refresh(self._go)

    def _go(self) -> None:
        needle = safe_text(self._wanted).partition("\n")[0]
        self.in_text.look_for(needle)
        self.text.find_at(needle, (0, len(safe_text(self._content[: self._start]))))

    def selected_id(self) -> str | None:
        """What stands at the place."""
        return self._wanted or None

    COMMON: ClassVar[Sequence[Key[SourceScreen]]] = (
        commands.RELOAD.does(lambda s: None, lambda s: "this view does not reload"),
    )


# -- what the previous context reads ---------------------------------------------------------------------


class View(Record, frozen=True):
    """One of the previous contexts that can be shown."""

    title: str
    word: str  #: what it makes of a summary that is in it
    choice: PreviousChoice
    given: str  #: who is given it, and how sure that is: "the model was given"


class PreviousData(Record, frozen=True):
    """The previous context of a summary with the rows of all summaries that it names."""

    subject: Summary | None  #: None: it is not in the database (any more)
    context: PreviousContext | None = None
    texts: Mapping[SummaryId, SummaryText] = field(default_factory=dict)
    before: SummaryId | None = None  #: the leaf that was made just before
    after: SummaryId | None = None  #: and the one just after

    @property
    def views(self) -> tuple[View, ...]:
        """What can be shown: as given, for a rewrite, and what may have been given instead."""
        if self.context is None or not self.context.applies:
            return ()
        return (
            View("as given (reconstructed)", "given", self.context.as_given, "the model was given"),
            View("for a rewrite", "taken", self.context.for_rewrite, "a rewrite would be given"),
            *(
                View(
                    "possible alternative (reconstructed)", "perhaps", other, "the model may have been given"
                )
                for other in self.context.otherwise
            ),
        )

    @property
    def nothing(self) -> str:
        """Why there is nothing to show, in one sentence."""
        if self.subject is None:
            return "This summary is not in the database."
        return (
            self.context.why_not if self.context is not None else None
        ) or "Its previous context cannot be reconstructed."


async def load_previous(reader: Reader, summary_id: SummaryId) -> PreviousData:
    """Read all that the screen shows, in one transaction."""
    try:
        subject = (await summaries.get_summary(reader, summary_id)).summary
    except NotFoundError:
        return PreviousData(None)
    found = await previous_of(reader, summary_id)
    before, after = await leaves_beside(reader, subject.conversation_id, summary_id)
    texts = await summaries.texts_of(reader, found.summary_ids)
    return PreviousData(subject, found, {text.summary.summary_id: text for text in texts}, before, after)


# -- documents -------------------------------------------------------------------------------------------
# The text as a whole, and one of the summaries in it.


def whole_document(views: Sequence[View], place: int) -> Document:
    """The text as a whole, under what it rests on."""
    view = views[place]
    blocks = [
        heading(view.title[0].upper() + view.title[1:]),
        Block(view.choice.assumption, "dim"),
        Block(),
    ]
    if view.choice.text:
        blocks += [heading(f"The text that {view.given}"), Block(view.choice.text)]
    elif view.choice.nodes:
        blocks.append(Block(f"No text: {view.given} only what says nothing."))
    else:
        blocks.append(Block(f"No text: {view.given} no previous context."))
    others = [other.choice.assumption for other in views[2:]] if place == 0 else []
    if others:
        blocks += [Block(), heading("Possible alternative")]
        blocks += [Block(f"{assumption} (w)", "dim") for assumption in others]
    return tuple(blocks)


def summary_document(held: SummaryText, node: Candidate | None, why: str, session: Session) -> Document:
    """One summary: what it is, why it stands here or not, what it says."""
    blocks = [*facts(ItemData(held.summary.summary_id, held), session)]
    if node is not None and node.first_seq is not None:
        blocks.append(text_field("messages", f"seq {node.first_seq} to {node.last_seq}", width=9))
    if node is not None and node.broken is not None:
        blocks.append(text_field("broken", str(node.broken), "error", width=9))
    blocks += [Block(f"In it: {why}." if node else f"Skipped: {why}."), Block()]
    return (*blocks, Block(held.content))


# -- the previous context --------------------------------------------------------------------------------
# What the model was given of earlier summaries when it made one, as far as that can be determined.

#: The row that stands for the text as a whole.
WHOLE: Final = SummaryId("")


class GivenList(ListPane[SummaryId]):
    """The summaries that were given or skipped, below a row for the whole text."""

    def __init__(self) -> None:
        super().__init__(id="chosen")
        self.view: View | None = None
        self.rows: Mapping[SummaryId, ConsideredSummary] = {}

    def show(self, view: View | None, texts: Mapping[SummaryId, SummaryText]) -> None:
        """List what a previous context holds."""
        summaries = {name: text.summary for name, text in texts.items()}
        self.view, self.rows = view, considered(view.choice, view.word, summaries) if view else {}
        before = set(self.table.keys)
        self.relist()
        if before:
            self.table.mark_fresh([key for key in self.table.keys if key not in before])

    @property
    def selected(self) -> SummaryId | None:
        """The summary under the cursor; None on the row for the whole text."""
        return self.table.selected or None

    def columns(self) -> Sequence[Column]:
        """What is said of a summary that was given or passed over."""
        return CONSIDERED_COLUMNS

    def matching(self, words: Sequence[str]) -> Sequence[SummaryId]:
        """All of them: there is no filter."""
        del words
        return [WHOLE, *self.rows] if self.view is not None else []

    def why_empty(self) -> str:
        """Nothing is given to what is no leaf."""
        return "No previous context."

    def cells(self, key: SummaryId) -> Mapping[str, Span]:
        """A summary, and why it was given or passed over."""
        return cells_of(CONSIDERED_COLUMNS, self.rows[key], self.zone) if key in self.rows else {}

    def draw(self, key: SummaryId, width: int) -> Sequence[Line]:
        """The whole text, or a summary."""
        if key != WHOLE or self.view is None:
            return super().draw(key, width)
        nodes = self.view.choice.nodes
        says = [node.summary.tokens for node in nodes if not node.blank]
        said = f"{counted(len(says), 'summary')}, {sum(says):,} tokens" if says else "nothing"
        if blank := len(nodes) - len(says):
            said += f" ({counted(blank, 'summary')} without text)"
        return ((Span(f"The whole text, {self.view.title}: ", "title"), Span(said)),)


class PreviousScreen(DataScreen[PreviousData]):
    """The previous context of one summary."""

    HELP = """
When the engine writes a summary, it gives the model some of the preceding text: the previous context.

w switches between that text "as given" and "for a rewrite".

The database does not record it, so "as given" is reconstructed from the order in which summaries were made,
what had been condensed by then, and which messages each covers; the sentence above the text lists the
assumptions. Texts are as the database has them now.

"For a rewrite" is the same without broken summaries. Summaries marked – were considered and skipped, each
with the reason. Only leaves are written with a previous context.

Select a summary to read it, or the first row to read the whole text as the model received it. enter moves
into the text, esc back to the list; m shows the whole text alone. [ and ] go to the previous context of the
leaf that was made before and after. D compares what was given (-) with what a rewrite would be given (+).
"""

    def __init__(self, conversation: Conversation, summary_id: SummaryId) -> None:
        super().__init__()
        self.list = GivenList()
        self.text = TextView(id="text")
        self.data: PreviousData | None = None
        self.place = 0  #: which of the previous contexts is shown, as soon as they are known
        self._panes = TwoPanes(self.list, self.text, shares=(0.64, 1 / 3))
        self._finder = TextFinder(self.text, self._why_nothing)
        self._as_text = False  #: the whole text alone
        self._shown: tuple[int, SummaryId | None] | None = None
        self.conversation = conversation
        self._summary_id = summary_id

    def compose_body(self) -> ComposeResult:
        """The summaries, and a text below them."""
        yield self._panes

    def where(self) -> str:
        """Of which summary."""
        return f"Previous context of {self._summary_id}"

    def main_widget(self) -> LineView[SummaryId]:
        """The list."""
        return self.list.table

    def finder(self) -> Finder:
        """The search in the text."""
        return self._finder

    def step_back(self) -> bool:
        """Out of the text first."""
        if self._as_text:
            self._turn_form()
            return True
        return super().step_back()

    def selected_id(self) -> str:
        """The selected summary; on the whole text the one that it was given for."""
        return self.list.selected or self._summary_id

    # -- data --------------------------------------------------------------------------------------------

    async def fetch(self) -> PreviousData:
        """The two previous contexts and the summaries in them."""
        return await self.session.read(load_previous, self._summary_id)

    def show(self, data: PreviousData) -> None:
        """Show them; of a summary that is gone, go on showing what was read.

        The choice among several and the selection stay.
        """
        bar, old = self.title_bar, self.data
        if data.subject is None and old is not None:
            bar.note = "this summary is no longer in the database"
            return
        self.data = data
        count = len(data.views if old is None else old.views)
        if self.place >= len(data.views) or (self.place > 1 and count != len(data.views)):
            self.place = 0
        self.list.zone = self.session.zone
        self._show_view()
        subject = data.subject
        bar.note = f"{kind_words(subject.kind, subject.depth)}, {subject.tokens:,} tokens" if subject else ""

    @property
    def _view(self) -> View | None:
        """Which previous context is shown."""
        return self.data.views[self.place] if self.data is not None and self.data.views else None

    def _show_view(self) -> None:
        self.list.show(self._view, {} if self.data is None else self.data.texts)
        self._show_text()

    @on(LineView.Highlighted, "#list")
    def _show_text(self) -> None:
        """Show what is under the cursor."""
        if self.data is not None:
            shown = (self.place, self.list.table.selected)
            self.text.show(self._document(self.data), keep_place=shown == self._shown)
            self._shown = shown

    def _document(self, data: PreviousData) -> Document:
        key, view = self.list.selected, self._view
        if view is None:
            return (Block(data.nothing),)
        if key is None:
            return whole_document(data.views, self.place)
        if key not in data.texts:
            return (Block(f"The summary {key} is no longer in the database."),)
        node = next((node for node in view.choice.nodes if node.summary_id == key), None)
        why = self.list.rows[key].why if node is None else node.origin
        return summary_document(data.texts[key], node, why, self.session)

    # -- commands ----------------------------------------------------------------------------------------

    def _why_nothing(self) -> str | None:
        """Why nothing can be done here; None when a previous context is shown."""
        return "there is no previous context here" if self._view is None else None

    def _show_next_view(self) -> None:
        """As given, for a rewrite, or what may have been given instead."""
        if self.data is not None and self.data.views:
            self.place = (self.place + 1) % len(self.data.views)
            self._show_view()
        self.refresh_bars()

    def _turn_form(self) -> None:
        """As a list with a text, or as one text."""
        self._as_text = not self._as_text
        if self._as_text:
            self.list.table.select(WHOLE)
        self._panes.show_only(self.text if self._as_text else None)
        (self.text if self._as_text else self.list.table).focus()
        self.refresh_bars()

    def _why_unread(self) -> str | None:
        return "still loading: try again in a moment" if self.data is None else None

    def _go(self, direction: int) -> None:
        """Show the previous context of the leaf that was made before this one, or after it."""
        beside = None if self.data is None else self.data.before if direction < 0 else self.data.after
        if beside is None:
            end = "first" if direction < 0 else "last"
            self.app.notify(f"This is the {end} leaf of the conversation.", timeout=3)
            return
        following = self.open_instead(places.Previous(self.conversation, beside))
        if isinstance(following, CommandScreen):
            following.go_on_from(self)

    def go_on_from(self, before: CommandScreen) -> None:
        """The same one of the previous contexts, as a list or as one text."""
        if isinstance(before, PreviousScreen):
            self.place = before.place
            if before._as_text:
                self.call_after_refresh(self._turn_form)

    KEYS: ClassVar[Sequence[Key[PreviousScreen]]] = (
        commands.OPEN.does(lambda s: s.text.focus(), _why_nothing),
        Key(
            "rewrite-mode",
            "w",
            "For rewrite",
            "Switch between what was given, what a rewrite would be given, and what may have been given.",
            _show_next_view,
            _why_nothing,
        ),
        commands.OTHER_VIEW.does(
            _turn_form,
            _why_nothing,
            title="As text",
            help="Show the whole text alone, or the summaries above it again.",
            title_now=lambda s: "As list" if s._as_text else "",
        ),
        commands.COMPARE.does(
            lambda s: s.open(places.PreviousComparison(s._summary_id)),
            _why_nothing,
            help="Compare what was given with what a rewrite would be given now.",
        ),
        commands.SUMMARIES.does(
            lambda s: s.open(places.Summaries(s.conversation, SummaryId(s.selected_id())))
        ),
        actions.previous_key(lambda s: s.list.selected),
        commands.HUNK_PREVIOUS.does(
            lambda s: s._go(-1),
            _why_unread,
            title="Previous leaf",
            help="Show the previous context of the leaf that was made before.",
        ),
        commands.HUNK_NEXT.does(
            lambda s: s._go(1),
            _why_unread,
            title="Next leaf",
            help="Show the previous context of the leaf that was made next.",
        ),
    )
