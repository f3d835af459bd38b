"""What a command line may look like, and how each mistake is refused."""

from __future__ import annotations

import itertools
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from lcm_core import __version__

from lcm_tui.cli.tree import MEANING
from tests.cli.support import run
from tests.conftest import DatabaseFactory

#: Command line, error code, and a part of the sentence. No database is needed to see what is wrong.
MISTAKES = [
    (["bogus"], "INVALID_COMMAND", "Unknown command: bogus."),
    (["stauts"], "INVALID_COMMAND", "Unknown command: stauts. Did you mean status?"),
    (["undo"], "INVALID_COMMAND", "Unknown command: undo. Did you mean history undo or remnic undo?"),
    (["conversations", "bogus"], "INVALID_COMMAND", "Unknown command: conversations bogus."),
    (
        ["history", "udno"],
        "INVALID_COMMAND",
        "Unknown command: history udno. Did you mean",
    ),
    (
        ["--no-color", "context", "--bugdet", "3"],
        "INVALID_ARGUMENT",
        "Unknown option --bugdet. Did you mean --budget?",
    ),
    (["conversations", "--jsn"], "INVALID_ARGUMENT", "Unknown option --jsn. Did you mean --json?"),
    (
        ["--pretty", "history", "--lst"],
        "INVALID_ARGUMENT",
        "--lst. Did you mean history list?",
    ),
    (["focus", "sum_1"], "INVALID_COMMAND", "Did you mean show sum_1?"),
    (["history", "op_1"], "INVALID_COMMAND", "Did you mean show op_1?"),
    (
        ["remnic", "abc"],
        "INVALID_COMMAND",
        "`remnic` has list, import and undo: `lcm-tui remnic --help`",
    ),
    (["backup", "/x"], "INVALID_COMMAND", "Did you mean --to /x?"),
    (["status", "/x.db"], "INVALID_COMMAND", "Did you mean --db /x.db?"),
    (["sho"], "INVALID_COMMAND", "Did you mean show?"),
    (["tail"], "INVALID_COMMAND", "Did you mean messages CONVERSATION --tail fresh?"),
    (["xyzzy"], "INVALID_COMMAND", "`lcm-tui --help` lists the commands."),
    (["dissolve", "1", "sum_1"], "INVALID_COMMAND", "Name a summary by an option: --summary sum_1."),
    (
        ["focus", "list"],
        "MISSING_SELECTOR",
        "its id, session key or a part of its title, as in `focus list 1`",
    ),
    (["status", "--bogus"], "INVALID_ARGUMENT", "Unknown option --bogus."),
    (["status", "--prety"], "INVALID_ARGUMENT", "Unknown option --prety. Did you mean --pretty?"),
    (["status", "--limit", "3"], "INVALID_ARGUMENT", "--limit is not supported by status."),
    (
        ["messages", "tail", "1", "--role", "user"],
        "INVALID_ARGUMENT",
        "--role cannot be combined with --tail.",
    ),
    (
        ["conversations", "list", "--depth", "1"],
        "INVALID_ARGUMENT",
        "--depth is not supported by conversations.list.",
    ),
    (
        ["summaries", "list", "--count", "1"],
        "INVALID_ARGUMENT",
        "--count is not supported by summaries.list.",
    ),
    (
        ["doctor", "--fix", "A1", "--fail-on", "error"],
        "INVALID_ARGUMENT",
        "--fail-on cannot be used with --fix",
    ),
    (["conversations", "list", "--limit"], "INVALID_ARGUMENT", "--limit needs a value."),
    (["conversations", "list", "--json=yes"], "INVALID_ARGUMENT", "--json takes no value."),
    (
        ["status", "--format", "xml"],
        "INVALID_ARGUMENT",
        "--format must be one of json, table, csv.",
    ),
    (
        ["conversations", "list", "--limit", "0"],
        "INVALID_ARGUMENT",
        "--limit must be a whole number from 1 to 500.",
    ),
    (["conversations", "list", "--limit", "501"], "INVALID_ARGUMENT", "from 1 to 500"),
    (["conversations", "list", "--limit", "ten"], "INVALID_ARGUMENT", "from 1 to 500"),
    (["conversations", "list", "--limit", "１"], "INVALID_ARGUMENT", "from 1 to 500"),
    (["messages", "tail", "1", "--count", "0"], "INVALID_ARGUMENT", "--tail must be"),
    (["messages"], "MISSING_SELECTOR", "messages needs a conversation"),
    (
        ["messages", "list", "--conversation-id", "1", "--session-key", "k"],
        "INVALID_SELECTOR",
        "cannot be combined",
    ),
    (["messages", "list", "1", "--conversation-id", "1"], "INVALID_COMMAND", "needs the conversation once"),
    (
        ["messages", "list", "--session-key", " "],
        "MISSING_SELECTOR",
        "messages needs a conversation",
    ),
    (["summaries", "list", "--conversation-id", ""], "MISSING_SELECTOR", "--conversation-id is empty; give"),
    (
        ["messages", "list", "--session-key", "--limit", "3"],
        "INVALID_ARGUMENT",
        "--session-key needs a value; join a value that begins with a dash: --session-key=--limit.",
    ),
    (["bogus", "--nonsense"], "INVALID_COMMAND", "Unknown command: bogus."),
    (["messages", "list", "1", "--role", "robot"], "INVALID_ARGUMENT", "--role must be one of"),
    (["messages", "list", "1", "--after", "yesterday"], "INVALID_TIME_FILTER", "--after must be a time"),
    (["messages", "list", "1", "--before", "2026-13-01"], "INVALID_TIME_FILTER", "--before must be a time"),
    (
        ["messages", "list", "1", "--between", "2026-01-01"],
        "INVALID_TIME_FILTER",
        "--between must be two times",
    ),
    (
        ["messages", "list", "1", "--between", "2026-01-02..2026-01-01"],
        "INVALID_TIME_FILTER",
        "the earlier time first",
    ),
    (
        ["messages", "list", "1", "--between", "2026-01-01..2026-01-02", "--after", "2026-01-01"],
        "INVALID_TIME_FILTER",
        "--between cannot be combined with --after.",
    ),
    (
        ["messages", "list", "1", "--recency", "1d", "--after", "2026-01-01"],
        "INVALID_TIME_FILTER",
        "--recency cannot be combined with --after.",
    ),
    (
        ["messages", "list", "1", "--recency", "1q"],
        "INVALID_TIME_FILTER",
        "--recency must be a number and one of",
    ),
    (["messages", "list", "1", "--recency", "999999999w"], "INVALID_TIME_FILTER", "--recency must be"),
    (["summaries", "list", "--kind", "root"], "INVALID_ARGUMENT", "--kind must be leaf or condensed."),
    (
        ["messages", "list", "1", "--recency", "1d", "--before", "2026-01-01"],
        "INVALID_TIME_FILTER",
        "--recency must begin earlier than --before.",
    ),
    (
        ["summaries", "list", "--depth=-1"],
        "INVALID_ARGUMENT",
        "--depth must be a whole number of at least 0.",
    ),
    (["summaries", "show"], "INVALID_COMMAND", "show needs an argument"),
    (["summaries", "show", "a", "b"], "INVALID_COMMAND", "show does not take b:"),
    (["prompts", "leaf", "--prompt-dir", "\udcff"], "INVALID_ARGUMENT", "not valid UTF-8"),
    (["context", "1", "--budget", "0"], "INVALID_ARGUMENT", "--budget must be"),
    (["conversations", "list", "--cursor", "junk"], "INVALID_CURSOR", "The cursor cannot be used"),
    (["status", "--db", ""], "INVALID_ARGUMENT", "--db is empty"),
    (["--completion", "tcsh"], "INVALID_ARGUMENT", "must be one of bash, zsh, fish, powershell"),
    (["--limit", "3"], "INVALID_COMMAND", "--limit is not supported by lcm-tui without a command."),
    ([], "NO_TERMINAL", "The app needs a terminal"),
]


