"""Runs the checks over a database, in the background, and reports what they found."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Collection
from datetime import UTC, datetime
from typing import Final

from lcm_core.dag.checks.facts import Limits
from lcm_core.dag.checks.registry import choose
from lcm_core.errors import DatabaseError
from lcm_core.findings import Check, CheckResult, CheckScope, CheckState, Progress, Report
from lcm_core.paths import HOST_DATABASE_NOT_READ, host_databases
from lcm_core.records import ConversationId
from lcm_core.store.conversations import get_conversation
from lcm_core.store.database import Database
from lcm_core.store.scan import search as fts
from lcm_core.store.scan import stages
from lcm_core.store.scan.collecting import Answers, Run
from lcm_core.store.scan.files import Folders
from lcm_core.store.schema import FEATURES, Schema

_STAGES: Final[tuple[tuple[str, frozenset[str], Callable[[Run], Awaitable[None]]], ...]] = (
    ("conversations", stages.CONVERSATIONS, stages.conversations),
    ("links", stages.LINKS, stages.linked_rows),
    ("parts", stages.PARTS, stages.orphan_parts),
    ("state", stages.STATE, stages.noted_state),
    ("schema", stages.SCHEMA, stages.schema_and_space),
    ("large files", stages.FILES, stages.large_files),
    ("search tables", stages.SEARCH, stages.search_tables),
    ("pages of the file", stages.PAGES, stages.pages),
)
_WHOLE_FILE: Final = stages.SEARCH | stages.PAGES
_IN_LARGE_FILES: Final = frozenset({"E16", "E17", "E19"})
_IN_SESSIONS: Final = frozenset({"G6", "G7"})


async def run_checks(
    database: Database,
    *,
    conversation: ConversationId | None = None,
    only: Collection[str] | None = None,
    folders: Folders | None = None,
    whole_file: bool = True,
    limits: Limits | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Report:
    """Ask the checks of a whole file or of one conversation (docs/engine/doctor.md).

    *only* names ids (``A11``) or families (``A``); all are asked without it, and nothing else is reported.
    *whole_file* False leaves out what reads the whole file for its own sake (F1 to F6, G13). Cancelling the
    caller interrupts the statement that is running; a check that gets no further for
    `Limits.seconds` gives up. A stage that the file's damage stops is reported as such, and the others go on.

    Raises:
        NotFoundError: there is no such conversation.
        UsageError: *only* names no check.
    """
    started, clock = datetime.now(UTC), time.monotonic()
    if conversation is not None:
        await database.read(get_conversation, conversation)
    chosen = choose(only)
    places = folders or Folders()
    answers = {check.id: Answers() for check in chosen}
    for check in chosen:
        answers[check.id].reason = _why_not(
            check, database.schema, conversation, places, whole_file=whole_file
        )
    run = Run(
        database,
        conversation,
        frozenset(check.id for check in chosen if not answers[check.id].reason),
        limits or Limits(now=started),
        places,
        progress,
        answers,
    )
    planned = [stage for stage in _STAGES if run.wants(stage[1])]
    run.stages = max(len(planned), 1)
    for number, (title, checks, stage) in enumerate(planned, 1):
        run.stage, run.title = number, title
        run.progress(0, 1)
        try:
            async with run.patient(checks):
                await stage(run)
        except DatabaseError as error:
            run.stop(run.wants(checks), f"it stopped halfway: {error.message}")
        run.progress(1, 1)
    return Report(
        conversation,
        started,
        time.monotonic() - clock,
        tuple(_result(check, answers[check.id]) for check in chosen),
    )


def _result(check: Check, answers: Answers) -> CheckResult:
    state = CheckState.NOT_RUN if answers.reason else CheckState.RAN
    return CheckResult(check, state, answers.reason, tuple(answers.findings), answers.count)


def _why_not(
    check: Check, schema: Schema, conversation: ConversationId | None, folders: Folders, *, whole_file: bool
) -> str:
    """Why a check cannot be asked here; empty when it can."""
    lacking = [need for need in check.needs if not _has(schema, need)]
    if lacking:
        return _not_recorded(lacking[0])
    if check.id in ("F4", "F6") and not any(
        schema.has(f"{table}_content") or schema.has(table) for table in fts.TABLES
    ):
        return "this file has no search tables, which are optional from 0.3.0 on"
    if conversation is not None and check.scope is CheckScope.FILE:
        return "it is about the whole file, and one conversation was asked for"
    if not whole_file and check.id in _WHOLE_FILE:
        return "it reads the whole file, which was not asked for"
    if check.id in _IN_LARGE_FILES and not (folders.large_files is not None and folders.large_files.is_dir()):
        return (
            "the folder of large files is not there"
            if folders.large_files
            else "no folder of large files is known"
        )
    if check.id in _IN_SESSIONS and not (folders.sessions is not None and folders.sessions.is_dir()):
        return "the folder of sessions is not there" if folders.sessions else "no folder of sessions is known"
    if check.id in _IN_SESSIONS and folders.sessions is not None and host_databases(folders.sessions):
        return HOST_DATABASE_NOT_READ
    return ""


def _has(schema: Schema, need: str) -> bool:
    table, _, column = need.partition(".")
    return schema.has(table, column or None)


def _not_recorded(need: str) -> str:
    table, _, column = need.partition(".")
    since = next((tag for tag, of, name in FEATURES if of == table and name in (None, column or None)), None)
    what = f"this file does not record {need}" if column else f"this file has no table {table}"
    return f"{what} (it came with {since})" if since else what
