"""The command line: every command is parse, call core, print.

`main` is the console script. Without a command it opens the app.
"""

from __future__ import annotations

import importlib
import logging
import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import typer
from lcm_core.errors import CancelledError, ExitCode, LcmError

from lcm_tui import logfile
from lcm_tui.cli import output
from lcm_tui.cli.answer import PROGRAM, Answer
from lcm_tui.cli.completing import COMPLETION_VARIABLE, complete
from lcm_tui.cli.launch import open_app
from lcm_tui.cli.registry import (
    PARSING_ERROR,
    Group,
    Invocation,
    Outcome,
    first_presentation,
    flags_in,
    in_order,
    refusal,
    with_common_options,
)

log = logging.getLogger(__name__)

#: The module behind the first word of a command: only that one is imported.
_MODULES = {
    **{
        name: name
        for name in (
            "status",
            "conversations",
            "messages",
            "summaries",
            "context",
            "files",
            "config",
            "prompts",
            "sessions",
        )
    },
    **dict.fromkeys(("backup", "restore"), "backup"),
    **{name: name for name in ("dissolve", "history", "reindex")},
    **{name: name for name in ("transplant", "merge")},
    **{name: name for name in ("backfill", "migrate")},
    **{name: name for name in ("compact", "doctor")},
    **{name: name for name in ("rewrite", "repair")},
    **dict.fromkeys(("prune", "import"), "prune"),
    "report": "report",
    "tool": "tool",
    **dict.fromkeys(("demo", "completion"), "other"),
}
#: First words that take a second.
_GROUPS = frozenset(
    {"conversations", "messages", "summaries", "context", "files", "config", "history", "prompts"}
    | {"sessions"}
)
_EPILOG = (
    "Every command prints JSON with --json. Exit codes: 0 done, 1 internal error, 2 usage, 3 not found, "
    "4 configuration, 5 database, 6 findings, 7 stale, 8 busy, 9 refused, 10 cancelled."
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; the result is its exit code (docs/decisions.md, "Exit codes")."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    output.open_missing_streams()
    handler = logfile.install()
    invocation = Invocation(first_presentation(given))
    try:
        return _run(given, invocation)
    except BrokenPipeError:
        output.silence(sys.stdout)
        return ExitCode.DONE
    except KeyboardInterrupt:
        return _fail(CancelledError("Cancelled; nothing was changed."), invocation)
    except LcmError as error:
        return _fail(error, invocation)
    except Exception as error:
        log.exception("unexpected")
        where = f"The details are in {logfile.log_path()}." if handler.written else "No log could be written."
        return _fail(
            LcmError(f"Something unexpected went wrong ({type(error).__name__}). {where}"), invocation
        )


def _run(arguments: list[str], invocation: Invocation) -> int:
    outcome = _outcome(arguments, invocation)
    if isinstance(outcome, Answer):
        output.print_answer(outcome, invocation.presentation)
        return outcome.exit_code
    return outcome


def _outcome(arguments: list[str], invocation: Invocation) -> Outcome:
    if COMPLETION_VARIABLE in os.environ:
        complete(_tree(None))
    flags = set(flags_in(arguments))
    if "--version" in flags or (invocation.presentation.json and flags & {"--help", "-h"}):
        from lcm_tui.cli import other

        return other.version() if "--version" in flags else other.help_()
    ordered = in_order(arguments, _GROUPS)
    root = _tree(ordered)
    try:
        outcome: Outcome = root.main(ordered, prog_name=PROGRAM, standalone_mode=False, obj=invocation)
        sys.stdout.flush()  # of help, which is not printed by us
    except PARSING_ERROR as error:
        raise refusal(error, frozenset(_options_of(_tree(None)))) from None
    except SystemExit:  # how help ends the program when its reader has gone
        raise BrokenPipeError from None
    except OSError as error:
        if flags & {"--help", "-h"} and not isinstance(error, BrokenPipeError):
            raise output.unwritten(sys.stdout, error) from error
        raise
    return outcome


def _tree(ordered: Sequence[str] | None) -> Any:
    """The commands that a command line can mean, all of them for None and for what is no command."""
    app = typer.Typer(
        cls=Group,
        add_completion=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        rich_markup_mode="rich",
        epilog=_EPILOG,
    )
    app.callback(invoke_without_command=True)(with_common_options(open_app))
    for name in _wanted(ordered):
        importlib.import_module(f"lcm_tui.cli.{name}").register(app)
    return typer.main.get_command(app)


def _wanted(ordered: Sequence[str] | None) -> Sequence[str]:
    everything = tuple(dict.fromkeys(_MODULES.values()))
    if ordered is None or {"--help", "-h"}.intersection(ordered):
        return everything
    if not ordered or ordered[0].startswith("-"):
        return ()
    return (_MODULES[ordered[0]],) if ordered[0] in _MODULES else everything


def _fail(error: LcmError, invocation: Invocation) -> int:
    try:
        output.print_error(error, invocation.presentation)
    except BrokenPipeError:
        output.silence(sys.stderr)
    except LcmError:
        log.warning("an error could not be shown: %s", error.message)
    return error.exit_code


def _options_of(group: Any) -> Iterator[str]:
    """Every option of every command."""
    for found in group.commands.values():
        yield from (name for parameter in found.params for name in parameter.opts)
        if hasattr(found, "commands"):
            yield from _options_of(found)


__all__ = ["main"]
