"""``doctor``: what the checks find in a database, and fixes for what can be fixed without a model."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from lcm_core.base.errors import ExitCode, LcmError, NotFoundError, RefusedError, UsageError
from lcm_core.base.findings import Confidence, Finding, FixId, Report, Severity, finding_key
from lcm_core.base.records import ConversationId
from lcm_core.base.setting_values import SettingSource, Sourced
from lcm_core.base.text import counted
from lcm_core.base.values import Struct, replace
from lcm_core.change.reindex import resync, resync_sql
from lcm_core.checks.messages import repetitions_of
from lcm_core.checks.verified import VerifiedTexts
from lcm_core.operations.fix import Keep
from lcm_core.operations.fixing import Fixes, plan_fixes
from lcm_core.store.database import Database, Reader
from lcm_host.checks import CHECKS, choose, run_checks

from lcm_tui.cli import answer, changing, options
from lcm_tui.cli.answer import Answer, Outcome, Run
from lcm_tui.cli.changing import Proposal
from lcm_tui.cli.command import command, flag, option
from lcm_tui.cli.documents import Document, camel, some_of
from lcm_tui.cli.kinds import Choice, ConversationName, Raw, Seconds
from lcm_tui.cli.options import ChangeFlags, Named
from lcm_tui.cli.progress import CheckMeter
from lcm_tui.cli.selecting import owner_if_named
from lcm_tui.cli.working import carry_out, watched
from lcm_tui.flows.checks import folders_of, limits_of, reads_whole_file
from lcm_tui.tables.blocks import Note, OutputBlock, OutputColumn, Table, json_of
from lcm_tui.tables.findings import (
    FINDING_COLUMNS,
    REPEATED_COLUMNS,
    REPEATING,
    Repeated,
    can_fix,
    in_order,
    report_blocks,
    summary_of,
)

# -- as JSON ---------------------------------------------------------------------------------------------
# The report for programs.


def _report_document(report: Report, repeated: Sequence[Repeated]) -> Document:
    """The whole report for machines; the first fields are those of the engine's own command."""
    counts = Counter(one.confidence for one in report.findings())
    return {
        "available": True,
        "databaseReadOnly": True,
        "message": summary_of(report),
        **some_of(report, "conversation_id clean"),
        "counts": {camel(one.name.lower()): counts[one] for one in Confidence},
        "findings": [json_of(FINDING_COLUMNS, one) for one in in_order(report.findings())],
        "truncated": [
            {"check": one.check.id, "findings": one.finding_count}
            for one in report.results
            if one.finding_count > len(one.findings)
        ],
        "repetitions": [json_of(REPEATED_COLUMNS, one) for one in repeated],
        "notRun": [{"check": one.check.id, "reason": one.reason} for one in report.not_run],
        "verifiedBefore": {
            "messages": report.verified_messages,
            "conversations": report.verified_conversations,
        },
        "checks": len(report.results),
        "seconds": round(report.seconds, 3),
    }


# -- the command -----------------------------------------------------------------------------------------

#: How grave a finding must be to count, with the severities that are.
FAIL_ON: Final[Mapping[str, tuple[Severity, ...]]] = {
    "error": (Severity.ERROR,),
    "warning": (Severity.ERROR, Severity.WARNING),
    "info": tuple(Severity),
    "never": (),
}


@command(
    "doctor",
    examples=(
        "doctor",
        "doctor 3 --check A,B1",
        "doctor --fix all --apply",
        "doctor --json --fail-on error",
    ),
)
@options.optional_conversation
@option(
    "--check",
    Raw(),
    "ID",
    "Only these checks (A11, or a family: A); separate several with commas.",
    multiple=True,
)
@flag(
    "--all",
    "Full check: also the slow checks (search tables, pages of the file), and verified texts again.",
    into="whole_file",
)
@option(
    "--timeout",
    Seconds(),
    "SECONDS",
    "Time limit per check without progress; 0: no limit (default: 30).",
    into="check_seconds",
)
@option(
    "--fix",
    Raw(),
    "ID",
    "Fix a finding by its id, all of a check (A4), or everything that is broken (all).",
    multiple=True,
)
@option(
    "--fail-on",
    Choice(*FAIL_ON),
    "|".join(FAIL_ON),
    "Lowest severity for exit code 6, or never for exit code 0 (default: info).",
)
@options.watch
@flag("--keep-sources", "If a context contains a summary and everything it covers, remove the summary.")
@options.sql_flags()
def doctor(
    run: Run,
    *,
    conversation: ConversationName | None,
    check: tuple[str, ...],
    whole_file: bool,
    check_seconds: float | None,
    fix: tuple[str, ...],
    fail_on: str | None,
    watch: int | None,
    keep_sources: bool,
    flags: options.SqlFlags,
) -> Outcome:
    """Check the database; --fix fixes what needs no model (previews unless --apply)."""
    if not fix and (keep_sources or flags.apply or flags.sql):
        option = "keep-sources" if keep_sources else "apply" if flags.apply else "sql"
        raise UsageError(f"--{option} requires --fix.", details={"option": option})
    if fix and (fail_on or watch):
        option = "fail-on" if fail_on else "watch"
        raise UsageError(f"--{option} cannot be used with --fix.", details={"option": option})
    if check_seconds is not None:
        seconds = Sourced(check_seconds, SettingSource.COMMAND_LINE, "--timeout")
        run = replace(run, settings=replace(run.settings, check_seconds=seconds))
    checks = _split(check)
    if fix:
        return _fixed(run, conversation, checks, _split(fix) or (), flags, keep_sources=keep_sources)

    def examined() -> Answer:
        report, repeated = asyncio.run(_examine(run, conversation, checks, everything=whole_file))
        failing = any(
            CHECKS[one.check].severity in FAIL_ON[fail_on or "info"]
            for one in report.findings(Confidence.BROKEN, Confidence.SUSPICIOUS)
        )
        blocks = report_blocks(run.time, report, repeated)
        answered = run.answer("doctor", _report_document(report, repeated), blocks)
        return replace(answered, exit_code=ExitCode.FINDINGS if failing else ExitCode.DONE)

    return examined() if watch is None else watched(run, examined, watch, ends=fail_on is not None)


