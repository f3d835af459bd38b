"""The command line: every command is parse, call core, print.

`main` is the console script. Without a command it opens the app.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import click
from lcm_core.errors import ExitCode, LcmError

from lcm_tui import logfile
from lcm_tui.cli import failures, output
from lcm_tui.cli.declaring import Outcome
from lcm_tui.cli.launch import WITHOUT_A_COMMAND
from lcm_tui.cli.presentation import PROGRAM, Presentation
from lcm_tui.cli.tree import GroupAloneError, Invocation, Program, refusal

log = logging.getLogger(__name__)

#: Columns of a table that somebody may ask for.
WIDEST = 9999
COMPLETION_VARIABLE = "_LCM_TUI_COMPLETE"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; the result is its exit code (docs/decisions.md, "Exit codes")."""
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
        from lcm_tui.cli.completing import complete

        return complete(Program(WITHOUT_A_COMMAND), os.environ[COMPLETION_VARIABLE])
    outcome = _outcome(arguments, invocation)
    if isinstance(outcome, int):
        return outcome
    failures.WORK_ENDED.set()
    output.print_answer(outcome, invocation.presentation or _presentation(arguments))
    return outcome.exit_code


def _outcome(arguments: list[str], invocation: Invocation) -> Outcome:
    program = Program(WITHOUT_A_COMMAND)
    try:
        with program.make_context(PROGRAM, list(arguments), obj=invocation) as context:
            outcome: Outcome = program.invoke(context)
            return outcome
    except click.UsageError as error:
        raise refusal(error) from None
    except click.exceptions.Exit:
        return _asked_for(arguments, invocation)


def _asked_for(arguments: Sequence[str], invocation: Invocation) -> Outcome:
    """The help or the version that was asked for."""
    if invocation.version or _presentation(arguments).for_programs:
        from lcm_tui.cli import helping

        if invocation.version:
            return helping.version(verbose="--verbose" in arguments)
        return helping.listed(invocation.asked_for)
    output.write(sys.stdout, str(invocation.page) + "\n", utf8=False)
    return 0


def _presentation(arguments: Sequence[str]) -> Presentation:
    """How to print before the command line is understood: by options, environment, or config file."""
    from lcm_core.settings import Options, OutputFormat, resolve

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
