"""The first screen: every conversation of the database, and sessions of the host that it does not know."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias

from lcm_core.base.records import Conversation, ConversationId
from lcm_core.base.text import counted
from lcm_core.base.values import replace
from lcm_core.store.conversations import ConversationEntry, first_words
from lcm_core.store.database import Reader
from textual import events, on
from textual.app import ComposeResult

from lcm_tui.kit import commands, places
from lcm_tui.kit.commands import Key
from lcm_tui.kit.lines import LineView
from lcm_tui.kit.listing import Finder, Marks
from lcm_tui.kit.panes import Columns
from lcm_tui.kit.session import imported
from lcm_tui.kit.spans import Block
from lcm_tui.kit.text import TextView
from lcm_tui.screens import actions
from lcm_tui.screens.conversation_figures import Counting
from lcm_tui.screens.conversation_list import ConversationList
from lcm_tui.screens.conversation_panel import Hosting, Outlooker, Panel
from lcm_tui.screens.frame import CommandScreen
from lcm_tui.screens.reading import DataScreen, Series
from lcm_tui.tables.conversation_rows import Row, RowKey
from lcm_tui.tables.home import (
    Outlook,
    Subject,
)

if TYPE_CHECKING:
    from lcm_core.store.remembered import FileMark, Look, Place
    from lcm_host.sessions import HostSession

    from lcm_tui.screens.conversation_about import AboutPane
    from lcm_tui.screens.copying import Copies


# -- the screen ------------------------------------------------------------------------------------------

#: From this width of the terminal on, in cells, what is known of the selected row stands beside the list.
WIDE: Final = 160
#: How often the sessions folder is looked at, and sums that may have changed are.
LOOK_SECONDS: Final = 5.0
#: All conversations are listed again for at most one part in so many of the time; those that grew at once.
SHARE: Final = 200
NONE: Final = "This database contains no conversation"
#: What the key bar leaves out for a session that is not in the database.
OF_CONVERSATION: Final = frozenset(
    {"context", "summaries", "files", "briefs", "compact", "transplant", "merge"}
)


#: What was found at a look, and the state of the file before it; None: what the app listed first.
Looked: TypeAlias = "tuple[Look | None, FileMark | None]"


async def _looked(reader: Reader, look: Callable[..., Any], place: Place | None, whole: bool) -> Look:
    """A look as a whole in a thread."""
    return await reader.at_once(look, place, whole=whole)


async def _first_words(reader: Reader, conversation_id: ConversationId) -> str:
    """How the user of a conversation began; empty: with nothing."""
    return (await reader.at_once(first_words, [conversation_id])).get(conversation_id) or ""


def _of_selected(key: Key[object], place: Callable[[Conversation], places.Place]) -> Key[ConversationsScreen]:
    """A key that opens a place of the selected conversation."""
    return key.does(lambda s: s._open_of_selected(place), lambda s: s.list.why_no_conversation())


class AboutText(TextView):
    """What is known of the selected row."""

    DEFAULT_CSS = """
    AboutText { width: 54; padding: 0 1 0 2; }
    """


class ConversationsScreen(DataScreen["Looked"]):
    """All conversations, newest activity first."""

    HELP = """
The lines above the list show the state of the database; tab goes to them, and enter opens one.

Below is every conversation of the database, archived ones too, newest activity first, and what is only on the
disk.

The lines above the list say what the checks of its structure found (H runs the checks of texts too), how many
summaries are broken or stale, why the work of a 1.x engine is stuck and in how many conversations ("engine"),
whether the engine keeps up with its host ("ingesting"), which contexts are nearest to compaction, which
conversations are largest, what was changed last, and what waits for you. A click opens a line, or tab, an
arrow and enter; the key at the end of a line opens the same. u previews undoing the newest change, or the one
in the selected line.

In a terminal of at least 160 columns the last exchange of the selected conversation, what is wrong with it
and what to press are shown beside the list.

