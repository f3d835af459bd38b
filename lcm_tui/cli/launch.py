"""Without a command: opening the app, where there is a terminal for it."""

from __future__ import annotations

import gc
import os
import re
import sys
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

from lcm_core.errors import UsageError

from lcm_tui.cli.declaring import Command, Option
from lcm_tui.cli.output import forget_odd_sizes
from lcm_tui.cli.presentation import PROGRAM

if TYPE_CHECKING:
    from lcm_core.settings import Settings

    from lcm_tui.cli.answer import Run


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


NoIndex: TypeAlias = Annotated[
    bool, Option("--no-index", "Search without a private index, and keep no recent searches.")
]


def open_app(run: Run, *, no_index: NoIndex = False) -> int:
    """Inspect and repair an LCM agent's memory.

    Without a command the app opens on the database. Options may come before or after a command.
    """
    from dataclasses import replace

    from lcm_core.settings import SettingSource, Sourced
    from lcm_core.store.opening import choose_access

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
    if no_index:
        settings = replace(settings, search_cache=Sourced(False, SettingSource.COMMAND_LINE, "--no-index"))
    return run_the_app(settings, demo=False)


WITHOUT_A_COMMAND = Command("", open_app)


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
        from lcm_tui.terminal import LARGEST

        forget_odd_sizes(LARGEST)
        return run_app(settings, demo=demo)
    finally:
        gc.enable()
