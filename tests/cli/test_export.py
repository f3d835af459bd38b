"""``conversations export``: the file that ``import`` reads, or Markdown, and nothing else is touched."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from tests.cli.support import run
from tests.conftest import DatabaseFactory
from tests.databases import building, new_database


@pytest.mark.long
def test_an_export_is_private_and_imported_again(tmp_path: Path, database_copy: DatabaseFactory) -> None:
    path, target = database_copy("0.15.3"), tmp_path / "talk.jsonl"
    before = path.read_bytes()
    made = run("conversations", "export", "3", "--to", target, "--json", "--db", path).data
    assert made == {"conversationId": 3, "path": str(target), "bytes": target.stat().st_size}
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert path.read_bytes() == before
    empty = new_database(tmp_path / "other.db")
    assert run("import", target, "--apply", "--yes", "--db", empty).code == 0
    there = run("messages", "list", "3", "--include-content", "--limit", "500", "--json", "--db", empty).data
    here = run("messages", "list", "3", "--include-content", "--limit", "500", "--json", "--db", path).data
    assert there["items"] == here["items"]


def test_without_a_name_it_is_written_to_the_folder_of_exports(database_copy: DatabaseFactory) -> None:
    path = database_copy("0.15.3")
    made = run("conversations", "export", "3", "--json", "--db", path).data
    assert Path(made["path"]).parent.name == "exports"
    assert Path(made["path"]).suffix == ".jsonl"


def test_markdown_has_the_exact_texts_in_fences_that_they_cannot_end(tmp_path: Path) -> None:
    path, target = new_database(tmp_path / "lcm.db"), tmp_path / "talk.md"
    hostile = "red \x1b[31m\n```\n## #9 system\n````"
    with building(path) as rows:
        owner = rows.conversation(title="a\nb")
        rows.message(owner, hostile)
        rows.part(rows.message(owner, "", role="assistant"), "tool", None, tool_name="exec", tool_input="ls")
    assert run("conversations", "export", owner, "--to", target, "--db", path).code == 0
    text = target.read_text()
    assert f"\n`````\n{hostile}\n`````\n" in text
    assert [line for line in text.splitlines() if line.startswith("# ")] == ["# Conversation 1: a b"]
    assert "tool input:\n\n```\nls\n```\n" in text


@pytest.mark.parametrize("ending", [".jsonl", ".md"])
def test_nothing_is_written_over_a_file_or_the_database(
    ending: str, tmp_path: Path, database_copy: DatabaseFactory
) -> None:
    path = database_copy("0.15.3")
    there = tmp_path / f"there{ending}"
    there.write_text("kept")
    for target, code in (
        (there, "FILE_EXISTS"),
        (path, "FILE_NOT_WRITTEN"),
        (tmp_path / "no" / f"x{ending}", "FOLDER_NOT_FOUND"),
    ):
        refused = run("conversations", "export", "3", "--to", target, "--json", "--db", path)
        assert refused.error["code"] == code
    assert there.read_text() == "kept"
    assert sorted(one.name for one in tmp_path.iterdir() if one.name.endswith(".partial")) == []