def _split(values: Sequence[str]) -> tuple[str, ...] | None:
    """The values of an option that may be given several times, or with commas; None: it was not given."""
    if not values:
        return None
    return tuple(dict.fromkeys(part.strip() for value in values for part in value.split(",") if part.strip()))


async def _examine(
    run: Run, named: Named | None, checks: Collection[str] | None, *, everything: bool
) -> tuple[Report, list[Repeated]]:
    """What the checks say, and the messages that were stored again.

    *everything*: the slow checks too, and nothing is taken as verified.
    """
    settings = run.settings
    path = settings.database.value
    meter = CheckMeter()
    async with await Database.open(path, busy_seconds=answer.BUSY_SECONDS) as database:
        owner = await database.read(owner_if_named, named)
        size = 0 if database.state is None else database.state.size
        try:
            report = await run_checks(
                database,
                conversation=owner,
                only=checks,
                folders=folders_of(settings),
                whole_file=everything or reads_whole_file(owner, size),
                pages=reads_whole_file(None, size),
                limits=limits_of(settings, database.schema),
                progress=meter,
                verified=VerifiedTexts.of(
                    database, allowed=settings.search_cache.value, judge_all=everything
                ),
            )
        finally:
            meter.clear()
        owners = {one.conversation_id: None for one in report.findings() if one.check in REPEATING}
        return report, [
            Repeated(owner, one)
            for owner in owners
            if owner is not None
            for one in await repetitions_of(database, owner)
        ]


# -- fixing ----------------------------------------------------------------------------------------------


def _fixed(
    run: Run,
    named: Named | None,
    checks: Collection[str] | None,
    wanted: Sequence[str],
    flags: ChangeFlags,
    *,
    keep_sources: bool,
) -> Answer:
    """Show what would fix the findings that are *wanted*, or do it."""
    report, _ = asyncio.run(_examine(run, named, checks or _checks_of(wanted), everything=True))
    selected = _selected(report, wanted)
    keep = Keep.SOURCES if keep_sources else Keep.SUMMARIES
    passed = _suspicious(report) if "all" in wanted else frozenset[str]()
    return _Fixing(run, report.conversation_id, selected, keep, flags, passed).answer()


def _checks_of(wanted: Iterable[str]) -> tuple[str, ...] | None:
    """The checks that have to be asked for what is to be fixed; None: all."""
    if "all" in wanted:
        return None
    names = tuple(dict.fromkeys(one.partition(":")[0] for one in wanted))
    choose(names)
    return names


def _selected(report: Report, wanted: Sequence[str]) -> tuple[Finding, ...]:
    """The findings that are to be fixed.

    Raises:
        UsageError: nothing is named.
        NotFoundError: no finding has this id.
        RefusedError: what was named cannot be fixed without guessing.
    """
    if not wanted:
        raise UsageError("--fix needs the id of a finding, a check or `all`.", details={"option": "fix"})
    found: dict[int, Finding] = {}
    for name in wanted:
        if name == "all":
            these = [one for one in report.findings(Confidence.BROKEN) if one.fix]
        elif ":" in name:
            these = [one for one in report.findings() if finding_key(one) == name]
            if not these:
                raise NotFoundError(f"No finding has the id {name}.", details={"id": name})
        else:
            ids = {check.id for check in choose([name])}
            these = [one for one in report.findings() if one.check in ids]
        fixable = [one for one in these if can_fix(one)]
        if these and not fixable and name != "all":
            if these[0].fix is FixId.MERGE_SPLIT:
                raise RefusedError(f"{name}: use `lcm-tui merge` to rejoin split sessions.")
            why = f"{these[0].sentence.rstrip('.')}. {CHECKS[these[0].check].unfixed}"
            raise RefusedError(f"{name} has no fix: {why}")
        found.update((id(one), one) for one in fixable)
    return tuple(found.values())


