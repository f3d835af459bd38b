"""What a check is: everything about it in one object, beside the function that finds.

A `Rule` is a check with its function. What the function yields are hits: findings that do not say yet which
check and which conversation they belong to, for that is known where it is asked.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, Generic, TypeVar

from lcm_core.findings import Check, Confidence, Finding, FixId, KeyPart, RowRef, Severity
from lcm_core.records import ConversationId, SummaryId
from lcm_core.store.database import Reader
from lcm_core.wording import phrase

BROKEN: Final = Confidence.BROKEN
SUSPICIOUS: Final = Confidence.SUSPICIOUS
BY_DESIGN: Final = Confidence.BY_DESIGN
ERROR: Final = Severity.ERROR
WARNING: Final = Severity.WARNING
INFO: Final = Severity.INFO

#: Why nothing is proposed for what an engine does not write.
OTHER_TOOL: Final = "Another tool wrote it, and only that tool knows the intention."

#: What a check looks at.
Seen = TypeVar("Seen", contravariant=True)


def days_of(moment: datetime) -> float:
    """A moment as ``julianday`` counts it."""
    return moment.astimezone(UTC).timestamp() / 86_400 + 2_440_587.5


@dataclass(frozen=True, slots=True)
class Limits:
    """What the checks measure against, and how much of an answer is kept."""

    now: datetime
    retain_depth: int = 2  #: summaries below it leave the context at ``/new`` (newSessionRetainDepth)
    leaf_target: int = 2_400  #: tokens (leafTargetTokens)
    condensed_target: int = 2_000  #: tokens (condensedTargetTokens)
    overage: float = 3.0  #: a summary is cut off beyond target times this (summaryMaxOverageFactor)
    fresh_tail: int = 64  #: messages that compaction may not touch
    large_payload: int = 25_000  #: tokens from which a payload becomes a file
    rows: int = 200  #: rows that one finding names
    findings: int = 1_000  #: findings that one check keeps
    seconds: float = 30.0  #: a check that gets no further for so long gives up; 0: none does

    @property
    def today(self) -> float:
        """``now`` in days."""
        return days_of(self.now)


@dataclass(frozen=True, slots=True)
class Hit:
    """What a check found once."""

    confidence: Confidence
    sentence: str
    rows: tuple[RowRef, ...]  #: the first of them
    row_count: int
    fix: FixId | None = None
    owner: ConversationId | None = None  #: None: of the conversation that was looked at, if it was one


def hit(
    confidence: Confidence,
    sentence: str,
    *rows: RowRef,
    count: int | None = None,
    fix: FixId | None = None,
    owner: ConversationId | None = None,
) -> Hit:
    """A hit that names *rows*; *count* when there are more of them."""
    return Hit(confidence, sentence, rows, len(rows) if count is None else count, fix, owner)


class FaultRows:
    """Rows with one fault: as many as a finding names, and how many there are."""

    def __init__(
        self, limits: Limits, table: str = "", keys: Iterable[KeyPart | tuple[KeyPart, ...]] = ()
    ) -> None:
        self._limit = limits.rows
        self.rows: list[RowRef] = []
        self.count = 0
        for key in keys:
            self.add(table, *(key if isinstance(key, tuple) else (key,)))

    def __bool__(self) -> bool:
        return self.count > 0

    def add(self, table: str, *key: KeyPart) -> None:
        """Note one row."""
        self.count += 1
        if self.count <= self._limit:
            self.rows.append(RowRef(table, key))

    def hit(
        self,
        confidence: Confidence,
        sentence: str,
        fix: FixId | None = None,
        owner: ConversationId | None = None,
    ) -> Hit:
        """A hit about the noted rows."""
        return Hit(confidence, sentence, tuple(self.rows), self.count, fix, owner)

    def hits(
        self,
        confidence: Confidence,
        noun: str,
        owner: ConversationId | None,
        words: str,
        fix: FixId | None = None,
    ) -> Iterator[Hit]:
        """The hit that counts the rows: ``2 messages of conversation 7 have no parts``; none without rows.

        *words* begin with a verb in the plural.
        """
        if self:
            yield self.hit(confidence, phrase(self.count, noun, owner, words), fix, owner)


def summary_row(summary_id: SummaryId) -> RowRef:
    """A row of ``summaries``."""
    return RowRef("summaries", (summary_id,))


def conversation_row(conversation_id: int) -> RowRef:
    """A row of ``conversations``."""
    return RowRef("conversations", (conversation_id,))


@dataclass(frozen=True, slots=True)
class Rule(Check, Generic[Seen]):
    """A check with the function that finds."""

    find: Callable[[Seen, Limits], Iterable[Hit]] = field(kw_only=True)

    def findings(self, seen: Seen, limits: Limits, owner: ConversationId | None = None) -> Iterator[Finding]:
        """What it finds in *seen*; *owner* is the conversation of hits that name none."""
        for one in self.find(seen, limits):
            yield finding_of(self, one, owner)


@dataclass(frozen=True, slots=True)
class ReadingRule(Check):
    """A check that reads what it needs by itself."""

    find: Callable[[Reader, Limits], Awaitable[Sequence[Hit]]] = field(kw_only=True)


def finding_of(check: Check, one: Hit, owner: ConversationId | None = None) -> Finding:
    """A hit as a finding of a check."""
    where = owner if one.owner is None else one.owner
    return Finding(check.id, one.confidence, where, one.rows, one.row_count, one.sentence, one.fix)


@dataclass(frozen=True, slots=True)
class Fault:
    """What is said of all the rows of a conversation that a check finds alike, in one finding."""

    confidence: Confidence
    noun: str
    words: str  #: begin with a verb in the plural
    fix: FixId | None = None
    table: str = "messages"


@dataclass(frozen=True, slots=True)
class TextRule(Check, Generic[Seen]):
    """A check that is asked of one text after the other, which are not kept."""

    faults: tuple[Fault, ...] = ()  #: in the order in which they are reported
    find: Callable[[Seen, Limits], Iterable[Hit | tuple[Fault, KeyPart]]] = field(kw_only=True)


class Gathering(Generic[Seen]):
    """What the text rules found in one conversation so far."""

    def __init__(self, rules: Iterable[TextRule[Seen]], limits: Limits) -> None:
        self._rules, self._limits = tuple(rules), limits
        self._hits: dict[str, list[Hit]] = {}
        self._rows: dict[Fault, FaultRows] = {}

    def look(self, seen: Seen) -> None:
        """Ask all rules of one text."""
        for rule in self._rules:
            for one in rule.find(seen, self._limits):
                if isinstance(one, Hit):
                    self._hits.setdefault(rule.id, []).append(one)
                else:
                    self.note(*one)

    def note(self, fault: Fault, key: KeyPart) -> None:
        """Note a row with a fault."""
        self._rows.setdefault(fault, FaultRows(self._limits)).add(fault.table, key)

    def findings(self, owner: ConversationId) -> Iterator[Finding]:
        """What was found, check by check."""
        for rule in self._rules:
            for one in self._hits.get(rule.id, ()):
                yield finding_of(rule, one, owner)
            for fault in rule.faults:
                if fault in self._rows:
                    for one in self._rows[fault].hits(
                        fault.confidence, fault.noun, owner, f"{fault.words}.", fault.fix
                    ):
                        yield finding_of(rule, one, owner)
