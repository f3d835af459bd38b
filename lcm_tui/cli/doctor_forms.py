"""The report of the doctor in the two forms that other tools collect: SARIF 2.1.0 and JUnit XML.

Sentences and keys come from the database: they are written out as for a terminal (``lcm_core.text``), so that
neither form holds a character that its readers refuse.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

from lcm_core import __version__
from lcm_core.checks import CHECKS
from lcm_core.errors import ExitCode
from lcm_core.findings import (
    Check,
    CheckResult,
    CheckState,
    Confidence,
    Finding,
    Report,
    Severity,
    finding_key,
)
from lcm_core.settings import Json
from lcm_core.text import safe_line
from lcm_core.wording import counted

from lcm_tui.cli.documents import Document
from lcm_tui.cli.machine import json_text
from lcm_tui.cli.presentation import PROGRAM
from lcm_tui.views.findings import in_order

SARIF_SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS: Final = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}
#: What XML 1.0 has no place for.
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
#: Beside the sentence: the rows of a finding that are named.
_MAX_ROWS: Final = 20


def _plain(text: str) -> str:
    return _NOT_XML.sub("\ufffd", safe_line(text))


# -- SARIF -----------------------------------------------------------------------------------------------


def sarif_text(report: Report, database: Path, failing: Collection[Finding]) -> str:
    """The report as a SARIF log of one run: a rule for each check, a result for each finding.

    What is by design is informational and of no level, as the format wants it. A check that could not be
    asked, or that found more than is kept, is a notification of the run.
    """
    checks = [one.check for one in report.results]
    places = {check.id: at for at, check in enumerate(checks)}
    uri = Path(_plain(str(database.absolute()))).as_uri()
    run: Document = {
        "tool": {
            "driver": {
                "name": PROGRAM,
                "version": __version__,
                "rules": [_rule(check) for check in checks],
            }
        },
        "artifacts": [{"location": {"uri": uri}}],
        "invocations": [
            {
                "executionSuccessful": True,
                "startTimeUtc": _moment(report),
                "exitCode": int(ExitCode.FINDINGS if failing else ExitCode.DONE),
                "toolExecutionNotifications": [
                    *(_notification(places, one, one.reason) for one in report.not_run),
                    *(
                        _notification(
                            places, one, f"{one.finding_count} findings; only the first are listed."
                        )
                        for one in report.results
                        if one.finding_count > len(one.findings)
                    ),
                ],
            }
        ],
        "columnKind": "utf16CodeUnits",
        "results": [_result(one, places[one.check], uri) for one in in_order(report.findings())],
    }
    return json_text({"$schema": SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}, pretty=True)


def _rule(check: Check) -> Json:
    return {
        "id": check.id,
        "shortDescription": {"text": check.title},
        "fullDescription": {"text": check.question},
        "help": {"text": check.why},
        "defaultConfiguration": {"level": _LEVELS[check.severity]},
    }


def _notification(places: dict[str, int], one: CheckResult, text: str) -> Json:
    return {
        "level": "note",
        "message": {"text": _plain(f"{one.check.id} {one.check.title}: {text}")},
        "associatedRule": {"id": one.check.id, "index": places[one.check.id]},
    }


def _result(one: Finding, rule: int, uri: str) -> Json:
    by_design = one.confidence is Confidence.BY_DESIGN
    return {
        "ruleId": one.check,
        "ruleIndex": rule,
        "kind": "informational" if by_design else "fail",
        "level": "none" if by_design else _LEVELS[CHECKS[one.check].severity],
        "message": {"text": _plain(one.sentence)},
        "locations": [
            {
                "physicalLocation": {"artifactLocation": {"uri": uri, "index": 0}},
                "logicalLocations": [{"fullyQualifiedName": name} for name in _places(one)],
            }
        ],
        "partialFingerprints": {"findingId/v1": _plain(finding_key(one))},
        "properties": {
            "confidence": one.confidence.value,
            "conversationId": one.conversation_id,
            "rowCount": one.row_count,
            "fix": None if one.fix is None else one.fix.value,
        },
    }


def _places(one: Finding) -> Sequence[str]:
    owner = [] if one.conversation_id is None else [f"conversation {one.conversation_id}"]
    rows = [f"{row.table}/{'/'.join(map(str, row.key))}" for row in one.rows[:_MAX_ROWS]]
    return [_plain(name) for name in owner + rows] or ["database"]


def _moment(report: Report) -> str:
    return report.started_at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


# -- JUnit -----------------------------------------------------------------------------------------------


def junit_text(report: Report, database: Path, failing: Collection[Finding]) -> str:
    """The report as JUnit XML: a test for each check, failed by the findings that are *failing*.

    Other findings are the output of their test; a check that could not be asked is skipped with its reason.
    """
    results = report.results
    failed = {one.check for one in failing}
    skipped = [one for one in results if one.state is CheckState.NOT_RUN and one.check.id not in failed]
    counts = {
        "tests": str(len(results)),
        "failures": str(len(failed)),
        "errors": "0",
        "skipped": str(len(skipped)),
        "time": f"{report.seconds:.3f}",
    }
    whole = ElementTree.Element("testsuites", {"name": f"{PROGRAM} doctor", **counts})
    began = datetime.strftime(report.started_at.astimezone(UTC), "%Y-%m-%dT%H:%M:%S")
    suite = ElementTree.SubElement(
        whole, "testsuite", {"name": _plain(str(database)), **counts, "timestamp": began}
    )
    for result in results:
        check = result.check
        test = ElementTree.SubElement(
            suite,
            "testcase",
            {
                "classname": f"{PROGRAM}.doctor.{check.family}",
                "name": f"{check.id} {check.title}",
                "time": "0",
            },
        )
        ours = [one for one in failing if one.check == check.id]
        others = [one for one in result.findings if one not in ours]
        if ours:
            worst = min(ours, key=lambda one: list(Confidence).index(one.confidence)).confidence.value
            number = counted(len(ours) + result.finding_count - len(result.findings), "finding")
            failure = ElementTree.SubElement(
                test, "failure", {"type": worst, "message": f"{number}: {_plain(ours[0].sentence)}"}
            )
            failure.text = _listed(ours)
        elif result.state is CheckState.NOT_RUN:
            ElementTree.SubElement(test, "skipped", {"message": _plain(result.reason)})
        if others:
            ElementTree.SubElement(test, "system-out").text = _listed(others)
    ElementTree.indent(whole)
    text: str = ElementTree.tostring(whole, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}'


def _listed(findings: Sequence[Finding]) -> str:
    return "\n".join(
        f"{one.confidence.value}: {_plain(one.sentence)} ({_plain(finding_key(one))})" for one in findings
    )
