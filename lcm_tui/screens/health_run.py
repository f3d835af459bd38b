"""Running the checks beside the keys: phases, progress, stopping, and whether the file changed since."""

from __future__ import annotations

import asyncio
import time
from abc import abstractmethod
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Final

from lcm_core.checks import CHECKS, STRUCTURE, TEXTS, WHOLE_FILE, run_checks
from lcm_core.findings import Confidence, Progress
from lcm_core.records import Conversation, ConversationId
from lcm_core.store.opening import FileState, file_state
from lcm_core.times import format_local
from textual.strip import Strip
from textual.worker import Worker

from lcm_tui.check_settings import WHOLE_BYTES, folders_of, limits_of
from lcm_tui.frame import CommandScreen
from lcm_tui.screens.health_rows import Examination
from lcm_tui.widgets.composition import gauge
from lcm_tui.widgets.drawn import Drawn
from lcm_tui.widgets.spans import Line, Span, strip_of

#: How often the progress is drawn (seconds).
DRAWN_SECONDS: Final = 0.2
GAUGE: Final = 16
STOPPED: Final = "the checks were stopped before it"
NOT_ASKED: Final = "it reads the whole file, which was not asked for; F does"


class HeadLine(Drawn):
    """One line: how far the checks are, or what they found."""

    DEFAULT_CSS = """
    HeadLine { height: 1; width: 1fr; background: $surface; }
    """

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's own name for it
        super().__init__(id=id)
        self._said: Line = ()

    def say(self, said: Line) -> None:
        """Show other words."""
        if said != self._said:
            self._said = said
            self.refresh()

    def render_line(self, y: int) -> Strip:
        """The one line."""
        return strip_of(self._said, self.style_of, self.size.width)


