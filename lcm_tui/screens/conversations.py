"""The first screen: every conversation of the database, and sessions of the host that it does not know."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, ClassVar, Final

from lcm_core.base.files import any_drafts, drafts_folder
from lcm_core.base.records import Conversation, ConversationId
from lcm_core.base.values import replace
from lcm_core.store import conversations as store
from lcm_core.store.conversations import ConversationCounts, ConversationEntry, list_conversations
from lcm_core.store.database import Reader
from lcm_core.store.schema import JOURNAL
from textual import events, on
from textual.app import ComposeResult
from textual.containers import Horizontal

from lcm_tui.kit import commands, places
from lcm_tui.kit.commands import Key
from lcm_tui.kit.lines import LineView
from lcm_tui.kit.listing import Finder, Marks
from lcm_tui.kit.session import imported
from lcm_tui.kit.spans import Block, Line
from lcm_tui.screens import pruning
from lcm_tui.screens.conversation_list import ConversationList
from lcm_tui.screens.frame import CommandScreen, DataScreen
from lcm_tui.screens.pruning import (
    Series,
    open_repair,
    resume_drafts,
)
from lcm_tui.tables.conversation_rows import COUNTED, RowKey
from lcm_tui.tables.home import (
    Changed,
    Filled,
    Outlook,
    PanelKey,
    Sized,
    Subject,
    Verdict,
    conversation_at,
    panel_columns,
    panel_keys,
    panel_line,
)

if TYPE_CHECKING:
    from lcm_core.base.findings import CheckResult
    from lcm_core.change.journal import Operation
    from lcm_core.operations.drafts import SavedDrafts
    from lcm_core.store.opening import FileState
    from lcm_host.sessions import HostListing, HostSession, SessionProblem

    from lcm_tui.tables.history import HistoryLine
    from lcm_tui.tables.status import Ingesting


# -- counting --------------------------------------------------------------------------------------------
# The columns that cost a scan: they fill in behind, what is in sight before the rest.

#: Conversations whose counts are read in one transaction.
BATCH: Final = 40
#: A conversation that keeps changing is scanned whole at most this often; between, appended rows are added.
WHOLE_SECONDS: Final = 10.0


class Counting:
    """Counts come from indexes and are read first; sums lie behind the texts, and are read one by one."""

    def __init__(
        self,
        screen: CommandScreen,
        listed: ConversationList,
        sorted_anew: Callable[[], None],
        summed: Callable[[], None],
    ) -> None:
        """*listed* gets the numbers; *sorted_anew* is called when they have changed its order.

        *summed* is called when all sums, and when all sizes, have been read that were wanted.
        """
        self.uncounted: set[RowKey] = set()  #: rows that were not counted since the last change
        self._screen = screen
        self._list = listed
        self._sorted_anew = sorted_anew
        self._summed = summed
        self._allowed = False  #: nothing is read before the first rows have been painted, and behind a screen
        self._filling = False
        self._count_wanted: set[RowKey] = set()
        self._sum_wanted: set[RowKey] = set()
        self._bytes_wanted: set[RowKey] = set()
        self._unsummed: set[RowKey] = set()  #: rows that were not scanned whole since the last change
        self._summed_at: dict[int, float] = {}  #: monotonic time of the last whole scan

    def begin(self) -> None:
        """The first rows have been painted, or are in front again: read what costs more."""
        self._allowed = True
        self._fill()

    def leave(self) -> None:
        """Another screen is in front: it has all of Python's time."""
        self._allowed = False

    # -- what is wanted ----------------------------------------------------------------------------------

    def count_again(self, changed: Collection[RowKey]) -> None:
        """The file has changed: every number may be old, those of *changed* rows are."""
        self.uncounted = {key for key, row in self._list.rows.items() if row.entry is not None}
        self._unsummed = set(self.uncounted)
        self.want_counts(changed)

    def sum_again(self) -> None:
        """Every sum is to be read again, whatever changed."""
        self._summed_at.clear()
        self._sum_wanted |= {key for key, row in self._list.rows.items() if row.sums is not None}

    def sum_whole(self, changed: Collection[RowKey]) -> None:
        """Texts of these conversations are other ones."""
        for key in changed:
            if key in self._list.rows:
                self._summed_at.pop(int(key), None)
                self._sum_wanted.add(key)
        self._fill()

    def want_counts(self, changed: Collection[RowKey] = ()) -> None:
        """Count what is in sight and what was never counted; all when order or filter go by it."""
        unknown = {key for key in self.uncounted if self._list.rows[key].counts is None}
        seen = self.uncounted.intersection(self._list.table.visible_keys)
        self._count_wanted |= unknown | seen | (self.uncounted & set(changed))
        if self._list.sorted_by in COUNTED or self._list.filter.needle:
            self._count_wanted |= self.uncounted
        self._fill()

    def scrolled(self) -> None:
        """Other rows came into sight."""
        if not self.uncounted.isdisjoint(self._list.table.visible_keys):
            self.want_counts()

    def want_sums(self) -> None:
        """Scan again what is in sight and has changed since its last scan, which lies a while back."""
        now = time.monotonic()
        self._sum_wanted |= {
            key
            for key in self._unsummed.intersection(self._list.table.visible_keys)
            if isinstance(key, int) and now - self._summed_at.get(key, now) > WHOLE_SECONDS
        }
        self._fill()

    # -- reading it --------------------------------------------------------------------------------------

    def _fill(self) -> None:
        """Read what costs more; one worker at a time, which takes up what is asked for meanwhile."""
        if self._allowed and not self._filling and self._wanted:
            self._filling = True
            self._screen.work_on("fill", self._fill_rows, exclusive=False)

    @property
    def _wanted(self) -> bool:
        return bool(self._count_wanted or self._sum_wanted or self._bytes_wanted)

    async def _fill_rows(self) -> None:
        try:
            while self._allowed and self._wanted:
                await self._screen.calm()  # keys come first
                if self._count_wanted:
                    await self._fill_counts()
                else:
                    await (self._fill_sums() if self._sum_wanted else self._fill_bytes())
                if self._list.sorted_by in COUNTED and not self._count_wanted | self._sum_wanted:
                    self._list.relist(changed=False)
                    self._sorted_anew()
        finally:
            self._filling = False

    async def _fill_counts(self) -> None:
        """Counts of the next conversations, those in sight first."""
        batch = self._next(self._count_wanted, BATCH)
        self.uncounted.difference_update(batch)
        nameless = [key for key in batch if (row := self._list.rows.get(key)) is None or not row.words]
        for counts, words in await self._screen.session.read(_counted, batch, nameless):
            key = counts.conversation_id
            row = self._list.rows.get(key)
            if row is None:
                continue
            if row.counts != counts or row.sums is None:
                self._sum_wanted.add(key)
            if row.counts is None or row.counts.summaries != counts.summaries:
                self._summed_at.pop(key, None)  # appended rows do not tell what is broken
            self._list.learn(key, replace(row, counts=counts, words=row.words if words is None else words))
        self._list.say(batch)

    async def _fill_sums(self) -> None:
        """Sums of the next conversation; of one that only grew, those of what was appended."""
        from lcm_core.store.statistics import sums_of, sums_since

        for conversation_id in self._next(self._sum_wanted, 1):
            row = self._list.rows.get(conversation_id)
            if row is None:
                continue
            age = time.monotonic() - self._summed_at.get(conversation_id, 0.0)
            if row.sums is None or age > WHOLE_SECONDS:
                self._unsummed.discard(conversation_id)
                sums = await self._screen.session.read(sums_of, conversation_id)
                self._bytes_wanted.add(conversation_id)
                self._summed_at[conversation_id] = time.monotonic()
            else:
                sums = await self._screen.session.read(sums_since, row.sums)
            latest = self._list.rows.get(conversation_id)
            if latest is not None:
                self._list.learn(conversation_id, replace(latest, sums=sums))
                self._list.say([conversation_id])
        if not self._sum_wanted:
            self._summed()

    async def _fill_bytes(self) -> None:
        """How many bytes the texts of the next conversation take, which are read for it."""
        from lcm_core.store.statistics import text_bytes

        for conversation_id in self._next(self._bytes_wanted, 1):
            found = await self._screen.session.read(text_bytes, [conversation_id])
            row = self._list.rows.get(conversation_id)
            if row is not None:
                self._list.learn(conversation_id, replace(row, bytes=found.get(conversation_id, 0)))
                self._list.say([conversation_id])
        if not self._bytes_wanted:
            self._summed()

    def _next(self, wanted: set[RowKey], limit: int) -> list[ConversationId]:
        """Take the next keys off a set of wanted ones: first those in sight, then in the list's order."""
        table = self._list.table
        seen = [key for key in table.visible_keys if key in wanted]
        rest = (key for key in table.keys if key in wanted)
        chosen = list(islice(dict.fromkeys(chain(seen, rest)), limit)) or list(islice(wanted, limit))
        wanted.difference_update(chosen)
        return [ConversationId(key) for key in chosen if isinstance(key, int)]


