"""Assembly against what the real assemblers and engines of 0.1.2 and 0.15.3 returned: 214 recorded calls.

What is not compared, and why:
- ``contextProjection.epoch`` of 0.15.3: a hash over a form of the summaries that is not known;
- hashes of single messages and of the halves before and behind the tail: diagnostics, likewise;
- ``systemPromptAddition``: not recorded, and its words are in no database.
The variant ``tailDefault`` of 0.1.2 is the default of the assembler itself, 8; its host always passes 32.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from lcm_core.api import Database
from lcm_core.engine.assembly import AssemblySettings
from lcm_core.engine.messages import OriginKind
from lcm_core.operations.assembly import assembly_basis

from tests.support import recorded

DatabaseFactory = Callable[[str], Path]

#: Conversations, assembler calls and engine calls that were recorded.
RECORDED = {"0.1.2": (7, 98, 28), "0.15.3": (8, 64, 24)}
WITH_TAIL_OF_TEN = AssemblySettings(400_000, fresh_tail_count=10)
CASES = [(version, number) for version, (count, _, _) in RECORDED.items() for number in range(1, count + 1)]


def settings_of(case: str) -> AssemblySettings:
    """The settings that a recording's key names, such as ``6000/tail10/max400``."""
    budget, *variants = case.split("/")
    count, most, prompt = 10, None, None
    for variant in variants:
        if variant.startswith("tail"):
            count = 8 if variant == "tailDefault" else int(variant.removeprefix("tail"))
        elif variant.startswith("max"):
            most = int(variant.removeprefix("max"))
        else:
            prompt = variant.removeprefix("promptAware:")
    return AssemblySettings(int(budget), fresh_tail_count=count, fresh_tail_max_tokens=most, prompt=prompt)


@pytest.fixture(scope="module")
def answers() -> dict[str, Any]:
    return {version: recorded(f"lcm-{version}.assembled.json.gz") for version in RECORDED}


@pytest_asyncio.fixture
async def read(database_file: DatabaseFactory) -> AsyncIterator[Any]:
    held: dict[str, Database] = {}

    async def basis(version: str, number: int, settings: AssemblySettings):
        if version not in held:
            held[version] = await Database.open(database_file(version))

        async def load(reader):
            return await assembly_basis(reader, number, settings, zone=UTC)

        return await held[version].read(load)

    yield basis
    for database in held.values():
        await database.close()


