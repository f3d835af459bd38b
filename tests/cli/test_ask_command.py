"""``ask``: evidence and answers on the command line, and who is asked when."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.support import Result, run
from tests.databases import building, new_database
from tests.fakes.messages_api import MessagesApi
from tests.fakes.openai_api import OpenAIApi
from tests.fakes.server import Fail, Say, ScriptedServer

KEY = "sk-test-0123456789abcdef-SECRET"
QUESTION = "Which port does the gateway use?"


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GATEWAY_KEY", KEY)
    path = new_database(tmp_path / "lcm.db")
    with building(path) as rows:
        main = rows.conversation(1, session_key="agent:main:main")
        rows.message(main, "The gateway uses port \x1b[31m7443\x1b[0m.")
        other = rows.conversation(2, session_key="agent:other:main")
        rows.message(other, "The gateway port of others is 9.")
    return path


def ask(path: Path, *options: str, server: ScriptedServer | None = None, question: str = QUESTION) -> Result:
    to: tuple[str, ...] = ()
    if server is not None:
        name = "openai" if isinstance(server, OpenAIApi) else "anthropic"
        to = (
            "--provider",
            name,
            "--model",
            "test-1",
            "--base-url",
            server.url,
            "--api-key-env",
            "GATEWAY_KEY",
        )
    return run("ask", question, "--db", path, *to, *options)


def said(text: str, *citations: str) -> Say:
    return Say(json.dumps({"answer": text, "citations": citations}))


def test_without_a_model_the_evidence_is_shown_and_nobody_asked(
    memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with MessagesApi() as server:
        monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        shown = ask(memory)
        data = ask(memory, "--json").data
        assert not server.received  # a key names no model
    assert shown.code == 0
    assert "No model was called" in shown.out
    assert "7443" in shown.out
    assert "\x1b" not in shown.out
    assert (data["answer"], data["model"], data["calls"]) == (None, None, 0)
    assert [one["conversationId"] for one in data["evidence"]] == [1, 2]
    assert ask(memory, "--provider", "extractive", "--json").data["model"] is None


def test_nothing_is_sent_without_the_word_of_the_operator(memory: Path) -> None:
    with MessagesApi(said("x")) as server:
        result = ask(memory, "--json", server=server)
        assert not server.received
    assert result.code == 0
    assert result.data["answer"] is None
    assert result.data["evidence"]
    assert result.data["atMost"]["calls"] == 16
    assert result.data["atMost"]["inputTokens"] > result.data["expected"]["inputTokens"] > 0


@pytest.mark.cases(1)
@pytest.mark.parametrize("kind", [MessagesApi, OpenAIApi])
def test_an_answer_stands_beside_its_evidence(kind: type[ScriptedServer], memory: Path) -> None:
    with kind(Say(json.dumps({"search": "gateway"})), said("7443 [msg#1], not [msg#77]\x1b[2J")) as server:
        scope = ("--session-key", "agent:main:main", "--yes")
        data = ask(memory, *scope, "--json", server=server).data
        assert len(server.received) == 2
        assert "port of others" not in str([one.raw for one in server.received])
        shown = ask(memory, *scope, server=server)
    assert data["answer"] == "7443 [msg#1], not [citation removed]\x1b[2J"
    assert [one.partition("@")[0] for one in data["citations"]] == ["msg#1"]
    assert data["dropped"] == [{"citation": "msg#77", "why": "no passage of this id was shown"}]
    assert [one["cited"] for one in data["evidence"]] == [True]
    assert data["usage"]["inputTokens"] == 2_000
    assert data["spent"]["calls"] == 2
    assert data["scope"] == "session agent:main:main (1 conversation)"
    assert shown.code == 0
    assert "\x1b" not in shown.out
    assert "msg#77 (no passage" in shown.out
    assert KEY not in shown.out + shown.err


def test_a_failure_keeps_the_evidence_and_names_the_key_by_its_place(memory: Path) -> None:
    with MessagesApi(Fail(401, message=f"bad key {KEY}")) as server:
        result = ask(memory, "--yes", "--json", server=server)
    assert result.code == 4
    document = json.loads(result.out)
    assert document["ok"] is False
    assert document["error"]["code"] == "PROVIDER_AUTH"
    assert document["data"]["evidence"]
    assert KEY not in result.out + result.err


def test_limits_of_calls_and_cost_hold(memory: Path) -> None:
    with MessagesApi(Say(json.dumps({"search": "gateway"}))) as server:
        result = ask(memory, "--yes", "--max-calls", "1", "--json", server=server)
        assert len(server.received) == 1
    assert json.loads(result.out)["error"]["code"] == "NO_ANSWER"
    with MessagesApi(said("x")) as server:
        result = ask(memory, "--yes", "--max-cost", "1", "--json", server=server)
        assert not server.received
    assert result.error["code"] == "PRICE_UNKNOWN"


def test_no_evidence_is_no_failure_unless_that_was_asked_for(memory: Path) -> None:
    result = ask(memory, question="Zebra?")
    assert result.code == 0
    assert "No evidence was found." in result.out
    assert ask(memory, "--fail-empty", question="Zebra?").code == 3
    assert ask(memory, "--fail-empty").code == 0
    assert ask(memory, question=" ").code == 2
    assert ask(memory, question="x" * 4_001).code == 2