@pytest.mark.cases(15)
@pytest.mark.parametrize(
    ("arguments", "code", "words"), MISTAKES, ids=[" ".join(row[0])[:50] or "nothing" for row in MISTAKES]
)
def test_a_mistake_is_refused_in_one_sentence(
    arguments: list[str], code: str, words: str, monkeypatch: pytest.MonkeyPatch
):
    plain = run(*arguments)
    assert (plain.code, plain.out) == (2, "")
    assert words in plain.err
    assert plain.err.endswith((".\n", ").\n", "?\n"))
    assert plain.err.count("\n") == 1
    monkeypatch.setenv("LCM_TUI_FORMAT", "json")
    as_json = run(*arguments)
    assert as_json.code == 2
    assert as_json.error["code"] == code
    assert as_json.error["message"] == plain.err.rstrip("\n")
    assert list(as_json.error)[:2] == ["code", "message"]
    assert as_json.error.get("details") != {}


@pytest.mark.long
def test_options_stand_anywhere(database_file: DatabaseFactory):
    path = str(database_file("0.15.3"))
    expected = run("conversations", "list", "--db", path, "--limit", "2", "--json")
    pieces = (["conversations"], ["list"], ["--db", path], ["--limit=2"], ["--json"])
    for order in itertools.permutations(pieces):
        if order.index(["conversations"]) < order.index(["list"]):
            assert run(*itertools.chain(*order)) == expected


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("--db status status", "status --db status"),
        ("--role tool messages list 1", "messages list 1 --role tool"),
        ("--limit 1 conversations list", "conversations list --limit 1"),
        ("conversations --limit 1 -- list", "conversations list --limit 1"),
        ("--limit 3 status", "status --limit 3"),
        ("messages --role tool list 1", "messages 1 --role tool"),
        ("--limit 1 messages --role tool list 1", "messages 1 --role tool --limit 1"),
    ],
)
def test_options_before_a_command_are_its_own(words: str, meant: str):
    assert run(*words.split()) == run(*meant.split())


