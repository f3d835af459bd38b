"""The road of every changing command: shown first, asked, committed, planned again, and told when in part."""

from __future__ import annotations

import io
import itertools
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lcm_core.api import ExitCode, LcmError, Options, RefusedError, plan_dissolve, resolve
from lcm_core.base.errors import CancelledError
from lcm_core.change.journal import decode_edits

from lcm_tui.cli import answer, working
from lcm_tui.cli.answer import Run
from lcm_tui.cli.changing import Proposal, run_change
from lcm_tui.cli.options import ChangeFlags
from lcm_tui.cli.presentation import Presentation
from lcm_tui.cli.readable import Page
from lcm_tui.flows import change as flow
from lcm_tui.flows.change import Change
from lcm_tui.tables.blocks import Note
from tests.change.support import REAL, changed, context_of, dissolvable, dump, plan_of, update
from tests.cli.support import run
from tests.conftest import DatabaseFactory
from tests.databases import column, connect, folder, value
from tests.databases import run as change_behind

APPLY = ChangeFlags(apply=True, yes=True)


@pytest.fixture
def path(database_copy: DatabaseFactory) -> Path:
    """A database of its own."""
    return database_copy("0.15.3")


def run_on(path: Path) -> Run:
    return Run(resolve(Options(str(path)), os.environ, home=Path.home()), Presentation())


def one_each(path: Path) -> list[tuple[int, str]]:
    """A condensed summary of every conversation that has one in its context."""
    return [next(group) for _, group in itertools.groupby(dissolvable(path), key=lambda found: found[0])]


def dissolving(*wanted: tuple[int, str]):
    """Plans what is left of several dissolves."""

    async def plan(reader):
        there = {row[0] for row in await reader.rows("SELECT summary_id FROM summaries")}
        return [await plan_dissolve(reader, owner, [one]) for owner, one in wanted if one in there]

    return plan


def text(told) -> str:
    return Page(None, color=False).render(told.blocks)


def plans_in(told) -> list[Any]:
    found: Any = told.data["plans"]
    return list(found)


def operations(path: Path) -> list[Any]:
    if not value(path, "SELECT 1 FROM sqlite_master WHERE name = 'lcm_tui_operations'"):
        return []
    return column(path, "SELECT id FROM lcm_tui_operations ORDER BY rowid")


def answering(monkeypatch: pytest.MonkeyPatch, *answers: str | Callable[[], str]) -> None:
    """A person at the terminal; a callable does something before it answers."""
    left = list(answers)

    class Person(io.StringIO):
        def readline(self, size: int | None = -1, /) -> str:
            said = left.pop(0)
            return said if isinstance(said, str) else said()

    monkeypatch.setattr(working, "can_ask", lambda: True)
    monkeypatch.setattr(sys, "stdin", Person())


def writing_before_commits(
    monkeypatch: pytest.MonkeyPatch, write: Callable[[], None], *, times: int = 99
) -> list[int]:
    """A second writer between every preview and its commit."""
    real, calls = flow.commit_plan, [0]

    async def commit(*args: Any, **kwargs: Any) -> Any:
        calls[0] += 1
        if calls[0] <= times:
            write()
        return await real(*args, **kwargs)

    monkeypatch.setattr(flow, "commit_plan", commit)
    return calls


# -- one plan --------------------------------------------------------------------------------------------


def test_without_apply_nothing_is_locked_or_written(path: Path):
    wanted, before = one_each(path)[0], folder(path)
    for flags in (ChangeFlags(), ChangeFlags(yes=True, sql=True)):
        told = run_change(run_on(path), "test", dissolving(wanted), flags)
        assert folder(path) == before
    with connect(path) as other:
        other.execute("BEGIN IMMEDIATE")
        assert run_change(run_on(path), "test", dissolving(wanted), flags).data["applied"] is False
        other.execute("ROLLBACK")
    assert told.exit_code is ExitCode.DONE
    assert (told.data["applied"], told.data["operationId"]) == (False, None)
    assert text(told).endswith("Nothing was changed; --apply makes the change.")


