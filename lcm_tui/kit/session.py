"""What the screens share: the open database, settings, remembered dividers, and the watch on the host."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import date, datetime
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, TypeVar

import platformdirs
from lcm_core.base.errors import LcmError
from lcm_core.base.files import PROGRAM, make_private, read_limited, write_private
from lcm_core.base.settings import Settings
from lcm_core.store.database import Database, Reader
from lcm_core.store.opening import FileState

if TYPE_CHECKING:
    from lcm_core.base.findings import CheckResult
    from lcm_core.base.records import Conversation, ConversationId
    from lcm_core.engine.rules import EngineRules
    from lcm_core.operations.past_point import Point
    from lcm_core.store.remembered import FileMemory
    from lcm_core.writers.wire import ReplyCache
    from lcm_host.ingestion import Ingestion
    from lcm_host.sessions import HostListing, HostSession


async def imported(*modules: str) -> None:
    """Import *modules* in a thread: they are large, and keys come first."""
    for name in modules:
        if name not in sys.modules:
            await asyncio.to_thread(import_module, name)


# -- pace ------------------------------------------------------------------------------------------------
# When work beside the keys may run: typing comes first, and the file is followed nevertheless.

#: A key is answered by then.
ANSWERED_SECONDS: Final = 0.025
#: Until then the pause behind a key has just begun.
BEGUN_SECONDS: Final = 0.05
#: No key for so long is a rest.
REST_SECONDS: Final = 0.15
#: A key is answered before anything is loaded, but a screen follows the file within a second, whatever is
#: pressed: so long a load waits for a good moment.
LONGEST_PAUSE: Final = 0.2
#: Who waits for such a moment looks for it so often: a key may come any time, and the moment behind it.
LOOK_SECONDS: Final = 0.02
#: Without a letter for so long, whoever types into a prompt looks at what it lists.
WORD_SECONDS: Final = 0.4
#: Under a host that writes without a pause, planning takes at most one part in so many of the time.
SHARE: Final = 4
LONGEST_REST: Final = 2.0


def until_calm(since: float) -> float:
    """How long to wait with other work when the last key was pressed so many seconds ago; 0: not at all.

    Whoever presses one key after the other leaves a pause behind each. Its beginning is the best moment for
    what keys would have to wait for; later in it the next one may come any time, until it is a rest.
    """
    if since < ANSWERED_SECONDS:
        return ANSWERED_SECONDS - since
    return 0.0 if since < BEGUN_SECONDS else max(0.0, REST_SECONDS - since)


def rest_after(seconds: float) -> float:
    """How long to rest after a look at the file that took so many seconds, when it changes all the time."""
    return min(LONGEST_REST, (SHARE - 1) * seconds)


# -- remembered looks ------------------------------------------------------------------------------------
# What the app remembers of an operator from one day to the next: where the dividers between panes are, and
# by what the first list is sorted.
#
# It is a small private file in our state folder (0600), written when one of these was changed and never by
# browsing. A file that is missing, foreign or damaged is ignored: it only says how something looks.

log = logging.getLogger(__name__)

#: A file of ours is far smaller.
MOST_BYTES: Final = 16 * 1024
#: Dividers that are remembered; there are some thirty.
MOST_SHARES: Final = 200
#: The part of a screen that a pane can take.
LEAST, LARGEST = 0.02, 0.98


def remembered_path() -> Path:
    """Where it is kept for this user, whether or not it is there yet."""
    return Path(platformdirs.user_state_dir(PROGRAM, appauthor=False)) / "panes.json"


def read_looks(path: Path) -> tuple[dict[str, float], str]:
    """The parts that first panes take, by the name of their screen, and by what the first list is sorted.

    What is no such part, or no text, is left out.
    """
    try:
        written = read_limited(path, MOST_BYTES)
    except (OSError, ValueError):
        return {}, ""
    import json

    try:
        found = json.loads(written)
    except (ValueError, RecursionError):
        return {}, ""
    shares, sort = (found.get("shares"), found.get("sort")) if isinstance(found, dict) else (None, None)
    return _sound(shares), sort if isinstance(sort, str) else ""


def _sound(shares: object) -> dict[str, float]:
    if not isinstance(shares, dict):
        return {}
    sound = ((name, part) for name, part in shares.items() if type(part) is float and LEAST < part < LARGEST)
    return dict(list(sound)[:MOST_SHARES])


class Remembered:
    """What is remembered of how things look: read once, written behind the keys."""

    def __init__(self, path: Path, shares: Mapping[str, float], sort: str = "") -> None:
        self._path = path
        self._shares = dict(shares)
        self.sort = self._written_sort = sort  #: of the first list, as `ConversationList.sort` has it
        self._changed: set[str] = set()  #: not written yet
        self._lock = threading.Lock()

    def share(self, name: str) -> float | None:
        """The part of its screen that a first pane takes; None: nobody has moved its divider."""
        return self._shares.get(name)

    def keep(self, name: str, share: float | None) -> None:
        """Remember another part from now on, and in the file with the next `write`; None forgets it."""
        if share is None:
            self._shares.pop(name, None)
        else:
            self._shares[name] = round(share, 4)
        self._changed.add(name)

    @property
    def unwritten(self) -> bool:
        """Whether the file does not know something yet."""
        return bool(self._changed) or self.sort != self._written_sort

    def write(self) -> None:
        """Write what was changed here into the file, beside what others wrote there; blocks."""
        import json

        with self._lock:
            if not self.unwritten:
                return
            changed, self._changed = self._changed, set()
            held, sort = read_looks(self._path)
            if self.sort != self._written_sort:
                sort = self._written_sort = self.sort
            for name in changed:
                share = self._shares.get(name)
                if share is None:
                    held.pop(name, None)
                else:
                    held[name] = share
            try:
                make_private(self._path.parent)
                write_private(
                    self._path, json.dumps({"shares": held, "sort": sort}, indent=1) + "\n", replace=True
                )
            except (OSError, LcmError) as error:
                log.warning("dividers and order cannot be remembered: %s", error)


# -- the session -----------------------------------------------------------------------------------------
# The open database, the settings, and the news of what other processes write.

P = ParamSpec("P")
T = TypeVar("T")

DEFAULT_BUDGET = 128_000  #: tokens; assumed when its host passes none (docs/spec/tokens.md, "Budgets")


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
        from lcm_core.engine.rules import configured, engine_rules

        return configured(engine_rules(self.database.schema), self.settings.engine)

    def rules_for(self, session_key: str | None) -> EngineRules:
        """The same for one session: rules about thresholds may hold for it (docs/spec/thresholds.md)."""
        from lcm_core.engine.rules import configured, engine_rules
        from lcm_core.engine.sessions import settings_for_session

        engine = settings_for_session(self.settings.engine, session_key)
        return configured(engine_rules(self.database.schema), engine)

    @cached_property
    def paid(self) -> ReplyCache:
        """Drafts of compactions that were paid for and put off."""
        from lcm_core.writers.wire import ReplyCache

        return ReplyCache()

    @cached_property
    def memory(self) -> FileMemory:
        """What was worked out of the file at earlier starts."""
        from lcm_core.store.remembered import FileMemory

        allowed = self.settings.search_cache.value and not self.demo
        return FileMemory.of(self.database, allowed=allowed)

    @cached_property
    def host(self) -> HostWatch:
        """The sessions of the host."""

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
        from lcm_core.operations.past_overlay import Past

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


# -- the watch on the host -------------------------------------------------------------------------------
# The sessions of the host, read behind the screens, and how far the engine is with them.


class HostWatch:
    """What was found at the last look; only what was written since is opened by the next."""

    def __init__(self, settings: Settings) -> None:
        self.listing: HostListing | None = None
        self._settings = settings
        self._looking = asyncio.Lock()

    async def look(self) -> HostListing:
        """The sessions of the host as they are now; the same value when nothing changed."""
        await imported("lcm_host.sessions")
        from lcm_host.sessions import list_sessions

        def find(before: HostListing | None) -> HostListing:
            found = list_sessions(self._settings.sessions.value, before)
            return before if before is not None and found == before else found

        async with self._looking:
            self.listing = await asyncio.to_thread(find, self.listing)
            return self.listing

    async def compare(self, database: Database) -> list[Ingestion]:
        """How far the engine is with every session of the host's databases."""
        listing = self.listing or await self.look()
        return await self._compared(database, listing.sessions)

    async def of_conversation(self, database: Database, conversation: Conversation) -> Ingestion | None:
        """The same for the session that a conversation goes on with; None: the databases have none."""
        await self.look()
        found = await self._compared(database, self.listed_of(conversation))
        own = [one for one in found if one.conversation_id == conversation.conversation_id]
        return max(own, key=lambda one: one.session.current, default=None)

    def listed_of(self, conversation: Conversation) -> list[HostSession]:
        """The sessions that a conversation goes on with, as they were at the last look."""
        return [
            one
            for one in (() if self.listing is None else self.listing.sessions)
            if one.session_id == conversation.session_id
            or (one.current and one.session_key is not None and one.session_key == conversation.session_key)
        ]

    async def _compared(self, database: Database, sessions: Sequence[HostSession]) -> list[Ingestion]:
        if not sessions:
            return []
        await imported("lcm_host.ingestion")
        from lcm_host.ingestion import ingestions

        return await database.read(ingestions, sessions, self._settings.engine)
