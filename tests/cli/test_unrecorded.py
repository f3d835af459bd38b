"""Calls of the engine's commands that nobody recorded, refused by rule (docs/spec/command.md, "Errors").

Each option of these commands gets each odd value; none may be a fault of ours, and the code follows from the
option alone.
"""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest

from tests.cli.support import run
from tests.conftest import DatabaseFactory

LISTS = {
    "conversations list": ("limit", "cursor", "time"),
    "messages list": ("selector", "role", "limit", "cursor", "time"),
    "messages tail": ("selector", "count"),
    "summaries list": ("selector", "depth", "kind", "limit", "cursor", "time"),
    "conversations show": ("selector",),
    "status": (),
    "config show": (),
}
OPTIONS = {
    "selector": ("--conversation-id", "--session-key"),
    "role": ("--role",),
    "count": ("--count",),
    "depth": ("--depth",),
    "kind": ("--kind",),
    "limit": ("--limit",),
    "cursor": ("--cursor",),
    "time": ("--after", "--before", "--between", "--recency"),
}
ODD = ("", " ", "x", "-1", "--", "0", "1.5", "+1", "1e3", "0x1", "\u0661", "9" * 30, "a..b", "null", "\udcff")
#: What a value of an option may be refused with; and those that are found, or not.
CODES = {
    "--conversation-id": {"INVALID_ARGUMENT", "MISSING_SELECTOR", "CONVERSATION_NOT_FOUND"},
    "--session-key": {"MISSING_SELECTOR", "CONVERSATION_NOT_FOUND"},
    "--cursor": {"INVALID_CURSOR"},
    **{option: {"INVALID_TIME_FILTER"} for option in OPTIONS["time"]},
}
EXITS = {"CONVERSATION_NOT_FOUND": 3}


@pytest.mark.long
@pytest.mark.parametrize("command", LISTS)
def test_an_odd_value_is_refused_by_what_its_option_is_about(command: str, database_file: DatabaseFactory):
    path = database_file("0.15.3")
    taken = {option for group in LISTS[command] for option in OPTIONS[group]}
    for option, value in itertools.product(itertools.chain(*OPTIONS.values()), ODD):
        named = (
            ["--conversation-id", "2"]
            if "selector" in LISTS[command] and option not in OPTIONS["selector"]
            else []
        )
        given = [*command.split(), *named, option, value, "--db", path, "--json"]
        result = run(*given)
        if result.code == 0:
            assert result.document["ok"], given
            continue
        code = result.error["code"]
        expected = CODES.get(option, {"INVALID_ARGUMENT"})
        if option not in taken or (value.startswith("-") and len(value) > 1):
            of_list = command == "messages tail" and option not in taken  # `messages` itself has it
            expected = {"INVALID_ARGUMENT", *(CODES.get(option, ()) if of_list else ())}
        assert code in expected, given
        assert result.code == EXITS.get(code, 2), given


