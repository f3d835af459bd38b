"""Odd calls of the four tools over files of every version: each is answered, and nothing widens a grant."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lcm_core.api import Database
from lcm_recall.grants import Caller, Grants
from lcm_recall.tools import RecallTools

from tests.core.recalling import NOW, settings_in
from tests.databases import building, new_database, value

TOOLS = ("lcm_grep", "lcm_describe", "lcm_expand", "lcm_expand_query")

ODD: list[Any] = [
    *(None, True, False, 0, -1, 1, 2, 2.5, 1e308, -1e308, 2**63, -(2**63), 10**400),
    *("", "x", "staging", '"', "^a", "(a+)+", "a|b", "本番環境", "移行 lease", "\ud800", "\0", "%_\\"),
    *("sum_4c4bd5292abfa225", "file_b7b54f0887584669", "[LCM File: file_b7b54f0887584669 | x"),
    *("full_text", "files", "both", "hybrid", "2026-03-02", "2026-03-03T00:00:00Z", "99999-01-01"),
    *("NEAR(a b)", "a* OR b", "content:x", "'; drop table messages --", "a" * 600),
    *([], ["sum_4c4bd5292abfa225"], ["x", 1, None], {}, {"a": 1}),
]
VALUES: Any = st.sampled_from(ODD)
NAMES = (
    *("pattern", "mode", "scope", "limit", "since", "before", "sort", "fileIds", "conversationId"),
    *("allConversations", "id", "tokenCap", "expandFile", "expandFileMaxBytes", "startLine", "endLine"),
    *("summaryIds", "query", "prompt", "maxDepth", "includeMessages", "maxTokens", "timeoutMs"),
)
CALLS: Any = st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=9)
SUB_AGENT = "agent:main:subagent:x"


def call(path: Path, name: str, asked: dict[str, Any], caller: Caller):
    async def once():
        async with await Database.open(path) as database:
            tools = RecallTools(database, settings_in(path.parent), grants=caller.grants)
            return await tools.call(name, asked, caller.session_key, caller.session_id)

    return asyncio.run(once())


@pytest.mark.long
@pytest.mark.parametrize("version", ["0.1.2", "0.8.2", "0.15.3-damaged", "1.0-next"])
def test_every_odd_call_is_answered(version: str, database_file: Callable[[str], Path]) -> None:
    path = database_file(version)

    @given(st.sampled_from(TOOLS), CALLS, st.sampled_from([None, "agent:main:main", SUB_AGENT, "\ud800"]))
    @settings(max_examples=40)
    def answered(name: str, asked: dict[str, Any], key: str | None) -> None:
        answer = call(path, name, asked, Caller(key, "x", Grants()))
        assert answer.text
        json.dumps(answer.details)

    answered()


@pytest.mark.long
@given(st.sampled_from(TOOLS), CALLS)
@settings(max_examples=60)
def test_no_argument_reaches_beyond_a_grant(path_of_grants: Path, name: str, asked: dict[str, Any]) -> None:
    owned = value(path_of_grants, "SELECT max(conversation_id) FROM conversations")
    grants = Grants(lambda: NOW)
    grants.create("agent:main:main", [owned], token_cap=300, session=SUB_AGENT)
    answer = call(
        path_of_grants, name, {"pattern": "the", "prompt": "p", **asked}, Caller(SUB_AGENT, None, grants)
    )
    for other in range(1, owned):
        assert f"[conv={other} " not in answer.text
        assert f"meta conv={other} " not in answer.text
        assert f"**Conversation:** {other}\n" not in answer.text
    assert int(answer.details.get("totalTokens", 0)) <= 300


@pytest.fixture(scope="module")
def path_of_grants(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.support import unpack_database

    return unpack_database("0.15.3", tmp_path_factory.mktemp("granted") / "lcm.db")


async def test_a_grant_for_a_session_covers_its_conversations_that_begin_later_and_no_other(
    tmp_path: Path,
) -> None:
    path = new_database(tmp_path / "lcm.db")
    with building(path) as rows:
        first = rows.conversation(1, session_key="agent:main:main")
        rows.summary(first, "sum_a", "A needle.", messages=[rows.message(first, "needle one")])
        rows.message(rows.conversation(2, session_key="agent:other:main"), "needle of others")
    grants = Grants()
    given = grants.create("agent:main:main", [], family="agent:main:main", session=SUB_AGENT)
    with building(path) as rows:
        rows.execute("UPDATE conversations SET active = 0 WHERE conversation_id = ?", first)
        later = rows.conversation(3, session_key="agent:main:main")
        rows.summary(later, "sum_b", "A later needle.", messages=[rows.message(later, "needle two")])
    async with await Database.open(path) as database:
        tools = RecallTools(database, settings_in(path.parent), grants=grants)

        async def told(name: str, **asked: Any):
            return await tools.call(name, asked, SUB_AGENT)

        found = await told("lcm_grep", pattern="needle", allConversations=True)
        assert (found.details["messageCount"], "of others" in found.text) == (2, False)
        assert "error" not in (await told("lcm_describe", id="sum_b")).details
        assert "error" in (await told("lcm_grep", pattern="needle", conversationId=2)).details
        expanded = await told("lcm_expand", summaryIds=["sum_b"], includeMessages=True)
        assert expanded.details["totalTokens"] > 0
        grants.revoke(given.grant_id)
        assert "error" in (await told("lcm_expand", summaryIds=["sum_b"])).details


@pytest.mark.parametrize("key", [None, "agent:gone:main"])
def test_a_session_id_finds_only_an_active_conversation(key: str | None, tmp_path: Path) -> None:
    path = new_database(tmp_path / "lcm.db")
    with building(path) as rows:
        for number, active in ((1, 1), (2, 0)):
            owner = rows.conversation(number, session_key=f"agent:a{number}:main", active=active)
            rows.message(owner, f"needle {number}")
    asked = {"pattern": "needle [0-9]"}
    active = call(path, "lcm_grep", asked, Caller(key, "session-1", Grants()))
    assert (active.details["messageCount"], "needle 1" in active.text) == (1, True)
    for session in ("session-2", "session-3"):
        ended = call(path, "lcm_grep", asked, Caller(key, session, Grants()))
        assert ended.details["error"].startswith("No LCM conversation found for this session.")


@given(st.one_of(st.integers(-5, 5), st.floats(-3, 3), st.sampled_from([-1e300, 1e300])))
@settings(max_examples=20)
def test_the_cap_of_a_description_is_at_least_one(path_of_grants: Path, cap: float) -> None:
    name = value(path_of_grants, "SELECT summary_id FROM summaries LIMIT 1")
    asked = {"id": name, "tokenCap": cap}
    manifest = call(path_of_grants, "lcm_describe", asked, Caller("agent:main:main", None, Grants())).details
    assert manifest["manifest"]["tokenCap"] == max(1, int(cap))
    assert manifest["manifest"]["budgetSource"] == "request"


def test_lines_that_end_before_they_begin_are_refused_by_name(tmp_path: Path) -> None:
    path = new_database(tmp_path / "lcm.db")
    with building(path) as rows:
        owner = rows.conversation(1, session_key="agent:main:main")
        rows.insert("large_files", file_id="file_aa", conversation_id=owner, storage_uri="/nowhere")
    asked = {"id": "file_aa", "expandFile": True, "startLine": 3, "endLine": 2, "allConversations": True}
    answer = call(path, "lcm_describe", asked, Caller("agent:main:main", None, Grants()))
    assert answer.details["error"] == "`endLine` must be greater than or equal to `startLine`."
