"""``dissolve`` from the command line, on every version, and every way in which it can be refused."""

from __future__ import annotations

import itertools
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from lcm_core.change import commit as committing
from lcm_core.change import connection
from lcm_core.change.connection import wals_folder

from lcm_tui.cli import answer, changing, output
from tests.change.support import REAL, context_of, dissolvable, dump, sources
from tests.cli.support import run
from tests.cli.test_backup import at_a_terminal
from tests.conftest import DatabaseFactory
from tests.databases import column, connect, folder, leave_unread_wal, value
from tests.databases import run as change_behind


@pytest.fixture
def path(database_copy: DatabaseFactory) -> Path:
    """A database of its own."""
    return database_copy("0.15.3")


def dissolve(path: Path, *more: object, number: int = 0) -> Any:
    conversation, summary = dissolvable(path)[number]
    return run("dissolve", conversation, "--summary", summary, "--db", path, *more)


@pytest.mark.cases(1)
@pytest.mark.parametrize("version", REAL)
def test_shown_then_done_then_taken_back(database_copy: DatabaseFactory, version: str):
    path = database_copy(version)
    rows, files = dump(path), folder(path)
    conversation, summary = dissolvable(path)[0]
    restored, before = sources(path, summary), context_of(path, conversation)
    shown = dissolve(path, "--json").data
    assert folder(path) == files
    assert (shown["kind"], shown["conversationId"], shown["applied"]) == ("dissolve", conversation, False)
    assert [one["identity"] for one in shown["shift"] if one["from"] is None] == [
        f"summary:{one}" for one in restored
    ]
    assert shown["rows"]["summaries"] == {"insert": 0, "update": 0, "delete": 1}
    done = dissolve(path, "--json", "--apply", "--yes").data
    assert [ref for _, ref in context_of(path, conversation)] == [
        each for _, ref in before for each in (restored if ref == summary else [ref])
    ]
    assert value(path, "SELECT count(*) FROM summaries WHERE summary_id = ?", summary) == 0
    assert {**done, "edits": 0} == {**shown, "edits": 0, **{name: done[name] for name in NEW}}
    undone = run("history", "undo", done["operationId"], "--db", path, "--apply", "--yes", "--json").data
    assert dump(path) == rows
    assert undone["tokens"] == {"before": done["tokens"]["after"], "after": done["tokens"]["before"]}


def test_what_the_context_is_made_of_before_and_after_is_to_one_scale(path: Path):
    lines = [line.split(maxsplit=1) for line in dissolve(path).out.splitlines()]
    bars = dict(line for line in lines if line and line[0] in {"Before", "After"})
    assert bars["Before"] == "3333333222222uuuuaaaaaaaaaaaaaattttttttttt"
    assert bars["After"] == "3333222222222222222uuuuaaaaaaaaaaaaaattttttttttt"
    assert [
        "Made",
        "of       3=D3 509 -> 227 2=D2 456 -> 1,227 u=user 284 a=assistant 1,195 t=tool 860",
    ] in lines


#: What is known only once it is done.
NEW = ("applied", "operationId", "undo", "searchIndex", "waitedSeconds", "heldSeconds")


def test_ctrl_c_behind_the_commit_does_not_say_that_nothing_was_changed(
    path: Path, monkeypatch: pytest.MonkeyPatch
):
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(output, "print_answer", interrupt)
    shown = dissolve(path, "--apply", "--yes")
    assert (shown.code, shown.err) == (10, "Cancelled; what the command had done by then stays.\n")
    assert value(path, "SELECT count(*) FROM lcm_tui_operations") == 1
    monkeypatch.setattr(changing.Changing, "_answer", interrupt)
    other = dissolve(path, "--apply", "--yes", number=1)
    assert (other.code, other.err) == (shown.code, shown.err)


@pytest.mark.long
def test_a_conversation_and_a_summary_have_several_names(path: Path):
    conversation, summary = dissolvable(path)[0]
    key = value(path, "SELECT session_key FROM conversations WHERE conversation_id = ?", conversation)
    beginning = summary[:9]
    for named in ([conversation], [key]):
        shown = run("dissolve", *named, "--summary", beginning, "--db", path, "--json").data
        assert (shown["conversationId"], summary in shown["title"]) == (conversation, True)
    for alone in ([beginning], ["--summary", beginning], [conversation, "--summary", beginning]):
        same = run("dissolve", *alone, "--db", path, "--json").data
        # Edits have the second in which they were planned.
        assert {**same, "edits": len(same["edits"])} == {**shown, "edits": len(shown["edits"])}
    assert run("dissolve", conversation + 1, "--summary", beginning, "--db", path).code == 9


