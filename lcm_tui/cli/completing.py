"""Shell completion: the script, and the answers that it asks for."""

from __future__ import annotations

import importlib
from typing import Any

from lcm_tui.cli.answer import PROGRAM

SHELLS = ("bash", "zsh", "fish", "powershell")
COMPLETION_VARIABLE = "_LCM_TUI_COMPLETE"


def script_for(shell: str) -> str:
    """The completion script of one of the `SHELLS`."""
    script: str = _typer_completion().get_completion_script(
        prog_name=PROGRAM, complete_var=COMPLETION_VARIABLE, shell=shell
    )
    return script


def complete(root: Any) -> None:
    """Answer a completion script that asks what may come next, and exit."""
    _typer_completion().completion_init()
    root.main(prog_name=PROGRAM, complete_var=COMPLETION_VARIABLE)


def _typer_completion() -> Any:
    """Typer's own completion; the place of its parts is no public name."""
    return importlib.import_module("typer.completion")
