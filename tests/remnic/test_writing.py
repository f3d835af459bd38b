"""Writing into Remnic's file: killed, disturbed, by two at once, and taken back."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from lcm_core.api import NotFoundError, RefusedError
from lcm_remnic import importing
from lcm_remnic import write as journal
from lcm_remnic.importing import import_into
from lcm_remnic.source import Source
from lcm_remnic.write import RemnicWriter, preview_undo, undo_import, writing

from tests.conftest import DatabaseFactory
from tests.databases import building
from tests.remnic.store import (
    all_rows,
    check_import,
    check_search,
    native_turn,
    new_remnic,
    opened,
    other_importer,
)
from tests.remnic.support import differences, imported, previewed
from tests.support import ROOT

#: Runs an import and is killed in its Nth transaction, before or after the journal has its line.
_RUN = """
import os, signal, sys
from pathlib import Path
from lcm_remnic import importing
from lcm_remnic.write import Journal
from tests.remnic.support import imported
"""
_KILLED = f"""{_RUN}
left = int(sys.argv[3])
wrote = Journal.wrote
def dying(self, written):
    global left
    left -= 1
    if left < 0 and sys.argv[4] == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    wrote(self, written)
    if left < 0:
        os.kill(os.getpid(), signal.SIGKILL)
Journal.wrote = dying
imported(Path(sys.argv[1]), Path(sys.argv[2]))
"""


def _environment() -> dict[str, str]:
    path = os.pathsep.join(str(ROOT / part) for part in (".", "core", "prompts"))
    return {**os.environ, "PYTHONPATH": path}


@pytest.fixture
def remnic(tmp_path: Path) -> Path:
    return new_remnic(tmp_path / "lcm.sqlite")


@pytest.mark.long
@pytest.mark.parametrize(
    ("transactions", "when"), [pytest.param(3, "before", marks=pytest.mark.long), (6, "after")]
)
def test_an_import_that_was_killed_goes_on(
    transactions: int, when: str, database_file: DatabaseFactory, remnic: Path
):
    source = database_file("1.0-next")
    before = all_rows(remnic)
    command = [sys.executable, "-c", _KILLED, str(source), str(remnic), str(transactions), when]
    killed = subprocess.run(command, env=_environment(), check=False)
    assert killed.returncode == -signal.SIGKILL
    half = all_rows(remnic)
    assert 0 < len(half["lcm_messages"]) < 268
    [first] = journal.imports(remnic)
    assert not first.ended
    imported(source, remnic)
    check_import(source, remnic)
    [whole] = journal.imports(remnic)  # one import, so one undo
    assert (whole.id, whole.ended) == (first.id, True)
    undo_import(remnic, whole, 5.0)
    assert all_rows(remnic) == before


@pytest.mark.long
def test_two_imports_at_once_bring_everything_once(
    database_file: DatabaseFactory, remnic: Path, monkeypatch: pytest.MonkeyPatch
):
    source = database_file("1.0-next")
    script = _RUN + "imported(Path(sys.argv[1]), Path(sys.argv[2]))"
    transact, number = RemnicWriter.make, [0]

    def overtaken(self: RemnicWriter, make: Any) -> Any:
        number[0] += 1
        if number[0] in (3, 12):  # all of another import comes in between, and then there is nothing left
            command = [sys.executable, "-c", script, str(source), str(remnic)]
            subprocess.run(command, env=_environment(), check=True)
        return transact(self, make)

    monkeypatch.setattr(RemnicWriter, "make", overtaken)
    report = imported(source, remnic)
    assert 0 < report.rows["turn"].missing < 268
    check_import(source, remnic)
    assert len(journal.imports(remnic)) == 2
    for one in journal.imports(remnic):
        undo_import(remnic, one, 5.0)
    with opened(remnic) as db:
        assert db.execute("SELECT count(*) FROM lcm_messages").fetchone() == (0,)


@pytest.mark.long
def test_remnic_may_write_between_two_transactions(
    database_file: DatabaseFactory, remnic: Path, monkeypatch: pytest.MonkeyPatch
):
    source = database_file("1.0-next")
    monkeypatch.setattr(importing, "BATCH", 10)
    monkeypatch.setattr(importing, "BATCH_CHARACTERS", 10_000)
    transact, said = RemnicWriter.make, [0]

    def disturbed(self: RemnicWriter, make: Any) -> Any:
        with opened(remnic) as db:
            native_turn(db, "3ab38b00-b20c-4694-8aa0-ab2f821ab620", f"in between {said[0]}")
        said[0] += 1
        return transact(self, make)

    monkeypatch.setattr(RemnicWriter, "make", disturbed)
    with Source(source) as one, writing(remnic, source, 5.0) as writer:
        import_into(one, writer)
    with opened(remnic) as db:
        assert db.execute("SELECT count(*) FROM lcm_messages").fetchone() == (268 + said[0],)
        repeated = "SELECT 1 FROM lcm_messages GROUP BY session_id, turn_index HAVING count(*) > 1"
        assert db.execute(repeated).fetchall() == []
        out_of_order = """SELECT 1 FROM lcm_messages AS a JOIN lcm_messages AS b
            ON b.session_id = a.session_id
            AND json_extract(b.metadata, '$.conversation_id') = json_extract(a.metadata, '$.conversation_id')
            AND json_extract(b.metadata, '$.source_seq') > json_extract(a.metadata, '$.source_seq')
            AND b.turn_index < a.turn_index"""
        assert db.execute(out_of_order).fetchall() == []
    assert differences(source, remnic) == []
    check_search(remnic)


@pytest.mark.long
def test_undo_puts_back_what_the_other_importer_had(database_file: DatabaseFactory, remnic: Path):
    source = database_file("0.15.3")
    other_importer(source, remnic)
    before = all_rows(remnic)
    imported(source, remnic)
    one = journal.find_import(remnic, None)
    expected = preview_undo(remnic, one)
    assert undo_import(remnic, one, 5.0) == expected
    after = all_rows(remnic)
    for table in ("lcm_messages_fts_docsize", "lcm_summaries_fts_docsize"):  # derived: it may stay complete
        before.pop(table), after.pop(table)
    assert after == before
    assert (expected.gone, expected.left) == (0, 0)
    with pytest.raises(NotFoundError, match="There is no import to undo"):
        journal.find_import(remnic, None)


@pytest.mark.long
def test_undo_keeps_what_was_changed_since(database_file: DatabaseFactory, remnic: Path):
    source = database_file("0.1.2")
    imported(source, remnic)
    with opened(remnic) as db:
        db.execute("UPDATE lcm_messages SET content = 'redacted' WHERE id = 5")
        db.execute("DELETE FROM lcm_messages WHERE id = 6")
        native_turn(db, "mine", "of Remnic")
    one = journal.find_import(remnic, None)
    found = undo_import(remnic, one, 5.0)
    assert (found.left, found.gone) == (1, 1)
    with opened(remnic) as db:
        assert db.execute("SELECT content FROM lcm_messages ORDER BY id").fetchall() == [
            ("redacted",),
            ("of Remnic",),
        ]
    again = undo_import(remnic, one, 5.0)
    assert (again.removed, again.left) == (0, 1)


@pytest.mark.long
def test_what_is_noted_is_private_and_holds_no_text_that_came(database_file: DatabaseFactory, remnic: Path):
    imported(database_file("1.0-next"), remnic)
    [one] = journal.imports(remnic)
    assert stat.S_IMODE(one.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(one.path.parent.stat().st_mode) == 0o700
    with opened(remnic) as db:
        [(text,)] = db.execute("SELECT content FROM lcm_messages ORDER BY length(content) DESC LIMIT 1")
    assert len(text) > 20
    assert text[:20] not in one.path.read_text()
    imported(database_file("1.0-next"), remnic)
    assert journal.imports(remnic) == [one]  # of what wrote nothing, nothing is kept


def test_an_import_that_runs_is_not_undone(database_file: DatabaseFactory, remnic: Path):
    source = database_file("1.0-next")
    with Source(source) as opened_source, writing(remnic, source, 5.0) as writer:
        import_into(opened_source, writer)
        with pytest.raises(RefusedError, match="still running"):
            undo_import(remnic, journal.find_import(remnic, None), 5.0)


def test_a_damaged_note_is_refused_or_skipped(database_file: DatabaseFactory, remnic: Path):
    imported(database_file("1.0-next"), remnic)
    [one] = journal.imports(remnic)
    lines = one.path.read_text().splitlines(keepends=True)
    one.path.write_text("".join(lines[:2]) + lines[2][:40])  # cut off: that was never committed
    assert preview_undo(remnic, one).removed > 0
    one.path.write_text(lines[0] + '{"wrote":[{"came":1}]}\n')
    with pytest.raises(RefusedError, match="damaged"):
        preview_undo(remnic, one)
    one.path.write_text("{")
    assert journal.imports(remnic) == []


@pytest.mark.long
def test_a_message_that_leaves_the_source_meanwhile_is_left_out(
    database_copy: DatabaseFactory, remnic: Path, monkeypatch: pytest.MonkeyPatch
):
    source = database_copy("1.0-next")
    load = importing.load_messages

    def pruned(*arguments: Any) -> Any:
        monkeypatch.setattr(importing, "load_messages", load)
        with building(source) as rows:
            rows.execute("DELETE FROM messages WHERE conversation_id = 11")
        return load(*arguments)

    monkeypatch.setattr(importing, "load_messages", pruned)
    imported(source, remnic)
    with opened(remnic) as db:
        assert db.execute("SELECT count(*) FROM lcm_messages").fetchone() == (268 - 30,)
    assert not previewed(source, remnic).written
