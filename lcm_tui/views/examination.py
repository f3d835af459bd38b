"""What the checks found in one scope, and the lines of its list: groups, findings, rows, what was not run."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from lcm_core.checks.host import CHECKS
from lcm_core.findings import (
    CheckResult,
    CheckState,
    Confidence,
    Finding,
    FixId,
    Report,
    Severity,
    finding_key,
)
from lcm_core.text import fold

from lcm_tui.views.findings import SEVERITY_WORDS, can_fix, in_order, is_broken_summary

#: What stands before a word of confidence, or for it.
SIGNS: Final[Mapping[Confidence, str]] = {
    Confidence.BROKEN: "✗",
    Confidence.SUSPICIOUS: "?",
    Confidence.BY_DESIGN: "·",
}
#: Severities in five cells.
SEVERITIES: Final[Mapping[Severity, str]] = {**SEVERITY_WORDS, Severity.WARNING: "warn"}
NOT_RUN: Final = "skipped"
BY_DESIGN: Final = Confidence.BY_DESIGN.value
#: Groups that are folded until they are opened.
FOLDED: Final = frozenset({BY_DESIGN, NOT_RUN})


@dataclass(frozen=True, slots=True)
class GroupKey:
    """The heading of a group."""

    name: str


@dataclass(frozen=True, slots=True)
class FindingKey:
    """A finding, by its key in the `Examination`."""

    key: str


@dataclass(frozen=True, slots=True)
class RowKey:
    """A row of a finding, by its place among them."""

    key: str
    place: int


@dataclass(frozen=True, slots=True)
class MoreKey:
    """Findings of a check that are not listed, because there are very many."""

    check: str


@dataclass(frozen=True, slots=True)
class CheckKey:
    """A check that was not run."""

    check: str


#: A line of the list: the same after another run of the checks.
HealthKey: TypeAlias = GroupKey | FindingKey | RowKey | MoreKey | CheckKey


@dataclass(slots=True)
class Group:
    """A heading and what stands below it."""

    name: str
    title: str
    keys: list[HealthKey] = field(default_factory=list)
    fixable: int = 0

    @property
    def count(self) -> int:
        """How many findings or checks it lists."""
        return sum(not isinstance(key, MoreKey) for key in self.keys)


@dataclass(slots=True)
class Examination:
    """What the checks said of one scope: several runs, the newest answer of each check."""

    results: dict[str, CheckResult] = field(default_factory=dict)  #: by id of the check
    findings: dict[str, Finding] = field(default_factory=dict)  #: by key, the surest and worst first

    def take(self, report: Report) -> None:
        """Let the answers of a run take the place of those before."""
        self.results.update((one.check.id, one) for one in report.results)
        self._list()

    def leave_out(self, checks: Iterable[str], reason: str) -> None:
        """Note why checks were not asked; what they said before stays."""
        for check in checks:
            if check not in self.results:
                self.results[check] = CheckResult(CHECKS[check], CheckState.NOT_RUN, reason, (), 0)

    def _list(self) -> None:
        found: dict[str, Finding] = {}
        for finding in in_order(one for result in self.results.values() for one in result.findings):
            key, number = finding_key(finding), 1
            while key in found:
                number += 1
                key = f"{finding_key(finding)}#{number}"
            found[key] = finding
        self.findings = found

    @property
    def complete(self) -> bool:
        """Whether each check was asked, or there is a reason why not."""
        return len(self.results) == len(CHECKS)

    def count(self, confidence: Confidence) -> int:
        """Findings of one confidence."""
        return sum(one.confidence is confidence for one in self.findings.values())

    @property
    def broken_summaries(self) -> int:
        """How many of the broken findings are broken summaries."""
        return sum(map(is_broken_summary, self.findings.values()))

    @property
    def not_run(self) -> list[CheckResult]:
        """The checks that were not asked, or not of everything."""
        return sorted(
            (one for one in self.results.values() if one.state is CheckState.NOT_RUN),
            key=lambda one: one.check.order,
        )

    @property
    def cut(self) -> dict[str, int]:
        """How many findings of a check are not listed, by check."""
        return {
            one.check.id: one.finding_count - len(one.findings)
            for one in self.results.values()
            if one.finding_count > len(one.findings)
        }

    def groups(self, words: Sequence[str] = ()) -> list[Group]:
        """The groups that hold something, in order: what holds every one of *words* (in lower case)."""
        found: dict[str, Group] = {}
        words = _phrases(words)
        for key, finding in self.findings.items():
            if not words or _holds(_words_of(key, finding), words):
                group = _group_of(found, finding)
                group.keys.append(FindingKey(key))
                group.fixable += can_fix(finding)
        for check in self.cut:
            last = next((one for one in self.findings.values() if one.check == check), None)
            if last is not None and not words:
                _group_of(found, last).keys.append(MoreKey(check))
        groups = list(found.values())
        left = [one for one in self.not_run if _holds(_words_of_check(one), words)]
        if left:
            groups.append(Group(NOT_RUN, f"– {NOT_RUN}", [CheckKey(one.check.id) for one in left]))
        return groups


def fix_word(finding: Finding) -> str:
    """What the list says of a fix."""
    return "" if finding.fix is None else "merge" if finding.fix is FixId.MERGE_SPLIT else "fix"


def lines_of(groups: Iterable[Group], folded: Collection[str], opened: Mapping[str, int]) -> list[HealthKey]:
    """The lines of the list; *opened*: findings of which the rows are shown, and how many."""
    keys: list[HealthKey] = []
    for group in groups:
        keys.append(GroupKey(group.name))
        if group.name in folded:
            continue
        for key in group.keys:
            keys.append(key)
            if isinstance(key, FindingKey) and key.key in opened:
                keys += (RowKey(key.key, place) for place in range(opened[key.key]))
    return keys


def first_to_look_at(keys: Sequence[HealthKey]) -> HealthKey | None:
    """Where a cursor is at first: on the gravest finding, which is the first; else on the first line."""
    return next((key for key in keys if isinstance(key, FindingKey)), next(iter(keys), None))


def _group_of(groups: dict[str, Group], finding: Finding) -> Group:
    confidence, severity = finding.confidence, CHECKS[finding.check].severity
    sign = SIGNS[confidence]
    if confidence is Confidence.BY_DESIGN:
        name, title = BY_DESIGN, f"{sign} by design"
    else:
        name, title = (
            f"{confidence.value} {severity.value}",
            f"{sign} {confidence.value}, {SEVERITY_WORDS[severity]}s",
        )
    return groups.setdefault(name, Group(name, title))


# -- what a filter looks at --------------------------------------------------------------------------------


def _words_of(key: str, finding: Finding) -> str:
    check = CHECKS[finding.check]
    owner = "" if finding.conversation_id is None else f"conversation {finding.conversation_id};"
    severity = f"{SEVERITIES[check.severity]} {SEVERITY_WORDS[check.severity]}s"
    parts = (key, check.title, finding.sentence, finding.confidence.value, severity, owner, fix_word(finding))
    return fold(" ".join(parts))


def _phrases(words: Sequence[str]) -> Sequence[str]:
    """The words, with ``conversation`` and its number as what `_words_of` says of an owner."""
    found: list[str] = []
    for word in words:
        if found and found[-1] == "conversation" and word.isdecimal():
            found[-1] = f"conversation {word};"
        else:
            found.append(word)
    return found


def _words_of_check(result: CheckResult) -> str:
    return fold(f"{result.check.id} {result.check.title} {NOT_RUN} {result.reason}")


def _holds(text: str, words: Iterable[str]) -> bool:
    return all(word in text for word in words)
