"""A summary read down level by level: what each level costs, and its texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

from lcm_core.base.records import Conversation, SummaryId
from lcm_core.base.text import counted
from lcm_core.base.values import Record
from lcm_core.store.database import Reader
from lcm_recall.read import Level, Passage, levels_below, read_level
from textual import on
from textual.app import ComposeResult

from lcm_tui.kit import commands, places
from lcm_tui.kit.commands import Key
from lcm_tui.kit.lines import LineView
from lcm_tui.kit.listing import Finder, ListPane, TextFinder
from lcm_tui.kit.panes import TwoPanes
from lcm_tui.kit.spans import Block, Column, Document, Span
from lcm_tui.kit.text import TextView
from lcm_tui.screens.frame import SERIES
from lcm_tui.screens.reading import DataScreen
from lcm_tui.tables.blocks import cells_of
from lcm_tui.tables.search import LEVEL_COLUMNS, passages_document

# -- the levels as a list --------------------------------------------------------------------------------


class LevelList(ListPane[int]):
    """A row a level, the summary itself on top."""

    def __init__(self) -> None:
        super().__init__(id="levels")
        self.levels: tuple[Level, ...] = ()

    def show(self, levels: tuple[Level, ...]) -> None:
        """List what was read; the cursor stays on its level."""
        self.levels = levels
        self.relist()

    @property
    def selected(self) -> Level | None:
        """The level under the cursor."""
        key = self.table.selected
        return self.levels[key] if key is not None and key < len(self.levels) else None

    # -- listing -----------------------------------------------------------------------------------------

    def matching(self, words: Sequence[str]) -> Sequence[int]:
        """All of them: they are few, so nothing filters them."""
        del words
        return range(len(self.levels))

    def why_empty(self) -> str:
        """Nothing was read yet."""
        return self.READING

    def columns(self) -> Sequence[Column]:
        """What is said of a level."""
        return LEVEL_COLUMNS

    def cells(self, key: int) -> Mapping[str, Span]:
        """A level in a line."""
        return cells_of(LEVEL_COLUMNS, self.levels[key], None)


# -- what it reads ---------------------------------------------------------------------------------------
# The levels of a summary, and the texts of one, page by page.


class LevelTexts(Record, frozen=True):
    """The texts of a level as far as they were read."""

    level: Level
    passages: tuple[Passage, ...] = ()
    next: str | None = None  #: the cursor of what was not read yet

    @property
    def tokens(self) -> int:
        """Of what was read, estimated."""
        return sum(one.tokens for one in self.passages)


async def load_levels(reader: Reader, summary_id: SummaryId) -> tuple[Level, ...]:
    """The levels below a summary, without texts.

    Raises:
        NotFoundError: the summary is gone.
    """
    return await reader.run(levels_below, reader.schema, summary_id)


async def load_page(reader: Reader, texts: LevelTexts, *, again: bool) -> LevelTexts:
    """One page more of a level; *again*: as much as was read, as it is now."""
    before = LevelTexts(texts.level) if again else texts
    tokens = {"tokens": texts.tokens} if again and texts.passages else {}
    page = await reader.run(read_level, reader.schema, before.level, cursor=before.next, **tokens)
    return LevelTexts(before.level, (*before.passages, *page.passages), page.next)


# -- the screen ------------------------------------------------------------------------------------------

#: What the levels take of the screen at most, unless somebody gives them more.
LEVELS_SHARE: Final = 0.45


class ExpansionScreen(DataScreen[tuple[Level, ...]]):
    """The levels below one summary."""

    HELP = """
Everything that a summary was made from, level by level: level 0 is the summary itself, level 1 its sources,
and so on down to the messages with their tool calls.

Each summary and message is listed once.

"tokens" are the stored tokens of a level; "to here" adds those of the levels above it. That is what it costs
to read so far down. The pane below shows the texts of the selected level, each under its citation; ~ marks
the estimated tokens of a text with its tool calls. A citation can be checked with lcm-tui show.

