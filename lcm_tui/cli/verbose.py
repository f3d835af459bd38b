"""What ``--version`` and ``--verbose`` say, and what a command says beside its answer."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from lcm_core import __version__
from lcm_core.base.errors import LcmError
from lcm_core.base.setting_values import Json
from lcm_core.base.text import safe_line
from lcm_core.base.values import replace

from lcm_tui.cli import output
from lcm_tui.cli.answer import OURS, Answer, Outcome
from lcm_tui.cli.presentation import PROGRAM, Presentation
from lcm_tui.kit import logfile
from lcm_tui.tables.blocks import Verbatim

if TYPE_CHECKING:
    from lcm_core.base.settings import Settings

#: Engines whose databases the tests read, check and change (docs/spec/versions.md, "Tags").
ENGINES_TRIED: Final = ("0.1.2", "0.3.0", "0.8.2", "0.15.3", "1.0-next", "1.1.0", "1.1.1")


def version(*, verbose: bool) -> Answer:
    """The version of this program; *verbose*: with those of what it runs on, and what it was tried with."""
    if verbose:
        from importlib import metadata  # 15 ms, which a version alone need not take

        from lcm_host.rows import TRIED_SCHEMA

        found = versions()
        lines = (
            f"{PROGRAM}  {__version__}",
            f"Python   {found['python']}",
            f"SQLite   {found['sqlite']}",
            f"Textual  {metadata.version('textual')}",
            f"System   {found['system']}",
            f"Engines  tried with {', '.join(ENGINES_TRIED)}",
            f"Host     OpenClaw's databases up to schema {TRIED_SCHEMA}",
            f"Log      {logfile.log_path()}",
        )
        data: dict[str, Json] = {
            "version": __version__,
            **found,
            "enginesTried": list(ENGINES_TRIED),
            "hostSchemaTried": TRIED_SCHEMA,
            "logPath": str(logfile.log_path()),
        }
        return Answer("version", data, [Verbatim("\n".join(lines))], {})
    return Answer("version", {"version": __version__}, [Verbatim(f"{PROGRAM} {__version__}")], {})


def versions() -> dict[str, Json]:
    """What the program runs on, by name."""
    from lcm_core.operations.report import machine

    found = machine()
    return {name: found[name] for name in ("python", "sqlite", "system", "packages")}


@contextmanager
def verbose(settings: Settings) -> Iterator[None]:
    """Say on standard error what a command goes by, what is logged while it runs, and how long it took."""
    found = versions()
    database = settings.database
    _say(f"{PROGRAM} {__version__}, Python {found['python']}, SQLite {found['sqlite']}")
    _say(f"Database: {database.value} ({database.name or database.source})")
    config = settings.config_unusable and ", which cannot be used"
    if not settings.config_found:
        config = ", which does not exist"
    _say(f"Host's config: {settings.config_file.value}{config}; ours: {settings.user_config_file.value}")
    for note in settings.diagnostics:
        _say(note.message)
    _say(f"Log: {logfile.log_path()}")
    handler = _Spoken(logging.INFO)
    root = logging.getLogger("lcm_core").parent
    assert root is not None
    before, begun = root.level, time.monotonic()
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    try:
        yield
    finally:
        root.removeHandler(handler)
        root.setLevel(before)
        _say(f"Took {time.monotonic() - begun:.2f} s.")


def with_unread(unread: Sequence[str], presentation: Presentation, call: Callable[[], Outcome]) -> Outcome:
    """Run a command and say once what of the configuration was *unread*: first, in JSON with its answer."""
    said = " ".join(unread)
    if not presentation.for_programs:
        _say(said)
        return call()
    try:
        outcome = call()
    except LcmError as error:
        error.details.setdefault("configProblems", said)
        raise
    if presentation.json and isinstance(outcome, Answer):
        ours = outcome.meta.get(OURS)
        ours = {**(ours if isinstance(ours, dict) else {}), "configProblems": list(unread)}
        return replace(outcome, meta={**outcome.meta, OURS: ours})
    _say(said)
    return outcome


def keep_unread_wal(settings: Settings, *, quiet: bool) -> None:
    """Keep a copy of a WAL that SQLite ignores in part, as the operator allowed, and say where it is.

    Raises:
        LcmError: it cannot be kept.
    """
    from lcm_core.change.connection import keep_wal

    kept = keep_wal(settings.database.value)
    if kept is not None and not quiet:
        _say(f"The WAL was copied to {kept} before the change.")


class _Spoken(logging.Handler):
    """Says on standard error what is logged."""

    def emit(self, record: logging.LogRecord) -> None:
        """Say one record, without the traceback: that is in the log."""
        _say(f"{record.levelname.lower()}: {record.getMessage()}")


def _say(text: str) -> None:
    output.write(sys.stderr, safe_line(text) + "\n", utf8=False)