async def _counted(
    reader: Reader, batch: list[ConversationId], nameless: list[ConversationId]
) -> list[tuple[ConversationCounts, str | None]]:
    """The counts of some conversations; of the *nameless* ones how their user began, else None."""
    words = await store.first_words(reader, nameless)
    return [(one, words.get(one.conversation_id)) for one in await store.count_rows(reader, batch)]


# -- sessions of the host --------------------------------------------------------------------------------
# In the list, and how far the engine is with them; behind the first rows.

#: Comparing takes at most this share of the time.
SHARE: Final = 20


class Hosting:
    """Follows the host: its sessions are listed, then compared with what the engine has stored."""

    def __init__(
        self,
        screen: CommandScreen,
        listed: ConversationList,
        *,
        found: Callable[[], None],
        compared: Callable[[Line], None],
    ) -> None:
        """*found* is called when other sessions are listed, *compared* with what is said of the engine."""
        self.ingesting: Ingesting | None = None  #: None: not compared yet
        self._screen = screen
        self._list = listed
        self._found = found
        self._compared = compared
        self._shown: HostListing | None = None
        self._due = True  #: what was compared may be old
        self._looking = False
        self._not_before = 0.0  #: monotonic

    @property
    def unread(self) -> str:
        """How much of the host could not be read; empty: all could."""
        found = () if self._shown is None else _faults(self._shown)
        problems = [one for one in found if not one.is_remark]
        return f"{len(problems):,} unread" if problems else ""

    def lagging(self, conversation: ConversationId) -> HostSession | None:
        """The session of which the engine has not stored all in a conversation."""
        compared = () if self.ingesting is None else self.ingesting.lagging
        return next((one.session for one in compared if one.conversation_id == conversation), None)

    def changed(self) -> None:
        """The database was written."""
        self._due = True

    async def look(self) -> None:
        """List what the host has now, then compare it; only what was written since is opened."""
        if not self._looking:
            self._looking = True
            try:
                await self._look()
            finally:
                self._looking = False

    async def _look(self) -> None:
        listing = await self._screen.session.host.look()
        if listing is not self._shown:
            before, self._shown, self._due = self._shown, listing, True
            if before is None or before.sessions != listing.sessions or before.problems != listing.problems:
                self._list.show_sessions(listing.sessions)
                self._found()
        if self._due and time.monotonic() >= self._not_before:
            await self._compare(listing)

    async def _compare(self, listing: HostListing) -> None:
        from lcm_core.base.times import format_local

        from lcm_tui.tables.status import Ingesting, overview

        session, begun = self._screen.session, time.monotonic()
        self._due = False
        compared = await session.host.compare(session.database)
        self._not_before = time.monotonic() + SHARE * (time.monotonic() - begun)
        newer = {one.conversation_id: one.behind for one in compared if one.conversation_id is not None}
        self.ingesting = Ingesting(compared, _faults(listing))
        self._list.show_newer(newer)
        self._compared(
            overview(
                self.ingesting,
                lambda moment: "–" if moment is None else format_local(moment, session.zone)[5:16],
            )
        )


