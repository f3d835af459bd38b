"""Where was it said? Every text of the database, searched as you type."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import tzinfo
from types import MappingProxyType
from typing import ClassVar, Final, TypeAlias

from lcm_core.base.errors import LcmError, UsageError
from lcm_core.base.files import reason_of
from lcm_core.base.records import Conversation, ConversationId, SummaryId
from lcm_core.base.text import counted, safe_line
from lcm_core.base.times import zone_words
from lcm_core.base.values import Record, replace, to_json
from lcm_core.store.conversations import get_conversation, list_conversations
from lcm_core.store.database import Reader
from lcm_core.store.messages import get_file, seq_of_message
from lcm_core.store.search import DocumentKind, has_search_table
from lcm_core.store.summaries import get_summary
from lcm_core.writers.cost import CallBudget, Forecast
from lcm_recall.ask import Asked, Inquiry, terms_of
from lcm_recall.queries import recall_settings
from lcm_recall.read import Passage
from lcm_recall.results import FoundHit
from lcm_recall.search import Found, Hit, Progress, index_of, make_index, recent, remember, search_live
from lcm_recall.terms import parse
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Input

from lcm_tui.flows.asking import ask_memory
from lcm_tui.flows.drafts import Modelling, forecast_text, key_text, named_model, spent_text
from lcm_tui.kit import commands, places
from lcm_tui.kit.commands import Key, key_title
from lcm_tui.kit.dialogs import Question
from lcm_tui.kit.drawn import Lines
from lcm_tui.kit.lines import LineView
from lcm_tui.kit.panes import LOW
from lcm_tui.kit.spans import Block, Document, Line, Span
from lcm_tui.screens import actions, narrowing, picks
from lcm_tui.screens.copying import Copies, Forms, by_id
from lcm_tui.screens.exporting import ShownRows, export_rows, when
from lcm_tui.screens.frame import CommandScreen
from lcm_tui.screens.questions import TwoTexts
from lcm_tui.screens.reading import Series
from lcm_tui.tables.asked import NOBODY, UNASKED, answer_document, evidence_document
from lcm_tui.tables.search import (
    conversation_line,
    coverage_parts,
    hit_lines,
    hits_table,
    is_cut,
    name_of,
    nothing_text,
    of_whole,
    recent_line,
)
from lcm_tui.tables.sent import flowed
from lcm_tui.tables.summaries import ShortIds

# -- input and hits --------------------------------------------------------------------------------------
# By conversation.


class HitKey(Record, frozen=True):
    """A hit, the same in the answer of a later search."""

    kind: DocumentKind
    id: str


#: A hit, the heading of a conversation, or a search that was made before, while nothing is typed.
RowKey: TypeAlias = HitKey | ConversationId | str


class HitList(LineView[RowKey]):
    """Hits under the conversations that they are in, the best first."""

    def __init__(self) -> None:
        super().__init__(self._draw_row, tall=True, empty="", id="hits")
        self.zone: tzinfo | None = None
        self.names: Mapping[ConversationId, Conversation] = {}
        self._hits: dict[HitKey, Hit] = {}
        self._ids = ShortIds()
        self._counts: dict[ConversationId, int] = {}
        self._cut = False  #: not all hits are listed
        self._put: RowKey | None = None  #: where the cursor was put: from there nobody has moved it

    @property
    def hit(self) -> Hit | None:
        """The selected hit; on a heading the first one below it."""
        key = self.selected
        if isinstance(key, int):
            key = next((one for one in self.keys[self.cursor :] if isinstance(one, HitKey)), None)
        return self._hits.get(key) if isinstance(key, HitKey) else None

    def hit_at(self, key: RowKey) -> Hit | None:
        """The hit of a row; None on any other row."""
        return self._hits.get(key) if isinstance(key, HitKey) else None

    def counted_keys(self) -> tuple[int, int]:
        """The hits, without the headings; searches that were made before are none."""
        rows = [place for place, key in enumerate(self.keys) if isinstance(key, HitKey)]
        return (rows.index(self.cursor) + 1 if self.cursor in rows else 0), len(rows)

    @property
    def recent(self) -> str | None:
        """The selected recent search."""
        return self.selected if isinstance(self.selected, str) else None

    def show_recent(self, searches: Sequence[str]) -> None:
        """List searches that were made before, the newest first."""
        self._hits, self._counts, self.empty = {}, {}, ""
        self.replace(list(searches))

    def show(self, found: Found | None, *, searching: bool) -> None:
        """List what was found; the cursor stays on the hit that it was moved to, else on the best one."""
        hits = () if found is None else found.hits
        by_owner: dict[ConversationId, list[Hit]] = {}
        for hit in hits:
            by_owner.setdefault(hit.conversation_id, []).append(hit)
        self._hits = {HitKey(hit.kind, hit.id): hit for hit in hits}
        self._ids = ShortIds(name for hit in hits for name in (hit.id, *hit.way[:1]))
        self._counts = {owner: len(some) for owner, some in by_owner.items()}
        self._cut = found is not None and is_cut(found)
        keys: list[RowKey] = []
        for owner, some in by_owner.items():
            keys.append(owner)
            keys += [HitKey(hit.kind, hit.id) for hit in some]
        self.empty = "" if found is None or searching else nothing_text(found)
        if self.selected == self._put or self.selected not in self._hits:
            self._put = keys[1] if keys else None
            self.replace(keys, select=self._put)
            self._show_from(0)
        else:
            self.replace(keys)

    def _draw_row(self, key: RowKey, width: int) -> Sequence[Line]:
        if isinstance(key, int):
            count = self._counts[key]
            return (conversation_line(key, self.names.get(key), count, width, cut=self._cut),)
        if isinstance(key, str):
            return (recent_line(key, width),)
        return hit_lines(self._hits[key], width, self.zone, self._ids)


class QueryInput(Input):
    """Where the words are typed; arrows and pages move in the hits meanwhile."""

    moves = (
        (("query-up", "query-down"), "the hit above, the hit below"),
        (("query-page-up", "query-page-down"), "a page of hits up, down"),
    )

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down", "move(1)", "Down", show=False, id="query-down"),
        Binding("up", "move(-1)", "Up", show=False, id="query-up"),
        Binding("pagedown", "page(1)", "Page down", show=False, id="query-page-down"),
        Binding("pageup", "page(-1)", "Page up", show=False, id="query-page-up"),
    ]
    DEFAULT_CSS = """
    QueryInput { height: 1; border: none; padding: 0 1; background: $panel; }
    QueryInput:focus { border: none; background: $primary 30%; }
    """

    def __init__(self, hits: HitList) -> None:
        super().__init__(placeholder='a word, several words, "a phrase", the start of a word*', id="query")
        self._hit_list = hits

    def action_move(self, step: int) -> None:
        """Go to the next hit, or the one before."""
        self._hit_list.action_move(step)

    def action_page(self, direction: int) -> None:
        """Go a page on."""
        self._hit_list.action_page(direction)


# -- what it reads besides hits --------------------------------------------------------------------------
# Names of conversations, and where a hit leads.


async def load_names(reader: Reader) -> Mapping[ConversationId, Conversation]:
    """The conversations by their ids, for their names."""
    found = await list_conversations(reader)
    return {entry.conversation.conversation_id: entry.conversation for entry in found}


async def load_needs_index(reader: Reader) -> bool:
    """Whether the file has no search table of its own that a search can begin with."""
    return not await reader.run(lambda rows: has_search_table(rows, reader.schema))


async def expansion_of(reader: Reader, summary_id: SummaryId) -> places.Place:
    """A summary to be read down.

    Raises:
        NotFoundError: it, or its conversation, is gone.
    """
    found = await get_summary(reader, summary_id)
    return places.Expansion(await get_conversation(reader, found.summary.conversation_id), summary_id)


async def place_of(reader: Reader, hit: Hit) -> places.Place:
    """Where a hit stands.

    Raises:
        NotFoundError: it, or its conversation, is gone.
    """
    return await _place(reader, hit.conversation_id, hit.kind, hit.id, _found_in(hit))


async def place_of_passage(reader: Reader, passage: Passage, question: str) -> places.Place:
    """The place of a passage that was found for a question, at the longest of its words; as `place_of`."""
    name = passage.citation.partition("@")[0].removeprefix("msg#")
    terms = [term for word in terms_of(question) for term in parse(word).terms]
    places = [place for term in terms for place in term.places(passage.text)[:1]]
    find = max((passage.text[start:end] for start, end in places), key=len, default="")
    return await _place(reader, passage.conversation_id, passage.kind, name, find)


async def _place(
    reader: Reader, owner: ConversationId, kind: DocumentKind, name: str, find: str
) -> places.Place:
    conversation = await get_conversation(reader, owner)
    match kind:
        case DocumentKind.MESSAGE:
            return places.Messages(conversation, await seq_of_message(reader, owner, int(name)), find)
        case DocumentKind.SUMMARY:
            return places.Summaries(conversation, SummaryId(name), find)
        case DocumentKind.BRIEF:
            return places.Briefs(conversation, name, find)
        case DocumentKind.FILE:
            return places.FileText(await get_file(reader, name), find)


def _found_in(hit: Hit) -> str:
    """What was found, as it is written there: the longest of several words, which says the most."""
    return max((hit.snippet[one.start : one.end] for one in hit.spans), key=len, default="")


# -- asking ----------------------------------------------------------------------------------------------
# A question to the memory: its evidence at once, and an answer when a model was named and agreed to.


class AskPane:
    """A question with its evidence over a screen (`AskUi`)."""

    def __init__(
        self, screen: CommandScreen, question: str, within: tuple[ConversationId, ...] | None
    ) -> None:
        self._screen = screen
        session = screen.session
        self._inquiry = Inquiry(session.database, recall_settings(session.settings), question, within=within)
        self._shown: Asked | None = None
        self._note = ""
        self._pane: TwoTexts | None = None

    async def run(self) -> None:
        """Show the evidence; ask a model about it when the operator agrees."""
        model = None
        try:
            model = await asyncio.to_thread(named_model, self._screen.session.settings)
            self._note = NOBODY if model is None else UNASKED
        except LcmError as error:
            self._note = error.message
        asked, spent = await ask_memory(self, self._inquiry, model)
        if spent is not None:
            await self._show(asked, "", f"{counted(spent.calls, 'call')}, cost: {spent_text(spent.usage)}")

    async def show_evidence(self, evidence: Asked) -> None:
        """Over the screen, with why nobody is asked."""
        told, found = self._documents(evidence, self._note)
        self._shown, self._pane = evidence, TwoTexts(told, found, self._open)
        self._screen.app.push_screen(self._pane, self._leave)

    async def agree(self, model: Modelling, forecast: Forecast, budget: CallBudget) -> bool:
        """Ask with what it takes."""
        most = budget.at_most(forecast)
        said = (
            Block(model.words),
            Block(key_text(model)),
            Block(f"If the first call answers: {forecast_text(forecast, budget)}."),
            Block(
                f"At most {counted(most.calls, 'call')} including retries, and "
                f"{most.input_tokens:,} tokens in. The question and passages of your database are sent."
            ),
        )
        question = Question("Call this model?", said, (("a", "ask"),), leave="show only the evidence")
        if not await self._screen.app.push_screen_wait(question):
            return False
        await self._show(self._inquiry.evidence, f"{model.words} is being asked; esc cancels.")
        return True

    def progress(self, done: int, what: str) -> None:
        """The pane says that it is asked."""

    async def _show(self, asked: Asked, note: str, told: str = "") -> None:
        self._shown = asked
        if self._pane is not None:
            await self._pane.show(*self._documents(asked, note, told))

    def _documents(self, asked: Asked, note: str, told: str = "") -> tuple[Document, Document]:
        return answer_document(asked, note, told), evidence_document(asked, self._screen.session.zone)

    def _open(self, number: int) -> None:
        """Open a passage in its place; `esc` comes back to the evidence."""
        passages = () if self._shown is None else self._shown.cited_first
        if number <= len(passages):
            self._screen.work_on("passage", self._open_passage, passages[number - 1])

    async def _open_passage(self, passage: Passage) -> None:
        question = self._inquiry.evidence.question
        self._screen.open(await self._screen.session.read(place_of_passage, passage, question))

    def _leave(self, _: None) -> None:
        """End a call that is out: nobody waits for its answer any more."""
        self._screen.workers.cancel_group(self._screen, "ask")


# -- the screen ------------------------------------------------------------------------------------------

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
    ("narrow", "to summaries, tool, in-context, broken, conversation 3, the last 7d"),
    ("ask", "the typed text as a question: evidence, and an answer if you agree"),
    ("expand", "the summary of the selected hit, level by level"),
)
#: Cells of a title in these lines.
_HINTED: Final = 8


def choice_key(name: str, word: str, title: str, sentence: str, words: str) -> Key[SearchScreen]:
    """Narrow the search by one of the choices, or take it away again."""
    key = next(key for key, other, _ in narrowing.CHOICES if other == word)
    return Key(
        name,
        key,
        title,
        sentence,
        lambda s: s.narrow_to(s.narrowing.turned(word)),
        words=words,
        hidden=True,
    )


class SearchScreen(CommandScreen):
    """A search of everything."""

    HELP = """
