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
from lcm_core.recall.answer import ToolAnswer
from lcm_core.recall.grants import Grants
from lcm_core.recall.scope import Caller
from lcm_core.recall.tools import TOOLS, RecallTools
from lcm_core.store.database import Database

from tests.core.recalling import NOW, settings_in
from tests.databases import value

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


def call(path: Path, name: str, asked: dict[str, Any], caller: Caller) -> ToolAnswer:
    async def once() -> ToolAnswer:
        async with await Database.open(path) as database:
            tools = RecallTools(database, settings_in(path.parent), grants=caller.grants)
            return await tools.call(name, asked, caller.session_key, caller.session_id)

    return asyncio.run(once())


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
