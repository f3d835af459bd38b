"""The command line: every command is parse, call core, print. Without a command, the app opens.

`main` is the console script.
"""

from __future__ import annotations

import gc
import logging
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
from lcm_core.base.errors import ExitCode, LcmError, UsageError
from lcm_core.base.values import replace

from lcm_tui.cli import output
from lcm_tui.cli import presentation as failures
from lcm_tui.cli.command import Invocation, command, flag, option
from lcm_tui.cli.kinds import Choice
from lcm_tui.cli.output import forget_odd_sizes
from lcm_tui.cli.presentation import COMPLETION_VARIABLE, PROGRAM, Presentation
from lcm_tui.cli.tree import GroupAloneError, Program
from lcm_tui.kit import logfile

if TYPE_CHECKING:
    from lcm_core.base.settings import Settings

    from lcm_tui.cli.answer import Outcome, Run


# -- opening the app -------------------------------------------------------------------------------------
# Where there is a terminal for it.

#: Variables from which Textual takes a value unchecked, with what it can use; another one counts as not set.
#: Its log and its pictures are for whoever works on Textual: neither is made.
_OF_TEXTUAL: Final = {
    "TEXTUAL_FPS": "[1-9][0-9]{0,2}",
    "ESCDELAY": "[1-9][0-9]{0,3}",
    "TEXTUAL_COLOR_SYSTEM": "auto|standard|256|truecolor",
    "TEXTUAL_LOG": "",
    "TEXTUAL_SCREENSHOT": "",
}


def has_terminal() -> bool:
    """Whether the app can run: a person at both ends, and a terminal that can draw."""
    return sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM", "dumb") not in ("", "dumb")


@command("", examples=("lcm.db", 'grep "lease table"', "doctor --fix all --apply"))
@flag(
    "--no-cache",
    "Keep no private index, no recent searches, and nothing that was worked out for the next start.",
    into="no_cache",
)
@option(
    "--completion",
    Choice("bash", "zsh", "fish", "powershell"),
    "SHELL",
    "Print the script with which bash, zsh, fish or powershell completes commands, and exit.",
)
def open_app(run: Run, *, no_cache: bool, completion: str | None) -> Outcome:
    """Inspect and repair an LCM agent's memory. Without a command the app opens.
    Commands that change something preview it unless --apply is given.
    """
    from lcm_core.base.setting_values import SettingSource, Sourced
    from lcm_core.store.opening import choose_access

    if completion is not None:
        from lcm_tui.cli.completion import script_for

        return script_for(completion)
    if run.settings.output_format.source is SettingSource.COMMAND_LINE:
        raise UsageError("--format and --json need a command, such as status.", code="INVALID_COMMAND")
    if not has_terminal():
        if run.settings.database.is_set:  # what is wrong with a path that was given is the nearer trouble
            choose_access(run.settings.database.value)
        raise UsageError(
            f"The app needs a terminal; commands work without one, such as `{PROGRAM} status` or "
            f"`{PROGRAM} conversations list` (`{PROGRAM} --help` lists them).",
            code="NO_TERMINAL",
        )
    settings = run.settings
    if no_cache:
        settings = replace(settings, search_cache=Sourced(False, SettingSource.COMMAND_LINE, "--no-cache"))
    return run_the_app(settings, demo=False)


def run_the_app(settings: Settings, *, demo: bool) -> int:
    """Run the app until it is left; it is imported only here, for its start takes a while.

    Textual draws at most so many frames a second: at its own 60, a key right behind a frame waits 16 ms.
    """
    for name, sound in _OF_TEXTUAL.items():
        if not re.fullmatch(sound, os.environ.get(name, "")):
            os.environ.pop(name, None)
    os.environ.setdefault("TEXTUAL_FPS", "120")
    gc.disable()  # until the app has warmed up: what it makes up to its first rows lives on
    try:
        from lcm_tui.app import run_app
        from lcm_tui.kit.terminal import LARGEST

        forget_odd_sizes(LARGEST)
        return run_app(settings, demo=demo)
    finally:
        gc.enable()