def _faults(listing: HostListing) -> list[SessionProblem]:
    """What could not be read; a machine without a host is no fault."""
    from lcm_host.sessions import NO_FOLDER

    return [one for one in listing.problems if one.reason != NO_FOLDER]


# -- what the panel says ---------------------------------------------------------------------------------
# Read behind the first rows: checks, history and drafts; the rest the list knows.

#: The first rows are followed by their counts; the checks begin after that.
FIRST_SECONDS: Final = 0.3
#: Without a key for so long, the operator looks: what the panel says may be read, and the database checked.
#: The checks of a large file work for half a minute, and whoever goes on at once waits for none of that.
REST_SECONDS: Final = 1.0
#: A file that changes all the time is checked at most this often.
AGAIN_SECONDS: Final = 30.0
#: Operations that are read: a batch that was undone and redone leaves many behind that are no longer listed.
RECENT: Final = 300
#: Of which so many are listed.
LISTED: Final = 20
#: The command of the list that leads where a line leads.
LEADING: Final = {
    Subject.STATE: "health",
    Subject.BROKEN: "repair",
    Subject.DRAFTS: "repair",
    Subject.ENGINE: "engine",
    Subject.INGESTING: "engine",
    Subject.SESSIONS: "backfill",
    Subject.NEAREST: "context",
    Subject.OPERATION: "undo",
}


