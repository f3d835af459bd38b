"""What `:` finds: keys by their names and by other words for them, places, ids, changes, settings, themes."""

from __future__ import annotations

import asyncio
import re
from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Sequence
from functools import partial
from typing import Any, ClassVar, Final

from lcm_core.base.errors import LcmError
from lcm_core.base.records import Conversation, ConversationId
from lcm_core.base.text import clip, safe_line
from lcm_core.base.values import Record, replace
from lcm_core.store.conversations import first_words, list_conversations
from lcm_core.store.database import Reader
from rich.console import RenderableType
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.command import CommandPalette, DiscoveryHit, Hit, Hits, Provider
from textual.markup import escape
from textual.theme import ThemeProvider
from textual.widgets import Input
from textual.worker import Worker, WorkerState

from lcm_tui.kit import places
from lcm_tui.kit.bars import KeyBar, KeyHint
from lcm_tui.kit.commands import OTHER_VIEW, Key, key_title, phrases
from lcm_tui.kit.dialog import TYPING, HelpScreen, faded, key_row
from lcm_tui.kit.dialogs import WholeScreen
from lcm_tui.kit.places import message_named, summaries_named
from lcm_tui.kit.spans import Block, heading
from lcm_tui.screens.frame import CommandScreen, all_keys

# -- other words -----------------------------------------------------------------------------------------
# A phrase belongs to what a stranger who types it looks for. Words of a title and a sentence need no entry.

#: Words that say nothing about what is looked for.
EMPTY: Final = frozenset(
    {
        *("a", "an", "and", "are", "be", "can", "could", "do", "does", "for", "have", "how", "i", "in"),
        *("is", "it", "its", "me", "my", "of", "on", "please", "show", "that", "the", "this", "to"),
        *("want", "what's", "where", "which", "with", "you", "your"),
    }
)

#: What a match by the words as they were typed scores at least; one that is only alike scores less.
EXACT: Final = 0.85
#: How alike a title or a phrase must be to what was typed, of 100.
ALIKE_WORDS: Final = 75


def telling(text: str) -> list[str]:
    """The words of what was typed that say something; all of them if none does."""
    words = text.casefold().replace("?", " ").split()
    return [word for word in words if word not in EMPTY] or words


def match_phrases(asked: str, phrases: Collection[str]) -> float:
    """How well what was typed matches phrases, 0 to 1: as they are, their words, how they begin, alike.

    `EXACT` and more: by the words as they were typed.
    """
    from rapidfuzz import fuzz

    words = telling(asked)
    if not words or not phrases:
        return 0.0
    typed = " ".join(words)
    best = 0.0
    for phrase in phrases:
        held = telling(phrase)
        said = " ".join(held)
        if typed == said:
            return 1.0
        if set(held) <= set(words):  # one word among others may mean something else
            best = max(best, 0.92 + 0.01 * min(len(held), 6) if len(held) > 1 else 0.84)
        elif set(words) <= set(held):
            best = max(best, 0.9)
        elif len(typed) > 2 and all(any(one.startswith(word) for one in held) for word in words):
            best = max(best, EXACT)
        elif len(typed) > 3 and (alike := fuzz.ratio(typed, said)) >= ALIKE_WORDS:
            best = max(best, 0.8 * alike / 100)
    return best


# -- other views -----------------------------------------------------------------------------------------
# What `m` leads to, screen by screen: the names under which `:` lists it.
#
# The command is one (`other-view`); what it shows has a name of its own on each screen, short in the key
# bar and whole in the palette, and people look for each in other words.


class OtherView(Record, frozen=True):
    """One view that a screen has beside the one it opens with, or the way back from it."""

    word: str  #: as the key bar says it
    title: str  #: as the palette says it
    does: str  #: a sentence
    where: str  #: the screens that have it; empty: only whoever is in the other view looks for it
    phrases: tuple[str, ...] = ()  #: what people type who look for it


