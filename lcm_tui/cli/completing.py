"""Shell completion: the script, and the answers that it asks for."""

from __future__ import annotations

import os
import sys
from typing import Any

import click
from click.shell_completion import ShellComplete, get_completion_class, split_arg_string

from lcm_tui.cli.presentation import PROGRAM

COMPLETION_VARIABLE = "_LCM_TUI_COMPLETE"


def script_for(shell: str) -> str:
    """The completion script of a shell."""
    return _made(click.Command(PROGRAM), shell).source()


def complete(program: click.Command, instruction: str) -> int:
    """Answer a completion script that asks what may come next; the result is an exit code."""
    if instruction.startswith("complete_"):
        return _complete_earlier(program, instruction.removeprefix("complete_"))
    shell = instruction.removesuffix("_complete")
    if get_completion_class(shell) is None:
        return 1
    sys.stdout.write(_made(program, shell).complete() + "\n")
    return 0


def _made(program: click.Command, shell: str) -> ShellComplete:
    found: Any = get_completion_class(shell)
    made: ShellComplete = found(program, {}, PROGRAM, COMPLETION_VARIABLE)
    return made


def _complete_earlier(program: click.Command, shell: str) -> int:
    """Answer a script of 0.1, which somebody may have in the files of their shell."""
    words = split_arg_string(os.environ.get("_TYPER_COMPLETE_ARGS", os.environ.get("COMP_WORDS", "")))
    ends = os.environ.get("_TYPER_COMPLETE_ARGS", "").endswith(" ")
    at = int(os.environ.get("COMP_CWORD", len(words) if ends or not words else len(words) - 1))
    incomplete = words[at] if at < len(words) else ""
    found = _made(program, "bash").get_completions(words[1:at], incomplete)
    if shell == "zsh":
        listed = "\n".join(f'"{one.value}"' for one in found)
        sys.stdout.write(f"_arguments '*: :(({listed}))'\n" if found else "_files\n")
    elif os.environ.get("_TYPER_COMPLETE_FISH_ACTION") == "is-args":
        return 0 if found else 1
    else:
        end = ":::" if shell == "powershell" else ""
        sys.stdout.write("".join(f"{one.value}{end}\n" for one in found))
    return 0
