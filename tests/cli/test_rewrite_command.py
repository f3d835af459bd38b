"""``rewrite`` and ``repair``: forecasts, drafts for review, rules, what providers do wrong, resume."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from lcm_core.api import ExtractiveSummarizer
from lcm_core.base.files import drafts_folder
from lcm_core.engine.rules import NAMED
from lcm_core.writers import writer

from lcm_tui.cli import drafting
from tests.change.support import dump, search_faults
from tests.cli.support import Result, run
from tests.conftest import DatabaseFactory
from tests.databases import column, value
from tests.databases import run as execute
from tests.fakes.messages_api import MessagesApi
from tests.fakes.openai_api import OpenAIApi
from tests.fakes.server import Echo, Fail, Raw, Say, ScriptedServer, Step
from tests.support import sampled

GOOD = Say("Kept the timeout.\nExpand for details about: it")
#: The only broken summary of conversation 4.
BROKEN = "sum_36766ebd0c4a75a5"


@pytest.fixture
def database(database_copy: DatabaseFactory) -> Path:
    return database_copy("0.15.3")


@pytest.fixture(autouse=True)
def _one_at_a_time(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    config = tmp_path_factory.mktemp("config") / "config.toml"
    config.write_text("[summary]\nin_flight = 1\n")
    monkeypatch.setenv("LCM_TUI_CONFIG", str(config))
    monkeypatch.setattr(writer, "_FIRST_WAIT", 0.001)
    monkeypatch.setattr(writer, "_MOST_WAIT", 0.001)
    monkeypatch.setenv("GATEWAY_KEY", "sk-test-0123456789abcdef")


def repair(database: Path, *arguments: object) -> Result:
    return run("repair", *arguments, "--db", database, "--json")


def rewrite_broken(database: Path, *arguments: object) -> Result:
    return run("rewrite", "--broken", *arguments, "--db", database, "--json")


def applied(database: Path, server: ScriptedServer, *arguments: object) -> Result:
    to = ("--provider", "anthropic", "--base-url", server.url, "--api-key-env", "GATEWAY_KEY")
    return rewrite_broken(database, *(arguments or (4,)), *to, "--apply", "--accept", "every", "--yes")


def items(result: Result) -> list[Any]:
    found: list[Any] = json.loads(result.out)["data"]["items"]
    return found


def content(database: Path, summary_id: str) -> str:
    found: str = value(database, "SELECT content FROM summaries WHERE summary_id = ?", summary_id)
    return found


# -- without a call --------------------------------------------------------------------------------------


def test_a_dry_run_calls_nobody_and_leaves_no_trace(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def called(*_: object):
        raise AssertionError("a dry run made a call")

    monkeypatch.setattr(ExtractiveSummarizer, "__call__", called)
    before, files = dump(database), sorted(database.parent.iterdir())
    data = repair(database, 1).data
    assert [one["summaryId"] for one in data["items"]] == [
        "sum_6c18661f50d6fc7f",
        "sum_19fde986b7a46f59",
        "sum_a0df37c8bbd557d4",
        "sum_e2c12a356775e203",
    ]
    condensed = [one for one in data["items"] if one["depth"] > 0]
    assert len(condensed) == 2
    assert all(one["targetTokens"] < one["sourceTokens"] for one in condensed), "no longer than its source"
    second = data["items"][1]
    assert (second["reason"], second["previous"]) == ("fallback", ["sum_214b4d6011b8425c"])
    assert second["previousSkipped"] == [
        {"summaryId": "sum_a0df37c8bbd557d4", "reason": "is broken (fallback)"}
    ]
    assert data["kinds"] == {"fallback": 4}
    assert [one["summaryId"] for one in data["contaminated"] if one["direct"]] == [
        "sum_382ac3e5b5b5cc57",
        "sum_4c4bd5292abfa225",
    ]
    assert (data["applied"], data["writer"]["provider"]) == (False, "extractive")
    assert (dump(database), sorted(database.parent.iterdir())) == (before, files)
    assert not drafts_folder().exists()


def test_a_source_by_the_rules_of_another_engine(database: Path) -> None:
    own, old = (
        rewrite_broken(database, 4, "--include-content", *rules).data["items"][0]["prompt"]["user"]
        for rules in ((), ("--rules", "0.1"))
    )
    assert "| user" in own
    assert "| user" not in old  # whose headers name no role
    refused = rewrite_broken(database, 4, "--rules", "0.2")
    assert (refused.code, refused.error["message"]) == (2, f"--rules must be one of {', '.join(NAMED)}.")


def test_what_would_be_sent_to_whom_and_its_cost(database: Path) -> None:
    with MessagesApi(GOOD) as server:
        to = ("--provider", "anthropic", "--model", "claude-haiku-4-5", "--api-key-env", "GATEWAY_KEY")
        data = rewrite_broken(database, 4, *to, "--base-url", server.url, "--include-content").data
        assert server.received == []
    [item] = data["items"]
    assert data["writer"]["baseUrl"] == server.url
    assert data["expected"]["calls"] == 1
    assert 0 < data["expected"]["costUsd"] < 0.05
    assert data["expected"]["inputTokens"] == item["inputTokens"] > item["sourceTokens"] > 0
    assert data["atMost"]["calls"] == 2 * writer.ATTEMPTS
    assert data["atMost"]["costUsd"] > data["expected"]["costUsd"] * writer.ATTEMPTS
    assert data["writer"]["price"]["source"]
    assert data["writer"]["price"]["readOn"]
    first = value(
        database,
        """SELECT content FROM messages JOIN summary_messages USING (message_id)
        WHERE summary_id = ? ORDER BY ordinal""",
        BROKEN,
    )
    assert first.split("\n")[0] in item["prompt"]["user"]
    assert "data" in item["prompt"]["system"]
    shown = run("repair", 4, "--db", database, *to, "--base-url", server.url)
    assert f"at {server.url}" in shown.out
    assert "No call was made and nothing was changed" in shown.out


@pytest.mark.long
def test_contaminated_consumers_are_chosen_by_an_option(database: Path) -> None:
    data = rewrite_broken(database, 1, "--stale").data
    reasons = {one["summaryId"]: one["reason"] for one in data["items"]}
    assert sorted(reasons.values()) == ["contaminated"] * 3 + ["fallback"] * 4
    assert reasons["sum_93d8bff206c72158"] == "contaminated"
    listed = run("repair", 1, "--db", database).out
    assert "Not included: 3 summaries made from broken ones" in listed


@pytest.mark.long
def test_it_is_narrowed_down(database: Path) -> None:
    assert len(repair(database, "--all").data["items"]) == 16
    assert repair(database).data == repair(database, "--all").data
    assert len(repair(database, "--all", "--kind", "truncated").data["items"]) == 4
    assert rewrite_broken(database, "--all").data == repair(database, "--all").data
    assert len(rewrite_broken(database, "--all", "--limit", 3).data["items"]) == 3
    assert rewrite_broken(database, "--all", "--since", "2027-01-01").data["items"] == []
    [one] = repair(database, "--summary", BROKEN[:9]).data["items"]
    assert one["summaryId"] == BROKEN
    assert repair(database, 7).data["items"] == []
    assert "nothing to repair" in run("repair", 7, "--db", database).out


@pytest.mark.cases(6)
@pytest.mark.parametrize(
    ("arguments", "code", "exit_code"),
    [
        (("repair", "--apply"), "MISSING_SELECTOR", 2),
        (("repair", "--draft", "x.json"), "MISSING_SELECTOR", 2),
        (("repair", ""), "INVALID_COMMAND", 2),
        (("repair", 99), "CONVERSATION_NOT_FOUND", 3),
        (("repair", 1, "--all"), "INVALID_ARGUMENT", 2),
        (("repair", 1, "--kind", "odd"), "INVALID_ARGUMENT", 2),
        (("repair", 1, "--summary", BROKEN), "SUMMARY_NOT_FOUND", 3),
        (("repair", 1, "--apply", "--accept", "maybe"), "INVALID_ARGUMENT", 2),
        (("repair", 1, "--apply", "--yes"), "REFUSED", 9),
        (("repair", 1, "--apply", "--accept", "every"), "REFUSED", 9),
        (("repair", 1, "--apply", "--draft", "x.json"), "INVALID_ARGUMENT", 2),
        (("repair", 1, "--resume", "--from-draft", "x.json"), "INVALID_ARGUMENT", 2),
        (("repair", "--resume"), "NOTHING_TO_RESUME", 3),
        (("repair", 1, "--provider", "openai", "--model", "claude-x"), "MODEL_MISMATCH", 4),
        (("repair", "--from-draft", "/nowhere.json"), "DRAFTS_NOT_FOUND", 3),
        (("rewrite", 1), "INVALID_ARGUMENT", 2),
        (("rewrite", 1, "--all", "--limit", 3), "INVALID_ARGUMENT", 2),
        (("rewrite", 1, "--broken", "--depth", 1), "INVALID_ARGUMENT", 2),
        (("rewrite", 1, "--summary", "sum_zzz"), "SUMMARY_NOT_FOUND", 3),
        (("rewrite", 1, "--resume", "--all"), "INVALID_ARGUMENT", 2),
    ],
)
def test_mistakes_are_refused_before_any_call(
    database: Path, arguments: tuple[object, ...], code: str, exit_code: int
) -> None:
    before = dump(database)
    result = run(*arguments, "--db", database, "--json")
    assert (result.error["code"], result.code) == (code, exit_code)
    assert dump(database) == before


@pytest.mark.long
def test_rewrite_selects_sources_before_consumers(database: Path) -> None:
    def chosen(*arguments: object) -> list[str]:
        data = run("rewrite", 1, *arguments, "--db", database, "--json").data
        return [one["summaryId"] for one in data["items"]]

    whole = chosen("--summary", "sum_4c4bd5292abfa225", "--all")
    edges = value(
        database,
        """SELECT json_group_array(json_array(summary_id, parent_summary_id)) FROM summary_parents
        WHERE summary_id LIKE 'sum_%'""",
    )
    inside = [(one, two) for one, two in json.loads(edges) if one in whole]
    assert len(inside) > 5
    assert all(whole.index(source) < whole.index(consumer) for consumer, source in inside)
    assert chosen("--summary", "sum_4c4b") == ["sum_4c4bd5292abfa225"]
    depths = column(database, "SELECT depth FROM summaries WHERE conversation_id = 1")
    assert len(chosen("--depth", 1)) == depths.count(1)
    assert len(chosen("--all")) == len(depths)


@pytest.mark.long
def test_what_was_made_from_broken_summaries_is_told_to_wait_for_them(database: Path) -> None:
    contaminated = {one["summaryId"] for one in repair(database, 1).data["contaminated"]}
    [spoilt, *_] = [
        one
        for one in items(run("rewrite", 1, "--all", "--db", database, "--json"))
        if one["summaryId"] in contaminated
    ]
    assert spoilt["brokenSources"] == [], "they are written again before it"
    alone = ("rewrite", 1, "--summary", spoilt["summaryId"], "--db", database)
    [item] = items(run(*alone, "--json"))
    assert item["brokenSources"]
    assert f"1 of these is made from broken summaries ({item['brokenSources'][0]}" in run(*alone).out


# -- drafts ----------------------------------------------------------------------------------------------


@pytest.mark.long
def test_repaired_by_a_rule_and_taken_back(database: Path) -> None:
    before = dump(database)
    data = rewrite_broken(database, 1, "--stale", "--apply", "--yes", "--accept", "every").data
    assert data["counts"]["committed"] == len(data["items"]) == 7
    assert data["applied"] is True
    assert data["rule"] == "accept every draft without fault"
    assert search_faults(database) == []
    assert repair(database, 1).data["items"] == []
    assert data["stale"] == []
    assert list(drafts_folder().iterdir()) == []
    undone = run("history", "undo", data["batch"], "--db", database, "--apply", "--yes")
    assert undone.code == 0
    assert dump(database) == before


@pytest.mark.long
def test_rules_in_another_language_are_not_called_kept(database: Path, tmp_path: Path) -> None:
    execute(database, "UPDATE messages SET content = 'Нельзя удалять таблицу заказов. ' || message_id")
    execute(database, "DELETE FROM message_parts")
    told = repair(database, 4, "--draft", tmp_path / "d.json", "--accept", "no rule lost")
    [kept] = told.data["retention"].values()
    names = ("rulesChecked", "rules", "rulesLost", "rulesReversed")
    assert [kept["draft"][name] for name in names] == ["none", None, None, None]
    assert told.data["marked"] == []


@pytest.mark.long
def test_a_rule_that_refuses_says_why_and_resume_costs_no_other_call(database: Path) -> None:
    before = dump(database)
    with MessagesApi(Say("Wrote /etc/made-up.conf.\nExpand for details about: it")) as server:
        to = ("--provider", "anthropic", "--base-url", server.url, "--api-key-env", "GATEWAY_KEY")
        strict = repair(database, 4, *to, "--apply", "--yes", "--accept", "nothing invented")
        assert strict.code == 10
        assert "1 of 1 summary was not applied; the reason is listed." in strict.out
        [item] = items(strict)
        assert (item["state"], item["why"].split(" ", 1)[1][:10]) == ("review", "invented: ")
        assert dump(database) == before
        [kept] = drafts_folder().iterdir()
        assert kept.stat().st_mode & 0o777 == 0o600
        told = run("repair", "--resume", *to, "--db", database)
        assert f"1 summary has a draft not yet decided: {item['summaryId']}." in told.out
        resumed = repair(database, "--resume", *to, "--apply", "--yes", "--accept", "every")
        assert (resumed.code, items(resumed)[0]["state"]) == (0, "committed")
        assert len(server.received) == 1
    assert content(database, BROKEN).startswith("Wrote /etc/made-up.conf.")
    assert list(drafts_folder().iterdir()) == []


@pytest.mark.long
def test_what_was_mended_since_it_was_stopped_is_not_paid_for(database: Path) -> None:
    with MessagesApi(Fail(401, "authentication_error", "no"), GOOD) as server:
        to = ("--provider", "anthropic", "--base-url", server.url, "--api-key-env", "GATEWAY_KEY")
        how = ("--all", *to, "--apply", "--yes", "--accept", "every")
        assert rewrite_broken(database, *how).code == 4, "the key was refused, and all of it waits"
        told = run("repair", "--all", *to, "--db", database)
        again = repair(database, "--all", "--apply", "--yes", "--accept", "every", "--provider", "extractive")
        assert again.code == 0
        assert again.data["stopped"]["undecided"] == len(again.data["items"]) == 16
        assert "--resume continues it" in told.out
        asked = len(server.received)
        resumed = rewrite_broken(database, "--resume", *how[1:])
        assert resumed.code == 0
        assert {one["state"] for one in items(resumed)} == {"skipped"}
        assert "no longer broken" in items(resumed)[0]["why"]
        assert len(server.received) == asked, "nothing is asked for what is sound by now"
    assert list(drafts_folder().iterdir()) == []


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    ("damage", "said"),
    [
        ({"version": 2}, "another version of lcm-tui wrote it"),
        ({"items": {}}, "(items is missing or damaged)"),
        ({"take": "yes"}, "(take of sum_"),
        ({"take": True, "text": None}, "(text of sum_"),
        ({"take": True, "text": 5}, "(text of sum_"),
        ({"summaryId": "sum_ffffffffffffffff"}, "(summaryId of sum_"),
    ],
)
def test_a_file_of_drafts_that_was_spoilt_by_hand_says_where(
    damage: dict[str, object], said: str, database: Path, tmp_path: Path
) -> None:
    file = tmp_path / "drafts.json"
    assert repair(database, 4, "--draft", file, "--yes").code == 0
    before = dump(database)
    document = json.loads(file.read_text())
    whole = damage.keys() & {"version", "items"}
    (document if whole else document["items"][0]).update(damage)
    file.write_text(json.dumps(document))
    refused = run("repair", "--from-draft", file, "--db", database, "--apply", "--yes")
    assert refused.code == 2
    assert said in refused.err
    assert dump(database) == before


@pytest.mark.long
def test_drafts_are_reviewed_in_a_file(database: Path, tmp_path: Path) -> None:
    before, file = dump(database), tmp_path / "drafts.json"
    made = repair(database, 1, "--draft", file, "--yes")
    assert (made.code, json.loads(made.out)["data"]["marked"]) == (0, [])
    assert dump(database) == before
    assert file.stat().st_mode & 0o777 == 0o600
    assert repair(database, 1, "--draft", file, "--yes").error["code"] == "REFUSED"
    assert repair(database, "--from-draft", file, "--apply", "--yes").data["items"] == []
    document = json.loads(file.read_text())
    first, second, third, fourth = document["items"]
    kept = json.loads(made.out)["data"]["retention"]
    assert kept == {one["summaryId"]: one["retention"] for one in document["items"]}
    assert [bool(one["retention"]["ofMessages"]) for one in document["items"]] == [False, False, True, True]
    assert kept[third["summaryId"]]["ofMessages"]["sourceTokens"] > kept[third["summaryId"]]["sourceTokens"]
    first["take"] = third["take"] = fourth["take"] = True
    first["text"] = "By hand \u202e漢字.\nExpand for details about: it"
    file.write_text(json.dumps(document))
    shown = repair(database, "--from-draft", file).data
    assert [one["summaryId"] for one in shown["items"]] == [
        one["summaryId"] for one in (first, third, fourth)
    ]
    assert dump(database) == before
    assert "\u202e" not in run("repair", "--from-draft", file, "--db", database).out
    done = repair(database, "--from-draft", file, "--apply", "--yes")
    assert done.code == 10
    states = {one["summaryId"]: one["state"] for one in items(done)}
    # The others were made from drafts that are not what was committed: they have to be drafted again.
    assert [states[one["summaryId"]] for one in (first, third, fourth)] == ["committed", "review", "review"]
    assert all("made from" in one["why"] for one in items(done)[1:])
    assert content(database, first["summaryId"]) == first["text"]
    model = value(database, "SELECT model FROM summaries WHERE summary_id = ?", first["summaryId"])
    assert model == "manual"
    untouched = column(
        database, "SELECT DISTINCT model FROM summaries WHERE summary_id = ?", second["summaryId"]
    )
    assert untouched == ["claude-haiku-4-5"]


@pytest.mark.long
def test_drafts_for_review_marked_by_a_rule(database: Path, tmp_path: Path) -> None:
    file = tmp_path / "drafts.json"
    marked = repair(database, 1, "--draft", file, "--yes", "--accept", "every").data["marked"]
    assert len(marked) == 4
    done = repair(database, "--from-draft", file, "--apply", "--yes").data
    assert done["counts"]["committed"] == 4
    again = repair(database, "--from-draft", file, "--apply", "--yes").data
    assert {one["state"] for one in again["items"]} == {"committed"}
    assert value(database, "SELECT count(*) FROM lcm_tui_operations") == 4
    assert (
        run("rewrite", "--from-draft", file, "--db", database, "--json").error["code"] == "INVALID_ARGUMENT"
    )
    (tmp_path / "other.json").write_text("[]")
    wrong = run("repair", "--from-draft", tmp_path / "other.json", "--db", database, "--json")
    assert wrong.code == 2


@pytest.mark.long
def test_a_subtree_by_a_model_with_one_draft_taken_by_half_and_all_of_it_back(
    database: Path, tmp_path: Path
) -> None:
    before, file = dump(database), tmp_path / "drafts.json"
    chosen = (1, "--summary", "sum_4c4bd5292abfa225", "--all", "--db", database, "--json")
    with MessagesApi(Say("Kept the timeout.\nKept the limit.\nExpand for details about: it")) as server:
        to = ("--provider", "anthropic", "--base-url", server.url, "--api-key-env", "GATEWAY_KEY")
        drafted = run("rewrite", *chosen, *to, "--draft", file, "--yes", "--accept", "every")
        assert drafted.code == 0
        calls = len(server.received)
        document = json.loads(file.read_text())
        assert calls >= len(document["items"]) > 5
        top = document["items"][-1]
        top["take"] = True
        top["text"] = "Kept the timeout.\nExpand for details about: it"
        file.write_text(json.dumps(document))
        done = run("rewrite", "--from-draft", file, "--db", database, "--json", "--apply", "--yes")
        assert len(server.received) == calls
    assert done.code == 0
    assert {one["state"] for one in items(done)} == {"committed"}
    assert content(database, top["summaryId"]) == top["text"]
    assert search_faults(database) == []
    undone = run("history", "undo", done.data["batch"], "--db", database, "--apply", "--yes")
    assert undone.code == 0
    assert dump(database) == before


def test_a_node_that_changed_since_the_draft_is_left_alone(database: Path, tmp_path: Path) -> None:
    file = tmp_path / "drafts.json"
    repair(database, 4, "--draft", file, "--yes", "--accept", "every")
    base = content(database, BROKEN)
    execute(database, f"UPDATE summaries SET content = 'theirs' WHERE summary_id = '{BROKEN}'")
    done = repair(database, "--from-draft", file, "--apply", "--yes")
    [item] = items(done)
    assert (done.code, item["state"]) == (10, "review")
    assert "changed since" in item["why"]
    ours = json.loads(file.read_text())["items"][0]["text"]
    assert item["threeWay"] == {"base": base, "theirs": "theirs", "ours": ours}
    assert content(database, BROKEN) == "theirs"


@pytest.mark.long
def test_stale_consumers_are_offered_upward(database: Path) -> None:
    done = repair(database, 1, "--apply", "--yes", "--accept", "every").data
    assert [one["summaryId"] for one in done["stale"]] == ["sum_382ac3e5b5b5cc57", "sum_4c4bd5292abfa225"]
    assert run("context", 1, "--db", database).out.count("stale: a source was rewritten since") == 1
    above = run("rewrite", 1, "--stale", "--db", database, "--json").data
    assert [(one["summaryId"], one["reason"]) for one in above["items"]] == [
        ("sum_382ac3e5b5b5cc57", "stale"),
        ("sum_93d8bff206c72158", "above-stale"),
        ("sum_4c4bd5292abfa225", "stale"),
    ]
    run("rewrite", 1, "--stale", "--db", database, "--apply", "--yes", "--accept", "every")
    after = run("rewrite", 1, "--stale", "--db", database, "--json").data
    assert (after["items"], after["stale"]) == ([], [])


@pytest.mark.long
def test_one_text_of_a_batch_is_given_back(database: Path) -> None:
    before = content(database, "sum_6c18661f50d6fc7f")
    done = repair(database, 1, "--apply", "--yes", "--accept", "every").data
    first = done["items"][0]["operationId"]
    assert run("history", "undo", first, "--db", database, "--apply", "--yes", "--json").code == 9
    back = ("rewrite", "--restore", first, "--db", database, "--json")
    assert run(*back).data["applied"] is False
    assert content(database, "sum_6c18661f50d6fc7f") != before
    assert run(*back, "--apply", "--yes").data["applied"] is True
    assert content(database, "sum_6c18661f50d6fc7f") == before
    assert run(*back).code == 7
    assert run("rewrite", 1, "--restore", first, "--db", database).code == 2
    assert [one["summaryId"] for one in repair(database, 1).data["items"]] == ["sum_6c18661f50d6fc7f"]


@pytest.mark.long
def test_one_by_one_at_a_terminal(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (drafting, sys.modules["lcm_tui.cli.working"]):
        monkeypatch.setattr(module, "can_ask", lambda: True)
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\nwhat\nn\ny\nq\n"))
    result = run("rewrite", "--broken", 1, "--db", database, "--apply")
    assert result.code == 10
    assert "Kept of what matters most" in result.err
    assert "Use this text for sum_6c18661f50d6fc7f?" in result.err
    committed = column(database, "SELECT title FROM lcm_tui_operations ORDER BY rowid")
    assert len(committed) == 1
    assert content(database, "sum_6c18661f50d6fc7f") != content(database, "sum_19fde986b7a46f59")


# -- what goes wrong with providers ------------------------------------------------------------------------

NOTHING_STANDS = "Every draft was rejected: choose one by its number, edit, or skip."


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    ("script", "state", "why", "calls"),
    [
        ([Say(GOOD.text, pause=0.05)], "committed", None, 1),
        ([Fail(429, "rate_limit_error", "slow down", {"retry-after": "0"}), GOOD], "committed", None, 2),
        pytest.param(
            [Fail(529, "overloaded_error", "Overloaded")],
            "failed",
            "gave no answer after 4 attempts (529: ",
            4,
            marks=pytest.mark.long,
        ),
        ([Say(GOOD.text, breaks="reset"), GOOD], "committed", None, 2),
        ([Say(GOOD.text, breaks="end"), GOOD], "committed", None, 2),
        ([Say(GOOD.text, breaks="error")], "failed", "gave no answer", 4),
        ([Raw(b"<html>hello</html>", "text/html")], "failed", "gave no answer", 4),
        ([Raw(b"event: message_start\ndata: {not json\n\n")], "failed", "gave no answer", 4),
        ([Say("")], "review", NOTHING_STANDS, 2),
        ([Say("", thinking="What do they want?")], "review", NOTHING_STANDS, 2),
        ([Say("<think>only this</think>")], "review", NOTHING_STANDS, 2),
        ([Say("far too long " * 3000, stop="max_tokens")], "review", NOTHING_STANDS, 2),
        ([Say("Cut off in the", stop="max_tokens"), GOOD], "committed", None, 2),
        ([Say("Kept it.\n[Truncated from 512 tokens]")], "review", NOTHING_STANDS, 2),
        ([Say("I cannot help with that.", stop="refusal")], "review", NOTHING_STANDS, 2),
    ],
)
def test_what_a_provider_may_answer(
    database: Path, script: list[Step], state: str, why: str | None, calls: int
) -> None:
    before = dump(database)
    with MessagesApi(*script) as server:
        result = applied(database, server)
    [item] = items(result)
    assert (item["state"], len(server.received)) == (state, calls)
    assert result.code == (0 if state == "committed" else 10)
    assert why is None or why in item["why"]
    if state == "committed":
        assert content(database, BROKEN) == GOOD.text
    else:
        assert dump(database) == before
        [kept] = drafts_folder().iterdir()
        assert all(
            draft["text"] in json.loads(kept.read_bytes().split(b"\n")[-2])["drafts"][at]["text"]
            for at, draft in enumerate(item["drafts"])
        )
    if state == "review":
        assert [one["origin"] for one in item["drafts"]] == ["normal", "aggressive", "fallback"]
        assert item["chosen"] is None


@pytest.mark.long
def test_a_refused_key_ends_it_and_changes_nothing(database: Path) -> None:
    before = dump(database)
    with MessagesApi(Fail(401, "authentication_error", "invalid x-api-key")) as server:
        result = applied(database, server, "--all")
        assert (result.code, result.error["code"]) == (4, "PROVIDER_AUTH")
        assert len(server.received) == 1
    assert dump(database) == before


@pytest.mark.long
@pytest.mark.parametrize(
    ("end", "code", "says"),
    [
        (Fail(404, "not_found_error", "model: claude-haiku-4-5"), "MODEL_NOT_FOUND", "--model"),
        (Fail(400, "invalid_request_error", "Your credit balance is too low"), "NO_CREDIT", "add credit"),
        (Fail(429, "rate_limit_error", "slow down", {"Retry-After": "3600"}), "RATE_LIMITED", "60 minutes"),
    ],
)
def test_what_no_call_would_survive_ends_it_and_keeps_the_drafts(
    database: Path, end: Fail, code: str, says: str
) -> None:
    with MessagesApi(GOOD, end) as server:
        result = applied(database, server, 1)
        document = json.loads(result.out)
        assert (result.code, len(server.received)) == (10, 2)
        assert document["error"]["code"] == code
        assert says in document["error"]["message"]
        assert "--resume continues" in document["error"]["message"]
        assert [one["state"] for one in items(result)] == ["committed", "waiting", "waiting", "waiting"]
        assert document["data"]["spent"]["calls"] == (1 if end.status == 429 else 2)
        assert document["data"]["spent"]["costUsd"] == pytest.approx(0.00125), "a refusal costs nothing"
    with MessagesApi(GOOD) as server:
        assert applied(database, server, "--resume").code == 0
        assert len(server.received) == 3
    with MessagesApi(end) as server:
        alone = applied(database, server, 4)
        assert (alone.code, alone.error["code"]) == (10 if code == "RATE_LIMITED" else 4, code)


@pytest.mark.long
def test_refusals_for_their_number_cost_no_draft_and_no_call(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LCM_TUI_CONFIG")
    busy = Fail(429, "rate_limit_error", "slow down", {"Retry-After": "0"})
    with MessagesApi(busy, busy, busy, GOOD) as server:
        result = applied(database, server, 1, "--max-calls", 4)
        assert (result.code, len(server.received)) == (0, 7)
    assert {one["state"] for one in items(result)} == {"committed"}
    spent = json.loads(result.out)["data"]["spent"]
    assert (spent["calls"], spent["exact"]) == (4, True)


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    ("say", "text"),
    [
        (Say("```markdown\n" + GOOD.text + "\n```"), GOOD.text),
        (Say(f"<summary>\n{GOOD.text}\n</summary>"), GOOD.text),
        (Say(f"Here is the summary of the conversation:\n\n{GOOD.text}"), GOOD.text),
        (Say("."), None),
        (Say("…\n---\n42"), None),
        (Say("User: and what about the importer? Please go on with it now."), None),
        (Say("<|im_start|>assistant\nI will move the importer now.<|im_end|>"), None),
    ],
)
def test_what_stands_around_an_answer_is_taken_off_and_what_is_none_is_refused(
    database: Path, say: Say, text: str | None
) -> None:
    before = content(database, BROKEN)
    with MessagesApi(say) as server:
        result = applied(database, server, 4)
    [item] = items(result)
    assert item["state"] == ("review" if text is None else "committed")
    assert content(database, BROKEN) == (before if text is None else text)


def test_an_answer_that_holds_the_key_comes_into_no_file(database: Path) -> None:
    with MessagesApi(Echo(200)) as server:
        result = applied(database, server, 4)
    [item] = items(result)
    assert item["state"] == "review"
    assert [one["text"] for one in item["drafts"][:2]] == ["", ""]
    [kept] = drafts_folder().iterdir()
    assert b"held our key" in kept.read_bytes()
    assert os.environ["GATEWAY_KEY"] not in kept.read_text() + result.out + result.err


@pytest.mark.long
def test_a_limit_of_cost_needs_a_price_that_is_known(database: Path) -> None:
    who = ("--provider", "anthropic", "--api-key-env", "GATEWAY_KEY", "--base-url", "http://127.0.0.1:9")
    to = (*who, "--db", database, "--model")
    refused = run("repair", 4, *to, "claude-unheard-of", "--max-cost", 5, "--json")
    assert (refused.code, refused.error["code"]) == (4, "PRICE_UNKNOWN")
    assert "not known" in run("repair", 4, *to, "claude-unheard-of").out
    held = run("repair", 4, *to, "claude-haiku-4-5", "--max-cost", 0.01, "--max-calls", 3, "--json").data
    assert (held["atMost"]["costUsd"], held["atMost"]["calls"]) == (0.01, 3)


@pytest.mark.long
def test_a_limit_keeps_what_was_paid_for(database: Path) -> None:
    with MessagesApi(GOOD) as server:
        result = applied(database, server, 1, "--max-calls", 2)
        assert result.code == 10
        assert [one["state"] for one in items(result)] == ["committed", "committed", "waiting", "waiting"]
        assert json.loads(result.out)["error"]["code"] == "LIMIT_REACHED"
        held = applied(database, server, "--resume", "--max-calls", 2)
        assert (held.code, len(server.received)) == (10, 2), "a limit is of the batch, not of a run"
        assert "earlier runs" in json.loads(held.out)["error"]["message"]
        assert repair(database, "--resume").data["spent"]["calls"] == 2
        resumed = applied(database, server, "--resume", "--max-calls", 4)
        assert (resumed.code, len(server.received)) == (0, 4)
        assert json.loads(resumed.out)["data"]["spent"]["calls"] == 4
        batch = json.loads(resumed.out)["data"]["batch"]
    assert value(database, "SELECT count(*) FROM lcm_tui_operations WHERE batch = ?", batch) == 4


def started(database: Path, server: ScriptedServer) -> subprocess.Popen[bytes]:
    """``repair 1`` in a process of its own, one call at a time."""
    to = ("--provider", "anthropic", "--base-url", server.url, "--api-key-env", "GATEWAY_KEY")
    how = ("--apply", "--yes", "--accept", "every", "--json")
    program = "import sys; from lcm_tui.cli.main import main; sys.exit(main())"
    words = [sys.executable, "-c", program, "rewrite", "--broken", "1", "--db", str(database), *to, *how]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def until_asked(server: ScriptedServer, process: subprocess.Popen[bytes], calls: int) -> None:
    """Wait for a call; the process is still at it."""
    end = time.monotonic() + 60
    while len(server.received) < calls:
        assert time.monotonic() < end, "the call does not come"
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)


@pytest.mark.long
@pytest.mark.parametrize("how", sampled([signal.SIGINT, signal.SIGKILL], [signal.SIGINT]))
def test_what_a_stop_or_a_crash_leaves_is_gone_on_with(database: Path, how: signal.Signals) -> None:
    with MessagesApi(GOOD, Say(GOOD.text, pause=60.0)) as server:
        process = started(database, server)
        until_asked(server, process, 2)
        process.send_signal(how)
        out, _ = process.communicate(timeout=60)
    if how is signal.SIGINT:
        assert process.returncode == 10
        told = json.loads(out)
        assert told["error"]["code"] == "CANCELLED"
        assert [one["state"] for one in told["data"]["items"]] == ["committed"] + ["waiting"] * 3
    assert value(database, "SELECT count(*) FROM lcm_tui_operations") == 1
    with MessagesApi(GOOD) as server:
        resumed = applied(database, server, "--resume")
        assert (resumed.code, len(server.received)) == (0, 3)
    assert value(database, "SELECT count(DISTINCT batch) || ' ' || count(*) FROM lcm_tui_operations") == "1 4"
    assert list(drafts_folder().iterdir()) == []


@pytest.mark.long
def test_a_server_of_the_other_shape(database: Path) -> None:
    pytest.importorskip("openai")
    with OpenAIApi(GOOD) as server:
        to = ("--provider", "ollama", "--model", "llama3", "--base-url", f"{server.url}/v1")
        done = repair(database, 4, *to, "--apply", "--yes", "--accept", "every").data
    assert [one["state"] for one in done["items"]] == ["committed"]
    assert value(database, "SELECT model FROM summaries WHERE summary_id = ?", BROKEN) == "llama3"


def test_a_draft_is_safe_to_look_at(database: Path) -> None:
    with MessagesApi(Say("\x1b[2J\u202eevil\x07 [bold]x[/bold]\nExpand for details about: it")) as server:
        to = ("--provider", "anthropic", "--base-url", server.url, "--api-key-env", "GATEWAY_KEY")
        shown = run("repair", 4, "--db", database, *to, "--apply", "--yes", "--accept", "every")
    assert shown.code == 0
    assert content(database, BROKEN).startswith("␛[2J\u202eevil␇ [bold]")
    for dangerous in ("\x1b[2J", "\u202e", "\x07"):
        assert dangerous not in shown.out + shown.err
