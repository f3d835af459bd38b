"""What an import pulls in, seen from a fresh interpreter: it decides how fast every start is."""

import os
import sqlite3
import subprocess
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import closing
from graphlib import TopologicalSorter
from pathlib import Path

import grimp
import lcm_core
import pytest

from lcm_tui.app import SCREENS
from tests.cli.support import readings
from tests.conftest import DatabaseFactory

REPORT = """
import importlib, sys
for name in sys.argv[1:]:
    assert importlib.import_module(name).__file__, "an empty folder, not a module"
print(*sys.modules, sep="\\n")
"""
#: What the app imports until its first rows stand on the screen.
STARTING = ("lcm_tui.cli.main", "lcm_tui.app", "lcm_tui.screens.conversations")
#: What later screens need, commands that print, config files and time zones.
LATER = {
    *("lcm_core.api", "lcm_core.change", "lcm_core.checks", "lcm_core.engine", "lcm_core.operations"),
    *("lcm_core.writers", "lcm_host", "lcm_recall", "lcm_remnic"),
    *("lcm_core.base.json5", "lcm_core.base.settings_listed", "lcm_core.base.tokens"),
    *("lcm_core.store.listing", "lcm_core.store.messages", "lcm_core.store.statistics"),
    *("lcm_core.store.summaries", "lcm_core.store.context"),
    *("lcm_tui.cli.cursors", "lcm_tui.tables.machine", "lcm_tui.cli.readable"),
    *("json", "tomllib", "zoneinfo"),
}


def modules_after_importing(*names: str) -> set[str]:
    """The modules of an interpreter that imported *names* and nothing else."""
    arguments = [sys.executable, "-c", REPORT, *names]
    run = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return set(run.stdout.split())


@pytest.mark.long
def test_the_libraries_of_models_and_of_the_server_for_agents_stay_unimported():
    loaded = modules_after_importing(
        *(
            "lcm_core",
            "lcm_tui.cli.main",
            "lcm_tui.cli.demo",
            "lcm_tui.cli.mcp",
            "lcm_tui.mcp.scope",
        ),
        *("lcm_tui.app", "lcm_tui.screens.review", "lcm_tui.screens.drafting"),
    )
    assert loaded.isdisjoint({"anthropic", "mcp", "mcp_types", "openai", "pydantic"})


@pytest.mark.long
def test_the_core_needs_no_terminal():
    loaded = modules_after_importing(
        *("lcm_core.api", "lcm_core.store.context", "lcm_core.operations.compact"),
        *("lcm_host.engine", "lcm_recall.ask", "lcm_remnic.importing", "lcm_prompts"),
    )
    assert loaded.isdisjoint({"textual", "rich", "click", "lcm_tui"})


def test_the_command_line_starts_without_the_app():
    assert "textual" not in modules_after_importing("lcm_tui.cli.main")


ANSWERED = """
import os, sys
from lcm_tui.cli.main import main
code = main(sys.argv[1:])
print("", *sys.modules, sep="\\nmodule ", file=sys.stderr)
sys.exit(code)
"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("line", "code", "most"),
    [
        ("--version", 0, 30),
        ("--help", 0, 30),
        ("status --help", 0, 82),
        ("grep --help", 0, 80),
        ("summaries --help", 0, 96),
        ("history --help", 0, 108),
        ("compact --help", 0, 36),
        ("rewrite --help", 0, 127),
        ("compact --sweep --aply", 2, 36),
        ("bogus", 2, 30),
        ("history bogus", 2, 30),
        ("status --bogus", 2, 84),
        ("transplant 0 5", 2, 107),
        ("TAB conv", 0, 55),
        ("TAB messages --ro", 0, 76),
    ],
)
def test_help_refusals_and_completion_import_what_they_need(line: str, code: int, most: int):
    words = line.split()
    environment = dict(os.environ)
    if words[0] == "TAB":
        environment |= {
            "_LCM_TUI_COMPLETE": "bash_complete",
            "COMP_WORDS": line.replace("TAB", "lcm-tui"),
        }
    imported(words, most, code, environment)


@pytest.mark.long
@pytest.mark.parametrize(
    ("line", "most"),
    [
        ("conversations list", 60),
        ("messages list 1", 60),
        ("summaries list 1", 62),
        ("files 1", 58),
        ("history list", 74),
    ],
)
def test_lists_import_what_they_need(line: str, most: int, database_file: DatabaseFactory):
    names = imported([*line.split(), "--db", str(database_file("0.15.3"))], most)
    assert names.isdisjoint({"lcm_core.checks", "lcm_core.store.context", "lcm_core.writers"})


def imported(
    words: Sequence[str], most: int, code: int = 0, environment: Mapping[str, str] | None = None
) -> set[str]:
    """What a command imports: at *most* so many modules of ours, and no large library."""
    arguments = [sys.executable, "-c", ANSWERED, *words]
    run = subprocess.run(arguments, capture_output=True, text=True, check=False, env=environment)
    assert run.returncode == code
    names = {name.removeprefix("module ") for name in run.stderr.splitlines() if name.startswith("module ")}
    ours = {name for name in names if name.startswith("lcm_")}
    assert len(ours) <= most, sorted(ours)
    assert names.isdisjoint({"anthropic", "mcp", "openai", "rich", "textual"})
    return names


#: Beside every command that only reads a database.
MORE_COMMANDS = """
engine 1
context 1 --assembled
sessions
doctor
dissolve {condensed} --apply --yes
rewrite {summary}
repair 1
compact 1
conversations delete --until 10000d
backup
migrate
reindex
history undo last
config show
prompts
status --report
"""
PRINTED = """
import sys
from lcm_tui.cli.main import main
for line in sys.stdin.read().splitlines():
    code = main(line.split() + ["--db", sys.argv[1]])
    print(line, code, *{"rich", "textual"} & set(sys.modules), sep="|", file=sys.stderr)