class Examining(CommandScreen):
    """A screen that runs the checks over one conversation or the whole file, and knows what they said."""

    def __init__(self, conversation: Conversation | None, *, only: bool) -> None:
        super().__init__()
        self.conversation = conversation
        self._only = only and conversation is not None
        self._known: dict[ConversationId | None, Examination] = {}
        self._worker: Worker[None] | None = None
        self._turn = 0  #: counts the runs
        self.asked: frozenset[str] = frozenset()  #: what the present run asks
        self._progress = ""
        self._share = 0.0  #: of the present run, 0 to 1
        self._drawn_at = 0.0
        self._ended = ""  #: when the last run ended, for people
        self._changed = False  #: somebody else wrote since the last run began
        self._seen: FileState | None = None  #: the file when the last run began

    @property
    def scope(self) -> ConversationId | None:
        """The conversation that is looked at; None: the whole file."""
        return self.conversation.conversation_id if self._only and self.conversation is not None else None

    @property
    def examination(self) -> Examination:
        """What is known of the present scope."""
        return self._known.setdefault(self.scope, Examination())

    @property
    def checking(self) -> bool:
        """Whether checks are running."""
        return self._worker is not None

    @abstractmethod
    def show_findings(self) -> None:
        """The checks have said something new."""

    def is_ours(self) -> bool:
        """Whether what is written at the moment is our own doing."""
        return False

    # -- running -------------------------------------------------------------------------------------------

    def check_all(self) -> None:
        """Ask everything again, the whole-file checks where that is quick or was wanted before."""
        phases = [STRUCTURE, TEXTS]
        if self._wants_whole():
            phases.append(WHOLE_FILE)
        else:
            self.examination.leave_out(WHOLE_FILE, NOT_ASKED)
        self.check(phases)

    def check_again(self, fixed: Collection[str]) -> None:
        """Ask again, after a fix, what has found something: one damage often shows in several checks."""
        if self.checking:
            self.check_all()
            return
        found = {one.check for one in self.examination.findings.values()} | set(fixed)
        phases = [found & STRUCTURE, found & TEXTS, found & WHOLE_FILE]
        state = self.session.file_state
        if state is not None and state.size > WHOLE_BYTES:  # reading it again takes its time
            phases = [found & STRUCTURE, *(set(fixed) & part for part in (TEXTS, WHOLE_FILE))]
        self.check([phase for phase in phases if phase])

    def check(self, phases: Sequence[Collection[str]]) -> None:
        """Ask some checks, phase by phase; a run that is under way ends."""
        self._turn += 1
        self._changed = False
        self._share, self._progress = 0.0, "beginning"
        self.asked = frozenset(check for phase in phases for check in phase)
        self._worker = self.work_on("checks", self._check, self._turn, self.scope, tuple(phases))
        self.say_state()

    def stop(self) -> None:
        """End the run; what it said so far stays."""
        if self._worker is not None:
            self._worker.cancel()
            self._worker = None
            self._turn += 1
            self.examination.leave_out(CHECKS, STOPPED)
            self._ended = f"stopped {self._now()}"
            self.show_findings()

    def _wants_whole(self) -> bool:
        """Whether the whole-file checks run unasked: over a file that is small, or that had them before."""
        known = self.examination.results.get("G13")
        if known is not None and not known.reason:
            return True
        state = self.session.file_state
        return self.scope is None and state is not None and state.size <= WHOLE_BYTES

    async def _check(
        self, turn: int, scope: ConversationId | None, phases: Sequence[Collection[str]]
    ) -> None:
        settings, started = self.session.settings, time.monotonic()
        try:
            self._seen = await asyncio.to_thread(file_state, self.session.database.path)
            self._changed = False  # news of what was written before this, by a fix of ours, comes late
            for number, only in enumerate(phases):
                report = await run_checks(
                    self.session.database,
                    conversation=scope,
                    only=only,
                    folders=folders_of(settings),
                    limits=limits_of(settings, self.session.database.schema),
                    progress=partial(self._told_progress, turn, number, len(phases)),
                )
                if turn == self._turn:
                    self._known.setdefault(scope, Examination()).take(report)
                    self.show_findings()
        finally:
            if turn == self._turn and self.is_attached:
                self._worker = None
                self._ended = self._taken(started)
                self.say_state()

    def _told_progress(self, turn: int, number: int, phases: int, now: Progress) -> None:
        if turn != self._turn:
            return
        self._share = (number + now.fraction) / phases
        self._progress = now.stage
        if time.monotonic() - self._drawn_at >= DRAWN_SECONDS:
            self.say_state()

    def _taken(self, started: float) -> str:
        return f"{time.monotonic() - started:.1f} s, {self._now()}"

    def _now(self) -> str:
        return format_local(datetime.now(UTC), self.session.zone)[11:19]

    # -- the file ------------------------------------------------------------------------------------------

    def data_changed(self) -> None:
        """Say that what is shown is older than the file; the checks run again when the operator wants it."""
        super().data_changed()
        known = self._seen is not None and self.session.file_state == self._seen
        if not (self._changed or known or self.is_ours()):
            self._changed = True
            self.say_state()

    # -- what is said --------------------------------------------------------------------------------------

    def say_state(self) -> None:
        """Say in the head how far the checks are, or what they found, and whether that may be old."""
        self._drawn_at = time.monotonic()
        if self.is_attached and self.is_mounted:
            self.query_one(HeadLine).say(self._progress_line() if self.checking else self._found_line())
            self.refresh_bars()

    def _progress_line(self) -> Line:
        said = f" {self._share * 100:3.0f} %  {self._progress}"
        found = sum(self.examination.count(one) for one in (Confidence.BROKEN, Confidence.SUSPICIOUS))
        more = f"   {found:,} found so far" if found else ""
        return (
            *gauge(self._share, GAUGE),
            Span(said),
            Span(more, "dim"),
            Span("   esc", "key"),
            Span(" stops", "dim"),
        )

    def _found_line(self) -> Line:
        known = self.examination
        broken, doubtful = known.count(Confidence.BROKEN), known.count(Confidence.SUSPICIOUS)
        left = len(known.not_run)
        clean = not broken and not doubtful
        spans = [
            Span(f" ✗ {broken:,} broken", "error" if broken else "dim"),
            Span(f"  ? {doubtful:,} suspicious", "warn" if doubtful else "dim"),
            Span(f"  · {known.count(Confidence.BY_DESIGN):,} by design", "dim"),
            Span(f"  – {left:,} not run", "text" if left else "dim"),
        ]
        if clean and known.results:
            spans.insert(0, Span(" no damage found", "ok"))
        if self._changed:
            spans += [Span("   changed since: ", "warn"), Span(self.key_of("reload"), "key")]
        else:
            spans.append(Span(f"   {self._ended}", "dim"))
        return tuple(spans)
