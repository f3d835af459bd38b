"""What ``--verbose`` adds, and ``report`` for bug reports."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lcm_core import __version__
from lcm_core.base.errors import LcmError
from lcm_core.base.files import FileNotWrittenError, reason_of, write_private
from lcm_core.base.setting_values import Json
from lcm_core.base.text import safe_line
from lcm_core.base.values import replace
from lcm_core.change.connection import keep_wal
from lcm_core.operations import report as reporting
from lcm_core.operations.report import machine
from lcm_core.store.database import Database
from lcm_host.checks import run_checks
from lcm_host.rows import TRIED_SCHEMA

from lcm_tui.cli import answer, output
from lcm_tui.cli.answer import Answer, Outcome, Run
from lcm_tui.cli.presentation import PROGRAM, Presentation
from lcm_tui.kit import logfile
from lcm_tui.tables.blocks import Facts, Note

if TYPE_CHECKING:
    from lcm_core.base.settings import Settings


# -- what --verbose adds ---------------------------------------------------------------------------------
# The versions in use, where things are, and how long it took.

#: Engines whose own databases the tests read, check and change (docs/engine/versions.md, "Tags").
ENGINES_TRIED: Final = ("0.1.2", "0.3.0", "0.8.2", "0.15.3", "1.0-next")


def versions() -> dict[str, Json]:
    """What the program runs on, by name."""
    found = machine()
    return {name: found[name] for name in ("python", "sqlite", "system", "packages")}


def version_lines() -> Sequence[str]:
    """The versions for people, with what was tried and where the log is."""
    found = versions()
    return (
        f"{PROGRAM}  {__version__}",
        f"Python   {found['python']}",
        f"SQLite   {found['sqlite']}",
        f"Textual  {metadata.version('textual')}",
        f"System   {found['system']}",
        f"Engines  tried with {', '.join(ENGINES_TRIED)}",
        f"Host     OpenClaw's databases up to schema {TRIED_SCHEMA}",
        f"Log      {logfile.log_path()}",
    )


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
        return replace(outcome, meta={**outcome.meta, "configProblems": list(unread)})
    _say(said)
    return outcome


def keep_unread_wal(settings: Settings, *, quiet: bool) -> None:
    """Keep a copy of a WAL that SQLite ignores in part, as the operator allowed, and say where it is.

    Raises:
        LcmError: it cannot be kept.
    """
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


# -- report ----------------------------------------------------------------------------------------------
# What a bug report needs, and nothing of what the database, the log or the settings say.

#: Larger files are not checked: the report is to be there at once.
CHECKED_BYTES = 500_000_000


def report(run: Run, to: Path | None) -> Answer:
    """Write it."""
    now = datetime.now(UTC)
    path = Path(f"lcm-tui-report-{now:%Y%m%dT%H%M%SZ}.json") if to is None else to
    parts: dict[str, Json] = {
        "machine": reporting.machine(),
        "settings": reporting.settings_masked(run.settings),
        "database": asyncio.run(_database(run)),
        "log": reporting.log_entries(logfile.log_path()),
    }
    document = reporting.report_document(parts, now)
    try:
        text = json.dumps(document, indent=2) + "\n"
        written = write_private(path, text, never=[run.settings.database.value])
    except FileNotWrittenError as error:
        if to is not None:
            raise
        why = reason_of(error.__cause__) if isinstance(error.__cause__, OSError) else "it is no folder"
        raise FileNotWrittenError(
            f"No report can be written to the current folder ({why}); name a file elsewhere with --to."
        ) from error
    facts = Facts([("Report", str(written)), ("Size", f"{written.stat().st_size:,} bytes")])
    note = Note("It contains no path, title, key or text. Check it before you send it.")
    data: dict[str, Json] = {"path": str(written), "bytes": written.stat().st_size}
    return run.answer("report", data, [facts, note])


async def _database(run: Run) -> Json:
    """The facts of the database, or why there are none."""
    try:
        async with await Database.open(
            run.settings.database.value, busy_seconds=answer.BUSY_SECONDS
        ) as database:
            facts = dict(await reporting.database_facts(database))
            size = facts["bytes"]
            if isinstance(size, int) and size <= CHECKED_BYTES:
                found = await run_checks(database, whole_file=False)
                facts["doctor"] = reporting.findings_counted(found)
            return facts
    except LcmError as error:
        return reporting.failure(error)
