"""What the screens share: the open database, the settings, and the news of what other processes write."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import date, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from lcm_core.settings import Settings
from lcm_core.store.database import Database, Reader
from lcm_core.store.opening import FileState

from lcm_tui.pace import until_calm
from lcm_tui.remembered import Remembered, remembered_path

if TYPE_CHECKING:  # the first screen needs neither, and every start would pay for them
    from lcm_core.engine_rules import EngineRules
    from lcm_core.findings import CheckResult
    from lcm_core.past.point import Point
    from lcm_core.records import Conversation, ConversationId
    from lcm_core.summarize.wrappers import ReplyCache

    from lcm_tui.host_watch import HostWatch

P = ParamSpec("P")
T = TypeVar("T")

DEFAULT_BUDGET = 128_000  #: tokens; assumed when its host passes none (docs/engine/tokens.md, "Budgets")


class Session:
    """One database opened by one operator."""

    def __init__(
        self,
        settings: Settings,
        database: Database,
        *,
        demo: bool = False,
        remembered: Remembered | None = None,
    ) -> None:
        self.settings = settings
        self.database = database
        self.demo = demo
        self.remembered = remembered or Remembered(remembered_path(), {})
        self.budget = budget_for(settings)
        self.engine_zone = settings.zone  #: in which the engine writes times
        #: in which times are shown and typed
        self.zone = settings.clock
        self.changed_at: datetime | None = None  #: when a change was last noticed, UTC
        self.backup_declined: date | None = None  #: the day on which no backup was wanted any more
        self.key_at = 0.0  #: when a key was last pressed, monotonic
        self.acted_at = 0.0  #: when what a key is bound to was last done, monotonic
        self.pressed_at: float | None = None  #: when the key that acts just now was pressed, monotonic
        self.names: Mapping[Any, str] = {}  #: what the first list calls each conversation, by id
        self.left: dict[tuple[str, int], Any] = {}  #: how screens were left, by their name and an id
        #: What all checks said of the whole file, and the file that they looked at.
        self.examined: tuple[FileState | None, Sequence[CheckResult]] | None = None
        self.wal_is_unread = False  #: the checks found something in the WAL that SQLite ignores
        self.missing = False  #: the file is gone; what is shown is the last that was read

    def name_of(self, conversation: Conversation) -> str:
        """What a conversation is called on every screen: as the first list calls it, where that knows it."""
        return self.names.get(conversation.conversation_id) or conversation.name

    def called(self, conversation: Conversation) -> str:
        """Number and name of a conversation, for titles."""
        return f"{conversation.conversation_id}  {self.name_of(conversation)}"

    def until_calm(self, now: float) -> float:
        """Seconds after *now* (monotonic) until no key is to be expected; 0: other work may begin."""
        return until_calm(now - self.key_at)

    @property
    def rules(self) -> EngineRules:
        """What the engine of the file does, as the operator set it."""
        from lcm_core.engine_rules import configured, engine_rules

        return configured(engine_rules(self.database.schema), self.settings.engine)

    def rules_for(self, session_key: str | None) -> EngineRules:
        """The same for one session: rules about thresholds may hold for it (docs/engine/thresholds.md)."""
        from lcm_core.engine_rules import configured, engine_rules
        from lcm_core.thresholds import settings_for_session

        engine = settings_for_session(self.settings.engine, session_key)
        return configured(engine_rules(self.database.schema), engine)

    @cached_property
    def paid(self) -> ReplyCache:
        """Drafts of compactions that were paid for and put off."""
        from lcm_core.summarize.wrappers import ReplyCache

        return ReplyCache()

    @cached_property
    def host(self) -> HostWatch:
        """The sessions of the host."""
        from lcm_tui.host_watch import HostWatch

        return HostWatch(self.settings)

    @property
    def file_state(self) -> FileState | None:
        """Sizes of the database and its WAL."""
        return self.database.state

    async def read(
        self, load: Callable[Concatenate[Reader, P], Awaitable[T]], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Read in one transaction, off the event loop; cancelling interrupts the statement."""
        return await self.database.read(load, *args, **kwargs)


class PastSession(Session):
    """A session in which one conversation is read as it was; all else is the session's own."""

    def __init__(self, present: Session, conversation_id: ConversationId, point: Point) -> None:
        from lcm_core.past.database import Past  # no start pays for it

        self.past = Past(conversation_id, point)
        self.present = present
        self._then: Database | None = None
        self._opening = asyncio.Lock()
        self._following: asyncio.Task[None] | None = None
        self._read_at = present.changed_at

    def __getattr__(self, name: str) -> Any:
        """What is not of the past."""
        return getattr(self.present, name)

    async def read(
        self, load: Callable[Concatenate[Reader, P], Awaitable[T]], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Read as it was then, in one transaction."""
        async with self._opening:
            if self._then is None:
                self._then = await self.past.open(self.present.database.path)
                self._following = asyncio.create_task(_follow(self._then))
            elif self._read_at != self.present.changed_at:
                await self._then.refresh()
            self._read_at = self.present.changed_at
        return await self._then.read(load, *args, **kwargs)

    async def close(self) -> None:
        """Close its connections."""
        if self._following is not None:
            self._following.cancel()
        then, self._then = self._then, None
        if then is not None:
            await then.close()


async def _follow(database: Database) -> None:
    """Let go of the file when nothing is read of it, as the present does, and notice what replaces it."""
    async for _ in database.watch():
        pass


def budget_for(settings: Settings, asked: int | None = None) -> int:
    """The tokens that a context is measured against: those *asked* for, else what is configured."""
    return asked or settings.budget.value or settings.engine.max_assembly_token_budget.value or DEFAULT_BUDGET
