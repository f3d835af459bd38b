"""What the engine itself stored of host messages and transcripts of unusual shape, row by row."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from lcm_core.engine.rules import RULES_PRESENT
from lcm_core.engine.stored_parts import canonical
from lcm_host.messages import StoredMessage, host_message, store_message

from tests.operations.ingest_replay import (
    conversations,
    differences,
    ingest_case,
    opened,
    recording,
    transcript_step,
)
from tests.support import with_values

MESSAGES = recording("messages")


def told(faults: dict[str, list[str]]) -> str:
    """The first faults of some cases, and of how many."""
    lines = [f"{case}: {line}" for case, found in faults.items() for line in found[:3]]
    return "\n".join([f"{len(faults)} cases differ", *lines[:20]])


def test_every_message_is_stored_as_the_engine_stored_it() -> None:
    """All cases of one batch, without a database: text, tokens, parts, hashes, names of events, times."""
    faults: dict[str, list[str]] = {}
    compared = 0
    for case in (case for case in MESSAGES if len(case["batches"]) == 1):
        wanted = case["rows"]["messages"] if case["rows"] else []
        found = [
            stored
            for message in case["batches"][0]
            if isinstance(stored := _stored(message, case["threshold"]), StoredMessage)
        ]
        if case["rows"] and case["rows"]["large_files"]:
            continue  # their references hold ids that are made up: compared in a database
        ours = [_told(one) for one in found]
        theirs = [{name: row[name] for name in one} for row, one in zip(wanted, ours, strict=True)]
        compared += len(theirs)
        if lines := differences(ours, theirs):
            faults[f"{case['n']} {case['group']}"] = lines
    assert not faults, told(faults)
    assert compared >= 700


def _stored(message: dict[str, Any], threshold: int) -> object:
    return store_message(
        host_message(message), with_values(RULES_PRESENT, large_file_token_threshold=threshold).ingest
    )


def _told(message: StoredMessage) -> dict[str, Any]:
    columns = ("part_type", "text", "tool_call_id", "tool_name", "tool_input", "tool_output", "metadata")
    names = {"text": "text_content"}
    parts = [
        {
            "ordinal": ordinal,
            **{
                names.get(name, name): value for name in columns if (value := getattr(part, name)) is not None
            },
        }
        for ordinal, part in enumerate(message.parts)
    ]
    return {
        "role": message.role,
        "content": message.content,
        "token_count": message.tokens,
        "identity_hash": message.identity,
        "openclaw_sender_metadata": message.sender,
        "stable_event_key": message.event_key,
        "created_at": message.created_at or "now",
        "parts": parts,
    }


async def _replayed(cases: Sequence[dict[str, Any]], folder: Path) -> dict[str, list[str]]:
    """The cases that differ: one database for each threshold, as they were recorded."""
    faults: dict[str, list[str]] = {}
    for threshold in sorted({case["threshold"] for case in cases}):
        path = folder / str(threshold) / "lcm.db"
        path.parent.mkdir()
        chosen = [case for case in cases if case["threshold"] == threshold]
        async with await opened(path, {"largeFileTokenThreshold": threshold}) as engine:
            refused = {case["n"]: await ingest_case(engine, case) for case in chosen}
        for case in chosen:
            rows = conversations(path, f"s{case['n']}")
            lines = differences(rows[0] if rows else None, case["rows"])
            wanted = case.get("refused") or [None] * len(case["batches"])
            lines += differences(refused[case["n"]], wanted, "refused")
            if lines:
                faults[f"{case['n']} {case['group']}"] = lines
    return faults


@pytest.mark.long
async def test_databases_hold_what_the_engine_wrote(tmp_path: Path) -> None:
    """Files, search rows, contexts and repeated batches: every other case of those that have any."""
    special = [
        case
        for case in MESSAGES
        if len(case["batches"]) > 1 or case["rows"] is None or case["rows"]["large_files"]
    ]
    faults = await _replayed(special[::2], tmp_path)
    assert not faults, told(faults)
    assert len(special) >= 200


@pytest.mark.long
async def test_all_databases_hold_what_the_engine_wrote(tmp_path: Path) -> None:
    faults = await _replayed(MESSAGES, tmp_path)
    assert not faults, told(faults)


@pytest.mark.long
async def test_transcripts_are_followed_as_the_engine_followed_them(tmp_path: Path) -> None:
    """Every step of every case: answers and all rows."""
    faults: dict[str, list[str]] = {}
    steps = 0
    for number, case in enumerate(recording("transcripts")):
        folder = tmp_path / str(number)
        folder.mkdir()
        async with await opened(folder / "lcm.db", case["config"]) as engine:
            for at, step in enumerate(case["steps"]):
                answer = await transcript_step(engine, folder, step)
                lines = differences(conversations(folder / "lcm.db"), step["rows"])
                lines += differences(answer, step["result"], "answer")
                steps += 1
                if lines:
                    faults[f"{case['name']} {at}"] = lines
    assert not faults, told(faults)
    assert steps == 74


def test_the_canonical_form_is_stable() -> None:
    """What was put into it once stays as it is."""
    for case in MESSAGES:
        for batch in case["batches"]:
            for message in batch:
                text = message.get("content")
                if case["group"] == "decorated" and isinstance(text, str):
                    once = canonical("user", text)
                    assert canonical("user", once) == once
                    assert canonical("assistant", text) == text
