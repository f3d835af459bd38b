"""What every command with a model does with keys and prompts, from the command line to the wire."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.support import Result, run
from tests.fakes.messages_api import MessagesApi
from tests.fakes.server import Fail, Say, ScriptedServer
from tests.operations.compacting import start_database

KEY = "sk-test-0123456789abcdef-SECRET"


def compact(database: Path, server: ScriptedServer, conversation: int) -> Result:
    to = ("--provider", "anthropic", "--base-url", server.url, "--api-key-env", "GATEWAY_KEY")
    return run("compact", conversation, "--db", database, *to, "--apply", "--yes", "--json")


@pytest.mark.long
def test_a_key_is_in_no_output_file_database_or_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("GATEWAY_KEY", KEY)
    database = start_database("0.15.3", tmp_path / "lcm.db")
    shown: list[str] = []
    said = f"you sent {KEY}"
    answers = (
        Fail(401, message=said),
        Fail(400, message=said),
        Say("It moved.\nExpand for details about: all"),
    )
    for answer in answers:
        with MessagesApi(answer) as server:
            result = compact(database, server, 2)
            shown += [result.out, result.err]
            assert server.received
    assert '"key":"sk-…CRET from GATEWAY_KEY"' in shown[-2]
    written = [path for folder in (tmp_path, Path.home()) for path in folder.rglob("*") if path.is_file()]
    assert database in written
    assert KEY not in "".join(shown)
    assert [path for path in written if KEY.encode() in path.read_bytes()] == []


@pytest.mark.long
def test_the_prompts_of_the_operator_are_used_and_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("GATEWAY_KEY", KEY)
    monkeypatch.setenv("LCM_TUI_CONFIG", str(tmp_path / "config" / "config.toml"))
    prompts = tmp_path / "config" / "prompts"
    prompts.mkdir(parents=True)
    (tmp_path / "config" / "config.toml").touch()
    (prompts / "leaf.j2").write_text("Only haiku: {{ source }}")
    database = start_database("0.15.3", tmp_path / "lcm.db")
    with MessagesApi(Say("It moved.\nExpand for details about: all")) as server:
        result = compact(database, server, 1)
    assert server.received[0].body["messages"][0]["content"].startswith("Only haiku: [2026-")
    assert str(prompts / "leaf.j2") in result.out
    assert "says no version" in result.out


@pytest.mark.parametrize(
    "command",
    [
        ("compact", 1),
        ("repair", 1, "--accept", "every"),
        ("rewrite", 1, "--all", "--accept", "every"),
        ("focus", "clear", 1),
    ],
    ids=lambda command: command[0],
)
def test_a_key_names_no_model_where_nobody_is_asked(
    command: tuple[str | int, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    database = start_database("0.15.3", tmp_path / "lcm.db")
    before = database.read_bytes()
    refused = run(*command, "--db", database, "--apply", "--yes")
    assert refused.code == 9
    assert "name it with --provider anthropic" in refused.err
    assert KEY not in refused.err
    assert database.read_bytes() == before
