"""The assembly of a context, made behind its list: again when the file changes, or what decides it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from lcm_core.assemble.ledger import Ledger, ledger_of
from lcm_core.errors import LcmError
from lcm_core.records import Conversation
from textual.worker import Worker

from lcm_tui.data_screen import RELOAD_SECONDS
from lcm_tui.frame import CommandScreen

if TYPE_CHECKING:
    from lcm_core.assemble.assembler import AssemblySettings
    from lcm_core.assembly import AssemblyBasis

#: The list comes first: so long after it the assembly begins.
OPENING_SECONDS: Final = 0.05
#: Under a host that writes without a pause, assembling takes at most one part of so many of the time.
SHARE_OF_TIME: Final = 4


class Assembly:
    """What the model gets of a conversation under a budget, by a prompt, with the hard limit.

    What the operator sets here is a what-if of this screen: no other screen goes by it.
    """

    def __init__(
        self,
        screen: CommandScreen,
        conversation: Conversation,
        made: Callable[[Ledger], None],
        changed: Callable[[], None],
    ) -> None:
        """*made* gets each assembly; *changed* is called when something else is to be said of it."""
        self.what_if: int | None = (
            None  #: the budget that the operator asks about, in tokens; None: as configured
        )
        self.prompt = ""  #: what the user asks, as the operator typed it; empty: nothing
        self.clamps = True  #: with the engine's hard limit
        self.problem: str | None = None  #: why nothing could be assembled
        self.ledger: Ledger | None = None
        self.first: Ledger | None = None  #: as it was when the screen was opened
        self.changes = 0  #: how often the file may have changed
        self.read_at = -1  #: the value of `changes` before the basis was read
        self._desk = screen
        self._conversation_id = conversation.conversation_id
        self._session_key = conversation.session_key
        self._made = made
        self._changed = changed
        self._basis: AssemblyBasis | None = None
        self._made_for: AssemblySettings | None = None  #: what `ledger` was assembled for
        self._assembler: Worker[None] | None = None
        self._tried = asyncio.Event()  #: it was assembled once, or could not be

    async def ready(self) -> Ledger | None:
        """It as it was when the screen was opened, as soon as it is made; None: it cannot be made."""
        await self._tried.wait()
        return self.first

    @property
    def working(self) -> bool:
        """Whether what is shown is about to be replaced."""
        return self._assembler is not None and not self._assembler.is_finished

    @property
    def outdated(self) -> bool:
        """Whether what is shown is of other settings than those that are asked for."""
        return self.working and not self._is_current()

    @property
    def asked(self) -> int:
        """The budget that is asked for, in tokens."""
        return self._desk.session.budget if self.what_if is None else self.what_if

    @property
    def budget(self) -> int:
        """The tokens that the engine would take: what is asked for, under the cap that is configured."""
        cap = self._desk.session.settings.engine.max_assembly_token_budget.value
        return self.asked if cap is None else min(self.asked, cap)

    @property
    def what_if_text(self) -> str:
        """What is otherwise than configured; empty: nothing is."""
        otherwise = [] if self.asked == self._desk.session.budget else [f"budget {self.asked:,}"]
        otherwise += ["a prompt"] if self.prompt else []
        otherwise += [] if self.clamps else ["no hard limit"]
        return f"what if: {', '.join(otherwise)}" if otherwise else ""

    def why_none(self) -> str | None:
        """Why nothing can be done with it; what is still being assembled is waited for."""
        return self.problem if self.ledger is None else None

    def file_changed(self) -> None:
        """The items were read: assemble them, unless that is under way."""
        self.changes += 1
        if not self.working:
            self._assembler = self._desk.work_on("assembly", self._assemble, OPENING_SECONDS)

    def settings_changed(self) -> None:
        """The budget, the prompt or the clamp has changed: assemble at once; what runs is for another one."""
        self._assembler = self._desk.work_on("assembly", self._assemble, 0.0)
        self._changed()

    def _settings(self) -> AssemblySettings:
        from lcm_core.assembly import settings_for
        from lcm_core.thresholds import settings_for_session

        session = self._desk.session
        engine = settings_for_session(session.settings.engine, self._session_key)
        return settings_for(engine, self.asked, self.prompt or None, clamp=self.clamps)

    async def _assemble(self, pause: float) -> None:
        """Assemble until what is shown is of this budget and of the file as it is."""
        await asyncio.sleep(pause)
        try:
            while True:
                if self._is_current():  # only the file has changed: keys come first
                    await self._desk.calm()
                began = time.monotonic()
                await self._assemble_once()
                if self.read_at == self.changes and self._is_current():
                    break
                await asyncio.sleep(max(RELOAD_SECONDS, (SHARE_OF_TIME - 1) * (time.monotonic() - began)))
        except LcmError as error:
            self.problem = error.message
            self._tried.set()
            self._changed()
            raise
        finally:
            self._desk.call_later(self._changed)

    def _is_current(self) -> bool:
        return self.ledger is not None and self._made_for == self._settings()

    async def _assemble_once(self) -> None:
        from lcm_core.assembly import assembly_basis

        settings, basis = self._settings(), self._basis
        if (
            basis is None
            or not basis.serves(settings)
            or (self.read_at != self.changes and self._is_current())
        ):
            changes, session = self.changes, self._desk.session
            read = await session.read(
                assembly_basis, self._conversation_id, settings, zone=session.engine_zone, known=basis
            )
            self._basis, self.read_at = read, changes
            if read == basis and settings == self._made_for and self.problem is None:
                return  # what was written is of another conversation
            basis = read
        assembled = await asyncio.to_thread(basis.assembled, settings)
        if settings.prompt is not None:
            from lcm_core.recall.cueing import with_cue  # with no prompt, nobody pays for it

            now = datetime.now(UTC)
            assembled = await self._desk.session.read(
                with_cue, self._conversation_id, assembled, settings.prompt, basis.rules, now
            )
        ledger = await asyncio.to_thread(ledger_of, assembled)
        if self._desk.is_attached:
            self.ledger, self.problem, self._made_for = ledger, None, settings
            self.first = self.first or ledger
            self._tried.set()
            self._made(ledger)
