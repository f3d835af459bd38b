"""``--sql``: nothing but SQL on standard output, and SQLite running it leaves what ``--apply`` leaves.

Names of new rows are random, so a script and a commit are compared where they come from one plan: each commit
of a command is first run as a script on a copy of the file (docs/spec/changes.md, "As SQL").
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from lcm_core.change import commit as committing
from lcm_core.change.preview import preview_plan

from lcm_tui.cli import tree
from lcm_tui.cli.options import SqlFlags
from tests.change.support import dissolvable, dump, planned, search_faults
from tests.cli.support import run
from tests.conftest import DatabaseFactory
from tests.databases import connect, value
from tests.databases import run as change_behind
from tests.operations.compacting import start_database
from tests.support import sampled

DO = ("--apply", "--yes")
ROLLED = "UPDATE conversations SET archive_cause = 'rollover-fallback' WHERE conversation_id = 5"
#: Something for the fixes: gaps in a context, parts of no message, wrong numbers, a text that is no UTF-8.
DAMAGE = (
    "UPDATE context_items SET ordinal = ordinal + 100 WHERE conversation_id = 2 AND ordinal > 9",
    "UPDATE summaries SET descendant_token_count = 7, depth = depth + 4 WHERE kind = 'condensed'",
    "UPDATE messages SET content = CAST(x'ff41' AS TEXT) || char(27, 10) || '''; DROP TABLE x; --' "
    "WHERE message_id = 1",
    "INSERT INTO message_parts (part_id, message_id, session_id, part_type, ordinal) "
    "VALUES ('lost', 999999, 's', 'text', 0)",
)


def executed(path: Path, script: str) -> None:
    """Have SQLite run a script: whatever is no SQL in it is an error."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.executescript(script)
        assert not connection.in_transaction


def copy_of(path: Path, name: str) -> Path:
    with connect(path) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    return Path(shutil.copyfile(path, path.with_name(name)))


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The kinds of the plans that were committed; each was run as a script beside it, and left the same."""
    kinds: list[str] = []
    commit = committing._commit

    def beside(path: Path, plan, *rest: Any) -> Any:
        other = copy_of(path, "beside.db")
        seen = asyncio.run(planned(other, preview_plan, plan))
        script = "\n".join(seen.sql())
        done = commit(path, plan, *rest)
        executed(other, script)
        assert dump(other) == dump(path)
        assert search_faults(other) == search_faults(path)
        kinds.append(plan.kind)
        return done

    def elsewhere(path: Path, plan, *rest: Any) -> Any:
        """Where a loop of events runs already."""
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(1) as pool:
            return pool.submit(beside, path, plan, *rest).result()

    monkeypatch.setattr(committing, "_commit", elsewhere)
    yield kinds
    assert kinds


@pytest.fixture
def path(database_copy: DatabaseFactory) -> Path:
    return database_copy("0.15.3")


def ok(*arguments: object) -> Any:
    done = run(*arguments)
    assert done.code == 0, done.err + done.out
    return done


def dissolve(path: Path) -> tuple[object, ...]:
    conversation, summary = dissolvable(path)[0]
    return ("dissolve", conversation, "--summary", summary, "--levels", 2)


#: Commands that show SQL; what each is to do is made on the file first.
COMMANDS: dict[str, Callable[[Path], tuple[object, ...]]] = {
    "dissolve": dissolve,
    "transplant": lambda path: ("transplant", 1, 7, "--skip-duplicates"),
    "archive": lambda path: ("conversations", "archive", 1, 2),
    "delete": lambda path: ("conversations", "delete", 1, 2),
    "forget": lambda path: ("conversations", "delete", "--forever", 3),
    "undo": lambda path: _undoing(path, dissolve(path)),
    "redo": lambda path: _redoing(path),
    "undo of a batch": lambda path: _undoing(path, ("conversations", "delete", 1, 2, 3)),
    "merge": lambda path: (change_behind(path, ROLLED), ("merge", 5))[1],
    "fixes": lambda path: (change_behind(path, *DAMAGE), ("doctor", "--fix", "all"))[1],
    "import": lambda path: _importing(path),
}


def _undoing(path: Path, first: tuple[object, ...]) -> tuple[object, ...]:
    done = ok(*first, *DO, "--json", "--db", path).data
    return ("history", "undo", *([done["batch"]] if "batch" in done else [done["operationId"]]))


def _redoing(path: Path) -> tuple[object, ...]:
    undo = _undoing(path, ("transplant", 1, 7, "--skip-duplicates"))
    ok(*undo, *DO, "--db", path)
    return ("history", "redo", undo[2])


def _importing(path: Path) -> tuple[object, ...]:
    file = ok("conversations", "delete", 2, *DO, "--json", "--db", path).data["exports"][0]["path"]
    return ("import", file)


@pytest.mark.long
@pytest.mark.parametrize("name", sampled(COMMANDS, ("dissolve", "undo of a batch", "fixes", "import")))
def test_standard_output_is_nothing_but_sql_that_does_it(name: str, path: Path) -> None:
    arguments = (*COMMANDS[name](path), "--db", path)
    seen = ok(*arguments, "--json", "--sql").data
    other, before = copy_of(path, "other.db"), dump(path)
    shown = ok(*arguments, "--sql")
    assert shown.err  # the preview
    assert not any(ord(one) < 32 and one not in "\n\t" for one in shown.out)
    executed(other, shown.out)
    rows = dump(other)
    assert dump(path) == before
    assert rows != before
    for table, count in seen["rows"].items():
        there = len(before[table]) + count["insert"] - count["delete"]
        assert len(rows[table]) == there, table
    assert search_faults(other) == ([] if name == "fixes" else search_faults(path))
    assert value(other, "PRAGMA foreign_key_check") is None or name == "fixes"


@pytest.mark.long
@pytest.mark.parametrize("name", sampled(COMMANDS, ("transplant", "redo")))
def test_a_script_leaves_what_a_commit_leaves(name: str, path: Path, compared: list[str]) -> None:
    ok(*COMMANDS[name](path), *DO, "--db", path)


@pytest.mark.long
def test_so_it_is_with_new_summaries(tmp_path: Path, compared: list[str]) -> None:
    path = start_database("0.15.3", tmp_path / "lcm.db")
    small = ("--set", "freshTailCount=10", "--set", "leafChunkTokens=1400", "--budget", 2000)
    ok("compact", 1, *small, "--provider", "extractive", *DO, "--db", path)
    assert "compact" in " ".join(compared)


@pytest.mark.long
@pytest.mark.parametrize("command", ["repair", "rewrite"])
def test_so_it_is_with_accepted_drafts(command: str, path: Path, compared: list[str]) -> None:
    which: tuple[object, ...] = (1,)
    if command == "rewrite":
        sql = "SELECT summary_id FROM summaries WHERE kind = 'leaf' AND conversation_id = 1"
        which = (1, "--summary", value(path, sql))
    accept = ("--provider", "extractive", "--accept", "every")
    run(command, *which, *accept, *DO, "--db", path)


def drafted(path: Path, summary: str, file: Path) -> Path:
    """A file with the offline writer's draft for a summary, to be taken."""
    ok("rewrite", 1, "--summary", summary, "--provider", "extractive", "--draft", file, "--yes", "--db", path)
    file.write_text(file.read_text().replace('"take": false', '"take": true'))
    return file


