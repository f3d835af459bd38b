"""Where was it said? Every text of the database, searched as you type."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import tzinfo
from functools import partial
from types import MappingProxyType
from typing import ClassVar, Final

from lcm_core.errors import UsageError
from lcm_core.private_files import reason_of
from lcm_core.recall.find import Found, Progress
from lcm_core.recall.indexing import index_of, make_index, recent, remember
from lcm_core.recall.live import search_live
from lcm_core.recall.settings import recall_settings
from lcm_core.recall.terms import parse
from lcm_core.text import safe_line
from lcm_core.times import zone_words
from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.widgets import Input

from lcm_tui import places
from lcm_tui.actions.links import to
from lcm_tui.actions.series import Series
from lcm_tui.commands import Action, bindings, key_title
from lcm_tui.frame import CommandScreen
from lcm_tui.panes.change import Lines
from lcm_tui.screens.search.asking import ask_memory
from lcm_tui.screens.search.narrowing import Narrowing, parse_narrowing
from lcm_tui.screens.search.panes import HitList, QueryInput, RowKey
from lcm_tui.screens.search.reads import expansion_of, load_names, load_needs_index, place_of
from lcm_tui.views.hits import coverage_line, name_of
from lcm_tui.widgets.spans import Line, Span
from lcm_tui.widgets.wrapped import Block, WrappedBlock

#: Hits that are listed.
SHOWN: Final = 200
#: Fewer characters are in nearly every text.
FEWEST: Final = 2

#: What can be done while words are typed, by which key where another one is a letter.
TYPING_KEYS: Mapping[str, str] = MappingProxyType(
    {
        "open": "",
        "narrow": "",
        "ask": "",
        "expand": "ctrl+o",
        "reload": "",
        "help": "f1",
        "palette": "ctrl+p",
        "back": "",
    }
)


#: What the screen says of its keys as long as nothing is typed.
HINTS: Final = (
    ("narrow", "to messages, summaries, briefs, files, conversation 3, the last 7d"),
    ("ask", "the typed text as a question: evidence, and an answer if you agree"),
    ("expand", "the summary of the selected hit, level by level"),
)
#: Cells of a title in these lines.
_HINTED: Final = 8
NARROWING: Final = """
Limits the search; separate several words by blanks: kinds (messages, summaries, briefs, files, or how they
begin), one conversation by its number (3), and one time: the last days, hours or weeks (7d, 12h, 2w), a day
(2026-03-02), or from one to another (2026-03-02..2026-03-09; either side may be empty). "summaries 3 7d" are
the summaries of conversation 3 of the last seven days. The title says what the search is limited to; an empty
line searches everything again.
"""


class SearchScreen(CommandScreen):
    """A search of everything."""

    HELP = """
Searches every message with its tool inputs and outputs, every summary, focus brief and large file of the
database as you type. The order counts how well a hit matches and how new it is; a conversation is where its
best hit is. While a large database is still being searched, the newest hits are shown. Several words must all
occur in one text; "…" is a phrase, word* the start of a word. Each hit shows whether the model receives it
now, directly or through a summary.

Letters are text while you type. Arrows move through the hits, enter opens the selected one at what was
found (n goes to the next match there), and esc returns here. ctrl+t narrows the search to messages,
summaries, briefs or files, a conversation by its number, or a time such as 7d, 2026-03-02 or
2026-03-02..2026-03-09; separate several with spaces; empty searches everything. tab moves to the list of
hits, where keys are commands.

ctrl+o (> in the list) expands the selected summary, or of a message the summary in the context that covers
it: level by level down to the messages, with the tokens that each level costs.

ctrl+g asks the typed text as a question: it shows the best evidence with citations and, if a model is
configured, its answer beside it. lcm-tui shows the cost and asks before it sends anything.