A conversation is called by its title, else by agent and channel and the first words of its user. "12 newer"
instead of a state: the host has 12 messages that the engine has not stored. Then come the sessions of the
host that are not in the database. Their state says where they are: "on disk" in a file, "living" in the
host's own database ("earlier" if their key continues in a newer session), "cold", "deleted" or "archived" in
an archive.

"summaries" counts by depth: L leaves, D1 D2 D3 condensed summaries of that depth. "context" is the number of
items in the context, "ctx tokens" their stored tokens, "of budget" their share of the token budget. "bytes"
counts the texts. "broken" counts summaries that carry one of the engine's failure markers or are empty;
"other": Health lists something else that is broken. Expensive columns fill in after a moment (…). – means
that this version of the engine did not record it. / filters over all columns; a row must contain every word.
If a narrow screen cannot show all columns, the heading ends in ›: l shows the others, h goes back. S lists
the columns to sort by (S again takes the next one), I reverses the order; the arrow in the heading is beside
the column that sorts (↓: the largest value is on top). "trouble" says what is wrong, and sorts the most
broken summaries first; of as many broken ones the most findings, then work of the engine that does not go on,
messages that the host has newer, stale summaries, the context fullest above 70 % of its budget, and what is
only suspicious. Where there are several agents, "agent trouble" sorts these in the same way by all their
conversations together.