VIEWS: Final = (
    OtherView(
        "Map",
        "Coverage map",
        "Show the summaries as blocks over the messages that they cover.",
        "the summary DAG",
        ("coverage", "which messages are covered", "timeline", "overview", "another view", "other view"),
    ),
    OtherView(
        "Preview",
        "Preview of a pass",
        "Show the rows that accepting the waiting draft changes.",
        "a compaction whose draft waits",
        ("preview compaction", "rows of a pass", "what would compacting change"),
    ),
    OtherView(
        "Diff",
        "Diff of rows",
        "Show the rows before and after the change as a diff.",
        "previews and operations",
        ("row diff", "changed rows", "rows before and after", "other view"),
    ),
    OtherView(
        "As sent",
        "Messages as sent",
        "Show the messages of the request in place of the stored items.",
        "the context",
        ("raw request", "api request", "exact messages", "as sent", "other view"),
    ),
    OtherView(
        "As sent",
        "As sent to the model",
        "Show the text as the model gets it.",
        "an item of the context and focus briefs",
        ("xml", "wrapped", "exact text", "other view"),
    ),
    OtherView(
        "As text",
        "As one text",
        "Show the previous context as one text.",
        "the previous context",
        ("whole text", "plain text", "other view"),
    ),
    OtherView(
        "Facts",
        "Facts about the file",
        "Show what the database says about the file.",
        "a large file",
        ("metadata", "file details", "other view"),
    ),
    OtherView("As list", "List of summaries", "Show the summaries of the previous context as a list.", ""),
    OtherView("Text", "Text of the file", "Show the text of the file.", ""),
    OtherView("Stored items", "Items as stored", "Show the stored items of the context.", ""),
    OtherView("As stored", "Text as stored", "Show the text as the database has it.", ""),
)


# -- the search ------------------------------------------------------------------------------------------
# The commands of the screen first, then every place, id, change, setting and theme.
#
# What is searched is read once for each palette, off the event loop, and compared in a thread; ids of
# summaries and messages are looked up in the database as they are typed.

#: Places that are shown at most, of what was read, and ids that begin as typed.
MOST: Final = 12
MOST_IDS: Final = 6
#: How alike a name must be to what was typed, of 100.
ALIKE: Final = 70
#: Conversations whose first words are looked through as well.
MOST_WORDS: Final = 500
#: Changes that are looked through, the newest.
MOST_CHANGES: Final = 200
#: What is added to how well a command matches: the words themselves, in a command of the screen and in
#: another one, come before ids and names; what is only alike or in its sentence, between them.
_EXACT_HERE, _EXACT, _ALIKE_HERE, _BY_ID = 2.0, 1.9, 1.2, 1.7

#: What the command line does, and `:` names for who looks for it here: a title, what it does, other words.
ELSEWHERE: Final = (
    (
        "Backup (command line)",
        "lcm-tui backup copies the database while it is used. A copy is also offered before the first "
        "change of a day.",
        "backup; back up; back up the database; copy of the database; safety copy; save the database",
    ),
    (
        "Restore (command line)",
        "lcm-tui restore FILE restores a backup and keeps a copy of the current database.",
        "restore; restore backup; go back to a backup; from backup",
    ),
    (
        "Search index (command line)",
        "lcm-tui reindex rebuilds the search tables from messages and summaries; it previews first.",
        "search index; rebuild index; full text index; fts; reindex",
    ),
    (
        "Migrate (command line)",
        "lcm-tui migrate brings an old database to the engine's current schema, after a backup.",
        "upgrade schema; new version; migrate; old database",
    ),
    (
        "Report (command line)",
        "lcm-tui status --report writes a bug report: versions, counts, masked settings, errors; no content.",
        "bug report; anonymous copy; share database; support; report",
    ),
    (
        "Models (command line)",
        "lcm-tui config names the model that drafts are written with, and where it is set. What a draft "
        "costs is said before it is made.",
        "which model; api key; provider; configure model; model settings; openai; anthropic; ollama; cost; "
        "price; spend; money",
    ),
)
#: What each theme is called besides its name, and a dark or light mode.
_THEME: Final = ("theme", "themes", "colours", "colors", "appearance")
_OTHER_KEY: Final = (
    *("key", "keys", "another key", "other keys", "give a key", "change key", "own keys", "rebind", "remap"),
    *("key bindings", "shortcuts", "hotkeys"),
)