@pytest.mark.parametrize("arguments", [["conversations"], ["conversations", "--pretty"]])
def test_a_group_alone_lists_what_there_is(arguments: list[str]):
    alone = run(*arguments)
    assert (alone.code, alone.out) == (2, "")
    assert "  list     List all conversations" in alone.err
    error = run(*arguments, "--json").error
    assert error == {
        "code": "INVALID_COMMAND",
        "message": "conversations needs a subcommand: list, show, export, archive, prune, delete.",
    }


@pytest.mark.parametrize("words", [[], ["history"], ["history", "undo"]])
def test_help_is_a_command_too(words: list[str]):
    assert run("help", *words) == run(*words, "--help")
    for line in (["help", *words, "--json"], ["--json", "help", *words]):
        assert run(*line) == run(*words, "--help", "--json")
    assert run("help", "bogus").code == 2


@pytest.mark.long
@pytest.mark.parametrize(("words", "meaning"), MEANING.items())
def test_words_that_mean_others_are_those(words: str, meaning: str, database_file: DatabaseFactory):
    path = database_file("0.15.3")
    more = {"completion": ["bash"], "prompts show": ["leaf"]}
    named = [] if words.split()[0] in ("files", "prompts", "sessions", "vacuum", "history") else ["1"]
    said, meant = (run(*one.split(), *more.get(words, named), "--db", path) for one in (words, meaning))
    if words != "summaries show":  # which answers as the engine's command does
        assert (said.code, said.out, said.err) == (meant.code, meant.out, meant.err)
    assert "Unknown command" not in said.err
    assert run("grep", words, "--db", path).code == 0, "behind a command they are what was typed"


def test_an_id_that_is_not_there_exits_with_3(database_file: DatabaseFactory):
    path = database_file("0.15.3")
    for arguments, code, details in (
        (["messages", "list", "99"], "CONVERSATION_NOT_FOUND", {"kind": "conversationId", "value": 99}),
        (
            ["conversations", "delete", "9" * 20],
            "CONVERSATION_NOT_FOUND",
            {"kind": "conversationId", "value": 10**20},
        ),
        (["summaries", "list", "99"], "CONVERSATION_NOT_FOUND", {"kind": "conversationId", "value": 99}),
        (["context", "99"], "CONVERSATION_NOT_FOUND", {"kind": "conversationId", "value": 99}),
        (
            ["messages", "tail", "--session-key", "no"],
            "CONVERSATION_NOT_FOUND",
            {"kind": "sessionKey", "value": "no"},
        ),
        (["summaries", "show", "sum_nope"], "SUMMARY_NOT_FOUND", {"summaryId": "sum_nope"}),
        (["summaries", "show", "--previous", "sum_nope"], "SUMMARY_NOT_FOUND", {"summaryId": "sum_nope"}),
        (["show", "file_no"], "FILE_NOT_FOUND", {"fileId": "file_no"}),
    ):
        result = run(*arguments, "--db", path, "--json")
        assert result.code == 3
        assert (result.error["code"], result.error["details"]) == (code, details)


def test_a_session_key_means_the_active_conversation(database_file: DatabaseFactory):
    """Conversations 5 (archived) and 8 (active) share one."""
    named = ("--session-key", "agent:ops:discord:channel:ops-room", "--db", database_file("0.15.3"), "--json")
    assert run("conversations", "show", *named).data["conversation"]["conversationId"] == 8