class Outlooker:
    """Keeps what the panel says; a verdict holds until the file changes."""

    def __init__(
        self,
        screen: CommandScreen,
        listed: ConversationList,
        changed: Callable[[Outlook], None],
        operated: Callable[[Collection[ConversationId]], None],
    ) -> None:
        """*changed* gets what the panel says, whenever that is something else.

        *operated* gets the conversations that operations have changed since the history was read last.
        """
        self.operations: dict[str, HistoryLine] = {}  #: lines of the history by name, the newest first
        self.drafts: list[SavedDrafts] = []  #: batches with drafts that wait, the newest first
        self._screen = screen
        self._list = listed
        self._changed = changed
        self._operated = operated
        self._known: set[str] | None = None  #: ids of the operations that were read; None: none was
        self._outlook: Outlook | None = None
        self._allowed = False  #: nothing is read before the first rows have been painted
        self._begun_at = 0.0  #: when they were, monotonic
        self._checking = False
        self._checked: FileState | None = None  #: the file that the verdict is about
        self._checked_at = 0.0  #: monotonic
        self._due = False  #: a look at whether to check is due
        self._threshold = 0  #: tokens; 0: not known yet

    @property
    def outlook(self) -> Outlook:
        """What is known."""
        if self._outlook is None:
            database = self._screen.session.database
            self._outlook = Outlook(
                database.path.name,
                database.schema.version,
                keys={subject: self._screen.key_of(name) for subject, name in LEADING.items()},
            )
        return self._outlook

    @property
    def newest(self) -> str | None:
        """The newest change that holds, at least in part; an undo is none of its own."""
        lines = self.operations.items()
        return next((name for name, line in lines if line.holding and not line.is_undo), None)

    def begin(self) -> None:
        """The first rows have been painted."""
        self._allowed, self._begun_at = True, time.monotonic()
        self.look()

    def leave(self) -> None:
        """Another screen is in front: it has all of Python's time, and the checks begin again behind it."""
        self._screen.workers.cancel_group(self._screen, "checks")

    def look(self) -> None:
        """The file may have changed: read again what is cheap, and check again what may be old."""
        if not self._allowed:
            return
        self.list_changed()
        self._screen.work_on("outlook", self._read)
        current = self._screen.session.file_state
        examined = self._screen.session.examined
        if examined is not None and examined[0] == current:  # what Health said of it says more
            self._checked = current
            self._say(replace(self.outlook, verdict=verdict_of(examined[1], by_health=True)))
        verdict = self.outlook.verdict
        if verdict is not None and current == self._checked:
            return
        if verdict is not None:
            self._say(replace(self.outlook, verdict=replace(verdict, outdated=True)))
        if not self._due and not self._checking:
            self._due = True
            early = self._checked_at + AGAIN_SECONDS - time.monotonic() if verdict is not None else 0.0
            self._screen.set_timer(max(FIRST_SECONDS, early), self._check_when_seen)

    def _check_when_seen(self) -> None:
        """Check, unless another screen has come to the front: then when this one is back."""
        self._due = False
        if self._screen.app.screen is self._screen and self._list.rows:
            self._checking = True
            self._screen.work_on("checks", self._check)

    def list_changed(self) -> None:
        """More is known of the conversations."""
        rows = [row for row in self._list.rows.values() if row.conversation is not None]
        known = [(row.conversation, row.sums) for row in rows if row.sums is not None]
        broken = [sums.broken for _, sums in known if sums is not None and sums.broken]
        filled = [
            Filled(
                one.conversation_id,
                self._name(one.conversation_id),
                sums.context_tokens,
                self._screen.session.budget,
                self._threshold,
            )
            for one, sums in known
            if one is not None and sums is not None and one.active is not False and sums.context_tokens
        ]
        sized = [
            Sized(one.conversation_id, self._name(one.conversation_id), row.bytes)
            for row in rows
            if (one := row.conversation) is not None and row.bytes
        ]
        self._say(
            replace(
                self.outlook,
                empty=not rows,
                broken=sum(broken),
                broken_in=len(broken),
                sessions=len(self._list.rows) - len(rows),
                nearest=sorted(filled, key=lambda one: -one.tokens)[:5] if self._threshold else (),
                largest=sorted(sized, key=lambda one: -one.bytes)[:5],
                total_bytes=sum(one.bytes for one in sized),
            )
        )

    def ingesting(self, said: Line) -> None:
        """Whether the engine keeps up with the host."""
        self._say(replace(self.outlook, ingesting=said))

    def _name(self, key: ConversationId) -> str:
        return self._list.names.get(key, "")

    def _say(self, outlook: Outlook) -> None:
        if outlook != self._outlook:
            self._outlook = outlook
            self._changed(outlook)

    async def _read(self) -> None:
        """The last operations, drafts that wait, and the work of the engine that does not go on."""
        session = self._screen.session
        if not self._threshold:
            await imported("lcm_core.engine.rules")
            self._threshold = session.rules.compaction.threshold(session.budget)
            self.list_changed()
        await self._read_operations()
        await self._read_drafts()
        await self._read_engine()

    async def _read_operations(self) -> None:
        from lcm_core.base.times import format_local, parse_utc

        session = self._screen.session
        if JOURNAL not in session.database.schema.tables:
            return
        await imported("lcm_core.change.journal", "lcm_tui.tables.history")
        from lcm_tui.tables.history import UNDONE, ListedOperation, lines_of

        read = await session.read(_recent)
        known, self._known = self._known, {one.id for one, _ in read}
        if known is not None:
            fresh = (one.conversation_id for one, _ in read if one.id not in known)
            self._operated({ConversationId(owner) for owner in fresh if owner is not None})
        found = lines_of([ListedOperation(one, by is None, by) for one, by in read])[:LISTED]
        self.operations = {line.name: line for line in found}
        changes = [
            Changed(
                line.name,
                line.what,
                format_local(parse_utc(line.newest.created_at), session.zone)[5:16] or line.newest.created_at,
                line.state != UNDONE,
                line.is_undo,
            )
            for line in found
        ]
        self._say(replace(self.outlook, changes=changes))

    async def _read_drafts(self) -> None:
        if not await asyncio.to_thread(any_drafts):
            if self.drafts:
                self.drafts = []
                self._say(replace(self.outlook, drafts=0))
            return
        await imported("lcm_core.operations.drafts", "lcm_tui.flows.drafts")
        from lcm_core.operations.drafts import unfinished

        from lcm_tui.flows.drafts import worth_keeping

        path = self._screen.session.database.path
        kept = await asyncio.to_thread(unfinished, drafts_folder(), path)
        self.drafts = [one for one in kept if worth_keeping(one.items)]
        self._say(replace(self.outlook, drafts=sum(kept.to_review for kept in self.drafts)))

    async def _read_engine(self) -> None:
        """Conversations whose prepared work needs a look; an engine that prepares nothing has none."""
        session = self._screen.session
        if not session.database.schema.has("pending_compaction_batches"):
            return
        await imported("lcm_core.operations.engine_work", "lcm_core.store.engine_work")
        self._say(replace(self.outlook, engine_needs=await session.read(_needs)))

    async def _at_rest(self) -> None:
        """Wait until the operator only looks."""
        while (left := self._until_rest()) > 0:  # noqa: ASYNC110 - no event says that no key came
            await asyncio.sleep(left)

    def _until_rest(self) -> float:
        busy_at = max(self._screen.session.key_at, self._begun_at)
        return busy_at + REST_SECONDS - time.monotonic()

    async def _check(self) -> None:
        """Ask the checks of the structure."""
        session = self._screen.session
        try:
            await self._at_rest()
            seen = session.file_state
            await imported("lcm_host.checks")
            from lcm_core.checks.running import STRUCTURE
            from lcm_host.checks import run_checks

            from lcm_tui.flows.checks import folders_of, limits_of

            report = await run_checks(
                session.database,
                only=STRUCTURE,
                folders=folders_of(session.settings),
                limits=limits_of(session.settings, session.database.schema),
                pause=self._screen.calm,  # keys come first
            )
        finally:
            self._checking = False
        self._checked, self._checked_at = seen, time.monotonic()
        outdated = session.file_state != seen
        session.wal_is_unread = any(one.check.id == "G20" and one.findings for one in report.results)
        self._screen.show_live()
        self._say(replace(self.outlook, verdict=replace(verdict_of(report.results), outdated=outdated)))
        if outdated:
            self.look()


