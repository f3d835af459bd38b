"""``--completion``: the script with which a shell completes our command lines, and its questions answered."""

from __future__ import annotations

import os
import sys
from typing import Any, Final

import click
from click.shell_completion import ShellComplete, get_completion_class, split_arg_string

from lcm_tui.cli.answer import Answer
from lcm_tui.cli.presentation import COMPLETION_VARIABLE, PROGRAM
from lcm_tui.tables.blocks import Verbatim

#: Unlike click's own it passes the line, since session keys hold colons, and paths are those of the shell.
_BASH: Final = f"""\
_lcm_tui_completion() {{
    local IFS=$'\\n' response completion type value
    response=$(env COMP_WORDS="${{COMP_LINE:0:COMP_POINT}}" COMP_BREAKS="$COMP_WORDBREAKS" \\
        {COMPLETION_VARIABLE}=bash_complete "$1" 2>/dev/null)
    COMPREPLY=()
    for completion in $response; do
        IFS=',' read -r type value <<< "$completion"
        if [[ $type == file ]]; then
            compopt -o default
        else
            COMPREPLY+=("$value")
        fi
    done
}}

complete -o nosort -F _lcm_tui_completion {PROGRAM}
"""
#: What click's own scripts do not do: a path behind ``--option=``, descriptions with commas, silence.
_MENDED: Final = {
    "zsh": (
        ("_path_files -f", "compset -P '--*='; _path_files -f"),
        (f' {PROGRAM})}}")', f' {PROGRAM} 2>/dev/null)}}")'),
    ),
    "fish": (
        ('string split "," $completion', 'string split --max 1 "," $completion'),
        (
            "__fish_complete_path $metadata[2]",
            "set -l option (string match -r -- '^--[^=]*=' (commandline -t); or echo);"
            " string join \\n -- $option(__fish_complete_path $metadata[2])",
        ),
        (f" {PROGRAM});", f" {PROGRAM} 2>/dev/null);"),
    ),
}


def script_for(shell: str) -> Answer:
    """The script with which a *shell* completes our command lines."""
    script = _BASH if shell == "bash" else ShellComplete.source(_made(click.Command(PROGRAM), shell))
    for before, after in _MENDED.get(shell, ()):
        script = script.replace(before, after)
    return Answer("completion", {"shell": shell, "script": script}, [Verbatim(script)], {})


def complete(program: click.Command, instruction: str) -> int:
    """Answer a completion script that asks what may come next; the result is an exit code."""
    shell = instruction.removesuffix("_complete")
    if get_completion_class(shell) is None:
        return 1
    made = _made(program, shell)
    try:
        args, incomplete = _of_line() if shell == "bash" else made.get_completion_args()
    except (LookupError, ValueError):  # the variables of the question are missing, or say nothing
        return 1
    option, joined, value = incomplete.partition("=") if incomplete.startswith("-") else ("", "", incomplete)
    items = made.get_completions(args, incomplete)
    breaks = [value.rfind(one) for one in ":=" if one in os.environ.get("COMP_BREAKS", "")]
    for item in items:
        if shell == "bash" and item.type == "plain":
            item.value = item.value[max(breaks, default=-1) + 1 :]
        elif joined and item.type == "plain":
            item.value = f"{option}={item.value}"
    sys.stdout.write("".join(f"{made.format_completion(item)}\n" for item in items) or "\n")
    return 0


def _of_line() -> tuple[list[str], str]:
    """The words of a line of bash, whose own words end at colons too, and the one that is not complete."""
    line = os.environ["COMP_WORDS"]
    words = split_arg_string(line)[1:]
    return (words, "") if line[-1:].isspace() or not words else (words[:-1], words[-1])


def _made(program: click.Command, shell: str) -> ShellComplete:
    found: Any = get_completion_class(shell)
    made: ShellComplete = found(program, {}, PROGRAM, COMPLETION_VARIABLE)
    return made
