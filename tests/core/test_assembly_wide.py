"""Assembly against the recordings of deliberately unusual contexts: 264 of each of the two engines.

Each holds what the assembler returned (messages with every member and the order of these, tokens, counts, its
own account), and of the present engine also what was sent after the final clamp, to a host that hands the
prompt over by itself and to one that does not. Made by the engines of 0.1.2 and HEAD 4214b480 (0.15.3 and a
little later) over generated rows. Left out: ``timestamp`` of results that 0.1.2 makes up, the moment at which
it did.
"""

from __future__ import annotations

import lzma
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from lcm_core.api import Database
from lcm_core.base.javascript import js_json
from lcm_core.base.values import replace
from lcm_core.engine.assembly import AssemblySettings
from lcm_core.engine.items import stub
from lcm_core.operations.assembly import assembly_basis

from tests.support import DATA, recorded, sampled

VERSIONS = ("0.1.2", "0.15.3")


@pytest.mark.parametrize("version", sampled(VERSIONS, ["0.15.3"]))
async def test_every_recorded_context_is_assembled_alike(version: str, tmp_path: Path):
    cases = recorded(f"wide-assembly-{version}.json.xz")["cases"]
    assert len(cases) == 264
    path = tmp_path / "lcm.db"
    path.write_bytes(lzma.decompress((DATA / f"wide-assembly-{version}.db.xz").read_bytes()))
    wrong: list[str] = []
    async with await Database.open(path) as database:
        for number, case in enumerate(cases):
            basis = await database.read(
                assembly_basis,
                case["conversationId"],
                settings_of(case),
                zone=ZoneInfo(case["timezone"]),
            )
            different = [*of_assembler(case, basis), *of_engine(case, basis)]
            if different:
                wrong.append(f"case {number} (conversation {case['conversationId']}): {different}")
    assert not wrong, f"{len(wrong)} of {len(cases)} differ, the first: {wrong[0]}"


def settings_of(case: Any) -> AssemblySettings:
    return AssemblySettings(
        case["tokenBudget"],
        fresh_tail_count=case["freshTailCount"],
        fresh_tail_max_tokens=case.get("freshTailMaxTokens"),
        prompt=case.get("prompt"),
        prompt_aware=case.get("promptAwareEviction", False),
        stub_large_tool_payloads=case.get("stubLargeToolPayloads", False),
    )


def written(messages: Any) -> list[str]:
    """Messages as JSON, so that the order of their members counts too."""
    return [js_json({name: one[name] for name in one if name != "timestamp"}) for one in messages]


def sent(found) -> list[str]:
    return [js_json(message.document()) for message in found.messages]


def of_assembler(case: Any, basis) -> Iterator[str]:
    """What differs from what the assembler returned."""
    expected, found = case["assembler"], basis.assembled()
    if sent(found) != written(expected["messages"]):
        yield "messages"
    counts = {
        "rawMessageCount": found.metadata.raw_messages,
        "summaryCount": found.metadata.summaries,
        "totalContextItems": found.metadata.context_items,
    }
    if counts != expected["stats"]:
        yield f"stats {counts}"
    if found.estimated_tokens != expected["estimatedTokens"]:
        yield f"estimatedTokens {found.estimated_tokens}, not {expected['estimatedTokens']}"
    if "debug" in case:
        account = account_of(basis, found)
        yield from (f"{name} {account[name]}" for name in account if account[name] != case["debug"][name])


def account_of(basis, found) -> dict[str, Any]:
    """The assembler's account of how it chose, under the engine's names."""
    # Both counts are those of messages: which lost a call, or were an empty list of the assistant's before.
    touched = {
        repair.origin.ordinal
        for repair in found.repairs
        if repair.what == "tool call without a result removed"
    }
    not_chosen = [one for one in found.evicted if one.step in ("budget", "prompt")]
    empty = {item.ordinal for item in basis.context.items if item.sent.content == ()}
    touched |= empty - {one.ordinal for one in not_chosen}
    left_out = sum(one.tokens for one in not_chosen)
    evictable = found.estimated_tokens + left_out - found.tail.tokens
    first = found.tail.first_ordinal
    before = [item for item in basis.context.items if first is None or item.ordinal < first]
    briefs = sum(item.tokens for item in before if item.is_brief)
    stubs = [
        (item.tokens, reference.tokens)
        for item in before
        if basis.loaded_for.stub_large_tool_payloads and (reference := stub(item, basis.rules)) is not item
    ]
    return {
        "selectionMode": str(found.selection),
        "freshTailOrdinal": found.tail.first_ordinal,
        "freshTailCount": found.tail.items,
        "tailTokens": found.tail.tokens,
        "remainingBudget": found.remaining,
        "evictableTotalTokens": evictable - briefs,
        "removedToolUseBlockCount": len(touched),
        "touchedAssistantMessageCount": len(touched),
        "stubStats": {
            "stubbedCount": len(stubs),
            "tokensSaved": sum(max(0, whole - reference) for whole, reference in stubs),
        },
        "finalMessagesHash": found.messages_hash,
        "totalContextTokens": found.estimated_tokens + left_out,
    }


def of_engine(case: Any, basis) -> Iterator[str]:
    """What differs from what the present engine sent."""
    if "engine" not in case:
        return
    for name, delivers in (("engine", False), ("engineHostDeliversTurn", True)):
        if name not in case:
            name = "engine"
        expected = case[name]
        messages = case["assembler" if expected["messages"] is None else name]["messages"]
        settings = replace(settings_of(case), clamp=True, host_delivers_turn=delivers)
        found = basis.assembled(settings)
        if sent(found) != written(messages):
            yield f"{name}: messages"
        if found.sent_tokens != expected["estimatedTokens"]:
            yield f"{name}: {found.sent_tokens} tokens, not {expected['estimatedTokens']}"
        if not delivers:
            clamp = case["clamp"]
            cut = (found.last_cut.messages, found.last_cut.tokens)
            if cut != (clamp["evictedMessages"], clamp["serializedTokens"]):
                yield f"clamp {cut}"
            before = sum(basis.assembled().weights)
            if before != clamp["serializedTokensBefore"]:
                yield f"{before} tokens before the clamp, not {clamp['serializedTokensBefore']}"
