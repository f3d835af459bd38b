"""The report of the doctor for programs."""

from __future__ import annotations

from collections import Counter

from lcm_core.checks import Repetition
from lcm_core.checks.host import CHECKS
from lcm_core.findings import Confidence, Finding, Report, finding_key
from lcm_core.records import ConversationId

from lcm_tui.cli.documents import Document
from lcm_tui.views.findings import Repeated, in_order, repetition_kind, summary_of


def finding_document(one: Finding) -> Document:
    """A finding for machines; ``id`` is what ``--fix`` takes."""
    check = CHECKS[one.check]
    return {
        "id": finding_key(one),
        "check": one.check,
        "title": check.title,
        "severity": check.severity.value,
        "confidence": one.confidence.value,
        "conversationId": one.conversation_id,
        "sentence": one.sentence,
        "rowCount": one.row_count,
        "rows": [{"table": row.table, "key": list(row.key)} for row in one.rows],
        "fix": None if one.fix is None else one.fix.value,
        "withoutFix": check.unfixed if one.fix is None else None,
    }


def report_document(report: Report, repeated: Repeated) -> Document:
    """The whole report for machines; the first fields are those of the engine's own command."""
    counts = Counter(one.confidence for one in report.findings())
    return {
        "available": True,
        "databaseReadOnly": True,
        "message": summary_of(report),
        "conversationId": report.conversation_id,
        "clean": report.clean,
        "counts": {
            "broken": counts[Confidence.BROKEN],
            "suspicious": counts[Confidence.SUSPICIOUS],
            "byDesign": counts[Confidence.BY_DESIGN],
        },
        "findings": [finding_document(one) for one in in_order(report.findings())],
        "truncated": [
            {"check": one.check.id, "findings": one.finding_count}
            for one in report.results
            if one.finding_count > len(one.findings)
        ],
        "repetitions": [_repetition_document(owner, one) for owner, one in repeated],
        "notRun": [{"check": one.check.id, "reason": one.reason} for one in report.not_run],
        "checks": len(report.results),
        "seconds": round(report.seconds, 3),
    }


def _repetition_document(owner: ConversationId, one: Repetition) -> Document:
    return {
        "conversationId": owner,
        "kind": repetition_kind(one),
        "originalSeqs": list(one.original_seqs),
        "copySeqs": list(one.copy_seqs),
        "copies": len(one.copy_ids),
        "tokens": one.tokens,
        "inContext": len(one.in_context),
        "removable": len(one.spare),
        "summarised": one.summarised,
        "proof": None if one.proof is None else one.proof.value,
        "certain": one.certain,
    }