A page has about 4,000 tokens. enter moves to the text, and there reads the next page; / finds words in what
was read; esc goes back to the levels. Nothing is changed here, and no model is called.
"""

    def __init__(self, conversation: Conversation, summary_id: SummaryId) -> None:
        super().__init__()
        self.list = LevelList()
        self.text = TextView(id="text")
        self._panes = TwoPanes(
            self.list, self.text, shares=(0.5, None), beside=None, changed=self._fit_levels
        )
        self._in_text = TextFinder(self.text)
        self._conversation = conversation
        self._summary_id = summary_id
        self._texts: dict[int, LevelTexts] = {}  #: by level, as far as they were read
        self._shown: int | None = None  #: the level whose texts are shown

    def compose_body(self) -> ComposeResult:
        """The levels, and the texts of one."""
        yield self._panes

    def where(self) -> str:
        """Of which summary."""
        return f"Expand {self._summary_id}"

    def main_widget(self) -> LineView[int]:
        """The levels."""
        return self.list.table

    def finder(self) -> Finder:
        """The search in the text."""
        return self._in_text

    def selected_id(self) -> str:
        """The summary's id."""
        return self._summary_id

    # -- data --------------------------------------------------------------------------------------------

    async def fetch(self) -> tuple[Level, ...]:
        """The levels as they are now."""
        return await self.session.read(load_levels, self._summary_id)

    def show(self, data: tuple[Level, ...]) -> None:
        """Show them; texts that were read are read again when they are looked at."""
        before = self._texts
        self._texts = {
            number: LevelTexts(data[number], texts.passages)
            for number, texts in before.items()
            if number < len(data)
        }
        self.list.show(data)
        self._fit_levels()
        self.title_bar.note = f"{self.session.name_of(self._conversation)} · read only"
        self._show_level(again=bool(before))

    def _fit_levels(self) -> None:
        """The levels take what they need, unless somebody has moved the divider."""
        if self._panes.room is None:
            lines = len(self.list.table.keys) + 1  # the heading
            self.list.styles.height = max(3, min(lines, int(self.size.height * LEVELS_SHARE)))

    @on(LineView.Highlighted, "#list")
    def _highlighted(self) -> None:
        self._show_level(again=False)

    def _show_level(self, *, again: bool) -> None:
        level = self.list.selected
        if level is None:
            return
        texts = self._texts.get(level.number)
        if texts is None or again:
            self.work_on("texts", self._read, texts or LevelTexts(level), True)
        elif self._shown != level.number:
            self.work_on("texts", self._show_texts, texts)

    async def _read(self, texts: LevelTexts, again: bool) -> None:
        await self._show_texts(await self.session.read(load_page, texts, again=again))

    async def _show_texts(self, texts: LevelTexts) -> None:
        level = self.list.selected
        if level is None or level.number != texts.level.number:
            return
        self._texts[level.number] = texts
        keep = self._shown == level.number
        self._shown = level.number
        await self.text.load(self._document(texts), keep_place=keep)
        self.refresh_bars()

    def _document(self, texts: LevelTexts) -> Document:
        """The texts, and below them how much is left."""
        document = passages_document(texts.passages, self.session.zone)
        if texts.next is None:
            return document
        ended = sum(one.complete for one in texts.passages)
        read = counted(texts.level.count, "text was", "texts were")
        said = f"{ended:,} of {read} read: enter reads the next page."
        return (*document, Block(), Block(spans=(Span(said, "warn"),)))

    # -- commands ----------------------------------------------------------------------------------------

    def on_descendant_focus(self) -> None:
        """Enter does something else."""
        self.refresh_bars()

    @property
    def _selected_texts(self) -> LevelTexts | None:
        level = self.list.selected
        return None if level is None else self._texts.get(level.number)

    def _why_nothing(self) -> str | None:
        texts = self._selected_texts
        if texts is None:
            return "No level is selected"
        return "This level was read to its end" if self.text.has_focus and texts.next is None else None

    def _read_on(self) -> None:
        """Go to the text; there, read the next page."""
        texts = self._selected_texts
        if not self.text.has_focus:
            self.text.focus()
        elif texts is not None:
            self.work_on("texts", self._read, texts, False)

    KEYS: ClassVar[Sequence[Key[ExpansionScreen]]] = (
        commands.OPEN.does(
            _read_on,
            _why_nothing,
            title="Read",
            help="Move to the texts of this level; there, read the next page of them.",
            title_now=lambda s: "Next page" if s.text.has_focus else "",
        ),
        commands.SUMMARIES.does(lambda s: s.open(places.Summaries(s._conversation, s._summary_id))),
        commands.CONTEXT.does(lambda s: s.open(places.Context(s._conversation, ("summary", s._summary_id)))),
        *SERIES,
    )
