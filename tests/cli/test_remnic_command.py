"""``remnic``: looking into Remnic's database, filling it, comparing it, taking it back."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
from lcm_remnic.write import RemnicWriter

from tests.cli.support import run
from tests.conftest import DatabaseFactory
from tests.remnic.store import all_rows, check_import, new_remnic, opened


@pytest.fixture
def remnic(tmp_path: Path) -> Path:
    (tmp_path / "memory" / "state").mkdir(parents=True)
    return new_remnic(tmp_path / "memory" / "state" / "lcm.sqlite")


@pytest.mark.long
def test_imported_compared_and_undone(database_file: DatabaseFactory, remnic: Path):
    source, empty = database_file("1.0-next"), all_rows(remnic)
    there = ("--db", source, "--remnic", remnic.parents[1], "--json")
    planned = run("remnic", "import", *there).data
    assert all_rows(remnic) == empty
    differing = run("remnic", "list", "--verify", *there)
    assert differing.code == 6
    assert '"difference":"missing"' in differing.out

    done = run("remnic", "import", *there, "--apply", "--yes").data
    assert (planned["applied"], done["applied"]) == (False, True)
    assert done["rows"] == planned["rows"]
    assert done["rows"]["messages"] == {"inserted": 268, "updated": 0, "moved": 0, "extra": 0, "skipped": 0}
    check_import(source, remnic)
    assert run("remnic", "list", "--verify", *there).data["same"]
    assert run("remnic", "import", *there).data["rows"]["messages"]["skipped"] == 268

    listed = run("remnic", "list", "--remnic", remnic, "--json").data
    assert [one["state"] for one in listed["imports"]] == ["complete"]
    assert sum(one["turns"] for one in listed["sessions"]) == 268
    shown = run("remnic", "list", "3ab38b00", "--remnic", remnic, "--json", "--limit", "5").data
    assert (shown["turnCount"], len(shown["turns"]), shown["nodeCount"]) == (92, 5, 9)

    undone = run("remnic", "undo", "--remnic", remnic, "--json", "--apply", "--yes").data
    assert undone["changedSince"] == 0
    assert all_rows(remnic) == empty


def test_only_a_session_for_people(database_file: DatabaseFactory, remnic: Path):
    session = "3ab38b00-b20c-4694-8aa0-ab2f821ab620"
    words = ("--db", database_file("1.0-next"), "--remnic", remnic, session)
    assert "Nothing was changed; --apply makes the change." in run("remnic", "import", *words).out
    done = run("remnic", "import", *words, "--apply", "--yes").out
    assert "lcm-tui remnic undo rem_" in done
    with opened(remnic) as db:
        assert db.execute("SELECT DISTINCT session_id FROM lcm_messages").fetchall() == [(session,)]
    assert "Nothing differs." in run("remnic", "list", "--verify", *words).out
    assert session in run("remnic", "list", "--remnic", remnic).out
    assert "Nodes" in run("remnic", "list", session, "--remnic", remnic).out
    assert "Rows to remove" in run("remnic", "undo", "--remnic", remnic).out


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("list",), 2, "--remnic"),
        (("list", "--remnic", "missing"), 3, "There is no Remnic database at missing"),
        (("import", "--remnic", "missing"), 3, "--create"),
        (("undo", "--remnic", "missing"), 3, "There is no import to undo"),
    ],
)
def test_what_is_refused(
    words: tuple[str, ...],
    code: int,
    said: str,
    database_file: DatabaseFactory,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.chdir(tmp_path)
    refused = run("remnic", *words, "--db", database_file("1.0-next"))
    assert (refused.code, said in refused.err) == (code, True), refused.err


def test_remnic_s_database_is_told_from_lossless_claw_s(remnic: Path):
    refused = run("status", "--db", remnic)
    assert refused.code == 5
    assert "is a database of Remnic" in refused.err
    assert "lcm-tui remnic list" in refused.err


@pytest.mark.long
def test_an_import_that_is_stopped_says_what_it_did(
    database_file: DatabaseFactory, remnic: Path, monkeypatch: pytest.MonkeyPatch
):
    source, transact, number = database_file("1.0-next"), RemnicWriter.make, [0]
    words = ("remnic", "import", "--db", source, "--remnic", remnic, "--apply", "--yes")

    def interrupted(self: RemnicWriter, make: Any) -> Any:
        number[0] += 1
        if number[0] == 5:
            os.kill(os.getpid(), signal.SIGINT)
        return transact(self, make)

    with monkeypatch.context() as patch:
        patch.setattr(RemnicWriter, "make", interrupted)
        stopped = run(*words)
    assert stopped.code == 10
    assert "run the same command again" in stopped.out
    assert "nothing was changed" not in stopped.out.lower()
    assert 0 < len(all_rows(remnic)["lcm_messages"]) < 268
    assert run(*words).code == 0
    check_import(source, remnic)


def test_an_empty_filter_is_a_variable_that_is_not_set(database_file: DatabaseFactory, remnic: Path):
    arguments = ("--db", database_file("1.0-next"), "--remnic", remnic, " ")
    for command in (("import",), ("list", "--verify")):
        refused = run("remnic", *command, *arguments)
        assert (refused.code, "SESSION_ID is empty" in refused.err) == (2, True)
    assert all_rows(remnic)["lcm_messages"] == []