With nothing typed, the list shows the searches from which a hit was opened; enter repeats one. A database
without search tables gets a private index while you type; lcm-tui grep --forget removes both. lcm-tui
--no-index, or search_cache = false in config.toml, keeps neither.
"""
    BINDINGS: ClassVar[list[BindingType]] = list(bindings("open", "narrow", "expand", "ask", "history"))
    WORDS: ClassVar[Mapping[str, tuple[str, str]]] = MappingProxyType(
        {
            "open": ("Open", "Open the selected hit in its place."),
            "expand": (
                "Expand",
                "Read the selected summary, or the one that covers the selected message, level by level.",
            ),
            "search": ("Search", "Edit the search words."),
            "search-everywhere": ("Search all", "Edit the search words."),
            "reload": ("Search again", "Search again now."),
        }
    )

    def __init__(self) -> None:
        super().__init__()
        self.hits = HitList()
        self.query_input = QueryInput(self.hits)
        self.account = Lines(self._account, id="account")
        self._found: Found | None = None
        self._searching = False
        self._share = 0.0  #: of everything that was looked at, 0 to 1
        self._narrowing = Narrowing()
        self._recent: tuple[str, ...] = ()
        self._indexed: float | None = None  #: of the messages while the private index is made, 0 to 1
        self._no_index = ""  #: why it cannot be made
        self._problem = ""
        self._tallest = 1  #: lines that the account took
        self._opens = 0  #: the search whose best hit is opened as soon as it is known
        self._series = Series("hit", lambda: self.hits, self._place_of)
        self._expanded = Series("hit", lambda: self.hits, self._expansion_of)
        self._number = 0  #: of the search that was begun last: what an earlier one finds is late

    def compose_body(self) -> ComposeResult:
        """The words, what came of them, and the hits."""
        yield self.query_input
        yield self.account
        yield self.hits

    def on_mount(self) -> None:
        """Learn the names of conversations beside the typing."""
        self.hits.zone = self.session.zone
        self.work_on("names", self._read_names)
        self.work_on("recent", self._read_recent)
        self.work_on("index", self._make_index)

    def where(self) -> str:
        """Where, and narrowed to what."""
        return safe_line(f"Search {self._narrowing.text}".rstrip())

    def in_key_bar(self) -> list[str]:
        """While words are typed a letter is text: only keys that are none."""
        shown = super().in_key_bar()
        return [name for name in shown if name in TYPING_KEYS] if self.query_input.has_focus else shown

    def key_of(self, command: str) -> str:
        """While words are typed, the key that is no letter."""
        typing = TYPING_KEYS.get(command) if self.query_input.has_focus else None
        return key_title(typing) if typing else super().key_of(command)

    def on_descendant_focus(self) -> None:
        """Other keys count."""
        self.refresh_bars()

    def main_widget(self) -> QueryInput:
        """Where the words are typed."""
        return self.query_input

    def selected_id(self) -> str | None:
        """The id of the selected hit, as its row names it."""
        return None if self.hits.hit is None else name_of(self.hits.hit).partition(" ")[0]

    def actions(self) -> Sequence[Action]:
        """Opening a hit, and searching otherwise."""
        return (
            Action("open", self._open, self._why_none),
            Action("narrow", self._narrow),
            Action("ask", self._ask_memory, self._why_no_question),
            Action("expand", self._expand, self._why_not_expanded),
            Action("search", self.query_input.focus),
            Action("search-everywhere", self.query_input.focus),
            Action("reload", self._search),
            to(self, "history", places.History()),
        )

    @property
    def _keeps(self) -> bool:
        """Whether anything may be kept in the cache folder."""
        return self.session.settings.search_cache.value and not self.session.demo

    # -- searching ---------------------------------------------------------------------------------------

    @on(Input.Changed, "#query")
    def _typed_words(self) -> None:
        self._search()

    def _search(self) -> None:
        """Search for what is typed; a search that was begun before is given up."""
        self._number += 1
        text = self.query_input.value.strip()
        self._found, self._problem, self._searching = None, "", len(text) >= FEWEST or not text.isascii()
        if self._searching:
            self.work_on("search-everywhere", self._find, self._number, text)
        else:
            self.workers.cancel_group(self, "search-everywhere")
            self._show_recent()
        self._say()

    async def _find(self, number: int, text: str) -> None:
        try:
            query = parse(text)
        except UsageError as error:
            self._problem, self._searching = error.message, False
            self._say()
            return

        def heard(progress: Progress) -> None:
            self._show(number, progress.found, progress.share)

        wanted = self._narrowing.filter
        settings, database = recall_settings(self.session.settings), self.session.database
        index = await asyncio.to_thread(index_of, database.path) if self._keeps else None
        found = await search_live(database, query, wanted, settings, heard, limit=SHOWN, index=index)
        self._show(number, found, 1.0)

    def _show(self, number: int, found: Found, share: float) -> None:
        """Show what was found when *share* of everything was looked at."""
        if number != self._number or not self.is_attached:
            return
        self._found, self._searching, self._share = found, share < 1, share
        self.hits.show(found, searching=self._searching)
        self._say()
        if self._opens == number and not self._searching and self.hits.hit is not None:
            self._opens = 0
            self.work_on("open-early", self._open)

    async def _read_names(self) -> None:
        self.hits.names = await self.session.read(load_names)
        self.hits.redraw()

    async def _read_recent(self) -> None:
        if self._keeps:
            self._recent = tuple(await asyncio.to_thread(recent, self.session.database.path))
        if not self.query_input.value.strip():
            self._show_recent()

    def _show_recent(self) -> None:
        self.hits.show_recent(self._recent)

    async def _make_index(self) -> None:
        """Bring up the private index of a file without search tables, beside the typing."""
        if not self._keeps or not await self.session.read(load_needs_index):
            return

        def heard(share: float) -> None:
            self._indexed = share
            self._say()

        try:
            await make_index(self.session.database, heard)
        except OSError as error:
            self._no_index = f"no index: {reason_of(error)}"
        finally:
            self._indexed = None
            if self.is_attached:
                self._say()
        if self._searching:
            self._search()  # what goes on is a scan

    async def _narrow(self) -> None:
        """Ask what is searched: kinds, a conversation, a time; nothing is everything."""
        text = await self.ask(
            f"Search only in (summaries 3 7d; empty: everything; times: {zone_words(self.session.zone)})",
            self._narrowing.text,
            check=partial(_problem_of, self.session.zone),
            explained=NARROWING,
        )
        if text is None:
            return
        self._narrowing = parse_narrowing(text, self.session.zone)
        self.say_where()
        self._search()

    def _account(self, width: int) -> list[Line]:
        if self._problem:
            return [(Span(f" {self._problem}", "warn"),)]
        if self._found is None and not self._searching and not self._indexing_told:
            return [self._hint(*hint) for hint in HINTS]
        line = coverage_line(self._found, self._share if self._searching else None)
        if self._indexed is not None:
            line = (*line, Span(f"  indexing messages {self._indexed:.0%}", "dim"))
        elif self._no_index:
            line = (*line, Span(f"  {self._no_index}", "warn"))
        wrapped = WrappedBlock(Block(spans=line, indent=1), max(width, 1))
        lines = [wrapped.line(at) for at in range(len(wrapped))]
        self._tallest = max(self._tallest, len(lines))  # the hits do not jump while words are typed
        return lines + [()] * (self._tallest - len(lines))

    @property
    def _indexing_told(self) -> bool:
        return self._indexed is not None or bool(self._no_index)

    def _hint(self, command: str, does: str) -> Line:
        title = f"{self.told(command).title:<{_HINTED}}"
        return (Span(f" {self.key_of(command):<3}", "key"), Span(title, "title"), Span(does, "dim"))

    def _say(self) -> None:
        self.account.again()
        self.refresh_bars()

    def _why_no_question(self) -> str | None:
        return None if self.query_input.value.strip() else "Type a question first"

    def _ask_memory(self) -> None:
        """Ask what is typed; a question that was asked before is given up."""
        question = self.query_input.value.strip()
        self.work_on("ask", ask_memory, self, question, self._narrowing.filter.conversations)

    # -- opening -----------------------------------------------------------------------------------------

    @on(Input.Submitted, "#query")
    async def _submitted(self) -> None:
        await self.action_run("open")

    def _why_none(self) -> str | None:
        if self._is_early or self.hits.hit is not None or self.hits.recent is not None:
            return None
        return "No hit is selected: type a word to search for"

    @property
    def _is_early(self) -> bool:
        """Whether what is listed is still of the search before, or nothing."""
        return self._searching and self._found is None

    def _why_not_expanded(self) -> str | None:
        if self._is_early:
            return "The search is still running: wait for its first hits"
        if self.hits.hit is None:
            return "No hit is selected: type a word to search for"
        return None if self.hits.hit.summary is not None else "No summary covers this hit"

    async def _expand(self) -> None:
        """Read down, level by level, the summary that is selected or that covers what is selected."""
        hit = self.hits.hit
        if hit is not None and hit.summary is not None:
            await self._remember()
            self.open(await self.session.read(expansion_of, hit.summary), self._expanded)

    async def _place_of(self, key: RowKey) -> places.Place | None:
        """Where a hit is."""
        hit = self.hits.hit_at(key)
        return None if hit is None else await self.session.read(place_of, hit)

    async def _expansion_of(self, key: RowKey) -> places.Place | None:
        """What is below the summary of a hit, or the one that covers it."""
        hit = self.hits.hit_at(key)
        named = None if hit is None else hit.summary
        return None if named is None else await self.session.read(expansion_of, named)

    async def _remember(self) -> None:
        """Keep the search as the most recent one."""
        said = self.query_input.value.strip()
        self._recent = (said, *(one for one in self._recent if one != said))
        if self._keeps:
            await asyncio.to_thread(remember, self.session.database.path, said)

    async def _open(self) -> None:
        hit, text = self.hits.hit, self.hits.recent
        if self._is_early:
            self._opens = self._number
        elif hit is not None:
            await self._remember()
            self.open(await self.session.read(place_of, hit), self._series)
        elif text is not None:
            self.query_input.value = text
            self.query_input.focus()


def _problem_of(zone: tzinfo | None, text: str) -> str | None:
    """What is wrong with what a search shall be narrowed to."""
    try:
        parse_narrowing(text, zone)
    except UsageError as error:
        return error.message
    return None
