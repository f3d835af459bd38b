"""The panel above the first list: what it says, read behind the first rows, and its lines."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from heapq import nlargest
from typing import TYPE_CHECKING, ClassVar, Final

from lcm_core.base.files import any_drafts, drafts_folder
from lcm_core.base.records import ConversationId
from lcm_core.base.values import replace
from lcm_core.store.database import Reader
from lcm_core.store.schema import JOURNAL
from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal

from lcm_tui.kit.lines import LineView
from lcm_tui.kit.session import imported
from lcm_tui.kit.spans import Line
from lcm_tui.screens.conversation_list import ConversationList
from lcm_tui.screens.frame import CommandScreen
from lcm_tui.tables.home import (
    Changed,
    Filled,
    Outlook,
    PanelKey,
    Sized,
    Subject,
    conversation_at,
    panel_columns,
    panel_keys,
    panel_line,
)

if TYPE_CHECKING:
    from lcm_core.base.engine_settings import EngineSettings
    from lcm_core.base.findings import CheckResult
    from lcm_core.operations.drafts import SavedDrafts
    from lcm_core.operations.engine_work import Need
    from lcm_core.store.opening import FileState
    from lcm_core.store.remembered import Verdict
    from lcm_host.sessions import HostListing, HostSession, SessionProblem

    from lcm_tui.tables.history import HistoryLine
    from lcm_tui.tables.status import Ingesting


# -- sessions of the host --------------------------------------------------------------------------------
# In the list, and how far the engine is with them; behind the first rows.

#: Comparing takes at most this share of the time.
SHARE_OF_HOST: Final = 20


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
        self._not_before = time.monotonic() + SHARE_OF_HOST * (time.monotonic() - begun)
        newer = {one.conversation_id: one.behind for one in compared if one.conversation_id is not None}
        self.ingesting = Ingesting(compared, _faults(listing))
        self._list.note(newer=newer)
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
#: A file that changes all the time is checked at most this often, and for at most one part in so many.
AGAIN_SECONDS: Final = 30.0
SHARE_OF_CHECKS: Final = 50
#: What the checks said holds for so long at a later start, while the file is as it was: some go by the time.
VERDICT_SECONDS: Final = 86_400.0
#: Operations that are read: a batch that was undone and redone leaves many behind that are no longer listed.
RECENT: Final = 300
#: Of which so many are listed.
LISTED: Final = 20
#: Of more rows than these, all are looked through for at most one part in so many of the time.
MANY_ROWS: Final = 1_000
SHARE_OF_LIST: Final = 200
#: Contexts and conversations that are listed, at most.
LISTED_ABOVE: Final = 5
#: The command of the list that leads where a line leads.
LEADING: Final[dict[Subject | None, str]] = {
    Subject.STATE: "health",
    Subject.BROKEN: "repair",
    Subject.STALE: "repair",
    Subject.DRAFTS: "repair",
    Subject.ENGINE: "engine",
    Subject.SESSIONS: "backfill",
    Subject.NEAREST: "context",
    Subject.LARGEST: "disk",
    Subject.OPERATION: "undo",
    None: "history",
}


class Outlooker:
    """Keeps what the panel says; a verdict holds until the file changes."""

    def __init__(
        self,
        screen: CommandScreen,
        listed: ConversationList,
        changed: Callable[[Outlook], None],
        *,
        empty: bool,
    ) -> None:
        """*changed* gets what the panel says, whenever that is something else; *empty*: as the app begins."""
        self.operations: dict[str, HistoryLine] = {}  #: lines of the history by name, the newest first
        self.drafts: list[SavedDrafts] = []  #: batches with drafts that wait, the newest first
        self._screen = screen
        self._list = listed
        self._changed = changed
        self._empty = empty
        self._outlook: Outlook | None = None
        self._allowed = False  #: nothing is read before the first rows have been painted
        self._begun_at = 0.0  #: when they were, monotonic
        self._checking = False
        self._checked: FileState | None = None  #: the file that the verdict is about
        self._check_at = 0.0  #: not again before this, monotonic
        self._due = False  #: a look at whether to check is due
        self._list_at = 0.0  #: what the list knows is not looked through again before this, monotonic
        self._list_due = False
        self._threshold = 0  #: tokens; 0: not known yet

    @property
    def outlook(self) -> Outlook:
        """What is known."""
        if self._outlook is None:
            database = self._screen.session.database
            self._outlook = Outlook(
                database.path.name,
                database.schema.version,
                zone=self._screen.session.zone,
                empty=self._empty,
                early=True,
                keys=self._keys(),
            )
        return self._outlook

    def _keys(self) -> dict[Subject | None, str]:
        return {subject: self._screen.key_of(name) for subject, name in LEADING.items()}

    @property
    def newest(self) -> str | None:
        """The newest change that holds, at least in part; an undo is none of its own."""
        return next((name for name, line in self.operations.items() if line.undoable), None)

    def begin(self) -> None:
        """The first rows have been painted."""
        self._allowed, self._begun_at = True, time.monotonic()
        self.look()

    def leave(self) -> None:
        """Another screen is in front: it has all of Python's time, and the checks begin again behind it."""
        self._screen.workers.cancel_group(self._screen, "checks")

    def look(self, *, whole: bool = True) -> None:
        """The file may have changed: read again what is cheap, and check again what may be old.

        Unless *whole*, only the conversations can have changed.
        """
        if not self._allowed:
            return
        self._say(replace(self.outlook, keys=self._keys()))  # the help may have given new ones
        if whole:
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
            early = self._check_at - time.monotonic() if verdict is not None else 0.0
            self._screen.set_timer(max(FIRST_SECONDS, early), self._check_when_seen)

    def _check_when_seen(self) -> None:
        """Check, unless another screen has come to the front: then when this one is back."""
        self._due = False
        if self._screen.app.screen is self._screen and self._list.rows:
            self._checking = True
            self._screen.work_on("checks", self._check)

    def list_changed(self) -> None:
        """More is known of the conversations; in a long list that is not said at once each time."""
        early = self._list_at - time.monotonic()
        if early <= 0 or len(self._list.rows) < MANY_ROWS:
            self._say_list()
        elif not self._list_due:
            self._list_due = True
            self._screen.set_timer(early, self._say_list)

    def _say_list(self) -> None:
        begun, self._list_due = time.monotonic(), False
        self._list.fit_bars()
        self._say_conversations()
        now = time.monotonic()
        self._list_at = now + SHARE_OF_LIST * (now - begun)

    def _say_conversations(self) -> None:
        known = [row for row in self._list.rows.values() if row.entry is not None]
        sums = [(row.entry, row.sums) for row in known if row.sums is not None]
        broken = [one.broken for _, one in sums if one.broken]
        sized = [(one.bytes, one.conversation_id) for _, one in sums]
        full = [
            (one.context_tokens, one.conversation_id)
            for entry, one in sums
            if one.context_tokens and entry is not None and entry.conversation.active is not False
        ]
        budget = self._screen.session.budget
        nearest = nlargest(LISTED_ABOVE, full) if self._threshold else []
        self._say(
            replace(
                self.outlook,
                empty=not known,
                broken=sum(broken),
                broken_in=len(broken),
                unreadable=sum(row.unreadable for row in known),
                sessions=len(self._list.rows) - len(known),
                nearest=[
                    Filled(key, self._name(key), tokens, budget, self._threshold) for tokens, key in nearest
                ],
                largest=[
                    Sized(key, self._name(key), size) for size, key in nlargest(LISTED_ABOVE, sized) if size
                ],
                total_bytes=sum(size for size, _ in sized),
            )
        )

    def ingesting(self, said: Line) -> None:
        """Whether the engine keeps up with the host."""
        self._say(replace(self.outlook, ingesting=said))

    def _name(self, key: ConversationId) -> str:
        return self._list.names.get(key, "")

    def _say(self, outlook: Outlook) -> None:
        if outlook != self._outlook:
            before, self._outlook = self._outlook, outlook
            verdict = outlook.verdict
            if verdict is not None and (before is None or verdict != before.verdict):
                broken, suspicious = Counter[ConversationId](), Counter[ConversationId]()
                for number, _, sure, doubtful in verdict.named:
                    broken[ConversationId(number)] += sure
                    suspicious[ConversationId(number)] += doubtful
                self._list.note(findings=broken, suspicious=suspicious)
            self._changed(outlook)

    async def _read(self) -> None:
        """The last operations, drafts that wait, and the work of the engine that does not go on."""
        session = self._screen.session
        if not self._threshold:
            await imported("lcm_core.engine.rules")
            self._threshold = session.rules.compaction.threshold(session.budget)
            self.list_changed()
        try:
            await self._read_operations()
            await self._read_drafts()
            await self._read_engine()
        finally:
            self._say(replace(self.outlook, early=False))

    async def _read_operations(self) -> None:
        from lcm_core.base.times import format_local, parse_utc

        session = self._screen.session
        if JOURNAL not in session.database.schema.tables:
            return
        await imported("lcm_core.operations.stale", "lcm_tui.tables.history")
        from lcm_core.operations.stale import stale_everywhere

        from lcm_tui.tables.history import UNDONE

        found = (await session.read(recent_changes))[:LISTED]
        operations = {line.name: line for line in found}
        if operations != self.operations:
            stale = await session.read(stale_everywhere)
            self._list.note(stale={owner: len(ones) for owner, ones in stale.items()})
            self._say(replace(self.outlook, stale=stale))
            self.operations = operations
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
        await imported("lcm_core.operations.engine_work", "lcm_tui.tables.engine")
        from lcm_tui.tables.engine import NEEDS

        stuck = await session.read(_needs, session.settings.engine)
        self._list.note(stuck=dict.fromkeys(stuck, 1))
        whys = Counter(NEEDS[need] or "" for need in sorted(stuck.values()))
        self._say(replace(self.outlook, engine_needs=tuple(whys.items())))

    async def _at_rest(self) -> None:
        """Wait until the operator only looks."""
        while (left := self._until_rest()) > 0:  # noqa: ASYNC110 - no event says that no key came
            await asyncio.sleep(left)

    def _until_rest(self) -> float:
        busy_at = max(self._screen.session.key_at, self._begun_at)
        return busy_at + REST_SECONDS - time.monotonic()

    async def _check(self) -> None:
        """Ask the checks of the structure, unless they have been asked of the file as it is."""
        session = self._screen.session
        try:
            if self.outlook.verdict is None and await self._recall():
                return
            if (early := self._check_at - time.monotonic()) > 0:
                self._due = True
                self._screen.set_timer(early, self._check_when_seen)
                return
            await self._at_rest()
            seen, begun = session.file_state, time.monotonic()
            mark = await session.memory.now()
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
        took = time.monotonic() - begun
        self._checked = seen
        self._check_at = time.monotonic() + max(AGAIN_SECONDS, SHARE_OF_CHECKS * took)
        outdated = session.file_state != seen
        session.wal_is_unread = any(one.check.id == "G20" and one.findings for one in report.results)
        self._screen.show_live()
        verdict = _with_earlier(verdict_of(report.results), self.outlook.verdict)
        self._say(replace(self.outlook, verdict=replace(verdict, outdated=outdated)))
        if outdated:
            self.look()
        elif mark is not None and not session.wal_is_unread and mark == await session.memory.now():
            await session.memory.judge(mark, replace(verdict, at=time.time(), seconds=took))

    async def _recall(self) -> bool:
        """Show what the checks said at an earlier start; False: it is nothing, or of another state."""
        await imported("lcm_core.store.remembered")
        session = self._screen.session
        memory = await session.memory.recall()
        if memory is None or memory.verdict is None:
            return False
        seen, mark = session.file_state, await session.memory.now()
        age = time.time() - memory.verdict.at
        holds = mark == memory.judged and 0 <= age < VERDICT_SECONDS and seen == session.file_state
        self._say(replace(self.outlook, verdict=replace(memory.verdict, outdated=mark != memory.judged)))
        if holds:
            self._checked = seen
        if age >= 0:
            self._check_at = time.monotonic() + SHARE_OF_CHECKS * memory.verdict.seconds - age
        return holds


