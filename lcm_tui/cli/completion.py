"""``completion``: the script with which a shell completes our command lines, and its questions answered."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any, Final

import click
from click.shell_completion import ShellComplete, get_completion_class
from lcm_core.base.errors import UsageError

from lcm_tui.cli.answer import Answer, Run
from lcm_tui.cli.command import command
from lcm_tui.cli.kinds import Completed
from lcm_tui.cli.presentation import COMPLETION_VARIABLE, PROGRAM
from lcm_tui.tables.blocks import Verbatim

SHELLS: Final = ("bash", "zsh", "fish", "powershell")


@command("completion", examples=("completion bash >> ~/.bashrc",))
@click.argument(
    "shell",
    type=Completed(*SHELLS),
    required=False,
    metavar="[SHELL]",
    help=f"One of {', '.join(SHELLS)}; else your shell.",
)
def completion(run: Run, *, shell: str | None) -> Answer:
    """Print the shell's completion script, for example: lcm-tui completion bash >> ~/.bashrc."""
    name = shell or Path(os.environ.get("SHELL", "")).name
    if name not in SHELLS:
        problem = f"{name} has no completion script" if name else "Your shell cannot be determined"
        raise UsageError(f"{problem}; name one of {', '.join(SHELLS)}.", details={"shell": name})
    script = ShellComplete.source(_made(click.Command(PROGRAM), name))  # click's own for bash starts it
    return Answer("completion", {"shell": name, "script": script}, [Verbatim(script)], {})


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