t copies the summaries of the selected conversation to the front of another one's context. V rejoins a session
that a rollover split. space marks conversations (esc unmarks all): K archives the marked ones (no data is
deleted), X exports them to files and deletes them; without marks the selected one is meant. * marks what the
engine's own cleaners would delete: ended sub-agents, scheduled jobs. All changes show a preview and can be
undone (U), except "forget", an option of the delete preview. R lists the broken and stale summaries of one
conversation or of the whole database and drafts replacements. i previews importing a session that is not in
the database, or the missing messages of a conversation behind its host. Y shows prepared compactions and
compaction debt.
"""

    def __init__(self, first: list[ConversationEntry]) -> None:
        """*first*: every conversation."""
        super().__init__((None, None))
        self._listed = first
        self.marks = Marks[ConversationId](self._marks_changed)
        self.list = ConversationList(
            self._listed_otherwise,
            none=f"{NONE}.",
            marked=self.marks,
            named=self._take_names,
            session_keys=lambda: (
                f"{self.key_of('open')} shows its transcript, {self.key_of('backfill')} imports it"
            ),
            untouched=lambda: not self.session.key_at and self.session.changed_at is None,
        )
        self.outlooker = Outlooker(self, self.list, self._say_outlook, empty=not first)
        self.counting = Counting(self, self.list, self._say_note, self.outlooker.list_changed)
        self.hosting = Hosting(self, self.list, found=self._sessions_found, compared=self.outlooker.ingesting)
        self.panel: Panel | None = None
        self.about = AboutText(id="about")
        self._about_pane: AboutPane | None = None
        self._series = Series("conversation", lambda: self.list.table, self._place_of)
        self._painted = False  #: the first rows were
        self._list_at = 0.0  #: all conversations are not listed again before this (monotonic)
        self._took = 0.0  #: seconds of the last look

    def compose_body(self) -> ComposeResult:
        """The panel, and the list below it."""
        self.list.budget = self.session.budget
        self.list.sort_as(self.session.remembered.sort)
        self.panel = Panel(self.outlooker.outlook)
        yield self.panel
        wide = self.app.size.width >= WIDE  # from the start: what is read behind the rows moves none
        yield Columns(self.list, *((self.about,) if wide else ()))

    def on_mount(self) -> None:
        """Read nothing else before the first rows have been painted; follow what changes without them."""
        # The app mounts its first screen in one batch, in which Textual calls back before it has painted.
        self.app.call_later(self.call_after_refresh, self._first_painted)
        self.set_interval(LOOK_SECONDS, self._look_again)

    def _first_painted(self) -> None:
        self._painted = True
        self._say_about()
        self.counting.begin()
        self.work_on("sessions", self._find_sessions, exclusive=False)
        self.outlooker.begin()

    def on_screen_suspend(self) -> None:
        """Whoever goes on waits for nothing here."""
        self.counting.leave()
        self.outlooker.leave()
        self.work_on("name", self._name_selected)

    def on_screen_resume(self) -> None:
        """Say what was done meanwhile, and go on with what costs more."""
        self.outlooker.look()
        if self._painted:
            self.counting.begin()

    def on_resize(self, event: events.Resize) -> None:
        """As many lines and columns as have room, and the pane beside them."""
        if self.panel is not None and self.panel.is_mounted:
            self.panel.fit(*event.size)
            self.about.display = event.size.width >= WIDE
            if self.about.display and not self.about.is_attached:
                self.query_one(Columns).mount(self.about)
            self._say_about()

    async def _name_selected(self) -> None:
        """Learn how the selected conversation begins: what was opened of it has its name in the title."""
        key = self._selected_number()
        if key is None or self.list.rows[key].words is not None:
            return
        words = await self.session.read(_first_words, key)
        if (row := self.list.rows.get(key)) is not None:
            self.list.learn(key, replace(row, words=words))
            self._take_names(self.list.names)

    def _take_names(self, names: Mapping[Any, str]) -> None:
        """Other screens call conversations as this list does."""
        self.session.names = names
        for screen in self.app.screen_stack:
            if isinstance(screen, CommandScreen):
                screen.say_where()

    def where(self) -> str:
        """The first place."""
        return "Conversations"

    def main_widget(self) -> LineView[RowKey]:
        """The list."""
        return self.list.table

    def finder(self) -> Finder:
        """The filter."""
        return self.list.filter

    def selected_id(self) -> str | None:
        """The conversation's id, or the session's."""
        if self.list.conversation is not None:
            return str(self.list.conversation.conversation_id)
        return self.list.session.session_id if self.list.session is not None else None

    def copies(self) -> Copies | None:
        """The conversation; of a session that is not in the database its id."""
        from lcm_tui.screens.copying import Copies, of_conversation

        conversation, name = self.list.conversation, self.selected_id()
        if conversation is not None:
            return of_conversation(conversation.conversation_id)
        return None if name is None else Copies(name)

    async def _export(self) -> None:
        """Write the selected conversation to a file, or the list."""
        from lcm_tui.kit.dialogs import Question
        from lcm_tui.screens.exporting import export_conversation, export_conversations

        one, listed, answer = self.list.conversation, self._exported(), "l"
        if one is not None:
            answers = (
                ("o", f"conversation {one.conversation_id} ({self.session.name_of(one)})"),
                ("l", f"the list: {counted(len(listed), 'conversation')}, one row each"),
            )
            answer = await self.app.push_screen_wait(Question("Export", (), answers, decides=False))
        if answer == "l":
            await export_conversations(self, listed)
        elif one is not None and answer:
            await export_conversation(self, one)

    def _exported(self) -> list[Row]:
        listed = (self.list.rows[key] for key in self.list.table.keys)
        return [row for row in listed if row.conversation is not None]

    def in_key_bar(self) -> list[str]:
        """A session that is not in the database has a transcript, and can be imported."""
        names = super().in_key_bar()
        if self.list.session is None or self.list.conversation is not None:
            return names
        ahead = ("open", "backfill")
        return [*ahead, *(name for name in names if name not in ahead and name not in OF_CONVERSATION)]

    # -- data --------------------------------------------------------------------------------------------

    async def fetch(self) -> Looked:
        """The conversations that have changed, now and then all of them, without what costs a scan."""
        await imported("lcm_core.store.remembered")
        from lcm_core.store.remembered import look

        place, begun = self.counting.place, time.monotonic()
        whole = place is None or begun >= self._list_at
        mark = await self.session.memory.now() if whole else None
        found = await self.session.read(_looked, look, place, whole)
        self._took = time.monotonic() - begun
        return found, mark

    def show(self, data: Looked) -> None:
        """Show the list; counts that may have changed are read again behind it."""
        begun, (look, mark) = time.monotonic(), data
        self.list.zone = self.session.zone
        if look is None:
            self.list.show(self._listed)
            self.counting.first_listed()
        elif look.whole:
            changed = self.list.show(look.entries)
            self.marks.keep({entry.conversation.conversation_id for entry in look.entries})
            self.counting.looked(look, changed, mark)
            ended = time.monotonic()
            self._list_at = ended + SHARE * (self._took + ended - begun)
        else:
            self.list.update(look.entries)
            self.counting.looked(look, (), None)
        self._say_note()
        grown = look is not None and not look.whole and look.since is not None and not look.since.operated
        self.outlooker.look(whole=not grown)
        self.hosting.changed()

    async def _find_sessions(self) -> None:
        await self.hosting.look()

    def _sessions_found(self) -> None:
        self._say_note()
        self.outlooker.list_changed()

    def _look_again(self) -> None:
        """Follow what changes without a change of the list, for as long as it is seen."""
        if self.app.screen is self:
            self.work_on("sessions", self._find_sessions, exclusive=False)
            self.counting.want_sums()

    def _read_all(self) -> None:
        """Read everything again now."""
        self._list_at = 0.0
        self.work_on("sessions", self._find_sessions, exclusive=False)
        self.counting.sum_again()
        self.load()

    def _listed_otherwise(self) -> None:
        self.session.remembered.sort = self.list.sort
        self._say_note()
        self.counting.want_counts()

    def _say_note(self) -> None:
        """How many there are, in which order, what could not be read, and how many are marked."""
        said = (self.list.count, self.list.order, self.hosting.unread, self.marks.text)
        self.title_bar.note = "  ".join(filter(None, said))

    @on(LineView.Scrolled, "#list")
    def _scrolled(self) -> None:
        self.counting.scrolled()

    # -- commands ----------------------------------------------------------------------------------------

    def _open_of_selected(self, place: Callable[[Conversation], places.Place]) -> None:
        self._open_of(self.list.table.selected, place)

    def _open_of(self, key: RowKey | None, place: Callable[[Conversation], places.Place]) -> None:
        row = None if key is None else self.list.rows.get(key)
        if row is not None and row.conversation is not None:
            self.open(place(row.conversation))

    def _chosen(self) -> list[ConversationId]:
        """The marked ones; it is said when the selected one is none of them."""
        chosen, under = self.marks.chosen(self._selected_number()), self._selected_number()
        if under is not None and under not in chosen:
            said = ", ".join(map(str, chosen[:5])) + (" …" if len(chosen) > 5 else "")
            self.app.notify(
                f"This is about the marked conversations ({said}), not the selected one ({under}).",
                severity="warning",
                timeout=8,
            )
        return chosen

    def _why_none_chosen(self) -> str | None:
        return None if self.marks else self.list.why_no_conversation()

    def _mark(self) -> None:
        if (conversation_id := self._selected_number()) is not None:
            self.marks.turn([conversation_id])
            self.refresh_bars()

    def _archive(self) -> None:
        from lcm_tui.flows.prune import archiving

        self.open(places.Preview(archiving(self._chosen(), self._pruned)))

    async def _mark_by_cleaner(self) -> None:
        """Ask by which of the engine's cleaners, and mark what it would delete."""
        from lcm_core.operations.prune import MEANINGS, Cleaner, Cleaning, Criteria, selection

        from lcm_tui.kit.dialogs import Question

        criteria = Criteria(cleaning=Cleaning(agents=self.session.settings.agents.value))
        junk = (await self.session.read(selection, criteria, sizes=False)).cleaned
        assert junk is not None
        meant = [(MEANINGS[one], [key for key, by in junk.chosen.items() if one in by]) for one in Cleaner]
        choices = {str(number): choice for number, choice in enumerate(meant, 1)}
        choices["v"] = ("every one of them", [*junk.chosen])
        answers = [
            (key, f"{what}: {counted(len(those), 'conversation')}") for key, (what, those) in choices.items()
        ]
        said = [
            "The engine's doctor clean would delete these conversations of its agents "
            f"({', '.join(junk.cleaning.agents)}).",
            f"Nothing is deleted here: {self.key_of('archive')} archives the marked ones, "
            f"{self.key_of('delete')} exports and deletes them.",
        ]
        if junk.others:
            said.append(f"Of other agents ({', '.join(sorted(junk.others))}) it would delete none.")
        about = tuple(map(Block, said))
        question = Question("Mark by a cleaner of the engine", about, answers, decides=False)
        if answer := await self.app.push_screen_wait(question):
            self.marks.turn([one for one in choices[answer][1] if one not in self.marks])
            self.refresh_bars()

    def _pruned(self, _: object) -> None:
        self.marks.clear()
        self.refresh_bars()

    def _deleted(self, freed: int) -> None:
        from lcm_tui.screens.space import offer_space

        self._pruned(freed)
        self.work_on("space", offer_space, self, freed)

    def step_back(self) -> bool:
        """Give the keys back to the list, or take its filter or the marks away."""
        if self.about.has_focus or (self.panel is not None and self.panel.selected is not None):
            self.list.table.focus()
            return True
        if super().step_back():
            return True
        marked = bool(self.marks)
        self.marks.clear()
        return marked

    def _quit_title(self) -> str:
        """What `q` does before it quits."""
        if self.about.has_focus or (self.panel is not None and self.panel.selected is not None):
            return "List"
        return "Clear" if self.list.filter.needle else "Unmark" if self.marks else ""

    def on_descendant_focus(self) -> None:
        """`q` does something else in the lines above the list."""
        self.refresh_bars()

    def _why_not_open(self) -> str | None:
        return None if self.panel is not None and self.panel.selected else self.list.why_nothing()

    async def _open(self) -> None:
        """Go where the line of the panel leads that has the keys, else into the conversation."""
        line = None if self.panel is None else self.panel.take_opened()
        if line is None:
            self._open_messages()
            return
        match line.subject:
            case Subject.STATE:
                self.open(places.Health())
            case Subject.BROKEN:
                actions.open_repair(self, None)
            case Subject.STALE:
                first = next(iter(self.outlooker.outlook.stale.values()))[0]
                actions.open_repair(self, None, first)
            case Subject.DRAFTS:
                await actions.resume_drafts(self, self.outlooker.drafts[0])
            case Subject.ENGINE:
                self.open(places.Engine())
            case Subject.INGESTING:
                self._open_lagging()
            case Subject.SESSIONS:
                self._stand_on(self._first_on_disk())
            case Subject.NEAREST:
                self._open_of(line.ref or self.outlooker.outlook.nearest[0].conversation_id, places.Context)
            case Subject.LARGEST:
                self.open(places.Disk())
            case Subject.OPERATION:
                self.open(places.History())

    def _open_lagging(self) -> None:
        """Show what the engine lags behind with the longest, else what could not be read or what it does."""
        found = self.hosting.ingesting
        lagging = () if found is None else found.lagging
        owner = next((one.conversation_id for one in lagging if one.conversation_id is not None), None)
        if owner is not None and owner in self.list.rows:
            self._open_of(owner, places.Messages)
        elif lagging:
            self._stand_on(f"{lagging[0].session.agent or ''}/{lagging[0].session.session_id}")
        elif found is not None and found.problems:
            from lcm_tui.kit.dialogs import WholeScreen

            said = tuple(Block(one.sentence) for one in found.problems)
            self.app.push_screen(WholeScreen(said))
        else:
            self.open(places.Engine())

    def _stand_on(self, key: RowKey | None) -> None:
        """Give the keys to a row of the list."""
        if key is not None:
            self.list.table.select(key)
        self.list.table.focus()

    def _sort(self) -> None:
        """Offer the columns to sort by."""
        from lcm_tui.screens.sorting import SortMenu

        self.app.push_screen(SortMenu(self.list))

    def _operation(self) -> str | None:
        """What the line of the panel with the keys is about, else the newest change that holds."""
        line = None if self.panel is None else self.panel.selected
        if line is not None and line.subject is Subject.OPERATION and isinstance(line.ref, str):
            return line.ref if line.ref in self.outlooker.operations else None
        return self.outlooker.newest

    def _why_no_undo(self) -> str | None:
        return (
            None if self._operation() else f"there is no change to undo; {self.key_of('history')} lists all"
        )

    def _undo(self) -> None:
        """Preview undoing an operation, or redoing it when it was undone."""
        if (name := self._operation()) is not None:
            from lcm_tui.flows.changes import undoing_line

            self.open(places.Preview(undoing_line(self.outlooker.operations[name])))

    async def before_leaving(self) -> bool:
        """Ask before the app ends, when something waits."""
        waiting = self._undecided()
        if waiting:
            from lcm_tui.kit.dialogs import Question

            body = tuple(Block(line) for line in waiting)
            question = Question("Quit?", body, (("q", "quit"),), leave="stay")
            self.app.push_screen(question, lambda answer: self.app.exit(0) if answer else None)
        return not waiting

    def _undecided(self) -> list[str]:
        """What was paid for, or written by hand, and not decided."""
        drafts = self.outlooker.outlook.drafts
        held = len(self.session.paid) if "paid" in vars(self.session) else 0
        found = []
        if drafts:
            said = counted(drafts, "draft waits", "drafts wait")
            found.append(f"{said} for review. They are saved: {self.key_of('repair')} continues with them.")
        if held:
            said = counted(held, "draft of a compaction is", "drafts of compactions are")
            found.append(f"{said} kept only until the app exits. Quitting discards what was paid for.")
        return found

    def decided_on(self) -> object:
        """The operation that `u` would undo."""
        return self._operation()

    def _say_outlook(self, outlook: Outlook) -> None:
        if self.panel is not None and self.panel.is_mounted:
            self.panel.show(outlook)
        self._say_about()
        self.refresh_bars()

    @on(LineView.Highlighted, "#lines")
    @on(LineView.Highlighted, "#beside")
    def _select_named(self) -> None:
        """The row of the conversation that a line above the list names is what all keys are about."""
        line = None if self.panel is None else self.panel.selected
        if line is not None and line.ref is not None and line.ref in self.list.table.keys:
            self.list.table.select(line.ref)

    @on(LineView.Highlighted, "#list")
    def _say_about(self) -> None:
        """Say beside the list what is known of the selected row, once the first rows are painted."""
        if self._painted and self.about.is_attached and self.about.display:
            self.work_on("beside", self._follow, exclusive=False)

    async def _follow(self) -> None:
        await imported("lcm_host.checks", "lcm_tui.screens.conversation_about")
        from lcm_tui.screens.conversation_about import AboutPane

        if self._about_pane is None:
            self._about_pane = AboutPane(self, self.list, self.about)
        self._about_pane.follow(self.outlooker.outlook.verdict)

    def _open_messages(self) -> None:
        """Show the messages, or the transcript of a session that only the disk knows."""
        key = self.list.table.selected
        place = None if key is None else self._place_of(key)
        if place is not None:
            self.open(place, self._series)

    def _place_of(self, key: RowKey) -> places.Place | None:
        """The messages of a conversation, or of a session that only the disk knows."""
        row = self.list.rows.get(key)
        if row is None:
            return None
        if row.conversation is not None:
            return places.Messages(row.conversation)
        return None if row.session is None else places.DiskSessionText(row.session)

    def _merged(self, conversation: Conversation) -> places.Place:
        """The preview of making one conversation of the session again, if a rollover split it."""
        from lcm_tui.flows.changes import merging

        return places.Preview(merging(conversation, self.session.budget, self._select))

    def _importable(self) -> HostSession | None:
        """The selected session of the host, or the one that the selected conversation lags behind."""
        one = self.list.conversation
        return self.list.session if one is None else self.hosting.lagging(one.conversation_id)

    def _why_no_session(self) -> str | None:
        if self._importable() is not None or self._first_on_disk() is not None:
            return None
        return "every session of the host is in the database"

    def _import_session(self) -> None:
        session = self._importable()
        if session is None:
            self._stand_on(self._first_on_disk())
            session = self.list.session
        if session is not None:
            self.open(places.Import(session))

    def _first_on_disk(self) -> str | None:
        """The first listed session that is not in the database."""
        return next((key for key in self.list.table.keys if isinstance(key, str)), None)

    def _selected_number(self) -> ConversationId | None:
        return self.list.conversation.conversation_id if self.list.conversation is not None else None

    def _marks_changed(self, conversations: Sequence[ConversationId]) -> None:
        self.list.table.redraw([one for one in conversations if one in self.list.rows])
        self._say_note()

    def _select(self, conversation_id: ConversationId) -> None:
        self.list.table.select(conversation_id)

    KEYS: ClassVar[Sequence[Key[ConversationsScreen]]] = (
        commands.OPEN.does(_open, _why_not_open),
        _of_selected(commands.CONTEXT, places.Context),
        commands.SEARCH_EVERYWHERE,
        commands.HEALTH.does(lambda s: s.open(places.Health(s.list.conversation))),
        _of_selected(commands.SUMMARIES, places.Summaries),
        _of_selected(commands.COMPACT, places.Compaction),
        commands.DISK.does(lambda s: s.open(places.Disk()), hidden=False),
        actions.repair_key(lambda s: s.list.conversation),
        commands.UNDO.does(_undo, _why_no_undo, of_row=False),
        Key(
            "transplant",
            "t",
            "Transplant",
            "Copy this conversation's summaries into another conversation.",
            lambda s: s._open_of_selected(lambda one: places.TransplantTarget(one, s._select)),
            lambda s: s.list.why_no_conversation(),
            words="carry over; new session; copy memory; move summaries; transfer; migrate conversation; "
            "clone; import summaries",
            where="the first screen",
            changes=True,
        ),
        commands.MARK.does(_mark, lambda s: s.list.why_no_conversation()),
        commands.HISTORY.does(lambda s: s.open(places.History(s.list.conversation))),
        _of_selected(commands.FILES, places.Files),
        commands.SEARCH,
        Key(
            "sort",
            "S",
            "Sort",
            "List the columns to sort by, trouble first; a click on a heading sorts, too.",
            lambda s: s._sort(),
            lambda s: s.list.why_nothing(),
            words="biggest; largest; what eats the disk; size; bytes; which is largest; order; most tokens; "
            "worst; bad; trouble; health score; worst conversation; worst agent; newest; oldest; older",
        ),
        _of_selected(commands.BRIEFS, places.Briefs),
        commands.MERGE.does(lambda s: s._open_of_selected(s._merged), lambda s: s.list.why_no_conversation()),
        commands.ARCHIVE.does(_archive, _why_none_chosen),
        commands.DELETE.does(lambda s: s.open(places.Deletion(s._chosen(), s._deleted)), _why_none_chosen),
        Key(
            "mark-by-cleaner",
            "asterisk",
            "Mark by cleaner",
            "Mark the conversations that the engine's own cleaners would delete.",
            lambda s: s._mark_by_cleaner(),
            words="cleaner; junk; heartbeat; garbage",
            where="the first screen",
            hidden=True,
        ),
        commands.EXPORT.does(
            _export,
            lambda s: None if s._exported() else "no conversation is listed",
            help="Write the selected conversation, or the list, to a file: Markdown, JSON or CSV.",
        ),
        commands.BACKFILL.does(_import_session, _why_no_session),
        Key("turn", "I", "Reverse", "Reverse the sort order.", lambda s: s.list.turn(), hidden=True),
        commands.ENGINE.does(lambda s: s.open(places.Engine(s.list.conversation))),
    )
    COMMON: ClassVar[Sequence[Key[ConversationsScreen]]] = (
        commands.RELOAD.does(_read_all),
        commands.QUIT.does(
            title="Quit", help="Quit lcm-tui; it asks first when something waits.", title_now=_quit_title
        ),
    )
