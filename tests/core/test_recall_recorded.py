"""Recall as the engine has it: every recorded call of its four tools, and of the functions under them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from lcm_core.api import Database
from lcm_core.base.tokens import estimate_weighted
from lcm_core.base.values import to_json
from lcm_recall.answer import Parameters, ToolAnswer, ToolError
from lcm_recall.cue import cue_lines, cue_text, identifiers_in, snippet_of
from lcm_recall.delegation import DelegationError, Delegations, answer_query, failure_text, plan_query
from lcm_recall.engine_tools import expand_all
from lcm_recall.grants import Caller, Grants, route
from lcm_recall.queries import compiled, like_plan, match_expression, snippet_around
from lcm_recall.tools import RecallTools

from tests.core.recalling import NOW, recall, settings_in
from tests.databases import building, new_database
from tests.support import recorded

RECORDED = recorded("lcm-0.15.3.recall.json.xz")
FUNCTIONS = RECORDED["functions"]
MAIN = "agent:main:main"
SUB_AGENT = "agent:main:subagent:abc"
#: The searches with errors were recorded without the fixed clock; the age of a hit counts in one of them.
LATER = datetime(2026, 9, 1, tzinfo=UTC)


def same(answer, call: dict[str, Any]) -> None:
    assert answer.details == call["details"], call["params"]
    assert answer.text == call["text"], call["params"]


@pytest.mark.long
async def test_grep_answers_as_recorded(openclaw_home: Path) -> None:
    async with await Database.open(openclaw_home / "lcm.db") as database:
        tools = RecallTools(database, settings_in(openclaw_home), clock=lambda: NOW)
        for call in RECORDED["grep"]:
            same(await tools.call("lcm_grep", call["params"], MAIN), call)
        tools = RecallTools(database, settings_in(openclaw_home), clock=lambda: LATER)
        for call in RECORDED["tools"]["grepErrors"]:
            same(await tools.call("lcm_grep", call["params"], call["keys"]["sessionKey"]), call)


async def test_describe_answers_as_recorded(openclaw_home: Path) -> None:
    async with await Database.open(openclaw_home / "lcm.db") as database:
        tools = RecallTools(database, settings_in(openclaw_home))
        for call in RECORDED["describe"]["tool"]:
            same(await tools.call("lcm_describe", call["params"], MAIN), call)
        for case in FUNCTIONS["describeIds"]:
            said = (await tools.call("lcm_describe", {"id": case["input"]}, MAIN)).details
            if case["ok"]:
                assert said.get("id") == case["id"] or said["error"] == f"Not found: {case['id']}"
            else:
                assert said["error"] == case["error"]
                assert "hint" not in case or said["hint"] == case["hint"]


async def test_expansions_are_those_recorded(openclaw_home: Path) -> None:
    async with await Database.open(openclaw_home / "lcm.db") as database:
        for one in FUNCTIONS["expandTool"]:
            grants = Grants(lambda: NOW)
            grants.create(MAIN, range(1, 10), token_cap=10**9, max_depth=99, session=SUB_AGENT)
            tools = RecallTools(database, settings_in(openclaw_home), grants=grants)
            asked = {"maxDepth": 3, **one["request"]}
            if "summaryIds" in asked:  # some of which are of other conversations
                asked |= {"conversationId": None, "allConversations": True}
            answer = await tools.call("lcm_expand", asked, SUB_AGENT)
            assert answer.text == one["text"], asked
            for name in ("citedIds", "totalTokens", "truncated"):
                assert answer.details[name] == one["result"][name], asked


async def test_lcm_expand_answers_as_recorded_under_one_grant(openclaw_home: Path) -> None:
    grants = Grants(lambda: NOW)
    grants.create(MAIN, [1], session=SUB_AGENT)
    async with await Database.open(openclaw_home / "lcm.db") as database:
        tools = RecallTools(database, settings_in(openclaw_home), grants=grants)
        for call in RECORDED["tools"]["expandToolAuth"]:
            same(await tools.call("lcm_expand", call["params"], call["key"]), call)


@pytest.mark.cases(7)
@pytest.mark.parametrize("call", RECORDED["tools"]["expandQuery"], ids=lambda call: call["name"])
async def test_expand_query_asks_and_answers_as_recorded(call: dict[str, Any], openclaw_home: Path) -> None:
    settings = settings_in(
        openclaw_home,
        expansion_provider=call["config"].get("expansionProvider", ""),
        expansion_model=call["config"].get("expansionModel", ""),
    )
    grants = Grants(lambda: NOW)
    caller = Caller(call["keys"]["sessionKey"], None, grants)
    delegations = Delegations(grants, make_id=lambda: "UUID")
    if call["name"] == "second in flight":
        delegations.in_flight[MAIN] = "other"
    replies = list(call["replies"])
    tasks = []

    async def scripted(task) -> str:
        tasks.append(task)
        given = replies.pop(0)
        for phase in ("spawn", "wait"):
            if phase in given:
                raise DelegationError(phase, f"{phase.upper()}_FAILED", failure_text(given[phase]["error"]))
        return str(given.get("reply", ""))

    asked = Parameters(call["params"])
    try:
        answer = plan = await recall(
            openclaw_home / "lcm.db", lambda rows: plan_query(rows, asked, caller, settings, NOW)
        )
        if not isinstance(plan, ToolAnswer):
            answer = await answer_query(plan, caller, settings, delegations, scripted)
    except ToolError as error:
        answer = error.answer
    details = dict(answer.details)
    for one in details.get("conversationBreakdown", ()):
        if "elapsedMs" in one:
            one["elapsedMs"] = "N"
    assert details == call["details"]
    asked = [each for each in call["calls"] if each.get("method") == "agent"]
    assert [
        {
            "scope": str(task.bucket.conversation_id),
            "budget": str(task.token_cap),
            "seeds": ", ".join(task.bucket.summaries),
            "messageBacked": ", ".join(task.bucket.with_messages) or "(none)",
            "grant": {
                "tokenCap": task.grant.token_cap,
                "maxDepth": task.grant.max_depth,
                "conversations": list(task.grant.conversations),
                "summaries": list(task.grant.summaries),
                "ttlMinutes": (task.grant.expires_at - task.grant.created_at) / timedelta(minutes=1),
            },
            "model": task.model,
            "provider": task.provider,
            "sessionKey": task.session_key,
        }
        for task in tasks
    ] == [
        {
            **{
                name: one[name]
                for name in ("scope", "budget", "seeds", "messageBacked", "grant", "sessionKey")
            },
            "model": one.get("model"),
            "provider": one.get("provider"),
        }
        for one in asked
    ]
    assert not delegations.in_flight or call["name"] == "second in flight"
    assert all(grants.of_session(task.session_key) is None for task in tasks)


async def test_a_grant_lives_as_recorded(database_file: Callable[[str], Path]) -> None:
    clock = [NOW]
    grants = Grants(lambda: clock[0])
    made = ""

    def expanded(rows, asked: dict[str, Any]) -> dict[str, Any]:
        try:
            depth, cap = grants.permitted(
                made,
                asked["conversationId"],
                asked["summaryIds"],
                max_depth=asked.get("maxDepth"),
                token_cap=asked.get("tokenCap"),
            )
        except ToolError as error:
            return {"error": str(error), "remaining": grants.remaining(made)}
        messages = asked.get("includeMessages", False)
        found = expand_all(rows, asked["summaryIds"], depth=depth, include_messages=messages, cap=cap)
        grants.consume(made, found.tokens)
        return {
            "totalTokens": found.tokens,
            "truncated": found.truncated,
            "expansions": len(found.each),
            "remaining": grants.remaining(made),
        }

    def ask(rows) -> None:
        nonlocal made
        for step in FUNCTIONS["grants"]:
            clock[0] = datetime.fromisoformat(step["at"])
            if step["op"] == "create":
                given = grants.create(step["arg"]["issuerSessionId"], step["arg"]["allowedConversationIds"])
                made = given.grant_id
                assert made.startswith("grant_")
                assert len(made) == len("grant_") + 12
                found: Any = (given.max_depth, given.token_cap, list(given.summaries), given.expires_at)
                result = step["result"]
                wanted: Any = (
                    result["maxDepth"],
                    result["tokenCap"],
                    result["allowedSummaryIds"],
                    datetime.fromisoformat(result["expiresAt"]),
                )
            elif step["op"] == "expand":
                found, wanted = expanded(rows, step["arg"]), step["result"]
            elif step["op"] == "get":
                found, wanted = "live" if grants.get(made) else None, step["result"]
            elif step["op"] == "cleanup":
                found, wanted = grants.cleanup(), step["result"]
            else:
                assert step["op"] == "validate"
                found, wanted = grants.problem(made, 1, []), step["result"]["reason"]
            assert found == wanted, step

    await recall(database_file("0.15.3"), ask)


def test_routes_are_those_recorded() -> None:
    for case in FUNCTIONS["policy"]:
        given = case["input"]
        found = route(
            probe=given["intent"] == "query_probe",
            candidates=given["candidateSummaryCount"],
            query=given.get("query"),
            max_depth=given.get("requestedMaxDepth"),
            token_cap=given["tokenCap"],
            include_messages=given["includeMessages"],
        )
        assert to_json(found) == case["decision"]


def test_queries_become_what_was_recorded() -> None:
    for case in FUNCTIONS["sanitize"]:
        assert match_expression(case["query"]) == case["match"]
    for case in FUNCTIONS["likePlan"]:
        plan = like_plan(case["query"])
        found = {"terms": list(plan.terms), "where": list(plan.where), "args": list(plan.arguments)}
        assert found == case["plan"]
    for case in FUNCTIONS["fallbackSnippet"]:
        assert snippet_around(case["content"], case["terms"]) == case["snippet"]


def test_patterns_are_refused_as_recorded() -> None:
    for case in FUNCTIONS["regexGuard"]:
        pattern = "x" * 501 if case["pattern"] == "x*501" else case["pattern"]  # as the recording abbreviates
        assert (compiled(pattern) is not None) is case["accepted"], pattern


async def test_several_answers_become_one_and_say_what_is_missing(openclaw_home: Path) -> None:
    """Generated beside the recordings: three conversations of which one fails and three are left out."""
    caller = Caller(MAIN)
    settings = settings_in(openclaw_home)
    asked = Parameters({"query": "staging", "prompt": "Where?", "allConversations": True})
    plan = await recall(openclaw_home / "lcm.db", lambda rows: plan_query(rows, asked, caller, settings, NOW))
    assert not isinstance(plan, ToolAnswer)

    async def scripted(task) -> str:
        await asyncio.sleep(0)
        number = task.bucket.conversation_id
        return "nothing" if number == 2 else f'{{"answer": "in {number}", "citedIds": ["sum_{number}"]}}'

    answer = await answer_query(plan, caller, settings, Delegations(Grants()), scripted)
    assert answer.details["citedIds"] == ["sum_1", "sum_3"]
    assert answer.details["sourceConversationIds"] == [1, 3]
    assert answer.details["truncated"] is True
    text = str(answer.details["answer"])
    assert text.startswith("Merged findings across 2 conversations:")
    assert 'Partial coverage for "Where?": failed conversations: 2; skipped conversations: 6, 5, 4' in text


def test_identifiers_and_their_snippets_are_those_recorded() -> None:
    for case in FUNCTIONS["promptRecall"]:
        assert identifiers_in(case["prompt"]) == case["identifiers"]
    for case in FUNCTIONS["promptRecallSnippets"]:
        assert snippet_of(case["content"], case["identifier"]) == case["snippet"]
    for case in RECORDED["tools"]["promptRecallCue"]:
        text = cue_text(case["cue"]["lines"] if case["cue"] else [])
        assert (text is None) is (case["cue"] is None)
        if text is not None:
            assert len(text.split("\n")) == case["cue"]["lineCount"]
            assert estimate_weighted(text) == case["cue"]["tokenCount"]


async def test_a_cue_quotes_what_history_says_and_no_secret(tmp_path: Path) -> None:
    path = new_database(tmp_path / "lcm.db")
    with building(path) as rows:
        owner = rows.conversation()
        rows.message(owner, "So. The LEASE_TTL_MS value is 30000 here. Next.", role="assistant")
        rows.message(owner, "LEASE_TTL_MS stands beside sk-abcdefgh12345678", role="user")
        rows.message(owner, "LEASE_TTL_MS of a tool", role="tool")
        rows.message(rows.conversation(session_id="other"), "LEASE_TTL_MS is elsewhere")
        rows.execute("INSERT INTO messages_fts (rowid, content) SELECT message_id, content FROM messages")

    def cue(rows, *seen: str) -> list[str]:
        return cue_lines(rows, 1, "What is LEASE_TTL_MS, and API_KEY?", seen, NOW)

    expected = ['- assistant matched LEASE_TTL_MS: "The LEASE_TTL_MS value is 30000 here."']
    assert await recall(path, cue) == expected
    assert await recall(path, lambda rows: cue(rows, "as LEASE_TTL_MS=5")) == []
    assert await recall(path, lambda rows: cue(rows, "MY_LEASE_TTL_MS=5")) == expected