@pytest.mark.long
def test_a_conversation_goes_by_its_id_its_session_key_or_a_part_of_its_title(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    with closing(sqlite3.connect(path)) as connection:
        for title, number in (("Lease table", 1), ("The lease", 2), ("LEASE", 3), ("Straße 7", 5)):
            connection.execute(
                "UPDATE conversations SET title = ? WHERE conversation_id = ?", (title, number)
            )
        connection.commit()

    def meant(name: str) -> int:
        shown = [
            run(*words, name, "--db", path, "--json").data["conversation"]["conversationId"]
            for words in (("conversations", "show"), ("messages", "list"), ("context",))
        ]
        assert shown == shown[:1] * 3
        return int(shown[0])

    named = ("2", "agent:ops:discord:channel:ops-room", "TABLE", "the le", "lease", " Lease ", "STRASSE")
    assert [meant(name) for name in named] == [2, 8, 1, 2, 3, 3, 5]
    for name, code, sentence in (
        (
            "eas",
            2,
            "Several conversations have eas in their titles: 3 (LEASE), 2 (The lease), 1 (Lease table). "
            "Give the id of one.",
        ),
        ("no such", 3, "No conversation has the session key no such, or that in its title."),
        ("7", 3, "No conversation matched id 7."),
    ):
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("DELETE FROM conversations WHERE conversation_id = 7")
            connection.commit()
        for words in (["context"], ["dissolve"], ["conversations", "delete"], ["merge"]):
            refused = run(
                *words, name, *(["--summary", "sum_"] if words == ["dissolve"] else []), "--db", path
            )
            assert refused.code == code or words == ["dissolve"], refused
            assert sentence in refused.err or words == ["dissolve"]


def test_the_beginning_of_a_summary_id_is_enough(database_file: DatabaseFactory):
    path = database_file("0.15.3")
    found = run("summaries", "show", "sum_06d84", "--db", path, "--json").data["summary"]["summaryId"]
    assert found == "sum_06d84ef9c70348dc"
    result = run("summaries", "show", "sum_0", "--db", path, "--json")
    assert result.code == 2
    assert result.error["code"] == "AMBIGUOUS_ID"
    assert "sum_06d84ef9c70348dc" in result.error["details"]["candidates"]


def test_a_budget_comes_from_the_option_then_the_environment(
    database_file: DatabaseFactory, monkeypatch: pytest.MonkeyPatch
):
    def budget(*arguments: str) -> int:
        return run("context", "1", "--db", database_file("0.15.3"), "--json", *arguments).data["totals"][
            "budget"
        ]

    assert budget() == 128_000
    monkeypatch.setenv("LCM_MAX_ASSEMBLY_TOKEN_BUDGET", "9000")
    assert budget() == 9000
    monkeypatch.setenv("LCM_TUI_BUDGET", "8000")
    assert budget() == 8000
    assert budget("--budget", "7000") == 7000
    assert budget("--budget", "1.5k") == 1500


def test_json_is_the_default_where_the_environment_says_so(
    database_file: DatabaseFactory, monkeypatch: pytest.MonkeyPatch
):
    path = database_file("0.15.3")
    assert not run("status", "--db", path).out.startswith("{")
    monkeypatch.setenv("LCM_TUI_FORMAT", "json")
    assert run("status", "--db", path).out.startswith('{"ok":true,')
    assert run("status", "--db", path, "--pretty").out.startswith('{\n  "ok": true,')
    assert run("status", "--db", path, "--format", "table").out.startswith("command\tstatus\ndata.version\t")
    monkeypatch.setenv("LCM_TUI_FORMAT", "xml")
    refused = run("status", "--db", path)
    assert (refused.code, refused.out) == (4, "")
    assert refused.err == "LCM_TUI_FORMAT must be json or table, not 'xml'.\n"
    assert run("status", "--db", path, "--json").code == 0


def test_a_database_is_named_once(database_file: DatabaseFactory):
    path = database_file("0.15.3")
    for words in (("status", "--db", path), ("--db", path, "status"), (f"--db={path}", "history", "list")):
        refused = run(*words, "--db", path)
        assert (refused.code, refused.err) == (2, "--db is given twice: name one database.\n")
    assert run("grep", "--db", path, "--", "--db").code == 0


def test_the_configuration_is_shown_and_never_written(tmp_path: Path):
    config = tmp_path / "openclaw.json"
    plugin = {"freshTailCount": 12, "leafMinFanout": "many", "apiKey": "sk-very-secret"}
    config.write_text(json.dumps({"plugins": {"entries": {"lossless-claw": {"config": plugin}}}}))
    before = config.read_bytes()
    result = run("config", "show", "--config", config, "--json")
    ours = result.data["lcmTui"]
    assert result.data["raw"] == {**plugin, "apiKey": "***"}
    assert result.data["effective"]["freshTailCount"] == 12
    assert "leafMinFanout" in ours["problems"][0]["message"]
    assert result.document["meta"]["configPath"] == str(config)
    value = run("config", "get", "freshTailCount", "--config", config, "--json").data["lcmTui"]
    assert (value["value"], value["origin"], value["hasEffect"]) == (12, "effective", True)
    assert "expansionModel" in ours["withoutEffect"]
    assert not {"freshTailCount", "timezone"}.intersection(ours["withoutEffect"])
    value = run("config", "get", "expansionModel", "--config", config, "--json").data["lcmTui"]
    assert value["hasEffect"] is False
    shown = run("config", "show", "--config", config).out
    without, retired = ours["withoutEffect"], ours["retired"]
    assert shown.count("default; no effect here") == len(without) - len(retired) == 18
    assert shown.count("default; retired in ") == len(retired) == 15
    assert run("config", "get", "nothing", "--config", config).code == 3
    refused = run("config", "set", "freshTailCount", "13", "--config", config, "--json")
    assert (refused.code, refused.error["code"]) == (9, "REFUSED")
    assert "does not write the host's configuration" in refused.error["message"]
    assert config.read_bytes() == before
    assert "sk-very-secret" not in run("config", "show", "--config", config).out
    missing = run("status", "--config", tmp_path / "no.json", "--json")
    assert (missing.code, missing.error["code"]) == (3, "CONFIG_NOT_FOUND")


@pytest.mark.parametrize("flag", ["--help", "-h"])
@pytest.mark.parametrize(
    "command", [[], ["status"], ["conversations"], ["messages", "list"], ["config", "set"]]
)
def test_help_explains_and_exits_with_0(command: list[str], flag: str):
    result = run(*command, flag)
    assert (result.code, result.err) == (0, "")
    assert "Usage: lcm-tui" in result.out


def test_the_version_is_that_of_the_package():
    assert run("--version").out == f"lcm-tui {__version__}\n"
    assert run("--version", "--json").document == {
        "ok": True,
        "command": "version",
        "data": {"version": __version__},
        "meta": {},
    }


def test_files_are_found_below_the_state_folder(openclaw_home: Path):
    listed = run("files", "--openclaw-dir", openclaw_home, "--json").data["items"]
    assert len(listed) == 11
    assert {item["state"] for item in listed} == {"found"}
    name = ("show", "file_b7b54f0887584669", "--include-content")
    shown = run(*name, "--openclaw-dir", openclaw_home, "--json").data
    assert shown["file"]["resolvedPath"].startswith(str(openclaw_home))
    assert json.loads(shown["content"]["text"])
    (openclaw_home / "lcm-files" / "2" / "file_56fa58c1f51044ba.png").write_bytes(
        b"\x89PNG\r\n\x1a\n" + bytes(30)
    )
    image = run("show", "file_56fa58c1f51044ba", "--include-content", "--openclaw-dir", openclaw_home)
    assert "The file is PNG image" in image.out
    named = run(*name, "--db", openclaw_home / "lcm.db")
    assert named.code == 0, "the folder of a named database is its state folder"
    lone = openclaw_home.parent / "lone.db"
    (openclaw_home / "lcm.db").rename(lone)
    elsewhere = run(*name, "--db", lone)
    assert (elsewhere.code, elsewhere.out) == (3, "")
    assert "name its state folder with --openclaw-dir" in elsewhere.err


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ["messages", "list", "sum_4c4b"],
            "CONVERSATION must be the number of a conversation: sum_4c4b is a summary, and "
            "`show` names its own.",
        ),
        (["conversations", "delete", "0"], "CONVERSATION must be a whole number of at least 1."),
        (["context", "0", "--snapshots"], "CONVERSATION must be a whole number of at least 1."),
        (["context", "0"], "CONVERSATION must be a whole number of at least 1."),
        (
            ["context", "1", "--compare", "conversation=0"],
            "--compare conversation must be a whole number of at least 1.",
        ),
        (
            ["messages", "list", "--conversation-id", "0"],
            "--conversation-id must be a whole number of at least 1.",
        ),
        (["transplant", "0", "5"], "SOURCE must be a whole number of at least 1."),
        (["transplant", "5"], "transplant needs an argument: lcm-tui transplant SOURCE TARGET."),
        (["summaries", "show", ""], "ID is empty."),
    ],
)
def test_what_is_wrong_with_an_argument_goes_by_its_name(
    arguments: list[str], sentence: str, database_file: DatabaseFactory
):
    result = run(*arguments, "--db", database_file("0.15.3"))
    assert (result.code, result.err) == (2, f"{sentence}\n")


