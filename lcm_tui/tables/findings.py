"""What the checks found, in words: by how sure it is, what was stored again, and what was not asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from lcm_core.base.findings import Confidence, Finding, FixId, Report, Severity
from lcm_core.base.records import ConversationId
from lcm_core.base.text import counted
from lcm_core.checks.messages import Repetition
from lcm_core.checks.summaries import BROKEN_SUMMARIES
from lcm_host.checks import CHECKS

from lcm_tui.tables.blocks import Cell, Facts, Note, Table
from lcm_tui.tables.blocks import OutputBlock as Block
from lcm_tui.tables.blocks import OutputColumn as Column

#: What was found again in one conversation.
Repeated = Sequence[tuple[ConversationId, Repetition]]

#: Checks that find messages stored again: `lcm_core.checks.messages.repetitions_of` has the ranges.
REPEATING: Final = frozenset({"E3", "E4"})
#: A severity in a word; with an s it is several.
SEVERITY_WORDS: Final[Mapping[Severity, str]] = {
    Severity.ERROR: "error",
    Severity.WARNING: "warning",
    Severity.INFO: "info",
}
_COLUMNS = (
    Column("Check"),
    Column("Severity", spare=2),
    Column("Conversation", right=True, spare=1),
    Column("Rows", right=True, spare=3),
    Column("Fix"),
    Column("What", grows=True),
)


def summary_of(report: Report) -> str:
    """What was found, in a sentence."""
    where = "The database" if report.conversation_id is None else f"Conversation {report.conversation_id}"
    counts = Counter(one.confidence for one in report.findings())
    broken, suspicious = counts[Confidence.BROKEN], counts[Confidence.SUSPICIOUS]
    not_run = f" {counted(len(report.not_run), 'check')} skipped." if report.not_run else ""
    if report.clean:
        asked = len(report.results) - len(report.not_run)
        return f"{where} is clean: none of {asked} checks finds damage.{not_run}"
    summaries = sum(map(is_broken_summary, report.findings()))
    of_them = f" ({counted(summaries, 'broken summary')})" if summaries else ""
    return (
        f"{where} has {counted(broken, 'finding')} of damage{of_them} and "
        f"{suspicious:,} that may be.{not_run}"
    )


def in_order(findings: Iterable[Finding]) -> list[Finding]:
    """By how sure they are, then by severity, then by check and conversation."""
    sure, severe = list(Confidence), list(Severity)
    return sorted(
        findings,
        key=lambda one: (
            sure.index(one.confidence),
            severe.index(CHECKS[one.check].severity),
            CHECKS[one.check].order,
            one.conversation_id or 0,
        ),
    )


def is_broken_summary(finding: Finding) -> bool:
    """Whether it is a broken summary, as the first screen counts them and a repair lists them."""
    return finding.confidence is Confidence.BROKEN and finding.check in BROKEN_SUMMARIES


def can_fix(finding: Finding) -> bool:
    """Whether a fix that several findings may share mends it: all but the merge of a split session."""
    return finding.fix not in (None, FixId.MERGE_SPLIT)


def repetition_kind(one: Repetition) -> str:
    """What was stored again: a block whose proof is known, one message very often, or a single one."""
    return "block" if one.proof is not None else "flood" if one.flood else "duplicate"


def report_blocks(report: Report, repeated: Repeated) -> list[Block]:
    """The report for people: what is broken, what may be, and what was not asked."""
    blocks: list[Block] = [Note(summary_of(report))]
    found = in_order(report.findings())
    for confidence in (Confidence.BROKEN, Confidence.SUSPICIOUS):
        rows = [_row(one) for one in found if one.confidence is confidence]
        if rows:
            blocks.append(Table(_COLUMNS, rows, title=f"{confidence.value.capitalize()} ({len(rows):,})"))
    by_design = Counter(one.check for one in found if one.confidence is Confidence.BY_DESIGN)
    if by_design:
        named = ", ".join(
            f"{check} {CHECKS[check].title}" + (f" ×{number}" if number > 1 else "")
            for check, number in sorted(by_design.items(), key=lambda one: CHECKS[one[0]].order)
        )
        blocks.append(Note(f"By design, not damage: {named}. --json lists it."))
    if repeated:
        blocks.append(_repeated_table(repeated))
    reasons: dict[str, list[str]] = {}
    for result in report.not_run:
        reasons.setdefault(result.reason, []).append(result.check.id)
    if reasons:
        facts: list[tuple[str, Cell]] = [(" ".join(ids), reason) for reason, ids in reasons.items()]
        blocks.append(Facts(facts, title="Skipped"))
    fixable = sum(can_fix(one) for one in found if one.confidence is Confidence.BROKEN)
    if fixable:
        what = counted(fixable, "finding")
        blocks.append(Note(f"--fix all previews a fix of {what}; --fix ID fixes one of them."))
    if unfixed := [one for one in found if one.fix is None and one.confidence is not Confidence.BY_DESIGN]:
        how = f"--fix with the check (--fix {unfixed[0].check}) explains why and what to do"
        blocks.append(Note(f"If the fix column says no, {how}."))
    return blocks


def _row(one: Finding) -> tuple[Cell, ...]:
    fix = "merge" if one.fix is FixId.MERGE_SPLIT else "no" if one.fix is None else "yes"
    severity = SEVERITY_WORDS[CHECKS[one.check].severity]
    return one.check, severity, one.conversation_id, one.row_count, fix, one.sentence


def _repeated_table(repeated: Repeated) -> Table:
    columns = (
        Column("Conversation", right=True),
        Column("First"),
        Column("Again"),
        Column("Messages", right=True),
        Column("Tokens", right=True),
        Column("In context", right=True),
        Column("Removable", right=True),
    )
    rows: list[tuple[Cell, ...]] = [
        (
            owner,
            seqs_text(one.original_seqs),
            seqs_text(one.copy_seqs),
            len(one.copy_ids),
            one.tokens,
            len(one.in_context),
            len(one.spare),
        )
        for owner, one in repeated
    ]
    tokens = sum(one.tokens for _, one in repeated)
    return Table(columns, rows, title=f"Stored again, by seq: {tokens:,} tokens")


def seqs_text(ends: tuple[int, int]) -> str:
    """A range of messages by the seq of its first and its last one."""
    return str(ends[0]) if ends[0] == ends[1] else f"{ends[0]}-{ends[1]}"
