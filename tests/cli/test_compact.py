"""``compact``: foreseen without a call or a trace, made when agreed to, taken back as a whole."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from lcm_core.api import ExtractiveSummarizer
from lcm_core.writers.request import ProviderAuthError, SummarizerError, SummaryReply

from tests.change.support import dump, search_faults
from tests.cli.support import run
from tests.conftest import DatabaseFactory
from tests.databases import run as execute
from tests.databases import value
from tests.operations.compacting import start_database

SMALL = ("--set", "freshTailCount=10", "--set", "leafChunkTokens=1400", "--budget", 2000)


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """Seven conversations of raw messages, as the present engine wrote them."""
    return start_database("0.15.3", tmp_path / "lcm.db")


def compact(database: Path, *arguments: object) -> Any:
    """The data of ``compact 1``."""
    return run("compact", 1, "--db", database, "--json", *arguments).data


def test_a_dry_run_shows_every_chunk_and_calls_nobody(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def called(*_: object) -> SummaryReply:
        raise AssertionError("a dry run made a call")

    monkeypatch.setattr(ExtractiveSummarizer, "__call__", called)
    before, files = dump(database), sorted(database.parent.iterdir())
    data = compact(database, *SMALL)
    assert (data["applied"], data["operation"], data["rules"]) == (False, "sweep", "0.15")
    first = data["passes"][0]
    assert (first["kind"], first["sources"][:3], first["exact"]) == ("leaf", [1, 2, 3], True)
    stored = value(
        database, "SELECT sum(token_count) FROM messages WHERE message_id <= ?", first["sources"][-1]
    )
    assert first["sourceTokens"] == stored <= 1400
    leaves = [one for one in data["passes"] if one["kind"] == "leaf"]
    flat = [ref for one in leaves for ref in one["sources"]]
    assert flat == list(range(1, len(flat) + 1))
    last = compact(database, *SMALL, "--single-root")["passes"][-1]
    assert (last["kind"], last["exact"], last["sources"][-1][:5]) == ("condensed", False, "pass ")
    assert data["calls"] == len(data["passes"])
    assert data["tokens"]["after"] < data["tokens"]["before"] == 10182
    assert (dump(database), sorted(database.parent.iterdir())) == (before, files)


@pytest.mark.long
def test_what_was_foreseen_is_made_and_taken_back(database: Path) -> None:
    before = dump(database)
    foreseen = compact(database, *SMALL)
    done = compact(database, *SMALL, "--apply", "--yes")
    leaves = [one["sources"] for one in foreseen["passes"] if one["kind"] == "leaf"]
    assert [one["sources"] for one in done["made"] if one["kind"] == "leaf"] == leaves
    assert done["applied"] is True
    assert {one["model"] for one in done["made"]} == {"extractive"}
    assert search_faults(database) == []
    undone = run("history", "undo", done["batch"], "--db", database, "--apply", "--yes")
    assert undone.code == 0
    assert dump(database) == before


@pytest.mark.long
def test_a_single_root(database: Path) -> None:
    compact(
        database,
        "--set",
        "freshTailCount=0",
        "--set",
        "leafChunkTokens=1600",
        "--single-root",
        "--apply",
        "--yes",
    )
    kinds = value(
        database,
        "SELECT count(*) || ' ' || group_concat(item_type) FROM context_items WHERE conversation_id = 1",
    )
    assert kinds == "1 summary"


def test_until_under(database: Path) -> None:
    done = compact(database, *SMALL, "--until-under", "9500", "--apply", "--yes")
    tokens = value(
        database,
        """SELECT sum(coalesce(m.token_count, s.token_count)) FROM context_items AS c
        LEFT JOIN messages AS m USING (message_id) LEFT JOIN summaries AS s ON s.summary_id = c.summary_id
        WHERE c.conversation_id = 1""",
    )
    assert done["made"]
    assert tokens <= 9500


def test_the_rules_of_another_engine(database: Path) -> None:
    ours, theirs = compact(database), compact(database, "--rules", "0.1")
    assert (ours["rules"], ours["freshTail"]["count"]) == ("0.15", 64)
    assert (theirs["rules"], theirs["freshTail"]["count"]) == ("0.1", 32)


def test_nothing_is_due_below_the_threshold(database: Path) -> None:
    data = compact(database, "--if-due", "--budget", "200k", "--set", "freshTailCount=10")
    assert data["passes"] == []
    assert compact(database, "--if-due", *SMALL)["passes"]
    said = run("compact", 1, "--db", database, "--if-due", "--budget", "200k", "--apply")
    assert (said.code, said.out.splitlines()[0]) == (0, "Nothing to compact")
    assert "tokens) is not above the threshold of 150,000.\n" in said.out


def test_why_there_is_no_pass_and_which_options_make_one(database: Path) -> None:
    said = run("compact", 5, "--db", database).out
    assert "All raw messages are in the fresh tail, which compaction does not touch: all 10 messages" in said
    assert (
        "freshTailCount=N protects fewer messages, --single-root condenses all summaries into one.\n" in said
    )
    later = run("compact", 5, "--db", database, "--rules", "1.1").out
    assert "into one, --current-turn also compacts the finished tool calls of the current turn." in later
    under = run("compact", 5, "--db", database, "--until-under", "40k").out
    assert "is already below 40,000." in under


def test_without_a_terminal_somebody_must_have_agreed(database: Path) -> None:
    before = dump(database)
    assert run("compact", 1, "--db", database, *SMALL, "--apply").code == 9
    assert dump(database) == before


@pytest.mark.long
def test_a_failure_keeps_what_was_made(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original, calls = ExtractiveSummarizer.__call__, []

    async def third_fails(self: ExtractiveSummarizer, request) -> SummaryReply:
        calls.append(request)
        if len(calls) == 3:
            raise SummarizerError("The server did not answer in time.")
        return await original(self, request)

    monkeypatch.setattr(ExtractiveSummarizer, "__call__", third_fails)
    done = run("compact", 1, "--db", database, *SMALL, "--apply", "--yes", "--json")
    document = json.loads(done.out)
    assert (done.code, document["ok"], len(document["data"]["made"])) == (10, False, 2)
    assert document["error"]["message"] == "The server did not answer in time."
    assert (document["data"]["compacted"], document["data"]["reason"]) == (
        True,
        "compaction failed after partial progress",
    )
    assert value(database, "SELECT count(*) FROM summaries") == 2


def test_a_refused_key_makes_nothing(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(*_: object) -> SummaryReply:
        raise ProviderAuthError("no")

    monkeypatch.setattr(ExtractiveSummarizer, "__call__", refuse)
    before = dump(database)
    done = run("compact", 1, "--db", database, *SMALL, "--apply", "--yes", "--json")
    assert (done.code, done.error["code"]) == (4, "PROVIDER_AUTH")
    assert dump(database) == before


@pytest.mark.long
@pytest.mark.parametrize(("mode", "goes_on"), [((), True), (("--single-root",), False)])
def test_a_key_that_is_refused_halfway_ends_it_and_says_what_the_engine_would_do(
    mode: tuple[str, ...], goes_on: bool, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original, calls = ExtractiveSummarizer.__call__, []

    async def third_is_refused(self: ExtractiveSummarizer, request) -> SummaryReply:
        calls.append(request)
        if len(calls) == 3:
            raise ProviderAuthError("no")
        return await original(self, request)

    monkeypatch.setattr(ExtractiveSummarizer, "__call__", third_is_refused)
    done = run("compact", 1, "--db", database, *SMALL, *mode, "--apply", "--yes", "--json")
    document = json.loads(done.out)
    assert (document["error"]["code"], len(document["data"]["made"]), len(calls)) == ("PROVIDER_AUTH", 2, 3)
    assert document["data"]["reason"] == "provider auth failure after partial compaction"
    assert ("The engine itself would continue" in document["error"]["message"]) is goes_on


def test_no_fallback_stops_where_the_source_would_be_cut(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def echo(_: ExtractiveSummarizer, request) -> SummaryReply:
        return SummaryReply(request.text, "echo")

    monkeypatch.setattr(ExtractiveSummarizer, "__call__", echo)
    done = run("compact", 1, "--db", database, *SMALL, "--apply", "--yes", "--no-fallback", "--json")
    assert done.code != 0
    assert value(database, "SELECT count(*) FROM summaries") == 0
    assert compact(database, *SMALL, "--leaf", "--apply", "--yes")["made"][0]["level"] == "fallback"


def test_a_pass_for_which_a_model_said_nothing_is_told_of_as_a_cut(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nothing(_: ExtractiveSummarizer, request) -> SummaryReply:
        return SummaryReply("", "a/model", is_missing=True)

    monkeypatch.setattr(ExtractiveSummarizer, "__call__", nothing)
    done = run("compact", 1, "--db", database, *SMALL, "--apply", "--yes", "--no-fallback", "--json")
    assert done.code != 0
    assert value(database, "SELECT count(*) FROM summaries") == 0
    (made,) = compact(database, *SMALL, "--leaf", "--apply", "--yes")["made"]
    assert (made["level"], made["isCut"]) == ("normal", True)
    assert value(database, "SELECT content FROM summaries").endswith(
        "\n[LCM fallback summary; truncated for context management]"
    )
    assert value(database, "SELECT title FROM lcm_tui_operations").endswith("(normal, a cut)")


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        (("--leaf", "--single-root"), "leaf"),
        (("--single-root", "--until-under", "9k"), "leaf"),
        (("--if-due", "--single-root"), "if-due"),
        (("--if-due", "--current-turn"), "current-turn"),
        (("--leaf", "--current-turn"), "current-turn"),
        (("--set", "freshTailCount=-1"), "set freshTailCount"),
        (("--rules", "0.2"), "rules"),
        (("--set", "leafChunkTokens=0"), "set leafChunkTokens"),
        (("--until-under", "few"), "until-under"),
        (("--max-cost", "much"), "max-cost"),
    ],
)
def test_options_that_do_not_fit(database: Path, arguments: tuple[str, ...], option: str) -> None:
    done = run("compact", 1, "--db", database, "--json", *arguments)
    assert (done.code, done.error["details"]["option"]) == (2, option)


@pytest.mark.long
def test_finished_tool_calls_of_the_current_turn_are_compacted_when_asked_for(
    database_copy: DatabaseFactory,
) -> None:
    path = database_copy("1.1.0-shapes")
    small = ("--set", "freshTailCount=2", "--set", "leafChunkTokens=400")
    before = dump(path)
    assert compact(path, *small)["passes"] == []
    data = compact(path, *small, "--current-turn")
    assert [one["sources"] for one in data["passes"]] == [[12, 13, 14, 15]]
    assert data["currentTurn"] is True
    assert (
        "Current turn          finished tool calls too"
        in run("compact", 1, "--db", path, *small, "--current-turn").out
    )
    done = compact(path, *small, "--current-turn", "--apply", "--yes")
    assert (done["compacted"], done["reason"], len(done["made"])) == (True, None, 1)
    assert run("history", "undo", done["batch"], "--apply", "--yes", "--db", path).code == 0
    assert dump(path) == before


def test_an_engine_before_1_1_never_compacts_the_current_turn(database: Path) -> None:
    done = run("compact", 1, "--db", database, "--current-turn", "--json")
    assert (done.code, done.error["code"]) == (9, "NOT_IN_THESE_RULES")
    assert "add --rules 1.1" in done.error["message"]
    assert compact(database, *SMALL, "--current-turn", "--rules", "1.1")["rules"] == "1.1"


def test_warns_of_a_host_that_is_at_it(database: Path) -> None:
    assert compact(database)["warnings"] == []
    execute(
        database,
        """INSERT INTO conversation_compaction_maintenance (conversation_id, running, last_started_at)
        VALUES (1, 1, '2026-03-06T12:00:00.000Z')""",
        "UPDATE conversations SET active = 0 WHERE conversation_id = 1",
    )
    archived, running = compact(database)["warnings"]
    assert archived.startswith("This conversation is archived")
    assert "is compacting this conversation itself, since 2026-03-06T12:00:00.000Z" in running
    assert f"Warning: {archived}." in run("compact", 1, "--db", database).out


@pytest.mark.long
@pytest.mark.parametrize("version", ["0.1.2", "0.3.0", "0.8.2", "0.15.3"])
def test_databases_of_every_version(database_copy: DatabaseFactory, version: str) -> None:
    path = database_copy(version)
    done = run(
        "compact",
        1,
        "--db",
        path,
        "--set",
        "freshTailCount=4",
        "--set",
        "leafChunkTokens=600",
        "--apply",
        "--yes",
        "--json",
    ).data
    assert done["made"]
    assert bool(done["warnings"]) == (version != "0.15.3")  # older hosts do not note that they compact
    assert search_faults(path) == []
    before = run("compact", 1, "--db", path, "--set", "freshTailCount=4", "--set", "leafChunkTokens=600")
    assert before.code == 0


@pytest.mark.long
def test_what_takes_it_back_names_the_same_database(openclaw_home: Path) -> None:
    """Copied as it stands it must not undo something in the database that is there by default."""
    done = run(
        "compact",
        7,
        "--set",
        "freshTailCount=2",
        "--set",
        "leafChunkTokens=600",
        "--apply",
        "--yes",
        "--openclaw-dir",
        openclaw_home,
    )
    assert done.code == 0, done.err
    [line] = [line for line in done.out.splitlines() if "history undo" in line]
    assert line.endswith(f"--apply --db {openclaw_home / 'lcm.db'}")
    words = line.split("lcm-tui ")[1].split()
    assert run(*words, "--yes").code == 0


@pytest.mark.long
def test_a_target_that_no_pass_reaches_is_said(database: Path) -> None:
    wishes = ("--until-under", 300, "--set", "freshTailCount=0", "--set", "leafChunkTokens=1400")
    shown = run("compact", 1, "--db", database, *wishes)
    assert "no pass brings the context below 300" in shown.out
    done = compact(database, *wishes, "--apply", "--yes")
    standing = """SELECT sum(coalesce(m.token_count, s.token_count)) FROM context_items AS c
        LEFT JOIN messages AS m USING (message_id) LEFT JOIN summaries AS s USING (summary_id)
        WHERE c.conversation_id = 1"""
    left = value(database, standing)
    assert (done["reached"], done["tokens"]["after"], left > 300) == (False, left, True)
    assert done["tokens"]["afterIsAssumed"] is False
    again = run("compact", 1, "--db", database, *wishes, "--apply", "--yes")
    assert (again.code, f"That is {left:,} tokens" in again.out) == (0, True)
    reached = compact(database, "--until-under", "9m", "--apply", "--yes")
    assert reached["passes"] == []


@pytest.mark.long
def test_a_target_that_is_reached_is_said_to_programs(database: Path) -> None:
    done = compact(database, "--until-under", "6k", *SMALL[:4], "--apply", "--yes")
    assert (done["reached"], done["tokens"]["after"] <= 6_000) == (True, True)
