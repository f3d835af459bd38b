"""The checks of a database, and how checks are run over it in the background.

What is read together is asked together, in stages. Whoever runs checks names the stages: `STAGES` need the
database alone, and who knows its host adds others. Every read is a transaction of its own, so that a live
file is never pinned for long, and rules run in a thread, so that an app goes on answering keys.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from lcm_core.base.errors import DatabaseError, UsageError
from lcm_core.base.findings import (
    Check,
    CheckResult,
    CheckScope,
    CheckState,
    Confidence,
    Finding,
    Progress,
    Report,
)
from lcm_core.base.records import ConversationId
from lcm_core.base.values import Record, replace
from lcm_core.checks import context, database, files, lineage, messages, metadata, search, state, summaries
from lcm_core.checks.check import Answers, Folders, Limits, Rule, Run, Stage, finding_of, ids_of
from lcm_core.checks.messages import Messages, read_message_texts
from lcm_core.checks.structure import Structure, conversation_ids, load_structure
from lcm_core.checks.summaries import known_files, read_summaries
from lcm_core.engine.rules import engine_rules
from lcm_core.store.conversations import get_conversation
from lcm_core.store.database import Database, Reader
from lcm_core.store.rows import row_count, row_counts
from lcm_core.store.schema import FEATURES, Schema
from lcm_core.store.state import BOOTSTRAP

if TYPE_CHECKING:
    from lcm_core.checks.verified import VerifiedTexts

#: Checks that need a conversation's rows without their texts.
OF_STRUCTURE: Final[tuple[Rule[Structure], ...]] = (
    *context.CHECKS,
    *lineage.CHECKS,
    *metadata.CHECKS,
    *messages.ROW_CHECKS,
)
_OF_SUMMARIES: Final[tuple[Check, ...]] = (*summaries.TEXT_CHECKS, *summaries.CHECKS, metadata.TOKEN_COUNT)
_OF_MESSAGES: Final[tuple[Check, ...]] = (*messages.TEXT_CHECKS, *messages.CHECKS, metadata.TOKEN_COUNT)
_OF_STATE: Final[tuple[Check, ...]] = (*state.CHECKS, *state.NOTED, *state.ENTRIES, *state.ALIKE)
_OF_SCHEMA: Final[tuple[Check, ...]] = (*database.SPACE, *database.WAL, *database.SCHEMA)
_SUMMARY_TEXTS: Final = ids_of(_OF_SUMMARIES)
_MESSAGE_TEXTS: Final = ids_of(_OF_MESSAGES)
_CONVERSATIONS: Final = (*OF_STRUCTURE, *_OF_SUMMARIES, *_OF_MESSAGES)


#: Rows of a conversation that is looked at together with those around it, and of all of them together.
_FEW_ROWS: Final = 2_000
_ROWS_AHEAD: Final = 2_000
#: A transaction over several conversations begins no other one after so long (s): alone, and beside an app.
_LONG_ENOUGH: Final = 0.2
_LONG_BESIDE: Final = 0.03


class _Asked(Record, frozen=True):
    """What one run asks of each conversation."""

    checks: frozenset[str]
    rules: tuple[Rule[Structure], ...]
    files: frozenset[str] | None  #: that the database knows; None: nobody asks
    backfilled: bool
    total: int  #: messages


async def _look_ahead(run: Run, asked: _Asked, ids: Sequence[ConversationId]) -> list[int]:
    """Look at some small conversations in one transaction and thread: how many messages each has.

    None if that takes too long or one cannot be read: they are looked at one by one then, and what cannot
    be read is said of the one that it belongs to.
    """
    counts: list[int] = []
    with contextlib.suppress(Exception):
        async with asyncio.timeout(run.limits.seconds / 2 or None):
            within, counts = await run.database.read(Reader.at_once, _look_at_all, run, asked, ids)
        run.join(within)
    run.moved()
    return counts


async def _look_at_all(
    reader: Reader, run: Run, asked: _Asked, ids: Sequence[ConversationId]
) -> tuple[Run, list[int]]:
    within, counts = run.within(reader), list[int]()
    until = time.monotonic() + (_LONG_ENOUGH if run.pause is None else _LONG_BESIDE)
    for conversation_id in ids:
        if counts and time.monotonic() > until:
            break
        counts.append(await _look_at(within, asked, conversation_id, 0))
    return within, counts


async def _sizes(reader: Reader) -> Counter[ConversationId]:
    """How many messages, summaries and context items each conversation has."""
    found: Counter[ConversationId] = Counter()
    for table in ("messages", "summaries", "context_items"):
        found.update(await row_counts(reader, table))
    return found


def _small_ones(ids: Sequence[ConversationId], rows: Mapping[ConversationId, int]) -> list[ConversationId]:
    """The small conversations at the front of some, as many as are looked at together."""
    found: list[ConversationId] = []
    total = 0
    for conversation_id in ids:
        size = rows.get(conversation_id, 0) + 1
        total += size
        if size > _FEW_ROWS or (found and total > _ROWS_AHEAD):
            break
        found.append(conversation_id)
    return found


async def _read_conversations(run: Run) -> None:
    """A to E, a conversation at a time."""
    wanted = run.wants(ids_of(_CONVERSATIONS))
    asked = _Asked(
        wanted,
        tuple(rule for rule in OF_STRUCTURE if rule.id in wanted),
        await run.database.read(known_files) if "D12" in wanted else None,
        await run.database.read(_columns_backfilled),
        await run.database.read(row_count, "messages", run.conversation_id),
    )
    if run.conversation_id is None:
        ids = await run.database.read(conversation_ids)
    else:
        ids = [run.conversation_id]
    rows = {} if len(ids) < 2 else await run.database.read(_sizes)
    place = tried = done = 0
    while place < len(ids):
        if run.pause is not None:
            await run.pause()
        ahead: list[int] = []
        if rows and place >= tried and (small := _small_ones(ids[place : place + _ROWS_AHEAD], rows)):
            ahead = await _look_ahead(run, asked, small)
            tried = place + (len(ahead) or len(small))
        done += sum(ahead) if ahead else await _look_at(run, asked, ids[place], done)
        place += len(ahead) or 1
        run.progress(done, asked.total)
    if run.verified is not None and run.conversation_id is None:
        run.verified.forget_others(ids)


async def _look_at(run: Run, asked: _Asked, conversation_id: ConversationId, done: int) -> int:
    """A conversation: structure, then texts of summaries, then messages; how many messages it has."""
    wanted, where = asked.checks, f" in conversation {conversation_id}"
    structure: Structure | None = None
    async with run.patient(wanted, where):
        structure = await run.read(
            Reader.at_once, load_structure, conversation_id, small=run.reader is not None
        )
    if structure is None:
        return 0
    findings = await _judge(run, asked.rules, structure)
    if wanted & _SUMMARY_TEXTS and structure.nodes:
        async with run.patient(_SUMMARY_TEXTS, where):
            await read_summaries(run, structure, wanted & _SUMMARY_TEXTS, asked.files)
    texts, lost = wanted & _MESSAGE_TEXTS, any(map(_is_lost, findings))
    if (texts or lost) and len(structure.messages):
        async with run.patient(texts | {"A11"} if lost else texts, where):
            seen = await read_message_texts(
                run, structure, texts, done, asked.total, backfilled=asked.backfilled
            )
            run.add(await run.in_thread(list, seen.findings()))
            if lost:
                findings = await run.in_thread(_without_copies, run, findings, structure, seen)
    run.add(findings)
    return len(structure.messages)


def _is_lost(finding: Finding) -> bool:
    return finding.check == "A11" and finding.confidence is not Confidence.BY_DESIGN


def _without_copies(run: Run, findings: list[Finding], structure: Structure, seen: Messages) -> list[Finding]:
    """The findings with A11 asked again: a copy of what the context reaches is no loss."""
    copies = seen.copies()
    if not copies:
        return findings
    [rule] = [rule for rule in context.CHECKS if rule.id == "A11"]
    again = run.judge(rule, replace(structure, copies=copies), structure.id)
    return [*(one for one in findings if one.check != "A11"), *again]


async def _judge(run: Run, rules: Sequence[Rule[Structure]], structure: Structure) -> list[Finding]:
    """What the rules find, as many as had the time."""
    found: list[Finding] = []
    left = {rule.id for rule in rules}
    moved = time.monotonic()
    soon = _nothing if run.reader is not None else asyncio.get_running_loop().call_soon_threadsafe

    def judge() -> None:
        nonlocal moved
        for rule in rules:
            found.extend(run.judge(rule, structure, structure.id))
            left.discard(rule.id)
            if time.monotonic() - moved > 0.1:
                moved = time.monotonic()
                soon(run.moved)

    async with run.patient(left, f" in conversation {structure.id}"):
        await run.in_thread(judge)
    return list(found)


def _nothing(_: object) -> None:
    """Report no progress within a transaction."""


async def _columns_backfilled(reader: Reader) -> bool:
    """Whether the tool columns of parts were filled (docs/spec/versions.md, "Migration steps")."""
    if not reader.schema.has("lcm_migration_state"):
        return False
    return bool(
        await reader.value(
            "SELECT count(*) FROM lcm_migration_state WHERE step_name = 'backfillToolCallColumns'"
        )
    )


#: The stages of a database, in the order in which they are read.
STAGES: Final = (
    Stage("conversations", _CONVERSATIONS, _read_conversations),
    Stage("links", database.LINES, database.read_lines),
    Stage("parts", database.PARTS, database.read_parts),
    Stage("state", _OF_STATE, state.read_state, state.why_not),
    Stage("schema", _OF_SCHEMA, database.read_schema),
    Stage("large files", files.CHECKS, files.read_files, files.why_not),
    Stage("search tables", search.CHECKS, search.read_search, search.why_not, whole_file=True),
    Stage("pages of the file", database.PAGES, database.read_pages, whole_file=True),
)
FAMILIES: Final[Mapping[str, str]] = {
    "A": "context",
    "B": "summary DAG",
    "C": "text of summaries",
    "D": "metadata",
    "E": "messages, parts and files",
    "F": "search tables",
    "G": "conversations and state",
}
#: For somebody who watches, the checks in parts. What answers soon: context, DAG, metadata, what is noted.
STRUCTURE: Final = ids_of((*OF_STRUCTURE, *database.LINES, *_OF_STATE, *_OF_SCHEMA))
#: What reads the whole file for its own sake (F1 to F6, G13).
WHOLE_FILE: Final = frozenset[str]().union(*(stage.ids for stage in STAGES if stage.whole_file))


def checks_of(stages: Iterable[Stage]) -> dict[str, Check]:
    """The checks of some stages by id, in the order in which people count."""
    checks = (check for stage in stages for check in stage.checks)
    return {check.id: check for check in sorted(checks, key=lambda one: one.order)}


#: The checks of a database.
CHECKS: Final[Mapping[str, Check]] = checks_of(STAGES)


def choose(wanted: Collection[str] | None, stages: Sequence[Stage] = STAGES) -> list[Check]:
    """The checks that ids (``A11``) and families (``A``) name, in order; None names all.

    Raises:
        UsageError: a name is neither.
    """
    checks = checks_of(stages)
    known = list(checks.values())
    if wanted is None:
        return known
    names = {name.strip().upper() for name in wanted}
    unknown = sorted(names - checks.keys() - {check.family for check in known})
    if unknown:
        first, last = known[0], known[-1]
        raise UsageError(
            f"There is no check {unknown[0]}; ids go from {first.id} to {last.id}, and a letter from "
            f"{first.family} to {last.family} means a family."
        )
    return [check for check in known if check.id in names or check.family in names]


async def run_checks(
    database: Database,
    *,
    conversation: ConversationId | None = None,
    only: Collection[str] | None = None,
    folders: Folders | None = None,
    whole_file: bool = True,
    pages: bool = False,
    stages: Sequence[Stage] = STAGES,
    limits: Limits | None = None,
    progress: Callable[[Progress], None] | None = None,
    pause: Callable[[], Awaitable[object]] | None = None,
    verified: VerifiedTexts | None = None,
) -> Report:
    """Ask the checks of *stages* of a whole file or of one conversation (docs/spec/doctor.md).

    *only* names ids (``A11``) or families (``A``); all are asked without it, and nothing else is reported.
    *whole_file* False leaves out what reads the whole file for its own sake (F1 to F6, G13). *pause* is
    awaited before each conversation, or before several small ones; it is part of the time in which a check
    must get further. Cancelling the caller interrupts the statement that is running; a check that gets no
    further for `Limits.seconds` gives up. A stage that the file's damage stops is reported as such, the
    others go on, and G13 says that the file is damaged, whether it was named or not. With *pages* that is
    looked for even where no check of the run meets it, which reads every table once.

    *verified*: what earlier runs found in texts of messages, of which those are not judged that are the same.

    Raises:
        NotFoundError: there is no such conversation.
        UsageError: *only* names no check.
    """
    started, clock = datetime.now(UTC), time.monotonic()
    if conversation is not None:
        await database.read(get_conversation, conversation)
    chosen = choose(only, stages)
    places = folders or Folders()
    answers = {check.id: Answers() for check in chosen}
    for stage in stages:
        for check in stage.checks:
            if check.id in answers:
                answers[check.id].reason = _why_not(
                    check, stage, database.schema, conversation, places, whole_file=whole_file
                )
    run = Run(
        database,
        conversation,
        frozenset(check.id for check in chosen if not answers[check.id].reason),
        limits or Limits(now=started),
        places,
        progress,
        answers,
        pause=pause,
        verified=verified,
    )
    if verified is not None:
        await verified.begin()
    planned = sorted((stage for stage in stages if run.wants(stage.ids)), key=lambda one: one.whole_file)
    run.stages = max(len(planned), 1)
    damaged = False
    for number, stage in enumerate(planned, 1):
        run.stage, run.title = number, stage.title
        run.progress(0, 1)
        try:
            async with run.patient(stage.ids):
                await stage.read(run)
        except DatabaseError as error:
            run.stop(run.wants(stage.ids), f"it stopped halfway: {error.message}")
            damaged = damaged or error.code == "DATABASE_CORRUPT"
        run.progress(1, 1)
    results = [_result(check, answers[check.id]) for check in chosen]
    if damaged or (pages and not run.wants(("G13",))):
        results = await _with_damage(run, results, certain=damaged)
    if verified is not None:
        await verified.keep()
    return Report(
        conversation,
        started,
        time.monotonic() - clock,
        tuple(results),
        *((0, 0) if verified is None else verified.taken),
    )


async def _with_damage(run: Run, results: list[CheckResult], *, certain: bool) -> list[CheckResult]:
    """With G13 of a damaged file: that first, then what it has found itself; *certain*: a read has failed."""
    [check] = database.PAGES
    lost = await database.lost_tables(run.database)
    if not (certain or lost):
        return results
    known = run.answers.get(check.id, Answers())
    finding = finding_of(check, await database.file_damage(run.database, lost))
    findings = (finding, *known.findings[: run.limits.findings - 1])
    others = (one for one in results if one.check.id != check.id)
    of_file = CheckResult(check, CheckState.RAN, "", findings, known.count + 1)
    return sorted((*others, of_file), key=lambda one: one.check.order)


def _result(check: Check, answers: Answers) -> CheckResult:
    asked = CheckState.NOT_RUN if answers.reason else CheckState.RAN
    return CheckResult(check, asked, answers.reason, tuple(answers.findings), answers.count)


def _why_not(
    check: Check,
    stage: Stage,
    schema: Schema,
    conversation: ConversationId | None,
    folders: Folders,
    *,
    whole_file: bool,
) -> str:
    """Why a check cannot be asked here; empty when it can."""
    lacking = [need for need in check.needs if not _has(schema, need)]
    if lacking:
        return _not_recorded(schema, lacking[0])
    if reason := stage.why_not(check, schema, folders):
        return reason
    if conversation is not None and check.scope is CheckScope.FILE:
        return "it checks the whole database, not one conversation"
    if stage.whole_file and not whole_file:
        return "it reads the whole database and runs only on request"
    return ""


def _has(schema: Schema, need: str) -> bool:
    table, _, column = need.partition(".")
    return schema.has(table, column or None)


def _not_recorded(schema: Schema, need: str) -> str:
    table, _, column = need.partition(".")
    if table == BOOTSTRAP and not engine_rules(schema).is_migrated:
        return f"the engine of this file keeps no {table}"
    since = next((tag for tag, of, name in FEATURES if of == table and name in (None, column or None)), None)
    what = f"this file does not record {need}" if column else f"this file has no table {table}"
    return f"{what} (it came with {since})" if since else what
