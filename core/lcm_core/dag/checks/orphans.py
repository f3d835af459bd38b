"""Family B, summaries that nothing uses (B13, B23)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from lcm_core.dag.checks.facts import Limits, Structure, StructureRule, Tally, found, summary_row
from lcm_core.dag.checks.holes import fell_out, gaps_of, resets
from lcm_core.dag.checks.relink import lost_sources
from lcm_core.findings import Confidence, Finding, FixId
from lcm_core.records import SummaryId

_BROKEN, _SUSPICIOUS, _BY_DESIGN = Confidence.BROKEN, Confidence.SUSPICIOUS, Confidence.BY_DESIGN


def _orphans(structure: Structure, limits: Limits) -> Iterator[Finding]:
    if structure.archived or not structure.orphans:
        return
    by_reset, gaps = resets(structure, limits), gaps_of(structure)
    lost = {source: consumer for consumer, found_in in lost_sources(structure).items() for source in found_in}
    left = {source: gone for gone, sources in structure.remains.items() for source in sources}
    for orphan in structure.orphans:
        confidence, why, fix = _SUSPICIOUS, "nothing that is recorded explains it", None
        span = structure.spans.get(orphan)
        if orphan in lost:
            confidence, fix = _BROKEN, FixId.RELINK
            why = f"the counters of {lost[orphan]} prove that it was one of its sources"
        elif orphan in left:
            confidence, fix = _BROKEN, FixId.DROP_DANGLING_ITEMS
            why = f"edges name it as a source of {left[orphan]}, which is gone and stands in the context (A2)"
        elif fell_out(structure, orphan, gaps):
            confidence, fix = _BROKEN, FixId.RESTORE_SUMMARIES
            why = "it covers exactly what a gap in the context lacks"
        elif span is not None and any(block.first <= span[0] and span[1] <= block.last for block in by_reset):
            confidence, why = _BY_DESIGN, "/new left it out"
        elif span is not None and _reached_otherwise(structure, orphan):
            confidence, why = (
                _BY_DESIGN,
                "what it covers is in the context in another way, as after dissolving it",
            )
        yield found(
            "B13",
            confidence,
            structure.id,
            [summary_row(orphan)],
            f"Neither the context nor another summary uses {orphan}; {why}.",
            fix,
        )


def _reached_otherwise(structure: Structure, orphan: SummaryId) -> bool:
    return all(
        structure.raw[place] or structure.linked[place] == 2
        for below in structure.below([orphan])
        for place in structure.places(below)
    )


def _unused_in_archive(structure: Structure, limits: Limits) -> Iterator[Finding]:
    if not structure.archived:
        return
    rows = Tally(limits)
    for orphan in structure.orphans:
        rows.add("summaries", orphan)
    yield from rows.told("B23", _BY_DESIGN, structure, "summary", "are used by nothing; it is archived.")


RULES: Final[Mapping[str, StructureRule]] = {"B13": _orphans, "B23": _unused_in_archive}