# -- running a command -----------------------------------------------------------------------------------

log = logging.getLogger(__name__)

#: Columns of a table that somebody may ask for.
WIDEST = 9999


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; the result is its exit code (docs/configuration.md, "Exit codes")."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    output.open_missing_streams()
    output.forget_odd_sizes(WIDEST)
    failures.begin()
    return failures.exit_code(_ended(given, Invocation()))


def _ended(given: list[str], invocation: Invocation) -> int:
    handler = logfile.install()
    try:
        return _run(given, invocation)
    except BrokenPipeError:
        output.silence(sys.stdout)
        return ExitCode.DONE
    except KeyboardInterrupt:
        return _fail(failures.cancelled(), given, invocation)
    except LcmError as error:
        return _fail(error, given, invocation)
    except Exception as error:
        log.exception("unexpected")
        where = f"The details are in {logfile.log_path()}." if handler.written else "No log could be written."
        words = f"Unexpected error ({type(error).__name__}). {where}"
        return _fail(LcmError(words), given, invocation)


def _run(arguments: list[str], invocation: Invocation) -> int:
    if COMPLETION_VARIABLE in os.environ:
        from lcm_tui.cli.completion import complete

        return complete(Program(open_app), os.environ[COMPLETION_VARIABLE])
    outcome = _outcome(arguments, invocation)
    if isinstance(outcome, int):
        return outcome
    failures.WORK_ENDED.set()
    output.print_answer(outcome, invocation.presentation or _presentation(arguments))
    return outcome.exit_code


def _outcome(arguments: list[str], invocation: Invocation) -> Outcome:
    program = Program(open_app)
    try:
        with program.make_context(PROGRAM, list(arguments), obj=invocation) as context:
            outcome: Outcome = program.invoke(context)
            return outcome
    except click.UsageError as error:
        from lcm_tui.cli.refusals import refusal

        raise refusal(error) from None
    except click.exceptions.Exit:
        return _asked_for(arguments, invocation)


def _asked_for(arguments: Sequence[str], invocation: Invocation) -> Outcome:
    """The help or the version that was asked for."""
    if invocation.version or _presentation(arguments).for_programs:
        if invocation.version:
            from lcm_tui.cli.verbose import version

            return version(verbose="--verbose" in arguments)
        from lcm_tui.cli.help import listed

        return listed(invocation.asked_for)
    output.write(sys.stdout, str(invocation.page) + "\n", utf8=False)
    return 0


def _presentation(arguments: Sequence[str]) -> Presentation:
    """How to print before the command line is understood: by options, environment, or config file."""
    from lcm_core.base.setting_values import OutputFormat
    from lcm_core.base.settings import Options, resolve

    wanted: str | None = None
    for at, argument in enumerate(arguments):
        if argument == "--json":
            wanted = OutputFormat.JSON
        elif argument == "--format":
            wanted = arguments[at + 1] if at + 1 < len(arguments) else wanted
        elif argument.startswith("--format="):
            wanted = argument.removeprefix("--format=")
    asked = wanted
    if wanted not in {*OutputFormat}:
        try:
            wanted = resolve(Options(), os.environ, home=Path.home()).output_format.value
        except LcmError:
            wanted = OutputFormat.TABLE
    return Presentation(
        json=wanted == OutputFormat.JSON,
        engine_table=asked == OutputFormat.TABLE,
        pretty="--pretty" in arguments,
        color="--no-color" not in arguments,
    )


def _fail(error: LcmError, arguments: Sequence[str], invocation: Invocation) -> int:
    presentation = invocation.presentation or _presentation(arguments)
    try:
        if isinstance(error, GroupAloneError) and not presentation.for_programs:
            output.write(sys.stderr, error.page + "\n", utf8=False)
        else:
            output.print_error(error, presentation)
    except BrokenPipeError:
        output.silence(sys.stderr)
    except LcmError as problem:
        log.warning("an error could not be shown: %s", problem.message)
    return error.exit_code


__all__ = ["main"]
