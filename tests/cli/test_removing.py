"""``conversations archive``, ``delete``, ``forget`` and ``import``: what is done, taken back, and refused."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from lcm_core.base.errors import CancelledError
from lcm_core.base.files import drafts_folder
from lcm_core.change import commit as committing
from lcm_core.operations import export as importing
from lcm_core.operations import prune as pruning
from lcm_core.operations.export import default_folder, read_conversation_file

from lcm_tui.cli import answer
from lcm_tui.cli.kinds import Size
from lcm_tui.tables.blocks import bytes_text
from tests.change.support import REAL, changed, dump, search_faults
from tests.cli.support import run
from tests.cli.test_backup import at_a_terminal
from tests.conftest import DatabaseFactory
from tests.databases import column, connect, folder, value
from tests.databases import run as change_behind
from tests.support import sampled

IDS = "SELECT conversation_id FROM conversations ORDER BY 1"


@pytest.fixture
def path(database_copy: DatabaseFactory) -> Path:
    """A database of its own."""
    return database_copy("0.15.3")


def conversations(path: Path, *arguments: object) -> Any:
    return run("conversations", *arguments, "--db", path)


def which(done: Any) -> list[str]:
    """What to undo: one operation, or the batch."""
    return [done["batch"]] if "batch" in done else [done["operationId"]]


def host_appends(path: Path, conversation_id: int) -> None:
    change_behind(
        path,
        f"""INSERT INTO messages (conversation_id, seq, role, content, token_count)
        SELECT {conversation_id}, max(seq) + 1, 'user', 'still here', 3 FROM messages
        WHERE conversation_id = {conversation_id}""",
    )


# -- listing -----------------------------------------------------------------------------------------------


@pytest.mark.cases(1)
@pytest.mark.parametrize("version", REAL)
def test_disk_says_which_conversations_take_the_space(database_copy: DatabaseFactory, version: str):
    path = database_copy(version)
    before = folder(path)
    data = run("disk", "--db", path, "--json").data
    assert data["conversations"][0]["conversationId"] == 1
    sizes = [one["textBytes"] for one in data["conversations"]]
    assert sizes == sorted(sizes, reverse=True)
    assert sum(band["conversations"] for band in data["ages"]) == len(column(path, IDS))
    out = run("disk", "--db", path).out
    assert "message_parts" in out
    assert "messages_fts_data" not in out
    assert folder(path) == before


@pytest.mark.long
def test_conditions_select_conversations(path: Path):
    data = conversations(path, "delete", "--max-messages", "50", "--json").data
    assert {one["conversationId"] for one in data["items"]} == {6, 7, 8}
    assert (
        conversations(path, "delete", "--larger-than", "400KB", "--json").data["items"][0]["conversationId"]
        == 1
    )
    assert "No conversation matches." in conversations(path, "delete", "--only", "empty").out
    for age in ("1d", "1MO", "3m"):  # minutes, as everywhere
        assert len(conversations(path, "delete", "--until", age, "--json").data["items"]) == 8


@pytest.mark.long
def test_the_cleaners_of_the_engine_are_conditions(path: Path, tmp_path: Path):
    [one] = conversations(path, "delete", "--cleaner", "all", "--json").data["items"]
    assert (one["conversationId"], one["cleaners"]) == (6, ["cron_sessions"])
    told = conversations(
        path, "delete", "--cleaner", "cron_sessions", "--cleaner", "archived_subagents", "--json"
    ).data
    assert [(by["name"], by["conversationCount"], by["messageCount"]) for by in told["cleaners"]] == [
        ("archived_subagents", 0, 0),
        ("cron_sessions", 1, 49),
    ]
    listed = tmp_path / "openclaw.json"
    listed.write_text('{agents: {list: [{id: "ops"}, {name: "nobody"}, 7, {id: ["x"]}]}}')
    other = conversations(path, "delete", "--cleaner", "all", "--config", listed, "--json").data
    assert (other["items"], other["agents"], other["otherAgents"]) == ([], ["ops"], {"main": 1})
    out = conversations(path, "delete", "--cleaner", "all", "--config", listed).out
    assert "Agents: ops (agents.list)." in out
    assert "main (1)" in out
    named = conversations(
        path, "delete", "--cleaner", "all", "--config", listed, "--agent", "main", "--json"
    ).data
    assert [one["conversationId"] for one in named["items"]] == [6]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--agent", "main"), "--agent requires --cleaner"),
        (("--cleaner", "all", "--agent", " "), "--agent is empty"),
        (("--cleaner", "cron"), "--cleaner must be one of archived_subagents, "),
    ],
)
def test_a_cleaner_is_named_whole(path: Path, arguments: tuple[str, ...], said: str):
    refused = conversations(path, "delete", *arguments)
    assert refused.code == 2
    assert said in refused.err


# -- deleting ----------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("version", sampled(REAL, ("0.15.3",)))
def test_shown_then_done_then_taken_back(database_copy: DatabaseFactory, version: str, tmp_path: Path):
    path = database_copy(version)
    rows, files = dump(path), folder(path)
    exports = tmp_path / "exports"
    arguments = ("--session-key" if version > "0.3.0" else "--max-messages",)
    arguments += ("agent:research:*" if version > "0.3.0" else "152", "--to", exports)
    shown = conversations(path, "delete", *arguments, "--json").data
    assert folder(path) == files
    assert not exports.exists()
    ids = {one["conversationId"] for one in shown["items"]}
    assert 3 in ids
    assert not shown["applied"]
    done = conversations(path, "delete", *arguments, "--apply", "--yes", "--json").data
    assert done["applied"]
    assert done["rows"] == shown["rows"]
    assert not ids & set(column(path, IDS))
    assert {read_conversation_file(Path(one["path"])).conversation_id for one in done["exports"]} == ids
    assert {Path(one["path"]).parent for one in done["exports"]} == {exports}
    assert search_faults(path) == []
    taken_back = run("history", "undo", *which(done), "--db", path, "--apply", "--yes")
    assert taken_back.code == 0
    assert changed(rows, dump(path)) == set()


@pytest.mark.long
def test_a_deletion_says_what_it_frees_and_what_it_writes(path: Path, monkeypatch: pytest.MonkeyPatch):
    shown = conversations(path, "delete", 1)
    freed = conversations(path, "delete", 1, "--json").data["freed"]
    said = " ".join(shown.out.split())
    assert "File 3.7 MB, about 1.0 MB less after a VACUUM; 3 large files, 147 bytes." in said
    assert f"undo {bytes_text(freed['undoBytes'])}: both take disk space until you remove them." in said
    wave = pruning.plan_delete.__kwdefaults__ or {}
    with monkeypatch.context() as first:
        first.setitem(wave, "rows", 500)
        part = conversations(path, "delete", 1, "--json").data
    assert not part["complete"], "the rest is measured by the first of its rows"
    assert 0.5 < part["freed"]["exportBytes"] / freed["exportBytes"] < 2
    done = conversations(path, "delete", 1, "--apply", "--yes", "--json").data
    assert abs(sum(one["bytes"] for one in done["exports"]) - freed["exportBytes"]) < 1_000
    assert run("disk", "--free", "pages", "--db", path, "--apply", "--yes").code == 0
    assert path.stat().st_size == pytest.approx(freed["fileBytesAfter"], rel=0.1)


@pytest.mark.long
def test_a_deletion_says_how_much_of_what_is_given_back_was_free_already(path: Path):
    assert conversations(path, "delete", 1, "--apply", "--yes").code == 0
    freed = conversations(path, "delete", 4, "--json").data["freed"]
    assert freed["fileBytesFree"] == value(path, "PRAGMA freelist_count") * value(path, "PRAGMA page_size")
    less = freed["fileBytes"] - freed["fileBytesAfter"]
    own = less - freed["fileBytesFree"]
    said = " ".join(conversations(path, "delete", 4).out.split())
    assert f"about {bytes_text(less)} less after a VACUUM, {bytes_text(own)} of it by this" in said


@pytest.mark.long
def test_what_a_small_deletion_frees_is_not_said_too_high(path: Path):
    freed = conversations(path, "delete", 8, "--json").data["freed"]
    assert conversations(path, "delete", 8, "--apply", "--yes").code == 0
    assert run("disk", "--free", "pages", "--db", path, "--apply", "--yes").code == 0
    less = freed["fileBytes"] - freed["fileBytesAfter"]
    assert less == pytest.approx(freed["fileBytes"] - path.stat().st_size, rel=0.2)


@pytest.mark.long
def test_in_waves_everything_goes_and_comes_back(path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(pruning, "PIECE_ROWS", 200)
    wave = pruning.plan_delete.__kwdefaults__ or {}
    monkeypatch.setitem(wave, "rows", 500)
    rows = dump(path)
    shown = conversations(path, "delete", "--max-messages", "999", "--json").data
    assert shown["complete"] is False
    done = conversations(path, "delete", "--max-messages", "999", "--apply", "--yes", "--json").data
    assert column(path, IDS) == []
    assert done["applied"]
    assert done["rows"]["messages"]["delete"] == len(rows["messages"])
    assert len(done["exports"]) == len(rows["conversations"])
    assert len(done["plans"]) > 10
    assert "edits" not in done
    back = run("history", "undo", done["batch"], "--db", path, "--apply", "--yes")
    assert back.code == 0, back.err
    assert changed(rows, dump(path)) == set()


@pytest.mark.long
def test_exports_go_to_our_own_folder_by_default(path: Path):
    done = conversations(path, "delete", 7, "--apply", "--yes")
    assert done.code == 0
    [file] = default_folder().iterdir()
    assert str(file) in done.out
    assert f"lcm-tui disk --free pages --apply --db {path}" in done.out
    assert "--free strays" not in done.out
    done = conversations(path, "delete", 3, "--apply", "--yes")
    assert f"lcm-tui disk --free strays --apply --db {path}" in done.out


@pytest.mark.long
def test_a_host_that_appends_meanwhile_is_not_lost(path: Path, monkeypatch: pytest.MonkeyPatch):
    real, calls = committing.commit, []

    def commit(*args: Any, **kwargs: Any) -> Any:
        calls.append(1)
        if len(calls) == 1:
            host_appends(path, 7)
        return real(*args, **kwargs)

    monkeypatch.setattr(committing, "commit", commit)
    done = conversations(path, "delete", 7, "--apply", "--yes", "--json").data
    assert "it has grown" in " ".join(done["plannedAgainFor"])
    texts = [
        row["content"]
        for one in done["exports"]
        for row in read_conversation_file(Path(one["path"])).rows["messages"]
    ]
    assert "still here" in texts


@pytest.mark.long
def test_a_host_that_never_stops_exits_with_7(path: Path, monkeypatch: pytest.MonkeyPatch):
    real = committing.commit

    def commit(*args: Any, **kwargs: Any) -> Any:
        host_appends(path, 7)
        return real(*args, **kwargs)

    monkeypatch.setattr(committing, "commit", commit)
    result = conversations(path, "delete", 7, "--apply", "--yes", "--json")
    assert (result.code, result.error["code"]) == (7, "STALE_PLAN")
    assert 7 in column(path, IDS)


def test_what_is_no_longer_meant_is_left_alone(path: Path, monkeypatch: pytest.MonkeyPatch):
    change_behind(path, "INSERT INTO conversations (session_id, session_key) VALUES ('a', 'x'), ('b', 'y')")
    first, second = column(path, IDS)[-2:]
    real, calls = committing.commit, []

    def commit(*args: Any, **kwargs: Any) -> Any:
        calls.append(1)
        if len(calls) == 1:
            change_behind(
                path,
                f"""INSERT INTO messages (conversation_id, seq, role, content, token_count)
                VALUES ({first}, 1, 'user', 'hello', 2)""",
            )
        return real(*args, **kwargs)

    monkeypatch.setattr(committing, "commit", commit)
    assert conversations(path, "delete", "--only", "empty", "--apply", "--yes").code == 0
    assert first in column(path, IDS)
    assert second not in column(path, IDS)


def test_without_an_export_nothing_is_deleted(path: Path, tmp_path: Path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    rows = dump(path)
    result = conversations(path, "delete", 7, "--to", blocked / "x", "--apply", "--yes", "--json")
    assert (result.code, result.error["code"]) == (5, "EXPORT_FAILED")
    assert changed(rows, dump(path)) == set()


# -- archiving ---------------------------------------------------------------------------------------------


@pytest.mark.long
def test_archive_and_back(path: Path):
    rows = dump(path)
    done = conversations(path, "archive", 7, 5, "--apply", "--yes", "--json").data
    assert done["rows"] == {"conversations": {"insert": 0, "update": 1, "delete": 0}}
    assert value(path, "SELECT active FROM conversations WHERE conversation_id = 7") == 0
    assert "already archived" in conversations(path, "archive", 7).out
    assert run("history", "undo", done["operationId"], "--db", path, "--apply", "--yes").code == 0
    assert changed(rows, dump(path)) == set()


# -- forgetting --------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("version", REAL)
def test_what_is_forgotten_is_in_no_file(database_copy: DatabaseFactory, version: str):
    path = database_copy(version)
    with connect(path) as host:
        host.execute("PRAGMA secure_delete = OFF")
        host.execute("UPDATE messages SET content = content || ' quagmirezwieback' WHERE conversation_id = 7")
        host.execute("UPDATE conversations SET title = 'quagmirezwieback' WHERE conversation_id = 7")
        if version >= "0.8":
            host.execute("PRAGMA journal_mode = WAL")
    assert run("reindex", "--db", path, "--apply", "--yes").code == 0
    assert conversations(path, "delete", 7, "--to", path.parent / "x", "--apply", "--yes").code == 0
    batch = value(path, "SELECT batch FROM lcm_tui_operations")
    operation = value(path, "SELECT id FROM lcm_tui_operations")
    undo = [batch] if batch else [operation]
    assert run("history", "undo", *undo, "--db", path, "--apply", "--yes").code == 0
    for one in (path.parent / "x").iterdir():
        one.unlink()
    shown = conversations(path, "delete", "--forever", 7)
    assert "This cannot be undone" in shown.out
    done = conversations(path, "delete", "--forever", 7, "--apply", "--yes", "--json").data
    assert (done["rewritten"], done["walEmptied"], done["problems"]) == (True, True, [])
    assert done["historyForgotten"] >= 2
    assert done["undo"] is None
    assert value(path, "SELECT count(*) FROM lcm_tui_operations") == 0
    home = Path.home()
    files = [*path.parent.rglob("*"), *home.rglob("*")]
    assert not [one for one in files if one.is_file() and b"quagmirezwieback" in one.read_bytes()]
    assert not [one for one in files if one.suffix == ".jsonl"]


@pytest.mark.long
def test_what_is_gone_of_the_history_is_said_also_when_nothing_else_is(
    path: Path, monkeypatch: pytest.MonkeyPatch
):
    assert conversations(path, "archive", 7, "--apply", "--yes").code == 0
    rows = dump(path)

    def given_up(*_: object, **__: object) -> None:
        raise CancelledError("Cancelled; nothing was changed.")

    monkeypatch.setattr(committing, "commit", given_up)
    told = conversations(path, "delete", "--forever", 7, "--apply", "--yes", "--json")
    assert told.code == 10
    assert told.error["message"] == (
        "Cancelled; nothing was changed. Only the history lost 1 operation that touched it."
    )
    assert dump(path) == rows
    assert value(path, "SELECT count(*) FROM lcm_tui_operations") == 0


@pytest.mark.long
def test_drafts_of_what_is_forgotten_go_too(path: Path):
    declined = ["--apply", "--yes", "--accept", "nothing invented, retention 100"]
    assert run("repair", 2, "--db", path, *declined).code == 10
    [kept] = drafts_folder().glob("*")
    assert kept.stat().st_size
    done = conversations(path, "delete", "--forever", 2, "--apply", "--yes", "--json").data
    assert done["draftsForgotten"] == [str(kept)]
    assert not list(drafts_folder().glob("*"))


@pytest.mark.long
def test_what_may_be_left_elsewhere_is_said(path: Path):
    assert conversations(path, "delete", 7, "--apply", "--yes").code == 0
    [file] = default_folder().iterdir()
    assert run("import", file, "--db", path, "--apply", "--yes").code == 0
    assert run("backup", "--db", path).code == 0
    out = conversations(path, "delete", "--forever", 7).out
    assert f"An export is at {file}" in out
    assert "A backup is at" in out


@pytest.mark.long
def test_the_number_has_to_be_typed(path: Path):
    rows = dump(path)
    for typed in ("8\n", "\x04"):
        code, shown = at_a_terminal(typed, "conversations", "delete", "--forever", 7, "--apply", "--db", path)
        assert code == 10
        assert "erase it permanently (7):" in shown
        assert "Cancelled; nothing was changed." in shown
    assert changed(rows, dump(path)) == set()
    code, _ = at_a_terminal("7\n", "conversations", "delete", "--forever", 7, "--apply", "--db", path)
    assert code == 0
    assert 7 not in column(path, IDS)
    nobody = conversations(path, "delete", "--forever", 6, "--apply", "--json")
    assert (nobody.code, "with --yes" in nobody.error["message"]) == (9, True)


# -- importing ---------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("version", sampled(REAL, ("0.1.2", "0.15.3")))
def test_an_export_comes_back(database_copy: DatabaseFactory, version: str):
    path = database_copy(version)
    rows = dump(path)
    done = conversations(path, "delete", 2, "--apply", "--yes", "--json").data
    file = done["exports"][0]["path"]
    shown = run("import", file, "--db", path, "--json").data
    assert (shown["kind"], shown["conversationId"], shown["applied"]) == ("import", 2, False)
    again = run("import", file, "--db", path, "--apply", "--yes", "--json").data
    assert changed(rows, dump(path)) == set()
    assert search_faults(path) == []
    which = [again["operationId"]] if again["operationId"] else [again["batch"]]
    assert run("history", "undo", *which, "--db", path, "--apply", "--yes").code == 0
    assert 2 not in column(path, IDS)


@pytest.mark.long
def test_an_import_in_pieces_is_one_batch(path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(importing, "PIECE_SECONDS", 0.0005)
    rows = dump(path)
    file = conversations(path, "delete", 2, "--apply", "--yes", "--json").data["exports"][0]["path"]
    gone = dump(path)
    done = run("import", file, "--db", path, "--apply", "--yes", "--json").data
    assert done["applied"]
    assert {plan["conversationId"] for plan in done["plans"]} == {2}
    assert changed(rows, dump(path)) == set()
    again = run("history", "undo", done["batch"], "--db", path, "--apply", "--yes")
    assert again.code == 0, again.err
    assert changed(gone, dump(path)) == set()


@pytest.mark.long
def test_an_import_that_is_stopped_says_how_to_take_it_back(path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(importing, "PIECE_SECONDS", 0.0005)
    file = conversations(path, "delete", 2, "--apply", "--yes", "--json").data["exports"][0]["path"]
    gone, commit = dump(path), committing.commit
    made: list[str] = []

    def three(*given: Any, **named: Any) -> Any:
        if len(made) == 3:
            raise CancelledError("given up")
        done = commit(*given, **named)
        made.append(done.id)
        return done

    monkeypatch.setattr(committing, "commit", three)
    stopped = run("import", file, "--db", path, "--apply", "--yes")
    assert stopped.code == 10
    assert "To undo all of it" in stopped.out
    monkeypatch.setattr(committing, "commit", commit)
    second = run("import", file, "--db", path, "--apply", "--yes", "--json")
    assert (second.code, second.error["code"]) == (9, "IMPORT_BEGUN")
    found = re.search(r"(batch_\w+)", second.error["message"])
    assert found
    assert run("history", "undo", found[1], "--db", path, "--apply", "--yes").code == 0
    assert changed(gone, dump(path)) == set()
    assert run("import", file, "--db", path, "--apply", "--yes").code == 0


@pytest.mark.long
def test_into_a_new_place(path: Path, database_copy: DatabaseFactory):
    other = database_copy("0.8.2")
    file = conversations(path, "delete", 3, "--apply", "--yes", "--json").data["exports"][0]["path"]
    before = len(column(other, IDS))
    done = run("import", file, "--db", other, "--apply", "--yes")
    assert done.code == 0, done.err
    assert "gets a new number" in run("import", file, "--db", other).out
    assert len(column(other, IDS)) == before + 1
    assert search_faults(other) == []


def test_a_file_that_is_none_is_refused(path: Path, tmp_path: Path):
    file = tmp_path / "x.jsonl"
    missing = run("import", file, "--db", path, "--json")
    assert (missing.code, missing.error["code"]) == (3, "FILE_NOT_FOUND")
    file.write_text(json.dumps({"format": "something"}) + "\n")
    wrong = run("import", file, "--db", path, "--json")
    assert (wrong.code, wrong.error["code"]) == (9, "FILE_INVALID")


# -- mistakes ----------------------------------------------------------------------------------------------


@pytest.mark.cases(9)
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["delete"], "needs conversations, or a condition"),
        (["delete", "--forever", "--apply", "--yes"], "needs conversations, or a condition"),
        (["delete", "0"], "CONVERSATION must be a whole number"),
        (["delete", "--until", "soon"], "--until must be"),
        (["delete", "--until", "0d"], "--until must be"),
        (["delete", "--until", "999999999y"], "--until must be"),
        (["delete", "--until", "999999999w"], "--until must be"),
        (["delete", "--larger-than", "much"], "--larger-than must be"),
        (["delete", "--max-messages", "-1"], "--max-messages"),
        (["delete", "--only", "old"], "--only must be one of"),
    ],
)
def test_mistakes_exit_with_2(path: Path, arguments: list[str], words: str):
    result = conversations(path, *arguments)
    assert (result.code, result.out) == (2, "")
    assert words in result.err


@pytest.mark.long
def test_other_exits(path: Path, database_copy: DatabaseFactory, monkeypatch: pytest.MonkeyPatch):
    assert conversations(path, "delete", 99).code == 3
    assert conversations(path.with_name("no.db"), "delete", "7").code == 3
    early = conversations(database_copy("0.3.0"), "archive", 3, "--json")
    assert (early.code, "before 0.6" in early.error["message"]) == (9, True)
    change_behind(
        path,
        """INSERT INTO context_items SELECT 2, 9999, 'message', message_id, NULL, created_at
        FROM messages WHERE conversation_id = 7 LIMIT 1""",
    )
    used = conversations(path, "delete", 7, "--apply", "--yes", "--json")
    assert (used.code, "the context of conversation 2 needs message" in used.error["message"]) == (9, True)
    monkeypatch.setattr(answer, "BUSY_SECONDS", 0.05)
    with connect(path) as other:
        other.execute("BEGIN IMMEDIATE")
        for action in (["delete"], ["delete", "--forever"], ["archive"]):
            assert conversations(path, *action, 8).code == 0
            assert conversations(path, *action, 8, "--apply", "--yes").code == 8
        other.execute("ROLLBACK")


def test_amounts_are_read_as_people_write_them():
    assert [Size().read("x", text) for text in ("50MB", "1.5gb", "800 KB", "12", "7k")] == [
        50_000_000,
        1_500_000_000,
        800_000,
        12,
        7_000,
    ]


@pytest.mark.parametrize("command", [("import",), ("repair", "--from-draft")])
def test_what_never_ends_or_never_begins_is_not_read(path: Path, tmp_path: Path, command: tuple[str, ...]):
    """`/dev/zero` was read until the memory was full, a pipe was waited for."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for file in (Path("/dev/zero"), pipe):
        shown = run(*command, file, "--db", path)
        assert (shown.code, shown.err.count("\n"), "Not a regular file" in shown.err) == (3, 1, True)
