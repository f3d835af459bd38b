"""Shell completion: the script, and the answers that it asks for."""

from __future__ import annotations

import sys
from typing import Any

import click
from click.shell_completion import ShellComplete, get_completion_class

from lcm_tui.cli.presentation import PROGRAM

COMPLETION_VARIABLE = "_LCM_TUI_COMPLETE"


def script_for(shell: str) -> str:
    """The completion script of a shell."""
    return ShellComplete.source(_made(click.Command(PROGRAM), shell))  # click's own for bash starts it


def complete(program: click.Command, instruction: str) -> int:
    """Answer a completion script that asks what may come next; the result is an exit code."""
    shell = instruction.removesuffix("_complete")
    if get_completion_class(shell) is None:
        return 1
    try:
        answer = _made(program, shell).complete()
    except (LookupError, ValueError):  # the variables of the question are missing, or say nothing
        return 1
    sys.stdout.write(answer + "\n")
    return 0


def _made(program: click.Command, shell: str) -> ShellComplete:
    found: Any = get_completion_class(shell)
    made: ShellComplete = found(program, {}, PROGRAM, COMPLETION_VARIABLE)
    return made