Searches every message with its tool inputs and outputs, every summary, focus brief and large file of the
database as you type.

enter opens the selected hit at what was found, tab moves to the list of hits, where keys are commands.

The order counts how well a hit matches and how new it is; a conversation is where its best hit is. While a
large database is still being searched, the newest hits are shown. Several words must all occur in one text;
"…" is a phrase, word* the start of a word. Each hit shows whether the model receives it now, directly or
through a summary.

Letters are text while you type. Arrows move through the hits, enter opens the selected one at what was found
(n goes to the next match there), and esc returns here. ctrl+t narrows the search to messages, summaries,
briefs or files, a role, a conversation by its number, or a time such as 7d, 2026-03-02 or
2026-03-02..2026-03-09; separate several with spaces; empty searches everything. The line above
the hits offers the choices that are made most, with the hits of each: after tab, its key sets a choice (●) or
takes it away. Choices apply together, those that exclude each other in turn, and 0 takes everything away.

ctrl+o (> in the list) expands the selected summary, or of a message the summary in the context that covers
it: level by level down to the messages, with the tokens that each level costs.

ctrl+g asks the typed text as a question: it shows the best evidence with citations and, if a model is
configured, its answer beside it. lcm-tui shows the cost and asks before it sends anything.

With nothing typed, the list shows the searches from which a hit was opened; enter repeats one. A database
without search tables gets a private index while you type; lcm-tui grep --index forget removes both.
lcm-tui --no-cache, or search_cache = false in config.toml, keeps neither.
"""

    def __init__(self) -> None:
        super().__init__()
        self.hits = HitList()
        self.query_input = QueryInput(self.hits)
        self.account = Lines(self._account, id="account", clicked=self._clicked_choice)
        self._found: Found | None = None
        self._searching = False
        self._share = 0.0  #: of everything that was looked at, 0 to 1
        self.narrowing = narrowing.Narrowing()
        self._recent: tuple[str, ...] = ()
        self._indexed: float | None = None  #: of the messages while the private index is made, 0 to 1
        self._no_index = ""  #: why it cannot be made
        self._problem = ""
        self._tallest = 1  #: lines that the account took
        self._opens = 0  #: the search whose best hit is opened as soon as it is known
        self._series = Series("hit", lambda: self.hits, self._place_of, counted=True)
        self._expanded = Series("hit", lambda: self.hits, self._expansion_of, counted=True)
        self._number = 0  #: of the search that was begun last: what an earlier one finds is late
        self._counts: narrowing.Counts | None = None

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
        return safe_line(f"Search {self.narrowing.text}".rstrip())

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

    def copies(self) -> Copies | None:
        """The hit, as the command that finds it lists it."""
        hit, name = self.hits.hit, self.selected_id()
        if hit is None or name is None:
            return None
        found = by_id(self.session, name)

        async def load(reader: Reader) -> Forms:
            assert found.load is not None
            return replace(await found.load(reader), json=to_json(FoundHit.of(hit)))

        return replace(found, command=self._as_command(), load=load)

    async def _export(self) -> None:
        """The hits that are listed, the best first."""
        hits = () if self._found is None else self._found.hits
        title = f"{self.query_input.value.strip()} {self.narrowing.text}".strip()
        items = [to_json(FoundHit.of(hit)) for hit in hits]
        shown = ShownRows(f"Search {safe_line(title)}", hits_table(hits, when(self.session.zone)), items)
        await export_rows(self, "hits", shown)

    def _why_no_export(self) -> str | None:
        return None if self._found is not None and self._found.hits else "There is no hit to write"

    def _as_command(self) -> Sequence[str]:
        """The search as a command."""
        wanted = self.narrowing.filter
        given: list[tuple[str, str | None]] = [
            *(("--conversation-id", str(one)) for one in wanted.conversations or ()),
            *(
                ("--kind", str(one))
                for one in (wanted.kinds if len(wanted.kinds) < len(DocumentKind) else ())
            ),
            *(("--role", one) for one in wanted.roles),
            ("--context", None if wanted.in_context is None else "in" if wanted.in_context else "out"),
            ("--since", wanted.since),
            ("--until", wanted.before),
        ]
        options = [word for name, value in given if value is not None for word in (name, value)]
        query = self.query_input.value.strip()
        return ("grep", *options, *(["--broken"] if wanted.broken else []), "--", query)

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
        self._counts = None if self._counts is None else replace(self._counts, now=None)
        self.title_bar.note = ""
        text = self.query_input.value.strip()
        self._found, self._problem, self._searching = None, "", len(text) >= FEWEST or not text.isascii()
        if self._searching:
            self.work_on("search-everywhere", self._find, self._number, text)
        else:
            self.workers.cancel_group(self, "search-everywhere")
            self._show_recent()
        self._say()

    def _search_again(self) -> None:
        """Search in the file as it is now."""
        self._counts = None
        self._search()

    async def _find(self, number: int, text: str) -> None:
        try:
            query = parse(text)
        except UsageError as error:
            self._problem, self._searching = error.message, False
            self._say()
            return

        def heard(progress: Progress) -> None:
            self._show(number, progress.found, progress.share)

        wanted = self.narrowing.filter
        settings, database = recall_settings(self.session.settings), self.session.database
        index = await asyncio.to_thread(index_of, database.path) if self._keeps else None
        found = await search_live(database, query, wanted, settings, heard, limit=SHOWN, index=index)
        self._show(number, found, 1.0)
        now = whole = await self.session.read(narrowing.load_sorted, found)
        rest = self.narrowing.rest
        if rest != self.narrowing.text and self.counts is not None:
            whole = self.counts.whole
        elif rest != self.narrowing.text:
            wanted = narrowing.parse_narrowing(rest, self.session.zone).filter
            found = await search_live(
                database, query, wanted, settings, lambda _: None, limit=SHOWN, index=index
            )
            whole = await self.session.read(narrowing.load_sorted, found)
        if number == self._number and self.is_attached:
            self._counts = narrowing.Counts(text, rest, whole, now)
            self._show_why_nothing()
            self._say()

    @property
    def counts(self) -> narrowing.Counts | None:
        """The hits of what is typed without the choices; None: not known yet."""
        asked = self.query_input.value.strip(), self.narrowing.rest
        counts = self._counts
        return counts if counts is not None and (counts.query, counts.rest) == asked else None

    def _show_why_nothing(self) -> None:
        """Say when there are no hits because the search is narrowed."""
        if self._found is None or self._searching or self._found.total or not self.narrowing.text:
            return
        whole = None if self.counts is None else self.counts.whole.found
        limits = self.narrowing.limits
        away = f"{'tab, then ' if self.query_input.has_focus else ''}{self.key_of('narrow-nothing')}"
        if whole is not None and whole.total and self.narrowing.rest != self.narrowing.text:
            self.hits.empty = f"{of_whole(self._found, whole)}: {limits}. {away} shows all."
        else:
            why = nothing_text(self._found)
            self.hits.empty = f"{why} Only searched: {limits}. {away} searches everything."

    def _show(self, number: int, found: Found, share: float) -> None:
        """Show what was found when *share* of everything was looked at."""
        if number != self._number or not self.is_attached:
            return
        self._found, self._searching, self._share = found, share < 1, share
        self.hits.show(found, searching=self._searching)
        self._show_why_nothing()
        self._say()
        if self._opens == number and not self._searching and self.hits.hit is not None:
            self._opens = 0
            self.open_by("open-early", self._open_unseen)

    def data_changed(self) -> None:
        """The hits are those of before; a search begins when the operator says so."""
        super().data_changed()
        if self._found is not None:
            self.title_bar.note = f"of before a change: {self.key_of('reload')} searches again"

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
            self.narrowing.text,
            check=lambda text: narrowing.parse_narrowing(text, self.session.zone),
            explained=narrowing.NARROWING,
            picks=picks.narrowings(self.session, self.hits.names, self.narrowing.text, self.narrowing.turned),
        )
        if text is not None:
            self.narrow_to(text)

    def narrow_to(self, text: str) -> None:
        """Search again, only in what some words name."""
        self.narrowing, self._tallest = narrowing.parse_narrowing(text, self.session.zone), 1
        self.say_where()
        self._search()

    def _account(self, width: int) -> list[Line]:
        if self._problem:
            return [(Span(f" {self._problem}", "warn"),)]
        indexing = self._indexed is not None or bool(self._no_index)
        if self._found is None and not self._searching and not indexing:
            on = narrowing.choices_lines(self.narrowing, None, width, typing=False, low=True)
            return [*(self._hint(*hint) for hint in HINTS), *(on if self.narrowing.text else ())]
        whole = self.counts.whole.found if self.counts is not None and self.narrowing.text else None
        parts = coverage_parts(self._found, self._share if self._searching else None, whole, width)
        if self._indexed is not None:
            parts.append((Span(f"indexing messages {self._indexed:.0%}", "dim"),))
        elif self._no_index:
            parts.append((Span(self._no_index, "warn"),))
        typing, low = self.query_input.has_focus, self.app.size.height < LOW
        choices = narrowing.choices_lines(self.narrowing, self.counts, width, typing=typing, low=low)
        lines = [*flowed(parts, width, narrowing.BETWEEN), *choices]
        self._tallest = max(self._tallest, len(lines))  # the hits do not jump while words are typed
        return lines + [()] * (self._tallest - len(lines))

    def _clicked_choice(self, line: Line, cell: int) -> None:
        """Run the key of the choice that was clicked."""
        names = {self.key_of(name): name for name in self.commands if name.startswith("narrow-")}
        if (name := names.get(narrowing.key_at(line, cell) or "")) is not None:
            self.work_on("choice", self.action_run, name)

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
        pane = AskPane(self, question, self.narrowing.filter.conversations)
        self.work_on("ask", pane.run)

    # -- opening -----------------------------------------------------------------------------------------

    @on(Input.Submitted, "#query")
    async def _submitted(self) -> None:
        await self.action_run("open")

    def _summary(self) -> SummaryId | None:
        """The selected hit, if it is a summary."""
        hit = self.hits.hit
        return SummaryId(str(hit.id)) if hit is not None and hit.kind is DocumentKind.SUMMARY else None

    def _why_none(self) -> str | None:
        if self._is_early or self.hits.hit is not None or self.hits.recent is not None:
            return None
        return self._why_no_hit

    @property
    def _why_no_hit(self) -> str:
        if self._searching:
            return "The search is still running: wait for its first hits"
        if self._found is not None:
            return "Nothing was found for these words"
        return "No hit is selected: type a word to search for"

    @property
    def _is_early(self) -> bool:
        """Whether what is listed is still of the search before, or nothing."""
        return self._searching and self._found is None

    def _why_not_expanded(self) -> str | None:
        if self._is_early or self.hits.hit is None:
            return self._why_no_hit
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

    async def _open_unseen(self) -> None:
        """Open the best hit, whose list nobody has seen, and say that there are others."""
        await self._open()
        if self._found is not None and (total := self._found.total) > 1:
            least = "at least " if self._found.at_least else ""
            following = self.key_of(commands.HUNK_NEXT.id)
            self.app.notify(f"The best of {least}{total:,} hits; {following} shows the next.")

    KEYS: ClassVar[Sequence[Key[SearchScreen]]] = (
        commands.OPEN.does(_open, _why_none, help="Open the selected hit in its place.", bar="Open hit"),
        Key(
            "narrow",
            "ctrl+t",
            "Narrow",
            "Limit the search to some kinds, one conversation, or a time.",
            _narrow,
            words="only messages; only summaries; by time; by date; by conversation; scope of the search",
            where="the search",
        ),
        *(
            choice_key(f"narrow-{name}", word, title, f"Only {what}, or no longer only these.", words)
            for name, word, title, what, words in (
                ("tool", "tool", "Tool", "tool outputs", "tool outputs; tool results; by role"),
                ("user", "user", "User", "what users said", "who said it; by role"),
                ("assistant", "assistant", "Assistant", "what the assistant said", "who said it; by role"),
                ("summaries", "summaries", "In summaries", "summaries", "only summaries; by kind"),
                ("in", "in-context", "In context", "what is in a context", "in the context"),
                ("out", "out-of-context", "Not in it", "what is in no context", "out of context"),
                ("broken", "broken", "Only broken", "broken summaries", "failure marker; broken hits"),
                ("briefs", "briefs", "In briefs", "focus briefs", "only briefs; by kind"),
                ("files", "files", "In files", "large files", "only files; by kind"),
            )
        ),
        Key(
            "narrow-nothing",
            "0",
            "Everything",
            "Search everything again: take away all that limits the search.",
            lambda s: s.narrow_to(""),
            lambda s: None if s.narrowing.text else "Nothing limits the search",
            hidden=True,
            words="clear filters; no filter; reset search",
        ),
        commands.EXPAND.does(
            _expand,
            _why_not_expanded,
            help="Read the selected summary, or the one that covers the selected message, level by level.",
        ),
        *actions.edit_keys(_summary),
        Key(
            "ask",
            "ctrl+g",
            "Ask",
            "Ask the typed question: evidence, and a model's answer if you agree to its cost.",
            _ask_memory,
            _why_no_question,
            words="question; question and answer; ask the memory; answer",
        ),
        commands.HISTORY,
        commands.EXPORT.does(
            _export, _why_no_export, help="Write the listed hits to a file: Markdown, JSON or CSV."
        ),
    )
    COMMON: ClassVar[Sequence[Key[SearchScreen]]] = (
        commands.SEARCH.does(lambda s: s.query_input.focus(), title="Search", help="Edit the search words."),
        commands.SEARCH_EVERYWHERE.does(lambda s: s.query_input.focus(), help="Edit the search words."),
        commands.RELOAD.does(_search_again, title="Search again", help="Search again now."),
    )
