"""What the pane of the health screen says of a finding: rule, rows, fix, and what was stored again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from lcm_core.checks import CHECKS, FAMILIES, Repetition
from lcm_core.findings import CheckResult, Confidence, Finding
from lcm_core.store.found_rows import FoundRow

from lcm_tui.screens.health_rows import NOT_RUN, SEVERITIES, SIGNS, row_line
from lcm_tui.widgets.spans import Span
from lcm_tui.widgets.text import Block, Document, heading

#: Rows of a finding that the pane shows; the list shows as many as the finding names.
ROWS_SHOWN: Final = 12
#: Cells of a text that the pane shows of each of them.
PREVIEW: Final = 60
#: Other repetitions of a conversation that the pane of one of them shows.
REPEATED_SHOWN: Final = 200
REPEATING: Final = frozenset({"E3", "E4"})


def finding_document(
    key: str,
    finding: Finding,
    rows: Mapping[int, FoundRow],
    repeated: Sequence[Repetition] | None,
) -> Document:
    """Everything about a finding; *rows* by place, *repeated* None while it has not been read."""
    check = CHECKS[finding.check]
    where = (
        "no conversation" if finding.conversation_id is None else f"conversation {finding.conversation_id}"
    )
    blocks = [
        Block(
            spans=(
                Span(f"{check.id} {check.title}", "title"),
                Span("  "),
                SIGNS[finding.confidence],
                Span(f" {finding.confidence.value}, "),
                SEVERITIES[check.severity],
                Span(f", {where}", "dim"),
            )
        ),
        Block(finding.sentence),
        *_named("fix", _fix_text(finding)),
        *_named("why", check.why),
        *_named("sure", finding.confidence.meaning),
    ]
    if check.unanswered:
        blocks += _named("not told", check.unanswered)
    if finding.check in REPEATING:
        blocks += _repeated(finding, repeated)
    blocks += _rows(finding, rows)
    rule = f"check {check.id} of family {check.family}, {FAMILIES[check.family]}"
    return (*blocks, Block(), Block(f"id {key}; {rule}", "dim"))


def _named(name: str, text: str) -> list[Block]:
    return [Block(spans=(Span(f"{name:<9}", "dim"), Span(text)), indent=9)]


def _fix_text(finding: Finding) -> str:
    if finding.fix is not None:
        return f"{finding.fix.effect} (x)"
    return f"none. {CHECKS[finding.check].unfixed}"


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
        blocks.append(Block(f" … l on the finding lists {len(finding.rows):,} of them.", "dim"))
    return blocks


def _repeated(finding: Finding, repeated: Sequence[Repetition] | None) -> list[Block]:
    if repeated is None:
        return [Block(), heading("Stored again"), Block(" reading …", "dim")]
    wasted = sum(one.tokens for one in repeated)
    copies = sum(len(one.copy_ids) for one in repeated)
    named = {ref.key[0] for ref in finding.rows if ref.table == "messages"}
    ordered = sorted(repeated, key=lambda one: named.isdisjoint(one.copy_ids))
    title = f"Stored again in this conversation: {copies:,} messages, {wasted:,} tokens wasted"
    blocks = [Block(), heading(title)]
    for one in ordered[:REPEATED_SHOWN]:
        here = not named.isdisjoint(one.copy_ids)
        blocks.append(
            Block(
                spans=(
                    Span(" › " if here else "   ", "key"),
                    Span(f"seq {_seqs(one.original_seqs)} again at {_seqs(one.copy_seqs)}", "text"),
                    Span(f"  {_kind(one)}, {len(one.copy_ids):,} messages, {one.tokens:,} tokens", "dim"),
                    Span(f"; {_standing(one)}", "dim"),
                ),
                indent=3,
            )
        )
    if len(repeated) > REPEATED_SHOWN:
        blocks.append(Block(f"   … {len(repeated) - REPEATED_SHOWN:,} more", "dim"))
    return blocks


def _kind(one: Repetition) -> str:
    if one.proof is not None:
        return f"block {one.proof.value}"
    return "flood" if one.flood else "duplicate"


def _standing(one: Repetition) -> str:
    said = [f"{len(one.in_context):,} in the context", f"{len(one.spare):,} can leave it"]
    if one.summarised:
        said.append(f"{one.summarised:,} summarised")
    return ", ".join(said)


def _seqs(ends: tuple[int, int]) -> str:
    return str(ends[0]) if ends[0] == ends[1] else f"{ends[0]}-{ends[1]}"


def check_document(result: CheckResult) -> Document:
    """What a check that was not run would have asked."""
    check = result.check
    return (
        Block(spans=(Span(f"{check.id} {check.title}", "title"), Span("  not run", "warn"))),
        Block(f"{result.reason[:1].upper()}{result.reason[1:]}."),
        Block(),
        *_named("asks", check.question),
        *_named("why", check.why),
    )


def group_document(name: str) -> Document:
    """What a heading stands for."""
    if name == NOT_RUN:
        said = "These checks were not asked, or not of everything. That is no sign that all is well."
        return (heading(NOT_RUN), Block(said))
    confidence = next(one for one in Confidence if name.startswith(one.value))
    said = confidence.meaning
    more = "enter folds and unfolds it; space marks all below it that can be fixed."
    return (heading(confidence.value), Block(said), Block(), Block(more, "dim"))
