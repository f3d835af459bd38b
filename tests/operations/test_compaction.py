"""Compaction does, pass by pass and row by row, what the engine did in its recorded cases.

78 cases of ordinary shape with 1,180 passes, 394 of odd shapes with 1,307. Every pass is compared before the
next one is made, so each begins in the recorded state, and the whole case is repeated in sequence.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from lcm_core.operations.selection import PassMade, PassRefused, PassSkipped

from tests.change.support import search_faults
from tests.databases import value
from tests.operations.compacting import (
    VERSIONS,
    Recorded,
    cases,
    digest,
    left,
    repeating,
    report,
    start_database,
)
from tests.support import sampled

#: A few that touch most rules and make few passes; `make test-long` repeats them all.
FEW = {
    "0.1.2": ("sweep-tail0", "leaf-x6", "sweep-newyork-tz-mix"),
    "0.15.3": (
        "sweep-two-stage-tail",
        "sweep-tools-mix",
        "head-auth-failure",
        "head-summaryModel",
        "sweep-odd-small-chunks-skips-mix",
    ),
}
#: Of the odd cases every so many in the usual run.
STRIDE = 16


@pytest.mark.parametrize("version", sampled(VERSIONS, ["0.15.3"]))
async def test_repeats_what_the_engine_did(version: str, tmp_path: Path) -> None:
    chosen = [case for case in cases(version) if case["name"] in FEW[version]]
    assert len(chosen) == len(FEW[version])
    for case in chosen:
        await _repeat(version, case, tmp_path / "lcm.db", wide=False)
    for case in cases(version, wide=True)[::STRIDE]:
        await _repeat(version, case, tmp_path / "lcm.db", wide=True)


@pytest.mark.long
@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("version", VERSIONS)
async def test_repeats_everything_the_engine_did(version: str, wide: bool, tmp_path: Path) -> None:
    for case in cases(version, wide=wide):
        await _repeat(version, case, tmp_path / "lcm.db", wide=wide)


async def _repeat(version: str, case: Recorded, path: Path, *, wide: bool) -> None:
    for old in path.parent.glob("lcm.db*"):
        old.unlink()
    start_database(version, path, wide=wide)
    name = f"{version} {case['name']} of conversation {case['conversation']}"
    first_event = 1 + value(path, "SELECT max(message_id) FROM messages")
    names: dict[str, str] = {}
    done = 0
    async with repeating(path, case) as operations:
        number = 0
        async for repeated in operations:
            for step, calls in zip(repeated.steps, repeated.calls, strict=True):
                wanted = _wanted(case["passes"][done])
                assert _pass(step, calls, names, wanted) == wanted, f"{name}, pass {done}"
                done += 1
            assert repeated.result is not None
            assert report(repeated.result, names) == case["ops"][number]["result"], f"{name}, {number}"
            number += 1
    assert done == len(case["passes"]), name
    found = left(path, case["conversation"], names, first_event)
    final = {
        **case["final"],
        "links": sorted(case["final"]["links"]),
        "edges": sorted(case["final"]["edges"]),
    }
    for table, rows in final.items():
        assert found[table] == rows, f"{name}, {table}"
    assert wide or search_faults(path) == [], name  # the odd start files have no rows for searching


def _pass(step, calls, names: dict[str, str], wanted: Recorded) -> dict[str, Any]:
    """A pass as the recordings hold it; of what only some of them hold, what is *wanted*."""
    due, draft, text = step.chunk.due, step.draft, step.draft.text if step.draft is not None else None
    sources = [names.get(ref, ref) if isinstance(ref, str) else ref for ref in step.chunk.refs]
    removed = 0
    match step.outcome:
        case PassMade(summary_id=made):
            names[made] = f"s{len(names)}"
            outcome, removed = "created", step.chunk.tokens
        case PassSkipped():
            outcome = "skipped:empty-source"
        case PassRefused():
            outcome = "auth-failure"
        case other:
            outcome = str(other)
    found = {
        "kind": "leaf" if due.is_leaf else "condensed",
        "depth": due.depth,
        "replaced": [due.run.start, due.run.stop - 1],
        "sources": sources,
        "outcome": outcome,
        "level": text.level if text else None,
        "tokenCount": text.tokens if text else None,
        "content": digest(text.content) if text else None,
        "removed": removed,
        "added": text.tokens if text else 0,
        "calls": [[call.aggressive, call.depth, digest(call.text), digest(call.previous)] for call in calls],
    }
    assert draft is None or outcome == "created"
    return {key: found[key] for key in wanted}


def _wanted(recorded: Recorded) -> dict[str, Any]:
    return {key: value for key, value in recorded.items() if key not in ("before", "after")}