@pytest.mark.cases(18)
@pytest.mark.parametrize(
    ("arguments", "code", "exits"),
    [
        (("messages", "list", "--conversation-id", "1", "--conversation-id", ""), "MISSING_SELECTOR", 2),
        (
            ("messages", "list", "--conversation-id", "", "--conversation-id", "99"),
            "CONVERSATION_NOT_FOUND",
            3,
        ),
        (("messages", "tail", "--session-key", "x", "--conversation-id", "99"), "INVALID_SELECTOR", 2),
        (("conversations", "show", "--conversation-id", "99", "more"), "INVALID_COMMAND", 2),
        (("conversations", "show", "--conversation-id", "1", "2"), "INVALID_COMMAND", 2),
        (("summaries", "show"), "INVALID_COMMAND", 2),
        (("summaries", "show", ""), "INVALID_COMMAND", 2),
        (("summaries", "show", "a", "b"), "INVALID_COMMAND", 2),
        (("summaries", "show", "sum_nope", "--limit", "1"), "INVALID_ARGUMENT", 2),
        (("config", "got", "x"), "CONFIG_KEY_NOT_FOUND", 3),
        (("config", "get", "freshTailCount", "b", "c"), "INVALID_COMMAND", 2),
        (("config", "get", "freshTailCount.more"), "CONFIG_KEY_NOT_FOUND", 3),
        (("",), "INVALID_COMMAND", 2),
        ((" ",), "INVALID_COMMAND", 2),
        (("conversations", ""), "INVALID_COMMAND", 2),
        (("messages", "list", "--conversation-id", "1", "--between", ".."), "INVALID_TIME_FILTER", 2),
        (("bogus", "--limit", "x"), "INVALID_COMMAND", 2),
        (("bogus", "--limit", "x", "--nope"), "INVALID_COMMAND", 2),
        (("--version", "--nope"), "INVALID_ARGUMENT", 2),
        (("--limit", "x", "bogus"), "INVALID_COMMAND", 2),
        (("--limit", "3", "status"), "INVALID_ARGUMENT", 2),
        (("--session-key", "config", "show"), "INVALID_ARGUMENT", 2),
        (("bogus", "--limit"), "INVALID_COMMAND", 2),
        (("bogus", "--pretty=x"), "INVALID_COMMAND", 2),
        (("messages", "--help", "--role"), "INVALID_ARGUMENT", 2),
        (("--version", "status", "more", "--nope"), "INVALID_ARGUMENT", 2),
        (("conversations", "list", "more", "--limit", "x"), "INVALID_ARGUMENT", 2),
        (("conversations", "list", "more", "--after", ""), "INVALID_TIME_FILTER", 2),
        (("conversations", "list", "more", "--role", "user"), "INVALID_ARGUMENT", 2),
        (("messages", "list", "more", "--conversation-id", "1", "--after", "x"), "INVALID_TIME_FILTER", 2),
        (("conversations", "show", "--conversation-id", "9" * 20, "more"), "INVALID_COMMAND", 2),
        (("summaries", "list", "--conversation-id", "x", "--session-key", "x"), "INVALID_SELECTOR", 2),
        (("summaries", "list", "--conversation-id", "9" * 20, "--session-key", "x"), "INVALID_SELECTOR", 2),
        (("conversations", "--", "list", "--limit", "1"), "INVALID_COMMAND", 2),
        (("--", "status", "--limit"), "INVALID_COMMAND", 2),
        (("--", "-x"), "INVALID_ARGUMENT", 2),
        (("conversations", "--", "--bogus"), "INVALID_ARGUMENT", 2),
        (("summaries", "show", "--limit", "x"), "INVALID_ARGUMENT", 2),
        (("status", "--last", "3h"), "INVALID_ARGUMENT", 2),  # no option of the engine's at all
        (("--format", "table", "--limit", "3"), "INVALID_COMMAND", 2),
        (("--limit", "3", "--bogus"), "INVALID_COMMAND", 2),
        (("config", "get", "raw.freshTailCount", "--config", "/dev/null"), "CONFIG_KEY_NOT_FOUND", 3),
        (("--config", "--limit"), "INVALID_ARGUMENT", 2),
        (("--openclaw-dir", "--db", "x"), "INVALID_ARGUMENT", 2),
        (("conversations", "show", "--conversation-id", " "), "MISSING_SELECTOR", 2),
        (("status", "--db", "/nowhere/lcm.db"), "DATABASE_NOT_FOUND", 3),
        (("status", "--db", "/"), "DATABASE_OPEN_FAILED", 5),
    ],
)
def test_two_things_at_once(
    arguments: tuple[str, ...], code: str, exits: int, database_file: DatabaseFactory
):
    places = () if "--db" in arguments else ("--db", database_file("0.15.3"))
    result = run("--json", *arguments, *places)
    assert (result.error["code"], result.code) == (code, exits)


@pytest.mark.parametrize(
    "beside", [("status",), ("status", "more"), ("conversations", "show", "--", "1", "2")]
)
@pytest.mark.parametrize("asked", ["version", "help"])
def test_the_version_and_the_help_come_before_words_too_many(beside: tuple[str, ...], asked: str):
    assert json.loads(run(f"--{asked}", *beside, "--json", "--pretty").out)["command"] == asked


def test_a_name_that_fills_screens_is_cut_in_the_middle_for_people(database_file: DatabaseFactory):
    refused = run("conversations", "show", "--session-key", "x" * 9_000, "--db", database_file("0.15.3"))
    assert (refused.code, refused.out) == (3, "")
    assert refused.err.startswith("No conversation matched session key xxx")
    assert refused.err.endswith("x … " + "x" * 999 + ".\n")


def test_words_behind_dashes_are_a_command_too(database_file: DatabaseFactory):
    path = database_file("0.15.3")
    listed = run("conversations", "list", "--db", path, "--json")
    for words in (("conversations", "--", "list"), ("--", "conversations", "list")):
        assert run("--db", path, "--json", *words) == listed


@pytest.mark.parametrize(
    "words", [("conversations", "show"), ("conversations",), ("bogus",), ("status", "-x")]
)
def test_an_error_in_the_engines_table_is_its_envelope(words: tuple[str, ...]):
    assert run(*words, "--format", "table") == run(*words, "--json")