@pytest.mark.parametrize("group", ["conversations", "focus", "history"])
def test_what_is_proposed_for_an_id_works(group: str, database_file: DatabaseFactory):
    path = str(database_file("0.15.3"))
    for named in ("1", "sum_bb692ab9b90b6a49"):
        message = run("--db", path, group, named, "--json").error["message"]
        proposed = message.partition("Did you mean ")[2].rstrip("?").split()
        assert run("--db", path, *proposed).code == 0


KEYS = ("x", "x ", " x", "\tx", "x\u3000", "x\u00a0")


@pytest.mark.cases(1)
@pytest.mark.parametrize("typed", [*KEYS, "  x  ", "x\n"])
def test_a_session_key_is_found_as_it_was_listed(database_copy: DatabaseFactory, typed: str):
    path = database_copy("0.15.3")
    with closing(sqlite3.connect(path)) as connection:
        for number, key in enumerate(KEYS, 1):
            connection.execute(
                "UPDATE conversations SET session_key = ? WHERE conversation_id = ?", (key, number)
            )
        connection.commit()
    expected = KEYS.index(typed) + 1 if typed in KEYS else 1
    named = ("--session-key", typed, "--db", path, "--json")
    assert run("conversations", "show", *named).data["conversation"]["conversationId"] == expected
    found = run("grep", "e", "--session-key", typed, "--db", path, "--json").data
    assert {one["conversationId"] for one in found["hits"]} <= {expected}
    missing = run("conversations", "show", "--session-key", f"no {typed}", "--db", path, "--json")
    assert missing.code == 3


