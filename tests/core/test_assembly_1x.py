"""Contexts of the 1.x line: what its assembler and its last cut made of them, and its summaries of a turn.

Recorded with the assembler, the stores and the compaction of 1.0-beta.4 and the lines that 1.1.0 adds; the
last cut of 1.0-beta.4 was executed over the same messages, that of 1.1 was written after reading it. Contexts
that nobody recorded hold the rule of docs/spec/assembly.md, told a second time here.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lcm_core.api import Database
from lcm_core.base.javascript import js_json
from lcm_core.base.values import replace
from lcm_core.engine.assembly import AssemblySettings
from lcm_core.engine.messages import OriginKind, Role
from lcm_core.engine.rules import (
    RULES_1_0,
    RULES_1_0_BETA,
    RULES_1_1,
    RULES_PRESENT,
    engine_rules,
)
from lcm_core.operations.assembly import assembly_basis
from lcm_core.store.context import tool_history

from tests.conftest import DatabaseFactory
from tests.support import recorded

RECORDED = {"1.1.0-shapes": 105, "1.1.0-upgraded": 28}
#: The messages of 1.1 before the last cut of 1.0-beta.4.
WITH_OLD_CUT = replace(
    RULES_1_1,
    assembly=replace(RULES_1_1.assembly, clamp=RULES_1_0_BETA.assembly.clamp, counts_senders=True),
)


@pytest.mark.long
@pytest.mark.parametrize("version", RECORDED)
async def test_every_recorded_context_is_sent_alike(version: str, database_file: DatabaseFactory):
    answers = recorded(f"lcm-{version}.expected.json.xz")
    wrong: list[str] = []
    count = 0
    async with await Database.open(database_file(version)) as database:
        for number, budgets in answers["contexts"].items():
            for budget, expected in budgets.items():
                wanted = AssemblySettings(int(budget), fresh_tail_count=answers["freshTailCount"])
                basis = await database.read(assembly_basis, int(number), wanted, zone=UTC)
                wrong += [f"{number}/{budget}: {what}" for what in different(basis, wanted, expected)]
                count += 1
    assert (wrong, count) == ([], RECORDED[version])


def different(basis, wanted: AssemblySettings, expected: Any) -> Iterator[str]:
    """What of one context is not as it was recorded."""
    assert basis.rules.name == "1.1"
    before, after = basis.assembled(), basis.assembled(replace(wanted, clamp=True))
    old = replace(basis, rules=WITH_OLD_CUT).assembled(replace(wanted, clamp=True))
    messages = {"assembled": before, "sent_1_1": after, "sent_beta4": old}
    yield from (name for name, one in messages.items() if written(one) != list(map(js_json, expected[name])))
    numbers = {
        "estimatedTokens": before.estimated_tokens,
        "serializedBeforeClamp": sum(before.weights),
        "sentTokens_1_1": after.sent_tokens,
        "clamped_1_1": bool(after.last_cut.messages),
    }
    yield from (f"{name} {value}" for name, value in numbers.items() if value != expected[name])
    if (before.last_cut.messages, before.last_cut.tokens) != (after.last_cut.messages, after.sent_tokens):
        yield "what the last cut would take"
    sent = {one.origin.ordinal for one in after.messages}
    briefs = (OriginKind.FOCUS_BRIEF,)  # one has the ordinal of the first summary that it covers
    gone = [one.ordinal for one in after.evicted if one.origin is None or one.origin.kind not in briefs]
    every = {item.ordinal for item in (*basis.context.items, *basis.context.covered)}
    if sent | set(gone) != every or len(set(gone)) != len(gone):
        yield "an item is neither sent nor accounted for"


def written(one) -> list[str]:
    return [js_json(message.document()) for message in one.messages]


@pytest.mark.parametrize(
    ("version", "name"),
    [("0.15.3", "0.15"), ("1.0-next", "1.0-beta"), ("1.1.0-shapes", "1.1"), ("1.1.1-next", "1.1")],
)
async def test_the_schema_says_which_last_cut_a_file_gets(
    version: str, name: str, database_file: DatabaseFactory
):
    known = {one.name: one for one in (RULES_PRESENT, RULES_1_0_BETA, RULES_1_0, RULES_1_1)}
    async with await Database.open(database_file(version)) as database:
        rules = await database.read(rules_of)
    assert (rules.name, rules.assembly) == (name, known[name].assembly)


async def rules_of(reader: Any):
    return engine_rules(reader.schema)


def test_what_changed_from_one_engine_to_the_next():
    def values(rules) -> dict[str, Any]:
        how, clamp = rules.assembly, rules.assembly.clamp
        assert clamp is not None
        return {
            "early": clamp.acts_above_share,
            "turns": clamp.keeps_turns,
            "results": how.weighs_results,
            "senders": how.counts_senders,
            "answers": how.answers_in_turn,
        }

    present = {"early": False, "turns": False, "results": False, "senders": True, "answers": False}
    beta = present | {"early": True, "results": True}
    release = beta | {"senders": False}
    assert values(RULES_PRESENT) == present
    assert values(RULES_1_0_BETA) == beta
    assert values(RULES_1_0) == release
    assert values(RULES_1_1) == release | {"turns": True, "answers": True}


# -- summaries inside the current turn ---------------------------------------------------------------------

SCHEMA = """
CREATE TABLE conversations (conversation_id INTEGER PRIMARY KEY, session_id TEXT, session_key TEXT,
    active INTEGER, archived_at TEXT, title TEXT, created_at TEXT, updated_at TEXT);
