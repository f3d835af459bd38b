"""What a compaction would make, looked ahead from the context as it stands, again when a choice is turned."""

from __future__ import annotations

import asyncio
import time
from abc import abstractmethod
from typing import Final

from lcm_core.errors import LcmError
from lcm_core.operations.compaction.forecast import forecast_passes
from lcm_core.operations.compaction.reading import LoadedContext, load_for_compaction, warnings_of
from lcm_core.operations.compaction.run import CompactionSetting, Mode, operation_of
from lcm_core.records import Conversation
from lcm_core.store.database import Reader

from lcm_tui.frame import DataScreen
from lcm_tui.screens.compacting_lines import Ahead, Coming, Passes
from lcm_tui.screens.compacting_run import Course
from lcm_tui.screens.compacting_wishes import Wishes
from lcm_tui.screens.preview.screen import LONGEST_WAIT, SHARE
from lcm_tui.widgets.lines import LineView
from lcm_tui.writing import Modelling, choose_writer

#: Modes that, begun again on what their first passes left, would do more than they do.
ONCE: Final = frozenset({Mode.ONE_LEAF, Mode.LEAF})


class Foreseeing(Wishes, DataScreen[Ahead]):
    """The passes of one conversation that were dealt with, and behind them those to come."""

    def __init__(self, conversation: Conversation) -> None:
        super().__init__()
        self.conversation = conversation
        self._ahead = Ahead(0, None, None)
        self._coming: dict[int, Coming] = {}  #: by number
        self._course: Course | None = None
        self._model: Modelling | None = None
        self._spent = 0.0  #: seconds that the last look took
        self._known = 0  #: passes dealt with that the list shows

    @property
    def table(self) -> LineView[int]:
        """The passes, by number."""
        return self.query_one("#list", LineView)

    @property
    def course(self) -> Course:
        """What is made of the conversation here."""
        if self._course is None:
            session, number = self.session, self.conversation.conversation_id
            self._course = Course(session.database, number, self.course_changed, session.paid)
        return self._course

    @property
    def passes(self) -> Passes:
        """All of them."""
        return Passes(self.course.done, self._coming)

    @abstractmethod
    def course_changed(self) -> None:
        """Something became of the pass at hand."""

    @abstractmethod
    def say_state(self) -> None:
        """Draw what says how far it is."""

    async def fetch(self) -> Ahead:
        """What is to come, from the context as it stands."""
        if self.course.running:
            await asyncio.sleep(min(LONGEST_WAIT, (SHARE - 1) * self._spent))
        begun, wish, setting, (mode, target) = (
            time.monotonic(),
            self.wish,
            self.wanted_setting(),
            self.wanted(),
        )
        problem = ""
        if self._model is None:
            try:
                self._model = await asyncio.to_thread(choose_writer, self.session.settings)
            except LcmError as error:
                problem = error.message
        try:
            loaded, warnings = await self.session.read(self._read, setting)
        except LcmError as error:
            return Ahead(wish, setting, None, (), self._model, error.message, problem)
        seen = await asyncio.to_thread(forecast_passes, loaded, setting, operation_of(mode, target=target))
        self._spent = time.monotonic() - begun
        return Ahead(wish, setting, seen, warnings, self._model, "", problem)

    async def _read(
        self, reader: Reader, setting: CompactionSetting
    ) -> tuple[LoadedContext, tuple[str, ...]]:
        number = self.conversation.conversation_id
        return await load_for_compaction(reader, number, setting.rendering), await warnings_of(reader, number)

    def show(self, data: Ahead) -> None:
        """Show what is to come behind what was done."""
        if data.wish != self.wish:
            return  # another look follows
        self._ahead = data
        done = len(self.course.done)
        under_way = self.course.under_way
        if under_way is None or under_way.mode not in ONCE:
            passes = data.forecast.passes if data.forecast is not None else ()
            self._coming = {done + one.number: Coming(done + one.number, one, done) for one in passes}
        self._arrange()

    def _arrange(self) -> None:
        done = len(self.course.done)
        for number in [number for number in self._coming if number <= done]:
            del self._coming[number]
        follows = self.table.selected in (None, self._known + 1) and self._known < done
        self._known = done
        self.table.empty = self._ahead.refusal or (
            "Reading the context …" if self._ahead.forecast is None else "Nothing to compact by this mode."
        )
        numbers = [*range(1, done + 1), *self._coming]
        self.table.replace(numbers, select=min(done + 1, len(numbers)) if follows and numbers else None)
        self.say_state()

    def look_anew(self) -> None:
        """Read the context again, for what is wanted now."""
        self.wish += 1
        self.course.failure = ""
        self.head_again()
        self.load()
