"""What `:` finds: commands by any of their names, places, ids, changes, settings and themes."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import ClassVar, Final

from lcm_core.base.errors import LcmError
from lcm_core.base.records import Conversation, ConversationId
from lcm_core.base.text import clip, safe_line
from lcm_core.store.conversations import first_words, list_conversations
from lcm_core.store.database import Reader
from rich.console import RenderableType
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.command import CommandPalette, DiscoveryHit, Hit, Hits, Provider
from textual.markup import escape
from textual.widgets import Input
from textual.worker import Worker, WorkerState

from lcm_tui.kit import places
from lcm_tui.kit.bars import KeyBar, KeyHint
from lcm_tui.kit.commands import COMMANDS, Command, key_title
from lcm_tui.kit.dialog import TYPING, HelpScreen, faded, key_row
from lcm_tui.kit.dialogs import WholeScreen
from lcm_tui.kit.places import message_named, summaries_named
from lcm_tui.kit.spans import Block, heading
from lcm_tui.screens.frame import CommandScreen

# -- other words for commands ----------------------------------------------------------------------------
# As people say them who do not know ours; `:` finds a command by them, too.
#
# One table: a phrase belongs to what a stranger who types it looks for. Words of a command's title and
# sentence need no entry.

#: Words that say nothing about what is looked for.
EMPTY: Final = frozenset(
    {
        *("a", "an", "and", "are", "be", "can", "could", "do", "does", "for", "have", "how", "i", "in"),
        *("is", "it", "its", "me", "my", "of", "on", "please", "show", "that", "the", "this", "to"),
        *("want", "what's", "where", "which", "with", "you", "your"),
    }
)

#: Phrases, separated by semicolons, by the id of a command or of a goal that is none.
_TABLE: Final[Mapping[str, str]] = {
    "context": "what did the model see; what does the model see; what it sees; seen by the model; "
    "prompt sent; why full; why is the context full; full context; context window; what is in the context; "
    "token usage; tokens used; what fills the context; left out; what was left out; dropped; "
    "missing from the context; forgotten; evicted; not sent; working memory",
    "summaries": "dag; tree; summary tree; graph; memory; summary; condensed; what was summarized; "
    "what was summarised; nodes; levels; hierarchy",
    "search-everywhere": "what was said; who said; where was it said; find text; grep; search; look for; "
    "find message; full text; remember; recall; when did we talk about; mentioned",
    "ask": "question; question and answer; ask the memory; answer",
    "compact": "shrink; smaller; make smaller; reduce; free tokens; compress; summarize now; summarise now; "
    "too big; too long; reduce tokens; make room; context smaller; shorten",
    "under": "shrink to; how small; reduce to",
    "repair": "broken; broken summaries; fix summaries; bad summaries; truncated; corrupt summaries; heal; "
    "fallback; summary failed",
    "rewrite": "new summary; regenerate; summarize again; summarise again; improve; redo summary; "
    "better summary; wrong summary",
    "dissolve": "unsummarize; uncondense; expand back; give back details; detail back; restore messages; "
    "undo compaction; split summary; bring back",
    "expand": "read details; drill down; zoom into summary; unfold levels; original messages",
    "transplant": "carry over; new session; copy memory; move summaries; transfer; migrate conversation; "
    "clone; import summaries",
    "merge": "rejoin; join sessions; combine; split session; unite; put together",
    "archive": "hide; put away; retire",
    "delete": "remove; forget; erase; privacy; purge; free space; free disk; clean up; cleanup; prune; "
    "delete conversation; get rid of",
    "backfill": "import session; missing session; not in the database; ingest; load session; bootstrap; sync",
    "mark-by-cleaner": "cleaner; junk; heartbeat; garbage",
    "sort": "disk; disk usage; disk space; biggest; largest; what eats the disk; space used; size; bytes; "
    "which is largest; order; most tokens",
    "history": "undo last; undo last change; revert; roll back; rollback; undo changes; what changed; log; "
    "what did i do; journal; audit; take back; changes; operations",
    "undo": "undo last; undo last change; revert; roll back; rollback; take back; undo that; oops; redo",
    "health": "doctor; check; checks; sound; is it ok; is the database ok; is it sound; integrity; errors; "
    "problems; diagnose; corrupt; damaged; verify; validate; status; warnings",
    "fix": "repair the database; fix errors; fix findings; solve; fix problems",
    "whole-file": "slow checks; integrity check; deep check; complete check",
    "briefs": "focus; topic; focus brief; lossless focus; unfocus",
    "new-brief": "focus on; new focus; write brief",
    "files": "attachments; large files; uploads; documents; pictures; images",
    "messages": "transcript; chat; original text; raw messages; conversation text",
    "open": "transcript; chat; messages; read conversation; look into; raw messages; conversation text",
    "previous": "previous context; earlier summaries; what the summarizer saw",
    "snapshots": "what was sent; sent earlier; sent then; past requests; saved contexts",
    "compare": "diff; difference; versus; what differs",
    "export": "save as; write to file; dump; markdown; json; download; save context",
    "budget": "token limit; limit; max tokens; window size; context size; bigger budget",
    "prompt": "what if; simulate; test message",
    "clamp": "ninety percent; 90 percent; final trim",
    "other-view": "another view; other view; switch view",
    "engine": "debt; pending; background; worker; prepared; turns; waiting compaction; queue",
    "copy-id": "copy; clipboard; yank",
    "reload": "refresh; update; read again",
    "help": "keys; shortcuts; key bindings; manual; how does this work; what is this",
    "palette": "commands; menu; go to",
    "back": "return; close; leave screen; previous screen",
    "quit": "exit; leave; close app; stop",
    "pane": "other pane; switch focus; next pane",
    "mark": "select; choose several; tick; multiple",
    "search": "filter; narrow list; find in list",
    "narrow": "only messages; only summaries; by time; by date; by conversation; scope of the search",
    "jump": "go to message; go to time; go to date; line number",
    "proceed": "start drafting; run; pause; resume; go on",
    "accept-rest": "accept all; approve all; accept everything; all drafts",
    "leave-out": "ignore; reject; leave as it is",
    "apply": "save; write; commit; accept; confirm; yes",
    "edit": "change text; correct; type",
    "edit-outside": "vim; editor; external editor; nano",
    # Goals that are no commands of a screen.
    "backup": "backup; back up; back up the database; copy of the database; safety copy; save the database",
    "restore": "restore; restore backup; go back to a backup; from backup",
    "reindex": "search index; rebuild index; full text index; fts; reindex",
    "migrate": "upgrade schema; new version; migrate; old database",
    "report": "bug report; anonymous copy; share database; support; report",
    "models": "which model; api key; provider; configure model; model settings; openai; anthropic; ollama",
    "themes": "dark mode; light mode; colours; colors; theme; appearance",
}

SYNONYMS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {name: tuple(one.strip() for one in phrases.split(";")) for name, phrases in _TABLE.items()}
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


@dataclass(frozen=True, slots=True)
class OtherView:
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
        "Diff",
        "Diff of rows",
        "Show the rows before and after the change as a diff.",
        "previews and operations",
        ("row diff", "changed rows", "rows before and after", "other view"),
    ),
    OtherView(
        "Sent messages",
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
    OtherView(
        "Side by side",
        "Side by side",
        "Show two texts beside each other.",
        "comparisons and reviews",
        ("beside each other", "two columns", "split view", "other view"),
    ),
    OtherView("Unified", "Unified", "Show two texts as one, changes marked with - and +.", ""),
    OtherView("Tree", "Tree of summaries", "Show the summaries as a tree.", ""),
    OtherView("As list", "List of summaries", "Show the summaries of the previous context as a list.", ""),
    OtherView("Preview", "Preview of the change", "Show what was in front before the diff.", ""),
    OtherView("Text", "Text of the file", "Show the text of the file.", ""),
    OtherView("Stored items", "Items as stored", "Show the stored items of the context.", ""),
    OtherView("As stored", "Text as stored", "Show the text as the database has it.", ""),
)


def view_called(word: str) -> OtherView | None:
    """The view that the key bar calls *word*."""
    return next((view for view in VIEWS if view.word == word), None)


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
#: The command whose name is that of what it leads to.
OTHER_VIEW: Final = "other-view"

#: What the command line does, and `:` names for who looks for it here.
ELSEWHERE: Final = MappingProxyType(
    {
        "backup": (
            "Backup (command line)",
            "lcm-tui backup copies the database while it is used. A copy is also offered before the first "
            "change of a day.",
        ),
        "restore": (
            "Restore (command line)",
            "lcm-tui restore FILE restores a backup and keeps a copy of the current database.",
        ),
        "reindex": (
            "Search index (command line)",
            "lcm-tui reindex rebuilds the search tables from messages and summaries; it previews first.",
        ),
        "migrate": (
            "Migrate (command line)",
            "lcm-tui migrate brings an old database to the engine's current schema, after a backup.",
        ),
        "report": (
            "Report (command line)",
            "lcm-tui report writes a bug report: versions, counts, masked settings and errors, no content.",
        ),
        "models": (
            "Models (command line)",
            "lcm-tui config show names the model that drafts are written with, and where it is set.",
        ),
        "themes": ("Themes", "Type theme and a name: dark, light, nord."),
    }
)

Go = Callable[[], Awaitable[None] | None]


@dataclass(frozen=True, slots=True)
class Goal:
    """Something that `:` leads to."""

    title: str
    does: str  #: what choosing it would do, a sentence
    go: Go
    words: tuple[str, ...] = ()  #: what else people call it
    number: ConversationId | None = None  #: the conversation that it opens: a number alone names it


class GoTo(CommandPalette):
    """What `:` opens: a line to type into, and what it finds."""

    DEFAULT_CSS = """
    GoTo {
        background: $background 80%;
        &:ansi { background: transparent; }
        & > Vertical { margin-top: 1; }
        & > KeyBar { dock: bottom; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("f1", "help", "Help", show=False, id="palette-help")]

    def __init__(self) -> None:
        super().__init__(placeholder="What do you want to do, or where to go?  F1 help  esc back")
        self._entered = False  #: enter waits for what the typed text finds

    @on(Input.Submitted)
    def _hold_enter(self, event: Input.Submitted) -> None:
        """As long as it is searched, what is listed was found for another text: `enter` waits."""
        group = self._GATHER_COMMANDS_GROUP
        searching = any(
            one.node is self and one.group == group and not one.is_finished for one in self.workers
        )
        if searching and event.value.strip():
            event.stop()
            event.prevent_default()
            self._entered = True

    @on(Input.Changed)
    def _other_text(self) -> None:
        self._entered = False

    @on(Worker.StateChanged)
    def _act_on_enter(self, event: Worker.StateChanged) -> None:
        """Do what was found first for the text behind which `enter` was pressed."""
        searched = event.worker.group == self._GATHER_COMMANDS_GROUP
        if searched and self._entered and event.state is WorkerState.SUCCESS:
            self._entered = False
            self._select_or_command()

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


class CommandSource(Provider):
    """The commands of the screen in front."""

    async def discover(self) -> Hits:
        """All of them, before anything is typed."""
        for name, title, text in self._commands():
            yield DiscoveryHit(title, partial(self._run, name), help=text)

    async def search(self, query: str) -> Hits:
        """Those that hold the words, or are called alike; then the commands of other screens that do.

        Those of the screen come before everything else.
        """
        matcher = self.matcher(query)
        for name, title, text in self._commands():
            called: str = COMMANDS[name].title
            phrases: Sequence[str] = SYNONYMS.get(name, ())
            if name == OTHER_VIEW and (view := self._view_here()) is not None:
                called, phrases = view.title, (*phrases, *view.phrases)
            if score := _matches(query, called, text, phrases):
                score += _EXACT_HERE if score >= EXACT else _ALIKE_HERE
                yield Hit(score, matcher.highlight(title), partial(self._run, name), help=text)
        for command, phrases in self._elsewhere():
            if score := _matches(query, command.title, command.help, phrases):
                score += _EXACT if score >= EXACT else 0.0
                does = f"{command.help} It is a key of: {command.where}."
                title = escape(f"{command.title} ({self._key_of(command)}) elsewhere")
                yield Hit(score, title, partial(self.app.notify, does, timeout=8), help=escape(does))

    def _elsewhere(self) -> Iterable[tuple[Command, Sequence[str]]]:
        """Commands that only other screens have, and the other views of other screens, with their phrases."""
        screen = self.screen
        known = screen.commands if isinstance(screen, CommandScreen) else ()
        for one in COMMANDS.values():
            if one.where and one.id not in known:
                yield one, SYNONYMS.get(one.id, ())
        command, here = COMMANDS[OTHER_VIEW], self._view_here()
        for view in VIEWS:
            if view.where and view is not here:
                named = replace(command, title=view.title, help=view.does, where=view.where)
                yield named, view.phrases

    def _view_here(self) -> OtherView | None:
        """What `m` leads to on the screen in front."""
        screen = self.screen
        if not isinstance(screen, CommandScreen) or OTHER_VIEW not in screen.commands:
            return None
        return view_called(screen.told(OTHER_VIEW).title)

    def _key_of(self, command: Command) -> str:
        screen = self.screen
        return screen.key_of(command.id) if isinstance(screen, CommandScreen) else key_title(command.key)

    def _commands(self) -> Iterable[tuple[str, str, str]]:
        screen = self.screen
        if not isinstance(screen, CommandScreen):
            return
        for name in screen.commands:
            command = screen.told(name)
            reason = screen.why_not(name)
            text = command.help if reason is None else f"{command.help} Not now: {reason}"
            view = self._view_here() if name == OTHER_VIEW else None
            title = command.title if view is None else view.title
            # The palette reads markup; a reason may hold a path, a key of the user may be a bracket.
            yield name, escape(f"{title} ({screen.key_of(name)})"), escape(safe_line(text))

    async def _run(self, name: str) -> None:
        if isinstance(self.screen, CommandScreen):
            await self.screen.action_run(name)


class Anywhere(Provider):
    """Conversations, summaries, messages, screens, changes, settings and themes."""

    _goals: Sequence[Goal] = ()

    async def startup(self) -> None:
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
        found += changes_of(screen, changes)
        self._goals = found

    async def search(self, query: str) -> Hits:
        """What is called alike, and ids that begin so."""
        screen, asked = self.screen, query.strip()
        if not isinstance(screen, CommandScreen) or not asked:
            return
        async for goal in self._by_id(screen, asked):
            yield _hit(_BY_ID, goal)
        goals = []  # that are not found by their number or words
        for goal in self._goals:
            if goal.number is not None and str(goal.number) == asked:
                yield _hit(_EXACT, goal)
            elif goal.words and (score := match_phrases(asked, goal.words)):
                yield _hit(score + _EXACT if score >= EXACT else score, goal)
            else:
                goals.append(goal)
        titles = [goal.title for goal in goals]
        for place, score in await asyncio.to_thread(_alike, asked, titles):
            yield _hit(score / 100, goals[place])

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
                yield Goal(f"Message m{number[1]} #{seq}", does, partial(_open, screen, place))
        begins = asked if asked.startswith("sum_") else f"sum_{asked}"
        if re.fullmatch(r"sum_[0-9a-zA-Z_-]{3,}", begins):
            for conversation, name in await screen.session.read(summaries_named, begins, MOST_IDS):
                does = f"Open the summary DAG of conversation {conversation.conversation_id} on it."
                goal = partial(_open, screen, places.Summaries(conversation, select=name))
                yield Goal(f"Summary {name}", does, goal)

    # -- names ---------------------------------------------------------------------------------------------

    def _conversation(self, screen: CommandScreen, one: Conversation, words: str) -> Goal:
        known = f"{one.title}  " if one.title else ""
        said = f"  “{clip(words, 40)}”" if words else ""
        title = f"Conversation {one.conversation_id}  {known}{one.agent or ''} {one.lane}{said}"
        go = partial(_open, screen, places.Messages(one))
        return Goal(title, "Open its messages.", go, number=one.conversation_id)

    def _screens(self, screen: CommandScreen) -> Iterable[Goal]:
        for title, does, place in (
            ("Health of the database", "Run the checks and list their findings.", places.Health()),
            ("History", "List changes made by lcm-tui, and undo them.", places.History()),
        ):
            yield Goal(f"Screen: {title}", does, partial(_open, screen, place))
        for name, (title, does) in ELSEWHERE.items():
            say = partial(screen.app.notify, does, timeout=10)
            yield Goal(title, does, say, SYNONYMS[name])

    def _themes(self) -> Iterable[Goal]:
        for name in sorted(self.app.available_themes):
            yield Goal(
                f"Theme: {name}", "Use this theme until the app ends.", partial(_set_theme, self, name)
            )

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


def changes_of(screen: CommandScreen, found: Sequence[places.OneOperation]) -> Iterable[Goal]:
    """Changes by id and title."""
    for place in found:
        one = place.operation
        yield Goal(f"Change: {one.title}  {one.id}", "Show what it did.", partial(_open, screen, place))


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


def _open(screen: CommandScreen, place: places.Place) -> None:
    screen.open(place)


def _set_theme(provider: Provider, name: str) -> None:
    provider.app.theme = name


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
