"""What a run of the checks shares: what is wanted, what was found, how far it is."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TypeVar

from lcm_core.checks.check import Limits, ReadingRule, Rule, finding_of
from lcm_core.errors import LcmError
from lcm_core.findings import Check, Finding, Progress, RowRef
from lcm_core.paths import host_databases
from lcm_core.records import ConversationId
from lcm_core.settings import EngineSettings
from lcm_core.store.database import Database
from lcm_core.store.schema import Schema

log = logging.getLogger(__name__)

Seen = TypeVar("Seen")


@dataclass(frozen=True, slots=True)
class Folders:
    """Where the files that a database refers to are on this machine; None: not known."""

    large_files: Path | None = None
    state: Path | None = None
    sessions: Path | None = None  #: a sessions folder, an agent's folder or a folder of agents
    engine: EngineSettings | None = None  #: which sessions the engine is told to leave out; None: none

    @property
    def in_host_database(self) -> bool:
        """Whether the sessions, or some of them, are in databases of the host."""
        return self.sessions is not None and bool(host_databases(self.sessions))

    @property
    def no_sessions(self) -> str:
        """Why no session can be looked at; empty when one can."""
        if self.sessions is None:
            return "no folder of sessions is known"
        there = self.sessions.is_dir() or self.in_host_database
        return "" if there else "the folder of sessions does not exist"


@dataclass(slots=True)
class Answers:
    """The findings of one check, as many as are kept, and why it was not asked of everything."""

    findings: list[Finding] = field(default_factory=list)
    count: int = 0
    reason: str = ""


@dataclass(slots=True)
class Run:
    """One run of the checks."""

    database: Database
    conversation_id: ConversationId | None
    wanted: frozenset[str]  #: ids that can be asked
    limits: Limits
    folders: Folders
    report_progress: Callable[[Progress], None] | None
    answers: dict[str, Answers]
    stages: int = 1
    stage: int = 0
    title: str = ""
    pause: Callable[[], Awaitable[object]] | None = None  #: awaited between conversations
    clock: asyncio.Timeout | None = None  #: of what is waited for at present

    def ask(self, rules: Iterable[Rule[Seen]], seen: Seen) -> None:
        """Ask those of some rules that are wanted of what was read."""
        for rule in rules:
            if rule.id in self.wanted:
                with self.guarded((rule.id,)):
                    self.add(list(rule.findings(seen, self.limits)))

    async def ask_reading(self, rules: Iterable[ReadingRule]) -> None:
        """Ask those of some rules that are wanted, each in a transaction of its own."""
        for rule in rules:
            if rule.id in self.wanted:
                hits = await self.database.read(rule.find, self.limits)
                self.add(finding_of(rule, one) for one in hits)

    def judge(self, rule: Rule[Seen], seen: Seen, owner: ConversationId) -> list[Finding]:
        """What a rule finds in one conversation, in the time that it has. Blocks: for a thread.

        A check keeps no more than so many: a hostile file must not make more than that of one conversation.
        """
        where = f" in conversation {owner}"
        found: list[Finding] = []
        with self.guarded((rule.id,), where):
            begun = time.monotonic()
            for finding in islice(rule.findings(seen, self.limits, owner), self.limits.findings + 1):
                found.append(finding)
                if 0 < self.limits.seconds < time.monotonic() - begun:
                    self.stop((rule.id,), self.gave_up(where))
                    break
        return found

    def add(self, findings: Iterable[Finding]) -> None:
        """Keep what belongs to a check that was asked for and, if one was named, to the conversation."""
        self.moved()
        for finding in findings:
            answers = self.answers.get(finding.check)
            if finding.check not in self.wanted or answers is None or not self._concerns(finding):
                continue
            answers.count += 1
            if len(answers.findings) < self.limits.findings:
                answers.findings.append(finding)

    def _concerns(self, finding: Finding) -> bool:
        wanted = self.conversation_id
        if wanted is None or finding.conversation_id == wanted:
            return True
        return RowRef("conversations", (wanted,)) in finding.rows

    def stop(self, checks: Iterable[str], reason: str) -> None:
        """Note why some checks were not asked of everything; the first reason stays."""
        for check in checks:
            if check in self.answers and not self.answers[check].reason:
                self.answers[check].reason = reason

    @contextmanager
    def guarded(self, checks: Iterable[str], where: str = "") -> Iterator[None]:
        """Within it an error that nobody foresaw stops these checks and no others; it is logged.

        What the database or its damage is to blame for ends as a `DatabaseError` does.
        """
        try:
            yield
        except LcmError:
            raise
        except Exception as error:
            log.exception("a check stopped%s", where)
            reason = (
                f"it stopped{where} at a value that it does not know how to read ({type(error).__name__})"
            )
            self.stop(self.wants(checks), reason)

    @asynccontextmanager
    async def patient(self, checks: Iterable[str], where: str = "") -> AsyncIterator[None]:
        """`guarded`, and what gets no further for `Limits.seconds` is interrupted and stops these checks.

        One may be inside another: then the inner one's time alone runs.
        """
        outer, clock = self.clock, asyncio.timeout(self.limits.seconds or None)
        if outer is not None and not outer.expired():
            outer.reschedule(None)
        try:
            async with clock:
                self.clock = clock
                with self.guarded(checks, where):
                    yield
        except TimeoutError:
            self.stop(self.wants(checks), self.gave_up(where))
        finally:
            self.clock = outer
            self.moved()

    def gave_up(self, where: str) -> str:
        """The reason of a check that got no further."""
        return f"it made no progress for {self.limits.seconds:g} s{where} and gave up (check_seconds)"

    def moved(self) -> None:
        """A step was done: the time that the next one may take begins."""
        if self.clock is not None and self.limits.seconds and not self.clock.expired():
            self.clock.reschedule(asyncio.get_running_loop().time() + self.limits.seconds)

    def wants(self, checks: Iterable[str]) -> frozenset[str]:
        """Those of some checks that can be asked."""
        return self.wanted & frozenset(checks)

    def progress(self, done: int, total: int) -> None:
        """Tell how far the present stage is."""
        self.moved()
        if self.report_progress is not None:
            self.report_progress(Progress(self.title, done, max(total, 1), self.stage, self.stages))


def _nothing_lacks(check: Check, schema: Schema, folders: Folders) -> str:
    return ""


@dataclass(frozen=True, slots=True)
class Stage:
    """What is read together, and the checks that are asked of it."""

    title: str
    checks: tuple[Check, ...]
    read: Callable[[Run], Awaitable[None]]
    #: why a check of it cannot be asked of a file with these folders; empty when it can
    why_not: Callable[[Check, Schema, Folders], str] = _nothing_lacks
    whole_file: bool = False  #: it reads the whole file for its own sake, and comes last

    @property
    def ids(self) -> frozenset[str]:
        """The ids of its checks."""
        return ids_of(self.checks)


def ids_of(checks: Iterable[Check]) -> frozenset[str]:
    """The ids of some checks."""
    return frozenset(check.id for check in checks)
