"""What the panel says, read behind the first rows: checks, history and drafts; the rest the list knows."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from lcm_core.private_files import any_drafts, drafts_folder
from lcm_core.records import ConversationId
from lcm_core.store.schema import JOURNAL

from lcm_tui.frame import CommandScreen
from lcm_tui.importing import imported
from lcm_tui.panes.conversations import ConversationList
from lcm_tui.views.home import Changed, Filled, Outlook, Sized, Subject, Verdict
from lcm_tui.widgets.spans import Line

if TYPE_CHECKING:  # nothing of it is wanted before the first rows
    from lcm_core.change.journal import Operation
    from lcm_core.findings import CheckResult
    from lcm_core.operations.drafting.saved import SavedDrafts
    from lcm_core.store.database import Reader
    from lcm_core.store.opening import FileState

    from lcm_tui.views.history import HistoryLine

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
            await imported("lcm_core.engine_rules")
            self._threshold = session.rules.compaction.threshold(session.budget)
            self.list_changed()
        await self._read_operations()
        await self._read_drafts()
        await self._read_engine()

    async def _read_operations(self) -> None:
        from lcm_core.times import format_local, parse_utc

        session = self._screen.session
        if JOURNAL not in session.database.schema.tables:
            return
        await imported("lcm_core.change.journal", "lcm_tui.views.history")
        from lcm_tui.views.history import UNDONE, ListedOperation, lines_of

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
        await imported("lcm_core.operations.drafting.saved", "lcm_tui.drafts")
        from lcm_core.operations.drafting.saved import unfinished

        from lcm_tui.drafts import worth_keeping

        path = self._screen.session.database.path
        kept = await asyncio.to_thread(unfinished, drafts_folder(), path)
        self.drafts = [one for one in kept if worth_keeping(one.items)]
        self._say(replace(self.outlook, drafts=sum(kept.to_review for kept in self.drafts)))

    async def _read_engine(self) -> None:
        """Conversations whose prepared work needs a look; an engine that prepares nothing has none."""
        session = self._screen.session
        if not session.database.schema.has("pending_compaction_batches"):
            return
        await imported("lcm_core.engine_work", "lcm_core.store.engine_work")
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
            await imported("lcm_core.checks.host")
            from lcm_core.checks import STRUCTURE
            from lcm_core.checks.host import run_checks

            from lcm_tui.check_settings import folders_of, limits_of

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
    from lcm_core.engine_work import Need, engine_work
    from lcm_core.store.engine_work import urgent_rows

    work = engine_work(await urgent_rows(reader), datetime.now(UTC))
    return sum(one.need is not Need.NOTHING for one in work.conversations)


def verdict_of(results: Sequence[CheckResult], *, by_health: bool = False) -> Verdict:
    """How many findings there are by how sure they are, and how many checks were run."""
    from lcm_core.checks.host import CHECKS
    from lcm_core.findings import CheckState, Confidence

    from lcm_tui.views.findings import can_fix

    found = Counter(one.confidence for result in results for one in result.findings)
    fixable = sum(can_fix(one) for result in results for one in result.findings)
    skipped = sum(result.state is CheckState.NOT_RUN for result in results)
    ran = len(results) - skipped
    broken, suspicious = found[Confidence.BROKEN], found[Confidence.SUSPICIOUS]
    return Verdict(ran, skipped, broken, suspicious, len(CHECKS), fixable=fixable, by_health=by_health)
