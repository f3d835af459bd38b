"""A process that is killed at any step of a commit leaves the file exactly before it, or exactly after it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from lcm_core.api import Database, DatabaseError, plan_dissolve, plan_undo
from lcm_core.change.commit import commit
from lcm_core.change.journal import pack
from lcm_core.store.conversations import list_conversations

from tests.change.support import dissolvable, dump, only, planned, search_faults
from tests.cli.support import run as command
from tests.databases import connect, run, value

#: Commits a plan to copies of a file, and dies at the first, second, third ... step; says the steps' names.
KILLER = """
import json, os, shutil, sys
from pathlib import Path
sys.path[:0] = json.loads(sys.argv[3])
from lcm_core.change import journal as exports
from lcm_core.change.commit import commit
from lcm_core.change.journal import unpack
from lcm_core.change.plan import Plan
folder, exported = Path(sys.argv[1]), sys.argv[2] == "exported"
plan = Plan("dissolve", "A plan", 1, unpack((folder / "plan").read_bytes()))
exports.LIMIT_BYTES = 0 if exported else exports.LIMIT_BYTES

def attempt(path, fault):
    commit(path, plan, fault=fault)

def copy(name):
    (folder / name).mkdir()
    return Path(shutil.copyfile(folder / "lcm.db", folder / name / "lcm.db"))

steps = []
attempt(copy("whole"), steps.append)
for number, name in enumerate(steps):
    path, seen = copy(str(number)), []

    def die(step):
        seen.append(step)
        if len(seen) > number:
            os._exit(9)

    child = os.fork()
    if child == 0:
        attempt(path, die)
        os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 9, name
print(json.dumps(steps))
"""

#: Runs a command on copies of a file, and dies at the first, second ... step of its commits that is named.
COMMAND_KILLER = """
import json, os, shutil, sys
from pathlib import Path
sys.path[:0] = json.loads(sys.argv[2])
import lcm_core.change.commit as committing
from lcm_tui.cli.main import main
folder, words, steps = Path(sys.argv[1]), json.loads(sys.argv[3]), ("applied", "committed", "closed")

def attempt(name, number):
    (folder / name).mkdir()
    path, seen = shutil.copyfile(folder / "lcm.db", folder / name / "lcm.db"), []
    def step(what):
        seen.append(what) if what.startswith(steps) else None
        if len(seen) > number:
            os._exit(9)
    committing.quiet = step
    code = main([*words, "--db", str(path)])
    (folder / name / "steps").write_text(json.dumps(seen))
    os._exit(code)

def child(*given):
    if not (pid := os.fork()):
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        attempt(*given)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

assert child("whole", 10_000) == 0
seen = json.loads((folder / "whole" / "steps").read_text())
for number, name in enumerate(seen):
    assert child(str(number), number) == 9, name
print(json.dumps(seen))
"""


@pytest.mark.parametrize(
    ("mode", "exported"),
    [
        ("wal", "exported"),
        pytest.param("wal", "journaled", marks=pytest.mark.long),
        pytest.param("delete", "journaled", marks=pytest.mark.long),
    ],
)
async def test_a_commit_that_is_killed_is_made_or_not(database_copy, mode, exported):
    path = only(database_copy("0.15.3"), 3)
    run(path, f"PRAGMA journal_mode = {mode}")
    [(conversation, summary), *_] = dissolvable(path)
    plan = await planned(path, plan_dissolve, conversation, [summary], levels=2)
    (path.parent / "plan").write_bytes(pack(plan.edits))
    before = dump(path)
    done = subprocess.run(
        [sys.executable, "-c", KILLER, str(path.parent), exported, json.dumps(sys.path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    steps = json.loads(done.stdout)
    applied = [step for step in steps if step.startswith("applied")]
    assert len(applied) >= len({(type(edit), getattr(edit, "table", "")) for edit in plan.edits})
    assert len(steps) == 10 + len(applied) + (exported == "exported")
    after = dump(path.parent / "whole" / "lcm.db")
    assert after != before
    made = []
    for number, step in enumerate(steps):
        left = path.parent / str(number) / "lcm.db"
        await _opens(left, mode)
        assert value(left, "PRAGMA integrity_check") == "ok", step
        assert search_faults(left) == [], step
        made.append(step in ("committed", "closed"))
        assert dump(left) == (after if made[-1] else before), step
        journaled = value(left, "SELECT count(*) FROM sqlite_master WHERE name = 'lcm_tui_operations'")
        assert bool(journaled) == made[-1], step
        if made[-1]:
            operation = value(left, "SELECT id FROM lcm_tui_operations")
            commit(left, await planned(left, plan_undo, operation))
        else:
            commit(left, plan)
        assert dump(left) == (before if made[-1] else after), step
    assert made == sorted(made)
    assert sum(made) == 2


@pytest.mark.long
def test_a_refocus_that_is_killed_is_whole_can_be_undone_and_says_what_is_missing(
    database_copy, monkeypatch, tmp_path
):
    """The sweep and the brief are one batch of several commits."""
    path, text = database_copy("0.15.3"), tmp_path / "brief.md"
    text.write_text("The lease is 45 s.", encoding="utf-8")
    named = ("--text", text, "--apply", "--yes")
    assert command("focus", "create", 2, "--prompt", "q", *named, "--db", path).code == 0
    monkeypatch.setenv("LCM_FRESH_TAIL_COUNT", "8")
    before, held = dump(path), _brief_of(path)
    words = json.dumps(["focus", "create", "--update", "2", *map(str, named)])
    done = subprocess.run(
        [sys.executable, "-c", COMMAND_KILLER, str(path.parent), json.dumps(sys.path), words],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    steps = json.loads(done.stdout)
    assert steps.count("committed") >= 2
    said = []
    for number, step in enumerate(steps):
        left = path.parent / str(number) / "lcm.db"
        assert value(left, "PRAGMA integrity_check") == "ok", step
        assert search_faults(left) == [], step
        newest = command("history", "list", "--limit", 1, "--db", left)
        items = command("history", "list", "--json", "--db", left).data["items"]
        made = [one for one in items if (one["batch"] or "").startswith("batch_brief_")]
        written = any(one["kind"] == "refocus" for one in made)
        assert ("its focus brief is not made" in newest.out) == (bool(made) and not written), step
        assert (_brief_of(left) != held) == written, step
        said.append((len(made), written))
        if made:
            undone = command("history", "undo", made[0]["batch"], "--apply", "--yes", "--db", left)
            assert undone.code == 0, undone.err
        assert dump(left) == before, step
    assert said == sorted(said)
    assert {written for made, written in said if made} == {False, True}


def _brief_of(path: Path) -> object:
    return value(path, "SELECT brief_id FROM focus_briefs WHERE conversation_id = 2 AND status = 'active'")


async def _opens(path: Path, mode: str) -> None:
    """The app opens what is left; half a change beside a file without a WAL is somebody's who may write."""
    told = []
    if mode == "delete":
        try:
            await (await Database.open(path)).close()
        except DatabaseError as error:
            told = [error.message]
            with connect(path) as connection:
                connection.execute("SELECT count(*) FROM messages").fetchone()
    assert all("an unfinished change" in message for message in told)
    async with await Database.open(path) as database:
        assert await database.read(list_conversations)