"""


@pytest.mark.long
def test_commands_print_and_change_without_the_libraries_of_the_app(database_copy: DatabaseFactory):
    database = database_copy("0.15.3")
    with closing(sqlite3.connect(database)) as connection:
        newest = "SELECT summary_id FROM summaries JOIN context_items USING (summary_id) WHERE kind = ?"
        [summary], [condensed] = (
            connection.execute(newest, [kind]).fetchone() for kind in ("leaf", "condensed")
        )
    ids = {"CONVERSATION": "1", "SUMMARY_ID": summary, "ID": summary, "QUERY": "the"}
    reading = readings(defaultdict(tuple, {name: [value] for name, value in ids.items()}))
    lines = [" ".join(line) for line in reading]
    lines += MORE_COMMANDS.strip().format(summary=summary, condensed=condensed).splitlines()
    arguments = [sys.executable, "-c", PRINTED, str(database)]
    run = subprocess.run(
        arguments, capture_output=True, text=True, input="\n".join(lines), check=False, cwd=database.parent
    )
    answers = [line for line in run.stderr.splitlines() if "|" in line]
    expected = [f"{line}|{6 if line == 'doctor' else 0}" for line in lines]
    assert answers == expected  # 6: the checks found something


@pytest.mark.long
def test_the_first_screen_imports_what_it_needs():
    assert LATER & modules_after_importing(*STARTING) == set()


@pytest.mark.long
def test_the_views_that_are_opened_most_import_no_checks_and_no_changes():
    views = (f"lcm_tui.screens.{name}" for name in ("conversation", "dag", "context"))
    not_wanted = {"lcm_core.change", "lcm_core.checks", "lcm_core.writers", "lcm_host"}
    assert not_wanted & modules_after_importing(*views) == set()


def test_connections_to_files_are_made_in_one_module_of_the_core():
    core = Path(lcm_core.__file__).parent
    makers = [file for file in core.rglob("*.py") if "sqlite3.connect(" in file.read_text(encoding="utf-8")]
    assert [file.relative_to(core).as_posix() for file in makers] == ["store/opening.py"]


@pytest.mark.long
def test_no_module_imports_itself_through_others():
    packages = ("lcm_prompts", "lcm_core", "lcm_recall", "lcm_remnic", "lcm_host", "lcm_tui")
    found = grimp.build_graph(*packages, cache_dir=None)  # imports in functions count, and those for types
    below = {module: found.find_modules_directly_imported_by(module) for module in found.modules}
    assert len(below) > 200
    TopologicalSorter(below).prepare()


def test_no_screen_imports_another():
    """But the two of a context: its list, and the screen of one of its items."""
    app = grimp.build_graph("lcm_tui", cache_dir=None)
    opened = {*SCREENS.values(), "comparison.CompareScreen"}
    screens = {f"lcm_tui.screens.{name.partition('.')[0]}" for name in opened}
    assert len(screens) > 20
    crossing = {
        (name, other) for name in screens for other in app.find_modules_directly_imported_by(name) & screens
    }
    assert crossing == {("lcm_tui.screens.context", "lcm_tui.screens.context_items")}
