"""``context --assembled``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.support import run
from tests.databases import run as change
from tests.support import recorded

DatabaseFactory = Callable[[str], Path]
SENT = ("context", "3", "--assembled", "--budget", "1500")
#: The recordings of the assembler were made before the engine's final clamp.
SHOW = (*SENT, "--no-clamp")


@pytest.fixture(autouse=True)
def _tail_of_ten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LCM_FRESH_TAIL_COUNT", "10")


def test_the_json_is_what_the_engine_was_recorded_to_send(database_file: DatabaseFactory):
    [said] = [
        one for one in recorded("lcm-0.15.3.assembled.json.gz")["conversations"] if one["conversationId"] == 3
    ]
    expected = said["assembler"]["1500"]
    data = run(*SHOW, "--db", database_file("0.15.3"), "--json").data
    assert data["messages"] == expected["messages"]
    assert data["totals"]["estimatedTokens"] == expected["estimatedTokens"]
    assert data["messagesHash"] == expected["debug"]["finalMessagesHash"]
    assert (data["selection"], data["rules"]) == ("chronological", "0.15")
    assert data["freshTail"]["firstOrdinal"] == expected["debug"]["freshTailOrdinal"]
    assert [item["ordinal"] for item in data["items"]] == list(range(11, 28))
    assert [item["freshTail"] for item in data["items"]].index(True) == 7
    assert [one["ordinal"] for one in data["evicted"]] == list(range(11))
    assert data["evicted"][0]["summaryId"] == "sum_c6b4721207b8f215"
    assert data["evicted"][-1]["why"] == "the first that does not fit: 304 tokens"
    assert data["metadata"]["source"] == "assembled"
    assert data["metadata"]["promptAuthoritative"] is True
    assert sum(data["shares"].values()) == data["totals"]["sentTokens"]


def test_people_see_what_is_sent_and_what_is_not(database_file: DatabaseFactory):
    text = run(*SHOW, "--db", database_file("0.15.3")).out
    assert "Estimate       1,484 before adjustments, as reported" in text
    assert " of 1,500 as sent (" in text
    assert "17 messages of 28 items (2 summaries, 26 messages), the newest that fit" in text
    assert "always sent from here" in text
    assert "older than ordinal 10, which does not fit" in text
    assert "the engine drops 9 messages (hard limit): the oldest, and what may not come first or last" in text


@pytest.mark.cases(2)
@pytest.mark.parametrize("budget", [1_000, 500, 20_000])
def test_what_is_always_sent_does_not_deny_what_the_hard_limit_drops(
    budget: int, database_file: DatabaseFactory
) -> None:
    place = ("context", 1, "--assembled", "--budget", budget, "--db", database_file("1.1-later"))
    data, text = run(*place, "--json").data, " ".join(run(*place).out.split())
    first = data["freshTail"]["firstOrdinal"]
    clamped = [one for one in data["evicted"] if one["ordinal"] >= first and one["step"] == "final clamp"]
    tail = text[text.index("Always sent") : text.index("Shares")]
    assert (f", {len(clamped)} of them dropped by the hard limit;" in tail) == (budget < 20_000)
    assert ("dropped" in tail) == ("In no summary" in text) == (budget < 20_000)


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    ("version", "conversation", "begins"),
    [
        ("0.15.3", 2, "Focus on session cache"),
        ("1.1-later", 1, "The deploy of build 203 is waiting"),
        ("1.1-later", 11, "La prueba 492"),
    ],
)
def test_a_line_shows_what_an_element_holds_and_not_its_tags(
    version: str, conversation: int, begins: str, database_file: DatabaseFactory
) -> None:
    shown = ("context", conversation, "--assembled", "--db", database_file(version))
    assert begins in run(*shown).out
    previews = [one["preview"] for one in run(*shown, "--json").data["items"]]
    for said in (run(*shown).out, "\n".join(previews)):
        assert not {"</content>", "</summary>", "</focus_brief>"} & set(said.split())


def test_the_items_alone_say_that_some_are_left_out(database_file: DatabaseFactory):
    path = database_file("0.15.3")
    said = "15 items are left out, 11 messages of them in no summary; --assembled shows which, and why."
    asked = ("context", "1", "--db", path, "--budget")
    assert said in run(*asked, "1500").out
    assert "left out" not in run(*asked, "128k").out


def test_what_is_sent_is_cut_last_unless_it_is_asked_for_without(database_file: DatabaseFactory):
    path = database_file("0.15.3")
    whole, cut = (run(*asked, "--db", path, "--json").data for asked in (SHOW, SENT))
    assert (whole["finalClamp"]["messages"], whole["finalClamp"]["applied"]) == (9, False)
    assert (cut["finalClamp"]["messages"], cut["finalClamp"]["applied"]) == (9, True)
    assert cut["messages"] == whole["messages"][8:-1], "an answer cannot come last"
    assert cut["totals"]["sentTokens"] == whole["finalClamp"]["tokens"] <= 1_350
    assert [one["step"] for one in cut["evicted"]].count("final clamp") == 9


def test_a_prompt_says_what_it_kept_and_what_it_did_not(database_file: DatabaseFactory):
    path = database_file("0.15.3")
    asked = (*SHOW, "--prompt", "lease table retry")
    data = run(*asked, "--db", path, "--json").data
    kept = [one["promptScore"] for one in data["items"] if one["promptScore"] is not None]
    dropped = [one["promptScore"] for one in data["evicted"] if one["promptScore"] is not None]
    assert max(kept) > 0
    assert max(kept) >= max(dropped)
    text = run(*asked, "--db", path).out
    assert f"The prompt ranked {len(kept) + len(dropped)} items before the tail" in text
    assert f"prompt {max(kept):.1%}" in text
    idle = run("context", "3", "--assembled", "--prompt", "lease", "--db", path).out
    assert "The prompt has no effect: everything fits the budget." in idle


def test_other_rules_and_a_prompt_can_be_asked_for(database_file: DatabaseFactory):
    path = database_file("0.15.3")
    old = run(*SHOW, "--rules", "0.1", "--db", path, "--json").data
    assert old["rules"] == "0.1"
    assert old["systemPromptAddition"]["kind"] in ("none", "recall", "deep recall")
    chosen = run(*SHOW, "--prompt", "lease table retry", "--db", path, "--json").data
    assert chosen["selection"] == "prompt-aware"
    assert {one["step"] for one in chosen["evicted"]} == {"prompt", "tool pairing"}


def test_a_cap_on_the_budget_is_told(database_file: DatabaseFactory, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("LCM_MAX_ASSEMBLY_TOKEN_BUDGET", "1200")
    text = run(*SHOW, "--db", database_file("0.15.3")).out
    assert "maxAssemblyTokenBudget caps the budget at 1,200." in text


def test_exports_are_the_messages_alone(database_file: DatabaseFactory):
    path = database_file("0.15.3")
    request = json.loads(run(*SHOW, "--export", "json", "--db", path).out)
    assert set(request) == {"system", "messages"}
    called = {b["id"] for turn in request["messages"] for b in turn["content"] if b["type"] == "tool_use"}
    answered = {
        b["tool_use_id"]
        for turn in request["messages"]
        for b in turn["content"]
        if b["type"] == "tool_result"
    }
    assert called == answered != set()
    text = run("context", "3", "--budget", "1500", "--no-clamp", "--export", "markdown", "--db", path).out
    assert text.startswith("# Conversation 3\n\n17 messages, ")
    assert "## Not sent\n" in text


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--assembled", "--rules", "9"), "--rules must be one of 0.1, 0.15, 1.0-beta, 1.0, 1.1."),
        (("--assembled", "--export", "pdf"), "--export must be json or markdown."),
    ],
)
def test_refusals(arguments: tuple[str, ...], says: str, database_file: DatabaseFactory):
    answer = run("context", "1", *arguments, "--db", database_file("0.15.3"))
    assert (answer.code, answer.err.strip()) == (2, says)


@pytest.mark.long
@pytest.mark.parametrize("version", ["0.1.2", "0.3.0", "0.8.2", "0.15.3", "0.15.3-damaged"])
def test_every_conversation_of_every_version_can_be_assembled(version: str, database_file: DatabaseFactory):
    path = database_file(version)
    listed = run("conversations", "list", "--db", path, "--json").data["items"]
    for one in listed:
        data = run(
            "context", one["conversationId"], "--assembled", "--budget", "2k", "--db", path, "--json"
        ).data
        most = max(2_000, data["freshTail"]["tokens"] + 1_000)
        assert data["totals"]["estimatedTokens"] <= most
        assert data["metadata"]["contextItemCount"] <= one["contextItems"]


@pytest.fixture
def with_paste(database_copy: DatabaseFactory) -> Path:
    """A file in which the newest item of conversation 3's context is a note for a file that a user pasted."""
    path = database_copy("1.1.0-upgraded")
    change(path, "UPDATE context_items SET message_id = 192 WHERE conversation_id = 3 AND ordinal = 27")
    return path


