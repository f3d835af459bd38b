"""What the checks found in one scope, as the lines and texts of the health screen."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final, TypeAlias

from lcm_core.base.findings import CheckResult, CheckState, Confidence, Finding, Report, RowRef, finding_key
from lcm_core.base.text import clip, counted, depth_name, fold, safe_line, sentence
from lcm_core.base.values import Record, Struct, field
from lcm_core.checks.check import FoundRow
from lcm_core.checks.repetitions import Repetition
from lcm_core.checks.summaries import certainty_of
from lcm_host.checks import CHECKS, FAMILIES

from lcm_tui.kit.spans import Block, Document, Line, Span, StyleName, depth_style, heading, role_style
from lcm_tui.tables.composition import gauge
from lcm_tui.tables.findings import (
    REPEATING,
    SEVERITIES,
    SEVERITY_WORDS,
    SIGNS,
    can_fix,
    confidence_sign,
    file_damage,
    fix_word,
    in_order,
    is_broken_summary,
    repetition_kind,
    seqs_text,
    severity_word,
)
from lcm_tui.tables.messages import message_name
from lcm_tui.tables.summaries import ShortIds

# -- what is listed --------------------------------------------------------------------------------------
# Groups, findings, rows, and what was not run.

NOT_RUN: Final = "skipped"
BY_DESIGN: Final = Confidence.BY_DESIGN.value
#: Groups that are folded until they are opened.
FOLDED: Final = frozenset({BY_DESIGN, NOT_RUN})


class GroupKey(Record, frozen=True):
    """The heading of a group."""

    name: str


class CheckGroupKey(Record, frozen=True):
    """Several findings of one check within a group, which fold into one line."""

    group: str
    check: str


class FindingKey(Record, frozen=True):
    """A finding, by its key in the `Examination`."""

    key: str


class RowKey(Record, frozen=True):
    """A row of a finding, by its place among them."""

    key: str
    place: int


class MoreKey(Record, frozen=True):
    """Findings of a check that are not listed, because there are very many."""

    check: str


class CheckKey(Record, frozen=True):
    """A check that was not run."""

    check: str


#: A line of the list: the same after another run of the checks.
HealthKey: TypeAlias = GroupKey | CheckGroupKey | FindingKey | RowKey | MoreKey | CheckKey


class Group(Struct):
    """A heading and what stands below it."""

    name: str
    title: str
    by_check: dict[str, list[FindingKey | MoreKey | CheckKey]] = field(default_factory=dict)
    fixable: int = 0

    @property
    def keys(self) -> list[FindingKey | MoreKey | CheckKey]:
        """All that it lists, by check."""
        return [key for keys in self.by_check.values() for key in keys]

    @property
    def count(self) -> int:
        """How many findings or checks it lists."""
        return sum(not isinstance(key, MoreKey) for key in self.keys)

    def add(self, check: str, key: FindingKey | MoreKey | CheckKey) -> None:
        """List one more."""
        self.by_check.setdefault(check, []).append(key)

    def findings_of(self, check: str) -> list[str]:
        """The keys of the findings of a check that it lists."""
        return [key.key for key in self.by_check.get(check, ()) if isinstance(key, FindingKey)]


#: Why checks were not asked that the operator stopped.
STOPPED: Final = "the checks were stopped earlier"


class Examination(Struct):
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
                group.add(finding.check, FindingKey(key))
                group.fixable += can_fix(finding)
        for check in self.cut:
            last = next((one for one in self.findings.values() if one.check == check), None)
            if last is not None and not words:
                _group_of(found, last).add(check, MoreKey(check))
        groups = list(found.values())
        left = [one for one in self.not_run if _holds(_words_of_check(one), words)]
        if left:
            skipped = Group(NOT_RUN, f"– {NOT_RUN}")
            for one in left:
                skipped.add(one.check.id, CheckKey(one.check.id))
            groups.append(skipped)
        return groups


def lines_of(
    groups: Iterable[Group],
    folded: Collection[str],
    is_folded: Callable[[CheckGroupKey], bool],
    opened: Mapping[str, int],
) -> list[HealthKey]:
    """The lines of the list.

    *is_folded*: whether a line stands for several findings of a check, instead of being above them.
    *opened*: findings of which the rows are shown, and how many.
    """
    keys: list[HealthKey] = []
    for group in groups:
        keys.append(GroupKey(group.name))
        if group.name in folded:
            continue
        for check, below in group.by_check.items():
            if len(below) > 1:
                heading_key = CheckGroupKey(group.name, check)
                keys.append(heading_key)
                if is_folded(heading_key):
                    continue
            for key in below:
                keys.append(key)
                if isinstance(key, FindingKey) and key.key in opened:
                    keys += (RowKey(key.key, place) for place in range(opened[key.key]))
    return keys


def first_to_look_at(keys: Sequence[HealthKey]) -> HealthKey | None:
    """Where a cursor is at first: on the gravest findings, which are the first; else on the first line."""
    found = (key for key in keys if isinstance(key, CheckGroupKey | FindingKey))
    return next(found, next(iter(keys), None))


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


# -- what a filter searches ------------------------------------------------------------------------------


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


#: Cells of the gauge of a run.
GAUGE: Final = 16
#: Rows of a finding that the pane shows; the list shows as many as the finding names.
ROWS_SHOWN: Final = 12
#: Cells of a text that the pane shows of each of them.
PREVIEW: Final = 60
#: Other repetitions of a conversation that the pane of one of them shows.
REPEATED_SHOWN: Final = 200


# -- the head ----------------------------------------------------------------------------------------------


def progress_line(known: Examination, share: float, stage: str) -> Line:
    """How far a run is: its *share* (0 to 1), what is being looked at, and what was found so far."""
    found = sum(known.count(one) for one in (Confidence.BROKEN, Confidence.SUSPICIOUS))
    more = f"   {found:,} found so far" if found else ""
    return (
        *gauge(share, GAUGE),
        Span(f" {share * 100:3.0f} %  {stage}"),
        Span(more, "dim"),
        Span("   esc", "key"),
        Span(" stops", "dim"),
    )


def found_pieces(
    known: Examination, chosen: Sequence[Finding], *, ended: str, reload: str | None, fix: str
) -> list[Line]:
    """What the checks found, what of the *chosen* the key *fix* mends, and when they *ended*.

    What matters most is first. *reload*: the file has changed since; this key checks again.
    """
    broken, doubtful = known.count(Confidence.BROKEN), known.count(Confidence.SUSPICIOUS)
    left, total = len(known.not_run), len(known.results)
    stopped = any(one.reason == STOPPED for one in known.not_run)
    fixable = sum(map(can_fix, chosen))
    summaries = known.broken_summaries
    others = broken - summaries  # as the first screen counts them
    said = [f"{others:,} broken"] if others or not summaries else []
    said += [counted(summaries, "summary" if said else "broken summary")] if summaries else []
    sound = bool(total) and not broken and not doubtful and not stopped
    first = Span(" no damage found " if sound else " ", "ok")
    if stopped:
        first = Span(f" stopped after {total - left} of {total} checks  ", "warn")
    pieces: list[Line] = [
        (first,),
        (Span(f"{SIGNS[Confidence.BROKEN]} {' + '.join(said)}", "error" if broken else "dim"),),
        (Span(f"  {SIGNS[Confidence.SUSPICIOUS]} {doubtful:,} suspicious", "warn" if doubtful else "dim"),),
    ]
    if stopped and left == total:
        del pieces[1:]
    if file_damage(known.results.values()):
        pieces.insert(0, (Span(" ✗ the file itself is damaged ", "error"),))
    if reload is not None:
        pieces.append((Span("  changed since: ", "warn"), Span(reload, "key")))
    if fixable:
        one = "this" if len(chosen) == 1 else "1 of these"
        those = one if fixable == 1 else f"these {fixable:,}"
        pieces.append((Span(f"  {fix}", "key"), Span(f" fixes {those}")))
    pieces.append((Span(f"  – {left:,} skipped", "text" if left else "dim"),))
    if reload is None:
        pieces.append((Span(f"  {ended}", "dim"),))
    by_design = f"  {SIGNS[Confidence.BY_DESIGN]} {known.count(Confidence.BY_DESIGN):,} by design"
    return [*pieces, (Span(by_design, "dim"),), (Span(f"  of {total:,} checks", "dim"),)]


# -- the list ----------------------------------------------------------------------------------------------


def group_line(group: Group, *, folded: bool) -> Line:
    """A heading: what it holds and how much."""
    said = f"  {group.count:,}"
    if group.name == NOT_RUN:
        said += " check" if group.count == 1 else " checks"
    if group.fixable:
        said += f", {group.fixable:,} with a fix"
    return (Span("▸ " if folded else "▾ ", "key"), Span(group.title, "heading"), Span(said, "dim"))


def check_group_cells(findings: Sequence[Finding], mark: str, *, folded: bool) -> Mapping[str, Span]:
    """The cells of the line that stands for several findings of one check."""
    first = findings[0]
    check, fixable = CHECKS[first.check], sum(map(can_fix, findings))
    owners = sorted({one.conversation_id for one in findings if one.conversation_id is not None})
    where = f" in {counted(len(owners), 'conversation')}" if len(owners) > 1 else ""
    fixes = "" if fixable in (0, len(findings)) else f", {fixable:,} with a fix"
    return {
        "mark": Span(mark, "key"),
        "sign": Span("▸" if folded else "▾", "key"),
        "check": Span(check.id, "key"),
        "conversation": Span(str(owners[0]) if len(owners) == 1 else ""),
        "rows": Span(f"{sum(one.row_count for one in findings):,}", "dim"),
        "fix": Span("fix" if fixable else "", "ok"),
        "what": Span(f"{check.title}: {counted(len(findings), 'finding')}{where}{fixes}"),
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


def row_line(ref: RowRef, row: FoundRow | None, ids: ShortIds | None = None, *, longest: int = 1_000) -> Line:
    """A row of a finding: what it is, and the beginning of its text, *longest* cells of it."""
    name = ref_name(ref, row)
    name = name if ids is None else ids.of(name)
    if row is None:
        return (Span(f"      {name}  …", "dim"),)
    head: Line = (Span("      "), Span(name, "key"))
    if row.entry is None:
        if row.ordinal is not None:
            return (*head, Span("  no row", "warn"))
        return (*head, Span(f"  {row.name}")) if row.name else head
    if row.gone:
        what = row.summary_id or f"m{row.message_id}"
        return (*head, Span(f"  {what}: deleted (row missing)", "error"))
    entry = row.entry
    style: StyleName
    if row.summary_id is not None:
        depth = entry.depth or 0
        kind, style = depth_name(depth), depth_style(entry.depth)
    else:
        kind, style = entry.role or "", role_style(entry.role)
    return (
        *head,
        Span(f"  {kind}", style),
        Span(f"  {entry.tokens or 0:,} tok  ", "dim"),
        Span(clip(safe_line(entry.beginning), longest)),
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
        return message_name(key, None if row is None else row.seq)
    if ref.table == "context_items" and len(ref.key) == 2:
        return f"context item at {ref.key[1]}"
    if ref.table == "summary_messages" and len(ref.key) == 2:
        return f"link {ref.key[0]} → m{ref.key[1]}"
    if ref.table == "summary_parents" and len(ref.key) == 2:
        return f"edge {ref.key[0]} → {ref.key[1]}"
    return f"{_NAMES.get(ref.table, ref.table)} {key}".rstrip()


# -- the text ----------------------------------------------------------------------------------------------


def finding_document(
    key: str,
    finding: Finding,
    rows: Mapping[int, FoundRow],
    repeated: Sequence[Repetition] | None,
) -> Document:
    """Everything about a finding; *rows* by place, *repeated* None while it has not been read."""
    check = CHECKS[finding.check]
    owner = finding.conversation_id
    blocks = [
        *_about(finding, "no conversation" if owner is None else f"conversation {owner}"),
        Block(finding.sentence),
        *_named("fix", _fix_text(finding)),
        *_named("why", check.why),
        *_named("certainty", certainty_of(finding)),
    ]
    if check.unanswered:
        blocks += _named("unknown", check.unanswered)
    if finding.check in REPEATING:
        blocks += _repeated(finding, repeated)
    blocks += _rows(finding, rows)
    rule = f"check {check.id}: {FAMILIES[check.family]}"
    return (*blocks, Block(), Block(f"id {key}; {rule}", "dim"))


def _about(finding: Finding, more: str) -> list[Block]:
    check = CHECKS[finding.check]
    spans = (
        Span(f"{check.id} {check.title}", "title"),
        Span("  "),
        confidence_sign(finding.confidence),
        Span(f" {finding.confidence.value}, "),
        severity_word(check.severity),
        Span(f", {more}", "dim"),
    )
    return [Block(spans=spans)]


def _named(name: str, text: str) -> list[Block]:
    return [Block(spans=(Span(f"{name:<10}", "dim"), Span(text)), indent=10)]


def _fix_text(finding: Finding) -> str:
    if finding.fix is not None:
        return f"{finding.fix.effect} (x)"
    return CHECKS[finding.check].unfixed or "No automatic fix."


def _rows(finding: Finding, rows: Mapping[int, FoundRow]) -> list[Block]:
    if not finding.rows:
        return []
    blocks = [Block(), heading(f"Rows ({finding.row_count:,})")]
    shown = finding.rows[:ROWS_SHOWN]
    for place, ref in enumerate(shown):
        line = row_line(ref, rows.get(place), longest=PREVIEW)
        blocks.append(
            Block(spans=(Span(" "), Span(line[0].text.strip(), line[0].style), *line[1:]), indent=1)
        )
    if finding.row_count > len(shown):
        blocks.append(Block(f" … press l on the finding to list {len(finding.rows):,} of them.", "dim"))
    return blocks


def _repeated(finding: Finding, repeated: Sequence[Repetition] | None) -> list[Block]:
    if repeated is None:
        return [Block(), heading("Duplicates"), Block(" reading …", "dim")]
    wasted = sum(one.tokens for one in repeated)
    copies = sum(len(one.copy_ids) for one in repeated)
    named = {ref.key[0] for ref in finding.rows if ref.table == "messages"}
    ordered = sorted(repeated, key=lambda one: named.isdisjoint(one.copy_ids))
    title = f"Stored again in this conversation: {counted(copies, 'message')}, {wasted:,} tokens wasted"
    blocks = [Block(), heading(title)]
    for one in ordered[:REPEATED_SHOWN]:
        here = not named.isdisjoint(one.copy_ids)
        blocks.append(
            Block(
                spans=(
                    Span(" › " if here else "   ", "key"),
                    Span(f"seq {seqs_text(one.original_seqs)} again at {seqs_text(one.copy_seqs)}", "text"),
                    Span(
                        f"  {_kind(one)}, {counted(len(one.copy_ids), 'message')}, {one.tokens:,} tokens",
                        "dim",
                    ),
                    Span(f"; {_standing(one)}", "dim"),
                ),
                indent=3,
            )
        )
    if len(repeated) > REPEATED_SHOWN:
        blocks.append(Block(f"   … {len(repeated) - REPEATED_SHOWN:,} more", "dim"))
    return blocks


def _kind(one: Repetition) -> str:
    kind = repetition_kind(one)
    return kind if one.proof is None else f"{kind} {one.proof.value}"


def _standing(one: Repetition) -> str:
    said = [f"{len(one.in_context):,} in the context", f"{len(one.spare):,} can leave it"]
    if one.summarised:
        said.append(f"{one.summarised:,} summarised")
    return ", ".join(said)


def check_document(result: CheckResult) -> Document:
    """What a skipped check would have checked."""
    check = result.check
    return (
        Block(spans=(Span(f"{check.id} {check.title}", "title"), Span("  skipped", "warn"))),
        Block(sentence(result.reason)),
        Block(),
        *_named("asks", check.question),
        *_named("why", check.why),
    )


def check_group_document(findings: Sequence[Finding], *, listed: bool) -> Document:
    """What several findings of one check have in common; the first of them where they are not *listed*."""
    first, shown = findings[0], findings[:ROWS_SHOWN]
    check = CHECKS[first.check]
    blocks = [
        *_about(first, counted(len(findings), "finding")),
        *_named("fix", _fix_text(next(filter(can_fix, findings), first))),
        *_named("why", check.why),
    ]
    if listed:
        return (
            *blocks,
            *_named("asks", check.question),
            Block(),
            Block(f"check {check.id}: {FAMILIES[check.family]}", "dim"),
        )
    blocks += [
        Block(),
        heading("Findings"),
        *(Block(f" {one.sentence}", indent=1) for one in shown),
    ]
    if len(findings) > len(shown):
        blocks.append(Block(f" … and {len(findings) - len(shown):,} more: enter lists them.", "dim"))
    return tuple(blocks)


def group_document(name: str) -> Document:
    """What a heading stands for."""
    if name == NOT_RUN:
        said = "These checks were skipped or partial, so this is not a clean bill of health."
        return (heading(NOT_RUN), Block(said))
    confidence = next(one for one in Confidence if name.startswith(one.value))
    said = confidence.meaning
    more = "enter folds and unfolds it; space marks all below it that can be fixed."
    return (heading(confidence.value), Block(said), Block(), Block(more, "dim"))