class Goal(Record, frozen=True):
    """Something that `:` leads to."""

    title: str
    does: str  #: what choosing it would do, a sentence
    go: Callable[[], Any]
    words: tuple[str, ...] = ()  #: what else people call it
    number: ConversationId | None = None  #: the conversation that it opens: a number alone names it


class GoTo(CommandPalette):
    """What `:` opens: a line to type into, and what it finds."""

    DEFAULT_CSS = """
    GoTo {
        background: $background 80%;
        &:ansi { background: transparent; }
        & > Vertical { margin-top: 1; width: 94; max-width: 100%; background: transparent; }
        & > KeyBar { dock: bottom; }
        & #--input { border: round $primary; background: $surface; padding: 0 1; }
        & #--input.--list-visible { border: round $primary; }
        & SearchIcon { display: none; }
        & CommandInput, & CommandInput:focus { border: none; height: 1; padding: 0; }
        & CommandList, & CommandList:focus, & CommandList.--populating {
            border: round $primary; background: $surface; padding: 0 1; scrollbar-size-vertical: 1;
        }
        & CommandList > .option-list--option { padding: 0; text-style: none; }
        & CommandList > .option-list--option-highlighted { background: $primary-muted; }
        & LoadingIndicator { border: none; background: $surface; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("f1", "help", "Help", show=False, id="palette-help")]

    def __init__(self, providers: Sequence[type[Provider]] | None = None) -> None:
        """*providers*: the themes, to list nothing else; None: everything."""
        asked = "What do you want to do, or where to go?" if providers is None else "Which theme?"
        super().__init__(providers, placeholder=f"{asked}  F1 help  esc back")
        self._entered = False  #: enter waits for what the typed text finds

    @on(Input.Submitted)
    def _hold_enter(self, event: Input.Submitted) -> None:
        """As long as it is searched, what is listed was found for another text: `enter` waits."""
        searching = any(one.node is self and not one.is_finished for one in self.workers)
        if searching and event.value.strip():
            event.stop()
            event.prevent_default()
            self._entered = True

    @on(Input.Changed)
    def _other_text(self) -> None:
        self._entered = False

    @on(Worker.StateChanged)
    async def _act_on_enter(self, event: Worker.StateChanged) -> None:
        """Do what was found first for the text behind which `enter` was pressed."""
        if self._entered and event.state is WorkerState.SUCCESS:
            self._entered = False
            await self.query_one(Input).action_submit()

    def compose(self) -> ComposeResult:
        """What Textual makes of it, and its keys, where those of the screen below would do nothing."""
        yield from super().compose()
        yield KeyBar(
            lambda: [
                KeyHint("enter", "Go", "go", True),
                KeyHint("↑↓", "Select", "select", True),
                KeyHint("F1", "Help", "help", True),
                KeyHint("esc", "Back", "back", True),
            ]
        )

    def render(self) -> RenderableType:
        """The screen below, faded."""
        return faded(super().render())

    async def action_run(self, command: str) -> None:
        """A key of the bar was clicked."""
        acts = {"go": "command_list('select')", "select": "cursor_down", "help": "help", "back": "escape"}
        await self.run_action(acts[command])

    def action_help(self) -> None:
        """Explain it; what was typed stays."""
        self.app.push_screen(HelpScreen(_PALETTE_HELP))


_PALETTE_HELP: Final = (
    Block(
        "Type what you look for: a command in your own words (why full, what did the model see, disk), a "
        "conversation by its title, agent, channel or first words, an id (sum_4c4b, m848, 12), a change, a "
        "setting, a theme, or a screen."
    ),
    Block(),
    Block("The line below each result says what it does, and why it cannot be done now."),
    Block(),
    heading("Keys while you type"),
    key_row("enter", "Go", "Do what is selected."),
    key_row("↑ ↓", "Select", "Select the result above, or below."),
    key_row("PgUp PgDn", "Page", "Select a page up, or down."),
    key_row("F1", "Help", "This help; what you typed stays."),
    key_row("esc", "Back", "Close the list; nothing is done."),
    *TYPING,
)


class Source(Provider):
    """What a palette searches, prepared once.

    Textual cancels a search when the next letter comes, and with it the startup that the search waits for:
    who types fast would find nothing. So this is prepared by a task that no search takes with it.
    """

    _preparing: asyncio.Task[None] | None = None

    @abstractmethod
    async def prepare(self) -> None:
        """Read what is searched."""

    async def ready(self) -> None:
        """Wait until it is prepared."""
        if self._preparing is None:
            self._preparing = asyncio.create_task(self.prepare())
        await asyncio.shield(self._preparing)

    async def shutdown(self) -> None:
        """Give up what is still being prepared."""
        if self._preparing is not None:
            self._preparing.cancel()


class CommandSource(Source):
    """The keys of the screen in front, and those of others."""

    async def prepare(self) -> None:
        """Have every screen say its keys."""
        await asyncio.to_thread(all_keys)

    async def discover(self) -> Hits:
        """All of them, before anything is typed."""
        await self.ready()
        for name, title, text in self._commands():
            yield DiscoveryHit(title, partial(self._run, name), help=text)

    async def search(self, query: str) -> Hits:
        """Those that hold the words, or are called alike; then the commands of other screens that do.

        Those of the screen come before everything else.
        """
        await self.ready()
        matcher = self.matcher(query)
        for name, title, text in self._commands():
            key = all_keys()[name]
            called, words = key.title, key.phrases
            if name == OTHER_VIEW.id and (view := self._view_here()) is not None:
                called, words = view.title, (*words, *view.phrases)
            if score := _matches(query, called, text, words):
                score += _EXACT_HERE if score >= EXACT else _ALIKE_HERE
                yield Hit(score, matcher.highlight(title), partial(self._run, name), help=text)
        for command, other in self._elsewhere():
            if score := _matches(query, command.title, command.help, other):
                score += _EXACT if score >= EXACT else 0.0
                does = f"{command.help} It is a key of: {command.where}."
                title = escape(f"{command.title} ({self._key_of(command)}) elsewhere")
                yield Hit(score, title, partial(self.app.notify, does, timeout=8), help=escape(does))

    def _elsewhere(self) -> Iterable[tuple[Key[Any], tuple[str, ...]]]:
        """Commands that only other screens have, and the other views of other screens, with their phrases."""
        screen = self.screen
        known = screen.commands if isinstance(screen, CommandScreen) else ()
        for one in all_keys().values():
            if one.where and one.id not in known:
                yield one, one.phrases
        here = self._view_here()
        for view in VIEWS:
            if view.where and view is not here:
                named = replace(OTHER_VIEW, title=view.title, help=view.does, where=view.where)
                yield named, view.phrases

    def _view_here(self) -> OtherView | None:
        """What `m` leads to on the screen in front."""
        screen = self.screen
        if not isinstance(screen, CommandScreen) or OTHER_VIEW.id not in screen.commands:
            return None
        word = screen.told(OTHER_VIEW.id).title
        return next((view for view in VIEWS if view.word == word), None)

    def _key_of(self, command: Key[Any]) -> str:
        screen = self.screen
        remapped = screen.session.settings.keys if isinstance(screen, CommandScreen) else {}
        return key_title(remapped.get(command.id, command.key))

    def _commands(self) -> Iterable[tuple[str, str, str]]:
        screen = self.screen
        if not isinstance(screen, CommandScreen):
            return
        for name in screen.commands:
            command = screen.told(name)
            reason = screen.why_not(name)
            text = command.help if reason is None else f"{command.help} Not now: {reason}"
            view = self._view_here() if name == OTHER_VIEW.id else None
            title = command.title if view is None else view.title
            # The palette reads markup; a reason may hold a path, a key of the user may be a bracket.
            yield name, escape(f"{title} ({screen.key_of(name)})"), escape(safe_line(text))

    async def _run(self, name: str) -> None:
        if isinstance(self.screen, CommandScreen):
            await self.screen.action_run(name)


class _ThemesOnly(ThemeProvider):
    @property
    def commands(self) -> list[tuple[str, Callable[[], None]]]:
        """The one in use is the first, where the cursor begins."""
        used, names = self.app.theme, sorted(self.app.available_themes)
        titles = {used: f"{used}, used now", **{name: name for name in names if name != used}}
        return [(title, partial(setattr, self.app, "theme", name)) for name, title in titles.items()]


class Anywhere(Source):
    """Conversations, summaries, messages, screens, changes, settings and themes."""

    _goals: Sequence[Goal] = ()

    async def prepare(self) -> None:
        """Read what names there are."""
        screen = self.screen
        if not isinstance(screen, CommandScreen):
            return
        session = screen.session
        found = [*self._screens(screen), *self._themes(), *self._settings(screen)]
        try:
            listed = await session.read(_conversations)
            changes = await session.read(_changes)
        except LcmError:
            listed, changes = [], []
        found += [self._conversation(screen, one, words) for one, words in listed]
        for place in changes:
            title = f"Change: {place.operation.title}  {place.operation.id}"
            found.append(Goal(title, "Show what it did.", partial(screen.open, place)))
        self._goals = found

    async def search(self, query: str) -> Hits:
        """What is called alike, and ids that begin so."""
        await self.ready()
        screen, asked = self.screen, query.strip()
        if not isinstance(screen, CommandScreen) or not asked:
            return
        async for goal in self._by_id(screen, asked):
            yield _hit(_BY_ID, goal)
        listed = set()  # by their number or words
        for place, goal in enumerate(self._goals):
            if goal.number is not None and str(goal.number) == asked:
                score = _EXACT
            elif score := match_phrases(asked, goal.words):
                score += _EXACT if score >= EXACT else 0.0
            else:
                continue
            listed.add(place)
            yield _hit(score, goal)
        titles = [goal.title for goal in self._goals]
        for place, score in await asyncio.to_thread(_alike, asked, titles):
            if place not in listed:
                yield _hit(score / 100, self._goals[place])

    # -- ids -----------------------------------------------------------------------------------------------

    async def _by_id(self, screen: CommandScreen, asked: str) -> AsyncIterator[Goal]:
        """The message and the summaries whose ids are typed."""
        number = re.fullmatch(r"[m#]?(\d{1,18})", asked)
        if number is not None:
            found = await screen.session.read(message_named, int(number[1]))
            if found is not None:
                conversation, seq = found
                does = f"Open conversation {conversation.conversation_id} on it."
                place = places.Messages(conversation, seq=seq)
                yield Goal(f"Message m{number[1]} #{seq}", does, partial(screen.open, place))
        begins = asked if asked.startswith("sum_") else f"sum_{asked}"
        if re.fullmatch(r"sum_[0-9a-zA-Z_-]{3,}", begins):
            for conversation, name in await screen.session.read(summaries_named, begins, MOST_IDS):
                does = f"Open the summary DAG of conversation {conversation.conversation_id} on it."
                goal = partial(screen.open, places.Summaries(conversation, select=name))
                yield Goal(f"Summary {name}", does, goal)

    # -- names ---------------------------------------------------------------------------------------------

    def _conversation(self, screen: CommandScreen, one: Conversation, words: str) -> Goal:
        known = f"{one.title}  " if one.title else ""
        said = f"  “{clip(words, 40)}”" if words else ""
        title = f"Conversation {one.conversation_id}  {known}{one.agent or ''} {one.lane}{said}"
        go = partial(screen.open, places.Messages(one))
        return Goal(title, "Open its messages.", go, number=one.conversation_id)

    def _screens(self, screen: CommandScreen) -> Iterable[Goal]:
        for title, does, place in (
            ("Health of the database", "Run the checks and list their findings.", places.Health()),
            ("History", "List changes made by lcm-tui, and undo them.", places.History()),
        ):
            yield Goal(f"Screen: {title}", does, partial(screen.open, place))
        for title, does, words in ELSEWHERE:
            say = partial(screen.app.notify, does, timeout=10)
            yield Goal(title, does, say, phrases(words))
        does = "Opens the help: select the action there, then F2 and the key. config.toml keeps it."
        yield Goal("Give an action another key", does, partial(screen.action_run, "help"), _OTHER_KEY)

    def _themes(self) -> Iterable[Goal]:
        yield Goal("Themes", "List the themes, to choose one.", self._list_themes, _THEME)
        for name, theme in sorted(self.app.available_themes.items()):
            sort = "Dark" if theme.dark else "Light"
            about = f"{sort}{', used now' if name == self.app.theme else ''}."
            words = tuple(f"{name} {sort.casefold()} mode {word}" for word in _THEME)
            yield Goal(f"Theme: {name}", about, partial(setattr, self.app, "theme", name), words)

    def _list_themes(self) -> None:
        self.app.push_screen(GoTo([_ThemesOnly]))

    def _settings(self, screen: CommandScreen) -> Iterable[Goal]:
        from lcm_tui.tables.settings import SETTINGS_WORDS, all_settings, settings_document

        held = screen.session.settings

        async def show() -> None:
            screen.app.push_screen(WholeScreen(settings_document(held)))

        yield Goal(
            "Settings", "List all settings, where each comes from and how to change it.", show, SETTINGS_WORDS
        )
        for one in all_settings(held):
            go = partial(screen.app.notify, f"{one.name}: {one.said}. {one.change}", timeout=8)
            yield Goal(f"Setting: {one.name}", f"Now {one.said}. {one.change}", go)


def _matches(asked: str, title: str, text: str, phrases: Sequence[str] = ()) -> float:
    """How well a command matches, 0 to 1: words in its title, *phrases* that people use for it, a title
    called alike, words in its sentence.

    `EXACT` and more: by the words as they were typed. Letters that merely follow each other somewhere match
    nothing.
    """
    from rapidfuzz import fuzz

    words, name, said = asked.casefold().split(), title.casefold(), text.casefold()
    if not words:
        return 0.0
    if all(one in name for one in words):
        return 1.0 if name.startswith(words[0]) else 0.9
    if (said_so := match_phrases(asked, phrases)) >= EXACT:
        return said_so
    alike = fuzz.ratio(" ".join(words), name) / 100
    if alike >= ALIKE / 100:
        return max(0.8 * alike, said_so)
    if said_so:
        return said_so
    found = [re.search(rf"\b{re.escape(one)}", said) for one in words]
    return 0.4 if all(found) and len(asked.strip()) > 2 else 0.0


def _hit(score: float, goal: Goal) -> Hit:
    title = escape(safe_line(goal.title))
    return Hit(score, title, goal.go, text=safe_line(goal.title), help=escape(safe_line(goal.does)))


def _alike(asked: str, titles: Sequence[str]) -> list[tuple[int, float]]:
    """The places of the titles that are most like what was typed, and how alike they are, of 100.

    Those that hold every word as it was typed come before those that are only alike.
    """
    from rapidfuzz import fuzz, process, utils

    words = asked.casefold().split()
    holding = [place for place, title in enumerate(titles) if all(one in title.casefold() for one in words)]
    if holding:
        return [(place, 100 - at) for at, place in enumerate(holding[:MOST])]
    found = process.extract(
        asked,
        titles,
        scorer=fuzz.WRatio,
        processor=utils.default_process,
        limit=MOST,
        score_cutoff=ALIKE,
    )
    return [(place, score) for _, score, place in found]


# -- reading what is searched ----------------------------------------------------------------------------


async def _conversations(reader: Reader) -> list[tuple[Conversation, str]]:
    """All of them, the newest first, the first with how their users began."""
    listed = [entry.conversation for entry in await list_conversations(reader)]
    words = await first_words(reader, [one.conversation_id for one in listed[:MOST_WORDS]])
    return [(one, words.get(one.conversation_id, "")) for one in listed]


async def _changes(reader: Reader) -> list[places.OneOperation]:
    from lcm_core.change.journal import operations

    return [places.OneOperation(one) for one in await reader.run(operations, limit=MOST_CHANGES)]
