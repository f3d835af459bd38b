"""The list of the health screen as a value: groups of findings, their rows, and what a line of each says."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from lcm_core.checks import CHECKS
from lcm_core.findings import (
    CheckResult,
    CheckState,
    Confidence,
    Finding,
    FixId,
    Report,
    RowRef,
    Severity,
    finding_key,
)
from lcm_core.records import ConversationId
from lcm_core.store.found_rows import FoundRow
from lcm_core.text import clip, safe_line

from lcm_tui.widgets.spans import Column, Line, Span, StyleName, depth_style, role_style

#: ``("group", name)``, ``("finding", key)``, ``("row", key of the finding, place)``, ``("more", check)`` or
#: ``("check", id)``: what survives another run of the checks.
HealthKey = tuple[str, ...]

MARK: Final = "●"
#: What a list and a heading show for a confidence besides its colour.
SIGNS: Final[Mapping[Confidence, Span]] = {
    Confidence.BROKEN: Span("✗", "error"),
    Confidence.SUSPICIOUS: Span("?", "warn"),
    Confidence.BY_DESIGN: Span("·", "dim"),
}
SEVERITIES: Final[Mapping[Severity, Span]] = {
    Severity.ERROR: Span("error", "error"),
    Severity.WARNING: Span("warn", "warn"),
    Severity.INFO: Span("info", "dim"),
}
_PLURALS: Final = {Severity.ERROR: "errors", Severity.WARNING: "warnings", Severity.INFO: "infos"}
NOT_RUN: Final = "not run"
BY_DESIGN: Final = Confidence.BY_DESIGN.value
#: Groups that are folded until they are opened.
FOLDED: Final = frozenset({BY_DESIGN, NOT_RUN})

COLUMNS: Final = (
    Column("mark", "", 1, keep=100),
    Column("sign", "", 1, keep=99),
    Column("severity", "grade", 5, keep=60),
    Column("check", "check", 5, keep=98),
    Column("conversation", "conv", 5, right=True, keep=80),
    Column("rows", "rows", 4, right=True, keep=50),
    Column("fix", "fix", 5, keep=90),
    Column("what", "what", 26, grows=True, keep=97),
)


@dataclass(slots=True)
class Group:
    """A heading and what stands below it."""

    name: str
    title: Line
    keys: list[HealthKey] = field(default_factory=list)
    fixable: int = 0


@dataclass(slots=True)
class Examination:
    """What the checks said of one scope, by check: several runs, the newest answer of each."""

    results: dict[str, CheckResult] = field(default_factory=dict)
    findings: dict[str, Finding] = field(default_factory=dict)
    seconds: float = 0.0

    def take(self, report: Report) -> None:
        """Let the answers of a run take the place of those before."""
        self.results.update((one.check.id, one) for one in report.results)
        self.seconds += report.seconds
        self._list()

    def leave_out(self, checks: Iterable[str], reason: str) -> None:
        """Note why checks were not asked; what they said before stays."""
        for check in checks:
            if check not in self.results:
                self.results[check] = CheckResult(CHECKS[check], CheckState.NOT_RUN, reason, (), 0)

    def _list(self) -> None:
        found: dict[str, Finding] = {}
        for finding in sorted(
            (one for result in self.results.values() for one in result.findings), key=_order
        ):
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
        cut, words = self.cut, _phrases(words)
        for key, finding in self.findings.items():
            if not words or holds(words_of(key, finding), words):
                group = _group_of(found, finding)
                group.keys.append(("finding", key))
                group.fixable += can_fix(finding)
        for check in cut:
            last = next((one for one in self.findings.values() if one.check == check), None)
            if last is not None and not words:
                _group_of(found, last).keys.append(("more", check))
        groups = list(found.values())
        left = [one for one in self.not_run if holds(words_of_check(one), words)]
        if left:
            title = (Span(f"– {NOT_RUN}", "heading"),)
            groups.append(Group(NOT_RUN, title, [("check", one.check.id) for one in left]))
        return groups


def can_fix(finding: Finding) -> bool:
    """Whether a fix that several findings may share mends it."""
    return finding.fix not in (None, FixId.MERGE_SPLIT)


def fix_word(finding: Finding) -> str:
    """What the list says of a fix."""
    return "" if finding.fix is None else "merge" if finding.fix is FixId.MERGE_SPLIT else "fix"


def keys_of(groups: Iterable[Group], folded: Collection[str], opened: Mapping[str, int]) -> list[HealthKey]:
    """The lines of the list; *opened*: findings of which the rows are shown, and how many."""
    keys: list[HealthKey] = []
    for group in groups:
        keys.append(("group", group.name))
        if group.name in folded:
            continue
        for key in group.keys:
            keys.append(key)
            if key[0] == "finding" and key[1] in opened:
                keys += (("row", key[1], str(place)) for place in range(opened[key[1]]))
    return keys


def _order(finding: Finding) -> tuple[int, int, tuple[str, int], int]:
    return (
        list(Confidence).index(finding.confidence),
        list(Severity).index(CHECKS[finding.check].severity),
        CHECKS[finding.check].order,
        finding.conversation_id or 0,
    )


def _group_of(groups: dict[str, Group], finding: Finding) -> Group:
    confidence, severity = finding.confidence, CHECKS[finding.check].severity
    sign = SIGNS[confidence].text
    if confidence is Confidence.BY_DESIGN:
        name, title = BY_DESIGN, f"{sign} by design, no damage"
    else:
        name, title = (
            f"{confidence.value} {severity.value}",
            f"{sign} {confidence.value}, {_PLURALS[severity]}",
        )
    return groups.setdefault(name, Group(name, (Span(title, "heading"),)))


# -- lines -------------------------------------------------------------------------------------------------


def group_line(group: Group, *, folded: bool) -> Line:
    """A heading: what it holds and how much."""
    number = sum(key[0] != "more" for key in group.keys)
    said = f"  {number:,}"
    if group.name == NOT_RUN:
        said += " check" if number == 1 else " checks"
    if group.fixable:
        said += f", {group.fixable:,} with a fix"
    return (Span("▸ " if folded else "▾ ", "key"), *group.title, Span(said, "dim"))


def finding_cells(finding: Finding, *, marked: bool) -> dict[str, Span]:
    """A finding: how sure, how bad, which check, where, how many rows, whether it can be mended, and what."""
    owner = finding.conversation_id
    return {
        "mark": Span(MARK if marked else "", "key"),
        "sign": SIGNS[finding.confidence],
        "severity": SEVERITIES[CHECKS[finding.check].severity],
        "check": Span(finding.check, "key"),
        "conversation": Span("–" if owner is None else str(owner)),
        "rows": Span(f"{finding.row_count:,}", "dim"),
        "fix": Span(fix_word(finding), "ok"),
        "what": Span(finding.sentence, "dim" if finding.confidence is Confidence.BY_DESIGN else "text"),
    }


def check_line(result: CheckResult) -> Line:
    """A check that was not asked, and why."""
    return (
        Span("  – "),
        Span(f"{result.check.id:<5}", "key"),
        Span(f"{result.check.title}: "),
        Span(result.reason, "dim"),
    )


def more_line(check: str, number: int) -> Line:
    """What is not listed of a check with very many findings."""
    return (Span(f"    … {number:,} more of {check} {CHECKS[check].title} are not listed", "dim"),)


def row_line(ref: RowRef, row: FoundRow | None, *, longest: int = 1_000) -> Line:
    """A row of a finding: what it is, and the beginning of its text, *longest* cells of it."""
    name = ref_name(ref, row)
    if row is None:
        return (Span(f"      {name}  …", "dim"),)
    head: Line = (Span("      "), Span(name, "key"))
    if row.entry is None:
        if row.ordinal is not None:
            return (*head, Span("  nothing stands there", "warn"))
        return (*head, Span(f"  {row.name}")) if row.name else head
    if row.gone:
        what = row.summary_id or f"m{row.message_id}"
        return (*head, Span(f"  {what}: its row is gone", "error"))
    entry = row.entry
    style: StyleName
    if row.summary_id is not None:
        depth = entry.depth or 0
        kind, style = "L" if depth == 0 else f"D{depth}", depth_style(entry.depth)
    else:
        kind, style = entry.role or "", role_style(entry.role)
    return (
        *head,
        Span(f"  {kind}", style),
        Span(f"  {entry.tokens or 0:,} tok  ", "dim"),
        Span(clip(safe_line(entry.preview), longest)),
    )


_NAMES: Final = {
    "context_items": "context",
    "summary_messages": "link",
    "summary_parents": "edge",
    "message_parts": "part",
    "messages_fts": "search row",
    "summaries_fts": "search row",
    "summaries_fts_cjk": "search row",
    "large_files": "file",
    "conversations": "conversation",
    "focus_briefs": "brief",
}


def ref_name(ref: RowRef, row: FoundRow | None = None) -> str:
    """A row in short: the id by which the rest of the app knows it."""
    key = " ".join("–" if part is None else str(part) for part in ref.key)
    if ref.table == "summaries":
        return key
    if ref.table == "messages":
        seq = None if row is None else row.seq
        return f"m{key}" if seq is None else f"#{seq} m{key}"
    if ref.table == "context_items" and len(ref.key) == 2:
        return f"context item at {ref.key[1]}"
    if ref.table == "summary_messages" and len(ref.key) == 2:
        return f"link {ref.key[0]} → m{ref.key[1]}"
    if ref.table == "summary_parents" and len(ref.key) == 2:
        return f"edge {ref.key[0]} → {ref.key[1]}"
    return f"{_NAMES.get(ref.table, ref.table)} {key}".rstrip()


def owner_of(finding: Finding, row: FoundRow | None) -> ConversationId | None:
    """The conversation in which a row is to be looked at."""
    if row is not None and row.conversation_id is not None:
        return row.conversation_id
    return finding.conversation_id


def words_of(key: str, finding: Finding) -> str:
    """What a filter looks at."""
    check = CHECKS[finding.check]
    owner = "" if finding.conversation_id is None else f"conversation {finding.conversation_id};"
    severity = f"{SEVERITIES[check.severity].text} {_PLURALS[check.severity]}"
    parts = (key, check.title, finding.sentence, finding.confidence.value, severity, owner, fix_word(finding))
    return " ".join(parts).casefold()


def _phrases(words: Sequence[str]) -> Sequence[str]:
    """The words, with ``conversation`` and its number as what `words_of` says of an owner."""
    found: list[str] = []
    for word in words:
        if found and found[-1] == "conversation" and word.isdecimal():
            found[-1] = f"conversation {word};"
        else:
            found.append(word)
    return found


def words_of_check(result: CheckResult) -> str:
    """What a filter looks at of a check that was not run."""
    return f"{result.check.id} {result.check.title} {NOT_RUN} {result.reason}".casefold()


def holds(text: str, words: Iterable[str]) -> bool:
    """Whether a text holds all words."""
    return all(word in text for word in words)


def in_order(keys: Sequence[HealthKey]) -> HealthKey | None:
    """Where a cursor stands at first: on the first finding."""
    return next((key for key in keys if key[0] == "finding"), keys[0] if keys else None)