@pytest.mark.long
def test_what_is_printed_for_machines_is_the_plan(path: Path):
    told = run_change(run_on(path), "test", dissolving(one_each(path)[0]), ChangeFlags(sql=True))
    names = {"title", "kind", "conversationId", "edits", "shift", "tokens", "rows", "warnings", "sql"}
    assert set(told.data) == names | {"applied", "operationId"}
    edits: Any = told.data["edits"]
    assert len(decode_edits(edits)) == len(edits) > 1
    sql: Any = told.data["sql"]
    done = run_change(run_on(path), "test", dissolving(one_each(path)[0]), APPLY)
    by_commit, context = dump(path), context_of(path, 2)
    assert run(*str(done.data["undo"]).split()[1:], "--yes").code == 0
    change_behind(path, *sql)
    assert context_of(path, 2) == context
    assert changed(by_commit, dump(path)) <= {"context_items"}  # the time of the plan alone


def test_people_see_both_ordinals_tokens_and_rows(path: Path):
    conversation, summary = one_each(path)[0]
    planner, flags = dissolving((conversation, summary)), ChangeFlags(sql=True)
    told: Any = run_change(run_on(path), "test", planner, flags, budget=10_000)
    shown, tokens = text(told), told.data["tokens"]
    before, after = tokens["before"], tokens["after"]
    assert f"{before:,} -> {after:,} stored ({after - before:+,})" in shown
    assert f"-> {after / 10_000:.1%} of 10,000" in shown
    assert f"Ordinals in conversation {conversation}\n     Old" in shown
    assert f"-      0         summary {summary}\n+             0  summary sum_" in shown
    assert " items move by +" in shown
    assert "delete from summaries: " + summary in shown
    assert "summaries             0       0       1" in shown
    assert told.script is not None
    assert f'DELETE FROM "summaries" WHERE "summary_id" IS \'{summary}\';' in told.script
    assert "DELETE FROM" not in shown


@pytest.mark.long
def test_a_long_list_is_cut_for_people_and_whole_for_machines(path: Path):
    rows = column(path, "SELECT summary_id FROM summaries")

    async def plan(_):
        return plan_of(*(update(path, "summaries", "summary_id", row, model="other") for row in rows))

    told = run_change(run_on(path), "test", plan, ChangeFlags())
    edits: Any = told.data["edits"]
    assert len(edits) == len(rows) > 50
    assert f"change in summaries: {rows[1]}: model\nchange in summaries: and {len(rows) - 2} more" in text(
        told
    )
    assert "Ordinals do not change." in text(told)


@pytest.mark.long
@pytest.mark.parametrize("version", REAL)
def test_what_is_applied_can_be_taken_back(database_copy: DatabaseFactory, version: str):
    path = database_copy(version)
    before = dump(path)
    told = run_change(run_on(path), "test", dissolving(one_each(path)[0]), APPLY)
    [operation] = operations(path)
    assert (told.data["applied"], told.data["operationId"]) == (True, operation)
    assert told.data["undo"] == f"lcm-tui history undo {operation} --apply --db {path}"
    assert told.data["searchIndex"] is None
    assert f"lcm-tui history undo {operation} --apply" in text(told)
    assert dump(path) != before
    undo = str(told.data["undo"]).split()[1:]
    assert run(*undo, "--yes").code == 0
    assert dump(path) == before
    host = "stop the host first"
    assert (host in text(told)) is (version in ("0.1.2", "0.3.0"))


def test_nothing_to_do_is_no_error(path: Path):
    before = folder(path)

    async def nothing(_) -> Proposal:
        note = Note("Looked at 3.")
        return Proposal((plan_of(),), data={"looked": 3}, blocks=[note], nothing="All is well.")

    for flags in (ChangeFlags(), APPLY, ChangeFlags(apply=True)):
        told = run_change(run_on(path), "test", nothing, flags)
        assert (told.exit_code, told.data["applied"], told.data["looked"]) == (ExitCode.DONE, False, 3)
        assert text(told) == "Looked at 3.\n\nAll is well."
    assert folder(path) == before


