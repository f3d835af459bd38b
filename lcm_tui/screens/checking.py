"""The checks as the health screen runs them: in phases, beside the keys, until they are stopped."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime, tzinfo
from functools import partial
from typing import Final

from lcm_core.base.findings import CheckState, Progress, Report
from lcm_core.base.records import ConversationId
from lcm_core.base.text import counted
from lcm_core.base.times import format_local
from lcm_core.checks.running import STRUCTURE, WHOLE_FILE
from lcm_core.store.opening import FileState, file_state
from lcm_host.checks import CHECKS, TEXTS, run_checks
from textual.worker import Worker

from lcm_tui.flows.checks import WHOLE_BYTES, folders_of, limits_of, reads_whole_file
from lcm_tui.screens.frame import CommandScreen
from lcm_tui.tables.health import STOPPED, Examination

#: How often the progress is drawn (seconds).
DRAWN_SECONDS: Final = 0.2
NOT_ASKED: Final = "it reads the whole database; {} does"


class Examiner:
    """Runs the checks over one conversation or the whole file, and knows what they said of each."""

    def __init__(
        self,
        screen: CommandScreen,
        scope: ConversationId | None,
        *,
        found: Callable[[], None],
        moved: Callable[[], None],
    ) -> None:
        """*scope*: the conversation that is looked at, None for the whole file.

        *found* is called when the checks have said something, *moved* when a run began, came further or
        ended.
        """
        self.scope = scope
        self.share = 0.0  #: of the present run, 0 to 1
        self.stage = ""  #: what is being looked at, for people
        self.ended = ""  #: when the last run ended, for people
        self.outdated = False  #: somebody else wrote since the last run began
        self._screen = screen
        self._found = found
        self._moved = moved
        self._known: dict[ConversationId | None, Examination] = {}
        self._worker: Worker[None] | None = None
        self._turn = 0  #: counts the runs
        self._asked: frozenset[str] = frozenset()  #: what the present run asks
        self._reported = -1  #: the run whose end is reported
        self._said_at = 0.0  #: when its progress was drawn, monotonic
        self._seen: FileState | None = None  #: the file when the last run began

    @property
    def examination(self) -> Examination:
        """What is known of the present scope."""
        return self._known.setdefault(self.scope, Examination())

    @property
    def running(self) -> bool:
        """Whether checks are running."""
        return self._worker is not None

    @property
    def reads_whole_file(self) -> bool:
        """Whether the whole file is being read, or will be by the present run."""
        return self.running and self._asked >= WHOLE_FILE

    # -- running the checks --------------------------------------------------------------------------------

    def check_all(self) -> None:
        """Ask everything again, the whole-file checks where that is quick or was wanted before."""
        phases = [STRUCTURE, TEXTS]
        if self._wants_whole():
            phases.append(WHOLE_FILE)
        else:
            self.examination.leave_out(WHOLE_FILE, NOT_ASKED.format(self._screen.key_of("whole-file")))
        self._begin(phases)

    def check_again(self, fixed: Collection[str]) -> None:
        """Ask again, after a fix, what has found something: one damage often shows in several checks."""
        if self.running:
            self.check_all()
            return
        found = {one.check for one in self.examination.findings.values()} | set(fixed)
        phases = [found & STRUCTURE, found & TEXTS, found & WHOLE_FILE]
        state = self._screen.session.file_state
        if state is not None and state.size > WHOLE_BYTES:  # reading it again takes its time
            phases = [found & STRUCTURE, *(set(fixed) & part for part in (TEXTS, WHOLE_FILE))]
        self._begin([phase for phase in phases if phase])

    def check_whole_file(self) -> None:
        """Ask what reads the whole file, after what is being asked; its end is reported."""
        self._begin([self._asked - WHOLE_FILE, WHOLE_FILE] if self.running else [WHOLE_FILE])
        self._reported = self._turn

    def look_at(self, scope: ConversationId | None) -> None:
        """Look at another scope; what is known of this one stays known."""
        self.stop()
        self.scope = scope
        self._found()
        self._moved()
        if not self.examination.complete:
            self.check_all()

    def stop(self) -> None:
        """End the run, if there is one; what it said so far stays."""
        if self._worker is None:
            return
        self._worker.cancel()
        self._worker = None
        self._turn += 1
        self.examination.leave_out(CHECKS, STOPPED)
        self.ended = f"stopped {now_text(self._screen.session.zone)}"
        self._found()
        self._moved()

    def file_changed(self, *, by_us: bool) -> None:
        """The file was written; *by_us*: by a change of this screen, after which it checks again."""
        known = self._seen is not None and self._screen.session.file_state == self._seen
        if not (self.outdated or known or by_us):
            self.outdated = True
            self._moved()

    # -- running -------------------------------------------------------------------------------------------

    def _wants_whole(self) -> bool:
        """Whether the whole-file checks run unasked: over a file that is small, or that had them before."""
        known = self.examination.results.get("G13")
        if known is not None and not known.reason:
            return True
        state = self._screen.session.file_state
        return state is not None and reads_whole_file(self.scope, state.size)

    def _begin(self, phases: Sequence[Collection[str]]) -> None:
        """Ask some checks, phase by phase; a run that is under way ends."""
        self._turn += 1
        self.outdated = False
        self.share, self.stage = 0.0, "beginning"
        self._asked = frozenset(check for phase in phases for check in phase)
        self._worker = self._screen.work_on("checks", self._run, self._turn, self.scope, tuple(phases))
        self._moved()

    async def _run(self, turn: int, scope: ConversationId | None, phases: Sequence[Collection[str]]) -> None:
        session, started = self._screen.session, time.monotonic()
        try:
            self._seen = await asyncio.to_thread(file_state, session.database.path)
            self.outdated = False  # news of what was written before this, by a fix of ours, comes late
            for number, only in enumerate(phases):
                report = await run_checks(
                    session.database,
                    conversation=scope,
                    only=only,
                    folders=folders_of(session.settings),
                    limits=limits_of(session.settings, session.database.schema),
                    progress=partial(self._came_to, turn, number, len(phases)),
                )
                if turn == self._turn:
                    known = self._known.setdefault(scope, Examination())
                    known.take(report)
                    if scope is None and known.complete and number == len(phases) - 1:
                        session.examined = (self._seen, tuple(known.results.values()))
                    self._found()
                    self._moved()
                    if turn == self._reported and number == len(phases) - 1:
                        self._report(report)
        finally:
            if turn == self._turn:
                self._worker = None
                self.ended = taken_text(time.monotonic() - started, session.zone)
                self._moved()

    def _report(self, report: Report) -> None:
        ran = [one for one in report.results if one.state is CheckState.RAN]
        found = counted(sum(one.finding_count for one in ran), "finding")
        self._screen.app.notify(f"The {counted(len(ran), 'slow check')} ran: {found}.", timeout=4)

    def _came_to(self, turn: int, phase: int, phases: int, now: Progress) -> None:
        if turn != self._turn:
            return
        self.share = (phase + now.fraction) / phases
        self.stage = now.stage
        if (moment := time.monotonic()) - self._said_at >= DRAWN_SECONDS:
            self._said_at = moment
            self._moved()


def taken_text(seconds: float, zone: tzinfo | None) -> str:
    """How long a run took and when it ended: now, in *zone* (None: that of the machine)."""
    return f"{seconds:.1f} s, {now_text(zone)}"


def now_text(zone: tzinfo | None) -> str:
    """The time of day."""
    return format_local(datetime.now(UTC), zone)[11:19]