def small_pages(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr("lcm_core.operations.assembly.PAGE", size)
    monkeypatch.setattr("lcm_core.operations.assembly.TYPICAL_TOKENS", 1_000_000)


def conversation(answers: dict[str, Any], version: str, number: int) -> Any:
    [one] = [one for one in answers[version]["conversations"] if one["conversationId"] == number]
    return one


def test_nothing_that_was_recorded_is_left_out(answers: dict[str, Any]):
    for version, expected in RECORDED.items():
        said = answers[version]["conversations"]
        assert answers[version]["config"] == {"freshTailCount": 10, "timezone": "UTC"}
        assert expected == (
            len(said),
            sum(len(one["assembler"]) for one in said),
            sum(len(one["engine"]) for one in said),
        )


@pytest.mark.cases(7)
@pytest.mark.parametrize(("version", "number"), CASES)
async def test_the_assembler_sends_the_same(answers: dict[str, Any], read: Any, version: str, number: int):
    basis = await read(version, number, WITH_TAIL_OF_TEN)
    for case, expected in conversation(answers, version, number)["assembler"].items():
        settings = settings_of(case)
        assert basis.serves(settings)
        found = basis.assembled(settings)
        assert [message.document() for message in found.messages] == expected["messages"], case
        assert found.estimated_tokens == expected["estimatedTokens"], case
        assert {
            "rawMessageCount": found.metadata.raw_messages,
            "summaryCount": found.metadata.summaries,
            "totalContextItems": found.metadata.context_items,
        } == expected["stats"], case
        if "debug" in expected:
            same_debug(found, expected["debug"], case)


def same_debug(found, debug: Any, case: str) -> None:
    """The assembler's own account of how it chose."""
    diagnostics = debug["overflowDiagnostics"]
    assert found.messages_hash == debug["finalMessagesHash"], case
    assert str(found.selection) == debug["selectionMode"]
    assert found.tail.first_ordinal == debug["freshTailOrdinal"]
    assert (found.tail.items, found.tail.tokens) == (debug["freshTailCount"], debug["tailTokens"])
    assert debug["promotedOrdinals"] == []  # the engine takes nothing along from before the tail
    assert found.remaining == debug["remainingBudget"]
    stripped = sum(repair.what == "tool call without a result removed" for repair in found.repairs)
    assert stripped == debug["removedToolUseBlockCount"]
    left_out = [one for one in found.evicted if one.step in ("budget", "prompt")]
    tokens = sum(one.tokens for one in left_out)
    assert diagnostics["totalContextTokens"] == found.estimated_tokens + tokens
    raw = diagnostics["rawMessageCount"] - diagnostics["selectedRawMessageCount"]
    assert sum(bool(one.origin and one.origin.message_id) for one in left_out) == raw


@pytest.mark.cases(7)
@pytest.mark.parametrize(("version", "number"), CASES)
async def test_the_engine_reports_the_same(answers: dict[str, Any], read: Any, version: str, number: int):
    basis = await read(version, number, WITH_TAIL_OF_TEN)
    for case, expected in conversation(answers, version, number)["engine"].items():
        found = basis.assembled(
            AssemblySettings(int(case.rpartition("/")[2]), fresh_tail_count=10, clamp=True)
        )
        assert [message.document() for message in found.messages] == expected["messages"], case
        assert found.sent_tokens == found.metadata.estimated_tokens == expected["estimatedTokens"], case
        assert found.metadata.source == "assembled"
        assert found.metadata.prompt_authoritative
        assert not found.last_cut.messages


@pytest.mark.cases(2)
@pytest.mark.parametrize(("version", "number"), CASES)
async def test_reading_for_a_small_budget_gives_the_same(
    answers: dict[str, Any], read: Any, version: str, number: int, monkeypatch: pytest.MonkeyPatch
):
    """Pages of three items: what was not read is what would have been left out."""
    small_pages(monkeypatch, 3)
    for case, expected in conversation(answers, version, number)["assembler"].items():
        basis = await read(version, number, settings_of(case))
        found = basis.assembled()
        assert [message.document() for message in found.messages] == expected["messages"], case
        assert found.metadata.context_items == expected["stats"]["totalContextItems"]
        assert found.metadata.summaries == expected["stats"]["summaryCount"]
        read_items = len(basis.context.items) + len(basis.context.covered)
        assert found.unread is None or read_items + found.unread.items >= found.metadata.context_items


@pytest.mark.cases(5)
@pytest.mark.parametrize(("version", "number"), CASES)
async def test_every_item_is_sent_or_accounted_for(
    answers: dict[str, Any], read: Any, version: str, number: int
):
    basis = await read(version, number, WITH_TAIL_OF_TEN)
    every = [item.ordinal for item in (*basis.context.items, *basis.context.covered)]
    for case in conversation(answers, version, number)["assembler"]:
        found = basis.assembled(settings_of(case))
        kept = [one.origin for one in found.messages if one.origin.kind is not OriginKind.SYNTHETIC]
        sent = {origin.ordinal for origin in kept}
        gone = [one.ordinal for one in found.evicted]
        assert len(gone) == len(set(gone))
        brief = {one.ordinal for one in kept if one.kind is OriginKind.FOCUS_BRIEF}
        assert sent | set(gone) == set(every)
        assert sent & set(gone) == brief


async def test_the_addition_to_the_system_prompt_knows_of_what_was_not_read(
    read: Any, monkeypatch: pytest.MonkeyPatch
):
    small_pages(monkeypatch, 1)
    found = (await read("0.1.2", 1, AssemblySettings(60, fresh_tail_count=1))).assembled()
    assert found.unread is not None
    assert len(found.messages) == 1
    assert found.system.kind == "deep recall"


async def test_what_cannot_fit_is_not_read(read: Any, monkeypatch: pytest.MonkeyPatch):
    small_pages(monkeypatch, 4)
    found = (await read("0.1.2", 1, AssemblySettings(1500, fresh_tail_count=10))).assembled()
    assert found.unread is not None
    assert (found.unread.first_ordinal, found.unread.last_ordinal + 1) == (0, found.unread.items)
    assert found.unread.items == found.unread.summaries > 50
    assert found.evicted_items == 70 - len(found.messages)


async def test_a_focus_brief_is_sent_whatever_the_budget(read: Any):
    found = (await read("0.15.3", 2, AssemblySettings(100, fresh_tail_count=1))).assembled()
    assert found.messages[0].origin.kind is OriginKind.FOCUS_BRIEF
    steps = {one.step for one in found.evicted}
    assert "focus brief" in steps
    assert "budget" in steps