@pytest.mark.long
def test_reviewed_drafts_are_shown_as_sql(path: Path, tmp_path: Path) -> None:
    leaf = value(path, "SELECT summary_id FROM summaries WHERE kind = 'leaf' AND conversation_id = 1")
    take = ("rewrite", "--from-draft", drafted(path, leaf, tmp_path / "drafts"), "--db", path)
    other, before = copy_of(path, "other.db"), dump(path)
    shown = ok(*take, "--sql")
    assert "sqlite3 -bail" in shown.err
    assert dump(path) == before
    executed(other, shown.out)
    assert "".join(f"{one}\n" for one in ok(*take, "--json", "--sql").data["sql"]) == shown.out
    ok(*take, *DO)
    assert dump(other) == dump(path) != before
    assert search_faults(other) == []


@pytest.mark.long
@pytest.mark.parametrize("which", sampled([("--all",), ("--depth", 0)], [("--depth", 0)]))
def test_drafts_that_rest_on_each_other_have_one_script(
    path: Path, tmp_path: Path, which: tuple[object, ...]
) -> None:
    """The second is planned on what the first leaves: its text, or the numbers above both."""
    file = tmp_path / "drafts"
    ok("rewrite", 2, *which, "--provider", "extractive", "--draft", file, "--yes", "--db", path)
    file.write_text(file.read_text().replace('"take": false', '"take": true'))
    take = ("rewrite", "--from-draft", file, "--db", path)
    other, before = copy_of(path, "other.db"), dump(path)
    shown = ok(*take, "--sql")
    assert dump(path) == before
    executed(other, shown.out)
    ok(*take, *DO)
    assert dump(other) == dump(path) != before
    assert search_faults(other) == []


