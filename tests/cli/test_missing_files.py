"""A path at which nothing is: one sentence, one exit code, wherever a command takes one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.support import run
from tests.conftest import DatabaseFactory

#: A command line with `NOWHERE` in it, what is missing there, and the code.
MISSING = [
    (("status", "--db", "NOWHERE"), "database", "DATABASE_NOT_FOUND"),
    (("NOWHERE.db", "status"), "database", "DATABASE_NOT_FOUND"),
    (("doctor", "--db", "NOWHERE"), "database", "DATABASE_NOT_FOUND"),
    (("dissolve", "1", "--summary", "x", "--db", "NOWHERE"), "database", "DATABASE_NOT_FOUND"),
    (("backup", "--db", "NOWHERE"), "database", "DATABASE_NOT_FOUND"),
    (("context", "1", "--compare", "db=NOWHERE"), "database", "DATABASE_NOT_FOUND"),
    (("status", "--config", "NOWHERE"), "config file", "CONFIG_NOT_FOUND"),
    (("sessions", "--sessions", "NOWHERE"), "folder of sessions", "FOLDER_NOT_FOUND"),
    (("restore", "NOWHERE"), "backup", "DATABASE_NOT_FOUND"),
    (("import", "NOWHERE"), "exported conversation", "FILE_NOT_FOUND"),
    (("backfill", "--file", "NOWHERE"), "session file", "TRANSCRIPT_NOT_FOUND"),
    (("repair", "--from-draft", "NOWHERE"), "file of drafts", "DRAFTS_NOT_FOUND"),
    (("prompts", "leaf", "--prompt-dir", "NOWHERE"), "prompt", "PROMPT_NOT_FOUND"),
    (("prompts", "leaf", "--with", "source=NOWHERE"), "file", "FILE_NOT_FOUND"),
    (("backup", "--to", "NOWHERE/copy.db"), "folder", "FOLDER_NOT_FOUND"),
    (("status", "--report", "--to", "NOWHERE/report.json"), "folder", "FOLDER_NOT_FOUND"),
]


@pytest.mark.cases(9)
@pytest.mark.parametrize(("arguments", "what", "code"), MISSING, ids=[" ".join(row[0]) for row in MISSING])
def test_what_is_missing_is_said_in_one_form(
    arguments: tuple[str, ...], what: str, code: str, tmp_path: Path, database_file: DatabaseFactory
) -> None:
    nowhere = tmp_path / ("nowhere.db" if arguments[0] == "NOWHERE.db" else "nowhere")
    given = [one.replace("NOWHERE", str(nowhere.with_suffix(""))) for one in arguments]
    if "--db" not in given and arguments[0] != "NOWHERE.db":
        given += ["--db", str(database_file("0.15.3"))]
    result = run(*given, "--json")
    assert (result.code, result.error["code"]) == (3, code)
    assert result.error["message"].startswith(f"There is no {what} at {nowhere}. ")
    assert result.error["details"]["path"] == str(nowhere)
    assert not nowhere.exists()