def test_a_broken_search_table_is_told(path: Path):
    change_behind(path, "DROP TABLE summaries_fts_data")
    told = run_change(run_on(path), "test", dissolving(one_each(path)[0]), APPLY)
    assert told.data["searchIndex"] == "search index not updated: run `lcm-tui reindex`"
    assert "search index not updated" in text(told)


# -- asking ----------------------------------------------------------------------------------------------


def test_without_a_terminal_nobody_agrees(path: Path, capsys: pytest.CaptureFixture[str]):
    before = folder(path)
    with pytest.raises(LcmError, match="with --yes") as refused:
        run_change(run_on(path), "test", dissolving(one_each(path)[0]), ChangeFlags(apply=True))
    assert refused.value.exit_code is ExitCode.REFUSED
    assert folder(path) == before
    assert capsys.readouterr().err == ""


def test_a_person_sees_the_preview_before_the_question(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    before, wanted = folder(path), dissolving(one_each(path)[0])
    answering(monkeypatch, "n\n", "", "y\n")
    for _ in range(2):
        with pytest.raises(CancelledError, match="nothing was changed"):
            run_change(run_on(path), "test", wanted, ChangeFlags(apply=True))
    assert folder(path) == before
    capsys.readouterr()
    told = run_change(run_on(path), "test", wanted, ChangeFlags(apply=True))
    out, err = capsys.readouterr()
    assert out == ""
    assert err.index("Ordinals in conversation") < err.index("Apply this change? [y/N]")
    assert told.data["applied"] is True
    assert "Ordinals" not in text(told)


def test_ctrl_c_at_the_question_changes_nothing(path: Path, monkeypatch: pytest.MonkeyPatch):
    conversation, summary = one_each(path)[0]
    before = folder(path)

    def press() -> str:
        raise KeyboardInterrupt

    answering(monkeypatch, press)
    result = run("dissolve", conversation, "--summary", summary, "--db", path, "--apply")
    assert (result.code, result.out) == (10, "")
    assert result.err.endswith("[y/N] \nCancelled; nothing was changed.\n")
    assert folder(path) == before


# -- the database moves on ---------------------------------------------------------------------------------


def test_a_stale_plan_is_made_again_and_shown_again(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    conversation, summary = one_each(path)[0]

    def slow() -> str:
        change_behind(path, f"UPDATE summaries SET content = 'other' WHERE summary_id = '{summary}'")
        return "y\n"

    answering(monkeypatch, slow, "y\n")
    told = run_change(run_on(path), "test", dissolving((conversation, summary)), ChangeFlags(apply=True))
    shown = capsys.readouterr().err
    assert shown.count("Apply this change?") == 2
    assert f"planned again: summaries {summary}: content was" in shown
    assert told.data["applied"] is True
    assert len(operations(path)) == 1
    assert "now 'other'" in str(told.data["plannedAgainFor"])


@pytest.mark.long
def test_with_yes_a_stale_plan_is_made_again_three_times(path: Path, monkeypatch: pytest.MonkeyPatch):
    conversation, summary = one_each(path)[0]
    numbers = itertools.count()

    def write() -> None:
        text = f"other {next(numbers)}"
        change_behind(path, f"UPDATE summaries SET content = '{text}' WHERE summary_id = '{summary}'")

    calls = writing_before_commits(monkeypatch, write)
    with pytest.raises(LcmError, match="content was other 1, now other 2") as stale:
        run_change(run_on(path), "test", dissolving((conversation, summary)), APPLY)
    assert (stale.value.exit_code, calls) == (ExitCode.STALE, [3])
    assert operations(path) == []
    writing_before_commits(monkeypatch, write, times=2)
    calls[0] = 99  # the first writer stops
    told = run_change(run_on(path), "test", dissolving((conversation, summary)), APPLY)
    assert told.data["applied"] is True
    assert "The database changed, so this was planned again" in text(told)


def test_what_somebody_else_has_done_is_not_done_again(path: Path, monkeypatch: pytest.MonkeyPatch):
    conversation, summary = one_each(path)[0]

    def write() -> None:
        change_behind(path, f"DELETE FROM summaries WHERE summary_id = '{summary}'")

    writing_before_commits(monkeypatch, write, times=1)
    told = run_change(run_on(path), "test", dissolving((conversation, summary)), APPLY)
    assert (told.exit_code, told.data["applied"]) == (ExitCode.DONE, False)
    assert "There is nothing to change." in text(told)


def test_a_lock_that_is_held_is_waited_for_and_told(path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(answer, "BUSY_SECONDS", 0.05)
    before = dump(path)
    with connect(path) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(LcmError, match="locked by another process") as busy:
            run_change(run_on(path), "test", dissolving(one_each(path)[0]), APPLY)
        other.execute("ROLLBACK")
    assert busy.value.exit_code is ExitCode.BUSY
    assert dump(path) == before


@pytest.mark.parametrize("after", [0, 1])
def test_ctrl_c_while_the_lock_is_waited_for_gives_the_change_up(
    path: Path, monkeypatch: pytest.MonkeyPatch, after: int
):
    calls = itertools.count()
    with connect(path) as other:

        def press_later() -> None:
            if next(calls) == after:
                other.execute("BEGIN IMMEDIATE")
                threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()

        monkeypatch.setattr(answer, "BUSY_SECONDS", 60.0)
        writing_before_commits(monkeypatch, press_later)
        planner = dissolving(*one_each(path)[: after + 1])
        if not after:
            with pytest.raises(CancelledError, match=r"^Cancelled; nothing was changed\.$"):
                run_change(run_on(path), "test", planner, APPLY)
        else:
            told = run_change(run_on(path), "test", planner, APPLY)
            assert told.exit_code is ExitCode.CANCELLED
            assert "Cancelled. Earlier changes stay." in text(told)
        other.execute("ROLLBACK")
    assert len(operations(path)) == after


# -- several plans ---------------------------------------------------------------------------------------


@pytest.mark.long
def test_several_plans_are_shown_as_one_and_committed_one_by_one(path: Path):
    before, wanted = dump(path), one_each(path)
    shown: Any = run_change(run_on(path), "test", dissolving(*wanted), ChangeFlags())
    assert "Committed one by one, each a separate operation\n1  Dissolve" in text(shown)
    assert shown.data["rows"]["summaries"] == {"insert": 0, "update": 0, "delete": len(wanted)}
    told = run_change(run_on(path), "test", dissolving(*wanted), APPLY)
    done = operations(path)
    assert [part["operationId"] for part in plans_in(told)] == done
    assert len(done) == len(wanted) > 2
    assert (told.data["applied"], told.data["operationId"]) == (True, None)
    batch = told.data["batch"]
    assert column(path, "SELECT DISTINCT batch FROM lcm_tui_operations") == [batch]
    assert told.data["undo"] == f"lcm-tui history undo {batch} --apply --db {path}"
    assert f"To undo all of it  {told.data['undo']}" in text(told)
    undone = run(*str(told.data["undo"]).split()[1:], "--yes", "--json")
    assert [part["applied"] for part in undone.data["plans"]] == [True] * len(wanted)
    assert dump(path) == before
    again = run("history", "undo", batch, "--db", path)
    assert (again.code, again.err) == (9, f"All of batch {batch} has been undone already.\n")
    assert run("history", "redo", batch, "--db", path, "--apply", "--yes").code == 0
    assert not set(column(path, "SELECT summary_id FROM summaries")) & {summary for _, summary in wanted}


@pytest.mark.long
def test_later_plans_of_a_batch_may_build_on_earlier_ones(path: Path):
    conversation = one_each(path)[0][0]
    wanted = [summary for owner, summary in dissolvable(path) if owner == conversation]
    before = dump(path)
    for summary in wanted:
        words = ("dissolve", conversation, "--summary", summary)
        assert run(*words, "--db", path, "--apply", "--yes").code == 0
    change_behind(path, "UPDATE lcm_tui_operations SET batch = 'batch_x'")
    shown = run("history", "undo", "batch_x", "--db", path, "--json").data
    assert [item["to"] for item in shown["shift"] if item["from"] is None] == list(range(len(wanted)))
    assert run("history", "undo", "batch_x", "--db", path, "--apply", "--yes").code == 0
    assert dump(path) == before


class Failing(Change):
    """Fails before one of its commits."""

    def __init__(self, planner, number: int, error: BaseException) -> None:
        super().__init__(planner)
        self._number, self._error = number, error

    async def before(self, ui, plan) -> None:
        self._number -= 1
        if not self._number:
            raise self._error


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    ("error", "words"),
    [
        (RefusedError("The third is refused."), "The next was not: The third is refused."),
        (KeyboardInterrupt(), "either completed or changed nothing"),
    ],
)
def test_a_batch_that_fails_in_part_says_what_was_done(path: Path, error: BaseException, words: str):
    wanted = one_each(path)
    told: Any = run_change(run_on(path), "test", Failing(dissolving(*wanted), 3, error), APPLY)
    assert told.exit_code is ExitCode.CANCELLED
    assert [part["applied"] for part in plans_in(told)] == [True, True, *[False] * (len(wanted) - 2)]
    assert [part["operationId"] for part in plans_in(told)][:2] == operations(path)
    assert told.data["applied"] is False
    assert told.envelope["ok"] is False
    assert told.envelope["error"]["code"] in ("REFUSED", "CANCELLED")
    assert f"2 of {len(wanted)} changes were applied and stay. " in text(told)
    assert words in text(told)


def test_a_batch_whose_first_plan_fails_is_an_error(path: Path):
    change = Failing(dissolving(*one_each(path)), 1, RefusedError("No."))
    with pytest.raises(RefusedError, match=r"No\."):
        run_change(run_on(path), "test", change, APPLY)
    assert operations(path) == []


def test_ctrl_c_ends_a_batch_between_two_commits(path: Path, monkeypatch: pytest.MonkeyPatch):
    calls = itertools.count(1)

    def press() -> None:
        if next(calls) == 2:
            os.kill(os.getpid(), signal.SIGINT)

    writing_before_commits(monkeypatch, press)
    told = run_change(run_on(path), "test", dissolving(*one_each(path)), APPLY)
    assert told.exit_code is ExitCode.CANCELLED
    assert len(operations(path)) == 1
    assert "Cancelled. Earlier changes stay." in text(told)


@pytest.mark.long
def test_a_batch_that_goes_stale_half_way_goes_on_with_the_rest(path: Path, monkeypatch: pytest.MonkeyPatch):
    wanted = one_each(path)
    calls = itertools.count(1)

    def write() -> None:
        if next(calls) == 2:
            change_behind(path, f"UPDATE summaries SET content = 'x' WHERE summary_id = '{wanted[1][1]}'")

    writing_before_commits(monkeypatch, write)
    told = run_change(run_on(path), "test", dissolving(*wanted), APPLY)
    assert (told.exit_code, told.data["applied"]) == (ExitCode.DONE, True)
    assert len(plans_in(told)) == len(operations(path)) == len(wanted)
    assert len(column(path, "SELECT DISTINCT batch FROM lcm_tui_operations")) == 1


def test_a_second_question_declined_leaves_the_first_part(path: Path, monkeypatch: pytest.MonkeyPatch):
    wanted = one_each(path)
    calls = itertools.count(1)

    def write() -> None:
        if next(calls) == 2:
            change_behind(path, f"UPDATE summaries SET content = 'x' WHERE summary_id = '{wanted[1][1]}'")

    answering(monkeypatch, "y\n", "n\n")
    writing_before_commits(monkeypatch, write)
    told = run_change(run_on(path), "test", dissolving(*wanted), ChangeFlags(apply=True))
    assert told.exit_code is ExitCode.CANCELLED
    assert "Earlier changes stay" in text(told)
    assert len(operations(path)) == 1