def _suspicious(report: Report) -> frozenset[str]:
    """The ids of what `all` leaves alone, though it has a fix."""
    found = report.findings(Confidence.SUSPICIOUS)
    return frozenset(finding_key(one) for one in found if can_fix(one))


class _Fixing(Struct):
    """One run of ``doctor --fix``."""

    run: Run
    conversation_id: ConversationId | None
    findings: tuple[Finding, ...]
    keep: Keep
    flags: ChangeFlags
    passed: frozenset[str] = frozenset()  #: ids of suspicious findings with a fix, which `all` passes over
    fixes: Fixes | None = None

    def answer(self) -> Answer:
        """Show the plan, make it when that was asked for, and bring the search tables in step."""
        told = changing.run_change(self.run, "doctor", self._plan, self.flags)
        search = () if self.fixes is None else self.fixes.search
        if told.exit_code is not ExitCode.DONE or not self.flags.apply or not self.findings:
            return replace(told, blocks=[*told.blocks, *_passed_blocks(self.passed)])
        done: list[tuple[str, int]] = []
        if search:
            applied = bool(told.data.get("applied"))  # it was asked about with the plan
            path = self.run.settings.database.value
            try:
                rows = carry_out(
                    self.run,
                    f"Update {' and '.join(search)}?",
                    lambda stopped: resync(path, search, wait=answer.BUSY_SECONDS, stopped=stopped),
                    yes=self.flags.yes or applied,
                )
            except LcmError as error:
                if not applied:
                    raise
                return replace(told, exit_code=error.exit_code, failed=error)
            done = [(one.table, one.rows) for one in rows]
        left, passed = asyncio.run(self._left())
        document: Document = {
            **told.data,
            "applied": True,
            "search": [{"table": table, "rows": rows} for table, rows in done],
            "remaining": [json_of(FINDING_COLUMNS, one) for one in left],
        }
        return replace(
            told, data=document, blocks=[*told.blocks, *_done_blocks(done, left), *_passed_blocks(passed)]
        )

    async def _plan(self, reader: Reader) -> Proposal:
        limits = limits_of(self.run.settings, reader.schema)
        self.fixes = fixes = await plan_fixes(reader, self.findings, keep=self.keep, limits=limits)
        data: Document = {
            "findings": [json_of(FINDING_COLUMNS, one) for one in self.findings],
            "search": [{"table": table, "rows": None} for table in fixes.search],
            "left": list(fixes.left),
        }
        columns = (OutputColumn("Fixes", grows=True),)
        rows = [(f"{one.check} {one.sentence}",) for one in self.findings]
        blocks: list[OutputBlock] = [Table(columns, rows)] if rows else []
        if fixes.search:
            blocks.append(Note(f"Search tables are updated afterwards: {', '.join(fixes.search)}."))
        nothing = "No row changes." if fixes.search else "There is nothing to fix."
        if not fixes.plan and fixes.search and not self.flags.apply:
            nothing += " --apply updates the search tables."
        if not fixes.plan:  # else they are warnings of the plan
            nothing += "".join(f" Left: {one}." for one in fixes.left)
        script: list[str] = []
        if self.flags.sql and fixes.search:
            script = await reader.run(lambda rows: list(resync_sql(rows, reader.schema, fixes.search)))
        return Proposal((fixes.plan,), data=data, blocks=blocks, nothing=nothing, script=script)

    async def _left(self) -> tuple[list[Finding], frozenset[str]]:
        """The findings that are still there, and those that were passed over and still are."""
        ids = {one.check for one in self.findings} | {one.partition(":")[0] for one in self.passed}
        wanted = {finding_key(one) for one in self.findings}
        path = self.run.settings.database.value
        async with await Database.open(path, busy_seconds=answer.BUSY_SECONDS) as database:
            limits = limits_of(self.run.settings, database.schema)
            report = await run_checks(database, conversation=self.conversation_id, only=ids, limits=limits)
        left = [one for one in report.findings() if finding_key(one) in wanted and one.fix is not None]
        return left, self.passed & {finding_key(one) for one in report.findings()}


def _passed_blocks(passed: frozenset[str]) -> list[OutputBlock]:
    """What ``--fix all`` did not take."""
    if not passed:
        return []
    found = counted(len(passed), "suspicious finding has", "suspicious findings have")
    checks = ", ".join(sorted({one.partition(":")[0] for one in passed}))
    return [Note(f"`all` fixes broken findings only; {found} a fix too: name a check ({checks}) to fix it.")]


def _done_blocks(done: Sequence[tuple[str, int]], left: Sequence[Finding]) -> list[OutputBlock]:
    blocks: list[OutputBlock] = []
    if done:
        columns = (OutputColumn("Search table"), OutputColumn("Rows written", right=True))
        blocks.append(Table(columns, done))
    if left:
        rows = [(finding_key(one), one.sentence) for one in left]
        title = f"{counted(len(left), 'finding remains', 'findings remain')}"
        blocks.append(Table((OutputColumn("Id"), OutputColumn("What", grows=True)), rows, title))
    else:
        blocks.append(Note("None of the selected findings exists any more."))
    return blocks
