"""Compaction does, pass by pass and row by row, what the engine did in 78 recorded cases of 1,180 passes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from lcm_core.operations.compaction.run import Step
from lcm_core.operations.compaction.sweep import Made, Refused, Skipped
from lcm_core.summarize.request import SummaryRequest

from tests.change.compacting import VERSIONS, Recorded, cases, digest, left, repeating, report, start_database
from tests.change.support import search_faults, value

CASES = {version: cases(version) for version in VERSIONS}
ALL = [(version, case["name"]) for version in VERSIONS for case in CASES[version]]
#: A few that touch most rules and make few passes; `make test-long` repeats them all.
FEW = [
    ("0.1.2", "sweep-tail0"),
    ("0.1.2", "leaf-x6"),
    ("0.1.2", "sweep-newyork-tz-mix"),
    ("0.15.3", "sweep-two-stage-tail"),
    ("0.15.3", "sweep-tools-mix"),
    ("0.15.3", "head-auth-failure"),
    ("0.15.3", "head-summaryModel"),
    ("0.15.3", "sweep-odd-small-chunks-skips-mix"),
]


def _case(version: str, name: str) -> Recorded:
    return next(case for case in CASES[version] if case["name"] == name)


@pytest.mark.parametrize(("version", "name"), FEW)
async def test_repeats_what_the_engine_did(version: str, name: str, tmp_path: Path) -> None:
    await _repeat(version, name, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize(("version", "name"), ALL)
async def test_repeats_everything_the_engine_did(version: str, name: str, tmp_path: Path) -> None:
    await _repeat(version, name, tmp_path)


async def _repeat(version: str, name: str, folder: Path) -> None:
    case = _case(version, name)
    path = start_database(version, folder / "lcm.db")
    first_event = 1 + value(path, "SELECT max(message_id) FROM messages")
    names: dict[str, str] = {}
    done = 0
    async with repeating(path, case) as operations:
        number = 0
        async for repeated in operations:
            for step, calls in zip(repeated.steps, repeated.calls, strict=True):
                wanted = case["passes"][done]
                assert _pass(step, calls, names) == _wanted(wanted), f"pass {done}"
                done += 1
            assert repeated.result is not None
            assert report(repeated.result, names) == case["ops"][number]["result"]
            number += 1
    assert done == len(case["passes"])
    found = left(path, case["conversation"], names, first_event)
    final = {
        **case["final"],
        "links": sorted(case["final"]["links"]),
        "edges": sorted(case["final"]["edges"]),
    }
    for table, rows in final.items():
        assert found[table] == rows, table
    assert search_faults(path) == []


def _pass(step: Step, calls: list[SummaryRequest], names: dict[str, str]) -> dict[str, Any]:
    """A pass as the recordings hold it."""
    due, draft = step.chunk.due, step.draft
    saved = 0
    match step.outcome:
        case Made(summary_id=made, saved=saved):
            names[made] = f"s{len(names)}"
            outcome = "created"
        case Skipped():
            outcome = "skipped:empty-source"
        case Refused():
            outcome = "auth-failure"
        case other:
            outcome = str(other)
    text = draft.text if draft is not None else None
    return {
        "kind": "leaf" if due.is_leaf else "condensed",
        "depth": due.depth,
        "replaced": [due.run.start, due.run.stop - 1],
        "outcome": outcome,
        "level": text.level if text else None,
        "tokenCount": text.tokens if text else None,
        "content": digest(text.content) if text else None,
        "saved": saved,
        "calls": [[call.aggressive, call.depth, digest(call.text), digest(call.previous)] for call in calls],
    }


def _wanted(recorded: Recorded) -> dict[str, Any]:
    shown = {key: value for key, value in recorded.items() if key not in ("before", "after", "sources")}
    return {**shown, "saved": recorded["before"] - recorded["after"]}
