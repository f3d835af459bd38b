"""``prompts``: what a model is asked when it summarises, and the operator's own versions of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

from lcm_prompts import TEMPLATES

from lcm_tui.cli.declaring import Argument, Option, command
from lcm_tui.cli.kinds import FilePath, Raw, WholeNumber
from lcm_tui.cli.options import PromptFolder

if TYPE_CHECKING:
    from lcm_tui.cli.answer import Answer, Run

_MAX_TARGET = 1_000_000

PromptArgument: TypeAlias = Annotated[str, Argument("PROMPT", f"One of {', '.join(TEMPLATES)}.", Raw())]
PromptArguments: TypeAlias = Annotated[
    tuple[str, ...], Argument("PROMPT", f"Of {', '.join(TEMPLATES)}; else all.", Raw(), several=True)
]
To: TypeAlias = Annotated[
    Path | None,
    Option(
        "--to", "The folder to write to (default: the folder of your prompts).", FilePath(text=True), "DIR"
    ),
]
Force: TypeAlias = Annotated[bool, Option("--force", "Replace existing files.")]
Aggressive: TypeAlias = Annotated[
    bool, Option("--aggressive", "The prompt used after an answer that was too long.")
]
TargetTokens: TypeAlias = Annotated[
    int,
    Option(
        "--target-tokens", "The target size in tokens; 1200 by default.", WholeNumber(1, _MAX_TARGET), "N"
    ),
]
SourceFile: TypeAlias = Annotated[
    str | None, Option("--source", "The text to summarise (default: a sample).", Raw(), "FILE")
]
PreviousFile: TypeAlias = Annotated[
    str | None, Option("--previous-context", "The previous context (default: none).", Raw(), "FILE")
]


@command("prompts list", forms=("csv",))
def list_(run: Run, *, prompt_dir: PromptFolder = None) -> Answer:
    """List the prompts, their versions, and which of them are yours."""
    from lcm_tui.cli import prompts

    return prompts.list_(run, prompt_dir)


@command("prompts show", examples=("prompts show leaf",))
def show(run: Run, *, prompt: PromptArgument, prompt_dir: PromptFolder = None) -> Answer:
    """Show the text of a prompt: your version if you have one."""
    from lcm_tui.cli import prompts

    return prompts.show(run, prompt, prompt_dir)


@command("prompts render", examples=("prompts render condensed-d1 --aggressive",))
def render(
    run: Run,
    *,
    prompt: PromptArgument,
    prompt_dir: PromptFolder = None,
    aggressive: Aggressive = False,
    target_tokens: TargetTokens = 1_200,
    source: SourceFile = None,
    previous_context: PreviousFile = None,
) -> Answer:
    """Show a prompt as a model would receive it. Nothing is sent."""
    from lcm_tui.cli import prompts

    return prompts.render(run, prompt, prompt_dir, aggressive, target_tokens, source, previous_context)


@command("prompts diff", examples=("prompts diff leaf",))
def diff(run: Run, *, prompt: PromptArgument, prompt_dir: PromptFolder = None) -> Answer:
    """Show how your version of a prompt differs from the built-in one."""
    from lcm_tui.cli import prompts

    return prompts.diff(run, prompt, prompt_dir)


@command("prompts export", examples=("prompts export leaf --to ~/prompts",))
def export(
    run: Run,
    *,
    prompt: PromptArguments = (),
    prompt_dir: PromptFolder = None,
    to: To = None,
    force: Force = False,
) -> Answer:
    """Write built-in prompts to files for editing. Existing files stay unless --force is given."""
    from lcm_tui.cli import prompts

    return prompts.export(run, prompt, prompt_dir if to is None else to, force=force)
