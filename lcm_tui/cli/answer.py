"""What a command gives back: one value that can be printed as JSON, as the engine's table, or for people."""

from __future__ import annotations

import shlex
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, tzinfo
from typing import TYPE_CHECKING, Concatenate, Final, ParamSpec, TypeAlias, TypeVar

from lcm_core.base.errors import ExitCode, LcmError
from lcm_core.base.setting_values import Json, JsonObject, SettingSource
from lcm_core.base.settings import Settings
from lcm_core.base.times import format_zoned, parse_utc
from lcm_core.base.values import Record, replace

from lcm_tui.cli.presentation import PROGRAM, Presentation, error_document

if TYPE_CHECKING:
    from lcm_core.operations.past_overlay import Past
    from lcm_core.store.database import Database, Reader
    from lcm_core.store.listing import Position
    from lcm_core.store.remembered import FileMemory

    from lcm_tui.tables.blocks import OutputBlock as Block

#: The key of our additions to records of the engine's command, so that a strict reader ignores one key
#: (docs/spec/command.md, "Envelope").
OURS: Final = "lcmTui"
#: How long a lock of another process is waited for.
BUSY_SECONDS = 5.0

P = ParamSpec("P")
T = TypeVar("T")


class Answer(Record, frozen=True):
    """The outcome of a command."""

    command: str  #: dotted, such as ``summaries.list``
    data: JsonObject
    blocks: Sequence[Block]  #: the same for people
    meta: JsonObject
    pagination: JsonObject | None = None
    exit_code: ExitCode = ExitCode.DONE
    failed: LcmError | None = None  #: what ended it when only part of it was done
    #: SQL that was asked for: it alone goes to standard output, and what is said for people beside it
    script: Sequence[str] | None = None
    text: str | None = None  #: in the form of the command's own that was asked for
    names: Sequence[str] = ()  #: what the items of a list consist of

    @property
    def envelope(self) -> JsonObject:
        """The answer as the engine's command wraps it."""
        page: dict[str, Json] = {} if self.pagination is None else {"pagination": self.pagination}
        error: dict[str, Json] = {} if self.failed is None else {"error": error_document(self.failed)}
        return {
            "ok": self.failed is None,
            "command": self.command,
            "data": self.data,
            **error,
            **page,
            "meta": self.meta,
        }

    def in_part(self, failed: LcmError | None) -> Answer:
        """The same of what was done before *failed* ended it; None: nothing did."""
        return self if failed is None else replace(self, exit_code=ExitCode.CANCELLED, failed=failed)


#: What a command gives back: an answer, or an exit code where it has printed itself.
Outcome: TypeAlias = Answer | int


class Paging(Record, frozen=True):
    """How much of a list a page holds, and where the next one begins."""

    resource: str
    limit: int
    returned: int
    next: Position | None

    @property
    def cursor(self) -> str | None:
        """The cursor of the next page."""
        if self.next is None:
            return None
        from lcm_tui.cli import cursors

        return cursors.encode(self.resource, self.next)

    @property
    def document(self) -> JsonObject:
        """The envelope's ``pagination``."""
        return {
            "limit": self.limit,
            "returned": self.returned,
            "hasMore": self.next is not None,
            "nextCursor": self.cursor,
        }


class Run(Record, frozen=True):
    """One run of a command: its settings, how it prints, and the database."""

    settings: Settings
    presentation: Presentation
    past: Past | None = None  #: what is read is as it was then

    def read(
        self, load: Callable[Concatenate[Reader, P], Awaitable[T]], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Open the database and run *load* in one read transaction; what takes long says that it goes on."""
        from lcm_tui.cli.progress import waiting

        with waiting("Reading", quiet=self.presentation.quiet):
            return self.work(lambda database: database.read(load, *args, **kwargs))

    def read_remembering(
        self,
        load: Callable[Concatenate[Reader, FileMemory, P], Awaitable[T]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """`read` for a *load* that also takes what is remembered of the file; nothing of its past is."""
        from lcm_core.store.remembered import FileMemory

        from lcm_tui.cli.progress import waiting

        allowed = self.past is None and self.settings.search_cache.value

        def read(database: Database) -> Awaitable[T]:
            return database.read(load, FileMemory.of(database, allowed=allowed), *args, **kwargs)

        with waiting("Reading", quiet=self.presentation.quiet):
            return self.work(read)

    def work(self, task: Callable[[Database], Awaitable[T]]) -> T:
        """Open the database for a task that reads it several times, or does other things in between."""

        import asyncio

        from lcm_core.store.database import Database

        found: list[T] = []

        async def once() -> None:
            opening = Database.open if self.past is None else self.past.open
            async with await opening(self.settings.database.value, busy_seconds=BUSY_SECONDS) as database:
                found.append(await task(database))

        # Not as the result of the task: `asyncio.run` writes that out (`repr`) when it gives ctrl-C back.
        asyncio.run(once())
        return found[0]

    def answer(
        self,
        command: str,
        data: JsonObject,
        blocks: Sequence[Block],
        *,
        paging: Paging | None = None,
        not_recorded: Sequence[str] = (),
        names: Sequence[str] = (),
    ) -> Answer:
        """An answer that names the files it was read from."""
        from lcm_tui.tables.blocks import Note

        meta: dict[str, Json] = {
            "databasePath": str(self.settings.database.value),
            "configPath": str(self.settings.config_file.value),
        }
        if not_recorded:
            meta[OURS] = {"notRecorded": list(not_recorded)}
        if self.past is not None and self.past.found is not None:
            from lcm_tui.cli.documents import past_document
            from lcm_tui.tables.past import past_blocks

            data = {**data, "past": past_document(self.past.found)}
            blocks = [*past_blocks(self.time, self.past.found), *blocks]
        page = None if paging is None else paging.document
        if paging is not None and paging.cursor:
            blocks = [*blocks, Note(f"More follow: --cursor {paging.cursor}")]
        return Answer(command, data, blocks, meta, page, names=names)

    def line(self, *words: str) -> str:
        """A command line that means the same database; it is named when the command line said where it is."""
        settings = self.settings
        database = settings.database
        places = (settings.state_dir.source, settings.config_file.source)
        named = database.source is SettingSource.COMMAND_LINE or (
            SettingSource.COMMAND_LINE in places and database.source is not SettingSource.ENVIRONMENT
        )
        return shlex.join([PROGRAM, *words, *(["--db", str(database.value)] if named else [])])

    def undo_of_batch(self, batch: str) -> str:
        """The command that takes back all of a batch."""
        return self.line("history", "undo", batch, "--apply")

    @property
    def zone(self) -> tzinfo | None:
        """The zone in which the engine writes times for people; None is that of this machine."""
        return self.settings.zone

    @property
    def clock(self) -> tzinfo | None:
        """The zone of shown times, and of typed ones that name none (docs/spec/decisions.md, "Times")."""
        return self.settings.clock

    def time(self, stored: str | None) -> str | None:
        """A stored time for people: in their zone, or as stored when it is none."""
        moment: datetime | None = parse_utc(stored)
        return stored if moment is None else format_zoned(moment, self.clock)