async def _recent(reader: Reader) -> list[tuple[Operation, str | None]]:
    """The newest operations, and what undoes each now."""
    from lcm_core.change.journal import operations, undone_now

    found = await reader.run(operations, limit=RECENT)
    undone = undone_now(found)
    return [(one, undone[one.id]) for one in found]


async def _needs(reader: Reader) -> int:
    """How many conversations need a look; no message is read for it."""
    from lcm_core.operations.engine_work import Need, engine_work
    from lcm_core.store.engine_work import urgent_rows

    work = engine_work(await urgent_rows(reader), datetime.now(UTC))
    return sum(one.need is not Need.NOTHING for one in work.conversations)


def verdict_of(results: Sequence[CheckResult], *, by_health: bool = False) -> Verdict:
    """How many findings there are by how sure they are, and how many checks were run."""
    from lcm_core.base.findings import CheckState, Confidence
    from lcm_host.checks import CHECKS

    from lcm_tui.tables.findings import can_fix

    found = Counter(one.confidence for result in results for one in result.findings)
    fixable = sum(can_fix(one) for result in results for one in result.findings)
    skipped = sum(result.state is CheckState.NOT_RUN for result in results)
    ran = len(results) - skipped
    broken, suspicious = found[Confidence.BROKEN], found[Confidence.SUSPICIOUS]
    return Verdict(ran, skipped, broken, suspicious, len(CHECKS), fixable=fixable, by_health=by_health)


# -- the panel -------------------------------------------------------------------------------------------
# Lines above the list that answer at a glance, each of which leads somewhere.