@pytest.mark.long
@pytest.mark.parametrize("number", [2**53 - 1, 2**53, 2**53 + 1, 2**62 + 7, 2**63 - 1])
def test_what_is_listed_with_a_large_id_can_be_shown(database_copy: DatabaseFactory, number: int):
    path = database_copy("0.15.3")
    with closing(sqlite3.connect(path)) as connection:
        tables = [
            name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        ]
        for table in tables:
            columns = {row[1] for row in connection.execute(f'PRAGMA table_info("{table}")')}
            if "conversation_id" in columns:
                connection.execute(
                    f'UPDATE "{table}" SET conversation_id = ? WHERE conversation_id = 1', (number,)
                )
        connection.commit()
    listed = run("conversations", "list", "--db", path, "--json", "--limit", "500").data["items"]
    assert number in {one["conversationId"] for one in listed}
    for words in (("conversations", "show"), ("context",), ("summaries", "list"), ("history", "list")):
        shown = run(*words, str(number), "--db", path, "--json")
        assert (shown.code, shown.err) == (0, ""), words
    assert run("conversations", "show", "--conversation-id", str(number), "--db", path).code == 0
    first = json.loads(run("messages", "list", str(number), "--limit", "2", "--db", path, "--json").out)
    more = ("--limit", "2", "--cursor", first["pagination"]["nextCursor"], "--db", path, "--json")
    assert run("messages", "list", str(number), *more).data["items"]
    assert run("conversations", "show", str(number - 1), "--db", path).code == 3


def test_a_file_that_is_named_first_is_the_database(tmp_path: Path, database_file: DatabaseFactory):
    assert "is a folder" in run(tmp_path, "status").err
    none = run(database_file("0.15.3"), "context", "1", "--at", "before:last").err
    assert none.startswith("No operation in the history changed this conversation.")
    assert run(database_file("0.15.3"), "status").out == run("status", "--db", database_file("0.15.3")).out
    named = tmp_path / "backup"
    named.write_bytes(b"no database")
    refused, same = run(named), run("--db", named)
    assert (refused.code, refused.err) == (same.code, same.err)
    assert str(named) in refused.err
    assert run(tmp_path / "nothing").code == 2


@pytest.mark.parametrize("option", ["--conversation-id", "--session-key"])
def test_where_a_conversation_is_an_argument_its_options_are_refused_with_the_way(option: str):
    refused = run("context", option, "3")
    assert refused.code == 2
    assert "or title without an option, as in `lcm-tui context 3`." in refused.err
