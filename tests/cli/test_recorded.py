"""The answers of the engine's own command (0.15.3) beside ours, on the same database."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cli.support import run
from tests.conftest import DatabaseFactory
from tests.support import recorded

CALLS = recorded("lcm-0.15.3.cli.json.gz")

#: Where our answers differ on purpose, by command: path and how. All else is equal, key order included.
DIFFERENCES: dict[str, set[tuple[str, str]]] = {
    "status": {
        ("data.version", "changed"),  # of this program
        ("data.status.summaries.sourceMessageTokens", "changed"),  # each message once, not once per depth
        ("data.schema", "added"),  # which engine's schema it is
        ("data.ingestion", "added"),  # whether it keeps up with its host
    },
    "conversations.list": {("data.items[].summarizedSourceTokens", "changed")},  # each message once
    "conversations.show": {
        ("data.conversation.summarizedSourceTokens", "changed"),
        ("data.bootstrap.softResetPrunedAt", "added"),
        ("data.archiveCause", "added"),
    },
    "summaries.show": {("data.consumers", "added"), ("data.sources", "added")},  # beside parents and children
    "doctor": {  # theirs has no checks yet
        ("data.available", "changed"),
        ("data.message", "changed"),
        *(
            (f"data.{name}", "added")
            for name in (
                "checks",
                "clean",
                "conversationId",
                "counts",
                "findings",
                "notRun",
                "repetitions",
                "seconds",
                "truncated",
            )
        ),
    },
    "version": {("data.version", "changed")},
    "help": {
        ("data.usage", "changed"),
        ("data.commands", "changed"),
        ("data.globalOptions", "changed"),
        ("data", "order"),
    },
}

#: Our exit code of a check that finds something; theirs looks for nothing.
FINDINGS = 6


def differences(ours: Any, theirs: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Every path at which two documents differ, and how."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        inner = f"{path}." if path else ""
        yield from ((inner + key, "missing") for key in theirs.keys() - ours.keys())
        yield from ((inner + key, "added") for key in ours.keys() - theirs.keys())
        both = [key for key in theirs if key in ours]
        if list(ours)[: len(both)] != both:
            yield path, "order"
        for key in both:
            yield from differences(ours[key], theirs[key], inner + key)
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        if all(isinstance(item, str) for item in [*ours, *theirs]) and ours != theirs:
            yield path, "changed"
            return
        for one, other in zip(ours, theirs, strict=True):
            yield from differences(one, other, f"{path}[]")
    elif ours != theirs or type(ours) is not type(theirs):
        yield path, "changed"


@pytest.fixture
def arguments_for(database_file: DatabaseFactory, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("LCM_TUI_FORMAT", "json")

    def complete(call: dict[str, Any]) -> list[str]:
        return ["--db", str(database_file("0.15.3")), *call["args"]]

    return complete


@pytest.mark.parametrize("call", CALLS, ids=lambda call: " ".join(call["args"]))
def test_a_recorded_call(call: dict[str, Any], arguments_for):
    result = run(*arguments_for(call))
    assert result.code == (FINDINGS if call["args"] == ["doctor"] else call["rc"])
    if "table" in call["args"]:
        assert_same_table(result.out, call["stdout"])
        return
    stream = "stdout" if call["rc"] == 0 else "stderr"
    ours = json.loads(result.out if call["rc"] == 0 else result.err)
    theirs = json.loads(call[stream])
    if ours.get("meta"):
        assert ours["meta"]["databasePath"].endswith("/0.15.3/lcm.db")
        assert ours["meta"]["configPath"].endswith("/.openclaw/openclaw.json")
        ours["meta"] = theirs["meta"]
    expected = DIFFERENCES.get(ours.get("command", ""), set())
    if ours.get("command") == "conversations.show" and ours["data"]["bootstrap"] is None:
        expected = expected - {("data.bootstrap.softResetPrunedAt", "added")}
    found = set(differences(ours, theirs))
    if ours.get("command") == "help":  # which grows with every command of ours
        found = {(path, how) for path, how in found if how != "added"}
    assert found == expected


def assert_same_table(ours: str, theirs: str) -> None:
    """The tab-separated form is equal line by line but for paths and the one number we count otherwise."""
    lines = [[line.split("\t") for line in text.splitlines()] for text in (ours, theirs)]
    header = lines[1][1]
    counted_otherwise = header.index("summarizedSourceTokens") if "summarizedSourceTokens" in header else None
    for mine, other in zip(*lines, strict=True):
        if mine[0].startswith("meta."):
            assert mine[0] == other[0]
            continue
        if counted_otherwise is not None and len(mine) == len(header) and mine != header:
            mine[counted_otherwise] = other[counted_otherwise]
        assert mine == other


def test_json_is_written_as_javascript_writes_it(arguments_for):
    """Byte for byte: compact, nothing escaped that need not be."""
    for call in CALLS[7:9]:
        lines = run(*arguments_for(call)).out, call["stdout"]
        ours, theirs = (text.split('"meta":')[0] for text in lines)
        assert ours == theirs


def test_summarized_tokens_never_exceed_the_messages(arguments_for):
    """The engine reports 153,434 source tokens of a conversation that holds 43,682."""
    items = run(*arguments_for({"args": ["conversations", "list"]})).data["items"]
    assert all(item["summarizedSourceTokens"] <= item["messageTokens"] for item in items)


@pytest.mark.parametrize("number", [3, 7, 9, 12, 15])
def test_a_cursor_of_the_engine_continues_its_list_here(number: int, arguments_for):
    call = CALLS[number]
    theirs = json.loads(call["stdout"])
    cursor = theirs["pagination"]["nextCursor"]
    following = run(*arguments_for(call), "--cursor", cursor).data["items"]
    whole = run(*arguments_for(call), "--limit", "500").data["items"]
    taken = len(theirs["data"]["items"])
    assert following == whole[taken : taken + len(following)]
    assert following