#: From this size of a terminal on, the panel has two columns.
WIDE: Final = (130, 40)
#: Lines at most, by the height of the terminal: 80x24 has room for what is only on disk below a change.
MOST_LINES: Final = ((30, 7), (24, 6), (0, 5))


class PanelLines(LineView[PanelKey]):
    """Lines that a single click opens."""

    COUNTED: ClassVar[bool] = False
    OPENS_AT_ONCE = True
    DEFAULT_CSS = """
    PanelLines { background: $surface; }
    """


class Panel(Horizontal):
    """One column of lines, or two where there is room."""

    BLANK: ClassVar[bool] = True
    DEFAULT_CSS = """
    Panel { height: 1; }
    """

    def __init__(self, outlook: Outlook) -> None:
        super().__init__(id="panel")
        self.outlook = outlook
        self.lines = PanelLines(self._draw, id="lines")
        self.beside = PanelLines(self._draw, id="beside")
        self._terminal = (80, 24)
        self._clicked: PanelKey | None = None  #: with the conversation in it

    def compose(self) -> ComposeResult:
        """The first column; the other one comes when there is room."""
        yield self.lines

    def on_mount(self) -> None:
        """Say what is known before anything was read."""
        self.fit(*self.app.size)

    def fit(self, width: int, height: int) -> None:
        """Lay the lines out for a terminal of this size."""
        self._terminal = width, height
        self.show(self.outlook)

    def show(self, outlook: Outlook) -> None:
        """Say something else; the cursor stays on its line."""
        changed = outlook != self.outlook
        self.outlook = outlook
        width, height = self._terminal
        left, right = (
            panel_keys(outlook, next(most for least, most in MOST_LINES if height >= least)),
            tuple[PanelKey, ...](),
        )
        if width >= WIDE[0] and height >= WIDE[1]:
            left, right = panel_columns(outlook)
        if right and not self.beside.is_attached:
            self.mount(self.beside)
        self.beside.display = bool(right)
        for view, keys in ((self.lines, left), (self.beside, right)):
            if changed or view.keys != keys:
                view.replace(keys)
        self.styles.height = max(len(left), len(right))

    @property
    def selected(self) -> PanelKey | None:
        """The line that has the keys; None when neither column has them."""
        view = next((view for view in (self.lines, self.beside) if view.has_focus), None)
        return None if view is None else view.selected

    @on(LineView.Opened)
    def _note_where(self, event: LineView.Opened) -> None:
        """Which conversation of a line was clicked, when it names several."""
        key, cell = event.key, event.cell
        if isinstance(key, PanelKey) and key.ref is None and cell is not None:
            number = conversation_at(self.outlook, key, event.view.size.width, cell)
            self._clicked = replace(key, ref=number)

    def take_opened(self) -> PanelKey | None:
        """The line that is opened: with the conversation in it that was clicked."""
        clicked, self._clicked = self._clicked, None
        return clicked or self.selected

    def _draw(self, key: PanelKey, width: int) -> Sequence[Line]:
        keys: Sequence[PanelKey] = self.beside.keys if key in self.beside.keys else self.lines.keys
        at = list(keys).index(key) if key in keys else 0
        repeated = at > 0 and keys[at - 1].subject is key.subject
        return (panel_line(self.outlook, key, width, repeated=repeated),)


# -- the screen ------------------------------------------------------------------------------------------

#: How often the sessions folder is looked at, and sums that may have changed are.
LOOK_SECONDS: Final = 5.0
NONE: Final = "This database contains no conversation"
#: What the key bar leaves out for a session that is not in the database.
OF_CONVERSATION: Final = frozenset(
    {"context", "summaries", "files", "briefs", "compact", "transplant", "merge"}
)


def _of_selected(key: Key[object], place: Callable[[Conversation], places.Place]) -> Key[ConversationsScreen]:
    """A key that opens a place of the selected conversation."""
    return key.does(lambda s: s._open_of_selected(place), lambda s: s.list.why_no_conversation())