def test_a_form_that_a_command_lacks_is_refused_in_the_form_that_applies(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("LCM_TUI_FORMAT", "json")
    assert run("status", "--format", "csv").error["code"] == "INVALID_ARGUMENT"


def test_the_version_in_the_engines_table():
    assert run("--format", "table", "--version").out.startswith("command\tversion\ndata.version\t")


@pytest.mark.parametrize(
    "given",
    [
        ("--conversation-id", "2", "--session-key", " "),
        ("--conversation-id", "", "--session-key", "agent:main:telegram:direct:4242"),
        ("2", "--session-key", ""),
    ],
)
def test_a_blank_name_leaves_the_other(given: tuple[str, ...], database_file: DatabaseFactory):
    path = database_file("0.15.3")
    expected = run("conversations", "show", "2", "--db", path, "--json")
    assert run("conversations", "show", *given, "--db", path, "--json") == expected


@pytest.mark.parametrize(
    "words",
    [
        *(("summaries", "list", option) for option in OPTIONS["selector"]),
        *(("grep", "x", option) for option in OPTIONS["selector"]),
        *(tuple(words.split()) for words in ("summaries list", "doctor", "repair", "files")),
    ],
)
def test_a_blank_name_alone_widens_nothing(words: tuple[str, ...], database_file: DatabaseFactory):
    refused = run(*words, "", "--db", database_file("0.15.3"), "--json")
    assert (refused.code, refused.out) == (2, "")


@pytest.mark.parametrize("words", [("config", "show"), ("config", "get", "freshTailCount"), ("--version",)])
def test_settings_need_no_database(words: tuple[str, ...]):
    assert run(*words, "--db", "/nowhere/lcm.db", "--json").code == 0


@pytest.mark.parametrize(
    ("path", "is_set", "raw", "effective"),
    [
        ("freshTailCount", True, "12", 12),
        ("leafMinFanout", True, "many", 8),
        ("condensedMinFanout", False, None, 4),
        ("cacheAwareCompaction.enabled", True, False, False),
        ("cacheAwareCompaction.cacheTTLSeconds", False, None, 300),
        ("unknown.deep", True, [1], None),
        ("independentLogFile", False, None, {"enabled": True, "maxFileBytes": 104_857_600}),
        ("unknown.deep.0", True, 1, None),
        ("freshTailMaxTokens", False, None, None),
        ("bootstrapMaxTokens", False, None, 12_000),
        ("apiKey", True, "***", None),
    ],
)
def test_config_get_tells_what_is_set_from_what_applies(
    path: str, is_set: bool, raw: object, effective: object, tmp_path: Path
):
    block = {
        "freshTailCount": "12",
        "leafMinFanout": "many",
        "leafChunkTokens": 40_000,
        "cacheAwareCompaction": {"enabled": False},
        "unknown": {"deep": [1]},
        "apiKey": "sk-secret",
    }
    config = tmp_path / "openclaw.json"
    config.write_text(json.dumps({"plugins": {"entries": {"lossless-claw": {"config": block}}}}))
    found = run("config", "get", path, "--config", config, "--json").data
    assert [found[name] for name in ("path", "isSet", "rawValue", "effectiveValue")] == [
        path,
        is_set,
        raw,
        effective,
    ]


def test_variables_that_overrule_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("LCM_IGNORE_SESSION_PATTERNS", "agent:x:*")
    monkeypatch.setenv("LCM_DATABASE_PATH", str(tmp_path / "a.db"))
    config = tmp_path / "openclaw.json"
    block = {"ignoreSessionPatterns": ["agent:y:*"], "statelessSessionPatterns": ["agent:z:*"]}
    config.write_text(json.dumps({"plugins": {"entries": {"lossless-claw": {"config": block}}}}))
    data = run("config", "show", "--config", config, "--db", tmp_path / "b.db", "--json").data
    assert data["diagnostics"] == {
        "ignoreSessionPatternsSource": "env",
        "statelessSessionPatternsSource": "plugin-config",
        "ignoreSessionPatternsEnvOverridesPluginConfig": True,
        "statelessSessionPatternsEnvOverridesPluginConfig": False,
    }
    assert {"LCM_IGNORE_SESSION_PATTERNS", "LCM_DATABASE_PATH"} <= {*data["environmentOverrides"]}
    assert "LCM_TUI_FORMAT" not in data["environmentOverrides"]
    assert (data["effective"]["databasePath"], data["lcmTui"]["effective"]["dbPath"]) == (
        str(tmp_path / "a.db"),
        str(tmp_path / "b.db"),
    )