CREATE TABLE messages (message_id INTEGER PRIMARY KEY, conversation_id INTEGER, seq INTEGER, role TEXT,
    content TEXT, token_count INTEGER, identity_hash TEXT, created_at TEXT, openclaw_sender_metadata TEXT);
CREATE TABLE summaries (summary_id TEXT PRIMARY KEY, conversation_id INTEGER, kind TEXT, depth INTEGER,
    content TEXT, token_count INTEGER, file_ids TEXT, created_at TEXT, earliest_at TEXT, latest_at TEXT,
    descendant_count INTEGER, descendant_token_count INTEGER, source_message_token_count INTEGER, model TEXT);
CREATE TABLE summary_messages (summary_id TEXT, message_id INTEGER, ordinal INTEGER);
CREATE TABLE summary_parents (summary_id TEXT, parent_summary_id TEXT, ordinal INTEGER);
CREATE TABLE context_items (conversation_id INTEGER, ordinal INTEGER, item_type TEXT, message_id INTEGER,
    summary_id TEXT, created_at TEXT);
CREATE TABLE pending_compaction_batches (batch_id TEXT);
INSERT INTO conversations VALUES (1, 's', NULL, 1, NULL, NULL, '', ''), (2, 't', NULL, 1, NULL, NULL, '', '');
"""
Row = tuple[int, int, str]  # conversation, seq, role
Node = tuple[int, str, int, list[int], list[int]]  # conversation, kind, depth, messages, sources


@st.composite
def turns(draw: st.DrawFn) -> tuple[list[Node], list[Row]]:
    """Summaries of this turn's tools, three leaves and what was condensed from them, with a few faults."""
    rows: list[Row] = [(1, 7 + at, "tool" if at % 2 else "assistant") for at in range(6)]
    nodes: list[Node] = [(1, "leaf", 0, draw(FEW), []) for _ in range(3)]
    nodes += [(1, "condensed", depth, draw(FEW), draw(SOURCES[depth])) for depth in (1, 2)]
    for fault in draw(
        st.lists(st.sampled_from(["owner", "seq", "role", "node", "kind", "depth"]), max_size=2)
    ):
        at = draw(st.integers(0, 4))
        owner, kind, depth, messages, sources = nodes[at]
        _, seq, role = rows[at]
        match fault:
            case "owner":
                rows[at] = (2, seq, role)
            case "seq":
                rows[at] = (1, draw(st.sampled_from([3, 6])), role)
            case "role":
                rows[at] = (1, seq, draw(st.sampled_from(["user", "system", "assistant", "tool"])))
            case "node":
                nodes[at] = (2, kind, depth, messages, sources)
            case "kind":
                nodes[at] = (owner, "leaf" if kind == "condensed" else "condensed", depth, messages, sources)
            case _:
                nodes[at] = (owner, kind, draw(st.integers(0, 2)), messages, sources)
    return nodes, rows


