"""``history`` and ``reindex`` from the command line: what was changed, taking it back, and forgetting."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path
from typing import Any

import pytest
from lcm_core.api import Plan
from lcm_core.base.values import replace
from lcm_core.change import commit as commit_module
from lcm_core.change.commit import commit
from lcm_core.change.journal import decode_edits

from lcm_tui.cli import answer
from lcm_tui.cli import doctor as doctor_command
from lcm_tui.cli import history as history_command
from lcm_tui.cli import migrate as migrate_command
from lcm_tui.cli import reindex as reindex_command
from tests.app.test_plan_screen import NODE
from tests.change.support import REAL, dissolvable, dump, plan_of, search_faults, update
from tests.cli.support import run
from tests.conftest import DatabaseFactory
from tests.databases import column, connect, folder, query, value
from tests.databases import run as change_behind

DO = ("--apply", "--yes", "--json")
JOURNAL = "SELECT 1 FROM sqlite_master WHERE name = 'lcm_tui_operations'"
OWNERS = "SELECT conversation_id FROM lcm_tui_operations"


@pytest.fixture
def path(database_copy: DatabaseFactory) -> Path:
    """A database of its own."""
    return database_copy("0.15.3")


def dissolve(path: Path) -> str:
    """Dissolve a summary of a conversation in which nothing was changed yet."""
    changed = {found[0] for found in query(path, OWNERS)} if value(path, JOURNAL) else set()
    conversation, summary = next(one for one in dissolvable(path) if one[0] not in changed)
    return str(run("dissolve", conversation, "--summary", summary, "--db", path, *DO).data["operationId"])


def history(path: Path, *words: object) -> Any:
    return run(*(() if "show" in words else ("history",)), *words, "--db", path)


def listed(path: Path, *words: object) -> list[tuple[str, bool | None]]:
    items = history(path, "list", "--json", *words).data["items"]
    return [(item["operationId"], item["inEffect"]) for item in items]


# -- list and show -----------------------------------------------------------------------------------------


@pytest.mark.cases(1)
@pytest.mark.parametrize("version", REAL)
def test_a_database_that_nobody_changed_has_an_empty_history(database_copy: DatabaseFactory, version: str):
    path = database_copy(version)
    before = folder(path)
    told = history(path, "list", "--json")
    assert (told.data["items"], told.document["pagination"]["hasMore"]) == ([], False)
    assert history(path, "list").out == (
        "lcm-tui has made no change in this database, as far as its history goes back.\n"
    )
    assert history(path, "show", "op_x").code == 3
    assert history(path, "undo", "op_x").code == 3
    assert history(path, "undo", "last").code == 3
    assert history(path, "redo", "batch_x").code == 3
    assert history(path, "prune", "--keep-newest", 0, *DO).data == {"applied": False, "operations": 0}
    assert folder(path) == before


@pytest.mark.long
def test_the_list_says_what_was_done_and_what_undid_it(path: Path):
    dissolved = dissolvable(path)[0][0]
    first, second = dissolve(path), dissolve(path)
    undo = history(path, "undo", first, *DO).data["operationId"]
    assert listed(path) == [(undo, True), (second, True), (first, False)]
    redo = history(path, "redo", first, *DO).data["operationId"]
    assert listed(path) == [(redo, True), (undo, False), (second, True), (first, True)]
    newest, *others = history(path, "list", "--json").data["items"]
    assert [item["undoneBy"] for item in others] == [redo, None, None], "the first is in effect again"
    assert newest == {
        "operationId": redo,
        "kind": "redo",
        "title": newest["title"],
        "conversationId": dissolved,
        "createdAt": newest["createdAt"],
        "tokens": newest["tokens"],
        "rows": newest["rows"],
        "batch": None,
        "undoes": undo,
        "undoneBy": None,
        "exportPath": None,
        "toolVersion": newest["toolVersion"],
        "inEffect": True,
    }
    assert newest["title"].startswith("Redo: Dissolve summary sum_")
    assert newest["rows"]["summaries"] == {"insert": 0, "update": 0, "delete": 1}
    lines = history(path, "list").out.splitlines()
    assert [line.split()[0] for line in lines] == ["Operation", redo, undo, second, first]
    assert "undone" in lines[2]


@pytest.mark.long
def test_the_list_comes_in_pages_and_by_conversation(path: Path):
    made = [dissolve(path) for _ in range(4)]
    owners = dict(query(path, "SELECT id, conversation_id FROM lcm_tui_operations"))
    seen: list[str] = []
    cursor: list[object] = []
    while True:
        told = history(path, "list", "--limit", 3, "--json", *cursor).document
        seen += [item["operationId"] for item in told["data"]["items"]]
        if not told["pagination"]["hasMore"]:
            break
        cursor = ["--cursor", told["pagination"]["nextCursor"]]
    assert seen == made[::-1]
    some = owners[made[0]]
    mine = [one for one in reversed(made) if owners[one] == some]
    assert [one for one, _ in listed(path, some)] == mine
    key = value(path, "SELECT session_key FROM conversations WHERE conversation_id = ?", some)
    assert [one for one, _ in listed(path, key)] == mine
    assert listed(path, 99) == []  # a conversation that is gone has its history all the same
    assert history(path, "list", "--cursor", "x", "--json").error["code"] == "INVALID_CURSOR"


@pytest.mark.long
def test_one_operation_is_shown_whole(path: Path):
    conversation, summary = dissolvable(path)[0]
    operation = dissolve(path)
    data = history(path, "show", operation, "--json").data
    assert data["operation"]["operationId"] == operation
    assert len(decode_edits(data["edits"])) == len(data["edits"]) > 1
    assert (data["inEffect"], data["undoable"], data["redoable"], data["whyNot"]) == (True, True, False, None)
    people = history(path, "show", operation).out
    assert f"context of conversation {conversation}: ordinal 0 loses summary {summary}" in people
    assert "in effect, can be undone" in people
    history(path, "undo", operation, *DO)
    assert "undone, can be redone" in history(path, "show", operation).out


@pytest.mark.long
def test_what_takes_an_undo_back_is_a_redo(path: Path):
    first = dissolve(path)
    undone = history(path, "undo", first, "--apply", "--yes").out
    assert re.search(r"^To redo +lcm-tui history undo op_", undone, re.MULTILINE)
    assert "To undo" not in undone
    assert "To undo" in history(path, "redo", first, "--apply", "--yes").out


@pytest.mark.long
def test_what_undoes_an_operation_is_said_as_it_is_now(path: Path):
    first = dissolve(path)
    undo = history(path, "undo", first, *DO).data["operationId"]
    assert f"Undone by          {undo}" in history(path, "show", first).out
    history(path, "redo", first, *DO)
    assert undo not in history(path, "show", first).out
    again = history(path, "undo", first, *DO).data["operationId"]
    assert f"Undone by          {again}" in history(path, "show", first).out
    assert history(path, "show", first, "--json").data["operation"]["undoneBy"] == again
    assert history(path, "list", "--json").data["items"][-1]["undoneBy"] == again


@pytest.mark.long
def test_the_beginning_of_an_id_will_do_when_it_is_the_only_one(path: Path):
    first, second = dissolve(path), dissolve(path)
    change_behind(
        path,
        f"UPDATE lcm_tui_operations SET id = 'op_aa11' WHERE id = '{first}'",
        f"UPDATE lcm_tui_operations SET id = 'op_aa22' WHERE id = '{second}'",
    )
    assert history(path, "show", "op_aa1", "--json").data["operation"]["operationId"] == "op_aa11"
    for words in (("show", "op_aa"), ("undo", "op_aa"), ("redo", "op_aa", *DO)):
        error = history(path, *words, "--json")
        assert (error.code, error.error["code"]) == (2, "AMBIGUOUS_ID")
        assert error.error["details"] == {"operationId": "op_aa", "candidates": "op_aa22, op_aa11"}
    said = history(path, "undo", "op_aa").err
    assert "Several operations begin with op_aa: op_aa22, op_aa11. Give more of the id." in said
    assert history(path, "undo", "op_aa2", *DO).code == 0
    assert [undone for _, undone in listed(path)] == [True, False, True]
    assert history(path, "redo", "op_aa2", *DO).code == 0
    assert history(path, "show", "%").code == 3, "no pattern"
    assert history(path, "show", "").code == 2


def test_why_an_operation_cannot_be_undone_is_shown(path: Path):
    conversation, summary = dissolvable(path)[0]
    restored = column(path, "SELECT parent_summary_id FROM summary_parents WHERE summary_id = ?", summary)
    operation = dissolve(path)
    change_behind(
        path,
        f"DELETE FROM context_items WHERE conversation_id = {conversation} AND summary_id = '{restored[0]}'",
    )
    data = history(path, "show", operation, "--json").data
    assert (data["inEffect"], data["undoable"], data["redoable"]) == (True, False, False)
    assert "cannot be undone any more" in data["whyNot"]
    assert data["whyNot"].split("cannot")[1] in history(path, "show", operation).out
    for more in ((), DO):
        assert history(path, "undo", operation, *more).code == 9


def test_an_operation_whose_record_is_damaged_is_still_shown(path: Path):
    operation = dissolve(path)
    change_behind(path, "UPDATE lcm_tui_operations SET edits = x'00'")
    shown = history(path, "show", operation, "--json")
    assert shown.code == 5
    document = json.loads(shown.out)
    assert (document["ok"], document["error"]["details"]["operationId"]) == (False, operation)
    assert (document["data"]["edits"], document["data"]["undoable"]) == (None, False)
    assert "history of this database is damaged" in document["data"]["whyNot"]
    assert "damaged" in history(path, "show", operation).out
    assert history(path, "undo", operation, "--apply", "--yes").code == 5


# -- undo and redo -----------------------------------------------------------------------------------------


@pytest.mark.long
def test_any_operation_still_undoable_is_undone_not_only_the_last(path: Path):
    start = dump(path)
    first, second = dissolve(path), dissolve(path)
    files = folder(path)
    shown = history(path, "undo", first, "--json").data
    assert (shown["kind"], shown["applied"], shown["operationId"]) == ("undo", False, None)
    assert folder(path) == files
    assert history(path, "undo", first, *DO).code == 0
    assert history(path, "undo", second, *DO).code == 0
    assert dump(path) == start
    again = run("history", "undo", second, "--db", path, "--json")
    assert (again.code, again.error["code"]) == (9, "REFUSED")
    assert "was undone by" in again.error["message"]
    assert history(path, "redo", first, *DO).code == 0
    assert history(path, "redo", first).code == 9


@pytest.mark.long
def test_last_walks_back_and_forth(path: Path):
    states = [dump(path)]
    made = []
    for _ in range(2):
        made.append(dissolve(path))
        states.append(dump(path))
    for state in (states[1], states[0]):
        history(path, "undo", "last", *DO)
        assert dump(path) == state
    assert history(path, "undo", "last").code == 3
    for state in states[1:]:
        assert history(path, "redo", "last", *DO).code == 0
        assert dump(path) == state
    nothing = history(path, "redo", "last", "--json")
    assert (nothing.code, nothing.error["code"]) == (3, "OPERATION_NOT_FOUND")
    assert {one for one, effective in listed(path) if effective} > set(made)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["redo", "op_1", "last"], "history redo does not take last"),
        (["undo"], "history undo needs an argument: lcm-tui history undo OPERATION_ID"),
        (["prune"], "`history prune` needs --until TIME"),
        (["prune", "--until", "yesterday"], "--until must be a time"),
        (["prune", "--keep-newest", "some"], "--keep-newest must be"),
        (["list", "--limit", "0"], "--limit must be"),
    ],
)
def test_mistakes_are_usage_errors(arguments: list[str], words: str):
    result = run("history", *arguments)
    assert (result.code, result.out) == (2, "")
    assert words in result.err


# -- forgetting --------------------------------------------------------------------------------------------


@pytest.mark.long
def test_pruning_counts_first_and_then_forgets(path: Path):
    made = [dissolve(path) for _ in range(3)]
    rows, files = dump(path), folder(path)
    assert history(path, "prune", "--keep-newest", 1, "--json").data == {"applied": False, "operations": 2}
    assert "and then not undoable: 2 operations." in history(path, "prune", "--keep-newest", 1).out
    assert history(path, "prune", "--until", "2026-01-01", *DO).data["operations"] == 0
    assert folder(path) == files
    assert history(path, "prune", "--keep-newest", 1, "--apply").code == 9  # nobody can be asked
    assert history(path, "prune", "--keep-newest", 1, *DO).data == {"applied": True, "operations": 2}
    assert [one for one, _ in listed(path)] == made[2:]
    assert dump(path) == rows
    assert history(path, "undo", made[0]).code == 3
    conversation = value(path, "SELECT conversation_id FROM lcm_tui_operations")
    assert history(path, "prune", conversation + 1, "--json").data["operations"] == 0
    change_behind(path, "UPDATE lcm_tui_operations SET created_at = '2025-12-31T23:00:00.000Z'")
    assert history(path, "prune", conversation, "--until", "2026-01-01", *DO).data["operations"] == 1


def test_an_operation_whose_undo_was_forgotten_is_told(path: Path):
    first = dissolve(path)
    undo = history(path, "undo", first, *DO).data["operationId"]
    change_behind(path, f"DELETE FROM lcm_tui_operations WHERE id = '{undo}'")
    assert listed(path) == [(first, None)]
    assert "no longer in the history" in history(path, "show", first, "--json").data["whyNot"]
    assert history(path, "redo", "last").code == 3


# -- reindex -----------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("version", REAL)
def test_search_tables_are_listed_and_then_rebuilt(database_copy: DatabaseFactory, version: str):
    path = database_copy(version)
    change_behind(path, "UPDATE summaries_fts SET content = 'wrong'", "DELETE FROM messages_fts")
    rows, files = dump(path), folder(path)
    shown = run("reindex", "--db", path, "--json").data
    tables = [one["table"] for one in shown["tables"]]
    assert tables[:2] == ["messages_fts", "summaries_fts"]
    assert shown["applied"] is False
    assert {one["rebuilt"] for one in shown["tables"]} == {False}
    assert "--apply rebuilds them" in run("reindex", "--db", path).out
    assert folder(path) == files
    done = run("reindex", "--db", path, *DO).data
    assert done["applied"] is True
    assert done["tables"][1]["rows"] == value(path, "SELECT count(*) FROM summaries")
    assert search_faults(path) == []
    assert dump(path) == rows


def test_only_the_named_table_is_rebuilt(path: Path):
    data = run("reindex", "summaries_fts", "--db", path, *DO).data
    assert [(one["table"], one["source"]) for one in data["tables"]] == [("summaries_fts", "summaries")]
    refused = run("reindex", "messages", "--db", path, "--json")
    assert (refused.code, refused.error["details"]) == (2, {"option": "TABLE", "value": "messages"})
    assert "this database, which has messages_fts, " in refused.error["message"]
    assert run("reindex", "--apply", "--db", path).code == 9  # nobody can be asked


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    ("version", "module", "writer", "words"),
    [
        ("0.15.3", history_command, "prune_history", ("history", "prune", "--keep-newest", 0)),
        ("0.15.3", reindex_command, "rebuild", ("reindex",)),
        ("0.3.0", migrate_command, "upgrade", ("migrate",)),
        ("0.15.3", doctor_command, "resync", ("doctor", "--fix", "all")),
        ("0.15.3", commit_module, "commit", ("dissolve",)),
    ],
)
def test_who_waits_for_a_lock_is_stopped_by_ctrl_c(
    database_copy: DatabaseFactory,
    monkeypatch: pytest.MonkeyPatch,
    version: str,
    module: Any,
    writer: str,
    words: tuple[object, ...],
):
    path = database_copy(version)
    if words[0] == "history":
        dissolve(path)
    if words[0] == "doctor":
        change_behind(path, "DELETE FROM messages_fts WHERE rowid < 9")
    if words[0] == "dissolve":
        conversation, summary = dissolvable(path)[0]
        words = (*words, conversation, "--summary", summary)
    before, real = dump(path), getattr(module, writer)
    monkeypatch.setattr(answer, "BUSY_SECONDS", 60)

    def press(*args: Any, **kwargs: Any) -> Any:
        os.kill(os.getpid(), signal.SIGINT)
        return real(*args, **kwargs)

    monkeypatch.setattr(module, writer, press)
    with connect(path) as other:
        other.execute("BEGIN IMMEDIATE")
        stopped = run(*words, "--db", path, "--apply", "--yes", "--json")
        other.execute("ROLLBACK")
    assert (stopped.code, stopped.error["code"]) == (10, "CANCELLED")
    assert stopped.error["message"].startswith("Cancelled; ")
    assert dump(path) == before


def test_a_rebuild_waits_and_is_stopped_in_order(path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(answer, "BUSY_SECONDS", 0.05)
    with connect(path) as other:
        other.execute("BEGIN IMMEDIATE")
        assert run("reindex", "--db", path, *DO).code == 8
        other.execute("ROLLBACK")
    change_behind(path, "DELETE FROM messages_fts")
    real = reindex_command.rebuild

    def press(*args: Any, **kwargs: Any) -> Any:
        done = real(*args, **kwargs)
        os.kill(os.getpid(), signal.SIGINT)
        return done

    monkeypatch.setattr(reindex_command, "rebuild", press)
    stopped = run("reindex", "--db", path, "--apply", "--yes")
    assert stopped.code == 10
    assert "messages_fts" in stopped.out
    assert "Cancelled" in stopped.out
    assert search_faults(path) == []


# -- what stands on an operation -----------------------------------------------------------------------------


def recounted(path: Path, *numbers: int) -> list[str]:
    """One row changed again and again; the operations."""
    summary = value(path, "SELECT summary_id FROM summaries WHERE kind = 'condensed'")
    made = []
    for number in numbers:
        edit = update(path, "summaries", "summary_id", summary, descendant_token_count=number)
        made.append(commit(path, Plan("test", f"Count {number}", 1, (edit,))).id)
    return made


@pytest.mark.long
def test_what_stands_on_an_operation_is_named_and_undone_with_it(path: Path) -> None:
    before = dump(path)
    first, second = recounted(path, 5620, 6018)
    refused = history(path, "undo", first, "--json")
    assert refused.code == 9
    assert refused.error["details"]["standing"] == second
    assert f"({second}: Count 6018)" in refused.error["message"]
    assert "--with-later" in refused.error["message"]
    shown = history(path, "undo", first, "--with-later", "--json").data
    assert [part["title"] for part in shown["plans"]] == ["Undo: Count 6018", "Undo: Count 5620"]
    done = history(path, "undo", first, "--with-later", *DO).data
    assert (done["applied"], done["newestInEffect"]) == (True, None)
    assert dump(path) == before
    listed = history(path, "list").out
    assert listed.count("Undo: 2 changes") == 1
    assert done["batch"] in listed
    unfolded = run("show", done["batch"], "--db", path).out
    assert "2 changes" not in unfolded
    assert unfolded.count("Undo: ") == 2
    undone = history(path, "undo", done["batch"], *DO).data["batch"]
    assert dump(path) != before
    [line] = [one for one in history(path, "list").out.splitlines() if one.startswith(done["batch"])]
    assert undone in line, "what undid the batch"


@pytest.mark.long
def test_after_an_undo_it_says_what_is_left(path: Path) -> None:
    first, second, third = recounted(path, 1, 2, 3)
    done = history(path, "undo", "last", *DO).data
    assert done["newestInEffect"] == {"operationId": second, "title": "Count 2", "batch": None}
    assert f"Still in effect, newest: {first}: Count 1." in history(path, "undo", "last", *DO[:2]).out
    assert "Nothing else is in effect." in history(path, "undo", "last", *DO[:2]).out
    assert history(path, "undo", "last").code == 3
    assert third != second


@pytest.mark.long
def test_a_batch_is_undone_with_what_depends_on_it(path: Path) -> None:
    before, done = dump(path), []
    for tokens, batch in ((5620, "batch_x"), (5621, "batch_x"), (6018, None)):
        edit = update(path, "summaries", "summary_id", NODE, descendant_token_count=tokens)
        done.append(commit(path, replace(plan_of(edit), title=f"Count {tokens}", batch=batch)).id)
    assert done[2] in history(path, "undo", "batch_x", "--json").error["message"]
    undone = history(path, "undo", "batch_x", "--with-later", *DO).data
    assert undone["applied"]
    assert dump(path) == before
