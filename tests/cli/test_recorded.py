"""The answers of the engine's own command (0.15.3) beside ours, on the same database.

180 recorded calls, 70 of them refused. What holds is a rule each. Whoever
reads the engine's fields strictly skips one key, ``lcmTui``, and finds no other.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lcm_tui.tables.machine import json_text
from tests.cli.support import run
from tests.conftest import DatabaseFactory
from tests.support import recorded

CALLS = recorded("lcm-0.15.3.cli.json.gz")
#: What scripts ask and mistype: every option with good, missing and wrong values; cursors walked to the end.
SHELL = recorded("lcm-0.15.3.shell.json.xz")
ALL = [*CALLS, *SHELL]

#: Values that differ on purpose, by command, and what there is beside the engine's fields. All else is equal,
#: key order included.
DIFFERENCES: dict[str, set[tuple[str, str]]] = {
    "status": {
        ("data.version", "changed"),  # of this program
        ("data.status.summaries.sourceMessageTokens", "changed"),  # each message once, not once per depth
    },
    "doctor": {  # theirs has no checks yet, and says no more than that
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
                "verifiedBefore",
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
#: What each command says under the one key of ours, in the records that have it.
OURS: dict[str, dict[str, set[str]]] = {
    "status": {"data": {"schema", "ingestion"}},
    "conversations.show": {
        "data": {"archiveCause", "transcriptCursor"},
        "data.bootstrap": {"softResetPrunedAt"},
        "data.maintenance": {
            "contextFreshTailCount",
            "contextLeafChunkTokens",
            "resolutionReason",
            "resolvedAt",
            "maintenanceRevision",
        },
        "meta": {"notRecorded"},  # 0.15.3 has no transcript cursors
    },
    "config.show": {"data": {"effective", "sources", "problems", "activeEnv", "withoutEffect", "retired"}},
    "config.get": {"data": {"value", "origin", "source", "hasEffect", "retired"}},
}
#: Where conversations differ when there is something: each message once.
NOT_ALWAYS = ("data.items[].summarizedSourceTokens", "data.conversation.summarizedSourceTokens")
#: What theirs refuses as no command: the words `list`, `show` and `get` may be left out here.
SHORTER = ("messages", "summaries", "config get", "config show x")
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
    monkeypatch.setenv("TZ", "UTC")

    def complete(call: dict[str, Any]) -> list[str]:
        path = [] if call["args"] == ["--db"] else ["--db", str(database_file("0.15.3"))]
        return [*path, *call["args"]]

    return complete


@pytest.mark.cases(60)
@pytest.mark.parametrize(
    "call",
    [one for one in ALL if " ".join(one["args"]) not in SHORTER],
    ids=lambda call: " ".join(call["args"]),
)
def test_a_recorded_call(call: dict[str, Any], arguments_for):
    result = run(*arguments_for(call))
    out, err = (call.get(short, call.get(long)) for short, long in (("out", "stdout"), ("err", "stderr")))
    assert result.code == (FINDINGS if call["args"] == ["doctor"] else call["rc"])
    if err:
        assert_same_error(result.error, json.loads(err)["error"])
    elif "table" in call["args"]:
        assert_same_table(result.out, out)
    else:
        assert_same_answer(json.loads(result.out), json.loads(out))


def assert_same_error(ours: Any, theirs: Any) -> None:
    """The code and what the details say are equal; the sentences are ours, and details may say more."""
    assert ours["code"] == theirs["code"]
    assert ours.get("details", {}).items() >= theirs.get("details", {}).items()


def assert_same_answer(ours: Any, theirs: Any) -> None:
    """Equal but for what differs on purpose, paths and key order included."""
    ours = without_ours(ours, OURS.get(ours["command"], {}))
    assert_same_paths(ours, theirs)
    expected = DIFFERENCES.get(ours["command"], set())
    found = {one for one in differences(ours, theirs) if not one[0].startswith(NOT_ALWAYS)}
    if ours["command"] == "help":  # which grows with every command of ours
        found = {(path, how) for path, how in found if how != "added"}
    assert found == expected


def without_ours(value: Any, expected: dict[str, set[str]], path: str = "") -> Any:
    """A document as the engine's command has it; what it has beside that is under one key, as *expected*."""
    if isinstance(value, list):
        return [without_ours(one, expected, f"{path}[]") for one in value]
    if not isinstance(value, dict):
        return value
    assert set(value.get("lcmTui", ())) == expected.get(path, set())
    inner = f"{path}." if path else ""
    return {key: without_ours(one, expected, inner + key) for key, one in value.items() if key != "lcmTui"}


def assert_same_paths(ours: Any, theirs: Any) -> None:
    """Both name the database and the configuration; where these lie is another folder here."""
    if ours["command"] == "config.show":
        folder = str(Path(ours["data"]["configPath"]).parent)
        effective = theirs["data"]["effective"]
        for place, name in (
            (theirs["data"], "configPath"),
            (effective, "largeFilesDir"),
            (effective, "databasePath"),
        ):
            place[name] = place[name].replace("$STATE", folder)
    if ours.get("meta"):
        assert ours["meta"]["databasePath"].endswith("/0.15.3/lcm.db")
        assert ours["meta"]["configPath"].endswith("/.openclaw/openclaw.json")
        if ours["command"] != "doctor":  # theirs opens no database
            assert ours["meta"].keys() == theirs["meta"].keys()
        ours["meta"] = theirs["meta"]


def assert_same_table(ours: str, theirs: str) -> None:
    """Both tables say the same: the rows, and each field whose JSON is compared as an answer is."""
    mine, other = (as_envelope(text) for text in (ours, theirs))
    assert_same_answer(mine, other)


def as_envelope(text: str) -> Any:
    """The document that a tab-separated table stands for, whose cells are JSON where they can be read so."""
    lines = [line.split("\t") for line in text.rstrip("\n").split("\n")]
    document: dict[str, Any] = {"command": lines[0][1], "data": {}}
    names = None
    for line in lines[1:]:
        group, _, name = line[0].partition(".")
        if len(line) == 2 and group in ("data", "pagination", "meta"):
            document.setdefault(group, {})[name] = cell(line[1])
        elif names is None:
            names = line
            document["data"]["items"] = []
        else:
            row = dict(zip(names, map(cell, line), strict=True))
            document["data"]["items"].append(row)
    return document


def cell(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def test_json_is_written_as_javascript_writes_it(arguments_for):
    """Byte for byte, in the fields that the engine has: compact, nothing escaped that need not be."""
    for call in CALLS[7:9]:
        ours, theirs = run(*arguments_for(call)).out, call["stdout"]
        assert json_text(json.loads(ours)) + "\n" == ours
        both = {**shared(json.loads(ours), json.loads(theirs)), "meta": json.loads(theirs)["meta"]}
        assert json_text(both) == theirs.rstrip("\n")


def shared(ours: Any, theirs: Any) -> Any:
    """What both documents have, with our values in our order."""
    if isinstance(ours, dict):
        return {key: shared(value, theirs[key]) for key, value in ours.items() if key in theirs}
    if isinstance(ours, list):
        return [shared(one, other) for one, other in zip(ours, theirs, strict=True)]
    return ours


def test_summarized_tokens_never_exceed_the_messages(arguments_for):
    """The engine reports 153,434 source tokens of a conversation that holds 43,682."""
    items = run(*arguments_for({"args": ["conversations", "list"]})).data["items"]
    assert all(item["summarizedSourceTokens"] <= item["messageTokens"] for item in items)


@pytest.mark.cases(2)
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
