"""``focus``: briefs listed, written by hand or by a model with the sweep around it, cleared and deleted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from lcm_core.base.values import replace
from lcm_core.engine.graph import BriefState
from lcm_core.operations.focus import load_briefs

from lcm_tui.tables.focus import state_words
from tests.change.support import dump, reading
from tests.cli.support import Result, run
from tests.conftest import DatabaseFactory
from tests.databases import query
from tests.databases import run as execute
from tests.fakes.messages_api import MessagesApi
from tests.fakes.server import Fail, Say

KEY = "sk-test-0123456789abcdef-SECRET"
EVIDENCE = Say(json.dumps({"evidenceMarkdown": "The lease is 45 s.", "citedSummaryIds": []}))
BRIEF = Say(json.dumps({"briefMarkdown": "The lease is 45 s \x1b[31m.", "confidenceNotes": "sure"}))
SUMMARY = Say("They spoke of the lease.\nExpand for details about: the lease")


@pytest.fixture
def path(database_copy: DatabaseFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FOCUS_KEY", KEY)
    return database_copy("0.15.3")


def focus(path: Path, *arguments: object) -> Result:
    return run(*(() if "show" in arguments else ("focus",)), *arguments, "--db", path)


def asking(server: MessagesApi) -> tuple[str, ...]:
    return (
        "--provider",
        "anthropic",
        "--model",
        "test-1",
        "--base-url",
        server.url,
        "--api-key-env",
        "FOCUS_KEY",
    )


def statuses(path: Path, owner: int) -> list[str]:
    sql = "SELECT status FROM focus_briefs WHERE conversation_id = ? ORDER BY rowid"
    return [one for (one,) in query(path, sql, owner)]


def undo(path: Path, data: Any) -> None:
    named = (data["batch"],) if data.get("batch") else (data["operationId"],)
    assert run("history", "undo", *named, "--db", path, "--apply", "--yes").code == 0


# -- looking ---------------------------------------------------------------------------------------------


def test_briefs_are_listed_and_shown_with_what_came_since(path: Path):
    items = focus(path, "list", 2, "--json").data["items"]
    assert [(one["status"], one["active"], one["replaces"]["saved"]) for one in items] == [
        ("active", True, 208),
        ("failed", False, 0),
        ("superseded", False, 208),
    ]
    assert items[0]["state"]["words"] == "stale: newer: 71 messages, 4 summaries"
    assert focus(path, "show", "focus_06", "--json").data["state"]["newerTokens"] == 8_003
    execute(path, "UPDATE focus_briefs SET prompt = '\x1b[2J\u202ehostile', content = '\x1b]0;x\x07'")
    for shown in (focus(path, "list", 2), focus(path, "show", "focus_06")):
        assert shown.code == 0
        assert not set("\x1b\x07\u202e") & set(shown.out)


@pytest.mark.long
def test_what_is_not_there_says_so(path: Path, database_copy: DatabaseFactory):
    assert focus(path, "show", "focus_nobody").code == 3
    assert focus(path, "show", "focus_").code == 2
    assert focus(path, "list", 99).code == 3
    assert focus(path, "create", "--update", 1, "--text", path).code == 9
    absent = focus(path, "create", 1, "--prompt", "q", "--text", path.parent / "absent.md")
    assert (absent.code, absent.err.count("\n")) == (3, 1)
    assert (
        f"The text {path.parent / 'absent.md'} cannot be read (No such file or directory): name" in absent.err
    )
    old = database_copy("0.8.2")
    for line in (
        ("list", 1),
        ("show", "focus_x"),
        ("clear", 1),
        ("create", 1, "--prompt", "q", "--text", "x"),
    ):
        refused = focus(old, *line)
        assert (refused.code, "has no focus briefs" in refused.err) == (9, True), line


# -- by hand ---------------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_text_of_ones_own_is_previewed_committed_and_undone(path: Path, tmp_path: Path):
    text = tmp_path / "brief.md"
    text.write_text("The lease is 45 s.", encoding="utf-8")
    wanted = ("create", 1, "--prompt", "The lease?", "--text", text)
    before, content = dump(path), path.read_bytes()
    planned = focus(path, *wanted, "--json").data
    assert path.read_bytes() == content
    assert (planned["applied"], planned["kind"]) == (False, "focus")
    assert planned["focus"]["coveredMessageSeq"] == 366
    assert "5 tokens replace 4 summaries (965 tokens): 960 saved" in planned["title"]
    done = focus(path, *wanted, "--apply", "--yes", "--json").data
    assert done["applied"] is True
    assert statuses(path, 1) == ["active"]
    undo(path, done)
    assert dump(path) == before


@pytest.mark.long
def test_the_sweep_comes_first_and_is_one_batch_with_the_brief(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("LCM_FRESH_TAIL_COUNT", "8")
    text = tmp_path / "brief.md"
    text.write_text("Text.", encoding="utf-8")
    before = dump(path)
    wanted = ("create", 7, "--prompt", "q", "--text", text)
    shown = focus(path, *wanted)
    assert "Compact conversation 7: 1 pass" in shown.out
    assert "is known after it" in shown.out
    assert focus(path, *wanted, "--no-sweep").code == 9  # there is no summary yet
    done = focus(path, *wanted, "--apply", "--yes", "--json").data
    assert len(done["sweep"]["made"]) == 1
    assert statuses(path, 7) == ["active"]
    undo(path, done)
    assert dump(path) == before


@pytest.mark.long
def test_a_refocus_sweeps_first_so_that_something_is_newer(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    text = tmp_path / "brief.md"
    text.write_text("Text.", encoding="utf-8")
    assert focus(path, "create", 2, "--prompt", "q", "--text", text, "--apply", "--yes").code == 0
    before = dump(path)
    monkeypatch.setenv("LCM_FRESH_TAIL_COUNT", "8")
    assert "already current" in focus(path, "create", "--update", 2, "--text", text, "--no-sweep").err
    assert "1 pass" in focus(path, "create", "--update", 2, "--text", text).out
    done = focus(path, "create", "--update", 2, "--text", text, "--apply", "--yes", "--json").data
    assert done["focus"]["madeFrom"] == [done["sweep"]["made"][0]["summaryId"]]
    undo(path, done)
    assert dump(path) == before


@pytest.mark.long
def test_clearing_keeps_the_brief_and_sweeps_behind_it(path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("LCM_FRESH_TAIL_COUNT", "8")
    before = dump(path)
    said = focus(path, "clear", 2, "--no-sweep").out
    assert "--no-sweep skips the sweep" in said
    done = focus(path, "clear", 2, "--apply", "--yes", "--json").data
    assert len(done["sweep"]["made"]) == 1
    assert statuses(path, 2) == ["superseded", "failed", "inactive"]
    undo(path, done)
    assert dump(path) == before
    assert focus(path, "clear", 1).code == 9


@pytest.mark.long
def test_activated_and_deleted(path: Path):
    before = dump(path)
    done = focus(path, "activate", "focus_b291", "--apply", "--yes", "--json").data
    assert statuses(path, 2) == ["active", "failed", "superseded"]
    undo(path, done)
    done = focus(path, "delete", "focus_f3a5", "--apply", "--yes", "--json").data
    assert statuses(path, 3) == ["superseded", "failed"]
    undo(path, done)
    assert dump(path) == before
    assert "DELETE FROM" in focus(path, "delete", "focus_f3a5", "--sql").out


# -- by a model ------------------------------------------------------------------------------------------


def test_nobody_is_called_without_the_word_of_the_operator(path: Path):
    before = path.read_bytes()
    with MessagesApi(EVIDENCE, BRIEF) as server:
        shown = focus(path, "create", 1, "--prompt", "The lease?", *asking(server), "--json")
        assert focus(path, "create", 1, "--prompt", "q", *asking(server), "--apply").code != 0
        assert not server.received
    assert shown.data["expected"]["calls"] == 2
    assert shown.data["atMost"]["calls"] == 12
    assert path.read_bytes() == before


@pytest.mark.long
def test_a_model_writes_it_and_the_sweep_is_in_its_batch(path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("LCM_FRESH_TAIL_COUNT", "8")
    before = dump(path)
    with MessagesApi(SUMMARY, EVIDENCE, BRIEF) as server:
        wanted = ("create", 2, "--prompt", "The lease?", *asking(server), "--apply", "--yes")
        done = focus(path, *wanted, "--json").data
        assert len(server.received) == 3
    assert done["spent"]["calls"] == 3
    assert len(done["sweep"]["made"]) == 1
    row = """SELECT content, generator_run_id, raw_result_json FROM focus_briefs
        WHERE conversation_id = 2 AND status = 'active'"""
    [(content, run_id, raw)] = query(path, row)
    assert (content, run_id) == ("The lease is 45 s \x1b[31m.", "test-1")
    assert json.loads(raw)["briefMarkdown"] == content
    assert statuses(path, 2) == ["superseded", "failed", "superseded", "active"]
    undo(path, done)
    assert dump(path) == before


FAILED = """SELECT status, content, token_count, error, generator_run_id, covered_message_seq,
    raw_result_json, superseded_at, (SELECT count(*) FROM focus_brief_sources AS s
    WHERE s.brief_id = b.brief_id AND role = 'active_input' AND ordinal IS NOT NULL)
    FROM focus_briefs AS b ORDER BY rowid DESC LIMIT 1"""


@pytest.mark.long
def test_a_model_that_fails_leaves_a_failed_brief_in_the_batch_of_its_sweep(
    path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("LCM_FRESH_TAIL_COUNT", "8")
    before = dump(path)
    with MessagesApi(SUMMARY, Fail(401, "authentication_error")) as server:
        wanted = ("create", 2, "--prompt", "q", *asking(server))
        assert "a failed brief with the error is recorded" in focus(path, *wanted).out
        result = focus(path, *wanted, "--apply", "--yes", "--json")
    document = json.loads(result.out)
    assert (result.code, document["ok"]) == (10, False)
    assert (document["data"]["kind"], document["data"]["sweep"]["batch"]) == (
        "focus-failed",
        document["data"]["batch"],
    )
    assert len(document["data"]["sweep"]["made"]) == 1
    assert statuses(path, 2) == ["superseded", "failed", "active", "failed"]
    undo(path, document["data"])
    assert dump(path) == before


@pytest.mark.long
def test_a_failed_brief_is_recorded_as_the_engine_leaves_one(path: Path, tmp_path: Path):
    before = dump(path)
    with MessagesApi(EVIDENCE, Fail(401, "authentication_error"), Fail(401, "x")) as server:
        wanted = ("create", 1, "--prompt", "q", *asking(server), "--yes")
        result = focus(path, *wanted, "--apply", "--json")
        drafted = focus(path, *wanted, "--draft", tmp_path / "draft.json")
    assert (result.code, drafted.code) == (4, 4)
    data = json.loads(result.out)["data"]
    [(status, content, tokens, error, writer, seq, *rest)] = query(path, FAILED)
    assert (status, content, tokens, writer, seq, *rest) == ("failed", "", 0, "test-1", 366, None, None, 4)
    assert error in json.loads(result.out)["error"]["message"]
    assert KEY not in error
    assert statuses(path, 1) == ["failed"]  # none by --draft
    undo(path, data)
    assert dump(path) == before


@pytest.mark.long
def test_a_call_beyond_a_limit_of_the_operator_is_no_failed_brief(path: Path):
    before = dump(path)
    with MessagesApi(EVIDENCE, BRIEF) as server:
        wanted = ("create", 1, "--prompt", "q", *asking(server), "--max-calls", 1, "--apply", "--yes")
        result = focus(path, *wanted)
    assert (result.code, len(server.received)) == (10, 1)
    assert dump(path) == before


def test_sql_holds_the_whole_change_or_is_refused(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    text = tmp_path / "brief.md"
    text.write_text("Text.", encoding="utf-8")
    monkeypatch.setenv("LCM_FRESH_TAIL_COUNT", "8")
    wanted = ("create", 2, "--prompt", "q", "--text", text, "--sql")
    for line in (wanted, ("clear", 2, "--sql")):
        refused = focus(path, *line)
        assert (refused.code, "cannot include the sweep (1 pass)" in refused.err) == (2, True)
        assert "UPDATE" in focus(path, *line, "--no-sweep").out
    assert focus(path, "create", 2, "--prompt", "q", "--model", "claude-haiku-4-5", "--sql").code == 2


@pytest.mark.long
def test_a_sweep_that_fails_leaves_nothing(path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("LCM_FRESH_TAIL_COUNT", "8")
    before = dump(path)
    with MessagesApi(Fail(401, "authentication_error")) as server:
        wanted = ("create", 2, "--prompt", "q", *asking(server), "--apply", "--yes")
        assert focus(path, *wanted).code != 0
        assert len(server.received) == 1
    assert dump(path) == before


@pytest.mark.long
def test_a_draft_is_written_reviewed_and_used(path: Path, tmp_path: Path):
    draft = tmp_path / "draft.json"
    before = path.read_bytes()
    with MessagesApi(EVIDENCE, BRIEF) as server:
        wanted = ("create", 1, "--prompt", "The lease?", "--draft", draft, *asking(server), "--yes")
        assert focus(path, *wanted).code == 0
    assert path.read_bytes() == before
    document = json.loads(draft.read_text())
    document["text"] = "Another text."
    draft.write_text(json.dumps(document))
    assert focus(path, "create", 2, "--from-draft", draft).code == 9
    assert focus(path, "create", "--update", 1, "--from-draft", draft).code == 9
    assert focus(path, "create", 1, "--from-draft", draft, "--apply", "--yes").code == 0
    sql = "SELECT content, generator_run_id FROM focus_briefs WHERE conversation_id = 1"
    assert query(path, sql) == [("Another text.", "manual")]


@pytest.mark.parametrize(
    "line",
    [
        ("create", 1),
        ("create", 1, "--prompt", "q"),
        ("create", 1, "--prompt", " ", "--text", "x"),
        ("create", 1, "--prompt", "q", "--text", "x", "--draft", "y"),
        ("create", 1, "--prompt", "q", "--from-draft", "x"),
        ("create", 1, "--prompt", "q", "--draft", "x", "--model", "claude-haiku-4-5", "--apply"),
        ("create", "--prompt", "q", "--text", "x"),
    ],
)
def test_what_does_not_fit_is_said(line: tuple[object, ...], path: Path):
    assert focus(path, *line).code == 2


@pytest.mark.parametrize("raw", [b"\xff\xfe", b" \n"], ids=("no text", "blank"))
def test_a_text_that_is_none_is_refused(raw: bytes, path: Path, tmp_path: Path):
    text = tmp_path / "brief.md"
    text.write_bytes(raw)
    assert focus(path, "create", 1, "--prompt", "q", "--text", text, "--apply", "--yes").code == 9
    assert focus(path, "create", 1, "--prompt", "q", "--text", tmp_path / "gone").code == 3
    assert focus(path, "create", 1, "--prompt", "q", "--text", tmp_path).code == 3


async def test_newer_messages_alone_make_a_brief_stale_for_the_engine_only(database_file: DatabaseFactory):
    found = await reading(database_file("0.15.3"), lambda reader: load_briefs(reader, 2))

    def words(state: BriefState) -> str:
        return state_words(replace(found[0], state=state))

    messages = BriefState(26, 0, None, context_changed=False, truncated=False)
    assert messages.stale
    assert words(messages) == "current; 26 newer messages stay in the context as they are"
    assert words(replace(messages, messages=0)) == "current"
    assert words(replace(messages, summaries=1)) == "stale: newer: 26 messages, 1 summary"
    assert words(replace(messages, truncated=True)) == "stale: newer: 26 messages; truncated"
    assert words(replace(messages, context_changed=True)).startswith("stale: source context changed")
