"""Files that an earlier version of ours left go on working: its journal, exports, drafts, settings, names.

``tests/data/earlier-0.1.tar.xz`` was made by the code of commit 3ff6a6f: a database of conversation 4 alone,
in which a summary was dissolved (undone, redone) and the conversation deleted at last; the export of that
deletion as undo needs it and as `import` takes it; a batch of drafts on its way and one for review; a config
file, with what was understood of it and of variables.
"""

from __future__ import annotations

import json
import lzma
import re
import shutil
import tarfile
from pathlib import Path
from typing import Any

import pytest
from lcm_core.api import Options, resolve
from lcm_core.base.files import drafts_folder, make_private
from lcm_core.base.settings_listed import config_view
from lcm_core.change.journal import export_folder
from lcm_core.operations.drafts import read_saved, unfinished

from tests.change.support import dump, search_faults
from tests.cli.support import run
from tests.databases import value
from tests.support import DATA

#: Settings whose value follows from the machine or grew a new default, not from what was written.
_OF_PLACES = {"stateDir", "dbPath", "largeFilesDir", "sessions"}
#: What was shown as not set, and now as what then holds.
_DERIVED = {"bootstrapMaxTokens", "timezone"}


@pytest.fixture
def earlier(tmp_path: Path) -> Path:
    """The folder with the files; the export of a large operation is where that version put it."""
    folder = unpacked("earlier-0.1.tar.xz", tmp_path / "earlier")
    [edits] = folder.glob("op_*.edits")
    shutil.copy2(edits, make_private(export_folder()) / edits.name)
    return folder


def unpacked(name: str, folder: Path) -> Path:
    with lzma.open(DATA / name) as packed, tarfile.open(fileobj=packed) as tar:
        tar.extractall(folder, filter="data")
    return folder


def expected(earlier: Path) -> Any:
    return json.loads((earlier / "settings.json").read_bytes())


def restored(earlier: Path) -> Path:
    path = earlier / "lcm.db"
    undone = run("history", "undo", "last", "--apply", "--yes", "--db", path)
    assert undone.code == 0, undone.err
    return path


@pytest.mark.long
def test_its_journal_is_listed_undone_and_redone(earlier: Path):
    path = earlier / "lcm.db"
    listed = run("history", "list", "--db", path, "--json").data["items"]
    known = {one["operationId"]: one for one in listed}
    for operation, kind, conversation, title, tokens, _, _ in expected(earlier)["operations"]:
        one = known[operation]
        assert (one["kind"], one["conversationId"], one["title"]) == (kind, conversation, title)
        assert one["tokens"] == tokens
    assert value(path, "SELECT count(*) FROM messages") == 0
    restored(earlier)  # by the export in our folder, whatever home its path names
    assert value(path, "SELECT count(*) FROM messages") == 61
    before = value(path, "SELECT count(*) FROM context_items")
    first = expected(earlier)["operations"][0][0]
    assert run("history", "undo", first, "--apply", "--yes", "--db", path).code == 0
    assert value(path, "SELECT count(*) FROM context_items") == before - 3
    assert run("history", "redo", first, "--apply", "--yes", "--db", path).code == 0
    assert value(path, "SELECT count(*) FROM context_items") == before


@pytest.mark.long
def test_every_kind_of_edit_of_its_journal_is_shown_undone_and_redone(tmp_path: Path):
    folder = unpacked("earlier-edits.tar.xz", tmp_path)
    path = folder / "lcm.db"
    shown = json.loads((folder / "edits.json").read_bytes())
    assert {edit["edit"] for edits in shown.values() for edit in edits} == {
        *("insert", "update", "delete", "splice", "renumber")
    }
    for operation, edits in shown.items():
        assert run("show", operation, "--db", path, "--json").data["edits"] == edits
    after = dump(path)
    for _ in range(4):
        restored(folder)
    assert dump(path) == dump(folder / "before.db")
    assert search_faults(path) == []
    for _ in range(4):
        redone = run("history", "redo", "last", "--apply", "--yes", "--db", path)
        assert redone.code == 0, redone.err
    assert dump(path) == after


def test_its_exported_conversation_is_imported(earlier: Path):
    [file] = earlier.glob("conversation-4-*.jsonl")
    path = earlier / "lcm.db"
    assert run("import", file, "--apply", "--yes", "--db", path).code == 0
    assert value(path, "SELECT count(*) FROM messages") == 61


@pytest.mark.long
def test_its_drafts_on_their_way_are_found_and_go_on(earlier: Path):
    path = restored(earlier)
    [file] = earlier.glob("batch_*.drafts")
    moved = make_private(drafts_folder()) / file.name
    text = file.read_text()
    named = json.loads(text.split("\n", 1)[0])["database"]
    moved.write_text(text.replace(json.dumps(named), json.dumps(str(path.resolve()))))
    [kept] = unfinished(drafts_folder(), path, "rewrite")
    assert kept == read_saved(moved)
    assert kept.header.batch == expected(earlier)["batch"]
    assert kept.items[0].drafts[-1].text == expected(earlier)["draft"]
    made = run("rewrite", 4, "--resume", "--accept", "every", "--apply", "--yes", "--db", path)
    assert made.code == 0, made.err
    summary = expected(earlier)["summary"]
    stored = value(path, "SELECT content FROM summaries WHERE summary_id = ?", summary)
    assert stored == expected(earlier)["draft"]


def test_its_drafts_for_review_are_taken(earlier: Path):
    path = restored(earlier)
    file = earlier / "review.drafts"
    file.write_text(re.sub(r'"take": false', '"take": true', file.read_text(), count=1))
    made = run("rewrite", "--from-draft", file, "--apply", "--yes", "--db", path)
    assert made.code == 0, made.err
    stored = value(path, "SELECT content FROM summaries WHERE summary_id = ?", expected(earlier)["summary"])
    assert stored == expected(earlier)["draft"]


def test_its_config_file_and_variables_mean_what_they_meant(earlier: Path):
    known = expected(earlier)
    environ = {"HOME": "/nowhere", "LCM_TUI_CONFIG": str(earlier / "config.toml")}
    for what, more in (("file", {}), ("both", known["variables"])):
        settings = resolve(Options(), {**environ, **more}, home=Path("/nowhere"))
        assert not settings.diagnostics
        assert dict(settings.keys) == known["keys"]
        now = config_view(settings).effective
        for name, was in known[what].items():
            if name not in _OF_PLACES and not (was is None and name in _DERIVED):
                assert _agrees(was, now.get(name)), (what, name, was, now.get(name))


def _agrees(was: Any, now: Any) -> bool:
    """Whether everything that was understood is understood as it was; what is new may stand beside it."""
    if isinstance(was, dict):
        return isinstance(now, dict) and all(_agrees(one, now.get(name)) for name, one in was.items())
    return bool(was == now)