def test_keep_leaves_the_node(path: Path):
    _, summary = dissolvable(path)[0]
    assert dissolve(path, "--keep", "--json").data["rows"].keys() == {"context_items"}
    assert dissolve(path, "--keep", "--apply", "--yes").code == 0
    assert value(path, "SELECT count(*) FROM summaries WHERE summary_id = ?", summary) == 1


def test_several_levels_and_several_summaries(path: Path):
    conversation = 1
    wanted = [summary for owner, summary in dissolvable(path) if owner == conversation]
    chosen = [part for summary in wanted for part in ("--summary", summary)]
    all_at_once = run("dissolve", conversation, *chosen, "--db", path, "--json").data
    leaving = [one["identity"] for one in all_at_once["shift"] if one["to"] is None]
    assert leaving == [f"summary:{one}" for one in wanted]
    deep = dissolve(path, "--levels", "9", "--json", number=dissolvable(path).index((1, wanted[0]))).data
    condensed = column(path, "SELECT 'summary:' || summary_id FROM summaries WHERE kind = 'condensed'")
    entering = {one["identity"] for one in deep["shift"] if one["from"] is None}
    assert entering
    assert not entering & set(condensed)


def test_a_budget_that_is_exceeded_is_a_warning(path: Path):
    tight = dissolve(path, "--budget", "1k")
    assert tight.code == 0
    assert "exceed the budget of 1,000" in tight.out
    assert "of 1,000\n" in tight.out
    [warning] = dissolve(path, "--json").data["warnings"]
    assert "(fallback) is broken" in warning


# -- exit codes ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["dissolve", "1"], "dissolve needs --summary ID."),
        (["dissolve"], "dissolve needs a conversation"),
        (["dissolve", "0", "--summary", "x"], "CONVERSATION must be a whole number"),
        (["dissolve", "1", "--summary", "x", "--levels", "0"], "--levels must be"),
        (["dissolve", "1", "--summary"], "--summary needs a value"),
        (["dissolve", "1", "--summary", "x", "--keep=yes"], "--keep takes no value"),
        (["dissolve", "1", "--summary", "x", "--budget", "much"], "--budget must be"),
    ],
)
def test_mistakes_exit_with_2(arguments: list[str], words: str):
    result = run(*arguments)
    assert (result.code, result.out) == (2, "")
    assert words in result.err


def test_what_is_not_there_exits_with_3(path: Path):
    _, summary = dissolvable(path)[0]
    for arguments in ((99, "--summary", summary), (1, "--summary", "sum_nothing")):
        result = run("dissolve", *arguments, "--db", path, "--apply", "--yes", "--json")
        assert (result.code, result.error["code"].endswith("NOT_FOUND")) == (3, True)


def test_an_ambiguous_beginning_is_a_mistake(path: Path):
    result = run("dissolve", 1, "--summary", "sum_", "--db", path, "--json")
    assert (result.code, result.error["code"]) == (2, "AMBIGUOUS_ID")


