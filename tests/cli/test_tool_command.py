"""``lcm-tui tool``: the engine's recall tools as an agent calls them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.support import run
from tests.fakes.messages_api import MessagesApi
from tests.fakes.server import Fail, Say
from tests.support import recorded

CALLS = recorded("lcm-0.15.3.recall.json.xz")


def call(path: Path, name: str, given: object, *options: str) -> Any:
    asked = given if isinstance(given, str) else json.dumps(given)
    return run("tool", name, asked, "--json", "--db", path, "--openclaw-dir", path.parent, *options).data


@pytest.mark.long
def test_answers_are_the_recorded_ones(openclaw_home: Path) -> None:
    path = openclaw_home / "lcm.db"
    for recording in [CALLS["grep"][0], CALLS["grep"][-1], CALLS["grep"][-2]]:
        found = call(path, "lcm_grep", recording["params"], "--session-key", "agent:main:main")
        assert found == {"text": recording["text"], "details": recording["details"]}
    for recording in CALLS["describe"]["tool"][::6]:
        found = call(path, "lcm_describe", recording["params"])
        assert found == {"text": recording["text"], "details": recording["details"]}


def test_refusals_of_a_tool_are_answers(openclaw_home: Path) -> None:
    path = openclaw_home / "lcm.db"
    lost = call(path, "lcm_grep", {"pattern": "x"})
    assert lost["details"]["error"].startswith("No LCM conversation found for this session.")
    assert json.loads(lost["text"]) == lost["details"]
    assert "only available in sub-agent" in call(path, "lcm_expand", {})["details"]["error"]
    sub_agent = ("--session-key", "agent:main:subagent:x")
    assert "requires a valid grant" in call(path, "lcm_expand", {}, *sub_agent)["details"]["error"]
    assert (
        "requires a valid grant" in call(path, "lcm_grep", {"pattern": "x"}, *sub_agent)["details"]["error"]
    )


def test_a_session_is_found_by_its_id_too(openclaw_home: Path) -> None:
    path = openclaw_home / "lcm.db"
    by_id = ("--session-id", "076f4055-3ec1-4d9d-a20f-91df214643db")
    assert "**Conversation scope:** 2" in call(path, "lcm_grep", {"pattern": "x", "limit": 1}, *by_id)["text"]
    family = call(path, "lcm_grep", {"pattern": "x"}, "--session-key", "agent:ops:discord:channel:ops-room")
    assert "session family rooted at 8 (2 segments)" in family["text"]


def test_a_question_without_a_model_is_answered_with_the_evidence(openclaw_home: Path) -> None:
    asked = {"query": "staging", "prompt": "Where?", "conversationId": 1, "tokenCap": 600}
    found = call(openclaw_home / "lcm.db", "lcm_expand_query", asked)["details"]
    assert "No model was asked" in found["answer"]
    assert found["citedIds"]
    assert all(f"[{one}]" in found["answer"] for one in found["citedIds"])
    assert found["totalSourceTokens"] <= 600


@pytest.mark.long
def test_a_named_model_answers_a_question_in_the_place_of_the_sub_agent(
    openclaw_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GATEWAY_KEY", "sk-test-0123456789abcdef-SECRET")
    monkeypatch.setenv("LCM_EXPANSION_MODEL", "other/model")
    asked = {"query": "staging", "prompt": "Where is staging?", "conversationId": 1, "tokenCap": 600}
    seed = call(openclaw_home / "lcm.db", "lcm_expand_query", asked)["details"]["citedIds"][0]
    said = {"answer": f"There [{seed}], and [sum_invented].", "citations": [seed]}
    with MessagesApi(Say(json.dumps({"search": "migrations"})), Say(json.dumps(said))) as server:
        to = ("--provider", "anthropic", "--base-url", server.url, "--api-key-env", "GATEWAY_KEY")
        path = openclaw_home / "lcm.db"
        refused = run(
            "tool",
            "lcm_expand_query",
            json.dumps(asked),
            *to,
            "--json",
            "--db",
            path,
            "--openclaw-dir",
            path.parent,
        )
        assert refused.code != 0
        assert not server.received
        found = call(path, "lcm_expand_query", asked, *to, "--yes")["details"]
        assert len(server.received) == 2
    assert found["answer"].startswith(f"There [{seed}], and [citation removed].")
    assert "sum_invented" in found["answer"]
    assert found["citedIds"] == [seed]
    assert 0 < found["totalSourceTokens"] <= 600
    with MessagesApi(Fail(401, message="unauthorized")) as server:
        to = ("--provider", "anthropic", "--base-url", server.url, "--api-key-env", "GATEWAY_KEY", "--yes")
        failed = call(openclaw_home / "lcm.db", "lcm_expand_query", asked, *to)["details"]
        assert len(server.received) == 1
    assert failed["errorCode"] == "DELEGATED_EXPANSION_WAIT_FAILED"


@pytest.mark.cases(3)
@pytest.mark.parametrize(
    "given",
    [
        "{}",
        '{"pattern": 5, "limit": "x", "conversationId": true, "allConversations": 1}',
        '{"pattern": ["a"], "summaryIds": "sum_x", "id": {"a": 1}, "prompt": null}',
        '{"pattern": "x", "limit": 1e308, "conversationId": -1e300, "allConversations": true}',
        '{"pattern": "x", "limit": -5, "allConversations": true, "mode": "full_text"}',
        '{"pattern": "\\ud800\\u0000", "allConversations": true, "id": "sum_\\ud800"}',
        '{"summaryIds": [1, null, "sum_x", {}], "prompt": "p", "tokenCap": -1e9, "timeoutMs": 1e99}',
        '{"id": "file_b7b54f0887584669", "allConversations": true, "expandFile": true, "startLine": 1e15}',
        '{"query": "\\"\\"", "prompt": "p", "allConversations": true, "maxTokens": 1e300}',
    ],
)
@pytest.mark.parametrize("name", ["lcm_grep", "lcm_describe", "lcm_expand", "lcm_expand_query"])
def test_odd_parameters_are_answered(name: str, given: str, openclaw_home: Path) -> None:
    found = call(openclaw_home / "lcm.db", name, given)
    assert set(found) == {"text", "details"}


@pytest.mark.parametrize("given", ["", "[]", "x", '"x"', "{", "1"])
def test_parameters_that_are_no_object_are_a_wrong_use(given: str, openclaw_home: Path) -> None:
    result = run("tool", "lcm_grep", given, "--json", "--db", openclaw_home / "lcm.db")
    assert result.code == 2
    assert "PARAMS_JSON" in result.error["message"]


def test_an_unknown_tool_and_a_model_for_one_that_asks_none_are_a_wrong_use(openclaw_home: Path) -> None:
    named = run("tool", "lcm_grep", "{}", "--model", "x", "--json", "--db", openclaw_home / "lcm.db")
    assert named.code == 2
    assert run("tool", "lcm_x", "{}", "--json", "--db", openclaw_home / "lcm.db").code == 2