def test_what_the_model_sees_in_no_form_and_what_is_a_note_is_said(with_paste: Path):
    asked = ("context", "3", "--assembled", "--budget", "4000", "--db", with_paste)
    text = run(*asked).out
    assert "6 messages left out (777 tokens): neither sent nor in a summary that is sent" in text
    assert "Pasted by a user; a note is sent in its place" in text
    assert "file_0d4e9cd9791444c6  20,061  export-dcdd.json" in text
    data = run(*asked, "--json").data
    assert data["unseen"] == {"messages": 6, "tokens": 777, "ordinals": [2, 3, 4, 5, 6, 7], "unread": 0}
    assert data["pasted"] == [
        {
            "ordinal": 27,
            "fileId": "file_0d4e9cd9791444c6",
            "fileName": "export-dcdd.json",
            "mimeType": "application/json",
            "byteSize": 20_061,
        }
    ]
    assert data["finalClamp"] == {"limit": 3_600, "messages": 7, "tokens": 3_753, "applied": True}
    whole = run("context", "5", "--assembled", "--db", with_paste, "--json").data
    assert (whole["unseen"]["messages"], whole["pasted"]) == (0, [])


@pytest.mark.parametrize(
    ("rules", "limit", "messages", "tokens"),
    [
        ("0.15", 1_500, 10, 1_088),
        ("1.0-beta", 1_350, 6, 613),
        ("1.0", 1_350, 6, 613),
        ("1.1", 1_350, 8, 1_286),
    ],
)
def test_rules_that_are_asked_for_decide_the_last_cut(
    rules: str, limit: int, messages: int, tokens: int, database_file: DatabaseFactory
):
    path = database_file("1.1.0-upgraded")
    asked = ("context", "7", "--assembled", "--budget", "1500", "--rules", rules)
    data = run(*asked, "--db", path, "--json").data
    assert (data["rules"], data["finalClamp"]["limit"]) == (rules, limit)
    assert (len(data["messages"]), data["totals"]["sentTokens"]) == (messages, tokens)