#: Places of messages; the last is of none that there is.
FEW = st.lists(st.sampled_from([0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5, 6]), max_size=4, unique=True)
SOURCES = {
    1: st.lists(st.integers(0, 2), max_size=3, unique=True),
    2: st.lists(st.integers(0, 3), max_size=3, unique=True),
}


def is_proven(number: int, nodes: list[Node], rows: list[Row]) -> bool:
    """The rule of docs/spec/assembly.md, "Summaries inside the current turn", as it is told there."""
    roles: set[str] = set()
    waiting, seen = [number], set[int]()
    while waiting:
        at = waiting.pop()
        if at in seen:
            continue
        seen.add(at)
        owner, kind, depth, messages, sources = nodes[at]
        below = [one for one in sources if one < len(nodes)] if kind == "condensed" else []
        if owner != 1 or not (below if kind == "condensed" else messages):
            return False
        for one in messages:
            if one >= len(rows) or rows[one][0] != 1 or rows[one][1] <= 6 or rows[one][2] not in ANSWERS:
                return False
            roles.add(rows[one][2])
        if any(nodes[one][2] >= depth for one in below):
            return False
        waiting += below
    return roles == ANSWERS


ANSWERS = {"assistant", "tool"}


def filled(path: Path, nodes: list[Node], rows: list[Row]) -> None:
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA synchronous = OFF")
        db.executescript(f"BEGIN; {SCHEMA} COMMIT;")
        user = (100, 1, 6, "user", "go on", 3, None, "", None)
        db.execute("INSERT INTO messages VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", user)
        db.execute("INSERT INTO context_items VALUES (1, 0, 'message', 100, NULL, '')")
        for at, (owner, seq, role) in enumerate(rows):
            row = (at, owner, seq, role, "said", 3, None, "", None)
            db.execute("INSERT INTO messages VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
        for at, (owner, kind, depth, messages, sources) in enumerate(nodes):
            held = (f"sum_{at}", owner, kind, depth, "what was done", 5, "[]", "", None, None, 0, 0, 0, None)
            db.execute(f"INSERT INTO summaries VALUES ({', '.join('?' * 14)})", held)
            db.execute(
                "INSERT INTO context_items VALUES (1, ?, 'summary', NULL, ?, '')", (at + 1, f"sum_{at}")
            )
            for ordinal, one in enumerate(messages):
                db.execute("INSERT INTO summary_messages VALUES (?, ?, ?)", (f"sum_{at}", one, ordinal))
            for ordinal, one in enumerate(sources):
                db.execute(
                    "INSERT INTO summary_parents VALUES (?, ?, ?)", (f"sum_{at}", f"sum_{one}", ordinal)
                )
    db.close()


@pytest.mark.long
@settings(max_examples=30, deadline=None)
@given(turns())
async def test_a_summary_of_this_turns_tools_is_an_answer(
    tmp_path_factory: pytest.TempPathFactory, turn: tuple[list[Node], list[Row]]
):
    nodes, rows = turn
    path = tmp_path_factory.mktemp("turn") / "lcm.db"
    filled(path, nodes, rows)
    expected = {f"sum_{at}" for at in range(len(nodes)) if is_proven(at, nodes, rows)}
    async with await Database.open(path) as database:
        proven = await database.read(
            tool_history,
            1,
            [f"sum_{at}" for at in range(len(nodes))],
            100,
        )
        basis = await database.read(assembly_basis, 1, AssemblySettings(9_000), zone=UTC)
    assert proven == expected
    found = {one.sent.origin.summary_id: one for one in basis.context.items if not one.is_message}
    assert {name for name, one in found.items() if one.sent.role is Role.ASSISTANT} == expected
    for one in basis.assembled().messages:
        if one.role is Role.ASSISTANT:
            assert list(one.document()) == ["role", "content"]
            assert one.text.startswith("<summary ")