def test_a_database_that_cannot_be_written_is_left_alone(path: Path, monkeypatch: pytest.MonkeyPatch):
    assert run("dissolve", 1, "--summary", "x", "--db", path.with_name("no.db")).code == 3
    assert not path.with_name("no.db").exists()
    rows, real = dump(path), sqlite3.connect

    def read_only(name: Any, *args: Any, **kwargs: Any) -> sqlite3.Connection:
        return real(str(name).replace("mode=rw", "mode=ro"), *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(connection.sqlite3, "connect", read_only)
        result = dissolve(path, "--apply", "--yes", "--json")
        assert (result.code, result.error["code"]) == (5, "DATABASE_READ_ONLY")
        assert "Nothing was changed" in result.error["message"]
        assert dissolve(path).code == 0
    assert dump(path) == rows


def test_a_database_that_moves_on_exits_with_7(path: Path, monkeypatch: pytest.MonkeyPatch):
    conversation, summary = dissolvable(path)[0]
    real, numbers = committing.commit, itertools.count()

    def commit(*args: Any, **kwargs: Any) -> Any:
        change_behind(
            path, f"UPDATE summaries SET token_count = {next(numbers)} WHERE summary_id = '{summary}'"
        )
        return real(*args, **kwargs)

    monkeypatch.setattr(committing, "commit", commit)
    result = dissolve(path, "--apply", "--yes", "--json")
    assert (result.code, result.error["code"]) == (7, "STALE_PLAN")
    assert f"summaries {summary}: token_count was 1, now 2" in result.error["message"]
    assert summary in [ref for _, ref in context_of(path, conversation)]


def test_a_locked_database_exits_with_8(path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(answer, "BUSY_SECONDS", 0.05)
    with connect(path) as other:
        other.execute("BEGIN IMMEDIATE")
        assert dissolve(path).code == 0
        result = dissolve(path, "--apply", "--yes", "--json")
        other.execute("ROLLBACK")
    assert (result.code, result.error["code"]) == (8, "DATABASE_BUSY")
    assert result.error["details"]["waitedSeconds"] >= 0.05


def test_a_refusal_exits_with_9(path: Path):
    rows = dump(path)
    conversation, summary = dissolvable(path)[0]
    leaf = value(path, "SELECT summary_id FROM summaries WHERE kind = 'leaf' AND conversation_id = 1")
    of_another = next(one for owner, one in dissolvable(path) if owner != conversation)
    for wanted, words in ((leaf, "is a leaf"), (of_another, "belongs to conversation")):
        owner = 1 if wanted == leaf else conversation
        for more in ((), ("--apply", "--yes")):
            result = run("dissolve", owner, "--summary", wanted, "--db", path, "--json", *more)
            assert (result.code, result.error["code"]) == (9, "REFUSED")
            assert words in result.error["message"]
    nobody = dissolve(path, "--apply", "--json")
    assert (nobody.code, "with --yes" in nobody.error["message"]) == (9, True)
    change_behind(
        path,
        f"""CREATE TRIGGER along AFTER DELETE ON summaries BEGIN
        UPDATE conversations SET title = 'x' WHERE conversation_id = {conversation}; END""",
    )
    result = run("dissolve", conversation, "--summary", summary, "--db", path, "--apply", "--yes")
    assert (result.code, result.out) == (9, "")
    assert "trigger" in result.err
    assert dump(path) == rows


@pytest.mark.long
def test_a_person_who_says_no_exits_with_10(path: Path):
    conversation, summary = dissolvable(path)[0]
    command = ["dissolve", conversation, "--summary", summary, "--db", path, "--apply"]
    rows = dump(path)
    for typed in ("n\n", "\x04"):
        code, shown = at_a_terminal(typed, *command)
        assert code == 10
        assert "Ordinals in conversation" in shown
        assert "Apply this change? [y/N]" in shown
        assert "Cancelled; nothing was changed." in shown
    assert dump(path) == rows
    code, _ = at_a_terminal("y\n", *command)
    assert code == 0
    assert dump(path) != rows


@pytest.mark.long
@pytest.mark.parametrize("flags", [("--json",), ()], ids=["json", "people"])
def test_a_wal_that_sqlite_ignores_is_kept_before_it_is_lost(path: Path, flags: tuple[str, ...]):
    conversation, summary = dissolvable(path)[0]
    content = path.read_bytes()
    wal = leave_unread_wal(path)
    refused = run("dissolve", conversation, "--summary", summary, "--db", path, "--apply", "--yes", *flags)
    assert refused.code == 9
    assert "--allow-unread-wal" in refused.err
    assert path.with_name("lcm.db-wal").read_bytes() == wal
    assert path.read_bytes() == content
    assert "not read" in run("status", "--db", path).out
    assert run("status", "--db", path, "--json").data["lcmTui"]["walIgnoredBytes"] == len(wal) - 32
    assert (
        run("dissolve", conversation, "--summary", summary, "--db", path, "--allow-unread-wal", *flags).code
        == 0
    )  # a preview keeps and changes nothing
    assert not wals_folder().exists()
    done = run(
        "dissolve",
        conversation,
        "--summary",
        summary,
        "--db",
        path,
        "--apply",
        "--yes",
        "--allow-unread-wal",
        *flags,
    )
    assert done.code == 0
    [kept] = wals_folder().iterdir()
    assert kept.read_bytes() == wal
    assert str(kept) in done.err
