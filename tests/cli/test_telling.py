"""How much a command says: nothing, more, everything about versions, and again and again."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import platform
import sqlite3
from pathlib import Path

import pytest
from lcm_core.api import ExitCode, LcmError, Options, resolve

from lcm_tui.cli import output
from lcm_tui.cli import working as watching
from lcm_tui.cli.answer import Answer, Run
from lcm_tui.cli.presentation import Presentation
from lcm_tui.cli.verbose import ENGINES_TRIED, verbose
from lcm_tui.kit.logfile import log_path
from lcm_tui.tables.blocks import Verbatim
from tests.cli.support import run
from tests.conftest import DatabaseFactory
from tests.support import DATA


@pytest.mark.cases(1)
@pytest.mark.parametrize("form", [(), ("--json",), ("--format", "table")])
def test_quiet_says_nothing_but_errors(form: tuple[str, ...], database_file: DatabaseFactory):
    path = database_file("0.15.3")
    result = run("status", "-q", *form, "--db", path)
    assert (result.code, result.out, result.err) == (0, "", "")
    result = run("doctor", "--quiet", *form, "--check", "C", "--db", path)
    assert (result.code, result.out, result.err) == (6, "", "")
    missing = ("messages", "list", "99", *form, "--db", path)
    result = run(*missing, "--quiet")
    assert (result.code, result.out) == (3, "")
    assert result == run(*missing)


def test_quiet_says_what_ended_a_work_in_part(capsys: pytest.CaptureFixture[str]):
    answer = Answer("x", {}, [Verbatim("done")], {}).in_part(LcmError("The rest was not."))
    output.print_answer(answer, Presentation(quiet=True))
    assert capsys.readouterr() == ("", "The rest was not.\n")


def test_verbose_names_the_files_beside_the_answer(tmp_path: Path, database_file: DatabaseFactory):
    path = database_file("0.15.3")
    plain = run("conversations", "list", "--json", "--db", path)
    told = run("conversations", "list", "--json", "--verbose", "--db", path)
    assert told.out == plain.out
    lines = told.err.splitlines()
    assert lines[0].endswith(f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}")
    assert lines[1] == f"Database: {path} (--db)"
    assert f"Log: {log_path()}" in lines
    assert lines[-1].startswith("Took ")
    missing = run("status", "--verbose", "--db", tmp_path / "no.db")
    assert (missing.code, missing.err.splitlines()[-1][:20]) == (3, "There is no database")


def test_verbose_says_what_is_logged_and_leaves_the_log_as_it_was(tmp_path: Path):
    err = io.StringIO()
    root, log = logging.getLogger(), logging.getLogger("lcm_core.api")
    before = root.level, list(root.handlers)
    with contextlib.redirect_stderr(err), verbose(resolve(Options(), {}, home=tmp_path)):
        log.info("call %d gave no answer: \x1b[31m", 3)
        log.debug("not this")
    log.info("nor this")
    assert (root.level, list(root.handlers)) == before
    assert "info: call 3 gave no answer: " in err.getvalue()
    assert "\x1b" not in err.getvalue()
    assert "this" not in err.getvalue()


#: A configuration that cannot be used, and one with a value that cannot be known.
UNREAD = [
    ("{", "openclaw.json"),
    ('{"$include": "gone.json5"}', "gone.json5"),
    (
        '{"plugins": {"config": {"lossless-claw": {"freshTailCount": "${LCM_NO_SUCH_TAIL}"}}}}',
        "LCM_NO_SUCH_TAIL",
    ),
]
COMMANDS = ["doctor --check C", "context 1", "compact 1", "messages list 1", "config get dbPath"]


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    ("command", "config", "named"),
    [*(("status", *one) for one in UNREAD), *((command, *UNREAD[-1]) for command in COMMANDS)],
)
def test_a_configuration_that_was_not_read_is_mentioned_once(
    command: str, config: str, named: str, tmp_path: Path, database_file: DatabaseFactory
):
    (tmp_path / "openclaw.json").write_text(config)
    given = ("--openclaw-dir", tmp_path, "--db", database_file("0.15.3"))
    words = command.split()
    told = run(*words, *given)
    assert told.err.count("openclaw.json cannot be used") + told.err.count("is not set here") == 1
    assert named in told.err
    assert "does not exist" not in told.err
    document = json.loads(run(*words, "--json", *given).out)
    assert named in document["meta"]["lcmTui"]["configProblems"][0]
    assert run(*words, "--quiet", *given).err == ""
    assert run(*words, "--verbose", *given).err.count(named) >= 1
    missing = (*words, "--openclaw-dir", tmp_path, "--db", tmp_path / "no.db")
    if command != "config get dbPath":
        assert named in run(*missing).err
        assert named in run(*missing, "--json").error["details"]["configProblems"]


def test_a_configuration_that_was_not_read_is_not_called_missing(tmp_path: Path):
    given = ("config", "show", "--openclaw-dir", tmp_path)
    assert "openclaw.json (does not exist)" in run(*given).out
    (tmp_path / "openclaw.json").write_bytes(b"{}" + bytes(512))
    told = run(*given)
    assert "openclaw.json (cannot be used)" in told.out
    assert told.out.count("NUL bytes") == 1
    assert (told.err, "does not exist" in told.out) == ("", False)
    assert "which cannot be used" in run(*given, "--verbose").err
    assert run("--completion", "bash", "--openclaw-dir", tmp_path).err == ""


def test_all_versions():
    result = run("--version", "--verbose")
    assert (result.code, result.err) == (0, "")
    for words in (platform.python_version(), sqlite3.sqlite_version, str(log_path()), *ENGINES_TRIED):
        assert words in result.out
    data = run("--verbose", "--version", "--json").data
    assert {"version", "python", "sqlite", "enginesTried", "hostSchemaTried", "logPath"} <= {*data}
    assert data["packages"]["textual"] in result.out


def test_engines_that_were_tried_have_a_database_of_theirs():
    databases = [path.name.split(".db.")[0] for path in DATA.glob("lcm-*.db.*")]
    assert not [one for one in ENGINES_TRIED if not any(name.startswith(f"lcm-{one}") for name in databases)]
    later = ("lcm-1.1-later", "lcm-1.1-later-empty")  # what these are called is not known yet
    assert all(
        name.startswith(tuple(f"lcm-{one}" for one in ENGINES_TRIED)) or name in later for name in databases
    )


@pytest.mark.parametrize(("ends", "shown"), [(True, 3), (False, 4)])
def test_watching_goes_on_until_it_fails_on_something(ends: bool, shown: int, tmp_path: Path):
    """The third answer does not end well; without ``--fail-on`` only ctrl-C ends it."""
    answers = iter(range(4))
    waited: list[float] = []

    def once() -> Answer:
        number = next(answers)
        code = ExitCode.FINDINGS if number == 2 else ExitCode.DONE
        return Answer("x", {"number": number}, [], {}, exit_code=code)

    def wait(seconds: float) -> None:
        waited.append(seconds)
        if len(waited) == 4:
            raise KeyboardInterrupt

    out = io.StringIO()
    runner = Run(resolve(Options(), {}, home=tmp_path), Presentation(json=True))
    with contextlib.redirect_stdout(out):
        code = watching.watched(runner, once, 7, ends=ends, wait=wait)
    assert code == (ExitCode.FINDINGS if ends else ExitCode.DONE)
    numbers = [json.loads(line)["data"]["number"] for line in out.getvalue().splitlines()]
    assert numbers == list(range(shown))
    assert set(waited) == {7}


def test_watching_ends_at_once_where_it_fails(database_file: DatabaseFactory):
    path = database_file("0.15.3")
    result = run("doctor", "--check", "C", "--watch", "60", "--fail-on", "error", "--json", "--db", path)
    assert (result.code, result.out.count("\n")) == (6, 1)
    for more in (("--fix", "C1"), ("--format", "csv")):
        assert run("doctor", "--watch", "60", *more, "--db", path).code == 2
