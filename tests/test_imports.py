"""What an import pulls in, seen from a fresh interpreter: it decides how fast every start is."""

import json
import subprocess
import sys

import pytest

REPORT = """
import importlib, json, sys
module = importlib.import_module(sys.argv[1])
assert module.__file__, "an empty folder, not a module"
print(json.dumps(sorted({name.partition(".")[0] for name in sys.modules})))
"""


def modules_after_importing(name: str) -> set[str]:
    """The top-level modules of an interpreter that imported *name* and nothing else."""
    arguments = [sys.executable, "-c", REPORT, name]
    run = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return set(json.loads(run.stdout))


@pytest.mark.parametrize(
    "name",
    [
        "lcm_tui.app",
        "lcm_tui.cli",
        "lcm_tui.demo",
        "lcm_core",
        "lcm_tui.screens.review",
        "lcm_tui.screens.drafting",
    ],
)
def test_the_model_library_stays_unimported(name: str):
    assert modules_after_importing(name).isdisjoint({"anthropic", "openai"})


@pytest.mark.parametrize(
    "name", ["lcm_core", "lcm_core.store", "lcm_core.dag", "lcm_core.ingest", "lcm_prompts"]
)
def test_the_core_needs_no_terminal(name: str):
    assert modules_after_importing(name).isdisjoint({"textual", "rich", "typer", "lcm_tui"})


def test_the_command_line_starts_without_the_app():
    assert "textual" not in modules_after_importing("lcm_tui.cli")
