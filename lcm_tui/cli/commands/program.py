"""``config``, ``prompts``, ``report``, ``demo``, ``completion`` and ``help``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
from lcm_core.base.errors import UsageError
from lcm_prompts import TEMPLATES

from lcm_tui.cli import options
from lcm_tui.cli.command import command
from lcm_tui.cli.kinds import Completed, FilePath, Raw, StoredText, WholeNumber

if TYPE_CHECKING:
    from lcm_tui.cli.answer import Answer, Outcome, Run


# -- config ---------------------------------------------------------------------------------------------
# ``config show``, ``config get`` and the refusal of ``config set``.

path_argument = click.argument(
    "path",
    type=StoredText(),
    metavar="PATH",
    help="A dotted path such as freshTailCount or raw.summaryModel.",
)


@command("config show")
def config_show(run: Run) -> Answer:
    """Show the settings: values in the files (secrets masked), effective values, and their sources."""
    from lcm_tui.cli import settings as config

    return config.show(run)


@command("config get", examples=("config get freshTailCount",))
@path_argument
def get(run: Run, *, path: str) -> Answer:
    """Show one setting by its path."""
    from lcm_tui.cli import settings as config

    return config.get(run, path)


@command("config set")
@path_argument
@click.argument("value", type=StoredText(), metavar="VALUE", help="The value as JSON.")
def set_(run: Run, *, path: str, value: str) -> Answer:
    """Not supported: lcm-tui does not write the host's configuration."""
    from lcm_core.base.errors import RefusedError

    key = path.removeprefix("raw.").removeprefix("effective.")
    place = run.settings.plugin_place or "plugins.entries.lossless-claw.config"
    raise RefusedError(
        "lcm-tui does not write the host's configuration: the file is the host's, and writing it anew would "
        f"lose its comments. Set {place}.{key} in {run.settings.config_file.value} yourself, or with the "
        f"engine's own command (from 0.14.0): lcm config set {key} VALUE. `lcm-tui config get {key}` then "
        "shows what applies.",
        details={"path": path},
    )


# -- prompts --------------------------------------------------------------------------------------------
# ``prompts``: what a model is asked when it summarises, and the operator's own versions of it.

_MAX_TARGET = 1_000_000

prompt_argument = click.argument(
    "prompt", type=Raw(), metavar="PROMPT", help=f"One of {', '.join(TEMPLATES)}."
)


@command("prompts list", forms=("csv",))
@options.prompt_folder
def list_(run: Run, *, prompt_dir: Path | None) -> Answer:
    """List the prompts, their versions, and which of them are yours."""
    from lcm_tui.cli import settings as prompts

    return prompts.list_(run, prompt_dir)


@command("prompts show", examples=("prompts show leaf",))
@prompt_argument
@options.prompt_folder
def prompts_show(run: Run, *, prompt: str, prompt_dir: Path | None) -> Answer:
    """Show the text of a prompt: your version if you have one."""
    from lcm_tui.cli import settings as prompts

    return prompts.show_prompt(run, prompt, prompt_dir)


@command("prompts render", examples=("prompts render condensed-d1 --aggressive",))
@prompt_argument
@options.prompt_folder
@click.option("--aggressive", is_flag=True, help="The prompt used after an answer that was too long.")
@click.option(
    "--target-tokens",
    type=WholeNumber(1, _MAX_TARGET),
    metavar="N",
    default=1_200,
    help="The target size in tokens; 1200 by default.",
)
@click.option("--source", type=Raw(), metavar="FILE", help="The text to summarise (default: a sample).")
@click.option("--previous-context", type=Raw(), metavar="FILE", help="The previous context (default: none).")
def render(
    run: Run,
    *,
    prompt: str,
    prompt_dir: Path | None,
    aggressive: bool,
    target_tokens: int,
    source: str | None,
    previous_context: str | None,
) -> Answer:
    """Show a prompt as a model would receive it. Nothing is sent."""
    from lcm_tui.cli import settings as prompts

    return prompts.render(run, prompt, prompt_dir, aggressive, target_tokens, source, previous_context)


@command("prompts diff", examples=("prompts diff leaf",))
@prompt_argument
@options.prompt_folder
def diff(run: Run, *, prompt: str, prompt_dir: Path | None) -> Answer:
    """Show how your version of a prompt differs from the built-in one."""
    from lcm_tui.cli import settings as prompts

    return prompts.diff(run, prompt, prompt_dir)


@command("prompts export", examples=("prompts export leaf --to ~/prompts",))
@click.argument(
    "prompt",
    type=Raw(),
    nargs=-1,
    required=False,
    metavar="[PROMPT...]",
    help=f"Of {', '.join(TEMPLATES)}; else all.",
)
@options.prompt_folder
@click.option(
    "--to",
    type=FilePath(text=True),
    metavar="DIR",
    help="The folder to write to (default: the folder of your prompts).",
)
@click.option("--force", is_flag=True, help="Replace existing files.")
def export(
    run: Run, *, prompt: tuple[str, ...], prompt_dir: Path | None, to: Path | None, force: bool
) -> Answer:
    """Write built-in prompts to files for editing. Existing files stay unless --force is given."""
    from lcm_tui.cli import settings as prompts

    return prompts.export(run, prompt, prompt_dir if to is None else to, force=force)


# -- report ---------------------------------------------------------------------------------------------
# ``report``: what a bug report needs, and nothing of what the database, the log or the settings say.


@command("report")
@click.option(
    "--to",
    type=FilePath(text=True),
    metavar="PATH",
    help="The output file (default: a new file in this folder).",
)
def report(run: Run, *, to: Path | None) -> Answer:
    """Write a bug report: versions, schema, counts, masked settings, errors; no content."""
    from lcm_tui.cli import report

    return report.report(run, to)


# -- demo -----------------------------------------------------------------------------------------------
# ``demo``: the app on a demonstration.


@command("demo", examples=("demo", "demo --to try"))
@click.option(
    "--to",
    type=FilePath(),
    metavar="DIR",
    help="Write the demo database to this folder for trying commands, and do not open the app.",
)
def demo(run: Run, *, to: Path | None) -> Outcome:
    """Open the app on a copy of a demonstration database; without a terminal, print some of it."""
    from lcm_tui.cli import demo

    return demo.demo(run) if to is None else demo.leave_copy(run, to)


# -- completion -----------------------------------------------------------------------------------------
# ``completion``: the script with which a shell completes our command lines.

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
    from lcm_tui.cli.answer import Answer
    from lcm_tui.cli.help import script_for
    from lcm_tui.tables.blocks import Verbatim

    name = shell or Path(os.environ.get("SHELL", "")).name
    if name not in SHELLS:
        problem = f"{name} has no completion script" if name else "Your shell cannot be determined"
        raise UsageError(f"{problem}; name one of {', '.join(SHELLS)}.", details={"shell": name})
    script = script_for(name)
    return Answer("completion", {"shell": name, "script": script}, [Verbatim(script)], {})


# -- help -----------------------------------------------------------------------------------------------
# ``help``: what there is, and what a command takes.


@command("help", examples=("help", "help history undo"))
@click.argument(
    "words",
    type=Raw(),
    nargs=-1,
    required=False,
    metavar="[COMMAND...]",
    help="The words of a command; else all are listed.",
)
def help_(run: Run, *, words: tuple[str, ...]) -> Outcome:
    """List the commands, or explain one; the same as --help."""
    from lcm_tui.cli.main import main

    return main([*words, "--help", *(["--json"] if run.presentation.json else [])])
