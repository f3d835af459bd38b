"""What the checks found, in words: by how sure it is, what was stored again, and what was not asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from lcm_core.base.findings import (
    CheckResult,
    Confidence,
    Finding,
    FixId,
    Report,
    RowRef,
    Severity,
    finding_key,
)
from lcm_core.base.records import ConversationId
from lcm_core.base.text import counted
from lcm_core.base.values import to_json
from lcm_core.checks.repetitions import Repetition
from lcm_core.checks.summaries import BROKEN_SUMMARIES
from lcm_host.checks import CHECKS

from lcm_tui.kit.spans import Span, StyleName
from lcm_tui.tables.blocks import Cell, Facts, ListColumn, Note, When, list_table
from lcm_tui.tables.blocks import OutputBlock as Block


class Repeated(NamedTuple):
    """Messages of a conversation that were stored again."""

    conversation_id: ConversationId
    repetition: Repetition


#: Checks that find messages stored again: `lcm_core.checks.messages.repetitions_of` has the ranges.
REPEATING: Final = frozenset({"E3", "E4"})
#: A severity in a word; with an s it is several.
SEVERITY_WORDS: Final[Mapping[Severity, str]] = {
    Severity.ERROR: "error",
    Severity.WARNING: "warning",
    Severity.INFO: "info",
}


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
    damaged = "The file itself is damaged (G13). " if file_damage(report.results) else ""
    return (
        f"{damaged}{where} has {counted(broken, 'finding')} of damage{of_them} and "
        f"{suspicious:,} that may be.{not_run}"
    )


def in_order(findings: Iterable[Finding]) -> list[Finding]:
    """Damage of the file, then by how sure they are, then by severity, then by check and conversation."""
    sure, severe = list(Confidence), list(Severity)
    return sorted(
        findings,
        key=lambda one: (
            not _is_of_file(one),
            sure.index(one.confidence),
            severe.index(CHECKS[one.check].severity),
            CHECKS[one.check].order,
            one.conversation_id or 0,
        ),
    )


def _is_of_file(finding: Finding) -> bool:
    return finding.check == "G13" and finding.rows[:1] == (RowRef("sqlite_master", ()),)


def file_damage(results: Iterable[CheckResult]) -> bool:
    """Whether SQLite cannot read the file itself, or finds fault with its pages."""
    return any(_is_of_file(one) for result in results for one in result.findings)


def is_broken_summary(finding: Finding) -> bool:
    """Whether it is a broken summary, which lists, counts, repairs and searches go by too."""
    return finding.confidence is Confidence.BROKEN and finding.check in BROKEN_SUMMARIES


def can_fix(finding: Finding) -> bool:
    """Whether a fix that several findings may share mends it: all but the merge of a split session."""
    return finding.fix not in (None, FixId.MERGE_SPLIT)


def repetition_kind(one: Repetition) -> str:
    """What was stored again: a block whose proof is known, one message very often, or a single one."""
    return "block" if one.proof is not None else "flood" if one.flood else "duplicate"


def seqs_text(ends: tuple[int, int]) -> str:
    """A range of messages by the seq of its first and its last one."""
    return str(ends[0]) if ends[0] == ends[1] else f"{ends[0]}-{ends[1]}"


# -- as a list -------------------------------------------------------------------------------------------
# Findings and what was stored again, for the app, for people and for programs.

#: What stands before a word of confidence, or for it.
SIGNS: Final[Mapping[Confidence, str]] = {
    Confidence.BROKEN: "✗",
    Confidence.SUSPICIOUS: "?",
    Confidence.BY_DESIGN: "·",
}
#: Severities in five cells.
SEVERITIES: Final[Mapping[Severity, str]] = {**SEVERITY_WORDS, Severity.WARNING: "warn"}
_CONFIDENCE_STYLES: Final[Mapping[Confidence, StyleName]] = {
    Confidence.BROKEN: "error",
    Confidence.SUSPICIOUS: "warn",
    Confidence.BY_DESIGN: "dim",
}
_SEVERITY_STYLES: Final[Mapping[Severity, StyleName]] = {
    Severity.ERROR: "error",
    Severity.WARNING: "warn",
    Severity.INFO: "dim",
}
#: The same on the command line, by the words that stand there.
_SEVERITY_COLORS: Final = (("error", "red"), ("warning", "yellow"), ("info", "dim"))


def fix_word(finding: Finding) -> str:
    """What the list says of a fix."""
    return "" if finding.fix is None else "merge" if finding.fix is FixId.MERGE_SPLIT else "fix"


def _what(sentence: str, finding: Finding, _: str) -> Span:
    return Span(sentence, "dim" if finding.confidence is Confidence.BY_DESIGN else "text")


def _fix_answer(finding: Finding) -> str:
    return "merge" if finding.fix is FixId.MERGE_SPLIT else "no" if finding.fix is None else "yes"


def confidence_sign(confidence: Confidence) -> Span:
    """How sure a finding is, in one cell."""
    return Span(SIGNS[confidence], _CONFIDENCE_STYLES[confidence])


def severity_word(severity: Severity) -> Span:
    """How grave it would be, in five cells."""
    return Span(SEVERITIES[severity], _SEVERITY_STYLES[severity])


# fmt: off
#: All that is said of a finding, in order; ``id`` is what ``--fix`` takes. The app draws it with its mark.
FINDING_COLUMNS: Final[tuple[ListColumn[Finding, str], ...]] = (
    ListColumn("mark", "", 1, keep=100, value="check", cell=lambda _, __, mark: Span(mark, "key")),
    ListColumn("sign", "", 1, keep=99, value="confidence",
               cell=lambda value, _, __: confidence_sign(value)),
    ListColumn("id", json="id", value=finding_key),
    ListColumn("name", heading="Check", json="check", value="check"),
    ListColumn("title", json="title", value=lambda one: CHECKS[one.check].title),
    ListColumn("severity", heading="Severity", spare=2, json="severity",
               value=lambda one: CHECKS[one.check].severity, text=SEVERITY_WORDS.__getitem__,
               colors=_SEVERITY_COLORS),
    ListColumn("check", "check", 5, keep=98, value="check", cell=lambda value, _, __: Span(value, "key")),
    ListColumn("confidence", json="confidence", value="confidence"),
    ListColumn("conversation", "conv", 5, right=True, keep=80, heading="Conv.", spare=1,
               json="conversationId", value="conversation_id",
               cell=lambda value, _, __: Span("–" if value is None else str(value))),
    ListColumn("sentence", json="sentence", value="sentence"),
    ListColumn("rows", "rows", 4, right=True, keep=50, heading="Rows", spare=3, json="rowCount",
               value="row_count", cell=lambda value, _, __: Span(f"{value:,}", "dim")),
    ListColumn("keys", json="rows", value=lambda one: to_json(one.rows)),
    ListColumn("fix", "fix", 5, keep=90, heading="Fix", value=_fix_answer,
               cell=lambda _, one, __: Span(fix_word(one), "ok")),
    ListColumn("fix_id", json="fix", value="fix"),
    ListColumn("unfixed", json="withoutFix",
               value=lambda one: CHECKS[one.check].unfixed if one.fix is None else None),
    ListColumn("what", "what", 26, grows=True, keep=97, heading="What", wide=True, value="sentence",
               cell=_what),
)
#: All that is said of messages that were stored again, in order.
REPEATED_COLUMNS: Final[tuple[ListColumn[Repeated, None], ...]] = (
    ListColumn("owner", right=True, heading="Conversation", json="conversationId", value="conversation_id"),
    ListColumn("kind", json="kind", value=lambda one: repetition_kind(one.repetition)),
    ListColumn("first", heading="First", json="originalSeqs", value="repetition.original_seqs",
               text=seqs_text),
    ListColumn("again", heading="Again", json="copySeqs", value="repetition.copy_seqs", text=seqs_text),
    ListColumn("copies", right=True, heading="Messages", json="copies",
               value=lambda one: len(one.repetition.copy_ids)),
    ListColumn("tokens", right=True, heading="Tokens", json="tokens", value="repetition.tokens"),
    ListColumn("context", right=True, heading="In context", json="inContext",
               value=lambda one: len(one.repetition.in_context)),
    ListColumn("spare", right=True, heading="Removable", json="removable",
               value=lambda one: len(one.repetition.spare)),
    ListColumn("summarised", json="summarised", value="repetition.summarised"),
    ListColumn("proof", json="proof", value="repetition.proof"),
    ListColumn("certain", json="certain", value="repetition.certain"),
)
# fmt: on


# -- the report ------------------------------------------------------------------------------------------


def report_blocks(when: When, report: Report, repeated: Sequence[Repeated]) -> list[Block]:
    """The report for people: what is broken, what may be, and what was not asked."""
    blocks: list[Block] = [Note(summary_of(report))]
    found = in_order(report.findings())
    for confidence in (Confidence.BROKEN, Confidence.SUSPICIOUS):
        rows = [one for one in found if one.confidence is confidence]
        if rows:
            title = f"{confidence.value.capitalize()} ({len(rows):,})"
            blocks.append(list_table(FINDING_COLUMNS, rows, when, title=title))
    by_design = Counter(one.check for one in found if one.confidence is Confidence.BY_DESIGN)
    if by_design:
        named = ", ".join(
            f"{check} {CHECKS[check].title}" + (f" ×{number}" if number > 1 else "")
            for check, number in sorted(by_design.items(), key=lambda one: CHECKS[one[0]].order)
        )
        blocks.append(Note(f"By design, not damage: {named}. --json lists it."))
    if repeated:
        tokens = sum(one.tokens for _, one in repeated)
        title = f"Stored again, by seq: {tokens:,} tokens"
        blocks.append(list_table(REPEATED_COLUMNS, repeated, when, title=title))
    if report.verified_messages:
        messages = counted(report.verified_messages, "message")
        where = counted(report.verified_conversations, "conversation")
        blocks.append(Note(f"Verified before: the texts of {messages} in {where}. --all checks them again."))
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
