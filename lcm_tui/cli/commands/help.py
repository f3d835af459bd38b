"""``help``: what there is, and what a command takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, TypeAlias

from lcm_tui.cli.declaring import Argument, Outcome, command
from lcm_tui.cli.kinds import Raw

if TYPE_CHECKING:
    from lcm_tui.cli.answer import Run

CommandArguments: TypeAlias = Annotated[
    tuple[str, ...], Argument("COMMAND", "The words of a command; else all are listed.", Raw(), several=True)
]


@command("help", examples=("help", "help history undo"))
def help_(run: Run, *, words: CommandArguments = ()) -> Outcome:
    """List the commands, or explain one; the same as --help."""
    from lcm_tui.cli import main, registry

    form = ["--json"] if run.presentation.json else []
    if words and registry.are_unknown(words):
        return main([*words, *form])  # which is refused by their name
    return main([*words, "--help", *form])