class ConversationsScreen(DataScreen[list[ConversationEntry]]):
    """All conversations, newest activity first."""

    HELP = """
The lines above the list show the state of the database: what the checks of its structure found (H runs the
checks of texts too), how many summaries are broken, in how many conversations the work of a 1.x engine needs
a look ("engine"), whether the engine keeps up with its host ("ingesting"), which contexts are nearest to
compaction, which conversations are largest, what was changed last, and what waits for you. A click opens a
line, or tab, an arrow and enter; the key at the end of a line opens the same. u previews undoing the newest
change, or the one in the selected line.

Below is every conversation of the database, archived ones too, newest activity first, by its title, else by
agent and channel and the first words of its user. "12 newer" instead of a state: the host has 12 messages
that the engine has not stored. Then come the sessions of the host that are not in the database. Their state
says where they are: "on disk" in a file, "living" in the host's own database ("earlier" if their key
continues in a newer session), "cold", "deleted" or "archived" in an archive.

"summaries" counts by depth: L leaves, D1 D2 D3 condensed summaries of that depth. "context" is the number of
items in the context, "ctx tokens" their stored tokens, "of budget" their share of the token budget. "bytes"
counts the texts. "broken" counts summaries that carry one of the engine's failure markers or are empty.
Expensive columns fill in after a moment (…). – means that this version of the engine did not record it.
/ filters over all columns; a row must contain every word. If a narrow screen cannot show all columns, the
heading ends in ›: l shows the others, h goes back. S sorts by the next column that is shown, I reverses the
order; the arrow in the heading is beside the column that sorts (↓: the largest value is on top).

t copies the summaries of the selected conversation to the front of another one's context. V rejoins a session
that a rollover split. space marks conversations (esc unmarks all): K archives the marked ones (no data is
deleted), X exports them to files and deletes them; without marks the selected one is meant. * marks what the
engine's own cleaners would delete: ended sub-agents, scheduled jobs. All changes show a preview and can be
undone (U), except "forget", an option of the delete preview. R lists the broken summaries of one conversation
or of the whole database and drafts replacements. i previews importing a session that is not in the database,
or the missing messages of a conversation behind its host. Y shows prepared compactions and compaction debt.
"""

    def __init__(self, first: list[ConversationEntry] | None = None) -> None:
        super().__init__(first)
        self.marks = Marks[ConversationId](self._marks_changed)
        self.list = ConversationList(
            self._listed_otherwise,
            none=f"{NONE}.",
            marked=self.marks,
            named=self._take_names,
            session_keys=lambda: (
                f"{self.key_of('open')} shows its transcript, {self.key_of('backfill')} imports it"
            ),
        )
        self.outlooker = Outlooker(self, self.list, self._say_outlook, self._operated)
        self.counting = Counting(self, self.list, self._say_note, self.outlooker.list_changed)
        self.hosting = Hosting(self, self.list, found=self._sessions_found, compared=self.outlooker.ingesting)
        self.panel: Panel | None = None
        self._series = Series("conversation", lambda: self.list.table, self._place_of)
        self._painted = False  #: the first rows were

    def compose_body(self) -> ComposeResult:
        """The panel, and the list below it."""
        self.list.budget = self.session.budget
        self.panel = Panel(self.outlooker.outlook)
        yield self.panel
        yield self.list

    def on_mount(self) -> None:
        """Read nothing else before the first rows have been painted; follow what changes without them."""
        # The app mounts its first screen in one batch, in which Textual calls back before it has painted.
        self.app.call_later(self.call_after_refresh, self._first_painted)
        self.set_interval(LOOK_SECONDS, self._look_again)

    def _first_painted(self) -> None:
        self._painted = True
        self.counting.begin()
        self.work_on("sessions", self._find_sessions, exclusive=False)
        self.outlooker.begin()

    def on_screen_suspend(self) -> None:
        """Whoever goes on waits for nothing here."""
        self.counting.leave()
        self.outlooker.leave()

    def on_screen_resume(self) -> None:
        """Say what was done meanwhile, and go on with what costs more."""
        self.outlooker.look()
        if self._painted:
            self.counting.begin()

    def on_resize(self, event: events.Resize) -> None:
        """As many lines and columns as have room."""
        if self.panel is not None and self.panel.is_mounted:
            self.panel.fit(*event.size)

    def _take_names(self, names: Mapping[Any, str]) -> None:
        """Other screens call conversations as this list does."""
        self.session.names = names

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

    def in_key_bar(self) -> list[str]:
        """A session that is not in the database has a transcript, and can be imported."""
        names = super().in_key_bar()
        if self.list.session is None or self.list.conversation is not None:
            return names
        ahead = ("open", "backfill")
        return [*ahead, *(name for name in names if name not in ahead and name not in OF_CONVERSATION)]

    # -- data --------------------------------------------------------------------------------------------

    async def fetch(self) -> list[ConversationEntry]:
        """The conversations, without anything that costs a scan."""
        return await self.session.read(list_conversations)

    def show(self, data: list[ConversationEntry]) -> None:
        """Show the list; counts that may have changed are read again behind it."""
        self.list.zone = self.session.zone
        changed = self.list.show(data)
        self.marks.keep({entry.conversation.conversation_id for entry in data})
        self._say_note()
        self.counting.count_again(changed)
        self.outlooker.look()
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
        self.work_on("sessions", self._find_sessions, exclusive=False)
        self.counting.sum_again()
        self.load()

    def _operated(self, changed: Collection[ConversationId]) -> None:
        """Operations of ours change texts: what is broken in these conversations is looked for again."""
        self.counting.sum_whole(changed)

    def _listed_otherwise(self) -> None:
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
        if self.list.conversation is not None:
            self.open(place(self.list.conversation))

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

    def _pruned(self, _: object) -> None:
        self.marks.clear()
        self.refresh_bars()

    def step_back(self) -> bool:
        """Give the keys back to the list, or take its filter or the marks away."""
        if self.panel is not None and self.panel.selected is not None:
            self.list.table.focus()
            return True
        if super().step_back():
            return True
        marked = bool(self.marks)
        self.marks.clear()
        return marked

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
                open_repair(self, None)
            case Subject.DRAFTS:
                await resume_drafts(self, self.outlooker.drafts[0])
            case Subject.ENGINE:
                self.open(places.Engine())
            case Subject.INGESTING:
                self._open_lagging()
            case Subject.SESSIONS:
                self._stand_on(self._first_on_disk())
            case Subject.NEAREST:
                number = line.ref or self.outlooker.outlook.nearest[0].conversation_id
                row = self.list.rows.get(number)
                if row is not None and row.conversation is not None:
                    self.open(places.Context(row.conversation))
            case Subject.LARGEST:
                self.list.sort_by("bytes" if self.list.sorted_by != "bytes" else "activity")
                self._stand_on(line.ref or next(iter(self.list.table.keys), None))
            case Subject.OPERATION:
                self.open(places.History())

    def _open_lagging(self) -> None:
        """Show what the engine lags behind with the longest, else what could not be read or what it does."""
        found = self.hosting.ingesting
        lagging = () if found is None else found.lagging
        owner = next((one.conversation_id for one in lagging if one.conversation_id is not None), None)
        row = None if owner is None else self.list.rows.get(owner)
        if row is not None and row.conversation is not None:
            self.open(places.Messages(row.conversation))
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
            said = "1 draft waits" if drafts == 1 else f"{drafts:,} drafts wait"
            found.append(f"{said} for review. They are saved: {self.key_of('repair')} continues with them.")
        if held:
            said = "1 draft of a compaction is" if held == 1 else f"{held:,} drafts of compactions are"
            found.append(f"{said} kept only until the app exits. Quitting discards what was paid for.")
        return found

    def decided_on(self) -> object:
        """The operation that `u` would undo."""
        return self._operation()

    def _say_outlook(self, outlook: Outlook) -> None:
        if self.panel is not None and self.panel.is_mounted:
            self.panel.show(outlook)
        self.refresh_bars()

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
        if session is not None:
            self.open(places.Import(session))
        elif (key := self._first_on_disk()) is not None:
            self._stand_on(key)
            self.app.notify(f"Only on the disk: {self.key_of('backfill')} imports it.", timeout=4)

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
        _of_selected(commands.SUMMARIES, places.Summaries),
        commands.SEARCH_EVERYWHERE,
        commands.HEALTH.does(lambda s: s.open(places.Health(s.list.conversation))),
        pruning.repair_key(lambda s: s.list.conversation),
        commands.UNDO.does(_undo, _why_no_undo),
        _of_selected(commands.COMPACT, places.Compaction),
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
            "Sort by the next column (a click on a heading does the same).",
            lambda s: s.list.sort_by_next(),
            words="disk; disk usage; disk space; biggest; largest; what eats the disk; space used; size; "
            "bytes; which is largest; order; most tokens",
        ),
        _of_selected(commands.BRIEFS, places.Briefs),
        commands.MERGE.does(lambda s: s._open_of_selected(s._merged), lambda s: s.list.why_no_conversation()),
        commands.ARCHIVE.does(_archive, _why_none_chosen),
        commands.DELETE.does(lambda s: s.open(places.Deletion(s._chosen(), s._pruned)), _why_none_chosen),
        Key(
            "mark-by-cleaner",
            "asterisk",
            "Mark by cleaner",
            "Mark the conversations that the engine's own cleaners would delete.",
            lambda s: pruning.mark_by_cleaner(s, s.marks),
            words="cleaner; junk; heartbeat; garbage",
            where="the first screen",
            hidden=True,
        ),
        commands.BACKFILL.does(_import_session, _why_no_session),
        Key("turn", "I", "Reverse", "Reverse the sort order.", lambda s: s.list.turn(), hidden=True),
        commands.ENGINE.does(lambda s: s.open(places.Engine(s.list.conversation))),
    )
    COMMON: ClassVar[Sequence[Key[ConversationsScreen]]] = (
        commands.RELOAD.does(_read_all),
        commands.QUIT.does(title="Quit", help="Quit lcm-tui; it asks first when something waits."),
    )