@pytest.mark.long
def test_a_text_that_comes_back_is_shown_as_sql(path: Path, tmp_path: Path) -> None:
    leaf = value(path, "SELECT summary_id FROM summaries WHERE kind = 'leaf' AND conversation_id = 1")
    done = ok(
        "rewrite", "--from-draft", drafted(path, leaf, tmp_path / "drafts"), *DO, "--json", "--db", path
    )
    operation = done.data["items"][0]["operationId"]
    other, before = copy_of(path, "other.db"), dump(path)
    executed(other, ok("rewrite", "--restore", operation, "--sql", "--db", path).out)
    assert dump(path) == before
    ok("rewrite", "--restore", operation, *DO, "--db", path)
    assert dump(other) == dump(path) != before


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (("compact", 1), "--sql is not supported by compact."),
        (("rewrite", 1, "--all"), "rewrite --sql requires --from-draft FILE"),
        (("repair", 1), "repair --sql requires --from-draft FILE"),
        (("repair", "--from-draft", "x", "--apply"), "excludes --apply"),
    ],
)
def test_what_has_no_text_yet_says_so(command: tuple[object, ...], words: str, path: Path) -> None:
    refused = run(*command, "--sql", "--db", path)
    assert (refused.code, refused.out) == (2, "")
    assert words in refused.err


@pytest.mark.long
def test_so_it_is_with_a_transcript(openclaw_home: Path, compared: list[str]) -> None:
    session = "ce98a067-e9e5-403f-a6d5-7ded87bb123a"
    ok("backfill", "research", session, "--openclaw-dir", openclaw_home, *DO)


def test_with_apply_it_prints_what_was_done(path: Path) -> None:
    other = copy_of(path, "other.db")
    shown = ok(*dissolve(path), "--sql", *DO, "--db", path)
    executed(other, shown.out)
    assert dump(other) == dump(path)
    assert "Operation" in shown.err


@pytest.mark.long
def test_a_transcript_is_shown_as_sql(openclaw_home: Path) -> None:
    path = openclaw_home / "lcm.db"
    named = ("backfill", "research", "ce98a067-e9e5-403f-a6d5-7ded87bb123a", "--openclaw-dir", openclaw_home)
    other, before = copy_of(path, "other.db"), dump(path)
    shown = ok(*named, "--sql")
    assert dump(path) == before
    executed(other, shown.out)
    assert {table: len(rows) for table, rows in dump(other).items()} != {
        table: len(rows) for table, rows in before.items()
    }
    ok(*named, *DO)
    assert {table: len(rows) for table, rows in dump(other).items()} == {
        table: len(rows) for table, rows in dump(path).items()
    }
    assert search_faults(other) == []


def test_a_debt_that_is_closed_is_shown_as_sql(database_copy: DatabaseFactory) -> None:
    path = database_copy("1.0-next")
    other = copy_of(path, "other.db")
    executed(other, ok("engine", 7, "--close-debt", "--sql", *DO, "--db", path).out)
    assert dump(other) == dump(path)


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    "command",
    [
        ("focus", "activate", "focus_b291"),
        ("focus", "delete", "focus_0641d2bb900b47e2"),
        ("focus", "clear", 2),
    ],
)
def test_a_change_of_briefs_is_shown_as_sql(database_copy: DatabaseFactory, command: tuple[str, ...]) -> None:
    path = database_copy("0.15.3")
    other, before = copy_of(path, "other.db"), dump(path)
    executed(other, ok(*command, "--sql", *DO, "--db", path).out)
    assert dump(other) == dump(path) != before


@pytest.mark.long
def test_a_new_brief_is_shown_as_sql(database_copy: DatabaseFactory, tmp_path: Path) -> None:
    path, text = database_copy("0.15.3"), tmp_path / "brief.md"
    text.write_text("It's 45 s; \u7f13\u5b58 --", encoding="utf-8")
    mark = "UPDATE focus_briefs SET covered_message_seq = 1, covered_latest_at = NULL"
    for command in (("create", 2, "--prompt", "q"), ("create", 2, "--update")):
        other = copy_of(path, f"{command[0]}.db")
        executed(other, ok("focus", *command, "--text", text, "--sql", *DO, "--db", path).out)
        assert dump(other) == dump(path)
        executed(path, f"{mark} WHERE status = 'active';")


def test_every_command_that_has_the_option_is_tried_here() -> None:
    found = {one.path for one in tree.every() if one.takes(SqlFlags)}
    tried = {
        "rewrite",
        "repair",
        "backfill",
        "doctor",
        "dissolve",
        "transplant",
        *(f"conversations {word}" for word in ("archive", "prune", "delete")),
        "merge",
        "import",
        "engine",
        "focus activate",
        "focus clear",
        "focus create",
        "focus delete",
    }
    assert found == tried | {"history undo", "history redo"}