async def recent_changes(reader: Reader, conversation_id: ConversationId | None = None) -> list[HistoryLine]:
    """The newest changes, newest first, each batch in one line; None: those of all conversations."""
    from lcm_core.change.journal import operations, undone_now

    from lcm_tui.tables.history import ListedOperation, lines_of

    found = await reader.run(operations, limit=RECENT, conversation_id=conversation_id)
    undone = undone_now(found)
    return lines_of([ListedOperation(one, undone[one.id] is None, undone[one.id]) for one in found])


async def _needs(reader: Reader, engine: EngineSettings) -> dict[ConversationId, Need]:
    """Which conversations need a look, and why."""
    from lcm_core.operations.engine_work import Need, read_work

    work = await read_work(reader, engine, datetime.now(UTC), urgent=True)
    return {one.conversation_id: one.need for one in work.conversations if one.need is not Need.NOTHING}


def _with_earlier(verdict: Verdict, before: Verdict | None) -> Verdict:
    """What only Health looks for is kept from *before* until Health runs again."""
    from lcm_core.checks.running import STRUCTURE

    if before is None:
        return verdict
    kept = (one for one in before.named if one[1] not in STRUCTURE)
    return replace(verdict, more=before.more, named=(*verdict.named, *kept))


def verdict_of(results: Sequence[CheckResult], *, by_health: bool = False) -> Verdict:
    """How many findings there are by how sure they are, and how many checks were run.

    Broken summaries have a line of their own. Those that only Health looks for are counted once more apart:
    their number is kept until it runs again.
    """
    from lcm_core.base.findings import CheckState, Confidence
    from lcm_core.checks.running import STRUCTURE
    from lcm_core.store.remembered import Verdict
    from lcm_host.checks import CHECKS

    from lcm_tui.tables.findings import can_fix, file_damage, is_broken_summary

    sure = Counter(
        (result.check.id in STRUCTURE, one.confidence)
        for result in results
        for one in result.findings
        if not is_broken_summary(one)
    )
    fixable = sum(can_fix(one) for result in results for one in result.findings)
    skipped = sum(result.state is CheckState.NOT_RUN for result in results)
    ran = len(results) - skipped
    broken, suspicious = (
        sum(sure[part, how] for part in (True, False)) for how in (Confidence.BROKEN, Confidence.SUSPICIOUS)
    )
    # Broken summaries are counted by the list: what is said of their texts (family C) would say it again.
    owned = Counter(
        (one.conversation_id, one.check, one.confidence)
        for result in results
        for one in result.findings
        if one.conversation_id is not None and not one.check.startswith("C")
    )
    named = tuple(
        (number, check, owned[number, check, Confidence.BROKEN], owned[number, check, Confidence.SUSPICIOUS])
        for number, check in sorted({(number, check) for number, check, _ in owned})
    )
    return Verdict(
        ran,
        skipped,
        broken,
        suspicious,
        len(CHECKS),
        fixable=fixable,
        by_health=by_health,
        damaged=file_damage(results),
        more=sure[False, Confidence.BROKEN] + sure[False, Confidence.SUSPICIOUS],
        named=named,
    )


# -- the panel -------------------------------------------------------------------------------------------
# Lines above the list that answer at a glance, each of which leads somewhere.

#: From this size of a terminal on, the panel has two columns.
WIDE: Final = (130, 40)
#: Its lines, by the height of the terminal, from the start on: the list below stays where it is while they
#: are read. At 80x24 a change that is made pushes no other line out.
LINES: Final = ((24, 7), (15, 5), (0, 4))


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
        most = next(most for least, most in LINES if height >= least)
        left, right = panel_keys(outlook, most), tuple[PanelKey, ...]()
        if width >= WIDE[0] and height >= WIDE[1]:
            left, right = panel_columns(outlook, most)
        if right and not self.beside.is_attached:
            self.mount(self.beside)
        self.beside.display = bool(right)
        for view, keys in ((self.lines, left), (self.beside, right)):
            if changed or view.keys != keys:
                view.replace(keys)
        self.styles.height = len(left) if outlook.empty else most

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
