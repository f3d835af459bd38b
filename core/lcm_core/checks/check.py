"""What a check is, what it finds, and what a run of the checks shares."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, Concatenate, Final, Generic, TypeAlias, TypeVar

from lcm_core.base.engine_settings import EngineSettings
from lcm_core.base.errors import LcmError
from lcm_core.base.findings import Check, Confidence, Finding, FixId, KeyPart, Progress, RowRef, Severity
from lcm_core.base.paths import host_databases
from lcm_core.base.records import ContextItem, ConversationId, MessageId, SummaryId, Timestamp
from lcm_core.base.text import phrase
from lcm_core.base.values import P, Record, Struct, T, field, replace
from lcm_core.checks.verified import VerifiedTexts
from lcm_core.engine.rules import RULES_PRESENT, configured, engine_rules
from lcm_core.store.context import ContextEntry, context_entries
from lcm_core.store.database import Database, Reader
from lcm_core.store.schema import Schema
from lcm_core.store.state import BOOTSTRAP, CURSORS, GAPS, MAINTENANCE, TELEMETRY

log = logging.getLogger(__name__)

# -- a check ---------------------------------------------------------------------------------------------
# Everything about it is in one object, beside the function that finds.
#
# A `Rule` is a check with its function. What the function yields are hits: findings that do not say yet
# which check and which conversation they belong to; the caller adds that.

BROKEN: Final = Confidence.BROKEN
SUSPICIOUS: Final = Confidence.SUSPICIOUS
BY_DESIGN: Final = Confidence.BY_DESIGN
ERROR: Final = Severity.ERROR
WARNING: Final = Severity.WARNING
INFO: Final = Severity.INFO

#: Why nothing is proposed for what an engine does not write.
OTHER_TOOL: Final = "Another tool wrote it, and only that tool knows the intention."

#: What a fault is at: a message, a summary, a line from a summary to a source; None: an item without either.
Subject: TypeAlias = int | str | tuple[str, int | str] | None

#: What a check looks at.
Seen = TypeVar("Seen", contravariant=True)


def _nothing(_: object) -> Iterable[Subject]:
    return ()


def days_of(moment: datetime) -> float:
    """A moment as ``julianday`` counts it."""
    return moment.astimezone(UTC).timestamp() / 86_400 + 2_440_587.5


class Limits(Record, frozen=True):
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


def limits_of(engine: EngineSettings, schema: Schema | None = None) -> Limits:
    """The limits for the engine that wrote this schema (None: the present one), as the operator set it."""
    rules = configured(RULES_PRESENT if schema is None else engine_rules(schema), engine)
    return Limits(
        now=datetime.now(UTC),
        retain_depth=engine.new_session_retain_depth.value,
        leaf_target=rules.compaction.leaf_target_tokens,
        condensed_target=rules.compaction.condensed_target_tokens,
        overage=rules.escalation.summary_max_overage_factor,
        fresh_tail=rules.tail.fresh_tail_count,
        large_payload=rules.ingest.large_file_token_threshold,
    )


class Hit(Record, frozen=True):
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


class Rule(Check, Generic[Seen], frozen=True, kw_only=True):
    """A check with the function that finds."""

    find: Callable[[Seen, Limits], Iterable[Hit]]
    #: What is wrong, whatever may explain it: of the rules in `context` and `lineage` a commit asks this of
    #: the rows around its edits.
    subjects: Callable[[Seen], Iterable[Subject]] = _nothing

    def findings(self, seen: Seen, limits: Limits, owner: ConversationId | None = None) -> Iterator[Finding]:
        """What it finds in *seen*; *owner* is the conversation of hits that name none."""
        for one in self.find(seen, limits):
            yield finding_of(self, one, owner)


class ReadingRule(Check, frozen=True, kw_only=True):
    """A check that reads what it needs by itself."""

    find: Callable[[Reader, Limits], Awaitable[Sequence[Hit]]]


def finding_of(check: Check, one: Hit, owner: ConversationId | None = None) -> Finding:
    """A hit as a finding of a check."""
    where = owner if one.owner is None else one.owner
    return Finding(check.id, one.confidence, where, one.rows, one.row_count, one.sentence, one.fix)


class Fault(Record, frozen=True):
    """What is said of all the rows of a conversation that a check finds alike, in one finding."""

    confidence: Confidence
    noun: str
    words: str  #: begin with a verb in the plural
    fix: FixId | None = None
    table: str = "messages"


class TextRule(Check, Generic[Seen], frozen=True, kw_only=True):
    """A check that is asked of one text after the other, which are not kept."""

    faults: tuple[Fault, ...] = ()  #: in the order in which they are reported
    find: Callable[[Seen, Limits], Iterable[Hit | tuple[Fault, KeyPart]]]


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


# -- parts that name a tool ------------------------------------------------------------------------------
# What a part of a message says of a tool. Pure.

#: Types of blocks that call a tool (docs/spec/ingest.md, "What a block is").
_CALLS: Final = frozenset(
    {
        *("toolCall", "tool_use", "tool-use", "toolUse", "functionCall", "function_call"),
        *("tool_call", "server_tool_use"),
    }
)
_RESULTS: Final = frozenset({"tool_result", "toolResult", "function_call_output", "tool_use_result"})
_ID_KEYS: Final = ("id", "call_id", "callId", "toolCallId", "tool_call_id", "tool_use_id", "toolUseId")


class ToolPart(Record, frozen=True):
    """A part that is a tool call or a result."""

    call_id: str
    is_call: bool
    from_metadata: bool  #: the column, which the engine fills from 0.5.1 on, is empty; metadata has the id


def tool_part(role: str, part_type: str, call_id: str | None, metadata: str | None) -> ToolPart | None:
    """What a part says of a tool; None when it says nothing.

    The id is the column's, else ``metadata.toolCallId``, else that of ``metadata.raw`` (0.1 kept it there). A
    result that is one plain text, not a list of blocks, never has it in the column.
    """
    if call_id:
        return ToolPart(call_id, role == "assistant" and part_type in ("tool", "agent"), False)
    if part_type not in ("tool", "agent") and role != "tool":
        return None
    known = _object(metadata)
    raw = known.get("raw")
    kind = str(known.get("rawType") or (raw.get("type") if isinstance(raw, dict) else ""))
    found = known.get("toolCallId")
    if not isinstance(found, str) and isinstance(raw, dict) and kind in _CALLS | _RESULTS:
        found = next((raw[key] for key in _ID_KEYS if isinstance(raw.get(key), str)), None)
    if not isinstance(found, str) or not found:
        return None
    is_call = kind in _CALLS or (role == "assistant" and kind not in _RESULTS)
    return ToolPart(found, is_call, from_metadata=part_type != "text" or bool(kind))


def _object(metadata: str | None) -> dict[str, Any]:
    try:
        value = json.loads(metadata or "")
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


# -- a run -----------------------------------------------------------------------------------------------
# What a run of the checks shares: what is wanted, what was found, and the progress.

SeenRows = TypeVar("SeenRows")


class Folders(Record, frozen=True):
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


class Answers(Struct):
    """The findings of one check, as many as are kept, and why it was not asked of everything."""

    findings: list[Finding] = field(default_factory=list)
    count: int = 0
    reason: str = ""


class Run(Struct):
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
    reader: Reader | None = None  #: of the transaction that all is read in, in its thread
    verified: VerifiedTexts | None = None  #: what earlier runs found in texts of messages
    clock: asyncio.Timeout | None = None  #: of what is waited for at present

    def within(self, reader: Reader) -> Run:
        """The same with answers of its own, in one transaction and its thread. An error ends all of it."""
        answers = {check: Answers() for check in self.answers}
        return replace(self, reader=reader, answers=answers, report_progress=None, pause=None, clock=None)

    def join(self, within: Run) -> None:
        """Take over what was found in a transaction."""
        self.moved()
        for check, theirs in within.answers.items():
            if theirs.count:
                mine = self.answers[check]
                mine.count += theirs.count
                mine.findings += theirs.findings[: self.limits.findings - len(mine.findings)]
            if theirs.reason:
                self.stop((check,), theirs.reason)

    async def read(
        self, load: Callable[Concatenate[Reader, P], Awaitable[T]], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run *load* in a transaction of its own, or within the one that all is read in."""
        if self.reader is None:
            return await self.database.read(load, *args, **kwargs)
        return await load(self.reader, *args, **kwargs)

    async def in_thread(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Do what takes its time where nobody waits for it."""
        if self.reader is None:
            return await asyncio.to_thread(work, *args, **kwargs)
        return work(*args, **kwargs)

    def ask(self, rules: Iterable[Rule[SeenRows]], seen: SeenRows) -> None:
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

    def judge(self, rule: Rule[SeenRows], seen: SeenRows, owner: ConversationId) -> list[Finding]:
        """What a rule finds in one conversation, in the time that it has. Blocks: for a thread.

        A check keeps no more than so many: a hostile file must not make more than that of one conversation.
        """
        found: list[Finding] = []
        try:  # not `guarded`, which costs more than most rules do
            begun = time.monotonic()
            for one in islice(rule.find(seen, self.limits), self.limits.findings + 1):
                found.append(finding_of(rule, one, owner))
                if 0 < self.limits.seconds < time.monotonic() - begun:
                    self.stop((rule.id,), self.gave_up(f" in conversation {owner}"))
                    break
        except Exception as error:
            self.stopped_by(error, (rule.id,), f" in conversation {owner}")
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
        except Exception as error:
            self.stopped_by(error, checks, where)

    def stopped_by(self, error: Exception, checks: Iterable[str], where: str) -> None:
        """Stop these checks because of an error that nobody foresaw; raise it again if it has a sentence."""
        if isinstance(error, LcmError):
            raise error
        log.error("a check stopped%s", where, exc_info=error)
        reason = f"it stopped{where} at a value that it does not know how to read ({type(error).__name__})"
        self.stop(self.wants(checks), reason)

    @asynccontextmanager
    async def patient(self, checks: Iterable[str], where: str = "") -> AsyncIterator[None]:
        """`guarded`, and what gets no further for `Limits.seconds` is interrupted and stops these checks.

        One may be inside another: then the inner one's time alone runs. A transaction over several
        conversations is waited for as a whole.
        """
        if self.reader is not None:
            yield
            return
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
            until = asyncio.get_running_loop().time() + self.limits.seconds
            if until - (self.clock.when() or 0.0) > self.limits.seconds / 100:  # a timer costs more than that
                self.clock.reschedule(until)

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


class Stage(Record, frozen=True):
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


# -- the rows of a finding -------------------------------------------------------------------------------
# What they are, and where in a conversation they are: to show them and to jump to them.


class FoundRow(Record, frozen=True):
    """A row that a check named, with the message or summary that it is, or that it refers to."""

    ref: RowRef
    conversation_id: ConversationId | None = None  #: whose place it is; None: of none, or not known
    ordinal: int | None = None  #: of a context item, also of one that is missing
    message_id: MessageId | None = None
    summary_id: SummaryId | None = None
    entry: ContextEntry | None = None  #: what `message_id` or `summary_id` holds, if they name something
    name: str = ""  #: of a file or a conversation: what people call it

    @property
    def gone(self) -> bool:
        """Whether it refers to a message or summary that is not stored."""
        return self.entry is not None and self.entry.dangling

    @property
    def seq(self) -> int | None:
        """The seq of the message."""
        return None if self.entry is None else self.entry.seq


#: Tables whose key is the id of a conversation.
_OF_CONVERSATIONS: Final = frozenset(
    {
        BOOTSTRAP,
        MAINTENANCE,
        TELEMETRY,
        CURSORS,
        "conversation_transcript_epochs",
    }
)
#: Columns that name what a row belongs to, by table, and the columns of its primary key.
_NAMING: Final = {
    "context_items": (("conversation_id", "ordinal"), ("conversation_id", "message_id", "summary_id")),
    "summary_messages": (("summary_id", "message_id"), ("summary_id", "message_id")),
    "summary_parents": (("summary_id", "parent_summary_id"), ("summary_id",)),
    "message_parts": (("part_id",), ("message_id",)),
    "large_files": (("file_id",), ("conversation_id", "file_name")),
    "conversations": (("conversation_id",), ("conversation_id", "session_key", "session_id")),
    "focus_briefs": (("brief_id",), ("conversation_id",)),
    GAPS: (("gap_id",), ("conversation_id",)),
}
#: Columns by which people know a row, the best first.
_CALLED: Final = ("file_name", "session_key", "session_id")


async def found_rows(reader: Reader, refs: Sequence[RowRef]) -> list[FoundRow]:
    """Some rows of findings with what they refer to; only the beginning of texts is read."""
    rows = [await _named(reader, ref) for ref in refs]
    items = [_item(row) for row in rows]
    named = [item for item in items if item.message_id is not None or item.summary_id is not None]
    entries = iter(await context_entries(reader, named))
    found = []
    for row, item in zip(rows, items, strict=True):
        if item.message_id is None and item.summary_id is None:
            found.append(row)
            continue
        entry = next(entries)
        owner = row.conversation_id if row.conversation_id is not None else entry.conversation_id
        found.append(FoundRow(row.ref, owner, row.ordinal, row.message_id, row.summary_id, entry))
    return found


def _item(row: FoundRow) -> ContextItem:
    message = row.message_id if row.summary_id is None else None
    return ContextItem(row.ordinal or 0, "", message, row.summary_id, Timestamp(""))


async def _named(reader: Reader, ref: RowRef) -> FoundRow:
    """A row with the ids that it holds, as far as they are stored."""
    key = ref.key
    first = key[0] if key else None
    match ref.table:
        case "messages" | "messages_fts" if isinstance(first, int):
            return FoundRow(ref, message_id=MessageId(first))
        case "summaries" if isinstance(first, str):
            return FoundRow(ref, summary_id=SummaryId(first))
        case "summaries_fts" | "summaries_fts_cjk" if isinstance(first, int):
            return FoundRow(ref, summary_id=await _searched_summary(reader, ref.table, first))
        case table if table in _OF_CONVERSATIONS and isinstance(first, int):
            return FoundRow(ref, ConversationId(first))
        case table if table in _NAMING and key and reader.schema.has(table):
            return await _naming(reader, ref)
        case _:
            return FoundRow(ref)


async def _searched_summary(reader: Reader, table: str, rowid: int) -> SummaryId | None:
    if not reader.schema.has(f"{table}_content"):
        return None
    found = await reader.value(f"SELECT CAST(c0 AS TEXT) FROM {table}_content WHERE id = ?", rowid)
    return None if found is None else SummaryId(found)


async def _naming(reader: Reader, ref: RowRef) -> FoundRow:
    """A row that belongs to others: those that it names, or that its key names when it is not there."""
    keys, columns = _NAMING[ref.table]
    by_rowid = len(ref.key) == 1 and (len(keys) > 1 or isinstance(ref.key[0], int))
    where = "rowid = ?" if by_rowid else " AND ".join(f"{name} = ?" for name in keys)
    wanted = dict.fromkeys((*columns, *(("ordinal",) if "ordinal" in keys else ())))
    names = [name for name in wanted if reader.schema.has(ref.table, name)]
    row = await reader.row(f"SELECT {', '.join(names)} FROM {ref.table} WHERE {where}", *ref.key)
    held: dict[str, KeyPart] = {} if by_rowid else dict(zip(keys, ref.key, strict=False))
    if row is not None:
        held |= {name: row[name] for name in names}
    message, summary = held.get("message_id"), held.get("summary_id")
    return FoundRow(
        ref,
        _kept(held.get("conversation_id"), ConversationId),
        _kept(held.get("ordinal"), int),
        _kept(message, MessageId),
        None if not isinstance(summary, str) else SummaryId(summary),
        name=next((str(held[name]) for name in _CALLED if held.get(name)), ""),
    )


def _kept(value: KeyPart, kind: Callable[[int], T]) -> T | None:
    return kind(value) if isinstance(value, int) else None
